//! Kubeconfigs: read, merged and chosen from as kubectl does it.
//!
//! It must not dial or run anything. Invariants: of two entries of one name the first file's counts,
//! whole; paths in a file are relative to it; what is wrong with a file is said without its content.

use std::path::{Path, PathBuf};

mod file;

use file::{AuthProvider, Cluster, File, User, UserExec};

use super::access::{self, Exec, ExecVersion, Impersonate, Material};
use super::classify::Failure;
use super::credentials::Chosen;
use super::material::{self, Named, unusable};
use crate::contract::Secret;

/// In which extension of a cluster its settings for exec plugins are.
const EXEC_EXTENSION: &str = "client.authentication.k8s.io/exec";

/// An entry, and the file it is from.
struct Entry<'a, T> {
    value: T,
    file: &'a Path,
}

/// The cluster and the user of a context. `paths` are searched in this order; of several, those that
/// do not exist are passed over. Blocks.
///
/// # Errors
/// Where a file cannot be read or is none, and where what is named is not in them.
pub(super) fn choose(paths: &[PathBuf], context: Option<&str>) -> Result<Chosen, Failure> {
    let mut files = Vec::new();
    for path in paths {
        match material::file(path) {
            Ok(bytes) => files.push((path.as_path(), parse(path, &bytes)?)),
            Err(why) if why.is_missing && paths.len() > 1 => {
                tracing::debug!(file = %path.display(), "the kubeconfig does not exist and is passed over");
            }
            Err(why) => {
                let failure = unusable(&format!("the kubeconfig {}", path.display()), why.text);
                return Err(match why.cause {
                    Some(cause) => failure.because(cause.to_string()),
                    None => failure,
                });
            }
        }
    }
    let told = told(paths);
    if files.is_empty() {
        return Err(unusable(&told, "none of them exists"));
    }
    let mut warnings = Vec::new();
    let name = match context {
        Some(context) => context.to_owned(),
        None => files
            .iter()
            .find_map(|(_, file)| nonempty(&file.current_context))
            .map(str::to_owned)
            .ok_or_else(|| unusable(&told, format!("it has no current context: {}", set_one(&files))))?,
    };
    let context = find(&files, "context", &name, &mut warnings, |file| {
        entries(&file.contexts, |named| (&named.name, &named.context))
    })
    .ok_or_else(|| unusable(&told, format!("it has no context {name:?}: {}", set_one(&files))))?;
    let cluster_name = nonempty(&context.value.cluster)
        .ok_or_else(|| unusable(&told, format!("its context {name:?} names no cluster")))?;
    let cluster = find(&files, "cluster", cluster_name, &mut warnings, |file| {
        entries(&file.clusters, |named| (&named.name, &named.cluster))
    })
    .ok_or_else(|| {
        unusable(
            &told,
            format!("its context {name:?} is for the cluster {cluster_name:?}, which it does not have"),
        )
    })?;
    let user = match nonempty(&context.value.user) {
        None => None,
        Some(user_name) => {
            let user = find(&files, "user", user_name, &mut warnings, |file| {
                entries(&file.users, |named| (&named.name, &named.user))
            })
            .ok_or_else(|| {
                unusable(
                    &told,
                    format!("its context {name:?} is for the user {user_name:?}, which it does not have"),
                )
            })?;
            Some((user_name, user))
        }
    };
    let mut chosen = of_cluster(cluster_name, &cluster)?;
    if let Some((user_name, user)) = user {
        of_user(user_name, &user, &mut chosen)?;
    }
    chosen.whence = format!("context {name:?} of {told}");
    chosen.warnings = warnings;
    Ok(chosen)
}

/// What the user called the files.
fn told(paths: &[PathBuf]) -> String {
    let names: Vec<_> = paths.iter().map(|path| path.display().to_string()).collect();
    match names.as_slice() {
        [one] => format!("the kubeconfig {one}"),
        several => format!("the kubeconfig made of {}", several.join(", ")),
    }
}

fn parse(path: &Path, bytes: &[u8]) -> Result<File, Failure> {
    let told = format!("the kubeconfig {}", path.display());
    let text = std::str::from_utf8(bytes).map_err(|_| unusable(&told, "it is no UTF-8 text"))?;
    let text = text.trim_start_matches('\u{feff}');
    if text.trim().is_empty() {
        return Ok(File::default());
    }
    // The parser's own words quote the line, and a token may be on it.
    let file: File = serde_saphyr::from_str(text).map_err(|error| {
        let place = error
            .location()
            .map_or_else(String::new, |location| format!(" (line {})", location.line()));
        unusable(&told, format!("it is no kubeconfig{place}"))
    })?;
    let is_config = nonempty(&file.kind).is_none_or(|kind| kind == "Config")
        && nonempty(&file.api_version).is_none_or(|version| version == "v1");
    if !is_config {
        return Err(unusable(
            &told,
            "it is no kubeconfig: its kind is not Config of version v1",
        ));
    }
    Ok(file)
}

fn nonempty(text: &Option<String>) -> Option<&str> {
    text.as_deref().filter(|text| !text.is_empty())
}

/// The entries of one sort in a file.
fn entries<'a, N, T: Clone + Default + 'a>(
    list: &'a Option<Vec<N>>,
    parts: impl Fn(&'a N) -> (&'a String, &'a Option<T>),
) -> Vec<(&'a str, T)> {
    let parts = list.iter().flatten().map(parts);
    parts
        .map(|(name, entry)| (name.as_str(), entry.clone().unwrap_or_default()))
        .collect()
}

/// The first entry of that name. A later one that says something else is told of: people expect
/// context, cluster and user to be those of one file.
fn find<'a, T: PartialEq>(
    files: &'a [(&'a Path, File)],
    sort: &str,
    name: &str,
    warnings: &mut Vec<String>,
    list: impl Fn(&'a File) -> Vec<(&'a str, T)>,
) -> Option<Entry<'a, T>> {
    let mut all = files.iter().flat_map(|(path, file)| {
        list(file)
            .into_iter()
            .filter(|(own, _)| *own == name)
            .map(|(_, value)| Entry { value, file: path })
    });
    let first = all.next()?;
    if let Some(other) = all.find(|other| other.value != first.value) {
        warnings.push(format!(
            "The {sort} {name:?} is both in {} and, different, in {}: the former counts, as with kubectl.",
            first.file.display(),
            other.file.display(),
        ));
    }
    Some(first)
}

/// What to do about a context.
fn set_one(files: &[(&Path, File)]) -> String {
    let mut names: Vec<_> = files
        .iter()
        .flat_map(|(_, file)| file.contexts.iter().flatten())
        .map(|named| named.name.as_str())
        .collect();
    names.dedup();
    if names.is_empty() {
        return "it has no contexts at all".to_owned();
    }
    format!("set context to one of {}", names.join(", "))
}

/// A path in a file, relative to it.
fn beside(file: &Path, path: &str) -> PathBuf {
    file.parent()
        .map_or_else(|| PathBuf::from(path), |folder| folder.join(path))
}

/// What is given as base64, else as a path.
fn material(
    label: impl Fn(&str) -> String,
    file: &Path,
    field: &str,
    data: &Option<String>,
    path: &Option<String>,
) -> Result<Option<Named>, Failure> {
    if let Some(data) = nonempty(data) {
        let name = label(&format!("{field}-data"));
        let decoded = material::decoded(data).ok_or_else(|| unusable(&name, "it is no base64 of PEM"))?;
        return Ok(Some(Named::new(name, Material::Inline(decoded))));
    }
    Ok(nonempty(path).map(|path| Named::new(label(field), Material::File(beside(file, path)))))
}

fn of_cluster(name: &str, cluster: &Entry<'_, Cluster>) -> Result<Chosen, Failure> {
    let Entry { value: entry, file } = cluster;
    let label = |field: &str| format!("{field} of the cluster {name:?} in {}", file.display());
    let server = nonempty(&entry.server).ok_or_else(|| {
        unusable(
            &label("server"),
            "it is not there: a cluster needs the URL of its API server",
        )
    })?;
    let server = access::server(server).map_err(|why| unusable(&label("server"), why))?;
    let mut chosen = Chosen::new(server);
    chosen.ca = material(
        label,
        file,
        "certificate-authority",
        &entry.certificate_authority_data,
        &entry.certificate_authority,
    )?;
    chosen.insecure = entry.insecure_skip_tls_verify == Some(true);
    chosen.server_name = nonempty(&entry.tls_server_name).map(str::to_owned);
    chosen.proxy = nonempty(&entry.proxy_url).map(|url| (label("proxy-url"), Secret::new(url)));
    chosen.exec_config = entry
        .extensions
        .iter()
        .flatten()
        .find(|extension| extension.name == EXEC_EXTENSION)
        .map(|extension| extension.extension.clone());
    Ok(chosen)
}

fn of_user(name: &str, user: &Entry<'_, User>, chosen: &mut Chosen) -> Result<(), Failure> {
    let Entry { value: entry, file } = user;
    let label = |field: &str| format!("{field} of the user {name:?} in {}", file.display());
    let inline =
        nonempty(&entry.token).map(|token| Named::new(label("token"), Material::Inline(Secret::new(token))));
    // As with kubectl: the file counts, and the token where the file cannot be read.
    let from_file = nonempty(&entry.token_file)
        .map(|path| Named::new(label("tokenFile"), Material::File(beside(file, path))));
    (chosen.token, chosen.spare_token) = match from_file {
        Some(from_file) => (Some(from_file), inline),
        None => (inline, None),
    };
    chosen.basic = nonempty(&entry.username).map(|user| {
        let password = entry.password.clone().unwrap_or_default();
        (label("username"), user.to_owned(), Secret::new(password))
    });
    let certificate = material(
        label,
        file,
        "client-certificate",
        &entry.client_certificate_data,
        &entry.client_certificate,
    )?;
    let key = material(
        label,
        file,
        "client-key",
        &entry.client_key_data,
        &entry.client_key,
    )?;
    chosen.identity = match (certificate, key) {
        (Some(certificate), Some(key)) => Some((certificate, key)),
        (None, None) => None,
        (Some(_), None) => {
            return Err(unusable(
                &label("client-certificate"),
                "its client-key is missing",
            ));
        }
        (None, Some(_)) => {
            return Err(unusable(
                &label("client-key"),
                "its client-certificate is missing",
            ));
        }
    };
    let groups = entry.as_groups.clone().unwrap_or_default();
    let extra = entry.as_user_extra.clone().unwrap_or_default();
    chosen.impersonate = match nonempty(&entry.as_user) {
        Some(user) => Some(Impersonate {
            user: Some(user.to_owned()),
            uid: nonempty(&entry.as_uid).map(str::to_owned),
            groups,
            extra,
        }),
        None if groups.is_empty() && extra.is_empty() && nonempty(&entry.as_uid).is_none() => None,
        None => {
            return Err(unusable(
                &label("as"),
                "it is not there: as-uid, as-groups and as-user-extra need a user beside them",
            ));
        }
    };
    // A token or a password is sent as it is; kubectl runs no plugin beside one.
    let needs_plugin = chosen.token.is_none() && chosen.basic.is_none();
    if let (Some(given), true) = (&entry.exec, needs_plugin) {
        chosen.exec = Some(exec(&label("exec"), file, given)?);
    } else if let (Some(provider), true) = (&entry.auth_provider, needs_plugin) {
        chosen.token = Some(provided(&label("auth-provider"), provider)?);
    }
    Ok(())
}

fn exec(label: &str, file: &Path, given: &UserExec) -> Result<Exec, Failure> {
    let version = nonempty(&given.api_version).ok_or_else(|| unusable(label, "its apiVersion is missing"))?;
    let version = ExecVersion::parse(version).ok_or_else(|| {
        unusable(
            label,
            format!(
                "its apiVersion {version:?} is neither {} nor {}: update the program and the kubeconfig",
                ExecVersion::V1.as_str(),
                ExecVersion::V1Beta1.as_str()
            ),
        )
    })?;
    if given.interactive_mode.as_deref() == Some("Always") {
        return Err(unusable(
            label,
            "its interactiveMode is Always, and a provider has no terminal: log in by other means",
        ));
    }
    let command = nonempty(&given.command).ok_or_else(|| unusable(label, "its command is missing"))?;
    let is_path = command.contains(std::path::is_separator);
    let variables = given.env.iter().flatten();
    Ok(Exec {
        version,
        command: if is_path {
            beside(file, command)
        } else {
            PathBuf::from(command)
        },
        args: given.args.clone().unwrap_or_default(),
        env: variables
            .map(|variable| (variable.name.clone(), Secret::new(variable.value.as_str())))
            .collect(),
        install_hint: nonempty(&given.install_hint).map(str::to_owned),
        wants_cluster: given.provide_cluster_info,
    })
}

/// The token that an auth provider left; those that kubectl does not know any more are refused.
fn provided(label: &str, provider: &AuthProvider) -> Result<Named, Failure> {
    if provider.name != "oidc" {
        return Err(unusable(
            label,
            format!(
                "kubectl has had no provider {:?} since 1.26: use an exec plugin, such as gke-gcloud-auth-plugin or kubelogin",
                provider.name
            ),
        ));
    }
    let token = provider.config.get("id-token").filter(|token| !token.is_empty());
    let token =
        token.ok_or_else(|| unusable(label, "it has no id-token: log in first, or use an exec plugin"))?;
    let name = format!("{label}, whose id-token is not renewed here,");
    Ok(Named::new(name, Material::Inline(Secret::new(token.as_str()))))
}

#[cfg(test)]
mod tests;

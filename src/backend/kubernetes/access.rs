//! How a backend reaches its API server and as whom, validated.
//!
//! It must not read files or dial. Invariants: there is exactly one way in, and nothing beside it
//! that would be ignored; a server is only what somebody named, never a default.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::config::ConfigProblem;
use crate::contract::Secret;

mod given;
mod url;

pub use given::{GivenAccess, GivenExec, Impersonate};
pub(super) use url::{proxy, server, server_name};

/// Where the variable `KUBECONFIG` and a list in `kubeconfig` separate their paths.
#[cfg(unix)]
const SEPARATOR: char = ':';
#[cfg(not(unix))]
const SEPARATOR: char = ';';
/// The kubeconfig in a home directory.
const HOME_KUBECONFIG: &str = ".kube/config";
/// What a Pod finds of its service account.
const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Something given as it is, or as the file that holds it.
#[derive(Clone, Debug)]
pub(super) enum Material {
    Inline(Secret),
    File(PathBuf),
}

/// The API of an exec plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExecVersion {
    V1,
    V1Beta1,
}

impl ExecVersion {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::V1 => "client.authentication.k8s.io/v1",
            Self::V1Beta1 => "client.authentication.k8s.io/v1beta1",
        }
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        [Self::V1, Self::V1Beta1]
            .into_iter()
            .find(|version| version.as_str() == text)
    }
}

/// A program that gives credentials.
#[derive(Clone, Debug)]
pub(super) struct Exec {
    pub(super) version: ExecVersion,
    /// With a separator in it a path, else looked for on `PATH`.
    pub(super) command: PathBuf,
    pub(super) args: Vec<String>,
    pub(super) env: BTreeMap<String, Secret>,
    /// What its author says of how to install it.
    pub(super) install_hint: Option<String>,
    /// Whether it wants to know the cluster.
    pub(super) wants_cluster: bool,
}

/// An API server and credentials for it, as the block names them.
#[derive(Clone, Debug)]
pub(super) struct Host {
    pub(super) server: http::Uri,
    pub(super) ca: Option<Material>,
    pub(super) token: Option<Material>,
    pub(super) identity: Option<(Material, Material)>,
    pub(super) exec: Option<Exec>,
}

/// The one way in.
#[derive(Clone, Debug)]
pub(super) enum Source {
    /// These files.
    Kubeconfig {
        paths: Vec<PathBuf>,
        context: Option<String>,
    },
    /// The service account of the Pod this runs in.
    InCluster,
    /// This server.
    Host(Box<Host>),
    /// Nothing was named: `KUBECONFIG`, then the file in the home directory, then the service
    /// account, whichever is there.
    Usual { context: Option<String> },
}

/// What counts beside the block.
#[derive(Clone, Debug)]
pub(super) struct Surroundings {
    /// The paths in `KUBECONFIG`.
    pub(super) kubeconfig: Vec<PathBuf>,
    /// The kubeconfig in the home directory, where there is one.
    pub(super) home_kubeconfig: Option<PathBuf>,
    /// The API server that a Pod's environment names: host and port.
    pub(super) service: Option<(String, String)>,
    /// What a Pod finds of its service account.
    pub(super) service_account: PathBuf,
    /// The proxies that the environment names.
    pub(super) proxies: EnvironmentProxies,
}

/// The proxies that the environment names, as every program takes them.
#[derive(Clone, Debug, Default)]
pub(super) struct EnvironmentProxies {
    pub(super) http: Option<Secret>,
    pub(super) https: Option<Secret>,
    pub(super) none: Option<String>,
}

/// How a backend reaches its API server, and as whom.
#[derive(Clone, Debug)]
pub(super) struct Access {
    pub(super) source: Source,
    /// Beats what a kubeconfig says, as do the next three.
    pub(super) proxy: Option<Secret>,
    pub(super) tls_server_name: Option<String>,
    pub(super) insecure: Option<bool>,
    pub(super) impersonate: Option<Impersonate>,
    pub(super) surroundings: Surroundings,
}

impl Access {
    /// The cluster, as far as that is known without reading anything.
    pub(super) fn place(&self) -> String {
        let within = |place: String, context: &Option<String>| match context {
            Some(context) => format!("{place}, context {context:?}"),
            None => place,
        };
        match &self.source {
            Source::Kubeconfig { paths, context } => {
                let paths: Vec<_> = paths.iter().map(|path| path.display().to_string()).collect();
                within(paths.join(", "), context)
            }
            Source::InCluster => "the cluster of this Pod".to_owned(),
            Source::Host(host) => host.server.to_string().trim_end_matches('/').to_owned(),
            Source::Usual { context } => within("the usual kubeconfig".to_owned(), context),
        }
    }
}

/// Checks the arguments; problems are added to `problems`, and `None` is returned with one at least.
pub(super) fn validate(
    given: GivenAccess,
    environment: impl Fn(&str) -> Option<OsString>,
    problems: &mut Vec<ConfigProblem>,
) -> Option<Access> {
    let variable = |name: &str| environment(name).filter(|value| !value.is_empty());
    let home = variable("HOME").map(PathBuf::from);
    let before = problems.len();
    let mut refuse = |argument, message: String| problems.push(ConfigProblem::new(argument, message));
    let path = |argument: &'static str, text: &str, refuse: &mut dyn FnMut(&'static str, String)| {
        if text.is_empty() {
            refuse(argument, "it is empty: leave it out, or name a path".to_owned());
            return None;
        }
        match expanded(text, home.as_deref()) {
            Some(path) => Some(path),
            None => {
                refuse(
                    argument,
                    format!(
                        "{text:?} begins with the home directory, and HOME is not set: write the whole path"
                    ),
                );
                None
            }
        }
    };

    if !given.partly_unknown {
        for (argument, message) in given::contradictions(&given) {
            refuse(argument, message);
        }
    }
    let file = |argument, text: Option<&String>, refuse: &mut dyn FnMut(&'static str, String)| {
        text.and_then(|text| path(argument, text, refuse))
            .map(Material::File)
    };
    let inline = |argument, text: Option<&Secret>, refuse: &mut dyn FnMut(&'static str, String)| {
        let text = text?;
        if text.expose().trim().is_empty() {
            refuse(argument, "it is empty: leave it out, or set it".to_owned());
            return None;
        }
        Some(Material::Inline(text.clone()))
    };
    let secret = |text: &Option<String>| text.clone().map(Secret::new);

    let token = inline("token", given.token.as_ref(), &mut refuse).or(file(
        "token_file",
        given.token_file.as_ref(),
        &mut refuse,
    ));
    let ca = inline(
        "ca_certificate",
        secret(&given.ca_certificate).as_ref(),
        &mut refuse,
    )
    .or(file("ca_file", given.ca_file.as_ref(), &mut refuse));
    let certificate = inline(
        "client_certificate",
        secret(&given.client_certificate).as_ref(),
        &mut refuse,
    )
    .or(file(
        "client_certificate_file",
        given.client_certificate_file.as_ref(),
        &mut refuse,
    ));
    let key = inline("client_key", given.client_key.as_ref(), &mut refuse).or(file(
        "client_key_file",
        given.client_key_file.as_ref(),
        &mut refuse,
    ));
    let exec = given
        .exec
        .as_ref()
        .and_then(|given| exec(given, home.as_deref(), &mut refuse));
    let server = given.host.as_deref().and_then(|host| match server(host) {
        Ok(server) => Some(server),
        Err(message) => {
            refuse("host", message);
            None
        }
    });
    if let Some(url) = &given.proxy_url
        && let Err(message) = proxy(url.expose())
    {
        refuse("proxy_url", message);
    }
    if given
        .tls_server_name
        .as_deref()
        .is_some_and(|name| server_name(name).is_none())
    {
        refuse(
            "tls_server_name",
            "it is neither a DNS name nor an IP address: write the name that is in the server's certificate"
                .to_owned(),
        );
    }
    if let Some(impersonate) = &given.impersonate
        && let Err((argument, message)) = check_impersonation(impersonate, given.partly_unknown)
    {
        refuse(argument, message);
    }
    let kubeconfig: Option<Vec<PathBuf>> = given.kubeconfig.as_ref().map(|list| {
        let paths: Vec<_> = list
            .split(SEPARATOR)
            .filter(|part| !part.is_empty())
            .filter_map(|part| path("kubeconfig", part, &mut refuse))
            .collect();
        if list.split(SEPARATOR).all(str::is_empty) {
            refuse(
                "kubeconfig",
                "it is empty: leave it out, or name a path".to_owned(),
            );
        }
        paths
    });
    if given.context.as_deref() == Some("") {
        refuse(
            "context",
            "it is empty: leave it out, or name a context".to_owned(),
        );
    }
    let source = match (kubeconfig, given.in_cluster, server) {
        (Some(paths), _, _) => Source::Kubeconfig {
            paths,
            context: given.context,
        },
        (None, Some(true), _) => Source::InCluster,
        (None, _, Some(server)) => Source::Host(Box::new(Host {
            server,
            ca,
            token,
            identity: certificate.zip(key),
            exec,
        })),
        (None, _, None) => Source::Usual {
            context: given.context,
        },
    };
    let service = variable("KUBERNETES_SERVICE_HOST").zip(variable("KUBERNETES_SERVICE_PORT"));
    let text = |value: OsString| value.to_string_lossy().into_owned();
    let either = |upper: &str, lower: &str| variable(lower).or_else(|| variable(upper)).map(text);
    (problems.len() == before).then(|| Access {
        source,
        proxy: given.proxy_url,
        tls_server_name: given.tls_server_name,
        insecure: given.insecure,
        impersonate: given.impersonate,
        surroundings: Surroundings {
            kubeconfig: variable("KUBECONFIG")
                .map(|list| {
                    std::env::split_paths(&list)
                        .filter(|path| !path.as_os_str().is_empty())
                        .collect()
                })
                .unwrap_or_default(),
            home_kubeconfig: home.map(|home| home.join(HOME_KUBECONFIG)),
            service: service.map(|(host, port)| (text(host), text(port))),
            service_account: PathBuf::from(SERVICE_ACCOUNT),
            proxies: EnvironmentProxies {
                http: either("HTTP_PROXY", "http_proxy").map(Secret::new),
                https: either("HTTPS_PROXY", "https_proxy").map(Secret::new),
                none: either("NO_PROXY", "no_proxy"),
            },
        },
    })
}

/// A path with the home directory filled in; `None` where that is not known.
pub(super) fn expanded(text: &str, home: Option<&Path>) -> Option<PathBuf> {
    match text.strip_prefix("~/") {
        Some(rest) => home.map(|home| home.join(rest)),
        None => Some(PathBuf::from(text)),
    }
}

fn exec(
    given: &GivenExec,
    home: Option<&Path>,
    refuse: &mut dyn FnMut(&'static str, String),
) -> Option<Exec> {
    let version = match given.api_version.as_deref() {
        None => Some(ExecVersion::V1),
        Some(text) => {
            let version = ExecVersion::parse(text);
            if version.is_none() {
                refuse(
                    "exec.api_version",
                    format!(
                        "{text:?} is neither {:?} nor {:?}",
                        ExecVersion::V1.as_str(),
                        ExecVersion::V1Beta1.as_str()
                    ),
                );
            }
            version
        }
    };
    let command = given.command.as_deref().filter(|command| !command.is_empty())?;
    Some(Exec {
        version: version?,
        command: expanded(command, home).unwrap_or_else(|| PathBuf::from(command)),
        args: given.args.clone(),
        env: given.env.clone(),
        install_hint: None,
        wants_cluster: false,
    })
}

fn check_impersonation(given: &Impersonate, partly_unknown: bool) -> Result<(), (&'static str, String)> {
    if given.user.as_deref().is_none_or(str::is_empty) && !partly_unknown {
        return Err((
            "impersonate.user",
            "the API server takes groups, uid and extra only beside a user: set user".to_owned(),
        ));
    }
    let sendable = |text: &str| http::HeaderValue::from_str(text).is_ok();
    let texts = given.user.iter().chain(&given.uid).chain(&given.groups);
    for text in texts.chain(given.extra.values().flatten()) {
        if !sendable(text) {
            return Err((
                "impersonate",
                format!("{text:?} cannot be sent in a header: it has control characters"),
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;

//! Credentials, from whichever way in was configured to something that can be dialled with.
//!
//! It must not dial. Invariants: an API server is only one that was named; what is given is used or
//! refused, never passed over.

use http::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use jiff::Timestamp;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use sha2::{Digest as _, Sha256};

use super::access::{self, Access, Exec, Impersonate, Material, Source, Surroundings};
use super::classify::Failure;
use super::material::{self, Named, unusable};
use super::proxy::Proxy;
use super::{exec, kubeconfig};
use crate::contract::Secret;
use crate::transport::call;

/// What a way in names; nothing of it but the kubeconfig itself has been read.
#[derive(Clone, Debug)]
pub(super) struct Chosen {
    /// What a person calls it.
    pub(super) whence: String,
    pub(super) server: http::Uri,
    pub(super) ca: Option<Named>,
    pub(super) insecure: bool,
    pub(super) server_name: Option<String>,
    /// What names the proxy, and its URL.
    pub(super) proxy: Option<(String, Secret)>,
    pub(super) token: Option<Named>,
    /// Counts where the token cannot be read.
    pub(super) spare_token: Option<Named>,
    /// What names the user, the user, the password.
    pub(super) basic: Option<(String, String, Secret)>,
    pub(super) identity: Option<(Named, Named)>,
    pub(super) exec: Option<Exec>,
    /// What the cluster has for exec plugins.
    pub(super) exec_config: Option<serde_json::Value>,
    pub(super) impersonate: Option<Impersonate>,
    pub(super) warnings: Vec<String>,
}

impl Chosen {
    pub(super) fn new(server: http::Uri) -> Self {
        Self {
            whence: String::new(),
            server,
            ca: None,
            insecure: false,
            server_name: None,
            proxy: None,
            token: None,
            spare_token: None,
            basic: None,
            identity: None,
            exec: None,
            exec_config: None,
            impersonate: None,
            warnings: Vec::new(),
        }
    }
}

/// Whom the certificate of an API server must be from.
#[derive(Debug)]
pub(super) enum Trust {
    /// One of these authorities.
    These(Vec<CertificateDer<'static>>),
    /// One that this machine trusts.
    Machine,
    /// Anybody.
    Anybody,
}

/// A client certificate with its key.
#[derive(Debug)]
pub(super) struct Identity {
    pub(super) name: String,
    pub(super) chain: Vec<CertificateDer<'static>>,
    pub(super) key: PrivateKeyDer<'static>,
}

/// Everything that dialling takes.
pub(super) struct Credentials {
    pub(super) server: http::Uri,
    pub(super) server_name: Option<ServerName<'static>>,
    pub(super) trust: Trust,
    pub(super) proxy: Option<Proxy>,
    pub(super) identity: Option<Identity>,
    /// What goes with every request: who we are, and whom to take us for.
    pub(super) headers: HeaderMap,
    /// When they have to be had anew.
    pub(super) expires: Option<Timestamp>,
    /// What a person calls them.
    pub(super) whose: String,
    pub(super) warnings: Vec<String>,
}

impl Credentials {
    /// The SHA-256 of the authorities, in hex.
    pub(super) fn ca_sha256(&self) -> Option<String> {
        let Trust::These(authorities) = &self.trust else {
            return None;
        };
        let mut hash = Sha256::new();
        for authority in authorities {
            hash.update(authority);
        }
        Some(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// A hash over everything that an API server could judge differently.
    pub(super) fn fingerprint(&self) -> [u8; 32] {
        let mut hash = Sha256::new();
        let mut add = |bytes: &[u8]| {
            hash.update(bytes.len().to_be_bytes());
            hash.update(bytes);
        };
        add(self.server.to_string().as_bytes());
        add(self.ca_sha256().unwrap_or_default().as_bytes());
        for (name, value) in &self.headers {
            add(name.as_str().as_bytes());
            add(value.as_bytes());
        }
        if let Some(identity) = &self.identity {
            identity.chain.iter().for_each(|certificate| add(certificate));
            add(identity.key.secret_der());
        }
        hash.finalize().into()
    }
}

/// Reads what was configured, and runs the plugin where there is one.
///
/// # Errors
/// Where something is missing or cannot be used.
pub(super) async fn obtain(access: &Access) -> Result<Credentials, Failure> {
    let access = access.clone();
    let (mut credentials, plugin) = call::blocking(move || read(&access))
        .await
        .map_err(|_lost| Failure::credentials("the credentials could not be read"))??;
    if let Some((plugin, cluster)) = plugin {
        let given = exec::run(&plugin, cluster).await?;
        credentials.expires = given.expires;
        if let Some(token) = given.token {
            credentials.headers.insert(AUTHORIZATION, token);
        }
        if let Some(identity) = given.identity {
            credentials.identity = Some(identity);
        }
        credentials.whose = given.whose;
    }
    Ok(credentials)
}

/// An exec plugin, and what it wants to know of the cluster.
type Plugin = (Exec, Option<serde_json::Value>);

fn read(access: &Access) -> Result<(Credentials, Option<Plugin>), Failure> {
    let mut chosen = choose(access)?;
    let secure = chosen.server.scheme_str() == Some("https");
    // The block's own arguments beat those of a kubeconfig.
    match access.insecure {
        Some(true) => {
            chosen.insecure = true;
            chosen.ca = None;
        }
        Some(false) => chosen.insecure = false,
        None => {}
    }
    if chosen.insecure && chosen.ca.is_some() {
        return Err(unusable(
            &chosen.whence,
            "it gives a certificate-authority and switches off its use with insecure-skip-tls-verify: remove one of them",
        ));
    }
    if let Some(name) = &access.tls_server_name {
        chosen.server_name = Some(name.clone());
    }
    if let Some(url) = &access.proxy {
        chosen.proxy = Some(("proxy_url".to_owned(), url.clone()));
    }
    if let Some(impersonate) = &access.impersonate {
        chosen.impersonate = Some(impersonate.clone());
    }
    let mut warnings = std::mem::take(&mut chosen.warnings);
    if chosen.insecure && secure {
        warnings.push(format!(
            "The certificate of the API server {} is not checked (insecure): anyone in between can read the credentials and change what is asked for.",
            chosen.server
        ));
    }
    let server_name = match &chosen.server_name {
        Some(name) => Some(
            access::server_name(name)
                .ok_or_else(|| unusable("tls-server-name", "it is neither a DNS name nor an IP address"))?,
        ),
        None => None,
    };
    let authority = chosen.ca.as_ref().map(Named::certificates).transpose()?;
    let proxy = match &chosen.proxy {
        Some((name, url)) => Some(Proxy::parse(name, url)?),
        None => Proxy::of_environment(&access.surroundings.proxies, &chosen.server)?,
    };
    let plugin = chosen.exec.clone().map(|exec| {
        let wants = exec.wants_cluster;
        (exec, wants.then(|| cluster_info(&chosen, authority.as_deref())))
    });
    let mut headers = HeaderMap::new();
    let mut whose = "no credentials at all".to_owned();
    let identity = match &chosen.identity {
        Some((certificate, key)) => {
            whose = certificate.place();
            Some(Identity {
                name: certificate.place(),
                chain: certificate.certificates()?,
                key: key.key()?,
            })
        }
        None => None,
    };
    if let Some((name, user, password)) = &chosen.basic {
        let value = material::basic(user, password).ok_or_else(|| unusable(name, "it cannot be sent"))?;
        headers.insert(AUTHORIZATION, value);
        whose.clone_from(name);
    }
    if let Some(token) = &chosen.token {
        let (token, value) = match (token.bearer(), &chosen.spare_token) {
            (Ok(value), _) => (token, value),
            (Err(_), Some(spare)) => (spare, spare.bearer()?),
            (Err(failure), None) => return Err(failure),
        };
        headers.insert(AUTHORIZATION, value);
        whose = token.place();
    }
    if !secure && (!headers.is_empty() || plugin.is_some()) && !is_loopback(&chosen.server) {
        warnings.push(format!(
            "The API server {} is spoken to without TLS: anyone in between can read the credentials.",
            chosen.server
        ));
    }
    impersonation(chosen.impersonate.as_ref(), &mut headers)?;
    let credentials = Credentials {
        server: chosen.server,
        server_name,
        trust: match (chosen.insecure, authority) {
            (true, _) => Trust::Anybody,
            (false, Some(authorities)) => Trust::These(authorities),
            (false, None) => Trust::Machine,
        },
        proxy,
        identity,
        headers,
        expires: None,
        whose,
        warnings,
    };
    Ok((credentials, plugin))
}

fn choose(access: &Access) -> Result<Chosen, Failure> {
    match &access.source {
        Source::Kubeconfig { paths, context } => kubeconfig::choose(paths, context.as_deref()),
        Source::InCluster => service_account(&access.surroundings),
        Source::Host(host) => {
            let mut chosen = Chosen::new(host.server.clone());
            let named = |inline: &str, file: &str, material: &Material| {
                let name = match material {
                    Material::Inline(_) => inline,
                    Material::File(_) => file,
                };
                Named::new(name, material.clone())
            };
            chosen.whence = "host".to_owned();
            chosen.ca = host.ca.as_ref().map(|ca| named("ca_certificate", "ca_file", ca));
            chosen.token = host
                .token
                .as_ref()
                .map(|token| named("token", "token_file", token));
            chosen.identity = host.identity.as_ref().map(|(certificate, key)| {
                (
                    named("client_certificate", "client_certificate_file", certificate),
                    named("client_key", "client_key_file", key),
                )
            });
            chosen.exec.clone_from(&host.exec);
            Ok(chosen)
        }
        Source::Usual { context } => usual(&access.surroundings, context.as_deref()),
    }
}

/// What kubectl would take where nothing is said, but never a server that nobody named.
fn usual(surroundings: &Surroundings, context: Option<&str>) -> Result<Chosen, Failure> {
    if !surroundings.kubeconfig.is_empty() {
        return kubeconfig::choose(&surroundings.kubeconfig, context);
    }
    let home = surroundings.home_kubeconfig.as_ref();
    if let Some(path) = home.filter(|path| path.exists()) {
        return kubeconfig::choose(std::slice::from_ref(path), context);
    }
    if context.is_none()
        && surroundings.service.is_some()
        && surroundings.service_account.join("token").exists()
    {
        return service_account(surroundings);
    }
    let home = match home {
        Some(path) => format!("{} does not exist", path.display()),
        None => "there is no home directory".to_owned(),
    };
    Err(Failure::credentials(format!(
        "no cluster is configured: set kubeconfig, or host, or in_cluster (KUBECONFIG is not set, {home}, and this does not run in a Pod)"
    )))
}

fn service_account(surroundings: &Surroundings) -> Result<Chosen, Failure> {
    let Some((host, port)) = &surroundings.service else {
        return Err(Failure::credentials(
            "in_cluster is set, but the environment has no KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT: this does not run in a Pod; set kubeconfig or host instead",
        ));
    };
    let host = if host.contains(':') {
        format!("[{host}]")
    } else {
        host.clone()
    };
    let server = access::server(&format!("https://{host}:{port}"))
        .map_err(|why| unusable("KUBERNETES_SERVICE_HOST", why))?;
    let file = |name: &str, file: &str| {
        Some(Named::new(
            name,
            Material::File(surroundings.service_account.join(file)),
        ))
    };
    let mut chosen = Chosen::new(server);
    chosen.whence = "the service account of this Pod".to_owned();
    chosen.ca = file("the service account's authority", "ca.crt");
    chosen.token = file("the service account's token", "token");
    Ok(chosen)
}

fn is_loopback(server: &http::Uri) -> bool {
    let host = server.host().unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost"
        || host
            .parse::<std::net::IpAddr>()
            .is_ok_and(|address| address.is_loopback())
}

/// What an exec plugin that asks for it is told of the cluster.
fn cluster_info(chosen: &Chosen, authority: Option<&[CertificateDer<'static>]>) -> serde_json::Value {
    let mut info = serde_json::Map::new();
    info.insert("server".to_owned(), chosen.server.to_string().into());
    if let Some(name) = &chosen.server_name {
        info.insert("tls-server-name".to_owned(), name.as_str().into());
    }
    if chosen.insecure {
        info.insert("insecure-skip-tls-verify".to_owned(), true.into());
    }
    if let Some(authority) = authority {
        info.insert(
            "certificate-authority-data".to_owned(),
            material::encoded(authority).into(),
        );
    }
    if let Some((_, url)) = &chosen.proxy {
        info.insert("proxy-url".to_owned(), url.expose().into());
    }
    if let Some(config) = &chosen.exec_config {
        info.insert("config".to_owned(), config.clone());
    }
    info.into()
}

/// The headers that say whom to take us for.
fn impersonation(given: Option<&Impersonate>, headers: &mut HeaderMap) -> Result<(), Failure> {
    let Some(given) = given else { return Ok(()) };
    let invalid = || unusable("impersonate", "it has characters that no header can carry");
    let mut add = |name: HeaderName, value: &str| -> Result<(), Failure> {
        headers.append(name, HeaderValue::from_str(value).map_err(|_| invalid())?);
        Ok(())
    };
    if let Some(user) = &given.user {
        add(HeaderName::from_static("impersonate-user"), user)?;
    }
    if let Some(uid) = &given.uid {
        add(HeaderName::from_static("impersonate-uid"), uid)?;
    }
    for group in &given.groups {
        add(HeaderName::from_static("impersonate-group"), group)?;
    }
    for (key, values) in &given.extra {
        let name = format!("impersonate-extra-{}", escaped(key));
        let name = HeaderName::try_from(name).map_err(|_| invalid())?;
        for value in values {
            add(name.clone(), value)?;
        }
    }
    Ok(())
}

/// A key as part of a header's name: what cannot be in one, and `%` itself, is percent-encoded.
fn escaped(key: &str) -> String {
    key.bytes()
        .map(|byte| match byte {
            b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => char::from(byte).to_string(),
            b'!' | b'#' | b'$' | b'&' | b'\'' | b'*' | b'+' | b'-' | b'.' | b'^' | b'_' | b'`' | b'|'
            | b'~' => char::from(byte).to_string(),
            other => format!("%{other:02X}"),
        })
        .collect()
}

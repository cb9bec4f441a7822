//! The arguments of a way in as they were written, and which of them cannot stand beside each other.
//!
//! It must not know what they mean. Invariant: what is not known yet contradicts nothing.

use std::collections::BTreeMap;

use crate::contract::Secret;

/// The arguments as they were written: what was left out, or is not known yet, is `None`.
#[derive(Clone, Debug, Default)]
pub struct GivenAccess {
    /// Whether some argument is not known yet, so that nothing can be said of what is missing.
    pub partly_unknown: bool,
    /// One path, or several separated as in `KUBECONFIG`.
    pub kubeconfig: Option<String>,
    /// The context of the kubeconfig.
    pub context: Option<String>,
    /// Whether this runs in a Pod of the cluster.
    pub in_cluster: Option<bool>,
    /// The URL of the API server.
    pub host: Option<String>,
    /// A bearer token.
    pub token: Option<Secret>,
    /// A file with one.
    pub token_file: Option<String>,
    /// The authority's certificates, PEM.
    pub ca_certificate: Option<String>,
    /// A file with them.
    pub ca_file: Option<String>,
    /// The client's certificates, PEM.
    pub client_certificate: Option<String>,
    /// A file with them.
    pub client_certificate_file: Option<String>,
    /// Their key, PEM.
    pub client_key: Option<Secret>,
    /// A file with it.
    pub client_key_file: Option<String>,
    /// A program that gives credentials.
    pub exec: Option<GivenExec>,
    /// Whom to act as.
    pub impersonate: Option<Impersonate>,
    /// The proxy to the API server.
    pub proxy_url: Option<Secret>,
    /// The name in the API server's certificate.
    pub tls_server_name: Option<String>,
    /// Whether to accept any certificate.
    pub insecure: Option<bool>,
}

/// The block `exec` as it was written.
#[derive(Clone, Debug, Default)]
pub struct GivenExec {
    /// The version of the API it speaks.
    pub api_version: Option<String>,
    /// The program.
    pub command: Option<String>,
    /// Its arguments.
    pub args: Vec<String>,
    /// What its environment has beside ours.
    pub env: BTreeMap<String, Secret>,
}

/// Whom the API server shall take us for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Impersonate {
    /// The user.
    pub user: Option<String>,
    /// The user's uid.
    pub uid: Option<String>,
    /// The user's groups.
    pub groups: Vec<String>,
    /// What else is known of the user.
    pub extra: BTreeMap<String, Vec<String>>,
}

/// Arguments that cannot stand beside each other, or that want for another.
pub(super) fn contradictions(given: &GivenAccess) -> Vec<(&'static str, String)> {
    let mut found = Vec::new();
    let in_cluster = given.in_cluster == Some(true);
    let ways: Vec<_> = [
        ("kubeconfig", given.kubeconfig.is_some()),
        ("in_cluster", in_cluster),
        ("host", given.host.is_some()),
    ]
    .into_iter()
    .filter_map(|(name, is_given)| is_given.then_some(name))
    .collect();
    if let [first, rest @ ..] = ways.as_slice() {
        for other in rest {
            found.push((
                *other,
                format!("{first} and {other} are two ways to the API server: leave one of them out"),
            ));
        }
    }
    if given.context.is_some() && (in_cluster || given.host.is_some()) {
        found.push((
            "context",
            "only a kubeconfig has contexts: leave it out, or name a kubeconfig".to_owned(),
        ));
    }
    for (argument, is_given) in [
        ("token", given.token.is_some()),
        ("token_file", given.token_file.is_some()),
        ("ca_certificate", given.ca_certificate.is_some()),
        ("ca_file", given.ca_file.is_some()),
        ("client_certificate", given.client_certificate.is_some()),
        ("client_certificate_file", given.client_certificate_file.is_some()),
        ("client_key", given.client_key.is_some()),
        ("client_key_file", given.client_key_file.is_some()),
        ("exec", given.exec.is_some()),
    ] {
        if is_given && given.host.is_none() {
            found.push((
                argument,
                format!("{argument} belongs to host, which is not given: name the API server's URL there, or leave {argument} out"),
            ));
        }
    }
    for (one, other, both) in [
        (
            "token",
            "token_file",
            given.token.is_some() && given.token_file.is_some(),
        ),
        (
            "ca_certificate",
            "ca_file",
            given.ca_certificate.is_some() && given.ca_file.is_some(),
        ),
        (
            "client_certificate",
            "client_certificate_file",
            given.client_certificate.is_some() && given.client_certificate_file.is_some(),
        ),
        (
            "client_key",
            "client_key_file",
            given.client_key.is_some() && given.client_key_file.is_some(),
        ),
        (
            "exec",
            "token or token_file",
            given.exec.is_some() && (given.token.is_some() || given.token_file.is_some()),
        ),
        (
            "insecure",
            "ca_certificate or ca_file",
            given.insecure == Some(true) && (given.ca_certificate.is_some() || given.ca_file.is_some()),
        ),
    ] {
        if both {
            found.push((
                one,
                format!("{one} and {other} are both given: leave one of them out"),
            ));
        }
    }
    let certificate = given.client_certificate.is_some() || given.client_certificate_file.is_some();
    let key = given.client_key.is_some() || given.client_key_file.is_some();
    if certificate && !key {
        found.push((
            "client_certificate",
            "a client certificate needs its key: set client_key or client_key_file".to_owned(),
        ));
    }
    if key && !certificate {
        found.push((
            "client_key",
            "a client key needs its certificate: set client_certificate or client_certificate_file"
                .to_owned(),
        ));
    }
    found
}

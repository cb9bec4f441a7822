//! What a kubeconfig holds, as far as it matters here.
//!
//! It must not know what is done with it. Invariant: what may be a secret shows in no debug output.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct File {
    pub(super) kind: Option<String>,
    #[serde(rename = "apiVersion")]
    pub(super) api_version: Option<String>,
    #[serde(rename = "current-context")]
    pub(super) current_context: Option<String>,
    pub(super) clusters: Option<Vec<NamedCluster>>,
    pub(super) users: Option<Vec<NamedUser>>,
    pub(super) contexts: Option<Vec<NamedContext>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct NamedCluster {
    pub(super) name: String,
    #[serde(default)]
    pub(super) cluster: Option<Cluster>,
}

#[derive(Debug, Deserialize)]
pub(super) struct NamedUser {
    pub(super) name: String,
    #[serde(default)]
    pub(super) user: Option<User>,
}

#[derive(Debug, Deserialize)]
pub(super) struct NamedContext {
    pub(super) name: String,
    #[serde(default)]
    pub(super) context: Option<Context>,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default, rename_all = "kebab-case")]
pub(super) struct Cluster {
    pub(super) server: Option<String>,
    pub(super) insecure_skip_tls_verify: Option<bool>,
    pub(super) certificate_authority: Option<String>,
    pub(super) certificate_authority_data: Option<String>,
    pub(super) proxy_url: Option<String>,
    pub(super) tls_server_name: Option<String>,
    pub(super) disable_compression: Option<bool>,
    pub(super) extensions: Option<Vec<Extension>>,
}

#[derive(Clone, Debug, Deserialize, PartialEq)]
pub(super) struct Extension {
    pub(super) name: String,
    #[serde(default)]
    pub(super) extension: serde_json::Value,
}

#[derive(Clone, Default, Deserialize, PartialEq)]
#[serde(default, rename_all = "kebab-case")]
pub(super) struct User {
    pub(super) token: Option<String>,
    #[serde(rename = "tokenFile")]
    pub(super) token_file: Option<String>,
    pub(super) username: Option<String>,
    pub(super) password: Option<String>,
    pub(super) client_certificate: Option<String>,
    pub(super) client_certificate_data: Option<String>,
    pub(super) client_key: Option<String>,
    pub(super) client_key_data: Option<String>,
    #[serde(rename = "as")]
    pub(super) as_user: Option<String>,
    pub(super) as_uid: Option<String>,
    pub(super) as_groups: Option<Vec<String>>,
    pub(super) as_user_extra: Option<BTreeMap<String, Vec<String>>>,
    pub(super) exec: Option<UserExec>,
    pub(super) auth_provider: Option<AuthProvider>,
}

impl fmt::Debug for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("User").finish_non_exhaustive()
    }
}

#[derive(Clone, Default, Deserialize, PartialEq)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct UserExec {
    pub(super) api_version: Option<String>,
    pub(super) command: Option<String>,
    pub(super) args: Option<Vec<String>>,
    pub(super) env: Option<Vec<Variable>>,
    pub(super) install_hint: Option<String>,
    pub(super) interactive_mode: Option<String>,
    pub(super) provide_cluster_info: bool,
}

#[derive(Clone, Deserialize, PartialEq)]
pub(super) struct Variable {
    pub(super) name: String,
    #[serde(default)]
    pub(super) value: String,
}

#[derive(Clone, Deserialize, PartialEq)]
pub(super) struct AuthProvider {
    pub(super) name: String,
    #[serde(default)]
    pub(super) config: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub(super) struct Context {
    pub(super) cluster: Option<String>,
    pub(super) user: Option<String>,
}

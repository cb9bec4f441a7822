//! What the API server was asked, from its own audit log.

use std::path::PathBuf;

use serde_json::Value;

/// Every request, without bodies and without those of the cluster's own components.
pub(super) const POLICY: &str = "\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
  - level: None
    userGroups: [system:nodes, system:serviceaccounts:kube-system]
  - level: None
    users: [system:apiserver, system:kube-controller-manager, system:kube-scheduler, system:kube-proxy]
  - level: Metadata
";

/// One request that was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, …
    pub(crate) verb: String,
    /// Path and query.
    pub(crate) uri: String,
    /// The resource's plural name; empty for what is no resource.
    pub(crate) resource: String,
    pub(crate) user: String,
    pub(crate) agent: String,
    /// The status code.
    pub(crate) code: u64,
}

impl Asked {
    fn read(line: &str) -> Self {
        let event: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Self {
            verb: text(&event["verb"]),
            uri: text(&event["requestURI"]),
            resource: text(&event["objectRef"]["resource"]),
            user: text(&event["user"]["username"]),
            agent: text(&event["userAgent"]),
            code: event["responseStatus"]["code"].as_u64().unwrap_or_default(),
        }
    }
}

/// The log, from some moment on.
pub(crate) struct Audit {
    pub(super) path: PathBuf,
    pub(super) from: usize,
}

impl Audit {
    /// Every complete line since then.
    pub(super) fn read(&self) -> Vec<Asked> {
        let bytes = std::fs::read(&self.path).unwrap_or_default();
        let text = String::from_utf8_lossy(bytes.get(self.from..).unwrap_or_default()).into_owned();
        let complete = text.rfind('\n').map_or("", |end| &text[..end]);
        complete.lines().map(Asked::read).collect()
    }
}

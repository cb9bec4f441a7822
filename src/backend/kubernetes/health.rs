//! Check: whether proxies could be made on the cluster.
//!
//! It must not write. Invariant: it says how far it got.

use std::collections::BTreeMap;

use super::config::KubernetesConfig;
use super::connect::Connection;
use crate::contract::{HealthReason, TargetHealth};

/// One report: on the API server.
pub(super) async fn check(connection: &Connection, config: &KubernetesConfig) -> Vec<TargetHealth> {
    let begun = tokio::time::Instant::now();
    let mut details = BTreeMap::from([("namespace".to_owned(), config.namespace.to_string())]);
    let version = connection
        .call(
            "version.get",
            |client| async move { client.apiserver_version().await },
        )
        .await;
    let (reason, message) = match version {
        Ok(version) => {
            details.insert("server_version".to_owned(), version.git_version);
            (HealthReason::Healthy, "the API server answers".to_owned())
        }
        Err(error) => (HealthReason::Unreachable, error.to_string()),
    };
    vec![TargetHealth {
        target: "apiserver".to_owned(),
        reason,
        message,
        latency: begun.elapsed(),
        details,
    }]
}

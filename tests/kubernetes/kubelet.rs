//! Stands in for the node where there is none: writes Pods' statuses through the API.
//!
//! It knows nothing of proxies' marks. Invariant: a Pod is made to run once; from then on its status is what
//! the test wrote.

#![allow(dead_code, reason = "each test file uses its share")]

use std::collections::HashSet;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU32, Ordering};

use futures_util::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams, WatchEvent, WatchParams};
use serde_json::{Value, json};

/// The next Pod's address.
static ADDRESS: AtomicU32 = AtomicU32::new(0x0af4_0002);

/// Makes every new Pod of a namespace run, for as long as it is not dropped.
pub(crate) async fn run(pods: Api<Pod>) {
    let mut started = HashSet::new();
    loop {
        // Without a runtime behind it the client fails at once, again and again.
        tokio::task::yield_now().await;
        let Ok(list) = pods.list(&ListParams::default()).await else {
            continue;
        };
        for pod in &list.items {
            start(&pods, pod, &mut started).await;
        }
        let version = list.metadata.resource_version.unwrap_or_default();
        let Ok(events) = pods.watch(&WatchParams::default(), &version).await else {
            continue;
        };
        let mut events = events.boxed();
        while let Ok(Some(event)) = events.try_next().await {
            if let WatchEvent::Added(pod) | WatchEvent::Modified(pod) = event {
                start(&pods, &pod, &mut started).await;
            }
        }
    }
}

async fn start(pods: &Api<Pod>, pod: &Pod, started: &mut HashSet<String>) {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    let (Some(uid), Some(name)) = (pod.metadata.uid.clone(), pod.metadata.name.as_deref()) else {
        return;
    };
    if phase == Some("Pending") && pod.metadata.deletion_timestamp.is_none() && started.insert(uid) {
        let address = Ipv4Addr::from(ADDRESS.fetch_add(1, Ordering::Relaxed));
        // The Pod may be gone by now, or somebody else was faster.
        let _ = write(pods, name, &running(Some(address))).await;
    }
}

/// Merges a status into a Pod's.
pub(crate) async fn write(pods: &Api<Pod>, name: &str, status: &Value) -> Result<Pod, kube::Error> {
    let patch = Patch::Merge(json!({ "status": status }));
    pods.patch_status(name, &PatchParams::default(), &patch).await
}

/// The proxy's container in some state.
pub(crate) fn squid(ready: bool, state: &Value) -> Value {
    json!([{
        "name": "squid", "image": "i", "imageID": "i", "ready": ready, "restartCount": 0, "state": state
    }])
}

/// What a kubelet says of a Pod that runs and passes its probe.
pub(crate) fn running(address: Option<Ipv4Addr>) -> Value {
    let mut status = json!({
        "phase": "Running", "reason": null, "message": null, "podIP": null, "podIPs": null,
        "hostIP": "192.0.2.1", "hostIPs": [{ "ip": "192.0.2.1" }],
        "conditions": [{ "type": "Ready", "status": "True" }],
        "containerStatuses": squid(true, &json!({ "running": {} })),
    });
    if let Some(address) = address {
        status["podIP"] = json!(address);
        status["podIPs"] = json!([{ "ip": address }]);
    }
    status
}

/// What it says of one that is not there yet.
pub(crate) fn pending(reason: &str, message: &str) -> Value {
    json!({
        "phase": "Pending", "podIP": null, "podIPs": null, "conditions": [{ "type": "Ready", "status": "False" }],
        "containerStatuses": squid(false, &json!({ "waiting": { "reason": reason, "message": message }, "running": null })),
    })
}

/// What it says of one that ended.
pub(crate) fn failed(reason: &str, message: &str) -> Value {
    json!({ "phase": "Failed", "reason": reason, "message": message, "podIP": null, "podIPs": null,
        "conditions": [], "containerStatuses": null })
}

//! Statuses as API servers report them, and what they mean.

use k8s_openapi::api::core::v1::{Service, ServiceSpec};
use serde_json::{Value, json};

use super::*;

fn pod(status: Value) -> Pod {
    serde_json::from_value(
        json!({ "metadata": { "name": "a" }, "spec": { "containers": [] }, "status": status }),
    )
    .expect("a Pod")
}

fn squid(state: &Value, last: &Value) -> Value {
    json!({
        "name": "squid", "image": "i", "imageID": "", "ready": false, "restartCount": 3,
        "state": state, "lastState": last
    })
}

fn running(extra: &Value) -> Value {
    let mut status = json!({
        "phase": "Running", "podIP": "10.244.0.9",
        "containerStatuses": [squid(&json!({ "running": {} }), &json!({}))]
    });
    for (key, value) in extra.as_object().expect("fields") {
        status[key] = value.clone();
    }
    status
}

/// State, whether it is started, whether it has an address, and a part of its reason.
type Expected = (State, bool, bool, &'static str);

#[test]
fn statuses_are_states_with_the_clusters_own_words() {
    let oom = json!({ "terminated": { "reason": "OOMKilled", "exitCode": 137 } });
    let sidecar = json!({ "name": "mesh", "image": "i", "imageID": "", "ready": true, "restartCount": 0,
        "state": { "waiting": { "reason": "CrashLoopBackOff" } } });
    let table: [(&str, Value, Expected); 16] = [
        ("nothing yet", json!({}), (State::Provisioning, false, false, "")),
        (
            "pending",
            json!({ "phase": "Pending" }),
            (State::Provisioning, false, false, ""),
        ),
        (
            "unschedulable",
            json!({ "phase": "Pending", "conditions": [{ "type": "PodScheduled", "status": "False",
                "reason": "Unschedulable", "message": "0/3 nodes are available: 3 node(s) didn't match\nPod's node affinity." }] }),
            (
                State::Provisioning,
                false,
                false,
                "Unschedulable: 0/3 nodes are available: 3 node(s) didn't match Pod's node affinity.",
            ),
        ),
        (
            "no image",
            json!({ "phase": "Pending", "containerStatuses": [squid(&json!({ "waiting": {
                "reason": "ErrImagePull", "message": "not found" } }), &json!({}))] }),
            (State::Provisioning, false, false, "ErrImagePull: not found"),
        ),
        (
            "still no image",
            json!({ "phase": "Pending", "containerStatuses": [squid(&json!({ "waiting": {
                "reason": "ImagePullBackOff", "message": "Back-off pulling image" } }), &json!({}))] }),
            (
                State::Provisioning,
                false,
                false,
                "ImagePullBackOff: Back-off pulling image",
            ),
        ),
        (
            "an injected container has no image",
            json!({ "phase": "Pending", "containerStatuses": [squid(&json!({ "waiting": { "reason": "ContainerCreating" } }), &json!({}))],
                "initContainerStatuses": [{ "name": "mesh-init", "image": "i", "imageID": "", "ready": false, "restartCount": 0,
                    "state": { "waiting": { "reason": "ErrImagePull" } } }] }),
            (State::Provisioning, false, false, "ErrImagePull"),
        ),
        ("running", running(&json!({})), (State::Running, true, true, "")),
        (
            "running beside an injected container that does not",
            running(&json!({ "containerStatuses": [sidecar, squid(&json!({ "running": {} }), &json!({}))] })),
            (State::Running, true, true, ""),
        ),
        (
            "running without an address",
            running(&json!({ "podIP": null })),
            (State::Provisioning, true, false, "no address"),
        ),
        (
            "crashing",
            running(
                &json!({ "containerStatuses": [squid(&json!({ "waiting": { "reason": "CrashLoopBackOff",
                "message": "back-off 10s restarting failed container" } }), &oom)] }),
            ),
            (
                State::Provisioning,
                false,
                false,
                "CrashLoopBackOff: back-off 10s restarting failed container; it ended before: OOMKilled, exit code 137",
            ),
        ),
        (
            "killed just now",
            running(&json!({ "containerStatuses": [squid(&oom, &json!({}))] })),
            (State::Provisioning, false, false, "OOMKilled, exit code 137"),
        ),
        (
            "killed and running again",
            running(&json!({ "containerStatuses": [squid(&json!({ "running": {} }), &oom)] })),
            (
                State::Running,
                true,
                true,
                "started 3 times again; it ended before: OOMKilled",
            ),
        ),
        (
            "evicted",
            json!({ "phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory." }),
            (
                State::Terminated,
                false,
                false,
                "Evicted: The node was low on resource: memory.",
            ),
        ),
        (
            "failed",
            json!({ "phase": "Failed", "containerStatuses": [squid(&json!({ "terminated": { "reason": "Error", "exitCode": 1,
                "message": "FATAL: Bungled" } }), &json!({}))] }),
            (
                State::Terminated,
                false,
                false,
                "Failed: Error, exit code 1: FATAL: Bungled",
            ),
        ),
        (
            "succeeded",
            json!({ "phase": "Succeeded", "containerStatuses": [squid(&json!({ "terminated": { "reason": "Completed", "exitCode": 0 } }), &json!({}))] }),
            (
                State::Terminated,
                false,
                false,
                "Succeeded: Completed, exit code 0",
            ),
        ),
        (
            "a kubelet that says nothing of containers",
            json!({ "phase": "Running", "podIP": "10.244.0.9" }),
            (State::Running, true, true, ""),
        ),
    ];
    for (what, status, (state, started, has_address, reason)) in table {
        let seen = seen(&pod(status), None, false).expect(what);
        assert_eq!((seen.state, seen.started), (state, started), "{what}: {seen:?}");
        assert_eq!(seen.ip.is_some(), has_address, "{what}: {seen:?}");
        let told = seen.reason.unwrap_or_default();
        assert!(
            told.contains(reason) && told.is_empty() == reason.is_empty(),
            "{what}: {told}"
        );
    }
}

#[test]
fn a_silent_node_says_nothing_of_its_pods() {
    let silent = pod(json!({ "phase": "Unknown", "reason": "NodeLost", "podIP": "10.244.0.9" }));
    assert_eq!(seen(&silent, None, false), None);
    assert_eq!(life(&silent), (Life::Silent, Some("NodeLost".to_owned())));
}

#[test]
fn a_pod_that_is_being_deleted_is_terminated_whatever_it_does() {
    let mut leaving = pod(running(
        &json!({ "conditions": [{ "type": "DisruptionTarget", "status": "True",
        "reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting" }] }),
    ));
    leaving.metadata.deletion_timestamp =
        serde_json::from_value(json!("2026-01-01T00:00:00Z")).expect("a time");
    let seen = seen(&leaving, None, false).expect("seen");
    assert_eq!((seen.state, seen.ip), (State::Terminated, None));
    let reason = seen.reason.expect("why");
    assert!(
        reason.contains("being deleted") && reason.contains("EvictionByEvictionAPI"),
        "{reason}"
    );
}

#[test]
fn a_proxy_without_its_service_is_stopped_once_it_was_handed_over() {
    let mut exposed = pod(running(&json!({})));
    exposed.metadata.annotations = Some([(service::KIND.to_owned(), "ClusterIP".to_owned())].into());
    let lost = seen(&exposed, None, false).expect("seen");
    assert_eq!((lost.state, lost.started, lost.ip), (State::Stopped, false, None));
    let early = seen(&exposed, None, true).expect("seen");
    assert_eq!(
        (early.state, early.started, early.ip),
        (State::Provisioning, true, None)
    );
    let service = Service {
        spec: Some(ServiceSpec {
            type_: Some("ClusterIP".to_owned()),
            cluster_ip: Some("10.96.0.7".to_owned()),
            ..ServiceSpec::default()
        }),
        ..Service::default()
    };
    let exposed = seen(&exposed, Some(&service), false).expect("seen");
    assert_eq!(exposed.ip, Some("10.96.0.7".parse().expect("an address")));
    let evicted = seen(&pod(json!({ "phase": "Failed" })), None, false).expect("seen");
    assert_eq!(evicted.state, State::Terminated);
}

#[test]
fn ready_is_what_the_probe_says() {
    let readiness = |conditions: Value| {
        let pod = pod(running(&json!({ "conditions": conditions })));
        let seen = seen(&pod, None, false).expect("seen");
        readiness(&pod, &seen)
    };
    assert_eq!(
        readiness(json!([{ "type": "Ready", "status": "True" }])),
        Readiness::Ready
    );
    let unready = readiness(
        json!([{ "type": "Ready", "status": "False", "reason": "ContainersNotReady",
        "message": "containers with unready status: [squid]" }]),
    );
    assert_eq!(
        unready,
        Readiness::NotReady("ContainersNotReady: containers with unready status: [squid]".to_owned())
    );
    assert!(matches!(readiness(json!([])), Readiness::NotReady(why) if !why.is_empty()));
}

#[test]
fn a_message_without_end_is_cut() {
    let line = join("Error", Some("é".repeat(5000)));
    assert!(line.chars().count() < 700, "{}", line.len());
}

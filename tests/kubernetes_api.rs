//! What a cluster does to proxies, and what the backend `kubernetes` makes of it, against a real API server.
#![cfg(all(feature = "testing", target_os = "linux"))]

#[path = "kubernetes/front.rs"]
mod front;
#[path = "kube_node/mod.rs"]
mod kube_node;
#[path = "kubernetes/kubelet.rs"]
mod kubelet;
#[path = "kubernetes/rig.rs"]
mod rig;
#[path = "kubernetes/role.rs"]
mod role;

use egress::contract::snapshot::Snapshot;
use egress::contract::spec::PasswordFact;
use std::time::Duration;

use egress::contract::{
    Accepted, AdoptRequest, Adopted, Backend as _, CreateRequest, Created, Deleted, Error, ErrorKind, Facts,
    Freshness, Incarnation, ListFilter, NewInstance, Readiness, Secret, Specification, State,
};
use egress::transport::call::{Limits, Task, retry};
use front::{Effect, Fault, status};
use http::Method;
use k8s_openapi::api::core::v1::{Event, Pod, ResourceQuota, Service};
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use kube_node::{Cluster, wait};
use rig::{As, CONF, MANAGED, MARK, Rig};
use serde_json::{Value, json};

async fn create(rig: &Rig<'_>, request: &NewInstance) -> Result<Created, Error> {
    let request = CreateRequest::New(Box::new(request.clone()));
    rig.backend().create(&request, &Accepted::new()).await
}

async fn warn(rig: &Rig<'_>, pod: &Pod, reason: &str, message: &str) {
    let events: Api<Event> = Api::namespaced(rig.client.clone(), &rig.namespace);
    let event = json!({
        "metadata": { "name": format!("{}.{}", pod.metadata.name.as_deref().unwrap_or_default(), reason.to_lowercase()) },
        "involvedObject": { "kind": "Pod", "namespace": rig.namespace, "name": pod.metadata.name, "uid": pod.metadata.uid },
        "type": "Warning", "reason": reason, "message": message,
        "lastTimestamp": "2026-01-01T00:00:00Z", "firstTimestamp": "2026-01-01T00:00:00Z",
    });
    let event = serde_json::from_value(event).expect("an event");
    events.create(&PostParams::default(), &event).await.expect("made");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Kubernetes API server"]
async fn what_a_pod_waits_for_reaches_whoever_waits_for_the_pod() {
    let rig = Rig::of("none", As::Role, false).await;
    let instance = rig.created("a").await;
    let pod = rig.pods().get("a").await.expect("there");
    warn(
        &rig,
        &pod,
        "FailedScheduling",
        "0/1 nodes are available: 1 Insufficient cpu.",
    )
    .await;
    for (reason, message) in [
        ("ErrImagePull", "registry.example/squid:6: not found"),
        ("ImagePullBackOff", "Back-off pulling image"),
    ] {
        rig.status("a", &kubelet::pending(reason, message)).await;
        let found = rig
            .backend()
            .get(&Rig::read(&instance, false))
            .await
            .expect("found");
        let told = found.instance.reason.expect("a reason");
        assert_eq!(found.instance.state, State::Provisioning);
        assert!(told.contains(&format!("{reason}: {message}")), "{told}");
        assert!(
            told.contains("FailedScheduling: 0/1 nodes are available"),
            "{told}"
        );
    }
    let mut crashing = kubelet::running(Some([10, 244, 0, 9].into()));
    crashing["containerStatuses"] = kubelet::squid(
        false,
        &json!({ "waiting": { "reason": "CrashLoopBackOff", "message": "back-off 10s" } }),
    );
    rig.status("a", &crashing).await;
    let found = rig
        .backend()
        .get(&Rig::read(&instance, true))
        .await
        .expect("found");
    let told = found.instance.reason.expect("a reason");
    assert!(told.contains("CrashLoopBackOff: back-off 10s"), "{told}");
    assert!(matches!(found.readiness, Some(Readiness::NotReady(_))));
    // A plan shares its listing, which has no events: a read of it must not differ from that.
    let mut shared = Rig::read(&instance, false);
    shared.freshness = Freshness::Shared;
    let read = rig.backend().get(&shared).await.expect("found").instance;
    assert!(!read.reason.expect("a reason").contains("FailedScheduling"));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Kubernetes API server"]
async fn what_injectors_and_admission_do_to_a_pod_is_no_change() {
    let rig = Rig::new("none").await;
    rig.front.put(Fault {
        method: Some(Method::POST),
        path: format!("/namespaces/{}/pods", rig.namespace),
        name: Some("a".to_owned()),
        effect: Effect::Change(inject),
        once: true,
        of_its_maker: false,
    });
    let (_, request) = rig.wanted("a", Rig::facts());
    let created = create(&rig, &request).await.expect("created").instance;
    let pod = rig.pods().get("a").await.expect("there");
    let containers = pod.spec.expect("a spec").containers;
    let names: Vec<_> = containers
        .iter()
        .map(|container| container.name.as_str())
        .collect();
    assert_eq!(names, ["mesh", "squid"]);
    let running = until_running(&rig, &created).await;
    assert_eq!(running.mark, created.mark);
    assert_eq!(running.mark.facts, request.facts);
    assert!(running.labels.is_empty(), "{:?}", running.labels);
}

/// What a service mesh, a policy engine and an image mirror do.
fn inject(pod: &mut Value) {
    let mut sidecar = pod["spec"]["containers"][0].clone();
    sidecar["name"] = "mesh".into();
    sidecar["ports"] = Value::Null;
    pod["spec"]["containers"][0]["image"] =
        "mirror.example/squid@sha256:0123456789012345678901234567890123456789012345678901234567890123".into();
    pod["spec"]["containers"][0]["env"] = json!([{ "name": "HTTP_PROXY", "value": "http://x" }]);
    if let Some(containers) = pod["spec"]["containers"].as_array_mut() {
        containers.insert(0, sidecar);
    }
    if let Some(volumes) = pod["spec"]["volumes"].as_array_mut() {
        volumes.push(json!({ "name": "mesh", "emptyDir": {} }));
    }
    pod["spec"]["tolerations"] = json!([{ "key": "added", "operator": "Exists" }]);
    pod["metadata"]["labels"]["mesh.example/injected"] = "yes".into();
    pod["metadata"]["annotations"]["mesh.example/status"] = "{}".into();
}

async fn until_running(rig: &Rig<'_>, instance: &egress::contract::Instance) -> egress::contract::Instance {
    wait::until_async("it runs", async || {
        let found = rig.backend().get(&Rig::read(instance, false)).await;
        let found = found.map_err(|error| error.to_string())?.instance;
        (found.state == State::Running)
            .then_some(found.clone())
            .ok_or_else(|| format!("{found:?}"))
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Kubernetes API server"]
async fn a_dead_pod_of_ours_is_replaced_and_never_taken_over() {
    let rig = Rig::new("none").await;
    let first = rig.created("a").await;
    let dead = rig.pods().get("a").await.expect("there");
    rig.status(
        "a",
        &kubelet::failed("Evicted", "The node was low on resource: memory."),
    )
    .await;
    let found = rig
        .backend()
        .get(&Rig::read(&first, false))
        .await
        .expect("found")
        .instance;
    assert_eq!(found.state, State::Terminated);
    assert!(found.reason.expect("a reason").contains("Evicted"));
    let (_, again) = rig.wanted("a", Rig::facts());
    let created = create(&rig, &again).await.expect("created");
    assert_eq!(created.adopted, Adopted::No);
    let living = rig.pods().get("a").await.expect("there");
    assert_ne!(living.metadata.uid, dead.metadata.uid);
    until_running(&rig, &created.instance).await;
}

/// Keeps a Pod from going until the test says so.
async fn hold(rig: &Rig<'_>, name: &str) {
    rig.edit_pod(
        name,
        &json!({ "metadata": { "finalizers": ["test.example/held"] } }),
    )
    .await;
}

async fn let_go(rig: &Rig<'_>, name: &str) {
    rig.edit_pod(name, &json!({ "metadata": { "finalizers": null } }))
        .await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Kubernetes API server"]
async fn a_pod_that_is_leaving_is_terminated_and_in_the_way_for_a_while() {
    let rig = Rig::new("none").await;
    let instance = rig.created("a").await;
    hold(&rig, "a").await;
    rig.pods()
        .delete("a", &DeleteParams::default())
        .await
        .expect("told to go");
    let found = rig
        .backend()
        .get(&Rig::read(&instance, false))
        .await
        .expect("found")
        .instance;
    assert_eq!((found.state, found.ip), (State::Terminated, None));
    let (_, again) = rig.wanted("a", Rig::facts());
    let error = create(&rig, &again).await.expect_err("it is in the way");
    assert_eq!(error.kind(), ErrorKind::Transient, "{error}");
    assert!(error.to_string().contains("still being deleted"), "{error}");
    let_go(&rig, "a").await;
    create(&rig, &again).await.expect("created");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Kubernetes API server"]
async fn delete_watches_until_the_pod_is_gone() {
    let rig = Rig::of("none", As::Role, true).await;
    let instance = rig.created("a").await;
    hold(&rig, "a").await;
    let (backend, removal) = (
        rig.backend(),
        Rig::removal(&instance.id, Some(instance.mark.incarnation)),
    );
    let deleting = Task::spawn(async move { backend.delete(&removal).await });
    wait::until_async("the watch", async || {
        let asked = rig.front.asked();
        let watched = asked
            .iter()
            .any(|line| line.contains("watch=true") && line.contains("metadata.name"));
        watched.then_some(()).ok_or_else(|| format!("{asked:?}"))
    })
    .await;
    assert!(!deleting.is_finished(), "the Pod is still there");
    let_go(&rig, "a").await;
    assert_eq!(deleting.await.expect("ended").expect("deleted"), Deleted::Gone);
    assert!(rig.pods().get_opt("a").await.expect("asked").is_none());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Kubernetes API server"]
async fn delete_never_strikes_another_pod_of_the_same_name() {
    let rig = Rig::new("none").await;
    let first = rig.created("a").await;
    let seen = serde_json::to_value(rig.pods().get("a").await.expect("there")).expect("JSON");
    rig.remove_pod("a").await;
    let second = rig.created("a").await;
    // What delete reads is older than what is there.
    rig.front.put(Fault {
        method: Some(Method::GET),
        path: format!("/namespaces/{}/pods/a", rig.namespace),
        name: None,
        effect: Effect::Answer(200, seen),
        once: true,
        of_its_maker: false,
    });
    let removal = Rig::removal(&first.id, Some(first.mark.incarnation));
    let error = rig.backend().delete(&removal).await.expect_err("another Pod");
    assert_eq!(error.kind(), ErrorKind::Transient, "{error}");
    let left = rig
        .backend()
        .get(&Rig::read(&second, false))
        .await
        .expect("it is there")
        .instance;
    assert_ne!(left.state, State::Terminated);
    let again = rig.backend().delete(&removal).await.expect("left alone");
    assert!(matches!(again, Deleted::LeftAlone(_)), "{again:?}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Kubernetes API server"]
async fn a_node_that_does_not_report_replaces_nothing() {
    let rig = Rig::new("none").await;
    let instance = rig.created("a").await;
    until_running(&rig, &instance).await;
    rig.status("a", &json!({ "phase": "Unknown", "reason": "NodeLost" }))
        .await;
    let error = rig
        .backend()
        .get(&Rig::read(&instance, false))
        .await
        .expect_err("unknown");
    assert_eq!(error.kind(), ErrorKind::Transient, "{error}");
    let (_, again) = rig.wanted("a", Rig::facts());
    let error = create(&rig, &again).await.expect_err("unknown");
    assert_eq!(error.kind(), ErrorKind::Transient, "{error}");
    let filter = ListFilter {
        installation: Rig::installation(),
        namespace: None,
    };
    let listing = rig.backend().list_by_tag(&filter).await.expect("listed");
    assert!(listing.instances.is_empty());
    assert_eq!(listing.unreadable[0].prefix, instance.id.as_str());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Kubernetes API server"]
async fn the_reads_of_a_plan_are_one_paged_listing() {
    let rig = Rig::of("none", As::Role, true).await;
    let mut instances = Vec::new();
    for name in ["a", "b", "c", "d", "e"] {
        instances.push(until_running(&rig, &rig.created(name).await).await);
    }
    rig.front.shorten_pages(2);
    let mut counts = Vec::new();
    for share in [&instances[..1], &instances[..]] {
        let backend = Snapshot::new(rig.backend());
        rig.front.asked();
        for instance in share {
            let mut read = Rig::read(instance, false);
            read.freshness = Freshness::Shared;
            assert_eq!(backend.get(&read).await.expect("found").instance, *instance);
        }
        let asked = rig.front.asked();
        let pages = asked.iter().filter(|line| line.contains("/pods?")).count();
        assert_eq!(pages, 3, "five Pods, two on a page: {asked:?}");
        assert!(!asked.iter().any(|line| line.contains("/pods/")), "{asked:?}");
        counts.push(asked.len());
    }
    assert_eq!(counts[0], counts[1], "however many are read");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Kubernetes API server"]
async fn a_namespace_that_does_not_answer_hides_no_other() {
    let rig = Rig::new("none").await;
    let instance = rig.created("a").await;
    let silent = Cluster::shared().namespace().await;
    rig.front.put(Fault {
        method: None,
        path: format!("/namespaces/{silent}/"),
        name: None,
        effect: Effect::Cut,
        once: false,
        of_its_maker: false,
    });
    let backend = rig.configured(|given| {
        given.namespaces = Some(vec![rig.namespace.clone(), silent.clone()]);
    });
    let filter = ListFilter {
        installation: Rig::installation(),
        namespace: None,
    };
    let listing = backend.list_by_tag(&filter).await.expect("listed");
    assert_eq!(listing.instances.len(), 1);
    assert_eq!(listing.instances[0].id, instance.id);
    assert_eq!(listing.unreadable[0].prefix, format!("{silent}/"));
    // All of them by one call each page, which takes a ClusterRole.
    rig.front.asked();
    let backend = rig.configured(|given| given.namespaces = Some(vec!["*".to_owned()]));
    let listing = backend.list_by_tag(&filter).await.expect("listed");
    assert!(listing.instances.iter().any(|found| found.id == instance.id));
    let asked = rig.front.asked();
    assert!(
        asked.iter().any(|line| line.contains("/api/v1/pods?")),
        "{asked:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Kubernetes API server"]
async fn a_used_up_quota_is_told_from_missing_rights() {
    let rig = Rig::of("none", As::Role, true).await;
    let quotas: Api<ResourceQuota> = Api::namespaced(rig.client.clone(), &rig.namespace);
    let quota = json!({ "metadata": { "name": "pods" }, "spec": { "hard": { "pods": "1" } } });
    let quota = serde_json::from_value(quota).expect("a quota");
    quotas.create(&PostParams::default(), &quota).await.expect("made");
    wait::until_async("the quota counts", async || {
        let quota = quotas.get("pods").await.map_err(|error| error.to_string())?;
        let counted = quota.status.and_then(|status| status.hard);
        counted.map(|_| ()).ok_or_else(|| "no status".to_owned())
    })
    .await;
    rig.created("a").await;
    let (_, second) = rig.wanted("b", Rig::facts());
    let error = create(&rig, &second).await.expect_err("one Pod is the limit");
    assert_eq!(error.kind(), ErrorKind::QuotaExceeded, "{error}");
    let elsewhere = rig.configured(|given| {
        given.namespaces = Some(vec!["default".to_owned()]);
    });
    let mut forbidden = second.clone();
    forbidden.key.namespace = "default".parse().expect("a name");
    let forbidden = CreateRequest::New(Box::new(forbidden));
    let error = elsewhere
        .create(&forbidden, &Accepted::new())
        .await
        .expect_err("no rights there");
    assert_eq!(error.kind(), ErrorKind::Permanent, "{error}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Kubernetes API server"]
async fn a_namespace_that_does_not_exist_is_named_with_the_way_out() {
    let rig = Rig::new("ClusterIP").await;
    let missing = rig.configured(|given| given.namespaces = Some(vec!["no-such-place".to_owned()]));
    let (_, mut request) = rig.wanted("a", Rig::facts());
    request.key.namespace = "no-such-place".parse().expect("a name");
    let request = CreateRequest::New(Box::new(request));
    let error = missing
        .create(&request, &Accepted::new())
        .await
        .expect_err("no namespace");
    assert_eq!(error.kind(), ErrorKind::Permanent, "{error}");
    assert!(
        error
            .to_string()
            .contains("kubectl create namespace no-such-place"),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Kubernetes API server"]
async fn somebody_elses_service_is_found_before_a_pod_is_made() {
    let rig = Rig::new("ClusterIP").await;
    let theirs: Service = serde_json::from_value(json!({
        "metadata": { "name": "a" }, "spec": { "ports": [{ "port": 80 }], "selector": { "app": "a" } }
    }))
    .expect("a Service");
    rig.services()
        .create(&PostParams::default(), &theirs)
        .await
        .expect("made");
    let (_, request) = rig.wanted("a", Rig::facts());
    let error = create(&rig, &request).await.expect_err("the name is taken");
    assert_eq!(error.kind(), ErrorKind::Permanent, "{error}");
    assert!(rig.pods().get_opt("a").await.expect("asked").is_none());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Kubernetes API server"]
async fn a_port_of_every_node_is_the_proxys_own() {
    let rig = Rig::of("NodePort", As::Role, true).await;
    // Nobody else's test takes ports of nodes.
    let facts = |port| Facts {
        port: Some(port),
        ..Rig::facts()
    };
    let (_, request) = rig.wanted("a", facts(31_128));
    let created = create(&rig, &request).await.expect("created").instance;
    let running = until_running(&rig, &created).await;
    assert_eq!(running.ip, Some([192, 0, 2, 1].into()), "the node's address");
    let service = rig
        .services()
        .get("a")
        .await
        .expect("there")
        .spec
        .expect("a spec");
    let port = service.ports.expect("ports")[0].node_port;
    assert_eq!(port, Some(31_128));
    assert_eq!(service.external_traffic_policy.as_deref(), Some("Local"));
    let (_, refused) = rig.wanted("b", facts(3128));
    let error = create(&rig, &refused).await.expect_err("no port of a node");
    assert_eq!(error.kind(), ErrorKind::Permanent, "{error}");
    assert!(rig.pods().get_opt("b").await.expect("asked").is_none());
    let removal = Rig::removal(&created.id, Some(created.mark.incarnation));
    assert_eq!(
        rig.backend().delete(&removal).await.expect("deleted"),
        Deleted::Gone
    );
    assert!(rig.services().get_opt("a").await.expect("asked").is_none());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Kubernetes API server"]
async fn a_load_balancers_address_is_waited_for() {
    let rig = Rig::new("LoadBalancer").await;
    let instance = rig.created("a").await;
    wait::until_async("the Pod runs", async || {
        let found = rig.backend().get(&Rig::read(&instance, false)).await;
        let found = found.map_err(|error| error.to_string())?.instance;
        let waits = found.started && found.reason.as_deref() == Some("its load balancer has no address yet");
        waits.then_some(()).ok_or_else(|| format!("{found:?}"))
    })
    .await;
    let balanced = json!({ "status": { "loadBalancer": { "ingress": [{ "ip": "203.0.113.4" }] } } });
    let patch = kube::api::Patch::Merge(balanced);
    rig.services()
        .patch_status("a", &kube::api::PatchParams::default(), &patch)
        .await
        .expect("patched");
    let running = until_running(&rig, &instance).await;
    assert_eq!(running.ip, Some([203, 0, 113, 4].into()));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Kubernetes API server"]
async fn the_service_goes_with_a_pod_that_somebody_removes() {
    let rig = Rig::new("ClusterIP").await;
    rig.created("a").await;
    assert!(rig.services().get_opt("a").await.expect("asked").is_some());
    rig.remove_pod("a").await;
    wait::until_async("the cluster clears up", async || {
        match rig
            .services()
            .get_opt("a")
            .await
            .map_err(|error| error.to_string())?
        {
            None => Ok(()),
            Some(_) => Err("the Service is there".to_owned()),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Kubernetes API server"]
async fn a_mark_is_written_although_a_kubelet_writes_too() {
    let rig = Rig::new("none").await;
    for _ in 0..3 {
        rig.front.put(Fault {
            method: Some(Method::PATCH),
            path: format!("/namespaces/{}/pods/a", rig.namespace),
            name: None,
            effect: Effect::Answer(
                409,
                status(409, "Conflict", "the object has been modified", "pods", "a"),
            ),
            once: true,
            of_its_maker: false,
        });
    }
    let created = rig.created("a").await;
    assert!(!created.mark.pending);
    let pod = rig.pods().get("a").await.expect("there");
    let mark = pod
        .metadata
        .annotations
        .expect("given")
        .remove(MARK)
        .expect("a mark");
    assert!(mark.contains("\"pending\":false"), "{mark}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Kubernetes API server"]
async fn a_password_is_in_the_pod_alone_and_follows_an_adoption() {
    let rig = Rig::new("none").await;
    let facts = Facts {
        username: Some("u".into()),
        password: Some(PasswordFact::Version("1".into())),
        ..Rig::facts()
    };
    let (_, mut request) = rig.wanted("a", facts);
    request.secrets.password_hash = Some(Secret::new("$6$sentinel$onehashonehash.onehash"));
    rig.front.put(Fault {
        method: Some(Method::PATCH),
        path: format!("/namespaces/{}/pods/a", rig.namespace),
        name: None,
        effect: Effect::Answer(503, status(503, "ServiceUnavailable", "no leader", "", "")),
        once: true,
        of_its_maker: false,
    });
    create(&rig, &request).await.expect_err("cut off");
    let mut again = request.clone();
    again.incarnation = Incarnation::fresh();
    again.secrets.password_hash = Some(Secret::new("$6$sentinel$twohashtwohash.twohash"));
    let created = create(&rig, &again).await.expect("adopted");
    assert_eq!(created.adopted, Adopted::Pending);
    let annotations = rig
        .pods()
        .get("a")
        .await
        .expect("there")
        .metadata
        .annotations
        .expect("given");
    assert_eq!(
        annotations["egress-proxy/passwd"],
        "u:$6$sentinel$twohashtwohash.twohash\n"
    );
    assert!(!format!("{created:?}").contains("$6$"));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Kubernetes API server"]
async fn a_free_name_costs_two_requests_and_a_removal_three() {
    let rig = Rig::of("none", As::Role, false).await;
    let backend = rig.backend();
    let (_, request) = rig.wanted("first", Rig::facts());
    let request = CreateRequest::New(Box::new(request));
    backend.create(&request, &Accepted::new()).await.expect("created");
    // Which cluster it is has been asked by now.
    rig.front.asked();
    let (id, request) = rig.wanted("a", Rig::facts());
    let incarnation = request.incarnation;
    let request = CreateRequest::New(Box::new(request));
    backend.create(&request, &Accepted::new()).await.expect("created");
    let verbs = |asked: Vec<String>| -> Vec<String> {
        let verbs = asked.iter().filter_map(|line| line.split(' ').next());
        verbs.map(str::to_owned).collect()
    };
    assert_eq!(verbs(rig.front.asked()), ["POST", "PATCH"]);
    let removal = Rig::removal(&id, Some(incarnation));
    assert_eq!(backend.delete(&removal).await.expect("deleted"), Deleted::Gone);
    assert_eq!(verbs(rig.front.asked()), ["GET", "DELETE", "GET"]);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Kubernetes API server"]
async fn one_of_many_creates_of_a_name_has_it() {
    let rig = Rig::new("none").await;
    let (id, request) = rig.wanted("a", Rig::facts());
    // Each as a process of its own would: another incarnation, another connection.
    let creates = (0..8).map(|_| {
        let mut request = request.clone();
        request.incarnation = Incarnation::fresh();
        let backend = rig.direct();
        Task::spawn(async move {
            let limits = Limits::after(Duration::from_secs(60));
            let create = CreateRequest::New(Box::new(request.clone()));
            let accepted = Accepted::new();
            let created = retry(&limits, || backend.create(&create, &accepted)).await;
            (request.incarnation, created.is_ok())
        })
    });
    let ended = futures_util::future::join_all(creates).await;
    let mut holders: Vec<_> = ended
        .into_iter()
        .map(|ended| ended.expect("no panic"))
        .filter_map(|(incarnation, holds)| holds.then_some(incarnation))
        .collect();
    let mut read = Rig::reading(&id);
    let there = rig.backend().get(&read).await.expect("there").instance.mark;
    assert!(!there.pending);
    // One that was taken over before it was handed over gave way, and may have been told so or not.
    assert!(holders.contains(&there.incarnation), "{holders:?}");
    holders.retain(|incarnation| *incarnation != there.incarnation);
    for gone in holders {
        read.incarnation = Some(gone);
        let error = rig.backend().get(&read).await.expect_err("another has it");
        assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    }
    assert_eq!(
        rig.pods()
            .list(&Default::default())
            .await
            .expect("listed")
            .items
            .len(),
        1
    );
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Kubernetes API server"]
async fn a_listing_that_expires_between_two_pages_is_taken_whole() {
    let rig = Rig::of("none", As::Role, false).await;
    for name in ["a", "b", "c"] {
        rig.created(name).await;
    }
    rig.front.shorten_pages(2);
    let gone = status(
        410,
        "Expired",
        "The provided continue parameter is too old",
        "",
        "",
    );
    rig.front.put(Fault {
        path: "continue=".to_owned(),
        ..Fault::once(Method::GET, Effect::Answer(410, gone))
    });
    rig.front.asked();
    let filter = ListFilter {
        installation: Rig::installation(),
        namespace: None,
    };
    let listing = rig.backend().list_by_tag(&filter).await.expect("listed");
    assert_eq!((listing.instances.len(), listing.unreadable.len()), (3, 0));
    let asked = rig.front.asked();
    let pages: Vec<_> = asked.iter().filter(|line| line.contains("/pods?")).collect();
    assert_eq!(pages.len(), 3, "two pages and the whole: {asked:?}");
    assert!(!pages[2].contains("limit="), "{asked:?}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Kubernetes API server"]
async fn a_pod_whose_mark_does_not_get_through_is_not_left_behind() {
    let rig = Rig::new("none").await;
    let strip: fn(&mut Value) = |object| object["metadata"]["annotations"][MARK] = Value::Null;
    let relabel: fn(&mut Value) = |object| {
        object["metadata"]["labels"]["egress-proxy/installation"] = "platform".into();
    };
    for change in [strip, relabel] {
        rig.front.put(Fault {
            path: format!("/namespaces/{}/pods", rig.namespace),
            ..Fault::once(Method::POST, Effect::Change(change))
        });
        let (_, request) = rig.wanted("a", Rig::facts());
        let error = create(&rig, &request).await.expect_err("nobody could find it");
        assert_eq!(error.kind(), ErrorKind::Permanent, "{error}");
        assert!(error.to_string().contains("a policy or a webhook"), "{error}");
        wait::until_async("the Pod's end", async || {
            match rig.pods().get_opt("a").await.map_err(|error| error.to_string())? {
                None => Ok(()),
                Some(_) => Err("it is there".to_owned()),
            }
        })
        .await;
    }
    // The handover alone is kept out: the Pod says pending, and so does the failure.
    rig.front.put(Fault {
        path: format!("/namespaces/{}/pods/a", rig.namespace),
        once: false,
        ..Fault::once(Method::PATCH, Effect::Change(strip))
    });
    let (_, request) = rig.wanted("a", Rig::facts());
    let error = create(&rig, &request).await.expect_err("it was not handed over");
    assert_eq!(error.kind(), ErrorKind::Permanent, "{error}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Kubernetes API server"]
async fn what_a_pod_shows_is_adopted_only_where_it_is_as_it_was_written() {
    let rig = Rig::new("none").await;
    let instance = rig.created("a").await;
    let conf = |pod: &Pod| pod.metadata.annotations.as_ref().expect("given")[CONF].clone();
    let written = conf(&rig.pods().get("a").await.expect("there"));
    let unmark = json!({ "metadata": { "annotations": { MARK: null }, "labels": { MANAGED: null } } });
    rig.edit_pod("a", &unmark).await;
    let request = AdoptRequest {
        id: instance.id.clone(),
        installation: Rig::installation(),
        from: None,
        stated: Facts::default(),
        incarnation: Incarnation::fresh(),
        write: None,
    };
    let shown = rig.backend().adopt(&request).await.expect("shown").instance.mark;
    assert_eq!(shown.facts.allowed_cidrs, instance.mark.facts.allowed_cidrs);

    // It was shown before somebody edited it: what was shown is not written any more.
    let edited = written.replace("10.0.0.0/8", "172.16.0.0/12");
    assert_ne!(edited, written);
    for (text, says) in [
        (
            format!("{written}http_access allow all\n"),
            "is not what this provider writes",
        ),
        (edited, "changed"),
    ] {
        rig.edit_pod("a", &json!({ "metadata": { "annotations": { CONF: text } } }))
            .await;
        let write = AdoptRequest {
            write: Some(shown.clone()),
            ..request.clone()
        };
        let error = rig.backend().adopt(&write).await.expect_err("another proxy");
        assert_eq!(error.kind(), ErrorKind::Permanent, "{error}");
        assert!(error.to_string().contains(says), "{error} says {says}");
    }

    // What is stated must be what is there.
    rig.edit_pod("a", &json!({ "metadata": { "annotations": { CONF: written } } }))
        .await;
    let mut contradicting = request.clone();
    contradicting.stated.allowed_cidrs = Some(vec!["192.168.0.0/16".parse().expect("a network")]);
    let error = rig
        .backend()
        .adopt(&contradicting)
        .await
        .expect_err("something else");
    assert!(error.to_string().contains("allowed_cidrs"), "{error}");
    let write = AdoptRequest {
        write: Some(shown.clone()),
        ..request
    };
    let adopted = rig
        .backend()
        .adopt(&write)
        .await
        .expect("as it was shown")
        .instance;
    assert_eq!(adopted.mark, shown);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Kubernetes API server"]
async fn the_longest_names_and_the_largest_lists_are_taken() {
    let rig = Rig::new("ClusterIP").await;
    let facts = |domains: usize| Facts {
        allowed_domains: Some((0..domains).map(|n| format!("host-{n}.example.com")).collect()),
        ..Rig::facts()
    };
    let key = rig.wanted("a", Rig::facts()).1.key;
    let is_honoured = |domains: usize| {
        let specification = Specification {
            key: key.clone(),
            given: facts(domains),
            labels: Default::default(),
        };
        rig.backend().resolve(&specification).is_ok()
    };
    let (mut most, mut too_many) = (1_usize, 10_000_usize);
    while most + 1 < too_many {
        let middle = most.midpoint(too_many);
        *(if is_honoured(middle) {
            &mut most
        } else {
            &mut too_many
        }) = middle;
    }
    assert!(most > 2000, "{most}");
    let name = format!("a{}", "-b".repeat(31));
    assert_eq!(name.len(), 63);
    let (_, mut request) = rig.wanted(&name, facts(most));
    request.labels = [("k".repeat(63), "v".repeat(63))].into();
    let created = create(&rig, &request).await.expect("created").instance;
    let running = until_running(&rig, &created).await;
    assert_eq!(
        (running.mark.facts, running.labels),
        (request.facts, request.labels)
    );
    let removal = Rig::removal(&created.id, Some(created.mark.incarnation));
    assert_eq!(
        rig.backend().delete(&removal).await.expect("deleted"),
        Deleted::Gone
    );
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Kubernetes API server"]
async fn nothing_is_made_in_a_namespace_that_is_being_deleted() {
    let rig = Rig::new("none").await;
    let instance = rig.created("a").await;
    hold(&rig, "a").await;
    Cluster::shared().remove_namespace(&rig.namespace).await;
    let (_, request) = rig.wanted("b", Rig::facts());
    let error = create(&rig, &request).await.expect_err("it is being deleted");
    assert_eq!(error.kind(), ErrorKind::Permanent, "{error}");
    assert!(
        error.to_string().contains("the namespace is being deleted"),
        "{error}"
    );
    wait::until_async("the Pod's turn", async || {
        let found = rig.backend().get(&Rig::read(&instance, false)).await;
        let found = found.map_err(|error| error.to_string())?.instance;
        (found.state == State::Terminated)
            .then_some(())
            .ok_or_else(|| format!("{found:?}"))
    })
    .await;
    let_go(&rig, "a").await;
    let removal = Rig::removal(&instance.id, Some(instance.mark.incarnation));
    assert_eq!(
        rig.backend().delete(&removal).await.expect("deleted"),
        Deleted::Gone
    );
}

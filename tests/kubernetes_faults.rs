//! An API server that goes away and comes back in the middle of things, under exactly the Role of the examples.
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

use std::time::Duration;

use egress::contract::{Accepted, CreateRequest, Created, Deleted, ListFilter, State};
use egress::transport::call::{Limits, Task, Unsuccessful, retry};
use futures_util::future::join_all;
use kube::api::ListParams;
use kube_node::{Cluster, Setup, wait};
use rig::{As, Rig};

const PROXIES: usize = 40;

fn patience() -> Limits {
    Limits::after(Duration::from_secs(300))
}

/// Waits until at least so many Pods are there, or at most, asking the API server past everything.
async fn until_pods(rig: &Rig<'_>, what: &str, wanted: fn(usize) -> bool) {
    wait::until_async(what, async || {
        let list = rig.pods().list(&ListParams::default()).await;
        let number = list.map_err(|error| error.to_string())?.items.len();
        wanted(number)
            .then_some(())
            .ok_or_else(|| format!("{number} Pods"))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "needs a Kubernetes API server"]
async fn a_restart_in_the_middle_loses_and_doubles_nothing() {
    let cluster = Cluster::start(Setup { controllers: true });
    let rig = Rig::on(&cluster, "none", As::Role, false).await;
    let backend = rig.direct();
    let restart = || {
        cluster.stop_api_server();
        cluster.start_api_server_again();
    };

    let creates: Vec<_> = (0..PROXIES)
        .map(|number| {
            let (_, request) = rig.wanted(&format!("proxy-{number}"), Rig::facts());
            let backend = rig.direct();
            Task::spawn(async move {
                let request = CreateRequest::New(Box::new(request));
                let accepted = Accepted::new();
                let created = retry(&patience(), || backend.create(&request, &accepted)).await;
                created.map(|Created { instance, .. }| instance)
            })
        })
        .collect();
    until_pods(&rig, "the first Pods", |number| number > 0).await;
    restart();
    let created: Result<Vec<_>, Unsuccessful> = join_all(creates)
        .await
        .into_iter()
        .map(|ended| ended.expect("no panic"))
        .collect();
    let created = created.expect("each of them came about");
    assert!(created.iter().all(|instance| !instance.mark.pending));

    let filter = ListFilter {
        installation: Rig::installation(),
        namespace: None,
    };
    let listings = Task::spawn({
        let (backend, filter) = (rig.direct(), filter.clone());
        async move {
            let mut listings = Vec::new();
            for _ in 0..20 {
                listings.push(retry(&patience(), || backend.list_by_tag(&filter)).await);
            }
            listings
        }
    });
    restart();
    for listing in listings.await.expect("no panic") {
        let listing = listing.expect("listed in the end");
        let mut found: Vec<_> = listing
            .instances
            .iter()
            .map(|found| found.mark.incarnation)
            .collect();
        let mut made: Vec<_> = created.iter().map(|made| made.mark.incarnation).collect();
        found.sort();
        made.sort();
        assert_eq!(found, made);
    }

    let deletes: Vec<_> = created
        .iter()
        .map(|instance| {
            let backend = rig.direct();
            let removal = Rig::removal(&instance.id, Some(instance.mark.incarnation));
            Task::spawn(async move { retry(&patience(), || backend.delete(&removal)).await })
        })
        .collect();
    until_pods(&rig, "the first Pods' end", |number| number < PROXIES).await;
    restart();
    for ended in join_all(deletes).await {
        assert_eq!(ended.expect("no panic").expect("deleted"), Deleted::Gone);
    }
    until_pods(&rig, "the last Pod's end", |number| number == 0).await;
    let left = backend.list_by_tag(&filter).await.expect("listed");
    assert!(left.instances.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Kubernetes API server"]
async fn a_wait_for_the_end_of_a_pod_outlives_the_api_server() {
    let cluster = Cluster::start(Setup::default());
    let rig = Rig::on(&cluster, "none", As::Admin, true).await;
    let (_, request) = rig.wanted("a", Rig::facts());
    let create = CreateRequest::New(Box::new(request));
    let created = rig
        .direct()
        .create(&create, &Accepted::new())
        .await
        .expect("created");
    let instance = created.instance;
    wait::until_async("it runs", async || {
        let found = rig.direct().get(&Rig::read(&instance, false)).await;
        let found = found.map_err(|error| error.to_string())?.instance;
        (found.state == State::Running)
            .then_some(())
            .ok_or_else(|| format!("{found:?}"))
    })
    .await;
    let held = serde_json::json!({ "metadata": { "finalizers": ["test.example/held"] } });
    rig.edit_pod("a", &held).await;
    let deleting = Task::spawn({
        let backend = rig.direct();
        let removal = Rig::removal(&instance.id, Some(instance.mark.incarnation));
        async move { retry(&patience(), || backend.delete(&removal)).await }
    });
    wait::until_async("the Pod is told to go", async || {
        let pod = rig.pods().get("a").await.map_err(|error| error.to_string())?;
        pod.metadata
            .deletion_timestamp
            .map(|_| ())
            .ok_or_else(|| "not yet".to_owned())
    })
    .await;
    cluster.stop_api_server();
    cluster.start_api_server_again();
    assert!(!deleting.is_finished(), "the Pod is held");
    rig.edit_pod("a", &serde_json::json!({ "metadata": { "finalizers": null } }))
        .await;
    assert_eq!(deleting.await.expect("no panic").expect("deleted"), Deleted::Gone);
    assert!(rig.pods().get_opt("a").await.expect("asked").is_none());
}

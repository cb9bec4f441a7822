//! Policies of a cluster that refuse or change Pods, decided by a real API server.
#![cfg(all(feature = "testing", target_os = "linux"))]

#[path = "kubernetes/front.rs"]
mod front;
#[path = "kube_node/mod.rs"]
mod kube_node;
#[path = "kubernetes/kubelet.rs"]
mod kubelet;
#[path = "kubernetes/policy.rs"]
mod policy;
#[path = "kubernetes/rig.rs"]
mod rig;
#[path = "kubernetes/role.rs"]
mod role;

use egress::contract::{
    Accepted, Backend, CreateRequest, Created, Deleted, Error, ErrorKind, Instance, NewInstance, Resume,
};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use rig::{As, Rig};
use serde_json::json;

async fn create(backend: &dyn Backend, request: &NewInstance) -> Result<Created, Error> {
    let request = CreateRequest::New(Box::new(request.clone()));
    backend.create(&request, &Accepted::new()).await
}

/// A Pod that Pod Security lets in at the level "restricted".
fn somebody_elses(user: Option<i64>) -> Pod {
    serde_json::from_value(json!({
        "metadata": { "name": "theirs" },
        "spec": {
            "securityContext": {
                "runAsNonRoot": true, "runAsUser": user, "seccompProfile": { "type": "RuntimeDefault" }
            },
            "containers": [{ "name": "c", "image": "i", "securityContext": {
                "allowPrivilegeEscalation": false, "capabilities": { "drop": ["ALL"] } } }]
        }
    }))
    .expect("a Pod")
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Kubernetes API server"]
async fn a_cluster_that_assigns_users_runs_proxies_as_them() {
    const ASSIGNED: i64 = 1_000_680_000;
    const RULE: &str = "object.spec.containers.all(c, has(c.securityContext.runAsUser) ? c.securityContext.runAsUser \
                        >= 1000680000 : object.spec.securityContext.runAsUser >= 1000680000)";
    let rig = Rig::of("none", As::Role, true).await;
    let said = "runAsUser must be in the ranges: [1000680000, 1000689999]";
    policy::refuse(&rig.client, &rig.namespace, "CREATE", RULE, said).await;
    policy::assign_user(&rig.client, &rig.namespace, ASSIGNED).await;
    let trying = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    policy::until_in_force(async || {
        let pods = rig.pods();
        if pods.create(&trying, &somebody_elses(Some(13))).await.is_ok() {
            return Err("any user is let in".to_owned());
        }
        let assigned = pods.create(&trying, &somebody_elses(None)).await;
        assigned.map(|_| ()).map_err(|error| error.to_string())
    })
    .await;

    let (_, request) = rig.wanted("a", Rig::facts());
    let error = create(&*rig.backend(), &request)
        .await
        .expect_err("it names its own user");
    assert_eq!(error.kind(), ErrorKind::Permanent, "{error}");
    assert!(error.to_string().contains(said), "{error}");
    assert!(rig.pods().get_opt("a").await.expect("asked").is_none());

    let assigned = rig.configured(|given| given.run_as_user = Some("assigned".to_owned()));
    let created = create(&*assigned, &request).await.expect("created").instance;
    let pod = rig.pods().get("a").await.expect("there");
    let context = pod.spec.expect("a spec").containers[0].security_context.clone();
    assert_eq!(context.expect("given").run_as_user, Some(ASSIGNED));
    let found = assigned.get(&Rig::read(&created, false)).await.expect("found");
    assert_eq!(found.instance.mark, created.mark, "what was assigned is no drift");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Kubernetes API server"]
async fn what_a_policy_refuses_is_told_in_its_words_and_changes_nothing() {
    let rig = Rig::of("none", As::Role, true).await;
    let backend = rig.backend();
    let resume = |instance: &Instance| {
        CreateRequest::Resume(Box::new(Resume {
            id: instance.id.clone(),
            installation: Rig::installation(),
            incarnation: instance.mark.incarnation,
            labels: [("team".to_owned(), "net".to_owned())].into(),
            prior_label_keys: Default::default(),
        }))
    };
    let instance = rig.created("a").await;
    let frozen = policy::refuse(
        &rig.client,
        &rig.namespace,
        "DELETE",
        "false",
        "nothing goes before Monday",
    )
    .await;
    let fixed = policy::refuse(
        &rig.client,
        &rig.namespace,
        "UPDATE",
        "false",
        "nothing changes before Monday",
    )
    .await;
    let trying = DeleteParams {
        dry_run: true,
        ..DeleteParams::default()
    };
    policy::until_in_force(async || {
        if rig.pods().delete("a", &trying).await.is_ok() {
            return Err("Pods go".to_owned());
        }
        let change = Patch::Merge(json!({ "metadata": { "labels": { "tried": "yes" } } }));
        let params = PatchParams {
            dry_run: true,
            ..PatchParams::default()
        };
        match rig.pods().patch("a", &params, &change).await {
            Ok(_) => Err("Pods change".to_owned()),
            Err(_) => Ok(()),
        }
    })
    .await;
    let removal = Rig::removal(&instance.id, Some(instance.mark.incarnation));
    let error = backend.delete(&removal).await.expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::Permanent, "{error}");
    assert!(
        error.to_string().contains("nothing goes before Monday"),
        "{error}"
    );
    assert!(
        error.to_string().contains("a policy of the cluster refuses it"),
        "{error}"
    );
    let error = backend
        .create(&resume(&instance), &Accepted::new())
        .await
        .expect_err("refused");
    assert!(
        error.to_string().contains("nothing changes before Monday"),
        "{error}"
    );
    let found = backend
        .get(&Rig::read(&instance, false))
        .await
        .expect("as it was");
    assert_eq!(found.instance.mark, instance.mark);

    // A proxy that may be made and not changed cannot be handed over, which is told; it is not lost.
    let (_, request) = rig.wanted("b", Rig::facts());
    let error = create(&*backend, &request).await.expect_err("not handed over");
    assert_eq!(error.kind(), ErrorKind::Permanent, "{error}");
    policy::allow(&rig.client, &frozen).await;
    policy::allow(&rig.client, &fixed).await;
    policy::until_in_force(async || match backend.delete(&removal).await {
        Ok(Deleted::Gone) => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    policy::until_in_force(async || {
        let created = create(&*backend, &request).await;
        created.map(|_| ()).map_err(|error| error.to_string())
    })
    .await;
}

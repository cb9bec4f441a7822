//! A proxy's life on a node: it serves whom it should, drift shows and heals, nothing is left.

use base64::Engine as _;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, EvictParams};
use serde_json::json;

use super::rig::{ADDRESS, FORBIDDEN, OK, Rig};
use crate::release::Cli;

on_a_node!(
    both: a_proxy_serves_until_it_is_destroyed, what_exists_is_imported;
    one: an_evicted_proxy_is_made_again, any_user_serves_with_a_password, a_killed_container_comes_back, a_failed_pod_is_replaced
);

fn a_proxy_serves_until_it_is_destroyed(cli: &Cli) {
    let rig = Rig::new(cli);
    rig.configure("", "");
    rig.workspace.apply();

    // `wait_for = "ready"` held until the probe passed: the first request is answered, without waiting.
    assert_eq!(rig.get_from(rig.node.gateway()), OK);
    assert_eq!(rig.get_from(rig.node.stranger()), FORBIDDEN);
    let proxy = rig.workspace.state_of(ADDRESS).expect("in the state");
    assert_eq!(proxy["id"], format!("cluster/{}/a", rig.namespace));
    assert_eq!(proxy["namespace"], rig.namespace.as_str());
    assert_eq!(proxy["state"], "running");
    let pod = rig.pod().expect("there");
    assert_eq!(
        proxy["ip"].as_str(),
        pod.status.expect("reported").pod_ip.as_deref()
    );
    assert_eq!(proxy["proxy_url"], format!("http://{}", rig.proxy()));
    rig.workspace.plans_nothing();

    // What others add to the Pod is theirs, as are the tolerations that admission has added by now.
    rig.patch_pod(&json!({
        "metadata": { "labels": { "mesh.example/injected": "yes" }, "annotations": { "mesh.example/status": "{}" } },
    }));
    rig.workspace.plans_nothing();

    rig.workspace.destroy();
    rig.is_empty();
}

fn what_exists_is_imported(cli: &Cli) {
    let rig = Rig::new(cli);
    rig.configure("", "");
    rig.workspace.apply();
    rig.workspace.run(&["state", "rm", ADDRESS]).succeeds();
    let id = format!("cluster/{}/a", rig.namespace);
    rig.workspace
        .run(&["import", "-no-color", ADDRESS, &id])
        .succeeds();
    rig.workspace
        .run(&["plan", "-no-color"])
        .succeeds()
        .never_says(&["must be replaced", "will be created"]);
    // `wait_for` is in no mark: one update in place that writes nothing, then nothing.
    rig.workspace.apply();
    rig.workspace.plans_nothing();
    assert_eq!(rig.get_from(rig.node.gateway()), OK);
    rig.workspace.destroy();
    rig.is_empty();
}

fn an_evicted_proxy_is_made_again(cli: &Cli) {
    let rig = Rig::new(cli);
    rig.configure("", "");
    rig.workspace.apply();
    let first = rig.workspace.state_of(ADDRESS).expect("in the state");
    rig.node.cluster().block_on(async |client: kube::Client| {
        let pods: Api<Pod> = Api::namespaced(client, &rig.namespace);
        pods.evict("a", &EvictParams::default()).await.expect("evicted");
    });
    rig.until_pod("the evicted Pod's end", |pod| pod.is_none());
    assert_eq!(rig.workspace.planned(&[]).actions(ADDRESS), ["create"]);

    rig.workspace.apply();
    rig.serves();
    let second = rig.workspace.state_of(ADDRESS).expect("in the state");
    assert_eq!(first["uid"], second["uid"], "the same specification");
    assert_ne!(first["incarnation"], second["incarnation"], "another instance");
    rig.workspace.plans_nothing();
    rig.workspace.destroy();
    rig.is_empty();
}

/// A number as OpenShift assigns them; nothing of the image is this user's.
fn any_user_serves_with_a_password(cli: &Cli) {
    let rig = Rig::new(cli);
    rig.configure_with(
        "      run_as_user = \"1000680000\"",
        "",
        "    username            = \"team\"\n    password_wo         = \"geheim\"\n    password_wo_version = \"1\"\n",
    );
    rig.workspace.apply();
    let pod = rig.pod().expect("there");
    let context = pod.spec.and_then(|spec| spec.security_context).expect("given");
    assert_eq!(context.run_as_user, Some(1_000_680_000));
    let gateway = rig.node.gateway();
    assert_eq!(
        rig.get_from(gateway),
        "HTTP/1.1 407 Proxy Authentication Required"
    );
    let credentials = base64::engine::general_purpose::STANDARD.encode("team:geheim");
    let header = format!("Proxy-Authorization: Basic {credentials}\r\n");
    assert_eq!(rig.get_with(gateway, &header), OK);
    rig.workspace.destroy();
    rig.is_empty();
}

fn a_killed_container_comes_back(cli: &Cli) {
    let rig = Rig::new(cli);
    rig.configure("", "");
    rig.workspace.apply();
    let [container] = &rig.node.containers(&rig.namespace, "a")[..] else {
        panic!("one container");
    };
    rig.node.ctr(&["tasks", "kill", "--signal", "SIGKILL", container]);
    // Whether the kubelet was faster or not: nothing is replaced.
    rig.workspace.run(&["plan", "-no-color"]).succeeds().never_says(&[
        "must be replaced",
        "will be created",
        "will be destroyed",
    ]);
    rig.until_pod("a container started again", |pod| {
        let status = pod.and_then(|pod| pod.status.as_ref());
        let mut containers = status
            .and_then(|status| status.container_statuses.as_ref())
            .into_iter()
            .flatten();
        containers.any(|container| container.restart_count > 0 && container.ready)
    });
    rig.serves();
    rig.workspace.plans_nothing();
    rig.workspace.destroy();
    rig.is_empty();
}

/// What a kubelet under pressure does to a Pod, it does when the Pod's time is over, too: phase `Failed`.
fn a_failed_pod_is_replaced(cli: &Cli) {
    let rig = Rig::new(cli);
    rig.configure("", "");
    rig.workspace.apply();
    rig.patch_pod(&json!({ "spec": { "activeDeadlineSeconds": 1 } }));
    rig.until_pod("a failed Pod", |pod| {
        let status = pod.and_then(|pod| pod.status.as_ref());
        status.and_then(|status| status.phase.as_deref()) == Some("Failed")
    });
    let planned = rig.workspace.planned(&[]);
    assert_eq!(planned.actions(ADDRESS), ["delete", "create"]);
    assert_eq!(planned.replaced_by(ADDRESS), json!([["state"]]));

    rig.workspace.apply();
    rig.serves();
    rig.workspace.plans_nothing();
    rig.workspace.destroy();
    rig.is_empty();
}

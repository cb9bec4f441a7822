//! What goes wrong on a node, made by the real thing: each reaches the user in the cluster's own words.

use serde_json::json;

use super::rig::{ADDRESS, Rig};
use crate::kube_node::{Node, wait};
use crate::release::Cli;

on_a_node!(
    both: an_image_that_cannot_be_pulled;
    one:
    a_container_that_does_not_start,
    a_container_out_of_memory,
    a_node_that_does_not_exist,
    a_pod_that_its_node_refuses,
    a_quota_that_is_used_up,
    a_silent_node
);

/// Long enough for the cluster to say what is wrong; the wait always ends by it.
const BRIEFLY: &str = "\n  timeouts {\n    create = \"25s\"\n  }\n";

/// Apply fails with these words, and the failure leaves something that destroy removes.
#[track_caller]
fn fails_and_is_removed(rig: &Rig<'_>, words: &[&str]) {
    rig.workspace
        .run(&["apply", "-auto-approve", "-no-color"])
        .fails_saying(words);
    assert!(rig.workspace.is_tainted(ADDRESS));
    rig.workspace.destroy();
    rig.is_empty();
}

fn an_image_that_cannot_be_pulled(cli: &Cli) {
    let rig = Rig::new(cli);
    let image = "\n  placement {\n    image = \"localhost/none:1\"\n  }\n";
    rig.configure("", &(image.to_owned() + BRIEFLY));
    fails_and_is_removed(&rig, &["localhost/none:1", "ImagePull"]);
}

/// The image with nothing but `pause` in it has no Squid.
fn a_container_that_does_not_start(cli: &Cli) {
    let rig = Rig::new(cli);
    let image = "\n  placement {\n    image = \"localhost/pause:1\"\n  }\n";
    rig.configure("", &(image.to_owned() + BRIEFLY));
    fails_and_is_removed(&rig, &["CrashLoopBackOff", "executable file not found"]);
}

fn a_container_out_of_memory(cli: &Cli) {
    let rig = Rig::new(cli);
    rig.configure(
        "      memory_request = \"6Mi\"\n      memory_limit   = \"6Mi\"",
        BRIEFLY,
    );
    fails_and_is_removed(&rig, &["OOMKilled"]);
}

fn a_node_that_does_not_exist(cli: &Cli) {
    let rig = Rig::new(cli);
    let zone = "\n  placement {\n    zone = \"nowhere\"\n  }\n";
    rig.configure("", &(zone.to_owned() + BRIEFLY));
    fails_and_is_removed(&rig, &["didn't match Pod's node affinity/selector"]);

    // The node is in this zone.
    rig.configure("", &zone.replace("nowhere", "zone-a"));
    rig.workspace.apply();
    rig.serves();
    rig.workspace.destroy();
    rig.is_empty();
}

/// What a kubelet does not take it fails, for good: the wait ends at once, with what the cluster warned of.
fn a_pod_that_its_node_refuses(cli: &Cli) {
    let rig = Rig::new(cli);
    let zone = "\n  placement {\n    zone = \"nowhere\"\n  }\n";
    rig.configure("", zone);
    let apply = rig.workspace.start(&["apply", "-auto-approve", "-no-color"]);
    rig.until_pod("the Pod", |pod| pod.is_some());
    rig.bind_pod();
    apply
        .wait()
        .fails_saying(&["terminated", "NodeAffinity", "last warnings: "]);
    assert!(rig.workspace.is_tainted(ADDRESS));
    rig.workspace.destroy();
    rig.is_empty();
}

fn a_quota_that_is_used_up(cli: &Cli) {
    let rig = Rig::new(cli);
    let quota = [
        "create",
        "quota",
        "none",
        "--hard=pods=0",
        "--namespace",
        &rig.namespace,
    ];
    rig.kubectl(&quota).succeeds();
    wait::until("the quota's first count", || {
        let get = [
            "get",
            "quota",
            "none",
            "--output=json",
            "--namespace",
            &rig.namespace,
        ];
        let quota = rig.kubectl(&get).succeeds().json();
        let hard = &quota["status"]["hard"];
        (*hard == json!({ "pods": "0" }))
            .then_some(())
            .ok_or_else(|| quota.to_string())
    });
    rig.configure("", "");
    rig.workspace
        .run(&["apply", "-auto-approve", "-no-color"])
        .fails_saying(&["exceeded quota: none"]);
    assert_eq!(rig.workspace.state_of(ADDRESS), None);
    rig.is_empty();
}

/// It has a node of its own, since the others' must not fall silent.
fn a_silent_node(cli: &Cli) {
    let node = Node::start();
    let rig = Rig::on(&node, cli);
    rig.configure("", "\n  timeouts {\n    delete = \"10s\"\n  }\n");
    rig.workspace.apply();
    rig.serves();
    node.silence();
    rig.until_pod("a Pod whose node is not ready", |pod| {
        let status = pod.and_then(|pod| pod.status.as_ref());
        let mut conditions = status
            .and_then(|status| status.conditions.as_ref())
            .into_iter()
            .flatten();
        conditions.any(|condition| condition.type_ == "Ready" && condition.status == "False")
    });
    // An outage replaces nothing; the proxy itself still serves.
    rig.workspace.run(&["plan", "-no-color"]).succeeds().never_says(&[
        "must be replaced",
        "will be created",
        "will be destroyed",
    ]);
    rig.serves();

    // A Pod is gone only when its node says so.
    rig.workspace
        .run(&["destroy", "-auto-approve", "-no-color"])
        .fails_saying(&[
            "took longer than 10s",
            "it is being deleted",
            "its node node1 has not said that it ended",
            "It stays in the state",
        ]);
    assert!(rig.workspace.state_of(ADDRESS).is_some());
    node.speak_again();
    rig.workspace.destroy();
    rig.is_empty();
}

//! Applies that meet, that are killed, and that a quota cuts short: on an API server alone, under the Role.

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{Pod, ResourceQuota};
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use rustix::process::Signal;
use serde_json::json;

use super::rig::{Rights, prepare, provider};
use crate::kube_node::{Cluster, wait};
use crate::release::{Cli, cli};
use crate::workspace::Workspace;

/// A namespace as the examples prepare it, and who works there.
struct Place {
    cluster: &'static Cluster,
    namespace: String,
    kubeconfig: String,
}

impl Place {
    fn new(cli: &Cli, rights: Rights) -> Self {
        let cluster = Cluster::of_our_own();
        let namespace = format!("t-{}", uuid::Uuid::new_v4().simple());
        prepare(&Workspace::new(cli), cluster, &namespace, rights);
        let token =
            cluster.block_on(async |_| cluster.service_account_token(&namespace, "egress-proxies").await);
        let kubeconfig = cluster.kubeconfig_with(&json!({ "token": token }));
        Self {
            cluster,
            namespace,
            kubeconfig: kubeconfig.display().to_string(),
        }
    }

    /// A state of its own with so many proxies; nobody runs them, and nobody waits for that.
    fn state(&self, cli: &Cli, proxies: usize) -> Workspace {
        let resources = format!(
            r#"
resource "egress_proxy" "all" {{
  count    = {proxies}
  name     = "proxy-${{count.index}}"
  wait_for = "none"

  access {{
    allowed_cidrs = ["10.0.0.0/8"]
  }}
}}
"#
        );
        Workspace::with(
            cli,
            &(provider(&self.kubeconfig, &self.namespace, "") + &resources),
        )
    }

    fn pods(&self) -> usize {
        self.cluster.block_on(async |client: kube::Client| {
            let pods: Api<Pod> = Api::namespaced(client, &self.namespace);
            pods.list(&ListParams::default())
                .await
                .expect("listed")
                .items
                .len()
        })
    }

    /// Lets the namespace have so many Pods, and returns when the quota counts.
    fn allow(&self, pods: usize) {
        self.cluster.block_on(async |client: kube::Client| {
            let quotas: Api<ResourceQuota> = Api::namespaced(client, &self.namespace);
            let hard = pods.to_string();
            let spec = json!({ "metadata": { "name": "pods" }, "spec": { "hard": { "pods": hard } } });
            let made = serde_json::from_value(spec.clone()).expect("a quota");
            match quotas.create(&PostParams::default(), &made).await {
                Ok(_) => {}
                Err(kube::Error::Api(status)) if status.code == 409 => {
                    let patch = Patch::Merge(&spec);
                    quotas
                        .patch("pods", &PatchParams::default(), &patch)
                        .await
                        .expect("changed");
                }
                Err(error) => panic!("{error}"),
            }
            wait::until_async("the quota counts", async || {
                let quota = quotas.get("pods").await.map_err(|error| error.to_string())?;
                let counted = quota.status.and_then(|status| status.hard).unwrap_or_default();
                match counted.get("pods") {
                    Some(counted) if counted.0 == hard => Ok(()),
                    other => Err(format!("{other:?}")),
                }
            })
            .await;
        });
    }
}

/// How many proxies the state holds.
fn held(workspace: &Workspace) -> usize {
    let list = workspace.run(&["state", "list"]).succeeds();
    list.stdout.lines().count()
}

#[test]
#[ignore = "needs a Kubernetes API server, kubectl and the CLIs"]
fn what_a_quota_leaves_out_comes_with_the_next_apply() {
    let cli = &cli("terraform", "1.15.5");
    let place = Place::new(cli, Rights::InOneNamespace);
    place.allow(2);
    let workspace = place.state(cli, 4);
    workspace
        .run(&["apply", "-auto-approve", "-no-color"])
        .fails_saying(&["exceeded quota: pods", "An allowance is used up"]);
    assert_eq!((held(&workspace), place.pods()), (2, 2));
    place.allow(10);
    workspace.apply();
    assert_eq!((held(&workspace), place.pods()), (4, 4));
    workspace.plans_nothing();
    workspace.destroy();
    assert_eq!(place.pods(), 0);
}

#[test]
#[ignore = "needs a Kubernetes API server, kubectl and the CLIs"]
fn two_applies_at_once_make_one_proxy() {
    let cli = &cli("tofu", "1.12.6");
    let place = Place::new(cli, Rights::InOneNamespace);
    let (first, second) = (place.state(cli, 1), place.state(cli, 1));
    let apply = ["apply", "-auto-approve", "-no-color"];
    let (one, other) = (first.start(&apply), second.start(&apply));
    let (one, other) = (one.wait(), other.wait());
    assert_eq!(place.pods(), 1);
    // Whoever holds it now plans nothing; to the other it is gone, which destroys nothing.
    let plans = [&first, &second].map(|workspace| {
        let plan = workspace.run(&["plan", "-detailed-exitcode", "-no-color"]);
        plan.code
    });
    let holders = plans.iter().filter(|code| **code == Some(0)).count();
    assert_eq!(
        holders,
        1,
        "{plans:?}\n{}\n{}",
        one.transcript(),
        other.transcript()
    );
    let (holder, loser) = if plans[0] == Some(0) {
        (&first, &second)
    } else {
        (&second, &first)
    };
    loser.destroy();
    assert_eq!(place.pods(), 1);
    holder.plans_nothing();
    holder.destroy();
    assert_eq!(place.pods(), 0);
}

#[test]
#[ignore = "needs a Kubernetes API server, kubectl and the CLIs"]
fn a_killed_provider_doubles_nothing() {
    let cli = &cli("terraform", "1.15.5");
    const PROXIES: usize = 60;
    let place = Place::new(cli, Rights::InOneNamespace);
    let workspace = place.state(cli, PROXIES);
    // One after the other, so that the first is there long before the last.
    let apply = workspace.start(&["apply", "-auto-approve", "-no-color", "-parallelism=1"]);
    let deadline = Instant::now() + Duration::from_secs(120);
    while place.pods() == 0 {
        assert!(Instant::now() < deadline, "no Pod was made");
        std::thread::yield_now();
    }
    for process in workspace.processes() {
        if process.command.contains("bin/terraform-provider-egress") {
            process.kill(Signal::KILL);
        }
    }
    let applied = apply.wait();
    assert_ne!(applied.code, Some(0), "{}", applied.transcript());
    assert!(place.pods() < PROXIES, "it was killed in the middle");
    // The one that was handed over in that very moment is in no state; the error says how it gets into one.
    let again = workspace.run(&["apply", "-auto-approve", "-no-color"]);
    if again.code != Some(0) {
        let again = again.fails_saying(&["was handed over to a state", "import {"]);
        let ids: Vec<_> = again
            .stderr
            .lines()
            .filter_map(|line| line.trim().strip_prefix("id = \"")?.strip_suffix('"'))
            .collect();
        let [id] = ids[..] else {
            panic!("one at a time is made: {ids:?}\n{}", again.transcript());
        };
        let number = id.rsplit_once('-').expect("a number").1;
        let address = format!("egress_proxy.all[{number}]");
        workspace.run(&["import", "-no-color", &address, id]).succeeds();
        workspace.apply();
    }
    assert_eq!((held(&workspace), place.pods()), (PROXIES, PROXIES));
    workspace.plans_nothing();
    workspace.destroy();
    assert_eq!(place.pods(), 0);
}

#[test]
#[ignore = "needs a Kubernetes API server, kubectl and the CLIs"]
fn one_account_finds_the_proxies_of_every_namespace() {
    let cli = &cli("terraform", "1.15.5");
    let (one, other) = (
        Place::new(cli, Rights::ToListAll),
        Place::new(cli, Rights::InOneNamespace),
    );
    let everywhere = "      namespaces = [\"*\"]";
    // Other tests have proxies of the same installation in the same cluster.
    let ours = format!(
        "locals {{\n  ours = {}\n}}\n",
        json!([one.namespace, other.namespace])
    );
    let listing = r#"
data "egress_proxies" "all" {
  depends_on = [egress_proxy.own]
}

data "egress_provider_health" "all" {}

output "names" {
  value = sort([for proxy in data.egress_proxies.all.proxies : "${proxy.namespace}/${proxy.name}" if contains(local.ours, proxy.namespace)])
}

output "healthy" {
  value = data.egress_provider_health.all.healthy
}
"#;
    let proxy = |name: &str, namespace: &str| {
        format!(
            "\nresource \"egress_proxy\" \"{name}\" {{\n  name = \"proxy-own\"\n  namespace = \"{namespace}\"\n  \
             wait_for = \"none\"\n  access {{\n    allowed_cidrs = [\"10.0.0.0/8\"]\n  }}\n}}\n"
        )
    };
    let theirs = other.state(cli, 1);
    theirs.apply();
    let main = provider(&one.kubeconfig, &one.namespace, everywhere)
        + "\n"
        + &ours
        + listing
        + &proxy("own", &one.namespace);
    let workspace = Workspace::with(cli, &main);
    workspace.apply();
    let output = |name: &str| workspace.run(&["output", "-json", name]).succeeds().json();
    let mut expected = [
        format!("{}/proxy-own", one.namespace),
        format!("{}/proxy-0", other.namespace),
    ];
    expected.sort();
    assert_eq!(output("names"), json!(expected));
    assert_eq!(output("healthy"), json!(true));
    workspace.plans_nothing();

    // Found is not allowed: it still makes proxies in its own namespace alone.
    workspace.write("main.tf", &(main + &proxy("elsewhere", &other.namespace)));
    workspace
        .run(&["apply", "-auto-approve", "-no-color"])
        .fails_saying(&[
            "cannot create resource \"pods\"",
            "grant it with a Role and a RoleBinding",
        ]);
    workspace.destroy();
    assert_eq!((one.pods(), other.pods()), (0, 1));
    theirs.destroy();
    assert_eq!(other.pods(), 0);
}

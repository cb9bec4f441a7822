//! What a plan asks the API server: counted there, not here.

use std::collections::BTreeMap;

use super::rig::provider;
use crate::kube_node::{Asked, Cluster, Setup};
use crate::release::{Cli, cli};
use crate::workspace::Workspace;

/// How many objects a page of a listing holds.
const PAGE: usize = 500;

/// How often what was asked.
fn counted(asked: &[Asked]) -> BTreeMap<(&str, &str), usize> {
    let mut counts = BTreeMap::new();
    for asked in asked {
        *counts
            .entry((asked.verb.as_str(), asked.resource.as_str()))
            .or_default() += 1;
    }
    counts
}

#[test]
#[ignore = "needs a Kubernetes API server and the CLIs"]
fn a_plan_over_any_number_of_proxies_is_one_listing() {
    one_listing(&cli("terraform", "1.15.5"));
}

fn one_listing(cli: &Cli) {
    let cluster = Cluster::start(Setup::default());
    let namespace = cluster.block_on(async |_| cluster.namespace().await);
    let kubeconfig = cluster.kubeconfig().display().to_string();
    let workspace = Workspace::new(cli);
    for (number, pages) in [(1, 1), (100, 1), (1000, 1000_usize.div_ceil(PAGE))] {
        let resources = format!(
            r#"
resource "egress_proxy" "all" {{
  count    = {number}
  name     = "proxy-${{count.index}}"
  wait_for = "none"

  access {{
    allowed_cidrs = ["10.0.0.0/8"]
  }}
}}
"#
        );
        workspace.write("main.tf", &(provider(&kubeconfig, &namespace, "") + &resources));
        workspace
            .run(&["apply", "-auto-approve", "-no-color", "-parallelism=50"])
            .succeeds();
        let ((), asked) = cluster.requests(|| {
            workspace
                .run(&["plan", "-detailed-exitcode", "-no-color", "-parallelism=50"])
                .succeeds();
        });
        let counts = counted(&asked);
        assert_eq!(
            counts.get(&("list", "pods")),
            Some(&pages),
            "{number} proxies: {counts:?}"
        );
        for never in ["get", "watch", "create", "update", "patch", "delete"] {
            assert_eq!(counts.get(&(never, "pods")), None, "{number} proxies: {counts:?}");
            assert_eq!(
                counts.get(&(never, "services")),
                None,
                "{number} proxies: {counts:?}"
            );
        }
        // What else is asked, which cluster it is above all, does not grow with the number.
        let others = asked.len() - pages;
        assert!(others <= 6, "{number} proxies: {counts:?}");
    }
}

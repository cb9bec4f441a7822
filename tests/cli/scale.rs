//! Many proxies in one state, on the reference backend: nothing is lost in the crowd, and the number
//! of remote calls of a plan does not grow with the number of proxies.

use crate::reference::Reference;
use crate::release::Cli;

on!(long: two_hundred_proxies);

const RESOURCES: &str = r#"
resource "egress_proxy" "all" {
  count = 200
  name  = "proxy-${count.index}"
}
"#;

fn two_hundred_proxies(cli: &Cli) {
    let reference = Reference::with(cli, RESOURCES);
    reference
        .workspace
        .run(&["apply", "-auto-approve", "-no-color", "-parallelism=50"])
        .succeeds();
    assert_eq!(reference.instances().len(), 200);

    reference.calls();
    reference
        .workspace
        .run(&["plan", "-detailed-exitcode", "-no-color", "-parallelism=50"])
        .succeeds();
    let calls = reference.calls();
    assert_eq!(
        calls.get("list_by_tag"),
        Some(&1),
        "one listing answers every read: {calls:?}"
    );
    assert_eq!(calls.get("get"), None, "{calls:?}");

    reference
        .workspace
        .run(&["destroy", "-auto-approve", "-no-color", "-parallelism=50"])
        .succeeds();
    reference.is_empty();
}

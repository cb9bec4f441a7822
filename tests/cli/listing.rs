//! The listing data source in a configuration: what no state holds is there too, what could not be
//! listed is named.

use serde_json::{Value, json};

use crate::reference::{Reference, proxy};
use crate::release::Cli;

on!(long: a_forgotten_proxy_is_listed);

const RESOURCES: &str = r#"
data "egress_proxies" "all" {}

output "ids" {
  value = data.egress_proxies.all.proxies[*].id
}

output "unreadable" {
  value = data.egress_proxies.all.unreadable[*].scope
}
"#;

fn a_forgotten_proxy_is_listed(cli: &Cli) {
    let reference = Reference::one_proxy(cli, "");
    let output = |name: &str| -> Value {
        reference
            .workspace
            .run(&["output", "-json", name])
            .succeeds()
            .json()
    };
    reference.workspace.apply();
    reference
        .workspace
        .run(&["state", "rm", "egress_proxy.a"])
        .succeeds();

    reference.workspace.write("main.tf", RESOURCES);
    reference.workspace.apply();
    assert_eq!(output("ids"), json!(["reference/z1/default/a"]));
    assert_eq!(output("unreadable"), json!([]));

    reference.workspace.write("main.tf", &proxy(""));
    reference
        .workspace
        .run(&["import", "-no-color", "egress_proxy.a", "reference/z1/default/a"])
        .succeeds();
    reference.workspace.plans_nothing();
    reference.workspace.destroy();
    reference.is_empty();
}

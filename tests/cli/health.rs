//! The health data source in a configuration: what is unhealthy is data, never an error.

use serde_json::Value;

use crate::reference::Reference;
use crate::release::Cli;

on!(long: an_outage_is_data);

const RESOURCES: &str = r#"
data "egress_provider_health" "all" {}

output "healthy" {
  value = data.egress_provider_health.all.healthy
}

output "targets" {
  value = data.egress_provider_health.all.targets
}
"#;

fn an_outage_is_data(cli: &Cli) {
    let reference = Reference::with(cli, RESOURCES);
    let output = |name: &str| -> Value {
        reference
            .workspace
            .run(&["output", "-json", name])
            .succeeds()
            .json()
    };

    reference.workspace.apply();
    assert_eq!(output("healthy"), true);
    let targets = output("targets");
    assert_eq!(targets[0]["backend"], "reference");
    assert_eq!(targets[0]["kind"], "memory");
    assert_eq!(targets[0]["healthy"], true);

    reference.change(|world| world["zones"] = serde_json::json!({ "z1": { "reachable": false } }));
    reference.workspace.apply();
    assert_eq!(output("healthy"), false);
    let targets = output("targets");
    assert_eq!(targets[0]["reason"], "Unreachable");
    assert!(
        !targets[0]["message"].as_str().unwrap_or_default().is_empty(),
        "{targets}"
    );
}

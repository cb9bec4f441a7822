//! What no state holds comes back: through the command line, through `import` with `for_each`, through
//! `terraform query`; or goes, through the action.

use std::fs;

use serde_json::json;

use crate::reference::Reference;
use crate::release::Cli;

on!(long: what_import_by_tag_prints_applies_without_a_change);

mod for_each {
    use super::the_example_imports_every_orphan;
    on!(for_each: the_example_imports_every_orphan);
}

mod query {
    use super::{a_query_becomes_a_configuration_that_only_imports, the_action_collects_what_is_not_kept};
    on!(query: a_query_becomes_a_configuration_that_only_imports, the_action_collects_what_is_not_kept);
}

/// Two proxies of one name, one with everything that a mark holds, and a password where the CLI can give
/// one.
fn pool(cli: &Cli) -> String {
    let secret = if cli.has_write_only() {
        "    username            = \"u\"\n    password_wo         = \"s3nt1nel-Zq9\"\n    password_wo_version = 1\n"
    } else {
        ""
    };
    format!(
        r#"
resource "egress_proxy" "a" {{
  name = "a"
}}

resource "egress_proxy" "full" {{
  name      = "a"
  namespace = "other"
  port      = 8080
  labels    = {{ team = "x", "cost-center" = "$${{7}}" }}
  placement {{
    zone = "z1"
  }}
  access {{
    allowed_cidrs   = ["10.0.0.0/8", "fd00::/64"]
    allowed_ports   = [443, 8443]
    allowed_domains = [".example.com"]
{secret}  }}
}}
"#
    )
}

/// The same backend for the command line.
fn config(reference: &Reference) -> String {
    let path = reference.workspace.path("egress.yaml");
    let world = reference.workspace.path("world.json");
    let config = json!({
        "installation": "prod",
        "backends": { "reference": { "memory": { "file": world.display().to_string() } } },
    });
    fs::write(&path, config.to_string()).expect("a file");
    path.display().to_string()
}

/// Two proxies of one name that their state forgot.
fn forgotten(cli: &Cli) -> Reference {
    let resources = r#"
resource "egress_proxy" "a" {
  name = "a"
}

resource "egress_proxy" "full" {
  name      = "a"
  namespace = "other"
  port      = 8080
}
"#;
    let reference = Reference::with(cli, resources);
    reference.workspace.apply();
    let forget = ["state", "rm", "egress_proxy.a", "egress_proxy.full"];
    reference.workspace.run(&forget).succeeds();
    reference
}

fn what_import_by_tag_prints_applies_without_a_change(cli: &Cli) {
    let reference = Reference::with(cli, &pool(cli));
    let workspace = &reference.workspace;
    let config = config(&reference);
    let ask = |state: &str, arguments: &[&str]| {
        let all = [
            &["import-by-tag", "--config", &config, "--state", state],
            arguments,
        ]
        .concat();
        workspace.ask_provider(&all)
    };
    workspace.apply();
    // As both forms of the state say, nothing is forgotten.
    let shown = workspace.run(&["show", "-json"]).succeeds().stdout;
    workspace.write("shown.json", &shown);
    for state in ["shown.json", "terraform.tfstate"] {
        ask(state, &["--detailed-exitcode"]).succeeds();
    }
    let forget = ["state", "rm", "egress_proxy.a", "egress_proxy.full"];
    workspace.run(&forget).succeeds();
    reference.calls();
    ask("terraform.tfstate", &["--detailed-exitcode"]).ends_with(2);
    let printed = ask("terraform.tfstate", &["--output", "hcl"])
        .succeeds()
        .never_says(&["s3nt1nel"])
        .stdout;
    workspace.write("main.tf", &printed);
    workspace
        .run(&["fmt", "-check", "-diff", "-no-color", "main.tf"])
        .succeeds();
    let variable = "-var=other_a_password=s3nt1nel-Zq9";
    let secret = if cli.has_write_only() {
        vec![variable]
    } else {
        Vec::new()
    };
    let planned = workspace.planned(&secret);
    for address in ["egress_proxy.default_a", "egress_proxy.other_a"] {
        assert_eq!(
            planned.actions(address),
            ["no-op"],
            "{printed}\n{:#}",
            planned.change(address)
        );
        assert!(
            planned.change(address)["change"]["importing"].is_object(),
            "{address}"
        );
    }
    let calls = reference.calls();
    assert!(!calls.contains_key("create"), "{calls:?}");
    workspace
        .run(&[&["apply", "-auto-approve", "-no-color"], &secret[..]].concat())
        .succeeds();
    workspace
        .run(&[&["plan", "-detailed-exitcode", "-no-color"], &secret[..]].concat())
        .succeeds();
    let calls = reference.calls();
    assert!(
        !calls.contains_key("create") && !calls.contains_key("resume"),
        "{calls:?}"
    );
    workspace
        .run(&[&["destroy", "-auto-approve", "-no-color"], &secret[..]].concat())
        .succeeds();
    reference.is_empty();
}

const EXAMPLE: &str = include_str!("../../examples/import-orphans/main.tf");

fn the_example_imports_every_orphan(cli: &Cli) {
    let reference = forgotten(cli);
    let workspace = &reference.workspace;
    // The provider is configured beside it.
    let example = EXAMPLE
        .split_once("data \"egress_proxies\"")
        .expect("a listing")
        .1;
    workspace.write("main.tf", &format!("data \"egress_proxies\"{example}"));
    let planned = workspace.planned(&[]);
    let addresses =
        ["reference/z1/default/a", "reference/z1/other/a"].map(|id| format!("egress_proxy.orphan[{id:?}]"));
    for address in &addresses {
        assert_eq!(
            planned.actions(address),
            ["no-op"],
            "{:#}",
            planned.change(address)
        );
    }
    workspace.apply();
    workspace.plans_nothing();
    for address in &addresses {
        assert!(workspace.state_of(address).is_some(), "{address}");
    }
    let calls = reference.calls();
    assert!(
        !calls.contains_key("resume") && calls.get("create") == Some(&2),
        "only the pool was created: {calls:?}"
    );
    workspace.destroy();
    reference.is_empty();
}

fn a_query_becomes_a_configuration_that_only_imports(cli: &Cli) {
    let reference = Reference::with(cli, "");
    let workspace = &reference.workspace;
    let resources = "resource \"egress_proxy\" \"a\" {\n  name = \"a\"\n}\nresource \"egress_proxy\" \"b\" {\n  name = \"b\"\n  port = 8080\n  labels = { team = \"x\" }\n}\n";
    workspace.write("main.tf", resources);
    workspace.apply();
    workspace
        .run(&["state", "rm", "egress_proxy.a", "egress_proxy.b"])
        .succeeds();
    workspace.write("main.tf", "");
    let query = |limit: &str| format!("list \"egress_proxy\" \"all\" {{\n  provider = egress\n{limit}}}\n");
    workspace.write("all.tfquery.hcl", &query("  limit    = 1\n"));
    let limited = workspace.run(&["query", "-no-color"]).succeeds();
    assert_eq!(
        limited.stdout.matches("reference/z1/default/").count(),
        1,
        "{}",
        limited.transcript()
    );
    workspace.write("all.tfquery.hcl", &query(""));
    workspace
        .run(&["query", "-no-color", "-generate-config-out=generated.tf"])
        .succeeds()
        .says(&["reference/z1/default/a", "reference/z1/default/b"]);
    let run = workspace.run(&["apply", "-auto-approve", "-no-color"]).succeeds();
    run.says(&["2 imported", "0 added", "0 changed", "0 destroyed"]);
    workspace.plans_nothing();
    let calls = reference.calls();
    assert!(
        !calls.contains_key("resume") && calls.get("create") == Some(&2),
        "{calls:?}"
    );
    workspace.destroy();
    reference.is_empty();
}

fn the_action_collects_what_is_not_kept(cli: &Cli) {
    let reference = Reference::with(cli, "");
    let workspace = &reference.workspace;
    let resource = |name: &str| format!("resource \"egress_proxy\" {name:?} {{\n  name = {name:?}\n}}\n");
    workspace.write("main.tf", &(resource("kept") + &resource("lost")));
    workspace.apply();
    workspace.run(&["state", "rm", "egress_proxy.lost"]).succeeds();
    let action = |arguments: &str| {
        format!(
            "{}\naction \"egress_gc\" \"orphans\" {{\n  config {{\n    keep_ids = [egress_proxy.kept.id]\n{arguments}  }}\n}}\n",
            resource("kept")
        )
    };
    let invoke = || {
        workspace.run(&[
            "apply",
            "-auto-approve",
            "-no-color",
            "-invoke=action.egress_gc.orphans",
        ])
    };
    // Handed over, and young: told, and left.
    workspace.write("main.tf", &action(""));
    invoke()
        .succeeds()
        .says(&["reference/z1/default/lost", "stays", "set complete = true"]);
    workspace.write("main.tf", &action("    complete = true\n    delete   = true\n"));
    invoke().succeeds().says(&["younger than 1h"]);
    assert_eq!(reference.instances().len(), 2);
    // Two hours later.
    reference.change(|world| {
        let mark = &mut world["zones"]["z1"]["instances"]["default/lost"]["mark"];
        let began = jiff::Timestamp::now() - jiff::SignedDuration::from_hours(2);
        let seconds = u64::try_from(began.as_second()).expect("after 1970");
        let clock = uuid::Timestamp::from_unix(uuid::NoContext, seconds, 0);
        mark["incarnation"] = uuid::Uuid::new_v7(clock).to_string().into();
        mark["created_at"] = began.to_string().into();
    });
    workspace.write("main.tf", &action("    complete = true\n"));
    invoke().succeeds().says(&["would go", "delete = true"]);
    assert_eq!(reference.instances().len(), 2);
    workspace.write("main.tf", &action("    complete = true\n    delete   = true\n"));
    invoke()
        .succeeds()
        .says(&["reference/z1/default/lost", "is gone", "1 gone"]);
    assert_eq!(
        reference.instances().into_keys().collect::<Vec<_>>(),
        ["default/kept"]
    );
    workspace.plans_nothing();
    workspace.destroy();
    reference.is_empty();
}

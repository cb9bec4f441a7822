//! Changes of a proxy that a state holds: in place, replacement, taint, a saved plan, another address.

use serde_json::json;

use crate::proxying::{free_port, get_as, get_through, nobody_listens};
use crate::quick::{one_proxy, with_access};
use crate::release::Cli;
use crate::workspace::Workspace;

on!(long:
    another_port_replaces,
    labels_change_in_place,
    replace_on_demand,
    taint_and_untaint,
    a_saved_plan_applies_once,
    a_resource_moves_to_another_address,
    a_password_stays_out_of_the_state,
    mistakes_are_found_at_plan
);

const ADDRESS: &str = "egress_proxy.a";

fn another_port_replaces(cli: &Cli) {
    let (first, second) = (free_port(), free_port());
    let workspace = Workspace::with(cli, &one_proxy(first));
    workspace.apply();
    workspace.write("main.tf", &one_proxy(second));
    let planned = workspace.planned(&[]);
    assert_eq!(planned.actions(ADDRESS), ["delete", "create"]);
    assert_eq!(planned.replaced_by(ADDRESS), json!([["port"]]));
    workspace.run(&["apply", "-no-color", "plan.bin"]).succeeds();
    nobody_listens(first);
    assert_eq!(get_through(second), "HTTP/1.1 200 OK");
    workspace.plans_nothing();
    workspace.destroy();
    nobody_listens(second);
}

fn labels_change_in_place(cli: &Cli) {
    let port = free_port();
    let workspace = Workspace::with(cli, &one_proxy(port));
    workspace.apply();
    let before = workspace.state_of(ADDRESS).expect("in the state");
    let labelled = one_proxy(port).replace(
        "wait_for = \"ready\"",
        "wait_for = \"ready\"\n  labels = {\n    team = \"platform\"\n  }",
    );
    workspace.write("main.tf", &labelled);
    assert_eq!(workspace.planned(&[]).actions(ADDRESS), ["update"]);
    workspace.run(&["apply", "-no-color", "plan.bin"]).succeeds();
    let after = workspace.state_of(ADDRESS).expect("in the state");
    assert_eq!(after["labels"], json!({ "team": "platform" }));
    assert_eq!(before["incarnation"], after["incarnation"]);
    workspace.plans_nothing();
    workspace.destroy();
}

fn replace_on_demand(cli: &Cli) {
    let port = free_port();
    let workspace = Workspace::with(cli, &one_proxy(port));
    workspace.apply();
    let before = workspace.state_of(ADDRESS).expect("in the state");
    workspace
        .run(&["apply", "-auto-approve", "-no-color", "-replace", ADDRESS])
        .succeeds();
    let after = workspace.state_of(ADDRESS).expect("in the state");
    assert_eq!(before["uid"], after["uid"]);
    assert_ne!(before["incarnation"], after["incarnation"]);
    assert_eq!(get_through(port), "HTTP/1.1 200 OK");
    workspace.plans_nothing();
    workspace.destroy();
}

fn taint_and_untaint(cli: &Cli) {
    let workspace = Workspace::with(cli, &one_proxy(free_port()));
    workspace.apply();
    workspace.run(&["taint", ADDRESS]).succeeds();
    assert!(workspace.is_tainted(ADDRESS));
    assert_eq!(workspace.planned(&[]).actions(ADDRESS), ["delete", "create"]);
    workspace.run(&["untaint", ADDRESS]).succeeds();
    workspace.plans_nothing();
    workspace.destroy();
}

fn a_saved_plan_applies_once(cli: &Cli) {
    let workspace = Workspace::with(cli, &one_proxy(free_port()));
    workspace
        .run(&["plan", "-out=plan.bin", "-detailed-exitcode", "-no-color"])
        .ends_with(2);
    workspace.run(&["apply", "-no-color", "plan.bin"]).succeeds();
    workspace
        .run(&["plan", "-detailed-exitcode", "-no-color"])
        .ends_with(0);
    workspace
        .run(&["apply", "-no-color", "plan.bin"])
        .fails_saying(&["Saved plan is stale"]);
    workspace
        .run(&[
            "plan",
            "-destroy",
            "-out=plan.bin",
            "-detailed-exitcode",
            "-no-color",
        ])
        .ends_with(2);
    workspace.run(&["apply", "-no-color", "plan.bin"]).succeeds();
    assert_eq!(workspace.state_of(ADDRESS), None);
}

fn a_resource_moves_to_another_address(cli: &Cli) {
    let port = free_port();
    let workspace = Workspace::with(cli, &one_proxy(port));
    workspace.apply();
    let before = workspace.state_of(ADDRESS).expect("in the state");
    let renamed = one_proxy(port).replace("\"egress_proxy\" \"a\"", "\"egress_proxy\" \"b\"");
    let moved = "moved {\n  from = egress_proxy.a\n  to   = egress_proxy.b\n}\n";
    workspace.write("main.tf", &format!("{renamed}{moved}"));
    assert_eq!(workspace.planned(&[]).actions("egress_proxy.b"), ["no-op"]);
    workspace.run(&["apply", "-no-color", "plan.bin"]).succeeds();
    assert_eq!(workspace.state_of("egress_proxy.b"), Some(before));
    assert_eq!(workspace.state_of(ADDRESS), None);
    workspace.plans_nothing();
    workspace.destroy();
    nobody_listens(port);
}

const PASSWORD: &str = "correct-horse-battery-staple";

fn a_password_stays_out_of_the_state(cli: &Cli) {
    let port = free_port();
    let with_password = |version: u32| {
        let access = format!(
            "    username = \"u\"\n    password_wo = \"{PASSWORD}\"\n    password_wo_version = {version}"
        );
        with_access(port, &access)
    };
    let mut workspace = Workspace::with(cli, &with_password(1));
    if !cli.has_write_only() {
        // Releases that cannot keep it out of the state never take it; the way out is named. The
        // CLI itself quotes the line of the configuration, so the password is not looked for.
        workspace
            .run(&["plan", "-no-color"])
            .fails_saying(&["password_wo", "password_hash"]);
        return;
    }
    workspace.set_env("TF_LOG", "trace");
    workspace.set_env("TF_LOG_PATH", workspace.path("trace.log").to_string_lossy());
    workspace.apply().never_says(&[PASSWORD]);
    assert_eq!(get_through(port), "HTTP/1.1 407 Proxy Authentication Required");
    assert_eq!(
        get_as("u", "wrong", port),
        "HTTP/1.1 407 Proxy Authentication Required"
    );
    assert_eq!(get_as("u", PASSWORD, port), "HTTP/1.1 200 OK");
    workspace.plans_nothing();

    // Another password under the same version is the same specification; another version is not.
    workspace.write("main.tf", &with_password(2));
    let planned = workspace.planned(&[]);
    assert_eq!(planned.actions(ADDRESS), ["delete", "create"]);
    assert_eq!(
        planned.replaced_by(ADDRESS),
        json!([["access", "password_wo_version"]])
    );
    workspace.destroy();

    for name in ["terraform.tfstate", "terraform.tfstate.backup"] {
        let state = std::fs::read_to_string(workspace.infra().join(name)).expect("a state");
        assert!(!state.contains(PASSWORD), "{name} holds the password");
    }
    // Core itself logs no write-only value either; anything that does would be the provider's.
    let log = std::fs::read_to_string(workspace.path("trace.log")).expect("a log");
    assert!(log.contains("provider.egress"), "the provider logged nothing");
    assert!(!log.contains(PASSWORD), "the log holds the password");
}

fn mistakes_are_found_at_plan(cli: &Cli) {
    let wrong = with_access(free_port(), "    allowed_cidrs = [\"10.0.0.0/33\"]")
        .replace("wait_for = \"ready\"", "wait_for = \"someday\"");
    let workspace = Workspace::with(cli, &wrong);
    workspace
        .run(&["plan", "-no-color"])
        .fails_saying(&["someday", "10.0.0.0/33"]);

    // What the backend cannot honour needs its configuration: found in plan, never ignored.
    let placed = "wait_for = \"ready\"\n  placement {\n    zone = \"eu\"\n  }";
    workspace.write(
        "main.tf",
        &one_proxy(free_port()).replace("wait_for = \"ready\"", placed),
    );
    workspace
        .run(&["plan", "-no-color"])
        .fails_saying(&["zone", "local"]);

    workspace.write("main.tf", &one_proxy(free_port()).replace("wait_for", "wait_fro"));
    workspace
        .run(&["validate", "-no-color"])
        .fails_saying(&["wait_fro", "Did you mean \"wait_for\"?"]);
}

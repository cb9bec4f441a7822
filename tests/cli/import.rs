//! Import: a proxy that exists comes into an empty state, and the plan after it is empty.

use crate::proxying::{free_port, get_through, nobody_listens};
use crate::quick::one_proxy;
use crate::release::Cli;
use crate::workspace::Workspace;

on!(long: import_by_id, import_by_id_block, import_of_what_is_not_there);

/// From the first release that has resource identity.
mod identity {
    use super::import_by_identity;

    on!(identity: import_by_identity);
}

const ADDRESS: &str = "egress_proxy.a";

/// A folder whose state has lost the one proxy that runs.
fn forgotten(cli: &Cli, port: u16) -> Workspace {
    let workspace = Workspace::with(cli, &one_proxy(port));
    workspace.apply();
    workspace.run(&["state", "rm", ADDRESS]).succeeds();
    assert_eq!(workspace.state_of(ADDRESS), None);
    workspace
}

fn import_by_id(cli: &Cli) {
    let port = free_port();
    let workspace = forgotten(cli, port);
    workspace
        .run(&["import", "-no-color", ADDRESS, "local/default/a"])
        .succeeds();
    let imported = workspace.state_of(ADDRESS).expect("in the state");
    assert_eq!(imported["name"], "a");
    assert_eq!(imported["port"], port);
    workspace
        .run(&["plan", "-no-color"])
        .succeeds()
        .never_says(&["must be replaced", "will be created"]);
    // `wait_for` is in no mark: one update in place that writes nothing, then nothing.
    workspace.apply();
    workspace.plans_nothing();
    assert_eq!(get_through(port), "HTTP/1.1 200 OK");
    workspace.destroy();
    nobody_listens(port);
}

fn import_of_what_is_not_there(cli: &Cli) {
    let workspace = Workspace::with(cli, &one_proxy(free_port()));
    let import = |id: &str| workspace.run(&["import", "-no-color", ADDRESS, id]);
    import("local/default/nobody").fails_saying(&["local/default/nobody"]);
    import("a").fails_saying(&["the backend's name, a slash"]);
    import("elsewhere/default/a").fails_saying(&["elsewhere"]);
    import("local//a").ends_with(1).never_says(&["panic", "crashed"]);
}

/// What a mark holds plans nothing after the import, in the same run.
fn import_by_id_block(cli: &Cli) {
    imports_with("id = \"local/default/a\"", cli);
}

fn import_by_identity(cli: &Cli) {
    imports_with(
        "identity = {\n    backend = \"local\"\n    key     = \"default/a\"\n  }",
        cli,
    );
}

fn imports_with(target: &str, cli: &Cli) {
    let port = free_port();
    // Every argument of the configuration is in the mark or has its default.
    let configuration = one_proxy(port).replace("  wait_for = \"ready\"\n", "");
    let workspace = Workspace::with(cli, &configuration);
    workspace.apply();
    let before = workspace.state_of(ADDRESS).expect("in the state");
    workspace.run(&["state", "rm", ADDRESS]).succeeds();
    workspace.write(
        "import.tf",
        &format!("import {{\n  to = {ADDRESS}\n  {target}\n}}\n"),
    );
    let planned = workspace.planned(&[]);
    assert_eq!(planned.actions(ADDRESS), ["no-op"], "{}", planned.0);
    workspace.run(&["apply", "-no-color", "plan.bin"]).succeeds();
    workspace.plans_nothing();
    let after = workspace.state_of(ADDRESS).expect("in the state");
    for same in [
        "id",
        "uid",
        "incarnation",
        "port",
        "created_at",
        "spec_sha256",
        "proxy_url",
    ] {
        assert_eq!(before[same], after[same], "{same}");
    }
    workspace.destroy();
    nobody_listens(port);
}

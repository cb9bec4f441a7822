//! What happens to a proxy behind the state's back: the plan says so, apply heals it.

use crate::proxying::{free_port, get_through, nobody_listens};
use crate::quick::one_proxy;
use crate::release::Cli;
use crate::workspace::Workspace;

on!(long: a_killed_squid_is_started_again, a_proxy_that_is_gone_is_made_again);

fn a_killed_squid_is_started_again(cli: &Cli) {
    let port = free_port();
    let workspace = Workspace::with(cli, &one_proxy(port));
    workspace.apply();
    let before = workspace.state_of("egress_proxy.a").expect("in the state");

    workspace.kill_squids();
    nobody_listens(port);
    workspace
        .run(&["plan", "-detailed-exitcode", "-no-color"])
        .ends_with(2);
    let planned = workspace.planned(&[]);
    assert_eq!(planned.actions("egress_proxy.a"), ["update"]);

    workspace.run(&["apply", "-no-color", "plan.bin"]).succeeds();
    assert_eq!(get_through(port), "HTTP/1.1 200 OK");
    let after = workspace.state_of("egress_proxy.a").expect("in the state");
    for kept in ["uid", "incarnation", "created_at", "spec_sha256", "target"] {
        assert_eq!(before[kept], after[kept], "{kept}");
    }
    workspace.plans_nothing();
    workspace.destroy();
    nobody_listens(port);
}

fn a_proxy_that_is_gone_is_made_again(cli: &Cli) {
    let port = free_port();
    let workspace = Workspace::with(cli, &one_proxy(port));
    workspace.apply();
    let first = workspace.state_of("egress_proxy.a").expect("in the state");

    workspace.kill_squids();
    std::fs::remove_dir_all(workspace.path("proxies")).expect("the proxies' folder");
    assert_eq!(workspace.planned(&[]).actions("egress_proxy.a"), ["create"]);

    workspace.apply();
    let second = workspace.state_of("egress_proxy.a").expect("in the state");
    assert_eq!(first["uid"], second["uid"], "the same specification");
    assert_ne!(first["incarnation"], second["incarnation"], "another instance");
    workspace.plans_nothing();
    workspace.destroy();
    nobody_listens(port);
}

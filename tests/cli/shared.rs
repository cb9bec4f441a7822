//! One name, several claims to it: two states, two resources, a replacement that overlaps. Nobody's
//! instance is lost or doubled.

use crate::proxying::{free_port, get_through, nobody_listens};
use crate::quick::one_proxy;
use crate::release::Cli;
use crate::workspace::Workspace;

on!(long:
    another_state_cannot_take_it_over,
    two_resources_of_one_name,
    create_before_destroy_under_one_name
);

const ADDRESS: &str = "egress_proxy.a";

fn another_state_cannot_take_it_over(cli: &Cli) {
    let port = free_port();
    let workspace = Workspace::with(cli, &one_proxy(port));
    workspace.apply();

    let other = workspace.beside("other");
    std::fs::copy(workspace.infra().join("main.tf"), other.join("main.tf")).expect("a copy");
    workspace
        .run_in(&other, &["apply", "-auto-approve", "-no-color"])
        .fails_saying(&["import {", "local/default/a"]);
    // Another specification under the same name is refused too.
    std::fs::write(other.join("main.tf"), one_proxy(free_port())).expect("a file");
    workspace
        .run_in(&other, &["apply", "-auto-approve", "-no-color"])
        .ends_with(1);
    workspace
        .run_in(&other, &["destroy", "-auto-approve", "-no-color"])
        .succeeds();

    assert_eq!(get_through(port), "HTTP/1.1 200 OK");
    workspace.plans_nothing();
    workspace.destroy();
    nobody_listens(port);
}

fn two_resources_of_one_name(cli: &Cli) {
    let port = free_port();
    let one = one_proxy(port);
    let resource = one.split_once("resource").expect("a resource").1;
    let second = resource.replace("\"egress_proxy\" \"a\"", "\"egress_proxy\" \"b\"");
    let workspace = Workspace::with(cli, &format!("{one}\nresource{second}"));
    workspace
        .run(&["apply", "-auto-approve", "-no-color"])
        .fails_saying(&["local/default/a"]);
    let held = ["egress_proxy.a", "egress_proxy.b"].map(|address| workspace.state_of(address));
    assert_eq!(
        held.iter().flatten().count(),
        1,
        "exactly one of the two has it: {held:?}"
    );
    assert_eq!(get_through(port), "HTTP/1.1 200 OK");
    workspace.destroy();
    nobody_listens(port);
}

fn create_before_destroy_under_one_name(cli: &Cli) {
    let port = free_port();
    let overlapping = one_proxy(port).replace(
        "wait_for = \"ready\"",
        "wait_for = \"ready\"\n  lifecycle {\n    create_before_destroy = true\n  }",
    );
    let workspace = Workspace::with(cli, &overlapping);
    workspace.apply();
    let before = workspace.state_of(ADDRESS).expect("in the state");
    let replace = ["apply", "-auto-approve", "-no-color", "-replace", ADDRESS];

    // The name is taken by the instance that is to go: refused, with the reason, and nothing happened.
    workspace.run(&replace).fails_saying(&["create_before_destroy"]);
    assert_eq!(get_through(port), "HTTP/1.1 200 OK");
    assert_eq!(workspace.state_of(ADDRESS), Some(before.clone()));

    // Adopted where that is allowed: the delete of the old incarnation leaves the instance alone.
    workspace.write(
        "main.tf",
        &overlapping.replace(
            "provider \"egress\" {}",
            "provider \"egress\" {\n  adopt = \"same_spec\"\n}",
        ),
    );
    workspace.run(&replace).succeeds();
    let after = workspace.state_of(ADDRESS).expect("in the state");
    assert_eq!(before["uid"], after["uid"]);
    assert_ne!(before["incarnation"], after["incarnation"]);
    assert_eq!(get_through(port), "HTTP/1.1 200 OK");
    workspace.plans_nothing();
    workspace.destroy();
    nobody_listens(port);
}

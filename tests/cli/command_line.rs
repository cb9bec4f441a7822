//! The binary's own command line, as the documentation shows it.

use crate::proxying::free_port;
use crate::quick::one_proxy;
use crate::release::cli;
use crate::workspace::Workspace;

/// What a person reads who starts the provider by hand.
#[test]
#[ignore = "needs the CLIs"]
fn started_by_a_person_it_says_what_it_is() {
    let workspace = Workspace::new(&cli("terraform", "1.15.5"));
    let help = workspace
        .ask_provider(&[])
        .says(&["Terraform", "egress-proxies/egress"]);
    assert!(
        help.stdout.is_empty() || help.code == Some(0),
        "{}",
        help.transcript()
    );
    workspace
        .ask_provider(&["version"])
        .succeeds()
        .says(&[env!("CARGO_PKG_VERSION")]);
    workspace
        .ask_provider(&["profiles"])
        .succeeds()
        .says(&["local", "readiness"]);
    workspace.ask_provider(&["nonsense"]).never_says(&["panic"]);
}

#[test]
#[ignore = "needs the CLIs and squid"]
fn health_tells_by_its_exit_code() {
    let mut workspace = Workspace::with(&cli("terraform", "1.15.5"), &one_proxy(free_port()));
    workspace.ask_provider(&["health"]).ends_with(0).says(&["local"]);
    workspace.write(
        "bad.yaml",
        "backends:\n  here:\n    local:\n      squid: /nowhere/squid\n",
    );
    let config = workspace.infra().join("bad.yaml").to_string_lossy().into_owned();
    workspace
        .ask_provider(&["health", "--config", &config])
        .ends_with(2)
        .says(&["/nowhere/squid"]);
    workspace.write("bad.yaml", "backends:\n  here:\n    locl: {}\n");
    workspace
        .ask_provider(&["health", "--config", &config])
        .ends_with(1)
        .says(&["locl"]);
    workspace.set_env(
        "EGRESS_CONFIG",
        workspace.infra().join("missing.yaml").to_string_lossy(),
    );
    workspace
        .ask_provider(&["health"])
        .ends_with(1)
        .says(&["missing.yaml"]);
}

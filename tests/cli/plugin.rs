//! The plugin contract as the CLIs live it: logs they can parse, no TLS where the user says so, a
//! provider that somebody else started.

use std::io::{BufRead as _, BufReader};
use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::proxying::{free_port, nobody_listens};
use crate::quick::one_proxy;
use crate::release::Cli;
use crate::workspace::{PROVIDER, Workspace};

on!(long: every_log_line_is_parsed, works_without_tls, works_when_started_by_hand);

fn every_log_line_is_parsed(cli: &Cli) {
    let port = free_port();
    let mut workspace = Workspace::with(cli, &one_proxy(port));
    workspace.set_env("TF_LOG", "json");
    workspace.set_env("TF_LOG_PATH", workspace.path("trace.log").to_string_lossy());
    workspace.apply();
    workspace.destroy();
    let log = std::fs::read_to_string(workspace.path("trace.log")).expect("a log");
    let entries = log
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap_or_default());
    let modules: Vec<String> = entries
        .map(|entry| entry["@module"].as_str().unwrap_or_default().to_owned())
        .collect();
    assert!(
        modules.iter().any(|module| module == "provider.egress"),
        "the provider logged nothing"
    );
    // A line that the host could not parse keeps the name of the binary as its module.
    let raw: Vec<_> = log
        .lines()
        .zip(&modules)
        .filter(|(_, module)| module.contains("terraform-provider-egress"))
        .collect();
    assert!(raw.is_empty(), "lines the host could not parse: {raw:#?}");
}

fn works_without_tls(cli: &Cli) {
    let port = free_port();
    let mut workspace = Workspace::with(cli, &one_proxy(port));
    workspace.set_env("TF_DISABLE_PLUGIN_TLS", "1");
    workspace.apply();
    workspace.plans_nothing();
    workspace.destroy();
    nobody_listens(port);
}

fn works_when_started_by_hand(cli: &Cli) {
    let port = free_port();
    let mut workspace = Workspace::with(cli, &one_proxy(port));
    let mut provider = workspace
        .command(Path::new(PROVIDER), &workspace.infra(), &["-debug"])
        .spawn()
        .expect("the provider starts");
    let stdout = provider.stdout.take().expect("piped");
    let export = BufReader::new(stdout)
        .lines()
        .map(|line| line.expect("text"))
        .find_map(|line| {
            Some(
                line.split_once("TF_REATTACH_PROVIDERS='")?
                    .1
                    .trim_end_matches('\'')
                    .to_owned(),
            )
        })
        .expect("it says what to export");
    // One value for both CLIs: each completes the same source to its own registry's name.
    let reattach: Value = serde_json::from_str(&export).expect("JSON");
    for host in ["registry.terraform.io", "registry.opentofu.org"] {
        assert!(
            reattach[format!("{host}/egress-proxies/egress")].is_object(),
            "{export}"
        );
    }
    workspace.set_env("TF_REATTACH_PROVIDERS", export);
    workspace.set_env("TF_CLI_CONFIG_FILE", "/dev/null");
    workspace.run(&["init", "-no-color"]).succeeds();
    // One process serves every run: it is configured again each time.
    workspace.apply();
    workspace.plans_nothing();
    workspace.destroy();
    nobody_listens(port);
    assert_eq!(provider.try_wait().expect("our child"), None, "it still runs");
    kill_process(Pid::from_child(&provider), Signal::INT).expect("it still runs");
    assert!(
        provider.wait().expect("our child").success(),
        "an interrupt ends it well"
    );
}

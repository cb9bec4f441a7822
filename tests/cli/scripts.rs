//! The commands that the README names, as a reader would run them.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::quick::one_proxy;
use crate::release::{Cli, cli};
use crate::run::Run;
use crate::workspace::{PROVIDER, Started, Workspace};

on!(newest: make_install_serves_the_cli, make_demo);

fn script(workspace: &mut Workspace, arguments: &[&str]) -> Run {
    workspace.set_env("EGRESS_BINARY", PROVIDER);
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let command = workspace.command(&root.join(arguments[0]), root, &arguments[1..]);
    Started::new(command, arguments[1..].join(" ")).wait()
}

/// `init` finds the provider without any configuration, and what it found validates.
fn make_install_serves_the_cli(cli: &Cli) {
    let mut workspace = Workspace::with(cli, &one_proxy(3128));
    script(&mut workspace, &["scripts/install"])
        .succeeds()
        .says(&["mkdir -p ", ".local/bin/terraform-provider-egress"]);
    workspace.set_env("TF_CLI_CONFIG_FILE", "/dev/null");
    workspace
        .run(&["init", "-no-color"])
        .succeeds()
        .says(&["egress-proxies/egress"]);
    workspace.run(&["validate", "-no-color"]).succeeds();
}

fn make_demo(cli: &Cli) {
    let mut workspace = Workspace::new(cli);
    workspace.set_env("EGRESS_DEMO_CLI", cli.path.to_string_lossy());
    script(&mut workspace, &["scripts/demo"])
        .succeeds()
        .says(&["Hello from the origin server.", "no file of the proxy is left"]);
}

/// The assets of a release have the names and the content that both registries ask for.
#[test]
#[ignore = "needs the CLIs"]
fn a_release_has_the_layout_of_the_registries() {
    let mut workspace = Workspace::new(&cli("terraform", "1.15.5"));
    let dist = workspace.path("dist");
    let dist_text = dist.to_string_lossy().into_owned();
    script(
        &mut workspace,
        &["scripts/release", "--binary", PROVIDER, "--dist", &dist_text],
    )
    .succeeds();

    let version = env!("CARGO_PKG_VERSION");
    let prefix = format!("terraform-provider-egress_{version}_");
    let names: BTreeSet<String> = fs::read_dir(&dist)
        .expect("a folder")
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    let zip = names.iter().find(|name| name.ends_with(".zip")).expect("a zip");
    let expected = [
        zip.clone(),
        format!("{prefix}manifest.json"),
        format!("{prefix}SHA256SUMS"),
    ];
    assert_eq!(names, expected.into());
    assert!(zip.starts_with(&prefix), "{zip}");

    let sums = fs::read_to_string(dist.join(format!("{prefix}SHA256SUMS"))).expect("sums");
    let summed: BTreeSet<&str> = sums
        .lines()
        .filter_map(|line| Some(line.split_once("  ")?.1))
        .collect();
    assert_eq!(
        summed,
        BTreeSet::from([zip.as_str(), &format!("{prefix}manifest.json")])
    );
    let manifest = fs::read_to_string(dist.join(format!("{prefix}manifest.json"))).expect("a manifest");
    let manifest: serde_json::Value = serde_json::from_str(&manifest).expect("JSON");
    assert_eq!(
        manifest["metadata"]["protocol_versions"],
        serde_json::json!(["6.0"])
    );

    // A packed mirror is the same zip in a folder: the CLI unpacks and accepts it.
    let packed = workspace.path("mirror/registry.terraform.io/egress-proxies/egress");
    fs::create_dir_all(&packed).expect("a folder");
    fs::copy(dist.join(zip), packed.join(zip)).expect("a copy");
    let config = format!(
        "provider_installation {{\n  filesystem_mirror {{\n    path = {:?}\n  }}\n}}\n",
        workspace.path("mirror")
    );
    fs::write(workspace.path("cli.tfrc"), config).expect("a file");
    workspace.write("main.tf", &one_proxy(3128));
    workspace.run(&["init", "-no-color"]).succeeds();
    workspace.run(&["validate", "-no-color"]).succeeds();
}

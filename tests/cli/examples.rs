//! The examples: every folder of `examples/` is formatted and validates with real CLIs.

use std::fs;
use std::path::{Path, PathBuf};

use crate::release::Cli;
use crate::workspace::Workspace;

on!(newest: examples_are_formatted, examples_validate);

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples")
}

/// Every folder below `examples/` that holds a configuration.
fn configurations(folder: &Path, found: &mut Vec<PathBuf>) {
    let entries: Vec<_> = fs::read_dir(folder)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    if entries
        .iter()
        .any(|path| path.extension().is_some_and(|extension| extension == "tf"))
    {
        found.push(folder.to_owned());
    }
    for path in entries.iter().filter(|path| path.is_dir()) {
        configurations(path, found);
    }
}

fn examples_are_formatted(cli: &Cli) {
    let workspace = Workspace::new(cli);
    workspace
        .run_in(
            &examples(),
            &["fmt", "-check", "-recursive", "-diff", "-no-color"],
        )
        .succeeds();
}

fn examples_validate(cli: &Cli) {
    let mut found = Vec::new();
    configurations(&examples(), &mut found);
    assert!(found.len() >= 3, "too few examples: {found:?}");
    // Actions exist from Terraform 1.14 on, and in no OpenTofu yet.
    let has_actions = cli.version >= (1, 14);
    found.retain(|folder| has_actions || !folder.starts_with(examples().join("actions")));
    for folder in found {
        let entries = fs::read_dir(&folder)
            .expect("a folder")
            .map(|entry| entry.expect("an entry").path());
        // Several ways to import one resource exclude each other: each is tried with the rest.
        let (imports, rest): (Vec<_>, Vec<_>) = entries
            .filter(|path| path.is_file())
            .partition(|path| name(path).starts_with("import-by"));
        validates(cli, &rest);
        for import in imports {
            validates(cli, &[&rest[..], &[import]].concat());
        }
    }
}

const REQUIRED: &str = r#"
terraform {
  required_providers {
    egress = {
      source = "egress-proxies/egress"
    }
  }
}
"#;

fn validates(cli: &Cli, files: &[PathBuf]) {
    let workspace = Workspace::new(cli);
    for file in files {
        fs::copy(file, workspace.infra().join(name(file))).expect("a copy");
    }
    // An example of a resource leaves out what every configuration has.
    if !files
        .iter()
        .any(|file| fs::read_to_string(file).is_ok_and(|text| text.contains("required_providers")))
    {
        workspace.write("versions.tf", REQUIRED);
    }
    workspace.run(&["validate", "-no-color"]).succeeds();
}

fn name(path: &Path) -> String {
    path.file_name().expect("a name").to_string_lossy().into_owned()
}

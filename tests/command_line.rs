//! The binary's own commands, run as a person runs them: exit codes, and what goes to which stream.
#![cfg(feature = "testing")]

#[path = "command_line/orphans.rs"]
mod orphans;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

/// What one run of the binary gave.
#[derive(Debug)]
struct Run {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Run {
    #[track_caller]
    fn ends_with(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self:#?}");
        // Whatever happens, nothing crashes.
        assert!(!self.stderr.contains("panic"), "{self:#?}");
        self
    }

    /// What is an answer goes to stdout alone.
    #[track_caller]
    fn answers(self) -> Self {
        assert!(!self.stdout.is_empty() && self.stderr.is_empty(), "{self:#?}");
        self
    }

    /// What is no answer goes to stderr alone.
    #[track_caller]
    fn complains(self, words: &[&str]) {
        assert!(self.stdout.is_empty(), "{self:#?}");
        for word in words {
            assert!(self.stderr.contains(word), "{word} is missing: {self:#?}");
        }
    }

    #[track_caller]
    fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:#?}"))
    }
}

/// Runs the binary in a folder of its own, with nothing of this process's environment.
fn run_in(folder: &Path, variables: &[(&str, &Path)], arguments: &[&str]) -> Run {
    let output = Command::new(env!("CARGO_BIN_EXE_terraform-provider-egress"))
        .args(arguments)
        .env_clear()
        .env("HOME", folder)
        .envs(variables.iter().copied())
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .expect("the binary runs");
    Run {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).expect("UTF-8"),
        stderr: String::from_utf8(output.stderr).expect("UTF-8"),
    }
}

fn run(arguments: &[&str]) -> Run {
    let folder = tempfile::tempdir().expect("a folder");
    run_in(folder.path(), &[], arguments)
}

#[test]
fn started_without_a_host_it_says_what_it_is_and_fails() {
    run(&[]).ends_with(1).complains(&[
        "egress-proxies/egress",
        "required_providers",
        "dev_overrides",
        "health",
    ]);
}

#[test]
fn a_mistake_is_told_on_stderr_and_help_is_an_answer() {
    run(&["nonsense"]).ends_with(1).complains(&["nonsense", "Usage"]);
    run(&["health", "--output", "xml"])
        .ends_with(1)
        .complains(&["xml", "json"]);
    let help = run(&["--help"]).ends_with(0).answers();
    for command in [
        "import-by-tag",
        "gc",
        "adopt",
        "health",
        "schema",
        "profiles",
        "version",
    ] {
        assert!(help.stdout.contains(command), "{help:#?}");
    }
}

#[test]
fn the_version_is_the_packages() {
    let expected = format!("terraform-provider-egress {}\n", env!("CARGO_PKG_VERSION"));
    for argument in ["version", "--version"] {
        assert_eq!(run(&[argument]).ends_with(0).answers().stdout, expected);
    }
}

#[test]
fn the_schema_is_a_document_for_tools() {
    let document = run(&["schema"]).ends_with(0).answers().json();
    assert_eq!(document["format_version"], "1.0");
    let provider = &document["provider_schemas"]["registry.terraform.io/egress-proxies/egress"];
    assert!(
        provider["resource_schemas"]["egress_proxy"].is_object(),
        "{document:#}"
    );
}

#[test]
fn the_profiles_say_the_same_in_every_form() {
    let json = run(&["profiles", "--output", "json"])
        .ends_with(0)
        .answers()
        .json();
    let text = run(&["profiles"]).ends_with(0).answers().stdout;
    let markdown = run(&["profiles", "--output", "markdown"])
        .ends_with(0)
        .answers()
        .stdout;
    assert_eq!(text, run(&["profiles", "--output", "text"]).stdout);
    assert!(markdown.starts_with("| axis"), "{markdown}");
    let kinds = json.as_object().expect("an object");
    assert!(kinds.contains_key("local"), "{json:#}");
    for (kind, axes) in kinds {
        for (axis, answer) in axes.as_object().expect("an object") {
            let answer = answer.as_str().expect("a text");
            for table in [&text, &markdown] {
                assert!(table.contains(kind), "{kind} is missing in:\n{table}");
                let row = table.lines().find(|line| {
                    line.trim_start_matches("| ").split_whitespace().next() == Some(axis.as_str())
                });
                assert!(
                    row.is_some_and(|row| row.contains(answer)),
                    "{axis} = {answer} is missing in:\n{table}"
                );
            }
        }
    }
}

/// A folder with a configuration of two backends, of which `far` is in a world without an answer.
fn two_backends() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    let world = json!({ "zones": { "z1": { "reachable": false } } });
    fs::write(path.join("far.json"), world.to_string()).expect("a file");
    let file = |name: &str| path.join(name).display().to_string();
    let config = json!({
        "installation": "tests",
        "backends": {
            "near": { "memory": { "file": file("near.json") } },
            "far": { "memory": { "file": file("far.json") } },
        },
    });
    // JSON is YAML.
    fs::write(path.join("egress.yaml"), config.to_string()).expect("a file");
    folder
}

#[test]
fn health_is_an_exit_code_and_a_report_of_each_target() {
    let folder = two_backends();
    let config = folder.path().join("egress.yaml");
    let health = |arguments: &[&str]| {
        let all = [&["health"], arguments].concat();
        run_in(folder.path(), &[("EGRESS_CONFIG", &config)], &all)
    };

    let healthy = health(&["--backend", "near", "--output", "json"])
        .ends_with(0)
        .json();
    assert_eq!(healthy["healthy"], true);
    let [target] = healthy["targets"].as_array().expect("a list").as_slice() else {
        panic!("one target: {healthy:#}");
    };
    assert_eq!(
        (&target["backend"], &target["kind"], &target["healthy"]),
        (&json!("near"), &json!("memory"), &json!(true))
    );
    let text = health(&["--backend", "near"]).ends_with(0).answers().stdout;
    assert!(text.contains("near (memory) z1: Healthy"), "{text}");

    let unhealthy = health(&["--output", "json"]).ends_with(2).json();
    assert_eq!(unhealthy["healthy"], false);
    let found = unhealthy["targets"].as_array().expect("a list").iter();
    let found: Vec<_> = found
        .map(|target| (target["backend"].as_str(), target["healthy"].as_bool()))
        .collect();
    assert_eq!(
        found,
        [(Some("far"), Some(false)), (Some("near"), Some(true))],
        "{unhealthy:#}"
    );
    let text = health(&[]).ends_with(2).stdout;
    assert!(
        text.contains("far (memory) z1:") && text.contains("near (memory) z1: Healthy"),
        "{text}"
    );
}

#[test]
fn health_that_cannot_be_asked_for_is_an_error() {
    let folder = two_backends();
    let config = folder.path().join("egress.yaml");
    let health = |arguments: &[&str]| {
        let all = [&["health"], arguments].concat();
        run_in(folder.path(), &[("EGRESS_CONFIG", &config)], &all).ends_with(1)
    };
    health(&["--backend", "elsewhere"]).complains(&["elsewhere", "far", "near"]);
    health(&["--backend", "Not A Name"]).complains(&["--backend"]);
    health(&["--config", "missing.yaml"]).complains(&["missing.yaml"]);
    fs::write(
        folder.path().join("bad.yaml"),
        "backends:\n  here:\n    memroy: {}\n",
    )
    .expect("a file");
    health(&["--config", "bad.yaml"]).complains(&["bad.yaml", "memroy", "memory"]);
}

//! The pipelines of `examples/drift-plan/`, as a reader copies them: their steps run one after the other,
//! and what they find is in the report.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::proxying::free_port;
use crate::release::Cli;
use crate::run::Run;
use crate::workspace::{PROVIDER, Started, Workspace};

on!(newest: the_pipelines_report_what_they_find);

const FOLDER: &str = "infra/egress";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn pipeline(name: &str) -> Value {
    let path = root().join("examples/drift-plan").join(name);
    let text = fs::read_to_string(path).expect("a pipeline");
    serde_saphyr::from_str(&text).expect("YAML")
}

/// A checkout in which the example was copied to where its pipelines expect it.
struct Checkout {
    workspace: Workspace,
    folder: PathBuf,
}

impl Checkout {
    fn new(cli: &Cli) -> Self {
        let mut workspace = Workspace::new(cli);
        workspace.set_env("EGRESS_BINARY", PROVIDER);
        Started::new(
            workspace.command(&root().join("scripts/install"), root(), &[]),
            "scripts/install".into(),
        )
        .wait()
        .succeeds();
        let folder = workspace.beside(&format!("checkout/{FOLDER}"));
        for entry in fs::read_dir(root().join("examples/drift-plan")).expect("a folder") {
            let path = entry.expect("an entry").path();
            fs::copy(&path, folder.join(path.file_name().expect("a name"))).expect("a copy");
        }
        let main = fs::read_to_string(folder.join("main.tf")).expect("a configuration");
        let main = main.replace("3128", &free_port().to_string());
        fs::write(folder.join("main.tf"), main).expect("a file");
        // As on a machine where the provider was installed, and nothing configured.
        workspace.set_env("TF_CLI_CONFIG_FILE", "/dev/null");
        workspace.set_env("TERRAFORM", cli.path.to_string_lossy());
        workspace.set_env("EGRESS_CONFIG", folder.join("egress.yaml").to_string_lossy());
        let summary = workspace.path("summary.md").to_string_lossy().into_owned();
        workspace.set_env("GITHUB_STEP_SUMMARY", summary);
        Self { workspace, folder }
    }

    fn cli(&self, arguments: &[&str]) -> Run {
        self.workspace.run_in(&self.folder, arguments).succeeds()
    }

    fn apply(&self) {
        self.cli(&["apply", "-auto-approve", "-no-color"]);
    }

    fn shell(&self, program: &str, folder: &Path, script: &str) -> Run {
        let command = self
            .workspace
            .command(Path::new(program), folder, &["-e", "-c", script]);
        Started::new(command, script.to_owned()).wait()
    }

    /// The exit code of the job, as GitHub's runner makes it, and what its summary shows.
    fn github(&self) -> (i32, String) {
        let workflow = pipeline("github-actions.yaml");
        let job = &workflow["jobs"]["drift"];
        assert_eq!(job["defaults"]["run"]["working-directory"], FOLDER);
        let summary = self.workspace.path("summary.md");
        fs::write(&summary, "").expect("a file");
        let mut code = 0;
        let mut ran = 0;
        for step in job["steps"].as_array().expect("steps") {
            let Some(script) = step["run"].as_str() else {
                continue;
            };
            if code == 0 || step["if"] == "always()" {
                let run = self.shell("bash", &self.folder, script);
                code = if code == 0 {
                    run.code.expect("an exit code")
                } else {
                    code
                };
                ran += 1;
            }
        }
        assert_eq!(ran, 2, "the report is made and shown");
        (code, fs::read_to_string(summary).expect("the summary"))
    }

    /// The same for GitLab's, whose artifact is the report.
    fn gitlab(&self) -> (i32, String) {
        let job = &pipeline("gitlab-ci.yaml")["egress drift"];
        let lines = job["script"].as_array().expect("a script");
        let lines: Vec<&str> = lines.iter().map(|line| line.as_str().expect("a line")).collect();
        let run = self.shell("sh", &self.workspace.path("checkout"), &lines.join("\n"));
        let artifact = job["artifacts"]["paths"][0].as_str().expect("a path");
        let report = fs::read_to_string(self.workspace.path("checkout").join(artifact));
        (run.code.expect("an exit code"), report.expect("a report"))
    }

    /// Both end with this code and show these texts.
    #[track_caller]
    fn report(&self, expected: i32, texts: &[&str]) {
        for (name, (code, report)) in [("GitHub", self.github()), ("GitLab", self.gitlab())] {
            assert_eq!(code, expected, "{name}:\n{report}");
            for text in texts {
                assert!(report.contains(text), "{name} does not show {text:?}:\n{report}");
            }
        }
    }
}

fn the_pipelines_report_what_they_find(cli: &Cli) {
    let checkout = Checkout::new(cli);
    checkout.report(
        2,
        &[
            "| Plan | ⚠️ something to do |",
            "egress_proxy.builds will be created",
        ],
    );

    checkout.apply();
    checkout.report(
        0,
        &[
            "| Plan | ✅ nothing to do |",
            "| Proxies that no state holds | ✅ none |",
            "| Backends | ✅ healthy |",
            "Squid is installed",
        ],
    );

    checkout.workspace.kill_squids();
    checkout.report(
        2,
        &[
            "⚠️ something to do",
            "egress_proxy.builds will be updated in-place",
        ],
    );
    checkout.apply();

    // A proxy that its state forgot; with the state that holds it named, it is nobody's orphan.
    let kept = checkout.workspace.path("kept.tfstate");
    fs::copy(checkout.folder.join("terraform.tfstate"), &kept).expect("a copy");
    checkout.cli(&["state", "rm", "egress_proxy.builds"]);
    checkout.report(
        2,
        &[
            "| Proxies that no state holds | ⚠️ found |",
            "local/default/builds",
            "1 orphan found",
        ],
    );
    let run = checkout.shell(
        "sh",
        &checkout.folder,
        &format!("EGRESS_STATES={} ./drift-report.sh", kept.display()),
    );
    run.ends_with(2)
        .says(&["| Proxies that no state holds | ✅ none |"]);
    fs::copy(&kept, checkout.folder.join("terraform.tfstate")).expect("a copy");

    // What cannot be found out is no drift, and is worse.
    let config = checkout.folder.join("egress.yaml");
    let good = fs::read_to_string(&config).expect("a file");
    fs::write(
        &config,
        good.replace("local: {}", "local: { sqid: /usr/sbin/squid }"),
    )
    .expect("a file");
    checkout.report(
        1,
        &[
            "| Plan | ❌ could not be found out |",
            "| Proxies that no state holds | ❌ could not be found out |",
            "| Backends | ❌ could not be found out |",
            "sqid",
        ],
    );
    fs::write(&config, good).expect("a file");

    checkout.report(0, &["✅ nothing to do"]);
    checkout.cli(&["destroy", "-auto-approve", "-no-color"]);
}

fn checks(tool: &str, arguments: &[&str]) {
    let script = root().join("scripts/tools").join(tool);
    let made = Command::new(script).output().expect("bash runs the script");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let program = String::from_utf8(made.stdout).expect("UTF-8");
    let run = Command::new(program.trim())
        .args(arguments)
        .current_dir(root())
        .output()
        .expect("it runs");
    assert!(
        run.status.success(),
        "{}{}",
        String::from_utf8_lossy(&run.stdout),
        String::from_utf8_lossy(&run.stderr)
    );
}

#[test]
#[ignore = "needs actionlint"]
fn the_workflow_is_one_that_github_takes() {
    checks(
        "actionlint",
        &["-shellcheck=", "examples/drift-plan/github-actions.yaml"],
    );
}

#[test]
#[ignore = "needs check-jsonschema"]
fn the_pipelines_fit_their_schemas() {
    for (schema, file) in [
        ("vendor.github-workflows", "github-actions.yaml"),
        ("vendor.gitlab-ci", "gitlab-ci.yaml"),
    ] {
        let file = format!("examples/drift-plan/{file}");
        checks("check-jsonschema", &["--builtin-schema", schema, &file]);
    }
}

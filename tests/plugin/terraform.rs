//! The toy under a real Terraform: every way of nesting and `dynamic`, from configuration to state.
//!
//! What a host does with the answers is known only to the host: it refuses a plan or a state that
//! differs from the configuration where it may not, and shows a difference that should not be there.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;

/// The first release with write-only attributes.
const RELEASE: &str = "1.11.4";

const CONFIGURATION: &str = r#"
terraform {
  required_providers {
    toy = { source = "acme/toy" }
  }
}

variable "title" {
  default = "first"
}

provider "toy" {
  greeting = "hello"
}

ephemeral "toy_secret" "this" {
  name = "password"
}

data "toy_echo" "this" {
  input = { list = ["a", "b"], number = 1.5, null = null }
}

resource "toy_note" "empty" {
  title = "nothing else"
}

resource "toy_note" "full" {
  title       = var.title
  amount      = 123456789012345678901234567890.125
  any         = { numbers = [1, 2], text = "ä", nothing = null }
  tags        = ["b", "a", "b"]
  numbers     = { one = 1, tenth = 0.1 }
  password_wo = ephemeral.toy_secret.this.value
  settings    = { text = "s", count = 3 }
  steps       = [{ text = "1", done = true }, { text = "2" }]
  labels      = [{ text = "x" }, { text = "y" }]
  links       = { home = { text = "/" }, none = {} }

  one {
    text = "single"
  }
  grouped {
    text = provider::toy::join("/", "a", "b")
  }
  item {
    text = "elements of"
    any  = [true]
  }
  item {
    text = "several types"
    any  = data.toy_echo.this.output
  }
  line {
    text = "first"
  }
  line {}
  member {
    text = "x"
  }
  member {
    text = "y"
  }
  entry "a" {
    text = "labelled"
  }
  entry "b" {}
  loose "number" {
    any = 1
  }
  loose "text" {
    any = "1"
  }
}

# Known only once the other note is there: unknown in the plan, wherever it stands.
resource "toy_note" "after" {
  title = "after"
  any   = { id = toy_note.full.id }
  steps = [{ text = toy_note.full.id }]
  item {
    any = toy_note.full.id
  }
  loose "id" {
    any = [toy_note.full.id]
  }
  dynamic "line" {
    for_each = toset([toy_note.full.id])
    content {
      text = line.value
    }
  }
}
"#;

/// A folder with a configuration, and a Terraform that finds the toy.
struct Folder {
    folder: TempDir,
    terraform: PathBuf,
}

impl Folder {
    fn new() -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/tools/terraform");
        let output = Command::new(script).arg(RELEASE).output().expect("bash runs it");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success(),
            "Terraform {RELEASE} cannot be had:\n{said}"
        );
        let terraform = String::from_utf8(output.stdout).expect("a path").trim().into();
        let folder = tempfile::tempdir().expect("a temporary folder");
        let bin = folder.path().join("bin");
        std::fs::create_dir(&bin).expect("a folder");
        let toy = env!("CARGO_BIN_EXE_toy-provider");
        std::os::unix::fs::symlink(toy, bin.join("terraform-provider-toy")).expect("a link");
        let config =
            format!("provider_installation {{\n  dev_overrides {{\n    \"acme/toy\" = {bin:?}\n  }}\n}}\n");
        std::fs::write(folder.path().join("cli.tfrc"), config).expect("a file");
        std::fs::write(folder.path().join("main.tf"), CONFIGURATION).expect("a file");
        Self { folder, terraform }
    }

    /// Runs Terraform to its end, which must be a good one.
    #[track_caller]
    fn run(&self, arguments: &[&str]) -> String {
        let output = Command::new(&self.terraform)
            .args(arguments)
            .current_dir(self.folder.path())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.folder.path())
            .env("TMPDIR", self.folder.path())
            .env("TF_CLI_CONFIG_FILE", self.folder.path().join("cli.tfrc"))
            .env("TF_INPUT", "0")
            .env("CHECKPOINT_DISABLE", "1")
            .output()
            .expect("Terraform runs");
        let stdout = String::from_utf8(output.stdout).expect("text");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?} failed:\n{stdout}{stderr}");
        stdout
    }

    /// The values of every note in the state, by its address.
    fn notes(&self) -> BTreeMap<String, Value> {
        let state: Value = serde_json::from_str(&self.run(&["show", "-json"])).expect("JSON");
        let resources = state["values"]["root_module"]["resources"].as_array().cloned();
        let resources = resources.unwrap_or_default().into_iter();
        resources
            .map(|resource| {
                let address = resource["address"].as_str().unwrap_or_default().to_owned();
                (address, resource["values"].clone())
            })
            .collect()
    }
}

#[test]
#[ignore = "needs the CLIs"]
fn what_is_applied_is_as_it_was_written_and_stays_so() {
    let folder = Folder::new();
    folder.run(&["apply", "-auto-approve", "-no-color"]);
    // Exit code 2 would say that there is something to do.
    folder.run(&["plan", "-detailed-exitcode", "-no-color"]);

    let notes = folder.notes();
    let full = &notes["toy_note.full"];
    let expected = json!({
        "id": "note-first",
        "any": { "numbers": [1, 2], "text": "ä", "nothing": null },
        "tags": ["a", "b"],
        "numbers": { "one": 1, "tenth": 0.1 },
        "password_wo": null,
        "settings": { "text": "s", "count": 3 },
        "steps": [{ "text": "1", "done": true }, { "text": "2", "done": null }],
        "labels": [{ "text": "x" }, { "text": "y" }],
        "links": { "home": { "text": "/" }, "none": { "text": null } },
        "one": { "text": "single" },
        "grouped": { "text": "a/b" },
        "item": [
            { "text": "elements of", "any": [true] },
            { "text": "several types", "any": { "list": ["a", "b"], "number": 1.5, "null": null } },
        ],
        "line": [{ "text": "first" }, { "text": null }],
        "member": [{ "text": "x" }, { "text": "y" }],
        "entry": { "a": { "text": "labelled" }, "b": { "text": null } },
        "loose": { "number": { "any": 1 }, "text": { "any": "1" } },
    });
    for (name, value) in expected.as_object().expect("an object") {
        assert_eq!(full[name], *value, "{name}");
    }
    // No float holds this one, and so no parser that goes through one: the text itself must say it.
    let state = std::fs::read_to_string(folder.folder.path().join("terraform.tfstate")).expect("a state");
    assert!(
        state.contains("\"amount\": 123456789012345678901234567890.125"),
        "{state}"
    );
    assert!(!state.contains("hunter2"), "a write-only value is in the state");

    let empty = &notes["toy_note.empty"];
    for (name, value) in [
        ("one", Value::Null),
        ("grouped", json!({ "text": null })),
        ("item", json!([])),
        ("line", json!([])),
        ("member", json!([])),
        ("entry", json!({})),
        ("loose", json!({})),
    ] {
        assert_eq!(empty[name], value, "{name}");
    }

    let after = &notes["toy_note.after"];
    assert_eq!(after["any"], json!({ "id": "note-first" }));
    assert_eq!(after["item"], json!([{ "text": null, "any": "note-first" }]));
    assert_eq!(after["loose"], json!({ "id": { "any": ["note-first"] } }));
    assert_eq!(after["line"], json!([{ "text": "note-first" }]));

    // A replacement makes the id unknown again, now with states to start from.
    folder.run(&["apply", "-auto-approve", "-no-color", "-var", "title=second"]);
    assert_eq!(
        folder.notes()["toy_note.after"]["line"],
        json!([{ "text": "note-second" }])
    );
    folder.run(&["destroy", "-auto-approve", "-no-color", "-var", "title=second"]);
}

//! `import-by-tag`, `gc` and `adopt`: what they find, do and refuse, in worlds of the reference backend.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use egress::contract::memory::{Place, Record, SecondaryRecord, World, WorldHandle};
use egress::contract::spec::PasswordFact;
use egress::contract::{Fact, Facts, InstanceKey, Mark, NewInstance};
use serde_json::{Value, json};

use super::Run;

/// A folder with a world and a configuration of the backend `lab` in it.
struct Scene {
    folder: tempfile::TempDir,
    world: WorldHandle,
}

impl Scene {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("world.json");
        let config = json!({
            "installation": "prod",
            "backends": { "lab": { "memory": { "file": file.display().to_string(), "zones": ["z1", "z2"] } } },
        });
        fs::write(folder.path().join("egress.yaml"), config.to_string()).expect("a file");
        Self {
            world: WorldHandle::open(file),
            folder,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn edit(&self, edit: impl FnOnce(&mut World)) {
        self.world.edit(edit).expect("writable");
    }

    /// Puts an instance there, made two hours ago.
    fn put(&self, name: &str, change: impl FnOnce(&mut Mark)) -> Mark {
        let began = jiff::Timestamp::now() - jiff::SignedDuration::from_hours(2);
        let (namespace, name) = name.split_once('/').unwrap_or(("default", name));
        let key = InstanceKey {
            installation: "prod".parse().expect("valid"),
            namespace: namespace.parse().expect("valid"),
            name: name.parse().expect("valid"),
        };
        let facts = Facts {
            zone: Some("z1".into()),
            ..Facts::default()
        };
        let new = NewInstance::new(key, facts.with_common_defaults(), BTreeSet::from([Fact::Zone]));
        let seconds = u64::try_from(began.as_second()).expect("after 1970");
        let clock = uuid::Timestamp::from_unix(uuid::NoContext, seconds, 0);
        let mut mark = Mark {
            key: new.key,
            uid: new.uid,
            incarnation: uuid::Uuid::new_v7(clock).to_string().parse().expect("a UUID"),
            pending: false,
            label_keys: BTreeSet::new(),
            created_at: Some(began),
            spec_sha256: new.spec_sha256,
            facts: new.facts,
            given: new.given,
        };
        change(&mut mark);
        let (_, place) = Place::in_zone("z1", &mark.key).expect("a place");
        self.edit(|world| {
            let address = world.next_address();
            world.put(&place, Record::new(mark.clone(), address));
        });
        mark
    }

    /// Leaves the disk of an instance that is gone.
    fn leave_disk(&self, mark: &Mark) {
        let (id, place) = Place::in_zone("z1", &mark.key).expect("a place");
        self.edit(|world| {
            world.take(&id);
            world.zone_mut(&place.zone).secondary.push(SecondaryRecord {
                id,
                mark: mark.clone(),
                name: format!("disk-{}", mark.uid),
                intact: true,
                created_at: mark.created_at,
            });
        });
    }

    /// A raw state that holds these ids.
    fn state(&self, name: &str, ids: &[&str]) -> String {
        let instances: Vec<_> = ids
            .iter()
            .map(|id| json!({ "attributes": { "id": id } }))
            .collect();
        let state = json!({ "version": 4, "resources": [
            { "mode": "managed", "type": "egress_proxy", "name": "pool", "instances": instances },
        ] });
        let path = self.path(name);
        fs::write(&path, state.to_string()).expect("a file");
        path.display().to_string()
    }

    /// What is left in the world, instances and remains.
    fn left(&self) -> Vec<String> {
        let left = self.world.look(|world| {
            let zone = world.zones.get("z1").cloned().unwrap_or_default();
            let disks = zone.secondary.into_iter().map(|left| left.id.to_string());
            zone.instances.into_keys().chain(disks).collect()
        });
        left.expect("readable")
    }

    fn run(&self, arguments: &[&str]) -> Run {
        self.run_with(None, arguments)
    }

    fn run_with(&self, input: Option<&str>, arguments: &[&str]) -> Run {
        let mut child = Command::new(env!("CARGO_BIN_EXE_terraform-provider-egress"))
            .args(arguments)
            .env_clear()
            .env("HOME", self.folder.path())
            .env("EGRESS_CONFIG", self.path("egress.yaml"))
            .current_dir(self.folder.path())
            .stdin(if input.is_some() {
                Stdio::piped()
            } else {
                Stdio::null()
            })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        if let (Some(input), Some(mut stdin)) = (input, child.stdin.take()) {
            // One that refuses its arguments reads nothing.
            let _ = stdin.write_all(input.as_bytes());
        }
        let output = child.wait_with_output().expect("it ends");
        Run {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).expect("UTF-8"),
            stderr: String::from_utf8(output.stderr).expect("UTF-8"),
        }
    }
}

fn ids(document: &Value, list: &str) -> Vec<String> {
    let items = document[list].as_array().expect("a list").iter();
    items
        .map(|item| item["id"].as_str().expect("an id").to_owned())
        .collect()
}

#[test]
fn what_no_state_holds_is_found_in_every_form() {
    let scene = Scene::new();
    for name in ["a", "b", "other/a"] {
        scene.put(name, |_| {});
    }
    scene.put("theirs", |mark| {
        mark.key.installation = "staging".parse().expect("valid")
    });
    let gone = scene.put("gone", |_| {});
    scene.leave_disk(&gone);
    let held = scene.state("a.tfstate", &["formerly/z1/default/b"]);
    let json = scene
        .run(&["import-by-tag", "--state", &held, "--output", "json"])
        .ends_with(0)
        .answers()
        .json();
    assert_eq!(ids(&json, "instances"), ["lab/z1/default/a", "lab/z1/other/a"]);
    assert_eq!(ids(&json, "secondary"), ["lab/z1/default/gone"]);
    assert_eq!(json["complete"], true);
    assert_eq!(json["states"][0]["proxies"], 1);
    let text = scene
        .run(&["import-by-tag", "--state", &held])
        .ends_with(0)
        .answers()
        .stdout;
    for word in ["lab/z1/other/a", "running", "only its disk", "3 orphans found"] {
        assert!(text.contains(word), "{word} is missing in:\n{text}");
    }
    assert!(
        !text.contains("lab/z1/default/b") && !text.contains("theirs"),
        "{text}"
    );
    let hcl = scene
        .run(&["import-by-tag", "--state", &held, "--output", "hcl"])
        .ends_with(0)
        .answers()
        .stdout;
    for block in [
        "to = egress_proxy.default_a\n",
        "to = egress_proxy.other_a\n",
        "id = \"lab/z1/other/a\"",
        "zone = \"z1\"",
        "# Not imported: of \"lab/z1/default/gone\"",
    ] {
        assert!(hcl.contains(block), "{block} is missing in:\n{hcl}");
    }
    scene
        .run(&["import-by-tag", "--state", &held, "--detailed-exitcode"])
        .ends_with(2);
    let all = scene.state(
        "all.tfstate",
        &["x/z1/default/a", "x/z1/other/a", "x/z1/default/gone"],
    );
    scene
        .run(&[
            "import-by-tag",
            "--state",
            &held,
            "--state",
            &all,
            "--detailed-exitcode",
        ])
        .ends_with(0)
        .answers();
}

#[test]
fn what_a_mark_cannot_hold_is_asked_for() {
    let scene = Scene::new();
    scene.put("a", |mark| {
        mark.facts.username = Some("u".into());
        mark.facts.password = Some(PasswordFact::Version("7".into()));
        mark.given.extend([Fact::Username, Fact::Password]);
    });
    let hcl = scene
        .run(&["import-by-tag", "--output", "hcl"])
        .ends_with(0)
        .answers()
        .stdout;
    for line in [
        "    password_wo         = var.a_password\n",
        "    password_wo_version = \"7\"\n",
        "variable \"a_password\" {\n",
    ] {
        assert!(hcl.contains(line), "{line} is missing in:\n{hcl}");
    }
    assert!(!hcl.contains("default "), "a variable has a default:\n{hcl}");
}

#[test]
fn a_state_comes_on_standard_input_too_and_what_is_none_is_refused() {
    let scene = Scene::new();
    scene.put("a", |_| {});
    let state = fs::read_to_string(scene.state("a.tfstate", &["lab/z1/default/a"])).expect("a file");
    for arguments in [
        &["import-by-tag", "--detailed-exitcode"][..],
        &["import-by-tag", "--detailed-exitcode", "--state", "-"],
    ] {
        scene.run_with(Some(&state), arguments).ends_with(0).answers();
    }
    // What a command that failed leaves in a pipe is no state, and makes no orphans.
    for arguments in [
        &["import-by-tag"][..],
        &["import-by-tag", "--state", "-"],
        &["gc", "--detailed-exitcode"],
        &["gc", "--complete", "--delete", "--yes"],
    ] {
        for nothing in ["", "\n"] {
            scene.run_with(Some(nothing), arguments).ends_with(1).complains(&[
                "standard input",
                "empty",
                "--no-state",
            ]);
        }
    }
    scene
        .run_with(Some(""), &["import-by-tag", "--no-state", "--detailed-exitcode"])
        .ends_with(2);
    scene
        .run(&["import-by-tag", "--no-state", "--state", "a.tfstate"])
        .ends_with(1)
        .complains(&["--no-state"]);
    scene
        .run(&[
            "import-by-tag",
            "--state",
            "missing.tfstate",
            "--state",
            "egress.yaml",
        ])
        .ends_with(1)
        .complains(&["missing.tfstate", "egress.yaml"]);
}

#[test]
fn a_partial_listing_is_named_and_is_an_error() {
    let scene = Scene::new();
    scene.put("a", |_| {});
    scene.edit(|world| world.zone_mut("z2").reachable = false);
    for output in ["text", "json", "hcl"] {
        let run = scene
            .run(&["import-by-tag", "--output", output, "--detailed-exitcode"])
            .ends_with(1);
        assert!(run.stderr.contains("zone z2 of the backend lab"), "{run:#?}");
        assert!(run.stdout.contains("lab/z1/default/a"), "{run:#?}");
    }
}

#[test]
fn gc_tells_and_deletes_only_when_told_to() {
    let scene = Scene::new();
    scene.put("old", |mark| mark.pending = true);
    scene.put("handed", |_| {});
    scene.put("held", |mark| mark.pending = true);
    scene.put("theirs", |mark| {
        mark.pending = true;
        mark.key.installation = "staging".parse().expect("valid");
    });
    let gone = scene.put("gone", |_| {});
    scene.leave_disk(&gone);
    scene.edit(|world| {
        world.zone_mut("z1").instances.insert(
            "default/foreign".into(),
            Record::foreign("198.18.0.99".parse().expect("an address")),
        );
    });
    let everything = scene.left();
    let held = scene.state("a.tfstate", &["lab/z1/default/held"]);

    scene
        .run(&["gc"])
        .ends_with(1)
        .complains(&["--state", "--no-state"]);
    scene
        .run(&["gc", "--state", &held, "--yes"])
        .ends_with(1)
        .complains(&["--delete"]);
    let dry = scene.run(&["gc", "--state", &held]).ends_with(0).answers().stdout;
    for words in [
        "lab/z1/default/old",
        "would go",
        "remains (disk",
        "say so with --complete",
        "a.tfstate (1 proxy)",
        "--delete",
    ] {
        assert!(dry.contains(words), "{words} is missing in:\n{dry}");
    }
    assert!(
        !dry.contains("default/held") && !dry.contains("theirs") && !dry.contains("foreign"),
        "{dry}"
    );
    scene
        .run(&["gc", "--state", &held, "--detailed-exitcode"])
        .ends_with(2);
    scene
        .run(&["gc", "--state", &held, "--min-age", "3h", "--detailed-exitcode"])
        .ends_with(0)
        .answers();
    // Nobody sits there who could say yes.
    let refused = scene.run(&["gc", "--state", &held, "--delete"]).ends_with(1);
    assert!(
        refused.stderr.contains("--yes") && refused.stdout.is_empty(),
        "{refused:#?}"
    );
    assert_eq!(scene.left(), everything);

    let report = scene
        .run(&["gc", "--state", &held, "--delete", "--yes", "--output", "json"])
        .ends_with(0)
        .json();
    let results: Vec<_> = report["items"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|item| (item["id"].as_str(), item["result"].as_str()))
        .collect();
    assert_eq!(
        results,
        [
            (Some("lab/z1/default/gone"), Some("gone")),
            (Some("lab/z1/default/handed"), Some("stays")),
            (Some("lab/z1/default/old"), Some("gone")),
        ]
    );
    assert_eq!(
        scene.left(),
        [
            "default/foreign",
            "default/handed",
            "default/held",
            "default/theirs"
        ]
    );
    scene
        .run(&["gc", "--no-state", "--complete", "--delete", "--yes"])
        .ends_with(0);
    assert_eq!(scene.left(), ["default/foreign", "default/theirs"]);
}

#[test]
fn gc_that_leaves_something_says_so_by_its_exit_code() {
    let scene = Scene::new();
    scene.put("old", |mark| mark.pending = true);
    let fault = json!([{ "operation": "delete", "effect": { "fail": { "kind": "permanent", "message": "not today" } } }]);
    let faults = serde_json::from_value(fault).expect("faults");
    scene.edit(|world| world.faults = faults);
    let run = scene.run(&["gc", "--no-state", "--delete", "--yes"]).ends_with(1);
    assert!(run.stdout.contains("failed: not today"), "{run:#?}");
    scene.edit(|world| {
        world.faults.clear();
        world.zone_mut("z2").reachable = false;
    });
    let run = scene.run(&["gc", "--no-state", "--delete", "--yes"]).ends_with(1);
    assert!(
        run.stdout.contains("1 gone") && run.stderr.contains("zone z2"),
        "{run:#?}"
    );
    assert_eq!(scene.left(), [""; 0]);
}

#[test]
fn adopt_writes_what_it_showed_and_only_after_a_yes() {
    let scene = Scene::new();
    let mark = scene.put("a", |_| {});
    let (id, _) = Place::in_zone("z1", &mark.key).expect("a place");
    scene.edit(|world| world.record_mut(&id).expect("there").mark = None);
    let full = "lab/z1/default/a";
    scene
        .run(&["adopt", full, "--yes"])
        .ends_with(1)
        .complains(&["port", "--port"]);
    let refused = scene.run(&["adopt", full, "--port", "3128"]).ends_with(1);
    for words in [
        "--yes",
        "port = 3128",
        "access.allowed_cidrs",
        "installation = prod",
    ] {
        assert!(refused.stderr.contains(words), "{words} is missing: {refused:#?}");
    }
    let there = || {
        scene
            .world
            .look(|world| world.record(&id).and_then(|record| record.mark.clone()))
    };
    assert_eq!(there().expect("readable"), None);
    let written = scene
        .run(&[
            "adopt",
            full,
            "--port",
            "3128",
            "--allowed-cidr",
            "10.0.0.0/8",
            "--yes",
            "--output",
            "json",
        ])
        .ends_with(0)
        .json();
    let found = there().expect("readable").expect("marked");
    assert_eq!(written["mark"]["incarnation"], found.incarnation.to_string());
    assert_eq!(found.key, mark.key);
    assert!(!found.pending && found.facts.allowed_cidrs.is_some());
    scene
        .run(&["adopt", full, "--yes"])
        .ends_with(1)
        .complains(&["already", "import-by-tag"]);
    scene
        .run(&["adopt", full, "--installation", "staging", "--yes"])
        .ends_with(1)
        .complains(&["--from-installation prod"]);
    let taken = scene
        .run(&[
            "adopt",
            full,
            "--installation",
            "staging",
            "--from-installation",
            "prod",
            "--yes",
        ])
        .ends_with(0);
    assert!(taken.stdout.contains("to = egress_proxy.a"), "{taken:#?}");
    let renamed = there().expect("readable").expect("marked");
    assert_eq!(renamed.key.installation.as_str(), "staging");
    assert_eq!(renamed.incarnation, found.incarnation);
    for (id, says) in [
        ("lab/z1/default/none", "There is no"),
        ("gone/x/y", "gone"),
        ("lab", "must be"),
    ] {
        scene.run(&["adopt", id, "--yes"]).ends_with(1).complains(&[says]);
    }
}

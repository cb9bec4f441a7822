//! Imports point one way. Each layer names what it may import; anything else of ours in its files fails.
//!
//! The sources are read as text: a path that begins with `crate::` (or `super::` out of the layer, which
//! no file here has) is an import whether it stands in a `use` or in an expression.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// A layer, and the layers below it that it may import. `plugin` is the bottom as well as the edge: its
/// values, schemas and diagnostics are what configuration and semantics are made of.
const LAYERS: [(&str, &[&str]); 11] = [
    ("plugin", &[]),
    ("contract", &[]),
    ("transport", &["contract"]),
    ("squid", &["contract"]),
    ("backend", &["contract", "transport", "squid"]),
    ("config", &["contract", "plugin"]),
    (
        "registry",
        &["contract", "plugin", "transport", "squid", "backend", "config"],
    ),
    ("conformance", &["contract", "transport"]),
    ("telemetry", &["contract", "plugin", "transport"]),
    (
        "terraform",
        &[
            "plugin",
            "contract",
            "config",
            "registry",
            "transport",
            "squid",
            "telemetry",
        ],
    ),
    (
        "cli",
        &[
            "plugin",
            "contract",
            "config",
            "registry",
            "terraform",
            "transport",
            "squid",
            "telemetry",
        ],
    ),
];

/// What only `plugin` may speak of: the wire.
const WIRE: [&str; 5] = ["tonic", "prost", "prost_types", "tonic_prost", "rmp"];

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

fn files(directory: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(directory) else {
        return;
    };
    for entry in entries {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The files of a layer, without the generated ones.
fn layer(name: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let root = source().join(format!("{name}.rs"));
    if root.exists() {
        found.push(root);
    }
    files(&source().join(name), &mut found);
    found
}

/// The code of a file, without its comments.
fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).expect("a readable file");
    text.lines()
        .map(|line| line.split("//").next().unwrap_or_default())
        .collect::<Vec<_>>()
        .join("\n")
}

/// Whether a name is used as the first part of a path.
fn names(code: &str, name: &str) -> bool {
    code.match_indices(&format!("{name}::")).any(|(at, _)| {
        let before = code[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':')
    })
}

/// The layers that a file imports.
fn imports(code: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (at, _) in code.match_indices("crate::") {
        let rest = &code[at + "crate::".len()..];
        let mut heads = vec![rest];
        if let Some(group) = rest.strip_prefix('{') {
            // `use crate::{a::…, b::…}`: every item of the group at its own level.
            heads.clear();
            let mut depth = 0;
            let mut start = 0;
            for (i, c) in group.char_indices() {
                match c {
                    '{' => depth += 1,
                    '}' if depth == 0 => {
                        heads.push(&group[start..i]);
                        break;
                    }
                    '}' => depth -= 1,
                    ',' if depth == 0 => {
                        heads.push(&group[start..i]);
                        start = i + 1;
                    }
                    _ => {}
                }
            }
        }
        for head in heads {
            let name: String = head
                .trim()
                .chars()
                .take_while(|c| c.is_alphanumeric() || *c == '_')
                .collect();
            if !name.is_empty() {
                found.insert(name);
            }
        }
    }
    found
}

#[test]
fn imports_point_downwards_only() {
    let known: BTreeSet<&str> = LAYERS.iter().map(|(name, _)| *name).collect();
    let mut wrong = Vec::new();
    for (name, below) in LAYERS {
        for path in layer(name) {
            for import in imports(&code(&path)) {
                let allowed =
                    import == name || below.contains(&import.as_str()) || !known.contains(import.as_str());
                if !allowed {
                    wrong.push(format!(
                        "{} imports {import}, which is not below {name}",
                        path.display()
                    ));
                }
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn every_module_of_the_crate_is_a_known_layer() {
    let known: BTreeSet<&str> = LAYERS.iter().map(|(name, _)| *name).collect();
    let lib = code(&source().join("lib.rs"));
    let declared = lib
        .lines()
        .filter_map(|line| line.trim().strip_suffix(';')?.rsplit_once("mod "))
        .map(|(_, name)| name);
    let unknown: Vec<_> = declared.filter(|name| !known.contains(name)).collect();
    assert_eq!(
        unknown,
        Vec::<&str>::new(),
        "say in this file what these may import"
    );
}

#[test]
fn the_plugin_layer_stands_alone() {
    let files = layer("plugin");
    assert!(files.len() > 20, "the layer was found");
    for path in files {
        let code = code(&path);
        let foreign: Vec<_> = imports(&code)
            .into_iter()
            .filter(|name| name != "plugin")
            .collect();
        assert_eq!(foreign, Vec::<String>::new(), "{}", path.display());
    }
}

#[test]
fn only_the_plugin_layer_speaks_of_the_wire() {
    let mut all = Vec::new();
    files(&source(), &mut all);
    let own: BTreeSet<_> = layer("plugin").into_iter().collect();
    for path in all.into_iter().filter(|path| !own.contains(path)) {
        let code = code(&path);
        for name in WIRE {
            assert!(!names(&code, name), "{} speaks of {name}", path.display());
        }
        assert!(
            !code.contains("plugin::generated"),
            "{} speaks of generated types",
            path.display()
        );
    }
}

#[test]
fn the_readers_of_this_test_find_what_they_look_for() {
    let code =
        "use crate::{contract::{Backend, Id}, transport};\nlet x = crate::cli::run();\nuse tonic::Status;";
    assert_eq!(
        imports(code).into_iter().collect::<Vec<_>>(),
        ["cli", "contract", "transport"]
    );
    assert!(names(code, "tonic") && !names(code, "prost") && !names("my_tonic::X", "tonic"));
}

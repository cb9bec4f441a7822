//! The documentation against the schema and the examples: what it derives from them is up to date,
//! every resource and data source has its page in the registry's layout, and no page is about nothing.
//!
//! `make docs` runs it with `EGRESS_WRITE_DOCS` set, and then it writes what is out of date.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use egress::contract::{HealthReason, Profile};
use serde_json::{Map, Value};

/// What only builds with the feature `testing` have.
const ONLY_IN_TESTS: &str = "memory";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// What the binary's own command line prints.
fn printed(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_terraform-provider-egress"))
        .args(arguments)
        .output()
        .expect("the binary runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// The schema in the form of `terraform providers schema -json`.
fn schema() -> Value {
    let json: Value = serde_json::from_str(&printed(&["schema"])).expect("JSON");
    let schemas = json["provider_schemas"].as_object().expect("provider schemas");
    schemas.values().next().expect("one provider").clone()
}

fn object(value: &Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap_or_default()
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

/// A type in the registry's words: `String`, `List of String`.
fn type_name(ty: &Value) -> String {
    match ty {
        Value::String(name) => {
            let mut letters = name.chars();
            let first = letters.next().map(|letter| letter.to_ascii_uppercase());
            first.into_iter().chain(letters).collect()
        }
        Value::Array(parts) => match parts.as_slice() {
            [kind, _] if kind == "object" => "Object".to_owned(),
            [kind, element] => format!("{} of {}", type_name(kind), type_name(element)),
            _ => panic!("a type of another shape: {ty}"),
        },
        _ => panic!("a type of another shape: {ty}"),
    }
}

/// One argument, attribute or block of a list.
struct Entry {
    group: &'static str,
    line: String,
}

/// Everything in a block, and then everything in the blocks and objects in it.
fn render(block: &Value, path: &str, out: &mut String) {
    let mut entries = Vec::new();
    let mut nested = Vec::new();
    for (name, attribute) in object(&block["attributes"]) {
        let group = if attribute["required"] == true {
            "Required"
        } else if attribute["optional"] == true {
            "Optional"
        } else {
            "Read-Only"
        };
        let inner = inside(&attribute);
        let mut notes = vec![match &inner {
            Some((kind, _)) => (*kind).to_owned(),
            None => type_name(&attribute["type"]),
        }];
        for (flag, note) in [
            ("sensitive", "Sensitive"),
            ("write_only", "Write-only"),
            ("deprecated", "Deprecated"),
        ] {
            if attribute[flag] == true {
                notes.push(note.to_owned());
            }
        }
        let mut line = format!(
            "- `{name}` ({}) {}",
            notes.join(", "),
            text(&attribute, "description")
        );
        if let Some((_, fields)) = inner {
            let path = below(path, &name);
            let _ = write!(line, " (see [below](#nested--{}))", anchor(&path));
            nested.push((path, fields));
        }
        entries.push(Entry { group, line });
    }
    for (name, each) in object(&block["block_types"]) {
        if name == ONLY_IN_TESTS {
            continue;
        }
        let kind = match text(&each, "nesting_mode") {
            "map" => "Blocks with a label",
            "list" | "set" => "Blocks",
            _ => "Block",
        };
        let required = each["min_items"].as_u64().unwrap_or_default() > 0;
        let path = below(path, &name);
        entries.push(Entry {
            group: if required { "Required" } else { "Optional" },
            line: format!(
                "- `{name}` ({kind}) {} (see [below](#nested--{}))",
                text(&each["block"], "description"),
                anchor(&path)
            ),
        });
        nested.push((path, each["block"].clone()));
    }
    for group in ["Required", "Optional", "Read-Only"] {
        let lines: Vec<_> = entries.iter().filter(|entry| entry.group == group).collect();
        if lines.is_empty() {
            continue;
        }
        let heading = if path.is_empty() {
            format!("### {group}")
        } else {
            format!("{group}:")
        };
        let _ = write!(out, "{heading}\n\n");
        for entry in lines {
            let _ = writeln!(out, "{}", entry.line.trim_end());
        }
        out.push('\n');
    }
    if entries.is_empty() {
        out.push_str("Nothing to set.\n\n");
    }
    for (path, block) in nested {
        let _ = write!(
            out,
            "<a id=\"nested--{}\"></a>\n### In `{path}`\n\n",
            anchor(&path)
        );
        render(&block, &path, out);
    }
}

/// What is inside of an attribute that is an object or holds objects, as a block.
fn inside(attribute: &Value) -> Option<(&'static str, Value)> {
    if !attribute["nested_type"].is_null() {
        let kind = match text(&attribute["nested_type"], "nesting_mode") {
            "single" => "Object",
            "map" => "Map of objects",
            _ => "List of objects",
        };
        return Some((kind, attribute["nested_type"].clone()));
    }
    let (kind, fields) = match attribute["type"].as_array()?.as_slice() {
        [kind, fields] if kind == "object" => ("Object", fields),
        [kind, element] if element[0] == "object" => (
            if kind == "map" {
                "Map of objects"
            } else {
                "List of objects"
            },
            &element[1],
        ),
        _ => return None,
    };
    let fields = object(fields).into_iter();
    let fields: Map<String, Value> = fields
        .map(|(name, ty)| (name, serde_json::json!({ "type": ty, "computed": true })))
        .collect();
    Some((kind, serde_json::json!({ "attributes": fields })))
}

fn below(path: &str, name: &str) -> String {
    if path.is_empty() {
        name.to_owned()
    } else {
        format!("{path}.{name}")
    }
}

fn anchor(path: &str) -> String {
    path.replace('.', "--")
}

/// How the kinds of backend differ, as a table with a column for each kind of a release.
fn profiles() -> String {
    let kinds: Value = serde_json::from_str(&printed(&["profiles", "--output", "json"])).expect("JSON");
    let mut kinds = object(&kinds);
    kinds.remove(ONLY_IN_TESTS);
    let axes = kinds.values().next().map(object).expect("a kind");
    let mut table = String::from("| axis |");
    let mut rule = String::from("|---|");
    for kind in kinds.keys() {
        let _ = write!(table, " `{kind}` |");
        rule.push_str("---|");
    }
    let _ = write!(table, "\n{rule}\n");
    for axis in axes.keys() {
        let _ = write!(table, "| {axis} |");
        for answers in kinds.values() {
            let _ = write!(table, " {} |", text(answers, axis));
        }
        table.push('\n');
    }
    format!("\n{table}\n")
}

/// What each axis asks, and what the answers mean that a kind of a release gives.
fn profile_meanings() -> String {
    let kinds = egress::registry::kinds().iter();
    let answers: Vec<_> = kinds
        .filter(|kind| kind.name != ONLY_IN_TESTS)
        .map(|kind| (kind.profile)().answers())
        .collect();
    let mut out = String::from("\n| axis | what it asks | what the answers mean |\n|---|---|---|\n");
    for (index, axis) in Profile::MEANINGS.iter().enumerate() {
        let given = axis
            .answers
            .iter()
            .filter(|(answer, _)| answers.iter().any(|answers| answers[index] == *answer));
        let meanings: Vec<_> = given
            .map(|(answer, meaning)| format!("`{answer}`: {}", meaning.trim()))
            .collect();
        let _ = writeln!(
            out,
            "| {} | {} | {} |",
            axis.axis,
            axis.question.trim(),
            meanings.join(" ")
        );
    }
    out + "\n"
}

/// Why a target is or is not healthy, as a table.
fn health_reasons() -> String {
    let mut out = String::from("\n| `reason` | meaning |\n|---|---|\n");
    for reason in HealthReason::ALL {
        let _ = writeln!(out, "| `{}` | {} |", reason.as_str(), reason.meaning());
    }
    out + "\n"
}

/// What belongs between the marker and its end.
fn generated(marker: &str, schema: &Value) -> Option<String> {
    let words: Vec<&str> = marker.split(' ').collect();
    match words.as_slice() {
        ["bench" | "bench-kubernetes"] => None,
        ["profiles"] => Some(profiles()),
        ["profile-meanings"] => Some(profile_meanings()),
        ["health-reasons"] => Some(health_reasons()),
        ["example", path] => {
            let content =
                fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
            let language = match Path::new(path)
                .extension()
                .and_then(|extension| extension.to_str())
            {
                Some("tf" | "hcl") => "terraform",
                Some("yaml") => "yaml",
                Some("sh") => "sh",
                other => panic!("{path}: no language is known for {other:?}"),
            };
            Some(format!("```{language}\n{}\n```\n", content.trim_end()))
        }
        ["schema", what @ ..] => {
            let schema = match what {
                ["provider"] => &schema["provider"],
                ["resource", name] => &schema["resource_schemas"][name],
                ["data-source", name] => &schema["data_source_schemas"][name],
                ["list-resource", name] => &schema["list_resource_schemas"][name],
                ["action", name] => &schema["action_schemas"][name],
                _ => panic!("no schema is called {marker:?}"),
            };
            assert!(schema.is_object(), "the provider has no {marker:?}");
            let mut out = String::new();
            render(&schema["block"], "", &mut out);
            Some(format!("\n{}\n\n", out.trim_end()))
        }
        _ => panic!("an unknown marker: {marker:?}"),
    }
}

/// The page with everything between its markers as it should be.
fn renewed(page: &str, schema: &Value) -> String {
    let mut out = String::new();
    let mut rest = page;
    while let Some((before, after)) = rest.split_once("<!-- generated: ") {
        let (marker, after) = after.split_once(" -->\n").expect("a marker ends on its line");
        let (now, after) = after.split_once("<!-- end -->").expect("a marker has an end");
        let content = generated(marker, schema).unwrap_or_else(|| now.to_owned());
        let _ = write!(out, "{before}<!-- generated: {marker} -->\n{content}<!-- end -->");
        rest = after;
    }
    out + rest
}

fn pages(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            pages(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
}

#[test]
fn what_is_generated_is_up_to_date() {
    let schema = schema();
    let mut found = vec![root().join("README.md")];
    pages(&root().join("docs"), &mut found);
    let mut stale = Vec::new();
    for path in found {
        let page = fs::read_to_string(&path).expect("a page");
        let renewed = renewed(&page, &schema);
        if renewed == page {
            continue;
        }
        if std::env::var_os("EGRESS_WRITE_DOCS").is_some() {
            fs::write(&path, renewed).expect("a page");
        } else {
            stale.push(path);
        }
    }
    assert!(stale.is_empty(), "run `make docs`: {stale:?}");
}

#[test]
fn everything_has_its_page_and_its_example() {
    let schema = schema();
    for (schemas, folder, marker) in [
        ("resource_schemas", "resources", "resource"),
        ("data_source_schemas", "data-sources", "data-source"),
        ("list_resource_schemas", "list-resources", "list-resource"),
        ("action_schemas", "actions", "action"),
    ] {
        let mut expected: Vec<String> = Vec::new();
        for name in object(&schema[schemas]).keys() {
            let page = name.strip_prefix("egress_").expect("our names start so");
            expected.push(format!("{page}.md"));
            let path = root().join("docs").join(folder).join(format!("{page}.md"));
            let content =
                fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            assert!(
                content.contains(&format!("generated: schema {marker} {name} ")),
                "{}",
                path.display()
            );
            let example = root()
                .join("examples")
                .join(folder)
                .join(name)
                .join(match marker {
                    "list-resource" => "list-resource.tfquery.hcl".to_owned(),
                    marker => format!("{marker}.tf"),
                });
            assert!(example.exists(), "{} is missing", example.display());
        }
        let mut found = Vec::new();
        pages(&root().join("docs").join(folder), &mut found);
        for path in found {
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            assert!(expected.contains(&name), "{} is about nothing", path.display());
        }
    }
}

/// The schema has no words for what is inside of an object: the page of its data source has.
#[test]
fn what_is_inside_of_an_object_is_explained() {
    let schema = schema();
    for (name, source) in object(&schema["data_source_schemas"]) {
        let page = name.strip_prefix("egress_").expect("our names start so");
        let path = root().join(format!("docs/data-sources/{page}.md"));
        let page = fs::read_to_string(path).expect("a page");
        let explained: Vec<&str> = page
            .lines()
            .filter_map(|line| line.strip_prefix("| ")?.split(" | ").next())
            .flat_map(|names| names.split(", "))
            .collect();
        for (_, attribute) in object(&source["block"]["attributes"]) {
            let Some((_, fields)) = inside(&attribute) else {
                continue;
            };
            for field in object(&fields["attributes"]).keys() {
                let field = format!("`{field}`");
                assert!(
                    explained.contains(&field.as_str()),
                    "{name} does not explain {field}"
                );
            }
        }
    }
}

#[test]
fn every_page_suits_the_registry() {
    let mut found = Vec::new();
    for folder in ["resources", "data-sources", "list-resources", "actions", "guides"] {
        pages(&root().join("docs").join(folder), &mut found);
    }
    found.push(root().join("docs/index.md"));
    for path in found {
        let page = fs::read_to_string(&path).expect("a page");
        let front = page
            .strip_prefix("---\n")
            .and_then(|page| page.split_once("\n---\n"));
        let (front, _) = front.unwrap_or_else(|| panic!("{} has no front matter", path.display()));
        for key in ["page_title:", "description:"] {
            assert!(front.contains(key), "{} has no {key}", path.display());
        }
        let index = path.ends_with("docs/index.md");
        assert!(
            index || front.contains("subcategory:"),
            "{} has no subcategory",
            path.display()
        );
        assert!(
            page.len() < 500_000,
            "{} is too long for the registry",
            path.display()
        );
    }
}

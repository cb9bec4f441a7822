//! Import blocks with the resource blocks that match, as a person would write them.
//!
//! Must not know what a proxy is: it is handed arguments and prints them. Invariants: no two blocks have
//! one address, none has one that is taken; what is printed is formatted as `terraform fmt` does.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use crate::plugin::value::Value;
use crate::terraform::egress_proxy::written::{Argument, Expression, Written};

/// A proxy to import.
#[derive(Clone, Debug)]
pub(super) struct Import {
    /// Its id.
    pub(super) id: String,
    /// What it may be called, the best first; at least one.
    pub(super) names: Vec<String>,
    /// What its block says.
    pub(super) written: Written,
    /// What to know about it.
    pub(super) remarks: Vec<String>,
}

/// The document that imports them all, beside what is taken.
pub(super) fn document(imports: &[Import], taken: &BTreeSet<String>) -> String {
    let mut out = String::new();
    for (import, name) in imports.iter().zip(names(imports, taken)) {
        block(&mut out, import, &name);
    }
    out
}

/// One name for each: the first of its names that nobody else wants and nothing has.
fn names(imports: &[Import], taken: &BTreeSet<String>) -> Vec<String> {
    let mut wanted: BTreeMap<String, usize> = BTreeMap::new();
    for import in imports {
        let own: BTreeSet<_> = import.names.iter().map(|name| identifier(name)).collect();
        for name in own {
            *wanted.entry(name).or_default() += 1;
        }
    }
    let mut given = taken.clone();
    imports
        .iter()
        .map(|import| {
            let candidates: Vec<_> = import.names.iter().map(|name| identifier(name)).collect();
            let alone = |name: &&String| wanted.get(*name) == Some(&1) && !given.contains(*name);
            let name = match candidates.iter().find(alone) {
                Some(name) => name.clone(),
                None => {
                    let last = candidates.last().cloned().unwrap_or_default();
                    let numbered = (2..).map(|number: u32| format!("{last}_{number}"));
                    let mut unwanted =
                        numbered.filter(|name| !given.contains(name) && !wanted.contains_key(name));
                    if given.contains(&last) {
                        unwanted.next().unwrap_or(last)
                    } else {
                        last
                    }
                }
            };
            given.insert(name.clone());
            name
        })
        .collect()
}

/// A name as the language takes it: letters, digits, underscores and dashes, no digit or dash first.
fn identifier(name: &str) -> String {
    let mut identifier: String = name
        .chars()
        .map(|letter| {
            if letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-') {
                letter
            } else {
                '_'
            }
        })
        .collect();
    if !identifier.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_') {
        identifier.insert(0, '_');
    }
    identifier
}

fn block(out: &mut String, import: &Import, name: &str) {
    if !out.is_empty() {
        out.push('\n');
    }
    for remark in &import.remarks {
        line(out, 0, &format!("# {remark}"));
    }
    line(out, 0, "import {");
    line(out, 1, &format!("to = egress_proxy.{name}"));
    line(out, 1, &format!("id = {}", quoted(&import.id)));
    line(out, 0, "}\n");
    let mut asked = Vec::new();
    line(out, 0, &format!("resource \"egress_proxy\" {} {{", quoted(name)));
    arguments(out, 1, &import.written.arguments, name, &mut asked);
    for (block, within) in &import.written.blocks {
        line(out, 0, "");
        line(out, 1, &format!("{block} {{"));
        arguments(out, 2, within, name, &mut asked);
        line(out, 1, "}");
    }
    line(out, 0, "}");
    for (variable, what) in asked {
        let write_only = variable.1;
        line(out, 0, "");
        line(out, 0, &format!("variable {} {{", quoted(&variable.0)));
        if write_only {
            line(out, 1, "ephemeral   = true");
        }
        line(out, 1, "sensitive   = true");
        line(out, 1, "type        = string");
        line(out, 1, &format!("description = {}", quoted(&what)));
        line(out, 0, "}");
    }
}

/// A variable's name, and whether its value may be in no state.
type Variable = (String, bool);

fn arguments(
    out: &mut String,
    depth: usize,
    arguments: &[Argument],
    resource: &str,
    asked: &mut Vec<(Variable, String)>,
) {
    let mut lines = Vec::new();
    for (name, expression) in arguments {
        let text = match expression {
            Expression::Is(value) => printed(value, depth),
            Expression::Asked(suffix, what) => {
                let variable = format!("{resource}_{suffix}");
                let text = format!("var.{variable}");
                asked.push(((variable, name.ends_with("_wo")), (*what).to_owned()));
                text
            }
        };
        lines.push((name.as_str(), text));
    }
    aligned(out, depth, &lines);
}

/// Lines `name = value` with their equal signs below each other, as far as `terraform fmt` puts them
/// so: a value of several lines ends a group.
fn aligned(out: &mut String, depth: usize, lines: &[(&str, String)]) {
    let mut rest = lines;
    while !rest.is_empty() {
        let one_liners = rest.iter().take_while(|(_, text)| !text.contains('\n')).count();
        // A value of several lines is a group of its own, as `terraform fmt` has it.
        let (group, more) = rest.split_at(one_liners.max(1));
        let width = group.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
        for (name, text) in group {
            line(out, depth, &format!("{name:width$} = {text}"));
        }
        rest = more;
    }
}

fn line(out: &mut String, depth: usize, text: &str) {
    if text.is_empty() {
        out.push('\n');
    } else {
        // Writing to a String cannot fail.
        let _ = writeln!(out, "{:indent$}{text}", "", indent = depth * 2);
    }
}

/// A value in the language.
fn printed(value: &Value, depth: usize) -> String {
    match value {
        Value::Null | Value::Unknown(_) => "null".to_owned(),
        Value::Bool(bool) => bool.to_string(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => quoted(text),
        Value::List(items) => {
            let items: Vec<_> = items.iter().map(|item| printed(item, depth)).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Map(entries) if entries.is_empty() => "{}".to_owned(),
        Value::Map(entries) => {
            let entries: Vec<_> = entries
                .iter()
                .map(|(key, value)| (quoted(key), printed(value, depth + 1)))
                .collect();
            let entries: Vec<_> = entries
                .iter()
                .map(|(key, value)| (key.as_str(), value.clone()))
                .collect();
            let mut out = "{\n".to_owned();
            aligned(&mut out, depth + 1, &entries);
            let _ = write!(out, "{:indent$}}}", "", indent = depth * 2);
            out
        }
        Value::Dynamic(_, inner) => printed(inner, depth),
    }
}

/// A text in quotes, without a template in it.
pub(super) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '$' | '%' if letters.peek() == Some(&'{') => {
                out.push(letter);
                out.push(letter);
            }
            control if control.is_control() => {
                let _ = write!(out, "\\u{:04x}", u32::from(control));
            }
            letter => out.push(letter),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn import(names: &[&str], written: Written) -> Import {
        Import {
            id: "here/default/a".into(),
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            written,
            remarks: Vec::new(),
        }
    }

    fn named(imports: &[&[&str]], taken: &[&str]) -> Vec<String> {
        let imports: Vec<_> = imports
            .iter()
            .map(|names| import(names, Written::default()))
            .collect();
        let taken = taken.iter().map(|name| (*name).to_owned()).collect();
        names(&imports, &taken)
    }

    #[test]
    fn no_two_blocks_have_one_name() {
        assert_eq!(named(&[&["a"], &["b"]], &[]), ["a", "b"]);
        // Of two namespaces, and one of those names is a third's own.
        let three: [&[&str]; 3] = [
            &["a", "x_a", "here_x_a"],
            &["a", "y_a", "here_y_a"],
            &["x_a", "z_x_a"],
        ];
        assert_eq!(named(&three, &[]), ["here_x_a", "y_a", "z_x_a"]);
        assert_eq!(named(&[&["a", "x_a"]], &["a"]), ["x_a"]);
        let same: [&[&str]; 3] = [&["a"], &["a"], &["a"]];
        assert_eq!(named(&same, &["a_2"]), ["a", "a_3", "a_4"]);
    }

    #[test]
    fn a_name_becomes_an_identifier() {
        for (name, expected) in [
            ("a-1", "a-1"),
            ("1a", "_1a"),
            ("a.b", "a_b"),
            ("-a", "_-a"),
            ("ä", "_"),
            ("", "_"),
        ] {
            assert_eq!(identifier(name), expected, "{name}");
        }
    }

    #[test]
    fn a_text_is_itself_whatever_is_in_it() {
        assert_eq!(
            quoted("a\"b\\c\n${x} %{y} $x %"),
            r#""a\"b\\c\n$${x} %%{y} $x %""#
        );
        assert_eq!(quoted("\u{1}"), r#""\u0001""#);
    }

    #[test]
    fn the_document_is_as_terraform_formats_it() {
        let is = |name: &str, value: Value| (name.to_owned(), Expression::Is(value));
        let labels = Value::object([("team", Value::from("x")), ("cost-center", "7".into())]);
        let written = Written {
            arguments: vec![
                is("name", "a".into()),
                is("namespace", "default".into()),
                is("port", 8080.into()),
                is("labels", labels),
            ],
            blocks: vec![(
                "access".into(),
                vec![
                    is("allowed_cidrs", vec!["10.0.0.0/8", "::/0"].into()),
                    is("username", "u".into()),
                    (
                        "password_wo".into(),
                        Expression::Asked("password", "The password."),
                    ),
                    is("password_wo_version", "1".into()),
                ],
            )],
        };
        let import = Import {
            remarks: vec!["It is stopped.".into()],
            ..import(&["a"], written)
        };
        let expected = r#"# It is stopped.
import {
  to = egress_proxy.a
  id = "here/default/a"
}

resource "egress_proxy" "a" {
  name      = "a"
  namespace = "default"
  port      = 8080
  labels = {
    "cost-center" = "7"
    "team"        = "x"
  }

  access {
    allowed_cidrs       = ["10.0.0.0/8", "::/0"]
    username            = "u"
    password_wo         = var.a_password
    password_wo_version = "1"
  }
}

variable "a_password" {
  ephemeral   = true
  sensitive   = true
  type        = string
  description = "The password."
}
"#;
        assert_eq!(document(&[import], &BTreeSet::new()), expected);
    }
}

//! The configuration file: YAML of the same content as the `provider` block.
//!
//! Must not know any setting: the schema says what there may be. A block that occurs many times is
//! a map under its plural (`backends`, `hosts`). Invariant: what comes out conforms to the schema,
//! and nothing in the file was dropped: an unknown key is a mistake.

use std::collections::BTreeMap;
use std::path::Path as FilePath;

use serde_json::Value as Json;

use crate::plugin::diagnostics::{Diagnostic, Diagnostics, Path};
use crate::plugin::schema::{Attribute, Block, Nesting, Shape};
use crate::plugin::types::Type;
use crate::plugin::value::{Number, Value};

/// Files longer than this hold something else.
const LONGEST: u64 = 4 << 20;

/// Reads a file under the schema of the `provider` block.
///
/// # Errors
/// Every mistake in it.
pub fn read(path: &FilePath, block: &Block) -> Result<Value, Diagnostics> {
    let name = path.display();
    let unreadable = |why: String| {
        Diagnostics::from(
            Diagnostic::error("The configuration file cannot be read").detail(format!("{name}: {why}.")),
        )
    };
    let metadata = std::fs::metadata(path).map_err(|error| unreadable(error.to_string()))?;
    // Reading a pipe or a device may never end.
    if !metadata.is_file() {
        return Err(unreadable("it is not a regular file".to_owned()));
    }
    let length = metadata.len();
    if length > LONGEST {
        return Err(unreadable(format!(
            "it has {length} bytes, which no configuration has"
        )));
    }
    let text = std::fs::read_to_string(path).map_err(|error| unreadable(error.to_string()))?;
    parse(&text, block).map_err(|problems| {
        let within = |mut problem: Diagnostic| {
            let place = problem.path.take().filter(|path| !path.is_root());
            let place = place.map_or_else(String::new, |path| format!(", {path}"));
            problem.detail = format!("{name}{place}: {}", problem.detail);
            problem
        };
        problems.into_iter().map(within).collect()
    })
}

/// Reads the text of a file.
fn parse(text: &str, block: &Block) -> Result<Value, Diagnostics> {
    let json: Json = if text.trim().is_empty() {
        Json::Null
    } else {
        // A tag such as `!vault` asks for something that is not done here: its text is not the value.
        let options = serde_saphyr::options! { reject_unsupported_tags: true };
        serde_saphyr::from_str_with_options(text, options).map_err(|error| {
            Diagnostics::from(
                // Without the lines around it: they may hold a secret.
                Diagnostic::error("The configuration file is not YAML that can be used")
                    .detail(error.without_snippet().to_string()),
            )
        })?
    };
    let mut problems = Diagnostics::new();
    let mut block = block.clone();
    // A file that names another file would only be a detour.
    block
        .attributes
        .retain(|attribute| attribute.name != "config_file");
    let json = if json.is_null() {
        Json::Object(serde_json::Map::new())
    } else {
        json
    };
    let value = conform_block(&json, &block, &Path::root(), &mut problems);
    if problems.has_errors() {
        Err(problems)
    } else {
        Ok(value)
    }
}

/// The key of a block in the file.
fn file_key(name: &str, nesting: Nesting) -> String {
    match nesting {
        Nesting::Single | Nesting::Group => name.to_owned(),
        Nesting::List | Nesting::Set | Nesting::Map => format!("{name}s"),
    }
}

fn conform_block(json: &Json, block: &Block, path: &Path, problems: &mut Diagnostics) -> Value {
    let Json::Object(entries) = json else {
        problems.push(wrong(path, json, "a map"));
        return Value::Null;
    };
    let keys: Vec<String> = block
        .attributes
        .iter()
        .map(|attribute| attribute.name.clone())
        .chain(
            block
                .blocks
                .iter()
                .map(|nested| file_key(&nested.name, nested.nesting)),
        )
        .collect();
    for key in entries.keys().filter(|key| !keys.contains(key)) {
        let nearest = keys
            .iter()
            .map(|known| (strsim::damerau_levenshtein(known, key), known))
            .min()
            .filter(|(distance, _)| *distance <= 2);
        let hint = match nearest {
            Some((_, known)) => format!(" Did you mean {known:?}?"),
            None => format!(" It may hold {}.", keys.join(", ")),
        };
        problems.push(
            Diagnostic::error("The configuration file has an unknown key")
                .detail(format!("{key:?} means nothing here.{hint}"))
                .at(path.clone()),
        );
    }
    let mut value = BTreeMap::new();
    for attribute in &block.attributes {
        let given = entries.get(&attribute.name).unwrap_or(&Json::Null);
        let path = path.attribute(&attribute.name);
        value.insert(
            attribute.name.clone(),
            conform_attribute(given, attribute, &path, problems),
        );
    }
    for nested in &block.blocks {
        let key = file_key(&nested.name, nested.nesting);
        let path = path.attribute(&key);
        let inner = match (entries.get(&key), nested.nesting) {
            (None, Nesting::Map) => Value::Map(BTreeMap::new()),
            (None, Nesting::List | Nesting::Set) => Value::List(Vec::new()),
            (None, Nesting::Single | Nesting::Group) => Value::Null,
            // `local:` with nothing after it is a block without arguments.
            (Some(Json::Null), Nesting::Single | Nesting::Group) => conform_block(
                &Json::Object(serde_json::Map::new()),
                &nested.block,
                &path,
                problems,
            ),
            (Some(json), Nesting::Single | Nesting::Group) => {
                conform_block(json, &nested.block, &path, problems)
            }
            (Some(Json::Object(labelled)), Nesting::Map) => Value::Map(
                labelled
                    .iter()
                    .map(|(label, json)| {
                        (
                            label.clone(),
                            conform_block(json, &nested.block, &path.key(label), problems),
                        )
                    })
                    .collect(),
            ),
            (Some(Json::Array(items)), Nesting::List | Nesting::Set) => Value::List(
                (0..)
                    .zip(items)
                    .map(|(index, json)| conform_block(json, &nested.block, &path.index(index), problems))
                    .collect(),
            ),
            (Some(json), Nesting::Map) => {
                problems.push(wrong(&path, json, "a map from names to their settings"));
                Value::Null
            }
            (Some(json), Nesting::List | Nesting::Set) => {
                problems.push(wrong(&path, json, "a list"));
                Value::Null
            }
        };
        value.insert(nested.name.clone(), inner);
    }
    Value::Map(value)
}

fn conform_attribute(json: &Json, attribute: &Attribute, path: &Path, problems: &mut Diagnostics) -> Value {
    match &attribute.shape {
        Shape::Plain(ty) => conform(json, ty, path, problems),
        Shape::Nested(object) => conform(json, &object.ty(), path, problems),
    }
}

fn conform(json: &Json, ty: &Type, path: &Path, problems: &mut Diagnostics) -> Value {
    let number = |text: String| text.parse::<Number>().ok();
    match (json, ty) {
        (Json::Null, _) => Value::Null,
        (Json::Bool(bool), Type::Bool) => Value::Bool(*bool),
        (Json::String(text), Type::String) => Value::String(text.clone()),
        // A whole number has one spelling only, so that nothing is lost where a text is wanted.
        (Json::Number(given), Type::String) if given.is_u64() || given.is_i64() => {
            Value::String(given.to_string())
        }
        (Json::Number(given), Type::Number) if let Some(number) = number(given.to_string()) => {
            Value::Number(number)
        }
        (Json::Array(items), Type::List(element) | Type::Set(element)) => Value::List(
            (0..)
                .zip(items)
                .map(|(index, item)| conform(item, element, &path.index(index), problems))
                .collect(),
        ),
        (Json::Object(entries), Type::Map(element)) => Value::Map(
            entries
                .iter()
                .map(|(key, entry)| (key.clone(), conform(entry, element, &path.key(key), problems)))
                .collect(),
        ),
        _ => {
            let wanted = match ty {
                Type::Bool => "true or false",
                Type::Number => "a number",
                Type::String => "a text (in quotes where YAML would read it as something else)",
                Type::List(_) | Type::Set(_) | Type::Tuple(_) => "a list",
                Type::Map(_) | Type::Object(..) => "a map",
                Type::Dynamic => "something else",
            };
            problems.push(wrong(path, json, wanted));
            Value::Null
        }
    }
}

/// Says what was found instead, never the value: it may be a secret.
fn wrong(path: &Path, json: &Json, wanted: &str) -> Diagnostic {
    let found = match json {
        Json::Null => "nothing",
        Json::Bool(_) => "true or false",
        Json::Number(_) => "a number",
        Json::String(_) => "a text",
        Json::Array(_) => "a list",
        Json::Object(_) => "a map",
    };
    Diagnostic::error("The configuration file has a value of the wrong kind")
        .detail(format!("It is {found} and must be {wanted}."))
        .at(path.clone())
}

//! Types in their JSON form: `"string"`, `["list","bool"]`, `["object",{"a":"number"},["a"]]`.
//!
//! Must not know values. Invariant: no type that nests deeper than [`MAX_DEPTH`] comes in.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value as Json;

use super::CodecError;
use crate::plugin::types::{MAX_DEPTH, Type};

/// The JSON form of a type.
pub(crate) fn encode(ty: &Type) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut out, ty);
    out
}

fn write(out: &mut Vec<u8>, ty: &Type) {
    let mut collection = |name: &str, element: &Type| {
        out.extend_from_slice(b"[\"");
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(b"\",");
        write(out, element);
        out.push(b']');
    };
    match ty {
        Type::List(element) => collection("list", element),
        Type::Set(element) => collection("set", element),
        Type::Map(element) => collection("map", element),
        Type::Bool => out.extend_from_slice(b"\"bool\""),
        Type::Number => out.extend_from_slice(b"\"number\""),
        Type::String => out.extend_from_slice(b"\"string\""),
        Type::Dynamic => out.extend_from_slice(b"\"dynamic\""),
        Type::Tuple(elements) => {
            out.extend_from_slice(b"[\"tuple\",[");
            for (i, element) in elements.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                write(out, element);
            }
            out.extend_from_slice(b"]]");
        }
        Type::Object(attributes, optional) => {
            out.extend_from_slice(b"[\"object\",{");
            for (i, (name, ty)) in attributes.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                super::json::write_string(out, name);
                out.push(b':');
                write(out, ty);
            }
            out.push(b'}');
            if !optional.is_empty() {
                for (i, name) in optional.iter().enumerate() {
                    out.extend_from_slice(if i == 0 { b",[" } else { b"," });
                    super::json::write_string(out, name);
                }
                out.push(b']');
            }
            out.push(b']');
        }
    }
}

/// Reads the JSON form of a type.
pub(crate) fn decode(bytes: &[u8]) -> Result<Type, CodecError> {
    // The parser itself stops at 128 levels, so the text cannot exhaust the stack either.
    let json: Json =
        serde_json::from_slice(bytes).map_err(|_| CodecError::new("its type is not valid JSON"))?;
    read(&json, 0)
}

fn read(json: &Json, depth: usize) -> Result<Type, CodecError> {
    if depth > MAX_DEPTH {
        return Err(CodecError::new("its type nests too deep"));
    }
    let invalid = || CodecError::new("its type is not one that Terraform has");
    match json {
        Json::String(name) => match name.as_str() {
            "bool" => Ok(Type::Bool),
            "number" => Ok(Type::Number),
            "string" => Ok(Type::String),
            "dynamic" => Ok(Type::Dynamic),
            _ => Err(invalid()),
        },
        Json::Array(parts) => match parts.as_slice() {
            [Json::String(kind), Json::Object(attributes), rest @ ..] if kind == "object" => {
                let attributes: BTreeMap<_, _> = attributes
                    .iter()
                    .map(|(name, ty)| Ok((super::normalize(name), read(ty, depth + 1)?)))
                    .collect::<Result<_, CodecError>>()?;
                let optional = match rest {
                    [] => BTreeSet::new(),
                    [Json::Array(names)] => names
                        .iter()
                        .map(|name| name.as_str().filter(|name| attributes.contains_key(*name)))
                        .map(|name| name.map(str::to_owned).ok_or_else(invalid))
                        .collect::<Result<_, _>>()?,
                    _ => return Err(invalid()),
                };
                Ok(Type::Object(attributes, optional))
            }
            [Json::String(kind), Json::Array(elements)] if kind == "tuple" => elements
                .iter()
                .map(|element| read(element, depth + 1))
                .collect::<Result<_, _>>()
                .map(Type::Tuple),
            [Json::String(kind), element] => {
                let element = read(element, depth + 1)?;
                match kind.as_str() {
                    "list" => Ok(Type::list(element)),
                    "set" => Ok(Type::set(element)),
                    "map" => Ok(Type::map(element)),
                    _ => Err(invalid()),
                }
            }
            _ => Err(invalid()),
        },
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::Object(_) => Err(invalid()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_has_its_json_form() {
        let optional = Type::Object(
            [("a".to_owned(), Type::Bool), ("b".to_owned(), Type::Number)].into(),
            ["b".to_owned()].into(),
        );
        for (ty, json) in [
            (Type::Bool, r#""bool""#),
            (Type::Number, r#""number""#),
            (Type::String, r#""string""#),
            (Type::Dynamic, r#""dynamic""#),
            (Type::list(Type::String), r#"["list","string"]"#),
            (Type::set(Type::map(Type::Bool)), r#"["set",["map","bool"]]"#),
            (Type::Tuple(vec![]), r#"["tuple",[]]"#),
            (
                Type::Tuple(vec![Type::Bool, Type::Dynamic]),
                r#"["tuple",["bool","dynamic"]]"#,
            ),
            (
                Type::object([("x\"y", Type::Bool)]),
                r#"["object",{"x\"y":"bool"}]"#,
            ),
            (optional, r#"["object",{"a":"bool","b":"number"},["b"]]"#),
        ] {
            assert_eq!(String::from_utf8(encode(&ty)).unwrap(), json);
            assert_eq!(decode(json.as_bytes()), Ok(ty), "{json}");
        }
    }

    #[test]
    fn what_is_no_type_is_refused() {
        for json in [
            "",
            "{}",
            "1",
            r#""float""#,
            r#"["list"]"#,
            r#"["list","string","string"]"#,
            r#"["tuple","string"]"#,
            r#"["object",[]]"#,
            r#"["object",{"a":"bool"},["b"]]"#,
            r#"["object",{"a":"bool"},[1]]"#,
            r#"["array","string"]"#,
            r#"[["list"],"string"]"#,
        ] {
            assert!(decode(json.as_bytes()).is_err(), "{json}");
        }
        let deep = |levels: usize| format!("{}\"string\"{}", "[\"list\",".repeat(levels), "]".repeat(levels));
        assert!(decode(deep(MAX_DEPTH).as_bytes()).is_ok());
        assert!(decode(deep(MAX_DEPTH + 1).as_bytes()).is_err());
        assert!(decode(deep(100_000).as_bytes()).is_err());
    }
}

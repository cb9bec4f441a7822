//! Values as JSON, the way go-cty writes them: stored states, and requests that bring no MessagePack.
//!
//! Must not know schemas or blocks. Invariants: numbers are taken from their text, never through a
//! float; reading recurses no deeper than [`MAX_DEPTH`].

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use super::{CodecError, normalize, type_json};
use crate::plugin::diagnostics::Step;
use crate::plugin::types::{MAX_DEPTH, Type};
use crate::plugin::value::{Number, Value};

/// How closely an object must follow its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fit {
    /// All attributes, and no others: what a host sends.
    Exact,
    /// Unknown keys are passed over, absent ones are null: what an older version stored.
    Loose,
}

/// Reads a value of a type.
pub(crate) fn decode(bytes: &[u8], ty: &Type, fit: Fit) -> Result<Value, CodecError> {
    let raw: &RawValue =
        serde_json::from_slice(bytes).map_err(|_| CodecError::new("it is not valid JSON"))?;
    read(raw, ty, fit, 0)
}

fn read(raw: &RawValue, ty: &Type, fit: Fit, depth: usize) -> Result<Value, CodecError> {
    if depth > MAX_DEPTH {
        return Err(CodecError::new("it nests too deep"));
    }
    let text = raw.get();
    if text == "null" {
        return Ok(Value::Null);
    }
    match ty {
        // Primitive types are taken from each other's text where that loses nothing, as the hosts do.
        Type::Bool => match &*scalar(text, "a boolean")? {
            "true" => Ok(Value::Bool(true)),
            "false" => Ok(Value::Bool(false)),
            _ => Err(expected("a boolean", text)),
        },
        Type::Number if !text.starts_with(['t', 'f']) => {
            let number = scalar(text, "a number")?;
            number
                .parse()
                .map(Value::Number)
                .map_err(|e| CodecError::new(format!("it is {e}")))
        }
        Type::Number => Err(expected("a number", text)),
        Type::String => scalar(text, "a string").map(|text| Value::String(normalize(&text))),
        Type::List(element) | Type::Set(element) => {
            let items = items(text)?.into_iter().enumerate();
            let read =
                items.map(|(i, item)| read(item, element, fit, depth + 1).map_err(|e| e.within(index(i))));
            read.collect::<Result<_, _>>().map(Value::List)
        }
        Type::Tuple(elements) => {
            let items = items(text)?;
            if items.len() != elements.len() {
                let problem = format!(
                    "{} elements were expected, but there are {}",
                    elements.len(),
                    items.len()
                );
                return Err(CodecError::new(problem));
            }
            let items = items.into_iter().zip(elements).enumerate();
            let read =
                items.map(|(i, (item, ty))| read(item, ty, fit, depth + 1).map_err(|e| e.within(index(i))));
            read.collect::<Result<_, _>>().map(Value::List)
        }
        Type::Map(element) => {
            let entries =
                entries(text)?
                    .into_iter()
                    .map(|(key, item)| match read(item, element, fit, depth + 1) {
                        Ok(value) => Ok((normalize(&key), value)),
                        Err(error) => Err(error.within(Step::Key(key))),
                    });
            entries.collect::<Result<_, _>>().map(Value::Map)
        }
        Type::Object(attributes, _) => {
            let mut entries = entries(text)?;
            let mut object = Vec::with_capacity(attributes.len());
            for (name, ty) in attributes {
                let value = match entries.remove(name) {
                    Some(item) => read(item, ty, fit, depth + 1).map_err(|e| e.within(attribute(name)))?,
                    None if fit == Fit::Loose => Value::Null,
                    None => return Err(CodecError::new("it is missing").within(attribute(name))),
                };
                object.push((name.clone(), value));
            }
            match entries.keys().next() {
                Some(stray) if fit == Fit::Exact => {
                    Err(CodecError::new("there is no such attribute").within(attribute(stray)))
                }
                _ => Ok(Value::Map(object.into_iter().collect())),
            }
        }
        Type::Dynamic => {
            let mut entries = entries(text)?;
            let (Some(ty), Some(value), 0) = (entries.remove("type"), entries.remove("value"), entries.len())
            else {
                return Err(CodecError::new("a value of any type must be a type and a value"));
            };
            let ty = type_json::decode(ty.get().as_bytes())?;
            let value = read(value, &ty, fit, depth + 1)?;
            Ok(if ty == Type::Dynamic {
                value
            } else {
                Value::Dynamic(Box::new(ty), Box::new(value))
            })
        }
    }
}

/// The text of a string, number or boolean.
fn scalar(text: &str, wanted: &str) -> Result<String, CodecError> {
    match text.as_bytes().first() {
        Some(b'"') => serde_json::from_str(text).map_err(|_| CodecError::new("it is not valid JSON")),
        Some(b'{' | b'[') => Err(expected(wanted, text)),
        _ => Ok(text.to_owned()),
    }
}

fn items(text: &str) -> Result<Vec<&RawValue>, CodecError> {
    serde_json::from_str(text).map_err(|_| expected("a list", text))
}

fn entries(text: &str) -> Result<BTreeMap<String, &RawValue>, CodecError> {
    serde_json::from_str(text).map_err(|_| expected("a map or an object", text))
}

fn expected(what: &str, text: &str) -> CodecError {
    let kind = match text.as_bytes().first() {
        Some(b'"') => "a string",
        Some(b'{') => "a map or an object",
        Some(b'[') => "a list",
        Some(b't' | b'f') => "a boolean",
        _ => "a number",
    };
    CodecError::new(format!("{what} was expected, but this is {kind}"))
}

fn index(i: usize) -> Step {
    Step::Index(i as i64)
}

fn attribute(name: &str) -> Step {
    Step::Attribute(name.to_owned())
}

/// Writes a value of a type. JSON has no form for unknowns and infinities: they are errors.
pub(crate) fn encode(value: &Value, ty: &Type) -> Result<Vec<u8>, CodecError> {
    let mut out = Vec::new();
    write(&mut out, value, ty, 0)?;
    Ok(out)
}

fn write(out: &mut Vec<u8>, value: &Value, ty: &Type, depth: usize) -> Result<(), CodecError> {
    if depth > MAX_DEPTH {
        return Err(CodecError::new("it nests too deep"));
    }
    match (value, ty) {
        (Value::Null, _) => out.extend_from_slice(b"null"),
        (Value::Unknown(_), _) => return Err(CodecError::new("JSON has no form for an unknown value")),
        (Value::Dynamic(own, inner), Type::Dynamic) => {
            out.extend_from_slice(b"{\"value\":");
            write(out, inner, own, depth + 1)?;
            out.extend_from_slice(b",\"type\":");
            out.extend_from_slice(&type_json::encode(own));
            out.push(b'}');
        }
        (Value::Bool(bool), Type::Bool) => out.extend_from_slice(if *bool { b"true" } else { b"false" }),
        (Value::Number(number), Type::Number) => write_number(out, number)?,
        (Value::String(string), Type::String) => write_string(out, string),
        (Value::List(items), Type::List(element) | Type::Set(element)) => {
            write_items(out, items.iter().map(|item| (item, &**element)), depth)?;
        }
        (Value::List(items), Type::Tuple(elements)) if items.len() == elements.len() => {
            write_items(out, items.iter().zip(elements), depth)?;
        }
        (Value::Map(entries), Type::Map(element)) => {
            let entries = entries.iter().map(|(key, item)| (key, item, &**element));
            write_entries(out, entries, depth, |key| Step::Key(key.to_owned()))?;
        }
        (Value::Map(entries), Type::Object(attributes, _)) => {
            if let Some(stray) = entries.keys().find(|key| !attributes.contains_key(*key)) {
                return Err(CodecError::new("there is no such attribute").within(attribute(stray)));
            }
            let entries = attributes
                .iter()
                .map(|(name, ty)| (name, entries.get(name).unwrap_or(&Value::Null), ty));
            write_entries(out, entries, depth, attribute)?;
        }
        (other, ty) => {
            return Err(CodecError::new(format!(
                "a value of type {ty} was expected, but this is {}",
                other.kind()
            )));
        }
    }
    Ok(())
}

fn write_items<'a>(
    out: &mut Vec<u8>,
    items: impl Iterator<Item = (&'a Value, &'a Type)>,
    depth: usize,
) -> Result<(), CodecError> {
    out.push(b'[');
    for (i, (item, ty)) in items.enumerate() {
        if i > 0 {
            out.push(b',');
        }
        write(out, item, ty, depth + 1).map_err(|e| e.within(index(i)))?;
    }
    out.push(b']');
    Ok(())
}

fn write_entries<'a>(
    out: &mut Vec<u8>,
    entries: impl Iterator<Item = (&'a String, &'a Value, &'a Type)>,
    depth: usize,
    step: impl Fn(&str) -> Step,
) -> Result<(), CodecError> {
    out.push(b'{');
    for (i, (key, item, ty)) in entries.enumerate() {
        if i > 0 {
            out.push(b',');
        }
        write_string(out, key);
        out.push(b':');
        write(out, item, ty, depth + 1).map_err(|e| e.within(step(key)))?;
    }
    out.push(b'}');
    Ok(())
}

fn write_number(out: &mut Vec<u8>, number: &Number) -> Result<(), CodecError> {
    if number.is_infinite() {
        return Err(CodecError::new("JSON has no form for infinity"));
    }
    out.extend_from_slice(number.to_string().as_bytes());
    Ok(())
}

/// Writes a JSON string.
pub(super) fn write_string(out: &mut Vec<u8>, text: &str) {
    // Strings always serialize, and writing to memory does not fail.
    drop(serde_json::to_writer(out, text));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Value {
        Value::Number(text.parse().unwrap())
    }

    #[test]
    fn values_are_written_as_go_cty_writes_them() {
        let object = Type::object([("a", Type::String), ("b", Type::Tuple(vec![Type::Bool]))]);
        for (value, ty, json) in [
            (Value::Null, Type::String, "null"),
            (true.into(), Type::Bool, "true"),
            (number("0.1"), Type::Number, "0.1"),
            (
                number("123456789012345678901234567890"),
                Type::Number,
                "123456789012345678901234567890",
            ),
            ("a\"b".into(), Type::String, r#""a\"b""#),
            (vec![1u8, 2].into(), Type::set(Type::Number), "[1,2]"),
            (
                Value::object([("k", true)]),
                Type::map(Type::Bool),
                r#"{"k":true}"#,
            ),
            (
                Value::object([("a", Value::Null), ("b", vec![true].into())]),
                object,
                r#"{"a":null,"b":[true]}"#,
            ),
            (
                Value::Dynamic(Box::new(Type::list(Type::Bool)), Box::new(vec![false].into())),
                Type::Dynamic,
                r#"{"value":[false],"type":["list","bool"]}"#,
            ),
        ] {
            assert_eq!(String::from_utf8(encode(&value, &ty).unwrap()).unwrap(), json);
            assert_eq!(decode(json.as_bytes(), &ty, Fit::Exact), Ok(value), "{json}");
        }
    }

    #[test]
    fn what_json_has_no_form_for_is_an_error() {
        assert!(encode(&Value::unknown(), &Type::String).is_err());
        assert!(encode(&Value::Number(Number::INFINITY), &Type::Number).is_err());
    }

    #[test]
    fn numbers_are_taken_from_their_text() {
        for text in [
            "0.10000000000000000000000000001",
            "18446744073709551616",
            "1e1000000",
            "-1.5E-7",
        ] {
            assert_eq!(
                decode(text.as_bytes(), &Type::Number, Fit::Exact),
                Ok(number(text))
            );
        }
    }

    #[test]
    fn primitives_are_taken_from_each_others_text() {
        for (json, ty, value) in [
            (r#""12""#, Type::Number, number("12")),
            (r#""true""#, Type::Bool, true.into()),
            ("12", Type::String, "12".into()),
            ("false", Type::String, "false".into()),
        ] {
            assert_eq!(decode(json.as_bytes(), &ty, Fit::Exact), Ok(value), "{json}");
        }
        for (json, ty) in [
            ("1", Type::Bool),
            ("true", Type::Number),
            (r#""x""#, Type::Number),
            ("[]", Type::String),
        ] {
            assert!(decode(json.as_bytes(), &ty, Fit::Exact).is_err(), "{json}");
        }
    }

    #[test]
    fn only_what_is_stored_may_differ_from_the_type() {
        let ty = Type::object([("a", Type::Bool), ("b", Type::Bool)]);
        let json = br#"{"a":true,"c":{"deep":[[[]]]}}"#;
        let loose = decode(json, &ty, Fit::Loose).unwrap();
        assert_eq!(loose, Value::object([("a", true.into()), ("b", Value::Null)]));
        assert!(decode(json, &ty, Fit::Exact).is_err());
        let error = decode(br#"{"a":true,"b":{}}"#, &ty, Fit::Loose).unwrap_err();
        assert_eq!(error.path().to_string(), "b");
    }

    #[test]
    fn hostile_input_does_not_exhaust_the_stack() {
        let deep = "[".repeat(1_000_000);
        assert!(decode(deep.as_bytes(), &Type::Dynamic, Fit::Loose).is_err());
        let mut dynamic = String::from("null");
        for _ in 0..=MAX_DEPTH {
            dynamic = format!(r#"{{"value":[{dynamic}],"type":["tuple",["dynamic"]]}}"#);
        }
        assert!(decode(dynamic.as_bytes(), &Type::Dynamic, Fit::Loose).is_err());
    }
}

//! Writes values as MessagePack.
//!
//! Must not know who reads them. Invariant: equal values are equal bytes, and what is written is what
//! [`super::decode`] reads.

use rmp::{Marker, encode};

use super::super::{CodecError, type_json};
use super::{MAX_REFINEMENT, REFINED, attribute, index, refinement, wrong_count};
use crate::plugin::diagnostics::Step;
use crate::plugin::types::{MAX_DEPTH, Type};
use crate::plugin::value::{Nullness, Number, Refinements, Value};

/// Longer string prefixes are cut before they are sent, as the hosts do.
const MAX_PREFIX: usize = 256;

/// Appends a value of a type.
pub(super) fn write(out: &mut Vec<u8>, value: &Value, ty: &Type, depth: usize) -> Result<(), CodecError> {
    if depth > MAX_DEPTH {
        return Err(CodecError::new("it nests too deep"));
    }
    match (value, ty) {
        (Value::Null, _) => write_nil(out),
        (Value::Unknown(refinements), _) => write_unknown(out, refinements),
        (Value::Dynamic(own, inner), Type::Dynamic) => {
            put(encode::write_array_len(out, 2));
            put(encode::write_bin(out, &type_json::encode(own)));
            return write(out, inner, own, depth + 1);
        }
        (Value::Bool(bool), Type::Bool) => put(encode::write_bool(out, *bool)),
        (Value::Number(number), Type::Number) => write_number(out, number),
        (Value::String(string), Type::String) => put(encode::write_str(out, string)),
        (Value::List(items), Type::List(element) | Type::Set(element)) => {
            put(encode::write_array_len(out, length(items.len())?));
            for (i, item) in items.iter().enumerate() {
                write(out, item, element, depth + 1).map_err(|e| e.within(index(i)))?;
            }
        }
        (Value::List(items), Type::Tuple(elements)) => {
            if items.len() != elements.len() {
                return Err(wrong_count("elements", elements.len(), items.len()));
            }
            put(encode::write_array_len(out, length(items.len())?));
            for (i, (item, element)) in items.iter().zip(elements).enumerate() {
                write(out, item, element, depth + 1).map_err(|e| e.within(index(i)))?;
            }
        }
        (Value::Map(entries), Type::Map(element)) => {
            put(encode::write_map_len(out, length(entries.len())?));
            for (key, item) in entries {
                put(encode::write_str(out, key));
                write(out, item, element, depth + 1).map_err(|e| e.within(Step::Key(key.clone())))?;
            }
        }
        (Value::Map(entries), Type::Object(attributes, _)) => {
            if let Some(stray) = entries.keys().find(|key| !attributes.contains_key(*key)) {
                return Err(CodecError::new("there is no such attribute").within(attribute(stray)));
            }
            put(encode::write_map_len(out, length(attributes.len())?));
            for (name, ty) in attributes {
                put(encode::write_str(out, name));
                match entries.get(name) {
                    // An object travels with all its attributes; what the provider left out is null.
                    None => write_nil(out),
                    Some(item) => write(out, item, ty, depth + 1).map_err(|e| e.within(attribute(name)))?,
                }
            }
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

/// Writing to memory does not fail.
fn put<T, E>(result: Result<T, E>) {
    drop(result);
}

fn length(length: usize) -> Result<u32, CodecError> {
    u32::try_from(length).map_err(|_| CodecError::new("it has too many elements"))
}

fn write_nil(out: &mut Vec<u8>) {
    out.push(Marker::Null.to_u8());
}

/// A whole number as an integer where it fits; any other as decimal text, which is always exact.
fn write_number(out: &mut Vec<u8>, number: &Number) {
    match number.to_i64() {
        Some(int) => put(encode::write_sint(out, int)),
        None if number.is_infinite() => put(encode::write_f64(out, number.to_f64())),
        None => put(encode::write_str(out, &number.to_string())),
    }
}

fn write_unknown(out: &mut Vec<u8>, refinements: &Refinements) {
    if refinements.is_empty() {
        out.extend_from_slice(&[Marker::FixExt1.to_u8(), 0, 0]);
        return;
    }
    let mut entries = 0;
    let mut body = Vec::new();
    let mut key = |body: &mut Vec<u8>, key: i64| {
        put(encode::write_sint(body, key));
        entries += 1;
    };
    if let Some(nullness) = refinements.nullness() {
        key(&mut body, refinement::NULLNESS);
        put(encode::write_bool(&mut body, nullness == Nullness::Null));
    }
    if let Some(prefix) = refinements.prefix() {
        key(&mut body, refinement::PREFIX);
        put(encode::write_str(
            &mut body,
            &prefix[..prefix.floor_char_boundary(MAX_PREFIX)],
        ));
    }
    for (which, bound) in [
        (refinement::LOWER, refinements.lower()),
        (refinement::UPPER, refinements.upper()),
    ] {
        if let Some(bound) = bound {
            key(&mut body, which);
            put(encode::write_array_len(&mut body, 2));
            write_number(&mut body, &bound.number);
            put(encode::write_bool(&mut body, bound.inclusive));
        }
    }
    let lengths = [
        (refinement::MIN_LENGTH, refinements.min_length()),
        (refinement::MAX_LENGTH, refinements.max_length()),
    ];
    for (which, length) in lengths {
        if let Some(length) = length {
            key(&mut body, which);
            put(encode::write_sint(
                &mut body,
                i64::try_from(length).unwrap_or(i64::MAX),
            ));
        }
    }
    let mut map = Vec::with_capacity(body.len() + 1);
    put(encode::write_map_len(&mut map, entries));
    map.extend_from_slice(&body);
    if map.len() > MAX_REFINEMENT {
        // Hosts refuse more; saying nothing about the value is always true.
        out.extend_from_slice(&[Marker::FixExt1.to_u8(), 0, 0]);
        return;
    }
    put(encode::write_ext_meta(out, map.len() as u32, REFINED));
    out.extend_from_slice(&map);
}

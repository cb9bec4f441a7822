//! Reads values from MessagePack.
//!
//! Must not know who sent them. Invariant: no length is believed before its bytes are there.

use std::collections::BTreeMap;

use rmp::Marker;

use super::super::{CodecError, normalize, type_json};
use super::{MAX_REFINEMENT, REFINED, attribute, index, refinement, wrong_count};
use crate::plugin::diagnostics::Step;
use crate::plugin::types::{MAX_DEPTH, Type};
use crate::plugin::value::{Bound, Nullness, Number, Refinements, Value};

/// Room made in advance for a collection; beyond it, it grows with what really arrives.
const MAX_PREALLOCATED: usize = 64;

/// What is left to read.
pub(super) struct Reader<'a> {
    pub(super) rest: &'a [u8],
}

fn truncated() -> CodecError {
    CodecError::new("it ends too early")
}

fn expected(what: &str, marker: Marker) -> CodecError {
    CodecError::new(format!("{what} was expected, but this is {}", kind(marker)))
}

/// What a marker announces, for error texts.
fn kind(marker: Marker) -> &'static str {
    match marker {
        Marker::Null => "null",
        Marker::True | Marker::False => "a boolean",
        Marker::FixPos(_) | Marker::FixNeg(_) => "a number",
        Marker::U8 | Marker::U16 | Marker::U32 | Marker::U64 => "a number",
        Marker::I8 | Marker::I16 | Marker::I32 | Marker::I64 => "a number",
        Marker::F32 | Marker::F64 => "a number",
        Marker::FixStr(_) | Marker::Str8 | Marker::Str16 | Marker::Str32 => "a string",
        Marker::Bin8 | Marker::Bin16 | Marker::Bin32 => "binary data",
        Marker::FixArray(_) | Marker::Array16 | Marker::Array32 => "a list",
        Marker::FixMap(_) | Marker::Map16 | Marker::Map32 => "a map or an object",
        Marker::FixExt1 | Marker::FixExt2 | Marker::FixExt4 | Marker::FixExt8 | Marker::FixExt16 => {
            "an extension value"
        }
        Marker::Ext8 | Marker::Ext16 | Marker::Ext32 => "an extension value",
        Marker::Reserved => "not valid MessagePack",
    }
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], CodecError> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or_else(truncated)?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], CodecError> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or_else(truncated)?;
        self.rest = rest;
        Ok(*taken)
    }

    fn u8(&mut self) -> Result<usize, CodecError> {
        Ok(usize::from(u8::from_be_bytes(self.array()?)))
    }

    fn u16(&mut self) -> Result<usize, CodecError> {
        Ok(usize::from(u16::from_be_bytes(self.array()?)))
    }

    fn u32(&mut self) -> Result<usize, CodecError> {
        Ok(u32::from_be_bytes(self.array()?) as usize)
    }

    fn marker(&mut self) -> Result<Marker, CodecError> {
        Ok(Marker::from_u8(u8::from_be_bytes(self.array()?)))
    }

    pub(super) fn value(&mut self, ty: &Type, depth: usize) -> Result<Value, CodecError> {
        if depth > MAX_DEPTH {
            return Err(CodecError::new("it nests too deep"));
        }
        let marker = self.marker()?;
        if marker == Marker::Null {
            return Ok(Value::Null);
        }
        if let Some(length) = self.extension_length(marker)? {
            return self.unknown(length);
        }
        match ty {
            Type::Bool => match marker {
                Marker::True => Ok(Value::Bool(true)),
                Marker::False => Ok(Value::Bool(false)),
                other => Err(expected("a boolean", other)),
            },
            Type::Number => self.number(marker).map(Value::Number),
            Type::String => self.string(marker).map(|text| Value::String(normalize(text))),
            Type::List(element) | Type::Set(element) => {
                let length = self.list_length(marker)?;
                let mut items = Vec::with_capacity(length.min(MAX_PREALLOCATED));
                for i in 0..length {
                    items.push(self.value(element, depth + 1).map_err(|e| e.within(index(i)))?);
                }
                Ok(Value::List(items))
            }
            Type::Tuple(elements) => {
                let length = self.list_length(marker)?;
                if length != elements.len() {
                    return Err(wrong_count("elements", elements.len(), length));
                }
                let items = elements
                    .iter()
                    .enumerate()
                    .map(|(i, element)| self.value(element, depth + 1).map_err(|e| e.within(index(i))));
                items.collect::<Result<_, _>>().map(Value::List)
            }
            Type::Map(element) => {
                let length = self.map_length(marker)?;
                let mut entries = Vec::with_capacity(length.min(MAX_PREALLOCATED));
                for _ in 0..length {
                    let key = self.key()?;
                    match self.value(element, depth + 1) {
                        Ok(value) => entries.push((normalize(key), value)),
                        Err(error) => return Err(error.within(Step::Key(key.to_owned()))),
                    }
                }
                collect_entries(entries, length)
            }
            Type::Object(attributes, _) => {
                let length = self.map_length(marker)?;
                if length != attributes.len() {
                    return Err(wrong_count("attributes", attributes.len(), length));
                }
                let mut entries = Vec::with_capacity(length);
                for _ in 0..length {
                    let key = self.key()?;
                    // The schema's own names are in normal form C already: they are ASCII.
                    let (name, ty) = attributes.get_key_value(key).ok_or_else(|| {
                        CodecError::new("there is no such attribute").within(attribute(key))
                    })?;
                    let value = self.value(ty, depth + 1).map_err(|e| e.within(attribute(key)))?;
                    entries.push((name.clone(), value));
                }
                collect_entries(entries, length)
            }
            Type::Dynamic => {
                if self.list_length(marker)? != 2 {
                    return Err(CodecError::new("a value of any type must be a type and a value"));
                }
                let marker = self.marker()?;
                let ty = match marker {
                    Marker::Bin8 | Marker::Bin16 | Marker::Bin32 => self.binary(marker)?,
                    other => self.string(other)?.as_bytes(),
                };
                let ty = type_json::decode(ty)?;
                let value = self.value(&ty, depth + 1)?;
                // Null and unknown keep the type too: to the hosts, nulls of two types differ.
                Ok(if ty == Type::Dynamic {
                    value
                } else {
                    Value::Dynamic(Box::new(ty), Box::new(value))
                })
            }
        }
    }

    /// The length of an extension's body, where the marker announces an extension.
    fn extension_length(&mut self, marker: Marker) -> Result<Option<usize>, CodecError> {
        Ok(Some(match marker {
            Marker::FixExt1 => 1,
            Marker::FixExt2 => 2,
            Marker::FixExt4 => 4,
            Marker::FixExt8 => 8,
            Marker::FixExt16 => 16,
            Marker::Ext8 => self.u8()?,
            Marker::Ext16 => self.u16()?,
            Marker::Ext32 => self.u32()?,
            _ => return Ok(None),
        }))
    }

    fn unknown(&mut self, length: usize) -> Result<Value, CodecError> {
        let code = i8::from_be_bytes(self.array()?);
        let body = self.take(length)?;
        if length <= 1 {
            return Ok(Value::unknown());
        }
        if code != REFINED {
            return Err(CodecError::new(
                "it is of an extension type that Terraform does not have",
            ));
        }
        if length > MAX_REFINEMENT {
            return Err(CodecError::new("too much is said about an unknown value"));
        }
        let mut reader = Reader { rest: body };
        reader.refinements().map(Value::Unknown)
    }

    fn refinements(&mut self) -> Result<Refinements, CodecError> {
        let marker = self.marker()?;
        let mut refinements = Refinements::default();
        for _ in 0..self.map_length(marker)? {
            let key = self.integer()?;
            refinements = match key {
                refinement::NULLNESS => match self.marker()? {
                    Marker::True => refinements.with_nullness(Nullness::Null),
                    Marker::False => refinements.with_nullness(Nullness::NotNull),
                    other => return Err(expected("a boolean", other)),
                },
                refinement::PREFIX => {
                    let marker = self.marker()?;
                    refinements.with_prefix(normalize(self.string(marker)?))
                }
                refinement::LOWER => refinements.with_lower(self.bound()?),
                refinement::UPPER => refinements.with_upper(self.bound()?),
                refinement::MIN_LENGTH => refinements.with_min_length(self.integer()?.max(0) as u64),
                refinement::MAX_LENGTH => refinements.with_max_length(self.integer()?.max(0) as u64),
                _ => {
                    self.skip()?;
                    refinements
                }
            };
        }
        Ok(refinements)
    }

    fn bound(&mut self) -> Result<Bound, CodecError> {
        let marker = self.marker()?;
        if self.list_length(marker)? != 2 {
            return Err(CodecError::new("a bound must be a number and a boolean"));
        }
        let marker = self.marker()?;
        let number = self.number(marker)?;
        match self.marker()? {
            Marker::True => Ok(Bound {
                number,
                inclusive: true,
            }),
            Marker::False => Ok(Bound {
                number,
                inclusive: false,
            }),
            other => Err(expected("a boolean", other)),
        }
    }

    fn integer(&mut self) -> Result<i64, CodecError> {
        let marker = self.marker()?;
        let number = self.number(marker)?;
        number
            .to_i64()
            .ok_or_else(|| CodecError::new("a whole number was expected"))
    }

    /// Passes over one value of whatever kind: what is known of an unknown value grows with new hosts.
    fn skip(&mut self) -> Result<(), CodecError> {
        // Counted, not recursive: the nesting of what is skipped is not bounded by any type.
        let mut pending = 1usize;
        while pending > 0 {
            pending -= 1;
            let marker = self.marker()?;
            if let Some(length) = self.extension_length(marker)? {
                self.take(length.saturating_add(1))?;
                continue;
            }
            match marker {
                Marker::FixArray(_) | Marker::Array16 | Marker::Array32 => {
                    pending = pending.saturating_add(self.list_length(marker)?);
                }
                Marker::FixMap(_) | Marker::Map16 | Marker::Map32 => {
                    pending = pending.saturating_add(self.map_length(marker)?.saturating_mul(2));
                }
                Marker::FixStr(_) | Marker::Str8 | Marker::Str16 | Marker::Str32 => {
                    self.string(marker)?;
                }
                Marker::Bin8 | Marker::Bin16 | Marker::Bin32 => {
                    self.binary(marker)?;
                }
                Marker::Null | Marker::True | Marker::False => {}
                other => drop(self.number(other)?),
            }
        }
        Ok(())
    }

    fn number(&mut self, marker: Marker) -> Result<Number, CodecError> {
        let unsigned = |number: usize| Ok(Number::from(number));
        match marker {
            Marker::FixPos(number) => Ok(Number::from(number)),
            Marker::FixNeg(number) => Ok(Number::from(number)),
            Marker::U8 => unsigned(self.u8()?),
            Marker::U16 => unsigned(self.u16()?),
            Marker::U32 => unsigned(self.u32()?),
            Marker::U64 => Ok(Number::from(u64::from_be_bytes(self.array()?))),
            Marker::I8 => Ok(Number::from(i8::from_be_bytes(self.array()?))),
            Marker::I16 => Ok(Number::from(i16::from_be_bytes(self.array()?))),
            Marker::I32 => Ok(Number::from(i32::from_be_bytes(self.array()?))),
            Marker::I64 => Ok(Number::from(i64::from_be_bytes(self.array()?))),
            Marker::F32 => float(f64::from(f32::from_be_bytes(self.array()?))),
            Marker::F64 => float(f64::from_be_bytes(self.array()?)),
            Marker::FixStr(_) | Marker::Str8 | Marker::Str16 | Marker::Str32 => self
                .string(marker)?
                .parse()
                .map_err(|e| CodecError::new(format!("it is {e}"))),
            other => Err(expected("a number", other)),
        }
    }

    fn string(&mut self, marker: Marker) -> Result<&'a str, CodecError> {
        let length = match marker {
            Marker::FixStr(length) => usize::from(length),
            Marker::Str8 => self.u8()?,
            Marker::Str16 => self.u16()?,
            Marker::Str32 => self.u32()?,
            other => return Err(expected("a string", other)),
        };
        std::str::from_utf8(self.take(length)?).map_err(|_| CodecError::new("it is not valid UTF-8"))
    }

    fn binary(&mut self, marker: Marker) -> Result<&'a [u8], CodecError> {
        let length = match marker {
            Marker::Bin8 => self.u8()?,
            Marker::Bin16 => self.u16()?,
            Marker::Bin32 => self.u32()?,
            other => return Err(expected("binary data", other)),
        };
        self.take(length)
    }

    fn key(&mut self) -> Result<&'a str, CodecError> {
        let marker = self.marker()?;
        self.string(marker)
    }

    fn list_length(&mut self, marker: Marker) -> Result<usize, CodecError> {
        match marker {
            Marker::FixArray(length) => Ok(usize::from(length)),
            Marker::Array16 => self.u16(),
            Marker::Array32 => self.u32(),
            other => Err(expected("a list", other)),
        }
    }

    fn map_length(&mut self, marker: Marker) -> Result<usize, CodecError> {
        match marker {
            Marker::FixMap(length) => Ok(usize::from(length)),
            Marker::Map16 => self.u16(),
            Marker::Map32 => self.u32(),
            other => Err(expected("a map or an object", other)),
        }
    }
}

fn float(float: f64) -> Result<Number, CodecError> {
    Number::from_f64(float).ok_or_else(|| CodecError::new("it is not a number"))
}

/// A map out of its entries, which arrive sorted, so that building it costs no comparison twice.
fn collect_entries(entries: Vec<(String, Value)>, length: usize) -> Result<Value, CodecError> {
    let map: BTreeMap<_, _> = entries.into_iter().collect();
    if map.len() == length {
        Ok(Value::Map(map))
    } else {
        Err(CodecError::new("a key occurs twice"))
    }
}

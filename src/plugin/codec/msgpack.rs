//! Values as MessagePack, the way go-cty writes them, directed by a type.
//!
//! Must not know schemas or blocks. Invariants: numbers stay exact; reading allocates in proportion
//! to the input and recurses no deeper than [`MAX_DEPTH`](crate::plugin::types::MAX_DEPTH).

mod reader;
mod writer;

use super::CodecError;
use crate::plugin::diagnostics::Step;
use crate::plugin::types::Type;
use crate::plugin::value::Value;

use reader::Reader;
use writer::write;

/// The extension code of an unknown value that carries refinements.
const REFINED: i8 = 12;
/// Longer refinements are refused, as the hosts do.
const MAX_REFINEMENT: usize = 1024;

mod refinement {
    pub(super) const NULLNESS: i64 = 1;
    pub(super) const PREFIX: i64 = 2;
    pub(super) const LOWER: i64 = 3;
    pub(super) const UPPER: i64 = 4;
    pub(super) const MIN_LENGTH: i64 = 5;
    pub(super) const MAX_LENGTH: i64 = 6;
}

/// Reads a value of a type; the input must hold it and nothing else.
pub(crate) fn decode(bytes: &[u8], ty: &Type) -> Result<Value, CodecError> {
    let mut reader = Reader { rest: bytes };
    let value = reader.value(ty, 0)?;
    if reader.rest.is_empty() {
        Ok(value)
    } else {
        Err(CodecError::new("there is more after its end"))
    }
}

/// Writes a value of a type.
pub(crate) fn encode(value: &Value, ty: &Type) -> Result<Vec<u8>, CodecError> {
    let mut out = Vec::with_capacity(256);
    write(&mut out, value, ty, 0)?;
    Ok(out)
}

fn index(i: usize) -> Step {
    Step::Index(i as i64)
}

fn attribute(name: &str) -> Step {
    Step::Attribute(name.to_owned())
}

fn wrong_count(what: &str, wanted: usize, given: usize) -> CodecError {
    CodecError::new(format!("{wanted} {what} were expected, but there are {given}"))
}

#[cfg(test)]
mod tests;

//! Between [`Value`]s and the bytes they travel as: MessagePack and JSON.
//!
//! Must not know gRPC messages. Invariant: bytes come from outside, so no input may panic, nest
//! without bound, or allocate much more than its own length; and no error text holds a value, only
//! its place and its kind, because values may be secrets.

pub(crate) mod json;
pub(crate) mod layout;
pub(crate) mod msgpack;
pub(crate) mod type_json;

use std::borrow::Cow;

use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfc_quick};

use crate::plugin::diagnostics::{Diagnostic, Path, Step};
use crate::plugin::types::Type;
use crate::plugin::value::Value;

/// Why a value could not be read or written, and where in it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CodecError {
    /// From the innermost step out: steps are added while the error travels up.
    reversed: Vec<Step>,
    problem: Cow<'static, str>,
}

impl CodecError {
    pub(crate) fn new(problem: impl Into<Cow<'static, str>>) -> Self {
        Self {
            reversed: Vec::new(),
            problem: problem.into(),
        }
    }

    /// The same error, seen from one level further out.
    pub(crate) fn within(mut self, step: Step) -> Self {
        self.reversed.push(step);
        self
    }

    pub(crate) fn path(&self) -> Path {
        Path(self.reversed.iter().rev().cloned().collect())
    }

    /// The error as the user sees it, where the host's value was at fault.
    pub(crate) fn received(self, what: &str) -> Diagnostic {
        let place = self.place();
        Diagnostic::error(format!("{what} does not fit the provider's schema"))
            .detail(format!(
                "{place}{}. Either it was written under another version of the provider, or this is a bug.",
                self.problem
            ))
            .at(self.path())
    }

    /// The error as the user sees it, where the provider's own value was at fault.
    pub(crate) fn returned(self, what: &str) -> Diagnostic {
        let place = self.place();
        Diagnostic::error(format!(
            "The provider gave {what} that does not fit its own schema"
        ))
        .detail(format!(
            "{place}{}. This is a bug in the provider: please report it.",
            self.problem
        ))
        .at(self.path())
    }

    fn place(&self) -> String {
        let path = self.path();
        if path.is_root() {
            String::new()
        } else {
            format!("At {path}: ")
        }
    }
}

impl Value {
    /// Reads a value of a type from MessagePack, the form in which values travel.
    ///
    /// # Errors
    /// What does not fit the type, with its place.
    pub fn from_msgpack(bytes: &[u8], ty: &Type) -> Result<Self, Diagnostic> {
        msgpack::decode(bytes, ty).map_err(|error| error.received("The value"))
    }

    /// Writes the value of a type as MessagePack.
    ///
    /// # Errors
    /// What does not fit the type, with its place.
    pub fn to_msgpack(&self, ty: &Type) -> Result<Vec<u8>, Diagnostic> {
        msgpack::encode(self, ty).map_err(|error| error.returned("a value"))
    }

    /// Reads a value of a type from JSON, the form of stored states. Numbers stay exact.
    ///
    /// # Errors
    /// What does not fit the type, with its place.
    pub fn from_json(bytes: &[u8], ty: &Type) -> Result<Self, Diagnostic> {
        json::decode(bytes, ty, json::Fit::Exact).map_err(|error| error.received("The value"))
    }

    /// Writes the value of a type as JSON, which has no form for unknowns and infinities.
    ///
    /// # Errors
    /// What does not fit the type or has no form in JSON, with its place.
    pub fn to_json(&self, ty: &Type) -> Result<Vec<u8>, Diagnostic> {
        json::encode(self, ty).map_err(|error| error.returned("a value"))
    }
}

impl Type {
    /// Reads a type from its JSON form, as in `["list","string"]`.
    ///
    /// # Errors
    /// Why it is no type.
    pub fn from_json(bytes: &[u8]) -> Result<Self, Diagnostic> {
        type_json::decode(bytes).map_err(|error| error.received("The type"))
    }

    /// The JSON form of the type.
    pub fn to_json(&self) -> Vec<u8> {
        type_json::encode(self)
    }
}

/// The string in Unicode normal form C, in which the hosts compare strings.
pub(crate) fn normalize(text: &str) -> String {
    if text.is_ascii() || is_nfc_quick(text.chars()) == IsNormalized::Yes {
        text.to_owned()
    } else {
        text.nfc().collect()
    }
}

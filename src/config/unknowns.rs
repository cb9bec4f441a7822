//! What tells a value that is not known yet from one that is missing.
//!
//! Must not know schemas. Invariant: whoever finds a value missing where [`Unknowns::any`] holds has found
//! no mistake.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use super::{Field, Reader};
use crate::contract::Secret;

/// Reads values, and notes whether one of them is not known yet, or could not be read: what is missing
/// then is no mistake of its own.
#[derive(Debug, Default)]
pub struct Unknowns(bool);

impl Unknowns {
    /// Whether there was such a value.
    #[must_use]
    pub fn any(&self) -> bool {
        self.0
    }

    /// The value, where it is known.
    pub fn known<T>(&mut self, field: Field<T>) -> Option<T> {
        self.0 |= field.is_unknown();
        field.into_known()
    }

    /// The same, of a value that is never shown.
    pub fn secret(&mut self, field: Field<String>) -> Option<Secret> {
        self.known(field).map(Secret::new)
    }

    /// A whole number of that argument.
    pub fn whole(&mut self, block: &mut Reader<'_>, name: &str, range: RangeInclusive<i64>) -> Option<u64> {
        let number = block.whole(name, range);
        self.0 |= number.is_null() && block.is_given(name);
        self.known(number).and_then(|number| u64::try_from(number).ok())
    }

    /// The argument `port`.
    pub fn port(&mut self, block: &mut Reader<'_>) -> Option<u16> {
        let port = self.whole(block, "port", 1..=i64::from(u16::MAX));
        port.and_then(|port| u16::try_from(port).ok())
    }

    /// A path of that argument.
    pub fn file(&mut self, block: &mut Reader<'_>, name: &str) -> Option<PathBuf> {
        let file = block.file(name);
        self.0 |= file.is_null() && block.is_given(name);
        self.known(file)
    }
}

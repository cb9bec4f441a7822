//! A value that may be null or not known yet.
//!
//! Must not know schemas. Invariant: what core's type check let through is read without loss; what
//! it could not let through reads as null.

use crate::plugin::value::Value;

/// A value of the configuration or the state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Field<T> {
    /// Not given.
    #[default]
    Null,
    /// Given, but not known yet.
    Unknown,
    /// Given.
    Known(T),
}

impl<T> Field<T> {
    /// Whether it is not given.
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// Whether it is given but not known yet.
    pub fn is_unknown(&self) -> bool {
        matches!(self, Self::Unknown)
    }

    /// The value, where it is known.
    pub fn known(&self) -> Option<&T> {
        match self {
            Self::Known(value) => Some(value),
            Self::Null | Self::Unknown => None,
        }
    }

    /// The value itself, where it is known.
    pub fn into_known(self) -> Option<T> {
        match self {
            Self::Known(value) => Some(value),
            Self::Null | Self::Unknown => None,
        }
    }

    /// The same in another type.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Field<U> {
        match self {
            Self::Null => Field::Null,
            Self::Unknown => Field::Unknown,
            Self::Known(value) => Field::Known(change(value)),
        }
    }

    /// A look at it.
    pub fn as_ref(&self) -> Field<&T> {
        match self {
            Self::Null => Field::Null,
            Self::Unknown => Field::Unknown,
            Self::Known(value) => Field::Known(value),
        }
    }
}

impl<T> From<Option<T>> for Field<T> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Self::Known)
    }
}

impl Field<String> {
    /// A string.
    pub fn string(value: &Value) -> Self {
        if value.is_unknown() {
            return Self::Unknown;
        }
        value.as_str().map(str::to_owned).into()
    }
}

impl Field<bool> {
    /// A boolean.
    pub fn bool(value: &Value) -> Self {
        if value.is_unknown() {
            return Self::Unknown;
        }
        value.as_bool().into()
    }
}

//! Values as Terraform has them: null, unknown (with what is known of it), exact numbers, collections.
//!
//! Must not know how values travel (the codecs do) or which schema they belong to (types travel
//! beside them). Invariant: a [`Value`] read through a type or schema conforms to it, so an object
//! holds exactly the attributes of its type, nulls included.

mod number;

use std::collections::BTreeMap;

use crate::plugin::types::Type;

pub use number::{Number, ParseNumberError};

/// One Terraform value. Lists, sets and tuples are [`Value::List`]; maps, objects and blocks are
/// [`Value::Map`]: which it is, the type says that always travels beside it.
///
/// `Debug` shows everything, sensitive or not: this type cannot know what is a secret, so whole
/// values belong in no log and no error.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Value {
    /// Null, of whatever type.
    #[default]
    Null,
    /// Not known yet; the refinements say what is known of it all the same.
    Unknown(Refinements),
    /// A boolean.
    Bool(bool),
    /// A number.
    Number(Number),
    /// A string in Unicode normal form C.
    String(String),
    /// A list, set or tuple. The order of a set means nothing: compare sets with [`Value::same_set`].
    List(Vec<Value>),
    /// A map, object or block.
    Map(BTreeMap<String, Value>),
    /// A value where the schema says `dynamic`, with the type that it came with. Null and unknown
    /// values may have one too.
    Dynamic(Box<Type>, Box<Value>),
}

const NULL: &Value = &Value::Null;

impl Value {
    /// An unknown value of which nothing is known.
    pub fn unknown() -> Self {
        Self::Unknown(Refinements::default())
    }

    /// An object or map of the given entries.
    pub fn object<K: Into<String>, V: Into<Value>>(entries: impl IntoIterator<Item = (K, V)>) -> Self {
        Self::Map(
            entries
                .into_iter()
                .map(|(key, value)| (key.into(), value.into()))
                .collect(),
        )
    }

    /// Whether this is null.
    pub fn is_null(&self) -> bool {
        matches!(self.concrete(), Self::Null)
    }

    /// Whether this itself is unknown. A known list may still hold unknowns: see [`Value::is_wholly_known`].
    pub fn is_unknown(&self) -> bool {
        matches!(self.concrete(), Self::Unknown(_))
    }

    /// Whether nothing in this value is unknown.
    pub fn is_wholly_known(&self) -> bool {
        match self {
            Self::Unknown(_) => false,
            Self::Null | Self::Bool(_) | Self::Number(_) | Self::String(_) => true,
            Self::List(items) => items.iter().all(Self::is_wholly_known),
            Self::Map(entries) => entries.values().all(Self::is_wholly_known),
            Self::Dynamic(_, inner) => inner.is_wholly_known(),
        }
    }

    /// The entry of a map, object or block; null where there is none, or where this is no map.
    pub fn get(&self, key: &str) -> &Value {
        self.as_map().and_then(|entries| entries.get(key)).unwrap_or(NULL)
    }

    /// Sets an entry of a map, object or block. A value that is no map becomes one with this entry only.
    pub fn set(&mut self, key: impl Into<String>, value: impl Into<Value>) {
        if !matches!(self, Self::Map(_)) {
            *self = Self::Map(BTreeMap::new());
        }
        if let Self::Map(entries) = self {
            entries.insert(key.into(), value.into());
        }
    }

    /// The boolean, if it is one.
    pub fn as_bool(&self) -> Option<bool> {
        match self.concrete() {
            Self::Bool(bool) => Some(*bool),
            _ => None,
        }
    }

    /// The number, if it is one.
    pub fn as_number(&self) -> Option<&Number> {
        match self.concrete() {
            Self::Number(number) => Some(number),
            _ => None,
        }
    }

    /// The number as an `i64`, if it is a whole one in range.
    pub fn as_i64(&self) -> Option<i64> {
        self.as_number().and_then(Number::to_i64)
    }

    /// The string, if it is one.
    pub fn as_str(&self) -> Option<&str> {
        match self.concrete() {
            Self::String(string) => Some(string),
            _ => None,
        }
    }

    /// The items of a list, set or tuple; none where this is something else (null and unknown included).
    pub fn as_list(&self) -> &[Value] {
        match self.concrete() {
            Self::List(items) => items,
            _ => &[],
        }
    }

    /// The entries of a map, object or block.
    pub fn as_map(&self) -> Option<&BTreeMap<String, Value>> {
        match self.concrete() {
            Self::Map(entries) => Some(entries),
            _ => None,
        }
    }

    /// The entries of a map, object or block, to change them.
    pub fn as_map_mut(&mut self) -> Option<&mut BTreeMap<String, Value>> {
        match self {
            Self::Map(entries) => Some(entries),
            Self::Dynamic(_, inner) => inner.as_map_mut(),
            _ => None,
        }
    }

    /// Whether two sets hold the same elements, in whatever order.
    pub fn same_set(a: &[Value], b: &[Value]) -> bool {
        a.len() == b.len() && a.iter().all(|item| b.contains(item)) && b.iter().all(|item| a.contains(item))
    }

    /// The value with every unknown in it made null: what a state returned beside an error must hold.
    #[must_use]
    pub fn unknowns_to_null(self) -> Self {
        match self {
            Self::Unknown(_) => Self::Null,
            Self::List(items) => Self::List(items.into_iter().map(Self::unknowns_to_null).collect()),
            Self::Map(entries) => Self::Map(
                entries
                    .into_iter()
                    .map(|(key, value)| (key, value.unknowns_to_null()))
                    .collect(),
            ),
            Self::Dynamic(ty, inner) => Self::Dynamic(ty, Box::new(inner.unknowns_to_null())),
            known @ (Self::Null | Self::Bool(_) | Self::Number(_) | Self::String(_)) => known,
        }
    }

    /// What kind of value this is, for error texts. Never the value itself, which may be a secret.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Unknown(_) => "an unknown value",
            Self::Bool(_) => "a boolean",
            Self::Number(_) => "a number",
            Self::String(_) => "a string",
            Self::List(_) => "a list",
            Self::Map(_) => "a map or an object",
            Self::Dynamic(_, inner) => inner.kind(),
        }
    }

    /// The value inside `Dynamic`, or this one.
    fn concrete(&self) -> &Self {
        match self {
            Self::Dynamic(_, inner) => inner.concrete(),
            other => other,
        }
    }
}

/// What is known of an unknown value. The default is nothing.
///
/// What a plan promises about an unknown value, the apply must keep.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Refinements(Option<Box<Facts>>);

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Facts {
    nullness: Option<Nullness>,
    prefix: Option<String>,
    lower: Option<Bound>,
    upper: Option<Bound>,
    min_length: Option<u64>,
    max_length: Option<u64>,
}

/// Whether an unknown value can be null.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Nullness {
    /// It will be null.
    Null,
    /// It will not be null.
    NotNull,
}

/// One end of the range of an unknown number.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Bound {
    /// Where the range ends.
    pub number: Number,
    /// Whether the number itself is in the range.
    pub inclusive: bool,
}

impl Refinements {
    fn with(mut self, change: impl FnOnce(&mut Facts)) -> Self {
        change(self.0.get_or_insert_default());
        self
    }

    fn facts(&self) -> Option<&Facts> {
        self.0.as_deref()
    }

    /// Whether nothing at all is known.
    pub fn is_empty(&self) -> bool {
        self.facts().is_none_or(|facts| *facts == Facts::default())
    }

    /// With the promise about null.
    #[must_use]
    pub fn with_nullness(self, nullness: Nullness) -> Self {
        self.with(|facts| facts.nullness = Some(nullness))
    }

    /// With the promise that it will not be null.
    #[must_use]
    pub fn not_null(self) -> Self {
        self.with_nullness(Nullness::NotNull)
    }

    /// With the promise that the string will start like this.
    #[must_use]
    pub fn with_prefix(self, prefix: impl Into<String>) -> Self {
        self.with(|facts| facts.prefix = Some(prefix.into()))
    }

    /// With a lower bound of the number.
    #[must_use]
    pub fn with_lower(self, bound: Bound) -> Self {
        self.with(|facts| facts.lower = Some(bound))
    }

    /// With an upper bound of the number.
    #[must_use]
    pub fn with_upper(self, bound: Bound) -> Self {
        self.with(|facts| facts.upper = Some(bound))
    }

    /// With a least length of the collection.
    #[must_use]
    pub fn with_min_length(self, length: u64) -> Self {
        self.with(|facts| facts.min_length = Some(length))
    }

    /// With a greatest length of the collection.
    #[must_use]
    pub fn with_max_length(self, length: u64) -> Self {
        self.with(|facts| facts.max_length = Some(length))
    }

    /// What is known about null.
    pub fn nullness(&self) -> Option<Nullness> {
        self.facts().and_then(|facts| facts.nullness)
    }

    /// How the string will start.
    pub fn prefix(&self) -> Option<&str> {
        self.facts().and_then(|facts| facts.prefix.as_deref())
    }

    /// The lower bound of the number.
    pub fn lower(&self) -> Option<&Bound> {
        self.facts().and_then(|facts| facts.lower.as_ref())
    }

    /// The upper bound of the number.
    pub fn upper(&self) -> Option<&Bound> {
        self.facts().and_then(|facts| facts.upper.as_ref())
    }

    /// The least length of the collection.
    pub fn min_length(&self) -> Option<u64> {
        self.facts().and_then(|facts| facts.min_length)
    }

    /// The greatest length of the collection.
    pub fn max_length(&self) -> Option<u64> {
        self.facts().and_then(|facts| facts.max_length)
    }
}

impl From<Refinements> for Value {
    fn from(refinements: Refinements) -> Self {
        Self::Unknown(refinements)
    }
}

impl From<&str> for Value {
    fn from(string: &str) -> Self {
        Self::String(string.to_owned())
    }
}

impl From<String> for Value {
    fn from(string: String) -> Self {
        Self::String(string)
    }
}

impl From<bool> for Value {
    fn from(bool: bool) -> Self {
        Self::Bool(bool)
    }
}

impl From<Number> for Value {
    fn from(number: Number) -> Self {
        Self::Number(number)
    }
}

macro_rules! from_integer {
    ($($integer:ty),*) => {$(
        impl From<$integer> for Value {
            fn from(integer: $integer) -> Self {
                Self::Number(Number::from(integer))
            }
        }
    )*};
}
from_integer!(i64, i32, u64, u32, u16, u8, usize);

impl<V: Into<Value>> From<Vec<V>> for Value {
    fn from(items: Vec<V>) -> Self {
        Self::List(items.into_iter().map(Into::into).collect())
    }
}

impl<V: Into<Value>> From<BTreeMap<String, V>> for Value {
    fn from(entries: BTreeMap<String, V>) -> Self {
        Self::object(entries)
    }
}

impl<V: Into<Value>> From<Option<V>> for Value {
    /// `None` is null.
    fn from(option: Option<V>) -> Self {
        option.map_or(Self::Null, Into::into)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looking_into_a_value_never_fails() {
        let value = Value::object([("a", Value::from("x")), ("list", vec![1i64, 2].into())]);
        assert_eq!(value.get("a").as_str(), Some("x"));
        assert_eq!(value.get("list").as_list().len(), 2);
        assert!(value.get("absent").is_null());
        assert!(Value::Null.get("a").is_null());
        assert!(value.get("a").get("deeper").as_list().is_empty());
        let dynamic = Value::Dynamic(Box::new(Type::String), Box::new("y".into()));
        assert_eq!(dynamic.as_str(), Some("y"));
    }

    #[test]
    fn one_unknown_inside_makes_the_whole_not_known() {
        let known = Value::object([("a", vec![Value::Null, true.into()])]);
        assert!(known.is_wholly_known());
        let value = Value::object([("a", vec![Value::unknown()])]);
        assert!(!value.is_wholly_known() && !value.is_unknown());
        assert_eq!(
            value.unknowns_to_null(),
            Value::object([("a", vec![Value::Null])])
        );
    }

    #[test]
    fn a_set_is_compared_without_its_order() {
        let [a, b, c] = [Value::from("a"), Value::from("b"), Value::from("c")];
        assert!(Value::same_set(&[a.clone(), b.clone()], &[b.clone(), a.clone()]));
        assert!(!Value::same_set(&[a.clone(), b], &[a, c]));
    }

    #[test]
    fn refinements_hold_what_was_promised() {
        let refined = Refinements::default().not_null().with_prefix("proj-");
        assert!(!refined.is_empty() && Refinements::default().is_empty());
        assert_eq!(refined.nullness(), Some(Nullness::NotNull));
        assert_eq!(refined.prefix(), Some("proj-"));
        assert_eq!(refined.lower(), None);
    }

    #[test]
    fn a_value_stays_small() {
        assert!(size_of::<Value>() <= 32, "{}", size_of::<Value>());
    }
}

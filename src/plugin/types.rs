//! Terraform's types, and their JSON form that schemas and dynamic values carry.
//!
//! Must not know values or schemas. Invariant: a type read from outside nests no deeper than
//! [`MAX_DEPTH`], so that nothing that follows a type can run out of stack.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// How deep types may nest.
pub const MAX_DEPTH: usize = 100;

/// A Terraform type.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Type {
    /// `bool`
    Bool,
    /// `number`
    Number,
    /// `string`
    String,
    /// `any`: the value brings its type along.
    Dynamic,
    /// `list(T)`
    List(Box<Type>),
    /// `set(T)`
    Set(Box<Type>),
    /// `map(T)`
    Map(Box<Type>),
    /// `tuple([T, …])`
    Tuple(Vec<Type>),
    /// `object({…})`: the attributes, and the names of those that may be left out.
    Object(BTreeMap<String, Type>, BTreeSet<String>),
}

impl Type {
    /// `list(element)`
    pub fn list(element: Type) -> Self {
        Self::List(Box::new(element))
    }

    /// `set(element)`
    pub fn set(element: Type) -> Self {
        Self::Set(Box::new(element))
    }

    /// `map(element)`
    pub fn map(element: Type) -> Self {
        Self::Map(Box::new(element))
    }

    /// `object({…})` without optional attributes.
    pub fn object<K: Into<String>>(attributes: impl IntoIterator<Item = (K, Type)>) -> Self {
        let attributes = attributes
            .into_iter()
            .map(|(name, ty)| (name.into(), ty))
            .collect();
        Self::Object(attributes, BTreeSet::new())
    }

    /// Whether `dynamic` occurs anywhere in the type.
    pub fn has_dynamic(&self) -> bool {
        match self {
            Self::Dynamic => true,
            Self::Bool | Self::Number | Self::String => false,
            Self::List(element) | Self::Set(element) | Self::Map(element) => element.has_dynamic(),
            Self::Tuple(elements) => elements.iter().any(Self::has_dynamic),
            Self::Object(attributes, _) => attributes.values().any(Self::has_dynamic),
        }
    }
}

impl fmt::Display for Type {
    /// The type as Terraform's configuration language writes it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool => f.write_str("bool"),
            Self::Number => f.write_str("number"),
            Self::String => f.write_str("string"),
            Self::Dynamic => f.write_str("any"),
            Self::List(element) => write!(f, "list({element})"),
            Self::Set(element) => write!(f, "set({element})"),
            Self::Map(element) => write!(f, "map({element})"),
            Self::Tuple(elements) => {
                f.write_str("tuple([")?;
                for (i, element) in elements.iter().enumerate() {
                    write!(f, "{}{element}", if i == 0 { "" } else { ", " })?;
                }
                f.write_str("])")
            }
            Self::Object(attributes, optional) => {
                f.write_str("object({")?;
                for (i, (name, ty)) in attributes.iter().enumerate() {
                    f.write_str(if i == 0 { "" } else { ", " })?;
                    if optional.contains(name) {
                        write!(f, "{name} = optional({ty})")?;
                    } else {
                        write!(f, "{name} = {ty}")?;
                    }
                }
                f.write_str("})")
            }
        }
    }
}

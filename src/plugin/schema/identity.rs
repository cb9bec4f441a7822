//! Identity schemas: what tells one object of a resource type from every other.
//!
//! Must not know the wire. Invariant: an attribute is either required for an import or optional.

use crate::plugin::types::Type;

/// What tells one object of a resource from all others, independent of any state
/// (Terraform and OpenTofu 1.12+).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IdentitySchema {
    /// Increased when identities of the older schema need an upgrade.
    pub version: i64,
    /// Its attributes.
    pub attributes: Vec<IdentityAttribute>,
}

impl IdentitySchema {
    /// An identity of version 0.
    pub fn new(attributes: impl IntoIterator<Item = IdentityAttribute>) -> Self {
        Self {
            version: 0,
            attributes: attributes.into_iter().collect(),
        }
    }

    /// The type of the identity's value.
    pub fn ty(&self) -> Type {
        Type::object(
            self.attributes
                .iter()
                .map(|attribute| (attribute.name.clone(), attribute.ty.clone())),
        )
    }
}

/// One attribute of an identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdentityAttribute {
    /// Its name.
    pub name: String,
    /// Its type: a primitive or a list of one. Terraform takes no maps, sets or objects here.
    pub ty: Type,
    /// Whether an import by identity must give it; otherwise it may.
    pub required_for_import: bool,
    /// What it is, in plain words.
    pub description: String,
}

impl IdentityAttribute {
    /// An attribute that an import by identity must give.
    pub fn required(name: impl Into<String>, ty: Type, description: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            ty,
            required_for_import: true,
            description: description.into(),
        }
    }

    /// An attribute that an import by identity may leave out.
    pub fn optional(name: impl Into<String>, ty: Type, description: impl Into<String>) -> Self {
        Self {
            required_for_import: false,
            ..Self::required(name, ty, description)
        }
    }
}

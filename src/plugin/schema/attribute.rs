//! Attributes: what one holds, who sets it, and how objects nest in it.
//!
//! Must not know blocks. Invariant: an attribute has a type or nested attributes, never both.

use crate::plugin::types::Type;

/// Who sets an attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Presence {
    /// The configuration must.
    Required,
    /// The configuration may.
    Optional,
    /// The provider does.
    Computed,
    /// The configuration may, else the provider does.
    OptionalComputed,
}

impl Presence {
    /// Whether the provider may set it.
    pub fn is_computed(self) -> bool {
        matches!(self, Self::Computed | Self::OptionalComputed)
    }

    /// Whether the configuration may set it.
    pub fn is_configurable(self) -> bool {
        !matches!(self, Self::Computed)
    }
}

/// What an attribute holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A value of a type.
    Plain(Type),
    /// Objects whose attributes have properties of their own. Terraform drops unknown keys of such
    /// objects silently; a nested block refuses them.
    Nested(NestedObject),
}

/// The objects of a nested attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NestedObject {
    /// The attributes of each object.
    pub attributes: Vec<Attribute>,
    /// One object, or which collection of them.
    pub nesting: ObjectNesting,
}

/// How the objects of a nested attribute are collected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ObjectNesting {
    /// One object, or null.
    Single,
    /// A list.
    List,
    /// A set.
    Set,
    /// A map.
    Map,
}

impl NestedObject {
    /// The type of the nested attribute's value.
    pub fn ty(&self) -> Type {
        let object = Type::object(
            self.attributes
                .iter()
                .map(|attribute| (attribute.name.clone(), attribute.ty())),
        );
        match self.nesting {
            ObjectNesting::Single => object,
            ObjectNesting::List => Type::list(object),
            ObjectNesting::Set => Type::set(object),
            ObjectNesting::Map => Type::map(object),
        }
    }
}

/// One attribute. Optional, until [`Attribute::required`] or another says otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attribute {
    /// Its name: lower-case letters, digits and underscores.
    pub name: String,
    /// What it holds.
    pub shape: Shape,
    /// Who sets it.
    pub presence: Presence,
    /// Whether the command line hides its value.
    pub sensitive: bool,
    /// Whether its value is in neither plan nor state (Terraform and OpenTofu 1.11+).
    pub write_only: bool,
    /// What it is for, in Markdown.
    pub description: String,
    /// Set where it is deprecated; the message says what to use instead and may be empty.
    pub deprecated: Option<String>,
}

impl Attribute {
    /// An optional attribute of a type.
    pub fn new(name: impl Into<String>, ty: Type) -> Self {
        Self::with_shape(name, Shape::Plain(ty))
    }

    /// An optional nested attribute.
    pub fn nested(
        name: impl Into<String>,
        nesting: ObjectNesting,
        attributes: impl IntoIterator<Item = Attribute>,
    ) -> Self {
        let attributes = attributes.into_iter().collect();
        Self::with_shape(name, Shape::Nested(NestedObject { attributes, nesting }))
    }

    fn with_shape(name: impl Into<String>, shape: Shape) -> Self {
        Self {
            name: name.into(),
            shape,
            presence: Presence::Optional,
            sensitive: false,
            write_only: false,
            description: String::new(),
            deprecated: None,
        }
    }

    /// An optional string.
    pub fn string(name: impl Into<String>) -> Self {
        Self::new(name, Type::String)
    }

    /// An optional number.
    pub fn number(name: impl Into<String>) -> Self {
        Self::new(name, Type::Number)
    }

    /// An optional boolean.
    pub fn bool(name: impl Into<String>) -> Self {
        Self::new(name, Type::Bool)
    }

    /// An optional list.
    pub fn list(name: impl Into<String>, element: Type) -> Self {
        Self::new(name, Type::list(element))
    }

    /// An optional set.
    pub fn set(name: impl Into<String>, element: Type) -> Self {
        Self::new(name, Type::set(element))
    }

    /// An optional map.
    pub fn map(name: impl Into<String>, element: Type) -> Self {
        Self::new(name, Type::map(element))
    }

    /// The configuration must set it.
    #[must_use]
    pub fn required(self) -> Self {
        self.presence(Presence::Required)
    }

    /// The configuration may set it.
    #[must_use]
    pub fn optional(self) -> Self {
        self.presence(Presence::Optional)
    }

    /// The provider sets it.
    #[must_use]
    pub fn computed(self) -> Self {
        self.presence(Presence::Computed)
    }

    /// The configuration may set it, else the provider does.
    #[must_use]
    pub fn optional_computed(self) -> Self {
        self.presence(Presence::OptionalComputed)
    }

    /// Who sets it.
    #[must_use]
    pub fn presence(mut self, presence: Presence) -> Self {
        self.presence = presence;
        self
    }

    /// Hidden on the command line.
    #[must_use]
    pub fn sensitive(mut self) -> Self {
        self.sensitive = true;
        self
    }

    /// In neither plan nor state.
    #[must_use]
    pub fn write_only(mut self) -> Self {
        self.write_only = true;
        self
    }

    /// With a description, in Markdown.
    #[must_use]
    pub fn describe(mut self, description: impl Into<String>) -> Self {
        self.description = description.into();
        self
    }

    /// Deprecated, with what to use instead.
    #[must_use]
    pub fn deprecate(mut self, message: impl Into<String>) -> Self {
        self.deprecated = Some(message.into());
        self
    }

    /// The type of its value.
    pub fn ty(&self) -> Type {
        match &self.shape {
            Shape::Plain(ty) => ty.clone(),
            Shape::Nested(object) => object.ty(),
        }
    }

    /// Whether it, or an attribute nested in it, is write-only.
    pub(super) fn has_write_only(&self) -> bool {
        self.write_only
            || match &self.shape {
                Shape::Plain(_) => false,
                Shape::Nested(object) => object.attributes.iter().any(Self::has_write_only),
            }
    }
}

//! Signatures of functions.
//!
//! Must not know the wire. Invariant: there is always a type of the result.

use crate::plugin::types::Type;

/// What a function takes and gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    /// Its parameters, in order.
    pub parameters: Vec<Parameter>,
    /// Takes all further arguments, where there is one.
    pub variadic: Option<Parameter>,
    /// The type of the result.
    pub returns: Type,
    /// One line on what it does.
    pub summary: String,
    /// All of what it does, in Markdown.
    pub description: String,
    /// Set where it is deprecated: what to use instead.
    pub deprecated: Option<String>,
}

impl Signature {
    /// A function with that result and no parameters yet.
    pub fn returns(ty: Type) -> Self {
        Self {
            parameters: Vec::new(),
            variadic: None,
            returns: ty,
            summary: String::new(),
            description: String::new(),
            deprecated: None,
        }
    }

    /// With one more parameter.
    #[must_use]
    pub fn parameter(mut self, parameter: Parameter) -> Self {
        self.parameters.push(parameter);
        self
    }

    /// With a parameter that takes all further arguments.
    #[must_use]
    pub fn variadic(mut self, parameter: Parameter) -> Self {
        self.variadic = Some(parameter);
        self
    }

    /// With one line and the whole text on what it does, in Markdown.
    #[must_use]
    pub fn describe(mut self, summary: impl Into<String>, description: impl Into<String>) -> Self {
        self.summary = summary.into();
        self.description = description.into();
        self
    }
}

/// One parameter of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its name.
    pub name: String,
    /// Its type.
    pub ty: Type,
    /// Whether the function is called with null here; otherwise null is the caller's error.
    pub allow_null: bool,
    /// Whether the function is called with unknowns here; otherwise its result is then unknown.
    pub allow_unknown: bool,
    /// What it is, in Markdown.
    pub description: String,
}

impl Parameter {
    /// A parameter that takes neither null nor unknowns.
    pub fn new(name: impl Into<String>, ty: Type) -> Self {
        Self {
            name: name.into(),
            ty,
            allow_null: false,
            allow_unknown: false,
            description: String::new(),
        }
    }

    /// May be null.
    #[must_use]
    pub fn allow_null(mut self) -> Self {
        self.allow_null = true;
        self
    }

    /// May be unknown.
    #[must_use]
    pub fn allow_unknown(mut self) -> Self {
        self.allow_unknown = true;
        self
    }

    /// With a description, in Markdown.
    #[must_use]
    pub fn describe(mut self, description: impl Into<String>) -> Self {
        self.description = description.into();
        self
    }
}

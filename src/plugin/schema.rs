//! Schemas: which attributes and blocks a configuration may have, in builder style.
//!
//! Must not know the wire. Invariant: what the types allow, Terraform accepts, as far as types can
//! say it.

mod attribute;
mod block;
mod identity;
mod signature;

pub use attribute::{Attribute, NestedObject, ObjectNesting, Presence, Shape};
pub use block::{Block, NestedBlock, Nesting};
pub use identity::{IdentityAttribute, IdentitySchema};
pub use signature::{Parameter, Signature};

/// The schema of a resource, data source, provider and so on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schema {
    /// Increased when states of the older schema need an upgrade.
    pub version: i64,
    /// The attributes and blocks.
    pub block: Block,
}

impl Schema {
    /// A schema of version 0.
    pub fn new(block: Block) -> Self {
        Self { version: 0, block }
    }

    /// With a version.
    #[must_use]
    pub fn version(mut self, version: i64) -> Self {
        self.version = version;
        self
    }
}

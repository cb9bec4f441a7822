//! What a kind of backend tells the rest of the provider: how it is configured, built and described.
//!
//! Must not know any kind. Invariant: a kind is one value of [`Kind`]; schema, configuration file,
//! command line and documentation all derive from it.

use std::fmt;
use std::sync::Arc;

use crate::config::Reader;
use crate::contract::{Backend, BackendName, Namespace, Profile};
use crate::plugin::schema::Block;

/// A kind of backend.
pub struct Kind {
    /// The name of its block.
    pub name: &'static str,
    /// Whether others can reach what it creates, so that an installation must be named.
    pub shared: bool,
    /// The schema of its block.
    pub block: fn() -> Block,
    /// Reads its block, which conforms to the schema; problems go into the reader. Unknown values
    /// read as null and are no problem here.
    pub parse: fn(&mut Reader<'_>) -> Option<Arc<dyn Settings>>,
    /// Its answers on every axis.
    pub profile: fn() -> Profile,
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// What one backend was configured with.
pub trait Settings: fmt::Debug + Send + Sync {
    /// The namespace of a proxy that names none.
    fn default_namespace(&self) -> Namespace {
        Namespace::default()
    }

    /// Where it keeps its proxies, as far as that is known without asking anybody: two backends of
    /// one kind and one place are one backend under two names.
    fn place(&self) -> Option<String> {
        None
    }

    /// The backend. Dials nothing and reads no credentials.
    fn build(&self, name: &BackendName) -> Arc<dyn Backend>;
}

//! A state as it was stored, before it is brought to the current schema.
//!
//! Must not know what is in it. Invariant: neither its `Debug` form nor an error shows its content.

use std::collections::BTreeMap;
use std::fmt;

use crate::plugin::codec::json::{self, Fit};
use crate::plugin::codec::layout::Layout;
use crate::plugin::diagnostics::{Diagnostic, Diagnostics};
use crate::plugin::schema::{Block, IdentitySchema, Schema};
use crate::plugin::value::Value;

/// A state as the host stored it, maybe under an older schema.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct RawState {
    /// The state as JSON: everything since Terraform 0.12.
    pub json: Option<Vec<u8>>,
    /// The state as flat keys and strings: Terraform 0.11 and older.
    pub flatmap: BTreeMap<String, String>,
}

impl fmt::Debug for RawState {
    /// Sizes only: states hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RawState")
            .field("json_bytes", &self.json.as_ref().map(Vec::len))
            .field("flatmap_keys", &self.flatmap.len())
            .finish()
    }
}

impl RawState {
    /// A state as JSON.
    pub fn from_json(json: impl Into<Vec<u8>>) -> Self {
        Self {
            json: Some(json.into()),
            flatmap: BTreeMap::new(),
        }
    }

    /// Reads the state under a schema: the current one where the versions are equal, an older one
    /// that the provider remembers otherwise. Keys that the schema does not have are passed over,
    /// what is absent is null, and write-only attributes are null. For many states under one schema
    /// there is [`StateDecoder`].
    ///
    /// # Errors
    /// A diagnostic with the place, where a value is not of the schema's type; and one that says
    /// what to do where the state is of Terraform 0.11 or older.
    pub fn decode(&self, schema: &Schema) -> Result<Value, Diagnostics> {
        StateDecoder::of(schema).decode(self)
    }

    /// Reads the state as an identity.
    ///
    /// # Errors
    /// As [`RawState::decode`].
    pub fn decode_identity(&self, schema: &IdentitySchema) -> Result<Value, Diagnostics> {
        self.read(&Layout::of_identity(schema), "The stored identity")
    }

    fn read(&self, layout: &Layout, what: &str) -> Result<Value, Diagnostics> {
        let json = match &self.json {
            Some(json) => json,
            None if self.flatmap.is_empty() => return Ok(Value::Null),
            None => {
                return Err(Diagnostic::error(format!("{what} is of Terraform 0.11 or older"))
                    .detail(
                        "It is a flat map, which this provider does not read. Run one `apply -refresh-only` \
                         with Terraform 0.12 to 0.13 and a provider of that time first, or remove the object \
                         from the state and import it.",
                    )
                    .into());
            }
        };
        let value = json::decode(json, layout.ty(), Fit::Loose).map_err(|error| error.received(what))?;
        Ok(layout.received(value))
    }
}

/// A schema made ready to read states: a host asks for every state of a resource type in each run,
/// and one schema reads them all.
#[derive(Debug)]
pub struct StateDecoder {
    layout: Layout,
    /// Where write-only attributes are; `None` where there are none.
    write_only: Option<Block>,
}

impl StateDecoder {
    /// For a schema.
    pub fn of(schema: &Schema) -> Self {
        Self {
            layout: Layout::of(schema),
            write_only: schema.block.has_write_only().then(|| schema.block.clone()),
        }
    }

    /// Reads a state, as [`RawState::decode`] does.
    ///
    /// # Errors
    /// As [`RawState::decode`].
    pub fn decode(&self, state: &RawState) -> Result<Value, Diagnostics> {
        let mut value = state.read(&self.layout, "The stored state")?;
        if let Some(block) = &self.write_only {
            block.clear_write_only(&mut value);
        }
        Ok(value)
    }
}

//! Import by id and by identity, and the configuration of what was imported.
//!
//! Must not reach out to anything: core goes on with a read, which finds the rest. Invariant: an
//! import takes exactly the id that a state has.

use std::collections::BTreeMap;

use super::schema::{BACKEND, ID, KEY, PORT, WAIT_FOR};
use super::wait::WaitFor;
use super::{TYPE_NAME, schema};
use crate::contract::InstanceId;
use crate::contract::spec::DEFAULT_PORT;
use crate::plugin::diagnostics::{Diagnostic, Path, sentence};
use crate::plugin::provider::{ImportResponse, ImportTarget, Imported};
use crate::plugin::schema::{Nesting, Presence};
use crate::plugin::value::Value;
use crate::terraform::session::Session;

/// Enough of a state to be read.
pub(super) fn import(target: &ImportTarget, session: &Session) -> ImportResponse {
    let id = match target {
        ImportTarget::Id(text) => parse(text, None, session),
        ImportTarget::Identity(identity) => {
            let part = |name| identity.get(name).as_str().unwrap_or_default();
            parse(
                &format!("{}/{}", part(BACKEND), part(KEY)),
                Some(BACKEND),
                session,
            )
        }
    };
    let opened = id.and_then(|id| {
        session.open(&id.backend)?;
        Ok(id)
    });
    match opened {
        Ok(id) => {
            let mut state = empty();
            state.set(ID, id.to_string());
            ImportResponse {
                imported: vec![Imported {
                    type_name: TYPE_NAME.to_owned(),
                    identity: super::identity_of(&state),
                    state,
                    private: Vec::new(),
                }],
                ..ImportResponse::default()
            }
        }
        Err(error) => ImportResponse {
            diagnostics: error.into(),
            ..ImportResponse::default()
        },
    }
}

fn parse(text: &str, part: Option<&str>, session: &Session) -> Result<InstanceId, Diagnostic> {
    text.parse()
        .map_err(|error: crate::contract::model::InvalidName| {
            let example = session
                .example_id()
                .map_or_else(String::new, |id| format!(" For instance: {id:?}."));
            let problem = Diagnostic::error("The id to import cannot be read").detail(format!(
                "{}{example} The attribute id of a state and data.egress_proxies show the ids there are.",
                sentence(&error.to_string())
            ));
            match part {
                Some(part) => problem.at(Path::root().attribute(part)),
                None => problem,
            }
        })
}

/// An object of the schema in which nothing is set.
pub(super) fn empty() -> Value {
    let block = schema::schema().block;
    let attributes = block
        .attributes
        .into_iter()
        .map(|attribute| (attribute.name, Value::Null));
    let blocks = block.blocks.into_iter().map(|nested| {
        let none = match nested.nesting {
            Nesting::Single | Nesting::Group => Value::Null,
            Nesting::List | Nesting::Set => Value::List(Vec::new()),
            Nesting::Map => Value::Map(BTreeMap::new()),
        };
        (nested.name, none)
    });
    Value::Map(attributes.chain(blocks).collect())
}

/// The configuration that makes a state: what a person would write, without what is a constant
/// default. A version of a write-only value stays although the value cannot be known: validation
/// then asks for it, which is better than a configuration that forgets a password.
pub(super) fn configuration(state: Value) -> Value {
    let mut config = state;
    for attribute in schema::schema().block.attributes {
        if attribute.presence == Presence::Computed {
            config.set(attribute.name, Value::Null);
        }
    }
    let defaults = [
        (PORT, Value::from(DEFAULT_PORT)),
        (WAIT_FOR, WaitFor::default().as_str().into()),
    ];
    for (name, default) in defaults {
        if *config.get(name) == default {
            config.set(name, Value::Null);
        }
    }
    config
}

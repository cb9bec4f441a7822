//! Everything the provider offers, collected once, with each schema made ready for the codecs.
//!
//! Must not know what any call does. Invariant: it is built on the first call, after the handshake,
//! and no call depends on another having been made before.

use std::collections::HashMap;
use std::sync::Arc;

use crate::plugin::codec::layout::Layout;
use crate::plugin::diagnostics::{Diagnostic, Diagnostics};
use crate::plugin::provider::{
    Action, DataSource, EphemeralResource, Function, ListResource, Named, Provider, Resource, StateStore,
};
use crate::plugin::schema::Signature;

pub(super) struct Entry<T: ?Sized> {
    pub(super) handler: Arc<T>,
    pub(super) layout: Layout,
}

pub(super) struct ResourceEntry {
    pub(super) handler: Arc<dyn Resource>,
    pub(super) layout: Layout,
    pub(super) identity: Option<Layout>,
}

pub(super) struct FunctionEntry {
    pub(super) handler: Arc<dyn Function>,
    pub(super) signature: Signature,
}

pub(super) struct Catalogue {
    pub(super) provider: Layout,
    pub(super) meta: Option<Layout>,
    resources: HashMap<String, ResourceEntry>,
    data_sources: HashMap<String, Entry<dyn DataSource>>,
    functions: HashMap<String, FunctionEntry>,
    ephemeral_resources: HashMap<String, Entry<dyn EphemeralResource>>,
    list_resources: HashMap<String, Entry<dyn ListResource>>,
    actions: HashMap<String, Entry<dyn Action>>,
    state_stores: HashMap<String, Entry<dyn StateStore>>,
}

fn collect<T: ?Sized, E>(named: Named<T>, entry: impl Fn(Arc<T>) -> E) -> HashMap<String, E> {
    named
        .into_iter()
        .map(|(name, handler)| (name, entry(handler)))
        .collect()
}

/// The map's entry, or the error that names what there is not.
fn find<'a, E>(entries: &'a HashMap<String, E>, kind: &str, name: &str) -> Result<&'a E, Diagnostics> {
    entries.get(name).ok_or_else(|| {
        let mut known: Vec<_> = entries.keys().map(String::as_str).collect();
        known.sort_unstable();
        let known = if known.is_empty() {
            "none".to_owned()
        } else {
            known.join(", ")
        };
        Diagnostic::error(format!("This provider has no {kind} {name:?}"))
            .detail(format!(
                "It has: {known}. The host and the provider disagree about the schema; \
                 another version of the provider may be installed than was initialized."
            ))
            .into()
    })
}

impl Catalogue {
    pub(super) fn of(provider: &dyn Provider) -> Self {
        Self {
            provider: Layout::of(&provider.schema()),
            meta: provider.meta_schema().as_ref().map(Layout::of),
            resources: collect(provider.resources(), |handler| ResourceEntry {
                layout: Layout::of(&handler.schema()),
                identity: handler.identity().as_ref().map(Layout::of_identity),
                handler,
            }),
            data_sources: collect(provider.data_sources(), |handler| Entry {
                layout: Layout::of(&handler.schema()),
                handler,
            }),
            functions: collect(provider.functions(), |handler| FunctionEntry {
                signature: handler.signature(),
                handler,
            }),
            ephemeral_resources: collect(provider.ephemeral_resources(), |handler| Entry {
                layout: Layout::of(&handler.schema()),
                handler,
            }),
            list_resources: collect(provider.list_resources(), |handler| Entry {
                layout: Layout::of(&handler.schema()),
                handler,
            }),
            actions: collect(provider.actions(), |handler| Entry {
                layout: Layout::of(&handler.schema()),
                handler,
            }),
            state_stores: collect(provider.state_stores(), |handler| Entry {
                layout: Layout::of(&handler.schema()),
                handler,
            }),
        }
    }

    pub(super) fn resource(&self, name: &str) -> Result<&ResourceEntry, Diagnostics> {
        find(&self.resources, "resource type", name)
    }

    pub(super) fn data_source(&self, name: &str) -> Result<&Entry<dyn DataSource>, Diagnostics> {
        find(&self.data_sources, "data source", name)
    }

    pub(super) fn function(&self, name: &str) -> Result<&FunctionEntry, Diagnostics> {
        find(&self.functions, "function", name)
    }

    pub(super) fn ephemeral_resource(
        &self,
        name: &str,
    ) -> Result<&Entry<dyn EphemeralResource>, Diagnostics> {
        find(&self.ephemeral_resources, "ephemeral resource type", name)
    }

    pub(super) fn list_resource(&self, name: &str) -> Result<&Entry<dyn ListResource>, Diagnostics> {
        find(&self.list_resources, "list resource type", name)
    }

    pub(super) fn action(&self, name: &str) -> Result<&Entry<dyn Action>, Diagnostics> {
        find(&self.actions, "action", name)
    }

    pub(super) fn state_store(&self, name: &str) -> Result<&Entry<dyn StateStore>, Diagnostics> {
        find(&self.state_stores, "state store", name)
    }
}

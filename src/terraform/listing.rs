//! One listing of several backends at once.
//!
//! Must not know what it is for. Invariant: what could not be listed is in it, named, so that nobody
//! takes a partial listing for a whole one.

use std::time::Duration;

use futures_util::future::join_all;
use tokio_util::sync::CancellationToken;

use super::failure;
use super::lifecycle::Ended;
use super::session::Open;
use crate::contract::{Instance, InstanceId, ListFilter, NativeId, Secondary};
use crate::transport::call::{Limits, retry};

/// The longest the listing of a backend may take: as long as a read.
const BUDGET: Duration = Duration::from_secs(120);

/// An instance, and the backend that it was found on.
#[derive(Clone, Debug)]
pub(crate) struct Seen<'s> {
    pub(crate) open: &'s Open,
    pub(crate) instance: Instance,
}

impl Seen<'_> {
    /// Its id as a user writes it.
    pub(crate) fn id(&self) -> InstanceId {
        full(self.open, &self.instance.id)
    }
}

/// Something that belonged to an instance which is gone.
#[derive(Clone, Debug)]
pub(crate) struct Left<'s> {
    pub(crate) open: &'s Open,
    pub(crate) secondary: Secondary,
}

impl Left<'_> {
    /// The id of the instance that it belonged to.
    pub(crate) fn id(&self) -> InstanceId {
        full(self.open, &self.secondary.id)
    }
}

/// What could not be listed.
#[derive(Clone, Debug)]
pub(crate) struct Missing<'s> {
    pub(crate) open: &'s Open,
    /// Which part; `None`: the whole backend.
    pub(crate) scope: Option<String>,
    /// The backend's own ids that may be hidden in it start so.
    pub(crate) prefix: String,
    /// Why.
    pub(crate) message: String,
}

impl Missing<'_> {
    /// The part, for a person.
    pub(crate) fn scope(&self) -> &str {
        self.scope.as_deref().unwrap_or("everything")
    }

    /// Whether it may hide an instance of that id.
    pub(crate) fn may_hide(&self, open: &Open, id: &NativeId) -> bool {
        self.open.name == open.name && id.as_str().starts_with(&self.prefix)
    }
}

/// What several backends hold of an installation.
#[derive(Clone, Debug, Default)]
pub(crate) struct Inventory<'s> {
    /// Every instance, ordered by id.
    pub(crate) instances: Vec<Seen<'s>>,
    /// Every remains of one, ordered by id.
    pub(crate) secondary: Vec<Left<'s>>,
    /// What could not be listed; empty: the inventory is complete.
    pub(crate) missing: Vec<Missing<'s>>,
}

impl<'s> Inventory<'s> {
    /// Whether not one backend could be listed.
    pub(crate) fn is_nothing(&self, backends: usize) -> bool {
        let whole = self.missing.iter().filter(|part| part.scope.is_none());
        backends > 0 && whole.count() == backends
    }

    fn add(&mut self, more: Inventory<'s>) {
        self.instances.extend(more.instances);
        self.secondary.extend(more.secondary);
        self.missing.extend(more.missing);
    }
}

fn full(open: &Open, id: &NativeId) -> InstanceId {
    InstanceId {
        backend: open.name.clone(),
        native: id.clone(),
    }
}

/// Lists one backend.
pub(crate) async fn of_one<'s>(
    open: &'s Open,
    filter: &ListFilter,
    token: &CancellationToken,
) -> Inventory<'s> {
    let limits = Limits::new(BUDGET, token.clone());
    let mut inventory = Inventory::default();
    match retry(&limits, || open.backend.list_by_tag(filter))
        .await
        .map_err(Ended::from)
    {
        Ok(listing) => {
            let seen = |instance| Seen { open, instance };
            inventory
                .instances
                .extend(listing.instances.into_iter().map(seen));
            let left = |secondary| Left { open, secondary };
            inventory
                .secondary
                .extend(listing.secondary.into_iter().map(left));
            inventory
                .missing
                .extend(listing.unreadable.into_iter().map(|part| Missing {
                    open,
                    message: failure::chain(&part.error),
                    scope: Some(part.scope),
                    prefix: part.prefix,
                }));
        }
        Err(ended) => inventory.missing.push(Missing {
            open,
            scope: None,
            prefix: String::new(),
            message: match ended {
                Ended::Failed(error) | Ended::OutOfTime(Some(error)) => failure::chain(&error),
                Ended::OutOfTime(None) => "it did not answer in time".to_owned(),
                Ended::Stopped => "the listing was interrupted".to_owned(),
            },
        }),
    }
    inventory.instances.sort_by_key(Seen::id);
    inventory.secondary.sort_by_key(Left::id);
    inventory
}

/// Lists them all, beside each other.
pub(crate) async fn of_all<'s>(
    backends: &[&'s Open],
    filter: &ListFilter,
    token: &CancellationToken,
) -> Inventory<'s> {
    let mut inventory = Inventory::default();
    for one in join_all(backends.iter().map(|open| of_one(open, filter, token))).await {
        inventory.add(one);
    }
    inventory.instances.sort_by_key(Seen::id);
    inventory.secondary.sort_by_key(Left::id);
    inventory
}

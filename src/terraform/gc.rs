//! Garbage collection: which orphans may go, and how they go. The command `gc` and the action
//! `egress_gc` are two ways to ask for this.
//!
//! Must not know who asks, nor any backend. Invariants: nothing is deleted that is young, ageless,
//! handed over (unless the given states are all there are) or hidden by a part that could not be
//! listed; one that is cut off halfway has lost nothing, since every deletion can be done again.

use std::fmt;
use std::time::Duration;

use futures_util::stream::{self, BoxStream, StreamExt as _};
use jiff::{SignedDuration, Timestamp};

use super::failure;
use super::lifecycle::{self, Ended};
use super::listing::Inventory;
use super::session::Open;
use super::timeouts::{self, Timeout};
use crate::contract::{
    DeleteRequest, ErrorKind, Freshness, GetRequest, Incarnation, Installation, InstanceId, Target,
};
use crate::transport::call::Limits;
use tokio_util::sync::CancellationToken;

/// How old an orphan must be where nobody says otherwise.
pub(crate) const MIN_AGE: Duration = Duration::from_secs(3600);
/// How many deletions run beside each other; a backend bounds its own calls too.
const AT_ONCE: usize = 4;

/// What protects an orphan from being collected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Guards {
    /// Nothing younger is collected.
    pub(crate) min_age: Duration,
    /// Whether the states given are all of the installation's: else what was handed over stays.
    pub(crate) complete: bool,
}

/// What an orphan is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// An instance whose create was cut off, or is still under way.
    Pending,
    /// An instance that some state was given.
    HandedOver,
    /// What is left of an instance: the kind and the name of the object.
    Remains(String),
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pending => f.write_str("unfinished"),
            Self::HandedOver => f.write_str("handed over"),
            Self::Remains(what) => write!(f, "remains ({what})"),
        }
    }
}

/// Why an orphan stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Protection {
    /// It is younger than this.
    Young(Duration),
    /// Nobody knows how old it is.
    Ageless,
    /// It was handed over, and there may be states that were not given.
    HandedOver,
    /// Its instance may be in a part that could not be listed.
    Hidden(String),
}

impl Protection {
    /// The reason in words. Whoever asks has words of its own for what was handed over, since the way
    /// out is its own.
    pub(crate) fn told(&self, handed_over: &str) -> String {
        match self {
            Self::Young(age) => format!("younger than {}", timeouts::show(*age)),
            Self::Ageless => "its age is unknown, so it counts as young".to_owned(),
            Self::HandedOver => handed_over.to_owned(),
            Self::Hidden(scope) => format!("its instance may be in {scope}, which could not be listed"),
        }
    }
}

/// One orphan, and what becomes of it.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    open: Open,
    /// Its id, or that of the instance it belonged to.
    pub(crate) id: InstanceId,
    /// Which incarnation; none of remains.
    incarnation: Option<Incarnation>,
    target: Option<Target>,
    /// What it is.
    pub(crate) kind: Kind,
    /// How old it is.
    pub(crate) age: Option<Duration>,
    /// Why it stays; `None`: it goes.
    pub(crate) protection: Option<Protection>,
}

/// Judges every orphan.
pub(crate) fn survey(orphans: &Inventory<'_>, guards: Guards, now: Timestamp) -> Vec<Item> {
    let age = |began: Option<Timestamp>| {
        // What comes from the future has a clock that nobody can trust: it is brand new.
        let age = now.duration_since(began?).max(SignedDuration::ZERO);
        Duration::try_from(age).ok()
    };
    let by_age = |age: Option<Duration>| match age {
        None => Some(Protection::Ageless),
        Some(age) if age < guards.min_age => Some(Protection::Young(guards.min_age)),
        Some(_) => None,
    };
    let instances = orphans.instances.iter().map(|seen| {
        let mark = &seen.instance.mark;
        let age = age(mark.began_at(seen.instance.created_at));
        let kind = if mark.pending {
            Kind::Pending
        } else {
            Kind::HandedOver
        };
        let protection = match (&kind, guards.complete) {
            (Kind::HandedOver, false) => Some(Protection::HandedOver),
            (Kind::HandedOver, true) | (Kind::Pending | Kind::Remains(_), _) => by_age(age),
        };
        Item {
            open: seen.open.clone(),
            id: seen.id(),
            incarnation: Some(mark.incarnation),
            target: Some(seen.instance.target.clone()),
            kind,
            age,
            protection,
        }
    });
    let remains = orphans.secondary.iter().map(|left| {
        let secondary = &left.secondary;
        let age = age(secondary.created_at);
        let hiding = orphans
            .missing
            .iter()
            .find(|part| part.may_hide(left.open, &secondary.id));
        Item {
            open: left.open.clone(),
            id: left.id(),
            incarnation: None,
            target: None,
            kind: Kind::Remains(format!("{} {}", secondary.kind, secondary.name)),
            age,
            protection: match hiding {
                Some(part) => Some(Protection::Hidden(part.scope().to_owned())),
                None => by_age(age),
            },
        }
    });
    let mut items: Vec<_> = instances.chain(remains).collect();
    items.sort_by(|a, b| a.id.cmp(&b.id));
    items
}

/// What became of an orphan that was to go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is gone.
    Gone,
    /// It was left alone, for that reason.
    Left(String),
    /// It could not be deleted, or nobody knows whether it was.
    Failed(String),
}

/// Deletes what may go, a few at a time, and tells of each, by its place among `items`, as soon as
/// its fate is known.
pub(crate) fn collect(
    items: &[Item],
    installation: &Installation,
    guards: Guards,
    token: &CancellationToken,
) -> BoxStream<'static, (usize, Fate)> {
    let going: Vec<_> = items
        .iter()
        .cloned()
        .enumerate()
        .filter(|(_, item)| item.protection.is_none())
        .collect();
    let (installation, token) = (installation.clone(), token.clone());
    let deletions = going.into_iter().map(move |(place, item)| {
        let (installation, token) = (installation.clone(), token.clone());
        async move { (place, delete(&item, &installation, guards, &token).await) }
    });
    stream::iter(deletions).buffer_unordered(AT_ONCE).boxed()
}

async fn delete(item: &Item, installation: &Installation, guards: Guards, token: &CancellationToken) -> Fate {
    if token.is_cancelled() {
        return Fate::Left("interrupted before its turn".to_owned());
    }
    let limits = Limits::new(Timeout::Delete.default(), token.clone());
    // What is still being made may have been finished and handed over since it was listed.
    if let Some(incarnation) = item.incarnation {
        let request = GetRequest {
            id: item.id.native.clone(),
            incarnation: Some(incarnation),
            installation: installation.clone(),
            recorded_target: item.target.clone(),
            probe: false,
            freshness: Freshness::Fresh,
        };
        match lifecycle::get(&item.open, &request, &limits).await {
            Ok(found) if !found.instance.mark.pending && !guards.complete => {
                return Fate::Left("it was handed over to a state meanwhile".to_owned());
            }
            Ok(_) => {}
            Err(Ended::Failed(error)) if error.kind() == ErrorKind::NotFound => {
                return if error.is_noteworthy() {
                    Fate::Left(failure::chain(&error))
                } else {
                    Fate::Gone
                };
            }
            Err(ended) => return Fate::Failed(why(ended)),
        }
    }
    let request = DeleteRequest {
        id: item.id.native.clone(),
        incarnation: item.incarnation,
        installation: installation.clone(),
        recorded_target: item.target.clone(),
    };
    match lifecycle::delete(&item.open, &request, &limits).await {
        Ok(None) => Fate::Gone,
        Ok(Some(whose)) => Fate::Left(whose),
        Err(ended) => Fate::Failed(why(ended)),
    }
}

fn why(ended: Ended) -> String {
    match ended {
        Ended::Failed(error) => failure::chain(&error),
        Ended::OutOfTime(last) => {
            let time = timeouts::show(Timeout::Delete.default());
            match last {
                Some(error) => format!("it took longer than {time}: {}", failure::chain(&error)),
                None => format!("it took longer than {time}"),
            }
        }
        Ended::Stopped => "interrupted; run it again".to_owned(),
    }
}

#[cfg(all(test, feature = "testing"))]
mod tests;

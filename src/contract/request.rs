//! What is asked of a backend and what it answers, operation by operation.
//!
//! Nothing here does I/O or knows a backend. The rules of each operation are in the rustdoc of
//! [`Backend`](super::Backend).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use super::{
    Fact, Facts, Incarnation, Installation, Instance, InstanceId, InstanceKey, NativeId, Secrets, Target, Uid,
};

/// What create does with an instance of ours that already has the name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum AdoptPolicy {
    /// Adopt what an earlier create of the same uid left pending.
    #[default]
    Interrupted,
    /// Adopt what has the same uid, handed over or not.
    SameSpec,
    /// Adopt nothing.
    Never,
}

/// Create a new instance, or finish one that an earlier create left pending.
#[derive(Clone, Debug)]
pub struct NewInstance {
    /// Installation, namespace, name.
    pub key: InstanceKey,
    /// The adoption guard: follows from key and facts.
    pub uid: Uid,
    /// The incarnation the instance gets, adopted or new.
    pub incarnation: Incarnation,
    /// The hash of `facts`.
    pub spec_sha256: String,
    /// The create-only facts as [`Backend::resolve`](super::Backend::resolve) returned them.
    pub facts: Facts,
    /// Which of them the user gave.
    pub given: BTreeSet<Fact>,
    /// The user's labels.
    pub labels: BTreeMap<String, String>,
    /// What no mark may hold.
    pub secrets: Secrets,
    /// What to adopt.
    pub adopt: AdoptPolicy,
}

impl NewInstance {
    /// A new incarnation of what these resolved facts describe, without labels and secrets, under
    /// the default policy.
    #[must_use]
    pub fn new(key: InstanceKey, facts: Facts, given: BTreeSet<Fact>) -> Self {
        let spec_sha256 = facts.sha256();
        Self {
            uid: Uid::of(&key, &spec_sha256),
            key,
            incarnation: Incarnation::fresh(),
            spec_sha256,
            facts,
            given,
            labels: BTreeMap::new(),
            secrets: Secrets::default(),
            adopt: AdoptPolicy::default(),
        }
    }
}

/// Start, resume, hand over or relabel exactly one existing instance.
#[derive(Clone, Debug)]
pub struct Resume {
    /// Which.
    pub id: NativeId,
    /// Which incarnation of it; another one is refused.
    pub incarnation: Incarnation,
    /// Who owns it.
    pub installation: Installation,
    /// The labels it shall have.
    pub labels: BTreeMap<String, String>,
    /// The label keys that the state says the user set before.
    pub prior_label_keys: BTreeSet<String>,
}

/// What [`Backend::create`](super::Backend::create) is asked to do.
#[derive(Clone, Debug)]
pub enum CreateRequest {
    /// A new instance.
    New(Box<NewInstance>),
    /// An existing one.
    Resume(Box<Resume>),
}

/// Whether, and as what, create adopted an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Adopted {
    /// It made a new one, if need be in several attempts, or resumed the one it was told to.
    No,
    /// It finished one that was pending.
    Pending,
    /// It took over one that was handed over (`adopt = "same_spec"`).
    SameSpec,
}

/// What create returns.
#[derive(Clone, Debug, PartialEq)]
pub struct Created {
    /// The instance, handed over: its mark says so on the backend.
    pub instance: Instance,
    /// Whether it existed before.
    pub adopted: Adopted,
    /// What the user should know although it succeeded.
    pub warnings: Vec<String>,
}

impl Created {
    /// The end of a create, with what the user should know of an adoption.
    #[must_use]
    pub fn of(instance: Instance, adopted: Adopted, id: &InstanceId) -> Self {
        let warnings = match adopted {
            Adopted::No => Vec::new(),
            Adopted::Pending => vec![format!(
                "\"{id}\" existed already, left unfinished by an earlier create of the same specification: it was \
                 finished and taken over."
            )],
            Adopted::SameSpec => vec![format!(
                "\"{id}\" existed already with the same specification and was taken over; a state that held it \
                 before holds it no longer."
            )],
        };
        Self {
            instance,
            adopted,
            warnings,
        }
    }
}

/// Where create reports the instance as soon as the backend accepted it, so that a create that
/// fails, is cancelled or runs out of time afterwards loses nothing.
#[derive(Debug, Default)]
pub struct Accepted(Mutex<Option<Instance>>);

impl Accepted {
    /// Nothing accepted yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The backend accepted it; a later report replaces an earlier one.
    pub fn report(&self, instance: Instance) {
        // A poisoned lock only means that another report panicked: the newest one still counts.
        *self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(instance);
    }

    /// The last report.
    #[must_use]
    pub fn last(&self) -> Option<Instance> {
        self.0
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .clone()
    }
}

/// Whether `get` may be answered from a listing that another read of the same plan took.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Freshness {
    /// It may: the read of a plan.
    Shared,
    /// It may not: a wait, an apply.
    Fresh,
}

/// What `get` is asked.
#[derive(Clone, Debug)]
pub struct GetRequest {
    /// Which instance.
    pub id: NativeId,
    /// Which incarnation; `None` on import: whichever is there.
    pub incarnation: Option<Incarnation>,
    /// Who must own it.
    pub installation: Installation,
    /// What the state says stood behind the backend's name.
    pub recorded_target: Option<Target>,
    /// Whether to ask, too, if the proxy serves.
    pub probe: bool,
    /// Whether a shared listing may answer.
    pub freshness: Freshness,
}

/// Whether the proxy serves, where `get` was asked to probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// It does.
    Ready,
    /// Not yet; what was tried and what came back.
    NotReady(String),
}

/// What `get` returns.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The instance.
    pub instance: Instance,
    /// Whether it serves; `None` where not probed.
    pub readiness: Option<Readiness>,
    /// What the user should know.
    pub warnings: Vec<String>,
}

/// What `delete` is asked.
#[derive(Clone, Debug)]
pub struct DeleteRequest {
    /// Which instance.
    pub id: NativeId,
    /// Which incarnation; another one is left alone. `None` takes secondary objects without an
    /// instance, and nothing else.
    pub incarnation: Option<Incarnation>,
    /// Who must own it.
    pub installation: Installation,
    /// What the state says stood behind the backend's name.
    pub recorded_target: Option<Target>,
}

/// What `delete` did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deleted {
    /// It is gone, or was gone already.
    Gone,
    /// Deletion was accepted: `get` proves absence later (profile `returns-early`).
    Accepted,
    /// Another incarnation is there; the text says whose.
    LeftAlone(String),
}

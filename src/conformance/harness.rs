//! What a backend's tests provide to be judged: the backend, a world to break, and a view of that
//! world which does not go through the backend.
//!
//! It must not know the cases. Invariant: a control either did what it says or is an error; what can
//! never be staged is declared in [`Harness::cannot`], as data.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::Broken;
use crate::contract::{
    Backend, ErrorKind, Fact, Facts, Namespace, NativeId, Operation, Specification, State,
};

/// A point of create or delete at which a control strikes: the stage itself does not happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// Create: before anything of it exists.
    Accept,
    /// Create: accepted, but nothing that belongs to the instance exists yet.
    Secondary,
    /// Create: what belongs to the instance exists, the instance does not. Delete: what belongs to
    /// it is gone, the instance is not.
    Instance,
    /// Create: the instance exists and is still pending.
    Handover,
}

/// Something to do to the world behind the backend's back.
#[derive(Clone, Debug)]
pub enum Control<'a> {
    /// The next create of that id fails there, with that kind and text of the remote's own.
    FailCreate(&'a NativeId, Stage, ErrorKind, &'a str),
    /// The next create of that id hangs there, so that the case can drop it.
    HangCreate(&'a NativeId, Stage),
    /// The next delete of that id fails there as Transient.
    FailDelete(&'a NativeId, Stage),
    /// The next such operation is refused by the remote, with that kind.
    Refuse(&'a NativeId, Operation, ErrorKind),
    /// The instance is in that state now.
    SetState(&'a NativeId, State),
    /// The instance runs, but its address cannot be found.
    LoseAddress(&'a NativeId),
    /// The instance runs, but the proxy on it does not answer.
    StopServing(&'a NativeId),
    /// The mark is gone from the instance.
    StripMark(&'a NativeId),
    /// The instance is gone, what belonged to it is still there.
    LeaveRemains(&'a NativeId),
    /// What is left of the instance is damaged, as by an upload cut short.
    Damage(&'a NativeId),
    /// The instance and what belonged to it are gone.
    Vanish(&'a NativeId),
    /// Something without a mark is there.
    PlaceForeign(&'a NativeId),
    /// Somebody else put a label on the instance.
    ForeignLabel(&'a NativeId, &'a str, &'a str),
    /// The part that the id lies on does not answer.
    Unreachable(&'a NativeId),
    /// No part answers.
    AllUnreachable,
    /// The instance alone cannot be read.
    Unreadable(&'a NativeId),
}

/// What a harness may be unable to stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ability {
    /// [`Control::FailCreate`] at that stage.
    FailCreate(Stage),
    /// [`Control::HangCreate`] at that stage.
    HangCreate(Stage),
    /// [`Control::FailDelete`].
    FailDelete,
    /// [`Control::Refuse`].
    Refuse,
    /// [`Control::SetState`] to that state. A state that the profile does not list needs no excuse.
    SetState(State),
    /// [`Control::LoseAddress`].
    LoseAddress,
    /// [`Control::StopServing`].
    StopServing,
    /// [`Control::StripMark`].
    StripMark,
    /// [`Control::LeaveRemains`].
    LeaveRemains,
    /// [`Control::Damage`].
    Damage,
    /// [`Control::Vanish`].
    Vanish,
    /// [`Control::PlaceForeign`].
    PlaceForeign,
    /// [`Control::ForeignLabel`].
    ForeignLabel,
    /// [`Control::Unreachable`].
    Unreachable,
    /// [`Control::AllUnreachable`].
    AllUnreachable,
    /// [`Control::Unreadable`].
    Unreadable,
    /// [`Harness::facts_elsewhere`].
    Elsewhere,
    /// [`Harness::backend_without`].
    Without,
}

impl Control<'_> {
    /// The ability that it takes.
    #[must_use]
    pub fn ability(&self) -> Ability {
        match self {
            Self::FailCreate(_, stage, ..) => Ability::FailCreate(*stage),
            Self::HangCreate(_, stage) => Ability::HangCreate(*stage),
            Self::FailDelete(..) => Ability::FailDelete,
            Self::Refuse(..) => Ability::Refuse,
            Self::SetState(_, state) => Ability::SetState(*state),
            Self::LoseAddress(_) => Ability::LoseAddress,
            Self::StopServing(_) => Ability::StopServing,
            Self::StripMark(_) => Ability::StripMark,
            Self::LeaveRemains(_) => Ability::LeaveRemains,
            Self::Damage(_) => Ability::Damage,
            Self::Vanish(_) => Ability::Vanish,
            Self::PlaceForeign(_) => Ability::PlaceForeign,
            Self::ForeignLabel(..) => Ability::ForeignLabel,
            Self::Unreachable(_) => Ability::Unreachable,
            Self::AllUnreachable => Ability::AllUnreachable,
            Self::Unreadable(_) => Ability::Unreadable,
        }
    }
}

/// What is there of one id, seen without the backend.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sighting {
    /// Every object of that id by its name: the instance, its disks, rules, services. The content is
    /// what only a write of ours changes, such as the mark's text.
    pub objects: BTreeMap<String, String>,
    /// Every label on the instance, ours or not, as far as labels are stored as such.
    pub labels: BTreeMap<String, String>,
    /// Whether what belongs to the instance has the content that create gives it.
    pub intact: bool,
}

impl Sighting {
    /// Whether nothing of the id is left.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        self.objects.is_empty()
    }
}

/// A backend's side of the suite.
#[async_trait]
pub trait Harness: Send + Sync {
    /// The backend under test, as a new process would configure it: same world, no shared memory.
    fn backend(&self) -> Arc<dyn Backend>;

    /// The same with a configuration that no longer names the part on which the id lies.
    ///
    /// # Errors
    /// When it cannot be had; declare [`Ability::Without`] then.
    fn backend_without(&self, id: &NativeId) -> Result<Arc<dyn Backend>, Broken>;

    /// What cannot be staged, and why. A reason reads like "a process has no transient states".
    fn cannot(&self) -> &[(Ability, &'static str)];

    /// The namespace that the cases work in.
    fn namespace(&self) -> Namespace {
        Namespace::default()
    }

    /// Facts as a user would give them, which the backend can honour.
    fn facts(&self) -> Facts;

    /// Other facts that lead to the same id: another specification.
    fn other_facts(&self) -> Facts {
        Facts {
            port: Some(3129),
            ..self.facts()
        }
    }

    /// Facts that lead to another part than [`Harness::facts`].
    ///
    /// # Errors
    /// When there is only one; declare [`Ability::Elsewhere`] then.
    fn facts_elsewhere(&self) -> Result<Facts, Broken>;

    /// Specifications that the backend must refuse, made from one that it can honour, and the fact
    /// that is to blame. Each breaks one thing only.
    fn refused(&self, honoured: &Specification) -> Vec<(Fact, Specification)>;

    /// Ids that this backend cannot have given.
    fn malformed_ids(&self) -> Vec<NativeId>;

    /// Does that to the world.
    async fn stage(&self, control: Control<'_>) -> Result<(), Broken>;

    /// Sees what is there of that id.
    async fn sight(&self, id: &NativeId) -> Result<Sighting, Broken>;

    /// How long an instance may take to run, or to be gone.
    fn patience(&self) -> Duration;

    /// Removes whatever the case left behind.
    async fn tidy(&self);
}

/// A harness whose backend is seen through decorators.
pub struct Through<H> {
    inner: H,
    wrap: fn(Arc<dyn Backend>) -> Arc<dyn Backend>,
}

impl<H: Harness> Through<H> {
    /// `inner`, with its backends wrapped.
    pub fn new(inner: H, wrap: fn(Arc<dyn Backend>) -> Arc<dyn Backend>) -> Self {
        Self { inner, wrap }
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<H: Harness> Harness for Through<H> {
    fn backend(&self) -> Arc<dyn Backend> {
        (self.wrap)(self.inner.backend())
    }

    fn backend_without(&self, id: &NativeId) -> Result<Arc<dyn Backend>, Broken> {
        Ok((self.wrap)(self.inner.backend_without(id)?))
    }

    fn cannot(&self) -> &[(Ability, &'static str)] {
        self.inner.cannot()
    }

    fn namespace(&self) -> Namespace {
        self.inner.namespace()
    }

    fn facts(&self) -> Facts {
        self.inner.facts()
    }

    fn other_facts(&self) -> Facts {
        self.inner.other_facts()
    }

    fn facts_elsewhere(&self) -> Result<Facts, Broken> {
        self.inner.facts_elsewhere()
    }

    fn refused(&self, honoured: &Specification) -> Vec<(Fact, Specification)> {
        self.inner.refused(honoured)
    }

    fn malformed_ids(&self) -> Vec<NativeId> {
        self.inner.malformed_ids()
    }

    async fn stage(&self, control: Control<'_>) -> Result<(), Broken> {
        self.inner.stage(control).await
    }

    async fn sight(&self, id: &NativeId) -> Result<Sighting, Broken> {
        self.inner.sight(id).await
    }

    fn patience(&self) -> Duration {
        self.inner.patience()
    }

    async fn tidy(&self) {
        self.inner.tidy().await;
    }
}

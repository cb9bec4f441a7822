//! A libvirt in memory, with domains, pools, volumes, faults and a count of what it was asked (cargo
//! feature `testing`).
//!
//! It must not know who asks, nor what a mark is. Invariants: what it refuses, it refuses with the code and
//! the words that libvirt 9.0 was seen to have; a call takes effect wholly or not at all.

mod api;
mod xml;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use uuid::Uuid;

use super::error::{Code, Error, LinkDown, RemoteError};
use super::types::{AddressSource, Interface, PoolState};
use crate::transport::call::{Limits, pause};

pub use xml::Definition;

/// A domain.
#[derive(Clone, Debug)]
pub struct FakeDomain {
    /// What it was defined with.
    pub definition: Definition,
    /// `virDomainState`.
    pub state: i32,
    /// libvirt's number for why.
    pub why: i32,
    /// The number it runs under, or -1.
    pub id: i32,
    /// libvirt's notes on snapshots of it.
    pub snapshots: u32,
    /// Whether its description can be had.
    pub readable: bool,
}

/// A volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FakeVolume {
    /// What it was made with.
    pub xml: String,
    /// Its bytes.
    pub content: Vec<u8>,
}

/// What a source of addresses does.
#[derive(Clone, Debug)]
pub enum Telling {
    /// It tells the address of every domain that runs.
    All,
    /// It tells this, whoever is asked about.
    These(Vec<Interface>),
    /// It refuses, with that code and those words.
    Refuses(i32, &'static str),
    /// It never answers.
    Hangs,
}

/// What is on a host.
#[derive(Debug)]
pub struct World {
    /// The domains by name.
    pub domains: BTreeMap<String, FakeDomain>,
    /// The volumes of the pool `default` by name.
    pub volumes: BTreeMap<String, FakeVolume>,
    /// The state of that pool, if it is there.
    pub pool: Option<PoolState>,
    /// Bytes left in it.
    pub available: u64,
    /// Bytes of free memory.
    pub free_memory: u64,
    /// KiB of memory in all.
    pub memory_kib: u64,
    /// What each source of addresses does.
    pub sources: BTreeMap<u8, Telling>,
    /// The flags of undefine that this libvirt does not know.
    pub unknown_undefine: u32,
    /// The calls that this libvirt does not have.
    pub unknown_calls: BTreeSet<&'static str>,
    next_id: i32,
    next_mac: u32,
}

/// What happens to a call instead of its effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// libvirt refuses, with that code and those words.
    Refuse(i32, String),
    /// Nothing comes, for ever.
    Hang,
    /// The connection is cut.
    Cut,
}

/// A fault to come.
#[derive(Clone, Debug)]
pub struct Fault {
    /// The procedure's name, such as `DomainCreate`.
    pub procedure: &'static str,
    /// What the name of the object must contain.
    pub about: String,
    /// What happens.
    pub effect: Effect,
    /// Whether it happens once.
    pub once: bool,
}

/// A host with a libvirt in memory. Clones are the same host.
#[derive(Clone, Debug)]
pub struct FakeHost(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    uuid: Uuid,
    world: Mutex<World>,
    faults: Mutex<Vec<Fault>>,
    calls: Mutex<Vec<(&'static str, String)>>,
    dials: AtomicUsize,
    reachable: AtomicBool,
    serving: AtomicBool,
    latency: Mutex<Duration>,
    cut_after: Mutex<Option<usize>>,
    deaf_after: Mutex<Option<usize>>,
}

/// Counts down, and says whether it is time.
fn is_due(left: &Mutex<Option<usize>>) -> bool {
    let mut left = locked(left);
    match *left {
        Some(0) => {
            *left = None;
            true
        }
        Some(more) => {
            *left = Some(more - 1);
            false
        }
        None => false,
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Default for FakeHost {
    fn default() -> Self {
        Self(Arc::new(Inner {
            uuid: Uuid::new_v4(),
            world: Mutex::new(World {
                domains: BTreeMap::new(),
                volumes: BTreeMap::new(),
                pool: Some(PoolState::Running),
                available: 1 << 40,
                free_memory: 1 << 40,
                memory_kib: 1 << 30,
                sources: BTreeMap::new(),
                unknown_undefine: 0,
                unknown_calls: BTreeSet::new(),
                next_id: 1,
                next_mac: 1,
            }),
            faults: Mutex::default(),
            calls: Mutex::default(),
            dials: AtomicUsize::new(0),
            reachable: AtomicBool::new(true),
            serving: AtomicBool::new(true),
            latency: Mutex::default(),
            cut_after: Mutex::default(),
            deaf_after: Mutex::default(),
        }))
    }
}

impl FakeHost {
    /// What is there, to look at and to change.
    pub fn world(&self) -> MutexGuard<'_, World> {
        locked(&self.0.world)
    }

    /// Puts a fault in the way of calls.
    pub fn put(&self, fault: Fault) {
        locked(&self.0.faults).push(fault);
    }

    /// Whether the host answers.
    pub fn set_reachable(&self, reachable: bool) {
        self.0.reachable.store(reachable, Ordering::SeqCst);
    }

    /// Whether the host answers.
    #[must_use]
    pub fn is_reachable(&self) -> bool {
        self.0.reachable.load(Ordering::SeqCst)
    }

    /// Whether the ports of guests answer.
    pub fn set_serving(&self, serving: bool) {
        self.0.serving.store(serving, Ordering::SeqCst);
    }

    /// Whether the ports of guests answer.
    #[must_use]
    pub fn is_serving(&self) -> bool {
        self.0.serving.load(Ordering::SeqCst)
    }

    /// How long every call takes.
    pub fn set_latency(&self, latency: Duration) {
        *locked(&self.0.latency) = latency;
    }

    /// Lets that many more calls through; the next one is cut off, once.
    pub fn cut_after(&self, calls: usize) {
        *locked(&self.0.cut_after) = Some(calls);
    }

    /// Whether a cut that was asked for is still to come.
    #[must_use]
    pub fn is_to_be_cut(&self) -> bool {
        locked(&self.0.cut_after).is_some()
    }

    /// Lets that many more calls that change something be answered; the next one takes effect, and its
    /// answer is lost with the connection, once.
    pub fn lose_answer_after(&self, calls: usize) {
        *locked(&self.0.deaf_after) = Some(calls);
    }

    /// Whether an answer that was to be lost is still to come.
    #[must_use]
    pub fn is_answer_to_be_lost(&self) -> bool {
        locked(&self.0.deaf_after).is_some()
    }

    /// The host's UUID.
    #[must_use]
    pub fn uuid(&self) -> Uuid {
        self.0.uuid
    }

    /// A connection to it.
    #[must_use]
    pub fn connect(&self) -> FakeLibvirt {
        self.0.dials.fetch_add(1, Ordering::SeqCst);
        FakeLibvirt {
            host: self.clone(),
            down: AtomicBool::new(false),
        }
    }

    /// How often it was connected to.
    #[must_use]
    pub fn dials(&self) -> usize {
        self.0.dials.load(Ordering::SeqCst)
    }

    /// Every call so far: the procedure, and the name of what it is about.
    #[must_use]
    pub fn calls(&self) -> Vec<(&'static str, String)> {
        locked(&self.0.calls).clone()
    }

    /// Forgets the calls so far.
    pub fn forget_calls(&self) {
        locked(&self.0.calls).clear();
    }

    /// How often that procedure was called.
    #[must_use]
    pub fn count(&self, procedure: &str) -> usize {
        let calls = locked(&self.0.calls);
        calls.iter().filter(|(own, _)| *own == procedure).count()
    }

    fn fault(&self, procedure: &str, about: &str) -> Option<Effect> {
        let mut faults = locked(&self.0.faults);
        let at = faults
            .iter()
            .position(|fault| fault.procedure == procedure && about.contains(&fault.about))?;
        let effect = faults[at].effect.clone();
        if faults[at].once {
            faults.remove(at);
        }
        Some(effect)
    }
}

impl World {
    fn refused<T>(procedure: &'static str, code: i32, message: impl Into<String>) -> Result<T, Error> {
        Err(Error::Remote {
            procedure,
            error: RemoteError {
                code: Code(code),
                domain: 10,
                level: 2,
                message: message.into(),
            },
        })
    }

    /// What a source does; a fake host's ARP table, agents and leases all work unless told otherwise.
    fn telling(&self, source: AddressSource) -> Telling {
        self.sources.get(&(source as u8)).cloned().unwrap_or(Telling::All)
    }
}

/// A connection to a [`FakeHost`].
#[derive(Debug)]
pub struct FakeLibvirt {
    host: FakeHost,
    down: AtomicBool,
}

impl FakeLibvirt {
    fn cut(&self, procedure: &'static str) -> Error {
        self.down.store(true, Ordering::SeqCst);
        Error::Link {
            procedure,
            down: LinkDown::Closed,
        }
    }

    /// The answer of a call that changed something, unless it is to be lost.
    fn answered<T>(&self, procedure: &'static str, answer: Result<T, Error>) -> Result<T, Error> {
        if is_due(&self.host.0.deaf_after) {
            return Err(self.cut(procedure));
        }
        answer
    }

    /// Begins a call: counted, delayed, and struck by what was put in its way.
    async fn enter(&self, procedure: &'static str, about: &str) -> Result<MutexGuard<'_, World>, Error> {
        locked(&self.host.0.calls).push((procedure, about.to_owned()));
        let latency = *locked(&self.host.0.latency);
        if !latency.is_zero() {
            // Nobody cancels it, and its deadline is later than its end.
            let _ = pause(&Limits::after(latency * 2), latency).await;
        }
        let cut = || self.cut(procedure);
        if !self.host.is_reachable() || self.down.load(Ordering::SeqCst) || is_due(&self.host.0.cut_after) {
            return Err(cut());
        }
        match self.host.fault(procedure, about) {
            None => {}
            Some(Effect::Hang) => std::future::pending().await,
            Some(Effect::Cut) => return Err(cut()),
            Some(Effect::Refuse(code, message)) => return World::refused(procedure, code, message),
        }
        if self.host.world().unknown_calls.contains(procedure) {
            let message = format!("this function is not supported by the connection driver: vir{procedure}");
            return World::refused(procedure, 3, message);
        }
        Ok(self.host.world())
    }
}

//! The reference backend: the model answer to every rule of the contract, on a world of its own
//! that a test can set and break (cargo feature `testing`).
//!
//! It must not know the conformance suite. Invariant: it keeps every rule for every profile it is
//! given; what goes wrong does so because the world holds a [`Fault`].

mod adopt;
mod create;
mod delete;
mod lookup;
mod resolve;
mod settings;
mod store;
mod world;

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;

use super::error::{Error, Operation};
use super::mark::Mark;
use super::model::{HealthReason, Instance, InstanceId, ListFilter, Listing, NativeId, State, TargetHealth};
use super::profile::{CreatedAt, EgressIp, Profile, SecondaryResources};
use super::{
    Accepted, AdoptRequest, Adoption, Backend, CreateRequest, Created, DeleteRequest, Deleted, Found,
    GetRequest, Problem, Resolved, Specification, refusal,
};
use store::Store;

pub use settings::{PROFILE, Settings};
pub use world::{Effect, Fault, Place, Power, Record, SecondaryRecord, Step, World, Zone};

/// What several backends may share: a world, the calls counted in it, and whose turn it is.
#[derive(Debug)]
struct Shared {
    store: Store,
    turns: Mutex<HashMap<NativeId, Arc<tokio::sync::Mutex<()>>>>,
}

/// A handle to a world: tests change it through this, and backends live in it.
#[derive(Clone, Debug)]
pub struct WorldHandle(Arc<Shared>);

impl WorldHandle {
    fn over(store: Store) -> Self {
        Self(Arc::new(Shared {
            store,
            turns: Mutex::default(),
        }))
    }

    /// A world of its own, in memory.
    #[must_use]
    pub fn new(world: World) -> Self {
        Self::over(Store::memory(world))
    }

    /// The world in that file, shared with every process that opens it. A file that does not exist
    /// yet is an empty world.
    #[must_use]
    pub fn open(path: PathBuf) -> Self {
        Self::over(Store::file(path))
    }

    /// Looks at the world.
    ///
    /// # Errors
    /// Permanent, when the world file cannot be read.
    pub fn look<T>(&self, look: impl FnOnce(&World) -> T) -> Result<T, Error> {
        self.0.store.read(look)
    }

    /// Changes the world, in one transaction.
    ///
    /// # Errors
    /// Permanent, when the world file cannot be read or written.
    pub fn edit<T>(&self, edit: impl FnOnce(&mut World) -> T) -> Result<T, Error> {
        self.0.store.change(|world| Ok(edit(world)))
    }

    /// How often each operation was called.
    ///
    /// # Errors
    /// Permanent, when the file of the calls cannot be read.
    pub fn calls(&self) -> Result<BTreeMap<String, usize>, Error> {
        let mut counts = BTreeMap::new();
        for line in self.0.store.calls()? {
            let operation = line.split(' ').next().unwrap_or_default().to_owned();
            *counts.entry(operation).or_default() += 1;
        }
        Ok(counts)
    }
}

/// The reference backend.
#[derive(Clone, Debug)]
pub struct Memory {
    settings: Settings,
    world: WorldHandle,
}

impl Memory {
    /// A backend in that world.
    #[must_use]
    pub fn new(settings: Settings, world: WorldHandle) -> Self {
        Self { settings, world }
    }

    /// The world it lives in.
    #[must_use]
    pub fn world(&self) -> &WorldHandle {
        &self.world
    }

    fn store(&self) -> &Store {
        &self.world.0.store
    }

    /// The id as a user writes it.
    fn full(&self, id: &NativeId) -> InstanceId {
        InstanceId {
            backend: self.settings.name.clone(),
            native: id.clone(),
        }
    }

    /// Takes an id apart and makes sure that its zone is configured.
    fn place(&self, id: &NativeId) -> Result<Place, Error> {
        let place = Place::of(id).ok_or_else(|| refusal::malformed(id, Place::GRAMMAR))?;
        if self.settings.zones.contains(&place.zone) {
            Ok(place)
        } else {
            Err(refusal::not_configured(&self.full(id), "zone", &place.zone))
        }
    }

    /// One remote call: it takes its time, and may go wrong.
    async fn call(&self, operation: Operation, step: Option<Step>, id: &str) -> Result<(), Error> {
        let (latency, faulty) = self
            .store()
            .read(|world| (world.latency_ms, world.has_fault(operation, step, id)))?;
        if latency > 0 {
            #[expect(
                clippy::disallowed_methods,
                reason = "the work of a remote that is only pretended"
            )]
            tokio::time::sleep(Duration::from_millis(latency)).await;
        }
        let effect = if faulty {
            self.store()
                .change(|world| Ok(world.strike(operation, step, id)))?
        } else {
            None
        };
        match effect {
            None => Ok(()),
            Some(Effect::Fail {
                kind,
                message,
                retry_after_ms,
                affecting,
            }) => {
                let mut error = Error::new(kind, message);
                if let Some(wait) = retry_after_ms {
                    error = error.retry_after(Duration::from_millis(wait));
                }
                if let Some(prefix) = affecting {
                    error = error.affecting(prefix);
                }
                Err(error)
            }
            Some(Effect::Hang) => std::future::pending().await,
            Some(Effect::Panic) => panic!("the reference backend was told to panic in {operation}"),
            Some(Effect::Abort) => std::process::abort(),
        }
    }

    /// Fails where the zone does not answer.
    fn answering(&self, zone: &str) -> Result<(), Error> {
        if self.store().read(|world| world.reachable(zone))? {
            Ok(())
        } else {
            Err(unreachable(zone))
        }
    }

    /// Operations on one id take turns; whoever waits is served in order.
    async fn turn(&self, id: &NativeId) -> tokio::sync::OwnedMutexGuard<()> {
        let turn = {
            let mut turns = self.world.0.turns.lock().unwrap_or_else(PoisonError::into_inner);
            // What nobody holds or waits for is forgotten, or the map would only grow.
            turns.retain(|_, turn| Arc::strong_count(turn) > 1);
            Arc::clone(turns.entry(id.clone()).or_default())
        };
        turn.lock_owned().await
    }

    /// What belongs to an instance here, beside it.
    fn has_secondary(&self) -> bool {
        match self.settings.profile.secondary_resources {
            SecondaryResources::None => false,
            SecondaryResources::Cascade | SecondaryResources::Explicit => true,
        }
    }

    fn instance(&self, world: &World, id: &NativeId, record: &Record, mark: &Mark) -> Instance {
        let (state, reason) = match record.power {
            Power::Running if record.address_known => (State::Running, None),
            Power::Running => (State::Provisioning, Some("no address is known just now")),
            Power::Starting(_) => (State::Provisioning, Some("it is starting")),
            Power::Stopped => (State::Stopped, Some("it was stopped")),
            Power::Terminated => (State::Terminated, Some("it ended")),
            Power::Leaving(_) => (State::Terminated, Some("it is being deleted")),
        };
        let ip = (state == State::Running).then_some(record.address);
        Instance {
            id: id.clone(),
            mark: mark.clone(),
            target: Place::of(id)
                .map(|place| world.target(&place.zone))
                .unwrap_or_default(),
            state,
            started: record.power == Power::Running,
            ip,
            egress_ip: match self.settings.profile.egress_ip {
                EgressIp::Distinct => ip,
                EgressIp::Shared | EgressIp::HostRoute => None,
            },
            created_at: match self.settings.profile.created_at {
                CreatedAt::BackendTimestamp => record.created_at,
                CreatedAt::WrittenAtCreate => mark.created_at,
            },
            labels: record
                .labels
                .iter()
                .filter(|(key, _)| mark.label_keys.contains(*key))
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect(),
            reason: reason.map(str::to_owned),
        }
    }
}

fn unreachable(zone: &str) -> Error {
    Error::transient(format!("the zone \"{zone}\" does not answer")).on(zone)
}

#[async_trait]
impl Backend for Memory {
    fn profile(&self) -> &Profile {
        &self.settings.profile
    }

    fn resolve(&self, specification: &Specification) -> Result<Resolved, Vec<Problem>> {
        self.resolved(specification)
    }

    async fn create(&self, request: &CreateRequest, accepted: &Accepted) -> Result<Created, Error> {
        match request {
            CreateRequest::New(request) => self.create_new(request, accepted).await,
            CreateRequest::Resume(request) => self.resume(request, accepted).await,
        }
    }

    async fn get(&self, request: &GetRequest) -> Result<Found, Error> {
        self.find(request).await
    }

    async fn delete(&self, request: &DeleteRequest) -> Result<Deleted, Error> {
        self.remove(request).await
    }

    async fn adopt(&self, request: &AdoptRequest) -> Result<Adoption, Error> {
        self.take_over(request).await
    }

    async fn list_by_tag(&self, filter: &ListFilter) -> Result<Listing, Error> {
        self.list(filter).await
    }

    async fn check(&self) -> Vec<TargetHealth> {
        let mut reports = Vec::new();
        for zone in &self.settings.zones {
            let begun = tokio::time::Instant::now();
            let answer = async {
                self.store().count(Operation::Check, zone)?;
                self.call(Operation::Check, None, &format!("{zone}/")).await?;
                self.answering(zone)?;
                self.store().read(|world| world.target(zone).to_string())
            };
            let (reason, message, details) = match answer.await {
                Ok(target) => (
                    HealthReason::Healthy,
                    format!("the zone \"{zone}\" answers"),
                    BTreeMap::from([("target".to_owned(), target)]),
                ),
                Err(error) => (HealthReason::Unreachable, error.to_string(), BTreeMap::new()),
            };
            reports.push(TargetHealth {
                target: zone.clone(),
                reason,
                message,
                latency: begun.elapsed(),
                details,
            });
        }
        reports
    }
}

//! The reference backend: the model answer to every rule of the contract, on a world of its own
//! that a test can set and break (cargo feature `testing`).
//!
//! It must not know the conformance suite. Invariant: it keeps every rule for every profile it is
//! given; what goes wrong does so because the world holds a [`Fault`].

mod create;
mod delete;
mod lookup;
mod store;
mod world;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;

use super::error::{Error, Operation};
use super::mark::Mark;
use super::model::{
    BackendName, HealthReason, Instance, InstanceId, ListFilter, Listing, NativeId, State, TargetHealth,
};
use super::profile::{
    Adoption, AsyncOps, BackendTest, ChildSpans, ClientKind, CreateReturn, CreatedAt, Credentials,
    DeleteReturn, EgressIp, GcMark, IpSource, ListPartial, Logging, NotFoundBy, PrimaryKey, Profile,
    ProvisioningState, Quota, ReachableFrom, Readiness, SecondaryResources, Timeouts,
};
use super::spec::{Fact, Facts};
use super::{
    Accepted, Backend, CreateRequest, Created, DeleteRequest, Deleted, Found, GetRequest, Problem, Resolved,
    Specification, refusal,
};
use store::Store;

pub use world::{Effect, Fault, Place, Power, Record, SecondaryRecord, Step, World, Zone};

/// The profile of the reference backend where a test sets no other.
pub const PROFILE: Profile = Profile {
    kind: "memory",
    states: &[
        State::Provisioning,
        State::Running,
        State::Stopped,
        State::Terminated,
    ],
    readiness: Readiness::Immediate,
    create_return: CreateReturn::Submit,
    delete_return: DeleteReturn::Waits,
    ip_source: IpSource::Discovered,
    gc_mark: GcMark::WrittenMetadata,
    created_at: CreatedAt::WrittenAtCreate,
    list_partial: ListPartial::NamesParts,
    quota: Quota::Detected,
    not_found: NotFoundBy::ErrorCode,
    primary_key: PrimaryKey::NameWithUidGuard,
    provisioning_state: ProvisioningState::Native,
    async_ops: AsyncOps::None,
    secondary_resources: SecondaryResources::Explicit,
    credentials: Credentials::None,
    client_kind: ClientKind::Process,
    timeouts: Timeouts::PerCall,
    logging: Logging::Tiered,
    child_spans: ChildSpans::SpanDecorator,
    backend_test: BackendTest::Reference,
    adoption: Adoption::Guarded,
    egress_ip: EgressIp::Distinct,
    reachable_from: ReachableFrom::ThisMachine,
};

/// The configuration of a reference backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The name the user gave it.
    pub name: BackendName,
    /// The zones it knows.
    pub zones: BTreeSet<String>,
    /// The machine types it knows; none: it cannot honour any.
    pub machine_types: BTreeSet<String>,
    /// The images it knows; none: it cannot honour any.
    pub images: BTreeSet<String>,
    /// Whether it can honour `spot`.
    pub spot: bool,
    /// Its answers on every axis.
    pub profile: Profile,
}

impl Settings {
    /// A backend of that name with one zone, `z1`, and nothing else.
    #[must_use]
    pub fn new(name: BackendName) -> Self {
        Self {
            name,
            zones: BTreeSet::from(["z1".to_owned()]),
            machine_types: BTreeSet::new(),
            images: BTreeSet::new(),
            spot: false,
            profile: PROFILE,
        }
    }

    /// The same with these zones.
    #[must_use]
    pub fn zones(mut self, zones: &[&str]) -> Self {
        self.zones = zones.iter().map(|zone| (*zone).to_owned()).collect();
        self
    }
}

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

/// Refuses a value that is not one of those known.
fn known(fact: Fact, given: Option<&String>, known: &BTreeSet<String>, problems: &mut Vec<Problem>) {
    let Some(given) = given else {
        return;
    };
    let way_out = if known.is_empty() {
        "this backend has none; leave it out".to_owned()
    } else {
        let known: Vec<_> = known.iter().map(String::as_str).collect();
        format!("choose one of: {}", known.join(", "))
    };
    if !known.contains(given) {
        problems.push(Problem {
            fact,
            message: format!("{fact} \"{given}\" is not known: {way_out}"),
        });
    }
}

impl Memory {
    /// The zone an instance with these facts belongs to.
    fn zone(&self, given: Option<&String>, problems: &mut Vec<Problem>) -> Option<String> {
        let mut zones = self.settings.zones.iter();
        match (given, zones.next(), zones.next()) {
            (Some(zone), ..) => {
                known(Fact::Zone, Some(zone), &self.settings.zones, problems);
                Some(zone.clone())
            }
            (None, Some(only), None) => Some(only.clone()),
            (None, ..) => {
                let zones: Vec<_> = self.settings.zones.iter().map(String::as_str).collect();
                problems.push(Problem {
                    fact: Fact::Zone,
                    message: format!(
                        "placement.zone is needed, since there is not exactly one: choose one of: {}",
                        zones.join(", ")
                    ),
                });
                None
            }
        }
    }
}

/// The longest name the reference backend takes: shorter than the contract's own, as backends are.
const LONGEST_NAME: usize = 50;

#[async_trait]
impl Backend for Memory {
    fn profile(&self) -> &Profile {
        &self.settings.profile
    }

    fn resolve(&self, specification: &Specification) -> Result<Resolved, Vec<Problem>> {
        let Specification { key, given, labels } = specification;
        let mut problems = Vec::new();
        if key.name.as_str().len() > LONGEST_NAME {
            problems.push(Problem {
                fact: Fact::Name,
                message: format!(
                    "name \"{}\" is too long for this backend: at most {LONGEST_NAME} characters",
                    key.name
                ),
            });
        }
        let zone = self.zone(given.zone.as_ref(), &mut problems);
        known(
            Fact::Region,
            given.region.as_ref(),
            &BTreeSet::new(),
            &mut problems,
        );
        known(
            Fact::MachineType,
            given.machine_type.as_ref(),
            &self.settings.machine_types,
            &mut problems,
        );
        known(
            Fact::Image,
            given.image.as_ref(),
            &self.settings.images,
            &mut problems,
        );
        if given.spot == Some(true) && !self.settings.spot {
            problems.push(Problem {
                fact: Fact::Spot,
                message: "placement.spot = true cannot be honoured by this backend: leave it out".to_owned(),
            });
        }
        for key in labels.keys().filter(|key| key.starts_with("egress-proxy")) {
            problems.push(Problem {
                fact: Fact::Labels,
                message: format!("the label \"{key}\" is the provider's own: choose another key"),
            });
        }
        let facts = Facts {
            zone,
            spot: given.spot.filter(|spot| *spot),
            allowed_cidrs: given.allowed_cidrs.clone().or_else(|| Some(loopback())),
            ..given.clone()
        }
        .with_common_defaults();
        let placed = facts.zone.as_deref().and_then(|zone| Place::in_zone(zone, key));
        match placed {
            Some((id, _)) if problems.is_empty() => Ok(Resolved {
                id,
                facts,
                warnings: Vec::new(),
            }),
            _ => Err(problems),
        }
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

/// Who may use a proxy that names nobody: this machine.
fn loopback() -> Vec<ipnet::IpNet> {
    [
        ipnet::IpNet::new_assert(std::net::Ipv4Addr::new(127, 0, 0, 0).into(), 8),
        ipnet::IpNet::new_assert(std::net::Ipv6Addr::LOCALHOST.into(), 128),
    ]
    .to_vec()
}

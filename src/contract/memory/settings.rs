//! The configuration of a reference backend, and its profile where a test sets no other.
//!
//! It must not know a world. Invariant: whatever is not listed here cannot be honoured.

use std::collections::BTreeSet;

use crate::contract::model::{BackendName, State};
use crate::contract::profile::{
    Adoption, AsyncOps, BackendTest, ChildSpans, ClientKind, CreateReturn, CreatedAt, Credentials,
    DeleteReturn, EgressIp, GcMark, IpSource, ListPartial, Logging, NotFoundBy, PrimaryKey, Profile,
    ProvisioningState, Quota, ReachableFrom, Readiness, SecondaryResources, Timeouts,
};

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

//! Proxies as Squid processes of this machine.
//!
//! It must not know Terraform or another backend. Invariants: one directory for each proxy under the
//! state directory, at `<namespace>/<name>`, holds everything of it; a proxy outlives the provider;
//! destinations on this machine's loopback are open to clients on loopback alone.

mod config;
mod place;
mod resolve;

#[cfg(target_os = "linux")]
mod account;
#[cfg(target_os = "linux")]
mod adopt;
#[cfg(target_os = "linux")]
mod classify;
#[cfg(target_os = "linux")]
mod create;
#[cfg(target_os = "linux")]
mod delete;
#[cfg(target_os = "linux")]
mod files;
#[cfg(target_os = "linux")]
mod health;
#[cfg(target_os = "linux")]
mod lock;
#[cfg(target_os = "linux")]
mod lookup;
#[cfg(target_os = "linux")]
mod machine;
#[cfg(not(target_os = "linux"))]
#[path = "local/elsewhere.rs"]
mod machine;
#[cfg(target_os = "linux")]
mod ports;
#[cfg(target_os = "linux")]
mod process;
#[cfg(target_os = "linux")]
mod procfs;
#[cfg(target_os = "linux")]
mod record;
#[cfg(target_os = "linux")]
mod seam;
#[cfg(target_os = "linux")]
mod squid;
#[cfg(target_os = "linux")]
mod store;

use async_trait::async_trait;

use crate::contract::profile::{
    self, AsyncOps, BackendTest, ChildSpans, ClientKind, CreateReturn, CreatedAt, Credentials, DeleteReturn,
    EgressIp, GcMark, IpSource, ListPartial, Logging, NotFoundBy, PrimaryKey, ProvisioningState, Quota,
    ReachableFrom, Readiness, SecondaryResources, Timeouts,
};
use crate::contract::{
    Accepted, AdoptRequest, Adoption, Backend, BackendName, CreateRequest, Created, DeleteRequest, Deleted,
    Error, Found, GetRequest, ListFilter, Listing, Problem, Profile, Resolved, Specification, State,
    TargetHealth,
};
use machine::Machine;

pub use config::{
    ConfigProblem, LocalConfig, STATE_DIR_VARIABLE, default_state_dir, state_dir_of_this_process,
};

/// The answers of the backend `local`.
pub const PROFILE: Profile = Profile {
    kind: "local",
    states: &[State::Running, State::Stopped, State::Terminated],
    readiness: Readiness::Immediate,
    create_return: CreateReturn::Blocking,
    delete_return: DeleteReturn::Waits,
    ip_source: IpSource::Listen,
    gc_mark: GcMark::WrittenMetadata,
    created_at: CreatedAt::WrittenAtCreate,
    list_partial: ListPartial::NamesObjects,
    quota: Quota::Detected,
    not_found: NotFoundBy::Directory,
    primary_key: PrimaryKey::NameWithUidGuard,
    provisioning_state: ProvisioningState::CreateBlocks,
    async_ops: AsyncOps::None,
    secondary_resources: SecondaryResources::None,
    credentials: Credentials::None,
    client_kind: ClientKind::Process,
    timeouts: Timeouts::PerCall,
    logging: Logging::Tiered,
    child_spans: ChildSpans::SpanDecorator,
    backend_test: BackendTest::Real,
    adoption: profile::Adoption::Guarded,
    egress_ip: EgressIp::HostRoute,
    reachable_from: ReachableFrom::ThisMachine,
};

/// Proxies on this machine.
#[derive(Clone, Debug)]
pub struct Local {
    machine: Machine,
}

impl Local {
    /// A backend of that name. Nothing is touched before its first operation.
    #[must_use]
    pub fn new(name: BackendName, config: LocalConfig) -> Self {
        Self {
            machine: Machine::new(name, config),
        }
    }
}

#[async_trait]
impl Backend for Local {
    fn profile(&self) -> &Profile {
        &PROFILE
    }

    fn resolve(&self, specification: &Specification) -> Result<Resolved, Vec<Problem>> {
        resolve::resolve(self.machine.config(), specification)
    }

    async fn create(&self, request: &CreateRequest, accepted: &Accepted) -> Result<Created, Error> {
        match request {
            CreateRequest::New(request) => self.machine.create_new(request, accepted).await,
            CreateRequest::Resume(request) => self.machine.resume(request, accepted).await,
        }
    }

    async fn get(&self, request: &GetRequest) -> Result<Found, Error> {
        self.machine.find(request).await
    }

    async fn delete(&self, request: &DeleteRequest) -> Result<Deleted, Error> {
        self.machine.remove(request).await
    }

    async fn adopt(&self, request: &AdoptRequest) -> Result<Adoption, Error> {
        self.machine.adopt_by_hand(request).await
    }

    async fn list_by_tag(&self, filter: &ListFilter) -> Result<Listing, Error> {
        self.machine.list(filter).await
    }

    async fn check(&self) -> Vec<TargetHealth> {
        self.machine.health().await
    }
}

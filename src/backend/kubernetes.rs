//! Proxies as Pods of a Kubernetes cluster.
//!
//! It must not know Terraform or another backend. Invariants: a proxy is one Pod, which holds its whole
//! configuration, and a Service where the configuration asks for one; whatever others put into a Pod's spec
//! is theirs; every write names the object it was decided on.

mod access;
mod adopt;
mod classify;
mod cluster;
mod config;
mod connect;
mod create;
mod credentials;
mod delete;
mod dial;
mod events;
mod exec;
mod expose;
mod health;
mod kubeconfig;
mod lookup;
mod mark;
mod material;
mod objects;
mod place;
mod pod;
mod proxy;
mod quantity;
mod resolve;
mod service;
mod state;
#[cfg(test)]
mod testing;

use async_trait::async_trait;

use crate::contract::profile::{
    Adoption, AsyncOps, BackendTest, ChildSpans, ClientKind, CreateReturn, CreatedAt, Credentials,
    DeleteReturn, EgressIp, GcMark, IpSource, ListPartial, Logging, NotFoundBy, PrimaryKey,
    ProvisioningState, Quota, ReachableFrom, Readiness, SecondaryResources, Timeouts,
};
use crate::contract::{
    self, Accepted, AdoptRequest, Backend, BackendName, CreateRequest, Created, DeleteRequest, Deleted,
    Error, Found, GetRequest, ListFilter, Listing, Problem, Profile, Resolved, Specification, State,
    TargetHealth,
};
use cluster::Cluster;

pub use access::{GivenAccess, GivenExec, Impersonate};
pub use config::{ConfigProblem, DEFAULT_IMAGE, Given, KubernetesConfig};

/// The answers of the backend `kubernetes`.
pub const PROFILE: Profile = Profile {
    kind: "kubernetes",
    // Stopped is a proxy whose Service was removed: the next apply makes it again.
    states: &[
        State::Provisioning,
        State::Running,
        State::Stopped,
        State::Terminated,
    ],
    readiness: Readiness::Immediate,
    create_return: CreateReturn::Submit,
    delete_return: DeleteReturn::Waits,
    ip_source: IpSource::AssignedAtCreate,
    gc_mark: GcMark::NativeLabels,
    created_at: CreatedAt::BackendTimestamp,
    list_partial: ListPartial::NamesParts,
    quota: Quota::Detected,
    not_found: NotFoundBy::Status404,
    primary_key: PrimaryKey::NameWithUidGuard,
    provisioning_state: ProvisioningState::Native,
    async_ops: AsyncOps::None,
    secondary_resources: SecondaryResources::Explicit,
    credentials: Credentials::WorkloadIdentity,
    client_kind: ClientKind::VendorSdk,
    timeouts: Timeouts::PerCall,
    logging: Logging::Tiered,
    child_spans: ChildSpans::SpanDecorator,
    backend_test: BackendTest::Real,
    adoption: Adoption::Guarded,
    egress_ip: EgressIp::Shared,
    reachable_from: ReachableFrom::ClusterNetwork,
};

/// Proxies in a cluster.
#[derive(Clone, Debug)]
pub struct Kubernetes {
    cluster: Cluster,
}

impl Kubernetes {
    /// A backend of that name. Nothing is dialled or read before its first operation.
    #[must_use]
    pub fn new(name: BackendName, config: KubernetesConfig) -> Self {
        Self {
            cluster: Cluster::new(name, config),
        }
    }
}

#[async_trait]
impl Backend for Kubernetes {
    fn profile(&self) -> &Profile {
        &PROFILE
    }

    fn resolve(&self, specification: &Specification) -> Result<Resolved, Vec<Problem>> {
        resolve::resolve(self.cluster.config(), specification)
    }

    async fn create(&self, request: &CreateRequest, accepted: &Accepted) -> Result<Created, Error> {
        let mut created = match request {
            CreateRequest::New(request) => self.cluster.create_new(request, accepted).await,
            CreateRequest::Resume(request) => self.cluster.resume(request, accepted).await,
        }?;
        created.warnings.extend(self.cluster.connection().take_warnings());
        Ok(created)
    }

    async fn get(&self, request: &GetRequest) -> Result<Found, Error> {
        let mut found = self.cluster.get_one(request).await?;
        found.warnings.extend(self.cluster.connection().take_warnings());
        Ok(found)
    }

    async fn delete(&self, request: &DeleteRequest) -> Result<Deleted, Error> {
        self.cluster.remove_proxy(request).await
    }

    async fn list_by_tag(&self, filter: &ListFilter) -> Result<Listing, Error> {
        self.cluster.list(filter).await
    }

    async fn adopt(&self, request: &AdoptRequest) -> Result<contract::Adoption, Error> {
        self.cluster.adopt_by_hand(request).await
    }

    async fn check(&self) -> Vec<TargetHealth> {
        self.cluster.health().await
    }
}

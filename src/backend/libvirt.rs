//! Proxies as virtual machines on hosts that run libvirt, reached over SSH: the engine of the backends
//! `kvm` and `kvm2`.
//!
//! It must not know Terraform or another backend, nor which policy it serves. Invariants: a proxy is one
//! domain and the volumes whose names say that they are its own; the volumes are there before the domain and
//! go before it; the domain's metadata alone says what the mark is.

mod address;
mod adopt;
mod capability;
pub mod classify;
pub mod config;
mod connect;
mod create;
mod delete;
mod domain;
pub mod domain_xml;
mod engine;
mod guest;
pub mod health;
mod hosts;
pub mod image;
pub mod iso9660;
mod keys;
mod list;
mod lookup;
mod mark;
pub mod names;
mod observe;
mod order;
pub mod policy;
mod precheck;
pub mod ready;
pub mod resolve;
pub mod seed;
mod state;
#[cfg(test)]
mod testing;
pub mod vendor;
pub mod volume_xml;
mod volumes;
mod xml;

use std::sync::Arc;

use async_trait::async_trait;

use crate::contract::{
    Accepted, AdoptRequest, Adoption, Backend, BackendName, CreateRequest, Created, DeleteRequest, Deleted,
    Error, Found, GetRequest, ListFilter, Listing, Problem, Profile, Resolved, Specification, TargetHealth,
};
use config::LibvirtConfig;
use engine::Engine;
use policy::Policy;

pub use capability::{Guests, HostFacts, domain_type};
pub use connect::{Failure, SshDialer};
pub use hosts::{Dialer, Dialled, Facts, Hosts, Link, Reach};

/// Proxies on hosts that run libvirt, under a policy.
#[derive(Clone, Debug)]
pub struct Libvirt {
    engine: Arc<Engine>,
    profile: &'static Profile,
}

impl Libvirt {
    /// A backend of that name, whose hosts are dialled over SSH. Nothing is dialled or read before its first
    /// operation.
    #[must_use]
    pub fn new(
        name: BackendName,
        policy: &'static Policy,
        profile: &'static Profile,
        config: LibvirtConfig,
    ) -> Self {
        let dialer = Arc::new(SshDialer::new(config.ssh().clone()));
        Self::dialling(name, policy, profile, config, dialer)
    }

    /// The same with another way to the hosts.
    #[must_use]
    pub fn dialling(
        name: BackendName,
        policy: &'static Policy,
        profile: &'static Profile,
        config: LibvirtConfig,
        dialer: Arc<dyn Dialer>,
    ) -> Self {
        Self {
            engine: Arc::new(Engine::new(name, policy, config, dialer)),
            profile,
        }
    }
}

#[async_trait]
impl Backend for Libvirt {
    fn profile(&self) -> &Profile {
        self.profile
    }

    fn resolve(&self, specification: &Specification) -> Result<Resolved, Vec<Problem>> {
        resolve::resolve(&self.engine.config, specification)
    }

    async fn create(&self, request: &CreateRequest, accepted: &Accepted) -> Result<Created, Error> {
        match request {
            CreateRequest::New(request) => self.engine.create_new(request, accepted).await,
            CreateRequest::Resume(request) => self.engine.resume(request, accepted).await,
        }
    }

    async fn get(&self, request: &GetRequest) -> Result<Found, Error> {
        self.engine.get_one(request).await
    }

    async fn delete(&self, request: &DeleteRequest) -> Result<Deleted, Error> {
        self.engine.remove_proxy(request).await
    }

    async fn list_by_tag(&self, filter: &ListFilter) -> Result<Listing, Error> {
        self.engine.list(filter).await
    }

    async fn adopt(&self, request: &AdoptRequest) -> Result<Adoption, Error> {
        self.engine.adopt_by_hand(request).await
    }

    async fn check(&self) -> Vec<TargetHealth> {
        let Engine {
            policy,
            config,
            hosts,
            ..
        } = &*self.engine;
        health::check(policy, config, hosts).await
    }
}

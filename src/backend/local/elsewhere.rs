//! A machine that is not Linux: there are no proxies on it, and every operation says so.
//!
//! It must not touch anything. Invariant: no operation succeeds, and none says that something is absent.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::config::LocalConfig;
use crate::contract::{
    Accepted, AdoptRequest, Adoption, BackendName, Created, DeleteRequest, Deleted, Error, Found, GetRequest,
    HealthReason, ListFilter, Listing, NewInstance, Resume, TargetHealth,
};

/// This machine.
#[derive(Clone, Debug)]
pub(super) struct Machine {
    config: Arc<LocalConfig>,
}

fn refused() -> Error {
    Error::permanent(format!(
        "the backend `local` runs Squid on Linux, and this is {}: run the provider on a Linux machine, or use another \
         backend",
        std::env::consts::OS
    ))
}

impl Machine {
    pub(super) fn new(_name: BackendName, config: LocalConfig) -> Self {
        Self {
            config: Arc::new(config),
        }
    }

    pub(super) fn config(&self) -> &LocalConfig {
        &self.config
    }

    pub(super) async fn create_new(&self, _: &NewInstance, _: &Accepted) -> Result<Created, Error> {
        Err(refused())
    }

    pub(super) async fn resume(&self, _: &Resume, _: &Accepted) -> Result<Created, Error> {
        Err(refused())
    }

    pub(super) async fn find(&self, _: &GetRequest) -> Result<Found, Error> {
        Err(refused())
    }

    pub(super) async fn remove(&self, _: &DeleteRequest) -> Result<Deleted, Error> {
        Err(refused())
    }

    pub(super) async fn adopt_by_hand(&self, _: &AdoptRequest) -> Result<Adoption, Error> {
        Err(refused())
    }

    pub(super) async fn list(&self, _: &ListFilter) -> Result<Listing, Error> {
        Err(refused())
    }

    pub(super) async fn health(&self) -> Vec<TargetHealth> {
        vec![TargetHealth {
            target: "this machine".to_owned(),
            reason: HealthReason::Unreachable,
            message: refused().to_string(),
            latency: Duration::ZERO,
            details: BTreeMap::new(),
        }]
    }
}

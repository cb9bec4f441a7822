//! What every operation of a libvirt backend stands on: its configuration, its connections, its images,
//! and the turns on its proxies.
//!
//! It must not decide what an operation does, nor know which policy it serves. Invariant: an id leads to a
//! host that the configuration names, or to an error.

use std::sync::Arc;

use super::capability::HostFacts;
use super::classify;
use super::config::{Host, LibvirtConfig};
use super::hosts::{Dialer, Facts, Hosts, Link};
use super::image::Images;
use super::keys::Keys;
use super::names::Place;
use super::policy::Policy;
use crate::contract::{BackendName, Error, InstanceId, NativeId, Target, refusal};
use crate::transport::libvirt::types::{Pool, PoolState};
use crate::transport::libvirt::{Code, Error as LibvirtError};

/// One backend at work.
#[derive(Debug)]
pub(super) struct Engine {
    name: BackendName,
    pub(super) policy: &'static Policy,
    pub(super) config: LibvirtConfig,
    pub(super) hosts: Arc<Hosts>,
    pub(super) images: Images,
    pub(super) keys: Keys,
}

impl Engine {
    pub(super) fn new(
        name: BackendName,
        policy: &'static Policy,
        config: LibvirtConfig,
        dialer: Arc<dyn Dialer>,
    ) -> Self {
        Self {
            name,
            policy,
            config,
            hosts: Arc::new(Hosts::new(dialer)),
            images: Images::default(),
            keys: Keys::default(),
        }
    }

    /// The id as a user writes it.
    pub(super) fn full(&self, id: &NativeId) -> InstanceId {
        InstanceId {
            backend: self.name.clone(),
            native: id.clone(),
        }
    }

    /// Takes an id apart.
    ///
    /// # Errors
    /// Permanent where it is malformed, or lies on a host that the configuration does not name.
    pub(super) fn place(&self, id: &NativeId) -> Result<(Place, &Host), Error> {
        let place = Place::parse(id).ok_or_else(|| refusal::malformed(id, Place::GRAMMAR))?;
        match self.config.host(place.host()) {
            Some(host) => Ok((place, host)),
            None => Err(refusal::not_configured(&self.full(id), "host", place.host())),
        }
    }

    /// What a host is.
    ///
    /// # Errors
    /// Where libvirt does not say.
    pub(super) async fn facts<'a>(&self, host: &Host, link: &'a Link) -> Result<&'a HostFacts, Error> {
        link.facts().await.map_err(|why| match why {
            Facts::Unanswered(error) => failed(host, error),
            Facts::Unread => Error::permanent(Facts::Unread.to_string()).on(host.name.as_str()),
        })
    }

    /// What stands behind a host's name.
    ///
    /// # Errors
    /// As [`Engine::facts`].
    pub(super) async fn target(&self, host: &Host, link: &Link) -> Result<Target, Error> {
        let facts = self.facts(host, link).await?;
        Ok(Target::new([("host", facts.uuid.to_string())]))
    }

    /// The pool that disks are kept in, where it can be used.
    ///
    /// # Errors
    /// Permanent, naming host and pool, where it is not there or not running.
    pub(super) async fn usable_pool(&self, host: &Host, link: &Link) -> Result<(Pool, u64), Error> {
        let pool = match link.api.pool(&host.pool).await {
            Ok(pool) => pool,
            Err(error) if classify::says(&error, Code::NO_STORAGE_POOL) => {
                return Err(failed(host, error).with("pool", host.pool.as_str()).with(
                    "hint",
                    "define it on the host, or name another one in `pool` of the host's block",
                ));
            }
            Err(error) => return Err(failed(host, error)),
        };
        let info = link
            .api
            .pool_info(&pool)
            .await
            .map_err(|error| failed(host, error))?;
        match info.state {
            PoolState::Running | PoolState::Degraded => Ok((pool, info.available)),
            PoolState::Inactive | PoolState::Building | PoolState::Inaccessible | PoolState::Other(_) => {
                Err(Error::permanent(format!(
                    "the pool \"{pool}\" of the host \"{host}\" is not running: start it with `virsh pool-start {pool}`",
                    pool = host.pool,
                    host = host.name
                ))
                .on(host.name.as_str()))
            }
        }
    }
}

/// A failure of a host's libvirt.
pub(super) fn failed(host: &Host, error: LibvirtError) -> Error {
    classify::libvirt(error).on(host.name.as_str())
}

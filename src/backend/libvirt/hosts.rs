//! The connections of a libvirt backend: one to each host that is used, and more where one must not
//! stand in the way of others.
//!
//! It must not know how hosts are dialled, nor what is done there. Invariants: a host is dialled once
//! however many wait for it; who waits can leave without disturbing the others; a connection that is
//! down is never handed out.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Shared, WeakShared};
use tokio::sync::OnceCell;

use super::capability::HostFacts;
use super::config::{Host, HostName};
use super::connect::{self, Failure};
use super::observe::Observed;
use crate::contract::Error;
use crate::transport::libvirt::{self, LibvirtApi};
use crate::transport::ssh::ChannelError;

/// The ports that a host reaches.
#[async_trait]
pub trait Reach: Send + Sync {
    /// Whether something listens on that port, as the host sees it.
    ///
    /// # Errors
    /// Why nothing answered, or nobody could be asked.
    async fn reach(&self, address: &str, port: u16) -> Result<(), ChannelError>;
}

/// What a dial gives.
pub struct Dialled {
    /// The host's libvirt.
    pub api: Arc<dyn LibvirtApi>,
    /// The ports that the host reaches.
    pub reach: Arc<dyn Reach>,
}

/// Dials hosts; a test has its own.
#[async_trait]
pub trait Dialer: fmt::Debug + Send + Sync {
    /// A connection of its own.
    ///
    /// # Errors
    /// How far it came.
    ///
    /// # Cancel safety
    /// Dropping this closes what was opened.
    async fn dial(&self, host: &Host) -> Result<Dialled, Failure>;
}

/// A connection to a host's libvirt. Clones are the same connection, which ends with the last of them.
#[derive(Clone)]
pub struct Link {
    /// The host's libvirt; each call of it is seen in spans and in the log.
    pub api: Arc<dyn LibvirtApi>,
    /// The ports that the host reaches.
    pub reach: Arc<dyn Reach>,
    facts: Arc<OnceCell<HostFacts>>,
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link")
            .field("up", &self.api.is_up())
            .finish_non_exhaustive()
    }
}

impl Link {
    fn new(host: &Host, dialled: Dialled) -> Self {
        Self {
            api: Arc::new(Observed::new(host.name.as_str(), dialled.api)),
            reach: dialled.reach,
            facts: Arc::default(),
        }
    }

    /// What the host is; asked once on a connection.
    ///
    /// # Errors
    /// [`Facts::Unanswered`] as the call fails, [`Facts::Unread`] where the answer is no such document.
    pub async fn facts(&self) -> Result<&HostFacts, Facts> {
        self.facts
            .get_or_try_init(|| async {
                let document = self.api.capabilities().await.map_err(Facts::Unanswered)?;
                HostFacts::parse(&document).ok_or(Facts::Unread)
            })
            .await
    }
}

/// Why it is not known what a host is.
#[derive(Debug, thiserror::Error)]
pub enum Facts {
    /// libvirt did not say.
    #[error(transparent)]
    Unanswered(libvirt::Error),
    /// What it said is something else.
    #[error("libvirt's description of the host cannot be understood: it names no UUID")]
    Unread,
}

type Outcome = Result<Link, Arc<Failure>>;
type Dial = BoxFuture<'static, Outcome>;

/// What there is of a host.
#[derive(Default)]
struct Slot {
    link: Option<Link>,
    /// The dial under way; it ends when nobody waits for it any more.
    dial: Option<WeakShared<Dial>>,
}

/// The connections of one backend.
pub struct Hosts {
    dialer: Arc<dyn Dialer>,
    slots: Mutex<HashMap<HostName, Arc<Mutex<Slot>>>>,
}

impl fmt::Debug for Hosts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hosts")
            .field("dialer", &self.dialer)
            .finish_non_exhaustive()
    }
}

impl Hosts {
    /// No connection yet.
    #[must_use]
    pub fn new(dialer: Arc<dyn Dialer>) -> Self {
        Self {
            dialer,
            slots: Mutex::default(),
        }
    }

    /// The connection that all operations on a host share; dialled where there is none that is up.
    ///
    /// # Errors
    /// Permanent, and shared with all that it strikes, where the next dial would fail alike; else
    /// Transient.
    ///
    /// # Cancel safety
    /// Dropping this leaves a dial to those who still wait for it.
    pub async fn pooled(&self, host: &Host) -> Result<Link, Error> {
        let slot = Arc::clone(locked(&self.slots).entry(host.name.clone()).or_default());
        let dial = {
            let mut inner = locked(&slot);
            if let Some(link) = inner.link.as_ref().filter(|link| link.api.is_up()) {
                return Ok(link.clone());
            }
            inner.link = None;
            let under_way = inner.dial.as_ref().and_then(WeakShared::upgrade);
            match under_way.filter(|dial| dial.peek().is_none()) {
                Some(dial) => dial,
                None => {
                    let dial = self.dial_into(host, &slot);
                    inner.dial = dial.downgrade();
                    dial
                }
            }
        };
        dial.await.map_err(|failure| connect::error(host, failure))
    }

    fn dial_into(&self, host: &Host, slot: &Arc<Mutex<Slot>>) -> Shared<Dial> {
        let (dialer, host, slot) = (Arc::clone(&self.dialer), host.clone(), Arc::clone(slot));
        let work = async move {
            let link = Link::new(&host, dialer.dial(&host).await?);
            locked(&slot).link = Some(link.clone());
            Ok(link)
        };
        work.boxed().shared()
    }

    /// A connection for the caller alone, for what would hold up the others or must not depend on them.
    ///
    /// # Errors
    /// As [`Hosts::pooled`].
    pub async fn fresh(&self, host: &Host) -> Result<Link, Error> {
        self.try_fresh(host)
            .await
            .map_err(|failure| connect::error(host, Arc::new(failure)))
    }

    /// [`Hosts::fresh`], with all that is known of a failure.
    ///
    /// # Errors
    /// As the dialer.
    pub async fn try_fresh(&self, host: &Host) -> Result<Link, Failure> {
        Ok(Link::new(host, self.dialer.dial(host).await?))
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic elsewhere leaves nothing half-written here.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
#[path = "hosts/tests.rs"]
mod tests;

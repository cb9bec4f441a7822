//! One domain: found, read, and judged as an instance.
//!
//! It must not write. Invariants: absence is concluded from libvirt's own word that there is no such
//! domain, and from a pool that holds nothing of it; each source of addresses is asked once, and the
//! guest never.

use std::net::IpAddr;
use std::time::Duration;

use futures_util::future::join;

use super::config::Host;
use super::domain::Description;
use super::engine::{Engine, failed};
use super::hosts::Link;
use super::mark::{self, Reading, Tag};
use super::names::Place;
use super::state::{self, Life};
use super::volumes::{self, Owned};
use super::{address, classify, ready};
use crate::contract::{
    Error, Found, GetRequest, Installation, Instance, Mark, Readiness, State, Target, refusal,
};
use crate::transport::call::within;
use crate::transport::libvirt::types::{Domain, DomainState};
use crate::transport::libvirt::{Code, Error as LibvirtError};

/// What asking one source of addresses may take: an agent that hangs must not hold up a plan.
const SOURCE: Duration = Duration::from_secs(10);

/// A domain that was found.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    /// Its handle.
    pub(super) domain: Domain,
    /// Its state.
    pub(super) state: DomainState,
    /// libvirt's number for why it is in that state.
    pub(super) why: i32,
    /// What its XML says.
    pub(super) description: Description,
}

impl Engine {
    /// The domain at `place`; `None` where there is none.
    pub(super) async fn find(&self, host: &Host, link: &Link, place: &Place) -> Result<Option<Seen>, Error> {
        match link.api.domain(place.domain()).await {
            Ok(domain) => self.look(host, link, domain).await,
            Err(error) if classify::says(&error, Code::NO_DOMAIN) => Ok(None),
            Err(error) => Err(failed(host, error)),
        }
    }

    /// What there is of a domain; `None` where it went away.
    pub(super) async fn look(&self, host: &Host, link: &Link, domain: Domain) -> Result<Option<Seen>, Error> {
        let (xml, state) = join(link.api.domain_xml(&domain, 0), link.api.state(&domain)).await;
        let gone = |error: &LibvirtError| classify::says(error, Code::NO_DOMAIN);
        let (xml, (state, why)) = match (xml, state) {
            (Ok(xml), Ok(state)) => (xml, state),
            (Err(error), _) | (_, Err(error)) if gone(&error) => return Ok(None),
            (Err(error), _) | (_, Err(error)) => return Err(failed(host, error)),
        };
        let description = self.described(host, &domain, &xml)?;
        Ok(Some(Seen {
            domain,
            state,
            why,
            description,
        }))
    }

    /// What a domain's XML says.
    pub(super) fn described(&self, host: &Host, domain: &Domain, xml: &str) -> Result<Description, Error> {
        let place = Place::at(host.name.as_str(), &domain.name);
        Description::read(self.policy, place.as_ref(), xml).ok_or_else(|| {
            Error::transient(format!(
                "libvirt's description of the domain \"{}\" cannot be understood",
                domain.name
            ))
            .on(host.name.as_str())
        })
    }

    /// What is marked on a domain.
    ///
    /// # Errors
    /// Permanent where it carries no mark, or one that cannot be read.
    pub(super) fn tag_of<'a>(&self, place: &Place, seen: &'a Seen) -> Result<&'a Tag, Error> {
        let full = self.full(place.id());
        match &seen.description.reading {
            Reading::Marked(tag) => Ok(tag),
            Reading::Unmarked => Err(refusal::unmarked(&full)),
            Reading::Unreadable(why) => Err(mark::unreadable(self.policy, &full, why)),
        }
    }

    /// The instance that a domain is under that tag.
    pub(super) async fn instance(
        &self,
        host: &Host,
        link: &Link,
        place: &Place,
        seen: &Seen,
        tag: &Tag,
        target: &Target,
    ) -> Result<Instance, Error> {
        let (state, started, ip, reason) = match state::life(seen.state) {
            Life::Runs => match self.address(host, link, seen).await? {
                (Some(ip), _) => (State::Running, true, Some(ip), None),
                (None, tried) => (State::Provisioning, true, None, Some(tried)),
            },
            Life::Starting => {
                let reason = state::reason(seen.state, seen.why);
                (State::Provisioning, false, None, Some(reason))
            }
            Life::Paused | Life::Asleep | Life::Leaving | Life::Off => {
                let reason = state::reason(seen.state, seen.why);
                (State::Stopped, false, None, Some(reason))
            }
        };
        Ok(Instance {
            started,
            ip,
            reason,
            labels: tag.user_labels(),
            ..outline(place, &tag.mark, target, state)
        })
    }

    /// The address of a domain that runs, or what was tried. A source that fails is passed over, since each
    /// has hosts on which it does not work.
    async fn address(
        &self,
        host: &Host,
        link: &Link,
        seen: &Seen,
    ) -> Result<(Option<IpAddr>, String), Error> {
        let mut tried = Vec::new();
        for source in self.policy.addresses {
            let asked = within(
                SOURCE,
                address::name(source),
                link.api.addresses(&seen.domain, source),
            );
            let told = match asked.await.unwrap_or_else(|overran| Err(overran.into())) {
                Ok(interfaces) => match address::choose(&interfaces, &seen.description.hardware) {
                    Some(ip) => return Ok((Some(ip), String::new())),
                    None => "none".to_owned(),
                },
                Err(LibvirtError::Remote { error, .. }) => error.message,
                Err(LibvirtError::Overran(overran)) => overran.to_string(),
                Err(error) => return Err(failed(host, error)),
            };
            tried.push(format!("{}: {told}", address::name(source)));
        }
        let tried = tried.join("; ");
        Ok((
            None,
            format!("it runs, and its address is not known yet ({tried})"),
        ))
    }

    pub(super) async fn get_one(&self, request: &GetRequest) -> Result<Found, Error> {
        let (place, host) = self.place(&request.id)?;
        let full = self.full(&request.id);
        let link = self.hosts.pooled(host).await?;
        let (found, target) = join(self.find(host, &link, &place), self.target(host, &link)).await;
        let (found, target) = (found?, target?);
        let Some(seen) = found else {
            let remains = match request.incarnation {
                Some(_) => self.remains(host, &link, &place, &request.installation).await?,
                // An import has nothing to take over in them.
                None => Owned::new(),
            };
            return match (remains.into_keys().next(), request.incarnation) {
                (Some(stem), Some(incarnation)) => Ok(Found {
                    instance: left_over(&place, &stem, incarnation, &target),
                    readiness: request
                        .probe
                        .then(|| Readiness::NotReady(State::Terminated.to_string())),
                    warnings: Vec::new(),
                }),
                _ => request.absent(refusal::absent(&full), &full, &target),
            };
        };
        let tag = self.tag_of(&place, &seen)?;
        request.holds(&tag.mark, &full, &target)?;
        let instance = self.instance(host, &link, &place, &seen, tag, &target).await?;
        let readiness = match (request.probe, instance.ip) {
            (false, _) => None,
            (true, Some(ip)) => {
                let port = tag.mark.facts.port.unwrap_or(crate::contract::spec::DEFAULT_PORT);
                Some(ready::probe(&link, ip, port).await)
            }
            (true, None) => {
                let reason = instance.reason.clone();
                Some(Readiness::NotReady(
                    reason.unwrap_or_else(|| instance.state.to_string()),
                ))
            }
        };
        Ok(Found {
            instance,
            readiness,
            warnings: Vec::new(),
        })
    }

    /// What is left of the installation's proxy at `place`, where there is no domain any more.
    pub(super) async fn remains(
        &self,
        host: &Host,
        link: &Link,
        place: &Place,
        installation: &Installation,
    ) -> Result<Owned, Error> {
        let owned = self.owned(host, link).await?;
        let here: Owned = owned
            .into_iter()
            .filter(|(stem, _)| place.holds(&stem.key) && stem.key.installation == *installation)
            .collect();
        self.unused(host, link, here).await
    }

    /// The volumes in the pool that creates under this policy made.
    pub(super) async fn owned(&self, host: &Host, link: &Link) -> Result<Owned, Error> {
        let volumes = match link.api.pool(&host.pool).await {
            Ok(pool) => link.api.volumes(&pool).await,
            // Where the pool is gone, so is what was in it.
            Err(error) if classify::says(&error, Code::NO_STORAGE_POOL) => Ok(Vec::new()),
            Err(error) => Err(error),
        };
        let volumes = volumes.map_err(|error| failed(host, error).with("pool", host.pool.as_str()))?;
        Ok(volumes::owned(self.policy, volumes))
    }

    /// Those of these volumes that no domain uses, whatever it is called: somebody may have renamed one.
    pub(super) async fn unused(&self, host: &Host, link: &Link, mut these: Owned) -> Result<Owned, Error> {
        if these.is_empty() {
            return Ok(these);
        }
        let all = link.api.domains(0).await.map_err(|error| failed(host, error))?;
        for (domain, description) in self.describe_all(host, link, all).await? {
            match description {
                Ok(description) => {
                    for stem in description.stems() {
                        these.remove(&stem);
                    }
                }
                // What cannot be read may use any of them.
                Err(error) => return Err(error.with("domain", domain.name)),
            }
        }
        Ok(these)
    }
}

/// An instance of which nothing is known yet but its mark.
pub(super) fn outline(place: &Place, mark: &Mark, target: &Target, state: State) -> Instance {
    Instance {
        id: place.id().clone(),
        mark: mark.clone(),
        target: target.clone(),
        state,
        started: false,
        ip: None,
        // It leaves through the host's network, by a route that is not known here.
        egress_ip: None,
        created_at: mark.created_at,
        labels: Default::default(),
        reason: None,
    }
}

/// What is said of an instance of which volumes alone are left: they name it, and no facts of it.
fn left_over(
    place: &Place,
    stem: &volumes::Stem,
    incarnation: crate::contract::Incarnation,
    target: &Target,
) -> Instance {
    let mark = Mark {
        key: stem.key.clone(),
        uid: stem.uid,
        incarnation,
        pending: false,
        label_keys: Default::default(),
        created_at: stem.incarnation.made_at(),
        spec_sha256: String::new(),
        facts: Default::default(),
        given: Default::default(),
    };
    Instance {
        reason: Some("its domain is gone, and only its volumes are left".to_owned()),
        ..outline(place, &mark, target, State::Terminated)
    }
}

//! The listing of all hosts, side by side.
//!
//! It must not write. Invariants: a listing says of a domain what a read of it alone says; however many
//! domains a host has, they are asked for together, so that a listing takes as many round trips as one
//! read; what could not be read is named.

use std::collections::HashMap;

use futures_util::FutureExt as _;
use futures_util::future::{join_all, join3};
use futures_util::stream::{self, StreamExt as _};

use super::classify;
use super::config::Host;
use super::domain::Description;
use super::engine::{Engine, failed};
use super::hosts::Link;
use super::lookup::Seen;
use super::mark::{self, Reading};
use super::names::Place;
use super::volumes::{Owned, Stem};
use crate::contract::{Error, Instance, InstanceKey, ListFilter, Listing, Secondary, Target, Unreadable};
use crate::transport::libvirt::types::{Domain, DomainState, Figure};
use crate::transport::libvirt::{Code, Error as LibvirtError};

/// How many calls of one listing are under way on a connection: enough to keep libvirtd busy, few enough
/// that another operation's call does not wait long behind them.
const IN_FLIGHT: usize = 256;
/// `VIR_DOMAIN_STATS_STATE`.
const STATS_STATE: u32 = 1;

/// A domain of a listing, and what libvirt's XML says of it.
type Described = (Domain, Result<Description, Error>);

impl Engine {
    pub(super) async fn list(&self, filter: &ListFilter) -> Result<Listing, Error> {
        let hosts = self.config.hosts().values();
        let listed =
            join_all(hosts.map(|host| async move { (host, self.list_host(host, filter).await) })).await;
        let mut listing = Listing::default();
        let mut failed = Vec::new();
        let all = listed.len();
        for (host, part) in listed {
            match part {
                Ok(part) => {
                    listing.instances.extend(part.instances);
                    listing.secondary.extend(part.secondary);
                    listing.unreadable.extend(part.unreadable);
                }
                Err(error) => failed.push(Unreadable {
                    scope: format!("host {}", host.name),
                    prefix: host.name.id_prefix(),
                    error,
                }),
            }
        }
        if failed.len() == all
            && let Some(part) = failed.pop()
        {
            // Nothing at all could be listed: that is a failure, not a partial listing.
            return Err(part.error);
        }
        listing.unreadable.extend(failed);
        Ok(listing)
    }

    async fn list_host(&self, host: &Host, filter: &ListFilter) -> Result<Listing, Error> {
        let link = self.hosts.pooled(host).await?;
        // Volumes first, or beside: one whose domain was defined since is not taken for one without.
        let (owned, target, states) = join3(
            self.owned(host, &link),
            self.target(host, &link),
            self.states(host, &link),
        )
        .await;
        let (target, states) = (target?, states?);
        let domains = states.keys().cloned().collect();
        let mut described = self.describe_all(host, &link, domains).await?;
        described.sort_by(|(a, _), (b, _)| a.name.cmp(&b.name));
        let mut listing = Listing::default();
        let used: Vec<Stem> = described
            .iter()
            .filter_map(|(_, description)| description.as_ref().ok())
            .flat_map(Description::stems)
            .collect();
        match owned {
            Ok(owned) => listing.secondary = left_over(host, owned, &used, filter),
            Err(error) => listing.unreadable.push(Unreadable {
                scope: format!("pool {} of host {}", host.pool, host.name),
                prefix: host.name.id_prefix(),
                error,
            }),
        }
        let mut ours = Vec::new();
        for (domain, description) in described {
            // A name that fits into no id is none that this provider gave.
            let Some(place) = Place::at(host.name.as_str(), &domain.name) else {
                continue;
            };
            let unreadable = |error| Unreadable {
                scope: format!("domain {} of host {}", domain.name, host.name),
                prefix: place.id().to_string(),
                error,
            };
            match description {
                Err(error) => listing.unreadable.push(unreadable(error)),
                Ok(description) => match &description.reading {
                    Reading::Unmarked => {}
                    Reading::Unreadable(why) => {
                        let error = mark::unreadable(self.policy, &self.full(place.id()), why);
                        listing.unreadable.push(unreadable(error));
                    }
                    Reading::Marked(tag) if is_wanted(filter, &tag.mark.key) => {
                        let (state, why) = states.get(&domain).copied().unwrap_or((DomainState::None, 0));
                        ours.push((
                            place,
                            Seen {
                                domain,
                                state,
                                why,
                                description,
                            },
                        ));
                    }
                    Reading::Marked(_) => {}
                },
            }
        }
        listing.instances = self.instances(host, &link, &ours, &target).await?;
        Ok(listing)
    }

    /// The instances that domains are; each is asked for its address beside the others.
    async fn instances(
        &self,
        host: &Host,
        link: &Link,
        ours: &[(Place, Seen)],
        target: &Target,
    ) -> Result<Vec<Instance>, Error> {
        let mut asked = Vec::with_capacity(ours.len());
        for (place, seen) in ours {
            let one = async move {
                let tag = self.tag_of(place, seen)?;
                self.instance(host, link, place, seen, tag, target).await
            };
            asked.push(one.boxed());
        }
        let found: Vec<_> = stream::iter(asked).buffered(IN_FLIGHT).collect().await;
        found.into_iter().collect()
    }

    /// Every domain with its state.
    async fn states(&self, host: &Host, link: &Link) -> Result<HashMap<Domain, (DomainState, i32)>, Error> {
        match link.api.domain_stats(&[], STATS_STATE).await {
            Ok(stats) => Ok(stats
                .into_iter()
                .map(|of_one| {
                    let figure = |name: &str| {
                        let (_, figure) = of_one.figures.iter().find(|(own, _)| own == name)?;
                        match figure {
                            Figure::Int(number) => Some(*number),
                            Figure::UnsignedInt(number) => i32::try_from(*number).ok(),
                            Figure::Long(_)
                            | Figure::UnsignedLong(_)
                            | Figure::Double(_)
                            | Figure::Boolean(_)
                            | Figure::Text(_) => None,
                        }
                    };
                    let state = figure("state.state").unwrap_or_default();
                    let why = figure("state.reason").unwrap_or_default();
                    (of_one.domain, (state.into(), why))
                })
                .collect()),
            // A driver without it, or a daemon before 1.2.8.
            Err(error) if classify::is_unknown_call(&error) => self.states_one_by_one(host, link).await,
            Err(error) => Err(failed(host, error)),
        }
    }

    async fn states_one_by_one(
        &self,
        host: &Host,
        link: &Link,
    ) -> Result<HashMap<Domain, (DomainState, i32)>, Error> {
        let domains = link.api.domains(0).await.map_err(|error| failed(host, error))?;
        let asked = domains.into_iter().map(|domain| async move {
            let state = link.api.state(&domain).await;
            (domain, state)
        });
        let mut states = HashMap::new();
        let mut told = stream::iter(asked).buffer_unordered(IN_FLIGHT);
        while let Some((domain, state)) = told.next().await {
            match state {
                Ok(state) => drop(states.insert(domain, state)),
                Err(error) if classify::says(&error, Code::NO_DOMAIN) => {}
                Err(error) => return Err(failed(host, error)),
            }
        }
        Ok(states)
    }

    /// What libvirt's XML says of each of these domains. Those that went away are left out; where the
    /// connection fails, all of it does.
    pub(super) async fn describe_all(
        &self,
        host: &Host,
        link: &Link,
        domains: Vec<Domain>,
    ) -> Result<Vec<Described>, Error> {
        let asked = domains.into_iter().map(|domain| async move {
            let xml = link.api.domain_xml(&domain, 0).await;
            (domain, xml)
        });
        let mut described = Vec::new();
        let mut told = stream::iter(asked).buffer_unordered(IN_FLIGHT);
        while let Some((domain, xml)) = told.next().await {
            let description = match xml {
                Ok(xml) => self.described(host, &domain, &xml),
                Err(error) if classify::says(&error, Code::NO_DOMAIN) => continue,
                Err(error @ LibvirtError::Remote { .. }) => Err(failed(host, error)),
                Err(error) => return Err(failed(host, error)),
            };
            described.push((domain, description));
        }
        Ok(described)
    }
}

fn is_wanted(filter: &ListFilter, key: &InstanceKey) -> bool {
    key.installation == filter.installation
        && filter
            .namespace
            .as_ref()
            .is_none_or(|namespace| key.namespace == *namespace)
}

/// Volumes whose domain is gone.
fn left_over(host: &Host, owned: Owned, used: &[Stem], filter: &ListFilter) -> Vec<Secondary> {
    owned
        .into_iter()
        .filter(|(stem, _)| is_wanted(filter, &stem.key) && !used.contains(stem))
        .filter_map(|(stem, volumes)| {
            Some(Secondary {
                id: Place::of(host.name.as_str(), &stem.key)?.id().clone(),
                uid: stem.uid,
                kind: "volume",
                name: volumes.into_iter().next()?.name,
                created_at: stem.incarnation.made_at(),
            })
        })
        .collect()
}

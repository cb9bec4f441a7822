//! Create and resume: who may have the name, then volumes, the domain, its start, and the handover.
//!
//! It must not decide what a mark means to others: that is the contract's. Invariants: whoever defines the
//! domain has the name, and only then is anything of others' making removed; a domain is pending from its
//! definition on and handed over last; no volume is trusted that this create did not make.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::FutureExt as _;
use jiff::Timestamp;

use super::classify;
use super::config::Host;
use super::engine::{Engine, failed};
use super::hosts::Link;
use super::lookup::{Seen, outline};
use super::mark::{self, Tag};
use super::names::Place;
use super::order::Order;
use super::state::{self, Life};
use super::volumes::Stem;
use crate::contract::{
    Accepted, Adopted, Created, Error, Instance, InstanceId, Mark, NewInstance, Resume, State, Target,
    refusal,
};
use crate::transport::libvirt::types::Domain;
use crate::transport::libvirt::{Code, Error as LibvirtError};

/// How often a create looks again after another one was faster.
const LOOKS: u32 = 3;

/// A domain that an operation finishes, and what it is finished with.
struct Finish<'a> {
    place: &'a Place,
    full: &'a InstanceId,
    host: &'a Host,
    link: &'a Link,
    target: &'a Target,
    /// What the volumes are rebuilt by, should they be missing.
    order: Option<&'a Order<'a>>,
    /// The labels it gets, and the keys that the state says were the user's.
    labels: &'a BTreeMap<String, String>,
    prior: &'a BTreeSet<String>,
    adopted: Adopted,
}

/// Whether a create may take over, or go on with, what it found under the name.
fn claimed(order: &Order<'_>, mark: &Mark) -> Result<Adopted, Error> {
    let NewInstance { key, .. } = order.request;
    mark.belongs_to(&key.installation, &order.full)?;
    if mark.key != *key {
        return Err(Error::permanent(format!(
            "\"{}\" is the proxy \"{}\" of the namespace \"{}\": a domain's name has no room for a namespace beside it, \
             and the two make the same name. Choose another name.",
            order.full, mark.key.name, mark.key.namespace
        )));
    }
    order.request.claims(mark, &order.full)?;
    order.request.adopts(mark, &order.full)
}

impl Engine {
    pub(super) async fn create_new(
        &self,
        request: &NewInstance,
        accepted: &Accepted,
    ) -> Result<Created, Error> {
        let order = self.order(request)?;
        let _held = self.keys.hold(order.place.id()).await;
        let link = self.hosts.pooled(order.host).await?;
        let target = self.target(order.host, &link).await?;
        for _ in 0..LOOKS {
            let made = match self.find(order.host, &link, &order.place).await? {
                None => self.make(&order, &link, &target, accepted).await?,
                Some(seen) => {
                    let tag = self.tag_of(&order.place, &seen)?.clone();
                    let adopted = claimed(&order, &tag.mark)?;
                    let taken = self
                        .take_over(&order, &link, &target, adopted, &seen, tag, accepted)
                        .await?;
                    Some(taken)
                }
            };
            if let Some(created) = made {
                return Ok(created);
            }
        }
        Err(refusal::vanished(&order.full, request.incarnation))
    }

    /// Makes volumes and domain; `None` where another create was faster.
    async fn make(
        &self,
        order: &Order<'_>,
        link: &Link,
        target: &Target,
        accepted: &Accepted,
    ) -> Result<Option<Created>, Error> {
        let mark = order.request.pending_mark(Some(Timestamp::now()));
        let machine = self.machine(order.host, link).await?;
        let report = || {
            accepted.report(Instance {
                labels: order.request.labels.clone(),
                ..outline(&order.place, &mark, target, State::Provisioning)
            });
        };
        let files = self.furnish(order, link, &order.stem, report).await?;
        let tag = Tag {
            mark: mark.clone(),
            pool: Some(order.host.pool.clone()),
            stem: Some(order.stem.clone()),
            labels: order.request.labels.clone(),
        };
        let metadata = mark::in_domain(self.policy, &tag)?;
        let xml = self.domain_xml(order, &machine, &files, &metadata);
        let domain = match self.define(link, &xml).await {
            Ok(domain) => domain,
            Err(error @ LibvirtError::Remote { .. }) => {
                // Whatever code a release has for a name that is taken: the domain is there, and not ours.
                if self.find(order.host, link, &order.place).await?.is_none() {
                    return Err(failed(order.host, error));
                }
                self.remove_volumes(order.host, link, &order.host.pool, &order.stem)
                    .await?;
                return Ok(None);
            }
            Err(error) => return Err(failed(order.host, error)),
        };
        let Some(seen) = self.look(order.host, link, domain).await? else {
            return Err(refusal::vanished(&order.full, order.request.incarnation));
        };
        let finish = Finish::of(order, link, target, Adopted::No);
        self.finish(&finish, seen, tag, accepted).await.map(Some)
    }

    async fn define(&self, link: &Link, xml: &str) -> Result<Domain, LibvirtError> {
        match link.api.define(xml, 0).await {
            Err(error) if classify::says(&error, Code::NO_SUPPORT) => link.api.define_plain(xml).await,
            outcome => outcome,
        }
    }

    /// Makes a domain that is there already this create's own, and finishes it.
    #[expect(clippy::too_many_arguments, reason = "each was resolved by the caller")]
    async fn take_over(
        &self,
        order: &Order<'_>,
        link: &Link,
        target: &Target,
        adopted: Adopted,
        seen: &Seen,
        mut tag: Tag,
        accepted: &Accepted,
    ) -> Result<Created, Error> {
        if adopted != Adopted::No {
            tag.mark = Mark {
                incarnation: order.request.incarnation,
                pending: true,
                given: order.request.given.clone(),
                ..tag.mark
            };
            self.write(order.host, link, seen, &tag).await?;
        }
        let instance = self
            .instance(order.host, link, &order.place, seen, &tag, target)
            .await?;
        accepted.report(instance);
        let finish = Finish::of(order, link, target, adopted);
        self.finish(&finish, seen.clone(), tag, accepted).await
    }

    pub(super) async fn resume(&self, request: &Resume, accepted: &Accepted) -> Result<Created, Error> {
        let (place, host) = self.place(&request.id)?;
        let full = self.full(&request.id);
        let _held = self.keys.hold(place.id()).await;
        let link = self.hosts.pooled(host).await?;
        let target = self.target(host, &link).await?;
        let Some(seen) = self.find(host, &link, &place).await? else {
            return Err(refusal::plan_again(&full, "it does not exist any more"));
        };
        let tag = self.tag_of(&place, &seen)?.clone();
        request.holds(&tag.mark, &full)?;
        let instance = self.instance(host, &link, &place, &seen, &tag, &target).await?;
        accepted.report(instance);
        let finish = Finish {
            place: &place,
            full: &full,
            host,
            link: &link,
            target: &target,
            order: None,
            labels: &request.labels,
            prior: &request.prior_label_keys,
            adopted: Adopted::No,
        };
        self.finish(&finish, seen, tag, accepted).await
    }

    /// Makes a domain run that is this operation's own, clears away what others left, and hands it over.
    async fn finish(
        &self,
        of: &Finish<'_>,
        seen: Seen,
        tag: Tag,
        accepted: &Accepted,
    ) -> Result<Created, Error> {
        let Finish { host, link, .. } = *of;
        self.set_running(of, &seen, &tag).await?;
        if let Some(order) = of.order {
            self.sweep(order, link, tag.stem.as_ref()).await?;
        }
        // It is looked at again: another process may have taken it over since.
        let vanished = || refusal::vanished(of.full, tag.mark.incarnation);
        let seen = self.look(host, link, seen.domain).await?.ok_or_else(vanished)?;
        let now = self.tag_of(of.place, &seen)?.clone();
        if now.mark.incarnation != tag.mark.incarnation || now.mark.uid != tag.mark.uid {
            return Err(vanished());
        }
        let mut now = now.relabelled(of.labels, of.prior);
        now.mark.pending = false;
        self.write(host, link, &seen, &now).await?;
        let instance = self
            .instance(host, link, of.place, &seen, &now, of.target)
            .await?;
        accepted.report(instance.clone());
        Ok(Created::of(instance, of.adopted, of.full))
    }

    /// Writes a mark onto a domain, and where it runs onto what runs.
    pub(super) async fn write(&self, host: &Host, link: &Link, seen: &Seen, tag: &Tag) -> Result<(), Error> {
        let flags = state::affected(seen.state);
        let element = mark::alone(tag)?;
        let Self { policy, .. } = self;
        link.api
            .set_metadata(
                &seen.domain,
                policy.namespace,
                policy.prefix,
                Some(&element),
                flags,
            )
            .await
            .map_err(|error| failed(host, error))
    }

    /// Starts, resumes or wakes what does not run.
    async fn set_running(&self, of: &Finish<'_>, seen: &Seen, tag: &Tag) -> Result<(), Error> {
        let Finish { host, link, .. } = *of;
        let domain = &seen.domain;
        let outcome = match state::life(seen.state) {
            Life::Runs | Life::Starting => return Ok(()),
            Life::Leaving => {
                return Err(Error::transient(format!(
                    "\"{}\" is shutting down, and can be started when it has",
                    of.full
                )));
            }
            Life::Paused => link.api.resume(domain).await,
            Life::Asleep => link.api.wake(domain).await,
            Life::Off => {
                if let (Some(order), Some(stem)) = (of.order, &tag.stem) {
                    self.restore(order, link, stem).await?;
                }
                link.api.start(domain).await
            }
        };
        match outcome {
            Ok(()) => Ok(()),
            // Somebody was faster, or it is in another state by now.
            Err(error) if classify::says(&error, Code::OPERATION_INVALID) => {
                let (now, _) = link
                    .api
                    .state(domain)
                    .await
                    .map_err(|error| failed(host, error))?;
                match state::life(now) {
                    Life::Runs => Ok(()),
                    Life::Starting | Life::Paused | Life::Asleep | Life::Leaving | Life::Off => {
                        Err(failed(host, error).with("domain", domain.name.as_str()))
                    }
                }
            }
            Err(error) => Err(failed(host, error).with("domain", domain.name.as_str())),
        }
    }

    /// Removes what earlier creates of this proxy left, now that the name is this one's.
    async fn sweep(&self, order: &Order<'_>, link: &Link, keep: Option<&Stem>) -> Result<(), Error> {
        let key = &order.request.key;
        let mut left = self.owned(order.host, link).await?;
        left.retain(|stem, _| stem.key == *key && Some(stem) != keep);
        for (stem, _) in self.unused(order.host, link, left).await? {
            self.remove_volumes(order.host, link, &order.host.pool, &stem)
                .await?;
        }
        Ok(())
    }

    /// A connection of its own to that host, for an upload.
    pub(super) fn apart(&self, host: &Host) -> impl FnOnce() -> super::image::Fresh + Send + 'static {
        let (hosts, host) = (std::sync::Arc::clone(&self.hosts), host.clone());
        move || async move { Ok(hosts.fresh(&host).await?.api) }.boxed()
    }
}

impl<'a> Finish<'a> {
    fn of(order: &'a Order<'a>, link: &'a Link, target: &'a Target, adopted: Adopted) -> Self {
        static NONE: BTreeSet<String> = BTreeSet::new();
        Self {
            place: &order.place,
            full: &order.full,
            host: order.host,
            link,
            target,
            order: Some(order),
            labels: &order.request.labels,
            prior: &NONE,
            adopted,
        }
    }
}

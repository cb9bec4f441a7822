//! Adopt: a domain that carries no mark, that of another installation, or that of the other policy.
//!
//! It must not change anything but marks. Invariants: of a domain of other making only its host is known;
//! one that this provider made says in its volumes' names whose it was; never are two policies' marks left
//! on one domain.

use std::collections::BTreeSet;

use super::config::Host;
use super::engine::{Engine, failed};
use super::hosts::Link;
use super::lookup::Seen;
use super::mark::{self, Reading, Tag};
use super::names::Place;
use super::state;
use crate::contract::adoption::{Course, Findings, course};
use crate::contract::{AdoptRequest, Adoption, Error, Fact, Facts, InstanceKey, refusal};

/// What a proxy here has.
const FACTS: [Fact; 6] = [
    Fact::Port,
    Fact::Zone,
    Fact::MachineType,
    Fact::Image,
    Fact::AllowedCidrs,
    Fact::AllowedPorts,
];

impl Engine {
    pub(super) async fn adopt_by_hand(&self, request: &AdoptRequest) -> Result<Adoption, Error> {
        let (place, host) = self.place(&request.id)?;
        let full = self.full(&request.id);
        let _held = self.keys.hold(place.id()).await;
        let link = self.hosts.pooled(host).await?;
        let target = self.target(host, &link).await?;
        let seen = self
            .find(host, &link, &place)
            .await?
            .ok_or_else(|| refusal::absent(&full))?;
        let mut tag = None;
        let (found, key) = match &seen.description.reading {
            Reading::Marked(there) => {
                tag = Some((**there).clone());
                let mut key = there.mark.key.clone();
                key.installation = request.installation.clone();
                let found = Findings {
                    mark: Some(there.mark.clone()),
                    ..Findings::default()
                };
                (found, key)
            }
            Reading::Unmarked => (shown(host, &seen), self.key_of(&place, &seen, request)?),
            Reading::Unreadable(why) => return Err(mark::unreadable(self.policy, &full, why)),
        };
        let course = course(request, &full, key, found)?;
        let is_new = tag.is_none();
        let mut tag = tag.unwrap_or_else(|| carried(&seen, course.mark().clone()));
        tag.mark = course.mark().clone();
        if let Course::Write(_) = course {
            self.write(host, &link, &seen, &tag).await?;
            self.strip_others(host, &link, &seen).await?;
        }
        let unknown = if is_new {
            let known = tag.mark.facts.present();
            FACTS.into_iter().filter(|fact| !known.contains(fact)).collect()
        } else {
            BTreeSet::new()
        };
        let instance = self.instance(host, &link, &place, &seen, &tag, &target).await?;
        Ok(Adoption { instance, unknown })
    }

    /// The key of a domain without our mark: the one that its volumes or another policy's mark name, else
    /// the one that follows from its name.
    fn key_of(&self, place: &Place, seen: &Seen, request: &AdoptRequest) -> Result<InstanceKey, Error> {
        let stems = seen.description.stems().into_iter().map(|stem| stem.key);
        let marks = seen.description.others.iter();
        let marks = marks.filter_map(|(_, tag)| Some(tag.as_ref()?.mark.key.clone()));
        let known = marks.chain(stems).find(|key| place.holds(key));
        let key = match known {
            Some(key) => Some(InstanceKey {
                installation: request.installation.clone(),
                ..key
            }),
            None => place.key(&request.installation),
        };
        key.ok_or_else(|| {
            let why = "its name is none that a proxy can have: rename it with `virsh domrename`";
            refusal::not_adoptable(&self.full(place.id()), why)
        })
    }

    /// Removes the marks of other policies: their backends would go on taking the domain for theirs.
    async fn strip_others(&self, host: &Host, link: &Link, seen: &Seen) -> Result<(), Error> {
        let flags = state::affected(seen.state);
        for (namespace, _) in &seen.description.others {
            let removed = link
                .api
                .set_metadata(&seen.domain, namespace, self.policy.prefix, None, flags)
                .await;
            removed.map_err(|error| failed(host, error))?;
        }
        Ok(())
    }
}

/// What a domain without our mark shows.
fn shown(host: &Host, seen: &Seen) -> Findings {
    let other = seen.description.others.iter().find_map(|(_, tag)| tag.as_ref());
    match other {
        Some(tag) => Findings {
            mark: None,
            facts: tag.mark.facts.clone(),
            created_at: tag.mark.created_at,
        },
        None => Findings {
            mark: None,
            facts: Facts {
                zone: Some(host.name.to_string()),
                ..Facts::default()
            },
            created_at: seen
                .description
                .stems()
                .first()
                .and_then(|stem| stem.incarnation.made_at()),
        },
    }
}

/// The tag of a domain that had none under this policy: what another policy's says of volumes and labels
/// stays true, and so does what its disks show.
fn carried(seen: &Seen, mark: crate::contract::Mark) -> Tag {
    let other = seen.description.others.iter().find_map(|(_, tag)| tag.clone());
    match other {
        Some(tag) => Tag { mark, ..tag },
        None => Tag {
            mark,
            pool: None,
            stem: seen.description.stems().into_iter().next(),
            labels: Default::default(),
        },
    }
}

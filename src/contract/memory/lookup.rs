//! Get and list of the reference backend.
//!
//! It must not change what is there; time passing for an instance on its way is the world's own
//! business. Invariant: absence is concluded last, after everything that could explain it otherwise.

use super::world::{Place, Power, Record, World};
use super::{Memory, unreachable};
use crate::contract::error::{Error, Operation};
use crate::contract::model::{Instance, ListFilter, Listing, NativeId, Secondary, State, Unreadable};
use crate::contract::profile::{ListPartial, SecondaryResources};
use crate::contract::{Found, GetRequest, Readiness, refusal};

impl Memory {
    pub(super) async fn find(&self, request: &GetRequest) -> Result<Found, Error> {
        let place = self.place(&request.id)?;
        self.store().count(Operation::Get, request.id.as_str())?;
        self.call(Operation::Get, None, request.id.as_str()).await?;
        self.answering(&place.zone)?;
        let (found, moving) = self.store().read(|world| {
            let found = self.judge(world, request, &place);
            let moving = world
                .record(&request.id)
                .is_some_and(|record| matches!(record.power, Power::Starting(_) | Power::Leaving(_)));
            (found, moving)
        })?;
        if moving {
            // The world goes on by itself; a get is only how it notices that time passed.
            self.store().change(|world| {
                pass_time(world, &request.id);
                Ok(())
            })?;
        }
        found
    }

    fn judge(&self, world: &World, request: &GetRequest, place: &Place) -> Result<Found, Error> {
        let full = self.full(&request.id);
        let target = world.target(&place.zone);
        let Some(record) = world.record(&request.id) else {
            if let Some(instance) = self.remains(world, request) {
                return Ok(Found {
                    instance,
                    readiness: request.probe.then(|| Readiness::NotReady("it ended".to_owned())),
                    warnings: Vec::new(),
                });
            }
            return request.absent(refusal::absent(&full), &full, &target);
        };
        if !record.readable {
            return Err(unreadable(&request.id));
        }
        let Some(mark) = &record.mark else {
            return Err(refusal::unmarked(&full));
        };
        request.holds(mark, &full, &target)?;
        let instance = self.instance(world, &request.id, record, mark);
        let readiness = request.probe.then(|| ready(&instance, record));
        Ok(Found {
            instance,
            readiness,
            warnings: Vec::new(),
        })
    }

    /// What is left of an instance that is gone: these alone are Terminated, so that a deletion cut
    /// off halfway is finished. An import has nothing to take over in them.
    fn remains(&self, world: &World, request: &GetRequest) -> Option<Instance> {
        if self.settings.profile.secondary_resources != SecondaryResources::Explicit {
            return None;
        }
        let incarnation = request.incarnation?;
        let left = world
            .secondary(&request.id)
            .find(|left| left.mark.key.installation == request.installation)?;
        let mut mark = left.mark.clone();
        mark.incarnation = incarnation;
        mark.pending = false;
        let record = Record {
            power: Power::Terminated,
            ..Record::new(mark.clone(), std::net::Ipv4Addr::UNSPECIFIED.into())
        };
        let mut instance = self.instance(world, &request.id, &record, &mark);
        instance.reason = Some(format!("only its {} is left", left.name));
        Some(instance)
    }

    pub(super) async fn list(&self, filter: &ListFilter) -> Result<Listing, Error> {
        self.store()
            .count(Operation::ListByTag, filter.installation.as_str())?;
        self.call(Operation::ListByTag, None, "").await?;
        let mut listing = Listing::default();
        let mut failed = Vec::new();
        for zone in &self.settings.zones {
            let prefix = format!("{zone}/");
            let listed = async {
                self.call(Operation::ListByTag, None, &prefix).await?;
                self.store().read(|world| {
                    if world.reachable(zone) {
                        self.list_zone(world, zone, filter, &mut listing);
                        Ok(())
                    } else {
                        Err(unreachable(zone))
                    }
                })?
            };
            match (listed.await, self.settings.profile.list_partial) {
                (Ok(()), _) => {}
                (Err(error), ListPartial::NamesObjects) => return Err(error),
                (Err(error), ListPartial::NamesParts) => failed.push(Unreadable {
                    scope: format!("zone {zone}"),
                    prefix,
                    error,
                }),
            }
        }
        if failed.len() == self.settings.zones.len()
            && let Some(first) = failed.pop()
        {
            // Nothing at all could be listed: that is a failure, not a partial listing.
            return Err(first.error);
        }
        listing.unreadable.extend(failed);
        Ok(listing)
    }

    fn list_zone(&self, world: &World, zone: &str, filter: &ListFilter, listing: &mut Listing) {
        let Some(found) = world.zones.get(zone) else {
            return;
        };
        let wanted = |key: &crate::contract::InstanceKey| {
            key.installation == filter.installation
                && filter
                    .namespace
                    .as_ref()
                    .is_none_or(|namespace| key.namespace == *namespace)
        };
        for (slot, record) in &found.instances {
            let Ok(id) = format!("{zone}/{slot}").parse::<NativeId>() else {
                continue;
            };
            if !record.readable {
                listing.unreadable.push(Unreadable {
                    scope: format!("instance {id}"),
                    prefix: id.to_string(),
                    error: unreadable(&id),
                });
            } else if let Some(mark) = record.mark.as_ref().filter(|mark| wanted(&mark.key)) {
                listing.instances.push(self.instance(world, &id, record, mark));
            }
        }
        for left in &found.secondary {
            if wanted(&left.mark.key) && world.record(&left.id).is_none() {
                listing.secondary.push(Secondary {
                    id: left.id.clone(),
                    uid: left.uid(),
                    kind: "disk",
                    name: left.name.clone(),
                    created_at: left.created_at,
                });
            }
        }
    }
}

fn unreadable(id: &NativeId) -> Error {
    Error::transient(format!("the instance {id} cannot be read"))
}

fn ready(instance: &Instance, record: &Record) -> Readiness {
    if instance.state != State::Running {
        Readiness::NotReady(format!("the instance is {}", instance.state))
    } else if record.serving {
        Readiness::Ready
    } else {
        Readiness::NotReady(format!("{} refuses connections", record.address))
    }
}

fn pass_time(world: &mut World, id: &NativeId) {
    let Some(record) = world.record_mut(id) else {
        return;
    };
    match record.power {
        Power::Starting(looks) if looks <= 1 => record.power = Power::Running,
        Power::Starting(looks) => record.power = Power::Starting(looks - 1),
        Power::Leaving(0) => {
            world.take(id);
        }
        Power::Leaving(looks) => record.power = Power::Leaving(looks - 1),
        Power::Running | Power::Stopped | Power::Terminated => {}
    }
}

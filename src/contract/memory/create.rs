//! Create and resume of the reference backend: who may have the name, then step by step.
//!
//! It must not know how a world is kept. Invariant: every step is a transaction that first makes sure
//! that the instance is still this create's own, so that two processes never finish each other's work.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::world::{Place, Power, Record, SecondaryRecord, Step, World};
use super::{Memory, unreachable};
use crate::contract::error::{Error, ErrorKind, Operation};
use crate::contract::mark::Mark;
use crate::contract::model::{Incarnation, Instance, NativeId, label_keys};
use crate::contract::profile::{CreatedAt, Quota, SecondaryResources};
use crate::contract::spec::Fact;
use crate::contract::{Accepted, Adopted, Created, NewInstance, Resume, refusal};

impl Memory {
    pub(super) async fn create_new(
        &self,
        request: &NewInstance,
        accepted: &Accepted,
    ) -> Result<Created, Error> {
        let (id, place) = self.destination(request)?;
        let _turn = self.turn(&id).await;
        self.store().count(Operation::Create, id.as_str())?;
        self.step(Operation::Create, Step::Accept, id.as_str()).await?;
        let (adopted, mark, instance) = self
            .store()
            .change(|world| self.accept(world, request, &id, &place))?;
        accepted.report(instance);

        if self.has_secondary() {
            self.step(Operation::Create, Step::Secondary, id.as_str()).await?;
            self.store()
                .change(|world| make_secondary(world, &id, &place, &mark))?;
        }

        self.step(Operation::Create, Step::Instance, id.as_str()).await?;
        let instance = self
            .store()
            .change(|world| self.make_instance(world, request, &id, &place, &mark, adopted))?;
        accepted.report(instance);

        self.step(Operation::Create, Step::Handover, id.as_str()).await?;
        let instance = self.store().change(|world| {
            let settled = self.own(world, &id, mark.incarnation)?;
            if let Some(mark) = &mut settled.mark {
                mark.pending = false;
            }
            self.report(world, &id, mark.incarnation)
        })?;
        accepted.report(instance.clone());

        Ok(Created::of(instance, adopted, &self.full(&id)))
    }

    /// One step of create or resume. The remote's own "not found" is never the instance's absence: it
    /// is a reference that is missing, or an own object that went away meanwhile.
    async fn step(&self, operation: Operation, step: Step, id: &str) -> Result<(), Error> {
        let Err(error) = self.call(operation, Some(step), id).await else {
            return Ok(());
        };
        Err(match (error.kind(), step, self.settings.profile.quota) {
            (ErrorKind::NotFound, Step::Handover, _) => {
                Error::transient("an own object went away during create").caused_by(error)
            }
            (ErrorKind::NotFound, Step::Accept | Step::Secondary | Step::Instance, _) => {
                Error::permanent("something that the specification refers to does not exist").caused_by(error)
            }
            (ErrorKind::QuotaExceeded, _, Quota::Absent) => {
                Error::permanent("the backend refused the request").caused_by(error)
            }
            (
                ErrorKind::Transient | ErrorKind::Permanent | ErrorKind::QuotaExceeded,
                _,
                Quota::Detected | Quota::Absent,
            ) => error,
        })
    }

    /// Where the instance goes.
    fn destination(&self, request: &NewInstance) -> Result<(NativeId, Place), Error> {
        let Some(zone) = &request.facts.zone else {
            return Err(Error::permanent(format!(
                "{} has no zone: resolve the specification first",
                request.key
            )));
        };
        let (id, place) = Place::in_zone(zone, &request.key)
            .ok_or_else(|| Error::permanent(format!("{} \"{zone}\" is not a zone's name", Fact::Zone)))?;
        self.place(&id)?;
        Ok((id, place))
    }

    /// Decides who may have the name, and marks what is adopted as this create's own.
    fn accept(
        &self,
        world: &mut World,
        request: &NewInstance,
        id: &NativeId,
        place: &Place,
    ) -> Result<(Adopted, Mark, Instance), Error> {
        if !world.reachable(&place.zone) {
            return Err(unreachable(&place.zone));
        }
        let full = self.full(id);
        for secondary in world.secondary(id) {
            secondary.mark.belongs_to(&request.key.installation, &full)?;
        }
        let mark = request.pending_mark(match self.settings.profile.created_at {
            CreatedAt::BackendTimestamp => None,
            CreatedAt::WrittenAtCreate => Some(Timestamp::now()),
        });
        let Some(record) = world.record_mut(id) else {
            // Nothing is there yet: what is reported is what the next steps make.
            let record = Record::new(mark.clone(), std::net::Ipv4Addr::UNSPECIFIED.into());
            let record = Record {
                power: Power::Starting(0),
                created_at: None,
                ..record
            };
            let instance = self.instance(world, id, &record, &mark);
            return Ok((Adopted::No, mark, instance));
        };
        let Some(theirs) = &record.mark else {
            return Err(refusal::unmarked(&full));
        };
        request.claims(theirs, &full)?;
        if matches!(record.power, Power::Leaving(_)) {
            return Err(refusal::leaving(&full));
        }
        let adopted = request.adopts(theirs, &full)?;
        let mark = Mark {
            // The keys of before stay listed until the labels themselves are written.
            label_keys: theirs.label_keys.union(&mark.label_keys).cloned().collect(),
            created_at: theirs.created_at,
            ..mark
        };
        record.mark = Some(mark.clone());
        let instance = self.report(world, id, mark.incarnation)?;
        Ok((adopted, mark, instance))
    }

    /// Makes the instance, or verifies the one that is adopted, or that an earlier attempt made, and
    /// finishes it.
    fn make_instance(
        &self,
        world: &mut World,
        request: &NewInstance,
        id: &NativeId,
        place: &Place,
        mark: &Mark,
        adopted: Adopted,
    ) -> Result<Instance, Error> {
        let settle = world.settle;
        if adopted == Adopted::No && world.record(id).is_none() {
            let address = world.next_address();
            let record = Record {
                power: starting(settle),
                ..Record::new(mark.clone(), address)
            };
            world.put(place, record);
        }
        // Where another process was faster, its create goes on and ours has nothing to adopt yet.
        let record = self.own(world, id, mark.incarnation)?;
        match record.power {
            Power::Stopped | Power::Terminated => record.power = starting(settle),
            Power::Running | Power::Starting(_) | Power::Leaving(_) => {}
        }
        relabel(record, &request.labels, &[]);
        self.report(world, id, mark.incarnation)
    }

    pub(super) async fn resume(&self, request: &Resume, accepted: &Accepted) -> Result<Created, Error> {
        let id = &request.id;
        let place = self.place(id)?;
        let _turn = self.turn(id).await;
        self.store().count(Operation::Resume, id.as_str())?;
        self.step(Operation::Resume, Step::Accept, id.as_str()).await?;
        let instance = self.store().change(|world| {
            if !world.reachable(&place.zone) {
                return Err(unreachable(&place.zone));
            }
            self.resumable(world, request)?;
            self.report(world, id, request.incarnation)
        })?;
        accepted.report(instance);

        self.step(Operation::Resume, Step::Instance, id.as_str()).await?;
        let instance = self.store().change(|world| {
            let settle = world.settle;
            let record = self.own(world, id, request.incarnation)?;
            if record.power == Power::Stopped {
                record.power = starting(settle);
            }
            self.report(world, id, request.incarnation)
        })?;
        accepted.report(instance);

        self.step(Operation::Resume, Step::Handover, id.as_str()).await?;
        let instance = self.store().change(|world| {
            let record = self.own(world, id, request.incarnation)?;
            let prior: Vec<_> = request.prior_label_keys.iter().cloned().collect();
            relabel(record, &request.labels, &prior);
            if let Some(mark) = &mut record.mark {
                mark.pending = false;
            }
            self.report(world, id, request.incarnation)
        })?;
        accepted.report(instance.clone());
        Ok(Created::of(instance, Adopted::No, &self.full(id)))
    }

    /// Refuses what is not exactly the incarnation that was planned for.
    fn resumable(&self, world: &World, request: &Resume) -> Result<(), Error> {
        let full = self.full(&request.id);
        let Some(record) = world.record(&request.id) else {
            return Err(refusal::plan_again(&full, "it does not exist any more"));
        };
        let Some(mark) = &record.mark else {
            return Err(refusal::unmarked(&full));
        };
        request.holds(mark, &full)?;
        match record.power {
            Power::Terminated | Power::Leaving(_) => Err(refusal::plan_again(&full, "it ended")),
            Power::Running | Power::Starting(_) | Power::Stopped => Ok(()),
        }
    }

    /// The instance, if it is still this operation's own.
    fn own<'a>(
        &self,
        world: &'a mut World,
        id: &NativeId,
        incarnation: Incarnation,
    ) -> Result<&'a mut Record, Error> {
        world
            .record_mut(id)
            .filter(|record| {
                record
                    .mark
                    .as_ref()
                    .is_some_and(|mark| mark.incarnation == incarnation)
            })
            .ok_or_else(|| refusal::vanished(&self.full(id), incarnation))
    }

    /// The instance as it is now, if it is still this operation's own.
    fn report(&self, world: &World, id: &NativeId, incarnation: Incarnation) -> Result<Instance, Error> {
        world
            .record(id)
            .and_then(|record| {
                let mark = record
                    .mark
                    .as_ref()
                    .filter(|mark| mark.incarnation == incarnation)?;
                Some(self.instance(world, id, record, mark))
            })
            .ok_or_else(|| refusal::vanished(&self.full(id), incarnation))
    }

    /// Whether what belongs to an instance goes with it, without being asked to.
    pub(super) fn cascades(&self) -> bool {
        self.settings.profile.secondary_resources == SecondaryResources::Cascade
    }
}

/// Makes what belongs to the instance. What an earlier create left is kept only where it is intact
/// and of the same uid; it is never trusted.
fn make_secondary(world: &mut World, id: &NativeId, place: &Place, mark: &Mark) -> Result<(), Error> {
    world.drop_secondary(id, |left| left.uid() != mark.uid || !left.intact);
    if world.secondary(id).next().is_none() {
        let disk = SecondaryRecord::disk(id, mark, Timestamp::now());
        world.zone_mut(&place.zone).secondary.push(disk);
    }
    Ok(())
}

fn starting(settle: u32) -> Power {
    if settle == 0 {
        Power::Running
    } else {
        Power::Starting(settle)
    }
}

/// Sets these labels and removes those that the user set before and wants no longer; labels of
/// others stay.
fn relabel(record: &mut Record, wanted: &BTreeMap<String, String>, prior: &[String]) {
    let listed = record
        .mark
        .as_ref()
        .map(|mark| mark.label_keys.clone())
        .unwrap_or_default();
    for key in listed.iter().chain(prior) {
        record.labels.remove(key);
    }
    record.labels.extend(wanted.clone());
    if let Some(mark) = &mut record.mark {
        mark.label_keys = label_keys(wanted);
    }
}

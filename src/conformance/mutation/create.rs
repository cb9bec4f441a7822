//! How a mutant is wrong in create and resume.
//!
//! Each difference stands under the name of the case that finds it.

use std::collections::BTreeSet;

use super::Mutant;
use crate::contract::memory::{Place, Power, Record, World};
use crate::contract::{
    Accepted, AdoptPolicy, Adopted, Backend, CreateRequest, Created, Error, ErrorKind, Instance, Mark,
    NativeId, NewInstance, Resume, State, Target,
};

/// A create under way; one that was dropped is remembered.
struct Creating<'a> {
    mutant: &'a Mutant,
    id: NativeId,
    ended: bool,
}

impl Drop for Creating<'_> {
    fn drop(&mut self) {
        let mut memories = self.mutant.memories();
        memories.creating.remove(&self.id);
        if !self.ended {
            memories.dropped.insert(self.id.clone());
        }
    }
}

/// What create would report of an instance that is not there.
fn imagined(request: &NewInstance, id: &NativeId) -> Instance {
    Instance {
        id: id.clone(),
        mark: Mark {
            key: request.key.clone(),
            uid: request.uid,
            incarnation: request.incarnation,
            pending: true,
            label_keys: BTreeSet::new(),
            created_at: None,
            spec_sha256: request.spec_sha256.clone(),
            facts: request.facts.clone(),
            given: request.given.clone(),
        },
        target: Target::default(),
        state: State::Provisioning,
        started: false,
        ip: None,
        egress_ip: None,
        created_at: None,
        labels: std::collections::BTreeMap::new(),
        reason: None,
    }
}

fn remove(world: &mut World, id: &NativeId) {
    world.take(id);
    world.drop_secondary(id, |_| true);
}

impl Mutant {
    fn id_of(&self, request: &NewInstance) -> Result<NativeId, Error> {
        let zone = request.facts.zone.as_deref().unwrap_or_default();
        Place::in_zone(zone, &request.key)
            .map(|(id, _)| id)
            .ok_or_else(|| Error::permanent("no zone"))
    }

    /// Clears the way where the mutant would not respect what is there.
    fn clear_the_way(&self, request: &NewInstance, id: &NativeId) -> Result<(), Error> {
        let world = self.memory.world();
        let Some(there) = world.look(|world| world.record(id).map(|record| record.mark.clone()))? else {
            return Ok(());
        };
        let in_the_way = match there {
            None => self.breaks("create_refuses_what_has_no_mark"),
            Some(mark) if mark.key.installation != request.key.installation => {
                self.breaks("create_refuses_another_installation")
            }
            Some(mark) if mark.uid != request.uid => match request.adopt {
                AdoptPolicy::Interrupted => self.breaks("create_refuses_another_spec"),
                AdoptPolicy::SameSpec => self.breaks("same_spec_refuses_another_spec"),
                AdoptPolicy::Never => false,
            },
            Some(_) => false,
        };
        if in_the_way {
            world.edit(|world| remove(world, id))?;
        }
        Ok(())
    }

    pub(super) async fn create_wrongly(
        &self,
        request: &NewInstance,
        accepted: &Accepted,
    ) -> Result<Created, Error> {
        let id = self.id_of(request)?;
        {
            let mut memories = self.memories();
            if self.breaks("create_resumes_what_was_dropped") && memories.dropped.contains(&id) {
                return Err(Error::transient("the name is taken"));
            }
            if !memories.creating.insert(id.clone()) && self.breaks("create_serialises_on_one_key") {
                return Err(Error::transient("another create is under way"));
            }
        }
        let mut creating = Creating {
            mutant: self,
            id: id.clone(),
            ended: false,
        };
        self.clear_the_way(request, &id)?;
        let mut request = request.clone();
        match request.adopt {
            AdoptPolicy::SameSpec if self.breaks("same_spec_adopts_what_was_handed_over") => {
                request.adopt = AdoptPolicy::Interrupted;
            }
            AdoptPolicy::Never if self.breaks("never_adopts_nothing") => {
                request.adopt = AdoptPolicy::Interrupted;
            }
            AdoptPolicy::Interrupted | AdoptPolicy::SameSpec | AdoptPolicy::Never => {}
        }
        let world = self.memory.world();
        let (before, damaged) = world.look(|world| {
            (
                world.record(&id).cloned(),
                world.secondary(&id).any(|left| !left.intact),
            )
        })?;
        let own_before = before
            .as_ref()
            .and_then(|record| record.mark.as_ref())
            .filter(|mark| mark.incarnation == request.incarnation);
        if let Some(mark) = own_before
            && self.breaks(if mark.pending {
                "create_repeated_finishes_its_own"
            } else {
                "create_repeated_keeps_what_it_handed_over"
            })
        {
            creating.ended = true;
            return Err(Error::permanent("it exists already"));
        }
        let hangs = world.look(|world| {
            world
                .faults
                .iter()
                .any(|fault| fault.effect == crate::contract::memory::Effect::Hang)
        })?;

        let wrapped = CreateRequest::New(Box::new(request.clone()));
        // A create that hangs is dropped: what it reports must get out at once.
        let own = Accepted::new();
        let result = self
            .memory
            .create(&wrapped, if hangs { accepted } else { &own })
            .await;
        creating.ended = true;
        drop(creating);

        let made = world.look(|world| world.record(&id).is_some())?;
        if let Some(last) = own.last() {
            if made || !self.breaks("create_reports_what_was_accepted") {
                accepted.report(last);
            }
        } else if result.is_err() && self.breaks("create_reports_nothing_before_acceptance") {
            accepted.report(imagined(&request, &id));
        }
        match result {
            Ok(created) => self.created_wrongly(&request, &id, created, before, damaged),
            Err(error) => {
                self.memories().cut_off.insert(id);
                Err(self.failed_wrongly(error, own.last().is_some()))
            }
        }
    }

    fn created_wrongly(
        &self,
        request: &NewInstance,
        id: &NativeId,
        mut created: Created,
        before: Option<Record>,
        damaged: bool,
    ) -> Result<Created, Error> {
        let world = self.memory.world();
        self.memories()
            .marks
            .insert(id.clone(), created.instance.mark.clone());
        if created.adopted != Adopted::No {
            self.memories().adopted.insert(id.clone());
            if self.breaks("adoption_warns") {
                created.warnings.clear();
            }
            if self.breaks("create_adopts_what_was_cut_off") {
                world.edit(|world| {
                    let disk = world.secondary(id).next().cloned();
                    if let (Some(mut disk), Some(place)) = (disk, Place::of(id)) {
                        disk.name += "-2";
                        world.zone_mut(&place.zone).secondary.push(disk);
                    }
                })?;
            }
            if let Some(before) = &before
                && before.power == Power::Terminated
                && self.breaks("create_revives_what_ended_while_pending")
            {
                world.edit(|world| {
                    if let Some(record) = world.record_mut(id) {
                        record.power = before.power;
                    }
                })?;
            }
            if let Some(before) = before.and_then(|record| record.mark)
                && created.adopted == Adopted::Pending
                && self.breaks("adoption_gives_the_new_incarnation")
            {
                created.instance.mark.incarnation = before.incarnation;
                world.edit(|world| {
                    if let Some(mark) = world.record_mut(id).and_then(|record| record.mark.as_mut()) {
                        mark.incarnation = before.incarnation;
                    }
                })?;
            }
        }
        if damaged && self.breaks("create_rebuilds_damaged_leftovers") {
            world.edit(|world| {
                if let Some(place) = Place::of(id) {
                    for left in &mut world.zone_mut(&place.zone).secondary {
                        left.intact = false;
                    }
                }
            })?;
        }
        if self.breaks("resolve_gives_the_id_that_create_makes") {
            created.instance.id = format!("{id}x").parse().unwrap_or_else(|_| id.clone());
        }
        if self.breaks("create_makes_what_was_asked") {
            created.instance.mark.facts.port = None;
        }
        if self.breaks("create_hands_over") {
            created.instance.mark.pending = true;
        }
        if self.breaks("create_shows_no_secret")
            && let Some(secret) = &request.secrets.password_hash
        {
            created.warnings.push(format!("the hash is {}", secret.expose()));
        }
        Ok(created)
    }

    fn failed_wrongly(&self, error: Error, accepted: bool) -> Error {
        let remote = std::error::Error::source(&error)
            .and_then(|source| source.downcast_ref::<Error>())
            .map(Error::kind);
        match (error.kind(), remote) {
            (ErrorKind::Permanent, Some(ErrorKind::NotFound))
                if self.breaks("create_never_says_not_found") =>
            {
                Error::not_found(error.to_string())
            }
            (ErrorKind::Transient, Some(ErrorKind::NotFound))
                if self.breaks("create_of_what_vanished_may_be_repeated") =>
            {
                Error::not_found(error.to_string())
            }
            (ErrorKind::QuotaExceeded, _) if self.breaks("errors_tell_a_used_up_allowance") => {
                Error::transient(error.to_string())
            }
            (kind, _) if accepted && self.breaks("create_fails_for_the_backends_own_reason") => {
                Error::new(kind, "create failed")
            }
            (kind, _)
                if error.message().contains("import {")
                    && self.breaks("create_refuses_what_was_handed_over") =>
            {
                Error::new(kind, "it exists already")
            }
            _ => error,
        }
    }

    pub(super) async fn resume_wrongly(
        &self,
        request: &Resume,
        accepted: &Accepted,
    ) -> Result<Created, Error> {
        let id = &request.id;
        let world = self.memory.world();
        let before: Option<Record> = world.look(|world| world.record(id).cloned())?;
        let mut request = request.clone();
        if let Some(mark) = before.as_ref().and_then(|record| record.mark.as_ref()) {
            if self.breaks("resume_refuses_another_incarnation") {
                request.incarnation = mark.incarnation;
            }
            if self.breaks("resume_refuses_another_installation") {
                request.installation = mark.key.installation.clone();
            }
        }
        if self.breaks("resume_refuses_what_ended") {
            world.edit(|world| {
                if let Some(record) = world.record_mut(id)
                    && record.power == Power::Terminated
                {
                    record.power = Power::Stopped;
                }
            })?;
        }
        let labels = request.labels.clone();
        let result = self
            .memory
            .create(&CreateRequest::Resume(Box::new(request)), accepted)
            .await;
        let Some(before) = before else {
            if self.breaks("resume_never_creates") {
                world.edit(|world| {
                    if let Some(place) = Place::of(id) {
                        let address = world.next_address();
                        world.put(&place, Record::foreign(address));
                    }
                })?;
            }
            return result;
        };
        if result.is_ok() {
            world.edit(|world| {
                let Some(record) = world.record_mut(id) else {
                    return;
                };
                if self.breaks("resume_starts_what_was_stopped") && before.power == Power::Stopped {
                    record.power = Power::Stopped;
                }
                if self.breaks("resume_removes_the_labels_it_set") {
                    for (key, value) in before.labels {
                        record.labels.entry(key).or_insert(value);
                    }
                }
                if self.breaks("resume_keeps_the_labels_of_others") {
                    record.labels = labels;
                }
                if self.breaks("resume_hands_over_what_is_pending")
                    && let (Some(now), Some(then)) = (&mut record.mark, &before.mark)
                {
                    now.pending = then.pending;
                }
            })?;
        }
        result
    }
}

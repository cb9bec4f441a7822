//! How a mutant is wrong in adopting by hand.
//!
//! Each difference stands under the name of the case that finds it.

use std::collections::BTreeSet;

use super::Mutant;
use crate::contract::memory::Power;
use crate::contract::{
    AdoptRequest, Adoption, Backend, Error, ErrorKind, Freshness, GetRequest, Incarnation, Mark, NativeId,
};

impl Mutant {
    pub(super) async fn adopt_wrongly(&self, request: &AdoptRequest) -> Result<Adoption, Error> {
        let id = &request.id;
        let there = self
            .memory
            .world()
            .look(|world| world.record(id).map(|record| record.mark.clone()))?;
        let mut request = request.clone();
        self.ask_wrongly(&mut request, there.as_ref());
        match self.memory.adopt(&request).await {
            Ok(adoption) => self.adopted_wrongly(&request, there.flatten(), adoption),
            Err(error) => self.not_adopted(&request, there.flatten(), error).await,
        }
    }

    /// Asks the reference backend for something else than was asked for.
    fn ask_wrongly(&self, request: &mut AdoptRequest, there: Option<&Option<Mark>>) {
        let theirs = there
            .and_then(Option::as_ref)
            .map(|mark| &mark.key.installation)
            .filter(|installation| **installation != request.installation);
        if theirs.is_some() && request.from.is_none() && self.breaks("adopt_refuses_another_installation") {
            request.from = theirs.cloned();
        }
        if there == Some(&None) && self.breaks("adopt_from_refuses_what_is_not_theirs") {
            request.from = None;
        }
        if there == Some(&None) && self.breaks("adopt_writes_what_is_stated") {
            request.stated.allowed_cidrs = None;
        }
        if there == Some(&None)
            && self.breaks("adopt_makes_a_mark_of_its_own")
            && let Some(write) = &mut request.write
        {
            write.pending = false;
        }
    }

    fn adopted_wrongly(
        &self,
        request: &AdoptRequest,
        there: Option<Mark>,
        mut adoption: Adoption,
    ) -> Result<Adoption, Error> {
        let id = &request.id;
        let mark = &mut adoption.instance.mark;
        if self.breaks("adopt_guesses_nothing") && !adoption.unknown.is_empty() {
            adoption.unknown.pop_first();
        }
        match (&request.write, there) {
            (None, None) => {
                if self.breaks("adopt_shows_without_writing") {
                    self.write_mark(id, mark)?;
                }
                if self.breaks("adopt_makes_a_mark_of_its_own") {
                    mark.pending = true;
                }
            }
            (Some(_), None) => {
                if self.breaks("adopt_makes_a_mark_of_its_own") {
                    mark.pending = true;
                    self.write_mark(id, mark)?;
                }
                if self.breaks("adopt_leaves_the_instance_as_it_was") {
                    self.memory.world().edit(|world| {
                        if let Some(record) = world.record_mut(id) {
                            record.power = Power::Stopped;
                        }
                    })?;
                }
                if self.breaks("adopt_writes_what_it_showed") {
                    let mut other = mark.clone();
                    other.label_keys.insert("adopted".to_owned());
                    self.write_mark(id, &other)?;
                }
            }
            (Some(write), Some(there)) if there == *write => {
                if self.breaks("adopt_repeated_is_success") {
                    return Err(Error::permanent("it carries a mark"));
                }
            }
            (_, Some(_)) => {
                if self.breaks("adopt_of_another_installations_keeps_all_but_the_owner") {
                    mark.incarnation = Incarnation::fresh();
                }
            }
        }
        Ok(adoption)
    }

    async fn not_adopted(
        &self,
        request: &AdoptRequest,
        there: Option<Mark>,
        error: Error,
    ) -> Result<Adoption, Error> {
        let ours = there
            .as_ref()
            .is_some_and(|mark| mark.key.installation == request.installation);
        if ours && self.breaks("adopt_refuses_what_is_ours") {
            return Err(Error::permanent("it carries a mark"));
        }
        if let Some(write) = request.write.as_ref().filter(|_| ours)
            && self.breaks("adopt_writes_what_it_showed")
        {
            return self.as_if_written(request, write).await;
        }
        if error.kind() == ErrorKind::NotFound && self.breaks("adopt_of_nothing_is_not_found") {
            return Err(Error::permanent(error.message()));
        }
        if there.is_none()
            && let Some(write) = &request.write
            && self.breaks("adopt_writes_only_what_it_would_show")
        {
            self.write_mark(&request.id, write)?;
        }
        Err(error)
    }

    /// What a repeated write would return, had it written what it showed.
    async fn as_if_written(&self, request: &AdoptRequest, write: &Mark) -> Result<Adoption, Error> {
        let get = GetRequest {
            id: request.id.clone(),
            incarnation: None,
            installation: request.installation.clone(),
            recorded_target: None,
            probe: false,
            freshness: Freshness::Fresh,
        };
        let mut instance = self.memory.get(&get).await?.instance;
        instance.mark = write.clone();
        Ok(Adoption {
            instance,
            unknown: BTreeSet::new(),
        })
    }

    fn write_mark(&self, id: &NativeId, mark: &Mark) -> Result<(), Error> {
        self.memory.world().edit(|world| {
            if let Some(record) = world.record_mut(id) {
                record.mark = Some(mark.clone());
            }
        })
    }
}

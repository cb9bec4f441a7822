//! How a mutant is wrong in delete.
//!
//! Each difference stands under the name of the case that finds it.

use super::Mutant;
use crate::contract::memory::{Place, SecondaryRecord};
use crate::contract::{Backend, DeleteRequest, Deleted, Error, ErrorKind, NativeId};

impl Mutant {
    pub(super) async fn delete_wrongly(&self, request: &DeleteRequest) -> Result<Deleted, Error> {
        let id = &request.id;
        let world = self.memory.world();
        let (record, disk) = world.look(|world| {
            let disk = world.secondary(id).next().cloned();
            (world.record(id).cloned(), disk)
        })?;
        let mark = record.as_ref().and_then(|record| record.mark.clone());
        let mut request = request.clone();
        match (&record, &mark) {
            (None, _) => {
                if disk.is_none() && request.recorded_target.is_none() && self.breaks("delete_is_idempotent")
                {
                    return Err(Error::not_found("it does not exist"));
                }
                if disk.is_some() && self.breaks("delete_takes_remains") {
                    return Ok(Deleted::Gone);
                }
            }
            (Some(_), None) if self.breaks("delete_refuses_what_has_no_mark") => {
                world.edit(|world| world.take(id))?;
                return Ok(Deleted::Gone);
            }
            (Some(_), None) => {}
            (Some(_), Some(mark)) => {
                let takes_any = match request.incarnation {
                    Some(_) => self.breaks("delete_leaves_another_incarnation_alone"),
                    None => self.breaks("delete_without_an_incarnation_spares_instances"),
                };
                if takes_any {
                    request.incarnation = Some(mark.incarnation);
                }
                if self.breaks("delete_refuses_another_installation") {
                    request.installation = mark.key.installation.clone();
                }
                if mark.pending && self.breaks("delete_takes_what_is_pending") {
                    return Ok(Deleted::Gone);
                }
            }
        }
        if self.breaks("delete_on_another_target_is_permanent") {
            request.recorded_target = None;
        }
        if (!self.reachable(id)? && self.breaks("delete_of_what_does_not_answer_fails"))
            || (!self.configured(id) && self.breaks("delete_on_an_unconfigured_part_is_permanent"))
        {
            return Ok(Deleted::Gone);
        }
        match self.memory.delete(&request).await {
            Ok(answer) => {
                if record.is_some() && answer == Deleted::Gone {
                    self.deleted_wrongly(id, disk)
                } else {
                    Ok(answer)
                }
            }
            Err(error) => {
                self.memories().cut_off.insert(id.clone());
                let cut_off = error.kind() == ErrorKind::Transient && self.reachable(id)?;
                if cut_off && self.breaks("delete_cut_off_is_finished_by_the_next") {
                    world.edit(|world| world.take(id))?;
                }
                Err(error)
            }
        }
    }

    fn deleted_wrongly(&self, id: &NativeId, disk: Option<SecondaryRecord>) -> Result<Deleted, Error> {
        let (adopted, cut_off) = {
            let memories = self.memories();
            (memories.adopted.contains(id), memories.cut_off.contains(id))
        };
        let left = match disk {
            Some(disk) if adopted && self.breaks("create_resumes_from_any_stage") => Some(disk),
            Some(mut disk) if !cut_off && self.breaks("delete_leaves_nothing") => {
                // Of no installation that anybody asks for: only a look at the remote shows it.
                disk.mark.key.installation = "nobody".parse().map_err(|_| Error::permanent("no name"))?;
                Some(disk)
            }
            Some(_) | None => None,
        };
        if let (Some(left), Some(place)) = (left, Place::of(id)) {
            self.memory
                .world()
                .edit(|world| world.zone_mut(&place.zone).secondary.push(left))?;
        }
        Ok(if self.breaks("delete_answers_as_the_profile_says") {
            Deleted::Accepted
        } else {
            Deleted::Gone
        })
    }
}

//! Delete of the reference backend.
//!
//! It must not touch what is not exactly the incarnation it was told. Invariant: what belongs to the
//! instance goes first and what carries the mark last, so that a delete cut off can be done again.

use super::world::{Place, Power, Step, World};
use super::{Memory, unreachable};
use crate::contract::error::{Error, Operation};
use crate::contract::profile::DeleteReturn;
use crate::contract::{DeleteRequest, Deleted, refusal};

/// What there is to delete.
enum Verdict {
    /// Nothing, or nothing of this incarnation: the answer.
    Nothing(Deleted),
    /// What belonged to an instance that is gone.
    Remains,
    /// The instance and what belongs to it.
    Instance,
}

impl Memory {
    pub(super) async fn remove(&self, request: &DeleteRequest) -> Result<Deleted, Error> {
        let id = &request.id;
        let place = self.place(id)?;
        let _turn = self.turn(id).await;
        self.store().count(Operation::Delete, id.as_str())?;
        self.call(Operation::Delete, None, id.as_str()).await?;
        let verdict = self
            .store()
            .read(|world| self.deletable(world, request, &place))??;
        if let Verdict::Nothing(answer) = verdict {
            return Ok(answer);
        }

        if !self.cascades() {
            self.call(Operation::Delete, Some(Step::Secondary), id.as_str())
                .await?;
            self.store().change(|world| {
                world.drop_secondary(id, |left| left.mark.key.installation == request.installation);
                Ok(())
            })?;
        }
        if matches!(verdict, Verdict::Remains) {
            return Ok(Deleted::Gone);
        }

        self.call(Operation::Delete, Some(Step::Instance), id.as_str())
            .await?;
        self.store().change(|world| {
            // It is looked at again: another process may have replaced it since.
            if !matches!(self.deletable(world, request, &place)?, Verdict::Instance) {
                return Ok(Deleted::Gone);
            }
            if self.cascades() {
                world.drop_secondary(id, |_| true);
            }
            match self.settings.profile.delete_return {
                DeleteReturn::Waits => {
                    world.take(id);
                    Ok(Deleted::Gone)
                }
                DeleteReturn::ReturnsEarly => {
                    let linger = world.linger;
                    if linger == 0 {
                        world.take(id);
                    } else if let Some(record) = world.record_mut(id) {
                        record.power = Power::Leaving(linger);
                    }
                    Ok(Deleted::Accepted)
                }
            }
        })
    }

    fn deletable(&self, world: &World, request: &DeleteRequest, place: &Place) -> Result<Verdict, Error> {
        if !world.reachable(&place.zone) {
            return Err(unreachable(&place.zone));
        }
        let full = self.full(&request.id);
        let nothing = |answer: Deleted| {
            refusal::same_target(
                &full,
                request.recorded_target.as_ref(),
                &world.target(&place.zone),
            )?;
            Ok(Verdict::Nothing(answer))
        };
        let Some(record) = world.record(&request.id) else {
            let remains = world
                .secondary(&request.id)
                .any(|left| left.mark.key.installation == request.installation);
            return if remains {
                Ok(Verdict::Remains)
            } else {
                nothing(Deleted::Gone)
            };
        };
        let Some(mark) = &record.mark else {
            return Err(refusal::unmarked(&full));
        };
        if request.incarnation != Some(mark.incarnation) {
            return nothing(Deleted::LeftAlone(refusal::whose(&full, mark)));
        }
        mark.belongs_to(&request.installation, &full)?;
        match record.power {
            Power::Leaving(_) => Ok(Verdict::Nothing(Deleted::Accepted)),
            Power::Running | Power::Starting(_) | Power::Stopped | Power::Terminated => Ok(Verdict::Instance),
        }
    }
}

//! How a mutant is wrong in get.
//!
//! Each difference stands under the name of the case that finds it.

use super::Mutant;
use crate::conformance::memory::REFUSED;
use crate::contract::memory::{Place, Power, Record};
use crate::contract::{
    Backend, Error, ErrorKind, Found, GetRequest, Instance, Readiness, State, Uid, refusal,
};

impl Mutant {
    pub(super) async fn get_wrongly(&self, request: &GetRequest) -> Result<Found, Error> {
        let world = self.memory.world();
        let (record, target) = world.look(|world| {
            let target = Place::of(&request.id).map(|place| world.target(&place.zone));
            (world.record(&request.id).cloned(), target)
        })?;
        let mark = record.as_ref().and_then(|record| record.mark.clone());
        let mut request = request.clone();
        if self.breaks("get_proves_absence_on_the_recorded_target_only") {
            request.recorded_target = None;
        }
        if self.breaks("get_of_our_incarnation_needs_no_target")
            && let (Some(recorded), Some(target)) = (&request.recorded_target, &target)
            && let Some((fact, recorded, found)) = recorded.conflict(target)
        {
            let id = format!("lab/{}", request.id)
                .parse()
                .map_err(|_| Error::permanent("no id"))?;
            return Err(refusal::other_target(&id, fact, recorded, found));
        }
        if let Some(mark) = &mark
            && request.incarnation == Some(mark.incarnation)
            && self.breaks("get_of_another_installation_is_permanent")
        {
            request.installation = mark.key.installation.clone();
        }
        if let Some(mark) = &mark
            && mark.pending
            && request.incarnation.is_some_and(|asked| asked != mark.incarnation)
            && self.breaks("get_never_writes")
        {
            world.edit(|world| {
                if let Some(mark) = world
                    .record_mut(&request.id)
                    .and_then(|record| record.mark.as_mut())
                {
                    mark.pending = false;
                }
            })?;
        }
        match self.memory.get(&request).await {
            Ok(found) => self.found_wrongly(&request, record.as_ref(), found),
            Err(error) => Err(self.not_got(&request, record.as_ref(), error)?),
        }
    }

    /// What get and list say wrongly of an instance, both alike.
    pub(super) fn seen_wrongly(&self, instance: &mut Instance, record: Option<&Record>) {
        let Some(record) = record else {
            return;
        };
        if self.breaks("get_finds_what_was_created") {
            instance.mark.given.clear();
        }
        if self.breaks("get_knows_when_it_was_created") {
            instance.created_at = None;
        }
        if self.breaks("labels_are_reported_as_given") {
            instance.labels.retain(|_, value| !value.is_empty());
        }
        if self.breaks("labels_of_others_are_not_reported") {
            instance.labels = record.labels.clone();
        }
        match record.power {
            Power::Stopped if self.breaks("get_reports_stopped") => instance.state = State::Provisioning,
            Power::Terminated if self.breaks("get_reports_terminated") => instance.state = State::Stopped,
            Power::Starting(_) if self.breaks("get_reports_provisioning") => instance.started = true,
            Power::Running if record.address_known && self.breaks("get_reports_running") => {
                instance.started = false;
            }
            Power::Running
                if !record.address_known
                    && self.breaks("get_without_an_address_is_started_but_not_running") =>
            {
                instance.state = State::Running;
            }
            Power::Running | Power::Starting(_) | Power::Stopped | Power::Terminated | Power::Leaving(_) => {}
        }
    }

    fn found_wrongly(
        &self,
        request: &GetRequest,
        record: Option<&Record>,
        mut found: Found,
    ) -> Result<Found, Error> {
        if record.is_none() && self.breaks("get_reports_remains_as_terminated") {
            return Err(Error::not_found("it does not exist"));
        }
        self.seen_wrongly(&mut found.instance, record);
        if request.incarnation.is_none() {
            if self.breaks("create_clears_pending_last") {
                found.instance.mark.pending = false;
            }
            if self.breaks("get_for_an_import_finds_what_is_there") {
                found.instance.mark.uid = Uid::of(&found.instance.mark.key, "another");
            }
        }
        if self.breaks("get_probes_only_when_asked") && found.readiness.is_none() {
            found.readiness = Some(Readiness::Ready);
        }
        if self.breaks("get_says_what_is_not_ready") && found.readiness.is_some() {
            found.readiness = Some(Readiness::Ready);
        }
        Ok(found)
    }

    fn not_got(&self, request: &GetRequest, record: Option<&Record>, error: Error) -> Result<Error, Error> {
        let absent = || Error::not_found(error.message());
        let silent = !self.reachable(&request.id)?;
        let unmarked = record.is_some_and(|record| record.mark.is_none());
        let malformed = Place::of(&request.id).is_none();
        let unconfigured = !malformed && !self.configured(&request.id);
        let refused = error.message() == REFUSED;
        Ok(match error.kind() {
            ErrorKind::NotFound if record.is_none() && self.breaks("get_of_nothing_is_not_found") => {
                error.noteworthy()
            }
            ErrorKind::NotFound
                if record.is_some() && self.breaks("get_of_another_incarnation_is_noteworthy_absence") =>
            {
                absent()
            }
            ErrorKind::Transient if silent && self.breaks("get_from_what_does_not_answer_is_no_answer") => {
                absent()
            }
            ErrorKind::Transient if refused && self.breaks("errors_keep_what_may_be_repeated") => {
                Error::permanent(error.message())
            }
            ErrorKind::Permanent
                if (unmarked && self.breaks("get_of_a_stripped_mark_is_permanent"))
                    || (malformed && self.breaks("get_of_a_malformed_id_is_permanent"))
                    || (unconfigured && self.breaks("get_on_an_unconfigured_part_is_permanent"))
                    || (refused && self.breaks("errors_keep_what_is_refused")) =>
            {
                absent()
            }
            ErrorKind::NotFound | ErrorKind::Transient | ErrorKind::Permanent | ErrorKind::QuotaExceeded => {
                error
            }
        })
    }
}

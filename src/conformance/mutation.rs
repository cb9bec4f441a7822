//! What the suite is worth: for each case, a reference backend that is wrong in that one rule, so
//! that exactly this case fails.
//!
//! It must not be used for anything else. Invariant: [`MUTATIONS`] names every case once, and a test
//! shows that each mutation fails its case and no other.

mod by_hand;
mod create;
mod delete;
mod get;
mod list;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;

use super::memory::MemoryHarness;
use super::{Ability, Broken, Control, Harness, Sighting};
use crate::contract::memory::{Memory, PROFILE, Place};
use crate::contract::{
    Accepted, AdoptRequest, Adoption, Backend, CreateRequest, Created, DeleteRequest, Deleted, Error, Fact,
    Facts, Found, GetRequest, HealthReason, ListFilter, Listing, Mark, Namespace, NativeId, Problem, Profile,
    Resolved, Specification, TargetHealth,
};

/// A way to be wrong: the case that finds it, and what is wrong.
#[derive(Clone, Copy, Debug)]
pub struct Mutation {
    /// The case that must fail, and the mutation's name.
    pub breaks: &'static str,
    /// What the mutant does.
    pub how: &'static str,
}

/// What a mutant remembers from one process to the next.
#[derive(Debug, Default)]
struct Memories {
    /// The marks as create made them.
    marks: BTreeMap<NativeId, Mark>,
    /// What a create or delete was cut off on.
    cut_off: BTreeSet<NativeId>,
    /// What was adopted.
    adopted: BTreeSet<NativeId>,
    /// Creates whose caller dropped them.
    dropped: BTreeSet<NativeId>,
    /// Creates under way.
    creating: BTreeSet<NativeId>,
}

/// A reference backend that is wrong in one rule.
#[derive(Clone, Debug)]
struct Mutant {
    memory: Memory,
    mutation: &'static str,
    memories: Arc<Mutex<Memories>>,
}

impl Mutant {
    fn breaks(&self, case: &str) -> bool {
        self.mutation == case
    }

    fn memories(&self) -> MutexGuard<'_, Memories> {
        self.memories.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reachable(&self, id: &NativeId) -> Result<bool, Error> {
        self.memory
            .world()
            .look(|world| Place::of(id).is_none_or(|place| world.reachable(&place.zone)))
    }

    fn configured(&self, id: &NativeId) -> bool {
        Place::of(id).is_some_and(|place| {
            let specification = |zone: &str| Facts {
                zone: Some(zone.to_owned()),
                ..Facts::default()
            };
            // Only a zone that is not configured is refused here.
            self.memory
                .resolve(&Specification {
                    key: crate::contract::InstanceKey {
                        installation: "any".parse().unwrap_or_else(|_| unreachable!("a valid name")),
                        namespace: crate::contract::Namespace::default(),
                        name: "any".parse().unwrap_or_else(|_| unreachable!("a valid name")),
                    },
                    given: specification(&place.zone),
                    labels: BTreeMap::new(),
                })
                .is_ok()
        })
    }
}

#[async_trait]
impl Backend for Mutant {
    fn profile(&self) -> &Profile {
        self.memory.profile()
    }

    fn resolve(&self, specification: &Specification) -> Result<Resolved, Vec<Problem>> {
        match self.memory.resolve(specification) {
            Ok(mut resolved) => {
                if self.breaks("resolve_is_stable") {
                    resolved.facts.port = resolved.facts.port.map(|port| port + 1);
                }
                Ok(resolved)
            }
            Err(problems) => match problems.as_slice() {
                [problem]
                    if problem.fact == Fact::Spot && self.breaks("resolve_refuses_what_it_cannot_honour") =>
                {
                    let mut without = specification.clone();
                    without.given.spot = None;
                    self.memory.resolve(&without)
                }
                _ if self.breaks("resolve_reports_every_problem_at_once") => {
                    Err(problems.into_iter().take(1).collect())
                }
                _ => Err(problems),
            },
        }
    }

    async fn create(&self, request: &CreateRequest, accepted: &Accepted) -> Result<Created, Error> {
        match request {
            CreateRequest::New(request) => self.create_wrongly(request, accepted).await,
            CreateRequest::Resume(request) => self.resume_wrongly(request, accepted).await,
        }
    }

    async fn get(&self, request: &GetRequest) -> Result<Found, Error> {
        self.get_wrongly(request).await
    }

    async fn delete(&self, request: &DeleteRequest) -> Result<Deleted, Error> {
        self.delete_wrongly(request).await
    }

    async fn adopt(&self, request: &AdoptRequest) -> Result<Adoption, Error> {
        self.adopt_wrongly(request).await
    }

    async fn list_by_tag(&self, filter: &ListFilter) -> Result<Listing, Error> {
        self.list_wrongly(filter).await
    }

    async fn check(&self) -> Vec<TargetHealth> {
        let mut reports = self.memory.check().await;
        if self.breaks("check_has_a_healthy_report_for_each_target")
            && let Some(first) = reports.first().cloned()
        {
            reports.push(first);
        }
        if self.breaks("check_reports_what_does_not_answer") {
            for report in &mut reports {
                report.reason = HealthReason::Healthy;
            }
        }
        reports
    }
}

/// A harness whose backends are all wrong in one rule.
#[derive(Debug)]
pub struct MutantHarness {
    inner: MemoryHarness,
    mutation: &'static str,
    memories: Arc<Mutex<Memories>>,
}

impl MutantHarness {
    /// A world whose backends have that mutation.
    #[must_use]
    pub fn new(mutation: &Mutation) -> Self {
        Self {
            inner: MemoryHarness::new(PROFILE),
            mutation: mutation.breaks,
            memories: Arc::default(),
        }
    }

    fn mutant(&self, memory: Memory) -> Arc<dyn Backend> {
        Arc::new(Mutant {
            memory,
            mutation: self.mutation,
            memories: Arc::clone(&self.memories),
        })
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Harness for MutantHarness {
    fn backend(&self) -> Arc<dyn Backend> {
        self.mutant(self.inner.memory())
    }

    fn backend_without(&self, id: &NativeId) -> Result<Arc<dyn Backend>, Broken> {
        Ok(self.mutant(self.inner.memory_without(id)))
    }

    fn cannot(&self) -> &[(Ability, &'static str)] {
        self.inner.cannot()
    }

    fn namespace(&self) -> Namespace {
        self.inner.namespace()
    }

    fn facts(&self) -> Facts {
        self.inner.facts()
    }

    fn other_facts(&self) -> Facts {
        self.inner.other_facts()
    }

    fn facts_elsewhere(&self) -> Result<Facts, Broken> {
        self.inner.facts_elsewhere()
    }

    fn refused(&self, honoured: &Specification) -> Vec<(Fact, Specification)> {
        self.inner.refused(honoured)
    }

    fn malformed_ids(&self) -> Vec<NativeId> {
        self.inner.malformed_ids()
    }

    async fn stage(&self, control: Control<'_>) -> Result<(), Broken> {
        self.inner.stage(control).await
    }

    async fn sight(&self, id: &NativeId) -> Result<Sighting, Broken> {
        self.inner.sight(id).await
    }

    fn patience(&self) -> Duration {
        self.inner.patience()
    }

    async fn tidy(&self) {
        self.inner.tidy().await;
    }
}

macro_rules! mutations {
    ($($breaks:ident: $how:literal;)+) => {
        /// Every mutation.
        pub const MUTATIONS: &[Mutation] = &[$(Mutation { breaks: stringify!($breaks), how: $how },)+];
    };
}

mutations! {
    resolve_gives_the_id_that_create_makes: "create returns another id than resolve said";
    resolve_is_stable: "resolve adds one to the port each time";
    resolve_refuses_what_it_cannot_honour: "resolve ignores `spot`";
    resolve_reports_every_problem_at_once: "resolve stops at the first problem";
    check_has_a_healthy_report_for_each_target: "check reports one target twice";
    check_reports_what_does_not_answer: "check is healthy whatever happens";
    create_makes_what_was_asked: "create returns a mark without the port";
    create_hands_over: "create returns a pending instance";
    create_clears_pending_last: "what is pending does not look so";
    create_reports_what_was_accepted: "create reports only what it made";
    create_reports_nothing_before_acceptance: "create reports what was not accepted";
    create_fails_for_the_backends_own_reason: "create replaces the backend's words";
    create_refuses_another_spec: "create replaces an instance of another specification";
    create_refuses_another_installation: "create replaces another installation's instance";
    create_refuses_what_has_no_mark: "create replaces what carries no mark";
    create_refuses_what_was_handed_over: "create refuses without a way out";
    create_serialises_on_one_key: "a create beside another one fails as Transient";
    create_rebuilds_damaged_leftovers: "create trusts a leftover";
    create_never_says_not_found: "create passes the remote's NotFound of a reference on";
    create_of_what_vanished_may_be_repeated: "create passes the remote's NotFound of an own object on";
    create_shows_no_secret: "create tells the password's hash in a warning";
    create_adopts_what_was_cut_off: "adoption makes a second disk";
    create_resumes_from_any_stage: "delete leaves the disk of what was adopted";
    create_resumes_what_was_dropped: "a create that was dropped blocks the name";
    create_revives_what_ended_while_pending: "adoption takes what ended for success";
    adoption_gives_the_new_incarnation: "an adopted instance keeps its incarnation";
    adoption_warns: "adoption is silent";
    same_spec_adopts_what_was_handed_over: "`same_spec` is taken for `interrupted`";
    same_spec_refuses_another_spec: "`same_spec` replaces another specification";
    never_adopts_nothing: "`never` is taken for `interrupted`";
    create_repeated_finishes_its_own: "create takes its own earlier attempt for another's";
    create_repeated_keeps_what_it_handed_over: "create takes what it handed over itself for another state's";
    resume_starts_what_was_stopped: "resume starts nothing";
    resume_hands_over_what_is_pending: "resume leaves `pending`";
    resume_refuses_another_incarnation: "resume takes whatever incarnation is there";
    resume_refuses_another_installation: "resume takes whatever installation it is of";
    resume_never_creates: "resume makes what is not there";
    resume_refuses_what_ended: "resume restarts what ended";
    labels_are_reported_as_given: "labels without a value are not reported";
    labels_of_others_are_not_reported: "every label is reported as the user's";
    resume_removes_the_labels_it_set: "resume only adds labels";
    resume_keeps_the_labels_of_others: "resume replaces all labels";
    get_finds_what_was_created: "the mark forgets what was given";
    get_of_nothing_is_not_found: "plain absence is told as news";
    get_proves_absence_on_the_recorded_target_only: "get ignores the recorded target";
    get_of_our_incarnation_needs_no_target: "get compares the target first of all";
    get_reports_remains_as_terminated: "get calls remains absent";
    get_of_another_incarnation_is_noteworthy_absence: "another incarnation is plain absence";
    get_of_another_installation_is_permanent: "get ignores the installation";
    get_of_a_stripped_mark_is_permanent: "a stripped mark is absence";
    get_of_a_malformed_id_is_permanent: "a malformed id is absence";
    get_on_an_unconfigured_part_is_permanent: "a part that is not configured is absence";
    get_from_what_does_not_answer_is_no_answer: "what does not answer is absence";
    get_never_writes: "get clears `pending` of what it was not asked for";
    get_reports_stopped: "a stopped instance is on its way";
    get_reports_terminated: "a terminated instance is stopped";
    get_reports_provisioning: "an instance on its way is started";
    get_reports_running: "a running instance is not started";
    get_without_an_address_is_started_but_not_running: "without an address it is running all the same";
    get_knows_when_it_was_created: "nobody knows when it was created";
    get_probes_only_when_asked: "get always says it is ready";
    get_says_what_is_not_ready: "a probe is always ready";
    get_for_an_import_finds_what_is_there: "an import sees another uid";
    delete_leaves_nothing: "delete leaves a rule that only the remote shows";
    delete_answers_as_the_profile_says: "delete says accepted although it waited";
    delete_is_idempotent: "deleting what is gone fails";
    delete_leaves_another_incarnation_alone: "delete takes whatever incarnation is there";
    delete_without_an_incarnation_spares_instances: "without an incarnation delete takes the instance";
    delete_takes_remains: "delete takes no remains";
    delete_refuses_what_has_no_mark: "delete takes what carries no mark";
    delete_refuses_another_installation: "delete ignores the installation";
    delete_on_an_unconfigured_part_is_permanent: "what is not configured is gone";
    delete_on_another_target_is_permanent: "delete ignores the recorded target";
    delete_of_what_does_not_answer_fails: "what does not answer is gone";
    delete_cut_off_is_finished_by_the_next: "delete takes the mark first";
    delete_takes_what_is_pending: "delete spares what is pending";
    adopt_shows_without_writing: "showing a mark writes it";
    adopt_makes_a_mark_of_its_own: "the mark of what had none is pending";
    adopt_guesses_nothing: "one unknown fact is not named";
    adopt_writes_what_is_stated: "stated clients are not written";
    adopt_writes_what_it_showed: "another mark is written than was shown";
    adopt_leaves_the_instance_as_it_was: "what is adopted is stopped";
    adopt_repeated_is_success: "a repeated write is refused";
    adopt_writes_only_what_it_would_show: "any mark is written";
    adopt_refuses_what_is_ours: "what is ours is refused without a way out";
    adopt_refuses_another_installation: "another installation's instance is taken unasked";
    adopt_from_refuses_what_is_not_theirs: "what has no mark is taken as the named installation's";
    adopt_of_another_installations_keeps_all_but_the_owner: "what is re-marked gets a new incarnation";
    adopt_of_nothing_is_not_found: "that there is nothing is a refusal";
    list_finds_what_was_created: "a listing has one instance";
    list_agrees_with_get: "a listing gives another reason than get";
    list_hides_other_installations: "a listing has every installation's instances";
    list_keeps_to_the_namespace: "a listing ignores the namespace";
    list_finds_what_is_pending: "a listing leaves out what is pending";
    list_finds_remains: "a listing leaves out remains";
    list_ignores_what_has_no_mark: "a listing goes by the name";
    list_names_the_part_that_did_not_answer: "a silent part is left out silently";
    list_names_the_object_it_could_not_read: "an unreadable object is left out silently";
    list_of_nothing_readable_fails: "a listing of which nothing could be read is empty";
    errors_keep_what_may_be_repeated: "an outage is Permanent";
    errors_keep_what_is_refused: "a refusal is absence";
    errors_tell_a_used_up_allowance: "a used-up allowance is Transient";
}

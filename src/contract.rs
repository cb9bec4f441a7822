//! The contract between Terraform's side and the backends: one trait, five operations.
//!
//! It imports nothing of ours; every layer may import it. The rustdoc of [`Backend`] is normative:
//! each bullet names the conformance case that proves it.

pub mod disagreement;
pub mod error;
pub mod latch;
pub mod mark;
#[cfg(feature = "testing")]
pub mod memory;
pub mod model;
pub mod name;
pub mod observe;
pub mod profile;
pub mod refusal;
pub mod snapshot;
pub mod spec;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use async_trait::async_trait;

pub use error::{Error, ErrorKind, Operation};
pub use mark::Mark;
pub use model::{
    BackendName, HealthReason, Incarnation, Installation, Instance, InstanceId, InstanceKey, ListFilter,
    Listing, Namespace, NativeId, ProxyName, Secondary, State, Target, TargetHealth, Uid, Unreadable,
    Warning,
};
pub use profile::Profile;
pub use spec::{Fact, Facts, Secret, Secrets};

/// What create does with an instance of ours that already has the name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum AdoptPolicy {
    /// Adopt what an earlier create of the same uid left pending.
    #[default]
    Interrupted,
    /// Adopt what has the same uid, handed over or not.
    SameSpec,
    /// Adopt nothing.
    Never,
}

/// Create a new instance, or finish one that an earlier create left pending.
#[derive(Clone, Debug)]
pub struct NewInstance {
    /// Installation, namespace, name.
    pub key: InstanceKey,
    /// The adoption guard: follows from key and facts.
    pub uid: Uid,
    /// The incarnation the instance gets, adopted or new.
    pub incarnation: Incarnation,
    /// The hash of `facts`.
    pub spec_sha256: String,
    /// The create-only facts as [`Backend::resolve`] returned them.
    pub facts: Facts,
    /// Which of them the user gave.
    pub given: BTreeSet<Fact>,
    /// The user's labels.
    pub labels: BTreeMap<String, String>,
    /// What no mark may hold.
    pub secrets: Secrets,
    /// What to adopt.
    pub adopt: AdoptPolicy,
}

impl NewInstance {
    /// A new incarnation of what these resolved facts describe, without labels and secrets, under
    /// the default policy.
    #[must_use]
    pub fn new(key: InstanceKey, facts: Facts, given: BTreeSet<Fact>) -> Self {
        let spec_sha256 = facts.sha256();
        Self {
            uid: Uid::of(&key, &spec_sha256),
            key,
            incarnation: Incarnation::fresh(),
            spec_sha256,
            facts,
            given,
            labels: BTreeMap::new(),
            secrets: Secrets::default(),
            adopt: AdoptPolicy::default(),
        }
    }
}

/// Start, resume, hand over or relabel exactly one existing instance.
#[derive(Clone, Debug)]
pub struct Resume {
    /// Which.
    pub id: NativeId,
    /// Which incarnation of it; another one is refused.
    pub incarnation: Incarnation,
    /// Who owns it.
    pub installation: Installation,
    /// The labels it shall have.
    pub labels: BTreeMap<String, String>,
    /// The label keys that the state says the user set before.
    pub prior_label_keys: BTreeSet<String>,
}

/// What [`Backend::create`] is asked to do.
#[derive(Clone, Debug)]
pub enum CreateRequest {
    /// A new instance.
    New(Box<NewInstance>),
    /// An existing one.
    Resume(Box<Resume>),
}

/// Whether, and as what, create adopted an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Adopted {
    /// It made a new one, if need be in several attempts, or resumed the one it was told to.
    No,
    /// It finished one that was pending.
    Pending,
    /// It took over one that was handed over (`adopt = "same_spec"`).
    SameSpec,
}

/// What create returns.
#[derive(Clone, Debug, PartialEq)]
pub struct Created {
    /// The instance, handed over: its mark says so on the backend.
    pub instance: Instance,
    /// Whether it existed before.
    pub adopted: Adopted,
    /// What the user should know although it succeeded.
    pub warnings: Vec<String>,
}

/// Where create reports the instance as soon as the backend accepted it, so that a create that
/// fails, is cancelled or runs out of time afterwards loses nothing.
#[derive(Debug, Default)]
pub struct Accepted(Mutex<Option<Instance>>);

impl Accepted {
    /// Nothing accepted yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The backend accepted it; a later report replaces an earlier one.
    pub fn report(&self, instance: Instance) {
        // A poisoned lock only means that another report panicked: the newest one still counts.
        *self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(instance);
    }

    /// The last report.
    #[must_use]
    pub fn last(&self) -> Option<Instance> {
        self.0
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .clone()
    }
}

/// Whether `get` may be answered from a listing that another read of the same plan took.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Freshness {
    /// It may: the read of a plan.
    Shared,
    /// It may not: a wait, an apply.
    Fresh,
}

/// What `get` is asked.
#[derive(Clone, Debug)]
pub struct GetRequest {
    /// Which instance.
    pub id: NativeId,
    /// Which incarnation; `None` on import: whichever is there.
    pub incarnation: Option<Incarnation>,
    /// Who must own it.
    pub installation: Installation,
    /// What the state says stood behind the backend's name.
    pub recorded_target: Option<Target>,
    /// Whether to ask, too, if the proxy serves.
    pub probe: bool,
    /// Whether a shared listing may answer.
    pub freshness: Freshness,
}

/// Whether the proxy serves, where `get` was asked to probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// It does.
    Ready,
    /// Not yet; what was tried and what came back.
    NotReady(String),
}

/// What `get` returns.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The instance.
    pub instance: Instance,
    /// Whether it serves; `None` where not probed.
    pub readiness: Option<Readiness>,
    /// What the user should know.
    pub warnings: Vec<String>,
}

/// What `delete` is asked.
#[derive(Clone, Debug)]
pub struct DeleteRequest {
    /// Which instance.
    pub id: NativeId,
    /// Which incarnation; another one is left alone. `None` takes secondary objects without an
    /// instance, and nothing else.
    pub incarnation: Option<Incarnation>,
    /// Who must own it.
    pub installation: Installation,
    /// What the state says stood behind the backend's name.
    pub recorded_target: Option<Target>,
}

/// What `delete` did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deleted {
    /// It is gone, or was gone already.
    Gone,
    /// Deletion was accepted: `get` proves absence later (profile `returns-early`).
    Accepted,
    /// Another incarnation is there; the text says whose.
    LeftAlone(String),
}

/// Something wrong with a specification, found without any I/O.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where.
    pub fact: Fact,
    /// What is wrong, with the value and the way out.
    pub message: String,
}

/// A specification that a backend can honour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// The id the instance has or will have.
    pub id: NativeId,
    /// The facts with every default filled in, in canonical form.
    pub facts: Facts,
    /// What the user should know at plan time.
    pub warnings: Vec<Warning>,
}

/// What a backend is asked to resolve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Specification {
    /// Namespace and name, under the backend's installation.
    pub key: InstanceKey,
    /// What the user gave.
    pub given: Facts,
    /// The user's labels.
    pub labels: BTreeMap<String, String>,
}

/// One kind of place where egress proxies run.
///
/// An implementation holds its configuration, dials lazily, classifies its failures, and puts a
/// budget on every remote call. It does not retry, sleep, or set the operation's deadline: that is
/// done once, above. This documentation is normative; the name at the end of each rule is the
/// conformance case that proves it, and [`refusal`] has the words in which to refuse.
///
/// # Cancel safety
/// Dropping the future of any operation cancels it. What was half done is finished by the next
/// create of the same uid or by delete; a wire left half-read is marked dead by whoever owns it.
#[async_trait]
pub trait Backend: Send + Sync + std::fmt::Debug {
    /// The backend's answers on every axis.
    ///
    /// What is a backend's nature is data here, and the cases below read it: a case whose axis says
    /// "absent" proves the opposite rule.
    fn profile(&self) -> &Profile;

    /// What the specification means here: id, defaults, warnings. No I/O, no credentials.
    ///
    /// # Behavior
    /// - The id is the one that create gives: `resolve_gives_the_id_that_create_makes`.
    /// - The facts have every default filled in and are in canonical form; resolving them again
    ///   changes nothing: `resolve_is_stable`.
    ///
    /// # Errors
    /// - Whatever this backend cannot honour is refused and blamed on its fact, never ignored; so are
    ///   labels of ours: `resolve_refuses_what_it_cannot_honour`.
    /// - Every problem at once: `resolve_reports_every_problem_at_once`.
    fn resolve(&self, specification: &Specification) -> Result<Resolved, Vec<Problem>>;

    /// Makes the instance, adopts one that an earlier create left, or resumes exactly the one named.
    ///
    /// # Behavior
    /// Of a new instance:
    /// - It carries key, uid, incarnation and facts of the request, and runs in time:
    ///   `create_makes_what_was_asked`.
    /// - Its mark says pending until create's last remote write before it returns clears that:
    ///   `create_clears_pending_last`, `create_hands_over`.
    /// - It is reported through `accepted` as soon as the backend accepted it, and not before:
    ///   `create_reports_what_was_accepted`, `create_reports_nothing_before_acceptance`.
    /// - Operations on one key are serialised: `create_serialises_on_one_key`.
    /// - Leftovers of our own without their instance are verified or rebuilt, never trusted:
    ///   `create_rebuilds_damaged_leftovers`.
    /// - The user's labels are on it: `labels_are_reported_as_given`.
    /// - No secret is in the mark or in anything that is returned: `create_shows_no_secret`.
    ///
    /// Of an instance that is there already:
    /// - Pending and of the same uid, it is adopted and finished from whatever step it stopped at:
    ///   `create_adopts_what_was_cut_off`, `create_resumes_from_any_stage`,
    ///   `create_resumes_what_was_dropped`.
    /// - What ended while it was pending is made to run, not taken for success:
    ///   `create_revives_what_ended_while_pending`.
    /// - Adopted, it has the request's incarnation: `adoption_gives_the_new_incarnation`.
    /// - Adoption is success with a warning: `adoption_warns`.
    /// - [`AdoptPolicy::SameSpec`] adopts what was handed over too, but nothing of another uid:
    ///   `same_spec_adopts_what_was_handed_over`, `same_spec_refuses_another_spec`.
    /// - [`AdoptPolicy::Never`] adopts nothing: `never_adopts_nothing`.
    /// - Of the request's own incarnation it is no adoption, whatever the policy: a create that is
    ///   repeated finishes what its earlier attempt made, handed over or not, and says nothing of it:
    ///   `create_repeated_finishes_its_own`, `create_repeated_keeps_what_it_handed_over`.
    ///
    /// Of a resume:
    /// - It starts or resumes what is stopped, clears pending, and sets the labels:
    ///   `resume_starts_what_was_stopped`, `resume_hands_over_what_is_pending`.
    /// - It removes the label keys that the mark or the state says the user set, and no other:
    ///   `resume_removes_the_labels_it_set`, `resume_keeps_the_labels_of_others`.
    ///
    /// # Errors
    /// Permanent, and nothing is touched:
    /// - another uid under the name: `create_refuses_another_spec`;
    /// - another installation: `create_refuses_another_installation`;
    /// - something without a mark, with the command `adopt` in the text:
    ///   `create_refuses_what_has_no_mark`;
    /// - what was handed over, with the import block and the hints for `moved` and
    ///   `create_before_destroy` in the text: `create_refuses_what_was_handed_over`;
    /// - a resume of another incarnation or installation, of what is gone, of what ended:
    ///   `resume_refuses_another_incarnation`, `resume_refuses_another_installation`,
    ///   `resume_never_creates`, `resume_refuses_what_ended`.
    ///
    /// Otherwise:
    /// - A failure after acceptance carries the backend's own reason:
    ///   `create_fails_for_the_backends_own_reason`.
    /// - Never NotFound: a missing reference is Permanent, an own object that vanished meanwhile is
    ///   Transient: `create_never_says_not_found`, `create_of_what_vanished_may_be_repeated`.
    /// - QuotaExceeded where an allowance is used up, if the profile tells it apart:
    ///   `errors_tell_a_used_up_allowance`.
    async fn create(&self, request: &CreateRequest, accepted: &Accepted) -> Result<Created, Error>;

    /// Finds one instance. Never writes: `get_never_writes`.
    ///
    /// # Behavior
    /// - It returns the mark as it was written: `get_finds_what_was_created`.
    /// - Without an incarnation, for an import, it returns whichever is there:
    ///   `get_for_an_import_finds_what_is_there`.
    /// - Finding the incarnation asked for proves the target: `get_of_our_incarnation_needs_no_target`.
    /// - States are as the profile lists them: `get_reports_provisioning`, `get_reports_running`,
    ///   `get_reports_stopped`, `get_reports_terminated`.
    /// - Running implies an address; running without one just now is Provisioning and started:
    ///   `get_without_an_address_is_started_but_not_running`.
    /// - Secondary objects alone are Terminated, so that a delete cut off is finished:
    ///   `get_reports_remains_as_terminated`.
    /// - The time of creation is known: `get_knows_when_it_was_created`.
    /// - Labels are those whose keys the mark lists: `labels_of_others_are_not_reported`.
    /// - Readiness comes exactly when it was asked for, and says what was tried:
    ///   `get_probes_only_when_asked`, `get_says_what_is_not_ready`.
    ///
    /// # Errors
    /// - NotFound: only proved absence: `get_of_nothing_is_not_found`.
    /// - NotFound, noteworthy: another incarnation is there; the text says whose:
    ///   `get_of_another_incarnation_is_noteworthy_absence`.
    /// - Permanent: absence on another target than the recorded one, with `state rm` in the text:
    ///   `get_proves_absence_on_the_recorded_target_only`.
    /// - Permanent: the incarnation under another installation, naming both:
    ///   `get_of_another_installation_is_permanent`.
    /// - Permanent: a mark that was stripped, with `adopt` in the text:
    ///   `get_of_a_stripped_mark_is_permanent`.
    /// - Permanent: a malformed id: `get_of_a_malformed_id_is_permanent`.
    /// - Permanent: a part that the configuration does not name, with the entry to restore:
    ///   `get_on_an_unconfigured_part_is_permanent`.
    /// - Permanent: a refusal of who we are: `errors_keep_what_is_refused`.
    /// - Transient: what does not answer, a rate, an outage: `get_from_what_does_not_answer_is_no_answer`,
    ///   `errors_keep_what_may_be_repeated`.
    async fn get(&self, request: &GetRequest) -> Result<Found, Error>;

    /// Removes one instance and everything that belongs to it.
    ///
    /// # Behavior
    /// - After it returns, or after the wait that the profile asks for, nothing is left:
    ///   `delete_leaves_nothing`, `delete_answers_as_the_profile_says`.
    /// - What belongs to the instance goes first and what carries the mark last, so that one cut off
    ///   is finished by the next: `delete_cut_off_is_finished_by_the_next`.
    /// - Already gone is success: `delete_is_idempotent`.
    /// - Pending instances go like any other: `delete_takes_what_is_pending`.
    /// - Another incarnation is left alone, as a success that says whose it is:
    ///   `delete_leaves_another_incarnation_alone`.
    /// - Without an incarnation it takes secondary objects without their instance and nothing else:
    ///   `delete_takes_remains`, `delete_without_an_incarnation_spares_instances`.
    ///
    /// # Errors
    /// - Permanent: what carries no mark: `delete_refuses_what_has_no_mark`.
    /// - Permanent: the incarnation under another installation: `delete_refuses_another_installation`.
    /// - Permanent: a part missing from the configuration: `delete_on_an_unconfigured_part_is_permanent`.
    /// - Permanent: absence on another target than the recorded one:
    ///   `delete_on_another_target_is_permanent`.
    /// - Transient: what does not answer: `delete_of_what_does_not_answer_fails`.
    async fn delete(&self, request: &DeleteRequest) -> Result<Deleted, Error>;

    /// Finds every instance with the installation's mark. Partial is never silent.
    ///
    /// # Behavior
    /// - Every instance of the installation, pending or not: `list_finds_what_was_created`,
    ///   `list_finds_what_is_pending`.
    /// - Each exactly as `get` would return it, since the reads of a plan share a listing:
    ///   `list_agrees_with_get`.
    /// - Secondary objects without their instance: `list_finds_remains`.
    /// - Nothing of another installation, nothing without a mark, nothing of another namespace where
    ///   one is asked for: `list_hides_other_installations`, `list_ignores_what_has_no_mark`,
    ///   `list_keeps_to_the_namespace`.
    /// - A part that does not answer, or one object that cannot be read, is left out and named with
    ///   the prefix of the ids it may hide: `list_names_the_part_that_did_not_answer`,
    ///   `list_names_the_object_it_could_not_read`.
    ///
    /// # Errors
    /// Only when nothing at all could be listed: `list_of_nothing_readable_fails`.
    async fn list_by_tag(&self, filter: &ListFilter) -> Result<Listing, Error>;

    /// One report for each target: cheap, read-only, never disturbing a running operation.
    ///
    /// # Behavior
    /// - Each target once: `check_has_a_healthy_report_for_each_target`.
    /// - Unhealthy is a report with its reason, not a failure: `check_reports_what_does_not_answer`.
    async fn check(&self) -> Vec<TargetHealth>;
}

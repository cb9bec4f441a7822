//! The contract between Terraform's side and the backends: one trait, six operations.
//!
//! It imports nothing of ours; every layer may import it. The rustdoc of [`Backend`] is normative:
//! each bullet names the conformance case that proves it.

pub mod adoption;
pub mod claim;
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
pub mod request;
pub mod resolve;
pub mod snapshot;
pub mod spec;

use async_trait::async_trait;

pub use adoption::{AdoptRequest, Adoption};
pub use error::{Error, ErrorKind, Operation};
pub use mark::Mark;
pub use model::{
    BackendName, HealthReason, Incarnation, Installation, Instance, InstanceId, InstanceKey, ListFilter,
    Listing, Namespace, NativeId, ProxyName, Secondary, State, Target, TargetHealth, Uid, Unreadable,
    Warning,
};
pub use profile::Profile;
pub use request::{
    Accepted, AdoptPolicy, Adopted, CreateRequest, Created, DeleteRequest, Deleted, Found, Freshness,
    GetRequest, NewInstance, Readiness, Resume,
};
pub use resolve::{Problem, Problems, Resolved, Specification};
pub use spec::{Fact, Facts, Secret, Secrets};

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

    /// Writes our mark on one instance that carries none, or another installation's; or, asked for no
    /// write, says which mark that would be.
    ///
    /// # Behavior
    /// Asked for no write, it changes nothing: `adopt_shows_without_writing`. The mark that it shows:
    /// - Has the key that follows from id and installation, the uid that follows from that and the
    ///   facts, and is handed over, so that the next step is an import:
    ///   `adopt_makes_a_mark_of_its_own`.
    /// - Holds every fact that the instance itself shows, and beside these what the caller states;
    ///   the rest is named as unknown, and nothing is guessed: `adopt_guesses_nothing`,
    ///   `adopt_writes_what_is_stated`.
    /// - Under `from`, is the mark that is there with another owner: incarnation, facts and labels
    ///   stay, so that a state which holds the instance goes on holding it:
    ///   `adopt_of_another_installations_keeps_all_but_the_owner`.
    ///
    /// Asked to write a mark:
    /// - Exactly this mark is there then, `get` and `list_by_tag` find it, and nothing else of the
    ///   instance changed: `adopt_writes_what_it_showed`, `adopt_leaves_the_instance_as_it_was`.
    /// - Repeated, it is success: `adopt_repeated_is_success`.
    /// - Operations on one key are serialised, as those of create are.
    ///
    /// # Errors
    /// Permanent, and nothing is touched:
    /// - what carries our own mark already, with the command `import` in the text:
    ///   `adopt_refuses_what_is_ours`;
    /// - another installation's, unless `from` names it; and what carries no mark, where `from` names
    ///   one: `adopt_refuses_another_installation`, `adopt_from_refuses_what_is_not_theirs`;
    /// - a mark to write that is not the one it would show now: the instance changed since:
    ///   `adopt_writes_only_what_it_would_show`.
    ///
    /// Otherwise as `get`: NotFound where there is nothing (`adopt_of_nothing_is_not_found`), Permanent
    /// for malformed ids and parts that are not configured, Transient for what does not answer.
    async fn adopt(&self, request: &AdoptRequest) -> Result<Adoption, Error>;

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

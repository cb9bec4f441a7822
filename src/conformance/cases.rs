//! The list of all cases, and the macro that makes one test of each.
//!
//! It must not know a backend. Invariant: this list is the only place that enumerates cases; the
//! tests, the mutations and the documentation are checked against it.

mod adopt;
mod by_hand;
mod create;
mod delete;
mod errors;
mod get;
mod labels;
mod list;
mod plan;
mod resume;

use super::harness::Ability::{
    AllUnreachable, Damage, Elsewhere, FailCreate, FailDelete, ForeignLabel, HangCreate, LeaveRemains,
    LoseAddress, PlaceForeign, Refuse, SetState, StopServing, StripMark, Unreachable, Unreadable, Vanish,
    Without,
};
use super::harness::Stage::{Accept, Handover, Instance};
use super::{Case, Trial};
use crate::contract::State::{Provisioning, Running, Stopped, Terminated};

macro_rules! cases {
    (($d:tt) $($group:ident::$name:ident needs $needs:expr, $rule:literal;)+) => {
        /// Every case, in the order of the operations.
        pub const CASES: &[Case] = &[$(Case {
            name: stringify!($name),
            rule: $rule,
            needs: &$needs,
            run: |trial| Box::pin($group::$name(trial)),
        },)+];

        /// Makes a module with one test for each case of the suite.
        ///
        /// `conformance_tests!(name, harness)` uses the real clock, `conformance_tests!(paused name,
        /// harness)` the paused one. The harness is an expression, evaluated anew in each test; it
        /// may await. Attributes such as `#[ignore = "needs libvirtd"]` go onto every test.
        #[macro_export]
        macro_rules! conformance_tests {
            ($d(#[$d attribute:meta])* paused $d module:ident, $d harness:expr) => {
                $crate::conformance_tests!(@ [$d($d attribute),*] [start_paused = true] $d module, $d harness);
            };
            ($d(#[$d attribute:meta])* $d module:ident, $d harness:expr) => {
                $crate::conformance_tests!(@ [$d($d attribute),*] [flavor = "multi_thread", worker_threads = 2] $d module, $d harness);
            };
            (@ $d attributes:tt $d runtime:tt $d module:ident, $d harness:expr) => {
                mod $d module {
                    #[allow(unused_imports, reason = "the harness expression may name anything of its module, or nothing")]
                    use super::*;
                    $($crate::conformance_tests!(#one $d attributes $d runtime $name, $d harness);)+
                    $crate::conformance_tests!(#skips $d attributes $d runtime $d harness);
                }
            };
            (#skips [$d($d attribute:meta),*] [$d($d runtime:tt)*] $d harness:expr) => {
                $d(#[$d attribute])*
                #[tokio::test($d($d runtime)*)]
                async fn what_cannot_be_staged_is_declared() {
                    let harness = $d harness;
                    $crate::conformance::report_skips(&harness);
                }
            };
            (#one [$d($d attribute:meta),*] [$d($d runtime:tt)*] $d case:ident, $d harness:expr) => {
                $d(#[$d attribute])*
                #[tokio::test($d($d runtime)*)]
                async fn $d case() {
                    let harness = $d harness;
                    $crate::conformance::prove(stringify!($d case), &harness).await;
                }
            };
        }
    };
}

cases! { ($)
    plan::resolve_gives_the_id_that_create_makes needs [], "The id that resolve gives is the id of the instance.";
    plan::resolve_is_stable needs [], "Resolving what was resolved changes nothing, so that a second plan is empty.";
    plan::resolve_refuses_what_it_cannot_honour needs [], "What the backend cannot honour is refused and blamed on its fact, never ignored.";
    plan::resolve_reports_every_problem_at_once needs [], "Every problem of a specification is reported at once.";
    plan::check_has_a_healthy_report_for_each_target needs [], "Check reports each target once, healthy where it can be used.";
    plan::check_reports_what_does_not_answer needs [AllUnreachable], "An unhealthy target is a report that says why, not a failure.";

    create::create_makes_what_was_asked needs [], "A new instance carries the request's key, uid, incarnation, facts, and runs.";
    create::create_hands_over needs [], "A create that succeeded has cleared `pending` on the backend.";
    create::create_clears_pending_last needs [FailCreate(Handover)], "Until its last remote write a create leaves the instance pending.";
    create::create_reports_what_was_accepted needs [FailCreate(Instance)], "What the backend accepted is reported although create fails afterwards.";
    create::create_reports_nothing_before_acceptance needs [FailCreate(Accept)], "A create that the backend did not accept reports nothing and leaves nothing.";
    create::create_fails_for_the_backends_own_reason needs [FailCreate(Instance)], "A failure after acceptance carries the backend's own reason.";
    create::create_refuses_another_spec needs [], "A different uid under the name is Permanent and is not touched.";
    create::create_refuses_another_installation needs [], "An instance of another installation is Permanent, names it, and is not touched.";
    create::create_refuses_what_has_no_mark needs [PlaceForeign], "Something unmarked under the name is Permanent, with `adopt` as the way out, and is not touched.";
    create::create_refuses_what_was_handed_over needs [], "An instance that was handed over is Permanent, with the import block and the hints in the text, and is not touched.";
    create::create_serialises_on_one_key needs [], "Of two creates of one key at once, one makes the instance and the other finds it handed over.";
    create::create_rebuilds_damaged_leftovers needs [LeaveRemains, Damage], "Leftovers of our own are verified or rebuilt, never trusted.";
    create::create_never_says_not_found needs [FailCreate(Accept)], "A reference that is missing is Permanent, not absence of the instance.";
    create::create_of_what_vanished_may_be_repeated needs [FailCreate(Handover)], "An own object that vanished during create is Transient.";
    create::create_shows_no_secret needs [], "No secret is in the instance, its mark, or anything create says.";

    adopt::create_adopts_what_was_cut_off needs [FailCreate(Handover)], "A pending instance of the same uid is adopted, and there is one of it.";
    adopt::create_resumes_from_any_stage needs [FailCreate(Handover)], "Whatever stage a create was cut off at, the next one finishes it and delete leaves nothing.";
    adopt::create_resumes_what_was_dropped needs [HangCreate(Instance)], "A create whose caller dropped it is finished by the next one.";
    adopt::create_revives_what_ended_while_pending needs [FailCreate(Handover), SetState(Terminated)], "A pending instance that ended meanwhile is not taken for success: it runs after the next create.";
    adopt::adoption_gives_the_new_incarnation needs [FailCreate(Handover)], "An adopted instance has the incarnation of the create that adopted it.";
    adopt::adoption_warns needs [FailCreate(Handover)], "Adoption is success with a warning.";
    adopt::same_spec_adopts_what_was_handed_over needs [], "Under `same_spec` an instance of the same uid is adopted although it was handed over.";
    adopt::same_spec_refuses_another_spec needs [], "Under `same_spec` another uid is refused all the same.";
    adopt::never_adopts_nothing needs [FailCreate(Handover)], "Under `never` even a pending instance of the same uid is refused.";
    adopt::create_repeated_finishes_its_own needs [FailCreate(Handover)], "A create repeated with its own incarnation finishes its own instance under every policy, which is no adoption.";
    adopt::create_repeated_keeps_what_it_handed_over needs [], "A create repeated because its answer was lost returns what it handed over, under every policy and as no adoption.";

    resume::resume_starts_what_was_stopped needs [SetState(Stopped)], "Resume starts a stopped instance.";
    resume::resume_hands_over_what_is_pending needs [FailCreate(Handover)], "Resume clears `pending`, so that an interrupted create can be finished.";
    resume::resume_refuses_another_incarnation needs [], "Resume acts on exactly its incarnation, else it is Permanent: plan again.";
    resume::resume_refuses_another_installation needs [], "Resume of another installation's instance is Permanent.";
    resume::resume_never_creates needs [Vanish], "Resume of what is gone is Permanent and makes nothing.";
    resume::resume_refuses_what_ended needs [SetState(Terminated)], "Resume of a terminated instance is Permanent: it is to be replaced.";

    labels::labels_are_reported_as_given needs [], "Read reports exactly the labels that the user gave.";
    labels::labels_of_others_are_not_reported needs [ForeignLabel], "A label that somebody else put is not reported as the user's.";
    labels::resume_removes_the_labels_it_set needs [], "Resume removes the label keys that the user set before and wants no longer.";
    labels::resume_keeps_the_labels_of_others needs [ForeignLabel], "Resume removes no label that it did not set.";

    get::get_finds_what_was_created needs [], "Get returns the mark as it was written.";
    get::get_of_nothing_is_not_found needs [], "Proved absence is NotFound.";
    get::get_proves_absence_on_the_recorded_target_only needs [], "Absence on another target than the recorded one is Permanent, with `state rm` as the way out.";
    get::get_of_our_incarnation_needs_no_target needs [], "Finding our incarnation proves the target.";
    get::get_reports_remains_as_terminated needs [LeaveRemains], "Secondary objects alone are Terminated; where there are none of their own, absence is NotFound.";
    get::get_of_another_incarnation_is_noteworthy_absence needs [], "Another incarnation is NotFound, with a warning that says whose it is.";
    get::get_of_another_installation_is_permanent needs [], "Our incarnation under another installation is Permanent and names both.";
    get::get_of_a_stripped_mark_is_permanent needs [StripMark], "A mark that was stripped is Permanent, with `adopt` as the way out.";
    get::get_of_a_malformed_id_is_permanent needs [], "A malformed id is Permanent.";
    get::get_on_an_unconfigured_part_is_permanent needs [Without], "A part that the configuration does not name is Permanent, and the entry to restore is named.";
    get::get_from_what_does_not_answer_is_no_answer needs [Unreachable], "What does not answer is an error, never absence.";
    get::get_never_writes needs [FailCreate(Handover)], "Get changes nothing, not even on what is pending.";
    get::get_reports_stopped needs [SetState(Stopped)], "A stopped instance is Stopped and has no address.";
    get::get_reports_terminated needs [SetState(Terminated)], "A terminated instance is Terminated.";
    get::get_reports_provisioning needs [SetState(Provisioning)], "An instance on its way is Provisioning and not started.";
    get::get_reports_running needs [SetState(Running)], "A running instance with an address is Running, started, and has it.";
    get::get_without_an_address_is_started_but_not_running needs [LoseAddress], "Running without an address is not Running, but started, so that the caller keeps the prior one.";
    get::get_knows_when_it_was_created needs [], "The time of creation is known, or the instance could never be collected.";
    get::get_probes_only_when_asked needs [], "Readiness comes exactly when it was asked for.";
    get::get_says_what_is_not_ready needs [StopServing], "A proxy that does not serve is NotReady, and what was tried is said.";
    get::get_for_an_import_finds_what_is_there needs [], "Without an incarnation get returns whichever is there, with its mark.";

    delete::delete_leaves_nothing needs [], "After delete, or the wait that the profile asks for, nothing of the instance is left.";
    delete::delete_answers_as_the_profile_says needs [], "Delete says Gone where it waits, Accepted where it returns early, and a leaving instance is Terminated.";
    delete::delete_is_idempotent needs [], "Deleting what is gone is success.";
    delete::delete_leaves_another_incarnation_alone needs [], "Another incarnation is left alone, and the answer says whose it is.";
    delete::delete_without_an_incarnation_spares_instances needs [], "Without an incarnation delete takes no instance.";
    delete::delete_takes_remains needs [LeaveRemains], "Secondary objects without an instance are deleted by its id.";
    delete::delete_refuses_what_has_no_mark needs [StripMark], "Delete refuses what carries no mark.";
    delete::delete_refuses_another_installation needs [], "Delete refuses our incarnation under another installation.";
    delete::delete_on_an_unconfigured_part_is_permanent needs [Without], "A part missing from the configuration is Permanent, never success.";
    delete::delete_on_another_target_is_permanent needs [], "Absence on another target than the recorded one is no success of delete.";
    delete::delete_of_what_does_not_answer_fails needs [Unreachable], "What does not answer is not gone.";
    delete::delete_cut_off_is_finished_by_the_next needs [FailDelete], "A delete cut off halfway still finds the instance, and the next one finishes it.";
    delete::delete_takes_what_is_pending needs [FailCreate(Handover)], "What a create left pending is deleted like any other.";

    by_hand::adopt_shows_without_writing needs [StripMark], "Asked for no write, adopt changes nothing.";
    by_hand::adopt_makes_a_mark_of_its_own needs [StripMark], "The mark of what had none follows from the id, the owner and the facts, and is handed over.";
    by_hand::adopt_guesses_nothing needs [StripMark], "A fact that the instance does not show is named as unknown, never guessed.";
    by_hand::adopt_writes_what_is_stated needs [StripMark], "What the caller states of an instance is in its mark.";
    by_hand::adopt_writes_what_it_showed needs [StripMark], "What was shown is there after the write, for get and for a listing.";
    by_hand::adopt_leaves_the_instance_as_it_was needs [StripMark], "Adopt changes nothing of an instance but its mark.";
    by_hand::adopt_repeated_is_success needs [StripMark], "Adopt repeated because its answer was lost is success.";
    by_hand::adopt_writes_only_what_it_would_show needs [StripMark], "A mark that is not the one adopt would show now is Permanent and not written.";
    by_hand::adopt_refuses_what_is_ours needs [], "What carries our mark already is Permanent, with `import` as the way out.";
    by_hand::adopt_refuses_another_installation needs [], "Another installation's instance is Permanent, names it, and is not touched.";
    by_hand::adopt_from_refuses_what_is_not_theirs needs [StripMark], "An instance that is not the named installation's is Permanent and is not touched.";
    by_hand::adopt_of_another_installations_keeps_all_but_the_owner needs [], "Re-marked, an instance keeps incarnation, facts and labels.";
    by_hand::adopt_of_nothing_is_not_found needs [], "Where there is nothing, there is nothing to adopt.";

    list::list_finds_what_was_created needs [], "A listing holds every instance of the installation.";
    list::list_agrees_with_get needs [], "A listing says of an instance what get says, since reads share it.";
    list::list_hides_other_installations needs [], "A listing holds nothing of another installation.";
    list::list_keeps_to_the_namespace needs [], "A listing of one namespace holds nothing of another.";
    list::list_finds_what_is_pending needs [FailCreate(Handover)], "A listing holds what is pending and says so.";
    list::list_finds_remains needs [LeaveRemains], "Secondary objects without an instance are listed; where there are none of their own, nothing is.";
    list::list_ignores_what_has_no_mark needs [StripMark], "What carries no mark is not listed.";
    list::list_names_the_part_that_did_not_answer needs [Unreachable, Elsewhere], "A part that does not answer is named with the prefix of its ids, and the rest is listed.";
    list::list_names_the_object_it_could_not_read needs [Unreadable], "One unreadable item is skipped and named.";
    list::list_of_nothing_readable_fails needs [AllUnreachable], "A listing of which nothing could be read is an error, never empty.";

    errors::errors_keep_what_may_be_repeated needs [Refuse], "A rate or an outage is Transient.";
    errors::errors_keep_what_is_refused needs [Refuse], "A refusal of who we are is Permanent, and no absence.";
    errors::errors_tell_a_used_up_allowance needs [FailCreate(Accept)], "A used-up allowance is QuotaExceeded where the profile says so, Permanent elsewhere.";
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_two_cases_have_one_name() {
        let names: BTreeSet<_> = CASES.iter().map(|case| case.name).collect();
        assert_eq!(names.len(), CASES.len());
    }

    /// The rustdoc of the trait is normative: it and the suite name the same cases.
    #[test]
    fn every_rule_of_the_trait_names_its_case_and_every_case_its_rule() {
        let text = include_str!("../contract.rs");
        let cited: BTreeSet<_> = text
            .lines()
            .filter_map(|line| line.trim_start().strip_prefix("///"))
            .flat_map(|line| line.split('`').skip(1).step_by(2))
            .filter(|word| CASES.iter().any(|case| case.name == *word))
            .collect();
        for case in CASES {
            assert!(cited.contains(case.name), "no rule cites {}", case.name);
        }
    }
}

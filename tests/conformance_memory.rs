//! The conformance suite over the reference backend: in memory and in a file, under other profiles,
//! through every decorator; and what the suite is worth, shown by mutations.
#![cfg(feature = "testing")]

use std::collections::BTreeSet;
use std::sync::Arc;

use egress::conformance::memory::MemoryHarness;
use egress::conformance::mutation::{MUTATIONS, MutantHarness};
use egress::conformance::{CASES, Ended, Through};
use egress::contract::latch::Latch;
use egress::contract::memory::PROFILE;
use egress::contract::observe::{Observed, Unmetered};
use egress::contract::profile::{
    CreatedAt, DeleteReturn, EgressIp, ListPartial, Profile, Quota, SecondaryResources,
};
use egress::contract::snapshot::Snapshot;
use egress::contract::{Backend, State};

/// The opposite answer on every axis that the suite reads.
const OTHER: Profile = Profile {
    delete_return: DeleteReturn::ReturnsEarly,
    created_at: CreatedAt::BackendTimestamp,
    list_partial: ListPartial::NamesObjects,
    quota: Quota::Absent,
    secondary_resources: SecondaryResources::Cascade,
    egress_ip: EgressIp::HostRoute,
    ..PROFILE
};

/// Nothing but running instances without anything beside them.
const BARE: Profile = Profile {
    states: &[State::Running],
    secondary_resources: SecondaryResources::None,
    ..PROFILE
};

fn observed(inner: Arc<dyn Backend>) -> Arc<dyn Backend> {
    let name = "lab".parse().expect("a valid name");
    Arc::new(Observed::new(name, inner, Arc::new(Unmetered)))
}

fn snapshot(inner: Arc<dyn Backend>) -> Arc<dyn Backend> {
    Arc::new(Snapshot::new(inner))
}

fn latched(inner: Arc<dyn Backend>) -> Arc<dyn Backend> {
    Arc::new(Latch::new(inner))
}

fn decorated(inner: Arc<dyn Backend>) -> Arc<dyn Backend> {
    snapshot(observed(latched(inner)))
}

egress::conformance_tests!(paused plain, MemoryHarness::new(PROFILE));
egress::conformance_tests!(paused other_profile, MemoryHarness::new(OTHER));
egress::conformance_tests!(paused bare_profile, MemoryHarness::new(BARE));
egress::conformance_tests!(in_a_file, MemoryHarness::in_file(PROFILE).expect("a file"));
egress::conformance_tests!(paused through_observe, Through::new(MemoryHarness::new(PROFILE), observed));
egress::conformance_tests!(paused through_snapshot, Through::new(MemoryHarness::new(PROFILE), snapshot));
egress::conformance_tests!(paused through_latch, Through::new(MemoryHarness::new(PROFILE), latched));
egress::conformance_tests!(paused through_all, Through::new(MemoryHarness::new(OTHER), decorated));

/// Every case has a mutation, and no mutation is for nothing.
#[test]
fn every_case_has_its_mutation() {
    let cases: Vec<_> = CASES.iter().map(|case| case.name).collect();
    let mutations: Vec<_> = MUTATIONS.iter().map(|mutation| mutation.breaks).collect();
    let unique: BTreeSet<_> = mutations.iter().collect();
    assert_eq!(unique.len(), mutations.len(), "a mutation is listed twice");
    for case in &cases {
        assert!(mutations.contains(case), "the case {case} has no mutation");
    }
    for mutation in &mutations {
        assert!(cases.contains(mutation), "{mutation} is no case");
    }
}

/// Each mutation makes exactly its case fail.
#[tokio::test(start_paused = true)]
async fn each_mutation_fails_its_case_and_no_other() {
    let mut wrong = Vec::new();
    for mutation in MUTATIONS {
        for case in CASES {
            let ended = case.run(&MutantHarness::new(mutation)).await;
            let expected = case.name == mutation.breaks;
            match ended {
                Ended::Failed(_) if expected => {}
                Ended::Passed if !expected => {}
                ended => wrong.push(format!(
                    "\"{}\" ({}): the case {} ended as {ended:?}",
                    mutation.how, mutation.breaks, case.name
                )),
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} surprises:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

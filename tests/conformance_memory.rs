//! The conformance suite over the reference backend: in memory and in a file, under other profiles,
//! through every decorator; and what the suite is worth, shown by mutations.
#![cfg(feature = "testing")]

use std::collections::BTreeSet;
use std::sync::Arc;

use egress::conformance::memory::MemoryHarness;
use egress::conformance::mutation::{MUTATIONS, MutantHarness};
use egress::conformance::{CASES, Ended, Through};
use egress::contract::latch::Latch;
use egress::contract::memory::{Memory, PROFILE, Place, Record, Settings, WorldHandle};
use egress::contract::observe::{Observed, Unmetered};
use egress::contract::profile::{
    CreatedAt, DeleteReturn, EgressIp, ListPartial, Profile, Quota, SecondaryResources,
};
use egress::contract::snapshot::Snapshot;
use egress::contract::{
    Accepted, Backend, CreateRequest, Facts, Freshness, GetRequest, Installation, InstanceKey, Mark,
    Namespace, NewInstance, State,
};

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

/// Two processes that create the same proxies at once make one of each, and somebody holds it.
#[test]
fn two_processes_never_make_one_proxy_twice() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("world.json");
    let installation: Installation = "prod".parse().expect("valid");
    let requests = |installation: &Installation| -> Vec<_> {
        (0..25)
            .map(|number| {
                let key = InstanceKey {
                    installation: installation.clone(),
                    namespace: Namespace::default(),
                    name: format!("p{number}").parse().expect("valid"),
                };
                let facts = Facts {
                    zone: Some("z1".into()),
                    ..Facts::default()
                };
                NewInstance::new(key, facts.with_common_defaults(), BTreeSet::new())
            })
            .collect()
    };
    let process = || {
        let settings = Settings::new("lab".parse().expect("valid"));
        let backend = Memory::new(settings, WorldHandle::open(path.clone()));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        let mut held = Vec::new();
        for request in requests(&installation) {
            let request = CreateRequest::New(Box::new(request));
            if let Ok(created) = runtime.block_on(backend.create(&request, &Accepted::new())) {
                held.push(created.instance);
            }
        }
        held
    };
    let (one, other) = std::thread::scope(|scope| {
        let other = scope.spawn(process);
        (process(), other.join().expect("does not panic"))
    });
    let held: Vec<_> = one
        .into_iter()
        .chain(other)
        .map(|instance| instance.mark)
        .collect();
    let world = WorldHandle::open(path).look(Clone::clone).expect("readable");
    let zone = &world.zones["z1"];
    assert_eq!((zone.instances.len(), zone.secondary.len()), (25, 25));
    for record in zone.instances.values() {
        let mark = record.mark.as_ref().expect("marked");
        assert!(!mark.pending, "{mark:?}");
        assert!(held.contains(mark), "nobody holds {mark:?}");
    }
}

/// A plan over a thousand proxies in a world file: one listing, no get, and the file is parsed once.
#[tokio::test]
async fn a_plan_over_a_thousand_reads_the_world_file_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("world.json");
    let world = WorldHandle::open(path.clone());
    let settings = Settings::new("lab".parse().expect("valid"));
    let installation: Installation = "prod".parse().expect("valid");
    let facts = Facts {
        zone: Some("z1".into()),
        ..Facts::default()
    }
    .with_common_defaults();
    // Straight into the world: a thousand creates are not what is asked about here.
    world
        .edit(|world| {
            for number in 0..1000 {
                let key = InstanceKey {
                    installation: installation.clone(),
                    namespace: Namespace::default(),
                    name: format!("p{number}").parse().expect("valid"),
                };
                let new = NewInstance::new(key, facts.clone(), BTreeSet::new());
                let (_, place) = Place::in_zone("z1", &new.key).expect("a place");
                let mark = Mark {
                    key: new.key,
                    uid: new.uid,
                    incarnation: new.incarnation,
                    pending: false,
                    label_keys: BTreeSet::new(),
                    created_at: None,
                    spec_sha256: new.spec_sha256,
                    facts: new.facts,
                    given: new.given,
                };
                let address = world.next_address();
                world.put(&place, Record::new(mark, address));
            }
        })
        .expect("writable");
    let backend = decorated(Arc::new(Memory::new(settings, WorldHandle::open(path.clone()))));
    let instances = world
        .look(|world| world.zones["z1"].instances.clone())
        .expect("readable");
    for (slot, record) in &instances {
        let mark = record.mark.as_ref().expect("marked");
        let request = GetRequest {
            id: format!("z1/{slot}").parse().expect("valid"),
            incarnation: Some(mark.incarnation),
            installation: installation.clone(),
            recorded_target: None,
            probe: false,
            freshness: Freshness::Shared,
        };
        let found = backend.get(&request).await.expect("found");
        assert_eq!(found.instance.mark, *mark);
    }
    let calls = WorldHandle::open(path).calls().expect("readable");
    assert_eq!(
        calls.into_iter().collect::<Vec<_>>(),
        [("list_by_tag".to_owned(), 1)]
    );
}

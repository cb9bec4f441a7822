//! What a plan's reads cost and answer, on the reference backend and on the paused clock.

use std::collections::BTreeSet;

use super::*;
use crate::contract::latch::Latch;
use crate::contract::memory::{Effect, Fault, Memory, Power, Settings, WorldHandle};
use crate::contract::model::{Incarnation, InstanceKey, Namespace};
use crate::contract::observe::{Observed, Unmetered};
use crate::contract::spec::Facts;
use crate::contract::{NewInstance, Operation};

struct Fixture {
    world: WorldHandle,
    snapshot: Arc<Snapshot>,
    instances: Vec<Instance>,
}

fn installation() -> Installation {
    "prod".parse().expect("valid")
}

fn key(name: &str) -> InstanceKey {
    InstanceKey {
        installation: installation(),
        namespace: Namespace::default(),
        name: name.parse().expect("valid"),
    }
}

fn create(zone: &str, name: &str) -> CreateRequest {
    let facts = Facts {
        zone: Some(zone.to_owned()),
        ..Facts::default()
    };
    CreateRequest::New(Box::new(NewInstance::new(
        key(name),
        facts.with_common_defaults(),
        BTreeSet::new(),
    )))
}

fn read(instance: &Instance) -> GetRequest {
    GetRequest {
        id: instance.id.clone(),
        incarnation: Some(instance.mark.incarnation),
        installation: installation(),
        recorded_target: Some(instance.target.clone()),
        probe: false,
        freshness: Freshness::Shared,
    }
}

impl Fixture {
    /// So many instances, alternating between two zones, behind latch, observer and snapshot.
    async fn with(count: usize) -> Self {
        let world = WorldHandle::new(crate::contract::memory::World::default());
        let name = "lab".parse::<crate::contract::BackendName>().expect("valid");
        let memory = Memory::new(Settings::new(name.clone()).zones(&["z1", "z2"]), world.clone());
        let latch = Arc::new(Latch::new(Arc::new(memory)));
        let observed = Observed::new(name, latch, Arc::new(Unmetered));
        let snapshot = Arc::new(Snapshot::new(Arc::new(observed)));
        let mut instances = Vec::new();
        for number in 0..count {
            let zone = if number % 2 == 0 { "z1" } else { "z2" };
            let created = snapshot
                .create(&create(zone, &format!("p{number}")), &Accepted::new())
                .await
                .expect("creates");
            instances.push(created.instance);
        }
        Self {
            world,
            snapshot,
            instances,
        }
    }

    /// How many listings and gets reached the backend since the last time this was asked.
    fn calls(&self, before: &mut (usize, usize)) -> (usize, usize) {
        let calls = self.world.calls().expect("readable");
        let of = |operation: Operation| calls.get(operation.as_str()).copied().unwrap_or(0);
        let total = (of(Operation::ListByTag), of(Operation::Get));
        let since = (total.0 - before.0, total.1 - before.1);
        *before = total;
        since
    }

    async fn read_all(&self) -> Vec<Result<Found, Error>> {
        let requests: Vec<_> = self.instances.iter().map(read).collect();
        futures_util::future::join_all(requests.iter().map(|request| self.snapshot.get(request))).await
    }
}

async fn seconds(count: u64) {
    tokio::time::advance(Duration::from_secs(count)).await;
}

/// A read whose caller gives up after a second.
async fn hasty(snapshot: &Snapshot, request: &GetRequest) {
    tokio::select! {
        biased;
        answer = snapshot.get(request) => panic!("too early: {answer:?}"),
        () = seconds(1) => {}
    }
}

#[tokio::test(start_paused = true)]
async fn a_plan_over_many_costs_one_listing_and_no_get() {
    let fixture = Fixture::with(50).await;
    let mut seen = (0, 0);
    for (answer, instance) in fixture.read_all().await.into_iter().zip(&fixture.instances) {
        assert_eq!(answer.expect("found").instance, *instance);
    }
    assert_eq!(fixture.calls(&mut seen), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_listing_lives_for_its_time_and_ends_with_configure() {
    let fixture = Fixture::with(2).await;
    let mut seen = (0, 0);
    fixture.read_all().await;
    seconds(LIFE.as_secs() - 1).await;
    fixture.read_all().await;
    assert_eq!(fixture.calls(&mut seen), (1, 0));
    seconds(1).await;
    fixture.read_all().await;
    assert_eq!(fixture.calls(&mut seen), (1, 0));
    fixture.snapshot.invalidate();
    fixture.read_all().await;
    assert_eq!(fixture.calls(&mut seen), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_slow_listing_is_waited_for_by_all_who_come_meanwhile() {
    let fixture = Fixture::with(4).await;
    fixture
        .world
        .edit(|world| world.latency_ms = 40_000)
        .expect("writable");
    let mut seen = (0, 0);
    assert!(fixture.read_all().await.iter().all(Result::is_ok));
    assert!(fixture.read_all().await.iter().all(Result::is_ok));
    assert_eq!(fixture.calls(&mut seen), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_write_discards_the_listing_whether_it_succeeds_or_not() {
    let fixture = Fixture::with(2).await;
    let mut seen = (0, 0);
    fixture.read_all().await;
    let taken = create("z1", "p0");
    let refused = fixture.snapshot.create(&taken, &Accepted::new()).await;
    assert!(refused.is_err());
    fixture.read_all().await;
    assert_eq!(fixture.calls(&mut seen), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn a_listing_that_a_write_overtook_answers_nobody() {
    let fixture = Fixture::with(2).await;
    fixture
        .world
        .edit(|world| world.latency_ms = 1000)
        .expect("writable");
    let mut seen = (0, 0);
    let write = async {
        seconds(1).await;
        fixture
            .snapshot
            .create(&create("z1", "p0"), &Accepted::new())
            .await
    };
    let (answers, refused) = tokio::join!(fixture.read_all(), write);
    assert!(answers.iter().all(Result::is_ok));
    assert!(refused.is_err());
    assert_eq!(fixture.calls(&mut seen), (1, 2));
}

#[tokio::test(start_paused = true)]
async fn absence_is_confirmed_by_one_get() {
    let fixture = Fixture::with(3).await;
    let gone = &fixture.instances[0];
    fixture
        .world
        .edit(|world| {
            world.take(&gone.id);
            world.drop_secondary(&gone.id, |_| true);
        })
        .expect("writable");
    let mut seen = (0, 0);
    let answers = fixture.read_all().await;
    let error = answers[0].as_ref().expect_err("gone");
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(answers[1..].iter().all(Result::is_ok));
    assert_eq!(fixture.calls(&mut seen), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn what_an_unreadable_part_may_hide_is_asked_for_itself() {
    let fixture = Fixture::with(4).await;
    let fault = Fault::once(Operation::ListByTag, ErrorKind::Transient, "z2 hiccuped").on("z2/");
    fixture
        .world
        .edit(|world| world.faults.push(fault))
        .expect("writable");
    let mut seen = (0, 0);
    assert!(fixture.read_all().await.iter().all(Result::is_ok));
    assert_eq!(fixture.calls(&mut seen), (1, 2));
}

#[tokio::test(start_paused = true)]
async fn probes_fresh_reads_imports_and_strangers_go_straight_through() {
    let fixture = Fixture::with(1).await;
    let instance = &fixture.instances[0];
    let mut seen = (0, 0);
    let shared = read(instance);
    let (mut probe, mut fresh, mut import) = (shared.clone(), shared.clone(), shared.clone());
    probe.probe = true;
    fresh.freshness = Freshness::Fresh;
    import.incarnation = None;
    for request in [&probe, &fresh, &import] {
        fixture.snapshot.get(request).await.expect("found");
    }
    assert_eq!(fixture.calls(&mut seen), (0, 3));
    let (mut replaced, mut foreign) = (shared.clone(), shared);
    replaced.incarnation = Some(Incarnation::fresh());
    foreign.installation = "other".parse().expect("valid");
    let error = fixture.snapshot.get(&replaced).await.expect_err("replaced");
    assert!(error.kind() == ErrorKind::NotFound && error.is_noteworthy());
    assert_eq!(fixture.calls(&mut seen), (1, 1));
    let error = fixture.snapshot.get(&foreign).await.expect_err("foreign");
    assert_eq!(error.kind(), ErrorKind::Permanent);
}

#[tokio::test(start_paused = true)]
async fn a_listing_that_fails_whole_is_not_asked_for_by_every_read() {
    let fixture = Fixture::with(6).await;
    let fault = Fault::once(Operation::ListByTag, ErrorKind::Permanent, "listing is forbidden").times(0);
    fixture
        .world
        .edit(|world| world.faults.push(fault))
        .expect("writable");
    let mut seen = (0, 0);
    assert!(fixture.read_all().await.iter().all(Result::is_ok));
    assert_eq!(fixture.calls(&mut seen), (1, 6));
}

#[tokio::test(start_paused = true)]
async fn a_shared_permanent_failure_is_found_once_and_told_in_full_once() {
    let fixture = Fixture::with(6).await;
    let message = "the key file ~/.ssh/id cannot be read\nmake it readable, or name another one";
    let effect = Effect::Fail {
        kind: ErrorKind::Permanent,
        message: message.to_owned(),
        retry_after_ms: None,
        affecting: Some(String::new()),
    };
    let broken = |operation| {
        Fault::once(operation, ErrorKind::Permanent, "")
            .times(0)
            .with(effect.clone())
    };
    fixture
        .world
        .edit(|world| world.faults = vec![broken(Operation::ListByTag), broken(Operation::Get)])
        .expect("writable");
    let mut seen = (0, 0);
    let errors: Vec<_> = fixture
        .read_all()
        .await
        .into_iter()
        .map(|answer| answer.expect_err("broken"))
        .collect();
    assert_eq!(fixture.calls(&mut seen), (1, 0));
    assert!(errors.iter().all(|error| error.kind() == ErrorKind::Permanent));
    let full = errors.iter().filter(|error| error.message() == message).count();
    assert_eq!(full, 1);
    let lines = errors
        .iter()
        .filter(|error| error.message().lines().count() == 1 && error.message().contains("~/.ssh/id"));
    assert_eq!(lines.count(), 5);
}

#[tokio::test(start_paused = true)]
async fn a_part_that_fails_for_good_spares_the_others() {
    let fixture = Fixture::with(6).await;
    let effect = Effect::Fail {
        kind: ErrorKind::Permanent,
        message: "the host key of z2 changed".to_owned(),
        retry_after_ms: None,
        affecting: Some("z2/".to_owned()),
    };
    let broken = Fault::once(Operation::ListByTag, ErrorKind::Permanent, "")
        .times(0)
        .on("z2/")
        .with(effect);
    fixture
        .world
        .edit(|world| world.faults.push(broken))
        .expect("writable");
    let mut seen = (0, 0);
    let answers = fixture.read_all().await;
    for (answer, instance) in answers.iter().zip(&fixture.instances) {
        assert_eq!(answer.is_ok(), instance.id.as_str().starts_with("z1/"));
    }
    assert_eq!(fixture.calls(&mut seen), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn the_first_reader_may_leave_and_the_others_get_their_answer() {
    let fixture = Fixture::with(3).await;
    fixture
        .world
        .edit(|world| world.latency_ms = 10_000)
        .expect("writable");
    let mut seen = (0, 0);
    let first = read(&fixture.instances[0]);
    let ((), answers) = tokio::join!(hasty(&fixture.snapshot, &first), fixture.read_all());
    assert!(answers.iter().all(Result::is_ok));
    assert_eq!(fixture.calls(&mut seen), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_listing_that_everybody_left_is_not_found_half_done_later() {
    let fixture = Fixture::with(1).await;
    fixture
        .world
        .edit(|world| world.latency_ms = 10_000)
        .expect("writable");
    let mut seen = (0, 0);
    let request = read(&fixture.instances[0]);
    hasty(&fixture.snapshot, &request).await;
    seconds(20).await;
    fixture
        .world
        .edit(|world| {
            world.latency_ms = 0;
            if let Some(record) = world.record_mut(&request.id) {
                record.power = Power::Stopped;
            }
        })
        .expect("writable");
    let found = fixture.snapshot.get(&request).await.expect("found");
    assert_eq!(found.instance.state, crate::contract::State::Stopped);
    assert_eq!(fixture.calls(&mut seen), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_the_listing_poisons_nothing() {
    let fixture = Fixture::with(3).await;
    let fault = Fault::once(Operation::ListByTag, ErrorKind::Transient, "").with(Effect::Panic);
    fixture
        .world
        .edit(|world| world.faults.push(fault))
        .expect("writable");
    let mut seen = (0, 0);
    assert!(fixture.read_all().await.iter().all(Result::is_ok));
    assert_eq!(fixture.calls(&mut seen), (1, 3));
    seconds(LIFE.as_secs()).await;
    assert!(fixture.read_all().await.iter().all(Result::is_ok));
    assert_eq!(fixture.calls(&mut seen), (1, 0));
}

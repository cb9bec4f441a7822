//! Every interleaving of reads with writes, tried out: a read through the snapshot must answer what
//! was true at some moment between its own begin and its end.
//!
//! Each operation of a small backend is a handful of steps. A scheduler polls one task at a time and
//! walks through every order in which that can be done.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use super::*;
use crate::contract::model::{Incarnation, InstanceKey, Namespace, State, Target, Uid};
use crate::contract::spec::Facts;
use crate::contract::{CreateRequest, ErrorKind, Mark, Resume};

/// A moment: how many times the scheduler polled something.
type Moment = usize;
/// What an instance is at a moment: its incarnation and how often it was relabelled.
type Version = (usize, u32);

#[derive(Debug, Default)]
struct Stepped {
    now: AtomicUsize,
    /// What is there, with the history of it all.
    world: Mutex<BTreeMap<&'static str, Version>>,
    history: Mutex<Vec<(Moment, BTreeMap<&'static str, Version>)>>,
}

/// Lets the scheduler choose who goes on.
async fn step() {
    let mut yielded = false;
    std::future::poll_fn(move |_| {
        if yielded {
            Poll::Ready(())
        } else {
            yielded = true;
            Poll::Pending
        }
    })
    .await;
}

impl Stepped {
    fn now(&self) -> Moment {
        self.now.load(Ordering::Relaxed)
    }

    fn change(&self, change: impl FnOnce(&mut BTreeMap<&'static str, Version>)) {
        let mut world = lock(&self.world);
        change(&mut world);
        lock(&self.history).push((self.now(), world.clone()));
    }

    /// Every version that the key had between two moments.
    fn versions(&self, key: &str, from: Moment, to: Moment) -> Vec<Option<Version>> {
        let history = lock(&self.history);
        let before = history
            .iter()
            .rev()
            .find(|(moment, _)| *moment < from)
            .map(|(_, world)| world.get(key).copied());
        let during = history
            .iter()
            .filter(|(moment, _)| (from..=to).contains(moment))
            .map(|(_, world)| world.get(key).copied());
        before.into_iter().chain(during).collect()
    }
}

fn incarnation(number: usize) -> Incarnation {
    format!("01900000-0000-7000-8000-{number:012}")
        .parse()
        .expect("a UUID")
}

fn number(incarnation: Incarnation) -> usize {
    let text = incarnation.to_string();
    text[text.len() - 12..].parse().expect("a number")
}

fn installation() -> Installation {
    "prod".parse().expect("valid")
}

fn instance(key: &str, (incarnated, relabelled): Version) -> Instance {
    let facts = Facts::default().with_common_defaults();
    let key = InstanceKey {
        installation: installation(),
        namespace: Namespace::default(),
        name: key.parse().expect("valid"),
    };
    Instance {
        id: key.name.as_str().parse().expect("valid"),
        mark: Mark {
            uid: Uid::of(&key, &facts.sha256()),
            key,
            incarnation: incarnation(incarnated),
            pending: false,
            label_keys: ["version".to_owned()].into(),
            created_at: None,
            spec_sha256: facts.sha256(),
            facts,
            given: [].into(),
        },
        target: Target::default(),
        state: State::Provisioning,
        started: false,
        ip: None,
        egress_ip: None,
        created_at: None,
        labels: BTreeMap::from([("version".to_owned(), relabelled.to_string())]),
        reason: None,
    }
}

const KEYS: [&str; 2] = ["x", "y"];

fn key_of(id: &NativeId) -> &'static str {
    KEYS.into_iter().find(|key| *key == id.as_str()).expect("known")
}

#[async_trait]
impl Backend for Stepped {
    fn profile(&self) -> &Profile {
        unreachable!("nobody asks here")
    }

    fn resolve(&self, _: &Specification) -> Result<Resolved, Vec<Problem>> {
        unreachable!("nobody asks here")
    }

    /// Every write but delete comes as a resume: it names its id, and the label says what to write.
    async fn create(&self, request: &CreateRequest, _: &Accepted) -> Result<Created, Error> {
        let CreateRequest::Resume(resume) = request else {
            unreachable!("the tests send none")
        };
        step().await;
        let key = key_of(&resume.id);
        self.change(|world| {
            let version = world.entry(key).or_insert((number(resume.incarnation), 0));
            version.1 += 1;
        });
        step().await;
        let version = lock(&self.world).get(key).copied().unwrap_or_default();
        Ok(Created {
            instance: instance(key, version),
            adopted: crate::contract::Adopted::No,
            warnings: Vec::new(),
        })
    }

    async fn get(&self, request: &GetRequest) -> Result<Found, Error> {
        step().await;
        let found = lock(&self.world).get(key_of(&request.id)).copied();
        step().await;
        found
            .filter(|(incarnated, _)| Some(incarnation(*incarnated)) == request.incarnation)
            .map(|version| Found {
                instance: instance(key_of(&request.id), version),
                readiness: None,
                warnings: Vec::new(),
            })
            .ok_or_else(|| Error::not_found("absent"))
    }

    async fn delete(&self, request: &DeleteRequest) -> Result<Deleted, Error> {
        step().await;
        self.change(|world| {
            world.remove(key_of(&request.id));
        });
        step().await;
        Ok(Deleted::Gone)
    }

    async fn adopt(&self, _: &AdoptRequest) -> Result<Adoption, Error> {
        unreachable!("the tests adopt nothing")
    }

    async fn list_by_tag(&self, _: &ListFilter) -> Result<Listing, Error> {
        let mut listing = Listing::default();
        for key in KEYS {
            // One page for each key: a listing is no single moment.
            step().await;
            if let Some(version) = lock(&self.world).get(key).copied() {
                listing.instances.push(instance(key, version));
            }
        }
        Ok(listing)
    }

    async fn check(&self) -> Vec<TargetHealth> {
        unreachable!("nobody asks here")
    }
}

/// What a task does.
#[derive(Clone, Copy, Debug)]
enum Act {
    /// Reads a key, asking for that incarnation of it.
    Read(&'static str, usize),
    /// Creates it, or relabels what is there.
    Write(&'static str, usize),
    Delete(&'static str),
    /// Polls a read so often and then drops it.
    AbandonRead(&'static str, usize, usize),
    /// Polls a delete so often and then drops it.
    AbandonDelete(&'static str, usize),
    Invalidate,
}

/// Polls `work` at most so often, then drops it.
async fn abandon<T>(work: impl Future<Output = T> + Send, polls: usize) -> Option<T> {
    let mut work = Box::pin(work);
    let mut polled = 0;
    std::future::poll_fn(move |context| {
        if polled == polls {
            return Poll::Ready(None);
        }
        polled += 1;
        work.as_mut().poll(context).map(Some)
    })
    .await
}

fn get(key: &str, incarnated: usize) -> GetRequest {
    GetRequest {
        id: key.parse().expect("valid"),
        incarnation: Some(incarnation(incarnated)),
        installation: installation(),
        recorded_target: None,
        probe: false,
        freshness: Freshness::Shared,
    }
}

fn delete(key: &str) -> DeleteRequest {
    DeleteRequest {
        id: key.parse().expect("valid"),
        incarnation: None,
        installation: installation(),
        recorded_target: None,
    }
}

async fn perform(act: Act, snapshot: &Snapshot, world: &Stepped) {
    let begun = world.now();
    match act {
        Act::Read(key, incarnated) => {
            let answer = match snapshot.get(&get(key, incarnated)).await {
                Ok(found) => {
                    let relabelled = found.instance.labels["version"].parse().expect("a number");
                    Some((number(found.instance.mark.incarnation), relabelled))
                }
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::NotFound);
                    None
                }
            };
            let possible: Vec<_> = world
                .versions(key, begun, world.now())
                .into_iter()
                // To a read another incarnation is as good as none.
                .map(|version| version.filter(|(found, _)| *found == incarnated))
                .collect();
            assert!(
                possible.contains(&answer),
                "read {key}: {answer:?} is none of {possible:?}"
            );
        }
        Act::Write(key, incarnated) => {
            let request = CreateRequest::Resume(Box::new(Resume {
                id: key.parse().expect("valid"),
                incarnation: incarnation(incarnated),
                installation: installation(),
                labels: BTreeMap::new(),
                prior_label_keys: [].into(),
            }));
            snapshot
                .create(&request, &Accepted::new())
                .await
                .expect("never fails");
        }
        Act::Delete(key) => {
            snapshot.delete(&delete(key)).await.expect("never fails");
        }
        Act::AbandonRead(key, incarnated, polls) => {
            let _ = abandon(snapshot.get(&get(key, incarnated)), polls).await;
        }
        Act::AbandonDelete(key, polls) => {
            let _ = abandon(snapshot.delete(&delete(key)), polls).await;
        }
        Act::Invalidate => snapshot.invalidate(),
    }
}

/// Runs the tasks in the order that `choices` says; past its end the first one goes on, and the
/// choices made are appended with how many there were to choose from.
fn run(tasks: &[&[Act]], choices: &mut Vec<(usize, usize)>) {
    let world = Arc::new(Stepped::default());
    world.change(|there| {
        there.insert("x", (1, 0));
        there.insert("y", (1, 0));
    });
    world.now.store(1, Ordering::Relaxed);
    let snapshot = Snapshot::new(Arc::clone(&world) as Arc<dyn Backend>);
    let mut running: Vec<Pin<Box<dyn Future<Output = ()> + '_>>> = Vec::new();
    for acts in tasks {
        let (snapshot, world) = (&snapshot, &world);
        running.push(Box::pin(async move {
            for act in *acts {
                perform(*act, snapshot, world).await;
            }
        }));
    }
    let mut context = Context::from_waker(Waker::noop());
    let mut depth = 0;
    while !running.is_empty() {
        if depth == choices.len() {
            choices.push((0, running.len()));
        }
        let (chosen, of) = choices[depth];
        assert_eq!(of, running.len(), "a schedule must run the same way again");
        depth += 1;
        assert!(depth < 200, "a task makes no progress");
        world.now.fetch_add(1, Ordering::Relaxed);
        if running[chosen].as_mut().poll(&mut context).is_ready() {
            drop(running.remove(chosen));
        }
    }
}

/// Every schedule of the tasks; returns how many there were.
fn explore(tasks: &[&[Act]]) -> usize {
    let mut choices: Vec<(usize, usize)> = Vec::new();
    let mut schedules = 0;
    loop {
        run(tasks, &mut choices);
        schedules += 1;
        // The next schedule differs in the last choice that has an alternative left.
        while choices.last().is_some_and(|(chosen, of)| chosen + 1 == *of) {
            choices.pop();
        }
        match choices.last_mut() {
            Some((chosen, _)) => *chosen += 1,
            None => return schedules,
        }
    }
}

#[test]
fn reads_beside_a_write_lose_nothing() {
    let schedules = explore(&[&[Act::Read("x", 1)], &[Act::Read("y", 1)], &[Act::Write("x", 1)]]);
    assert!(schedules > 300, "{schedules}");
}

#[test]
fn reads_beside_a_delete_resurrect_nothing() {
    let schedules = explore(&[&[Act::Read("x", 1)], &[Act::Read("x", 1)], &[Act::Delete("x")]]);
    assert!(schedules > 300, "{schedules}");
}

#[test]
fn reads_around_a_replacement_under_one_name_keep_the_incarnations_apart() {
    for incarnated in [1, 2] {
        let reads = [Act::Read("x", incarnated), Act::Read("x", incarnated)];
        let schedules = explore(&[&reads, &[Act::Delete("x"), Act::Write("x", 2)]]);
        assert!(schedules > 300, "{schedules}");
    }
}

#[test]
fn a_read_between_two_writes_sees_the_first() {
    let schedules = explore(&[
        &[Act::Write("x", 1), Act::Read("x", 1)],
        &[Act::Read("y", 1), Act::Write("y", 1)],
    ]);
    assert!(schedules > 100, "{schedules}");
}

#[test]
fn a_read_dropped_at_any_step_leaves_the_others_their_answers() {
    for polls in 1..=5 {
        let schedules = explore(&[
            &[Act::AbandonRead("x", 1, polls)],
            &[Act::Read("y", 1)],
            &[Act::Delete("y")],
        ]);
        assert!(schedules > 10, "{schedules}");
    }
}

#[test]
fn a_delete_dropped_at_any_step_leaves_no_stale_answer() {
    for polls in 1..=3 {
        let schedules = explore(&[
            &[Act::Read("x", 1), Act::Read("x", 1)],
            &[Act::AbandonDelete("x", polls)],
        ]);
        assert!(schedules > 10, "{schedules}");
    }
}

#[test]
fn an_invalidation_at_any_step_harms_no_read() {
    let schedules = explore(&[
        &[Act::Read("x", 1)],
        &[Act::Read("x", 1)],
        &[Act::Invalidate, Act::Delete("x")],
    ]);
    assert!(schedules > 300, "{schedules}");
}

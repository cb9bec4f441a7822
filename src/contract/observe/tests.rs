//! What can be seen of operations, and what can not.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::sync::Mutex;

use futures_util::FutureExt as _;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};

use super::*;
use crate::contract::memory::{Effect, Fault, Memory, Settings, World, WorldHandle};
use crate::contract::model::{InstanceKey, Namespace};
use crate::contract::spec::{Facts, PasswordFact, Secret, Secrets};
use crate::contract::{Freshness, NewInstance};

const SENTINEL: &str = "s3ntinel";

/// Writes down every span, record and event, at every level.
#[derive(Clone, Default)]
struct Everything(Arc<Mutex<Vec<u8>>>);

impl Everything {
    fn write(&self, what: &str, visit: impl FnOnce(&mut Line)) {
        let mut line = Line(format!("{what}:"));
        visit(&mut line);
        let mut all = self.0.lock().expect("not poisoned");
        writeln!(all, "{}", line.0).expect("a vector takes all");
    }

    fn text(&self) -> String {
        String::from_utf8(self.0.lock().expect("not poisoned").clone()).expect("text")
    }
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0 += &format!(" {}={value:?}", field.name());
    }
}

impl<S: Subscriber> Layer<S> for Everything {
    fn on_new_span(&self, attributes: &Attributes<'_>, _: &Id, _: Context<'_, S>) {
        self.write(attributes.metadata().name(), |line| attributes.record(line));
    }

    fn on_record(&self, _: &Id, values: &Record<'_>, _: Context<'_, S>) {
        self.write("record", |line| values.record(line));
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let level = event.metadata().level().as_str();
        self.write(level, |line| event.record(line));
    }
}

struct Fixture {
    seen: Everything,
    recorder: Arc<Recorder>,
    world: WorldHandle,
    observed: Observed,
    _guard: tracing::subscriber::DefaultGuard,
}

impl Fixture {
    fn new() -> Self {
        let seen = Everything::default();
        let subscriber = tracing_subscriber::registry().with(seen.clone());
        let world = WorldHandle::new(World::default());
        let name: BackendName = "lab".parse().expect("valid");
        let memory = Memory::new(Settings::new(name.clone()), world.clone());
        let recorder = Arc::new(Recorder::default());
        Self {
            seen,
            recorder: Arc::clone(&recorder),
            world,
            observed: Observed::new(name, Arc::new(memory), recorder),
            _guard: tracing::subscriber::set_default(subscriber),
        }
    }

    fn put(&self, fault: Fault) {
        self.world
            .edit(|world| world.faults.push(fault))
            .expect("writable");
    }

    fn outcomes(&self) -> Vec<(Operation, Outcome)> {
        self.recorder
            .measurements()
            .into_iter()
            .map(|measurement| (measurement.operation, measurement.outcome))
            .collect()
    }
}

fn request() -> CreateRequest {
    let facts = Facts {
        zone: Some("z1".into()),
        password: Some(PasswordFact::Version("1".into())),
        ..Facts::default()
    };
    let key = InstanceKey {
        installation: "prod".parse().expect("valid"),
        namespace: Namespace::default(),
        name: "p1".parse().expect("valid"),
    };
    let mut new = NewInstance::new(key, facts.with_common_defaults(), BTreeSet::new());
    new.secrets = Secrets {
        password_hash: Some(Secret::new(SENTINEL)),
        cloud_init: Some(Secret::new(SENTINEL)),
    };
    new.labels = BTreeMap::from([("team".to_owned(), "net".to_owned())]);
    CreateRequest::New(Box::new(new))
}

async fn every_operation(backend: &Observed) -> Created {
    let created = backend
        .create(&request(), &Accepted::new())
        .await
        .expect("creates");
    let mark = created.instance.mark.clone();
    let id = created.instance.id.clone();
    let resume = CreateRequest::Resume(Box::new(crate::contract::Resume {
        id: id.clone(),
        incarnation: mark.incarnation,
        installation: mark.key.installation.clone(),
        labels: BTreeMap::new(),
        prior_label_keys: BTreeSet::new(),
    }));
    backend.create(&resume, &Accepted::new()).await.expect("resumes");
    let get = GetRequest {
        id: id.clone(),
        incarnation: Some(mark.incarnation),
        installation: mark.key.installation.clone(),
        recorded_target: None,
        probe: true,
        freshness: Freshness::Fresh,
    };
    backend.get(&get).await.expect("finds");
    let filter = ListFilter {
        installation: mark.key.installation.clone(),
        namespace: None,
    };
    backend.list_by_tag(&filter).await.expect("lists");
    backend.check().await;
    let delete = DeleteRequest {
        id,
        incarnation: Some(mark.incarnation),
        installation: mark.key.installation,
        recorded_target: None,
    };
    backend.delete(&delete).await.expect("deletes");
    created
}

#[tokio::test]
async fn every_operation_has_its_span_its_line_and_its_measurement() {
    let fixture = Fixture::new();
    let created = every_operation(&fixture.observed).await;
    let text = fixture.seen.text();
    for operation in ["create", "resume", "get", "list_by_tag", "check", "delete"] {
        let spans = text
            .lines()
            .filter(|line| line.starts_with(&format!("provider.{operation}:")));
        assert_eq!(spans.count(), 1, "{operation}: {text}");
        let ended = format!("operation=\"{operation}\" outcome=\"done\"");
        let lines: Vec<_> = text.lines().filter(|line| line.contains(&ended)).collect();
        assert!(
            matches!(lines.as_slice(), [line] if line.starts_with("DEBUG") && line.contains("backend=lab")),
            "{operation}: {text}"
        );
    }
    let recorded = format!("record: id={:?}", created.instance.id.as_str());
    assert!(
        text.contains(&recorded),
        "the id of a new instance is recorded: {text}"
    );
    assert_eq!(fixture.outcomes().len(), 6);
    assert!(
        fixture
            .outcomes()
            .iter()
            .all(|(_, outcome)| *outcome == Outcome::Done)
    );
}

#[tokio::test]
async fn no_secret_is_seen_at_the_most_verbose_level() {
    let fixture = Fixture::new();
    every_operation(&fixture.observed).await;
    let text = fixture.seen.text();
    assert!(text.contains("TRACE"), "the most verbose level was seen: {text}");
    assert!(text.contains("create begins"), "the request was seen: {text}");
    assert!(!text.contains(SENTINEL), "{text}");
}

#[tokio::test]
async fn a_failure_is_stamped_logged_once_and_measured() {
    let fixture = Fixture::new();
    fixture.put(Fault::once(
        Operation::Get,
        ErrorKind::QuotaExceeded,
        "no room left",
    ));
    let get = GetRequest {
        id: "z1/default/p1".parse().expect("valid"),
        incarnation: None,
        installation: "prod".parse().expect("valid"),
        recorded_target: None,
        probe: false,
        freshness: Freshness::Fresh,
    };
    let error = fixture.observed.get(&get).await.expect_err("fails");
    assert_eq!(error.backend().map(BackendName::as_str), Some("lab"));
    assert_eq!(error.operation(), Some(Operation::Get));
    let text = fixture.seen.text();
    assert_eq!(text.matches("no room left").count(), 1, "{text}");
    assert!(text.contains("error.kind=\"quota_exceeded\""), "{text}");
    assert_eq!(
        fixture.outcomes(),
        [(Operation::Get, Outcome::Failed(ErrorKind::QuotaExceeded))]
    );
}

#[tokio::test]
async fn what_was_dropped_or_panicked_is_measured_too() {
    let fixture = Fixture::new();
    let fault = Fault::once(Operation::ListByTag, ErrorKind::Transient, "");
    fixture.put(fault.clone().with(Effect::Hang));
    fixture.put(fault.with(Effect::Panic));
    let filter = ListFilter {
        installation: "prod".parse().expect("valid"),
        namespace: None,
    };
    assert!(fixture.observed.list_by_tag(&filter).now_or_never().is_none());
    let panicked = std::panic::AssertUnwindSafe(fixture.observed.list_by_tag(&filter))
        .catch_unwind()
        .await;
    assert!(panicked.is_err());
    assert_eq!(
        fixture.outcomes(),
        [
            (Operation::ListByTag, Outcome::Dropped),
            (Operation::ListByTag, Outcome::Panicked)
        ]
    );
}

#[tokio::test]
async fn the_parts_of_a_listing_are_stamped() {
    let fixture = Fixture::new();
    let memory = Memory::new(
        Settings::new("lab".parse().expect("valid")).zones(&["z1", "z2"]),
        fixture.world.clone(),
    );
    let observed = Observed {
        inner: Arc::new(memory),
        ..fixture.observed.clone()
    };
    fixture
        .world
        .edit(|world| world.zone_mut("z2").reachable = false)
        .expect("writable");
    let filter = ListFilter {
        installation: "prod".parse().expect("valid"),
        namespace: None,
    };
    let listing = observed.list_by_tag(&filter).await.expect("partial");
    let [part] = listing.unreadable.as_slice() else {
        panic!("one part: {listing:?}");
    };
    assert_eq!(part.error.backend().map(BackendName::as_str), Some("lab"));
    assert_eq!(part.error.operation(), Some(Operation::ListByTag));
}

//! Tests of what is exported of real operations: the observe decorator over the reference backend.
#![cfg(feature = "testing")]

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use opentelemetry::Value;
use opentelemetry::trace::{Status, TracerProvider as _};
use opentelemetry_sdk::metrics::data::{AggregatedMetrics, MetricData, ResourceMetrics};
use opentelemetry_sdk::metrics::{InMemoryMetricExporter, PeriodicReader, SdkMeterProvider};
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SimpleSpanProcessor, SpanData};
use tracing::{Instrument as _, debug_span, info_span};
use tracing_subscriber::Registry;
use tracing_subscriber::layer::SubscriberExt as _;

use super::instruments::Instruments;
use super::layer;
use super::pipeline::Judged;
use super::remote::Remote;
use crate::contract::memory::{Fault, Step};
use crate::contract::memory::{Memory, Settings, World, WorldHandle};
use crate::contract::observe::{Measurement, Meter, Observed, Outcome};
use crate::contract::{
    Accepted, AdoptPolicy, AdoptRequest, Adoption, Backend, CreateRequest, Created, DeleteRequest, Deleted,
    Error, ErrorKind, Facts, Found, Freshness, GetRequest, Incarnation, Installation, InstanceKey,
    ListFilter, Listing, NewInstance, Operation, Problem, Profile, Resolved, Secret, Secrets, Specification,
    TargetHealth, Uid,
};

const TRACEPARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
/// Stands for every password and document: nothing exported may hold it.
const SENTINEL: &str = "s3nt1nel-Zq9";

/// A decorator of the kind that backends have around their SDK: one span for each call.
#[derive(Debug)]
struct Calls(Memory);

#[async_trait]
impl Backend for Calls {
    fn profile(&self) -> &Profile {
        self.0.profile()
    }

    fn resolve(&self, specification: &Specification) -> Result<Resolved, Vec<Problem>> {
        self.0.resolve(specification)
    }

    async fn create(&self, request: &CreateRequest, accepted: &Accepted) -> Result<Created, Error> {
        async {}.instrument(debug_span!("memory.dial")).await;
        self.0
            .create(request, accepted)
            .instrument(debug_span!("memory.Insert"))
            .await
    }

    async fn get(&self, request: &GetRequest) -> Result<Found, Error> {
        self.0.get(request).instrument(debug_span!("memory.Get")).await
    }

    async fn delete(&self, request: &DeleteRequest) -> Result<Deleted, Error> {
        self.0
            .delete(request)
            .instrument(debug_span!("memory.Delete"))
            .await
    }

    async fn adopt(&self, request: &AdoptRequest) -> Result<Adoption, Error> {
        self.0
            .adopt(request)
            .instrument(debug_span!("memory.Adopt"))
            .await
    }

    async fn list_by_tag(&self, filter: &ListFilter) -> Result<Listing, Error> {
        self.0
            .list_by_tag(filter)
            .instrument(debug_span!("memory.List"))
            .await
    }

    async fn check(&self) -> Vec<TargetHealth> {
        self.0.check().instrument(debug_span!("memory.Check")).await
    }
}

#[derive(Debug)]
struct Counting(Instruments);

impl Meter for Counting {
    fn ended(&self, measurement: &Measurement) {
        self.0.record(measurement);
    }
}

/// An observed backend and what it exports.
struct Scene {
    backend: Observed,
    world: WorldHandle,
    spans: InMemorySpanExporter,
    metrics: InMemoryMetricExporter,
    meters: SdkMeterProvider,
    _subscriber: tracing::subscriber::DefaultGuard,
}

impl Scene {
    fn new() -> Self {
        let spans = InMemorySpanExporter::default();
        let tracers = SdkTracerProvider::builder()
            .with_span_processor(Judged(SimpleSpanProcessor::new(spans.clone())))
            .build();
        let parent = Remote::parse(TRACEPARENT, None);
        let subscriber = Registry::default().with(layer::spans(tracers.tracer("test"), parent));
        let metrics = InMemoryMetricExporter::default();
        let meters = SdkMeterProvider::builder()
            .with_reader(PeriodicReader::builder(metrics.clone()).build())
            .build();
        let meter = Arc::new(Counting(Instruments::new(&meters)));
        let name: crate::contract::BackendName = "lab".parse().unwrap();
        let world = WorldHandle::new(World::default());
        let memory = Memory::new(Settings::new(name.clone()), world.clone());
        Self {
            backend: Observed::new(name, Arc::new(Calls(memory)), meter),
            world,
            spans,
            metrics,
            meters,
            _subscriber: tracing::subscriber::set_default(subscriber),
        }
    }

    fn fail(&self, fault: Fault) {
        self.world.edit(|world| world.faults.push(fault)).unwrap();
    }

    async fn create(&self) -> Result<Created, Error> {
        let key = InstanceKey {
            installation: "prod".parse().unwrap(),
            namespace: "default".parse().unwrap(),
            name: "a".parse().unwrap(),
        };
        let given = Facts {
            username: Some("u".to_owned()),
            allowed_cidrs: Some(vec!["10.0.0.0/8".parse().unwrap()]),
            ..Facts::default()
        };
        let specification = Specification {
            key: key.clone(),
            given,
            labels: Default::default(),
        };
        let facts = self.backend.resolve(&specification).unwrap().facts;
        let spec_sha256 = facts.sha256();
        let request = CreateRequest::New(Box::new(NewInstance {
            uid: Uid::of(&key, &spec_sha256),
            key,
            incarnation: Incarnation::fresh(),
            spec_sha256,
            facts,
            given: Default::default(),
            labels: Default::default(),
            secrets: Secrets {
                password_hash: Some(Secret::new(SENTINEL)),
                cloud_init: Some(Secret::new(format!("#cloud-config\npassword: {SENTINEL}"))),
            },
            adopt: AdoptPolicy::Interrupted,
        }));
        self.backend.create(&request, &Accepted::new()).await
    }

    async fn get(&self, created: &Created) -> Result<Found, Error> {
        let request = GetRequest {
            id: created.instance.id.clone(),
            incarnation: Some(created.instance.mark.incarnation),
            installation: installation(),
            recorded_target: None,
            probe: false,
            freshness: Freshness::Fresh,
        };
        self.backend.get(&request).await
    }

    fn spans(&self) -> Vec<SpanData> {
        self.spans.get_finished_spans().unwrap()
    }

    fn span(&self, name: &str) -> SpanData {
        let spans = self.spans();
        let found = spans.iter().find(|span| span.name == name);
        found
            .unwrap_or_else(|| panic!("no span {name} in {spans:#?}"))
            .clone()
    }

    fn metrics(&self) -> Vec<ResourceMetrics> {
        self.meters.force_flush().unwrap();
        self.metrics.get_finished_metrics().unwrap()
    }
}

/// The counters' points as text, and how many operations were timed.
fn points(exports: &[ResourceMetrics]) -> (Vec<String>, u64) {
    let mut counts = Vec::new();
    let mut timed = 0;
    for metric in exports
        .iter()
        .flat_map(ResourceMetrics::scope_metrics)
        .flat_map(|scope| scope.metrics())
    {
        match metric.data() {
            AggregatedMetrics::U64(MetricData::Sum(sum)) => {
                for point in sum.data_points() {
                    let mut attributes: Vec<_> = point
                        .attributes()
                        .map(|attribute| format!("{}={}", attribute.key, attribute.value))
                        .collect();
                    attributes.sort();
                    counts.push(format!(
                        "{} {} {}",
                        metric.name(),
                        attributes.join(" "),
                        point.value()
                    ));
                }
            }
            AggregatedMetrics::F64(MetricData::Histogram(histogram)) => {
                assert_eq!(
                    (metric.name(), metric.unit()),
                    ("egress.provider.operation.duration", "s")
                );
                timed += histogram.data_points().map(|point| point.count()).sum::<u64>();
            }
            other => panic!("{other:?}"),
        }
    }
    counts.sort();
    (counts, timed)
}

fn installation() -> Installation {
    "prod".parse().unwrap()
}

fn attribute<'a>(span: &'a SpanData, key: &str) -> Option<&'a Value> {
    span.attributes
        .iter()
        .find(|attribute| attribute.key.as_str() == key)
        .map(|attribute| &attribute.value)
}

fn text(span: &SpanData, key: &str) -> String {
    attribute(span, key).map(ToString::to_string).unwrap_or_default()
}

#[tokio::test]
async fn a_create_is_one_operation_with_its_calls_beneath_it() {
    let scene = Scene::new();
    scene.create().await.unwrap();
    let create = scene.span("provider.create");
    assert_eq!(
        create.span_context.trace_id().to_string(),
        "0af7651916cd43dd8448eb211c80319c"
    );
    assert_eq!(create.parent_span_id.to_string(), "b7ad6b7169203331");
    assert!(create.parent_span_is_remote);
    assert_eq!(create.status, Status::Unset);
    assert_eq!(
        ["backend", "kind", "installation", "name", "outcome"].map(|key| text(&create, key)),
        ["lab", "memory", "prod", "default/a", "done"]
    );
    for call in ["memory.dial", "memory.Insert"] {
        let call = scene.span(call);
        assert_eq!(
            call.parent_span_id,
            create.span_context.span_id(),
            "{}",
            call.name
        );
        assert_eq!(call.span_context.trace_id(), create.span_context.trace_id());
    }
}

#[tokio::test]
async fn a_call_of_the_host_with_a_trace_of_its_own_is_the_parent() {
    let scene = Scene::new();
    let rpc = info_span!(
        "rpc",
        traceparent = "00-11111111111111111111111111111111-2222222222222222-01"
    );
    scene.create().instrument(rpc).await.unwrap();
    let create = scene.span("provider.create");
    assert_eq!(create.span_context.trace_id().to_string(), "1".repeat(32));
    assert_eq!(create.parent_span_id.to_string(), "2".repeat(16));
}

#[tokio::test]
async fn a_failure_is_a_status_and_absence_is_not() {
    let scene = Scene::new();
    scene.fail(Fault::once(Operation::Create, ErrorKind::QuotaExceeded, "no room").at(Step::Accept));
    scene.create().await.unwrap_err();
    let create = scene.span("provider.create");
    assert_eq!(create.status, Status::error("quota_exceeded"));
    assert_eq!(text(&create, "error.kind"), "quota_exceeded");

    scene.spans.reset();
    let created = scene.create().await.unwrap();
    scene
        .world
        .edit(|world| {
            world.drop_secondary(&created.instance.id, |_| true);
            world.take(&created.instance.id)
        })
        .unwrap();
    assert_eq!(scene.get(&created).await.unwrap_err().kind(), ErrorKind::NotFound);
    let get = scene.span("provider.get");
    assert_eq!(
        (get.status.clone(), text(&get, "error.kind")),
        (Status::Unset, "not_found".to_owned())
    );
}

#[tokio::test]
async fn operations_are_counted_by_outcome_and_kind_of_error() {
    let scene = Scene::new();
    scene.fail(Fault::once(Operation::Create, ErrorKind::Transient, "busy").at(Step::Accept));
    scene.create().await.unwrap_err();
    let created = scene.create().await.unwrap();
    for _ in 0..3 {
        scene.get(&created).await.unwrap();
    }

    let (counts, timed) = points(&scene.metrics());
    assert_eq!(
        counts,
        [
            "egress.provider.errors backend=lab error.kind=transient kind=memory operation=create 1",
            "egress.provider.operations backend=lab kind=memory operation=create outcome=done 1",
            "egress.provider.operations backend=lab kind=memory operation=create outcome=failed 1",
            "egress.provider.operations backend=lab kind=memory operation=get outcome=done 3",
        ]
    );
    assert_eq!(timed, 5);
}

#[test]
fn what_was_dropped_or_panicked_counts_as_an_error() {
    let metrics = InMemoryMetricExporter::default();
    let meters = SdkMeterProvider::builder()
        .with_reader(PeriodicReader::builder(metrics.clone()).build())
        .build();
    let instruments = Instruments::new(&meters);
    for outcome in [Outcome::Dropped, Outcome::Panicked] {
        instruments.record(&Measurement {
            backend: "lab".parse().unwrap(),
            kind: "memory",
            operation: Operation::Delete,
            outcome,
            duration: Duration::from_secs(1),
        });
    }
    meters.force_flush().unwrap();
    let (counts, timed) = points(&metrics.get_finished_metrics().unwrap());
    assert_eq!(
        counts,
        [
            "egress.provider.errors backend=lab error.kind=dropped kind=memory operation=delete 1",
            "egress.provider.errors backend=lab error.kind=panicked kind=memory operation=delete 1",
            "egress.provider.operations backend=lab kind=memory operation=delete outcome=dropped 1",
            "egress.provider.operations backend=lab kind=memory operation=delete outcome=panicked 1",
        ]
    );
    assert_eq!(timed, 2);
}

#[tokio::test]
async fn nothing_exported_holds_a_secret() {
    let scene = Scene::new();
    for step in [Step::Accept, Step::Instance, Step::Handover] {
        scene.fail(Fault::once(Operation::Create, ErrorKind::Transient, "busy").at(step));
        scene.create().await.unwrap_err();
    }
    let created = scene.create().await.unwrap();
    scene.get(&created).await.unwrap();
    let spans = scene.spans();
    assert!(
        spans.iter().any(|span| !span.events.events.is_empty()),
        "the events are looked at, too"
    );
    let exported = format!("{spans:?} {:?}", scene.metrics());
    assert!(exported.contains("default/a"), "{exported}");
    assert!(!exported.contains(SENTINEL), "{exported}");
}

//! From ended spans and measured operations to the exporters: the OpenTelemetry SDK, put together
//! so that its threads start with the first thing to export and not before.
//!
//! Must not know who opens spans or measures. Invariant: recording neither blocks nor fails, and a
//! flush takes no longer than it was given.

use std::sync::OnceLock;
use std::time::Duration;

use opentelemetry::trace::{Status, TracerProvider as _};
use opentelemetry::{Context, KeyValue, Value};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::metrics::{PeriodicReader, SdkMeterProvider, Temporality};
use opentelemetry_sdk::resource::{EnvResourceDetector, TelemetryResourceDetector};
use opentelemetry_sdk::trace::{
    BatchSpanProcessor, SdkTracer, SdkTracerProvider, Span, SpanData, SpanProcessor,
};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use super::exporter::{Exporter, Metrics};
use super::settings::Destination;

/// The instrumentation scope, and the service's name where the environment gives none.
pub(super) const NAME: &str = env!("CARGO_PKG_NAME");

/// Who is sending: what the environment says (`OTEL_SERVICE_NAME`, `OTEL_RESOURCE_ATTRIBUTES`),
/// and for what it leaves out, this program and process.
pub(super) fn resource() -> Resource {
    let resource = Resource::builder_empty()
        .with_service_name(NAME)
        .with_attributes([
            KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
            // Every process counts its operations from zero, so each is an instance of its own.
            KeyValue::new("service.instance.id", uuid::Uuid::new_v4().to_string()),
            KeyValue::new("process.pid", i64::from(std::process::id())),
        ])
        .with_detectors(&[
            Box::new(TelemetryResourceDetector),
            Box::new(EnvResourceDetector::new()),
        ]);
    match std::env::var("OTEL_SERVICE_NAME") {
        Ok(name) if !name.is_empty() => resource.with_service_name(name).build(),
        _ => resource.build(),
    }
}

/// A provider of tracers that exports to `destination`.
pub(super) fn traces(
    destination: Destination,
    resource: Resource,
    closing: CancellationToken,
) -> SdkTracerProvider {
    SdkTracerProvider::builder()
        .with_resource(resource)
        .with_span_processor(Judged(LazyBatch {
            destination,
            closing,
            resource: Resource::builder_empty().build(),
            batch: OnceLock::new(),
        }))
        .build()
}

/// The provider's tracer.
pub(super) fn tracer(provider: &SdkTracerProvider) -> SdkTracer {
    provider.tracer(NAME)
}

/// A provider of meters that exports to `destination`. Its thread starts here.
pub(super) fn metrics(
    destination: Destination,
    temporality: Temporality,
    resource: Resource,
    runtime: Handle,
    closing: CancellationToken,
) -> SdkMeterProvider {
    let exporter = Metrics::new(Exporter::new(destination, runtime, closing), temporality);
    SdkMeterProvider::builder()
        .with_resource(resource)
        .with_reader(PeriodicReader::builder(exporter).build())
        .build()
}

/// A batch processor that starts with the first span that ends.
#[derive(Debug)]
struct LazyBatch {
    destination: Destination,
    closing: CancellationToken,
    resource: Resource,
    batch: OnceLock<BatchSpanProcessor>,
}

impl SpanProcessor for LazyBatch {
    fn on_start(&self, _span: &mut Span, _context: &Context) {}

    fn on_end(&self, span: SpanData) {
        let batch = match self.batch.get() {
            Some(batch) => batch,
            None => {
                // Operations run on the runtime; without one nothing could be sent.
                let Ok(runtime) = Handle::try_current() else {
                    return;
                };
                self.batch.get_or_init(|| {
                    let exporter = Exporter::new(self.destination.clone(), runtime, self.closing.clone());
                    let mut batch = BatchSpanProcessor::builder(exporter).build();
                    batch.set_resource(&self.resource);
                    batch
                })
            }
        };
        batch.on_end(span);
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.batch.get().map_or(Ok(()), SpanProcessor::force_flush)
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.batch
            .get()
            .map_or(Ok(()), |batch| batch.shutdown_with_timeout(timeout))
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.resource = resource.clone();
    }
}

/// Gives an ended span the status that its outcome means.
#[derive(Debug)]
pub(super) struct Judged<P>(pub(super) P);

impl<P: SpanProcessor> SpanProcessor for Judged<P> {
    fn on_start(&self, span: &mut Span, context: &Context) {
        self.0.on_start(span, context);
    }

    fn on_end(&self, mut span: SpanData) {
        if span.status == Status::Unset {
            span.status = status(&span.attributes);
        }
        self.0.on_end(span);
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.0.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.0.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.0.set_resource(resource);
    }
}

/// An operation that failed, was dropped or panicked is an error. Absence is an answer, not one.
fn status(attributes: &[KeyValue]) -> Status {
    let text = |key: &str| {
        attributes
            .iter()
            .find(|attribute| attribute.key.as_str() == key)
            .and_then(|attribute| match &attribute.value {
                Value::String(text) => Some(text.as_str().to_owned()),
                _ => None,
            })
    };
    match text("error.kind") {
        Some(kind) if kind == "not_found" => Status::Unset,
        Some(kind) => Status::error(kind),
        None => match text("outcome") {
            Some(outcome) if outcome != "done" => Status::error(outcome),
            _ => Status::Unset,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_follows_from_the_outcome() {
        let attribute = |key: &'static str, value: &'static str| KeyValue::new(key, value);
        for (attributes, expected) in [
            (vec![], Status::Unset),
            (vec![attribute("outcome", "done")], Status::Unset),
            (vec![attribute("outcome", "dropped")], Status::error("dropped")),
            (
                vec![
                    attribute("outcome", "failed"),
                    attribute("error.kind", "transient"),
                ],
                Status::error("transient"),
            ),
            (
                vec![
                    attribute("error.kind", "not_found"),
                    attribute("outcome", "failed"),
                ],
                Status::Unset,
            ),
        ] {
            assert_eq!(status(&attributes), expected, "{attributes:?}");
        }
    }
}

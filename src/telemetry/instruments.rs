//! What is counted: operations, their duration, their failures.
//!
//! Must not know how it is exported. Invariant: no attribute names an instance or a person, so the
//! number of series is bounded by backends, operations and kinds of error.

use std::sync::OnceLock;

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Histogram, MeterProvider};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::metrics::{SdkMeterProvider, Temporality};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use super::pipeline;
use super::settings::Destination;
use crate::contract::observe::{Measurement, Meter, Outcome};

/// From a Get on the local machine to a VM that boots: the create timeout's default is 900 s.
const SECONDS: [f64; 15] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0,
];

/// The instruments of one meter.
#[derive(Debug)]
pub(super) struct Instruments {
    operations: Counter<u64>,
    errors: Counter<u64>,
    duration: Histogram<f64>,
}

impl Instruments {
    pub(super) fn new(provider: &impl MeterProvider) -> Self {
        let meter = provider.meter(pipeline::NAME);
        Self {
            operations: meter
                .u64_counter("egress.provider.operations")
                .with_unit("{operation}")
                .with_description("Operations on a backend that ended, by their outcome.")
                .build(),
            errors: meter
                .u64_counter("egress.provider.errors")
                .with_unit("{error}")
                .with_description("Operations on a backend that did not succeed, by kind of error.")
                .build(),
            duration: meter
                .f64_histogram("egress.provider.operation.duration")
                .with_unit("s")
                .with_description("How long operations on a backend took.")
                .with_boundaries(SECONDS.to_vec())
                .build(),
        }
    }

    pub(super) fn record(&self, measurement: &Measurement) {
        let outcome = measurement.outcome;
        let mut attributes = vec![
            KeyValue::new("backend", measurement.backend.as_str().to_owned()),
            KeyValue::new("kind", measurement.kind),
            KeyValue::new("operation", measurement.operation.as_str()),
        ];
        let error = match outcome {
            Outcome::Done => None,
            Outcome::Failed(kind) => Some(kind.as_str()),
            Outcome::Dropped | Outcome::Panicked => Some(outcome.as_str()),
        };
        if let Some(error) = error {
            let kind = KeyValue::new("error.kind", error);
            self.errors.add(1, &[attributes.as_slice(), &[kind]].concat());
        }
        attributes.push(KeyValue::new("outcome", outcome.as_str()));
        self.operations.add(1, &attributes);
        self.duration
            .record(measurement.duration.as_secs_f64(), &attributes);
    }
}

/// A meter whose instruments come to be with the first measurement.
#[derive(Debug)]
pub(super) struct Exporting {
    destination: Destination,
    temporality: Temporality,
    resource: Resource,
    closing: CancellationToken,
    started: OnceLock<(SdkMeterProvider, Instruments)>,
}

impl Exporting {
    pub(super) fn new(
        destination: Destination,
        temporality: Temporality,
        resource: Resource,
        closing: CancellationToken,
    ) -> Self {
        Self {
            destination,
            temporality,
            resource,
            closing,
            started: OnceLock::new(),
        }
    }

    /// What was started, if anything was measured.
    pub(super) fn provider(&self) -> Option<&SdkMeterProvider> {
        self.started.get().map(|(provider, _)| provider)
    }
}

impl Meter for Exporting {
    fn ended(&self, measurement: &Measurement) {
        let started = match self.started.get() {
            Some(started) => started,
            None => {
                // Operations run on the runtime; without one nothing could be sent.
                let Ok(runtime) = Handle::try_current() else {
                    return;
                };
                self.started.get_or_init(|| {
                    let provider = pipeline::metrics(
                        self.destination.clone(),
                        self.temporality,
                        self.resource.clone(),
                        runtime,
                        self.closing.clone(),
                    );
                    let instruments = Instruments::new(&provider);
                    (provider, instruments)
                })
            }
        };
        started.1.record(measurement);
    }
}

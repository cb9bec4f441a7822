//! Spans and metrics for an OpenTelemetry collector, where the standard `OTEL_*` variables ask for it.
//!
//! It must not know what an operation does: spans come from decorators, through `tracing`, and
//! measurements through the contract's meter. Invariants: unless asked for nothing starts and
//! nothing is allocated; where it is, nothing starts before the first operation ended, no operation
//! ever waits for a collector, and no failure to export is more than a line at DEBUG.

mod exporter;
mod instruments;
mod layer;
mod pipeline;
mod remote;
mod settings;
#[cfg(test)]
mod topology;

use std::sync::Arc;
use std::time::Duration;

use opentelemetry::Context;
use opentelemetry::trace::TraceContextExt as _;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tokio_util::sync::CancellationToken;
use tracing::subscriber::SetGlobalDefaultError;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::{Layer, Registry};

use crate::contract::observe::{Meter, Unmetered};
use crate::transport::call::{blocking, within};
use instruments::Exporting;
use settings::Settings;

/// How long the end of the process waits for what is still to be exported. A plugin host gives a
/// plugin two seconds to end.
pub const FLUSH: Duration = Duration::from_secs(1);

/// What is exported, decided once for the process.
#[derive(Debug, Default)]
#[must_use = "what is not flushed is lost"]
pub struct Telemetry {
    traces: Option<SdkTracerProvider>,
    metrics: Option<Arc<Exporting>>,
    closing: CancellationToken,
}

impl Telemetry {
    /// Reads the environment and makes `log`, with the export of spans where it is asked for, the
    /// process's subscriber.
    ///
    /// # Errors
    /// When there is one already.
    pub fn install<L>(log: L) -> Result<Self, SetGlobalDefaultError>
    where
        L: Layer<Registry> + Send + Sync + 'static,
    {
        let Settings {
            traces,
            metrics,
            temporality,
            parent,
            problems,
        } = Settings::from_env();
        let closing = CancellationToken::new();
        let telemetry = if traces.is_some() || metrics.is_some() {
            let resource = pipeline::resource();
            Self {
                traces: traces
                    .map(|destination| pipeline::traces(destination, resource.clone(), closing.clone())),
                metrics: metrics.map(|destination| {
                    Arc::new(Exporting::new(
                        destination,
                        temporality,
                        resource,
                        closing.clone(),
                    ))
                }),
                closing,
            }
        } else {
            Self::default()
        };
        let subscriber = Registry::default().with(log);
        match &telemetry.traces {
            Some(provider) => tracing::subscriber::set_global_default(
                subscriber.with(layer::spans(pipeline::tracer(provider), parent)),
            ),
            None => tracing::subscriber::set_global_default(subscriber),
        }?;
        for problem in problems {
            tracing::warn!(problem, "telemetry is not exported");
        }
        Ok(telemetry)
    }

    /// Where measurements of operations go.
    #[must_use]
    pub fn meter(&self) -> Arc<dyn Meter> {
        match &self.metrics {
            Some(exporting) => Arc::<Exporting>::clone(exporting),
            None => Arc::new(Unmetered),
        }
    }

    /// Exports what is left, for [`FLUSH`] at most. The process's runtime must still run.
    pub async fn flush(self) {
        let Self {
            traces,
            metrics,
            closing,
        } = self;
        // Each waits for a thread of the SDK, and must not wait for the other's collector.
        let flush = async {
            tokio::join!(
                blocking(move || traces.map(|provider| provider.shutdown_with_timeout(FLUSH))),
                blocking(move || metrics
                    .and_then(|exporting| exporting.provider().map(|provider| provider.shutdown()))),
            )
        };
        tokio::pin!(flush);
        if within(FLUSH, "the flush of telemetry", &mut flush).await.is_err() {
            // Ends every export under way, hence both waits.
            closing.cancel();
            let _: (Result<_, _>, Result<_, _>) = flush.await;
        }
    }
}

/// The ids of the exported span that the current thread works in, to be shown in log lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpanIds {
    /// 32 hexadecimal digits.
    pub trace: String,
    /// 16 hexadecimal digits.
    pub span: String,
}

impl SpanIds {
    /// Those of the current thread, if it works in an exported span.
    #[must_use]
    pub fn current() -> Option<Self> {
        Context::map_current(|context| {
            context.has_active_span().then(|| {
                let span = context.span();
                let ids = span.span_context();
                Self {
                    trace: ids.trace_id().to_string(),
                    span: ids.span_id().to_string(),
                }
            })
        })
    }

    /// The same as the fields of a log line.
    #[must_use]
    pub fn fields() -> Vec<(&'static str, String)> {
        Self::current().map_or_else(Vec::new, |ids| vec![("traceID", ids.trace), ("spanID", ids.span)])
    }
}

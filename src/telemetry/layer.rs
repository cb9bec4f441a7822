//! Which of the process's spans are exported, and under which parent.
//!
//! Must not know what the spans are about. Invariants: only spans of this crate are exported, an
//! operation (`provider.…`) always, any other only beneath an exported one; an operation's parent
//! is, in this order, an exported span around it, the `traceparent` of the call it serves, the
//! environment's `TRACEPARENT`, none.

use opentelemetry::Context as Telemetry;
use opentelemetry_sdk::trace::SdkTracer;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_opentelemetry::OpenTelemetryLayer;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::FilterFn;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

use super::remote::Remote;

/// Operations have spans of this kind.
const OPERATION: &str = "provider.";
/// A span with this field stands for a call of another process and is itself not exported.
const TRACEPARENT: &str = "traceparent";
const TRACESTATE: &str = "tracestate";

/// The layer that exports spans, and what in them, as this module says.
pub(super) fn spans<S>(tracer: SdkTracer, environment: Option<Remote>) -> impl Layer<S> + Send + Sync
where
    S: Subscriber + for<'span> LookupSpan<'span> + Send + Sync,
{
    let inner = tracing_opentelemetry::layer()
        .with_tracer(tracer)
        .with_location(false)
        .with_threads(false)
        .with_target(false)
        .with_tracked_inactivity(false);
    let ours = FilterFn::new(ours as fn(&Metadata<'_>) -> bool).with_max_level_hint(Level::DEBUG);
    Spans { inner, environment }.with_filter(ours)
}

/// Other crates' spans and events may hold anything, wire lines hold payloads, and the TRACE tier
/// holds more than a trace should.
fn ours(metadata: &Metadata<'_>) -> bool {
    let krate = env!("CARGO_CRATE_NAME");
    let target = metadata.target();
    let inside = target
        .strip_prefix(krate)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with("::"));
    inside && *metadata.level() <= Level::DEBUG
}

struct Spans<S> {
    inner: OpenTelemetryLayer<S, SdkTracer>,
    environment: Option<Remote>,
}

/// In a span's extensions: it is exported.
struct Exported;

/// Where in the tree a new span is.
enum Place {
    Beneath,
    Root(Option<Remote>),
}

impl<S> Spans<S>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
{
    fn place(&self, id: &Id, context: &Context<'_, S>) -> Place {
        for span in context.span_scope(id).into_iter().flatten().skip(1) {
            let extensions = span.extensions();
            if extensions.get::<Exported>().is_some() {
                return Place::Beneath;
            }
            if let Some(remote) = extensions.get::<Remote>() {
                return Place::Root(Some(remote.clone()));
            }
        }
        Place::Root(self.environment.clone())
    }
}

impl<S> Layer<S> for Spans<S>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else {
            return;
        };
        if attributes.metadata().fields().field(TRACEPARENT).is_some() {
            let mut caller = Caller::default();
            attributes.record(&mut caller);
            if let Some(remote) = caller.remote() {
                span.extensions_mut().insert(remote);
            }
            return;
        }
        let operation = attributes.metadata().name().starts_with(OPERATION);
        match self.place(id, &context) {
            Place::Beneath => {
                span.extensions_mut().insert(Exported);
                drop(span);
                self.inner.on_new_span(attributes, id, context);
            }
            Place::Root(remote) if operation => {
                span.extensions_mut().insert(Exported);
                drop(span);
                // The inner layer takes as parent what is current on this thread just now.
                let _parent = remote.map_or_else(Telemetry::new, |remote| remote.0).attach();
                self.inner.on_new_span(attributes, id, context);
            }
            Place::Root(_) => {}
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        self.inner.on_record(id, values, context);
    }

    fn on_follows_from(&self, id: &Id, follows: &Id, context: Context<'_, S>) {
        self.inner.on_follows_from(id, follows, context);
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        self.inner.on_event(event, context);
    }

    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        self.inner.on_enter(id, context);
    }

    fn on_exit(&self, id: &Id, context: Context<'_, S>) {
        self.inner.on_exit(id, context);
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        self.inner.on_close(id, context);
    }
}

/// What a call's span says of its caller.
#[derive(Default)]
struct Caller {
    traceparent: Option<String>,
    tracestate: Option<String>,
}

impl Caller {
    fn remote(&self) -> Option<Remote> {
        Remote::parse(self.traceparent.as_deref()?, self.tracestate.as_deref())
    }

    fn set(&mut self, field: &Field, value: String) {
        match field.name() {
            TRACEPARENT => self.traceparent = Some(value),
            TRACESTATE => self.tracestate = Some(value),
            _ => {}
        }
    }
}

impl Visit for Caller {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.set(field, value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        // Reached by `%text`, whose Debug is its Display.
        self.set(field, format!("{value:?}"));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use opentelemetry::trace::{SpanId, TracerProvider as _};
    use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};
    use tracing::{Instrument as _, debug_span, error_span, info_span};
    use tracing_subscriber::Registry;
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::super::SpanIds;
    use super::*;

    const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

    fn traceparent(span: &str) -> String {
        format!("00-{TRACE}-{span}-01")
    }

    /// What is exported of the spans that `work` opens.
    fn exported(environment: Option<&str>, work: impl FnOnce()) -> Vec<SpanData> {
        let exporter = InMemorySpanExporter::default();
        let provider = SdkTracerProvider::builder()
            .with_simple_exporter(exporter.clone())
            .build();
        let environment = environment.and_then(|parent| Remote::parse(parent, None));
        let layer = spans(provider.tracer("test"), environment);
        tracing::subscriber::with_default(Registry::default().with(layer), work);
        exporter.get_finished_spans().unwrap()
    }

    /// Each exported span's name and its parent's: a name, or the id of a span elsewhere.
    fn tree(spans: &[SpanData]) -> BTreeMap<String, String> {
        let name = |id: SpanId| {
            let here = spans.iter().find(|span| span.span_context.span_id() == id);
            here.map_or_else(|| id.to_string(), |span| span.name.to_string())
        };
        spans
            .iter()
            .map(|span| (span.name.to_string(), name(span.parent_span_id)))
            .collect()
    }

    fn expected(tree: &[(&str, &str)]) -> BTreeMap<String, String> {
        tree.iter()
            .map(|(span, parent)| ((*span).to_owned(), (*parent).to_owned()))
            .collect()
    }

    const NOBODY: &str = "0000000000000000";

    #[test]
    fn without_an_operation_there_is_no_span() {
        let spans = exported(Some(&traceparent("b7ad6b7169203331")), || {
            debug_span!("local.squid").in_scope(|| debug_span!("local.write").in_scope(|| {}));
            info_span!("rpc", traceparent = traceparent("1111111111111111"))
                .in_scope(|| debug_span!("local.squid").in_scope(|| {}));
        });
        assert_eq!(tree(&spans), BTreeMap::new());
    }

    #[test]
    fn other_crates_spans_are_neither_exported_nor_in_the_way() {
        let spans = exported(None, || {
            error_span!(target: "hyper::client", "foreign").in_scope(|| {
                info_span!("provider.get").in_scope(|| {
                    error_span!(target: "egresses", "foreign.too").in_scope(|| {
                        tracing::trace_span!("fine").in_scope(|| debug_span!("call").in_scope(|| {}));
                    });
                });
            });
        });
        assert_eq!(
            tree(&spans),
            expected(&[("provider.get", NOBODY), ("call", "provider.get")])
        );
    }

    #[test]
    fn an_operation_hangs_under_the_call_it_serves_else_under_the_environment() {
        let environment = traceparent("b7ad6b7169203331");
        let spans = exported(Some(&environment), || {
            let parent = traceparent("1111111111111111");
            info_span!("rpc", traceparent = %parent)
                .in_scope(|| info_span!("provider.create").in_scope(|| {}));
            info_span!("rpc", traceparent = "not one")
                .in_scope(|| info_span!("provider.get").in_scope(|| {}));
            info_span!("rpc", traceparent = tracing::field::Empty)
                .in_scope(|| info_span!("provider.delete").in_scope(|| {}));
            info_span!("provider.check").in_scope(|| info_span!("provider.inner").in_scope(|| {}));
        });
        assert_eq!(
            tree(&spans),
            expected(&[
                ("provider.create", "1111111111111111"),
                ("provider.get", "b7ad6b7169203331"),
                ("provider.delete", "b7ad6b7169203331"),
                ("provider.check", "b7ad6b7169203331"),
                ("provider.inner", "provider.check"),
            ])
        );
        for span in spans {
            assert_eq!(span.span_context.trace_id().to_string(), TRACE, "{}", span.name);
        }
    }

    #[test]
    fn a_parent_that_is_not_sampled_takes_its_operations_with_it() {
        let unsampled = traceparent("1111111111111111").replace("-01", "-00");
        let spans = exported(None, || {
            info_span!("rpc", traceparent = %unsampled)
                .in_scope(|| info_span!("provider.create").in_scope(|| {}));
        });
        assert_eq!(tree(&spans), BTreeMap::new());
    }

    #[test]
    fn operations_that_take_turns_on_one_thread_keep_their_own_children() {
        async fn operation(parent: &str, name: &'static str, call: &'static str) {
            let rpc = info_span!("rpc", traceparent = traceparent(parent));
            let operation = async {
                for _ in 0..3 {
                    tokio::task::yield_now().await;
                }
                let span = match call {
                    "call.one" => debug_span!("call.one"),
                    _ => debug_span!("call.two"),
                };
                tokio::task::yield_now().instrument(span).await;
            };
            let span = match name {
                "provider.one" => info_span!("provider.one"),
                _ => info_span!("provider.two"),
            };
            // Opened within the call, as the decorator does it.
            let span = rpc.in_scope(|| span.or_current());
            operation.instrument(span).instrument(rpc).await;
        }
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let spans = exported(None, || {
            runtime.block_on(async {
                tokio::join!(
                    operation("1111111111111111", "provider.one", "call.one"),
                    operation("2222222222222222", "provider.two", "call.two"),
                )
            });
        });
        let tree = tree(&spans);
        assert_eq!(tree["call.one"], "provider.one");
        assert_eq!(tree["call.two"], "provider.two");
    }

    #[test]
    fn the_ids_shown_in_logs_are_those_of_the_exported_span() {
        let mut seen = Vec::new();
        let spans = exported(None, || {
            seen.push(SpanIds::current());
            debug_span!("local.squid").in_scope(|| seen.push(SpanIds::current()));
            info_span!("provider.get").in_scope(|| {
                seen.push(SpanIds::current());
                debug_span!("call").in_scope(|| seen.push(SpanIds::current()));
            });
            seen.push(SpanIds::current());
        });
        let ids = |name: &str| {
            let span = spans.iter().find(|span| span.name == name).unwrap();
            Some(SpanIds {
                trace: span.span_context.trace_id().to_string(),
                span: span.span_context.span_id().to_string(),
            })
        };
        assert_eq!(seen, [None, None, ids("provider.get"), ids("call"), None]);
    }
}

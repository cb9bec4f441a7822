//! The way from a local backend to this machine: off the async threads, within a budget, in a span.
//!
//! It must not know what is done there. Invariants: nothing is waited for without a budget; without
//! an operation around it there is no span.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use tracing::{Instrument as _, Span};

use crate::contract::Error;
use crate::transport::call;

/// What a call to the file system or the process table may take; a slow disk is slower than any
/// of them is long.
const DISK_BUDGET: Duration = Duration::from_secs(60);

/// Runs work that blocks: on files, or on the process table.
///
/// # Errors
/// The work's own; Transient where it overran its budget.
pub(super) async fn disk<T: Send + 'static>(
    call: &'static str,
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    remote(call, DISK_BUDGET, call, call::blocking(work))
        .await?
        .map_err(|lost| Error::permanent(format!("{call}: the provider failed within")).caused_by(lost))?
}

/// Awaits something outside of us within its budget.
///
/// # Errors
/// Transient where it overran.
pub(super) async fn remote<F: Future>(
    call: &'static str,
    budget: Duration,
    name: impl fmt::Display,
    work: F,
) -> Result<F::Output, Error> {
    let span = if Span::current().is_none() {
        Span::none()
    } else {
        // An exporter calls the span by this name; the macro's own must be one for all.
        tracing::debug_span!("local.call", otel.name = %format_args!("local.{call}"), call)
    };
    call::within(budget, name, work.instrument(span))
        .await
        .map_err(Error::from)
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};

    use super::*;

    /// The names under which spans are exported.
    #[derive(Clone, Default)]
    struct Names(Arc<Mutex<Vec<String>>>);

    impl<S: tracing::Subscriber> Layer<S> for Names {
        fn on_new_span(
            &self,
            attributes: &tracing::span::Attributes<'_>,
            _: &tracing::span::Id,
            _: Context<'_, S>,
        ) {
            struct Name<'a>(&'a Names);
            impl tracing::field::Visit for Name<'_> {
                fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn fmt::Debug) {
                    if field.name() == "otel.name" {
                        let mut names = self.0.0.lock().expect("no panic");
                        names.push(format!("{value:?}"));
                    }
                }
            }
            attributes.record(&mut Name(self));
        }
    }

    #[test]
    fn the_span_of_a_call_has_the_calls_name() {
        let names = Names::default();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .expect("a runtime");
        tracing::subscriber::with_default(tracing_subscriber::registry().with(names.clone()), || {
            runtime.block_on(async {
                disk("outside", || Ok(())).await.expect("done");
                let operation = tracing::info_span!("provider.get");
                disk("read record", || Ok(()))
                    .instrument(operation)
                    .await
                    .expect("done");
            });
        });
        assert_eq!(*names.0.lock().expect("no panic"), ["local.read record"]);
    }
}

//! The decorator through which everybody sees operations: it stamps errors with the configured
//! backend and the operation, opens the span of an operation, logs its outcome once and counts it.
//!
//! It must not change an outcome nor know a backend. Invariants: field names are constants; nothing
//! that is logged or recorded holds a secret; an operation that was dropped or that panicked is
//! counted like one that ended.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;
use tracing::{Instrument as _, Span, field};

use super::error::{Error, ErrorKind, Operation};
use super::model::{BackendName, ListFilter, Listing, TargetHealth};
use super::profile::Profile;
use super::{
    Accepted, AdoptRequest, Adoption, Backend, CreateRequest, Created, DeleteRequest, Deleted, Found,
    GetRequest, Problem, Resolved, Specification,
};

/// How an operation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// With a result.
    Done,
    /// With an error of that kind.
    Failed(ErrorKind),
    /// Its caller dropped it: a deadline, a cancellation.
    Dropped,
    /// It panicked.
    Panicked,
}

impl Outcome {
    /// The constant name used in logs, spans and metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed(_) => "failed",
            Self::Dropped => "dropped",
            Self::Panicked => "panicked",
        }
    }
}

/// One operation that ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measurement {
    /// The configured backend.
    pub backend: BackendName,
    /// The kind of backend.
    pub kind: &'static str,
    /// Which operation.
    pub operation: Operation,
    /// How it ended.
    pub outcome: Outcome,
    /// How long it took.
    pub duration: Duration,
}

/// Where measurements go: an exporter's instruments, a test's list.
pub trait Meter: Send + Sync + fmt::Debug {
    /// An operation ended. Must not block.
    fn ended(&self, measurement: &Measurement);
}

/// Measures nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unmetered;

impl Meter for Unmetered {
    fn ended(&self, _measurement: &Measurement) {}
}

/// A meter that keeps every measurement, for tests.
#[cfg(feature = "testing")]
#[derive(Debug, Default)]
pub struct Recorder(std::sync::Mutex<Vec<Measurement>>);

#[cfg(feature = "testing")]
impl Recorder {
    /// Everything measured so far.
    #[must_use]
    pub fn measurements(&self) -> Vec<Measurement> {
        self.0
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .clone()
    }
}

#[cfg(feature = "testing")]
impl Meter for Recorder {
    fn ended(&self, measurement: &Measurement) {
        self.0
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .push(measurement.clone());
    }
}

/// A backend whose operations can be seen.
#[derive(Clone, Debug)]
pub struct Observed {
    name: BackendName,
    inner: Arc<dyn Backend>,
    meter: Arc<dyn Meter>,
}

/// An error and everything that caused it, on one line.
struct Chain<'a>(&'a Error);

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)?;
        for (key, value) in self.0.context() {
            write!(f, " {key}={value}")?;
        }
        let mut source = std::error::Error::source(self.0);
        while let Some(cause) = source {
            write!(f, ": {cause}")?;
            source = cause.source();
        }
        Ok(())
    }
}

/// The span of an operation. Its fields are declared here, once, and recorded when they are known.
macro_rules! operation_span {
    ($name:literal) => {
        tracing::info_span!(
            $name,
            backend = field::Empty,
            kind = field::Empty,
            installation = field::Empty,
            id = field::Empty,
            name = field::Empty,
            outcome = field::Empty,
            error.kind = field::Empty,
            duration_ms = field::Empty,
        )
    };
}

/// One operation under way; dropped without an outcome it was cancelled or panicked.
struct Running<'a> {
    observed: &'a Observed,
    operation: Operation,
    span: Span,
    begun: Instant,
    ended: bool,
}

impl Running<'_> {
    fn end(&mut self, outcome: Outcome, error: Option<&Error>) {
        self.ended = true;
        let duration = self.begun.elapsed();
        let duration_ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        self.span.record("outcome", outcome.as_str());
        self.span.record("duration_ms", duration_ms);
        let backend = &self.observed.name;
        let operation = self.operation.as_str();
        let _entered = self.span.enter();
        if let Outcome::Failed(kind) = outcome {
            self.span.record("error.kind", kind.as_str());
        }
        match error {
            Some(error) => tracing::debug!(
                %backend,
                operation,
                outcome = outcome.as_str(),
                error.kind = error.kind().as_str(),
                duration_ms,
                error = %Chain(error),
                "operation failed"
            ),
            None => {
                tracing::debug!(%backend, operation, outcome = outcome.as_str(), duration_ms, "operation ended")
            }
        }
        self.observed.meter.ended(&Measurement {
            backend: backend.clone(),
            kind: self.observed.inner.profile().kind,
            operation: self.operation,
            outcome,
            duration,
        });
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if !self.ended {
            let outcome = if std::thread::panicking() {
                Outcome::Panicked
            } else {
                Outcome::Dropped
            };
            self.end(outcome, None);
        }
    }
}

impl Observed {
    /// Makes the operations of `inner`, configured as `name`, visible.
    #[must_use]
    pub fn new(name: BackendName, inner: Arc<dyn Backend>, meter: Arc<dyn Meter>) -> Self {
        Self { name, inner, meter }
    }

    async fn observe<T>(
        &self,
        operation: Operation,
        span: Span,
        work: impl Future<Output = Result<T, Error>> + Send,
    ) -> Result<T, Error> {
        span.record("backend", self.name.as_str());
        span.record("kind", self.inner.profile().kind);
        let mut running = Running {
            observed: self,
            operation,
            span: span.clone(),
            begun: Instant::now(),
            ended: false,
        };
        match work.instrument(span).await {
            Ok(output) => {
                running.end(Outcome::Done, None);
                Ok(output)
            }
            Err(error) => {
                let error = error.stamped(&self.name, operation);
                running.end(Outcome::Failed(error.kind()), Some(&error));
                Err(error)
            }
        }
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Backend for Observed {
    fn profile(&self) -> &Profile {
        self.inner.profile()
    }

    fn resolve(&self, specification: &Specification) -> Result<Resolved, Vec<Problem>> {
        self.inner.resolve(specification)
    }

    async fn create(&self, request: &CreateRequest, accepted: &Accepted) -> Result<Created, Error> {
        let (operation, span) = match request {
            CreateRequest::New(new) => {
                let span = operation_span!("provider.create");
                span.record("installation", new.key.installation.as_str());
                span.record(
                    "name",
                    field::display(format_args!("{}/{}", new.key.namespace, new.key.name)),
                );
                (Operation::Create, span)
            }
            CreateRequest::Resume(resume) => {
                let span = operation_span!("provider.resume");
                span.record("installation", resume.installation.as_str());
                span.record("id", resume.id.as_str());
                (Operation::Resume, span)
            }
        };
        let work = async {
            tracing::trace!(?request, "create begins");
            let created = self.inner.create(request, accepted).await?;
            Span::current().record("id", created.instance.id.as_str());
            tracing::trace!(state = %created.instance.state, adopted = ?created.adopted, "create ends");
            Ok(created)
        };
        self.observe(operation, span, work).await
    }

    async fn get(&self, request: &GetRequest) -> Result<Found, Error> {
        let span = operation_span!("provider.get");
        span.record("installation", request.installation.as_str());
        span.record("id", request.id.as_str());
        let work = async {
            let found = self.inner.get(request).await?;
            tracing::trace!(state = %found.instance.state, readiness = ?found.readiness, "found");
            Ok(found)
        };
        self.observe(Operation::Get, span, work).await
    }

    async fn delete(&self, request: &DeleteRequest) -> Result<Deleted, Error> {
        let span = operation_span!("provider.delete");
        span.record("installation", request.installation.as_str());
        span.record("id", request.id.as_str());
        let work = async {
            let deleted = self.inner.delete(request).await?;
            tracing::trace!(?deleted, "delete ends");
            Ok(deleted)
        };
        self.observe(Operation::Delete, span, work).await
    }

    async fn adopt(&self, request: &AdoptRequest) -> Result<Adoption, Error> {
        let span = operation_span!("provider.adopt");
        span.record("installation", request.installation.as_str());
        span.record("id", request.id.as_str());
        let work = async {
            let adoption = self.inner.adopt(request).await?;
            tracing::trace!(written = request.write.is_some(), unknown = ?adoption.unknown, "adopt ends");
            Ok(adoption)
        };
        self.observe(Operation::Adopt, span, work).await
    }

    async fn list_by_tag(&self, filter: &ListFilter) -> Result<Listing, Error> {
        let span = operation_span!("provider.list_by_tag");
        span.record("installation", filter.installation.as_str());
        let work = async {
            let mut listing = self.inner.list_by_tag(filter).await?;
            for part in &mut listing.unreadable {
                let error = std::mem::replace(&mut part.error, Error::transient(""));
                part.error = error.stamped(&self.name, Operation::ListByTag);
                tracing::debug!(
                    scope = part.scope,
                    error.kind = part.error.kind().as_str(),
                    error = %Chain(&part.error),
                    "a part could not be listed"
                );
            }
            tracing::trace!(
                instances = listing.instances.len(),
                secondary = listing.secondary.len(),
                unreadable = listing.unreadable.len(),
                "listed"
            );
            Ok(listing)
        };
        self.observe(Operation::ListByTag, span, work).await
    }

    async fn check(&self) -> Vec<TargetHealth> {
        let work = async {
            let reports = self.inner.check().await;
            for report in reports.iter().filter(|report| !report.healthy()) {
                tracing::debug!(
                    target_name = report.target,
                    reason = report.reason.as_str(),
                    message = report.message,
                    "unhealthy"
                );
            }
            Ok(reports)
        };
        // The work has no way to fail: an unhealthy target is an answer.
        self.observe(Operation::Check, operation_span!("provider.check"), work)
            .await
            .unwrap_or_default()
    }
}

#[cfg(all(test, feature = "testing"))]
mod tests;

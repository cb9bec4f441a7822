//! The one error of the contract: a kind, where it happened, and what caused it.
//!
//! It must not know any backend's error type: a backend's classifier builds it. `Display` states
//! this layer's fact only; causes are reached through `source` and printed once, by diagnostics.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::model::BackendName;

/// What the caller may conclude from a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// The backend proved that the instance does not exist.
    NotFound,
    /// The same call may succeed later: a rate, a race, an outage.
    Transient,
    /// The same call will fail again until somebody changes something.
    Permanent,
    /// An allowance is used up: quota, capacity, disk space, memory.
    QuotaExceeded,
}

impl ErrorKind {
    /// Whether the one retry policy may repeat the call.
    #[must_use]
    pub fn retryable(self) -> bool {
        match self {
            Self::Transient => true,
            Self::NotFound | Self::Permanent | Self::QuotaExceeded => false,
        }
    }

    /// The constant name used in logs, spans and metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NotFound => "not_found",
            Self::Transient => "transient",
            Self::Permanent => "permanent",
            Self::QuotaExceeded => "quota_exceeded",
        }
    }
}

/// The operation of the contract that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// [`Backend::create`](super::Backend::create) of a new instance.
    Create,
    /// [`Backend::create`](super::Backend::create) that resumes an existing one.
    Resume,
    /// [`Backend::get`](super::Backend::get).
    Get,
    /// [`Backend::delete`](super::Backend::delete).
    Delete,
    /// [`Backend::adopt`](super::Backend::adopt).
    Adopt,
    /// [`Backend::list_by_tag`](super::Backend::list_by_tag).
    ListByTag,
    /// [`Backend::check`](super::Backend::check).
    Check,
}

impl Operation {
    /// The constant name used in logs, spans, metrics and messages.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Resume => "resume",
            Self::Get => "get",
            Self::Delete => "delete",
            Self::Adopt => "adopt",
            Self::ListByTag => "list_by_tag",
            Self::Check => "check",
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A failed operation.
///
/// The message is written for the person who runs `terraform apply`: it names the thing, the value
/// and the way out. It never holds a secret, nor a parser's own words about a credential.
#[derive(Debug)]
pub struct Error(Box<Inner>);

#[derive(Debug)]
struct Inner {
    kind: ErrorKind,
    message: String,
    backend: Option<BackendName>,
    operation: Option<Operation>,
    target: Option<String>,
    context: Vec<(&'static str, String)>,
    retry_after: Option<Duration>,
    noteworthy: bool,
    affected: Option<String>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// A failure of `kind` that says `message`.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            kind,
            message: message.into(),
            backend: None,
            operation: None,
            target: None,
            context: Vec::new(),
            retry_after: None,
            noteworthy: false,
            affected: None,
            source: None,
        }))
    }

    /// The instance is proved absent.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::NotFound, message)
    }

    /// The call may be repeated.
    pub fn transient(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Transient, message)
    }

    /// Repeating the call is useless.
    pub fn permanent(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Permanent, message)
    }

    /// An allowance is used up.
    pub fn quota(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::QuotaExceeded, message)
    }

    /// Adds what caused it.
    #[must_use]
    pub fn caused_by(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// Adds a fact such as `("zone", "beelink")`; shown after the message.
    #[must_use]
    pub fn with(mut self, key: &'static str, value: impl Into<String>) -> Self {
        self.0.context.push((key, value.into()));
        self
    }

    /// Adds the target (host, API server, project) the call went to.
    #[must_use]
    pub fn on(mut self, target: impl Into<String>) -> Self {
        self.0.target = Some(target.into());
        self
    }

    /// Adds how long the backend asked to wait before a repetition.
    #[must_use]
    pub fn retry_after(mut self, wait: Duration) -> Self {
        self.0.retry_after = Some(wait);
        self
    }

    /// Marks a `NotFound` whose reason a person should read although nothing failed, such as an
    /// instance of that name that belongs to somebody else by now.
    #[must_use]
    pub fn noteworthy(mut self) -> Self {
        self.0.noteworthy = true;
        self
    }

    /// Says that the cause (a key file, a host key, an API server) is shared by every instance whose
    /// id starts with `prefix`; empty: all of the backend. A Permanent failure of this kind is found
    /// once in a run and not asked for again.
    #[must_use]
    pub fn affecting(mut self, prefix: impl Into<String>) -> Self {
        self.0.affected = Some(prefix.into());
        self
    }

    /// Stamps the configured backend and the operation; the decorator's business. The first stamp wins.
    #[must_use]
    pub fn stamped(mut self, backend: &BackendName, operation: Operation) -> Self {
        self.0.backend.get_or_insert_with(|| backend.clone());
        self.0.operation.get_or_insert(operation);
        self
    }

    /// What the caller may conclude.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// This layer's fact, without backend, context or causes.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The configured backend, once stamped.
    #[must_use]
    pub fn backend(&self) -> Option<&BackendName> {
        self.0.backend.as_ref()
    }

    /// The operation, once stamped.
    #[must_use]
    pub fn operation(&self) -> Option<Operation> {
        self.0.operation
    }

    /// The target the call went to.
    #[must_use]
    pub fn target(&self) -> Option<&str> {
        self.0.target.as_deref()
    }

    /// The facts added with [`Error::with`].
    #[must_use]
    pub fn context(&self) -> &[(&'static str, String)] {
        &self.0.context
    }

    /// How long the backend asked to wait.
    #[must_use]
    pub fn wait(&self) -> Option<Duration> {
        self.0.retry_after
    }

    /// The prefix of the ids that fail for the same cause, where the cause is not one instance's own.
    #[must_use]
    pub fn affected(&self) -> Option<&str> {
        self.0.affected.as_deref()
    }

    /// Whether a `NotFound` should be shown as a warning.
    #[must_use]
    pub fn is_noteworthy(&self) -> bool {
        self.0.noteworthy
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn display_never_contains_the_source() {
        let error = Error::transient("the API server did not answer").caused_by("connection reset");
        assert_eq!(error.to_string(), "the API server did not answer");
        let source = std::error::Error::source(&error).expect("a source was given");
        assert_eq!(source.to_string(), "connection reset");
    }

    #[test]
    fn the_first_stamp_wins() {
        let inner: BackendName = "inner".parse().expect("a valid name");
        let outer: BackendName = "outer".parse().expect("a valid name");
        let error = Error::permanent("no")
            .stamped(&inner, Operation::Get)
            .stamped(&outer, Operation::Delete);
        assert_eq!(error.backend(), Some(&inner));
        assert_eq!(error.operation(), Some(Operation::Get));
    }

    #[test]
    fn only_transient_is_retried() {
        let kinds = [
            ErrorKind::NotFound,
            ErrorKind::Transient,
            ErrorKind::Permanent,
            ErrorKind::QuotaExceeded,
        ];
        let retried: Vec<_> = kinds.into_iter().filter(|kind| kind.retryable()).collect();
        assert_eq!(retried, [ErrorKind::Transient]);
    }
}

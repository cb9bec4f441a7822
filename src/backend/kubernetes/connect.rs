//! The way from a kubernetes backend to its API server: one client, budgets, fresh credentials.
//!
//! It must not know what is asked for. Invariants: nothing is read or dialled before the first call;
//! a refusal of the credentials is repeated exactly once, and only with others; nothing is waited for
//! without a budget; without an operation around it there is no span.

use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex as StdMutex, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kube::Client;
use tokio::sync::Mutex;
use tracing::{Instrument as _, Span};

use super::access::Access;
use super::classify::{Failure, classify};
use super::{credentials, dial};
use crate::contract::{BackendName, Error, ErrorKind, HealthReason};
use crate::transport::call;

/// What one call may take, the handshake and a plugin's credentials included.
const BUDGET: Duration = Duration::from_secs(60);
/// How long after trouble an API server may still be reading its roles.
const STARTING: Duration = Duration::from_secs(60);
/// Credentials that expire so soon are had anew before they are used.
const MARGIN: SignedDuration = SignedDuration::from_secs(10);

/// What stands behind a backend's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Endpoint {
    /// The URL of the API server.
    pub(super) server: String,
    /// The SHA-256 of the authorities that its certificate is checked against, in hex; `None` where
    /// those of the machine count, or none.
    pub(super) ca_sha256: Option<String>,
}

/// A client, where it leads and what it says who we are.
#[derive(Clone)]
struct Session {
    client: Client,
    endpoint: Endpoint,
    /// What a person calls the credentials.
    whose: String,
    fingerprint: [u8; 32],
    expires: Option<Timestamp>,
}

/// The connection of one backend. Clones share it.
#[derive(Clone)]
pub(super) struct Connection(Arc<Inner>);

struct Inner {
    name: BackendName,
    access: Access,
    session: Mutex<Option<Session>>,
    warnings: StdMutex<Warnings>,
    /// When a call last failed in a way that may pass.
    trouble: StdMutex<Option<tokio::time::Instant>>,
}

/// What the user should know of the credentials.
#[derive(Default)]
struct Warnings {
    /// Each of them, once.
    all: Vec<String>,
    /// How many were handed out.
    handed_out: usize,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("name", &self.0.name)
            .field("access", &self.0.access)
            .finish_non_exhaustive()
    }
}

impl Connection {
    /// A connection that is not there yet.
    pub(super) fn new(name: BackendName, access: Access) -> Self {
        Self(Arc::new(Inner {
            name,
            access,
            session: Mutex::new(None),
            warnings: StdMutex::default(),
            trouble: StdMutex::default(),
        }))
    }

    /// One call to the API server, within its budget. `operation` may run twice: what it asks for
    /// must be the same both times.
    ///
    /// # Errors
    /// As [`classify`] has it; Transient where it overran.
    pub(super) async fn call<T, F, Fut>(&self, what: &'static str, operation: F) -> Result<T, Error>
    where
        T: Send,
        F: Fn(Client) -> Fut + Send + Sync,
        Fut: Future<Output = Result<T, kube::Error>> + Send,
    {
        self.attempt(what, BUDGET, operation).await.map_err(Error::from)
    }

    /// [`Connection::call`] within another budget, with all that is known of a failure.
    ///
    /// # Errors
    /// As there.
    pub(super) async fn attempt<T, F, Fut>(
        &self,
        what: &'static str,
        budget: Duration,
        operation: F,
    ) -> Result<T, Failure>
    where
        T: Send,
        F: Fn(Client) -> Fut + Send + Sync,
        Fut: Future<Output = Result<T, kube::Error>> + Send,
    {
        let span = if Span::current().is_none() {
            Span::none()
        } else {
            tracing::debug_span!("kubernetes.call", call = what)
        };
        let begun = tokio::time::Instant::now();
        let work = self.with_fresh_credentials(operation).instrument(span.clone());
        let outcome = call::within(budget, what, work).await.unwrap_or_else(|overran| {
            Err(Failure::new(
                ErrorKind::Transient,
                HealthReason::Timeout,
                overran.to_string(),
            ))
        });
        let outcome = outcome.map_err(|failure| self.in_the_light_of_trouble(failure));
        span.in_scope(|| {
            let duration_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
            match &outcome {
                Ok(_) => tracing::debug!(call = what, duration_ms, "the API server answered"),
                Err(failure) => {
                    let kind = failure.kind.as_str();
                    tracing::debug!(
                        call = what,
                        duration_ms,
                        kind,
                        failure = failure.text,
                        "the call failed"
                    );
                }
            }
        });
        outcome
    }

    /// What a failure means after what went wrong before: an API server that was away a moment ago has not read
    /// its roles yet, and allows nothing.
    fn in_the_light_of_trouble(&self, failure: Failure) -> Failure {
        let mut trouble = self.0.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        let now = tokio::time::Instant::now();
        if failure.kind == ErrorKind::Transient {
            *trouble = Some(now);
        } else if failure.without_role && trouble.is_some_and(|at| now.duration_since(at) < STARTING) {
            return failure.while_starting();
        }
        failure
    }

    async fn with_fresh_credentials<T, F, Fut>(&self, operation: F) -> Result<T, Failure>
    where
        T: Send,
        F: Fn(Client) -> Fut + Send + Sync,
        Fut: Future<Output = Result<T, kube::Error>> + Send,
    {
        let session = self.session().await?;
        let failure = match operation(session.client.clone()).await {
            Ok(output) => return Ok(output),
            Err(error) => classify(&error),
        };
        if !failure.unauthorized {
            return Err(failure);
        }
        let Some(fresh) = self.renewed(&session).await? else {
            return Err(refused(failure, &session));
        };
        tracing::debug!(
            "the API server did not accept the credentials; the call is repeated with fresh ones"
        );
        operation(fresh.client.clone()).await.map_err(|error| {
            let failure = classify(&error);
            if failure.unauthorized {
                refused(failure, &fresh)
            } else {
                failure
            }
        })
    }

    /// What stands behind the backend's name. Reads credentials and sends nothing.
    ///
    /// # Errors
    /// Permanent where credentials are missing or cannot be used.
    pub(super) async fn endpoint(&self) -> Result<Endpoint, Error> {
        Ok(self.known_endpoint().await?)
    }

    /// [`Connection::endpoint`], with all that is known of a failure.
    ///
    /// # Errors
    /// As there.
    pub(super) async fn known_endpoint(&self) -> Result<Endpoint, Failure> {
        Ok(self.session().await?.endpoint)
    }

    /// What the user should know of the credentials that were read; each is returned once.
    pub(super) fn take_warnings(&self) -> Vec<String> {
        let mut warnings = self.0.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = warnings.all.iter().skip(warnings.handed_out).cloned().collect();
        warnings.handed_out = warnings.all.len();
        fresh
    }

    /// What the user should know of the credentials that were read.
    pub(super) fn warnings(&self) -> Vec<String> {
        let warnings = self.0.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        warnings.all.clone()
    }

    fn warn(&self, warnings: Vec<String>) {
        let mut known = self.0.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        for warning in warnings {
            if !known.all.contains(&warning) {
                tracing::warn!(backend = %self.0.name, warning);
                known.all.push(warning);
            }
        }
    }

    async fn session(&self) -> Result<Session, Failure> {
        let mut session = self.0.session.lock().await;
        let is_expired =
            |session: &Session| session.expires.is_some_and(|at| at <= Timestamp::now() + MARGIN);
        match session.as_ref().filter(|session| !is_expired(session)) {
            Some(session) => Ok(session.clone()),
            None => Ok(session.insert(self.open().await?).clone()),
        }
    }

    /// A session with other credentials than those that were not accepted; `None` where there are no
    /// others.
    async fn renewed(&self, refused: &Session) -> Result<Option<Session>, Failure> {
        let mut session = self.0.session.lock().await;
        // Somebody else may have been here in the meantime.
        if let Some(current) = session.as_ref()
            && current.fingerprint != refused.fingerprint
        {
            return Ok(Some(current.clone()));
        }
        let fresh = self.open().await?;
        if fresh.fingerprint == refused.fingerprint {
            return Ok(None);
        }
        Ok(Some(session.insert(fresh).clone()))
    }

    async fn open(&self) -> Result<Session, Failure> {
        let mut credentials = credentials::obtain(&self.0.access).await?;
        self.warn(std::mem::take(&mut credentials.warnings));
        let (credentials, client) = call::blocking(move || {
            // Reads the authorities that the machine trusts.
            let client = dial::client(&credentials);
            (credentials, client)
        })
        .await
        .map_err(|_lost| Failure::credentials("no client could be made"))?;
        Ok(Session {
            client: client?,
            endpoint: Endpoint {
                server: credentials.server.to_string().trim_end_matches('/').to_owned(),
                ca_sha256: credentials.ca_sha256(),
            },
            fingerprint: credentials.fingerprint(),
            whose: credentials.whose,
            expires: credentials.expires,
        })
    }
}

/// A refusal, with what was refused.
fn refused(failure: Failure, session: &Session) -> Failure {
    Failure {
        text: format!("{} ({})", failure.text, session.whose),
        ..failure
    }
}

#[cfg(test)]
mod tests;

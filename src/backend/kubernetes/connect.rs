//! The way from a kubernetes backend to its API server: one client, budgets, fresh credentials.
//!
//! It must not know what is asked for. Invariants: nothing is read or dialled before the first call;
//! nothing is waited for without a budget; without an operation around it there is no span.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};
use tokio::sync::Mutex;
use tracing::{Instrument as _, Span};

use super::access::{Access, Source};
use super::classify::{Failure, classify};
use crate::contract::{BackendName, Error, ErrorKind, HealthReason};
use crate::transport::call;

/// What one call may take, the handshake and a plugin's credentials included.
const BUDGET: Duration = Duration::from_secs(60);

/// What stands behind a backend's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Endpoint {
    /// The URL of the API server.
    pub(super) server: String,
    /// The SHA-256 of the authorities that its certificate is checked against, in hex; `None` where
    /// those of the machine count, or none.
    pub(super) ca_sha256: Option<String>,
}

/// A client and where it leads.
#[derive(Clone)]
struct Session {
    client: Client,
    endpoint: Endpoint,
}

/// The connection of one backend. Clones share it.
#[derive(Clone)]
pub(super) struct Connection(Arc<Inner>);

struct Inner {
    name: BackendName,
    access: Access,
    session: Mutex<Option<Session>>,
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
        let span = if Span::current().is_none() {
            Span::none()
        } else {
            tracing::debug_span!("kubernetes.call", call = what)
        };
        let work = async {
            let session = self.session().await?;
            operation(session.client).await.map_err(|error| classify(&error))
        };
        call::within(BUDGET, what, work.instrument(span))
            .await?
            .map_err(Error::from)
    }

    /// The client, for what takes longer than one call.
    ///
    /// # Errors
    /// Permanent where credentials are missing or cannot be used.
    pub(super) async fn client(&self) -> Result<Client, Error> {
        Ok(self.session().await?.client)
    }

    /// What stands behind the backend's name. Reads credentials and sends nothing.
    ///
    /// # Errors
    /// Permanent where credentials are missing or cannot be used.
    pub(super) async fn endpoint(&self) -> Result<Endpoint, Error> {
        Ok(self.session().await?.endpoint)
    }

    async fn session(&self) -> Result<Session, Failure> {
        let mut session = self.0.session.lock().await;
        if let Some(session) = session.as_ref() {
            return Ok(session.clone());
        }
        Ok(session.insert(open(&self.0.access).await?).clone())
    }
}

async fn open(access: &Access) -> Result<Session, Failure> {
    let config = match &access.source {
        Source::Kubeconfig { paths, context } => {
            let mut merged = Kubeconfig::default();
            for path in paths {
                merged = Kubeconfig::read_from(path)
                    .and_then(|next| merged.merge(next))
                    .map_err(|_| Failure::credentials(format!("{} is no kubeconfig", path.display())))?;
            }
            let options = KubeConfigOptions {
                context: context.clone(),
                ..KubeConfigOptions::default()
            };
            kube::Config::from_custom_kubeconfig(merged, &options)
                .await
                .map_err(|_| Failure::credentials("the kubeconfig cannot be used"))?
        }
        Source::Host(host) => kube::Config::new(host.server.clone()),
        Source::InCluster | Source::Usual { .. } => kube::Config::infer()
            .await
            .map_err(|_| Failure::credentials("no configuration was found"))?,
    };
    let endpoint = Endpoint {
        server: config.cluster_url.to_string(),
        ca_sha256: None,
    };
    let client = Client::try_from(config).map_err(|error| {
        Failure::new(
            ErrorKind::Permanent,
            HealthReason::CredentialsUnavailable,
            "no client can be made",
        )
        .because(error.to_string())
    })?;
    Ok(Session { client, endpoint })
}

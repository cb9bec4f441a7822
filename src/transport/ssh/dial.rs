//! Dialling: from a route to a session, stage by stage.
//!
//! It must not know what the session is for. Invariant: credentials and known_hosts are read on
//! every dial, before anything is sent; each stage has its own budget and, within an operation, its
//! own span.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use russh::client::{self, Config, Handle};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tracing::{Instrument as _, Span};

use super::error::{Cause, DialError, Stage};
use super::host_key::{HostKeys, Judge, Refusal, Verifier};
use super::login::{Credential, log_in};
use super::session::Session;
use super::{agent, key};
use crate::contract::Secret;
use crate::transport::call::within;
use crate::transport::known_hosts::HostName;

/// What to log in with.
#[derive(Clone, Debug)]
pub enum Identity {
    /// A key file.
    File {
        /// Its path.
        path: PathBuf,
        /// Its certificate; `None` takes the one in `<path>-cert.pub`, where there is one.
        certificate: Option<PathBuf>,
        /// What opens it.
        passphrase: Option<Secret>,
    },
    /// All keys of an agent.
    Agent {
        /// Its socket; `None` takes what SSH_AUTH_SOCK names.
        socket: Option<PathBuf>,
    },
}

/// One host and how to get into it.
#[derive(Clone, Debug)]
pub struct Hop {
    /// Its name or address.
    pub address: String,
    /// The port of its SSH server.
    pub port: u16,
    /// Whom to log in as.
    pub user: String,
    /// What to log in with, tried in order.
    pub identities: Vec<Identity>,
    /// How its key is judged.
    pub host_keys: HostKeys,
}

impl fmt::Display for Hop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.address.contains(':') && !self.address.starts_with('[') {
            write!(f, "{}@[{}]:{}", self.user, self.address, self.port)
        } else {
            write!(f, "{}@{}:{}", self.user, self.address, self.port)
        }
    }
}

/// A host, and the one to go through where it is not reached from here.
#[derive(Clone, Debug)]
pub struct Route {
    /// Where to.
    pub target: Hop,
    /// Through whom.
    pub jump: Option<Hop>,
}

/// How long stages may take, and how long silence is borne.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// Reading keys, asking the agent.
    pub credentials: Duration,
    /// Connecting.
    pub tcp: Duration,
    /// Agreeing on keys, the host's judged.
    pub handshake: Duration,
    /// Logging in; somebody may have to touch a security key.
    pub authentication: Duration,
    /// Opening a channel.
    pub channel: Duration,
    /// After how much silence the server is asked whether it is still there.
    pub keepalive: Duration,
    /// How often in a row it may leave that unanswered.
    pub keepalives: usize,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            credentials: Duration::from_secs(15),
            tcp: Duration::from_secs(10),
            handshake: Duration::from_secs(20),
            authentication: Duration::from_secs(30),
            channel: Duration::from_secs(15),
            keepalive: Duration::from_secs(15),
            keepalives: 3,
        }
    }
}

/// Logs in on the route's target.
///
/// # Errors
/// See [`DialError`]; its `hop` says which host it is about.
///
/// # Cancel safety
/// Dropping this closes what was opened.
pub async fn dial(route: &Route, patience: &Patience) -> Result<Session, DialError> {
    let Some(jump) = &route.jump else {
        return direct(&route.target, patience).await;
    };
    // What is wrong here at home shows before anybody is bothered.
    let ready = Ready::prepare(&route.target, patience)
        .await
        .map_err(at(&route.target))?;
    let gateway = direct(jump, patience).await?;
    let stream = gateway
        .open_port(unbracketed(&route.target.address), route.target.port)
        .await
        .map_err(Cause::Jump)
        .map_err(at(&route.target))?;
    ready
        .enter(stream, &route.target, patience, Some(Box::new(gateway)))
        .await
        .map_err(at(&route.target))
}

async fn direct(hop: &Hop, patience: &Patience) -> Result<Session, DialError> {
    let work = async {
        let ready = Ready::prepare(hop, patience).await?;
        let connecting = TcpStream::connect((unbracketed(&hop.address), hop.port));
        let stream = staged(Stage::Tcp, patience.tcp, hop, connecting)
            .await?
            .map_err(Cause::Tcp)?;
        // Calls are small and wait for their answers.
        stream.set_nodelay(true).map_err(Cause::Tcp)?;
        ready.enter(stream, hop, patience, None).await
    };
    work.await.map_err(at(hop))
}

fn at(hop: &Hop) -> impl Fn(Cause) -> DialError {
    let hop = hop.to_string();
    move |cause| DialError {
        hop: hop.clone(),
        cause,
    }
}

fn unbracketed(address: &str) -> &str {
    address
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .unwrap_or(address)
}

async fn staged<T>(
    stage: Stage,
    budget: Duration,
    hop: &Hop,
    work: impl Future<Output = T> + Send,
) -> Result<T, Cause> {
    let span = if Span::current().is_none() {
        Span::none()
    } else {
        tracing::debug_span!("ssh.stage", stage = %stage, hop = %hop)
    };
    within(budget, format!("{hop} ({stage})"), work)
        .instrument(span)
        .await
        .map_err(|overran| Cause::Overran { stage, overran })
}

/// All that is needed of this machine to get into a host.
struct Ready {
    credentials: Vec<Credential>,
    judge: Judge,
}

impl Ready {
    async fn prepare(hop: &Hop, patience: &Patience) -> Result<Self, Cause> {
        let reading = async {
            let mut credentials = Vec::new();
            for identity in &hop.identities {
                credentials.push(match identity {
                    Identity::File {
                        path,
                        certificate,
                        passphrase,
                    } => Credential::Key(key::read(path, certificate.as_deref(), passphrase.as_ref()).await?),
                    Identity::Agent { socket } => Credential::Agent(agent::ask(socket.as_deref()).await?),
                });
            }
            if credentials.is_empty() {
                return Err(Cause::NoIdentity);
            }
            Ok(credentials)
        };
        let credentials = staged(Stage::Credentials, patience.credentials, hop, reading).await??;
        let name = HostName::new(&hop.address, hop.port);
        let preparing = Judge::prepare(&hop.host_keys, name);
        let judge = staged(Stage::HostKey, patience.credentials, hop, preparing)
            .await?
            .map_err(Box::new)?;
        Ok(Self { credentials, judge })
    }

    async fn enter(
        self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        hop: &Hop,
        patience: &Patience,
        gateway: Option<Box<Session>>,
    ) -> Result<Session, Cause> {
        let config = Config {
            preferred: self.judge.preferred(),
            // An idle session is kept: listings are far apart.
            inactivity_timeout: None,
            keepalive_interval: Some(patience.keepalive),
            keepalive_max: patience.keepalives,
            nodelay: true,
            ..Config::default()
        };
        let refusal = Refusal::default();
        let verifier = Verifier {
            judge: self.judge,
            refusal: Arc::clone(&refusal),
        };
        let shaking = client::connect_stream(Arc::new(config), stream, verifier);
        let mut handle = staged(Stage::Handshake, patience.handshake, hop, shaking)
            .await?
            .map_err(|error| broken_off(&refusal, error))?;
        let logging_in = log_in(&mut handle, &hop.user, self.credentials);
        staged(Stage::Authentication, patience.authentication, hop, logging_in).await??;
        Ok(session(handle, gateway, hop, patience))
    }
}

fn session(
    handle: Handle<Verifier>,
    gateway: Option<Box<Session>>,
    hop: &Hop,
    patience: &Patience,
) -> Session {
    Session {
        handle,
        gateway,
        hop: hop.to_string(),
        channel_budget: patience.channel,
    }
}

/// What ended a handshake: our own refusal, no agreement, or the other side.
fn broken_off(refusal: &Mutex<Option<super::HostKeyError>>, error: russh::Error) -> Cause {
    if let Some(refused) = refusal.lock().unwrap_or_else(PoisonError::into_inner).take() {
        return Cause::HostKey(Box::new(refused));
    }
    match error {
        russh::Error::NoCommonAlgo { kind, theirs, .. } => Cause::NoCommon {
            what: match kind {
                russh::AlgorithmKind::Kex => "key exchange algorithm",
                russh::AlgorithmKind::Key => "host key algorithm",
                russh::AlgorithmKind::Cipher => "cipher",
                russh::AlgorithmKind::Compression => "compression",
                russh::AlgorithmKind::Mac => "message authentication code",
            },
            theirs: theirs.join(", "),
        },
        other => Cause::Handshake(other),
    }
}

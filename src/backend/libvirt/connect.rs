//! Dialling a host: SSH, then libvirt's socket, then its driver.
//!
//! It must not keep connections, nor know what they are for. Invariants: credentials are read on every
//! dial; every failure says how far the dial came and whose fault it is; without an operation around it
//! there is no span.

mod failure;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tracing::{Instrument as _, Span};

use super::config::{Host, SshConfig};
use super::hosts::{Dialer, Dialled, Reach};
use crate::transport::call::within;
use crate::transport::libvirt::{Client, Settings};
use crate::transport::ssh::{self, ChannelError, Patience, Session, Stream};

pub use failure::Failure;
pub(super) use failure::error;

/// What a whole dial may take, another host in between included.
const BUDGET: Duration = Duration::from_secs(120);
/// Where libvirt's daemon listens: the one for everything, else the one for QEMU, which passes on what
/// is about storage and networks.
const SOCKETS: [&str; 2] = ["/run/libvirt/libvirt-sock", "/run/libvirt/virtqemud-sock"];

/// Dials over SSH.
#[derive(Clone, Debug)]
pub struct SshDialer {
    ssh: SshConfig,
}

impl SshDialer {
    /// A dialer that logs in as configured.
    #[must_use]
    pub fn new(ssh: SshConfig) -> Self {
        Self { ssh }
    }

    async fn connect(&self, host: &Host) -> Result<Dialled, Failure> {
        let session = ssh::dial(&host.route(&self.ssh), &Patience::default())
            .await
            .map_err(|error| Failure::Ssh(Box::new(error)))?;
        let stream = open(&session, host)
            .await
            .map_err(|error| Failure::Socket { error })?;
        let client = Client::open(stream, &host.uri, Settings::default())
            .await
            .map_err(|error| Failure::Libvirt {
                uri: host.uri.clone(),
                error,
            })?;
        Ok(Dialled {
            api: Arc::new(client),
            reach: Arc::new(session),
        })
    }
}

/// The configured socket, or the first that answers where it usually is.
async fn open(session: &Session, host: &Host) -> Result<Stream, ChannelError> {
    if let Some(socket) = &host.socket {
        return session.open_socket(socket).await;
    }
    let [everything, qemu] = SOCKETS;
    match session.open_socket(everything).await {
        Err(error @ ChannelError::ConnectFailed { .. }) => {
            tracing::debug!(host = %host.name, socket = everything, "nothing listens there");
            session.open_socket(qemu).await.map_err(|_of_the_second| error)
        }
        other => other,
    }
}

#[async_trait]
impl Dialer for SshDialer {
    async fn dial(&self, host: &Host) -> Result<Dialled, Failure> {
        let span = if Span::current().is_none() {
            Span::none()
        } else {
            tracing::debug_span!(
                "libvirt.dial",
                host = host.name.as_str(),
                address = host.address,
                user = host.user
            )
        };
        let begun = tokio::time::Instant::now();
        let dialling = self.connect(host).instrument(span.clone());
        let outcome = within(BUDGET, format!("dialling host {}", host.name), dialling)
            .await
            .unwrap_or_else(|overran| Err(Failure::Overran(overran)));
        span.in_scope(|| {
            let duration_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
            let host = host.name.as_str();
            match &outcome {
                Ok(_) => tracing::debug!(host, duration_ms, "the host is connected"),
                Err(failure) => {
                    let stage = failure.stage();
                    tracing::debug!(
                        host,
                        duration_ms,
                        stage,
                        failure = failure.text(),
                        "the host was not reached"
                    );
                }
            }
        });
        outcome
    }
}

#[async_trait]
impl Reach for Session {
    async fn reach(&self, address: &str, port: u16) -> Result<(), ChannelError> {
        // The channel is open once the host's own connection is; nothing is said on it.
        self.open_port(address, port).await.map(drop)
    }
}

//! A login on a host, from which ways to its sockets and ports are opened.
//!
//! It must not know how it came about. Invariant: a session through a jump host holds the jump
//! host's session, so that neither outlives what it stands on.

use std::fmt;
use std::time::Duration;

use russh::client::{Handle, Msg};
use russh::{Channel, ChannelOpenFailure};

use super::error::{ChannelError, Place};
use super::host_key::Verifier;
use crate::transport::call::within;

/// A way to a socket or port: reads and writes.
pub type Stream = russh::ChannelStream<Msg>;

/// A session. Dropping it ends it once its streams are gone.
pub struct Session {
    pub(super) handle: Handle<Verifier>,
    pub(super) gateway: Option<Box<Session>>,
    pub(super) hop: String,
    pub(super) channel_budget: Duration,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("hop", &self.hop)
            .field("gateway", &self.gateway)
            .field("up", &self.is_up())
            .finish()
    }
}

impl Session {
    /// `user@host:port`.
    #[must_use]
    pub fn hop(&self) -> &str {
        &self.hop
    }

    /// Whether the session can still be used.
    #[must_use]
    pub fn is_up(&self) -> bool {
        !self.handle.is_closed()
    }

    /// Opens a way to a unix socket on the host.
    ///
    /// # Errors
    /// See [`ChannelError`].
    pub async fn open_socket(&self, path: &str) -> Result<Stream, ChannelError> {
        let opening = self.handle.channel_open_direct_streamlocal(path);
        self.opened(Place::Socket(path.to_owned()), opening).await
    }

    /// Opens a way to a port that the host reaches; names are resolved there.
    ///
    /// # Errors
    /// See [`ChannelError`].
    pub async fn open_port(&self, host: &str, port: u16) -> Result<Stream, ChannelError> {
        // Where the connection comes from is of no use to anybody; servers want an address.
        let opening = self
            .handle
            .channel_open_direct_tcpip(host, u32::from(port), "127.0.0.1", 0);
        self.opened(Place::Port(host.to_owned(), port), opening).await
    }

    async fn opened(
        &self,
        place: Place,
        opening: impl Future<Output = Result<Channel<Msg>, russh::Error>> + Send,
    ) -> Result<Stream, ChannelError> {
        let call = format!("{} opening a channel to {place}", self.hop);
        match within(self.channel_budget, call, opening).await? {
            Ok(channel) => Ok(channel.into_stream()),
            Err(russh::Error::ChannelOpenFailure(failure)) => Err(match failure {
                ChannelOpenFailure::AdministrativelyProhibited => ChannelError::Prohibited { place },
                ChannelOpenFailure::ConnectFailed => ChannelError::ConnectFailed { place },
                ChannelOpenFailure::UnknownChannelType => ChannelError::Unknown { place },
                ChannelOpenFailure::ResourceShortage => ChannelError::Other { place, code: 4 },
                ChannelOpenFailure::Other { code, .. } => ChannelError::Other { place, code },
            }),
            Err(_lost) => Err(ChannelError::Lost { place }),
        }
    }

    /// Says goodbye; the session ends with its streams.
    pub async fn close(&self) {
        let goodbye = self
            .handle
            .disconnect(russh::Disconnect::ByApplication, "done", "en");
        if within(self.channel_budget, &self.hop, goodbye).await.is_err() {
            tracing::debug!(hop = self.hop, "the SSH server was left without a goodbye");
        }
    }
}

//! A connection to a libvirtd: opened, kept alive, with a budget for every call.
//!
//! It must not know what calls mean. Invariant: no call waits longer than its budget, and a client
//! is handed out only after libvirtd let it in and opened the driver.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};

use super::error::{Error, LinkDown};
use super::link::Link;
use super::procedure::{self, Pace, Procedure};
use super::upload::{self, Source};
use super::xdr::{Decode, Encode, Encoder, whole};
use crate::transport::call::{Task, within};

/// How long things may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// A call that looks something up.
    pub quick: Duration,
    /// A call that starts processes, probes emulators or touches disks.
    pub slow: Duration,
    /// How long nothing may go out while something is to be written.
    pub stall: Duration,
    /// After how much silence libvirtd is pinged.
    pub ping_after: Duration,
    /// How many pings in a row may stay unanswered.
    pub pings: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            quick: Duration::from_secs(30),
            // A libvirtd that cannot use /dev/kvm was seen to probe QEMU for 68 s at each define.
            slow: Duration::from_secs(180),
            stall: Duration::from_secs(60),
            ping_after: Duration::from_secs(10),
            pings: 3,
        }
    }
}

/// libvirt's `VIR_DRV_FEATURE_PROGRAM_KEEPALIVE`.
const FEATURE_KEEPALIVE: i32 = 10;

/// An open connection to one libvirt driver. Dropping it closes the stream; calls may run side by
/// side.
#[derive(Debug)]
pub struct Client {
    // Before the link: its pings end first.
    _keepalive: Option<Task<()>>,
    link: Link,
    settings: Settings,
}

impl Client {
    /// Opens the driver that `uri` names, such as `qemu:///system`, on the libvirtd behind `stream`.
    ///
    /// # Errors
    /// [`Error::Authentication`] when libvirtd wants something we cannot give; else as any call.
    ///
    /// # Cancel safety
    /// Dropping this closes the stream.
    pub async fn open(
        stream: impl AsyncRead + AsyncWrite + Send + 'static,
        uri: &str,
        settings: Settings,
    ) -> Result<Self, Error> {
        let mut client = Self {
            _keepalive: None,
            link: Link::start(stream, settings.stall),
            settings,
        };
        client.authenticate().await?;
        let _: () = client.call(&procedure::CONNECT_OPEN, &(Some(uri), 0_u32)).await?;
        // A server without the feature may close the link at a ping.
        let supported: i32 = client
            .call(&procedure::CONNECT_SUPPORTS_FEATURE, &(FEATURE_KEEPALIVE,))
            .await?;
        if supported != 0 {
            client._keepalive = Some(client.link.keep_alive(settings.ping_after, settings.pings));
        }
        Ok(client)
    }

    async fn authenticate(&self) -> Result<(), Error> {
        const NONE: i32 = 0;
        const POLKIT: i32 = 2;
        let offered: Vec<i32> = self.call(&procedure::AUTH_LIST, &()).await?;
        if offered.is_empty() || offered.contains(&NONE) {
            return Ok(());
        }
        if offered.contains(&POLKIT) {
            let _complete: i32 = self.call(&procedure::AUTH_POLKIT, &()).await?;
            return Ok(());
        }
        let names: Vec<String> = offered
            .iter()
            .map(|method| match method {
                1 => "SASL".to_owned(),
                other => format!("method {other}"),
            })
            .collect();
        Err(Error::Authentication(names.join(", ")))
    }

    /// Why the link is down, if it is.
    #[must_use]
    pub fn down(&self) -> Option<LinkDown> {
        self.link.down()
    }

    /// Tells libvirtd goodbye and closes the link, for other callers too. What libvirtd says to that
    /// is nobody's concern.
    pub async fn close(&self) {
        let said: Result<(), Error> = self.call(&procedure::CONNECT_CLOSE, &()).await;
        if let Err(error) = said {
            tracing::debug!(%error, "libvirtd was left without a goodbye");
        }
        self.link.shut();
    }

    /// Calls one procedure within its budget.
    ///
    /// # Errors
    /// See [`Error`].
    ///
    /// # Cancel safety
    /// Dropping this disturbs nobody; whether the call took effect is unknown then.
    pub async fn call<R: Decode>(
        &self,
        procedure: &Procedure,
        arguments: &(impl Encode + Sync),
    ) -> Result<R, Error> {
        let bytes = encoded(arguments);
        let calling = self.link.call(procedure, &bytes);
        let payload = within(self.budget(procedure), procedure.name, calling).await??;
        whole(&payload).map_err(|malformed| Error::Reply {
            procedure: procedure.name,
            malformed,
        })
    }

    /// Calls a procedure that takes a stream; `length` 0 means all there is.
    ///
    /// # Errors
    /// See [`Error`].
    ///
    /// # Cancel safety
    /// Dropping this aborts the stream on the wire.
    pub async fn call_with_stream(
        &self,
        procedure: &Procedure,
        arguments: &(impl Encode + Sync),
        length: u64,
        source: Source<'_>,
    ) -> Result<u64, Error> {
        let bytes = encoded(arguments);
        let budget = self.budget(procedure);
        upload::upload(&self.link, procedure, &bytes, length, source, budget).await
    }

    fn budget(&self, procedure: &Procedure) -> Duration {
        match procedure.pace {
            Pace::Quick => self.settings.quick,
            Pace::Slow => self.settings.slow,
        }
    }
}

fn encoded(arguments: &impl Encode) -> Vec<u8> {
    let mut encoder = Encoder::new();
    encoder.put(arguments);
    encoder.finish()
}

#[cfg(test)]
#[path = "client/tests.rs"]
mod tests;

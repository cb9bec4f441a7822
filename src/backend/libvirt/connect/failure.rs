//! Why a host could not be used, and what may be concluded from it.
//!
//! It must not know what was to be done there. Invariant: what the same dial will meet again until
//! somebody changes something is Permanent, and strikes all that share the cause; everything else is an
//! outage.

use std::error::Error as StdError;
use std::sync::Arc;

use super::super::classify;
use super::super::config::Host;
use super::super::policy::Reasons;
use crate::contract::{Error, ErrorKind, HealthReason};
use crate::transport::call::Overran;
use crate::transport::libvirt::{self, Code};
use crate::transport::ssh::{Cause, ChannelError, DialError, HostKeyError, Stage};

/// A dial that failed.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// SSH did not come about.
    #[error(transparent)]
    Ssh(Box<DialError>),
    /// There is no way to libvirt's socket.
    #[error("SSH came about, and libvirt's socket could not be opened")]
    Socket {
        /// Why.
        #[source]
        error: ChannelError,
    },
    /// libvirt did not open its driver.
    #[error("libvirt's socket was opened, and {uri} could not be")]
    Libvirt {
        /// The driver.
        uri: String,
        /// Why.
        #[source]
        error: libvirt::Error,
    },
    /// All of it took too long.
    #[error(transparent)]
    Overran(Overran),
}

/// Whose fault it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// This machine's: a key, the agent, known_hosts. It is there for every host.
    Here,
    /// The host's, until somebody changes it or the configuration.
    There,
    /// Nobody's: an outage.
    Passing,
}

impl Failure {
    /// The name of the stage that failed.
    #[must_use]
    pub fn stage(&self) -> &'static str {
        match self {
            Self::Ssh(error) => match error.stage() {
                Stage::Credentials => "credentials",
                Stage::Tcp => "tcp",
                Stage::Handshake => "handshake",
                Stage::HostKey => "host key",
                Stage::Authentication => "authentication",
                Stage::Channel => "channel",
            },
            Self::Socket { .. } => "channel",
            Self::Libvirt { .. } => "libvirt",
            Self::Overran(_) => "dial",
        }
    }

    /// All of it in one line: this and its causes.
    #[must_use]
    pub fn text(&self) -> String {
        Self::text_of(self)
    }

    fn text_of(error: &dyn StdError) -> String {
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            text = format!("{text}: {cause}");
            source = cause.source();
        }
        text
    }

    fn fault(&self) -> Fault {
        match self {
            Self::Ssh(error) => of_ssh(&error.cause),
            Self::Socket { error } => of_channel(error),
            Self::Libvirt { error, .. } => of_libvirt(error),
            Self::Overran(_) => Fault::Passing,
        }
    }

    /// What may be concluded.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self.fault() {
            Fault::Here | Fault::There => ErrorKind::Permanent,
            Fault::Passing => ErrorKind::Transient,
        }
    }

    /// What health calls it.
    #[must_use]
    pub fn reason(&self, reasons: &Reasons) -> HealthReason {
        match self {
            Self::Ssh(error) => of_stage(error, reasons),
            Self::Libvirt { error, .. } if is_denied(error) => reasons.denied,
            Self::Socket { .. } | Self::Libvirt { .. } => reasons.socket,
            Self::Overran(_) => HealthReason::Timeout,
        }
    }
}

/// The error of an operation on that host.
pub(in super::super) fn error(host: &Host, failure: Arc<Failure>) -> Error {
    let place = format!("{}@{}:{}", host.user, host.address, host.port);
    let message = |what: &str| format!("host \"{}\" ({place}) {what}", host.name);
    let error = match failure.fault() {
        Fault::Here => Error::permanent(format!(
            "no host of this backend can be reached, since {} here cannot be used",
            match failure.stage() {
                "host key" => "what vouches for the hosts' keys",
                _ => "what to log in with",
            }
        ))
        .affecting(""),
        Fault::There => Error::permanent(message("cannot be used")).affecting(host.name.id_prefix()),
        Fault::Passing => Error::transient(message("cannot be reached")),
    };
    error.on(host.name.as_str()).caused_by(failure)
}

fn of_ssh(cause: &Cause) -> Fault {
    match cause {
        Cause::Key(_) | Cause::Agent(_) | Cause::NoIdentity => Fault::Here,
        Cause::HostKey(error) => match **error {
            HostKeyError::File(_) => Fault::Here,
            HostKeyError::Unknown { .. } | HostKeyError::Changed { .. } | HostKeyError::Revoked { .. } => {
                Fault::There
            }
        },
        Cause::Jump(error) => of_channel(error),
        // A server that hangs up in the middle of a login had enough of our keys: to go on trying gets us
        // banned.
        Cause::NoCommon { .. }
        | Cause::Refused { .. }
        | Cause::SecondFactor { .. }
        | Cause::SignatureRefused { .. }
        | Cause::LoginClosed { .. } => Fault::There,
        Cause::Tcp(_) | Cause::Handshake(_) | Cause::Overran { .. } => Fault::Passing,
    }
}

fn of_channel(error: &ChannelError) -> Fault {
    match error {
        ChannelError::Prohibited { .. } | ChannelError::Unknown { .. } => Fault::There,
        // What is not there may be starting.
        ChannelError::ConnectFailed { .. }
        | ChannelError::Other { .. }
        | ChannelError::Lost { .. }
        | ChannelError::Overran(_) => Fault::Passing,
    }
}

fn of_libvirt(error: &libvirt::Error) -> Fault {
    /// `VIR_ERR_NO_CONNECT`: no driver has that URI.
    const NO_CONNECT: Code = Code(5);
    match classify::kind(error) {
        ErrorKind::Permanent => Fault::There,
        _ if error.code() == Some(NO_CONNECT) => Fault::There,
        ErrorKind::Transient | ErrorKind::QuotaExceeded | ErrorKind::NotFound => Fault::Passing,
    }
}

fn is_denied(error: &libvirt::Error) -> bool {
    matches!(error, libvirt::Error::Authentication(_))
        || matches!(
            error.code(),
            Some(
                Code::AUTH_FAILED
                    | Code::AUTH_CANCELLED
                    | Code::AUTH_UNAVAILABLE
                    | Code::ACCESS_DENIED
                    | Code::OPERATION_DENIED
            )
        )
}

fn of_stage(error: &DialError, reasons: &Reasons) -> HealthReason {
    match &error.cause {
        Cause::HostKey(refusal) if matches!(**refusal, HostKeyError::File(_)) => reasons.credentials,
        // The files are read at this stage, before anything is sent.
        Cause::Overran {
            stage: Stage::HostKey,
            ..
        } => reasons.credentials,
        _ => match error.stage() {
            Stage::Credentials => reasons.credentials,
            Stage::Tcp => HealthReason::Unreachable,
            Stage::Handshake => reasons.handshake,
            Stage::HostKey => reasons.refused,
            Stage::Authentication if matches!(error.cause, Cause::Overran { .. }) => reasons.handshake,
            Stage::Authentication => reasons.refused,
            Stage::Channel => reasons.socket,
        },
    }
}

#[cfg(test)]
mod tests;

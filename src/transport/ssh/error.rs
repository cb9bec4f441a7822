//! Why a host could not be reached over SSH, by stage, each with its way out.
//!
//! It must not judge what is worth another try: that is for the backends to say. Invariant: no text
//! holds anything of a key or a passphrase.

use std::fmt;
use std::io;

use super::agent::AgentError;
use super::host_key::HostKeyError;
use super::key::KeyError;
use crate::transport::call::Overran;

/// How far a dial came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    /// Reading keys, asking the agent.
    Credentials,
    /// Connecting.
    Tcp,
    /// Agreeing on algorithms and keys.
    Handshake,
    /// Judging the host's key.
    HostKey,
    /// Logging in.
    Authentication,
    /// Opening a way to a socket or port.
    Channel,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Credentials => "credentials",
            Self::Tcp => "tcp",
            Self::Handshake => "handshake",
            Self::HostKey => "host key",
            Self::Authentication => "authentication",
            Self::Channel => "channel",
        })
    }
}

/// A dial that failed.
#[derive(Debug, thiserror::Error)]
#[error("SSH to {hop} failed at stage {}", .cause.stage())]
pub struct DialError {
    /// `user@host:port`, the jump host's own where that is what failed.
    pub hop: String,
    /// What happened.
    #[source]
    pub cause: Cause,
}

impl DialError {
    /// How far the dial came.
    #[must_use]
    pub fn stage(&self) -> Stage {
        self.cause.stage()
    }
}

/// What happened to a dial.
#[derive(Debug, thiserror::Error)]
pub enum Cause {
    /// A key file is of no use.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The agent is of no use.
    #[error(transparent)]
    Agent(#[from] AgentError),
    /// Neither a key nor an agent.
    #[error("there is nothing to log in with: give a key_file, or use the SSH agent")]
    NoIdentity,
    /// No connection.
    #[error("no connection could be made; is the host up, and is its SSH port reachable from here?")]
    Tcp(#[source] io::Error),
    /// The jump host did not connect us.
    #[error("the jump host did not make the connection")]
    Jump(#[source] ChannelError),
    /// No agreement.
    #[error("no common {what}: the server offers {theirs}; update its SSH server")]
    NoCommon {
        /// On what.
        what: &'static str,
        /// What the server has.
        theirs: String,
    },
    /// The other side hung up, or is no SSH server.
    #[error(
        "the handshake broke off; is this the port of an SSH server, and does it still take connections \
         (MaxStartups, a ban after failed logins)?"
    )]
    Handshake(#[source] russh::Error),
    /// The host's key was not accepted.
    #[error(transparent)]
    HostKey(#[from] Box<HostKeyError>),
    /// The server let nobody in.
    #[error(
        "the server did not accept {tried} for user {user} (it takes: {takes}){hint}; put the public key into \
         that user's authorized_keys"
    )]
    Refused {
        /// Who wanted in.
        user: String,
        /// The keys tried.
        tried: String,
        /// The ways in that the server has.
        takes: String,
        /// What else is known.
        hint: String,
    },
    /// A key was accepted and the server wants more.
    #[error(
        "the server accepted the key of user {user} but wants a second proof ({takes}), which cannot be given"
    )]
    SecondFactor {
        /// Who wanted in.
        user: String,
        /// What else it wants.
        takes: String,
    },
    /// The agent holds the right key and does not sign.
    #[error(
        "the SSH agent refused to sign with {key}; is it locked, does the key want a confirmation or a touch, \
         or is it no longer plugged in?"
    )]
    SignatureRefused {
        /// With which.
        key: String,
    },
    /// The server hung up while keys were being tried.
    #[error(
        "the server closed the connection after {tried}; if that were too many keys (MaxAuthTries), name the \
         right one with key_file"
    )]
    LoginClosed {
        /// The keys tried.
        tried: String,
    },
    /// A stage took too long.
    #[error("{overran}")]
    Overran {
        /// Which.
        stage: Stage,
        /// What did.
        overran: Overran,
    },
}

impl Cause {
    /// How far the dial came.
    #[must_use]
    pub fn stage(&self) -> Stage {
        match self {
            Self::Key(_) | Self::Agent(_) | Self::NoIdentity => Stage::Credentials,
            Self::Tcp(_) | Self::Jump(_) => Stage::Tcp,
            Self::NoCommon { .. } | Self::Handshake(_) => Stage::Handshake,
            Self::HostKey(_) => Stage::HostKey,
            Self::Refused { .. }
            | Self::SecondFactor { .. }
            | Self::SignatureRefused { .. }
            | Self::LoginClosed { .. } => Stage::Authentication,
            Self::Overran { stage, .. } => *stage,
        }
    }
}

/// Where a channel leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A unix socket on the host.
    Socket(String),
    /// A port that the host reaches.
    Port(String, u16),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket(path) => write!(f, "the socket {path}"),
            Self::Port(host, port) if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Port(host, port) => write!(f, "{host}:{port}"),
        }
    }
}

impl Place {
    fn permission(&self) -> &'static str {
        match self {
            Self::Socket(_) => {
                "set AllowStreamLocalForwarding and AllowTcpForwarding to yes in its sshd_config (OpenSSH wants \
                 both), and see that no \"restrict\" or \"no-port-forwarding\" stands before the key"
            }
            Self::Port(..) => {
                "set AllowTcpForwarding to yes in its sshd_config, and see that neither PermitOpen nor \
                 \"restrict\" or \"no-port-forwarding\" before the key rules it out"
            }
        }
    }

    fn presence(&self) -> &'static str {
        match self {
            // OpenSSH answers so too when it forbids forwarding to sockets.
            Self::Socket(path) if path.contains("libvirt") => {
                "is libvirtd running there, may the user open its socket (group libvirt), and does sshd_config \
                 have AllowStreamLocalForwarding and AllowTcpForwarding at yes and no \"restrict\" stand before \
                 the key? Where libvirt's daemons are modular the socket is /run/libvirt/virtqemud-sock"
            }
            Self::Socket(_) => {
                "does something listen there, may the user open it, and does sshd_config have \
                 AllowStreamLocalForwarding and AllowTcpForwarding at yes and no \"restrict\" stand before the key?"
            }
            Self::Port(..) => "does something listen there?",
        }
    }
}

/// Why no way to a socket or port was opened.
#[derive(Debug, thiserror::Error)]
pub enum ChannelError {
    /// The server forbids it.
    #[error("the SSH server does not allow forwarding to {place}; {}", .place.permission())]
    Prohibited {
        /// To where.
        place: Place,
    },
    /// Nothing answers there.
    #[error("the SSH server cannot connect to {place}; {}", .place.presence())]
    ConnectFailed {
        /// To where.
        place: Place,
    },
    /// The server does not know how.
    #[error("the SSH server has no way to forward to {place}; it takes OpenSSH's, version 6.7 or later")]
    Unknown {
        /// To where.
        place: Place,
    },
    /// The server has too many channels open, or says something new.
    #[error("the SSH server did not open a channel to {place} ({code})")]
    Other {
        /// To where.
        place: Place,
        /// Its code.
        code: u32,
    },
    /// The connection is gone.
    #[error("the SSH connection was lost while a channel to {place} was opened")]
    Lost {
        /// To where.
        place: Place,
    },
    /// No answer in time.
    #[error(transparent)]
    Overran(#[from] Overran),
}

impl ChannelError {
    /// Channels are the last stage.
    #[must_use]
    pub fn stage(&self) -> Stage {
        Stage::Channel
    }
}

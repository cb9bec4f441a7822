//! What went wrong, with libvirt's own code, domain, level and message kept.
//!
//! It must not judge: which code is worth another try is for the backends to say. Invariant: what
//! libvirtd said stays apart from what happened to the link.

use std::fmt;
use std::io;
use std::sync::Arc;

use super::packet::TooLarge;
use super::types::{Domain, Network};
use super::xdr::{Decode, Decoder, Malformed};
use crate::transport::call::Overran;

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $number:literal;)*) => {
        /// libvirt's error numbers, `virErrorNumber`; those we tell apart have names.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct Code(pub i32);

        impl Code {
            $($(#[$doc])* pub const $name: Self = Self($number);)*

            /// Its name in libvirt, where we have one.
            #[must_use]
            pub fn name(self) -> Option<&'static str> {
                match self {
                    $(Self::$name => Some(stringify!($name)),)*
                    _ => None,
                }
            }
        }
    };
}

codes! {
    /// Something inside libvirt.
    INTERNAL_ERROR = 1;
    /// No memory.
    NO_MEMORY = 2;
    /// The driver cannot do this at all.
    NO_SUPPORT = 3;
    /// An argument, or a flag, that is not understood.
    INVALID_ARG = 8;
    /// It was tried and failed.
    OPERATION_FAILED = 9;
    /// XML that does not parse or does not make sense.
    XML_ERROR = 27;
    /// The domain exists already.
    DOM_EXIST = 28;
    /// Not allowed.
    OPERATION_DENIED = 29;
    /// XML, with the place of the error.
    XML_DETAIL = 35;
    /// A system call failed.
    SYSTEM_ERROR = 38;
    /// The remote protocol.
    RPC = 39;
    /// No such domain.
    NO_DOMAIN = 42;
    /// Authentication failed.
    AUTH_FAILED = 45;
    /// No such pool.
    NO_STORAGE_POOL = 49;
    /// No such volume.
    NO_STORAGE_VOL = 50;
    /// Not in this state.
    OPERATION_INVALID = 55;
    /// The configuration is not supported.
    CONFIG_UNSUPPORTED = 67;
    /// It took too long.
    OPERATION_TIMEOUT = 68;
    /// Probing storage failed.
    STORAGE_PROBE_FAILED = 75;
    /// The pool is built already.
    STORAGE_POOL_BUILT = 76;
    /// Authentication was cancelled.
    AUTH_CANCELLED = 79;
    /// The domain carries no such metadata.
    NO_DOMAIN_METADATA = 80;
    /// This one cannot do it.
    OPERATION_UNSUPPORTED = 84;
    /// The guest agent does not answer.
    AGENT_UNRESPONSIVE = 86;
    /// Somebody else uses it.
    RESOURCE_BUSY = 87;
    /// Access denied.
    ACCESS_DENIED = 88;
    /// The volume exists already.
    STORAGE_VOL_EXIST = 90;
    /// No way to authenticate.
    AUTH_UNAVAILABLE = 94;
    /// The guest agent did not answer a command in time.
    AGENT_COMMAND_TIMEOUT = 112;
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "{name} ({})", self.0),
            None => write!(f, "libvirt error {}", self.0),
        }
    }
}

impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What libvirtd answered instead of a result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", if message.is_empty() { "libvirtd gave no reason" } else { message })]
pub struct RemoteError {
    /// Which error.
    pub code: Code,
    /// Which part of libvirt it comes from, `virErrorDomain`.
    pub domain: i32,
    /// 1 a warning, 2 an error.
    pub level: i32,
    /// libvirt's words.
    pub message: String,
}

impl Decode for RemoteError {
    const LEAST: usize = 44;

    fn decode(from: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let (code, domain, message, level) = from.get::<(i32, i32, Option<String>, i32)>()?;
        let _about: Option<Domain> = from.get()?;
        let _strings: (Option<String>, Option<String>, Option<String>) = from.get()?;
        let _numbers: (i32, i32) = from.get()?;
        let _network: Option<Network> = from.get()?;
        Ok(Self {
            code: Code(code),
            domain,
            level,
            message: message.unwrap_or_default(),
        })
    }
}

/// Why the link to libvirtd is of no use any more.
#[derive(Clone, Debug, thiserror::Error)]
pub enum LinkDown {
    /// libvirtd, or what lies between, closed it.
    #[error("the connection to libvirtd was closed by the other side")]
    Closed,
    /// Reading or writing failed.
    #[error("the connection to libvirtd failed")]
    Io(#[source] Arc<io::Error>),
    /// The peer does not speak the protocol.
    #[error("what answers does not speak libvirt's protocol: {0}")]
    Protocol(String),
    /// Pings stayed unanswered.
    #[error("libvirtd does not answer any more")]
    Silent,
    /// Nothing could be written for too long.
    #[error("libvirtd does not read any more")]
    Stalled,
    /// We closed it.
    #[error("the connection to libvirtd was closed")]
    Shut,
}

/// Why a call has no result.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// libvirtd refused or failed.
    #[error("libvirtd refused {procedure}")]
    Remote {
        /// At what.
        procedure: &'static str,
        /// Its answer.
        #[source]
        error: RemoteError,
    },
    /// The link is down; whether the call took effect is unknown.
    #[error("{procedure} has no answer")]
    Link {
        /// What was asked.
        procedure: &'static str,
        /// Why.
        #[source]
        down: LinkDown,
    },
    /// It used up its budget; the reply, should it come, is dropped.
    #[error(transparent)]
    Overran(#[from] Overran),
    /// The reply cannot be decoded.
    #[error("the reply to {procedure} cannot be understood")]
    Reply {
        /// To what.
        procedure: &'static str,
        /// Why.
        #[source]
        malformed: Malformed,
    },
    /// The arguments do not fit into a message.
    #[error("{procedure} cannot be sent")]
    Request {
        /// What.
        procedure: &'static str,
        /// Why.
        #[source]
        too_large: TooLarge,
    },
    /// None of the ways to authenticate that libvirtd offers is one we have.
    #[error(
        "libvirtd asks for authentication by {0}, which is not supported; allow the SSH user to \
             use the socket without it (auth_unix_rw = \"none\" and the socket's group in libvirtd.conf)"
    )]
    Authentication(String),
    /// What was to be uploaded could not be read.
    #[error("what was to be uploaded could not be read")]
    Source(#[source] io::Error),
    /// What was to be uploaded ended early.
    #[error("what was to be uploaded ended after {sent} of {announced} bytes")]
    SourceShort {
        /// What was to come.
        announced: u64,
        /// What came.
        sent: u64,
    },
}

impl Error {
    /// libvirt's code, where libvirtd gave one.
    #[must_use]
    pub fn code(&self) -> Option<Code> {
        match self {
            Self::Remote { error, .. } => Some(error.code),
            _ => None,
        }
    }

    /// Whether the link is of no use any more.
    #[must_use]
    pub fn is_link_down(&self) -> bool {
        matches!(self, Self::Link { .. })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::xdr::{Encoder, whole};
    use super::*;

    #[test]
    fn an_error_as_libvirtd_sends_it() {
        // VIR_ERR_NO_DOMAIN from the remote driver, str1 set, as libvirt 9.0 sends it.
        let mut encoder = Encoder::new();
        encoder
            .put(&42_i32)
            .put(&12_i32)
            .put(&Some("Domain not found"))
            .put(&2_i32)
            .put(&None::<String>)
            .put(&Some("Domain not found: %s"))
            .put(&Some(""))
            .put(&None::<String>)
            .put(&-1_i32)
            .put(&-1_i32)
            .put(&None::<String>);
        let error: RemoteError = whole(&encoder.finish()).expect("decodes");
        assert_eq!(error.code, Code::NO_DOMAIN);
        assert_eq!((error.domain, error.level), (12, 2));
        assert_eq!(error.to_string(), "Domain not found");
        assert_eq!(error.code.to_string(), "NO_DOMAIN (42)");
        assert_eq!(Code(999).to_string(), "libvirt error 999");
        let silent = RemoteError {
            message: String::new(),
            ..error
        };
        assert_eq!(silent.to_string(), "libvirtd gave no reason");
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = whole::<RemoteError>(&bytes);
        }
    }
}

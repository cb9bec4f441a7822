//! What failures of libvirt mean.
//!
//! It must not do I/O. Invariants: libvirt's own words are the cause of every error that it gave; nothing
//! here says NotFound, since only who asked for an instance knows whether its absence is proved.

use crate::contract::{Error, ErrorKind};
use crate::transport::libvirt::{Code, Error as LibvirtError, RemoteError};

/// The error of the contract that a failure of libvirt is.
pub fn libvirt(error: LibvirtError) -> Error {
    let kind = kind(&error);
    let text = error.to_string();
    match error {
        LibvirtError::Remote { error, .. } => Error::new(kind, text).caused_by(error),
        LibvirtError::Link { down, .. } => Error::new(kind, text).caused_by(down),
        LibvirtError::Reply { malformed, .. } => Error::new(kind, text).caused_by(malformed),
        LibvirtError::Request { too_large, .. } => Error::new(kind, text).caused_by(too_large),
        LibvirtError::Source(error) => Error::new(kind, text).caused_by(error),
        LibvirtError::Overran(_) | LibvirtError::Authentication(_) | LibvirtError::SourceShort { .. } => {
            Error::new(kind, text)
        }
    }
}

/// What the caller may conclude.
pub fn kind(error: &LibvirtError) -> ErrorKind {
    match error {
        LibvirtError::Remote { error, .. } => of_code(error),
        // Whether the call took effect is unknown; repeating it is safe, since all are idempotent.
        LibvirtError::Link { .. } | LibvirtError::Overran(_) => ErrorKind::Transient,
        LibvirtError::Source(_) | LibvirtError::SourceShort { .. } => ErrorKind::Transient,
        LibvirtError::Reply { .. } | LibvirtError::Request { .. } | LibvirtError::Authentication(_) => {
            ErrorKind::Permanent
        }
    }
}

fn of_code(error: &RemoteError) -> ErrorKind {
    match error.code {
        // The text is the only difference between a full disk, or memory, and any other failure.
        Code::NO_MEMORY | Code::INTERNAL_ERROR | Code::SYSTEM_ERROR | Code::OPERATION_FAILED
            if is_used_up(error) =>
        {
            ErrorKind::QuotaExceeded
        }
        // QEMU could not open a disk, say: nothing changes until somebody gives it the right to.
        Code::INTERNAL_ERROR | Code::SYSTEM_ERROR if error.message.contains("Permission denied") => {
            ErrorKind::Permanent
        }
        Code::NO_STORAGE_POOL
        | Code::NO_SUPPORT
        | Code::INVALID_ARG
        | Code::XML_ERROR
        | Code::XML_DETAIL
        | Code::CONFIG_UNSUPPORTED
        | Code::OPERATION_UNSUPPORTED
        | Code::OPERATION_DENIED
        | Code::ACCESS_DENIED
        | Code::AUTH_FAILED
        | Code::AUTH_CANCELLED
        | Code::AUTH_UNAVAILABLE => ErrorKind::Permanent,
        // A network or a bridge that is named and is not there, in any release's code for it.
        _ if is_missing_reference(error) => ErrorKind::Permanent,
        // Codes become more specific between releases: what is unknown may be repeated.
        _ => ErrorKind::Transient,
    }
}

/// Whether libvirt says that disk or memory is used up.
fn is_used_up(error: &RemoteError) -> bool {
    [
        "No space left on device",
        "Disk quota exceeded",
        "Cannot allocate memory",
        "cannot set up guest memory",
    ]
    .iter()
    .any(|text| error.message.contains(text))
}

/// Whether libvirt says that what a domain is to be attached to does not exist.
fn is_missing_reference(error: &RemoteError) -> bool {
    [
        "Network not found",
        "Cannot get interface MTU",
        "failed to find emulator",
    ]
    .iter()
    .any(|text| error.message.contains(text))
}

/// Whether it is libvirt's own answer, and this one.
pub fn says(error: &LibvirtError, code: Code) -> bool {
    error.code() == Some(code)
}

/// Whether a call, or a flag of it, is one that this daemon or driver does not have.
pub fn is_unknown_call(error: &LibvirtError) -> bool {
    matches!(
        error.code(),
        Some(Code::NO_SUPPORT | Code::INVALID_ARG | Code::OPERATION_UNSUPPORTED | Code::CONFIG_UNSUPPORTED)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::call::Overran;
    use crate::transport::libvirt::LinkDown;

    fn remote(code: i32, message: &str) -> LibvirtError {
        LibvirtError::Remote {
            procedure: "DomainCreate",
            error: RemoteError {
                code: Code(code),
                domain: 10,
                level: 2,
                message: message.to_owned(),
            },
        }
    }

    /// The texts are those of libvirt 9.0 and QEMU 7.2, where a text decides.
    #[test]
    fn every_failure_has_its_kind() {
        use ErrorKind::{Permanent, QuotaExceeded, Transient};
        for (code, message, expected) in [
            (
                1,
                "internal error: process exited while connecting to monitor",
                Transient,
            ),
            (
                1,
                "internal error: process exited while connecting to monitor: 2026-11-30T10:00:00Z qemu-system-x86_64: -blockdev {\"driver\":\"file\"}: Could not open '/p/a': Permission denied",
                Permanent,
            ),
            (
                1,
                "internal error: qemu unexpectedly closed the monitor: qemu-system-x86_64: cannot set up guest memory 'pc.ram': Cannot allocate memory",
                QuotaExceeded,
            ),
            (
                1,
                "internal error: child reported (status=125): No space left on device",
                QuotaExceeded,
            ),
            (
                1,
                "internal error: pool 'default' has asynchronous jobs running.",
                Transient,
            ),
            (2, "out of memory", Transient),
            (
                3,
                "this function is not supported by the connection driver: virDomainPMWakeup",
                Permanent,
            ),
            (
                8,
                "unsupported flags (0x4) in function testDomainUndefineFlags",
                Permanent,
            ),
            (
                9,
                "operation failed: domain 'a' already exists with uuid 6b1c1e0a-8c6e-4a3b-8d6b-1f7c3b1a2d3e",
                Transient,
            ),
            (9, "cannot extend file '/p/a': Disk quota exceeded", QuotaExceeded),
            (27, "XML error: name a/b cannot contain '/'", Permanent),
            (28, "domain is already active as 'a'", Transient),
            (
                29,
                "operation forbidden: read only access prevents virDomainCreate",
                Permanent,
            ),
            (
                35,
                "(domain_definition):1: Opening and ending tag mismatch",
                Permanent,
            ),
            (38, "cannot create '/p/a': No space left on device", QuotaExceeded),
            (
                38,
                "Unable to read from monitor: Connection reset by peer",
                Transient,
            ),
            (
                42,
                "Domain not found: no domain with matching name 'a'",
                Transient,
            ),
            (
                43,
                "Network not found: no network with matching name 'lan'",
                Permanent,
            ),
            (38, "Cannot get interface MTU on 'br7': No such device", Permanent),
            (45, "authentication failed: access denied by policy", Permanent),
            (
                49,
                "Storage pool not found: no storage pool with matching name 'default'",
                Permanent,
            ),
            (
                50,
                "Storage volume not found: no storage vol with matching name 'a'",
                Transient,
            ),
            (
                55,
                "Requested operation is not valid: storage pool 'default' is not active",
                Transient,
            ),
            (
                67,
                "unsupported configuration: CPU mode 'host-passthrough' for x86_64 qemu domain on x86_64 host is not supported by hypervisor",
                Permanent,
            ),
            (
                68,
                "Timed out during operation: cannot acquire state change lock (held by monitor=remoteDispatchDomainCreate)",
                Transient,
            ),
            (84, "Operation not supported: no", Permanent),
            (
                86,
                "Guest agent is not responding: QEMU guest agent is not connected",
                Transient,
            ),
            (88, "access denied", Permanent),
            (90, "storage volume 'a' exists already", Transient),
            (4711, "something new", Transient),
        ] {
            assert_eq!(kind(&remote(code, message)), expected, "{code}: {message}");
        }
        let link = LibvirtError::Link {
            procedure: "DomainCreate",
            down: LinkDown::Closed,
        };
        assert_eq!(kind(&link), Transient);
        let overran = LibvirtError::Overran(Overran {
            call: "DomainCreate".to_owned(),
            budget: std::time::Duration::from_secs(1),
        });
        assert_eq!(kind(&overran), Transient);
        assert_eq!(kind(&LibvirtError::Authentication("SASL".to_owned())), Permanent);
    }

    #[test]
    fn libvirts_own_words_are_the_cause() {
        let error = libvirt(remote(1, "internal error: the emulator said no"));
        assert_eq!(error.to_string(), "libvirtd refused DomainCreate");
        let cause = std::error::Error::source(&error).expect("a cause");
        assert!(cause.to_string().contains("the emulator said no"), "{cause}");
    }
}

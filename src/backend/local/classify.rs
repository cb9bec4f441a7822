//! The one classifier: what the operating system's errors mean for a proxy of this machine.
//!
//! It must not do I/O. Invariant: a used-up allowance is QuotaExceeded, what stays wrong until
//! somebody changes it is Permanent, and only the rest is worth repeating.

use std::io;
use std::path::Path;

use rustix::io::Errno;

use crate::contract::{Error, ErrorKind};

/// What an error of the operating system means.
pub(super) fn kind(error: &io::Error) -> ErrorKind {
    match Errno::from_io_error(error) {
        Some(Errno::NOSPC | Errno::DQUOT | Errno::NOMEM | Errno::MFILE | Errno::NFILE | Errno::NOLCK) => {
            ErrorKind::QuotaExceeded
        }
        Some(
            Errno::ACCESS
            | Errno::PERM
            | Errno::ROFS
            | Errno::NOTDIR
            | Errno::ISDIR
            | Errno::LOOP
            | Errno::NAMETOOLONG
            | Errno::INVAL
            | Errno::NOENT
            | Errno::NOEXEC
            | Errno::ADDRNOTAVAIL
            | Errno::ADDRINUSE
            | Errno::AFNOSUPPORT
            | Errno::NOSYS
            | Errno::NOTSUP,
        ) => ErrorKind::Permanent,
        Some(_) => ErrorKind::Transient,
        None => match error.kind() {
            io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput => ErrorKind::Permanent,
            _ => ErrorKind::Transient,
        },
    }
}

/// A file or directory that could not be worked with.
pub(super) fn file(error: io::Error, doing: &str, path: &Path) -> Error {
    let way_out = match Errno::from_io_error(&error) {
        Some(Errno::ROFS) => ": the file system is read-only; set state_dir to one that can be written",
        Some(Errno::ACCESS | Errno::PERM) => {
            ": permission denied; run as the user who made it, or set state_dir to a directory of one's own"
        }
        Some(Errno::NOSPC | Errno::DQUOT) => ": no space is left",
        _ => "",
    };
    Error::new(
        kind(&error),
        format!("cannot {doing} {}{way_out}", path.display()),
    )
    .caused_by(error)
}

/// A process that could not be started, or looked at.
pub(super) fn process(error: io::Error, doing: &str) -> Error {
    let kind = match Errno::from_io_error(&error) {
        // For a new process this is the limit of processes, which no waiting of ours lifts.
        Some(Errno::AGAIN) => ErrorKind::QuotaExceeded,
        _ => kind(&error),
    };
    Error::new(kind, format!("cannot {doing}")).caused_by(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_has_its_kind() {
        for (errno, expected) in [
            (Errno::NOSPC, ErrorKind::QuotaExceeded),
            (Errno::DQUOT, ErrorKind::QuotaExceeded),
            (Errno::MFILE, ErrorKind::QuotaExceeded),
            (Errno::NOMEM, ErrorKind::QuotaExceeded),
            (Errno::ACCESS, ErrorKind::Permanent),
            (Errno::PERM, ErrorKind::Permanent),
            (Errno::ROFS, ErrorKind::Permanent),
            (Errno::NOTDIR, ErrorKind::Permanent),
            (Errno::NOENT, ErrorKind::Permanent),
            (Errno::NOEXEC, ErrorKind::Permanent),
            (Errno::ADDRNOTAVAIL, ErrorKind::Permanent),
            (Errno::IO, ErrorKind::Transient),
            (Errno::INTR, ErrorKind::Transient),
            (Errno::AGAIN, ErrorKind::Transient),
            (Errno::STALE, ErrorKind::Transient),
            (Errno::BUSY, ErrorKind::Transient),
        ] {
            assert_eq!(kind(&errno.into()), expected, "{errno:?}");
        }
        assert_eq!(kind(&io::Error::other("x")), ErrorKind::Transient);
        assert_eq!(kind(&io::ErrorKind::InvalidData.into()), ErrorKind::Permanent);
    }

    #[test]
    fn a_read_only_directory_is_named_with_the_way_out() {
        let error = file(Errno::ROFS.into(), "write", Path::new("/s/x"));
        assert_eq!(error.kind(), ErrorKind::Permanent);
        assert!(error.to_string().contains("/s/x") && error.to_string().contains("state_dir"));
    }

    #[test]
    fn a_limit_of_processes_is_an_allowance() {
        assert_eq!(
            process(Errno::AGAIN.into(), "start Squid").kind(),
            ErrorKind::QuotaExceeded
        );
        assert_eq!(
            process(Errno::NOENT.into(), "start Squid").kind(),
            ErrorKind::Permanent
        );
    }
}

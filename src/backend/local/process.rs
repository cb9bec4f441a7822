//! Which process a proxy is, and signals to exactly that one.
//!
//! It must not start anything or wait. Invariant: nothing is signalled that was not recognised first by
//! the proxy's own paths in its arguments; a number, recorded or not, is never enough.

use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal};

use super::procfs;
use super::record::{Identity, Liveness, is_service};
use crate::squid::release::PASSWORD_HELPER;

/// The identity of a process that was just started.
pub(super) fn identify(pid: u32) -> io::Result<Identity> {
    let stat = procfs::stat(pid)
        .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "the process ended at once"))?;
    Ok(Identity {
        pid,
        start_time: stat.start_time,
        boot_id: procfs::boot_id()?,
    })
}

/// What became of a process that runs Squid with that configuration.
pub(super) fn liveness(identity: Option<&Identity>, conf: &Path) -> io::Result<Liveness> {
    let Some(identity) = identity else {
        return Ok(Liveness::NeverStarted);
    };
    let boot_id = procfs::boot_id()?;
    Ok(judge(identity, &boot_id, procfs::stat(identity.pid), || {
        runs(identity.pid, conf)
    }))
}

fn judge(
    identity: &Identity,
    boot_id: &str,
    stat: Option<procfs::Stat>,
    has_our_arguments: impl Fn() -> bool,
) -> Liveness {
    if identity.boot_id != boot_id {
        return Liveness::Rebooted;
    }
    match stat {
        None => Liveness::Ended,
        Some(stat) if stat.start_time != identity.start_time => Liveness::PidReused,
        Some(stat) if stat.is_dead() => Liveness::Ended,
        // A clone of a machine may repeat numbers and ticks; the arguments name one directory.
        Some(_) if !has_our_arguments() => Liveness::PidReused,
        Some(stat) if stat.is_paused() => Liveness::Paused,
        Some(_) => Liveness::Runs,
    }
}

/// Whether a process was started with this configuration.
fn runs(pid: u32, conf: &Path) -> bool {
    names_conf(&procfs::arguments(pid), conf)
}

fn names_conf(arguments: &[Vec<u8>], conf: &Path) -> bool {
    arguments
        .windows(2)
        .any(|pair| pair[0] == b"-f" && pair[1] == conf.as_os_str().as_bytes())
}

/// The living processes of one proxy, recorded or not: an operation may have been cut off between the
/// start and the record, and a Squid that is killed leaves its helpers for a moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Alive {
    /// Squid itself.
    pub(super) squids: Vec<Identity>,
    /// What verifies passwords for it, in sessions of their own.
    pub(super) helpers: Vec<Identity>,
    /// The names under which the Squids keep shared memory.
    pub(super) services: Vec<String>,
}

impl Alive {
    /// All of them.
    pub(super) fn all(&self) -> impl Iterator<Item = &Identity> {
        self.squids.iter().chain(&self.helpers)
    }
}

/// Finds them by their arguments.
pub(super) fn alive(conf: &Path, passwords: &Path) -> io::Result<Alive> {
    let boot_id = procfs::boot_id()?;
    let mut alive = Alive::default();
    for stat in procfs::processes()? {
        let arguments = procfs::arguments(stat.pid);
        let kind = if names_conf(&arguments, conf) {
            alive.services.extend(service(&arguments));
            &mut alive.squids
        } else if names_passwords(&arguments, passwords) {
            &mut alive.helpers
        } else {
            continue;
        };
        if !stat.is_dead() {
            kind.push(Identity {
                pid: stat.pid,
                start_time: stat.start_time,
                boot_id: boot_id.clone(),
            });
        }
    }
    Ok(alive)
}

/// The name under which a Squid of ours keeps shared memory. It names files that are removed: it is
/// of our making or nothing.
fn service(arguments: &[Vec<u8>]) -> Option<String> {
    let pair = arguments.windows(2).find(|pair| pair[0] == b"-n")?;
    let name = str::from_utf8(&pair[1]).ok()?;
    is_service(name).then(|| name.to_owned())
}

fn names_passwords(arguments: &[Vec<u8>], passwords: &Path) -> bool {
    // Squid puts its helpers' names in parentheses.
    let is_helper = |name: &[u8]| {
        let name = name.rsplit(|byte| *byte == b'/').next().unwrap_or(name);
        name.strip_prefix(b"(")
            .unwrap_or(name)
            .starts_with(PASSWORD_HELPER.as_bytes())
    };
    matches!(arguments, [name, file] if is_helper(name) && file == passwords.as_os_str().as_bytes())
}

/// What to tell a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// End in order.
    Terminate,
    /// Go on, where a signal paused it.
    Continue,
    /// End now.
    Kill,
}

/// Tells exactly this process; one that ended meanwhile is no error.
pub(super) fn tell(identity: &Identity, order: Order) -> io::Result<()> {
    let signal = match order {
        Order::Terminate => Signal::TERM,
        Order::Continue => Signal::CONT,
        Order::Kill => Signal::KILL,
    };
    let Some(pid) = pid(identity.pid) else {
        return Ok(());
    };
    // The descriptor keeps the number from being given to another process between look and signal.
    let sent = match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(descriptor) if is_still(identity) => pidfd_send_signal(&descriptor, signal),
        Ok(_) => return Ok(()),
        // Kernels before 5.3 have none.
        Err(rustix::io::Errno::NOSYS) if is_still(identity) => kill_process(pid, signal),
        Err(rustix::io::Errno::NOSYS) => return Ok(()),
        Err(error) => Err(error),
    };
    ended_is_fine(sent)
}

fn is_still(identity: &Identity) -> bool {
    procfs::stat(identity.pid).is_some_and(|stat| stat.start_time == identity.start_time)
}

fn pid(number: u32) -> Option<Pid> {
    Pid::from_raw(i32::try_from(number).ok()?)
}

fn ended_is_fine(sent: Result<(), rustix::io::Errno>) -> io::Result<()> {
    match sent {
        Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_by_number_start_boot_and_arguments() {
        let identity = Identity {
            pid: 7,
            start_time: 100,
            boot_id: "this".into(),
        };
        let stat = |state, start_time| {
            Some(procfs::Stat {
                pid: 7,
                state,
                group: 7,
                start_time,
            })
        };
        for (boot, found, ours, expected) in [
            ("this", stat('S', 100), true, Liveness::Runs),
            ("this", stat('T', 100), true, Liveness::Paused),
            ("this", stat('Z', 100), false, Liveness::Ended),
            ("this", None, false, Liveness::Ended),
            ("this", stat('S', 101), true, Liveness::PidReused),
            ("this", stat('Z', 101), false, Liveness::PidReused),
            ("this", stat('S', 100), false, Liveness::PidReused),
            ("other", stat('S', 100), true, Liveness::Rebooted),
            ("other", None, false, Liveness::Rebooted),
        ] {
            assert_eq!(
                judge(&identity, boot, found, || ours),
                expected,
                "{boot} {found:?} {ours}"
            );
        }
    }

    #[test]
    fn only_the_whole_path_after_its_flag_is_ours() {
        let arguments = |words: &[&str]| {
            words
                .iter()
                .map(|word| word.as_bytes().to_vec())
                .collect::<Vec<_>>()
        };
        for (words, ours) in [
            (&["squid", "-N", "-f", "/s/a/squid.conf"][..], true),
            (&["squid", "-f", "/s/a/squid.conf", "-N"], true),
            (&["squid", "-f", "/s/a/squid.conf.old"], false),
            (&["vi", "/s/a/squid.conf"], false),
            (&["squid", "-f"], false),
            (&[], false),
        ] {
            assert_eq!(
                names_conf(&arguments(words), Path::new("/s/a/squid.conf")),
                ours,
                "{words:?}"
            );
        }
    }

    #[test]
    fn a_service_is_of_our_making_or_none() {
        let ours = "0198c2d4e5f60718293a4b5c6d7e8f90";
        for (words, found) in [
            (
                &["squid", "-N", "-n", ours, "-f", "/s/a/squid.conf"][..],
                Some(ours),
            ),
            (&["squid", "-n", "squid", "-f", "/s/a/squid.conf"], None),
            (
                &["squid", "-n", "../../etc/0198c2d4e5f60718293a", "-f", "x"],
                None,
            ),
            (&["squid", "-n"], None),
        ] {
            let words: Vec<_> = words.iter().map(|word| word.as_bytes().to_vec()).collect();
            assert_eq!(service(&words).as_deref(), found, "{words:?}");
        }
    }

    #[test]
    fn helpers_are_known_by_their_name_and_file() {
        let arguments = |words: &[&str]| {
            words
                .iter()
                .map(|word| word.as_bytes().to_vec())
                .collect::<Vec<_>>()
        };
        for (words, ours) in [
            (&["(basic_ncsa_auth)", "/s/a/passwd"][..], true),
            (&["/usr/lib/squid/basic_ncsa_auth", "/s/a/passwd"], true),
            (&["(basic_ncsa_auth)", "/s/b/passwd"], false),
            (&["vi", "/s/a/passwd"], false),
            (&["basic_ncsa_auth", "/s/a/passwd", "x"], false),
            (&[], false),
        ] {
            assert_eq!(
                names_passwords(&arguments(words), Path::new("/s/a/passwd")),
                ours,
                "{words:?}"
            );
        }
    }

    #[test]
    fn a_stranger_with_the_number_is_not_signalled() {
        let own = identify(std::process::id()).expect("it runs");
        let stranger = Identity {
            start_time: own.start_time + 1,
            ..own.clone()
        };
        // Were it signalled, this test would end here.
        tell(&stranger, Order::Terminate).expect("nothing to do");
        tell(&own, Order::Continue).expect("it goes on");
        let gone = Identity { pid: u32::MAX, ..own };
        tell(&gone, Order::Terminate).expect("nothing to do");
    }
}

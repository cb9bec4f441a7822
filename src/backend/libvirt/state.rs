//! What libvirt's states of a domain mean.
//!
//! It must not ask libvirt. Invariant: a state that came later than this release is one that can be
//! started, as the states that are known and not told here.

use crate::transport::libvirt::types::{DomainState, affect};

/// Where a domain is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    /// libvirt does not say yet.
    Starting,
    /// Its guest runs.
    Runs,
    /// It was paused and can be resumed.
    Paused,
    /// Its guest put it to sleep, and it can be woken.
    Asleep,
    /// It shuts down.
    Leaving,
    /// It is off and can be started.
    Off,
}

/// Where a domain in that state is.
pub(super) fn life(state: DomainState) -> Life {
    match state {
        DomainState::None => Life::Starting,
        DomainState::Running | DomainState::Blocked => Life::Runs,
        DomainState::Paused => Life::Paused,
        DomainState::PmSuspended => Life::Asleep,
        DomainState::Shutdown => Life::Leaving,
        DomainState::Shutoff | DomainState::Crashed | DomainState::Other(_) => Life::Off,
    }
}

/// Whether there is a process behind the domain, so that a change is one of what runs too.
pub(super) fn is_active(state: DomainState) -> bool {
    match life(state) {
        Life::Starting | Life::Runs | Life::Paused | Life::Asleep | Life::Leaving => true,
        Life::Off => false,
    }
}

/// Which of a domain's two configurations a change of its metadata is for: what runs is one of its own.
pub(super) fn affected(state: DomainState) -> u32 {
    if is_active(state) {
        affect::LIVE | affect::CONFIG
    } else {
        affect::CONFIG
    }
}

/// Why it does not run, in libvirt's words: `virDomainPausedReason` and the like.
pub(super) fn reason(state: DomainState, why: i32) -> String {
    let (what, reasons): (&str, &[&str]) = match state {
        DomainState::Paused => (
            "it is paused",
            &[
                "",
                "by somebody",
                "for a migration",
                "to be saved",
                "for a core dump",
                "after an I/O error: see whether the pool has room left",
                "by its watchdog",
                "restored from a snapshot",
                "while it shuts down",
                "for a snapshot",
                "since its guest crashed",
                "while it starts",
            ],
        ),
        DomainState::Shutoff => (
            "it is off",
            &[
                "",
                "shut down from within",
                "destroyed by somebody",
                "since its guest crashed",
                "migrated away",
                "saved",
                "since it failed to start",
                "reverted to a snapshot",
            ],
        ),
        DomainState::PmSuspended => ("its guest put it to sleep", &[]),
        DomainState::Crashed => ("it crashed", &[]),
        DomainState::Shutdown => ("it is shutting down", &[]),
        DomainState::None => ("libvirt does not know its state yet", &[]),
        DomainState::Running | DomainState::Blocked => ("it runs", &[]),
        DomainState::Other(number) => {
            return format!("it is in libvirt's state {number}, which is not known here");
        }
    };
    let why = usize::try_from(why).ok().and_then(|why| reasons.get(why));
    match why {
        Some(why) if !why.is_empty() => format!("{what}, {why}"),
        _ => what.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_has_its_meaning() {
        for (number, expected, active) in [
            (0, Life::Starting, true),
            (1, Life::Runs, true),
            (2, Life::Runs, true),
            (3, Life::Paused, true),
            (4, Life::Leaving, true),
            (5, Life::Off, false),
            (6, Life::Off, false),
            (7, Life::Asleep, true),
            (8, Life::Off, false),
        ] {
            let state = DomainState::from(number);
            assert_eq!((life(state), is_active(state)), (expected, active), "{number}");
            for why in -1..20 {
                assert!(!reason(state, why).is_empty());
            }
        }
    }

    #[test]
    fn a_reason_says_what_to_look_for() {
        assert!(reason(DomainState::Paused, 5).contains("pool"));
        assert_eq!(
            reason(DomainState::Shutoff, 2),
            "it is off, destroyed by somebody"
        );
        assert_eq!(reason(DomainState::Shutoff, 0), "it is off");
        assert_eq!(reason(DomainState::Shutoff, 99), "it is off");
    }
}

//! `wait_for`: how far create and start wait, and whether an instance is there yet.
//!
//! Pure; the waiting itself is done by the lifecycle. Invariant: what ends a wait early is only
//! what no waiting can change.

use std::str::FromStr;

use crate::contract::{Found, Instance, Readiness, State};

/// How far to wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum WaitFor {
    /// The backend accepted it.
    None,
    /// It is started.
    Running,
    /// It has its address.
    #[default]
    Address,
    /// It serves.
    Ready,
}

/// What one look found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// What was waited for.
    There,
    /// Not yet; why.
    NotYet(String),
    /// Never; why.
    Never(String),
}

impl WaitFor {
    const ALL: [Self; 4] = [Self::None, Self::Running, Self::Address, Self::Ready];

    /// The value of the attribute.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Running => "running",
            Self::Address => "address",
            Self::Ready => "ready",
        }
    }

    /// The values that do not wait as long, or another way, for a message.
    pub(crate) fn others(self) -> String {
        let others: Vec<_> = Self::ALL
            .iter()
            .filter(|other| **other != self)
            .map(|other| format!("{:?}", other.as_str()))
            .collect();
        others.join(", ")
    }

    /// Whether a look must ask if the proxy serves.
    pub(crate) fn probes(self) -> bool {
        self == Self::Ready
    }

    /// What a look means for this wait.
    pub(crate) fn progress(self, found: &Found) -> Progress {
        let instance = &found.instance;
        if self == Self::None {
            return Progress::There;
        }
        match instance.state {
            State::Terminated | State::Stopped => return Progress::Never(status(instance)),
            State::Provisioning | State::Running => {}
        }
        let there = match self {
            Self::None => true,
            Self::Running => instance.started || instance.state == State::Running,
            Self::Address => instance.state == State::Running,
            Self::Ready => match &found.readiness {
                Some(Readiness::Ready) => instance.state == State::Running,
                Some(Readiness::NotReady(why)) => {
                    return Progress::NotYet(format!("{}; not ready: {why}", status(instance)));
                }
                None => false,
            },
        };
        if there {
            Progress::There
        } else {
            Progress::NotYet(status(instance))
        }
    }
}

/// The state of an instance, with the backend's reason.
pub(crate) fn status(instance: &Instance) -> String {
    match &instance.reason {
        Some(reason) => format!("{}: {reason}", instance.state),
        None => instance.state.to_string(),
    }
}

impl FromStr for WaitFor {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|value| value.as_str() == text)
            .ok_or_else(|| format!("{text:?} is none of \"none\", \"running\", \"address\" and \"ready\""))
    }
}

//! As which user Squid runs in its container.
//!
//! It must not know images. Invariant: it is never root.

use std::str::FromStr;

/// Nothing of an image belongs to this user, and nothing needs to.
const UNPRIVILEGED: i64 = 65_532;
/// The word that leaves the choice to the cluster.
const ASSIGNED: &str = "assigned";

/// As which user, and which group, Squid runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::backend::kubernetes) enum RunAs {
    /// This one.
    Number(i64),
    /// One that the cluster's admission assigns, as OpenShift's does.
    Assigned,
}

impl Default for RunAs {
    fn default() -> Self {
        Self::Number(UNPRIVILEGED)
    }
}

impl RunAs {
    /// The number that the Pod asks for, if it asks for one.
    pub(in crate::backend::kubernetes) fn number(self) -> Option<i64> {
        match self {
            Self::Number(number) => Some(number),
            Self::Assigned => None,
        }
    }
}

impl FromStr for RunAs {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == ASSIGNED {
            return Ok(Self::Assigned);
        }
        match text.parse::<i32>() {
            Ok(0) => Err(format!(
                "{text:?} is root, as which no proxy runs: name another user, or {ASSIGNED:?}"
            )),
            Ok(number) if number > 0 => Ok(Self::Number(number.into())),
            Ok(_) | Err(_) => Err(format!(
                "{text:?} is no user: write a number from 1 to {}, or {ASSIGNED:?} where the cluster assigns one",
                i32::MAX
            )),
        }
    }
}

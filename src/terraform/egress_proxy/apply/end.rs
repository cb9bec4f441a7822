//! The words for a create that did not come to its end.
//!
//! Must not know what the state holds. Invariant: failing, running out of time and being interrupted
//! read differently, and each says what the next apply does.

use std::time::Duration;

use crate::contract::{Error, Instance, InstanceId};
use crate::plugin::diagnostics::Diagnostic;
use crate::terraform::egress_proxy::wait::status;
use crate::terraform::failure;
use crate::terraform::lifecycle::Ended;
use crate::terraform::timeouts;

/// The words for a create that did not come to its end.
pub(super) struct End<'a> {
    /// Which proxy.
    pub(super) id: &'a InstanceId,
    /// How long it may take.
    pub(super) time: Duration,
}

impl End<'_> {
    /// Nothing is in the state.
    pub(super) fn before_acceptance(&self, ended: Ended) -> Diagnostic {
        let id = self.id;
        let later = "Should the backend have begun all the same, the next apply takes over what it made.";
        match ended {
            Ended::Failed(error) => failure::diagnostic(&error, "Cannot create", &id.to_string()),
            Ended::OutOfTime(last) => Diagnostic::error(format!(
                "The backend did not accept {id} within {}",
                timeouts::show(self.time)
            ))
            .detail(format!(
                "{}\n\n{later} Raise timeouts.create if it needs longer.",
                last_words(last)
            )),
            Ended::Stopped => Diagnostic::error(format!("Creating {id} was interrupted")).detail(format!(
                "The backend had not accepted it yet, so that it is not in the state. {later}"
            )),
        }
    }

    /// The instance is in the state as it was last seen.
    pub(super) fn after_acceptance(&self, ended: Ended, instance: &Instance) -> Diagnostic {
        let id = self.id;
        match ended {
            Ended::Failed(error) => {
                failure::diagnostic(&error, "Cannot finish creating", &id.to_string())
            }
            Ended::OutOfTime(last) => Diagnostic::error(format!(
                "Creating {id} took longer than {}",
                timeouts::show(self.time)
            ))
            .detail(format!(
                "{} The last state was {}.\n\nIt is in the state and tainted, so that the next apply replaces it; after `terraform untaint` the next apply goes on with it instead. Raise timeouts.create if it needs longer.",
                last_words(last),
                status(instance)
            )),
            Ended::Stopped => interrupted(id),
        }
    }
}

/// What the last attempt failed with, for one that ran out of time.
pub(super) fn last_words(last: Option<Error>) -> String {
    last.map_or_else(
        || "The backend gave no answer.".to_owned(),
        |error| failure::sentence(&failure::chain(&error)),
    )
}

/// An interruption after acceptance, which is no failure.
pub(super) fn interrupted(id: &InstanceId) -> Diagnostic {
    Diagnostic::warning(format!("Creating {id} was interrupted")).detail(
        "The backend accepted it, and it is in the state. The next apply goes on with it and waits for it.",
    )
}

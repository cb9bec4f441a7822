//! The wait after create or resume, and what the state holds after each of its ends.
//!
//! Must not know how a backend is asked. Invariant: the newest sight of the instance is in the
//! response, however the wait ended.

use std::time::Duration;

use super::end::interrupted;
use super::held;
use crate::contract::{Accepted, Instance, InstanceId};
use crate::plugin::diagnostics::Diagnostic;
use crate::plugin::provider::ApplyResponse;
use crate::plugin::value::Value;
use crate::terraform::egress_proxy::schema::WAIT_FOR;
use crate::terraform::egress_proxy::wait::WaitFor;
use crate::terraform::failure;
use crate::terraform::lifecycle::{self, Awaited, WaitEnded};
use crate::terraform::session::Open;
use crate::terraform::timeouts::{self, Timeout};
use crate::transport::call::Limits;

/// A wait after create or resume, and what the state holds after each of its ends.
pub(super) struct Wait<'a> {
    open: &'a Open,
    id: &'a InstanceId,
    planned: &'a Value,
    timeout: Timeout,
    time: Duration,
    wait_for: WaitFor,
}

impl<'a> Wait<'a> {
    /// For `wait_for` of the planned state, within the rest of an operation's time.
    pub(super) fn new(
        open: &'a Open,
        id: &'a InstanceId,
        planned: &'a Value,
        timeout: Timeout,
        time: Duration,
    ) -> Self {
        let wait_for = planned.get(WAIT_FOR).as_str().and_then(|text| text.parse().ok());
        Self {
            open,
            id,
            planned,
            timeout,
            time,
            wait_for: wait_for.unwrap_or_default(),
        }
    }

    /// Waits, and makes the response of whatever came of it.
    pub(super) async fn through(
        &self,
        instance: Instance,
        awaited: Awaited<'_>,
        seen: &Accepted,
        limits: &Limits,
    ) -> ApplyResponse {
        let accepted = instance.clone();
        let ended = lifecycle::wait(self.open, awaited, self.wait_for, instance, seen, limits).await;
        let newest = |seen: &Accepted| seen.last().unwrap_or(accepted);
        match ended {
            Ok(instance) => held(self.planned, &instance, self.open, false),
            Err(ended) => {
                let mut response = held(self.planned, &newest(seen), self.open, true);
                response.diagnostics.push(self.told(ended));
                response
            }
        }
    }

    fn told(&self, ended: WaitEnded) -> Diagnostic {
        let (id, wait_for) = (self.id, self.wait_for.as_str());
        let operation = self.timeout.as_str();
        let kept = match self.timeout {
            Timeout::Create => {
                "It exists, and is in the state and tainted, so that the next apply replaces it; after `terraform untaint` the next apply goes on waiting for it instead."
            }
            Timeout::Read | Timeout::Update | Timeout::Delete => {
                "It exists and stays in the state; the next apply goes on waiting for it."
            }
        };
        match ended {
            WaitEnded::OutOfTime(last) => Diagnostic::error(format!(
                "{id} did not reach wait_for = {wait_for:?} within {}",
                timeouts::show(self.time)
            ))
            .detail(format!(
                "The last look found it {}.\n\n{kept} If it needs longer, raise timeouts.{operation}; if it need not come this far, set wait_for to one of {}.",
                last.unwrap_or_else(|| "without an answer".to_owned()),
                self.wait_for.others()
            )),
            WaitEnded::Failed(why) => Diagnostic::error(format!(
                "{id} ended before it reached wait_for = {wait_for:?}"
            ))
            .detail(format!("It is {why}.\n\n{kept}")),
            WaitEnded::Unreadable(error) => failure::diagnostic(
                &error,
                &format!("Cannot wait for wait_for = {wait_for:?} of"),
                &id.to_string()),
            WaitEnded::Stopped => match self.timeout {
                Timeout::Create => interrupted(id),
                Timeout::Read | Timeout::Update | Timeout::Delete => {
                    Diagnostic::warning(format!("Waiting for {id} was interrupted"))
                        .detail("It is in the state as it was last seen. The next apply goes on waiting for it.")
                }
            },
        }
    }
}

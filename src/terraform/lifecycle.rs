//! Runs the contract's operations under their deadlines, with retries and waits.
//!
//! Must not know Terraform's values: it takes what is already resolved and says what came of it.
//! Invariants: what the backend accepted is in every outcome, however the operation ended; running
//! out of time, being interrupted and failing are three different ends.

use std::time::Duration;

use super::egress_proxy::wait::{Progress, WaitFor};
use crate::contract::{
    Accepted, CreateRequest, Created, DeleteRequest, Deleted, Error, ErrorKind, Found, Freshness, GetRequest,
    Incarnation, Installation, Instance, NativeId,
};
use crate::terraform::session::Open;
use crate::transport::call::{
    Interrupted, Interval, Limits, Look, Unfinished, Unsuccessful, bounded, pause, poll, retry,
};

/// How often a wait looks.
const LOOKS: Interval = Interval {
    first: Duration::from_millis(250),
    longest: Duration::from_secs(5),
};

/// Why an operation did not come to its end.
#[derive(Debug)]
pub(crate) enum Ended {
    /// It failed.
    Failed(Error),
    /// Its time ran out; what the last attempt failed with.
    OutOfTime(Option<Error>),
    /// Terraform was asked to stop.
    Stopped,
}

impl From<Unsuccessful> for Ended {
    fn from(unsuccessful: Unsuccessful) -> Self {
        match unsuccessful {
            Unsuccessful::Failed(error) => Self::Failed(error),
            Unsuccessful::Interrupted {
                by: Interrupted::Deadline,
                last,
                ..
            } => Self::OutOfTime(last),
            Unsuccessful::Interrupted {
                by: Interrupted::Cancelled,
                ..
            } => Self::Stopped,
        }
    }
}

/// Creates or resumes.
pub(crate) async fn create(
    open: &Open,
    request: &CreateRequest,
    accepted: &Accepted,
    limits: &Limits,
) -> Result<Created, Ended> {
    retry(limits, || open.backend.create(request, accepted))
        .await
        .map_err(Ended::from)
}

/// Reads.
pub(crate) async fn get(open: &Open, request: &GetRequest, limits: &Limits) -> Result<Found, Ended> {
    retry(limits, || open.backend.get(request))
        .await
        .map_err(Ended::from)
}

/// Why a wait did not see what it waited for.
#[derive(Debug)]
pub(crate) enum WaitEnded {
    /// It never will: the instance ended, or cannot be read.
    Failed(String),
    /// A look failed for good.
    Unreadable(Error),
    /// Time ran out; the last status.
    OutOfTime(Option<String>),
    /// Terraform was asked to stop.
    Stopped,
}

/// Who is waited for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Awaited<'a> {
    /// Its id.
    pub(crate) id: &'a NativeId,
    /// Which incarnation.
    pub(crate) incarnation: Incarnation,
    /// Whose.
    pub(crate) installation: &'a Installation,
}

/// Waits for an instance that create just returned. Every look that succeeds is reported through
/// `seen`, so that the newest sight of it outlives the wait.
pub(crate) async fn wait(
    open: &Open,
    awaited: Awaited<'_>,
    wait_for: WaitFor,
    instance: Instance,
    seen: &Accepted,
    limits: &Limits,
) -> Result<Instance, WaitEnded> {
    let unread = Found {
        instance,
        readiness: None,
        warnings: Vec::new(),
    };
    // What create saw may be enough already; only serving must be asked for.
    if wait_for.progress(&unread) == Progress::There {
        return Ok(unread.instance);
    }
    let request = GetRequest {
        id: awaited.id.clone(),
        incarnation: Some(awaited.incarnation),
        installation: awaited.installation.clone(),
        recorded_target: None,
        probe: wait_for.probes(),
        freshness: Freshness::Fresh,
    };
    let look = || async {
        match open.backend.get(&request).await {
            Ok(found) => {
                seen.report(found.instance.clone());
                match wait_for.progress(&found) {
                    Progress::There => Ok(Look::Done(found.instance)),
                    Progress::NotYet(status) => Ok(Look::Pending(status)),
                    Progress::Never(why) => Err(WaitEnded::Failed(why)),
                }
            }
            Err(error) if error.kind().retryable() => Ok(Look::Pending(super::failure::chain(&error))),
            Err(error) => Err(WaitEnded::Unreadable(error)),
        }
    };
    poll(limits, LOOKS, look)
        .await
        .map_err(|unfinished| match unfinished {
            Unfinished::Failed { error, .. } => error,
            Unfinished::Interrupted {
                by: Interrupted::Deadline,
                last,
            } => WaitEnded::OutOfTime(last),
            Unfinished::Interrupted {
                by: Interrupted::Cancelled,
                ..
            } => WaitEnded::Stopped,
        })
}

/// The longest look at what a deletion that runs out of time leaves.
const LAST_LOOK: Duration = Duration::from_secs(5);

/// Deletes, and waits until nothing is left where the backend returns before that. The text is
/// what to tell although it succeeded.
pub(crate) async fn delete(
    open: &Open,
    request: &DeleteRequest,
    limits: &Limits,
) -> Result<Option<String>, Ended> {
    let get = GetRequest {
        id: request.id.clone(),
        incarnation: request.incarnation,
        installation: request.installation.clone(),
        recorded_target: request.recorded_target.clone(),
        probe: false,
        freshness: Freshness::Fresh,
    };
    match deleted(open, request, &get, limits).await? {
        Deleted::Gone => Ok(None),
        Deleted::LeftAlone(whose) => Ok(Some(whose)),
        Deleted::Accepted => gone(open, &get, limits).await,
    }
}

/// Deletes. Shortly before the time is up it looks at what is left, beside the attempt that still runs: an
/// attempt that is cut off says nothing.
async fn deleted(
    open: &Open,
    request: &DeleteRequest,
    get: &GetRequest,
    limits: &Limits,
) -> Result<Deleted, Ended> {
    let deletion = retry(limits, || open.backend.delete(request));
    let look = async {
        let time = limits.remaining();
        pause(limits, time.saturating_sub(LAST_LOOK.min(time / 10)))
            .await
            .ok()?;
        let found = bounded(limits, open.backend.get(get)).await.ok()?.ok()?;
        Some(super::egress_proxy::wait::status(&found.instance))
    };
    tokio::pin!(deletion, look);
    let mut looked = false;
    let mut left = None;
    let outcome = loop {
        tokio::select! {
            biased;
            outcome = &mut deletion => break outcome,
            status = &mut look, if !looked => {
                looked = true;
                left = status;
            }
        }
    };
    outcome.map_err(|unsuccessful| match unsuccessful.into() {
        Ended::OutOfTime(None) => Ended::OutOfTime(left.map(still_there)),
        ended => ended,
    })
}

/// What a deletion that ran out of time left.
fn still_there(status: String) -> Error {
    Error::transient(format!(
        "the deletion was begun, and the instance is still there, {status}"
    ))
}

async fn gone(open: &Open, request: &GetRequest, limits: &Limits) -> Result<Option<String>, Ended> {
    let look = || async {
        match open.backend.get(request).await {
            Ok(found) => Ok(Look::Pending(super::egress_proxy::wait::status(&found.instance))),
            Err(error) => match error.kind() {
                ErrorKind::NotFound => Ok(Look::Done(
                    error.is_noteworthy().then(|| error.message().to_owned()),
                )),
                ErrorKind::Transient => Ok(Look::Pending(super::failure::chain(&error))),
                ErrorKind::Permanent | ErrorKind::QuotaExceeded => Err(error),
            },
        }
    };
    poll(limits, LOOKS, look)
        .await
        .map_err(|unfinished| match unfinished {
            Unfinished::Failed { error, .. } => Ended::Failed(error),
            Unfinished::Interrupted {
                by: Interrupted::Deadline,
                last,
            } => Ended::OutOfTime(last.map(still_there)),
            Unfinished::Interrupted {
                by: Interrupted::Cancelled,
                ..
            } => Ended::Stopped,
        })
}

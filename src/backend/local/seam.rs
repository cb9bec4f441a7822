//! The way from a local backend to this machine: off the async threads, within a budget, in a span.
//!
//! It must not know what is done there. Invariants: nothing is waited for without a budget; without
//! an operation around it there is no span.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use tracing::{Instrument as _, Span};

use crate::contract::Error;
use crate::transport::call;

/// What a call to the file system or the process table may take; a slow disk is slower than any
/// of them is long.
const DISK_BUDGET: Duration = Duration::from_secs(60);

/// Runs work that blocks: on files, or on the process table.
///
/// # Errors
/// The work's own; Transient where it overran its budget.
pub(super) async fn disk<T: Send + 'static>(
    call: &'static str,
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    remote(call, DISK_BUDGET, call, call::blocking(work))
        .await?
        .map_err(|lost| Error::permanent(format!("{call}: the provider failed within")).caused_by(lost))?
}

/// Awaits something outside of us within its budget.
///
/// # Errors
/// Transient where it overran.
pub(super) async fn remote<F: Future>(
    call: &'static str,
    budget: Duration,
    name: impl fmt::Display,
    work: F,
) -> Result<F::Output, Error> {
    let span = if Span::current().is_none() {
        Span::none()
    } else {
        tracing::debug_span!("local.call", call)
    };
    call::within(budget, name, work.instrument(span))
        .await
        .map_err(Error::from)
}

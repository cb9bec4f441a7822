//! One call of the host: when to stop, what the host understands, what is known of the outcome so far.
//!
//! Must not know the wire or which call it is. Invariant: the stop token of a call that began
//! before a stop is cancelled by it, that of a later call is a new one.

use std::sync::{Mutex, PoisonError};

use tokio_util::sync::CancellationToken;

use super::ApplyResponse;

/// What the host understands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientCapabilities {
    /// A response may be deferred to a later run.
    pub deferral_allowed: bool,
    /// Configurations may set write-only attributes. Only Validate, where older hosts send
    /// nothing, must look at this.
    pub write_only_attributes_allowed: bool,
    /// Private data of the first plan comes back in the plan at apply.
    pub store_planned_private: bool,
    /// A block may be computed.
    pub computed_blocks_allowed: bool,
}

/// One call of the host.
#[derive(Debug, Default)]
pub struct Call {
    token: CancellationToken,
    client: ClientCapabilities,
    traceparent: Option<String>,
    tracestate: Option<String>,
    checkpoint: Mutex<Option<ApplyResponse>>,
}

impl Call {
    /// A call that nothing stops, from a host without capabilities: what tests need.
    pub fn new() -> Self {
        Self::default()
    }

    /// With the token that a stop cancels.
    #[must_use]
    pub fn with_token(mut self, token: CancellationToken) -> Self {
        self.token = token;
        self
    }

    /// With what the host understands.
    #[must_use]
    pub fn with_client(mut self, client: ClientCapabilities) -> Self {
        self.client = client;
        self
    }

    /// With the trace the call belongs to (W3C trace context).
    #[must_use]
    pub fn with_trace(mut self, traceparent: Option<String>, tracestate: Option<String>) -> Self {
        self.traceparent = traceparent;
        self.tracestate = tracestate;
        self
    }

    /// Comes to an end when the host asks everything in flight to stop. A handler then returns what
    /// it has so far, soon.
    pub async fn cancelled(&self) {
        self.token.cancelled().await;
    }

    /// Whether the host asked to stop.
    pub fn is_cancelled(&self) -> bool {
        self.token.is_cancelled()
    }

    /// The token behind [`Call::cancelled`], to hand on.
    pub fn token(&self) -> &CancellationToken {
        &self.token
    }

    /// What the host understands.
    pub fn client(&self) -> ClientCapabilities {
        self.client
    }

    /// The `traceparent` of the call's metadata.
    pub fn traceparent(&self) -> Option<&str> {
        self.traceparent.as_deref()
    }

    /// The `tracestate` of the call's metadata.
    pub fn tracestate(&self) -> Option<&str> {
        self.tracestate.as_deref()
    }

    /// Keeps the state known so far. Should the apply handler panic, this is what the host gets
    /// beside the error, and saves; without a checkpoint it gets the prior state.
    pub fn checkpoint(&self, response: ApplyResponse) {
        *self.checkpoint.lock().unwrap_or_else(PoisonError::into_inner) = Some(response);
    }

    /// Takes the last checkpoint out.
    pub fn take_checkpoint(&self) -> Option<ApplyResponse> {
        self.checkpoint
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }
}

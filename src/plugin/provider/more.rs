//! Data sources, functions, ephemeral and list resources, actions and state stores.
//!
//! Must not know the wire. Invariant: a handler that produces many events gives them to
//! [`Events`], which holds it back until the host took the last one and tells it when enough is enough.

use std::time::SystemTime;

use async_trait::async_trait;
use tokio::sync::mpsc;

use super::{Call, DeferReason};
use crate::plugin::diagnostics::Diagnostics;
use crate::plugin::schema::{Schema, Signature};
use crate::plugin::value::Value;

/// A request to read a data source.
#[derive(Clone, Debug, Default)]
pub struct ReadDataRequest {
    /// The configuration, wholly known.
    pub config: Value,
    /// The module's `provider_meta`, mostly null.
    pub provider_meta: Value,
}

/// What a data source gave.
#[derive(Clone, Debug, Default)]
pub struct ReadDataResponse {
    /// The result, wholly known and never null.
    pub state: Value,
    /// Set to defer the answer.
    pub deferred: Option<DeferReason>,
    /// Errors leave no result.
    pub diagnostics: Diagnostics,
}

/// A data source.
#[async_trait]
pub trait DataSource: Send + Sync + 'static {
    /// Its schema.
    fn schema(&self) -> Schema;
    /// Checks a configuration, which may hold unknowns.
    async fn validate(&self, call: &Call, config: Value) -> Diagnostics;
    /// Reads it.
    async fn read(&self, call: &Call, request: ReadDataRequest) -> ReadDataResponse;
}

/// Why a function has no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionError {
    /// What is wrong, in a sentence.
    pub text: String,
    /// Which argument it is about, from 0.
    pub argument: Option<i64>,
}

impl FunctionError {
    /// An error about the whole call.
    pub fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            argument: None,
        }
    }

    /// An error about one argument, from 0.
    pub fn argument(argument: i64, text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            argument: Some(argument),
        }
    }
}

/// A function: the same arguments give the same result, and nothing else happens.
#[async_trait]
pub trait Function: Send + Sync + 'static {
    /// What it takes and gives.
    fn signature(&self) -> Signature;
    /// Calls it: one value for each parameter, then those of the variadic one.
    ///
    /// # Errors
    /// Why there is no result.
    async fn call(&self, call: &Call, arguments: Vec<Value>) -> Result<Value, FunctionError>;
}

/// A request to open an ephemeral resource.
#[derive(Clone, Debug, Default)]
pub struct OpenRequest {
    /// The configuration, wholly known.
    pub config: Value,
}

/// An open ephemeral resource.
#[derive(Clone, Debug, Default)]
pub struct OpenResponse {
    /// The result, which agrees with the configuration as a plan does.
    pub result: Value,
    /// Handed to renew and close.
    pub private: Option<Vec<u8>>,
    /// When to renew it; never, where there is none.
    pub renew_at: Option<SystemTime>,
    /// Set to defer the answer.
    pub deferred: Option<DeferReason>,
    /// Errors leave it closed.
    pub diagnostics: Diagnostics,
}

/// A request to keep an ephemeral resource open.
#[derive(Clone, Debug, Default)]
pub struct RenewRequest {
    /// What open, or the last renew, gave.
    pub private: Option<Vec<u8>>,
}

/// A renewed ephemeral resource.
#[derive(Clone, Debug, Default)]
pub struct RenewResponse {
    /// Handed to the next renew and to close.
    pub private: Option<Vec<u8>>,
    /// When to renew it again.
    pub renew_at: Option<SystemTime>,
    /// What to tell the user.
    pub diagnostics: Diagnostics,
}

/// A request to close an ephemeral resource.
#[derive(Clone, Debug, Default)]
pub struct CloseRequest {
    /// What open, or the last renew, gave.
    pub private: Option<Vec<u8>>,
}

/// A resource that lives as long as a run and is in no state.
#[async_trait]
pub trait EphemeralResource: Send + Sync + 'static {
    /// Its schema.
    fn schema(&self) -> Schema;
    /// Checks a configuration, which may hold unknowns.
    async fn validate(&self, call: &Call, config: Value) -> Diagnostics;
    /// Opens it.
    async fn open(&self, call: &Call, request: OpenRequest) -> OpenResponse;
    /// Keeps it open. Only called where `renew_at` was given.
    async fn renew(&self, _call: &Call, request: RenewRequest) -> RenewResponse {
        RenewResponse {
            private: request.private,
            ..RenewResponse::default()
        }
    }
    /// Closes it.
    async fn close(&self, call: &Call, request: CloseRequest) -> Diagnostics;
}

/// Where a handler puts what it produces, one by one.
#[derive(Debug)]
pub struct Events<T>(mpsc::Sender<T>);

impl<T> Events<T> {
    /// Events and where they come out, `buffer` of them at most waiting in between.
    pub fn channel(buffer: usize) -> (Self, mpsc::Receiver<T>) {
        let (sender, receiver) = mpsc::channel(buffer.max(1));
        (Self(sender), receiver)
    }

    /// Gives one away and waits until there is room for the next. `false` when no more are wanted:
    /// the limit is reached, or the host is not listening any more.
    pub async fn send(&self, event: T) -> bool {
        self.0.send(event).await.is_ok()
    }
}

/// A request to list.
#[derive(Clone, Debug, Default)]
pub struct ListRequest {
    /// The configuration of the `list` block.
    pub config: Value,
    /// Whether events must carry the resource's state.
    pub include_resource: bool,
    /// No more than this many are wanted; 0 is no limit. The server cuts off what is beyond.
    pub limit: i64,
}

/// One thing that was found.
#[derive(Clone, Debug, Default)]
pub struct ListEvent {
    /// Its identity: needed, unless the event holds diagnostics only.
    pub identity: Option<Value>,
    /// What to call it.
    pub display_name: String,
    /// Its state under the managed resource's schema, where that was asked for.
    pub resource: Option<Value>,
    /// What to tell the user about it.
    pub diagnostics: Diagnostics,
}

/// A request to check a `list` block.
#[derive(Clone, Debug, Default)]
pub struct ValidateListRequest {
    /// The configuration of the `list` block.
    pub config: Value,
    /// Whether the state is asked for; may be null or unknown.
    pub include_resource: Value,
    /// The limit; may be null or unknown.
    pub limit: Value,
}

/// A list of existing objects of one managed resource type, whether a state holds them or not
/// (Terraform 1.14+).
#[async_trait]
pub trait ListResource: Send + Sync + 'static {
    /// The schema of the `list` block's `config`.
    fn schema(&self) -> Schema;
    /// Checks a configuration, which may hold unknowns.
    async fn validate(&self, call: &Call, request: ValidateListRequest) -> Diagnostics;
    /// Lists. The diagnostics come after the last event.
    async fn list(&self, call: &Call, request: ListRequest, events: Events<ListEvent>) -> Diagnostics;
}

/// Whether an action can go ahead.
#[derive(Clone, Debug, Default)]
pub struct PlanActionResponse {
    /// Set to defer the action.
    pub deferred: Option<DeferReason>,
    /// Errors stop the plan.
    pub diagnostics: Diagnostics,
}

/// Something to do that leaves no state (Terraform 1.14+).
#[async_trait]
pub trait Action: Send + Sync + 'static {
    /// Its schema.
    fn schema(&self) -> Schema;
    /// Checks a configuration, which may hold unknowns.
    async fn validate(&self, call: &Call, config: Value) -> Diagnostics;
    /// Says whether it can go ahead, without doing anything.
    async fn plan(&self, _call: &Call, _config: Value) -> PlanActionResponse {
        PlanActionResponse::default()
    }
    /// Does it. Each event is a line of progress that the user sees.
    async fn invoke(&self, call: &Call, config: Value, progress: Events<String>) -> Diagnostics;
}

/// A request to configure a state store.
#[derive(Clone, Debug, Default)]
pub struct ConfigureStoreRequest {
    /// The configuration of the `state_store` block.
    pub config: Value,
    /// The size in bytes in which the host would like states to travel.
    pub chunk_size: i64,
}

/// A configured state store.
#[derive(Clone, Debug, Default)]
pub struct ConfigureStoreResponse {
    /// The size in bytes in which states will travel; 0 takes the host's.
    pub chunk_size: i64,
    /// What to tell the user.
    pub diagnostics: Diagnostics,
}

/// Keeps states (experimental in Terraform 1.15). States come and go whole: the server cuts them
/// into chunks and puts them together again.
#[async_trait]
pub trait StateStore: Send + Sync + 'static {
    /// The schema of the `state_store` block.
    fn schema(&self) -> Schema;
    /// Checks a configuration, which may hold unknowns.
    async fn validate(&self, call: &Call, config: Value) -> Diagnostics;
    /// Takes a configuration over.
    async fn configure(&self, call: &Call, request: ConfigureStoreRequest) -> ConfigureStoreResponse;
    /// Reads a state; empty where there is none.
    ///
    /// # Errors
    /// What the user is told where it cannot be read.
    async fn read(&self, call: &Call, state_id: String) -> Result<Vec<u8>, Diagnostics>;
    /// Writes a state, whole or not at all.
    async fn write(&self, call: &Call, state_id: String, state: Vec<u8>) -> Diagnostics;
    /// Locks a state for an operation and gives the lock's id.
    ///
    /// # Errors
    /// What the user is told where it is locked already.
    async fn lock(&self, call: &Call, state_id: String, operation: String) -> Result<String, Diagnostics>;
    /// Unlocks it.
    async fn unlock(&self, call: &Call, state_id: String, lock_id: String) -> Diagnostics;
    /// The ids of all states.
    ///
    /// # Errors
    /// What the user is told where they cannot be listed.
    async fn list(&self, call: &Call) -> Result<Vec<String>, Diagnostics>;
    /// Deletes a state.
    async fn delete(&self, call: &Call, state_id: String) -> Diagnostics;
}

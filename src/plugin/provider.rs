//! The traits a provider implements, one for each kind of thing it can offer.
//!
//! Must not know the wire: every request and response is made of [`Value`]s and [`Diagnostics`].
//! Invariant: a handler is a future that the server drops when the host gives the call up, so a
//! handler that is cancelled just stops at its next await; [`Call::cancelled`] tells it beforehand,
//! when the host asks everything in flight to come to an end.

mod call;
mod more;
mod raw_state;
mod resource;

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;

use crate::plugin::diagnostics::Diagnostics;
use crate::plugin::schema::Schema;
use crate::plugin::value::Value;

pub use call::{Call, ClientCapabilities};
pub use more::{
    Action, CloseRequest, ConfigureStoreRequest, ConfigureStoreResponse, DataSource, EphemeralResource,
    Events, Function, FunctionError, ListEvent, ListRequest, ListResource, OpenRequest, OpenResponse,
    PlanActionResponse, ReadDataRequest, ReadDataResponse, RenewRequest, RenewResponse, StateStore,
    ValidateListRequest,
};
pub use raw_state::{RawState, StateDecoder};
pub use resource::{
    ApplyRequest, ApplyResponse, DeferReason, ImportRequest, ImportResponse, ImportTarget, Imported,
    MoveRequest, MoveResponse, PlanRequest, PlanResponse, ReadRequest, ReadResponse, Resource,
    UpgradeIdentityRequest, UpgradeRequest,
};

/// Things by the name that configurations use.
pub type Named<T> = BTreeMap<String, Arc<T>>;

/// What a provider can do beyond the calls every provider answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerCapabilities {
    /// Whether `plan` is called for a destroy too (with null as the proposed state).
    pub plan_destroy: bool,
    /// Whether [`Resource::move_state`] does anything.
    pub move_resource_state: bool,
    /// Whether [`Resource::generate_config`] does anything.
    pub generate_resource_config: bool,
}

/// A request to configure the provider.
#[derive(Clone, Debug, Default)]
pub struct ConfigureRequest {
    /// The version of the host program.
    pub terraform_version: String,
    /// The configuration; while planning it may hold unknowns.
    pub config: Value,
}

/// A provider. The server asks for schemas and for what the provider offers once, when it starts.
#[async_trait]
pub trait Provider: Send + Sync + 'static {
    /// The schema of the `provider` block.
    fn schema(&self) -> Schema;

    /// The schema of `provider_meta` blocks. Hosts may always send null for it: never require one.
    fn meta_schema(&self) -> Option<Schema> {
        None
    }

    /// What it can do beyond the calls every provider answers.
    fn capabilities(&self) -> ServerCapabilities {
        ServerCapabilities::default()
    }

    /// The managed resource types.
    fn resources(&self) -> Named<dyn Resource> {
        Named::new()
    }

    /// The data sources.
    fn data_sources(&self) -> Named<dyn DataSource> {
        Named::new()
    }

    /// The functions.
    fn functions(&self) -> Named<dyn Function> {
        Named::new()
    }

    /// The ephemeral resource types.
    fn ephemeral_resources(&self) -> Named<dyn EphemeralResource> {
        Named::new()
    }

    /// The list resource types, each of the name of a managed one that has an identity.
    fn list_resources(&self) -> Named<dyn ListResource> {
        Named::new()
    }

    /// The actions.
    fn actions(&self) -> Named<dyn Action> {
        Named::new()
    }

    /// The state stores.
    fn state_stores(&self) -> Named<dyn StateStore> {
        Named::new()
    }

    /// Checks the configuration, which may hold unknowns, without reaching out to anything.
    async fn validate(&self, call: &Call, config: Value) -> Diagnostics;

    /// Takes the configuration over. It can be called again in the same process.
    async fn configure(&self, call: &Call, request: ConfigureRequest) -> Diagnostics;
}

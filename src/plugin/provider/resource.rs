//! Managed resources: the trait, its requests and responses.
//!
//! Must not know the wire. Invariant: every request's value conforms to the schema; every response's
//! value must, and the server refuses one that does not with a diagnostic that names the place.

use async_trait::async_trait;

use super::{Call, RawState};
use crate::plugin::diagnostics::{Diagnostic, Diagnostics, Path};
use crate::plugin::schema::{IdentitySchema, Schema};
use crate::plugin::value::Value;

/// Why a response is deferred to a later run. Only where the host allows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeferReason {
    /// The resource's configuration is not known enough.
    ResourceConfigUnknown,
    /// The provider's configuration is not known enough.
    ProviderConfigUnknown,
    /// Something it stands on is not there yet.
    AbsentPrerequisite,
}

/// A request to bring a stored state to the current schema.
#[derive(Clone, Debug, Default)]
pub struct UpgradeRequest {
    /// The schema version it was stored under: the current one or an older one.
    pub version: i64,
    /// The state.
    pub state: RawState,
}

/// A request to bring a stored identity to the current schema.
#[derive(Clone, Debug, Default)]
pub struct UpgradeIdentityRequest {
    /// The identity schema version it was stored under.
    pub version: i64,
    /// The identity.
    pub identity: RawState,
}

/// A request to read what the state stands for.
#[derive(Clone, Debug, Default)]
pub struct ReadRequest {
    /// The state.
    pub state: Value,
    /// The provider's own data beside the state.
    pub private: Vec<u8>,
    /// The identity, where one is stored.
    pub identity: Option<Value>,
    /// The module's `provider_meta`, mostly null.
    pub provider_meta: Value,
}

/// What was read.
#[derive(Clone, Debug, Default)]
pub struct ReadResponse {
    /// The state; null where there is nothing any more.
    pub state: Value,
    /// Replaces the stored private data: give the request's back to keep it.
    pub private: Vec<u8>,
    /// The identity.
    pub identity: Option<Value>,
    /// Set to defer the answer.
    pub deferred: Option<DeferReason>,
    /// Errors keep the stored state.
    pub diagnostics: Diagnostics,
}

/// A request to plan.
#[derive(Clone, Debug, Default)]
pub struct PlanRequest {
    /// The state; null for a create.
    pub prior: Value,
    /// The configuration merged with the state, as the host proposes; null for a destroy.
    pub proposed: Value,
    /// The configuration; null for a destroy.
    pub config: Value,
    /// Private data of the state, or of the first plan where a replacement is planned a second time.
    pub private: Vec<u8>,
    /// Private data that the plan before the apply returned (Terraform 1.16+, else empty).
    pub planned_private: Vec<u8>,
    /// The identity, where one is stored.
    pub identity: Option<Value>,
    /// The module's `provider_meta`, mostly null.
    pub provider_meta: Value,
}

/// What is planned.
#[derive(Clone, Debug, Default)]
pub struct PlanResponse {
    /// The state after the apply, unknown where it cannot be known yet.
    pub planned: Value,
    /// The places whose change needs a new object.
    pub requires_replace: Vec<Path>,
    /// Handed to the apply.
    pub private: Vec<u8>,
    /// The identity after the apply; may be unknown on create and replacement only.
    pub identity: Option<Value>,
    /// Set to defer the change.
    pub deferred: Option<DeferReason>,
    /// Errors stop the plan.
    pub diagnostics: Diagnostics,
}

/// A request to make the plan come true.
#[derive(Clone, Debug, Default)]
pub struct ApplyRequest {
    /// The state; null for a create.
    pub prior: Value,
    /// What was planned; null for a destroy.
    pub planned: Value,
    /// The configuration, write-only values included; null for a destroy.
    pub config: Value,
    /// Private data of the plan.
    pub private: Vec<u8>,
    /// The planned identity.
    pub identity: Option<Value>,
    /// The module's `provider_meta`, mostly null.
    pub provider_meta: Value,
}

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ApplyResponse {
    /// The state now: whatever exists, beside an error too. Unknowns in it become null where there
    /// is an error.
    pub state: Value,
    /// Replaces the stored private data.
    pub private: Vec<u8>,
    /// The identity.
    pub identity: Option<Value>,
    /// With an error, a created object is saved as tainted.
    pub diagnostics: Diagnostics,
}

/// What to import.
#[derive(Clone, Debug, PartialEq)]
pub enum ImportTarget {
    /// By the text that the user gave.
    Id(String),
    /// By identity.
    Identity(Value),
}

/// A request to import.
#[derive(Clone, Debug, PartialEq)]
pub struct ImportRequest {
    /// What to import.
    pub id: ImportTarget,
}

/// What to read next. Where `imported` holds a state of the type that was asked for, the host goes
/// on with a read of it.
#[derive(Clone, Debug, Default)]
pub struct ImportResponse {
    /// What was found. Hosts use one.
    pub imported: Vec<Imported>,
    /// Set to defer the import.
    pub deferred: Option<DeferReason>,
    /// Errors stop the import.
    pub diagnostics: Diagnostics,
}

/// One imported object.
#[derive(Clone, Debug, Default)]
pub struct Imported {
    /// Its resource type; empty means the one that was asked for.
    pub type_name: String,
    /// Enough of its state to read it, never null.
    pub state: Value,
    /// Private data.
    pub private: Vec<u8>,
    /// Its identity.
    pub identity: Option<Value>,
}

/// A request to take over the state of another resource type (a `moved` block).
#[derive(Clone, Debug, Default)]
pub struct MoveRequest {
    /// The address of the provider that wrote it.
    pub source_provider_address: String,
    /// Its resource type.
    pub source_type_name: String,
    /// The schema version it was stored under.
    pub source_schema_version: i64,
    /// The state.
    pub source_state: RawState,
    /// Its private data.
    pub source_private: Vec<u8>,
    /// Its identity, where one was stored.
    pub source_identity: Option<RawState>,
    /// The identity schema version it was stored under. Hosts leave this 0.
    pub source_identity_schema_version: i64,
}

/// What was taken over.
#[derive(Clone, Debug, Default)]
pub struct MoveResponse {
    /// The state under this type's schema.
    pub state: Value,
    /// Private data.
    pub private: Vec<u8>,
    /// Its identity.
    pub identity: Option<Value>,
    /// Errors stop the move.
    pub diagnostics: Diagnostics,
}

/// A managed resource type.
#[async_trait]
pub trait Resource: Send + Sync + 'static {
    /// Its schema.
    fn schema(&self) -> Schema;

    /// Its identity, where it has one.
    fn identity(&self) -> Option<IdentitySchema> {
        None
    }

    /// Checks a configuration, which may hold unknowns, without reaching out to anything. The host
    /// says here whether it can do write-only attributes.
    async fn validate(&self, call: &Call, config: Value) -> Diagnostics;

    /// Brings a stored state to the current schema. Hosts call this for every state they read, also
    /// where the versions are equal.
    ///
    /// # Errors
    /// What the user is told where the state cannot be brought over.
    async fn upgrade(&self, call: &Call, request: UpgradeRequest) -> Result<Value, Diagnostics>;

    /// Brings a stored identity to the current schema. Hosts call this where the versions differ.
    ///
    /// # Errors
    /// What the user is told where the identity cannot be brought over.
    async fn upgrade_identity(
        &self,
        _call: &Call,
        request: UpgradeIdentityRequest,
    ) -> Result<Value, Diagnostics> {
        Err(Diagnostic::error("The stored identity is of another version").detail(format!(
            "Version {} of the identity cannot be read by this version of the provider. Use the version that wrote it.",
            request.version
        ))
        .into())
    }

    /// Reads what the state stands for. Changes nothing.
    async fn read(&self, call: &Call, request: ReadRequest) -> ReadResponse;

    /// Plans a create, an update, or (where the provider asked for it) a destroy.
    async fn plan(&self, call: &Call, request: PlanRequest) -> PlanResponse;

    /// Creates, updates or destroys.
    async fn apply(&self, call: &Call, request: ApplyRequest) -> ApplyResponse;

    /// Starts an import.
    async fn import(&self, _call: &Call, _request: ImportRequest) -> ImportResponse {
        let error = Diagnostic::error("This resource type cannot be imported")
            .detail("The provider has no import for it; create it anew instead.");
        ImportResponse {
            diagnostics: error.into(),
            ..ImportResponse::default()
        }
    }

    /// Takes over the state of another resource type.
    async fn move_state(&self, _call: &Call, request: MoveRequest) -> MoveResponse {
        let error = Diagnostic::error("A resource of another type cannot be moved here").detail(format!(
            "The provider does not know how to take over {:?} of provider {:?}. Remove the moved block, and import the object instead.",
            request.source_type_name, request.source_provider_address
        ));
        MoveResponse {
            diagnostics: error.into(),
            ..MoveResponse::default()
        }
    }

    /// Gives the configuration that would make the state.
    ///
    /// # Errors
    /// What the user is told where there is no such configuration.
    async fn generate_config(&self, _call: &Call, _state: Value) -> Result<Value, Diagnostics> {
        Err(
            Diagnostic::error("No configuration can be generated for this resource type")
                .detail("The provider has no generator for it; write the configuration by hand.")
                .into(),
        )
    }
}

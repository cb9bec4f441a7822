//! The calls on managed resources.
//!
//! Must not know gRPC. Invariant: an error in reading a request or writing an answer becomes a
//! diagnostic with its place; after an apply, whatever state there is reaches the host beside it.

use super::catalogue::{Catalogue, ResourceEntry};
use crate::plugin::codec::layout::Layout;
use crate::plugin::convert::{self, received, sent};
use crate::plugin::diagnostics::{Diagnostic, Diagnostics};
use crate::plugin::generated::tfplugin6::{self as wire, *};
use crate::plugin::provider::{
    ApplyRequest, ApplyResponse, Call, ImportRequest, ImportTarget, Imported, MoveRequest, PlanRequest,
    ReadRequest, UpgradeIdentityRequest, UpgradeRequest,
};
use crate::plugin::value::Value;

const CONFIG: &str = "The configuration";
const STATE: &str = "The stored state";
const PRIOR: &str = "The prior state";
const PLANNED: &str = "The planned state";

/// The module's `provider_meta`. One that does not fit is no reason to fail: hosts may send anything.
fn meta(catalogue: &Catalogue, value: Option<wire::DynamicValue>) -> Value {
    let layout = catalogue.meta.as_ref();
    layout
        .and_then(|layout| received(layout, value, "provider_meta").ok())
        .unwrap_or_default()
}

pub(super) async fn validate(
    catalogue: &Catalogue,
    call: &Call,
    request: validate_resource_config::Request,
) -> Result<validate_resource_config::Response, Diagnostics> {
    let entry = catalogue.resource(&request.type_name)?;
    let config = received(&entry.layout, request.config, CONFIG)?;
    let diagnostics = entry.handler.validate(call, config).await;
    Ok(validate_resource_config::Response {
        diagnostics: convert::diagnostics(diagnostics),
    })
}

pub(super) async fn upgrade(
    catalogue: &Catalogue,
    call: &Call,
    request: upgrade_resource_state::Request,
) -> Result<upgrade_resource_state::Response, Diagnostics> {
    let entry = catalogue.resource(&request.type_name)?;
    let state = convert::raw_state(request.raw_state);
    let state = entry
        .handler
        .upgrade(
            call,
            UpgradeRequest {
                version: request.version,
                state,
            },
        )
        .await?;
    let upgraded_state = Some(sent(&entry.layout, state, "an upgraded state")?);
    Ok(upgrade_resource_state::Response {
        upgraded_state,
        diagnostics: Vec::new(),
    })
}

pub(super) async fn upgrade_identity(
    catalogue: &Catalogue,
    call: &Call,
    request: upgrade_resource_identity::Request,
) -> Result<upgrade_resource_identity::Response, Diagnostics> {
    let entry = catalogue.resource(&request.type_name)?;
    let identity = convert::raw_state(request.raw_identity);
    let request = UpgradeIdentityRequest {
        version: request.version,
        identity,
    };
    let identity = entry.handler.upgrade_identity(call, request).await?;
    let upgraded_identity = convert::sent_identity(entry.identity.as_ref(), Some(identity))?;
    Ok(upgrade_resource_identity::Response {
        upgraded_identity,
        diagnostics: Vec::new(),
    })
}

pub(super) async fn read(
    catalogue: &Catalogue,
    call: &Call,
    request: read_resource::Request,
) -> Result<read_resource::Response, Diagnostics> {
    let entry = catalogue.resource(&request.type_name)?;
    let request = ReadRequest {
        state: received(&entry.layout, request.current_state, STATE)?,
        private: request.private.into(),
        identity: convert::received_identity(entry.identity.as_ref(), request.current_identity)?,
        provider_meta: meta(catalogue, request.provider_meta),
    };
    let response = entry.handler.read(call, request).await;
    if response.diagnostics.has_errors() {
        // The host keeps the stored state; whatever came beside the error is of no use.
        return Err(response.diagnostics);
    }
    Ok(read_resource::Response {
        new_state: Some(sent(&entry.layout, response.state, "a state")?),
        diagnostics: convert::diagnostics(response.diagnostics),
        private: response.private.into(),
        deferred: convert::deferred(response.deferred),
        new_identity: convert::sent_identity(entry.identity.as_ref(), response.identity)?,
    })
}

pub(super) async fn plan(
    catalogue: &Catalogue,
    call: &Call,
    request: plan_resource_change::Request,
) -> Result<plan_resource_change::Response, Diagnostics> {
    let entry = catalogue.resource(&request.type_name)?;
    let request = PlanRequest {
        prior: received(&entry.layout, request.prior_state, PRIOR)?,
        proposed: received(&entry.layout, request.proposed_new_state, "The proposed state")?,
        config: received(&entry.layout, request.config, CONFIG)?,
        private: request.prior_private.into(),
        planned_private: request.planned_private.into(),
        identity: convert::received_identity(entry.identity.as_ref(), request.prior_identity)?,
        provider_meta: meta(catalogue, request.provider_meta),
    };
    let response = entry.handler.plan(call, request).await;
    if response.diagnostics.has_errors() {
        return Err(response.diagnostics);
    }
    Ok(plan_resource_change::Response {
        planned_state: Some(sent(&entry.layout, response.planned, "a planned state")?),
        requires_replace: response.requires_replace.into_iter().map(convert::path).collect(),
        planned_private: response.private.into(),
        diagnostics: convert::diagnostics(response.diagnostics),
        // The rules of the current type system hold: a plan that breaks them is an error.
        legacy_type_system: false,
        deferred: convert::deferred(response.deferred),
        planned_identity: convert::sent_identity(entry.identity.as_ref(), response.identity)?,
    })
}

pub(super) async fn apply(
    catalogue: &Catalogue,
    call: &Call,
    request: apply_resource_change::Request,
) -> Result<apply_resource_change::Response, Diagnostics> {
    let entry = catalogue.resource(&request.type_name)?;
    let request = ApplyRequest {
        prior: received(&entry.layout, request.prior_state, PRIOR)?,
        planned: received(&entry.layout, request.planned_state, PLANNED)?,
        config: received(&entry.layout, request.config, CONFIG)?,
        private: request.planned_private.into(),
        identity: convert::received_identity(entry.identity.as_ref(), request.planned_identity)?,
        provider_meta: meta(catalogue, request.provider_meta),
    };
    let response = entry.handler.apply(call, request).await;
    Ok(applied(entry, response))
}

/// The answer after a panic: the last checkpoint, or else the prior state as it came.
pub(super) fn apply_panicked(
    catalogue: Option<&Catalogue>,
    call: &Call,
    type_name: &str,
    prior: Option<wire::DynamicValue>,
    prior_private: bytes::Bytes,
    error: Diagnostic,
) -> apply_resource_change::Response {
    let entry = catalogue.and_then(|catalogue| catalogue.resource(type_name).ok());
    match (entry, call.take_checkpoint()) {
        (Some(entry), Some(mut checkpoint)) => {
            checkpoint.diagnostics.push(error);
            applied(entry, checkpoint)
        }
        _ => apply_failed(prior, prior_private, error.into()),
    }
}

/// The answer where the handler was not reached, or gave nothing: everything stays as it was.
pub(super) fn apply_failed(
    prior: Option<wire::DynamicValue>,
    prior_private: bytes::Bytes,
    diagnostics: Diagnostics,
) -> apply_resource_change::Response {
    apply_resource_change::Response {
        new_state: prior,
        private: prior_private,
        diagnostics: convert::diagnostics(diagnostics),
        ..Default::default()
    }
}

fn applied(entry: &ResourceEntry, response: ApplyResponse) -> apply_resource_change::Response {
    let mut diagnostics = response.diagnostics;
    let (mut state, mut identity) = (response.state, response.identity);
    if diagnostics.has_errors() {
        // Beside an error, an unknown would only add "provider returned an unknown value".
        state = state.unknowns_to_null();
        identity = identity.filter(Value::is_wholly_known);
    }
    let new_state = sent(&entry.layout, state.clone(), "a state").or_else(|error| {
        diagnostics.extend(error);
        sent(&entry.layout, salvage(&entry.layout, state), "a state")
    });
    let new_state = new_state.map_err(|error| diagnostics.extend(error)).ok();
    let new_identity = convert::sent_identity(entry.identity.as_ref(), identity);
    let new_identity = new_identity
        .map_err(|error| diagnostics.extend(error))
        .ok()
        .flatten();
    apply_resource_change::Response {
        new_state,
        private: response.private.into(),
        diagnostics: convert::diagnostics(diagnostics),
        legacy_type_system: false,
        new_identity,
    }
}

/// What can be kept of a state that does not fit the schema: losing one attribute is better than
/// losing the object, which exists.
fn salvage(layout: &Layout, state: Value) -> Value {
    let Value::Map(mut entries) = state.unknowns_to_null() else {
        return Value::Null;
    };
    let crate::plugin::types::Type::Object(attributes, _) = layout.ty() else {
        return Value::Null;
    };
    entries.retain(|name, value| {
        attributes.contains_key(name) && {
            let alone = Value::object([(name.clone(), value.clone())]);
            sent(layout, alone, "a state").is_ok()
        }
    });
    Value::Map(entries)
}

pub(super) async fn import(
    catalogue: &Catalogue,
    call: &Call,
    request: import_resource_state::Request,
) -> Result<import_resource_state::Response, Diagnostics> {
    let entry = catalogue.resource(&request.type_name)?;
    let by_identity = request.identity.is_some() && request.id.is_empty();
    let id = match convert::received_identity(entry.identity.as_ref(), request.identity)? {
        Some(identity) if by_identity => ImportTarget::Identity(identity),
        None if by_identity => {
            return Err(
                Diagnostic::error(format!("{:?} cannot be imported by identity", request.type_name))
                    .detail("Its identity is empty or it has none: give an id instead.")
                    .into(),
            );
        }
        _ => ImportTarget::Id(request.id),
    };
    let response = entry.handler.import(call, ImportRequest { id }).await;
    if response.diagnostics.has_errors() {
        return Err(response.diagnostics);
    }
    let imported = response
        .imported
        .into_iter()
        .map(|imported| stub(catalogue, &request.type_name, imported));
    Ok(import_resource_state::Response {
        imported_resources: imported.collect::<Result<_, _>>()?,
        diagnostics: convert::diagnostics(response.diagnostics),
        deferred: convert::deferred(response.deferred),
    })
}

fn stub(
    catalogue: &Catalogue,
    requested: &str,
    imported: Imported,
) -> Result<import_resource_state::ImportedResource, Diagnostics> {
    let type_name = if imported.type_name.is_empty() {
        requested.to_owned()
    } else {
        imported.type_name
    };
    let entry = catalogue.resource(&type_name)?;
    Ok(import_resource_state::ImportedResource {
        state: Some(sent(&entry.layout, imported.state, "an imported state")?),
        private: imported.private.into(),
        identity: convert::sent_identity(entry.identity.as_ref(), imported.identity)?,
        type_name,
    })
}

pub(super) async fn move_state(
    catalogue: &Catalogue,
    call: &Call,
    request: move_resource_state::Request,
) -> Result<move_resource_state::Response, Diagnostics> {
    let entry = catalogue.resource(&request.target_type_name)?;
    let source_identity = request
        .source_identity
        .map(|identity| convert::raw_state(Some(identity)));
    let request = MoveRequest {
        source_provider_address: request.source_provider_address,
        source_type_name: request.source_type_name,
        source_schema_version: request.source_schema_version,
        source_state: convert::raw_state(request.source_state),
        source_private: request.source_private.into(),
        source_identity: source_identity.filter(|identity| identity.json.is_some()),
        source_identity_schema_version: request.source_identity_schema_version,
    };
    let response = entry.handler.move_state(call, request).await;
    if response.diagnostics.has_errors() {
        return Err(response.diagnostics);
    }
    Ok(move_resource_state::Response {
        target_state: Some(sent(&entry.layout, response.state, "a moved state")?),
        diagnostics: convert::diagnostics(response.diagnostics),
        target_private: response.private.into(),
        target_identity: convert::sent_identity(entry.identity.as_ref(), response.identity)?,
    })
}

pub(super) async fn generate_config(
    catalogue: &Catalogue,
    call: &Call,
    request: generate_resource_config::Request,
) -> Result<generate_resource_config::Response, Diagnostics> {
    let entry = catalogue.resource(&request.type_name)?;
    let state = received(&entry.layout, request.state, "The state")?;
    let config = entry.handler.generate_config(call, state).await?;
    let config = Some(sent(&entry.layout, config, "a configuration")?);
    Ok(generate_resource_config::Response {
        config,
        diagnostics: Vec::new(),
    })
}

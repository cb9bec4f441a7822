//! Between this module's own types and the messages of the protocol.
//!
//! Must not know what any call does. Invariant: what a message requires of the sender is filled in
//! here (a severity that is 1 or 2, a block in every schema), so that no caller can forget it.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::plugin::codec::json::{self, Fit};
use crate::plugin::codec::layout::Layout;
use crate::plugin::codec::{msgpack, type_json};
use crate::plugin::diagnostics::{Diagnostic, Diagnostics, Path, Severity, Step};
use crate::plugin::generated::tfplugin6 as wire;
use crate::plugin::provider::{ClientCapabilities, DeferReason, RawState, ServerCapabilities};
use crate::plugin::schema::{
    Attribute, Block, IdentitySchema, NestedBlock, NestedObject, Nesting, ObjectNesting, Parameter, Presence,
    Schema, Shape, Signature,
};
use crate::plugin::types::Type;
use crate::plugin::value::Value;

pub(crate) fn schema(schema: &Schema) -> wire::Schema {
    wire::Schema {
        version: schema.version,
        block: Some(block(&schema.block)),
    }
}

const MARKDOWN: i32 = wire::StringKind::Markdown as i32;

fn block(block: &Block) -> wire::schema::Block {
    wire::schema::Block {
        version: 0,
        attributes: block.attributes.iter().map(attribute).collect(),
        block_types: block.blocks.iter().map(nested_block).collect(),
        description: block.description.clone(),
        description_kind: MARKDOWN,
        deprecated: block.deprecated.is_some(),
        deprecation_message: block.deprecated.clone().unwrap_or_default(),
        computed: block.computed,
    }
}

fn attribute(attribute: &Attribute) -> wire::schema::Attribute {
    let (ty, nested_type) = match &attribute.shape {
        Shape::Plain(ty) => (type_json::encode(ty).into(), None),
        Shape::Nested(nested) => (bytes::Bytes::new(), Some(object(nested))),
    };
    wire::schema::Attribute {
        name: attribute.name.clone(),
        r#type: ty,
        nested_type,
        description: attribute.description.clone(),
        required: attribute.presence == Presence::Required,
        optional: matches!(
            attribute.presence,
            Presence::Optional | Presence::OptionalComputed
        ),
        computed: attribute.presence.is_computed(),
        sensitive: attribute.sensitive,
        description_kind: MARKDOWN,
        deprecated: attribute.deprecated.is_some(),
        write_only: attribute.write_only,
        deprecation_message: attribute.deprecated.clone().unwrap_or_default(),
    }
}

fn object(nested: &NestedObject) -> wire::schema::Object {
    use wire::schema::object::NestingMode;
    let nesting = match nested.nesting {
        ObjectNesting::Single => NestingMode::Single,
        ObjectNesting::List => NestingMode::List,
        ObjectNesting::Set => NestingMode::Set,
        ObjectNesting::Map => NestingMode::Map,
    };
    wire::schema::Object {
        attributes: nested.attributes.iter().map(attribute).collect(),
        nesting: nesting.into(),
        ..Default::default()
    }
}

fn nested_block(nested: &NestedBlock) -> wire::schema::NestedBlock {
    use wire::schema::nested_block::NestingMode;
    let nesting = match nested.nesting {
        Nesting::Single => NestingMode::Single,
        Nesting::Group => NestingMode::Group,
        Nesting::List => NestingMode::List,
        Nesting::Set => NestingMode::Set,
        Nesting::Map => NestingMode::Map,
    };
    wire::schema::NestedBlock {
        type_name: nested.name.clone(),
        block: Some(block(&nested.block)),
        nesting: nesting.into(),
        min_items: nested.min,
        max_items: nested.max,
    }
}

pub(crate) fn identity_schema(schema: &IdentitySchema) -> wire::ResourceIdentitySchema {
    let attributes =
        schema
            .attributes
            .iter()
            .map(|attribute| wire::resource_identity_schema::IdentityAttribute {
                name: attribute.name.clone(),
                r#type: type_json::encode(&attribute.ty).into(),
                required_for_import: attribute.required_for_import,
                optional_for_import: !attribute.required_for_import,
                description: attribute.description.clone(),
            });
    wire::ResourceIdentitySchema {
        version: schema.version,
        identity_attributes: attributes.collect(),
    }
}

pub(crate) fn function(signature: &Signature) -> wire::Function {
    wire::Function {
        parameters: signature.parameters.iter().map(parameter).collect(),
        variadic_parameter: signature.variadic.as_ref().map(parameter),
        r#return: Some(wire::function::Return {
            r#type: type_json::encode(&signature.returns).into(),
        }),
        summary: signature.summary.clone(),
        description: signature.description.clone(),
        description_kind: MARKDOWN,
        deprecation_message: signature.deprecated.clone().unwrap_or_default(),
    }
}

fn parameter(parameter: &Parameter) -> wire::function::Parameter {
    wire::function::Parameter {
        name: parameter.name.clone(),
        r#type: type_json::encode(&parameter.ty).into(),
        allow_null_value: parameter.allow_null,
        allow_unknown_values: parameter.allow_unknown,
        description: parameter.description.clone(),
        description_kind: MARKDOWN,
    }
}

pub(crate) fn server_capabilities(capabilities: ServerCapabilities) -> wire::ServerCapabilities {
    wire::ServerCapabilities {
        plan_destroy: capabilities.plan_destroy,
        // No handler depends on the schema having been asked for, so hosts may keep it.
        get_provider_schema_optional: true,
        move_resource_state: capabilities.move_resource_state,
        generate_resource_config: capabilities.generate_resource_config,
    }
}

pub(crate) fn client_capabilities(capabilities: Option<wire::ClientCapabilities>) -> ClientCapabilities {
    let capabilities = capabilities.unwrap_or_default();
    ClientCapabilities {
        deferral_allowed: capabilities.deferral_allowed,
        write_only_attributes_allowed: capabilities.write_only_attributes_allowed,
        store_planned_private: capabilities.store_planned_private,
        computed_blocks_allowed: capabilities.computed_blocks_allowed,
    }
}

pub(crate) fn deferred(reason: Option<DeferReason>) -> Option<wire::Deferred> {
    use wire::deferred::Reason;
    let reason = match reason? {
        DeferReason::ResourceConfigUnknown => Reason::ResourceConfigUnknown,
        DeferReason::ProviderConfigUnknown => Reason::ProviderConfigUnknown,
        DeferReason::AbsentPrerequisite => Reason::AbsentPrereq,
    };
    Some(wire::Deferred {
        reason: reason.into(),
    })
}

pub(crate) fn diagnostics(diagnostics: Diagnostics) -> Vec<wire::Diagnostic> {
    diagnostics.into_iter().map(diagnostic).collect()
}

fn diagnostic(diagnostic: Diagnostic) -> wire::Diagnostic {
    let severity = match diagnostic.severity {
        Severity::Error => wire::diagnostic::Severity::Error,
        Severity::Warning => wire::diagnostic::Severity::Warning,
    };
    wire::Diagnostic {
        severity: severity.into(),
        summary: diagnostic.summary,
        detail: diagnostic.detail,
        attribute: diagnostic.path.filter(|path| !path.is_root()).map(path),
    }
}

pub(crate) fn path(path: Path) -> wire::AttributePath {
    use wire::attribute_path::step::Selector;
    let steps = path.0.into_iter().map(|step| {
        let selector = match step {
            Step::Attribute(name) => Selector::AttributeName(name),
            Step::Key(key) => Selector::ElementKeyString(key),
            Step::Index(index) => Selector::ElementKeyInt(index),
        };
        wire::attribute_path::Step {
            selector: Some(selector),
        }
    });
    wire::AttributePath {
        steps: steps.collect(),
    }
}

pub(crate) fn raw_state(state: Option<wire::RawState>) -> RawState {
    let state = state.unwrap_or_default();
    RawState {
        json: (!state.json.is_empty()).then(|| state.json.into()),
        flatmap: state.flatmap.into_iter().collect(),
    }
}

pub(crate) fn timestamp(time: SystemTime) -> prost_types::Timestamp {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    prost_types::Timestamp {
        seconds: i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
        nanos: i32::try_from(since.subsec_nanos()).unwrap_or(0),
    }
}

/// Reads a value of a type. One that is absent or empty is null.
pub(crate) fn received_as(
    ty: &Type,
    value: Option<wire::DynamicValue>,
    what: &str,
) -> Result<Value, Diagnostics> {
    let value = value.unwrap_or_default();
    let read = if !value.msgpack.is_empty() {
        msgpack::decode(&value.msgpack, ty)
    } else if !value.json.is_empty() {
        json::decode(&value.json, ty, Fit::Exact)
    } else {
        Ok(Value::Null)
    };
    read.map_err(|error| error.received(what).into())
}

/// Reads a value of a schema.
pub(crate) fn received(
    layout: &Layout,
    value: Option<wire::DynamicValue>,
    what: &str,
) -> Result<Value, Diagnostics> {
    received_as(layout.ty(), value, what).map(|value| layout.received(value))
}

/// Writes a value of a type.
pub(crate) fn sent_as(ty: &Type, value: &Value, what: &str) -> Result<wire::DynamicValue, Diagnostics> {
    let bytes = msgpack::encode(value, ty).map_err(|error| error.returned(what))?;
    Ok(wire::DynamicValue {
        msgpack: bytes.into(),
        json: bytes::Bytes::new(),
    })
}

/// Writes a value of a schema.
pub(crate) fn sent(layout: &Layout, value: Value, what: &str) -> Result<wire::DynamicValue, Diagnostics> {
    let value = layout.sent(value).map_err(|error| error.returned(what))?;
    sent_as(layout.ty(), &value, what)
}

/// Reads an identity, where there is one and the resource type has identities.
pub(crate) fn received_identity(
    layout: Option<&Layout>,
    identity: Option<wire::ResourceIdentityData>,
) -> Result<Option<Value>, Diagnostics> {
    let (Some(layout), Some(data)) = (layout, identity.and_then(|identity| identity.identity_data)) else {
        return Ok(None);
    };
    let value = received(layout, Some(data), "The stored identity")?;
    Ok((!value.is_null()).then_some(value))
}

/// Writes an identity. For a resource type without identities none is sent: hosts crash on one.
pub(crate) fn sent_identity(
    layout: Option<&Layout>,
    identity: Option<Value>,
) -> Result<Option<wire::ResourceIdentityData>, Diagnostics> {
    let (Some(layout), Some(value)) = (layout, identity.filter(|identity| !identity.is_null())) else {
        return Ok(None);
    };
    let data = sent(layout, value, "an identity")?;
    Ok(Some(wire::ResourceIdentityData {
        identity_data: Some(data),
    }))
}

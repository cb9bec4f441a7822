//! What the provider says of itself: metadata, schemas, identity schemas, functions.
//!
//! Must not know any call that does something. Invariant: the answers depend on nothing but the
//! provider's code, and are the same bytes every time.

use crate::plugin::convert;
use crate::plugin::generated::tfplugin6::{
    ActionSchema, get_functions, get_metadata, get_provider_schema, get_resource_identity_schemas,
};
use crate::plugin::provider::Provider;

pub(super) fn metadata(provider: &dyn Provider) -> get_metadata::Response {
    use get_metadata::*;
    Response {
        server_capabilities: Some(convert::server_capabilities(provider.capabilities())),
        diagnostics: Vec::new(),
        data_sources: provider
            .data_sources()
            .into_keys()
            .map(|type_name| DataSourceMetadata { type_name })
            .collect(),
        resources: provider
            .resources()
            .into_keys()
            .map(|type_name| ResourceMetadata { type_name })
            .collect(),
        functions: provider
            .functions()
            .into_keys()
            .map(|name| FunctionMetadata { name })
            .collect(),
        ephemeral_resources: provider
            .ephemeral_resources()
            .into_keys()
            .map(|type_name| EphemeralMetadata { type_name })
            .collect(),
        list_resources: provider
            .list_resources()
            .into_keys()
            .map(|type_name| ListResourceMetadata { type_name })
            .collect(),
        state_stores: provider
            .state_stores()
            .into_keys()
            .map(|type_name| StateStoreMetadata { type_name })
            .collect(),
        actions: provider
            .actions()
            .into_keys()
            .map(|type_name| ActionMetadata { type_name })
            .collect(),
    }
}

pub(super) fn schemas(provider: &dyn Provider) -> get_provider_schema::Response {
    get_provider_schema::Response {
        provider: Some(convert::schema(&provider.schema())),
        provider_meta: provider.meta_schema().as_ref().map(convert::schema),
        server_capabilities: Some(convert::server_capabilities(provider.capabilities())),
        diagnostics: Vec::new(),
        resource_schemas: provider
            .resources()
            .into_iter()
            .map(|(name, handler)| (name, convert::schema(&handler.schema())))
            .collect(),
        data_source_schemas: provider
            .data_sources()
            .into_iter()
            .map(|(name, handler)| (name, convert::schema(&handler.schema())))
            .collect(),
        functions: functions(provider).functions,
        ephemeral_resource_schemas: provider
            .ephemeral_resources()
            .into_iter()
            .map(|(name, handler)| (name, convert::schema(&handler.schema())))
            .collect(),
        list_resource_schemas: provider
            .list_resources()
            .into_iter()
            .map(|(name, handler)| (name, convert::schema(&handler.schema())))
            .collect(),
        state_store_schemas: provider
            .state_stores()
            .into_iter()
            .map(|(name, handler)| (name, convert::schema(&handler.schema())))
            .collect(),
        action_schemas: provider
            .actions()
            .into_iter()
            .map(|(name, handler)| {
                (
                    name,
                    ActionSchema {
                        schema: Some(convert::schema(&handler.schema())),
                    },
                )
            })
            .collect(),
    }
}

pub(super) fn identities(provider: &dyn Provider) -> get_resource_identity_schemas::Response {
    let identities = provider.resources().into_iter().filter_map(|(name, handler)| {
        let identity = handler.identity()?;
        Some((name, convert::identity_schema(&identity)))
    });
    get_resource_identity_schemas::Response {
        identity_schemas: identities.collect(),
        diagnostics: Vec::new(),
    }
}

pub(super) fn functions(provider: &dyn Provider) -> get_functions::Response {
    let functions = provider
        .functions()
        .into_iter()
        .map(|(name, handler)| (name, convert::function(&handler.signature())));
    get_functions::Response {
        functions: functions.collect(),
        diagnostics: Vec::new(),
    }
}

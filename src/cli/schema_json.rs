//! `schema`: the provider's schema in the form of `terraform providers schema -json`.
//!
//! Must not know what a schema describes. Invariant: whatever reads the output of that command,
//! reads this.

use std::sync::Arc;

use serde_json::{Map, Value as Json, json};

use super::SOURCE_ADDRESS;
use crate::config::Environment;
use crate::contract::observe::Unmetered;
use crate::plugin::provider::Provider as _;
use crate::plugin::schema::{Attribute, Block, NestedBlock, Nesting, ObjectNesting, Presence, Schema, Shape};
use crate::plugin::types::Type;
use crate::terraform::EgressProvider;

/// The document.
pub(super) fn document() -> String {
    let provider = EgressProvider::new(Environment::OfProcess, Arc::new(Unmetered));
    let resources = provider.resources();
    let identities: Map<_, _> = resources
        .iter()
        .filter_map(|(name, resource)| {
            let identity = resource.identity()?;
            let attributes: Map<_, _> = identity
                .attributes
                .iter()
                .map(|attribute| {
                    let needed = if attribute.required_for_import {
                        "required_for_import"
                    } else {
                        "optional_for_import"
                    };
                    let described = json!({
                        "type": type_json(&attribute.ty),
                        "description": attribute.description,
                        needed: true,
                    });
                    (attribute.name.clone(), described)
                })
                .collect();
            Some((
                name.clone(),
                json!({ "version": identity.version, "attributes": attributes }),
            ))
        })
        .collect();
    let resources: Map<_, _> = resources
        .iter()
        .map(|(name, resource)| (name.clone(), schema_json(&resource.schema())))
        .collect();
    let data_sources: Map<_, _> = provider
        .data_sources()
        .iter()
        .map(|(name, source)| (name.clone(), schema_json(&source.schema())))
        .collect();
    let lists: Map<_, _> = provider
        .list_resources()
        .iter()
        .map(|(name, list)| (name.clone(), schema_json(&list.schema())))
        .collect();
    let actions: Map<_, _> = provider
        .actions()
        .iter()
        .map(|(name, action)| {
            (
                name.clone(),
                json!({ "block": block_json(&action.schema().block) }),
            )
        })
        .collect();
    let schemas = json!({
        "provider": schema_json(&provider.schema()),
        "resource_schemas": resources,
        "data_source_schemas": data_sources,
        "resource_identity_schemas": identities,
        "list_resource_schemas": lists,
        "action_schemas": actions,
    });
    let address = format!("registry.terraform.io/{SOURCE_ADDRESS}");
    format!(
        "{:#}",
        json!({ "format_version": "1.0", "provider_schemas": { address: schemas } })
    )
}

fn schema_json(schema: &Schema) -> Json {
    json!({ "version": schema.version, "block": block_json(&schema.block) })
}

fn block_json(block: &Block) -> Json {
    let mut json = described(&block.description);
    if !block.attributes.is_empty() {
        json.insert("attributes".into(), attributes_json(&block.attributes));
    }
    if !block.blocks.is_empty() {
        let blocks: Map<_, _> = block
            .blocks
            .iter()
            .map(|nested| (nested.name.clone(), nested_json(nested)))
            .collect();
        json.insert("block_types".into(), blocks.into());
    }
    if block.deprecated.is_some() {
        json.insert("deprecated".into(), true.into());
    }
    json.into()
}

fn described(description: &str) -> Map<String, Json> {
    let mut json = Map::new();
    if !description.is_empty() {
        json.insert("description".into(), description.into());
        json.insert("description_kind".into(), "markdown".into());
    }
    json
}

fn attributes_json(attributes: &[Attribute]) -> Json {
    let attributes = attributes
        .iter()
        .map(|attribute| (attribute.name.clone(), attribute_json(attribute)));
    Json::Object(attributes.collect())
}

fn attribute_json(attribute: &Attribute) -> Json {
    let mut json = described(&attribute.description);
    match &attribute.shape {
        Shape::Plain(ty) => json.insert("type".into(), type_json(ty)),
        Shape::Nested(object) => {
            let nesting = match object.nesting {
                ObjectNesting::Single => "single",
                ObjectNesting::List => "list",
                ObjectNesting::Set => "set",
                ObjectNesting::Map => "map",
            };
            let nested =
                json!({ "attributes": attributes_json(&object.attributes), "nesting_mode": nesting });
            json.insert("nested_type".into(), nested)
        }
    };
    let flags = match attribute.presence {
        Presence::Required => [Some("required"), None],
        Presence::Optional => [Some("optional"), None],
        Presence::Computed => [Some("computed"), None],
        Presence::OptionalComputed => [Some("optional"), Some("computed")],
    };
    let more = [
        attribute.sensitive.then_some("sensitive"),
        attribute.write_only.then_some("write_only"),
        attribute.deprecated.as_ref().map(|_| "deprecated"),
    ];
    for flag in flags.into_iter().chain(more).flatten() {
        json.insert(flag.into(), true.into());
    }
    json.into()
}

fn nested_json(nested: &NestedBlock) -> Json {
    let nesting = match nested.nesting {
        Nesting::Single => "single",
        Nesting::Group => "group",
        Nesting::List => "list",
        Nesting::Set => "set",
        Nesting::Map => "map",
    };
    let mut json = Map::from_iter([
        ("nesting_mode".to_owned(), nesting.into()),
        ("block".to_owned(), block_json(&nested.block)),
    ]);
    for (name, bound) in [("min_items", nested.min), ("max_items", nested.max)] {
        if bound != 0 {
            json.insert(name.into(), bound.into());
        }
    }
    json.into()
}

fn type_json(ty: &Type) -> Json {
    match ty {
        Type::Bool => "bool".into(),
        Type::Number => "number".into(),
        Type::String => "string".into(),
        Type::Dynamic => "dynamic".into(),
        Type::List(element) => json!(["list", type_json(element)]),
        Type::Set(element) => json!(["set", type_json(element)]),
        Type::Map(element) => json!(["map", type_json(element)]),
        Type::Tuple(elements) => json!(["tuple", elements.iter().map(type_json).collect::<Vec<_>>()]),
        Type::Object(attributes, _) => {
            let attributes = attributes.iter().map(|(name, ty)| (name.clone(), type_json(ty)));
            json!(["object", Json::Object(attributes.collect())])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_is_where_tools_look_for_it() {
        let document: Json = serde_json::from_str(&document()).expect("JSON");
        let provider = &document["provider_schemas"]["registry.terraform.io/egress-proxies/egress"];
        assert_eq!(
            provider["provider"]["block"]["block_types"]["backend"]["nesting_mode"],
            "map"
        );
        let proxy = &provider["resource_schemas"]["egress_proxy"]["block"];
        assert_eq!(proxy["attributes"]["name"]["required"], true);
        assert_eq!(
            proxy["block_types"]["access"]["block"]["attributes"]["password_wo"]["write_only"],
            true
        );
        assert_eq!(proxy["attributes"]["labels"]["type"], json!(["map", "string"]));
        assert!(provider["data_source_schemas"]["egress_proxies"].is_object());
        let identity = &provider["resource_identity_schemas"]["egress_proxy"]["attributes"];
        assert_eq!(identity["key"]["required_for_import"], true);
    }
}

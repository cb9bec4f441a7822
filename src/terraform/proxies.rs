//! The data source `egress_proxies`: every instance of the installation, in a state or not.
//!
//! Must not know any backend. Invariant: what could not be listed is named, so that a partial
//! listing never looks whole.

use std::sync::Arc;

use async_trait::async_trait;

use super::egress_proxy::{instance_attributes, instance_value};
use super::listing::{self, Missing};
use super::provider::Sessions;
use super::provider_health::{asked, check_backend, failed};
use super::proxy_list::{check_namespace, told};
use crate::contract::ListFilter;
use crate::plugin::diagnostics::{Diagnostic, Diagnostics};
use crate::plugin::provider::{Call, DataSource, ReadDataRequest, ReadDataResponse};
use crate::plugin::schema::{Attribute, Block, Schema};
use crate::plugin::types::Type;
use crate::plugin::value::Value;

const BACKEND: &str = "backend";
const NAMESPACE: &str = "namespace";

/// The data source.
#[derive(Debug)]
pub(crate) struct Proxies {
    sessions: Arc<Sessions>,
}

impl Proxies {
    pub(crate) fn new(sessions: Arc<Sessions>) -> Self {
        Self { sessions }
    }
}

fn schema() -> Schema {
    let unreadable = Type::object([
        (BACKEND, Type::String),
        ("scope", Type::String),
        ("message", Type::String),
    ]);
    Schema::new(
        Block::new()
            .describe("Every proxy of the installation, whether a state holds it or not.")
            .attributes([
                Attribute::string(BACKEND).describe("Only this backend. Default: all."),
                Attribute::string(NAMESPACE).describe("Only this namespace. Default: all."),
                Attribute::list("proxies", Type::object(instance_attributes()))
                    .computed()
                    .describe("The proxies, ordered by id."),
                Attribute::list("unreadable", unreadable)
                    .computed()
                    .describe("What could not be listed. Empty: `proxies` is complete."),
            ]),
    )
}

fn unreadable(part: &Missing<'_>) -> Value {
    Value::object([
        (BACKEND, Value::from(part.open.name.as_str())),
        ("scope", part.scope().into()),
        ("message", part.message.clone().into()),
    ])
}

#[async_trait]
impl DataSource for Proxies {
    fn schema(&self) -> Schema {
        schema()
    }

    async fn validate(&self, _call: &Call, config: Value) -> Diagnostics {
        let mut problems = check_backend(&config);
        problems.extend(check_namespace(&config));
        problems
    }

    async fn read(&self, call: &Call, request: ReadDataRequest) -> ReadDataResponse {
        let session = match self.sessions.current() {
            Ok(session) => session,
            Err(error) => return failed(error),
        };
        let installation = match session.owner() {
            Ok(installation) => installation,
            Err(error) => return failed(error),
        };
        let backends = match asked(&session, &request.config) {
            Ok(backends) => backends,
            Err(problems) => return failed(problems),
        };
        let namespace = request.config.get(NAMESPACE);
        let filter = ListFilter {
            installation,
            namespace: namespace.as_str().and_then(|name| name.parse().ok()),
        };
        let inventory = listing::of_all(&backends, &filter, call.token()).await;
        if inventory.is_nothing(backends.len()) {
            return failed(told(&inventory.missing));
        }
        let mut proxies: Vec<_> = inventory
            .instances
            .iter()
            .map(|seen| instance_value(&seen.instance, &seen.open.name))
            .collect();
        let missing: Vec<_> = inventory.missing.iter().map(unreadable).collect();
        let mut diagnostics = Diagnostics::new();
        if !missing.is_empty() {
            diagnostics.push(Diagnostic::warning("The listing of proxies is partial").detail(
                "What could not be listed is in the attribute unreadable; the proxies there are not in this result.",
            ));
        }
        proxies.sort_by(|a, b| a.get("id").as_str().cmp(&b.get("id").as_str()));
        ReadDataResponse {
            state: Value::object([
                (BACKEND, request.config.get(BACKEND).clone()),
                (NAMESPACE, namespace.clone()),
                ("proxies", Value::List(proxies)),
                ("unreadable", Value::List(missing)),
            ]),
            diagnostics,
            ..ReadDataResponse::default()
        }
    }
}

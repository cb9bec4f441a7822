//! The list resource `egress_proxy`: the proxies of the installation for `terraform query`.
//!
//! Must not know any backend. Invariant: what could not be listed is a warning beside what was, and an
//! error where nothing could be.

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::stream::{FuturesUnordered, StreamExt as _};

use super::egress_proxy::written::imported;
use super::egress_proxy::{TYPE_NAME, identity_of};
use super::failure;
use super::listing::{self, Missing};
use super::provider::Sessions;
use super::provider_health::{asked, check_backend};
use crate::contract::{ListFilter, Namespace};
use crate::plugin::diagnostics::{Diagnostic, Diagnostics, Path};
use crate::plugin::provider::{Call, Events, ListEvent, ListRequest, ListResource, ValidateListRequest};
use crate::plugin::schema::{Attribute, Block, Schema};
use crate::plugin::value::Value;

const BACKEND: &str = "backend";
const NAMESPACE: &str = "namespace";

/// The list resource.
#[derive(Debug)]
pub(crate) struct ProxyList {
    sessions: Arc<Sessions>,
}

impl ProxyList {
    pub(crate) fn new(sessions: Arc<Sessions>) -> Self {
        Self { sessions }
    }
}

/// Checks the argument `namespace` of a listing.
pub(super) fn check_namespace(config: &Value) -> Diagnostics {
    match config.get(NAMESPACE).as_str().map(str::parse::<Namespace>) {
        Some(Err(error)) => Diagnostic::error("namespace cannot be used")
            .detail(failure::sentence(&error.to_string()))
            .at(Path::root().attribute(NAMESPACE))
            .into(),
        Some(Ok(_)) | None => Diagnostics::new(),
    }
}

/// Says what could not be listed: a part as a warning, a backend as an error.
pub(super) fn told(missing: &[Missing<'_>]) -> Diagnostics {
    let told = missing.iter().map(|part| {
        let name = part.open.name.as_str();
        let detail = failure::sentence(&part.message);
        match &part.scope {
            None => Diagnostic::error(format!("Backend {name:?} cannot be listed")).detail(detail),
            Some(scope) => {
                Diagnostic::warning(format!("Of backend {name:?}, {scope} cannot be listed")).detail(detail)
            }
        }
    });
    told.collect()
}

#[async_trait]
impl ListResource for ProxyList {
    fn schema(&self) -> Schema {
        Schema::new(
            Block::new()
                .describe("The proxies of the installation, whether a state holds them or not.")
                .attributes([
                    Attribute::string(BACKEND).describe("Only this backend. Default: all."),
                    Attribute::string(NAMESPACE).describe("Only this namespace. Default: all."),
                ]),
        )
    }

    async fn validate(&self, _call: &Call, request: ValidateListRequest) -> Diagnostics {
        let mut problems = check_backend(&request.config);
        problems.extend(check_namespace(&request.config));
        problems
    }

    async fn list(&self, call: &Call, request: ListRequest, events: Events<ListEvent>) -> Diagnostics {
        let session = match self.sessions.current() {
            Ok(session) => session,
            Err(error) => return error.into(),
        };
        let installation = match session.owner() {
            Ok(installation) => installation,
            Err(error) => return error.into(),
        };
        let backends = match asked(&session, &request.config) {
            Ok(backends) => backends,
            Err(problems) => return problems,
        };
        let filter = ListFilter {
            installation,
            namespace: request
                .config
                .get(NAMESPACE)
                .as_str()
                .and_then(|name| name.parse().ok()),
        };
        let mut missing = Vec::new();
        // What one backend holds goes out while the others are still asked.
        let mut inventories: FuturesUnordered<_> = backends
            .iter()
            .map(|open| listing::of_one(open, &filter, call.token()))
            .collect();
        while let Some(inventory) = inventories.next().await {
            missing.extend(inventory.missing);
            for seen in inventory.instances {
                let state = imported(&seen.instance, &seen.open.name);
                let event = ListEvent {
                    identity: identity_of(&state),
                    display_name: seen.id().to_string(),
                    resource: request.include_resource.then_some(state),
                    diagnostics: Diagnostics::new(),
                };
                if !events.send(event).await {
                    return Diagnostics::new();
                }
            }
        }
        told(&missing)
    }
}

/// The name of the list resource: that of the resource whose objects it lists.
pub(crate) const NAME: &str = TYPE_NAME;

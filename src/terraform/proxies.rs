//! The data source `egress_proxies`: every instance of the installation, in a state or not.
//!
//! Must not know any backend. Invariant: what could not be listed is named, so that a partial
//! listing never looks whole.

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::future::join_all;

use super::egress_proxy::{instance_attributes, instance_value};
use super::failure;
use super::lifecycle::Ended;
use super::provider::Sessions;
use super::provider_health::{asked, check_backend, failed};
use super::session::Open;
use crate::contract::{ListFilter, Listing, Namespace};
use crate::plugin::diagnostics::{Diagnostic, Diagnostics, Path, sentence};
use crate::plugin::provider::{Call, DataSource, ReadDataRequest, ReadDataResponse};
use crate::plugin::schema::{Attribute, Block, Schema};
use crate::plugin::types::Type;
use crate::plugin::value::Value;
use crate::transport::call::{Limits, retry};

const BACKEND: &str = "backend";
const NAMESPACE: &str = "namespace";
/// The longest the listing of a backend may take: as long as a read.
const BUDGET: std::time::Duration = std::time::Duration::from_secs(120);

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

fn unreadable(open: &Open, scope: &str, message: String) -> Value {
    Value::object([
        (BACKEND, Value::from(open.name.as_str())),
        ("scope", scope.into()),
        ("message", message.into()),
    ])
}

#[async_trait]
impl DataSource for Proxies {
    fn schema(&self) -> Schema {
        schema()
    }

    async fn validate(&self, _call: &Call, config: Value) -> Diagnostics {
        let mut problems = check_backend(&config);
        if let Some(Err(error)) = config.get(NAMESPACE).as_str().map(str::parse::<Namespace>) {
            let problem = Diagnostic::error("namespace cannot be used").detail(sentence(&error.to_string()));
            problems.push(problem.at(Path::root().attribute(NAMESPACE)));
        }
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
        let listings = backends.iter().map(|open| {
            let limits = Limits::new(BUDGET, call.token().clone());
            let filter = &filter;
            async move {
                let listing = retry(&limits, || open.backend.list_by_tag(filter)).await;
                (*open, listing.map_err(Ended::from))
            }
        });
        let mut proxies = Vec::new();
        let mut missing = Vec::new();
        let mut problems = Diagnostics::new();
        let listings = join_all(listings).await;
        let whole_backends = listings.len();
        let mut failures = 0;
        for (open, listing) in listings {
            match listing {
                Ok(Listing {
                    instances,
                    unreadable: parts,
                    ..
                }) => {
                    proxies.extend(
                        instances
                            .iter()
                            .map(|instance| instance_value(instance, &open.name)),
                    );
                    missing.extend(
                        parts
                            .iter()
                            .map(|part| unreadable(open, &part.scope, failure::chain(&part.error))),
                    );
                }
                Err(ended) => {
                    failures += 1;
                    let why = match ended {
                        Ended::Failed(error) | Ended::OutOfTime(Some(error)) => failure::chain(&error),
                        Ended::OutOfTime(None) => "it did not answer in time".to_owned(),
                        Ended::Stopped => "the listing was interrupted".to_owned(),
                    };
                    missing.push(unreadable(open, "everything", why.clone()));
                    problems.push(
                        Diagnostic::error(format!("Backend {:?} cannot be listed", open.name.as_str()))
                            .detail(failure::sentence(&why)),
                    );
                }
            }
        }
        if failures > 0 && failures == whole_backends {
            return failed(problems);
        }
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

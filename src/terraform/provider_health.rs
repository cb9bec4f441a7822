//! The data source `egress_provider_health`: one report for each target of each backend.
//!
//! Must not know any backend. Invariant: a target that is unhealthy is data, not an error.

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::future::join_all;

use super::provider::Sessions;
use super::session::{Open, Session};
use crate::contract::model::InvalidName;
use crate::contract::{BackendName, TargetHealth};
use crate::plugin::diagnostics::{Diagnostic, Diagnostics, Path, sentence};
use crate::plugin::provider::{Call, DataSource, ReadDataRequest, ReadDataResponse};
use crate::plugin::schema::{Attribute, Block, Schema};
use crate::plugin::types::Type;
use crate::plugin::value::Value;
use crate::transport::call::{Limits, bounded};

const BACKEND: &str = "backend";
/// The longest a whole check may take: as long as a read.
const BUDGET: std::time::Duration = std::time::Duration::from_secs(120);

/// The data source.
#[derive(Debug)]
pub(crate) struct ProviderHealth {
    sessions: Arc<Sessions>,
}

impl ProviderHealth {
    pub(crate) fn new(sessions: Arc<Sessions>) -> Self {
        Self { sessions }
    }
}

/// The backends a data source is about: the one it names, or all.
pub(super) fn asked<'s>(session: &'s Session, config: &Value) -> Result<Vec<&'s Open>, Diagnostics> {
    let at = |error: Diagnostic| error.at(Path::root().attribute(BACKEND));
    match config.get(BACKEND).as_str() {
        Some(name) => {
            let name: BackendName = name.parse().map_err(|error: InvalidName| {
                at(Diagnostic::error("backend cannot be used").detail(sentence(&error.to_string())))
            })?;
            Ok(vec![session.open(&name).map_err(at)?])
        }
        None => {
            let mut problems = Diagnostics::new();
            let mut backends = Vec::new();
            for open in session.all()? {
                match open {
                    Ok(open) => backends.push(open),
                    Err(problem) => problems.push(problem),
                }
            }
            problems.into_result()?;
            Ok(backends)
        }
    }
}

/// Checks the argument `backend` of a data source.
pub(super) fn check_backend(config: &Value) -> Diagnostics {
    match config.get(BACKEND).as_str().map(str::parse::<BackendName>) {
        Some(Err(error)) => Diagnostic::error("backend cannot be used")
            .detail(sentence(&error.to_string()))
            .at(Path::root().attribute(BACKEND))
            .into(),
        Some(Ok(_)) | None => Diagnostics::new(),
    }
}

fn schema() -> Schema {
    let target = Type::object([
        ("backend", Type::String),
        ("kind", Type::String),
        ("target", Type::String),
        ("healthy", Type::Bool),
        ("reason", Type::String),
        ("message", Type::String),
        ("latency_ms", Type::Number),
        ("details", Type::map(Type::String)),
    ]);
    Schema::new(
        Block::new()
            .describe("Whether the backends can be used. A target that cannot is data, not an error.")
            .attributes([
                Attribute::string(BACKEND).describe("Only this backend. Default: all."),
                Attribute::bool("healthy")
                    .computed()
                    .describe("Whether every target can be used."),
                Attribute::list("targets", target)
                    .computed()
                    .describe("One report for each target: a host, an API server, a project, this machine."),
            ]),
    )
}

/// The steps that a latency is rounded up to: with the milliseconds themselves, an output of the
/// reports would differ in every plan.
const LATENCIES_MS: [u64; 5] = [1_000, 3_000, 10_000, 30_000, 120_000];

fn rounded_ms(latency: std::time::Duration) -> u64 {
    let [.., longest] = LATENCIES_MS;
    LATENCIES_MS
        .into_iter()
        .find(|step| latency <= std::time::Duration::from_millis(*step))
        .unwrap_or(longest)
}

fn report(open: &Open, health: TargetHealth) -> Value {
    Value::object([
        ("backend", Value::from(open.name.as_str())),
        ("kind", open.backend.profile().kind.into()),
        ("healthy", health.healthy().into()),
        ("reason", health.reason.as_str().into()),
        ("latency_ms", rounded_ms(health.latency).into()),
        ("target", health.target.into()),
        ("message", health.message.into()),
        ("details", health.details.into()),
    ])
}

#[async_trait]
impl DataSource for ProviderHealth {
    fn schema(&self) -> Schema {
        schema()
    }

    async fn validate(&self, _call: &Call, config: Value) -> Diagnostics {
        check_backend(&config)
    }

    async fn read(&self, call: &Call, request: ReadDataRequest) -> ReadDataResponse {
        let session = match self.sessions.current() {
            Ok(session) => session,
            Err(error) => return failed(error),
        };
        let backends = match asked(&session, &request.config) {
            Ok(backends) => backends,
            Err(problems) => return failed(problems),
        };
        let checks = backends.iter().map(|open| async move {
            let reports = open.backend.check().await;
            reports
                .into_iter()
                .map(|health| report(open, health))
                .collect::<Vec<_>>()
        });
        let limits = Limits::new(BUDGET, call.token().clone());
        let reports = match bounded(&limits, join_all(checks)).await {
            Ok(reports) => reports.into_iter().flatten().collect::<Vec<_>>(),
            Err(interrupted) => {
                return failed(
                    Diagnostic::error("The health of the backends was not found out")
                        .detail(super::failure::sentence(&interrupted.to_string())),
                );
            }
        };
        let healthy = reports
            .iter()
            .all(|report| report.get("healthy").as_bool() == Some(true));
        ReadDataResponse {
            state: Value::object([
                (BACKEND, request.config.get(BACKEND).clone()),
                ("healthy", healthy.into()),
                ("targets", Value::List(reports)),
            ]),
            ..ReadDataResponse::default()
        }
    }
}

/// A read without a result.
pub(super) fn failed(problems: impl Into<Diagnostics>) -> ReadDataResponse {
    ReadDataResponse {
        diagnostics: problems.into(),
        ..ReadDataResponse::default()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_latency_is_rounded_up_so_that_it_settles() {
        for (latency, rounded) in [
            (Duration::ZERO, 1_000),
            (Duration::from_millis(7), 1_000),
            (Duration::from_millis(1_000), 1_000),
            (Duration::from_micros(1_000_001), 3_000),
            (Duration::from_secs(9), 10_000),
            (Duration::from_secs(11), 30_000),
            (BUDGET, 120_000),
            (Duration::MAX, 120_000),
        ] {
            assert_eq!(rounded_ms(latency), rounded, "{latency:?}");
        }
    }
}

//! `health`: asks every backend whether it can be used.
//!
//! Must not know any backend. Invariant: unhealthy (exit code 2) and not found out (1) are told apart.

use std::time::Duration;

use futures_util::future::join_all;

use super::{Configured, Exit, Output, Streams};
use crate::contract::{BackendName, TargetHealth};
use crate::plugin::diagnostics::{Diagnostic, Diagnostics, sentence};
use crate::registry;
use crate::transport::call::{Limits, bounded, within};

/// The longest the whole may take.
const BUDGET: Duration = Duration::from_secs(120);
/// Work that takes longer than this says what it is doing.
const PATIENCE: Duration = Duration::from_secs(1);

struct Report {
    backend: BackendName,
    kind: &'static str,
    health: TargetHealth,
}

pub(super) fn run(configured: &Configured, output: Output, streams: &mut Streams<'_>) -> Exit {
    let reports = match collect(configured, streams) {
        Ok(reports) => reports,
        Err(problems) => {
            streams.problems(&problems);
            return Exit::Error;
        }
    };
    let healthy = reports.iter().all(|report| report.health.healthy());
    streams.print(&match output {
        Output::Text => text(&reports),
        Output::Json => json(&reports, healthy),
    });
    if healthy { Exit::Done } else { Exit::Found }
}

fn collect(configured: &Configured, streams: &mut Streams<'_>) -> Result<Vec<Report>, Diagnostics> {
    let config = configured.read()?;
    streams.problems(&config.warnings);
    let only = match &configured.backend {
        Some(name) => Some(name.parse::<BackendName>().map_err(|error| {
            Diagnostics::from(
                Diagnostic::error("--backend cannot be used").detail(sentence(&error.to_string())),
            )
        })?),
        None => None,
    };
    let backends = config.backends.unwrap_or_default();
    let names: Vec<_> = backends.keys().map(BackendName::as_str).collect();
    if let Some(name) = only.as_ref().filter(|name| !backends.contains_key(name)) {
        return Err(
            Diagnostic::error(format!("Backend {:?} is not configured", name.as_str()))
                .detail(format!("The configuration has {}.", names.join(", ")))
                .into(),
        );
    }
    let runtime = crate::plugin::runtime().map_err(|error| {
        Diagnostics::from(Diagnostic::error("Threads cannot be started").detail(error.to_string()))
    })?;
    let reports = runtime.block_on(super::observed(async |meter| {
        let asked = backends
            .iter()
            .filter(|(name, _)| only.as_ref().is_none_or(|only| only == *name))
            // A file knows every value: nothing in it waits for an apply.
            .filter_map(|(name, configured)| Some((name, registry::open(name, configured, &meter).ok()?.0)));
        let checks = asked.map(|(name, backend)| async move {
            let reports = backend.check().await;
            let report = |health| Report {
                backend: name.clone(),
                kind: backend.profile().kind,
                health,
            };
            reports.into_iter().map(report).collect::<Vec<_>>()
        });
        let mut checks = Box::pin(join_all(checks));
        match within(PATIENCE, "the health checks", &mut checks).await {
            Ok(reports) => Ok(reports),
            Err(_slow) => {
                streams.remark(&format!("Asking {} …", names.join(", ")));
                bounded(&Limits::after(BUDGET), checks).await
            }
        }
    }));
    match reports {
        Ok(reports) => Ok(reports.into_iter().flatten().collect()),
        Err(interrupted) => Err(Diagnostic::error("The health was not found out")
            .detail(format!("{interrupted}."))
            .into()),
    }
}

fn text(reports: &[Report]) -> String {
    let lines = reports.iter().map(|report| {
        let health = &report.health;
        let details: String = health
            .details
            .iter()
            .map(|(key, value)| format!("\n    {key}: {value}"))
            .collect();
        format!(
            "{} ({}) {}: {} ({} ms)\n    {}{details}\n",
            report.backend,
            report.kind,
            health.target,
            health.reason.as_str(),
            health.latency.as_millis(),
            health.message,
        )
    });
    lines.collect()
}

fn json(reports: &[Report], healthy: bool) -> String {
    let targets: Vec<_> = reports
        .iter()
        .map(|report| {
            let health = &report.health;
            serde_json::json!({
                "backend": report.backend.as_str(),
                "kind": report.kind,
                "target": health.target,
                "healthy": health.healthy(),
                "reason": health.reason.as_str(),
                "message": health.message,
                "latency_ms": u64::try_from(health.latency.as_millis()).unwrap_or(u64::MAX),
                "details": health.details,
            })
        })
        .collect();
    format!(
        "{:#}",
        serde_json::json!({ "healthy": healthy, "targets": targets })
    )
}

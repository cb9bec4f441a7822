//! CPU and memory of a proxy's container.
//!
//! It must not know what a proxy needs. Invariant: a request is never more than its limit.

use super::super::quantity::Quantity;
use super::problem::{ConfigProblem, parsed};

/// What a proxy's container asks for, where the configuration says nothing.
const DEFAULT_CPU_REQUEST: &str = "50m";
const DEFAULT_MEMORY_REQUEST: &str = "128Mi";
const DEFAULT_MEMORY_LIMIT: &str = "512Mi";

/// What a proxy's container asks for, and the most it may take: quantities as the API writes them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::backend::kubernetes) struct Resources {
    pub(in crate::backend::kubernetes) cpu_request: String,
    pub(in crate::backend::kubernetes) memory_request: String,
    /// None unless configured: a CPU limit throttles, which is worse than sharing.
    pub(in crate::backend::kubernetes) cpu_limit: Option<String>,
    pub(in crate::backend::kubernetes) memory_limit: String,
}

/// From the arguments as they were written.
pub(super) fn resources(
    cpu_request: Option<&str>,
    memory_request: Option<&str>,
    cpu_limit: Option<&str>,
    memory_limit: Option<&str>,
    problems: &mut Vec<ConfigProblem>,
) -> Option<Resources> {
    let cpu = parsed::<Quantity>(
        "cpu_request",
        cpu_request.unwrap_or(DEFAULT_CPU_REQUEST),
        problems,
    );
    let before = problems.len();
    let cpu_limit = cpu_limit.and_then(|text| parsed::<Quantity>("cpu_limit", text, problems));
    // A limit below the default request means a smaller request, not a mistake.
    let limit = parsed::<Quantity>(
        "memory_limit",
        memory_limit.unwrap_or(DEFAULT_MEMORY_LIMIT),
        problems,
    );
    let request = parsed::<Quantity>(
        "memory_request",
        memory_request.unwrap_or(DEFAULT_MEMORY_REQUEST),
        problems,
    );
    if problems.len() > before {
        return None;
    }
    let (mut cpu, mut request, mut limit) = (cpu?, request?, limit?);
    if request > limit {
        match (memory_request, memory_limit) {
            (Some(_), Some(_)) => {
                problems.push(ConfigProblem::new(
                    "memory_request",
                    format!("{request} is more than memory_limit, {limit}"),
                ));
                return None;
            }
            (Some(_), None) => limit = request.clone(),
            (None, _) => request = limit.clone(),
        }
    }
    if let Some(limit) = &cpu_limit
        && cpu > *limit
    {
        if cpu_request.is_some() {
            problems.push(ConfigProblem::new(
                "cpu_request",
                format!("{cpu} is more than cpu_limit, {limit}"),
            ));
            return None;
        }
        cpu = limit.clone();
    }
    Some(Resources {
        cpu_request: cpu.to_string(),
        memory_request: request.to_string(),
        cpu_limit: cpu_limit.map(|limit| limit.to_string()),
        memory_limit: limit.to_string(),
    })
}

//! Check: whether proxies could be made on the cluster.
//!
//! It must not write. Invariants: it says how far it got; what is missing is named with the verb and
//! the resource that a Role must grant.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::join_all;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use k8s_openapi::api::core::v1::Namespace as KubeNamespace;
use kube::Api;
use kube::api::PostParams;

use super::classify::{Failure, is_not_found};
use super::config::{KubernetesConfig, Namespaces, ServiceKind};
use super::connect::Connection;
use crate::contract::{ErrorKind, HealthReason, TargetHealth};

/// What each question may take; a check is asked by somebody who waits.
const BUDGET: Duration = Duration::from_secs(20);
/// What a proxy takes, of Pods and, where there is one, of its Service.
const VERBS: [&str; 6] = ["get", "list", "watch", "create", "patch", "delete"];

/// One report: on the API server.
pub(super) async fn check(connection: &Connection, config: &KubernetesConfig) -> Vec<TargetHealth> {
    let begun = tokio::time::Instant::now();
    let mut details = BTreeMap::from([("namespace".to_owned(), config.namespace.to_string())]);
    let (reason, message) = match examine(connection, config, &mut details).await {
        Ok(()) => (
            HealthReason::Healthy,
            format!("proxies can be made in the namespace {}", config.namespace),
        ),
        Err(failure) => (
            failure.reason,
            match &failure.cause {
                Some(cause) => format!("{}: {cause}", failure.text),
                None => failure.text.clone(),
            },
        ),
    };
    vec![TargetHealth {
        target: details
            .get("server")
            .cloned()
            .unwrap_or_else(|| "the API server".to_owned()),
        reason,
        message,
        latency: begun.elapsed(),
        details,
    }]
}

async fn examine(
    connection: &Connection,
    config: &KubernetesConfig,
    details: &mut BTreeMap<String, String>,
) -> Result<(), Failure> {
    let endpoint = connection.known_endpoint().await?;
    details.insert("server".to_owned(), endpoint.server);
    if let Some(ca) = endpoint.ca_sha256 {
        details.insert("ca_sha256".to_owned(), ca);
    }
    let warnings = connection.warnings();
    if !warnings.is_empty() {
        details.insert("warnings".to_owned(), warnings.join(" "));
    }
    let version = connection
        .attempt("version.get", BUDGET, |client| async move {
            client.apiserver_version().await
        })
        .await?;
    details.insert("server_version".to_owned(), version.git_version);
    let exists = namespace(connection, config.namespace.as_str()).await?;
    details.insert(
        "namespace_exists".to_owned(),
        match exists {
            Some(true) => "true",
            Some(false) => "false",
            None => "not readable",
        }
        .to_owned(),
    );
    let missing = missing(connection, config, details).await?;
    if exists == Some(false) {
        return Err(Failure::new(
            ErrorKind::Permanent,
            HealthReason::ApiError,
            format!(
                "the namespace \"{}\" does not exist: create it, or name another one",
                config.namespace
            ),
        ));
    }
    if missing.is_empty() {
        return Ok(());
    }
    Err(Failure::new(
        ErrorKind::Permanent,
        HealthReason::Forbidden,
        format!(
            "it is not allowed to {}: grant it with a Role and a RoleBinding, as examples/kubernetes does",
            missing.join(", ")
        ),
    ))
}

/// Whether the namespace is there; `None` where that may not be asked.
async fn namespace(connection: &Connection, name: &str) -> Result<Option<bool>, Failure> {
    let asked = connection
        .attempt("namespaces.get", BUDGET, |client| async move {
            match Api::<KubeNamespace>::all(client).get(name).await {
                Ok(_) => Ok(true),
                Err(error) if is_not_found(&error, "namespaces", name) => Ok(false),
                Err(error) => Err(error),
            }
        })
        .await;
    match asked {
        Ok(exists) => Ok(Some(exists)),
        Err(failure) if failure.reason == HealthReason::Forbidden => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// What may not be done, such as `create pods in egress`; what may is noted in the details.
async fn missing(
    connection: &Connection,
    config: &KubernetesConfig,
    details: &mut BTreeMap<String, String>,
) -> Result<Vec<String>, Failure> {
    let own = config.namespace.as_str();
    let mut questions: Vec<(&'static str, &'static str, Option<&str>)> = Vec::new();
    questions.extend(VERBS.map(|verb| (verb, "pods", Some(own))));
    if config.service != ServiceKind::None {
        questions.extend(VERBS.map(|verb| (verb, "services", Some(own))));
    }
    let listed: Vec<Option<&str>> = match &config.namespaces {
        Namespaces::Own => Vec::new(),
        Namespaces::These(names) => {
            let others = names.iter().filter(|name| **name != config.namespace);
            others.map(|name| Some(name.as_str())).collect()
        }
        Namespaces::All => vec![None],
    };
    for namespace in listed {
        questions.push(("list", "pods", namespace));
        if config.service != ServiceKind::None {
            questions.push(("list", "services", namespace));
        }
    }
    let answers = join_all(
        questions
            .iter()
            .map(|(verb, resource, namespace)| allowed(connection, verb, resource, *namespace)),
    )
    .await;
    let mut missing = Vec::new();
    for ((verb, resource, namespace), answer) in questions.into_iter().zip(answers) {
        let is_allowed = answer?;
        let (key, place) = match namespace {
            Some(name) if name == own => (format!("can_{verb}_{resource}"), format!("in {name}")),
            Some(name) => (format!("can_{verb}_{resource}_in_{name}"), format!("in {name}")),
            None => (
                format!("can_{verb}_{resource}_in_all_namespaces"),
                "in all namespaces".to_owned(),
            ),
        };
        details.insert(key, is_allowed.to_string());
        if !is_allowed {
            missing.push(format!("{verb} {resource} {place}"));
        }
    }
    Ok(missing)
}

/// Whether we may: everybody who is known may ask.
async fn allowed(
    connection: &Connection,
    verb: &str,
    resource: &str,
    namespace: Option<&str>,
) -> Result<bool, Failure> {
    let review = SelfSubjectAccessReview {
        spec: SelfSubjectAccessReviewSpec {
            resource_attributes: Some(ResourceAttributes {
                verb: Some(verb.to_owned()),
                resource: Some(resource.to_owned()),
                namespace: namespace.map(str::to_owned),
                ..ResourceAttributes::default()
            }),
            non_resource_attributes: None,
        },
        ..SelfSubjectAccessReview::default()
    };
    let review = &review;
    let answer = connection
        .attempt("selfsubjectaccessreviews.create", BUDGET, |client| async move {
            Api::<SelfSubjectAccessReview>::all(client)
                .create(&PostParams::default(), review)
                .await
        })
        .await?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}

#[cfg(test)]
mod tests;

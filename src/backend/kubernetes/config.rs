//! The configuration of a kubernetes backend, validated.
//!
//! It must not know how the configuration was written down. Invariants: a [`KubernetesConfig`] can be
//! used as it is; making one reads no file and dials nothing, so whether its files exist is found out
//! by the first operation.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Toleration;

use super::access::{self, Access, GivenAccess};
use super::quantity::Quantity;
use crate::contract::Namespace;

mod toleration;

/// The image of a proxy's container where the configuration names none: Squid 6.6 on Ubuntu 24.04.
pub const DEFAULT_IMAGE: &str = "docker.io/ubuntu/squid:6.6-24.04_edge";
/// What a proxy's container asks for, where the configuration says nothing.
const DEFAULT_CPU_REQUEST: &str = "50m";
const DEFAULT_MEMORY_REQUEST: &str = "128Mi";
const DEFAULT_MEMORY_LIMIT: &str = "512Mi";
/// In `namespaces`: every namespace of the cluster.
const EVERY: &str = "*";

/// An argument of the block `kubernetes` that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{argument}: {message}")]
pub struct ConfigProblem {
    /// The argument; one of a nested block after the block's name and a dot.
    pub argument: &'static str,
    /// What is wrong, with the value and the way out.
    pub message: String,
}

impl ConfigProblem {
    pub(super) fn new(argument: &'static str, message: impl Into<String>) -> Self {
        Self {
            argument,
            message: message.into(),
        }
    }
}

/// The block as it was written: what was left out, or is not known yet, is `None`.
#[derive(Clone, Debug, Default)]
pub struct Given {
    /// How to reach the API server, and as whom.
    pub access: GivenAccess,
    /// The namespace of proxies that name none.
    pub namespace: Option<String>,
    /// The namespaces that are listed; `*` is all of them.
    pub namespaces: Option<Vec<String>>,
    /// The image of a proxy's container.
    pub image: Option<String>,
    /// When the image is pulled.
    pub image_pull_policy: Option<String>,
    /// The secrets to pull it with.
    pub image_pull_secrets: Vec<String>,
    /// Which Service a proxy gets.
    pub service: Option<String>,
    /// The annotations of that Service.
    pub service_annotations: BTreeMap<String, String>,
    /// CPU set aside for a proxy.
    pub cpu_request: Option<String>,
    /// Memory set aside for a proxy.
    pub memory_request: Option<String>,
    /// The most CPU a proxy may take.
    pub cpu_limit: Option<String>,
    /// The most memory a proxy may take.
    pub memory_limit: Option<String>,
    /// The service account of a proxy's Pod.
    pub service_account: Option<String>,
    /// The priority class of a proxy's Pod.
    pub priority_class: Option<String>,
    /// The taints that a proxy's Pod tolerates, `key[=value][:effect]`.
    pub tolerations: Vec<String>,
}

/// Which namespaces `list_by_tag` looks at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Namespaces {
    /// The backend's own.
    Own,
    /// These.
    These(Vec<Namespace>),
    /// All, which takes a ClusterRole.
    All,
}

/// Which Service a proxy gets beside its Pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ServiceKind {
    /// None: its address is the Pod's.
    #[default]
    None,
    /// An address within the cluster.
    ClusterIp,
    /// A port on every node.
    NodePort,
    /// A load balancer of the cluster's provider.
    LoadBalancer,
}

/// When a container's image is pulled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ImagePullPolicy {
    /// At every start.
    Always,
    /// Where the node does not have it.
    IfNotPresent,
    /// Never.
    Never,
}

impl ImagePullPolicy {
    /// The API's own word.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Always => "Always",
            Self::IfNotPresent => "IfNotPresent",
            Self::Never => "Never",
        }
    }
}

/// What a proxy's container asks for, and the most it may take: quantities as the API writes them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Resources {
    pub(super) cpu_request: String,
    pub(super) memory_request: String,
    /// None unless configured: a CPU limit throttles, which is worse than sharing.
    pub(super) cpu_limit: Option<String>,
    pub(super) memory_limit: String,
}

/// Where and how the proxies of a kubernetes backend run.
#[derive(Clone, Debug)]
pub struct KubernetesConfig {
    pub(super) access: Access,
    pub(super) namespace: Namespace,
    pub(super) namespaces: Namespaces,
    pub(super) image: String,
    pub(super) image_pull_policy: Option<ImagePullPolicy>,
    pub(super) image_pull_secrets: Vec<String>,
    pub(super) service: ServiceKind,
    pub(super) service_annotations: BTreeMap<String, String>,
    pub(super) resources: Resources,
    pub(super) service_account: Option<String>,
    pub(super) priority_class: Option<String>,
    pub(super) tolerations: Vec<Toleration>,
}

impl KubernetesConfig {
    /// From the block as it was written, in an environment of which `environment` gives the
    /// variables; an empty one counts as unset.
    ///
    /// # Errors
    /// Every problem at once.
    pub fn new(
        given: Given,
        environment: impl Fn(&str) -> Option<std::ffi::OsString>,
    ) -> Result<Self, Vec<ConfigProblem>> {
        let mut problems = Vec::new();
        let access = access::validate(given.access, environment, &mut problems);
        let namespace = given.namespace.map_or_else(
            || Some(Namespace::default()),
            |text| parsed("namespace", &text, &mut problems),
        );
        let namespaces = namespaces(given.namespaces, &mut problems);
        let image = given.image.unwrap_or_else(|| DEFAULT_IMAGE.to_owned());
        if let Err(message) = check_image(&image) {
            problems.push(ConfigProblem::new("image", message));
        }
        let image_pull_policy = given.image_pull_policy.and_then(|text| match text.as_str() {
            "Always" => Some(ImagePullPolicy::Always),
            "IfNotPresent" => Some(ImagePullPolicy::IfNotPresent),
            "Never" => Some(ImagePullPolicy::Never),
            other => {
                problems.push(ConfigProblem::new(
                    "image_pull_policy",
                    format!("{other:?} is none of \"Always\", \"IfNotPresent\" and \"Never\""),
                ));
                None
            }
        });
        let service = match given.service.as_deref() {
            None | Some("none") => ServiceKind::None,
            Some("ClusterIP") => ServiceKind::ClusterIp,
            Some("NodePort") => ServiceKind::NodePort,
            Some("LoadBalancer") => ServiceKind::LoadBalancer,
            Some(other) => {
                problems.push(ConfigProblem::new(
                    "service",
                    format!(
                        "{other:?} is none of \"none\", \"ClusterIP\", \"NodePort\" and \"LoadBalancer\""
                    ),
                ));
                ServiceKind::None
            }
        };
        if !given.service_annotations.is_empty() && given.service.as_deref().is_none_or(|kind| kind == "none")
        {
            problems.push(ConfigProblem::new(
                "service_annotations",
                "there is no Service to annotate: set service, or leave the annotations out",
            ));
        }
        for key in given.service_annotations.keys().filter(|key| is_ours(key)) {
            problems.push(ConfigProblem::new(
                "service_annotations",
                format!("{key:?} is one of the provider's own keys: choose another prefix"),
            ));
        }
        let resources = resources(
            given.cpu_request.as_deref(),
            given.memory_request.as_deref(),
            given.cpu_limit.as_deref(),
            given.memory_limit.as_deref(),
            &mut problems,
        );
        for name in &given.image_pull_secrets {
            check_object_name("image_pull_secrets", name, &mut problems);
        }
        if let Some(name) = &given.service_account {
            check_object_name("service_account", name, &mut problems);
        }
        if let Some(name) = &given.priority_class {
            check_object_name("priority_class", name, &mut problems);
        }
        let mut tolerations = Vec::new();
        for text in &given.tolerations {
            match toleration::parse(text) {
                Ok(toleration) => tolerations.push(toleration),
                Err(message) => problems.push(ConfigProblem::new("tolerations", message)),
            }
        }
        match (access, namespace, namespaces, resources) {
            (Some(access), Some(namespace), Some(namespaces), Some(resources)) if problems.is_empty() => {
                Ok(Self {
                    access,
                    namespace,
                    namespaces,
                    image,
                    image_pull_policy,
                    image_pull_secrets: given.image_pull_secrets,
                    service,
                    service_annotations: given.service_annotations,
                    resources,
                    service_account: given.service_account,
                    priority_class: given.priority_class,
                    tolerations,
                })
            }
            _ => Err(problems),
        }
    }

    /// The cluster and the namespace, as far as they are known without reading anything.
    #[must_use]
    pub fn place(&self) -> String {
        format!("{}, namespace {}", self.access.place(), self.namespace)
    }

    /// The namespace of a proxy that names none.
    #[must_use]
    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }
}

/// Whether a key of labels or annotations is one of ours.
pub(super) fn is_ours(key: &str) -> bool {
    key.starts_with("egress-proxy/")
}

fn parsed<T>(argument: &'static str, text: &str, problems: &mut Vec<ConfigProblem>) -> Option<T>
where
    T: std::str::FromStr,
    T::Err: std::fmt::Display,
{
    text.parse()
        .map_err(|error: T::Err| problems.push(ConfigProblem::new(argument, error.to_string())))
        .ok()
}

fn namespaces(given: Option<Vec<String>>, problems: &mut Vec<ConfigProblem>) -> Option<Namespaces> {
    let Some(given) = given else {
        return Some(Namespaces::Own);
    };
    if given.is_empty() {
        problems.push(ConfigProblem::new(
            "namespaces",
            format!(
                "it is empty: name the namespaces that hold proxies, or \"{EVERY}\" for all, or leave it out"
            ),
        ));
        return None;
    }
    if given.iter().any(|name| name == EVERY) {
        if given.len() > 1 {
            problems.push(ConfigProblem::new(
                "namespaces",
                format!("\"{EVERY}\" is all of them: leave the others out"),
            ));
            return None;
        }
        return Some(Namespaces::All);
    }
    let mut names: Vec<Namespace> = Vec::new();
    let before = problems.len();
    for text in &given {
        if let Some(name) = parsed("namespaces", text, problems)
            && !names.contains(&name)
        {
            names.push(name);
        }
    }
    (problems.len() == before).then_some(Namespaces::These(names))
}

/// A reference that a container runtime could resolve: no spaces, no scheme.
pub(super) fn check_image(image: &str) -> Result<(), String> {
    if image.is_empty() {
        return Err("it is empty: name an image, or leave it out".to_owned());
    }
    if image.contains("://") {
        return Err(format!(
            "{image:?} has a scheme: write only registry, name and tag"
        ));
    }
    if image.len() > 1024 || !image.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(format!(
            "{image:?} is no image reference, such as registry/squid:6"
        ));
    }
    Ok(())
}

fn check_object_name(argument: &'static str, name: &str, problems: &mut Vec<ConfigProblem>) {
    if !is_subdomain(name) {
        problems.push(ConfigProblem::new(
            argument,
            format!(
                "{name:?} is no name that an object can have: lower-case letters, digits, dashes and dots, letters or digits first and last"
            ),
        ));
    }
}

/// A DNS subdomain as RFC 1123 has it, which most object names are.
fn is_subdomain(name: &str) -> bool {
    let label = |label: &str| {
        let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
        edge(label.chars().next())
            && edge(label.chars().next_back())
            && label
                .chars()
                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
    };
    name.len() <= 253 && name.split('.').all(label)
}

fn resources(
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

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::contract::Secret;

    /// A valid configuration after `edit`: a host, a token, everything else left out.
    pub(in crate::backend::kubernetes) fn configured(edit: impl FnOnce(&mut Given)) -> KubernetesConfig {
        let mut given = given();
        edit(&mut given);
        KubernetesConfig::new(given, |_| None).expect("a valid configuration")
    }

    /// A valid configuration: a host, a token, everything else left out.
    pub(in crate::backend::kubernetes) fn config() -> KubernetesConfig {
        configured(|_| ())
    }

    fn given() -> Given {
        Given {
            access: GivenAccess {
                host: Some("https://127.0.0.1:6443".to_owned()),
                token: Some(Secret::new("abc")),
                ..GivenAccess::default()
            },
            ..Given::default()
        }
    }

    /// What is wrong with a configuration after `edit`, by argument.
    fn problems(edit: impl FnOnce(&mut Given)) -> Vec<(&'static str, String)> {
        let mut given = given();
        edit(&mut given);
        let problems = KubernetesConfig::new(given, |_| None).expect_err("something is wrong");
        problems
            .into_iter()
            .map(|problem| (problem.argument, problem.message))
            .collect()
    }

    #[test]
    fn what_is_left_out_has_its_default() {
        let config = config();
        assert_eq!(config.namespace.as_str(), "default");
        assert_eq!(config.namespaces, Namespaces::Own);
        assert_eq!(config.image, DEFAULT_IMAGE);
        assert_eq!(config.service, ServiceKind::None);
        assert_eq!(config.image_pull_policy, None);
        assert_eq!(config.resources.cpu_limit, None);
        assert_eq!(config.resources.memory_limit, "512Mi");
    }

    #[test]
    fn every_problem_is_told_at_once() {
        let found = problems(|given| {
            given.namespace = Some("Not A Name".to_owned());
            given.namespaces = Some(vec![]);
            given.image = Some("https://registry/squid".to_owned());
            given.image_pull_policy = Some("Sometimes".to_owned());
            given.image_pull_secrets = vec!["-".to_owned()];
            given.service = Some("clusterip".to_owned());
            given.cpu_request = Some("fast".to_owned());
            given.memory_limit = Some("1MB".to_owned());
            given.service_account = Some("A".to_owned());
            given.priority_class = Some(String::new());
            given.tolerations = vec!["a:Never".to_owned(), "=b".to_owned()];
        });
        let arguments: Vec<_> = found.iter().map(|(argument, _)| *argument).collect();
        assert_eq!(
            arguments,
            [
                "namespace",
                "namespaces",
                "image",
                "image_pull_policy",
                "service",
                "cpu_request",
                "memory_limit",
                "image_pull_secrets",
                "service_account",
                "priority_class",
                "tolerations",
                "tolerations"
            ]
        );
    }

    #[test]
    fn a_request_follows_its_limit_unless_both_are_given() {
        let small = configured(|given| given.memory_limit = Some("64Mi".to_owned()));
        assert_eq!(small.resources.memory_request, "64Mi");
        let large = configured(|given| given.memory_request = Some("1Gi".to_owned()));
        assert_eq!(large.resources.memory_limit, "1Gi");
        let found = problems(|given| {
            given.memory_request = Some("1Gi".to_owned());
            given.memory_limit = Some("1G".to_owned());
        });
        assert_eq!(found[0].0, "memory_request");
        let found = problems(|given| {
            given.cpu_request = Some("2".to_owned());
            given.cpu_limit = Some("1500m".to_owned());
        });
        assert_eq!(found[0].0, "cpu_request");
        let low = configured(|given| given.cpu_limit = Some("20m".to_owned()));
        assert_eq!(low.resources.cpu_request, "20m");
    }

    #[test]
    fn two_ways_of_writing_one_place_are_one() {
        let with_slash = configured(|given| given.access.host = Some("https://127.0.0.1:6443/".to_owned()));
        assert_eq!(config().place(), with_slash.place());
        let elsewhere = configured(|given| given.namespace = Some("other".to_owned()));
        assert_ne!(config().place(), elsewhere.place());
    }

    #[test]
    fn namespaces_are_own_named_or_all() {
        let named = configured(|given| {
            given.namespaces = Some(vec!["a".to_owned(), "b".to_owned(), "a".to_owned()]);
        });
        let names = ["a", "b"].map(|name| name.parse().expect("a namespace"));
        assert_eq!(named.namespaces, Namespaces::These(names.to_vec()));
        let all = configured(|given| given.namespaces = Some(vec!["*".to_owned()]));
        assert_eq!(all.namespaces, Namespaces::All);
        let both = problems(|given| given.namespaces = Some(vec!["*".to_owned(), "a".to_owned()]));
        assert_eq!(both[0].0, "namespaces");
    }

    #[test]
    fn a_toleration_is_written_as_a_taint() {
        let config = configured(|given| {
            given.tolerations = ["spot", "spot:NoSchedule", "team=egress:NoExecute"]
                .map(str::to_owned)
                .to_vec();
        });
        let parts: Vec<_> = config
            .tolerations
            .iter()
            .map(|toleration| {
                (
                    toleration.operator.as_deref(),
                    toleration.value.as_deref(),
                    toleration.effect.as_deref(),
                )
            })
            .collect();
        assert_eq!(
            parts,
            [
                (Some("Exists"), None, None),
                (Some("Exists"), None, Some("NoSchedule")),
                (Some("Equal"), Some("egress"), Some("NoExecute"))
            ]
        );
    }

    #[test]
    fn annotations_need_a_service_and_are_not_ours() {
        let annotations = |key: &str| BTreeMap::from([(key.to_owned(), "x".to_owned())]);
        let found = problems(|given| given.service_annotations = annotations("a/b"));
        assert!(found[0].1.contains("set service"), "{found:?}");
        let found = problems(|given| {
            given.service = Some("LoadBalancer".to_owned());
            given.service_annotations = annotations("egress-proxy/uid");
        });
        assert!(found[0].1.contains("egress-proxy/uid"), "{found:?}");
    }
}

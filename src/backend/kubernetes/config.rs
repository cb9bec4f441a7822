//! The configuration of a kubernetes backend, validated.
//!
//! It must not know how the configuration was written down. Invariants: a [`KubernetesConfig`] can be
//! used as it is; making one reads no file and dials nothing, so whether its files exist is found out
//! by the first operation.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Toleration;

use super::access::{self, Access, GivenAccess};
use crate::contract::Namespace;
use image::ImagePullPolicy;
use namespaces::namespaces;
use problem::{check_object_name, parsed};
use resources::resources;

mod image;
mod namespaces;
mod problem;
mod resources;
mod service_kind;
mod toleration;
mod user;

pub use image::DEFAULT_IMAGE;
pub(super) use image::check_image;
pub(super) use namespaces::Namespaces;
pub use problem::ConfigProblem;
pub(super) use resources::Resources;
pub(super) use service_kind::ServiceKind;
pub(super) use user::RunAs;

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
    /// The user that a proxy's container runs as.
    pub run_as_user: Option<String>,
    /// The service account of a proxy's Pod.
    pub service_account: Option<String>,
    /// The priority class of a proxy's Pod.
    pub priority_class: Option<String>,
    /// The taints that a proxy's Pod tolerates, `key[=value][:effect]`.
    pub tolerations: Vec<String>,
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
    pub(super) run_as: RunAs,
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
        let image_pull_policy = given
            .image_pull_policy
            .and_then(|text| parsed("image_pull_policy", &text, &mut problems));
        let service = given.service.map_or_else(
            || Some(ServiceKind::default()),
            |text| parsed("service", &text, &mut problems),
        );
        if !given.service_annotations.is_empty() && service == Some(ServiceKind::None) {
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
        let run_as = given.run_as_user.map_or_else(
            || Some(RunAs::default()),
            |text| parsed("run_as_user", &text, &mut problems),
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
        match (access, namespace, namespaces, service, resources, run_as) {
            (
                Some(access),
                Some(namespace),
                Some(namespaces),
                Some(service),
                Some(resources),
                Some(run_as),
            ) if problems.is_empty() => Ok(Self {
                access,
                namespace,
                namespaces,
                image,
                image_pull_policy,
                image_pull_secrets: given.image_pull_secrets,
                service,
                service_annotations: given.service_annotations,
                resources,
                run_as,
                service_account: given.service_account,
                priority_class: given.priority_class,
                tolerations,
            }),
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

#[cfg(test)]
pub(super) mod tests;

//! The Pod of a proxy, built from what was asked for.
//!
//! It must not do I/O. Invariants: the Pod is admitted under the Pod Security level "restricted"; it is
//! one object that holds everything its Squid needs, and needs of its image a Squid and, where there is a
//! password, a shell; nothing but its annotations tells the configuration.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::{
    Capabilities, Container, ContainerPort, DownwardAPIVolumeFile, DownwardAPIVolumeSource,
    EmptyDirVolumeSource, LocalObjectReference, ObjectFieldSelector, Pod, PodSecurityContext, PodSpec, Probe,
    ResourceRequirements, SeccompProfile, SecurityContext, Sysctl, TCPSocketAction, Volume, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::config::{KubernetesConfig, Resources, ServiceKind};
use super::mark;
use super::place::Place;
use super::service;
use crate::contract::{Error, Mark, Secret};
use crate::squid::release::{HELPER_DIRS, PASSWORD_HELPER};
use crate::squid::{
    AccessLog, ConfPath, Descriptors, InvalidValue, Loopback, PasswordFile, Policy, Site, render,
};

/// The container that Squid runs in; others may have been put beside it.
pub(super) const CONTAINER: &str = "squid";
/// The annotation that is mounted as `squid.conf`.
pub(super) const CONF: &str = "egress-proxy/squid.conf";
/// The annotation that is mounted as the password file: a hash, which whoever may read the Pod can read.
pub(super) const PASSWORDS: &str = "egress-proxy/passwd";
/// Where both are mounted.
const ETC: &str = "/etc/egress-proxy";
/// Where Squid may write.
const RUN: &str = "/run/egress-proxy";
/// What may be written there: links and a core's absence.
const RUN_SIZE: &str = "16Mi";
/// How long open connections may go on when a Pod is told to end.
const SHUTDOWN_LIFETIME: Duration = Duration::from_secs(5);
/// How long a Pod may take to end before it is killed, in seconds.
pub(super) const GRACE_SECONDS: i64 = 15;
/// What all annotations of an object may amount to together, in bytes: the API server's own limit.
const ANNOTATIONS_LIMIT: usize = 256 * 1024;
/// What the annotations of others may need of it.
const ANNOTATIONS_RESERVE: usize = 16 * 1024;

/// Node labels that placement selects by.
pub(super) const ZONE_LABEL: &str = "topology.kubernetes.io/zone";
pub(super) const REGION_LABEL: &str = "topology.kubernetes.io/region";
pub(super) const MACHINE_TYPE_LABEL: &str = "node.kubernetes.io/instance-type";

/// Squid's configuration in a Pod.
///
/// # Errors
/// Never, since every value is one of ours that fits.
pub(super) fn conf(policy: &Policy) -> Result<String, InvalidValue> {
    let path = |text: &str| text.parse::<ConfPath>();
    let site = Site {
        listen: Vec::new(),
        loopback: Loopback::Denied,
        pid_file: None,
        // Squid cannot open its standard error as a file under every runtime; `-d` writes to it all the same.
        cache_log: path("/dev/null")?,
        access_log: AccessLog::None,
        work_dir: path(RUN)?,
        passwords: PasswordFile {
            helper: path(&format!("{RUN}/{PASSWORD_HELPER}"))?,
            file: path(&format!("{ETC}/passwd"))?,
        },
        descriptors: Descriptors::DEFAULT,
        shutdown_lifetime: SHUTDOWN_LIFETIME,
        visible_hostname: "egress-proxy".parse()?,
    };
    Ok(render(policy, &site))
}

/// Whether the annotations of such a proxy fit into an object; if not, by how much they do not.
pub(super) fn excess(policy: &Policy, facts: &crate::contract::Facts) -> usize {
    let conf = conf(policy).map_or(0, |conf| conf.len());
    // The mark holds the facts, and JSON within JSON escapes its quotes only on the wire.
    let facts = serde_json::to_vec(facts).map_or(0, |facts| facts.len());
    (conf + facts + ANNOTATIONS_RESERVE).saturating_sub(ANNOTATIONS_LIMIT)
}

/// The Pod of a proxy.
///
/// # Errors
/// Permanent, which never comes: what is written was checked before.
pub(super) fn build(
    place: &Place,
    mark: &Mark,
    user_labels: &BTreeMap<String, String>,
    policy: &Policy,
    passwords: Option<&Secret>,
    config: &KubernetesConfig,
) -> Result<Pod, Error> {
    let mut annotations = mark::annotations(mark)?;
    let conf = conf(policy).map_err(|error| Error::permanent(error.to_string()))?;
    annotations.insert(CONF.to_owned(), conf);
    if let Some(passwords) = passwords {
        annotations.insert(PASSWORDS.to_owned(), passwords.expose().to_owned());
    }
    if config.service != ServiceKind::None {
        annotations.insert(service::KIND.to_owned(), config.service.as_str().to_owned());
    }
    let mut labels = user_labels.clone();
    labels.extend(mark::labels(mark));
    Ok(Pod {
        metadata: ObjectMeta {
            name: Some(place.name().to_owned()),
            namespace: Some(place.namespace().to_string()),
            labels: Some(labels),
            annotations: Some(annotations),
            ..ObjectMeta::default()
        },
        spec: Some(spec(mark, policy, passwords.is_some(), config)),
        status: None,
    })
}

fn spec(mark: &Mark, policy: &Policy, has_passwords: bool, config: &KubernetesConfig) -> PodSpec {
    let facts = &mark.facts;
    let selector: BTreeMap<_, _> = [
        (ZONE_LABEL, &facts.zone),
        (REGION_LABEL, &facts.region),
        (MACHINE_TYPE_LABEL, &facts.machine_type),
    ]
    .into_iter()
    .filter_map(|(label, value)| Some((label.to_owned(), value.clone()?)))
    .collect();
    let pull_secrets: Vec<_> = config
        .image_pull_secrets
        .iter()
        .map(|name| LocalObjectReference { name: name.clone() })
        .collect();
    PodSpec {
        containers: vec![container(mark, policy, has_passwords, config)],
        restart_policy: Some("Always".to_owned()),
        automount_service_account_token: Some(false),
        enable_service_links: Some(false),
        service_account_name: config.service_account.clone(),
        priority_class_name: config.priority_class.clone(),
        image_pull_secrets: (!pull_secrets.is_empty()).then_some(pull_secrets),
        node_selector: (!selector.is_empty()).then_some(selector),
        tolerations: (!config.tolerations.is_empty()).then(|| config.tolerations.clone()),
        termination_grace_period_seconds: Some(GRACE_SECONDS),
        security_context: Some(PodSecurityContext {
            run_as_non_root: Some(true),
            run_as_user: config.run_as.number(),
            run_as_group: config.run_as.number(),
            seccomp_profile: Some(SeccompProfile {
                type_: "RuntimeDefault".to_owned(),
                localhost_profile: None,
            }),
            sysctls: privileged_port(policy.port()),
            ..PodSecurityContext::default()
        }),
        volumes: Some(vec![files(has_passwords), scratch()]),
        ..PodSpec::default()
    }
}

/// What lets an unprivileged process listen on a low port.
fn privileged_port(port: u16) -> Option<Vec<Sysctl>> {
    (port < 1024).then(|| {
        vec![Sysctl {
            name: "net.ipv4.ip_unprivileged_port_start".to_owned(),
            value: "0".to_owned(),
        }]
    })
}

fn container(mark: &Mark, policy: &Policy, has_passwords: bool, config: &KubernetesConfig) -> Container {
    let port = i32::from(policy.port());
    let mount = |name: &str, path: &str, read_only: bool| VolumeMount {
        name: name.to_owned(),
        mount_path: path.to_owned(),
        read_only: read_only.then_some(true),
        ..VolumeMount::default()
    };
    Container {
        name: CONTAINER.to_owned(),
        image: Some(mark.facts.image.clone().unwrap_or_else(|| config.image.clone())),
        image_pull_policy: config.image_pull_policy.map(|policy| policy.as_str().to_owned()),
        command: Some(command(has_passwords)),
        working_dir: Some(RUN.to_owned()),
        ports: Some(vec![ContainerPort {
            name: Some("proxy".to_owned()),
            container_port: port,
            protocol: Some("TCP".to_owned()),
            ..ContainerPort::default()
        }]),
        readiness_probe: Some(Probe {
            tcp_socket: Some(TCPSocketAction {
                host: None,
                port: IntOrString::Int(port),
            }),
            period_seconds: Some(2),
            timeout_seconds: Some(2),
            failure_threshold: Some(3),
            ..Probe::default()
        }),
        resources: Some(resources(&config.resources)),
        security_context: Some(SecurityContext {
            allow_privilege_escalation: Some(false),
            capabilities: Some(Capabilities {
                add: None,
                drop: Some(vec!["ALL".to_owned()]),
            }),
            read_only_root_filesystem: Some(true),
            run_as_non_root: Some(true),
            ..SecurityContext::default()
        }),
        // What a Squid that dies last wrote is its reason.
        termination_message_policy: Some("FallbackToLogsOnError".to_owned()),
        volume_mounts: Some(vec![mount("etc", ETC, true), mount("run", RUN, false)]),
        ..Container::default()
    }
}

/// Squid in the foreground, its words on standard error. Where its password helper is differs between
/// images, so a shell looks for it.
fn command(has_passwords: bool) -> Vec<String> {
    let squid = format!("squid -N -d 1 -f {ETC}/squid.conf");
    if !has_passwords {
        return squid.split(' ').map(str::to_owned).collect();
    }
    let helpers: Vec<_> = HELPER_DIRS
        .iter()
        .map(|dir| format!("{dir}/{PASSWORD_HELPER}"))
        .collect();
    let script = format!(
        "for helper in {}; do if [ -x \"$helper\" ]; then ln -sf \"$helper\" {RUN}/{PASSWORD_HELPER} && exec {squid}; fi; done; \
         echo \"the image has no {PASSWORD_HELPER}, which access.username needs\" >&2; exit 1",
        helpers.join(" ")
    );
    ["sh", "-c", &script].map(str::to_owned).to_vec()
}

fn resources(resources: &Resources) -> ResourceRequirements {
    let amounts = |pairs: [(&str, Option<String>); 2]| -> BTreeMap<String, Quantity> {
        pairs
            .into_iter()
            .filter_map(|(name, amount)| Some((name.to_owned(), Quantity(amount?))))
            .collect()
    };
    let cpu_limit = resources.cpu_limit.as_ref().map(ToString::to_string);
    ResourceRequirements {
        requests: Some(amounts([
            ("cpu", Some(resources.cpu_request.to_string())),
            ("memory", Some(resources.memory_request.to_string())),
        ])),
        limits: Some(amounts([
            ("cpu", cpu_limit),
            ("memory", Some(resources.memory_limit.to_string())),
        ])),
        claims: None,
    }
}

/// The annotations as files: the one object holds its own configuration.
fn files(has_passwords: bool) -> Volume {
    let file = |path: &str, annotation: &str| DownwardAPIVolumeFile {
        path: path.to_owned(),
        field_ref: Some(ObjectFieldSelector {
            api_version: None,
            field_path: format!("metadata.annotations['{annotation}']"),
        }),
        ..DownwardAPIVolumeFile::default()
    };
    let mut items = vec![file("squid.conf", CONF)];
    if has_passwords {
        items.push(file("passwd", PASSWORDS));
    }
    Volume {
        name: "etc".to_owned(),
        downward_api: Some(DownwardAPIVolumeSource {
            items: Some(items),
            default_mode: Some(0o444),
        }),
        ..Volume::default()
    }
}

fn scratch() -> Volume {
    Volume {
        name: "run".to_owned(),
        empty_dir: Some(EmptyDirVolumeSource {
            medium: None,
            size_limit: Some(Quantity(RUN_SIZE.to_owned())),
        }),
        ..Volume::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::kubernetes::config::tests::{config, configured};
    use crate::backend::kubernetes::mark::tests::{mark, place};
    use crate::contract::Facts;
    use crate::contract::spec::PasswordFact;

    fn built(facts: Facts, passwords: Option<&Secret>, config: &KubernetesConfig) -> Pod {
        let mut mark = mark();
        mark.facts = facts;
        let policy = Policy::of(&mark.facts).expect("sound");
        build(&place(), &mark, &BTreeMap::new(), &policy, passwords, config).expect("built")
    }

    fn spec_of(pod: &Pod) -> (&PodSpec, &Container) {
        let spec = pod.spec.as_ref().expect("a spec");
        (spec, &spec.containers[0])
    }

    #[test]
    fn nothing_in_it_is_privileged_or_unbounded() {
        let pod = built(mark().facts, None, &config());
        let (spec, container) = spec_of(&pod);
        let of_pod = spec.security_context.clone().expect("given");
        assert_eq!((of_pod.run_as_non_root, of_pod.sysctls), (Some(true), None));
        let of_container = container.security_context.clone().expect("given");
        assert_eq!(of_container.allow_privilege_escalation, Some(false));
        assert_eq!(of_container.read_only_root_filesystem, Some(true));
        assert_eq!(
            of_container
                .capabilities
                .and_then(|capabilities| capabilities.drop),
            Some(vec!["ALL".to_owned()])
        );
        assert_eq!(spec.automount_service_account_token, Some(false));
        let resources = container.resources.clone().expect("given");
        assert!(resources.limits.expect("given").contains_key("memory"));
        assert_eq!(resources.requests.expect("given").len(), 2);
        let conf = &pod.metadata.annotations.as_ref().expect("given")[CONF];
        assert!(conf.contains("max_filedescriptors 4096"), "{conf}");
        assert!(container.readiness_probe.is_some());
    }

    #[test]
    fn the_user_is_ours_or_the_clusters_choice() {
        let user = |text: Option<&str>| {
            let config = configured(|given| given.run_as_user = text.map(str::to_owned));
            let pod = built(mark().facts, None, &config);
            let context = spec_of(&pod).0.security_context.clone().expect("given");
            assert_eq!(context.run_as_non_root, Some(true), "root in no case");
            (context.run_as_user, context.run_as_group)
        };
        assert_eq!(user(None), (Some(65_532), Some(65_532)));
        assert_eq!(
            user(Some("1000680000")),
            (Some(1_000_680_000), Some(1_000_680_000))
        );
        assert_eq!(user(Some("assigned")), (None, None));
    }

    #[test]
    fn placement_becomes_node_selectors_and_the_image() {
        let facts = Facts {
            zone: Some("z".into()),
            region: Some("r".into()),
            machine_type: Some("m".into()),
            image: Some("registry.example/other:1".into()),
            port: Some(80),
            ..mark().facts
        };
        let pod = built(facts, None, &config());
        let (spec, container) = spec_of(&pod);
        let selector = spec.node_selector.clone().expect("given");
        assert_eq!(
            selector.into_iter().collect::<Vec<_>>(),
            [
                (MACHINE_TYPE_LABEL.to_owned(), "m".to_owned()),
                (REGION_LABEL.to_owned(), "r".to_owned()),
                (ZONE_LABEL.to_owned(), "z".to_owned()),
            ]
        );
        assert_eq!(container.image.as_deref(), Some("registry.example/other:1"));
        let sysctls = spec.security_context.clone().expect("given").sysctls;
        assert_eq!(sysctls.expect("a low port").len(), 1);
    }

    #[test]
    fn a_password_is_a_file_and_its_helper_is_looked_for() {
        let facts = Facts {
            username: Some("u".into()),
            password: Some(PasswordFact::Version("1".into())),
            ..mark().facts
        };
        let secret = Secret::new("u:$6$hash\n");
        let pod = built(facts, Some(&secret), &config());
        let (spec, container) = spec_of(&pod);
        let command = container.command.clone().expect("given");
        assert_eq!(command[..2], ["sh", "-c"]);
        for dir in HELPER_DIRS {
            assert!(command[2].contains(dir), "{command:?}");
        }
        assert!(!format!("{spec:?}").contains("$6$hash"));
        let annotations = pod.metadata.annotations.clone().expect("given");
        assert_eq!(annotations[PASSWORDS], "u:$6$hash\n");
        assert!(annotations[CONF].contains(&format!("basic program {RUN}/{PASSWORD_HELPER} {ETC}/passwd")));
    }

    #[test]
    fn a_pod_remembers_which_service_it_was_given() {
        let remembered = |service: &str| {
            let config = configured(|given| given.service = Some(service.to_owned()));
            built(mark().facts, None, &config)
                .metadata
                .annotations
                .expect("given")
                .remove(service::KIND)
        };
        assert_eq!(remembered("none"), None);
        assert_eq!(remembered("NodePort").as_deref(), Some("NodePort"));
    }

    #[test]
    fn a_taint_is_tolerated_as_it_was_written() {
        let config =
            configured(|given| given.tolerations = vec!["egress=yes:NoSchedule".to_owned(), "a".to_owned()]);
        let pod = built(mark().facts, None, &config);
        let tolerations = spec_of(&pod).0.tolerations.clone().expect("given");
        assert_eq!(tolerations[0].operator.as_deref(), Some("Equal"));
        assert_eq!(tolerations[1].operator.as_deref(), Some("Exists"));
    }

    #[test]
    fn what_does_not_fit_into_an_object_is_told_before() {
        let fits = mark().facts;
        let many = Facts {
            allowed_domains: Some((0..5000).map(|n| format!("host-{n}.example.com")).collect()),
            ..fits.clone()
        };
        let excess = |facts: &Facts| excess(&Policy::of(facts).expect("sound"), facts);
        assert_eq!(excess(&fits), 0);
        assert!(excess(&many) > 0);
    }
}

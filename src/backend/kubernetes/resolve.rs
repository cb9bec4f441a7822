//! What a specification means in a cluster.
//!
//! It must not do I/O. Invariant: whatever a Pod cannot honour, or the API server would refuse, is refused
//! here with its attribute, never ignored.

use super::cluster::covers;
use super::config::{KubernetesConfig, ServiceKind, check_image};
use super::place::Place;
use super::{pod, service};
use crate::contract::{Fact, Facts, Problem, Problems, Resolved, Specification, Warning};
use crate::squid::Policy;

/// The longest name, and the longest value, of a label.
const LONGEST: usize = 63;
/// The longest prefix of a label's key.
const LONGEST_PREFIX: usize = 253;

/// Resolves a specification.
pub(super) fn resolve(
    config: &KubernetesConfig,
    specification: &Specification,
) -> Result<Resolved, Vec<Problem>> {
    let Specification { key, given, labels } = specification;
    let mut problems = Problems::of(specification);
    refuse_unsupported(given, &mut problems);
    if !covers(config, &key.namespace) {
        problems.refuse(
            Fact::Namespace,
            format!(
                "the backend looks for proxies in other namespaces only: add \"{}\" to `namespaces` of the backend",
                key.namespace
            ),
        );
    }
    refuse_unfit_placement(given, &mut problems);
    for (key, value) in labels {
        if let Err(message) = check_label(key, value) {
            problems.refuse(Fact::Labels, message);
        }
    }
    let facts = Facts {
        // A Pod is not to be preempted unless its priority says so, which the backend's configuration does.
        spot: None,
        image: given.image.clone().or_else(|| Some(config.image.clone())),
        ..given.clone()
    }
    .with_common_defaults();
    let mut warnings = Vec::new();
    if let Some(policy) = problems.keep(Policy::of(&facts)) {
        refuse_excess(&policy, &facts, &mut problems);
        warnings.extend(policy.warnings());
        warnings.extend(unusual_node_port(config, policy.port()));
    }
    let place = Place::of(key);
    problems.or_resolved(place.map(|place| place.id().clone()), facts, warnings)
}

/// What a Pod has no use for.
fn refuse_unsupported(given: &Facts, problems: &mut Problems) {
    if given.spot == Some(true) {
        problems.refuse(
            Fact::Spot,
            "placement.spot = true cannot be honoured: clusters mark preemptible nodes each in its own way; leave it \
             out, and name the taint in `tolerations` of the backend",
        );
    }
    if given.cloud_init.is_some() {
        problems.refuse(
            Fact::CloudInit,
            "cloud_init cannot be honoured: a Pod boots nothing; leave it out",
        );
    }
}

fn refuse_unfit_placement(given: &Facts, problems: &mut Problems) {
    let selectors = [
        (Fact::Zone, &given.zone),
        (Fact::Region, &given.region),
        (Fact::MachineType, &given.machine_type),
    ];
    for (fact, value) in selectors {
        if let Some(value) = value
            && (value.is_empty() || !is_label_name_or_empty(value))
        {
            problems.refuse(
                fact,
                format!("\"{value}\" is no value that a label of a node can have: {NAME_RULE}"),
            );
        }
    }
    if let Some(image) = &given.image
        && let Err(message) = check_image(image)
    {
        problems.refuse(Fact::Image, message);
    }
}

/// What one Pod cannot hold.
fn refuse_excess(policy: &Policy, facts: &Facts, problems: &mut Problems) {
    let excess = pod::excess(policy, facts);
    if excess > 0 {
        problems.refuse(
            if facts.allowed_domains.is_some() {
                Fact::AllowedDomains
            } else {
                Fact::AllowedCidrs
            },
            format!(
                "the lists under access are {excess} bytes too long to be kept in one Pod: shorten them, or use \
                 several proxies"
            ),
        );
    }
}

const NAME_RULE: &str =
    "it must be 1 to 63 letters, digits or - _ . and begin and end with a letter or digit";

/// Whether a label is one that the API server takes.
fn check_label(key: &str, value: &str) -> Result<(), String> {
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    if name.is_empty() || !is_label_name_or_empty(name) {
        return Err(format!(
            "the label's key \"{key}\" cannot be used: after an optional prefix and a slash {NAME_RULE}"
        ));
    }
    if prefix.is_some_and(|prefix| !is_subdomain(prefix)) {
        return Err(format!(
            "the label's key \"{key}\" cannot be used: what is before the slash must be a DNS name in lower case"
        ));
    }
    if !is_label_name_or_empty(value) {
        return Err(format!(
            "the value \"{value}\" of the label \"{key}\" cannot be used: unless empty {NAME_RULE}"
        ));
    }
    Ok(())
}

/// The grammar of label values, and of the names in label keys.
fn is_label_name_or_empty(text: &str) -> bool {
    let bytes = text.as_bytes();
    let edge = |byte: Option<&u8>| byte.is_none_or(u8::is_ascii_alphanumeric);
    bytes.len() <= LONGEST
        && edge(bytes.first())
        && edge(bytes.last())
        && bytes
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte))
}

fn is_subdomain(text: &str) -> bool {
    let label = |label: &str| {
        let bytes = label.as_bytes();
        let sound = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        bytes.first().is_some_and(sound)
            && bytes.last().is_some_and(sound)
            && bytes.iter().all(|byte| sound(byte) || *byte == b'-')
    };
    text.len() <= LONGEST_PREFIX && text.split('.').all(label)
}

/// A warning where the node's port is the proxy's, and most clusters would not give it.
fn unusual_node_port(config: &KubernetesConfig, port: u16) -> Option<Warning> {
    let (first, last) = (service::NODE_PORTS.start(), service::NODE_PORTS.end());
    (config.service == ServiceKind::NodePort && !service::NODE_PORTS.contains(&port)).then(|| Warning {
        fact: Fact::Port,
        title: "Nodes may not give the proxy's port".to_owned(),
        message: format!(
            "With service = \"NodePort\" the proxy's port, {port}, is taken on every node, and a cluster gives only the \
             ports {first} to {last} unless it was told otherwise. Set `port` to one of them."
        ),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::backend::kubernetes::config::tests::{config, configured};
    use crate::contract::InstanceKey;
    use crate::contract::spec::CloudInitFact;

    fn sound() -> Facts {
        Facts {
            allowed_cidrs: Some(vec!["10.0.0.0/8".parse().expect("a network")]),
            ..Facts::default()
        }
    }

    fn of_in(
        config: &KubernetesConfig,
        namespace: &str,
        given: Facts,
        labels: &[(&str, &str)],
    ) -> Result<Resolved, Vec<Problem>> {
        let key = InstanceKey {
            installation: "prod".parse().expect("valid"),
            namespace: namespace.parse().expect("valid"),
            name: "a".parse().expect("valid"),
        };
        let labels: BTreeMap<_, _> = labels
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect();
        resolve(config, &Specification { key, given, labels })
    }

    fn blamed(result: Result<Resolved, Vec<Problem>>) -> Vec<Fact> {
        let problems = result.err().unwrap_or_default();
        problems.into_iter().map(|problem| problem.fact).collect()
    }

    #[test]
    fn an_image_that_is_left_out_is_the_backends() {
        let config = configured(|given| given.image = Some("registry.example/squid:6".to_owned()));
        let resolved = of_in(&config, "default", sound(), &[]).expect("sound");
        assert_eq!(resolved.id.as_str(), "default/a");
        assert_eq!(resolved.facts.image.as_deref(), Some("registry.example/squid:6"));
        assert!(resolved.warnings.is_empty());
        let own = Facts {
            image: Some("registry.example/other:1".into()),
            ..sound()
        };
        let resolved = of_in(&config, "default", own, &[]).expect("sound");
        assert_eq!(resolved.facts.image.as_deref(), Some("registry.example/other:1"));
    }

    #[test]
    fn what_a_pod_cannot_honour_is_refused_all_at_once() {
        let given = Facts {
            zone: Some("a b".into()),
            region: Some(String::new()),
            machine_type: Some("-m".into()),
            image: Some("https://registry.example/a".into()),
            spot: Some(true),
            cloud_init: Some(CloudInitFact::Version("1".into())),
            port: Some(0),
            ..Facts::default()
        };
        let blamed = blamed(of_in(&config(), "elsewhere", given, &[("egress-proxy/uid", "1")]));
        assert_eq!(
            blamed,
            [
                Fact::Labels,
                Fact::Spot,
                Fact::CloudInit,
                Fact::Namespace,
                Fact::Zone,
                Fact::Region,
                Fact::MachineType,
                Fact::Image,
                Fact::Port,
                Fact::AllowedCidrs,
            ]
        );
        let not_spot = Facts {
            spot: Some(false),
            ..sound()
        };
        let resolved = of_in(&config(), "default", not_spot, &[]).expect("means the same");
        assert_eq!(resolved.facts.spot, None);
    }

    #[test]
    fn labels_are_those_that_the_api_server_takes() {
        let long = "a".repeat(64);
        for (key, value, taken) in [
            ("team", "net", true),
            ("team", "", true),
            ("example.com/team", "A_b.c-1", true),
            ("Team_1", "x", true),
            ("", "x", false),
            ("/team", "x", false),
            ("Example.com/team", "x", false),
            ("a/b/c", "x", false),
            ("team", "a b", false),
            ("team", "-a", false),
            (long.as_str(), "x", false),
            ("team", long.as_str(), false),
            ("egress-proxy/managed", "yes", false),
        ] {
            let blamed = blamed(of_in(&config(), "default", sound(), &[(key, value)]));
            assert_eq!(blamed.is_empty(), taken, "{key}={value}: {blamed:?}");
        }
    }

    #[test]
    fn proxies_are_only_where_listings_look() {
        let these = configured(|given| given.namespaces = Some(vec!["x".to_owned(), "y".to_owned()]));
        let all = configured(|given| given.namespaces = Some(vec!["*".to_owned()]));
        for (config, namespace, honoured) in [
            (&config(), "default", true),
            (&config(), "x", false),
            (&these, "x", true),
            (&these, "default", true),
            (&these, "z", false),
            (&all, "z", true),
        ] {
            let blamed = blamed(of_in(config, namespace, sound(), &[]));
            assert_eq!(blamed.is_empty(), honoured, "{namespace}: {blamed:?}");
        }
    }

    #[test]
    fn a_list_too_long_for_a_pod_is_refused() {
        let given = Facts {
            allowed_domains: Some((0..5000).map(|n| format!("host-{n}.example.com")).collect()),
            ..sound()
        };
        assert_eq!(
            blamed(of_in(&config(), "default", given, &[])),
            [Fact::AllowedDomains]
        );
    }

    #[test]
    fn a_port_that_nodes_do_not_give_is_warned_about() {
        let config = configured(|given| given.service = Some("NodePort".to_owned()));
        let warnings = |port: Option<u16>| {
            let given = Facts { port, ..sound() };
            of_in(&config, "default", given, &[]).expect("sound").warnings
        };
        assert!(warnings(None)[0].message.contains("3128"));
        assert!(warnings(Some(30_128)).is_empty());
    }
}

//! What a specification means on this machine.
//!
//! It must not do I/O. Invariant: whatever a process of this machine cannot honour is refused with its
//! attribute, never ignored.

use std::net::IpAddr;

use ipnet::IpNet;

use super::config::LocalConfig;
use super::place::Place;
use crate::contract::spec::loopback;
use crate::contract::{Fact, Facts, Problem, Problems, Resolved, Specification, Warning};
use crate::squid::Policy;

/// Resolves a specification.
pub(super) fn resolve(config: &LocalConfig, specification: &Specification) -> Result<Resolved, Vec<Problem>> {
    let Specification { key, given, .. } = specification;
    let mut problems = Problems::of(specification);
    refuse_unsupported(given, &mut problems);
    let facts = Facts {
        // Not to be preempted is what a process of this machine is anyway.
        spot: None,
        allowed_cidrs: given.allowed_cidrs.clone().or_else(|| Some(loopback())),
        ..given.clone()
    }
    .with_common_defaults();
    let mut warnings = Vec::new();
    if let Some(policy) = problems.keep(Policy::of(&facts)) {
        warnings.extend(policy.warnings());
        warnings.extend(out_of_reach(config.listen(), facts.allowed_cidrs.as_deref()));
    }
    let place = Place::of(config.state_dir().as_path(), key);
    problems.or_resolved(place.map(|place| place.id().clone()), facts, warnings)
}

/// What a process of this machine has no use for.
fn refuse_unsupported(given: &Facts, problems: &mut Problems) {
    let placement = [
        (Fact::Zone, &given.zone),
        (Fact::Region, &given.region),
        (Fact::MachineType, &given.machine_type),
        (Fact::Image, &given.image),
    ];
    for (fact, value) in placement {
        if let Some(value) = value {
            problems.refuse(
                fact,
                format!(
                    "{fact} = \"{value}\" cannot be honoured: this backend runs every proxy as a process of this machine; leave it out"
                ),
            );
        }
    }
    if given.spot == Some(true) {
        problems.refuse(
            Fact::Spot,
            "placement.spot = true cannot be honoured: nothing is preempted on this machine; leave it out",
        );
    }
    if given.cloud_init.is_some() {
        problems.refuse(
            Fact::CloudInit,
            "cloud_init cannot be honoured: a process of this machine boots nothing; leave it out",
        );
    }
}

/// A warning where the proxy listens on loopback alone, and clients there are not allowed.
fn out_of_reach(listen: &[IpAddr], allowed: Option<&[IpNet]>) -> Option<Warning> {
    let allowed = allowed.unwrap_or_default();
    let on_loopback = |network: &IpNet| {
        loopback()
            .iter()
            .any(|own| own.contains(network) || network.contains(own))
    };
    let unreachable =
        listen.iter().all(IpAddr::is_loopback) && !allowed.is_empty() && !allowed.iter().any(on_loopback);
    unreachable.then(|| {
        let listen: Vec<_> = listen.iter().map(ToString::to_string).collect();
        Warning {
            fact: Fact::AllowedCidrs,
            title: "No client can reach the proxy".to_owned(),
            message: format!(
                "access.allowed_cidrs holds no loopback network, and the backend listens on {} alone. Set `listen` of the backend to an address that those clients reach.",
                listen.join(", ")
            ),
        }
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::Path;

    use super::*;
    use crate::contract::spec::CloudInitFact;
    use crate::contract::{InstanceKey, Namespace};

    fn of(given: Facts, listen: &[&str], labels: &[&str]) -> Result<Resolved, Vec<Problem>> {
        let listen = listen
            .iter()
            .map(|address| address.parse().expect("an address"))
            .collect();
        let config = LocalConfig::new(Path::new("/s"), None, listen).expect("sound");
        let key = InstanceKey {
            installation: "prod".parse().expect("valid"),
            namespace: Namespace::default(),
            name: "a".parse().expect("valid"),
        };
        let labels = labels
            .iter()
            .map(|key| ((*key).to_owned(), String::new()))
            .collect::<BTreeMap<_, _>>();
        resolve(&config, &Specification { key, given, labels })
    }

    #[test]
    fn defaults_are_this_machine() {
        let resolved = of(Facts::default(), &[], &["team"]).expect("sound");
        assert_eq!(resolved.id.as_str(), "default/a");
        assert!(resolved.warnings.is_empty());
        let cidrs: Vec<_> = resolved
            .facts
            .allowed_cidrs
            .iter()
            .flatten()
            .map(ToString::to_string)
            .collect();
        assert_eq!(cidrs, ["127.0.0.0/8", "::1/128"]);
        assert_eq!((resolved.facts.port, resolved.facts.spot), (Some(3128), None));
    }

    #[test]
    fn what_a_process_cannot_honour_is_refused_all_at_once() {
        let given = Facts {
            zone: Some("z".into()),
            region: Some("r".into()),
            machine_type: Some("m".into()),
            image: Some("i".into()),
            spot: Some(true),
            cloud_init: Some(CloudInitFact::Version("1".into())),
            port: Some(0),
            ..Facts::default()
        };
        let problems = of(given, &[], &["egress-proxy/uid"]).expect_err("nothing of this fits");
        let facts: Vec<_> = problems.iter().map(|problem| problem.fact).collect();
        assert_eq!(
            facts,
            [
                Fact::Labels,
                Fact::Zone,
                Fact::Region,
                Fact::MachineType,
                Fact::Image,
                Fact::Spot,
                Fact::CloudInit,
                Fact::Port
            ]
        );
        let given = Facts {
            spot: Some(false),
            ..Facts::default()
        };
        assert_eq!(of(given, &[], &[]).expect("means the same").facts.spot, None);
    }

    #[test]
    fn a_proxy_that_its_clients_cannot_reach_is_warned_about() {
        let given = |cidr: &str| Facts {
            allowed_cidrs: Some(vec![cidr.parse().expect("a network")]),
            ..Facts::default()
        };
        let warned =
            |cidr, listen: &[&str]| !of(given(cidr), listen, &[]).expect("sound").warnings.is_empty();
        assert!(warned("10.0.0.0/8", &[]));
        assert!(warned("10.0.0.0/8", &["127.0.0.1", "::1"]));
        assert!(!warned("10.0.0.0/8", &["127.0.0.1", "10.0.0.1"]));
        assert!(!warned("127.0.0.1/32", &[]));
        assert!(!warned("126.0.0.0/7", &[]));
    }
}

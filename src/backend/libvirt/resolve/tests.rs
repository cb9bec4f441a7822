//! What is left out, what is refused, and what is warned of.

use std::collections::BTreeMap;

use super::super::config::tests::{configured, given_host};
use super::*;
use crate::contract::InstanceKey;
use crate::contract::spec::CloudInitFact;

fn sound() -> Facts {
    Facts {
        allowed_cidrs: Some(vec!["10.0.0.0/8".parse().expect("a network")]),
        ..Facts::default()
    }
}

fn of_in(
    config: &LibvirtConfig,
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

fn of(given: Facts) -> Result<Resolved, Vec<Problem>> {
    of_in(&configured(|_| ()), "default", given, &[])
}

fn blamed(result: Result<Resolved, Vec<Problem>>) -> Vec<(Fact, String)> {
    let problems = result.err().unwrap_or_default();
    problems
        .into_iter()
        .map(|problem| (problem.fact, problem.message))
        .collect()
}

#[test]
fn what_there_is_one_of_need_not_be_named() {
    let resolved = of(sound()).expect("sound");
    assert_eq!(resolved.id.as_str(), "hosts/beelink/domains/a");
    let facts = &resolved.facts;
    assert_eq!(facts.zone.as_deref(), Some("beelink"));
    assert_eq!(facts.machine_type.as_deref(), Some("small"));
    assert_eq!(facts.image.as_deref(), Some("debian-12"));
    assert_eq!((facts.port, facts.spot), (Some(3128), None));
    assert!(resolved.warnings.is_empty());
    let elsewhere = of_in(&configured(|_| ()), "ci", sound(), &[]).expect("sound");
    assert_eq!(elsewhere.id.as_str(), "hosts/beelink/domains/ci-a");
}

#[test]
fn what_there_is_more_of_must_be_named() {
    let config = configured(|given| {
        given.hosts.insert("other".to_owned(), given_host("10.0.0.6"));
    });
    let problems = blamed(of_in(&config, "default", sound(), &[]));
    assert_eq!(problems.len(), 1);
    assert_eq!(problems[0].0, Fact::Zone);
    assert!(problems[0].1.contains("\"beelink\", \"other\""), "{problems:?}");
    let given = Facts {
        zone: Some("other".to_owned()),
        ..sound()
    };
    let resolved = of_in(&config, "default", given, &[]).expect("named");
    assert_eq!(resolved.id.as_str(), "hosts/other/domains/a");
}

#[test]
fn what_the_catalogue_lacks_is_told_with_what_it_has() {
    let given = Facts {
        zone: Some("nas1".to_owned()),
        machine_type: Some("large".to_owned()),
        image: Some("fedora".to_owned()),
        ..sound()
    };
    let problems = blamed(of(given));
    let facts: Vec<_> = problems.iter().map(|(fact, _)| *fact).collect();
    assert_eq!(facts, [Fact::Zone, Fact::MachineType, Fact::Image]);
    for ((_, message), has) in problems.iter().zip(["\"beelink\"", "\"small\"", "\"debian-12\""]) {
        assert!(message.contains(has), "{message}");
    }
    let empty = configured(|given| {
        given.images.clear();
        given.machine_types.clear();
    });
    let problems = blamed(of_in(&empty, "default", sound(), &[]));
    assert!(problems[0].1.contains("machine_type \"NAME\""), "{problems:?}");
    assert!(problems[1].1.contains("image \"NAME\""), "{problems:?}");
}

#[test]
fn an_image_may_be_a_url() {
    let url = "https://images.example/a.qcow2";
    let by = |image: &str| {
        of(Facts {
            image: Some(image.to_owned()),
            ..sound()
        })
    };
    assert_eq!(by(url).expect("sound").facts.image.as_deref(), Some(url));
    for refused in ["ftp://images.example/a", "https://", "file:///etc/passwd"] {
        assert_eq!(blamed(by(refused))[0].0, Fact::Image, "{refused}");
    }
}

#[test]
fn what_cannot_be_honoured_is_refused_all_at_once() {
    let given = Facts {
        region: Some("eu".to_owned()),
        spot: Some(true),
        port: Some(0),
        ..Facts::default()
    };
    let problems = of_in(
        &configured(|_| ()),
        "default",
        given,
        &[("egress-proxy/uid", "1")],
    );
    let facts: Vec<_> = blamed(problems).into_iter().map(|(fact, _)| fact).collect();
    assert_eq!(
        facts,
        [
            Fact::Labels,
            Fact::Region,
            Fact::Spot,
            Fact::Port,
            Fact::AllowedCidrs
        ]
    );
    let not_spot = Facts {
        spot: Some(false),
        ..sound()
    };
    assert_eq!(of(not_spot).expect("means the same").facts.spot, None);
}

#[test]
fn labels_are_what_xml_can_hold() {
    let long = "a".repeat(LONGEST_LABEL + 1);
    for (key, value, taken) in [
        ("team", "net <& \"ü\">", true),
        ("", "x", false),
        ("a\u{1}", "x", false),
        ("a", "x\n", false),
        ("a", "\u{ffff}", false),
        (long.as_str(), "x", false),
        ("a", long.as_str(), false),
    ] {
        let problems = blamed(of_in(&configured(|_| ()), "default", sound(), &[(key, value)]));
        assert_eq!(problems.is_empty(), taken, "{key:?}: {problems:?}");
    }
}

#[test]
fn a_document_of_ones_own_is_warned_of() {
    let given = Facts {
        cloud_init: Some(CloudInitFact::Version("1".to_owned())),
        ..sound()
    };
    let warnings = of(given).expect("sound").warnings;
    assert_eq!(warnings.len(), 1);
    assert_eq!(warnings[0].fact, Fact::CloudInit);
}

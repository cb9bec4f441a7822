//! Blocks as people write them, sound and not.

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
        given.run_as_user = Some("0".to_owned());
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
            "run_as_user",
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

#[test]
fn a_user_is_a_number_other_than_roots_or_the_clusters_choice() {
    for text in ["1", "65532", "2147483647", "assigned"] {
        configured(|given| given.run_as_user = Some(text.to_owned()));
    }
    for text in ["0", "-1", "2147483648", "root", "", "Assigned"] {
        let found = problems(|given| given.run_as_user = Some(text.to_owned()));
        assert_eq!(found[0].0, "run_as_user", "{text}");
        assert!(found[0].1.contains("\"assigned\""), "{found:?}");
    }
}

//! Ways in as people write them.

use super::*;

fn validated(given: GivenAccess) -> Result<Access, Vec<ConfigProblem>> {
    let mut problems = Vec::new();
    let home = |name: &str| (name == "HOME").then(|| OsString::from("/home/me"));
    match validate(given, home, &mut problems) {
        Some(access) => Ok(access),
        None => Err(problems),
    }
}

fn arguments(given: GivenAccess) -> Vec<&'static str> {
    let problems = validated(given).expect_err("something is wrong");
    problems.iter().map(|problem| problem.argument).collect()
}

fn text(text: &str) -> Option<String> {
    Some(text.to_owned())
}

fn host() -> GivenAccess {
    GivenAccess {
        host: text("https://10.0.0.1:6443"),
        ..GivenAccess::default()
    }
}

#[test]
fn a_list_of_kubeconfigs_is_separated_as_in_the_variable() {
    let access = validated(GivenAccess {
        kubeconfig: text("~/.kube/a::/etc/b"),
        ..GivenAccess::default()
    })
    .expect("paths");
    let Source::Kubeconfig { paths, .. } = access.source else {
        panic!("a kubeconfig was given");
    };
    assert_eq!(paths, [Path::new("/home/me/.kube/a"), Path::new("/etc/b")]);
}

#[test]
fn a_home_directory_that_is_not_known_is_no_path() {
    let mut problems = Vec::new();
    let given = GivenAccess {
        kubeconfig: text("~/.kube/config"),
        ..GivenAccess::default()
    };
    assert!(validate(given, |_| None, &mut problems).is_none());
    assert!(problems[0].message.contains("HOME"), "{problems:?}");
}

#[test]
fn there_is_one_way_in() {
    let two = GivenAccess {
        kubeconfig: text("/a"),
        in_cluster: Some(true),
        ..host()
    };
    assert_eq!(arguments(two), ["in_cluster", "host"]);
    let no = GivenAccess {
        in_cluster: Some(false),
        ..host()
    };
    validated(no).expect("in_cluster = false says nothing");
    let context = GivenAccess {
        context: text("c"),
        ..host()
    };
    assert_eq!(arguments(context), ["context"]);
}

#[test]
fn credentials_belong_to_a_host() {
    let orphans = GivenAccess {
        token: Some(Secret::new("a")),
        ca_file: text("/ca"),
        exec: Some(GivenExec {
            command: text("p"),
            ..GivenExec::default()
        }),
        ..GivenAccess::default()
    };
    let found = arguments(orphans.clone());
    assert!(
        found.contains(&"token") && found.contains(&"ca_file") && found.contains(&"exec"),
        "{found:?}"
    );
    // What is not known yet may be the host.
    let found = validated(GivenAccess {
        partly_unknown: true,
        ..orphans
    });
    assert!(found.is_ok());
}

#[test]
fn what_contradicts_itself_is_refused() {
    let token = || Some(Secret::new("a"));
    for (given, argument) in [
        (
            GivenAccess {
                token: token(),
                token_file: text("/t"),
                ..host()
            },
            "token",
        ),
        (
            GivenAccess {
                ca_certificate: text("a"),
                ca_file: text("/t"),
                ..host()
            },
            "ca_certificate",
        ),
        (
            GivenAccess {
                insecure: Some(true),
                ca_file: text("/t"),
                ..host()
            },
            "insecure",
        ),
        (
            GivenAccess {
                client_certificate: text("a"),
                ..host()
            },
            "client_certificate",
        ),
        (
            GivenAccess {
                client_key_file: text("/k"),
                ..host()
            },
            "client_key",
        ),
        (
            GivenAccess {
                token: token(),
                exec: Some(GivenExec {
                    command: text("p"),
                    ..GivenExec::default()
                }),
                ..host()
            },
            "exec",
        ),
        (
            GivenAccess {
                token: Some(Secret::new(" \n")),
                ..host()
            },
            "token",
        ),
        (
            GivenAccess {
                token_file: text(""),
                ..host()
            },
            "token_file",
        ),
        (
            GivenAccess {
                kubeconfig: text(""),
                ..GivenAccess::default()
            },
            "kubeconfig",
        ),
        (
            GivenAccess {
                context: text(""),
                ..GivenAccess::default()
            },
            "context",
        ),
        (
            GivenAccess {
                tls_server_name: text("a b"),
                ..host()
            },
            "tls_server_name",
        ),
        (
            GivenAccess {
                proxy_url: Some(Secret::new("proxy:1")),
                ..host()
            },
            "proxy_url",
        ),
        (
            GivenAccess {
                exec: Some(GivenExec {
                    api_version: text("v1"),
                    command: text("p"),
                    ..GivenExec::default()
                }),
                ..host()
            },
            "exec.api_version",
        ),
        (
            GivenAccess {
                impersonate: Some(Impersonate {
                    groups: vec!["g".to_owned()],
                    ..Impersonate::default()
                }),
                ..host()
            },
            "impersonate.user",
        ),
        (
            GivenAccess {
                impersonate: Some(Impersonate {
                    user: text("a\nb"),
                    ..Impersonate::default()
                }),
                ..host()
            },
            "impersonate",
        ),
    ] {
        assert_eq!(arguments(given), [argument]);
    }
}

#[test]
fn a_url_of_an_api_server_is_whole() {
    for good in [
        "https://10.0.0.1:6443",
        "http://127.0.0.1:8001",
        "https://[::1]:6443",
        "https://rancher/k8s/clusters/c1",
    ] {
        assert!(server(good).is_ok(), "{good}");
    }
    for (bad, says) in [
        ("", "empty"),
        ("10.0.0.1:6443", "https://10.0.0.1:6443"),
        ("localhost", "no scheme"),
        ("ftp://a", "neither https nor http"),
        ("https://", "no URL"),
        ("https://u:geheim@a", "a user name"),
        ("https://a?x=1", "a query"),
        ("https://a#x", "a fragment"),
        ("https://a b", "no URL"),
    ] {
        let message = server(bad).expect_err(bad);
        assert!(message.contains(says) && !message.contains("geheim"), "{message}");
    }
}

#[test]
fn what_is_in_the_environment_is_noted_and_not_yet_read() {
    let variable = |name: &str| {
        let value = match name {
            "KUBECONFIG" => "/a:/b",
            "KUBERNETES_SERVICE_HOST" => "10.96.0.1",
            "KUBERNETES_SERVICE_PORT" => "443",
            "https_proxy" => "http://lower",
            "HTTPS_PROXY" => "http://upper",
            _ => return None,
        };
        Some(OsString::from(value))
    };
    let mut problems = Vec::new();
    let access = validate(GivenAccess::default(), variable, &mut problems).expect("nothing is wrong");
    assert!(matches!(access.source, Source::Usual { context: None }));
    let found = access.surroundings;
    assert_eq!(found.kubeconfig, [Path::new("/a"), Path::new("/b")]);
    assert_eq!(found.home_kubeconfig, None);
    assert_eq!(found.service, Some(("10.96.0.1".to_owned(), "443".to_owned())));
    assert_eq!(found.proxies.https.expect("a proxy").expose(), "http://lower");
}

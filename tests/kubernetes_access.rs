//! Every way to a real API server: as whom it takes us, and what it says of those it does not let in.

#[path = "kube_node/mod.rs"]
mod kube_node;
#[path = "kubernetes/tunnel.rs"]
mod tunnel;

use std::ffi::OsString;
use std::path::Path;

use egress::backend::kubernetes::{Given, GivenAccess, GivenExec, Impersonate, Kubernetes, KubernetesConfig};
use egress::contract::{Backend as _, ErrorKind, HealthReason, ListFilter, Secret, TargetHealth};
use kube_node::{ADMIN, Authority, Cluster, GROUP, ROTATED_ANEW, Setup};
use serde_json::{Value, json};
use tunnel::{Kind, Tunnel};

fn backend_in(access: GivenAccess, environment: &[(&str, &Path)]) -> Kubernetes {
    let given = Given {
        access,
        namespace: Some("default".to_owned()),
        ..Given::default()
    };
    let variable = |name: &str| {
        let found = environment.iter().find(|(own, _)| *own == name);
        found.map(|(_, value)| OsString::from(value))
    };
    let config = KubernetesConfig::new(given, variable).expect("a valid configuration");
    Kubernetes::new("cluster".parse().expect("a name"), config)
}

fn backend(access: GivenAccess) -> Kubernetes {
    backend_in(access, &[])
}

/// The cluster's server and authority, and nobody yet.
fn host(cluster: &Cluster) -> GivenAccess {
    GivenAccess {
        host: Some(cluster.server().to_owned()),
        ca_certificate: Some(cluster.ca()),
        ..GivenAccess::default()
    }
}

fn with_token(cluster: &Cluster, token: &str) -> GivenAccess {
    GivenAccess {
        token: Some(Secret::new(token)),
        ..host(cluster)
    }
}

async fn health(access: GivenAccess) -> TargetHealth {
    let mut reports = backend(access).check().await;
    assert_eq!(reports.len(), 1);
    reports.remove(0)
}

fn assert_healthy(report: &TargetHealth, cluster: &Cluster) {
    assert_eq!(report.reason, HealthReason::Healthy, "{report:?}");
    assert_eq!(report.target, cluster.server());
    assert_eq!(report.details["namespace_exists"], "true");
    assert_eq!(report.details["can_create_pods"], "true");
    assert!(report.details["server_version"].starts_with("v1."), "{report:?}");
}

/// What listing says to somebody who may not list: it names the user.
async fn refusal(backend: &Kubernetes) -> String {
    let filter = ListFilter {
        installation: "prod".parse().expect("a name"),
        namespace: None,
    };
    match backend.list_by_tag(&filter).await {
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Permanent, "{error:?}");
            error.to_string()
        }
        Ok(listing) => {
            let part = listing
                .unreadable
                .first()
                .expect("something that may not be read");
            assert_eq!(part.error.kind(), ErrorKind::Permanent);
            part.error.to_string()
        }
    }
}

#[tokio::test]
#[ignore = "needs a Kubernetes API server"]
async fn tokens_certificates_and_impersonation_are_let_in_as_who_they_are() {
    let cluster = Cluster::of_our_own();
    assert_healthy(&health(with_token(cluster, cluster.token(ADMIN))).await, cluster);

    let token = cluster.write("access-token", cluster.token(ADMIN).as_bytes());
    let access = GivenAccess {
        token_file: Some(token.display().to_string()),
        ca_certificate: None,
        ca_file: Some(cluster.ca_file().display().to_string()),
        ..host(cluster)
    };
    assert_healthy(&health(access).await, cluster);

    let identity = cluster.client_certificate("cert-admin", Some("system:masters"));
    let access = GivenAccess {
        client_certificate: Some(identity.certificate),
        client_key: Some(Secret::new(identity.key)),
        ..host(cluster)
    };
    assert_healthy(&health(access).await, cluster);

    let nobody = cluster.client_certificate("cert-nobody", None);
    let access = GivenAccess {
        client_certificate: Some(nobody.certificate),
        client_key: Some(Secret::new(nobody.key)),
        ..host(cluster)
    };
    let told = refusal(&backend(access)).await;
    assert!(told.contains("User \"cert-nobody\" cannot list"), "{told}");

    let access = GivenAccess {
        impersonate: Some(Impersonate {
            user: Some("somebody".to_owned()),
            groups: vec![GROUP.to_owned()],
            ..Impersonate::default()
        }),
        ..with_token(cluster, cluster.token(ADMIN))
    };
    let told = refusal(&backend(access)).await;
    assert!(told.contains("User \"somebody\" cannot list"), "{told}");

    let access = GivenAccess {
        impersonate: Some(Impersonate {
            user: Some("somebody".to_owned()),
            ..Impersonate::default()
        }),
        ..with_token(cluster, cluster.token("limited"))
    };
    let told = refusal(&backend(access)).await;
    assert!(told.contains("cannot impersonate"), "{told}");
}

#[tokio::test]
#[ignore = "needs a Kubernetes API server"]
async fn who_may_do_nothing_is_told_what_to_grant() {
    let cluster = Cluster::of_our_own();
    let report = health(with_token(cluster, cluster.token("limited"))).await;
    assert_eq!(report.reason, HealthReason::Forbidden, "{report:?}");
    assert!(report.message.contains("create pods in default"), "{report:?}");
    assert_eq!(report.details["can_create_pods"], "false");
    assert_eq!(report.details["namespace_exists"], "not readable");
}

#[tokio::test]
#[ignore = "needs a Kubernetes API server"]
async fn who_is_not_known_is_unauthorized_and_shows_no_token() {
    let cluster = Cluster::of_our_own();
    let report = health(with_token(cluster, "geheim-token")).await;
    assert_eq!(report.reason, HealthReason::Unauthorized, "{report:?}");
    assert!(!format!("{report:?}").contains("geheim"));
    let told = refusal(&backend(with_token(cluster, "geheim-token"))).await;
    assert!(told.contains("does not accept the credentials (token)"), "{told}");
}

#[tokio::test]
#[ignore = "needs a Kubernetes API server"]
async fn who_shows_nothing_is_anonymous() {
    let cluster = Cluster::of_our_own();
    let told = refusal(&backend(host(cluster))).await;
    assert!(
        told.contains("anonymous") || told.contains("does not accept the credentials"),
        "{told}"
    );
}

#[tokio::test]
#[ignore = "needs a Kubernetes API server"]
async fn another_authority_is_not_trusted_and_insecure_trusts_anybody() {
    let cluster = Cluster::of_our_own();
    let access = GivenAccess {
        ca_certificate: Some(Authority::new("another").certificate().to_owned()),
        ..with_token(cluster, cluster.token(ADMIN))
    };
    let report = health(access).await;
    assert_eq!(report.reason, HealthReason::Unauthorized, "{report:?}");
    assert!(report.message.contains("ca_certificate"), "{report:?}");

    let access = GivenAccess {
        ca_certificate: None,
        insecure: Some(true),
        ..with_token(cluster, cluster.token(ADMIN))
    };
    let report = health(access).await;
    assert_healthy(&report, cluster);
    assert!(report.details["warnings"].contains("not checked"), "{report:?}");
}

#[tokio::test]
#[ignore = "needs a Kubernetes API server"]
async fn a_kubeconfig_is_taken_as_kubectl_takes_it() {
    let cluster = Cluster::of_our_own();
    let admin = cluster.kubeconfig();
    let named = GivenAccess {
        kubeconfig: Some(admin.display().to_string()),
        context: Some("test".to_owned()),
        ..GivenAccess::default()
    };
    assert_healthy(&health(named).await, cluster);
    let from_environment = backend_in(GivenAccess::default(), &[("KUBECONFIG", &admin)]);
    assert_healthy(&from_environment.check().await.remove(0), cluster);

    // Of two files that have the same user, the first one's counts.
    let limited = cluster.kubeconfig_with(&json!({ "token": cluster.token("limited") }));
    let both = GivenAccess {
        kubeconfig: Some(format!("{}:{}", limited.display(), admin.display())),
        ..GivenAccess::default()
    };
    let report = health(both).await;
    assert_eq!(report.reason, HealthReason::Forbidden, "{report:?}");
    assert!(report.details["warnings"].contains("\"test\""), "{report:?}");
}

#[tokio::test]
#[ignore = "needs a Kubernetes API server"]
async fn a_token_that_was_rotated_on_disk_is_read_again() {
    let cluster = Cluster::of_our_own();
    let file = cluster.write("rotated-token", b"expired");
    let backend = backend(GivenAccess {
        token_file: Some(file.display().to_string()),
        ..host(cluster)
    });
    assert_eq!(backend.check().await[0].reason, HealthReason::Unauthorized);
    std::fs::write(&file, cluster.token("rotated")).expect("written");
    let told = refusal(&backend).await;
    assert!(told.contains("User \"rotated\" cannot list"), "{told}");
    std::fs::write(&file, cluster.token(ROTATED_ANEW)).expect("written");
    // The old one is still good, so that nothing is read.
    let told = refusal(&backend).await;
    assert!(told.contains("User \"rotated\" cannot list"), "{told}");
}

#[cfg(unix)]
#[tokio::test]
#[ignore = "needs a Kubernetes API server"]
async fn a_plugin_is_run_again_where_its_token_is_not_accepted() {
    use std::os::unix::fs::PermissionsExt as _;

    let cluster = Cluster::of_our_own();
    let folder = tempfile::tempdir().expect("a folder");
    let runs = folder.path().join("runs");
    let script = format!(
        "#!/bin/sh\necho run >> {runs}\ntoken=expired\n[ $(wc -l < {runs}) -gt 1 ] && token={token}\ncat <<END\n{{\"apiVersion\":\"client.authentication.k8s.io/v1\",\"kind\":\"ExecCredential\",\"status\":{{\"token\":\"$token\"}}}}\nEND\n",
        runs = runs.display(),
        token = cluster.token(ADMIN),
    );
    let plugin = folder.path().join("plugin");
    std::fs::write(&plugin, script).expect("a script");
    std::fs::set_permissions(&plugin, std::fs::Permissions::from_mode(0o755)).expect("a program");

    let in_block = GivenAccess {
        exec: Some(GivenExec {
            command: Some(plugin.display().to_string()),
            ..GivenExec::default()
        }),
        ..host(cluster)
    };
    assert_healthy(&health(in_block).await, cluster);
    let count = || std::fs::read_to_string(&runs).expect("runs").lines().count();
    assert_eq!(count(), 2);

    std::fs::remove_file(&runs).expect("removed");
    let user = json!({ "exec": {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": plugin,
        "interactiveMode": "Never",
    }});
    let in_kubeconfig = GivenAccess {
        kubeconfig: Some(cluster.kubeconfig_with(&user).display().to_string()),
        ..GivenAccess::default()
    };
    assert_healthy(&health(in_kubeconfig).await, cluster);
    assert_eq!(count(), 2);
}

/// What the provider's own command line says of the cluster behind a backend with these lines.
async fn told_by_the_command(cluster: &Cluster, lines: &[&str], authorities: &Path) -> (bool, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("egress.yaml");
    let lines: String = lines.iter().map(|line| format!("      {line}\n")).collect();
    let text = format!(
        "installation: prod\nbackends:\n  cluster:\n    kubernetes:\n      host: {:?}\n      ca_file: {:?}\n      token: {:?}\n{lines}",
        cluster.server(),
        cluster.ca_file(),
        cluster.token(ADMIN),
    );
    std::fs::write(&config, text).expect("written");
    let output = tokio::process::Command::new(env!("CARGO_BIN_EXE_terraform-provider-egress"))
        .args(["health", "--output", "json", "--config"])
        .arg(&config)
        .env_clear()
        // The one place for authorities that this machine trusts.
        .env("SSL_CERT_FILE", authorities)
        .output()
        .await
        .expect("it runs");
    let said = String::from_utf8_lossy(&[&output.stdout[..], &output.stderr[..]].concat()).into_owned();
    (output.status.success(), said)
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Kubernetes API server"]
async fn every_kind_of_proxy_is_gone_through() {
    let cluster = Cluster::of_our_own();
    let authority = Authority::new("proxies");
    let identity = authority.server(&[std::net::Ipv4Addr::LOCALHOST.into()], &["localhost"]);
    let authorities = cluster.write("proxies.pem", authority.certificate().as_bytes());
    let server = cluster.server().trim_start_matches("https://").to_owned();
    for kind in [Kind::Http, Kind::Https, Kind::Socks5] {
        let tunnel = Tunnel::open(kind, &identity).await;
        let line = format!("proxy_url: {:?}", tunnel.url(tunnel::IN_URL));
        let (is_healthy, said) = told_by_the_command(cluster, &[&line], &authorities).await;
        assert!(is_healthy, "{kind:?}: {said}");
        assert!(!said.contains("geheim"), "{kind:?}: {said}");
        let through = tunnel.through();
        assert!(
            !through.is_empty() && through.iter().all(|target| *target == server),
            "{kind:?}: {through:?} instead of {server}"
        );

        let line = format!("proxy_url: {:?}", tunnel.url("me:geheim-and-wrong"));
        let (is_healthy, said) = told_by_the_command(cluster, &[&line], &authorities).await;
        assert!(!is_healthy && !said.contains("geheim"), "{kind:?}: {said}");
        assert!(
            said.contains("the proxy to the API server does not accept"),
            "{kind:?}: {said}"
        );
        assert_eq!(tunnel.through(), [""; 0], "{kind:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Kubernetes API server"]
async fn the_proxy_of_a_kubeconfig_is_gone_through() {
    let cluster = Cluster::of_our_own();
    let identity = Authority::new("proxies").server(&[], &[]);
    for kind in [Kind::Http, Kind::Socks5] {
        let tunnel = Tunnel::open(kind, &identity).await;
        let user = json!({ "token": cluster.token(ADMIN) });
        let mut config: Value = serde_json::from_str(&cluster.kubeconfig_text(&user)).expect("JSON");
        config["clusters"][0]["cluster"]["proxy-url"] = tunnel.url(tunnel::IN_URL).into();
        let file = cluster.write(&format!("through-{kind:?}"), config.to_string().as_bytes());
        let report = health(GivenAccess {
            kubeconfig: Some(file.display().to_string()),
            ..GivenAccess::default()
        })
        .await;
        assert_healthy(&report, cluster);
        assert!(!tunnel.through().is_empty(), "{kind:?}");
    }
}

/// Time stands still but for what the check waits for: nobody answers it.
#[tokio::test(start_paused = true)]
#[ignore = "needs a Kubernetes API server"]
async fn an_api_server_that_does_not_answer_is_a_timeout() {
    let cluster = Cluster::start(Setup::default());
    let access = with_token(&cluster, cluster.token(ADMIN));
    cluster.freeze_api_server();
    let report = health(access.clone()).await;
    assert_eq!(report.reason, HealthReason::Timeout, "{report:?}");
    assert_eq!(report.target, cluster.server());
    assert!(
        report.message.contains("did not answer within 20 s"),
        "{report:?}"
    );
    cluster.thaw_api_server();
    cluster.stop_api_server();
    let report = health(access).await;
    assert_eq!(report.reason, HealthReason::Unreachable, "{report:?}");
}

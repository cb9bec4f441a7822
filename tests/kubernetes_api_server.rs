//! What the other tests of Kubernetes rely on: the API server they start is a real one, and ends with them.

#[path = "kube_node/mod.rs"]
mod kube_node;

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Command, Stdio};

use k8s_openapi::api::core::v1::{Pod, ResourceQuota};
use kube::api::{Api, ListParams, PostParams};
use kube_node::{ADMIN, Cluster, GROUP, ROTATED_ANEW, Setup, wait};
use serde_json::{Value, json};

fn status(error: kube::Error) -> (u16, String) {
    match error {
        kube::Error::Api(status) => (status.code, status.message.clone()),
        other => panic!("an answer of the API server instead of {other:?}"),
    }
}

fn base64(pem: &str) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(pem)
}

#[tokio::test]
#[ignore = "needs a Kubernetes API server"]
async fn tokens_certificates_and_impersonation_are_told_apart() {
    let cluster = Cluster::of_our_own();
    let namespace = cluster.namespace().await;
    let list = async |user: Value| {
        let pods: Api<Pod> = Api::namespaced(cluster.client_of(&user).await, &namespace);
        pods.list(&ListParams::default())
            .await
            .map(|list| list.items.len())
    };

    assert_eq!(
        list(json!({ "token": cluster.token(ADMIN) }))
            .await
            .expect("allowed"),
        0
    );
    let (code, _) = status(list(json!({ "token": "wrong" })).await.expect_err("refused"));
    assert_eq!(code, 401);
    for name in ["limited", "rotated", ROTATED_ANEW] {
        let refused = list(json!({ "token": cluster.token(name) })).await;
        let (code, message) = status(refused.expect_err("refused"));
        let user = name.split('-').next().expect("a word");
        assert_eq!(code, 403, "{message}");
        assert!(
            message.contains(&format!("User \"{user}\" cannot list")),
            "{message}"
        );
    }

    let identity = cluster.client_certificate("cert-user", Some("system:masters"));
    let user = json!({
        "client-certificate-data": base64(&identity.certificate),
        "client-key-data": base64(&identity.key),
    });
    assert_eq!(list(user).await.expect("allowed"), 0);

    let user = json!({ "token": cluster.token(ADMIN), "as": "somebody", "as-groups": [GROUP] });
    let (code, message) = status(list(user).await.expect_err("refused"));
    assert_eq!(code, 403);
    assert!(message.contains("User \"somebody\""), "{message}");

    let token = cluster.service_account_token(&namespace, "worker").await;
    let (code, message) = status(list(json!({ "token": token })).await.expect_err("refused"));
    assert_eq!(code, 403);
    assert!(
        message.contains(&format!("system:serviceaccount:{namespace}:worker")),
        "{message}"
    );
}

/// A Pod as Pod Security asks for it at the level "restricted".
fn restricted_pod(name: &str) -> Pod {
    serde_json::from_value(json!({
        "metadata": { "name": name },
        "spec": {
            "automountServiceAccountToken": false,
            "securityContext": { "runAsNonRoot": true, "runAsUser": 13, "seccompProfile": { "type": "RuntimeDefault" } },
            "containers": [{
                "name": "c",
                "image": "localhost/c:1",
                "securityContext": { "allowPrivilegeEscalation": false, "capabilities": { "drop": ["ALL"] } },
            }],
        },
    }))
    .expect("a Pod")
}

#[tokio::test]
#[ignore = "needs a Kubernetes API server"]
async fn quota_and_pod_security_refuse() {
    let cluster = Cluster::shared();
    let namespace = cluster.namespace().await;
    let client = cluster.client().await;
    let pods: Api<Pod> = Api::namespaced(client.clone(), &namespace);
    let post = PostParams::default();

    let mut plain = restricted_pod("plain");
    plain.spec.as_mut().expect("given").security_context = None;
    let (code, message) = status(pods.create(&post, &plain).await.expect_err("refused"));
    assert_eq!(code, 403);
    assert!(
        message.contains("violates PodSecurity \"restricted:latest\""),
        "{message}"
    );

    let quotas: Api<ResourceQuota> = Api::namespaced(client, &namespace);
    let quota = json!({ "metadata": { "name": "q" }, "spec": { "hard": { "pods": "1" } } });
    let quota = serde_json::from_value(quota).expect("a quota");
    quotas.create(&post, &quota).await.expect("created");
    wait::until_async("the quota's first count", async || {
        let quota = quotas.get("q").await.map_err(|error| error.to_string())?;
        let hard = quota.status.and_then(|status| status.hard);
        hard.ok_or_else(|| "no status".to_owned())
    })
    .await;
    pods.create(&post, &restricted_pod("a")).await.expect("created");
    let refused = pods.create(&post, &restricted_pod("b")).await;
    let (code, message) = status(refused.expect_err("refused"));
    assert_eq!(code, 403);
    assert!(message.contains("exceeded quota: q"), "{message}");
}

#[test]
#[ignore = "needs a Kubernetes API server"]
fn requests_are_counted_at_the_server() {
    let cluster = Cluster::start(Setup::default());
    let ((), asked) = cluster.requests(|| {
        cluster.block_on(async |client: kube::Client| {
            let pods: Api<Pod> = Api::default_namespaced(client);
            pods.list(&ListParams::default().limit(7)).await.expect("allowed");
            pods.get_opt("a").await.expect("allowed");
        });
    });
    let seen: Vec<_> = asked
        .iter()
        .map(|asked| (asked.verb.as_str(), asked.resource.as_str(), asked.code))
        .collect();
    assert_eq!(seen, [("list", "pods", 200), ("get", "pods", 404)], "{asked:#?}");
    assert!(asked[0].uri.contains("limit=7"), "{asked:#?}");
    assert_eq!(asked[0].user, ADMIN);

    let ((), asked) = cluster.requests(|| ());
    assert_eq!(asked, []);
}

#[tokio::test]
#[ignore = "needs a Kubernetes API server"]
async fn it_comes_back_on_its_port_with_what_it_knew() {
    let cluster = Cluster::start(Setup::default());
    let namespace = cluster.namespace().await;
    cluster.stop_api_server();
    let address = cluster.server().trim_start_matches("https://").to_owned();
    let refused = std::net::TcpStream::connect(&address);
    assert_eq!(
        refused.expect_err("nobody listens").kind(),
        std::io::ErrorKind::ConnectionRefused
    );
    cluster.start_api_server_again();
    let namespaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(cluster.client().await);
    namespaces.get(&namespace).await.expect("still there");
}

/// Processes that were told of a folder.
fn processes_of(folder: &str) -> Vec<String> {
    let entries = std::fs::read_dir("/proc").expect("/proc").flatten();
    let commands = entries.map(|entry| std::fs::read(entry.path().join("cmdline")).unwrap_or_default());
    commands
        .map(|bytes| String::from_utf8_lossy(&bytes).replace('\0', " "))
        .filter(|command| command.contains(folder))
        .collect()
}

#[track_caller]
fn nothing_is_left_of(folder: &str) {
    wait::until("the cluster's end", || {
        let left = processes_of(folder);
        let gone = left.is_empty() && !Path::new(folder).exists();
        gone.then_some(())
            .ok_or_else(|| format!("{folder} is there, or these: {left:#?}"))
    });
}

#[test]
#[ignore = "needs a Kubernetes API server"]
fn a_dropped_cluster_leaves_nothing() {
    let cluster = Cluster::start(Setup::default());
    let folder = cluster.folder().display().to_string();
    assert!(processes_of(&folder).len() >= 2, "etcd and the API server");
    drop(cluster);
    nothing_is_left_of(&folder);
}

#[test]
#[ignore = "needs a Kubernetes API server"]
fn a_killed_test_process_leaves_nothing() {
    const HOLD: &str = "EGRESS_TEST_HOLD_A_CLUSTER";
    const SAID: &str = "the cluster's folder is ";
    if std::env::var_os(HOLD).is_some() {
        // The process that is to be killed: it never ends by itself.
        let cluster = Cluster::start(Setup::default());
        println_through(&format!("{SAID}{}", cluster.folder().display()));
        let _ = std::io::stdin().read(&mut [0]);
        return;
    }
    let mut child = Command::new(std::env::current_exe().expect("this program"))
        .args([
            "--ignored",
            "--exact",
            "--nocapture",
            "a_killed_test_process_leaves_nothing",
        ])
        .env(HOLD, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("started");
    let output = BufReader::new(child.stdout.take().expect("piped"));
    let folder = output
        .lines()
        .map_while(Result::ok)
        .find_map(|line| line.split_once(SAID).map(|(_, folder)| folder.to_owned()))
        .expect("it says where its cluster is");
    assert!(processes_of(&folder).len() >= 2, "etcd and the API server");
    child.kill().expect("killed");
    child.wait().expect("our child");
    nothing_is_left_of(&folder);
}

#[expect(clippy::print_stdout, reason = "what the parent process reads")]
fn println_through(line: &str) {
    println!("{line}");
}

//! What the tests of a whole node rely on: it runs containers, its addresses are reached from here, and
//! nothing of it stays on the machine.

#[path = "kube_node/mod.rs"]
mod kube_node;

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, PostParams};
use kube_node::{Node, SQUID_IMAGE, wait};
use serde_json::json;

/// Squid under an arbitrary user, with what it is told and a place to write.
fn squid() -> Pod {
    let script = "printf '%s\\n' 'http_port 3128' 'http_access allow all' 'pid_filename none' \
                  'cache_log /dev/null' 'access_log none' 'netdb_filename none' >/run/squid/conf; \
                  exec squid -N -f /run/squid/conf";
    serde_json::from_value(json!({
        "metadata": { "name": "a" },
        "spec": {
            "automountServiceAccountToken": false,
            "securityContext": {
                "runAsNonRoot": true, "runAsUser": 65532, "runAsGroup": 65532,
                "seccompProfile": { "type": "RuntimeDefault" },
            },
            "containers": [{
                "name": "squid",
                "image": SQUID_IMAGE,
                "command": ["sh", "-c", script],
                "securityContext": {
                    "allowPrivilegeEscalation": false,
                    "readOnlyRootFilesystem": true,
                    "capabilities": { "drop": ["ALL"] },
                },
                "resources": { "limits": { "memory": "256Mi" } },
                "readinessProbe": { "tcpSocket": { "port": 3128 }, "periodSeconds": 1 },
                "volumeMounts": [{ "name": "run", "mountPath": "/run/squid" }],
            }],
            "volumes": [{ "name": "run", "emptyDir": {} }],
        },
    }))
    .expect("a Pod")
}

fn is_true(conditions: Option<Vec<k8s_openapi::api::core::v1::PodCondition>>, name: &str) -> bool {
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|condition| condition.type_ == name && condition.status == "True")
}

fn run_squid(node: &Node) -> SocketAddr {
    let cluster = node.cluster();
    cluster.block_on(async |client: kube::Client| {
        let namespace = cluster.namespace().await;
        let pods: Api<Pod> = Api::namespaced(client, &namespace);
        pods.create(&PostParams::default(), &squid())
            .await
            .expect("admitted");
        wait::until_async("a ready Pod", async || {
            let status = pods.get("a").await.map_err(|error| error.to_string())?.status;
            let status = status.ok_or("no status")?;
            let ip: Option<Ipv4Addr> = status.pod_ip.as_deref().and_then(|ip| ip.parse().ok());
            match ip.filter(|_| is_true(status.conditions.clone(), "Ready")) {
                Some(ip) => Ok(SocketAddr::from((ip, 3128))),
                None => Err(format!("{status:?}")),
            }
        })
        .await
    })
}

#[test]
#[ignore = "needs a Kubernetes node"]
fn containers_run_and_leave_nothing_on_the_machine() {
    let node = Node::start();
    let proxy = run_squid(&node);

    // There is no origin: that the answer is Squid's own shows that it is reached, and reaches here.
    let mut stream = TcpStream::connect(proxy).expect("the Pod is reached from here");
    let url = format!("http://{}:9/", node.gateway());
    write!(
        stream,
        "GET {url} HTTP/1.1\r\nHost: origin\r\nConnection: close\r\n\r\n"
    )
    .expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    assert!(
        answer.contains("ERR_CONNECT_FAIL 111"),
        "refused by this very machine: {answer}"
    );

    let folder = node.cluster().folder().to_owned();
    let cgroup = node.cgroup().to_owned();
    let interface = node.interface();
    let exists = |interface: &str| std::path::Path::new("/sys/class/net").join(interface).exists();
    assert!(exists(&interface));
    drop(node);

    wait::until("the node's end", || {
        let groups = std::process::Command::new("find")
            .args(["/sys/fs/cgroup", "-name", &cgroup])
            .output()
            .expect("find runs");
        if exists(&interface) {
            return Err(format!("{interface} is there"));
        }
        let left = String::from_utf8_lossy(&groups.stdout).into_owned();
        left.is_empty().then_some(()).ok_or(left)
    });
    assert!(!folder.exists(), "{}", folder.display());
    let processes = std::fs::read_dir("/proc").expect("/proc").flatten();
    for process in processes {
        let command = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&command).into_owned();
        assert!(!command.contains(folder.to_str().expect("UTF-8")), "{command}");
    }
}

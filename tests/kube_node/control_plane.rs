//! etcd, kube-apiserver and kube-controller-manager as processes: arguments, certificates, tokens.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::path::Path;

use rcgen::KeyPair;

use super::audit;
use super::authority::Authority;
use super::programs;
use super::supervisor::Supervisor;

/// The user with every right. The others have none until a test grants some.
pub(crate) const ADMIN: &str = "admin";
/// Users that authenticate by a token, all in the group `egress`.
pub(crate) const USERS: [&str; 2] = ["limited", "rotated"];
/// The name of a second token of the user `rotated`.
pub(crate) const ROTATED_ANEW: &str = "rotated-anew";
pub(crate) const GROUP: &str = "egress";

pub(super) const AUDIT_LOG: &str = "audit.log";

/// The processes that keep what a cluster knows.
pub(crate) struct ControlPlane {
    pub(super) supervisor: Supervisor,
    pub(super) authority: Authority,
    pub(super) server: String,
    tokens: BTreeMap<&'static str, String>,
}

/// Where they listen.
pub(super) struct Places {
    pub(super) api: (IpAddr, u16),
    pub(super) etcd_client: u16,
    pub(super) etcd_peer: u16,
    /// The network of cluster IPs, and the first of its addresses, which is the API server's.
    pub(super) services: (String, IpAddr),
}

impl ControlPlane {
    /// In the test's own namespaces, so that root is not needed.
    pub(super) fn on_loopback(controllers: bool) -> Self {
        let [api, etcd_client, etcd_peer] = free_ports();
        let places = Places {
            api: (Ipv4Addr::LOCALHOST.into(), api),
            etcd_client,
            etcd_peer,
            services: ("10.0.0.0/24".into(), Ipv4Addr::new(10, 0, 0, 1).into()),
        };
        // Without controllers nobody makes the accounts that this plugin waits for.
        let without: &[&str] = if controllers { &[] } else { &["ServiceAccount"] };
        Self::start(Supervisor::here(), &places, without)
    }

    /// Starts etcd and the API server; neither answers yet when this returns.
    pub(super) fn start(supervisor: Supervisor, places: &Places, without: &[&str]) -> Self {
        let authority = Authority::new("egress-test");
        let (address, port) = places.api;
        let etcd = format!("http://127.0.0.1:{}", places.etcd_client);
        supervisor.run(
            "etcd",
            &programs::etcd(),
            &etcd_arguments(&supervisor, &etcd, places.etcd_peer),
        );

        let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let identity = authority.server(
            &[address, loopback, places.services.1],
            &["kubernetes.default.svc", "localhost"],
        );
        let accounts = KeyPair::generate().expect("a key");
        let tokens = tokens();
        let mut table = String::new();
        for (name, token) in &tokens {
            let (user, group) = match *name {
                ADMIN => (ADMIN, "system:masters"),
                ROTATED_ANEW => ("rotated", GROUP),
                user => (user, GROUP),
            };
            let _ = writeln!(table, "{token},{user},{user},{group}");
        }
        let file = |name: &str, content: &str| supervisor.write(name, content).display().to_string();
        let mut arguments = vec![
            format!("--etcd-servers={etcd}"),
            format!("--bind-address={address}"),
            format!("--secure-port={port}"),
            format!("--advertise-address={address}"),
            format!("--client-ca-file={}", file("ca.crt", authority.certificate())),
            format!("--tls-cert-file={}", file("server.crt", &identity.certificate)),
            format!("--tls-private-key-file={}", file("server.key", &identity.key)),
            format!("--token-auth-file={}", file("tokens.csv", &table)),
            format!(
                "--service-account-signing-key-file={}",
                file("accounts.key", &accounts.serialize_pem())
            ),
            format!(
                "--service-account-key-file={}",
                file("accounts.pub", &accounts.public_key_pem())
            ),
            "--service-account-issuer=https://kubernetes.default.svc".into(),
            format!("--service-cluster-ip-range={}", places.services.0),
            "--authorization-mode=Node,RBAC".into(),
            format!("--audit-policy-file={}", file("audit.yaml", audit::POLICY)),
            format!("--audit-log-path={}", supervisor.path(AUDIT_LOG).display()),
            // 400 requests at a time are more than any test asks for; what is tested is no queue.
            "--enable-priority-and-fairness=false".into(),
        ];
        if address.is_loopback() {
            // It would be reconciled into an Endpoints object that may not hold a loopback address.
            arguments.retain(|argument| !argument.starts_with("--advertise-address"));
            arguments.push("--endpoint-reconciler-type=none".into());
        }
        if !without.is_empty() {
            arguments.push(format!("--disable-admission-plugins={}", without.join(",")));
        }
        supervisor.run(
            "kube-apiserver",
            &programs::kubernetes("kube-apiserver"),
            &arguments,
        );
        Self {
            supervisor,
            authority,
            server: format!("https://{address}:{port}"),
            tokens,
        }
    }

    /// Starts kube-controller-manager with the administrator's kubeconfig.
    pub(super) fn start_controllers(&self, kubeconfig: &Path) {
        let path = |name: &str| self.supervisor.path(name).display().to_string();
        let arguments = [
            format!("--kubeconfig={}", kubeconfig.display()),
            format!("--service-account-private-key-file={}", path("accounts.key")),
            format!("--root-ca-file={}", path("ca.crt")),
            "--leader-elect=false".into(),
            "--secure-port=0".into(),
            "--node-monitor-grace-period=20s".into(),
        ];
        let program = programs::kubernetes("kube-controller-manager");
        self.supervisor
            .run("kube-controller-manager", &program, &arguments);
    }

    pub(super) fn token(&self, name: &str) -> &str {
        self.tokens.get(name).unwrap_or_else(|| panic!("no user {name}"))
    }

    /// What a log says of it when somebody else was faster to take a port.
    pub(super) fn port_was_taken(&self) -> Option<String> {
        let logs = ["etcd", "kube-apiserver"].map(|name| self.supervisor.log(name));
        logs.into_iter()
            .find(|log| log.contains("address already in use"))
    }
}

fn tokens() -> BTreeMap<&'static str, String> {
    let names = [ADMIN, ROTATED_ANEW].into_iter().chain(USERS);
    names
        .map(|name| (name, uuid::Uuid::new_v4().simple().to_string()))
        .collect()
}

fn etcd_arguments(supervisor: &Supervisor, client: &str, peer: u16) -> Vec<String> {
    let peer = format!("http://127.0.0.1:{peer}");
    vec![
        format!("--data-dir={}", supervisor.path("data/etcd").display()),
        format!("--listen-client-urls={client}"),
        format!("--advertise-client-urls={client}"),
        format!("--listen-peer-urls={peer}"),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--initial-cluster=default={peer}"),
    ]
}

/// Ports that nobody listens on, below those that the kernel gives to clients.
fn free_ports<const N: usize>() -> [u16; N] {
    let mut listeners = Vec::new();
    while listeners.len() < N {
        let random = u16::from_le_bytes(
            uuid::Uuid::new_v4().as_bytes()[..2]
                .try_into()
                .expect("two bytes"),
        );
        let port = 20_000 + random % 12_000;
        listeners.extend(TcpListener::bind((Ipv4Addr::LOCALHOST, port)));
    }
    std::array::from_fn(|index| listeners[index].local_addr().expect("bound").port())
}

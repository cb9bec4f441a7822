//! A namespace as the examples prepare it, a workspace whose provider may do there what the Role allows,
//! and requests through the proxies in it.
//!
//! Knows nothing of what is tested. Invariant: everything has names of its own, so that tests of one node
//! do not meet.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;

use k8s_openapi::api::core::v1::{Pod, Service};
use kube::api::{Api, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpSocket;

use crate::kube_node::{Cluster, NODE, Node, SQUID_IMAGE, kubectl, wait};
use crate::release::Cli;
use crate::run::Run;
use crate::workspace::{Started, Workspace};

pub(super) const OK: &str = "HTTP/1.1 200 OK";
pub(super) const FORBIDDEN: &str = "HTTP/1.1 403 Forbidden";
/// The address of the resource in every configuration here.
pub(super) const ADDRESS: &str = "egress_proxy.a";

pub(super) struct Rig<'n> {
    pub(super) workspace: Workspace,
    pub(super) node: &'n Node,
    pub(super) namespace: String,
    kubeconfig: String,
    origin: SocketAddr,
}

impl<'n> Rig<'n> {
    /// On the node that the tests of this process share.
    pub(super) fn new(cli: &Cli) -> Rig<'static> {
        Rig::on(Node::shared(), cli)
    }

    pub(super) fn on(node: &'n Node, cli: &Cli) -> Self {
        let workspace = Workspace::new(cli);
        let namespace = format!("t-{}", uuid::Uuid::new_v4().simple());
        prepare(&workspace, node.cluster(), &namespace, Rights::InOneNamespace);
        let token = node.cluster().block_on(async |_| {
            node.cluster()
                .service_account_token(&namespace, "egress-proxies")
                .await
        });
        let kubeconfig = node.cluster().kubeconfig_with(&json!({ "token": token }));
        Self {
            workspace,
            node,
            namespace,
            kubeconfig: kubeconfig.display().to_string(),
            origin: origin(node.gateway()),
        }
    }

    /// A configuration with one proxy: these lines in its `kubernetes` block, and these in the resource.
    pub(super) fn configure(&self, backend: &str, resource: &str) {
        self.configure_with(backend, resource, "");
    }

    /// The same, and these lines in its `access` block.
    pub(super) fn configure_with(&self, backend: &str, resource: &str, access: &str) {
        let (gateway, origin) = (self.node.gateway(), self.origin.port());
        let main = format!(
            r#"{}

resource "egress_proxy" "a" {{
  name     = "a"
  wait_for = "ready"
{resource}

  access {{
    allowed_cidrs = ["{gateway}/32", "{}/32"]
    allowed_ports = [{origin}]
{access}  }}
}}

output "proxy_url" {{
  value = egress_proxy.a.proxy_url
}}
"#,
            provider(&self.kubeconfig, &self.namespace, backend),
            self.node.pods_gateway(),
        );
        self.workspace.write("main.tf", &main);
    }

    /// What a GET of the origin is answered through the proxy of the state, coming from this address.
    pub(super) fn get_from(&self, source: Ipv4Addr) -> String {
        self.get_with(source, "")
    }

    /// The same with these further header lines.
    pub(super) fn get_with(&self, source: Ipv4Addr, headers: &str) -> String {
        self.request(source, headers)
            .unwrap_or_else(|error| format!("{error}"))
    }

    /// The same from an address that is allowed, once the proxy answers.
    #[track_caller]
    pub(super) fn serves(&self) {
        wait::until("a request through the proxy", || {
            let answer = self.get_from(self.node.gateway());
            (answer == OK).then_some(()).ok_or(answer)
        });
    }

    /// Where the proxy of the state says it is.
    pub(super) fn proxy(&self) -> SocketAddr {
        let state = self.workspace.state_of(ADDRESS).expect("in the state");
        let ip: IpAddr = state["ip"]
            .as_str()
            .expect("an address")
            .parse()
            .expect("an address");
        let port = u16::try_from(state["port"].as_u64().expect("a port")).expect("a port");
        SocketAddr::new(ip, port)
    }

    /// A GET of the origin, for what sends it itself.
    pub(super) fn get_line(&self) -> String {
        let origin = self.origin;
        format!("GET http://{origin}/ HTTP/1.1\r\nHost: {origin}\r\nConnection: close\r\n\r\n")
    }

    fn request(&self, source: Ipv4Addr, headers: &str) -> std::io::Result<String> {
        let proxy = self.proxy();
        let request = self.get_line().replacen("\r\n", &format!("\r\n{headers}"), 1);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        runtime.block_on(async {
            let socket = TcpSocket::new_v4()?;
            socket.bind(SocketAddr::from((source, 0)))?;
            let mut stream = socket.connect(proxy).await?;
            stream.write_all(request.as_bytes()).await?;
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).await?;
            let answer = String::from_utf8_lossy(&answer).into_owned();
            Ok(answer.lines().next().unwrap_or_default().to_owned())
        })
    }

    /// The Pod, as the API server has it.
    pub(super) fn pod(&self) -> Option<Pod> {
        self.node.cluster().block_on(async |client: kube::Client| {
            let pods: Api<Pod> = Api::namespaced(client, &self.namespace);
            pods.get_opt("a").await.expect("answered")
        })
    }

    /// Changes the Pod behind everybody's back.
    pub(super) fn patch_pod(&self, patch: &Value) {
        self.node.cluster().block_on(async |client: kube::Client| {
            let pods: Api<Pod> = Api::namespaced(client, &self.namespace);
            let merge = Patch::Merge(patch);
            pods.patch("a", &PatchParams::default(), &merge)
                .await
                .expect("patched");
        });
    }

    /// Puts the Pod on the node, as a scheduler that looks at nothing would.
    pub(super) fn bind_pod(&self) {
        let binding = json!({
            "apiVersion": "v1", "kind": "Binding", "metadata": { "name": "a" },
            "target": { "apiVersion": "v1", "kind": "Node", "name": NODE },
        });
        let path = format!("/api/v1/namespaces/{}/pods/a/binding", self.namespace);
        self.node.cluster().block_on(async |client: kube::Client| {
            let request = http::Request::post(&path)
                .header(http::header::CONTENT_TYPE, "application/json")
                .body(binding.to_string().into_bytes())
                .expect("sound");
            client.request_text(request).await.expect("bound");
        });
    }

    /// Waits until the Pod is as wanted.
    #[track_caller]
    pub(super) fn until_pod(&self, what: &str, wanted: impl Fn(Option<&Pod>) -> bool) {
        wait::until(what, || {
            let pod = self.pod();
            let status = pod.as_ref().and_then(|pod| pod.status.as_ref());
            wanted(pod.as_ref())
                .then_some(())
                .ok_or_else(|| format!("{status:?}"))
        });
    }

    /// Nothing of a proxy is in the API or on the node any more.
    #[track_caller]
    pub(super) fn is_empty(&self) {
        let left = self.node.cluster().block_on(async |client: kube::Client| {
            let pods: Api<Pod> = Api::namespaced(client.clone(), &self.namespace);
            let services: Api<Service> = Api::namespaced(client, &self.namespace);
            let all = ListParams::default();
            let pods = pods.list(&all).await.expect("answered").items;
            let services = services.list(&all).await.expect("answered").items;
            let pods = pods.into_iter().filter_map(|pod| pod.metadata.name);
            pods.chain(services.into_iter().filter_map(|service| service.metadata.name))
                .collect::<Vec<_>>()
        });
        assert_eq!(left, [""; 0], "objects in the API");
        // The kubelet removes what is left of a container a moment after it has given up the Pod.
        wait::until("the node's own clearing up", || {
            let left = self.node.containers(&self.namespace, "a");
            left.is_empty().then_some(()).ok_or_else(|| format!("{left:?}"))
        });
    }

    /// kubectl as the administrator.
    pub(super) fn kubectl(&self, arguments: &[&str]) -> Run {
        run_kubectl(&self.workspace, self.node.cluster(), arguments)
    }
}

/// The beginning of a configuration.
pub(super) fn provider(kubeconfig: &str, namespace: &str, backend: &str) -> String {
    format!(
        r#"terraform {{
  required_providers {{
    egress = {{
      source = "egress-proxies/egress"
    }}
  }}
}}

provider "egress" {{
  installation = "prod"

  backend "cluster" {{
    kubernetes {{
      kubeconfig = "{kubeconfig}"
      namespace  = "{namespace}"
      image      = "{SQUID_IMAGE}"
{backend}
    }}
  }}
}}"#
    )
}

/// Which of the examples' kustomizations.
#[derive(Clone, Copy, Debug)]
pub(super) enum Rights {
    /// `examples/kubernetes/namespace`
    InOneNamespace,
    /// `examples/kubernetes/all-namespaces`
    ToListAll,
}

/// Applies an example to a namespace of this name, as its first lines say.
pub(super) fn prepare(workspace: &Workspace, cluster: &Cluster, namespace: &str, rights: Rights) {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/kubernetes");
    let copy = workspace.path("rbac");
    for folder in ["namespace", "all-namespaces"] {
        fs::create_dir_all(copy.join(folder)).expect("a folder");
        for file in fs::read_dir(examples.join(folder))
            .expect("the example")
            .flatten()
        {
            let text = fs::read_to_string(file.path()).expect("text");
            let named = text.replace("\nnamespace: egress\n", &format!("\nnamespace: {namespace}\n"));
            fs::write(copy.join(folder).join(file.file_name()), named).expect("written");
        }
    }
    let applied = copy.join(match rights {
        Rights::InOneNamespace => "namespace",
        Rights::ToListAll => "all-namespaces",
    });
    run_kubectl(
        workspace,
        cluster,
        &["apply", "-k", &applied.display().to_string()],
    )
    .succeeds();
}

fn run_kubectl(workspace: &Workspace, cluster: &Cluster, arguments: &[&str]) -> Run {
    let config = format!("--kubeconfig={}", cluster.kubeconfig().display());
    let arguments = [&[config.as_str()], arguments].concat();
    let command = workspace.command(&kubectl(), &workspace.infra(), &arguments);
    Started::new(command, arguments.join(" ")).wait()
}

/// Answers every request on this address as long as the tests run.
fn origin(address: Ipv4Addr) -> SocketAddr {
    let listener = TcpListener::bind((address, 0)).expect("an address of ours");
    let bound = listener.local_addr().expect("bound");
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        }
    });
    bound
}

//! A whole node: everything from etcd to a kubelet that runs containers.
//!
//! It lives in network, process and mount namespaces of its own, behind one veth pair, and goes with them.
//! From the test's namespace its addresses are reached directly: the API server, Pods, cluster IPs, node
//! ports. Pods reach the test at [`Node::gateway`]. All addresses are of 198.18.0.0/15, which RFC 2544
//! keeps for tests of networks; which part of it is decided by the first free interface name, so that
//! nodes do not meet.

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::LazyLock;

use base64::Engine as _;
use k8s_openapi::api::core::v1::Node as NodeObject;
use kube::api::Api;
use serde_json::{Value, json};

use super::cluster::Cluster;
use super::control_plane::{ControlPlane, Places};
use super::programs;
use super::supervisor::Supervisor;
use super::wait;

/// The node's name.
pub(crate) const NODE: &str = "node1";
/// The image with Squid that the node has; it can pull none.
pub(crate) const SQUID_IMAGE: &str = "localhost/squid:1";

pub(crate) struct Node {
    cluster: Cluster,
    cgroup: String,
    number: u8,
    inner_pid: u32,
}

static SHARED: LazyLock<Node> = LazyLock::new(Node::start);

impl Node {
    /// The one that all tests of this process share, started by the first that asks.
    pub(crate) fn shared() -> &'static Self {
        &SHARED
    }

    /// One of the test's own. Needs root.
    pub(crate) fn start() -> Self {
        let cgroup = format!("egress-{}", uuid::Uuid::new_v4().simple());
        let supervisor = Supervisor::isolated(&cgroup);
        let inner_pid = supervisor.inner_pid();
        let number = connect(inner_pid);
        let address = IpAddr::V4(link(number, 2));
        let folder = supervisor.folder().to_owned();

        supervisor.write("containerd.toml", containerd_config(&folder));
        fs::create_dir(folder.join("cni")).expect("a folder");
        supervisor.write("cni/10-bridge.conflist", network_config(&folder, number));
        let config = format!("--config={}", folder.join("containerd.toml").display());
        supervisor.run(
            "containerd",
            &programs::on_path("containerd").expect("containerd is installed"),
            &[config],
        );

        let places = Places {
            api: (address, 6443),
            etcd_client: 2379,
            etcd_peer: 2380,
            services: (services(number), Ipv4Addr::new(198, 18, number, 129).into()),
        };
        let control_plane = ControlPlane::start(supervisor, &places, &[]);
        let node = Self {
            cluster: Cluster::of(control_plane, true),
            cgroup,
            number,
            inner_pid,
        };
        node.import_image(&programs::tool("pause-image"));
        node.import_image(&programs::tool("squid-image"));
        node.cluster
            .wait_ready()
            .expect("nobody else has the ports of a namespace of its own");
        node.run_components();
        node.wait_ready();
        node
    }

    pub(crate) fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Where a Pod finds what listens in the test's own namespace, on any port.
    pub(crate) fn gateway(&self) -> Ipv4Addr {
        link(self.number, 1)
    }

    /// A second address of the test's own namespace, to come from as another client.
    pub(crate) fn stranger(&self) -> Ipv4Addr {
        link(self.number, 3)
    }

    /// The node's address in the Pod network, from which its probes come.
    pub(crate) fn pods_gateway(&self) -> Ipv4Addr {
        Ipv4Addr::new(198, 19, self.number, 1)
    }

    /// The node's own address, for node ports.
    pub(crate) fn address(&self) -> Ipv4Addr {
        link(self.number, 2)
    }

    /// The interface on this side of the link.
    pub(crate) fn interface(&self) -> String {
        format!("egress{}", self.number)
    }

    /// The control group of everything that runs there.
    pub(crate) fn cgroup(&self) -> &str {
        &self.cgroup
    }

    /// The namespace's first process and all it started live in the namespaces of this process.
    pub(crate) fn inside(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new("nsenter");
        command
            .arg(format!("--target={}", self.inner_pid))
            .args(["--mount", "--net", "--pid", "--"])
            .arg(program.as_ref())
            .stdin(Stdio::null());
        command
    }

    /// Asks containerd.
    pub(crate) fn ctr(&self, arguments: &[&str]) -> String {
        let mut command = self.inside("ctr");
        command.args([
            "--address",
            &containerd_socket(self.cluster.folder()),
            "--namespace",
            "k8s.io",
        ]);
        said(command.args(arguments))
    }

    /// The containers of a Pod that containerd knows, its sandbox left out.
    pub(crate) fn containers(&self, namespace: &str, pod: &str) -> Vec<String> {
        let filter = format!(
            "labels.\"io.kubernetes.pod.namespace\"=={namespace},labels.\"io.kubernetes.pod.name\"=={pod},\
             labels.\"io.cri-containerd.kind\"==container"
        );
        let list = self.ctr(&["containers", "list", "--quiet", &filter]);
        list.lines().map(str::to_owned).collect()
    }

    /// Stops the kubelet without a word to the API server: the node falls silent.
    pub(crate) fn silence(&self) {
        self.cluster.own().supervisor.stop("kubelet");
    }

    /// Starts it again and waits until the node is back.
    pub(crate) fn speak_again(&self) {
        self.cluster.own().supervisor.again("kubelet");
        self.wait_ready();
    }

    fn import_image(&self, archive: &Path) {
        wait::until("containerd", || {
            let mut command = self.inside("ctr");
            command.args(["--address", &containerd_socket(self.cluster.folder()), "version"]);
            let output = command.output().expect("nsenter runs");
            output.status.success().then_some(()).ok_or_else(|| {
                format!(
                    "{}\n{}",
                    text(&output),
                    self.cluster.own().supervisor.log("containerd")
                )
            })
        });
        self.ctr(&["images", "import", &archive.display().to_string()]);
    }

    fn run_components(&self) {
        let supervisor = &self.cluster.own().supervisor;
        let component = |user: &str, group: Option<&str>| {
            let identity = self.cluster.client_certificate(user, group);
            let encode = |pem: &str| base64::engine::general_purpose::STANDARD.encode(pem);
            let user = json!({
                "client-certificate-data": encode(&identity.certificate),
                "client-key-data": encode(&identity.key),
            });
            format!("--kubeconfig={}", self.cluster.kubeconfig_with(&user).display())
        };
        let folder = self.cluster.folder();
        let config = supervisor.write("kubelet.json", kubelet_config(folder, self.number).to_string());
        supervisor.write("resolv.conf", "");
        supervisor.run(
            "kubelet",
            &programs::kubernetes("kubelet"),
            &[
                component(&format!("system:node:{NODE}"), Some("system:nodes")),
                format!("--config={}", config.display()),
                format!("--hostname-override={NODE}"),
                format!("--node-ip={}", self.address()),
                format!("--root-dir={}", folder.join("data/kubelet").display()),
                // A selector for each of these can be tested.
                "--node-labels=topology.kubernetes.io/zone=zone-a,topology.kubernetes.io/region=region-1,node.kubernetes.io/instance-type=small".into(),
                "--fail-cgroupv1=false".into(),
            ],
        );
        supervisor.run(
            "kube-scheduler",
            &programs::kubernetes("kube-scheduler"),
            &[
                component("system:kube-scheduler", None),
                "--leader-elect=false".into(),
                "--secure-port=0".into(),
            ],
        );
        supervisor.run(
            "kube-proxy",
            &programs::kubernetes("kube-proxy"),
            &[
                component("system:kube-proxy", None),
                "--proxy-mode=iptables".into(),
                format!("--hostname-override={NODE}"),
                format!("--cluster-cidr={}", pods(self.number)),
                // What would need rights over the whole machine.
                "--conntrack-max-per-core=0".into(),
                "--conntrack-tcp-timeout-established=0".into(),
                "--conntrack-tcp-timeout-close-wait=0".into(),
            ],
        );
    }

    fn wait_ready(&self) {
        let supervisor = &self.cluster.own().supervisor;
        self.cluster.block_on(async |client: kube::Client| {
            let nodes: Api<NodeObject> = Api::all(client);
            wait::until_async("a ready node", async || {
                let node = nodes.get(NODE).await;
                let node = node.map_err(|error| format!("{error}\n{}", supervisor.log("kubelet")))?;
                let conditions = node
                    .status
                    .and_then(|status| status.conditions)
                    .unwrap_or_default();
                let taints = node.spec.and_then(|spec| spec.taints).unwrap_or_default();
                let ready = conditions
                    .iter()
                    .any(|condition| condition.type_ == "Ready" && condition.status == "True");
                if ready && taints.is_empty() {
                    return Ok(());
                }
                Err(format!(
                    "{conditions:?} {taints:?}\n{}",
                    supervisor.log("kubelet")
                ))
            })
            .await;
        });
    }
}

/// Lays the veth pair and says which number was free.
fn connect(inner_pid: u32) -> u8 {
    let random = uuid::Uuid::new_v4().as_bytes()[0];
    let free = (0..=u8::MAX)
        .map(|step| random.wrapping_add(step))
        .find(|number| {
            let name = format!("egress{number}");
            let mut command = Command::new("ip");
            command.args([
                "link", "add", &name, "type", "veth", "peer", "name", "uplink", "netns",
            ]);
            let output = command.arg(inner_pid.to_string()).output().expect("ip runs");
            let taken = text(&output).contains("File exists");
            assert!(taken || output.status.success(), "{}", text(&output));
            !taken
        });
    let number = free.expect("a free number");
    let (here, there) = (link(number, 1), link(number, 2));
    let outside = |command: &str| said(Command::new("ip").args(command.split_whitespace()));
    let inside = |command: &str| {
        let target = format!("--target={inner_pid}");
        said(
            Command::new("nsenter")
                .args([&target, "--net", "ip"])
                .args(command.split_whitespace()),
        )
    };
    outside(&format!("address add {here}/26 dev egress{number}"));
    outside(&format!("address add {}/26 dev egress{number}", link(number, 3)));
    outside(&format!("link set egress{number} up"));
    outside(&format!("route add {} via {there}", services(number)));
    outside(&format!("route add {} via {there}", pods(number)));
    inside("link set lo up");
    inside(&format!("address add {there}/26 dev uplink"));
    inside("link set uplink up");
    inside(&format!("route add default via {here}"));
    number
}

/// An address of the link between test and node.
fn link(number: u8, host: u8) -> Ipv4Addr {
    Ipv4Addr::new(198, 18, number, host)
}

fn services(number: u8) -> String {
    format!("198.18.{number}.128/25")
}

fn pods(number: u8) -> String {
    format!("198.19.{number}.0/24")
}

fn containerd_socket(folder: &Path) -> String {
    folder.join("data/containerd.sock").display().to_string()
}

fn containerd_config(folder: &Path) -> String {
    let data = folder.join("data").display().to_string();
    format!(
        r#"version = 2
root = "{data}/containerd"
state = "{data}/containerd-state"
[grpc]
  address = "{data}/containerd.sock"
[plugins."io.containerd.internal.v1.opt"]
  path = "{data}/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/pause:1"
  # Without CAP_SYS_RESOURCE runc cannot lower a process's oom_score_adj, and dies of it.
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{}"
"#,
        folder.join("cni").display(),
    )
}

fn network_config(folder: &Path, number: u8) -> String {
    json!({
        "cniVersion": "1.0.0",
        "name": "egress",
        "plugins": [{
            "type": "bridge",
            "bridge": "pods",
            "isGateway": true,
            "ipam": {
                "type": "host-local",
                "dataDir": folder.join("data/ipam"),
                "ranges": [[{ "subnet": pods(number) }]],
                "routes": [{ "dst": "0.0.0.0/0" }],
            },
        }],
    })
    .to_string()
}

fn kubelet_config(folder: &Path, number: u8) -> Value {
    json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": "127.0.0.1",
        "containerRuntimeEndpoint": format!("unix://{}", containerd_socket(folder)),
        "cgroupDriver": "cgroupfs",
        // Without a tree of groups by quality of service it needs none of systemd's.
        "cgroupsPerQOS": false,
        "enforceNodeAllocatable": [],
        "failSwapOn": false,
        "localStorageCapacityIsolation": false,
        // Nothing answers names there, but a kubelet without one complains about each Pod.
        "clusterDNS": [link(number, 1)],
        // The machine's own disk and memory decide nothing here.
        "evictionHard": {},
        "imageGCHighThresholdPercent": 100,
        "nodeStatusUpdateFrequency": "2s",
        "authentication": { "anonymous": { "enabled": true }, "webhook": { "enabled": false } },
        "authorization": { "mode": "AlwaysAllow" },
        "podLogsDir": folder.join("data/podlogs"),
        "resolvConf": folder.join("resolv.conf"),
        "volumePluginDir": folder.join("data/plugins"),
    })
}

fn said(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", text(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr[..]].concat()).into_owned()
}

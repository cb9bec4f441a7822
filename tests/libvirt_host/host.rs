//! The host: its namespaces, its libvirtd, and what one asks of it.

use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Output, Stdio};

use super::sshd::Sshd;

/// The host's address on the network `proxies` (bridge `virbr7`).
pub(crate) const GATEWAY: &str = "192.168.150.1";
/// Another address that requests can come from.
pub(crate) const STRANGER: &str = "192.168.150.250";
/// Where the host answers HTTP on [`GATEWAY`]: `/hello` is one line.
pub(crate) const ORIGIN_PORT: u16 = 8099;

/// A host that ends with the test.
pub(crate) struct Host {
    folder: PathBuf,
    child: Child,
    /// Its end is what ends the host.
    input: Option<ChildStdin>,
    /// The first process inside, for nsenter.
    inside: u32,
    sshd: Sshd,
}

impl Host {
    /// Starts one, with the pool `default` and the network `proxies`.
    pub(crate) fn start() -> Self {
        let folder = tempfile::Builder::new()
            .prefix("egress-libvirt-")
            .tempdir()
            .expect("a temporary folder")
            .keep();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/libvirt_host/host.sh");
        let mut child = Command::new("sh")
            .arg(script)
            .arg(&folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Ctrl-C is for the test process: the end of the pipe tells this one.
            .process_group(0)
            .spawn()
            .expect("sh");
        let input = child.stdin.take();
        let mut said = String::new();
        let mut output = BufReader::new(child.stdout.take().expect("piped"));
        output.read_line(&mut said).expect("the host says something");
        let log = || std::fs::read_to_string(folder.join("host.log")).unwrap_or_default();
        assert_eq!(said, "ready\n", "the host did not start: {}", log());
        let inside = child_of(child_of(child.id()));
        let sshd = Sshd::start(&folder, inside);
        Self {
            folder,
            child,
            input,
            inside,
            sshd,
        }
    }

    /// Where libvirtd's socket is inside, which is the usual place.
    pub(crate) const SOCKET: &str = "/run/libvirt/libvirt-sock";

    /// The port of its sshd on the loopback interface of the test.
    pub(crate) fn port(&self) -> u16 {
        self.sshd.port()
    }

    /// The key that its root accepts.
    pub(crate) fn key_file(&self) -> PathBuf {
        self.folder.join("id")
    }

    /// A file that vouches for its key, as 127.0.0.1 at its port.
    pub(crate) fn known_hosts(&self) -> PathBuf {
        self.folder.join("known_hosts")
    }

    /// A file of the pool.
    pub(crate) fn pool(&self, name: &str) -> PathBuf {
        self.folder.join("pool").join(name)
    }

    /// A socket of the host as a path of the test's own namespaces.
    pub(crate) fn socket(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root{}", self.inside, Self::SOCKET))
    }

    /// A program inside.
    pub(crate) fn inside(&self, program: &str, arguments: &[&str]) -> Output {
        Command::new("nsenter")
            .args(["--net", "--mount", "--pid", "--target"])
            .arg(self.inside.to_string())
            .arg("--")
            .arg(program)
            .args(arguments)
            .stdin(Stdio::null())
            .output()
            .expect("nsenter runs")
    }

    /// What libvirt's own client prints.
    #[track_caller]
    pub(crate) fn virsh(&self, arguments: &[&str]) -> String {
        let all = [&["-q", "-c", "qemu:///system"], arguments].concat();
        let output = self.inside("virsh", &all);
        assert!(
            output.status.success(),
            "virsh {arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).expect("text").trim().to_owned()
    }

    /// Defines a domain that is nobody's here.
    #[track_caller]
    pub(crate) fn define(&self, xml: &str) {
        let file = self.folder.join("domain.xml");
        std::fs::write(&file, xml).expect("written");
        self.virsh(&["define", &file.display().to_string()]);
    }

    /// What a running guest prints on its console from now on.
    pub(crate) fn console(&self, domain: &str) -> Console {
        let terminal = self.virsh(&["ttyconsole", domain]);
        let path = self.folder.join(format!("{domain}.console"));
        let child = Command::new("nsenter")
            .args(["--net", "--mount", "--pid", "--target"])
            .arg(self.inside.to_string())
            .args(["--", "cat", &terminal])
            .stdin(Stdio::null())
            .stdout(std::fs::File::create(&path).expect("a file"))
            .spawn()
            .expect("nsenter runs");
        Console { path, child }
    }

    /// The names of all domains, running or not.
    pub(crate) fn domains(&self) -> Vec<String> {
        lines(&self.virsh(&["list", "--all", "--name"]))
    }

    /// The names of the pool's volumes.
    pub(crate) fn volumes(&self) -> Vec<String> {
        self.virsh(&["pool-refresh", "default"]);
        let listed = self.virsh(&["vol-list", "default"]);
        lines(&listed)
            .iter()
            .filter_map(|line| line.split_whitespace().next().map(str::to_owned))
            .collect()
    }

    /// What a request for `/hello` through a proxy is answered with, asked from an address of the host: the
    /// status, and what came.
    pub(crate) fn get_through(&self, proxy: &str, from: &str, credentials: Option<&str>) -> String {
        const ASK: &str = "
import base64, http.client, sys
proxy, source, url, credentials = sys.argv[1:5]
host, port = proxy.rsplit(':', 1)
connection = http.client.HTTPConnection(host, int(port), timeout=60, source_address=(source, 0))
headers = {}
if credentials:
    headers['Proxy-Authorization'] = 'Basic ' + base64.b64encode(credentials.encode()).decode()
connection.request('GET', url, headers=headers)
answer = connection.getresponse()
print(answer.status, answer.read().decode().strip() if answer.status == 200 else answer.reason)
";
        let url = format!("http://{GATEWAY}:{ORIGIN_PORT}/hello");
        let arguments = ["-c", ASK, proxy, from, &url, credentials.unwrap_or_default()];
        let output = self.inside("python3", &arguments);
        if output.status.success() {
            String::from_utf8_lossy(&output.stdout).trim().to_owned()
        } else {
            let error = String::from_utf8_lossy(&output.stderr);
            error.lines().last().unwrap_or_default().to_owned()
        }
    }
}

/// A guest's console.
pub(crate) struct Console {
    path: PathBuf,
    child: Child,
}

impl Console {
    /// All it printed.
    pub(crate) fn said(&self) -> String {
        let bytes = std::fs::read(&self.path).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.input.take();
        let _ = self.child.wait();
    }
}

fn lines(text: &str) -> Vec<String> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.map(str::to_owned).collect()
}

fn child_of(pid: u32) -> u32 {
    let path = format!("/proc/{pid}/task/{pid}/children");
    let children = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let first = children
        .split_whitespace()
        .next()
        .and_then(|pid| pid.parse().ok());
    first.unwrap_or_else(|| panic!("{path} names no process"))
}

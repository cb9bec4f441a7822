//! A libvirtd of the test's own, without privileges, in folders of the test's own. Its test driver has
//! domains, its storage driver has volumes that are files.
//!
//! It knows nothing of what is tested. Invariant: it ends with the test.

use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use egress::transport::call::{Interval, Limits, Look, poll};
use egress::transport::libvirt::{Client, Settings};
use tempfile::TempDir;
use tokio::net::UnixStream;

/// The URI of the driver that makes domains up.
pub(crate) const TEST: &str = "test:///default";
/// The URI of the driver that has volumes and no domains.
pub(crate) const STORAGE: &str = "storage:///session";

/// A libvirtd that ends with the test.
pub(crate) struct Daemon {
    child: Child,
    pub(crate) folder: TempDir,
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const NOBODY: u32 = 65534;

impl Daemon {
    /// Starts one, and waits until it listens.
    pub(crate) async fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        let root = rustix::process::getuid().is_root();
        std::fs::write(path("libvirtd.conf"), "auth_unix_rw = \"none\"\n").expect("written");
        for name in ["", "run", "config", "cache", "data", "pool"] {
            std::fs::create_dir_all(path(name)).expect("made");
            if root {
                std::os::unix::fs::chown(path(name), Some(NOBODY), Some(NOBODY)).expect("given away");
            }
        }
        let mut command = Command::new("libvirtd");
        command
            .arg("-f")
            .arg(path("libvirtd.conf"))
            .arg("-p")
            .arg(path("run/pid"))
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .env("HOME", folder.path())
            .env("XDG_RUNTIME_DIR", path("run"))
            .env("XDG_CONFIG_HOME", path("config"))
            .env("XDG_CACHE_HOME", path("cache"))
            .env("XDG_DATA_HOME", path("data"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        if root {
            command.uid(NOBODY).gid(NOBODY);
        }
        let child = command
            .spawn()
            .unwrap_or_else(|error| panic!("libvirtd: {error}; install libvirt-daemon and libvirt-clients"));
        let daemon = Self { child, folder };
        let limits = Limits::after(Duration::from_secs(60));
        let every = Interval::every(Duration::from_millis(50));
        poll(&limits, every, || async {
            Ok::<_, ()>(match UnixStream::connect(daemon.socket()).await {
                Ok(_) => Look::Done(()),
                Err(error) => Look::Pending(error.to_string()),
            })
        })
        .await
        .expect("libvirtd listens");
        daemon
    }

    /// Its socket.
    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join("run/libvirt/libvirt-sock")
    }

    /// A client of it, on that driver.
    pub(crate) async fn client(&self, uri: &str) -> Client {
        let stream = UnixStream::connect(self.socket()).await.expect("connects");
        Client::open(stream, uri, Settings::default())
            .await
            .expect("opens")
    }

    /// A URI with which libvirt's own client reaches that driver.
    pub(crate) fn uri(&self, driver: &str) -> String {
        let (scheme, path) = driver.split_once(':').expect("a URI");
        format!("{scheme}+unix:{path}?socket={}", self.socket().display())
    }

    /// What libvirt's own client prints.
    pub(crate) fn virsh(&self, driver: &str, arguments: &[&str]) -> String {
        let output = Command::new("virsh")
            .args(["-q", "-c"])
            .arg(self.uri(driver))
            .args(arguments)
            .output()
            .expect("virsh runs; install libvirt-clients");
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).expect("text").trim().to_owned()
    }
}

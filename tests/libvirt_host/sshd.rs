//! OpenSSH's server in front of a host: on the test's loopback interface, with its sessions inside.
//!
//! The test process listens and starts an sshd for each connection in the host's namespaces, so that no
//! address leads from one to the other. Invariant: a session ends with the host, whose namespaces it is in.

use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

pub(super) struct Sshd {
    port: u16,
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Sshd {
    pub(super) fn start(folder: &Path, inside: u32) -> Self {
        for name in ["host_key", "id"] {
            let made = Command::new("ssh-keygen")
                .args(["-q", "-N", "", "-C", "", "-t", "ed25519", "-f"])
                .arg(folder.join(name))
                .status()
                .expect("ssh-keygen runs; install openssh-client");
            assert!(made.success(), "ssh-keygen");
        }
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let key = std::fs::read_to_string(folder.join("host_key.pub")).expect("a key");
        let write = |name: &str, text: String| std::fs::write(folder.join(name), text).expect("written");
        write("known_hosts", format!("[127.0.0.1]:{port} {key}"));
        write(
            "sshd_config",
            format!(
                "HostKey {0}/host_key\nAuthorizedKeysFile {0}/id.pub\nPidFile none\nUsePAM no\n\
                 PermitRootLogin prohibit-password\nPasswordAuthentication no\n\
                 KbdInteractiveAuthentication no\nStrictModes no\n",
                folder.display()
            ),
        );
        let ended = Arc::new(AtomicBool::new(false));
        let (configuration, log) = (folder.join("sshd_config"), folder.join("sshd.log"));
        let end = Arc::clone(&ended);
        let thread = std::thread::spawn(move || {
            let mut sessions = Vec::new();
            for stream in listener.incoming() {
                if end.load(Ordering::SeqCst) {
                    break;
                }
                let stream = OwnedFd::from(stream.expect("a connection"));
                let other = stream.try_clone().expect("a second handle");
                let session = Command::new("nsenter")
                    .args(["--net", "--mount", "--pid", "--target"])
                    .arg(inside.to_string())
                    .args(["--", "/usr/sbin/sshd", "-i", "-f"])
                    .arg(&configuration)
                    .arg("-E")
                    .arg(&log)
                    .stdin(Stdio::from(stream))
                    .stdout(Stdio::from(other))
                    .stderr(Stdio::null())
                    .spawn()
                    .expect("nsenter runs");
                sessions.push(session);
            }
            for mut session in sessions {
                let _ = session.kill();
                let _ = session.wait();
            }
        });
        Self {
            port,
            ended,
            thread: Some(thread),
        }
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::SeqCst);
        // Wakes the one who listens.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

//! Our dialler against OpenSSH's own server and agent, case by case.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use egress::contract::Secret;
use egress::transport::call::{Interval, Limits, Look, Task, poll};
use egress::transport::ssh::{
    Cause, ChannelError, Hop, HostKeyError, HostKeys, Identity, Patience, Route, Session, Stage, dial,
};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UnixListener};

/// An sshd that ends with the test.
struct Sshd {
    child: Child,
    folder: TempDir,
    port: u16,
}

impl Drop for Sshd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn run(command: &mut Command) {
    let output = command
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}; install openssh-client and openssh-server"));
    assert!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

fn keygen(path: &Path, arguments: &[&str]) {
    run(Command::new("ssh-keygen")
        .args(["-q", "-C", ""])
        .args(arguments)
        .arg("-f")
        .arg(path));
}

fn user() -> String {
    let output = Command::new("id").arg("-un").output().expect("id runs");
    String::from_utf8(output.stdout).expect("text").trim().to_owned()
}

impl Sshd {
    /// Starts one with these lines added to its configuration.
    async fn start(more: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        std::fs::create_dir_all("/run/sshd").expect("sshd wants this folder");
        keygen(&path("host"), &["-N", "", "-t", "ed25519"]);
        keygen(&path("host_rsa"), &["-N", "", "-t", "rsa", "-b", "2048"]);
        keygen(&path("ca"), &["-N", "", "-t", "ed25519"]);
        // A free port, given back at once: sshd has no way to tell which one it took.
        let port = TcpListener::bind("127.0.0.1:0")
            .await
            .expect("a port")
            .local_addr()
            .expect("one")
            .port();
        let show = |name: &str| path(name).display().to_string();
        std::fs::write(path("authorized_keys"), "").expect("written");
        std::fs::write(
            path("sshd_config"),
            format!(
                "{more}\nPort {port}\nListenAddress 127.0.0.1\nHostKey {}\nHostKey {}\nPidFile none\nUsePAM no\n\
                 AuthorizedKeysFile {}\nTrustedUserCAKeys {}\nPermitRootLogin prohibit-password\n\
                 PasswordAuthentication no\nKbdInteractiveAuthentication no\nStrictModes no\n",
                show("host"), show("host_rsa"), show("authorized_keys"), show("ca.pub"),
            ),
        )
        .expect("written");
        let child = Command::new("/usr/sbin/sshd")
            .arg("-D")
            .arg("-f")
            .arg(path("sshd_config"))
            .arg("-E")
            .arg(path("log"))
            .stdin(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("sshd: {error}; install openssh-server"));
        let limits = Limits::after(Duration::from_secs(30));
        poll(&limits, Interval::every(Duration::from_millis(50)), || async {
            Ok::<_, ()>(match TcpStream::connect(("127.0.0.1", port)).await {
                Ok(_) => Look::Done(()),
                Err(error) => Look::Pending(error.to_string()),
            })
        })
        .await
        .expect("sshd listens");
        Self { child, folder, port }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn allow(&self, public: &Path, options: &str) {
        let key = std::fs::read_to_string(public).expect("a public key");
        std::fs::write(self.path("authorized_keys"), format!("{options}{key}")).expect("written");
    }

    fn known_hosts(&self, key: &str) -> HostKeys {
        let key = std::fs::read_to_string(self.path(key)).expect("a public key");
        let file = self.path("known_hosts");
        std::fs::write(&file, format!("[127.0.0.1]:{} {key}", self.port)).expect("written");
        HostKeys::Strict { known_hosts: file }
    }

    fn hop(&self, identity: Identity) -> Hop {
        Hop {
            address: "127.0.0.1".into(),
            port: self.port,
            user: user(),
            identities: vec![identity],
            host_keys: self.known_hosts("host.pub"),
        }
    }
}

fn file(path: PathBuf, passphrase: Option<&str>) -> Identity {
    Identity::File {
        certificate: None,
        path,
        passphrase: passphrase.map(Secret::new),
    }
}

async fn reach(hop: Hop) -> Result<Session, egress::transport::ssh::DialError> {
    let route = Route {
        target: hop,
        jump: None,
    };
    dial(&route, &Patience::default()).await
}

fn echo(socket: &Path) -> Task<()> {
    let listener = UnixListener::bind(socket).expect("a socket");
    Task::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let (mut from, mut to) = stream.split();
            let _ = tokio::io::copy(&mut from, &mut to).await;
        }
    })
}

async fn echoes(session: &Session, socket: &Path) {
    let mut stream = session
        .open_socket(&socket.display().to_string())
        .await
        .expect("opens");
    stream.write_all(b"hello").await.expect("written");
    let mut back = [0; 5];
    stream.read_exact(&mut back).await.expect("read");
    assert_eq!(&back, b"hello");
}

#[tokio::test]
#[ignore = "needs OpenSSH (openssh-client, openssh-server)"]
async fn keys_of_every_kind_log_in() {
    let sshd = Sshd::start("").await;
    let socket = sshd.path("echo");
    let _echo = echo(&socket);
    for (name, arguments) in [
        ("ed25519", &["-t", "ed25519"][..]),
        ("rsa", &["-t", "rsa", "-b", "2048"]),
        ("rsa_pem", &["-t", "rsa", "-b", "3072", "-m", "PEM"]),
        ("p256", &["-t", "ecdsa", "-b", "256"]),
        ("p384", &["-t", "ecdsa", "-b", "384", "-m", "PKCS8"]),
        ("p521", &["-t", "ecdsa", "-b", "521"]),
        ("ec_pem", &["-t", "ecdsa", "-b", "256", "-m", "PEM"]),
    ] {
        for passphrase in ["", "open sesame"] {
            let path = sshd.path(&format!("{name}{}", passphrase.len()));
            keygen(&path, &[arguments, &["-N", passphrase]].concat());
            sshd.allow(&path.with_extension("pub"), "");
            let passphrase = Some(passphrase).filter(|text| !text.is_empty());
            let session = reach(sshd.hop(file(path, passphrase)))
                .await
                .unwrap_or_else(|error| panic!("{name}: {error}: {:?}", error.cause));
            echoes(&session, &socket).await;
        }
    }
}

#[tokio::test]
#[ignore = "needs OpenSSH (openssh-client, openssh-server)"]
async fn a_users_certificate_logs_in() {
    let sshd = Sshd::start("").await;
    let socket = sshd.path("echo");
    let _echo = echo(&socket);
    for kind in ["ed25519", "ecdsa", "rsa"] {
        let path = sshd.path(&format!("id_{kind}"));
        keygen(&path, &["-N", "", "-t", kind]);
        let public = path.with_extension("pub");
        run(Command::new("ssh-keygen")
            .args(["-q", "-I", "test", "-n", &user(), "-s"])
            .arg(sshd.path("ca"))
            .arg(&public));
        let session = reach(sshd.hop(file(path, None)))
            .await
            .unwrap_or_else(|error| panic!("{kind}: {error:?}"));
        echoes(&session, &socket).await;
    }
}

#[tokio::test]
#[ignore = "needs OpenSSH (openssh-client, openssh-server)"]
async fn what_sshd_refuses() {
    let sshd = Sshd::start("").await;
    let id = sshd.path("id");
    keygen(&id, &["-N", "", "-t", "ed25519"]);
    let error = reach(sshd.hop(file(id.clone(), None)))
        .await
        .expect_err("not allowed");
    assert!(matches!(error.cause, Cause::Refused { .. }), "{error:?}");
    sshd.allow(&id.with_extension("pub"), "");
    let mut hop = sshd.hop(file(id.clone(), None));
    hop.host_keys = sshd.known_hosts("ca.pub");
    let error = reach(hop).await.expect_err("another key");
    assert!(
        matches!(&error.cause, Cause::HostKey(error) if matches!(**error, HostKeyError::Changed { .. })),
        "{error:?}"
    );
    // Only the RSA key is on record: it is the one that is asked for.
    let mut hop = sshd.hop(file(id.clone(), None));
    hop.host_keys = sshd.known_hosts("host_rsa.pub");
    let session = reach(hop).await.expect("RSA is shown");
    let nothing = session
        .open_socket("/nonexistent/libvirt-sock")
        .await
        .err()
        .expect("nothing there");
    assert!(matches!(nothing, ChannelError::ConnectFailed { .. }), "{nothing}");
    sshd.allow(&id.with_extension("pub"), "restrict ");
    let session = reach(sshd.hop(file(id.clone(), None))).await.expect("logged in");
    let refused = session
        .open_socket("/nonexistent/libvirt-sock")
        .await
        .err()
        .expect("restricted");
    assert!(refused.to_string().contains("restrict"), "{refused}");

    for forbidden in [
        "AllowStreamLocalForwarding no",
        "AllowTcpForwarding no",
        "DisableForwarding yes",
    ] {
        let sshd = Sshd::start(forbidden).await;
        let id = sshd.path("id");
        keygen(&id, &["-N", "", "-t", "ed25519"]);
        sshd.allow(&id.with_extension("pub"), "");
        let socket = sshd.path("echo");
        let _echo = echo(&socket);
        let session = reach(sshd.hop(file(id, None))).await.expect("logged in");
        let refused = session
            .open_socket(&socket.display().to_string())
            .await
            .err()
            .expect("forbidden");
        // OpenSSH says that it could not connect; the text has to have the real cause too.
        let words = refused.to_string();
        assert!(
            words.contains("AllowStreamLocalForwarding"),
            "{forbidden}: {words}"
        );
        // For ports it says that it forbids it, where it does.
        if !forbidden.starts_with("AllowStreamLocal") {
            let refused = session
                .open_port("127.0.0.1", sshd.port)
                .await
                .err()
                .expect("forbidden");
            assert!(
                matches!(refused, ChannelError::Prohibited { .. }),
                "{forbidden}: {refused}"
            );
        }
    }
}

#[tokio::test]
#[ignore = "needs OpenSSH (openssh-client, openssh-server)"]
async fn through_a_jump_host_with_an_agent() {
    let (jump, target) = (Sshd::start("").await, Sshd::start("").await);
    let id = jump.path("id");
    keygen(&id, &["-N", "", "-t", "ed25519"]);
    let socket = jump.path("agent");
    let mut agent = Command::new("ssh-agent")
        .arg("-D")
        .arg("-a")
        .arg(&socket)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .expect("ssh-agent runs");
    let limits = Limits::after(Duration::from_secs(30));
    poll(&limits, Interval::every(Duration::from_millis(20)), || async {
        Ok::<_, ()>(if socket.exists() {
            Look::Done(())
        } else {
            Look::Pending("no socket".into())
        })
    })
    .await
    .expect("ssh-agent listens");
    let identity = || Identity::Agent {
        socket: Some(socket.clone()),
    };
    let hop = |sshd: &Sshd| sshd.hop(identity());
    let error = reach(hop(&jump)).await.expect_err("the agent is empty");
    assert_eq!(error.stage(), Stage::Credentials, "{error:?}");
    run(Command::new("ssh-add").env("SSH_AUTH_SOCK", &socket).arg(&id));
    for sshd in [&jump, &target] {
        sshd.allow(&id.with_extension("pub"), "");
    }
    let route = Route {
        target: hop(&target),
        jump: Some(hop(&jump)),
    };
    let place = target.path("echo");
    let _echo = echo(&place);
    let session = dial(&route, &Patience::default()).await.expect("through");
    echoes(&session, &place).await;
    let _ = agent.kill();
    let _ = agent.wait();
}

//! Dialling against SSH servers in this process: every stage, every way it fails.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use egress::transport::call::Task;
use egress::transport::known_hosts::fingerprint;
use egress::transport::ssh::error::Place;
use egress::transport::ssh::{
    Cause, ChannelError, DialError, Hop, HostKeyError, HostKeys, Identity, Patience, Route, Session, Stage,
    dial,
};
use russh::keys::agent::client::AgentClient;
use russh::keys::agent::server::{Agent, MessageType};
use russh::keys::ssh_key::LineEnding;
use russh::keys::ssh_key::certificate::{Builder, CertType};
use russh::keys::ssh_key::private::Ed25519Keypair;
use russh::keys::{Certificate, PrivateKey, PublicKey};
use russh::server::{Auth, ChannelOpenHandle, Config, Handler, Msg, PublicKeyOffer, VerifiedPublicKey};
use russh::{Channel, ChannelOpenFailure, MethodKind, MethodSet};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio::time::Instant;

fn private(seed: u8) -> PrivateKey {
    PrivateKey::from(Ed25519Keypair::from_seed(&[seed; 32]))
}

fn public(seed: u8) -> PublicKey {
    PublicKey::new(private(seed).public_key().key_data().clone(), "")
}

/// The host's key is 1, the user's 2, an authority's 3, somebody else's 4.
const HOST: u8 = 1;
const USER: u8 = 2;
const AUTHORITY: u8 = 3;
const OTHER: u8 = 4;

/// How a server behaves.
#[derive(Clone)]
struct Manners {
    host_keys: Vec<PrivateKey>,
    certificates: Vec<Certificate>,
    methods: Vec<MethodKind>,
    partial: bool,
    max_attempts: usize,
    forward: Result<(), ChannelOpenFailure>,
}

impl Default for Manners {
    fn default() -> Self {
        Self {
            host_keys: vec![private(HOST)],
            certificates: Vec::new(),
            methods: vec![MethodKind::PublicKey],
            partial: false,
            max_attempts: 10,
            forward: Ok(()),
        }
    }
}

/// One connection of a server: lets USER's key in, echoes on sockets, connects to ports.
struct Peer {
    manners: Manners,
    streams: Vec<Task<()>>,
}

impl Peer {
    fn judge(&self, key: &PublicKey) -> Auth {
        if key.key_data() == public(USER).key_data() && !self.manners.partial {
            Auth::Accept
        } else {
            Auth::Reject {
                proceed_with_methods: Some(self.manners.methods.as_slice().into()),
                partial_success: self.manners.partial,
            }
        }
    }
}

impl Handler for Peer {
    type Error = russh::Error;

    async fn auth_publickey_offered(
        &mut self,
        _: &str,
        offer: PublicKeyOffer<'_>,
    ) -> Result<Auth, Self::Error> {
        if self.manners.partial {
            return Ok(Auth::Accept);
        }
        Ok(self.judge(offer.public_key))
    }

    async fn auth_publickey(&mut self, _: &str, key: VerifiedPublicKey<'_>) -> Result<Auth, Self::Error> {
        Ok(self.judge(key.public_key))
    }

    async fn channel_open_direct_streamlocal(
        &mut self,
        channel: Channel<Msg>,
        _: &str,
        reply: ChannelOpenHandle,
        _: &mut russh::server::Session,
    ) -> Result<(), Self::Error> {
        match &self.manners.forward {
            Err(failure) => reply.reject(failure.clone()).await,
            Ok(()) => {
                reply.accept().await;
                self.streams.push(Task::spawn(async move {
                    let (mut from, mut to) = tokio::io::split(channel.into_stream());
                    let _ = tokio::io::copy(&mut from, &mut to).await;
                }));
            }
        }
        Ok(())
    }

    async fn channel_open_direct_tcpip(
        &mut self,
        channel: Channel<Msg>,
        host: &str,
        port: u32,
        _: &str,
        _: u32,
        reply: ChannelOpenHandle,
        _: &mut russh::server::Session,
    ) -> Result<(), Self::Error> {
        if let Err(failure) = &self.manners.forward {
            reply.reject(failure.clone()).await;
            return Ok(());
        }
        match TcpStream::connect((host, u16::try_from(port).unwrap_or(0))).await {
            Err(_) => reply.reject(ChannelOpenFailure::ConnectFailed).await,
            Ok(mut stream) => {
                reply.accept().await;
                self.streams.push(Task::spawn(async move {
                    let _ = copy_bidirectional(&mut channel.into_stream(), &mut stream).await;
                }));
            }
        }
        Ok(())
    }
}

/// A server on a port of its own, and a folder for the client's files.
struct Server {
    port: u16,
    folder: TempDir,
    _accepting: Task<()>,
}

impl Server {
    async fn start(manners: Manners) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let config = Arc::new(Config {
            keys: manners.host_keys.clone(),
            certificates: manners.certificates.clone(),
            methods: MethodSet::from(manners.methods.as_slice()),
            auth_rejection_time: Duration::ZERO,
            max_auth_attempts: manners.max_attempts,
            inactivity_timeout: None,
            ..Config::default()
        });
        let accepting = Task::spawn(async move {
            let mut connections = Vec::new();
            while let Ok((stream, _)) = listener.accept().await {
                let peer = Peer {
                    manners: manners.clone(),
                    streams: Vec::new(),
                };
                let config = Arc::clone(&config);
                connections.push(Task::spawn(async move {
                    if let Ok(session) = russh::server::run_stream(config, stream, peer).await {
                        let _ = session.await;
                    }
                }));
            }
        });
        let folder = tempfile::tempdir().expect("a folder");
        write_key(&folder.path().join("id"), USER);
        Self {
            port,
            folder,
            _accepting: accepting,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn known_hosts(&self, lines: &str) -> PathBuf {
        let file = self.path("known_hosts");
        std::fs::write(&file, lines).expect("written");
        file
    }

    /// A hop whose known_hosts file has the host's key.
    fn hop(&self) -> Hop {
        let line = format!("[127.0.0.1]:{} {}\n", self.port, text(HOST));
        self.hop_with(HostKeys::Strict {
            known_hosts: self.known_hosts(&line),
        })
    }

    fn hop_with(&self, host_keys: HostKeys) -> Hop {
        Hop {
            address: "127.0.0.1".into(),
            port: self.port,
            user: "root".into(),
            identities: vec![Identity::File {
                certificate: None,
                path: self.path("id"),
                passphrase: None,
            }],
            host_keys,
        }
    }

    fn strict(&self, lines: &str) -> Hop {
        let lines = lines.replace("{host}", &format!("[127.0.0.1]:{}", self.port));
        self.hop_with(HostKeys::Strict {
            known_hosts: self.known_hosts(&lines),
        })
    }
}

fn text(seed: u8) -> String {
    public(seed).to_openssh().expect("encodes")
}

fn write_key(path: &Path, seed: u8) {
    let pem = private(seed).to_openssh(LineEnding::LF).expect("encodes");
    std::fs::write(path, pem.as_bytes()).expect("written");
}

async fn reach(hop: Hop) -> Result<Session, DialError> {
    let route = Route {
        target: hop,
        jump: None,
    };
    dial(&route, &Patience::default()).await
}

async fn failed(hop: Hop) -> DialError {
    reach(hop).await.expect_err("the dial fails")
}

fn host_key(error: DialError) -> HostKeyError {
    assert_eq!(error.stage(), Stage::HostKey);
    match error.cause {
        Cause::HostKey(error) => *error,
        other => panic!("{other:?}"),
    }
}

/// All that a person would read.
fn chain(error: &dyn std::error::Error) -> String {
    let mut texts = vec![error.to_string()];
    let mut next = error.source();
    while let Some(source) = next {
        texts.push(source.to_string());
        next = source.source();
    }
    texts.join(": ")
}

async fn echoes(session: &Session) {
    let mut stream = session.open_socket("/run/echo").await.expect("opens");
    stream.write_all(b"hello").await.expect("written");
    let mut back = [0; 5];
    stream.read_exact(&mut back).await.expect("read");
    assert_eq!(&back, b"hello");
}

#[tokio::test]
async fn a_socket_behind_a_host() {
    let server = Server::start(Manners::default()).await;
    let session = reach(server.hop()).await.expect("a session");
    assert_eq!(session.hop(), format!("root@127.0.0.1:{}", server.port));
    assert!(session.is_up());
    echoes(&session).await;
    echoes(&session).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let greet = async {
        let (mut stream, _) = listener.accept().await.expect("a connection");
        stream.write_all(b"hi").await.expect("written");
    };
    let read = async {
        let mut stream = session.open_port("127.0.0.1", port).await.expect("opens");
        let mut text = String::new();
        stream.read_to_string(&mut text).await.expect("read");
        text
    };
    let (text, ()) = tokio::join!(read, greet);
    assert_eq!(text, "hi");
    session.close().await;
}

#[tokio::test]
async fn a_large_write_to_a_slow_reader_arrives() {
    const SIZE: usize = 6 << 20;
    let server = Server::start(Manners::default()).await;
    let session = reach(server.hop()).await.expect("a session");
    let stream = session.open_socket("/run/echo").await.expect("opens");
    let (mut from, mut to) = tokio::io::split(stream);
    let contents: Vec<u8> = (0..SIZE).map(|number| (number % 251) as u8).collect();
    let write = async {
        to.write_all(&contents).await.expect("written");
        to.shutdown().await.expect("ended");
    };
    let read = async {
        let mut back = Vec::new();
        let mut piece = [0; 1000];
        while back.len() < SIZE {
            let read = from.read(&mut piece).await.expect("read");
            assert_ne!(read, 0, "after {}", back.len());
            back.extend_from_slice(&piece[..read]);
            if back.len() % 100_000 < 1000 {
                tokio::task::yield_now().await;
            }
        }
        back
    };
    let ((), back) = tokio::join!(write, read);
    assert!(back == contents);
}

#[tokio::test]
async fn an_unknown_host_is_named_with_its_port_and_fingerprint() {
    let server = Server::start(Manners::default()).await;
    for lines in ["", "# nothing\n", "elsewhere {K}\n"] {
        let error = failed(server.strict(&lines.replace("{K}", &text(HOST)))).await;
        let error = host_key(error);
        assert!(matches!(error, HostKeyError::Unknown { .. }));
        let words = error.to_string();
        for word in [
            format!("[127.0.0.1]:{}", server.port),
            fingerprint(&public(HOST)),
            "ssh-ed25519".to_owned(),
            server.path("known_hosts").display().to_string(),
            format!("ssh-keyscan -p {} 127.0.0.1", server.port),
        ] {
            assert!(words.contains(&word), "{words} lacks {word}");
        }
    }
    // Recorded without the port: told, not accepted.
    let error = host_key(failed(server.strict(&format!("x\n127.0.0.1 {}\n", text(HOST)))).await);
    assert!(
        error
            .to_string()
            .contains("line 2 holds this key for 127.0.0.1 without the port"),
        "{error}"
    );
}

#[tokio::test]
async fn changed_and_revoked_are_told_apart_with_file_and_line() {
    let server = Server::start(Manners::default()).await;
    let file = server.path("known_hosts").display().to_string();
    let error = host_key(failed(server.strict(&format!("# a\n\n{{host}} {}\n", text(OTHER)))).await);
    assert!(matches!(error, HostKeyError::Changed { line: 3, .. }), "{error}");
    assert!(error.to_string().contains(&format!("{file}:3")) && error.to_string().contains("changed"));
    let revoked = format!("{{host}} {0}\n@revoked * {0}\n", text(HOST));
    let error = host_key(failed(server.strict(&revoked)).await);
    assert!(matches!(error, HostKeyError::Revoked { line: 2, .. }), "{error}");
    assert!(error.to_string().contains(&format!("{file}:2")) && error.to_string().contains("revoked"));
}

#[tokio::test]
async fn a_missing_known_hosts_file_is_an_error_of_its_own() {
    let server = Server::start(Manners::default()).await;
    let known_hosts = server.path("none");
    let error = failed(server.hop_with(HostKeys::Strict { known_hosts })).await;
    assert!(chain(&error).contains("none does not exist"), "{}", chain(&error));
    assert!(matches!(host_key(error), HostKeyError::File(_)));
}

#[tokio::test]
async fn accept_new_records_what_is_new_and_nothing_else() {
    let server = Server::start(Manners::default()).await;
    let known_hosts = server.path("fresh");
    let policy = HostKeys::AcceptNew {
        known_hosts: known_hosts.clone(),
    };
    echoes(&reach(server.hop_with(policy.clone())).await.expect("accepted")).await;
    let line = format!("[127.0.0.1]:{} {}\n", server.port, text(HOST));
    assert_eq!(std::fs::read_to_string(&known_hosts).expect("made"), line);
    reach(server.hop_with(policy.clone()))
        .await
        .expect("accepted again");
    reach(server.hop_with(HostKeys::Strict {
        known_hosts: known_hosts.clone(),
    }))
    .await
    .expect("strictly");
    assert_eq!(std::fs::read_to_string(&known_hosts).expect("there"), line);
    for lines in [
        format!("[127.0.0.1]:{} {}\n", server.port, text(OTHER)),
        format!("@revoked * {}\n", text(HOST)),
    ] {
        std::fs::write(&known_hosts, &lines).expect("written");
        host_key(failed(server.hop_with(policy.clone())).await);
        assert_eq!(std::fs::read_to_string(&known_hosts).expect("there"), lines);
    }
    // Where it cannot be recorded the host is accepted all the same.
    let nowhere = HostKeys::AcceptNew {
        known_hosts: server.path("no/such/folder"),
    };
    reach(server.hop_with(nowhere)).await.expect("accepted");
    reach(server.hop_with(HostKeys::Insecure))
        .await
        .expect("anything goes");
}

#[tokio::test]
async fn the_key_type_on_record_is_asked_for() {
    let p256 = include_str!("../src/transport/ssh/key/fixtures/p256");
    let recorded = include_str!("../src/transport/ssh/key/fixtures/p256.pub");
    let manners = Manners {
        host_keys: vec![private(HOST), PrivateKey::from_openssh(p256).expect("a key")],
        ..Manners::default()
    };
    let server = Server::start(manners).await;
    let hop = server.strict(&format!("{{host}} {recorded}\n"));
    echoes(&reach(hop).await.expect("the recorded key is shown")).await;
}

#[tokio::test]
async fn a_host_certificate_is_honoured() {
    let key = public(HOST);
    let mut builder = Builder::new([9; 32], key.key_data().clone(), 0, u64::MAX - 1).expect("a window");
    builder.cert_type(CertType::Host).expect("a type");
    builder.valid_principal("127.0.0.1").expect("a principal");
    let certificate = builder.sign(&private(AUTHORITY)).expect("signed");
    let server = Server::start(Manners {
        certificates: vec![certificate],
        ..Manners::default()
    })
    .await;
    let authority = |seed| format!("@cert-authority {{host}} {}\n", text(seed));
    echoes(
        &reach(server.strict(&authority(AUTHORITY)))
            .await
            .expect("vouched for"),
    )
    .await;
    let error = host_key(failed(server.strict(&authority(OTHER))).await);
    assert!(matches!(error, HostKeyError::Unknown { .. }), "{error}");
    let revoked = format!("{}@revoked * {}\n", authority(AUTHORITY), text(AUTHORITY));
    let error = host_key(failed(server.strict(&revoked)).await);
    assert!(matches!(error, HostKeyError::Revoked { line: 2, .. }), "{error}");
}

#[tokio::test]
async fn nothing_listens() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    drop(listener);
    let server = Server::start(Manners::default()).await;
    let mut hop = server.hop();
    hop.port = port;
    let error = failed(hop).await;
    assert_eq!(error.stage(), Stage::Tcp);
    assert_eq!(
        error.to_string(),
        format!("SSH to root@127.0.0.1:{port} failed at stage tcp")
    );
    assert!(chain(&error).contains("refused"), "{}", chain(&error));
}

#[tokio::test]
async fn what_answers_is_no_ssh_server() {
    let server = Server::start(Manners::default()).await;
    for greeting in ["", "HTTP/1.1 400 Bad Request\r\n\r\n"] {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let mut hop = server.hop();
        hop.port = listener.local_addr().expect("an address").port();
        let answer = async {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            let _ = stream.write_all(greeting.as_bytes()).await;
        };
        let (error, ()) = tokio::join!(failed(hop), answer);
        assert_eq!(error.stage(), Stage::Handshake, "{}", chain(&error));
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_says_nothing_is_given_up() {
    let server = Server::start(Manners::default()).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let mut hop = server.hop();
    hop.port = listener.local_addr().expect("an address").port();
    let start = Instant::now();
    let error = failed(hop).await;
    assert_eq!(error.stage(), Stage::Handshake);
    assert_eq!(start.elapsed(), Patience::default().handshake);
    assert!(
        chain(&error).contains("did not answer within 20 s"),
        "{}",
        chain(&error)
    );
}

#[tokio::test]
async fn credentials_come_first() {
    let server = Server::start(Manners::default()).await;
    let mut hop = server.hop();
    hop.port = 1;
    hop.identities = vec![Identity::File {
        certificate: None,
        path: server.path("id_missing"),
        passphrase: None,
    }];
    let error = failed(hop.clone()).await;
    assert_eq!(error.stage(), Stage::Credentials);
    assert!(
        chain(&error).contains("id_missing cannot be used: it does not exist"),
        "{}",
        chain(&error)
    );
    hop.identities.clear();
    assert!(matches!(failed(hop).await.cause, Cause::NoIdentity));
}

#[tokio::test]
async fn refusals_of_the_server() {
    let server = Server::start(Manners::default()).await;
    write_key(&server.path("id"), OTHER);
    let error = failed(server.hop()).await;
    assert_eq!(error.stage(), Stage::Authentication);
    let words = chain(&error);
    for word in [
        &fingerprint(&public(OTHER)),
        "root",
        "authorized_keys",
        "publickey",
    ] {
        assert!(words.contains(word), "{words}");
    }

    let server = Server::start(Manners {
        methods: vec![MethodKind::Password],
        ..Manners::default()
    })
    .await;
    write_key(&server.path("id"), OTHER);
    let words = chain(&failed(server.hop()).await);
    assert!(
        words.contains("PubkeyAuthentication") && words.contains("password"),
        "{words}"
    );

    let server = Server::start(Manners {
        partial: true,
        methods: vec![MethodKind::KeyboardInteractive],
        ..Manners::default()
    })
    .await;
    let error = failed(server.hop()).await;
    assert!(
        matches!(&error.cause, Cause::SecondFactor { takes, .. } if takes == "keyboard-interactive"),
        "{}",
        chain(&error)
    );
}

#[tokio::test]
async fn a_server_that_hangs_up_after_too_many_keys() {
    let server = Server::start(Manners {
        max_attempts: 2,
        ..Manners::default()
    })
    .await;
    let mut hop = server.hop();
    hop.identities = (10..16)
        .map(|seed| {
            let path = server.path(&format!("id{seed}"));
            write_key(&path, seed);
            Identity::File {
                certificate: None,
                path,
                passphrase: None,
            }
        })
        .collect();
    let error = failed(hop).await;
    assert!(
        matches!(error.cause, Cause::LoginClosed { .. }),
        "{}",
        chain(&error)
    );
    assert!(chain(&error).contains("MaxAuthTries"));
}

#[tokio::test]
async fn refusals_to_forward_are_told_apart() {
    for (failure, words) in [
        (
            ChannelOpenFailure::AdministrativelyProhibited,
            "AllowStreamLocalForwarding",
        ),
        (ChannelOpenFailure::ConnectFailed, "/run/libvirt/virtqemud-sock"),
        (ChannelOpenFailure::UnknownChannelType, "OpenSSH"),
        (ChannelOpenFailure::ResourceShortage, "(4)"),
    ] {
        let server = Server::start(Manners {
            forward: Err(failure),
            ..Manners::default()
        })
        .await;
        let session = reach(server.hop()).await.expect("a session");
        let error = session
            .open_socket("/run/libvirt/libvirt-sock")
            .await
            .err()
            .expect("refused");
        assert_eq!(error.stage(), Stage::Channel);
        let text = error.to_string();
        assert!(
            text.contains(words) && text.contains("/run/libvirt/libvirt-sock"),
            "{text}"
        );
        let error = session.open_port("10.0.0.7", 3128).await.err().expect("refused");
        assert!(error.to_string().contains("10.0.0.7:3128"), "{error}");
        assert!(session.is_up());
    }
}

/// An agent that may refuse to sign.
#[derive(Clone)]
struct Keeper {
    signs: bool,
}

impl Agent for Keeper {
    async fn confirm_request(&self, message: MessageType) -> bool {
        self.signs || !matches!(message, MessageType::Sign)
    }
}

async fn agent(socket: &Path, signs: bool, keys: &[u8]) -> Task<()> {
    let listener = UnixListener::bind(socket).expect("a socket");
    let incoming = futures_util::stream::unfold(listener, |listener| async {
        let accepted = listener.accept().await.map(|(stream, _)| stream);
        Some((accepted, listener))
    });
    let serving = Task::spawn(async move {
        let _ = russh::keys::agent::server::serve(Box::pin(incoming), Keeper { signs }).await;
    });
    let mut client = AgentClient::connect_uds(socket).await.expect("an agent");
    for seed in keys {
        client.add_identity(&private(*seed), &[]).await.expect("added");
    }
    serving
}

#[tokio::test]
async fn the_agent_logs_in() {
    let server = Server::start(Manners::default()).await;
    let socket = server.path("agent");
    let _agent = agent(&socket, true, &[OTHER, USER]).await;
    let mut hop = server.hop();
    hop.identities = vec![Identity::Agent { socket: Some(socket) }];
    echoes(&reach(hop).await.expect("logged in")).await;
}

#[tokio::test]
async fn no_agent_an_empty_one_and_one_that_does_not_sign_are_told_apart() {
    let server = Server::start(Manners::default()).await;
    let mut texts = BTreeMap::new();
    let mut tasks = Vec::new();
    for (name, keys, stage, words) in [
        ("none", None, Stage::Credentials, "cannot be reached"),
        ("empty", Some(&[][..]), Stage::Credentials, "ssh-add"),
        (
            "mute",
            Some(&[USER][..]),
            Stage::Authentication,
            "refused to sign",
        ),
        (
            "foreign",
            Some(&[OTHER][..]),
            Stage::Authentication,
            "authorized_keys",
        ),
    ] {
        let socket = server.path(name);
        if let Some(keys) = keys {
            tasks.push(agent(&socket, false, keys).await);
        }
        let mut hop = server.hop();
        hop.identities = vec![Identity::Agent { socket: Some(socket) }];
        let error = failed(hop).await;
        assert_eq!(error.stage(), stage, "{name}: {}", chain(&error));
        assert!(chain(&error).contains(words), "{name}: {}", chain(&error));
        texts.insert(error.cause.to_string(), name);
    }
    assert_eq!(texts.len(), 4);
}

fn through(jump: &Server, target: &Server) -> Route {
    Route {
        target: target.hop(),
        jump: Some(jump.hop()),
    }
}

#[tokio::test]
async fn through_a_jump_host() {
    let (jump, target) = (
        Server::start(Manners::default()).await,
        Server::start(Manners::default()).await,
    );
    let patience = Patience::default();
    let session = dial(&through(&jump, &target), &patience)
        .await
        .expect("a session");
    assert_eq!(session.hop(), format!("root@127.0.0.1:{}", target.port));
    echoes(&session).await;

    // Each failure names the host it is about.
    let mut route = through(&jump, &target);
    route.target.host_keys = target.strict("").host_keys;
    let error = dial(&route, &patience).await.expect_err("the target is unknown");
    assert_eq!(error.hop, target.hop().to_string());
    host_key(error);
    let mut route = through(&jump, &target);
    route.jump = Some(jump.strict(""));
    let error = dial(&route, &patience)
        .await
        .expect_err("the jump host is unknown");
    assert_eq!(error.hop, jump.hop().to_string());
    host_key(error);

    let strict = Server::start(Manners {
        forward: Err(ChannelOpenFailure::AdministrativelyProhibited),
        ..Manners::default()
    })
    .await;
    let error = dial(&through(&strict, &target), &patience)
        .await
        .expect_err("no forwarding");
    assert_eq!(
        (error.hop.clone(), error.stage()),
        (target.hop().to_string(), Stage::Tcp)
    );
    let place = Place::Port("127.0.0.1".into(), target.port);
    assert!(
        matches!(&error.cause, Cause::Jump(ChannelError::Prohibited { place: found }) if *found == place)
    );
    assert!(chain(&error).contains("AllowTcpForwarding"), "{}", chain(&error));
}

/// Stands between client and server and stops passing anything on when told.
async fn between(port: u16) -> (u16, Arc<AtomicBool>, Task<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let own = listener.local_addr().expect("an address").port();
    let silent = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&silent);
    let passing = Task::spawn(async move {
        let (client, _) = listener.accept().await.expect("a connection");
        let server = TcpStream::connect(("127.0.0.1", port)).await.expect("a server");
        let (mut from_client, mut to_client) = client.into_split();
        let (mut from_server, mut to_server) = server.into_split();
        let pass = |told: Arc<AtomicBool>| move |_: &[u8]| !told.load(Ordering::Acquire);
        let (up, down) = (pass(Arc::clone(&told)), pass(told));
        let forth = async {
            let mut bytes = [0; 4096];
            while let Ok(read @ 1..) = from_client.read(&mut bytes).await {
                if up(&bytes[..read]) && to_server.write_all(&bytes[..read]).await.is_err() {
                    break;
                }
            }
        };
        let back = async {
            let mut bytes = [0; 4096];
            while let Ok(read @ 1..) = from_server.read(&mut bytes).await {
                if down(&bytes[..read]) && to_client.write_all(&bytes[..read]).await.is_err() {
                    break;
                }
            }
        };
        tokio::join!(forth, back);
    });
    (own, silent, passing)
}

#[tokio::test]
async fn an_idle_session_stays_and_a_silent_server_is_given_up() {
    let server = Server::start(Manners::default()).await;
    let (port, silent, _passing) = between(server.port).await;
    let mut hop = server.strict("");
    hop.port = port;
    hop.host_keys = HostKeys::Insecure;
    let session = reach(hop).await.expect("a session");
    // The clock stands still while nothing but keepalives is spoken, and runs while the sockets
    // are worked with: a paused one runs ahead of them. A server that only ever answers keepalives
    // with a failure counts as alive.
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(1)).await;
    for _ in 0..(15 * 60) {
        settle().await;
        tokio::time::advance(Duration::from_secs(1)).await;
    }
    assert!(session.is_up());
    tokio::time::resume();
    echoes(&session).await;
    tokio::time::pause();
    silent.store(true, Ordering::Release);
    for _ in 0..90 {
        settle().await;
        tokio::time::advance(Duration::from_secs(1)).await;
    }
    settle().await;
    assert!(!session.is_up());
    tokio::time::resume();
    let error = session.open_socket("/run/echo").await.err().expect("lost");
    assert!(matches!(error, ChannelError::Lost { .. }), "{error}");
}

/// Lets everything that is ready run, the sockets' news included.
async fn settle() {
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
}

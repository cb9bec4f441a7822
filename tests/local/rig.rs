//! What the tests of the backend `local` share: a state directory of their own, requests built as the
//! layer above builds them, an origin, a client, and the proof that nothing is left.

#![allow(dead_code, reason = "each test file uses its share")]

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use egress::backend::local::{Local, LocalConfig};
use egress::contract::spec::PasswordFact;
use egress::contract::{
    Accepted, AdoptPolicy, Backend, BackendName, CreateRequest, Created, DeleteRequest, Deleted, Error,
    Facts, Found, Freshness, GetRequest, Incarnation, Installation, Instance, InstanceKey, Namespace,
    NativeId, NewInstance, Resume, Secret, Secrets, Specification, Uid,
};
use egress::squid::password;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket};

/// A port that nobody has, and that no other test of this process gets.
pub(crate) fn free_port() -> u16 {
    static GIVEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());
    loop {
        let socket = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let port = socket.local_addr().expect("bound").port();
        if GIVEN.lock().unwrap_or_else(PoisonError::into_inner).insert(port) {
            return port;
        }
    }
}

/// A state directory of the test's own. Dropped, it proves that no process and no directory of a
/// proxy is left, and removes what is.
pub(crate) struct Rig {
    dir: tempfile::TempDir,
    pub(crate) backend: Local,
    pub(crate) installation: Installation,
}

impl Rig {
    pub(crate) fn new() -> Self {
        Self::listening(&[])
    }

    pub(crate) fn listening(listen: &[&str]) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        // Started by root, Squid changes to an account that must be able to come here.
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).expect("set");
        let listen = listen
            .iter()
            .map(|address| address.parse().expect("an address"))
            .collect();
        let config = LocalConfig::new(&dir.path().join("state"), None, listen).expect("sound");
        Self {
            backend: Local::new(name(), config),
            dir,
            installation: "prod".parse().expect("valid"),
        }
    }

    /// Another backend on the same state directory, as another run of the provider has it.
    pub(crate) fn again(&self, squid: Option<PathBuf>) -> Local {
        let config = LocalConfig::new(&self.state_dir(), squid, vec![]).expect("sound");
        Local::new(name(), config)
    }

    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn state_dir(&self) -> PathBuf {
        self.dir.path().join("state")
    }

    pub(crate) fn proxy_dir(&self, name: &str) -> PathBuf {
        self.state_dir().join("default").join(name)
    }

    /// A create as the layer above asks for it.
    pub(crate) fn request(&self, name: &str, given: Facts) -> NewInstance {
        let key = InstanceKey {
            installation: self.installation.clone(),
            namespace: Namespace::default(),
            name: name.parse().expect("valid"),
        };
        let specification = Specification {
            key: key.clone(),
            given: given.clone(),
            labels: BTreeMap::new(),
        };
        let facts = self.backend.resolve(&specification).expect("sound").facts;
        let spec_sha256 = facts.sha256();
        NewInstance {
            uid: Uid::of(&key, &spec_sha256),
            key,
            incarnation: Incarnation::fresh(),
            spec_sha256,
            given: given.present(),
            facts,
            labels: BTreeMap::new(),
            secrets: Secrets::default(),
            adopt: AdoptPolicy::Interrupted,
        }
    }

    pub(crate) async fn create(&self, request: NewInstance) -> Result<Created, Error> {
        create_on(&self.backend, request).await
    }

    /// A proxy with these facts on a free port.
    pub(crate) async fn proxy(&self, name: &str, given: Facts) -> Instance {
        let given = Facts {
            port: given.port.or_else(|| Some(free_port())),
            ..given
        };
        self.create(self.request(name, given))
            .await
            .expect("created")
            .instance
    }

    pub(crate) async fn get(&self, instance: &Instance) -> Result<Found, Error> {
        self.backend.get(&self.get_request(instance)).await
    }

    pub(crate) fn get_request(&self, instance: &Instance) -> GetRequest {
        GetRequest {
            id: instance.id.clone(),
            incarnation: Some(instance.mark.incarnation),
            installation: self.installation.clone(),
            recorded_target: Some(instance.target.clone()),
            probe: true,
            freshness: Freshness::Fresh,
        }
    }

    pub(crate) fn resume_request(&self, instance: &Instance) -> Resume {
        Resume {
            id: instance.id.clone(),
            incarnation: instance.mark.incarnation,
            installation: self.installation.clone(),
            labels: BTreeMap::new(),
            prior_label_keys: BTreeSet::new(),
        }
    }

    pub(crate) async fn resume(&self, instance: &Instance) -> Result<Created, Error> {
        let request = CreateRequest::Resume(Box::new(self.resume_request(instance)));
        self.backend.create(&request, &Accepted::new()).await
    }

    pub(crate) fn delete_request(&self, instance: &Instance) -> DeleteRequest {
        DeleteRequest {
            id: instance.id.clone(),
            incarnation: Some(instance.mark.incarnation),
            installation: self.installation.clone(),
            recorded_target: Some(instance.target.clone()),
        }
    }

    pub(crate) async fn delete(&self, instance: &Instance) -> Result<Deleted, Error> {
        self.backend.delete(&self.delete_request(instance)).await
    }

    /// `instance.json` of a proxy.
    pub(crate) fn record(&self, name: &str) -> serde_json::Value {
        let text = std::fs::read(self.proxy_dir(name).join("instance.json")).expect("there");
        serde_json::from_slice(&text).expect("JSON")
    }

    /// Changes it behind the backend's back.
    pub(crate) fn edit_record(&self, name: &str, edit: impl FnOnce(&mut serde_json::Value)) {
        let mut record = self.record(name);
        edit(&mut record);
        let text = serde_json::to_vec(&record).expect("JSON");
        std::fs::write(self.proxy_dir(name).join("instance.json"), text).expect("written");
    }

    pub(crate) fn pid(&self, name: &str) -> u32 {
        let pid = self.record(name)["process"]["pid"]
            .as_u64()
            .expect("it was started");
        u32::try_from(pid).expect("a number of a process")
    }

    /// Every living process that was started with a configuration of this rig.
    pub(crate) fn processes(&self) -> Vec<u32> {
        let own = self.dir.path().to_str().expect("UTF-8").to_owned();
        let mut found = Vec::new();
        for entry in std::fs::read_dir("/proc").expect("Linux").flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            // A zombie has no arguments any more.
            let arguments = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
            if String::from_utf8_lossy(&arguments).contains(&own) && pid != std::process::id() {
                found.push(pid);
            }
        }
        found
    }

    /// Everything under the state directory.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        fn walk(dir: &Path, found: &mut Vec<PathBuf>) {
            for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
                let path = entry.path();
                if path.is_dir() {
                    walk(&path, found);
                }
                found.push(path);
            }
        }
        let mut found = Vec::new();
        walk(&self.state_dir(), &mut found);
        found
    }

    /// The name under which a Squid of this rig keeps shared memory.
    pub(crate) fn service(pid: u32) -> Option<String> {
        let arguments = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let arguments = String::from_utf8_lossy(&arguments).into_owned();
        let mut words = arguments.split('\0').skip_while(|word| *word != "-n");
        words.nth(1).map(str::to_owned)
    }

    /// Shared memory of these proxies' Squids.
    pub(crate) fn shared_memory(service: &str) -> Vec<PathBuf> {
        std::fs::read_dir("/dev/shm")
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| path.to_string_lossy().contains(service))
            .collect()
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        let processes = self.processes();
        let files = self.files();
        for pid in &processes {
            let pid = rustix::process::Pid::from_raw(i32::try_from(*pid).expect("a number"));
            let _ = rustix::process::kill_process(pid.expect("not zero"), rustix::process::Signal::KILL);
        }
        if !std::thread::panicking() {
            assert_eq!(processes, [0; 0], "no process is left");
            assert_eq!(files, [""; 0].map(PathBuf::from), "no file is left");
        }
    }
}

pub(crate) fn name() -> BackendName {
    "here".parse().expect("valid")
}

pub(crate) async fn create_on(backend: &Local, request: NewInstance) -> Result<Created, Error> {
    let accepted = Accepted::new();
    let created = backend
        .create(&CreateRequest::New(Box::new(request)), &accepted)
        .await;
    if let Ok(created) = &created {
        assert_eq!(
            accepted.last().as_ref(),
            Some(&created.instance),
            "what is returned was reported"
        );
    }
    created
}

/// Facts of a proxy that lets this client network use these ports.
pub(crate) fn open_to(cidr: &str, ports: &[u16]) -> Facts {
    Facts {
        allowed_cidrs: Some(vec![cidr.parse().expect("a network")]),
        allowed_ports: Some(ports.to_vec()),
        ..Facts::default()
    }
}

/// The same with a user.
pub(crate) fn with_user(facts: Facts, user: &str) -> Facts {
    Facts {
        username: Some(user.to_owned()),
        password: Some(PasswordFact::Version("1".into())),
        ..facts
    }
}

pub(crate) fn secrets(plain: &str) -> Secrets {
    Secrets {
        password_hash: Some(password::hash(&Secret::new(plain)).expect("hashed")),
        cloud_init: None,
    }
}

/// An origin on this machine that answers every request with what it was asked.
pub(crate) struct Origin {
    pub(crate) address: SocketAddr,
    task: tokio::task::JoinHandle<()>,
}

impl Origin {
    pub(crate) async fn start() -> Self {
        Self::at("127.0.0.1").await
    }

    pub(crate) async fn at(address: &str) -> Self {
        let address: IpAddr = address.parse().expect("an address");
        let listener = TcpListener::bind((address, 0)).await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        #[expect(
            clippy::disallowed_methods,
            reason = "the test owns the task and aborts it on drop"
        )]
        let task = tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut request = Vec::new();
                let mut buffer = [0; 4096];
                while !request.windows(4).any(|end| end == b"\r\n\r\n") {
                    match stream.read(&mut buffer).await {
                        Ok(0) | Err(_) => break,
                        Ok(length) => request.extend_from_slice(&buffer[..length]),
                    }
                }
                let head = format!(
                    "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
                    request.len()
                );
                let _ = stream.write_all(head.as_bytes()).await;
                let _ = stream.write_all(&request).await;
            }
        });
        Self { address, task }
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/hello", self.address)
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What a proxy answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) text: String,
}

/// A client of the proxy at an address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Client {
    pub(crate) proxy: SocketAddr,
    pub(crate) from: IpAddr,
}

impl Client {
    pub(crate) fn of(instance: &Instance) -> Self {
        Self {
            proxy: SocketAddr::new(
                instance.ip.expect("it runs"),
                instance.mark.facts.port.expect("resolved"),
            ),
            from: Ipv4Addr::LOCALHOST.into(),
        }
    }

    pub(crate) fn from(self, address: &str) -> Self {
        Self {
            from: address.parse().expect("an address"),
            ..self
        }
    }

    async fn say(self, request: &str) -> std::io::Result<Answer> {
        let socket = match self.from {
            IpAddr::V4(_) => TcpSocket::new_v4()?,
            IpAddr::V6(_) => TcpSocket::new_v6()?,
        };
        socket.bind(SocketAddr::new(self.from, 0))?;
        let mut stream = socket.connect(self.proxy).await?;
        stream.write_all(request.as_bytes()).await?;
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).await?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let status = text
            .split(' ')
            .nth(1)
            .and_then(|status| status.parse().ok())
            .unwrap_or_else(|| panic!("an answer of HTTP instead of {text:?}"));
        Ok(Answer { status, text })
    }

    /// GET through the proxy, with these further header lines.
    pub(crate) async fn get(self, url: &str, headers: &str) -> Answer {
        let host = url.split('/').nth(2).unwrap_or_default();
        self.say(&format!(
            "GET {url} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{headers}\r\n"
        ))
        .await
        .expect("the proxy answers")
    }

    /// GET through a tunnel.
    pub(crate) async fn tunnel(self, to: &str) -> Answer {
        // What goes through the tunnel is sent at once: a refused CONNECT is answered all the same.
        self.say(&format!(
            "CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n\r\nGET /through HTTP/1.1\r\nHost: {to}\r\nConnection: close\r\n\r\n"
        ))
        .await
        .expect("the proxy answers")
    }
}

/// The header of basic authentication.
pub(crate) fn basic(user: &str, plain: &str) -> String {
    use base64::Engine as _;
    let both = base64::engine::general_purpose::STANDARD.encode(format!("{user}:{plain}"));
    format!("Proxy-Authorization: Basic {both}\r\n")
}

/// An id as this backend gives it.
pub(crate) fn id(name: &str) -> NativeId {
    format!("default/{name}").parse().expect("an id")
}

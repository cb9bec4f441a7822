//! Backends `kvm` and `kvm2` on hosts in memory, with an image served over loopback.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use egress::backend::libvirt::config::{
    Given, GivenHost, GivenImage, GivenMachineType, GivenSsh, Host, LibvirtConfig,
};
use egress::backend::libvirt::policy::Policy;
use egress::backend::libvirt::{Dialer, Dialled, Failure, Libvirt, Reach};
use egress::contract::{Backend, Facts, Profile};
use egress::transport::libvirt::LinkDown;
use egress::transport::libvirt::fake::FakeHost;
use egress::transport::ssh::ChannelError;
use egress::transport::ssh::error::Place;

/// A backend's kind: its policy and its answers.
#[derive(Clone, Copy)]
pub(crate) struct Kind {
    pub(crate) policy: &'static Policy,
    pub(crate) profile: &'static Profile,
}

static KVM_POLICY: Policy = egress::backend::kvm::POLICY;
static KVM_PROFILE: Profile = egress::backend::kvm::PROFILE;
static KVM2_POLICY: Policy = egress::backend::kvm2::POLICY;
static KVM2_PROFILE: Profile = egress::backend::kvm2::PROFILE;

pub(crate) const KVM: Kind = Kind {
    policy: &KVM_POLICY,
    profile: &KVM_PROFILE,
};
pub(crate) const KVM2: Kind = Kind {
    policy: &KVM2_POLICY,
    profile: &KVM2_PROFILE,
};

/// The bytes of the image that disks lie on.
const IMAGE: &[u8] = &[0x5a; 4096];

/// Where the image is served, for as long as the tests run.
fn image_url() -> &'static str {
    static URL: OnceLock<String> = OnceLock::new();
    URL.get_or_init(|| {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}/tiny.raw", listener.local_addr().expect("an address"));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { continue };
                let mut request = String::new();
                let mut lines = BufReader::new(stream.try_clone().expect("a second handle"));
                // The request ends with an empty line.
                while lines.read_line(&mut request).is_ok_and(|read| read > 2) {}
                let head = format!(
                    "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                    IMAGE.len()
                );
                let body: &[u8] = if request.starts_with("HEAD") { &[] } else { IMAGE };
                let _ = stream.write_all(&[head.as_bytes(), body].concat());
            }
        });
        url
    })
}

/// The configuration with these hosts.
pub(crate) fn config(hosts: &[&str]) -> LibvirtConfig {
    let given = Given {
        ssh: Some(GivenSsh {
            key_file: Some("/nonexistent/key".into()),
            known_hosts_file: Some("/nonexistent/known_hosts".into()),
            ..GivenSsh::default()
        }),
        hosts: hosts
            .iter()
            .map(|name| {
                let host = GivenHost {
                    address: Some(format!("{name}.example")),
                    user: Some("root".to_owned()),
                    bridge: Some("br0".to_owned()),
                    ..GivenHost::default()
                };
                ((*name).to_owned(), host)
            })
            .collect(),
        images: BTreeMap::from([(
            "tiny".to_owned(),
            GivenImage {
                url: Some(image_url().to_owned()),
                format: Some("raw".to_owned()),
                ..GivenImage::default()
            },
        )]),
        machine_types: BTreeMap::from([(
            "small".to_owned(),
            GivenMachineType {
                vcpus: Some(1),
                memory_mib: Some(512),
                ..GivenMachineType::default()
            },
        )]),
        ..Given::default()
    };
    LibvirtConfig::new(given, |_| None).unwrap_or_else(|problems| panic!("{problems:?}"))
}

/// Dials hosts in memory.
#[derive(Debug)]
struct FakeDialer(BTreeMap<String, FakeHost>);

#[async_trait]
impl Dialer for FakeDialer {
    async fn dial(&self, host: &Host) -> Result<Dialled, Failure> {
        let fake = self.0.get(host.name.as_str()).expect("a host of the rig");
        if !fake.is_reachable() {
            return Err(Failure::Libvirt {
                uri: host.uri.clone(),
                error: egress::transport::libvirt::Error::Link {
                    procedure: "ConnectOpen",
                    down: LinkDown::Closed,
                },
            });
        }
        Ok(Dialled {
            api: Arc::new(fake.connect()),
            reach: Arc::new(Ports(fake.clone())),
        })
    }
}

/// The ports of a host's guests.
struct Ports(FakeHost);

#[async_trait]
impl Reach for Ports {
    async fn reach(&self, address: &str, port: u16) -> Result<(), ChannelError> {
        if self.0.is_serving() {
            Ok(())
        } else {
            let place = Place::Port(address.to_owned(), port);
            Err(ChannelError::ConnectFailed { place })
        }
    }
}

/// Hosts in memory and backends that use them.
pub(crate) struct Rig {
    pub(crate) kind: Kind,
    pub(crate) hosts: BTreeMap<String, FakeHost>,
}

impl Rig {
    pub(crate) fn new(kind: Kind) -> Self {
        let hosts = ["h1", "h2"].map(|name| (name.to_owned(), FakeHost::default()));
        Self {
            kind,
            hosts: hosts.into(),
        }
    }

    /// A backend of a process of its own, with these hosts in its configuration.
    pub(crate) fn backend_with(&self, hosts: &[&str]) -> Arc<dyn Backend> {
        self.backend_of(self.kind, hosts)
    }

    /// The same of another kind.
    pub(crate) fn backend_of(&self, kind: Kind, hosts: &[&str]) -> Arc<dyn Backend> {
        let dialer = Arc::new(FakeDialer(self.hosts.clone()));
        let name = "lab".parse().expect("a name");
        Arc::new(Libvirt::dialling(
            name,
            kind.policy,
            kind.profile,
            config(hosts),
            dialer,
        ))
    }

    /// What a user gives.
    pub(crate) fn facts() -> Facts {
        Facts {
            zone: Some("h1".to_owned()),
            machine_type: Some("small".to_owned()),
            image: Some("tiny".to_owned()),
            allowed_cidrs: Some(vec!["10.0.0.0/8".parse().expect("a network")]),
            ..Facts::default()
        }
    }
}

//! The hosts of a libvirt backend: where each is, which libvirt of it is used, and what guests get of it.
//!
//! It must not dial. Invariant: the name of a host fits into ids, and no two parts of its block
//! contradict each other.

use std::fmt;

use super::place::{ConfigProblem, Place};
use super::ssh::{SshConfig, check_user};
use crate::transport::ssh::{Hop, Route};

const DEFAULT_SSH_PORT: u16 = 22;
const DEFAULT_URI: &str = "qemu:///system";
const DEFAULT_POOL: &str = "default";
/// The longest name of a network interface that Linux has.
const LONGEST_INTERFACE: usize = 15;

/// The name of a host: a segment of ids, and the zone of a proxy.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostName(String);

impl HostName {
    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What the ids of the host's proxies start with.
    #[must_use]
    pub fn id_prefix(&self) -> String {
        format!("hosts/{}/", self.0)
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A block `host` as it was written.
#[derive(Clone, Debug, Default)]
pub struct GivenHost {
    /// Whether something in it is not known yet.
    pub partly_unknown: bool,
    /// Its name or address.
    pub address: Option<String>,
    /// The port of its SSH server.
    pub port: Option<u16>,
    /// Whom to log in as.
    pub user: Option<String>,
    /// The host to go through.
    pub jump: Option<GivenJump>,
    /// The driver of libvirt.
    pub uri: Option<String>,
    /// The socket of libvirt's daemon.
    pub socket: Option<String>,
    /// The storage pool.
    pub pool: Option<String>,
    /// The bridge that guests are attached to.
    pub bridge: Option<String>,
    /// The network of libvirt that guests are attached to.
    pub network: Option<String>,
    /// How guests are run.
    pub domain_type: Option<String>,
}

/// A block `jump` as it was written.
#[derive(Clone, Debug, Default)]
pub struct GivenJump {
    /// Whether something in it is not known yet.
    pub partly_unknown: bool,
    /// Its name or address.
    pub address: Option<String>,
    /// The port of its SSH server.
    pub port: Option<u16>,
    /// Whom to log in as.
    pub user: Option<String>,
}

/// What guests are attached to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attachment {
    /// A bridge of the host.
    Bridge(String),
    /// A network of libvirt.
    Network(String),
}

/// How guests are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DomainType {
    /// By the processor.
    Kvm,
    /// By emulation, which is some ten times slower.
    Qemu,
}

impl DomainType {
    /// libvirt's word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Kvm => "kvm",
            Self::Qemu => "qemu",
        }
    }
}

/// The host that leads to another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Jump {
    /// Its name or address.
    pub address: String,
    /// The port of its SSH server.
    pub port: u16,
    /// Whom to log in as.
    pub user: String,
}

/// One host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Its name in ids.
    pub name: HostName,
    /// Its name or address in the network.
    pub address: String,
    /// The port of its SSH server.
    pub port: u16,
    /// Whom to log in as.
    pub user: String,
    /// Whom to go through.
    pub jump: Option<Jump>,
    /// The driver of libvirt, such as `qemu:///system`.
    pub uri: String,
    /// The socket of libvirt's daemon; `None` looks where it usually is.
    pub socket: Option<String>,
    /// The storage pool that disks are kept in.
    pub pool: String,
    /// What guests are attached to.
    pub network: Attachment,
    /// How guests are run; `None` takes what the host can do.
    pub domain_type: Option<DomainType>,
}

impl Host {
    /// The way there.
    #[must_use]
    pub fn route(&self, ssh: &SshConfig) -> Route {
        let hop = |address: &str, port: u16, user: &str| Hop {
            address: address.to_owned(),
            port,
            user: user.to_owned(),
            identities: ssh.identities.clone(),
            host_keys: ssh.host_keys.clone(),
        };
        Route {
            target: hop(&self.address, self.port, &self.user),
            jump: self
                .jump
                .as_ref()
                .map(|jump| hop(&jump.address, jump.port, &jump.user)),
        }
    }

    /// What tells its libvirt from others, as far as that is known without asking.
    pub(super) fn libvirt(&self) -> String {
        let mut text = format!("{}:{}", self.address.to_ascii_lowercase(), self.port);
        if self.uri != DEFAULT_URI {
            text = format!("{text} {}", self.uri);
        }
        if let Some(socket) = &self.socket {
            text = format!("{text} {socket}");
        }
        if let Some(jump) = &self.jump {
            text = format!(
                "{text} through {}:{}",
                jump.address.to_ascii_lowercase(),
                jump.port
            );
        }
        text
    }
}

/// `ssh` is missing where it has problems of its own; those of the host show all the same.
pub(super) fn validate(
    name: &str,
    given: GivenHost,
    ssh: Option<&SshConfig>,
    place: &Place,
    problems: &mut Vec<ConfigProblem>,
) -> Option<Host> {
    let before = problems.len();
    let address = address(given.address, given.partly_unknown, place, problems);
    let default_user = || ssh.map(|ssh| ssh.user.clone()).unwrap_or_default();
    if let Some(Err(message)) = given.user.as_deref().map(check_user) {
        problems.push(place.argument("user").problem(message));
    }
    let jump = given.jump.and_then(|jump| {
        let place = place.argument("jump");
        if let Some(Err(message)) = jump.user.as_deref().map(check_user) {
            problems.push(place.argument("user").problem(message));
        }
        Some(Jump {
            address: self::address(jump.address, jump.partly_unknown, &place, problems)?,
            port: jump.port.unwrap_or(DEFAULT_SSH_PORT),
            user: jump.user.unwrap_or_else(default_user),
        })
    });
    let uri = given.uri.unwrap_or_else(|| DEFAULT_URI.to_owned());
    if let Err(message) = check_uri(&uri) {
        problems.push(place.argument("uri").problem(message));
    }
    if let Some(socket) = &given.socket
        && !socket.starts_with('/')
    {
        problems.push(place.argument("socket").problem(format!(
            "{socket:?} is no absolute path on the host, such as \"/run/libvirt/libvirt-sock\""
        )));
    }
    let pool = given.pool.unwrap_or_else(|| DEFAULT_POOL.to_owned());
    if let Err(message) = check_object(&pool) {
        problems.push(place.argument("pool").problem(message));
    }
    let network = attachment(given.bridge, given.network, given.partly_unknown, place, problems);
    let domain_type = given.domain_type.and_then(|text| match text.as_str() {
        "kvm" => Some(DomainType::Kvm),
        "qemu" => Some(DomainType::Qemu),
        other => {
            problems.push(
                place
                    .argument("domain_type")
                    .problem(format!("{other:?} is neither \"kvm\" nor \"qemu\"")),
            );
            None
        }
    });
    match (address, network) {
        (Some(address), Some(network)) if problems.len() == before => Some(Host {
            name: HostName(name.to_owned()),
            address,
            port: given.port.unwrap_or(DEFAULT_SSH_PORT),
            user: given.user.unwrap_or_else(default_user),
            jump,
            uri,
            socket: given.socket,
            pool,
            network,
            domain_type,
        }),
        _ => None,
    }
}

fn address(
    given: Option<String>,
    partly_unknown: bool,
    place: &Place,
    problems: &mut Vec<ConfigProblem>,
) -> Option<String> {
    let place = place.argument("address");
    let Some(address) = given else {
        if !partly_unknown {
            problems.push(place.problem("it is missing: give the host's name or address in the network"));
        }
        return None;
    };
    match check_address(&address) {
        Ok(()) => Some(address),
        Err(message) => {
            problems.push(place.problem(message));
            None
        }
    }
}

/// A name or an address, and nothing around it.
fn check_address(address: &str) -> Result<(), String> {
    let refused = |hint: &str| Err(format!("{address:?} is no name or address of a host{hint}"));
    if address.contains("://") {
        return refused(": leave the scheme out");
    }
    if address.contains('@') {
        return refused(": give the user in user");
    }
    let is_bracketed = address.starts_with('[') && address.ends_with(']');
    if !is_bracketed && (address.matches(':').count() == 1 || address.contains("]:")) {
        return refused(": give the port in port");
    }
    if address.is_empty()
        || address.contains(|letter: char| letter.is_whitespace() || "/\\'\"".contains(letter))
    {
        return refused("");
    }
    Ok(())
}

fn check_uri(uri: &str) -> Result<(), String> {
    let Some((driver, path)) = uri.split_once("://") else {
        return Err(format!("{uri:?} is no URI of libvirt, such as \"{DEFAULT_URI}\""));
    };
    if driver.contains('+') || !path.starts_with('/') || path.contains('?') {
        return Err(format!(
            "{uri:?} says how to get to the host, for which address, user, port and ssh are there: name the driver on \
             the host alone, such as \"{DEFAULT_URI}\""
        ));
    }
    Ok(())
}

/// The name of a pool or network, as libvirt takes it.
fn check_object(name: &str) -> Result<(), String> {
    if name.is_empty() || name.contains(|letter: char| letter == '/' || letter.is_control()) {
        return Err(format!("{name:?} is no name that libvirt takes"));
    }
    Ok(())
}

fn attachment(
    bridge: Option<String>,
    network: Option<String>,
    partly_unknown: bool,
    place: &Place,
    problems: &mut Vec<ConfigProblem>,
) -> Option<Attachment> {
    match (bridge, network) {
        (Some(_), Some(_)) => {
            problems.push(
                place
                    .argument("network")
                    .problem("bridge is given too, and a proxy has one interface: leave one of the two out"),
            );
            None
        }
        (Some(bridge), None) => {
            let is_sound = !bridge.is_empty()
                && bridge.len() <= LONGEST_INTERFACE
                && !bridge.contains(|letter: char| letter == '/' || letter.is_whitespace());
            if !is_sound {
                problems.push(place.argument("bridge").problem(format!(
                    "{bridge:?} is no name of a bridge, which has 1 to {LONGEST_INTERFACE} characters, such as \"br0\""
                )));
            }
            is_sound.then_some(Attachment::Bridge(bridge))
        }
        (None, Some(network)) => match check_object(&network) {
            Ok(()) => Some(Attachment::Network(network)),
            Err(message) => {
                problems.push(place.argument("network").problem(message));
                None
            }
        },
        (None, None) => {
            if !partly_unknown {
                problems.push(place.argument("bridge").problem(
                    "it is missing: name the bridge of the host that leads to the clients' network, such as \"br0\", \
                     or in network a network of libvirt, such as \"default\", which only the host itself reaches",
                ));
            }
            None
        }
    }
}

//! The configuration of a libvirt backend, validated: how its hosts are reached, and the catalogue of
//! what proxies are made of.
//!
//! It must not know how the configuration was written down, nor which policy it is for. Invariants: a
//! [`LibvirtConfig`] can be used as it is; making one reads no file and dials nothing, so whether its
//! files exist is found out by the first operation.

mod catalogue;
mod host;
mod place;
mod ssh;
#[cfg(test)]
pub(super) mod tests;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;

pub use catalogue::{Firmware, GivenImage, GivenMachineType, Image, ImageFormat, MachineType};
pub use host::{Attachment, DomainType, GivenHost, GivenJump, Host, HostName, Jump};
pub use place::{ConfigProblem, Place, Step};
pub use ssh::{GivenSsh, PASSPHRASE_VARIABLE, SshConfig};

/// GiB of a proxy's disk where the configuration says nothing.
const DEFAULT_DISK_SIZE_GB: u64 = 10;
/// The longest key of the catalogue, and the longest name of a host.
const LONGEST_KEY: usize = 63;

/// The block as it was written: what was left out, or is not known yet, is `None`.
#[derive(Clone, Default)]
pub struct Given {
    /// Whether something in the block itself is not known yet.
    pub partly_unknown: bool,
    /// How to log in on the hosts.
    pub ssh: Option<GivenSsh>,
    /// The hosts by name.
    pub hosts: BTreeMap<String, GivenHost>,
    /// The images by key.
    pub images: BTreeMap<String, GivenImage>,
    /// The machine types by key.
    pub machine_types: BTreeMap<String, GivenMachineType>,
    /// GiB of a proxy's disk.
    pub disk_size_gb: Option<u64>,
    /// Cloud-init's vendor data.
    pub vendor_data: Option<String>,
    /// Whether guests get QEMU's agent.
    pub install_guest_agent: Option<bool>,
}

/// Where and how the proxies of a libvirt backend run.
#[derive(Clone)]
pub struct LibvirtConfig {
    ssh: SshConfig,
    hosts: BTreeMap<HostName, Host>,
    images: BTreeMap<String, Image>,
    machine_types: BTreeMap<String, MachineType>,
    disk_size_gb: u64,
    vendor_data: Option<String>,
    install_guest_agent: bool,
}

impl fmt::Debug for LibvirtConfig {
    // Without the vendor data, which may hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LibvirtConfig")
            .field("ssh", &self.ssh)
            .field("hosts", &self.hosts)
            .field("images", &self.images)
            .field("machine_types", &self.machine_types)
            .field("disk_size_gb", &self.disk_size_gb)
            .field("install_guest_agent", &self.install_guest_agent)
            .finish_non_exhaustive()
    }
}

impl LibvirtConfig {
    /// From the block as it was written, in an environment of which `environment` gives the
    /// variables; an empty one counts as unset.
    ///
    /// # Errors
    /// Every problem at once.
    pub fn new(
        given: Given,
        environment: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Self, Vec<ConfigProblem>> {
        let mut problems = Vec::new();
        let root = Place::root();
        let ssh = match given.ssh {
            Some(ssh) => ssh::validate(ssh, environment, &mut problems),
            None => {
                if !given.partly_unknown {
                    problems.push(root.argument("ssh").problem(
                        "it is missing: say what to log in with on the hosts (key_file or agent) and what vouches for \
                         their keys (known_hosts_file)",
                    ));
                }
                None
            }
        };
        if given.hosts.is_empty() && !given.partly_unknown {
            problems.push(root.argument("host").problem(
                "there is none: add a block host \"NAME\" with the address of a host that runs libvirt",
            ));
        }
        let hosts = labelled(
            "host",
            given.hosts,
            &mut problems,
            |name, given, place, problems| host::validate(name, given, ssh.as_ref(), place, problems),
        );
        one_name_each(&hosts, &mut problems);
        let images = labelled("image", given.images, &mut problems, catalogue::validate_image);
        let machine_types = labelled(
            "machine_type",
            given.machine_types,
            &mut problems,
            catalogue::validate_machine_type,
        );
        match ssh {
            Some(ssh) if problems.is_empty() => Ok(Self {
                ssh,
                hosts: hosts
                    .into_values()
                    .map(|host| (host.name.clone(), host))
                    .collect(),
                images,
                machine_types,
                disk_size_gb: given.disk_size_gb.unwrap_or(DEFAULT_DISK_SIZE_GB),
                vendor_data: given.vendor_data.filter(|text| !text.trim().is_empty()),
                install_guest_agent: given.install_guest_agent.unwrap_or(true),
            }),
            _ => Err(problems),
        }
    }

    /// How to log in on the hosts.
    #[must_use]
    pub fn ssh(&self) -> &SshConfig {
        &self.ssh
    }

    /// The hosts; there is at least one.
    #[must_use]
    pub fn hosts(&self) -> &BTreeMap<HostName, Host> {
        &self.hosts
    }

    /// The host of that name.
    #[must_use]
    pub fn host(&self, name: &str) -> Option<&Host> {
        self.hosts.values().find(|host| host.name.as_str() == name)
    }

    /// The images of the catalogue by key.
    #[must_use]
    pub fn images(&self) -> &BTreeMap<String, Image> {
        &self.images
    }

    /// The machine types of the catalogue by key.
    #[must_use]
    pub fn machine_types(&self) -> &BTreeMap<String, MachineType> {
        &self.machine_types
    }

    /// The size of a proxy's disk, in GiB.
    #[must_use]
    pub fn disk_size_gb(&self) -> u64 {
        self.disk_size_gb
    }

    /// Cloud-init's vendor data, never blank.
    #[must_use]
    pub fn vendor_data(&self) -> Option<&str> {
        self.vendor_data.as_deref()
    }

    /// Whether guests get QEMU's agent.
    #[must_use]
    pub fn install_guest_agent(&self) -> bool {
        self.install_guest_agent
    }

    /// The libvirts behind the hosts: two backends with the same ones are one backend twice.
    #[must_use]
    pub fn place(&self) -> String {
        let mut addresses: Vec<_> = self.hosts.values().map(Host::libvirt).collect();
        addresses.sort();
        format!("hosts {}", addresses.join(", "))
    }
}

/// Validates the blocks of a name, each under its label.
fn labelled<G, T>(
    block: &'static str,
    given: BTreeMap<String, G>,
    problems: &mut Vec<ConfigProblem>,
    validate: impl Fn(&str, G, &Place, &mut Vec<ConfigProblem>) -> Option<T>,
) -> BTreeMap<String, T> {
    let mut valid = BTreeMap::new();
    for (label, given) in given {
        let place = Place::root().argument(block).label(&label);
        if let Err(message) = check_key(&label) {
            problems.push(place.problem(message));
        }
        if let Some(value) = validate(&label, given, &place, problems) {
            valid.insert(label, value);
        }
    }
    valid
}

/// The grammar of host names and of the catalogue's keys, which become parts of ids and of volume names.
fn check_key(key: &str) -> Result<(), String> {
    let bytes = key.as_bytes();
    let inner = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_sound = bytes.len() <= LONGEST_KEY
        && bytes.first().is_some_and(inner)
        && bytes.last().is_some_and(inner)
        && bytes.iter().all(|byte| inner(byte) || b"-_.".contains(byte));
    if is_sound {
        Ok(())
    } else {
        Err(format!(
            "{key:?} cannot be a name, which becomes part of ids and of volume names: it must be 1 to {LONGEST_KEY} \
             lower-case letters, digits or - _ . and begin and end with a letter or digit"
        ))
    }
}

/// Two names for one libvirt would show each of its proxies twice.
fn one_name_each(hosts: &BTreeMap<String, Host>, problems: &mut Vec<ConfigProblem>) {
    let mut seen: BTreeMap<String, &str> = BTreeMap::new();
    for (name, host) in hosts {
        let libvirt = host.libvirt();
        match seen.get(&libvirt) {
            Some(first) => problems.push(Place::root().argument("host").label(name).argument("address").problem(
                format!("{libvirt} is host {first:?} already: remove one of the two, or every proxy there would have two ids"),
            )),
            None => {
                seen.insert(libvirt, name);
            }
        }
    }
}

//! What the kinds `kvm` and `kvm2` have in common: their block, and how it is read.
//!
//! Must not know the policies. Invariant: reading the configuration touches no file.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

use crate::backend::libvirt::Libvirt;
use crate::backend::libvirt::config::{
    ConfigProblem, Given, GivenHost, GivenImage, GivenJump, GivenMachineType, GivenSsh, LibvirtConfig,
    PASSPHRASE_VARIABLE, Step,
};
use crate::backend::libvirt::policy::Policy;
use crate::config::{Reader, Settings, Unknowns};
use crate::contract::{Backend, BackendName, Profile};
use crate::plugin::diagnostics::{Diagnostic, Path, sentence};
use crate::plugin::schema::{Attribute, Block, NestedBlock};

/// The most GiB that a proxy's disk may have.
const LARGEST_DISK: i64 = 65_536;
/// The most processors that a proxy may have.
const MOST_VCPUS: i64 = 512;
/// MiB of memory: less boots nothing, more no host has.
const MEMORY_MIB: RangeInclusive<i64> = 64..=16_777_216;

/// The schema of the block; `what` says what is particular about the kind.
pub(super) fn block(what: &str) -> Block {
    Block::new()
        .describe(format!(
            "Virtual machines on hosts that run libvirt, reached over SSH. {what}"
        ))
        .attributes([
            Attribute::number("disk_size_gb").describe("The size of each proxy's disk, in GiB. Default `10`."),
            Attribute::string("vendor_data").describe(
                "Cloud-init's vendor data for every proxy, such as users to log in as. What the proxy's own document says beats it.",
            ),
            Attribute::bool("install_guest_agent").describe(
                "Installs QEMU's guest agent in each proxy, through which its address is found. Default `true`.",
            ),
        ])
        .block(NestedBlock::single("ssh", ssh()))
        .block(NestedBlock::map("host", host()))
        .block(NestedBlock::map("image", image()))
        .block(NestedBlock::map("machine_type", machine_type()))
}

fn ssh() -> Block {
    Block::new()
        .describe("How to log in on the hosts, and what vouches for their keys. `~/.ssh` is not looked at unless an argument names something in it, and `~/.ssh/config` never.")
        .attributes([
            Attribute::string("user").describe("Whom to log in as. Default `\"root\"`; a host's own `user` beats it. Anyone else must be in the host's group `libvirt`."),
            Attribute::string("key_file").describe("A private key: OpenSSH, PEM, PKCS#8 or PuTTY, encrypted or not. Read whenever a host is dialled."),
            Attribute::string("certificate_file").describe("The OpenSSH certificate of that key. Default: `<key_file>-cert.pub`, where there is one."),
            Attribute::string("passphrase").sensitive().describe(format!("The passphrase of `key_file`. `{PASSPHRASE_VARIABLE}`")),
            Attribute::bool("agent").describe("Logs in with the keys of the SSH agent, after `key_file` where there is one."),
            Attribute::string("agent_socket").describe("The socket of the SSH agent; implies `agent`. Default: the one that `SSH_AUTH_SOCK` names."),
            Attribute::string("known_hosts_file").describe("The file that vouches for the hosts' keys, as OpenSSH writes it: hashed names, `@cert-authority` and `@revoked` included. Required unless `host_key` is `\"insecure\"`."),
            Attribute::string("host_key").describe("How hosts' keys are judged: `\"strict\"`, the default, takes those alone that `known_hosts_file` vouches for; `\"accept_new\"` records the key of a host that is not in it; `\"insecure\"` takes any key, so that anyone in between can take the host's place."),
        ])
}

fn host() -> Block {
    Block::new()
        .describe("A host that runs libvirt. Its label is the `zone` of its proxies and part of their ids.")
        .attributes([
            Attribute::string("address").required().describe("Its name or address in the network."),
            Attribute::number("port").describe("The port of its SSH server. Default `22`."),
            Attribute::string("user").describe("Whom to log in as. Default: `user` of `ssh`."),
            Attribute::string("uri").describe("The driver of libvirt on the host. Default `\"qemu:///system\"`."),
            Attribute::string("socket").describe("The socket of libvirt's daemon on the host. Default: `/run/libvirt/libvirt-sock`, then `/run/libvirt/virtqemud-sock`."),
            Attribute::string("pool").describe("The storage pool that images and disks are kept in. Default `\"default\"`."),
            Attribute::string("bridge").describe("The bridge of the host that proxies are attached to, such as `\"br0\"`: they get an address of the network behind it. Either this or `network`."),
            Attribute::string("network").describe("The network of libvirt that proxies are attached to. Those of a network with NAT, such as libvirt's `\"default\"`, are reached from the host alone."),
            Attribute::string("domain_type").describe("How proxies are run: `\"kvm\"`, by the processor, or `\"qemu\"`, by emulation, some ten times slower. Default: `\"kvm\"` where the processor can."),
        ])
        .block(NestedBlock::single("jump", jump()))
}

fn jump() -> Block {
    Block::new()
        .describe("The host to go through where this one is not reached from here. It is logged in on with the same keys, and the same file vouches for it.")
        .attributes([
            Attribute::string("address").required().describe("Its name or address in the network."),
            Attribute::number("port").describe("The port of its SSH server. Default `22`."),
            Attribute::string("user").describe("Whom to log in as. Default: `user` of `ssh`."),
        ])
}

fn image() -> Block {
    Block::new()
        .describe("An image that proxies boot from: a disk with cloud-init. Each host downloads it once, through this machine.")
        .attributes([
            Attribute::string("url").required().describe("Where it is downloaded from, `http` or `https`."),
            Attribute::string("sha256").describe("The SHA-256 of the download, which is refused when it has another one. Default: not checked."),
            Attribute::string("format").describe("Its format: `\"qcow2\"`, the default, or `\"raw\"`. Compressed files are refused."),
            Attribute::string("firmware").describe("What it boots with: `\"uefi\"`, the default, or `\"bios\"`."),
        ])
}

fn machine_type() -> Block {
    Block::new().describe("A size of proxies.").attributes([
        Attribute::number("vcpus").required().describe("Processors."),
        Attribute::number("memory_mib")
            .required()
            .describe("MiB of memory."),
    ])
}

#[derive(Debug)]
struct LibvirtSettings {
    policy: &'static Policy,
    profile: &'static Profile,
    config: LibvirtConfig,
}

impl Settings for LibvirtSettings {
    fn place(&self) -> Option<String> {
        Some(self.config.place())
    }

    fn build(&self, name: &BackendName) -> Arc<dyn Backend> {
        Arc::new(Libvirt::new(
            name.clone(),
            self.policy,
            self.profile,
            self.config.clone(),
        ))
    }
}

/// Reads the block for a backend of that policy.
pub(super) fn parse(
    reader: &mut Reader<'_>,
    policy: &'static Policy,
    profile: &'static Profile,
) -> Option<Arc<dyn Settings>> {
    let given = read(reader);
    let environment = reader.environment().clone();
    match LibvirtConfig::new(given, |name| environment.get(name)) {
        Ok(config) => {
            if config.ssh().is_insecure() {
                reader.problem(
                    Diagnostic::warning("The keys of hosts are not verified")
                        .detail(
                            "With host_key = \"insecure\" anyone in between can take the place of a host, and see \
                             whatever is sent there. Set known_hosts_file, and host_key to \"strict\".",
                        )
                        .at(reader.path_of("ssh").attribute("host_key")),
                );
            }
            Some(Arc::new(LibvirtSettings {
                policy,
                profile,
                config,
            }))
        }
        Err(problems) => {
            for problem in problems {
                let path = path_of(reader, &problem);
                reader.problem(
                    Diagnostic::error(title(&problem))
                        .detail(sentence(&problem.message))
                        .at(path),
                );
            }
            None
        }
    }
}

fn path_of(reader: &Reader<'_>, problem: &ConfigProblem) -> Path {
    let mut steps = problem.place.steps();
    let root = match steps.next() {
        Some(Step::Argument(name)) => reader.path_of(name),
        Some(Step::Label(_)) | None => Path::root(),
    };
    steps.fold(root, |path, step| match step {
        Step::Argument(name) => path.attribute(*name),
        Step::Label(label) => path.key(label),
    })
}

fn title(problem: &ConfigProblem) -> String {
    format!("{} cannot be used", problem.place)
}

fn read(reader: &mut Reader<'_>) -> Given {
    let mut unknowns = Unknowns::default();
    let disk_size_gb = unknowns.whole(reader, "disk_size_gb", 1..=LARGEST_DISK);
    let vendor_data = unknowns.known(reader.string("vendor_data"));
    let install_guest_agent = unknowns.known(reader.bool("install_guest_agent"));
    let partly_unknown = ["ssh", "host"].iter().any(|name| reader.is_unknown(name));
    Given {
        partly_unknown,
        ssh: reader.block("ssh").map(|mut block| read_ssh(&mut block)),
        hosts: each(reader, "host", read_host),
        images: each(reader, "image", read_image),
        machine_types: each(reader, "machine_type", read_machine_type),
        disk_size_gb,
        vendor_data,
        install_guest_agent,
    }
}

/// The blocks of a name, by label.
fn each<T>(reader: &mut Reader<'_>, name: &str, read: fn(&mut Reader<'_>) -> T) -> BTreeMap<String, T> {
    let mut all = BTreeMap::new();
    for label in reader.labels(name) {
        let value = read(&mut reader.labelled(name, &label));
        all.insert(label, value);
    }
    all
}

fn read_ssh(block: &mut Reader<'_>) -> GivenSsh {
    let mut unknowns = Unknowns::default();
    GivenSsh {
        user: unknowns.known(block.string("user")),
        key_file: unknowns.file(block, "key_file"),
        certificate_file: unknowns.file(block, "certificate_file"),
        passphrase: unknowns.secret(block.string("passphrase")),
        agent: unknowns.known(block.bool("agent")),
        agent_socket: unknowns.file(block, "agent_socket"),
        known_hosts_file: unknowns.file(block, "known_hosts_file"),
        host_key: unknowns.known(block.string("host_key")),
        partly_unknown: unknowns.any(),
    }
}

fn read_host(block: &mut Reader<'_>) -> GivenHost {
    let mut unknowns = Unknowns::default();
    GivenHost {
        address: unknowns.known(block.string("address")),
        port: unknowns.port(block),
        user: unknowns.known(block.string("user")),
        jump: block.block("jump").map(|mut jump| read_jump(&mut jump)),
        uri: unknowns.known(block.string("uri")),
        socket: unknowns.known(block.string("socket")),
        pool: unknowns.known(block.string("pool")),
        bridge: unknowns.known(block.string("bridge")),
        network: unknowns.known(block.string("network")),
        domain_type: unknowns.known(block.string("domain_type")),
        partly_unknown: unknowns.any(),
    }
}

fn read_jump(block: &mut Reader<'_>) -> GivenJump {
    let mut unknowns = Unknowns::default();
    GivenJump {
        address: unknowns.known(block.string("address")),
        port: unknowns.port(block),
        user: unknowns.known(block.string("user")),
        partly_unknown: unknowns.any(),
    }
}

fn read_image(block: &mut Reader<'_>) -> GivenImage {
    let mut unknowns = Unknowns::default();
    GivenImage {
        url: unknowns.known(block.string("url")),
        sha256: unknowns.known(block.string("sha256")),
        format: unknowns.known(block.string("format")),
        firmware: unknowns.known(block.string("firmware")),
        partly_unknown: unknowns.any(),
    }
}

fn read_machine_type(block: &mut Reader<'_>) -> GivenMachineType {
    let mut unknowns = Unknowns::default();
    let vcpus = unknowns.whole(block, "vcpus", 1..=MOST_VCPUS);
    GivenMachineType {
        vcpus: vcpus.and_then(|vcpus| u32::try_from(vcpus).ok()),
        memory_mib: unknowns.whole(block, "memory_mib", MEMORY_MIB),
        partly_unknown: unknowns.any(),
    }
}

#[cfg(test)]
#[path = "libvirt/tests.rs"]
mod tests;

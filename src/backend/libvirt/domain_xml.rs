//! A domain as libvirt's XML.
//!
//! It must not know which policy or proxy it is for, nor what the host can do: that was found out
//! before. Invariants: whatever is interpolated is escaped, except the mark, which is XML already;
//! neither UUID nor hardware address is in it, since libvirt makes new ones for whoever names none.

use quick_xml::escape::escape;

use super::config::{Attachment, DomainType, Firmware};

/// What a domain is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DomainSpec<'a> {
    /// Its name.
    pub name: &'a str,
    /// What it says of itself to whoever looks at it with virsh.
    pub description: &'a str,
    /// The mark: one element with an XML namespace, since libvirt drops others without a word.
    pub metadata: &'a str,
    /// Processors.
    pub vcpus: u32,
    /// MiB of memory.
    pub memory_mib: u64,
    /// Whether a processor runs it or QEMU emulates one.
    pub domain_type: DomainType,
    /// The architecture, in libvirt's words: `x86_64`.
    pub arch: &'a str,
    /// The machine, in QEMU's words; libvirt's choice where there is none.
    pub machine: Option<&'a str>,
    /// QEMU's path on the host; libvirt's choice where there is none.
    pub emulator: Option<&'a str>,
    /// What it boots with.
    pub firmware: Firmware,
    /// The path of its disk, a qcow2.
    pub disk_path: &'a str,
    /// The path of its seed.
    pub seed_path: &'a str,
    /// What its interface is part of.
    pub network: &'a Attachment,
}

impl DomainSpec<'_> {
    /// The XML to define it with.
    #[must_use]
    pub fn build(&self) -> String {
        let Self {
            vcpus,
            memory_mib,
            metadata,
            ..
        } = self;
        format!(
            "<domain type='{kind}'><name>{name}</name><description>{description}</description>\
             <metadata>{metadata}</metadata>\
             <memory unit='MiB'>{memory_mib}</memory><vcpu>{vcpus}</vcpu>{processor}\
             {boot}{features}<clock offset='utc'/>\
             <on_poweroff>destroy</on_poweroff><on_reboot>restart</on_reboot><on_crash>destroy</on_crash>\
             <devices>{emulator}{disk}{seed}{interface}{agent}{serial}{randomness}</devices></domain>",
            kind = self.domain_type.as_str(),
            name = escape(self.name),
            description = escape(self.description),
            processor = self.processor(),
            boot = self.boot(),
            features = self.features(),
            emulator = element("emulator", self.emulator),
            disk = disk(
                self.disk_path,
                "vda",
                "<driver name='qemu' type='qcow2' discard='unmap'/>",
                ""
            ),
            // A disk and not a CD: the kernels of some cloud images have no driver for a CD at SATA.
            seed = disk(
                self.seed_path,
                "vdb",
                "<driver name='qemu' type='raw'/>",
                "<readonly/>"
            ),
            interface = self.interface(),
            agent = "<channel type='unix'><target type='virtio' name='org.qemu.guest_agent.0'/></channel>",
            serial = "<serial type='pty'/><console type='pty'/>",
            randomness = "<rng model='virtio'><backend model='random'>/dev/urandom</backend></rng>",
        )
    }

    fn is_pc(&self) -> bool {
        matches!(self.arch, "x86_64" | "i686")
    }

    /// What the guest sees of a processor: all there is, since guests are never moved between hosts.
    fn processor(&self) -> &'static str {
        match self.domain_type {
            DomainType::Kvm => "<cpu mode='host-passthrough'/>",
            DomainType::Qemu => "<cpu mode='maximum'/>",
        }
    }

    fn boot(&self) -> String {
        let firmware = match self.firmware {
            Firmware::Uefi => " firmware='efi'",
            Firmware::Bios => "",
        };
        let machine = self
            .machine
            .map_or_else(String::new, |machine| format!(" machine='{}'", escape(machine)));
        format!(
            "<os{firmware}><type arch='{}'{machine}>hvm</type><boot dev='hd'/></os>",
            escape(self.arch)
        )
    }

    /// QEMU's newer machines do not power off without ACPI; elsewhere than on a PC it takes UEFI.
    fn features(&self) -> &'static str {
        match (self.is_pc(), self.firmware) {
            (true, _) => "<features><acpi/><apic/></features>",
            (false, Firmware::Uefi) => "<features><acpi/></features>",
            (false, Firmware::Bios) => "",
        }
    }

    fn interface(&self) -> String {
        let (kind, source) = match self.network {
            Attachment::Bridge(bridge) => ("bridge", format!("bridge='{}'", escape(bridge.as_str()))),
            Attachment::Network(network) => ("network", format!("network='{}'", escape(network.as_str()))),
        };
        format!("<interface type='{kind}'><source {source}/><model type='virtio'/></interface>")
    }
}

fn element(name: &str, text: Option<&str>) -> String {
    text.map_or_else(String::new, |text| format!("<{name}>{}</{name}>", escape(text)))
}

/// By its path and not as a volume of a pool: the rules that AppArmor gets are made of paths.
fn disk(path: &str, device: &str, driver: &str, more: &str) -> String {
    format!(
        "<disk type='file' device='disk'>{driver}<source file='{}'/><target dev='{device}' bus='virtio'/>{more}</disk>",
        escape(path)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(network: &Attachment) -> DomainSpec<'_> {
        DomainSpec {
            name: "a",
            description: "An egress proxy",
            metadata: "<p:proxy xmlns:p='urn:p:1'>m</p:proxy>",
            vcpus: 2,
            memory_mib: 1024,
            domain_type: DomainType::Kvm,
            arch: "x86_64",
            machine: None,
            emulator: None,
            firmware: Firmware::Bios,
            disk_path: "/p/a.disk",
            seed_path: "/p/a.seed",
            network,
        }
    }

    #[test]
    fn a_domain_has_what_a_guest_needs() {
        let bridge = Attachment::Bridge("br0".into());
        let xml = spec(&bridge).build();
        for part in [
            "<domain type='kvm'><name>a</name>",
            "<metadata><p:proxy xmlns:p='urn:p:1'>m</p:proxy></metadata>",
            "<memory unit='MiB'>1024</memory><vcpu>2</vcpu><cpu mode='host-passthrough'/>",
            "<os><type arch='x86_64'>hvm</type><boot dev='hd'/></os><features><acpi/>",
            "<disk type='file' device='disk'><driver name='qemu' type='qcow2' discard='unmap'/><source file='/p/a.disk'/>",
            "<driver name='qemu' type='raw'/><source file='/p/a.seed'/><target dev='vdb' bus='virtio'/><readonly/>",
            "<interface type='bridge'><source bridge='br0'/>",
            "name='org.qemu.guest_agent.0'",
        ] {
            assert!(xml.contains(part), "{part}\n{xml}");
        }
        assert!(!xml.contains("<uuid>") && !xml.contains("<mac"));
    }

    #[test]
    fn what_differs_between_hosts_and_images_differs_in_the_xml() {
        let network = Attachment::Network("default".into());
        let emulated = DomainSpec {
            domain_type: DomainType::Qemu,
            firmware: Firmware::Uefi,
            machine: Some("q35"),
            emulator: Some("/usr/bin/qemu-system-x86_64"),
            ..spec(&network)
        };
        let xml = emulated.build();
        for part in [
            "<domain type='qemu'>",
            "<cpu mode='maximum'/><os firmware='efi'><type arch='x86_64' machine='q35'>hvm</type>",
            "<devices><emulator>/usr/bin/qemu-system-x86_64</emulator>",
            "<interface type='network'><source network='default'/>",
        ] {
            assert!(xml.contains(part), "{part}\n{xml}");
        }
        let arm = DomainSpec {
            arch: "aarch64",
            machine: Some("virt"),
            firmware: Firmware::Uefi,
            ..spec(&network)
        };
        assert!(arm.build().contains("<features><acpi/></features>"));
        let plain = DomainSpec {
            firmware: Firmware::Bios,
            ..arm
        };
        assert!(!plain.build().contains("<features>"));
    }

    #[test]
    fn no_value_adds_an_element() {
        let bridge = Attachment::Bridge("b'/><x/>".into());
        let hostile = DomainSpec {
            name: "a</name><x/>",
            description: "<x/>",
            disk_path: "/p/'/><x/>",
            seed_path: "/p & q/<x/>",
            machine: Some("m'><x/>"),
            emulator: Some("<x/>"),
            ..spec(&bridge)
        };
        let xml = hostile.build();
        assert!(!xml.contains("<x/>"), "{xml}");
    }
}

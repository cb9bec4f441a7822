//! What a host is and what guests on it can be, from libvirt's own documents.
//!
//! It must not ask libvirt. Invariant: a domain type is only what the processor can really do: that
//! `/dev/kvm` is there, or that libvirt offers the type, proves nothing.

use uuid::Uuid;

use super::config::DomainType;
use super::xml::Element;

/// Models of AMD processors whose definition in libvirt includes SVM, so that it is not listed beside them.
const MODELS_WITH_SVM: [&str; 7] = [
    "EPYC",
    "Dhyana",
    "Opteron_G2",
    "Opteron_G3",
    "Opteron_G4",
    "Opteron_G5",
    "phenom",
];

/// What the capabilities of a host say, as far as it matters here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostFacts {
    /// The host's UUID: what stands behind its name.
    pub uuid: Uuid,
    /// Its architecture.
    pub arch: String,
    /// Whether its processor can run guests; `None` where the document does not let us know.
    pub virtualizes: Option<bool>,
}

impl HostFacts {
    /// From `virConnectGetCapabilities`; `None` where the document is no such thing.
    #[must_use]
    pub fn parse(document: &str) -> Option<Self> {
        let root = Element::parse(document).filter(|root| root.name() == "capabilities")?;
        let host = root.at(&["host"])?;
        let arch = host.at(&["cpu", "arch"]).map(Element::text).unwrap_or_default();
        Some(Self {
            uuid: host.at(&["uuid"])?.text().parse().ok()?,
            arch: arch.to_owned(),
            virtualizes: host.at(&["cpu"]).and_then(virtualizes),
        })
    }
}

/// Whether a processor has VMX or SVM. libvirt lists a feature where the model it names lacks it.
fn virtualizes(cpu: &Element) -> Option<bool> {
    let is_x86 = matches!(cpu.at(&["arch"])?.text(), "x86_64" | "i686");
    // Where libvirt could not tell the processor, it says nothing of features.
    let model = cpu.at(&["model"])?.text();
    let listed = cpu
        .all("feature")
        .any(|feature| matches!(feature.attribute("name"), Some("vmx" | "svm")));
    let included = MODELS_WITH_SVM.iter().any(|with| model.starts_with(with));
    is_x86.then_some(listed || included)
}

/// What domains of one type can be on a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guests {
    /// How they are run.
    pub domain_type: String,
    /// The program that runs them.
    pub emulator: String,
    /// Their architecture.
    pub arch: String,
    /// Their machine, such as `pc-q35-7.2`.
    pub machine: String,
    /// The most processors they can have.
    pub max_vcpus: Option<u32>,
    /// Whether libvirt finds a UEFI firmware by itself.
    pub has_uefi: bool,
    /// What a processor may be: `host-passthrough`, `maximum`, `host-model`, `custom`.
    pub cpu_modes: Vec<String>,
}

impl Guests {
    /// From `virConnectGetDomainCapabilities`; `None` where the document is no such thing.
    #[must_use]
    pub fn parse(document: &str) -> Option<Self> {
        let root = Element::parse(document).filter(|root| root.name() == "domainCapabilities")?;
        let text = |name: &str| Some(root.at(&[name])?.text().to_owned());
        let os = root.at(&["os"]);
        let has_uefi = os
            .into_iter()
            .flat_map(|os| os.all("enum"))
            .filter(|choices| choices.attribute("name") == Some("firmware"))
            .flat_map(|choices| choices.all("value"))
            .any(|value| value.text() == "efi");
        let cpu_modes = root
            .at(&["cpu"])
            .into_iter()
            .flat_map(|cpu| cpu.all("mode"))
            .filter(|mode| mode.attribute("supported") == Some("yes"))
            .filter_map(|mode| mode.attribute("name").map(str::to_owned))
            .collect();
        Some(Self {
            domain_type: text("domain")?,
            emulator: text("path")?,
            arch: text("arch")?,
            machine: text("machine")?,
            max_vcpus: root
                .at(&["vcpu"])
                .and_then(|vcpu| vcpu.attribute("max")?.parse().ok()),
            has_uefi,
            cpu_modes,
        })
    }

    /// Whether a processor may be of that mode.
    #[must_use]
    pub fn has_cpu_mode(&self, mode: &str) -> bool {
        self.cpu_modes.iter().any(|own| own == mode)
    }
}

/// How guests are run on a host: as its configuration says, else by the processor where that is sure to
/// work. `offers_kvm` is whether libvirt answers for domains of type `kvm`.
#[must_use]
pub fn domain_type(configured: Option<DomainType>, facts: &HostFacts, offers_kvm: bool) -> DomainType {
    match configured {
        Some(configured) => configured,
        None if offers_kvm && facts.virtualizes.unwrap_or(true) => DomainType::Kvm,
        None => DomainType::Qemu,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(arch: &str, cpu: &str) -> HostFacts {
        HostFacts::parse(&format!(
            "<capabilities><host><uuid>bc04a6e4-a7ac-4960-901b-0b7fd60da33e</uuid><cpu><arch>{arch}</arch>{cpu}</cpu>\
             </host></capabilities>"
        ))
        .expect("capabilities")
    }

    #[test]
    fn a_host_is_told_by_its_uuid() {
        let facts = HostFacts::parse(include_str!("capability/capabilities.xml")).expect("capabilities");
        assert_eq!(facts.uuid.to_string(), "bc04a6e4-a7ac-4960-901b-0b7fd60da33e");
        assert_eq!(facts.arch, "x86_64");
        // The processor of a virtual machine into which /dev/kvm was handed all the same.
        assert_eq!(facts.virtualizes, Some(false));
        for not in [
            "",
            "<capabilities/>",
            "<domainCapabilities/>",
            "<capabilities><host><uuid>x</uuid></host></capabilities>",
        ] {
            assert_eq!(HostFacts::parse(not), None, "{not}");
        }
    }

    #[test]
    fn processors_that_run_guests() {
        for (arch, cpu, virtualizes) in [
            (
                "x86_64",
                "<model>Skylake-Client</model><feature name='vmx'/>",
                Some(true),
            ),
            (
                "x86_64",
                "<model>Skylake-Client</model><feature name='ht'/>",
                Some(false),
            ),
            ("x86_64", "<model>EPYC-Rome-v4</model>", Some(true)),
            ("x86_64", "<model>kvm64</model><feature name='svm'/>", Some(true)),
            ("x86_64", "<model>kvm64</model>", Some(false)),
            ("x86_64", "", None),
            ("aarch64", "<model>cortex-a72</model>", None),
        ] {
            assert_eq!(host(arch, cpu).virtualizes, virtualizes, "{arch} {cpu}");
        }
    }

    #[test]
    fn the_domain_type_is_what_really_works_unless_configured() {
        let useless = host("x86_64", "<model>kvm64</model>");
        let able = host("x86_64", "<model>EPYC</model>");
        let unknown = host("aarch64", "<model>cortex-a72</model>");
        for (facts, offers_kvm, chosen) in [
            (&able, true, DomainType::Kvm),
            (&able, false, DomainType::Qemu),
            (&useless, true, DomainType::Qemu),
            (&unknown, true, DomainType::Kvm),
            (&unknown, false, DomainType::Qemu),
        ] {
            assert_eq!(domain_type(None, facts, offers_kvm), chosen, "{facts:?}");
            for configured in [DomainType::Kvm, DomainType::Qemu] {
                assert_eq!(domain_type(Some(configured), facts, offers_kvm), configured);
            }
        }
    }

    #[test]
    fn guests_are_what_libvirt_says() {
        let document = include_str!("capability/domain_capabilities.xml");
        let guests = Guests::parse(document).expect("domain capabilities");
        assert_eq!(
            guests,
            Guests {
                domain_type: "qemu".to_owned(),
                emulator: "/usr/bin/qemu-system-x86_64".to_owned(),
                arch: "x86_64".to_owned(),
                machine: "pc-i440fx-7.2".to_owned(),
                max_vcpus: Some(255),
                has_uefi: false,
                cpu_modes: ["maximum", "host-model", "custom"].map(str::to_owned).into(),
            }
        );
        assert!(guests.has_cpu_mode("maximum") && !guests.has_cpu_mode("host-passthrough"));
        let with_uefi = document.replace(
            "<enum name='firmware'/>",
            "<enum name='firmware'><value>bios</value><value>efi</value></enum>",
        );
        assert!(Guests::parse(&with_uefi).expect("sound").has_uefi);
        assert_eq!(Guests::parse("<domainCapabilities/>"), None);
    }
}

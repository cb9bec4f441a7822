//! What libvirt's XML says of a domain, as far as it matters here.
//!
//! It must not ask libvirt. Invariant: what is read is what is there; nothing is concluded from a name.

use super::mark::{self, Reading, Tag};
use super::names::Place;
use super::policy::Policy;
use super::volumes::{self, Stem};
use super::xml::Element;

/// A domain's description.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Description {
    /// What its metadata says.
    pub(super) reading: Reading,
    /// The marks of other policies on it.
    pub(super) others: Vec<(String, Option<Tag>)>,
    /// The hardware addresses of its interfaces, in their order.
    pub(super) hardware: Vec<String>,
    /// The paths of its disks.
    pub(super) files: Vec<String>,
}

impl Description {
    /// From the XML of the domain at `place`, which one has none whose name fits into no id; `None` where it
    /// is no domain's.
    pub(super) fn read(policy: &Policy, place: Option<&Place>, xml: &str) -> Option<Self> {
        let root = Element::parse(xml).filter(|root| root.name() == "domain")?;
        let metadata = root.at(&["metadata"]);
        let devices = root.at(&["devices"]);
        let interfaces = devices.into_iter().flat_map(|devices| devices.all("interface"));
        let disks = devices.into_iter().flat_map(|devices| devices.all("disk"));
        let text = |element: Option<&Element>, attribute| {
            element.and_then(|element| element.attribute(attribute).map(str::to_owned))
        };
        Some(Self {
            reading: mark::read(policy, place, metadata),
            others: mark::others(policy, metadata),
            hardware: interfaces
                .filter_map(|interface| text(interface.at(&["mac"]), "address"))
                .collect(),
            files: disks
                .filter_map(|disk| text(disk.at(&["source"]), "file"))
                .collect(),
        })
    }

    /// The volumes of ours that it uses, whatever its mark says.
    pub(super) fn stems(&self) -> Vec<Stem> {
        let mut stems: Vec<_> = self
            .files
            .iter()
            .filter_map(|file| volumes::stem_of_path(file))
            .collect();
        if let Reading::Marked(tag) = &self.reading {
            stems.extend(tag.stem.clone());
        }
        stems
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::kvm;
    use crate::backend::libvirt::mark::tests::tagged;
    use crate::backend::libvirt::volumes::Part;

    #[test]
    fn a_domain_is_described_by_its_xml() {
        let (place, tag) = tagged(&kvm::POLICY);
        let stem = tag.stem.clone().expect("volumes");
        let xml = format!(
            "<domain type='kvm' id='3'><name>team-a</name><metadata>\n  {}\n</metadata><devices>\
             <disk type='file'><source file='/p/{}' index='1'/><backingStore type='file'>\
             <source file='/p/base'/></backingStore></disk>\
             <disk type='file' device='cdrom'/>\
             <interface type='bridge'><mac address='52:54:00:00:00:01'/></interface>\
             <interface type='bridge'><mac address='52:54:00:00:00:02'/></interface></devices></domain>",
            mark::in_domain(&kvm::POLICY, &tag).expect("JSON"),
            stem.volume(Part::Disk)
        );
        let description = Description::read(&kvm::POLICY, Some(&place), &xml).expect("a domain");
        assert_eq!(description.hardware, ["52:54:00:00:00:01", "52:54:00:00:00:02"]);
        assert_eq!(description.files, [format!("/p/{}", stem.volume(Part::Disk))]);
        assert_eq!(description.stems(), [stem.clone(), stem]);
        assert_eq!(description.reading, Reading::Marked(Box::new(tag)));
        assert!(description.others.is_empty());
    }

    #[test]
    fn what_is_no_domain_is_none() {
        let place = Place::at("h1", "a").expect("a place");
        for text in ["", "<domain>", "<network/>"] {
            assert_eq!(
                Description::read(&kvm::POLICY, Some(&place), text),
                None,
                "{text}"
            );
        }
        let bare = Description::read(&kvm::POLICY, Some(&place), "<domain/>").expect("a domain");
        assert_eq!((bare.reading, bare.hardware.len()), (Reading::Unmarked, 0));
    }
}

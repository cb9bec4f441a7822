//! The names of a proxy's volumes, which say whose they are.
//!
//! It must not ask libvirt. Invariants: a name says installation, namespace, name, uid and the incarnation
//! that made it, so that one listing of a pool tells what is left of whom, and no two creates ever write
//! to one volume; a name that does not say all of it is none of ours.

use std::collections::BTreeMap;
use std::fmt;

use uuid::Uuid;

use super::policy::Policy;
use crate::contract::{Incarnation, InstanceKey, NewInstance, Uid};
use crate::transport::libvirt::types::Volume;

/// What a volume is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    /// What differs from the image.
    Disk,
    /// What cloud-init reads.
    Seed,
}

impl Part {
    /// Every part, in the order in which they are made.
    pub(super) const ALL: [Self; 2] = [Self::Disk, Self::Seed];

    fn as_str(self) -> &'static str {
        match self {
            Self::Disk => "disk",
            Self::Seed => "seed",
        }
    }
}

/// What the names of the volumes of one proxy begin with.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Stem {
    kind: String,
    /// Whose.
    pub(super) key: InstanceKey,
    /// Of which specification.
    pub(super) uid: Uid,
    /// Which create made them.
    pub(super) incarnation: Incarnation,
}

impl Stem {
    /// The stem of what a create makes.
    pub(super) fn of(policy: &Policy, request: &NewInstance) -> Self {
        Self {
            kind: policy.volumes.to_owned(),
            key: request.key.clone(),
            uid: request.uid,
            incarnation: request.incarnation,
        }
    }

    /// Whether a create under that policy made it.
    pub(super) fn is_of(&self, policy: &Policy) -> bool {
        self.kind == policy.volumes
    }

    /// The name of a volume.
    pub(super) fn volume(&self, part: Part) -> String {
        format!("{self}.{}", part.as_str())
    }

    /// Reads a stem; `None` where it is none.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let fields: Vec<_> = text.split('.').collect();
        let [kind, installation, namespace, name, uid, incarnation] = fields.as_slice() else {
            return None;
        };
        // Ours alone begin so, and images do too, whose names have no such fields.
        let stem = kind.starts_with("egress-").then(|| {
            Some(Self {
                kind: (*kind).to_owned(),
                key: InstanceKey {
                    installation: installation.parse().ok()?,
                    namespace: namespace.parse().ok()?,
                    name: name.parse().ok()?,
                },
                uid: uid.parse().ok()?,
                incarnation: incarnation.parse().ok()?,
            })
        })??;
        // A UUID may be spelled in several ways; a volume's name in one.
        (stem.to_string() == text).then_some(stem)
    }
}

impl fmt::Display for Stem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = |uuid: Uuid| uuid.simple().to_string();
        write!(
            f,
            "{}.{}.{}.{}.{}.{}",
            self.kind,
            self.key.installation,
            self.key.namespace,
            self.key.name,
            plain(self.uid.as_uuid()),
            plain(self.incarnation.as_uuid())
        )
    }
}

/// Reads the name of a volume.
pub(super) fn parse(name: &str) -> Option<(Stem, Part)> {
    let (stem, part) = name.rsplit_once('.')?;
    let part = Part::ALL.into_iter().find(|known| known.as_str() == part)?;
    Some((Stem::parse(stem)?, part))
}

/// The volumes of a pool that are a proxy's, by proxy.
pub(super) type Owned = BTreeMap<Stem, Vec<Volume>>;

/// Sorts out the volumes that creates under that policy made.
pub(super) fn owned(policy: &Policy, volumes: Vec<Volume>) -> Owned {
    let mut owned = Owned::new();
    for volume in volumes {
        if let Some((stem, _part)) = parse(&volume.name)
            && stem.is_of(policy)
        {
            owned.entry(stem).or_default().push(volume);
        }
    }
    owned
}

/// The stem of the volumes that a path leads to one of.
pub(super) fn stem_of_path(path: &str) -> Option<Stem> {
    let name = path.rsplit('/').next()?;
    parse(name).map(|(stem, _part)| stem)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::{kvm, kvm2};
    use crate::contract::Facts;

    fn stem(policy: &Policy, installation: &str, namespace: &str, name: &str) -> Stem {
        let key = InstanceKey {
            installation: installation.parse().expect("valid"),
            namespace: namespace.parse().expect("valid"),
            name: name.parse().expect("valid"),
        };
        Stem::of(
            policy,
            &NewInstance::new(key, Facts::default(), Default::default()),
        )
    }

    #[test]
    fn a_name_says_whose_it_is() {
        let stem = stem(&kvm2::POLICY, "prod", "team-a", "x");
        for part in Part::ALL {
            let name = stem.volume(part);
            assert_eq!(parse(&name), Some((stem.clone(), part)));
            assert_eq!(stem_of_path(&format!("/var/lib/pool/{name}")), Some(stem.clone()));
        }
        assert!(stem.is_of(&kvm2::POLICY) && !stem.is_of(&kvm::POLICY));
    }

    #[test]
    fn the_longest_name_is_one_that_file_systems_take() {
        let long = |length: usize| format!("a{}", "b".repeat(length - 1));
        let stem = stem(&kvm2::POLICY, &long(40), &long(63), &long(63));
        for part in Part::ALL {
            assert!(stem.volume(part).len() <= 255, "{}", stem.volume(part).len());
        }
    }

    #[test]
    fn what_does_not_say_all_of_it_is_none_of_ours() {
        let sound = stem(&kvm::POLICY, "prod", "default", "a").volume(Part::Disk);
        assert!(parse(&sound).is_some());
        for foreign in [
            "debian.qcow2".to_owned(),
            "egress-image-0011.base".to_owned(),
            sound.replace(".disk", ".raw"),
            sound.replace("egress-kvm.", "kvm."),
            sound.replace(".prod.", ".Prod."),
            sound.replace(".disk", "0.disk"),
            format!("x.{sound}"),
            sound.to_uppercase(),
        ] {
            assert_eq!(parse(&foreign), None, "{foreign}");
        }
    }

    #[test]
    fn the_volumes_of_a_pool_are_sorted_by_proxy() {
        let (mine, other) = (
            stem(&kvm::POLICY, "prod", "default", "a"),
            stem(&kvm2::POLICY, "prod", "default", "a"),
        );
        let volume = |name: String| Volume {
            pool: "default".to_owned(),
            key: format!("/p/{name}"),
            name,
        };
        let all = vec![
            volume(mine.volume(Part::Disk)),
            volume("debian.qcow2".to_owned()),
            volume(mine.volume(Part::Seed)),
            volume(other.volume(Part::Disk)),
        ];
        let owned = owned(&kvm::POLICY, all);
        assert_eq!(owned.len(), 1);
        assert_eq!(owned.get(&mine).map(Vec::len), Some(2));
    }
}

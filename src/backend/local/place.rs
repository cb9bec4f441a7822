//! Where a proxy of this machine is: its id, and the paths that follow from it.
//!
//! It must not touch the file system. Invariant: an id and a place are the same thing in two forms,
//! and no two ids share a path.

use std::path::{Path, PathBuf};

use crate::contract::{InstanceKey, Namespace, NativeId, ProxyName, Target};

/// A proxy's place under a state directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    id: NativeId,
    namespace: Namespace,
    name: ProxyName,
    namespace_dir: PathBuf,
}

impl Place {
    /// What an id looks like, for errors.
    pub(super) const GRAMMAR: &'static str = "\"<namespace>/<name>\"";

    /// The place of a key. `None` never comes: whatever names may be joined to an id.
    pub(super) fn of(state_dir: &Path, key: &InstanceKey) -> Option<Self> {
        Self::at(state_dir, key.namespace.clone(), key.name.clone())
    }

    /// The place that an id names; `None` where it is no id of this backend.
    pub(super) fn parse(state_dir: &Path, id: &NativeId) -> Option<Self> {
        let (namespace, name) = id.as_str().split_once('/')?;
        Self::at(state_dir, namespace.parse().ok()?, name.parse().ok()?)
    }

    /// The place of that name.
    pub(super) fn at(state_dir: &Path, namespace: Namespace, name: ProxyName) -> Option<Self> {
        Some(Self {
            id: format!("{namespace}/{name}").parse().ok()?,
            namespace_dir: state_dir.join(namespace.as_str()),
            namespace,
            name,
        })
    }

    /// The id of the proxy here.
    pub(super) fn id(&self) -> &NativeId {
        &self.id
    }

    /// The proxy's namespace.
    pub(super) fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// The proxy's name.
    pub(super) fn name(&self) -> &ProxyName {
        &self.name
    }

    /// The directory of the namespace.
    pub(super) fn namespace_dir(&self) -> &Path {
        &self.namespace_dir
    }

    /// The directory of the proxy.
    pub(super) fn dir(&self) -> PathBuf {
        self.namespace_dir.join(self.name.as_str())
    }

    // No name has a dot in it: the paths beside the directory are nobody else's.

    /// Locked while an operation works on the proxy.
    pub(super) fn lock(&self) -> PathBuf {
        self.namespace_dir.join(format!("{}.lock", self.name))
    }

    /// The directory before it is published under its name.
    pub(super) fn unpublished(&self) -> PathBuf {
        self.namespace_dir.join(format!(".{}.new", self.name))
    }

    /// The directory after it was taken from its name.
    pub(super) fn withdrawn(&self) -> PathBuf {
        self.namespace_dir.join(format!(".{}.old", self.name))
    }

    /// What carries the mark.
    pub(super) fn record(&self) -> PathBuf {
        self.dir().join(RECORD)
    }

    /// Squid's configuration, which also names the proxy's process in its arguments.
    pub(super) fn conf(&self) -> PathBuf {
        self.dir().join("squid.conf")
    }

    /// The password file.
    pub(super) fn passwords(&self) -> PathBuf {
        self.dir().join("passwd")
    }

    /// What Squid writes about itself.
    pub(super) fn cache_log(&self) -> PathBuf {
        self.dir().join("cache.log")
    }
}

/// The file that carries the mark, within a proxy's directory.
pub(super) const RECORD: &str = "instance.json";

/// What stands behind a local backend's name: the machine and the directory as one fact, since a
/// proxy is absent only from the directory it was in.
pub(super) fn target(machine: &str, state_dir: &Path) -> Target {
    Target::new([("place", format!("{machine}:{}", state_dir.display()))])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_and_places_are_one_thing() {
        let dir = Path::new("/s");
        let id: NativeId = "default/a-1".parse().expect("an id");
        let place = Place::parse(dir, &id).expect("a place");
        assert_eq!(place.id(), &id);
        assert_eq!(place.dir(), Path::new("/s/default/a-1"));
        let key = InstanceKey {
            installation: "prod".parse().expect("valid"),
            namespace: Namespace::default(),
            name: "a-1".parse().expect("valid"),
        };
        assert_eq!(Place::of(dir, &key), Some(place));
        for bad in [
            "a",
            "default/a/b",
            "Default/a",
            "default/a.b",
            "default/..",
            "../a",
            "zones/z/instances/a",
        ] {
            let id = bad.parse().expect("printable");
            assert_eq!(Place::parse(dir, &id), None, "{bad}");
        }
    }

    #[test]
    fn no_path_of_one_proxy_is_another_proxys() {
        let place = |name: &str| {
            Place::parse(
                Path::new("/s"),
                &format!("default/{name}").parse().expect("an id"),
            )
            .expect("a place")
        };
        let paths = |place: &Place| [place.dir(), place.lock(), place.unpublished(), place.withdrawn()];
        let a = place("a");
        for other in ["a-lock", "lock", "new", "old", "a-new"] {
            let other = place(other);
            assert!(paths(&a).iter().all(|path| !paths(&other).contains(path)));
        }
    }

    #[test]
    fn another_directory_is_another_target() {
        let here = target("m1", Path::new("/s"));
        assert!(here.conflict(&target("m1", Path::new("/t"))).is_some());
        assert!(here.conflict(&target("m2", Path::new("/s"))).is_some());
        assert!(here.conflict(&target("m1", Path::new("/s"))).is_none());
    }
}

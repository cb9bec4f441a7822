//! Where a proxy of a cluster is: its id, and the namespace and name of its Pod.
//!
//! It must not know what is there. Invariant: an id and a place are the same thing in two forms.

use crate::contract::{Installation, InstanceKey, Namespace, NativeId, ProxyName};

/// The namespace and the name that a proxy's Pod, and its Service where it has one, share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    id: NativeId,
    namespace: Namespace,
    name: ProxyName,
}

impl Place {
    /// What an id looks like, for errors.
    pub(super) const GRAMMAR: &'static str = "\"<namespace>/<name>\"";

    /// The place of a key. `None` never comes: whatever names may be joined to an id.
    pub(super) fn of(key: &InstanceKey) -> Option<Self> {
        Self::at(key.namespace.clone(), key.name.clone())
    }

    /// The place that an id names; `None` where it is no id of this backend.
    pub(super) fn parse(id: &NativeId) -> Option<Self> {
        let (namespace, name) = id.as_str().split_once('/')?;
        Self::at(namespace.parse().ok()?, name.parse().ok()?)
    }

    fn at(namespace: Namespace, name: ProxyName) -> Option<Self> {
        Some(Self {
            id: format!("{namespace}/{name}").parse().ok()?,
            namespace,
            name,
        })
    }

    /// The id of the proxy here.
    pub(super) fn id(&self) -> &NativeId {
        &self.id
    }

    /// The key of the proxy here, under that owner.
    pub(super) fn key(&self, installation: &Installation) -> InstanceKey {
        InstanceKey {
            installation: installation.clone(),
            namespace: self.namespace.clone(),
            name: self.name.clone(),
        }
    }

    /// The namespace of its objects.
    pub(super) fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// The name of its objects.
    pub(super) fn name(&self) -> &str {
        self.name.as_str()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_a_namespace_and_a_name() {
        let parse = |id: &str| id.parse().ok().and_then(|id| Place::parse(&id));
        let place = parse("egress/a").expect("an id");
        assert_eq!((place.namespace().as_str(), place.name()), ("egress", "a"));
        assert_eq!(place.id().as_str(), "egress/a");
        for malformed in [
            "a",
            "egress/a/b",
            "Egress/a",
            "egress/A",
            "egress/a_b",
            "egress/..",
        ] {
            assert_eq!(parse(malformed), None, "{malformed}");
        }
    }
}

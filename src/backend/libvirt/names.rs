//! Where a proxy is: its id, its host, and the name of its domain.
//!
//! It must not know what is there, nor whether the host is configured. Invariant: an id and a place are
//! the same thing in two forms.

use crate::contract::{Installation, InstanceKey, Namespace, NativeId};

/// A host and the name of a domain on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    id: NativeId,
    host: String,
    domain: String,
}

impl Place {
    /// What an id looks like, for errors.
    pub const GRAMMAR: &'static str = "\"hosts/<host>/domains/<name>\"";

    /// The place of a key on that host; `None` where no id can be made of it.
    #[must_use]
    pub fn of(host: &str, key: &InstanceKey) -> Option<Self> {
        Self::at(host, &domain_name(key))
    }

    /// The place of the domain of that name; `None` where its name fits into no id, so that it is none
    /// that this provider could have made.
    #[must_use]
    pub fn at(host: &str, domain: &str) -> Option<Self> {
        let place = Self {
            id: format!("hosts/{host}/domains/{domain}").parse().ok()?,
            host: host.to_owned(),
            domain: domain.to_owned(),
        };
        (!domain.contains('/') && !host.contains('/')).then_some(place)
    }

    /// The place that an id names; `None` where it is no id of this backend.
    #[must_use]
    pub fn parse(id: &NativeId) -> Option<Self> {
        let (host, domain) = id.as_str().strip_prefix("hosts/")?.split_once("/domains/")?;
        Self::at(host, domain)
    }

    /// The id of the proxy here.
    #[must_use]
    pub fn id(&self) -> &NativeId {
        &self.id
    }

    /// The name of its host.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The name of its domain.
    #[must_use]
    pub fn domain(&self) -> &str {
        &self.domain
    }

    /// Whether a proxy of that key is here.
    #[must_use]
    pub fn holds(&self, key: &InstanceKey) -> bool {
        self.domain == domain_name(key)
    }

    /// The key of a domain of which nothing is known but its name. That of another namespace begins with
    /// it, which nobody can tell from a name: what has been ours says in its volumes' names which it is.
    #[must_use]
    pub fn key(&self, installation: &Installation) -> Option<InstanceKey> {
        Some(InstanceKey {
            installation: installation.clone(),
            namespace: Namespace::default(),
            name: self.domain.parse().ok()?,
        })
    }
}

/// A domain's name has no room for a namespace beside it, so one that is not the default begins it.
fn domain_name(key: &InstanceKey) -> String {
    if key.namespace.is_default() {
        key.name.to_string()
    } else {
        format!("{}-{}", key.namespace, key.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(namespace: &str, name: &str) -> InstanceKey {
        InstanceKey {
            installation: "prod".parse().expect("valid"),
            namespace: namespace.parse().expect("valid"),
            name: name.parse().expect("valid"),
        }
    }

    #[test]
    fn an_id_is_a_host_and_a_domain() {
        for (namespace, name, id) in [
            ("default", "a", "hosts/h1/domains/a"),
            ("team", "a", "hosts/h1/domains/team-a"),
        ] {
            let place = Place::of("h1", &key(namespace, name)).expect("a place");
            assert_eq!(place.id().as_str(), id);
            assert!(place.holds(&key(namespace, name)) && !place.holds(&key("other", name)));
            assert_eq!(Place::parse(place.id()), Some(place));
        }
    }

    #[test]
    fn what_is_no_id_is_refused_without_a_panic() {
        for malformed in [
            "vlab-01",
            "hosts/h/domains/a/b",
            "hosts/h",
            "hosts/h/domains",
            "domains/a",
            "host/h/domains/a",
            "6b1c1e0a-8c6e-4a3b-8d6b-1f7c3b1a2d3e",
            "hosts/h/x/domains/a",
        ] {
            let id: NativeId = malformed.parse().expect("segments");
            assert_eq!(Place::parse(&id), None, "{malformed}");
        }
        let imported: NativeId = "hosts/h1/domains/vlab-01".parse().expect("segments");
        assert_eq!(Place::parse(&imported).expect("an id").domain(), "vlab-01");
    }

    #[test]
    fn a_domain_of_any_name_has_a_place_but_not_every_one_a_key() {
        let installation = "prod".parse().expect("valid");
        let shop = Place::at("h1", "Shop_1").expect("an id");
        assert_eq!(shop.key(&installation), None);
        assert_eq!(Place::at("h1", "web server"), None);
        let plain = Place::at("h1", "team-a").expect("an id");
        assert_eq!(plain.key(&installation), Some(key("default", "team-a")));
    }
}

//! The mark: what every instance of ours carries, on every backend.
//!
//! It holds no secret. Each backend writes it in its own form (labels and annotations, metadata, a
//! file); this module says what it holds, and how its facts read as one JSON document.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::model::{Incarnation, InstanceKey, Uid};
use super::spec::{Fact, Facts};

/// What every instance carries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mark {
    /// Installation, namespace and name.
    pub key: InstanceKey,
    /// The adoption guard.
    pub uid: Uid,
    /// Tells this instance from one that takes its place.
    pub incarnation: Incarnation,
    /// Whether create has not handed it over yet: the next create of the same uid resumes it.
    pub pending: bool,
    /// The keys of the labels that the user set, and that an update may therefore remove.
    #[serde(default)]
    pub label_keys: BTreeSet<String>,
    /// When create began, where the backend has no timestamp of its own.
    #[serde(default)]
    pub created_at: Option<Timestamp>,
    /// The hash of `facts`, under the version it names.
    pub spec_sha256: String,
    /// The create-only facts as they took effect, defaults included.
    pub facts: Facts,
    /// Which of the facts the user gave; the rest were defaults.
    #[serde(default)]
    pub given: BTreeSet<Fact>,
}

impl Mark {
    /// The facts as the user gave them: an import fills these and leaves the rest null.
    #[must_use]
    pub fn given_facts(&self) -> Facts {
        let facts = self.facts.clone();
        let given = |fact| self.given.contains(&fact);
        Facts {
            port: facts.port.filter(|_| given(Fact::Port)),
            zone: facts.zone.filter(|_| given(Fact::Zone)),
            region: facts.region.filter(|_| given(Fact::Region)),
            machine_type: facts.machine_type.filter(|_| given(Fact::MachineType)),
            image: facts.image.filter(|_| given(Fact::Image)),
            spot: facts.spot.filter(|_| given(Fact::Spot)),
            allowed_cidrs: facts.allowed_cidrs.filter(|_| given(Fact::AllowedCidrs)),
            allowed_ports: facts.allowed_ports.filter(|_| given(Fact::AllowedPorts)),
            allowed_domains: facts.allowed_domains.filter(|_| given(Fact::AllowedDomains)),
            username: facts.username.filter(|_| given(Fact::Username)),
            password: facts.password.filter(|_| given(Fact::Password)),
            cloud_init: facts.cloud_init.filter(|_| given(Fact::CloudInit)),
        }
    }

    /// When this incarnation began: the later of creation and incarnation, which is what the age of
    /// an instance is counted from. `None` (unknown) is too young to collect.
    #[must_use]
    pub fn began_at(&self, created_at: Option<Timestamp>) -> Option<Timestamp> {
        Some(created_at?.max(self.incarnation.made_at()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::model::Namespace;

    fn mark() -> Mark {
        let key = InstanceKey {
            installation: "prod".parse().expect("valid"),
            namespace: Namespace::default(),
            name: "a".parse().expect("valid"),
        };
        let facts = Facts {
            zone: Some("h1".into()),
            ..Facts::default()
        }
        .with_common_defaults();
        Mark {
            uid: Uid::of(&key, &facts.sha256()),
            key,
            incarnation: Incarnation::fresh(),
            pending: false,
            label_keys: BTreeSet::new(),
            created_at: None,
            spec_sha256: facts.sha256(),
            facts,
            given: BTreeSet::from([Fact::Zone]),
        }
    }

    #[test]
    fn what_was_defaulted_is_not_given() {
        let given = mark().given_facts();
        assert_eq!(
            given,
            Facts {
                zone: Some("h1".into()),
                ..Facts::default()
            }
        );
    }

    #[test]
    fn a_mark_survives_its_json() {
        let mark = mark();
        let text = serde_json::to_string(&mark).expect("a mark is JSON");
        assert_eq!(serde_json::from_str::<Mark>(&text).expect("reads back"), mark);
    }

    #[test]
    fn age_counts_from_the_later_of_creation_and_incarnation() {
        let mark = mark();
        let made = mark.incarnation.made_at().expect("v7");
        assert_eq!(mark.began_at(Some(Timestamp::UNIX_EPOCH)), Some(made));
        assert_eq!(mark.began_at(Some(Timestamp::MAX)), Some(Timestamp::MAX));
        assert_eq!(mark.began_at(None), None);
    }
}

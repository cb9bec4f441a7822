//! Whose an instance is: what the mark on it says to a request, and the mark that a create writes.
//!
//! It must not know how a backend stores a mark, nor in which state the instance is. Invariant: every
//! backend judges a mark alike, and refuses in the words of [`refusal`].

use jiff::Timestamp;

use super::model::label_keys;
use super::{
    AdoptPolicy, Adopted, Error, GetRequest, Installation, InstanceId, Mark, NewInstance, Resume, Target,
    refusal,
};

impl Mark {
    /// Refuses what another installation owns.
    ///
    /// # Errors
    /// Permanent, naming both.
    pub fn belongs_to(&self, ours: &Installation, id: &InstanceId) -> Result<(), Error> {
        let theirs = &self.key.installation;
        if theirs == ours {
            Ok(())
        } else {
            Err(refusal::other_installation(id, theirs, ours))
        }
    }
}

impl NewInstance {
    /// The mark of a new instance, which says pending; `created_at` where the backend has no timestamp
    /// of its own.
    #[must_use]
    pub fn pending_mark(&self, created_at: Option<Timestamp>) -> Mark {
        Mark {
            key: self.key.clone(),
            uid: self.uid,
            incarnation: self.incarnation,
            pending: true,
            label_keys: label_keys(&self.labels),
            created_at,
            spec_sha256: self.spec_sha256.clone(),
            facts: self.facts.clone(),
            given: self.given.clone(),
        }
    }

    /// Whether the mark found under the name is of this installation and specification.
    ///
    /// # Errors
    /// Permanent where it is not.
    pub fn claims(&self, mark: &Mark, id: &InstanceId) -> Result<(), Error> {
        mark.belongs_to(&self.key.installation, id)?;
        if mark.uid != self.uid {
            return Err(refusal::other_specification(id, mark, &self.facts));
        }
        Ok(())
    }

    /// As what it takes over an instance that it [claims](Self::claims).
    ///
    /// # Errors
    /// Permanent where the policy forbids that, or a state may hold it.
    pub fn adopts(&self, mark: &Mark, id: &InstanceId) -> Result<Adopted, Error> {
        match (mark.pending, self.adopt) {
            // An earlier attempt of this very create: what it made is nobody else's.
            _ if mark.incarnation == self.incarnation => Ok(Adopted::No),
            (true, AdoptPolicy::Interrupted | AdoptPolicy::SameSpec) => Ok(Adopted::Pending),
            (false, AdoptPolicy::SameSpec) => Ok(Adopted::SameSpec),
            (true, AdoptPolicy::Never) => Err(refusal::never_adopted(id)),
            (false, AdoptPolicy::Interrupted | AdoptPolicy::Never) => Err(refusal::handed_over(id, mark)),
        }
    }
}

impl Resume {
    /// Whether the mark found is exactly of the incarnation that was planned for.
    ///
    /// # Errors
    /// Permanent where it is not.
    pub fn holds(&self, mark: &Mark, id: &InstanceId) -> Result<(), Error> {
        if mark.incarnation != self.incarnation {
            return Err(refusal::plan_again(id, &refusal::whose(id, mark)));
        }
        mark.belongs_to(&self.installation, id)
    }
}

impl GetRequest {
    /// Whether the mark found on `target` is what was asked for.
    ///
    /// # Errors
    /// NotFound where another incarnation took its place, Permanent where that cannot be concluded or
    /// another installation owns it.
    pub fn holds(&self, mark: &Mark, id: &InstanceId, target: &Target) -> Result<(), Error> {
        if self.incarnation.is_some_and(|asked| asked != mark.incarnation) {
            return self.absent(refusal::replaced(id, mark), id, target);
        }
        mark.belongs_to(&self.installation, id)
    }

    /// Concludes absence, in the words given.
    ///
    /// # Errors
    /// Always: those words, or Permanent where the state recorded another target.
    pub fn absent<T>(&self, words: Error, id: &InstanceId, target: &Target) -> Result<T, Error> {
        refusal::same_target(id, self.recorded_target.as_ref(), target)?;
        Err(words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::{ErrorKind, Facts, Incarnation, InstanceKey, Namespace};

    fn request(installation: &str, facts: Facts) -> NewInstance {
        let key = InstanceKey {
            installation: installation.parse().expect("valid"),
            namespace: Namespace::default(),
            name: "a".parse().expect("valid"),
        };
        NewInstance::new(key, facts.with_common_defaults(), Default::default())
    }

    fn id() -> InstanceId {
        "lab/default/a".parse().expect("valid")
    }

    fn target(fact: &str) -> Target {
        Target::new([("machine", fact.to_owned())])
    }

    #[test]
    fn a_name_is_claimed_by_the_same_installation_and_specification() {
        let ours = request("prod", Facts::default());
        let other_port = Facts {
            port: Some(8080),
            ..Facts::default()
        };
        for (theirs, says) in [
            (request("prod", Facts::default()), None),
            (request("test", Facts::default()), Some("\"test\"")),
            (request("prod", other_port), Some("another specification")),
        ] {
            let refused = ours.claims(&theirs.pending_mark(None), &id()).err();
            assert_eq!(refused.is_some(), says.is_some());
            if let Some(error) = refused {
                assert_eq!(error.kind(), ErrorKind::Permanent);
                assert!(error.to_string().contains(says.unwrap_or_default()), "{error}");
            }
        }
    }

    #[test]
    fn what_is_adopted_and_as_what() {
        use AdoptPolicy::{Interrupted, Never, SameSpec};
        for (pending, own, policy, adopted) in [
            (true, false, Interrupted, Some(Adopted::Pending)),
            (true, false, SameSpec, Some(Adopted::Pending)),
            (true, false, Never, None),
            (false, false, Interrupted, None),
            (false, false, SameSpec, Some(Adopted::SameSpec)),
            (false, false, Never, None),
            (true, true, Never, Some(Adopted::No)),
            (false, true, Never, Some(Adopted::No)),
        ] {
            let mut request = request("prod", Facts::default());
            request.adopt = policy;
            let mark = Mark {
                pending,
                incarnation: if own {
                    request.incarnation
                } else {
                    Incarnation::fresh()
                },
                ..request.pending_mark(None)
            };
            let found = request.adopts(&mark, &id()).ok();
            assert_eq!(found, adopted, "pending {pending}, own {own}, {policy:?}");
        }
    }

    #[test]
    fn another_incarnation_is_absence_on_the_recorded_target_alone() {
        let mark = request("prod", Facts::default()).pending_mark(None);
        let mut request = GetRequest {
            id: "default/a".parse().expect("valid"),
            incarnation: None,
            installation: "prod".parse().expect("valid"),
            recorded_target: Some(target("1")),
            probe: false,
            freshness: crate::contract::Freshness::Fresh,
        };
        let kind = |request: &GetRequest, there: &str| {
            let held = request.holds(&mark, &id(), &target(there));
            held.err().map(|error| error.kind())
        };
        assert_eq!(kind(&request, "1"), None);
        request.incarnation = Some(mark.incarnation);
        // Finding it proves the target.
        assert_eq!(kind(&request, "2"), None);
        request.incarnation = Some(Incarnation::fresh());
        assert_eq!(kind(&request, "1"), Some(ErrorKind::NotFound));
        assert_eq!(kind(&request, "2"), Some(ErrorKind::Permanent));
        request.incarnation = None;
        request.installation = "test".parse().expect("valid");
        assert_eq!(kind(&request, "1"), Some(ErrorKind::Permanent));
    }
}

//! What [`Backend::resolve`](super::Backend::resolve) is asked, and how every backend ends it.
//!
//! It must not know what a backend can honour. Invariant: a specification is resolved or it has at least
//! one problem, and whoever made it gets to see them all.

use std::collections::BTreeMap;

use super::{Fact, Facts, InstanceKey, NativeId, Warning};

/// Keys of labels that are the provider's own begin with this.
const OWN_LABELS: &str = "egress-proxy";

/// What a backend is asked to resolve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Specification {
    /// Namespace and name, under the backend's installation.
    pub key: InstanceKey,
    /// What the user gave.
    pub given: Facts,
    /// The user's labels.
    pub labels: BTreeMap<String, String>,
}

/// A specification that a backend can honour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// The id the instance has or will have.
    pub id: NativeId,
    /// The facts with every default filled in, in canonical form.
    pub facts: Facts,
    /// What the user should know at plan time.
    pub warnings: Vec<Warning>,
}

/// Something wrong with a specification, found without any I/O.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where.
    pub fact: Fact,
    /// What is wrong, with the value and the way out.
    pub message: String,
}

/// The problems of one specification, in the order in which they are found.
#[derive(Debug, Default)]
pub struct Problems(Vec<Problem>);

impl Problems {
    /// None yet, but for labels that are the provider's own.
    #[must_use]
    pub fn of(specification: &Specification) -> Self {
        let mut problems = Self::default();
        for label in specification.labels.keys() {
            if label.starts_with(OWN_LABELS) {
                problems.refuse(
                    Fact::Labels,
                    format!("the label \"{label}\" is the provider's own: choose another key"),
                );
            }
        }
        problems
    }

    /// One more.
    pub fn refuse(&mut self, fact: Fact, message: impl Into<String>) {
        let message = message.into();
        self.0.push(Problem { fact, message });
    }

    /// What was read from the specification, or `None` and all that is wrong with it.
    pub fn keep<T>(&mut self, read: Result<T, Vec<Problem>>) -> Option<T> {
        read.map_err(|problems| self.0.extend(problems)).ok()
    }

    /// The end of a resolve: where nothing is wrong, `id` is the instance's, and `facts` are effective.
    ///
    /// # Errors
    /// Every problem; that the names make no id is one too.
    pub fn or_resolved(
        mut self,
        id: Option<NativeId>,
        facts: Facts,
        warnings: Vec<Warning>,
    ) -> Result<Resolved, Vec<Problem>> {
        if id.is_none() && self.0.is_empty() {
            self.refuse(
                Fact::Name,
                "no id can be made of namespace and name: choose other ones",
            );
        }
        match id {
            Some(id) if self.0.is_empty() => Ok(Resolved { id, facts, warnings }),
            Some(_) | None => Err(self.0),
        }
    }
}

impl Extend<Problem> for Problems {
    fn extend<I: IntoIterator<Item = Problem>>(&mut self, problems: I) {
        self.0.extend(problems);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::Namespace;

    fn labelled(labels: &[&str]) -> Problems {
        Problems::of(&Specification {
            key: InstanceKey {
                installation: "prod".parse().expect("valid"),
                namespace: Namespace::default(),
                name: "a".parse().expect("valid"),
            },
            given: Facts::default(),
            labels: labels
                .iter()
                .map(|key| ((*key).to_owned(), String::new()))
                .collect(),
        })
    }

    #[test]
    fn a_resolve_ends_with_an_id_or_with_every_problem() {
        let id: NativeId = "default/a".parse().expect("valid");
        let end = |problems: Problems, id: Option<&NativeId>| {
            problems
                .or_resolved(id.cloned(), Facts::default(), Vec::new())
                .map(|resolved| resolved.id)
                .map_err(|problems| problems.iter().map(|problem| problem.fact).collect::<Vec<_>>())
        };
        assert_eq!(end(labelled(&["team"]), Some(&id)), Ok(id.clone()));
        assert_eq!(end(labelled(&["team"]), None), Err(vec![Fact::Name]));
        let mut problems = labelled(&["team", "egress-proxy/uid"]);
        let unread = problems.keep::<()>(Err(vec![Problem {
            fact: Fact::Port,
            message: String::new(),
        }]));
        assert_eq!(unread, None);
        assert_eq!(problems.keep(Ok(1)), Some(1));
        assert_eq!(end(problems, Some(&id)), Err(vec![Fact::Labels, Fact::Port]));
    }
}

//! Which namespaces are looked at.
//!
//! It must not know what is in them. Invariant: an empty list is a mistake, never everything.

use super::problem::{ConfigProblem, parsed};
use crate::contract::Namespace;

/// In `namespaces`: every namespace of the cluster.
const EVERY: &str = "*";

/// Which namespaces `list_by_tag` looks at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::backend::kubernetes) enum Namespaces {
    /// The backend's own.
    Own,
    /// These.
    These(Vec<Namespace>),
    /// All, which takes a ClusterRole.
    All,
}

/// From the list as it was written.
pub(super) fn namespaces(
    given: Option<Vec<String>>,
    problems: &mut Vec<ConfigProblem>,
) -> Option<Namespaces> {
    let Some(given) = given else {
        return Some(Namespaces::Own);
    };
    if given.is_empty() {
        problems.push(ConfigProblem::new(
            "namespaces",
            format!(
                "it is empty: name the namespaces that hold proxies, or \"{EVERY}\" for all, or leave it out"
            ),
        ));
        return None;
    }
    if given.iter().any(|name| name == EVERY) {
        if given.len() > 1 {
            problems.push(ConfigProblem::new(
                "namespaces",
                format!("\"{EVERY}\" is all of them: leave the others out"),
            ));
            return None;
        }
        return Some(Namespaces::All);
    }
    let mut names: Vec<Namespace> = Vec::new();
    let before = problems.len();
    for text in &given {
        if let Some(name) = parsed("namespaces", text, problems)
            && !names.contains(&name)
        {
            names.push(name);
        }
    }
    (problems.len() == before).then_some(Namespaces::These(names))
}

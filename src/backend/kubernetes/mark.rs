//! The mark on the objects of a cluster: what is selected on as labels, all of it as one annotation.
//!
//! It must not do I/O. Invariants: the annotation alone says what the mark is, labels only find it; an
//! object is marked where both are there; a mark that was copied to an object of another name is none.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::config::is_ours;
use super::place::Place;
use crate::contract::{Error, Installation, InstanceId, Mark};

/// On everything of ours, with the value [`MANAGED_YES`].
const MANAGED: &str = "egress-proxy/managed";
const MANAGED_YES: &str = "yes";
/// Whose it is.
const INSTALLATION: &str = "egress-proxy/installation";
/// The adoption guard.
const UID: &str = "egress-proxy/uid";
/// Its name: what a Service selects its Pod by, which stays whoever owns it.
const NAME: &str = "egress-proxy/name";
/// The mark as JSON.
const MARK: &str = "egress-proxy/mark";

/// What an object says of itself.
#[derive(Debug, PartialEq)]
pub(super) enum Reading {
    /// It is ours.
    Marked(Box<Mark>),
    /// It is not.
    Unmarked,
    /// It says it is ours, but not what it is; why.
    Unreadable(String),
}

/// Reads the mark of the object at `place`.
pub(super) fn read(place: &Place, meta: &ObjectMeta) -> Reading {
    let managed = label(meta, MANAGED) == Some(MANAGED_YES);
    let Some(text) = annotation(meta, MARK).filter(|_| managed) else {
        return Reading::Unmarked;
    };
    match serde_json::from_str::<Mark>(text) {
        Ok(mark) if Place::of(&mark.key).as_ref() == Some(place) => Reading::Marked(Box::new(mark)),
        Ok(mark) => Reading::Unreadable(format!(
            "its annotation {MARK} was copied from \"{}/{}\"",
            mark.key.namespace, mark.key.name
        )),
        Err(error) => Reading::Unreadable(format!("its annotation {MARK} cannot be read: {error}")),
    }
}

/// Whether an object carries exactly that mark.
pub(super) fn carries(place: &Place, mark: &Mark, meta: &ObjectMeta) -> bool {
    matches!(read(place, meta), Reading::Marked(found) if *found == *mark)
}

/// Whether an object that was made with that mark can be found by it.
pub(super) fn is_findable(place: &Place, made_with: &Mark, meta: &ObjectMeta) -> bool {
    let mut labels = labels(made_with).into_iter();
    carries(place, made_with, meta) && labels.all(|(key, value)| label(meta, &key) == Some(value.as_str()))
}

/// A mark that admission did not let through as it was.
pub(super) fn altered(id: &InstanceId) -> Error {
    Error::permanent(format!(
        "\"{id}\" cannot be told for ours: a policy or a webhook of the cluster removed or changed the labels or \
         annotations that begin with egress-proxy/ and were written with it. Have it leave these alone."
    ))
}

/// A mark that is damaged.
pub(super) fn unreadable(id: &InstanceId, why: &str) -> Error {
    Error::permanent(format!(
        "\"{id}\" carries a mark of this provider that is damaged: {why}. Restore the annotation, or delete the Pod \
         by hand."
    ))
}

/// What finds the objects of an installation.
pub(super) fn selector(installation: &Installation) -> String {
    format!("{MANAGED}={MANAGED_YES},{INSTALLATION}={installation}")
}

/// What finds the Pod of a mark within its namespace, and no other.
pub(super) fn pod_selector(mark: &Mark) -> BTreeMap<String, String> {
    BTreeMap::from([
        (MANAGED.to_owned(), MANAGED_YES.to_owned()),
        (NAME.to_owned(), mark.key.name.to_string()),
    ])
}

/// The labels of a mark.
pub(super) fn labels(mark: &Mark) -> BTreeMap<String, String> {
    BTreeMap::from([
        (MANAGED.to_owned(), MANAGED_YES.to_owned()),
        (INSTALLATION.to_owned(), mark.key.installation.to_string()),
        (UID.to_owned(), mark.uid.to_string()),
        (NAME.to_owned(), mark.key.name.to_string()),
    ])
}

/// The annotation of a mark.
///
/// # Errors
/// Permanent, which never comes: a mark is JSON.
pub(super) fn annotations(mark: &Mark) -> Result<BTreeMap<String, String>, Error> {
    let text = serde_json::to_string(mark)
        .map_err(|error| Error::permanent("the mark cannot be written down").caused_by(error))?;
    Ok(BTreeMap::from([(MARK.to_owned(), text)]))
}

/// The user's labels: those whose keys the mark lists, with the values found.
pub(super) fn user_labels(mark: &Mark, meta: &ObjectMeta) -> BTreeMap<String, String> {
    let found = meta.labels.iter().flatten();
    found
        .filter(|(key, _)| mark.label_keys.contains(*key))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

/// The changes of labels that leave `wanted` of what is the user's: `None` removes a key.
pub(super) fn relabelled(
    wanted: &BTreeMap<String, String>,
    prior: impl IntoIterator<Item = String>,
) -> BTreeMap<String, Option<String>> {
    let removed = prior
        .into_iter()
        .filter(|key| !wanted.contains_key(key) && !is_ours(key))
        .map(|key| (key, None));
    let set = wanted
        .iter()
        .map(|(key, value)| (key.clone(), Some(value.clone())));
    removed.chain(set).collect()
}

/// The keys that the mark or the state says the user set.
pub(super) fn prior_keys(mark: &Mark, state: &BTreeSet<String>) -> BTreeSet<String> {
    mark.label_keys.union(state).cloned().collect()
}

/// The value of an annotation.
pub(super) fn annotation<'a>(meta: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    meta.annotations.as_ref()?.get(key).map(String::as_str)
}

fn label<'a>(meta: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    meta.labels.as_ref()?.get(key).map(String::as_str)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::contract::{Fact, Facts, Incarnation, InstanceKey, Uid};

    /// A pending mark of the proxy `egress/a`.
    pub(in crate::backend::kubernetes) fn mark() -> Mark {
        let key = InstanceKey {
            installation: "prod".parse().expect("valid"),
            namespace: "egress".parse().expect("valid"),
            name: "a".parse().expect("valid"),
        };
        let facts = Facts {
            allowed_cidrs: Some(vec!["10.0.0.0/8".parse().expect("a network")]),
            image: Some("registry.example/squid:6".to_owned()),
            ..Facts::default()
        }
        .with_common_defaults();
        Mark {
            uid: Uid::of(&key, &facts.sha256()),
            key,
            incarnation: Incarnation::fresh(),
            pending: true,
            label_keys: BTreeSet::from(["team".to_owned()]),
            created_at: None,
            spec_sha256: facts.sha256(),
            facts,
            given: BTreeSet::from([Fact::AllowedCidrs]),
        }
    }

    /// The place of [`mark`].
    pub(in crate::backend::kubernetes) fn place() -> Place {
        Place::of(&mark().key).expect("a place")
    }

    /// The metadata of an object that carries it.
    pub(in crate::backend::kubernetes) fn marked(mark: &Mark) -> ObjectMeta {
        ObjectMeta {
            name: Some(mark.key.name.to_string()),
            namespace: Some(mark.key.namespace.to_string()),
            uid: Some("9d0e8f4e-3a55-4a7c-9a3f-2f1a6c5d7b10".to_owned()),
            resource_version: Some("7".to_owned()),
            labels: Some(labels(mark)),
            annotations: Some(annotations(mark).expect("JSON")),
            ..ObjectMeta::default()
        }
    }

    #[test]
    fn a_mark_survives_its_object() {
        let mark = mark();
        assert_eq!(read(&place(), &marked(&mark)), Reading::Marked(Box::new(mark)));
    }

    #[test]
    fn label_and_annotation_make_a_mark_together() {
        let mark = mark();
        let meta = marked(&mark);
        let without = |edit: fn(&mut ObjectMeta)| {
            let mut meta = meta.clone();
            edit(&mut meta);
            read(&place(), &meta)
        };
        assert_eq!(without(|meta| meta.labels = None), Reading::Unmarked);
        assert_eq!(without(|meta| meta.annotations = None), Reading::Unmarked);
        let damaged = without(|meta| {
            meta.annotations = Some(BTreeMap::from([(MARK.to_owned(), "{".to_owned())]));
        });
        assert!(matches!(damaged, Reading::Unreadable(_)), "{damaged:?}");
    }

    #[test]
    fn a_copied_mark_is_no_mark() {
        let copy: crate::contract::NativeId = "egress/copy".parse().expect("an id");
        let copy = Place::parse(&copy).expect("a place");
        let read = read(&copy, &marked(&mark()));
        assert!(
            matches!(&read, Reading::Unreadable(why) if why.contains("\"egress/a\"")),
            "{read:?}"
        );
    }

    #[test]
    fn every_label_value_is_one_that_the_api_takes() {
        let mut mark = mark();
        mark.key.installation = format!("a{}", "b".repeat(39)).parse().expect("the longest");
        for (key, value) in labels(&mark) {
            assert!(value.len() <= 63, "{key}={value}");
        }
    }

    #[test]
    fn only_the_users_keys_are_changed() {
        let wanted = BTreeMap::from([("kept".to_owned(), "2".to_owned())]);
        let prior = ["kept", "dropped", "egress-proxy/uid"].map(str::to_owned);
        assert_eq!(
            relabelled(&wanted, prior),
            BTreeMap::from([
                ("kept".to_owned(), Some("2".to_owned())),
                ("dropped".to_owned(), None)
            ])
        );
    }
}

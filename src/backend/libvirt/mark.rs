//! The mark in a domain's metadata: one element that holds the contract's mark as JSON, the user's labels,
//! and which volumes are the domain's.
//!
//! It must not do I/O. Invariants: the element alone says what the mark is; one that was copied to a domain
//! of another name is none; an element without an XML namespace is never written, since libvirt drops it.

use std::collections::{BTreeMap, BTreeSet};

use quick_xml::escape::escape;

use super::names::Place;
use super::policy::Policy;
use super::volumes::Stem;
use super::xml::Element;
use crate::contract::{Error, InstanceId, Mark};

/// The element.
const ELEMENT: &str = "proxy";
/// In it: the mark as JSON.
const MARK: &str = "mark";
/// In it: a label of the user's, or of somebody else.
const LABEL: &str = "label";
/// What the namespaces of all our marks begin with, whatever the policy.
const FAMILY: &str = "urn:egress-proxy:";

/// What a marked domain says of itself.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tag {
    /// The mark.
    pub(super) mark: Mark,
    /// The pool that its volumes are in.
    pub(super) pool: Option<String>,
    /// Its volumes; a domain of other making has none that would be removed with it.
    pub(super) stem: Option<Stem>,
    /// Every label on it.
    pub(super) labels: BTreeMap<String, String>,
}

/// What a domain's metadata says.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Reading {
    /// It is ours.
    Marked(Box<Tag>),
    /// It is not.
    Unmarked,
    /// It says it is ours, but not what it is; why.
    Unreadable(String),
}

/// The namespace that an element of a domain's metadata is in; libvirt writes it on the element itself.
fn namespace(element: &Element) -> Option<&str> {
    match element.name().split_once(':') {
        Some((prefix, _)) => element.attribute(&format!("xmlns:{prefix}")),
        None => element.attribute("xmlns"),
    }
}

/// The name without its prefix.
fn local(element: &Element) -> &str {
    let name = element.name();
    name.split_once(':').map_or(name, |(_, local)| local)
}

/// Reads what the metadata of the domain at `place` says under that policy; a domain whose name fits into
/// no id has none.
pub(super) fn read(policy: &Policy, place: Option<&Place>, metadata: Option<&Element>) -> Reading {
    let ours = metadata
        .into_iter()
        .flat_map(Element::children)
        .find(|element| namespace(element) == Some(policy.namespace));
    match ours {
        None => Reading::Unmarked,
        Some(element) => match tag(element) {
            Ok(tag) if place.is_some_and(|place| place.holds(&tag.mark.key)) => {
                Reading::Marked(Box::new(tag))
            }
            Ok(tag) => Reading::Unreadable(format!(
                "its mark was copied from the domain of the proxy \"{}\" of the namespace \"{}\"",
                tag.mark.key.name, tag.mark.key.namespace
            )),
            Err(why) => Reading::Unreadable(why),
        },
    }
}

fn tag(element: &Element) -> Result<Tag, String> {
    let within = |name: &'static str| element.children().filter(move |child| local(child) == name);
    let text = within(MARK)
        .next()
        .ok_or("its metadata names no mark".to_owned())?
        .text();
    let mark = serde_json::from_str(text).map_err(|error| format!("its mark cannot be read: {error}"))?;
    let labels = within(LABEL).filter_map(|label| {
        let value = |name| label.attribute(name).map(str::to_owned);
        Some((value("key")?, value("value")?))
    });
    Ok(Tag {
        mark,
        pool: element.attribute("pool").map(str::to_owned),
        stem: element.attribute("volumes").and_then(Stem::parse),
        labels: labels.collect(),
    })
}

/// The marks that other policies left on a domain: their namespaces, and what can be read of them.
pub(super) fn others(policy: &Policy, metadata: Option<&Element>) -> Vec<(String, Option<Tag>)> {
    metadata
        .into_iter()
        .flat_map(Element::children)
        .filter_map(|element| Some((namespace(element)?, element)))
        .filter(|(namespace, _)| namespace.starts_with(FAMILY) && *namespace != policy.namespace)
        .map(|(namespace, element)| (namespace.to_owned(), tag(element).ok()))
        .collect()
}

/// The element as a part of a domain's XML.
///
/// # Errors
/// Permanent, which never comes: a mark is JSON.
pub(super) fn in_domain(policy: &Policy, tag: &Tag) -> Result<String, Error> {
    let prefix = format!("{}:", policy.prefix);
    let declared = format!(" xmlns:{}='{}'", policy.prefix, policy.namespace);
    element(tag, &prefix, &declared)
}

/// The element as `virDomainSetMetadata` takes it, which adds the namespace itself and refuses one that is
/// there already.
///
/// # Errors
/// As [`in_domain`].
pub(super) fn alone(tag: &Tag) -> Result<String, Error> {
    element(tag, "", "")
}

fn element(tag: &Tag, prefix: &str, declared: &str) -> Result<String, Error> {
    let mark = serde_json::to_string(&tag.mark)
        .map_err(|error| Error::permanent("the mark cannot be written down").caused_by(error))?;
    let attribute = |name: &str, value: Option<String>| {
        value.map_or_else(String::new, |value| format!(" {name}='{}'", escape(value)))
    };
    let labels: String = tag
        .labels
        .iter()
        .map(|(key, value)| {
            format!(
                "<{prefix}{LABEL} key='{}' value='{}'/>",
                escape(key),
                escape(value)
            )
        })
        .collect();
    Ok(format!(
        "<{prefix}{ELEMENT}{declared}{}{}><{prefix}{MARK}>{}</{prefix}{MARK}>{labels}</{prefix}{ELEMENT}>",
        attribute("pool", tag.pool.clone()),
        attribute("volumes", tag.stem.as_ref().map(ToString::to_string)),
        escape(mark.as_str()),
    ))
}

impl Tag {
    /// The user's labels: those whose keys the mark lists, with the values found.
    pub(super) fn user_labels(&self) -> BTreeMap<String, String> {
        let listed = self
            .labels
            .iter()
            .filter(|(key, _)| self.mark.label_keys.contains(*key));
        listed.map(|(key, value)| (key.clone(), value.clone())).collect()
    }

    /// The same with these labels as the user's; of what was there, those that the mark or `prior` says
    /// the user set go, and no other.
    pub(super) fn relabelled(mut self, wanted: &BTreeMap<String, String>, prior: &BTreeSet<String>) -> Self {
        let listed = std::mem::take(&mut self.mark.label_keys);
        self.labels
            .retain(|key, _| !listed.contains(key) && !prior.contains(key));
        self.labels.extend(wanted.clone());
        self.mark.label_keys = wanted.keys().cloned().collect();
        self
    }
}

/// A mark that is damaged.
pub(super) fn unreadable(policy: &Policy, id: &InstanceId, why: &str) -> Error {
    Error::permanent(format!(
        "\"{id}\" carries a mark of this provider that is damaged: {why}. Restore the element of the namespace \
         \"{}\" in the domain's metadata, or remove it with `virsh metadata --remove`; without one `adopt` takes the \
         domain over.",
        policy.namespace
    ))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::backend::{kvm, kvm2};
    use crate::contract::{Facts, InstanceKey, NewInstance};

    pub(in crate::backend::libvirt) fn tagged(policy: &Policy) -> (Place, Tag) {
        let key = InstanceKey {
            installation: "prod".parse().expect("valid"),
            namespace: "team".parse().expect("valid"),
            name: "a".parse().expect("valid"),
        };
        let facts = Facts {
            allowed_domains: Some(vec!["<&'\">".to_owned()]),
            ..Facts::default()
        };
        let request = NewInstance::new(key, facts, BTreeSet::new());
        let tag = Tag {
            mark: request.pending_mark(Some(jiff::Timestamp::now())),
            pool: Some("my pool's".to_owned()),
            stem: Some(Stem::of(policy, &request)),
            labels: BTreeMap::from([("team".to_owned(), "<\"net\" & 'ops'>".to_owned())]),
        };
        (Place::of("h1", &request.key).expect("a place"), tag)
    }

    fn metadata(text: &str) -> Element {
        Element::parse(&format!("<metadata>{text}</metadata>")).expect("sound")
    }

    #[test]
    fn a_mark_survives_its_domain() {
        let (place, tag) = tagged(&kvm::POLICY);
        let written = metadata(&in_domain(&kvm::POLICY, &tag).expect("JSON"));
        let expected = Reading::Marked(Box::new(tag.clone()));
        assert_eq!(read(&kvm::POLICY, Some(&place), Some(&written)), expected);
        assert_eq!(
            read(&kvm2::POLICY, Some(&place), Some(&written)),
            Reading::Unmarked
        );
        assert_eq!(read(&kvm::POLICY, Some(&place), None), Reading::Unmarked);
        let others = others(&kvm2::POLICY, Some(&written));
        assert_eq!(others, [(kvm::POLICY.namespace.to_owned(), Some(tag.clone()))]);
        assert!(super::others(&kvm::POLICY, Some(&written)).is_empty());
        // As libvirt gives back what was set: with the namespace, and indented.
        let set = alone(&tag)
            .expect("JSON")
            .replace("<proxy", "\n  <p:proxy xmlns:p='urn:egress-proxy:kvm:1'");
        let set = set
            .replace("</proxy", "\n</p:proxy")
            .replace("<mark>", "\n    <p:mark>")
            .replace("</mark>", "</p:mark>\n")
            .replace("<label", "<p:label");
        assert_eq!(read(&kvm::POLICY, Some(&place), Some(&metadata(&set))), expected);
    }

    #[test]
    fn what_is_damaged_is_said_to_be() {
        let (place, tag) = tagged(&kvm::POLICY);
        let whole = in_domain(&kvm::POLICY, &tag).expect("JSON");
        let elsewhere = Place::at("h1", "copy").expect("a place");
        let copied = read(&kvm::POLICY, Some(&elsewhere), Some(&metadata(&whole)));
        assert!(
            matches!(&copied, Reading::Unreadable(why) if why.contains("\"a\"") && why.contains("\"team\"")),
            "{copied:?}"
        );
        for damaged in [
            "<p:proxy xmlns:p='urn:egress-proxy:kvm:1'/>",
            "<proxy xmlns='urn:egress-proxy:kvm:1'><mark>{</mark></proxy>",
        ] {
            let found = read(&kvm::POLICY, Some(&place), Some(&metadata(damaged)));
            assert!(matches!(found, Reading::Unreadable(_)), "{damaged}: {found:?}");
        }
        for foreign in [
            "",
            "<p:proxy/>",
            "<x:proxy xmlns:x='urn:other'><x:mark>{}</x:mark></x:proxy>",
        ] {
            let found = read(&kvm::POLICY, Some(&place), Some(&metadata(foreign)));
            assert_eq!(found, Reading::Unmarked, "{foreign}");
        }
    }

    #[test]
    fn only_the_users_labels_are_changed() {
        let (_, mut tag) = tagged(&kvm::POLICY);
        let labels = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            let owned = pairs
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
            owned.collect()
        };
        tag.labels = labels(&[("listed", "1"), ("in-state", "1"), ("theirs", "1")]);
        tag.mark.label_keys = BTreeSet::from(["listed".to_owned()]);
        assert_eq!(tag.user_labels(), labels(&[("listed", "1")]));
        let prior = BTreeSet::from(["in-state".to_owned()]);
        let tag = tag.relabelled(&labels(&[("new", "2")]), &prior);
        assert_eq!(tag.labels, labels(&[("new", "2"), ("theirs", "1")]));
        assert_eq!(tag.user_labels(), labels(&[("new", "2")]));
    }
}

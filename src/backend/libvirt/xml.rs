//! libvirt's documents as trees.
//!
//! It must not know what is in them. Invariant: whatever a document holds, reading it ends, in memory in
//! proportion to its length and without recursion.

use quick_xml::Reader;
use quick_xml::XmlVersion;
use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::{BytesRef, BytesStart, Event};

/// libvirt's documents are some ten levels deep.
const DEEPEST: usize = 64;

/// An element: its name with prefix, its attributes, the elements in it, and its text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Element {
    name: String,
    attributes: Vec<(String, String)>,
    children: Vec<Element>,
    text: String,
}

impl Element {
    /// The one element that a document is; `None` where it is not well-formed.
    #[must_use]
    pub(super) fn parse(document: &str) -> Option<Self> {
        let mut reader = Reader::from_str(document);
        // The elements that are open, outermost first; below all a stand-in that holds the root.
        let mut open = vec![Self::default()];
        loop {
            match reader.read_event().ok()? {
                Event::Start(start) if open.len() <= DEEPEST => open.push(Self::opened(&start)?),
                Event::Start(_) => return None,
                Event::Empty(start) => open.last_mut()?.children.push(Self::opened(&start)?),
                Event::End(_) => {
                    let closed = open.pop()?;
                    open.last_mut()?.children.push(closed);
                }
                Event::Text(text) => open.last_mut()?.text.push_str(&text.xml10_content()),
                Event::CData(text) => open.last_mut()?.text.push_str(&text.xml10_content()),
                Event::GeneralRef(reference) => open.last_mut()?.text.push_str(&resolved(&reference)?),
                Event::Comment(_) | Event::Decl(_) | Event::PI(_) | Event::DocType(_) => {}
                Event::Eof => break,
            }
        }
        let [outside] = <[Self; 1]>::try_from(open).ok()?;
        let [root] = <[Self; 1]>::try_from(outside.children).ok()?;
        Some(root)
    }

    fn opened(start: &BytesStart<'_>) -> Option<Self> {
        let mut attributes = Vec::new();
        for attribute in start.attributes() {
            let attribute = attribute.ok()?;
            let value = attribute.normalized_value(XmlVersion::Implicit1_0).ok()?;
            attributes.push((attribute.key.0.to_owned(), value.into_owned()));
        }
        Some(Self {
            name: start.name().0.to_owned(),
            attributes,
            ..Self::default()
        })
    }

    /// Its name, with its prefix where it has one.
    #[must_use]
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The value of an attribute.
    #[must_use]
    pub(super) fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes
            .iter()
            .find(|(own, _)| own == name)
            .map(|(_, value)| value.as_str())
    }

    /// The elements in it.
    pub(super) fn children(&self) -> impl Iterator<Item = &Self> {
        self.children.iter()
    }

    /// The elements of that name in it.
    pub(super) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Self> {
        self.children.iter().filter(move |child| child.name == name)
    }

    /// The first element at the end of that path, each step down by name.
    #[must_use]
    pub(super) fn at(&self, path: &[&str]) -> Option<&Self> {
        path.iter().try_fold(self, |element, name| {
            element.children.iter().find(|child| child.name == *name)
        })
    }

    /// The text directly in it, without the blanks around it.
    #[must_use]
    pub(super) fn text(&self) -> &str {
        self.text.trim()
    }
}

/// What a reference such as `&amp;` stands for; `None` for one that a document would have to declare.
fn resolved(reference: &BytesRef<'_>) -> Option<String> {
    if let Ok(Some(letter)) = reference.resolve_char_ref() {
        return Some(letter.to_string());
    }
    resolve_predefined_entity(&reference.xml10_content()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_document_is_read_with_its_references() {
        let root = Element::parse(
            "<?xml version='1.0'?><!-- a --><a x='1 &amp; &#50;'><b/><p:b xmlns:p='urn:b'>x &lt; <![CDATA[<y>]]></p:b> t <b>2</b></a>",
        )
        .expect("sound");
        assert_eq!((root.name(), root.attribute("x")), ("a", Some("1 & 2")));
        assert_eq!(root.text(), "t");
        assert_eq!(root.all("b").map(Element::text).collect::<Vec<_>>(), ["", "2"]);
        assert_eq!(root.at(&["p:b"]).map(Element::text), Some("x < <y>"));
        assert_eq!(root.at(&["b", "c"]), None);
    }

    #[test]
    fn what_is_no_document_is_none() {
        for text in [
            "",
            "a",
            "<a>",
            "<a></b>",
            "<a/><b/>",
            "</a>",
            "<a b=1/>",
            "<a>&unheard;</a>",
        ] {
            assert_eq!(Element::parse(text), None, "{text}");
        }
        let deep = |levels: usize| format!("{}{}", "<a>".repeat(levels), "</a>".repeat(levels));
        assert!(Element::parse(&deep(DEEPEST)).is_some());
        assert!(Element::parse(&deep(DEEPEST + 1)).is_none());
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[<>a/='& ;#x!\\[\\]-]{0,60}") {
            let _ = Element::parse(&text);
        }
    }
}

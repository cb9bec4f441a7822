//! The XML that a libvirt in memory is given, and gives back.
//!
//! It must not judge it beyond what libvirt refuses. Invariant: what was defined comes back with the UUID
//! and the hardware addresses that libvirt makes up, and with the metadata that was set since.

use uuid::Uuid;

/// A domain's definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition {
    /// Its name.
    pub name: String,
    /// Its UUID.
    pub uuid: Uuid,
    /// Its metadata: the elements by their namespace.
    pub metadata: Vec<(String, String)>,
    /// The rest of its XML, with a mark where the metadata was.
    rest: String,
}

/// Stands for the metadata in [`Definition::rest`].
const METADATA: &str = "<!--metadata-->";

/// What is between two texts, for the first time.
pub(super) fn between<'a>(text: &'a str, start: &str, end: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(start)?;
    rest.split_once(end).map(|(found, _)| found)
}

impl Definition {
    /// Reads a domain's XML, and makes up what it leaves out.
    ///
    /// # Errors
    /// libvirt's words.
    pub fn read(xml: &str, next_mac: &mut u32) -> Result<Self, String> {
        let name = between(xml, "<name>", "</name>").ok_or("XML error: missing name information")?;
        let uuid = match between(xml, "<uuid>", "</uuid>") {
            Some(uuid) => uuid.parse().map_err(|_| "XML error: malformed uuid element")?,
            None => Uuid::new_v4(),
        };
        let metadata = between(xml, "<metadata>", "</metadata>").unwrap_or_default();
        // libvirt drops what has no namespace, without a word.
        let elements = namespace(metadata).map(|namespace| (namespace, metadata.trim().to_owned()));
        let whole = format!("<metadata>{metadata}</metadata>");
        let mut rest = if xml.contains(&whole) {
            xml.replacen(&whole, METADATA, 1)
        } else {
            xml.replacen("</name>", &format!("</name>{METADATA}"), 1)
        };
        if !rest.contains("<uuid>") {
            rest = rest.replacen("</name>", &format!("</name><uuid>{uuid}</uuid>"), 1);
        }
        let mut with_hardware = String::new();
        for (index, part) in rest.split("<interface ").enumerate() {
            if index == 0 {
                with_hardware.push_str(part);
                continue;
            }
            let mac = if part.contains("<mac ") {
                String::new()
            } else {
                *next_mac += 1;
                let [_, a, b, c] = next_mac.to_be_bytes();
                format!("<mac address='52:54:00:{a:02x}:{b:02x}:{c:02x}'/>")
            };
            let (kind, inner) = part.split_once('>').ok_or("XML error: no interface")?;
            with_hardware.push_str(&format!("<interface {kind}>{mac}{inner}"));
        }
        Ok(Self {
            name: name.to_owned(),
            uuid,
            metadata: elements.into_iter().collect(),
            rest: with_hardware,
        })
    }

    /// The XML as libvirt gives it.
    #[must_use]
    pub fn xml(&self) -> String {
        let elements: String = self
            .metadata
            .iter()
            .map(|(_, element)| element.as_str())
            .collect();
        let metadata = if elements.is_empty() {
            String::new()
        } else {
            format!("<metadata>\n    {elements}\n  </metadata>")
        };
        self.rest.replacen(METADATA, &metadata, 1)
    }

    /// Sets, or removes, the element of a namespace.
    pub fn set_metadata(&mut self, namespace: &str, prefix: &str, element: Option<&str>) {
        self.metadata.retain(|(own, _)| own != namespace);
        if let Some(element) = element {
            self.metadata
                .push((namespace.to_owned(), qualified(element, prefix, namespace)));
        }
    }

    /// The hardware addresses of its interfaces.
    #[must_use]
    pub fn hardware(&self) -> Vec<String> {
        let parts = self.rest.split("<mac address='").skip(1);
        parts
            .filter_map(|part| part.split_once('\'').map(|(mac, _)| mac.to_owned()))
            .collect()
    }

    /// The paths of its disks.
    #[must_use]
    pub fn files(&self) -> Vec<String> {
        let parts = self.rest.split("<source file='").skip(1);
        parts
            .filter_map(|part| part.split_once('\'').map(|(path, _)| path.to_owned()))
            .collect()
    }

    /// Whether it boots with UEFI, whose variables are a file of their own.
    #[must_use]
    pub fn has_nvram(&self) -> bool {
        self.rest.contains("firmware='efi'")
    }

    /// Its memory in KiB.
    #[must_use]
    pub fn memory_kib(&self) -> u64 {
        let mib = between(&self.rest, "<memory unit='MiB'>", "</memory>");
        mib.and_then(|mib| mib.parse::<u64>().ok()).unwrap_or_default() * 1024
    }
}

/// The namespace that the first element of a text declares.
fn namespace(text: &str) -> Option<String> {
    let head = text.split_once('>')?.0;
    let (_, rest) = head.split_once(" xmlns:")?;
    let (_, rest) = rest.split_once('=')?;
    let quote = rest.chars().next()?;
    between(rest, &quote.to_string(), &quote.to_string()).map(str::to_owned)
}

/// An element whose names, and those of what is in it, get a prefix, as libvirt does it.
fn qualified(element: &str, prefix: &str, namespace: &str) -> String {
    let with_prefix = element
        .replace("</", "\u{0}")
        .replace('<', &format!("<{prefix}:"))
        .replace('\u{0}', &format!("</{prefix}:"));
    let end = with_prefix.find([' ', '>', '/']).unwrap_or(with_prefix.len());
    let (head, rest) = with_prefix.split_at(end);
    format!("{head} xmlns:{prefix}=\"{namespace}\"{rest}")
}

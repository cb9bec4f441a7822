//! One line of a known_hosts file, taken apart.
//!
//! It must not know which host is asked for. Invariant: a key that is returned is written as its type
//! is, whole and in its one spelling.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use russh::keys::Algorithm;
use russh::keys::key::parse_public_key;
use russh::keys::ssh_key::public::KeyData;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Marker {
    None,
    Authority,
    Revoked,
}

/// One line, split but not yet understood.
pub(super) struct Line<'a> {
    pub(super) marker: Marker,
    pub(super) hosts: &'a [u8],
    rest: &'a [u8],
}

fn is_blank(byte: u8) -> bool {
    byte == b' ' || byte == b'\t'
}

/// The first field and what follows it, blanks removed.
fn field(text: &[u8]) -> (&[u8], &[u8]) {
    let end = text.iter().position(|&byte| is_blank(byte)).unwrap_or(text.len());
    (&text[..end], without_blanks(&text[end..]))
}

fn without_blanks(text: &[u8]) -> &[u8] {
    let start = text
        .iter()
        .position(|&byte| !is_blank(byte))
        .unwrap_or(text.len());
    &text[start..]
}

impl<'a> Line<'a> {
    /// `None` for blank lines and comments.
    pub(super) fn split(line: &'a [u8]) -> Result<Option<Self>, Why> {
        let line = without_blanks(line.strip_suffix(b"\r").unwrap_or(line));
        if line.is_empty() || line[0] == b'#' {
            return Ok(None);
        }
        let (first, after) = field(line);
        let (marker, hosts, rest) = if first[0] == b'@' {
            let marker = match first {
                b"@cert-authority" => Marker::Authority,
                b"@revoked" => Marker::Revoked,
                _ => return Err(Why::Marker),
            };
            if after.first() == Some(&b'@') {
                return Err(Why::Marker);
            }
            let (hosts, rest) = field(after);
            (marker, hosts, rest)
        } else {
            (Marker::None, first, after)
        };
        if rest.is_empty() || rest[0] == b'#' {
            return Err(Why::Truncated);
        }
        Ok(Some(Self { marker, hosts, rest }))
    }

    pub(super) fn key(&self) -> Result<KeyData, Why> {
        let (kind, rest) = field(self.rest);
        let (encoded, _comment) = field(rest);
        if encoded.is_empty() {
            return Err(Why::Truncated);
        }
        let blob = STANDARD.decode(encoded).map_err(|_undecodable| Why::Key)?;
        let key = parse_public_key(&blob).map_err(|_unparsable| Why::Key)?;
        // What remains behind a well-formed key, or another spelling of one, is not that key.
        if key.to_bytes().map_err(|_unencodable| Why::Key)? != blob {
            return Err(Why::Key);
        }
        let data = key.key_data();
        match data.algorithm() {
            Algorithm::Other(_) => Err(Why::Kind),
            algorithm if data.is_certificate() || algorithm.as_str().as_bytes() != kind => Err(Why::Kind),
            _ => Ok(data.clone()),
        }
    }
}

/// A line that could not be read and was passed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// Its number in the file, from 1.
    pub line: usize,
    /// Why.
    pub why: Why,
}

/// What is wrong with a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Why {
    /// Neither `@cert-authority` nor `@revoked`, or two markers.
    #[error("the marker is not known")]
    Marker,
    /// Fields are missing.
    #[error("the line ends before its key")]
    Truncated,
    /// A hashed name that is none.
    #[error("the hashed host name is malformed")]
    Hash,
    /// The key is not base64 of a key.
    #[error("the key cannot be decoded")]
    Key,
    /// The key's type is unknown or not the one the line names.
    #[error("the key's type is unknown or not the one named before it")]
    Kind,
}

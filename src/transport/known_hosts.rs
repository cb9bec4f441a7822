//! Which host keys a known_hosts file vouches for, with the meaning OpenSSH's client gives it.
//!
//! It must not know connections or policies. Invariant: a key is accepted only when a line that
//! speaks of the host holds that very key (or the authority that signed its certificate) and no line
//! revokes it; a line that cannot be read is skipped, never a reason to reject or accept a host.

pub mod names;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use russh::keys::key::parse_public_key;
use russh::keys::ssh_key::certificate::CertType;
use russh::keys::ssh_key::public::KeyData;
use russh::keys::{Algorithm, Certificate, HashAlg, PublicKey, PublicKeyOrCertificate};

pub use names::HostName;

/// The contents of a known_hosts file. Keys are parsed only on lines that speak of the host asked for.
#[derive(Clone)]
pub struct KnownHosts {
    file: PathBuf,
    text: Vec<u8>,
}

impl fmt::Debug for KnownHosts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KnownHosts")
            .field("file", &self.file)
            .field("bytes", &self.text.len())
            .finish()
    }
}

/// Why a known_hosts file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Unusable {
    /// There is no such file.
    #[error("the known_hosts file {} does not exist", .0.display())]
    Missing(PathBuf),
    /// It cannot be read.
    #[error("the known_hosts file {} cannot be read", .file.display())]
    Unreadable {
        /// Which.
        file: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

impl KnownHosts {
    /// The file's contents as given; `file` is what errors call it.
    #[must_use]
    pub fn new(file: impl Into<PathBuf>, text: impl Into<Vec<u8>>) -> Self {
        Self {
            file: file.into(),
            text: text.into(),
        }
    }

    /// Reads the file.
    ///
    /// # Errors
    /// When it is missing or cannot be read, told apart.
    pub async fn read(file: &Path) -> Result<Self, Unusable> {
        match tokio::fs::read(file).await {
            Ok(text) => Ok(Self::new(file, text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(Unusable::Missing(file.to_owned())),
            Err(source) => Err(Unusable::Unreadable {
                file: file.to_owned(),
                source,
            }),
        }
    }

    /// What the file says of this host.
    #[must_use]
    pub fn about(&self, name: &HostName) -> Records {
        let mut records = Records {
            file: self.file.clone(),
            name: name.clone(),
            entries: Vec::new(),
            skipped: Vec::new(),
            portless: Vec::new(),
        };
        let form = name.to_string();
        let portless = name.without_port().map(|name| name.to_string());
        for (index, line) in self.text.split(|&byte| byte == b'\n').enumerate() {
            let number = index + 1;
            let mut skip = |why| records.skipped.push(Skipped { line: number, why });
            let line = match Line::split(line) {
                Ok(Some(line)) => line,
                Ok(None) => continue,
                Err(why) => {
                    skip(why);
                    continue;
                }
            };
            let speaks_of = |form: &str| names::field_matches(line.hosts, form);
            match speaks_of(&form) {
                Ok(true) => match line.key() {
                    Ok(key) => records.entries.push(Entry {
                        line: number,
                        marker: line.marker,
                        key,
                    }),
                    Err(why) => skip(why),
                },
                Ok(false) => {
                    let other_port = portless
                        .as_deref()
                        .is_some_and(|form| speaks_of(form) == Ok(true));
                    if other_port
                        && line.marker == Marker::None
                        && let Ok(key) = line.key()
                    {
                        records.portless.push((number, key));
                    }
                }
                Err(names::MalformedHash) => skip(Why::Hash),
            }
        }
        records
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Marker {
    None,
    Authority,
    Revoked,
}

/// One line, split but not yet understood.
struct Line<'a> {
    marker: Marker,
    hosts: &'a [u8],
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
    fn split(line: &'a [u8]) -> Result<Option<Self>, Why> {
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

    fn key(&self) -> Result<KeyData, Why> {
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

#[derive(Clone, Debug)]
struct Entry {
    line: usize,
    marker: Marker,
    key: KeyData,
}

/// What one file says of one host.
#[derive(Clone, Debug)]
pub struct Records {
    file: PathBuf,
    name: HostName,
    entries: Vec<Entry>,
    skipped: Vec<Skipped>,
    portless: Vec<(usize, KeyData)>,
}

/// What a file says of the key a host offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The key, or the authority behind its certificate, is on this line.
    Known {
        /// Counted from 1.
        line: usize,
    },
    /// Nothing about this host.
    Unknown {
        /// A line that holds the key for the same host without the port.
        portless: Option<usize>,
        /// Why the host's certificate, signed by an authority on record, does not count.
        certificate: Option<BadCertificate>,
    },
    /// Only other keys.
    Changed {
        /// The last line that holds another key.
        line: usize,
        /// That key's type.
        kind: String,
    },
    /// The key, or the authority behind its certificate, is marked as revoked.
    Revoked {
        /// Counted from 1.
        line: usize,
    },
}

/// Why a host certificate does not count.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadCertificate {
    /// It identifies a user.
    #[error("it is not a host certificate")]
    NotForHosts,
    /// Its principals do not include the host.
    #[error("it is not for {0}")]
    OtherHost(String),
    /// It is not valid yet, or no longer.
    #[error("it is not valid at this time")]
    Time,
    /// It has critical options, of which none are defined for hosts.
    #[error("it has critical options that are not understood")]
    Options,
    /// Its signature does not verify, or is of a kind that is no longer safe.
    #[error("its signature does not count")]
    Signature,
}

impl Records {
    /// The file.
    #[must_use]
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// The host.
    #[must_use]
    pub fn name(&self) -> &HostName {
        &self.name
    }

    /// The lines that were passed over: all that cannot be read, whichever host they are for, save
    /// that keys are looked at only on this host's lines.
    #[must_use]
    pub fn skipped(&self) -> &[Skipped] {
        &self.skipped
    }

    /// Judges what the host offers at `now`, in seconds since 1970.
    ///
    /// A certificate whose authority is not on record, or that does not count, is judged by the key
    /// in it.
    #[must_use]
    pub fn judge(&self, offered: &PublicKeyOrCertificate, now: u64) -> Verdict {
        let mut bad = None;
        if let PublicKeyOrCertificate::Certificate(certificate) = offered {
            for key in [certificate.public_key(), certificate.signature_key()] {
                if let Some(line) = self.line_of(Marker::Revoked, key) {
                    return Verdict::Revoked { line };
                }
            }
            if let Some(line) = self.line_of(Marker::Authority, certificate.signature_key()) {
                match check_certificate(certificate, &self.name, now) {
                    Ok(()) => return Verdict::Known { line },
                    Err(why) => bad = Some(why),
                }
            }
        }
        self.judge_key(offered.public_key().key_data(), bad)
    }

    fn judge_key(&self, key: &KeyData, certificate: Option<BadCertificate>) -> Verdict {
        if let Some(line) = self.line_of(Marker::Revoked, key) {
            return Verdict::Revoked { line };
        }
        if let Some(line) = self.line_of(Marker::None, key) {
            return Verdict::Known { line };
        }
        match self.plain().last() {
            Some(entry) => Verdict::Changed {
                line: entry.line,
                kind: entry.key.algorithm().as_str().to_owned(),
            },
            None => Verdict::Unknown {
                portless: self
                    .portless
                    .iter()
                    .find(|(_, other)| other == key)
                    .map(|(line, _)| *line),
                certificate,
            },
        }
    }

    fn plain(&self) -> impl DoubleEndedIterator<Item = &Entry> {
        self.entries.iter().filter(|entry| entry.marker == Marker::None)
    }

    fn line_of(&self, marker: Marker, key: &KeyData) -> Option<usize> {
        self.entries
            .iter()
            .find(|entry| entry.marker == marker && entry.key == *key)
            .map(|entry| entry.line)
    }

    /// `offer` with the recorded key types first, so that a host which has several keys shows the
    /// one on record.
    #[must_use]
    pub fn recorded_first(&self, offer: &[Algorithm]) -> Vec<Algorithm> {
        let recorded = |algorithm: &Algorithm| {
            self.plain()
                .any(|entry| plain_kind(&entry.key.algorithm()) == plain_kind(algorithm))
        };
        let (mut first, last): (Vec<_>, Vec<_>) = offer.iter().cloned().partition(recorded);
        first.extend(last);
        first
    }

    /// Whether an authority is on record, so that certificates are worth asking for.
    #[must_use]
    pub fn has_authority(&self) -> bool {
        self.entries.iter().any(|entry| entry.marker == Marker::Authority)
    }
}

/// The key type behind an algorithm: RSA's hashes are none of the key.
fn plain_kind(algorithm: &Algorithm) -> Algorithm {
    match algorithm {
        Algorithm::Rsa { .. } => Algorithm::Rsa { hash: None },
        other => other.clone(),
    }
}

fn check_certificate(certificate: &Certificate, name: &HostName, now: u64) -> Result<(), BadCertificate> {
    if certificate.cert_type() != CertType::Host {
        return Err(BadCertificate::NotForHosts);
    }
    if !certificate.critical_options().is_empty() {
        return Err(BadCertificate::Options);
    }
    if now < certificate.valid_after() || now >= certificate.valid_before() {
        return Err(BadCertificate::Time);
    }
    let principals = certificate.valid_principals();
    // A certificate without principals is good for every host.
    if !principals.is_empty()
        && !principals
            .iter()
            .any(|principal| names::pattern_matches(principal.as_bytes(), name.host().as_bytes()))
    {
        return Err(BadCertificate::OtherHost(name.host().to_owned()));
    }
    if matches!(
        certificate.signature().algorithm(),
        Algorithm::Rsa { hash: None } | Algorithm::Dsa
    ) {
        return Err(BadCertificate::Signature);
    }
    certificate
        .verify_signature()
        .map_err(|_unverified| BadCertificate::Signature)
}

/// The line that records a host's key.
///
/// # Errors
/// When the key has no text form.
pub fn line_for(name: &HostName, key: &PublicKey) -> Result<String, russh::keys::ssh_key::Error> {
    let bare = PublicKey::new(key.key_data().clone(), "");
    Ok(format!("{name} {}\n", bare.to_openssh()?.trim_end()))
}

/// Appends a host's key to the file, which is made when it does not exist, readable by its owner.
///
/// # Errors
/// When the file cannot be opened or written, or the key has no text form.
pub async fn append(file: &Path, name: &HostName, key: &PublicKey) -> io::Result<()> {
    use tokio::io::AsyncWriteExt as _;
    let line = line_for(name, key).map_err(io::Error::other)?;
    let mut options = tokio::fs::OpenOptions::new();
    options.append(true).create(true);
    #[cfg(unix)]
    options.mode(0o600);
    // A last line without an end would swallow the new one.
    let unended = tokio::fs::read(file)
        .await
        .is_ok_and(|text| text.last().is_some_and(|&byte| byte != b'\n'));
    let text = if unended { format!("\n{line}") } else { line };
    let mut opened = options.open(file).await?;
    // In one write, so that two runs that add a line at once do not mix them.
    opened.write_all(text.as_bytes()).await?;
    opened.flush().await
}

/// A key's fingerprint as OpenSSH prints it: `SHA256:…`.
#[must_use]
pub fn fingerprint(key: &PublicKey) -> String {
    key.fingerprint(HashAlg::Sha256).to_string()
}

#[cfg(test)]
#[path = "known_hosts/tests.rs"]
mod tests;

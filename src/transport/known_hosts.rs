//! Which host keys a known_hosts file vouches for, with the meaning OpenSSH's client gives it.
//!
//! It must not know connections or policies. Invariant: a key is accepted only when a line that
//! speaks of the host holds that very key (or the authority that signed its certificate) and no line
//! revokes it; a line that cannot be read is skipped, never a reason to reject or accept a host.

mod line;
pub mod names;
mod records;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use russh::keys::{HashAlg, PublicKey};

use line::{Line, Marker};
use records::Entry;

pub use line::{Skipped, Why};
pub use names::HostName;
pub use records::{BadCertificate, Records, Verdict};

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

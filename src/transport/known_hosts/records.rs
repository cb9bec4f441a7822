//! What a known_hosts file says of one host, and the judgement of what that host offers.
//!
//! It must not read files. Invariant: a revoked key is refused before anything speaks for it, and a
//! certificate counts only where nothing is wrong with it.

use std::path::{Path, PathBuf};

use russh::keys::ssh_key::certificate::CertType;
use russh::keys::ssh_key::public::KeyData;
use russh::keys::{Algorithm, Certificate, PublicKeyOrCertificate};

use super::line::{Marker, Skipped};
use super::names::{self, HostName};

#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) line: usize,
    pub(super) marker: Marker,
    pub(super) key: KeyData,
}

/// What one file says of one host.
#[derive(Clone, Debug)]
pub struct Records {
    pub(super) file: PathBuf,
    pub(super) name: HostName,
    pub(super) entries: Vec<Entry>,
    pub(super) skipped: Vec<Skipped>,
    pub(super) portless: Vec<(usize, KeyData)>,
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

//! Whether a host is the one it says it is.
//!
//! It must not know how keys are exchanged. Invariant: unknown, changed and revoked are told apart,
//! with file and line, and only an unknown key is ever recorded.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use russh::Preferred;
use russh::client;
use russh::keys::{Algorithm, PublicKeyOrCertificate};

use crate::transport::known_hosts::{self, HostName, KnownHosts, Records, Unusable, Verdict};

/// How a host's key is judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostKeys {
    /// The file has to vouch for it.
    Strict {
        /// Which file.
        known_hosts: PathBuf,
    },
    /// As strict, but an unknown host is recorded and accepted.
    AcceptNew {
        /// Which file; made when it does not exist.
        known_hosts: PathBuf,
    },
    /// Every key is accepted, with a warning.
    Insecure,
}

/// Why a host's key was not accepted.
#[derive(Debug, thiserror::Error)]
pub enum HostKeyError {
    /// The known_hosts file is of no use.
    #[error("host keys cannot be checked; give a known_hosts_file that exists and can be read")]
    File(#[from] Unusable),
    /// Nothing is recorded for the host.
    #[error(
        "the host key of {name} is unknown: {file} has no line for it; the host offered {kind} {fingerprint}; \
         compare that with the host's own and add it, for example from: ssh-keyscan -p {} {}{hint}",
        .name.port(), .name.host(), file = .file.display()
    )]
    Unknown {
        /// The looked-up name.
        name: HostName,
        /// The file.
        file: PathBuf,
        /// The offered key's type.
        kind: String,
        /// The offered key's fingerprint.
        fingerprint: String,
        /// What else is known.
        hint: String,
    },
    /// Another key is recorded.
    #[error(
        "the host key of {name} has changed: {}:{line} holds another key ({recorded}), the host offered \
         {kind} {fingerprint}; somebody may be in between; if the host was rebuilt, replace that line",
        .file.display()
    )]
    Changed {
        /// The looked-up name.
        name: HostName,
        /// The file.
        file: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The type of the key on it.
        recorded: String,
        /// The offered key's type.
        kind: String,
        /// The offered key's fingerprint.
        fingerprint: String,
    },
    /// The key is marked as revoked.
    #[error(
        "the host key of {name} is revoked by {}:{line}: {kind} {fingerprint}; the host needs a new key",
        .file.display()
    )]
    Revoked {
        /// The looked-up name.
        name: HostName,
        /// The file.
        file: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The offered key's type.
        kind: String,
        /// The offered key's fingerprint.
        fingerprint: String,
    },
}

/// What a policy knows of one host before it is dialled.
pub(super) struct Judge {
    name: HostName,
    /// `None` accepts everything.
    records: Option<Records>,
    record_new: bool,
}

impl Judge {
    /// Reads the policy's file.
    pub(super) async fn prepare(policy: &HostKeys, name: HostName) -> Result<Self, HostKeyError> {
        let (records, record_new) = match policy {
            HostKeys::Insecure => (None, false),
            HostKeys::Strict { known_hosts } => {
                (Some(KnownHosts::read(known_hosts).await?.about(&name)), false)
            }
            HostKeys::AcceptNew { known_hosts } => {
                let contents = match KnownHosts::read(known_hosts).await {
                    Err(Unusable::Missing(file)) => KnownHosts::new(file, Vec::new()),
                    other => other?,
                };
                (Some(contents.about(&name)), true)
            }
        };
        if let Some(records) = &records {
            warn_of_skipped(records);
        }
        Ok(Self {
            name,
            records,
            record_new,
        })
    }

    /// The host key algorithms to ask for: the recorded types first, certificates only where an
    /// authority is recorded, never RSA with SHA-1.
    pub(super) fn preferred(&self) -> Preferred {
        let offer: Vec<Algorithm> = Preferred::DEFAULT
            .key
            .iter()
            .filter(|algorithm| !matches!(algorithm, Algorithm::Rsa { hash: None }))
            .cloned()
            .collect();
        let key = match &self.records {
            Some(records) => records.recorded_first(&offer),
            None => offer.clone(),
        };
        let authority = self.records.as_ref().is_some_and(Records::has_authority);
        Preferred {
            key: key.into(),
            host_key_certificates: if authority {
                offer.into()
            } else {
                Vec::new().into()
            },
            ..Preferred::DEFAULT
        }
    }

    async fn judge(&self, offered: &PublicKeyOrCertificate) -> Result<(), HostKeyError> {
        let key = offered.public_key();
        let (name, kind) = (self.name.clone(), key.algorithm().as_str().to_owned());
        let fingerprint = known_hosts::fingerprint(&key);
        let Some(records) = &self.records else {
            tracing::warn!(host = %name, kind, fingerprint, "the host key is not verified");
            return Ok(());
        };
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_secs());
        let file = records.file().to_owned();
        match records.judge(offered, now) {
            Verdict::Known { .. } => Ok(()),
            Verdict::Unknown { .. } if self.record_new => {
                tracing::warn!(host = %name, kind, fingerprint, file = %file.display(), "a new host key is recorded");
                if let Err(error) = known_hosts::append(&file, &name, &key).await {
                    tracing::warn!(file = %file.display(), %error, "the new host key could not be recorded");
                }
                Ok(())
            }
            Verdict::Unknown {
                portless,
                certificate,
            } => {
                let mut hint = String::new();
                if let Some(line) = portless {
                    hint = format!(
                        "; line {line} holds this key for {} without the port",
                        name.host()
                    );
                }
                if let Some(why) = certificate {
                    hint = format!("{hint}; the host's certificate does not count: {why}");
                }
                Err(HostKeyError::Unknown {
                    name,
                    file,
                    kind,
                    fingerprint,
                    hint,
                })
            }
            Verdict::Changed { line, kind: recorded } => Err(HostKeyError::Changed {
                name,
                file,
                line,
                recorded,
                kind,
                fingerprint,
            }),
            Verdict::Revoked { line } => Err(HostKeyError::Revoked {
                name,
                file,
                line,
                kind,
                fingerprint,
            }),
        }
    }
}

fn warn_of_skipped(records: &Records) {
    for skipped in records.skipped() {
        tracing::warn!(
            file = %records.file().display(),
            line = skipped.line,
            why = %skipped.why,
            "a line of the known_hosts file is passed over"
        );
    }
}

/// What happened to a host key, for whoever finds the handshake broken off.
pub(super) type Refusal = Arc<Mutex<Option<HostKeyError>>>;

/// Sits in the handshake and judges.
pub(super) struct Verifier {
    pub(super) judge: Judge,
    pub(super) refusal: Refusal,
}

impl client::Handler for Verifier {
    type Error = russh::Error;

    async fn check_server_key(&mut self, offered: &PublicKeyOrCertificate) -> Result<bool, Self::Error> {
        match self.judge.judge(offered).await {
            Ok(()) => Ok(true),
            Err(error) => {
                *self.refusal.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                Ok(false)
            }
        }
    }
}

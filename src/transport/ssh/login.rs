//! Proving who we are, with the keys of files and of the agent.
//!
//! It must not know how keys were found. Invariant: every key is tried at most once, and why none
//! was good is told apart: refused, wants more, would not sign, hung up.

use std::sync::Arc;

use russh::client::{AuthResult, Handle};
use russh::keys::agent::AgentIdentity;
use russh::keys::signature::Signer as _;
use russh::keys::{Algorithm, HashAlg, PrivateKey, PrivateKeyWithHashAlg, PublicKey};
use russh::{AgentAuthError, MethodKind, MethodSet, Signer};

use super::agent::Agent;
use super::error::Cause;
use super::host_key::Verifier;
use super::key::Key;
use crate::transport::known_hosts::fingerprint;

/// What there is to log in with.
pub(super) enum Credential {
    Key(Key),
    Agent(Agent),
}

/// What was tried so far.
#[derive(Default)]
struct Attempts {
    tried: Vec<String>,
    unsigned: Option<String>,
    takes: Option<MethodSet>,
}

/// Tries one credential after the other until the server is content.
pub(super) async fn log_in(
    handle: &mut Handle<Verifier>,
    user: &str,
    credentials: Vec<Credential>,
) -> Result<(), Cause> {
    let mut attempts = Attempts::default();
    for credential in credentials {
        let accepted = match credential {
            Credential::Key(key) => attempts.with_key(handle, user, key).await?,
            Credential::Agent(agent) => attempts.with_agent(handle, user, agent).await?,
        };
        if accepted {
            return Ok(());
        }
    }
    Err(attempts.refused(user))
}

impl Attempts {
    async fn with_key(&mut self, handle: &mut Handle<Verifier>, user: &str, key: Key) -> Result<bool, Cause> {
        self.tried.push(shown(key.private.public_key()));
        if let Some(certificate) = key.certificate {
            let private = Arc::clone(&key.private);
            let result = if private.algorithm().is_rsa() {
                let hash = rsa_hash(handle, private.algorithm()).await;
                let mut signer = RsaSigner(private);
                let signed = handle.authenticate_certificate_with(user, *certificate, hash, &mut signer);
                signed.await.ok()
            } else {
                let signed = handle.authenticate_openssh_cert(user, private, *certificate);
                signed.await.ok()
            };
            if self.judge(handle, user, result)? {
                return Ok(true);
            }
        }
        let hash = rsa_hash(handle, key.private.algorithm()).await;
        let key = PrivateKeyWithHashAlg::new(key.private, hash);
        let result = handle.authenticate_publickey(user, key).await;
        self.judge(handle, user, result.ok())
    }

    async fn with_agent(
        &mut self,
        handle: &mut Handle<Verifier>,
        user: &str,
        mut agent: Agent,
    ) -> Result<bool, Cause> {
        for identity in agent.identities {
            let public = identity.public_key().into_owned();
            let hash = rsa_hash(handle, public.algorithm()).await;
            self.tried.push(shown(&public));
            let client = &mut agent.client;
            let result = match identity {
                AgentIdentity::PublicKey { key, .. } => {
                    handle.authenticate_publickey_with(user, key, hash, client).await
                }
                AgentIdentity::Certificate { certificate, .. } => {
                    handle
                        .authenticate_certificate_with(user, certificate, hash, client)
                        .await
                }
            };
            let result = match result {
                // The server wanted this key, so it is worth telling if none is good.
                Err(AgentAuthError::Key(_)) => {
                    self.unsigned = Some(shown(&public));
                    continue;
                }
                Err(AgentAuthError::Send(_)) => None,
                Ok(result) => Some(result),
            };
            if self.judge(handle, user, result)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// `None` is a connection that was lost meanwhile.
    fn judge(
        &mut self,
        handle: &Handle<Verifier>,
        user: &str,
        result: Option<AuthResult>,
    ) -> Result<bool, Cause> {
        match result {
            Some(AuthResult::Success) => Ok(true),
            Some(AuthResult::Failure {
                remaining_methods,
                partial_success: true,
            }) => Err(Cause::SecondFactor {
                user: user.to_owned(),
                takes: names(&remaining_methods),
            }),
            Some(AuthResult::Failure {
                remaining_methods, ..
            }) if !handle.is_closed() => {
                self.takes = Some(remaining_methods);
                Ok(false)
            }
            Some(AuthResult::Failure { .. }) | None => Err(Cause::LoginClosed {
                tried: self.tried.join(", "),
            }),
        }
    }

    fn refused(self, user: &str) -> Cause {
        if let Some(key) = self.unsigned {
            return Cause::SignatureRefused { key };
        }
        let takes = self.takes.unwrap_or_else(MethodSet::empty);
        let hint = if takes.is_empty() || takes.contains(&MethodKind::PublicKey) {
            ""
        } else {
            "; it takes no keys at all: set PubkeyAuthentication to yes in its sshd_config"
        };
        Cause::Refused {
            user: user.to_owned(),
            tried: self.tried.join(", "),
            takes: names(&takes),
            hint: hint.to_owned(),
        }
    }
}

/// Signs for an RSA certificate with the hash agreed on: the library's own way takes SHA-1, which
/// servers refuse.
struct RsaSigner(Arc<PrivateKey>);

impl Signer for RsaSigner {
    type Error = AgentAuthError;

    async fn auth_sign(
        &mut self,
        _: &AgentIdentity,
        hash: Option<HashAlg>,
        mut to_sign: Vec<u8>,
    ) -> Result<Vec<u8>, Self::Error> {
        let failed = |_error| AgentAuthError::Key(russh::keys::Error::InvalidSignature);
        let pair = self
            .0
            .key_data()
            .rsa()
            .ok_or(AgentAuthError::Key(russh::keys::Error::InvalidParameters))?;
        let signature = (pair, hash)
            .try_sign(&to_sign)
            .map_err(|_unsigned| AgentAuthError::Key(russh::keys::Error::InvalidSignature))?;
        let signature = Vec::<u8>::try_from(signature).map_err(failed)?;
        to_sign.extend_from_slice(&(signature.len() as u32).to_be_bytes());
        to_sign.extend_from_slice(&signature);
        Ok(to_sign)
    }
}

fn shown(key: &PublicKey) -> String {
    format!("{} {}", key.algorithm().as_str(), fingerprint(key))
}

fn names(methods: &MethodSet) -> String {
    let names: Vec<&str> = methods.iter().map(<&str>::from).collect();
    if names.is_empty() {
        "nothing".to_owned()
    } else {
        names.join(", ")
    }
}

/// The hash for RSA signatures: the best the server knows, SHA-256 where it does not say.
async fn rsa_hash(handle: &Handle<Verifier>, algorithm: Algorithm) -> Option<HashAlg> {
    if !algorithm.is_rsa() {
        return None;
    }
    match handle.best_supported_rsa_hash().await {
        Ok(Some(hash)) => hash,
        Ok(None) | Err(_) => Some(HashAlg::Sha256),
    }
}

//! Private keys in the files people have: OpenSSH, PEM, PKCS#8 and PuTTY, encrypted or not.
//!
//! It must not know where keys are used. Invariant: what is wrong with a file is said in our own
//! words, in which nothing of the file's contents can be.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use aes::cipher::block_padding::Pkcs7;
use aes::cipher::{BlockModeDecrypt, KeyIvInit};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use russh::keys::{Algorithm, Certificate, PrivateKey, decode_secret_key};

use crate::contract::Secret;
use crate::transport::call::{Lost, blocking};

/// A key that can log in.
#[derive(Clone)]
pub struct Key {
    /// The key.
    pub private: Arc<PrivateKey>,
    /// The certificate beside it, in `<file>-cert.pub`, if there is one.
    pub certificate: Option<Box<Certificate>>,
}

/// A key file that is of no use.
#[derive(Debug, thiserror::Error)]
#[error("the key file {} cannot be used", .file.display())]
pub struct KeyError {
    /// Which.
    pub file: PathBuf,
    /// Why.
    #[source]
    pub problem: Problem,
}

/// What is wrong with a key file.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// There is none.
    #[error("it does not exist")]
    Missing,
    /// It cannot be read.
    #[error("it cannot be read")]
    Unreadable(#[source] io::Error),
    /// It is empty.
    #[error("it is empty")]
    Empty,
    /// It holds a public key.
    #[error("it holds a public key; the private key is in the file without \".pub\"")]
    Public,
    /// It holds something else.
    #[error("it holds no private key in OpenSSH, PEM, PKCS#8 or PuTTY format")]
    NotAKey,
    /// Its last line is missing.
    #[error("it is cut off: the line that ends a key is missing")]
    CutOff,
    /// It is encrypted and no passphrase was given.
    #[error("it is encrypted and no passphrase is configured")]
    NeedsPassphrase,
    /// The passphrase is not the right one.
    #[error("the passphrase does not open it")]
    WrongPassphrase,
    /// A kind of key that cannot log in here.
    #[error("{0}")]
    Unsupported(&'static str),
    /// It holds something else than a certificate.
    #[error(
        "it holds no OpenSSH certificate, which ssh-keygen -s makes and which begins with the key's type and \"-cert\""
    )]
    NotACertificate,
    /// It holds another key's certificate.
    #[error("it holds the certificate of another key than that in key_file")]
    OfAnotherKey,
    /// It looks right and is not.
    #[error("it is damaged, or of a kind that is not supported")]
    Damaged,
}

/// Reads a key file and its certificate: the one named, or the one beside the key if there is one.
///
/// # Errors
/// When a file that was named is of no use. A certificate that is only there is passed over with a
/// warning when it cannot be read.
pub async fn read(
    file: &Path,
    certificate: Option<&Path>,
    passphrase: Option<&Secret>,
) -> Result<Key, KeyError> {
    let failed = |problem| KeyError {
        file: file.to_owned(),
        problem,
    };
    let bytes = tokio::fs::read(file).await.map_err(|error| {
        failed(match error.kind() {
            io::ErrorKind::NotFound => Problem::Missing,
            _ => Problem::Unreadable(error),
        })
    })?;
    let passphrase = passphrase.cloned();
    // A passphrase is turned into a key slowly on purpose.
    let private = blocking(move || parse(&bytes, passphrase.as_ref().map(Secret::expose)))
        .await
        .unwrap_or_else(|_lost: Lost| Err(Problem::Damaged))
        .map_err(failed)?;
    let certificate = match certificate {
        Some(named) => Some(named_certificate(named, &private).await?),
        None => certificate_beside(file).await,
    };
    Ok(Key {
        private: Arc::new(private),
        certificate: certificate.map(Box::new),
    })
}

async fn named_certificate(file: &Path, key: &PrivateKey) -> Result<Certificate, KeyError> {
    let failed = |problem| KeyError {
        file: file.to_owned(),
        problem,
    };
    let text = tokio::fs::read_to_string(file).await.map_err(|error| {
        failed(match error.kind() {
            io::ErrorKind::NotFound => Problem::Missing,
            io::ErrorKind::InvalidData => Problem::NotACertificate,
            _ => Problem::Unreadable(error),
        })
    })?;
    let certificate =
        Certificate::from_openssh(text.trim()).map_err(|_unparsable| failed(Problem::NotACertificate))?;
    if certificate.public_key() != key.public_key().key_data() {
        return Err(failed(Problem::OfAnotherKey));
    }
    Ok(certificate)
}

async fn certificate_beside(key_file: &Path) -> Option<Certificate> {
    let mut name = key_file.as_os_str().to_owned();
    name.push("-cert.pub");
    let file = PathBuf::from(name);
    let text = match tokio::fs::read_to_string(&file).await {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        Err(_unreadable) => {
            tracing::warn!(file = %file.display(), "the certificate beside the key cannot be read and is not used");
            return None;
        }
    };
    let parsed = Certificate::from_openssh(text.trim());
    if parsed.is_err() {
        tracing::warn!(file = %file.display(), "the file beside the key is no certificate and is not used");
    }
    parsed.ok()
}

/// Parses the contents of a key file. A passphrase that is not needed is ignored.
///
/// # Errors
/// See [`Problem`].
pub fn parse(bytes: &[u8], passphrase: Option<&str>) -> Result<PrivateKey, Problem> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let text = std::str::from_utf8(bytes).map_err(|_binary| Problem::NotAKey)?;
    let trimmed = text.trim();
    if trimmed.is_empty() {
        return Err(Problem::Empty);
    }
    if trimmed.starts_with("PuTTY-User-Key-File-") {
        return usable(putty(trimmed, passphrase)?);
    }
    let Some(pem) = Pem::find(trimmed)? else {
        let public = ["ssh-", "ecdsa-", "sk-"]
            .iter()
            .any(|start| trimmed.starts_with(start));
        return Err(if public { Problem::Public } else { Problem::NotAKey });
    };
    usable(pem.key(passphrase)?)
}

/// Refuses what cannot log in from here.
fn usable(key: PrivateKey) -> Result<PrivateKey, Problem> {
    match key.algorithm() {
        Algorithm::Dsa => Err(Problem::Unsupported(
            "it is a DSA key, which SSH servers no longer accept; use an Ed25519 key",
        )),
        Algorithm::SkEd25519 | Algorithm::SkEcdsaSha2NistP256 => Err(Problem::Unsupported(
            "it belongs to a security key that has to be touched; use the SSH agent or another key",
        )),
        _ => Ok(key),
    }
}

fn putty(text: &str, passphrase: Option<&str>) -> Result<PrivateKey, Problem> {
    let encrypted = text.lines().any(|line| {
        line.strip_prefix("Encryption:")
            .is_some_and(|kind| kind.trim() != "none")
    });
    if !encrypted {
        return PrivateKey::from_ppk(text, None).map_err(|_unparsable| Problem::Damaged);
    }
    let passphrase = passphrase.ok_or(Problem::NeedsPassphrase)?;
    PrivateKey::from_ppk(text, Some(passphrase.to_owned())).map_err(|_unopened| Problem::WrongPassphrase)
}

/// A PEM block: its label, its `DEK-Info` if it is encrypted the old way, its contents.
struct Pem<'a> {
    label: &'a str,
    old_cipher: Option<&'a str>,
    contents: Vec<u8>,
}

impl<'a> Pem<'a> {
    /// The first block that is a key, skipping what stands before and between.
    fn find(text: &'a str) -> Result<Option<Self>, Problem> {
        let mut lines = text.lines().map(str::trim);
        while let Some(line) = lines.next() {
            let Some(label) = line
                .strip_prefix("-----BEGIN ")
                .and_then(|rest| rest.strip_suffix("-----"))
            else {
                continue;
            };
            if label.ends_with("PUBLIC KEY") {
                return Err(Problem::Public);
            }
            if !label.ends_with("PRIVATE KEY") {
                continue;
            }
            return Self::collect(label, lines).map(Some);
        }
        Ok(None)
    }

    fn collect(label: &'a str, lines: impl Iterator<Item = &'a str>) -> Result<Self, Problem> {
        let mut base64 = String::new();
        let mut old_cipher = None;
        for line in lines {
            if line.starts_with("-----END ") {
                let contents = STANDARD.decode(base64).map_err(|_undecodable| Problem::Damaged)?;
                return Ok(Self {
                    label,
                    old_cipher,
                    contents,
                });
            }
            match line.split_once(':') {
                Some(("DEK-Info", cipher)) => old_cipher = Some(cipher.trim()),
                Some(_) => {}
                None => base64.push_str(line),
            }
        }
        Err(Problem::CutOff)
    }

    fn key(&self, passphrase: Option<&str>) -> Result<PrivateKey, Problem> {
        match (self.label, self.old_cipher) {
            ("OPENSSH PRIVATE KEY", _) => self.openssh(passphrase),
            ("ENCRYPTED PRIVATE KEY", _) => {
                let passphrase = passphrase.ok_or(Problem::NeedsPassphrase)?;
                decode_secret_key(&pem(self.label, &self.contents), Some(passphrase))
                    .map_err(|_unopened| Problem::WrongPassphrase)
            }
            ("DSA PRIVATE KEY", _) => Err(Problem::Unsupported(
                "it is a DSA key, which SSH servers no longer accept; use an Ed25519 key",
            )),
            ("RSA PRIVATE KEY" | "EC PRIVATE KEY", Some(cipher)) => {
                let passphrase = passphrase.ok_or(Problem::NeedsPassphrase)?;
                let contents = old_decrypt(cipher, &self.contents, passphrase)?;
                decode_secret_key(&pem(self.label, &contents), None)
                    .map_err(|_unopened| Problem::WrongPassphrase)
            }
            ("RSA PRIVATE KEY" | "EC PRIVATE KEY" | "PRIVATE KEY", None) => {
                decode_secret_key(&pem(self.label, &self.contents), None)
                    .map_err(|_unparsable| Problem::Damaged)
            }
            _ => Err(Problem::NotAKey),
        }
    }

    fn openssh(&self, passphrase: Option<&str>) -> Result<PrivateKey, Problem> {
        let key = PrivateKey::from_bytes(&self.contents).map_err(|_unparsable| Problem::Damaged)?;
        if !key.is_encrypted() {
            return Ok(key);
        }
        let passphrase = passphrase.ok_or(Problem::NeedsPassphrase)?;
        key.decrypt(passphrase)
            .map_err(|_unopened| Problem::WrongPassphrase)
    }
}

fn pem(label: &str, contents: &[u8]) -> String {
    format!(
        "-----BEGIN {label}-----\n{}\n-----END {label}-----\n",
        STANDARD.encode(contents)
    )
}

/// What OpenSSL did before PKCS#8: the passphrase through MD5, then AES in CBC mode.
fn old_decrypt(cipher: &str, contents: &[u8], passphrase: &str) -> Result<Vec<u8>, Problem> {
    const UNSUPPORTED: Problem = Problem::Unsupported(
        "it is encrypted with a cipher of the past; rewrite it with \"ssh-keygen -p -f\" and its name",
    );
    let (name, iv) = cipher.split_once(',').ok_or(Problem::Damaged)?;
    let iv = unhex(iv.trim()).ok_or(Problem::Damaged)?;
    let length = match name {
        "AES-128-CBC" => 16,
        "AES-192-CBC" => 24,
        "AES-256-CBC" => 32,
        _ => return Err(UNSUPPORTED),
    };
    let salt = iv.get(..8).ok_or(Problem::Damaged)?;
    let mut key = Vec::new();
    let mut block = Vec::new();
    while key.len() < length {
        block = md5::compute([&block, passphrase.as_bytes(), salt].concat()).to_vec();
        key.extend_from_slice(&block);
    }
    key.truncate(length);
    let mut buffer = contents.to_vec();
    let opened = match length {
        16 => decrypt::<cbc::Decryptor<aes::Aes128>>(&key, &iv, &mut buffer),
        24 => decrypt::<cbc::Decryptor<aes::Aes192>>(&key, &iv, &mut buffer),
        _ => decrypt::<cbc::Decryptor<aes::Aes256>>(&key, &iv, &mut buffer),
    };
    opened.ok_or(Problem::WrongPassphrase)
}

fn decrypt<C: KeyIvInit + BlockModeDecrypt>(key: &[u8], iv: &[u8], buffer: &mut [u8]) -> Option<Vec<u8>> {
    let cipher = C::new_from_slices(key, iv).ok()?;
    cipher.decrypt_padded::<Pkcs7>(buffer).ok().map(<[u8]>::to_vec)
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> = text
        .chars()
        .map(|digit| digit.to_digit(16).map(|value| value as u8))
        .collect::<Option<_>>()?;
    let pairs = digits.chunks_exact(2);
    pairs
        .remainder()
        .is_empty()
        .then(|| pairs.map(|pair| pair[0] << 4 | pair[1]).collect())
}

#[cfg(test)]
#[path = "key/tests.rs"]
mod tests;

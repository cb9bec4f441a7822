//! Files and texts that hold credentials: certificates, keys, tokens.
//!
//! It must not know which way in they belong to. Invariant: what is wrong with one is said in our own
//! words, with the name of the argument or field and the path, and never with anything of its content.

use std::io::{self, Read as _};
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderValue;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::access::Material;
use super::classify::Failure;
use crate::contract::Secret;

/// Files longer than this hold something else.
const LONGEST: u64 = 4 << 20;

/// Something given, and what a person calls it: `token_file`, or `client-key of the user "me"`.
#[derive(Clone, Debug)]
pub(super) struct Named {
    pub(super) name: String,
    pub(super) material: Material,
}

impl Named {
    pub(super) fn new(name: impl Into<String>, material: Material) -> Self {
        Self {
            name: name.into(),
            material,
        }
    }

    /// Its name, with the path where there is one.
    pub(super) fn place(&self) -> String {
        match &self.material {
            Material::Inline(_) => self.name.clone(),
            Material::File(path) => format!("{} ({})", self.name, path.display()),
        }
    }

    /// What it holds. Blocks.
    ///
    /// # Errors
    /// Where its file cannot be read.
    pub(super) fn read(&self) -> Result<Vec<u8>, Failure> {
        match &self.material {
            Material::Inline(secret) => Ok(secret.expose().as_bytes().to_vec()),
            Material::File(path) => {
                file(path).map_err(|why| unusable(&self.place(), why.text).caused(why.cause))
            }
        }
    }

    /// The certificates in it. Blocks.
    ///
    /// # Errors
    /// Where it cannot be read, or holds none.
    pub(super) fn certificates(&self) -> Result<Vec<CertificateDer<'static>>, Failure> {
        let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&self.read()?).collect();
        match certificates {
            Ok(certificates) if !certificates.is_empty() => Ok(certificates),
            Ok(_) => Err(unusable(&self.place(), "it holds no certificate in PEM")),
            Err(_) => Err(unusable(&self.place(), "its PEM is damaged")),
        }
    }

    /// The private key in it. Blocks.
    ///
    /// # Errors
    /// Where it cannot be read, or holds none that is not encrypted.
    pub(super) fn key(&self) -> Result<PrivateKeyDer<'static>, Failure> {
        let bytes = self.read()?;
        PrivateKeyDer::from_pem_slice(&bytes).map_err(|_| {
            let encrypted = b"ENCRYPTED";
            let is_encrypted = bytes.windows(encrypted.len()).any(|window| window == encrypted);
            unusable(
                &self.place(),
                if is_encrypted {
                    "it holds an encrypted key: store it decrypted, for instance with openssl pkey"
                } else {
                    "it holds no private key in PEM"
                },
            )
        })
    }

    /// The bearer token in it, as a header. Blocks.
    ///
    /// # Errors
    /// Where it cannot be read, or holds something else.
    pub(super) fn bearer(&self) -> Result<HeaderValue, Failure> {
        let bytes = self.read()?;
        let token = std::str::from_utf8(&bytes)
            .map_err(|_| unusable(&self.place(), "it holds no token"))?
            .trim();
        if token.is_empty() {
            return Err(unusable(&self.place(), "it is empty"));
        }
        if token.chars().any(|c| c.is_whitespace() || c.is_control()) {
            return Err(unusable(&self.place(), "it holds more than one token"));
        }
        header("Bearer", token).ok_or_else(|| unusable(&self.place(), "it holds no token"))
    }
}

/// Something that was given and cannot be used.
pub(super) fn unusable(place: &str, why: impl AsRef<str>) -> Failure {
    Failure::credentials(format!("{place} cannot be used: {}", why.as_ref()))
}

/// An `Authorization` header, which shows in no log.
pub(super) fn header(scheme: &str, credentials: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::try_from(format!("{scheme} {credentials}")).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// The `Authorization` header of a user and a password.
pub(super) fn basic(user: &str, password: &Secret) -> Option<HeaderValue> {
    header("Basic", &STANDARD.encode(format!("{user}:{}", password.expose())))
}

/// What base64 says, whatever its line breaks.
pub(super) fn decoded(text: &str) -> Option<Secret> {
    let compact: String = text.chars().filter(|c| !c.is_ascii_whitespace()).collect();
    let bytes = STANDARD.decode(compact).ok()?;
    String::from_utf8(bytes).ok().map(Secret::new)
}

/// Why a file cannot be read.
pub(super) struct Unreadable {
    pub(super) text: &'static str,
    pub(super) cause: Option<io::Error>,
    pub(super) is_missing: bool,
}

impl Unreadable {
    fn because(text: &'static str) -> Self {
        Self {
            text,
            cause: None,
            is_missing: false,
        }
    }
}

impl From<io::Error> for Unreadable {
    fn from(error: io::Error) -> Self {
        let text = match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => "it does not exist",
            io::ErrorKind::PermissionDenied => "permission denied",
            io::ErrorKind::IsADirectory => "it is a directory",
            _ => "it cannot be read",
        };
        let is_missing = matches!(
            error.kind(),
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
        );
        Self {
            text,
            cause: (text == "it cannot be read").then_some(error),
            is_missing,
        }
    }
}

/// The bytes of a regular file. Blocks.
pub(super) fn file(path: &Path) -> Result<Vec<u8>, Unreadable> {
    let metadata = std::fs::metadata(path)?;
    if metadata.is_dir() {
        return Err(Unreadable::because("it is a directory"));
    }
    // Reading a pipe or a device may never end.
    if !metadata.is_file() {
        return Err(Unreadable::because("it is not a regular file"));
    }
    let mut bytes = Vec::new();
    std::fs::File::open(path)?
        .take(LONGEST + 1)
        .read_to_end(&mut bytes)?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > LONGEST {
        return Err(Unreadable::because("it is larger than any credentials"));
    }
    Ok(bytes)
}

impl Failure {
    fn caused(self, cause: Option<io::Error>) -> Self {
        match cause {
            Some(cause) => self.because(cause.to_string()),
            None => self,
        }
    }
}

/// Certificates as base64 of their PEM.
pub(super) fn encoded(certificates: &[CertificateDer<'static>]) -> String {
    let pem: String = certificates
        .iter()
        .map(|certificate| {
            let body = STANDARD.encode(certificate);
            let lines: Vec<_> = body.as_bytes().chunks(64).map(String::from_utf8_lossy).collect();
            format!(
                "-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n",
                lines.join("\n")
            )
        })
        .collect();
    STANDARD.encode(pem)
}

//! The catalogue: images that proxies boot from, and machine types.
//!
//! It must not download. Invariant: nothing of a URL beside its host is ever shown, since the rest may
//! hold a token.

use std::fmt;

use sha2::{Digest as _, Sha256};

use super::place::{ConfigProblem, Place};

/// A block `image` as it was written.
#[derive(Clone, Default)]
pub struct GivenImage {
    /// Whether something in it is not known yet.
    pub partly_unknown: bool,
    /// Where it is downloaded from.
    pub url: Option<String>,
    /// The SHA-256 of what is downloaded.
    pub sha256: Option<String>,
    /// Its format.
    pub format: Option<String>,
    /// What it boots with.
    pub firmware: Option<String>,
}

/// A block `machine_type` as it was written.
#[derive(Clone, Debug, Default)]
pub struct GivenMachineType {
    /// Whether something in it is not known yet.
    pub partly_unknown: bool,
    /// Its processors.
    pub vcpus: Option<u32>,
    /// Its memory, in MiB.
    pub memory_mib: Option<u64>,
}

/// The format of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ImageFormat {
    /// QEMU's.
    Qcow2,
    /// The bytes of a disk.
    Raw,
}

impl ImageFormat {
    /// libvirt's word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Qcow2 => "qcow2",
            Self::Raw => "raw",
        }
    }
}

/// What an image boots with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Firmware {
    /// UEFI.
    Uefi,
    /// A PC's BIOS.
    Bios,
}

impl Firmware {
    /// Its name in the configuration.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Uefi => "uefi",
            Self::Bios => "bios",
        }
    }
}

/// What a proxy boots from.
#[derive(Clone, PartialEq, Eq)]
pub struct Image {
    /// Its key in the catalogue; of one that is given by its URL, a name made of the URL.
    pub key: String,
    /// Where it is downloaded from: `http` or `https`.
    pub url: reqwest::Url,
    /// The SHA-256 of what is downloaded: 64 lower-case hexadecimal digits.
    pub sha256: Option<String>,
    /// Its format.
    pub format: ImageFormat,
    /// What it boots with.
    pub firmware: Firmware,
}

impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Image")
            .field("key", &self.key)
            .field("url_host", &self.url_host())
            .field("sha256", &self.sha256)
            .field("format", &self.format)
            .field("firmware", &self.firmware)
            .finish()
    }
}

impl Image {
    /// The image behind a URL that is in no catalogue: qcow2 that boots with UEFI.
    ///
    /// # Errors
    /// What is wrong with the URL.
    pub fn of_url(url: &str) -> Result<Self, String> {
        let parsed = parse_url(url)?;
        let digest = Sha256::digest(parsed.as_str().as_bytes());
        let digits: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        Ok(Self {
            key: format!("url-{digits}"),
            url: parsed,
            sha256: None,
            format: ImageFormat::Qcow2,
            firmware: Firmware::Uefi,
        })
    }

    /// Of the URL what may be shown.
    #[must_use]
    pub fn url_host(&self) -> &str {
        self.url.host_str().unwrap_or_default()
    }
}

/// What a proxy has of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MachineType {
    /// Processors.
    pub vcpus: u32,
    /// MiB of memory.
    pub memory_mib: u64,
}

fn parse_url(text: &str) -> Result<reqwest::Url, String> {
    // The parser's own words name no part of the URL.
    let url = reqwest::Url::parse(text).map_err(|error| format!("it is no URL: {error}"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(format!(
            "images are not downloaded by {}: take http or https",
            url.scheme()
        ));
    }
    if url.host_str().is_none_or(str::is_empty) {
        return Err("the URL names no host".to_owned());
    }
    Ok(url)
}

pub(super) fn validate_image(
    key: &str,
    given: GivenImage,
    place: &Place,
    problems: &mut Vec<ConfigProblem>,
) -> Option<Image> {
    let before = problems.len();
    let url = match given.url.as_deref().map(parse_url) {
        Some(Ok(url)) => Some(url),
        Some(Err(message)) => {
            problems.push(place.argument("url").problem(message));
            None
        }
        None => {
            if !given.partly_unknown {
                problems.push(
                    place
                        .argument("url")
                        .problem("it is missing: say where the image is downloaded from"),
                );
            }
            None
        }
    };
    let sha256 = given.sha256.map(|text| text.trim().to_ascii_lowercase());
    if let Some(text) = &sha256
        && (text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()))
    {
        problems.push(
            place
                .argument("sha256")
                .problem(format!("{text:?} is no SHA-256, which has 64 hexadecimal digits")),
        );
    }
    let format = match given.format.as_deref() {
        None | Some("qcow2") => ImageFormat::Qcow2,
        Some("raw") => ImageFormat::Raw,
        Some(other) => {
            problems.push(place.argument("format").problem(format!(
                "{other:?} is neither \"qcow2\" nor \"raw\": convert the image with qemu-img"
            )));
            ImageFormat::Raw
        }
    };
    let firmware = match given.firmware.as_deref() {
        None | Some("uefi") => Firmware::Uefi,
        Some("bios") => Firmware::Bios,
        Some(other) => {
            problems.push(
                place
                    .argument("firmware")
                    .problem(format!("{other:?} is neither \"uefi\" nor \"bios\"")),
            );
            Firmware::Uefi
        }
    };
    (problems.len() == before).then_some(())?;
    Some(Image {
        key: key.to_owned(),
        url: url?,
        sha256,
        format,
        firmware,
    })
}

pub(super) fn validate_machine_type(
    _key: &str,
    given: GivenMachineType,
    place: &Place,
    problems: &mut Vec<ConfigProblem>,
) -> Option<MachineType> {
    for (argument, is_missing) in [
        ("vcpus", given.vcpus.is_none()),
        ("memory_mib", given.memory_mib.is_none()),
    ] {
        if is_missing && !given.partly_unknown {
            problems.push(place.argument(argument).problem("it is missing"));
        }
    }
    Some(MachineType {
        vcpus: given.vcpus?,
        memory_mib: given.memory_mib?,
    })
}

//! The image that the disks of proxies lie on: downloaded once for each host and kept in its pool.
//!
//! It must not know proxies. Invariants: an image that is not whole, or not the one that was asked for,
//! is never found; one download runs for a host however many wait for it; nothing that anything lies on
//! is removed.
//!
//! A whole image is found by its marker, a volume of nothing that lies on the image's own. The marker's
//! name follows from the image, the name of the volume below it is new with each download: so two runs of
//! Terraform that download at once do not meet, whoever is first makes the marker, and a marker that
//! libvirt made proves that the volume below it was there. The volume goes through libvirt as plain
//! bytes, since libvirt would first write a header of its own into any other. The size of the disk in it
//! is part of the volume's name: libvirt reads sizes from files, and may read one that is being written.

pub mod download;
mod fetch;
mod flight;
mod head;
mod spool;

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use futures_util::future::{BoxFuture, join_all};
use reqwest::redirect;
use sha2::{Digest as _, Sha256};
use tracing::Instrument as _;

use self::download::Patience;
use self::flight::Flights;
use super::config::{Image, ImageFormat};
use super::volume_xml;
use crate::contract::Error;
use crate::transport::libvirt::types::{Pool, Volume};
use crate::transport::libvirt::{self, Code, LibvirtApi};

/// How the names of all these volumes begin.
const PREFIX: &str = "egress-image-";

/// An image in a host's pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseImage {
    /// Its volume.
    pub volume: Volume,
    /// Its path on the host.
    pub path: String,
    /// The size of its disk: an overlay is at least as large.
    pub virtual_size: u64,
    /// Its format, which whoever lies on it must name.
    pub format: ImageFormat,
}

/// A connection of its own for an upload: made where one is needed.
pub type Fresh = BoxFuture<'static, Result<Arc<dyn LibvirtApi>, Error>>;

/// The images of a backend's hosts.
#[derive(Debug)]
pub struct Images {
    client: OnceLock<reqwest::Client>,
    flights: Flights<(String, String, String), BaseImage>,
    patience: Patience,
    /// Where images are kept whose length no server says.
    folder: PathBuf,
    longest: u64,
}

impl Default for Images {
    fn default() -> Self {
        Self::new(Patience::default(), std::env::temp_dir(), spool::LONGEST)
    }
}

impl Images {
    /// With a patience, a folder and a bound for what has to be kept there.
    #[must_use]
    pub fn new(patience: Patience, folder: PathBuf, longest: u64) -> Self {
        Self {
            client: OnceLock::new(),
            flights: Flights::default(),
            patience,
            folder,
            longest,
        }
    }

    /// The image in `pool` of `host`, downloaded where it is not there yet. `api` is a connection to the
    /// host; `fresh` makes another one, for the upload.
    ///
    /// # Errors
    /// Permanent where the image cannot be had or is not what the configuration says; `QuotaExceeded`
    /// where the pool has no room for it; Transient otherwise.
    ///
    /// # Cancel safety
    /// Dropping this leaves a download to the others who wait for it; the last one ends it, and the next
    /// download removes what it left.
    pub async fn ensure(
        &self,
        host: &str,
        api: Arc<dyn LibvirtApi>,
        fresh: impl FnOnce() -> Fresh + Send + 'static,
        pool: &Pool,
        image: &Image,
    ) -> Result<BaseImage, Error> {
        let marker = marker_name(image);
        let key = (host.to_owned(), pool.name.clone(), marker.clone());
        let start = || {
            let (pool, image) = (pool.clone(), image.clone());
            let (patience, folder, longest) = (self.patience, self.folder.clone(), self.longest);
            let client = self.client();
            let span = tracing::debug_span!("libvirt.image", image = %image.key, host);
            async move {
                if let Some(found) = find(&*api, &pool, &marker, &image).await? {
                    return Ok(found);
                }
                let how = fetch::How {
                    client: client?,
                    patience,
                    folder,
                    longest,
                };
                let base = fetch::fetch(how, fresh, &pool, &marker, &image).await?;
                if let Err(error) = sweep(&*api, &pool, &marker, &base).await {
                    tracing::debug!(%error, "what other downloads left stays for now");
                }
                Ok(base)
            }
            .instrument(span)
        };
        let joined = self.flights.join(key, start).await;
        joined.map_err(|error| {
            error
                .with("image", image.key.clone())
                .with("pool", pool.name.clone())
        })
    }

    fn client(&self) -> Result<reqwest::Client, Error> {
        if let Some(client) = self.client.get() {
            return Ok(client.clone());
        }
        let client = reqwest::Client::builder()
            .user_agent(concat!("terraform-provider-egress/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(self.patience.stall)
            .redirect(redirect::Policy::custom(follow))
            .build()
            .map_err(|error| {
                Error::permanent("images cannot be downloaded from this machine").caused_by(error)
            })?;
        Ok(self.client.get_or_init(|| client).clone())
    }
}

/// A few redirections, and none that gives up encryption.
fn follow(attempt: redirect::Attempt<'_>) -> redirect::Action {
    if attempt.previous().len() > 10 {
        return attempt.error("it leads on and on");
    }
    let left = attempt.previous().last().map(reqwest::Url::scheme);
    if left == Some("https") && attempt.url().scheme() != "https" {
        return attempt.error("it leads from https to http");
    }
    attempt.follow()
}

/// The marker of an image: its digest is its identity where it is known, else where it comes from.
fn marker_name(image: &Image) -> String {
    let identity = match &image.sha256 {
        Some(sha256) => format!("{} sha256 {sha256}", image.format.as_str()),
        None => format!("{} url {}", image.format.as_str(), image.url),
    };
    let digest = Sha256::digest(identity.as_bytes());
    let digits: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    format!("{PREFIX}{digits}")
}

/// `None` for what is not there.
fn present<T>(result: Result<T, libvirt::Error>) -> Result<Option<T>, Error> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.code() == Some(Code::NO_STORAGE_VOL) => Ok(None),
        Err(error) => Err(super::classify::libvirt(error)),
    }
}

/// A new name for the volume of an image whose disk has that size.
fn base_name(marker: &str, virtual_size: u64) -> String {
    format!("{marker}-{virtual_size}-{}", uuid::Uuid::new_v4().simple())
}

/// The size in such a name.
fn size_in(marker: &str, name: &str) -> Option<u64> {
    let (size, _) = name.strip_prefix(marker)?.strip_prefix('-')?.split_once('-')?;
    size.parse().ok()
}

/// The whole image, where its marker and what that lies on are there. A marker alone is removed.
async fn find(
    api: &dyn LibvirtApi,
    pool: &Pool,
    marker: &str,
    image: &Image,
) -> Result<Option<BaseImage>, Error> {
    let Some(volume) = present(api.volume(pool, marker).await)? else {
        return Ok(None);
    };
    let mut below = lies_on(api, &volume).await?;
    if below.is_none() {
        // Another run may be making it just now, and libvirt have read half of it.
        api.refresh(pool).await.map_err(super::classify::libvirt)?;
        below = lies_on(api, &volume).await?;
    }
    if let Some(path) = below
        && let Some((_, name)) = path.rsplit_once('/')
        && let Some(virtual_size) = size_in(marker, name)
        && let Some(volume) = present(api.volume(pool, name).await)?
    {
        return Ok(Some(BaseImage {
            volume,
            path,
            virtual_size,
            format: image.format,
        }));
    }
    present(api.delete_volume(&volume).await)?;
    Ok(None)
}

/// The path of what a volume lies on, as far as libvirt knows.
async fn lies_on(api: &dyn LibvirtApi, volume: &Volume) -> Result<Option<String>, Error> {
    let xml = present(api.volume_xml(volume).await)?;
    Ok(xml
        .and_then(|xml| volume_xml::read(&xml))
        .and_then(|seen| seen.backing_path))
}

/// Removes what downloads left that were cut off. One that another run has under way is removed too: it
/// finds out when it is done, and then finds this image.
async fn sweep(api: &dyn LibvirtApi, pool: &Pool, marker: &str, base: &BaseImage) -> Result<(), Error> {
    let volumes = api.volumes(pool).await.map_err(super::classify::libvirt)?;
    let (left, others): (Vec<_>, Vec<_>) = volumes.into_iter().partition(|volume| {
        volume.name != base.volume.name
            && volume
                .name
                .strip_prefix(marker)
                .is_some_and(|rest| rest.starts_with('-'))
    });
    if left.is_empty() {
        return Ok(());
    }
    // Somebody may have removed the marker of an image that disks lie on.
    let below: Vec<Option<String>> = join_all(others.iter().map(|volume| lies_on(api, volume)))
        .await
        .into_iter()
        .collect::<Result<_, Error>>()?;
    for volume in left {
        let path = present(api.volume_path(&volume).await)?;
        if path.is_some() && below.contains(&path) {
            tracing::warn!(
                volume = volume.name,
                "an image without its marker is kept, since disks lie on it"
            );
            continue;
        }
        present(api.delete_volume(&volume).await)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::libvirt::config::Firmware;

    fn image(url: &str, sha256: Option<&str>, format: ImageFormat) -> Image {
        Image {
            key: "k".into(),
            url: url.parse().expect("a URL"),
            sha256: sha256.map(Into::into),
            format,
            firmware: Firmware::Bios,
        }
    }

    #[test]
    fn an_image_is_known_by_its_digest_and_without_one_by_its_url() {
        let (one, other) = ("https://a.example/i", "https://b.example/i");
        let name = |url, sha256, format| marker_name(&image(url, sha256, format));
        let qcow2 = ImageFormat::Qcow2;
        assert_eq!(name(one, Some("1"), qcow2), name(other, Some("1"), qcow2));
        let all = [
            name(one, None, qcow2),
            name(other, None, qcow2),
            name(one, Some("1"), qcow2),
            name(one, Some("2"), qcow2),
            name(one, None, ImageFormat::Raw),
        ];
        let distinct: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(distinct.len(), all.len());
        assert!(all.iter().all(|name| name.starts_with(PREFIX)));
    }

    #[test]
    fn the_size_of_a_disk_is_in_the_name_of_its_volume() {
        let marker = marker_name(&image("https://a.example/i", None, ImageFormat::Raw));
        let name = base_name(&marker, 25_165_824);
        assert_eq!(size_in(&marker, &name), Some(25_165_824));
        assert_ne!(name, base_name(&marker, 25_165_824));
        for other in [
            marker.as_str(),
            "egress-image-1",
            &format!("{marker}-x-1"),
            &format!("{marker}-1"),
        ] {
            assert_eq!(size_in(&marker, other), None, "{other}");
        }
    }
}

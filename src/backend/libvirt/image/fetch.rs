//! One download into one pool.
//!
//! It must not know who waits for it. Invariants: no volume is made before the image's beginning was
//! seen to be one; the marker is made when all bytes are there and their digest is the right one, and
//! not otherwise; a download that failed takes its volume with it.

use std::path::PathBuf;
use std::sync::Arc;

use reqwest::Client;
use tokio::io::{AsyncReadExt as _, AsyncSeekExt as _, AsyncWriteExt as _, DuplexStream};

use super::super::classify;
use super::super::config::Image;
use super::super::volume_xml::{self, Backing};
use super::download::{Download, Patience};
use super::spool::{Spooled, spool};
use super::{BaseImage, Fresh, base_name, find, head};
use crate::contract::Error;
use crate::transport::libvirt::types::{Pool, Volume};
use crate::transport::libvirt::{self, Code, LibvirtApi};

/// How much lies between the download and the upload.
const BETWEEN: usize = 256 << 10;

/// What a download needs.
pub(super) struct How {
    pub(super) client: Client,
    pub(super) patience: Patience,
    pub(super) folder: PathBuf,
    pub(super) longest: u64,
}

/// Downloads the image into the pool and makes its marker.
///
/// # Errors
/// See [`Images::ensure`](super::Images::ensure).
///
/// # Cancel safety
/// Dropping this leaves a volume without a marker, which the next download removes.
pub(super) async fn fetch(
    how: How,
    fresh: impl FnOnce() -> Fresh + Send,
    pool: &Pool,
    marker: &str,
    image: &Image,
) -> Result<BaseImage, Error> {
    let mut arriving = Arriving::open(how, image).await?;
    let length = arriving.length;
    let virtual_size = head::inspect(&arriving.head().await?, length, image.format).map_err(|unusable| {
        Error::permanent(format!("the image from {} cannot be used", image.url_host())).caused_by(unusable)
    })?;
    let api = fresh().await?;
    let space = api.pool_info(pool).await.map_err(classify::libvirt)?;
    if space.available < length {
        return Err(Error::quota(format!(
            "the image takes {length} bytes, and the pool {} has {} left",
            pool.name, space.available
        )));
    }
    let name = base_name(marker, virtual_size);
    let volume = api
        .create_volume(pool, &volume_xml::raw(&name, length), 0)
        .await
        .map_err(classify::libvirt)?;
    let whole = whole(&api, arriving, &volume, image).await;
    let made = match whole {
        Ok(()) => mark(&api, pool, marker, volume.clone(), virtual_size, image).await,
        Err(error) => Err(error),
    };
    match made {
        Ok(Some(base)) => Ok(base),
        // Another run was faster: what it made is as good.
        Ok(None) => {
            remove(&api, &volume).await;
            find(&*api, pool, marker, image)
                .await?
                .ok_or_else(|| Error::transient("the image was removed while it was looked at"))
        }
        Err(error) => {
            remove(&api, &volume).await;
            Err(error)
        }
    }
}

/// Uploads all of it and compares the digest.
async fn whole(
    api: &Arc<dyn LibvirtApi>,
    arriving: Arriving,
    volume: &Volume,
    image: &Image,
) -> Result<(), Error> {
    let digest = arriving.upload(&**api, volume).await?;
    match &image.sha256 {
        Some(wanted) if *wanted != digest => Err(Error::permanent(format!(
            "the image from {} has the SHA-256 {digest}, and the configuration says {wanted}: correct sha256, or the URL",
            image.url_host()
        ))),
        _ => Ok(()),
    }
}

/// Makes the marker; `None` where there is one by now.
async fn mark(
    api: &Arc<dyn LibvirtApi>,
    pool: &Pool,
    marker: &str,
    volume: Volume,
    virtual_size: u64,
    image: &Image,
) -> Result<Option<BaseImage>, Error> {
    let path = api.volume_path(&volume).await.map_err(classify::libvirt)?;
    let backing = Backing {
        path: &path,
        format: image.format,
    };
    let xml = volume_xml::overlay(marker, virtual_size, &backing);
    match api.create_volume(pool, &xml, 0).await {
        Ok(_marker) => Ok(Some(BaseImage {
            volume,
            path,
            virtual_size,
            format: image.format,
        })),
        Err(error) if error.code() == Some(Code::STORAGE_VOL_EXIST) => Ok(None),
        Err(error) => Err(classify::libvirt(error)),
    }
}

/// Removes what came to nothing; where that fails, the next download does.
async fn remove(api: &Arc<dyn LibvirtApi>, volume: &Volume) {
    if let Err(error) = api.delete_volume(volume).await {
        tracing::debug!(%error, volume = volume.name, "an image that was not finished is left behind for now");
    }
}

/// An image on its way, of which the length is known.
struct Arriving {
    length: u64,
    from: From,
}

enum From {
    Server(Box<Download>),
    /// The whole file, and its digest.
    Disk(tokio::fs::File, String),
}

impl Arriving {
    async fn open(how: How, image: &Image) -> Result<Self, Error> {
        let verified = image.sha256.is_some();
        let mut download = Download::start(how.client, image.url.clone(), verified, how.patience).await?;
        if let Some(length) = download.length() {
            return Ok(Self {
                length,
                from: From::Server(Box::new(download)),
            });
        }
        let Spooled { file, length } = spool(&mut download, &how.folder, how.longest).await?;
        Ok(Self {
            length,
            from: From::Disk(file, download.digest()),
        })
    }

    async fn head(&mut self) -> Result<Vec<u8>, Error> {
        match &mut self.from {
            From::Server(download) => Ok(download.head(head::WANTED).await?.to_vec()),
            From::Disk(file, _) => {
                let mut head = Vec::new();
                let read = async {
                    (&mut *file)
                        .take(head::WANTED as u64)
                        .read_to_end(&mut head)
                        .await?;
                    file.rewind().await
                };
                read.await.map_err(|error| {
                    Error::transient("the image could not be read back from disk").caused_by(error)
                })?;
                Ok(head)
            }
        }
    }

    /// Writes all of it into the volume; its digest comes back.
    async fn upload(self, api: &dyn LibvirtApi, volume: &Volume) -> Result<String, Error> {
        let length = self.length;
        match self.from {
            From::Disk(mut file, digest) => {
                let sent = api.upload(volume, 0, length, &mut file).await;
                sent.map_err(uploading).map(|_bytes| digest)
            }
            From::Server(mut download) => {
                {
                    let (mut into, mut out) = tokio::io::duplex(BETWEEN);
                    let mut receiving = std::pin::pin!(receive(&mut download, &mut into));
                    let mut sending = std::pin::pin!(api.upload(volume, 0, length, &mut out));
                    let mut received = false;
                    loop {
                        tokio::select! {
                            biased;
                            // Before the upload, which would only say that something is missing.
                            result = &mut receiving, if !received => {
                                result?;
                                received = true;
                            }
                            result = &mut sending => {
                                result.map_err(uploading)?;
                                break;
                            }
                        }
                    }
                }
                Ok(download.digest())
            }
        }
    }
}

async fn receive(download: &mut Download, into: &mut DuplexStream) -> Result<(), Error> {
    while let Some(piece) = download.next().await? {
        if into.write_all(&piece).await.is_err() {
            // The upload has all it wants, or failed, and tells so.
            break;
        }
    }
    Ok(())
}

fn uploading(error: libvirt::Error) -> Error {
    match error {
        libvirt::Error::SourceShort { announced, sent } => Error::transient(format!(
            "the image ended after {sent} bytes, and its server had announced {announced}"
        )),
        error => classify::libvirt(error),
    }
}

//! A file whose length nobody said, kept on disk for the moment it takes to learn it.
//!
//! It must not know libvirt. Invariants: it has no name, so that nothing of it outlives the process; it
//! is never longer than it may be.

use std::io::{self, Seek as _};
use std::path::Path;

use tokio::fs::File;
use tokio::io::AsyncWriteExt as _;

use super::download::Download;
use crate::contract::Error;
use crate::transport::call::blocking;

/// The longest image that is taken from a server which does not say how long it is.
pub(super) const LONGEST: u64 = 16 << 30;

/// A whole file, to be read from its beginning.
#[derive(Debug)]
pub(super) struct Spooled {
    pub(super) file: File,
    pub(super) length: u64,
}

/// Receives the rest of `download`, `longest` bytes at most, into a file in `folder`.
///
/// # Errors
/// Permanent where it is longer than that; Transient where it does not come or there is no room.
pub(super) async fn spool(download: &mut Download, folder: &Path, longest: u64) -> Result<Spooled, Error> {
    let failed = |error: io::Error| {
        Error::transient(format!(
            "the server does not say how long the image is, and it could not be kept in {} to learn it",
            folder.display()
        ))
        .caused_by(error)
    };
    let place = folder.to_owned();
    let file = blocking(move || nameless(&place))
        .await
        .map_err(|lost| failed(io::Error::other(lost)))?
        .map_err(failed)?;
    let mut file = File::from_std(file);
    let mut length = 0;
    while let Some(piece) = download.next().await? {
        length += piece.len() as u64;
        if length > longest {
            return Err(Error::permanent(format!(
                "the server of the image ({}) does not say how long it is, and it is longer than {} GiB: use one that sends Content-Length",
                download.host(),
                longest >> 30
            )));
        }
        file.write_all(&piece).await.map_err(failed)?;
    }
    file.flush().await.map_err(failed)?;
    let mut file = file.into_std().await;
    let file = blocking(move || file.rewind().map(|()| file))
        .await
        .map_err(|lost| failed(io::Error::other(lost)))?
        .map_err(failed)?;
    Ok(Spooled {
        file: File::from_std(file),
        length,
    })
}

/// A file that is gone from its folder as soon as it is there.
fn nameless(folder: &Path) -> io::Result<std::fs::File> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let path = folder.join(format!("egress-image-{}", uuid::Uuid::new_v4()));
    let file = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

//! The directories of the proxies: read, written, published, withdrawn.
//!
//! It must not know processes. It blocks, so it is called off the async threads. Invariants: a
//! directory under a proxy's name always has its record, whole, because it is published and withdrawn
//! by renaming; nothing secret can be read by others.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use super::account::Account;
use super::classify;
use super::place::{Place, RECORD};
use super::record::{Record, Unreadable};
use crate::contract::{Error, Namespace, ProxyName};

/// What is under a proxy's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// Nothing.
    Absent,
    /// Something that this provider did not make.
    Unmarked,
    /// A proxy.
    Marked(Box<Record>),
}

/// Looks at what is under a proxy's name.
pub(super) fn look(place: &Place) -> Result<Entry, Error> {
    let path = place.record();
    match std::fs::read(&path) {
        Ok(text) => match Record::parse(&text) {
            Ok(record)
                if record.mark.key.namespace == *place.namespace()
                    && record.mark.key.name == *place.name() =>
            {
                Ok(Entry::Marked(Box::new(record)))
            }
            // A directory that was copied or renamed by hand is not the proxy it says it is.
            Ok(_) => Ok(Entry::Unmarked),
            Err(why) => Err(unreadable(why, &path)),
        },
        Err(error) if is_absent(&error) => match std::fs::symlink_metadata(place.dir()) {
            Ok(_) => Ok(Entry::Unmarked),
            Err(error) if is_absent(&error) => Ok(Entry::Absent),
            Err(error) => Err(classify::file(error, "look at", &place.dir())),
        },
        Err(error) => Err(classify::file(error, "read", &path)),
    }
}

fn unreadable(why: Unreadable, path: &Path) -> Error {
    let way_out = match why {
        Unreadable::Malformed => "restore it, or stop the proxy and remove its directory",
        Unreadable::Newer => "use that release or a later one",
    };
    Error::permanent(format!("{} {why}: {way_out}", path.display()))
}

/// Whether an error says that nothing is there.
pub(super) fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

/// One thing that a listing found.
#[derive(Debug)]
pub(super) struct Listed {
    /// Where.
    pub(super) place: Place,
    /// What.
    pub(super) entry: Result<Entry, Error>,
}

/// A namespace that could not be listed.
#[derive(Debug)]
pub(super) struct Closed {
    /// Which.
    pub(super) namespace: Namespace,
    /// Why.
    pub(super) error: Error,
}

/// Everything under a state directory, sorted; a directory that does not exist yet holds nothing.
/// What has no name of ours is none of our business.
pub(super) fn list(state_dir: &Path, only: Option<&Namespace>) -> Result<(Vec<Listed>, Vec<Closed>), Error> {
    let (mut listed, mut closed) = (Vec::new(), Vec::new());
    let namespaces: Vec<Namespace> =
        names(state_dir).map_err(|error| classify::file(error, "list", state_dir))?;
    for namespace in namespaces {
        if only.is_some_and(|only| *only != namespace) {
            continue;
        }
        let dir = state_dir.join(namespace.as_str());
        match names::<ProxyName>(&dir) {
            Ok(proxies) => listed.extend(proxies.into_iter().filter_map(|name| {
                let place = Place::at(state_dir, namespace.clone(), name)?;
                let entry = look(&place);
                Some(Listed { place, entry })
            })),
            Err(error) => closed.push(Closed {
                namespace,
                error: classify::file(error, "list", &dir),
            }),
        }
    }
    Ok((listed, closed))
}

fn names<T: std::str::FromStr + Ord>(dir: &Path) -> io::Result<Vec<T>> {
    let entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry?;
        // A file of that name is as little ours as a directory of another name.
        if entry.file_type()?.is_dir() {
            found.extend(entry.file_name().to_str().and_then(|name| name.parse().ok()));
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// Who may read a file beside its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Readers {
    /// Nobody.
    Nobody,
    /// The group that Squid runs in, where it changes to another account.
    SquidsGroup,
}

/// Writes a file whole or not at all: a reader sees the old text or the new one.
pub(super) fn write_whole(
    path: &Path,
    text: &[u8],
    readers: Readers,
    account: Option<&Account>,
) -> Result<(), Error> {
    let failed = |error| classify::file(error, "write", path);
    let mut partial = path.as_os_str().to_owned();
    partial.push(".part");
    let partial = PathBuf::from(partial);
    // What an earlier write left was cut off, and we hold the lock.
    match std::fs::remove_file(&partial) {
        Err(error) if !is_absent(&error) => return Err(failed(error)),
        _ => {}
    }
    let written = || {
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&partial)?;
        if let (Readers::SquidsGroup, Some(account)) = (readers, account) {
            std::os::unix::fs::fchown(&file, None, Some(account.gid))?;
            file.set_permissions(Permissions::from_mode(0o640))?;
        }
        file.write_all(text)?;
        file.sync_all()?;
        std::fs::rename(&partial, path)?;
        sync_parent(path)
    };
    written().map_err(|error| {
        // Nothing half-written stays behind a full disk.
        let _ = std::fs::remove_file(&partial);
        failed(error)
    })
}

fn sync_parent(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(parent) => File::open(parent)?.sync_all(),
        None => Ok(()),
    }
}

/// Writes the record of a proxy that is there.
pub(super) fn write_record(place: &Place, record: &Record) -> Result<(), Error> {
    write_whole(&place.record(), &json(record)?, Readers::Nobody, None)
}

fn json(record: &Record) -> Result<Vec<u8>, Error> {
    record
        .to_json()
        .map_err(|error| Error::permanent("the record of a proxy cannot be written as JSON").caused_by(error))
}

/// Makes a proxy's directory, with its record in it from the first moment on.
pub(super) fn publish(place: &Place, record: &Record, account: Option<&Account>) -> Result<(), Error> {
    sweep(place)?;
    let new = place.unpublished();
    let failed = |error| classify::file(error, "make", &new);
    DirBuilder::new().mode(0o700).create(&new).map_err(failed)?;
    let made = || {
        if let Some(account) = account {
            std::os::unix::fs::chown(&new, None, Some(account.gid)).map_err(failed)?;
            std::fs::set_permissions(&new, Permissions::from_mode(0o750)).map_err(failed)?;
        }
        write_whole(&new.join(RECORD), &json(record)?, Readers::Nobody, None)?;
        let dir = place.dir();
        std::fs::rename(&new, &dir)
            .and_then(|()| sync_parent(&dir))
            .map_err(|error| classify::file(error, "make", &dir))
    };
    made().inspect_err(|_| {
        // The first failure is the one to tell; the next operation sweeps.
        let _ = remove(&new);
    })
}

/// Removes what an operation that was cut off left beside a proxy's directory.
pub(super) fn sweep(place: &Place) -> Result<(), Error> {
    remove(&place.unpublished())?;
    remove(&place.withdrawn())
}

fn remove(dir: &Path) -> Result<(), Error> {
    match std::fs::remove_dir_all(dir) {
        Ok(()) => Ok(()),
        Err(error) if is_absent(&error) => Ok(()),
        Err(error) => Err(classify::file(error, "remove", dir)),
    }
}

/// Removes a proxy's directory: what it holds first, its record last.
pub(super) fn withdraw(place: &Place) -> Result<(), Error> {
    let dir = place.dir();
    let failed = |error| classify::file(error, "remove", &dir);
    for entry in std::fs::read_dir(&dir).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if entry.file_name() == RECORD {
            continue;
        }
        if entry.file_type().map_err(failed)?.is_dir() {
            std::fs::remove_dir_all(entry.path()).map_err(failed)?;
        } else {
            std::fs::remove_file(entry.path()).map_err(failed)?;
        }
    }
    std::fs::rename(&dir, place.withdrawn())
        .and_then(|()| sync_parent(&dir))
        .map_err(failed)?;
    sweep(place)
}

#[cfg(test)]
mod tests;

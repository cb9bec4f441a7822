//! The directories of the proxies: read, written, published, withdrawn, locked.
//!
//! It must not know processes. It blocks, so it is called off the async threads. Invariants: a
//! directory under a proxy's name always has its record, whole, because it is published and withdrawn
//! by renaming; nothing secret can be read by others; a lock outlives the work done under it.

use std::fs::{DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use super::account::Account;
use super::classify;
use super::place::{Place, RECORD};
use super::record::{Record, Unreadable};
use crate::contract::{Error, Namespace, ProxyName, Secret};

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

fn is_absent(error: &io::Error) -> bool {
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

/// Held while an operation works on a proxy; released when dropped, with nothing left of it.
#[derive(Debug)]
pub(super) struct Lock {
    file: File,
    path: PathBuf,
    namespace_dir: PathBuf,
}

/// What became of an attempt to lock.
#[derive(Debug)]
pub(super) enum Attempt {
    /// It is ours.
    Locked(Lock),
    /// Somebody else works on this proxy.
    Busy,
    /// There is no namespace, so there is nothing to work on.
    Nowhere,
}

/// Tries to lock a proxy. `account` is given where the directories above may have to be made.
pub(super) fn try_lock(place: &Place, make: Option<Option<&Account>>) -> Result<Attempt, Error> {
    let path = place.lock();
    let failed = |error| classify::file(error, "lock", &path);
    loop {
        if let Some(account) = make {
            make_dirs(place, account)?;
        }
        let file = match OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(&path)
        {
            Ok(file) => file,
            Err(error) if is_absent(&error) => match make {
                // Whoever released the last lock of the namespace removed it just now.
                Some(_) if place.namespace_dir().parent().is_some_and(Path::is_dir) => continue,
                Some(_) => return Err(failed(error)),
                None => return Ok(Attempt::Nowhere),
            },
            Err(error) => return Err(failed(error)),
        };
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(Attempt::Busy),
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        // Whoever held it before removed the file: a lock on a removed file keeps nobody out.
        let held = file.metadata().map_err(failed)?;
        match std::fs::metadata(&path) {
            Ok(named) if (named.dev(), named.ino()) == (held.dev(), held.ino()) => {
                return Ok(Attempt::Locked(Lock {
                    file,
                    path,
                    namespace_dir: place.namespace_dir().to_owned(),
                }));
            }
            Ok(_) => {}
            Err(error) if is_absent(&error) => {}
            Err(error) => return Err(failed(error)),
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Removed while still locked, so that nobody can have locked the file that goes. Whatever
        // fails here leaves an empty file or directory that the next operation takes over.
        let _ = std::fs::remove_file(&self.path);
        let _ = std::fs::remove_dir(&self.namespace_dir);
        let _ = self.file.unlock();
    }
}

/// Makes the state directory and the namespace's: passable for Squid's account where there is one,
/// private otherwise.
fn make_dirs(place: &Place, account: Option<&Account>) -> Result<(), Error> {
    let mode = if account.is_some() { 0o755 } else { 0o700 };
    let namespace_dir = place.namespace_dir();
    if let Some(state_dir) = namespace_dir.parent().filter(|dir| !dir.exists()) {
        DirBuilder::new()
            .recursive(true)
            .mode(mode)
            .create(state_dir)
            .and_then(|()| std::fs::set_permissions(state_dir, Permissions::from_mode(mode)))
            .map_err(|error| classify::file(error, "make", state_dir))?;
    }
    let made = match DirBuilder::new().mode(mode).create(namespace_dir) {
        // A narrow umask would keep Squid's account out.
        Ok(()) => std::fs::set_permissions(namespace_dir, Permissions::from_mode(mode)),
        // What is there may be no directory, or a link to nothing: no lock could ever be made in it.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            match std::fs::symlink_metadata(namespace_dir) {
                Ok(found) if !found.is_dir() && !namespace_dir.is_dir() => {
                    return Err(Error::permanent(format!(
                        "{} is in the way: it is not a directory. Move it away, or choose another state_dir.",
                        namespace_dir.display()
                    )));
                }
                Ok(_) => Ok(()),
                Err(error) => Err(error),
            }
        }
        Err(error) => Err(error),
    };
    match made {
        // Whoever let go of the namespace's last proxy removed it meanwhile: the caller tries again.
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(classify::file(error, "make", namespace_dir))
        }
        _ => Ok(()),
    }
}

/// Who may read a file beside its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Readers {
    Nobody,
    SquidsGroup,
}

/// Writes a file whole or not at all: a reader sees the old text or the new one.
fn write_whole(path: &Path, text: &[u8], readers: Readers, account: Option<&Account>) -> Result<(), Error> {
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

/// What Squid reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Files {
    /// `squid.conf`.
    pub(super) conf: String,
    /// The password file.
    pub(super) passwords: Passwords,
}

/// What to do about the password file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Passwords {
    /// The proxy has none.
    None,
    /// Write this one.
    Write(Secret),
    /// Only the file itself still knows it.
    Keep,
}

/// Writes what Squid reads and makes what it writes.
pub(super) fn configure(place: &Place, files: &Files, account: Option<&Account>) -> Result<(), Error> {
    let passwords = place.passwords();
    match &files.passwords {
        Passwords::None => match std::fs::remove_file(&passwords) {
            Err(error) if !is_absent(&error) => {
                return Err(classify::file(error, "remove", &passwords));
            }
            _ => {}
        },
        Passwords::Write(text) => {
            write_whole(
                &passwords,
                text.expose().as_bytes(),
                Readers::SquidsGroup,
                account,
            )?;
        }
        Passwords::Keep => {
            if !passwords.exists() {
                return Err(Error::permanent(format!(
                    "the password file {} is gone, and only its hash was kept: replace the proxy \
                     (`terraform apply -replace=…`)",
                    passwords.display()
                )));
            }
        }
    }
    write_whole(
        &place.conf(),
        files.conf.as_bytes(),
        Readers::SquidsGroup,
        account,
    )?;
    let log = place.cache_log();
    OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o640)
        .open(&log)
        .and_then(|file| match account {
            Some(account) => std::os::unix::fs::fchown(&file, Some(account.uid), Some(account.gid)),
            None => Ok(()),
        })
        .map_err(|error| classify::file(error, "make", &log))
}

/// How much Squid wrote about itself so far.
pub(super) fn log_length(place: &Place) -> u64 {
    std::fs::metadata(place.cache_log()).map_or(0, |log| log.len())
}

/// The most of Squid's own words that an error repeats.
const LONGEST_TAIL: u64 = 8192;

/// What Squid wrote since then; empty where it cannot be read, since it only explains a failure.
pub(super) fn log_since(place: &Place, length: u64) -> String {
    let read = || {
        let mut file = File::open(place.cache_log())?;
        let end = file.metadata()?.len();
        file.seek(SeekFrom::Start(
            length.max(end.saturating_sub(LONGEST_TAIL)).min(end),
        ))?;
        let mut text = Vec::new();
        file.take(LONGEST_TAIL).read_to_end(&mut text)?;
        Ok::<_, io::Error>(String::from_utf8_lossy(&text).into_owned())
    };
    read().unwrap_or_default()
}

/// Where Squid's shared memory is.
const SHARED_MEMORY: &str = "/dev/shm";

/// Removes the shared memory that a Squid which was killed left; one that ended in order left none.
pub(super) fn remove_shared_memory(service: &str) -> Result<(), Error> {
    let dir = Path::new(SHARED_MEMORY);
    let Ok(entries) = std::fs::read_dir(dir) else {
        return Ok(());
    };
    let prefix = format!("{service}-");
    for entry in entries.flatten() {
        if entry.file_name().to_string_lossy().starts_with(&prefix) {
            match std::fs::remove_file(entry.path()) {
                Err(error) if !is_absent(&error) => {
                    return Err(classify::file(error, "remove", &entry.path()));
                }
                _ => {}
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;

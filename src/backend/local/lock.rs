//! The lock that an operation holds on a proxy, and the directories it lies in.
//!
//! It must not know what is done under it. It blocks, so it is called off the async threads.
//! Invariant: whoever holds a lock holds the file that has the lock's name, and nothing of it is left
//! once it is let go.

use std::fs::{DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use super::account::Account;
use super::classify;
use super::place::Place;
use super::store::is_absent;
use crate::contract::Error;

/// The nearest directory on the way to `dir`, itself included, that is there: where what is missing
/// would be made.
///
/// # Errors
/// Where something on the way is no directory, or cannot be looked at.
pub(super) fn standing(dir: &Path) -> Result<&Path, Error> {
    for step in dir.ancestors() {
        match std::fs::symlink_metadata(step) {
            Ok(_) if step.is_dir() => return Ok(step),
            Ok(found) => {
                let what = if found.is_symlink() {
                    "a link that leads to no directory"
                } else {
                    "not a directory"
                };
                return Err(Error::permanent(format!(
                    "{} is {what}: move it away, or set state_dir to another directory",
                    step.display()
                )));
            }
            Err(error) if is_absent(&error) => {}
            Err(error) => return Err(classify::file(error, "look at", step)),
        }
    }
    Ok(dir)
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
    if let Some(state_dir) = namespace_dir.parent().filter(|dir| !dir.is_dir()) {
        standing(state_dir)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_in_the_way_of_the_state_directory_is_named() {
        let dir = tempfile::tempdir().expect("a directory");
        assert_eq!(
            standing(&dir.path().join("not/yet")).expect("can be made"),
            dir.path()
        );
        let (file, link) = (dir.path().join("file"), dir.path().join("link"));
        std::fs::write(&file, "").expect("written");
        std::os::unix::fs::symlink(dir.path().join("nowhere"), &link).expect("linked");
        for (state_dir, barrier, what) in [
            (file.clone(), &file, "not a directory"),
            (file.join("below"), &file, "not a directory"),
            (link.clone(), &link, "a link"),
        ] {
            let error = standing(&state_dir).expect_err("nothing can be there");
            let text = error.to_string();
            assert!(
                text.contains(what)
                    && text.contains(&barrier.display().to_string())
                    && text.contains("state_dir"),
                "{text}"
            );
            let place = Place::parse(&state_dir, &"default/a".parse().expect("an id")).expect("a place");
            let made = try_lock(&place, Some(None)).expect_err("nor can it be made");
            assert_eq!(made.to_string(), text);
        }
    }
}

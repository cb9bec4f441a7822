//! What a proxy's Squid reads and what it writes, beside the record that says whose it is.
//!
//! It must not know processes or marks. It blocks, so it is called off the async threads. Invariant:
//! a password file can be read by its owner and Squid's group alone.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use super::account::Account;
use super::classify;
use super::place::Place;
use super::store::{Readers, is_absent, write_whole};
use crate::contract::{Error, Secret};

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
pub(super) const LONGEST_TAIL: u64 = 8192;

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

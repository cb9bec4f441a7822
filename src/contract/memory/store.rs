//! Where the reference backend keeps its world: in memory, or in a file that several processes share.
//!
//! It must not know what is in the world. Invariants: a change is one transaction, whole or not at
//! all, also between processes; a file is parsed once for each change of it; no lock is held across
//! an await.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, BufWriter, Write as _};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use super::world::World;
use crate::contract::error::{Error, Operation};

/// Where a world is kept.
#[derive(Debug)]
pub(super) enum Store {
    /// Here.
    Memory {
        /// The world.
        world: Mutex<World>,
        /// One line for each call.
        calls: Mutex<Vec<String>>,
    },
    /// In a file, with `.lock` beside it for writers and `.calls`, one line for each call.
    File(WorldFile),
}

/// A world kept in a file. It is replaced as a whole by a rename, so readers need no lock.
#[derive(Debug)]
pub(super) struct WorldFile {
    path: PathBuf,
    cache: Mutex<Option<Cached>>,
}

/// The world as last parsed or written.
#[derive(Debug)]
struct Cached {
    stamp: Stamp,
    world: Arc<World>,
    /// Held open so that no later file gets the same number.
    _file: File,
}

/// What tells one version of a file from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    modified: Option<SystemTime>,
    length: u64,
    /// A rename makes a new file, so two writes within one tick of the clock differ at least here.
    file: u64,
}

impl Stamp {
    fn of(metadata: &Metadata) -> Self {
        #[cfg(unix)]
        let file = std::os::unix::fs::MetadataExt::ino(metadata);
        #[cfg(not(unix))]
        let file = 0;
        Self {
            modified: metadata.modified().ok(),
            length: metadata.len(),
            file,
        }
    }
}

/// Takes a lock whose holder may have panicked: a transaction leaves the world whole either way.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Store {
    pub(super) fn memory(world: World) -> Self {
        Self::Memory {
            world: Mutex::new(world),
            calls: Mutex::default(),
        }
    }

    pub(super) fn file(path: PathBuf) -> Self {
        Self::File(WorldFile {
            path,
            cache: Mutex::default(),
        })
    }

    /// Looks at the world as it is now.
    pub(super) fn read<T>(&self, look: impl FnOnce(&World) -> T) -> Result<T, Error> {
        match self {
            Self::Memory { world, .. } => Ok(look(&lock(world))),
            Self::File(file) => Ok(look(&*file.load().map_err(|error| file.failed("read", error))?)),
        }
    }

    /// Changes the world. A change that fails must not have touched it.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut World) -> Result<T, Error>) -> Result<T, Error> {
        match self {
            Self::Memory { world, .. } => change(&mut lock(world)),
            Self::File(file) => file.change(change),
        }
    }

    /// Counts a call.
    pub(super) fn count(&self, operation: Operation, subject: &str) -> Result<(), Error> {
        let line = format!("{operation} {subject}");
        match self {
            Self::Memory { calls, .. } => {
                lock(calls).push(line);
                Ok(())
            }
            Self::File(file) => OpenOptions::new()
                .create(true)
                .append(true)
                .open(file.beside(".calls"))
                // One write of a short line: appends of several processes do not mix.
                .and_then(|mut calls| calls.write_all(format!("{line}\n").as_bytes()))
                .map_err(|error| file.failed("write the calls of", error)),
        }
    }

    /// Every call counted so far, as `operation subject`.
    pub(super) fn calls(&self) -> Result<Vec<String>, Error> {
        match self {
            Self::Memory { calls, .. } => Ok(lock(calls).clone()),
            Self::File(file) => match std::fs::read_to_string(file.beside(".calls")) {
                Ok(text) => Ok(text.lines().map(str::to_owned).collect()),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
                Err(error) => Err(file.failed("read the calls of", error)),
            },
        }
    }
}

impl WorldFile {
    fn beside(&self, suffix: &str) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(suffix);
        PathBuf::from(name)
    }

    fn failed(&self, what: &str, error: io::Error) -> Error {
        Error::permanent(format!("cannot {what} the world file {}", self.path.display())).caused_by(error)
    }

    fn load(&self) -> io::Result<Arc<World>> {
        let mut cache = lock(&self.cache);
        let mut file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Arc::default()),
            Err(error) => return Err(error),
        };
        let stamp = Stamp::of(&file.metadata()?);
        if let Some(cached) = &*cache
            && cached.stamp == stamp
        {
            return Ok(Arc::clone(&cached.world));
        }
        let text = io::read_to_string(&mut file)?;
        let world: Arc<World> = Arc::new(serde_json::from_str(&text)?);
        *cache = Some(Cached {
            stamp,
            world: Arc::clone(&world),
            _file: file,
        });
        Ok(world)
    }

    fn change<T>(&self, change: impl FnOnce(&mut World) -> Result<T, Error>) -> Result<T, Error> {
        let _held = self.hold().map_err(|error| self.failed("lock", error))?;
        let mut world = self.load().map_err(|error| self.failed("read", error))?;
        // Without the cache's own reference nothing is copied; a failed change is read again.
        lock(&self.cache).take();
        let output = change(Arc::make_mut(&mut world))?;
        let (stamp, file) = self
            .replace(&world)
            .map_err(|error| self.failed("write", error))?;
        *lock(&self.cache) = Some(Cached {
            stamp,
            world,
            _file: file,
        });
        Ok(output)
    }

    /// The lock of the writers, held until the file is closed.
    fn hold(&self) -> io::Result<File> {
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(self.beside(".lock"))?;
        file.lock()?;
        Ok(file)
    }

    fn replace(&self, world: &World) -> io::Result<(Stamp, File)> {
        let fresh = self.beside(".new");
        let mut writer = BufWriter::new(File::create(&fresh)?);
        serde_json::to_writer(&mut writer, world)?;
        let file = writer.into_inner().map_err(io::IntoInnerError::into_error)?;
        let stamp = Stamp::of(&file.metadata()?);
        std::fs::rename(&fresh, &self.path)?;
        Ok((stamp, file))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settle(store: &Store) -> u32 {
        store.read(|world| world.settle).expect("readable")
    }

    fn increment(store: &Store) {
        store
            .change(|world| {
                world.settle += 1;
                Ok(())
            })
            .expect("writable");
    }

    #[test]
    fn a_file_that_does_not_exist_is_an_empty_world() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Store::file(folder.path().join("world.json"));
        assert_eq!(store.read(Clone::clone).expect("readable"), World::default());
        assert!(store.calls().expect("readable").is_empty());
    }

    #[test]
    fn changes_of_several_stores_on_one_file_are_never_lost() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("world.json");
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let store = Store::file(path.clone());
                    for _ in 0..25 {
                        increment(&store);
                    }
                });
            }
        });
        assert_eq!(settle(&Store::file(path)), 100);
    }

    #[test]
    fn a_store_sees_what_another_wrote_and_what_a_test_wrote() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("world.json");
        let (one, other) = (Store::file(path.clone()), Store::file(path.clone()));
        for expected in 1..20 {
            increment(&one);
            assert_eq!(settle(&other), expected);
        }
        std::fs::write(&path, r#"{ "settle": 77 }"#).expect("writable");
        assert_eq!((settle(&one), settle(&other)), (77, 77));
    }

    #[test]
    fn a_failed_change_leaves_the_file_as_it_was() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Store::file(folder.path().join("world.json"));
        increment(&store);
        let failed = store.change(|world| {
            world.settle = 9;
            Err::<(), _>(Error::permanent("no"))
        });
        assert!(failed.is_err());
        assert_eq!(settle(&store), 1);
    }

    #[test]
    fn a_file_that_is_no_world_is_an_error_that_names_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("world.json");
        std::fs::write(&path, r#"{ "zoens": {} }"#).expect("writable");
        let error = Store::file(path).read(|_| ()).expect_err("a misspelt field");
        assert!(error.to_string().contains("world.json"), "{error}");
    }

    #[test]
    fn calls_are_counted_by_every_store_on_the_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("world.json");
        for subject in ["a", "b"] {
            let store = Store::file(path.clone());
            store.count(Operation::Get, subject).expect("writable");
        }
        let calls = Store::file(path).calls().expect("readable");
        assert_eq!(calls, ["get a", "get b"]);
    }
}

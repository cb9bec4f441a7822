//! This machine as a place for proxies: what every operation of the backend stands on.
//!
//! It must not decide what an operation does. Invariant: whoever changes a proxy holds it, and work
//! begun while holding it ends before it is let go, cancelled or not.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::account::Account;
use super::config::LocalConfig;
use super::lock::{self, Attempt, Lock};
use super::place::{self, Place};
use super::record::{Liveness, Record};
use super::squid::Installed;
use super::store::{self, Entry};
use super::{classify, process, procfs, seam};
use crate::contract::{BackendName, Error, Instance, InstanceId, NativeId, Target, refusal};
use crate::squid::{AccessLog, ConfPath, Descriptors, Loopback, PasswordFile, Policy, Site, render};
use crate::transport::call::{self, Interval, Limits, Look, Unfinished};

/// How long an operation waits for another one on the same proxy; longer than any takes.
const LOCK_BUDGET: Duration = Duration::from_secs(150);
/// How often it looks.
const LOCK_LOOKS: Interval = Interval {
    first: Duration::from_millis(10),
    longest: Duration::from_millis(250),
};
/// How long open connections may go on when a proxy is stopped.
const SHUTDOWN_LIFETIME: Duration = Duration::from_secs(1);

/// This machine.
#[derive(Clone, Debug)]
pub(super) struct Machine {
    name: BackendName,
    config: Arc<LocalConfig>,
}

impl Machine {
    pub(super) fn new(name: BackendName, config: LocalConfig) -> Self {
        Self {
            name,
            config: Arc::new(config),
        }
    }

    pub(super) fn config(&self) -> &LocalConfig {
        &self.config
    }

    pub(super) fn state_dir(&self) -> &Path {
        self.config.state_dir().as_path()
    }

    /// The id as a user writes it.
    pub(super) fn full(&self, id: &NativeId) -> InstanceId {
        InstanceId {
            backend: self.name.clone(),
            native: id.clone(),
        }
    }

    /// Takes an id apart.
    pub(super) fn place(&self, id: &NativeId) -> Result<Place, Error> {
        Place::parse(self.state_dir(), id).ok_or_else(|| refusal::malformed(id, Place::GRAMMAR))
    }

    /// What stands behind the backend's name.
    pub(super) fn target(&self) -> Target {
        place::target(&procfs::machine_id(), &real(self.state_dir()))
    }

    /// The instance that a record is.
    pub(super) fn instance(
        &self,
        place: &Place,
        record: &Record,
        liveness: Liveness,
    ) -> Result<Instance, Error> {
        Ok(record.instance(place.id().clone(), self.target(), liveness))
    }

    /// Holds a proxy that may have to be made.
    pub(super) async fn hold(&self, place: &Place, installed: Option<&Installed>) -> Result<Held, Error> {
        let account = installed.and_then(|installed| installed.account.clone());
        self.wait_for(place, Some(account)).await?.ok_or_else(|| {
            Error::transient(format!(
                "the directory {} went away",
                place.namespace_dir().display()
            ))
        })
    }

    /// Holds a proxy that is there; `None` where it cannot be.
    pub(super) async fn hold_existing(&self, place: &Place) -> Result<Option<Held>, Error> {
        self.wait_for(place, None).await
    }

    async fn wait_for(&self, place: &Place, make: Option<Option<Account>>) -> Result<Option<Held>, Error> {
        let limits = Limits::after(LOCK_BUDGET);
        let looks = call::poll(&limits, LOCK_LOOKS, || {
            let (place, make) = (place.clone(), make.clone());
            seam::disk("lock", move || {
                Ok(match lock::try_lock(&place, make.as_ref().map(Option::as_ref))? {
                    Attempt::Locked(lock) => Look::Done(Some(Held {
                        place,
                        lock: Arc::new(lock),
                    })),
                    Attempt::Nowhere => Look::Done(None),
                    Attempt::Busy => Look::Pending("it is locked".to_owned()),
                })
            })
        });
        match looks.await {
            Ok(held) => Ok(held),
            Err(Unfinished::Failed { error, .. }) => Err(error),
            Err(Unfinished::Interrupted { .. }) => Err(Error::transient(format!(
                "another operation has been working on \"{}\" for {}: {} is locked",
                self.full(place.id()),
                call::Seconds(LOCK_BUDGET),
                place.lock().display()
            ))),
        }
    }

    /// The text of a proxy's `squid.conf`.
    pub(super) fn conf(
        &self,
        place: &Place,
        record: &Record,
        policy: &Policy,
        installed: &Installed,
    ) -> Result<String, Error> {
        let path = |path: PathBuf| {
            ConfPath::try_from(path.as_path()).map_err(|error| Error::permanent(error.to_string()))
        };
        let helper = match (&installed.helper, policy.username()) {
            (Some(helper), _) => helper.clone(),
            // It is not written down where there is no user.
            (None, None) => path(PathBuf::from(crate::squid::release::HELPER_DIRS[0]))?,
            (None, Some(_)) => {
                let places: Vec<_> = installed.release.helper_candidates().collect();
                return Err(Error::permanent(format!(
                    "Squid's helper {} is not installed, and access.username needs it; it was looked for as {}",
                    crate::squid::release::PASSWORD_HELPER,
                    places.join(", ")
                )));
            }
        };
        let site = Site {
            listen: record.listen.clone(),
            // Clients on this machine reach its loopback anyway; others must not through us.
            loopback: Loopback::ForLoopbackClients,
            pid_file: None,
            cache_log: path(place.cache_log())?,
            // Nobody would rotate it.
            access_log: AccessLog::None,
            work_dir: path(place.dir())?,
            passwords: PasswordFile {
                helper,
                file: path(place.passwords())?,
            },
            descriptors: Descriptors::DEFAULT,
            shutdown_lifetime: SHUTDOWN_LIFETIME,
            visible_hostname: "egress-proxy"
                .parse()
                .map_err(|error: crate::squid::InvalidValue| Error::permanent(error.to_string()))?,
        };
        Ok(render(policy, &site))
    }
}

/// A path without symbolic links, as far as it exists: one directory is one target however it is
/// written.
fn real(dir: &Path) -> PathBuf {
    for ancestor in dir.ancestors() {
        if let (Ok(known), Ok(rest)) = (std::fs::canonicalize(ancestor), dir.strip_prefix(ancestor)) {
            // By components: joined with nothing, a path ends with a slash, and the directory would
            // be another target once it is gone.
            return known.join(rest).components().collect();
        }
    }
    dir.to_owned()
}

/// A proxy that nobody else works on.
#[derive(Debug)]
pub(super) struct Held {
    place: Place,
    lock: Arc<Lock>,
}

impl Held {
    pub(super) fn place(&self) -> &Place {
        &self.place
    }

    /// Works on the proxy's files. Should this be dropped, the work goes on, and holds the proxy
    /// until it is done.
    pub(super) async fn disk<T: Send + 'static>(
        &self,
        call: &'static str,
        work: impl FnOnce(&Place) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let (place, lock) = (self.place.clone(), Arc::clone(&self.lock));
        seam::disk(call, move || {
            let done = work(&place);
            drop(lock);
            done
        })
        .await
    }

    pub(super) async fn look(&self) -> Result<Entry, Error> {
        self.disk("read record", store::look).await
    }

    pub(super) async fn write(&self, record: &Record) -> Result<(), Error> {
        let record = record.clone();
        self.disk("write record", move |place| store::write_record(place, &record))
            .await
    }

    pub(super) async fn liveness(&self, record: &Record) -> Result<Liveness, Error> {
        let process = record.process.clone();
        self.disk("look at the process", move |place| {
            liveness(place, process.as_ref())
        })
        .await
    }
}

/// What became of a proxy's process.
pub(super) fn liveness(place: &Place, recorded: Option<&super::record::Identity>) -> Result<Liveness, Error> {
    process::liveness(recorded, &place.conf())
        .map_err(|error| classify::process(error, "read the process table"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_directory_is_one_target_however_it_is_written() {
        let dir = tempfile::tempdir().expect("a directory");
        let real_dir = dir.path().join("real");
        std::fs::create_dir(&real_dir).expect("made");
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&real_dir, &link).expect("linked");
        let known = std::fs::canonicalize(&real_dir).expect("there");
        assert_eq!(real(&link), known);
        assert_eq!(real(&link.join("not/yet")), known.join("not/yet"));
        // Compared as text, as targets are: a slash at the end is lost on paths alone.
        let there = real(&real_dir).into_os_string();
        std::fs::remove_dir(&real_dir).expect("removed");
        assert_eq!(real(&known).into_os_string(), there);
        assert_eq!(real(Path::new("/")), Path::new("/"));
    }
}

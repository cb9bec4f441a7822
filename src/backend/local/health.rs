//! Check: whether a proxy could be made here.
//!
//! It must not write: a read-only directory is found out by asking, not by trying. Invariant: it says
//! how far it got.

use std::collections::BTreeMap;
use std::path::Path;

use rustix::fs::{Access, AtFlags, CWD, accessat};

use super::machine::Machine;
use super::{procfs, seam, squid, store};
use crate::contract::{Error, HealthReason, TargetHealth};

impl Machine {
    pub(super) async fn health(&self) -> Vec<TargetHealth> {
        let begun = tokio::time::Instant::now();
        let mut details = BTreeMap::new();
        let verdict = self.examine(&mut details).await;
        let (reason, message) = match verdict {
            Ok(()) => (
                HealthReason::Healthy,
                "Squid is installed and the state directory can be written".to_owned(),
            ),
            Err((reason, error)) => (reason, error.to_string()),
        };
        vec![TargetHealth {
            target: procfs::host_name().unwrap_or_else(|| "this machine".to_owned()),
            reason,
            message,
            latency: begun.elapsed(),
            details,
        }]
    }

    async fn examine(&self, details: &mut BTreeMap<String, String>) -> Result<(), (HealthReason, Error)> {
        let mut note = |key: &str, value: String| {
            details.insert(key.to_owned(), value);
        };
        note("state_dir", self.state_dir().display().to_string());
        let installed = squid::installed(self.config().squid().map(Into::into))
            .await
            .map_err(|error| (HealthReason::Unreachable, error))?;
        note("squid", installed.program.display().to_string());
        if let Some(version) = &installed.release.version {
            note("squid_version", version.clone());
        }
        if let Some(account) = &installed.account {
            note("squid_account", account.name.clone());
        }
        note(
            "password_helper",
            installed
                .helper
                .as_ref()
                .map_or("none", |helper| helper.as_str())
                .to_owned(),
        );
        let state_dir = self.state_dir().to_owned();
        let account = installed.account;
        let proxies = seam::disk("look at the state directory", move || {
            writable(&state_dir)?;
            if let Some(account) = account
                && state_dir.exists()
                && let Ok(Some(barrier)) = account.barred_at(&state_dir)
            {
                return Err(Error::permanent(format!(
                    "Squid's account \"{}\" cannot pass {}",
                    account.name,
                    barrier.display()
                )));
            }
            Ok(store::list(&state_dir, None)?.0.len())
        })
        .await
        .map_err(|error| (HealthReason::Forbidden, error))?;
        note("proxies", proxies.to_string());
        Ok(())
    }
}

/// Whether the state directory, or the directory in which it would be made, can be written.
fn writable(state_dir: &Path) -> Result<(), Error> {
    let Some(there) = state_dir.ancestors().find(|dir| dir.exists()) else {
        return Ok(());
    };
    accessat(CWD, there, Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS)
        .map_err(|error| super::classify::file(error.into(), "write to", there))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_is_not_there_yet_is_judged_by_where_it_would_be() {
        let dir = tempfile::tempdir().expect("a directory");
        writable(&dir.path().join("not/yet")).expect("can be made");
        let error = writable(Path::new("/proc/self/egress")).expect_err("nothing can be made there");
        assert!(error.to_string().contains("/proc"), "{error}");
    }
}

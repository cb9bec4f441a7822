//! Check: whether a proxy could be made here.
//!
//! It must not write: a read-only directory is found out by asking, not by trying. Invariant: it says
//! how far it got.

use std::collections::BTreeMap;
use std::path::Path;

use rustix::fs::{Access, AtFlags, CWD, FsWord, PROC_SUPER_MAGIC, accessat, statfs};

use super::account::Account;
use super::lock::standing;
use super::machine::Machine;
use super::{classify, procfs, seam, squid, store};
use crate::contract::{Error, HealthReason, TargetHealth};

/// The file system under `/sys` (linux/magic.h).
const SYSFS_MAGIC: FsWord = 0x6265_6572;

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
            usable(&state_dir, account.as_ref())?;
            Ok(store::list(&state_dir, None)?.0.len())
        })
        .await
        .map_err(|error| (HealthReason::Forbidden, error))?;
        note("proxies", proxies.to_string());
        Ok(())
    }
}

/// Whether the state directory can be used, or made where it is not there yet.
fn usable(state_dir: &Path, account: Option<&Account>) -> Result<(), Error> {
    let there = standing(state_dir)?;
    accessat(CWD, there, Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS)
        .map_err(|error| classify::file(error.into(), "write to", there))?;
    let kind = statfs(there).map_err(|error| classify::file(error.into(), "look at", there))?;
    if [PROC_SUPER_MAGIC, SYSFS_MAGIC].contains(&kind.f_type) {
        return Err(Error::permanent(format!(
            "the kernel itself keeps {}, and nothing can be made there: set state_dir to another directory",
            there.display()
        )));
    }
    // What is made below it can be passed.
    match account {
        Some(account) => account.passes_to(there),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_directory_that_is_not_there_yet_is_judged_by_where_it_would_be() {
        let dir = tempfile::tempdir().expect("a directory");
        usable(&dir.path().join("not/yet"), None).expect("can be made");
        for kernels in ["/proc/self/egress", "/proc/egress", "/sys/egress"] {
            let error = usable(Path::new(kernels), None).expect_err("nothing can be made there");
            assert!(error.to_string().contains(&kernels[..4]), "{error}");
        }
        let file = dir.path().join("file");
        std::fs::write(&file, "").expect("written");
        for state_dir in [file.clone(), file.join("below")] {
            let error = usable(&state_dir, None).expect_err("a file is in the way");
            let text = error.to_string();
            assert!(
                text.contains("not a directory") && text.contains(&file.display().to_string()),
                "{text}"
            );
        }
    }

    #[test]
    fn squids_account_must_pass_even_to_what_is_not_there_yet() {
        let dir = tempfile::tempdir().expect("a directory");
        let closed = dir.path().join("closed");
        std::fs::create_dir(&closed).expect("made");
        std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(0o700)).expect("set");
        let stranger = Account {
            name: "stranger".into(),
            uid: 64_999,
            gid: 64_999,
        };
        for state_dir in [closed.clone(), closed.join("not/yet")] {
            let error = usable(&state_dir, Some(&stranger)).expect_err("it cannot pass");
            let text = error.to_string();
            assert!(
                text.contains("stranger")
                    && text.contains(&closed.display().to_string())
                    && text.contains("state_dir"),
                "{text}"
            );
        }
        usable(Path::new("/"), Some(&stranger))
            .or_else(|error| {
                // Only root may write there; everybody may pass.
                if error.to_string().contains("stranger") {
                    Err(error)
                } else {
                    Ok(())
                }
            })
            .expect("passable");
    }
}

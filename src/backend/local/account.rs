//! The account that Squid changes to when root starts it, and whether it can reach a directory.
//!
//! It must not change anything. Invariant: without root there is no account to speak of: Squid stays
//! who we are.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::classify;
use crate::contract::Error;

/// The account that Squid uses where it was built without saying which.
pub(super) const FALLBACK: &str = "nobody";

/// Squid's own account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Account {
    /// Its name.
    pub(super) name: String,
    /// Its number.
    pub(super) uid: u32,
    /// Its group.
    pub(super) gid: u32,
}

/// Whether this process may act for others.
pub(super) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

impl Account {
    /// The account of that name: packages create Squid's in the local file, wherever people come from.
    pub(super) fn named(name: &str) -> io::Result<Option<Self>> {
        let table = std::fs::read_to_string("/etc/passwd")?;
        Ok(table
            .lines()
            .filter_map(Self::parse)
            .find(|account| account.name == name))
    }

    fn parse(line: &str) -> Option<Self> {
        let mut fields = line.split(':');
        let name = fields.next()?.to_owned();
        let uid = fields.nth(1)?.parse().ok()?;
        let gid = fields.next()?.parse().ok()?;
        Some(Self { name, uid, gid })
    }

    /// Makes sure that this account can get to a directory.
    ///
    /// # Errors
    /// Where it cannot: at which directory.
    pub(super) fn passes_to(&self, dir: &Path) -> Result<(), Error> {
        match self.barred_at(dir) {
            Ok(None) => Ok(()),
            Ok(Some(barrier)) => Err(Error::permanent(format!(
                "Squid runs as the account \"{}\", which cannot pass the directory {}: set state_dir of the backend \
                 to a directory that it can reach, such as /var/lib/egress-proxy",
                self.name,
                barrier.display()
            ))),
            Err(error) => Err(classify::file(error, "look at", dir)),
        }
    }

    /// The first directory on the way to `dir`, itself included, that this account cannot pass.
    fn barred_at(&self, dir: &Path) -> io::Result<Option<PathBuf>> {
        let mut way: Vec<_> = dir.ancestors().collect();
        way.reverse();
        for step in way {
            if !self.may_pass(&std::fs::metadata(step)?) {
                return Ok(Some(step.to_owned()));
            }
        }
        Ok(None)
    }

    fn may_pass(&self, directory: &Metadata) -> bool {
        passes(self, directory.uid(), directory.gid(), directory.mode())
    }
}

fn passes(account: &Account, uid: u32, gid: u32, mode: u32) -> bool {
    let bit = if account.uid == 0 {
        0o111
    } else if account.uid == uid {
        0o100
    } else if account.gid == gid {
        0o010
    } else {
        0o001
    };
    mode & bit != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_are_read() {
        assert_eq!(
            Account::parse("proxy:x:13:14:proxy:/bin:/usr/sbin/nologin"),
            Some(Account {
                name: "proxy".into(),
                uid: 13,
                gid: 14
            })
        );
        for bad in ["", "proxy", "proxy:x:a:13", "+::::::"] {
            assert_eq!(Account::parse(bad), None, "{bad}");
        }
        assert_eq!(
            Account::named("root")
                .expect("a table")
                .map(|account| account.uid),
            Some(0)
        );
        assert_eq!(Account::named("no such account").expect("a table"), None);
    }

    #[test]
    fn the_most_specific_permission_counts() {
        let account = |uid, gid| Account {
            name: "a".into(),
            uid,
            gid,
        };
        for (account, owner, group, mode, passed) in [
            (account(13, 13), 0, 0, 0o755, true),
            (account(13, 13), 0, 0, 0o750, false),
            (account(13, 13), 0, 13, 0o750, true),
            (account(13, 13), 0, 13, 0o701, false),
            (account(13, 13), 13, 0, 0o700, true),
            (account(13, 13), 13, 13, 0o071, false),
            (account(0, 0), 5, 5, 0o100, true),
        ] {
            assert_eq!(
                passes(&account, owner, group, mode),
                passed,
                "{owner} {group} {mode:o}"
            );
        }
    }
}

//! Where a Squid runs: what a backend, not the user, decides about its configuration.
//!
//! It must not know which backend that is. Invariant: a value that reaches `squid.conf` has a type of
//! its own here whose grammar excludes everything with a meaning in that file.

use std::fmt;
use std::net::IpAddr;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

/// A value that cannot be written into `squid.conf`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} \"{value}\" {rule}")]
pub struct InvalidValue {
    what: &'static str,
    value: String,
    rule: &'static str,
}

/// A path that `squid.conf` can hold: absolute, of letters, digits and `/ . _ + - @ ~`. Squid splits
/// its directives at blanks and cannot quote a path in most of them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ConfPath(String);

impl ConfPath {
    /// The path as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The path.
    #[must_use]
    pub fn as_path(&self) -> &Path {
        Path::new(&self.0)
    }
}

impl TryFrom<&Path> for ConfPath {
    type Error = InvalidValue;

    fn try_from(path: &Path) -> Result<Self, InvalidValue> {
        let sound = |text: &&str| {
            text.starts_with('/')
                && text
                    .chars()
                    .all(|c| c.is_alphanumeric() || matches!(c, '/' | '.' | '_' | '+' | '-' | '@' | '~'))
        };
        match path.to_str().filter(sound) {
            Some(text) => Ok(Self(text.to_owned())),
            None => Err(InvalidValue {
                what: "path",
                value: path.display().to_string(),
                rule: "must be absolute and consist of letters, digits and / . _ + - @ ~, because Squid's configuration cannot hold others",
            }),
        }
    }
}

impl FromStr for ConfPath {
    type Err = InvalidValue;

    fn from_str(path: &str) -> Result<Self, InvalidValue> {
        Path::new(path).try_into()
    }
}

impl fmt::Display for ConfPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The name a Squid gives itself in its error pages: labels of letters, digits and dashes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HostName(String);

impl FromStr for HostName {
    type Err = InvalidValue;

    fn from_str(value: &str) -> Result<Self, InvalidValue> {
        let sound = value.len() <= 253
            && value.split('.').all(|label| {
                (1..=63).contains(&label.len())
                    && label
                        .bytes()
                        .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
            });
        if sound {
            Ok(Self(value.to_owned()))
        } else {
            Err(InvalidValue {
                what: "host name",
                value: value.to_owned(),
                rule: "must be labels of letters, digits and dashes joined by dots",
            })
        }
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// How many files and connections a Squid may have open. It allocates a table of that size, so that
/// a container's limit of a milliard would cost gigabytes: never more than 65,536.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Descriptors(u32);

impl Descriptors {
    /// Enough for some two thousand clients at once.
    pub const DEFAULT: Self = Self(4096);
}

impl TryFrom<u32> for Descriptors {
    type Error = InvalidValue;

    fn try_from(number: u32) -> Result<Self, InvalidValue> {
        if (256..=65_536).contains(&number) {
            Ok(Self(number))
        } else {
            Err(InvalidValue {
                what: "number of file descriptors",
                value: number.to_string(),
                rule: "must be 256 to 65536",
            })
        }
    }
}

impl fmt::Display for Descriptors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Who may reach the loopback addresses of the place where Squid runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Loopback {
    /// Nobody: whatever listens there trusts that only its own host reaches it.
    Denied,
    /// Clients that come from loopback themselves: they are on the same host and reach it anyway.
    ForLoopbackClients,
}

/// Where requests are logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccessLog {
    /// Nowhere.
    None,
    /// Appended to this file.
    File(ConfPath),
}

/// Where the password file is, and what verifies passwords against it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PasswordFile {
    /// Squid's `basic_ncsa_auth`.
    pub helper: ConfPath,
    /// The file, one line of [`password::file`](super::password::file).
    pub file: ConfPath,
}

/// Where a Squid runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// The addresses to listen on; none: all.
    pub listen: Vec<IpAddr>,
    /// Who may reach this place's own loopback.
    pub loopback: Loopback,
    /// Where Squid writes its process id; `None` where whoever started it knows.
    pub pid_file: Option<ConfPath>,
    /// Where Squid writes about itself.
    pub cache_log: ConfPath,
    /// Where it logs requests.
    pub access_log: AccessLog,
    /// The directory it works in.
    pub work_dir: ConfPath,
    /// Passwords; used only where the policy has a user, but never missing then.
    pub passwords: PasswordFile,
    /// How many descriptors it may open.
    pub descriptors: Descriptors,
    /// How long open connections may go on once it was told to stop; whole seconds count.
    pub shutdown_lifetime: Duration,
    /// What it calls itself.
    pub visible_hostname: HostName,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_nothing_that_squid_would_read() {
        for good in ["/var/lib/egress-proxy/a/b", "/home/jürgen/.local/state/x+y@z~1"] {
            assert_eq!(good.parse::<ConfPath>().expect(good).as_str(), good);
        }
        for bad in [
            "", "relative", "/a b", "/a\tb", "/a\nb", "/a\"b", "/a'b", "/a#b", "/a\\b", "/a$b", "/a{b}",
            "/a%b", "/a,b", "/a:b",
        ] {
            assert!(bad.parse::<ConfPath>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_host_name_has_nothing_that_squid_would_read() {
        for good in ["egress-proxy", "a.b-c.example"] {
            assert_eq!(good.parse::<HostName>().expect(good).to_string(), good);
        }
        for bad in ["", "a b", "a..b", "a\nb", "a_b", "ä"] {
            assert!(bad.parse::<HostName>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn descriptors_are_bounded() {
        for (number, fits) in [
            (0, false),
            (255, false),
            (256, true),
            (65_536, true),
            (65_537, false),
        ] {
            assert_eq!(Descriptors::try_from(number).is_ok(), fits, "{number}");
        }
        assert!(Descriptors::try_from(Descriptors::DEFAULT.0).is_ok());
    }
}

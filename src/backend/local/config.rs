//! The configuration of a local backend, validated.
//!
//! It must not know how the configuration was written down. Invariant: a [`LocalConfig`] can be used
//! as it is; whether its paths exist is found out by the operations that need them.

use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};

use crate::squid::ConfPath;

/// The environment variable that names the state directory.
pub const STATE_DIR_VARIABLE: &str = "EGRESS_STATE_DIR";
/// The state directory of root.
const STATE_DIR_OF_ROOT: &str = "/var/lib/egress-proxy";
/// The folder within the XDG state folder.
const STATE_FOLDER: &str = "egress-proxy";

/// An argument of the block `local` that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{argument}: {message}")]
pub struct ConfigProblem {
    /// The argument.
    pub argument: &'static str,
    /// What is wrong, with the value and the way out.
    pub message: String,
}

/// Where and how the proxies of a local backend run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalConfig {
    state_dir: ConfPath,
    squid: Option<PathBuf>,
    listen: Vec<IpAddr>,
}

impl LocalConfig {
    /// A configuration with this state directory (see [`default_state_dir`] where none was given),
    /// this Squid (none: found on `PATH`, then in `/usr/sbin`) and these addresses to listen on
    /// (none: 127.0.0.1).
    ///
    /// # Errors
    /// Every problem at once.
    pub fn new(
        state_dir: &Path,
        squid: Option<PathBuf>,
        listen: Vec<IpAddr>,
    ) -> Result<Self, Vec<ConfigProblem>> {
        let mut problems = Vec::new();
        let mut refuse = |argument, message| problems.push(ConfigProblem { argument, message });
        // Squid listens on the IPv4 address that a mapped one means, and reports that.
        let listen: Vec<IpAddr> = listen.iter().map(IpAddr::to_canonical).collect();

        let state_dir = match ConfPath::try_from(state_dir) {
            Ok(path) => Some(path),
            Err(error) => {
                refuse("state_dir", error.to_string());
                None
            }
        };
        if let Some(squid) = squid.as_deref().filter(|squid| !squid.is_absolute()) {
            refuse(
                "squid",
                format!(
                    "\"{}\" must be an absolute path; leave it out to search PATH",
                    squid.display()
                ),
            );
        }
        for address in &listen {
            if address.is_unspecified() || address.is_multicast() {
                refuse(
                    "listen",
                    format!(
                        "\"{address}\" is no address that a client could use: name those of this machine"
                    ),
                );
            }
        }
        for (index, address) in listen.iter().enumerate() {
            if listen[..index].contains(address) {
                refuse("listen", format!("\"{address}\" is listed twice"));
            }
        }
        match state_dir {
            Some(state_dir) if problems.is_empty() => Ok(Self {
                state_dir,
                squid,
                listen: if listen.is_empty() {
                    vec![Ipv4Addr::LOCALHOST.into()]
                } else {
                    listen
                },
            }),
            _ => Err(problems),
        }
    }

    /// The directory that holds one directory for each proxy.
    #[must_use]
    pub fn state_dir(&self) -> &ConfPath {
        &self.state_dir
    }

    /// The Squid that was named.
    #[must_use]
    pub fn squid(&self) -> Option<&Path> {
        self.squid.as_deref()
    }

    /// The addresses that new proxies listen on; the first is their address.
    #[must_use]
    pub fn listen(&self) -> &[IpAddr] {
        &self.listen
    }
}

/// [`default_state_dir`] of this process.
///
/// # Errors
/// As there.
pub fn state_dir_of_this_process() -> Result<PathBuf, ConfigProblem> {
    #[cfg(target_os = "linux")]
    let is_root = rustix::process::geteuid().is_root();
    #[cfg(not(target_os = "linux"))]
    let is_root = false;
    default_state_dir(|name| std::env::var_os(name), is_root)
}

/// Where proxies are kept unless the configuration says otherwise: `EGRESS_STATE_DIR`, then
/// `/var/lib/egress-proxy` for root (its own folder could not be reached by Squid's account), then
/// the XDG state folder. `environment` looks a variable up; an empty one counts as unset.
///
/// # Errors
/// When there is neither the variable nor a home directory.
pub fn default_state_dir(
    environment: impl Fn(&str) -> Option<OsString>,
    is_root: bool,
) -> Result<PathBuf, ConfigProblem> {
    let variable = |name: &str| {
        environment(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    if let Some(dir) = variable(STATE_DIR_VARIABLE) {
        return Ok(dir);
    }
    if is_root {
        return Ok(PathBuf::from(STATE_DIR_OF_ROOT));
    }
    // The XDG specification has relative paths ignored.
    variable("XDG_STATE_HOME")
        .filter(|dir| dir.is_absolute())
        .or_else(|| variable("HOME").map(|home| home.join(".local/state")))
        .map(|dir| dir.join(STATE_FOLDER))
        .ok_or_else(|| ConfigProblem {
            argument: "state_dir",
            message: format!(
                "there is no home directory to keep proxies in: set state_dir, or {STATE_DIR_VARIABLE} in the environment"
            ),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_listens_on_loopback() {
        let config = LocalConfig::new(Path::new("/var/lib/x"), None, vec![]).expect("sound");
        assert_eq!(config.listen(), [IpAddr::V4(Ipv4Addr::LOCALHOST)]);
        assert_eq!(config.state_dir().as_str(), "/var/lib/x");
    }

    #[test]
    fn an_ipv4_address_in_ipv6_notation_is_that_ipv4_address() {
        let listen = |addresses: &[&str]| {
            let addresses = addresses
                .iter()
                .map(|address| address.parse().expect("an address"));
            LocalConfig::new(Path::new("/s"), None, addresses.collect())
        };
        let config = listen(&["::ffff:127.0.0.2"]).expect("sound");
        assert_eq!(config.listen(), [IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2))]);
        for twice in [&["::ffff:127.0.0.1", "127.0.0.1"][..], &["::ffff:0.0.0.0"]] {
            let problems = listen(twice).expect_err("the same twice, or none");
            assert_eq!(problems[0].argument, "listen");
        }
    }

    #[test]
    fn every_problem_is_told_at_once() {
        let addresses = ["0.0.0.0", "::", "224.0.0.1", "127.0.0.1", "127.0.0.1"];
        let problems = LocalConfig::new(
            Path::new("relative dir"),
            Some("squid".into()),
            addresses
                .iter()
                .map(|address| address.parse().expect("an address"))
                .collect(),
        )
        .expect_err("nothing of this fits");
        let arguments: Vec<_> = problems.iter().map(|problem| problem.argument).collect();
        assert_eq!(
            arguments,
            ["state_dir", "squid", "listen", "listen", "listen", "listen"]
        );
    }

    #[test]
    fn the_state_directory_is_found_in_order() {
        let all = [
            (STATE_DIR_VARIABLE, "/s"),
            ("XDG_STATE_HOME", "/x"),
            ("HOME", "/home/u"),
        ];
        for (skip, is_root, found) in [
            (0, false, Some("/s")),
            (0, true, Some("/s")),
            (1, true, Some("/var/lib/egress-proxy")),
            (1, false, Some("/x/egress-proxy")),
            (2, false, Some("/home/u/.local/state/egress-proxy")),
            (3, false, None),
        ] {
            let lookup = |name: &str| {
                all.iter()
                    .skip(skip)
                    .find(|(key, _)| *key == name)
                    .map(|(_, value)| OsString::from(value))
            };
            let dir = default_state_dir(lookup, is_root).ok();
            assert_eq!(
                dir.as_deref(),
                found.map(Path::new),
                "without {skip}, root {is_root}"
            );
        }
        let odd = |name: &str| match name {
            STATE_DIR_VARIABLE => Some(OsString::new()),
            "XDG_STATE_HOME" => Some("relative".into()),
            "HOME" => Some("/h".into()),
            _ => None,
        };
        assert_eq!(
            default_state_dir(odd, false),
            Ok(PathBuf::from("/h/.local/state/egress-proxy"))
        );
    }
}

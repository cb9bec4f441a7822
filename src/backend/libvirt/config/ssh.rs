//! How to log in on the hosts, and what vouches for their keys.
//!
//! It must not read what it names: keys, agent and known_hosts are looked at on every dial. Invariant:
//! nothing is taken from `~/.ssh` unless the configuration names it.

use std::ffi::OsString;
use std::path::PathBuf;

use super::place::{ConfigProblem, Place};
use crate::contract::Secret;
use crate::transport::ssh::{HostKeys, Identity};

/// Holds the passphrase of the key file where the configuration does not.
pub const PASSPHRASE_VARIABLE: &str = "EGRESS_SSH_PASSPHRASE";
/// Whom to log in as where the configuration does not say: what the owner of this machine is called
/// must not decide.
const DEFAULT_USER: &str = "root";

/// The block `ssh` as it was written.
#[derive(Clone, Default)]
pub struct GivenSsh {
    /// Whether something in it is not known yet.
    pub partly_unknown: bool,
    /// Whom to log in as.
    pub user: Option<String>,
    /// A private key.
    pub key_file: Option<PathBuf>,
    /// Its certificate.
    pub certificate_file: Option<PathBuf>,
    /// What opens the key.
    pub passphrase: Option<Secret>,
    /// Whether the agent's keys are used.
    pub agent: Option<bool>,
    /// The agent's socket.
    pub agent_socket: Option<PathBuf>,
    /// What vouches for the hosts' keys.
    pub known_hosts_file: Option<PathBuf>,
    /// How the hosts' keys are judged.
    pub host_key: Option<String>,
}

/// How to log in on the hosts.
#[derive(Clone, Debug)]
pub struct SshConfig {
    /// Whom to log in as, unless a host says otherwise.
    pub user: String,
    /// What to log in with, in order.
    pub identities: Vec<Identity>,
    /// How the hosts' keys are judged.
    pub host_keys: HostKeys,
}

impl SshConfig {
    /// Whether any key is taken for a host's.
    #[must_use]
    pub fn is_insecure(&self) -> bool {
        self.host_keys == HostKeys::Insecure
    }
}

pub(super) fn validate(
    given: GivenSsh,
    environment: impl Fn(&str) -> Option<OsString>,
    problems: &mut Vec<ConfigProblem>,
) -> Option<SshConfig> {
    let place = Place::root().argument("ssh");
    let before = problems.len();
    let user = given.user.clone().unwrap_or_else(|| DEFAULT_USER.to_owned());
    if let Err(message) = check_user(&user) {
        problems.push(place.argument("user").problem(message));
    }
    let identities = identities(&given, environment, &place, problems);
    let host_keys = host_keys(&given, &place, problems);
    match host_keys {
        Some(host_keys) if problems.len() == before && !identities.is_empty() => Some(SshConfig {
            user,
            identities,
            host_keys,
        }),
        _ => None,
    }
}

fn identities(
    given: &GivenSsh,
    environment: impl Fn(&str) -> Option<OsString>,
    place: &Place,
    problems: &mut Vec<ConfigProblem>,
) -> Vec<Identity> {
    let mut identities = Vec::new();
    let mut without_key = |argument: &'static str, what: &str| {
        if given.key_file.is_none() && !given.partly_unknown {
            problems.push(place.argument(argument).problem(format!(
                "there is no key that it could be {what}: set key_file, or leave it out"
            )));
        }
    };
    if given.passphrase.is_some() {
        without_key("passphrase", "the passphrase of");
    }
    if given.certificate_file.is_some() {
        without_key("certificate_file", "the certificate of");
    }
    if let Some(path) = &given.key_file {
        let variable = || {
            environment(PASSPHRASE_VARIABLE)?
                .into_string()
                .ok()
                .map(Secret::new)
        };
        identities.push(Identity::File {
            path: path.clone(),
            certificate: given.certificate_file.clone(),
            passphrase: given.passphrase.clone().or_else(variable),
        });
    }
    if given.agent == Some(false) && given.agent_socket.is_some() {
        problems.push(
            place
                .argument("agent_socket")
                .problem("agent = false says that no agent is used: leave one of the two out"),
        );
    } else if given.agent == Some(true) || given.agent_socket.is_some() {
        identities.push(Identity::Agent {
            socket: given.agent_socket.clone(),
        });
    }
    if identities.is_empty() && !given.partly_unknown {
        problems.push(place.problem(
            "there is nothing to log in with: set key_file to a private key, or agent = true for the keys of the SSH \
             agent",
        ));
    }
    identities
}

fn host_keys(given: &GivenSsh, place: &Place, problems: &mut Vec<ConfigProblem>) -> Option<HostKeys> {
    let policy = given.host_key.as_deref().unwrap_or("strict");
    let file = given.known_hosts_file.clone();
    match (policy, file) {
        ("strict", Some(known_hosts)) => Some(HostKeys::Strict { known_hosts }),
        ("accept_new", Some(known_hosts)) => Some(HostKeys::AcceptNew { known_hosts }),
        ("strict" | "accept_new", None) => {
            if !given.partly_unknown {
                problems.push(place.argument("known_hosts_file").problem(
                    "it is missing: name the file that vouches for the hosts' keys, such as \"~/.ssh/known_hosts\"",
                ));
            }
            None
        }
        ("insecure", None) => Some(HostKeys::Insecure),
        ("insecure", Some(_)) => {
            problems.push(place.argument("host_key").problem(
                "\"insecure\" takes any key for a host's, so that known_hosts_file would count for nothing: leave one \
                 of the two out",
            ));
            None
        }
        (other, _) => {
            problems.push(place.argument("host_key").problem(format!(
                "{other:?} is none of \"strict\", \"accept_new\" and \"insecure\""
            )));
            None
        }
    }
}

/// A user of a host: something to log in as.
pub(super) fn check_user(user: &str) -> Result<(), String> {
    if user.is_empty() || user.contains(|letter: char| letter.is_whitespace() || letter.is_control()) {
        return Err(format!("{user:?} is no user that one could log in as"));
    }
    Ok(())
}

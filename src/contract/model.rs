//! The nouns of the contract: targets, states, instances, listings, health; and, from
//! [`name`](super::name), the names and ids.
//!
//! Nothing here does I/O or knows a backend.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::error::Error;
use super::mark::Mark;
pub use super::name::{
    BackendName, Incarnation, Installation, InstanceId, InstanceKey, InvalidName, Namespace, NativeId,
    ProxyName, Uid,
};
use super::spec::Fact;

/// What stands behind a backend's name, as facts from the strongest to the weakest, such as
/// `machine=4f…`. Written `fact=value,fact=value`, with `%`, `,` and `=` percent-encoded in values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target(Vec<(String, String)>);

impl Target {
    /// A target of these facts, strongest first.
    pub fn new(facts: impl IntoIterator<Item = (&'static str, String)>) -> Self {
        Self(
            facts
                .into_iter()
                .map(|(fact, value)| (fact.to_owned(), value))
                .collect(),
        )
    }

    /// The facts, strongest first.
    pub fn facts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(fact, value)| (fact.as_str(), value.as_str()))
    }

    /// The strongest fact that both know, where it differs: (fact, mine, the other's).
    #[must_use]
    pub fn conflict<'a>(&'a self, other: &'a Self) -> Option<(&'a str, &'a str, &'a str)> {
        self.facts()
            .find_map(|(fact, mine)| {
                let (_, theirs) = other.facts().find(|(name, _)| *name == fact)?;
                Some((fact, mine, theirs))
            })
            .filter(|(_, mine, theirs)| mine != theirs)
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (fact, value)) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            let value = value.replace('%', "%25").replace(',', "%2C").replace('=', "%3D");
            write!(f, "{comma}{fact}={value}")?;
        }
        Ok(())
    }
}

impl FromStr for Target {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, InvalidName> {
        if text.is_empty() {
            return Ok(Self::default());
        }
        text.split(',')
            .map(|pair| {
                let (fact, value) = pair.split_once('=').ok_or_else(|| InvalidName {
                    what: "target",
                    value: text.to_owned(),
                    rule: "must be facts written name=value and separated by commas",
                })?;
                let value = value.replace("%3D", "=").replace("%2C", ",").replace("%25", "%");
                Ok((fact.to_owned(), value))
            })
            .collect::<Result<_, _>>()
            .map(Self)
    }
}

/// Where an instance is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// On its way; nothing is planned.
    Provisioning,
    /// Runs and has an address.
    Running,
    /// Exists and can be started or resumed.
    Stopped,
    /// Exists no more, or only its remains do: it is replaced.
    Terminated,
}

impl State {
    /// The value of the attribute `state`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Provisioning => "provisioning",
            Self::Running => "running",
            Self::Stopped => "stopped",
            Self::Terminated => "terminated",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One egress proxy as the backend reports it.
#[derive(Clone, Debug, PartialEq)]
pub struct Instance {
    /// The backend's own id.
    pub id: NativeId,
    /// What we wrote on it: key, uid, incarnation, create-only facts.
    pub mark: Mark,
    /// What it was found on.
    pub target: Target,
    /// Where it is in its life. `Running` implies an `ip`.
    pub state: State,
    /// Whether it runs although no address is known just now: the caller keeps the prior address.
    pub started: bool,
    /// The address clients use.
    pub ip: Option<IpAddr>,
    /// The address the world sees; `None` where it cannot be known.
    pub egress_ip: Option<IpAddr>,
    /// When the backend, or our mark, says it was created; unknown counts as too young to collect.
    pub created_at: Option<Timestamp>,
    /// The user's labels: the keys that the mark lists, with the values found.
    pub labels: BTreeMap<String, String>,
    /// Why it is in this state, in the backend's own words, for waits and diagnostics.
    pub reason: Option<String>,
}

/// Something of an instance (a volume, a rule, an address, a service) whose instance is gone.
#[derive(Clone, Debug, PartialEq)]
pub struct Secondary {
    /// The id its instance had: `delete` of it removes what is left.
    pub id: NativeId,
    /// The uid in its mark.
    pub uid: Uid,
    /// Its kind in the backend's terms, such as `volume`.
    pub kind: &'static str,
    /// Its name in the backend.
    pub name: String,
    /// When it was created; unknown counts as too young to collect.
    pub created_at: Option<Timestamp>,
}

/// A part of a backend that could not be listed.
#[derive(Debug)]
pub struct Unreadable {
    /// What was not read, in the backend's terms: a host, a zone, one object.
    pub scope: String,
    /// The ids that may be hidden in it start with this prefix; empty: any.
    pub prefix: String,
    /// Why.
    pub error: Error,
}

/// What a listing returns: complete where `unreadable` is empty.
#[derive(Debug, Default)]
pub struct Listing {
    /// Every instance with the mark of the installation.
    pub instances: Vec<Instance>,
    /// Marked secondary objects without an instance.
    pub secondary: Vec<Secondary>,
    /// What could not be read.
    pub unreadable: Vec<Unreadable>,
}

/// What the author of a specification may not have meant, although nothing is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// Where.
    pub fact: Fact,
    /// What it is, without a full stop and without the proxy's name: the CLIs show warnings of one
    /// title as one.
    pub title: String,
    /// What follows from it, and the way out, in sentences.
    pub message: String,
}

/// What to list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListFilter {
    /// Whose instances.
    pub installation: Installation,
    /// Only this namespace.
    pub namespace: Option<Namespace>,
}

macro_rules! health_reasons {
    ($($reason:ident = $name:literal, $meaning:literal;)+) => {
        /// Why a target is or is not healthy.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum HealthReason {
            $(#[doc = $meaning] $reason,)+
        }

        impl HealthReason {
            /// Every reason.
            pub const ALL: &'static [Self] = &[$(Self::$reason,)+];

            /// The name in the data source and on the command line.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$reason => $name,)+ }
            }

            /// What it means, in a sentence.
            #[must_use]
            pub fn meaning(self) -> &'static str {
                match self { $(Self::$reason => $meaning,)+ }
            }
        }
    };
}

health_reasons! {
    Healthy = "Healthy", "It can be used.";
    Timeout = "Timeout", "It did not answer in time.";
    Unauthorized = "Unauthorized", "It does not accept who we are, or is not who it should be.";
    Forbidden = "Forbidden", "It knows us and refuses.";
    ApiError = "ApiError", "It answered with an error of its own.";
    Unreachable = "Unreachable", "It cannot be reached.";
    CredentialsUnavailable = "CredentialsUnavailable", "The credentials could not be read.";
    PoolNotFound = "PoolNotFound", "The storage pool does not exist.";
    PoolNotActive = "PoolNotActive", "The storage pool is not running.";
    SshMaterialUnavailable = "SSHMaterialUnavailable", "kvm: the SSH key or known_hosts file could not be read.";
    SshHandshakeFailed = "SSHHandshakeFailed", "kvm: the SSH handshake failed.";
    LibvirtConnectFailed = "LibvirtConnectFailed", "kvm: libvirt could not be reached through the SSH connection.";
    LibvirtError = "LibvirtError", "kvm: libvirt answered with an error.";
}

/// The health of one target of a backend: a host, an API server, a project, this machine.
#[derive(Clone, Debug, PartialEq)]
pub struct TargetHealth {
    /// Which target.
    pub target: String,
    /// Why it is or is not healthy.
    pub reason: HealthReason,
    /// One sentence for a person.
    pub message: String,
    /// How long the check took.
    pub latency: Duration,
    /// Facts found on the way, as far as the check got.
    pub details: BTreeMap<String, String>,
}

impl TargetHealth {
    /// Whether it can be used.
    #[must_use]
    pub fn healthy(&self) -> bool {
        self.reason == HealthReason::Healthy
    }
}

/// The keys of a label map.
#[must_use]
pub fn label_keys(labels: &BTreeMap<String, String>) -> BTreeSet<String> {
    labels.keys().cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_differ_by_the_strongest_fact_that_both_know() {
        let admin = Target::new([("cluster", "u1".into()), ("server", "https://a:6443".into())]);
        let ci = Target::new([("server", "https://b,c=d%:6443".into())]);
        assert_eq!(
            admin.conflict(&ci),
            Some(("server", "https://a:6443", "https://b,c=d%:6443"))
        );
        let moved = Target::new([("cluster", "u1".into()), ("server", "https://b:6443".into())]);
        assert_eq!(admin.conflict(&moved), None);
        for target in [admin, ci, moved, Target::default()] {
            assert_eq!(target.to_string().parse::<Target>(), Ok(target));
        }
    }
}

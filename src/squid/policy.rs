//! What a proxy lets through, read from the facts of a specification.
//!
//! It must not know how that is written down for Squid. Invariant: a [`Policy`] can be rendered as it
//! is; everything that could not was refused when it was read.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use ipnet::IpNet;

use super::domain::{Domain, minimal};
use super::password;
use crate::contract::spec::{DEFAULT_ALLOWED_PORTS, DEFAULT_PORT};
use crate::contract::{Error, Fact, Facts, Problem, Secret, Secrets, Warning};

/// The port of plain HTTP, which is open whatever `allowed_ports` says.
const HTTP: u16 = 80;
/// The longest user name.
const LONGEST_USERNAME: usize = 64;

/// A user name that basic authentication and the password file can hold.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Username(String);

/// A user name that does not fit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" must be 1 to 64 letters, digits or . _ @ + -")]
pub struct InvalidUsername(String);

impl FromStr for Username {
    type Err = InvalidUsername;

    fn from_str(value: &str) -> Result<Self, InvalidUsername> {
        let sound = (1..=LONGEST_USERNAME).contains(&value.len())
            && value
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"._@+-".contains(&byte));
        if sound {
            Ok(Self(value.to_owned()))
        } else {
            Err(InvalidUsername(value.to_owned()))
        }
    }
}

impl fmt::Display for Username {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a proxy lets through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    pub(super) port: u16,
    pub(super) clients: Vec<IpNet>,
    pub(super) tunnel_ports: BTreeSet<u16>,
    pub(super) domains: Option<Vec<Domain>>,
    pub(super) username: Option<Username>,
}

impl Policy {
    /// Reads the policy from effective facts: a backend that has a default for `allowed_cidrs` filled
    /// it in.
    ///
    /// # Errors
    /// Every problem at once, each with its attribute.
    pub fn of(facts: &Facts) -> Result<Self, Vec<Problem>> {
        let mut problems = Vec::new();
        let mut refuse = |fact, message: String| problems.push(Problem { fact, message });

        let port = facts.port.unwrap_or(DEFAULT_PORT);
        if port == 0 {
            refuse(Fact::Port, "the port must be 1 to 65535".into());
        }
        if facts.allowed_cidrs.is_none() {
            refuse(
                Fact::AllowedCidrs,
                "this backend needs the networks whose clients may use the proxy, such as [\"10.0.0.0/8\"]"
                    .into(),
            );
        }
        let clients = facts.allowed_cidrs.as_deref().unwrap_or_default();
        for client in clients {
            if let IpNet::V6(net) = client
                && net.prefix_len() >= 96
                && let Some(v4) = net.network().to_ipv4_mapped()
            {
                let prefix = net.prefix_len() - 96;
                refuse(
                    Fact::AllowedCidrs,
                    format!("\"{client}\" is an IPv4 network in IPv6 notation: write \"{v4}/{prefix}\""),
                );
            }
        }
        let tunnel_ports: BTreeSet<u16> = facts
            .allowed_ports
            .as_deref()
            .unwrap_or(&DEFAULT_ALLOWED_PORTS)
            .iter()
            .copied()
            .collect();
        if tunnel_ports.contains(&0) {
            refuse(Fact::AllowedPorts, "a port must be 1 to 65535, not 0".into());
        }
        let domains = facts.allowed_domains.as_ref().map(|listed| {
            let sound = listed.iter().filter_map(|text| match text.parse::<Domain>() {
                Ok(domain) => Some(domain),
                Err(error) => {
                    refuse(Fact::AllowedDomains, error.to_string());
                    None
                }
            });
            minimal(sound.collect())
        });
        let username = facts
            .username
            .as_ref()
            .and_then(|text| match text.parse::<Username>() {
                Ok(username) => Some(username),
                Err(error) => {
                    refuse(Fact::Username, error.to_string());
                    None
                }
            });
        match (&facts.username, &facts.password) {
            (Some(_), None) => refuse(
                Fact::Password,
                "access.username needs a password: set access.password_wo with access.password_wo_version, or access.password_hash".into(),
            ),
            (None, Some(_)) => refuse(
                Fact::Username,
                "a password needs access.username, the name that clients give with it".into(),
            ),
            (Some(_), Some(_)) | (None, None) => {}
        }
        if problems.is_empty() {
            Ok(Self {
                port,
                clients: IpNet::aggregate(&clients.to_vec()),
                tunnel_ports,
                domains,
                username,
            })
        } else {
            Err(problems)
        }
    }

    /// Reads the policy from the facts of a specification that was resolved before, and was sound then.
    ///
    /// # Errors
    /// Permanent, with every problem.
    pub fn resolved(facts: &Facts) -> Result<Self, Error> {
        Self::of(facts).map_err(|problems| {
            let problems: Vec<_> = problems.into_iter().map(|problem| problem.message).collect();
            Error::permanent(problems.join("; "))
        })
    }

    /// The password file, where there is a user.
    ///
    /// # Errors
    /// Permanent where the secrets hold no password for it, or none that Squid could verify.
    pub fn password_file(&self, secrets: &Secrets) -> Result<Option<Secret>, Error> {
        let Some(username) = self.username() else {
            return Ok(None);
        };
        let hash = secrets.password_hash.as_ref().ok_or_else(|| {
            Error::permanent("access.username needs a password, and none was handed to create: plan again")
        })?;
        password::file(username, hash)
            .map(Some)
            .map_err(|error| Error::permanent(error.to_string()))
    }

    /// The port it listens on.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The user, where there is one.
    #[must_use]
    pub fn username(&self) -> Option<&Username> {
        self.username.as_ref()
    }

    /// Ports that plain HTTP may go to.
    pub(super) fn plain_ports(&self) -> BTreeSet<u16> {
        self.tunnel_ports.iter().copied().chain([HTTP]).collect()
    }

    /// What its author may not have meant, for the plan.
    #[must_use]
    pub fn warnings(&self) -> Vec<Warning> {
        let mut warnings = Vec::new();
        let mut warn = |fact, title: &str, message: String| {
            warnings.push(Warning {
                fact,
                title: title.to_owned(),
                message,
            });
        };
        if self.clients.is_empty() {
            warn(
                Fact::AllowedCidrs,
                "The proxy denies every client",
                "access.allowed_cidrs is empty. Name the networks whose clients may use it.".to_owned(),
            );
        }
        if self.domains.as_ref().is_some_and(Vec::is_empty) {
            warn(
                Fact::AllowedDomains,
                "The proxy denies every destination",
                "access.allowed_domains is empty. Leave it out to allow all.".to_owned(),
            );
        }
        if let Some(everyone) = self.clients.iter().find(|client| client.prefix_len() == 0)
            && self.username.is_none()
        {
            warn(
                Fact::AllowedCidrs,
                "Whoever reaches the port can use the proxy",
                format!(
                    "access.allowed_cidrs holds {everyone}, and there is no access.username. Name fewer networks, or set a user and a password."
                ),
            );
        }
        warnings
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::spec::PasswordFact;

    fn sound() -> Facts {
        Facts {
            allowed_cidrs: Some(vec!["10.0.0.0/8".parse().expect("a network")]),
            ..Facts::default()
        }
    }

    #[test]
    fn every_problem_is_told_at_once_with_its_attribute() {
        let problems = Policy::of(&Facts {
            port: Some(0),
            allowed_ports: Some(vec![443, 0]),
            allowed_domains: Some(vec!["ok.example".into(), "*.example".into(), "a b".into()]),
            username: Some("a:b".into()),
            ..Facts::default()
        })
        .expect_err("nothing of this fits");
        let facts: Vec<_> = problems.iter().map(|problem| problem.fact).collect();
        assert_eq!(
            facts,
            [
                Fact::Port,
                Fact::AllowedCidrs,
                Fact::AllowedPorts,
                Fact::AllowedDomains,
                Fact::AllowedDomains,
                Fact::Username,
                Fact::Password,
            ]
        );
    }

    #[test]
    fn defaults_are_the_contracts() {
        let policy = Policy::of(&sound()).expect("sound");
        assert_eq!(policy.port(), DEFAULT_PORT);
        assert_eq!(Vec::from_iter(policy.tunnel_ports.clone()), DEFAULT_ALLOWED_PORTS);
        assert_eq!(Vec::from_iter(policy.plain_ports()), [80, 443]);
        assert!(policy.domains.is_none() && policy.warnings().is_empty());
    }

    #[test]
    fn a_user_and_a_password_come_together() {
        for (username, password, refused) in [
            (Some("u"), Some("1"), None),
            (Some("u"), None, Some(Fact::Password)),
            (None, Some("1"), Some(Fact::Username)),
        ] {
            let facts = Facts {
                username: username.map(Into::into),
                password: password.map(|version| PasswordFact::Version(version.into())),
                ..sound()
            };
            let problem = Policy::of(&facts).err().map(|problems| problems[0].fact);
            assert_eq!(problem, refused);
        }
    }

    #[test]
    fn a_user_without_a_password_never_gets_a_proxy() {
        let with_user = Policy::of(&Facts {
            username: Some("u".into()),
            password: Some(PasswordFact::Version("1".into())),
            ..sound()
        })
        .expect("sound");
        let hash = |hash: &str| Secrets {
            password_hash: Some(Secret::new(hash)),
            ..Secrets::default()
        };
        for secrets in [Secrets::default(), hash("no hash")] {
            let error = with_user
                .password_file(&secrets)
                .expect_err("nothing to check against");
            assert_eq!(error.kind(), crate::contract::ErrorKind::Permanent);
        }
        let without = Policy::of(&sound()).expect("sound");
        let file = without.password_file(&hash("no hash")).expect("none is needed");
        assert!(file.is_none());
    }

    #[test]
    fn a_user_name_keeps_its_grammar() {
        for good in ["u", "a.b_c@d+e-f", "U9"] {
            assert!(good.parse::<Username>().is_ok(), "{good}");
        }
        let long = "a".repeat(65);
        for bad in ["", "a:b", "a b", "a\nb", "#a", "a\"", "ä", long.as_str()] {
            assert!(bad.parse::<Username>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn an_ipv4_network_is_written_as_one() {
        let facts = Facts {
            allowed_cidrs: Some(vec!["::ffff:10.0.0.0/104".parse().expect("a network")]),
            ..Facts::default()
        };
        let problems = Policy::of(&facts).expect_err("Squid would take it for IPv4");
        assert!(problems[0].message.contains("\"10.0.0.0/8\""), "{problems:?}");
    }

    #[test]
    fn what_lets_in_all_or_none_is_warned_about() {
        let with = |cidrs: &[&str], username: Option<&str>, domains: Option<Vec<String>>| {
            Policy::of(&Facts {
                allowed_cidrs: Some(
                    cidrs
                        .iter()
                        .map(|cidr| cidr.parse().expect("a network"))
                        .collect(),
                ),
                username: username.map(Into::into),
                password: username.map(|_| PasswordFact::Version("1".into())),
                allowed_domains: domains,
                ..Facts::default()
            })
            .expect("sound")
            .warnings()
        };
        assert!(with(&[], None, None)[0].title.contains("every client"));
        assert!(
            with(&["10.0.0.0/8"], None, Some(vec![]))[0]
                .title
                .contains("every destination")
        );
        for open in [&["0.0.0.0/0"][..], &["::/0"], &["0.0.0.0/1", "128.0.0.0/1"]] {
            assert!(
                with(open, None, None)[0].title.contains("Whoever reaches"),
                "{open:?}"
            );
            assert!(with(open, Some("u"), None).is_empty(), "{open:?}");
        }
    }
}

//! What a `squid.conf` of ours shows about the proxy it makes: its facts, read back.
//!
//! It must not know where the file lies. Invariant: what is read back is believed only where it makes
//! the very same rules again, so that a file which somebody changed by hand shows nothing.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use ipnet::{IpNet, Ipv6Net};

use super::conf::render;
use super::policy::Policy;
use super::site::{AccessLog, Descriptors, Loopback, PasswordFile, Site};
use crate::contract::Facts;
use crate::contract::spec::PasswordFact;

/// Where IPv6 holds IPv4; a wide IPv6 network is written without it.
const MAPPED: Ipv6Net = Ipv6Net::new_assert(Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, 0, 0), 96);
/// Stands for the user while rules are compared: no rule names it.
const ANYBODY: &str = "anybody";

/// What a configuration shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// The addresses that it listens on; empty: all.
    pub listen: Vec<IpAddr>,
    /// Port, clients, ports and destinations. A configuration that allows no client shows the port
    /// alone.
    pub facts: Facts,
    /// Whether it asks for a user and a password.
    pub authenticated: bool,
}

/// Reads a configuration back; `None` where it is not what this release writes for a site with that
/// `loopback`.
#[must_use]
pub fn evidence(conf: &str, loopback: Loopback) -> Option<Evidence> {
    let values = |start: &'static str| conf.lines().filter_map(move |line| line.strip_prefix(start));
    let mut listen = Vec::new();
    let mut port = None;
    for place in values("http_port ") {
        match place.parse::<SocketAddr>() {
            Ok(address) => {
                listen.push(address.ip());
                port = Some(address.port());
            }
            Err(_) => port = Some(place.parse().ok()?),
        }
    }
    let clients: Vec<IpNet> = values("acl client src ")
        .map(|network| network.parse().ok())
        .collect::<Option<_>>()?;
    let ports: Vec<u16> = values("acl tunnel_port port ")
        .map(|port| port.parse().ok())
        .collect::<Option<_>>()?;
    let listed: Vec<String> = values("acl destination dstdomain -n ")
        .map(str::to_owned)
        .collect();
    let nowhere = values("http_access ").filter(|rule| *rule == "deny all").count() > 1;
    let domains = (nowhere || !listed.is_empty()).then_some(listed);
    let authenticated = values("acl authenticated ").next().is_some();
    let closed = clients.is_empty();
    let with = |clients: Vec<IpNet>| Facts {
        port,
        allowed_cidrs: Some(IpNet::aggregate(&clients)),
        allowed_ports: (!closed).then(|| ports.clone()),
        allowed_domains: domains.clone(),
        ..Facts::default()
    };
    let mapped = clients.iter().copied().chain([IpNet::V6(MAPPED)]).collect();
    [with(clients), with(mapped)]
        .into_iter()
        .find(|facts| same_rules(conf, facts, authenticated, &listen, loopback))
        .map(|facts| Evidence {
            listen: listen.clone(),
            facts: facts.canonical(),
            authenticated,
        })
}

/// Whether these facts make the rules of that configuration.
fn same_rules(conf: &str, facts: &Facts, authenticated: bool, listen: &[IpAddr], loopback: Loopback) -> bool {
    let facts = Facts {
        username: authenticated.then(|| ANYBODY.to_owned()),
        password: authenticated.then(|| PasswordFact::Version(ANYBODY.to_owned())),
        ..facts.clone()
    };
    let (Ok(policy), Some(site)) = (Policy::of(&facts), somewhere(listen, loopback)) else {
        return false;
    };
    rules(conf).eq(rules(&render(&policy, &site)))
}

/// The lines that say who may go where; the others depend on the place.
fn rules(conf: &str) -> impl Iterator<Item = &str> {
    conf.lines().filter(|line| {
        ["http_port ", "acl ", "http_access "]
            .iter()
            .any(|start| line.starts_with(start))
    })
}

/// A site with paths that stand for any.
fn somewhere(listen: &[IpAddr], loopback: Loopback) -> Option<Site> {
    Some(Site {
        listen: listen.to_vec(),
        loopback,
        pid_file: None,
        cache_log: "/cache.log".parse().ok()?,
        access_log: AccessLog::None,
        work_dir: "/".parse().ok()?,
        passwords: PasswordFile {
            helper: "/helper".parse().ok()?,
            file: "/passwd".parse().ok()?,
        },
        descriptors: Descriptors::DEFAULT,
        shutdown_lifetime: Duration::ZERO,
        visible_hostname: "egress-proxy".parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(cidrs: &[&str], ports: &[u16], domains: Option<&[&str]>) -> Facts {
        Facts {
            port: Some(8080),
            allowed_cidrs: Some(
                cidrs
                    .iter()
                    .map(|cidr| cidr.parse().expect("a network"))
                    .collect(),
            ),
            allowed_ports: Some(ports.to_vec()),
            allowed_domains: domains.map(|domains| domains.iter().map(|name| (*name).to_owned()).collect()),
            ..Facts::default()
        }
    }

    fn written(facts: &Facts, listen: &[&str], loopback: Loopback) -> String {
        let listen: Vec<_> = listen
            .iter()
            .map(|address| address.parse().expect("an address"))
            .collect();
        let site = somewhere(&listen, loopback).expect("sound");
        render(&Policy::of(facts).expect("sound"), &site)
    }

    #[test]
    fn what_was_written_is_read_back() {
        for facts in [
            facts(&["10.0.0.0/8"], &[443], None),
            facts(&["0.0.0.0/0"], &[], Some(&[])),
            facts(
                &["::/0", "10.1.0.0/16"],
                &[443, 8443],
                Some(&[".example.com", "192.0.2.7"]),
            ),
            facts(&["127.0.0.0/8", "::1/128"], &[443], Some(&["a.example"])),
        ] {
            for loopback in [Loopback::Denied, Loopback::ForLoopbackClients] {
                for listen in [&[][..], &["127.0.0.1", "::1"]] {
                    let conf = written(&facts, listen, loopback);
                    let evidence = evidence(&conf, loopback).expect("ours");
                    assert!(
                        evidence.facts.differences(&facts).is_empty(),
                        "{:?} {facts:?}",
                        evidence.facts
                    );
                    assert_eq!(evidence.listen.len(), listen.len());
                    assert!(!evidence.authenticated);
                }
            }
        }
    }

    #[test]
    fn a_user_is_seen() {
        let facts = Facts {
            username: Some("team".into()),
            password: Some(PasswordFact::Version("1".into())),
            ..facts(&["10.0.0.0/8"], &[443], None)
        };
        let conf = written(&facts, &[], Loopback::Denied);
        assert!(evidence(&conf, Loopback::Denied).expect("ours").authenticated);
    }

    #[test]
    fn a_proxy_that_denies_everybody_shows_its_port_alone() {
        let conf = written(&facts(&[], &[443], None), &[], Loopback::Denied);
        let evidence = evidence(&conf, Loopback::Denied).expect("ours");
        assert_eq!(evidence.facts.port, Some(8080));
        assert_eq!(evidence.facts.allowed_cidrs, Some(vec![]));
        assert_eq!(evidence.facts.allowed_ports, None);
    }

    #[test]
    fn what_was_changed_by_hand_shows_nothing() {
        let conf = written(&facts(&["10.0.0.0/8"], &[443], None), &[], Loopback::Denied);
        for changed in [
            conf.replace("http_access deny metadata_address\n", ""),
            conf.replace("http_access allow client", "http_access allow all"),
            format!("{conf}http_access allow all\n"),
            format!("acl more src 0.0.0.0/1\n{conf}"),
            conf.replace("10.0.0.0/8", "everyone"),
            String::new(),
        ] {
            assert_eq!(evidence(&changed, Loopback::Denied), None, "{changed}");
        }
        assert_eq!(evidence(&conf, Loopback::ForLoopbackClients), None);
    }
}

//! What a proxy is made of: the create-only facts, their canonical form and their hash.
//!
//! A fact is no secret: a password or a cloud-init text appears here only as its version or its
//! SHA-256. Two specifications that mean the same have the same canonical form and the same hash.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// The port of a proxy that names none.
pub const DEFAULT_PORT: u16 = 3128;
/// The ports a client may CONNECT to where none are named.
pub const DEFAULT_ALLOWED_PORTS: [u16; 1] = [443];

/// Who may use a proxy that names nobody, on a backend whose proxies listen on this machine alone.
#[must_use]
pub fn loopback() -> Vec<IpNet> {
    vec![
        IpNet::new_assert(Ipv4Addr::new(127, 0, 0, 0).into(), 8),
        IpNet::new_assert(Ipv6Addr::LOCALHOST.into(), 128),
    ]
}

/// Names one create-only fact: which were given, where a problem lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fact {
    /// The resource's `name`; never part of [`Facts`], but a problem may lie there.
    Name,
    /// The resource's `namespace`; never part of [`Facts`], but a problem may lie there.
    Namespace,
    /// `port`
    Port,
    /// `placement.zone`
    Zone,
    /// `placement.region`
    Region,
    /// `placement.machine_type`
    MachineType,
    /// `placement.image`
    Image,
    /// `placement.spot`
    Spot,
    /// `access.allowed_cidrs`
    AllowedCidrs,
    /// `access.allowed_ports`
    AllowedPorts,
    /// `access.allowed_domains`
    AllowedDomains,
    /// `access.username`
    Username,
    /// `access.password_wo_version` or `access.password_hash`
    Password,
    /// `cloud_init` or `cloud_init_wo_version`
    CloudInit,
    /// The resource's `labels`; not create-only, but a problem may lie there.
    Labels,
}

impl Fact {
    /// The attribute's path as a user writes it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Namespace => "namespace",
            Self::Port => "port",
            Self::Zone => "placement.zone",
            Self::Region => "placement.region",
            Self::MachineType => "placement.machine_type",
            Self::Image => "placement.image",
            Self::Spot => "placement.spot",
            Self::AllowedCidrs => "access.allowed_cidrs",
            Self::AllowedPorts => "access.allowed_ports",
            Self::AllowedDomains => "access.allowed_domains",
            Self::Username => "access.username",
            Self::Password => "access.password_wo_version",
            Self::CloudInit => "cloud_init",
            Self::Labels => "labels",
        }
    }
}

impl fmt::Display for Fact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How a password was given.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PasswordFact {
    /// Write-only, known by its version.
    Version(String),
    /// As a hash in the configuration, known by the SHA-256 (hex) of that hash.
    HashSha256(String),
}

/// How a cloud-init document was given.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CloudInitFact {
    /// Write-only, known by its version.
    Version(String),
    /// As text in the configuration, known by its SHA-256 (hex).
    TextSha256(String),
}

/// The create-only facts of a proxy. As requested, `None` is "left out"; as resolved by a backend,
/// `None` is "the proxy has no such thing".
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Facts {
    /// The port the proxy listens on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// The zone, or the libvirt host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// The region.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// The machine type: the cloud's, or a key of the catalogue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine_type: Option<String>,
    /// The image: a key of the catalogue, a URL, a reference.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Whether it may be preempted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spot: Option<bool>,
    /// Who may use the proxy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_cidrs: Option<Vec<IpNet>>,
    /// The ports a client may CONNECT to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_ports: Option<Vec<u16>>,
    /// The destinations a client may reach; none given: all but link-local ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_domains: Option<Vec<String>>,
    /// The user of basic authentication.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,
    /// How its password was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub password: Option<PasswordFact>,
    /// How the cloud-init document was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cloud_init: Option<CloudInitFact>,
}

impl Facts {
    /// Whether these are in their one spelling already.
    #[must_use]
    pub fn is_canonical(&self) -> bool {
        let cidrs = self.allowed_cidrs.as_deref().unwrap_or_default();
        let ports = self.allowed_ports.as_deref().unwrap_or_default();
        let domains = self.allowed_domains.as_deref().unwrap_or_default();
        cidrs.is_sorted_by(|a, b| a < b)
            && ports.is_sorted_by(|a, b| a < b)
            && domains.is_sorted_by(|a, b| a < b)
            && cidrs.iter().all(|cidr| *cidr == cidr.trunc())
            && domains
                .iter()
                .all(|domain| !domain.ends_with('.') && !domain.bytes().any(|byte| byte.is_ascii_uppercase()))
    }

    /// The same facts in their one spelling: networks without host bits, lists sorted and without
    /// duplicates, domains in lower case without a final dot.
    #[must_use]
    pub fn canonical(mut self) -> Self {
        if self.is_canonical() {
            return self;
        }
        if let Some(cidrs) = &mut self.allowed_cidrs {
            for cidr in cidrs.iter_mut() {
                *cidr = cidr.trunc();
            }
            cidrs.sort_unstable();
            cidrs.dedup();
        }
        if let Some(ports) = &mut self.allowed_ports {
            ports.sort_unstable();
            ports.dedup();
        }
        if let Some(domains) = &mut self.allowed_domains {
            for domain in domains.iter_mut() {
                *domain = domain.trim_end_matches('.').to_ascii_lowercase();
            }
            domains.sort_unstable();
            domains.dedup();
        }
        self
    }

    /// The facts with the defaults that hold on every backend filled in, in canonical form.
    #[must_use]
    pub fn with_common_defaults(mut self) -> Self {
        self.port.get_or_insert(DEFAULT_PORT);
        self.allowed_ports
            .get_or_insert_with(|| DEFAULT_ALLOWED_PORTS.to_vec());
        self.canonical()
    }

    /// Which facts are present.
    #[must_use]
    pub fn present(&self) -> BTreeSet<Fact> {
        let Self {
            port,
            zone,
            region,
            machine_type,
            image,
            spot,
            allowed_cidrs,
            allowed_ports,
            allowed_domains,
            username,
            password,
            cloud_init,
        } = self;
        [
            (Fact::Port, port.is_some()),
            (Fact::Zone, zone.is_some()),
            (Fact::Region, region.is_some()),
            (Fact::MachineType, machine_type.is_some()),
            (Fact::Image, image.is_some()),
            (Fact::Spot, spot.is_some()),
            (Fact::AllowedCidrs, allowed_cidrs.is_some()),
            (Fact::AllowedPorts, allowed_ports.is_some()),
            (Fact::AllowedDomains, allowed_domains.is_some()),
            (Fact::Username, username.is_some()),
            (Fact::Password, password.is_some()),
            (Fact::CloudInit, cloud_init.is_some()),
        ]
        .into_iter()
        .filter_map(|(fact, present)| present.then_some(fact))
        .collect()
    }

    /// These facts in canonical form, copied only where they are not in it.
    #[must_use]
    pub fn to_canonical(&self) -> Cow<'_, Self> {
        if self.is_canonical() {
            Cow::Borrowed(self)
        } else {
            Cow::Owned(self.clone().canonical())
        }
    }

    /// Which facts differ from `other`, both taken in canonical form.
    #[must_use]
    pub fn differences(&self, other: &Self) -> BTreeSet<Fact> {
        let (mine, other) = (self.to_canonical(), other.to_canonical());
        [
            (Fact::Port, mine.port != other.port),
            (Fact::Zone, mine.zone != other.zone),
            (Fact::Region, mine.region != other.region),
            (Fact::MachineType, mine.machine_type != other.machine_type),
            (Fact::Image, mine.image != other.image),
            (Fact::Spot, mine.spot != other.spot),
            (Fact::AllowedCidrs, mine.allowed_cidrs != other.allowed_cidrs),
            (Fact::AllowedPorts, mine.allowed_ports != other.allowed_ports),
            (
                Fact::AllowedDomains,
                mine.allowed_domains != other.allowed_domains,
            ),
            (Fact::Username, mine.username != other.username),
            (Fact::Password, mine.password != other.password),
            (Fact::CloudInit, mine.cloud_init != other.cloud_init),
        ]
        .into_iter()
        .filter_map(|(fact, differs)| differs.then_some(fact))
        .collect()
    }

    /// `v1:` and the SHA-256 (hex) of the canonical JSON of these facts. Called on resolved facts;
    /// an instance's hash is compared only under the version it carries.
    #[must_use]
    pub fn sha256(&self) -> String {
        let canonical = self.to_canonical();
        // Struct fields serialise in the order of their declaration, so the text is canonical.
        let text = serde_json::to_vec(&*canonical).unwrap_or_default();
        format!("v1:{}", hex(&Sha256::digest(text)))
    }
}

/// Lower-case hexadecimal.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    use fmt::Write as _;
    bytes
        .iter()
        .fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
            // Writing to a String cannot fail.
            let _ = write!(text, "{byte:02x}");
            text
        })
}

/// SHA-256 of a text, in lower-case hexadecimal.
#[must_use]
pub fn sha256_hex(text: &str) -> String {
    hex(&Sha256::digest(text.as_bytes()))
}

/// A value that must not be seen: no `Display`, and `Debug` hides it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a secret.
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    /// The secret itself, for the one place that hands it on.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// What create needs and no mark may hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Secrets {
    /// The crypt(3) hash of the password, as Squid's `basic_ncsa_auth` verifies it.
    pub password_hash: Option<Secret>,
    /// The user's cloud-init document.
    pub cloud_init: Option<Secret>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(cidrs: &[&str], domains: &[&str]) -> Facts {
        Facts {
            allowed_cidrs: Some(
                cidrs
                    .iter()
                    .map(|cidr| cidr.parse().expect("a network"))
                    .collect(),
            ),
            allowed_domains: Some(domains.iter().map(|domain| (*domain).to_owned()).collect()),
            ..Facts::default()
        }
    }

    #[test]
    fn spelling_and_order_do_not_change_the_hash() {
        let one = facts(
            &["10.1.2.3/8", "fd00::1/64", "10.0.0.0/8"],
            &["Example.com.", "a.org"],
        );
        let other = facts(&["fd00::/64", "10.0.0.0/8"], &["a.org", "example.com"]);
        assert_eq!(one.sha256(), other.sha256());
        assert!(one.differences(&other).is_empty());
    }

    #[test]
    fn what_is_canonical_is_known_to_be() {
        for (facts, is) in [
            (Facts::default(), true),
            (
                facts(&["10.0.0.0/8", "fd00::/64"], &["a.org", "example.com"]),
                true,
            ),
            (facts(&["10.1.2.3/8"], &[]), false),
            (facts(&["10.0.0.0/8", "10.0.0.0/8"], &[]), false),
            (facts(&["fd00::/64", "10.0.0.0/8"], &[]), false),
            (facts(&[], &["b.org", "a.org"]), false),
            (facts(&[], &["a.org", "a.org"]), false),
            (facts(&[], &["A.org"]), false),
            (facts(&[], &["a.org."]), false),
        ] {
            assert_eq!(facts.is_canonical(), is, "{facts:?}");
            assert!(
                matches!(facts.to_canonical(), Cow::Borrowed(_)) == is,
                "{facts:?}"
            );
            assert!(facts.canonical().is_canonical());
        }
        let ports = |ports: &[u16]| Facts {
            allowed_ports: Some(ports.to_vec()),
            ..Facts::default()
        };
        assert!(ports(&[1, 2]).is_canonical());
        assert!(!ports(&[2, 1]).is_canonical() && !ports(&[1, 1]).is_canonical());
    }

    #[test]
    fn every_fact_changes_the_hash() {
        let base = Facts::default().with_common_defaults();
        let changed = [
            Facts {
                port: Some(1),
                ..base.clone()
            },
            Facts {
                zone: Some("z".into()),
                ..base.clone()
            },
            Facts {
                region: Some("z".into()),
                ..base.clone()
            },
            Facts {
                machine_type: Some("z".into()),
                ..base.clone()
            },
            Facts {
                image: Some("z".into()),
                ..base.clone()
            },
            Facts {
                spot: Some(false),
                ..base.clone()
            },
            Facts {
                allowed_cidrs: Some(vec![]),
                ..base.clone()
            },
            Facts {
                allowed_ports: Some(vec![]),
                ..base.clone()
            },
            Facts {
                allowed_domains: Some(vec![]),
                ..base.clone()
            },
            Facts {
                username: Some("z".into()),
                ..base.clone()
            },
            Facts {
                password: Some(PasswordFact::Version("1".into())),
                ..base.clone()
            },
            Facts {
                password: Some(PasswordFact::HashSha256("1".into())),
                ..base.clone()
            },
            Facts {
                cloud_init: Some(CloudInitFact::Version("1".into())),
                ..base.clone()
            },
            Facts {
                cloud_init: Some(CloudInitFact::TextSha256("1".into())),
                ..base.clone()
            },
        ];
        let hashes: BTreeSet<_> = changed.iter().chain([&base]).map(Facts::sha256).collect();
        assert_eq!(hashes.len(), changed.len() + 1);
        for facts in &changed {
            assert_eq!(facts.differences(&base).len(), 1, "{facts:?}");
        }
    }

    /// A hash is written on instances that outlive a release: it may never change within `v1`.
    #[test]
    fn the_hash_is_pinned() {
        assert_eq!(
            Facts::default().with_common_defaults().sha256(),
            "v1:539ad6606b8d9fcb4704671fd61afdd4c913f2cddbd3c68d55b6f517ff9a49b9"
        );
    }

    #[test]
    fn a_secret_is_not_shown() {
        let secrets = Secrets {
            password_hash: Some(Secret::new("sentinel")),
            cloud_init: None,
        };
        assert!(!format!("{secrets:?}").contains("sentinel"));
    }
}

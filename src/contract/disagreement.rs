//! How the specification that is asked for differs from the one that is there, in words.
//!
//! It must not know what follows from that. Invariant: every fact that differs is named with both
//! values; of a password and a cloud-init text only how they were given is shown.

use std::fmt::Display;

use super::spec::{CloudInitFact, Fact, Facts, PasswordFact};

/// The most elements of a list that are shown; of a longer one, those that the other has not.
const MOST: usize = 8;

/// One fact with its two values, as a user writes them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disagreement {
    /// Which.
    pub fact: Fact,
    /// What the instance has.
    pub there: String,
    /// What the request asks for.
    pub asked: String,
}

impl Display for Disagreement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { fact, there, asked } = self;
        write!(f, "{fact}: there {there}, asked for {asked}")
    }
}

/// Every fact in which `asked` differs from what is `there`.
#[must_use]
pub fn disagreements(there: &Facts, asked: &Facts) -> Vec<Disagreement> {
    let (there, asked) = (there.to_canonical(), asked.to_canonical());
    asked
        .differences(&there)
        .into_iter()
        .map(|fact| Disagreement {
            fact,
            there: shown(fact, &there, &asked),
            asked: shown(fact, &asked, &there),
        })
        .collect()
}

/// Each on a line of its own.
#[must_use]
pub fn lines(disagreements: &[Disagreement]) -> String {
    disagreements
        .iter()
        .map(|disagreement| format!("\n  {disagreement}"))
        .collect()
}

fn shown(fact: Fact, of: &Facts, other: &Facts) -> String {
    match fact {
        Fact::Port => plain(of.port.as_ref()),
        Fact::Spot => plain(of.spot.as_ref()),
        Fact::Zone => quoted(of.zone.as_ref()),
        Fact::Region => quoted(of.region.as_ref()),
        Fact::MachineType => quoted(of.machine_type.as_ref()),
        Fact::Image => quoted(of.image.as_ref()),
        Fact::Username => quoted(of.username.as_ref()),
        Fact::AllowedCidrs => list(
            of.allowed_cidrs.as_deref(),
            other.allowed_cidrs.as_deref(),
            |cidr| format!("\"{cidr}\""),
        ),
        Fact::AllowedPorts => list(
            of.allowed_ports.as_deref(),
            other.allowed_ports.as_deref(),
            ToString::to_string,
        ),
        Fact::AllowedDomains => list(
            of.allowed_domains.as_deref(),
            other.allowed_domains.as_deref(),
            |domain| format!("{domain:?}"),
        ),
        Fact::Password => match &of.password {
            None => nothing(),
            Some(PasswordFact::Version(version)) => format!("{version:?}"),
            Some(PasswordFact::HashSha256(_)) => match &other.password {
                Some(PasswordFact::HashSha256(_)) => "another password_hash".to_owned(),
                Some(PasswordFact::Version(_)) | None => "a password_hash".to_owned(),
            },
        },
        Fact::CloudInit => match &of.cloud_init {
            None => nothing(),
            Some(CloudInitFact::Version(version)) => format!("cloud_init_wo_version {version:?}"),
            Some(CloudInitFact::TextSha256(_)) => match &other.cloud_init {
                Some(CloudInitFact::TextSha256(_)) => "another text".to_owned(),
                Some(CloudInitFact::Version(_)) | None => "a text".to_owned(),
            },
        },
        // They are the key and in place: no part of a specification.
        Fact::Name | Fact::Namespace | Fact::Labels => nothing(),
    }
}

fn nothing() -> String {
    "nothing".to_owned()
}

fn plain(value: Option<&impl Display>) -> String {
    value.map_or_else(nothing, ToString::to_string)
}

fn quoted(value: Option<&String>) -> String {
    value.map_or_else(nothing, |value| format!("{value:?}"))
}

/// A list in canonical form, which is sorted.
fn list<T: Ord>(of: Option<&[T]>, other: Option<&[T]>, show: impl Fn(&T) -> String) -> String {
    let Some(of) = of else {
        return nothing();
    };
    if of.len() <= MOST {
        let all: Vec<_> = of.iter().map(show).collect();
        return format!("[{}]", all.join(", "));
    }
    let other = other.unwrap_or_default();
    let mut own = of.iter().filter(|element| other.binary_search(element).is_err());
    let mut some: Vec<_> = own.by_ref().take(MOST).map(show).collect();
    if some.is_empty() {
        return format!("{} elements, all of which the other has too", of.len());
    }
    if own.next().is_some() {
        some.push("…".to_owned());
    }
    format!("{} elements, among them {}", of.len(), some.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(there: &Facts, asked: &Facts) -> Vec<String> {
        let told = disagreements(there, asked);
        told.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn every_fact_is_named_with_both_values() {
        let there = Facts {
            port: Some(3128),
            zone: Some("z1".into()),
            spot: Some(true),
            allowed_cidrs: Some(vec!["10.0.0.0/8".parse().expect("a network")]),
            allowed_domains: Some(vec![]),
            ..Facts::default()
        };
        let asked = Facts {
            port: Some(8080),
            zone: Some("z2".into()),
            region: Some("r".into()),
            machine_type: Some("m".into()),
            image: Some("i".into()),
            allowed_cidrs: Some(vec!["192.0.2.0/24".parse().expect("a network")]),
            allowed_ports: Some(vec![443, 8443]),
            allowed_domains: Some(vec![".example.com".into()]),
            username: Some("u".into()),
            ..Facts::default()
        };
        assert_eq!(
            told(&there, &asked),
            [
                "port: there 3128, asked for 8080",
                "placement.zone: there \"z1\", asked for \"z2\"",
                "placement.region: there nothing, asked for \"r\"",
                "placement.machine_type: there nothing, asked for \"m\"",
                "placement.image: there nothing, asked for \"i\"",
                "placement.spot: there true, asked for nothing",
                "access.allowed_cidrs: there [\"10.0.0.0/8\"], asked for [\"192.0.2.0/24\"]",
                "access.allowed_ports: there nothing, asked for [443, 8443]",
                "access.allowed_domains: there [], asked for [\".example.com\"]",
                "access.username: there nothing, asked for \"u\"",
            ]
        );
        assert!(told(&asked, &asked).is_empty());
    }

    #[test]
    fn of_a_secret_only_how_it_was_given_is_told() {
        let password = |password| Facts {
            password,
            ..Facts::default()
        };
        let version = |text: &str| password(Some(PasswordFact::Version(text.into())));
        let hash = |text: &str| password(Some(PasswordFact::HashSha256(text.into())));
        let named = "access.password_wo_version";
        for (there, asked, text) in [
            (version("1"), version("2"), "there \"1\", asked for \"2\""),
            (
                version("1"),
                hash("abc"),
                "there \"1\", asked for a password_hash",
            ),
            (
                hash("abc"),
                hash("def"),
                "there another password_hash, asked for another password_hash",
            ),
            (
                hash("abc"),
                password(None),
                "there a password_hash, asked for nothing",
            ),
        ] {
            assert_eq!(told(&there, &asked), [format!("{named}: {text}")]);
        }
        let document = |cloud_init| Facts {
            cloud_init: Some(cloud_init),
            ..Facts::default()
        };
        let (one, other) = (
            document(CloudInitFact::TextSha256("abc".into())),
            document(CloudInitFact::Version("1".into())),
        );
        assert_eq!(
            told(&one, &other),
            ["cloud_init: there a text, asked for cloud_init_wo_version \"1\""]
        );
    }

    #[test]
    fn a_long_list_shows_what_the_other_has_not() {
        let ports = |ports: std::ops::RangeInclusive<u16>| Facts {
            allowed_ports: Some(ports.collect()),
            ..Facts::default()
        };
        assert_eq!(
            told(&ports(1..=1000), &ports(1..=1001)),
            [
                "access.allowed_ports: there 1000 elements, all of which the other has too, asked for 1001 elements, among them 1001"
            ]
        );
        assert_eq!(
            told(&ports(1..=20), &ports(1..=1)),
            ["access.allowed_ports: there 20 elements, among them 2, 3, 4, 5, 6, 7, 8, 9, …, asked for [1]"]
        );
    }
}

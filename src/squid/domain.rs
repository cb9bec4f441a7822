//! One destination of `allowed_domains`: a host, a domain with everything below it, or an address.
//!
//! It must not know how Squid is configured beyond what its `dstdomain` can match. Invariant: the
//! text of a [`Domain`] consists of letters, digits, dashes, underscores and dots, or is an address.

use std::collections::HashSet;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// The longest name that DNS can hold, without the final dot.
const LONGEST_NAME: usize = 253;
/// The longest label that DNS can hold.
const LONGEST_LABEL: usize = 63;

/// A destination: `example.com` that host alone, `.example.com` the domain and everything below it,
/// `192.0.2.1` a URL that names this address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Domain {
    /// Exactly this host.
    Host(String),
    /// This domain and everything below it; held without its leading dot.
    Tree(String),
    /// A URL whose host is this address.
    Address(IpAddr),
}

/// A destination that Squid could not match as its author meant it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{value}\" {rule}")]
pub struct InvalidDomain {
    value: String,
    rule: &'static str,
}

impl Domain {
    /// The name that this one and everything below it have.
    fn tree(&self) -> Option<&str> {
        match self {
            Self::Tree(name) => Some(name),
            Self::Host(_) | Self::Address(_) => None,
        }
    }
}

/// `domains` without those that another one covers, sorted: Squid refuses to start on a list in
/// which one entry contains another.
pub(super) fn minimal(mut domains: Vec<Domain>) -> Vec<Domain> {
    domains.sort_unstable();
    domains.dedup();
    let trees: HashSet<String> = domains
        .iter()
        .filter_map(Domain::tree)
        .map(str::to_owned)
        .collect();
    domains.retain(|domain| match domain {
        Domain::Host(name) => !within(name, true, &trees),
        Domain::Tree(name) => !within(name, false, &trees),
        Domain::Address(_) => true,
    });
    domains
}

/// Whether one of the trees has a name in it; `at_root`: or at its root. Looked up name by name from
/// the left, since lists may hold thousands.
fn within(name: &str, at_root: bool, trees: &HashSet<String>) -> bool {
    let above = std::iter::successors(Some(name), |name| name.split_once('.').map(|(_, above)| above));
    above.skip(usize::from(!at_root)).any(|name| trees.contains(name))
}

impl FromStr for Domain {
    type Err = InvalidDomain;

    fn from_str(value: &str) -> Result<Self, InvalidDomain> {
        let refuse = |rule| {
            Err(InvalidDomain {
                value: value.to_owned(),
                rule,
            })
        };
        let plain = value.strip_suffix('.').unwrap_or(value).to_ascii_lowercase();
        let unbracketed = plain
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'))
            .unwrap_or(&plain);
        if let Ok(address) = unbracketed.parse::<IpAddr>() {
            return Ok(Self::Address(address.to_canonical()));
        }
        if !value.is_ascii() {
            return refuse("must be written in its ASCII form, which starts with xn--");
        }
        if value.contains("://") || value.contains('/') {
            return refuse("must be a domain such as \"example.com\", not a URL or a network");
        }
        if value.starts_with('*') {
            return refuse(
                "must not have a wildcard: \".example.com\" is the domain and everything below it",
            );
        }
        let (tree, name) = match plain.strip_prefix('.') {
            Some(name) => (true, name),
            None => (false, plain.as_str()),
        };
        let label_is_sound = |label: &str| {
            (1..=LONGEST_LABEL).contains(&label.len())
                && !label.starts_with('-')
                && !label.ends_with('-')
                && label
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
        };
        if name.len() > LONGEST_NAME || !name.split('.').all(label_is_sound) {
            return refuse(
                "must be a domain: labels of 1 to 63 letters, digits, dashes or underscores joined by single dots",
            );
        }
        // No top-level domain is a number: such a text is a spelling of an address, which Squid
        // would compare letter by letter with the other spellings of the same address.
        let last = name.rsplit('.').next().unwrap_or(name);
        if last.bytes().all(|byte| byte.is_ascii_digit()) || last.starts_with("0x") {
            return refuse("looks like an address and is none: write it as four decimal numbers");
        }
        Ok(if tree {
            Self::Tree(name.to_owned())
        } else {
            Self::Host(name.to_owned())
        })
    }
}

impl fmt::Display for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host(name) => f.write_str(name),
            Self::Tree(name) => write!(f, ".{name}"),
            Self::Address(IpAddr::V4(address)) => address.fmt(f),
            // As in a URL, which is what Squid compares it with.
            Self::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn domain(text: &str) -> Domain {
        text.parse().expect(text)
    }

    #[test]
    fn a_domain_keeps_its_grammar() {
        for (written, read) in [
            ("example.com", "example.com"),
            ("Example.COM.", "example.com"),
            (".Example.com", ".example.com"),
            (".com", ".com"),
            ("localhost", "localhost"),
            (
                "_dmarc.a-b.xn--bcher-kva.example",
                "_dmarc.a-b.xn--bcher-kva.example",
            ),
            ("192.0.2.1", "192.0.2.1"),
            ("::ffff:192.0.2.1", "192.0.2.1"),
            ("[2001:DB8::1]", "[2001:db8::1]"),
            ("2001:db8:0:0::1", "[2001:db8::1]"),
        ] {
            assert_eq!(domain(written).to_string(), read, "{written}");
        }
        let long_label = format!("{}.example", "a".repeat(64));
        let long_name = ["a".repeat(63).as_str(); 4].join(".");
        for bad in [
            "",
            ".",
            "..",
            "..example.com",
            "a..b",
            "-a.example",
            "a-.example",
            "a b",
            "a\nhttp_access allow all",
            "a\thttp",
            "\"/etc/passwd\"",
            "a#b",
            "a;b",
            "-n",
            "*",
            "*.example.com",
            "https://example.com",
            "example.com/path",
            "example.com:443",
            "10.0.0.0/8",
            "1.2.3",
            "2130706433",
            "0x7f.0x1",
            "bücher.example",
            "all\u{a0}",
            long_label.as_str(),
            long_name.as_str(),
        ] {
            let error = bad.parse::<Domain>().expect_err(bad);
            assert!(error.to_string().contains(bad), "{error} names {bad}");
        }
    }

    /// Whether everything that `other` matches is matched by `one` too.
    fn covers(one: &Domain, other: &Domain) -> bool {
        match (one, other) {
            (Domain::Tree(tree), Domain::Host(name) | Domain::Tree(name)) => name
                .strip_suffix(tree.as_str())
                .is_some_and(|above| above.is_empty() || above.ends_with('.')),
            _ => one == other,
        }
    }

    proptest::proptest! {
        #[test]
        fn nothing_is_left_out_but_what_another_entry_covers(
            listed in proptest::collection::vec("\\.?([ab]{1,2}\\.){0,3}[ab]", 0..12)
        ) {
            let listed: Vec<_> = listed.iter().map(|text| domain(text)).collect();
            let kept = minimal(listed.clone());
            for domain in &listed {
                proptest::prop_assert!(kept.iter().any(|kept| covers(kept, domain)), "{domain} is lost");
            }
            for domain in &kept {
                proptest::prop_assert!(
                    kept.iter().all(|other| other == domain || !covers(other, domain)),
                    "{domain} is covered"
                );
            }
        }
    }

    #[test]
    fn what_another_entry_covers_is_left_out() {
        let listed = [
            "a.example.com",
            ".example.com",
            "example.com",
            ".b.example.com",
            "notexample.com",
            "example.org",
            "10.0.0.1",
            ".1.example.net",
        ];
        let kept: Vec<_> = minimal(listed.map(domain).to_vec())
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(
            kept,
            [
                "example.org",
                "notexample.com",
                ".1.example.net",
                ".example.com",
                "10.0.0.1"
            ]
        );
    }
}

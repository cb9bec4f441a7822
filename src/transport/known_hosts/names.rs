//! The first field of a known_hosts line: which hosts the line speaks of.
//!
//! It must not know what keys are. Invariant: a name matches here exactly when OpenSSH's client says
//! so, with one exception that is stricter: there is no second look without the port.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha1::Sha1;

/// The port for which host names are recorded bare.
pub const DEFAULT_PORT: u16 = 22;

/// OpenSSH gives up on longer patterns, and with them on the whole list.
const LONGEST_PATTERN: usize = 1023;

/// A host as it is looked up: in lower case, and in the form `[host]:port` unless the port is 22.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HostName {
    host: String,
    port: u16,
}

impl HostName {
    /// The host that a client asked for, in any case, and its port. An IPv6 address may stand in
    /// brackets.
    #[must_use]
    pub fn new(host: &str, port: u16) -> Self {
        let bare = host
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'))
            .unwrap_or(host);
        Self {
            host: bare.to_ascii_lowercase(),
            port,
        }
    }

    /// The host alone, which is what certificates speak of.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The same host at the default port, if that is another name.
    pub(super) fn without_port(&self) -> Option<Self> {
        (self.port != DEFAULT_PORT).then(|| Self::new(&self.host, DEFAULT_PORT))
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.port == DEFAULT_PORT {
            f.write_str(&self.host)
        } else {
            write!(f, "[{}]:{}", self.host, self.port)
        }
    }
}

/// Why a host field cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the hashed host name is malformed")]
pub struct MalformedHash;

/// Whether the host field `field` speaks of `name`, the looked-up form.
///
/// # Errors
/// When the field claims to be hashed and is not.
pub fn field_matches(field: &[u8], name: &str) -> Result<bool, MalformedHash> {
    match field.strip_prefix(b"|") {
        Some(hashed) => hash_matches(hashed, name),
        None => Ok(list_matches(field, name.as_bytes())),
    }
}

/// `1|salt|hash`, both in base64: HMAC-SHA1 of the name, keyed by the salt.
fn hash_matches(hashed: &[u8], name: &str) -> Result<bool, MalformedHash> {
    let rest = hashed.strip_prefix(b"1|").ok_or(MalformedHash)?;
    let bar = rest.iter().position(|&byte| byte == b'|').ok_or(MalformedHash)?;
    let decode = |text: &[u8]| STANDARD.decode(text).map_err(|_undecodable| MalformedHash);
    let (salt, hash) = (decode(&rest[..bar])?, decode(&rest[bar + 1..])?);
    // OpenSSH accepts salts of exactly the hash's length.
    if salt.len() != 20 || hash.len() != 20 {
        return Err(MalformedHash);
    }
    let mut mac = Hmac::<Sha1>::new_from_slice(&salt).map_err(|_length| MalformedHash)?;
    mac.update(name.as_bytes());
    Ok(mac.verify_slice(&hash).is_ok())
}

/// A comma-separated list of patterns; one that begins with `!` and matches rules the line out,
/// whatever else matches.
fn list_matches(list: &[u8], name: &[u8]) -> bool {
    let mut matched = false;
    for pattern in list.split(|&byte| byte == b',') {
        let (negated, pattern) = match pattern.strip_prefix(b"!") {
            Some(rest) => (true, rest),
            None => (false, pattern),
        };
        if pattern.len() > LONGEST_PATTERN {
            return false;
        }
        if pattern_matches(pattern, name) {
            if negated {
                return false;
            }
            matched = true;
        }
    }
    matched
}

/// `*` stands for any run of characters, `?` for any single one; upper case in the pattern counts
/// as lower case. `name` is in lower case.
///
/// It remembers only the last star: linear in memory, quadratic in time at worst.
pub(super) fn pattern_matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut seen) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while seen < name.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at + 1, seen));
                at += 1;
            }
            Some(&byte) if byte == b'?' || byte.to_ascii_lowercase() == name[seen] => {
                at += 1;
                seen += 1;
            }
            _ => match star {
                Some((after, from)) => {
                    at = after;
                    seen = from + 1;
                    star = Some((after, from + 1));
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|&byte| byte == b'*')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_looked_up_form() {
        for (host, port, form) in [
            ("kvm1.lan", 22, "kvm1.lan"),
            ("KVM1.Lan", 22, "kvm1.lan"),
            ("kvm1.lan", 2222, "[kvm1.lan]:2222"),
            ("fd00::5", 22, "fd00::5"),
            ("[fd00::5]", 22, "fd00::5"),
            ("FD00::5", 2222, "[fd00::5]:2222"),
        ] {
            assert_eq!(HostName::new(host, port).to_string(), form);
        }
    }

    #[test]
    fn patterns() {
        for (list, name, matches) in [
            ("kvm1.lan", "kvm1.lan", true),
            ("KVM1.LAN", "kvm1.lan", true),
            ("kvm1", "kvm1.lan", false),
            ("a,kvm1.lan,b", "kvm1.lan", true),
            ("*.lan", "kvm1.lan", true),
            ("*", "kvm1.lan", true),
            ("**n", "kvm1.lan", true),
            ("kvm?.lan", "kvm1.lan", true),
            ("kvm?.lan", "kvm12.lan", false),
            ("kvm*", "kvm", true),
            ("?", "", false),
            ("*.lan,!kvm1.lan", "kvm1.lan", false),
            ("!kvm1.lan,*.lan", "kvm1.lan", false),
            ("!kvm1.lan,*.lan", "kvm2.lan", true),
            ("!kvm1.lan", "kvm2.lan", false),
            ("!KVM1.*,*", "kvm1.lan", false),
            ("[*]:2222", "[h]:2222", true),
            ("*:2222", "[h]:2222", true),
            ("[kvm1.lan]:22", "kvm1.lan", false),
            ("", "kvm1.lan", false),
            (",", "kvm1.lan", false),
        ] {
            assert_eq!(
                list_matches(list.as_bytes(), name.as_bytes()),
                matches,
                "{list} {name}"
            );
        }
        let long = format!("{},kvm1.lan", "x".repeat(1024));
        assert!(!list_matches(long.as_bytes(), b"kvm1.lan"));
    }

    #[test]
    fn a_hash_made_by_openssh() {
        // `ssh-keygen -H` over a line for `h`.
        let field = b"|1|yC5meock/BJjsNF060PY/+CAIEw=|wizEBEx0uLNonNxcSnhHmHA8/1Y=";
        assert_eq!(field_matches(field, "h"), Ok(true));
        assert_eq!(field_matches(field, "[h]:7999"), Ok(false));
        assert_eq!(field_matches(field, "H"), Ok(false));
    }

    #[test]
    fn malformed_hashes() {
        for field in [
            "|",
            "|1|",
            "|1|a",
            "|2|yC5meock/BJjsNF060PY/+CAIEw=|wizEBEx0uLNonNxcSnhHmHA8/1Y=",
            "|1|yC5meock/BJjsNF060PY/+CAIEw=|",
            "|1||wizEBEx0uLNonNxcSnhHmHA8/1Y=",
            "|1|yC5meock/BJjsNF060PY/+CAIEw=|wizEBEx0uLNonNxcSnhHmHA8/1Y=|",
            "|1|AAAA|AAAA",
        ] {
            assert_eq!(
                field_matches(field.as_bytes(), "h"),
                Err(MalformedHash),
                "{field}"
            );
        }
    }

    /// The definition, by recursion.
    fn defined(pattern: &[u8], name: &[u8]) -> bool {
        match (pattern.first(), name.first()) {
            (None, None) => true,
            (Some(b'*'), _) => {
                defined(&pattern[1..], name) || (!name.is_empty() && defined(pattern, &name[1..]))
            }
            (Some(b'?'), Some(_)) => defined(&pattern[1..], &name[1..]),
            (Some(a), Some(b)) if a == b => defined(&pattern[1..], &name[1..]),
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn the_matcher_agrees_with_the_definition(pattern in "[ab*?]{0,8}", name in "[ab]{0,10}") {
            prop_assert_eq!(
                pattern_matches(pattern.as_bytes(), name.as_bytes()),
                defined(pattern.as_bytes(), name.as_bytes())
            );
        }

        #[test]
        fn no_field_panics(field in proptest::collection::vec(any::<u8>(), 0..80), name in ".{0,20}") {
            let _ = field_matches(&field, &name);
        }
    }
}

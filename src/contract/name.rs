//! The names and ids of the contract, each its own type, parsed once at the edge.
//!
//! Nothing here does I/O or knows a backend. Invariant: a value of one of these types fits its
//! grammar.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// A name that does not fit its grammar; the text says which rule it breaks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} \"{value}\" {rule}")]
pub struct InvalidName {
    pub(super) what: &'static str,
    pub(super) value: String,
    pub(super) rule: &'static str,
}

/// Lower-case letters, digits and dashes, starting with a letter, ending with a letter or digit.
fn is_dashed(value: &str, longest: usize) -> bool {
    let bytes = value.as_bytes();
    let (Some(first), Some(last)) = (bytes.first(), bytes.last()) else {
        return false;
    };
    bytes.len() <= longest
        && first.is_ascii_lowercase()
        && (last.is_ascii_lowercase() || last.is_ascii_digit())
        && bytes
            .iter()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'-')
}

macro_rules! dashed_name {
    ($(#[$meta:meta])* $name:ident, $what:literal, $longest:literal, $rule:literal) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// The name as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = InvalidName;

            fn from_str(value: &str) -> Result<Self, InvalidName> {
                if is_dashed(value, $longest) {
                    Ok(Self(value.to_owned()))
                } else {
                    Err(InvalidName { what: $what, value: value.to_owned(), rule: $rule })
                }
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidName;

            fn try_from(value: String) -> Result<Self, InvalidName> {
                value.parse()
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> Self {
                name.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

dashed_name!(
    /// The name a user gave a backend: the first segment of every id, a label value.
    BackendName,
    "backend name",
    40,
    "must be 1 to 40 lower-case letters, digits or dashes, start with a letter and not end with a dash"
);
dashed_name!(
    /// Who owns what is created: two installations never touch each other's instances.
    Installation,
    "installation",
    40,
    "must be 1 to 40 lower-case letters, digits or dashes, start with a letter and not end with a dash"
);
dashed_name!(
    /// The namespace of a proxy.
    Namespace,
    "namespace",
    63,
    "must be 1 to 63 lower-case letters, digits or dashes, start with a letter and not end with a dash"
);
dashed_name!(
    /// The name of a proxy within its namespace. A backend may narrow this grammar in `resolve`.
    ProxyName,
    "name",
    63,
    "must be 1 to 63 lower-case letters, digits or dashes, start with a letter and not end with a dash"
);

impl Namespace {
    /// The namespace of a proxy that names none.
    pub const DEFAULT: &'static str = "default";

    /// Whether it is the one a proxy gets that names none.
    #[must_use]
    pub fn is_default(&self) -> bool {
        self.0 == Self::DEFAULT
    }
}

impl Default for Namespace {
    fn default() -> Self {
        Self(Self::DEFAULT.to_owned())
    }
}

/// A backend's own id of an instance, such as `hosts/beelink/domains/a`: printable ASCII without
/// spaces, segments separated by `/`, none of them empty. Its further grammar is the backend's.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct NativeId(String);

impl NativeId {
    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for NativeId {
    type Err = InvalidName;

    fn from_str(value: &str) -> Result<Self, InvalidName> {
        let printable = value.bytes().all(|byte| byte.is_ascii_graphic());
        if printable && value.len() <= 512 && value.split('/').all(|segment| !segment.is_empty()) {
            Ok(Self(value.to_owned()))
        } else {
            Err(InvalidName {
                what: "id",
                value: value.to_owned(),
                rule: "must be non-empty segments of printable characters separated by single slashes",
            })
        }
    }
}

impl TryFrom<String> for NativeId {
    type Error = InvalidName;

    fn try_from(value: String) -> Result<Self, InvalidName> {
        value.parse()
    }
}

impl From<NativeId> for String {
    fn from(id: NativeId) -> Self {
        id.0
    }
}

impl fmt::Display for NativeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The id in the state: `<backend>/<backend's own id>`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InstanceId {
    /// The configured backend.
    pub backend: BackendName,
    /// The backend's own id.
    pub native: NativeId,
}

impl FromStr for InstanceId {
    type Err = InvalidName;

    fn from_str(value: &str) -> Result<Self, InvalidName> {
        let Some((backend, native)) = value.split_once('/') else {
            return Err(InvalidName {
                what: "id",
                value: value.to_owned(),
                rule: "must be the backend's name, a slash, and the backend's own id",
            });
        };
        Ok(Self {
            backend: backend.parse()?,
            native: native.parse()?,
        })
    }
}

impl fmt::Display for InstanceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.backend, self.native)
    }
}

/// What create works on: two requests with the same key mean the same proxy.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct InstanceKey {
    /// Who owns it.
    pub installation: Installation,
    /// Its namespace.
    pub namespace: Namespace,
    /// Its name.
    pub name: ProxyName,
}

impl fmt::Display for InstanceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}/{} of installation {}",
            self.namespace, self.name, self.installation
        )
    }
}

macro_rules! uuid_newtype {
    ($(#[$meta:meta])* $name:ident) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Uuid);

        impl $name {
            /// The UUID itself.
            #[must_use]
            pub fn as_uuid(&self) -> Uuid {
                self.0
            }
        }

        impl FromStr for $name {
            type Err = uuid::Error;

            fn from_str(value: &str) -> Result<Self, uuid::Error> {
                Uuid::from_str(value).map(Self)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

uuid_newtype!(
    /// UUIDv5 of (installation, namespace, name, spec hash): the adoption guard. The same request
    /// has the same uid; another spec is another uid.
    Uid
);
uuid_newtype!(
    /// UUIDv7, new with every create and every adoption: tells the instance a state holds from one
    /// that took its place under the same name.
    Incarnation
);

impl Uid {
    /// The namespace of our UUIDv5s, itself a random UUID chosen once.
    const NAMESPACE: Uuid = Uuid::from_u128(0x6a0c_5d5e_8d3c_4a6f_9b1e_2f4c_71d0_83b7);

    /// The uid that `key` with a spec of that hash has.
    #[must_use]
    pub fn of(key: &InstanceKey, spec_sha256: &str) -> Self {
        // No part may contain a newline, so that the joined text is unambiguous.
        let text = format!(
            "{}\n{}\n{}\n{spec_sha256}",
            key.installation, key.namespace, key.name
        );
        Self(Uuid::new_v5(&Self::NAMESPACE, text.as_bytes()))
    }
}

impl Incarnation {
    /// A new one, later than all before.
    #[must_use]
    pub fn fresh() -> Self {
        Self(Uuid::now_v7())
    }

    /// When it was made, to the millisecond; `None` for a UUID that carries no time.
    #[must_use]
    pub fn made_at(&self) -> Option<Timestamp> {
        let (seconds, nanoseconds) = self.0.get_timestamp()?.to_unix();
        Timestamp::new(i64::try_from(seconds).ok()?, i32::try_from(nanoseconds).ok()?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_keep_their_grammar() {
        for good in ["a", "a1", "prod-eu", "a-0"] {
            assert!(good.parse::<BackendName>().is_ok(), "{good}");
        }
        let long = "a".repeat(41);
        for bad in ["", "A", "1a", "a-", "-a", "a_b", "a.b", "a/b", "ä", long.as_str()] {
            assert!(bad.parse::<BackendName>().is_err(), "{bad}");
        }
    }

    #[test]
    fn ids_are_a_backend_and_its_own_id() {
        let id: InstanceId = "lab/hosts/h1/domains/vlab-01".parse().expect("valid");
        assert_eq!(id.backend.as_str(), "lab");
        assert_eq!(id.native.as_str(), "hosts/h1/domains/vlab-01");
        assert_eq!(id.to_string(), "lab/hosts/h1/domains/vlab-01");
        for bad in ["", "lab", "lab/", "/x", "lab//x", "lab/x/", "Lab/x", "lab/a b"] {
            assert!(bad.parse::<InstanceId>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_uid_follows_from_key_and_spec() {
        let key = |name: &str| InstanceKey {
            installation: "prod".parse().expect("valid"),
            namespace: Namespace::default(),
            name: name.parse().expect("valid"),
        };
        let uid = Uid::of(&key("a"), "v1:00");
        assert_eq!(uid, Uid::of(&key("a"), "v1:00"));
        assert_ne!(uid, Uid::of(&key("b"), "v1:00"));
        assert_ne!(uid, Uid::of(&key("a"), "v1:01"));
        assert_eq!(uid.as_uuid().get_version_num(), 5);
    }

    #[test]
    fn an_incarnation_knows_when_it_was_made() {
        let before = Timestamp::now();
        let made = Incarnation::fresh()
            .made_at()
            .expect("a v7 UUID carries its time");
        assert!(made.duration_since(before).abs() < jiff::SignedDuration::from_secs(60));
    }
}

//! What the provider keeps beside the state: the facts of an instance, and work left to finish.
//!
//! Must not hold a secret: private data lies in the state file as it is. Invariant: nothing here is
//! needed to find an instance, and a read restores what is missing, so that data which cannot be
//! read (of a newer version, say) is no error.

use serde::{Deserialize, Serialize};

use crate::contract::Facts;

/// The private data.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Private {
    /// The create-only facts as they took effect. The state holds only what the configuration
    /// gives, because core demands that an omitted block is null.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) facts: Option<Facts>,
    /// Whether a create was interrupted or its wait ran out: the next apply goes on with it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) unfinished: bool,
}

impl Private {
    /// Reads it.
    pub(super) fn decode(bytes: &[u8]) -> Self {
        if bytes.is_empty() {
            return Self::default();
        }
        serde_json::from_slice(bytes).unwrap_or_default()
    }

    /// Writes it.
    pub(super) fn encode(&self) -> Vec<u8> {
        // A struct of strings and numbers always has a JSON form.
        serde_json::to_vec(self).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_data_reads_back() {
        let facts = Facts {
            zone: Some("h1".into()),
            ..Facts::default()
        };
        for unfinished in [false, true] {
            for facts in [None, Some(facts.clone().with_common_defaults())] {
                let private = Private { facts, unfinished };
                assert_eq!(Private::decode(&private.encode()), private);
            }
        }
    }

    #[test]
    fn what_cannot_be_read_is_empty() {
        for bytes in [
            &b""[..],
            b"{}",
            b"garbage",
            b"[1]",
            br#"{"facts":{"from_the_future":1}}"#,
        ] {
            assert_eq!(Private::decode(bytes), Private::default());
        }
    }

    #[test]
    fn data_of_a_newer_version_is_read_as_far_as_it_is_known() {
        let private = Private::decode(br#"{"unfinished":true,"more":1}"#);
        assert!(private.unfinished);
    }
}

//! `instance.json`: the mark of a proxy of this machine, and which process it is.
//!
//! It must not do I/O. Invariant: it holds no secret, and what was written by a newer release is
//! refused rather than half understood.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::contract::model::label_keys;
use crate::contract::{Instance, Mark, NativeId, State, Target};

/// The version of the format that is written.
const VERSION: u32 = 1;

/// A process, told apart from any other that gets the same number: after the boot, or after it ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Identity {
    /// Its number.
    pub(super) pid: u32,
    /// When it started, in clock ticks after the boot.
    pub(super) start_time: u64,
    /// Which boot.
    pub(super) boot_id: String,
}

/// What is known of a proxy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Record {
    /// The version of this format.
    pub(super) version: u32,
    /// The mark.
    pub(super) mark: Mark,
    /// The user's labels, and whatever others somebody added by hand.
    #[serde(default)]
    pub(super) labels: BTreeMap<String, String>,
    /// The addresses it listens on; the first is its address. They stay when the configuration
    /// changes: it is another proxy's matter.
    pub(super) listen: Vec<IpAddr>,
    /// The process, once it was started.
    #[serde(default)]
    pub(super) process: Option<Identity>,
    /// The name under which its Squid keeps shared memory: removed with it.
    pub(super) service: String,
    /// Whether its deletion began: only remains are left, and they are not started again.
    #[serde(default)]
    pub(super) deleting: bool,
}

/// Why a record cannot be used. It never quotes the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unreadable {
    #[error("is not what this provider writes")]
    Malformed,
    #[error("was written by a newer release of this provider")]
    Newer,
}

/// What the process table says about a record's process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Liveness {
    /// It runs.
    Runs,
    /// A signal paused it.
    Paused,
    /// None is recorded: it was never started, or its start was cut off.
    NeverStarted,
    /// It ended.
    Ended,
    /// The machine was started again since.
    Rebooted,
    /// Its number belongs to another process by now.
    PidReused,
}

impl Liveness {
    /// The words for a person.
    pub(super) fn reason(self) -> Option<&'static str> {
        match self {
            Self::Runs => None,
            Self::Paused => Some("its Squid is paused by a signal"),
            Self::NeverStarted => Some("no start of its Squid is recorded"),
            Self::Ended => Some("its Squid does not run any more"),
            Self::Rebooted => Some("the machine was restarted since its Squid was started"),
            Self::PidReused => {
                Some("its Squid does not run any more, and the number of its process belongs to another one")
            }
        }
    }
}

impl Record {
    /// A record before its process is started.
    pub(super) fn new(mark: Mark, labels: BTreeMap<String, String>, listen: Vec<IpAddr>) -> Self {
        Self {
            version: VERSION,
            service: mark.incarnation.as_uuid().simple().to_string(),
            mark,
            labels,
            listen,
            process: None,
            deleting: false,
        }
    }

    /// Reads a file's text.
    pub(super) fn parse(text: &[u8]) -> Result<Self, Unreadable> {
        #[derive(Deserialize)]
        struct Version {
            version: u32,
        }
        let Version { version } = serde_json::from_slice(text).map_err(|_| Unreadable::Malformed)?;
        if version > VERSION {
            return Err(Unreadable::Newer);
        }
        let record: Self = serde_json::from_slice(text).map_err(|_| Unreadable::Malformed)?;
        // The service names files that are deleted: it is ours or nothing.
        let sound = is_service(&record.service) && !record.listen.is_empty();
        if sound {
            Ok(record)
        } else {
            Err(Unreadable::Malformed)
        }
    }

    /// The file's text.
    pub(super) fn to_json(&self) -> Result<Vec<u8>, serde_json::Error> {
        let mut text = serde_json::to_vec_pretty(self)?;
        text.push(b'\n');
        Ok(text)
    }

    /// Sets these labels and removes those that the user set before and wants no longer; labels that
    /// somebody else added stay.
    pub(super) fn relabel(&mut self, wanted: &BTreeMap<String, String>, prior: &BTreeSet<String>) {
        let ours = self.mark.label_keys.union(prior);
        for key in ours {
            self.labels.remove(key);
        }
        self.labels.extend(wanted.clone());
        self.mark.label_keys = label_keys(wanted);
    }

    /// The instance that this record and its process are.
    pub(super) fn instance(&self, id: NativeId, target: Target, liveness: Liveness) -> Instance {
        let (state, reason) = if self.deleting {
            (State::Terminated, Some("its deletion was begun and not finished"))
        } else {
            match liveness {
                Liveness::Runs => (State::Running, None),
                other => (State::Stopped, other.reason()),
            }
        };
        let running = state == State::Running;
        Instance {
            id,
            mark: self.mark.clone(),
            target,
            state,
            started: running,
            ip: self.listen.first().copied().filter(|_| running),
            // Which of the machine's addresses a destination sees is the routing table's choice.
            egress_ip: None,
            created_at: self.mark.created_at,
            labels: self
                .labels
                .iter()
                .filter(|(key, _)| self.mark.label_keys.contains(*key))
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect(),
            reason: reason.map(str::to_owned),
        }
    }
}

/// Whether a name is one that [`Record::new`] gives a service.
pub(super) fn is_service(name: &str) -> bool {
    name.len() == 32 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::contract::{Facts, Incarnation, InstanceKey, Namespace, Uid};

    pub(in super::super) fn record() -> Record {
        let key = InstanceKey {
            installation: "prod".parse().expect("valid"),
            namespace: Namespace::default(),
            name: "a".parse().expect("valid"),
        };
        let facts = Facts::default().with_common_defaults();
        let mark = Mark {
            uid: Uid::of(&key, &facts.sha256()),
            key,
            incarnation: Incarnation::fresh(),
            pending: true,
            label_keys: BTreeSet::from(["team".to_owned()]),
            created_at: Some(jiff::Timestamp::now()),
            spec_sha256: facts.sha256(),
            facts,
            given: BTreeSet::new(),
        };
        let labels = BTreeMap::from([("team".to_owned(), "x".to_owned())]);
        Record::new(mark, labels, vec!["127.0.0.1".parse().expect("an address")])
    }

    #[test]
    fn a_record_survives_its_json() {
        let record = Record {
            process: Some(Identity {
                pid: 7,
                start_time: 9,
                boot_id: "b".into(),
            }),
            ..record()
        };
        assert_eq!(Record::parse(&record.to_json().expect("JSON")), Ok(record));
    }

    #[test]
    fn what_is_not_ours_is_refused_without_quoting_it() {
        let good = String::from_utf8(record().to_json().expect("JSON")).expect("UTF-8");
        assert!(Record::parse(good.as_bytes()).is_ok());
        let service = record().service;
        for (text, why) in [
            (String::new(), Unreadable::Malformed),
            ("{}".into(), Unreadable::Malformed),
            (good[..good.len() / 2].into(), Unreadable::Malformed),
            (
                good.replacen("\"version\": 1", "\"version\": 2, \"new\": 1", 1),
                Unreadable::Newer,
            ),
            (
                good.replacen("\"mark\"", "\"unknown\": 1, \"mark\"", 1),
                Unreadable::Malformed,
            ),
            (good.replacen("127.0.0.1", "localhost", 1), Unreadable::Malformed),
        ] {
            assert_eq!(Record::parse(text.as_bytes()), Err(why), "{text}");
        }
        assert_eq!(service.len(), 32);
        let mut planted = record();
        planted.service = "../../etc".into();
        assert_eq!(
            Record::parse(&planted.to_json().expect("JSON")),
            Err(Unreadable::Malformed)
        );
    }

    #[test]
    fn the_state_follows_from_the_process() {
        let id: NativeId = "default/a".parse().expect("an id");
        let record = record();
        let of = |record: &Record, liveness| record.instance(id.clone(), Target::default(), liveness);
        let running = of(&record, Liveness::Runs);
        assert_eq!((running.state, running.started), (State::Running, true));
        assert_eq!(running.ip, Some("127.0.0.1".parse().expect("an address")));
        for liveness in [
            Liveness::Paused,
            Liveness::NeverStarted,
            Liveness::Ended,
            Liveness::Rebooted,
            Liveness::PidReused,
        ] {
            let stopped = of(&record, liveness);
            assert_eq!(
                (stopped.state, stopped.ip),
                (State::Stopped, None),
                "{liveness:?}"
            );
            assert!(stopped.reason.is_some(), "{liveness:?}");
        }
        let deleting = Record {
            deleting: true,
            ..record
        };
        assert_eq!(of(&deleting, Liveness::Runs).state, State::Terminated);
    }

    #[test]
    fn relabelling_leaves_the_labels_of_others() {
        let mut record = record();
        record.labels.insert("by-hand".into(), "1".into());
        record.labels.insert("old".into(), "1".into());
        let wanted = BTreeMap::from([("new".to_owned(), "2".to_owned())]);
        record.relabel(&wanted, &BTreeSet::from(["old".to_owned()]));
        let keys: Vec<_> = record.labels.keys().map(String::as_str).collect();
        assert_eq!(keys, ["by-hand", "new"]);
        let shown = record.instance(
            "default/a".parse().expect("an id"),
            Target::default(),
            Liveness::Runs,
        );
        assert_eq!(shown.labels, wanted);
    }
}

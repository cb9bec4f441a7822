//! What the reference backend drives: places with machines, instances, what belongs to them, and
//! the faults a test put in. It is also the document of the world file.
//!
//! It must not know operations or their rules. Invariant: every field has a default, so that a test
//! may write a world file that says only what matters to it.
//!
//! # The world file
//! ```json
//! {
//!   "zones": { "z1": { "machine": "m1", "reachable": true, "instances": {}, "secondary": [] } },
//!   "settle": 2,
//!   "linger": 1,
//!   "latency_ms": 50,
//!   "faults": [
//!     { "operation": "create", "step": "handover", "times": 1,
//!       "effect": { "fail": { "kind": "transient", "message": "connection reset" } } },
//!     { "operation": "get", "id": "z1/", "times": 0, "effect": "hang" }
//!   ]
//! }
//! ```
//! It is read again whenever it changed, so a test may rewrite it between two runs of a CLI.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::contract::error::{ErrorKind, Operation};
use crate::contract::mark::Mark;
use crate::contract::model::{InstanceKey, NativeId, Target, Uid};

/// Everything there is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct World {
    /// The places, by name. A place that is missing here exists and is empty.
    pub zones: BTreeMap<String, Zone>,
    /// How many gets see a new or started instance on its way before it runs.
    pub settle: u32,
    /// How many gets see a deleted instance leaving before it is gone (`returns-early` only).
    pub linger: u32,
    /// How long every remote call takes.
    pub latency_ms: u64,
    /// What goes wrong.
    pub faults: Vec<Fault>,
    /// How many addresses were given out.
    pub addresses: u32,
}

/// A place with one machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Zone {
    /// The identity of the machine behind the place's name; empty: the name itself.
    pub machine: String,
    /// Whether it answers.
    pub reachable: bool,
    /// Its instances, by `namespace/name`.
    pub instances: BTreeMap<String, Record>,
    /// What belongs to instances, or did.
    pub secondary: Vec<SecondaryRecord>,
}

impl Default for Zone {
    fn default() -> Self {
        Self {
            machine: String::new(),
            reachable: true,
            instances: BTreeMap::new(),
            secondary: Vec::new(),
        }
    }
}

/// One instance, ours or not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// Our mark; `None`: made by something else, or stripped.
    #[serde(default)]
    pub mark: Option<Mark>,
    /// Whether it runs.
    #[serde(default)]
    pub power: Power,
    /// Its address.
    pub address: IpAddr,
    /// Whether the address can be found just now.
    #[serde(default = "yes")]
    pub address_known: bool,
    /// Whether the proxy on it answers.
    #[serde(default = "yes")]
    pub serving: bool,
    /// Whether it can be read at all.
    #[serde(default = "yes")]
    pub readable: bool,
    /// When it was created.
    #[serde(default)]
    pub created_at: Option<Timestamp>,
    /// Every label on it, ours or not.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
}

fn yes() -> bool {
    true
}

/// Whether an instance runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Power {
    /// It does.
    #[default]
    Running,
    /// It will after so many gets.
    Starting(u32),
    /// It does not and can be started.
    Stopped,
    /// It ended and cannot be started.
    Terminated,
    /// It is being deleted and is gone after so many gets.
    Leaving(u32),
}

/// A disk or a rule that belongs to an instance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SecondaryRecord {
    /// The id its instance has or had.
    pub id: NativeId,
    /// Whose it is: the mark, whose incarnation and `pending` mean nothing here.
    pub mark: Mark,
    /// Its name.
    pub name: String,
    /// Whether its content is what create writes.
    #[serde(default = "yes")]
    pub intact: bool,
    /// When it was made.
    #[serde(default)]
    pub created_at: Option<Timestamp>,
}

/// A step of create or delete at which something may go wrong: the step itself does not happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// Create, resume: before the backend accepts the request.
    Accept,
    /// Create: before what belongs to the instance is made. Delete: before it is removed.
    Secondary,
    /// Create: before the instance is made. Delete: before it is removed. Resume: before it is started.
    Instance,
    /// Create, resume: before the mark's `pending` is cleared and the labels are written.
    Handover,
}

/// Something that goes wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// In this operation.
    pub operation: Operation,
    /// At this step; none: before the operation does anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<Step>,
    /// For ids that start so; `z1/` for one zone of a listing; empty: all.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub id: String,
    /// After letting so many pass.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub skip: u32,
    /// So many times; zero: always.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub times: u32,
    /// In this way.
    pub effect: Effect,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// How something goes wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// The call fails.
    Fail {
        /// As this.
        kind: ErrorKind,
        /// Saying this.
        message: String,
        /// Asking for so long a pause.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_after_ms: Option<u64>,
        /// For a cause that all ids with this prefix share.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        affecting: Option<String>,
    },
    /// The call never returns.
    Hang,
    /// The call panics.
    Panic,
    /// The process dies.
    Abort,
}

impl Fault {
    /// The next such call fails as `kind`, once.
    #[must_use]
    pub fn once(operation: Operation, kind: ErrorKind, message: &str) -> Self {
        Self {
            operation,
            step: None,
            id: String::new(),
            skip: 0,
            times: 1,
            effect: Effect::Fail {
                kind,
                message: message.to_owned(),
                retry_after_ms: None,
                affecting: None,
            },
        }
    }

    /// The same at that step.
    #[must_use]
    pub fn at(mut self, step: Step) -> Self {
        self.step = Some(step);
        self
    }

    /// The same only for ids that start so.
    #[must_use]
    pub fn on(mut self, prefix: &str) -> Self {
        prefix.clone_into(&mut self.id);
        self
    }

    /// The same so many times; zero: always.
    #[must_use]
    pub fn times(mut self, times: u32) -> Self {
        self.times = times;
        self
    }

    /// The same in another way.
    #[must_use]
    pub fn with(mut self, effect: Effect) -> Self {
        self.effect = effect;
        self
    }

    fn matches(&self, operation: Operation, step: Option<Step>, id: &str) -> bool {
        // What names no id strikes the operation as a whole, what names one strikes its part.
        let part = if self.id.is_empty() {
            operation != Operation::ListByTag || id.is_empty()
        } else {
            id.starts_with(&self.id)
        };
        self.operation == operation && self.step == step && part
    }
}

/// An id taken apart: `<zone>/<namespace>/<name>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The zone.
    pub zone: String,
    /// `namespace/name`.
    pub slot: String,
}

impl Place {
    /// The grammar, for a person.
    pub const GRAMMAR: &'static str = "<zone>/<namespace>/<name>";

    /// Takes an id apart.
    #[must_use]
    pub fn of(id: &NativeId) -> Option<Self> {
        let (zone, slot) = id.as_str().split_once('/')?;
        (slot.split('/').count() == 2).then(|| Self {
            zone: zone.to_owned(),
            slot: slot.to_owned(),
        })
    }

    /// The place of `key` in `zone`; `None` where the zone's name fits no id.
    #[must_use]
    pub fn in_zone(zone: &str, key: &InstanceKey) -> Option<(NativeId, Self)> {
        let id: NativeId = format!("{zone}/{}/{}", key.namespace, key.name).parse().ok()?;
        let place = Self::of(&id)?;
        Some((id, place))
    }
}

impl World {
    /// Whether a matching fault is in, due or not.
    pub(super) fn has_fault(&self, operation: Operation, step: Option<Step>, id: &str) -> bool {
        self.faults.iter().any(|fault| fault.matches(operation, step, id))
    }

    /// Takes the effect of the first matching fault that is due, and counts it down.
    pub(super) fn strike(&mut self, operation: Operation, step: Option<Step>, id: &str) -> Option<Effect> {
        let index = self
            .faults
            .iter()
            .position(|fault| fault.matches(operation, step, id))?;
        let fault = &mut self.faults[index];
        if fault.skip > 0 {
            fault.skip -= 1;
            return None;
        }
        let effect = fault.effect.clone();
        match fault.times {
            0 => {}
            1 => {
                self.faults.remove(index);
            }
            _ => fault.times -= 1,
        }
        Some(effect)
    }

    /// The zone, made on demand.
    pub fn zone_mut(&mut self, zone: &str) -> &mut Zone {
        self.zones.entry(zone.to_owned()).or_default()
    }

    /// What stands behind the zone's name.
    #[must_use]
    pub fn target(&self, zone: &str) -> Target {
        let machine = self.zones.get(zone).map_or("", |found| found.machine.as_str());
        let machine = if machine.is_empty() { zone } else { machine };
        Target::new([("machine", machine.to_owned())])
    }

    /// Whether the zone answers.
    #[must_use]
    pub fn reachable(&self, zone: &str) -> bool {
        self.zones.get(zone).is_none_or(|zone| zone.reachable)
    }

    /// The instance at that id.
    #[must_use]
    pub fn record(&self, id: &NativeId) -> Option<&Record> {
        let place = Place::of(id)?;
        self.zones.get(&place.zone)?.instances.get(&place.slot)
    }

    /// The instance at that id, to change it.
    pub fn record_mut(&mut self, id: &NativeId) -> Option<&mut Record> {
        let place = Place::of(id)?;
        self.zones.get_mut(&place.zone)?.instances.get_mut(&place.slot)
    }

    /// Puts an instance there.
    pub fn put(&mut self, place: &Place, record: Record) {
        self.zone_mut(&place.zone)
            .instances
            .insert(place.slot.clone(), record);
    }

    /// Takes the instance away, leaving what belonged to it.
    pub fn take(&mut self, id: &NativeId) -> Option<Record> {
        let place = Place::of(id)?;
        self.zones.get_mut(&place.zone)?.instances.remove(&place.slot)
    }

    /// What belongs or belonged to that id.
    pub fn secondary<'a>(&'a self, id: &'a NativeId) -> impl Iterator<Item = &'a SecondaryRecord> {
        Place::of(id)
            .and_then(|place| self.zones.get(&place.zone))
            .into_iter()
            .flat_map(|zone| &zone.secondary)
            .filter(move |secondary| secondary.id == *id)
    }

    /// Removes of what belonged to that id what `chosen` says.
    pub fn drop_secondary(&mut self, id: &NativeId, chosen: impl Fn(&SecondaryRecord) -> bool) {
        if let Some(zone) = Place::of(id).and_then(|place| self.zones.get_mut(&place.zone)) {
            zone.secondary
                .retain(|secondary| secondary.id != *id || !chosen(secondary));
        }
    }

    /// An address nobody had before.
    pub fn next_address(&mut self) -> IpAddr {
        self.addresses += 1;
        // 198.18.0.0/15 is set aside for tests by RFC 2544; it holds 131,072 addresses.
        let [_, high, middle, low] = self.addresses.to_be_bytes();
        IpAddr::V4(Ipv4Addr::new(198, 18 + (high & 1), middle, low))
    }
}

impl Record {
    /// A running instance with that mark and address.
    #[must_use]
    pub fn new(mark: Mark, address: IpAddr) -> Self {
        Self {
            mark: Some(mark),
            power: Power::Running,
            address,
            address_known: true,
            serving: true,
            readable: true,
            created_at: Some(Timestamp::now()),
            labels: BTreeMap::new(),
        }
    }

    /// Something that another tool made.
    #[must_use]
    pub fn foreign(address: IpAddr) -> Self {
        Self {
            mark: None,
            power: Power::Running,
            address,
            address_known: true,
            serving: true,
            readable: true,
            created_at: Some(Timestamp::now()),
            labels: BTreeMap::new(),
        }
    }
}

impl SecondaryRecord {
    /// The disk of an instance.
    pub(super) fn disk(id: &NativeId, mark: &Mark, created_at: Timestamp) -> Self {
        Self {
            id: id.clone(),
            mark: mark.clone(),
            name: format!("disk-{}", mark.uid),
            intact: true,
            created_at: Some(created_at),
        }
    }

    pub(super) fn uid(&self) -> Uid {
        self.mark.uid
    }
}

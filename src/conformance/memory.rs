//! The reference backend's harness: it can stage everything, in memory or in a world file.
//!
//! It must not know the cases. It is also the example for other backends' harnesses.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::{Ability, Broken, Control, Harness, Sighting, Stage};
use crate::contract::memory::{
    Effect, Fault, Memory, Place, Power, Record, Settings, Step, World, WorldHandle,
};
use crate::contract::profile::SecondaryResources;
use crate::contract::{Backend, ErrorKind, Fact, Facts, NativeId, Operation, Profile, Specification, State};

/// What the remote says when it refuses an operation.
pub(super) const REFUSED: &str = "the remote refused";

/// A world with two zones and a reference backend in it.
#[derive(Debug)]
pub struct MemoryHarness {
    settings: Settings,
    world: WorldHandle,
    /// Where the world is a file, each backend opens it anew, as another process would.
    file: Option<(PathBuf, Arc<tempfile_guard::Folder>)>,
}

/// A folder that goes when the harness goes.
mod tempfile_guard {
    use std::path::PathBuf;

    #[derive(Debug)]
    pub(super) struct Folder(pub(super) PathBuf);

    impl Drop for Folder {
        fn drop(&mut self) {
            // What cannot be removed stays in the system's folder for such files.
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }
}

impl MemoryHarness {
    /// A world in memory, with that profile.
    #[must_use]
    pub fn new(profile: Profile) -> Self {
        let mut settings = Settings::new(
            "lab"
                .parse()
                .unwrap_or_else(|invalid| unreachable!("a valid name: {invalid}")),
        )
        .zones(&["z1", "z2"]);
        settings.profile = profile;
        let world = World {
            settle: 2,
            linger: 2,
            latency_ms: 1,
            ..World::default()
        };
        Self {
            settings,
            world: WorldHandle::new(world),
            file: None,
        }
    }

    /// The same in a file.
    ///
    /// # Errors
    /// When the file cannot be made.
    pub fn in_file(profile: Profile) -> Result<Self, Broken> {
        let folder = std::env::temp_dir().join(format!("egress-world-{}", uuid::Uuid::new_v4()));
        std::fs::create_dir(&folder).map_err(|error| Broken(format!("{}: {error}", folder.display())))?;
        let path = folder.join("world.json");
        let inner = Self::new(profile);
        let world = WorldHandle::open(path.clone());
        let initial = inner.world.look(Clone::clone)?;
        world.edit(|world| *world = initial)?;
        Ok(Self {
            world,
            file: Some((path, Arc::new(tempfile_guard::Folder(folder)))),
            ..inner
        })
    }

    /// The world.
    #[must_use]
    pub fn world(&self) -> &WorldHandle {
        &self.world
    }

    pub(super) fn memory(&self) -> Memory {
        let world = match &self.file {
            Some((path, _)) => WorldHandle::open(path.clone()),
            None => self.world.clone(),
        };
        Memory::new(self.settings.clone(), world)
    }

    pub(super) fn memory_without(&self, id: &NativeId) -> Memory {
        let mut settings = self.settings.clone();
        if let Some(place) = Place::of(id) {
            settings.zones.remove(&place.zone);
        }
        Memory::new(settings, self.world.clone())
    }

    fn fault(&self, fault: Fault) -> Result<(), Broken> {
        Ok(self.world.edit(|world| world.faults.push(fault))?)
    }

    fn change(&self, id: &NativeId, change: impl FnOnce(&mut Record)) -> Result<(), Broken> {
        let changed = self.world.edit(|world| world.record_mut(id).map(change))?;
        changed.ok_or_else(|| Broken(format!("there is no instance {id} to change")))
    }
}

fn step(stage: Stage) -> Step {
    match stage {
        Stage::Accept => Step::Accept,
        Stage::Secondary => Step::Secondary,
        Stage::Instance => Step::Instance,
        Stage::Handover => Step::Handover,
    }
}

#[async_trait]
impl Harness for MemoryHarness {
    fn backend(&self) -> Arc<dyn Backend> {
        Arc::new(self.memory())
    }

    fn backend_without(&self, id: &NativeId) -> Result<Arc<dyn Backend>, Broken> {
        Ok(Arc::new(self.memory_without(id)))
    }

    fn cannot(&self) -> &[(Ability, &'static str)] {
        match self.settings.profile.secondary_resources {
            SecondaryResources::None => &[(
                Ability::FailCreate(Stage::Secondary),
                "nothing belongs to an instance, so there is no such stage",
            )],
            SecondaryResources::Cascade | SecondaryResources::Explicit => &[],
        }
    }

    fn facts(&self) -> Facts {
        Facts {
            zone: Some("z1".into()),
            ..Facts::default()
        }
    }

    fn facts_elsewhere(&self) -> Result<Facts, Broken> {
        Ok(Facts {
            zone: Some("z2".into()),
            ..Facts::default()
        })
    }

    fn refused(&self, honoured: &Specification) -> Vec<(Fact, Specification)> {
        let given = |change: fn(&mut Facts)| {
            let mut specification = honoured.clone();
            change(&mut specification.given);
            specification
        };
        let mut long = honoured.clone();
        long.key.name = "a"
            .repeat(60)
            .parse()
            .unwrap_or_else(|invalid| unreachable!("letters: {invalid}"));
        let mut labelled = honoured.clone();
        labelled
            .labels
            .insert("egress-proxy/managed".into(), "yes".into());
        vec![
            (Fact::Zone, given(|facts| facts.zone = Some("nowhere".into()))),
            (Fact::Region, given(|facts| facts.region = Some("nowhere".into()))),
            (
                Fact::MachineType,
                given(|facts| facts.machine_type = Some("huge".into())),
            ),
            (Fact::Image, given(|facts| facts.image = Some("none".into()))),
            (Fact::Spot, given(|facts| facts.spot = Some(true))),
            (Fact::Name, long),
            (Fact::Labels, labelled),
        ]
    }

    fn malformed_ids(&self) -> Vec<NativeId> {
        [
            "x",
            "z1/default",
            "z1/default/a/b",
            "6a0c5d5e-8d3c-4a6f-9b1e-2f4c71d083b7",
        ]
        .iter()
        .filter_map(|id| id.parse().ok())
        .collect()
    }

    async fn stage(&self, control: Control<'_>) -> Result<(), Broken> {
        match control {
            Control::FailCreate(id, stage, kind, text) => self.fault(
                Fault::once(Operation::Create, kind, text)
                    .at(step(stage))
                    .on(id.as_str()),
            ),
            Control::HangCreate(id, stage) => self.fault(
                Fault::once(Operation::Create, ErrorKind::Transient, "")
                    .at(step(stage))
                    .on(id.as_str())
                    .with(Effect::Hang),
            ),
            Control::FailDelete(id, stage) => self.fault(
                Fault::once(
                    Operation::Delete,
                    ErrorKind::Transient,
                    "the connection was reset",
                )
                .at(step(stage))
                .on(id.as_str()),
            ),
            Control::Refuse(id, operation, kind) => {
                self.fault(Fault::once(operation, kind, REFUSED).on(id.as_str()))
            }
            Control::SetState(id, state) => self.change(id, |record| {
                record.power = match state {
                    State::Provisioning => Power::Starting(1000),
                    State::Running => Power::Running,
                    State::Stopped => Power::Stopped,
                    State::Terminated => Power::Terminated,
                };
            }),
            Control::LoseAddress(id) => self.change(id, |record| record.address_known = false),
            Control::StopServing(id) => self.change(id, |record| record.serving = false),
            Control::StripMark(id) => self.change(id, |record| record.mark = None),
            Control::Unreadable(id) => self.change(id, |record| record.readable = false),
            Control::ForeignLabel(id, key, value) => self.change(id, |record| {
                record.labels.insert(key.to_owned(), value.to_owned());
            }),
            Control::LeaveRemains(id) => {
                let cascades = self.settings.profile.secondary_resources != SecondaryResources::Explicit;
                Ok(self.world.edit(|world| {
                    world.take(id);
                    if cascades {
                        // What the backend removes with the instance goes with it, whoever removes it.
                        world.drop_secondary(id, |_| true);
                    }
                })?)
            }
            Control::Damage(id) => Ok(self.world.edit(|world| {
                if let Some(zone) = Place::of(id).and_then(|place| world.zones.get_mut(&place.zone)) {
                    for left in zone.secondary.iter_mut().filter(|left| left.id == *id) {
                        left.intact = false;
                    }
                }
            })?),
            Control::Vanish(id) => Ok(self.world.edit(|world| {
                world.take(id);
                world.drop_secondary(id, |_| true);
            })?),
            Control::PlaceForeign(id) => Ok(self.world.edit(|world| {
                let address = world.next_address();
                if let Some(place) = Place::of(id) {
                    world.put(&place, Record::foreign(address));
                }
            })?),
            Control::Unreachable(id) => Ok(self.world.edit(|world| {
                if let Some(place) = Place::of(id) {
                    world.zone_mut(&place.zone).reachable = false;
                }
            })?),
            Control::AllUnreachable => Ok(self.world.edit(|world| {
                for zone in &self.settings.zones {
                    world.zone_mut(zone).reachable = false;
                }
            })?),
        }
    }

    async fn sight(&self, id: &NativeId) -> Result<Sighting, Broken> {
        Ok(self.world.look(|world| {
            let mut sighting = Sighting {
                intact: true,
                ..Sighting::default()
            };
            if let Some(record) = world.record(id) {
                let mark = serde_json::to_string(&record.mark).unwrap_or_default();
                sighting.objects.insert("instance".into(), mark);
                sighting.labels = record.labels.clone();
            }
            for left in world.secondary(id) {
                sighting.intact &= left.intact;
                let uid = left.mark.uid.to_string();
                sighting.objects.insert(left.name.clone(), uid);
            }
            sighting
        })?)
    }

    fn patience(&self) -> Duration {
        Duration::from_secs(60)
    }

    async fn tidy(&self) {}
}

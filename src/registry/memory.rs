//! The kind `memory`: the reference backend, for tests and measurements (cargo feature `testing`).
//!
//! Must not know the backend's rules. Invariant: a world without a file lives as long as the
//! process, one for each name, so that a provider configured again finds what it made.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use crate::config::{Kind, Reader, Settings};
use crate::contract::memory::{self, Memory, World, WorldHandle};
use crate::contract::profile::DeleteReturn;
use crate::contract::{Backend, BackendName};
use crate::plugin::schema::{Attribute, Block};
use crate::plugin::types::Type;

/// The kind.
pub(super) static KIND: Kind = Kind {
    name: "memory",
    shared: false,
    block,
    parse,
    profile: || memory::PROFILE,
};

fn block() -> Block {
    Block::new()
        .describe("The reference backend: for tests only.")
        .attributes([
            Attribute::string("file").describe("Keeps the world in this file; in memory without it."),
            Attribute::list("zones", Type::String).describe("Its zones. Default `[\"z1\"]`."),
            Attribute::list("machine_types", Type::String).describe("The machine types it knows."),
            Attribute::list("images", Type::String).describe("The images it knows."),
            Attribute::bool("spot").describe("Whether it can honour `spot`."),
            Attribute::bool("returns_early").describe("Whether delete returns before everything is gone."),
        ])
}

#[derive(Debug)]
struct MemorySettings {
    file: Option<PathBuf>,
    zones: Option<BTreeSet<String>>,
    machine_types: BTreeSet<String>,
    images: BTreeSet<String>,
    spot: bool,
    returns_early: bool,
}

fn parse(reader: &mut Reader<'_>) -> Option<Arc<dyn Settings>> {
    let zones = reader.strings("zones");
    Some(Arc::new(MemorySettings {
        file: reader.file("file").into_known(),
        zones: zones.into_known().map(BTreeSet::from_iter),
        machine_types: reader
            .strings("machine_types")
            .into_known()
            .unwrap_or_default()
            .into_iter()
            .collect(),
        images: reader
            .strings("images")
            .into_known()
            .unwrap_or_default()
            .into_iter()
            .collect(),
        spot: reader.bool("spot").into_known().unwrap_or_default(),
        returns_early: reader.bool("returns_early").into_known().unwrap_or_default(),
    }))
}

impl Settings for MemorySettings {
    fn build(&self, name: &BackendName) -> Arc<dyn Backend> {
        let mut settings = memory::Settings::new(name.clone());
        if let Some(zones) = &self.zones {
            settings.zones.clone_from(zones);
        }
        settings.machine_types.clone_from(&self.machine_types);
        settings.images.clone_from(&self.images);
        settings.spot = self.spot;
        if self.returns_early {
            settings.profile.delete_return = DeleteReturn::ReturnsEarly;
        }
        let world = match &self.file {
            Some(file) => WorldHandle::open(file.clone()),
            None => world_of(name),
        };
        Arc::new(Memory::new(settings, world))
    }
}

/// The worlds of this process that no file keeps.
static WORLDS: Mutex<BTreeMap<BackendName, WorldHandle>> = Mutex::new(BTreeMap::new());

fn world_of(name: &BackendName) -> WorldHandle {
    let mut worlds = WORLDS.lock().unwrap_or_else(PoisonError::into_inner);
    worlds
        .entry(name.clone())
        .or_insert_with(|| WorldHandle::new(World::default()))
        .clone()
}

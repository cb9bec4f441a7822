//! What the tests work on: a world of the reference backend, and configurations in it.

use std::path::PathBuf;

use egress::contract::memory::{Effect, Fault, Record, World, WorldHandle};
use egress::contract::{ErrorKind, Operation};
use egress::plugin::value::Value;

use crate::core::Core;

/// A world in a file of its own.
pub(crate) struct Place {
    _dir: tempfile::TempDir,
    file: PathBuf,
    pub(crate) world: WorldHandle,
}

impl Place {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("world.json");
        let world = WorldHandle::open(file.clone());
        Self {
            _dir: dir,
            file,
            world,
        }
    }

    /// The block of a backend in this world.
    pub(crate) fn backend(&self, settings: impl IntoIterator<Item = (&'static str, Value)>) -> Value {
        let file = Value::from(self.file.to_string_lossy().into_owned());
        let settings = settings.into_iter().chain([("file", file)]);
        Value::object([("memory", Value::object(settings))])
    }

    /// The provider's configuration with one backend `lab`.
    pub(crate) fn provider(&self) -> Value {
        provider([("lab", self.backend([]))], [])
    }

    /// A core with one backend `lab` in this world.
    pub(crate) async fn core(&self) -> Core {
        Core::configured(self.provider()).await
    }

    pub(crate) fn edit(&self, edit: impl FnOnce(&mut World)) {
        self.world.edit(edit).expect("a world");
    }

    /// Changes the instance `default/NAME` in `z1`.
    #[track_caller]
    pub(crate) fn change(&self, name: &str, change: impl FnOnce(&mut Record)) {
        let key = format!("default/{name}");
        self.edit(|world| {
            let zone = world.zones.get_mut("z1").expect("the zone");
            change(zone.instances.get_mut(&key).expect("the instance"));
        });
    }

    /// How many instances there are.
    pub(crate) fn count(&self) -> usize {
        self.world
            .look(|world| world.zones.values().map(|zone| zone.instances.len()).sum())
            .expect("a world")
    }

    /// Whether nothing is left, secondary objects included.
    pub(crate) fn is_empty(&self) -> bool {
        self.world
            .look(|world| {
                let empty = |zone: &egress::contract::memory::Zone| {
                    zone.instances.is_empty() && zone.secondary.is_empty()
                };
                world.zones.values().all(empty)
            })
            .expect("a world")
    }

    /// How often an operation was called so far.
    pub(crate) fn calls(&self, operation: &str) -> usize {
        let calls = self.world.calls().expect("the calls");
        calls.get(operation).copied().unwrap_or_default()
    }
}

/// The provider's configuration with these backends and arguments.
pub(crate) fn provider<const N: usize, const M: usize>(
    backends: [(&str, Value); N],
    arguments: [(&str, Value); M],
) -> Value {
    let mut config = Value::object([("installation", Value::from("prod"))]);
    config.set("backend", Value::object(backends));
    for (name, value) in arguments {
        config.set(name, value);
    }
    config
}

/// The configuration of a proxy.
pub(crate) fn proxy<const N: usize>(name: &str, arguments: [(&str, Value); N]) -> Value {
    let mut config = Value::object([("name", Value::from(name))]);
    for (argument, value) in arguments {
        config.set(argument, value);
    }
    config
}

/// A block.
pub(crate) fn block<const N: usize>(arguments: [(&str, Value); N]) -> Value {
    Value::object(arguments)
}

/// A list of texts.
pub(crate) fn texts(items: &[&str]) -> Value {
    Value::List(items.iter().map(|item| Value::from(*item)).collect())
}

/// A call that goes wrong once.
pub(crate) fn fault(operation: Operation, effect: Effect) -> Fault {
    Fault {
        effect,
        ..Fault::once(operation, ErrorKind::Transient, "")
    }
}

//! What carries the installation's mark and is in no given state.
//!
//! Pure; must not know where states come from. Invariant: in doubt a thing is held: by its id
//! whatever backend the state names, or by its incarnation whatever id it has by now.

use std::collections::BTreeSet;

use super::listing::{Inventory, Left, Seen};
use crate::contract::name::InvalidName;
use crate::contract::{Incarnation, InstanceId, NativeId};

/// What states hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Held {
    ids: BTreeSet<NativeId>,
    incarnations: BTreeSet<Incarnation>,
}

impl Held {
    /// Adds what has that id, as a state writes it.
    ///
    /// # Errors
    /// Where the text is no such id.
    pub(crate) fn add_id(&mut self, id: &str) -> Result<(), InvalidName> {
        let id: InstanceId = id.parse()?;
        self.ids.insert(id.native);
        Ok(())
    }

    /// Adds an incarnation.
    pub(crate) fn add_incarnation(&mut self, incarnation: Incarnation) {
        self.incarnations.insert(incarnation);
    }

    fn holds(&self, seen: &Seen<'_>) -> bool {
        self.ids.contains(&seen.instance.id) || self.incarnations.contains(&seen.instance.mark.incarnation)
    }

    fn holds_remains(&self, left: &Left<'_>) -> bool {
        self.ids.contains(&left.secondary.id)
    }
}

/// The inventory without what is held.
pub(crate) fn orphans<'s>(mut inventory: Inventory<'s>, held: &Held) -> Inventory<'s> {
    inventory.instances.retain(|seen| !held.holds(seen));
    inventory.secondary.retain(|left| !held.holds_remains(left));
    inventory
}

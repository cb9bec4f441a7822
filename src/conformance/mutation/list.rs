//! How a mutant is wrong in a listing.
//!
//! Each difference stands under the name of the case that finds it.

use std::collections::BTreeSet;

use super::Mutant;
use crate::contract::{Backend, Error, Installation, Instance, ListFilter, Listing};

impl Mutant {
    pub(super) async fn list_wrongly(&self, filter: &ListFilter) -> Result<Listing, Error> {
        let mut filter = filter.clone();
        if self.breaks("list_keeps_to_the_namespace") {
            filter.namespace = None;
        }
        let mut listing = match self.memory.list_by_tag(&filter).await {
            Ok(listing) => listing,
            Err(_) if self.breaks("list_of_nothing_readable_fails") => Listing::default(),
            Err(error) => return Err(error),
        };
        for instance in &mut listing.instances {
            let record = self
                .memory
                .world()
                .look(|world| world.record(&instance.id).cloned())?;
            self.seen_wrongly(instance, record.as_ref());
            if self.breaks("list_agrees_with_get") {
                instance.reason = Some("it was listed".to_owned());
            }
        }
        if self.breaks("list_finds_what_was_created") {
            listing.instances.truncate(1);
        }
        if self.breaks("list_finds_what_is_pending") {
            listing.instances.retain(|instance| !instance.mark.pending);
        }
        if self.breaks("list_finds_remains") {
            listing.secondary.clear();
        }
        if self.breaks("list_names_the_part_that_did_not_answer") {
            listing.unreadable.retain(|part| !part.prefix.ends_with('/'));
        }
        if self.breaks("list_names_the_object_it_could_not_read") {
            listing.unreadable.retain(|part| part.prefix.ends_with('/'));
        }
        if self.breaks("list_hides_other_installations") {
            let others: BTreeSet<Installation> = self.memory.world().look(|world| {
                world
                    .zones
                    .values()
                    .flat_map(|zone| zone.instances.values())
                    .filter_map(|record| record.mark.as_ref())
                    .map(|mark| mark.key.installation.clone())
                    .filter(|installation| *installation != filter.installation)
                    .collect()
            })?;
            for installation in others {
                let filter = ListFilter {
                    installation,
                    namespace: None,
                };
                listing
                    .instances
                    .extend(self.memory.list_by_tag(&filter).await?.instances);
            }
        }
        if self.breaks("list_ignores_what_has_no_mark") {
            listing.instances.extend(self.by_name(&filter)?);
        }
        Ok(listing)
    }

    /// What once had a mark of ours and has a name that says so.
    fn by_name(&self, filter: &ListFilter) -> Result<Vec<Instance>, Error> {
        let marks = self.memories().marks.clone();
        let mut found = Vec::new();
        for (id, mark) in marks {
            let stripped = self
                .memory
                .world()
                .look(|world| world.record(&id).is_some_and(|record| record.mark.is_none()))?;
            if stripped && mark.key.installation == filter.installation {
                found.push(Instance {
                    id,
                    mark,
                    target: crate::contract::Target::default(),
                    state: crate::contract::State::Running,
                    started: true,
                    ip: None,
                    egress_ip: None,
                    created_at: None,
                    labels: std::collections::BTreeMap::new(),
                    reason: None,
                });
            }
        }
        Ok(found)
    }
}

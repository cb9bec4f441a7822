//! Resolve of the reference backend: what a specification means here, and all that is wrong with it.
//!
//! It must not look at the world. Invariant: a value that is not known is refused, never ignored.

use std::collections::BTreeSet;

use super::{Memory, Place};
use crate::contract::spec::{Fact, Facts, loopback};
use crate::contract::{Problem, Problems, Resolved, Specification, Warning};

/// Refuses a value that is not one of those known.
fn known(fact: Fact, given: Option<&String>, known: &BTreeSet<String>, problems: &mut Problems) {
    let Some(given) = given else {
        return;
    };
    let way_out = if known.is_empty() {
        "this backend has none; leave it out".to_owned()
    } else {
        let known: Vec<_> = known.iter().map(String::as_str).collect();
        format!("choose one of: {}", known.join(", "))
    };
    if !known.contains(given) {
        problems.refuse(fact, format!("{fact} \"{given}\" is not known: {way_out}"));
    }
}

impl Memory {
    pub(super) fn resolved(&self, specification: &Specification) -> Result<Resolved, Vec<Problem>> {
        let Specification { key, given, .. } = specification;
        let mut problems = Problems::of(specification);
        if key.name.as_str().len() > LONGEST_NAME {
            problems.refuse(
                Fact::Name,
                format!(
                    "name \"{}\" is too long for this backend: at most {LONGEST_NAME} characters",
                    key.name
                ),
            );
        }
        let zone = self.zone(given.zone.as_ref(), &mut problems);
        known(
            Fact::Region,
            given.region.as_ref(),
            &BTreeSet::new(),
            &mut problems,
        );
        known(
            Fact::MachineType,
            given.machine_type.as_ref(),
            &self.settings.machine_types,
            &mut problems,
        );
        known(
            Fact::Image,
            given.image.as_ref(),
            &self.settings.images,
            &mut problems,
        );
        if given.spot == Some(true) && !self.settings.spot {
            problems.refuse(
                Fact::Spot,
                "placement.spot = true cannot be honoured by this backend: leave it out",
            );
        }
        let facts = Facts {
            zone,
            spot: given.spot.filter(|spot| *spot),
            allowed_cidrs: given.allowed_cidrs.clone().or_else(|| Some(loopback())),
            ..given.clone()
        }
        .with_common_defaults();
        let placed = facts.zone.as_deref().and_then(|zone| Place::in_zone(zone, key));
        let warnings = warnings(&facts);
        problems.or_resolved(placed.map(|(id, _)| id), facts, warnings)
    }

    /// The zone an instance with these facts belongs to.
    fn zone(&self, given: Option<&String>, problems: &mut Problems) -> Option<String> {
        let mut zones = self.settings.zones.iter();
        match (given, zones.next(), zones.next()) {
            (Some(zone), ..) => {
                known(Fact::Zone, Some(zone), &self.settings.zones, problems);
                Some(zone.clone())
            }
            (None, Some(only), None) => Some(only.clone()),
            (None, ..) => {
                let zones: Vec<_> = self.settings.zones.iter().map(String::as_str).collect();
                problems.refuse(
                    Fact::Zone,
                    format!(
                        "placement.zone is needed, since there is not exactly one: choose one of: {}",
                        zones.join(", ")
                    ),
                );
                None
            }
        }
    }
}

/// The longest name the reference backend takes: shorter than the contract's own, as backends are.
const LONGEST_NAME: usize = 50;

/// What denies everything may not have been meant.
fn warnings(facts: &Facts) -> Vec<Warning> {
    let empty = [
        (
            Fact::AllowedCidrs,
            facts.allowed_cidrs.as_ref().is_some_and(Vec::is_empty),
            "The proxy denies every client",
        ),
        (
            Fact::AllowedDomains,
            facts.allowed_domains.as_ref().is_some_and(Vec::is_empty),
            "The proxy denies every destination",
        ),
    ];
    empty
        .into_iter()
        .filter(|(_, empty, _)| *empty)
        .map(|(fact, _, title)| Warning {
            fact,
            title: title.to_owned(),
            message: format!("{fact} is empty."),
        })
        .collect()
}

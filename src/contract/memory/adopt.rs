//! Adopt of the reference backend.
//!
//! It must not touch anything but the mark. Invariant: what is written is decided in the transaction
//! that writes it.

use std::collections::BTreeSet;

use super::{Memory, Place, Power, unreachable};
use crate::contract::adoption::{Course, Findings, course};
use crate::contract::error::{Error, Operation};
use crate::contract::model::{InstanceKey, NativeId};
use crate::contract::profile::CreatedAt;
use crate::contract::{AdoptRequest, Adoption, Fact, Facts, refusal};

/// What a proxy here has, beside what the profile's axes say.
const FACTS: [Fact; 6] = [
    Fact::Port,
    Fact::Zone,
    Fact::AllowedCidrs,
    Fact::AllowedPorts,
    Fact::AllowedDomains,
    Fact::Username,
];

impl Memory {
    pub(super) async fn take_over(&self, request: &AdoptRequest) -> Result<Adoption, Error> {
        let id = &request.id;
        let place = self.place(id)?;
        let _turn = self.turn(id).await;
        self.store().count(Operation::Adopt, id.as_str())?;
        self.call(Operation::Adopt, None, id.as_str()).await?;
        self.store().change(|world| {
            if !world.reachable(&place.zone) {
                return Err(unreachable(&place.zone));
            }
            let full = self.full(id);
            let record = world.record(id).ok_or_else(|| refusal::absent(&full))?;
            if matches!(record.power, Power::Leaving(_)) {
                return Err(refusal::leaving(&full));
            }
            let carried = record.mark.is_some();
            let found = Findings {
                mark: record.mark.clone(),
                facts: Facts {
                    zone: Some(place.zone.clone()),
                    ..Facts::default()
                },
                created_at: match self.settings.profile.created_at {
                    CreatedAt::BackendTimestamp => None,
                    CreatedAt::WrittenAtCreate => record.created_at,
                },
            };
            let course = course(request, &full, key(request, id)?, found)?;
            let mark = course.mark().clone();
            let instance = self.instance(world, id, record, &mark);
            if let Course::Write(mark) = course {
                // What belongs to the instance goes with it.
                for left in &mut world.zone_mut(&place.zone).secondary {
                    if left.id == *id {
                        left.mark = mark.clone();
                    }
                }
                if let Some(record) = world.record_mut(id) {
                    record.mark = Some(mark);
                }
            }
            let unknown = if carried {
                BTreeSet::new()
            } else {
                let known = mark.facts.present();
                FACTS.into_iter().filter(|fact| !known.contains(fact)).collect()
            };
            Ok(Adoption { instance, unknown })
        })
    }
}

/// The key that an instance of that id has.
fn key(request: &AdoptRequest, id: &NativeId) -> Result<InstanceKey, Error> {
    let mut parts = id.as_str().split('/').skip(1);
    let parsed = parts
        .next()
        .zip(parts.next())
        .and_then(|(namespace, name)| Some((namespace.parse().ok()?, name.parse().ok()?)));
    let (namespace, name) = parsed.ok_or_else(|| refusal::malformed(id, Place::GRAMMAR))?;
    Ok(InstanceKey {
        installation: request.installation.clone(),
        namespace,
        name,
    })
}

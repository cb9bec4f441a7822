//! What a create is to make, all of it known before a host is dialled.
//!
//! It must not ask a host. Invariant: whatever of a request cannot be made is refused here, and the
//! guest's documents are shown by nothing.

use super::config::{Host, Image, MachineType};
use super::engine::Engine;
use super::names::Place;
use super::vendor;
use super::volumes::Stem;
use crate::contract::{Error, InstanceId, NewInstance, Secret};
use crate::squid::{Policy, bootstrap};

/// Bytes of a GiB.
const GIB: u64 = 1 << 30;

/// A proxy to be made.
pub(super) struct Order<'a> {
    /// Where.
    pub(super) place: Place,
    /// Its id as a user writes it.
    pub(super) full: InstanceId,
    /// On which host.
    pub(super) host: &'a Host,
    /// As whose.
    pub(super) request: &'a NewInstance,
    /// What it gets of a machine.
    pub(super) machine_type: MachineType,
    /// What it boots from.
    pub(super) image: Image,
    /// Bytes of its disk, unless its image is larger.
    pub(super) disk: u64,
    /// The volumes that this create makes.
    pub(super) stem: Stem,
    /// What its guest is told to become.
    pub(super) user_data: Secret,
    /// What the host's owner adds.
    pub(super) vendor_data: Option<Secret>,
}

impl Engine {
    /// Reads a request that was resolved.
    ///
    /// # Errors
    /// Permanent where the configuration changed since and does not name what it asks for, or a secret is
    /// missing.
    pub(super) fn order<'a>(&'a self, request: &'a NewInstance) -> Result<Order<'a>, Error> {
        let facts = &request.facts;
        let missing = |what: &str| {
            Error::permanent(format!(
                "{} has no {what}: resolve the specification first",
                request.key
            ))
        };
        let zone = facts.zone.as_deref().ok_or_else(|| missing("placement.zone"))?;
        let place = Place::of(zone, &request.key).ok_or_else(|| missing("id"))?;
        let (place, host) = self.place(place.id())?;
        let key = facts
            .machine_type
            .as_deref()
            .ok_or_else(|| missing("placement.machine_type"))?;
        let machine_type = *self
            .config
            .machine_types()
            .get(key)
            .ok_or_else(|| unnamed("machine_type", key))?;
        let key = facts.image.as_deref().ok_or_else(|| missing("placement.image"))?;
        let image = match self.config.images().get(key) {
            Some(image) => image.clone(),
            None => Image::of_url(key).map_err(|_no_url| unnamed("image", key))?,
        };
        let user_data = match (&request.secrets.cloud_init, &facts.cloud_init) {
            (Some(document), _) => document.clone(),
            (None, Some(_)) => {
                return Err(Error::permanent(
                    "the proxy is to be made with a cloud-init document, and none was handed to create: plan again",
                ));
            }
            (None, None) => {
                let policy = Policy::resolved(facts)?;
                let passwords = policy.password_file(&request.secrets)?;
                bootstrap::document(&policy, passwords.as_ref())
                    .map_err(|invalid| Error::permanent(invalid.to_string()))?
            }
        };
        let own = self.config.vendor_data().map(Secret::new);
        Ok(Order {
            full: self.full(place.id()),
            host,
            request,
            machine_type,
            image,
            disk: self.config.disk_size_gb().saturating_mul(GIB),
            stem: Stem::of(self.policy, request),
            user_data,
            vendor_data: vendor::vendor_data(self.config.install_guest_agent(), own.as_ref()),
            place,
        })
    }
}

fn unnamed(block: &str, key: &str) -> Error {
    Error::permanent(format!(
        "the configuration of the backend names no {block} \"{key}\": restore the block {block} \"{key}\""
    ))
}

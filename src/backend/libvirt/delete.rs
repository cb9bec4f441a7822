//! Delete: the guest is stopped, its volumes go, and the domain that carries the mark goes last.
//!
//! It must not make or change anything else. Invariants: only volumes whose names say that they are the
//! proxy's go, and none that another domain uses; it is gone when delete says so.

use super::classify;
use super::config::Host;
use super::engine::{Engine, failed};
use super::hosts::Link;
use super::lookup::Seen;
use super::names::Place;
use super::state;
use super::volumes::Owned;
use crate::contract::{DeleteRequest, Deleted, Error, refusal};
use crate::transport::libvirt::Code;
use crate::transport::libvirt::types::{Domain, undefine};

/// Everything that goes with a domain, then less and less of it: what a daemon or a driver does not know,
/// its domains do not have.
const UNDEFINE: [u32; 6] = {
    use undefine::{CHECKPOINTS_METADATA, MANAGED_SAVE, NVRAM, SNAPSHOTS_METADATA, TPM};
    let oldest = MANAGED_SAVE | SNAPSHOTS_METADATA;
    [
        oldest | NVRAM | CHECKPOINTS_METADATA | TPM,
        oldest | NVRAM | CHECKPOINTS_METADATA,
        oldest | NVRAM,
        oldest,
        MANAGED_SAVE,
        0,
    ]
};

impl Engine {
    pub(super) async fn remove_proxy(&self, request: &DeleteRequest) -> Result<Deleted, Error> {
        let (place, host) = self.place(&request.id)?;
        let full = self.full(&request.id);
        let _held = self.keys.hold(place.id()).await;
        let link = self.hosts.pooled(host).await?;
        let same_target = async || {
            let target = self.target(host, &link).await?;
            refusal::same_target(&full, request.recorded_target.as_ref(), &target)
        };
        let Some(seen) = self.find(host, &link, &place).await? else {
            same_target().await?;
            self.remove_remains(host, &link, &place, request).await?;
            return Ok(Deleted::Gone);
        };
        let tag = self.tag_of(&place, &seen)?;
        if request.incarnation != Some(tag.mark.incarnation) {
            same_target().await?;
            if request.incarnation.is_none() {
                self.remove_remains(host, &link, &place, request).await?;
            }
            return Ok(Deleted::LeftAlone(refusal::whose(&full, &tag.mark)));
        }
        tag.mark.belongs_to(&request.installation, &full)?;
        self.stop(host, &link, &seen).await?;
        if let Some(stem) = &tag.stem {
            let pool = tag.pool.as_deref().unwrap_or(&host.pool);
            self.remove_volumes(host, &link, pool, stem).await?;
        }
        self.remove_remains(host, &link, &place, request).await?;
        self.forget(host, &link, &seen.domain).await?;
        Ok(Deleted::Gone)
    }

    /// Volumes of the installation's proxy there that no domain uses.
    async fn remove_remains(
        &self,
        host: &Host,
        link: &Link,
        place: &Place,
        request: &DeleteRequest,
    ) -> Result<(), Error> {
        let left: Owned = self.remains(host, link, place, &request.installation).await?;
        for stem in left.into_keys() {
            self.remove_volumes(host, link, &host.pool, &stem).await?;
        }
        Ok(())
    }

    async fn stop(&self, host: &Host, link: &Link, seen: &Seen) -> Result<(), Error> {
        if !state::is_active(seen.state) {
            return Ok(());
        }
        match link.api.destroy(&seen.domain).await {
            Ok(()) => Ok(()),
            // It ended meanwhile, or somebody was faster.
            Err(error)
                if classify::says(&error, Code::OPERATION_INVALID)
                    || classify::says(&error, Code::NO_DOMAIN) =>
            {
                Ok(())
            }
            Err(error) => Err(failed(host, error).with("domain", seen.domain.name.as_str())),
        }
    }

    async fn forget(&self, host: &Host, link: &Link, domain: &Domain) -> Result<(), Error> {
        let mut refused = None;
        for flags in UNDEFINE {
            match link.api.undefine(domain, flags).await {
                Ok(()) => return Ok(()),
                Err(error) if classify::says(&error, Code::NO_DOMAIN) => return Ok(()),
                Err(error) if classify::is_unknown_call(&error) => refused = Some(error),
                Err(error) => return Err(failed(host, error).with("domain", domain.name.as_str())),
            }
        }
        match refused {
            Some(error) => Err(failed(host, error).with("domain", domain.name.as_str())),
            None => Ok(()),
        }
    }
}

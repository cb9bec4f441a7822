//! Whether a host has room for one more guest, and what guests on it are.
//!
//! It must not change anything. Invariant: what is refused for want of room is refused with the figures,
//! before anything of the guest exists.

use futures_util::future::join3;

use super::capability::{Guests, domain_type};
use super::classify;
use super::config::{DomainType, Host, MachineType};
use super::engine::{Engine, failed};
use super::hosts::Link;
use crate::contract::Error;
use crate::transport::libvirt::types::{DomainStats, Figure};

/// What a guest's disk is given beside its own size: the seed and the tables of an overlay.
const BESIDE: u64 = 16 << 20;
/// `VIR_DOMAIN_STATS_BALLOON`.
const STATS_BALLOON: u32 = 4;
/// Bytes in a KiB, and KiB in a MiB.
const KIB: u64 = 1024;

/// How guests are run on a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Machine {
    /// Whether a processor runs them.
    pub(super) domain_type: DomainType,
    /// What libvirt says of such guests.
    pub(super) guests: Guests,
}

impl Engine {
    /// How guests are run there.
    ///
    /// # Errors
    /// Permanent where the host runs none.
    pub(super) async fn machine(&self, host: &Host, link: &Link) -> Result<Machine, Error> {
        let facts = self.facts(host, link).await?;
        let arch = facts.arch.as_str();
        let arch = (!arch.is_empty()).then_some(arch);
        let ask = |kind: DomainType| async move {
            let kind = Some(kind.as_str());
            link.api.domain_capabilities(None, arch, None, kind).await
        };
        let offered = match host.domain_type {
            Some(DomainType::Qemu) => None,
            Some(DomainType::Kvm) | None => match ask(DomainType::Kvm).await {
                Ok(document) => Guests::parse(&document),
                // Who cannot run guests by the processor says so with one of several codes.
                Err(error) if error.code().is_some() => None,
                Err(error) => return Err(failed(host, error)),
            },
        };
        let domain_type = domain_type(host.domain_type, facts, offered.is_some());
        let guests = match (domain_type, offered) {
            (DomainType::Kvm, Some(guests)) => Some(guests),
            (kind, _) => {
                let document = ask(kind).await.map_err(|error| failed(host, error))?;
                Guests::parse(&document)
            }
        };
        let guests = guests.ok_or_else(|| {
            Error::permanent(format!(
                "the host \"{}\" runs no guests of the type \"{}\": libvirt's description of them cannot be understood",
                host.name,
                domain_type.as_str()
            ))
        })?;
        Ok(Machine { domain_type, guests })
    }

    /// Refuses a guest for which the host has no memory, or the pool no space.
    ///
    /// # Errors
    /// `QuotaExceeded`, with the figures.
    pub(super) async fn has_room(
        &self,
        host: &Host,
        link: &Link,
        machine: &MachineType,
        disk: u64,
        available: u64,
    ) -> Result<(), Error> {
        let needed = disk.saturating_add(BESIDE);
        if available < needed {
            return Err(Error::quota(format!(
                "the pool \"{}\" of the host \"{}\" has {} left, and the proxy's disk may grow to {}: make room, or \
                 lower `disk_size_gb`",
                host.pool,
                host.name,
                gib(available),
                gib(needed)
            ))
            .on(host.name.as_str()));
        }
        let api = &link.api;
        let (node, free, guests) = join3(
            api.node_info(),
            api.free_memory(),
            api.domain_stats(&[], STATS_BALLOON),
        )
        .await;
        let node = node.map_err(|error| failed(host, error))?;
        let free = free.map_err(|error| failed(host, error))?;
        let guests = match guests {
            Ok(guests) => guests,
            Err(error) if classify::is_unknown_call(&error) => return Ok(()),
            Err(error) => return Err(failed(host, error)),
        };
        let all = node.memory_kib.saturating_mul(KIB);
        let taken = taken(&guests);
        let wanted = machine.memory_mib.saturating_mul(KIB * KIB);
        // What the kernel's caches hold is not free, and is given to whoever wants it: only where the
        // guests themselves have it all is there none.
        if wanted > free && taken.saturating_add(wanted) > all {
            return Err(Error::quota(format!(
                "the host \"{}\" has {} of memory, of which its guests have {} and {} are free; the proxy wants {}: stop \
                 another guest, or take a smaller `machine_type`",
                host.name,
                gib(all),
                gib(taken),
                gib(free),
                gib(wanted)
            ))
            .on(host.name.as_str()));
        }
        Ok(())
    }
}

/// The memory of all guests that run, in bytes.
fn taken(guests: &[DomainStats]) -> u64 {
    guests
        .iter()
        .filter(|guest| guest.domain.id >= 0)
        .flat_map(|guest| &guest.figures)
        .filter(|(name, _)| name == "balloon.current")
        .map(|(_, figure)| match figure {
            Figure::UnsignedLong(kib) => kib.saturating_mul(KIB),
            Figure::Int(_)
            | Figure::UnsignedInt(_)
            | Figure::Long(_)
            | Figure::Double(_)
            | Figure::Boolean(_)
            | Figure::Text(_) => 0,
        })
        .fold(0, u64::saturating_add)
}

/// Bytes in GiB, for a person.
fn gib(bytes: u64) -> String {
    let tenths = bytes.saturating_mul(10) >> 30;
    format!("{}.{} GiB", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::libvirt::types::Domain;

    fn guest(id: i32, figures: Vec<(&str, Figure)>) -> DomainStats {
        DomainStats {
            domain: Domain {
                name: "a".to_owned(),
                uuid: uuid::Uuid::nil(),
                id,
            },
            figures: figures
                .into_iter()
                .map(|(name, figure)| (name.to_owned(), figure))
                .collect(),
        }
    }

    #[test]
    fn only_guests_that_run_have_memory() {
        let of = |kib| {
            vec![
                ("balloon.current", Figure::UnsignedLong(kib)),
                ("balloon.maximum", Figure::UnsignedLong(9)),
            ]
        };
        let guests = [
            guest(3, of(1024)),
            guest(-1, of(4096)),
            guest(7, of(1024)),
            guest(8, Vec::new()),
        ];
        assert_eq!(taken(&guests), 2 << 20);
    }

    #[test]
    fn figures_are_told_in_gib() {
        for (bytes, told) in [
            (0, "0.0 GiB"),
            (3 << 29, "1.5 GiB"),
            (u64::MAX, "1717986918.3 GiB"),
        ] {
            assert_eq!(gib(bytes), told);
        }
    }
}

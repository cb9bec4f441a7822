//! The kind `kvm2`.
//!
//! Must not know the backend's rules. Invariant: beside its policy it is `kvm`.

use super::libvirt;
use crate::backend::kvm2::{POLICY, PROFILE};
use crate::config::Kind;

/// The kind.
pub(super) static KIND: Kind = Kind {
    name: POLICY.kind,
    shared: true,
    block: || {
        libvirt::block(
            "Addresses are looked for through the guest agent first, then in the host's ARP table, then among libvirt's DHCP leases.",
        )
    },
    parse: |reader| libvirt::parse(reader, &POLICY, &PROFILE),
    profile: || PROFILE,
};

//! The kind `kvm`.
//!
//! Must not know the backend's rules. Invariant: beside its policy it is `kvm2`.

use super::libvirt;
use crate::backend::kvm::{POLICY, PROFILE};
use crate::config::Kind;

/// The kind.
pub(super) static KIND: Kind = Kind {
    name: POLICY.kind,
    shared: true,
    block: || {
        libvirt::block(
            "Addresses are looked for in the host's ARP table first, then through the guest agent, then among libvirt's DHCP leases.",
        )
    },
    parse: |reader| libvirt::parse(reader, &POLICY, &PROFILE),
    profile: || PROFILE,
};

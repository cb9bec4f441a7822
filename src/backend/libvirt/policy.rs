//! What tells one libvirt backend from another, as data.
//!
//! It must not decide anything, and nothing else in the engine may ask which backend it serves.
//! Invariant: two policies never share a metadata namespace or the beginning of a volume's name, so
//! that neither takes the other's instances for its own.

use crate::contract::HealthReason;
use crate::transport::libvirt::types::AddressSource;

/// A backend's policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The kind of backend, as its configuration block is called.
    pub kind: &'static str,
    /// The XML namespace of the mark in a domain's metadata.
    pub namespace: &'static str,
    /// The prefix of that namespace in the XML.
    pub prefix: &'static str,
    /// What the name of every volume of ours begins with.
    pub volumes: &'static str,
    /// Where addresses are looked for, in that order; a source that fails is passed over.
    pub addresses: [AddressSource; 3],
    /// What is said of a host that is not healthy.
    pub reasons: Reasons,
    /// The unit in which health tells sizes.
    pub sizes: SizeUnit,
}

/// The health reasons of a backend, by what failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reasons {
    /// A key, a certificate or known_hosts could not be read.
    pub credentials: HealthReason,
    /// The host's key or ours was refused.
    pub refused: HealthReason,
    /// SSH was answered, and did not come about for another reason.
    pub handshake: HealthReason,
    /// No way to libvirt's socket, or libvirtd does not let us in through it.
    pub socket: HealthReason,
    /// libvirtd knows us and denies the call.
    pub denied: HealthReason,
    /// libvirtd answered with any other error.
    pub libvirt: HealthReason,
}

/// A unit of sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SizeUnit {
    /// Bytes, as libvirt has them.
    Bytes,
    /// GiB with one decimal.
    Gib,
}

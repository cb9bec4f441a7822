//! What the libvirt backends do where hosts misbehave: on a libvirt in memory, for `kvm` and `kvm2` alike.
#![cfg(feature = "testing")]

#[path = "libvirt/rig.rs"]
mod rig;

#[path = "libvirt/asking.rs"]
mod asking;
#[path = "libvirt/failures.rs"]
mod failures;
#[path = "libvirt/gaps.rs"]
mod gaps;
#[path = "libvirt/requests.rs"]
mod requests;

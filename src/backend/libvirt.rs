//! Proxies as virtual machines on hosts that run libvirt, reached over SSH: the engine of the backends
//! `kvm` and `kvm2`.
//!
//! It must not know Terraform or another backend, nor which policy it serves. Invariants: a proxy is one
//! domain and the volumes that its name and uid are in; the volumes are there before the domain and go
//! before it; the domain's metadata alone says what the mark is.

mod capability;
pub mod classify;
pub mod config;
mod connect;
pub mod domain_xml;
pub mod health;
mod hosts;
pub mod image;
pub mod iso9660;
pub mod names;
mod observe;
pub mod policy;
pub mod ready;
pub mod seed;
#[cfg(test)]
mod testing;
pub mod vendor;
pub mod volume_xml;
mod xml;

pub use capability::{Guests, HostFacts, domain_type};
pub use connect::{Failure, SshDialer};
pub use hosts::{Dialer, Dialled, Facts, Hosts, Link, Reach};

//! Proxies as virtual machines on hosts that run libvirt, reached over SSH: the engine of the backends
//! `kvm` and `kvm2`.
//!
//! It must not know Terraform or another backend, nor which policy it serves. Invariants: a proxy is one
//! domain and the volumes that its name and uid are in; the volumes are there before the domain and go
//! before it; the domain's metadata alone says what the mark is.

pub mod classify;
pub mod config;
pub mod policy;

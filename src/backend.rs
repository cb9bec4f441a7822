//! The backends: one module each, with the same file roles.
//!
//! A backend may import the contract, `squid` and the transport, and must not know the plugin,
//! Terraform or another backend. Invariant: only the registry names more than one of them.

pub mod kubernetes;
pub mod kvm;
pub mod kvm2;
pub mod libvirt;
pub mod local;

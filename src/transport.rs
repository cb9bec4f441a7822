//! How the backends reach what they drive, and how long they may take over it.
//!
//! It may import the contract and must not know any backend. Invariant: [`call`] holds the only
//! timeout, the only retry, the only wait and the only spawn of everything above the plugin layer.

pub mod call;
pub mod known_hosts;
pub mod libvirt;
pub mod ssh;

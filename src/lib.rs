//! Egress proxies for Terraform and OpenTofu: the library behind the provider's binary.
//!
//! `docs/architecture.md` has the map; `tests/layering.rs` proves that imports point one way.

pub mod backend;
pub mod cli;
pub mod config;
#[cfg(feature = "testing")]
pub mod conformance;
pub mod contract;
pub mod plugin;
pub mod registry;
pub mod squid;
pub mod telemetry;
pub mod terraform;
pub mod transport;

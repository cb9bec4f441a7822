//! Terraform semantics: what the provider's resource and data sources mean, without the wire.
//!
//! Implements the traits of [`crate::plugin::provider`] on the contract's backends. Must not know
//! the wire, nor any backend by name or kind. Invariants: planning and reading never write; nothing
//! that exists is ever lost from the state by a failure; what is decided is decided by pure
//! functions, so that a plan and its apply agree.

pub mod egress_proxy;
mod failure;
mod lifecycle;
pub mod provider;
mod provider_health;
mod proxies;
mod session;
mod timeouts;

pub use provider::EgressProvider;

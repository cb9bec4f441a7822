//! Terraform semantics: what the provider's resource and data sources mean, without the wire.
//!
//! Implements the traits of [`crate::plugin::provider`] on the contract's backends. Must not know
//! the wire, nor any backend by name or kind. Invariants: planning and reading never write; nothing
//! that exists is ever lost from the state by a failure; what is decided is decided by pure
//! functions, so that a plan and its apply agree.

pub mod egress_proxy;
pub(crate) mod failure;
pub(crate) mod gc;
mod gc_action;
mod lifecycle;
pub(crate) mod listing;
pub(crate) mod orphans;
pub mod provider;
mod provider_health;
mod proxies;
mod proxy_list;
pub(crate) mod session;
pub(crate) mod timeouts;

pub use provider::EgressProvider;

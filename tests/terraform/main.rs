//! Terraform's semantics, driven through the provider's traits by a small core that enforces what a
//! real one enforces, on the reference backend.
#![cfg(feature = "testing")]

mod configuration;
mod core;
mod data;
mod drift;
mod import;
mod interruption;
mod lifecycle;
mod logged;
mod owners;
mod secrets;
mod stored;
mod turns;
mod validation;
mod world;

//! A Terraform and OpenTofu provider plugin server: tfplugin6 over gRPC, started the way go-plugin starts it.
//!
//! Everything a provider author touches is free of the wire: [`value`], [`types`], [`schema`],
//! [`diagnostics`] and the traits of [`provider`].
//!
//! This module is a leaf. It imports nothing of this crate outside itself and knows nothing of
//! what its provider manages, so that it can be lifted out whole; and nothing outside it sees
//! gRPC or protobuf types. `tests/layering.rs` proves both.

mod attendance;
mod codec;
mod companions;
mod convert;
pub mod diagnostics;
mod generated;
mod handshake;
mod listener;
pub mod log;
mod panic;
pub mod provider;
pub mod schema;
mod server;
mod service;
pub(crate) mod signals;
mod tls;
pub mod types;
pub mod value;

pub use panic::report_crashes;
pub use server::{ServeError, ServeOptions, runtime, serve};
pub use tls::TlsError;

//! libvirt's remote protocol: the part of it that the libvirt backends speak.
//!
//! It must not know SSH, hosts or policies: it is given a byte stream that ends at a libvirtd.
//! Invariant: nothing a peer sends makes it panic or hold more memory than one packet is allowed to
//! have, and whatever happens to the link, every caller is told.

pub mod api;
pub mod client;
pub mod error;
#[cfg(any(test, feature = "testing"))]
pub mod fake;
pub mod link;
pub mod packet;
pub mod procedure;
pub mod types;
pub mod upload;
mod writer;
pub mod xdr;

pub use api::LibvirtApi;
pub use client::{Client, Settings};
pub use error::{Code, Error, LinkDown, RemoteError};

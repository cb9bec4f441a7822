//! A host that runs libvirt, for tests: a libvirtd with QEMU, reached as the provider reaches one, through
//! a real sshd; and a server that images come from.
//!
//! [`Host::start`] makes one of the test's own, in namespaces of its own: several run side by side with the
//! same names and addresses, and nothing of the machine's own libvirt is touched. It needs root.
//!
//! Knows nothing of proxies. Invariant: nothing of a host outlives the test process, however it ends.

#![allow(dead_code, reason = "each test file uses its share")]
#![allow(unused_imports, reason = "each test file uses its share")]

mod host;
mod sshd;
mod web;

pub(crate) use host::{Console, GATEWAY, Host, ORIGIN_PORT, STRANGER};
pub(crate) use web::Web;

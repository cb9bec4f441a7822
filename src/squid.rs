//! The proxy every backend runs: its `squid.conf`, its password file, the script that makes a machine
//! one, and what a user's own cloud-init document must look like.
//!
//! The text is generated here and nowhere else; a backend says only where its Squid runs ([`Site`]).
//! It does no I/O and knows no backend. Invariants: whatever is interpolated was parsed into a type
//! whose grammar has no blank, quote, comment sign or line break, so that no value can add a
//! directive; the last rule denies, and nothing is allowed that does not come from an allowed network.
//!
//! What the generated proxy does:
//!
//! - clients outside `allowed_cidrs` are denied, and so is whoever asks for Squid's own pages;
//! - `CONNECT` goes to `allowed_ports` only, plain HTTP to those and 80, other schemes nowhere;
//! - `allowed_domains`, where given, are all that can be reached: `example.com` is that host alone,
//!   `.example.com` the domain and everything below it; an address in a URL must be listed as such,
//!   what its reverse lookup claims does not count;
//! - link-local and cloud metadata addresses are never reached, by number, by name, or by a name that
//!   resolves to them; nor is the proxy's own loopback, except where a [`Site`] lets clients that are
//!   on the same machine reach what they can reach anyway;
//! - with a user, every request needs the password, checked by `basic_ncsa_auth` against its hash;
//! - nothing is cached, and neither the client's address nor a `Via` is told to the destination.

pub mod bootstrap;
pub mod cloud_init;
mod conf;
mod domain;
pub mod evidence;
pub mod multipart;
pub mod password;
mod policy;
pub mod release;
mod site;

pub use conf::render;
pub use domain::{Domain, InvalidDomain};
pub use policy::{InvalidUsername, Policy, Username};
pub use site::{AccessLog, ConfPath, Descriptors, HostName, InvalidValue, Loopback, PasswordFile, Site};

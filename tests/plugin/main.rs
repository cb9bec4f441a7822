//! The plugin layer as a host sees it: a process that is started, a handshake line, and calls over gRPC.
//!
//! Every call of the protocol is made by a client of our own, for no CLI at hand makes them all. Nothing here waits for time to
//! pass: what must come is waited for, and a process that should end is waited for to end.

mod generated;
mod host;

mod process;
mod provider;
mod resource;
mod stopping;
mod store;
mod streams;
mod terraform;

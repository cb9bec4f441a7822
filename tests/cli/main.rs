//! The real CLIs against the built provider: every release of Terraform and OpenTofu that the README claims.
//!
//! Each test has a folder, a CLI configuration, a port and a state directory of its own, and fails when
//! a process or a proxy outlives it. The CLIs come from `scripts/tools`, so a test that needs one that
//! is not there fetches it: nothing is skipped from within.

#[macro_use]
mod release;

mod command_line;
mod drift;
mod examples;
mod faults;
mod health;
mod import;
#[path = "../kube_node/mod.rs"]
mod kube_node;
mod kubernetes;
mod libvirt;
#[path = "../libvirt_host/mod.rs"]
mod libvirt_host;
mod lifecycle;
mod listing;
mod orphans;
mod pipelines;
mod plugin;
mod pool;
mod proxying;
mod quick;
mod reference;
mod run;
mod scale;
mod scripts;
mod shared;
mod telemetry;
mod workspace;

//! Proxies as Pods of a Kubernetes cluster.
//!
//! It must not know Terraform or another backend.
#![expect(dead_code, reason = "the operations come with the backend itself")]

mod access;
mod classify;
mod config;
mod connect;
mod credentials;
mod dial;
mod exec;
mod health;
mod kubeconfig;
mod material;
mod proxy;
mod quantity;
#[cfg(test)]
mod testing;

pub use access::{GivenAccess, GivenExec, Impersonate};
pub use config::{ConfigProblem, DEFAULT_IMAGE, Given, KubernetesConfig};

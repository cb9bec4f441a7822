//! Kubernetes for tests: a real API server, alone or with a whole node behind it.
//!
//! [`Cluster::shared`] is an etcd and a kube-apiserver (with kube-controller-manager) that all tests of a
//! process share; [`Cluster::start`] is one of the test's own, to stop and to break; [`Node::start`] is
//! everything from etcd to a kubelet that runs containers, in namespaces of its own.
//! `USE_EXISTING_CLUSTER=true` makes the shared one the cluster of `KUBECONFIG`.
//!
//! Knows nothing of proxies. Invariant: nothing of a cluster outlives the test process, however it ends.

#![allow(dead_code, reason = "each test file uses its share")]
#![allow(unused_imports, reason = "each test file uses its share")]

mod audit;
mod authority;
mod cluster;
mod control_plane;
mod node;
mod programs;
mod supervisor;
pub(crate) mod wait;

pub(crate) use audit::Asked;
pub(crate) use authority::{Authority, Identity};
pub(crate) use cluster::{Cluster, Setup};
pub(crate) use control_plane::{ADMIN, GROUP, ROTATED_ANEW, USERS};
pub(crate) use node::{NODE, Node, SQUID_IMAGE};
pub(crate) use programs::{kubectl, tool};

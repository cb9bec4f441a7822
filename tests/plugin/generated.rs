//! The client's side of `proto/`, generated and committed as `src/plugin/generated` is.

#[rustfmt::skip]
pub(crate) mod go_plugin;
#[rustfmt::skip]
pub(crate) mod grpc_health;
#[rustfmt::skip]
pub(crate) mod tfplugin6;

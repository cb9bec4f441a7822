//! Generated from `proto/` and committed, so that no build needs protoc; `tests/plugin_generated.rs`
//! regenerates and compares. Nothing outside `plugin` may see these types.

#[rustfmt::skip]
pub(crate) mod go_plugin;
#[rustfmt::skip]
pub(crate) mod grpc_health;
#[rustfmt::skip]
pub(crate) mod tfplugin6;

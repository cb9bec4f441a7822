//! The committed code in `src/plugin/generated` (server) and `tests/plugin/generated` (the tests' client)
//! is what `proto/` generates. `UPDATE_GENERATED=1 cargo test --test plugin_generated` rewrites it.
//!
//! No protoc is needed, here or in a build: protox reads the proto files.

use std::fs;
use std::path::{Path, PathBuf};

const PROTOS: [&str; 3] = ["tfplugin6.proto", "go_plugin.proto", "grpc_health.proto"];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Generated code is not written for our lints, and which of them it meets changes with the generator:
/// `expect` would break with every update of it.
const LINTS: &str =
    "#![allow(dead_code, unreachable_pub, missing_docs, clippy::all, reason = \"generated code\")]\n\n";

/// Gives the generator's own exceptions the reason that we ask of every exception.
fn with_reasons(code: &str) -> String {
    code.replace(
        "#[allow(non_camel_case_types)]",
        "#[allow(non_camel_case_types, reason = \"generated code\")]",
    )
    .replace(
        "clippy::let_unit_value,\n    )]",
        "clippy::let_unit_value,\n        reason = \"generated code\",\n    )]",
    )
}

/// Generates one side and gives (file name, content) for each package.
fn generate(server: bool) -> Vec<(String, String)> {
    let descriptors = protox::compile(PROTOS, [root().join("proto")]).expect("proto/ compiles");
    let out = tempfile::tempdir().expect("a temporary directory");
    tonic_prost_build::configure()
        .build_server(server)
        .build_client(!server)
        .build_transport(false)
        // Values are slices of the message they came in: no copy.
        .bytes(".")
        // In order, so that the schema is the same bytes every time.
        .btree_map(".")
        .emit_rerun_if_changed(false)
        .out_dir(out.path())
        .compile_fds(descriptors)
        .expect("the descriptors generate");
    let mut files: Vec<_> = fs::read_dir(out.path())
        .expect("the generated files")
        .map(|entry| {
            let path = entry.expect("an entry").path();
            let name = path
                .file_name()
                .expect("a name")
                .to_string_lossy()
                .replace("grpc.health.v1", "grpc_health");
            let name = if name == "plugin.rs" {
                "go_plugin.rs".to_owned()
            } else {
                name
            };
            let header = format!(
                "//! Generated from `proto/{}`. Do not edit.\n\n{LINTS}",
                name.replace(".rs", ".proto")
            );
            (
                name,
                header + &with_reasons(&fs::read_to_string(&path).expect("a readable file")),
            )
        })
        .collect();
    files.sort();
    files
}

fn check(directory: &Path, server: bool) {
    let update = std::env::var_os("UPDATE_GENERATED").is_some();
    let generated = generate(server);
    assert_eq!(generated.len(), PROTOS.len());
    for (name, content) in generated {
        let path = directory.join(&name);
        if update {
            fs::write(&path, content).expect("a writable file");
        } else {
            let committed = fs::read_to_string(&path).unwrap_or_default();
            assert!(
                committed == content,
                "{} is not what proto/ generates: run UPDATE_GENERATED=1 cargo test --test plugin_generated",
                path.display()
            );
        }
    }
}

#[test]
fn the_committed_server_code_is_what_proto_generates() {
    check(&root().join("src/plugin/generated"), true);
}

#[test]
fn the_committed_client_code_is_what_proto_generates() {
    check(&root().join("tests/plugin/generated"), false);
}

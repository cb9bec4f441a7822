//! Where the programs of a cluster come from.
//!
//! `KUBEBUILDER_ASSETS` names a folder with etcd, kube-apiserver and kubectl, as the tests of controllers
//! use it; what it lacks comes from `scripts/tools`, built once, and etcd from the search path.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// One of the node's programs: `kube-apiserver`, `kubelet`, …
pub(crate) fn kubernetes(program: &str) -> PathBuf {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    asset(program).unwrap_or_else(|| FOLDER.get_or_init(|| tool("kubernetes")).join(program))
}

pub(crate) fn etcd() -> PathBuf {
    asset("etcd")
        .or_else(|| on_path("etcd"))
        .expect("etcd is not on the search path: scripts/install-packages installs it")
}

pub(crate) fn kubectl() -> PathBuf {
    asset("kubectl")
        .or_else(|| on_path("kubectl"))
        .unwrap_or_else(|| tool("kubectl"))
}

/// Runs a script of `scripts/tools`, which prints where its product is.
pub(crate) fn tool(name: &str) -> PathBuf {
    let script = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("scripts/tools")
        .join(name);
    let output = Command::new(&script)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .unwrap_or_else(|error| panic!("{}: {error}", script.display()));
    assert!(output.status.success(), "{} failed", script.display());
    PathBuf::from(String::from_utf8(output.stdout).expect("a path").trim_end())
}

fn asset(program: &str) -> Option<PathBuf> {
    let path = Path::new(&std::env::var_os("KUBEBUILDER_ASSETS")?).join(program);
    path.is_file().then_some(path)
}

pub(super) fn on_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    // Debian keeps daemons where a user's search path does not lead.
    folders.extend(["/usr/sbin".into(), "/sbin".into()]);
    folders
        .into_iter()
        .map(|folder| folder.join(program))
        .find(|path| path.is_file())
}

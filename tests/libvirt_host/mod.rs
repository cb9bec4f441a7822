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

/// An image of Debian that a guest boots from, with Squid and cloud-init in it; built where there is none yet.
pub(crate) fn guest_image() -> std::path::PathBuf {
    let tool = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/tools/guest-image");
    let output = std::process::Command::new(tool)
        .output()
        .expect("the script runs");
    assert!(
        output.status.success(),
        "no image of a guest: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).expect("text").trim().into()
}

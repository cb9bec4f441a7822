//! The seed of a guest: the image from which cloud-init's data source NoCloud reads what to do.
//!
//! It must not know what the documents say. Invariant: they reach the guest byte for byte, and no debug
//! output shows them.

use uuid::Uuid;

use super::iso9660::{self, File, Unfit};
use crate::contract::Secret;

/// The label by which cloud-init finds it.
const LABEL: &str = "cidata";

/// What a guest is told.
#[derive(Clone, Debug)]
pub struct Seed<'a> {
    /// A new one makes cloud-init run everything once more.
    pub instance_id: Uuid,
    /// The name that the guest gives itself.
    pub hostname: &'a str,
    /// What the guest is to become: the built-in script or the user's own document.
    pub user_data: &'a Secret,
    /// What the host's owner adds.
    pub vendor_data: Option<&'a Secret>,
    /// cloud-init's network configuration; without one it asks DHCP on the first interface.
    pub network_config: Option<&'a str>,
}

impl Seed<'_> {
    /// The image, an ISO 9660.
    ///
    /// # Errors
    /// Where the documents are larger than an image may be.
    pub fn image(&self) -> Result<Vec<u8>, Unfit> {
        // JSON is YAML in which no name can mean anything else.
        let meta_data = serde_json::json!({
            "instance-id": self.instance_id.to_string(),
            "local-hostname": self.hostname,
        })
        .to_string();
        let mut files = vec![
            File {
                name: "meta-data",
                content: meta_data.as_bytes(),
            },
            File {
                name: "user-data",
                content: self.user_data.expose().as_bytes(),
            },
            // Always there: some releases of cloud-init look for it over the network otherwise.
            File {
                name: "vendor-data",
                content: self.vendor_data.map_or(&[], |text| text.expose().as_bytes()),
            },
        ];
        if let Some(network) = self.network_config {
            files.push(File {
                name: "network-config",
                content: network.as_bytes(),
            });
        }
        iso9660::image(LABEL, &files)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::Command;

    use super::*;

    fn seed(user_data: &str) -> Vec<u8> {
        Seed {
            instance_id: Uuid::from_u128(7),
            hostname: "a",
            user_data: &Secret::new(user_data),
            vendor_data: Some(&Secret::new("#!/bin/sh\ntrue\n")),
            network_config: Some("version: 2\n"),
        }
        .image()
        .expect("made")
    }

    /// What genisoimage's reader prints.
    fn isoinfo(image: &Path, arguments: &[&str]) -> Vec<u8> {
        let output = Command::new("isoinfo")
            .args(arguments)
            .arg("-i")
            .arg(image)
            .output()
            .expect("isoinfo runs; install genisoimage");
        let complaints = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && complaints.is_empty(), "{complaints}");
        output.stdout
    }

    #[test]
    #[ignore = "needs isoinfo (genisoimage)"]
    fn an_independent_reader_finds_each_document_byte_for_byte() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("seed.iso");
        for length in [0, 1, 44, 2047, 2048, 2049, 200 * 1024] {
            let user_data: String = (0..length).map(|n| char::from(b'!' + (n % 90) as u8)).collect();
            let image = seed(&user_data);
            std::fs::write(&path, &image).expect("written");
            let shown = String::from_utf8(isoinfo(&path, &["-d"])).expect("text");
            for line in [
                "Volume id: cidata".to_owned(),
                format!("Volume size is: {}", image.len() / 2048),
                "Joliet with UCS level 3 found".to_owned(),
                "Rock Ridge signatures version 1 found".to_owned(),
            ] {
                assert!(shown.lines().any(|shown| shown == line), "{line}\n{shown}");
            }
            // By Joliet, by Rock Ridge, and by the names of 1988.
            for (kind, name) in [
                (&["-J"][..], "/user-data"),
                (&["-R"], "/user-data"),
                (&[], "/USER_DATA.;1"),
            ] {
                let read = isoinfo(&path, &[kind, &["-x", name]].concat());
                assert!(read == user_data.as_bytes(), "{kind:?}, {length} bytes");
            }
            for kind in ["-J", "-R"] {
                let listed = String::from_utf8(isoinfo(&path, &[kind, "-f"])).expect("text");
                let mut names: Vec<_> = listed.lines().collect();
                names.sort_unstable();
                assert_eq!(
                    names,
                    ["/meta-data", "/network-config", "/user-data", "/vendor-data"]
                );
            }
            let meta_data = isoinfo(&path, &["-R", "-x", "/meta-data"]);
            let meta_data: serde_json::Value = serde_json::from_slice(&meta_data).expect("JSON");
            assert_eq!(meta_data["local-hostname"], "a");
            assert_eq!(meta_data["instance-id"], "00000000-0000-0000-0000-000000000007");
            assert_eq!(
                isoinfo(&path, &["-R", "-x", "/vendor-data"]),
                b"#!/bin/sh\ntrue\n"
            );
        }
    }

    #[test]
    fn nothing_shows_what_it_holds() {
        let secret = Secret::new("sentinel");
        let seed = Seed {
            instance_id: Uuid::from_u128(7),
            hostname: "a",
            user_data: &secret,
            vendor_data: Some(&secret),
            network_config: None,
        };
        assert!(!format!("{seed:?}").contains("sentinel"));
    }
}

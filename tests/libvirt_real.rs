//! The libvirt backends against a real libvirtd with QEMU, through a real sshd: what a libvirt in memory
//! only claims. The guests have nothing to boot; what boots is tested with the CLIs.
#![cfg(all(feature = "testing", target_os = "linux"))]

#[allow(dead_code, reason = "each test file uses its share")]
#[path = "libvirt/asking.rs"]
mod asking;
#[path = "libvirt_host/mod.rs"]
mod libvirt_host;
#[allow(dead_code, reason = "each test file uses its share")]
#[path = "libvirt/rig.rs"]
mod rig;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use asking::{chain, created, delete, get, installation, key, list, make, read, resume, wanted};
use egress::backend::libvirt::Libvirt;
use egress::backend::libvirt::config::{
    Given, GivenHost, GivenImage, GivenMachineType, GivenSsh, LibvirtConfig,
};
use egress::contract::{
    AdoptRequest, Backend, Deleted, ErrorKind, Facts, Incarnation, Instance, Secret, Secrets, State,
};
use libvirt_host::{Host, Web};
use rig::{KVM, KVM2, Kind, Rig};

/// A backend whose hosts `h1` and `h2` are one real one and one that nobody answers at.
fn backend(kind: Kind, host: &Host, web: &Web, hosts: &[&str]) -> Arc<dyn Backend> {
    let given = Given {
        ssh: Some(GivenSsh {
            key_file: Some(host.key_file()),
            known_hosts_file: Some(host.known_hosts()),
            ..GivenSsh::default()
        }),
        hosts: hosts
            .iter()
            .map(|name| {
                let given = GivenHost {
                    address: Some("127.0.0.1".to_owned()),
                    // Nothing listens at the discard port.
                    port: Some(if *name == "h1" { host.port() } else { 9 }),
                    user: Some("root".to_owned()),
                    network: Some("proxies".to_owned()),
                    ..GivenHost::default()
                };
                ((*name).to_owned(), given)
            })
            .collect(),
        images: BTreeMap::from([(
            "tiny".to_owned(),
            GivenImage {
                url: Some(web.url()),
                format: Some("raw".to_owned()),
                firmware: Some("bios".to_owned()),
                ..GivenImage::default()
            },
        )]),
        machine_types: BTreeMap::from([(
            "small".to_owned(),
            GivenMachineType {
                vcpus: Some(1),
                memory_mib: Some(64),
                ..GivenMachineType::default()
            },
        )]),
        disk_size_gb: Some(1),
        ..Given::default()
    };
    let config = LibvirtConfig::new(given, |_| None).unwrap_or_else(|problems| panic!("{problems:?}"));
    let name = "lab".parse().expect("a name");
    Arc::new(Libvirt::new(name, kind.policy, kind.profile, config))
}

/// An image that no BIOS boots.
fn image(folder: &tempfile::TempDir) -> PathBuf {
    let path = folder.path().join("tiny.raw");
    std::fs::write(&path, vec![0x5a; 1 << 20]).expect("written");
    path
}

/// The volumes of proxies.
fn volumes(host: &Host) -> Vec<String> {
    let all = host.volumes().into_iter();
    all.filter(|name| !name.starts_with("egress-image-")).collect()
}

/// The state that a proxy is in, and why.
async fn state(backend: &Arc<dyn Backend>, instance: &Instance) -> (State, bool, String) {
    let found = get(backend, instance)
        .await
        .unwrap_or_else(|error| panic!("{}", chain(&error)))
        .instance;
    (found.state, found.started, found.reason.unwrap_or_default())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a libvirt host"]
async fn a_proxys_whole_life_on_a_real_libvirtd() {
    let folder = tempfile::tempdir().expect("a folder");
    let (host, web) = (Host::start(), Web::serve(&image(&folder)));
    for kind in [KVM, KVM2] {
        let one = backend(kind, &host, &web, &["h1"]);
        let mut request = wanted(&one, key("team", "a"), Rig::facts());
        request.labels = BTreeMap::from([("team".to_owned(), "<net> & \"ops\"".to_owned())]);
        request.secrets = Secrets {
            cloud_init: Some(Secret::new("#cloud-config\nsecret: never-seen-again\n")),
            ..Secrets::default()
        };
        let made = make(&one, request.clone()).await;
        let made = made.unwrap_or_else(|error| panic!("{}", chain(&error))).instance;
        assert_eq!(made.id.as_str(), "hosts/h1/domains/team-a");
        assert_eq!(host.domains(), ["team-a"]);
        assert_eq!(volumes(&host).len(), 2);
        assert_eq!(made.labels, request.labels);

        // It runs, and of its address nothing is known, since there is nobody in it to ask for one.
        let (seen, started, reason) = state(&one, &made).await;
        assert_eq!((seen, started), (State::Provisioning, true), "{reason}");
        for source in ["guest agent", "ARP table of the host", "DHCP leases of libvirt"] {
            assert!(reason.contains(source), "{reason}");
        }
        // What libvirt keeps of it holds neither the document nor anything that names its words.
        assert!(!host.virsh(&["dumpxml", "team-a"]).contains("never-seen-again"));
        // Another process reads the very same; a listing too, and names the host that does not answer.
        let other = backend(kind, &host, &web, &["h1", "h2"]);
        let again = read(&other, &made.id, None).await.expect("there").instance;
        assert_eq!(again.mark, made.mark);
        let listing = list(&other).await;
        assert_eq!(listing.instances.len(), 1, "{listing:?}");
        assert_eq!(
            (&listing.instances[0].mark, &listing.instances[0].labels),
            (&made.mark, &made.labels)
        );
        let unread: Vec<_> = listing
            .unreadable
            .iter()
            .map(|part| part.prefix.as_str())
            .collect();
        assert_eq!(unread, ["hosts/h2/"]);

        // Stopped behind our back, and started again; paused, and resumed.
        host.virsh(&["destroy", "team-a"]);
        let (seen, _, reason) = state(&one, &made).await;
        assert_eq!(
            (seen, reason.as_str()),
            (State::Stopped, "it is off, destroyed by somebody")
        );
        resume(&one, &made).await.expect("started");
        assert!(state(&one, &made).await.1);
        host.virsh(&["suspend", "team-a"]);
        assert_eq!(state(&one, &made).await.0, State::Stopped);
        resume(&one, &made).await.expect("resumed");
        assert!(state(&one, &made).await.1);

        // A second create of it is refused, and one of another specification too.
        let error = make(&other, wanted(&other, key("team", "a"), Rig::facts()))
            .await
            .expect_err("held");
        assert!(error.to_string().contains("import {"), "{}", chain(&error));
        let facts = Facts {
            port: Some(8080),
            ..Rig::facts()
        };
        let error = make(&other, wanted(&other, key("team", "a"), facts))
            .await
            .expect_err("another");
        assert!(error.to_string().contains("8080"), "{}", chain(&error));

        // A mark that was stripped, and given back.
        host.virsh(&[
            "metadata",
            "team-a",
            kind.policy.namespace,
            "--remove",
            "--live",
            "--config",
        ]);
        let error = get(&one, &made).await.expect_err("stripped");
        assert!(error.to_string().contains("adopt"), "{error}");
        let mut adopt = AdoptRequest {
            id: made.id.clone(),
            installation: installation(),
            from: None,
            stated: made.mark.facts.clone(),
            incarnation: Incarnation::fresh(),
            write: None,
        };
        let shown = one.adopt(&adopt).await.expect("shown").instance.mark;
        assert_eq!(
            (&shown.key, &shown.facts, shown.uid),
            (&made.mark.key, &made.mark.facts, made.mark.uid)
        );
        adopt.write = Some(shown);
        let adopted = one.adopt(&adopt).await.expect("written").instance;
        assert!(state(&one, &adopted).await.1);

        // A snapshot of it does not keep it; nothing of it is left.
        host.virsh(&["destroy", "team-a"]);
        host.virsh(&["snapshot-create", "team-a"]);
        assert_eq!(delete(&one, &adopted).await.expect("deleted"), Deleted::Gone);
        assert_eq!((host.domains().len(), volumes(&host).len()), (0, 0));
        let error = get(&one, &adopted).await.expect_err("gone");
        assert_eq!(error.kind(), ErrorKind::NotFound);

        // A domain that somebody else removed leaves its volumes, which are found and removed.
        let left = created(&one, "left").await;
        host.virsh(&["destroy", "left"]);
        host.virsh(&["undefine", "left"]);
        assert_eq!(state(&one, &left).await.0, State::Terminated);
        let listing = list(&one).await;
        assert_eq!(listing.secondary.len(), 1, "{listing:?}");
        assert_eq!(listing.secondary[0].id, left.id);
        delete(&one, &left).await.expect("removed");
        assert!(volumes(&host).is_empty());
    }
}

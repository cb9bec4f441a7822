//! What of a block is taken, and what is wrong with the rest.

use std::path::PathBuf;

use super::*;
use crate::contract::Secret;
use crate::transport::ssh::{HostKeys, Identity};

/// A block in which nothing is wrong.
pub(in crate::backend::libvirt) fn given() -> Given {
    Given {
        ssh: Some(GivenSsh {
            key_file: Some(PathBuf::from("/keys/id")),
            known_hosts_file: Some(PathBuf::from("/keys/known_hosts")),
            ..GivenSsh::default()
        }),
        hosts: BTreeMap::from([("beelink".to_owned(), given_host("10.0.0.5"))]),
        images: BTreeMap::from([(
            "debian-12".to_owned(),
            GivenImage {
                url: Some("https://images.example/debian-12.qcow2?token=hidden".to_owned()),
                sha256: Some("AB".repeat(32)),
                ..GivenImage::default()
            },
        )]),
        machine_types: BTreeMap::from([(
            "small".to_owned(),
            GivenMachineType {
                vcpus: Some(1),
                memory_mib: Some(1024),
                ..GivenMachineType::default()
            },
        )]),
        ..Given::default()
    }
}

/// A block `host` with that address.
pub(in crate::backend::libvirt) fn given_host(address: &str) -> GivenHost {
    GivenHost {
        address: Some(address.to_owned()),
        bridge: Some("br0".to_owned()),
        ..GivenHost::default()
    }
}

/// A sound configuration, changed.
pub(in crate::backend::libvirt) fn configured(change: impl FnOnce(&mut Given)) -> LibvirtConfig {
    let mut given = given();
    change(&mut given);
    LibvirtConfig::new(given, |_| None).expect("a valid configuration")
}

/// What is wrong with a sound configuration that was changed.
fn problems(change: impl FnOnce(&mut Given)) -> Vec<String> {
    let mut given = given();
    change(&mut given);
    let problems = LibvirtConfig::new(given, |_| None).err().unwrap_or_default();
    problems.iter().map(ToString::to_string).collect()
}

fn host(given: &mut Given) -> &mut GivenHost {
    given.hosts.get_mut("beelink").expect("there")
}

fn ssh(given: &mut Given) -> &mut GivenSsh {
    given.ssh.as_mut().expect("there")
}

#[test]
fn what_is_left_out_has_its_default() {
    let config = configured(|_| ());
    let beelink = config.host("beelink").expect("there");
    assert_eq!((beelink.port, beelink.user.as_str()), (22, "root"));
    assert_eq!(
        (beelink.uri.as_str(), beelink.pool.as_str()),
        ("qemu:///system", "default")
    );
    assert_eq!(beelink.network, Attachment::Bridge("br0".to_owned()));
    assert_eq!((&beelink.socket, beelink.domain_type), (&None, None));
    assert_eq!(beelink.name.id_prefix(), "hosts/beelink/");
    let image = &config.images()["debian-12"];
    assert_eq!(
        (image.format, image.firmware),
        (ImageFormat::Qcow2, Firmware::Uefi)
    );
    assert_eq!(image.sha256.as_deref(), Some("ab".repeat(32).as_str()));
    assert_eq!(config.disk_size_gb(), 10);
    assert!(config.install_guest_agent());
    assert_eq!(config.place(), "hosts 10.0.0.5:22");
    assert!(matches!(config.ssh().host_keys, HostKeys::Strict { .. }));
}

#[test]
fn a_way_through_another_host_logs_in_with_the_same_keys() {
    let config = configured(|given| {
        ssh(given).user = Some("ops".to_owned());
        ssh(given).agent = Some(true);
        host(given).jump = Some(GivenJump {
            address: Some("gate.example".to_owned()),
            user: Some("jumper".to_owned()),
            ..GivenJump::default()
        });
    });
    let route = config.host("beelink").expect("there").route(config.ssh());
    assert_eq!(route.target.to_string(), "ops@10.0.0.5:22");
    let jump = route.jump.expect("a jump host");
    assert_eq!(jump.to_string(), "jumper@gate.example:22");
    assert!(matches!(
        jump.identities.as_slice(),
        [Identity::File { .. }, Identity::Agent { socket: None }]
    ));
    assert_eq!(config.place(), "hosts 10.0.0.5:22 through gate.example:22");
}

#[test]
fn the_passphrase_comes_from_the_argument_or_the_variable() {
    for (argument, variable, opened) in [
        (None, None, None),
        (None, Some("v"), Some("v")),
        (Some("a"), Some("v"), Some("a")),
    ] {
        let mut given = given();
        ssh(&mut given).passphrase = argument.map(Secret::new);
        let config = LibvirtConfig::new(given, |name| {
            assert_eq!(name, PASSPHRASE_VARIABLE);
            variable.map(OsString::from)
        })
        .expect("sound");
        let [Identity::File { passphrase, .. }] = config.ssh().identities.as_slice() else {
            panic!("one key");
        };
        assert_eq!(passphrase.as_ref().map(Secret::expose), opened);
    }
}

#[test]
fn every_mistake_is_told_at_once_with_its_place() {
    let all = problems(|given| {
        given.ssh = Some(GivenSsh {
            user: Some("a b".to_owned()),
            passphrase: Some(Secret::new("sesame")),
            certificate_file: Some(PathBuf::from("/c")),
            host_key: Some("lax".to_owned()),
            ..GivenSsh::default()
        });
        given.hosts = BTreeMap::from([
            (
                "Bee_".to_owned(),
                GivenHost {
                    jump: Some(GivenJump::default()),
                    uri: Some("qemu+ssh://h/system".to_owned()),
                    socket: Some("libvirt-sock".to_owned()),
                    pool: Some(String::new()),
                    network: Some("default".to_owned()),
                    domain_type: Some("xen".to_owned()),
                    ..given_host("ssh://h")
                },
            ),
            (
                "c".to_owned(),
                GivenHost {
                    bridge: Some("a-bridge-with-a-long-name".to_owned()),
                    ..given_host("10.0.0.5:2222")
                },
            ),
            ("d".to_owned(), GivenHost::default()),
        ]);
        given.images.insert(
            "e".to_owned(),
            GivenImage {
                url: Some("ftp://h/i".to_owned()),
                sha256: Some("abc".to_owned()),
                format: Some("vmdk".to_owned()),
                firmware: Some("coreboot".to_owned()),
                ..GivenImage::default()
            },
        );
        given.images.insert("f".to_owned(), GivenImage::default());
        given
            .machine_types
            .insert("g".to_owned(), GivenMachineType::default());
    });
    let places: Vec<_> = all
        .iter()
        .map(|problem| problem.split_once(": ").expect("a place").0)
        .collect();
    assert_eq!(
        places,
        [
            "ssh.user",
            "ssh.passphrase",
            "ssh.certificate_file",
            "ssh",
            "ssh.host_key",
            "host[\"Bee_\"]",
            "host[\"Bee_\"].address",
            "host[\"Bee_\"].jump.address",
            "host[\"Bee_\"].uri",
            "host[\"Bee_\"].socket",
            "host[\"Bee_\"].pool",
            "host[\"Bee_\"].network",
            "host[\"Bee_\"].domain_type",
            "host[\"c\"].address",
            "host[\"c\"].bridge",
            "host[\"d\"].address",
            "host[\"d\"].bridge",
            "image[\"e\"].url",
            "image[\"e\"].sha256",
            "image[\"e\"].format",
            "image[\"e\"].firmware",
            "image[\"f\"].url",
            "machine_type[\"g\"].vcpus",
            "machine_type[\"g\"].memory_mib",
        ]
    );
    assert!(!all.concat().contains("sesame"));
}

#[test]
fn what_is_missing_altogether_is_told() {
    let nothing = LibvirtConfig::new(Given::default(), |_| None).expect_err("nothing of it is there");
    let places: Vec<_> = nothing.iter().map(|problem| problem.place.to_string()).collect();
    assert_eq!(places, ["ssh", "host"]);
    assert!(problems(|given| ssh(given).known_hosts_file = None)[0].starts_with("ssh.known_hosts_file: "));
    let none = problems(|given| ssh(given).key_file = None);
    assert!(none[0].contains("agent = true"), "{none:?}");
}

#[test]
fn what_is_not_known_yet_is_no_mistake() {
    let later = LibvirtConfig::new(
        Given {
            partly_unknown: true,
            ssh: Some(GivenSsh {
                partly_unknown: true,
                ..GivenSsh::default()
            }),
            hosts: BTreeMap::from([(
                "a".to_owned(),
                GivenHost {
                    partly_unknown: true,
                    jump: Some(GivenJump {
                        partly_unknown: true,
                        ..GivenJump::default()
                    }),
                    ..GivenHost::default()
                },
            )]),
            images: BTreeMap::from([(
                "b".to_owned(),
                GivenImage {
                    partly_unknown: true,
                    ..GivenImage::default()
                },
            )]),
            machine_types: BTreeMap::from([(
                "c".to_owned(),
                GivenMachineType {
                    partly_unknown: true,
                    ..GivenMachineType::default()
                },
            )]),
            ..Given::default()
        },
        |_| None,
    );
    assert_eq!(later.err(), Some(Vec::new()));
}

#[test]
fn contradictions_are_refused() {
    for (what, problem) in [
        (
            problems(|given| ssh(given).host_key = Some("insecure".to_owned())),
            "ssh.host_key: ",
        ),
        (
            problems(|given| {
                ssh(given).agent = Some(false);
                ssh(given).agent_socket = Some(PathBuf::from("/a"));
            }),
            "ssh.agent_socket: ",
        ),
        (
            problems(|given| {
                given.hosts.insert("other".to_owned(), given_host("10.0.0.5"));
            }),
            "host[\"other\"].address: ",
        ),
    ] {
        assert_eq!(what.len(), 1, "{what:?}");
        assert!(what[0].starts_with(problem), "{what:?}");
    }
    let insecure = configured(|given| {
        ssh(given).host_key = Some("insecure".to_owned());
        ssh(given).known_hosts_file = None;
    });
    assert!(insecure.ssh().is_insecure());
}

#[test]
fn addresses_are_names_or_numbers_alone() {
    for (address, taken) in [
        ("kvm1.lan", true),
        ("10.0.0.5", true),
        ("fd00::5", true),
        ("[fd00::5]", true),
        ("[fd00::5]:22", false),
        ("10.0.0.5:22", false),
        ("root@10.0.0.5", false),
        ("ssh://10.0.0.5", false),
        ("10.0.0.5/24", false),
        ("a b", false),
        ("", false),
    ] {
        let found = problems(|given| host(given).address = Some(address.to_owned()));
        assert_eq!(found.is_empty(), taken, "{address}: {found:?}");
    }
}

#[test]
fn keys_fit_into_ids_and_volume_names() {
    let long = "a".repeat(64);
    for (key, taken) in [
        ("a", true),
        ("debian-12.5_amd64", true),
        ("1", true),
        ("", false),
        ("-a", false),
        ("a.", false),
        ("A", false),
        ("a/b", false),
        ("a b", false),
        (long.as_str(), false),
    ] {
        assert_eq!(check_key(key).is_ok(), taken, "{key}");
    }
}

#[test]
fn of_a_url_nothing_but_the_host_is_shown() {
    let config = configured(|given| given.vendor_data = Some("hidden".to_owned()));
    let shown = format!("{config:?}");
    assert!(
        shown.contains("images.example") && !shown.contains("hidden"),
        "{shown}"
    );
    let image = Image::of_url("https://images.example/a?token=hidden").expect("sound");
    assert_eq!(image.key.len(), "url-".len() + 16);
    assert_ne!(
        image.key,
        Image::of_url("https://images.example/b").expect("sound").key
    );
    for url in ["nonsense", "file:///etc/passwd", "https://", "debian-12"] {
        assert!(Image::of_url(url).is_err(), "{url}");
    }
}

//! The block of `kvm` and `kvm2`, from values to a configuration or to problems at their places.

use std::collections::BTreeMap;

use super::*;
use crate::backend::kvm2::{POLICY, PROFILE};
use crate::config::{Config, Environment, Scrutiny};
use crate::plugin::diagnostics::Diagnostics;
use crate::plugin::value::{Number, Value};

fn labelled(label: &str, value: Value) -> Value {
    Value::Map(BTreeMap::from([(label.to_owned(), value)]))
}

fn number(text: &str) -> Value {
    Value::Number(text.parse::<Number>().expect("a number"))
}

/// A block in which nothing is wrong, with other or further arguments.
fn sound<const N: usize>(others: [(&str, Value); N]) -> Value {
    let mut block = Value::object([
        (
            "ssh",
            Value::object([
                ("key_file", Value::from("~/id")),
                ("known_hosts_file", "/k".into()),
            ]),
        ),
        (
            "host",
            labelled(
                "beelink",
                Value::object([("address", Value::from("10.0.0.5")), ("bridge", "br0".into())]),
            ),
        ),
        (
            "image",
            labelled(
                "debian-12",
                Value::object([("url", Value::from("https://images.example/debian.qcow2"))]),
            ),
        ),
        (
            "machine_type",
            labelled(
                "small",
                Value::object([("vcpus", number("1")), ("memory_mib", number("1024"))]),
            ),
        ),
    ]);
    for (name, value) in others {
        block.set(name, value);
    }
    block
}

/// What is said of a block: place, and whether it is an error; and whether the block can be used.
fn read(block: &Value) -> (Vec<(String, bool)>, bool) {
    let mut problems = Diagnostics::new();
    let environment = Environment::Given(BTreeMap::from([("HOME".to_owned(), "/home/u".into())]));
    let root = Path::root().attribute("kvm2");
    let settings = parse(
        &mut Reader::new(block, root, &environment, &mut problems),
        &POLICY,
        &PROFILE,
    );
    let error = crate::plugin::diagnostics::Severity::Error;
    let places = problems.into_iter().map(|problem| {
        let place = problem.path.map_or_else(String::new, |path| path.to_string());
        (place, problem.severity == error)
    });
    (places.collect(), settings.is_some())
}

#[test]
fn a_whole_block_is_read() {
    assert_eq!(read(&sound([])), (Vec::new(), true));
    let host = Value::object([
        ("address", Value::from("10.0.0.5")),
        ("port", number("2222")),
        ("user", "ops".into()),
        ("uri", "qemu:///system".into()),
        ("socket", "/run/libvirt/virtqemud-sock".into()),
        ("pool", "proxies".into()),
        ("network", "default".into()),
        ("domain_type", "qemu".into()),
        ("jump", Value::object([("address", Value::from("gate.example"))])),
    ]);
    let block = sound([
        ("host", labelled("beelink", host)),
        ("disk_size_gb", number("20")),
        ("vendor_data", "#cloud-config\n".into()),
        ("install_guest_agent", false.into()),
    ]);
    assert_eq!(read(&block), (Vec::new(), true));
}

#[test]
fn a_mistake_is_told_at_its_place_and_once() {
    let block = sound([
        (
            "host",
            labelled(
                "beelink",
                Value::object([
                    ("address", Value::from("10.0.0.5")),
                    ("bridge", "br0".into()),
                    ("port", number("70000")),
                ]),
            ),
        ),
        (
            "machine_type",
            labelled(
                "small",
                Value::object([("vcpus", number("0")), ("memory_mib", number("1.5"))]),
            ),
        ),
        ("disk_size_gb", number("0")),
    ]);
    let (places, _) = read(&block);
    let places: Vec<_> = places.iter().map(|(place, _)| place.as_str()).collect();
    assert_eq!(
        places,
        [
            "kvm2.disk_size_gb",
            "kvm2.host[\"beelink\"].port",
            "kvm2.machine_type[\"small\"].vcpus",
            "kvm2.machine_type[\"small\"].memory_mib",
        ]
    );
    let (places, is_usable) = read(&Value::Map(BTreeMap::new()));
    let places: Vec<_> = places.iter().map(|(place, _)| place.as_str()).collect();
    assert_eq!(places, ["kvm2.ssh", "kvm2.host"]);
    assert!(!is_usable);
}

#[test]
fn what_is_not_known_yet_is_no_mistake() {
    let host = Value::object([
        ("address", Value::unknown()),
        ("bridge", Value::unknown()),
        ("port", Value::unknown()),
    ]);
    let ssh = Value::object([("key_file", Value::unknown())]);
    let block = sound([
        ("host", labelled("beelink", host)),
        ("ssh", ssh),
        ("disk_size_gb", Value::unknown()),
    ]);
    assert_eq!(read(&block).0, Vec::new());
    assert_eq!(read(&sound([("host", Value::unknown())])).0, Vec::new());
    assert_eq!(read(&sound([("ssh", Value::unknown())])).0, Vec::new());
}

#[test]
fn host_keys_that_are_not_verified_are_warned_of() {
    let ssh = Value::object([("agent", Value::from(true)), ("host_key", "insecure".into())]);
    let block = sound([("ssh", ssh.clone())]);
    assert_eq!(
        read(&block),
        (vec![("kvm2.ssh.host_key".to_owned(), false)], true)
    );
    let provider = Value::object([
        ("installation", Value::from("prod")),
        (
            "backend",
            labelled("lab", Value::object([("kvm2", sound([("ssh", ssh)]))])),
        ),
    ]);
    let environment = Environment::Given(BTreeMap::new());
    let config = Config::from_block(&provider, crate::registry::kinds(), &environment, Scrutiny::Whole)
        .expect("it can be used");
    let titles: Vec<_> = config
        .warnings
        .into_iter()
        .map(|warning| warning.summary)
        .collect();
    assert_eq!(titles, ["The keys of hosts are not verified"]);
}

#[test]
fn both_forms_mean_the_same() {
    let yaml = "
installation: prod
backends:
  lab:
    kvm:
      ssh:
        agent: true
        known_hosts_file: /k
      hosts:
        beelink:
          address: 10.0.0.5
          network: default
          jump:
            address: gate.example
      images:
        debian-12:
          url: https://images.example/debian.qcow2
      machine_types:
        small: { vcpus: 1, memory_mib: 1024 }
";
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("egress.yaml");
    std::fs::write(&file, yaml).expect("written");
    let environment = Environment::Given(BTreeMap::new());
    let kinds = crate::registry::kinds();
    let config = Config::from_file(Some(&file), None, kinds, &environment).expect("sound");
    assert_eq!(config.backends.expect("known").len(), 1);
    // What the blocks' schema enforces is enforced of the file, too.
    std::fs::write(&file, yaml.replace("vcpus: 1, ", "")).expect("written");
    let problems = Config::from_file(Some(&file), None, kinds, &environment).expect_err("a size is missing");
    let places: Vec<_> = problems
        .into_iter()
        .filter_map(|problem| problem.path.map(|path| path.to_string()))
        .collect();
    assert_eq!(places, ["backend[\"lab\"].kvm.machine_type[\"small\"].vcpus"]);
}

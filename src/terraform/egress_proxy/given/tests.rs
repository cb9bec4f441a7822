//! Tests of what a configuration gives, and of what it asks of a proxy that exists.

use super::*;
use crate::contract::spec::sha256_hex;

fn read(config: &Value) -> Given {
    let mut problems = Diagnostics::new();
    let given = Given::read(config, &mut problems);
    assert!(problems.is_empty(), "{problems:#?}");
    given
}

fn current() -> Facts {
    Facts {
        port: Some(8080),
        zone: Some("z1".into()),
        machine_type: Some("small".into()),
        allowed_ports: Some(vec![8443]),
        username: Some("u".into()),
        password: Some(PasswordFact::Version("1".into())),
        ..Facts::default()
    }
}

#[test]
fn what_is_asked_of_a_proxy_that_exists() {
    let none = || Value::object::<&str, Value>([]);
    let in_block =
        |block: &str, name: &str, value: Value| Value::object([(block, Value::object([(name, value)]))]);
    type Change = fn(&mut Facts);
    let cases: [(Value, Change); 8] = [
        // The port has a constant default at any time, the ports only where their block is given.
        (none(), |facts| facts.port = Some(3128)),
        (Value::object([("port", Value::from(8080))]), |_| {}),
        (
            Value::object([("port", Value::from(8080)), ("access", none())]),
            |facts| {
                facts.allowed_ports = Some(vec![443]);
            },
        ),
        (in_block(PLACEMENT, ZONE, "z2".into()), |facts| {
            facts.port = Some(3128);
            facts.zone = Some("z2".into());
        }),
        (in_block(PLACEMENT, SPOT, Value::Null), |facts| {
            facts.port = Some(3128)
        }),
        (in_block(ACCESS, PASSWORD_WO_VERSION, "2".into()), |facts| {
            facts.port = Some(3128);
            facts.allowed_ports = Some(vec![443]);
            facts.password = Some(PasswordFact::Version("2".into()));
        }),
        (in_block(ACCESS, ALLOWED_PORTS, vec![8443].into()), |facts| {
            facts.port = Some(3128)
        }),
        (Value::object([(CLOUD_INIT_WO_VERSION, "3")]), |facts| {
            facts.port = Some(3128);
            facts.cloud_init = Some(CloudInitFact::Version("3".into()));
        }),
    ];
    for (config, change) in cases {
        let mut expected = current();
        change(&mut expected);
        assert_eq!(read(&config).over(&current()), expected, "{config:?}");
    }
}

#[test]
fn what_is_unknown_is_told_apart_from_what_is_not_given() {
    let access = Value::object([
        (
            ALLOWED_CIDRS,
            Value::List(vec!["10.0.0.0/8".into(), Value::unknown()]),
        ),
        (PASSWORD_WO_VERSION, Value::unknown()),
    ]);
    let given = read(&Value::object([(ACCESS, access), (PORT, Value::unknown())]));
    assert_eq!(
        given.unknown,
        BTreeSet::from([Fact::AllowedCidrs, Fact::Password, Fact::Port])
    );
    assert_eq!(given.facts, Facts::default());
    let whole = read(&Value::object([(PLACEMENT, Value::unknown())]));
    assert!(
        whole.has_placement && whole.unknown.contains(&Fact::Zone) && whole.unknown.contains(&Fact::Spot)
    );
}

#[test]
fn line_ends_do_not_change_a_document_and_everything_else_does() {
    let same = [
        "#!/bin/sh\na\n",
        "#!/bin/sh\r\na\r\n",
        "#!/bin/sh\na",
        "#!/bin/sh\na\n\n",
    ];
    for text in same {
        assert_eq!(cloud_init_sha256(text), sha256_hex("#!/bin/sh\na"), "{text:?}");
    }
    for text in [
        "#!/bin/sh\n a",
        "#!/bin/sh\na ",
        "\n#!/bin/sh\na",
        "#!/bin/sh\n\na",
    ] {
        assert_ne!(cloud_init_sha256(text), sha256_hex("#!/bin/sh\na"), "{text:?}");
    }
}

#[test]
fn a_document_that_would_be_ignored_is_warned_of() {
    assert_eq!(cloud_init_warning("#cloud-config\nusers: []\n"), None);
    assert!(cloud_init_warning("users: []\n").is_some());
    assert!(cloud_init_warning("\n#cloud-config\n").is_some());
}

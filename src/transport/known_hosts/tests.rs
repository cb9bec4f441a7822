//! The matcher against what OpenSSH's client was seen to do with the same lines.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;
use russh::keys::ssh_key::certificate::Builder;
use russh::keys::ssh_key::certificate::CertType;
use russh::keys::ssh_key::private::Ed25519Keypair;
use russh::keys::{PrivateKey, PublicKeyOrCertificate};

use super::*;

const RSA: &str = "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAAAgQDBL48KEvlBDXRHKMfNgMgfZmWzvgDEvyHUwJ56DsV0RvqcAx0jGEGdkDn19LAAiNkbHRb1SNkUEylMfsiHoGhMSlR5fRUuqRjmDKuGUHPYwHnBaVMMTPF7jNJzFE6AtmwA90/XLybEzcHJf9iddCyljhVUGqJyD06ImqeaMsF1cQ==";
const ECDSA: &str = "ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBHi3qHQVo8yNT4mF5fPRZ5q0gt+jbnHkN5GgiaRVRZ+VGhJJCgDxiFroe0kQlEyBHjFlaF5CeEP6yrHFGH74MrY=";
/// The server's own key is 1, another one is 2, an authority is 3.
fn private(seed: u8) -> PrivateKey {
    PrivateKey::from(Ed25519Keypair::from_seed(&[seed; 32]))
}

fn public(seed: u8) -> PublicKey {
    PublicKey::new(private(seed).public_key().key_data().clone(), "")
}

fn text(seed: u8) -> String {
    public(seed).to_openssh().expect("encodes")
}

/// `{K}`, `{K2}`, `{CA}`, `{R}`, `{E}` and `{b64}` stand for keys and for K's base64 alone.
fn fill(template: &str) -> String {
    let k = text(1);
    let b64 = k.split(' ').nth(1).expect("two fields").to_owned();
    template
        .replace("{K}", &k)
        .replace("{K2}", &text(2))
        .replace("{CA}", &text(3))
        .replace("{R}", RSA)
        .replace("{E}", ECDSA)
        .replace("{b64}", &b64)
}

fn about(template: &str, host: &str, port: u16) -> Records {
    KnownHosts::new("/kh", fill(template)).about(&HostName::new(host, port))
}

fn judged(template: &str, host: &str, port: u16) -> Verdict {
    about(template, host, port).judge(&public(1).into(), 0)
}

fn known(line: usize) -> Verdict {
    Verdict::Known { line }
}

fn unknown() -> Verdict {
    Verdict::Unknown {
        portless: None,
        certificate: None,
    }
}

fn changed(line: usize, kind: &str) -> Verdict {
    Verdict::Changed {
        line,
        kind: kind.to_owned(),
    }
}

#[test]
fn as_openssh_judges() {
    let ed = "ssh-ed25519";
    let hashed = {
        use hmac::{Hmac, KeyInit as _, Mac as _};
        move |name: &str| {
            let mut mac = Hmac::<sha1::Sha1>::new_from_slice(&[7; 20]).expect("any length");
            mac.update(name.as_bytes());
            let hash = STANDARD.encode(mac.finalize().into_bytes());
            format!("|1|{}|{hash}", STANDARD.encode([7; 20]))
        }
    };
    let (h1, h2222, other) = (hashed("kvm1.lan"), hashed("[kvm1.lan]:2222"), hashed("other"));
    for (lines, host, port, verdict) in [
        ("kvm1.lan {K}\n", "kvm1.lan", 22, known(1)),
        ("kvm1.lan {K} a comment\n", "kvm1.lan", 22, known(1)),
        ("kvm1.lan {K}\r\n", "kvm1.lan", 22, known(1)),
        ("kvm1.lan {K}", "kvm1.lan", 22, known(1)),
        ("a,kvm1.lan,10.0.0.1 {K}\n", "10.0.0.1", 22, known(1)),
        (&format!("{h1} {{K}}\n"), "kvm1.lan", 22, known(1)),
        ("fd00::5 {K}\n", "fd00::5", 22, known(1)),
        ("[kvm1.lan]:2222 {K}\n", "kvm1.lan", 2222, known(1)),
        (&format!("{h2222} {{K}}\n"), "kvm1.lan", 2222, known(1)),
        ("[fd00::5]:2222 {K}\n", "fd00::5", 2222, known(1)),
        ("kvm1.lan {K2}\n", "kvm1.lan", 22, changed(1, ed)),
        // Which key a host with both shows is decided by `recorded_first`.
        ("kvm1.lan {R}\n", "kvm1.lan", 22, changed(1, "ssh-rsa")),
        ("KVM1.Lan {K}\n", "kvm1.lan", 22, known(1)),
        ("kvm1.lan {K}\n", "KVM1.LAN", 22, known(1)),
        ("kvm1.lan\tssh-ed25519\t{b64}\n", "kvm1.lan", 22, known(1)),
        ("kvm1.lan  ssh-ed25519  {b64}\n", "kvm1.lan", 22, known(1)),
        ("  \tkvm1.lan {K}\n", "kvm1.lan", 22, known(1)),
        ("*.lan {K}\n", "kvm1.lan", 22, known(1)),
        ("kvm?.lan {K}\n", "kvm1.lan", 22, known(1)),
        ("*.lan,!kvm1.lan {K}\n", "kvm1.lan", 22, unknown()),
        ("!kvm1.lan,*.lan {K}\nkvm1.lan {K}\n", "kvm1.lan", 22, known(2)),
        ("kvm1.lan {K2}\nkvm1.lan {K}\n", "kvm1.lan", 22, known(2)),
        (
            "@revoked kvm1.lan {K}\nkvm1.lan {K}\n",
            "kvm1.lan",
            22,
            Verdict::Revoked { line: 1 },
        ),
        (
            "kvm1.lan {K}\n@revoked * {K}\n",
            "kvm1.lan",
            22,
            Verdict::Revoked { line: 2 },
        ),
        ("@revoked other {K}\nkvm1.lan {K}\n", "kvm1.lan", 22, known(2)),
        ("@revoked * {K2}\nkvm1.lan {K}\n", "kvm1.lan", 22, known(2)),
        ("@cert-authority *.lan {CA}\n", "kvm1.lan", 22, unknown()),
        ("@cert-authority *.lan {K}\n", "kvm1.lan", 22, unknown()),
        (
            "@cert-authority *.lan {CA}\nkvm1.lan {K}\n",
            "kvm1.lan",
            22,
            known(2),
        ),
        (
            "kvm1.lan ssh-ed25519 AAA!\nkvm1.lan {K}\n",
            "kvm1.lan",
            22,
            known(2),
        ),
        (
            "kvm1.lan ssh-dss AAAAB3NzaC1kc3MAAACBAN\nkvm1.lan {K}\n",
            "kvm1.lan",
            22,
            known(2),
        ),
        ("kvm1.lan ssh-rsa {b64}\nkvm1.lan {K}\n", "kvm1.lan", 22, known(2)),
        ("kvm1.lan ssh-rsa {b64}\n", "kvm1.lan", 22, unknown()),
        ("kvm1.lan\nkvm1.lan {K}\n", "kvm1.lan", 22, known(2)),
        ("kvm1.lan # {K}\n", "kvm1.lan", 22, unknown()),
        ("# a\n\n  # b\nkvm1.lan {K2}\n", "kvm1.lan", 22, changed(4, ed)),
        (
            "kvm1.lan {K2}\nkvm1.lan {E}\n",
            "kvm1.lan",
            22,
            changed(2, "ecdsa-sha2-nistp256"),
        ),
        ("[kvm1.lan]:22 {K}\n", "kvm1.lan", 22, unknown()),
        ("", "kvm1.lan", 22, unknown()),
        ("@foo kvm1.lan {K}\nkvm1.lan {K}\n", "kvm1.lan", 22, known(2)),
        (
            "@revoked @cert-authority kvm1.lan {K}\nkvm1.lan {K}\n",
            "kvm1.lan",
            22,
            known(2),
        ),
        ("\u{feff}kvm1.lan {K}\n", "kvm1.lan", 22, unknown()),
        ("[*]:2222 {K}\n", "h", 2222, known(1)),
        ("* {K}\n", "h", 2222, known(1)),
        // An unrelated hashed line is no statement about this host.
        (
            &format!("{other} {{K2}}\nkvm1.lan {{K}}\n"),
            "kvm1.lan",
            22,
            known(2),
        ),
        (&format!("{other} {{K2}}\n"), "kvm1.lan", 22, unknown()),
    ] {
        assert_eq!(
            judged(lines, host, port),
            verdict,
            "{lines} asked for {host} {port}"
        );
    }
}

#[test]
fn bytes_that_are_no_text_spoil_only_their_own_line() {
    let mut bytes = b"\xff\xfe caf\xe9 \xff\nkvm1.lan \xff\xff \xff\n".to_vec();
    bytes.extend(fill("kvm1.lan {K} caf").as_bytes());
    bytes.extend(b"\xe9\n");
    let records = KnownHosts::new("/kh", bytes).about(&HostName::new("kvm1.lan", 22));
    assert_eq!(records.judge(&public(1).into(), 0), known(3));
    assert_eq!(
        records.skipped(),
        [Skipped {
            line: 2,
            why: Why::Key
        }]
    );
}

#[test]
fn a_key_recorded_without_the_port_is_unknown_and_pointed_at() {
    let found = |line| Verdict::Unknown {
        portless: Some(line),
        certificate: None,
    };
    assert_eq!(judged("x {K}\nh {K}\n", "h", 7999), found(2));
    let hashed = "|1|yC5meock/BJjsNF060PY/+CAIEw=|wizEBEx0uLNonNxcSnhHmHA8/1Y= {K}\n";
    assert_eq!(judged(hashed, "h", 7999), found(1));
    assert_eq!(judged("h {K2}\n", "h", 7999), unknown());
}

#[test]
fn bad_lines_are_named() {
    let lines = "@foo a {K}\nkvm1.lan\n|1|x {K}\nkvm1.lan ssh-ed25519 AAAA\nkvm1.lan ssh-rsa {b64}\n\
                 kvm1.lan new@example.com AAAAD25ld0BleGFtcGxlLmNvbQAAAAF4\nother ssh-ed25519 AAAA\nkvm1.lan {K}x\n";
    let expected = [
        (1, Why::Marker),
        (2, Why::Truncated),
        (3, Why::Hash),
        (4, Why::Key),
        (5, Why::Kind),
        (6, Why::Kind),
        (8, Why::Key),
    ]
    .map(|(line, why)| Skipped { line, why });
    assert_eq!(about(lines, "kvm1.lan", 22).skipped(), expected);
}

#[test]
fn recorded_key_types_come_first() {
    let offer = russh::Preferred::DEFAULT.key;
    let names = |records: &Records| {
        records
            .recorded_first(&offer)
            .iter()
            .map(|algorithm| algorithm.as_str().to_owned())
            .collect::<Vec<_>>()
    };
    let plain = names(&about("", "h", 22));
    assert_eq!(plain[0], "ssh-ed25519");
    assert_eq!(
        names(&about("h {R}\n", "h", 22))[..3],
        ["rsa-sha2-512", "rsa-sha2-256", "ssh-rsa"]
    );
    assert_eq!(
        names(&about("h {R}\nh {E}\n@revoked h {K}\n", "h", 22))[..2],
        ["ecdsa-sha2-nistp256", "rsa-sha2-512"]
    );
    assert_eq!(names(&about("h {R}\n", "h", 22)).len(), plain.len());
    assert!(!about("h {R}\n", "h", 22).has_authority());
    assert!(about("@cert-authority * {R}\n", "h", 22).has_authority());
}

struct Certified {
    kind: CertType,
    principals: &'static [&'static str],
    option: bool,
    window: (u64, u64),
    authority: u8,
}

const GOOD: Certified = Certified {
    kind: CertType::Host,
    principals: &["kvm1.lan"],
    option: false,
    window: (100, 200),
    authority: 3,
};

fn certify(certified: &Certified) -> PublicKeyOrCertificate {
    let (after, before) = certified.window;
    let key = public(1);
    let mut builder = Builder::new([9; 32], key.key_data().clone(), after, before).expect("a window");
    builder.cert_type(certified.kind).expect("a type");
    for principal in certified.principals {
        builder.valid_principal(*principal).expect("a principal");
    }
    if certified.principals.is_empty() {
        builder.all_principals_valid().expect("all");
    }
    if certified.option {
        builder.critical_option("force-command", "x").expect("an option");
    }
    PublicKeyOrCertificate::Certificate(builder.sign(&private(certified.authority)).expect("signs"))
}

#[test]
fn certificates() {
    let authority = "@cert-authority *.lan {CA}\n";
    let bad = |why| Verdict::Unknown {
        portless: None,
        certificate: Some(why),
    };
    let star: Certified = Certified {
        principals: &["*.lan"],
        ..GOOD
    };
    for (lines, certified, now, verdict) in [
        (authority, &GOOD, 150, known(1)),
        (authority, &GOOD, 100, known(1)),
        (authority, &star, 150, known(1)),
        (
            authority,
            &Certified {
                principals: &[],
                ..GOOD
            },
            150,
            known(1),
        ),
        (authority, &GOOD, 99, bad(BadCertificate::Time)),
        (authority, &GOOD, 200, bad(BadCertificate::Time)),
        (
            authority,
            &Certified {
                kind: CertType::User,
                ..GOOD
            },
            150,
            bad(BadCertificate::NotForHosts),
        ),
        (
            authority,
            &Certified { option: true, ..GOOD },
            150,
            bad(BadCertificate::Options),
        ),
        (
            authority,
            &Certified {
                principals: &["kvm2.lan", "x"],
                ..GOOD
            },
            150,
            bad(BadCertificate::OtherHost("kvm1.lan".into())),
        ),
        (authority, &Certified { authority: 2, ..GOOD }, 150, unknown()),
        ("@cert-authority *.org {CA}\n", &GOOD, 150, unknown()),
        // An authority's line is no statement about plain keys, nor a plain line about authorities.
        ("kvm1.lan {CA}\n", &GOOD, 150, changed(1, "ssh-ed25519")),
        ("kvm1.lan {K}\n", &GOOD, 150, known(1)),
        // A certificate that does not count still carries a key.
        ("@cert-authority * {CA}\nkvm1.lan {K}\n", &GOOD, 500, known(2)),
        (
            "@cert-authority * {CA}\n@revoked * {CA}\n",
            &GOOD,
            150,
            Verdict::Revoked { line: 2 },
        ),
        (
            "@cert-authority * {CA}\n@revoked * {K}\n",
            &GOOD,
            150,
            Verdict::Revoked { line: 2 },
        ),
        (
            "@revoked * {CA}\nkvm1.lan {K}\n",
            &GOOD,
            150,
            Verdict::Revoked { line: 1 },
        ),
    ] {
        assert_eq!(
            about(lines, "kvm1.lan", 22).judge(&certify(certified), now),
            verdict,
            "{lines} at {now}"
        );
    }
}

#[tokio::test]
async fn a_missing_file_is_told_from_one_that_cannot_be_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let missing = folder.path().join("none");
    assert!(matches!(KnownHosts::read(&missing).await, Err(Unusable::Missing(path)) if path == missing));
    let error = KnownHosts::read(folder.path())
        .await
        .expect_err("a folder is no file");
    assert!(matches!(error, Unusable::Unreadable { .. }));
}

#[tokio::test]
async fn what_is_appended_is_found() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("kh");
    let name = HostName::new("KVM1.lan", 2222);
    append(&file, &name, &public(1)).await.expect("a new file");
    std::fs::write(&file, format!("other {}", text(2))).expect("a file without a last newline");
    append(&file, &name, &public(1)).await.expect("an old file");
    let read = KnownHosts::read(&file).await.expect("reads");
    assert_eq!(read.about(&name).judge(&public(1).into(), 0), known(2));
    assert!(read.about(&name).skipped().is_empty());
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let fresh = folder.path().join("fresh");
        append(&fresh, &name, &public(1)).await.expect("a new file");
        let mode = std::fs::metadata(&fresh).expect("there").permissions().mode();
        assert_eq!(mode & 0o077, 0);
    }
}

proptest! {
    #[test]
    fn no_file_panics(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let records = KnownHosts::new("/kh", bytes).about(&HostName::new("h", 22));
        prop_assert_eq!(records.judge(&public(1).into(), 0), unknown());
    }

    #[test]
    fn no_line_panics(
        marker in "(@revoked |@cert-authority |@x )?",
        hosts in "[h*?!,|1]{1,6}",
        kind in "(ssh-ed25519|ssh-rsa|ssh-dss|ecdsa-sha2-nistp256)",
        blob in proptest::collection::vec(any::<u8>(), 0..120),
    ) {
        let line = format!("{marker}{hosts} {kind} {}\n", STANDARD.encode(blob));
        let records = KnownHosts::new("/kh", line).about(&HostName::new("h", 22));
        prop_assert_eq!(records.judge(&public(1).into(), 0), unknown());
    }
}

//! Key files as ssh-keygen, openssl and puttygen wrote them. They were made for these tests and open
//! nothing.

use proptest::prelude::*;
use russh::keys::PublicKey;

use super::*;

const PASSPHRASE: &str = "open sesame";

/// A file's name, its contents and its public key's.
macro_rules! files {
    ($public:literal: $($name:literal),*) => {
        [$(($name, &include_bytes!(concat!("fixtures/", $name))[..], include_str!(concat!("fixtures/", $public, ".pub")))),*]
    };
}

fn plain() -> Vec<(&'static str, &'static [u8], &'static str)> {
    let mut all = Vec::new();
    all.extend(files!("ed25519": "ed25519", "ed25519.ppk2", "ed25519.ppk3"));
    all.extend(files!("ed25519b": "ed25519b.pkcs8"));
    all.extend(files!("rsa": "rsa", "rsa.pem", "rsa.pkcs8"));
    all.extend(files!("p256": "p256", "p256.pem", "p256.pkcs8"));
    all.extend(files!("p384": "p384", "p384.pem", "p384.pkcs8"));
    all.extend(files!("p521": "p521", "p521.pem", "p521.pkcs8"));
    all
}

fn encrypted() -> Vec<(&'static str, &'static [u8], &'static str)> {
    let mut all = Vec::new();
    all.extend(files!("ed25519":
        "ed25519.enc-aes128-cbc", "ed25519.enc-aes256-ctr", "ed25519.enc-aes256-gcm",
        "ed25519.enc-chacha20-poly1305", "ed25519.ppk2-enc", "ed25519.ppk3-enc"));
    all.extend(files!("ed25519b": "ed25519b.pkcs8-enc", "ed25519b.pkcs8-scrypt"));
    all.extend(files!("rsa":
        "rsa.enc-aes256-ctr", "rsa.pem-enc", "rsa.pem-aes192", "rsa.pem-aes256", "rsa.pkcs8-enc"));
    all.extend(files!("p256": "p256.enc-aes256-ctr", "p256.pem-enc", "p256.pkcs8-enc"));
    all.extend(files!("p384": "p384.pem-aes256"));
    all
}

fn is(key: &PrivateKey, public: &str) -> bool {
    let public = PublicKey::from_openssh(public.trim()).expect("a public key");
    key.public_key().key_data() == public.key_data()
}

#[test]
fn keys_of_every_kind() {
    for (name, bytes, public) in plain() {
        for passphrase in [None, Some("not needed")] {
            let key = parse(bytes, passphrase).unwrap_or_else(|problem| panic!("{name}: {problem}"));
            assert!(is(&key, public), "{name}");
        }
    }
}

#[test]
fn encrypted_keys_of_every_kind() {
    for (name, bytes, public) in encrypted() {
        let key = parse(bytes, Some(PASSPHRASE)).unwrap_or_else(|problem| panic!("{name}: {problem}"));
        assert!(is(&key, public), "{name}");
        let missing = parse(bytes, None);
        assert!(matches!(missing, Err(Problem::NeedsPassphrase)), "{name}");
        let wrong = parse(bytes, Some("open barley"));
        assert!(
            matches!(wrong, Err(Problem::WrongPassphrase)),
            "{name}: {:?}",
            wrong.err()
        );
    }
}

#[test]
fn editors_and_mailers_do_no_harm() {
    let text = include_str!("fixtures/ed25519");
    let public = include_str!("fixtures/ed25519.pub");
    for text in [
        text.replace('\n', "\r\n"),
        format!("\u{feff}{text}"),
        format!("\n\n  \n{text}\n\n"),
        format!("a note before the key\n{text}"),
        text.lines().map(|line| format!("  {line}  \n")).collect(),
        text.trim_end().to_owned(),
    ] {
        assert!(is(&parse(text.as_bytes(), None).expect("parses"), public));
    }
}

#[test]
fn what_is_wrong_is_said_in_our_words() {
    let text = include_str!("fixtures/ed25519");
    let half = &text[..text.len() / 2];
    let swapped = text.replacen("AAAA", "BBBB", 1);
    for (contents, words) in [
        ("", "it is empty"),
        (" \n\t\n", "it is empty"),
        (include_str!("fixtures/ed25519.pub"), "public key"),
        (
            "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n",
            "public key",
        ),
        ("hello", "no private key"),
        (
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
            "no private key",
        ),
        (half, "cut off"),
        (swapped.as_str(), "damaged"),
        (
            "-----BEGIN OPENSSH PRIVATE KEY-----\n!!\n-----END OPENSSH PRIVATE KEY-----\n",
            "damaged",
        ),
        (
            "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
            "damaged",
        ),
        (
            "PuTTY-User-Key-File-3: ssh-ed25519\nEncryption: none\n",
            "damaged",
        ),
        (include_str!("fixtures/dsa"), "DSA"),
        (
            "-----BEGIN DSA PRIVATE KEY-----\nAAAA\n-----END DSA PRIVATE KEY-----\n",
            "DSA",
        ),
    ] {
        let problem = parse(contents.as_bytes(), None).expect_err(words);
        assert!(problem.to_string().contains(words), "{problem}");
    }
    let old =
        parse(include_bytes!("fixtures/rsa.pem-des3"), Some(PASSPHRASE)).expect_err("a cipher of the past");
    assert!(old.to_string().contains("ssh-keygen -p"), "{old}");
    assert!(matches!(parse(b"\xff\xfe\0\x01", None), Err(Problem::NotAKey)));
}

#[tokio::test]
async fn files() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("id");
    let error = read(&file, None, None).await.err().expect("missing");
    assert!(matches!(error.problem, Problem::Missing));
    assert!(error.to_string().contains(&file.display().to_string()));
    let error = read(folder.path(), None, None).await.err().expect("a folder");
    assert!(matches!(error.problem, Problem::Unreadable(_)));
    std::fs::write(&file, include_bytes!("fixtures/ed25519.enc-aes256-ctr")).expect("written");
    let passphrase = Secret::new(PASSPHRASE);
    let key = read(&file, None, Some(&passphrase)).await.expect("opens");
    assert!(is(&key.private, include_str!("fixtures/ed25519.pub")));
    assert!(key.certificate.is_none());
    // What lies beside it and is no certificate does not keep the key from being used.
    std::fs::write(folder.path().join("id-cert.pub"), "nonsense").expect("written");
    assert!(
        read(&file, None, Some(&passphrase))
            .await
            .expect("opens")
            .certificate
            .is_none()
    );
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = parse(&bytes, Some("x"));
    }

    #[test]
    fn no_damage_panics(
        which in 0..14_usize, at in 40..200_usize, byte in 32..127_u8,
    ) {
        let (_, bytes, _) = plain()[which];
        let mut damaged = bytes.to_vec();
        let last = damaged.len() - 1;
        damaged[at.min(last)] = byte;
        let _ = parse(&damaged, None);
    }
}

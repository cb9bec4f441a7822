//! Files that hold something else than they should: named, and never quoted.

use super::*;

#[tokio::test]
async fn files_that_are_missing_or_hold_something_else_are_named_without_their_content() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).expect("a file");
        Some(path.display().to_string())
    };
    let authority = Authority::new();
    let own = authority.sign(&["me"]);
    let host = || GivenAccess {
        host: Some("https://127.0.0.1:1".to_owned()),
        ..GivenAccess::default()
    };
    let with_key = |key: Option<String>| GivenAccess {
        client_certificate: Some(own.certificate.clone()),
        client_key_file: key,
        ..host()
    };
    let damaged = own.key.replace(
        "-----BEGIN PRIVATE KEY-----\n",
        "-----BEGIN PRIVATE KEY-----\n!geheim!",
    );
    let cases = [
        (
            GivenAccess {
                token_file: file("empty", "\n"),
                ..host()
            },
            "token_file",
            "it is empty",
        ),
        (
            GivenAccess {
                token_file: file("two", "geheim geheim"),
                ..host()
            },
            "token_file",
            "more than one",
        ),
        (
            GivenAccess {
                token_file: Some("/nonexistent/token".to_owned()),
                ..host()
            },
            "/nonexistent/token",
            "does not exist",
        ),
        (
            GivenAccess {
                token_file: Some(folder.path().display().to_string()),
                ..host()
            },
            "token_file",
            "it is a directory",
        ),
        (
            GivenAccess {
                token_file: Some("/dev/null".to_owned()),
                ..host()
            },
            "/dev/null",
            "not a regular file",
        ),
        (
            GivenAccess {
                ca_file: file("ca", "geheim"),
                ..host()
            },
            "ca_file",
            "no certificate in PEM",
        ),
        (
            GivenAccess {
                ca_file: file("key-as-ca", &own.key),
                ..host()
            },
            "ca_file",
            "no certificate in PEM",
        ),
        (
            with_key(file("certificate-as-key", &own.certificate)),
            "client_key_file",
            "no private key in PEM",
        ),
        (
            with_key(file("damaged", &damaged)),
            "client_key_file",
            "no private key in PEM",
        ),
        (
            with_key(file(
                "encrypted",
                "-----BEGIN ENCRYPTED PRIVATE KEY-----\nZ2VoZWlt\n-----END ENCRYPTED PRIVATE KEY-----\n",
            )),
            "client_key_file",
            "encrypted key",
        ),
    ];
    for (given, names, says) in cases {
        let failure = refused(given).await;
        assert_eq!(failure.kind, ErrorKind::Permanent, "{failure:?}");
        assert_eq!(
            failure.reason,
            HealthReason::CredentialsUnavailable,
            "{failure:?}"
        );
        assert!(
            failure.text.contains(names) && failure.text.contains(says),
            "{failure:?}"
        );
        assert!(!format!("{failure:?}").contains("geheim"), "{failure:?}");
    }
}

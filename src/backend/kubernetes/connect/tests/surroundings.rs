//! Credentials that are found: kubeconfigs, a Pod's service account, or nothing at all.

use super::*;

/// A kubeconfig for that server in a file, after `edit`.
fn kubeconfig(file: &Path, server: &str, authority: &Authority, user: &str) {
    let ca = STANDARD.encode(&authority.pem);
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts:\n- name: c\n  context: {{cluster: c, user: me, namespace: ignored}}\nclusters:\n- name: c\n  cluster: {{server: \"{server}\", certificate-authority-data: {ca}}}\nusers:\n- name: me\n  user: {user}\n"
    );
    fs::write(file, text).expect("a kubeconfig");
}

#[tokio::test]
async fn a_kubeconfig_is_found_where_kubectl_finds_it() {
    let (authority, server) = start(&["127.0.0.1"], guard(&["abc"])).await;
    let home = tempfile::tempdir().expect("a folder");
    fs::create_dir(home.path().join(".kube")).expect("a folder");
    let file = home.path().join(".kube/config");
    kubeconfig(&file, &server.url(), &authority, "{token: abc}");
    for (given, environment) in [
        (None, vec![("HOME", home.path())]),
        (None, vec![("KUBECONFIG", file.as_path())]),
        (Some("~/.kube/config".to_owned()), vec![("HOME", home.path())]),
        (Some(file.display().to_string()), vec![]),
    ] {
        let given = GivenAccess {
            kubeconfig: given,
            ..GivenAccess::default()
        };
        let connection = connection_in(given, &environment);
        version(&connection).await.expect("an answer");
    }
    // The block's own words beat those of the kubeconfig.
    let given = GivenAccess {
        kubeconfig: Some(file.display().to_string()),
        tls_server_name: Some("other.name".to_owned()),
        ..GivenAccess::default()
    };
    assert!(refused(given).await.text.contains("other names"));
}

#[tokio::test]
async fn a_kubeconfig_that_was_written_anew_is_read_again_after_a_401() {
    let (authority, server) = start(&["127.0.0.1"], guard(&["new"])).await;
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("config");
    kubeconfig(&file, &server.url(), &authority, "{token: old}");
    let connection = connection(GivenAccess {
        kubeconfig: Some(file.display().to_string()),
        ..GivenAccess::default()
    });
    version(&connection).await.expect_err("not accepted");
    kubeconfig(&file, &server.url(), &authority, "{token: new}");
    version(&connection).await.expect("an answer");
    assert_eq!(server.seen().len(), 3);
}

#[tokio::test]
async fn nothing_usable_is_an_error_that_names_the_way_out() {
    let home = tempfile::tempdir().expect("a folder");
    let nothing = connection_in(GivenAccess::default(), &[("HOME", home.path())]);
    let homeless = connection(GivenAccess::default());
    let elsewhere = connection_in(
        GivenAccess::default(),
        &[("KUBECONFIG", Path::new("/nonexistent/config"))],
    );
    let outside = connection(GivenAccess {
        in_cluster: Some(true),
        ..GivenAccess::default()
    });
    for (connection, says) in [
        (nothing, "set kubeconfig"),
        (homeless, "there is no home directory"),
        (elsewhere, "/nonexistent/config"),
        (outside, "KUBERNETES_SERVICE_HOST"),
    ] {
        let failure = version(&connection).await.expect_err("nothing to dial");
        assert_eq!(failure.kind, ErrorKind::Permanent);
        assert_eq!(failure.reason, HealthReason::CredentialsUnavailable);
        assert!(
            failure.text.contains(says) && !failure.text.contains("localhost"),
            "{}",
            failure.text
        );
    }
}

#[tokio::test]
async fn a_pod_uses_its_service_account() {
    let (authority, server) = start(&["127.0.0.1"], guard(&["sa"])).await;
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("token"), "sa").expect("a token");
    fs::write(folder.path().join("ca.crt"), &authority.pem).expect("a certificate");
    let mut problems = Vec::new();
    for in_cluster in [Some(true), None] {
        let given = GivenAccess {
            in_cluster,
            ..GivenAccess::default()
        };
        let mut access = validate(given, |_| None, &mut problems).expect("no problem");
        access.surroundings.service_account = folder.path().to_owned();
        access.surroundings.service = Some(("127.0.0.1".to_owned(), server.address.port().to_string()));
        let connection = Connection::new("pod".parse().expect("a name"), access);
        version(&connection).await.expect("an answer");
    }
}

//! Connections to a server of the tests' own: who is trusted, who we are, and fresh credentials.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::super::access::{GivenAccess, Impersonate, validate};
use super::super::testing::{Authority, Pair, Reply, Seen, Server};
use super::*;
use crate::contract::Secret;

fn connection_in(given: GivenAccess, environment: &[(&str, &Path)]) -> Connection {
    let variable = |name: &str| {
        let found = environment.iter().find(|(own, _)| *own == name);
        found.map(|(_, value)| OsString::from(value))
    };
    let mut problems = Vec::new();
    let access = validate(given, variable, &mut problems);
    assert_eq!(problems, []);
    Connection::new("cluster".parse().expect("a name"), access.expect("no problem"))
}

fn connection(given: GivenAccess) -> Connection {
    connection_in(given, &[])
}

fn given(host: String, authority: &Authority) -> GivenAccess {
    GivenAccess {
        host: Some(host),
        ca_certificate: Some(authority.pem.clone()),
        ..GivenAccess::default()
    }
}

fn token(text: &str) -> Option<Secret> {
    Some(Secret::new(text))
}

async fn version(connection: &Connection) -> Result<String, Failure> {
    connection
        .attempt("version.get", BUDGET, |client| async move {
            client.apiserver_version().await
        })
        .await
        .map(|info| info.git_version)
}

async fn refused(given: GivenAccess) -> Failure {
    version(&connection(given)).await.expect_err("not to be had")
}

async fn start(
    names: &[&str],
    handler: impl Fn(&Seen) -> Reply + Send + Sync + 'static,
) -> (Authority, Server) {
    let authority = Authority::new();
    let server = Server::start(&authority.sign(names), None, handler).await;
    (authority, server)
}

/// Lets in who has one of these tokens.
fn guard(tokens: &'static [&'static str]) -> impl Fn(&Seen) -> Reply + Send + Sync {
    move |seen| {
        let header = seen.header("authorization");
        let known = tokens
            .iter()
            .any(|token| header == [format!("Bearer {token}").as_str()]);
        if known {
            Reply::version()
        } else {
            Reply::unauthorized()
        }
    }
}

#[tokio::test]
async fn a_server_with_an_address_in_its_certificate_is_reached_by_it() {
    let (authority, server) = start(&["127.0.0.1"], guard(&["abc"])).await;
    let mut given = given(server.url(), &authority);
    given.token = token("abc");
    let connection = connection(given);
    assert_eq!(version(&connection).await.expect("an answer"), "v1.36.3");
    let endpoint = connection.endpoint().await.expect("an endpoint");
    assert_eq!(endpoint.server, server.url());
    assert_eq!(endpoint.ca_sha256.map(|hash| hash.len()), Some(64));
    let seen = server.seen();
    assert_eq!(
        (seen[0].method.as_str(), seen[0].path.as_str()),
        ("GET", "/version")
    );
    assert!(seen[0].header("user-agent")[0].starts_with("terraform-provider-egress/"));
    assert_eq!(connection.take_warnings(), Vec::<String>::new());
}

#[tokio::test]
async fn a_path_in_the_url_stays_in_front() {
    let (authority, server) = start(&["127.0.0.1"], |_| Reply::version()).await;
    let connection = connection(given(format!("{}/k8s/clusters/c1/", server.url()), &authority));
    version(&connection).await.expect("an answer");
    assert_eq!(server.seen()[0].path, "/k8s/clusters/c1/version");
}

#[tokio::test]
async fn a_certificate_for_another_name_takes_tls_server_name() {
    let (authority, server) = start(&["api.internal"], |_| Reply::version()).await;
    let failure = refused(given(server.url(), &authority)).await;
    assert_eq!(failure.kind, ErrorKind::Permanent);
    assert_eq!(failure.reason, HealthReason::Unauthorized);
    assert!(
        failure.text.contains("tls_server_name") && failure.shared,
        "{}",
        failure.text
    );
    let mut named = given(server.url(), &authority);
    named.tls_server_name = Some("api.internal".to_owned());
    version(&connection(named)).await.expect("an answer");
}

#[tokio::test]
async fn an_unknown_authority_is_permanent_with_the_hint_at_a_leaf() {
    let (_, server) = start(&["127.0.0.1"], |_| Reply::version()).await;
    let failure = refused(given(server.url(), &Authority::new())).await;
    assert_eq!(failure.kind, ErrorKind::Permanent);
    assert!(failure.text.contains("kubectl accepts"), "{}", failure.text);
    assert!(failure.text.contains("ca_certificate"), "{}", failure.text);

    let authority = Authority::new();
    let pair = authority.sign(&["127.0.0.1"]);
    let server = Server::start(&pair, None, |_| Reply::version()).await;
    let mut leaf = given(server.url(), &authority);
    leaf.ca_certificate = Some(pair.certificate.clone());
    let failure = refused(leaf).await;
    assert!(
        failure.text.contains("the server's own certificate"),
        "{}",
        failure.text
    );
    assert!(server.seen().is_empty());
}

#[tokio::test]
async fn an_expired_certificate_is_said_to_be_one() {
    let authority = Authority::new();
    let mut params = rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()]).expect("parameters");
    params.not_before = rcgen::date_time_ymd(2001, 1, 1);
    params.not_after = rcgen::date_time_ymd(2002, 1, 1);
    let server = Server::start(&authority.sign_with(params), None, |_| Reply::version()).await;
    let failure = refused(given(server.url(), &authority)).await;
    assert!(failure.text.contains("expired"), "{}", failure.text);
}

#[tokio::test]
async fn insecure_skips_authority_and_name_with_a_warning() {
    let (_, server) = start(&["somewhere.else"], |_| Reply::version()).await;
    let connection = connection(GivenAccess {
        host: Some(server.url()),
        insecure: Some(true),
        ..GivenAccess::default()
    });
    version(&connection).await.expect("an answer");
    let warnings = connection.take_warnings();
    assert!(
        warnings.len() == 1 && warnings[0].contains("not checked"),
        "{warnings:?}"
    );
    assert_eq!(connection.take_warnings(), Vec::<String>::new());
    assert_eq!(connection.warnings().len(), 1);
}

#[tokio::test]
async fn a_server_without_tls_is_no_silent_downgrade() {
    let server = Server::plain(|_| Reply::version()).await;
    let failure = refused(GivenAccess {
        host: Some(server.url()),
        insecure: Some(true),
        ..GivenAccess::default()
    })
    .await;
    assert_eq!(failure.kind, ErrorKind::Permanent, "{failure:?}");
    assert!(failure.text.contains("does not speak TLS"), "{}", failure.text);
    let plain = connection(GivenAccess {
        host: Some(format!("http://{}", server.address)),
        ..GivenAccess::default()
    });
    version(&plain).await.expect("an answer");
}

#[tokio::test]
async fn a_client_certificate_is_shown() {
    let (authority, clients) = (Authority::new(), Authority::new());
    let pair = authority.sign(&["127.0.0.1"]);
    let server = Server::start(&pair, Some(&clients), |seen| {
        if seen.has_certificate {
            Reply::version()
        } else {
            Reply::unauthorized()
        }
    })
    .await;
    let own = clients.sign(&["me"]);
    let with = |certificate: &Pair, key: &Pair| {
        let mut given = given(server.url(), &authority);
        given.client_certificate = Some(certificate.certificate.clone());
        given.client_key = token(&key.key);
        given
    };
    version(&connection(with(&own, &own))).await.expect("an answer");
    // Of another authority: the server refuses the handshake.
    let other = Authority::new().sign(&["me"]);
    let failure = refused(with(&other, &other)).await;
    assert_eq!(failure.kind, ErrorKind::Permanent, "{failure:?}");
    assert_eq!(failure.reason, HealthReason::Unauthorized);
    // Of another key: nothing is dialled.
    let failure = refused(with(&own, &other)).await;
    assert_eq!(failure.reason, HealthReason::CredentialsUnavailable);
    assert!(failure.text.contains("client_certificate"), "{}", failure.text);
}

#[tokio::test]
async fn whom_to_take_us_for_goes_with_every_request() {
    let (authority, server) = start(&["127.0.0.1"], |_| Reply::version()).await;
    let mut given = given(server.url(), &authority);
    given.impersonate = Some(Impersonate {
        user: Some("system:serviceaccount:a:b".to_owned()),
        uid: Some("u1".to_owned()),
        groups: vec!["g1".to_owned(), "g2".to_owned()],
        extra: BTreeMap::from([(
            "acme.com/Project %".to_owned(),
            vec!["x".to_owned(), "y".to_owned()],
        )]),
    });
    version(&connection(given)).await.expect("an answer");
    let seen = &server.seen()[0];
    assert_eq!(seen.header("impersonate-user"), ["system:serviceaccount:a:b"]);
    assert_eq!(seen.header("impersonate-uid"), ["u1"]);
    assert_eq!(seen.header("impersonate-group"), ["g1", "g2"]);
    assert_eq!(
        seen.header("impersonate-extra-acme.com%2fproject%20%25"),
        ["x", "y"]
    );
}

#[tokio::test]
async fn a_token_that_is_not_accepted_is_not_tried_again() {
    let (authority, server) = start(&["127.0.0.1"], guard(&[])).await;
    let mut given = given(server.url(), &authority);
    given.token = token("geheim");
    let failure = refused(given).await;
    assert_eq!(failure.kind, ErrorKind::Permanent);
    assert_eq!(failure.reason, HealthReason::Unauthorized);
    assert!(failure.text.contains("(token)") && !format!("{failure:?}").contains("geheim"));
    assert!(Error::from(failure).affected().is_some());
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test]
async fn a_token_that_was_rotated_on_disk_is_read_again_after_a_401() {
    let (authority, server) = start(&["127.0.0.1"], guard(&["new"])).await;
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("token");
    fs::write(&file, "old\n").expect("a file");
    let mut given = given(server.url(), &authority);
    given.token_file = Some(file.display().to_string());
    let connection = connection(given);
    let failure = version(&connection).await.expect_err("still the old one");
    assert!(
        failure.text.contains(&file.display().to_string()),
        "{}",
        failure.text
    );
    assert_eq!(server.seen().len(), 1);
    fs::write(&file, "new\n").expect("a file");
    version(&connection).await.expect("an answer");
    assert_eq!(server.seen().len(), 3);
    version(&connection).await.expect("an answer");
    assert_eq!(server.seen().len(), 4);
}

#[cfg(unix)]
mod plugins {
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::PathBuf;

    use super::super::super::access::GivenExec;
    use super::*;

    /// A plugin that counts its runs in the file `runs`, and gives what `status` says.
    fn plugin(folder: &Path, status: &str) -> PathBuf {
        let path = folder.join("plugin");
        let text = format!(
            "#!/bin/sh\ncd {}\necho run >> runs\nn=$(wc -l < runs | tr -d ' ')\ncat <<END\n{{\"apiVersion\":\"client.authentication.k8s.io/v1\",\"kind\":\"ExecCredential\",\"status\":{status}}}\nEND\n",
            folder.display()
        );
        fs::write(&path, text).expect("a script");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("a program");
        path
    }

    fn runs(folder: &Path) -> usize {
        let text = fs::read_to_string(folder.join("runs")).unwrap_or_default();
        text.lines().count()
    }

    fn with_plugin(given: GivenAccess, plugin: &Path) -> Connection {
        connection(GivenAccess {
            exec: Some(GivenExec {
                command: Some(plugin.display().to_string()),
                ..GivenExec::default()
            }),
            ..given
        })
    }

    #[tokio::test]
    async fn a_token_without_an_end_is_kept_until_a_401_and_then_had_anew_once() {
        let (authority, server) = start(&["127.0.0.1"], guard(&["t1"])).await;
        let folder = tempfile::tempdir().expect("a folder");
        let plugin = plugin(folder.path(), r#"{"token":"t$n"}"#);
        let connection = with_plugin(given(server.url(), &authority), &plugin);
        for _ in 0..3 {
            version(&connection).await.expect("an answer");
        }
        assert_eq!(runs(folder.path()), 1);

        let calls = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&calls);
        // The first token is good for two calls.
        let (authority, server) = start(&["127.0.0.1"], move |seen| {
            let has = |token: &str| seen.header("authorization") == [token];
            match count.fetch_add(1, Ordering::SeqCst) {
                0 | 1 if has("Bearer t2") => Reply::version(),
                _ if has("Bearer t3") => Reply::version(),
                _ => Reply::unauthorized(),
            }
        })
        .await;
        let connection = with_plugin(given(server.url(), &authority), &plugin);
        for _ in 0..4 {
            version(&connection).await.expect("an answer");
        }
        assert_eq!((runs(folder.path()), server.seen().len()), (3, 5));
    }

    #[tokio::test]
    async fn fresh_credentials_that_are_not_accepted_either_end_it() {
        let (authority, server) = start(&["127.0.0.1"], guard(&[])).await;
        let folder = tempfile::tempdir().expect("a folder");
        let fresh = plugin(folder.path(), r#"{"token":"t$n"}"#);
        let connection = with_plugin(given(server.url(), &authority), &fresh);
        let failure = version(&connection).await.expect_err("not accepted");
        assert_eq!((runs(folder.path()), server.seen().len()), (2, 2));
        assert!(failure.text.contains("the exec plugin"), "{}", failure.text);

        let same = tempfile::tempdir().expect("a folder");
        let plugin = plugin(same.path(), r#"{"token":"same"}"#);
        let connection = with_plugin(given(server.url(), &authority), &plugin);
        version(&connection).await.expect_err("not accepted");
        assert_eq!((runs(same.path()), server.seen().len()), (2, 3));
    }

    #[tokio::test]
    async fn what_has_expired_is_had_anew_before_it_is_used() {
        let (authority, server) = start(&["127.0.0.1"], guard(&["t1", "t2"])).await;
        let folder = tempfile::tempdir().expect("a folder");
        let status = r#"{"token":"t$n","expirationTimestamp":"2020-01-01T00:00:00Z"}"#;
        let connection = with_plugin(given(server.url(), &authority), &plugin(folder.path(), status));
        version(&connection).await.expect("an answer");
        version(&connection).await.expect("an answer");
        assert_eq!((runs(folder.path()), server.seen().len()), (2, 2));
    }

    #[tokio::test]
    async fn many_calls_at_once_run_the_plugin_once() {
        let (authority, server) = start(&["127.0.0.1"], guard(&["t1"])).await;
        let folder = tempfile::tempdir().expect("a folder");
        let plugin = plugin(folder.path(), r#"{"token":"t$n"}"#);
        let connection = with_plugin(given(server.url(), &authority), &plugin);
        let answers = futures_util::future::join_all((0..8).map(|_| version(&connection))).await;
        assert!(answers.into_iter().all(|answer| answer.is_ok()));
        assert_eq!(runs(folder.path()), 1);
    }
}

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

#[tokio::test]
async fn a_proxy_is_gone_through() {
    // The proxy answers 407 or 503 to every CONNECT, which proves that it was asked, and how.
    let proxy = Server::plain(|_| Reply {
        status: 407,
        headers: Vec::new(),
        body: String::new(),
    })
    .await;
    let failure = refused(GivenAccess {
        host: Some("https://api.invalid:6443".to_owned()),
        proxy_url: token(&format!("http://me:p%40ss@{}", proxy.address)),
        ..GivenAccess::default()
    })
    .await;
    assert!(format!("{failure:?}").contains("proxy"), "{failure:?}");
    let seen = &proxy.seen()[0];
    assert_eq!(
        (seen.method.as_str(), seen.path.as_str()),
        ("CONNECT", "api.invalid:6443")
    );
    let expected = format!("Basic {}", STANDARD.encode("me:p@ss"));
    assert_eq!(seen.header("proxy-authorization"), [expected.as_str()]);
}

#[tokio::test]
async fn what_a_failing_server_says_has_its_meaning_and_its_wait() {
    let (authority, server) = start(&["127.0.0.1"], |seen| match seen.path.as_str() {
        "/slow/version" => Reply {
            status: 429,
            headers: vec![
                ("Retry-After", "7".to_owned()),
                ("Content-Type", "text/plain".to_owned()),
            ],
            body: "Too many requests, please try again later.\n".to_owned(),
        },
        "/page/version" => Reply {
            status: 502,
            headers: vec![("Content-Type", "text/html".to_owned())],
            body: "<html>geheim</html>".to_owned(),
        },
        "/login/version" => Reply {
            status: 302,
            headers: vec![("Location", "https://login".to_owned())],
            body: String::new(),
        },
        "/other/version" => Reply::json(200, "<html>geheim</html>"),
        _ => Reply::status(503, "ServiceUnavailable", "etcd is away"),
    })
    .await;
    let failed = async |path: &str| refused(given(format!("{}{path}", server.url()), &authority)).await;
    let slow = failed("/slow").await;
    assert_eq!(slow.kind, ErrorKind::Transient);
    assert_eq!(slow.retry_after, Some(Duration::from_secs(7)));
    let page = failed("/page").await;
    assert_eq!(page.kind, ErrorKind::Transient);
    assert!(
        page.text.contains("502") && !page.text.contains("geheim"),
        "{}",
        page.text
    );
    let login = failed("/login").await;
    assert_eq!(login.kind, ErrorKind::Permanent);
    assert!(login.text.contains("redirection"), "{}", login.text);
    let other = failed("/other").await;
    assert_eq!(other.kind, ErrorKind::Permanent);
    assert!(!format!("{other:?}").contains("geheim"), "{other:?}");
    let away = failed("").await;
    assert_eq!(away.kind, ErrorKind::Transient);
    assert!(away.text.contains("etcd is away"), "{}", away.text);
}

#[tokio::test]
async fn a_server_that_is_not_there_is_unreachable() {
    let (authority, server) = start(&["127.0.0.1"], |_| Reply::version()).await;
    let url = server.url();
    drop(server);
    let failure = refused(given(url, &authority)).await;
    assert_eq!(failure.kind, ErrorKind::Transient);
    assert_eq!(failure.reason, HealthReason::Unreachable);
    assert!(failure.text.contains("nothing listens"), "{failure:?}");
    assert!(!failure.shared);
}

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

#[test]
fn no_secret_shows_in_a_connection() {
    let connection = connection(GivenAccess {
        host: Some("https://a".to_owned()),
        token: token("geheim"),
        proxy_url: token("http://u:geheim@proxy"),
        ..GivenAccess::default()
    });
    assert!(!format!("{connection:?}").contains("geheim"));
}

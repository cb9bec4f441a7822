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

mod answers;
mod files;
#[cfg(unix)]
mod plugins;
mod surroundings;

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

//! What a server, or a proxy before it, answers instead of what was asked for.

use super::*;

#[tokio::test]
async fn a_proxy_is_gone_through() {
    // The proxy answers 407 to every CONNECT, which proves that it was asked, and how.
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
    assert_eq!(failure.kind, ErrorKind::Permanent, "{failure:?}");
    assert!(failure.text.contains("proxy_url"), "{failure:?}");
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

#[tokio::test(start_paused = true)]
async fn a_refusal_soon_after_trouble_may_pass() {
    let calls = AtomicUsize::new(0);
    let (authority, server) = start(&["127.0.0.1"], move |_| match calls.fetch_add(1, Ordering::SeqCst) {
        1 => Reply::status(503, "ServiceUnavailable", "the API server is away"),
        _ => Reply::status(
            403,
            "Forbidden",
            r#"pods is forbidden: User "ci" cannot list resource "pods" in API group "" in the namespace "a""#,
        ),
    })
    .await;
    let connection = connection(given(server.url(), &authority));
    let kind = async || version(&connection).await.expect_err("refused").kind;
    assert_eq!(kind().await, ErrorKind::Permanent, "there was no trouble");
    assert_eq!(kind().await, ErrorKind::Transient, "the trouble");
    let failure = version(&connection).await.expect_err("refused");
    assert_eq!(failure.kind, ErrorKind::Transient, "{failure:?}");
    assert!(
        failure.text.contains("still starting") && failure.text.contains("cannot list"),
        "{failure:?}"
    );
    tokio::time::advance(STARTING).await;
    assert_eq!(
        kind().await,
        ErrorKind::Permanent,
        "refusals are no trouble of their own"
    );
}

#[tokio::test]
async fn a_proxy_that_is_not_there_is_not_taken_for_the_server() {
    let gone = Server::plain(|_| Reply::version()).await.address;
    for scheme in ["http", "socks5"] {
        let failure = refused(GivenAccess {
            host: Some("https://api.invalid:6443".to_owned()),
            proxy_url: token(&format!("{scheme}://u:geheim@{gone}")),
            ..GivenAccess::default()
        })
        .await;
        assert_eq!(failure.kind, ErrorKind::Transient, "{failure:?}");
        assert_eq!(failure.reason, HealthReason::Unreachable, "{failure:?}");
        assert!(
            failure.text.contains("the proxy to the API server"),
            "{failure:?}"
        );
        assert!(!format!("{failure:?}").contains("geheim"), "{failure:?}");
    }
}

//! Credentials of exec plugins: how often one is run, and when again.

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

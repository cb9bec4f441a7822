//! Exec plugins: small shell scripts, really run.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use super::super::access::ExecVersion;
use super::*;

fn script(folder: &tempfile::TempDir, text: &str) -> Exec {
    let path = folder.path().join("plugin");
    fs::write(&path, format!("#!/bin/sh\n{text}\n")).expect("a script");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("a program");
    of(path)
}

fn of(command: PathBuf) -> Exec {
    Exec {
        version: ExecVersion::V1,
        command,
        args: Vec::new(),
        env: BTreeMap::new(),
        install_hint: None,
        wants_cluster: false,
    }
}

fn credential(status: &str) -> String {
    format!(
        r#"echo '{{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{status}}}'"#
    )
}

async fn failure(text: &str) -> Failure {
    let folder = tempfile::tempdir().expect("a folder");
    match run(&script(&folder, text), None).await {
        Err(failure) => failure,
        Ok(_) => panic!("the plugin was taken for good"),
    }
}

#[tokio::test]
async fn a_plugin_gives_a_token_and_when_it_expires() {
    let folder = tempfile::tempdir().expect("a folder");
    let status = r#"{"token":"t0ken","expirationTimestamp":"2030-01-02T03:04:05Z"}"#;
    let given = run(&script(&folder, &credential(status)), None).await;
    let given = given.unwrap_or_else(|failure| panic!("{}", failure.text));
    assert_eq!(given.token.expect("a token"), "Bearer t0ken");
    let expires = given.expires.expect("a time").to_string();
    assert_eq!(expires, "2030-01-02T03:04:05Z");
}

#[tokio::test]
async fn a_plugin_is_told_what_it_is_asked_for_and_has_no_input() {
    let folder = tempfile::tempdir().expect("a folder");
    let seen = folder.path().join("seen");
    let text = format!(
        "printf '%s\\n' \"$KUBERNETES_EXEC_INFO\" \"$GIVEN\" \"$1\" > {0}\nreadlink /proc/self/fd/0 >> {0}\n{1}",
        seen.display(),
        credential(r#"{"token":"a"}"#)
    );
    let mut exec = script(&folder, &text);
    exec.args = vec!["with space".to_owned()];
    exec.env.insert("GIVEN".to_owned(), Secret::new("value"));
    run(&exec, Some(serde_json::json!({ "server": "https://s" })))
        .await
        .unwrap_or_else(|failure| panic!("{}", failure.text));
    let seen = fs::read_to_string(seen).expect("what it saw");
    let lines: Vec<_> = seen.lines().collect();
    let info: serde_json::Value = serde_json::from_str(lines[0]).expect("JSON");
    assert_eq!(
        info,
        serde_json::json!({
            "kind": "ExecCredential",
            "apiVersion": "client.authentication.k8s.io/v1",
            "spec": { "interactive": false, "cluster": { "server": "https://s" } },
        })
    );
    assert_eq!(lines[1..], ["value", "with space", "/dev/null"]);
}

#[tokio::test]
async fn what_goes_wrong_with_a_plugin_is_permanent_and_quotes_no_output() {
    let other = r#"echo '{"apiVersion":"client.authentication.k8s.io/v1beta1","kind":"ExecCredential","status":{"token":"geheim"}}'"#;
    for (text, says) in [
        ("echo geheim", "no ExecCredential"),
        (
            "echo '{\"kind\":\"Secret\",\"token\":\"geheim\"}'",
            "no ExecCredential",
        ),
        (other, "v1beta1"),
        (&credential("{}"), "neither a token nor"),
        (&credential("null"), "without a status"),
        (&credential(r#"{"clientCertificateData":"geheim"}"#), "not both"),
        (
            &credential(r#"{"clientCertificateData":"geheim","clientKeyData":"geheim"}"#),
            "no certificate in PEM",
        ),
        (
            &credential(r#"{"token":"geheim","expirationTimestamp":"tomorrow"}"#),
            "expirationTimestamp",
        ),
        (&credential(r#"{"token":"geheim geheim"}"#), "more than one token"),
        ("echo geheim; exit 3", "it said nothing"),
    ] {
        let failure = failure(text).await;
        assert_eq!(failure.kind, ErrorKind::Permanent, "{text}");
        assert_eq!(failure.reason, HealthReason::CredentialsUnavailable, "{text}");
        let told = format!("{failure:?}");
        assert!(told.contains(says), "{told}");
        assert!(!told.contains("geheim"), "{told}");
    }
}

#[tokio::test]
async fn the_last_lines_of_stderr_are_shown_without_what_may_be_a_token() {
    let token = "x".repeat(60);
    let failure = failure(&format!(
        "for i in 1 2 3 4 5 6 7; do echo line $i >&2; done; echo 'expired: {token} log in again' >&2; exit 1"
    ))
    .await;
    assert!(
        failure.text.contains("line 7 / expired: … log in again"),
        "{}",
        failure.text
    );
    assert!(!failure.text.contains("line 1"), "{}", failure.text);
    assert!(!failure.text.contains(&token), "{}", failure.text);
}

#[tokio::test]
async fn a_plugin_that_is_not_there_is_named_with_the_hint_of_its_author() {
    let mut exec = of(PathBuf::from("/nonexistent/plugin"));
    exec.install_hint = Some("Install it from the vendor.".to_owned());
    let Err(failure) = run(&exec, None).await else {
        panic!("there is no such plugin");
    };
    assert_eq!(failure.kind, ErrorKind::Permanent);
    assert!(failure.text.contains("/nonexistent/plugin") && failure.text.contains("from the vendor"));
}

#[tokio::test]
async fn a_daemon_that_a_plugin_leaves_behind_holds_nobody_up() {
    let folder = tempfile::tempdir().expect("a folder");
    let pid = folder.path().join("pid");
    let text = format!(
        "sleep 600 & echo $! > {}\n{}",
        pid.display(),
        credential(r#"{"token":"a"}"#)
    );
    let given = run(&script(&folder, &text), None).await;
    assert!(given.is_ok_and(|given| given.token.is_some()));
    let pid: i32 = fs::read_to_string(pid)
        .expect("a pid")
        .trim()
        .parse()
        .expect("a number");
    let pid = rustix::process::Pid::from_raw(pid).expect("a pid");
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("it still ran");
}

#[tokio::test]
async fn whoever_stops_waiting_ends_the_plugin_and_its_children() {
    let folder = tempfile::tempdir().expect("a folder");
    let pipe = folder.path().join("pipe");
    // The child holds the pipe open for as long as it lives.
    let text = format!("sleep 600 > {} & wait", pipe.display());
    let exec = script(&folder, &text);
    let made = std::process::Command::new("mkfifo")
        .arg(&pipe)
        .status()
        .expect("mkfifo");
    assert!(made.success());
    let running = crate::transport::call::Task::spawn(async move { run(&exec, None).await.is_ok() });
    // Opening returns when the child opened the other end; reading when nobody holds it any more.
    let (opened, is_open) = tokio::sync::oneshot::channel();
    let end = crate::transport::call::blocking(move || {
        let mut pipe = fs::File::open(pipe).expect("the pipe");
        opened.send(()).expect("somebody waits");
        io::copy(&mut pipe, &mut io::sink()).expect("its end")
    });
    let end = crate::transport::call::Task::spawn(end);
    is_open.await.expect("the child runs");
    drop(running);
    assert!(end.await.expect("an end").is_ok());
}

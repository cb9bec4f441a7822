//! From the process's start to its end: handshake, TLS, companion services, signals, debug mode.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use rustix::process::{Pid, Signal, kill_process};

use crate::generated::go_plugin::conn_info::Knock;
use crate::generated::go_plugin::{self, ConnInfo};
use crate::generated::grpc_health::health_check_response::ServingStatus;
use crate::generated::grpc_health::health_client::HealthClient;
use crate::generated::grpc_health::{HealthCheckRequest, HealthCheckResponse};
use crate::generated::tfplugin6::validate_provider_config;
use crate::host::{Connection, Identity, Plugin, Session, command, origin, plain};

fn signal(plugin: &Plugin, signal: Signal) {
    let pid = plugin
        .child
        .id()
        .and_then(|pid| Pid::from_raw(pid as i32))
        .expect("it runs");
    kill_process(pid, signal).expect("it can be signalled");
}

fn left_in(plugin: &Plugin) -> Vec<PathBuf> {
    std::fs::read_dir(plugin.directory.path())
        .expect("readable")
        .map(|entry| entry.expect("an entry").path())
        .collect()
}

#[tokio::test]
async fn the_handshake_is_one_line_and_the_shutdown_leaves_nothing() {
    let Session {
        plugin, connection, ..
    } = Session::start().await;
    let fields = plugin.fields();
    assert_eq!(fields.len(), 6, "{}", plugin.line);
    assert_eq!(
        (fields[0], fields[1], fields[2], fields[4]),
        ("1", "6", "unix", "grpc")
    );
    assert!(
        fields[5].len() > 50,
        "a host reads the certificate from 50 characters on"
    );
    let socket = plugin.socket();
    assert!(socket.starts_with(plugin.directory.path()));
    let mode =
        |path: &std::path::Path| std::fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
    assert_eq!(
        (mode(&socket), mode(socket.parent().expect("a parent"))),
        (0o600, 0o700)
    );

    connection.shutdown().await;
    let directory = plugin.directory.path().to_owned();
    let mut plugin = plugin;
    let status = plugin.child.wait().await.expect("it ends");
    assert!(status.success(), "{status}");
    assert_eq!(
        plugin.stdout.next_line().await.expect("readable"),
        None,
        "nothing follows the handshake"
    );
    assert_eq!(
        std::fs::read_dir(directory).expect("readable").count(),
        0,
        "the socket is gone"
    );
}

#[tokio::test]
async fn a_person_is_told_what_it_is() {
    let output = command().output().await.expect("it runs");
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "");
    assert_eq!(
        String::from_utf8_lossy(&output.stderr),
        "toy: a plugin for Terraform\n"
    );
}

#[tokio::test]
async fn a_host_of_another_protocol_is_told_ours() {
    let plugin = Plugin::start(None, |command| {
        command
            .env("PLUGIN_PROTOCOL_VERSIONS", "4,5")
            .env("PLUGIN_MULTIPLEX_GRPC", "true");
    })
    .await;
    let fields = plugin.fields();
    assert_eq!(fields[1], "6");
    assert_eq!(
        &fields[5..],
        ["", "false"],
        "without TLS the certificate is empty; there is no multiplexing"
    );
}

#[tokio::test]
async fn only_the_holder_of_the_hosts_certificate_is_let_in() {
    let host = Identity::new();
    let plugin = Plugin::start(Some(&host.pem), |_| ()).await;
    let stranger = Identity::new();
    for intruder in [None, Some(&stranger)] {
        let served = match plugin.connect_tls(intruder).await {
            Ok(connection) => connection.serves().await,
            Err(_) => false,
        };
        assert!(!served, "a client without the host's certificate was served");
    }
    let connection = plugin.connect_tls(Some(&host)).await.expect("the host is let in");
    assert!(connection.serves().await);
}

#[tokio::test]
async fn without_tls_nothing_is_served_to_a_client_that_expects_it_and_all_to_one_that_does_not() {
    let plugin = Plugin::start(None, |_| ()).await;
    assert_eq!(plugin.fields()[5], "");
    assert!(plugin.connect_plain().await.serves().await);
    let with_tls = Plugin::start(Some(&Identity::new().pem), |_| ()).await;
    assert!(
        !with_tls.connect_plain().await.serves().await,
        "plaintext was served though TLS was asked for"
    );
}

#[tokio::test]
async fn a_certificate_that_is_none_is_an_error_before_the_handshake() {
    let plugin = Plugin::start(Some("not a certificate"), |_| ()).await;
    assert_eq!(plugin.line, "");
    let (code, _, stderr) = plugin.end().await;
    assert_eq!(code, Some(1));
    assert!(stderr.contains("mutual TLS"), "{stderr}");
}

#[tokio::test]
async fn a_temporary_directory_with_a_long_name_is_passed_over() {
    let parent = tempfile::tempdir().expect("a directory");
    let long = parent.path().join("x".repeat(100));
    std::fs::create_dir(&long).expect("created");
    let plugin = Plugin::start(None, |command| {
        command.env("TMPDIR", &long);
    })
    .await;
    assert!(plugin.socket().starts_with("/tmp/"), "{}", plugin.line);
    assert!(plugin.socket().as_os_str().len() <= 100);
    assert!(plugin.connect_plain().await.serves().await);
}

#[tokio::test]
async fn stdio_and_broker_stay_open_until_the_shutdown() {
    let Session {
        plugin, connection, ..
    } = Session::start().await;
    let mut stdio = go_plugin::grpc_stdio_client::GrpcStdioClient::with_origin(connection.clone(), origin());
    let mut output = stdio.stream_stdio(()).await.expect("it is open").into_inner();
    let mut broker =
        go_plugin::grpc_broker_client::GrpcBrokerClient::with_origin(connection.clone(), origin());
    let knock = Knock {
        knock: true,
        ..Knock::default()
    };
    let knocks = tokio_stream::iter([
        ConnInfo {
            service_id: 1,
            network: "unix".to_owned(),
            ..ConnInfo::default()
        },
        ConnInfo {
            service_id: 7,
            knock: Some(knock),
            ..ConnInfo::default()
        },
    ]);
    let mut answers = broker
        .start_stream(knocks)
        .await
        .expect("it is open")
        .into_inner();
    let refused = answers
        .message()
        .await
        .expect("a message")
        .expect("an answer to the knock");
    let knock = refused.knock.expect("a knock");
    assert_eq!((refused.service_id, knock.ack), (7, true));
    assert!(knock.error.contains("no service 7"), "{}", knock.error);

    connection.shutdown().await;
    assert!(output.message().await.expect("a proper end").is_none());
    assert!(answers.message().await.expect("a proper end").is_none());
    assert_eq!(plugin.end().await.0, Some(0));
}

#[tokio::test]
async fn it_is_healthy() {
    let session = Session::start().await;
    let mut health = HealthClient::with_origin(session.connection.clone(), origin());
    let ask = |service: &str| HealthCheckRequest {
        service: service.to_owned(),
    };
    let serving = HealthCheckResponse {
        status: ServingStatus::Serving.into(),
    };
    assert_eq!(
        health.check(ask("plugin")).await.expect("an answer").into_inner(),
        serving
    );
    let unknown = health
        .check(ask("other"))
        .await
        .expect_err("there is no such service");
    assert_eq!(unknown.code(), tonic::Code::NotFound);
    let mut watch = health
        .watch(ask("plugin"))
        .await
        .expect("it is open")
        .into_inner();
    assert_eq!(watch.message().await.expect("a message"), Some(serving));
}

#[tokio::test]
async fn a_service_that_is_none_is_unimplemented() {
    use crate::generated::go_plugin::grpc_stdio_client::GrpcStdioClient;
    let session = Session::start().await;
    let elsewhere = http::Uri::from_static("http://localhost/reflection");
    let mut stdio = GrpcStdioClient::with_origin(session.connection.clone(), elsewhere);
    let error = stdio.stream_stdio(()).await.expect_err("there is nothing there");
    assert_eq!(error.code(), tonic::Code::Unimplemented);
}

#[tokio::test]
async fn ctrl_c_is_the_hosts_to_handle_and_sigterm_ends_it() {
    let Session {
        plugin, connection, ..
    } = Session::start().await;
    signal(&plugin, Signal::INT);
    assert!(connection.serves().await, "it serves on after SIGINT");
    signal(&plugin, Signal::INT);
    signal(&plugin, Signal::TERM);
    let directory = plugin.directory.path().to_owned();
    let mut plugin = plugin;
    assert_eq!(plugin.child.wait().await.expect("it ends").code(), Some(0));
    assert_eq!(
        std::fs::read_dir(directory).expect("readable").count(),
        0,
        "the socket is gone"
    );
}

#[tokio::test]
async fn in_debug_mode_hosts_attach_and_ctrl_c_ends_it() {
    let mut plugin = Plugin::start(None, |command| {
        command.arg("-debug").env_remove("TF_PLUGIN_MAGIC_COOKIE");
    })
    .await;
    let export = loop {
        let line = plugin
            .stdout
            .next_line()
            .await
            .expect("readable")
            .expect("the line to export");
        if line.contains("TF_REATTACH_PROVIDERS") {
            break line;
        }
    };
    let json = export.split('\'').nth(1).expect("a quoted value");
    let json: serde_json::Value = serde_json::from_str(json).expect("JSON");
    let entry = &json["registry.opentofu.org/acme/toy"];
    assert_eq!(entry, &json["registry.terraform.io/acme/toy"]);
    assert_eq!(entry["Pid"].as_u64(), plugin.child.id().map(u64::from));
    assert_eq!(
        (entry["Protocol"].as_str(), entry["ProtocolVersion"].as_u64()),
        (Some("grpc"), Some(6))
    );
    let socket = PathBuf::from(entry["Addr"]["String"].as_str().expect("a path"));

    // Many commands, each with a connection of its own, and none of them ends it.
    for _ in 0..3 {
        let connection: Connection = plain(&socket).await;
        assert!(connection.serves().await);
        let config = validate_provider_config::Request::default();
        connection
            .client()
            .validate_provider_config(config)
            .await
            .expect("an answer");
        connection.shutdown().await;
    }
    assert!(plain(&socket).await.serves().await);
    signal(&plugin, Signal::INT);
    assert_eq!(plugin.child.wait().await.expect("it ends").code(), Some(0));
    assert_eq!(left_in(&plugin), Vec::<PathBuf>::new());
}

#[tokio::test]
async fn a_process_that_dies_says_so_in_the_hosts_words() {
    let output = command().arg("-crash").output().await.expect("it runs");
    assert_ne!(output.status.code(), Some(0));
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(stderr.starts_with("panic: the toy broke\n"), "{stderr}");
    assert!(stderr.contains("main.rs:"), "{stderr}");
}

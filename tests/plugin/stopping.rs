//! What ends a call before it is done: a stop, a host that gives it up, the end of the process.

use egress::plugin::types::Type;
use egress::plugin::value::Value;
use rustix::process::{Pid, Signal, kill_process};

use crate::generated::tfplugin6::*;
use crate::host::{Client, Session, received, sent};

fn slow(ty: &Type) -> apply_resource_change::Request {
    let blocks = |name: &str| (name.to_owned(), Value::List(vec![]));
    let mut note = Value::object([blocks("line"), blocks("member")]);
    note.set("title", "slow");
    note.set("entry", Value::object::<String, Value>([]));
    note.set("grouped", Value::object([("text", Value::Null)]));
    apply_resource_change::Request {
        type_name: "toy_note".to_owned(),
        prior_state: sent(&Value::Null, ty),
        planned_state: sent(&note, ty),
        config: sent(&note, ty),
        ..Default::default()
    }
}

async fn stop(client: &mut Client) {
    let stopped = client
        .stop_provider(stop_provider::Request {})
        .await
        .expect("an answer")
        .into_inner();
    assert_eq!(stopped.error, "");
}

#[tokio::test]
async fn a_stop_ends_what_is_in_flight_and_nothing_that_comes_after() {
    let mut session = Session::start_with(|command| {
        command.env("TF_LOG", "info");
    })
    .await;
    let ty = session.resource_type("toy_note").await;
    for _ in 0..2 {
        // The second round shows that the stop before it is forgotten.
        let mut client = session.client.clone();
        let mut applying = std::pin::pin!(client.apply_resource_change(slow(&ty)));
        tokio::select! {
            _ = &mut applying => panic!("it waits for a stop"),
            _ = session.plugin.logged("waiting") => {}
        }
        let (applied, ()) = tokio::join!(applying, stop(&mut session.client));
        let applied = applied.expect("an answer").into_inner();
        assert_eq!(applied.diagnostics[0].severity(), diagnostic::Severity::Warning);
        assert_eq!(
            received(applied.new_state, &ty).get("id").as_str(),
            Some("note-slow")
        );
    }
}

#[tokio::test]
async fn a_call_that_the_host_gives_up_is_dropped() {
    let mut session = Session::start_with(|command| {
        command.env("TF_LOG_PROVIDER_TOY", "info");
    })
    .await;
    let ty = Type::object([
        ("input", Type::Dynamic),
        ("output", Type::Dynamic),
        ("bytes", Type::Number),
        ("payload", Type::String),
    ]);
    let input = Value::Dynamic(Box::new(Type::String), Box::new("wait".into()));
    let config = sent(&Value::object([("input", input)]), &ty);
    let request = read_data_source::Request {
        type_name: "toy_echo".to_owned(),
        config,
        ..Default::default()
    };
    let mut client = session.client.clone();
    {
        let mut reading = std::pin::pin!(client.read_data_source(request));
        tokio::select! {
            _ = &mut reading => panic!("it waits"),
            _ = session.plugin.logged("waiting") => {}
        }
    }
    session.plugin.logged("given up").await;
    assert!(session.connection.serves().await);
}

#[tokio::test]
async fn sigterm_lets_calls_in_flight_return_what_they_have() {
    let mut session = Session::start_with(|command| {
        command.env("TF_LOG", "info");
    })
    .await;
    let ty = session.resource_type("toy_note").await;
    let mut applying = std::pin::pin!(session.client.apply_resource_change(slow(&ty)));
    tokio::select! {
        _ = &mut applying => panic!("it waits for a stop"),
        _ = session.plugin.logged("waiting") => {}
    }
    let pid = session
        .plugin
        .child
        .id()
        .and_then(|pid| Pid::from_raw(pid as i32))
        .expect("it runs");
    kill_process(pid, Signal::TERM).expect("it can be signalled");
    let applied = applying.await.expect("an answer").into_inner();
    assert_eq!(
        received(applied.new_state, &ty).get("id").as_str(),
        Some("note-slow")
    );
    assert_eq!(session.plugin.end().await.0, Some(0));
}

#[tokio::test]
async fn a_shutdown_does_not_wait_for_calls_in_flight() {
    let mut session = Session::start_with(|command| {
        command.env("TF_LOG", "info");
    })
    .await;
    let ty = session.resource_type("toy_note").await;
    let mut client = session.client.clone();
    let mut applying = std::pin::pin!(client.apply_resource_change(slow(&ty)));
    tokio::select! {
        _ = &mut applying => panic!("it waits for a stop"),
        _ = session.plugin.logged("waiting") => {}
    }
    session.connection.shutdown().await;
    applying.await.expect_err("it was cut off");
    assert_eq!(session.plugin.end().await.0, Some(0));
}

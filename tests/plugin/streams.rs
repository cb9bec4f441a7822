//! Calls whose answers are streams: lists and actions.

use egress::plugin::types::Type;
use egress::plugin::value::Value;

use crate::generated::tfplugin6::invoke_action::event::Type as Event;
use crate::generated::tfplugin6::*;
use crate::host::{Session, received, sent};

fn list_type() -> Type {
    Type::object([("count", Type::Number), ("mood", Type::String)])
}

async fn list(session: &mut Session, request: list_resource::Request) -> Vec<list_resource::Event> {
    let mut stream = session
        .client
        .list_resource(request)
        .await
        .expect("a stream")
        .into_inner();
    let mut events = Vec::new();
    while let Some(event) = stream.message().await.expect("an event") {
        events.push(event);
    }
    events
}

fn asking(count: i64, mood: Option<&str>) -> list_resource::Request {
    let config = Value::object([("count", Value::from(count)), ("mood", mood.into())]);
    list_resource::Request {
        type_name: "toy_note".to_owned(),
        config: sent(&config, &list_type()),
        ..Default::default()
    }
}

#[tokio::test]
async fn a_list_gives_identities_and_states_where_they_are_asked_for() {
    let mut session = Session::start().await;
    let ty = session.resource_type("toy_note").await;
    let events = list(&mut session, asking(40, None)).await;
    assert_eq!(events.len(), 40, "more than the stream's buffer");
    assert!(
        events
            .iter()
            .all(|event| event.resource_object.is_none() && event.identity.is_some())
    );
    let request = list_resource::Request {
        include_resource_object: true,
        ..asking(2, None)
    };
    let events = list(&mut session, request).await;
    assert_eq!(events[1].display_name, "Note 1");
    let state = received(events[1].resource_object.clone(), &ty);
    assert_eq!(state.get("id").as_str(), Some("note-1"));
    assert_eq!(state.get("line"), &Value::List(vec![]));
}

#[tokio::test]
async fn a_list_ends_at_its_limit() {
    let mut session = Session::start().await;
    for limit in [1, 5, 100] {
        let request = list_resource::Request {
            limit,
            ..asking(1_000_000, None)
        };
        let events = list(&mut session, request).await;
        assert_eq!(events.len() as i64, limit);
    }
}

#[tokio::test]
async fn what_there_is_to_say_comes_last() {
    let mut session = Session::start().await;
    let events = list(&mut session, asking(2, Some("good"))).await;
    assert_eq!(events.len(), 3);
    assert_eq!(events[2].diagnostic[0].summary, "The mood is good");
    let events = list(&mut session, asking(2, Some("panic"))).await;
    assert_eq!(events.len(), 3, "what was found before the panic is not lost");
    assert!(events[2].diagnostic[0].detail.contains("no more notes"));
    let request = list_resource::Request {
        type_name: "toy_none".to_owned(),
        ..asking(2, None)
    };
    let events = list(&mut session, request).await;
    assert!(events[0].diagnostic[0].summary.contains("toy_none"));
}

#[tokio::test]
async fn a_list_is_checked_with_its_limit() {
    let mut session = Session::start().await;
    for (limit, problems) in [
        (Value::from(2000), 1),
        (Value::from(10), 0),
        (Value::unknown(), 0),
        (Value::Null, 0),
    ] {
        let request = validate_list_resource_config::Request {
            type_name: "toy_note".to_owned(),
            config: sent(&Value::object([("count", 1)]), &list_type()),
            include_resource_object: sent(&true.into(), &Type::Bool),
            limit: sent(&limit, &Type::Number),
        };
        let valid = session
            .client
            .validate_list_resource_config(request)
            .await
            .expect("an answer")
            .into_inner();
        assert_eq!(valid.diagnostics.len(), problems, "{limit:?}");
    }
}

fn action_type() -> Type {
    Type::object([("to", Type::Number), ("panic", Type::Bool)])
}

async fn invoke(session: &mut Session, action: &str, config: Value) -> (Vec<String>, Vec<Diagnostic>) {
    let config = sent(&config, &action_type());
    let request = invoke_action::Request {
        action_type: action.to_owned(),
        config,
        client_capabilities: None,
    };
    let mut stream = session
        .client
        .invoke_action(request)
        .await
        .expect("a stream")
        .into_inner();
    let mut progress = Vec::new();
    loop {
        let event = stream
            .message()
            .await
            .expect("an event")
            .expect("completed comes last");
        match event.r#type.expect("every event says what it is") {
            Event::Progress(event) => progress.push(event.message),
            Event::Completed(event) => {
                assert!(
                    stream.message().await.expect("an end").is_none(),
                    "nothing follows completed"
                );
                return (progress, event.diagnostics);
            }
        }
    }
}

#[tokio::test]
async fn an_action_always_completes() {
    let mut session = Session::start().await;
    let (progress, diagnostics) = invoke(&mut session, "toy_count", Value::object([("to", 3)])).await;
    assert_eq!(
        (progress, diagnostics),
        (vec!["1".to_owned(), "2".into(), "3".into()], vec![])
    );
    let config = Value::object([("to", Value::from(2)), ("panic", true.into())]);
    let (progress, diagnostics) = invoke(&mut session, "toy_count", config).await;
    assert_eq!(progress.len(), 2);
    assert!(diagnostics[0].detail.contains("lost count"));
    let (_, diagnostics) = invoke(&mut session, "toy_none", Value::object([("to", 3)])).await;
    assert!(diagnostics[0].summary.contains("toy_none"));
}

#[tokio::test]
async fn an_action_is_checked_and_planned() {
    let mut session = Session::start().await;
    for (to, problems) in [(3, 0), (-1, 1)] {
        let config = sent(&Value::object([("to", to)]), &action_type());
        let type_name = "toy_count".to_owned();
        let request = validate_action_config::Request {
            type_name: type_name.clone(),
            config: config.clone(),
        };
        let valid = session
            .client
            .validate_action_config(request)
            .await
            .expect("an answer")
            .into_inner();
        assert_eq!(valid.diagnostics, []);
        let request = plan_action::Request {
            action_type: type_name,
            config,
            client_capabilities: None,
        };
        let planned = session
            .client
            .plan_action(request)
            .await
            .expect("an answer")
            .into_inner();
        assert_eq!(planned.diagnostics.len(), problems);
    }
}

//! Managed resources, from validation to destroy, and what happens when the provider fails.

use std::collections::BTreeMap;

use egress::plugin::types::Type;
use egress::plugin::value::{Number, Value};

use crate::generated::tfplugin6::attribute_path::step::Selector;
use crate::generated::tfplugin6::*;
use crate::host::{Session, received, sent};

const NOTE: &str = "toy_note";

fn identity_type() -> Type {
    Type::object([("id", Type::String)])
}

fn identity(id: &str) -> Option<ResourceIdentityData> {
    Some(ResourceIdentityData {
        identity_data: sent(&Value::object([("id", id)]), &identity_type()),
    })
}

fn identified(data: Option<ResourceIdentityData>) -> String {
    let value = received(data.expect("an identity").identity_data, &identity_type());
    value.get("id").as_str().expect("an id").to_owned()
}

/// A note as the host sends it: every attribute there, blocks that are absent empty.
fn note(entries: impl IntoIterator<Item = (&'static str, Value)>) -> Value {
    let mut note = Value::object([
        ("grouped", Value::object([("text", Value::Null)])),
        ("item", tuple(vec![])),
        ("line", Value::List(vec![])),
        ("member", Value::List(vec![])),
        ("entry", Value::Map(BTreeMap::new())),
        (
            "loose",
            Value::Dynamic(
                Box::new(Type::object::<String>([])),
                Box::new(Value::Map(BTreeMap::new())),
            ),
        ),
    ]);
    for (name, value) in entries {
        note.set(name, value);
    }
    note
}

fn tuple(items: Vec<(Type, Value)>) -> Value {
    let (types, values) = items.into_iter().unzip();
    Value::Dynamic(Box::new(Type::Tuple(types)), Box::new(Value::List(values)))
}

async fn plan(
    session: &mut Session,
    ty: &Type,
    prior: &Value,
    proposed: &Value,
) -> plan_resource_change::Response {
    let request = plan_resource_change::Request {
        type_name: NOTE.to_owned(),
        prior_state: sent(prior, ty),
        proposed_new_state: sent(proposed, ty),
        config: sent(proposed, ty),
        ..Default::default()
    };
    session
        .client
        .plan_resource_change(request)
        .await
        .expect("an answer")
        .into_inner()
}

async fn apply(
    session: &mut Session,
    ty: &Type,
    prior: &Value,
    planned: &Value,
) -> apply_resource_change::Response {
    let request = apply_resource_change::Request {
        type_name: NOTE.to_owned(),
        prior_state: sent(prior, ty),
        planned_state: sent(planned, ty),
        config: sent(planned, ty),
        planned_private: b"planned".to_vec().into(),
        ..Default::default()
    };
    session
        .client
        .apply_resource_change(request)
        .await
        .expect("an answer")
        .into_inner()
}

#[tokio::test]
async fn a_note_lives_from_plan_to_destroy() {
    let mut session = Session::start().await;
    let ty = session.resource_type(NOTE).await;
    let any = Type::object([("text", Type::String), ("any", Type::list(Type::Number))]);
    let proposed = note([
        ("title", "t".into()),
        ("amount", "0.1".parse::<Number>().expect("a number").into()),
        ("password_wo", "hunter2".into()),
        ("tags", vec!["b", "a"].into()),
        (
            "item",
            tuple(vec![(
                any,
                Value::object([("text", Value::Null), ("any", vec![1i64, 2].into())]),
            )]),
        ),
        ("member", vec![Value::object([("text", "m")])].into()),
        ("entry", Value::object([("k", Value::object([("text", "e")]))])),
    ]);
    let planned = plan(&mut session, &ty, &Value::Null, &proposed).await;
    assert_eq!(planned.diagnostics, []);
    assert!(!planned.legacy_type_system);
    let state = received(planned.planned_state, &ty);
    assert!(state.get("id").is_unknown());
    assert!(
        state.get("password_wo").is_null(),
        "what is write-only is in no plan"
    );
    assert_eq!(state.get("amount"), proposed.get("amount"));
    assert_eq!(
        state.get("item"),
        proposed.get("item"),
        "blocks in which any occurs keep their types"
    );
    let selector = &planned.requires_replace[0].steps[0].selector;
    assert_eq!(selector, &Some(Selector::AttributeName("title".to_owned())));

    let applied = apply(&mut session, &ty, &Value::Null, &state).await;
    assert_eq!(applied.diagnostics, []);
    assert_eq!(
        (&applied.private[..], identified(applied.new_identity).as_str()),
        (&b"applied"[..], "note-t")
    );
    let state = received(applied.new_state, &ty);
    assert_eq!(state.get("id").as_str(), Some("note-t"));
    assert_eq!(state.get("item"), proposed.get("item"));

    let request = read_resource::Request {
        type_name: NOTE.to_owned(),
        current_state: sent(&state, &ty),
        private: b"kept".to_vec().into(),
        current_identity: identity("note-t"),
        ..Default::default()
    };
    let read = session
        .client
        .read_resource(request)
        .await
        .expect("an answer")
        .into_inner();
    assert_eq!(received(read.new_state, &ty), state);
    assert_eq!(
        (&read.private[..], identified(read.new_identity).as_str()),
        (&b"kept"[..], "note-t")
    );

    let destroy = plan(&mut session, &ty, &state, &Value::Null).await;
    assert!(received(destroy.planned_state, &ty).is_null());
    assert_eq!(&destroy.planned_private[..], b"destroy");
    let destroyed = apply(&mut session, &ty, &state, &Value::Null).await;
    assert!(received(destroyed.new_state, &ty).is_null());
}

#[tokio::test]
async fn what_is_gone_reads_as_null() {
    let mut session = Session::start().await;
    let ty = session.resource_type(NOTE).await;
    let current_state = sent(&note([("title", "gone".into())]), &ty);
    let request = read_resource::Request {
        type_name: NOTE.to_owned(),
        current_state,
        ..Default::default()
    };
    let read = session
        .client
        .read_resource(request)
        .await
        .expect("an answer")
        .into_inner();
    assert!(received(read.new_state, &ty).is_null());
}

#[tokio::test]
async fn the_hosts_capabilities_reach_validation_and_plan() {
    let mut session = Session::start().await;
    let ty = session.resource_type(NOTE).await;
    for (allowed, problems) in [(true, 0), (false, 1)] {
        let capabilities = ClientCapabilities {
            write_only_attributes_allowed: allowed,
            ..Default::default()
        };
        let request = validate_resource_config::Request {
            type_name: NOTE.to_owned(),
            config: sent(
                &note([("title", "t".into()), ("password_wo", "hunter2".into())]),
                &ty,
            ),
            client_capabilities: Some(capabilities),
        };
        let valid = session
            .client
            .validate_resource_config(request)
            .await
            .expect("an answer")
            .into_inner();
        assert_eq!(valid.diagnostics.len(), problems);
    }
    let proposed = sent(&note([("title", "later".into())]), &ty);
    for allowed in [true, false] {
        let request = plan_resource_change::Request {
            type_name: NOTE.to_owned(),
            prior_state: sent(&Value::Null, &ty),
            proposed_new_state: proposed.clone(),
            config: proposed.clone(),
            client_capabilities: Some(ClientCapabilities {
                deferral_allowed: allowed,
                ..Default::default()
            }),
            ..Default::default()
        };
        let planned = session
            .client
            .plan_resource_change(request)
            .await
            .expect("an answer")
            .into_inner();
        let reason = planned.deferred.map(|deferred| deferred.reason());
        assert_eq!(reason, allowed.then_some(deferred::Reason::AbsentPrereq));
    }
}

#[tokio::test]
async fn numbers_are_the_same_on_both_sides() {
    let mut session = Session::start().await;
    let ty = session.resource_type(NOTE).await;
    let third = format!("0.{}", "3".repeat(160));
    let texts = [
        "0.1",
        "0.0001",
        "-9223372036854775809",
        "123456789012345678901234567890",
        "1e1000000",
        third.as_str(),
        "0.5",
    ];
    let numbers = texts
        .iter()
        .map(|text| (*text, Value::from(text.parse::<Number>().expect("a number"))));
    let state = note([("title", "n".into()), ("numbers", Value::object(numbers))]);
    let current_state = sent(&state, &ty);
    let request = read_resource::Request {
        type_name: NOTE.to_owned(),
        current_state,
        ..Default::default()
    };
    let read = session
        .client
        .read_resource(request)
        .await
        .expect("an answer")
        .into_inner();
    assert_eq!(received(read.new_state, &ty).get("numbers"), state.get("numbers"));
}

async fn upgrade(
    session: &mut Session,
    version: i64,
    raw_state: RawState,
) -> upgrade_resource_state::Response {
    let request = upgrade_resource_state::Request {
        type_name: NOTE.to_owned(),
        version,
        raw_state: Some(raw_state),
    };
    session
        .client
        .upgrade_resource_state(request)
        .await
        .expect("an answer")
        .into_inner()
}

fn json(text: &str) -> RawState {
    RawState {
        json: text.as_bytes().to_vec().into(),
        ..Default::default()
    }
}

#[tokio::test]
async fn a_stored_state_is_brought_to_the_current_schema() {
    let mut session = Session::start().await;
    let ty = session.resource_type(NOTE).await;
    let stored = r#"{"id":"note-t","title":"t","amount":0.10000000000000000000000000001,"password_wo":"left over",
        "dropped":{"deep":[1]},"item":{"value":[{"text":"a","any":5}],"type":["tuple",[["object",{"text":"string","any":"number"}]]]}}"#;
    let same = received(upgrade(&mut session, 1, json(stored)).await.upgraded_state, &ty);
    assert_eq!(same.get("title").as_str(), Some("t"));
    assert_eq!(
        same.get("amount").as_number().expect("a number").to_string(),
        "0.10000000000000000000000000001"
    );
    assert!(same.get("password_wo").is_null());
    assert_eq!(same.get("item").as_list()[0].get("any").as_i64(), Some(5));
    assert_eq!(
        same.get("line"),
        &Value::List(vec![]),
        "blocks that were not stored are empty, not null"
    );
    let old = received(upgrade(&mut session, 0, json(stored)).await.upgraded_state, &ty);
    assert_eq!(old.get("title").as_str(), Some("t (old)"));

    let wrong = upgrade(
        &mut session,
        1,
        json(r#"{"title":"t","line":[{"text":"a"},{"text":[]}]}"#),
    )
    .await;
    let detail = &wrong.diagnostics[0].detail;
    assert!(
        detail.contains("line[1].text: a string was expected, but this is a list"),
        "{detail}"
    );
    let flatmap = RawState {
        flatmap: [("title".to_owned(), "t".to_owned())].into(),
        ..Default::default()
    };
    let ancient = upgrade(&mut session, 0, flatmap).await;
    assert!(
        ancient.diagnostics[0].summary.contains("Terraform 0.11"),
        "{:?}",
        ancient.diagnostics
    );
}

#[tokio::test]
async fn a_stored_identity_is_brought_to_the_current_schema() {
    let mut session = Session::start().await;
    let raw_identity = Some(json(r#"{"id":"note-t","old":1}"#));
    let request = upgrade_resource_identity::Request {
        type_name: NOTE.to_owned(),
        version: 0,
        raw_identity,
    };
    let response = session
        .client
        .upgrade_resource_identity(request)
        .await
        .expect("an answer")
        .into_inner();
    assert_eq!(identified(response.upgraded_identity), "note-t");
}

#[tokio::test]
async fn an_import_is_by_id_or_by_identity() {
    let mut session = Session::start().await;
    let ty = session.resource_type(NOTE).await;
    let by_id = ("note-a".to_owned(), None);
    for (id, identity) in [by_id, (String::new(), identity("note-a"))] {
        let request = import_resource_state::Request {
            type_name: NOTE.to_owned(),
            id,
            identity,
            ..Default::default()
        };
        let response = session
            .client
            .import_resource_state(request)
            .await
            .expect("an answer")
            .into_inner();
        let [imported] = &response.imported_resources[..] else {
            panic!("{response:?}")
        };
        assert_eq!(
            (imported.type_name.as_str(), &imported.private[..]),
            (NOTE, &b"imported"[..])
        );
        let state = received(imported.state.clone(), &ty);
        assert_eq!(state.get("title").as_str(), Some("a"));
        assert_eq!(
            state.get("grouped"),
            &Value::object([("text", Value::Null)]),
            "a group is never null"
        );
        assert_eq!(identified(imported.identity.clone()), "note-a");
    }
    let request = import_resource_state::Request {
        type_name: NOTE.to_owned(),
        id: "x".to_owned(),
        ..Default::default()
    };
    let response = session
        .client
        .import_resource_state(request)
        .await
        .expect("an answer")
        .into_inner();
    assert_eq!(response.diagnostics[0].summary, "That is no note");
    assert_eq!(response.imported_resources, []);
}

#[tokio::test]
async fn another_types_state_is_taken_over() {
    let mut session = Session::start().await;
    let ty = session.resource_type(NOTE).await;
    let request = move_resource_state::Request {
        source_provider_address: "registry.terraform.io/acme/paper".to_owned(),
        source_type_name: "paper_sheet".to_owned(),
        source_state: Some(json(r#"{"name":"from paper"}"#)),
        target_type_name: NOTE.to_owned(),
        ..Default::default()
    };
    let moved = session
        .client
        .move_resource_state(request.clone())
        .await
        .expect("an answer")
        .into_inner();
    assert_eq!(
        received(moved.target_state, &ty).get("title").as_str(),
        Some("from paper")
    );
    assert_eq!(
        (
            &moved.target_private[..],
            identified(moved.target_identity).as_str()
        ),
        (&b"moved"[..], "note-from paper")
    );
    let flatmap = RawState {
        flatmap: [("name".to_owned(), "x".to_owned())].into(),
        ..Default::default()
    };
    let request = move_resource_state::Request {
        source_state: Some(flatmap),
        ..request
    };
    let refused = session
        .client
        .move_resource_state(request)
        .await
        .expect("an answer")
        .into_inner();
    assert!(refused.diagnostics[0].summary.contains("0.11"));
}

#[tokio::test]
async fn a_configuration_is_generated_from_a_state() {
    let mut session = Session::start().await;
    let ty = session.resource_type(NOTE).await;
    let state = sent(&note([("id", "note-t".into()), ("title", "t".into())]), &ty);
    let request = generate_resource_config::Request {
        type_name: NOTE.to_owned(),
        state,
    };
    let response = session
        .client
        .generate_resource_config(request)
        .await
        .expect("an answer")
        .into_inner();
    let config = received(response.config, &ty);
    assert!(config.get("id").is_null());
    assert_eq!(config.get("title").as_str(), Some("t"));
}

#[tokio::test]
async fn an_error_comes_with_what_exists_and_no_unknowns() {
    let mut session = Session::start().await;
    let ty = session.resource_type(NOTE).await;
    let planned = note([("title", "fail".into()), ("amount", Value::unknown())]);
    let applied = apply(&mut session, &ty, &Value::Null, &planned).await;
    assert_eq!(applied.diagnostics[0].summary, "It did not work");
    let state = received(applied.new_state, &ty);
    assert_eq!(state.get("id").as_str(), Some("note-fail"));
    assert!(state.is_wholly_known());
}

#[tokio::test]
async fn a_state_that_does_not_fit_loses_what_does_not_and_keeps_the_object() {
    let mut session = Session::start().await;
    let ty = session.resource_type(NOTE).await;
    let applied = apply(
        &mut session,
        &ty,
        &Value::Null,
        &note([("title", "stray".into())]),
    )
    .await;
    let detail = &applied.diagnostics[0].detail;
    assert!(
        detail.contains("stray: there is no such attribute") && detail.contains("bug"),
        "{detail}"
    );
    let state = received(applied.new_state, &ty);
    assert_eq!(
        (state.get("id").as_str(), state.get("amount")),
        (Some("note-stray"), &Value::Null)
    );
}

#[tokio::test]
async fn a_panic_is_its_calls_error_and_nobody_elses() {
    let mut session = Session::start_with(|command| {
        command.env("TF_LOG", "trace");
    })
    .await;
    let ty = session.resource_type(NOTE).await;
    let prior = note([("id", "note-old".into()), ("title", "old".into())]);
    let applied = apply(&mut session, &ty, &prior, &note([("title", "panic".into())])).await;
    assert_eq!(applied.diagnostics[0].summary, "The provider panicked");
    assert!(applied.diagnostics[0].detail.contains("in the middle"));
    assert_eq!(
        received(applied.new_state, &ty).get("id").as_str(),
        Some("note-panic"),
        "the last checkpoint"
    );
    assert_eq!(&applied.private[..], b"applied");

    let applied = apply(
        &mut session,
        &ty,
        &prior,
        &note([("title", "panic-early".into())]),
    )
    .await;
    assert!(applied.diagnostics[0].detail.contains("too early"));
    assert_eq!(
        applied.new_state,
        sent(&prior, &ty),
        "without a checkpoint everything is as it was"
    );

    let proposed = note([("title", "panic-plan".into()), ("password_wo", "hunter2".into())]);
    let planned = plan(&mut session, &ty, &Value::Null, &proposed).await;
    assert_eq!(planned.diagnostics[0].summary, "The provider panicked");
    assert!(
        !planned.diagnostics[0].detail.contains("hunter2"),
        "a formatted message may quote a secret"
    );
    assert!(planned.diagnostics[0].detail.contains("note.rs:"));

    session.connection.shutdown().await;
    let (code, _, stderr) = session.plugin.end().await;
    assert_eq!(code, Some(0));
    assert_eq!(stderr.matches("panic in a call").count(), 3, "{stderr}");
    assert!(
        !stderr.contains("panic: "),
        "a panic that was contained is no crash"
    );
    assert!(!stderr.contains("hunter2"));
    for line in stderr.lines() {
        let line: serde_json::Value = serde_json::from_str(line).expect("every line is hclog's JSON");
        let time = line["@timestamp"].as_str().expect("a time");
        assert_eq!(
            time.rsplit_once('.').expect("a fraction").1.len(),
            "000000Z".len(),
            "{time}"
        );
    }
}

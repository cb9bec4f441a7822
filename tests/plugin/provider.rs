//! The provider itself, its schemas, data sources, functions and ephemeral resources.

use egress::plugin::types::Type;
use egress::plugin::value::Value;

use crate::generated::tfplugin6::attribute_path::step::Selector;
use crate::generated::tfplugin6::schema::nested_block::NestingMode;
use crate::generated::tfplugin6::*;
use crate::host::{Session, implied, received, sent};

fn provider_type() -> Type {
    Type::object([("greeting", Type::String), ("token", Type::String)])
}

fn echo_type() -> Type {
    Type::object([
        ("input", Type::Dynamic),
        ("output", Type::Dynamic),
        ("bytes", Type::Number),
        ("payload", Type::String),
    ])
}

fn typed(ty: Type, value: impl Into<Value>) -> Value {
    Value::Dynamic(Box::new(ty), Box::new(value.into()))
}

#[tokio::test]
async fn the_schema_says_everything_there_is() {
    let mut session = Session::start().await;
    let schemas = session.schema().await;
    assert_eq!(schemas.diagnostics, []);
    let capabilities = schemas.server_capabilities.expect("capabilities");
    assert!(capabilities.plan_destroy && capabilities.get_provider_schema_optional);
    assert!(capabilities.move_resource_state && capabilities.generate_resource_config);
    let provider = schemas
        .provider
        .clone()
        .expect("a provider schema")
        .block
        .expect("a block");
    assert_eq!(implied(&provider), provider_type());
    assert_eq!(provider.description_kind(), StringKind::Markdown);
    let token = provider
        .attributes
        .iter()
        .find(|attribute| attribute.name == "token")
        .expect("a token");
    assert!(token.sensitive && token.optional && !token.required && !token.computed);
    assert!(schemas.provider_meta.is_some());

    let note = &schemas.resource_schemas["toy_note"];
    assert_eq!(note.version, 1);
    let block = note.block.as_ref().expect("a block");
    let nesting: Vec<_> = block
        .block_types
        .iter()
        .map(|b| (b.type_name.as_str(), b.nesting()))
        .collect();
    let expected = [
        ("one", NestingMode::Single),
        ("grouped", NestingMode::Group),
        ("item", NestingMode::List),
        ("line", NestingMode::List),
        ("member", NestingMode::Set),
        ("entry", NestingMode::Map),
        ("loose", NestingMode::Map),
    ];
    assert_eq!(nesting, expected);
    let settings = block
        .attributes
        .iter()
        .find(|attribute| attribute.name == "settings")
        .expect("settings");
    assert!(
        settings.r#type.is_empty() && settings.nested_type.is_some(),
        "a type or a nested type, never both"
    );
    let password = block
        .attributes
        .iter()
        .find(|attribute| attribute.name == "password_wo")
        .expect("a password");
    assert!(password.write_only && password.sensitive);

    let function = &schemas.functions["join"];
    assert!(function.variadic_parameter.is_some() && function.r#return.is_some());
    assert!(function.parameters[0].allow_null_value && !function.parameters[0].allow_unknown_values);
    for (kind, names) in [
        (
            "data source",
            schemas.data_source_schemas.keys().collect::<Vec<_>>(),
        ),
        (
            "ephemeral resource",
            schemas.ephemeral_resource_schemas.keys().collect(),
        ),
        ("list resource", schemas.list_resource_schemas.keys().collect()),
        ("state store", schemas.state_store_schemas.keys().collect()),
        ("action", schemas.action_schemas.keys().collect()),
    ] {
        assert_eq!(names.len(), 1, "{kind}");
    }
    // The same bytes every time, in whatever order calls come.
    assert_eq!(session.schema().await, schemas);
}

#[tokio::test]
async fn the_shorter_descriptions_agree_with_the_schema() {
    let mut session = Session::start().await;
    let metadata = session
        .client
        .get_metadata(get_metadata::Request {})
        .await
        .expect("an answer")
        .into_inner();
    let schemas = session.schema().await;
    let names: Vec<_> = metadata
        .resources
        .iter()
        .map(|resource| &resource.type_name)
        .collect();
    assert_eq!(names, schemas.resource_schemas.keys().collect::<Vec<_>>());
    assert_eq!(metadata.server_capabilities, schemas.server_capabilities);
    let counts = [
        metadata.data_sources.len(),
        metadata.functions.len(),
        metadata.ephemeral_resources.len(),
        metadata.list_resources.len(),
        metadata.state_stores.len(),
        metadata.actions.len(),
    ];
    assert_eq!(counts, [1; 6]);
    let functions = session
        .client
        .get_functions(get_functions::Request {})
        .await
        .expect("an answer")
        .into_inner();
    assert_eq!(functions.functions, schemas.functions);
    let request = get_resource_identity_schemas::Request {};
    let identities = session
        .client
        .get_resource_identity_schemas(request)
        .await
        .expect("an answer")
        .into_inner();
    let identity = &identities.identity_schemas["toy_note"].identity_attributes[0];
    assert_eq!(
        (identity.name.as_str(), &identity.r#type[..]),
        ("id", &b"\"string\""[..])
    );
    assert!(identity.required_for_import && !identity.optional_for_import);
}

#[tokio::test]
async fn a_mistake_in_the_configuration_is_reported_with_its_place() {
    let mut session = Session::start().await;
    let config = sent(&Value::object([("greeting", "")]), &provider_type());
    let request = validate_provider_config::Request { config };
    let response = session
        .client
        .validate_provider_config(request)
        .await
        .expect("an answer")
        .into_inner();
    let [diagnostic] = &response.diagnostics[..] else {
        panic!("{response:?}")
    };
    assert_eq!(diagnostic.severity(), diagnostic::Severity::Error);
    assert_eq!(diagnostic.summary, "The greeting is empty");
    let steps = &diagnostic.attribute.as_ref().expect("a place").steps;
    assert_eq!(
        steps[0].selector,
        Some(Selector::AttributeName("greeting".to_owned()))
    );
}

#[tokio::test]
async fn the_provider_is_configured_as_often_as_it_is_asked() {
    let mut session = Session::start().await;
    for greeting in [Value::from("hi"), Value::unknown(), Value::Null] {
        let config = sent(&Value::object([("greeting", greeting)]), &provider_type());
        let request = configure_provider::Request {
            terraform_version: "1.11.4".to_owned(),
            config,
            client_capabilities: None,
        };
        let response = session
            .client
            .configure_provider(request)
            .await
            .expect("an answer")
            .into_inner();
        assert_eq!(response.diagnostics, []);
    }
}

#[tokio::test]
async fn a_value_that_does_not_fit_is_a_diagnostic_with_its_place_and_without_itself() {
    let mut session = Session::start().await;
    let wrong = Type::object([("greeting", Type::map(Type::String)), ("token", Type::String)]);
    let value = Value::object([
        ("greeting", Value::object([("k", "hunter2")])),
        ("token", "hunter2".into()),
    ]);
    let request = validate_provider_config::Request {
        config: sent(&value, &wrong),
    };
    let response = session
        .client
        .validate_provider_config(request)
        .await
        .expect("an answer")
        .into_inner();
    let diagnostic = &response.diagnostics[0];
    assert!(diagnostic.detail.contains("greeting") && diagnostic.detail.contains("a string was expected"));
    assert!(!format!("{diagnostic:?}").contains("hunter2"));
    assert_eq!(diagnostic.attribute.as_ref().expect("a place").steps.len(), 1);
}

async fn read(session: &mut Session, config: Option<DynamicValue>) -> read_data_source::Response {
    let request = read_data_source::Request {
        type_name: "toy_echo".to_owned(),
        config,
        ..Default::default()
    };
    session
        .client
        .read_data_source(request)
        .await
        .expect("an answer")
        .into_inner()
}

#[tokio::test]
async fn a_dynamic_value_keeps_its_type() {
    let mut session = Session::start().await;
    let tuple = Type::Tuple(vec![Type::Number, Type::String]);
    for input in [
        typed(Type::String, "x"),
        typed(tuple, vec![Value::from(1u8), "y".into()]),
        typed(Type::list(Type::Bool), vec![true]),
        typed(Type::String, Value::Null),
        Value::Null,
    ] {
        let config = sent(&Value::object([("input", input.clone())]), &echo_type());
        let request = validate_data_resource_config::Request {
            type_name: "toy_echo".to_owned(),
            config: config.clone(),
        };
        let valid = session
            .client
            .validate_data_resource_config(request)
            .await
            .expect("an answer")
            .into_inner();
        assert_eq!(valid.diagnostics, []);
        let state = received(read(&mut session, config).await.state, &echo_type());
        assert_eq!(state.get("output"), &input);
    }
}

#[tokio::test]
async fn a_request_may_bring_json() {
    let mut session = Session::start().await;
    let json = br#"{"input":{"value":0.10,"type":"number"},"output":null,"bytes":null,"payload":null}"#;
    let config = Some(DynamicValue {
        json: json.to_vec().into(),
        ..Default::default()
    });
    let state = received(read(&mut session, config).await.state, &echo_type());
    assert_eq!(
        state.get("output").as_number(),
        Some(&"0.1".parse().expect("a number"))
    );
}

#[tokio::test]
async fn messages_far_above_four_megabytes_pass_both_ways() {
    let mut session = Session::start().await;
    let bytes = 40_000_000;
    let config = sent(&Value::object([("bytes", bytes)]), &echo_type());
    let state = received(read(&mut session, config).await.state, &echo_type());
    assert_eq!(state.get("payload").as_str().map(str::len), Some(bytes as usize));
    let text = "y".repeat(bytes as usize);
    let config = sent(
        &Value::object([("input", typed(Type::String, text.as_str()))]),
        &echo_type(),
    );
    let state = received(read(&mut session, config).await.state, &echo_type());
    assert_eq!(state.get("output").as_str(), Some(text.as_str()));
}

#[tokio::test]
async fn the_trace_of_a_call_reaches_the_provider() {
    let mut session = Session::start().await;
    let config = sent(
        &Value::object([("input", typed(Type::String, "trace"))]),
        &echo_type(),
    );
    let message = read_data_source::Request {
        type_name: "toy_echo".to_owned(),
        config,
        ..Default::default()
    };
    let mut request = tonic::Request::new(message);
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    request
        .metadata_mut()
        .insert("traceparent", trace.parse().expect("ASCII"));
    let response = session
        .client
        .read_data_source(request)
        .await
        .expect("an answer")
        .into_inner();
    assert_eq!(
        received(response.state, &echo_type()).get("payload").as_str(),
        Some(trace)
    );
}

async fn call(session: &mut Session, name: &str, arguments: Vec<DynamicValue>) -> call_function::Response {
    let request = call_function::Request {
        name: name.to_owned(),
        arguments,
    };
    session
        .client
        .call_function(request)
        .await
        .expect("an answer")
        .into_inner()
}

#[tokio::test]
async fn a_function_takes_null_as_an_empty_value_and_blames_the_argument() {
    let mut session = Session::start().await;
    let text = |text: &str| sent(&text.into(), &Type::String).expect("a value");
    let joined = call(&mut session, "join", vec![text("+"), text("a"), text("b")]).await;
    assert_eq!(received(joined.result, &Type::String).as_str(), Some("a+b"));
    let joined = call(
        &mut session,
        "join",
        vec![DynamicValue::default(), text("a"), text("b")],
    )
    .await;
    assert_eq!(received(joined.result, &Type::String).as_str(), Some("a-b"));
    let failed = call(&mut session, "join", vec![text("+"), text("a"), text("")]).await;
    let error = failed.error.expect("an error");
    assert_eq!(
        (error.text.as_str(), error.function_argument),
        ("A part is empty.", Some(2))
    );
    let null = call(&mut session, "join", vec![text("+"), DynamicValue::default()]).await;
    assert_eq!(null.error.expect("an error").function_argument, Some(1));
    let unknown = sent(&Value::unknown(), &Type::String).expect("a value");
    let joined = call(&mut session, "join", vec![text("+"), unknown]).await;
    assert!(received(joined.result, &Type::String).is_unknown());
    let panicked = call(&mut session, "join", vec![text("+"), text("panic")]).await;
    assert!(panicked.error.expect("an error").text.contains("joined to death"));
    let nothing = call(&mut session, "join", vec![]).await;
    assert!(
        nothing
            .error
            .expect("an error")
            .text
            .contains("1 arguments were expected, but 0")
    );
    let missing = call(&mut session, "split", vec![]).await;
    assert!(
        missing
            .error
            .expect("an error")
            .text
            .contains("no function \"split\"")
    );
}

#[tokio::test]
async fn an_ephemeral_resource_is_opened_renewed_and_closed() {
    let mut session = Session::start().await;
    let ty = Type::object([("name", Type::String), ("value", Type::String)]);
    let config = sent(&Value::object([("name", "n")]), &ty);
    let type_name = "toy_secret".to_owned();
    let request = validate_ephemeral_resource_config::Request {
        type_name: type_name.clone(),
        config: config.clone(),
    };
    let valid = session
        .client
        .validate_ephemeral_resource_config(request)
        .await
        .expect("an answer")
        .into_inner();
    assert_eq!(valid.diagnostics, []);
    let request = open_ephemeral_resource::Request {
        type_name: type_name.clone(),
        config,
        client_capabilities: None,
    };
    let open = session
        .client
        .open_ephemeral_resource(request)
        .await
        .expect("an answer")
        .into_inner();
    assert_eq!(received(open.result, &ty).get("value").as_str(), Some("hunter2"));
    let renew_at = open.renew_at.expect("a time");
    assert_eq!((renew_at.seconds, renew_at.nanos), (4_000_000_000, 5));
    let request = renew_ephemeral_resource::Request {
        type_name: type_name.clone(),
        private: open.private,
    };
    let renewed = session
        .client
        .renew_ephemeral_resource(request)
        .await
        .expect("an answer")
        .into_inner();
    assert_eq!(renewed.renew_at, None);
    let request = close_ephemeral_resource::Request {
        type_name,
        private: renewed.private,
    };
    let closed = session
        .client
        .close_ephemeral_resource(request)
        .await
        .expect("an answer")
        .into_inner();
    assert_eq!(closed.diagnostics[0].detail, "open+renewed");
    assert_eq!(closed.diagnostics[0].severity(), diagnostic::Severity::Warning);
}

#[tokio::test]
async fn names_that_there_are_not_are_diagnostics() {
    let mut session = Session::start().await;
    let type_name = "toy_none".to_owned();
    let client = &mut session.client;
    let told = |diagnostics: &[Diagnostic]| {
        assert_eq!(diagnostics.len(), 1);
        assert!(
            diagnostics[0].summary.contains("toy_none"),
            "{}",
            diagnostics[0].summary
        );
        assert_eq!(diagnostics[0].severity(), diagnostic::Severity::Error);
    };
    macro_rules! asks {
        ($($call:ident: $module:ident { $name:ident }),* $(,)?) => {$(
            let mut request = $module::Request::default();
            request.$name.clone_from(&type_name);
            told(&client.$call(request).await.expect("an answer").into_inner().diagnostics);
        )*};
    }
    asks!(
        validate_resource_config: validate_resource_config { type_name },
        upgrade_resource_state: upgrade_resource_state { type_name },
        upgrade_resource_identity: upgrade_resource_identity { type_name },
        read_resource: read_resource { type_name },
        plan_resource_change: plan_resource_change { type_name },
        apply_resource_change: apply_resource_change { type_name },
        import_resource_state: import_resource_state { type_name },
        move_resource_state: move_resource_state { target_type_name },
        generate_resource_config: generate_resource_config { type_name },
        validate_data_resource_config: validate_data_resource_config { type_name },
        read_data_source: read_data_source { type_name },
        validate_ephemeral_resource_config: validate_ephemeral_resource_config { type_name },
        open_ephemeral_resource: open_ephemeral_resource { type_name },
        renew_ephemeral_resource: renew_ephemeral_resource { type_name },
        close_ephemeral_resource: close_ephemeral_resource { type_name },
        validate_list_resource_config: validate_list_resource_config { type_name },
        validate_state_store_config: validate_state_store { type_name },
        configure_state_store: configure_state_store { type_name },
        lock_state: lock_state { type_name },
        unlock_state: unlock_state { type_name },
        get_states: get_states { type_name },
        delete_state: delete_state { type_name },
        plan_action: plan_action { action_type },
        validate_action_config: validate_action_config { type_name },
    );
}

//! The toy's data source, function, ephemeral resource, list, action and state store.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{Duration, UNIX_EPOCH};

use async_trait::async_trait;
use egress::plugin::diagnostics::{Diagnostic, Diagnostics, Path};
use egress::plugin::provider::*;
use egress::plugin::schema::{Attribute, Block, Parameter, Schema, Signature};
use egress::plugin::types::Type;
use egress::plugin::value::Value;

use super::note;

pub(crate) struct Echo;

#[async_trait]
impl DataSource for Echo {
    fn schema(&self) -> Schema {
        Schema::new(Block::new().attributes([
            Attribute::new("input", Type::Dynamic),
            Attribute::new("output", Type::Dynamic).computed(),
            Attribute::number("bytes"),
            Attribute::string("payload").computed(),
        ]))
    }

    async fn validate(&self, _: &Call, _: Value) -> Diagnostics {
        Diagnostics::new()
    }

    async fn read(&self, call: &Call, request: ReadDataRequest) -> ReadDataResponse {
        let mut state = request.config;
        if state.get("input").as_str() == Some("trace") {
            state.set("payload", call.traceparent().unwrap_or("none"));
        } else if state.get("input").as_str() == Some("wait") {
            let _guard = Guard;
            tracing::info!("waiting");
            call.cancelled().await;
            state.set("payload", "stopped");
        } else if let Some(bytes) = state.get("bytes").as_i64() {
            state.set("payload", "x".repeat(usize::try_from(bytes).unwrap_or(0)));
        }
        state.set("output", state.get("input").clone());
        ReadDataResponse {
            state,
            ..ReadDataResponse::default()
        }
    }
}

/// Says that its call is over.
struct Guard;

impl Drop for Guard {
    fn drop(&mut self) {
        tracing::info!("given up");
    }
}

pub(crate) struct Join;

#[async_trait]
impl Function for Join {
    fn signature(&self) -> Signature {
        Signature::returns(Type::String)
            .parameter(Parameter::new("separator", Type::String).allow_null())
            .variadic(Parameter::new("parts", Type::String))
            .describe("Joins strings", "Joins strings with a separator.")
    }

    async fn call(&self, _: &Call, arguments: Vec<Value>) -> Result<Value, FunctionError> {
        let separator = arguments[0].as_str().unwrap_or("-");
        let parts: Vec<_> = arguments[1..].iter().filter_map(Value::as_str).collect();
        match parts.iter().position(|part| part.is_empty()) {
            Some(at) => Err(FunctionError::argument(at as i64 + 1, "A part is empty.")),
            None if parts.first() == Some(&"panic") => panic!("joined to death"),
            None => Ok(parts.join(separator).into()),
        }
    }
}

pub(crate) struct Secret;

#[async_trait]
impl EphemeralResource for Secret {
    fn schema(&self) -> Schema {
        Schema::new(Block::new().attributes([
            Attribute::string("name").required(),
            Attribute::string("value").computed().sensitive(),
        ]))
    }

    async fn validate(&self, _: &Call, _: Value) -> Diagnostics {
        Diagnostics::new()
    }

    async fn open(&self, _: &Call, request: OpenRequest) -> OpenResponse {
        let mut result = request.config;
        result.set("value", "hunter2");
        OpenResponse {
            result,
            private: Some(b"open".to_vec()),
            renew_at: Some(UNIX_EPOCH + Duration::new(4_000_000_000, 5)),
            ..OpenResponse::default()
        }
    }

    async fn renew(&self, _: &Call, request: RenewRequest) -> RenewResponse {
        let mut private = request.private.unwrap_or_default();
        private.extend_from_slice(b"+renewed");
        RenewResponse {
            private: Some(private),
            ..RenewResponse::default()
        }
    }

    async fn close(&self, _: &Call, request: CloseRequest) -> Diagnostics {
        let private = String::from_utf8(request.private.unwrap_or_default()).expect("text");
        Diagnostic::warning("Closed").detail(private).into()
    }
}

pub(crate) struct Notes;

#[async_trait]
impl ListResource for Notes {
    fn schema(&self) -> Schema {
        Schema::new(
            Block::new().attributes([Attribute::number("count").required(), Attribute::string("mood")]),
        )
    }

    async fn validate(&self, _: &Call, request: ValidateListRequest) -> Diagnostics {
        match request.limit.as_i64() {
            Some(limit) if limit > 1000 => Diagnostic::error("That is too many")
                .at(Path::root().attribute("limit"))
                .into(),
            _ => Diagnostics::new(),
        }
    }

    async fn list(&self, _: &Call, request: ListRequest, events: Events<ListEvent>) -> Diagnostics {
        for i in 0..request.config.get("count").as_i64().unwrap_or(0) {
            let state = note::made(&i.to_string());
            let event = ListEvent {
                identity: Some(Value::object([("id", state.get("id").clone())])),
                display_name: format!("Note {i}"),
                resource: Some(state),
                ..ListEvent::default()
            };
            if !events.send(event).await {
                break;
            }
        }
        match request.config.get("mood").as_str() {
            Some("panic") => panic!("no more notes"),
            Some(mood) => Diagnostic::warning(format!("The mood is {mood}")).into(),
            None => Diagnostics::new(),
        }
    }
}

pub(crate) struct Counting;

#[async_trait]
impl Action for Counting {
    fn schema(&self) -> Schema {
        Schema::new(Block::new().attributes([Attribute::number("to").required(), Attribute::bool("panic")]))
    }

    async fn validate(&self, _: &Call, _: Value) -> Diagnostics {
        Diagnostics::new()
    }

    async fn plan(&self, _: &Call, config: Value) -> PlanActionResponse {
        let negative = config.get("to").as_i64().is_some_and(|to| to < 0);
        let error = negative.then(|| Diagnostic::error("It counts up only").at(Path::root().attribute("to")));
        PlanActionResponse {
            diagnostics: error.into_iter().collect(),
            ..PlanActionResponse::default()
        }
    }

    async fn invoke(&self, _: &Call, config: Value, progress: Events<String>) -> Diagnostics {
        for i in 1..=config.get("to").as_i64().unwrap_or(0) {
            progress.send(format!("{i}")).await;
        }
        if config.get("panic").as_bool() == Some(true) {
            panic!("lost count");
        }
        Diagnostics::new()
    }
}

#[derive(Default)]
pub(crate) struct Shelf {
    states: Mutex<BTreeMap<String, Vec<u8>>>,
    locks: Mutex<BTreeMap<String, String>>,
}

#[async_trait]
impl StateStore for Shelf {
    fn schema(&self) -> Schema {
        Schema::new(Block::new().attribute(Attribute::number("chunk")))
    }

    async fn validate(&self, _: &Call, _: Value) -> Diagnostics {
        Diagnostics::new()
    }

    async fn configure(&self, _: &Call, request: ConfigureStoreRequest) -> ConfigureStoreResponse {
        let chunk_size = request.config.get("chunk").as_i64().unwrap_or(0);
        ConfigureStoreResponse {
            chunk_size,
            ..ConfigureStoreResponse::default()
        }
    }

    async fn read(&self, _: &Call, state_id: String) -> Result<Vec<u8>, Diagnostics> {
        if state_id == "forbidden" {
            return Err(Diagnostic::error("Hands off").into());
        }
        Ok(self
            .states
            .lock()
            .expect("not poisoned")
            .get(&state_id)
            .cloned()
            .unwrap_or_default())
    }

    async fn write(&self, _: &Call, state_id: String, state: Vec<u8>) -> Diagnostics {
        self.states.lock().expect("not poisoned").insert(state_id, state);
        Diagnostics::new()
    }

    async fn lock(&self, _: &Call, state_id: String, operation: String) -> Result<String, Diagnostics> {
        let mut locks = self.locks.lock().expect("not poisoned");
        if let Some(holder) = locks.get(&state_id) {
            return Err(Diagnostic::error("It is locked")
                .detail(format!("By {holder}."))
                .into());
        }
        locks.insert(state_id.clone(), operation);
        Ok(format!("lock-of-{state_id}"))
    }

    async fn unlock(&self, _: &Call, state_id: String, lock_id: String) -> Diagnostics {
        if lock_id != format!("lock-of-{state_id}") {
            return Diagnostic::error("That is not the lock").into();
        }
        self.locks.lock().expect("not poisoned").remove(&state_id);
        Diagnostics::new()
    }

    async fn list(&self, _: &Call) -> Result<Vec<String>, Diagnostics> {
        Ok(self
            .states
            .lock()
            .expect("not poisoned")
            .keys()
            .cloned()
            .collect())
    }

    async fn delete(&self, _: &Call, state_id: String) -> Diagnostics {
        self.states.lock().expect("not poisoned").remove(&state_id);
        Diagnostics::new()
    }
}

//! The resource `toy_note`: every kind of attribute and block, and a title that says how it behaves.
//!
//! `slow` waits for a stop and returns what it has, `fail` fails after it was made, `panic` panics
//! after a checkpoint, `panic-early` before one, `stray` returns what its schema does not have.

use async_trait::async_trait;
use egress::plugin::diagnostics::{Diagnostic, Diagnostics, Path};
use egress::plugin::provider::*;
use egress::plugin::schema::{
    Attribute, Block, IdentityAttribute, IdentitySchema, NestedBlock, ObjectNesting, Schema,
};
use egress::plugin::types::Type;
use egress::plugin::value::Value;

pub(crate) struct Note;

fn block() -> Block {
    let any = || Attribute::new("any", Type::Dynamic);
    let text = || Attribute::string("text");
    Block::new()
        .attributes([
            Attribute::string("id").computed(),
            Attribute::string("title")
                .required()
                .describe("What it is called."),
            Attribute::number("amount"),
            any(),
            Attribute::set("tags", Type::String),
            Attribute::map("numbers", Type::Number),
            Attribute::string("password_wo").write_only().sensitive(),
            Attribute::nested(
                "settings",
                ObjectNesting::Single,
                [text(), Attribute::number("count")],
            ),
            Attribute::nested("steps", ObjectNesting::List, [text(), Attribute::bool("done")]),
            Attribute::nested("labels", ObjectNesting::Set, [text()]),
            Attribute::nested("links", ObjectNesting::Map, [text()]),
        ])
        .blocks([
            NestedBlock::single("one", Block::new().attribute(text())),
            NestedBlock::group("grouped", Block::new().attribute(text())),
            NestedBlock::list("item", Block::new().attributes([text(), any()])),
            NestedBlock::list("line", Block::new().attribute(text())),
            NestedBlock::set("member", Block::new().attribute(text())),
            NestedBlock::map("entry", Block::new().attribute(text())),
            NestedBlock::map("loose", Block::new().attribute(any())),
        ])
}

fn schema() -> Schema {
    Schema::new(block()).version(1)
}

fn identity(state: &Value) -> Option<Value> {
    state.get("id").as_str().map(|id| Value::object([("id", id)]))
}

pub(crate) fn made(title: &str) -> Value {
    Value::object([("id", format!("note-{title}")), ("title", title.to_owned())])
}

#[async_trait]
impl Resource for Note {
    fn schema(&self) -> Schema {
        schema()
    }

    fn identity(&self) -> Option<IdentitySchema> {
        Some(IdentitySchema::new([IdentityAttribute::required(
            "id",
            Type::String,
            "The note's id.",
        )]))
    }

    async fn validate(&self, call: &Call, config: Value) -> Diagnostics {
        let mut diagnostics = Diagnostics::new();
        if !config.get("password_wo").is_null() && !call.client().write_only_attributes_allowed {
            diagnostics.push(
                Diagnostic::error("This host has no write-only attributes")
                    .detail("Use Terraform 1.11 or newer.")
                    .at(Path::root().attribute("password_wo")),
            );
        }
        if config.get("title").as_str() == Some("") {
            diagnostics.push(Diagnostic::warning("The title is empty").at(Path::root().attribute("title")));
        }
        diagnostics
    }

    async fn upgrade(&self, _: &Call, request: UpgradeRequest) -> Result<Value, Diagnostics> {
        let mut state = request.state.decode(&schema())?;
        if request.version == 0 {
            state.set(
                "title",
                format!("{} (old)", state.get("title").as_str().unwrap_or_default()),
            );
        }
        Ok(state)
    }

    async fn upgrade_identity(
        &self,
        _: &Call,
        request: UpgradeIdentityRequest,
    ) -> Result<Value, Diagnostics> {
        request
            .identity
            .decode_identity(&self.identity().expect("it has one"))
    }

    async fn read(&self, _: &Call, request: ReadRequest) -> ReadResponse {
        let gone = request.state.get("title").as_str() == Some("gone");
        ReadResponse {
            identity: identity(&request.state),
            state: if gone { Value::Null } else { request.state },
            private: request.private,
            ..ReadResponse::default()
        }
    }

    async fn plan(&self, call: &Call, request: PlanRequest) -> PlanResponse {
        if request.proposed.is_null() {
            return PlanResponse {
                private: b"destroy".to_vec(),
                ..PlanResponse::default()
            };
        }
        if request.proposed.get("title").as_str() == Some("panic-plan") {
            panic!("no plan for {:?}", request.proposed);
        }
        let mut planned = request.proposed;
        block().clear_write_only(&mut planned);
        let mut requires_replace = Vec::new();
        if request.prior.is_null() || planned.get("title") != request.prior.get("title") {
            planned.set("id", Value::unknown());
            requires_replace.push(Path::root().attribute("title"));
        }
        let deferred = (planned.get("title").as_str() == Some("later") && call.client().deferral_allowed)
            .then_some(DeferReason::AbsentPrerequisite);
        PlanResponse {
            identity: identity(&planned),
            planned,
            requires_replace,
            private: b"planned".to_vec(),
            deferred,
            ..PlanResponse::default()
        }
    }

    async fn apply(&self, call: &Call, request: ApplyRequest) -> ApplyResponse {
        if request.planned.is_null() {
            return ApplyResponse::default();
        }
        let mut state = request.planned;
        let title = state.get("title").as_str().unwrap_or_default().to_owned();
        if title == "panic-early" {
            panic!("too early");
        }
        state.set("id", format!("note-{title}"));
        let done = ApplyResponse {
            identity: identity(&state),
            state,
            private: b"applied".to_vec(),
            ..ApplyResponse::default()
        };
        match title.as_str() {
            "panic" => {
                call.checkpoint(done);
                panic!("in the middle");
            }
            "fail" => ApplyResponse {
                diagnostics: Diagnostic::error("It did not work").into(),
                ..done
            },
            "stray" => {
                let mut state = done.state.clone();
                state.set("stray", true);
                state.set("amount", "many");
                ApplyResponse { state, ..done }
            }
            "slow" => {
                tracing::info!("waiting");
                call.cancelled().await;
                ApplyResponse {
                    diagnostics: Diagnostic::warning("It was interrupted").into(),
                    ..done
                }
            }
            _ => done,
        }
    }

    async fn import(&self, _: &Call, request: ImportRequest) -> ImportResponse {
        let id = match &request.id {
            ImportTarget::Id(id) => id.as_str(),
            ImportTarget::Identity(identity) => identity.get("id").as_str().unwrap_or_default(),
        };
        let Some(title) = id.strip_prefix("note-") else {
            let error =
                Diagnostic::error("That is no note").detail(format!("{id:?} does not start with note-."));
            return ImportResponse {
                diagnostics: error.into(),
                ..ImportResponse::default()
            };
        };
        let state = made(title);
        let imported = Imported {
            identity: identity(&state),
            state,
            private: b"imported".to_vec(),
            ..Imported::default()
        };
        ImportResponse {
            imported: vec![imported],
            ..ImportResponse::default()
        }
    }

    async fn move_state(&self, _: &Call, request: MoveRequest) -> MoveResponse {
        let json: serde_json::Value = match &request.source_state.json {
            Some(json) => serde_json::from_slice(json).expect("the host sends JSON"),
            None => {
                let diagnostics = request
                    .source_state
                    .decode(&schema())
                    .map(|_| ())
                    .expect_err("a flat map");
                return MoveResponse {
                    diagnostics,
                    ..MoveResponse::default()
                };
            }
        };
        let title = json["name"]
            .as_str()
            .or(json["input"].as_str())
            .unwrap_or("moved");
        let state = made(title);
        MoveResponse {
            identity: identity(&state),
            state,
            private: b"moved".to_vec(),
            ..MoveResponse::default()
        }
    }

    async fn generate_config(&self, _: &Call, state: Value) -> Result<Value, Diagnostics> {
        let mut config = state;
        config.set("id", Value::Null);
        Ok(config)
    }
}

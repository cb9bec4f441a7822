//! The resource `egress_proxy`: decodes what core asks, lets the pure functions decide, encodes.
//!
//! Must not know the wire, nor any backend by kind. Invariant: planning and reading never write,
//! and whatever exists is in the state that is returned.

mod apply;
mod given;
mod import;
mod plan;
mod private;
mod refresh;
mod schema;
mod validate;
pub(crate) mod wait;
pub(crate) mod written;

use std::sync::{Arc, LazyLock};

use async_trait::async_trait;

use self::private::Private;
use self::schema::{BACKEND, ID, INCARNATION, KEY, TARGET};
use super::failure;
use super::lifecycle::{self, Ended};
use super::provider::Sessions;
use super::session::Session;
use super::timeouts::{self, Timeout};
use crate::contract::{
    BackendName, ErrorKind, Freshness, GetRequest, Incarnation, Instance, InstanceId, Target,
};
use crate::plugin::diagnostics::{Diagnostic, Diagnostics};
use crate::plugin::provider::{
    ApplyRequest, ApplyResponse, Call, ImportRequest, ImportResponse, MoveRequest, MoveResponse, PlanRequest,
    PlanResponse, ReadRequest, ReadResponse, Resource, StateDecoder, UpgradeRequest,
};
use crate::plugin::schema::{IdentitySchema, Schema};
use crate::plugin::types::Type;
use crate::plugin::value::Value;
use crate::transport::call::Limits;

/// The name of the resource type.
pub(crate) const TYPE_NAME: &str = "egress_proxy";

/// Reads states under the schema, made ready once: a run decodes thousands of them.
static STATES: LazyLock<StateDecoder> = LazyLock::new(|| StateDecoder::of(&schema::schema()));

/// The resource.
#[derive(Debug)]
pub(crate) struct EgressProxy {
    sessions: Arc<Sessions>,
}

impl EgressProxy {
    pub(crate) fn new(sessions: Arc<Sessions>) -> Self {
        Self { sessions }
    }
}

/// The identity of the proxy in a state, as far as it is known.
pub(crate) fn identity_of(state: &Value) -> Option<Value> {
    let id = state.get(ID);
    if id.is_unknown() {
        let backend = state.get(BACKEND).clone();
        return Some(Value::object([(BACKEND, backend), (KEY, Value::unknown())]));
    }
    let id: InstanceId = id.as_str()?.parse().ok()?;
    Some(Value::object([
        (BACKEND, Value::from(id.backend.as_str())),
        (KEY, id.native.as_str().into()),
    ]))
}

/// The id in a state.
fn id_of(state: &Value) -> Result<InstanceId, Diagnostic> {
    let text = state.get(ID).as_str().unwrap_or_default();
    text.parse().map_err(|error: crate::contract::model::InvalidName| {
        Diagnostic::error("The state holds an id that cannot be read").detail(format!(
            "{error}. Restore it from a backup of the state, or remove the resource with `terraform state rm` and import the proxy again."
        ))
    })
}

/// The incarnation in a state; none before the first read of an import. One that cannot be read is
/// an error: taken for none, the proxy would be somebody else's, and a destroy would leave it running.
fn incarnation_of(state: &Value) -> Result<Option<Incarnation>, Diagnostic> {
    let Some(text) = state.get(INCARNATION).as_str() else {
        return Ok(None);
    };
    text.parse().map(Some).map_err(|_: uuid::Error| {
        Diagnostic::error("The state holds an incarnation that cannot be read").detail(format!(
            "{text:?} is no UUID. Restore it from a backup of the state, or remove the resource with `terraform state rm` and import the proxy again."
        ))
    })
}

/// What a backend has to say of a proxy although nothing failed: one warning, since the CLIs show
/// only the first of those with one title.
fn about(id: &InstanceId, texts: &[String]) -> Option<Diagnostic> {
    let texts: Vec<_> = texts.iter().map(|text| failure::sentence(text)).collect();
    (!texts.is_empty()).then(|| Diagnostic::warning(format!("About {id}")).detail(texts.join("\n\n")))
}

/// The target in a state.
fn target_of(state: &Value) -> Option<Target> {
    state.get(TARGET).as_str()?.parse().ok()
}

#[async_trait]
impl Resource for EgressProxy {
    fn schema(&self) -> Schema {
        schema::schema()
    }

    fn identity(&self) -> Option<IdentitySchema> {
        Some(schema::identity())
    }

    async fn validate(&self, call: &Call, config: Value) -> Diagnostics {
        validate::validate(&config, call.client())
    }

    async fn upgrade(&self, _call: &Call, request: UpgradeRequest) -> Result<Value, Diagnostics> {
        // There is only one version of the schema so far.
        STATES.decode(&request.state)
    }

    async fn read(&self, call: &Call, request: ReadRequest) -> ReadResponse {
        let mut response = ReadResponse {
            state: request.state,
            private: request.private,
            identity: request.identity,
            ..ReadResponse::default()
        };
        match self.sessions.current() {
            Ok(session) => read(call, &session, &mut response).await,
            Err(error) => response.diagnostics.push(error),
        }
        response
    }

    async fn plan(&self, _call: &Call, request: PlanRequest) -> PlanResponse {
        if request.proposed.is_null() {
            // A destroy has nothing to decide; the private data is what apply needs.
            return PlanResponse {
                private: request.private,
                identity: request.identity,
                ..PlanResponse::default()
            };
        }
        let session = match self.sessions.current() {
            Ok(session) => session,
            Err(error) => {
                return PlanResponse {
                    planned: request.proposed,
                    private: request.private,
                    diagnostics: error.into(),
                    ..PlanResponse::default()
                };
            }
        };
        let plan = if request.prior.is_null() {
            // Only what was there before left private data.
            let replaces = !request.private.is_empty();
            plan::create(request.proposed, &request.config, replaces, &session)
        } else {
            let private = Private::decode(&request.private);
            plan::update(
                &request.prior,
                request.proposed,
                &request.config,
                private,
                &session,
            )
        };
        PlanResponse {
            identity: identity_of(&plan.planned),
            planned: plan.planned,
            requires_replace: plan.replace,
            private: plan.private.encode(),
            deferred: None,
            diagnostics: plan.diagnostics,
        }
    }

    async fn apply(&self, call: &Call, request: ApplyRequest) -> ApplyResponse {
        match self.sessions.current() {
            Ok(session) => apply::apply(call, &session, request).await,
            Err(error) => ApplyResponse {
                state: request.prior,
                private: request.private,
                identity: request.identity,
                diagnostics: error.into(),
            },
        }
    }

    async fn import(&self, _call: &Call, request: ImportRequest) -> ImportResponse {
        match self.sessions.current() {
            Ok(session) => import::import(&request.id, &session),
            Err(error) => ImportResponse {
                diagnostics: error.into(),
                ..ImportResponse::default()
            },
        }
    }

    async fn move_state(&self, _call: &Call, request: MoveRequest) -> MoveResponse {
        MoveResponse {
            diagnostics: Diagnostic::error(format!(
                "{} cannot become {TYPE_NAME}",
                request.source_type_name
            ))
            .detail(format!(
                "No other resource type stands for an egress proxy, so the state of {:?} of the provider {:?} cannot be moved here. Remove the moved block; to manage what exists, import it by its id.",
                request.source_type_name, request.source_provider_address
            ))
            .into(),
            ..MoveResponse::default()
        }
    }

    async fn generate_config(&self, _call: &Call, state: Value) -> Result<Value, Diagnostics> {
        Ok(import::configuration(state))
    }
}

/// Reads into a response that still holds what was known before.
async fn read(call: &Call, session: &Session, response: &mut ReadResponse) {
    let prior = &response.state;
    let request = id_of(prior).and_then(|id| {
        let open = session.open(&id.backend)?;
        let request = GetRequest {
            id: id.native.clone(),
            incarnation: incarnation_of(prior)?,
            installation: session.owner()?,
            recorded_target: target_of(prior),
            probe: false,
            freshness: Freshness::Shared,
        };
        Ok((id, open, request))
    });
    let (id, open, request) = match request {
        Ok(request) => request,
        Err(error) => return response.diagnostics.push(error),
    };
    let time = Timeout::Read.of(prior);
    let limits = Limits::new(time, call.token().clone());
    match lifecycle::get(open, &request, &limits).await {
        Ok(found) => {
            response.diagnostics.extend(about(&id, &found.warnings));
            let private = Private::decode(&response.private);
            let (state, private) = refresh::refresh(prior, &private, &found.instance, &open.name);
            response.identity = identity_of(&state);
            response.state = state;
            response.private = private.encode();
        }
        Err(Ended::Failed(error)) if error.kind() == ErrorKind::NotFound => {
            if error.is_noteworthy() {
                response.diagnostics.push(
                    Diagnostic::warning(format!("{id} is not this state's any more"))
                        .detail(failure::sentence(&failure::chain(&error))),
                );
            }
            response.state = Value::Null;
        }
        Err(Ended::Failed(error)) => {
            response
                .diagnostics
                .push(failure::diagnostic(&error, "Cannot read", &id.to_string()));
        }
        Err(Ended::OutOfTime(last)) => {
            let why = last.map_or_else(
                || "The backend did not answer".to_owned(),
                |error| failure::sentence(&failure::chain(&error)),
            );
            response.diagnostics.push(
                Diagnostic::error(format!("Reading {id} took longer than {}", timeouts::show(time))).detail(
                    format!("{why}\n\nThe state is kept as it was. Run it again, or raise timeouts.read."),
                ),
            );
        }
        Err(Ended::Stopped) => response.diagnostics.push(
            Diagnostic::error(format!("Reading {id} was interrupted")).detail("The state is kept as it was."),
        ),
    }
}

/// The attributes that say what an instance is and where: its name, and all that is computed.
const SHOWN: [(&str, Type); 14] = [
    (schema::NAME, Type::String),
    (schema::NAMESPACE, Type::String),
    (schema::BACKEND, Type::String),
    (schema::PORT, Type::Number),
    (schema::ID, Type::String),
    (schema::UID, Type::String),
    (schema::INCARNATION, Type::String),
    (schema::TARGET, Type::String),
    (schema::STATE, Type::String),
    (schema::IP, Type::String),
    (schema::EGRESS_IP, Type::String),
    (schema::PROXY_URL, Type::String),
    (schema::CREATED_AT, Type::String),
    (schema::SPEC_SHA256, Type::String),
];

/// The attributes of an instance in a listing.
pub(crate) fn instance_attributes() -> impl Iterator<Item = (&'static str, Type)> {
    SHOWN.into_iter()
}

/// An instance in a listing: as an import would read it.
pub(crate) fn instance_value(instance: &Instance, backend: &BackendName) -> Value {
    let (state, _) = refresh::refresh(&Value::Null, &Private::default(), instance, backend);
    Value::object(SHOWN.map(|(name, _)| (name, state.get(name).clone())))
}

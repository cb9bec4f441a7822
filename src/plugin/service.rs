//! The provider service: each call of the protocol, handed to the trait it is about.
//!
//! Must not know how connections come about. Invariants: a user's mistake, an unknown name, a value
//! that does not fit and a panic are all diagnostics, never gRPC errors, which hosts show as bugs of
//! the plugin; a handler runs inside its call's future and so ends with it.

mod catalogue;
mod data;
mod describe;
mod events;
mod resource;
mod state_store;
mod stream;

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tokio_stream::Stream;
use tokio_util::sync::CancellationToken;
use tonic::metadata::MetadataMap;
use tonic::{Request, Response, Status, Streaming};

use crate::plugin::convert;
use crate::plugin::diagnostics::Diagnostics;
use crate::plugin::generated::tfplugin6::provider_server::Provider as Rpc;
use crate::plugin::generated::tfplugin6::{self as wire, *};
use crate::plugin::panic::{Panic, contain};
use crate::plugin::provider::{Call, Provider};

use catalogue::Catalogue;

/// The provider as the protocol's service. Clones share everything.
#[derive(Clone)]
pub(crate) struct Service(Arc<Shared>);

struct Shared {
    provider: Box<dyn Provider>,
    catalogue: OnceLock<Arc<Catalogue>>,
    /// Cancelled and renewed by a stop.
    running: Mutex<CancellationToken>,
    /// The chunk size that each configured state store travels in.
    chunks: Mutex<HashMap<String, usize>>,
}

/// An answer that can carry diagnostics.
trait Answer: Default + Send {
    fn diagnostics(&mut self) -> &mut Vec<wire::Diagnostic>;

    fn failed(diagnostics: Diagnostics) -> Self {
        let mut answer = Self::default();
        *answer.diagnostics() = convert::diagnostics(diagnostics);
        answer
    }
}

macro_rules! answers {
    ($($module:ident),*) => {$(
        impl Answer for $module::Response {
            fn diagnostics(&mut self) -> &mut Vec<wire::Diagnostic> {
                &mut self.diagnostics
            }
        }
    )*};
}

answers!(
    get_metadata,
    get_provider_schema,
    validate_provider_config,
    validate_resource_config,
    validate_data_resource_config,
    upgrade_resource_state,
    get_resource_identity_schemas,
    upgrade_resource_identity,
    configure_provider,
    read_resource,
    plan_resource_change,
    import_resource_state,
    move_resource_state,
    read_data_source,
    generate_resource_config,
    validate_ephemeral_resource_config,
    open_ephemeral_resource,
    renew_ephemeral_resource,
    close_ephemeral_resource,
    validate_list_resource_config,
    get_functions,
    validate_state_store,
    configure_state_store,
    write_state_bytes,
    lock_state,
    unlock_state,
    get_states,
    delete_state,
    plan_action,
    validate_action_config
);

/// Runs a handler. Its errors and its panic become the answer's diagnostics.
async fn answer<A: Answer>(
    handler: impl Future<Output = Result<A, Diagnostics>> + Send,
) -> Result<Response<A>, Status> {
    let outcome = contain(handler)
        .await
        .unwrap_or_else(|panic| Err(panic.diagnostic().into()));
    Ok(Response::new(outcome.unwrap_or_else(A::failed)))
}

impl Service {
    pub(crate) fn new(provider: impl Provider) -> Self {
        Self(Arc::new(Shared {
            provider: Box::new(provider),
            catalogue: OnceLock::new(),
            running: Mutex::default(),
            chunks: Mutex::default(),
        }))
    }

    /// Asks everything in flight to come to an end; what comes after it is not affected.
    pub(crate) fn stop(&self) {
        let mut running = self.0.running.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *running).cancel();
    }

    fn provider(&self) -> &dyn Provider {
        &*self.0.provider
    }

    fn catalogue(&self) -> &Arc<Catalogue> {
        self.0
            .catalogue
            .get_or_init(|| Arc::new(Catalogue::of(self.provider())))
    }

    fn call(&self, metadata: &MetadataMap, client: Option<ClientCapabilities>) -> Call {
        let text = |key: &str| {
            metadata
                .get(key)
                .and_then(|value| value.to_str().ok())
                .map(str::to_owned)
        };
        let token = self
            .0
            .running
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        Call::new()
            .with_token(token)
            .with_client(convert::client_capabilities(client))
            .with_trace(text("traceparent"), text("tracestate"))
    }

    /// The call and the message of a request without client capabilities.
    fn open<R>(&self, request: Request<R>) -> (Call, R) {
        self.open_with(request, |_| None)
    }

    fn open_with<R>(
        &self,
        request: Request<R>,
        client: impl FnOnce(&R) -> Option<ClientCapabilities>,
    ) -> (Call, R) {
        let (metadata, _, message) = request.into_parts();
        (self.call(&metadata, client(&message)), message)
    }

    fn chunk(&self, type_name: &str) -> usize {
        let chunks = self.0.chunks.lock().unwrap_or_else(PoisonError::into_inner);
        chunks
            .get(type_name)
            .copied()
            .unwrap_or(state_store::DEFAULT_CHUNK)
    }
}

type ChunkStream = Pin<Box<dyn Stream<Item = Result<read_state_bytes::Response, Status>> + Send>>;

/// Calls whose handler needs the catalogue, the call and the message, and nothing else.
macro_rules! forward {
    ($self:ident, $request:ident, $handler:path) => {{
        let (call, message) = $self.open($request);
        answer(async { $handler($self.catalogue(), &call, message).await }).await
    }};
    ($self:ident, $request:ident, $handler:path, client) => {{
        let (call, message) = $self.open_with($request, |message| message.client_capabilities);
        answer(async { $handler($self.catalogue(), &call, message).await }).await
    }};
}

#[tonic::async_trait]
impl Rpc for Service {
    type ListResourceStream = events::ListStream;
    type ReadStateBytesStream = ChunkStream;
    type InvokeActionStream = events::ActionStream;

    async fn get_metadata(
        &self,
        _: Request<get_metadata::Request>,
    ) -> Result<Response<get_metadata::Response>, Status> {
        answer(async { Ok(describe::metadata(self.provider())) }).await
    }

    async fn get_provider_schema(
        &self,
        _: Request<get_provider_schema::Request>,
    ) -> Result<Response<get_provider_schema::Response>, Status> {
        answer(async { Ok(describe::schemas(self.provider())) }).await
    }

    async fn get_resource_identity_schemas(
        &self,
        _: Request<get_resource_identity_schemas::Request>,
    ) -> Result<Response<get_resource_identity_schemas::Response>, Status> {
        answer(async { Ok(describe::identities(self.provider())) }).await
    }

    async fn get_functions(
        &self,
        _: Request<get_functions::Request>,
    ) -> Result<Response<get_functions::Response>, Status> {
        answer(async { Ok(describe::functions(self.provider())) }).await
    }

    async fn validate_provider_config(
        &self,
        request: Request<validate_provider_config::Request>,
    ) -> Result<Response<validate_provider_config::Response>, Status> {
        let (call, message) = self.open(request);
        answer(async { data::validate_provider(self.provider(), self.catalogue(), &call, message).await })
            .await
    }

    async fn configure_provider(
        &self,
        request: Request<configure_provider::Request>,
    ) -> Result<Response<configure_provider::Response>, Status> {
        let (call, message) = self.open_with(request, |message| message.client_capabilities);
        answer(async { data::configure(self.provider(), self.catalogue(), &call, message).await }).await
    }

    async fn stop_provider(
        &self,
        _: Request<stop_provider::Request>,
    ) -> Result<Response<stop_provider::Response>, Status> {
        self.stop();
        Ok(Response::new(stop_provider::Response::default()))
    }

    async fn validate_resource_config(
        &self,
        request: Request<validate_resource_config::Request>,
    ) -> Result<Response<validate_resource_config::Response>, Status> {
        forward!(self, request, resource::validate, client)
    }

    async fn upgrade_resource_state(
        &self,
        request: Request<upgrade_resource_state::Request>,
    ) -> Result<Response<upgrade_resource_state::Response>, Status> {
        forward!(self, request, resource::upgrade)
    }

    async fn upgrade_resource_identity(
        &self,
        request: Request<upgrade_resource_identity::Request>,
    ) -> Result<Response<upgrade_resource_identity::Response>, Status> {
        forward!(self, request, resource::upgrade_identity)
    }

    async fn read_resource(
        &self,
        request: Request<read_resource::Request>,
    ) -> Result<Response<read_resource::Response>, Status> {
        forward!(self, request, resource::read, client)
    }

    async fn plan_resource_change(
        &self,
        request: Request<plan_resource_change::Request>,
    ) -> Result<Response<plan_resource_change::Response>, Status> {
        forward!(self, request, resource::plan, client)
    }

    async fn apply_resource_change(
        &self,
        request: Request<apply_resource_change::Request>,
    ) -> Result<Response<apply_resource_change::Response>, Status> {
        let (call, message) = self.open(request);
        // Kept aside: whatever goes wrong, the host must learn the last known state.
        let type_name = message.type_name.clone();
        let (prior, private) = (message.prior_state.clone(), message.planned_private.clone());
        let outcome = contain(async { resource::apply(self.catalogue(), &call, message).await }).await;
        Ok(Response::new(match outcome {
            Ok(Ok(response)) => response,
            Ok(Err(diagnostics)) => resource::apply_failed(prior, private, diagnostics),
            Err(panic) => {
                let catalogue = self.0.catalogue.get().map(|catalogue| &**catalogue);
                resource::apply_panicked(catalogue, &call, &type_name, prior, private, panic.diagnostic())
            }
        }))
    }

    async fn import_resource_state(
        &self,
        request: Request<import_resource_state::Request>,
    ) -> Result<Response<import_resource_state::Response>, Status> {
        forward!(self, request, resource::import, client)
    }

    async fn move_resource_state(
        &self,
        request: Request<move_resource_state::Request>,
    ) -> Result<Response<move_resource_state::Response>, Status> {
        forward!(self, request, resource::move_state)
    }

    async fn generate_resource_config(
        &self,
        request: Request<generate_resource_config::Request>,
    ) -> Result<Response<generate_resource_config::Response>, Status> {
        forward!(self, request, resource::generate_config)
    }

    async fn validate_data_resource_config(
        &self,
        request: Request<validate_data_resource_config::Request>,
    ) -> Result<Response<validate_data_resource_config::Response>, Status> {
        forward!(self, request, data::validate_data_source)
    }

    async fn read_data_source(
        &self,
        request: Request<read_data_source::Request>,
    ) -> Result<Response<read_data_source::Response>, Status> {
        forward!(self, request, data::read_data_source, client)
    }

    async fn validate_ephemeral_resource_config(
        &self,
        request: Request<validate_ephemeral_resource_config::Request>,
    ) -> Result<Response<validate_ephemeral_resource_config::Response>, Status> {
        forward!(self, request, data::validate_ephemeral)
    }

    async fn open_ephemeral_resource(
        &self,
        request: Request<open_ephemeral_resource::Request>,
    ) -> Result<Response<open_ephemeral_resource::Response>, Status> {
        forward!(self, request, data::open_ephemeral, client)
    }

    async fn renew_ephemeral_resource(
        &self,
        request: Request<renew_ephemeral_resource::Request>,
    ) -> Result<Response<renew_ephemeral_resource::Response>, Status> {
        forward!(self, request, data::renew_ephemeral)
    }

    async fn close_ephemeral_resource(
        &self,
        request: Request<close_ephemeral_resource::Request>,
    ) -> Result<Response<close_ephemeral_resource::Response>, Status> {
        forward!(self, request, data::close_ephemeral)
    }

    async fn list_resource(
        &self,
        request: Request<list_resource::Request>,
    ) -> Result<Response<Self::ListResourceStream>, Status> {
        let (call, message) = self.open(request);
        Ok(Response::new(events::list(self.clone(), call, message)))
    }

    async fn validate_list_resource_config(
        &self,
        request: Request<validate_list_resource_config::Request>,
    ) -> Result<Response<validate_list_resource_config::Response>, Status> {
        forward!(self, request, events::validate_list)
    }

    async fn call_function(
        &self,
        request: Request<call_function::Request>,
    ) -> Result<Response<call_function::Response>, Status> {
        let (call, message) = self.open(request);
        let outcome = contain(async { data::call_function(self.catalogue(), &call, message).await }).await;
        let outcome = outcome.unwrap_or_else(|panic| Err(data::function_panicked(&panic)));
        Ok(Response::new(match outcome {
            Ok(result) => call_function::Response {
                result: Some(result),
                error: None,
            },
            Err(error) => call_function::Response {
                result: None,
                error: Some(wire::FunctionError {
                    text: error.text,
                    function_argument: error.argument,
                }),
            },
        }))
    }

    async fn plan_action(
        &self,
        request: Request<plan_action::Request>,
    ) -> Result<Response<plan_action::Response>, Status> {
        forward!(self, request, events::plan_action, client)
    }

    async fn invoke_action(
        &self,
        request: Request<invoke_action::Request>,
    ) -> Result<Response<Self::InvokeActionStream>, Status> {
        let (call, message) = self.open_with(request, |message| message.client_capabilities);
        Ok(Response::new(events::invoke(self.clone(), call, message)))
    }

    async fn validate_action_config(
        &self,
        request: Request<validate_action_config::Request>,
    ) -> Result<Response<validate_action_config::Response>, Status> {
        forward!(self, request, events::validate_action)
    }

    async fn validate_state_store_config(
        &self,
        request: Request<validate_state_store::Request>,
    ) -> Result<Response<validate_state_store::Response>, Status> {
        forward!(self, request, state_store::validate)
    }

    async fn configure_state_store(
        &self,
        request: Request<configure_state_store::Request>,
    ) -> Result<Response<configure_state_store::Response>, Status> {
        let (call, message) = self.open(request);
        let type_name = message.type_name.clone();
        answer(async {
            let (response, chunk) = state_store::configure(self.catalogue(), &call, message).await?;
            self.0
                .chunks
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .insert(type_name, chunk);
            Ok(response)
        })
        .await
    }

    async fn read_state_bytes(
        &self,
        request: Request<read_state_bytes::Request>,
    ) -> Result<Response<Self::ReadStateBytesStream>, Status> {
        let (call, message) = self.open(request);
        let chunk = self.chunk(&message.type_name);
        let outcome =
            contain(async { state_store::read(self.catalogue(), &call, message, chunk).await }).await;
        let chunks = outcome
            .unwrap_or_else(|panic: Panic| Err(panic.diagnostic().into()))
            .unwrap_or_else(|failed| {
                let diagnostics = convert::diagnostics(failed);
                vec![read_state_bytes::Response {
                    diagnostics,
                    ..Default::default()
                }]
            });
        Ok(Response::new(Box::pin(tokio_stream::iter(
            chunks.into_iter().map(Ok),
        ))))
    }

    async fn write_state_bytes(
        &self,
        request: Request<Streaming<write_state_bytes::RequestChunk>>,
    ) -> Result<Response<write_state_bytes::Response>, Status> {
        let (call, mut chunks) = self.open(request);
        let mut assembly = state_store::Assembly::default();
        while let Some(chunk) = chunks.message().await? {
            if let Err(diagnostics) = assembly.add(chunk) {
                return Ok(Response::new(write_state_bytes::Response::failed(diagnostics)));
            }
        }
        answer(async { assembly.write(self.catalogue(), &call).await }).await
    }

    async fn lock_state(
        &self,
        request: Request<lock_state::Request>,
    ) -> Result<Response<lock_state::Response>, Status> {
        forward!(self, request, state_store::lock)
    }

    async fn unlock_state(
        &self,
        request: Request<unlock_state::Request>,
    ) -> Result<Response<unlock_state::Response>, Status> {
        forward!(self, request, state_store::unlock)
    }

    async fn get_states(
        &self,
        request: Request<get_states::Request>,
    ) -> Result<Response<get_states::Response>, Status> {
        forward!(self, request, state_store::list)
    }

    async fn delete_state(
        &self,
        request: Request<delete_state::Request>,
    ) -> Result<Response<delete_state::Response>, Status> {
        forward!(self, request, state_store::delete)
    }
}

//! The calls of the protocol, one by one: each message goes to the function that answers it.
//!
//! Must not know what an answer says. Invariant: no handler's failure becomes a gRPC error.

use std::pin::Pin;
use std::sync::PoisonError;

use tokio_stream::Stream;
use tonic::{Request, Response, Status, Streaming};

use super::{Answer as _, Service, answer, data, describe, events, resource, state_store};
use crate::plugin::convert;
use crate::plugin::generated::tfplugin6::provider_server::Provider as Rpc;
use crate::plugin::generated::tfplugin6::{self as wire, *};
use crate::plugin::panic::{Panic, contain};

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

//! The provider service: each call of the protocol, handed to the trait it is about.
//!
//! Must not know how connections come about. Invariants: a user's mistake, an unknown name, a value
//! that does not fit and a panic are all diagnostics, never gRPC errors, which hosts show as bugs of
//! the plugin; a handler runs inside its call's future and so ends with it.

mod calls;
mod catalogue;
mod data;
mod describe;
mod events;
mod resource;
mod state_store;
mod stream;

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tokio_util::sync::CancellationToken;
use tonic::metadata::MetadataMap;
use tonic::{Request, Response, Status};

use crate::plugin::convert;
use crate::plugin::diagnostics::Diagnostics;
use crate::plugin::generated::tfplugin6::{self as wire, *};
use crate::plugin::panic::contain;
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

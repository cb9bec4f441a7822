//! The services go-plugin expects beside the provider: controller, broker, stdio, health.
//!
//! Must not know the provider. Invariant: a shutdown ends the open streams, so that the connection
//! can end; until then stdio and broker stay open and silent.

use std::pin::Pin;

use tokio_stream::{Stream, StreamExt as _};
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status, Streaming};

use crate::plugin::generated::go_plugin::grpc_broker_server::GrpcBroker;
use crate::plugin::generated::go_plugin::grpc_controller_server::GrpcController;
use crate::plugin::generated::go_plugin::grpc_stdio_server::GrpcStdio;
use crate::plugin::generated::go_plugin::{ConnInfo, Empty, StdioData, conn_info::Knock};
use crate::plugin::generated::grpc_health::health_check_response::ServingStatus;
use crate::plugin::generated::grpc_health::health_server::Health;
use crate::plugin::generated::grpc_health::{HealthCheckRequest, HealthCheckResponse};

/// The name under which go-plugin asks after a plugin's health.
const HEALTH_SERVICE: &str = "plugin";

type BoxStream<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// All four services.
#[derive(Clone)]
pub(crate) struct Companions {
    /// Ends the streams.
    pub(crate) ending: CancellationToken,
    /// What a call of Shutdown cancels: none in debug mode, where the process belongs to the user.
    pub(crate) shutdown: Option<CancellationToken>,
}

impl Companions {
    /// A stream of nothing that ends with the server.
    fn silence<T: Send + 'static>(&self) -> BoxStream<T> {
        let ending = self.ending.clone();
        let end = futures_util::stream::once(async move {
            ending.cancelled_owned().await;
            None
        });
        Box::pin(end.filter_map(|nothing: Option<Result<T, Status>>| nothing))
    }
}

#[tonic::async_trait]
impl GrpcController for Companions {
    async fn shutdown(&self, _: Request<Empty>) -> Result<Response<Empty>, Status> {
        if let Some(shutdown) = &self.shutdown {
            shutdown.cancel();
        }
        Ok(Response::new(Empty {}))
    }
}

#[tonic::async_trait]
impl GrpcStdio for Companions {
    type StreamStdioStream = BoxStream<StdioData>;

    async fn stream_stdio(&self, _: Request<()>) -> Result<Response<Self::StreamStdioStream>, Status> {
        Ok(Response::new(self.silence()))
    }
}

#[tonic::async_trait]
impl GrpcBroker for Companions {
    type StartStreamStream = BoxStream<ConnInfo>;

    async fn start_stream(
        &self,
        request: Request<Streaming<ConnInfo>>,
    ) -> Result<Response<Self::StartStreamStream>, Status> {
        // There is nothing behind the broker: whoever knocks is told so, what is announced is passed over.
        let answers = request
            .into_inner()
            .filter_map(|info| Some(Ok(refuse(info.ok()?)?)));
        let answers = answers.merge(self.silence());
        let ending = self.ending.clone();
        Ok(Response::new(Box::pin(futures_util::StreamExt::take_until(
            answers,
            ending.cancelled_owned(),
        ))))
    }
}

fn refuse(info: ConnInfo) -> Option<ConnInfo> {
    info.knock.filter(|knock| knock.knock && !knock.ack)?;
    let error = format!("there is no service {}", info.service_id);
    let knock = Knock {
        knock: true,
        ack: true,
        error,
    };
    Some(ConnInfo {
        service_id: info.service_id,
        knock: Some(knock),
        ..ConnInfo::default()
    })
}

fn health(service: &str) -> Result<HealthCheckResponse, Status> {
    if service.is_empty() || service == HEALTH_SERVICE {
        Ok(HealthCheckResponse {
            status: ServingStatus::Serving.into(),
        })
    } else {
        Err(Status::not_found("there is no such service"))
    }
}

#[tonic::async_trait]
impl Health for Companions {
    type WatchStream = BoxStream<HealthCheckResponse>;

    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        health(&request.into_inner().service).map(Response::new)
    }

    async fn watch(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        // The protocol wants an unknown service told in the stream: it might come later.
        let unknown = HealthCheckResponse {
            status: ServingStatus::ServiceUnknown.into(),
        };
        let now = health(&request.into_inner().service).unwrap_or(unknown);
        Ok(Response::new(Box::pin(
            tokio_stream::once(Ok(now)).chain(self.silence()),
        )))
    }
}

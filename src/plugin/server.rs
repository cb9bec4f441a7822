//! The server: from the process's start to its end.
//!
//! HTTP/2 comes from hyper and the gRPC framing from tonic's generated services; which service a call
//! is for is one look at its path. tonic's own transport would add a router and a balancer that one
//! client on one socket has no use for, and its TLS cannot require the host's certificate.
//!
//! Must not know what the provider does. Invariants: the server listens before the handshake line is
//! written; a connection serves nothing before its TLS stands; the server ends on the host's Shutdown,
//! on SIGTERM, when the host is gone, and (in debug mode) on SIGINT, never otherwise.

use std::convert::Infallible;
use std::future::Future;
use std::io::{self, Write as _};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tonic::body::Body;
use tower_service::Service as _;
use tracing::{Instrument as _, Span};

use crate::plugin::attendance::Attendance;
use crate::plugin::companions::Companions;
use crate::plugin::generated::go_plugin::grpc_broker_server::GrpcBrokerServer;
use crate::plugin::generated::go_plugin::grpc_controller_server::GrpcControllerServer;
use crate::plugin::generated::go_plugin::grpc_stdio_server::GrpcStdioServer;
use crate::plugin::generated::grpc_health::health_server::HealthServer;
use crate::plugin::generated::tfplugin6::provider_server::ProviderServer;
use crate::plugin::handshake::{self, Environment};
use crate::plugin::listener::{Io, Listener};
use crate::plugin::panic::report_crashes;
use crate::plugin::provider::Provider;
use crate::plugin::service::Service;
use crate::plugin::signals::{Signal, Signals};
use crate::plugin::tls::{ServerTls, TlsError};

/// The largest message either way, as of every provider for these hosts.
const MAX_MESSAGE: usize = 256 << 20;
/// How long connections may take to end after a Shutdown; the host kills after two seconds.
const SHUTDOWN_DRAIN: Duration = Duration::from_secs(1);
/// How long calls in flight may take to return what they have after SIGTERM.
const TERMINATION_DRAIN: Duration = Duration::from_secs(5);
/// How much of a stream may be on its way unread: values are larger than HTTP/2's default of 64 KiB.
const STREAM_WINDOW: u32 = 1 << 20;
const CONNECTION_WINDOW: u32 = 4 << 20;

/// How to serve.
#[derive(Clone, Debug, Default)]
pub struct ServeOptions {
    /// Started by a person who attaches a host to it: prints how, speaks without TLS, ends on SIGINT.
    pub debug: bool,
    /// The provider's address, for debug mode: `namespace/type`, or with its registry in front.
    pub provider_address: String,
}

/// Why nothing was served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// No plugin host started the process: it is a person's turn to be told what this is.
    #[error("this is a plugin, to be started by Terraform or OpenTofu")]
    NotStartedByHost,
    /// There is no TLS.
    #[error("mutual TLS with the host could not be set up")]
    Tls(#[from] TlsError),
    /// There is no socket.
    #[error("the plugin could not listen for its host")]
    Listen(#[source] io::Error),
    /// Signals cannot be handled.
    #[error("signals cannot be handled")]
    Signals(#[source] io::Error),
    /// stdout is gone.
    #[error("the handshake could not be written to stdout")]
    Handshake(#[source] io::Error),
}

/// A runtime for [`serve`]: two workers are plenty for the calls of one host, and start fast.
///
/// # Errors
/// Where the operating system refuses threads.
pub fn runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("plugin")
        .enable_all()
        .build()
}

/// Serves a provider to the host that started the process, until the host ends it.
///
/// Outside debug mode nothing may have been written to stdout before.
///
/// # Errors
/// [`ServeError::NotStartedByHost`] where no plugin host started the process (and it is not debug
/// mode); any other where the server could not come about.
pub async fn serve(provider: impl Provider, options: ServeOptions) -> Result<(), ServeError> {
    let mut environment = Environment::of_process();
    if options.debug {
        environment = Environment {
            client_certificate: None,
            ..environment
        };
    } else if !environment.is_plugin {
        return Err(ServeError::NotStartedByHost);
    }
    report_crashes();
    let mut signals = Signals::listen().map_err(ServeError::Signals)?;
    let tls = environment
        .client_certificate
        .as_deref()
        .map(ServerTls::new)
        .transpose()?;
    let listener = Listener::bind(&environment).await.map_err(ServeError::Listen)?;
    let address = listener.address().map_err(ServeError::Listen)?;
    let line = if options.debug {
        let reattach = handshake::reattach(&options.provider_address, &address, std::process::id());
        format!(
            "The provider is running. Attach to it from another shell:\n\n\
             \texport TF_REATTACH_PROVIDERS='{reattach}'\n\nCtrl-C ends it.\n"
        )
    } else {
        handshake::line(
            &address,
            tls.as_ref().map(|tls| &*tls.certificate),
            environment.multiplex,
        )
    };
    announce(&line).map_err(ServeError::Handshake)?;
    if !environment.speaks_our_version() {
        tracing::warn!(versions = ?environment.versions, "the host does not speak protocol version 6");
    }

    let server = Server::new(Service::new(provider), tls, options.debug);
    let drain = tokio::select! {
        () = server.accept(&listener) => SHUTDOWN_DRAIN,
        () = server.shutdown.cancelled() => SHUTDOWN_DRAIN,
        () = server.attendance.host_gone(), if !options.debug => {
            tracing::warn!("the host is gone");
            SHUTDOWN_DRAIN
        }
        () = ended_by(&mut signals, options.debug) => {
            server.service.stop();
            TERMINATION_DRAIN
        }
    };
    server.drain(drain).await;
    Ok(())
}

/// Writes what goes to stdout, at once and whole.
fn announce(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

/// Comes to an end on the signals that end the server.
async fn ended_by(signals: &mut Signals, debug: bool) {
    loop {
        match signals.next().await {
            Signal::Terminate => return,
            Signal::Interrupt if debug => return,
            // Ctrl-C reaches the whole process group. It is the host that decides: it calls
            // StopProvider, and goes on calling until the work in flight is done.
            Signal::Interrupt => {}
        }
    }
}

struct Server {
    service: Service,
    routes: Routes,
    tls: Option<TlsAcceptor>,
    attendance: Attendance,
    /// Cancelled by the host's Shutdown.
    shutdown: CancellationToken,
    /// Cancelled when connections must end.
    ending: CancellationToken,
    connections: tokio::sync::Mutex<JoinSet<()>>,
}

impl Server {
    fn new(service: Service, tls: Option<ServerTls>, debug: bool) -> Self {
        let (shutdown, ending) = (CancellationToken::new(), CancellationToken::new());
        let companions = Companions {
            ending: ending.clone(),
            shutdown: (!debug).then(|| shutdown.clone()),
        };
        Self {
            routes: Routes::new(service.clone(), companions),
            service,
            tls: tls.map(|tls| TlsAcceptor::from(tls.config)),
            attendance: Attendance::new(),
            shutdown,
            ending,
            connections: tokio::sync::Mutex::default(),
        }
    }

    /// Accepts connections for ever.
    async fn accept(&self, listener: &Listener) {
        let mut connections = self.connections.lock().await;
        loop {
            tokio::select! {
                accepted = listener.accept() => match accepted {
                    Ok(io) => drop(connections.spawn(self.connection(io))),
                    // Out of file descriptors, say: what is connected goes on.
                    Err(error) => {
                        tracing::warn!(%error, "a connection was not accepted");
                        tokio::task::yield_now().await;
                    }
                },
                Some(_) = connections.join_next() => {}
            }
        }
    }

    /// One connection, from its TLS handshake to its end.
    fn connection(&self, io: Box<dyn Io>) -> impl Future<Output = ()> + Send + 'static {
        let (tls, routes, ending) = (self.tls.clone(), self.routes.clone(), self.ending.clone());
        let attendance = self.attendance.clone();
        async move {
            let io: Box<dyn Io> = match tls {
                None => io,
                Some(tls) => match tls.accept(io).await {
                    Ok(stream) => Box::new(stream),
                    Err(error) => {
                        tracing::warn!(%error, "a connection without the host's certificate was refused");
                        return;
                    }
                },
            };
            let _attending = attendance.enter();
            let mut builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            builder
                .timer(TokioTimer::new())
                .initial_stream_window_size(STREAM_WINDOW)
                .initial_connection_window_size(CONNECTION_WINDOW)
                // The host bounds its own parallelism.
                .max_concurrent_streams(None);
            let mut connection = std::pin::pin!(builder.serve_connection(TokioIo::new(io), routes));
            let served = tokio::select! {
                served = connection.as_mut() => served,
                () = ending.cancelled() => {
                    connection.as_mut().graceful_shutdown();
                    connection.await
                }
            };
            if let Err(error) = served {
                tracing::debug!(%error, "a connection broke");
            }
        }
    }

    /// Lets calls in flight come to an end, for so long and no longer.
    async fn drain(&self, limit: Duration) {
        self.ending.cancel();
        let mut connections = self.connections.lock().await;
        #[expect(
            clippy::disallowed_methods,
            reason = "this module stands alone; it has no transport to ask"
        )]
        let drained =
            tokio::time::timeout(limit, async { while connections.join_next().await.is_some() {} }).await;
        if drained.is_err() {
            tracing::warn!("calls in flight were cut off");
        }
    }
}

/// What stands around everything that is logged for a call: its name, and the trace that the host
/// says it belongs to.
fn span<B>(request: &http::Request<B>) -> Span {
    let header = |name| request.headers().get(name).and_then(|value| value.to_str().ok());
    tracing::debug_span!(
        "rpc",
        rpc = request.uri().path().rsplit('/').next(),
        traceparent = header("traceparent"),
        tracestate = header("tracestate"),
    )
}

/// Every service of the server.
#[derive(Clone)]
struct Routes(Arc<Services>);

struct Services {
    provider: ProviderServer<Service>,
    controller: GrpcControllerServer<Companions>,
    broker: GrpcBrokerServer<Companions>,
    stdio: GrpcStdioServer<Companions>,
    health: HealthServer<Companions>,
}

impl Routes {
    fn new(service: Service, companions: Companions) -> Self {
        let provider = ProviderServer::new(service)
            .max_decoding_message_size(MAX_MESSAGE)
            .max_encoding_message_size(MAX_MESSAGE);
        Self(Arc::new(Services {
            provider,
            controller: GrpcControllerServer::new(companions.clone()),
            broker: GrpcBrokerServer::new(companions.clone()),
            stdio: GrpcStdioServer::new(companions.clone()),
            health: HealthServer::new(companions),
        }))
    }
}

type Answer = Pin<Box<dyn Future<Output = Result<http::Response<Body>, Infallible>> + Send>>;

impl hyper::service::Service<http::Request<Incoming>> for Routes {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Answer;

    fn call(&self, request: http::Request<Incoming>) -> Answer {
        let service = request.uri().path().split('/').nth(1).unwrap_or_default();
        match service {
            "tfplugin6.Provider" => {
                let span = span(&request);
                Box::pin(self.0.provider.clone().call(request).instrument(span))
            }
            "plugin.GRPCController" => self.0.controller.clone().call(request),
            "plugin.GRPCBroker" => self.0.broker.clone().call(request),
            "plugin.GRPCStdio" => self.0.stdio.clone().call(request),
            "grpc.health.v1.Health" => self.0.health.clone().call(request),
            _ => {
                let status = tonic::Status::unimplemented("there is no such service");
                Box::pin(std::future::ready(Ok(status.into_http())))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;
    use crate::plugin::log::Hclog;

    #[derive(Clone, Default)]
    struct Sink(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_calls_span_has_its_name_and_the_hosts_trace() {
        const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let sink = Sink::default();
        let output = sink.clone();
        let layer = Hclog::new("toy", move || output.clone());
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            let request =
                http::Request::post("/tfplugin6.Provider/ReadResource").header("traceparent", PARENT);
            span(&request.body(()).unwrap()).in_scope(|| tracing::info!("x"));
        });
        let line: serde_json::Value = serde_json::from_slice(&sink.0.lock().unwrap()).unwrap();
        assert_eq!(
            (&line["rpc"], &line["traceparent"]),
            (&"ReadResource".into(), &PARENT.into())
        );
        assert!(line["tracestate"].is_null(), "{line}");
    }
}

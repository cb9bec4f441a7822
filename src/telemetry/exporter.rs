//! The OTLP exporters: built on their own thread at the first export, and quiet when it fails.
//!
//! Must not know what is exported. Invariant: an export ends soon after the process wants to end,
//! a failed one costs one DEBUG line until the next that succeeds, and no line holds a header or
//! the credentials of a URL. Nothing is retried: what a dead collector misses is not worth a wait.

use std::future::Future;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use hyper_rustls::ConfigBuilderExt as _;
use opentelemetry_http::hyper::HyperClient;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::tonic_types::transport::{Certificate, ClientTlsConfig};
use opentelemetry_otlp::{
    MetricExporter, Protocol as OtlpProtocol, RetryPolicy, SpanExporter, WithExportConfig as _,
    WithHttpConfig as _, WithTonicConfig as _,
};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::metrics::Temporality;
use opentelemetry_sdk::metrics::data::ResourceMetrics;
use opentelemetry_sdk::metrics::exporter::PushMetricExporter;
use opentelemetry_sdk::trace::{SpanData, SpanExporter as ExportSpans};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use super::settings::{Destination, Protocol};
use crate::transport::call::Task;

/// One signal's exporter, built when first needed.
#[derive(Debug)]
pub(super) struct Exporter<E> {
    destination: Destination,
    /// Drives the connections: the threads that export have no runtime of their own.
    runtime: Handle,
    /// Cancelled when the process waits no longer for what is still being exported.
    closing: CancellationToken,
    resource: Resource,
    inner: OnceLock<Option<E>>,
    failing: AtomicBool,
}

impl<E: Send + Sync> Exporter<E> {
    pub(super) fn new(destination: Destination, runtime: Handle, closing: CancellationToken) -> Self {
        Self {
            destination,
            runtime,
            closing,
            resource: Resource::builder_empty().build(),
            inner: OnceLock::new(),
            failing: AtomicBool::new(false),
        }
    }

    fn get(
        &self,
        build: fn(&Destination, &Handle) -> Result<E, String>,
        adopt: fn(&mut E, &Resource),
    ) -> Option<&E> {
        self.inner
            .get_or_init(|| match build(&self.destination, &self.runtime) {
                Ok(mut exporter) => {
                    adopt(&mut exporter, &self.resource);
                    Some(exporter)
                }
                Err(problem) => {
                    tracing::warn!(problem, "telemetry is not exported");
                    None
                }
            })
            .as_ref()
    }

    /// Waits for an export unless the process is closing; a failure is noted, never returned,
    /// because the SDK would log it in its own way.
    async fn settle(
        &self,
        signal: &'static str,
        export: impl Future<Output = OTelSdkResult> + Send,
    ) -> OTelSdkResult {
        let result = tokio::select! {
            biased;
            result = export => result.map_err(|error| error.to_string()),
            () = self.closing.cancelled() => Err("the process ended first".to_owned()),
        };
        match result {
            Ok(()) => self.failing.store(false, Ordering::Relaxed),
            Err(reason) => {
                if !self.failing.swap(true, Ordering::Relaxed) {
                    let collector = self.destination.authority();
                    tracing::debug!(signal, collector, reason, "telemetry could not be exported");
                }
            }
        }
        Ok(())
    }
}

impl ExportSpans for Exporter<SpanExporter> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        match self.get(span_exporter, SpanExporter::set_resource) {
            Some(exporter) => self.settle("traces", exporter.export(batch)).await,
            None => Ok(()),
        }
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.resource = resource.clone();
    }
}

/// Metrics carry their resource with them, and the SDK asks for the temporality beforehand.
#[derive(Debug)]
pub(super) struct Metrics {
    exporter: Exporter<MetricExporter>,
    temporality: Temporality,
}

impl Metrics {
    pub(super) fn new(exporter: Exporter<MetricExporter>, temporality: Temporality) -> Self {
        Self {
            exporter,
            temporality,
        }
    }
}

impl PushMetricExporter for Metrics {
    async fn export(&self, metrics: &ResourceMetrics) -> OTelSdkResult {
        match self.exporter.get(metric_exporter, |_exporter, _resource| {}) {
            Some(exporter) => self.exporter.settle("metrics", exporter.export(metrics)).await,
            None => Ok(()),
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _timeout: Duration) -> OTelSdkResult {
        Ok(())
    }

    fn temporality(&self) -> Temporality {
        self.temporality
    }
}

fn span_exporter(destination: &Destination, runtime: &Handle) -> Result<SpanExporter, String> {
    // A channel's worker is spawned where it is built.
    let _runtime = runtime.enter();
    match destination.protocol {
        Protocol::Grpc => {
            let builder = SpanExporter::builder()
                .with_tonic()
                .with_endpoint(&destination.endpoint)
                .with_timeout(destination.timeout)
                .with_retry_policy(RetryPolicy::disabled());
            match grpc_tls(destination)? {
                Some(tls) => builder.with_tls_config(tls).build(),
                None => builder.build(),
            }
        }
        Protocol::HttpProtobuf => SpanExporter::builder()
            .with_http()
            .with_protocol(OtlpProtocol::HttpBinary)
            .with_endpoint(&destination.endpoint)
            .with_timeout(destination.timeout)
            .with_retry_policy(RetryPolicy::disabled())
            .with_http_client(http_client(destination, runtime)?)
            .build(),
    }
    .map_err(|_error| refused(destination))
}

fn metric_exporter(destination: &Destination, runtime: &Handle) -> Result<MetricExporter, String> {
    let _runtime = runtime.enter();
    match destination.protocol {
        Protocol::Grpc => {
            let builder = MetricExporter::builder()
                .with_tonic()
                .with_endpoint(&destination.endpoint)
                .with_timeout(destination.timeout)
                .with_retry_policy(RetryPolicy::disabled());
            match grpc_tls(destination)? {
                Some(tls) => builder.with_tls_config(tls).build(),
                None => builder.build(),
            }
        }
        Protocol::HttpProtobuf => MetricExporter::builder()
            .with_http()
            .with_protocol(OtlpProtocol::HttpBinary)
            .with_endpoint(&destination.endpoint)
            .with_timeout(destination.timeout)
            .with_retry_policy(RetryPolicy::disabled())
            .with_http_client(http_client(destination, runtime)?)
            .build(),
    }
    .map_err(|_error| refused(destination))
}

/// The library's own words would repeat the endpoint, credentials included.
fn refused(destination: &Destination) -> String {
    format!(
        "the OTLP exporter for {} could not be set up: check the OTEL_EXPORTER_OTLP_ variables",
        destination.authority()
    )
}

fn grpc_tls(destination: &Destination) -> Result<Option<ClientTlsConfig>, String> {
    if !destination.encrypted {
        return Ok(None);
    }
    let tls = ClientTlsConfig::new();
    Ok(Some(match &destination.certificate {
        Some(file) => {
            // Read once as certificates, for an error that says what is wrong with the file.
            authorities(file)?;
            let pem = std::fs::read(file).map_err(|error| unreadable(file, &error))?;
            tls.ca_certificate(Certificate::from_pem(pem))
        }
        None => tls.with_enabled_roots(),
    }))
}

/// Those that `OTEL_EXPORTER_OTLP_CERTIFICATE` names are trusted instead of the system's.
fn authorities(file: &str) -> Result<RootCertStore, String> {
    let mut store = RootCertStore::empty();
    let certificates = CertificateDer::pem_file_iter(file).map_err(|error| unreadable(file, &error))?;
    for certificate in certificates {
        let certificate = certificate.map_err(|error| unreadable(file, &error))?;
        store.add(certificate).map_err(|error| unreadable(file, &error))?;
    }
    if store.is_empty() {
        return Err(unreadable(file, &"it holds no certificate"));
    }
    Ok(store)
}

fn unreadable(file: &str, reason: &dyn std::fmt::Display) -> String {
    format!("OTEL_EXPORTER_OTLP_CERTIFICATE names {file:?}, which cannot be used: {reason}")
}

fn http_client(destination: &Destination, runtime: &Handle) -> Result<OnRuntime, String> {
    let timeout = destination.timeout;
    let client: Arc<dyn HttpClient> = if destination.encrypted {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|_error| refused(destination))?;
        let config = match &destination.certificate {
            Some(file) => config.with_root_certificates(authorities(file)?),
            None => config
                .with_native_roots()
                .map_err(|error| format!("the system's certificate authorities cannot be read: {error}"))?,
        };
        let connector = hyper_rustls::HttpsConnectorBuilder::new()
            .with_tls_config(config.with_no_client_auth())
            .https_only()
            .enable_http1()
            .build();
        Arc::new(HyperClient::new(connector, timeout, None))
    } else {
        Arc::new(HyperClient::with_default_connector(timeout, None))
    };
    Ok(OnRuntime {
        client,
        runtime: runtime.clone(),
    })
}

/// Sends on the process's runtime, from threads that have none.
#[derive(Debug)]
struct OnRuntime {
    client: Arc<dyn HttpClient>,
    runtime: Handle,
}

#[async_trait]
impl HttpClient for OnRuntime {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let client = Arc::clone(&self.client);
        let task = {
            let _runtime = self.runtime.enter();
            Task::spawn(async move { client.send_bytes(request).await })
        };
        task.await.unwrap_or_else(|lost| Err(Box::new(lost)))
    }
}

//! A client from credentials: TLS, the proxy in between, and what goes with every request.
//!
//! It must not know where credentials come from, nor what is asked for. Invariants: nothing is
//! repeated here; an answer that is no success reaches the classifier as a status with the wait that
//! the API server asked for, whatever its form.

use std::error::Error as StdError;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, HeaderMap, HeaderValue, RETRY_AFTER, USER_AGENT};
use http::{Request, Response, Uri};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper_rustls::{ConfigBuilderExt as _, FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use hyper_util::client::legacy::connect::{Connect, HttpConnector};
use hyper_util::rt::TokioExecutor;
use kube::Client;
use kube::client::Body;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use serde_json::Value as Json;

use super::classify::{Classified, Failure};
use super::credentials::{Credentials, Identity, Trust};
use super::material::{self, unusable};
use super::proxy::{Protocol, Proxy};
use crate::contract::{ErrorKind, HealthReason};

/// How long the other end may take to accept a connection.
const CONNECT: Duration = Duration::from_secs(15);
/// How long a connection is silent before it is asked for a sign of life.
const KEEPALIVE: Duration = Duration::from_secs(30);
/// Longer answers that are no success are cut off.
const LONGEST_STATUS: usize = 256 << 10;
/// What of an answer that is no status is shown.
const LONGEST_EXCERPT: usize = 200;

type BoxError = Box<dyn StdError + Send + Sync>;
type Answer = Response<UnsyncBoxBody<Bytes, BoxError>>;

/// A client. Sends nothing yet.
///
/// # Errors
/// Where certificates or keys cannot be used.
pub(super) fn client(credentials: &Credentials) -> Result<Client, Failure> {
    let tls = tls(&credentials.trust, credentials.identity.as_ref())?;
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_connect_timeout(Some(CONNECT));
    tcp.set_keepalive(Some(KEEPALIVE));
    tcp.set_nodelay(true);
    let finish = Finish { credentials, tls };
    Ok(match &credentials.proxy {
        None => finish.over(tcp),
        Some(proxy) => match proxy.protocol {
            Protocol::Http => finish.over(tunnel(proxy, tcp)),
            Protocol::Https => {
                // The proxy is no API server: the machine's authorities vouch for it.
                let own = builder()?.with_native_roots().map_err(no_authorities)?;
                let https = HttpsConnectorBuilder::new()
                    .with_tls_config(own.with_no_client_auth())
                    .https_only()
                    .enable_http1()
                    .wrap_connector(tcp);
                finish.over(tunnel(proxy, https))
            }
            Protocol::Socks5 => {
                let socks = SocksV5::new(proxy.uri.clone(), tcp);
                finish.over(match &proxy.user {
                    Some((user, password)) => socks.with_auth(user.clone(), password.expose().to_owned()),
                    None => socks,
                })
            }
        },
    })
}

fn tunnel<C>(proxy: &Proxy, connector: C) -> Tunnel<C> {
    let tunnel = Tunnel::new(proxy.uri.clone(), connector);
    let user = proxy.user.as_ref();
    match user.and_then(|(user, password)| material::basic(user, password)) {
        Some(header) => tunnel.with_auth(header),
        None => tunnel,
    }
}

struct Finish<'a> {
    credentials: &'a Credentials,
    tls: ClientConfig,
}

impl Finish<'_> {
    fn over<C>(self, connector: C) -> Client
    where
        HttpsConnector<C>: Connect + Clone + Send + Sync + 'static,
    {
        let mut https = HttpsConnectorBuilder::new()
            .with_tls_config(self.tls)
            .https_or_http();
        if let Some(name) = &self.credentials.server_name {
            https = https.with_server_name_resolver(FixedServerNameResolver::new(name.clone()));
        }
        let mut headers = self.credentials.headers.clone();
        headers.insert(
            USER_AGENT,
            HeaderValue::from_static(concat!("terraform-provider-egress/", env!("CARGO_PKG_VERSION"))),
        );
        let service = ApiServer {
            server: self.credentials.server.clone(),
            headers: Arc::new(headers),
            http: HttpClient::builder(TokioExecutor::new())
                .build(https.enable_http1().wrap_connector(connector)),
        };
        Client::new(service, "default")
    }
}

fn builder() -> Result<rustls::ConfigBuilder<ClientConfig, rustls::WantsVerifier>, Failure> {
    ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| Failure::credentials("TLS cannot be used").because(error.to_string()))
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

fn no_authorities(error: std::io::Error) -> Failure {
    Failure::credentials(
        "this machine trusts no authority: install its package of CA certificates, or set ca_certificate or ca_file",
    )
    .because(error.to_string())
}

fn tls(trust: &Trust, identity: Option<&Identity>) -> Result<ClientConfig, Failure> {
    let builder = builder()?;
    let builder = match trust {
        Trust::Anybody => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Unchecked(provider()))),
        Trust::Machine => builder.with_native_roots().map_err(no_authorities)?,
        Trust::These(authorities) => {
            let mut roots = RootCertStore::empty();
            for authority in authorities {
                roots
                    .add(authority.clone())
                    .map_err(|_| unusable("the authority's certificate", "it is damaged"))?;
            }
            builder.with_root_certificates(roots)
        }
    };
    match identity {
        None => Ok(builder.with_no_client_auth()),
        Some(identity) => builder
            .with_client_auth_cert(identity.chain.clone(), identity.key.clone_key())
            .map_err(|error| {
                let why = match error {
                    rustls::Error::InconsistentKeys(_) => "its key belongs to another certificate",
                    _ => "it, or its key, is of a kind that is not supported",
                };
                unusable(&identity.name, why)
            }),
    }
}

/// Accepts any certificate, but only from somebody who holds its key.
#[derive(Debug)]
struct Unchecked(Arc<CryptoProvider>);

impl ServerCertVerifier for Unchecked {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls12_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// Sends each request to the API server, with what says who we are.
#[derive(Clone)]
struct ApiServer<C> {
    server: Uri,
    headers: Arc<HeaderMap>,
    http: HttpClient<C, Body>,
}

impl<C> tower_service::Service<Request<Body>> for ApiServer<C>
where
    C: Connect + Clone + Send + Sync + 'static,
{
    type Response = Answer;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Answer, BoxError>> + Send>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let uri = absolute(&self.server, request.uri());
        for name in self.headers.keys() {
            request.headers_mut().remove(name);
        }
        for (name, value) in self.headers.iter() {
            request.headers_mut().append(name, value.clone());
        }
        debug_assert!(
            request
                .headers()
                .get(AUTHORIZATION)
                .is_none_or(HeaderValue::is_sensitive)
        );
        let http = self.http.clone();
        Box::pin(async move {
            *request.uri_mut() = uri?;
            let answer = http.request(request).await?;
            if answer.status().is_success() {
                return Ok(answer.map(|body| body.map_err(BoxError::from).boxed_unsync()));
            }
            refusal(answer).await
        })
    }
}

/// The API server's URL, with the path and query of a request behind its own path.
fn absolute(server: &Uri, request: &Uri) -> Result<Uri, BoxError> {
    let asked = request.path_and_query().map_or("/", |path| path.as_str());
    let path = format!("{}{asked}", server.path().trim_end_matches('/'));
    let mut parts = server.clone().into_parts();
    parts.path_and_query = Some(path.parse()?);
    Ok(Uri::from_parts(parts)?)
}

/// An answer that is no success as a `Status` in JSON, which is what an API server gives: what stands
/// before one (a proxy, a load balancer, its own limit of requests) does not.
async fn refusal(answer: Response<Incoming>) -> Result<Answer, BoxError> {
    let (mut parts, body) = answer.into_parts();
    if parts.status.is_redirection() {
        return Err(Box::new(Classified(Failure::new(
            ErrorKind::Permanent,
            HealthReason::ApiError,
            "the server answered with a redirection, which no API server of Kubernetes does: check its URL",
        ))));
    }
    let wait = parts
        .headers
        .get(RETRY_AFTER)
        .and_then(|value| value.to_str().ok())
        .and_then(|text| text.parse::<u32>().ok());
    let body = Limited::new(body, LONGEST_STATUS).collect().await?.to_bytes();
    let mut status = match serde_json::from_slice::<Json>(&body) {
        Ok(status) if status["kind"] == "Status" => status,
        Ok(_) | Err(_) => serde_json::json!({
            "kind": "Status",
            "apiVersion": "v1",
            "status": "Failure",
            "message": excerpt(&parts.headers, &body),
            "code": parts.status.as_u16(),
        }),
    };
    // Some statuses, those of webhooks for one, leave the code to HTTP.
    if status["code"].as_u64().unwrap_or_default() == 0 {
        status["code"] = parts.status.as_u16().into();
    }
    if let Some(wait) = wait
        && status["details"]["retryAfterSeconds"].is_null()
    {
        if !status["details"].is_object() {
            status["details"] = serde_json::json!({});
        }
        status["details"]["retryAfterSeconds"] = wait.into();
    }
    let body = Full::new(Bytes::from(status.to_string()));
    parts.headers.remove(http::header::CONTENT_LENGTH);
    Ok(Response::from_parts(
        parts,
        body.map_err(|never| match never {}).boxed_unsync(),
    ))
}

/// The beginning of a text; of a page nothing.
fn excerpt(headers: &HeaderMap, body: &[u8]) -> String {
    let is_page = headers
        .get(http::header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .is_some_and(|kind| kind.contains("html"));
    if is_page {
        return "a web page, so that something else than an API server answered".to_owned();
    }
    let text = String::from_utf8_lossy(body);
    let line = text.trim().lines().next().unwrap_or_default();
    line.chars().take(LONGEST_EXCERPT).collect()
}

//! An API server for unit tests: TLS and HTTP/1.1 on loopback, answers as the test has them.
//!
//! It must not know Kubernetes. Invariants: every request is kept; everything ends with the server.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::transport::call::Task;

/// An authority.
pub(super) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub(super) pem: String,
}

/// A certificate and its key, PEM.
pub(super) struct Pair {
    pub(super) certificate: String,
    pub(super) key: String,
    der: CertificateDer<'static>,
    key_der: Vec<u8>,
}

impl Authority {
    pub(super) fn new() -> Self {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(Vec::new()).expect("parameters");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(
            rcgen::DnType::CommonName,
            format!("authority {}", uuid::Uuid::new_v4()),
        );
        let pem = params.self_signed(&key).expect("a certificate").pem();
        Self {
            issuer: Issuer::new(params, key),
            pem,
        }
    }

    /// A certificate for these names or addresses.
    pub(super) fn sign(&self, names: &[&str]) -> Pair {
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        self.sign_with(CertificateParams::new(names).expect("parameters"))
    }

    pub(super) fn sign_with(&self, params: CertificateParams) -> Pair {
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        Pair {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
            der: certificate.der().clone(),
            key_der: key.serialize_der(),
        }
    }
}

/// A request as it arrived.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    pub(super) method: String,
    pub(super) path: String,
    headers: Vec<(String, String)>,
    pub(super) body: String,
    /// Whether the client showed a certificate.
    pub(super) has_certificate: bool,
}

impl Seen {
    /// The values of a header, in order.
    pub(super) fn header(&self, name: &str) -> Vec<&str> {
        let named = self
            .headers
            .iter()
            .filter(|(own, _)| own.eq_ignore_ascii_case(name));
        named.map(|(_, value)| value.as_str()).collect()
    }
}

/// An answer.
#[derive(Clone, Debug)]
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) body: String,
}

impl Reply {
    pub(super) fn json(status: u16, body: impl Into<String>) -> Self {
        Self {
            status,
            headers: vec![("Content-Type", "application/json".to_owned())],
            body: body.into(),
        }
    }

    pub(super) fn version() -> Self {
        Self::json(
            200,
            r#"{"major":"1","minor":"36","gitVersion":"v1.36.3","gitCommit":"","gitTreeState":"","buildDate":"","goVersion":"","compiler":"","platform":""}"#,
        )
    }

    /// A `Status`.
    pub(super) fn status(code: u16, reason: &str, message: &str) -> Self {
        let body = serde_json::json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": message, "reason": reason, "code": code,
        });
        Self::json(code, body.to_string())
    }

    pub(super) fn unauthorized() -> Self {
        Self::status(401, "Unauthorized", "Unauthorized")
    }
}

type Handler = Arc<dyn Fn(&Seen) -> Reply + Send + Sync>;

/// A server.
pub(super) struct Server {
    pub(super) address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
    _accepting: Task<()>,
}

impl Server {
    /// With that certificate; client certificates of `clients` are asked for.
    pub(super) async fn start(
        pair: &Pair,
        clients: Option<&Authority>,
        handler: impl Fn(&Seen) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .expect("versions");
        let builder = match clients {
            None => builder.with_no_client_auth(),
            Some(authority) => {
                let mut roots = RootCertStore::empty();
                let der = rustls::pki_types::pem::PemObject::from_pem_slice(authority.pem.as_bytes());
                let der: CertificateDer<'static> = der.expect("a certificate");
                roots.add(der).expect("an authority");
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                let verifier = verifier.allow_unauthenticated().build().expect("a verifier");
                builder.with_client_cert_verifier(verifier)
            }
        };
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(pair.key_der.clone()));
        let config = builder
            .with_single_cert(vec![pair.der.clone()], key)
            .expect("a certificate and its key");
        Self::listen(Some(TlsAcceptor::from(Arc::new(config))), Arc::new(handler)).await
    }

    /// Without TLS.
    pub(super) async fn plain(handler: impl Fn(&Seen) -> Reply + Send + Sync + 'static) -> Self {
        Self::listen(None, Arc::new(handler)).await
    }

    async fn listen(tls: Option<TlsAcceptor>, handler: Handler) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let seen = Arc::new(Mutex::new(Vec::new()));
        let keep = Arc::clone(&seen);
        let accepting = Task::spawn(async move {
            let mut connections = Vec::new();
            while let Ok((tcp, _)) = listener.accept().await {
                let (tls, handler, keep) = (tls.clone(), Arc::clone(&handler), Arc::clone(&keep));
                connections.push(Task::spawn(async move {
                    // A client that goes away, or refuses the handshake, is what some tests are about.
                    let _ = serve(tcp, tls, &handler, &keep).await;
                }));
            }
        });
        Self {
            address,
            seen,
            _accepting: accepting,
        }
    }

    /// Every request so far.
    pub(super) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn url(&self) -> String {
        format!("https://{}", self.address)
    }
}

async fn serve(
    tcp: TcpStream,
    tls: Option<TlsAcceptor>,
    handler: &Handler,
    keep: &Mutex<Vec<Seen>>,
) -> io::Result<()> {
    match tls {
        None => exchange(tcp, false, handler, keep).await,
        Some(tls) => {
            let stream = tls.accept(tcp).await?;
            let has_certificate = stream.get_ref().1.peer_certificates().is_some();
            exchange(stream, has_certificate, handler, keep).await
        }
    }
}

/// One request and its answer.
async fn exchange(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    has_certificate: bool,
    handler: &Handler,
    keep: &Mutex<Vec<Seen>>,
) -> io::Result<()> {
    let mut bytes = Vec::new();
    let head = loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end;
        }
        let mut buffer = [0; 4096];
        let read = stream.read(&mut buffer).await?;
        if read == 0 {
            return Ok(());
        }
        bytes.extend_from_slice(&buffer[..read]);
        // The beginning of a TLS handshake, which a server without TLS answers in its own words.
        if bytes.first() == Some(&0x16) {
            return stream
                .write_all(
                    b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTPS request to an HTTP server.\n",
                )
                .await;
        }
    };
    let text = String::from_utf8_lossy(&bytes[..head]).into_owned();
    let mut lines = text.split("\r\n");
    let mut first = lines.next().unwrap_or_default().split(' ');
    let mut seen = Seen {
        method: first.next().unwrap_or_default().to_owned(),
        path: first.next().unwrap_or_default().to_owned(),
        headers: lines
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect(),
        body: String::new(),
        has_certificate,
    };
    let length: usize = seen
        .header("content-length")
        .first()
        .and_then(|length| length.parse().ok())
        .unwrap_or_default();
    let mut body = bytes.split_off(head + 4);
    while body.len() < length {
        let mut buffer = [0; 4096];
        let read = stream.read(&mut buffer).await?;
        if read == 0 {
            return Ok(());
        }
        body.extend_from_slice(&buffer[..read]);
    }
    seen.body = String::from_utf8_lossy(&body).into_owned();
    let reply = handler(&seen);
    keep.lock().unwrap_or_else(PoisonError::into_inner).push(seen);
    let mut answer = format!(
        "HTTP/1.1 {} X\r\nContent-Length: {}\r\nConnection: close\r\n",
        reply.status,
        reply.body.len()
    );
    for (name, value) in &reply.headers {
        answer.push_str(&format!("{name}: {value}\r\n"));
    }
    answer.push_str("\r\n");
    answer.push_str(&reply.body);
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await
}

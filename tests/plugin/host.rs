//! A plugin host for tests: starts the toy provider as Terraform would and talks to it with a client
//! generated from the same protocol files, independent of the server's code.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::Stdio;
use std::sync::Arc;
use std::task::{Context, Poll};

use base64::Engine as _;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, BufReader, Lines};
use tokio::net::UnixStream;
use tokio::process::{Child, ChildStderr, ChildStdout, Command};
use tonic::body::Body;

use crate::generated::{go_plugin, tfplugin6};
use egress::plugin::types::Type;
use egress::plugin::value::Value;
use tfplugin6::provider_client::ProviderClient;
use tfplugin6::{DynamicValue, schema};

const COOKIE: &str = "d602bf8f470bc67ca7faa0386276bbdd4330efaf76d1a219cb4d6991ca9872b2";

/// A host's certificate, made the way go-plugin makes it: P-521, self-signed, a CA, for `localhost`.
pub(crate) struct Identity {
    pub(crate) pem: String,
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
}

impl Identity {
    pub(crate) fn new() -> Self {
        let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P521_SHA512).expect("a key");
        let mut params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).expect("parameters");
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        params
            .distinguished_name
            .push(rcgen::DnType::OrganizationName, "HashiCorp");
        let certificate = params.self_signed(&key).expect("a certificate");
        Self {
            pem: certificate.pem(),
            certificate: certificate.der().clone(),
            key: PrivateKeyDer::try_from(key.serialize_der()).expect("a key in PKCS 8"),
        }
    }
}

/// A started toy provider.
pub(crate) struct Plugin {
    pub(crate) child: Child,
    pub(crate) line: String,
    pub(crate) stdout: Lines<BufReader<ChildStdout>>,
    pub(crate) stderr: Lines<BufReader<ChildStderr>>,
    pub(crate) directory: tempfile::TempDir,
}

pub(crate) fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_toy-provider"));
    command
        .env_clear()
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .stdin(Stdio::null())
        .kill_on_drop(true);
    command
}

impl Plugin {
    /// Starts it as a host does; `set` adds to the environment and arguments.
    pub(crate) async fn start(pem: Option<&str>, set: impl FnOnce(&mut Command)) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let mut command = command();
        command
            .env("TF_PLUGIN_MAGIC_COOKIE", COOKIE)
            .env("PLUGIN_PROTOCOL_VERSIONS", "6,5")
            .env("PLUGIN_MIN_PORT", "10000")
            .env("PLUGIN_MAX_PORT", "25000")
            .env("TMPDIR", directory.path());
        if let Some(pem) = pem {
            command.env("PLUGIN_CLIENT_CERT", pem);
        }
        set(&mut command);
        let mut child = command.spawn().expect("the toy provider starts");
        let mut stdout = BufReader::new(child.stdout.take().expect("piped")).lines();
        let stderr = BufReader::new(child.stderr.take().expect("piped")).lines();
        let line = stdout.next_line().await.expect("readable").unwrap_or_default();
        Self {
            child,
            line,
            stdout,
            stderr,
            directory,
        }
    }

    pub(crate) fn fields(&self) -> Vec<&str> {
        self.line.split('|').collect()
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.fields()[3].into()
    }

    fn certificate(&self) -> CertificateDer<'static> {
        let text = self.fields()[5];
        base64::engine::general_purpose::STANDARD_NO_PAD
            .decode(text)
            .expect("base64")
            .into()
    }

    /// Connects with TLS, as `identity` or as nobody.
    pub(crate) async fn connect_tls(&self, identity: Option<&Identity>) -> Result<Connection, String> {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(self.certificate()).expect("a certificate");
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(roots);
        let mut config = match identity {
            Some(own) => builder
                .with_client_auth_cert(vec![own.certificate.clone()], own.key.clone_key())
                .expect("a certificate and its key"),
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols = vec![b"h2".to_vec()];
        let io = UnixStream::connect(self.socket()).await.expect("it listens");
        let name = ServerName::try_from("localhost").expect("a name");
        let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
        let stream = connector
            .connect(name, io)
            .await
            .map_err(|error| error.to_string())?;
        // In TLS 1.3 a client learns that it was refused with the first byte it reads.
        Connection::over(stream).await
    }

    pub(crate) async fn connect_plain(&self) -> Connection {
        plain(&self.socket()).await
    }

    /// Reads stderr up to the first line that contains a text.
    pub(crate) async fn logged(&mut self, text: &str) -> String {
        loop {
            let line = self.stderr.next_line().await.expect("readable");
            let line = line.unwrap_or_else(|| panic!("stderr ended before {text:?}"));
            if line.contains(text) {
                return line;
            }
        }
    }

    /// Waits for its end and gives the exit code and the rest of stdout and stderr.
    pub(crate) async fn end(mut self) -> (Option<i32>, String, String) {
        let status = self.child.wait().await.expect("it ends");
        let (mut stdout, mut stderr) = (String::new(), String::new());
        self.stdout
            .get_mut()
            .read_to_string(&mut stdout)
            .await
            .expect("readable");
        self.stderr
            .get_mut()
            .read_to_string(&mut stderr)
            .await
            .expect("readable");
        (status.code(), stdout, stderr)
    }
}

pub(crate) async fn plain(socket: &Path) -> Connection {
    let io = UnixStream::connect(socket).await.expect("it listens");
    Connection::over(io).await.expect("HTTP/2")
}

/// One HTTP/2 connection, as the generated clients want it.
#[derive(Clone)]
pub(crate) struct Connection(hyper::client::conn::http2::SendRequest<Body>);

impl Connection {
    async fn over(io: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> Result<Self, String> {
        let mut builder = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
        builder
            .initial_stream_window_size(1 << 20)
            .initial_connection_window_size(1 << 20);
        let (sender, driver) = builder
            .handshake(TokioIo::new(io))
            .await
            .map_err(|error| error.to_string())?;
        #[expect(clippy::disallowed_methods, reason = "the driver ends with its connection")]
        tokio::spawn(driver);
        Ok(Self(sender))
    }

    pub(crate) fn client(&self) -> Client {
        ProviderClient::with_origin(self.clone(), origin())
            .max_decoding_message_size(usize::MAX)
            .max_encoding_message_size(usize::MAX)
    }

    /// Whether the server answers on this connection.
    pub(crate) async fn serves(&self) -> bool {
        self.client()
            .get_metadata(tfplugin6::get_metadata::Request {})
            .await
            .is_ok()
    }

    /// Asks the plugin to end.
    pub(crate) async fn shutdown(&self) {
        let mut controller =
            go_plugin::grpc_controller_client::GrpcControllerClient::with_origin(self.clone(), origin());
        controller.shutdown(go_plugin::Empty {}).await.expect("an answer");
    }
}

pub(crate) type Client = ProviderClient<Connection>;

pub(crate) fn origin() -> http::Uri {
    http::Uri::from_static("http://localhost")
}

impl tower_service::Service<http::Request<Body>> for Connection {
    type Response = http::Response<hyper::body::Incoming>;
    type Error = hyper::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let mut sender = self.0.clone();
        Box::pin(async move {
            sender.ready().await?;
            sender.send_request(request).await
        })
    }
}

/// A plugin with the host's connection to it.
pub(crate) struct Session {
    pub(crate) plugin: Plugin,
    pub(crate) connection: Connection,
    pub(crate) client: Client,
}

impl Session {
    pub(crate) async fn start() -> Self {
        Self::start_with(|_| ()).await
    }

    pub(crate) async fn start_with(set: impl FnOnce(&mut Command)) -> Self {
        let identity = Identity::new();
        let plugin = Plugin::start(Some(&identity.pem), set).await;
        let connection = plugin
            .connect_tls(Some(&identity))
            .await
            .expect("the host is let in");
        let client = connection.client();
        Self {
            plugin,
            connection,
            client,
        }
    }

    pub(crate) async fn schema(&mut self) -> tfplugin6::get_provider_schema::Response {
        self.client
            .get_provider_schema(tfplugin6::get_provider_schema::Request {})
            .await
            .expect("schemas")
            .into_inner()
    }

    /// The type of a managed resource's values, as the schema has it.
    pub(crate) async fn resource_type(&mut self, name: &str) -> Type {
        implied(
            self.schema().await.resource_schemas[name]
                .block
                .as_ref()
                .expect("a block"),
        )
    }
}

/// The type that a block's schema implies, worked out as the hosts do it.
pub(crate) fn implied(block: &schema::Block) -> Type {
    use schema::nested_block::NestingMode;
    let attributes = block
        .attributes
        .iter()
        .map(|attribute| (attribute.name.clone(), attribute_type(attribute)));
    let blocks = block.block_types.iter().map(|nested| {
        let content = implied(nested.block.as_ref().expect("a block"));
        let dynamic = content.has_dynamic();
        let ty = match nested.nesting() {
            NestingMode::Single | NestingMode::Group => content,
            NestingMode::List | NestingMode::Map if dynamic => Type::Dynamic,
            NestingMode::List => Type::list(content),
            NestingMode::Set => Type::set(content),
            NestingMode::Map => Type::map(content),
            NestingMode::Invalid => panic!("{} has no nesting", nested.type_name),
        };
        (nested.type_name.clone(), ty)
    });
    Type::object(attributes.chain(blocks))
}

fn attribute_type(attribute: &schema::Attribute) -> Type {
    use schema::object::NestingMode;
    let Some(nested) = &attribute.nested_type else {
        return Type::from_json(&attribute.r#type).expect("a type");
    };
    let object = Type::object(
        nested
            .attributes
            .iter()
            .map(|a| (a.name.clone(), attribute_type(a))),
    );
    match nested.nesting() {
        NestingMode::Single => object,
        NestingMode::List => Type::list(object),
        NestingMode::Set => Type::set(object),
        NestingMode::Map => Type::map(object),
        NestingMode::Invalid => panic!("{} has no nesting", attribute.name),
    }
}

/// A value as it travels.
pub(crate) fn sent(value: &Value, ty: &Type) -> Option<DynamicValue> {
    Some(DynamicValue {
        msgpack: value.to_msgpack(ty).expect("a value of the type").into(),
        ..Default::default()
    })
}

/// A value as it arrived.
pub(crate) fn received(value: Option<DynamicValue>, ty: &Type) -> Value {
    Value::from_msgpack(&value.expect("a value").msgpack, ty).expect("a value of the type")
}

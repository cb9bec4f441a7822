//! Proxies between the provider and an API server: HTTP, HTTPS and SOCKS5, all asking for a password.
//!
//! It knows nothing of Kubernetes. Invariant: nobody goes through without that password, and who does is noted.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use egress::transport::call::Task;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::kube_node::Identity;

pub(crate) const USER: &str = "me";
pub(crate) const PASSWORD: &str = "p@ss/geheim";
/// The same as a URL has it.
pub(crate) const IN_URL: &str = "me:p%40ss%2Fgeheim";

/// How a proxy is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Http,
    Https,
    Socks5,
}

/// A proxy on the loopback interface.
pub(crate) struct Tunnel {
    address: SocketAddr,
    kind: Kind,
    through: Arc<Mutex<Vec<String>>>,
    _serving: Task<()>,
}

impl Tunnel {
    /// One that shows this certificate where it speaks TLS.
    pub(crate) async fn open(kind: Kind, identity: &Identity) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
        let address = listener.local_addr().expect("bound");
        let through = Arc::<Mutex<Vec<String>>>::default();
        let noted = Arc::clone(&through);
        let tls = acceptor(identity);
        let serving = Task::spawn(async move {
            let mut connections = Vec::new();
            while let Ok((tcp, _)) = listener.accept().await {
                let (tls, noted) = (tls.clone(), Arc::clone(&noted));
                connections.push(Task::spawn(async move {
                    // However it ends: a client that is refused goes away.
                    let _ = match kind {
                        Kind::Http => connect(tcp, &noted).await,
                        Kind::Https => match tls.accept(tcp).await {
                            Ok(stream) => connect(stream, &noted).await,
                            Err(error) => Err(error),
                        },
                        Kind::Socks5 => socks(tcp, &noted).await,
                    };
                }));
                connections.retain(|connection| !connection.is_finished());
            }
        });
        Self {
            address,
            kind,
            through,
            _serving: serving,
        }
    }

    /// Its URL, with these words before the host.
    pub(crate) fn url(&self, user: &str) -> String {
        let scheme = match self.kind {
            Kind::Http => "http",
            Kind::Https => "https",
            Kind::Socks5 => "socks5",
        };
        format!("{scheme}://{user}@{}", self.address)
    }

    /// Where was gone through it since the last time.
    pub(crate) fn through(&self) -> Vec<String> {
        std::mem::take(&mut *self.through.lock().expect("whole"))
    }
}

fn acceptor(identity: &Identity) -> TlsAcceptor {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let chain = CertificateDer::from_pem_slice(identity.certificate.as_bytes()).expect("a certificate");
    let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).expect("a key");
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![chain], key)
        .expect("a certificate and its key");
    TlsAcceptor::from(Arc::new(config))
}

async fn connect(
    mut client: impl AsyncRead + AsyncWrite + Unpin,
    noted: &Mutex<Vec<String>>,
) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(client.read_u8().await?);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let expected = base64::engine::general_purpose::STANDARD.encode(format!("{USER}:{PASSWORD}"));
    let is_known = head.lines().any(|line| {
        let (name, value) = line.split_once(": ").unwrap_or_default();
        name.eq_ignore_ascii_case("proxy-authorization") && value == format!("Basic {expected}")
    });
    let target = head
        .strip_prefix("CONNECT ")
        .and_then(|rest| rest.split(' ').next());
    let (true, Some(target)) = (is_known, target) else {
        return client
            .write_all(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
            .await;
    };
    let mut server = TcpStream::connect(target).await?;
    client
        .write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")
        .await?;
    noted.lock().expect("whole").push(target.to_owned());
    copy_bidirectional(&mut client, &mut server).await?;
    Ok(())
}

/// RFC 1928 with the user and password of RFC 1929.
async fn socks(mut client: TcpStream, noted: &Mutex<Vec<String>>) -> std::io::Result<()> {
    const PASSWORD_METHOD: u8 = 2;
    let refused = || std::io::Error::other("refused");
    let _version = client.read_u8().await?;
    let mut methods = vec![0; client.read_u8().await?.into()];
    client.read_exact(&mut methods).await?;
    if !methods.contains(&PASSWORD_METHOD) {
        client.write_all(&[5, 0xff]).await?;
        return Err(refused());
    }
    client.write_all(&[5, PASSWORD_METHOD]).await?;
    let _version = client.read_u8().await?;
    let mut said = Vec::new();
    for _ in 0..2 {
        let mut text = vec![0; client.read_u8().await?.into()];
        client.read_exact(&mut text).await?;
        said.push(text);
    }
    if said != [USER.as_bytes(), PASSWORD.as_bytes()] {
        client.write_all(&[1, 1]).await?;
        return Err(refused());
    }
    client.write_all(&[1, 0]).await?;
    let mut request = [0; 4];
    client.read_exact(&mut request).await?;
    let host = match request[3] {
        1 => Ipv4Addr::from(client.read_u32().await?).to_string(),
        4 => format!("[{}]", Ipv6Addr::from(client.read_u128().await?)),
        _ => {
            let mut name = vec![0; client.read_u8().await?.into()];
            client.read_exact(&mut name).await?;
            String::from_utf8_lossy(&name).into_owned()
        }
    };
    let target = format!("{host}:{}", client.read_u16().await?);
    let mut server = TcpStream::connect(&target).await?;
    client.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0]).await?;
    noted.lock().expect("whole").push(target);
    copy_bidirectional(&mut client, &mut server).await?;
    Ok(())
}

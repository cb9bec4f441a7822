//! Mutual TLS the way go-plugin does it: each side makes a certificate and knows the other's.
//!
//! Must not know sockets. Invariant: the only client that is let in is the one that proves to hold the
//! key of exactly the certificate the host named in the environment. That certificate is a CA
//! certificate used as a client's own, which chain verifiers refuse; here there is no chain to
//! verify, only the one certificate to compare and its signature to check.

use std::sync::Arc;

use rcgen::{
    CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256,
};
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, aws_lc_rs, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, ServerConfig, SignatureScheme};

/// Why TLS could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The host's certificate in the environment is not one.
    #[error("PLUGIN_CLIENT_CERT is not a PEM certificate")]
    ClientCertificate(#[source] rustls::pki_types::pem::Error),
    /// No own certificate could be made.
    #[error("the server's certificate could not be made")]
    ServerCertificate(#[source] rcgen::Error),
    /// The TLS library refused the configuration.
    #[error("the TLS library refused the configuration")]
    Configuration(#[source] rustls::Error),
}

/// The server's side of TLS.
pub(crate) struct ServerTls {
    pub(crate) config: Arc<ServerConfig>,
    /// The server's certificate, which goes to the host in the handshake line.
    pub(crate) certificate: CertificateDer<'static>,
}

impl ServerTls {
    /// Makes a certificate, and a configuration that lets in only the client with the PEM given.
    pub(crate) fn new(client_pem: &str) -> Result<Self, TlsError> {
        let client = CertificateDer::from_pem_slice(client_pem.as_bytes())
            .map_err(TlsError::ClientCertificate)?
            .into_owned();
        let (certificate, key) = self_signed().map_err(TlsError::ServerCertificate)?;
        let provider = Arc::new(aws_lc_rs::default_provider());
        let verifier = Arc::new(OneClient::new(client, &provider));
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(TlsError::Configuration)?
            .with_client_cert_verifier(verifier)
            .with_single_cert(vec![certificate.clone()], key)
            .map_err(TlsError::Configuration)?;
        config.alpn_protocols = vec![b"h2".to_vec()];
        // One connection a process: nothing is ever resumed.
        config.send_tls13_tickets = 0;
        Ok(Self {
            config: Arc::new(config),
            certificate,
        })
    }
}

/// A certificate for `localhost`. P-256, because the host accepts any curve and this one is cheap to
/// make while the host waits.
fn self_signed() -> Result<(CertificateDer<'static>, PrivateKeyDer<'static>), rcgen::Error> {
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
    let mut params = CertificateParams::new(vec!["localhost".to_owned()])?;
    params.distinguished_name.push(DnType::CommonName, "localhost");
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    // The crate's default validity, 1975 to 4096, needs no clock; the certificate dies with the process.
    let certificate = params.self_signed(&key)?;
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
    Ok((certificate.der().clone(), key))
}

/// Lets in the holder of one certificate.
#[derive(Debug)]
struct OneClient {
    certificate: CertificateDer<'static>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl OneClient {
    fn new(certificate: CertificateDer<'static>, provider: &CryptoProvider) -> Self {
        Self {
            certificate,
            algorithms: provider.signature_verification_algorithms,
        }
    }
}

impl ClientCertVerifier for OneClient {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        // No hints: the client has one certificate and sends it.
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        if *end_entity == self.certificate {
            Ok(ClientCertVerified::assertion())
        } else {
            Err(rustls::Error::InvalidCertificate(
                CertificateError::ApplicationVerificationFailure,
            ))
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

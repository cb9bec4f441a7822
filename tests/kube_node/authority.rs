//! A certificate authority of the test's own: the API server's certificate and those of its clients.

use std::net::IpAddr;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType,
};

/// A certificate and its private key, in PEM.
#[derive(Clone)]
pub(crate) struct Identity {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: String,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&key).expect("signed").pem();
        Self {
            issuer: Issuer::new(params, key),
            certificate,
        }
    }

    /// Its own certificate, in PEM.
    pub(crate) fn certificate(&self) -> &str {
        &self.certificate
    }

    /// What the API server shows its clients.
    pub(crate) fn server(&self, addresses: &[IpAddr], names: &[&str]) -> Identity {
        let mut params = CertificateParams::default();
        params
            .distinguished_name
            .push(DnType::CommonName, "kube-apiserver");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let addresses = addresses.iter().copied().map(SanType::IpAddress);
        let names = names
            .iter()
            .map(|name| SanType::DnsName((*name).try_into().expect("a name")));
        params.subject_alt_names = addresses.chain(names).collect();
        self.sign(params)
    }

    /// A client's: the user's name and group are the subject's common name and organisation.
    pub(crate) fn client(&self, user: &str, group: Option<&str>) -> Identity {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, user);
        if let Some(group) = group {
            params.distinguished_name.push(DnType::OrganizationName, group);
        }
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(params)
    }

    fn sign(&self, mut params: CertificateParams) -> Identity {
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate().expect("a key");
        Identity {
            certificate: params.signed_by(&key, &self.issuer).expect("signed").pem(),
            key: key.serialize_pem(),
        }
    }
}

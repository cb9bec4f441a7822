//! What each way in which a dial fails means.

use std::io;
use std::path::PathBuf;

use super::*;
use crate::backend::libvirt::config::tests::configured;
use crate::backend::{kvm, kvm2};
use crate::transport::known_hosts::{HostName, Unusable};
use crate::transport::libvirt::RemoteError;
use crate::transport::ssh::agent::AgentError;
use crate::transport::ssh::error::Place;
use crate::transport::ssh::key::{KeyError, Problem};

fn ssh(cause: Cause) -> Failure {
    Failure::Ssh(Box::new(DialError {
        hop: "root@10.0.0.5:22".to_owned(),
        cause,
    }))
}

fn overran() -> Overran {
    Overran {
        call: "it".to_owned(),
        budget: std::time::Duration::from_secs(1),
    }
}

fn refused(code: Code) -> Failure {
    Failure::Libvirt {
        uri: "qemu:///system".to_owned(),
        error: libvirt::Error::Remote {
            procedure: "ConnectOpen",
            error: RemoteError {
                code,
                domain: 0,
                level: 2,
                message: "no".to_owned(),
            },
        },
    }
}

fn unknown_key() -> Cause {
    Cause::HostKey(Box::new(HostKeyError::Unknown {
        name: HostName::new("10.0.0.5", 22),
        file: PathBuf::from("/k"),
        kind: "ssh-ed25519".to_owned(),
        fingerprint: "SHA256:x".to_owned(),
        hint: String::new(),
    }))
}

fn socket(error: fn(Place) -> ChannelError) -> Failure {
    Failure::Socket {
        error: error(Place::Socket("/run/libvirt/libvirt-sock".to_owned())),
    }
}

#[test]
fn whose_fault_it_is_decides() {
    use HealthReason as R;
    let here = Some("");
    let there = Some("hosts/beelink/");
    let text = String::new;
    for (failure, affected, of_kvm, of_kvm2) in [
        (
            ssh(Cause::Key(KeyError {
                file: PathBuf::from("/id"),
                problem: Problem::Missing,
            })),
            here,
            R::SshMaterialUnavailable,
            R::CredentialsUnavailable,
        ),
        (
            ssh(Cause::Agent(AgentError::NotNamed)),
            here,
            R::SshMaterialUnavailable,
            R::CredentialsUnavailable,
        ),
        (
            ssh(Cause::HostKey(Box::new(HostKeyError::File(Unusable::Missing(
                PathBuf::from("/k"),
            ))))),
            here,
            R::SshMaterialUnavailable,
            R::CredentialsUnavailable,
        ),
        (
            ssh(Cause::Tcp(io::ErrorKind::ConnectionRefused.into())),
            None,
            R::Unreachable,
            R::Unreachable,
        ),
        (
            ssh(Cause::Jump(ChannelError::Prohibited {
                place: Place::Port("h".to_owned(), 22),
            })),
            there,
            R::Unreachable,
            R::Unreachable,
        ),
        (
            ssh(Cause::Jump(ChannelError::ConnectFailed {
                place: Place::Port("h".to_owned(), 22),
            })),
            None,
            R::Unreachable,
            R::Unreachable,
        ),
        (
            ssh(Cause::NoCommon {
                what: "cipher",
                theirs: text(),
            }),
            there,
            R::SshHandshakeFailed,
            R::Unreachable,
        ),
        (ssh(unknown_key()), there, R::SshHandshakeFailed, R::Unauthorized),
        (
            ssh(Cause::Refused {
                user: text(),
                tried: text(),
                takes: text(),
                hint: text(),
            }),
            there,
            R::SshHandshakeFailed,
            R::Unauthorized,
        ),
        (
            ssh(Cause::LoginClosed { tried: text() }),
            there,
            R::SshHandshakeFailed,
            R::Unauthorized,
        ),
        (
            ssh(Cause::Overran {
                stage: Stage::Authentication,
                overran: overran(),
            }),
            None,
            R::SshHandshakeFailed,
            R::Unreachable,
        ),
        (
            ssh(Cause::Overran {
                stage: Stage::Tcp,
                overran: overran(),
            }),
            None,
            R::Unreachable,
            R::Unreachable,
        ),
        (
            socket(|place| ChannelError::Prohibited { place }),
            there,
            R::LibvirtConnectFailed,
            R::Unreachable,
        ),
        (
            socket(|place| ChannelError::ConnectFailed { place }),
            None,
            R::LibvirtConnectFailed,
            R::Unreachable,
        ),
        (
            refused(Code::AUTH_UNAVAILABLE),
            there,
            R::LibvirtError,
            R::Forbidden,
        ),
        (
            Failure::Libvirt {
                uri: text(),
                error: libvirt::Error::Authentication("SASL".to_owned()),
            },
            there,
            R::LibvirtError,
            R::Forbidden,
        ),
        (refused(Code(5)), there, R::LibvirtConnectFailed, R::Unreachable),
        (
            refused(Code::INTERNAL_ERROR),
            None,
            R::LibvirtConnectFailed,
            R::Unreachable,
        ),
        (Failure::Overran(overran()), None, R::Timeout, R::Timeout),
    ] {
        let told = failure.text();
        assert_eq!(failure.reason(&kvm::POLICY.reasons), of_kvm, "{told}");
        assert_eq!(failure.reason(&kvm2::POLICY.reasons), of_kvm2, "{told}");
        let kind = failure.kind();
        let config = configured(|_| ());
        let error = error(config.host("beelink").expect("there"), Arc::new(failure));
        assert_eq!(error.kind(), kind, "{told}");
        assert_eq!(error.affected(), affected, "{told}");
        let shared = affected.is_some();
        assert_eq!(kind == ErrorKind::Permanent, shared, "{told}");
        let whole = Failure::text_of(&error);
        assert!(whole.ends_with(&told), "{whole}: {told}");
    }
}

#[test]
fn the_way_out_is_told() {
    let failure = socket(|place| ChannelError::Prohibited { place });
    assert!(failure.text().contains("AllowStreamLocalForwarding"));
    let failure = socket(|place| ChannelError::ConnectFailed { place });
    assert!(failure.text().contains("virtqemud-sock"), "{}", failure.text());
}

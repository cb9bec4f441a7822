//! A libvirt that answers as it is told, for the tests of what stands before the engine.
//!
//! It must not keep anything. Invariant: every call has an answer; one that is told to fail does so each
//! time, and one that is told to hang has no end.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use uuid::Uuid;

use super::config::Host;
use super::connect::Failure;
use super::hosts::{Dialer, Dialled, Reach};
use crate::transport::libvirt::types::{
    AddressSource, Domain, DomainState, DomainStats, Interface, NodeInfo, Pool, PoolInfo, PoolState, Volume,
    VolumeInfo,
};
use crate::transport::libvirt::upload::Source;
use crate::transport::libvirt::{Code, Error, LibvirtApi, RemoteError};
use crate::transport::ssh::ChannelError;

/// What a real libvirt 9.0 said of a host.
pub(super) const CAPABILITIES: &str = include_str!("capability/capabilities.xml");

/// How a call fails.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fault {
    /// libvirtd refuses.
    Refused(Code, &'static str),
    /// Nothing comes.
    Hangs,
}

/// The libvirt of a host.
pub(super) struct Stub {
    pub(super) faults: BTreeMap<&'static str, Fault>,
    pub(super) pool: PoolInfo,
    pub(super) down: AtomicBool,
}

impl Default for Stub {
    fn default() -> Self {
        Self {
            faults: BTreeMap::new(),
            pool: PoolInfo {
                state: PoolState::Running,
                capacity: 100 << 30,
                allocation: 75 << 30,
                available: 25 << 30,
            },
            down: AtomicBool::new(false),
        }
    }
}

impl Stub {
    /// One that fails at this call.
    pub(super) fn failing(call: &'static str, fault: Fault) -> Self {
        Self {
            faults: BTreeMap::from([(call, fault)]),
            ..Self::default()
        }
    }

    async fn answer(&self, call: &'static str) -> Result<(), Error> {
        match self.faults.get(call) {
            None => Ok(()),
            Some(Fault::Hangs) => std::future::pending().await,
            Some(Fault::Refused(code, message)) => Err(Error::Remote {
                procedure: call,
                error: RemoteError {
                    code: *code,
                    domain: 0,
                    level: 2,
                    message: (*message).to_owned(),
                },
            }),
        }
    }
}

fn volume(pool: &str, name: &str) -> Volume {
    Volume {
        pool: pool.to_owned(),
        name: name.to_owned(),
        key: String::new(),
    }
}

/// A dial: what comes of it, or never.
type Dial = Box<dyn FnMut() -> Option<Result<Dialled, Failure>> + Send>;

/// Dials as it is told, and counts.
pub(super) struct StubDialer {
    dial: Mutex<Dial>,
    pub(super) begun: AtomicUsize,
    pub(super) open: tokio::sync::Semaphore,
}

impl std::fmt::Debug for StubDialer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("StubDialer")
    }
}

impl StubDialer {
    /// Every dial ends as `dial` says, once [`StubDialer::open`] has a permit for it; `None` never ends.
    pub(super) fn new(
        permits: usize,
        dial: impl FnMut() -> Option<Result<Dialled, Failure>> + Send + 'static,
    ) -> Arc<Self> {
        Arc::new(Self {
            dial: Mutex::new(Box::new(dial)),
            begun: AtomicUsize::new(0),
            open: tokio::sync::Semaphore::new(permits),
        })
    }

    pub(super) fn dials(&self) -> usize {
        self.begun.load(Ordering::Relaxed)
    }
}

#[async_trait]
impl Dialer for StubDialer {
    async fn dial(&self, _host: &Host) -> Result<Dialled, Failure> {
        self.begun.fetch_add(1, Ordering::Relaxed);
        self.open.acquire().await.expect("never closed").forget();
        let outcome = (self.dial.lock().expect("not poisoned"))();
        match outcome {
            Some(outcome) => outcome,
            None => std::future::pending().await,
        }
    }
}

/// Ports that answer as this says.
pub(super) struct Ports<F>(pub(super) F);

#[async_trait]
impl<F: Fn(&str, u16) -> Result<(), ChannelError> + Send + Sync> Reach for Ports<F> {
    async fn reach(&self, address: &str, port: u16) -> Result<(), ChannelError> {
        self.0(address, port)
    }
}

/// A connection to that libvirt, whose ports all answer.
pub(super) fn dialled(stub: Arc<Stub>) -> Dialled {
    Dialled {
        api: stub,
        reach: Arc::new(Ports(|_: &str, _: u16| Ok(()))),
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl LibvirtApi for Stub {
    fn is_up(&self) -> bool {
        !self.down.load(Ordering::Relaxed)
    }

    async fn hostname(&self) -> Result<String, Error> {
        self.answer("hostname").await?;
        Ok("kvm1".to_owned())
    }

    async fn library_version(&self) -> Result<u64, Error> {
        self.answer("library_version").await?;
        Ok(9_000_000)
    }

    async fn node_info(&self) -> Result<NodeInfo, Error> {
        self.answer("node_info").await?;
        Ok(NodeInfo {
            model: "x86_64".to_owned(),
            memory_kib: 1,
            cpus: 1,
            mhz: 0,
            nodes: 1,
            sockets: 1,
            cores: 1,
            threads: 1,
        })
    }

    async fn free_memory(&self) -> Result<u64, Error> {
        self.answer("free_memory").await?;
        Ok(1 << 32)
    }

    async fn capabilities(&self) -> Result<String, Error> {
        self.answer("capabilities").await?;
        Ok(CAPABILITIES.to_owned())
    }

    async fn domain_capabilities(
        &self,
        _emulator: Option<&str>,
        _arch: Option<&str>,
        _machine: Option<&str>,
        _virt_type: Option<&str>,
    ) -> Result<String, Error> {
        self.answer("domain_capabilities").await?;
        Ok(String::new())
    }

    async fn domains(&self, _flags: u32) -> Result<Vec<Domain>, Error> {
        self.answer("domains").await?;
        Ok(Vec::new())
    }

    async fn domain_stats(&self, _domains: &[Domain], _stats: u32) -> Result<Vec<DomainStats>, Error> {
        self.answer("domain_stats").await?;
        Ok(Vec::new())
    }

    async fn domain(&self, name: &str) -> Result<Domain, Error> {
        self.answer("domain").await?;
        Ok(Domain {
            name: name.to_owned(),
            uuid: Uuid::nil(),
            id: -1,
        })
    }

    async fn define(&self, _xml: &str, _flags: u32) -> Result<Domain, Error> {
        self.answer("define").await?;
        Ok(Domain {
            name: String::new(),
            uuid: Uuid::nil(),
            id: -1,
        })
    }

    async fn define_plain(&self, _xml: &str) -> Result<Domain, Error> {
        self.answer("define_plain").await?;
        Ok(Domain {
            name: String::new(),
            uuid: Uuid::nil(),
            id: -1,
        })
    }

    async fn start(&self, _domain: &Domain) -> Result<(), Error> {
        self.answer("start").await
    }

    async fn resume(&self, _domain: &Domain) -> Result<(), Error> {
        self.answer("resume").await
    }

    async fn wake(&self, _domain: &Domain) -> Result<(), Error> {
        self.answer("wake").await
    }

    async fn destroy(&self, _domain: &Domain) -> Result<(), Error> {
        self.answer("destroy").await
    }

    async fn undefine(&self, _domain: &Domain, _flags: u32) -> Result<(), Error> {
        self.answer("undefine").await
    }

    async fn state(&self, _domain: &Domain) -> Result<(DomainState, i32), Error> {
        self.answer("state").await?;
        Ok((DomainState::Running, 0))
    }

    async fn metadata(&self, _domain: &Domain, _namespace: &str) -> Result<String, Error> {
        self.answer("metadata").await?;
        Ok(String::new())
    }

    async fn set_metadata(
        &self,
        _domain: &Domain,
        _namespace: &str,
        _prefix: &str,
        _element: Option<&str>,
        _flags: u32,
    ) -> Result<(), Error> {
        self.answer("set_metadata").await
    }

    async fn domain_xml(&self, _domain: &Domain, _flags: u32) -> Result<String, Error> {
        self.answer("domain_xml").await?;
        Ok(String::new())
    }

    async fn addresses(&self, _domain: &Domain, _source: AddressSource) -> Result<Vec<Interface>, Error> {
        self.answer("addresses").await?;
        Ok(Vec::new())
    }

    async fn agent(&self, _domain: &Domain, _command: &str, _seconds: i32) -> Result<Option<String>, Error> {
        self.answer("agent").await?;
        Ok(None)
    }

    async fn pool(&self, name: &str) -> Result<Pool, Error> {
        self.answer("pool").await?;
        Ok(Pool {
            name: name.to_owned(),
            uuid: Uuid::nil(),
        })
    }

    async fn pool_info(&self, _pool: &Pool) -> Result<PoolInfo, Error> {
        self.answer("pool_info").await?;
        Ok(self.pool.clone())
    }

    async fn refresh(&self, _pool: &Pool) -> Result<(), Error> {
        self.answer("refresh").await
    }

    async fn volumes(&self, _pool: &Pool) -> Result<Vec<Volume>, Error> {
        self.answer("volumes").await?;
        Ok(Vec::new())
    }

    async fn volume(&self, pool: &Pool, name: &str) -> Result<Volume, Error> {
        self.answer("volume").await?;
        Ok(volume(&pool.name, name))
    }

    async fn create_volume(&self, pool: &Pool, _xml: &str, _flags: u32) -> Result<Volume, Error> {
        self.answer("create_volume").await?;
        Ok(volume(&pool.name, ""))
    }

    async fn delete_volume(&self, _volume: &Volume) -> Result<(), Error> {
        self.answer("delete_volume").await
    }

    async fn volume_info(&self, _volume: &Volume) -> Result<VolumeInfo, Error> {
        self.answer("volume_info").await?;
        Ok(VolumeInfo {
            kind: 0,
            capacity: 0,
            allocation: 0,
        })
    }

    async fn volume_path(&self, _volume: &Volume) -> Result<String, Error> {
        self.answer("volume_path").await?;
        Ok(String::new())
    }

    async fn volume_xml(&self, _volume: &Volume) -> Result<String, Error> {
        self.answer("volume_xml").await?;
        Ok(String::new())
    }

    async fn upload(
        &self,
        _volume: &Volume,
        _offset: u64,
        _length: u64,
        _source: Source<'_>,
    ) -> Result<u64, Error> {
        self.answer("upload").await?;
        Ok(0)
    }
}

//! The decorator through which every call of libvirt is seen: a span and a line of the log for each.
//!
//! It must not change a result. Invariants: field names are constants; documents are shown in the TRACE
//! tier alone, bytes that are uploaded and what the guest agent says in none; without an operation around
//! a call there is no span.

use std::sync::Arc;

use async_trait::async_trait;
use tracing::{Instrument as _, Span, field};

use crate::transport::libvirt::types::{
    AddressSource, Domain, DomainState, DomainStats, Interface, NodeInfo, Pool, PoolInfo, Volume, VolumeInfo,
};
use crate::transport::libvirt::upload::Source;
use crate::transport::libvirt::{Error, LibvirtApi};

/// A connection whose calls are seen.
pub(super) struct Observed {
    host: String,
    inner: Arc<dyn LibvirtApi>,
}

impl Observed {
    pub(super) fn new(host: &str, inner: Arc<dyn LibvirtApi>) -> Self {
        Self {
            host: host.to_owned(),
            inner,
        }
    }

    /// One call about `object`: a domain, a pool, a volume, or nothing in particular.
    async fn seen<T>(
        &self,
        call: &'static str,
        object: &str,
        work: impl Future<Output = Result<T, Error>> + Send,
    ) -> Result<T, Error> {
        let span = if Span::current().is_none() {
            Span::none()
        } else {
            tracing::debug_span!(
                "libvirt.call",
                call,
                host = self.host,
                object,
                code = field::Empty
            )
        };
        let begun = tokio::time::Instant::now();
        let outcome = work.instrument(span.clone()).await;
        span.in_scope(|| {
            let duration_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
            let host = self.host.as_str();
            match &outcome {
                Ok(_) => tracing::debug!(call, host, object, duration_ms, "libvirt answered"),
                Err(error) => {
                    let code = error.code().map(|code| code.0);
                    if let Some(code) = code {
                        span.record("code", code);
                    }
                    let source = std::error::Error::source(error);
                    let cause = source.map(ToString::to_string).unwrap_or_default();
                    tracing::debug!(call, host, object, duration_ms, code, failure = %error, cause, "the call failed");
                }
            }
        });
        outcome
    }

    fn shown(&self, call: &'static str, document: &str) {
        tracing::trace!(call, host = self.host, document, "what libvirt is given");
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl LibvirtApi for Observed {
    fn is_up(&self) -> bool {
        self.inner.is_up()
    }

    async fn hostname(&self) -> Result<String, Error> {
        self.seen("hostname", "", self.inner.hostname()).await
    }

    async fn library_version(&self) -> Result<u64, Error> {
        self.seen("library_version", "", self.inner.library_version())
            .await
    }

    async fn node_info(&self) -> Result<NodeInfo, Error> {
        self.seen("node_info", "", self.inner.node_info()).await
    }

    async fn free_memory(&self) -> Result<u64, Error> {
        self.seen("free_memory", "", self.inner.free_memory()).await
    }

    async fn capabilities(&self) -> Result<String, Error> {
        self.seen("capabilities", "", self.inner.capabilities()).await
    }

    async fn domain_capabilities(
        &self,
        emulator: Option<&str>,
        arch: Option<&str>,
        machine: Option<&str>,
        virt_type: Option<&str>,
    ) -> Result<String, Error> {
        let asking = self.inner.domain_capabilities(emulator, arch, machine, virt_type);
        self.seen("domain_capabilities", virt_type.unwrap_or_default(), asking)
            .await
    }

    async fn domains(&self, flags: u32) -> Result<Vec<Domain>, Error> {
        self.seen("domains", "", self.inner.domains(flags)).await
    }

    async fn domain_stats(&self, domains: &[Domain], stats: u32) -> Result<Vec<DomainStats>, Error> {
        self.seen("domain_stats", "", self.inner.domain_stats(domains, stats))
            .await
    }

    async fn domain(&self, name: &str) -> Result<Domain, Error> {
        self.seen("domain", name, self.inner.domain(name)).await
    }

    async fn define(&self, xml: &str, flags: u32) -> Result<Domain, Error> {
        self.shown("define", xml);
        self.seen("define", "", self.inner.define(xml, flags)).await
    }

    async fn define_plain(&self, xml: &str) -> Result<Domain, Error> {
        self.shown("define_plain", xml);
        self.seen("define_plain", "", self.inner.define_plain(xml)).await
    }

    async fn start(&self, domain: &Domain) -> Result<(), Error> {
        self.seen("start", &domain.name, self.inner.start(domain)).await
    }

    async fn resume(&self, domain: &Domain) -> Result<(), Error> {
        self.seen("resume", &domain.name, self.inner.resume(domain)).await
    }

    async fn wake(&self, domain: &Domain) -> Result<(), Error> {
        self.seen("wake", &domain.name, self.inner.wake(domain)).await
    }

    async fn destroy(&self, domain: &Domain) -> Result<(), Error> {
        self.seen("destroy", &domain.name, self.inner.destroy(domain))
            .await
    }

    async fn undefine(&self, domain: &Domain, flags: u32) -> Result<(), Error> {
        self.seen("undefine", &domain.name, self.inner.undefine(domain, flags))
            .await
    }

    async fn state(&self, domain: &Domain) -> Result<(DomainState, i32), Error> {
        self.seen("state", &domain.name, self.inner.state(domain)).await
    }

    async fn metadata(&self, domain: &Domain, namespace: &str) -> Result<String, Error> {
        let asking = self.inner.metadata(domain, namespace);
        self.seen("metadata", &domain.name, asking).await
    }

    async fn set_metadata(
        &self,
        domain: &Domain,
        namespace: &str,
        prefix: &str,
        element: Option<&str>,
        flags: u32,
    ) -> Result<(), Error> {
        self.shown("set_metadata", element.unwrap_or_default());
        let setting = self.inner.set_metadata(domain, namespace, prefix, element, flags);
        self.seen("set_metadata", &domain.name, setting).await
    }

    async fn domain_xml(&self, domain: &Domain, flags: u32) -> Result<String, Error> {
        let asking = self.inner.domain_xml(domain, flags);
        self.seen("domain_xml", &domain.name, asking).await
    }

    async fn addresses(&self, domain: &Domain, source: AddressSource) -> Result<Vec<Interface>, Error> {
        let call = match source {
            AddressSource::Lease => "addresses_lease",
            AddressSource::Agent => "addresses_agent",
            AddressSource::Arp => "addresses_arp",
        };
        self.seen(call, &domain.name, self.inner.addresses(domain, source))
            .await
    }

    async fn agent(&self, domain: &Domain, command: &str, seconds: i32) -> Result<Option<String>, Error> {
        let asking = self.inner.agent(domain, command, seconds);
        self.seen("agent", &domain.name, asking).await
    }

    async fn pool(&self, name: &str) -> Result<Pool, Error> {
        self.seen("pool", name, self.inner.pool(name)).await
    }

    async fn pool_info(&self, pool: &Pool) -> Result<PoolInfo, Error> {
        self.seen("pool_info", &pool.name, self.inner.pool_info(pool))
            .await
    }

    async fn refresh(&self, pool: &Pool) -> Result<(), Error> {
        self.seen("refresh", &pool.name, self.inner.refresh(pool)).await
    }

    async fn volumes(&self, pool: &Pool) -> Result<Vec<Volume>, Error> {
        self.seen("volumes", &pool.name, self.inner.volumes(pool)).await
    }

    async fn volume(&self, pool: &Pool, name: &str) -> Result<Volume, Error> {
        self.seen("volume", name, self.inner.volume(pool, name)).await
    }

    async fn create_volume(&self, pool: &Pool, xml: &str, flags: u32) -> Result<Volume, Error> {
        self.shown("create_volume", xml);
        let making = self.inner.create_volume(pool, xml, flags);
        self.seen("create_volume", &pool.name, making).await
    }

    async fn delete_volume(&self, volume: &Volume) -> Result<(), Error> {
        self.seen("delete_volume", &volume.name, self.inner.delete_volume(volume))
            .await
    }

    async fn volume_info(&self, volume: &Volume) -> Result<VolumeInfo, Error> {
        self.seen("volume_info", &volume.name, self.inner.volume_info(volume))
            .await
    }

    async fn volume_path(&self, volume: &Volume) -> Result<String, Error> {
        self.seen("volume_path", &volume.name, self.inner.volume_path(volume))
            .await
    }

    async fn volume_xml(&self, volume: &Volume) -> Result<String, Error> {
        self.seen("volume_xml", &volume.name, self.inner.volume_xml(volume))
            .await
    }

    async fn upload(
        &self,
        volume: &Volume,
        offset: u64,
        length: u64,
        source: Source<'_>,
    ) -> Result<u64, Error> {
        let sending = self.inner.upload(volume, offset, length, source);
        self.seen("upload", &volume.name, sending).await
    }
}

#[cfg(test)]
#[path = "observe/tests.rs"]
mod tests;

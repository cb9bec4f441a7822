//! The operations that backends use, as a trait, so that a fake can stand in for a libvirtd.
//!
//! It must not decide anything: one method is one call. Invariant: results are libvirtd's, unchanged.

use async_trait::async_trait;

use super::client::Client;
use super::error::Error;
use super::procedure as call;
use super::types::{
    AddressSource, Domain, DomainState, DomainStats, Interface, NodeInfo, Pool, PoolInfo, Volume, VolumeInfo,
};
use super::upload::Source;

/// `VIR_DOMAIN_METADATA_ELEMENT`.
const METADATA_ELEMENT: i32 = 2;

/// One connection to one libvirt driver.
///
/// # Behavior
/// - Calls may run side by side on one connection.
/// - Flags that have no constant in [`types`](super::types) are 0 unless a parameter says otherwise.
///
/// # Errors
/// Every method: [`Error::Remote`] with libvirtd's own code and words when it refuses;
/// [`Error::Link`] when the connection is down; [`Error::Overran`] when no answer came in time. After
/// the last two it is unknown whether the call took effect.
///
/// # Cancel safety
/// Every method: dropped, its reply is dropped and other calls go on; a dropped upload is aborted on
/// the wire.
#[async_trait]
pub trait LibvirtApi: Send + Sync {
    /// Whether the connection can still be used.
    fn is_up(&self) -> bool;
    /// The host's name.
    async fn hostname(&self) -> Result<String, Error>;
    /// libvirt's version: major × 1,000,000 + minor × 1,000 + release.
    async fn library_version(&self) -> Result<u64, Error>;
    /// CPUs and memory of the host.
    async fn node_info(&self) -> Result<NodeInfo, Error>;
    /// Free memory of the host, in bytes.
    async fn free_memory(&self) -> Result<u64, Error>;
    /// What the host can do, as XML; it holds the host's UUID.
    async fn capabilities(&self) -> Result<String, Error>;
    /// What domains of a kind can do on this host, as XML; `None` takes libvirt's default.
    async fn domain_capabilities(
        &self,
        emulator: Option<&str>,
        arch: Option<&str>,
        machine: Option<&str>,
        virt_type: Option<&str>,
    ) -> Result<String, Error>;
    /// Domains, running or not; `flags` select (`virConnectListAllDomainsFlags`), 0 all.
    async fn domains(&self, flags: u32) -> Result<Vec<Domain>, Error>;
    /// Figures of these domains, of all when there are none; `stats` are `virDomainStatsTypes`.
    async fn domain_stats(&self, domains: &[Domain], stats: u32) -> Result<Vec<DomainStats>, Error>;
    /// The domain of that name.
    async fn domain(&self, name: &str) -> Result<Domain, Error>;
    /// Defines a domain; `flags` are `virDomainDefineFlags`.
    async fn define(&self, xml: &str, flags: u32) -> Result<Domain, Error>;
    /// Defines a domain the way daemons before 1.2.12 know.
    async fn define_plain(&self, xml: &str) -> Result<Domain, Error>;
    /// Starts a defined domain.
    async fn start(&self, domain: &Domain) -> Result<(), Error>;
    /// Resumes a paused domain.
    async fn resume(&self, domain: &Domain) -> Result<(), Error>;
    /// Wakes a domain that its own power management suspended.
    async fn wake(&self, domain: &Domain) -> Result<(), Error>;
    /// Stops a domain at once.
    async fn destroy(&self, domain: &Domain) -> Result<(), Error>;
    /// Forgets a domain; `flags` are those of [`undefine`](super::types::undefine).
    async fn undefine(&self, domain: &Domain, flags: u32) -> Result<(), Error>;
    /// A domain's state and libvirt's reason for it.
    async fn state(&self, domain: &Domain) -> Result<(DomainState, i32), Error>;
    /// The element that a domain's metadata has in this XML namespace.
    async fn metadata(&self, domain: &Domain, namespace: &str) -> Result<String, Error>;
    /// Replaces that element, or removes it; `flags` are those of [`affect`](super::types::affect).
    async fn set_metadata(
        &self,
        domain: &Domain,
        namespace: &str,
        prefix: &str,
        element: Option<&str>,
        flags: u32,
    ) -> Result<(), Error>;
    /// A domain's XML; `flags` are `virDomainXMLFlags`.
    async fn domain_xml(&self, domain: &Domain, flags: u32) -> Result<String, Error>;
    /// A domain's addresses, as one source knows them.
    async fn addresses(&self, domain: &Domain, source: AddressSource) -> Result<Vec<Interface>, Error>;
    /// Sends a command to the agent in the guest, JSON in and out; it may take `seconds`.
    async fn agent(&self, domain: &Domain, command: &str, seconds: i32) -> Result<Option<String>, Error>;
    /// The pool of that name.
    async fn pool(&self, name: &str) -> Result<Pool, Error>;
    /// A pool's state and space.
    async fn pool_info(&self, pool: &Pool) -> Result<PoolInfo, Error>;
    /// Makes a pool look at its folder again.
    async fn refresh(&self, pool: &Pool) -> Result<(), Error>;
    /// A pool's volumes.
    async fn volumes(&self, pool: &Pool) -> Result<Vec<Volume>, Error>;
    /// The pool's volume of that name.
    async fn volume(&self, pool: &Pool, name: &str) -> Result<Volume, Error>;
    /// Makes a volume; `flags` are `virStorageVolCreateFlags`.
    async fn create_volume(&self, pool: &Pool, xml: &str, flags: u32) -> Result<Volume, Error>;
    /// Removes a volume.
    async fn delete_volume(&self, volume: &Volume) -> Result<(), Error>;
    /// A volume's size.
    async fn volume_info(&self, volume: &Volume) -> Result<VolumeInfo, Error>;
    /// A volume's path on the host.
    async fn volume_path(&self, volume: &Volume) -> Result<String, Error>;
    /// A volume's XML.
    async fn volume_xml(&self, volume: &Volume) -> Result<String, Error>;
    /// Writes `length` bytes of `source` into a volume from `offset` on; `length` 0 means all that
    /// `source` has. How many bytes were written comes back.
    ///
    /// # Errors
    /// [`Error::Source`] and [`Error::SourceShort`] too; the upload was aborted on the wire then.
    async fn upload(
        &self,
        volume: &Volume,
        offset: u64,
        length: u64,
        source: Source<'_>,
    ) -> Result<u64, Error>;
}

/// Asks for all that a list has, not for its length alone.
const WITH_RESULTS: i32 = 1;

#[async_trait]
impl LibvirtApi for Client {
    fn is_up(&self) -> bool {
        self.down().is_none()
    }

    async fn hostname(&self) -> Result<String, Error> {
        self.call(&call::CONNECT_GET_HOSTNAME, &()).await
    }

    async fn library_version(&self) -> Result<u64, Error> {
        self.call(&call::CONNECT_GET_LIB_VERSION, &()).await
    }

    async fn node_info(&self) -> Result<NodeInfo, Error> {
        self.call(&call::NODE_GET_INFO, &()).await
    }

    async fn free_memory(&self) -> Result<u64, Error> {
        self.call(&call::NODE_GET_FREE_MEMORY, &()).await
    }

    async fn capabilities(&self) -> Result<String, Error> {
        self.call(&call::CONNECT_GET_CAPABILITIES, &()).await
    }

    async fn domain_capabilities(
        &self,
        emulator: Option<&str>,
        arch: Option<&str>,
        machine: Option<&str>,
        virt_type: Option<&str>,
    ) -> Result<String, Error> {
        let arguments = (emulator, arch, machine, virt_type, 0_u32);
        self.call(&call::CONNECT_GET_DOMAIN_CAPABILITIES, &arguments)
            .await
    }

    async fn domains(&self, flags: u32) -> Result<Vec<Domain>, Error> {
        let (domains, _count): (_, u32) = self
            .call(&call::CONNECT_LIST_ALL_DOMAINS, &(WITH_RESULTS, flags))
            .await?;
        Ok(domains)
    }

    async fn domain_stats(&self, domains: &[Domain], stats: u32) -> Result<Vec<DomainStats>, Error> {
        self.call(&call::CONNECT_GET_ALL_DOMAIN_STATS, &(domains, stats, 0_u32))
            .await
    }

    async fn domain(&self, name: &str) -> Result<Domain, Error> {
        self.call(&call::DOMAIN_LOOKUP_BY_NAME, &(name,)).await
    }

    async fn define(&self, xml: &str, flags: u32) -> Result<Domain, Error> {
        self.call(&call::DOMAIN_DEFINE_XML_FLAGS, &(xml, flags)).await
    }

    async fn define_plain(&self, xml: &str) -> Result<Domain, Error> {
        self.call(&call::DOMAIN_DEFINE_XML, &(xml,)).await
    }

    async fn start(&self, domain: &Domain) -> Result<(), Error> {
        self.call(&call::DOMAIN_CREATE, domain).await
    }

    async fn resume(&self, domain: &Domain) -> Result<(), Error> {
        self.call(&call::DOMAIN_RESUME, domain).await
    }

    async fn wake(&self, domain: &Domain) -> Result<(), Error> {
        self.call(&call::DOMAIN_PM_WAKEUP, &(domain, 0_u32)).await
    }

    async fn destroy(&self, domain: &Domain) -> Result<(), Error> {
        self.call(&call::DOMAIN_DESTROY, domain).await
    }

    async fn undefine(&self, domain: &Domain, flags: u32) -> Result<(), Error> {
        self.call(&call::DOMAIN_UNDEFINE_FLAGS, &(domain, flags)).await
    }

    async fn state(&self, domain: &Domain) -> Result<(DomainState, i32), Error> {
        self.call(&call::DOMAIN_GET_STATE, &(domain, 0_u32)).await
    }

    async fn metadata(&self, domain: &Domain, namespace: &str) -> Result<String, Error> {
        let arguments = (domain, METADATA_ELEMENT, Some(namespace), 0_u32);
        self.call(&call::DOMAIN_GET_METADATA, &arguments).await
    }

    async fn set_metadata(
        &self,
        domain: &Domain,
        namespace: &str,
        prefix: &str,
        element: Option<&str>,
        flags: u32,
    ) -> Result<(), Error> {
        let arguments = (
            domain,
            METADATA_ELEMENT,
            element,
            Some(prefix),
            Some(namespace),
            flags,
        );
        self.call(&call::DOMAIN_SET_METADATA, &arguments).await
    }

    async fn domain_xml(&self, domain: &Domain, flags: u32) -> Result<String, Error> {
        self.call(&call::DOMAIN_GET_XML_DESC, &(domain, flags)).await
    }

    async fn addresses(&self, domain: &Domain, source: AddressSource) -> Result<Vec<Interface>, Error> {
        let arguments = (domain, source as u32, 0_u32);
        self.call(&call::DOMAIN_INTERFACE_ADDRESSES, &arguments).await
    }

    async fn agent(&self, domain: &Domain, command: &str, seconds: i32) -> Result<Option<String>, Error> {
        let arguments = (domain, command, seconds, 0_u32);
        self.call(&call::DOMAIN_AGENT_COMMAND, &arguments).await
    }

    async fn pool(&self, name: &str) -> Result<Pool, Error> {
        self.call(&call::STORAGE_POOL_LOOKUP_BY_NAME, &(name,)).await
    }

    async fn pool_info(&self, pool: &Pool) -> Result<PoolInfo, Error> {
        self.call(&call::STORAGE_POOL_GET_INFO, pool).await
    }

    async fn refresh(&self, pool: &Pool) -> Result<(), Error> {
        self.call(&call::STORAGE_POOL_REFRESH, &(pool, 0_u32)).await
    }

    async fn volumes(&self, pool: &Pool) -> Result<Vec<Volume>, Error> {
        let arguments = (pool, WITH_RESULTS, 0_u32);
        let (volumes, _count): (_, u32) = self
            .call(&call::STORAGE_POOL_LIST_ALL_VOLUMES, &arguments)
            .await?;
        Ok(volumes)
    }

    async fn volume(&self, pool: &Pool, name: &str) -> Result<Volume, Error> {
        self.call(&call::STORAGE_VOL_LOOKUP_BY_NAME, &(pool, name)).await
    }

    async fn create_volume(&self, pool: &Pool, xml: &str, flags: u32) -> Result<Volume, Error> {
        self.call(&call::STORAGE_VOL_CREATE_XML, &(pool, xml, flags))
            .await
    }

    async fn delete_volume(&self, volume: &Volume) -> Result<(), Error> {
        self.call(&call::STORAGE_VOL_DELETE, &(volume, 0_u32)).await
    }

    async fn volume_info(&self, volume: &Volume) -> Result<VolumeInfo, Error> {
        self.call(&call::STORAGE_VOL_GET_INFO, volume).await
    }

    async fn volume_path(&self, volume: &Volume) -> Result<String, Error> {
        self.call(&call::STORAGE_VOL_GET_PATH, volume).await
    }

    async fn volume_xml(&self, volume: &Volume) -> Result<String, Error> {
        self.call(&call::STORAGE_VOL_GET_XML_DESC, &(volume, 0_u32)).await
    }

    async fn upload(
        &self,
        volume: &Volume,
        offset: u64,
        length: u64,
        source: Source<'_>,
    ) -> Result<u64, Error> {
        let arguments = (volume, offset, length, 0_u32);
        self.call_with_stream(&call::STORAGE_VOL_UPLOAD, &arguments, length, source)
            .await
    }
}

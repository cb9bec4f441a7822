//! The calls of a libvirt in memory.
//!
//! It must not add anything to what libvirt does. Invariant: every call is counted before anything else.

use async_trait::async_trait;

use super::xml::{Definition, between};
use super::{FakeDomain, FakeLibvirt, FakeVolume, Telling, World};
use crate::transport::libvirt::LibvirtApi;
use crate::transport::libvirt::error::Error;
use crate::transport::libvirt::types::{
    Address, AddressSource, Domain, DomainState, DomainStats, Figure, Interface, NodeInfo, Pool, PoolInfo,
    Volume, VolumeInfo, undefine,
};
use crate::transport::libvirt::upload::Source;

use std::sync::atomic::Ordering;

/// The folder of the pool.
const POOL: &str = "/var/lib/libvirt/images";
const NO_DOMAIN: i32 = 42;
const NO_POOL: i32 = 49;
const NO_VOLUME: i32 = 50;
const INVALID: i32 = 55;

fn handle(name: &str, domain: &FakeDomain) -> Domain {
    Domain {
        name: name.to_owned(),
        uuid: domain.definition.uuid,
        id: domain.id,
    }
}

fn volume(name: &str) -> Volume {
    Volume {
        pool: "default".to_owned(),
        name: name.to_owned(),
        key: format!("{POOL}/{name}"),
    }
}

/// An address of its own for each of the hardware addresses that were made up.
fn address_of(mac: &str) -> String {
    let bytes: Vec<u8> = mac
        .split(':')
        .skip(3)
        .filter_map(|byte| u8::from_str_radix(byte, 16).ok())
        .collect();
    match bytes.as_slice() {
        [a, b, c] => format!("10.{a}.{b}.{c}"),
        _ => String::new(),
    }
}

impl World {
    fn by_handle(
        &mut self,
        procedure: &'static str,
        domain: &Domain,
    ) -> Result<(&String, &mut FakeDomain), Error> {
        // libvirt finds a domain by its UUID.
        let found = self
            .domains
            .iter_mut()
            .find(|(_, own)| own.definition.uuid == domain.uuid);
        match found {
            Some(found) => Ok(found),
            None => Self::refused(
                procedure,
                NO_DOMAIN,
                format!(
                    "Domain not found: no domain with matching uuid '{}' ({})",
                    domain.uuid, domain.name
                ),
            ),
        }
    }

    fn running_pool(&self, procedure: &'static str, name: &str) -> Result<(), Error> {
        use crate::transport::libvirt::types::PoolState;
        match self.pool {
            None => Self::refused(
                procedure,
                NO_POOL,
                format!("Storage pool not found: no storage pool with matching name '{name}'"),
            ),
            Some(PoolState::Running | PoolState::Degraded) => Ok(()),
            Some(_) => Self::refused(
                procedure,
                INVALID,
                format!("Requested operation is not valid: storage pool '{name}' is not active"),
            ),
        }
    }

    fn volume_at(&mut self, procedure: &'static str, name: &str) -> Result<&mut FakeVolume, Error> {
        match self.volumes.get_mut(name) {
            Some(found) => Ok(found),
            None => Self::refused(
                procedure,
                NO_VOLUME,
                format!("Storage volume not found: no storage vol with matching name '{name}'"),
            ),
        }
    }

    fn define(&mut self, procedure: &'static str, xml: &str) -> Result<Domain, Error> {
        let mut definition = match Definition::read(xml, &mut self.next_mac) {
            Ok(definition) => definition,
            Err(message) => return Self::refused(procedure, 27, message),
        };
        if definition.name.contains('/') {
            let message = format!("XML error: name {} cannot contain '/'", definition.name);
            return Self::refused(procedure, 27, message);
        }
        let name = definition.name.clone();
        if let Some(there) = self.domains.get(&name) {
            let own = there.definition.uuid;
            if !xml.contains(&own.to_string()) {
                let message = format!("operation failed: domain '{name}' already exists with uuid {own}");
                return Self::refused(procedure, 9, message);
            }
            definition.uuid = own;
        }
        let domain = FakeDomain {
            definition,
            state: i32::from(DomainState::Shutoff),
            why: 0,
            id: -1,
            snapshots: 0,
            readable: true,
        };
        let found = handle(&name, &domain);
        self.domains.insert(name, domain);
        Ok(found)
    }

    fn run(&mut self, procedure: &'static str, domain: &Domain) -> Result<(), Error> {
        let id = self.next_id;
        let volumes: Vec<_> = self.volumes.keys().map(|name| format!("{POOL}/{name}")).collect();
        let (name, found) = self.by_handle(procedure, domain)?;
        if found.id >= 0 {
            return Self::refused(
                procedure,
                INVALID,
                "Requested operation is not valid: domain is already running",
            );
        }
        let missing = found
            .definition
            .files()
            .into_iter()
            .find(|file| file.starts_with(POOL) && !volumes.contains(file));
        if let Some(file) = missing {
            let message = format!(
                "Cannot access storage file '{file}' (as uid:64055, gid:108): No such file or directory"
            );
            return Self::refused(procedure, 38, message);
        }
        let _ = name;
        found.id = id;
        found.state = i32::from(DomainState::Running);
        found.why = 1;
        self.next_id += 1;
        Ok(())
    }

    /// From one state to running.
    fn back(&mut self, procedure: &'static str, domain: &Domain, from: DomainState) -> Result<(), Error> {
        let (_, found) = self.by_handle(procedure, domain)?;
        if found.state != i32::from(from) {
            return Self::refused(
                procedure,
                INVALID,
                format!("Requested operation is not valid: domain is not {from:?}"),
            );
        }
        found.state = i32::from(DomainState::Running);
        Ok(())
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl LibvirtApi for FakeLibvirt {
    fn is_up(&self) -> bool {
        !self.down.load(Ordering::SeqCst)
    }

    async fn hostname(&self) -> Result<String, Error> {
        let _world = self.enter("ConnectGetHostname", "").await?;
        Ok("fake".to_owned())
    }

    async fn library_version(&self) -> Result<u64, Error> {
        let _world = self.enter("ConnectGetLibVersion", "").await?;
        Ok(9_000_000)
    }

    async fn node_info(&self) -> Result<NodeInfo, Error> {
        let world = self.enter("NodeGetInfo", "").await?;
        Ok(NodeInfo {
            model: "x86_64".to_owned(),
            memory_kib: world.memory_kib,
            cpus: 2,
            mhz: 0,
            nodes: 1,
            sockets: 1,
            cores: 2,
            threads: 1,
        })
    }

    async fn free_memory(&self) -> Result<u64, Error> {
        let world = self.enter("NodeGetFreeMemory", "").await?;
        Ok(world.free_memory)
    }

    async fn capabilities(&self) -> Result<String, Error> {
        let _world = self.enter("ConnectGetCapabilities", "").await?;
        Ok(format!(
            "<capabilities><host><uuid>{}</uuid><cpu><arch>x86_64</arch><model>EPYC</model></cpu></host></capabilities>",
            self.host.uuid()
        ))
    }

    async fn domain_capabilities(
        &self,
        _emulator: Option<&str>,
        _arch: Option<&str>,
        _machine: Option<&str>,
        virt_type: Option<&str>,
    ) -> Result<String, Error> {
        let kind = virt_type.unwrap_or("kvm");
        let _world = self.enter("ConnectGetDomainCapabilities", kind).await?;
        Ok(format!(
            "<domainCapabilities><path>/usr/bin/qemu-system-x86_64</path><domain>{kind}</domain>\
             <machine>pc-q35-7.2</machine><arch>x86_64</arch><vcpu max='288'/><os supported='yes'>\
             <enum name='firmware'><value>efi</value></enum></os>\
             <cpu><mode name='host-passthrough' supported='yes'/><mode name='maximum' supported='yes'/></cpu>\
             </domainCapabilities>"
        ))
    }

    async fn domains(&self, _flags: u32) -> Result<Vec<Domain>, Error> {
        let world = self.enter("ConnectListAllDomains", "").await?;
        Ok(world
            .domains
            .iter()
            .map(|(name, domain)| handle(name, domain))
            .collect())
    }

    async fn domain_stats(&self, _domains: &[Domain], _stats: u32) -> Result<Vec<DomainStats>, Error> {
        let world = self.enter("ConnectGetAllDomainStats", "").await?;
        Ok(world
            .domains
            .iter()
            .map(|(name, domain)| DomainStats {
                domain: handle(name, domain),
                figures: vec![
                    ("state.state".to_owned(), Figure::Int(domain.state)),
                    ("state.reason".to_owned(), Figure::Int(domain.why)),
                    (
                        "balloon.current".to_owned(),
                        Figure::UnsignedLong(domain.definition.memory_kib()),
                    ),
                ],
            })
            .collect())
    }

    async fn domain(&self, name: &str) -> Result<Domain, Error> {
        let world = self.enter("DomainLookupByName", name).await?;
        match world.domains.get(name) {
            Some(domain) => Ok(handle(name, domain)),
            None => World::refused(
                "DomainLookupByName",
                NO_DOMAIN,
                format!("Domain not found: no domain with matching name '{name}'"),
            ),
        }
    }

    async fn define(&self, xml: &str, _flags: u32) -> Result<Domain, Error> {
        let name = between(xml, "<name>", "</name>").unwrap_or_default();
        let mut world = self.enter("DomainDefineXMLFlags", name).await?;
        self.answered("DomainDefineXMLFlags", world.define("DomainDefineXMLFlags", xml))
    }

    async fn define_plain(&self, xml: &str) -> Result<Domain, Error> {
        let name = between(xml, "<name>", "</name>").unwrap_or_default();
        let mut world = self.enter("DomainDefineXML", name).await?;
        world.define("DomainDefineXML", xml)
    }

    async fn start(&self, domain: &Domain) -> Result<(), Error> {
        let mut world = self.enter("DomainCreate", &domain.name).await?;
        self.answered("DomainCreate", world.run("DomainCreate", domain))
    }

    async fn resume(&self, domain: &Domain) -> Result<(), Error> {
        let mut world = self.enter("DomainResume", &domain.name).await?;
        world.back("DomainResume", domain, DomainState::Paused)
    }

    async fn wake(&self, domain: &Domain) -> Result<(), Error> {
        let mut world = self.enter("DomainPmWakeup", &domain.name).await?;
        world.back("DomainPmWakeup", domain, DomainState::PmSuspended)
    }

    async fn destroy(&self, domain: &Domain) -> Result<(), Error> {
        let mut world = self.enter("DomainDestroy", &domain.name).await?;
        let (_, found) = world.by_handle("DomainDestroy", domain)?;
        if found.id < 0 {
            return World::refused(
                "DomainDestroy",
                INVALID,
                "Requested operation is not valid: domain is not running",
            );
        }
        found.id = -1;
        found.state = i32::from(DomainState::Shutoff);
        found.why = 2;
        self.answered("DomainDestroy", Ok(()))
    }

    async fn undefine(&self, domain: &Domain, flags: u32) -> Result<(), Error> {
        let mut world = self.enter("DomainUndefineFlags", &domain.name).await?;
        let unknown = world.unknown_undefine & flags;
        if unknown != 0 {
            return World::refused(
                "DomainUndefineFlags",
                8,
                format!("unsupported flags (0x{unknown:x}) in function fakeDomainUndefineFlags"),
            );
        }
        let knows_nvram = world.unknown_undefine & undefine::NVRAM == 0;
        let (name, found) = world.by_handle("DomainUndefineFlags", domain)?;
        if found.snapshots > 0 && flags & undefine::SNAPSHOTS_METADATA == 0 {
            let message = format!(
                "Requested operation is not valid: cannot delete inactive domain with {} snapshots",
                found.snapshots
            );
            return World::refused("DomainUndefineFlags", INVALID, message);
        }
        if found.definition.has_nvram() && flags & undefine::NVRAM == 0 && knows_nvram {
            return World::refused(
                "DomainUndefineFlags",
                INVALID,
                "Requested operation is not valid: cannot undefine domain with nvram",
            );
        }
        let name = name.clone();
        world.domains.remove(&name);
        self.answered("DomainUndefineFlags", Ok(()))
    }

    async fn state(&self, domain: &Domain) -> Result<(DomainState, i32), Error> {
        let mut world = self.enter("DomainGetState", &domain.name).await?;
        let (_, found) = world.by_handle("DomainGetState", domain)?;
        Ok((found.state.into(), found.why))
    }

    async fn metadata(&self, domain: &Domain, namespace: &str) -> Result<String, Error> {
        let mut world = self.enter("DomainGetMetadata", &domain.name).await?;
        let (_, found) = world.by_handle("DomainGetMetadata", domain)?;
        let element = found.definition.metadata.iter().find(|(own, _)| own == namespace);
        match element {
            Some((_, element)) => Ok(element.clone()),
            None => World::refused(
                "DomainGetMetadata",
                80,
                "metadata not found: Requested metadata element is not present",
            ),
        }
    }

    async fn set_metadata(
        &self,
        domain: &Domain,
        namespace: &str,
        prefix: &str,
        element: Option<&str>,
        flags: u32,
    ) -> Result<(), Error> {
        let mut world = self.enter("DomainSetMetadata", &domain.name).await?;
        let (_, found) = world.by_handle("DomainSetMetadata", domain)?;
        if flags & 1 != 0 && found.id < 0 {
            return World::refused(
                "DomainSetMetadata",
                INVALID,
                "Requested operation is not valid: domain is not running",
            );
        }
        if element.is_some_and(|element| element.contains("xmlns:")) {
            return World::refused(
                "DomainSetMetadata",
                1,
                "internal error: failed to create a new XML namespace",
            );
        }
        found.definition.set_metadata(namespace, prefix, element);
        self.answered("DomainSetMetadata", Ok(()))
    }

    async fn domain_xml(&self, domain: &Domain, _flags: u32) -> Result<String, Error> {
        let mut world = self.enter("DomainGetXMLDesc", &domain.name).await?;
        let (_, found) = world.by_handle("DomainGetXMLDesc", domain)?;
        if !found.readable {
            return World::refused(
                "DomainGetXMLDesc",
                68,
                "Timed out during operation: cannot acquire state change lock",
            );
        }
        Ok(found.definition.xml())
    }

    async fn addresses(&self, domain: &Domain, source: AddressSource) -> Result<Vec<Interface>, Error> {
        let about = format!("{} {source:?}", domain.name);
        let telling = {
            let mut world = self.enter("DomainInterfaceAddresses", &about).await?;
            let telling = world.telling(source);
            let (_, found) = world.by_handle("DomainInterfaceAddresses", domain)?;
            match telling {
                Telling::All => {
                    let hardware = found.definition.hardware().into_iter();
                    return Ok(hardware
                        .map(|mac| Interface {
                            name: "vnet0".to_owned(),
                            addresses: vec![Address {
                                kind: 0,
                                address: address_of(&mac),
                                prefix: 0,
                            }],
                            hardware: Some(mac),
                        })
                        .collect());
                }
                other => other,
            }
        };
        match telling {
            Telling::These(these) => Ok(these),
            Telling::Refuses(code, message) => World::refused("DomainInterfaceAddresses", code, message),
            Telling::Hangs | Telling::All => std::future::pending().await,
        }
    }

    async fn agent(&self, domain: &Domain, _command: &str, _seconds: i32) -> Result<Option<String>, Error> {
        let _world = self.enter("DomainAgentCommand", &domain.name).await?;
        World::refused(
            "DomainAgentCommand",
            86,
            "Guest agent is not responding: QEMU guest agent is not connected",
        )
    }

    async fn pool(&self, name: &str) -> Result<Pool, Error> {
        let world = self.enter("StoragePoolLookupByName", name).await?;
        if world.pool.is_none() || name != "default" {
            return World::refused(
                "StoragePoolLookupByName",
                NO_POOL,
                format!("Storage pool not found: no storage pool with matching name '{name}'"),
            );
        }
        Ok(Pool {
            name: name.to_owned(),
            uuid: uuid::Uuid::nil(),
        })
    }

    async fn pool_info(&self, pool: &Pool) -> Result<PoolInfo, Error> {
        let world = self.enter("StoragePoolGetInfo", &pool.name).await?;
        match world.pool {
            Some(state) => Ok(PoolInfo {
                state,
                capacity: 1 << 40,
                allocation: 0,
                available: world.available,
            }),
            None => World::refused("StoragePoolGetInfo", NO_POOL, "Storage pool not found"),
        }
    }

    async fn refresh(&self, pool: &Pool) -> Result<(), Error> {
        let world = self.enter("StoragePoolRefresh", &pool.name).await?;
        world.running_pool("StoragePoolRefresh", &pool.name)
    }

    async fn volumes(&self, pool: &Pool) -> Result<Vec<Volume>, Error> {
        let world = self.enter("StoragePoolListAllVolumes", &pool.name).await?;
        world.running_pool("StoragePoolListAllVolumes", &pool.name)?;
        Ok(world.volumes.keys().map(|name| volume(name)).collect())
    }

    async fn volume(&self, pool: &Pool, name: &str) -> Result<Volume, Error> {
        let mut world = self.enter("StorageVolLookupByName", name).await?;
        world.running_pool("StorageVolLookupByName", &pool.name)?;
        world.volume_at("StorageVolLookupByName", name)?;
        Ok(volume(name))
    }

    async fn create_volume(&self, pool: &Pool, xml: &str, _flags: u32) -> Result<Volume, Error> {
        let name = between(xml, "<name>", "</name>").unwrap_or_default();
        let mut world = self.enter("StorageVolCreateXML", name).await?;
        world.running_pool("StorageVolCreateXML", &pool.name)?;
        if world.volumes.contains_key(name) {
            let message = format!("storage volume '{name}' exists already");
            return World::refused("StorageVolCreateXML", 90, message);
        }
        let made = FakeVolume {
            xml: xml.to_owned(),
            content: Vec::new(),
        };
        world.volumes.insert(name.to_owned(), made);
        self.answered("StorageVolCreateXML", Ok(volume(name)))
    }

    async fn delete_volume(&self, volume: &Volume) -> Result<(), Error> {
        let mut world = self.enter("StorageVolDelete", &volume.name).await?;
        world.running_pool("StorageVolDelete", &volume.pool)?;
        world.volume_at("StorageVolDelete", &volume.name)?;
        world.volumes.remove(&volume.name);
        self.answered("StorageVolDelete", Ok(()))
    }

    async fn volume_info(&self, volume: &Volume) -> Result<VolumeInfo, Error> {
        let mut world = self.enter("StorageVolGetInfo", &volume.name).await?;
        let found = world.volume_at("StorageVolGetInfo", &volume.name)?;
        let capacity = between(&found.xml, "<capacity unit='bytes'>", "</capacity>");
        Ok(VolumeInfo {
            kind: 0,
            capacity: capacity.and_then(|bytes| bytes.parse().ok()).unwrap_or_default(),
            allocation: found.content.len() as u64,
        })
    }

    async fn volume_path(&self, volume: &Volume) -> Result<String, Error> {
        let mut world = self.enter("StorageVolGetPath", &volume.name).await?;
        world.volume_at("StorageVolGetPath", &volume.name)?;
        Ok(volume.key.clone())
    }

    async fn volume_xml(&self, volume: &Volume) -> Result<String, Error> {
        let mut world = self.enter("StorageVolGetXMLDesc", &volume.name).await?;
        let found = world.volume_at("StorageVolGetXMLDesc", &volume.name)?;
        Ok(found
            .xml
            .replacen("<target>", &format!("<target><path>{}</path>", volume.key), 1))
    }

    async fn upload(
        &self,
        volume: &Volume,
        offset: u64,
        length: u64,
        source: Source<'_>,
    ) -> Result<u64, Error> {
        use tokio::io::AsyncReadExt as _;
        drop(self.enter("StorageVolUpload", &volume.name).await?);
        let mut bytes = Vec::new();
        let most = if length == 0 { u64::MAX } else { length };
        source
            .take(most)
            .read_to_end(&mut bytes)
            .await
            .map_err(Error::Source)?;
        let sent = bytes.len() as u64;
        let mut world = self.host.world();
        let found = world.volume_at("StorageVolUpload", &volume.name)?;
        let at = usize::try_from(offset).unwrap_or(usize::MAX);
        found.content.resize(at.max(found.content.len()), 0);
        found.content.truncate(at);
        found.content.extend(bytes);
        if sent < length {
            return Err(Error::SourceShort {
                announced: length,
                sent,
            });
        }
        self.answered("StorageVolUpload", Ok(sent))
    }
}

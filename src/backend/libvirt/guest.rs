//! What a guest is made of: its volumes, filled, and the XML of its domain.
//!
//! It must not decide who may have a name. Invariants: a volume that is there under a new create's own name
//! was left by an attempt that was cut off, and is made anew; a disk is never made smaller than its image.

use std::io::Cursor;

use uuid::Uuid;

use super::classify;
use super::config::Host;
use super::domain_xml::DomainSpec;
use super::engine::{Engine, failed};
use super::hosts::Link;
use super::order::Order;
use super::precheck::Machine;
use super::seed::Seed;
use super::volume_xml::{self, Backing};
use super::volumes::{Part, Stem};
use crate::contract::Error;
use crate::transport::libvirt::types::{Pool, Volume};
use crate::transport::libvirt::{Code, Error as LibvirtError};

/// The paths of a guest's volumes on its host.
#[derive(Clone, Debug)]
pub(super) struct Files {
    disk: String,
    seed: String,
}

impl Engine {
    /// Makes the volumes of a guest; `accepted` is called as soon as there is one.
    pub(super) async fn furnish(
        &self,
        order: &Order<'_>,
        link: &Link,
        stem: &Stem,
        accepted: impl FnOnce(),
    ) -> Result<Files, Error> {
        let (pool, disk) = self.disk(order, link, stem).await?;
        accepted();
        let seed = self.seed(order, link, &pool, stem).await?;
        let path = async |volume: &Volume| {
            let path = link.api.volume_path(volume).await;
            path.map_err(|error| failed(order.host, error))
        };
        Ok(Files {
            disk: path(&disk).await?,
            seed: path(&seed).await?,
        })
    }

    /// Makes those volumes of a domain that is off which are missing.
    pub(super) async fn restore(&self, order: &Order<'_>, link: &Link, stem: &Stem) -> Result<(), Error> {
        let pool = link.api.pool(&order.host.pool).await;
        let pool = pool.map_err(|error| failed(order.host, error))?;
        for part in Part::ALL {
            match link.api.volume(&pool, &stem.volume(part)).await {
                Ok(_) => continue,
                Err(error) if classify::says(&error, Code::NO_STORAGE_VOL) => {}
                Err(error) => return Err(failed(order.host, error)),
            }
            match part {
                Part::Disk => drop(self.disk(order, link, stem).await?),
                Part::Seed => drop(self.seed(order, link, &pool, stem).await?),
            }
        }
        Ok(())
    }

    /// The disk, on top of its image.
    async fn disk(&self, order: &Order<'_>, link: &Link, stem: &Stem) -> Result<(Pool, Volume), Error> {
        let host = order.host;
        let (pool, available) = self.usable_pool(host, link).await?;
        self.has_room(host, link, &order.machine_type, order.disk, available)
            .await?;
        let api = std::sync::Arc::clone(&link.api);
        let base = self
            .images
            .ensure(host.name.as_str(), api, self.apart(host), &pool, &order.image)
            .await?;
        let backing = Backing {
            path: &base.path,
            format: base.format,
        };
        let bytes = order.disk.max(base.virtual_size);
        let name = stem.volume(Part::Disk);
        let xml = volume_xml::overlay(&name, bytes, &backing);
        let disk = self.anew(host, link, &pool, &name, &xml).await?;
        Ok((pool, disk))
    }

    /// The seed, filled.
    async fn seed(&self, order: &Order<'_>, link: &Link, pool: &Pool, stem: &Stem) -> Result<Volume, Error> {
        let seed = Seed {
            instance_id: Uuid::new_v4(),
            hostname: order.request.key.name.as_str(),
            user_data: &order.user_data,
            vendor_data: order.vendor_data.as_ref(),
            network_config: None,
        };
        let image = seed
            .image()
            .map_err(|unfit| Error::permanent(unfit.to_string()))?;
        let length = image.len() as u64;
        let name = stem.volume(Part::Seed);
        let volume = self
            .anew(order.host, link, pool, &name, &volume_xml::raw(&name, length))
            .await?;
        let mut source = Cursor::new(image);
        link.api
            .upload(&volume, 0, length, &mut source)
            .await
            .map_err(|error| failed(order.host, error).with("volume", name))?;
        Ok(volume)
    }

    /// Makes a volume, in place of one of its name.
    async fn anew(
        &self,
        host: &Host,
        link: &Link,
        pool: &Pool,
        name: &str,
        xml: &str,
    ) -> Result<Volume, Error> {
        let failed = |error: LibvirtError| failed(host, error).with("volume", name);
        match link.api.create_volume(pool, xml, 0).await {
            Err(error) if classify::says(&error, Code::STORAGE_VOL_EXIST) => {}
            made => return made.map_err(failed),
        }
        let left = link.api.volume(pool, name).await.map_err(failed)?;
        link.api.delete_volume(&left).await.map_err(failed)?;
        link.api.create_volume(pool, xml, 0).await.map_err(failed)
    }

    /// Removes the volumes of a stem from that pool; those that are gone are no failure.
    pub(super) async fn remove_volumes(
        &self,
        host: &Host,
        link: &Link,
        pool: &str,
        stem: &Stem,
    ) -> Result<(), Error> {
        let pool = match link.api.pool(pool).await {
            Ok(pool) => pool,
            // Where the pool is gone, so is what was in it.
            Err(error) if classify::says(&error, Code::NO_STORAGE_POOL) => return Ok(()),
            Err(error) => return Err(failed(host, error)),
        };
        for part in Part::ALL {
            let name = stem.volume(part);
            let removed = match link.api.volume(&pool, &name).await {
                Ok(volume) => link.api.delete_volume(&volume).await,
                Err(error) => Err(error),
            };
            match removed {
                Err(error) if !classify::says(&error, Code::NO_STORAGE_VOL) => {
                    return Err(failed(host, error).with("volume", name));
                }
                Ok(()) | Err(_) => {}
            }
        }
        Ok(())
    }

    /// The XML to define a domain with.
    pub(super) fn domain_xml(
        &self,
        order: &Order<'_>,
        machine: &Machine,
        files: &Files,
        metadata: &str,
    ) -> String {
        DomainSpec {
            name: order.place.domain(),
            description: "An egress proxy of terraform-provider-egress.",
            metadata,
            vcpus: order.machine_type.vcpus,
            memory_mib: order.machine_type.memory_mib,
            domain_type: machine.domain_type,
            arch: &machine.guests.arch,
            machine: Some(&machine.guests.machine),
            emulator: Some(&machine.guests.emulator),
            firmware: order.image.firmware,
            disk_path: &files.disk,
            seed_path: &files.seed,
            network: &order.host.network,
        }
        .build()
    }
}

//! What calls take and give: handles, states, figures.
//!
//! It must not know which call uses what. Invariant: numbers that libvirt may add to are kept, never
//! an error.

use uuid::Uuid;

use super::xdr::{Characters, Decode, Decoder, Encode, Encoder, Malformed};

macro_rules! wire {
    ($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        pub struct $name { $($(#[$field_doc])* pub $field: $type,)* }

        impl Encode for $name {
            fn encode(&self, to: &mut Encoder) {
                $(to.put(&self.$field);)*
            }
        }

        impl Decode for $name {
            const LEAST: usize = 0 $(+ <$type>::LEAST)*;

            fn decode(from: &mut Decoder<'_>) -> Result<Self, Malformed> {
                Ok(Self { $($field: from.get()?,)* })
            }
        }
    };
}

wire! {
    /// A domain as libvirt hands it around.
    Domain {
        /// Its name.
        name: String,
        /// Its UUID.
        uuid: Uuid,
        /// The number it runs under, or -1.
        id: i32,
    }
}

wire! {
    /// A storage pool.
    Pool {
        /// Its name.
        name: String,
        /// Its UUID.
        uuid: Uuid,
    }
}

wire! {
    /// A network; it appears in errors only.
    Network {
        /// Its name.
        name: String,
        /// Its UUID.
        uuid: Uuid,
    }
}

wire! {
    /// A storage volume.
    Volume {
        /// Its pool's name.
        pool: String,
        /// Its name.
        name: String,
        /// What identifies it on the host; in a folder pool, its path.
        key: String,
    }
}

wire! {
    /// A pool's state and space.
    PoolInfo {
        /// Its state.
        state: PoolState,
        /// Bytes in all.
        capacity: u64,
        /// Bytes used.
        allocation: u64,
        /// Bytes free.
        available: u64,
    }
}

wire! {
    /// A volume's size.
    VolumeInfo {
        /// 0 a file, 1 a block device, 2 a folder.
        kind: i32,
        /// Bytes as the guest sees it.
        capacity: u64,
        /// Bytes on the host.
        allocation: u64,
    }
}

wire! {
    /// An address of an interface.
    Address {
        /// 0 IPv4, 1 IPv6.
        kind: i32,
        /// The address.
        address: String,
        /// The length of its prefix.
        prefix: u32,
    }
}

wire! {
    /// An interface of a domain with its addresses.
    Interface {
        /// Its name, on the host or in the guest, depending on the source.
        name: String,
        /// Its hardware address.
        hardware: Option<String>,
        /// Its addresses.
        addresses: Vec<Address>,
    }
}

impl Encode for Vec<Address> {
    fn encode(&self, to: &mut Encoder) {
        to.put(self.as_slice());
    }
}

/// What the host is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeInfo {
    /// The CPU's architecture.
    pub model: String,
    /// KiB of memory.
    pub memory_kib: u64,
    /// Active CPUs.
    pub cpus: i32,
    /// Their speed, 0 when unknown.
    pub mhz: i32,
    /// NUMA nodes.
    pub nodes: i32,
    /// Sockets in a node.
    pub sockets: i32,
    /// Cores in a socket.
    pub cores: i32,
    /// Threads in a core.
    pub threads: i32,
}

impl Decode for NodeInfo {
    const LEAST: usize = 4 * 32 + 8 + 6 * 4;

    fn decode(from: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let Characters(model) = from.get::<Characters<32>>()?;
        Ok(Self {
            model,
            memory_kib: from.get()?,
            cpus: from.get()?,
            mhz: from.get()?,
            nodes: from.get()?,
            sockets: from.get()?,
            cores: from.get()?,
            threads: from.get()?,
        })
    }
}

macro_rules! states {
    ($(#[$doc:meta])* $name:ident { $($(#[$state_doc:meta])* $state:ident = $number:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$state_doc])* $state,)*
            /// One that came later.
            Other(i32),
        }

        impl From<i32> for $name {
            fn from(number: i32) -> Self {
                match number {
                    $($number => Self::$state,)*
                    other => Self::Other(other),
                }
            }
        }

        impl From<$name> for i32 {
            fn from(state: $name) -> Self {
                match state {
                    $($name::$state => $number,)*
                    $name::Other(number) => number,
                }
            }
        }

        impl Encode for $name {
            fn encode(&self, to: &mut Encoder) {
                to.put(&i32::from(*self));
            }
        }

        impl Decode for $name {
            const LEAST: usize = 4;

            fn decode(from: &mut Decoder<'_>) -> Result<Self, Malformed> {
                Ok(from.get::<i32>()?.into())
            }
        }
    };
}

states! {
    /// A domain's state, `virDomainState`.
    DomainState {
        /// No state.
        None = 0,
        /// It runs.
        Running = 1,
        /// It waits for a resource; it runs, too.
        Blocked = 2,
        /// Paused by somebody.
        Paused = 3,
        /// On its way to shutoff.
        Shutdown = 4,
        /// Off.
        Shutoff = 5,
        /// Off, and not by choice.
        Crashed = 6,
        /// Suspended by its own power management.
        PmSuspended = 7,
    }
}

states! {
    /// A pool's state, `virStoragePoolState`.
    PoolState {
        /// Not active.
        Inactive = 0,
        /// Being built.
        Building = 1,
        /// As it should be.
        Running = 2,
        /// It works, not wholly.
        Degraded = 3,
        /// It is active and cannot be reached.
        Inaccessible = 4,
    }
}

/// Where addresses of a domain are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum AddressSource {
    /// The leases of libvirt's own DHCP servers.
    Lease = 0,
    /// The agent in the guest.
    Agent = 1,
    /// The host's ARP table.
    Arp = 2,
}

/// A figure of a domain.
#[derive(Clone, Debug, PartialEq)]
pub enum Figure {
    /// `int`.
    Int(i32),
    /// `unsigned int`.
    UnsignedInt(u32),
    /// `long long`.
    Long(i64),
    /// `unsigned long long`.
    UnsignedLong(u64),
    /// `double`.
    Double(f64),
    /// `boolean`.
    Boolean(bool),
    /// Text.
    Text(String),
}

impl Decode for Figure {
    const LEAST: usize = 8;

    fn decode(from: &mut Decoder<'_>) -> Result<Self, Malformed> {
        Ok(match from.get::<u32>()? {
            1 => Self::Int(from.get()?),
            2 => Self::UnsignedInt(from.get()?),
            3 => Self::Long(from.get()?),
            4 => Self::UnsignedLong(from.get()?),
            5 => Self::Double(from.get()?),
            6 => Self::Boolean(from.get::<i32>()? != 0),
            7 => Self::Text(from.get()?),
            value => {
                return Err(Malformed::Choice {
                    what: "a figure's type",
                    value,
                });
            }
        })
    }
}

/// A domain and its figures, each with its name.
#[derive(Clone, Debug, PartialEq)]
pub struct DomainStats {
    /// The domain.
    pub domain: Domain,
    /// For example `state.state` or `balloon.current`.
    pub figures: Vec<(String, Figure)>,
}

impl Decode for DomainStats {
    const LEAST: usize = Domain::LEAST + 4;

    fn decode(from: &mut Decoder<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            domain: from.get()?,
            figures: from.get()?,
        })
    }
}

/// What goes with a domain that is undefined, `virDomainUndefineFlagsValues`.
pub mod undefine {
    /// Its managed save image.
    pub const MANAGED_SAVE: u32 = 1;
    /// libvirt's notes on its snapshots.
    pub const SNAPSHOTS_METADATA: u32 = 2;
    /// Its UEFI variables.
    pub const NVRAM: u32 = 4;
    /// libvirt's notes on its checkpoints.
    pub const CHECKPOINTS_METADATA: u32 = 16;
    /// Its TPM's state.
    pub const TPM: u32 = 32;
}

/// Which of a domain's two configurations a change is for, `virDomainModificationImpact`.
pub mod affect {
    /// What runs.
    pub const LIVE: u32 = 1;
    /// What is defined.
    pub const CONFIG: u32 = 2;
}

/// Holes of an upload are told, not sent; only where the server knows it.
pub const UPLOAD_SPARSE: u32 = 1;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::xdr::whole;
    use super::*;

    #[test]
    fn a_domain_as_libvirtd_sends_it() {
        let mut bytes = b"\0\0\0\x04test".to_vec();
        bytes.extend([0x66; 16]);
        bytes.extend([0xff; 4]);
        let domain: Domain = whole(&bytes).expect("decodes");
        assert_eq!(
            (domain.name.as_str(), domain.uuid.as_bytes(), domain.id),
            ("test", &[0x66; 16], -1)
        );
        let mut again = Encoder::new();
        again.put(&domain);
        assert_eq!(again.finish(), bytes);
    }

    #[test]
    fn figures_of_every_type() {
        let mut encoder = Encoder::new();
        encoder.put(&7_u32);
        for number in 1..=7_u32 {
            encoder.put("f").put(&number);
            match number {
                1 | 2 | 6 => encoder.put(&1_u32),
                7 => encoder.put("t"),
                5 => encoder.put(&0.5_f64),
                _ => encoder.put(&1_u64),
            };
        }
        let bytes = encoder.finish();
        let figures: Vec<(String, Figure)> = whole(&bytes).expect("decodes");
        let found: Vec<Figure> = figures.into_iter().map(|(_, figure)| figure).collect();
        assert_eq!(
            found,
            [
                Figure::Int(1),
                Figure::UnsignedInt(1),
                Figure::Long(1),
                Figure::UnsignedLong(1),
                Figure::Double(0.5),
                Figure::Boolean(true),
                Figure::Text("t".into())
            ]
        );
        assert!(matches!(
            whole::<Figure>(&[0, 0, 0, 8, 0, 0, 0, 0]),
            Err(Malformed::Choice { value: 8, .. })
        ));
    }

    #[test]
    fn states_that_came_later_are_kept() {
        for number in -1..12 {
            assert_eq!(i32::from(DomainState::from(number)), number);
            assert_eq!(i32::from(PoolState::from(number)), number);
        }
        assert_eq!(DomainState::from(7), DomainState::PmSuspended);
        assert_eq!(DomainState::from(8), DomainState::Other(8));
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = whole::<Vec<DomainStats>>(&bytes);
            let _ = whole::<Vec<Interface>>(&bytes);
            let _ = whole::<NodeInfo>(&bytes);
            let _ = whole::<PoolInfo>(&bytes);
            let _ = whole::<Vec<Volume>>(&bytes);
        }
    }
}

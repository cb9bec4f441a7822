//! The procedures we call: their numbers, and how long each may take.
//!
//! It must not know arguments or results. Invariant: the numbers are libvirt's, which promises never
//! to change them.

use super::packet::Program;

/// How long a procedure may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pace {
    /// It looks something up.
    Quick,
    /// It starts processes, probes emulators or touches disks.
    Slow,
}

/// One procedure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Procedure {
    /// Its interface.
    pub program: Program,
    /// Its number there.
    pub number: i32,
    /// Its name in libvirt.
    pub name: &'static str,
    /// How long it may take.
    pub pace: Pace,
}

macro_rules! procedures {
    ($($(#[$doc:meta])* $name:ident = $program:ident $number:literal $wire:literal $pace:ident;)*) => {
        $($(#[$doc])* pub const $name: Procedure = Procedure {
            program: Program::$program,
            number: $number,
            name: $wire,
            pace: Pace::$pace,
        };)*
    };
}

procedures! {
    /// Which ways to authenticate there are.
    AUTH_LIST = Remote 66 "AuthList" Quick;
    /// Authenticates by polkit.
    AUTH_POLKIT = Remote 70 "AuthPolkit" Quick;
    /// Opens a driver.
    CONNECT_OPEN = Remote 1 "ConnectOpen" Slow;
    /// Closes it.
    CONNECT_CLOSE = Remote 2 "ConnectClose" Quick;
    /// Whether the server has a feature.
    CONNECT_SUPPORTS_FEATURE = Remote 60 "ConnectSupportsFeature" Quick;
    /// The host's name.
    CONNECT_GET_HOSTNAME = Remote 59 "ConnectGetHostname" Quick;
    /// libvirt's version.
    CONNECT_GET_LIB_VERSION = Remote 157 "ConnectGetLibVersion" Quick;
    /// What the host is.
    NODE_GET_INFO = Remote 6 "NodeGetInfo" Quick;
    /// Its free memory.
    NODE_GET_FREE_MEMORY = Remote 102 "NodeGetFreeMemory" Quick;
    /// What it can do.
    CONNECT_GET_CAPABILITIES = Remote 7 "ConnectGetCapabilities" Slow;
    /// What domains on it can do.
    CONNECT_GET_DOMAIN_CAPABILITIES = Remote 342 "ConnectGetDomainCapabilities" Slow;
    /// All domains.
    CONNECT_LIST_ALL_DOMAINS = Remote 273 "ConnectListAllDomains" Quick;
    /// Figures of domains.
    CONNECT_GET_ALL_DOMAIN_STATS = Remote 344 "ConnectGetAllDomainStats" Slow;
    /// A domain by name.
    DOMAIN_LOOKUP_BY_NAME = Remote 23 "DomainLookupByName" Quick;
    /// Defines a domain, with flags.
    DOMAIN_DEFINE_XML_FLAGS = Remote 350 "DomainDefineXMLFlags" Slow;
    /// Defines a domain.
    DOMAIN_DEFINE_XML = Remote 11 "DomainDefineXML" Slow;
    /// Starts it.
    DOMAIN_CREATE = Remote 9 "DomainCreate" Slow;
    /// Resumes it.
    DOMAIN_RESUME = Remote 28 "DomainResume" Quick;
    /// Wakes it.
    DOMAIN_PM_WAKEUP = Remote 267 "DomainPmWakeup" Quick;
    /// Stops it at once.
    DOMAIN_DESTROY = Remote 12 "DomainDestroy" Slow;
    /// Forgets it.
    DOMAIN_UNDEFINE_FLAGS = Remote 231 "DomainUndefineFlags" Slow;
    /// Its state.
    DOMAIN_GET_STATE = Remote 212 "DomainGetState" Quick;
    /// Its metadata.
    DOMAIN_GET_METADATA = Remote 265 "DomainGetMetadata" Quick;
    /// Changes its metadata.
    DOMAIN_SET_METADATA = Remote 264 "DomainSetMetadata" Quick;
    /// Its XML.
    DOMAIN_GET_XML_DESC = Remote 14 "DomainGetXMLDesc" Quick;
    /// Its addresses.
    DOMAIN_INTERFACE_ADDRESSES = Remote 353 "DomainInterfaceAddresses" Quick;
    /// A pool by name.
    STORAGE_POOL_LOOKUP_BY_NAME = Remote 84 "StoragePoolLookupByName" Quick;
    /// Its state and space.
    STORAGE_POOL_GET_INFO = Remote 87 "StoragePoolGetInfo" Quick;
    /// Looks at its folder again.
    STORAGE_POOL_REFRESH = Remote 83 "StoragePoolRefresh" Slow;
    /// Its volumes.
    STORAGE_POOL_LIST_ALL_VOLUMES = Remote 282 "StoragePoolListAllVolumes" Quick;
    /// A volume by name.
    STORAGE_VOL_LOOKUP_BY_NAME = Remote 95 "StorageVolLookupByName" Quick;
    /// Makes a volume.
    STORAGE_VOL_CREATE_XML = Remote 93 "StorageVolCreateXML" Slow;
    /// Removes it.
    STORAGE_VOL_DELETE = Remote 94 "StorageVolDelete" Slow;
    /// Its size.
    STORAGE_VOL_GET_INFO = Remote 98 "StorageVolGetInfo" Quick;
    /// Its path on the host.
    STORAGE_VOL_GET_PATH = Remote 100 "StorageVolGetPath" Quick;
    /// Its XML.
    STORAGE_VOL_GET_XML_DESC = Remote 99 "StorageVolGetXMLDesc" Quick;
    /// Writes its contents.
    STORAGE_VOL_UPLOAD = Remote 208 "StorageVolUpload" Slow;
    /// Asks the agent in the guest.
    DOMAIN_AGENT_COMMAND = Qemu 3 "DomainAgentCommand" Slow;
}

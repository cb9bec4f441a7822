//! The schema of `egress_proxy`, and the names of its attributes.
//!
//! Must not know what they do. Invariant: small, with short descriptions, because core encodes it
//! anew for every resource; blocks for everything that a person writes, because core drops the
//! unknown keys of a nested attribute silently.

use crate::contract::{Fact, State};
use crate::plugin::diagnostics::Path;
use crate::plugin::schema::{Attribute, Block, IdentityAttribute, IdentitySchema, NestedBlock, Schema};
use crate::plugin::types::Type;
use crate::terraform::timeouts;

pub(super) const ID: &str = "id";
pub(super) const NAME: &str = "name";
pub(super) const NAMESPACE: &str = "namespace";
pub(super) const BACKEND: &str = "backend";
pub(super) const PORT: &str = "port";
pub(super) const PLACEMENT: &str = "placement";
pub(super) const ZONE: &str = "zone";
pub(super) const REGION: &str = "region";
pub(super) const MACHINE_TYPE: &str = "machine_type";
pub(super) const IMAGE: &str = "image";
pub(super) const SPOT: &str = "spot";
pub(super) const ACCESS: &str = "access";
pub(super) const ALLOWED_CIDRS: &str = "allowed_cidrs";
pub(super) const ALLOWED_PORTS: &str = "allowed_ports";
pub(super) const ALLOWED_DOMAINS: &str = "allowed_domains";
pub(super) const USERNAME: &str = "username";
pub(super) const PASSWORD_WO: &str = "password_wo";
pub(super) const PASSWORD_WO_VERSION: &str = "password_wo_version";
pub(super) const PASSWORD_HASH: &str = "password_hash";
pub(super) const CLOUD_INIT: &str = "cloud_init";
pub(super) const CLOUD_INIT_WO: &str = "cloud_init_wo";
pub(super) const CLOUD_INIT_WO_VERSION: &str = "cloud_init_wo_version";
pub(super) const LABELS: &str = "labels";
pub(super) const WAIT_FOR: &str = "wait_for";
pub(super) const TIMEOUTS: &str = "timeouts";
pub(super) const UID: &str = "uid";
pub(super) const INCARNATION: &str = "incarnation";
pub(super) const TARGET: &str = "target";
pub(super) const STATE: &str = "state";
pub(super) const IP: &str = "ip";
pub(super) const EGRESS_IP: &str = "egress_ip";
pub(super) const PROXY_URL: &str = "proxy_url";
pub(super) const CREATED_AT: &str = "created_at";
pub(super) const SPEC_SHA256: &str = "spec_sha256";
/// The backend's own id, in the identity.
pub(super) const KEY: &str = "key";

/// What changes while an instance runs.
pub(super) const LIVE: [&str; 4] = [STATE, IP, EGRESS_IP, PROXY_URL];
/// What a new instance has anew.
pub(super) const BORN_WITH: [&str; 6] = [ID, UID, INCARNATION, TARGET, CREATED_AT, SPEC_SHA256];

/// The schema of the resource.
pub(super) fn schema() -> Schema {
    let states = [
        State::Provisioning,
        State::Running,
        State::Stopped,
        State::Terminated,
    ]
    .map(|state| format!("`{state}`"))
    .join(", ");
    Schema::new(
        Block::new()
            .describe("A Squid forward proxy.")
            .attributes([
                Attribute::string(NAME).required().describe("Its name. Replaces."),
                Attribute::string(NAMESPACE)
                    .optional_computed()
                    .describe("Its namespace. Default `default`, or the backend's. Replaces."),
                Attribute::string(BACKEND)
                    .optional_computed()
                    .describe("The configured backend. Default: the only one. Replaces."),
                Attribute::number(PORT)
                    .optional_computed()
                    .describe("The port it listens on. Default `3128`. Replaces."),
                Attribute::string(CLOUD_INIT)
                    .sensitive()
                    .describe("A cloud-init document instead of the built-in one. Replaces."),
                Attribute::string(CLOUD_INIT_WO)
                    .sensitive()
                    .write_only()
                    .describe("The same, in no state. Needs `cloud_init_wo_version`."),
                Attribute::string(CLOUD_INIT_WO_VERSION)
                    .describe("Change it when `cloud_init_wo` changes. Replaces."),
                Attribute::map(LABELS, Type::String).describe("Labels of one's own."),
                Attribute::string(WAIT_FOR).optional_computed().describe(
                    "How far create waits: `none`, `running`, `address` (default) or `ready` (serves).",
                ),
                Attribute::string(ID)
                    .computed()
                    .describe("`<backend>/<the backend's own id>`; imports take it."),
                Attribute::string(UID)
                    .computed()
                    .describe("Follows from installation, name and specification."),
                Attribute::string(INCARNATION)
                    .computed()
                    .describe("New with every create."),
                Attribute::string(TARGET)
                    .computed()
                    .describe("What stands behind the backend's name."),
                Attribute::string(STATE)
                    .computed()
                    .describe(format!("One of {states}.")),
                Attribute::string(IP)
                    .computed()
                    .describe("The address clients use."),
                Attribute::string(EGRESS_IP)
                    .computed()
                    .describe("The address the world sees; null where it cannot be known."),
                Attribute::string(PROXY_URL)
                    .computed()
                    .describe("`http://ip:port`, without credentials."),
                Attribute::string(CREATED_AT)
                    .computed()
                    .describe("When it was created."),
                Attribute::string(SPEC_SHA256)
                    .computed()
                    .describe("Hash of what can only be set at create."),
            ])
            .block(NestedBlock::single(
                PLACEMENT,
                Block::new()
                    .describe("Where it runs, and on what. Replaces.")
                    .attributes([
                        Attribute::string(ZONE).describe("Zone or host. May be left out where there is one."),
                        Attribute::string(REGION).describe("Region."),
                        Attribute::string(MACHINE_TYPE).describe("Machine type."),
                        Attribute::string(IMAGE).describe("Image."),
                        Attribute::bool(SPOT).describe("Whether it may be preempted."),
                    ]),
            ))
            .block(NestedBlock::single(
                ACCESS,
                Block::new()
                    .describe("Who may use it, and for what. Replaces.")
                    .attributes([
                        Attribute::list(ALLOWED_CIDRS, Type::String).describe(
                            "The clients' networks. Default on `local`: loopback; required on `kubernetes`.",
                        ),
                        Attribute::list(ALLOWED_PORTS, Type::Number)
                            .describe("Ports of CONNECT and, beside 80, of plain HTTP. Default `[443]`."),
                        Attribute::list(ALLOWED_DOMAINS, Type::String)
                            .describe("Destinations; `.example.com` includes subdomains. Default: any."),
                        Attribute::string(USERNAME).describe("The user of basic authentication."),
                        Attribute::string(PASSWORD_WO)
                            .sensitive()
                            .write_only()
                            .describe("Its password, in no state. Needs `password_wo_version`."),
                        Attribute::string(PASSWORD_WO_VERSION)
                            .describe("Change it when `password_wo` changes."),
                        Attribute::string(PASSWORD_HASH)
                            .sensitive()
                            .describe("crypt(3) hash of the password, kept in the state."),
                    ]),
            ))
            .block(NestedBlock::single(TIMEOUTS, timeouts::block())),
    )
}

/// What tells one proxy from all others.
pub(super) fn identity() -> IdentitySchema {
    IdentitySchema::new([
        IdentityAttribute::required(BACKEND, Type::String, "The configured backend."),
        IdentityAttribute::required(
            KEY,
            Type::String,
            "The backend's own id: what `id` has after its first slash.",
        ),
    ])
}

/// Where a fact is written.
pub(super) fn path_of(fact: Fact) -> Path {
    fact.as_str()
        .split('.')
        .fold(Path::root(), |path, name| path.attribute(name))
}

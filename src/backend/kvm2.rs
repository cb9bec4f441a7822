//! The backend `kvm2`: the libvirt engine that asks the agent in the guest for addresses first.
//!
//! It is policy and nothing else. Invariant: whatever it shares with `kvm` is in the engine, so that
//! the two read as a diff of the profile table.

use super::libvirt::policy::{Policy, Reasons, SizeUnit};
use crate::contract::profile::{
    Adoption, AsyncOps, BackendTest, ChildSpans, ClientKind, CreateReturn, CreatedAt, Credentials,
    DeleteReturn, EgressIp, GcMark, IpSource, ListPartial, Logging, NotFoundBy, PrimaryKey,
    ProvisioningState, Quota, ReachableFrom, Readiness, SecondaryResources, Timeouts,
};
use crate::contract::{HealthReason, Profile, State};
use crate::transport::libvirt::types::AddressSource;

/// What `kvm2` does its own way.
pub const POLICY: Policy = Policy {
    kind: "kvm2",
    namespace: "urn:egress-proxy:kvm2:1",
    prefix: "egress-kvm2",
    volumes: "egress-kvm2",
    addresses: [AddressSource::Agent, AddressSource::Arp, AddressSource::Lease],
    reasons: Reasons {
        credentials: HealthReason::CredentialsUnavailable,
        refused: HealthReason::Unauthorized,
        handshake: HealthReason::Unreachable,
        socket: HealthReason::Unreachable,
        denied: HealthReason::Forbidden,
        libvirt: HealthReason::ApiError,
    },
    sizes: SizeUnit::Gib,
};

/// The answers of the backend `kvm2`.
pub const PROFILE: Profile = Profile {
    kind: POLICY.kind,
    states: &[
        State::Provisioning,
        State::Running,
        State::Stopped,
        // Only what belonged to it is left.
        State::Terminated,
    ],
    readiness: Readiness::ProvisioningWindow,
    create_return: CreateReturn::Blocking,
    delete_return: DeleteReturn::Waits,
    ip_source: IpSource::Discovered,
    gc_mark: GcMark::WrittenMetadata,
    created_at: CreatedAt::WrittenAtCreate,
    list_partial: ListPartial::NamesParts,
    quota: Quota::Detected,
    not_found: NotFoundBy::ErrorCode,
    primary_key: PrimaryKey::NameWithUidGuard,
    provisioning_state: ProvisioningState::CreateBlocks,
    async_ops: AsyncOps::None,
    secondary_resources: SecondaryResources::Explicit,
    credentials: Credentials::ReadPerDial,
    client_kind: ClientKind::RpcOverSsh,
    timeouts: Timeouts::PerCall,
    logging: Logging::Tiered,
    child_spans: ChildSpans::SpanDecorator,
    backend_test: BackendTest::Real,
    adoption: Adoption::Guarded,
    egress_ip: EgressIp::HostRoute,
    reachable_from: ReachableFrom::HostLan,
};

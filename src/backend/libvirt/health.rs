//! Check: whether proxies could be made on each host.
//!
//! It must not write, nor use a connection that others use. Invariants: hosts are asked side by side, and
//! one that is silent holds up no other's report; a report says how far the check got.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::join_all;

use super::config::{Host, LibvirtConfig};
use super::hosts::{Facts, Hosts};
use super::policy::{Policy, Reasons, SizeUnit};
use crate::contract::{HealthReason, TargetHealth};
use crate::transport::call::within;
use crate::transport::libvirt::types::PoolState;
use crate::transport::libvirt::{Code, Error};

/// What the check of one host may take; it is asked by somebody who waits.
const BUDGET: Duration = Duration::from_secs(60);
/// Where libvirt's daemons are modular, the one for QEMU passes on to this one what is about storage.
const STORAGE_DAEMON: &str = "virtstoraged";
const GIB: f64 = (1_u64 << 30) as f64;

type Details = BTreeMap<String, String>;

/// Why a host is not healthy, and what a person is told.
struct Ill {
    reason: HealthReason,
    message: String,
}

/// One report for each host.
pub async fn check(policy: &Policy, config: &LibvirtConfig, hosts: &Hosts) -> Vec<TargetHealth> {
    join_all(
        config
            .hosts()
            .values()
            .map(|host| report(policy, config, hosts, host)),
    )
    .await
}

async fn report(policy: &Policy, config: &LibvirtConfig, hosts: &Hosts, host: &Host) -> TargetHealth {
    let begun = tokio::time::Instant::now();
    let mut details = Details::from([
        ("address".to_owned(), format!("{}:{}", host.address, host.port)),
        ("user".to_owned(), host.user.clone()),
        ("pool".to_owned(), host.pool.clone()),
    ]);
    if config.ssh().is_insecure() {
        details.insert("hostKey".to_owned(), "not verified".to_owned());
    }
    let examining = examine(policy, hosts, host, &mut details);
    let outcome = within(BUDGET, format!("the check of host {}", host.name), examining)
        .await
        .unwrap_or_else(|overran| {
            Err(Ill {
                reason: HealthReason::Timeout,
                message: overran.to_string(),
            })
        });
    let (reason, message) = match outcome {
        Ok(()) => (
            HealthReason::Healthy,
            format!("proxies can be made in the pool {}", host.pool),
        ),
        Err(ill) => (ill.reason, ill.message),
    };
    TargetHealth {
        target: host.name.to_string(),
        reason,
        message,
        latency: begun.elapsed(),
        details,
    }
}

async fn examine(policy: &Policy, hosts: &Hosts, host: &Host, details: &mut Details) -> Result<(), Ill> {
    let link = hosts.try_fresh(host).await.map_err(|failure| Ill {
        reason: failure.reason(&policy.reasons),
        message: failure.text(),
    })?;
    let api = &link.api;
    let ill = |error| unanswered(error, &policy.reasons);
    let version = api.library_version().await.map_err(ill)?;
    let (major, minor, release) = (version / 1_000_000, version / 1000 % 1000, version % 1000);
    details.insert("libvirtVersion".to_owned(), format!("{major}.{minor}.{release}"));
    details.insert("hostname".to_owned(), api.hostname().await.map_err(ill)?);
    match link.facts().await {
        Ok(facts) => details.insert("uuid".to_owned(), facts.uuid.to_string()),
        Err(Facts::Unanswered(error)) => return Err(ill(error)),
        Err(unread @ Facts::Unread) => {
            return Err(Ill {
                reason: policy.reasons.libvirt,
                message: unread.to_string(),
            });
        }
    };
    let pool = api.pool(&host.pool).await.map_err(|error| match error.code() {
        Some(Code::NO_STORAGE_POOL) => Ill {
            reason: HealthReason::PoolNotFound,
            message: format!(
                "there is no storage pool \"{}\"; define one, or name another in pool (of {} they are listed by: virsh \
                 -c {} pool-list --all)",
                host.pool, host.uri, host.uri
            ),
        },
        Some(_) | None => ill(error),
    })?;
    let info = api.pool_info(&pool).await.map_err(ill)?;
    details.insert("poolState".to_owned(), pool_state(info.state));
    let (capacity, available) = (info.capacity, info.available);
    match policy.sizes {
        SizeUnit::Bytes => {
            details.insert("poolCapacity".to_owned(), capacity.to_string());
            details.insert("poolAvailable".to_owned(), available.to_string());
        }
        SizeUnit::Gib => {
            details.insert("poolCapacityGiB".to_owned(), gib(capacity));
            details.insert("poolAvailableGiB".to_owned(), gib(available));
        }
    }
    match info.state {
        PoolState::Running | PoolState::Degraded => Ok(()),
        PoolState::Inactive | PoolState::Building | PoolState::Inaccessible | PoolState::Other(_) => {
            Err(Ill {
                reason: HealthReason::PoolNotActive,
                message: format!(
                    "the storage pool \"{}\" is {}; start it with: virsh -c {} pool-start {}",
                    host.pool,
                    pool_state(info.state),
                    host.uri,
                    host.pool
                ),
            })
        }
    }
}

fn unanswered(error: Error, reasons: &Reasons) -> Ill {
    let reason = match &error {
        Error::Overran(_) => HealthReason::Timeout,
        Error::Link { .. } => HealthReason::Unreachable,
        Error::Remote { error, .. } => match error.code {
            Code::ACCESS_DENIED | Code::AUTH_FAILED | Code::AUTH_CANCELLED | Code::OPERATION_DENIED => {
                reasons.denied
            }
            _ => reasons.libvirt,
        },
        Error::Authentication(_) => reasons.denied,
        Error::Reply { .. } | Error::Request { .. } | Error::Source(_) | Error::SourceShort { .. } => {
            reasons.libvirt
        }
    };
    let mut message = match std::error::Error::source(&error) {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    };
    if message.contains(STORAGE_DAEMON) {
        message = format!("{message}; start it with: systemctl enable --now {STORAGE_DAEMON}.socket");
    }
    Ill { reason, message }
}

fn pool_state(state: PoolState) -> String {
    match state {
        PoolState::Inactive => "inactive".to_owned(),
        PoolState::Building => "being built".to_owned(),
        PoolState::Running => "running".to_owned(),
        PoolState::Degraded => "degraded".to_owned(),
        PoolState::Inaccessible => "inaccessible".to_owned(),
        PoolState::Other(number) => format!("in state {number}"),
    }
}

fn gib(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / GIB)
}

#[cfg(test)]
#[path = "health/tests.rs"]
mod tests;

//! How far a check gets, and how it tells reasons apart under each policy.

use std::sync::Arc;

use super::super::config::tests::{configured, given_host};
use super::super::connect::Failure;
use super::super::hosts::Dialled;
use super::super::testing::{Fault, Stub, StubDialer, dialled};
use super::*;
use crate::backend::{kvm, kvm2};
use crate::transport::libvirt::types::PoolInfo;
use crate::transport::ssh::{Cause, DialError};

async fn checked(
    policy: &Policy,
    outcome: impl Fn() -> Result<Dialled, Failure> + Send + 'static,
) -> TargetHealth {
    let config = configured(|_| ());
    let hosts = Hosts::new(StubDialer::new(1, move || Some(outcome())));
    let mut reports = check(policy, &config, &hosts).await;
    assert_eq!(reports.len(), 1);
    reports.remove(0)
}

async fn of_stub(policy: &Policy, stub: Stub) -> TargetHealth {
    let stub = Arc::new(stub);
    checked(policy, move || Ok(dialled(Arc::clone(&stub)))).await
}

fn keys(report: &TargetHealth) -> Vec<&str> {
    report.details.keys().map(String::as_str).collect()
}

#[tokio::test]
async fn a_host_that_has_all_is_healthy_in_its_policys_units() {
    let report = of_stub(&kvm2::POLICY, Stub::default()).await;
    assert_eq!(report.reason, HealthReason::Healthy, "{report:?}");
    assert_eq!(report.target, "beelink");
    let shown = |report: &TargetHealth, key: &str| report.details.get(key).cloned().unwrap_or_default();
    assert_eq!(shown(&report, "libvirtVersion"), "9.0.0");
    assert_eq!(shown(&report, "poolCapacityGiB"), "100.0");
    assert_eq!(shown(&report, "poolAvailableGiB"), "25.0");
    assert_eq!(
        keys(&report),
        [
            "address",
            "hostname",
            "libvirtVersion",
            "pool",
            "poolAvailableGiB",
            "poolCapacityGiB",
            "poolState",
            "user",
            "uuid"
        ]
    );
    let report = of_stub(&kvm::POLICY, Stub::default()).await;
    assert_eq!(shown(&report, "poolCapacity"), (100_u64 << 30).to_string());
    assert_eq!(shown(&report, "poolAvailable"), (25_u64 << 30).to_string());
}

#[tokio::test]
async fn details_go_as_far_as_the_check_got() {
    let missing = Stub::failing("pool", Fault::Refused(Code::NO_STORAGE_POOL, "none of that name"));
    let report = of_stub(&kvm2::POLICY, missing).await;
    assert_eq!(report.reason, HealthReason::PoolNotFound);
    assert!(report.message.contains("\"default\""), "{}", report.message);
    assert_eq!(
        keys(&report),
        ["address", "hostname", "libvirtVersion", "pool", "user", "uuid"]
    );
    let report = checked(&kvm2::POLICY, || {
        Err(Failure::Ssh(Box::new(DialError {
            hop: "root@h:22".to_owned(),
            cause: Cause::NoIdentity,
        })))
    })
    .await;
    assert_eq!(report.reason, HealthReason::CredentialsUnavailable);
    assert_eq!(keys(&report), ["address", "pool", "user"]);
}

#[tokio::test]
async fn a_pool_that_is_off_is_not_active() {
    for (state, reason) in [
        (PoolState::Inactive, HealthReason::PoolNotActive),
        (PoolState::Building, HealthReason::PoolNotActive),
        (PoolState::Inaccessible, HealthReason::PoolNotActive),
        (PoolState::Other(9), HealthReason::PoolNotActive),
        (PoolState::Degraded, HealthReason::Healthy),
    ] {
        let sound = Stub::default();
        let stub = Stub {
            pool: PoolInfo {
                state,
                ..sound.pool.clone()
            },
            ..sound
        };
        let report = of_stub(&kvm::POLICY, stub).await;
        assert_eq!(report.reason, reason, "{state:?}");
        assert!(report.details.contains_key("poolCapacity"));
    }
}

#[tokio::test]
async fn reasons_are_the_policys() {
    let denied = || Stub::failing("pool", Fault::Refused(Code::ACCESS_DENIED, "no"));
    let broken = || Stub::failing("hostname", Fault::Refused(Code::INTERNAL_ERROR, "no"));
    for (policy, denial, breakage) in [
        (
            &kvm::POLICY,
            HealthReason::LibvirtError,
            HealthReason::LibvirtError,
        ),
        (&kvm2::POLICY, HealthReason::Forbidden, HealthReason::ApiError),
    ] {
        assert_eq!(of_stub(policy, denied()).await.reason, denial);
        let report = of_stub(policy, broken()).await;
        assert_eq!(report.reason, breakage);
        assert!(report.message.ends_with(": no"), "{}", report.message);
    }
}

#[tokio::test]
async fn a_daemon_for_storage_that_is_not_there_is_named() {
    let absent = Fault::Refused(
        Code::SYSTEM_ERROR,
        "Failed to connect socket to '/var/run/libvirt/virtstoraged-sock': No such file or directory",
    );
    let report = of_stub(&kvm2::POLICY, Stub::failing("pool", absent)).await;
    assert_eq!(report.reason, HealthReason::ApiError);
    assert!(
        report
            .message
            .contains("systemctl enable --now virtstoraged.socket"),
        "{}",
        report.message
    );
}

#[tokio::test(start_paused = true)]
async fn a_silent_host_holds_up_no_other() {
    let config = configured(|given| {
        given.hosts.insert("silent".to_owned(), given_host("10.0.0.6"));
    });
    let silent = Stub::failing("pool_info", Fault::Hangs);
    let mut stubs = vec![silent, Stub::default()];
    let hosts = Hosts::new(StubDialer::new(2, move || {
        Some(Ok(dialled(Arc::new(stubs.pop().expect("two dials")))))
    }));
    let begun = tokio::time::Instant::now();
    let reports = check(&kvm2::POLICY, &config, &hosts).await;
    assert_eq!(begun.elapsed(), BUDGET);
    assert_eq!(reports[0].reason, HealthReason::Healthy);
    assert_eq!(reports[0].latency, Duration::ZERO);
    assert_eq!(reports[1].reason, HealthReason::Timeout);
    assert!(reports[1].details.contains_key("uuid"));
}

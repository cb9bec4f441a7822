//! The backend `local` with the real Squid: from create to delete, and what may happen in between.

#[path = "local/rig.rs"]
mod rig;

use egress::contract::{Backend as _, Deleted, ErrorKind, Facts, HealthReason, ListFilter, Readiness, State};
use rig::Rig;

#[tokio::test]
#[ignore = "needs squid"]
async fn a_proxy_lives_from_create_to_delete() {
    let rig = Rig::new();
    let health = rig.backend.check().await;
    assert_eq!(health[0].reason, HealthReason::Healthy, "{health:?}");
    assert!(health[0].details["squid_version"].starts_with(|c: char| c.is_ascii_digit()));

    let proxy = rig.proxy("a", Facts::default()).await;
    assert_eq!(
        (proxy.state, proxy.started, proxy.mark.pending),
        (State::Running, true, false)
    );
    assert_eq!(proxy.ip.map(|ip| ip.to_string()).as_deref(), Some("127.0.0.1"));

    let found = rig.get(&proxy).await.expect("there");
    assert_eq!(found.instance, proxy);
    assert_eq!(found.readiness, Some(Readiness::Ready));
    let filter = ListFilter {
        installation: rig.installation.clone(),
        namespace: None,
    };
    let listing = rig.backend.list_by_tag(&filter).await.expect("listed");
    assert_eq!(listing.instances, std::slice::from_ref(&proxy));
    assert!(listing.unreadable.is_empty() && listing.secondary.is_empty());

    assert_eq!(rig.delete(&proxy).await.expect("deleted"), Deleted::Gone);
    assert_eq!(
        rig.get(&proxy).await.expect_err("gone").kind(),
        ErrorKind::NotFound
    );
    assert_eq!(rig.delete(&proxy).await.expect("still gone"), Deleted::Gone);
    let listing = rig.backend.list_by_tag(&filter).await.expect("listed");
    assert!(listing.instances.is_empty());
}

//! How connections are shared, and what becomes of those that wait when one fails or goes away.

use std::sync::atomic::Ordering;

use futures_util::future::{join_all, poll_immediate};

use super::super::config::tests::configured;
use super::super::testing::{CAPABILITIES, Fault, Stub, StubDialer, dialled};
use super::*;
use crate::contract::ErrorKind;
use crate::transport::call::Overran;
use crate::transport::libvirt::Code;

fn beelink() -> Host {
    configured(|_| ()).host("beelink").expect("there").clone()
}

fn outage() -> Failure {
    Failure::Overran(Overran {
        call: "dialling".to_owned(),
        budget: std::time::Duration::from_secs(1),
    })
}

#[tokio::test]
async fn ten_that_wait_are_one_dial() {
    let dialer = StubDialer::new(0, || Some(Ok(dialled(Arc::default()))));
    let hosts = Hosts::new(dialer.clone());
    let host = beelink();
    let waiting = join_all((0..10).map(|_| hosts.pooled(&host)));
    let opening = async {
        tokio::task::yield_now().await;
        dialer.open.add_permits(10);
    };
    let (links, ()) = tokio::join!(waiting, opening);
    assert!(links.iter().all(Result::is_ok));
    assert_eq!(dialer.dials(), 1);
    hosts.pooled(&host).await.expect("the same one");
    assert_eq!(dialer.dials(), 1);
}

#[tokio::test]
async fn who_leaves_disturbs_nobody() {
    let dialer = StubDialer::new(0, || Some(Ok(dialled(Arc::default()))));
    let hosts = Hosts::new(dialer.clone());
    let host = beelink();
    let mut first = Box::pin(hosts.pooled(&host));
    let mut second = Box::pin(hosts.pooled(&host));
    assert!(poll_immediate(&mut first).await.is_none());
    assert!(poll_immediate(&mut second).await.is_none());
    // The one that began the dial goes.
    drop(first);
    dialer.open.add_permits(1);
    second.await.expect("a connection");
    assert_eq!(dialer.dials(), 1);
}

#[tokio::test]
async fn a_dial_that_nobody_waits_for_ends() {
    let dialer = StubDialer::new(0, || Some(Ok(dialled(Arc::default()))));
    let hosts = Hosts::new(dialer.clone());
    let host = beelink();
    {
        let mut only = Box::pin(hosts.pooled(&host));
        assert!(poll_immediate(&mut only).await.is_none());
    }
    dialer.open.add_permits(1);
    hosts.pooled(&host).await.expect("a connection");
    assert_eq!(dialer.dials(), 2, "the first one was given up, not left behind");
}

#[tokio::test]
async fn a_failure_reaches_all_that_wait_and_the_next_dials_again() {
    let mut outcomes = vec![Some(Ok(dialled(Arc::default()))), Some(Err(outage()))];
    let dialer = StubDialer::new(0, move || outcomes.pop().expect("two dials"));
    let hosts = Hosts::new(dialer.clone());
    let host = beelink();
    let waiting = join_all((0..5).map(|_| hosts.pooled(&host)));
    let opening = async {
        tokio::task::yield_now().await;
        dialer.open.add_permits(2);
    };
    let (links, ()) = tokio::join!(waiting, opening);
    for link in links {
        let error = link.expect_err("an outage");
        assert_eq!(error.kind(), ErrorKind::Transient);
        assert_eq!(error.target(), Some("beelink"));
    }
    assert_eq!(dialer.dials(), 1);
    hosts.pooled(&host).await.expect("a connection");
    assert_eq!(dialer.dials(), 2);
}

#[tokio::test]
async fn a_connection_that_is_down_is_dialled_again() {
    let stubs: Vec<Arc<Stub>> = (0..2).map(|_| Arc::default()).collect();
    let mut left = stubs.clone();
    let dialer = StubDialer::new(2, move || Some(Ok(dialled(left.remove(0)))));
    let hosts = Hosts::new(dialer.clone());
    let host = beelink();
    let first = hosts.pooled(&host).await.expect("a connection");
    stubs[0].down.store(true, Ordering::Relaxed);
    assert!(!first.api.is_up());
    assert!(hosts.pooled(&host).await.expect("another").api.is_up());
    assert_eq!(dialer.dials(), 2);
}

#[tokio::test]
async fn a_connection_of_ones_own_is_nobody_elses() {
    let dialer = StubDialer::new(3, || Some(Ok(dialled(Arc::default()))));
    let hosts = Hosts::new(dialer.clone());
    let host = beelink();
    let pooled = hosts.pooled(&host).await.expect("a connection");
    let own = hosts.fresh(&host).await.expect("another");
    assert!(!Arc::ptr_eq(&pooled.api, &own.api));
    let again = hosts.pooled(&host).await.expect("the first");
    assert!(Arc::ptr_eq(&pooled.api, &again.api));
    assert_eq!(dialer.dials(), 2);
}

#[tokio::test]
async fn what_a_host_is_is_asked_once_and_again_after_a_failure() {
    let host = beelink();
    let link = Link::new(&host, dialled(Arc::default()));
    let uuid = link.facts().await.expect("facts").uuid;
    assert!(CAPABILITIES.contains(&uuid.to_string()));
    let refusing = Stub::failing("capabilities", Fault::Refused(Code::INTERNAL_ERROR, "no"));
    let link = Link::new(&host, dialled(Arc::new(refusing)));
    for _ in 0..2 {
        assert!(matches!(link.facts().await, Err(Facts::Unanswered(_))));
    }
}

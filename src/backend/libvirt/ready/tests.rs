//! From where a proxy's port is tried.

use std::sync::Arc;

use tokio::net::TcpListener;

use super::super::config::tests::configured;
use super::super::hosts::{Dialled, Hosts};
use super::super::testing::{Ports, Stub, StubDialer};
use super::*;
use crate::transport::ssh::error::Place;

async fn link(answer: impl Fn(Place) -> Result<(), ChannelError> + Send + Sync + 'static) -> Link {
    let answer = Arc::new(answer);
    let dialer = StubDialer::new(1, move || {
        let answer = Arc::clone(&answer);
        Some(Ok(Dialled {
            api: Arc::new(Stub::default()),
            reach: Arc::new(Ports(move |address: &str, port| {
                answer(Place::Port(address.to_owned(), port))
            })),
        }))
    });
    let config = configured(|_| ());
    let host = config.host("beelink").expect("there");
    Hosts::new(dialer).pooled(host).await.expect("a connection")
}

fn not_ready(readiness: Readiness) -> String {
    match readiness {
        Readiness::NotReady(why) => why,
        Readiness::Ready => panic!("nothing answers there"),
    }
}

#[tokio::test]
async fn the_host_is_asked_first() {
    let guest = "192.168.122.7".parse().expect("an address");
    let link_to_ready = link(|place| {
        assert_eq!(place, Place::Port("192.168.122.7".to_owned(), 3128));
        Ok(())
    })
    .await;
    assert_eq!(probe(&link_to_ready, guest, 3128).await, Readiness::Ready);
    let silent = link(|place| Err(ChannelError::ConnectFailed { place })).await;
    let why = not_ready(probe(&silent, guest, 3128).await);
    assert!(
        why.starts_with("192.168.122.7:3128 was tried from the host: "),
        "{why}"
    );
}

#[tokio::test]
async fn where_the_host_forbids_it_the_port_is_dialled_from_here() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let place = listener.local_addr().expect("an address");
    let forbidding = link(|place| Err(ChannelError::Prohibited { place })).await;
    assert_eq!(
        probe(&forbidding, place.ip(), place.port()).await,
        Readiness::Ready
    );
    drop(listener);
    let why = not_ready(probe(&forbidding, place.ip(), place.port()).await);
    assert!(why.contains("tried from here"), "{why}");
}

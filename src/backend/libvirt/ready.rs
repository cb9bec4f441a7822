//! Whether a proxy serves: whether its port answers.
//!
//! It must not know proxies' states. Invariant: the host is asked first, since it has a way to its guests
//! that this machine need not have; only where its SSH server forbids that is the port dialled from here.

use std::net::IpAddr;
use std::time::Duration;

use tokio::net::TcpStream;

use super::hosts::Link;
use crate::contract::Readiness;
use crate::transport::call::within;
use crate::transport::ssh::ChannelError;

/// What a connection from here may take.
const FROM_HERE: Duration = Duration::from_secs(5);

/// Whether the port answers; where not, what was tried and what came back.
pub async fn probe(link: &Link, address: IpAddr, port: u16) -> Readiness {
    let place = std::net::SocketAddr::new(address, port);
    match link.reach.reach(&address.to_string(), port).await {
        Ok(()) => Readiness::Ready,
        Err(ChannelError::Prohibited { .. } | ChannelError::Unknown { .. }) => from_here(place).await,
        Err(error) => Readiness::NotReady(format!("{place} was tried from the host: {error}")),
    }
}

async fn from_here(place: std::net::SocketAddr) -> Readiness {
    let why_from_here = "from here, since the host's SSH server does not allow to try it from there";
    match within(FROM_HERE, place, TcpStream::connect(place)).await {
        Ok(Ok(_connection)) => Readiness::Ready,
        Ok(Err(error)) => Readiness::NotReady(format!("{place} was tried {why_from_here}: {error}")),
        Err(overran) => Readiness::NotReady(format!("{place} was tried {why_from_here}: {overran}")),
    }
}

#[cfg(test)]
#[path = "ready/tests.rs"]
mod tests;

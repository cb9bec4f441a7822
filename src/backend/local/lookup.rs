//! Get and list: what is there, without changing it.
//!
//! It must not lock: a record is read whole or not at all. Invariant: absence is concluded last, and
//! only from the directory that the state recorded.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::machine::{Machine, liveness};
use super::place::Place;
use super::store::{self, Entry};
use super::{classify, process, seam};
use crate::contract::{
    Error, Found, GetRequest, Instance, ListFilter, Listing, Readiness, State, Unreadable, refusal,
};

/// How long a proxy may take to answer on its own machine.
const PROBE_BUDGET: Duration = Duration::from_secs(5);
/// What a proxy is asked: nothing that it would fetch. Whoever may not use it gets an answer as well.
const QUESTION: &[u8] = b"OPTIONS * HTTP/1.0\r\n\r\n";
/// How every answer begins.
const ANSWER: &[u8] = b"HTTP/1.";

impl Machine {
    pub(super) async fn find(&self, request: &GetRequest) -> Result<Found, Error> {
        let place = self.place(&request.id)?;
        let full = self.full(&request.id);
        let target = self.target();
        let absent = |error| request.absent(error, &full, &target);
        let machine = self.clone();
        let looked_at = place.clone();
        let found = seam::disk("read record", move || {
            Ok(match store::look(&looked_at)? {
                Entry::Absent => Seen::Absent(orphan(&looked_at)?),
                Entry::Unmarked => Seen::Unmarked,
                Entry::Marked(record) => {
                    let liveness = liveness(&looked_at, record.process.as_ref())?;
                    Seen::Marked(Box::new(machine.instance(&looked_at, &record, liveness)?))
                }
            })
        })
        .await?;
        let instance = match found {
            Seen::Absent(None) => return absent(refusal::absent(&full)),
            Seen::Absent(Some(pid)) => {
                return absent(
                    Error::not_found(format!(
                        "\"{full}\" does not exist: its directory {} was removed. Its Squid still runs as process {pid}, until it is created again or stopped by hand.",
                        place.dir().display()
                    ))
                    .noteworthy(),
                );
            }
            Seen::Unmarked => return Err(refusal::unmarked(&full)),
            Seen::Marked(instance) => *instance,
        };
        request.holds(&instance.mark, &full, &target)?;
        let readiness = if request.probe {
            Some(probe(&instance).await)
        } else {
            None
        };
        Ok(Found {
            instance,
            readiness,
            warnings: Vec::new(),
        })
    }

    pub(super) async fn list(&self, filter: &ListFilter) -> Result<Listing, Error> {
        let (machine, filter) = (self.clone(), filter.clone());
        seam::disk("list directories", move || machine.list_all(&filter)).await
    }

    fn list_all(&self, filter: &ListFilter) -> Result<Listing, Error> {
        let mut listing = Listing::default();
        let (listed, closed) = store::list(self.state_dir(), filter.namespace.as_ref())?;
        for store::Listed { place, entry } in listed {
            let instance = entry.and_then(|entry| match entry {
                Entry::Marked(record) if record.mark.key.installation == filter.installation => {
                    let liveness = liveness(&place, record.process.as_ref())?;
                    self.instance(&place, &record, liveness).map(Some)
                }
                // Others' proxies, what is no proxy, and what went away since the directory was read.
                Entry::Marked(_) | Entry::Unmarked | Entry::Absent => Ok(None),
            });
            match instance {
                Ok(instance) => listing.instances.extend(instance),
                Err(error) => listing.unreadable.push(Unreadable {
                    scope: format!("proxy {}", place.id()),
                    prefix: place.id().to_string(),
                    error,
                }),
            }
        }
        listing
            .unreadable
            .extend(closed.into_iter().map(|closed| Unreadable {
                scope: format!("namespace {}", closed.namespace),
                prefix: format!("{}/", closed.namespace),
                error: closed.error,
            }));
        Ok(listing)
    }
}

/// What a look at a proxy's place saw.
enum Seen {
    /// Nothing, or only the process of what somebody removed.
    Absent(Option<u32>),
    Unmarked,
    Marked(Box<Instance>),
}

/// A Squid whose directory is gone.
fn orphan(place: &Place) -> Result<Option<u32>, Error> {
    let alive = process::alive(&place.conf(), &place.passwords())
        .map_err(|error| classify::process(error, "read the process table"))?;
    Ok(alive.squids.first().map(|squid| squid.pid))
}

/// Whether the proxy answers; what else the port may be connected to, its own process has it.
async fn probe(instance: &Instance) -> Readiness {
    let (Some(ip), Some(port)) = (instance.ip, instance.mark.facts.port) else {
        let reason = instance
            .reason
            .as_deref()
            .unwrap_or(State::as_str(instance.state));
        return Readiness::NotReady(reason.to_owned());
    };
    let address = SocketAddr::new(ip, port);
    match seam::remote(
        "probe",
        PROBE_BUDGET,
        format!("the proxy at {address}"),
        ask(address),
    )
    .await
    {
        Ok(Ok(())) => Readiness::Ready,
        Ok(Err(error)) => Readiness::NotReady(format!("{address}: {error}")),
        Err(error) => Readiness::NotReady(error.to_string()),
    }
}

async fn ask(address: SocketAddr) -> io::Result<()> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(QUESTION).await?;
    let mut start = [0; ANSWER.len()];
    stream.read_exact(&mut start).await?;
    if start == ANSWER {
        Ok(())
    } else {
        Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "what answers there does not speak HTTP",
        ))
    }
}

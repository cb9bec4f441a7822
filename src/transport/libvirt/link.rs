//! The link to a libvirtd: one task reads, one writes, and replies find their callers by serial.
//!
//! It must not know arguments or results. Invariant: packets are written whole or the link is down;
//! once it is down every caller is told why, those that come later too. A caller that goes away
//! leaves its serial reserved until the reply came, so that no reply finds the wrong caller.

use std::collections::HashMap;
use std::fmt;
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::error::{Error, LinkDown, RemoteError};
use super::packet::{self, Kind, Packet, Program, Status, TooLarge, Unread};
use super::procedure::Procedure;
use super::writer::{self, Outgoing, PING, Urgent, header};
use super::xdr::{Malformed, whole};
use crate::transport::call::{Task, within};

/// How many packets may wait for the writer: enough to keep it busy, few enough that a call does not
/// wait long behind an upload.
const QUEUE: usize = 8;

/// A running link. Dropping it closes the stream under it.
pub struct Link {
    shared: Arc<Shared>,
    queue: mpsc::Sender<Outgoing>,
    _reader: Task<()>,
    _writer: Task<()>,
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("down", &self.down()).finish()
    }
}

/// Why a caller has no reply.
pub(super) enum Failure {
    Remote(RemoteError),
    Malformed(Malformed),
    Down(LinkDown),
}

impl Failure {
    pub(super) fn of(self, procedure: &Procedure) -> Error {
        let procedure = procedure.name;
        match self {
            Self::Remote(error) => Error::Remote { procedure, error },
            Self::Malformed(malformed) => Error::Reply { procedure, malformed },
            Self::Down(down) => Error::Link { procedure, down },
        }
    }
}

type Answer<T> = oneshot::Sender<Result<T, Failure>>;

/// Who waits under a serial.
struct Waiter {
    procedure: Procedure,
    /// Taken when the reply came.
    reply: Option<Answer<Vec<u8>>>,
    /// For an upload: told of the stream's end.
    end: Option<Answer<()>>,
}

enum Table {
    Up {
        last: u32,
        waiters: HashMap<u32, Waiter>,
    },
    Down(LinkDown),
}

struct Shared {
    table: Mutex<Table>,
    urgent: Urgent,
    heard: Notify,
    dead: CancellationToken,
}

impl Link {
    /// Starts to read from and write to `stream`. The link is down when nothing could be written for
    /// `stall`.
    pub fn start(stream: impl AsyncRead + AsyncWrite + Send + 'static, stall: Duration) -> Self {
        let (from, to) = tokio::io::split(stream);
        let (queue, packets) = mpsc::channel(QUEUE);
        let shared = Arc::new(Shared {
            table: Mutex::new(Table::Up {
                last: 0,
                waiters: HashMap::new(),
            }),
            urgent: Urgent::default(),
            heard: Notify::new(),
            dead: CancellationToken::new(),
        });
        let reading = until_dead(Arc::clone(&shared), {
            let shared = Arc::clone(&shared);
            async move { shared.read_from(from).await }
        });
        let writing = until_dead(Arc::clone(&shared), {
            let shared = Arc::clone(&shared);
            async move { writer::write_all(to, packets, &shared.urgent, stall).await }
        });
        Self {
            shared,
            queue,
            _reader: Task::apart(reading),
            _writer: Task::apart(writing),
        }
    }

    /// Why the link is down, if it is.
    #[must_use]
    pub fn down(&self) -> Option<LinkDown> {
        match &*self.shared.table() {
            Table::Up { .. } => None,
            Table::Down(down) => Some(down.clone()),
        }
    }

    /// Takes the link down for everybody.
    pub fn shut(&self) {
        self.shared.die(LinkDown::Shut);
    }

    /// Calls a procedure and waits for its reply, however long that takes.
    ///
    /// # Errors
    /// See [`Error`].
    ///
    /// # Cancel safety
    /// Dropped before the call is queued, nothing is sent; dropped later, the reply is dropped when
    /// it comes. Nobody else notices.
    pub async fn call(&self, procedure: &Procedure, arguments: &[u8]) -> Result<Vec<u8>, Error> {
        let (_serial, reply, _end) = self.begin(procedure, arguments, false).await?;
        received(reply.await, procedure)
    }

    /// Sends a call; the reply comes later.
    pub(super) async fn begin(
        &self,
        procedure: &Procedure,
        arguments: &[u8],
        upload: bool,
    ) -> Result<Begun, Error> {
        let permit = self.room(procedure).await?;
        // From here on nothing is awaited: the call is registered and queued, or neither.
        let (answer, reply) = oneshot::channel();
        let (ended, end) = oneshot::channel();
        let waiter = Waiter {
            procedure: *procedure,
            reply: Some(answer),
            end: upload.then_some(ended),
        };
        let serial = self
            .shared
            .register(waiter)
            .map_err(|down| Failure::Down(down).of(procedure))?;
        let header = header(procedure, Kind::Call, serial, Status::Ok);
        match packet::frame(&header, arguments) {
            Ok(bytes) => permit.send(Outgoing { bytes, wanted: None }),
            Err(too_large) => {
                self.shared.forget(serial);
                return Err(unsendable(procedure, too_large));
            }
        }
        Ok((serial, reply, end))
    }

    /// Queues a packet of a stream.
    pub(super) async fn send(
        &self,
        procedure: &Procedure,
        bytes: Vec<u8>,
        wanted: &Arc<AtomicBool>,
    ) -> Result<(), Error> {
        let permit = self.room(procedure).await?;
        permit.send(Outgoing {
            bytes,
            wanted: Some(Arc::clone(wanted)),
        });
        Ok(())
    }

    async fn room(&self, procedure: &Procedure) -> Result<mpsc::Permit<'_, Outgoing>, Error> {
        let down = || Failure::Down(self.down().unwrap_or(LinkDown::Closed)).of(procedure);
        tokio::select! {
            biased;
            () = self.shared.dead.cancelled() => Err(down()),
            permit = self.queue.reserve() => permit.map_err(|_closed| down()),
        }
    }

    /// Aborts an upload on the wire; what of it is queued is not written any more.
    pub(super) fn abort(&self, procedure: &Procedure, serial: u32, wanted: &AtomicBool) {
        wanted.store(false, Ordering::Release);
        self.shared.forget(serial);
        self.shared.urgent.abort(procedure, serial);
    }

    /// Pings whenever nothing was heard for `every`, and takes the link down when `times` of those
    /// pings in a row were followed by silence.
    pub(super) fn keep_alive(&self, every: Duration, times: u32) -> Task<()> {
        let shared = Arc::clone(&self.shared);
        Task::apart(until_dead(Arc::clone(&self.shared), async move {
            let mut silent = 0;
            loop {
                match within(every, "libvirtd", shared.heard.notified()).await {
                    Ok(()) => silent = 0,
                    Err(_overran) if silent == times => return LinkDown::Silent,
                    Err(_overran) => {
                        silent += 1;
                        shared.urgent.ping();
                    }
                }
            }
        }))
    }
}

/// A serial, its reply and, for an upload, its end.
pub(super) type Begun = (
    u32,
    oneshot::Receiver<Result<Vec<u8>, Failure>>,
    oneshot::Receiver<Result<(), Failure>>,
);

/// What a caller was told.
pub(super) fn received<T>(
    told: Result<Result<T, Failure>, oneshot::error::RecvError>,
    procedure: &Procedure,
) -> Result<T, Error> {
    told.unwrap_or(Err(Failure::Down(LinkDown::Closed)))
        .map_err(|failure| failure.of(procedure))
}

pub(super) fn unsendable(procedure: &Procedure, too_large: TooLarge) -> Error {
    Error::Request {
        procedure: procedure.name,
        too_large,
    }
}

/// Runs `work` until the link is down; what ends `work` takes the link down.
async fn until_dead(shared: Arc<Shared>, work: impl Future<Output = LinkDown> + Send) {
    tokio::select! {
        biased;
        () = shared.dead.cancelled() => {}
        down = work => shared.die(down),
    }
}

impl Shared {
    fn table(&self) -> std::sync::MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn register(&self, waiter: Waiter) -> Result<u32, LinkDown> {
        match &mut *self.table() {
            Table::Down(down) => Err(down.clone()),
            Table::Up { last, waiters } => {
                // Serial 0 belongs to what nobody asked for.
                loop {
                    *last = last.wrapping_add(1);
                    if *last != 0 && !waiters.contains_key(last) {
                        break;
                    }
                }
                waiters.insert(*last, waiter);
                Ok(*last)
            }
        }
    }

    fn forget(&self, serial: u32) {
        if let Table::Up { waiters, .. } = &mut *self.table() {
            waiters.remove(&serial);
        }
    }

    /// Takes the link down, once, and tells everybody.
    fn die(&self, down: LinkDown) {
        let waiters = {
            let mut table = self.table();
            if matches!(&*table, Table::Down(_)) {
                return;
            }
            match mem::replace(&mut *table, Table::Down(down.clone())) {
                Table::Up { waiters, .. } => waiters,
                Table::Down(_) => HashMap::new(),
            }
        };
        self.dead.cancel();
        tracing::debug!(reason = %down, waiting = waiters.len(), "the link to libvirtd is down");
        for waiter in waiters.into_values() {
            // Those that went away need not be told.
            if let Some(reply) = waiter.reply {
                let _ = reply.send(Err(Failure::Down(down.clone())));
            }
            if let Some(end) = waiter.end {
                let _ = end.send(Err(Failure::Down(down.clone())));
            }
        }
    }

    async fn read_from(&self, mut from: impl AsyncRead + Unpin) -> LinkDown {
        loop {
            match packet::read(&mut from).await {
                Ok(packet) => {
                    self.heard.notify_one();
                    if let Err(what) = self.route(packet) {
                        return LinkDown::Protocol(what);
                    }
                }
                Err(Unread::Closed) => return LinkDown::Closed,
                Err(Unread::Io(error)) => return LinkDown::Io(Arc::new(error)),
                Err(error @ Unread::Length(_)) => return LinkDown::Protocol(error.to_string()),
                Err(Unread::Header(malformed)) => return LinkDown::Protocol(malformed.to_string()),
            }
        }
    }

    /// Takes a packet to whom it is for; what is against the protocol comes back.
    fn route(&self, packet: Packet) -> Result<(), String> {
        let header = packet.header;
        match (header.program, header.kind) {
            (Program::Keepalive, Kind::Message) => {
                if header.procedure == PING {
                    self.urgent.pong();
                }
                Ok(())
            }
            // Events; we ask for none.
            (_, Kind::Message) => Ok(()),
            (_, Kind::Reply) => self.route_reply(packet),
            (_, Kind::Stream | Kind::StreamHole) => {
                self.route_stream(packet);
                Ok(())
            }
            (_, Kind::Call | Kind::CallWithFds | Kind::ReplyWithFds) => {
                Err(format!("a packet of type {:?} came", header.kind))
            }
        }
    }

    fn route_reply(&self, packet: Packet) -> Result<(), String> {
        let header = packet.header;
        let mut table = self.table();
        let Table::Up { waiters, .. } = &mut *table else {
            return Ok(());
        };
        let waiter = waiters
            .get_mut(&header.serial)
            .ok_or("a reply came that nobody asked for")?;
        let asked = (waiter.procedure.program, waiter.procedure.number);
        if asked != (header.program, header.procedure) {
            return Err(format!(
                "the reply to {} is one to procedure {} of program {}",
                waiter.procedure.name, header.procedure, header.program
            ));
        }
        let answer = match header.status {
            Status::Ok => Ok(packet.payload),
            Status::Error => Err(failure(&packet.payload)),
            Status::Continue => return Err("a reply came in parts".to_owned()),
        };
        let reply = waiter.reply.take().ok_or("a second reply came")?;
        let (accepted, procedure) = (answer.is_ok(), waiter.procedure);
        let heard = reply.send(answer).is_ok();
        let stays = accepted && heard && waiter.end.is_some();
        let abandoned = accepted && !heard && waiter.end.is_some();
        if !stays {
            waiters.remove(&header.serial);
        }
        drop(table);
        if abandoned {
            // The upload was given up before libvirtd opened it: it is open now, and nobody sends.
            self.urgent.abort(&procedure, header.serial);
        }
        Ok(())
    }

    /// Pieces for a stream that is no more are dropped: they may have been on their way.
    fn route_stream(&self, packet: Packet) {
        let header = packet.header;
        let mut table = self.table();
        let Table::Up { waiters, .. } = &mut *table else {
            return;
        };
        let outcome = match (header.kind, header.status) {
            (Kind::Stream, Status::Ok) => Ok(()),
            (_, Status::Error) => Err(failure(&packet.payload)),
            // An upload has nothing to read.
            _ => return,
        };
        if waiters
            .get(&header.serial)
            .is_none_or(|waiter| waiter.end.is_none())
        {
            return;
        }
        let Some(waiter) = waiters.remove(&header.serial) else {
            return;
        };
        drop(table);
        match (waiter.reply, outcome) {
            (Some(reply), Err(failure)) => drop(reply.send(Err(failure))),
            (_, outcome) => drop(waiter.end.map(|end| end.send(outcome))),
        }
    }
}

fn failure(payload: &[u8]) -> Failure {
    whole(payload).map_or_else(Failure::Malformed, Failure::Remote)
}

//! What goes out on a link: calls and pieces of uploads in their order, and before them what must
//! not wait: pings, pongs and aborts.
//!
//! It must not know who waits for what. Invariant: packets go out whole, or the writing ends; what
//! must not wait is bounded and is never lost.

use std::io;
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::sync::{Notify, mpsc};

use super::error::LinkDown;
use super::packet::{self, Header, Kind, Program, Status};
use super::procedure::Procedure;
use crate::transport::call::within;

/// The keepalive program's procedures.
pub(super) const PING: i32 = 1;
const PONG: i32 = 2;

/// A packet on its way out.
pub(super) struct Outgoing {
    pub(super) bytes: Vec<u8>,
    /// Cleared when it shall not be written any more.
    pub(super) wanted: Option<Arc<AtomicBool>>,
}

/// What the writer shall send before anything else: at most one ping, one pong, and one abort for
/// each upload.
#[derive(Default)]
pub(super) struct Urgent {
    pending: Mutex<Pending>,
    changed: Notify,
}

#[derive(Default)]
struct Pending {
    ping: bool,
    pong: bool,
    aborts: Vec<Header>,
}

impl Urgent {
    pub(super) fn ping(&self) {
        self.change(|pending| pending.ping = true);
    }

    pub(super) fn pong(&self) {
        self.change(|pending| pending.pong = true);
    }

    pub(super) fn abort(&self, procedure: &Procedure, serial: u32) {
        let abort = header(procedure, Kind::Stream, serial, Status::Error);
        self.change(|pending| pending.aborts.push(abort));
    }

    fn change(&self, change: impl FnOnce(&mut Pending)) {
        change(&mut self.pending.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_one();
    }

    fn take(&self) -> Vec<u8> {
        let pending = mem::take(&mut *self.pending.lock().unwrap_or_else(PoisonError::into_inner));
        let keepalive = |procedure| Header {
            program: Program::Keepalive,
            procedure,
            kind: Kind::Message,
            serial: 0,
            status: Status::Ok,
        };
        let pong = pending.pong.then(|| keepalive(PONG));
        let ping = pending.ping.then(|| keepalive(PING));
        pong.into_iter()
            .chain(ping)
            .chain(pending.aborts)
            .filter_map(|header| packet::frame(&header, &[]).ok())
            .flatten()
            .collect()
    }
}

pub(super) fn header(procedure: &Procedure, kind: Kind, serial: u32, status: Status) -> Header {
    Header {
        program: procedure.program,
        procedure: procedure.number,
        kind,
        serial,
        status,
    }
}

/// Writes until nobody is left who could queue a packet, or until it cannot; `stall` is how long
/// nothing may go out.
pub(super) async fn write_all(
    mut to: impl AsyncWrite + Unpin,
    mut packets: mpsc::Receiver<Outgoing>,
    urgent: &Urgent,
    stall: Duration,
) -> LinkDown {
    loop {
        let packet = tokio::select! {
            biased;
            () = urgent.changed.notified() => None,
            packet = packets.recv() => match packet {
                Some(packet) => Some(packet),
                None => return LinkDown::Shut,
            },
        };
        let bytes = match packet {
            None => urgent.take(),
            Some(Outgoing {
                wanted: Some(wanted), ..
            }) if !wanted.load(Ordering::Acquire) => Vec::new(),
            Some(packet) => packet.bytes,
        };
        let flush = packets.is_empty();
        if let Err(down) = write(&mut to, &bytes, flush, stall).await {
            return down;
        }
    }
}

/// Writes all of `bytes`, as long as some of it goes out within each `stall`.
async fn write(
    to: &mut (impl AsyncWrite + Unpin),
    mut bytes: &[u8],
    flush: bool,
    stall: Duration,
) -> Result<(), LinkDown> {
    let failed = |error: io::Error| LinkDown::Io(Arc::new(error));
    while !bytes.is_empty() {
        let written = within(stall, "libvirtd", to.write(bytes))
            .await
            .map_err(|_overran| LinkDown::Stalled)?
            .map_err(failed)?;
        if written == 0 {
            return Err(LinkDown::Closed);
        }
        bytes = &bytes[written..];
    }
    if flush {
        within(stall, "libvirtd", to.flush())
            .await
            .map_err(|_overran| LinkDown::Stalled)?
            .map_err(failed)?;
    }
    Ok(())
}

//! An upload: a call, then a stream of pieces, then its end.
//!
//! It must not know where the bytes come from. Invariant: an upload that was opened on the wire is
//! either finished there or aborted there, however its future ends.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::sync::oneshot;

use super::error::{Error, LinkDown};
use super::link::{Failure, Link, received, unsendable};
use super::packet::{self, Kind, LARGEST_CHUNK, Status};
use super::procedure::Procedure;
use super::writer::header;
use crate::transport::call::within;

/// Where the bytes come from.
pub type Source<'a> = &'a mut (dyn AsyncRead + Send + Unpin);

/// Sends what `source` has, at most `length` bytes unless that is 0; how many there were comes back.
/// `budget` is what opening and ending the stream may each take.
pub(super) async fn upload(
    link: &Link,
    procedure: &Procedure,
    arguments: &[u8],
    length: u64,
    source: Source<'_>,
    budget: Duration,
) -> Result<u64, Error> {
    let (serial, reply, end) =
        within(budget, procedure.name, link.begin(procedure, arguments, true)).await??;
    let mut open = Open {
        link,
        procedure,
        serial,
        reply: Some(reply),
        end,
        wanted: Arc::new(AtomicBool::new(true)),
        on_wire: false,
    };
    within(budget, procedure.name, open.opened()).await??;
    let mut sent = 0;
    loop {
        let left = if length == 0 { u64::MAX } else { length - sent };
        let piece = open.piece(source, left).await?;
        if piece == 0 {
            break;
        }
        sent += piece;
    }
    if sent < length {
        return Err(Error::SourceShort {
            announced: length,
            sent,
        });
    }
    within(budget, procedure.name, open.finish()).await??;
    Ok(sent)
}

struct Open<'a> {
    link: &'a Link,
    procedure: &'a Procedure,
    serial: u32,
    /// Until it came.
    reply: Option<oneshot::Receiver<Result<Vec<u8>, Failure>>>,
    end: oneshot::Receiver<Result<(), Failure>>,
    wanted: Arc<AtomicBool>,
    /// Whether libvirtd has a stream open that nobody ended.
    on_wire: bool,
}

impl Open<'_> {
    async fn opened(&mut self) -> Result<(), Error> {
        if let Some(reply) = &mut self.reply {
            let told = reply.await;
            self.reply = None;
            received(told, self.procedure)?;
            self.on_wire = true;
        }
        Ok(())
    }

    /// Sends the next piece of the source; 0 is its end.
    async fn piece(&mut self, source: Source<'_>, left: u64) -> Result<u64, Error> {
        let head = header(self.procedure, Kind::Stream, self.serial, Status::Continue);
        let mut bytes = packet::frame(&head, &[]).map_err(|large| unsendable(self.procedure, large))?;
        let most = left.min(LARGEST_CHUNK as u64);
        bytes.reserve(LARGEST_CHUNK.min(usize::try_from(most).unwrap_or(LARGEST_CHUNK)));
        let mut source = source.take(most);
        let reading = source.read_to_end(&mut bytes);
        let read = tokio::select! {
            biased;
            told = &mut self.end => return Err(self.ended(told)),
            read = reading => read.map_err(Error::Source)?,
        };
        if read == 0 {
            return Ok(0);
        }
        let length = bytes.len() as u32;
        bytes[..4].copy_from_slice(&length.to_be_bytes());
        tokio::select! {
            biased;
            told = &mut self.end => return Err(self.ended(told)),
            sent = self.link.send(self.procedure, bytes, &self.wanted) => sent?,
        }
        Ok(read as u64)
    }

    /// libvirtd ended the stream before we did.
    fn ended(&mut self, told: Result<Result<(), Failure>, oneshot::error::RecvError>) -> Error {
        self.on_wire = false;
        match received(told, self.procedure) {
            Err(error) => error,
            Ok(()) => Error::Link {
                procedure: self.procedure.name,
                down: LinkDown::Protocol("an upload was ended before all was sent".to_owned()),
            },
        }
    }

    async fn finish(&mut self) -> Result<(), Error> {
        let head = header(self.procedure, Kind::Stream, self.serial, Status::Ok);
        let bytes = packet::frame(&head, &[]).map_err(|large| unsendable(self.procedure, large))?;
        self.link.send(self.procedure, bytes, &self.wanted).await?;
        let told = (&mut self.end).await;
        self.on_wire = false;
        received(told, self.procedure)
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        if let Some(mut reply) = self.reply.take() {
            // The reply may have come without having been looked at; after this none can.
            reply.close();
            self.on_wire = matches!(reply.try_recv(), Ok(Ok(_)));
        }
        if self.on_wire {
            self.link.abort(self.procedure, self.serial, &self.wanted);
        }
    }
}

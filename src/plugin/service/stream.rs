//! Answers that are streams: a handler's events go out while the handler runs.
//!
//! Must not know which call it is. Invariant: the handler lives inside the stream, so that it is
//! dropped with it as soon as the host stops listening; and the stream ends with what `last` makes
//! of the handler's outcome, a panic included.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::sync::mpsc;
use tokio_stream::Stream;
use tonic::Status;

use crate::plugin::diagnostics::Diagnostics;
use crate::plugin::panic::{Contained, Panic, contain};

/// How many events may wait for the host before the handler is held back.
pub(super) const BUFFER: usize = 16;

type Handler = Pin<Box<dyn Future<Output = Diagnostics> + Send>>;

/// A stream of a handler's events.
pub(crate) struct EventStream<E, M> {
    handler: Option<Contained<Handler>>,
    outcome: Option<Diagnostics>,
    events: mpsc::Receiver<E>,
    convert: Box<dyn FnMut(E) -> Step<M> + Send>,
    last: Option<Box<dyn FnOnce(Diagnostics) -> Option<M> + Send>>,
    ended: bool,
}

/// What becomes of one event.
pub(super) enum Step<M> {
    /// Goes out.
    Send(M),
    /// Goes out, and is the last: the handler is dropped.
    Finish(M),
    /// Nothing more goes out: the handler is dropped.
    Stop,
}

impl<E, M> EventStream<E, M> {
    /// Runs `handler`, sends what `convert` makes of its `events`, and what `last` makes of its end.
    pub(super) fn new(
        handler: impl Future<Output = Diagnostics> + Send + 'static,
        events: mpsc::Receiver<E>,
        convert: impl FnMut(E) -> Step<M> + Send + 'static,
        last: impl FnOnce(Diagnostics) -> Option<M> + Send + 'static,
    ) -> Self {
        let handler: Handler = Box::pin(handler);
        Self {
            handler: Some(contain(handler)),
            outcome: None,
            events,
            convert: Box::new(convert),
            last: Some(Box::new(last)),
            ended: false,
        }
    }
}

impl<E, M> Unpin for EventStream<E, M> {}

impl<E, M> Stream for EventStream<E, M> {
    type Item = Result<M, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        if this.ended {
            return Poll::Ready(None);
        }
        if let Some(handler) = &mut this.handler
            && let Poll::Ready(outcome) = Pin::new(handler).poll(context)
        {
            this.handler = None;
            this.outcome = Some(outcome.unwrap_or_else(|panic: Panic| Diagnostics::from(panic.diagnostic())));
        }
        // The handler held the only sender, so this ends once it is gone and all is taken out.
        match ready!(this.events.poll_recv(context)) {
            Some(event) => match (this.convert)(event) {
                Step::Send(message) => Poll::Ready(Some(Ok(message))),
                Step::Finish(message) => {
                    this.ended = true;
                    this.handler = None;
                    Poll::Ready(Some(Ok(message)))
                }
                Step::Stop => {
                    this.ended = true;
                    this.handler = None;
                    Poll::Ready(None)
                }
            },
            None => match this.outcome.take() {
                Some(outcome) => {
                    this.ended = true;
                    Poll::Ready(this.last.take().and_then(|last| last(outcome)).map(Ok))
                }
                // The handler dropped the sender and goes on without events.
                None => Poll::Pending,
            },
        }
    }
}

//! Panics: one inside a call becomes that call's error; one that ends the process is printed so that
//! the host recognises a crash.
//!
//! Must not know which call it guards. Invariant: what a panic says is shown only where it is a
//! literal of the program; a formatted message may quote a value, and values may be secrets.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::io::Write as _;
use std::panic::{self, AssertUnwindSafe, PanicHookInfo};
use std::pin::Pin;
use std::sync::Once;
use std::task::{Context, Poll};

use crate::plugin::diagnostics::Diagnostic;

thread_local! {
    /// Whether a panic on this thread is caught by [`contain`] just now.
    static CONTAINED: Cell<bool> = const { Cell::new(false) };
    /// Where the last contained panic of this thread happened.
    static PLACE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// A panic that was caught.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Panic {
    place: Option<String>,
    message: Option<&'static str>,
}

impl Panic {
    fn new(payload: &(dyn Any + Send)) -> Self {
        Self {
            place: PLACE.take(),
            message: literal(payload),
        }
    }

    /// The panic as the user sees it.
    pub(crate) fn diagnostic(&self) -> Diagnostic {
        let mut detail = String::from("The provider stopped in the middle of this operation");
        if let Some(place) = &self.place {
            detail.push_str(" at ");
            detail.push_str(place);
        }
        if let Some(message) = self.message {
            detail.push_str(": ");
            detail.push_str(message);
        }
        detail.push_str(
            ". This is a bug in the provider: please report it. Other operations are not affected.",
        );
        Diagnostic::error("The provider panicked").detail(detail)
    }
}

fn literal(payload: &(dyn Any + Send)) -> Option<&'static str> {
    payload.downcast_ref::<&'static str>().copied()
}

/// A future that catches the panics of another.
pub(crate) struct Contained<F>(Pin<Box<F>>);

/// Runs a future to its end or to its first panic.
pub(crate) fn contain<F: Future>(future: F) -> Contained<F> {
    Contained(Box::pin(future))
}

impl<F: Future> Future for Contained<F> {
    type Output = Result<F::Output, Panic>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let outer = CONTAINED.replace(true);
        // After a panic the future is never polled again: the caller gets `Ready` and drops it.
        let polled = panic::catch_unwind(AssertUnwindSafe(|| self.0.as_mut().poll(context)));
        CONTAINED.set(outer);
        match polled {
            Ok(poll) => poll.map(Ok),
            Err(payload) => Poll::Ready(Err(Panic::new(&*payload))),
        }
    }
}

/// Makes a panic that ends a thread or the process print what hosts recognise as a crash. [`serve`]
/// does this too; a program calls it first of all, so that a crash before is told as well.
///
/// [`serve`]: crate::plugin::serve
pub fn report_crashes() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| panic::set_hook(Box::new(hook)));
}

fn hook(info: &PanicHookInfo<'_>) {
    let place = info
        .location()
        .map(|location| format!("{}:{}", location.file(), location.line()));
    if CONTAINED.get() {
        tracing::error!(place = place.as_deref().unwrap_or("unknown"), "panic in a call");
        PLACE.set(place);
        return;
    }
    let line = crash_line(literal_of(info), place.as_deref());
    // Nothing can be done where stderr is gone.
    drop(std::io::stderr().write_all(line.as_bytes()));
}

fn literal_of(info: &PanicHookInfo<'_>) -> Option<&'static str> {
    info.payload().downcast_ref::<&'static str>().copied()
}

/// What the hosts recognise: a line that starts with `panic: `.
fn crash_line(message: Option<&str>, place: Option<&str>) -> String {
    let message = message.unwrap_or("the message is withheld, for it may quote a value");
    format!("panic: {message}\n\tat {}\n", place.unwrap_or("an unknown place"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run<F: Future>(future: F) -> Result<F::Output, Panic> {
        report_crashes();
        tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap()
            .block_on(contain(future))
    }

    #[test]
    fn a_literal_is_shown_with_its_place() {
        let panic = run(async { panic!("the lights went out") })
            .map(|(): ()| ())
            .unwrap_err();
        let detail = panic.diagnostic().detail;
        assert!(detail.contains("the lights went out"), "{detail}");
        assert!(detail.contains("panic.rs:"), "{detail}");
    }

    #[test]
    fn a_formatted_message_is_withheld() {
        let secret = String::from("hunter2");
        let panic = run(async { panic!("cannot use {secret}") })
            .map(|(): ()| ())
            .unwrap_err();
        let detail = panic.diagnostic().detail;
        assert!(!detail.contains("hunter2"), "{detail}");
        assert!(detail.contains("panic.rs:"), "{detail}");
        let failed: Result<u16, _> = "hunter2".parse::<u16>();
        let panic = run(async { failed.map_err(|_| "hunter2").unwrap() }).unwrap_err();
        assert!(!panic.diagnostic().detail.contains("hunter2"));
    }

    #[test]
    fn what_goes_well_is_passed_on() {
        assert_eq!(run(async { 7 }), Ok(7));
        assert!(!CONTAINED.get());
    }

    #[test]
    fn a_crash_starts_with_the_word_hosts_look_for() {
        let line = crash_line(Some("out of luck"), Some("main.rs:1"));
        assert_eq!(line, "panic: out of luck\n\tat main.rs:1\n");
        assert!(crash_line(None, None).starts_with("panic: "));
    }
}

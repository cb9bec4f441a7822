//! Turns the contract's errors into diagnostics.
//!
//! Must not know what an error means for the state. Invariants: a chain of causes is printed once;
//! backend, operation, target and context are named.

use std::fmt::Write as _;

use crate::contract::{Error, ErrorKind};
use crate::plugin::diagnostics::Diagnostic;
pub(crate) use crate::plugin::diagnostics::sentence;

/// The message of an error with all that caused it; what a cause repeats is left out.
pub(crate) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let said = cause.to_string();
        if !text.contains(&said) {
            text = format!("{}: {said}", text.trim_end_matches('.'));
        }
        next = cause.source();
    }
    text
}

/// The diagnostic of a failed operation. `doing` is what was tried, such as `Cannot read the proxy`;
/// `subject` is the id.
pub(crate) fn diagnostic(error: &Error, doing: &str, subject: &str) -> Diagnostic {
    let summary = format!("{doing} {subject}");
    let told = chain(error);
    let place = place(error);
    let hint = match error.kind() {
        ErrorKind::Transient => "\n\nThis may pass: run it again, or raise the timeout of the operation.",
        ErrorKind::QuotaExceeded => "\n\nAn allowance is used up: free some of it, or have it raised.",
        ErrorKind::NotFound | ErrorKind::Permanent => "",
    };
    Diagnostic::error(summary).detail(format!("{}{hint}\n\n{place}", sentence(&told)))
}

/// Where it happened: backend, operation, target and context, on one line.
fn place(error: &Error) -> String {
    let mut text = String::new();
    let mut add = |key: &str, value: &str| {
        let comma = if text.is_empty() { "" } else { ", " };
        // Writing to a String cannot fail.
        let _ = write!(text, "{comma}{key}: {value}");
    };
    if let Some(backend) = error.backend() {
        add("backend", backend.as_str());
    }
    if let Some(operation) = error.operation() {
        add("operation", operation.as_str());
    }
    if let Some(target) = error.target() {
        add("target", target);
    }
    for (key, value) in error.context() {
        add(key, value);
    }
    text
}

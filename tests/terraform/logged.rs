//! Everything that this process traces, at every level: spans with their fields, events with theirs.
//!
//! Must not know what a secret is. Invariant: nothing is filtered, so that what is not found here was
//! never said.

use std::fmt::Write as _;
use std::sync::{LazyLock, Mutex, PoisonError};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};

static SAID: Mutex<String> = Mutex::new(String::new());

static INSTALLED: LazyLock<()> = LazyLock::new(|| {
    let subscriber = tracing_subscriber::registry().with(Everything);
    tracing::subscriber::set_global_default(subscriber).expect("nobody else installs one");
});

/// From here on everything is kept, on every thread: tests beside this one only add to it.
pub(crate) fn listen() {
    LazyLock::force(&INSTALLED);
}

/// What was said so far.
pub(crate) fn said() -> String {
    SAID.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

struct Everything;

struct Line(String);

impl Line {
    fn new(metadata: &Metadata<'_>) -> Self {
        Self(format!(
            "{} {} {}",
            metadata.level(),
            metadata.target(),
            metadata.name()
        ))
    }

    fn keep(self) {
        let mut said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
        said.push_str(&self.0);
        said.push('\n');
    }
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        let _ = write!(self.0, " {field}={value:?}");
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        let _ = write!(self.0, " {field}={value}");
    }
}

impl<S: Subscriber> Layer<S> for Everything {
    fn on_new_span(&self, attributes: &Attributes<'_>, _id: &Id, _context: Context<'_, S>) {
        let mut line = Line::new(attributes.metadata());
        attributes.record(&mut line);
        line.keep();
    }

    fn on_record(&self, _span: &Id, values: &Record<'_>, _context: Context<'_, S>) {
        let mut line = Line("recorded".to_owned());
        values.record(&mut line);
        line.keep();
    }

    fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
        let mut line = Line::new(event.metadata());
        event.record(&mut line);
        line.keep();
    }
}

//! Logs as the hosts read them: one JSON object a line on stderr, in hclog's form.
//!
//! Must not know what is logged. Invariants: the time has exactly six fractional digits and every
//! line is below 64 KiB, since the host takes any other line for plain text; a line is written in
//! one piece; fields whose names are hclog's own are renamed, never doubled.

use std::fmt::{self, Write as _};
use std::io;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value as Json};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;

/// The host splits lines of 64 KiB and more, and takes the pieces for plain text.
const MAX_LINE: usize = 60 << 10;
/// What one text may take of a line.
const MAX_TEXT: usize = 8 << 10;

/// The level the user asked for: `TF_LOG_PROVIDER_<NAME>`, else `TF_LOG_PROVIDER`, else `TF_LOG`;
/// nothing is logged where none is set.
pub fn level(provider: &str) -> LevelFilter {
    level_of(provider, |name| std::env::var(name).ok())
}

fn level_of(provider: &str, variable: impl Fn(&str) -> Option<String>) -> LevelFilter {
    let own = format!("TF_LOG_PROVIDER_{}", provider.to_uppercase().replace('-', "_"));
    let names = [own.as_str(), "TF_LOG_PROVIDER", "TF_LOG"];
    let Some(level) = names
        .iter()
        .find_map(|name| variable(name).filter(|level| !level.is_empty()))
    else {
        return LevelFilter::OFF;
    };
    match level.to_uppercase().as_str() {
        "OFF" => LevelFilter::OFF,
        "ERROR" => LevelFilter::ERROR,
        "WARN" => LevelFilter::WARN,
        "INFO" => LevelFilter::INFO,
        "DEBUG" => LevelFilter::DEBUG,
        // The hosts take TRACE, JSON and anything they do not know for the most verbose.
        _ => LevelFilter::TRACE,
    }
}

/// What below us logs every frame and every handshake, which is of no use to anyone who debugs a
/// provider and could show what travels.
const TRANSPORT: [&str; 8] = [
    "h2",
    "hyper",
    "hyper_util",
    "mio",
    "rustls",
    "tokio_rustls",
    "tonic",
    "tower",
];

/// What to log: everything at the user's [`level`] but the transport below the calls. Add targets of
/// your own to it.
pub fn filter(provider: &str) -> Targets {
    let silent = TRANSPORT.map(|target| (target, LevelFilter::OFF));
    Targets::new().with_default(level(provider)).with_targets(silent)
}

/// Sends this process's logs to the host, as [`filter`] has it. Does nothing where a subscriber is
/// installed already. To add layers of one's own, use [`Hclog`] and [`filter`].
pub fn init(provider: &str) {
    let layer = Hclog::new(provider, io::stderr).with_filter(filter(provider));
    // An error says that there is a subscriber, which then is the one that is wanted.
    let _ = tracing::subscriber::set_global_default(tracing_subscriber::registry().with(layer));
}

/// A layer that writes events, with the fields of the spans around them, as hclog does.
#[derive(Debug)]
pub struct Hclog<W> {
    module: String,
    output: W,
    ids: fn() -> Vec<(&'static str, String)>,
}

impl<O: io::Write, W: Fn() -> O> Hclog<W> {
    /// A layer for the provider of that name, that writes each line to what `output` gives.
    pub fn new(provider: &str, output: W) -> Self {
        Self {
            module: format!("provider.{provider}"),
            output,
            ids: Vec::new,
        }
    }

    /// With what `ids` says of where the current thread is, such as a trace's id, in every line.
    #[must_use]
    pub fn with_ids(mut self, ids: fn() -> Vec<(&'static str, String)>) -> Self {
        self.ids = ids;
        self
    }
}

/// The fields of a span, kept with it.
struct SpanFields(Map<String, Json>);

#[derive(Default)]
struct Fields {
    fields: Map<String, Json>,
    message: Option<String>,
}

impl Fields {
    fn put(&mut self, field: &Field, value: Json) {
        let name = field.name();
        if name == "message" {
            self.message = Some(match value {
                Json::String(text) => text,
                other => other.to_string(),
            });
            return;
        }
        // A name with hclog's own prefix would replace the level or the time.
        let name = name
            .strip_prefix('@')
            .map_or_else(|| name.to_owned(), |rest| format!("_{rest}"));
        self.fields.insert(name, value);
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let mut text = Capped(String::new());
        // The error says that the text was cut.
        let _ = write!(text, "{value:?}");
        self.put(field, text.0.into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        let mut text = Capped(String::new());
        let _ = text.write_str(value);
        self.put(field, text.0.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value.into());
    }
}

/// A text that ends at its limit.
struct Capped(String);

impl fmt::Write for Capped {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = MAX_TEXT.saturating_sub(self.0.len());
        if text.len() <= room {
            self.0.push_str(text);
            return Ok(());
        }
        if !self.0.ends_with('…') {
            self.0.push_str(&text[..text.floor_char_boundary(room)]);
            self.0.push('…');
        }
        Err(fmt::Error)
    }
}

impl<S, O, W> Layer<S> for Hclog<W>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    O: io::Write,
    W: Fn() -> O + 'static,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        span.extensions_mut().insert(SpanFields(fields.fields));
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut fields = Fields::default();
        values.record(&mut fields);
        if let Some(SpanFields(known)) = span.extensions_mut().get_mut() {
            known.extend(fields.fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let mut around = Map::new();
        for span in context
            .event_scope(event)
            .into_iter()
            .flat_map(|scope| scope.from_root())
        {
            if let Some(SpanFields(known)) = span.extensions().get() {
                around.extend(known.clone());
            }
            around.insert("span".to_owned(), span.name().into());
        }
        around.extend(
            (self.ids)()
                .into_iter()
                .map(|(name, id)| (name.to_owned(), id.into())),
        );
        around.extend(fields.fields);
        let message = fields.message.unwrap_or_default();
        let target = event.metadata().target();
        let line = line(
            *event.metadata().level(),
            &self.module,
            target,
            &message,
            around,
            SystemTime::now(),
        );
        // There is nowhere to say that stderr is gone.
        let _ = (self.output)().write_all(line.as_bytes());
    }
}

fn line(
    level: Level,
    module: &str,
    target: &str,
    message: &str,
    fields: Map<String, Json>,
    now: SystemTime,
) -> String {
    let level = match level {
        Level::ERROR => "error",
        Level::WARN => "warn",
        Level::INFO => "info",
        Level::DEBUG => "debug",
        Level::TRACE => "trace",
    };
    let mut object = Map::new();
    object.insert("@level".to_owned(), level.into());
    object.insert("@message".to_owned(), message.into());
    object.insert("@module".to_owned(), module.into());
    object.insert("@timestamp".to_owned(), timestamp(now).into());
    object.insert("target".to_owned(), target.into());
    let mut length = Json::Object(object.clone()).to_string().len();
    let mut dropped = 0u64;
    for (name, value) in fields {
        let size = name.len() + value.to_string().len() + 4;
        if length + size > MAX_LINE {
            dropped += 1;
            continue;
        }
        length += size;
        object.insert(name, value);
    }
    if dropped > 0 {
        object.insert("fields_dropped".to_owned(), dropped.into());
    }
    let mut line = Json::Object(object).to_string();
    line.push('\n');
    line
}

/// `2006-01-02T15:04:05.000000Z`: the hosts read no other number of fractional digits.
fn timestamp(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let seconds = i64::try_from(since.as_secs()).unwrap_or(0);
    let second = jiff::Timestamp::from_second(seconds).unwrap_or_default();
    format!(
        "{}.{:06}Z",
        second.strftime("%Y-%m-%dT%H:%M:%S"),
        since.subsec_micros()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Sink(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn logged(run: impl FnOnce()) -> Vec<Json> {
        let sink = Sink::default();
        let output = sink.clone();
        let layer = Hclog::new("toy", move || output.clone());
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), run);
        let bytes = sink.0.lock().unwrap().clone();
        let text = String::from_utf8(bytes).unwrap();
        text.lines()
            .map(|line| {
                assert!(line.len() < 64 << 10, "{} bytes", line.len());
                serde_json::from_str(line).unwrap()
            })
            .collect()
    }

    #[test]
    fn an_event_carries_its_spans_fields() {
        let lines = logged(|| {
            let span = tracing::info_span!("outer", backend = "lab", late = tracing::field::Empty);
            let _entered = span.enter();
            span.record("late", 7);
            tracing::warn!(port = 3128, ok = true, "it is {}", "odd");
        });
        let [line] = &lines[..] else { panic!("{lines:?}") };
        assert_eq!(line["@level"], "warn");
        assert_eq!(line["@message"], "it is odd");
        assert_eq!(line["@module"], "provider.toy");
        assert_eq!(line["backend"], "lab");
        assert_eq!(line["late"], 7);
        assert_eq!(line["port"], 3128);
        assert_eq!(line["ok"], true);
        assert_eq!(line["span"], "outer");
    }

    #[test]
    fn a_line_says_where_it_comes_from() {
        let sink = Sink::default();
        let output = sink.clone();
        let layer =
            Hclog::new("toy", move || output.clone()).with_ids(|| vec![("traceID", "0af7".to_owned())]);
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            tracing::info!("x");
        });
        let line: Json = serde_json::from_slice(&sink.0.lock().unwrap()).unwrap();
        assert_eq!(line["traceID"], "0af7");
    }

    #[test]
    fn hclogs_own_names_cannot_be_taken() {
        let lines = logged(|| tracing::info!({ "@level" = 3 }, "x"));
        assert_eq!(lines[0]["@level"], "info");
        assert_eq!(lines[0]["_level"], 3);
    }

    #[test]
    fn a_line_never_reaches_64_kib() {
        let long = "ä\"".repeat(100_000);
        let lines = logged(|| tracing::info!(a = %long, b = %long, c = ?long, d = long, e = %long, "{long}"));
        assert!(lines[0]["@message"].as_str().unwrap().ends_with('…'));
    }

    #[test]
    fn the_time_has_six_digits() {
        let at = |nanos: u32| timestamp(UNIX_EPOCH + std::time::Duration::new(1_767_225_599, nanos));
        assert_eq!(at(0), "2025-12-31T23:59:59.000000Z");
        assert_eq!(at(999_999_999), "2025-12-31T23:59:59.999999Z");
        assert_eq!(at(1_000), "2025-12-31T23:59:59.000001Z");
    }

    #[test]
    fn the_most_particular_variable_sets_the_level() {
        let level = |variables: &[(&str, &str)]| {
            level_of("egress-x", |name| {
                variables
                    .iter()
                    .find(|(known, _)| *known == name)
                    .map(|(_, value)| (*value).to_owned())
            })
        };
        assert_eq!(level(&[]), LevelFilter::OFF);
        assert_eq!(level(&[("TF_LOG", "debug")]), LevelFilter::DEBUG);
        assert_eq!(level(&[("TF_LOG", "JSON")]), LevelFilter::TRACE);
        assert_eq!(
            level(&[("TF_LOG", "trace"), ("TF_LOG_PROVIDER", "WARN")]),
            LevelFilter::WARN
        );
        let own = ("TF_LOG_PROVIDER_EGRESS_X", "error");
        assert_eq!(level(&[("TF_LOG_PROVIDER", "info"), own]), LevelFilter::ERROR);
        assert_eq!(
            level(&[("TF_LOG", ""), ("TF_LOG_PROVIDER", "off")]),
            LevelFilter::OFF
        );
    }
}

//! A span of another process: what `traceparent` and `tracestate` (W3C Trace Context) say.
//!
//! Must not know where the two texts came from. Invariant: what does not parse is no parent.

use opentelemetry::Context;
use opentelemetry::propagation::{Extractor, TextMapPropagator as _};
use opentelemetry::trace::TraceContextExt as _;
use opentelemetry_sdk::propagation::TraceContextPropagator;

/// The context in which a span's parent is one of another process.
#[derive(Clone, Debug)]
pub(super) struct Remote(pub(super) Context);

impl Remote {
    pub(super) fn parse(traceparent: &str, tracestate: Option<&str>) -> Option<Self> {
        // The SDK fills up ids that are too short, and so would hang spans under nobody.
        let mut parts = traceparent.split('-').map(str::len);
        if (parts.next(), parts.next(), parts.next(), parts.next()) != (Some(2), Some(32), Some(16), Some(2))
        {
            return None;
        }
        let carrier = Carrier {
            traceparent,
            tracestate,
        };
        let context = TraceContextPropagator::new().extract_with_context(&Context::new(), &carrier);
        let valid = context.span().span_context().is_valid();
        valid.then_some(Self(context))
    }
}

struct Carrier<'a> {
    traceparent: &'a str,
    tracestate: Option<&'a str>,
}

impl Extractor for Carrier<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        match key {
            "traceparent" => Some(self.traceparent),
            "tracestate" => self.tracestate,
            _ => None,
        }
    }

    fn keys(&self) -> Vec<&str> {
        vec!["traceparent", "tracestate"]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_well_formed_parent_is_one() {
        let remote = Remote::parse(
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            Some("a=b"),
        )
        .unwrap();
        let context = remote.0.span().span_context().clone();
        assert_eq!(context.trace_id().to_string(), "0af7651916cd43dd8448eb211c80319c");
        assert_eq!(context.span_id().to_string(), "b7ad6b7169203331");
        assert_eq!(context.trace_state().get("a"), Some("b"));
        assert!(context.is_remote() && context.is_sampled());
        for wrong in [
            "",
            "nonsense",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b71-01",
        ] {
            assert!(Remote::parse(wrong, None).is_none(), "{wrong}");
        }
    }
}

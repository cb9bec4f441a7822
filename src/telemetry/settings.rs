//! What the environment asks for: the standard `OTEL_*` variables, `TRACEPARENT` and `TRACESTATE`.
//!
//! Must not know how anything is exported. Invariant: without a variable that asks for an export
//! there is none; a variable that cannot be honoured turns its signal off, with a message that
//! names it, and never fails an operation. No message holds more of an endpoint than its scheme.

use std::time::Duration;

use http::Uri;
use opentelemetry_sdk::metrics::Temporality;

use super::remote::Remote;

/// The default of `OTEL_EXPORTER_OTLP_TIMEOUT` in the OpenTelemetry specification.
const TIMEOUT: Duration = Duration::from_secs(10);

/// How OTLP travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Grpc,
    HttpProtobuf,
}

/// Where one signal goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Destination {
    pub(super) protocol: Protocol,
    /// An absolute URL with its path; for gRPC the path is ignored.
    pub(super) endpoint: String,
    /// The scheme is `https`.
    pub(super) encrypted: bool,
    /// A PEM file with the authorities to trust beside the system's.
    pub(super) certificate: Option<String>,
    pub(super) timeout: Duration,
}

impl Destination {
    /// Scheme, host and port: what may be shown of the endpoint, whose other parts may be secret.
    pub(super) fn authority(&self) -> String {
        let Ok(uri) = self.endpoint.parse::<Uri>() else {
            return String::new();
        };
        let scheme = uri.scheme_str().unwrap_or_default();
        let host = uri.host().unwrap_or_default();
        match uri.port_u16() {
            Some(port) => format!("{scheme}://{host}:{port}"),
            None => format!("{scheme}://{host}"),
        }
    }
}

/// Everything the environment says about telemetry.
#[derive(Debug, Default)]
pub(super) struct Settings {
    pub(super) traces: Option<Destination>,
    pub(super) metrics: Option<Destination>,
    pub(super) temporality: Temporality,
    /// The span that this process runs under.
    pub(super) parent: Option<Remote>,
    /// What could not be honoured, one message each.
    pub(super) problems: Vec<String>,
}

#[derive(Clone, Copy)]
enum Signal {
    Traces,
    Metrics,
}

impl Signal {
    fn name(self) -> &'static str {
        match self {
            Self::Traces => "TRACES",
            Self::Metrics => "METRICS",
        }
    }

    fn path(self) -> &'static str {
        match self {
            Self::Traces => "v1/traces",
            Self::Metrics => "v1/metrics",
        }
    }
}

/// The variables, an empty one counting as absent (as the specification has it).
struct Variables<F>(F);

impl<F: Fn(&str) -> Option<String>> Variables<F> {
    fn get(&self, name: &str) -> Option<String> {
        (self.0)(name)
            .map(|value| value.trim().to_owned())
            .filter(|value| !value.is_empty())
    }

    /// The signal's own variable, else the one for all signals; with the name that was found.
    fn otlp(&self, signal: Signal, setting: &str) -> Option<(String, String)> {
        [
            format!("OTEL_EXPORTER_OTLP_{}_{setting}", signal.name()),
            format!("OTEL_EXPORTER_OTLP_{setting}"),
        ]
        .into_iter()
        .find_map(|name| self.get(&name).map(|value| (name, value)))
    }

    fn is_true(&self, name: &str) -> bool {
        self.get(name)
            .is_some_and(|value| value.eq_ignore_ascii_case("true"))
    }

    /// Whether the signal is to be exported at all.
    fn wants(&self, signal: Signal) -> Result<bool, String> {
        let variable = format!("OTEL_{}_EXPORTER", signal.name());
        match self.get(&variable) {
            None => Ok(self.otlp(signal, "ENDPOINT").is_some()),
            Some(value) => {
                let mut exporters = value.split(',').map(str::trim);
                if exporters.clone().any(|exporter| exporter == "otlp") {
                    Ok(true)
                } else if exporters.all(|exporter| exporter == "none") {
                    Ok(false)
                } else {
                    Err(format!(
                        "{variable} is {value:?}: this provider exports \"otlp\" or \"none\""
                    ))
                }
            }
        }
    }

    fn destination(&self, signal: Signal) -> Result<Option<Destination>, String> {
        if !self.wants(signal)? {
            return Ok(None);
        }
        let protocol = match self.otlp(signal, "PROTOCOL") {
            // The specification's default, and the CLIs'.
            None => Protocol::HttpProtobuf,
            Some((name, value)) => match value.as_str() {
                "grpc" => Protocol::Grpc,
                "http/protobuf" => Protocol::HttpProtobuf,
                other => {
                    return Err(format!(
                        "{name} is {other:?}: this provider speaks \"grpc\" and \"http/protobuf\""
                    ));
                }
            },
        };
        let (endpoint, encrypted) = self.endpoint(signal, protocol)?;
        let timeout = match self.otlp(signal, "TIMEOUT") {
            None => TIMEOUT,
            Some((name, value)) => value
                .parse()
                .map(Duration::from_millis)
                .map_err(|_error| format!("{name} is {value:?}: it takes whole milliseconds"))?,
        };
        let certificate = self.otlp(signal, "CERTIFICATE").map(|(_, file)| file);
        Ok(Some(Destination {
            protocol,
            endpoint,
            encrypted,
            certificate,
            timeout,
        }))
    }

    /// How sums are reported. An unknown value counts as absent, as the specification demands.
    fn temporality(&self) -> Temporality {
        let preference = self
            .get("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE")
            .unwrap_or_default();
        match preference.to_ascii_lowercase().as_str() {
            "delta" => Temporality::Delta,
            "lowmemory" => Temporality::LowMemory,
            _ => Temporality::Cumulative,
        }
    }

    fn endpoint(&self, signal: Signal, protocol: Protocol) -> Result<(String, bool), String> {
        let found = self.otlp(signal, "ENDPOINT");
        let own = found
            .as_ref()
            .is_some_and(|(name, _)| name.contains(signal.name()));
        let (name, mut text) = found.unwrap_or_else(|| {
            let port = match protocol {
                Protocol::Grpc => 4317,
                Protocol::HttpProtobuf => 4318,
            };
            (
                "the default endpoint".to_owned(),
                format!("http://localhost:{port}"),
            )
        });
        if !text.contains("://") && protocol == Protocol::Grpc {
            // Only gRPC endpoints may come without a scheme, and INSECURE speaks of those alone.
            let insecure = match self.otlp(signal, "INSECURE") {
                Some((_, value)) => value.eq_ignore_ascii_case("true"),
                None => false,
            };
            text = format!("{}://{text}", if insecure { "http" } else { "https" });
        }
        if protocol == Protocol::HttpProtobuf && !own {
            // What is for all signals is a base, under which each signal has its path.
            text = format!("{}/{}", text.trim_end_matches('/'), signal.path());
        }
        // The URL may carry credentials, so a message never repeats it.
        let wrong =
            || format!("{name} is not a URL such as http://localhost:4318 or https://collector.example:4317");
        let uri: Uri = text.parse().map_err(|_error| wrong())?;
        match (uri.scheme_str(), uri.host()) {
            (Some("http"), Some(host)) if !host.is_empty() => Ok((text, false)),
            (Some("https"), Some(host)) if !host.is_empty() => Ok((text, true)),
            _ => Err(wrong()),
        }
    }
}

impl Settings {
    /// Reads the process's environment.
    pub(super) fn from_env() -> Self {
        Self::read(|name| std::env::var(name).ok())
    }

    /// Reads what `variable` answers.
    pub(super) fn read(variable: impl Fn(&str) -> Option<String>) -> Self {
        let variables = Variables(variable);
        if variables.is_true("OTEL_SDK_DISABLED") {
            return Self::default();
        }
        let mut settings = Self::default();
        let mut destination = |signal| {
            variables.destination(signal).unwrap_or_else(|problem| {
                settings.problems.push(problem);
                None
            })
        };
        let traces = destination(Signal::Traces);
        let metrics = destination(Signal::Metrics);
        if traces.is_some() {
            settings.parent = variables
                .get("TRACEPARENT")
                .and_then(|parent| Remote::parse(&parent, variables.get("TRACESTATE").as_deref()));
        }
        if metrics.is_some() {
            settings.temporality = variables.temporality();
        }
        Self {
            traces,
            metrics,
            ..settings
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Settings {
        Settings::read(|name| {
            variables
                .iter()
                .find(|(known, _)| *known == name)
                .map(|(_, value)| (*value).to_owned())
        })
    }

    fn http(endpoint: &str) -> Destination {
        Destination {
            protocol: Protocol::HttpProtobuf,
            endpoint: endpoint.to_owned(),
            encrypted: endpoint.starts_with("https"),
            certificate: None,
            timeout: TIMEOUT,
        }
    }

    fn grpc(endpoint: &str) -> Destination {
        Destination {
            protocol: Protocol::Grpc,
            ..http(endpoint)
        }
    }

    #[test]
    fn nothing_is_exported_unless_asked_for() {
        let parent = (
            "TRACEPARENT",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        );
        for variables in [
            &[][..],
            &[parent],
            &[("OTEL_EXPORTER_OTLP_ENDPOINT", "")],
            &[
                ("OTEL_SERVICE_NAME", "x"),
                ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
            ],
            &[
                ("OTEL_SDK_DISABLED", "True"),
                ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318"),
                parent,
            ],
            &[
                ("OTEL_TRACES_EXPORTER", "none"),
                ("OTEL_METRICS_EXPORTER", "none"),
                ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318"),
            ],
        ] {
            let settings = read(variables);
            assert_eq!((settings.traces, settings.metrics), (None, None), "{variables:?}");
            assert!(
                settings.parent.is_none() && settings.problems.is_empty(),
                "{variables:?}"
            );
        }
    }

    #[test]
    fn every_endpoint_is_where_the_specification_says() {
        type Case<'a> = (&'a [(&'a str, &'a str)], Option<Destination>, Option<Destination>);
        let cases: [Case<'_>; 9] = [
            (
                &[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318/")],
                Some(http("http://c:4318/v1/traces")),
                Some(http("http://c:4318/v1/metrics")),
            ),
            (
                &[
                    ("OTEL_EXPORTER_OTLP_ENDPOINT", "https://c/base"),
                    ("OTEL_METRICS_EXPORTER", "none"),
                ],
                Some(http("https://c/base/v1/traces")),
                None,
            ),
            (
                &[("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://c:1/exactly/this")],
                Some(http("http://c:1/exactly/this")),
                None,
            ),
            (
                &[("OTEL_TRACES_EXPORTER", "otlp")],
                Some(http("http://localhost:4318/v1/traces")),
                None,
            ),
            (
                &[
                    ("OTEL_TRACES_EXPORTER", "console, otlp"),
                    ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
                ],
                Some(grpc("http://localhost:4317")),
                None,
            ),
            (
                &[
                    ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4317"),
                    ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
                ],
                Some(grpc("http://c:4317")),
                Some(grpc("http://c:4317")),
            ),
            (
                &[
                    ("OTEL_EXPORTER_OTLP_ENDPOINT", "c:4317"),
                    ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
                    ("OTEL_EXPORTER_OTLP_METRICS_INSECURE", "true"),
                ],
                Some(grpc("https://c:4317")),
                Some(grpc("http://c:4317")),
            ),
            (
                &[
                    ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318"),
                    ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "http://m:4317"),
                    ("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "grpc"),
                ],
                Some(http("http://c:4318/v1/traces")),
                Some(grpc("http://m:4317")),
            ),
            (
                &[
                    ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://c:1/v1/traces"),
                    ("OTEL_EXPORTER_OTLP_TIMEOUT", "2500"),
                    ("OTEL_EXPORTER_OTLP_CERTIFICATE", "/ca.pem"),
                ],
                Some(Destination {
                    timeout: Duration::from_millis(2500),
                    certificate: Some("/ca.pem".to_owned()),
                    ..http("https://c:1/v1/traces")
                }),
                None,
            ),
        ];
        for (variables, traces, metrics) in cases {
            let settings = read(variables);
            assert_eq!(settings.problems, Vec::<String>::new(), "{variables:?}");
            assert_eq!(
                (settings.traces, settings.metrics),
                (traces, metrics),
                "{variables:?}"
            );
        }
    }

    #[test]
    fn what_cannot_be_honoured_is_named_once_for_each_signal_and_turns_it_off() {
        let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318");
        for (variables, expected) in [
            (
                &[("OTEL_TRACES_EXPORTER", "zipkin")][..],
                "OTEL_TRACES_EXPORTER is \"zipkin\"",
            ),
            (
                &[endpoint, ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json")],
                "OTEL_EXPORTER_OTLP_PROTOCOL is \"http/json\"",
            ),
            (
                &[endpoint, ("OTEL_EXPORTER_OTLP_TIMEOUT", "10s")],
                "OTEL_EXPORTER_OTLP_TIMEOUT is \"10s\"",
            ),
            (
                &[("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4318")],
                "OTEL_EXPORTER_OTLP_ENDPOINT is not a URL",
            ),
            (
                &[("OTEL_EXPORTER_OTLP_ENDPOINT", "ftp://user:sentinel@c")],
                "OTEL_EXPORTER_OTLP_ENDPOINT is not a URL",
            ),
        ] {
            let settings = read(variables);
            assert_eq!(settings.traces, None, "{variables:?}");
            assert!(
                settings.problems[0].starts_with(expected),
                "{:?}",
                settings.problems
            );
            assert!(
                !settings.problems[0].contains("sentinel"),
                "{:?}",
                settings.problems
            );
        }
    }

    #[test]
    fn only_scheme_host_and_port_of_an_endpoint_are_shown() {
        assert_eq!(
            http("http://u:sentinel@c:1/sentinel?k=sentinel").authority(),
            "http://c:1"
        );
        assert_eq!(http("https://c/v1/traces").authority(), "https://c");
    }

    #[test]
    fn the_parent_is_read_only_for_traces() {
        let parent = (
            "TRACEPARENT",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        );
        assert!(read(&[parent, ("OTEL_TRACES_EXPORTER", "otlp")]).parent.is_some());
        assert!(
            read(&[parent, ("OTEL_METRICS_EXPORTER", "otlp")])
                .parent
                .is_none()
        );
        assert!(
            read(&[("TRACEPARENT", "nonsense"), ("OTEL_TRACES_EXPORTER", "otlp")])
                .parent
                .is_none()
        );
    }
}

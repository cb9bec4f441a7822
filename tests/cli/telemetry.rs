//! What reaches a real OpenTelemetry Collector from the provider that a CLI runs.
//!
//! Knows nothing of how it is exported. Invariant: what is asserted is read after the collector ended,
//! which is when it has written everything it received.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::proxying::free_port;
use crate::reference::{Reference, proxy};
use crate::release::{Cli, cli};
use crate::workspace::Workspace;

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const SPAN: &str = "b7ad6b7169203331";
/// Stands for everything secret.
const SENTINEL: &str = "s3nt1nel-Zq9";

/// A collector that runs.
struct Collector {
    child: Child,
    folder: PathBuf,
    grpc: String,
    http: String,
}

impl Collector {
    fn start(workspace: &Workspace) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/tools/otelcol");
        let output = Command::new(script).output().expect("bash runs the script");
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let path = String::from_utf8(output.stdout).expect("UTF-8");

        let folder = workspace.path("collector");
        fs::create_dir(&folder).expect("a folder");
        let (grpc, http) = (free_port(), free_port());
        let config = folder.join("config.yaml");
        let text = format!(
            r"
receivers:
  otlp:
    protocols:
      grpc: {{ endpoint: '127.0.0.1:{grpc}' }}
      http: {{ endpoint: '127.0.0.1:{http}' }}
exporters:
  file/traces: {{ path: '{0}/traces.json' }}
  file/metrics: {{ path: '{0}/metrics.json' }}
service:
  telemetry: {{ metrics: {{ level: none }} }}
  pipelines:
    traces: {{ receivers: [otlp], exporters: [file/traces] }}
    metrics: {{ receivers: [otlp], exporters: [file/metrics] }}
",
            folder.display()
        );
        fs::write(&config, text).expect("a file");
        let mut child = Command::new(path.trim())
            .arg("--config")
            .arg(&config)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the collector starts");
        let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
        let mut said = Vec::new();
        // It says so once it listens; a collector that cannot ends, and with it the lines.
        loop {
            let line = lines
                .next()
                .unwrap_or_else(|| panic!("it ended: {said:#?}"))
                .expect("text");
            if line.contains("Everything is ready") {
                break;
            }
            said.push(line);
        }
        std::thread::spawn(move || lines.count());
        let url = |port: u16| format!("http://127.0.0.1:{port}");
        Self {
            child,
            folder,
            grpc: url(grpc),
            http: url(http),
        }
    }

    /// Ends it, and reads what it received.
    fn received(mut self) -> Received {
        kill_process(Pid::from_child(&self.child), Signal::TERM).expect("it runs");
        self.child.wait().expect("our child");
        let read = |name: &str| fs::read_to_string(self.folder.join(name)).unwrap_or_default();
        let (traces, metrics) = (read("traces.json"), read("metrics.json"));
        Received {
            traces: lines(&traces),
            metrics: lines(&metrics),
            text: traces + &metrics,
        }
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        // It may have ended, which is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn lines(text: &str) -> Vec<Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
}

/// The elements of `of` in each of the arrays `names`, one within the other.
fn within(values: &[Value], names: &[&str]) -> Vec<Value> {
    names.iter().fold(values.to_vec(), |values, name| {
        values
            .iter()
            .flat_map(|value| value[name].as_array().cloned().unwrap_or_default())
            .collect()
    })
}

/// Attributes as a map from name to text.
fn attributes(of: &Value) -> BTreeMap<String, String> {
    within(std::slice::from_ref(of), &["attributes"])
        .iter()
        .map(|attribute| {
            let value = attribute["value"]
                .as_object()
                .and_then(|value| value.values().next())
                .cloned();
            let text = match value.unwrap_or_default() {
                Value::String(text) => text,
                other => other.to_string(),
            };
            (attribute["key"].as_str().unwrap_or_default().to_owned(), text)
        })
        .collect()
}

/// What a collector received.
struct Received {
    traces: Vec<Value>,
    metrics: Vec<Value>,
    text: String,
}

impl Received {
    /// The provider's spans.
    fn spans(&self) -> Vec<Value> {
        let mut ours = within(&self.traces, &["resourceSpans"]);
        ours.retain(|sent| attributes(&sent["resource"])["service.name"] == "terraform-provider-egress");
        within(&ours, &["scopeSpans", "spans"])
    }

    #[track_caller]
    fn span(&self, name: &str) -> Value {
        let spans = self.spans();
        let found = spans.iter().find(|span| span["name"] == name).cloned();
        found.unwrap_or_else(|| panic!("no span {name} in {spans:#?}"))
    }

    /// The sum over the points of a counter that have all of these attributes.
    fn counted(&self, metric: &str, having: &[(&str, &str)]) -> u64 {
        let metrics = within(&self.metrics, &["resourceMetrics", "scopeMetrics", "metrics"]);
        let sums: Vec<_> = metrics
            .iter()
            .filter(|found| found["name"] == metric)
            .map(|found| found["sum"].clone())
            .collect();
        within(&sums, &["dataPoints"])
            .iter()
            .filter(|point| {
                let attributes = attributes(point);
                having
                    .iter()
                    .all(|(name, value)| attributes.get(*name).is_some_and(|found| found == value))
            })
            .map(|point| {
                point["asInt"]
                    .as_str()
                    .and_then(|count| count.parse::<u64>().ok())
                    .expect("a count")
            })
            .sum()
    }
}

fn traced(reference: &mut Reference, protocol: &str, endpoint: &str) {
    for (name, value) in [
        ("OTEL_EXPORTER_OTLP_PROTOCOL", protocol),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint),
        ("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test"),
        ("TRACEPARENT", &format!("00-{TRACE}-{SPAN}-01")),
    ] {
        reference.workspace.set_env(name, value);
    }
}

/// A create, a failed one and what a plan reads arrive under the caller's span, with nothing secret.
fn operations_arrive(cli: &Cli, protocol: &str, endpoint: impl Fn(&Collector) -> String) {
    let secret = if cli.has_write_only() {
        "password_wo"
    } else {
        "password_hash"
    };
    let version = if cli.has_write_only() {
        "password_wo_version = 1"
    } else {
        ""
    };
    let access = format!(
        "cloud_init = \"#cloud-config\\npassword: {SENTINEL}\"\n\
         access {{\n  allowed_cidrs = [\"10.0.0.0/8\"]\n  username = \"u\"\n  {secret} = \"{SENTINEL}\"\n  {version}\n}}"
    );
    let mut reference = Reference::one_proxy(cli, &access);
    let collector = Collector::start(&reference.workspace);
    traced(&mut reference, protocol, &endpoint(&collector));
    reference.workspace.set_env("TF_LOG", "trace");
    reference.workspace.apply();
    reference.workspace.plans_nothing();
    reference.workspace.destroy();
    let received = collector.received();

    for name in ["provider.create", "provider.list_by_tag", "provider.delete"] {
        let span = received.span(name);
        assert_eq!(span["traceId"], TRACE, "{span:#}");
        assert_eq!(span["parentSpanId"], SPAN, "{span:#}");
        let attributes = attributes(&span);
        assert_eq!(attributes["backend"], "reference");
        assert_eq!(attributes["kind"], "memory");
        assert_eq!(attributes["installation"], "prod");
        assert_eq!(attributes["outcome"], "done");
    }
    let resource = &within(&received.traces, &["resourceSpans"])[0]["resource"];
    let resource = attributes(resource);
    assert_eq!(resource["deployment.environment.name"], "test");
    assert_eq!(resource["service.version"], env!("CARGO_PKG_VERSION"));
    for operation in ["create", "delete"] {
        let having = [
            ("backend", "reference"),
            ("operation", operation),
            ("outcome", "done"),
        ];
        assert_eq!(
            received.counted("egress.provider.operations", &having),
            1,
            "{operation}"
        );
    }
    assert!(!received.text.contains(SENTINEL), "{}", received.text);
}

#[test]
#[ignore = "needs the CLIs and the OpenTelemetry Collector"]
fn operations_arrive_over_http() {
    operations_arrive(&cli("terraform", "1.11.4"), "http/protobuf", |collector| {
        collector.http.clone()
    });
}

#[test]
#[ignore = "needs the CLIs and the OpenTelemetry Collector"]
fn operations_arrive_over_grpc() {
    operations_arrive(&cli("tofu", "1.12.6"), "grpc", |collector| collector.grpc.clone());
}

/// The provider's own command line exports before it ends.
#[test]
#[ignore = "needs the CLIs and the OpenTelemetry Collector"]
fn a_command_line_run_flushes_before_it_ends() {
    let mut reference = Reference::one_proxy(&cli("terraform", "1.15.5"), "");
    let file = reference.workspace.path("egress.yaml");
    let world = reference.workspace.path("world.json");
    fs::write(
        &file,
        format!("installation: prod\nbackends:\n  reference:\n    memory:\n      file: {world:?}\n"),
    )
    .expect("a file");
    let collector = Collector::start(&reference.workspace);
    traced(&mut reference, "http/protobuf", &collector.http);
    reference
        .workspace
        .ask_provider(&["health", "--config", &file.to_string_lossy()])
        .succeeds();
    let received = collector.received();
    let check = received.span("provider.check");
    assert_eq!(
        (&check["traceId"], &check["parentSpanId"]),
        (&TRACE.into(), &SPAN.into())
    );
    assert_eq!(
        received.counted("egress.provider.operations", &[("operation", "check")]),
        1
    );
}

/// A failed operation is a span with the status error, counted by its kind.
#[test]
#[ignore = "needs the CLIs and the OpenTelemetry Collector"]
fn a_failure_arrives_with_its_kind() {
    let mut reference = Reference::one_proxy(&cli("terraform", "1.11.4"), "");
    let collector = Collector::start(&reference.workspace);
    traced(&mut reference, "grpc", &collector.grpc);
    reference.fault(serde_json::json!({
        "operation": "create", "step": "accept", "times": 1,
        "effect": { "fail": { "kind": "quota_exceeded", "message": "no room" } }
    }));
    reference
        .workspace
        .run(&["apply", "-auto-approve", "-no-color"])
        .fails_saying(&["No room"]);
    let received = collector.received();
    let create = received.span("provider.create");
    assert_eq!(create["status"]["code"], 2, "{create:#}");
    assert_eq!(attributes(&create)["error.kind"], "quota_exceeded");
    let having = [("operation", "create"), ("error.kind", "quota_exceeded")];
    assert_eq!(received.counted("egress.provider.errors", &having), 1);
}

/// Nobody listens, or somebody who never answers: everything works, and the log says so.
#[test]
#[ignore = "needs the CLIs"]
fn a_dead_collector_stops_nothing() {
    // The kernel accepts for it, and nobody reads.
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let silent = listener.local_addr().expect("its address").port();
    let nobody = free_port();
    for (protocol, port) in [
        ("http/protobuf", nobody),
        ("grpc", nobody),
        ("http/protobuf", silent),
        ("grpc", silent),
    ] {
        let mut reference = Reference::with(&cli("terraform", "1.11.4"), &proxy(""));
        traced(&mut reference, protocol, &format!("http://127.0.0.1:{port}"));
        let log = reference.workspace.path("debug.log");
        reference.workspace.set_env("TF_LOG_PROVIDER", "debug");
        reference.workspace.set_env("TF_LOG_PATH", log.to_string_lossy());
        reference.workspace.apply();
        reference.workspace.destroy();
        let log = fs::read_to_string(log).expect("a log");
        let lines = log
            .lines()
            .filter(|line| line.contains("telemetry could not be exported"));
        assert!(lines.clone().count() > 0, "{protocol} {port}: {log}");
        assert!(
            lines.clone().all(|line| line.contains("[DEBUG]")),
            "{protocol} {port}"
        );
        assert!(
            log.contains("traceID") && log.contains(TRACE),
            "lines name their span: {log}"
        );
    }
}

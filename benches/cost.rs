//! What the provider costs: `make bench`.
//!
//! Knows nothing of the crate's insides: it measures processes. Every figure is a median within one
//! run on one machine, so ratios can be compared and the rest only with care.
//!
//! It plays two parts. Started under the provider's own name it stands between the CLI and the real
//! provider, and notes what that process took of CPU and memory.

use std::error::Error;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use rcgen::{CertificateParams, KeyPair, PKCS_ECDSA_P521_SHA512};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const NAME: &str = "terraform-provider-egress";
/// The provider that is measured, with the reference backend; `scripts/bench` sets it to a release build,
/// so that this program itself may be built in any way.
const MEASURED: &str = "EGRESS_BENCH_PROVIDER";
/// Set for the process in between: where it notes what the provider took.
const USAGE: &str = "EGRESS_BENCH_USAGE";
/// The released binary, without the features that only tests have; `scripts/bench` sets it.
const RELEASED: &str = "EGRESS_BENCH_RELEASED";
/// Which CLI to plan with; `scripts/bench` sets it.
const CLI: &str = "EGRESS_BENCH_CLI";

const RESOURCES: usize = 1000;
const HANDSHAKES: usize = 40;
const PLANS: usize = 5;

fn main() -> ExitCode {
    let name = std::env::args_os().next().map(PathBuf::from);
    let between = name.is_some_and(|name| name.file_name().is_some_and(|name| name == NAME));
    let outcome = if between {
        stand_between()
    } else {
        measure().map(|()| ExitCode::SUCCESS)
    };
    outcome.unwrap_or_else(|error| {
        let _ = writeln!(std::io::stderr(), "error: {error}");
        ExitCode::FAILURE
    })
}

fn provider() -> PathBuf {
    std::env::var_os(MEASURED)
        .unwrap_or_else(|| env!("CARGO_BIN_EXE_terraform-provider-egress").into())
        .into()
}

/// Runs the provider and notes its CPU time in seconds and its peak memory in KiB.
fn stand_between() -> Result<ExitCode> {
    let status = Command::new(provider())
        .args(std::env::args_os().skip(1))
        .status()?;
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let seconds = |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    let cpu = seconds(usage.user_time()) + seconds(usage.system_time());
    if let Some(path) = std::env::var_os(USAGE) {
        let mut file = fs::OpenOptions::new().append(true).create(true).open(path)?;
        // One write: the lines of several processes do not mix.
        file.write_all(format!("{cpu} {}\n", usage.max_rss()).as_bytes())?;
    }
    Ok(ExitCode::from(
        u8::try_from(status.code().unwrap_or(1)).unwrap_or(1),
    ))
}

fn measure() -> Result<()> {
    let released = PathBuf::from(std::env::var_os(RELEASED).unwrap_or_else(|| provider().into_os_string()));
    let cli = PathBuf::from(std::env::var_os(CLI).ok_or("EGRESS_BENCH_CLI names no terraform")?);

    let handshake = median(
        (0..HANDSHAKES)
            .map(|_| handshake(&released))
            .collect::<Result<_>>()?,
    );

    let folder = tempfile::tempdir()?;
    let proxies = Folder::new(folder.path(), "proxies", &cli, &thousand_proxies(folder.path()))?;
    let data = Folder::new(folder.path(), "data", &cli, &thousand_data())?;
    proxies.apply()?;
    data.apply()?;
    let mut with = Vec::new();
    let mut without = Vec::new();
    for _ in 0..PLANS {
        // In turns, so that whatever else the machine does meets both.
        without.push(data.plan(None)?);
        with.push(proxies.plan(None)?);
    }
    let mut cpu = Vec::new();
    let mut rss = Vec::new();
    for run in 0..PLANS {
        let usage = folder.path().join(format!("usage-{run}"));
        proxies.plan(Some(&usage))?;
        let (seconds, kib) = sum(&fs::read_to_string(&usage)?)?;
        cpu.push(seconds);
        rss.push(kib / 1024.0);
    }

    let (with, without) = (median(with), median(without));
    let report = Report {
        cli: version_of(&cli)?,
        plan: [with, without],
        handshake_ms: handshake * 1e3,
        noop_plan_1000_ratio: with / without,
        plugin_cpu_s: median(cpu),
        plugin_rss_mb: median(rss),
        binary_mb: fs::metadata(&released)?.len() as f64 / 1e6,
    };
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", report.table())?;
    fs::write("bench.json", report.json())?;
    Ok(())
}

/// Seconds from exec to the handshake line, with the certificate a CLI hands over.
fn handshake(provider: &Path) -> Result<f64> {
    let key = KeyPair::generate_for(&PKCS_ECDSA_P521_SHA512)?;
    let certificate = CertificateParams::new(vec!["localhost".to_owned()])?
        .self_signed(&key)?
        .pem();
    let mut command = Command::new(provider);
    command
        .env(
            "TF_PLUGIN_MAGIC_COOKIE",
            "d602bf8f470bc67ca7faa0386276bbdd4330efaf76d1a219cb4d6991ca9872b2",
        )
        .env("PLUGIN_PROTOCOL_VERSIONS", "5,6")
        .env("PLUGIN_CLIENT_CERT", certificate)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let start = Instant::now();
    let mut child = command.spawn()?;
    let mut line = String::new();
    BufReader::new(child.stdout.take().ok_or("no stdout")?).read_line(&mut line)?;
    let took = start.elapsed();
    child.kill()?;
    child.wait()?;
    // A killed plugin cannot remove its socket.
    if let Some(path) = line.split('|').nth(3) {
        let _ = fs::remove_file(path);
    }
    if !line.starts_with("1|6|") {
        return Err(format!("{} answered {line:?} instead of a handshake", provider.display()).into());
    }
    Ok(took.as_secs_f64())
}

/// A folder with a configuration, and the CLI that runs in it.
struct Folder {
    path: PathBuf,
    cli: PathBuf,
}

impl Folder {
    fn new(root: &Path, name: &str, cli: &Path, main: &str) -> Result<Self> {
        let path = root.join(name);
        fs::create_dir_all(&path)?;
        fs::write(path.join("main.tf"), main)?;
        let measured = path.join("measured");
        let plain = path.join("plain");
        for (folder, binary) in [(&measured, std::env::current_exe()?), (&plain, provider())] {
            fs::create_dir_all(folder)?;
            symlink(binary, folder.join(NAME))?;
            let config = format!(
                "provider_installation {{\n dev_overrides {{\n \"egress-proxies/egress\" = {folder:?}\n }}\n direct {{}}\n}}\n"
            );
            fs::write(folder.with_extension("tfrc"), config)?;
        }
        Ok(Self {
            path,
            cli: cli.to_owned(),
        })
    }

    fn apply(&self) -> Result<()> {
        self.run(&["apply", "-auto-approve", "-no-color", "-input=false"], None)?;
        Ok(())
    }

    /// Seconds that a plan takes, which must find nothing to do.
    fn plan(&self, usage: Option<&Path>) -> Result<f64> {
        let took = self.run(
            &["plan", "-detailed-exitcode", "-no-color", "-input=false"],
            usage,
        )?;
        Ok(took.as_secs_f64())
    }

    fn run(&self, arguments: &[&str], usage: Option<&Path>) -> Result<Duration> {
        let mut command = Command::new(&self.cli);
        let config = if usage.is_some() {
            "measured.tfrc"
        } else {
            "plain.tfrc"
        };
        command
            .args(arguments)
            .current_dir(&self.path)
            .env("TF_CLI_CONFIG_FILE", self.path.join(config))
            .env("CHECKPOINT_DISABLE", "1")
            .env("TF_IN_AUTOMATION", "1")
            .env_remove("TF_LOG")
            .env_remove("TF_CLI_ARGS")
            .stdin(Stdio::null());
        if let Some(usage) = usage {
            command.env(USAGE, usage);
        }
        let start = Instant::now();
        let output = command.output()?;
        let took = start.elapsed();
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(format!("{arguments:?} ended with {}: {said}", output.status).into());
        }
        Ok(took)
    }
}

const REQUIRED: &str = r#"
terraform {
  required_providers {
    egress = {
      source = "egress-proxies/egress"
    }
  }
}
"#;

fn thousand_proxies(folder: &Path) -> String {
    let file = folder.join("reference.json");
    format!(
        r#"{REQUIRED}
provider "egress" {{
  installation = "bench"
  backend "reference" {{
    memory {{
      file = {file:?}
    }}
  }}
}}

resource "egress_proxy" "all" {{
  count = {RESOURCES}
  name  = "proxy-${{count.index}}"
}}
"#
    )
}

fn thousand_data() -> String {
    format!(
        r#"
resource "terraform_data" "all" {{
  count = {RESOURCES}
  input = "proxy-${{count.index}}"
}}
"#
    )
}

/// The CPU of every plugin process of one run, and the largest one's memory.
fn sum(usage: &str) -> Result<(f64, f64)> {
    let mut total = (0.0, 0.0_f64);
    for line in usage.lines() {
        let (cpu, rss) = line.split_once(' ').ok_or("a line without two numbers")?;
        total.0 += cpu.parse::<f64>()?;
        total.1 = total.1.max(rss.parse()?);
    }
    if total.1 == 0.0 {
        return Err("the CLI started no provider".into());
    }
    Ok(total)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len().is_multiple_of(2) {
        f64::midpoint(values[middle - 1], values[middle])
    } else {
        values[middle]
    }
}

fn version_of(cli: &Path) -> Result<String> {
    let output = Command::new(cli)
        .arg("version")
        .env("CHECKPOINT_DISABLE", "1")
        .env("TF_CLI_CONFIG_FILE", "/dev/null")
        .output()?;
    Ok(String::from_utf8(output.stdout)?
        .lines()
        .next()
        .unwrap_or_default()
        .to_owned())
}

struct Report {
    cli: String,
    /// Seconds: a plan of proxies, a plan of `terraform_data`.
    plan: [f64; 2],
    handshake_ms: f64,
    noop_plan_1000_ratio: f64,
    plugin_cpu_s: f64,
    plugin_rss_mb: f64,
    binary_mb: f64,
}

impl Report {
    fn table(&self) -> String {
        let [with, without] = self.plan;
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let rows = [
            (
                "from exec to the handshake line, median of 40",
                format!("{:.1} ms", self.handshake_ms),
            ),
            (
                "plan of 1,000 unchanged proxies over one of 1,000 `terraform_data`",
                format!(
                    "{:.2} ({with:.2} s over {without:.2} s)",
                    self.noop_plan_1000_ratio
                ),
            ),
            (
                "CPU of the provider in that plan",
                format!("{:.2} s", self.plugin_cpu_s),
            ),
            (
                "memory of the provider in that plan, peak",
                format!("{:.1} MB", self.plugin_rss_mb),
            ),
            ("binary, stripped", format!("{:.1} MB", self.binary_mb)),
        ];
        let mut table = format!("| {}, {cores} cores | |\n|---|---|", self.cli);
        for (what, figure) in rows {
            table.push_str(&format!("\n| {what} | {figure} |"));
        }
        table
    }

    fn json(&self) -> String {
        let figures = serde_json::json!({
            "handshake_ms": round(self.handshake_ms),
            "noop_plan_1000_ratio": round(self.noop_plan_1000_ratio),
            "plugin_cpu_s": round(self.plugin_cpu_s),
            "plugin_rss_mb": round(self.plugin_rss_mb),
            "binary_mb": round(self.binary_mb),
        });
        format!("{figures:#}\n")
    }
}

fn round(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

//! What many proxies on Kubernetes cost: `make bench`.
//!
//! Knows nothing of the crate's insides: it measures processes, and counts requests in the audit log of
//! a real API server. No kubelet runs: what is measured is the provider and the API, not how fast a node
//! starts containers.

#[path = "../tests/kube_node/mod.rs"]
mod kube_node;

use std::error::Error;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use kube_node::{Asked, Cluster, Setup};
use serde_json::json;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// The provider that is measured; `scripts/bench` sets it to a release build.
const MEASURED: &str = "EGRESS_BENCH_PROVIDER";
/// Which CLI to run; `scripts/bench` sets it.
const CLI: &str = "EGRESS_BENCH_CLI";

const PROXIES: usize = 500;

/// One command: how long it took, and what the API server was asked meanwhile.
struct Cost {
    command: &'static str,
    seconds: f64,
    asked: Vec<Asked>,
}

fn main() -> Result<()> {
    let cli = PathBuf::from(std::env::var_os(CLI).ok_or("EGRESS_BENCH_CLI names no terraform")?);
    let cluster = Cluster::start(Setup { controllers: true });
    let namespace = cluster.block_on(async |_| cluster.namespace().await);
    let folder = tempfile::tempdir()?;
    prepare(folder.path(), &cluster, &namespace)?;

    let mut costs = Vec::new();
    for (name, arguments) in [
        ("apply", &["apply", "-auto-approve"][..]),
        ("no-op plan", &["plan", "-detailed-exitcode"]),
        ("destroy", &["destroy", "-auto-approve"]),
    ] {
        let (seconds, asked) = cluster.requests(|| run(&cli, folder.path(), arguments));
        costs.push(Cost {
            command: name,
            seconds: seconds?,
            asked,
        });
    }

    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "| {PROXIES} Pods | seconds | requests to the API server |\n|---|---|---|"
    )?;
    for cost in &costs {
        let (seconds, requests) = (cost.seconds, cost.asked.len());
        writeln!(
            out,
            "| {} | {seconds:.1} | {requests}: {} |",
            cost.command,
            verbs(&cost.asked)
        )?;
    }
    let figures = costs.iter().map(|cost| {
        let name = cost.command.replace([' ', '-'], "_");
        (
            name,
            json!({ "seconds": cost.seconds, "requests": cost.asked.len() }),
        )
    });
    let figures: serde_json::Map<_, _> = figures.collect();
    fs::write(
        "bench-kubernetes.json",
        format!("{:#}\n", json!({ "proxies": PROXIES, "commands": figures })),
    )?;
    Ok(())
}

/// A configuration with all the proxies, and the provider that was just built in place of any other.
fn provider() -> PathBuf {
    std::env::var_os(MEASURED)
        .unwrap_or_else(|| env!("CARGO_BIN_EXE_terraform-provider-egress").into())
        .into()
}

fn prepare(folder: &Path, cluster: &Cluster, namespace: &str) -> Result<()> {
    let binaries = folder.join("bin");
    fs::create_dir(&binaries)?;
    std::os::unix::fs::symlink(provider(), binaries.join("terraform-provider-egress"))?;
    fs::write(
        folder.join("cli.tfrc"),
        format!(
            "provider_installation {{\n dev_overrides {{\n \"egress-proxies/egress\" = {binaries:?}\n }}\n direct {{}}\n}}\n"
        ),
    )?;
    let kubeconfig = cluster.kubeconfig();
    let main = format!(
        r#"terraform {{
  required_providers {{
    egress = {{
      source = "egress-proxies/egress"
    }}
  }}
}}

provider "egress" {{
  installation = "bench"

  backend "cluster" {{
    kubernetes {{
      kubeconfig = {kubeconfig:?}
      namespace  = "{namespace}"
    }}
  }}
}}

resource "egress_proxy" "all" {{
  count    = {PROXIES}
  name     = "proxy-${{count.index}}"
  wait_for = "none"

  access {{
    allowed_cidrs = ["10.0.0.0/8"]
  }}
}}
"#
    );
    fs::write(folder.join("main.tf"), main)?;
    Ok(())
}

/// Seconds that a command took, which must succeed.
fn run(cli: &Path, folder: &Path, arguments: &[&str]) -> Result<f64> {
    let start = Instant::now();
    let output = Command::new(cli)
        .args(arguments)
        .args(["-no-color", "-input=false"])
        .current_dir(folder)
        .env("TF_CLI_CONFIG_FILE", folder.join("cli.tfrc"))
        .env("CHECKPOINT_DISABLE", "1")
        .stdin(Stdio::null())
        .output()?;
    let took = start.elapsed();
    if !output.status.success() {
        let said = String::from_utf8_lossy(&[&output.stdout[..], &output.stderr[..]].concat()).into_owned();
        return Err(format!("{arguments:?} failed:\n{said}").into());
    }
    Ok(took.as_secs_f64())
}

/// How often each verb: `500 create, 1 list`.
fn verbs(asked: &[Asked]) -> String {
    let mut counts = std::collections::BTreeMap::<&str, usize>::new();
    for asked in asked {
        *counts.entry(&asked.verb).or_default() += 1;
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let words: Vec<_> = counts
        .iter()
        .map(|(verb, count)| format!("{count} {verb}"))
        .collect();
    words.join(", ")
}

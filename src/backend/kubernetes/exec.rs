//! Exec plugins: programs that give credentials, as `client.authentication.k8s.io` has it.
//!
//! It must not know where a plugin was configured. Invariants: a plugin never has our stdin, stdout
//! or stderr, which belong to the host; nothing of its stdout is in a text or a log; whoever stops
//! waiting for it ends it, with all that it started.

use std::collections::VecDeque;
use std::io;
use std::process::Stdio;
use std::time::Duration;

use http::HeaderValue;
use jiff::Timestamp;
use serde::Deserialize;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, BufReader};
use tokio::process::{Child, Command};

use super::access::{Exec, Material};
use super::classify::Failure;
use super::credentials::Identity;
use super::material::{Named, unusable};
use crate::contract::{ErrorKind, HealthReason, Secret};
use crate::transport::call;

/// How long a plugin may take; one that waits for input, which it never gets, takes for ever.
const BUDGET: Duration = Duration::from_secs(50);
/// How long its output may stay open after its end: a daemon it left behind may hold it.
const DRAIN: Duration = Duration::from_secs(2);
/// Longer outputs hold something else.
const LONGEST_OUTPUT: u64 = 1 << 20;
/// What is shown of a plugin's stderr where it failed.
const LAST_LINES: usize = 5;
const LONGEST_LINE: usize = 500;
/// Longer words may be tokens.
const LONGEST_WORD: usize = 40;

/// What a plugin gave.
pub(super) struct Given {
    pub(super) token: Option<HeaderValue>,
    pub(super) identity: Option<Identity>,
    pub(super) expires: Option<Timestamp>,
    /// What a person calls it.
    pub(super) whose: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ExecCredential {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    status: Option<Status>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Status {
    token: Option<String>,
    client_certificate_data: Option<String>,
    client_key_data: Option<String>,
    expiration_timestamp: Option<String>,
}

/// Runs a plugin. `cluster` is what it is told of the cluster.
///
/// # Errors
/// Permanent where it cannot be run, fails, or gives something else; Transient where it does not end.
///
/// # Cancel safety
/// Dropping this kills the plugin.
pub(super) async fn run(exec: &Exec, cluster: Option<serde_json::Value>) -> Result<Given, Failure> {
    let name = format!("the exec plugin {}", exec.command.display());
    let mut spec = serde_json::json!({ "interactive": false });
    if let Some(cluster) = cluster {
        spec["cluster"] = cluster;
    }
    let info = serde_json::json!({
        "kind": "ExecCredential",
        "apiVersion": exec.version.as_str(),
        "spec": spec,
    });
    let mut command = Command::new(&exec.command);
    command
        .args(&exec.args)
        .envs(exec.env.iter().map(|(name, value)| (name, value.expose())))
        .env("KUBERNETES_EXEC_INFO", info.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    // So that an interrupt at the terminal leaves it to us, and its children go with it.
    #[cfg(unix)]
    command.process_group(0);
    let child = command
        .spawn()
        .map_err(|error| not_started(&name, exec, &error))?;
    let finished = call::within(BUDGET, &name, finish(child))
        .await
        .map_err(|overran| {
            Failure::new(
                ErrorKind::Transient,
                HealthReason::CredentialsUnavailable,
                format!("{overran}; it gets no input, so it must not ask for any"),
            )
        })?;
    let (success, output, said) =
        finished.map_err(|error| unusable(&name, "it cannot be run").because(error.to_string()))?;
    if !success {
        let said = if said.is_empty() {
            "it said nothing on stderr".to_owned()
        } else {
            format!("it said: {}", said.join(" / "))
        };
        return Err(Failure::credentials(format!("{name} failed; {said}")));
    }
    given(&name, exec, &output)
}

fn not_started(name: &str, exec: &Exec, error: &io::Error) -> Failure {
    let hint = exec
        .install_hint
        .as_deref()
        .map_or_else(String::new, |hint| format!("; {}", hint.trim()));
    let why = match error.kind() {
        io::ErrorKind::NotFound => "it does not exist",
        io::ErrorKind::PermissionDenied => "permission denied",
        _ => "it cannot be started",
    };
    unusable(name, format!("{why}{hint}"))
}

/// Ends everything in a plugin's process group, unless it ended by itself.
struct Group(Option<u32>);

impl Drop for Group {
    fn drop(&mut self) {
        #[cfg(unix)]
        if let Some(pid) = self
            .0
            .and_then(|id| i32::try_from(id).ok())
            .and_then(rustix::process::Pid::from_raw)
        {
            // Not reaped yet, so that nobody else has the number; gone is as good as killed.
            let _ = rustix::process::kill_process_group(pid, rustix::process::Signal::KILL);
        }
    }
}

/// Success, stdout and the last lines of stderr.
async fn finish(mut child: Child) -> io::Result<(bool, Vec<u8>, Vec<String>)> {
    let mut group = Group(child.id());
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let mut output = Vec::new();
    let mut said = VecDeque::new();
    let status = {
        let reading = async {
            tokio::join!(all(stdout, &mut output), lines(stderr, &mut said));
        };
        tokio::pin!(reading);
        tokio::select! {
            status = child.wait() => {
                // What it wrote is there by now; an end of file may never come.
                let _ = call::within(DRAIN, "the plugin's output", reading).await;
                status?
            }
            () = &mut reading => child.wait().await?,
        }
    };
    group.0 = None;
    Ok((status.success(), output, said.into()))
}

async fn all(from: Option<impl AsyncRead + Unpin>, to: &mut Vec<u8>) {
    if let Some(from) = from {
        // What is cut off does not parse, which is all there is to say.
        let _ = from.take(LONGEST_OUTPUT).read_to_end(to).await;
    }
}

/// Logs what a plugin says, line by line, and keeps the last ones.
async fn lines(from: Option<impl AsyncRead + Unpin>, last: &mut VecDeque<String>) {
    let Some(from) = from else { return };
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    loop {
        line.clear();
        match (&mut from)
            .take(LONGEST_OUTPUT)
            .read_until(b'\n', &mut line)
            .await
        {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let text = shown(&String::from_utf8_lossy(&line));
        if text.is_empty() {
            continue;
        }
        tracing::info!(stderr = text, "the exec plugin says");
        if last.len() == LAST_LINES {
            last.pop_front();
        }
        last.push_back(text);
    }
}

/// A line without what could be a token.
fn shown(line: &str) -> String {
    let words: Vec<_> = line
        .split_whitespace()
        .map(|word| {
            if word.chars().count() > LONGEST_WORD {
                "…"
            } else {
                word
            }
        })
        .collect();
    words.join(" ").chars().take(LONGEST_LINE).collect()
}

fn given(name: &str, exec: &Exec, output: &[u8]) -> Result<Given, Failure> {
    let credential: ExecCredential =
        serde_json::from_slice(output).map_err(|_| unusable(name, "what it gave is no ExecCredential"))?;
    if credential.kind != "ExecCredential" {
        return Err(unusable(name, "what it gave is no ExecCredential"));
    }
    let expected = exec.version.as_str();
    if credential.api_version != expected {
        return Err(unusable(
            name,
            format!(
                "it gave an ExecCredential of {:?}, and is configured for {expected:?}: set the version that it speaks",
                shown(&credential.api_version)
            ),
        ));
    }
    let status = credential
        .status
        .ok_or_else(|| unusable(name, "it gave an ExecCredential without a status"))?;
    let nonempty = |text: Option<String>| text.filter(|text| !text.is_empty()).map(Secret::new);
    let token = nonempty(status.token)
        .map(|token| Named::new(format!("the token of {name}"), Material::Inline(token)).bearer())
        .transpose()?;
    let certificate = nonempty(status.client_certificate_data);
    let identity = match (certificate, nonempty(status.client_key_data)) {
        (Some(certificate), Some(key)) => {
            let certificate = Named::new(
                format!("the certificate of {name}"),
                Material::Inline(certificate),
            );
            let key = Named::new(format!("the key of {name}"), Material::Inline(key));
            Some(Identity {
                name: certificate.name.clone(),
                chain: certificate.certificates()?,
                key: key.key()?,
            })
        }
        (None, None) => None,
        _ => {
            return Err(unusable(
                name,
                "it gave a client certificate or its key, but not both",
            ));
        }
    };
    if token.is_none() && identity.is_none() {
        return Err(unusable(name, "it gave neither a token nor a client certificate"));
    }
    let expires = status
        .expiration_timestamp
        .filter(|text| !text.is_empty())
        .map(|text| text.parse::<Timestamp>())
        .transpose()
        .map_err(|_| unusable(name, "the expirationTimestamp it gave is no time in RFC 3339"))?;
    Ok(Given {
        token,
        identity,
        expires,
        whose: format!("what {name} gave"),
    })
}

#[cfg(all(test, unix))]
mod tests;

//! `import-by-tag`: what carries the installation's mark and is in no given state.
//!
//! Must not know any backend. Invariant: found (exit code 2, where that is asked for) and not wholly
//! found out (1) are told apart, and what could not be listed is named on stderr.

use clap::{Args, ValueEnum};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::hcl::{self, Import};
use super::states::{self, States};
use super::table::{counted, table};
use super::{Configured, Exit, Streams, work};
use crate::contract::State;
use crate::plugin::diagnostics::Diagnostics;
use crate::terraform::egress_proxy::written::written;
use crate::terraform::listing::{Inventory, Missing, Seen};

/// The arguments.
#[derive(Debug, Args)]
pub(super) struct ImportByTag {
    #[command(flatten)]
    configured: Configured,
    #[command(flatten)]
    states: states::Given,
    /// How to print what was found
    #[arg(long, value_enum, default_value_t)]
    output: Format,
    /// End with exit code 2 where something was found
    #[arg(long)]
    detailed_exitcode: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people
    #[default]
    Text,
    /// For programs
    Json,
    /// Import blocks and the resource blocks that match
    Hcl,
}

pub(super) fn run(arguments: &ImportByTag, streams: &mut Streams<'_>) -> Exit {
    let states = match arguments.states.read() {
        Ok(states) => states,
        Err(problems) => {
            streams.problems(&problems);
            return Exit::Error;
        }
    };
    work::run(&arguments.configured, streams, async |work, streams| {
        let found = work
            .orphans(&states.held, &CancellationToken::new(), streams)
            .await?;
        streams.print(&match arguments.output {
            Format::Text => text(&found, &states),
            Format::Json => json(&found, &states, work.installation.as_str()),
            Format::Hcl => hcl(&found, &states),
        });
        let nothing = found.instances.is_empty() && found.secondary.is_empty();
        Ok::<_, Diagnostics>(match (found.missing.is_empty(), nothing) {
            (false, _) => Exit::Error,
            (true, false) if arguments.detailed_exitcode => Exit::Found,
            (true, _) => Exit::Done,
        })
    })
}

/// The states that were considered, for a person.
pub(super) fn considered(states: &States) -> String {
    if states.read.is_empty() {
        return "No state was given: nothing counts as held.".to_owned();
    }
    let each: Vec<_> = states
        .read
        .iter()
        .map(|(name, count)| format!("{name} ({})", counted(*count, "proxy", "proxies")))
        .collect();
    format!("States: {}.", each.join(", "))
}

fn text(found: &Inventory<'_>, states: &States) -> String {
    let instances = found.instances.iter().map(|seen| {
        let instance = &seen.instance;
        let state = if instance.mark.pending {
            "unfinished"
        } else {
            instance.state.as_str()
        };
        [
            seen.id().to_string(),
            state.to_owned(),
            instance.ip.map(|ip| ip.to_string()).unwrap_or_default(),
            instance
                .created_at
                .map(|time| format!("{time:.0}"))
                .unwrap_or_default(),
        ]
    });
    let remains = found.secondary.iter().map(|left| {
        [
            left.id().to_string(),
            format!("only its {} {}", left.secondary.kind, left.secondary.name),
            String::new(),
            left.secondary
                .created_at
                .map(|time| format!("{time:.0}"))
                .unwrap_or_default(),
        ]
    });
    let rows: Vec<_> = instances.chain(remains).collect();
    let count = counted(rows.len(), "orphan", "orphans");
    let rows = if rows.is_empty() {
        String::new()
    } else {
        table(["ID", "STATE", "IP", "CREATED"], &rows)
    };
    format!("{rows}{} {count} found.\n", considered(states))
}

fn json(found: &Inventory<'_>, states: &States, installation: &str) -> String {
    let instances: Vec<_> = found
        .instances
        .iter()
        .map(|seen| {
            let (instance, mark) = (&seen.instance, &seen.instance.mark);
            json!({
                "id": seen.id().to_string(),
                "backend": seen.open.name.as_str(),
                "kind": seen.open.backend.profile().kind,
                "key": instance.id.as_str(),
                "namespace": mark.key.namespace.as_str(),
                "name": mark.key.name.as_str(),
                "uid": mark.uid.to_string(),
                "incarnation": mark.incarnation.to_string(),
                "target": instance.target.to_string(),
                "state": instance.state.as_str(),
                "pending": mark.pending,
                "ip": instance.ip.map(|ip| ip.to_string()),
                "egress_ip": instance.egress_ip.map(|ip| ip.to_string()),
                "port": mark.facts.port,
                "created_at": instance.created_at.map(|time| time.to_string()),
                "spec_sha256": mark.spec_sha256,
                "labels": instance.labels,
            })
        })
        .collect();
    let remains: Vec<_> = found
        .secondary
        .iter()
        .map(|left| {
            json!({
                "id": left.id().to_string(),
                "backend": left.open.name.as_str(),
                "kind": left.secondary.kind,
                "name": left.secondary.name,
                "uid": left.secondary.uid.to_string(),
                "created_at": left.secondary.created_at.map(|time| time.to_string()),
            })
        })
        .collect();
    format!(
        "{:#}",
        json!({
            "installation": installation,
            "complete": found.missing.is_empty(),
            "states": states_json(states),
            "instances": instances,
            "secondary": remains,
            "unreadable": missing_json(&found.missing),
        })
    )
}

/// The states that were considered, for a program.
pub(super) fn states_json(states: &States) -> serde_json::Value {
    let each = states
        .read
        .iter()
        .map(|(name, count)| json!({ "name": name, "proxies": count }));
    each.collect()
}

/// What could not be listed, for a program.
pub(super) fn missing_json(missing: &[Missing<'_>]) -> serde_json::Value {
    let each = missing.iter().map(|part| {
        json!({
            "backend": part.open.name.as_str(),
            "scope": part.scope(),
            "message": part.message,
        })
    });
    each.collect()
}

fn hcl(found: &Inventory<'_>, states: &States) -> String {
    let mut imports = Vec::new();
    let mut remarks = Vec::new();
    for seen in &found.instances {
        match left_out(seen) {
            Some(why) => remarks.push(format!(
                "# Not imported: {} {why}\n",
                hcl::quoted(&seen.id().to_string())
            )),
            None => imports.push(import(seen)),
        }
    }
    for left in &found.secondary {
        remarks.push(format!(
            "# Not imported: of {} only its {} {} is left; `gc` removes it.\n",
            hcl::quoted(&left.id().to_string()),
            left.secondary.kind,
            left.secondary.name
        ));
    }
    let document = hcl::document(&imports, &states.names);
    let between = if remarks.is_empty() || document.is_empty() {
        ""
    } else {
        "\n"
    };
    format!("{}{between}{document}", remarks.concat())
}

/// Why an instance is not worth an import.
fn left_out(seen: &Seen<'_>) -> Option<&'static str> {
    if seen.instance.mark.pending {
        Some(
            "is unfinished: an apply is making it or was cut off, and the next one goes on with it; else `gc` removes it.",
        )
    } else if seen.instance.state == State::Terminated {
        Some("ended and can only be replaced.")
    } else {
        None
    }
}

fn import(seen: &Seen<'_>) -> Import {
    let key = &seen.instance.mark.key;
    let written = written(&seen.instance, &seen.open.name);
    let mut remarks = Vec::new();
    if seen.instance.state == State::Stopped {
        remarks.push("It is stopped: the first apply starts it.".to_owned());
    }
    if written.is_completed_by_apply() {
        remarks.push(
            "The first apply also takes over what no mark holds, without a change to the proxy.".to_owned(),
        );
    }
    Import {
        id: seen.id().to_string(),
        names: vec![
            key.name.to_string(),
            format!("{}_{}", key.namespace, key.name),
            format!("{}_{}_{}", seen.open.name, key.namespace, key.name),
            seen.id().to_string().replace('/', "_"),
        ],
        written,
        remarks,
    }
}

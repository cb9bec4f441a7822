//! `gc`: deletes what carries the installation's mark and is in no given state, under guards.
//!
//! Must not decide what may go. Invariants: nothing is deleted without `--delete`, and then not without
//! a yes; what was considered, what was done and what was left is told.

use std::time::Duration;

use clap::Args;
use futures_util::StreamExt as _;
use jiff::Timestamp;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::import_by_tag::{considered, missing_json, states_json};
use super::states::{self, States};
use super::table::{counted, table};
use super::work::{self, Work};
use super::{Configured, Exit, Output, Streams};
use crate::plugin::diagnostics::{Diagnostic, Diagnostics};
use crate::terraform::gc::{self, Fate, Guards, Item};
use crate::terraform::listing::Missing;
use crate::terraform::timeouts;

/// Why what was handed over stays, and the way out.
const UNLESS_COMPLETE: &str =
    "a state that was not given may hold it; if there is none, say so with --complete";

/// The arguments.
#[derive(Debug, Args)]
pub(super) struct Gc {
    #[command(flatten)]
    configured: Configured,
    #[command(flatten)]
    states: states::Given,
    /// The states are all of this installation's: collect what was handed over, too
    #[arg(long)]
    complete: bool,
    /// Collect nothing younger than this
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = timeouts::parse)]
    min_age: Duration,
    /// Delete; without it, only tell
    #[arg(long)]
    delete: bool,
    /// Delete without asking
    #[arg(long, requires = "delete")]
    yes: bool,
    /// How to print the report
    #[arg(long, value_enum, default_value_t)]
    output: Output,
    /// Without --delete: end with exit code 2 where something would go
    #[arg(long, conflicts_with = "delete")]
    detailed_exitcode: bool,
}

pub(super) fn run(arguments: &Gc, streams: &mut Streams<'_>) -> Exit {
    let states = match given(arguments) {
        Ok(states) => states,
        Err(problems) => {
            streams.problems(&problems);
            return Exit::Error;
        }
    };
    work::run(&arguments.configured, streams, async |work, streams| {
        collect(arguments, &states, work, streams).await
    })
}

fn given(arguments: &Gc) -> Result<States, Diagnostics> {
    let states = arguments.states.read()?;
    if states.read.is_empty() && !arguments.states.says_none() {
        return Err(Diagnostic::error("No state was given")
            .detail(
                "What a state holds must stay, so give all that may hold proxies of this installation with --state, or say with --no-state that there is none.",
            )
            .into());
    }
    Ok(states)
}

async fn collect(
    arguments: &Gc,
    states: &States,
    work: &Work,
    streams: &mut Streams<'_>,
) -> Result<Exit, Diagnostics> {
    let guards = Guards {
        min_age: arguments.min_age,
        complete: arguments.complete,
    };
    let token = CancellationToken::new();
    let found = work.orphans(&states.held, &token, streams).await?;
    let items = gc::survey(&found, guards, Timestamp::now());
    let going = items.iter().filter(|item| item.protection.is_none()).count();

    let mut report = Report {
        arguments,
        states,
        work,
        missing: &found.missing,
        items: &items,
        fates: vec![None; items.len()],
        interrupted: false,
    };
    if !arguments.delete {
        streams.print(&report.show());
        return Ok(match (found.missing.is_empty(), going) {
            (false, _) => Exit::Error,
            (true, 1..) if arguments.detailed_exitcode => Exit::Found,
            (true, _) => Exit::Done,
        });
    }
    if going > 0 {
        if !arguments.yes {
            // Whoever is asked must see what for.
            streams.remark(&report.text());
        }
        let question = format!("Delete {}?", counted(going, "orphan", "orphans"));
        work::confirm(streams, &question, arguments.yes)?;
        let doing = format!("Deleting {}", counted(going, "orphan", "orphans"));
        let mut deleted = gc::collect(&items, &work.installation, guards, &token);
        let fates = &mut report.fates;
        let deleting = async {
            while let Some((place, fate)) = deleted.next().await {
                if let Some(slot) = fates.get_mut(place) {
                    *slot = Some(fate);
                }
            }
        };
        let patient = work::patiently(streams, &doing, deleting);
        let ((), interrupted) = work::interruptible(&token, patient).await;
        report.interrupted = interrupted;
    }
    streams.print(&report.show());
    let all_gone = report
        .items
        .iter()
        .zip(&report.fates)
        .all(|(item, fate)| item.protection.is_some() || *fate == Some(Fate::Gone));
    Ok(if all_gone && found.missing.is_empty() {
        Exit::Done
    } else {
        Exit::Error
    })
}

/// What was considered, what was done, and what was left and why.
struct Report<'a, 's> {
    arguments: &'a Gc,
    states: &'a States,
    work: &'a Work,
    missing: &'a [Missing<'s>],
    items: &'a [Item],
    /// What became of each item that was to go.
    fates: Vec<Option<Fate>>,
    interrupted: bool,
}

/// What is said of an item.
struct Line {
    action: &'static str,
    reason: Option<String>,
}

impl Report<'_, '_> {
    fn show(&self) -> String {
        match self.arguments.output {
            Output::Text => self.text(),
            Output::Json => self.json(),
        }
    }

    fn line(item: &Item, fate: Option<&Fate>) -> Line {
        let (action, reason) = match (&item.protection, fate) {
            (Some(why), _) => ("stays", Some(why.told(UNLESS_COMPLETE))),
            (None, None) => ("would go", None),
            (None, Some(Fate::Gone)) => ("gone", None),
            (None, Some(Fate::Left(why))) => ("left", Some(why.clone())),
            (None, Some(Fate::Failed(why))) => ("failed", Some(why.clone())),
        };
        Line { action, reason }
    }

    fn lines(&self) -> impl Iterator<Item = (&Item, Line)> {
        self.items
            .iter()
            .zip(&self.fates)
            .map(|(item, fate)| (item, Self::line(item, fate.as_ref())))
    }

    fn count(&self, action: &str) -> usize {
        self.lines().filter(|(_, line)| line.action == action).count()
    }

    fn text(&self) -> String {
        let rows: Vec<_> = self
            .lines()
            .map(|(item, line)| {
                [
                    item.id.to_string(),
                    item.kind.to_string(),
                    item.age.map(age).unwrap_or_else(|| "unknown".to_owned()),
                    match line.reason {
                        Some(reason) => format!("{}: {reason}", line.action),
                        None => line.action.to_owned(),
                    },
                ]
            })
            .collect();
        let table = if rows.is_empty() {
            String::new()
        } else {
            table(["ID", "WHAT", "AGE", "RESULT"], &rows)
        };
        let stays = self.count("stays");
        let end = if self.fates.iter().any(Option::is_some) {
            let interrupted = if self.interrupted {
                " It was interrupted: run it again."
            } else {
                ""
            };
            format!(
                "{} gone, {} left, {} failed, {stays} protected.{interrupted}",
                self.count("gone"),
                self.count("left"),
                self.count("failed")
            )
        } else if self.count("would go") > 0 && !self.arguments.delete {
            format!(
                "{} would go, {stays} protected. Run it again with --delete to delete.",
                self.count("would go")
            )
        } else {
            format!("{} would go, {stays} protected.", self.count("would go"))
        };
        format!(
            "{table}{} Installation: {}. Nothing younger than {} goes.\n{end}\n",
            considered(self.states),
            self.work.installation,
            timeouts::show(self.arguments.min_age)
        )
    }

    fn json(&self) -> String {
        let items: Vec<_> = self
            .lines()
            .map(|(item, line)| {
                json!({
                    "id": item.id.to_string(),
                    "what": item.kind.to_string(),
                    "age_seconds": item.age.map(|age| age.as_secs()),
                    "result": line.action,
                    "reason": line.reason,
                })
            })
            .collect();
        format!(
            "{:#}",
            json!({
                "installation": self.work.installation.as_str(),
                "complete": self.missing.is_empty(),
                "min_age_seconds": self.arguments.min_age.as_secs(),
                "deleted": self.arguments.delete,
                "interrupted": self.interrupted,
                "states": states_json(self.states),
                "items": items,
                "unreadable": missing_json(self.missing),
            })
        )
    }
}

/// An age to the minute, or below that to the second.
fn age(age: Duration) -> String {
    let seconds = age.as_secs();
    let days = seconds / 86400;
    if days > 0 {
        format!("{days}d{}h", seconds / 3600 % 24)
    } else if seconds >= 3600 {
        timeouts::show(Duration::from_secs(seconds / 60 * 60))
    } else {
        timeouts::show(Duration::from_secs(seconds.max(1)))
    }
}

//! The action `egress_gc`: garbage collection from within Terraform, which shows an action no state.
//!
//! Must not know any backend, nor what may be collected. Invariant: what is kept is named by the
//! configuration, and nothing is deleted that does not say `delete = true`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::StreamExt as _;
use jiff::Timestamp;

use super::gc::{self, Fate, Guards};
use super::orphans::{Held, orphans};
use super::provider::Sessions;
use super::provider_health::{asked, check_backend};
use super::proxy_list::{check_namespace, told};
use super::{listing, timeouts};
use crate::contract::ListFilter;
use crate::plugin::diagnostics::{Diagnostic, Diagnostics, Path};
use crate::plugin::provider::{Action, Call, Events};
use crate::plugin::schema::{Attribute, Block, Schema};
use crate::plugin::types::Type;
use crate::plugin::value::Value;

const BACKEND: &str = "backend";
const NAMESPACE: &str = "namespace";
const KEEP_IDS: &str = "keep_ids";
const MIN_AGE: &str = "min_age";
const COMPLETE: &str = "complete";
const DELETE: &str = "delete";

/// Why what was handed over stays, and the way out.
const UNLESS_COMPLETE: &str =
    "a state whose proxies `keep_ids` leaves out may hold it; if there is none, set complete = true";

/// The name of the action.
pub(crate) const NAME: &str = "egress_gc";

/// The action.
#[derive(Debug)]
pub(crate) struct GcAction {
    sessions: Arc<Sessions>,
}

impl GcAction {
    pub(crate) fn new(sessions: Arc<Sessions>) -> Self {
        Self { sessions }
    }
}

/// The smallest age that a configuration gives.
fn min_age(config: &Value) -> Result<Duration, Diagnostic> {
    match config.get(MIN_AGE).as_str() {
        None => Ok(gc::MIN_AGE),
        Some(text) => timeouts::parse(text).map_err(|error| {
            Diagnostic::error("min_age cannot be used")
                .detail(format!("{error}."))
                .at(Path::root().attribute(MIN_AGE))
        }),
    }
}

/// What a configuration keeps, as far as it is known.
fn kept(config: &Value) -> Result<Held, Diagnostics> {
    let mut held = Held::default();
    let mut problems = Diagnostics::new();
    for (index, id) in (0..).zip(config.get(KEEP_IDS).as_list()) {
        let refused = match id.as_str() {
            Some(text) => match held.add_id(text) {
                Ok(()) => continue,
                Err(error) => error.to_string(),
            },
            None if id.is_unknown() => continue,
            None => format!("element {index} is null"),
        };
        let problem = Diagnostic::error("An id to keep cannot be read").detail(format!(
            "{}. Give the ids of the proxies as their attribute id shows them.",
            super::failure::sentence(&refused).trim_end_matches('.')
        ));
        problems.push(problem.at(Path::root().attribute(KEEP_IDS).index(index)));
    }
    if problems.has_errors() {
        Err(problems)
    } else {
        Ok(held)
    }
}

#[async_trait]
impl Action for GcAction {
    fn schema(&self) -> Schema {
        Schema::new(
            Block::new()
                .describe("Deletes what carries the installation's mark and is neither kept nor young.")
                .attributes([
                    Attribute::list(KEEP_IDS, Type::String)
                        .required()
                        .describe("The ids of all proxies to keep: an action sees no state."),
                    Attribute::string(BACKEND).describe("Only this backend. Default: all."),
                    Attribute::string(NAMESPACE).describe("Only this namespace. Default: all."),
                    Attribute::string(MIN_AGE).describe("Nothing younger is deleted. Default `1h`."),
                    Attribute::bool(COMPLETE).describe(
                        "Whether `keep_ids` are all of the installation's proxies. Without it, what was handed over to a state stays.",
                    ),
                    Attribute::bool(DELETE).describe("Whether to delete. Without it, the action only tells."),
                ]),
        )
    }

    async fn validate(&self, _call: &Call, config: Value) -> Diagnostics {
        let mut problems = check_backend(&config);
        problems.extend(check_namespace(&config));
        if let Err(problem) = min_age(&config) {
            problems.push(problem);
        }
        if let Err(more) = kept(&config) {
            problems.extend(more);
        }
        problems
    }

    async fn invoke(&self, call: &Call, config: Value, progress: Events<String>) -> Diagnostics {
        match self.run(call, &config, &progress).await {
            Ok(problems) | Err(problems) => problems,
        }
    }
}

impl GcAction {
    async fn run(
        &self,
        call: &Call,
        config: &Value,
        progress: &Events<String>,
    ) -> Result<Diagnostics, Diagnostics> {
        let session = self.sessions.current()?;
        let installation = session.owner()?;
        let backends = asked(&session, config)?;
        let held = kept(config)?;
        let guards = Guards {
            min_age: min_age(config)?,
            complete: config.get(COMPLETE).as_bool().unwrap_or_default(),
        };
        let delete = config.get(DELETE).as_bool().unwrap_or_default();
        let filter = ListFilter {
            installation: installation.clone(),
            namespace: config.get(NAMESPACE).as_str().and_then(|name| name.parse().ok()),
        };
        let inventory = listing::of_all(&backends, &filter, call.token()).await;
        let mut problems = told(&inventory.missing);
        let items = gc::survey(&orphans(inventory, &held), guards, Timestamp::now());
        for item in &items {
            let line = match &item.protection {
                Some(why) => format!("{} ({}) stays: {}", item.id, item.kind, why.told(UNLESS_COMPLETE)),
                None if delete => continue,
                None => format!("{} ({}) would go", item.id, item.kind),
            };
            progress.send(line).await;
        }
        let going = items.iter().filter(|item| item.protection.is_none()).count();
        if !delete {
            let told = format!("{going} of {} would go; set delete = true to delete", items.len());
            progress.send(told).await;
            return Ok(problems);
        }
        let mut counts = BTreeMap::from([("gone", 0_usize), ("left", 0), ("failed", 0)]);
        let mut fates = gc::collect(&items, &installation, guards, call.token());
        while let Some((place, fate)) = fates.next().await {
            let Some(item) = items.get(place) else { continue };
            let (count, line) = match fate {
                Fate::Gone => ("gone", format!("{} ({}) is gone", item.id, item.kind)),
                Fate::Left(why) => ("left", format!("{} ({}) stays: {why}", item.id, item.kind)),
                Fate::Failed(why) => {
                    problems.push(
                        Diagnostic::error(format!("Cannot delete {}", item.id))
                            .detail(super::failure::sentence(&why)),
                    );
                    (
                        "failed",
                        format!("{} ({}) could not be deleted", item.id, item.kind),
                    )
                }
            };
            *counts.entry(count).or_default() += 1;
            progress.send(line).await;
        }
        let told = counts.iter().map(|(what, count)| format!("{count} {what}"));
        progress.send(told.collect::<Vec<_>>().join(", ")).await;
        Ok(problems)
    }
}

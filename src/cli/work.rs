//! What the commands that work on backends have in common: the configuration they read, the backends
//! they ask, how they wait, and how they ask a person.
//!
//! Must not know any command. Invariant: nobody is asked who does not sit there, and silence is no
//! consent.

use std::io::BufRead;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::{Configured, Exit, Streams, states};
use crate::contract::observe::Meter;
use crate::contract::{BackendName, Installation, ListFilter};
use crate::plugin::diagnostics::{Diagnostic, Diagnostics};
use crate::plugin::signals::Signals;
use crate::terraform::listing::{self, Inventory};
use crate::terraform::orphans::{Held, orphans};
use crate::terraform::session::{Open, Session};
use crate::transport::call::within;

/// Work that takes longer than this says what it is doing.
const PATIENCE: Duration = Duration::from_secs(1);

/// The backends that a command works on.
pub(super) struct Work {
    session: Session,
    only: Option<BackendName>,
    /// Whose proxies it works on.
    pub(super) installation: Installation,
}

impl Work {
    fn new(
        configured: &Configured,
        meter: &Arc<dyn Meter>,
        streams: &mut Streams<'_>,
    ) -> Result<Self, Diagnostics> {
        let config = configured.read()?;
        streams.problems(&config.warnings);
        let only = match &configured.backend {
            Some(name) => Some(name.parse::<BackendName>().map_err(|error| {
                Diagnostics::from(Diagnostic::error("--backend cannot be used").detail(format!("{error}.")))
            })?),
            None => None,
        };
        let session = Session::new(&config, meter);
        let installation = session.owner()?;
        if let Some(name) = &only {
            session.open(name)?;
        }
        Ok(Self {
            session,
            only,
            installation,
        })
    }

    /// The backends that were asked for.
    pub(super) fn backends(&self) -> Result<Vec<&Open>, Diagnostics> {
        if let Some(name) = &self.only {
            return Ok(vec![self.session.open(name)?]);
        }
        let mut backends = Vec::new();
        for open in self.session.all()? {
            backends.push(open?);
        }
        Ok(backends)
    }

    /// What these backends have of the installation and `held` does not hold. What could not be listed
    /// is told.
    pub(super) async fn orphans(
        &self,
        held: &Held,
        token: &CancellationToken,
        streams: &mut Streams<'_>,
    ) -> Result<Inventory<'_>, Diagnostics> {
        let backends = self.backends()?;
        let filter = ListFilter {
            installation: self.installation.clone(),
            namespace: None,
        };
        let listed = listing::of_all(&backends, &filter, token);
        let inventory = patiently(streams, "Listing the backends", listed).await;
        let found = orphans(inventory, held);
        for part in &found.missing {
            streams.remark(&format!(
                "Not listed: {} of the backend {}: {}",
                part.scope(),
                part.open.name,
                part.message
            ));
        }
        if !found.missing.is_empty() {
            streams.remark("The result is partial: what is there is not in it.");
        }
        Ok(found)
    }

    /// The backend of that name.
    pub(super) fn backend(&self, name: &BackendName) -> Result<&Open, Diagnostics> {
        Ok(self.session.open(name)?)
    }
}

/// Does a command's work with the configured backends.
pub(super) fn run(
    configured: &Configured,
    streams: &mut Streams<'_>,
    work: impl AsyncFnOnce(&Work, &mut Streams<'_>) -> Result<Exit, Diagnostics>,
) -> Exit {
    let runtime = match crate::plugin::runtime() {
        Ok(runtime) => runtime,
        Err(error) => {
            streams.remark(&format!("Threads cannot be started: {error}"));
            return Exit::Error;
        }
    };
    let done = runtime.block_on(super::observed(async |meter| {
        let opened = Work::new(configured, &meter, streams)?;
        work(&opened, streams).await
    }));
    done.unwrap_or_else(|problems| {
        streams.problems(&problems);
        Exit::Error
    })
}

/// Waits for work, and says so where it takes its time.
pub(super) async fn patiently<T: Send>(
    streams: &mut Streams<'_>,
    doing: &str,
    work: impl Future<Output = T> + Send,
) -> T {
    let mut work = Box::pin(work);
    match within(PATIENCE, doing, &mut work).await {
        Ok(output) => output,
        Err(_slow) => {
            streams.remark(&format!("{doing} …"));
            work.await
        }
    }
}

/// Does work until it ends, and asks it to come to an end when a person interrupts it or the system
/// does. Whether it was interrupted comes with the result.
pub(super) async fn interruptible<T: Send>(
    token: &CancellationToken,
    work: impl Future<Output = T> + Send,
) -> (T, bool) {
    let mut work = Box::pin(work);
    let Ok(mut signals) = Signals::listen() else {
        // Without them a signal ends the process, after which everything can be done again too.
        return (work.await, false);
    };
    tokio::select! {
        output = &mut work => (output, false),
        _signal = signals.next() => {
            token.cancel();
            (work.await, true)
        }
    }
}

/// Asks a person before something is done.
///
/// # Errors
/// Where nobody sits there, or the answer is not yes.
pub(super) fn confirm(streams: &mut Streams<'_>, question: &str, yes: bool) -> Result<(), Diagnostics> {
    let answer = || {
        let mut line = String::new();
        std::io::stdin().lock().read_line(&mut line).map(|_| line)
    };
    decide(streams, question, yes, states::has_person(), answer)
}

fn decide(
    streams: &mut Streams<'_>,
    question: &str,
    yes: bool,
    has_person: bool,
    answer: impl FnOnce() -> std::io::Result<String>,
) -> Result<(), Diagnostics> {
    if yes {
        return Ok(());
    }
    if !has_person {
        return Err(Diagnostic::error("Nothing was done: nobody can be asked")
            .detail("Standard input is no terminal. Give --yes to go ahead without being asked.")
            .into());
    }
    streams.remark(&format!("{question} Only \"yes\" goes ahead:"));
    match answer() {
        Ok(line) if line.trim() == "yes" => Ok(()),
        _ => Err(Diagnostic::error("Nothing was done: the answer was not yes").into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(yes: bool, has_person: bool, answer: &str) -> (bool, String) {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let mut streams = Streams {
            out: &mut out,
            err: &mut err,
        };
        let decided = decide(&mut streams, "Delete 2?", yes, has_person, || {
            Ok(answer.to_owned())
        });
        assert!(out.is_empty());
        (decided.is_ok(), String::from_utf8(err).expect("UTF-8"))
    }

    #[test]
    fn only_yes_is_consent() {
        for (answer, expected) in [
            ("yes\n", true),
            (" yes \r\n", true),
            ("y\n", false),
            ("YES\n", false),
            ("no\n", false),
            ("\n", false),
            ("", false),
        ] {
            let (goes, said) = asked(false, true, answer);
            assert_eq!(goes, expected, "{answer:?}");
            assert!(said.contains("Delete 2?"), "{said}");
        }
    }

    #[test]
    fn without_a_person_there_is_no_question() {
        assert_eq!(asked(false, false, "yes\n"), (false, String::new()));
        assert_eq!(asked(true, false, "no\n"), (true, String::new()));
        assert_eq!(asked(true, true, "no\n"), (true, String::new()));
    }
}

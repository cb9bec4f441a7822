//! The suite that every backend is judged by: one case for each rule of the contract, run by one
//! test each, over every backend and every decorator (cargo feature `testing`).
//!
//! It must not know a backend: it drives one through [`Harness`], which a backend's tests implement,
//! and reads what to expect from its profile. Invariant: no case passes by being skipped; what a
//! harness cannot stage it declares, with the reason, and the runner says so.
//!
//! # Adding a backend
//! Implement [`Harness`] in `tests/conformance_<backend>.rs` and write
//! ```ignore
//! egress::conformance_tests!(#[ignore = "needs libvirtd"] plain, KvmHarness::new().await);
//! ```
//! which makes one test for each case, run with the real clock. Each case gets a harness of its own,
//! names that nobody else uses, and an installation of its own, so cases may share a world.

pub mod harness;
pub mod memory;
pub mod mutation;

mod cases;
#[cfg(test)]
mod tests;
mod trial;

use std::fmt;
use std::pin::Pin;

pub use cases::CASES;
pub use harness::{Ability, Control, Harness, Sighting, Stage, Through};
use trial::Trial;

use crate::contract::Error;
use crate::transport::call::{Limits, bounded};

/// What a case found wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken(pub String);

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<Error> for Broken {
    fn from(error: Error) -> Self {
        let mut text = format!("unexpected {} error: {error}", error.kind().as_str());
        let mut source = std::error::Error::source(&error);
        while let Some(cause) = source {
            text += &format!(": {cause}");
            source = cause.source();
        }
        Self(text)
    }
}

/// What a case returns.
pub type Verdict = Result<(), Broken>;

/// A case under way.
type Running<'a> = Pin<Box<dyn Future<Output = Verdict> + Send + 'a>>;

/// One rule of the contract and how to prove it.
#[derive(Clone, Copy)]
pub struct Case {
    /// The case's name, as the rustdoc of [`Backend`](crate::contract::Backend) cites it.
    pub name: &'static str,
    /// The rule, in one sentence.
    pub rule: &'static str,
    /// What a harness must be able to stage for it.
    pub needs: &'static [Ability],
    /// The proof.
    run: for<'a> fn(&'a Trial<'a>) -> Running<'a>,
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Case")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// How a case ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The rule holds.
    Passed,
    /// The harness declared that it cannot stage it: what, and why.
    Skipped(Ability, &'static str),
    /// The rule is broken.
    Failed(Broken),
}

impl Case {
    /// Runs the case on a harness of its own.
    pub async fn run(&self, harness: &dyn Harness) -> Ended {
        let lacks = self
            .needs
            .iter()
            .find_map(|ability| harness.cannot().iter().find(|(lacking, _)| lacking == ability));
        if let Some((ability, reason)) = lacks {
            return Ended::Skipped(*ability, reason);
        }
        let trial = Trial::new(harness);
        // A case waits several times, each time with the harness's patience.
        let limits = Limits::after(harness.patience() * 8);
        let verdict = bounded(&limits, (self.run)(&trial))
            .await
            .unwrap_or_else(|by| Err(Broken(format!("the case did not end: {by}"))));
        harness.tidy().await;
        match verdict {
            Ok(()) => Ended::Passed,
            Err(broken) => Ended::Failed(broken),
        }
    }
}

/// Runs the case of that name for a test: panics where the rule is broken, and says aloud where it
/// was skipped.
///
/// # Panics
/// When the rule is broken or there is no such case.
pub async fn prove(name: &str, harness: &dyn Harness) {
    let case = CASES.iter().find(|case| case.name == name);
    let case = case.unwrap_or_else(|| panic!("there is no case {name}"));
    match case.run(harness).await {
        Ended::Passed => {}
        Ended::Skipped(ability, reason) => {
            #[expect(clippy::print_stderr, reason = "a skip must be seen in the test's output")]
            {
                eprintln!("SKIPPED {name}: the harness cannot stage {ability:?}: {reason}");
            }
        }
        Ended::Failed(broken) => panic!("{name}: {broken}\nthe rule: {}", case.rule),
    }
}

/// Says aloud what a harness cannot stage and how many cases that takes away; one such test beside the
/// cases keeps the count in view.
///
/// # Panics
/// When a reason is empty: a gap without a reason is a gap in the suite.
pub fn report_skips(harness: &dyn Harness) {
    for (ability, reason) in harness.cannot() {
        assert!(!reason.is_empty(), "{ability:?} is declared without a reason");
        let skipped: Vec<_> = CASES
            .iter()
            .filter(|case| case.needs.contains(ability))
            .map(|case| case.name)
            .collect();
        #[expect(clippy::print_stderr, reason = "a skip must be seen in the test's output")]
        {
            eprintln!(
                "cannot stage {ability:?} ({reason}): {} cases skipped: {}",
                skipped.len(),
                skipped.join(", ")
            );
        }
    }
}

/// Fails the case unless the condition holds.
macro_rules! must {
    ($condition:expr, $($message:tt)+) => {
        if !$condition {
            return Err($crate::conformance::Broken(format!($($message)+)));
        }
    };
}
use must;

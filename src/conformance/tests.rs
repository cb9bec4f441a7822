//! The runner itself: a skip is declared, a harness that lies is found out, a case that hangs ends.

use std::sync::Arc;

use super::memory::MemoryHarness;
use super::*;
use crate::contract::memory::{Effect, Fault, PROFILE};
use crate::contract::{Backend, ErrorKind, Fact, Facts, NativeId, Operation, Specification};

/// The reference harness, which stages nothing and may say so.
struct Idle {
    inner: MemoryHarness,
    cannot: &'static [(Ability, &'static str)],
}

#[async_trait::async_trait]
impl Harness for Idle {
    fn backend(&self) -> Arc<dyn Backend> {
        self.inner.backend()
    }

    fn backend_without(&self, _: &NativeId) -> Result<Arc<dyn Backend>, Broken> {
        Err(Broken("it stages nothing".into()))
    }

    fn cannot(&self) -> &[(Ability, &'static str)] {
        self.cannot
    }

    fn facts(&self) -> Facts {
        self.inner.facts()
    }

    fn facts_elsewhere(&self) -> Result<Facts, Broken> {
        Err(Broken("it stages nothing".into()))
    }

    fn refused(&self, honoured: &Specification) -> Vec<(Fact, Specification)> {
        self.inner.refused(honoured)
    }

    fn malformed_ids(&self) -> Vec<NativeId> {
        self.inner.malformed_ids()
    }

    async fn stage(&self, _: Control<'_>) -> Result<(), Broken> {
        Err(Broken("it stages nothing".into()))
    }

    async fn sight(&self, id: &NativeId) -> Result<Sighting, Broken> {
        self.inner.sight(id).await
    }

    fn patience(&self) -> std::time::Duration {
        self.inner.patience()
    }

    async fn tidy(&self) {}
}

fn case(name: &str) -> &'static Case {
    CASES.iter().find(|case| case.name == name).expect("a case")
}

#[tokio::test(start_paused = true)]
async fn what_is_declared_is_skipped_with_its_reason() {
    let harness = Idle {
        inner: MemoryHarness::new(PROFILE),
        cannot: &[(Ability::StripMark, "marks are carved in stone")],
    };
    let ended = case("get_of_a_stripped_mark_is_permanent").run(&harness).await;
    assert_eq!(
        ended,
        Ended::Skipped(Ability::StripMark, "marks are carved in stone")
    );
    assert_eq!(
        case("get_finds_what_was_created").run(&harness).await,
        Ended::Passed
    );
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_staged_and_is_not_declared_fails() {
    let harness = Idle {
        inner: MemoryHarness::new(PROFILE),
        cannot: &[],
    };
    for case in CASES.iter().filter(|case| !case.needs.is_empty()) {
        let ended = case.run(&harness).await;
        assert_eq!(
            ended,
            Ended::Failed(Broken("it stages nothing".into())),
            "{}",
            case.name
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_case_that_hangs_ends_and_says_so() {
    let inner = MemoryHarness::new(PROFILE);
    let hang = Fault::once(Operation::Get, ErrorKind::Transient, "").with(Effect::Hang);
    inner
        .world()
        .edit(|world| world.faults.push(hang))
        .expect("writable");
    let ended = case("get_of_nothing_is_not_found").run(&inner).await;
    assert!(
        matches!(&ended, Ended::Failed(Broken(text)) if text.contains("did not end")),
        "{ended:?}"
    );
}

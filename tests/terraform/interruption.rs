//! Creates that fail, run out of time or are interrupted: three different ends, and nothing lost.

use std::time::Duration;

use egress::contract::memory::{Effect, Fault, Power, Step};
use egress::contract::{ErrorKind, Operation};
use egress::plugin::value::Value;

use crate::core::{Action, Core};
use crate::world::{Place, fault, proxy};

fn told(diagnostics: &egress::plugin::diagnostics::Diagnostics) -> String {
    diagnostics
        .iter()
        .map(|diagnostic| format!("{diagnostic}\n"))
        .collect()
}

/// Applies a create that is interrupted after a second.
async fn interrupted(core: &mut Core, config: Value) -> egress::plugin::diagnostics::Diagnostics {
    let plan = core.plan("a", config).await.expect("a plan");
    let token = core.token.clone();
    let interrupt = async {
        tokio::time::advance(Duration::from_secs(1)).await;
        token.cancel();
    };
    let (told, ()) = tokio::join!(core.apply("a", plan), interrupt);
    core.token = tokio_util::sync::CancellationToken::new();
    told
}

#[tokio::test(start_paused = true)]
async fn a_failure_at_each_step_heals_with_the_next_apply() {
    for step in [Step::Accept, Step::Secondary, Step::Instance, Step::Handover] {
        let place = Place::new();
        let mut core = place.core().await;
        let broken = Fault::once(Operation::Create, ErrorKind::Permanent, "it broke").at(step);
        place.edit(|world| world.faults.push(broken));
        let plan = core.plan("a", proxy("a", [])).await.expect("a plan");
        let problems = core.apply("a", plan).await;
        assert!(
            problems.has_errors() && told(&problems).contains("t broke"),
            "{step:?}"
        );
        // What the backend accepted is in the state, tainted; what it did not is not.
        assert_eq!(
            core.state.get("a").is_some_and(|stored| stored.tainted),
            step != Step::Accept,
            "{step:?}"
        );
        let plan = core.up("a", proxy("a", [])).await;
        // Before the first object is made there is nothing to replace: the read finds it gone.
        let begun = matches!(step, Step::Instance | Step::Handover);
        assert_eq!(
            plan.action,
            if begun { Action::Replace } else { Action::Create },
            "{step:?}"
        );
        assert_eq!(place.count(), 1, "{step:?}");
        assert_eq!(core.action("a", proxy("a", [])).await, Action::NoOp, "{step:?}");
        assert!(!core.delete("a").await.has_errors());
        assert!(place.is_empty(), "{step:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_passes_is_tried_again() {
    let place = Place::new();
    let mut core = place.core().await;
    for step in [Step::Accept, Step::Instance, Step::Handover] {
        let hiccup = Fault::once(Operation::Create, ErrorKind::Transient, "a hiccup").at(step);
        place.edit(|world| world.faults.push(hiccup));
    }
    core.up("a", proxy("a", [])).await;
    assert_eq!(place.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_passes_after_acceptance_is_finished_under_every_policy() {
    for adopt in ["never", "interrupted", "same_spec"] {
        let place = Place::new();
        let backend = place.backend([]);
        let provider = crate::world::provider([("lab", backend)], [("adopt", Value::from(adopt))]);
        let mut core = Core::configured(provider).await;
        let hiccup = Fault::once(Operation::Create, ErrorKind::Transient, "a hiccup").at(Step::Handover);
        place.edit(|world| world.faults.push(hiccup));
        core.up("a", proxy("a", [])).await;
        // It was its own create that began: there is nothing to tell.
        assert!(core.told.is_empty(), "{adopt}: {:#?}", core.told);
        assert_eq!(place.count(), 1, "{adopt}");
        assert_eq!(core.action("a", proxy("a", [])).await, Action::NoOp, "{adopt}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_after_acceptance_leaves_the_instance_in_the_state() {
    for step in [Step::Accept, Step::Secondary, Step::Instance, Step::Handover] {
        let place = Place::new();
        let mut core = place.core().await;
        place.edit(|world| {
            world
                .faults
                .push(fault(Operation::Create, Effect::Panic).at(step))
        });
        let plan = core.plan("a", proxy("a", [])).await.expect("a plan");
        let left = core.apply_panicking("a", plan).await;
        assert_eq!(left, step != Step::Accept, "{step:?}");
        if left {
            assert_eq!(core.text("a", "id"), "lab/z1/default/a", "{step:?}");
            assert!(!core.of("a").get("incarnation").is_null(), "{step:?}");
        }
        core.up("a", proxy("a", [])).await;
        assert_eq!(place.count(), 1, "{step:?}");
        assert_eq!(core.action("a", proxy("a", [])).await, Action::NoOp, "{step:?}");
        assert!(!core.delete("a").await.has_errors());
        assert!(place.is_empty(), "{step:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_while_waiting_leaves_the_newest_sight_in_the_state() {
    let place = Place::new();
    let mut core = place.core().await;
    place.edit(|world| {
        world.settle = 3;
        world.faults.push(fault(Operation::Get, Effect::Panic));
    });
    let plan = core.plan("a", proxy("a", [])).await.expect("a plan");
    assert!(core.apply_panicking("a", plan).await);
    assert_eq!(core.text("a", "state"), "provisioning");
    // It was handed over; after an untaint the next apply goes on waiting for it.
    core.state.get_mut("a").expect("stored").tainted = false;
    let before = core.text("a", "incarnation");
    assert_eq!(core.up("a", proxy("a", [])).await.action, Action::Update);
    assert_eq!(core.text("a", "incarnation"), before);
    assert_eq!(core.text("a", "state"), "running");
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_an_update_leaves_what_a_read_would_find() {
    let place = Place::new();
    let mut core = place.core().await;
    let labels = |text: &str| proxy("a", [("labels", Value::object([("team", Value::from(text))]))]);
    core.up("a", labels("net")).await;
    let before = core.of("a").clone();

    // Started, and then the wait for it panics: the next apply goes on waiting.
    place.edit(|world| world.settle = 2);
    place.change("a", |record| record.power = Power::Stopped);
    let plan = core.plan("a", labels("ops")).await.expect("a plan");
    assert_eq!(plan.action, Action::Update);
    place.edit(|world| world.faults.push(fault(Operation::Get, Effect::Panic)));
    assert!(core.apply_panicking("a", plan).await);
    assert!(!core.state["a"].tainted);
    assert_eq!(core.text("a", "state"), "provisioning");
    assert_eq!(
        core.text("a", "incarnation"),
        before.get("incarnation").as_str().unwrap_or_default()
    );
    place.edit(|world| world.faults.clear());
    assert_eq!(core.up("a", labels("ops")).await.action, Action::Update);
    assert_eq!(core.text("a", "state"), "running");
    assert_eq!(core.action("a", labels("ops")).await, Action::NoOp);

    // Before anything was done there is nothing to leave, and what was planned is not taken for done.
    for step in [Step::Accept, Step::Handover] {
        let before = core.of("a").clone();
        let other = labels(&format!("{step:?}"));
        let plan = core.plan("a", other.clone()).await.expect("a plan");
        let broken = fault(Operation::Resume, Effect::Panic).at(step);
        place.edit(|world| world.faults = vec![broken]);
        core.apply_panicking("a", plan).await;
        assert_eq!(core.of("a").get("labels"), before.get("labels"), "{step:?}");
        place.edit(|world| world.faults.clear());
        core.up("a", other.clone()).await;
        assert_eq!(core.action("a", other).await, Action::NoOp, "{step:?}");
    }
    assert_eq!(place.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_a_destroy_keeps_the_state_and_the_next_destroy_ends_it() {
    for step in [Step::Secondary, Step::Instance] {
        let place = Place::new();
        let mut core = place.core().await;
        core.up("a", proxy("a", [])).await;
        let before = core.of("a").clone();
        place.edit(|world| {
            world
                .faults
                .push(fault(Operation::Delete, Effect::Panic).at(step));
        });
        assert!(!core.delete_panicking("a").await, "{step:?}");
        assert_eq!(core.of("a"), &before, "{step:?}");
        place.edit(|world| world.faults.clear());
        assert!(!core.delete("a").await.has_errors(), "{step:?}");
        assert!(place.is_empty(), "{step:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_interrupt_after_acceptance_does_not_taint_and_the_next_apply_goes_on() {
    for step in [Step::Secondary, Step::Instance, Step::Handover] {
        let place = Place::new();
        let mut core = place.core().await;
        place.edit(|world| world.faults.push(fault(Operation::Create, Effect::Hang).at(step)));
        let said = interrupted(&mut core, proxy("a", [])).await;
        assert!(
            !said.has_errors() && told(&said).contains("interrupted"),
            "{said:#?}"
        );
        assert!(!core.state["a"].tainted);
        if step != Step::Handover {
            continue;
        }
        let before = core.text("a", "incarnation");
        let plan = core.plan("a", proxy("a", [])).await.expect("a plan");
        assert_eq!(plan.action, Action::Update);
        assert!(plan.planned.get("ip").is_unknown());
        let said = core.apply("a", plan).await;
        assert!(!said.has_errors(), "{said:#?}");
        assert_eq!(core.text("a", "incarnation"), before);
        assert_eq!(core.text("a", "state"), "running");
        let pending = place.world.look(|world| {
            let mark = world.zones["z1"].instances["default/a"].mark.clone();
            mark.expect("a mark").pending
        });
        assert!(!pending.expect("a world"), "the instance was handed over");
        assert_eq!(core.action("a", proxy("a", [])).await, Action::NoOp);
    }
}

#[tokio::test(start_paused = true)]
async fn an_interrupt_before_acceptance_saves_nothing() {
    let place = Place::new();
    let mut core = place.core().await;
    place.edit(|world| {
        world
            .faults
            .push(fault(Operation::Create, Effect::Hang).at(Step::Accept))
    });
    let said = interrupted(&mut core, proxy("a", [])).await;
    assert!(said.has_errors() && core.state.is_empty());
    core.up("a", proxy("a", [])).await;
    assert_eq!(place.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_runs_out_taints_and_names_the_ways_out() {
    let place = Place::new();
    let mut core = place.core().await;
    place.edit(|world| world.settle = 1_000_000);
    let config = || {
        proxy(
            "a",
            [(
                "timeouts",
                Value::object([("create", Value::from("90s")), ("update", Value::from("60s"))]),
            )],
        )
    };
    let plan = core.plan("a", config()).await.expect("a plan");
    let begun = tokio::time::Instant::now();
    let problems = core.apply("a", plan).await;
    assert_eq!(begun.elapsed(), Duration::from_secs(90));
    let text = told(&problems);
    for word in [
        "lab/z1/default/a",
        "1m30s",
        "provisioning",
        "it is starting",
        "untaint",
        "\"running\"",
        "\"none\"",
        "timeouts.create",
    ] {
        assert!(text.contains(word), "{word} is missing in: {text}");
    }
    assert!(core.state["a"].tainted);

    // After an untaint the next apply goes on waiting, and failing does not taint again.
    core.state.get_mut("a").expect("a").tainted = false;
    let plan = core.plan("a", config()).await.expect("a plan");
    assert_eq!(plan.action, Action::Update);
    let problems = core.apply("a", plan).await;
    assert!(
        problems.has_errors() && told(&problems).contains("timeouts.update"),
        "{problems:#?}"
    );
    assert!(!core.state["a"].tainted);
    place.edit(|world| world.settle = 0);
    place.change("a", |record| record.power = Power::Running);
    assert_eq!(core.up("a", config()).await.action, Action::Update);
    assert_eq!(core.action("a", config()).await, Action::NoOp);
    assert_eq!(place.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_interrupted_wait_goes_on_too() {
    let place = Place::new();
    let mut core = place.core().await;
    place.edit(|world| world.settle = 1_000_000);
    let said = interrupted(&mut core, proxy("a", [])).await;
    assert!(!said.has_errors(), "{said:#?}");
    assert_eq!(core.text("a", "state"), "provisioning");
    assert_eq!(core.action("a", proxy("a", [])).await, Action::Update);
}

#[tokio::test(start_paused = true)]
async fn each_wait_waits_for_its_own() {
    for (wait_for, gets, state) in [
        ("none", 0, "provisioning"),
        ("running", 3, "running"),
        ("address", 3, "running"),
        ("ready", 3, "running"),
    ] {
        let place = Place::new();
        let mut core = place.core().await;
        place.edit(|world| world.settle = 3);
        let before = place.calls("get");
        core.up("a", proxy("a", [("wait_for", Value::from(wait_for))]))
            .await;
        assert!(place.calls("get") - before >= gets, "{wait_for}");
        assert_eq!(core.text("a", "state"), state, "{wait_for}");
    }
}

#[tokio::test(start_paused = true)]
async fn ready_waits_until_the_proxy_serves() {
    let place = Place::new();
    let mut core = place.core().await;
    place.edit(|world| world.settle = 5);
    let plan = core
        .plan(
            "a",
            proxy(
                "a",
                [
                    ("wait_for", Value::from("ready")),
                    ("timeouts", Value::object([("create", Value::from("30s"))])),
                ],
            ),
        )
        .await
        .expect("a plan");
    let (problems, ()) = tokio::join!(core.apply("a", plan), async {
        tokio::time::advance(Duration::from_millis(100)).await;
        place.change("a", |record| record.serving = false);
    });
    assert!(
        problems.has_errors() && told(&problems).contains("not ready"),
        "{problems:#?}"
    );
}

#[tokio::test(start_paused = true)]
async fn every_operation_ends_at_its_timeout() {
    let place = Place::new();
    let mut core = place.core().await;
    let timeouts = ["create", "update", "delete"].map(|name| (name, Value::from("7s")));
    let config = |labels: Value| {
        proxy(
            "a",
            [("timeouts", Value::object(timeouts.clone())), ("labels", labels)],
        )
    };
    let hang = |hanging: Fault| place.edit(|world| world.faults = vec![hanging]);
    let seven = Duration::from_secs(7);

    hang(fault(Operation::Create, Effect::Hang).at(Step::Accept));
    let plan = core.plan("a", config(Value::Null)).await.expect("a plan");
    let begun = tokio::time::Instant::now();
    let said = told(&core.apply("a", plan).await);
    assert!(said.contains("timeouts.create"), "{said}");
    assert_eq!(begun.elapsed(), seven);
    place.edit(|world| world.faults.clear());
    core.up("a", config(Value::Null)).await;

    hang(fault(Operation::Resume, Effect::Hang).at(Step::Instance));
    let plan = core
        .plan("a", config(Value::object([("a", Value::from("b"))])))
        .await
        .expect("a plan");
    let before = core.of("a").clone();
    let begun = tokio::time::Instant::now();
    assert!(told(&core.apply("a", plan).await).contains("timeouts.update"));
    assert_eq!(begun.elapsed(), seven);
    assert_eq!(core.of("a"), &before);

    hang(fault(Operation::Delete, Effect::Hang).at(Step::Instance));
    let begun = tokio::time::Instant::now();
    let said = told(&core.delete("a").await);
    assert!(said.contains("timeouts.delete"), "{said}");
    // The attempt that hangs says nothing; what it leaves is looked at before the time is up.
    assert!(said.contains("still there, running"), "{said}");
    assert_eq!(begun.elapsed(), seven);
    assert_eq!(core.of("a"), &before);
}

#[tokio::test(start_paused = true)]
async fn a_delete_that_returns_early_is_waited_for() {
    let place = Place::new();
    let backend = place.backend([("returns_early", Value::from(true))]);
    let mut core = Core::configured(crate::world::provider([("lab", backend)], [])).await;
    place.edit(|world| world.linger = 3);
    core.up("a", proxy("a", [])).await;
    assert!(!core.delete("a").await.has_errors());
    assert!(place.is_empty());
}

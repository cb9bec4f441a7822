//! What a read finds, and what is planned about it.

use egress::contract::memory::{Effect, Fault, Power};
use egress::contract::{ErrorKind, Operation};
use egress::plugin::value::Value;

use crate::core::Action;
use crate::world::{Place, fault, proxy};

#[tokio::test]
async fn each_state_plans_what_it_needs() {
    for (power, action, replace) in [
        (Power::Running, Action::NoOp, vec![]),
        (Power::Starting(9), Action::NoOp, vec![]),
        (Power::Stopped, Action::Update, vec![]),
        (Power::Terminated, Action::Replace, vec!["state"]),
    ] {
        let place = Place::new();
        let mut core = place.core().await;
        core.up("a", proxy("a", [])).await;
        let before = core.text("a", "incarnation");
        place.change("a", |record| record.power = power);
        let plan = core.plan("a", proxy("a", [])).await.expect("a plan");
        assert_eq!(plan.action, action, "{power:?}");
        assert_eq!(plan.replace, replace, "{power:?}");
        if action == Action::NoOp {
            continue;
        }
        for name in ["state", "ip", "egress_ip", "proxy_url"] {
            assert!(plan.planned.get(name).is_unknown(), "{power:?}: {name}");
        }
        let told = core.apply("a", plan).await;
        assert!(!told.has_errors(), "{told:#?}");
        assert_eq!(core.text("a", "state"), "running");
        assert_eq!(core.text("a", "incarnation") == before, action == Action::Update);
        assert_eq!(core.action("a", proxy("a", [])).await, Action::NoOp);
        assert_eq!(place.count(), 1);
    }
}

#[tokio::test]
async fn what_is_gone_leaves_the_state_and_is_created_anew() {
    let place = Place::new();
    let mut core = place.core().await;
    core.up("a", proxy("a", [])).await;
    place.edit(|world| {
        let zone = world.zones.get_mut("z1").expect("the zone");
        zone.instances.clear();
        zone.secondary.clear();
    });
    let plan = core.plan("a", proxy("a", [])).await.expect("a plan");
    assert_eq!(plan.action, Action::Create);
    assert_eq!(place.count(), 0, "nothing is made inside a read");
}

/// Somebody wrote on the instance itself: no argument changes, and the hash in the state is the one
/// that is asked for.
#[tokio::test]
async fn what_changed_on_the_instance_alone_is_replaced_with_a_reason_that_shows() {
    let place = Place::new();
    let mut core = place.core().await;
    let access = Value::object([("allowed_ports", Value::from(vec![8443]))]);
    let config = proxy("a", [("access", access)]);
    core.up("a", config.clone()).await;
    place.change("a", |record| {
        record.mark.as_mut().expect("a mark").facts.allowed_ports = Some(vec![22]);
    });
    // The core of these tests demands a path that the plan shows as changed.
    let plan = core.plan("a", config.clone()).await.expect("a plan");
    assert_eq!(
        (plan.action, plan.replace),
        (Action::Replace, vec!["incarnation".to_owned()])
    );
    let told: Vec<_> = plan.diagnostics.iter().map(ToString::to_string).collect();
    assert_eq!(told.len(), 1, "{told:#?}");
    assert!(
        told[0].contains("access.allowed_ports: there [22], asked for [8443]"),
        "{told:#?}"
    );
    core.up("a", config.clone()).await;
    assert_eq!(core.action("a", config).await, Action::NoOp);
}

#[tokio::test]
async fn an_address_that_does_not_answer_is_no_drift() {
    let place = Place::new();
    let mut core = place.core().await;
    core.up("a", proxy("a", [])).await;
    let before = core.of("a").clone();
    place.change("a", |record| record.address_known = false);
    assert_eq!(core.action("a", proxy("a", [])).await, Action::NoOp);
    assert_eq!(core.of("a"), &before);
}

#[tokio::test]
async fn another_address_is_drift_that_plans_nothing() {
    let place = Place::new();
    let mut core = place.core().await;
    core.up("a", proxy("a", [])).await;
    place.change("a", |record| {
        record.address = "2001:db8::7".parse().expect("an address")
    });
    assert_eq!(core.action("a", proxy("a", [])).await, Action::NoOp);
    assert_eq!(core.text("a", "proxy_url"), "http://[2001:db8::7]:3128");
}

#[tokio::test(start_paused = true)]
async fn no_failure_loses_the_state() {
    for kind in [
        ErrorKind::Transient,
        ErrorKind::Permanent,
        ErrorKind::QuotaExceeded,
    ] {
        let place = Place::new();
        let mut core = place.core().await;
        core.up("a", proxy("a", [])).await;
        let before = core.of("a").clone();
        for operation in [Operation::Get, Operation::ListByTag] {
            place.edit(|world| {
                world
                    .faults
                    .push(Fault::once(operation, kind, "it broke").times(0))
            });
        }
        let problems = core.plan("a", proxy("a", [])).await.expect_err("an error");
        let text = problems.0[0].to_string();
        assert!(
            text.contains("t broke") && text.contains("backend: lab"),
            "{text}"
        );
        assert_eq!(core.of("a"), &before);
    }
}

#[tokio::test(start_paused = true)]
async fn a_read_that_hangs_is_an_error_within_its_timeout() {
    let place = Place::new();
    let mut core = place.core().await;
    let timeouts = Value::object([("read", Value::from("5s"))]);
    core.up("a", proxy("a", [("timeouts", timeouts.clone())])).await;
    let before = core.of("a").clone();
    for operation in [Operation::Get, Operation::ListByTag] {
        place.edit(|world| world.faults.push(fault(operation, Effect::Hang)));
    }
    let begun = tokio::time::Instant::now();
    let problems = core
        .plan("a", proxy("a", [("timeouts", timeouts)]))
        .await
        .expect_err("an error");
    assert_eq!(begun.elapsed(), std::time::Duration::from_secs(5));
    assert!(
        problems.0[0].to_string().contains("timeouts.read"),
        "{problems:#?}"
    );
    assert_eq!(core.of("a"), &before);
}

#[tokio::test]
async fn a_thousand_reads_share_one_listing() {
    let place = Place::new();
    let mut core = place.core().await;
    for index in 0..20 {
        let name = format!("p{index}");
        core.up(&name, proxy(&name, [])).await;
    }
    let config = place.provider();
    assert!(core.configure(config).await.is_empty());
    let (lists, gets) = (place.calls("list_by_tag"), place.calls("get"));
    for index in 0..20 {
        assert!(core.refresh(&format!("p{index}")).await.is_empty());
    }
    assert_eq!(place.calls("list_by_tag") - lists, 1);
    assert_eq!(place.calls("get"), gets);
}

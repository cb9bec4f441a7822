//! What goes wrong on the way, on the reference backend: interrupts, timeouts, failures before and
//! after acceptance, crashes, outages. Each time the state says what there is, and a next run heals it.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::reference::{Reference, proxy};
use crate::release::Cli;

on!(long:
    an_interrupted_create_goes_on_waiting,
    a_wait_that_runs_out_taints,
    a_failure_after_acceptance_taints,
    a_failure_before_acceptance_leaves_nothing,
    a_crash_in_the_middle_is_healed,
    a_panic_is_contained,
    an_outage_keeps_the_state,
    transient_failures_are_retried,
    drift_of_every_state,
    another_installation_is_left_alone,
    a_renamed_or_repointed_backend_loses_nothing
);

const ADDRESS: &str = "egress_proxy.a";
/// More gets than any test makes: the instance stays on its way.
const NEVER: u32 = 1_000_000_000;

fn fails(operation: &str, step: Option<&str>, kind: &str, times: u32) -> Value {
    let mut fault = json!({
        "operation": operation,
        "times": times,
        "effect": { "fail": { "kind": kind, "message": "the reference backend was told to fail" } },
    });
    if let Some(step) = step {
        fault["step"] = json!(step);
    }
    fault
}

fn an_interrupted_create_goes_on_waiting(cli: &Cli) {
    let reference = Reference::one_proxy(cli, "");
    reference.change(|world| world["settle"] = json!(NEVER));
    let apply = reference
        .workspace
        .start(&["apply", "-auto-approve", "-no-color"]);
    let deadline = Instant::now() + Duration::from_secs(120);
    while reference.instances().is_empty() {
        assert!(Instant::now() < deadline, "create was not accepted");
        std::thread::yield_now();
    }
    apply.interrupt();
    apply.wait();

    assert!(
        !reference.workspace.is_tainted(ADDRESS),
        "an interrupt taints nothing"
    );
    let before = reference.workspace.state_of(ADDRESS).expect("in the state");
    assert_eq!(before["id"], "reference/z1/default/a");

    // It arrived meanwhile: the next apply finishes the wait with the same instance.
    reference.change(|world| world["settle"] = json!(0));
    reference.change_a(|instance| instance["power"] = json!("running"));
    assert_eq!(reference.workspace.planned(&[]).actions(ADDRESS), ["update"]);
    reference.workspace.apply();
    let after = reference.workspace.state_of(ADDRESS).expect("in the state");
    assert_eq!(before["incarnation"], after["incarnation"]);
    assert_eq!(after["state"], "running");
    reference.workspace.plans_nothing();
    reference.workspace.destroy();
    reference.is_empty();
}

fn a_wait_that_runs_out_taints(cli: &Cli) {
    let reference = Reference::one_proxy(cli, "  timeouts {\n    create = \"2s\"\n  }");
    reference.change(|world| world["settle"] = json!(NEVER));
    reference
        .workspace
        .run(&["apply", "-auto-approve", "-no-color"])
        .fails_saying(&["wait_for", "untaint", "reference/z1/default/a"]);
    assert!(reference.workspace.is_tainted(ADDRESS));

    // It was only late: untaint keeps it.
    reference.change(|world| world["settle"] = json!(0));
    reference.change_a(|instance| instance["power"] = json!("running"));
    let before = reference.workspace.state_of(ADDRESS).expect("in the state");
    reference.workspace.run(&["untaint", ADDRESS]).succeeds();
    reference.workspace.apply();
    reference.workspace.plans_nothing();
    let after = reference.workspace.state_of(ADDRESS).expect("in the state");
    assert_eq!(before["incarnation"], after["incarnation"]);
    reference.workspace.destroy();
    reference.is_empty();
}

fn a_failure_after_acceptance_taints(cli: &Cli) {
    let reference = Reference::one_proxy(cli, "");
    reference.fault(fails("create", Some("handover"), "permanent", 1));
    reference
        .workspace
        .run(&["apply", "-auto-approve", "-no-color"])
        .fails_saying(&["was told to fail"]);
    assert!(reference.workspace.is_tainted(ADDRESS));
    assert_eq!(reference.instances().len(), 1);
    // The next apply replaces it: exactly one of everything, and then nothing to do.
    reference.workspace.apply();
    assert_eq!(reference.instances().len(), 1);
    reference.workspace.plans_nothing();
    reference.workspace.destroy();
    reference.is_empty();
}

fn a_failure_before_acceptance_leaves_nothing(cli: &Cli) {
    let reference = Reference::one_proxy(cli, "");
    reference.fault(fails("create", Some("accept"), "quota_exceeded", 1));
    reference
        .workspace
        .run(&["apply", "-auto-approve", "-no-color"])
        .fails_saying(&["was told to fail"]);
    assert_eq!(reference.workspace.state_of(ADDRESS), None);
    reference.is_empty();
    reference.workspace.apply();
    reference.workspace.plans_nothing();
    reference.workspace.destroy();
    reference.is_empty();
}

fn a_crash_in_the_middle_is_healed(cli: &Cli) {
    let reference = Reference::one_proxy(cli, "");
    reference.fault(json!({ "operation": "create", "step": "handover", "times": 1, "effect": "abort" }));
    reference
        .workspace
        .run(&["apply", "-auto-approve", "-no-color"])
        .ends_with(1);
    assert_eq!(
        reference.instances().len(),
        1,
        "it was made and never handed over"
    );
    reference.change(|world| world["faults"] = json!([]));
    // The state knows nothing of it; the same specification finishes it instead of doubling it.
    reference.workspace.apply();
    assert_eq!(reference.instances().len(), 1);
    reference.workspace.plans_nothing();
    reference.workspace.destroy();
    reference.is_empty();
}

fn a_panic_is_contained(cli: &Cli) {
    let reference = Reference::one_proxy(cli, "");
    reference.workspace.apply();
    let before = reference.workspace.state_of(ADDRESS);
    reference.change(|world| {
        world["faults"] = json!([
            { "operation": "get", "effect": "panic" },
            { "operation": "list_by_tag", "effect": "panic" },
        ]);
    });
    reference
        .workspace
        .run(&["plan", "-no-color"])
        .ends_with(1)
        .never_says(&["crashed", "did not respond"]);
    reference.change(|world| world["faults"] = json!([]));
    assert_eq!(reference.workspace.state_of(ADDRESS), before);
    reference.workspace.plans_nothing();
    reference.workspace.destroy();
}

fn an_outage_keeps_the_state(cli: &Cli) {
    let reference = Reference::one_proxy(cli, "  timeouts {\n    read   = \"2s\"\n    delete = \"2s\"\n  }");
    reference.workspace.apply();
    let before = reference.workspace.state_of(ADDRESS);
    let faults = [
        json!({ "fail": { "kind": "permanent", "message": "certificate refused" } }),
        json!({ "fail": { "kind": "transient", "message": "connection reset" } }),
        json!("hang"),
    ];
    for effect in faults {
        reference.change(|world| {
            world["faults"] = json!([
                { "operation": "get", "effect": effect },
                { "operation": "list_by_tag", "effect": effect },
            ]);
        });
        reference
            .workspace
            .run(&["plan", "-no-color"])
            .ends_with(1)
            .says(&["reference"]);
        assert_eq!(reference.workspace.state_of(ADDRESS), before);
    }
    reference.change(|world| world["faults"] = json!([{ "operation": "delete", "effect": "hang" }]));
    reference
        .workspace
        .run(&["destroy", "-auto-approve", "-no-color"])
        .ends_with(1);
    assert_eq!(reference.workspace.state_of(ADDRESS), before);
    reference.change(|world| world["faults"] = json!([]));
    reference.workspace.plans_nothing();
    reference.workspace.destroy();
    reference.is_empty();
}

fn transient_failures_are_retried(cli: &Cli) {
    let reference = Reference::one_proxy(cli, "");
    for operation in ["create", "get", "delete"] {
        reference.change(|world| {
            let faults = world["faults"].as_array().cloned().unwrap_or_default();
            world["faults"] = [faults, vec![fails(operation, None, "transient", 2)]]
                .concat()
                .into();
        });
    }
    reference.workspace.apply();
    reference.workspace.plans_nothing();
    reference.workspace.destroy();
    reference.is_empty();
}

fn drift_of_every_state(cli: &Cli) {
    let reference = Reference::one_proxy(cli, "");
    reference.workspace.apply();
    let before = reference.workspace.state_of(ADDRESS).expect("in the state");

    // On its way, or without an address just now: nothing to do, and what was known is kept.
    reference.change_a(|instance| instance["power"] = json!({ "starting": NEVER }));
    reference.workspace.plans_nothing();
    reference.change_a(|instance| {
        instance["power"] = json!("running");
        instance["address_known"] = json!(false);
    });
    reference.workspace.plans_nothing();
    assert_eq!(
        reference.workspace.state_of(ADDRESS).expect("in the state")["ip"],
        before["ip"]
    );
    reference.change_a(|instance| instance["address_known"] = json!(true));

    // Stopped: started in place.
    reference.change_a(|instance| instance["power"] = json!("stopped"));
    assert_eq!(reference.workspace.planned(&[]).actions(ADDRESS), ["update"]);
    reference.workspace.apply();
    reference.workspace.plans_nothing();
    let started = reference.workspace.state_of(ADDRESS).expect("in the state");
    assert_eq!(before["incarnation"], started["incarnation"]);

    // Ended: replaced because of its state.
    reference.change_a(|instance| instance["power"] = json!("terminated"));
    let planned = reference.workspace.planned(&[]);
    assert_eq!(planned.actions(ADDRESS), ["delete", "create"]);
    assert_eq!(planned.replaced_by(ADDRESS), json!([["state"]]));
    reference.workspace.apply();
    reference.workspace.plans_nothing();
    let replaced = reference.workspace.state_of(ADDRESS).expect("in the state");
    assert_ne!(before["incarnation"], replaced["incarnation"]);

    // Gone: created.
    reference.change(|world| world["zones"] = json!({}));
    assert_eq!(reference.workspace.planned(&[]).actions(ADDRESS), ["create"]);
    reference.workspace.apply();
    reference.workspace.plans_nothing();
    reference.workspace.destroy();
    reference.is_empty();
}

fn another_installation_is_left_alone(cli: &Cli) {
    let reference = Reference::one_proxy(cli, "");
    reference.workspace.apply();
    let other = reference.workspace.beside("other");
    let write = |name: &str, text: &str| std::fs::write(other.join(name), text).expect("a file");
    write("provider.tf", &reference.provider("staging", "reference"));
    write("main.tf", &proxy(""));
    reference
        .workspace
        .run_in(&other, &["apply", "-auto-approve", "-no-color"])
        .fails_saying(&["prod", "reference/z1/default/a"]);
    let import = ["import", "-no-color", ADDRESS, "reference/z1/default/a"];
    reference
        .workspace
        .run_in(&other, &import)
        .fails_saying(&["prod"]);
    reference.workspace.plans_nothing();
    assert_eq!(reference.instances().len(), 1);
    reference.workspace.destroy();
    reference.is_empty();
}

fn a_renamed_or_repointed_backend_loses_nothing(cli: &Cli) {
    let reference = Reference::one_proxy(cli, "");
    reference.workspace.apply();
    let before = reference.workspace.state_of(ADDRESS);

    // The state's backend is not configured any more: an error that names it, and nothing happens.
    reference.write_provider("prod", "renamed");
    reference
        .workspace
        .run(&["plan", "-no-color"])
        .fails_saying(&["\"reference\""]);
    reference
        .workspace
        .run(&["destroy", "-auto-approve", "-no-color"])
        .fails_saying(&["\"reference\""]);
    reference.write_provider("prod", "reference");

    // Another machine behind the same name, without the proxy: no proof that it is gone.
    let kept = reference.world();
    reference.change(|world| world["zones"] = json!({ "z1": { "machine": "another" } }));
    reference
        .workspace
        .run(&["plan", "-no-color"])
        .fails_saying(&["another", "state rm"]);
    reference.change(|world| *world = kept);

    assert_eq!(reference.workspace.state_of(ADDRESS), before);
    reference.workspace.plans_nothing();
    reference.workspace.destroy();
    reference.is_empty();
}

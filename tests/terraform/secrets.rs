//! Where secrets are, and where they are not.

use egress::contract::memory::{Fault, Step};
use egress::contract::{ErrorKind, Operation};
use egress::plugin::value::Value;

use crate::core::Action;
use crate::world::{Place, block, proxy};

const SENTINEL: &str = "sEnTiNeL-4711";

fn secretive(version: &str) -> Value {
    proxy(
        "a",
        [
            (
                "access",
                block([
                    ("username", Value::from("u")),
                    ("password_wo", Value::from(format!("pw-{SENTINEL}"))),
                    ("password_wo_version", Value::from(version)),
                ]),
            ),
            (
                "cloud_init_wo",
                Value::from(format!("#cloud-config\n# {SENTINEL}\n")),
            ),
            ("cloud_init_wo_version", Value::from("1")),
        ],
    )
}

#[tokio::test]
async fn write_only_values_are_nowhere_afterwards() {
    let place = Place::new();
    let mut core = place.core().await;
    let plan = core.up("a", secretive("1")).await;
    let world = place.world.look(|world| format!("{world:?}")).expect("a world");
    let seen = format!("{:?} {:?} {:?} {:?}", plan.planned, core.state, core.told, world);
    assert!(!seen.contains(SENTINEL), "{seen}");
    let private = String::from_utf8_lossy(&core.state["a"].private).into_owned();
    assert!(
        !private.contains(SENTINEL) && !private.contains("$6$"),
        "{private}"
    );
    assert!(!core.text("a", "proxy_url").contains('@'));
    assert_eq!(core.action("a", secretive("1")).await, Action::NoOp);
    let plan = core.plan("a", secretive("2")).await.expect("a plan");
    assert_eq!(
        (plan.action, plan.replace),
        (Action::Replace, vec!["access.password_wo_version".to_owned()])
    );
}

#[tokio::test]
async fn no_failure_shows_a_secret() {
    let place = Place::new();
    let mut core = place.core().await;
    let broken = Fault::once(Operation::Create, ErrorKind::Permanent, "it broke").at(Step::Handover);
    place.edit(|world| world.faults.push(broken));
    let plan = core.plan("a", secretive("1")).await.expect("a plan");
    let problems = core.apply("a", plan).await;
    assert!(problems.has_errors());
    let seen = format!("{problems:?} {:?}", core.state);
    assert!(!seen.contains(SENTINEL), "{seen}");
}

#[tokio::test]
async fn a_text_that_the_user_put_into_the_state_is_there_alone() {
    let place = Place::new();
    let mut core = place.core().await;
    let text = format!("#cloud-config\n# {SENTINEL}\n");
    core.up("a", proxy("a", [("cloud_init", Value::from(text.clone()))]))
        .await;
    assert_eq!(core.text("a", "cloud_init"), text);
    let private = String::from_utf8_lossy(&core.state["a"].private).into_owned();
    let world = place.world.look(|world| format!("{world:?}")).expect("a world");
    assert!(!private.contains(SENTINEL) && !world.contains(SENTINEL));
}

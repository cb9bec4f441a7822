//! Where secrets are, and where they are not.

use egress::contract::memory::{Fault, Step};
use egress::contract::{ErrorKind, Operation};
use egress::plugin::value::Value;

use crate::core::Action;
use crate::logged;
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

/// A proxy whose hash and document lie in the state, as the user decided.
fn open_about_it() -> Value {
    proxy(
        "b",
        [
            (
                "access",
                block([
                    ("username", Value::from("u")),
                    (
                        "password_hash",
                        Value::from(format!("$6$salt${SENTINEL}.{}", "x".repeat(60))),
                    ),
                ]),
            ),
            (
                "cloud_init",
                Value::from(format!("#cloud-config\n# {SENTINEL}\n")),
            ),
        ],
    )
}

#[tokio::test]
async fn no_log_at_any_level_holds_a_secret() {
    logged::listen();
    let place = Place::new();
    let mut core = place.core().await;
    let mut told = Vec::new();
    for config in [secretive("1"), open_about_it()] {
        // Fails at each step first, then goes well; then it is read, planned anew and destroyed.
        for step in [Step::Accept, Step::Instance, Step::Handover] {
            let broken = Fault::once(Operation::Create, ErrorKind::Permanent, "it broke").at(step);
            place.edit(|world| world.faults.push(broken));
            let plan = core.plan("a", config.clone()).await.expect("a plan");
            let problems = core.apply("a", plan).await;
            assert!(problems.has_errors());
            told.push(format!("{problems:?}"));
        }
        core.up("a", config.clone()).await;
        assert_eq!(core.action("a", config).await, Action::NoOp);
        assert!(!core.delete("a").await.has_errors());
    }
    told.push(format!("{:?}", core.told));
    let said = logged::said();
    for operation in ["create", "get", "delete"] {
        assert!(
            said.contains(operation),
            "nothing was said of {operation}: {said}"
        );
    }
    assert!(said.contains("it broke"), "{said}");
    for text in told.iter().chain([&said]) {
        assert!(!text.contains(SENTINEL) && !text.contains("$6$"), "{text}");
    }
}

#[tokio::test]
async fn no_refusal_of_a_secret_quotes_it() {
    let core = Place::new().core().await;
    let access = |name: &'static str, value: String| {
        let access = block([("username", Value::from("u")), (name, Value::from(value))]);
        proxy("a", [("access", access)])
    };
    for (what, config) in [
        (
            "a password without a version",
            access("password_wo", SENTINEL.into()),
        ),
        (
            "a password that nobody can send",
            access("password_wo", format!("{SENTINEL}\u{7}")),
        ),
        (
            "a password that is too long",
            access("password_wo", SENTINEL.repeat(40)),
        ),
        ("a hash that is none", access("password_hash", SENTINEL.into())),
        (
            "a document without a version",
            proxy("a", [("cloud_init_wo", Value::from(SENTINEL))]),
        ),
        (
            "two documents",
            proxy(
                "a",
                [
                    ("cloud_init", Value::from(SENTINEL)),
                    ("cloud_init_wo", Value::from(SENTINEL)),
                ],
            ),
        ),
    ] {
        let problems = core.validate(&config).await;
        assert!(problems.has_errors(), "{what} is accepted");
        let text = format!("{problems:?}");
        assert!(!text.contains(SENTINEL), "{what}: {text}");
    }
}

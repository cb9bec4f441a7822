//! A configuration turned around: what is taken away piece by piece, moved, ignored, made huge.

use egress::plugin::value::Value;

use crate::core::Action;
use crate::world::{Place, block, proxy, texts};

/// A proxy with everything that can be given, but for what a CLI without write-only values takes.
fn everything() -> Vec<(&'static str, &'static str, Value)> {
    vec![
        ("", "namespace", Value::from("n")),
        ("", "backend", Value::from("lab")),
        ("", "port", Value::from(8080)),
        ("", "cloud_init_wo", Value::from("#cloud-config\n")),
        ("", "cloud_init_wo_version", Value::from("1")),
        ("", "labels", Value::object([("team", Value::from("net"))])),
        ("", "wait_for", Value::from("ready")),
        ("timeouts", "create", Value::from("20m")),
        ("placement", "zone", Value::from("z1")),
        ("access", "allowed_cidrs", texts(&["10.0.0.0/8"])),
        ("access", "allowed_ports", Value::from(vec![8443])),
        ("access", "allowed_domains", texts(&[".example.com"])),
        ("access", "username", Value::from("u")),
        ("access", "password_wo", Value::from("pw")),
        ("access", "password_wo_version", Value::from("1")),
    ]
}

fn config_of<'a>(arguments: impl IntoIterator<Item = &'a (&'static str, &'static str, Value)>) -> Value {
    let mut config = proxy("a", []);
    for (within, name, value) in arguments {
        if within.is_empty() {
            config.set(*name, value.clone());
            continue;
        }
        let mut inner = match config.get(within) {
            Value::Null => block([]),
            given => given.clone(),
        };
        inner.set(*name, value.clone());
        config.set(*within, inner);
    }
    config
}

/// Whatever is taken away, alone or with what cannot be without it: a plan that core accepts, an apply
/// that comes true, and nothing left to do after it.
#[tokio::test]
async fn each_argument_can_be_taken_away() {
    let pairs = [
        &["cloud_init_wo", "cloud_init_wo_version"][..],
        &["username", "password_wo", "password_wo_version"],
    ];
    let all = everything();
    for (_, name, _) in &all {
        let gone = pairs
            .iter()
            .find(|pair| pair.contains(name))
            .map_or(std::slice::from_ref(name), |pair| *pair);
        let place = Place::new();
        let mut core = place.core().await;
        core.up("a", config_of(&all)).await;
        assert_eq!(core.action("a", config_of(&all)).await, Action::NoOp);
        let rest = config_of(all.iter().filter(|(_, name, _)| !gone.contains(name)));
        let plan = core.up("a", rest.clone()).await;
        // A constant default is another value; everything else stays as it is on the proxy.
        let replaces = ["port", "allowed_ports"].contains(name);
        let expected = match *name {
            "namespace" | "backend" => Action::NoOp,
            _ if replaces => Action::Replace,
            _ => Action::Update,
        };
        assert_eq!(plan.action, expected, "without {gone:?}: {:?}", plan.replace);
        assert_eq!(core.action("a", rest).await, Action::NoOp, "without {gone:?}");
        assert_eq!(place.count(), 1);
    }
}

/// Each argument alone is added to a proxy that was made without any.
#[tokio::test]
async fn each_argument_can_be_added() {
    for arguments in [
        &["namespace"][..],
        &["backend"],
        &["port"],
        &["cloud_init_wo", "cloud_init_wo_version"],
        &["labels"],
        &["wait_for"],
        &["create"],
        &["zone"],
        &["allowed_cidrs"],
        &["allowed_ports"],
        &["allowed_domains"],
        &["username", "password_wo", "password_wo_version"],
    ] {
        let place = Place::new();
        let mut core = place.core().await;
        core.up("a", proxy("a", [])).await;
        let all = everything();
        let more = config_of(all.iter().filter(|(_, name, _)| arguments.contains(name)));
        let plan = core.up("a", more.clone()).await;
        let expected = match arguments[0] {
            "backend" => Action::NoOp,
            "labels" | "wait_for" | "create" | "zone" => Action::Update,
            _ => Action::Replace,
        };
        assert_eq!(plan.action, expected, "with {arguments:?}: {:?}", plan.replace);
        assert_eq!(core.action("a", more).await, Action::NoOp, "with {arguments:?}");
        assert_eq!(place.count(), 1);
    }
}

/// `moved`: core renames the address, and the state goes with it.
#[tokio::test]
async fn a_moved_resource_plans_nothing() {
    let place = Place::new();
    let mut core = place.core().await;
    core.up("a", proxy("x", [])).await;
    let moved = core.state.remove("a").expect("stored");
    core.state
        .insert("module.m.egress_proxy.b[\"k\"]".to_owned(), moved);
    let address = "module.m.egress_proxy.b[\"k\"]";
    assert_eq!(core.action(address, proxy("x", [])).await, Action::NoOp);
    // Moved and renamed at once is a replacement, and the old one goes.
    assert_eq!(core.up(address, proxy("y", [])).await.action, Action::Replace);
    assert_eq!(place.count(), 1);
}

/// A password is in no state, so that the block of the state has a version without it.
#[tokio::test]
async fn what_is_ignored_changes_nothing_however_it_differs() {
    let place = Place::new();
    let mut core = place.core().await;
    let all = everything();
    core.up("a", config_of(&all)).await;
    let other = |name: &str| {
        let mut config = config_of(&all);
        let changed = match name {
            "port" => Value::from(9090),
            "labels" => Value::object([("team", Value::from("ops"))]),
            "access" => block([
                ("username", Value::from("v")),
                ("password_wo", Value::from("other")),
                ("password_wo_version", Value::from("2")),
            ]),
            "placement" | "timeouts" | "cloud_init_wo" => Value::Null,
            "cloud_init_wo_version" => Value::from("2"),
            "wait_for" => Value::from("none"),
            "namespace" => Value::from("m"),
            other => panic!("{other}"),
        };
        config.set(name, changed);
        config
    };
    for ignored in [
        &["port"][..],
        &["labels"],
        &["access"],
        &["placement"],
        &["timeouts"],
        &["wait_for"],
        &["namespace"],
        &["cloud_init_wo_version", "cloud_init_wo"],
    ] {
        let plan = core.plan_ignoring("a", other(ignored[0]), ignored).await;
        assert_eq!(plan.expect("a plan").action, Action::NoOp, "{ignored:?}");
    }
    // Replaced for another reason, what is ignored is planned as the state has it.
    let plan = core
        .plan_ignoring("a", other("port"), &["access"])
        .await
        .expect("a plan");
    assert_eq!(
        (plan.action, plan.replace),
        (Action::Replace, vec!["port".to_owned()])
    );
    // What nobody ignores must still be whole.
    let mut half = config_of(&all);
    half.set("cloud_init_wo", Value::Null);
    let problems = core
        .plan("a", half)
        .await
        .expect_err("a version without its value");
    assert!(
        problems.0[0].to_string().contains("cloud_init_wo"),
        "{problems:#?}"
    );
}

/// A value that turns out null only when the plan is made is found missing there, or at the latest
/// when the proxy is to be created: never is one made without its password.
#[tokio::test]
async fn a_password_that_turns_out_null_is_missed() {
    let place = Place::new();
    let mut core = place.core().await;
    let access = |password: Value| {
        proxy(
            "a",
            [(
                "access",
                block([
                    ("username", Value::from("u")),
                    ("password_wo", password),
                    ("password_wo_version", Value::from("1")),
                ]),
            )],
        )
    };
    let plan = core.plan("a", access(Value::unknown())).await.expect("a plan");
    let problems = core.apply_resolved("a", plan, Some(access(Value::Null))).await;
    assert!(
        problems.has_errors() && problems.0[0].to_string().contains("password_wo"),
        "{problems:#?}"
    );
    assert_eq!(place.count(), 0);
    core.up("a", access(Value::from("pw"))).await;
    core.state.get_mut("a").expect("stored").tainted = true;
    let plan = core.plan("a", access(Value::unknown())).await.expect("a plan");
    let problems = core.apply_resolved("a", plan, Some(access(Value::Null))).await;
    assert!(problems.has_errors(), "{problems:#?}");
    assert_eq!(place.count(), 0, "the old one went, as a replacement goes");
}

#[tokio::test]
async fn names_are_as_long_as_the_backend_takes() {
    let place = Place::new();
    let mut core = place.core().await;
    let longest = "a".repeat(50);
    core.up("a", proxy(&longest, [("namespace", Value::from("n".repeat(63)))]))
        .await;
    let id = core.text("a", "id");
    core.state.clear();
    assert!(core.import("a", &id).await.is_empty());
    assert_eq!(core.text("a", "name"), longest);
    for (name, word) in [
        ("a".repeat(51), "at most 50"),
        ("a".repeat(64), "1 to 63"),
        (String::new(), "1 to 63"),
    ] {
        let problems = core.plan("b", proxy(&name, [])).await.expect_err("too long");
        let text = problems.0[0].to_string();
        assert!(text.contains(word), "{text}");
        assert_eq!(
            problems.0[0].path.as_ref().map(ToString::to_string).as_deref(),
            Some("name")
        );
    }
}

/// Thousands of entries: planned, made, planned again, imported; one more of them is a replacement.
#[tokio::test]
async fn huge_lists_are_lists() {
    let place = Place::new();
    let mut core = place.core().await;
    let config = |count: u32| {
        let cidrs = (0..count).map(|index| {
            let [_, a, b, c] = index.to_be_bytes();
            Value::from(format!("10.{a}.{b}.{c}/32"))
        });
        let domains = (0..count).map(|index| Value::from(format!(".d{index}.example.com")));
        let labels = (0..count.min(500)).map(|index| (format!("k{index}"), Value::from("v")));
        proxy(
            "a",
            [
                (
                    "access",
                    block([
                        ("allowed_cidrs", Value::List(cidrs.collect())),
                        ("allowed_domains", Value::List(domains.collect())),
                        (
                            "allowed_ports",
                            Value::from((1..=u16::MAX).step_by(7).collect::<Vec<_>>()),
                        ),
                    ]),
                ),
                ("labels", Value::Map(labels.collect())),
            ],
        )
    };
    core.up("a", config(5000)).await;
    assert_eq!(core.action("a", config(5000)).await, Action::NoOp);
    let plan = core.plan("a", config(5001)).await.expect("a plan");
    assert_eq!(plan.replace, ["access.allowed_cidrs", "access.allowed_domains"]);
    // Refused under the name, the difference is told and not the lists.
    let mut other = place.core().await;
    let plan = other.plan("a", config(5001)).await.expect("a plan");
    let problems = other.apply("a", plan).await;
    let text = problems.0[0].to_string();
    assert!(
        text.contains("among them \".d5000.example.com\"") && text.len() < 2000,
        "{text}"
    );
    core.state.clear();
    assert!(core.import("a", "lab/z1/default/a").await.is_empty());
    assert_eq!(core.action("a", config(5000)).await, Action::NoOp);
}

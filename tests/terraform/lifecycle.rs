//! Create, plan, update, replace, destroy.

use egress::plugin::value::Value;

use crate::core::Action;
use crate::world::{Place, block, proxy, texts};

#[tokio::test]
async fn a_proxy_is_created_and_plans_nothing_afterwards() {
    let place = Place::new();
    let mut core = place.core().await;
    let plan = core.up("a", proxy("a", [])).await;
    assert_eq!(plan.action, Action::Create);
    // Everything that follows from the configuration is known before it is made.
    for name in ["id", "uid", "spec_sha256", "backend", "namespace"] {
        assert!(plan.planned.get(name).as_str().is_some(), "{name}");
    }
    assert_eq!(core.text("a", "id"), "lab/z1/default/a");
    assert_eq!(core.text("a", "state"), "running");
    let ip = core.text("a", "ip");
    assert_eq!(core.text("a", "proxy_url"), format!("http://{ip}:3128"));
    assert_eq!(core.of("a").get("port").as_i64(), Some(3128));
    assert!(core.of("a").get("placement").is_null() && core.of("a").get("access").is_null());
    assert_eq!(core.action("a", proxy("a", [])).await, Action::NoOp);
    assert!(!core.delete("a").await.has_errors());
    assert!(place.is_empty());
}

fn access(cidrs: &[&str]) -> (&'static str, Value) {
    ("access", block([("allowed_cidrs", texts(cidrs))]))
}

#[tokio::test]
async fn what_differs_in_effect_replaces() {
    let place = Place::new();
    let mut core = place.core().await;
    core.up("a", proxy("a", [access(&["10.0.0.0/8"])])).await;
    let before = core.text("a", "incarnation");
    let ten = || access(&["10.0.0.0/8"]);
    for (changed, path) in [
        (proxy("b", [ten()]), "name"),
        (proxy("a", [access(&["10.0.0.0/9"])]), "access.allowed_cidrs"),
        (proxy("a", [ten(), ("port", Value::from(8080))]), "port"),
        (proxy("a", [ten(), ("namespace", Value::from("n"))]), "namespace"),
        (
            proxy("a", [ten(), ("cloud_init", Value::from("#cloud-config\n"))]),
            "cloud_init",
        ),
        (proxy("a", [ten(), ("port", Value::unknown())]), "port"),
    ] {
        let plan = core.plan("a", changed).await.expect("a plan");
        assert_eq!(plan.action, Action::Replace, "{path}");
        assert_eq!(plan.replace, [path]);
    }
    let plan = core.up("a", proxy("a", [access(&["192.0.2.0/24"])])).await;
    assert_eq!(plan.action, Action::Replace);
    assert_ne!(core.text("a", "incarnation"), before);
    assert_eq!(place.count(), 1);
}

#[tokio::test]
async fn spelling_and_order_plan_nothing() {
    let place = Place::new();
    let mut core = place.core().await;
    let config = |cidrs: &[&str], domains: &[&str], text: &str| {
        let access = block([
            ("allowed_cidrs", texts(cidrs)),
            ("allowed_domains", texts(domains)),
        ]);
        proxy("a", [("access", access), ("cloud_init", Value::from(text))])
    };
    let first = config(
        &["10.1.2.3/8", "192.0.2.0/24"],
        &["Example.com", "a.org"],
        "#cloud-config\na: 1\n",
    );
    core.up("a", first).await;
    // The user's own spelling is what the state holds.
    let kept = core.of("a").get("access").get("allowed_cidrs").clone();
    assert_eq!(kept, texts(&["10.1.2.3/8", "192.0.2.0/24"]));
    let again = config(
        &["192.0.2.0/24", "10.0.0.0/8"],
        &["a.org.", "example.com"],
        "#cloud-config\r\na: 1\r\n",
    );
    assert_eq!(core.action("a", again).await, Action::NoOp);
}

#[tokio::test]
async fn a_default_written_out_makes_no_remote_write() {
    let place = Place::new();
    let mut core = place.core().await;
    core.up("a", proxy("a", [])).await;
    assert_eq!(
        core.action("a", proxy("a", [("port", Value::from(3128))])).await,
        Action::NoOp
    );
    let writes = place.calls("create") + place.calls("resume");
    for config in [
        proxy("a", [access(&["127.0.0.0/8", "::1/128"])]),
        proxy(
            "a",
            [(
                "placement",
                block([("zone", Value::from("z1")), ("spot", Value::from(false))]),
            )],
        ),
        proxy(
            "a",
            [("access", block([("allowed_ports", Value::from(vec![443]))]))],
        ),
        proxy("a", [("timeouts", block([("create", Value::from("1h"))]))]),
        proxy("a", [("wait_for", Value::from("ready"))]),
        proxy("a", [("access", block([]))]),
        proxy("a", []),
    ] {
        let plan = core.up("a", config.clone()).await;
        assert_eq!(plan.action, Action::Update, "{config:#?}");
        assert_eq!(core.action("a", config).await, Action::NoOp);
    }
    assert_eq!(place.calls("create") + place.calls("resume"), writes);
}

#[tokio::test]
async fn what_is_left_out_keeps_its_value_and_is_told_once() {
    let place = Place::new();
    let mut core = place.core().await;
    let given = proxy(
        "a",
        [
            ("placement", block([("zone", Value::from("z1"))])),
            (
                "access",
                block([
                    ("allowed_cidrs", texts(&["10.0.0.0/8"])),
                    ("allowed_ports", Value::from(vec![8443])),
                ]),
            ),
        ],
    );
    core.up("a", given).await;
    let uid = core.text("a", "uid");
    let plan = core.up("a", proxy("a", [])).await;
    assert_eq!(plan.action, Action::Update);
    let told: Vec<_> = plan.diagnostics.iter().map(ToString::to_string).collect();
    assert_eq!(told.len(), 2, "{told:#?}");
    assert!(
        told[0].contains("placement.zone") && told[1].contains("access.allowed_cidrs"),
        "{told:#?}"
    );
    let titles: Vec<_> = plan
        .diagnostics
        .iter()
        .map(|told| told.summary.as_str())
        .collect();
    assert_eq!(
        titles,
        ["placement", "access"].map(|block| format!("The proxy keeps {block} that is not given any more"))
    );
    assert_eq!(core.text("a", "uid"), uid);
    let again = core.plan("a", proxy("a", [])).await.expect("a plan");
    assert_eq!(again.action, Action::NoOp);
    assert!(again.diagnostics.is_empty());
    // A constant default is a value like any other once its block is there again.
    let plan = core
        .plan("a", proxy("a", [access(&["10.0.0.0/8"])]))
        .await
        .expect("a plan");
    assert_eq!(plan.action, Action::Replace);
    assert_eq!(plan.replace, ["spec_sha256"]);
}

#[tokio::test]
async fn labels_change_in_place_and_others_stay() {
    let place = Place::new();
    let mut core = place.core().await;
    let labels = |pairs: &[(&str, &str)]| {
        let labels = pairs.iter().map(|(key, value)| (*key, Value::from(*value)));
        proxy("a", [("labels", Value::object(labels))])
    };
    core.up("a", labels(&[("team", "net"), ("stage", "prod")])).await;
    place.change("a", |record| {
        record.labels.insert("of-another-tool".into(), "1".into());
    });
    assert_eq!(
        core.action("a", labels(&[("team", "net"), ("stage", "prod")]))
            .await,
        Action::NoOp
    );
    let incarnation = core.text("a", "incarnation");
    let plan = core.up("a", labels(&[("team", "ops")])).await;
    assert_eq!(plan.action, Action::Update);
    assert!(plan.planned.is_wholly_known(), "relabelling changes nothing else");
    assert_eq!(core.text("a", "incarnation"), incarnation);
    let found = place
        .world
        .look(|world| world.zones["z1"].instances["default/a"].labels.clone());
    let found = found.expect("a world");
    assert_eq!(found.get("team").map(String::as_str), Some("ops"));
    assert!(!found.contains_key("stage") && found.contains_key("of-another-tool"));
    // Changed by hand: drift.
    place.change("a", |record| {
        record.labels.insert("team".into(), "by-hand".into());
    });
    assert_eq!(core.action("a", labels(&[("team", "ops")])).await, Action::Update);
    core.up("a", proxy("a", [])).await;
    assert_eq!(core.action("a", proxy("a", [])).await, Action::NoOp);
}

#[tokio::test]
async fn a_taint_replaces_and_loses_nothing() {
    let place = Place::new();
    let mut core = place.core().await;
    core.up("a", proxy("a", [])).await;
    let before = core.text("a", "incarnation");
    core.state.get_mut("a").expect("a").tainted = true;
    assert_eq!(core.up("a", proxy("a", [])).await.action, Action::Replace);
    assert_ne!(core.text("a", "incarnation"), before);
    assert_eq!(place.count(), 1);
    assert_eq!(core.action("a", proxy("a", [])).await, Action::NoOp);
}

/// The CLIs show warnings of one title as one.
#[tokio::test]
async fn each_warning_has_a_title_and_a_place_of_its_own() {
    let place = Place::new();
    let mut core = place.core().await;
    let access = block([
        ("allowed_cidrs", Value::List(vec![])),
        ("allowed_domains", Value::List(vec![])),
    ]);
    let plan = core
        .plan("a", proxy("a", [("access", access)]))
        .await
        .expect("a plan");
    let told: Vec<_> = plan
        .diagnostics
        .iter()
        .map(|told| (told.summary.as_str(), told.path.as_ref().map(ToString::to_string)))
        .collect();
    let place_of = |name: &str| Some(format!("access.{name}"));
    assert_eq!(
        told,
        [
            ("The proxy denies every client", place_of("allowed_cidrs")),
            ("The proxy denies every destination", place_of("allowed_domains")),
        ]
    );
}

#[tokio::test]
async fn a_plan_says_what_the_backend_cannot_do() {
    let place = Place::new();
    let mut core = place.core().await;
    let placement = block([
        ("zone", Value::from("nowhere")),
        ("machine_type", Value::from("big")),
    ]);
    let problems = core
        .plan("a", proxy("a", [("placement", placement)]))
        .await
        .expect_err("refused");
    let paths: Vec<_> = problems
        .iter()
        .filter_map(|problem| problem.path.as_ref())
        .map(ToString::to_string)
        .collect();
    assert_eq!(paths, ["placement.zone", "placement.machine_type"]);
}

#[tokio::test]
async fn what_is_unknown_at_plan_is_unknown_in_the_plan_alone() {
    let place = Place::new();
    let mut core = place.core().await;
    let config = |port: Value| proxy("a", [("port", port), ("labels", Value::unknown())]);
    let plan = core.plan("a", config(Value::unknown())).await.expect("a plan");
    for name in ["id", "uid", "spec_sha256"] {
        assert!(plan.planned.get(name).is_unknown(), "{name}");
    }
    let resolved = proxy("a", [("port", Value::from(8080))]);
    let told = core.apply_resolved("a", plan, Some(resolved)).await;
    assert!(!told.has_errors(), "{told:#?}");
    assert_eq!(core.of("a").get("port").as_i64(), Some(8080));
}

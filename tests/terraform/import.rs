//! Import by id and by identity: the configuration that made the instance plans nothing.

use egress::plugin::provider::ImportTarget;
use egress::plugin::value::Value;

use crate::core::Action;
use crate::world::{Place, block, proxy, texts};

fn configurations() -> Vec<Value> {
    let password = || {
        block([
            ("username", Value::from("u")),
            ("password_wo", Value::from("pw")),
            ("password_wo_version", Value::from("1")),
        ])
    };
    vec![
        proxy("a", []),
        proxy("a", [("port", Value::from(8080))]),
        proxy(
            "a",
            [
                ("port", Value::from(3128)),
                ("wait_for", Value::from("address")),
                ("backend", Value::from("lab")),
            ],
        ),
        proxy("a", [("placement", block([("zone", Value::from("z1"))]))]),
        proxy(
            "a",
            [(
                "access",
                block([
                    ("allowed_cidrs", texts(&["10.0.0.0/8", "fd00::/8"])),
                    ("allowed_domains", texts(&["example.com"])),
                ]),
            )],
        ),
        proxy(
            "a",
            [("access", block([("allowed_ports", Value::from(vec![443, 8443]))]))],
        ),
        proxy("a", [("access", password())]),
        proxy(
            "a",
            [
                ("cloud_init_wo", Value::from("#cloud-config\n")),
                ("cloud_init_wo_version", Value::from("7")),
            ],
        ),
        proxy("a", [("labels", Value::object([("team", Value::from("net"))]))]),
        proxy("a", [("namespace", Value::from("n"))]),
    ]
}

#[tokio::test]
async fn an_import_plans_nothing() {
    for config in configurations() {
        for by_identity in [false, true] {
            let place = Place::new();
            let mut core = place.core().await;
            core.up("a", config.clone()).await;
            let stored = core.state.remove("a").expect("a");
            let id = stored.state.get("id").as_str().expect("an id").to_owned();
            let target = if by_identity {
                ImportTarget::Identity(stored.identity.clone().expect("an identity"))
            } else {
                ImportTarget::Id(id)
            };
            let told = core.import_target("a", target).await;
            assert!(told.is_empty(), "{told:#?}");
            assert_eq!(core.of("a"), &stored.state, "{config:#?}");
            assert_eq!(
                core.action("a", config.clone()).await,
                Action::NoOp,
                "{config:#?}"
            );
        }
    }
}

#[tokio::test]
async fn what_a_mark_cannot_hold_is_one_update_without_a_remote_write() {
    let hash =
        "$6$saltsalt$qFmFH.bQmmtXzyBY0s9v7Oicd2z4XSIecDzlB5KiA2/jctKu9YterLp8wwnSq.qc.eoxqOmSuNp2xS0ktL3nh/";
    for config in [
        proxy(
            "a",
            [(
                "access",
                block([
                    ("username", Value::from("u")),
                    ("password_hash", Value::from(hash)),
                ]),
            )],
        ),
        proxy("a", [("cloud_init", Value::from("#cloud-config\n"))]),
        proxy(
            "a",
            [
                ("wait_for", Value::from("ready")),
                ("timeouts", block([("read", Value::from("1m"))])),
            ],
        ),
    ] {
        let place = Place::new();
        let mut core = place.core().await;
        core.up("a", config.clone()).await;
        core.state.clear();
        assert!(core.import("a", "lab/z1/default/a").await.is_empty());
        let writes = place.calls("create") + place.calls("resume");
        assert_eq!(
            core.up("a", config.clone()).await.action,
            Action::Update,
            "{config:#?}"
        );
        assert_eq!(place.calls("create") + place.calls("resume"), writes);
        assert_eq!(core.action("a", config).await, Action::NoOp);
    }
}

#[tokio::test]
async fn an_import_under_another_configuration_says_what_replaces_it() {
    let place = Place::new();
    let mut core = place.core().await;
    let access = |cidr: &str| ("access", block([("allowed_cidrs", texts(&[cidr]))]));
    let made = proxy("a", [("port", Value::from(8080)), access("10.0.0.0/8")]);
    core.up("a", made).await;
    core.state.clear();
    assert!(core.import("a", "lab/z1/default/a").await.is_empty());
    for (config, replaced) in [
        (proxy("a", [access("10.0.0.0/8")]), &["port"][..]),
        (
            proxy("a", [("port", Value::from(8080)), access("192.0.2.0/24")]),
            &["access.allowed_cidrs"],
        ),
        (
            proxy("b", [access("192.0.2.0/24")]),
            &["name", "port", "access.allowed_cidrs"],
        ),
        (
            proxy(
                "a",
                [("port", Value::from(8080)), ("namespace", Value::from("n"))],
            ),
            &["namespace"],
        ),
    ] {
        let plan = core.plan("a", config).await.expect("a plan");
        assert_eq!(
            (plan.action, plan.replace),
            (
                Action::Replace,
                replaced.iter().map(|path| (*path).to_owned()).collect()
            )
        );
    }
}

#[tokio::test]
async fn a_block_left_out_after_an_import_replaces_nothing() {
    let place = Place::new();
    let mut core = place.core().await;
    let access = block([
        ("allowed_cidrs", texts(&["10.0.0.0/8"])),
        ("allowed_ports", Value::from(vec![8443])),
    ]);
    core.up(
        "a",
        proxy(
            "a",
            [
                ("access", access),
                ("placement", block([("zone", Value::from("z1"))])),
            ],
        ),
    )
    .await;
    core.state.clear();
    assert!(core.import("a", "lab/z1/default/a").await.is_empty());
    assert_eq!(core.up("a", proxy("a", [])).await.action, Action::Update);
    assert_eq!(core.action("a", proxy("a", [])).await, Action::NoOp);
}

#[tokio::test]
async fn an_id_that_cannot_be_right_says_why() {
    let place = Place::new();
    let mut core = place.core().await;
    for (id, word) in [
        ("", "slash"),
        ("a", "slash"),
        ("lab//x", "segments"),
        ("Lab/x", "lower-case"),
        ("6f9619ff-8b86-d011-b42d-00c04fc964ff", "slash"),
        ("gone/z1/default/a", "backend \"gone\""),
        ("lab/nowhere", "lab"),
        ("lab/z9/default/a", "zone"),
        ("lab/z1/default/a", "non-existent"),
    ] {
        let problems = core.import("a", id).await;
        assert!(problems.has_errors() && core.state.is_empty(), "{id}");
        let text: String = problems.iter().map(ToString::to_string).collect();
        assert!(text.contains(word), "{id}: {text}");
        if problems.0[0].summary.contains("cannot be read") {
            // The example is one of this configuration, and the rule is told once.
            assert!(text.contains("\"lab/z1/default/builds\""), "{id}: {text}");
            assert_eq!(
                text.matches("the backend's own id").count(),
                usize::from(word == "slash"),
                "{text}"
            );
        }
    }
}

#[tokio::test]
async fn an_unfinished_instance_is_handed_over_after_its_import() {
    let place = Place::new();
    let mut core = place.core().await;
    core.up("a", proxy("a", [])).await;
    place.change("a", |record| record.mark.as_mut().expect("a mark").pending = true);
    core.state.clear();
    assert!(core.import("a", "lab/z1/default/a").await.is_empty());
    assert_eq!(core.up("a", proxy("a", [])).await.action, Action::Update);
    assert_eq!(core.action("a", proxy("a", [])).await, Action::NoOp);
}

#[tokio::test]
async fn a_generated_configuration_plans_nothing() {
    let place = Place::new();
    let mut core = place.core().await;
    core.up(
        "a",
        proxy(
            "a",
            [
                ("access", block([("allowed_cidrs", texts(&["10.0.0.0/8"]))])),
                ("port", Value::from(81)),
            ],
        ),
    )
    .await;
    core.state.clear();
    assert!(core.import("a", "lab/z1/default/a").await.is_empty());
    let config = core
        .resource()
        .generate_config(&core.call(), core.of("a").clone())
        .await
        .expect("a configuration");
    assert!(config.get("id").is_null() && config.get("wait_for").is_null());
    assert_eq!(core.action("a", config).await, Action::NoOp);
}

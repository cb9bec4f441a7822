//! Who owns an instance: nobody's is lost or doubled, however a configuration is turned around.

use egress::plugin::value::Value;

use crate::core::{Action, Core};
use crate::world::{Place, provider, proxy};

fn text(diagnostics: &egress::plugin::diagnostics::Diagnostics) -> String {
    diagnostics
        .iter()
        .map(|diagnostic| format!("{diagnostic}\n"))
        .collect()
}

#[tokio::test]
async fn two_resources_of_one_key_are_refused_in_one_run_and_in_two() {
    for adopt in ["interrupted", "same_spec", "never"] {
        let place = Place::new();
        let config = provider([("lab", place.backend([]))], [("adopt", Value::from(adopt))]);
        let mut core = Core::configured(config).await;
        let first = core.plan("a", proxy("a", [])).await.expect("a plan");
        let second = core.plan("b", proxy("a", [])).await.expect("a plan");
        assert!(!core.apply("a", first).await.has_errors());
        let problems = core.apply("b", second.clone()).await;
        assert!(text(&problems).contains("twice"), "{adopt}: {problems:#?}");
        assert!(!core.state.contains_key("b"));
        // A run later only what was asked for takes over.
        let again = core.plan("b", proxy("a", [])).await.expect("a plan");
        let told = core.apply("b", again).await;
        if adopt == "same_spec" {
            assert!(!told.has_errors() && !told.is_empty(), "{told:#?}");
            core.refresh("a").await;
            assert!(!core.state.contains_key("a"), "a lost it, and was told so");
            assert!(text(&core.told).contains("another instance"), "{:#?}", core.told);
        } else {
            let text = text(&told);
            for way_out in ["import {", "moved", "create_before_destroy"] {
                assert!(text.contains(way_out), "{adopt}: {text}");
            }
        }
        assert_eq!(place.count(), 1);
    }
}

#[tokio::test]
async fn another_specification_is_refused_with_each_value_that_differs() {
    let secret = "sEnTiNeL-0815";
    let access = |cidr: &str, version: &str| {
        Value::object([
            ("allowed_cidrs", crate::world::texts(&[cidr])),
            ("username", Value::from("u")),
            ("password_wo", Value::from(format!("{secret}{version}"))),
            ("password_wo_version", Value::from(version)),
        ])
    };
    let place = Place::new();
    let (mut ours, mut theirs) = (place.core().await, place.core().await);
    let made = proxy(
        "a",
        [("access", access("10.0.0.0/8", "1")), ("port", Value::from(8080))],
    );
    theirs.up("a", made).await;
    let plan = ours
        .plan("a", proxy("a", [("access", access("192.0.2.0/24", "2"))]))
        .await
        .expect("a plan");
    let said = text(&ours.apply("a", plan).await);
    for words in [
        "another specification",
        "port: there 8080, asked for 3128",
        "access.allowed_cidrs: there [\"10.0.0.0/8\"], asked for [\"192.0.2.0/24\"]",
        "access.password_wo_version: there \"1\", asked for \"2\"",
        "create_before_destroy",
        "import {\n  to = egress_proxy.a\n  id = \"lab/z1/default/a\"\n}",
    ] {
        assert!(said.contains(words), "{words} is missing: {said}");
    }
    assert!(!said.contains(secret) && !said.contains("username"), "{said}");
    // What an earlier create left is nobody's: there is nothing to import.
    place.change("a", |record| record.mark.as_mut().expect("a mark").pending = true);
    let plan = ours.plan("a", proxy("a", [])).await.expect("a plan");
    let said = text(&ours.apply("a", plan).await);
    assert!(
        said.contains("left unfinished") && !said.contains("import {"),
        "{said}"
    );
}

#[tokio::test]
async fn create_before_destroy_under_one_name_destroys_nothing_by_mistake() {
    for (adopt, works) in [("interrupted", false), ("never", false), ("same_spec", true)] {
        let place = Place::new();
        let config = provider([("lab", place.backend([]))], [("adopt", Value::from(adopt))]);
        let mut core = Core::configured(config).await;
        core.up("a", proxy("a", [])).await;
        core.state.get_mut("a").expect("a").tainted = true;
        let plan = core.plan("a", proxy("a", [])).await.expect("a plan");
        let told = core.apply_create_first("a", plan).await;
        assert_eq!(told.has_errors(), !works, "{adopt}: {told:#?}");
        assert_eq!(place.count(), 1, "{adopt}");
        assert_eq!(core.state.len(), 1, "{adopt}");
        if works {
            assert!(
                text(&told).contains("incarnation"),
                "whose it is, is told: {told:#?}"
            );
            assert_eq!(core.action("a", proxy("a", [])).await, Action::NoOp);
        }
    }
}

#[tokio::test]
async fn two_states_of_one_installation_never_share_an_instance() {
    let place = Place::new();
    let (mut ours, mut theirs) = (place.core().await, place.core().await);
    ours.up("a", proxy("a", [])).await;
    let plan = theirs.plan("a", proxy("a", [])).await.expect("a plan");
    let problems = theirs.apply("a", plan).await;
    assert!(text(&problems).contains("handed over"), "{problems:#?}");
    assert!(theirs.state.is_empty());
    assert_eq!(ours.action("a", proxy("a", [])).await, Action::NoOp);
}

#[tokio::test]
async fn another_installation_is_left_alone() {
    let place = Place::new();
    let mut ours = place.core().await;
    ours.up("a", proxy("a", [])).await;
    let mut config = place.provider();
    config.set("installation", "dev");
    let mut theirs = Core::configured(config.clone()).await;
    let plan = theirs.plan("a", proxy("a", [])).await.expect("a plan");
    assert!(text(&theirs.apply("a", plan).await).contains("prod"));
    // Renaming one's own installation is an error that names both, and keeps the state.
    assert!(ours.configure(config).await.is_empty());
    let before = ours.of("a").clone();
    let problems = ours.refresh("a").await;
    assert!(
        text(&problems).contains("prod") && text(&problems).contains("dev"),
        "{problems:#?}"
    );
    assert_eq!(ours.of("a"), &before);
}

#[tokio::test]
async fn a_renamed_backend_is_an_error_that_names_the_entry() {
    let place = Place::new();
    let mut core = place.core().await;
    core.up("a", proxy("a", [])).await;
    let before = core.of("a").clone();
    let renamed = provider([("new", place.backend([]))], []);
    assert!(core.configure(renamed).await.is_empty());
    let read = core.refresh("a").await;
    let deleted = core.delete("a").await;
    for problems in [read, deleted] {
        assert!(
            problems.has_errors() && text(&problems).contains("backend \"lab\""),
            "{problems:#?}"
        );
        assert!(
            text(&problems).contains("has new."),
            "what there is, is told: {problems:#?}"
        );
    }
    assert_eq!(core.of("a"), &before);
    assert_eq!(place.count(), 1);
}

#[tokio::test]
async fn a_repointed_backend_is_an_error_and_never_absence() {
    let place = Place::new();
    let mut core = place.core().await;
    core.up("a", proxy("a", [])).await;
    let before = core.of("a").clone();
    // Another machine answers under the zone's name, and it has nothing of ours.
    place.edit(|world| {
        let zone = world.zones.get_mut("z1").expect("the zone");
        zone.instances.clear();
        zone.secondary.clear();
        zone.machine = "another".into();
    });
    let problems = core.plan("a", proxy("a", [])).await.expect_err("an error");
    assert!(text(&problems).contains("state rm"), "{problems:#?}");
    assert!(core.delete("a").await.has_errors());
    assert_eq!(core.of("a"), &before);
}

#[tokio::test]
async fn a_moved_backend_with_our_instance_on_it_is_the_same_target() {
    let place = Place::new();
    let mut core = place.core().await;
    core.up("a", proxy("a", [])).await;
    let before = core.text("a", "target");
    place.edit(|world| world.zones.get_mut("z1").expect("the zone").machine = "rebuilt".into());
    assert_eq!(core.action("a", proxy("a", [])).await, Action::NoOp);
    assert_ne!(core.text("a", "target"), before);
}

#[tokio::test]
async fn an_instance_made_by_hand_is_not_touched() {
    let place = Place::new();
    let mut core = place.core().await;
    core.up("a", proxy("a", [])).await;
    place.change("a", |record| record.mark = None);
    let problems = core.plan("a", proxy("a", [])).await.expect_err("an error");
    assert!(text(&problems).contains("adopt"), "{problems:#?}");
    assert!(core.delete("a").await.has_errors());
    assert_eq!(place.count(), 1);
}

#[tokio::test]
async fn deleting_what_is_gone_succeeds() {
    let place = Place::new();
    let mut core = place.core().await;
    core.up("a", proxy("a", [])).await;
    place.edit(|world| world.zones.clear());
    assert!(core.delete("a").await.is_empty());
}

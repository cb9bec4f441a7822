//! States as the host stored them: read again, taken from elsewhere.

use egress::plugin::provider::{MoveRequest, RawState, UpgradeRequest};
use egress::plugin::value::Value;
use serde_json::{Value as Json, json};

use crate::core::{Action, Core};
use crate::world::{Place, block, proxy, texts};

/// A state as it lies in the state file.
fn stored(core: &Core, address: &str) -> Json {
    let ty = core.resource().schema().block.ty();
    let bytes = core.of(address).to_json(&ty).expect("a state has a JSON form");
    serde_json::from_slice(&bytes).expect("JSON")
}

fn request(state: &Json) -> UpgradeRequest {
    UpgradeRequest {
        version: 0,
        state: RawState::from_json(serde_json::to_vec(state).expect("JSON")),
    }
}

#[tokio::test]
async fn a_state_of_the_same_version_reads_back_whatever_else_is_in_it() {
    let place = Place::new();
    let mut core = place.core().await;
    let config = || {
        let access = [
            ("allowed_cidrs", texts(&["10.0.0.0/8"])),
            ("username", Value::from("u")),
            ("password_wo", Value::from("a password")),
            ("password_wo_version", Value::from("1")),
        ];
        let labels = Value::object([("team", Value::from("a"))]);
        proxy("a", [("access", block(access)), ("labels", labels)])
    };
    core.up("a", config()).await;
    let mut state = stored(&core, "a");
    state["from_the_future"] = json!({ "deep": [1, 2.5, null] });
    state["access"]["from_the_future"] = json!("x");
    // No host stores a write-only value; should one be there, it goes no further.
    state["access"]["password_wo"] = json!("left over");
    // What an older schema did not have is null.
    state.as_object_mut().expect("an object").remove("cloud_init");
    let upgraded = core
        .resource()
        .upgrade(&core.call(), request(&state))
        .await
        .expect("readable");
    assert_eq!(&upgraded, core.of("a"));

    core.state.get_mut("a").expect("stored").state = upgraded;
    assert_eq!(core.action("a", config()).await, Action::NoOp);
}

#[tokio::test]
async fn a_state_that_does_not_fit_is_refused_with_its_place() {
    let place = Place::new();
    let mut core = place.core().await;
    core.up("a", proxy("a", [])).await;
    let mut state = stored(&core, "a");
    state["labels"] = json!({ "team": ["s3cr3t"] });
    let problems = core
        .resource()
        .upgrade(&core.call(), request(&state))
        .await
        .expect_err("a list is no text");
    let [problem] = problems.iter().as_slice() else {
        panic!("one problem, not {problems:#?}");
    };
    let path = problem.path.as_ref().expect("a place").to_string();
    assert!(
        path.contains("labels") && problem.detail.contains("labels"),
        "{problem:?}"
    );
    assert!(!format!("{problem:?}").contains("s3cr3t"));
}

#[tokio::test]
async fn a_state_before_json_is_refused_with_a_way_out() {
    let core = Place::new().core().await;
    let request = UpgradeRequest {
        version: 0,
        state: RawState {
            flatmap: [("name".to_owned(), "a".to_owned())].into(),
            ..RawState::default()
        },
    };
    let problems = core
        .resource()
        .upgrade(&core.call(), request)
        .await
        .expect_err("flat");
    assert!(format!("{problems:?}").contains("0.11"), "{problems:#?}");
}

#[tokio::test]
async fn the_state_of_another_type_is_refused_with_a_way_out() {
    let core = Place::new().core().await;
    let request = MoveRequest {
        source_provider_address: "registry.terraform.io/hashicorp/null".into(),
        source_type_name: "null_resource".into(),
        source_state: RawState::from_json(br#"{"id":"s3cr3t"}"#.to_vec()),
        ..MoveRequest::default()
    };
    let moved = core.resource().move_state(&core.call(), request).await;
    assert!(moved.diagnostics.has_errors() && moved.state.is_null());
    let text = format!("{:?}", moved.diagnostics);
    for word in [
        "null_resource",
        "egress_proxy",
        "hashicorp/null",
        "moved block",
        "import",
    ] {
        assert!(text.contains(word), "{word} is missing in {text}");
    }
    assert!(!text.contains("s3cr3t"), "{text}");
}

/// Taken for none, it would make the proxy somebody else's: a destroy would leave it running.
#[tokio::test]
async fn an_incarnation_that_cannot_be_read_is_an_error_and_loses_nothing() {
    let place = Place::new();
    let mut core = place.core().await;
    core.up("a", proxy("a", [])).await;
    let stored = &mut core.state.get_mut("a").expect("stored").state;
    stored.set("incarnation", "garbage");
    for problems in [core.refresh("a").await, core.delete("a").await] {
        assert!(problems.has_errors());
        let text = format!("{problems:?}");
        assert!(text.contains("\\\"garbage\\\" is no UUID"), "{text}");
        assert!(core.state.contains_key("a"), "still in the state");
    }
}

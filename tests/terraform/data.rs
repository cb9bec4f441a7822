//! The data sources.

use egress::plugin::value::Value;

use crate::core::Core;
use crate::world::{Place, provider, proxy};

#[tokio::test]
async fn an_unhealthy_target_is_data() {
    let place = Place::new();
    let two = place.backend([("zones", crate::world::texts(&["z1", "z2"]))]);
    let core = Core::configured(provider([("lab", two)], [])).await;
    let state = core
        .data("egress_provider_health", Value::Null)
        .await
        .expect("data");
    assert_eq!(state.get("healthy").as_bool(), Some(true));
    assert_eq!(state.get("targets").as_list().len(), 2);
    place.edit(|world| world.zones.entry("z2".into()).or_default().reachable = false);
    let state = core
        .data(
            "egress_provider_health",
            Value::object([("backend", Value::from("lab"))]),
        )
        .await
        .expect("data");
    assert_eq!(state.get("healthy").as_bool(), Some(false));
    let unhealthy: Vec<_> = state
        .get("targets")
        .as_list()
        .iter()
        .filter(|target| target.get("healthy").as_bool() == Some(false))
        .collect();
    assert_eq!(unhealthy.len(), 1);
    assert_eq!(unhealthy[0].get("reason").as_str(), Some("Unreachable"));
    let problems = core
        .data(
            "egress_provider_health",
            Value::object([("backend", Value::from("gone"))]),
        )
        .await
        .expect_err("no such backend");
    assert!(problems.0[0].to_string().contains("gone"));
}

#[tokio::test]
async fn the_listing_shows_everything_of_the_installation() {
    let place = Place::new();
    let backend = place.backend([("zones", crate::world::texts(&["z1", "z2"]))]);
    let mut core = Core::configured(provider([("lab", backend)], [])).await;
    let in_z1 = || ("placement", Value::object([("zone", Value::from("z1"))]));
    core.up("b", proxy("b", [in_z1()])).await;
    core.up("a", proxy("a", [in_z1(), ("namespace", Value::from("n"))]))
        .await;
    let id = core.text("a", "id");
    let shown = core.of("a").clone();
    core.state.clear();
    let state = core.data("egress_proxies", Value::Null).await.expect("data");
    assert_eq!(state.get("proxies").as_list().len(), 2);
    assert!(state.get("unreadable").as_list().is_empty());
    let filtered = core
        .data("egress_proxies", Value::object([("namespace", Value::from("n"))]))
        .await
        .expect("data");
    let [only] = filtered.get("proxies").as_list() else {
        panic!("{filtered:#?}")
    };
    assert_eq!(only.get("id").as_str(), Some(id.as_str()));
    for (name, value) in only.as_map().expect("an object") {
        assert_eq!(value, shown.get(name), "{name}");
    }
    place.edit(|world| world.zones.entry("z2".into()).or_default().reachable = false);
    let partial = core.data("egress_proxies", Value::Null).await.expect("data");
    assert_eq!(partial.get("proxies").as_list().len(), 2);
    assert_eq!(
        partial.get("unreadable").as_list()[0]
            .get("scope")
            .as_str()
            .map(|scope| scope.contains("z2")),
        Some(true)
    );
}

//! What may go and what stays, in worlds of the reference backend.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::*;
use crate::contract::memory::{
    Effect, Fault, Memory, Place, Record, SecondaryRecord, Settings, Step, WorldHandle,
};
use crate::contract::{
    Backend, Facts, InstanceKey, ListFilter, Mark, Namespace, NativeId, NewInstance, Operation,
};
use crate::terraform::listing;
use crate::terraform::orphans::{Held, orphans};

const HOUR: SignedDuration = SignedDuration::from_hours(1);

/// A world with one backend `lab` in it.
struct Scene {
    world: WorldHandle,
    open: Open,
}

impl Scene {
    fn new() -> Self {
        let world = WorldHandle::new(Default::default());
        let name: crate::contract::BackendName = "lab".parse().expect("valid");
        let settings = Settings::new(name.clone()).zones(&["z1", "z2"]);
        let backend: Arc<dyn Backend> = Arc::new(Memory::new(settings, world.clone()));
        let open = Open {
            name,
            backend,
            default_namespace: Namespace::default(),
        };
        Self { world, open }
    }

    /// Puts an instance there that is that old.
    fn put(&self, name: &str, installation: &str, pending: bool, age: SignedDuration) -> Mark {
        let began = Timestamp::now() - age;
        let key = InstanceKey {
            installation: installation.parse().expect("valid"),
            namespace: Namespace::default(),
            name: name.parse().expect("valid"),
        };
        let facts = Facts {
            zone: Some("z1".into()),
            ..Facts::default()
        };
        let new = NewInstance::new(key, facts.with_common_defaults(), BTreeSet::new());
        let seconds = u64::try_from(began.as_second()).expect("after 1970");
        let clock = uuid::Timestamp::from_unix(uuid::NoContext, seconds, 0);
        let mark = Mark {
            key: new.key,
            uid: new.uid,
            incarnation: uuid::Uuid::new_v7(clock).to_string().parse().expect("a UUID"),
            pending,
            label_keys: BTreeSet::new(),
            created_at: Some(began),
            spec_sha256: new.spec_sha256,
            facts: new.facts,
            given: new.given,
        };
        let (_, place) = Place::in_zone("z1", &mark.key).expect("a place");
        self.edit(|world| {
            let address = world.next_address();
            world.put(&place, Record::new(mark.clone(), address));
        });
        mark
    }

    /// Leaves a disk of an instance that is gone.
    fn leave_disk(&self, mark: &Mark, created_at: Option<Timestamp>) {
        let (id, place) = Place::in_zone("z1", &mark.key).expect("a place");
        self.edit(|world| {
            world.take(&id);
            world.zone_mut(&place.zone).secondary.push(SecondaryRecord {
                id,
                mark: mark.clone(),
                name: format!("disk-{}", mark.uid),
                intact: true,
                created_at,
            });
        });
    }

    fn edit(&self, edit: impl FnOnce(&mut crate::contract::memory::World)) {
        self.world.edit(edit).expect("writable");
    }

    fn left(&self) -> Vec<String> {
        let names = self.world.look(|world| {
            let zone = world.zones.get("z1").cloned().unwrap_or_default();
            let disks = zone.secondary.into_iter().map(|left| left.id.to_string());
            zone.instances.into_keys().chain(disks).collect()
        });
        names.expect("readable")
    }

    async fn survey(&self, held: &Held, guards: Guards) -> Vec<Item> {
        let filter = ListFilter {
            installation: prod(),
            namespace: None,
        };
        let inventory = listing::of_one(&self.open, &filter, &CancellationToken::new()).await;
        survey(&orphans(inventory, held), guards, Timestamp::now())
    }

    async fn run(&self, guards: Guards, token: &CancellationToken) -> Vec<(String, Fate)> {
        let items = self.survey(&Held::default(), guards).await;
        let fates = collect(&items, &prod(), guards, token);
        let named = fates.map(|(place, fate)| (items[place].id.to_string(), fate));
        let mut fates: Vec<_> = named.collect().await;
        fates.sort_by(|a, b| a.0.cmp(&b.0));
        fates
    }
}

fn prod() -> Installation {
    "prod".parse().expect("valid")
}

fn guards(complete: bool) -> Guards {
    Guards {
        min_age: MIN_AGE,
        complete,
    }
}

fn verdicts(items: &[Item]) -> Vec<(String, Option<Protection>)> {
    items
        .iter()
        .map(|item| (item.id.native.to_string(), item.protection.clone()))
        .collect()
}

#[tokio::test]
async fn what_goes_and_what_stays() {
    let scene = Scene::new();
    scene.put("old", "prod", true, 2 * HOUR);
    scene.put("young", "prod", true, HOUR / 2);
    scene.put("handed", "prod", false, 2 * HOUR);
    scene.put("theirs", "staging", true, 2 * HOUR);
    let ageless = scene.put("ageless", "prod", true, 2 * HOUR);
    scene.edit(|world| {
        let (id, _) = Place::in_zone("z1", &ageless.key).expect("a place");
        let mark = world.record_mut(&id).and_then(|record| record.mark.as_mut());
        mark.expect("there").created_at = None;
    });
    let gone = scene.put("gone", "prod", false, 2 * HOUR);
    scene.leave_disk(&gone, Some(Timestamp::now() - 2 * HOUR));

    let young = || Some(Protection::Young(MIN_AGE));
    let id = |name: &str| format!("z1/default/{name}");
    let expected = |handed: Option<Protection>| {
        vec![
            (id("ageless"), Some(Protection::Ageless)),
            (id("gone"), None),
            (id("handed"), handed),
            (id("old"), None),
            (id("young"), young()),
        ]
    };
    let held = Held::default();
    let items = scene.survey(&held, guards(false)).await;
    assert_eq!(verdicts(&items), expected(Some(Protection::HandedOver)));
    let items = scene.survey(&held, guards(true)).await;
    assert_eq!(verdicts(&items), expected(None));
}

#[tokio::test]
async fn what_a_state_holds_is_no_orphan_by_id_or_by_incarnation() {
    let scene = Scene::new();
    scene.put("a", "prod", true, 2 * HOUR);
    let b = scene.put("b", "prod", true, 2 * HOUR);
    let c = scene.put("c", "prod", true, 2 * HOUR);
    scene.leave_disk(&c, Some(Timestamp::now() - 2 * HOUR));
    let mut held = Held::default();
    // A state from before the backend was renamed.
    held.add_id("formerly/z1/default/a").expect("an id");
    held.add_id("formerly/z1/default/c").expect("an id");
    held.add_incarnation(b.incarnation);
    assert_eq!(verdicts(&scene.survey(&held, guards(true)).await), []);
}

#[tokio::test]
async fn what_a_silent_part_may_hide_stays() {
    let scene = Scene::new();
    let gone = scene.put("gone", "prod", false, 2 * HOUR);
    scene.leave_disk(&gone, Some(Timestamp::now() - 2 * HOUR));
    let hidden = scene.put("hidden", "prod", true, 2 * HOUR);
    scene.edit(|world| {
        let (id, _) = Place::in_zone("z1", &hidden.key).expect("a place");
        world.record_mut(&id).expect("there").readable = false;
        world.zone_mut("z2").reachable = false;
    });
    let items = scene.survey(&Held::default(), guards(true)).await;
    assert_eq!(verdicts(&items), [("z1/default/gone".to_owned(), None)]);
    // Where the whole zone is silent, nothing of it is known.
    let mut inventory = crate::terraform::listing::Inventory::default();
    let filter = ListFilter {
        installation: prod(),
        namespace: None,
    };
    let listed = listing::of_one(&scene.open, &filter, &CancellationToken::new()).await;
    inventory.secondary = listed.secondary;
    inventory.missing = vec![listing::Missing {
        open: &scene.open,
        scope: Some("zone z1".into()),
        prefix: "z1/".into(),
        message: "it does not answer".into(),
    }];
    let items = survey(&inventory, guards(true), Timestamp::now());
    assert_eq!(
        verdicts(&items),
        [(
            "z1/default/gone".to_owned(),
            Some(Protection::Hidden("zone z1".into()))
        )]
    );
}

#[tokio::test]
async fn what_may_go_goes_with_its_disk_and_nothing_else_does() {
    let scene = Scene::new();
    let old = scene.put("old", "prod", true, 2 * HOUR);
    scene.put("young", "prod", true, HOUR / 2);
    scene.put("handed", "prod", false, 2 * HOUR);
    scene.put("theirs", "staging", true, 2 * HOUR);
    scene.edit(|world| {
        let (id, place) = Place::in_zone("z1", &old.key).expect("a place");
        let mut disk = SecondaryRecord {
            id,
            mark: old.clone(),
            name: "disk".into(),
            intact: true,
            created_at: None,
        };
        disk.mark.pending = true;
        world.zone_mut(&place.zone).secondary.push(disk);
    });
    let fates = scene.run(guards(false), &CancellationToken::new()).await;
    assert_eq!(fates, [("lab/z1/default/old".to_owned(), Fate::Gone)]);
    assert_eq!(
        scene.left(),
        ["default/handed", "default/theirs", "default/young"]
    );
}

#[tokio::test(start_paused = true)]
async fn one_that_fails_is_reported_and_the_others_go() {
    let scene = Scene::new();
    scene.put("a", "prod", true, 2 * HOUR);
    scene.put("b", "prod", true, 2 * HOUR);
    let refused = Fault::once(Operation::Delete, ErrorKind::Permanent, "not today").on("z1/default/a");
    scene.edit(|world| world.faults.push(refused));
    let fates = scene.run(guards(false), &CancellationToken::new()).await;
    assert_eq!(
        fates,
        [
            ("lab/z1/default/a".to_owned(), Fate::Failed("not today".into())),
            ("lab/z1/default/b".to_owned(), Fate::Gone),
        ]
    );
}

#[tokio::test]
async fn what_was_handed_over_or_replaced_since_it_was_listed_stays() {
    let scene = Scene::new();
    scene.put("a", "prod", true, 2 * HOUR);
    scene.put("b", "prod", true, 2 * HOUR);
    let guards = guards(false);
    let items = scene.survey(&Held::default(), guards).await;
    scene.edit(|world| {
        let a: NativeId = "z1/default/a".parse().expect("valid");
        let mark = world.record_mut(&a).and_then(|record| record.mark.as_mut());
        mark.expect("there").pending = false;
    });
    let adopted = scene.put("b", "prod", false, SignedDuration::ZERO);
    let fates = collect(&items, &prod(), guards, &CancellationToken::new());
    let fates: Vec<_> = fates.map(|(_, fate)| fate).collect().await;
    assert!(
        fates.iter().all(|fate| matches!(fate, Fate::Left(_))) && fates.len() == 2,
        "{fates:?}"
    );
    let told = fates
        .iter()
        .any(|fate| matches!(fate, Fate::Left(text) if text.contains(&adopted.incarnation.to_string())));
    assert!(told, "{fates:?}");
    assert_eq!(scene.left(), ["default/a", "default/b"]);
}

#[tokio::test]
async fn interrupted_halfway_it_has_lost_nothing() {
    let scene = Scene::new();
    for name in ["a", "b"] {
        let mark = scene.put(name, "prod", true, 2 * HOUR);
        scene.edit(|world| {
            let (id, place) = Place::in_zone("z1", &mark.key).expect("a place");
            world.zone_mut(&place.zone).secondary.push(SecondaryRecord {
                id,
                mark: mark.clone(),
                name: format!("disk-{name}"),
                intact: true,
                created_at: None,
            });
        });
    }
    // Between disk and instance, for ever.
    let hang = Fault::once(Operation::Delete, ErrorKind::Transient, "")
        .at(Step::Instance)
        .times(0)
        .with(Effect::Hang);
    scene.edit(|world| world.faults.push(hang));
    let token = CancellationToken::new();
    let begun = async {
        // Until both have lost their disks.
        while scene.left().len() > 2 {
            tokio::task::yield_now().await;
        }
        token.cancel();
    };
    let (fates, ()) = tokio::join!(scene.run(guards(false), &token), begun);
    assert!(
        fates
            .iter()
            .all(|(_, fate)| matches!(fate, Fate::Failed(text) if text.contains("interrupted"))),
        "{fates:?}"
    );
    // What carries the mark is still there, is still found, and goes the next time.
    assert_eq!(scene.left(), ["default/a", "default/b"]);
    scene.edit(|world| world.faults.clear());
    let fates = scene.run(guards(false), &CancellationToken::new()).await;
    assert!(fates.iter().all(|(_, fate)| *fate == Fate::Gone), "{fates:?}");
    assert_eq!(scene.left(), [""; 0]);
}

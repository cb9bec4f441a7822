//! The known gaps of the system that these backends succeed, each closed: by name.

use std::collections::BTreeMap;
use std::sync::Arc;

use egress::contract::{
    Accepted, AdoptRequest, CreateRequest, ErrorKind, Facts, Incarnation, NativeId, State,
};
use egress::transport::libvirt::fake::{Effect, Fault};
use futures_util::FutureExt as _;

use crate::asking::{
    chain, create, created, delete, get, installation, key, list, make, read, resume, wanted,
};
use crate::rig::{KVM, KVM2, Rig};

fn fault(procedure: &'static str, about: &str, effect: Effect) -> Fault {
    Fault {
        procedure,
        about: about.to_owned(),
        effect,
        once: true,
    }
}

#[tokio::test]
async fn gap_no_quota_detection() {
    for kind in [KVM, KVM2] {
        let rig = Rig::new(kind);
        let backend = rig.backend_with(&["h1"]);
        rig.host().world().available = 3 << 30;
        let error = create(&backend, "a").await.expect_err("no room in the pool");
        assert_eq!(error.kind(), ErrorKind::QuotaExceeded, "{}", chain(&error));
        assert!(
            error.to_string().contains("3.0 GiB") && error.to_string().contains("10.0 GiB"),
            "{error}"
        );
        assert_eq!(rig.host().count("StorageVolCreateXML"), 0, "nothing was begun");

        rig.host().world().available = 1 << 40;
        created(&backend, "b").await;
        {
            let mut world = rig.host().world();
            world.memory_kib = 900 << 10;
            world.free_memory = 100 << 20;
        }
        let error = create(&backend, "a").await.expect_err("no memory on the host");
        assert_eq!(error.kind(), ErrorKind::QuotaExceeded, "{}", chain(&error));
        assert!(error.to_string().contains("memory"), "{error}");
        // What the page cache holds can be had.
        rig.host().world().memory_kib = 8 << 20;
        created(&backend, "a").await;
    }
}

#[tokio::test]
async fn gap_volumes_without_a_domain_are_invisible() {
    for kind in [KVM, KVM2] {
        let rig = Rig::new(kind);
        let backend = rig.backend_with(&["h1", "h2"]);
        let instance = created(&backend, "a").await;
        rig.host().world().domains.clear();
        let listing = list(&backend).await;
        assert_eq!(listing.secondary.len(), 1, "{listing:?}");
        let left = &listing.secondary[0];
        assert_eq!(
            (&left.id, left.uid, left.kind),
            (&instance.id, instance.mark.uid, "volume")
        );
        assert_eq!(left.created_at, instance.mark.incarnation.made_at());
    }
}

#[tokio::test]
async fn gap_delete_on_a_host_removed_from_the_configuration_is_success() {
    for kind in [KVM, KVM2] {
        let rig = Rig::new(kind);
        let instance = created(&rig.backend_with(&["h1", "h2"]), "a").await;
        let error = delete(&rig.backend_with(&["h2"]), &instance)
            .await
            .expect_err("the host is not there to ask");
        assert_eq!(error.kind(), ErrorKind::Permanent);
        assert!(
            error.to_string().contains("Restore the entry host \"h1\""),
            "{error}"
        );
    }
}

#[tokio::test]
async fn gap_cancelling_one_operation_cuts_off_the_others_on_that_host() {
    for kind in [KVM, KVM2] {
        let rig = Rig::new(kind);
        let backend = rig.backend_with(&["h1"]);
        let other = created(&backend, "other").await;
        let dials = rig.host().dials();
        rig.host().put(fault("DomainDefineXMLFlags", "a", Effect::Hang));
        rig.host().put(fault("DomainGetXMLDesc", "other", Effect::Hang));
        let request = CreateRequest::New(Box::new(wanted(&backend, key("default", "a"), Rig::facts())));
        let accepted = Accepted::new();
        {
            let mut cancelled = Box::pin(backend.create(&request, &accepted).fuse());
            let mut waiting = Box::pin(get(&backend, &other).fuse());
            // Both hang; the create is dropped in the middle of a call.
            while rig.host().count("DomainDefineXMLFlags") < 2 {
                assert!(futures_util::poll!(&mut cancelled).is_pending());
                assert!(futures_util::poll!(&mut waiting).is_pending());
                tokio::task::yield_now().await;
            }
            drop(cancelled);
            assert!(
                futures_util::poll!(&mut waiting).is_pending(),
                "the other one was told nothing"
            );
        }
        get(&backend, &other).await.expect("the connection lives");
        assert_eq!(rig.host().dials(), dials, "nothing was dialled again");
        created(&backend, "a").await;
    }
}

#[tokio::test]
async fn gap_create_says_not_found_where_something_disappears_meanwhile() {
    for kind in [KVM, KVM2] {
        for (procedure, code, text) in [
            ("StorageVolGetPath", 50, "Storage volume not found"),
            ("StorageVolUpload", 50, "Storage volume not found"),
            ("DomainCreate", 42, "Domain not found"),
            ("DomainGetState", 42, "Domain not found"),
            ("DomainSetMetadata", 42, "Domain not found"),
        ] {
            let rig = Rig::new(kind);
            let backend = rig.backend_with(&["h1"]);
            created(&backend, "first").await;
            rig.host()
                .put(fault(procedure, "a", Effect::Refuse(code, text.to_owned())));
            let error = create(&backend, "a").await.expect_err(procedure);
            assert_eq!(
                error.kind(),
                ErrorKind::Transient,
                "{procedure}: {}",
                chain(&error)
            );
            created(&backend, "a").await;
        }
    }
}

#[tokio::test]
async fn gap_an_overlay_that_was_left_is_reused_unseen() {
    for kind in [KVM, KVM2] {
        let rig = Rig::new(kind);
        let backend = rig.backend_with(&["h1"]);
        let wanted = wanted(&backend, key("default", "a"), Rig::facts());
        rig.host().put(fault(
            "DomainDefineXMLFlags",
            "a",
            Effect::Refuse(38, "reset".to_owned()),
        ));
        make(&backend, wanted.clone()).await.expect_err("cut off");
        for volume in rig.host().world().volumes.values_mut() {
            volume.xml = volume.xml.replace("backingStore", "nothing");
        }
        // The very same create once more, whose volumes have the very same names.
        make(&backend, wanted).await.expect("made anew");
        let world = rig.host().world();
        let disks: Vec<_> = world
            .volumes
            .iter()
            .filter(|(name, _)| name.ends_with(".disk"))
            .collect();
        assert_eq!(disks.len(), 1);
        assert!(disks[0].1.xml.contains("<backingStore>"), "{disks:?}");
    }
}

#[tokio::test]
async fn gap_a_paused_or_sleeping_domain_cannot_be_adopted() {
    for kind in [KVM, KVM2] {
        for (state, call) in [
            (3, "DomainResume"),
            (7, "DomainPmWakeup"),
            (5, "DomainCreate"),
            (6, "DomainCreate"),
        ] {
            let rig = Rig::new(kind);
            let backend = rig.backend_with(&["h1"]);
            rig.host().put(fault(
                "DomainSetMetadata",
                "a",
                Effect::Refuse(38, "reset".to_owned()),
            ));
            create(&backend, "a")
                .await
                .expect_err("cut off before the handover");
            {
                let mut world = rig.host().world();
                let domain = world.domains.get_mut("a").expect("defined");
                domain.state = state;
                if matches!(state, 5 | 6) {
                    domain.id = -1;
                }
            }
            rig.host().forget_calls();
            let taken = created(&backend, "a").await;
            assert_eq!(taken.state, State::Running, "{state}");
            assert_eq!(rig.host().count(call), 1, "{state}");
            // The same of one that a state holds.
            rig.host().world().domains.get_mut("a").expect("there").state = state;
            if matches!(state, 5 | 6) {
                rig.host().world().domains.get_mut("a").expect("there").id = -1;
            }
            assert_eq!(
                get(&backend, &taken).await.expect("there").instance.state,
                State::Stopped
            );
            let woken = resume(&backend, &taken).await.expect("woken").instance;
            assert_eq!(woken.state, State::Running, "{state}");
        }
    }
}

#[tokio::test]
async fn gap_a_policy_does_not_see_the_others_domains_until_they_are_adopted() {
    let rig = Rig::new(KVM);
    let (kvm, kvm2) = (rig.backend_of(KVM, &["h1"]), rig.backend_of(KVM2, &["h1"]));
    let instance = created(&kvm, "a").await;
    assert!(list(&kvm2).await.instances.is_empty());
    let error = get(&kvm2, &instance).await.expect_err("not kvm2's");
    assert!(
        error.to_string().contains("adopt lab/hosts/h1/domains/a"),
        "{error}"
    );
    let error = create(&kvm2, "a").await.expect_err("not kvm2's");
    assert_eq!(error.kind(), ErrorKind::Permanent);

    let mut request = AdoptRequest {
        id: instance.id.clone(),
        installation: installation(),
        from: None,
        stated: Facts::default(),
        incarnation: Incarnation::fresh(),
        write: None,
    };
    let shown = kvm2.adopt(&request).await.expect("shown");
    assert!(shown.unknown.is_empty(), "{shown:?}");
    assert_eq!(
        shown.instance.mark.facts, instance.mark.facts,
        "kvm's mark says them"
    );
    request.write = Some(shown.instance.mark.clone());
    let adopted = kvm2.adopt(&request).await.expect("written").instance;
    assert_eq!(adopted.mark.uid, instance.mark.uid);
    assert_eq!(
        get(&kvm2, &adopted).await.expect("kvm2's").instance.ip,
        instance.ip
    );
    assert!(list(&kvm).await.instances.is_empty(), "it has one mark only");
    assert!(list(&kvm).await.secondary.is_empty(), "its volumes are in use");
    delete(&kvm2, &adopted).await.expect("gone");
    let world = rig.host().world();
    let left: Vec<_> = world
        .volumes
        .keys()
        .filter(|name| !name.starts_with("egress-image-"))
        .collect();
    assert!(world.domains.is_empty() && left.is_empty(), "{left:?}");
}

#[tokio::test]
async fn gap_another_specification_of_that_name_is_adopted() {
    for kind in [KVM, KVM2] {
        let rig = Rig::new(kind);
        let backend = rig.backend_with(&["h1"]);
        created(&backend, "a").await;
        let other = Facts {
            port: Some(8080),
            ..Rig::facts()
        };
        let other = wanted(&backend, key("default", "a"), other);
        let error = make(&backend, other).await.expect_err("another specification");
        assert_eq!(error.kind(), ErrorKind::Permanent);
        assert!(
            error.to_string().contains("port: there 3128, asked for 8080"),
            "{error}"
        );
    }
}

#[tokio::test]
async fn gap_another_installation_on_the_same_host_is_not_told_apart() {
    for kind in [KVM, KVM2] {
        let rig = Rig::new(kind);
        let backend = rig.backend_with(&["h1"]);
        let mut theirs = key("default", "a");
        theirs.installation = "theirs".parse().expect("a name");
        make(&backend, wanted(&backend, theirs, Rig::facts()))
            .await
            .expect("theirs");
        assert!(list(&backend).await.instances.is_empty());
        let error = create(&backend, "a").await.expect_err("theirs");
        assert!(
            error
                .to_string()
                .contains("belongs to the installation \"theirs\""),
            "{error}"
        );
    }
}

#[tokio::test]
async fn gap_one_unreachable_host_fails_the_listing_whole() {
    for kind in [KVM, KVM2] {
        let rig = Rig::new(kind);
        let backend = rig.backend_with(&["h1", "h2"]);
        let here = created(&backend, "a").await;
        rig.hosts["h2"].set_reachable(false);
        let listing = list(&rig.backend_with(&["h1", "h2"])).await;
        assert_eq!(listing.instances, [here]);
        assert_eq!(listing.unreadable.len(), 1);
        assert_eq!(listing.unreadable[0].prefix, "hosts/h2/");
    }
}

#[tokio::test]
async fn two_names_that_make_one_domain_are_told_apart() {
    let rig = Rig::new(KVM2);
    let backend = rig.backend_with(&["h1"]);
    let one = wanted(&backend, key("team", "a-x"), Rig::facts());
    make(&backend, one).await.expect("made");
    let other = wanted(&backend, key("team-a", "x"), Rig::facts());
    let error = make(&backend, other).await.expect_err("the name is taken");
    assert_eq!(error.kind(), ErrorKind::Permanent);
    let told = error.to_string();
    assert!(told.contains("\"a-x\"") && told.contains("\"team\""), "{told}");
}

#[tokio::test]
async fn an_id_stays_whatever_number_a_domain_runs_under() {
    let rig = Rig::new(KVM2);
    let backend = rig.backend_with(&["h1"]);
    let before = created(&backend, "a").await;
    rig.host().world().domains.get_mut("a").expect("there").id = 7;
    assert_eq!(get(&backend, &before).await.expect("there").instance, before);
    let by_hand: NativeId = "hosts/h1/domains/a".parse().expect("an id");
    assert_eq!(
        read(&backend, &by_hand, None).await.expect("there").instance,
        before
    );
}

#[tokio::test]
async fn a_domain_that_was_renamed_keeps_its_volumes() {
    let rig = Rig::new(KVM2);
    let backend = rig.backend_with(&["h1"]);
    let instance = created(&backend, "a").await;
    let volumes: BTreeMap<_, _> = rig.host().world().volumes.clone();
    {
        let mut world = rig.host().world();
        let mut domain = world.domains.remove("a").expect("there");
        domain.definition.name = "my own".to_owned();
        world.domains.insert("my own".to_owned(), domain);
    }
    let error = get(&backend, &instance).await.expect_err("no such domain");
    assert_eq!(error.kind(), ErrorKind::NotFound, "{}", chain(&error));
    delete(&backend, &instance)
        .await
        .expect("there is nothing of that name");
    assert!(list(&backend).await.secondary.is_empty());
    assert_eq!(rig.host().world().volumes, volumes);
    // A new one of the old name is another one, and takes nothing away.
    created(&backend, "a").await;
    let world = rig.host().world();
    assert!(volumes.keys().all(|name| world.volumes.contains_key(name)));
}

#[tokio::test]
async fn of_two_runs_at_once_one_makes_the_proxy_and_nothing_is_left_of_the_other() {
    for kind in [KVM, KVM2] {
        let rig = Rig::new(kind);
        let (one, other) = (rig.backend_with(&["h1"]), rig.backend_with(&["h1"]));
        let (first, second) = tokio::join!(create(&one, "a"), create(&other, "a"));
        assert!(first.is_ok() || second.is_ok(), "{first:?} {second:?}");
        // Whoever was slower has taken it over or was refused; what is there is whole and one.
        let fresh: Arc<_> = rig.backend_with(&["h1"]);
        let listing = list(&fresh).await;
        assert_eq!(
            (listing.instances.len(), listing.secondary.len()),
            (1, 0),
            "{listing:?}"
        );
        let there = &listing.instances[0];
        assert_eq!((there.state, there.mark.pending), (State::Running, false));
        delete(&fresh, there).await.expect("gone");
        let world = rig.host().world();
        let left: Vec<_> = world
            .volumes
            .keys()
            .filter(|name| !name.starts_with("egress-image-"))
            .collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

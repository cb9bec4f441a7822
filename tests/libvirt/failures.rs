//! What goes wrong on hosts: what people ran into with other tools, and every call cut off once.

use egress::contract::{Adopted, Deleted, ErrorKind, State};
use egress::transport::libvirt::fake::{Effect, Fault, Telling};
use egress::transport::libvirt::types::{Address, AddressSource, Interface, PoolState};

use crate::asking::{chain, create, created, delete, get, key, list, make, resume, wanted};
use crate::rig::{KVM, KVM2, Rig};

fn refuse(procedure: &'static str, code: i32, text: &str) -> Fault {
    Fault {
        procedure,
        about: "a".to_owned(),
        effect: Effect::Refuse(code, text.to_owned()),
        once: true,
    }
}

/// What there is of proxies on the host.
fn left(rig: &Rig) -> (usize, usize) {
    let world = rig.host().world();
    let volumes = world.volumes.keys();
    (
        world.domains.len(),
        volumes.filter(|name| !name.starts_with("egress-image-")).count(),
    )
}

#[tokio::test]
async fn a_create_that_is_cut_off_anywhere_is_finished_by_the_next() {
    for kind in [KVM, KVM2] {
        let mut calls = 0;
        loop {
            let rig = Rig::new(kind);
            // The image is there, so that every call that is cut is the engine's own.
            created(&rig.backend_with(&["h1"]), "first").await;
            rig.host().cut_after(calls);
            let outcome = create(&rig.backend_with(&["h1"]), "a").await;
            if rig.host().is_to_be_cut() {
                outcome.expect("nothing was in its way");
                assert!(calls > 15, "a create takes more calls than {calls}");
                break;
            }
            let error = outcome.expect_err("it was cut off");
            assert_eq!(
                error.kind(),
                ErrorKind::Transient,
                "call {calls}: {}",
                chain(&error)
            );
            // Another run of Terraform: another process, another incarnation.
            let fresh = rig.backend_with(&["h1"]);
            let instance = match create(&fresh, "a").await {
                Ok(created) => created.instance,
                // The handover took effect, or rather what follows it was cut off.
                Err(error) => {
                    assert!(
                        error.to_string().contains("was handed over"),
                        "call {calls}: {}",
                        chain(&error)
                    );
                    let listing = list(&fresh).await;
                    let there = listing
                        .instances
                        .into_iter()
                        .find(|there| there.mark.key.name.as_str() == "a");
                    there.expect("it is there")
                }
            };
            assert_eq!(
                get(&fresh, &instance).await.expect("there").instance.state,
                State::Running
            );
            let listing = list(&fresh).await;
            assert_eq!(
                (
                    listing.instances.len(),
                    listing.secondary.len(),
                    listing.unreadable.len()
                ),
                (2, 0, 0),
                "call {calls}: {listing:?}"
            );
            assert_eq!(left(&rig), (2, 4), "call {calls}");
            assert_eq!(delete(&fresh, &instance).await.expect("deleted"), Deleted::Gone);
            assert_eq!(left(&rig), (1, 2), "call {calls}");
            calls += 1;
        }
    }
}

#[tokio::test]
async fn a_delete_that_is_cut_off_anywhere_is_finished_by_the_next() {
    for kind in [KVM, KVM2] {
        let mut calls = 0;
        loop {
            let rig = Rig::new(kind);
            let instance = created(&rig.backend_with(&["h1"]), "a").await;
            rig.host().cut_after(calls);
            let outcome = delete(&rig.backend_with(&["h1"]), &instance).await;
            if rig.host().is_to_be_cut() {
                outcome.expect("nothing was in its way");
                assert!(calls > 5, "a delete takes more calls than {calls}");
                break;
            }
            let error = outcome.expect_err("it was cut off");
            assert_eq!(
                error.kind(),
                ErrorKind::Transient,
                "call {calls}: {}",
                chain(&error)
            );
            let fresh = rig.backend_with(&["h1"]);
            get(&fresh, &instance)
                .await
                .expect("what carries the mark goes last");
            delete(&fresh, &instance).await.expect("deleted");
            assert_eq!(left(&rig), (0, 0), "call {calls}");
            calls += 1;
        }
    }
}

/// It took effect, and nobody was told: what is done next is the very same create or delete, again.
#[tokio::test]
async fn a_call_whose_answer_is_lost_is_repeated_without_harm() {
    for kind in [KVM, KVM2] {
        let mut calls = 0;
        loop {
            let rig = Rig::new(kind);
            created(&rig.backend_with(&["h1"]), "first").await;
            let backend = rig.backend_with(&["h1"]);
            let request = wanted(&backend, key("default", "a"), Rig::facts());
            rig.host().lose_answer_after(calls);
            let outcome = make(&backend, request.clone()).await;
            if rig.host().is_answer_to_be_lost() {
                outcome.expect("every answer came");
                assert!(calls > 5, "a create changes more than {calls} things");
                break;
            }
            let error = outcome.expect_err("an answer was lost");
            assert_eq!(
                error.kind(),
                ErrorKind::Transient,
                "call {calls}: {}",
                chain(&error)
            );
            let again = make(&backend, request).await;
            let again = again.unwrap_or_else(|error| panic!("call {calls}: {}", chain(&error)));
            assert_eq!(
                (again.adopted, again.warnings.len()),
                (Adopted::No, 0),
                "call {calls}"
            );
            assert!(!again.instance.mark.pending);
            assert_eq!(left(&rig), (2, 4), "call {calls}");
            calls += 1;
        }
        let mut calls = 0;
        loop {
            let rig = Rig::new(kind);
            let backend = rig.backend_with(&["h1"]);
            let instance = created(&backend, "a").await;
            rig.host().lose_answer_after(calls);
            let outcome = delete(&backend, &instance).await;
            if rig.host().is_answer_to_be_lost() {
                outcome.expect("every answer came");
                assert!(calls > 3, "a delete changes more than {calls} things");
                break;
            }
            let error = outcome.expect_err("an answer was lost");
            assert_eq!(
                error.kind(),
                ErrorKind::Transient,
                "call {calls}: {}",
                chain(&error)
            );
            assert_eq!(delete(&backend, &instance).await.expect("deleted"), Deleted::Gone);
            assert_eq!(left(&rig), (0, 0), "call {calls}");
            calls += 1;
        }
    }
}

/// TPL#978, #1024: "Could not open …: Permission denied".
#[tokio::test]
async fn a_start_that_is_refused_says_why_and_is_repeated_on_the_same_domain() {
    let rig = Rig::new(KVM2);
    let backend = rig.backend_with(&["h1"]);
    let text = "internal error: process exited while connecting to monitor: Could not open '/p/a': Permission denied";
    rig.host().put(refuse("DomainCreate", 1, text));
    let error = create(&backend, "a").await.expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::Permanent);
    assert!(
        chain(&error).contains("/p/a") && error.target() == Some("h1"),
        "{}",
        chain(&error)
    );
    let uuid = rig.host().world().domains["a"].definition.uuid;
    created(&backend, "a").await;
    assert_eq!(
        rig.host().world().domains["a"].definition.uuid,
        uuid,
        "it was taken over"
    );
    assert_eq!(left(&rig), (1, 2));
}

/// TPL#881: another daemon, another host, no such pool.
#[tokio::test]
async fn a_pool_that_is_not_there_is_named_and_stands_in_the_way_of_no_delete() {
    let rig = Rig::new(KVM2);
    let backend = rig.backend_with(&["h1"]);
    let instance = created(&backend, "a").await;
    rig.host().world().pool = None;
    let error = create(&backend, "b").await.expect_err("no pool");
    assert_eq!(error.kind(), ErrorKind::Permanent);
    let context = format!("{:?} {:?}", error.target(), error.context());
    assert!(context.contains("h1") && context.contains("default"), "{context}");
    get(&backend, &instance).await.expect("its domain is there");
    delete(&backend, &instance).await.expect("gone");
    rig.host().world().pool = Some(PoolState::Inactive);
    let error = create(&backend, "b").await.expect_err("the pool is off");
    assert_eq!(error.kind(), ErrorKind::Permanent);
    assert!(error.to_string().contains("virsh pool-start default"), "{error}");
}

/// TPL#1203, vagrant-libvirt#78: UEFI variables, snapshots; and daemons that do not know a flag.
#[tokio::test]
async fn a_domain_goes_with_its_variables_and_snapshots_whatever_flags_a_daemon_knows() {
    for unknown in [0, 32, 16 | 32, 4, 4 | 16 | 32] {
        let rig = Rig::new(KVM);
        let backend = rig.backend_with(&["h1"]);
        let instance = created(&backend, "a").await;
        {
            let mut world = rig.host().world();
            world.unknown_undefine = unknown;
            world.domains.get_mut("a").expect("there").snapshots = 2;
        }
        delete(&backend, &instance).await.expect("undefined");
        assert_eq!(left(&rig), (0, 0), "{unknown}");
    }
}

/// TPL#491, PR#668, virt-manager#178.
#[tokio::test]
async fn a_domain_that_is_off_is_seen_started_and_removed() {
    let rig = Rig::new(KVM);
    let backend = rig.backend_with(&["h1"]);
    let instance = created(&backend, "a").await;
    let switch_off = || {
        let mut world = rig.host().world();
        let domain = world.domains.get_mut("a").expect("there");
        (domain.state, domain.id, domain.why) = (5, -1, 2);
    };
    switch_off();
    let seen = get(&backend, &instance).await.expect("there").instance;
    assert_eq!((seen.state, seen.ip), (State::Stopped, None));
    assert_eq!(seen.reason.as_deref(), Some("it is off, destroyed by somebody"));
    assert_eq!(
        resume(&backend, &instance).await.expect("started").instance.state,
        State::Running
    );
    switch_off();
    // It is off between our look and our call, too.
    rig.host().world().domains.get_mut("a").expect("there").state = 1;
    delete(&backend, &instance).await.expect("gone");
    assert_eq!(left(&rig), (0, 0));
}

/// TPL#710, #731, #1091, libvirt 9.0's ARP.
#[tokio::test(start_paused = true)]
async fn a_source_of_addresses_that_fails_is_passed_over() {
    let arp = || Telling::Refuses(1, "internal error: wrong nlmsg len");
    let agent = || {
        Telling::Refuses(
            86,
            "Guest agent is not responding: QEMU guest agent is not connected",
        )
    };
    let none = || Telling::These(Vec::new());
    for kind in [KVM, KVM2] {
        for (sources, found) in [
            ([none(), agent(), Telling::All], true),
            ([none(), Telling::All, arp()], true),
            ([Telling::All, agent(), arp()], true),
            ([Telling::All, Telling::Hangs, arp()], true),
            ([none(), agent(), arp()], false),
            ([none(), Telling::Hangs, none()], false),
        ] {
            let rig = Rig::new(kind);
            // The image is downloaded over a real connection, for which time must not stand still.
            tokio::time::resume();
            let backend = rig.backend_with(&["h1"]);
            let instance = created(&backend, "a").await;
            tokio::time::pause();
            for (source, telling) in [AddressSource::Lease, AddressSource::Agent, AddressSource::Arp]
                .into_iter()
                .zip(sources)
            {
                rig.host().world().sources.insert(source as u8, telling);
            }
            rig.host().forget_calls();
            let seen = get(&backend, &instance).await.expect("an answer").instance;
            assert!(seen.started);
            assert_eq!(seen.ip.is_some(), found, "{seen:?}");
            let asked = rig.host().count("DomainInterfaceAddresses");
            assert!(asked <= 3, "each source is asked once, and the guest never");
            if !found {
                let reason = seen.reason.expect("a reason");
                for source in ["guest agent", "ARP table of the host", "DHCP leases of libvirt"] {
                    assert!(reason.contains(source), "{reason}");
                }
            }
        }
    }
}

#[tokio::test]
async fn the_policies_differ_in_whom_they_ask_first() {
    for (kind, first) in [(KVM, "a Arp"), (KVM2, "a Agent")] {
        let rig = Rig::new(kind);
        let instance = created(&rig.backend_with(&["h1"]), "a").await;
        rig.host().forget_calls();
        get(&rig.backend_with(&["h1"]), &instance).await.expect("there");
        let calls = rig.host().calls();
        let asked: Vec<_> = calls
            .iter()
            .filter(|(procedure, _)| *procedure == "DomainInterfaceAddresses")
            .map(|(_, about)| about.as_str())
            .collect();
        assert_eq!(asked, [first]);
    }
}

#[tokio::test]
async fn an_address_of_somebody_elses_interface_is_not_the_proxys() {
    let rig = Rig::new(KVM);
    let instance = created(&rig.backend_with(&["h1"]), "a").await;
    for source in [AddressSource::Lease, AddressSource::Agent, AddressSource::Arp] {
        let other = Interface {
            name: "vnet7".to_owned(),
            hardware: Some("52:54:00:ff:ff:ff".to_owned()),
            addresses: vec![Address {
                kind: 0,
                address: "10.9.9.9".to_owned(),
                prefix: 24,
            }],
        };
        rig.host()
            .world()
            .sources
            .insert(source as u8, Telling::These(vec![other]));
    }
    let seen = get(&rig.backend_with(&["h1"]), &instance)
        .await
        .expect("there")
        .instance;
    assert_eq!((seen.state, seen.ip), (State::Provisioning, None));
}

/// A read that fails is no absence: TPL 0.9 dropped the resource on any error.
#[tokio::test]
async fn no_failure_of_a_read_is_absence() {
    let rig = Rig::new(KVM2);
    let instance = created(&rig.backend_with(&["h1"]), "a").await;
    for (procedure, code) in [
        ("DomainLookupByName", 38),
        ("DomainLookupByName", 1),
        ("DomainGetXMLDesc", 68),
        ("DomainGetState", 38),
        ("DomainLookupByName", 88),
    ] {
        rig.host().put(refuse(procedure, code, "an outage"));
        let error = get(&rig.backend_with(&["h1"]), &instance)
            .await
            .expect_err("an outage");
        assert_ne!(error.kind(), ErrorKind::NotFound, "{procedure} {code}");
    }
    // Nor is one of the pool, where the domain is gone.
    rig.host().world().domains.clear();
    rig.host().world().pool = Some(PoolState::Inactive);
    let error = get(&rig.backend_with(&["h1"]), &instance)
        .await
        .expect_err("nobody knows what is left");
    assert_eq!(error.kind(), ErrorKind::Transient, "{}", chain(&error));
}

#[tokio::test]
async fn a_daemon_that_knows_fewer_calls_does() {
    let rig = Rig::new(KVM2);
    rig.host()
        .world()
        .unknown_calls
        .extend(["DomainDefineXMLFlags", "ConnectGetAllDomainStats"]);
    let backend = rig.backend_with(&["h1"]);
    let instance = created(&backend, "a").await;
    assert_eq!(list(&backend).await.instances, [instance]);
}

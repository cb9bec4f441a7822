//! What plans and creates cost a host: dials, calls, and how many of them follow one another.

use std::time::Duration;

use egress::contract::State;
use egress::transport::libvirt::fake::{Definition, FakeHost};
use futures_util::future::join_all;

use crate::asking::{create, created, list};
use crate::rig::{KVM, KVM2, Rig};

/// Makes as many proxies of one that is there that there are `all`.
fn multiply(host: &FakeHost, name: &str, all: usize) {
    let mut world = host.world();
    let model = world.domains[name].clone();
    let xml = model.definition.xml();
    let uuid = model.definition.uuid.to_string();
    let mac = model.definition.hardware().remove(0);
    for number in 1..all {
        let other = format!("{name}{number}");
        let [_, a, b, c] = u32::try_from(number + 100).expect("few").to_be_bytes();
        let xml = xml
            .replace(&format!("<name>{name}<"), &format!("<name>{other}<"))
            .replace(
                &format!("&quot;name&quot;:&quot;{name}&quot;"),
                &format!("&quot;name&quot;:&quot;{other}&quot;"),
            )
            .replace(&format!(".{name}."), &format!(".{other}."))
            .replace(&uuid, &uuid::Uuid::new_v4().to_string())
            .replace(&mac, &format!("52:54:00:{a:02x}:{b:02x}:{c:02x}"));
        let mut domain = model.clone();
        domain.definition = Definition::read(&xml, &mut 0).expect("a domain");
        domain.id = 1000 + i32::try_from(number).expect("few");
        world.domains.insert(other, domain);
    }
}

/// How many calls of one listing may be under way at once.
const IN_FLIGHT: usize = 256;

#[tokio::test]
async fn a_plan_is_one_dial_and_as_many_round_trips_however_many_domains_there_are() {
    const LATENCY: Duration = Duration::from_millis(100);
    for kind in [KVM, KVM2] {
        for all in [1, 100, 1_000] {
            let rig = Rig::new(kind);
            created(&rig.backend_with(&["h1"]), "proxy").await;
            multiply(rig.host(), "proxy", all);
            let dials = rig.host().dials();
            rig.host().forget_calls();
            rig.host().set_latency(LATENCY);
            let backend = rig.backend_with(&["h1"]);
            tokio::time::pause();
            let begun = tokio::time::Instant::now();
            let listing = list(&backend).await;
            let trips = begun.elapsed().as_millis() / LATENCY.as_millis();
            tokio::time::resume();
            assert_eq!(listing.instances.len(), all);
            assert!(listing.unreadable.is_empty() && listing.secondary.is_empty());
            assert!(
                listing
                    .instances
                    .iter()
                    .all(|instance| instance.state == State::Running)
            );
            assert_eq!(rig.host().dials() - dials, 1);
            // Descriptions and addresses are asked for together, as many at once as are let out.
            let together = all.div_ceil(IN_FLIGHT) as u128;
            assert!(
                trips <= 2 + 2 * together,
                "{all} domains take {trips} round trips"
            );
            let calls = rig.host().calls().len();
            assert!(calls <= 4 + 2 * all, "{all} domains take {calls} calls");
        }
    }
}

#[tokio::test]
async fn ten_creates_at_once_download_the_image_once() {
    let rig = Rig::new(KVM2);
    let backend = rig.backend_with(&["h1"]);
    let names: Vec<_> = (0..10).map(|number| format!("p{number}")).collect();
    let made = join_all(names.iter().map(|name| create(&backend, name))).await;
    assert!(made.iter().all(Result::is_ok), "{made:?}");
    let calls = rig.host().calls();
    let uploads = |image: bool| {
        let of_images = |about: &str| about.starts_with("egress-image-") == image;
        calls
            .iter()
            .filter(|(procedure, about)| *procedure == "StorageVolUpload" && of_images(about))
            .count()
    };
    assert_eq!((uploads(true), uploads(false)), (1, 10));
    // One connection that all share, and one for the upload of the image.
    assert_eq!(rig.host().dials(), 2);
    assert_eq!(list(&backend).await.instances.len(), 10);
}

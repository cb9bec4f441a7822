//! The client against a real libvirtd.

#[path = "libvirt_daemon/mod.rs"]
mod libvirt_daemon;

use std::collections::BTreeMap;
use std::io::Cursor;
use std::time::Duration;

use egress::transport::call::{Interval, Limits, Look, Task, poll};
use egress::transport::libvirt::types::{AddressSource, DomainState, PoolState, affect, undefine};
use egress::transport::libvirt::{Code, Error, LibvirtApi};
use libvirt_daemon::{Daemon, STORAGE, TEST};

fn refused<T: std::fmt::Debug>(result: Result<T, Error>) -> (Code, String) {
    match result.expect_err("refused") {
        Error::Remote { error, .. } => (error.code, error.message),
        other => panic!("not libvirtd's refusal: {other:?}"),
    }
}

#[tokio::test]
#[ignore = "needs libvirtd (libvirt-daemon, libvirt-clients)"]
async fn domains_of_the_test_driver() {
    let daemon = Daemon::start().await;
    let api = daemon.client(TEST).await;
    assert_eq!(
        api.hostname().await.expect("a name"),
        daemon.virsh(TEST, &["hostname"])
    );
    let version = api.library_version().await.expect("a version");
    let shown = format!(
        "{}.{}.{}",
        version / 1_000_000,
        version / 1000 % 1000,
        version % 1000
    );
    assert!(
        daemon
            .virsh(TEST, &["version"])
            .contains(&format!("Using library: libvirt {shown}"))
    );
    let node = api.node_info().await.expect("a host");
    let theirs = daemon.virsh(TEST, &["nodeinfo"]);
    for (key, value) in [
        ("CPU model", node.model.clone()),
        ("CPU(s)", node.cpus.to_string()),
        ("Memory size", format!("{} KiB", node.memory_kib)),
        ("Thread(s) per core", node.threads.to_string()),
        ("NUMA cell(s)", node.nodes.to_string()),
    ] {
        let line = theirs
            .lines()
            .find(|line| line.starts_with(&format!("{key}:")))
            .expect("a line");
        assert!(line.ends_with(&value), "{line}: {value}");
    }
    assert_eq!(
        api.capabilities().await.expect("XML").trim(),
        daemon.virsh(TEST, &["capabilities"])
    );
    assert!(api.free_memory().await.expect("bytes") > 0);

    let names = |domains: &[egress::transport::libvirt::types::Domain]| {
        domains
            .iter()
            .map(|domain| domain.name.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(names(&api.domains(0).await.expect("a list")), ["test"]);
    let test = api.domain("test").await.expect("there");
    assert_eq!(api.state(&test).await.expect("a state").0, DomainState::Running);
    let stats = api.domain_stats(&[], 0).await.expect("figures");
    let figures: BTreeMap<_, _> = stats[0].figures.iter().cloned().collect();
    assert!(figures.contains_key("state.state"), "{figures:?}");
    for source in [AddressSource::Lease, AddressSource::Agent, AddressSource::Arp] {
        let interfaces = api.addresses(&test, source).await.expect("addresses");
        assert_eq!(interfaces[0].addresses[0].address, "192.168.122.3", "{source:?}");
    }

    let (code, message) = refused(api.domain("none").await);
    assert_eq!(code, Code::NO_DOMAIN);
    assert_eq!(message, "Domain not found");
    let xml = |uuid: &str, name: &str| {
        format!(
            "<domain type='test'><name>{name}</name><uuid>{uuid}</uuid><memory>65536</memory>\
             <metadata><m:m xmlns:m='urn:m:1'>one</m:m></metadata><os><type>hvm</type></os></domain>"
        )
    };
    let defined = api
        .define(&xml("11111111-1111-4111-8111-111111111111", "a"), 0)
        .await
        .expect("defined");
    assert_eq!((defined.name.as_str(), defined.id), ("a", -1));
    let (code, message) = refused(
        api.define_plain(&xml("22222222-2222-4222-8222-222222222222", "a"))
            .await,
    );
    assert_eq!(code, Code::OPERATION_FAILED);
    assert!(
        message.contains("domain 'a' already exists with uuid"),
        "{message}"
    );
    assert_eq!(refused(api.define("<domain", 0).await).0, Code::XML_DETAIL);

    assert_eq!(
        api.metadata(&defined, "urn:m:1").await.expect("metadata"),
        "<m>one</m>"
    );
    assert_eq!(
        refused(api.metadata(&defined, "urn:m:2").await).0,
        Code::NO_DOMAIN_METADATA
    );
    api.set_metadata(&defined, "urn:m:1", "m", Some("<m>two</m>"), affect::CONFIG)
        .await
        .expect("set");
    assert_eq!(
        api.metadata(&defined, "urn:m:1").await.expect("metadata"),
        "<m>two</m>"
    );
    assert!(api.domain_xml(&defined, 0).await.expect("XML").contains("two"));
    api.set_metadata(&defined, "urn:m:1", "m", None, affect::CONFIG)
        .await
        .expect("removed");
    assert_eq!(
        refused(api.metadata(&defined, "urn:m:1").await).0,
        Code::NO_DOMAIN_METADATA
    );

    assert_eq!(refused(api.destroy(&defined).await).0, Code::OPERATION_INVALID);
    api.start(&defined).await.expect("started");
    assert_eq!(
        api.state(&defined).await.expect("a state").0,
        DomainState::Running
    );
    let _ = refused(api.wake(&defined).await);
    daemon.virsh(TEST, &["list"]);
    let (_, message) = refused(api.start(&defined).await);
    assert!(message.contains("already running"), "{message}");
    api.destroy(&defined).await.expect("stopped");
    assert_eq!(
        api.state(&defined).await.expect("a state").0,
        DomainState::Shutoff
    );
    let (code, message) = refused(api.undefine(&defined, undefine::NVRAM).await);
    assert_eq!(code, Code::INVALID_ARG);
    assert!(message.contains("unsupported flags (0x4)"), "{message}");
    api.undefine(&defined, undefine::MANAGED_SAVE)
        .await
        .expect("gone");
    assert_eq!(names(&api.domains(0).await.expect("a list")), ["test"]);

    assert_eq!(refused(api.agent(&test, "{}", -1).await).0, Code::NO_SUPPORT);
    let pool = api.pool("default-pool").await.expect("a pool");
    assert_eq!(
        api.pool_info(&pool).await.expect("figures").state,
        PoolState::Running
    );
    assert_eq!(refused(api.pool("none").await).0, Code::NO_STORAGE_POOL);
    let volume = api
        .create_volume(
            &pool,
            "<volume><name>v</name><capacity>1024</capacity></volume>",
            0,
        )
        .await
        .expect("made");
    let sent = api.upload(&volume, 0, 0, &mut Cursor::new(b"x")).await;
    assert_eq!(refused(sent).0, Code::NO_SUPPORT);

    // Many calls at once on the one connection.
    let many = futures_util::future::join_all((0..200).map(|_| api.domain("test"))).await;
    assert!(
        many.iter()
            .all(|found| found.as_ref().is_ok_and(|domain| domain.name == "test"))
    );
    api.close().await;
    assert!(!api.is_up());
}

#[tokio::test]
#[ignore = "needs libvirtd (libvirt-daemon, libvirt-clients)"]
async fn volumes_and_uploads_of_the_storage_driver() {
    const SIZE: usize = 30_000_001;
    let daemon = Daemon::start().await;
    let folder = daemon.folder.path().join("pool");
    let place = folder.display().to_string();
    daemon.virsh(STORAGE, &["pool-define-as", "p", "dir", "--target", &place]);
    daemon.virsh(STORAGE, &["pool-start", "p"]);
    let api = std::sync::Arc::new(daemon.client(STORAGE).await);
    let pool = api.pool("p").await.expect("a pool");
    let info = api.pool_info(&pool).await.expect("figures");
    assert_eq!(info.state, PoolState::Running);
    assert!(info.available > 0 && info.available <= info.capacity);
    let xml = format!(
        "<volume><name>v</name><capacity>{SIZE}</capacity><target><format type='raw'/></target></volume>"
    );
    let volume = api.create_volume(&pool, &xml, 0).await.expect("made");
    let path = folder.join("v");
    assert_eq!(
        api.volume_path(&volume).await.expect("a path"),
        path.display().to_string()
    );
    assert_eq!(
        refused(api.create_volume(&pool, &xml, 0).await).0,
        Code::STORAGE_VOL_EXIST
    );

    let contents: Vec<u8> = (0..SIZE as u64)
        .map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8)
        .collect();
    let mut source = Cursor::new(&contents);
    let sending = api.upload(&volume, 0, SIZE as u64, &mut source);
    let (sent, beside) = tokio::join!(sending, api.pool_info(&pool));
    assert_eq!(sent.expect("uploaded"), SIZE as u64);
    beside.expect("an answer beside the upload");
    assert!(std::fs::read(&path).expect("a file") == contents);
    let info = api.volume_info(&volume).await.expect("figures");
    assert_eq!(info.capacity, SIZE as u64);
    assert!(
        api.volume_xml(&volume)
            .await
            .expect("XML")
            .contains("<format type='raw'/>")
    );

    // Short of what was announced: aborted, and the volume is free again.
    let short = api
        .upload(&volume, 0, SIZE as u64, &mut Cursor::new(&contents[..1000]))
        .await;
    assert!(matches!(short, Err(Error::SourceShort { sent: 1000, .. })));
    // Dropped in the middle: the same.
    let uploading = Task::spawn({
        let (api, volume) = (std::sync::Arc::clone(&api), volume.clone());
        async move { api.upload(&volume, 0, 0, &mut tokio::io::repeat(1)).await }
    });
    let limits = Limits::after(Duration::from_secs(30));
    let every = Interval::every(Duration::from_millis(10));
    poll(&limits, every, || async {
        let first = std::fs::read(&path).expect("a file")[0];
        Ok::<_, ()>(if first == 1 {
            Look::Done(())
        } else {
            Look::Pending(first.to_string())
        })
    })
    .await
    .expect("the upload is under way");
    drop(uploading);
    poll(&limits, every, || async {
        // While a stream has the volume open, libvirtd refuses: this proves the abort arrived.
        match api.delete_volume(&volume).await {
            Ok(()) => Ok(Look::Done(())),
            Err(error) if error.code() == Some(Code::OPERATION_INVALID) => {
                Ok(Look::Pending(error.to_string()))
            }
            Err(error) => Err(error),
        }
    })
    .await
    .expect("the volume is free");
    assert!(!path.exists());
    assert_eq!(refused(api.volume(&pool, "v").await).0, Code::NO_STORAGE_VOL);
    let gone = api.upload(&volume, 0, 0, &mut Cursor::new(b"x")).await;
    assert_eq!(refused(gone).0, Code::NO_STORAGE_VOL);

    std::fs::write(folder.join("found"), "x").expect("written");
    api.refresh(&pool).await.expect("refreshed");
    let names: Vec<String> = api
        .volumes(&pool)
        .await
        .expect("a list")
        .into_iter()
        .map(|v| v.name)
        .collect();
    assert_eq!(names, ["found"]);
    daemon.virsh(STORAGE, &["pool-destroy", "p"]);
    let (code, message) = refused(api.refresh(&pool).await);
    assert_eq!(code, Code::OPERATION_INVALID);
    assert!(message.contains("is not active"), "{message}");
    assert!(api.is_up());
}

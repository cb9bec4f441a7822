//! One guest that really boots: what the libvirt backends give it is what cloud-init and QEMU want, and it
//! becomes a proxy.
//!
//! Booting on an emulated CPU takes minutes, so that everything is asked of the same guest.

mod libvirt_host;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use egress::backend::libvirt::config::{Attachment, DomainType, Firmware, Image, ImageFormat};
use egress::backend::libvirt::domain_xml::DomainSpec;
use egress::backend::libvirt::image::Images;
use egress::backend::libvirt::seed::Seed;
use egress::backend::libvirt::vendor::vendor_data;
use egress::backend::libvirt::volume_xml::{self, Backing};
use egress::contract::spec::PasswordFact;
use egress::contract::{Facts, Secret};
use egress::squid::{Policy, bootstrap, password};
use egress::transport::call::{Interval, Limits, Look, poll};
use egress::transport::libvirt::types::Pool;
use egress::transport::libvirt::{Client, LibvirtApi, Settings};
use futures_util::FutureExt as _;
use libvirt_host::{GATEWAY, Host, ORIGIN_PORT, STRANGER, Web, guest_image};

/// How long a guest may take on an emulated CPU of a loaded machine. Not an assertion on speed.
const PATIENCE: Duration = Duration::from_secs(900);

async fn connect(socket: PathBuf) -> Arc<dyn LibvirtApi> {
    let stream = tokio::net::UnixStream::connect(&socket).await.expect("connects");
    let client = Client::open(stream, "qemu:///system", Settings::default()).await;
    Arc::new(client.expect("opens"))
}

fn policy() -> Policy {
    Policy::of(&Facts {
        port: Some(3129),
        allowed_cidrs: Some(vec![format!("{GATEWAY}/32").parse().expect("a network")]),
        allowed_ports: Some(vec![ORIGIN_PORT]),
        username: Some("team".into()),
        password: Some(PasswordFact::Version("1".into())),
        ..Facts::default()
    })
    .expect("sound")
}

async fn volume(
    api: &dyn LibvirtApi,
    pool: &Pool,
    xml: &str,
) -> (egress::transport::libvirt::types::Volume, String) {
    let volume = api.create_volume(pool, xml, 0).await.expect("made");
    let path = api.volume_path(&volume).await.expect("a path");
    (volume, path)
}

/// What a command in the guest prints.
async fn in_guest(host: &Host, command: &str) -> String {
    let ask = |request: serde_json::Value| {
        let answer = host.virsh(&["qemu-agent-command", "a", &request.to_string(), "--timeout", "60"]);
        let answer: serde_json::Value = serde_json::from_str(&answer).expect("JSON");
        answer["return"].clone()
    };
    let started = ask(serde_json::json!({
        "execute": "guest-exec",
        "arguments": { "path": "/bin/sh", "arg": ["-c", command], "capture-output": true },
    }));
    let status = serde_json::json!({
        "execute": "guest-exec-status",
        "arguments": { "pid": started["pid"] },
    });
    let look = || async {
        let status = ask(status.clone());
        Ok::<_, ()>(if status["exited"] == true {
            Look::Done(status["out-data"].as_str().unwrap_or_default().to_owned())
        } else {
            Look::Pending(command.to_owned())
        })
    };
    let output = poll(
        &Limits::after(PATIENCE),
        Interval::every(Duration::from_millis(200)),
        look,
    )
    .await
    .expect("it ends");
    use base64::Engine as _;
    let output = base64::engine::general_purpose::STANDARD
        .decode(output)
        .expect("base64");
    String::from_utf8(output).expect("text").trim().to_owned()
}

#[tokio::test]
#[ignore = "needs a libvirt host, the guest image"]
async fn a_guest_becomes_a_proxy() {
    let host = Host::start();
    let api = connect(host.socket()).await;
    let pool = api.pool("default").await.expect("a pool");
    let web = Web::serve(&guest_image());
    let image = Image {
        key: "debian".into(),
        url: web.url().parse().expect("a URL"),
        sha256: None,
        format: ImageFormat::Qcow2,
        firmware: Firmware::Bios,
    };
    let socket = host.socket();
    let fresh = move || async move { Ok(connect(socket).await) }.boxed();
    let base = Images::default()
        .ensure("h1", Arc::clone(&api), fresh, &pool, &image)
        .await
        .expect("the image");
    let backing = Backing {
        path: &base.path,
        format: base.format,
    };
    let xml = volume_xml::overlay("a.disk", base.virtual_size.max(4 << 30), &backing);
    let (disk, disk_path) = volume(&*api, &pool, &xml).await;
    let seen = volume_xml::read(&api.volume_xml(&disk).await.expect("XML")).expect("a volume");
    assert_eq!(seen.backing_path.as_deref(), Some(base.path.as_str()));
    assert_eq!(seen.capacity, Some(4 << 30));

    let policy = policy();
    let hash = password::hash(&Secret::new("let me out")).expect("hashed");
    let passwords = password::file(policy.username().expect("a user"), &hash).expect("a file");
    let user_data = bootstrap::document(&policy, Some(&passwords)).expect("a document");
    // Lists that a document of user-data would replace, were ours one that has any.
    let own = Secret::new(
        "#cloud-config\nwrite_files: [{ path: /run/vendor-wrote, content: x }]\nruncmd: [[ touch, /run/vendor-ran ]]\n",
    );
    let seed = Seed {
        instance_id: uuid::Uuid::new_v4(),
        hostname: "proxy-a",
        user_data: &user_data,
        vendor_data: vendor_data(true, Some(&own)).as_ref(),
        network_config: None,
    }
    .image()
    .expect("a seed");
    let (volume, seed_path) = volume(&*api, &pool, &volume_xml::raw("a.seed", seed.len() as u64)).await;
    api.upload(&volume, 0, seed.len() as u64, &mut &seed[..])
        .await
        .expect("uploaded");
    let spec = DomainSpec {
        name: "a",
        description: "An egress proxy",
        metadata: "<t:mark xmlns:t='urn:test:1'>kept</t:mark>",
        vcpus: 2,
        memory_mib: 768,
        domain_type: DomainType::Qemu,
        arch: "x86_64",
        machine: None,
        emulator: None,
        firmware: Firmware::Bios,
        disk_path: &disk_path,
        seed_path: &seed_path,
        network: &Attachment::Network("proxies".into()),
    };
    let domain = api.define(&spec.build(), 0).await.expect("defined");
    assert!(
        api.metadata(&domain, "urn:test:1")
            .await
            .expect("a mark")
            .contains("kept")
    );
    api.start(&domain).await.expect("started");
    let console = host.console("a");

    let proxy = || {
        let leases = host.virsh(&["domifaddr", "a", "--source", "lease"]);
        let address = leases
            .split_whitespace()
            .find_map(|word| word.strip_suffix("/24"));
        address.map(|address| format!("{address}:3129"))
    };
    let credentials = Some("team:let me out");
    let look = || async {
        let answered = match proxy() {
            Some(proxy) => host.get_through(&proxy, GATEWAY, credentials),
            None => "no lease".to_owned(),
        };
        Ok::<_, ()>(if answered == "200 hello from the host" {
            Look::Done(())
        } else {
            Look::Pending(answered)
        })
    };
    let limits = Limits::after(PATIENCE);
    let served = poll(&limits, Interval::every(Duration::from_secs(2)), look).await;
    served.unwrap_or_else(|why| panic!("{why:?}\n{}", console.said()));

    // Only who may.
    let proxy = proxy().expect("an address");
    assert_eq!(host.get_through(&proxy, STRANGER, credentials), "403 Forbidden");
    for wrong in [None, Some("team:wrong")] {
        let answered = host.get_through(&proxy, GATEWAY, wrong);
        assert!(answered.starts_with("407 "), "{answered}");
    }

    // The agent is up, cloud-init is content, and nothing of anybody's was replaced.
    let look = || async {
        let pinged = host.inside(
            "virsh",
            &[
                "-c",
                "qemu:///system",
                "qemu-agent-command",
                "a",
                "{\"execute\":\"guest-ping\"}",
            ],
        );
        Ok::<_, ()>(if pinged.status.success() {
            Look::Done(())
        } else {
            Look::Pending(String::from_utf8_lossy(&pinged.stderr).into_owned())
        })
    };
    poll(&limits, Interval::every(Duration::from_secs(2)), look)
        .await
        .expect("an agent");
    let status = in_guest(&host, "cloud-init status --wait --long").await;
    assert!(status.contains("status: done"), "{status}");
    let result = in_guest(&host, "cat /run/cloud-init/result.json").await;
    let result: serde_json::Value = serde_json::from_str(&result).expect("JSON");
    assert_eq!(result["v1"]["errors"], serde_json::json!([]));
    assert!(
        result["v1"]["datasource"]
            .as_str()
            .is_some_and(|source| source.contains("NoCloud"))
    );
    let made = in_guest(&host, "ls /run/vendor-wrote /run/vendor-ran; hostname").await;
    assert_eq!(made, "/run/vendor-ran\n/run/vendor-wrote\nproxy-a");
    let modes = in_guest(
        &host,
        "stat -c '%a %U:%G' /etc/squid/squid.conf /etc/squid/egress-proxy.passwords",
    )
    .await;
    assert_eq!(modes, "644 root:proxy\n640 root:proxy");
    assert!(console.said().contains(bootstrap::READY), "{}", console.said());

    // The disk has grown to what the overlay holds.
    let kib: u64 = in_guest(&host, "df --output=size / | tail -1")
        .await
        .parse()
        .expect("a size");
    assert!(kib > 3 << 20, "{kib} KiB");
}

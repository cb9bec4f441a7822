//! The client against libvirt's own C client: the same calls on the same libvirtd, and both must agree,
//! errors included.
//!
//! The C client is a program of its own (`tests/oracle`), so that the provider is never linked to libvirt.

#[path = "libvirt_daemon/mod.rs"]
mod libvirt_daemon;

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Cursor, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use egress::transport::libvirt::types::{AddressSource, Domain, Figure, Pool, Volume, affect, undefine};
use egress::transport::libvirt::{Client, Error, LibvirtApi};
use libvirt_daemon::{Daemon, STORAGE, TEST};
use serde_json::{Value, json};

/// libvirt's own client.
struct Oracle {
    child: Child,
    calls: ChildStdin,
    outcomes: BufReader<ChildStdout>,
}

impl Drop for Oracle {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Oracle {
    fn open(daemon: &Daemon, driver: &str) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/tools/libvirt-oracle");
        let built = Command::new(script).output().expect("the script runs");
        assert!(
            built.status.success(),
            "{}",
            String::from_utf8_lossy(&built.stderr)
        );
        let program = String::from_utf8(built.stdout).expect("a path");
        let mut child = Command::new(program.trim())
            .arg(daemon.uri(driver))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the oracle runs");
        let calls = child.stdin.take().expect("piped");
        let outcomes = BufReader::new(child.stdout.take().expect("piped"));
        let mut oracle = Self {
            child,
            calls,
            outcomes,
        };
        assert_eq!(oracle.outcome(), json!({ "ok": null }));
        oracle
    }

    fn outcome(&mut self) -> Value {
        let mut line = String::new();
        self.outcomes.read_line(&mut line).expect("a line");
        serde_json::from_str(&line).expect("an outcome")
    }

    fn call(&mut self, call: Value) -> Value {
        writeln!(self.calls, "{call}").expect("written");
        self.outcome()
    }
}

/// An outcome of ours in the oracle's words.
fn said<T>(outcome: Result<T, Error>, shown: impl FnOnce(T) -> Value) -> Value {
    match outcome {
        Ok(value) => json!({ "ok": shown(value) }),
        Err(Error::Remote { error, .. }) => json!({
            "error": {
                "code": error.code.0,
                "domain": error.domain,
                "level": error.level,
                "message": error.message,
            }
        }),
        Err(other) => panic!("no answer of libvirtd: {other:?}"),
    }
}

fn nothing<T>(outcome: Result<T, Error>) -> Value {
    said(outcome, |_| Value::Null)
}

fn domain_json(domain: Domain) -> Value {
    json!([domain.name, domain.uuid.to_string(), domain.id])
}

fn volume_json(volume: Volume) -> Value {
    json!([volume.pool, volume.name, volume.key])
}

fn figure_json(figure: &Figure) -> Value {
    match figure {
        Figure::Int(value) => json!(value),
        Figure::UnsignedInt(value) => json!(value),
        Figure::Long(value) => json!(value),
        Figure::UnsignedLong(value) => json!(value),
        Figure::Double(value) => json!(value),
        Figure::Boolean(value) => json!(value),
        Figure::Text(value) => json!(value),
    }
}

/// What both said; they said the same.
fn agreed(what: &str, ours: Value, theirs: Value) -> Value {
    assert_eq!(ours, theirs, "{what}: ours and libvirt's");
    ours
}

fn xml(name: &str, uuid: &str) -> String {
    format!(
        "<domain type='test'><name>{name}</name><uuid>{uuid}</uuid><memory>65536</memory>\
         <metadata><m:m xmlns:m='urn:m:1'>one</m:m></metadata><os><type>hvm</type></os></domain>"
    )
}

const ONE: &str = "11111111-1111-4111-8111-111111111111";
const TWO: &str = "22222222-2222-4222-8222-222222222222";

/// What looks something up, of the host and of the driver's own domain.
async fn lookups(api: &Client, oracle: &mut Oracle) {
    macro_rules! both {
        ($name:literal, $ours:expr, $shown:expr $(, $argument:expr)*) => {
            agreed($name, said($ours.await, $shown), oracle.call(json!([$name $(, $argument)*])))
        };
    }
    both!("hostname", api.hostname(), Value::from);
    both!("library_version", api.library_version(), Value::from);
    both!("free_memory", api.free_memory(), Value::from);
    both!("capabilities", api.capabilities(), Value::from);
    both!("node_info", api.node_info(), |node| json!([
        node.model,
        node.memory_kib,
        node.cpus,
        node.mhz,
        node.nodes,
        node.sockets,
        node.cores,
        node.threads
    ]));
    both!(
        "domain_capabilities",
        api.domain_capabilities(None, Some("x86_64"), None, Some("kvm")),
        Value::from,
        None::<&str>,
        "x86_64",
        None::<&str>,
        "kvm"
    );
    both!(
        "domains",
        api.domains(0),
        |all| all.into_iter().map(domain_json).collect(),
        0
    );
    both!(
        "domain_stats",
        api.domain_stats(&[], 0),
        |all| all
            .into_iter()
            .map(|one| {
                let figures = one
                    .figures
                    .iter()
                    .filter(|(name, _)| !name.starts_with("cpu."))
                    .map(|(name, figure)| json!([name, figure_json(figure)]));
                json!([one.domain.name, figures.collect::<Vec<_>>()])
            })
            .collect(),
        0
    );
    let test = api.domain("test").await.expect("there");
    both!("domain", api.domain("test"), domain_json, "test");
    both!("domain", api.domain("none"), domain_json, "none");
    both!("domain_xml", api.domain_xml(&test, 0), Value::from, "test", 0);
    both!(
        "state",
        api.state(&test),
        |(state, reason)| json!([i32::from(state), reason]),
        "test"
    );
    for source in [AddressSource::Lease, AddressSource::Agent, AddressSource::Arp] {
        both!(
            "addresses",
            api.addresses(&test, source),
            |all| all
                .into_iter()
                .map(|one| {
                    let addresses = one
                        .addresses
                        .iter()
                        .map(|address| json!([address.kind, address.address, address.prefix]));
                    json!([one.name, one.hardware, addresses.collect::<Vec<_>>()])
                })
                .collect(),
            "test",
            source as u32
        );
    }
    both!(
        "metadata",
        api.metadata(&test, "urn:m:1"),
        Value::from,
        "test",
        "urn:m:1"
    );
    both!(
        "agent",
        api.agent(&test, "{}", -1),
        |said| said.into(),
        "test",
        "{}",
        -1
    );
    let pool = |pool: Pool| json!([pool.name, pool.uuid.to_string()]);
    both!("pool", api.pool("default-pool"), pool, "default-pool");
    both!("pool", api.pool("none"), pool, "none");
}

/// The same life of a domain through either client, step by step: `a` through ours, `b` through libvirt's.
async fn lives(api: &Client, oracle: &mut Oracle) {
    let same = |what: &str, ours: Value, theirs: Value| {
        let theirs = theirs
            .to_string()
            .replace(TWO, ONE)
            .replace("'b'", "'a'")
            .replace("(b)", "(a)")
            .replace("\"b\"", "\"a\"");
        let theirs: Value = serde_json::from_str(&theirs).expect("still JSON");
        agreed(what, ours, theirs)
    };
    let defined = said(api.define(&xml("a", ONE), 0).await, domain_json);
    same(
        "define",
        defined,
        oracle.call(json!(["define", xml("b", TWO), 0])),
    );
    let again = said(api.define_plain(&xml("a", ONE)).await, domain_json);
    same(
        "define again",
        again,
        oracle.call(json!(["define_plain", xml("b", TWO)])),
    );
    let taken = said(
        api.define_plain(&xml("a", "33333333-3333-4333-8333-333333333333"))
            .await,
        domain_json,
    );
    let theirs = oracle.call(json!([
        "define_plain",
        xml("b", "33333333-3333-4333-8333-333333333333")
    ]));
    assert!(same("a name that is taken", taken, theirs)["error"].is_object());
    let malformed = said(api.define("<domain", 0).await, domain_json);
    same(
        "malformed",
        malformed,
        oracle.call(json!(["define", "<domain", 0])),
    );
    let a = api.domain("a").await.expect("defined");
    same(
        "stop what is off",
        nothing(api.destroy(&a).await),
        oracle.call(json!(["destroy", "b"])),
    );
    same(
        "start",
        nothing(api.start(&a).await),
        oracle.call(json!(["start", "b"])),
    );
    same(
        "start again",
        nothing(api.start(&a).await),
        oracle.call(json!(["start", "b"])),
    );
    same(
        "resume what runs",
        nothing(api.resume(&a).await),
        oracle.call(json!(["resume", "b"])),
    );
    same(
        "wake",
        nothing(api.wake(&a).await),
        oracle.call(json!(["wake", "b"])),
    );
    for element in [Some("<m>two</m>"), None] {
        let ours = api.set_metadata(&a, "urn:m:1", "m", element, affect::LIVE | affect::CONFIG);
        let theirs = json!([
            "set_metadata",
            "b",
            "urn:m:1",
            "m",
            element,
            affect::LIVE | affect::CONFIG
        ]);
        same("set metadata", nothing(ours.await), oracle.call(theirs));
        let ours = said(api.metadata(&a, "urn:m:1").await, Value::from);
        same("metadata", ours, oracle.call(json!(["metadata", "b", "urn:m:1"])));
    }
    same(
        "stop",
        nothing(api.destroy(&a).await),
        oracle.call(json!(["destroy", "b"])),
    );
    for flags in [undefine::NVRAM, undefine::MANAGED_SAVE, undefine::MANAGED_SAVE] {
        let ours = nothing(api.undefine(&a, flags).await);
        same("undefine", ours, oracle.call(json!(["undefine", "b", flags])));
    }
    let state = said(api.state(&a).await, |_| Value::Null);
    let theirs = oracle.call(json!(["state", "b"]));
    assert!(same("the state of what is gone", state, theirs)["error"].is_object());
}

#[tokio::test]
#[ignore = "needs libvirtd and the libvirt oracle (libvirt-daemon, libvirt-clients, libvirt-dev)"]
async fn both_clients_say_the_same_of_domains() {
    let daemon = Daemon::start().await;
    let api = daemon.client(TEST).await;
    let mut oracle = Oracle::open(&daemon, TEST);
    lookups(&api, &mut oracle).await;
    lives(&api, &mut oracle).await;
    lookups(&api, &mut oracle).await;
}

#[tokio::test]
#[ignore = "needs libvirtd and the libvirt oracle (libvirt-daemon, libvirt-clients, libvirt-dev)"]
async fn both_clients_say_the_same_of_volumes() {
    const SIZE: usize = 3_000_001;
    let daemon = Daemon::start().await;
    let folder = daemon.folder.path().join("pool");
    let place = folder.display().to_string();
    daemon.virsh(STORAGE, &["pool-define-as", "p", "dir", "--target", &place]);
    daemon.virsh(STORAGE, &["pool-start", "p"]);
    let api = daemon.client(STORAGE).await;
    let mut oracle = Oracle::open(&daemon, STORAGE);
    let pool = api.pool("p").await.expect("a pool");
    let shown = |pool: Pool| json!([pool.name, pool.uuid.to_string()]);
    agreed(
        "pool",
        said(api.pool("p").await, shown),
        oracle.call(json!(["pool", "p"])),
    );
    let xml = |name: &str| {
        format!(
            "<volume><name>{name}</name><capacity>{SIZE}</capacity><target><format type='raw'/></target></volume>"
        )
    };
    let ours = api.create_volume(&pool, &xml("a"), 0).await.expect("made");
    let theirs = oracle.call(json!(["create_volume", "p", xml("b"), 0]));
    assert_eq!(theirs["ok"][1], "b");
    let taken = said(api.create_volume(&pool, &xml("a"), 0).await, volume_json);
    let error = agreed(
        "a name that is taken",
        taken,
        oracle.call(json!(["create_volume", "p", xml("a"), 0])),
    );
    assert!(error["error"].is_object());

    // The same bytes through either client are the same file.
    let contents = vec![b'o'; SIZE];
    let sent = api
        .upload(&ours, 0, SIZE as u64, &mut Cursor::new(&contents))
        .await;
    assert_eq!(sent.expect("uploaded"), SIZE as u64);
    assert_eq!(oracle.call(json!(["upload", "b", SIZE])), json!({ "ok": SIZE }));
    assert!(std::fs::read(folder.join("a")).expect("a file") == contents);
    assert!(std::fs::read(folder.join("b")).expect("a file") == contents);

    for name in ["a", "b"] {
        let volume = api.volume(&pool, name).await.expect("there");
        let found = said(api.volume(&pool, name).await, volume_json);
        agreed("volume", found, oracle.call(json!(["volume", "p", name])));
        let path = said(api.volume_path(&volume).await, Value::from);
        agreed("volume_path", path, oracle.call(json!(["volume_path", name])));
        let document = said(api.volume_xml(&volume).await, Value::from);
        agreed("volume_xml", document, oracle.call(json!(["volume_xml", name])));
        let info = said(api.volume_info(&volume).await, |info| {
            json!([info.kind, info.capacity, info.allocation])
        });
        agreed("volume_info", info, oracle.call(json!(["volume_info", name])));
    }
    let names = said(api.volumes(&pool).await, |all| {
        let all: BTreeMap<_, _> = all
            .into_iter()
            .map(|volume| (volume.name.clone(), volume_json(volume)))
            .collect();
        all.into_values().collect()
    });
    let mut theirs = oracle.call(json!(["volumes", "p"]));
    if let Some(all) = theirs["ok"].as_array_mut() {
        all.sort_by_key(|volume| volume[1].to_string());
    }
    agreed("volumes", names, theirs);

    // What ours removes, theirs misses; and the other way round.
    agreed(
        "delete",
        nothing(api.delete_volume(&ours).await),
        json!({ "ok": null }),
    );
    assert_eq!(oracle.call(json!(["delete_volume", "b"])), json!({ "ok": null }));
    let b = Volume {
        name: "b".to_owned(),
        key: folder.join("b").display().to_string(),
        ..ours.clone()
    };
    for (gone, name) in [(&ours, "a"), (&b, "b")] {
        let missing = nothing(api.delete_volume(gone).await);
        let error = agreed(
            "delete again",
            missing,
            oracle.call(json!(["delete_volume", name])),
        );
        assert!(error["error"].is_object());
        let missing = said(api.volume(&pool, name).await, volume_json);
        agreed("volume", missing, oracle.call(json!(["volume", "p", name])));
    }
    agreed(
        "refresh",
        nothing(api.refresh(&pool).await),
        oracle.call(json!(["refresh", "p"])),
    );
    daemon.virsh(STORAGE, &["pool-destroy", "p"]);
    let off = nothing(api.refresh(&pool).await);
    let error = agreed("refresh what is off", off, oracle.call(json!(["refresh", "p"])));
    assert!(error["error"].is_object());
    let info = said(api.pool_info(&pool).await, |info| {
        json!([
            i32::from(info.state),
            info.capacity,
            info.allocation,
            info.available
        ])
    });
    agreed("pool_info", info, oracle.call(json!(["pool_info", "p"])));
}

//! What goes wrong on a machine: a clear error, nothing lost, nothing left behind.

#[path = "local/rig.rs"]
mod rig;

use std::future::Future;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::{Command, Stdio};
use std::task::{Context, Poll};
use std::time::Duration;

use egress::contract::{
    Accepted, AdoptPolicy, Adopted, Backend as _, CreateRequest, Deleted, ErrorKind, Facts, HealthReason,
    Instance, ListFilter, Readiness, State, Target,
};
use egress::transport::call::{Interval, Limits, Look, poll};
use rig::{Client, Origin, Rig, create_on, free_port, secrets, with_user};
use rustix::process::{Pid, Signal, kill_process};

fn on_free_port() -> Facts {
    Facts {
        port: Some(free_port()),
        ..Facts::default()
    }
}

fn signal(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(pid).expect("a number")).expect("not zero");
    kill_process(pid, signal).expect("it runs and is ours");
}

/// Waits until the backend reports this state, without sleeping: every look is a real one.
async fn reaches(rig: &Rig, instance: &Instance, state: State) -> Instance {
    let begun = std::time::Instant::now();
    loop {
        let found = rig.get(instance).await.expect("there").instance;
        if found.state == state {
            return found;
        }
        assert!(
            begun.elapsed().as_secs() < 30,
            "{state} is not reached: {found:?}"
        );
        tokio::task::yield_now().await;
    }
}

async fn serves(instance: &Instance) {
    let origin = Origin::start().await;
    let answer = Client::of(instance).get(&origin.url(), "").await;
    // The port is not an allowed one: that Squid says so proves that it serves.
    assert_eq!(answer.status, 403, "{answer:?}");
}

#[tokio::test]
#[ignore = "needs squid"]
async fn a_killed_squid_is_stopped_and_starts_again_as_the_same_instance() {
    let rig = Rig::new();
    let facts = with_user(on_free_port(), "team");
    let mut request = rig.request("a", facts);
    request.secrets = secrets("pw");
    let proxy = rig.create(request).await.expect("created").instance;
    let (pid, service) = (
        rig.pid("a"),
        rig.record("a")["service"].as_str().expect("text").to_owned(),
    );
    assert!(
        !Rig::shared_memory(&service).is_empty(),
        "Squid has shared memory of its own name"
    );

    signal(pid, Signal::KILL);
    let stopped = reaches(&rig, &proxy, State::Stopped).await;
    assert_eq!((stopped.ip, stopped.started), (None, false));
    let found = rig.get(&proxy).await.expect("there");
    assert!(
        matches!(&found.readiness, Some(Readiness::NotReady(why)) if why.contains("does not run")),
        "{found:?}"
    );

    let healed = rig.resume(&proxy).await.expect("resumed");
    assert_eq!(healed.adopted, Adopted::No);
    assert_eq!(
        healed.instance, proxy,
        "the same instance, the same address, nothing replaced"
    );
    assert_ne!(rig.pid("a"), pid);
    // The password was in no request this time: its file still knows it.
    let origin = Origin::start().await;
    let client = Client::of(&healed.instance);
    assert_eq!(client.get(&origin.url(), "").await.status, 407);
    assert_eq!(
        client.get(&origin.url(), &rig::basic("team", "pw")).await.status,
        403,
        "let in, to an allowed port"
    );

    signal(rig.pid("a"), Signal::KILL);
    reaches(&rig, &proxy, State::Stopped).await;
    assert_eq!(rig.delete(&proxy).await.expect("deleted"), Deleted::Gone);
    assert_eq!(Rig::shared_memory(&service), [""; 0].map(PathBuf::from));
}

#[tokio::test]
#[ignore = "needs squid"]
async fn a_paused_squid_goes_on_as_the_same_process() {
    let rig = Rig::new();
    let proxy = rig.proxy("a", Facts::default()).await;
    let pid = rig.pid("a");
    signal(pid, Signal::STOP);
    let paused = reaches(&rig, &proxy, State::Stopped).await;
    assert!(paused.reason.expect("said").contains("paused"));
    assert_eq!(rig.resume(&proxy).await.expect("resumed").instance, proxy);
    assert_eq!(rig.pid("a"), pid);
    serves(&proxy).await;
    // One that is paused can be deleted as well.
    signal(pid, Signal::STOP);
    assert_eq!(rig.delete(&proxy).await.expect("deleted"), Deleted::Gone);
}

#[tokio::test]
#[ignore = "needs squid"]
async fn after_a_reboot_it_is_stopped_and_starts_again() {
    let rig = Rig::new();
    let proxy = rig.proxy("a", Facts::default()).await;
    signal(rig.pid("a"), Signal::KILL);
    rig.edit_record("a", |record| record["process"]["boot_id"] = "another-boot".into());
    let stopped = reaches(&rig, &proxy, State::Stopped).await;
    assert!(stopped.reason.expect("said").contains("restarted"));
    assert_eq!(rig.resume(&proxy).await.expect("resumed").instance, proxy);
    serves(&proxy).await;
    rig.delete(&proxy).await.expect("deleted");
}

#[tokio::test]
#[ignore = "needs squid"]
async fn a_stranger_that_got_the_number_is_left_alone() {
    let rig = Rig::new();
    let proxy = rig.proxy("a", Facts::default()).await;
    signal(rig.pid("a"), Signal::KILL);
    reaches(&rig, &proxy, State::Stopped).await;
    let mut stranger = Command::new("sleep").arg("600").spawn().expect("sleep runs");
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", stranger.id())).expect("it runs");
    let start_time: u64 = stat
        .rsplit(") ")
        .next()
        .expect("a line")
        .split(' ')
        .nth(19)
        .expect("a field")
        .parse()
        .expect("a number");
    // The number alone, then the number with its start: only the arguments tell.
    for start in [1, start_time] {
        rig.edit_record("a", |record| {
            record["process"]["pid"] = stranger.id().into();
            record["process"]["start_time"] = start.into();
        });
        let found = rig.get(&proxy).await.expect("there").instance;
        assert_eq!(found.state, State::Stopped, "{found:?}");
        assert!(found.reason.expect("said").contains("belongs to another"));
    }
    assert_eq!(rig.resume(&proxy).await.expect("resumed").instance, proxy);
    rig.edit_record("a", |record| {
        record["process"]["pid"] = stranger.id().into();
        record["process"]["start_time"] = start_time.into();
    });
    assert_eq!(rig.delete(&proxy).await.expect("deleted"), Deleted::Gone);
    assert_eq!(
        stranger.try_wait().expect("ours"),
        None,
        "the stranger still runs"
    );
    stranger.kill().expect("ours");
    stranger.wait().expect("ours");
}

#[tokio::test]
#[ignore = "needs squid"]
async fn a_taken_port_is_named_and_nothing_is_left() {
    let rig = Rig::new();
    let taken = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let port = taken.local_addr().expect("bound").port();
    let facts = Facts {
        port: Some(port),
        ..Facts::default()
    };
    let error = rig
        .create(rig.request("a", facts.clone()))
        .await
        .expect_err("taken");
    assert_eq!(error.kind(), ErrorKind::Permanent);
    for part in [
        format!("port {port} on 127.0.0.1"),
        format!("process {}", std::process::id()),
        "`port`".into(),
    ] {
        assert!(error.to_string().contains(&part), "{error} says {part}");
    }
    assert_eq!(rig.files(), [""; 0].map(PathBuf::from));
    drop(taken);
    let first = rig
        .create(rig.request("a", facts.clone()))
        .await
        .expect("free by now")
        .instance;
    let error = rig
        .create(rig.request("b", facts))
        .await
        .expect_err("taken by the first");
    assert!(
        error
            .to_string()
            .contains("the proxy \"default/a\" of this backend"),
        "{error}"
    );
    serves(&first).await;
    // A stopped one cannot come back while somebody has its port, and says who.
    signal(rig.pid("a"), Signal::KILL);
    reaches(&rig, &first, State::Stopped).await;
    // The kernel closes a dead process's sockets in its own time.
    let bind = || async move {
        match std::net::TcpListener::bind(("127.0.0.1", port)) {
            Ok(thief) => Ok(Look::Done(thief)),
            Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {
                Ok(Look::Pending(error.to_string()))
            }
            Err(error) => Err(error.to_string()),
        }
    };
    let limits = Limits::after(Duration::from_secs(30));
    let thief = poll(&limits, Interval::every(Duration::from_millis(10)), bind)
        .await
        .expect("free");
    let error = rig.resume(&first).await.expect_err("taken");
    assert!(error.to_string().contains(&format!("port {port}")), "{error}");
    assert_eq!(
        rig.get(&first).await.expect("still there").instance.state,
        State::Stopped
    );
    drop(thief);
    rig.resume(&first).await.expect("free again");
    rig.delete(&first).await.expect("deleted");
}

/// A program that does as Squid does until it is to serve.
fn pretender(dir: &Path, script: &str) -> PathBuf {
    let program = dir.join("pretender");
    std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).expect("written");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("set");
    program
}

/// What a pretender says of itself.
const VERSION: &str =
    "[ \"$1\" = -v ] && echo 'Squid Cache: Version 5.7' && echo \"'--with-default-user=root'\" && exit 0";

/// Whoever is interrupted while Squid starts has the last report and nothing else.
#[tokio::test]
#[ignore = "needs squid"]
async fn what_was_started_is_reported_before_it_serves() {
    let rig = Rig::new();
    // It starts, and opens no port.
    let script = format!("{VERSION}\n[ \"$1\" = -k ] && exit 0\nwhile :; do sleep 1; done");
    let backend = rig.again(Some(pretender(rig.dir(), &script)));
    let request = CreateRequest::New(Box::new(rig.request("a", on_free_port())));
    let accepted = Accepted::new();
    let mut create = backend.create(&request, &accepted);
    let begun = std::time::Instant::now();
    let told = loop {
        tokio::select! {
            done = &mut create => panic!("it cannot be done: {done:?}"),
            () = tokio::task::yield_now() => {}
        }
        match accepted.last() {
            Some(told) if told.state == State::Running => break told,
            Some(told) => assert_eq!(told.reason.as_deref(), Some("its Squid was about to be started")),
            None => {}
        }
        assert!(begun.elapsed().as_secs() < 30, "no process is reported");
    };
    drop(create);
    assert!(told.mark.pending && told.started);
    assert_eq!(rig.processes().len(), 1);
    rig.delete(&told).await.expect("deleted");
    assert_eq!(rig.processes(), [0; 0]);
}

#[tokio::test]
#[ignore = "needs squid"]
async fn a_missing_or_broken_squid_is_named_and_nothing_is_left() {
    let rig = Rig::new();
    let ends = format!(
        "{VERSION}\n[ \"$1\" = -k ] && exit 0\nconf=$5; echo '| FATAL: it cannot be' >> \"${{conf%/*}}/cache.log\"; exit 3"
    );
    let missing = rig.again(Some(PathBuf::from("/nowhere/squid")));
    let error = create_on(&missing, rig.request("a", on_free_port()))
        .await
        .expect_err("no Squid");
    assert_eq!(error.kind(), ErrorKind::Permanent);
    for part in ["/nowhere/squid", "`squid`"] {
        assert!(error.to_string().contains(part), "{error} says {part}");
    }
    assert_eq!(missing.check().await[0].reason, HealthReason::Unreachable);
    for (script, parts) in [
        ("exit 1".to_owned(), &["no version"][..]),
        (
            "echo 'Squid Cache: Version 4.6'".to_owned(),
            &["Squid 4", "5 or later"],
        ),
        (
            format!("{VERSION}\necho 'x| FATAL: Bungled line 7' >&2; exit 1"),
            &["refuses the configuration", "Bungled line 7"],
        ),
        (ends, &["ended at once", "exit status: 3", "it cannot be"]),
    ] {
        let backend = rig.again(Some(pretender(rig.dir(), &script)));
        let error = create_on(&backend, rig.request("a", on_free_port()))
            .await
            .expect_err(&script);
        assert_eq!(error.kind(), ErrorKind::Permanent, "{error}");
        assert!(
            parts.iter().all(|part| error.to_string().contains(part)),
            "{error} says {parts:?}"
        );
        assert_eq!(rig.files(), [""; 0].map(PathBuf::from), "{script}");
        assert_eq!(rig.processes(), [0; 0], "{script}");
    }
}

/// Makes a directory in which nothing can be written, root or not, and undoes it.
struct ReadOnly<'a>(&'a Path);

impl<'a> ReadOnly<'a> {
    fn make(dir: &'a Path) -> Self {
        if rustix::process::geteuid().is_root() {
            let dir = dir.to_str().expect("UTF-8");
            for arguments in [&["--bind", dir, dir][..], &["-o", "remount,ro,bind", dir]] {
                let status = Command::new("mount")
                    .args(arguments)
                    .status()
                    .expect("mount runs");
                assert!(status.success(), "root may mount");
            }
        } else {
            std::fs::set_permissions(dir, std::fs::Permissions::from_mode(0o500)).expect("set");
        }
        Self(dir)
    }
}

impl Drop for ReadOnly<'_> {
    fn drop(&mut self) {
        if rustix::process::geteuid().is_root() {
            let _ = Command::new("umount").arg("--lazy").arg(self.0).status();
        } else {
            let _ = std::fs::set_permissions(self.0, std::fs::Permissions::from_mode(0o700));
        }
    }
}

#[tokio::test]
#[ignore = "needs squid"]
async fn a_read_only_state_directory_is_named_and_loses_nothing() {
    let rig = Rig::new();
    let proxy = rig.proxy("a", Facts::default()).await;
    let state_dir = rig.state_dir();
    let read_only = ReadOnly::make(&state_dir);

    assert_eq!(rig.get(&proxy).await.expect("reading is enough").instance, proxy);
    let health = rig.backend.check().await;
    assert_eq!(health[0].reason, HealthReason::Forbidden, "{health:?}");
    let mut other = rig.request("b", on_free_port());
    other.key.namespace = "elsewhere".parse().expect("valid");
    for error in [
        rig.create(other).await.expect_err("nothing can be written"),
        rig.delete(&proxy)
            .await
            .map(|_| ())
            .expect_err("nothing can be removed"),
    ] {
        assert_eq!(error.kind(), ErrorKind::Permanent, "{error}");
        assert!(
            error.to_string().contains(state_dir.to_str().expect("UTF-8")),
            "{error}"
        );
        assert!(error.to_string().contains("state_dir"), "{error}");
    }
    serves(&proxy).await;

    drop(read_only);
    assert_eq!(rig.get(&proxy).await.expect("there").instance, proxy);
    rig.delete(&proxy).await.expect("deleted");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs squid"]
async fn two_applies_at_once_make_one_proxy() {
    let rig = Rig::new();
    let facts = on_free_port();
    let (one, other) = (rig.again(None), rig.again(None));
    let (first, second) = tokio::join!(
        create_on(&one, rig.request("a", facts.clone())),
        create_on(&other, rig.request("a", facts.clone())),
    );
    let (made, refused) = match (first, second) {
        (Ok(made), Err(refused)) | (Err(refused), Ok(made)) => (made, refused),
        both => panic!("exactly one of them makes it: {both:?}"),
    };
    assert_eq!(refused.kind(), ErrorKind::Permanent);
    assert!(refused.to_string().contains("handed over"), "{refused}");
    assert_eq!(rig.processes().len(), 1);
    assert_eq!(
        rig.get(&made.instance).await.expect("there").instance,
        made.instance
    );

    // One that creates and one that deletes: whichever comes first, nobody gets half a proxy.
    let mut again = rig.request("a", facts);
    again.adopt = AdoptPolicy::SameSpec;
    let delete = rig.delete_request(&made.instance);
    let (created, deleted) = tokio::join!(create_on(&one, again), other.delete(&delete));
    let created = created.expect("made or taken over").instance;
    match deleted.expect("deleted or left alone") {
        Deleted::Gone | Deleted::LeftAlone(_) => {}
        Deleted::Accepted => panic!("delete waits"),
    }
    assert_eq!(
        rig.get(&created).await.expect("there").instance.state,
        State::Running
    );
    assert_eq!(rig.processes().len(), 1);
    rig.delete(&created).await.expect("deleted");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs squid"]
async fn many_creates_at_once_do_not_disturb_each_other() {
    let rig = Rig::new();
    let names: Vec<_> = (0..12).map(|n| format!("p{n}")).collect();
    let made =
        futures_util::future::join_all(names.iter().map(|name| rig.proxy(name, Facts::default()))).await;
    assert_eq!(rig.processes().len(), made.len());
    let filter = ListFilter {
        installation: rig.installation.clone(),
        namespace: None,
    };
    assert_eq!(
        rig.backend
            .list_by_tag(&filter)
            .await
            .expect("listed")
            .instances
            .len(),
        made.len()
    );
    let deleted = futures_util::future::join_all(made.iter().map(|proxy| rig.delete(proxy))).await;
    assert!(deleted.iter().all(|deleted| matches!(deleted, Ok(Deleted::Gone))));
}

/// Drops a future after it was polled so many times: cancellation at an await of its own.
struct Cut<F> {
    inner: Pin<Box<F>>,
    polls: usize,
}

impl<F: Future> Future for Cut<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if self.polls == 0 {
            return Poll::Ready(None);
        }
        self.polls -= 1;
        self.inner.as_mut().poll(context).map(Some)
    }
}

fn cut<F: Future>(inner: F, polls: usize) -> Cut<F> {
    Cut {
        inner: Box::pin(inner),
        polls,
    }
}

#[tokio::test]
#[ignore = "needs squid"]
async fn a_create_cut_off_anywhere_is_finished_by_the_next_one() {
    let rig = Rig::new();
    let rounds = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 18, 20, 23, 26, 30];
    let one = |polls: usize| {
        let rig = &rig;
        async move {
            let name = format!("p{polls}");
            let request = CreateRequest::New(Box::new(rig.request(&name, on_free_port())));
            let CreateRequest::New(first) = &request else {
                unreachable!("it was built so")
            };
            let accepted = Accepted::new();
            let done = cut(rig.backend.create(&request, &accepted), polls).await;
            if let Some(done) = done {
                rig.delete(&done.expect("created").instance)
                    .await
                    .expect("deleted");
                return;
            }
            if let Some(told) = accepted.last() {
                // What was told is there, and whoever holds it can go on with it.
                let found = rig.get(&told).await.expect("what was accepted exists").instance;
                assert_eq!(found.mark.incarnation, first.incarnation, "{polls}");
            }
            // The next run: the same specification, another incarnation.
            let mut again = rig.request(&name, first.facts.clone());
            again.given.clone_from(&first.given);
            assert_eq!(again.uid, first.uid);
            let made = rig.create(again).await;
            let instance = match made {
                Ok(made) => {
                    assert_eq!(
                        made.adopted == Adopted::Pending,
                        !made.warnings.is_empty(),
                        "{polls}"
                    );
                    made.instance
                }
                // Cut off after the last write: it had been handed over, which import is for.
                Err(error) if error.to_string().contains("handed over") => {
                    accepted.last().expect("it was accepted long before")
                }
                Err(error) => panic!("cut after {polls}: {error}"),
            };
            let found = rig.get(&instance).await.expect("there");
            assert_eq!(
                (found.instance.state, found.readiness),
                (State::Running, Some(Readiness::Ready)),
                "{polls}"
            );
            assert_eq!(rig.delete(&found.instance).await.expect("deleted"), Deleted::Gone);
        }
    };
    for together in rounds.chunks(6) {
        futures_util::future::join_all(together.iter().copied().map(one)).await;
    }
}

#[tokio::test]
#[ignore = "needs squid"]
async fn a_delete_cut_off_anywhere_is_seen_and_finished() {
    let rig = Rig::new();
    let one = |polls: usize| {
        let rig = &rig;
        async move {
            let proxy = rig.proxy(&format!("p{polls}"), Facts::default()).await;
            let cut_off = cut(rig.delete(&proxy), polls).await;
            match rig.get(&proxy).await {
                Ok(found) => assert!(
                    matches!(found.instance.state, State::Running | State::Terminated),
                    "{polls}: {:?}",
                    found.instance
                ),
                Err(error) => {
                    // Work that was begun goes on: it may be gone by now, but never half.
                    assert_eq!(error.kind(), ErrorKind::NotFound, "{polls}: {error}");
                }
            }
            if cut_off.is_none() {
                assert_eq!(
                    rig.delete(&proxy).await.expect("deleted"),
                    Deleted::Gone,
                    "{polls}"
                );
            }
            assert_eq!(
                rig.get(&proxy).await.expect_err("gone").kind(),
                ErrorKind::NotFound
            );
        }
    };
    futures_util::future::join_all([1, 2, 3, 4, 5, 6, 8, 11, 15].map(one)).await;
}

#[tokio::test]
#[ignore = "needs squid"]
async fn remains_of_a_deletion_are_terminated_and_made_anew() {
    let rig = Rig::new();
    let facts = on_free_port();
    let proxy = rig
        .create(rig.request("a", facts.clone()))
        .await
        .expect("created")
        .instance;
    rig.edit_record("a", |record| record["deleting"] = true.into());
    assert_eq!(
        rig.get(&proxy).await.expect("there").instance.state,
        State::Terminated
    );
    let error = rig.resume(&proxy).await.expect_err("there is nothing to resume");
    assert_eq!(error.kind(), ErrorKind::Permanent);
    let made = rig.create(rig.request("a", facts)).await.expect("made anew");
    assert_eq!(made.adopted, Adopted::No);
    assert_eq!(rig.processes().len(), 1);
    rig.delete(&made.instance).await.expect("deleted");
}

#[tokio::test]
#[ignore = "needs squid"]
async fn a_directory_removed_by_hand_leaves_no_squid_for_ever() {
    let rig = Rig::new();
    let facts = on_free_port();
    let proxy = rig
        .create(rig.request("a", facts.clone()))
        .await
        .expect("created")
        .instance;
    let pid = rig.pid("a");
    std::fs::remove_dir_all(rig.proxy_dir("a")).expect("removed");
    let error = rig.get(&proxy).await.expect_err("gone");
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(
        error.is_noteworthy() && error.to_string().contains(&pid.to_string()),
        "{error}"
    );
    let made = rig
        .create(rig.request("a", facts))
        .await
        .expect("made again")
        .instance;
    assert_eq!(rig.processes().len(), 1);
    // As one that had to be killed leaves it; only the process still knows the name.
    let service = Rig::service(rig.pid("a")).expect("a name");
    std::fs::write(format!("/dev/shm/{service}-left.shm"), "").expect("written");
    std::fs::remove_dir_all(rig.proxy_dir("a")).expect("removed");
    assert_eq!(rig.delete(&made).await.expect("nothing is there"), Deleted::Gone);
    assert_eq!(rig.processes(), [0; 0]);
    assert_eq!(Rig::shared_memory(&service), [""; 0].map(PathBuf::from));
}

#[tokio::test]
#[ignore = "needs squid"]
async fn what_this_provider_did_not_make_is_left_alone() {
    let rig = Rig::new();
    let proxy = rig.proxy("a", Facts::default()).await;
    let text = std::fs::read(rig.proxy_dir("a").join("instance.json")).expect("there");
    for (case, broken, word) in [
        ("removed", None, "no mark"),
        (
            "cut short",
            Some(&text[..text.len() / 2]),
            "is not what this provider writes",
        ),
        ("newer", Some(&b"{\"version\": 2}"[..]), "newer release"),
    ] {
        let record = rig.proxy_dir("a").join("instance.json");
        match broken {
            None => std::fs::remove_file(&record).expect("removed"),
            Some(broken) => std::fs::write(&record, broken).expect("written"),
        }
        for error in [
            rig.get(&proxy).await.map(|_| ()).expect_err(case),
            rig.delete(&proxy).await.map(|_| ()).expect_err(case),
            rig.resume(&proxy).await.map(|_| ()).expect_err(case),
            rig.create(rig.request("a", on_free_port()))
                .await
                .map(|_| ())
                .expect_err(case),
        ] {
            assert_eq!(error.kind(), ErrorKind::Permanent, "{case}: {error}");
            assert!(error.to_string().contains(word), "{case}: {error}");
        }
        let filter = ListFilter {
            installation: rig.installation.clone(),
            namespace: None,
        };
        let listing = rig.backend.list_by_tag(&filter).await.expect("listed");
        assert!(listing.instances.is_empty());
        let named: Vec<_> = listing
            .unreadable
            .iter()
            .map(|unread| unread.prefix.as_str())
            .collect();
        assert_eq!(named, broken.map_or(&[][..], |_| &["default/a"]), "{case}");
    }
    std::fs::write(rig.proxy_dir("a").join("instance.json"), &text).expect("written");
    assert_eq!(rig.get(&proxy).await.expect("as before").instance, proxy);
    rig.delete(&proxy).await.expect("deleted");
}

#[tokio::test]
#[ignore = "needs squid"]
async fn absence_from_another_directory_proves_nothing() {
    let (rig, other) = (Rig::new(), Rig::new());
    let proxy = rig.proxy("a", Facts::default()).await;
    for error in [
        other
            .get(&proxy)
            .await
            .map(|_| ())
            .expect_err("another directory"),
        other
            .delete(&proxy)
            .await
            .map(|_| ())
            .expect_err("another directory"),
    ] {
        assert_eq!(error.kind(), ErrorKind::Permanent);
        assert!(
            error
                .to_string()
                .contains(rig.state_dir().to_str().expect("UTF-8")),
            "{error}"
        );
        assert!(error.to_string().contains("state rm"), "{error}");
    }
    // A state that knows no target has nothing to compare.
    let mut request = other.get_request(&proxy);
    request.recorded_target = Some(Target::default());
    let error = other.backend.get(&request).await.expect_err("absent");
    assert_eq!(error.kind(), ErrorKind::NotFound);
    rig.delete(&proxy).await.expect("deleted");
}

#[tokio::test]
#[ignore = "needs squid"]
async fn squid_gets_nothing_of_ours_and_others_read_nothing_secret() {
    let rig = Rig::new();
    let mut request = rig.request("a", with_user(on_free_port(), "team"));
    request.secrets = secrets("sentinel-password");
    let hash = request.secrets.password_hash.clone().expect("hashed");
    let proxy = rig.create(request).await.expect("created").instance;
    let pid = rig.pid("a");

    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it runs");
    let group: u32 = stat
        .rsplit(") ")
        .next()
        .expect("a line")
        .split(' ')
        .nth(2)
        .expect("a field")
        .parse()
        .expect("a number");
    assert_eq!(group, pid, "a process group of its own");
    let environment = std::fs::read(format!("/proc/{pid}/environ")).expect("readable");
    let environment = String::from_utf8_lossy(&environment).into_owned();
    let variables: Vec<_> = environment
        .split('\0')
        .filter(|entry| !entry.is_empty())
        .collect();
    assert!(
        variables.iter().all(|entry| entry.starts_with("PATH=")),
        "{variables:?}"
    );
    for descriptor in 0..3 {
        let link = std::fs::read_link(format!("/proc/{pid}/fd/{descriptor}")).expect("open");
        assert_eq!(link, Path::new("/dev/null"), "{descriptor}");
    }

    for path in rig.files().iter().filter(|path| path.is_file()) {
        let text = std::fs::read(path).expect("readable");
        let text = String::from_utf8_lossy(&text);
        assert!(!text.contains("sentinel-password"), "{}", path.display());
        let holds_hash = text.contains(hash.expose());
        assert_eq!(holds_hash, path.ends_with("passwd"), "{}", path.display());
        let mode = std::fs::metadata(path).expect("there").permissions().mode();
        assert_eq!(mode & 0o007, 0, "{} is for nobody else", path.display());
    }
    rig.delete(&proxy).await.expect("deleted");
}

/// A proxy outlives the process that made it.
#[tokio::test]
#[ignore = "needs squid"]
async fn a_proxy_goes_on_after_its_maker() {
    let rig = Rig::new();
    // The maker is another run of this test binary, which makes the proxy and ends.
    if let Some(dir) = std::env::var_os("EGRESS_TEST_MAKER") {
        let config = egress::backend::local::LocalConfig::new(Path::new(&dir), None, vec![]).expect("sound");
        let backend = egress::backend::local::Local::new(rig::name(), config);
        create_on(&backend, rig.request("a", on_free_port()))
            .await
            .expect("created");
        return;
    }
    let status = Command::new(std::env::current_exe().expect("this binary"))
        .args(["--exact", "a_proxy_goes_on_after_its_maker", "--include-ignored"])
        .env("EGRESS_TEST_MAKER", rig.state_dir())
        .stdout(Stdio::null())
        .status()
        .expect("it runs");
    assert!(status.success());
    let request = egress::contract::GetRequest {
        id: rig::id("a"),
        incarnation: None,
        installation: rig.installation.clone(),
        recorded_target: None,
        probe: true,
        freshness: egress::contract::Freshness::Fresh,
    };
    let found = rig.backend.get(&request).await.expect("there");
    assert_eq!(
        (found.instance.state, found.readiness),
        (State::Running, Some(Readiness::Ready))
    );
    rig.delete(&found.instance).await.expect("deleted");
}

#[tokio::test]
#[ignore = "needs squid and root"]
async fn a_directory_that_squids_account_cannot_pass_is_named() {
    assert!(
        rustix::process::geteuid().is_root(),
        "Squid changes its account only under root"
    );
    let rig = Rig::new();
    std::fs::set_permissions(rig.dir(), std::fs::Permissions::from_mode(0o700)).expect("set");
    // Health says it before anything is made there.
    let health = rig.backend.check().await;
    assert_eq!(health[0].reason, HealthReason::Forbidden, "{health:?}");
    assert!(
        health[0].message.contains(rig.dir().to_str().expect("UTF-8")),
        "{health:?}"
    );
    let error = rig
        .create(rig.request("a", on_free_port()))
        .await
        .expect_err("barred");
    assert_eq!(error.kind(), ErrorKind::Permanent);
    assert!(
        error.to_string().contains(rig.dir().to_str().expect("UTF-8")),
        "{error}"
    );
    assert!(error.to_string().contains("state_dir"), "{error}");
    assert_eq!(rig.files(), [""; 0].map(PathBuf::from));
}

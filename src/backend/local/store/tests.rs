//! The store before a real file system.

use std::os::unix::fs::PermissionsExt as _;

use super::super::files::{Files, LONGEST_TAIL, Passwords, configure, log_length, log_since};
use super::super::lock::{Attempt, Lock, try_lock};
use super::super::record::tests::record;
use super::*;
use crate::contract::Secret;

fn place(dir: &Path) -> Place {
    Place::parse(dir, &"default/a".parse().expect("an id")).expect("a place")
}

fn locked(place: &Place) -> Lock {
    match try_lock(place, Some(None)).expect("locked") {
        Attempt::Locked(lock) => lock,
        other => panic!("{other:?}"),
    }
}

fn left(dir: &Path) -> Vec<String> {
    std::fs::read_dir(dir)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect()
}

fn files(passwords: Passwords) -> Files {
    Files {
        conf: "http_port 1\n".into(),
        passwords,
    }
}

#[test]
fn a_directory_comes_and_goes_with_its_record() {
    let dir = tempfile::tempdir().expect("a directory");
    let place = place(dir.path());
    assert_eq!(look(&place).expect("looked"), Entry::Absent);
    let lock = locked(&place);
    let record = record();
    publish(&place, &record, None).expect("published");
    assert_eq!(
        look(&place).expect("looked"),
        Entry::Marked(Box::new(record.clone()))
    );
    configure(&place, &files(Passwords::Write(Secret::new("u:x\n"))), None).expect("configured");
    let changed = Record {
        deleting: true,
        ..record
    };
    write_record(&place, &changed).expect("written");
    assert_eq!(look(&place).expect("looked"), Entry::Marked(Box::new(changed)));
    withdraw(&place).expect("withdrawn");
    assert_eq!(look(&place).expect("looked"), Entry::Absent);
    drop(lock);
    assert_eq!(
        left(dir.path()),
        [""; 0],
        "nothing is left, the namespace included"
    );
}

#[test]
fn what_was_cut_off_is_swept() {
    let dir = tempfile::tempdir().expect("a directory");
    let place = place(dir.path());
    let lock = locked(&place);
    for leftover in [place.unpublished(), place.withdrawn()] {
        std::fs::create_dir(&leftover).expect("made");
        std::fs::write(leftover.join(RECORD), "{").expect("written");
    }
    assert_eq!(look(&place).expect("looked"), Entry::Absent);
    publish(&place, &record(), None).expect("published");
    std::fs::write(place.dir().join("instance.json.part"), "{").expect("written");
    write_record(&place, &record()).expect("written over what was cut off");
    std::fs::create_dir(place.dir().join("core")).expect("made");
    withdraw(&place).expect("withdrawn");
    drop(lock);
    assert_eq!(left(dir.path()), [""; 0]);
}

#[test]
fn what_is_not_ours_is_seen_as_such() {
    let dir = tempfile::tempdir().expect("a directory");
    let place = place(dir.path());
    std::fs::create_dir_all(place.dir()).expect("made");
    assert_eq!(look(&place).expect("looked"), Entry::Unmarked);
    std::fs::write(place.record(), "{\"version\": 9}").expect("written");
    assert!(
        look(&place)
            .expect_err("newer")
            .to_string()
            .contains("newer release")
    );
    std::fs::write(place.record(), "secret").expect("written");
    let error = look(&place).expect_err("malformed");
    assert!(!error.to_string().contains("secret"), "{error}");
    let mut copied = record();
    copied.mark.key.name = "b".parse().expect("valid");
    std::fs::write(place.record(), copied.to_json().expect("JSON")).expect("written");
    assert_eq!(
        look(&place).expect("looked"),
        Entry::Unmarked,
        "a copy of another proxy's directory"
    );
}

#[test]
fn a_lock_keeps_others_out_until_it_is_dropped() {
    let dir = tempfile::tempdir().expect("a directory");
    let place = place(dir.path());
    assert!(matches!(try_lock(&place, None).expect("tried"), Attempt::Nowhere));
    let lock = locked(&place);
    assert!(matches!(try_lock(&place, None).expect("tried"), Attempt::Busy));
    let waiting = File::open(place.lock()).expect("there");
    drop(lock);
    assert!(!place.lock().exists());
    // Whoever opened the file before it was removed has a lock that keeps nobody out.
    let again = locked(&place);
    assert!(waiting.try_lock().is_ok());
    assert!(matches!(try_lock(&place, None).expect("tried"), Attempt::Busy));
    drop(again);
    assert_eq!(left(dir.path()), [""; 0]);
}

#[test]
fn many_threads_never_hold_one_lock_together() {
    use std::sync::atomic::{AtomicU32, Ordering};
    let dir = tempfile::tempdir().expect("a directory");
    let (inside, done) = (AtomicU32::new(0), AtomicU32::new(0));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let place = place(dir.path());
                let mut rounds = 0;
                while rounds < 50 {
                    match try_lock(&place, Some(None)).expect("tried") {
                        Attempt::Locked(lock) => {
                            assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "alone");
                            std::thread::yield_now();
                            inside.fetch_sub(1, Ordering::SeqCst);
                            drop(lock);
                            rounds += 1;
                            done.fetch_add(1, Ordering::SeqCst);
                        }
                        Attempt::Busy => std::thread::yield_now(),
                        Attempt::Nowhere => panic!("it is made where it is missing"),
                    }
                }
            });
        }
    });
    assert_eq!(done.into_inner(), 400);
    assert_eq!(left(dir.path()), [""; 0]);
}

#[test]
fn nothing_secret_can_be_read_by_others() {
    let dir = tempfile::tempdir().expect("a directory");
    let place = place(dir.path());
    let lock = locked(&place);
    publish(&place, &record(), None).expect("published");
    configure(&place, &files(Passwords::Write(Secret::new("u:x\n"))), None).expect("configured");
    let mode = |path: PathBuf| std::fs::metadata(path).expect("there").permissions().mode() & 0o777;
    assert_eq!(mode(place.dir()), 0o700);
    assert_eq!(mode(place.record()), 0o600);
    assert_eq!(mode(place.passwords()), 0o600);
    assert_eq!(mode(place.conf()), 0o600);
    // A proxy that has no user any more keeps no password.
    configure(&place, &files(Passwords::None), None).expect("configured");
    assert!(!place.passwords().exists());
    let error = configure(&place, &files(Passwords::Keep), None).expect_err("it is gone");
    assert!(error.to_string().contains("-replace"), "{error}");
    withdraw(&place).expect("withdrawn");
    drop(lock);
}

#[test]
fn a_listing_skips_what_has_no_name_of_ours() {
    let dir = tempfile::tempdir().expect("a directory");
    assert!(
        list(&dir.path().join("absent"), None)
            .expect("nothing")
            .0
            .is_empty()
    );
    let place = place(dir.path());
    let lock = locked(&place);
    publish(&place, &record(), None).expect("published");
    std::fs::write(dir.path().join("file"), "").expect("written");
    std::fs::create_dir(dir.path().join("Not-a-namespace")).expect("made");
    std::fs::create_dir(place.namespace_dir().join(".a.old")).expect("made");
    let (listed, closed) = list(dir.path(), None).expect("listed");
    assert!(closed.is_empty());
    let places: Vec<_> = listed.iter().map(|listed| listed.place.id().as_str()).collect();
    assert_eq!(places, ["default/a"]);
    let other = "other".parse().expect("valid");
    assert!(list(dir.path(), Some(&other)).expect("listed").0.is_empty());
    withdraw(&place).expect("withdrawn");
    drop(lock);
}

#[test]
fn only_the_end_of_squids_log_is_told() {
    let dir = tempfile::tempdir().expect("a directory");
    let place = place(dir.path());
    std::fs::create_dir_all(place.dir()).expect("made");
    assert_eq!((log_length(&place), log_since(&place, 0).as_str()), (0, ""));
    std::fs::write(place.cache_log(), "old\n").expect("written");
    let before = log_length(&place);
    std::fs::write(place.cache_log(), "old\nnew\n").expect("written");
    assert_eq!(log_since(&place, before), "new\n");
    std::fs::write(place.cache_log(), "x".repeat(100_000)).expect("written");
    assert_eq!(log_since(&place, before).len() as u64, LONGEST_TAIL);
    std::fs::write(place.cache_log(), "").expect("written");
    assert_eq!(log_since(&place, before), "", "it was cut short meanwhile");
}

#[test]
fn what_stands_where_the_namespace_belongs_is_named() {
    for link in [false, true] {
        let dir = tempfile::tempdir().expect("a directory");
        let in_the_way = dir.path().join("default");
        if link {
            std::os::unix::fs::symlink(dir.path().join("nowhere"), &in_the_way).expect("a link");
        } else {
            std::fs::write(&in_the_way, "").expect("a file");
        }
        let error = try_lock(&place(dir.path()), Some(None)).expect_err("refused");
        assert_eq!(error.kind(), crate::contract::ErrorKind::Permanent);
        assert!(error.message().contains("is in the way"), "{error}");
    }
}

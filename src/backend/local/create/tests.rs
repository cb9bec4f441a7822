//! Who may have a name.

use super::*;
use crate::backend::local::record::tests::record;
use crate::contract::{AdoptPolicy, ErrorKind, Incarnation, Mark, Uid};

fn request(record: &Record, adopt: AdoptPolicy) -> NewInstance {
    NewInstance {
        key: record.mark.key.clone(),
        uid: record.mark.uid,
        incarnation: Incarnation::fresh(),
        spec_sha256: record.mark.spec_sha256.clone(),
        facts: record.mark.facts.clone(),
        given: Default::default(),
        labels: Default::default(),
        secrets: Secrets::default(),
        adopt,
    }
}

#[test]
fn who_may_have_a_name() {
    let id: InstanceId = "here/default/a".parse().expect("an id");
    let pending = record();
    let handed_over = Record {
        mark: Mark {
            pending: false,
            ..pending.mark.clone()
        },
        ..pending.clone()
    };
    let deleting = Record {
        deleting: true,
        ..handed_over.clone()
    };
    let (interrupted, same_spec, never) = (
        AdoptPolicy::Interrupted,
        AdoptPolicy::SameSpec,
        AdoptPolicy::Never,
    );
    for (found, adopt, expected) in [
        (None, never, Ok(None)),
        (Some(&pending), interrupted, Ok(Some(Adopted::Pending))),
        (Some(&pending), same_spec, Ok(Some(Adopted::Pending))),
        (Some(&pending), never, Err("adopt = \"never\"")),
        (Some(&handed_over), interrupted, Err("id = \"here/default/a\"")),
        (Some(&handed_over), same_spec, Ok(Some(Adopted::SameSpec))),
        (Some(&handed_over), never, Err("handed over")),
        (Some(&deleting), never, Ok(Some(Adopted::No))),
    ] {
        let entry = found.map_or(Entry::Absent, |record| Entry::Marked(Box::new(record.clone())));
        match (course(entry, &request(&pending, adopt), &id), expected) {
            (Ok(Course::Make), Ok(None)) | (Ok(Course::MakeAnew(_)), Ok(Some(Adopted::No))) => {}
            (Ok(Course::Adopt(adopted, _)), Ok(Some(expected))) => assert_eq!(adopted, expected),
            (Err(error), Err(part)) => {
                assert_eq!(error.kind(), ErrorKind::Permanent);
                assert!(error.to_string().contains(part), "{error} says {part}");
            }
            (course, expected) => {
                panic!("{course:?} instead of {expected:?} for {found:?} under {adopt:?}")
            }
        }
    }
}

#[test]
fn an_earlier_attempt_of_this_create_is_its_own_under_every_policy() {
    let id: InstanceId = "here/default/a".parse().expect("an id");
    for adopt in [
        AdoptPolicy::Interrupted,
        AdoptPolicy::SameSpec,
        AdoptPolicy::Never,
    ] {
        for pending in [true, false] {
            let mut found = record();
            found.mark.pending = pending;
            let mut request = request(&found, adopt);
            request.incarnation = found.mark.incarnation;
            let found = Box::new(found);
            assert_eq!(
                course(Entry::Marked(found.clone()), &request, &id).expect("its own"),
                Course::Adopt(Adopted::No, found)
            );
        }
    }
}

#[test]
fn another_specification_and_another_installation_are_refused_whatever_the_policy() {
    let id: InstanceId = "here/default/a".parse().expect("an id");
    let found = record();
    for adopt in [
        AdoptPolicy::Interrupted,
        AdoptPolicy::SameSpec,
        AdoptPolicy::Never,
    ] {
        for deleting in [false, true] {
            let found = Record {
                deleting,
                ..found.clone()
            };
            let mut other_spec = request(&found, adopt);
            other_spec.uid = Uid::of(&found.mark.key, "v1:other");
            let mut other_installation = request(&found, adopt);
            other_installation.key.installation = "staging".parse().expect("valid");
            for (request, part) in [
                (other_spec, "another specification"),
                (other_installation, "\"prod\""),
            ] {
                let error =
                    course(Entry::Marked(Box::new(found.clone())), &request, &id).expect_err("refused");
                assert_eq!(error.kind(), ErrorKind::Permanent);
                assert!(error.to_string().contains(part), "{error} says {part}");
            }
        }
        let error = course(Entry::Unmarked, &request(&found, adopt), &id).expect_err("refused");
        assert!(error.to_string().contains("adopt here/default/a"), "{error}");
    }
}

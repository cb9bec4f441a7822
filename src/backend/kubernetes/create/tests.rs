//! Who may have a name, as a table.

use k8s_openapi::api::core::v1::PodStatus;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::*;
use crate::backend::kubernetes::mark::tests::{mark, marked, place};
use crate::contract::{AdoptPolicy, ErrorKind, Uid};

fn pod(mark: &Mark, phase: &str) -> Pod {
    Pod {
        metadata: marked(mark),
        status: Some(PodStatus {
            phase: Some(phase.to_owned()),
            ..PodStatus::default()
        }),
        ..Pod::default()
    }
}

fn request(mark: &Mark, adopt: AdoptPolicy) -> NewInstance {
    let mut request = NewInstance::new(mark.key.clone(), mark.facts.clone(), Default::default());
    request.adopt = adopt;
    request
}

fn decided(found: Option<Pod>, request: &NewInstance) -> Result<Course, Error> {
    let id: InstanceId = "cluster/egress/a".parse().expect("an id");
    course(&place(), found, request, &id, |_| Error::transient("silent"))
}

/// What a course is called in the tables below.
fn name(course: &Course) -> String {
    match course {
        Course::Make => "make".to_owned(),
        Course::Replace(_) => "replace".to_owned(),
        Course::Adopt(adopted, ..) => format!("adopt {adopted:?}"),
    }
}

const POLICIES: [AdoptPolicy; 3] = [
    AdoptPolicy::Interrupted,
    AdoptPolicy::SameSpec,
    AdoptPolicy::Never,
];

#[test]
fn who_may_have_a_name() {
    let pending = mark();
    let handed_over = Mark {
        pending: false,
        ..mark()
    };
    let [interrupted, same_spec, never] = POLICIES;
    for (found, adopt, expected) in [
        (None, never, Ok("make")),
        (Some(pod(&pending, "Pending")), interrupted, Ok("adopt Pending")),
        (Some(pod(&pending, "Running")), same_spec, Ok("adopt Pending")),
        (Some(pod(&pending, "Running")), never, Err("adopt = \"never\"")),
        (
            Some(pod(&handed_over, "Running")),
            interrupted,
            Err("id = \"cluster/egress/a\""),
        ),
        (
            Some(pod(&handed_over, "Running")),
            same_spec,
            Ok("adopt SameSpec"),
        ),
        (Some(pod(&handed_over, "Running")), never, Err("handed over")),
    ] {
        match (decided(found, &request(&pending, adopt)), expected) {
            (Ok(course), Ok(expected)) => assert_eq!(name(&course), expected),
            (Err(error), Err(part)) => {
                assert_eq!(error.kind(), ErrorKind::Permanent);
                assert!(error.to_string().contains(part), "{error} says {part}");
            }
            (Ok(course), Err(part)) => panic!("{} instead of an error about {part}", name(&course)),
            (Err(error), Ok(expected)) => panic!("{error} instead of {expected}"),
        }
    }
}

#[test]
fn a_dead_pod_of_ours_is_replaced_under_every_policy() {
    for adopt in POLICIES {
        for phase in ["Failed", "Succeeded"] {
            for pending in [true, false] {
                let mark = Mark { pending, ..mark() };
                let course = decided(Some(pod(&mark, phase)), &request(&mark, adopt)).expect("ours");
                assert_eq!(name(&course), "replace");
            }
        }
    }
}

#[test]
fn a_leaving_pod_and_a_silent_one_are_waited_for() {
    let mark = mark();
    let mut leaving = pod(&mark, "Running");
    leaving.metadata.deletion_timestamp = Some(Time(jiff::Timestamp::UNIX_EPOCH));
    for found in [leaving, pod(&mark, "Unknown")] {
        for adopt in POLICIES {
            let Err(error) = decided(Some(found.clone()), &request(&mark, adopt)) else {
                panic!("something was decided");
            };
            assert_eq!(error.kind(), ErrorKind::Transient, "{error}");
        }
    }
}

#[test]
fn an_earlier_attempt_of_this_create_is_its_own_under_every_policy() {
    for adopt in POLICIES {
        for pending in [true, false] {
            let mark = Mark { pending, ..mark() };
            let mut request = request(&mark, adopt);
            request.incarnation = mark.incarnation;
            let course = decided(Some(pod(&mark, "Running")), &request).expect("its own");
            assert_eq!(name(&course), "adopt No");
        }
    }
}

#[test]
fn what_is_not_ours_is_refused_whatever_the_policy_and_its_phase() {
    let found = mark();
    let mut unmarked = pod(&found, "Running");
    unmarked.metadata.labels = None;
    for adopt in POLICIES {
        for phase in ["Running", "Failed", "Unknown"] {
            let mut other_spec = request(&found, adopt);
            other_spec.uid = Uid::of(&found.key, "v1:other");
            let mut other_installation = request(&found, adopt);
            other_installation.key.installation = "staging".parse().expect("valid");
            for (request, part) in [
                (other_spec, "another specification"),
                (other_installation, "\"prod\""),
            ] {
                let Err(error) = decided(Some(pod(&found, phase)), &request) else {
                    panic!("it was not refused");
                };
                assert_eq!(error.kind(), ErrorKind::Permanent);
                assert!(error.to_string().contains(part), "{error} says {part}");
            }
        }
        let Err(error) = decided(Some(unmarked.clone()), &request(&found, adopt)) else {
            panic!("it was not refused");
        };
        assert!(error.to_string().contains("adopt cluster/egress/a"), "{error}");
    }
}

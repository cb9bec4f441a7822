//! Adoption by hand: what the command `adopt` asks of a backend, and the mark that comes of it.
//!
//! It must not know how a backend stores a mark, nor what it can find out. Invariant: whichever
//! backend it is, the same findings make the same mark.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::error::Error;
use super::spec::{DEFAULT_ALLOWED_PORTS, DEFAULT_PORT};
use super::{
    Fact, Facts, Incarnation, Installation, Instance, InstanceId, InstanceKey, Mark, NativeId, Uid, refusal,
};

/// What [`Backend::adopt`](super::Backend::adopt) is asked.
#[derive(Clone, Debug)]
pub struct AdoptRequest {
    /// Which instance.
    pub id: NativeId,
    /// Who owns it afterwards.
    pub installation: Installation,
    /// Whose mark it must carry; `None`: none at all.
    pub from: Option<Installation>,
    /// What the caller says of facts that the instance itself may not show.
    pub stated: Facts,
    /// The incarnation of an instance that has none.
    pub incarnation: Incarnation,
    /// The mark to write, as an earlier call with the same request showed it; `None`: only show it.
    pub write: Option<Mark>,
}

/// What [`Backend::adopt`](super::Backend::adopt) would write, or wrote.
#[derive(Clone, Debug, PartialEq)]
pub struct Adoption {
    /// The instance under that mark.
    pub instance: Instance,
    /// The facts that a proxy of this backend has, and that neither the instance shows nor the caller
    /// stated: the mark leaves them out.
    pub unknown: BTreeSet<Fact>,
}

/// What a backend found of an instance that is to be adopted.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// The mark on it.
    pub mark: Option<Mark>,
    /// The facts that the instance itself shows, where it carries no mark.
    pub facts: Facts,
    /// When it was created, where a mark has to say so.
    pub created_at: Option<Timestamp>,
}

/// What is to be done about a mark.
#[derive(Clone, Debug, PartialEq)]
pub enum Course {
    /// Only show it.
    Show(Mark),
    /// Write it.
    Write(Mark),
    /// It was written before.
    Written(Mark),
}

impl Course {
    /// The mark.
    #[must_use]
    pub fn mark(&self) -> &Mark {
        match self {
            Self::Show(mark) | Self::Write(mark) | Self::Written(mark) => mark,
        }
    }
}

/// Decides, from what was found on the instance of that key, which mark it gets.
///
/// # Errors
/// Permanent, as the rustdoc of [`Backend::adopt`](super::Backend::adopt) lists it.
pub fn course(
    request: &AdoptRequest,
    id: &InstanceId,
    key: InstanceKey,
    found: Findings,
) -> Result<Course, Error> {
    if let (Some(there), Some(write)) = (&found.mark, &request.write)
        && there == write
    {
        return Ok(Course::Written(there.clone()));
    }
    let mark = match (found.mark, &request.from) {
        (Some(mark), _) if mark.key.installation == request.installation => {
            return Err(refusal::ours_already(id, &mark));
        }
        (Some(mark), Some(from)) if mark.key.installation == *from => remarked(mark, key),
        (Some(mark), _) => {
            return Err(refusal::other_installation(
                id,
                &mark.key.installation,
                &request.installation,
            ));
        }
        (None, Some(from)) => return Err(refusal::nobodys(id, from)),
        (None, None) => marked(request, id, key, found.facts, found.created_at)?,
    };
    match &request.write {
        None => Ok(Course::Show(mark)),
        Some(write) if *write == mark => Ok(Course::Write(mark)),
        Some(_) => Err(refusal::shown_before(id)),
    }
}

/// The same mark under another owner.
fn remarked(mark: Mark, key: InstanceKey) -> Mark {
    Mark {
        uid: Uid::of(&key, &mark.spec_sha256),
        key,
        ..mark
    }
}

/// The mark of an instance that had none.
fn marked(
    request: &AdoptRequest,
    id: &InstanceId,
    key: InstanceKey,
    found: Facts,
    created_at: Option<Timestamp>,
) -> Result<Mark, Error> {
    let (found, stated) = (found.canonical(), request.stated.clone().canonical());
    let both = found.present();
    let contradicted: Vec<_> = found
        .differences(&stated)
        .into_iter()
        .filter(|fact| both.contains(fact) && stated.present().contains(fact))
        // A version names a password or a document whose text alone the instance shows.
        .filter(|fact| !matches!(fact, Fact::Password | Fact::CloudInit))
        .collect();
    if !contradicted.is_empty() {
        return Err(refusal::contradicted(id, &contradicted));
    }
    let facts = Facts {
        port: stated.port.or(found.port),
        zone: stated.zone.or(found.zone),
        region: stated.region.or(found.region),
        machine_type: stated.machine_type.or(found.machine_type),
        image: stated.image.or(found.image),
        spot: stated.spot.or(found.spot),
        allowed_cidrs: stated.allowed_cidrs.or(found.allowed_cidrs),
        allowed_ports: stated.allowed_ports.or(found.allowed_ports),
        allowed_domains: stated.allowed_domains.or(found.allowed_domains),
        username: stated.username.or(found.username),
        password: stated.password.or(found.password),
        cloud_init: stated.cloud_init.or(found.cloud_init),
    };
    let mut given = facts.present();
    // What every proxy has that asks for nothing else need not be in a configuration.
    if facts.port == Some(DEFAULT_PORT) {
        given.remove(&Fact::Port);
    }
    if facts.allowed_ports.as_deref() == Some(&DEFAULT_ALLOWED_PORTS) {
        given.remove(&Fact::AllowedPorts);
    }
    let spec_sha256 = facts.sha256();
    Ok(Mark {
        uid: Uid::of(&key, &spec_sha256),
        key,
        incarnation: request.incarnation,
        pending: false,
        label_keys: BTreeSet::new(),
        created_at,
        spec_sha256,
        facts,
        given,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::ErrorKind;
    use crate::contract::spec::PasswordFact;

    fn request(from: Option<&str>) -> AdoptRequest {
        AdoptRequest {
            id: "default/a".parse().expect("valid"),
            installation: "prod".parse().expect("valid"),
            from: from.map(|from| from.parse().expect("valid")),
            stated: Facts::default(),
            incarnation: Incarnation::fresh(),
            write: None,
        }
    }

    fn key(installation: &str) -> InstanceKey {
        InstanceKey {
            installation: installation.parse().expect("valid"),
            namespace: crate::contract::Namespace::default(),
            name: "a".parse().expect("valid"),
        }
    }

    fn decide(request: &AdoptRequest, found: Findings) -> Result<Course, Error> {
        course(
            request,
            &"lab/default/a".parse().expect("valid"),
            key("prod"),
            found,
        )
    }

    fn mark_of(installation: &str) -> Mark {
        let facts = Facts::default().with_common_defaults();
        Mark {
            uid: Uid::of(&key(installation), &facts.sha256()),
            key: key(installation),
            incarnation: Incarnation::fresh(),
            pending: true,
            label_keys: BTreeSet::from(["team".to_owned()]),
            created_at: None,
            spec_sha256: facts.sha256(),
            facts,
            given: BTreeSet::from([Fact::Port]),
        }
    }

    #[test]
    fn what_is_found_and_what_is_stated_make_one_mark() {
        let mut request = request(None);
        request.stated.allowed_cidrs = Some(vec!["10.1.0.0/8".parse().expect("a network")]);
        request.stated.password = Some(PasswordFact::Version("1".into()));
        let facts = Facts {
            port: Some(3128),
            zone: Some("z1".into()),
            password: Some(PasswordFact::HashSha256("ab".into())),
            ..Facts::default()
        };
        let found = Findings {
            facts,
            ..Findings::default()
        };
        let Course::Show(mark) = decide(&request, found).expect("sound") else {
            panic!("it was only asked for");
        };
        assert_eq!(mark.uid, Uid::of(&key("prod"), &mark.facts.sha256()));
        assert_eq!(mark.facts.password, Some(PasswordFact::Version("1".into())));
        assert_eq!(
            mark.given,
            BTreeSet::from([Fact::Zone, Fact::AllowedCidrs, Fact::Password])
        );
        assert!(!mark.pending);
    }

    #[test]
    fn what_is_stated_against_what_is_found_is_refused() {
        let mut request = request(None);
        request.stated.port = Some(8080);
        let found = Findings {
            facts: Facts {
                port: Some(3128),
                ..Facts::default()
            },
            ..Findings::default()
        };
        let error = decide(&request, found).expect_err("a contradiction");
        assert_eq!(error.kind(), ErrorKind::Permanent);
        assert!(error.to_string().contains("port"), "{error}");
    }

    #[test]
    fn a_mark_goes_from_one_owner_to_another_and_nothing_else_of_it_changes() {
        let theirs = mark_of("old");
        let found = Findings {
            mark: Some(theirs.clone()),
            ..Findings::default()
        };
        let course = decide(&request(Some("old")), found.clone()).expect("theirs");
        let expected = Mark {
            key: key("prod"),
            uid: Uid::of(&key("prod"), &theirs.spec_sha256),
            ..theirs
        };
        assert_eq!(course, Course::Show(expected.clone()));
        let write = AdoptRequest {
            write: Some(expected.clone()),
            ..request(Some("old"))
        };
        assert_eq!(
            decide(&write, found).expect("shown"),
            Course::Write(expected.clone())
        );
        let again = Findings {
            mark: Some(expected.clone()),
            ..Findings::default()
        };
        assert_eq!(decide(&write, again).expect("done"), Course::Written(expected));
    }

    #[test]
    fn whose_it_may_be() {
        for (there, from, says) in [
            (Some("prod"), None, "import"),
            (Some("prod"), Some("prod"), "import"),
            (Some("old"), None, "--from-installation old"),
            (Some("old"), Some("older"), "--from-installation old"),
            (None, Some("old"), "no mark"),
        ] {
            let found = Findings {
                mark: there.map(mark_of),
                ..Findings::default()
            };
            let error = decide(&request(from), found).expect_err("refused");
            assert_eq!(error.kind(), ErrorKind::Permanent);
            assert!(error.to_string().contains(says), "{error} says {says}");
        }
    }

    #[test]
    fn what_changed_since_it_was_shown_is_not_written() {
        let request = AdoptRequest {
            write: Some(mark_of("prod")),
            ..request(None)
        };
        let error = decide(&request, Findings::default()).expect_err("another mark");
        assert!(error.to_string().contains("changed"), "{error}");
    }
}

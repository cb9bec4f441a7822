//! Adopt: a Pod that carries no mark, or that of another installation.
//!
//! It must not change anything but marks. Invariants: what a proxy lets through is read from the
//! configuration that its Squid was given, or is not known; the Pod's mark is written last, onto the Pod
//! that was read.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Pod, Service};
use serde_json::json;

use super::cluster::Cluster;
use super::mark::{self, Reading};
use super::objects::Changed;
use super::place::Place;
use super::pod::{CONF, CONTAINER, MACHINE_TYPE_LABEL, PASSWORDS, REGION_LABEL, ZONE_LABEL};
use super::state::{self, Life};
use crate::contract::adoption::{Course, Findings, course};
use crate::contract::spec::{PasswordFact, sha256_hex};
use crate::contract::{AdoptRequest, Adoption, Error, Fact, Facts, Mark, refusal};
use crate::squid::Loopback;
use crate::squid::evidence::evidence;

/// What a proxy here has.
const FACTS: [Fact; 4] = [Fact::Port, Fact::Image, Fact::AllowedCidrs, Fact::AllowedPorts];

impl Cluster {
    pub(super) async fn adopt_by_hand(&self, request: &AdoptRequest) -> Result<Adoption, Error> {
        let place = self.place(&request.id)?;
        let full = self.full(&request.id);
        let _held = self.hold(&place).await;
        let pod = self
            .find::<Pod>(&place)
            .await?
            .ok_or_else(|| refusal::absent(&full))?;
        match state::life(&pod) {
            (Life::Leaving, _) => return Err(refusal::leaving(&full)),
            (Life::Silent, _) => return Err(self.silent(&place, &pod)),
            (Life::Starting | Life::Runs | Life::Ended, _) => {}
        }
        let (found, carried) = match mark::read(&place, &pod.metadata) {
            Reading::Marked(mark) => {
                let found = Findings {
                    mark: Some(*mark),
                    ..Findings::default()
                };
                (found, true)
            }
            Reading::Unmarked => {
                let found = Findings {
                    facts: shown(&pod).map_err(|why| refusal::not_adoptable(&full, &why))?,
                    ..Findings::default()
                };
                (found, false)
            }
            Reading::Unreadable(why) => return Err(mark::unreadable(&full, &why)),
        };
        let course = course(request, &full, place.key(&request.installation), found)?;
        let mark = course.mark().clone();
        let service = self.service_of(&place, &pod).await?;
        let pod = match course {
            Course::Show(_) | Course::Written(_) => pod,
            Course::Write(_) => {
                if let Some(service) = &service {
                    self.take_service(&place, service, &pod, &mark).await?;
                }
                self.take_pod(&place, &pod, &mark).await?
            }
        };
        let unknown = if carried {
            BTreeSet::new()
        } else {
            let known = mark.facts.present();
            FACTS.into_iter().filter(|fact| !known.contains(fact)).collect()
        };
        let instance = self.instance(&place, &mark, &pod, service.as_ref(), self.target().await?)?;
        Ok(Adoption { instance, unknown })
    }

    /// Writes the mark onto the Pod that was read.
    async fn take_pod(&self, place: &Place, pod: &Pod, mark: &Mark) -> Result<Pod, Error> {
        match self.change(place, pod, &marked(mark)?).await? {
            Changed::Done(pod) => Ok(*pod),
            // A Pod's status changes at any time: what was shown has to be looked at again.
            Changed::Conflict => Err(Error::transient(format!(
                "\"{}\" was changed while its mark was written.",
                self.full(place.id())
            ))),
            Changed::Gone => Err(refusal::absent(&self.full(place.id()))),
        }
    }

    /// Writes the mark onto the Service of that very Pod; one that leads elsewhere is left alone.
    async fn take_service(
        &self,
        place: &Place,
        service: &Service,
        pod: &Pod,
        mark: &Mark,
    ) -> Result<(), Error> {
        let owners = service.metadata.owner_references.iter().flatten();
        let owned = owners
            .into_iter()
            .any(|owner| Some(owner.uid.as_str()) == pod.metadata.uid.as_deref());
        if !owned {
            return Ok(());
        }
        match self.change(place, service, &marked(mark)?).await? {
            Changed::Done(_) | Changed::Gone => Ok(()),
            Changed::Conflict => Err(Error::transient(format!(
                "the Service of \"{}\" was changed while its mark was written.",
                self.full(place.id())
            ))),
        }
    }
}

/// The metadata of a mark.
fn marked(mark: &Mark) -> Result<serde_json::Value, Error> {
    Ok(json!({ "labels": mark::labels(mark), "annotations": mark::annotations(mark)? }))
}

/// What a Pod without a mark shows of the proxy in it, or why that cannot be believed.
fn shown(pod: &Pod) -> Result<Facts, String> {
    let mut facts = match mark::annotation(&pod.metadata, CONF) {
        Some(conf) => configured(conf, mark::annotation(&pod.metadata, PASSWORDS))?,
        None => Facts::default(),
    };
    let Some(spec) = &pod.spec else {
        return Ok(facts);
    };
    // A Pod of other making has its Squid in its only container, whatever that is called.
    let squid = spec
        .containers
        .iter()
        .find(|container| container.name == CONTAINER);
    let squid = squid.or(match spec.containers.as_slice() {
        [only] => Some(only),
        _ => None,
    });
    if let Some(squid) = squid {
        facts.image = squid.image.clone();
        let mut ports = squid.ports.iter().flatten();
        if facts.port.is_none()
            && let (Some(only), None) = (ports.next(), ports.next())
        {
            facts.port = u16::try_from(only.container_port).ok();
        }
    }
    let selected = |label: &str| spec.node_selector.as_ref()?.get(label).cloned();
    facts.zone = selected(ZONE_LABEL);
    facts.region = selected(REGION_LABEL);
    facts.machine_type = selected(MACHINE_TYPE_LABEL);
    Ok(facts)
}

/// What the configuration of a Pod of our making says, if it is as we wrote it.
fn configured(conf: &str, passwords: Option<&str>) -> Result<Facts, String> {
    let shown = evidence(conf, Loopback::Denied).ok_or_else(|| {
        format!(
            "its annotation {CONF} is not what this provider writes, so that nobody can tell what it lets through: \
             restore it, or delete the Pod and have the proxy made anew"
        )
    })?;
    if !shown.authenticated {
        return Ok(shown.facts);
    }
    let (name, hash) = passwords
        .and_then(|text| text.trim_end().split_once(':'))
        .ok_or_else(|| {
            format!("it asks for a user and a password, and its annotation {PASSWORDS} is gone or damaged")
        })?;
    Ok(Facts {
        username: Some(name.to_owned()),
        password: Some(PasswordFact::HashSha256(sha256_hex(hash))),
        ..shown.facts
    })
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{Container, ContainerPort, PodSpec};

    use super::*;
    use crate::backend::kubernetes::pod::conf;
    use crate::squid::Policy;

    fn pod(containers: Vec<Container>) -> Pod {
        Pod {
            spec: Some(PodSpec {
                containers,
                node_selector: Some([(ZONE_LABEL.to_owned(), "z1".to_owned())].into()),
                ..PodSpec::default()
            }),
            ..Pod::default()
        }
    }

    fn container(name: &str, ports: &[i32]) -> Container {
        Container {
            name: name.to_owned(),
            image: Some(format!("registry.example/{name}:1")),
            ports: Some(
                ports
                    .iter()
                    .map(|port| ContainerPort {
                        container_port: *port,
                        ..ContainerPort::default()
                    })
                    .collect(),
            ),
            ..Container::default()
        }
    }

    #[test]
    fn a_pod_of_other_making_shows_its_port_image_and_zone() {
        let facts = shown(&pod(vec![container("proxy", &[8080])])).expect("believed");
        let expected = Facts {
            port: Some(8080),
            image: Some("registry.example/proxy:1".to_owned()),
            zone: Some("z1".to_owned()),
            ..Facts::default()
        };
        assert_eq!(facts, expected);
    }

    #[test]
    fn what_is_ambiguous_is_not_guessed() {
        let shown = |containers| shown(&pod(containers)).expect("believed");
        let two_ports = shown(vec![container("proxy", &[8080, 8443])]);
        assert_eq!(two_ports.port, None);
        let two_containers = shown(vec![container("a", &[1]), container("b", &[2])]);
        assert_eq!((two_containers.port, two_containers.image), (None, None));
        let beside_ours = shown(vec![container("sidecar", &[1]), container(CONTAINER, &[3128])]);
        assert_eq!(beside_ours.port, Some(3128));
    }

    #[test]
    fn a_configuration_that_was_changed_by_hand_is_not_believed() {
        let facts = Facts {
            allowed_cidrs: Some(vec!["10.0.0.0/8".parse().expect("a network")]),
            username: Some("team".into()),
            password: Some(PasswordFact::Version("1".into())),
            ..Facts::default()
        };
        let policy = Policy::of(&facts.with_common_defaults()).expect("sound");
        let conf = conf(&policy).expect("sound");
        let passwords = "team:$6$salt$hash\n";
        let believed = configured(&conf, Some(passwords)).expect("as it was written");
        assert_eq!(believed.username.as_deref(), Some("team"));
        assert_eq!(
            believed.password,
            Some(PasswordFact::HashSha256(sha256_hex("$6$salt$hash")))
        );
        for (conf, passwords, named) in [
            (conf.replace("allow client", "allow all"), Some(passwords), CONF),
            (String::new(), Some(passwords), CONF),
            (conf.clone(), None, PASSWORDS),
            (conf.clone(), Some("team"), PASSWORDS),
        ] {
            let why = configured(&conf, passwords).expect_err("changed");
            assert!(why.contains(named) && !why.contains("$6$"), "{why}");
        }
    }
}

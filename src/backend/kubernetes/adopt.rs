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
                    facts: shown(&pod),
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

/// What a Pod without a mark shows of the proxy in it.
fn shown(pod: &Pod) -> Facts {
    let conf = mark::annotation(&pod.metadata, CONF).and_then(|conf| evidence(conf, Loopback::Denied));
    let mut facts = match conf {
        Some(conf) => {
            let user = mark::annotation(&pod.metadata, PASSWORDS)
                .filter(|_| conf.authenticated)
                .and_then(|text| text.trim_end().split_once(':'));
            Facts {
                username: user.map(|(name, _)| name.to_owned()),
                password: user.map(|(_, hash)| PasswordFact::HashSha256(sha256_hex(hash))),
                ..conf.facts
            }
        }
        None => Facts::default(),
    };
    let Some(spec) = &pod.spec else {
        return facts;
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
    facts
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{Container, ContainerPort, PodSpec};

    use super::*;

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
        let facts = shown(&pod(vec![container("proxy", &[8080])]));
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
        let two_ports = shown(&pod(vec![container("proxy", &[8080, 8443])]));
        assert_eq!(two_ports.port, None);
        let two_containers = shown(&pod(vec![container("a", &[1]), container("b", &[2])]));
        assert_eq!((two_containers.port, two_containers.image), (None, None));
        let beside_ours = shown(&pod(vec![
            container("sidecar", &[1]),
            container(CONTAINER, &[3128]),
        ]));
        assert_eq!(beside_ours.port, Some(3128));
    }
}

//! Get and list: what is there, what is proved absent, and what could not be read.
//!
//! It must not write. Invariants: a listing says of a Pod what a read of it alone says; what a listing
//! could not read it names.

use std::collections::HashMap;

use k8s_openapi::api::core::v1::{Pod, Service};

use super::cluster::Cluster;
use super::config::{Namespaces, ServiceKind};
use super::mark::{self, Reading};
use super::place::Place;
use super::state::{self, Life};
use super::{events, service};
use crate::contract::{
    Error, Found, Freshness, GetRequest, Installation, Instance, ListFilter, Listing, Namespace, NativeId,
    Readiness, Secondary, State, Target, Unreadable, refusal,
};

impl Cluster {
    pub(super) async fn get_one(&self, request: &GetRequest) -> Result<Found, Error> {
        let place = self.place(&request.id)?;
        let full = self.full(&request.id);
        let found = self.find::<Pod>(&place).await?;
        let target = self.target().await?;
        let Some(pod) = found else {
            return match self.remains(&place, request, target).await? {
                Some(instance) => Ok(Found {
                    readiness: request
                        .probe
                        .then(|| Readiness::NotReady(State::Terminated.to_string())),
                    instance,
                    warnings: Vec::new(),
                }),
                None => request.absent(refusal::absent(&full), &full, target),
            };
        };
        let mark = match mark::read(&place, &pod.metadata) {
            Reading::Unmarked => return Err(refusal::unmarked(&full)),
            Reading::Unreadable(why) => return Err(mark::unreadable(&full, &why)),
            Reading::Marked(mark) => *mark,
        };
        request.holds(&mark, &full, target)?;
        let service = self.service_of(&place, &pod).await?;
        let mut instance = self.instance(&place, &mark, &pod, service.as_ref(), target)?;
        let mut readiness = request.probe.then(|| {
            let seen = state::Seen {
                state: instance.state,
                started: instance.started,
                ip: instance.ip,
                reason: instance.reason.clone(),
            };
            state::readiness(&pod, &seen)
        });
        let unready = matches!(readiness, Some(Readiness::NotReady(_)));
        // A wait, or an apply: whoever reads its outcome wants to know what the cluster warned of.
        if request.freshness == Freshness::Fresh && (instance.state != State::Running || unready) {
            let uid = pod.metadata.uid.as_deref().unwrap_or_default();
            if let Some(warned) = events::last_warnings(self.warnings(&place, uid).await) {
                let told = match (&mut readiness, instance.state) {
                    (Some(Readiness::NotReady(why)), State::Running) => why,
                    _ => instance.reason.get_or_insert_default(),
                };
                if !told.is_empty() {
                    told.push_str("; ");
                }
                told.push_str(&warned);
            }
        }
        Ok(Found {
            instance,
            readiness,
            warnings: Vec::new(),
        })
    }

    /// The Service that a Pod was given, where it is there.
    pub(super) async fn service_of(&self, place: &Place, pod: &Pod) -> Result<Option<Service>, Error> {
        match service::kind_of(pod) {
            ServiceKind::None => Ok(None),
            ServiceKind::ClusterIp | ServiceKind::NodePort | ServiceKind::LoadBalancer => {
                self.find(place).await
            }
        }
    }

    /// The Service of a Pod that is gone: it alone is Terminated, so that a deletion cut off halfway is
    /// finished. An import has nothing to take over in it.
    async fn remains(
        &self,
        place: &Place,
        request: &GetRequest,
        target: &Target,
    ) -> Result<Option<Instance>, Error> {
        let Some(incarnation) = request.incarnation.filter(|_| self.has_services()) else {
            return Ok(None);
        };
        let Some(service) = self.find::<Service>(place).await? else {
            return Ok(None);
        };
        let Reading::Marked(mut mark) = mark::read(place, &service.metadata) else {
            return Ok(None);
        };
        if mark.key.installation != request.installation {
            return Ok(None);
        }
        mark.incarnation = incarnation;
        mark.pending = false;
        Ok(Some(Instance {
            id: place.id().clone(),
            mark: *mark,
            target: target.clone(),
            state: State::Terminated,
            started: false,
            ip: None,
            egress_ip: None,
            created_at: service.metadata.creation_timestamp.as_ref().map(|time| time.0),
            labels: Default::default(),
            reason: Some("only its Service is left".to_owned()),
        }))
    }

    pub(super) async fn list(&self, filter: &ListFilter) -> Result<Listing, Error> {
        let target = self.target().await?;
        let mut listing = Listing::default();
        let mut failed = Vec::new();
        let parts = self.parts(filter.namespace.as_ref());
        for part in &parts {
            match self.list_part(part.as_ref(), filter, target).await {
                Ok(found) => {
                    listing.instances.extend(found.instances);
                    listing.secondary.extend(found.secondary);
                    listing.unreadable.extend(found.unreadable);
                }
                Err(error) => failed.push((part, error)),
            }
        }
        if failed.len() == parts.len()
            && let Some((_, error)) = failed.pop()
        {
            // Nothing at all could be listed: that is a failure, not a partial listing.
            return Err(error);
        }
        listing.unreadable.extend(failed.into_iter().map(|(part, error)| {
            let namespace = part.as_ref().map_or("", Namespace::as_str);
            Unreadable {
                scope: format!("namespace {namespace}"),
                prefix: format!("{namespace}/"),
                error,
            }
        }));
        Ok(listing)
    }

    /// What is listed by one call each: namespaces, or (`None`) all of them at once.
    fn parts(&self, asked: Option<&Namespace>) -> Vec<Option<Namespace>> {
        let config = self.config();
        if let Some(asked) = asked {
            let covered = super::cluster::covers(config, asked);
            return covered.then(|| Some(asked.clone())).into_iter().collect();
        }
        match &config.namespaces {
            Namespaces::All => vec![None],
            Namespaces::Own => vec![Some(config.namespace.clone())],
            Namespaces::These(names) => {
                let own = (!names.contains(&config.namespace)).then(|| config.namespace.clone());
                own.into_iter().chain(names.iter().cloned()).map(Some).collect()
            }
        }
    }

    async fn list_part(
        &self,
        namespace: Option<&Namespace>,
        filter: &ListFilter,
        target: &Target,
    ) -> Result<Listing, Error> {
        let selector = mark::selector(&filter.installation);
        // Services first: one whose Pod was made since is not taken for one without a Pod.
        let mut services = match self.has_services() {
            true => Some(self.services(namespace, &selector).await?),
            false => None,
        };
        let pods = self.select::<Pod>(namespace, &selector).await?;
        if services.is_none() && pods.iter().any(|pod| service::kind_of(pod) != ServiceKind::None) {
            // They are of an earlier configuration.
            services = Some(self.services(namespace, &selector).await?);
        }
        let mut services = services.unwrap_or_default();
        let mut listing = Listing::default();
        for pod in &pods {
            let Some(place) = place_of(&pod.metadata) else {
                continue;
            };
            let service = services.remove(place.id());
            match self.listed(&place, pod, service.as_ref(), &filter.installation, target) {
                Ok(instance) => listing.instances.extend(instance),
                Err(error) => listing.unreadable.push(Unreadable {
                    scope: format!("pod {}", place.id()),
                    prefix: place.id().to_string(),
                    error,
                }),
            }
        }
        if self.has_services() {
            listing
                .secondary
                .extend(services.into_values().filter_map(orphan));
        }
        Ok(listing)
    }

    async fn services(
        &self,
        namespace: Option<&Namespace>,
        selector: &str,
    ) -> Result<HashMap<NativeId, Service>, Error> {
        let found = self.select::<Service>(namespace, selector).await?;
        Ok(found
            .into_iter()
            .filter_map(|service| Some((place_of(&service.metadata)?.id().clone(), service)))
            .collect())
    }

    /// A listed Pod as an instance; `None` where it is none of the installation's.
    fn listed(
        &self,
        place: &Place,
        pod: &Pod,
        service: Option<&Service>,
        installation: &Installation,
        target: &Target,
    ) -> Result<Option<Instance>, Error> {
        match mark::read(place, &pod.metadata) {
            Reading::Marked(mark) if mark.key.installation == *installation => {
                if state::life(pod).0 == Life::Silent {
                    return Err(self.silent(place, pod));
                }
                self.instance(place, &mark, pod, service, target).map(Some)
            }
            Reading::Marked(_) | Reading::Unmarked => Ok(None),
            Reading::Unreadable(why) => Err(mark::unreadable(&self.full(place.id()), &why)),
        }
    }
}

fn place_of(meta: &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta) -> Option<Place> {
    let id: NativeId = format!("{}/{}", meta.namespace.as_deref()?, meta.name.as_deref()?)
        .parse()
        .ok()?;
    Place::parse(&id)
}

/// A Service whose Pod is gone.
fn orphan(service: Service) -> Option<Secondary> {
    let place = place_of(&service.metadata)?;
    let Reading::Marked(mark) = mark::read(&place, &service.metadata) else {
        return None;
    };
    Some(Secondary {
        id: place.id().clone(),
        uid: mark.uid,
        kind: "service",
        name: place.name().to_owned(),
        created_at: service.metadata.creation_timestamp.map(|time| time.0),
    })
}

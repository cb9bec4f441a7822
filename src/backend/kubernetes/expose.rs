//! The Service of a proxy that is being made: whether it can be had, and having it.
//!
//! It must not touch a Pod. Invariants: a Service that is not the installation's is neither changed nor used;
//! one of ours that leads elsewhere is made anew.

use k8s_openapi::api::core::v1::{Pod, Service};

use super::cluster::Cluster;
use super::config::ServiceKind;
use super::delete::why_service_there;
use super::mark::{self, Reading};
use super::objects::Made;
use super::place::Place;
use super::service;
use crate::contract::{Error, Mark, refusal};

pub(super) fn no_namespace(place: &Place) -> Error {
    Error::permanent(format!(
        "the namespace \"{0}\" does not exist: create it, for example with `kubectl create namespace {0}`",
        place.namespace()
    ))
}

impl Cluster {
    /// Makes sure, before anything is accepted, that the proxy can have its Service.
    pub(super) async fn can_expose(
        &self,
        place: &Place,
        mark: &Mark,
        kind: ServiceKind,
    ) -> Result<(), Error> {
        let wanted = service::build(place, mark, None, kind, self.config())?;
        match self.try_out(place, &wanted).await? {
            Made::Done(_) => Ok(()),
            Made::NoNamespace => Err(no_namespace(place)),
            Made::Exists => match self.find::<Service>(place).await? {
                Some(found) => self.own_service(place, mark, &found),
                None => Ok(()),
            },
        }
    }

    /// Refuses a Service that is not this installation's.
    fn own_service(&self, place: &Place, mark: &Mark, found: &Service) -> Result<(), Error> {
        let full = self.full(place.id());
        match mark::read(place, &found.metadata) {
            Reading::Marked(theirs) => theirs.belongs_to(&mark.key.installation, &full),
            Reading::Unmarked | Reading::Unreadable(_) => Err(Error::permanent(format!(
                "\"{full}\" cannot have its Service: there is a Service \"{}\" in the namespace \"{}\" that this provider did \
                 not make. Choose another name for the proxy, or remove that Service.",
                place.name(),
                place.namespace()
            ))),
        }
    }

    /// The Service that a Pod was given, as it must be; `None` where it was given none.
    pub(super) async fn exposed(
        &self,
        place: &Place,
        mark: &Mark,
        pod: &Pod,
    ) -> Result<Option<Service>, Error> {
        match service::kind_of(pod) {
            ServiceKind::None => Ok(None),
            kind @ (ServiceKind::ClusterIp | ServiceKind::NodePort | ServiceKind::LoadBalancer) => {
                self.expose(place, mark, pod, kind).await.map(Some)
            }
        }
    }

    /// The proxy's Service, leading to that very Pod: found, made, or made anew.
    async fn expose(
        &self,
        place: &Place,
        mark: &Mark,
        pod: &Pod,
        kind: ServiceKind,
    ) -> Result<Service, Error> {
        let wanted = service::build(place, mark, pod.metadata.uid.as_deref(), kind, self.config())?;
        if let Some(found) = self.find::<Service>(place).await? {
            self.own_service(place, mark, &found)?;
            if found.metadata.deletion_timestamp.is_none() && service::leads_to(&found, &wanted) {
                return Ok(found);
            }
            self.remove(place, &found, why_service_there).await?;
        }
        match self.make(place, &wanted).await? {
            Made::Done(service) => Ok(*service),
            Made::Exists | Made::NoNamespace => {
                Err(refusal::vanished(&self.full(place.id()), mark.incarnation))
            }
        }
    }
}

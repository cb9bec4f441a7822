//! Delete: the Service first, then the Pod that carries the mark, and nothing of anybody else.
//!
//! It must not make or change anything. Invariants: what is removed is exactly what was read; it is gone
//! when delete says so.

use k8s_openapi::api::core::v1::{Pod, Service};

use super::cluster::Cluster;
use super::config::ServiceKind;
use super::mark::{self, Reading};
use super::objects::Removed;
use super::place::Place;
use super::{service, state};
use crate::contract::{DeleteRequest, Deleted, Error, Installation, Mark, refusal};

impl Cluster {
    pub(super) async fn remove_proxy(&self, request: &DeleteRequest) -> Result<Deleted, Error> {
        let place = self.place(&request.id)?;
        let full = self.full(&request.id);
        let _held = self.hold(&place).await;
        let Some(pod) = self.find::<Pod>(&place).await? else {
            if self.has_services() {
                self.remove_service(&place, &request.installation).await?;
            }
            refusal::same_target(&full, request.recorded_target.as_ref(), self.target().await?)?;
            return Ok(Deleted::Gone);
        };
        let mark = match mark::read(&place, &pod.metadata) {
            Reading::Unmarked => return Err(refusal::unmarked(&full)),
            Reading::Unreadable(why) => return Err(mark::unreadable(&full, &why)),
            Reading::Marked(mark) => *mark,
        };
        if request.incarnation != Some(mark.incarnation) {
            refusal::same_target(&full, request.recorded_target.as_ref(), self.target().await?)?;
            return Ok(Deleted::LeftAlone(refusal::whose(&full, &mark)));
        }
        mark.belongs_to(&request.installation, &full)?;
        if service::kind_of(&pod) != ServiceKind::None {
            self.remove_service(&place, &request.installation).await?;
        }
        self.remove_pod(&place, &pod, &mark).await?;
        Ok(Deleted::Gone)
    }

    /// Whether proxies of this configuration have Services. Without one the owner reference alone
    /// clears up after a Pod that somebody removed, and no permission on Services is needed.
    pub(super) fn has_services(&self) -> bool {
        self.config().service != ServiceKind::None
    }

    async fn remove_pod(&self, place: &Place, pod: &Pod, mark: &Mark) -> Result<(), Error> {
        // Asked again of a Pod that is leaving: it costs one call and shortens nothing.
        match self.remove(place, pod, why_there).await? {
            Removed::Gone => Ok(()),
            Removed::Other => Err(refusal::vanished(&self.full(place.id()), mark.incarnation)),
        }
    }

    /// Removes the Service of that name where it is the installation's.
    async fn remove_service(&self, place: &Place, installation: &Installation) -> Result<(), Error> {
        let Some(found) = self.find::<Service>(place).await? else {
            return Ok(());
        };
        let ours = match mark::read(place, &found.metadata) {
            Reading::Marked(mark) => mark.key.installation == *installation,
            Reading::Unmarked | Reading::Unreadable(_) => false,
        };
        if !ours {
            return Ok(());
        }
        match self.remove(place, &found, why_service_there).await? {
            // Another one of that name means that this one is gone.
            Removed::Gone | Removed::Other => Ok(()),
        }
    }
}

/// Why a Pod that was told to go is still there.
pub(super) fn why_there(pod: &Pod) -> String {
    let (_, reason) = state::life(pod);
    reason.unwrap_or_default()
}

/// Why a Service that was told to go is still there.
pub(super) fn why_service_there(service: &Service) -> String {
    format!(
        "its Service is not gone yet{}",
        state::held_by(service.metadata.finalizers.as_deref())
    )
}

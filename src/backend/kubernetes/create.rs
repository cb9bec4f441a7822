//! Create and resume: who may have the name, then the Pod, its Service, and the handover.
//!
//! It must not decide what a mark means to others: the refusals are the contract's. Invariants: the Pod is
//! made pending and handed over last; every change is made on the object that was read, or not at all.

use k8s_openapi::api::core::v1::{Pod, Service};
use serde_json::{Value, json};

use super::cluster::Cluster;
use super::config::ServiceKind;
use super::mark::{self, Reading};
use super::objects::{Changed, Made};
use super::place::Place;
use super::state::{self, Life};
use super::{expose, pod};
use crate::contract::model::label_keys;
use crate::contract::{
    Accepted, Adopted, Created, Error, InstanceId, Mark, NewInstance, Resume, Secret, Target, refusal,
};
use crate::squid::Policy;

/// How often an operation looks again after somebody changed what it had read. A Pod that is new changes
/// several times within its first second.
pub(super) const LOOKS: u32 = 20;

/// What a create does with what it found.
enum Course {
    /// There is nothing: make it.
    Make,
    /// There is a Pod of this very proxy that ended: remove it, then make it.
    Replace(Box<Pod>),
    /// Take over what is there, or go on with what an earlier attempt of this create made.
    Adopt(Adopted, Box<Mark>, Box<Pod>),
}

fn course(
    place: &Place,
    found: Option<Pod>,
    request: &NewInstance,
    id: &InstanceId,
    silent: impl Fn(&Pod) -> Error,
) -> Result<Course, Error> {
    let Some(pod) = found else {
        return Ok(Course::Make);
    };
    let (life, _) = state::life(&pod);
    if life == Life::Leaving {
        return Err(refusal::leaving(id));
    }
    let mark = match mark::read(place, &pod.metadata) {
        Reading::Unmarked => return Err(refusal::unmarked(id)),
        Reading::Unreadable(why) => return Err(mark::unreadable(id, &why)),
        Reading::Marked(mark) => mark,
    };
    request.claims(&mark, id)?;
    match life {
        // Nothing runs in it any more, whoever held it; taking it over would be success for ever.
        Life::Ended => return Ok(Course::Replace(Box::new(pod))),
        Life::Silent => return Err(silent(&pod)),
        Life::Starting | Life::Runs | Life::Leaving => {}
    }
    let adopted = request.adopts(&mark, id)?;
    Ok(Course::Adopt(adopted, mark, Box::new(pod)))
}

/// What is made of a proxy, all of it known before the first write.
struct Plan<'a> {
    place: Place,
    id: InstanceId,
    request: &'a NewInstance,
    policy: Policy,
    passwords: Option<Secret>,
    target: &'a Target,
}

impl Cluster {
    pub(super) async fn create_new(
        &self,
        request: &NewInstance,
        accepted: &Accepted,
    ) -> Result<Created, Error> {
        let place =
            Place::of(&request.key).ok_or_else(|| Error::permanent(format!("{} has no id", request.key)))?;
        // It is one that listings look at, or the plan would have said so.
        let place = self.place(place.id())?;
        let policy = Policy::resolved(&request.facts)?;
        let passwords = policy.password_file(&request.secrets)?;
        let _held = self.hold(&place).await;
        let plan = Plan {
            id: self.full(place.id()),
            place,
            request,
            policy,
            passwords,
            target: self.target().await?,
        };
        let place = &plan.place;
        // Most names are free, so that the first thing to ask for is the Pod. A Service has to be tried out
        // before that, and what that says of a name is worth less than what its Pod says.
        let mut refused = None;
        if self.config().service == ServiceKind::None {
            let mark = request.pending_mark(None);
            match self.make_pod(&plan, &mark).await {
                Ok(Some(pod)) => return self.complete(&plan, &mark, pod, accepted).await,
                Ok(None) => {}
                // Quota and admission come before the name: what is there already decides.
                Err(error) => refused = Some(error),
            }
        }
        for _ in 0..LOOKS {
            let found = match self.find::<Pod>(place).await {
                Ok(found) => found,
                Err(error) => return Err(refused.unwrap_or(error)),
            };
            let silent = |pod: &Pod| self.silent(place, pod);
            match course(place, found, request, &plan.id, silent)? {
                Course::Make => {
                    if let Some(error) = refused {
                        return Err(error);
                    }
                    let mark = request.pending_mark(None);
                    if self.config().service != ServiceKind::None {
                        self.can_expose(place, &mark, self.config().service).await?;
                    }
                    if let Some(pod) = self.make_pod(&plan, &mark).await? {
                        return self.complete(&plan, &mark, pod, accepted).await;
                    }
                }
                Course::Replace(ended) => {
                    refused = None;
                    self.remove(place, &*ended, super::delete::why_there).await?;
                }
                Course::Adopt(adopted, mark, pod) => {
                    if let Some(created) = self.adopt_pod(&plan, adopted, &mark, *pod, accepted).await? {
                        return Ok(created);
                    }
                    refused = None;
                }
            }
        }
        Err(refusal::vanished(&plan.id, request.incarnation))
    }

    /// Makes the Pod; `None` where there is one of that name.
    async fn make_pod(&self, plan: &Plan<'_>, mark: &Mark) -> Result<Option<Pod>, Error> {
        let Plan { place, request, .. } = plan;
        let pod = pod::build(
            place,
            mark,
            &request.labels,
            &plan.policy,
            plan.passwords.as_ref(),
            self.config(),
        )?;
        match self.make(place, &pod).await? {
            Made::Done(pod) => Ok(Some(*pod)),
            Made::Exists => Ok(None),
            Made::NoNamespace => Err(expose::no_namespace(place)),
        }
    }

    /// From the Pod that was made to the proxy.
    async fn complete(
        &self,
        plan: &Plan<'_>,
        mark: &Mark,
        pod: Pod,
        accepted: &Accepted,
    ) -> Result<Created, Error> {
        let Plan { place, .. } = plan;
        if !mark::is_findable(place, mark, &pod.metadata) {
            // Nobody could find it again. The first failure is the one to tell.
            let _ = self.dismiss(place, &pod).await;
            return Err(mark::altered(&plan.id));
        }
        accepted.report(self.instance(place, mark, &pod, None, plan.target)?);
        let service = match self.exposed(place, mark, &pod).await {
            Ok(service) => service,
            Err(error) => {
                if !error.kind().retryable() {
                    // The first failure is the one to tell; a Pod that is left says `pending`.
                    let _ = self.dismiss(place, &pod).await;
                }
                return Err(error);
            }
        };
        self.finish(
            place,
            plan.target,
            mark,
            pod,
            service,
            None,
            Adopted::No,
            accepted,
        )
        .await
    }

    /// Takes over a Pod; `None` where somebody changed its mark meanwhile.
    async fn adopt_pod(
        &self,
        plan: &Plan<'_>,
        adopted: Adopted,
        found: &Mark,
        pod: Pod,
        accepted: &Accepted,
    ) -> Result<Option<Created>, Error> {
        let Plan { place, request, .. } = plan;
        let mark = Mark {
            incarnation: request.incarnation,
            pending: true,
            given: request.given.clone(),
            ..found.clone()
        };
        let pod = if adopted == Adopted::No {
            pod
        } else {
            let mut annotations = json!(mark::annotations(&mark)?);
            if let Some(passwords) = &plan.passwords {
                // The version is the same, but the text may have been hashed anew.
                annotations[pod::PASSWORDS] = passwords.expose().into();
            }
            let metadata = json!({ "annotations": annotations });
            match self.write(place, pod, found, &mark, &metadata).await? {
                Some(pod) => pod,
                None => return Ok(None),
            }
        };
        let mark = if adopted == Adopted::No { found } else { &mark };
        let service = self.service_of(place, &pod).await?;
        accepted.report(self.instance(place, mark, &pod, service.as_ref(), plan.target)?);
        let labels = Relabel {
            wanted: &request.labels,
            prior: mark.label_keys.clone().into_iter().collect(),
        };
        let service = self.exposed(place, mark, &pod).await?;
        self.finish(
            place,
            plan.target,
            mark,
            pod,
            service,
            Some(labels),
            adopted,
            accepted,
        )
        .await
        .map(Some)
    }

    pub(super) async fn resume(&self, request: &Resume, accepted: &Accepted) -> Result<Created, Error> {
        let place = self.place(&request.id)?;
        let full = self.full(&request.id);
        let _held = self.hold(&place).await;
        let Some(pod) = self.find::<Pod>(&place).await? else {
            return Err(refusal::plan_again(&full, "it does not exist any more"));
        };
        let mark = match mark::read(&place, &pod.metadata) {
            Reading::Unmarked => return Err(refusal::unmarked(&full)),
            Reading::Unreadable(why) => return Err(mark::unreadable(&full, &why)),
            Reading::Marked(mark) => *mark,
        };
        request.holds(&mark, &full)?;
        match state::life(&pod) {
            (Life::Leaving, _) => return Err(refusal::plan_again(&full, "its deletion was begun")),
            (Life::Ended, reason) => {
                let found = format!("it ended ({})", reason.unwrap_or_default());
                return Err(refusal::plan_again(&full, &found));
            }
            (Life::Silent, _) => return Err(self.silent(&place, &pod)),
            (Life::Starting | Life::Runs, _) => {}
        }
        let target = self.target().await?;
        let service = self.service_of(&place, &pod).await?;
        accepted.report(self.instance(&place, &mark, &pod, service.as_ref(), target)?);
        let labels = Relabel {
            wanted: &request.labels,
            prior: mark::prior_keys(&mark, &request.prior_label_keys)
                .into_iter()
                .collect(),
        };
        let service = self.exposed(&place, &mark, &pod).await?;
        self.finish(
            &place,
            target,
            &mark,
            pod,
            service,
            Some(labels),
            Adopted::No,
            accepted,
        )
        .await
    }

    /// The last write: from here on it belongs to a state.
    #[expect(clippy::too_many_arguments, reason = "each was resolved by the caller")]
    async fn finish(
        &self,
        place: &Place,
        target: &Target,
        mark: &Mark,
        pod: Pod,
        service: Option<Service>,
        labels: Option<Relabel<'_>>,
        adopted: Adopted,
        accepted: &Accepted,
    ) -> Result<Created, Error> {
        let mut handed_over = Mark {
            pending: false,
            ..mark.clone()
        };
        let mut metadata = json!({});
        if let Some(labels) = labels {
            handed_over.label_keys = label_keys(labels.wanted);
            let changes = mark::relabelled(labels.wanted, labels.prior);
            if !changes.is_empty() {
                metadata["labels"] = json!(changes);
            }
        }
        metadata["annotations"] = json!(mark::annotations(&handed_over)?);
        let full = self.full(place.id());
        let pod = self
            .write(place, pod, mark, &handed_over, &metadata)
            .await?
            .ok_or_else(|| refusal::vanished(&full, mark.incarnation))?;
        let instance = self.instance(place, &handed_over, &pod, service.as_ref(), target)?;
        accepted.report(instance.clone());
        Ok(Created::of(instance, adopted, &full))
    }

    /// Writes a mark, and what else is in `metadata`, onto a Pod for as long as it carries the mark before,
    /// whatever else of it changes; `None` where it does not any more.
    async fn write(
        &self,
        place: &Place,
        mut pod: Pod,
        before: &Mark,
        mark: &Mark,
        metadata: &Value,
    ) -> Result<Option<Pod>, Error> {
        let uid = pod.metadata.uid.clone();
        for _ in 0..LOOKS {
            match self.change(place, &pod, metadata).await? {
                Changed::Done(pod) if mark::carries(place, mark, &pod.metadata) => return Ok(Some(*pod)),
                Changed::Done(_) => return Err(mark::altered(&self.full(place.id()))),
                Changed::Gone => return Ok(None),
                Changed::Conflict => {}
            }
            let found = self.find::<Pod>(place).await?;
            let is_still_that =
                |found: &Pod| found.metadata.uid == uid && mark::carries(place, before, &found.metadata);
            match found.filter(is_still_that) {
                Some(found) => pod = found,
                None => return Ok(None),
            }
        }
        Err(Error::transient(format!(
            "\"{}\" is changed faster than its mark can be written.",
            self.full(place.id())
        )))
    }
}

/// The user's labels as they shall be, and the keys that were the user's before.
struct Relabel<'a> {
    wanted: &'a std::collections::BTreeMap<String, String>,
    prior: Vec<String>,
}

#[cfg(test)]
mod tests;

//! One run of one case: names nobody else uses, requests, and the waits that a case may do.
//!
//! It must not know a backend. Invariant: whatever a case waits for is bounded by the harness's
//! patience and reports the last status.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use uuid::Uuid;

use super::{Ability, Broken, Control, Harness, Sighting, Stage};
use crate::contract::spec::{Secret, Secrets};
use crate::contract::{
    Accepted, Backend, CreateRequest, Created, DeleteRequest, Deleted, Error, ErrorKind, Facts, Found,
    Freshness, GetRequest, Incarnation, Installation, Instance, InstanceKey, ListFilter, Listing, Mark,
    NativeId, NewInstance, Profile, Resolved, Resume, Specification, State,
};
use crate::transport::call::{Interval, Limits, Look, Unfinished, poll};

/// The secret that no trial may ever see again; of the form that a backend takes for a hash.
pub(super) const SENTINEL: &str = "$6$sentinel$neverseenagain.neverseenagain";

/// One run of one case.
pub(super) struct Trial<'a> {
    harness: &'a dyn Harness,
    backend: Mutex<Arc<dyn Backend>>,
    tag: String,
}

/// What a trial asks a backend to make.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    /// The id it has or will have.
    pub(super) id: NativeId,
    /// The request.
    pub(super) request: NewInstance,
}

impl Wanted {
    /// The same once more, as the next run would ask for it: another incarnation.
    pub(super) fn again(&self) -> Self {
        let mut again = self.clone();
        again.request.incarnation = Incarnation::fresh();
        again
    }
}

impl<'a> Trial<'a> {
    pub(super) fn new(harness: &'a dyn Harness) -> Self {
        let unique = Uuid::new_v4().simple().to_string();
        Self {
            harness,
            backend: Mutex::new(harness.backend()),
            tag: unique.chars().take(8).collect(),
        }
    }

    /// The harness.
    pub(super) fn harness(&self) -> &'a dyn Harness {
        self.harness
    }

    /// The backend under test.
    pub(super) fn backend(&self) -> Arc<dyn Backend> {
        let backend = self.backend.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&backend)
    }

    /// Its profile.
    pub(super) fn profile(&self) -> Profile {
        *self.backend().profile()
    }

    /// Whether the harness can stage that.
    pub(super) fn can(&self, ability: Ability) -> bool {
        !self
            .harness
            .cannot()
            .iter()
            .any(|(lacking, _)| *lacking == ability)
    }

    /// Does something to the world; a new run of the provider begins after it.
    pub(super) async fn stage(&self, control: Control<'_>) -> Result<(), Broken> {
        self.harness.stage(control).await?;
        *self.backend.lock().unwrap_or_else(PoisonError::into_inner) = self.harness.backend();
        Ok(())
    }

    /// What is there of that id, seen without the backend.
    pub(super) async fn sight(&self, id: &NativeId) -> Result<Sighting, Broken> {
        self.harness.sight(id).await
    }

    /// The installation of this trial.
    pub(super) fn installation(&self) -> Installation {
        self.named_installation("ours")
    }

    /// Another one.
    pub(super) fn other_installation(&self) -> Installation {
        self.named_installation("theirs")
    }

    fn named_installation(&self, suffix: &str) -> Installation {
        format!("c{}-{suffix}", self.tag)
            .parse()
            .unwrap_or_else(|invalid| unreachable!("letters, digits, a dash: {invalid}"))
    }

    /// The key of a proxy of this trial.
    pub(super) fn key(&self, name: &str) -> InstanceKey {
        InstanceKey {
            installation: self.installation(),
            namespace: self.harness.namespace(),
            name: format!("t{}-{name}", self.tag)
                .parse()
                .unwrap_or_else(|invalid| unreachable!("letters, digits, a dash: {invalid}")),
        }
    }

    /// A specification of that name that the backend honours.
    pub(super) fn specification(&self, name: &str) -> Specification {
        Specification {
            key: self.key(name),
            given: self.harness.facts(),
            labels: BTreeMap::new(),
        }
    }

    /// Resolves a specification that the backend must be able to honour.
    pub(super) fn resolve(&self, specification: &Specification) -> Result<Resolved, Broken> {
        self.backend()
            .resolve(specification)
            .map_err(|problems| Broken(format!("{specification:?} is refused: {problems:?}")))
    }

    /// A request for a proxy of that name.
    pub(super) fn wanted(&self, name: &str) -> Result<Wanted, Broken> {
        self.wanted_as(self.key(name), self.harness.facts())
    }

    /// A request for that key and those facts.
    pub(super) fn wanted_as(&self, key: InstanceKey, given: Facts) -> Result<Wanted, Broken> {
        let specification = Specification {
            key: key.clone(),
            given: given.clone(),
            labels: BTreeMap::new(),
        };
        let resolved = self.resolve(&specification)?;
        let mut request = NewInstance::new(key, resolved.facts, given.present());
        request.secrets = Secrets {
            password_hash: request.facts.password.is_some().then(|| Secret::new(SENTINEL)),
            cloud_init: None,
        };
        Ok(Wanted {
            id: resolved.id,
            request,
        })
    }

    /// Creates, however it ends. From then on the case goes by the id that was resolved: whether
    /// create gives the same one is a case of its own.
    pub(super) async fn try_create(&self, wanted: &Wanted) -> Result<Created, Error> {
        let mut created = self.try_create_raw(wanted).await?;
        created.instance.id = wanted.id.clone();
        Ok(created)
    }

    /// Creates and returns exactly what the backend returned.
    pub(super) async fn try_create_raw(&self, wanted: &Wanted) -> Result<Created, Error> {
        let request = CreateRequest::New(Box::new(wanted.request.clone()));
        self.backend().create(&request, &Accepted::new()).await
    }

    /// Creates, which must succeed, and waits until it runs.
    pub(super) async fn created(&self, wanted: &Wanted) -> Result<Instance, Broken> {
        let created = self.try_create(wanted).await?;
        self.until_running(&created.instance).await
    }

    /// A create that is cut off at that stage; it must fail, and is reported as far as it got.
    pub(super) async fn cut_off(
        &self,
        wanted: &Wanted,
        stage: Stage,
    ) -> Result<(Error, Option<Instance>), Broken> {
        let text = "the connection was reset";
        self.stage(Control::FailCreate(&wanted.id, stage, ErrorKind::Transient, text))
            .await?;
        let accepted = Accepted::new();
        let request = CreateRequest::New(Box::new(wanted.request.clone()));
        match self.backend().create(&request, &accepted).await {
            Ok(_) => Err(Broken(format!("a create cut off at {stage:?} reported success"))),
            Err(error) => Ok((error, accepted.last())),
        }
    }

    /// A resume of that incarnation with these labels.
    pub(super) async fn try_resume(
        &self,
        instance: &Instance,
        labels: &[(&str, &str)],
    ) -> Result<Created, Error> {
        self.try_resume_as(instance, labels, self.installation()).await
    }

    /// The same for another installation.
    pub(super) async fn try_resume_as(
        &self,
        instance: &Instance,
        labels: &[(&str, &str)],
        installation: Installation,
    ) -> Result<Created, Error> {
        let request = CreateRequest::Resume(Box::new(Resume {
            id: instance.id.clone(),
            incarnation: instance.mark.incarnation,
            installation,
            labels: labelled(labels),
            prior_label_keys: instance.mark.label_keys.clone(),
        }));
        self.backend().create(&request, &Accepted::new()).await
    }

    /// A read of that incarnation, as a plan does it.
    pub(super) fn read(&self, id: &NativeId, incarnation: Option<Incarnation>) -> GetRequest {
        GetRequest {
            id: id.clone(),
            incarnation,
            installation: self.installation(),
            recorded_target: None,
            probe: false,
            freshness: Freshness::Shared,
        }
    }

    /// Reads what the state would hold of that instance.
    pub(super) async fn try_get(&self, instance: &Instance) -> Result<Found, Error> {
        let request = self.read(&instance.id, Some(instance.mark.incarnation));
        self.backend().get(&request).await
    }

    /// Reads what must be there.
    pub(super) async fn got(&self, instance: &Instance) -> Result<Instance, Broken> {
        Ok(self.try_get(instance).await?.instance)
    }

    /// The mark that is there now, whoever's incarnation it is.
    pub(super) async fn mark(&self, id: &NativeId) -> Result<Mark, Broken> {
        Ok(self.backend().get(&self.read(id, None)).await?.instance.mark)
    }

    /// A delete of that incarnation.
    pub(super) fn removal(&self, id: &NativeId, incarnation: Option<Incarnation>) -> DeleteRequest {
        DeleteRequest {
            id: id.clone(),
            incarnation,
            installation: self.installation(),
            recorded_target: None,
        }
    }

    /// Deletes that incarnation.
    pub(super) async fn try_delete(&self, instance: &Instance) -> Result<Deleted, Error> {
        let request = self.removal(&instance.id, Some(instance.mark.incarnation));
        self.backend().delete(&request).await
    }

    /// Everything of this trial's installation.
    pub(super) async fn listed(&self) -> Result<Listing, Broken> {
        Ok(self.try_list().await?)
    }

    /// The same, however it ends.
    pub(super) async fn try_list(&self) -> Result<Listing, Error> {
        let filter = ListFilter {
            installation: self.installation(),
            namespace: None,
        };
        self.backend().list_by_tag(&filter).await
    }

    /// Waits until the instance runs and has its address.
    pub(super) async fn until_running(&self, instance: &Instance) -> Result<Instance, Broken> {
        self.until("it runs", || async {
            let mut request = self.read(&instance.id, Some(instance.mark.incarnation));
            request.freshness = Freshness::Fresh;
            let found = self.backend().get(&request).await?.instance;
            Ok(if found.state == State::Running {
                Look::Done(found)
            } else {
                Look::Pending(format!(
                    "{} ({})",
                    found.state,
                    found.reason.as_deref().unwrap_or("")
                ))
            })
        })
        .await
    }

    /// Waits until nothing of the id is left, by the sight of it. Time passes for what is leaving
    /// only when somebody asks, as it does in a caller's wait for a delete.
    pub(super) async fn until_nothing(&self, instance: &Instance) -> Result<(), Broken> {
        self.until("nothing is left", || async {
            let sighting = self.sight(&instance.id).await?;
            if sighting.is_nothing() {
                return Ok(Look::Done(()));
            }
            let mut request = self.read(&instance.id, Some(instance.mark.incarnation));
            request.freshness = Freshness::Fresh;
            // Only so that it is asked for: what it answers is another case's business.
            let _ = self.backend().get(&request).await;
            let left: Vec<_> = sighting.objects.into_keys().collect();
            Ok(Look::Pending(format!("left: {}", left.join(", "))))
        })
        .await
    }

    /// Waits until create reported that the backend accepted its request.
    pub(super) async fn until_accepted(&self, accepted: &Accepted) -> Result<(), Broken> {
        self.until("the backend accepted it", || async {
            Ok(match accepted.last() {
                Some(_) => Look::Done(()),
                None => Look::Pending("nothing was reported".to_owned()),
            })
        })
        .await
    }

    async fn until<T, F, Fut>(&self, what: &str, look: F) -> Result<T, Broken>
    where
        T: Send,
        F: FnMut() -> Fut + Send,
        Fut: Future<Output = Result<Look<T>, Broken>> + Send,
    {
        let limits = Limits::after(self.harness.patience());
        let interval = Interval {
            first: Duration::from_millis(20),
            longest: Duration::from_secs(1),
        };
        poll(&limits, interval, look).await.map_err(|ended| match ended {
            Unfinished::Failed { error, .. } => error,
            Unfinished::Interrupted { last, .. } => Broken(format!(
                "waited in vain until {what}; last seen: {}",
                last.as_deref().unwrap_or("nothing")
            )),
        })
    }
}

/// Labels from pairs.
pub(super) fn labelled(labels: &[(&str, &str)]) -> BTreeMap<String, String> {
    labels
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

/// Makes sure that it failed, and as that kind.
pub(super) fn failed<T: std::fmt::Debug>(result: Result<T, Error>, kind: ErrorKind) -> Result<Error, Broken> {
    match result {
        Ok(output) => Err(Broken(format!(
            "expected a {} error, got success: {output:?}",
            kind.as_str()
        ))),
        Err(error) if error.kind() == kind => Ok(error),
        Err(error) => {
            let Broken(text) = error.into();
            Err(Broken(format!("expected a {} error: {text}", kind.as_str())))
        }
    }
}

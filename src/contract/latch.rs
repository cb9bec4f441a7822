//! The decorator that finds a shared, permanent cause once: a missing key file, a refused host key.
//!
//! It must not know what the causes are: a backend says with [`Error::affecting`] that one is not an
//! instance's own. Invariant: the first error comes in full, whoever it strikes; what it affects
//! fails from then on with one line and without a call, for as long as the latch lives: a new run
//! configures new backends.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;

use super::error::{Error, ErrorKind};
use super::model::{ListFilter, Listing, NativeId, TargetHealth};
use super::profile::Profile;
use super::{
    Accepted, AdoptRequest, Adoption, Backend, CreateRequest, Created, DeleteRequest, Deleted, Found,
    GetRequest, Problem, Resolved, Specification,
};

/// A cause that was reported in full.
#[derive(Clone, Debug)]
struct Cause {
    /// The ids that it affects start so.
    prefix: String,
    /// The first line of what was reported.
    line: String,
}

impl Cause {
    fn again(&self) -> Error {
        Error::permanent(format!(
            "not tried, for the reason reported before: {}",
            self.line
        ))
        .affecting(self.prefix.clone())
    }
}

/// A backend whose shared failures are found once.
#[derive(Debug)]
pub struct Latch {
    inner: Arc<dyn Backend>,
    causes: Mutex<Vec<Cause>>,
}

impl Latch {
    /// Wraps `inner`; nothing has failed yet.
    #[must_use]
    pub fn new(inner: Arc<dyn Backend>) -> Self {
        Self {
            inner,
            causes: Mutex::default(),
        }
    }

    fn causes(&self) -> MutexGuard<'_, Vec<Cause>> {
        self.causes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fails where the cause for this id is known. The empty id stands for the whole backend.
    fn ask(&self, id: &str) -> Result<(), Error> {
        match self.causes().iter().find(|cause| id.starts_with(&cause.prefix)) {
            Some(cause) => Err(cause.again()),
            None => Ok(()),
        }
    }

    /// Remembers a shared cause; one that was known already is cut down to its line.
    fn remember(&self, error: Error) -> Error {
        let (ErrorKind::Permanent, Some(prefix)) = (error.kind(), error.affected()) else {
            return error;
        };
        let mut causes = self.causes();
        if let Some(known) = causes.iter().find(|cause| prefix.starts_with(&cause.prefix)) {
            return known.again();
        }
        causes.push(Cause {
            prefix: prefix.to_owned(),
            line: error.message().lines().next().unwrap_or_default().to_owned(),
        });
        error
    }

    /// The id a new instance gets; `None` where the specification cannot be resolved.
    fn id_of(&self, request: &CreateRequest) -> Option<NativeId> {
        match request {
            CreateRequest::New(new) => {
                let specification = Specification {
                    key: new.key.clone(),
                    given: new.facts.clone(),
                    labels: new.labels.clone(),
                };
                self.inner
                    .resolve(&specification)
                    .ok()
                    .map(|resolved| resolved.id)
            }
            CreateRequest::Resume(resume) => Some(resume.id.clone()),
        }
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Backend for Latch {
    fn profile(&self) -> &Profile {
        self.inner.profile()
    }

    fn resolve(&self, specification: &Specification) -> Result<Resolved, Vec<Problem>> {
        self.inner.resolve(specification)
    }

    async fn create(&self, request: &CreateRequest, accepted: &Accepted) -> Result<Created, Error> {
        let id = self.id_of(request);
        self.ask(id.as_ref().map_or("", NativeId::as_str))?;
        self.inner
            .create(request, accepted)
            .await
            .map_err(|error| self.remember(error))
    }

    async fn get(&self, request: &GetRequest) -> Result<Found, Error> {
        self.ask(request.id.as_str())?;
        self.inner
            .get(request)
            .await
            .map_err(|error| self.remember(error))
    }

    async fn delete(&self, request: &DeleteRequest) -> Result<Deleted, Error> {
        self.ask(request.id.as_str())?;
        self.inner
            .delete(request)
            .await
            .map_err(|error| self.remember(error))
    }

    async fn adopt(&self, request: &AdoptRequest) -> Result<Adoption, Error> {
        self.ask(request.id.as_str())?;
        self.inner
            .adopt(request)
            .await
            .map_err(|error| self.remember(error))
    }

    async fn list_by_tag(&self, filter: &ListFilter) -> Result<Listing, Error> {
        self.ask("")?;
        match self.inner.list_by_tag(filter).await {
            Ok(mut listing) => {
                for part in &mut listing.unreadable {
                    let error = std::mem::replace(&mut part.error, Error::transient(""));
                    part.error = self.remember(error);
                }
                Ok(listing)
            }
            Err(error) => Err(self.remember(error)),
        }
    }

    async fn check(&self) -> Vec<TargetHealth> {
        // Health is asked for to see whether the cause is gone.
        self.inner.check().await
    }
}

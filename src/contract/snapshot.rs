//! The decorator through which all reads of one plan share one listing.
//!
//! It must not know a backend. Invariants: a listing answers a read only where no create, resume,
//! adoption or delete through this decorator was under way at any moment between the listing's begin and the
//! answer; it answers only with an instance whose incarnation and installation are those asked for;
//! everything else, absence above all, is asked for with a `get` of its own.

#[cfg(test)]
mod interleavings;
#[cfg(all(test, feature = "testing"))]
mod tests;

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Shared};
use tokio::time::Instant;
use tracing::Instrument as _;

use super::error::{Error, ErrorKind};
use super::model::{Installation, Instance, ListFilter, Listing, NativeId, TargetHealth};
use super::profile::Profile;
use super::{
    Accepted, AdoptRequest, Adoption, Backend, CreateRequest, Created, DeleteRequest, Deleted, Found,
    Freshness, GetRequest, Problem, Resolved, Specification,
};

/// How long a listing answers reads once it is complete.
pub const LIFE: Duration = Duration::from_secs(30);

/// A backend whose reads share listings.
#[derive(Debug)]
pub struct Snapshot {
    inner: Arc<dyn Backend>,
    state: Mutex<Sharing>,
}

#[derive(Debug, Default)]
struct Sharing {
    /// How many creates, resumes and deletes are under way. While there are any, nothing is shared.
    writes: usize,
    /// How many listings were begun.
    begun: u64,
    /// The listing that reads may share. A write's begin takes it away.
    listing: Option<Entry>,
}

#[derive(Debug)]
struct Entry {
    serial: u64,
    installation: Installation,
    waiting: usize,
    outcome: Shared<BoxFuture<'static, Arc<Outcome>>>,
}

/// What a listing came to.
#[derive(Debug)]
struct Outcome {
    ended: Instant,
    instances: HashMap<NativeId, Instance>,
    /// Permanent failures that many reads share, each to be reported in full by the first read that
    /// it strikes: the prefix of the ids, and the error until it was reported.
    shared: Vec<(String, Mutex<Option<Error>>)>,
}

impl Outcome {
    fn of(listed: std::thread::Result<Result<Listing, Error>>) -> Self {
        let mut outcome = Self {
            ended: Instant::now(),
            instances: HashMap::new(),
            shared: Vec::new(),
        };
        match listed {
            Ok(Ok(listing)) => {
                outcome.instances = listing
                    .instances
                    .into_iter()
                    .map(|instance| (instance.id.clone(), instance))
                    .collect();
                for part in listing.unreadable {
                    outcome.share(part.error);
                }
            }
            Ok(Err(error)) => outcome.share(error),
            // The panic hook said what there is to say; each read asks for itself.
            Err(_panic) => {}
        }
        outcome
    }

    /// Keeps an error that would come back for every read; any other is for the single gets to find.
    fn share(&mut self, error: Error) {
        if let (ErrorKind::Permanent, Some(prefix)) = (error.kind(), error.affected()) {
            self.shared.push((prefix.to_owned(), Mutex::new(Some(error))));
        }
    }

    /// The error that this read is the first to meet.
    fn failure(&self, id: &NativeId) -> Option<Error> {
        self.shared
            .iter()
            .filter(|(prefix, _)| id.as_str().starts_with(prefix))
            .find_map(|(_, error)| lock(error).take())
    }

    /// The instance, where it is exactly the one asked for.
    fn instance(&self, request: &GetRequest) -> Option<Instance> {
        self.instances
            .get(&request.id)
            .filter(|found| {
                request.incarnation == Some(found.mark.incarnation)
                    && request.installation == found.mark.key.installation
            })
            .cloned()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A read that waits for a listing. The last one to leave an unfinished listing takes it along: a
/// listing that nobody drives must not be found half done by a later read.
struct Waiting<'a> {
    snapshot: &'a Snapshot,
    serial: u64,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let abandoned = {
            let mut sharing = lock(&self.snapshot.state);
            match &mut sharing.listing {
                Some(entry) if entry.serial == self.serial => {
                    entry.waiting -= 1;
                    let abandoned = entry.waiting == 0 && entry.outcome.peek().is_none();
                    if abandoned { sharing.listing.take() } else { None }
                }
                _ => None,
            }
        };
        // Dropped outside the lock: dropping a backend's future may do anything.
        drop(abandoned);
    }
}

/// A create, resume or delete under way; dropped however it ends.
struct Writing<'a>(&'a Snapshot);

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        lock(&self.0.state).writes -= 1;
    }
}

impl Snapshot {
    /// Wraps `inner`; no listing is taken before the first read.
    #[must_use]
    pub fn new(inner: Arc<dyn Backend>) -> Self {
        Self {
            inner,
            state: Mutex::default(),
        }
    }

    /// Ends the life of the current listing: the provider was configured again.
    pub fn invalidate(&self) {
        let ended = lock(&self.state).listing.take();
        drop(ended);
    }

    fn writing(&self) -> Writing<'_> {
        let ended = {
            let mut sharing = lock(&self.state);
            sharing.writes += 1;
            sharing.listing.take()
        };
        drop(ended);
        Writing(self)
    }

    /// Joins the current listing, or begins one; `None` while a write is under way.
    fn join(
        &self,
        installation: &Installation,
    ) -> Option<(Waiting<'_>, Shared<BoxFuture<'static, Arc<Outcome>>>)> {
        let mut ended = None;
        let joined = {
            let mut sharing = lock(&self.state);
            if sharing.writes > 0 {
                return None;
            }
            let usable = sharing.listing.as_ref().is_some_and(|entry| {
                entry.installation == *installation
                    && entry
                        .outcome
                        .peek()
                        .is_none_or(|outcome| outcome.ended.elapsed() < LIFE)
            });
            if !usable {
                sharing.begun += 1;
                let entry = Entry {
                    serial: sharing.begun,
                    installation: installation.clone(),
                    waiting: 0,
                    outcome: self.listing(installation),
                };
                ended = sharing.listing.replace(entry);
            }
            sharing.listing.as_mut().map(|entry| {
                entry.waiting += 1;
                let waiting = Waiting {
                    snapshot: self,
                    serial: entry.serial,
                };
                (waiting, entry.outcome.clone())
            })
        };
        drop(ended);
        joined
    }

    fn listing(&self, installation: &Installation) -> Shared<BoxFuture<'static, Arc<Outcome>>> {
        let inner = Arc::clone(&self.inner);
        let filter = ListFilter {
            installation: installation.clone(),
            namespace: None,
        };
        let listed = async move { inner.list_by_tag(&filter).await };
        AssertUnwindSafe(listed)
            .catch_unwind()
            .map(|listed| Arc::new(Outcome::of(listed)))
            .in_current_span()
            .boxed()
            .shared()
    }

    /// Whether that listing is still the one to share.
    fn is_current(&self, serial: u64) -> bool {
        lock(&self.state)
            .listing
            .as_ref()
            .is_some_and(|entry| entry.serial == serial)
    }

    /// The answer of the shared listing, if it has one.
    async fn shared(&self, request: &GetRequest) -> Option<Result<Found, Error>> {
        let (waiting, outcome) = self.join(&request.installation)?;
        let outcome = outcome.await;
        // A write that began meanwhile took the listing away: what it saw may be over.
        if !self.is_current(waiting.serial) {
            return None;
        }
        if let Some(error) = outcome.failure(&request.id) {
            return Some(Err(error));
        }
        let instance = outcome.instance(request)?;
        Some(Ok(Found {
            instance,
            readiness: None,
            warnings: Vec::new(),
        }))
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Backend for Snapshot {
    fn profile(&self) -> &Profile {
        self.inner.profile()
    }

    fn resolve(&self, specification: &Specification) -> Result<Resolved, Vec<Problem>> {
        self.inner.resolve(specification)
    }

    async fn create(&self, request: &CreateRequest, accepted: &Accepted) -> Result<Created, Error> {
        let _writing = self.writing();
        self.inner.create(request, accepted).await
    }

    async fn get(&self, request: &GetRequest) -> Result<Found, Error> {
        // A probe needs the instance itself, an import whatever is there.
        let shareable =
            request.freshness == Freshness::Shared && !request.probe && request.incarnation.is_some();
        if shareable && let Some(answer) = self.shared(request).await {
            return answer;
        }
        self.inner.get(request).await
    }

    async fn delete(&self, request: &DeleteRequest) -> Result<Deleted, Error> {
        let _writing = self.writing();
        self.inner.delete(request).await
    }

    async fn adopt(&self, request: &AdoptRequest) -> Result<Adoption, Error> {
        let _writing = request.write.is_some().then(|| self.writing());
        self.inner.adopt(request).await
    }

    async fn list_by_tag(&self, filter: &ListFilter) -> Result<Listing, Error> {
        self.inner.list_by_tag(filter).await
    }

    async fn check(&self) -> Vec<TargetHealth> {
        self.inner.check().await
    }
}

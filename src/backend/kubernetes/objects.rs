//! The calls to the API server, each for what it may answer.
//!
//! It must not know what an object means. Invariants: absence is only what the API server says of that
//! very object; every change and removal names the object's uid, so that it never strikes another one of
//! the same name; nothing is waited for but by a watch, within a budget.

use std::fmt::Debug;
use std::time::Duration;

use futures_util::stream::BoxStream;
use futures_util::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{Event, Pod, Service};
use kube::Api;
use kube::api::{
    DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions, WatchEvent, WatchParams,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::classify;
use super::cluster::Cluster;
use super::place::Place;
use crate::contract::{Error, Namespace};
use crate::transport::call;

/// How many objects one page of a listing holds.
const PAGE: u32 = 500;
/// How long one call waits for an object to be gone: longer than a Pod may take to end.
const GONE_BUDGET: Duration = Duration::from_secs(60);
/// How many watches may end without a word before waiting goes on with the next attempt.
const WATCHES: u32 = 5;

/// A kind of object that belongs to a proxy.
pub(super) trait Object:
    kube::Resource<Scope = NamespaceResourceScope, DynamicType = ()>
    + Clone
    + Debug
    + Serialize
    + DeserializeOwned
    + Send
    + Sync
    + 'static
{
    /// Its name in paths and errors of the API.
    const PLURAL: &'static str;
    const GET: &'static str;
    const CREATE: &'static str;
    const TRY: &'static str;
    const PATCH: &'static str;
    const DELETE: &'static str;
    const LIST: &'static str;
    const WATCH: &'static str;
}

macro_rules! object {
    ($kind:ty, $singular:literal, $plural:literal) => {
        impl Object for $kind {
            const PLURAL: &'static str = $plural;
            const GET: &'static str = concat!("get ", $singular);
            const CREATE: &'static str = concat!("create ", $singular);
            const TRY: &'static str = concat!("try ", $singular);
            const PATCH: &'static str = concat!("patch ", $singular);
            const DELETE: &'static str = concat!("delete ", $singular);
            const LIST: &'static str = concat!("list ", $plural);
            const WATCH: &'static str = concat!("watch ", $singular);
        }
    };
}
object!(Pod, "pod", "pods");
object!(Service, "service", "services");
object!(Event, "event", "events");

/// What came of making an object.
pub(super) enum Made<K> {
    /// It is there.
    Done(Box<K>),
    /// There is one of that name.
    Exists,
    /// Its namespace does not exist.
    NoNamespace,
}

/// What came of changing an object.
pub(super) enum Changed<K> {
    /// It has the change.
    Done(Box<K>),
    /// Somebody changed it since it was read, or another one took its place.
    Conflict,
    /// It is gone.
    Gone,
}

/// What came of removing an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Removed {
    /// It is gone.
    Gone,
    /// Another one has its name.
    Other,
}

/// What came of telling an object to go.
enum Told<K> {
    /// It is not there.
    Absent,
    /// It goes; as it is meanwhile, where it stays for a while and the API server showed it.
    Goes(Option<Box<K>>),
    /// Another one has its name.
    Other,
}

/// Whether an object that was told to go stays for a while, as its deletion shows it. One that does not may
/// be gone already, and a watch from its version on would see nothing of that.
fn lingers<K: Object>(told: &K) -> bool {
    let meta = told.meta();
    let is_held = meta
        .finalizers
        .as_ref()
        .is_some_and(|finalizers| !finalizers.is_empty());
    meta.deletion_timestamp.is_some() && (is_held || meta.deletion_grace_period_seconds > Some(0))
}

impl Cluster {
    fn api<K: Object>(client: kube::Client, namespace: &Namespace) -> Api<K> {
        Api::namespaced(client, namespace.as_str())
    }

    /// An object, or its proved absence.
    pub(super) async fn find<K: Object>(&self, place: &Place) -> Result<Option<K>, Error> {
        self.connection()
            .call(K::GET, |client| async move {
                match Self::api::<K>(client, place.namespace()).get(place.name()).await {
                    Ok(object) => Ok(Some(object)),
                    Err(error) if classify::is_not_found(&error, K::PLURAL, place.name()) => Ok(None),
                    Err(error) => Err(error),
                }
            })
            .await
    }

    /// Makes an object.
    pub(super) async fn make<K: Object>(&self, place: &Place, object: &K) -> Result<Made<K>, Error> {
        self.post(K::CREATE, place, object, &PostParams::default()).await
    }

    /// Has the API server check an object as if it were made.
    pub(super) async fn try_out<K: Object>(&self, place: &Place, object: &K) -> Result<Made<K>, Error> {
        let dry_run = PostParams {
            dry_run: true,
            field_manager: None,
        };
        self.post(K::TRY, place, object, &dry_run).await
    }

    async fn post<K: Object>(
        &self,
        what: &'static str,
        place: &Place,
        object: &K,
        params: &PostParams,
    ) -> Result<Made<K>, Error> {
        self.connection()
            .call(what, |client| async move {
                let namespace = place.namespace().as_str();
                match Self::api::<K>(client, place.namespace())
                    .create(params, object)
                    .await
                {
                    Ok(made) => Ok(Made::Done(Box::new(made))),
                    Err(error) if classify::is_already_exists(&error) => Ok(Made::Exists),
                    Err(error) if classify::is_not_found(&error, "namespaces", namespace) => {
                        Ok(Made::NoNamespace)
                    }
                    Err(error) => Err(error),
                }
            })
            .await
    }

    /// Merges `metadata` into an object's, on condition that nobody changed it since it was read.
    pub(super) async fn change<K: Object>(
        &self,
        place: &Place,
        read: &K,
        metadata: &serde_json::Value,
    ) -> Result<Changed<K>, Error> {
        let mut metadata = metadata.clone();
        metadata["uid"] = read.meta().uid.clone().into();
        metadata["resourceVersion"] = read.meta().resource_version.clone().into();
        let patch = Patch::Merge(serde_json::json!({ "metadata": metadata }));
        let patch = &patch;
        self.connection()
            .call(K::PATCH, |client| async move {
                let api = Self::api::<K>(client, place.namespace());
                match api.patch(place.name(), &PatchParams::default(), patch).await {
                    Ok(changed) => Ok(Changed::Done(Box::new(changed))),
                    Err(error) if classify::is_conflict(&error) => Ok(Changed::Conflict),
                    Err(error) if classify::is_not_found(&error, K::PLURAL, place.name()) => {
                        Ok(Changed::Gone)
                    }
                    Err(error) => Err(error),
                }
            })
            .await
    }

    /// Removes exactly that object, and waits until it is gone. `status` says why it is still there.
    ///
    /// # Errors
    /// Transient where it is still there when the budget is used up.
    pub(super) async fn remove<K: Object>(
        &self,
        place: &Place,
        found: &K,
        status: impl Fn(&K) -> String + Send + Sync,
    ) -> Result<Removed, Error> {
        match self.tell_to_go(place, found).await? {
            Told::Absent => Ok(Removed::Gone),
            Told::Other => Ok(Removed::Other),
            Told::Goes(shown) => {
                let uid = found.meta().uid.as_deref();
                self.gone(place, uid, shown.map(|shown| *shown), status).await?;
                Ok(Removed::Gone)
            }
        }
    }

    /// Tells exactly that object to go, and waits for nothing.
    pub(super) async fn dismiss<K: Object>(&self, place: &Place, found: &K) -> Result<(), Error> {
        self.tell_to_go(place, found).await.map(|_| ())
    }

    async fn tell_to_go<K: Object>(&self, place: &Place, found: &K) -> Result<Told<K>, Error> {
        let params = DeleteParams::background().preconditions(Preconditions {
            uid: found.meta().uid.clone(),
            resource_version: None,
        });
        let params = &params;
        self.connection()
            .call(K::DELETE, |client| async move {
                let api = Self::api::<K>(client, place.namespace());
                match api.delete(place.name(), params).await {
                    Ok(answer) => Ok(Told::Goes(answer.left().filter(lingers).map(Box::new))),
                    Err(error) if classify::is_not_found(&error, K::PLURAL, place.name()) => Ok(Told::Absent),
                    Err(error) if classify::is_conflict(&error) => Ok(Told::Other),
                    Err(error) => Err(error),
                }
            })
            .await
    }

    /// Waits until exactly that object is gone, from where it was last `shown` on.
    async fn gone<K: Object>(
        &self,
        place: &Place,
        uid: Option<&str>,
        mut shown: Option<K>,
        status: impl Fn(&K) -> String + Send + Sync,
    ) -> Result<(), Error> {
        let last = std::sync::Mutex::new(None);
        let tell = |object: &K| {
            let status = status(object);
            *last.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(status);
        };
        let wait = async {
            for _ in 0..WATCHES {
                let found = match shown.take() {
                    Some(shown) => Some(shown),
                    None => self.find::<K>(place).await?,
                };
                let Some(object) = found.filter(|found| found.meta().uid.as_deref() == uid) else {
                    return Ok(true);
                };
                tell(&object);
                let version = object.meta().resource_version.clone().unwrap_or_default();
                let mut events = self.watch::<K>(place, &version).await?;
                // A watch that breaks off, or whose beginning is forgotten, is begun anew.
                while let Ok(Some(event)) = events.try_next().await {
                    match event {
                        WatchEvent::Deleted(gone) if gone.meta().uid.as_deref() == uid => return Ok(true),
                        WatchEvent::Modified(object) => tell(&object),
                        WatchEvent::Error(_) => break,
                        WatchEvent::Deleted(_) | WatchEvent::Added(_) | WatchEvent::Bookmark(_) => {}
                    }
                }
            }
            Ok::<_, Error>(false)
        };
        let waited = call::within(GONE_BUDGET, K::WATCH, wait).await;
        if let Ok(outcome) = waited
            && outcome?
        {
            return Ok(());
        }
        let last = last
            .into_inner()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        Err(Error::transient(format!(
            "\"{}\" is still being deleted: {}",
            self.full(place.id()),
            last.unwrap_or_default()
        )))
    }

    async fn watch<K: Object>(
        &self,
        place: &Place,
        version: &str,
    ) -> Result<BoxStream<'static, Result<WatchEvent<K>, kube::Error>>, Error> {
        let seconds = u32::try_from(GONE_BUDGET.as_secs()).unwrap_or(u32::MAX);
        let params = WatchParams::default()
            .fields(&format!("metadata.name={}", place.name()))
            .timeout(seconds);
        let params = &params;
        self.connection()
            .call(K::WATCH, |client| async move {
                let api = Self::api::<K>(client, place.namespace());
                Ok(api.watch(params, version).await?.boxed())
            })
            .await
    }

    /// Every object that the selector finds, page by page; in all namespaces where none is named.
    pub(super) async fn select<K: Object>(
        &self,
        namespace: Option<&Namespace>,
        labels: &str,
    ) -> Result<Vec<K>, Error> {
        let params = ListParams::default().labels(labels).limit(PAGE);
        match self.pages(namespace, params.clone()).await? {
            Some(objects) => Ok(objects),
            // The listing was overtaken by the cluster's own clearing up: the next one is taken whole.
            None => {
                let whole = ListParams {
                    limit: None,
                    ..params
                };
                let objects = self.pages(namespace, whole).await?;
                objects.ok_or_else(|| Error::transient("the listing expired while it was read"))
            }
        }
    }

    /// The pages of one listing; `None` where it expired on the way.
    async fn pages<K: Object>(
        &self,
        namespace: Option<&Namespace>,
        mut params: ListParams,
    ) -> Result<Option<Vec<K>>, Error> {
        let mut objects = Vec::new();
        loop {
            let current = &params;
            let page = self
                .connection()
                .call(K::LIST, |client| async move {
                    let api: Api<K> = match namespace {
                        Some(namespace) => Self::api(client, namespace),
                        None => Api::all(client),
                    };
                    match api.list(current).await {
                        Ok(page) => Ok(Some(page)),
                        Err(kube::Error::Api(status)) if status.code == 410 => Ok(None),
                        Err(error) => Err(error),
                    }
                })
                .await?;
            let Some(page) = page else {
                return Ok(None);
            };
            objects.extend(page.items);
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params.continue_token = Some(token),
                None => return Ok(Some(objects)),
            }
        }
    }

    /// The warnings of one Pod; none where they may not be read.
    pub(super) async fn warnings(&self, place: &Place, pod_uid: &str) -> Vec<Event> {
        let params = ListParams::default().fields(&super::events::selector(pod_uid));
        let params = &params;
        let listed = self
            .connection()
            .call(Event::LIST, |client| async move {
                Self::api::<Event>(client, place.namespace()).list(params).await
            })
            .await;
        // They only say more of what is known without them.
        listed.map_or_else(|_| Vec::new(), |list| list.items)
    }
}

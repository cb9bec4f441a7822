//! Requests of proxies by name, as a run of Terraform makes them.

use std::collections::BTreeMap;
use std::sync::Arc;

use egress::contract::{
    Accepted, Backend, CreateRequest, Created, DeleteRequest, Deleted, Error, Facts, Found, Freshness,
    GetRequest, Incarnation, Installation, Instance, InstanceKey, ListFilter, Listing, NativeId, NewInstance,
    Resume, Specification,
};
use egress::transport::libvirt::fake::FakeHost;

use crate::rig::Rig;

impl Rig {
    /// The host that a proxy is on unless it asks for another one.
    pub(crate) fn host(&self) -> &FakeHost {
        &self.hosts["h1"]
    }
}

/// Who owns what the tests make.
pub(crate) fn installation() -> Installation {
    "prod".parse().expect("a name")
}

/// The key of a proxy.
pub(crate) fn key(namespace: &str, name: &str) -> InstanceKey {
    InstanceKey {
        installation: installation(),
        namespace: namespace.parse().expect("a name"),
        name: name.parse().expect("a name"),
    }
}

/// A request for a proxy of these facts.
pub(crate) fn wanted(backend: &Arc<dyn Backend>, key: InstanceKey, given: Facts) -> NewInstance {
    let specification = Specification {
        key: key.clone(),
        given: given.clone(),
        labels: BTreeMap::new(),
    };
    let resolved = backend
        .resolve(&specification)
        .unwrap_or_else(|problems| panic!("{problems:?}"));
    NewInstance::new(key, resolved.facts, given.present())
}

/// Creates what is wanted.
pub(crate) async fn make(backend: &Arc<dyn Backend>, wanted: NewInstance) -> Result<Created, Error> {
    let request = CreateRequest::New(Box::new(wanted));
    backend.create(&request, &Accepted::new()).await
}

/// Creates a proxy of that name.
pub(crate) async fn create(backend: &Arc<dyn Backend>, name: &str) -> Result<Created, Error> {
    let wanted = wanted(backend, key("default", name), Rig::facts());
    make(backend, wanted).await
}

/// A proxy of that name, which must come about.
pub(crate) async fn created(backend: &Arc<dyn Backend>, name: &str) -> Instance {
    let created = create(backend, name).await;
    created
        .unwrap_or_else(|error| panic!("{}", chain(&error)))
        .instance
}

/// Reads what a state holds.
pub(crate) async fn get(backend: &Arc<dyn Backend>, instance: &Instance) -> Result<Found, Error> {
    read(backend, &instance.id, Some(instance.mark.incarnation)).await
}

/// Reads an id.
pub(crate) async fn read(
    backend: &Arc<dyn Backend>,
    id: &NativeId,
    incarnation: Option<Incarnation>,
) -> Result<Found, Error> {
    let request = GetRequest {
        id: id.clone(),
        incarnation,
        installation: installation(),
        recorded_target: None,
        probe: false,
        freshness: Freshness::Fresh,
    };
    backend.get(&request).await
}

/// Starts what a state holds.
pub(crate) async fn resume(backend: &Arc<dyn Backend>, instance: &Instance) -> Result<Created, Error> {
    let request = CreateRequest::Resume(Box::new(Resume {
        id: instance.id.clone(),
        incarnation: instance.mark.incarnation,
        installation: installation(),
        labels: BTreeMap::new(),
        prior_label_keys: Default::default(),
    }));
    backend.create(&request, &Accepted::new()).await
}

/// Deletes what a state holds.
pub(crate) async fn delete(backend: &Arc<dyn Backend>, instance: &Instance) -> Result<Deleted, Error> {
    let request = DeleteRequest {
        id: instance.id.clone(),
        incarnation: Some(instance.mark.incarnation),
        installation: installation(),
        recorded_target: None,
    };
    backend.delete(&request).await
}

/// Lists everything of the installation.
pub(crate) async fn list(backend: &Arc<dyn Backend>) -> Listing {
    let filter = ListFilter {
        installation: installation(),
        namespace: None,
    };
    let listing = backend.list_by_tag(&filter).await;
    listing.unwrap_or_else(|error| panic!("{}", chain(&error)))
}

/// An error and everything that caused it.
pub(crate) fn chain(error: &Error) -> String {
    let mut text = format!("{}: {error}", error.kind().as_str());
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text += &format!(": {cause}");
        source = cause.source();
    }
    text
}

//! A namespace of a real API server, a front to put faults into, and a stand-in for the node.
//!
//! It knows the mark's label and annotation, and no more of the backend. Invariant: every rig has a namespace
//! of its own, which enforces the Pod Security level "restricted".

#![allow(dead_code, reason = "each test file uses its share")]

use std::collections::BTreeMap;
use std::sync::Arc;

use egress::backend::kubernetes::{Given, GivenAccess, Kubernetes, KubernetesConfig};
use egress::contract::{
    Accepted, Backend, CreateRequest, DeleteRequest, Facts, Freshness, GetRequest, Incarnation, Installation,
    Instance, InstanceKey, NativeId, NewInstance, Specification,
};
use egress::transport::call::Task;
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::Value;

use crate::front::Front;
use crate::kube_node::Cluster;
use crate::kubelet;

/// The annotation that holds the mark, and the label that says there is one.
pub(crate) const MARK: &str = "egress-proxy/mark";
pub(crate) const MANAGED: &str = "egress-proxy/managed";
/// The annotation that is mounted as `squid.conf`.
pub(crate) const CONF: &str = "egress-proxy/squid.conf";

/// As whom the backend asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum As {
    /// The administrator.
    Admin,
    /// The service account of the examples' kustomization, under its Role alone.
    Role,
}

/// A namespace for one test.
pub(crate) struct Rig<'c> {
    cluster: &'c Cluster,
    /// The `user` of a kubeconfig as whom the backend asks.
    user: Value,
    pub(crate) namespace: String,
    pub(crate) front: Front,
    /// The administrator's own way in, past the front.
    pub(crate) client: kube::Client,
    service: &'static str,
    _kubelet: Option<Task<()>>,
}

impl Rig<'static> {
    /// With a node that makes every Pod run.
    pub(crate) async fn new(service: &'static str) -> Self {
        Self::of(service, As::Admin, true).await
    }

    pub(crate) async fn of(service: &'static str, who: As, with_node: bool) -> Self {
        Self::on(Cluster::shared(), service, who, with_node).await
    }
}

impl<'c> Rig<'c> {
    pub(crate) async fn on(cluster: &'c Cluster, service: &'static str, who: As, with_node: bool) -> Rig<'c> {
        let client = cluster.client().await;
        let namespace = cluster.namespace().await;
        let user = match who {
            As::Admin => cluster.admin().clone(),
            As::Role => crate::role::granted(cluster, &client, &namespace).await,
        };
        let pods = Api::namespaced(client.clone(), &namespace);
        Self {
            front: Front::open(cluster.client_of(&user).await).await,
            cluster,
            user,
            _kubelet: with_node.then(|| Task::spawn(kubelet::run(pods))),
            namespace,
            client,
            service,
        }
    }

    pub(crate) fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    pub(crate) fn services(&self) -> Api<Service> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// What the block of a backend says.
    pub(crate) fn given(&self) -> Given {
        let name = format!("front-{}", self.namespace);
        let path = self
            .cluster
            .write(&name, self.front.kubeconfig().to_string().as_bytes());
        Given {
            access: GivenAccess {
                kubeconfig: Some(path.display().to_string()),
                ..GivenAccess::default()
            },
            namespace: Some(self.namespace.clone()),
            image: Some("registry.example/squid:6".to_owned()),
            service: Some(self.service.to_owned()),
            ..Given::default()
        }
    }

    /// The backend, as a new process would configure it.
    pub(crate) fn backend(&self) -> Arc<dyn Backend> {
        self.configured(|_| {})
    }

    pub(crate) fn configured(&self, edit: impl FnOnce(&mut Given)) -> Arc<dyn Backend> {
        let mut given = self.given();
        edit(&mut given);
        let config = KubernetesConfig::new(given, |_| None).expect("sound");
        Arc::new(Kubernetes::new("cluster".parse().expect("a name"), config))
    }

    /// The backend without the front: its connections are those to the API server itself.
    pub(crate) fn direct(&self) -> Arc<dyn Backend> {
        let path = self.cluster.kubeconfig_with(&self.user);
        self.configured(|given| given.access.kubeconfig = Some(path.display().to_string()))
    }

    /// Facts that a user would give.
    pub(crate) fn facts() -> Facts {
        Facts {
            allowed_cidrs: Some(vec!["10.0.0.0/8".parse().expect("a network")]),
            ..Facts::default()
        }
    }

    pub(crate) fn installation() -> Installation {
        "rig".parse().expect("a name")
    }

    /// A request for a proxy of that name.
    pub(crate) fn wanted(&self, name: &str, given: Facts) -> (NativeId, NewInstance) {
        let key = InstanceKey {
            installation: Self::installation(),
            namespace: self.namespace.parse().expect("a name"),
            name: name.parse().expect("a name"),
        };
        let specification = Specification {
            key: key.clone(),
            given: given.clone(),
            labels: BTreeMap::new(),
        };
        let resolved = self.backend().resolve(&specification).expect("honoured");
        let request = NewInstance::new(key, resolved.facts, given.present());
        (resolved.id, request)
    }

    /// Makes a proxy.
    pub(crate) async fn created(&self, name: &str) -> Instance {
        let (_, request) = self.wanted(name, Self::facts());
        let request = CreateRequest::New(Box::new(request));
        let created = self.backend().create(&request, &Accepted::new()).await;
        created.expect("created").instance
    }

    /// A read of a wait or an apply.
    pub(crate) fn read(instance: &Instance, probe: bool) -> GetRequest {
        GetRequest {
            incarnation: Some(instance.mark.incarnation),
            probe,
            ..Self::reading(&instance.id)
        }
    }

    /// A read of whatever has that id.
    pub(crate) fn reading(id: &NativeId) -> GetRequest {
        GetRequest {
            id: id.clone(),
            incarnation: None,
            installation: Self::installation(),
            recorded_target: None,
            probe: false,
            freshness: Freshness::Fresh,
        }
    }

    pub(crate) fn removal(id: &NativeId, incarnation: Option<Incarnation>) -> DeleteRequest {
        DeleteRequest {
            id: id.clone(),
            incarnation,
            installation: Self::installation(),
            recorded_target: None,
        }
    }

    /// Merges into a Pod.
    pub(crate) async fn edit_pod(&self, name: &str, patch: &Value) {
        self.pods()
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .expect("patched");
    }

    /// Merges into a Pod's status.
    pub(crate) async fn status(&self, name: &str, status: &Value) {
        kubelet::write(&self.pods(), name, status).await.expect("written");
    }

    /// Removes a Pod at once.
    pub(crate) async fn remove_pod(&self, name: &str) {
        let now = DeleteParams::default().grace_period(0);
        self.pods().delete(name, &now).await.expect("removed");
    }
}

//! A cluster as a place for proxies: what every operation of the backend stands on.
//!
//! It must not decide what an operation does. Invariant: within this process, whoever changes a proxy
//! holds it; between processes the API server's own conditions decide.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use k8s_openapi::api::core::v1::{Namespace as ClusterNamespace, Pod, Service};
use tokio::sync::OwnedMutexGuard;

use super::config::{KubernetesConfig, Namespaces};
use super::connect::Connection;
use super::mark;
use super::place::Place;
use super::state::{self, Seen};
use crate::contract::{
    BackendName, Error, Instance, InstanceId, Mark, Namespace, NativeId, Target, TargetHealth, refusal,
};

/// The namespace whose uid stands for the whole cluster.
const SYSTEM_NAMESPACE: &str = "kube-system";

/// A cluster.
#[derive(Clone, Debug)]
pub(super) struct Cluster {
    name: BackendName,
    config: Arc<KubernetesConfig>,
    connection: Connection,
    target: Arc<tokio::sync::OnceCell<Target>>,
    held: Arc<Mutex<HashMap<NativeId, Arc<tokio::sync::Mutex<()>>>>>,
}

impl Cluster {
    pub(super) fn new(name: BackendName, config: KubernetesConfig) -> Self {
        Self {
            connection: Connection::new(name.clone(), config.access.clone()),
            name,
            config: Arc::new(config),
            target: Arc::default(),
            held: Arc::default(),
        }
    }

    pub(super) fn config(&self) -> &KubernetesConfig {
        &self.config
    }

    pub(super) fn connection(&self) -> &Connection {
        &self.connection
    }

    /// The id as a user writes it.
    pub(super) fn full(&self, id: &NativeId) -> InstanceId {
        InstanceId {
            backend: self.name.clone(),
            native: id.clone(),
        }
    }

    /// Takes an id apart.
    ///
    /// # Errors
    /// Permanent where it is malformed, or lies in a namespace that the configuration does not name.
    pub(super) fn place(&self, id: &NativeId) -> Result<Place, Error> {
        let place = Place::parse(id).ok_or_else(|| refusal::malformed(id, Place::GRAMMAR))?;
        if covers(&self.config, place.namespace()) {
            Ok(place)
        } else {
            let namespace = place.namespace().as_str();
            Err(refusal::not_configured(&self.full(id), "namespace", namespace))
        }
    }

    /// Holds a proxy: no other operation of this process changes it meanwhile.
    pub(super) async fn hold(&self, place: &Place) -> OwnedMutexGuard<()> {
        let turn = {
            let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(held.entry(place.id().clone()).or_default())
        };
        turn.lock_owned().await
    }

    /// What stands behind the backend's name, as far as it may be known; asked for once.
    ///
    /// # Errors
    /// Where the API server cannot be asked at all.
    pub(super) async fn target(&self) -> Result<&Target, Error> {
        self.target
            .get_or_try_init(|| async {
                let endpoint = self.connection.endpoint().await?;
                let own = self.config.namespace.as_str();
                let facts = [
                    ("cluster", self.namespace_uid(SYSTEM_NAMESPACE).await?),
                    ("namespace", self.namespace_uid(own).await?),
                    ("server", Some(endpoint.server)),
                    ("ca", endpoint.ca_sha256),
                ];
                Ok(Target::new(
                    facts.into_iter().filter_map(|(fact, value)| Some((fact, value?))),
                ))
            })
            .await
    }

    /// The uid of a namespace; `None` where there is none, or it is none of our business.
    async fn namespace_uid(&self, name: &str) -> Result<Option<String>, Error> {
        let found = self
            .connection
            .call("get namespace", |client| async move {
                match kube::Api::<ClusterNamespace>::all(client)
                    .get_metadata(name)
                    .await
                {
                    Ok(namespace) => Ok(namespace.metadata.uid),
                    Err(kube::Error::Api(status)) if matches!(status.code, 403 | 404) => Ok(None),
                    Err(error) => Err(error),
                }
            })
            .await?;
        Ok(found)
    }

    /// The instance that a Pod and its Service are.
    ///
    /// # Errors
    /// Transient where the Pod's node does not report.
    pub(super) fn instance(
        &self,
        place: &Place,
        mark: &Mark,
        pod: &Pod,
        service: Option<&Service>,
        target: &Target,
    ) -> Result<Instance, Error> {
        let seen = state::seen(pod, service, mark.pending).ok_or_else(|| self.silent(place, pod))?;
        let Seen {
            state,
            started,
            ip,
            reason,
        } = seen;
        Ok(Instance {
            id: place.id().clone(),
            mark: mark.clone(),
            target: target.clone(),
            state,
            started,
            ip,
            // All Pods leave the cluster through addresses that no one Pod knows.
            egress_ip: None,
            created_at: pod.metadata.creation_timestamp.as_ref().map(|time| time.0),
            labels: mark::user_labels(mark, &pod.metadata),
            reason,
        })
    }

    /// A Pod whose node does not report.
    pub(super) fn silent(&self, place: &Place, pod: &Pod) -> Error {
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
        let (_, reason) = state::life(pod);
        Error::transient(format!(
            "nothing is known of \"{}\": its node {} does not report ({})",
            self.full(place.id()),
            node.unwrap_or("(none)"),
            reason.unwrap_or_default()
        ))
    }

    /// One report, of the API server.
    pub(super) async fn health(&self) -> Vec<TargetHealth> {
        super::health::check(&self.connection, &self.config).await
    }
}

/// Whether listings look at a namespace, so that what is in it can be found again.
pub(super) fn covers(config: &KubernetesConfig, namespace: &Namespace) -> bool {
    *namespace == config.namespace
        || match &config.namespaces {
            Namespaces::Own => false,
            Namespaces::These(names) => names.contains(namespace),
            Namespaces::All => true,
        }
}

//! The conformance suite over the backend `kubernetes`, against a real API server.
//!
//! There is no kubelet behind it: a stand-in writes the statuses of Pods. The whole node has tests of its own.
#![cfg(all(feature = "testing", target_os = "linux"))]

#[path = "kubernetes/front.rs"]
mod front;
#[path = "kube_node/mod.rs"]
mod kube_node;
#[path = "kubernetes/kubelet.rs"]
mod kubelet;
#[path = "kubernetes/rig.rs"]
mod rig;
#[path = "kubernetes/role.rs"]
mod role;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use egress::conformance::{Ability, Broken, Control, Harness, Sighting, Stage, Through};
use egress::contract::latch::Latch;
use egress::contract::observe::{Observed, Unmetered};
use egress::contract::snapshot::Snapshot;
use egress::contract::spec::CloudInitFact;
use egress::contract::{
    Backend, ErrorKind, Fact, Facts, Namespace, NativeId, Operation, Specification, State,
};
use front::{Effect, Fault, status};
use http::Method;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use rig::{As, MANAGED, MARK, Rig};
use serde_json::{Value, json};

const ONE_PART: &str =
    "the parts are namespaces, which no fact names: tests/kubernetes_api.rs takes one of several away";
const NO_SERVICE: &str = "without a Service nothing belongs to a Pod: the runs with one stage it";

/// A namespace of a real API server.
struct KubernetesHarness {
    rig: Rig<'static>,
    cannot: Vec<(Ability, &'static str)>,
}

impl KubernetesHarness {
    async fn new(service: &'static str, who: As) -> Self {
        let mut cannot = vec![(Ability::Elsewhere, ONE_PART)];
        if service == "none" {
            cannot.extend([
                (Ability::FailCreate(Stage::Secondary), NO_SERVICE),
                (Ability::HangCreate(Stage::Secondary), NO_SERVICE),
                (Ability::SetState(State::Stopped), NO_SERVICE),
                (Ability::LeaveRemains, NO_SERVICE),
                (Ability::Damage, NO_SERVICE),
            ]);
        }
        Self {
            rig: Rig::of(service, who, true).await,
            cannot,
        }
    }

    /// Where a stage of create or delete of that name is decided.
    fn fault(&self, create: bool, id: &NativeId, stage: Stage, effect: Effect) -> Fault {
        let namespace = &self.rig.namespace;
        let name = name(id);
        let pod = format!("/namespaces/{namespace}/pods/{name}");
        let (method, path, named) = match (create, stage) {
            (true, Stage::Accept) => (Method::POST, format!("/namespaces/{namespace}/pods"), true),
            (true, Stage::Secondary) => (Method::POST, format!("/namespaces/{namespace}/services"), true),
            // The Pod comes first and is told that it is handed over last.
            (true, Stage::Instance | Stage::Handover) => (Method::PATCH, pod, false),
            (false, _) => (Method::DELETE, pod, false),
        };
        Fault {
            method: Some(method),
            path,
            name: named.then(|| name.to_owned()),
            effect,
            once: true,
            of_its_maker: matches!((create, stage), (true, Stage::Instance | Stage::Handover)),
        }
    }

    async fn remove_pod(&self, id: &NativeId) -> Result<(), Broken> {
        let now = DeleteParams::default().grace_period(0);
        self.rig.pods().delete(name(id), &now).await.map_err(failed)?;
        Ok(())
    }

    async fn patch_service(&self, id: &NativeId, patch: Value) -> Result<(), Broken> {
        let patch = Patch::Merge(patch);
        let services = self.rig.services();
        services
            .patch(name(id), &PatchParams::default(), &patch)
            .await
            .map_err(failed)?;
        Ok(())
    }

    async fn patch_pod(&self, id: &NativeId, patch: Value) -> Result<(), Broken> {
        let patch = Patch::Merge(patch);
        let pods = self.rig.pods();
        pods.patch(name(id), &PatchParams::default(), &patch)
            .await
            .map_err(failed)?;
        Ok(())
    }

    async fn write(&self, id: &NativeId, status: &Value) -> Result<(), Broken> {
        kubelet::write(&self.rig.pods(), name(id), status)
            .await
            .map_err(failed)?;
        Ok(())
    }
}

fn failed(error: kube::Error) -> Broken {
    Broken(error.to_string())
}

fn name(id: &NativeId) -> &str {
    id.as_str().rsplit('/').next().unwrap_or_default()
}

/// What an API server answers that fails in that way.
fn answer(kind: ErrorKind, stage: Stage, namespace: &str, name: &str, text: &str) -> Effect {
    let forbidden = |why: &str| format!("pods \"{name}\" is forbidden: {why}");
    let (code, object) = match kind {
        ErrorKind::Transient => (503, status(503, "ServiceUnavailable", text, "", "")),
        ErrorKind::Permanent => (422, status(422, "Invalid", text, "pods", name)),
        ErrorKind::QuotaExceeded => {
            let why = forbidden(&format!(
                "exceeded quota: compute, requested: pods=1, used: pods=5, limited: pods=5 ({text})"
            ));
            (403, status(403, "Forbidden", &why, "pods", name))
        }
        ErrorKind::NotFound if stage == Stage::Accept => {
            let why = format!("namespaces \"{namespace}\" not found");
            (404, status(404, "NotFound", &why, "namespaces", namespace))
        }
        ErrorKind::NotFound => {
            let why = format!("pods \"{name}\" not found");
            (404, status(404, "NotFound", &why, "pods", name))
        }
    };
    Effect::Answer(code, object)
}

#[async_trait]
impl Harness for KubernetesHarness {
    fn backend(&self) -> Arc<dyn Backend> {
        self.rig.backend()
    }

    fn backend_without(&self, _: &NativeId) -> Result<Arc<dyn Backend>, Broken> {
        Ok(self
            .rig
            .configured(|given| given.namespace = Some("elsewhere".to_owned())))
    }

    fn cannot(&self) -> &[(Ability, &'static str)] {
        &self.cannot
    }

    fn namespace(&self) -> Namespace {
        self.rig.namespace.parse().expect("a name")
    }

    fn facts(&self) -> Facts {
        Rig::facts()
    }

    fn facts_elsewhere(&self) -> Result<Facts, Broken> {
        Err(Broken(ONE_PART.to_owned()))
    }

    fn refused(&self, honoured: &Specification) -> Vec<(Fact, Specification)> {
        let given = |change: fn(&mut Facts)| {
            let mut specification = honoured.clone();
            change(&mut specification.given);
            specification
        };
        let mut labelled = honoured.clone();
        labelled.labels.insert(MANAGED.into(), "yes".into());
        let mut unreadable = honoured.clone();
        unreadable.labels.insert("team".into(), "a b".into());
        let mut elsewhere = honoured.clone();
        elsewhere.key.namespace = "elsewhere".parse().expect("a name");
        vec![
            (Fact::Namespace, elsewhere),
            (Fact::Zone, given(|facts| facts.zone = Some("a b".into()))),
            (Fact::Region, given(|facts| facts.region = Some("-r".into()))),
            (
                Fact::MachineType,
                given(|facts| facts.machine_type = Some("m/1".into())),
            ),
            (
                Fact::Image,
                given(|facts| facts.image = Some("https://registry.example/a".into())),
            ),
            (Fact::Spot, given(|facts| facts.spot = Some(true))),
            (Fact::Port, given(|facts| facts.port = Some(0))),
            (Fact::AllowedCidrs, given(|facts| facts.allowed_cidrs = None)),
            (
                Fact::AllowedPorts,
                given(|facts| facts.allowed_ports = Some(vec![0])),
            ),
            (
                Fact::AllowedDomains,
                given(|facts| facts.allowed_domains = Some(vec!["*.example".into()])),
            ),
            (
                Fact::CloudInit,
                given(|facts| facts.cloud_init = Some(CloudInitFact::Version("1".into()))),
            ),
            (Fact::Labels, labelled),
            (Fact::Labels, unreadable),
        ]
    }

    fn malformed_ids(&self) -> Vec<NativeId> {
        ["x", "egress/a/b", "egress/A", "Egress/a", "egress/a.b", "../a"]
            .iter()
            .filter_map(|id| id.parse().ok())
            .collect()
    }

    async fn stage(&self, control: Control<'_>) -> Result<(), Broken> {
        let namespace = self.rig.namespace.clone();
        match control {
            Control::FailCreate(id, stage, kind, text) => {
                let effect = answer(kind, stage, &namespace, name(id), text);
                self.rig.front.put(self.fault(true, id, stage, effect));
            }
            Control::HangCreate(id, stage) => {
                self.rig.front.put(self.fault(true, id, stage, Effect::Hang));
            }
            Control::FailDelete(id, stage) => {
                let effect = answer(
                    ErrorKind::Transient,
                    stage,
                    &namespace,
                    name(id),
                    "etcd has no leader",
                );
                self.rig.front.put(self.fault(false, id, stage, effect));
            }
            Control::Refuse(id, operation, kind) => {
                let why = format!(
                    "pods \"{}\" is forbidden: User \"u\" cannot {} resource \"pods\" in API group \"\" in the namespace \"{namespace}\"",
                    name(id),
                    operation.as_str()
                );
                let effect = match kind {
                    ErrorKind::Permanent => {
                        Effect::Answer(403, status(403, "Forbidden", &why, "pods", name(id)))
                    }
                    ErrorKind::Transient => {
                        Effect::Answer(429, status(429, "TooManyRequests", "slow down", "", ""))
                    }
                    ErrorKind::NotFound | ErrorKind::QuotaExceeded => {
                        return Err(Broken(format!("no {operation} is refused as {}", kind.as_str())));
                    }
                };
                let method = match operation {
                    Operation::Get => Method::GET,
                    other => return Err(Broken(format!("{other} is refused by its own controls"))),
                };
                self.rig.front.put(Fault {
                    method: Some(method),
                    path: format!("/namespaces/{namespace}/pods/{}", name(id)),
                    name: None,
                    effect,
                    once: true,
                    of_its_maker: false,
                });
            }
            Control::SetState(id, State::Provisioning) => {
                self.write(id, &kubelet::pending("ErrImagePull", "not found"))
                    .await?;
            }
            // It runs from create on.
            Control::SetState(_, State::Running) => {}
            Control::SetState(id, State::Stopped) => {
                let services = self.rig.services();
                services
                    .delete(name(id), &DeleteParams::default())
                    .await
                    .map_err(failed)?;
            }
            Control::SetState(id, State::Terminated) => {
                let status = kubelet::failed("Evicted", "The node was low on resource: memory.");
                self.write(id, &status).await?;
            }
            Control::LoseAddress(id) => self.write(id, &kubelet::running(None)).await?,
            Control::StopServing(id) => {
                let conditions = json!({ "conditions": [{ "type": "Ready", "status": "False",
                    "reason": "ContainersNotReady", "message": "containers with unready status: [squid]" }] });
                self.write(id, &conditions).await?;
            }
            Control::StripMark(id) => {
                self.patch_pod(
                    id,
                    json!({ "metadata": { "labels": { MANAGED: null }, "annotations": { MARK: null } } }),
                )
                .await?;
            }
            Control::LeaveRemains(id) => {
                // Its owner would take it along, which is the net under what is proved here.
                self.patch_service(id, json!({ "metadata": { "ownerReferences": null } }))
                    .await?;
                self.remove_pod(id).await?;
            }
            Control::Damage(id) => {
                self.patch_service(
                    id,
                    json!({ "spec": { "selector": { "egress-proxy/name": "another" } } }),
                )
                .await?;
            }
            Control::Vanish(id) => {
                self.remove_pod(id).await?;
                // Its owner takes it along, which may have happened by now.
                let services = self.rig.services();
                match services.delete(name(id), &DeleteParams::default()).await {
                    Ok(_) => {}
                    Err(kube::Error::Api(status)) if status.is_not_found() => {}
                    Err(error) => return Err(failed(error)),
                }
            }
            Control::PlaceForeign(id) => {
                let pod = serde_json::from_value(json!({
                    "metadata": { "name": name(id) },
                    "spec": {
                        "securityContext": { "runAsNonRoot": true, "seccompProfile": { "type": "RuntimeDefault" } },
                        "containers": [{ "name": "c", "image": "i", "securityContext": {
                            "allowPrivilegeEscalation": false, "capabilities": { "drop": ["ALL"] } } }]
                    }
                }))
                .map_err(|error| Broken(error.to_string()))?;
                let made = self.rig.pods().create(&PostParams::default(), &pod).await;
                made.map_err(failed)?;
            }
            Control::ForeignLabel(id, key, value) => {
                self.patch_pod(id, json!({ "metadata": { "labels": { key: value } } }))
                    .await?;
            }
            Control::Unreadable(id) => {
                self.patch_pod(id, json!({ "metadata": { "annotations": { MARK: "{" } } }))
                    .await?;
            }
            Control::Unreachable(_) => self.rig.front.put(Fault {
                method: None,
                path: format!("/namespaces/{namespace}/"),
                name: None,
                effect: Effect::Cut,
                once: false,
                of_its_maker: false,
            }),
            Control::AllUnreachable => self.rig.front.put(Fault {
                method: None,
                path: String::new(),
                name: None,
                effect: Effect::Cut,
                once: false,
                of_its_maker: false,
            }),
        }
        Ok(())
    }

    async fn sight(&self, id: &NativeId) -> Result<Sighting, Broken> {
        let mut sighting = Sighting {
            intact: true,
            ..Sighting::default()
        };
        let text = |value: Option<&String>| value.cloned().unwrap_or_default();
        if let Some(pod) = self.rig.pods().get_opt(name(id)).await.map_err(failed)? {
            let annotations = pod.metadata.annotations.unwrap_or_default();
            sighting.objects.insert("pod".into(), text(annotations.get(MARK)));
            sighting.labels = pod.metadata.labels.unwrap_or_default();
        }
        if let Some(service) = self.rig.services().get_opt(name(id)).await.map_err(failed)? {
            let annotations = service.metadata.annotations.unwrap_or_default();
            sighting
                .objects
                .insert("service".into(), text(annotations.get(MARK)));
            let selector = service.spec.and_then(|spec| spec.selector).unwrap_or_default();
            sighting.intact = selector
                .get("egress-proxy/name")
                .is_some_and(|selected| selected == name(id));
        }
        Ok(sighting)
    }

    fn patience(&self) -> Duration {
        Duration::from_secs(60)
    }

    async fn tidy(&self) {
        kube_node::Cluster::shared()
            .remove_namespace(&self.rig.namespace)
            .await;
    }
}

/// What the provider puts around every backend.
fn decorated(inner: Arc<dyn Backend>) -> Arc<dyn Backend> {
    let name = "cluster".parse().expect("a name");
    Arc::new(Snapshot::new(Arc::new(Observed::new(
        name,
        Arc::new(Latch::new(inner)),
        Arc::new(Unmetered),
    ))))
}

egress::conformance_tests!(
    #[ignore = "needs a Kubernetes API server"]
    pods,
    KubernetesHarness::new("none", As::Admin).await
);
egress::conformance_tests!(
    #[ignore = "needs a Kubernetes API server"]
    services,
    KubernetesHarness::new("ClusterIP", As::Admin).await
);
// Under exactly the rights of examples/kubernetes, and behind everything the provider puts around a backend.
egress::conformance_tests!(
    #[ignore = "needs a Kubernetes API server"]
    through_all_under_the_role,
    Through::new(KubernetesHarness::new("ClusterIP", As::Role).await, decorated)
);

//! The Service of a proxy: what it is made of, whether one that is there will do, and its address.
//!
//! It must not do I/O. Invariants: which kind a proxy has is written on its Pod, so that a change of the
//! configuration changes no proxy that is there; the port clients use is the proxy's own, whatever the kind.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::{Pod, Service, ServicePort, ServiceSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::config::{KubernetesConfig, ServiceKind};
use super::mark;
use super::place::Place;
use crate::contract::spec::DEFAULT_PORT;
use crate::contract::{Error, Mark};

/// The annotation on a Pod that says which kind of Service belongs to it.
pub(super) const KIND: &str = "egress-proxy/service";

/// The ports of nodes that a cluster gives to Services unless it was told otherwise.
pub(super) const NODE_PORTS: std::ops::RangeInclusive<u16> = 30_000..=32_767;

/// Which kind of Service a Pod was given.
pub(super) fn kind_of(pod: &Pod) -> ServiceKind {
    let word = mark::annotation(&pod.metadata, KIND);
    word.and_then(|word| word.parse().ok()).unwrap_or_default()
}

/// The Service of a proxy. Without the uid of its Pod it is one to try out, and belongs to nothing.
///
/// # Errors
/// Permanent, which never comes: a mark is JSON.
pub(super) fn build(
    place: &Place,
    mark: &Mark,
    pod_uid: Option<&str>,
    kind: ServiceKind,
    config: &KubernetesConfig,
) -> Result<Service, Error> {
    let mut annotations = config.service_annotations.clone();
    annotations.extend(mark::annotations(mark)?);
    let port = i32::from(mark.facts.port.unwrap_or(DEFAULT_PORT));
    let outside = matches!(kind, ServiceKind::NodePort | ServiceKind::LoadBalancer);
    Ok(Service {
        metadata: ObjectMeta {
            name: Some(place.name().to_owned()),
            namespace: Some(place.namespace().to_string()),
            labels: Some(mark::labels(mark)),
            annotations: Some(annotations),
            owner_references: pod_uid.map(|uid| vec![owner(place, uid)]),
            ..ObjectMeta::default()
        },
        spec: Some(ServiceSpec {
            type_: Some(kind.as_str().to_owned()),
            selector: Some(mark::pod_selector(mark)),
            ports: Some(vec![ServicePort {
                name: Some("proxy".to_owned()),
                port,
                target_port: Some(IntOrString::Int(port)),
                // The address that is reported goes with the proxy's port, so the node's must be the same.
                node_port: (kind == ServiceKind::NodePort).then_some(port),
                protocol: Some("TCP".to_owned()),
                ..ServicePort::default()
            }]),
            // Otherwise a node hides the client's address behind its own, and `allowed_cidrs` is void.
            external_traffic_policy: outside.then(|| "Local".to_owned()),
            ..ServiceSpec::default()
        }),
        status: None,
    })
}

fn owner(place: &Place, pod_uid: &str) -> OwnerReference {
    OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Pod".to_owned(),
        name: place.name().to_owned(),
        uid: pod_uid.to_owned(),
        controller: Some(true),
        // A Service never holds up the end of its Pod.
        block_owner_deletion: Some(false),
    }
}

/// Whether a Service of ours leads to that very Pod, as it would if it were made now.
pub(super) fn leads_to(service: &Service, wanted: &Service) -> bool {
    let owners = |service: &Service| -> Vec<String> {
        let owners = service.metadata.owner_references.iter().flatten();
        owners.map(|owner| owner.uid.clone()).collect()
    };
    let (Some(spec), Some(wanted_spec)) = (&service.spec, &wanted.spec) else {
        return false;
    };
    let ports = |spec: &ServiceSpec| -> Vec<(i32, Option<IntOrString>)> {
        let ports = spec.ports.iter().flatten();
        ports.map(|port| (port.port, port.target_port.clone())).collect()
    };
    spec.type_ == wanted_spec.type_
        && spec.selector == wanted_spec.selector
        && ports(spec) == ports(wanted_spec)
        && owners(service) == owners(wanted)
}

/// The address that clients use, or why there is none yet.
pub(super) fn address(service: &Service, pod: &Pod) -> Result<IpAddr, String> {
    let spec = service.spec.as_ref();
    let kind = spec.and_then(|spec| spec.type_.as_deref());
    match kind {
        Some("NodePort") => pod
            .status
            .as_ref()
            .and_then(|status| parsed(status.host_ip.as_deref()))
            .ok_or_else(|| "the address of its node is not known yet".to_owned()),
        Some("LoadBalancer") => {
            let status = service.status.as_ref();
            let ingress = status
                .and_then(|status| status.load_balancer.as_ref())
                .and_then(|balancer| balancer.ingress.as_ref()?.first());
            match ingress {
                None => Err("its load balancer has no address yet".to_owned()),
                Some(ingress) => parsed(ingress.ip.as_deref()).ok_or_else(|| {
                    format!(
                        "its load balancer has the name {:?} and no address: use one with an address, or \
                         `wait_for = \"running\"` and that name",
                        ingress.hostname.as_deref().unwrap_or_default()
                    )
                }),
            }
        }
        _ => parsed(spec.and_then(|spec| spec.cluster_ip.as_deref()))
            .ok_or_else(|| "its Service has no address".to_owned()),
    }
}

fn parsed(address: Option<&str>) -> Option<IpAddr> {
    address?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::kubernetes::config::tests::config;
    use crate::backend::kubernetes::mark::tests::{mark, place};
    use k8s_openapi::api::core::v1::{LoadBalancerIngress, LoadBalancerStatus, PodStatus, ServiceStatus};

    const POD_UID: &str = "9d0e8f4e-3a55-4a7c-9a3f-2f1a6c5d7b10";

    fn built(kind: ServiceKind) -> Service {
        build(&place(), &mark(), Some(POD_UID), kind, &config()).expect("built")
    }

    fn pod() -> Pod {
        Pod {
            status: Some(PodStatus {
                host_ip: Some("192.0.2.7".to_owned()),
                pod_ip: Some("10.244.0.9".to_owned()),
                ..PodStatus::default()
            }),
            ..Pod::default()
        }
    }

    #[test]
    fn it_selects_its_pod_and_goes_with_it() {
        let service = built(ServiceKind::ClusterIp);
        let spec = service.spec.as_ref().expect("a spec");
        let selector = spec.selector.clone().expect("given");
        assert_eq!(selector["egress-proxy/name"], "a");
        assert_eq!(spec.external_traffic_policy, None);
        let owner = &service.metadata.owner_references.as_ref().expect("given")[0];
        assert_eq!((owner.kind.as_str(), owner.uid.as_str()), ("Pod", POD_UID));
        assert!(leads_to(&service, &built(ServiceKind::ClusterIp)));
    }

    #[test]
    fn clients_keep_their_addresses_from_outside() {
        for kind in [ServiceKind::NodePort, ServiceKind::LoadBalancer] {
            let spec = built(kind).spec.expect("a spec");
            assert_eq!(spec.external_traffic_policy.as_deref(), Some("Local"), "{kind:?}");
        }
    }

    #[test]
    fn the_port_of_a_node_is_the_proxys() {
        let port = |kind| built(kind).spec.expect("a spec").ports.expect("given")[0].node_port;
        assert_eq!(port(ServiceKind::NodePort), Some(3128));
        assert_eq!(port(ServiceKind::LoadBalancer), None);
    }

    #[test]
    fn one_that_leads_elsewhere_will_not_do() {
        let wanted = built(ServiceKind::ClusterIp);
        let changed = |edit: fn(&mut Service)| {
            let mut service = wanted.clone();
            edit(&mut service);
            leads_to(&service, &wanted)
        };
        assert!(!changed(|service| {
            service.spec.as_mut().expect("a spec").selector = None;
        }));
        assert!(!changed(|service| service.metadata.owner_references = None));
        assert!(!changed(|service| {
            service
                .spec
                .as_mut()
                .expect("a spec")
                .ports
                .as_mut()
                .expect("given")[0]
                .port = 1;
        }));
        // What the cluster fills in changes nothing.
        assert!(changed(|service| {
            service.spec.as_mut().expect("a spec").cluster_ip = Some("10.0.0.9".to_owned());
        }));
    }

    #[test]
    fn where_clients_go() {
        let mut cluster = built(ServiceKind::ClusterIp);
        assert!(address(&cluster, &pod()).is_err());
        cluster.spec.as_mut().expect("a spec").cluster_ip = Some("10.0.0.9".to_owned());
        assert_eq!(
            address(&cluster, &pod()),
            Ok("10.0.0.9".parse().expect("an address"))
        );
        let node = built(ServiceKind::NodePort);
        assert_eq!(
            address(&node, &pod()),
            Ok("192.0.2.7".parse().expect("an address"))
        );
        assert!(address(&node, &Pod::default()).is_err());
        let balanced = |ip: Option<&str>, hostname: Option<&str>| {
            let mut service = built(ServiceKind::LoadBalancer);
            service.status = Some(ServiceStatus {
                load_balancer: Some(LoadBalancerStatus {
                    ingress: Some(vec![LoadBalancerIngress {
                        ip: ip.map(str::to_owned),
                        hostname: hostname.map(str::to_owned),
                        ..LoadBalancerIngress::default()
                    }]),
                }),
                ..ServiceStatus::default()
            });
            address(&service, &pod())
        };
        assert_eq!(
            balanced(Some("203.0.113.4"), None),
            Ok("203.0.113.4".parse().expect("an address"))
        );
        let named = balanced(None, Some("x.elb.example")).expect_err("a name is no address");
        assert!(named.contains("x.elb.example"), "{named}");
        assert!(address(&built(ServiceKind::LoadBalancer), &pod()).is_err());
    }
}

//! What a Pod's status means for the proxy in it.
//!
//! It must not do I/O. Invariants: only the proxy's own container decides; whatever injectors and
//! admission changed in the Pod's spec is not looked at; a Pod whose node is silent has no state at all.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::{
    ContainerState, ContainerStateTerminated, ContainerStatus, Pod, PodStatus, Service,
};

use super::config::ServiceKind;
use super::pod::CONTAINER;
use super::service;
use crate::contract::{Readiness, State};

/// How far a Pod is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    /// It is on its way, for the first time or after its container ended.
    Starting,
    /// Its Squid runs.
    Runs,
    /// It ended, and nothing in it will run again.
    Ended,
    /// It is being deleted.
    Leaving,
    /// Its node does not report: whether it runs is unknown.
    Silent,
}

/// How far a Pod is, and the cluster's own words for it.
pub(super) fn life(pod: &Pod) -> (Life, Option<String>) {
    let empty = PodStatus::default();
    let status = pod.status.as_ref().unwrap_or(&empty);
    if pod.metadata.deletion_timestamp.is_some() {
        return (Life::Leaving, Some(leaving(pod, status)));
    }
    match status.phase.as_deref() {
        Some("Running") => match squid(status) {
            Some(squid) => of_container(squid),
            // A kubelet that has not said anything of containers yet.
            None => (Life::Runs, None),
        },
        Some("Succeeded") => (Life::Ended, Some(join("Succeeded", ended(status)))),
        Some("Failed") => {
            let why = of_pod(status).unwrap_or_else(|| "Failed".to_owned());
            (Life::Ended, Some(join(&why, ended(status))))
        }
        Some("Unknown") => {
            let why = of_pod(status).unwrap_or_else(|| "phase Unknown".to_owned());
            (Life::Silent, Some(why))
        }
        // Pending, and whatever comes before it.
        _ => (Life::Starting, pending(status)),
    }
}

/// Why a Pod that is being deleted is still there.
fn leaving(pod: &Pod, status: &PodStatus) -> String {
    let disrupted = condition(status, "DisruptionTarget", "True");
    let why = join("it is being deleted", disrupted.or_else(|| of_pod(status)));
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
    let node = node.map(|node| format!("; its node {node} has not said that it ended"));
    let held = held_by(pod.metadata.finalizers.as_deref());
    format!("{why}{}{held}", node.unwrap_or_default())
}

/// Who keeps an object that is being deleted.
pub(super) fn held_by(finalizers: Option<&[String]>) -> String {
    match finalizers {
        None | Some([]) => String::new(),
        Some(finalizers) => format!("; it is held by {}", finalizers.join(", ")),
    }
}

/// State, whether it is started, and its address, of a Pod whose node reports; `None` where it does not.
pub(super) fn seen(pod: &Pod, service: Option<&Service>, pending: bool) -> Option<Seen> {
    let (life, reason) = life(pod);
    let mut seen = Seen {
        state: State::Provisioning,
        started: false,
        ip: None,
        reason,
    };
    match life {
        Life::Silent => return None,
        Life::Ended | Life::Leaving => {
            seen.state = State::Terminated;
            return Some(seen);
        }
        Life::Starting | Life::Runs => {}
    }
    let exposed = service::kind_of(pod) != ServiceKind::None;
    if exposed && service.is_none() && !pending {
        // It was handed over with a Service, which somebody removed: the next apply makes it again.
        seen.state = State::Stopped;
        seen.reason = Some("its Service does not exist any more".to_owned());
        return Some(seen);
    }
    if life == Life::Starting {
        return Some(seen);
    }
    seen.started = true;
    let status = pod.status.as_ref();
    let own = status.and_then(|status| status.pod_ip.as_deref()?.parse::<IpAddr>().ok());
    let address = match (own, exposed, service) {
        (None, _, _) => Err("its Pod has no address".to_owned()),
        (Some(own), false, _) => Ok(own),
        (Some(_), true, None) => Err("its Service does not exist yet".to_owned()),
        (Some(_), true, Some(service)) => service::address(service, pod),
    };
    match address {
        Ok(ip) => {
            seen.state = State::Running;
            seen.ip = Some(ip);
        }
        Err(why) => seen.reason = Some(why),
    }
    Some(seen)
}

/// What a look at a Pod saw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) state: State,
    pub(super) started: bool,
    pub(super) ip: Option<IpAddr>,
    pub(super) reason: Option<String>,
}

/// Whether the Pod's own probe found that it serves.
pub(super) fn readiness(pod: &Pod, seen: &Seen) -> Readiness {
    let empty = PodStatus::default();
    let status = pod.status.as_ref().unwrap_or(&empty);
    let ready = status
        .conditions
        .iter()
        .flatten()
        .any(|condition| condition.type_ == "Ready" && condition.status == "True");
    if ready && seen.state == State::Running {
        return Readiness::Ready;
    }
    let why = condition(status, "Ready", "False").or_else(|| seen.reason.clone());
    Readiness::NotReady(
        why.unwrap_or_else(|| format!("the Pod is {} and its probe has not passed", seen.state)),
    )
}

/// Why a Pod is pending: it has no node, or one of its containers waits for something.
fn pending(status: &PodStatus) -> Option<String> {
    let waiting = containers(status).find_map(|container| {
        let waiting = container.state.as_ref()?.waiting.as_ref()?;
        Some(join(waiting.reason.as_deref()?, waiting.message.clone()))
    });
    condition(status, "PodScheduled", "False")
        .or(waiting)
        .or_else(|| of_pod(status))
}

/// All containers, the proxy's own first, then those that must end before it starts.
fn containers(status: &PodStatus) -> impl Iterator<Item = &ContainerStatus> {
    let all = || {
        status
            .container_statuses
            .iter()
            .flatten()
            .chain(status.init_container_statuses.iter().flatten())
    };
    // One that waits for the others says nothing: `ContainerCreating`, `PodInitializing`.
    let idle = |container: &&ContainerStatus| {
        let reason = container
            .state
            .as_ref()
            .and_then(|state| state.waiting.as_ref()?.reason.as_deref());
        matches!(reason, Some("ContainerCreating" | "PodInitializing"))
    };
    all()
        .filter(move |container| !idle(container) && container.name == CONTAINER)
        .chain(all().filter(move |container| !idle(container) && container.name != CONTAINER))
        .chain(all().filter(idle))
}

fn squid(status: &PodStatus) -> Option<&ContainerStatus> {
    status
        .container_statuses
        .iter()
        .flatten()
        .find(|container| container.name == CONTAINER)
}

/// The proxy's container in a Pod that runs.
fn of_container(squid: &ContainerStatus) -> (Life, Option<String>) {
    let state = squid.state.clone().unwrap_or_default();
    let last = squid
        .last_state
        .as_ref()
        .and_then(|last| last.terminated.as_ref())
        .map(death);
    match state {
        ContainerState {
            waiting: Some(waiting),
            ..
        } => {
            let reason = waiting.reason.unwrap_or_else(|| "waiting".to_owned());
            let now = join(&reason, waiting.message);
            let why = last.map_or(now.clone(), |last| format!("{now}; it ended before: {last}"));
            (Life::Starting, Some(why))
        }
        ContainerState {
            terminated: Some(terminated),
            ..
        } => (
            Life::Starting,
            Some(format!("it ended and is started again: {}", death(&terminated))),
        ),
        ContainerState { .. } => {
            let note = last.map(|last| {
                format!(
                    "started {} times again; it ended before: {last}",
                    squid.restart_count
                )
            });
            (Life::Runs, note)
        }
    }
}

/// How the proxy's container ended.
fn ended(status: &PodStatus) -> Option<String> {
    let state = squid(status)?.state.as_ref()?;
    state.terminated.as_ref().map(death)
}

fn death(terminated: &ContainerStateTerminated) -> String {
    let reason = terminated.reason.as_deref().unwrap_or("ended");
    let how = format!("{reason}, exit code {}", terminated.exit_code);
    join(&how, terminated.message.clone())
}

/// The Pod's own reason, such as `Evicted`.
fn of_pod(status: &PodStatus) -> Option<String> {
    match (&status.reason, &status.message) {
        (Some(reason), message) => Some(join(reason, message.clone())),
        (None, message) => message.clone(),
    }
}

fn condition(status: &PodStatus, kind: &str, value: &str) -> Option<String> {
    let found = status
        .conditions
        .iter()
        .flatten()
        .find(|condition| condition.type_ == kind && condition.status == value)?;
    Some(join(
        found.reason.as_deref().unwrap_or(kind),
        found.message.clone(),
    ))
}

/// The most characters of a message that somebody else wrote.
const LONGEST_MESSAGE: usize = 600;

/// `what: more`, on one line.
pub(super) fn join(what: &str, more: Option<String>) -> String {
    let more = more.unwrap_or_default();
    let words: Vec<_> = more.split_whitespace().collect();
    let mut line = words.join(" ");
    if let Some((cut, _)) = line.char_indices().nth(LONGEST_MESSAGE) {
        line.truncate(cut);
        line.push('…');
    }
    if line.is_empty() {
        what.to_owned()
    } else {
        format!("{what}: {line}")
    }
}

#[cfg(test)]
mod tests;

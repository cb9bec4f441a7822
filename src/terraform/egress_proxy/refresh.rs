//! What a read makes of what it found: drift, imports, and what is no drift at all.
//!
//! Pure. Invariants: what a user wrote stays as written; an address that does not answer just now
//! is no change; an import fills what was given at create and leaves null what was defaulted.

use std::net::IpAddr;

use super::private::Private;
use super::schema::{
    ACCESS, ALLOWED_CIDRS, ALLOWED_DOMAINS, ALLOWED_PORTS, BACKEND, CLOUD_INIT_WO_VERSION, CREATED_AT,
    EGRESS_IP, ID, IMAGE, INCARNATION, IP, LABELS, MACHINE_TYPE, NAME, NAMESPACE, PASSWORD_WO_VERSION,
    PLACEMENT, PORT, PROXY_URL, REGION, SPEC_SHA256, SPOT, STATE, TARGET, UID, USERNAME, WAIT_FOR, ZONE,
};
use super::wait::WaitFor;
use crate::contract::spec::{CloudInitFact, DEFAULT_PORT, PasswordFact};
use crate::contract::{BackendName, Facts, Instance, InstanceId, State, Target};
use crate::plugin::value::Value;

/// The state and private data after a read that found the instance.
pub(super) fn refresh(
    prior: &Value,
    private: &Private,
    instance: &Instance,
    backend: &BackendName,
) -> (Value, Private) {
    let mut state = prior.clone();
    if prior.get(INCARNATION).is_null() {
        import(&mut state, instance, backend);
    }
    set_live(&mut state, prior, instance);
    set_labels(&mut state, instance);
    if target_moved(prior, &instance.target) {
        state.set(TARGET, instance.target.to_string());
    }
    if prior.get(CREATED_AT).is_null() {
        state.set(CREATED_AT, instance.created_at.map(|time| time.to_string()));
    }
    // What is left of an instance may say whose it was and nothing more: what it was is known from before.
    let facts = match &private.facts {
        Some(before) if instance.state == State::Terminated && instance.mark.facts == Facts::default() => {
            before
        }
        Some(_) | None => &instance.mark.facts,
    };
    let private = Private {
        facts: Some(facts.clone()),
        // An instance that was never handed over has a create behind it that did not end.
        unfinished: private.unfinished || instance.mark.pending,
    };
    (state, private)
}

/// What `plan` called unknown and everything else that follows from an instance, after a create.
pub(super) fn set_born(state: &mut Value, instance: &Instance, backend: &BackendName) {
    let id = InstanceId {
        backend: backend.clone(),
        native: instance.id.clone(),
    };
    state.set(ID, id.to_string());
    state.set(UID, instance.mark.uid.to_string());
    state.set(INCARNATION, instance.mark.incarnation.to_string());
    state.set(TARGET, instance.target.to_string());
    state.set(CREATED_AT, instance.created_at.map(|time| time.to_string()));
    state.set(SPEC_SHA256, instance.mark.spec_sha256.clone());
}

/// State and addresses as they are now.
pub(super) fn set_live(state: &mut Value, prior: &Value, instance: &Instance) {
    // The same incarnation runs and was reachable before: that no source knows its address just
    // now (an idle guest's neighbour entry expires) must not plan its dependents away.
    let silent = instance.state == State::Provisioning
        && instance.started
        && instance.ip.is_none()
        && prior.get(STATE).as_str() == Some(State::Running.as_str())
        && !prior.get(IP).is_null();
    if silent {
        return;
    }
    state.set(STATE, instance.state.as_str());
    state.set(IP, instance.ip.map(|ip| ip.to_string()));
    // A backend may learn the egress address only now and then; the address proves it is the same.
    let same_ip = prior.get(IP).as_str() == instance.ip.map(|ip| ip.to_string()).as_deref();
    if instance.egress_ip.is_some() || !same_ip {
        state.set(EGRESS_IP, instance.egress_ip.map(|ip| ip.to_string()));
    } else if prior.get(EGRESS_IP).is_unknown() {
        state.set(EGRESS_IP, Value::Null);
    }
    let port = instance.mark.facts.port.unwrap_or(DEFAULT_PORT);
    state.set(PROXY_URL, instance.ip.map(|ip| proxy_url(ip, port)));
}

/// The address of a proxy as clients are given it; without credentials.
pub(super) fn proxy_url(ip: IpAddr, port: u16) -> String {
    format!("http://{}", std::net::SocketAddr::new(ip, port))
}

fn set_labels(state: &mut Value, instance: &Instance) {
    let nothing_given = state.get(LABELS).is_null();
    if !(nothing_given && instance.labels.is_empty()) {
        state.set(LABELS, instance.labels.clone());
    }
}

/// Whether the recorded target must be replaced: there is none, or another one has our incarnation,
/// which proves that the target is the same under a new face. Otherwise the record stays, because
/// an admin and a CI role know different facts of one target, and would rewrite it for ever.
fn target_moved(prior: &Value, found: &Target) -> bool {
    match prior.get(TARGET).as_str().map(str::parse::<Target>) {
        Some(Ok(recorded)) => recorded.conflict(found).is_some(),
        Some(Err(_)) | None => true,
    }
}

/// Fills the state of an import: what was given at create, and the constant defaults.
fn import(state: &mut Value, instance: &Instance, backend: &BackendName) {
    let mark = &instance.mark;
    let given = mark.given_facts();
    set_born(state, instance, backend);
    state.set(NAME, mark.key.name.as_str());
    state.set(NAMESPACE, mark.key.namespace.as_str());
    state.set(BACKEND, backend.as_str());
    state.set(PORT, mark.facts.port.unwrap_or(DEFAULT_PORT));
    state.set(WAIT_FOR, WaitFor::default().as_str());
    state.set(PLACEMENT, placement(&given));
    state.set(ACCESS, access(&given));
    state.set(
        CLOUD_INIT_WO_VERSION,
        match given.cloud_init {
            Some(CloudInitFact::Version(version)) => Value::from(version),
            Some(CloudInitFact::TextSha256(_)) | None => Value::Null,
        },
    );
}

fn placement(given: &Facts) -> Value {
    block([
        (ZONE, given.zone.clone().into()),
        (REGION, given.region.clone().into()),
        (MACHINE_TYPE, given.machine_type.clone().into()),
        (IMAGE, given.image.clone().into()),
        (SPOT, given.spot.into()),
    ])
}

fn access(given: &Facts) -> Value {
    let texts = |cidrs: &Vec<ipnet::IpNet>| cidrs.iter().map(ToString::to_string).collect::<Vec<_>>();
    let password_version = match &given.password {
        Some(PasswordFact::Version(version)) => Some(version.clone()),
        Some(PasswordFact::HashSha256(_)) | None => None,
    };
    block([
        (ALLOWED_CIDRS, given.allowed_cidrs.as_ref().map(texts).into()),
        (ALLOWED_PORTS, given.allowed_ports.clone().into()),
        (ALLOWED_DOMAINS, given.allowed_domains.clone().into()),
        (USERNAME, given.username.clone().into()),
        (PASSWORD_WO_VERSION, password_version.into()),
        (super::schema::PASSWORD_WO, Value::Null),
        (super::schema::PASSWORD_HASH, Value::Null),
    ])
}

/// A block of arguments; null where none was given.
fn block<const N: usize>(arguments: [(&str, Value); N]) -> Value {
    if arguments.iter().all(|(_, value)| value.is_null()) {
        return Value::Null;
    }
    Value::object(arguments)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::{InstanceKey, NewInstance};
    use crate::terraform::egress_proxy::import::empty;

    fn remains(facts: Facts) -> Instance {
        let key = InstanceKey {
            installation: "prod".parse().expect("a name"),
            namespace: "default".parse().expect("a name"),
            name: "a".parse().expect("a name"),
        };
        Instance {
            id: "hosts/h1/domains/a".parse().expect("an id"),
            mark: NewInstance::new(key, facts, Default::default()).pending_mark(None),
            target: Target::default(),
            state: State::Terminated,
            started: false,
            ip: None,
            egress_ip: None,
            created_at: None,
            labels: Default::default(),
            reason: None,
        }
    }

    #[test]
    fn remains_that_say_nothing_take_nothing_from_what_is_known() {
        let known = Facts {
            zone: Some("h1".to_owned()),
            ..Facts::default()
        };
        let before = Private {
            facts: Some(known.clone()),
            ..Private::default()
        };
        let backend: BackendName = "lab".parse().expect("a name");
        let facts = |private: &Private, instance: &Instance| {
            let (_, private) = refresh(&empty(), private, instance, &backend);
            private.facts
        };
        let silent = remains(Facts::default());
        assert_eq!(facts(&before, &silent), Some(known));
        assert_eq!(facts(&Private::default(), &silent), Some(Facts::default()));
        let running = Instance {
            state: State::Running,
            ..silent
        };
        assert_eq!(facts(&before, &running), Some(Facts::default()));
        let other = Facts {
            zone: Some("h2".to_owned()),
            ..Facts::default()
        };
        assert_eq!(facts(&before, &remains(other.clone())), Some(other));
    }
}

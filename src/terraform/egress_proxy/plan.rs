//! What a plan says: create, replace, update in place or nothing.
//!
//! Pure: it reads configuration and state and asks a backend only what a specification means, which
//! is no I/O. Invariants: a replacement is planned only where an effective value differs, is unknown,
//! or the instance is gone for good; what is known in a plan is known rightly, because core holds
//! the apply to it.

mod difference;
mod kept;

use std::collections::BTreeMap;

use self::difference::{Asked, current_facts, differing_facts};
use self::kept::warn_of_kept;
use super::given::{Given, Versions, cloud_init_warning};
use super::private::Private;
use super::schema::{
    ACCESS, ALLOWED_CIDRS, ALLOWED_DOMAINS, ALLOWED_PORTS, BACKEND, BORN_WITH, CLOUD_INIT, CLOUD_INIT_WO, ID,
    LABELS, LIVE, NAME, NAMESPACE, PASSWORD_WO, PORT, SPEC_SHA256, STATE, UID, WAIT_FOR, path_of,
};
use super::validate;
use super::wait::WaitFor;
use crate::config::Field;
use crate::contract::spec::DEFAULT_PORT;
use crate::contract::{
    BackendName, InstanceId, InstanceKey, Namespace, Problem, ProxyName, Resolved, Specification, State,
};
use crate::plugin::diagnostics::{Diagnostic, Diagnostics, Path, sentence};
use crate::plugin::value::{Refinements, Value};
use crate::terraform::session::{Open, Session};

/// What is planned.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// The state after the apply.
    pub(super) planned: Value,
    /// What needs a new instance.
    pub(super) replace: Vec<Path>,
    /// Handed to the apply.
    pub(super) private: Private,
    /// What to tell.
    pub(super) diagnostics: Diagnostics,
}

/// What a specification means on its backend.
#[derive(Debug)]
pub(super) struct Resolution<'s> {
    /// The backend.
    pub(super) open: &'s Open,
    /// Who it is.
    pub(super) key: InstanceKey,
    /// Its id, effective facts, and what to know about them.
    pub(super) resolved: Resolved,
}

impl Resolution<'_> {
    /// The id in the state.
    pub(super) fn id(&self) -> InstanceId {
        InstanceId {
            backend: self.open.name.clone(),
            native: self.resolved.id.clone(),
        }
    }
}

/// Plans a create: `proposed` is the configuration, since there is no state. `replaces`: of what takes
/// the place of another instance.
pub(super) fn create(proposed: Value, config: &Value, replaces: bool, session: &Session) -> Plan {
    let mut diagnostics = Diagnostics::new();
    let versions = if replaces {
        Versions::Alone
    } else {
        Versions::WithValues
    };
    let given = validate::check(config, versions, &mut diagnostics);
    let mut planned = without_write_only(proposed);
    set_constant_defaults(&mut planned, config);
    for name in LIVE.iter().chain(&BORN_WITH) {
        planned.set(*name, unknown_for(name));
    }
    if !diagnostics.has_errors() {
        match complete(&mut planned, config, &given, session) {
            Ok(Some(resolution)) => {
                for warning in &resolution.resolved.warnings {
                    diagnostics.push(
                        Diagnostic::warning(warning.title.clone())
                            .detail(warning.message.clone())
                            .at(path_of(warning.fact)),
                    );
                }
                let spec_sha256 = resolution.resolved.facts.sha256();
                let uid = crate::contract::Uid::of(&resolution.key, &spec_sha256);
                planned.set(ID, resolution.id().to_string());
                planned.set(UID, uid.to_string());
                planned.set(SPEC_SHA256, spec_sha256);
            }
            Ok(None) => {}
            Err(problems) => diagnostics.extend(problems),
        }
    }
    if let Some(warning) = config.get(CLOUD_INIT).as_str().and_then(cloud_init_warning) {
        diagnostics.push(
            Diagnostic::warning("The cloud-init document will be ignored")
                .detail(warning)
                .at(Path::root().attribute(CLOUD_INIT)),
        );
    }
    Plan {
        planned,
        diagnostics,
        ..Plan::default()
    }
}

/// Fills backend and namespace in, and resolves what is specified, as far as everything is known.
pub(super) fn complete<'s>(
    planned: &mut Value,
    config: &Value,
    given: &Given,
    session: &'s Session,
) -> Result<Option<Resolution<'s>>, Diagnostics> {
    let backend = match Field::string(config.get(BACKEND)) {
        Field::Known(name) => name.parse::<BackendName>().ok(),
        Field::Unknown => None,
        Field::Null => session.only_backend()?.cloned(),
    };
    planned.set(
        BACKEND,
        known_or_unknown(backend.as_ref().map(BackendName::as_str)),
    );
    let open = match &backend {
        Some(name) => session
            .backend(name)
            .map_err(|error| error.at(Path::root().attribute(BACKEND)))?,
        None => None,
    };
    let namespace = match Field::string(config.get(NAMESPACE)) {
        Field::Known(name) => name.parse::<Namespace>().ok(),
        Field::Unknown => None,
        Field::Null => open.map(|open| open.default_namespace.clone()),
    };
    planned.set(
        NAMESPACE,
        known_or_unknown(namespace.as_ref().map(Namespace::as_str)),
    );
    let name = config
        .get(NAME)
        .as_str()
        .and_then(|name| name.parse::<ProxyName>().ok());
    let (Some(open), Some(namespace), Some(name)) = (open, namespace, name) else {
        return Ok(None);
    };
    let Some(installation) = session.installation().filter(|_| given.unknown.is_empty()) else {
        return Ok(None);
    };
    let specification = Specification {
        key: InstanceKey {
            installation,
            namespace,
            name,
        },
        given: given.facts.clone(),
        labels: known_labels(config),
    };
    match open.backend.resolve(&specification) {
        Ok(resolved) => Ok(Some(Resolution {
            open,
            key: specification.key,
            resolved,
        })),
        Err(problems) => Err(problems
            .into_iter()
            .map(|problem| refused(problem, open))
            .collect()),
    }
}

/// Plans for a proxy that exists.
pub(super) fn update(
    prior: &Value,
    proposed: Value,
    config: &Value,
    private: Private,
    session: &Session,
) -> Plan {
    let mut diagnostics = Diagnostics::new();
    let given = validate::check(config, Versions::AsIn(prior), &mut diagnostics);
    let mut planned = without_write_only(proposed);
    set_constant_defaults(&mut planned, config);
    keep_spelling(&mut planned, prior, config, &given);

    let mut replace: Vec<Path> = [NAME, NAMESPACE, BACKEND]
        .into_iter()
        .filter(|name| !config.get(name).is_null() && config.get(name) != prior.get(name))
        .map(|name| Path::root().attribute(name))
        .collect();
    let current = current_facts(prior, &private);
    let relabelled = planned.get(LABELS) != prior.get(LABELS);
    let differing = differing_facts(
        &Asked {
            given: &given,
            current: &current,
            relabelled,
        },
        prior,
        config,
        session,
        &mut diagnostics,
    );
    replace.extend(differing.places(&current, prior, &planned, &mut diagnostics));
    let state = prior.get(STATE).as_str();
    if state == Some(State::Terminated.as_str()) {
        replace.push(Path::root().attribute(STATE));
    }

    if !replace.is_empty() {
        for name in LIVE.iter().chain(&BORN_WITH) {
            planned.set(*name, unknown_for(name));
        }
    } else {
        warn_of_kept(prior, config, &current, &mut diagnostics);
        if private.unfinished || state == Some(State::Stopped.as_str()) {
            for name in LIVE {
                planned.set(name, unknown_for(name));
            }
        }
    }
    drop(current);
    Plan {
        planned,
        replace,
        private,
        diagnostics,
    }
}

/// The labels of a configuration, as far as they are known.
pub(super) fn known_labels(config: &Value) -> BTreeMap<String, String> {
    let labels = config.get(LABELS).as_map().into_iter().flatten();
    labels
        .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
        .collect()
}

/// Says what a backend refused.
pub(super) fn refused(problem: Problem, open: &Open) -> Diagnostic {
    Diagnostic::error(format!("Backend {:?} cannot make this proxy", open.name.as_str()))
        .detail(sentence(&problem.message))
        .at(path_of(problem.fact))
}

fn set_constant_defaults(planned: &mut Value, config: &Value) {
    if config.get(PORT).is_null() {
        planned.set(PORT, DEFAULT_PORT);
    }
    if config.get(WAIT_FOR).is_null() {
        planned.set(WAIT_FOR, WaitFor::default().as_str());
    }
}

/// Core takes no write-only value in a plan.
fn without_write_only(mut proposed: Value) -> Value {
    if !proposed.get(CLOUD_INIT_WO).is_null() {
        proposed.set(CLOUD_INIT_WO, Value::Null);
    }
    if !proposed.get(ACCESS).get(PASSWORD_WO).is_null()
        && let Some(access) = proposed.as_map_mut().and_then(|entries| entries.get_mut(ACCESS))
    {
        access.set(PASSWORD_WO, Value::Null);
    }
    proposed
}

/// Where configuration and state mean the same, the state's spelling stays, and nothing is planned.
fn keep_spelling(planned: &mut Value, prior: &Value, config: &Value, given: &Given) {
    let differ =
        |old: &Value, new: &Value| old != new && !old.is_null() && !new.is_null() && new.is_wholly_known();
    let lists = [ALLOWED_CIDRS, ALLOWED_PORTS, ALLOWED_DOMAINS];
    let respelled: Vec<_> = lists
        .into_iter()
        .filter(|name| differ(prior.get(ACCESS).get(name), config.get(ACCESS).get(name)))
        .collect();
    let text_respelled = differ(prior.get(CLOUD_INIT), config.get(CLOUD_INIT));
    if respelled.is_empty() && !text_respelled {
        return;
    }
    let before = Given::read(prior, &mut Diagnostics::new()).facts.canonical();
    let now = given.facts.clone().canonical();
    for name in respelled {
        let same = match name {
            ALLOWED_CIDRS => before.allowed_cidrs == now.allowed_cidrs,
            ALLOWED_PORTS => before.allowed_ports == now.allowed_ports,
            _ => before.allowed_domains == now.allowed_domains,
        };
        if same && let Some(access) = planned.as_map_mut().and_then(|entries| entries.get_mut(ACCESS)) {
            access.set(name, prior.get(ACCESS).get(name).clone());
        }
    }
    if text_respelled && before.cloud_init == now.cloud_init {
        planned.set(CLOUD_INIT, prior.get(CLOUD_INIT).clone());
    }
}

fn known_or_unknown(text: Option<&str>) -> Value {
    text.map_or_else(Value::unknown, Value::from)
}

/// An unknown value for a computed attribute, with what is promised about it.
fn unknown_for(name: &str) -> Value {
    match name {
        ID | UID | SPEC_SHA256 => Refinements::default().not_null().into(),
        _ => Value::unknown(),
    }
}

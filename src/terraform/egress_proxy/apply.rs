//! Apply: create, update in place, destroy, and what the state holds after each way they can end.
//!
//! Must not decide what changes (the plan did). Invariants: an instance that the backend accepted is
//! in the returned state however the operation ended; a failure of create taints, an interruption
//! does not; a secret leaves this module only inside [`Secrets`].

mod end;
mod waiting;

use self::end::{End, last_words};
use self::waiting::Wait;
use super::given::Versions;
use super::private::Private;
use super::schema::{
    ACCESS, BORN_WITH, CLOUD_INIT, CLOUD_INIT_WO, LABELS, PASSWORD_HASH, PASSWORD_WO, STATE, UID,
};
use super::{about, id_of, identity_of, incarnation_of, plan, refresh, target_of, validate};
use crate::contract::{
    Accepted, CreateRequest, DeleteRequest, Incarnation, Instance, InstanceId, NewInstance, Resume, Secret,
    Secrets, Uid,
};
use crate::plugin::diagnostics::{Diagnostic, Diagnostics, Path};
use crate::plugin::provider::{ApplyRequest, ApplyResponse, Call};
use crate::plugin::value::Value;
use crate::squid;
use crate::terraform::failure;
use crate::terraform::lifecycle::{self, Awaited, Ended};
use crate::terraform::session::{Open, Session};
use crate::terraform::timeouts::{self, Timeout};
use crate::transport::call::Limits;

/// Makes a plan come true.
pub(super) async fn apply(call: &Call, session: &Session, request: ApplyRequest) -> ApplyResponse {
    if request.planned.is_null() {
        destroy(call, session, request).await
    } else if request.prior.is_null() {
        create(call, session, request).await
    } else {
        update(call, session, request).await
    }
}

/// A response without a state: nothing was made.
fn nothing(problems: impl Into<Diagnostics>) -> ApplyResponse {
    ApplyResponse {
        diagnostics: problems.into(),
        ..ApplyResponse::default()
    }
}

/// The state of an instance that exists, in whatever condition.
fn held(planned: &Value, instance: &Instance, open: &Open, unfinished: bool) -> ApplyResponse {
    let mut state = planned.clone();
    refresh::set_born(&mut state, instance, &open.name);
    refresh::set_live(&mut state, planned, instance);
    let private = Private {
        facts: Some(instance.mark.facts.clone()),
        unfinished,
    };
    let state = state.unknowns_to_null();
    ApplyResponse {
        identity: identity_of(&state),
        private: private.encode(),
        state,
        diagnostics: Diagnostics::new(),
    }
}

/// Leaves the newest sight of an instance with the call, as the response that is made of it, when a
/// panic unwinds through what follows.
struct Checkpoint<'a, F: Fn(&Instance) -> ApplyResponse> {
    call: &'a Call,
    accepted: &'a Accepted,
    response: F,
}

impl<F: Fn(&Instance) -> ApplyResponse> Drop for Checkpoint<'_, F> {
    fn drop(&mut self) {
        if std::thread::panicking()
            && let Some(instance) = self.accepted.last()
        {
            self.call.checkpoint((self.response)(&instance));
        }
    }
}

async fn create(call: &Call, session: &Session, request: ApplyRequest) -> ApplyResponse {
    let mut planned = request.planned;
    let prepared = prepare(&mut planned, &request.config, session);
    let (open, new, id) = match prepared {
        Ok(prepared) => prepared,
        Err(problems) => return nothing(problems),
    };
    let (key, incarnation) = (new.key.clone(), new.incarnation);
    let native = id.native.clone();
    let time = Timeout::Create.of(&planned);
    let limits = Limits::new(time, call.token().clone());
    let accepted = Accepted::new();
    let checkpoint = Checkpoint {
        call,
        accepted: &accepted,
        response: |instance: &Instance| held(&planned, instance, open, true),
    };
    let create = CreateRequest::New(Box::new(new));
    let created = match lifecycle::create(open, &create, &accepted, &limits).await {
        Ok(created) => created,
        Err(ended) => {
            let end = End { id: &id, time };
            let Some(instance) = accepted.last() else {
                return nothing(end.before_acceptance(ended));
            };
            let mut response = held(&planned, &instance, open, true);
            response.diagnostics.push(end.after_acceptance(ended, &instance));
            return response;
        }
    };
    accepted.report(created.instance.clone());
    let awaited = Awaited {
        id: &native,
        incarnation,
        installation: &key.installation,
    };
    let wait = Wait::new(open, &id, &planned, Timeout::Create, time);
    let mut response = wait.through(created.instance, awaited, &accepted, &limits).await;
    drop(checkpoint);
    response.diagnostics.0.splice(0..0, about(&id, &created.warnings));
    response
}

/// Everything a create needs, from what was planned and configured.
fn prepare<'s>(
    planned: &mut Value,
    config: &Value,
    session: &'s Session,
) -> Result<(&'s Open, NewInstance, InstanceId), Diagnostics> {
    let mut problems = Diagnostics::new();
    let given = validate::check(config, Versions::WithValues, &mut problems);
    problems.into_result()?;
    // Names the value that is still unknown, where one is.
    session.owner()?;
    if let Some(name) = planned
        .get(super::BACKEND)
        .as_str()
        .and_then(|name| name.parse().ok())
    {
        session.open(&name)?;
    }
    let promised = planned.get(UID).as_str().map(str::to_owned);
    let resolution = plan::complete(planned, config, &given, session)?;
    let Some(resolution) = resolution else {
        return Err(Diagnostic::error("The proxy cannot be created yet")
            .detail("Part of its configuration is still unknown. Plan and apply again.")
            .into());
    };
    let spec_sha256 = resolution.resolved.facts.sha256();
    let uid = Uid::of(&resolution.key, &spec_sha256);
    if let Some(promised) = promised
        && promised != uid.to_string()
    {
        return Err(Diagnostic::error("The plan is out of date")
            .detail(format!(
                "It is for a proxy with the uid {promised}; the configuration is that of {uid} by now. The provider's configuration changed between plan and apply: plan again."
            ))
            .into());
    }
    let id = resolution.id();
    let secrets = secrets(config)?;
    session.claim(&id)?;
    let new = NewInstance {
        uid,
        incarnation: Incarnation::fresh(),
        spec_sha256,
        given: given.facts.present(),
        labels: plan::known_labels(config),
        secrets,
        adopt: session.adopt()?,
        facts: resolution.resolved.facts,
        key: resolution.key,
    };
    Ok((resolution.open, new, id))
}

/// What no mark may hold. A password leaves the provider only as its hash.
fn secrets(config: &Value) -> Result<Secrets, Diagnostic> {
    let access = config.get(ACCESS);
    let password_hash = match (
        access.get(PASSWORD_WO).as_str(),
        access.get(PASSWORD_HASH).as_str(),
    ) {
        (Some(password), _) => Some(squid::password::hash(&Secret::new(password)).map_err(|error| {
            Diagnostic::error("The password cannot be hashed")
                .detail(failure::sentence(&error.to_string()))
                .at(Path::root().attribute(ACCESS).attribute(PASSWORD_WO))
        })?),
        (None, Some(hash)) => Some(Secret::new(hash)),
        (None, None) => None,
    };
    let document = [CLOUD_INIT_WO, CLOUD_INIT].map(|name| config.get(name).as_str());
    Ok(Secrets {
        password_hash,
        cloud_init: document.into_iter().flatten().next().map(Secret::new),
    })
}

async fn update(call: &Call, session: &Session, request: ApplyRequest) -> ApplyResponse {
    let ApplyRequest {
        prior,
        planned,
        config,
        private,
        identity,
        ..
    } = request;
    let wakes = planned.get(STATE).is_unknown();
    let relabels = planned.get(LABELS) != prior.get(LABELS);
    if !wakes && !relabels {
        // Only what the state alone holds has changed: another spelling, a timeout, a wait.
        return ApplyResponse {
            identity: identity_of(&planned),
            state: planned,
            private,
            diagnostics: Diagnostics::new(),
        };
    }
    let failed = |error: Diagnostic| ApplyResponse {
        state: prior.clone(),
        private: private.clone(),
        identity: identity.clone().or_else(|| identity_of(&prior)),
        diagnostics: error.into(),
    };
    let (id, open, resume) = match prepare_resume(&prior, &config, session) {
        Ok(prepared) => prepared,
        Err(error) => return failed(error),
    };
    let time = Timeout::Update.of(&planned);
    let limits = Limits::new(time, call.token().clone());
    let accepted = Accepted::new();
    // What the plan wanted may not have been done yet: it is the prior state, as a read would find it.
    let checkpoint = Checkpoint {
        call,
        accepted: &accepted,
        response: |instance: &Instance| {
            let (state, mut seen) =
                refresh::refresh(&prior, &Private::decode(&private), instance, &open.name);
            seen.unfinished |= wakes;
            ApplyResponse {
                identity: identity_of(&state),
                private: seen.encode(),
                state,
                diagnostics: Diagnostics::new(),
            }
        },
    };
    let awaited_incarnation = resume.incarnation;
    let installation = resume.installation.clone();
    let resume = CreateRequest::Resume(Box::new(resume));
    let resumed = match lifecycle::create(open, &resume, &accepted, &limits).await {
        Ok(resumed) => resumed,
        Err(Ended::Failed(error)) => {
            return failed(failure::diagnostic(&error, "Cannot update", &id.to_string()));
        }
        Err(Ended::OutOfTime(last)) => {
            return failed(
                Diagnostic::error(format!("Updating {id} took longer than {}", timeouts::show(time))).detail(
                    format!(
                        "{}\n\nThe state is kept as it was. Apply again, or raise timeouts.update.",
                        last_words(last)
                    ),
                ),
            );
        }
        Err(Ended::Stopped) => {
            return failed(
                Diagnostic::error(format!("Updating {id} was interrupted"))
                    .detail("The state is kept as it was. Apply again."),
            );
        }
    };
    let mut response = if wakes {
        let awaited = Awaited {
            id: &id.native,
            incarnation: awaited_incarnation,
            installation: &installation,
        };
        accepted.report(resumed.instance.clone());
        let wait = Wait::new(open, &id, &planned, Timeout::Update, time);
        let mut response = wait.through(resumed.instance, awaited, &accepted, &limits).await;
        keep(&mut response.state, &planned, &BORN_WITH);
        drop(checkpoint);
        response
    } else {
        drop(checkpoint);
        ApplyResponse {
            identity: identity_of(&planned),
            state: planned,
            private,
            diagnostics: Diagnostics::new(),
        }
    };
    response.diagnostics.0.splice(0..0, about(&id, &resumed.warnings));
    response
}

/// What an update promised to keep stays, whatever spelling the backend has for it now.
fn keep(state: &mut Value, planned: &Value, names: &[&str]) {
    for name in names {
        if planned.get(name).is_wholly_known() {
            state.set(*name, planned.get(name).clone());
        }
    }
}

fn prepare_resume<'s>(
    prior: &Value,
    config: &Value,
    session: &'s Session,
) -> Result<(InstanceId, &'s Open, Resume), Diagnostic> {
    let id = id_of(prior)?;
    let open = session.open(&id.backend)?;
    let Some(incarnation) = incarnation_of(prior)? else {
        return Err(Diagnostic::error(format!("The state of {id} has no incarnation"))
            .detail("Without it nothing tells this instance from another one of its name. Run a plan that refreshes the state first."));
    };
    let resume = Resume {
        id: id.native.clone(),
        incarnation,
        installation: session.owner()?,
        labels: plan::known_labels(config),
        prior_label_keys: plan::known_labels(prior).into_keys().collect(),
    };
    Ok((id, open, resume))
}

async fn destroy(call: &Call, session: &Session, request: ApplyRequest) -> ApplyResponse {
    let prior = request.prior;
    let prepared = id_of(&prior).and_then(|id| {
        let open = session.open(&id.backend)?;
        let delete = DeleteRequest {
            id: id.native.clone(),
            incarnation: incarnation_of(&prior)?,
            installation: session.owner()?,
            recorded_target: target_of(&prior),
        };
        Ok((id, open, delete))
    });
    let (id, open, delete) = match prepared {
        Ok(prepared) => prepared,
        Err(error) => {
            return ApplyResponse {
                state: prior,
                private: request.private,
                identity: request.identity,
                diagnostics: error.into(),
            };
        }
    };
    let time = Timeout::Delete.of(&prior);
    let limits = Limits::new(time, call.token().clone());
    let error = match lifecycle::delete(open, &delete, &limits).await {
        Ok(told) => {
            return ApplyResponse {
                diagnostics: about(&id, told.as_slice()).into_iter().collect(),
                ..ApplyResponse::default()
            };
        }
        Err(Ended::Failed(error)) => failure::diagnostic(&error, "Cannot delete", &id.to_string()),
        Err(Ended::OutOfTime(last)) => {
            Diagnostic::error(format!("Deleting {id} took longer than {}", timeouts::show(time))).detail(
                format!(
                    "{}\n\nIt stays in the state. Apply again, or raise timeouts.delete.",
                    last_words(last)
                ),
            )
        }
        Err(Ended::Stopped) => Diagnostic::error(format!("Deleting {id} was interrupted"))
            .detail("It stays in the state. Apply again: what is gone already is passed over."),
    };
    ApplyResponse {
        identity: request.identity.or_else(|| identity_of(&prior)),
        state: prior,
        private: request.private,
        diagnostics: error.into(),
    }
}

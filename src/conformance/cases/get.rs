//! Cases of get: what it finds, what proves absence, and what does not.

use super::Trial;
use crate::conformance::trial::failed;
use crate::conformance::{Broken, Control, Stage, Verdict, must};
use crate::contract::profile::SecondaryResources;
use crate::contract::{ErrorKind, Incarnation, Instance, Readiness, State, Target};

pub(super) async fn get_finds_what_was_created(trial: &Trial<'_>) -> Verdict {
    let wanted = trial.wanted("a")?;
    let created = trial.created(&wanted).await?;
    let got = trial.got(&created).await?;
    must!(got.id == wanted.id, "found {} instead of {}", got.id, wanted.id);
    must!(
        got.mark.given == wanted.request.given && got.mark.facts == wanted.request.facts,
        "{:?} became {:?}",
        wanted.request,
        got.mark
    );
    Ok(())
}

pub(super) async fn get_of_nothing_is_not_found(trial: &Trial<'_>) -> Verdict {
    let wanted = trial.wanted("a")?;
    let request = trial.read(&wanted.id, Some(wanted.request.incarnation));
    let error = failed(trial.backend().get(&request).await, ErrorKind::NotFound)?;
    must!(!error.is_noteworthy(), "plain absence is no news: {error}");
    Ok(())
}

/// The same target as recorded from something else: its strongest fact differs.
pub(super) fn elsewhere(instance: &Instance) -> Result<Target, Broken> {
    let strongest = instance.target.to_string();
    let (name, _) = strongest
        .split_once('=')
        .ok_or_else(|| Broken("the target has no fact".into()))?;
    format!("{name}=another")
        .parse()
        .map_err(|invalid| Broken(format!("{invalid}")))
}

pub(super) async fn get_proves_absence_on_the_recorded_target_only(trial: &Trial<'_>) -> Verdict {
    let there = trial.created(&trial.wanted("a")?).await?;
    let absent = trial.wanted("b")?;
    let mut request = trial.read(&absent.id, Some(absent.request.incarnation));
    request.recorded_target = Some(elsewhere(&there)?);
    let error = failed(trial.backend().get(&request).await, ErrorKind::Permanent)?;
    must!(
        error.message().contains("state rm"),
        "\"{error}\" names no way out"
    );
    Ok(())
}

pub(super) async fn get_of_our_incarnation_needs_no_target(trial: &Trial<'_>) -> Verdict {
    let there = trial.created(&trial.wanted("a")?).await?;
    let mut request = trial.read(&there.id, Some(there.mark.incarnation));
    request.recorded_target = Some(elsewhere(&there)?);
    trial.backend().get(&request).await?;
    Ok(())
}

pub(super) async fn get_reports_remains_as_terminated(trial: &Trial<'_>) -> Verdict {
    let instance = trial.created(&trial.wanted("a")?).await?;
    trial.stage(Control::LeaveRemains(&instance.id)).await?;
    match trial.profile().secondary_resources {
        SecondaryResources::Explicit => {
            let state = trial.got(&instance).await?.state;
            must!(state == State::Terminated, "remains are {state}");
        }
        SecondaryResources::None | SecondaryResources::Cascade => {
            failed(trial.try_get(&instance).await, ErrorKind::NotFound)?;
        }
    }
    Ok(())
}

pub(super) async fn get_of_another_incarnation_is_noteworthy_absence(trial: &Trial<'_>) -> Verdict {
    let instance = trial.created(&trial.wanted("a")?).await?;
    let mut other = instance.clone();
    other.mark.incarnation = Incarnation::fresh();
    let error = failed(trial.try_get(&other).await, ErrorKind::NotFound)?;
    let found = instance.mark.incarnation.to_string();
    must!(
        error.is_noteworthy() && error.message().contains(&found),
        "it is not said whose it is: {error}"
    );
    Ok(())
}

pub(super) async fn get_of_another_installation_is_permanent(trial: &Trial<'_>) -> Verdict {
    let instance = trial.created(&trial.wanted("a")?).await?;
    let mut request = trial.read(&instance.id, Some(instance.mark.incarnation));
    request.installation = trial.other_installation();
    let error = failed(trial.backend().get(&request).await, ErrorKind::Permanent)?;
    for installation in [trial.installation(), trial.other_installation()] {
        must!(
            error.message().contains(installation.as_str()),
            "\"{error}\" does not name {installation}"
        );
    }
    Ok(())
}

pub(super) async fn get_of_a_stripped_mark_is_permanent(trial: &Trial<'_>) -> Verdict {
    let instance = trial.created(&trial.wanted("a")?).await?;
    trial.stage(Control::StripMark(&instance.id)).await?;
    let error = failed(trial.try_get(&instance).await, ErrorKind::Permanent)?;
    must!(error.message().contains("adopt"), "\"{error}\" names no way out");
    Ok(())
}

pub(super) async fn get_of_a_malformed_id_is_permanent(trial: &Trial<'_>) -> Verdict {
    let ids = trial.harness().malformed_ids();
    must!(!ids.is_empty(), "the harness names no malformed id");
    for id in ids {
        let request = trial.read(&id, Some(Incarnation::fresh()));
        let error = failed(trial.backend().get(&request).await, ErrorKind::Permanent)?;
        must!(
            error.message().contains(id.as_str()),
            "\"{error}\" does not name {id}"
        );
    }
    Ok(())
}

pub(super) async fn get_on_an_unconfigured_part_is_permanent(trial: &Trial<'_>) -> Verdict {
    let instance = trial.created(&trial.wanted("a")?).await?;
    let backend = trial.harness().backend_without(&instance.id)?;
    let request = trial.read(&instance.id, Some(instance.mark.incarnation));
    let error = failed(backend.get(&request).await, ErrorKind::Permanent)?;
    must!(
        error.message().contains("estore"),
        "\"{error}\" does not say what to restore"
    );
    Ok(())
}

pub(super) async fn get_from_what_does_not_answer_is_no_answer(trial: &Trial<'_>) -> Verdict {
    let instance = trial.created(&trial.wanted("a")?).await?;
    trial.stage(Control::Unreachable(&instance.id)).await?;
    failed(trial.try_get(&instance).await, ErrorKind::Transient)?;
    Ok(())
}

pub(super) async fn get_never_writes(trial: &Trial<'_>) -> Verdict {
    let wanted = trial.wanted("a")?;
    trial.cut_off(&wanted, Stage::Handover).await?;
    let before = trial.sight(&wanted.id).await?;
    for incarnation in [None, Some(wanted.request.incarnation), Some(Incarnation::fresh())] {
        // What it answers is another case's business.
        let _ = trial.backend().get(&trial.read(&wanted.id, incarnation)).await;
    }
    let after = trial.sight(&wanted.id).await?;
    must!(before == after, "{before:?} became {after:?}");
    Ok(())
}

/// What get says of an instance that was put into that state; `None` where that never comes.
async fn seen_as(trial: &Trial<'_>, state: State) -> Result<Option<Instance>, Broken> {
    if !trial.profile().states.contains(&state) {
        return Ok(None);
    }
    let instance = trial.created(&trial.wanted("a")?).await?;
    trial.stage(Control::SetState(&instance.id, state)).await?;
    trial.got(&instance).await.map(Some)
}

pub(super) async fn get_reports_stopped(trial: &Trial<'_>) -> Verdict {
    if let Some(seen) = seen_as(trial, State::Stopped).await? {
        must!(
            seen.state == State::Stopped && seen.ip.is_none(),
            "seen as {seen:?}"
        );
    }
    Ok(())
}

pub(super) async fn get_reports_terminated(trial: &Trial<'_>) -> Verdict {
    if let Some(seen) = seen_as(trial, State::Terminated).await? {
        must!(
            seen.state == State::Terminated && seen.ip.is_none(),
            "seen as {seen:?}"
        );
    }
    Ok(())
}

pub(super) async fn get_reports_provisioning(trial: &Trial<'_>) -> Verdict {
    if let Some(seen) = seen_as(trial, State::Provisioning).await? {
        must!(
            seen.state == State::Provisioning && !seen.started,
            "seen as {seen:?}"
        );
    }
    Ok(())
}

pub(super) async fn get_reports_running(trial: &Trial<'_>) -> Verdict {
    if let Some(seen) = seen_as(trial, State::Running).await? {
        must!(
            seen.state == State::Running && seen.started && seen.ip.is_some(),
            "seen as {seen:?}"
        );
    }
    Ok(())
}

pub(super) async fn get_without_an_address_is_started_but_not_running(trial: &Trial<'_>) -> Verdict {
    let instance = trial.created(&trial.wanted("a")?).await?;
    trial.stage(Control::LoseAddress(&instance.id)).await?;
    let seen = trial.got(&instance).await?;
    must!(
        seen.state == State::Provisioning && seen.started && seen.ip.is_none(),
        "seen as {seen:?}"
    );
    Ok(())
}

pub(super) async fn get_knows_when_it_was_created(trial: &Trial<'_>) -> Verdict {
    let instance = trial.created(&trial.wanted("a")?).await?;
    let seen = trial.got(&instance).await?;
    let Some(created_at) = seen.created_at else {
        return Err(Broken("the time of creation is unknown".into()));
    };
    // The remote's clock may be off, but not by a day.
    let off = created_at.duration_since(jiff::Timestamp::now()).abs();
    must!(
        off < jiff::SignedDuration::from_hours(24),
        "created at {created_at}, says the backend"
    );
    Ok(())
}

pub(super) async fn get_probes_only_when_asked(trial: &Trial<'_>) -> Verdict {
    let instance = trial.created(&trial.wanted("a")?).await?;
    let mut request = trial.read(&instance.id, Some(instance.mark.incarnation));
    let unasked = trial.backend().get(&request).await?.readiness;
    must!(unasked.is_none(), "probed without being asked: {unasked:?}");
    request.probe = true;
    let asked = trial.backend().get(&request).await?.readiness;
    must!(asked.is_some(), "not probed although asked");
    Ok(())
}

pub(super) async fn get_says_what_is_not_ready(trial: &Trial<'_>) -> Verdict {
    let instance = trial.created(&trial.wanted("a")?).await?;
    trial.stage(Control::StopServing(&instance.id)).await?;
    let mut request = trial.read(&instance.id, Some(instance.mark.incarnation));
    request.probe = true;
    let readiness = trial.backend().get(&request).await?.readiness;
    must!(
        matches!(&readiness, Some(Readiness::NotReady(tried)) if !tried.is_empty()),
        "it is {readiness:?}"
    );
    Ok(())
}

pub(super) async fn get_for_an_import_finds_what_is_there(trial: &Trial<'_>) -> Verdict {
    let instance = trial.created(&trial.wanted("a")?).await?;
    let found = trial
        .backend()
        .get(&trial.read(&instance.id, None))
        .await?
        .instance;
    must!(
        found.mark.incarnation == instance.mark.incarnation && found.mark.uid == instance.mark.uid,
        "found {found:?}"
    );
    Ok(())
}

//! Cases of resume: it acts on exactly one incarnation and makes nothing.

use super::Trial;
use crate::conformance::trial::failed;
use crate::conformance::{Broken, Control, Stage, Verdict, must};
use crate::contract::{ErrorKind, Incarnation, State};

/// Whether a state of the profile can be staged; one that never comes needs no case.
fn comes(trial: &Trial<'_>, state: State) -> bool {
    trial.profile().states.contains(&state)
}

pub(super) async fn resume_starts_what_was_stopped(trial: &Trial<'_>) -> Verdict {
    let instance = trial.created(&trial.wanted("a")?).await?;
    if comes(trial, State::Stopped) {
        trial
            .stage(Control::SetState(&instance.id, State::Stopped))
            .await?;
    }
    // Where nothing ever stops, a resume of what runs must still be success.
    trial.try_resume(&instance, &[]).await?;
    trial.until_running(&instance).await?;
    Ok(())
}

pub(super) async fn resume_hands_over_what_is_pending(trial: &Trial<'_>) -> Verdict {
    let wanted = trial.wanted("a")?;
    let (_, accepted) = trial.cut_off(&wanted, Stage::Handover).await?;
    let Some(instance) = accepted else {
        return Err(Broken("nothing was reported".into()));
    };
    trial.try_resume(&instance, &[]).await?;
    let mark = trial.mark(&wanted.id).await?;
    must!(!mark.pending, "the mark still says pending");
    Ok(())
}

pub(super) async fn resume_refuses_another_incarnation(trial: &Trial<'_>) -> Verdict {
    let instance = trial.created(&trial.wanted("a")?).await?;
    let mut other = instance.clone();
    other.mark.incarnation = Incarnation::fresh();
    let before = trial.sight(&instance.id).await?;
    let error = failed(
        trial.try_resume(&other, &[("a", "1")]).await,
        ErrorKind::Permanent,
    )?;
    must!(
        error.message().contains("plan again"),
        "\"{error}\" does not say to plan again"
    );
    let after = trial.sight(&instance.id).await?;
    must!(before == after, "{before:?} became {after:?}");
    Ok(())
}

pub(super) async fn resume_refuses_another_installation(trial: &Trial<'_>) -> Verdict {
    let instance = trial.created(&trial.wanted("a")?).await?;
    let other = trial.other_installation();
    failed(
        trial.try_resume_as(&instance, &[("a", "1")], other).await,
        ErrorKind::Permanent,
    )?;
    Ok(())
}

pub(super) async fn resume_never_creates(trial: &Trial<'_>) -> Verdict {
    let instance = trial.created(&trial.wanted("a")?).await?;
    trial.stage(Control::Vanish(&instance.id)).await?;
    failed(trial.try_resume(&instance, &[]).await, ErrorKind::Permanent)?;
    let left = trial.sight(&instance.id).await?;
    must!(left.is_nothing(), "resume made {left:?}");
    Ok(())
}

pub(super) async fn resume_refuses_what_ended(trial: &Trial<'_>) -> Verdict {
    if !comes(trial, State::Terminated) {
        return Ok(());
    }
    let instance = trial.created(&trial.wanted("a")?).await?;
    trial
        .stage(Control::SetState(&instance.id, State::Terminated))
        .await?;
    failed(trial.try_resume(&instance, &[]).await, ErrorKind::Permanent)?;
    Ok(())
}

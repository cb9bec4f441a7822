//! Cases of delete: what goes, what stays, and what is no success.

use super::Trial;
use super::get::elsewhere;
use crate::conformance::trial::failed;
use crate::conformance::{Broken, Control, Stage, Verdict, must};
use crate::contract::profile::{DeleteReturn, SecondaryResources};
use crate::contract::{Deleted, ErrorKind, Incarnation, State};

pub(super) async fn delete_leaves_nothing(trial: &Trial<'_>) -> Verdict {
    let instance = trial.created(&trial.wanted("a")?).await?;
    trial.try_delete(&instance).await?;
    trial.until_nothing(&instance).await
}

pub(super) async fn delete_answers_as_the_profile_says(trial: &Trial<'_>) -> Verdict {
    let instance = trial.created(&trial.wanted("a")?).await?;
    let answer = trial.try_delete(&instance).await?;
    match trial.profile().delete_return {
        DeleteReturn::Waits => {
            must!(answer == Deleted::Gone, "the answer is {answer:?}");
            failed(
                trial.try_get(&instance).await.map(|found| found.instance.state),
                ErrorKind::NotFound,
            )?;
        }
        DeleteReturn::ReturnsEarly => {
            must!(answer == Deleted::Accepted, "the answer is {answer:?}");
            match trial.try_get(&instance).await {
                Ok(found) => must!(
                    found.instance.state == State::Terminated,
                    "while it leaves it is {}",
                    found.instance.state
                ),
                Err(error) => must!(error.kind() == ErrorKind::NotFound, "{error}"),
            }
        }
    }
    Ok(())
}

pub(super) async fn delete_is_idempotent(trial: &Trial<'_>) -> Verdict {
    let never = trial.wanted("a")?;
    let request = trial.removal(&never.id, Some(never.request.incarnation));
    let answer = trial.backend().delete(&request).await?;
    must!(
        matches!(answer, Deleted::Gone | Deleted::Accepted),
        "deleting what is not there is {answer:?}"
    );
    Ok(())
}

pub(super) async fn delete_leaves_another_incarnation_alone(trial: &Trial<'_>) -> Verdict {
    let instance = trial.created(&trial.wanted("a")?).await?;
    let before = trial.sight(&instance.id).await?;
    let request = trial.removal(&instance.id, Some(Incarnation::fresh()));
    let answer = trial.backend().delete(&request).await?;
    let found = instance.mark.incarnation.to_string();
    must!(
        matches!(&answer, Deleted::LeftAlone(whose) if whose.contains(&found)),
        "the answer is {answer:?}"
    );
    let after = trial.sight(&instance.id).await?;
    must!(before == after, "{before:?} became {after:?}");
    Ok(())
}

pub(super) async fn delete_without_an_incarnation_spares_instances(trial: &Trial<'_>) -> Verdict {
    let instance = trial.created(&trial.wanted("a")?).await?;
    let before = trial.sight(&instance.id).await?;
    // Whether it is refused or left alone: it stays.
    let _ = trial.backend().delete(&trial.removal(&instance.id, None)).await;
    let after = trial.sight(&instance.id).await?;
    must!(before == after, "{before:?} became {after:?}");
    Ok(())
}

pub(super) async fn delete_takes_remains(trial: &Trial<'_>) -> Verdict {
    let instance = trial.created(&trial.wanted("a")?).await?;
    trial.stage(Control::LeaveRemains(&instance.id)).await?;
    let left = trial.sight(&instance.id).await?;
    match trial.profile().secondary_resources {
        SecondaryResources::Explicit => {
            must!(!left.is_nothing(), "the harness left no remains");
            trial.backend().delete(&trial.removal(&instance.id, None)).await?;
            let left = trial.sight(&instance.id).await?;
            must!(left.is_nothing(), "left are {left:?}");
        }
        SecondaryResources::None | SecondaryResources::Cascade => {
            must!(
                left.is_nothing(),
                "remains although the profile knows none: {left:?}"
            );
        }
    }
    Ok(())
}

pub(super) async fn delete_refuses_what_has_no_mark(trial: &Trial<'_>) -> Verdict {
    let instance = trial.created(&trial.wanted("a")?).await?;
    trial.stage(Control::StripMark(&instance.id)).await?;
    let before = trial.sight(&instance.id).await?;
    failed(trial.try_delete(&instance).await, ErrorKind::Permanent)?;
    let after = trial.sight(&instance.id).await?;
    must!(before == after, "{before:?} became {after:?}");
    Ok(())
}

pub(super) async fn delete_refuses_another_installation(trial: &Trial<'_>) -> Verdict {
    let instance = trial.created(&trial.wanted("a")?).await?;
    let mut request = trial.removal(&instance.id, Some(instance.mark.incarnation));
    request.installation = trial.other_installation();
    failed(trial.backend().delete(&request).await, ErrorKind::Permanent)?;
    let left = trial.sight(&instance.id).await?;
    must!(!left.is_nothing(), "it was deleted");
    Ok(())
}

pub(super) async fn delete_on_an_unconfigured_part_is_permanent(trial: &Trial<'_>) -> Verdict {
    let instance = trial.created(&trial.wanted("a")?).await?;
    let backend = trial.harness().backend_without(&instance.id)?;
    let request = trial.removal(&instance.id, Some(instance.mark.incarnation));
    failed(backend.delete(&request).await, ErrorKind::Permanent)?;
    Ok(())
}

pub(super) async fn delete_on_another_target_is_permanent(trial: &Trial<'_>) -> Verdict {
    let there = trial.created(&trial.wanted("a")?).await?;
    let absent = trial.wanted("b")?;
    let mut request = trial.removal(&absent.id, Some(absent.request.incarnation));
    request.recorded_target = Some(elsewhere(&there)?);
    failed(trial.backend().delete(&request).await, ErrorKind::Permanent)?;
    Ok(())
}

pub(super) async fn delete_of_what_does_not_answer_fails(trial: &Trial<'_>) -> Verdict {
    let instance = trial.created(&trial.wanted("a")?).await?;
    trial.stage(Control::Unreachable(&instance.id)).await?;
    failed(trial.try_delete(&instance).await, ErrorKind::Transient)?;
    Ok(())
}

pub(super) async fn delete_cut_off_is_finished_by_the_next(trial: &Trial<'_>) -> Verdict {
    let instance = trial.created(&trial.wanted("a")?).await?;
    trial
        .stage(Control::FailDelete(&instance.id, Stage::Instance))
        .await?;
    match trial.try_delete(&instance).await {
        Ok(answer) => return Err(Broken(format!("a delete cut off halfway reported {answer:?}"))),
        Err(error) => must!(error.kind() == ErrorKind::Transient, "{error}"),
    }
    trial.got(&instance).await?;
    trial.try_delete(&instance).await?;
    trial.until_nothing(&instance).await
}

pub(super) async fn delete_takes_what_is_pending(trial: &Trial<'_>) -> Verdict {
    let wanted = trial.wanted("a")?;
    let (_, accepted) = trial.cut_off(&wanted, Stage::Handover).await?;
    let Some(instance) = accepted else {
        return Err(Broken("nothing was reported".into()));
    };
    trial.try_delete(&instance).await?;
    trial.until_nothing(&instance).await
}

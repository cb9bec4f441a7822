//! Cases of adoption: what a create takes over, and what it does not.

use futures_util::FutureExt as _;

use super::Trial;
use crate::conformance::trial::{Wanted, failed};
use crate::conformance::{Ability, Control, Stage, Verdict, must};
use crate::contract::{Accepted, AdoptPolicy, Adopted, CreateRequest, ErrorKind, State};

pub(super) async fn create_adopts_what_was_cut_off(trial: &Trial<'_>) -> Verdict {
    let wanted = trial.wanted("a")?;
    trial.cut_off(&wanted, Stage::Handover).await?;
    let left = trial.sight(&wanted.id).await?;
    let created = trial.try_create(&wanted.again()).await?;
    must!(
        created.adopted == Adopted::Pending,
        "it was adopted as {:?}",
        created.adopted
    );
    let now = trial.sight(&wanted.id).await?;
    must!(
        left.objects.keys().eq(now.objects.keys()),
        "there is more of it than before: {left:?}, {now:?}"
    );
    Ok(())
}

pub(super) async fn create_resumes_from_any_stage(trial: &Trial<'_>) -> Verdict {
    for (name, stage) in [
        ("a", Stage::Secondary),
        ("b", Stage::Instance),
        ("c", Stage::Handover),
    ] {
        if !trial.can(Ability::FailCreate(stage)) {
            continue;
        }
        let wanted = trial.wanted(name)?;
        trial.cut_off(&wanted, stage).await?;
        let instance = trial.created(&wanted.again()).await?;
        trial.try_delete(&instance).await?;
        trial.until_nothing(&instance).await?;
    }
    Ok(())
}

pub(super) async fn create_resumes_what_was_dropped(trial: &Trial<'_>) -> Verdict {
    let wanted = trial.wanted("a")?;
    trial
        .stage(Control::HangCreate(&wanted.id, Stage::Instance))
        .await?;
    let request = CreateRequest::New(Box::new(wanted.request.clone()));
    let accepted = Accepted::new();
    let backend = trial.backend();
    {
        let mut create = Box::pin(backend.create(&request, &accepted).fuse());
        // It is dropped once the backend accepted it, wherever it hangs then.
        let accepted = trial.until_accepted(&accepted);
        futures_util::pin_mut!(accepted);
        futures_util::select! {
            ended = create => must!(false, "a create that hangs ended: {ended:?}"),
            accepted = accepted.fuse() => accepted?,
        }
    }
    trial.created(&wanted.again()).await?;
    Ok(())
}

pub(super) async fn create_revives_what_ended_while_pending(trial: &Trial<'_>) -> Verdict {
    if !trial.profile().states.contains(&State::Terminated) {
        return Ok(());
    }
    let wanted = trial.wanted("a")?;
    trial.cut_off(&wanted, Stage::Handover).await?;
    trial
        .stage(Control::SetState(&wanted.id, State::Terminated))
        .await?;
    trial.created(&wanted.again()).await?;
    Ok(())
}

pub(super) async fn adoption_gives_the_new_incarnation(trial: &Trial<'_>) -> Verdict {
    let wanted = trial.wanted("a")?;
    trial.cut_off(&wanted, Stage::Handover).await?;
    let again = wanted.again();
    trial.try_create(&again).await?;
    let mark = trial.mark(&wanted.id).await?;
    must!(
        mark.incarnation == again.request.incarnation,
        "incarnation {} instead of {}",
        mark.incarnation,
        again.request.incarnation
    );
    Ok(())
}

pub(super) async fn adoption_warns(trial: &Trial<'_>) -> Verdict {
    let wanted = trial.wanted("a")?;
    trial.cut_off(&wanted, Stage::Handover).await?;
    let created = trial.try_create(&wanted.again()).await?;
    must!(
        !created.warnings.is_empty(),
        "nothing was said about the adoption"
    );
    Ok(())
}

pub(super) async fn same_spec_adopts_what_was_handed_over(trial: &Trial<'_>) -> Verdict {
    let wanted = trial.wanted("a")?;
    trial.created(&wanted).await?;
    let mut again = wanted.again();
    again.request.adopt = AdoptPolicy::SameSpec;
    let created = trial.try_create(&again).await?;
    must!(
        created.adopted == Adopted::SameSpec
            && created.instance.mark.incarnation == again.request.incarnation,
        "it was adopted as {:?}",
        created.adopted
    );
    Ok(())
}

pub(super) async fn same_spec_refuses_another_spec(trial: &Trial<'_>) -> Verdict {
    let wanted = trial.wanted("a")?;
    let first = trial.created(&wanted).await?;
    let mut other = trial.wanted_as(wanted.request.key.clone(), trial.harness().other_facts())?;
    other.request.adopt = AdoptPolicy::SameSpec;
    failed(trial.try_create(&other).await, ErrorKind::Permanent)?;
    let mark = trial.mark(&wanted.id).await?;
    must!(mark.incarnation == first.mark.incarnation, "it was taken over");
    Ok(())
}

pub(super) async fn never_adopts_nothing(trial: &Trial<'_>) -> Verdict {
    let wanted = trial.wanted("a")?;
    trial.cut_off(&wanted, Stage::Handover).await?;
    let mut again = wanted.again();
    again.request.adopt = AdoptPolicy::Never;
    failed(trial.try_create(&again).await, ErrorKind::Permanent)?;
    Ok(())
}

/// Every policy, with a name for a trial of each.
const POLICIES: [(&str, AdoptPolicy); 3] = [
    ("a", AdoptPolicy::Interrupted),
    ("b", AdoptPolicy::SameSpec),
    ("c", AdoptPolicy::Never),
];

/// The same create once more, with its own incarnation: it must make no adoption of what is there.
async fn repeated(trial: &Trial<'_>, wanted: &Wanted) -> Verdict {
    let adopt = wanted.request.adopt;
    let created = trial.try_create(wanted).await?;
    must!(
        created.adopted == Adopted::No && created.warnings.is_empty(),
        "under {adopt:?} it was adopted as {:?}, with the words {:?}",
        created.adopted,
        created.warnings
    );
    let mark = trial.mark(&wanted.id).await?;
    must!(
        mark.incarnation == wanted.request.incarnation && !mark.pending,
        "under {adopt:?} it was left as {mark:?}"
    );
    trial.until_running(&created.instance).await?;
    Ok(())
}

pub(super) async fn create_repeated_finishes_its_own(trial: &Trial<'_>) -> Verdict {
    for (name, adopt) in POLICIES {
        let mut wanted = trial.wanted(name)?;
        wanted.request.adopt = adopt;
        trial.cut_off(&wanted, Stage::Handover).await?;
        repeated(trial, &wanted).await?;
    }
    Ok(())
}

pub(super) async fn create_repeated_keeps_what_it_handed_over(trial: &Trial<'_>) -> Verdict {
    for (name, adopt) in POLICIES {
        let mut wanted = trial.wanted(name)?;
        wanted.request.adopt = adopt;
        trial.created(&wanted).await?;
        let before = trial.sight(&wanted.id).await?;
        repeated(trial, &wanted).await?;
        let after = trial.sight(&wanted.id).await?;
        must!(
            before.objects.keys().eq(after.objects.keys()),
            "there is not the same of it as before: {before:?}, {after:?}"
        );
        trial
            .try_delete(&trial.try_create(&wanted).await?.instance)
            .await?;
    }
    Ok(())
}

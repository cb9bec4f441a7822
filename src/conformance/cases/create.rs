//! Cases of create: what it makes, what it refuses, how it fails.

use super::Trial;
use crate::conformance::trial::{SENTINEL, Wanted, failed};
use crate::conformance::{Broken, Control, Stage, Verdict, must};
use crate::contract::spec::PasswordFact;
use crate::contract::{Accepted, CreateRequest, ErrorKind, Facts, InstanceKey};

pub(super) async fn create_makes_what_was_asked(trial: &Trial<'_>) -> Verdict {
    let wanted = trial.wanted("a")?;
    let request = &wanted.request;
    let created = trial.try_create(&wanted).await?;
    let mark = &created.instance.mark;
    must!(
        mark.key == request.key,
        "key {} instead of {}",
        mark.key,
        request.key
    );
    must!(
        mark.uid == request.uid,
        "uid {} instead of {}",
        mark.uid,
        request.uid
    );
    must!(
        mark.incarnation == request.incarnation,
        "incarnation {} instead of {}",
        mark.incarnation,
        request.incarnation
    );
    must!(
        mark.facts == request.facts && mark.spec_sha256 == request.spec_sha256,
        "{:?} instead of {:?}",
        mark.facts,
        request.facts
    );
    must!(
        created.instance.target.facts().next().is_some(),
        "the target has no fact"
    );
    let running = trial.until_running(&created.instance).await?;
    must!(running.ip.is_some(), "it runs without an address");
    Ok(())
}

pub(super) async fn create_hands_over(trial: &Trial<'_>) -> Verdict {
    let wanted = trial.wanted("a")?;
    let created = trial.try_create(&wanted).await?;
    must!(
        !created.instance.mark.pending,
        "create returned a pending instance"
    );
    let mark = trial.mark(&wanted.id).await?;
    must!(!mark.pending, "the mark still says pending");
    Ok(())
}

pub(super) async fn create_clears_pending_last(trial: &Trial<'_>) -> Verdict {
    let wanted = trial.wanted("a")?;
    trial.cut_off(&wanted, Stage::Handover).await?;
    let mark = trial.mark(&wanted.id).await?;
    must!(
        mark.pending,
        "a create cut off before the handover left nothing pending"
    );
    Ok(())
}

pub(super) async fn create_reports_what_was_accepted(trial: &Trial<'_>) -> Verdict {
    let wanted = trial.wanted("a")?;
    let (_, accepted) = trial.cut_off(&wanted, Stage::Instance).await?;
    let Some(accepted) = accepted else {
        return Err(Broken("nothing was reported".into()));
    };
    must!(
        accepted.id == wanted.id && accepted.mark.incarnation == wanted.request.incarnation,
        "reported was {accepted:?}"
    );
    Ok(())
}

pub(super) async fn create_reports_nothing_before_acceptance(trial: &Trial<'_>) -> Verdict {
    let wanted = trial.wanted("a")?;
    let (_, accepted) = trial.cut_off(&wanted, Stage::Accept).await?;
    must!(accepted.is_none(), "reported was {accepted:?}");
    let left = trial.sight(&wanted.id).await?;
    must!(left.is_nothing(), "left was {left:?}");
    Ok(())
}

/// The text of an error and of everything that caused it.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text += &format!(": {cause}");
        source = cause.source();
    }
    text
}

pub(super) async fn create_fails_for_the_backends_own_reason(trial: &Trial<'_>) -> Verdict {
    let wanted = trial.wanted("a")?;
    let reason = "the emulator said no, twice";
    trial
        .stage(Control::FailCreate(
            &wanted.id,
            Stage::Instance,
            ErrorKind::Permanent,
            reason,
        ))
        .await?;
    let error = failed(trial.try_create(&wanted).await, ErrorKind::Permanent)?;
    must!(
        chain(&error).contains(reason),
        "the reason is not told: {}",
        chain(&error)
    );
    Ok(())
}

/// A create that must be refused as Permanent and must not touch what is there.
async fn refused(trial: &Trial<'_>, wanted: &Wanted, says: &[&str]) -> Verdict {
    let before = trial.sight(&wanted.id).await?;
    let error = failed(trial.try_create(wanted).await, ErrorKind::Permanent)?;
    for needle in says {
        must!(
            error.message().contains(needle),
            "\"{error}\" does not say \"{needle}\""
        );
    }
    let after = trial.sight(&wanted.id).await?;
    must!(before == after, "{before:?} became {after:?}");
    Ok(())
}

pub(super) async fn create_refuses_another_spec(trial: &Trial<'_>) -> Verdict {
    let first = trial.wanted("a")?;
    trial.created(&first).await?;
    let other = trial.wanted_as(first.request.key.clone(), trial.harness().other_facts())?;
    must!(
        other.id == first.id && other.request.uid != first.request.uid,
        "the harness's other facts are no other specification of the same id"
    );
    refused(trial, &other, &[]).await
}

pub(super) async fn create_refuses_another_installation(trial: &Trial<'_>) -> Verdict {
    let theirs = InstanceKey {
        installation: trial.other_installation(),
        ..trial.key("a")
    };
    let theirs = trial.wanted_as(theirs, trial.harness().facts())?;
    trial.try_create(&theirs).await?;
    let ours = trial.wanted("a")?;
    if ours.id != theirs.id {
        // Where the installation is part of the id, the two never meet.
        trial.try_create(&ours).await?;
        return Ok(());
    }
    let installation = trial.other_installation();
    refused(trial, &ours, &[installation.as_str()]).await
}

pub(super) async fn create_refuses_what_has_no_mark(trial: &Trial<'_>) -> Verdict {
    let wanted = trial.wanted("a")?;
    trial.stage(Control::PlaceForeign(&wanted.id)).await?;
    refused(trial, &wanted, &["adopt", wanted.id.as_str()]).await
}

pub(super) async fn create_refuses_what_was_handed_over(trial: &Trial<'_>) -> Verdict {
    let wanted = trial.wanted("a")?;
    trial.created(&wanted).await?;
    let says = ["import {", wanted.id.as_str(), "moved", "create_before_destroy"];
    refused(trial, &wanted.again(), &says).await
}

pub(super) async fn create_serialises_on_one_key(trial: &Trial<'_>) -> Verdict {
    let (one, other) = (trial.wanted("a")?, trial.wanted("a")?);
    let backend = trial.backend();
    let requests = [&one, &other].map(|wanted| CreateRequest::New(Box::new(wanted.request.clone())));
    let accepted = Accepted::new();
    let (first, second) = futures_util::future::join(
        backend.create(&requests[0], &accepted),
        backend.create(&requests[1], &accepted),
    )
    .await;
    let (made, refused) = match (first, second) {
        (Ok(made), Err(refused)) | (Err(refused), Ok(made)) => (made, refused),
        (Ok(_), Ok(_)) => return Err(Broken("both creates succeeded".into())),
        (Err(error), Err(_)) => return Err(error.into()),
    };
    must!(
        refused.kind() == ErrorKind::Permanent,
        "the other create failed as {}: {refused}",
        refused.kind().as_str()
    );
    let mark = trial.mark(&one.id).await?;
    must!(
        mark.incarnation == made.instance.mark.incarnation,
        "the instance is not the one whose create succeeded"
    );
    Ok(())
}

pub(super) async fn create_rebuilds_damaged_leftovers(trial: &Trial<'_>) -> Verdict {
    let wanted = trial.wanted("a")?;
    trial.created(&wanted).await?;
    trial.stage(Control::LeaveRemains(&wanted.id)).await?;
    trial.stage(Control::Damage(&wanted.id)).await?;
    trial.created(&wanted.again()).await?;
    let sighting = trial.sight(&wanted.id).await?;
    must!(sighting.intact, "a damaged leftover was trusted: {sighting:?}");
    Ok(())
}

pub(super) async fn create_never_says_not_found(trial: &Trial<'_>) -> Verdict {
    let wanted = trial.wanted("a")?;
    let text = "the image does not exist";
    trial
        .stage(Control::FailCreate(
            &wanted.id,
            Stage::Accept,
            ErrorKind::NotFound,
            text,
        ))
        .await?;
    failed(trial.try_create(&wanted).await, ErrorKind::Permanent)?;
    Ok(())
}

pub(super) async fn create_of_what_vanished_may_be_repeated(trial: &Trial<'_>) -> Verdict {
    let wanted = trial.wanted("a")?;
    let text = "no such instance";
    trial
        .stage(Control::FailCreate(
            &wanted.id,
            Stage::Handover,
            ErrorKind::NotFound,
            text,
        ))
        .await?;
    failed(trial.try_create(&wanted).await, ErrorKind::Transient)?;
    Ok(())
}

pub(super) async fn create_shows_no_secret(trial: &Trial<'_>) -> Verdict {
    let given = Facts {
        username: Some("u".into()),
        password: Some(PasswordFact::Version("1".into())),
        ..trial.harness().facts()
    };
    let wanted = trial.wanted_as(trial.key("a"), given)?;
    must!(
        wanted.request.secrets.password_hash.is_some(),
        "the request holds no secret to hide"
    );
    let created = trial.try_create(&wanted).await?;
    let mark = trial.mark(&wanted.id).await?;
    let listing = trial.listed().await?;
    let refused = trial.try_create(&wanted.again()).await;
    let said = format!(
        "{:?} {created:?} {mark:?} {listing:?} {refused:?}",
        wanted.request
    );
    must!(!said.contains(SENTINEL), "the secret is in {said}");
    Ok(())
}

//! Cases of adoption by hand: which mark an instance gets that has none, or another installation's.

use super::Trial;
use crate::conformance::trial::{Wanted, failed, labelled};
use crate::conformance::{Broken, Control, Verdict, must};
use crate::contract::{
    AdoptRequest, Adoption, ErrorKind, Facts, Incarnation, Installation, Instance, ListFilter, Mark, Uid,
};

/// An instance that lost its mark, and what it was.
async fn stripped(trial: &Trial<'_>) -> Result<(Wanted, Instance), Broken> {
    let wanted = trial.wanted("a")?;
    let instance = trial.created(&wanted).await?;
    trial.stage(Control::StripMark(&wanted.id)).await?;
    Ok((wanted, instance))
}

/// A request that states what not every instance shows and no mark can do without.
fn asking(trial: &Trial<'_>, wanted: &Wanted) -> AdoptRequest {
    AdoptRequest {
        id: wanted.id.clone(),
        installation: trial.installation(),
        from: None,
        stated: Facts {
            port: wanted.request.facts.port,
            ..Facts::default()
        },
        incarnation: Incarnation::fresh(),
        write: None,
    }
}

async fn shown(trial: &Trial<'_>, request: &AdoptRequest) -> Result<Adoption, Broken> {
    Ok(trial.backend().adopt(request).await?)
}

/// Shows, then writes what was shown.
async fn adopted(trial: &Trial<'_>, request: &AdoptRequest) -> Result<(AdoptRequest, Mark), Broken> {
    let mark = shown(trial, request).await?.instance.mark;
    let request = AdoptRequest {
        write: Some(mark.clone()),
        ..request.clone()
    };
    trial.backend().adopt(&request).await?;
    Ok((request, mark))
}

pub(super) async fn adopt_shows_without_writing(trial: &Trial<'_>) -> Verdict {
    let (wanted, _) = stripped(trial).await?;
    let before = trial.sight(&wanted.id).await?;
    shown(trial, &asking(trial, &wanted)).await?;
    let after = trial.sight(&wanted.id).await?;
    must!(before == after, "it changed: {before:?}, {after:?}");
    Ok(())
}

pub(super) async fn adopt_makes_a_mark_of_its_own(trial: &Trial<'_>) -> Verdict {
    let (wanted, _) = stripped(trial).await?;
    let request = asking(trial, &wanted);
    let mark = shown(trial, &request).await?.instance.mark;
    must!(
        mark.key == wanted.request.key,
        "the key is {} instead of {}",
        mark.key,
        wanted.request.key
    );
    must!(
        mark.spec_sha256 == mark.facts.sha256() && mark.uid == Uid::of(&mark.key, &mark.spec_sha256),
        "uid and hash do not follow from key and facts: {mark:?}"
    );
    must!(
        mark.incarnation == request.incarnation && !mark.pending,
        "it is another incarnation, or not handed over: {mark:?}"
    );
    Ok(())
}

pub(super) async fn adopt_guesses_nothing(trial: &Trial<'_>) -> Verdict {
    let (wanted, instance) = stripped(trial).await?;
    let adoption = shown(trial, &asking(trial, &wanted)).await?;
    let (true_facts, facts) = (&instance.mark.facts, &adoption.instance.mark.facts);
    let (there, known) = (true_facts.present(), facts.present());
    for fact in true_facts.differences(facts) {
        // A password and a document show themselves only as what they are, not as they were given.
        let as_shown = matches!(
            fact,
            crate::contract::Fact::Password | crate::contract::Fact::CloudInit
        );
        must!(
            as_shown || !known.contains(&fact),
            "{fact} is guessed: {facts:?} instead of {true_facts:?}"
        );
        must!(
            known.contains(&fact) || !there.contains(&fact) || adoption.unknown.contains(&fact),
            "that {fact} is unknown is not said"
        );
    }
    for fact in &adoption.unknown {
        must!(!known.contains(fact), "{fact} is known and said not to be");
    }
    Ok(())
}

pub(super) async fn adopt_writes_what_is_stated(trial: &Trial<'_>) -> Verdict {
    let (wanted, instance) = stripped(trial).await?;
    let mut request = asking(trial, &wanted);
    request.stated = instance.mark.facts.clone();
    let (_, mark) = adopted(trial, &request).await?;
    must!(
        mark.facts == instance.mark.facts,
        "{:?} was stated, {:?} is written",
        instance.mark.facts,
        mark.facts
    );
    Ok(())
}

pub(super) async fn adopt_writes_what_it_showed(trial: &Trial<'_>) -> Verdict {
    let (wanted, _) = stripped(trial).await?;
    let (_, mark) = adopted(trial, &asking(trial, &wanted)).await?;
    let found = trial.mark(&wanted.id).await?;
    must!(is(&found, &mark), "{mark:?} was shown, {found:?} is there");
    let listed = trial.listed().await?;
    must!(
        listed.instances.iter().any(|instance| is(&instance.mark, &mark)),
        "it is not listed: {listed:?}"
    );
    Ok(())
}

/// Whether two marks say the same: whether get returns uid and given facts as they were written is
/// another case's business.
fn is(found: &Mark, mark: &Mark) -> bool {
    *found
        == Mark {
            uid: found.uid,
            given: found.given.clone(),
            ..mark.clone()
        }
}

pub(super) async fn adopt_leaves_the_instance_as_it_was(trial: &Trial<'_>) -> Verdict {
    let wanted = trial.wanted("a")?;
    let instance = trial.created(&wanted).await?;
    let before = trial.sight(&wanted.id).await?;
    trial.stage(Control::StripMark(&wanted.id)).await?;
    let (_, mark) = adopted(trial, &asking(trial, &wanted)).await?;
    let after = trial.sight(&wanted.id).await?;
    must!(
        before.objects.keys().eq(after.objects.keys()) && after.intact,
        "there is not the same of it as before: {before:?}, {after:?}"
    );
    let mut now = instance.clone();
    now.mark = mark;
    let now = trial.got(&now).await?;
    must!(
        (now.state, now.ip) == (instance.state, instance.ip),
        "it was {} at {:?} and is {} at {:?}",
        instance.state,
        instance.ip,
        now.state,
        now.ip
    );
    Ok(())
}

pub(super) async fn adopt_repeated_is_success(trial: &Trial<'_>) -> Verdict {
    let (wanted, _) = stripped(trial).await?;
    let (request, mark) = adopted(trial, &asking(trial, &wanted)).await?;
    let again = shown(trial, &request).await?.instance.mark;
    must!(again == mark, "{mark:?} was written, {again:?} the second time");
    Ok(())
}

pub(super) async fn adopt_writes_only_what_it_would_show(trial: &Trial<'_>) -> Verdict {
    let (wanted, _) = stripped(trial).await?;
    let mut request = asking(trial, &wanted);
    // What somebody else would have been shown, of an instance that changed since.
    let mut other = shown(trial, &request).await?.instance.mark;
    other.label_keys.insert("seen-before".to_owned());
    request.write = Some(other);
    let before = trial.sight(&wanted.id).await?;
    failed(trial.backend().adopt(&request).await, ErrorKind::Permanent)?;
    let after = trial.sight(&wanted.id).await?;
    must!(before == after, "it changed: {before:?}, {after:?}");
    Ok(())
}

/// Makes sure that the adoption is Permanent, says that, and touches nothing.
async fn refused(trial: &Trial<'_>, request: &AdoptRequest, says: &str) -> Verdict {
    let before = trial.sight(&request.id).await?;
    let error = failed(trial.backend().adopt(request).await, ErrorKind::Permanent)?;
    must!(error.message().contains(says), "{error} does not say {says}");
    let after = trial.sight(&request.id).await?;
    must!(before == after, "it changed: {before:?}, {after:?}");
    Ok(())
}

pub(super) async fn adopt_refuses_what_is_ours(trial: &Trial<'_>) -> Verdict {
    let wanted = trial.wanted("a")?;
    trial.created(&wanted).await?;
    let mut request = asking(trial, &wanted);
    refused(trial, &request, "import").await?;
    request.from = Some(trial.installation());
    refused(trial, &request, "import").await
}

/// The same request for the other installation.
fn theirs(trial: &Trial<'_>, request: AdoptRequest, from: Option<Installation>) -> AdoptRequest {
    AdoptRequest {
        installation: trial.other_installation(),
        from,
        ..request
    }
}

pub(super) async fn adopt_refuses_another_installation(trial: &Trial<'_>) -> Verdict {
    let wanted = trial.wanted("a")?;
    trial.created(&wanted).await?;
    let request = theirs(trial, asking(trial, &wanted), None);
    refused(trial, &request, trial.installation().as_str()).await
}

pub(super) async fn adopt_from_refuses_what_is_not_theirs(trial: &Trial<'_>) -> Verdict {
    let wanted = trial.wanted("a")?;
    trial.created(&wanted).await?;
    let nobody: Installation = "nobody".parse().map_err(|invalid| Broken(format!("{invalid}")))?;
    let request = theirs(trial, asking(trial, &wanted), Some(nobody));
    refused(trial, &request, trial.installation().as_str()).await?;
    trial.stage(Control::StripMark(&wanted.id)).await?;
    refused(trial, &request, "no mark").await
}

pub(super) async fn adopt_of_another_installations_keeps_all_but_the_owner(trial: &Trial<'_>) -> Verdict {
    let mut wanted = trial.wanted("a")?;
    wanted.request.labels = labelled(&[("team", "x")]);
    let instance = trial.created(&wanted).await?;
    let request = theirs(trial, asking(trial, &wanted), Some(trial.installation()));
    let (_, mark) = adopted(trial, &request).await?;
    let mut key = instance.mark.key.clone();
    key.installation = trial.other_installation();
    let expected = Mark {
        uid: Uid::of(&key, &instance.mark.spec_sha256),
        key,
        ..instance.mark.clone()
    };
    must!(
        is(&mark, &expected) && mark.uid == expected.uid,
        "{expected:?} became {mark:?}"
    );
    let filter = ListFilter {
        installation: trial.other_installation(),
        namespace: None,
    };
    let listing = trial.backend().list_by_tag(&filter).await?;
    must!(
        listing
            .instances
            .iter()
            .any(|found| is(&found.mark, &expected) && found.labels == instance.labels),
        "its new owner does not find it as it was: {listing:?}"
    );
    Ok(())
}

pub(super) async fn adopt_of_nothing_is_not_found(trial: &Trial<'_>) -> Verdict {
    let wanted = trial.wanted("a")?;
    let mut request = asking(trial, &wanted);
    failed(trial.backend().adopt(&request).await, ErrorKind::NotFound)?;
    request.from = Some(trial.other_installation());
    failed(trial.backend().adopt(&request).await, ErrorKind::NotFound)?;
    Ok(())
}

//! Cases of list: all of ours, nothing of others, and what could not be read is named.

use super::Trial;
use crate::conformance::{Broken, Control, Stage, Verdict, must};
use crate::contract::profile::{ListPartial, SecondaryResources};
use crate::contract::{InstanceKey, ListFilter, Listing, NativeId};

fn ids(listing: &Listing) -> Vec<&NativeId> {
    listing.instances.iter().map(|instance| &instance.id).collect()
}

fn complete(listing: &Listing) -> Verdict {
    must!(
        listing.unreadable.is_empty(),
        "not all was read: {:?}",
        listing.unreadable
    );
    Ok(())
}

pub(super) async fn list_finds_what_was_created(trial: &Trial<'_>) -> Verdict {
    let one = trial.created(&trial.wanted("a")?).await?;
    let other = trial.created(&trial.wanted("b")?).await?;
    let listing = trial.listed().await?;
    complete(&listing)?;
    let mut found = ids(&listing);
    found.sort_unstable();
    let mut expected = vec![&one.id, &other.id];
    expected.sort_unstable();
    must!(found == expected, "listed are {found:?} instead of {expected:?}");
    Ok(())
}

pub(super) async fn list_agrees_with_get(trial: &Trial<'_>) -> Verdict {
    let instance = trial.created(&trial.wanted("a")?).await?;
    let got = trial.got(&instance).await?;
    let listing = trial.listed().await?;
    let listed = listing.instances.into_iter().find(|listed| listed.id == got.id);
    if let Some(listed) = listed {
        must!(listed == got, "listed is {listed:?}, got is {got:?}");
    }
    Ok(())
}

pub(super) async fn list_hides_other_installations(trial: &Trial<'_>) -> Verdict {
    let key = InstanceKey {
        installation: trial.other_installation(),
        ..trial.key("a")
    };
    let theirs = trial.wanted_as(key, trial.harness().facts())?;
    trial.try_create(&theirs).await?;
    let listing = trial.listed().await?;
    must!(
        ids(&listing).is_empty() && listing.secondary.is_empty(),
        "listed are {listing:?}"
    );
    Ok(())
}

pub(super) async fn list_keeps_to_the_namespace(trial: &Trial<'_>) -> Verdict {
    let instance = trial.created(&trial.wanted("a")?).await?;
    let elsewhere = "elsewhere"
        .parse()
        .map_err(|invalid| Broken(format!("{invalid}")))?;
    for (namespace, expected) in [(trial.harness().namespace(), 1), (elsewhere, 0)] {
        let filter = ListFilter {
            installation: trial.installation(),
            namespace: Some(namespace.clone()),
        };
        let listing = trial.backend().list_by_tag(&filter).await?;
        let found = ids(&listing).into_iter().filter(|id| **id == instance.id).count();
        must!(found <= expected, "in {namespace} {found} were listed");
    }
    Ok(())
}

pub(super) async fn list_finds_what_is_pending(trial: &Trial<'_>) -> Verdict {
    let wanted = trial.wanted("a")?;
    trial.cut_off(&wanted, Stage::Handover).await?;
    let listing = trial.listed().await?;
    let listed = listing.instances.iter().find(|listed| listed.id == wanted.id);
    must!(
        listed.is_some_and(|listed| listed.mark.pending),
        "what is pending is not listed as that: {listing:?}"
    );
    Ok(())
}

pub(super) async fn list_finds_remains(trial: &Trial<'_>) -> Verdict {
    let instance = trial.created(&trial.wanted("a")?).await?;
    trial.stage(Control::LeaveRemains(&instance.id)).await?;
    let listing = trial.listed().await?;
    let found = listing
        .secondary
        .iter()
        .any(|left| left.id == instance.id && left.uid == instance.mark.uid);
    let expected = trial.profile().secondary_resources == SecondaryResources::Explicit;
    must!(found == expected, "remains are listed: {:?}", listing.secondary);
    Ok(())
}

pub(super) async fn list_ignores_what_has_no_mark(trial: &Trial<'_>) -> Verdict {
    let instance = trial.created(&trial.wanted("a")?).await?;
    trial.stage(Control::StripMark(&instance.id)).await?;
    let listing = trial.listed().await?;
    must!(
        !ids(&listing).contains(&&instance.id),
        "listed although it has no mark"
    );
    Ok(())
}

pub(super) async fn list_names_the_part_that_did_not_answer(trial: &Trial<'_>) -> Verdict {
    let silent = trial.created(&trial.wanted("a")?).await?;
    let elsewhere = trial.wanted_as(trial.key("b"), trial.harness().facts_elsewhere()?)?;
    let answering = trial.created(&elsewhere).await?;
    trial.stage(Control::Unreachable(&silent.id)).await?;
    match (trial.profile().list_partial, trial.try_list().await) {
        (ListPartial::NamesParts, Ok(listing)) => {
            let named = listing
                .unreadable
                .iter()
                .any(|part| !part.scope.is_empty() && silent.id.as_str().starts_with(&part.prefix));
            must!(named, "the silent part is not named: {:?}", listing.unreadable);
            must!(
                ids(&listing).contains(&&answering.id),
                "what answers is not listed: {listing:?}"
            );
            Ok(())
        }
        (ListPartial::NamesParts, Err(error)) => Err(error.into()),
        (ListPartial::NamesObjects, Ok(listing)) => Err(Broken(format!(
            "a listing of one call that failed is {listing:?}"
        ))),
        (ListPartial::NamesObjects, Err(_)) => Ok(()),
    }
}

pub(super) async fn list_names_the_object_it_could_not_read(trial: &Trial<'_>) -> Verdict {
    let unreadable = trial.created(&trial.wanted("a")?).await?;
    let readable = trial.created(&trial.wanted("b")?).await?;
    trial.stage(Control::Unreadable(&unreadable.id)).await?;
    let listing = trial.listed().await?;
    must!(ids(&listing) == [&readable.id], "listed are {:?}", ids(&listing));
    let named = listing
        .unreadable
        .iter()
        .any(|part| unreadable.id.as_str().starts_with(&part.prefix));
    must!(
        named,
        "what could not be read is not named: {:?}",
        listing.unreadable
    );
    Ok(())
}

pub(super) async fn list_of_nothing_readable_fails(trial: &Trial<'_>) -> Verdict {
    trial.stage(Control::AllUnreachable).await?;
    match trial.try_list().await {
        Ok(listing) => Err(Broken(format!("nothing answers, and the listing is {listing:?}"))),
        Err(_) => Ok(()),
    }
}

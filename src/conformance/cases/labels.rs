//! Cases of labels: the user's are the user's, those of others are theirs.

use super::Trial;
use crate::conformance::trial::labelled;
use crate::conformance::{Control, Verdict, must};

pub(super) async fn labels_are_reported_as_given(trial: &Trial<'_>) -> Verdict {
    let mut wanted = trial.wanted("a")?;
    wanted.request.labels = labelled(&[("team", "net"), ("stage", "")]);
    let instance = trial.created(&wanted).await?;
    let got = trial.got(&instance).await?;
    must!(
        got.labels == wanted.request.labels,
        "{:?} instead of {:?}",
        got.labels,
        wanted.request.labels
    );
    Ok(())
}

pub(super) async fn labels_of_others_are_not_reported(trial: &Trial<'_>) -> Verdict {
    let instance = trial.created(&trial.wanted("a")?).await?;
    trial
        .stage(Control::ForeignLabel(&instance.id, "theirs", "1"))
        .await?;
    let got = trial.got(&instance).await?;
    must!(
        !got.labels.contains_key("theirs"),
        "reported are {:?}",
        got.labels
    );
    Ok(())
}

pub(super) async fn resume_removes_the_labels_it_set(trial: &Trial<'_>) -> Verdict {
    let mut wanted = trial.wanted("a")?;
    wanted.request.labels = labelled(&[("kept", "1"), ("dropped", "1")]);
    let instance = trial.created(&wanted).await?;
    trial
        .try_resume(&instance, &[("kept", "2"), ("added", "1")])
        .await?;
    let labels = trial.sight(&instance.id).await?.labels;
    must!(!labels.contains_key("dropped"), "still there: {labels:?}");
    for (key, value) in labelled(&[("kept", "2"), ("added", "1")]) {
        must!(
            labels.get(&key) == Some(&value),
            "{key} is not {value}: {labels:?}"
        );
    }
    Ok(())
}

pub(super) async fn resume_keeps_the_labels_of_others(trial: &Trial<'_>) -> Verdict {
    let instance = trial.created(&trial.wanted("a")?).await?;
    trial
        .stage(Control::ForeignLabel(&instance.id, "theirs", "1"))
        .await?;
    trial.try_resume(&instance, &[("ours", "1")]).await?;
    let labels = trial.sight(&instance.id).await?.labels;
    must!(
        labels.get("theirs").is_some_and(|value| value == "1"),
        "the label of others is gone: {labels:?}"
    );
    Ok(())
}

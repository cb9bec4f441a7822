//! Cases of errors: what a remote's refusal comes out as.

use super::Trial;
use crate::conformance::trial::failed;
use crate::conformance::{Control, Stage, Verdict};
use crate::contract::profile::Quota;
use crate::contract::{ErrorKind, Operation};

pub(super) async fn errors_keep_what_may_be_repeated(trial: &Trial<'_>) -> Verdict {
    let wanted = trial.wanted("a")?;
    trial
        .stage(Control::Refuse(&wanted.id, Operation::Get, ErrorKind::Transient))
        .await?;
    let request = trial.read(&wanted.id, Some(wanted.request.incarnation));
    failed(trial.backend().get(&request).await, ErrorKind::Transient)?;
    Ok(())
}

pub(super) async fn errors_keep_what_is_refused(trial: &Trial<'_>) -> Verdict {
    let wanted = trial.wanted("a")?;
    trial
        .stage(Control::Refuse(&wanted.id, Operation::Get, ErrorKind::Permanent))
        .await?;
    let request = trial.read(&wanted.id, Some(wanted.request.incarnation));
    failed(trial.backend().get(&request).await, ErrorKind::Permanent)?;
    Ok(())
}

pub(super) async fn errors_tell_a_used_up_allowance(trial: &Trial<'_>) -> Verdict {
    let wanted = trial.wanted("a")?;
    let text = "no space is left in the pool";
    trial
        .stage(Control::FailCreate(
            &wanted.id,
            Stage::Accept,
            ErrorKind::QuotaExceeded,
            text,
        ))
        .await?;
    let expected = match trial.profile().quota {
        Quota::Detected => ErrorKind::QuotaExceeded,
        Quota::Absent => ErrorKind::Permanent,
    };
    failed(trial.try_create(&wanted).await, expected)?;
    Ok(())
}

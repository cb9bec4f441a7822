//! Cases of resolve and check: what a plan and a health report rest on.

use std::collections::BTreeSet;

use super::Trial;
use crate::conformance::{Broken, Control, Verdict, must};
use crate::contract::{Fact, Specification};

pub(super) async fn resolve_gives_the_id_that_create_makes(trial: &Trial<'_>) -> Verdict {
    let wanted = trial.wanted("a")?;
    let created = trial.try_create_raw(&wanted).await?.instance;
    must!(
        created.id == wanted.id,
        "resolved {}, created {}",
        wanted.id,
        created.id
    );
    Ok(())
}

pub(super) async fn resolve_is_stable(trial: &Trial<'_>) -> Verdict {
    let specification = trial.specification("a");
    let once = trial.resolve(&specification)?;
    let again = trial.resolve(&Specification {
        given: once.facts.clone(),
        ..specification
    })?;
    must!(
        once.facts == again.facts && once.id == again.id,
        "{once:?} became {again:?}"
    );
    must!(
        once.facts == once.facts.clone().canonical(),
        "the facts are not in canonical form: {:?}",
        once.facts
    );
    Ok(())
}

/// The refused specifications and the facts that the backend blames.
fn blamed(trial: &Trial<'_>, specification: &Specification) -> Result<BTreeSet<Fact>, Broken> {
    match trial.backend().resolve(specification) {
        Ok(resolved) => Err(Broken(format!("honoured {specification:?} as {resolved:?}"))),
        Err(problems) => {
            must!(
                problems.iter().all(|problem| !problem.message.is_empty()),
                "a problem without a message: {problems:?}"
            );
            Ok(problems.into_iter().map(|problem| problem.fact).collect())
        }
    }
}

pub(super) async fn resolve_refuses_what_it_cannot_honour(trial: &Trial<'_>) -> Verdict {
    let refused = trial.harness().refused(&trial.specification("a"));
    must!(!refused.is_empty(), "the harness names nothing that is refused");
    for (fact, specification) in refused {
        let blamed = blamed(trial, &specification)?;
        must!(
            blamed == BTreeSet::from([fact]),
            "{specification:?} is wrong in {fact}, blamed were {blamed:?}"
        );
    }
    Ok(())
}

pub(super) async fn resolve_reports_every_problem_at_once(trial: &Trial<'_>) -> Verdict {
    let honoured = trial.specification("a");
    let mut all = honoured.clone();
    let mut wrong = BTreeSet::new();
    // Where two break the same fact in different ways, one of them is enough here.
    for (fact, specification) in trial.harness().refused(&honoured) {
        if !wrong.insert(fact) {
            continue;
        }
        match fact {
            Fact::Name => all.key.name = specification.key.name,
            Fact::Namespace => all.key.namespace = specification.key.namespace,
            Fact::Labels => all.labels = specification.labels,
            Fact::Port => all.given.port = specification.given.port,
            Fact::Zone => all.given.zone = specification.given.zone,
            Fact::Region => all.given.region = specification.given.region,
            Fact::MachineType => all.given.machine_type = specification.given.machine_type,
            Fact::Image => all.given.image = specification.given.image,
            Fact::Spot => all.given.spot = specification.given.spot,
            Fact::AllowedCidrs => all.given.allowed_cidrs = specification.given.allowed_cidrs,
            Fact::AllowedPorts => all.given.allowed_ports = specification.given.allowed_ports,
            Fact::AllowedDomains => all.given.allowed_domains = specification.given.allowed_domains,
            Fact::Username => all.given.username = specification.given.username,
            Fact::Password => all.given.password = specification.given.password,
            Fact::CloudInit => all.given.cloud_init = specification.given.cloud_init,
        }
    }
    let blamed = blamed(trial, &all)?;
    must!(
        blamed.is_superset(&wrong),
        "wrong are {wrong:?}, blamed were {blamed:?}"
    );
    Ok(())
}

pub(super) async fn check_has_a_healthy_report_for_each_target(trial: &Trial<'_>) -> Verdict {
    let reports = trial.backend().check().await;
    must!(!reports.is_empty(), "no report at all");
    let targets: BTreeSet<_> = reports.iter().map(|report| report.target.as_str()).collect();
    must!(
        targets.len() == reports.len(),
        "a target is reported twice: {reports:?}"
    );
    for report in &reports {
        must!(
            report.healthy() && !report.target.is_empty() && !report.message.is_empty(),
            "{report:?}"
        );
    }
    Ok(())
}

pub(super) async fn check_reports_what_does_not_answer(trial: &Trial<'_>) -> Verdict {
    trial.stage(Control::AllUnreachable).await?;
    let reports = trial.backend().check().await;
    must!(!reports.is_empty(), "no report at all");
    for report in &reports {
        must!(
            !report.healthy(),
            "healthy although it does not answer: {report:?}"
        );
        must!(!report.message.is_empty(), "no reason is said: {report:?}");
    }
    Ok(())
}

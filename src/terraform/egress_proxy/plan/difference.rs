//! How what a configuration asks differs from what a proxy has, and where core sees it.
//!
//! Pure, but for what a specification means, which only its backend knows. Invariant: two spellings
//! that mean the same to the backend are no difference.

use std::borrow::Cow;
use std::collections::BTreeSet;

use super::{known_labels, refused};
use crate::contract::disagreement::{disagreements, lines};
use crate::contract::{Fact, Facts, InstanceKey, Problem, Resolved, Specification};
use crate::plugin::diagnostics::{Diagnostic, Diagnostics, Path, Step};
use crate::plugin::value::Value;
use crate::terraform::egress_proxy::given::Given;
use crate::terraform::egress_proxy::private::Private;
use crate::terraform::egress_proxy::schema::{
    ACCESS, BACKEND, CLOUD_INIT, CLOUD_INIT_WO_VERSION, INCARNATION, NAME, NAMESPACE, PASSWORD_HASH,
    PASSWORD_WO_VERSION, SPEC_SHA256, path_of,
};
use crate::terraform::session::{Open, Session};

/// The facts of a proxy that exists; without private data, what the state gives of them.
pub(super) fn current_facts<'p>(prior: &Value, private: &'p Private) -> Cow<'p, Facts> {
    match &private.facts {
        Some(facts) => facts.to_canonical(),
        // Problems in a state are nobody's mistake: it is read as far as it goes.
        None => Cow::Owned(
            Given::read(prior, &mut Diagnostics::new())
                .facts
                .with_common_defaults(),
        ),
    }
}

/// What is asked of a proxy that exists.
pub(super) struct Asked<'a> {
    /// What the configuration gives.
    pub(super) given: &'a Given,
    /// What the proxy has.
    pub(super) current: &'a Facts,
    /// Whether the labels change.
    pub(super) relabelled: bool,
}

/// How what is asked for differs from what there is.
pub(super) struct Differing {
    /// The facts that the configuration asks to be different, those that are not known yet among them.
    pub(super) facts: BTreeSet<Fact>,
    /// What it asks for, as far as it is known.
    asked: Facts,
}

/// The facts that the configuration asks to be different.
pub(super) fn differing_facts(
    asked: &Asked<'_>,
    prior: &Value,
    config: &Value,
    session: &Session,
    diagnostics: &mut Diagnostics,
) -> Differing {
    let mut facts = asked.given.over(asked.current);
    let mut differing = facts.differences(asked.current);
    if !differing.is_empty() || asked.relabelled {
        // Only the backend knows whether two spellings mean the same.
        match resolve_existing(prior, config, facts.clone(), session) {
            Some(Ok(resolved)) => {
                differing = resolved.facts.differences(asked.current);
                facts = resolved.facts;
            }
            // What cannot be is refused by the plan of the new instance, which follows where
            // something differs; labels have no such plan.
            Some(Err(problems)) => diagnostics.extend(
                problems
                    .into_iter()
                    .filter(|(problem, _)| problem.fact == Fact::Labels && differing.is_empty())
                    .map(|(problem, open)| refused(problem, open)),
            ),
            None => {}
        }
    }
    differing.extend(&asked.given.unknown);
    Differing {
        facts: differing,
        asked: facts,
    }
}

type ResolvedExisting<'s> = Result<Resolved, Vec<(Problem, &'s Open)>>;

/// What the asked facts mean on the backend that has the proxy; `None` where that is not known yet.
fn resolve_existing<'s>(
    prior: &Value,
    config: &Value,
    facts: Facts,
    session: &'s Session,
) -> Option<ResolvedExisting<'s>> {
    let backend = prior.get(BACKEND).as_str()?.parse().ok()?;
    // A backend that is not configured any more failed the read already.
    let open = session.backend(&backend).ok()??;
    let specification = Specification {
        key: InstanceKey {
            installation: session.installation()?,
            namespace: prior.get(NAMESPACE).as_str()?.parse().ok()?,
            name: prior.get(NAME).as_str()?.parse().ok()?,
        },
        given: facts,
        labels: known_labels(config),
    };
    let resolved = open.backend.resolve(&specification);
    Some(resolved.map_err(|problems| problems.into_iter().map(|problem| (problem, open)).collect()))
}

/// The arguments that hold a fact.
fn places_of(fact: Fact) -> Vec<Path> {
    let root = Path::root();
    match fact {
        Fact::Password => [PASSWORD_WO_VERSION, PASSWORD_HASH]
            .map(|name| root.attribute(ACCESS).attribute(name))
            .to_vec(),
        Fact::CloudInit => [CLOUD_INIT, CLOUD_INIT_WO_VERSION]
            .map(|name| root.attribute(name))
            .to_vec(),
        Fact::Name
        | Fact::Namespace
        | Fact::Port
        | Fact::Zone
        | Fact::Region
        | Fact::MachineType
        | Fact::Image
        | Fact::Spot
        | Fact::AllowedCidrs
        | Fact::AllowedPorts
        | Fact::AllowedDomains
        | Fact::Username
        | Fact::Labels => vec![path_of(fact)],
    }
}

impl Differing {
    /// The places whose change core sees. Where no argument changes (only the effective value does),
    /// it is the hash, which is new with every specification; and where even that is what the state
    /// holds, because it was the proxy itself that changed, the incarnation, which is always new. What
    /// no argument shows is told.
    pub(super) fn places(
        &self,
        current: &Facts,
        prior: &Value,
        planned: &Value,
        diagnostics: &mut Diagnostics,
    ) -> Vec<Path> {
        let (mut places, mut hidden) = (Vec::new(), BTreeSet::new());
        for fact in &self.facts {
            let place = places_of(*fact)
                .into_iter()
                .find(|path| at(prior, path) != at(planned, path));
            match place {
                Some(place) => places.push(place),
                None => {
                    hidden.insert(*fact);
                }
            }
        }
        if hidden.is_empty() {
            return places;
        }
        let same = prior.get(SPEC_SHA256).as_str() == Some(self.asked.sha256().as_str());
        places.push(Path::root().attribute(if same { INCARNATION } else { SPEC_SHA256 }));
        let told: Vec<_> = disagreements(current, &self.asked)
            .into_iter()
            .filter(|disagreement| hidden.contains(&disagreement.fact))
            .collect();
        if !told.is_empty() {
            diagnostics.push(
                Diagnostic::warning("The proxy differs from what is asked for where no argument changes")
                    .detail(format!("This is why it is replaced:\n{}", lines(&told))),
            );
        }
        places
    }
}

fn at<'v>(value: &'v Value, path: &Path) -> &'v Value {
    path.0.iter().fold(value, |value, step| match step {
        Step::Attribute(name) => {
            // Of an unknown block every attribute is unknown.
            if value.is_unknown() {
                value
            } else {
                value.get(name)
            }
        }
        Step::Key(_) | Step::Index(_) => value,
    })
}

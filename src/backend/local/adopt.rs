//! Adopt: a proxy of this machine whose record was lost, or that belongs to another installation.
//!
//! It must not start, stop or configure anything. Invariant: what a proxy lets through is read from
//! what its Squid was started with, or it is not adopted.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use jiff::Timestamp;

use super::classify;
use super::machine::{Held, Machine};
use super::place::Place;
use super::process;
use super::record::{Identity, Record};
use super::store::Entry;
use crate::contract::adoption::{Course, Findings, course};
use crate::contract::spec::{PasswordFact, sha256_hex};
use crate::contract::{AdoptRequest, Adoption, Error, Fact, Facts, InstanceId, InstanceKey, refusal};
use crate::squid::Loopback;
use crate::squid::evidence::evidence;

/// What a proxy of this machine has.
const FACTS: [Fact; 3] = [Fact::Port, Fact::AllowedCidrs, Fact::AllowedPorts];

/// A proxy without a record, as far as it shows itself.
#[derive(Clone, Debug)]
struct Stray {
    facts: Facts,
    listen: Vec<IpAddr>,
    created_at: Option<Timestamp>,
    process: Option<Identity>,
    /// The service name of the process that runs.
    service: Option<String>,
}

impl Machine {
    pub(super) async fn adopt_by_hand(&self, request: &AdoptRequest) -> Result<Adoption, Error> {
        let place = self.place(&request.id)?;
        let full = self.full(&request.id);
        let key = InstanceKey {
            installation: request.installation.clone(),
            namespace: place.namespace().clone(),
            name: place.name().clone(),
        };
        let Some(held) = self.hold_existing(&place).await? else {
            return Err(refusal::absent(&full));
        };
        match held.look().await? {
            Entry::Absent => Err(refusal::absent(&full)),
            Entry::Marked(record) => {
                let found = Findings {
                    mark: Some(record.mark.clone()),
                    ..Findings::default()
                };
                let course = course(request, &full, key, found)?;
                if record.deleting {
                    return Err(refusal::not_adoptable(
                        &full,
                        "its deletion was begun and not finished",
                    ));
                }
                self.conclude(&held, *record, course, BTreeSet::new()).await
            }
            Entry::Unmarked => {
                let id = full.clone();
                let stray = held
                    .disk("look at the stray proxy", move |place| stray(place, &id))
                    .await?;
                let found = Findings {
                    mark: None,
                    facts: stray.facts.clone(),
                    created_at: stray.created_at,
                };
                let course = course(request, &full, key, found)?;
                let known = course.mark().facts.present();
                let unknown = FACTS.into_iter().filter(|fact| !known.contains(fact)).collect();
                let mut record = Record::new(course.mark().clone(), BTreeMap::new(), stray.listen);
                record.process = stray.process;
                if let Some(service) = stray.service {
                    record.service = service;
                }
                self.conclude(&held, record, course, unknown).await
            }
        }
    }

    async fn conclude(
        &self,
        held: &Held,
        mut record: Record,
        course: Course,
        unknown: BTreeSet<Fact>,
    ) -> Result<Adoption, Error> {
        record.mark = course.mark().clone();
        match course {
            Course::Write(_) => held.write(&record).await?,
            Course::Show(_) | Course::Written(_) => {}
        }
        let liveness = held.liveness(&record).await?;
        let instance = self.instance(held.place(), &record, liveness)?;
        Ok(Adoption { instance, unknown })
    }
}

/// Looks at a proxy whose record is gone.
fn stray(place: &Place, id: &InstanceId) -> Result<Stray, Error> {
    let refused = |why: String| Err(refusal::not_adoptable(id, &why));
    if place.record().exists() {
        return refused(format!(
            "its {} is that of another proxy, from which the directory was copied or renamed",
            place.record().display()
        ));
    }
    let conf = place.conf();
    let text = match read(&conf)? {
        Some(text) => text,
        None => {
            return refused(format!(
                "there is no {}, so that nobody can tell what it is",
                conf.display()
            ));
        }
    };
    let Some(shown) = evidence(&text, Loopback::ForLoopbackClients) else {
        return refused(format!("{} is not what this provider writes", conf.display()));
    };
    let mut facts = shown.facts;
    if shown.authenticated {
        let passwords = place.passwords();
        let text = read(&passwords)?.unwrap_or_default();
        let Some((username, hash)) = text.trim_end().split_once(':') else {
            return refused(format!(
                "its password file {} is gone or damaged",
                passwords.display()
            ));
        };
        facts.username = Some(username.to_owned());
        facts.password = Some(PasswordFact::HashSha256(sha256_hex(hash)));
    }
    let alive = process::alive(&conf, &place.passwords())
        .map_err(|error| classify::process(error, "read the process table"))?;
    let (process, service) = (alive.squids.into_iter().next(), alive.services.into_iter().next());
    if process.is_some() && service.is_none() {
        return refused("its Squid was not started by this provider".to_owned());
    }
    let written = std::fs::metadata(&conf).and_then(|found| found.modified());
    Ok(Stray {
        facts,
        listen: if shown.listen.is_empty() {
            vec![Ipv4Addr::UNSPECIFIED.into()]
        } else {
            shown.listen
        },
        created_at: written.ok().and_then(|time| Timestamp::try_from(time).ok()),
        process,
        service,
    })
}

fn read(path: &Path) -> Result<Option<String>, Error> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(classify::file(error, "read", path)),
    }
}

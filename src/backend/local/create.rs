//! Create and resume: who may have the name, then step by step to a Squid that listens.
//!
//! It must not decide what a mark means to others: the refusals are the contract's. Invariants: the
//! record is there before the process and says `pending` until everything else is done; what this
//! create made itself and could not finish, it removes.

use jiff::Timestamp;

use super::files::{self, Files, Passwords};
use super::machine::{Held, Machine};
use super::place::Place;
use super::process::Order;
use super::record::{Liveness, Record};
use super::squid::{self, Installed, Listening};
use super::store::{self, Entry};
use super::{ports, process, seam};
use crate::contract::model::label_keys;
use crate::contract::{
    Accepted, AdoptPolicy, Adopted, Created, Error, Instance, InstanceId, Mark, NewInstance, Resume, Secret,
    Secrets, refusal,
};
use crate::squid::{Policy, password};

/// What a create does with what it found.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Course {
    /// There is nothing: make it.
    Make,
    /// There are remains of the same proxy whose deletion was cut off: finish that, then make it.
    MakeAnew(Box<Record>),
    /// Take over what is there, or go on with what an earlier attempt of this create made.
    Adopt(Adopted, Box<Record>),
}

fn course(found: Entry, request: &NewInstance, id: &InstanceId) -> Result<Course, Error> {
    let record = match found {
        Entry::Absent => return Ok(Course::Make),
        Entry::Unmarked => return Err(refusal::unmarked(id)),
        Entry::Marked(record) => record,
    };
    let mark = &record.mark;
    if mark.key.installation != request.key.installation {
        return Err(refusal::other_installation(
            id,
            &mark.key.installation,
            &request.key.installation,
        ));
    }
    if mark.uid != request.uid {
        return Err(refusal::other_specification(id, mark, &request.facts));
    }
    if record.deleting {
        // We hold the lock: whoever was deleting it does so no more.
        return Ok(Course::MakeAnew(record));
    }
    match (mark.pending, request.adopt) {
        // An earlier attempt of this very create: what it made is nobody else's.
        _ if mark.incarnation == request.incarnation => Ok(Course::Adopt(Adopted::No, record)),
        (true, AdoptPolicy::Interrupted | AdoptPolicy::SameSpec) => {
            Ok(Course::Adopt(Adopted::Pending, record))
        }
        (false, AdoptPolicy::SameSpec) => Ok(Course::Adopt(Adopted::SameSpec, record)),
        (true, AdoptPolicy::Never) => Err(refusal::never_adopted(id)),
        (false, AdoptPolicy::Interrupted | AdoptPolicy::Never) => Err(refusal::handed_over(id, mark)),
    }
}

/// The policy of facts that were resolved before; they were sound then.
fn policy(facts: &crate::contract::Facts) -> Result<Policy, Error> {
    Policy::of(facts).map_err(|problems| {
        let problems: Vec<_> = problems.into_iter().map(|problem| problem.message).collect();
        Error::permanent(problems.join("; "))
    })
}

fn passwords(policy: &Policy, secrets: &Secrets) -> Result<Passwords, Error> {
    let Some(username) = policy.username() else {
        return Ok(Passwords::None);
    };
    let hash: &Secret = secrets.password_hash.as_ref().ok_or_else(|| {
        Error::permanent("access.username needs a password, and none was handed to create: plan again")
    })?;
    password::file(username, hash)
        .map(Passwords::Write)
        .map_err(|error| Error::permanent(error.to_string()))
}

impl Machine {
    pub(super) async fn create_new(
        &self,
        request: &NewInstance,
        accepted: &Accepted,
    ) -> Result<Created, Error> {
        let place = Place::of(self.state_dir(), &request.key)
            .ok_or_else(|| Error::permanent(format!("{} has no id", request.key)))?;
        let policy = policy(&request.facts)?;
        let passwords = passwords(&policy, &request.secrets)?;
        // Everything that can be found wrong is, before the first write.
        let installed = squid::installed(self.config().squid().map(Into::into)).await?;
        let held = self.hold(&place, Some(&installed)).await?;
        let full = self.full(place.id());
        match course(held.look().await?, request, &full)? {
            Course::Make => {
                self.make(&held, request, &policy, passwords, &installed, accepted)
                    .await
            }
            Course::MakeAnew(remains) => {
                self.remove_all(&held, *remains).await?;
                self.make(&held, request, &policy, passwords, &installed, accepted)
                    .await
            }
            Course::Adopt(adopted, record) => {
                self.adopt(
                    &held, request, *record, adopted, &policy, passwords, &installed, accepted,
                )
                .await
            }
        }
    }

    async fn make(
        &self,
        held: &Held,
        request: &NewInstance,
        policy: &Policy,
        passwords: Passwords,
        installed: &Installed,
        accepted: &Accepted,
    ) -> Result<Created, Error> {
        // A Squid whose directory somebody removed still has the port, and would read the new files.
        squid::stop(held.place()).await?;
        let mark = Mark {
            key: request.key.clone(),
            uid: request.uid,
            incarnation: request.incarnation,
            pending: true,
            label_keys: label_keys(&request.labels),
            created_at: Some(Timestamp::now()),
            spec_sha256: request.spec_sha256.clone(),
            facts: request.facts.clone(),
            given: request.given.clone(),
        };
        let mut record = Record::new(mark, request.labels.clone(), self.config().listen().to_vec());
        self.ensure_free(&record, policy).await?;
        let (made, account) = (record.clone(), installed.account.clone());
        held.disk("make directory", move |place| {
            store::publish(place, &made, account.as_ref())
        })
        .await?;
        accepted.report(Instance {
            // Whoever holds this sight may never get another one.
            reason: Some("its Squid was about to be started".to_owned()),
            ..self.instance(held.place(), &record, Liveness::NeverStarted)?
        });
        let started = self
            .start(held, &mut record, policy, passwords, installed, accepted)
            .await;
        if let Err(error) = started {
            // The first failure is the one to tell; what its removal leaves says `pending`.
            let _ = self.remove_all(held, record).await;
            return Err(error);
        }
        self.hand_over(held, record, Adopted::No, accepted).await
    }

    #[expect(clippy::too_many_arguments, reason = "each was resolved by the caller")]
    async fn adopt(
        &self,
        held: &Held,
        request: &NewInstance,
        mut record: Record,
        adopted: Adopted,
        policy: &Policy,
        passwords: Passwords,
        installed: &Installed,
        accepted: &Accepted,
    ) -> Result<Created, Error> {
        let complete = !record.mark.pending;
        record.mark.incarnation = request.incarnation;
        record.mark.pending = true;
        record.mark.given.clone_from(&request.given);
        held.write(&record).await?;
        let liveness = held.liveness(&record).await?;
        accepted.report(self.instance(held.place(), &record, liveness)?);
        if complete && liveness == Liveness::Runs {
            // It was handed over once: only its password file may be older.
            self.configure(held, &record, policy, passwords, installed)
                .await?;
        } else {
            squid::stop(held.place()).await?;
            self.start(held, &mut record, policy, passwords, installed, accepted)
                .await?;
        }
        record.relabel(&request.labels, &Default::default());
        self.hand_over(held, record, adopted, accepted).await
    }

    pub(super) async fn resume(&self, request: &Resume, accepted: &Accepted) -> Result<Created, Error> {
        let place = self.place(&request.id)?;
        let full = self.full(&request.id);
        let gone = || refusal::plan_again(&full, "it does not exist any more");
        let Some(held) = self.hold_existing(&place).await? else {
            return Err(gone());
        };
        let mut record = match held.look().await? {
            Entry::Absent => return Err(gone()),
            Entry::Unmarked => return Err(refusal::unmarked(&full)),
            Entry::Marked(record) => *record,
        };
        if record.mark.incarnation != request.incarnation {
            return Err(refusal::plan_again(&full, &refusal::whose(&full, &record.mark)));
        }
        if record.mark.key.installation != request.installation {
            return Err(refusal::other_installation(
                &full,
                &record.mark.key.installation,
                &request.installation,
            ));
        }
        if record.deleting {
            return Err(refusal::plan_again(&full, "its deletion was begun"));
        }
        let mut liveness = held.liveness(&record).await?;
        accepted.report(self.instance(&place, &record, liveness)?);
        if let (Liveness::Paused, Some(identity)) = (liveness, &record.process) {
            squid::tell(identity, Order::Continue).await?;
            liveness = held.liveness(&record).await?;
        }
        if liveness != Liveness::Runs {
            let policy = policy(&record.mark.facts)?;
            let passwords = policy.username().map_or(Passwords::None, |_| Passwords::Keep);
            let installed = squid::installed(self.config().squid().map(Into::into)).await?;
            squid::stop(&place).await?;
            self.start(&held, &mut record, &policy, passwords, &installed, accepted)
                .await?;
        }
        record.relabel(&request.labels, &request.prior_label_keys);
        self.hand_over(&held, record, Adopted::No, accepted).await
    }

    /// The last write: from here on it belongs to a state.
    async fn hand_over(
        &self,
        held: &Held,
        mut record: Record,
        adopted: Adopted,
        accepted: &Accepted,
    ) -> Result<Created, Error> {
        record.mark.pending = false;
        held.write(&record).await?;
        let liveness = held.liveness(&record).await?;
        let instance = self.instance(held.place(), &record, liveness)?;
        accepted.report(instance.clone());
        let full = self.full(held.place().id());
        let warnings = match adopted {
            Adopted::No => Vec::new(),
            Adopted::Pending => vec![format!(
                "\"{full}\" existed already, left unfinished by an earlier create of the same specification: it was \
                 finished and taken over."
            )],
            Adopted::SameSpec => vec![format!(
                "\"{full}\" existed already with the same specification and was taken over; a state that held it \
                 before holds it no longer."
            )],
        };
        Ok(Created {
            instance,
            adopted,
            warnings,
        })
    }

    async fn ensure_free(&self, record: &Record, policy: &Policy) -> Result<(), Error> {
        let Listening {
            listen,
            port,
            state_dir,
        } = self.listening(record, policy);
        seam::disk("try the port", move || {
            ports::ensure_free(&listen, port, &state_dir)
        })
        .await
    }

    fn listening(&self, record: &Record, policy: &Policy) -> Listening {
        Listening {
            listen: record.listen.clone(),
            port: policy.port(),
            state_dir: self.state_dir().to_owned(),
        }
    }

    /// Writes what Squid reads, and has Squid itself check it.
    async fn configure(
        &self,
        held: &Held,
        record: &Record,
        policy: &Policy,
        passwords: Passwords,
        installed: &Installed,
    ) -> Result<(), Error> {
        let files = Files {
            conf: self.conf(held.place(), record, policy, installed)?,
            passwords,
        };
        let account = installed.account.clone();
        held.disk("write configuration", move |place| {
            if let Some(account) = &account {
                account.passes_to(&place.dir())?;
            }
            files::configure(place, &files, account.as_ref())
        })
        .await?;
        squid::parse(installed, &held.place().conf()).await
    }

    /// Configures and starts a proxy of which nothing runs, and waits until it listens. What was
    /// reported before is out of date once there is a process.
    async fn start(
        &self,
        held: &Held,
        record: &mut Record,
        policy: &Policy,
        passwords: Passwords,
        installed: &Installed,
        accepted: &Accepted,
    ) -> Result<(), Error> {
        self.configure(held, record, policy, passwords, installed).await?;
        self.ensure_free(record, policy).await?;
        let service = record.service.clone();
        let log_before = held
            .disk("look at squid's log", move |place| {
                // What a killed Squid left would be taken for the memory of a running one.
                files::remove_shared_memory(&service)?;
                Ok(files::log_length(place))
            })
            .await?;
        let mut child = squid::spawn(installed, held.place(), &record.service)?;
        if let Some(pid) = child.id() {
            record.process = seam::disk("identify squid", move || Ok(process::identify(pid).ok())).await?;
        }
        held.write(record).await?;
        let liveness = held.liveness(record).await?;
        accepted.report(self.instance(held.place(), record, liveness)?);
        squid::opened(
            &mut child,
            held.place(),
            &self.listening(record, policy),
            log_before,
        )
        .await
    }
}

#[cfg(test)]
mod tests;

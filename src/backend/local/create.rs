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
use crate::contract::{
    Accepted, Adopted, Created, Error, Instance, InstanceId, NewInstance, Resume, Secrets, refusal,
};
use crate::squid::Policy;

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
    request.claims(&record.mark, id)?;
    if record.deleting {
        // We hold the lock: whoever was deleting it does so no more.
        return Ok(Course::MakeAnew(record));
    }
    let adopted = request.adopts(&record.mark, id)?;
    Ok(Course::Adopt(adopted, record))
}

/// What the password file shall hold.
fn passwords(policy: &Policy, secrets: &Secrets) -> Result<Passwords, Error> {
    let file = policy.password_file(secrets)?;
    Ok(file.map_or(Passwords::None, Passwords::Write))
}

impl Machine {
    pub(super) async fn create_new(
        &self,
        request: &NewInstance,
        accepted: &Accepted,
    ) -> Result<Created, Error> {
        let place = Place::of(self.state_dir(), &request.key)
            .ok_or_else(|| Error::permanent(format!("{} has no id", request.key)))?;
        let policy = Policy::resolved(&request.facts)?;
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
        let mark = request.pending_mark(Some(Timestamp::now()));
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
        request.holds(&record.mark, &full)?;
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
            let policy = Policy::resolved(&record.mark.facts)?;
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
        Ok(Created::of(instance, adopted, &self.full(held.place().id())))
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

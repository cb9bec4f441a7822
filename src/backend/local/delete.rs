//! Delete: the process first, the record last.
//!
//! It must not touch what is not exactly the incarnation it was told. Invariant: a deletion that was
//! cut off is seen as such and can be done again.

use super::machine::{Held, Machine};
use super::record::Record;
use super::store::{self, Entry};
use super::{files, seam, squid};
use crate::contract::{DeleteRequest, Deleted, Error, refusal};

impl Machine {
    pub(super) async fn remove(&self, request: &DeleteRequest) -> Result<Deleted, Error> {
        let place = self.place(&request.id)?;
        let full = self.full(&request.id);
        let nothing = |answer| {
            refusal::same_target(&full, request.recorded_target.as_ref(), &self.target())?;
            Ok(answer)
        };
        let Some(held) = self.hold_existing(&place).await? else {
            let gone = nothing(Deleted::Gone)?;
            squid::stop(&place).await?;
            return Ok(gone);
        };
        let record = match held.look().await? {
            Entry::Absent => {
                let gone = nothing(Deleted::Gone)?;
                // Of a proxy whose directory was removed by hand, or that was never published.
                squid::stop(&place).await?;
                held.disk("sweep", store::sweep).await?;
                return Ok(gone);
            }
            Entry::Unmarked => return Err(refusal::unmarked(&full)),
            Entry::Marked(record) => *record,
        };
        if request.incarnation != Some(record.mark.incarnation) {
            return nothing(Deleted::LeftAlone(refusal::whose(&full, &record.mark)));
        }
        record.mark.belongs_to(&request.installation, &full)?;
        self.remove_all(&held, record).await?;
        Ok(Deleted::Gone)
    }

    /// Removes a proxy that is held, whatever is left of it.
    pub(super) async fn remove_all(&self, held: &Held, mut record: Record) -> Result<(), Error> {
        record.deleting = true;
        held.write(&record).await?;
        squid::stop(held.place()).await?;
        let service = record.service;
        seam::disk("remove shared memory", move || {
            files::remove_shared_memory(&service)
        })
        .await?;
        held.disk("remove directory", store::withdraw).await
    }
}

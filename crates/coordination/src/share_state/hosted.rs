//! The coordinator of share-group state as a machine of its host: batches of
//! `__share_group_state` in and out.

use levada_base::Append;
use levada_base::Now;
use levada_base::batch::{self, BatchView, Builder};

use super::config::ShareStateConfig;
use super::coordinator::Coordinator;
use super::error::ShareStateError;
use super::event::{Event, Outcome, Work};
use crate::machine::{ActionOf, EncodedRecord, Machine, PersistFailure, ReplayFault};

impl Machine for Coordinator {
    const SUBJECT: &'static str = "share";
    const NOT_COORDINATOR: ShareStateError = ShareStateError::NotCoordinator;

    type Settings = ShareStateConfig;
    type Event = Event;
    type Outcome = Outcome;
    type Payload = Vec<EncodedRecord>;
    type Work = Work;
    type Error = ShareStateError;

    fn new(settings: &ShareStateConfig) -> Self {
        Self::new(settings.clone())
    }

    /// The topics stay at their last announcement.
    fn begin(&mut self, _: i32) {
        *self = self.emptied();
    }

    fn replay(&mut self, batch: &BatchView<'_>) -> Result<(), ReplayFault> {
        if batch.is_control() {
            return Ok(());
        }
        for record in batch::records(batch.bytes())? {
            let record = record?;
            let offset = batch.base_offset() + i64::from(record.offset_delta);
            match self.replay(offset, record.key.unwrap_or_default(), record.value) {
                Ok(()) => {}
                Err(error) if error.is_newer() => {
                    return Err(ReplayFault::Newer { offset, error: error.to_string() });
                }
                Err(error) => {
                    tracing::warn!(offset, %error, "skipped a share-group record that cannot be decoded");
                }
            }
        }
        Ok(())
    }

    fn step(&mut self, event: Event, now: Now) -> Vec<ActionOf<Self>> {
        self.step(event, now)
    }

    fn deadline(&self) -> Option<i64> {
        self.deadline()
    }

    fn is_unloaded(&self) -> bool {
        self.is_unloaded()
    }

    fn batch(
        records: &Vec<EncodedRecord>,
        limit_bytes: usize,
        now_ms: i64,
    ) -> Result<Append, PersistFailure> {
        let bytes =
            |record: &EncodedRecord| record.key.len() + record.value.as_ref().map_or(0, |value| value.len());
        if records.iter().any(|record| bytes(record) > limit_bytes) {
            return Err(PersistFailure::TooLarge);
        }
        let mut batch = Builder::new();
        for record in records {
            batch.push(now_ms, Some(&record.key), record.value.as_deref());
        }
        batch.build().map(Append::coordinator).map_err(|_| PersistFailure::Lost)
    }
}

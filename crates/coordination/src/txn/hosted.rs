//! The transaction coordinator as a machine of its host: batches of `__transaction_state` in and
//! out.

use levada_base::Append;
use levada_base::Now;
use levada_base::batch::{self, BatchView, Builder};

use super::config::TxnConfig;
use super::coordinator::Coordinator;
use super::error::TxnError;
use super::event::{Event, Outcome, Work};
use crate::machine::{ActionOf, EncodedRecord, Machine, PersistFailure, ReplayFault};

impl Machine for Coordinator {
    const SUBJECT: &'static str = "transaction";
    const NOT_COORDINATOR: TxnError = TxnError::NotCoordinator;

    type Settings = TxnConfig;
    type Event = Event;
    type Outcome = Outcome;
    type Payload = Vec<EncodedRecord>;
    type Work = Work;
    type Error = TxnError;

    fn new(settings: &TxnConfig) -> Self {
        Self::new(settings.clone(), 0)
    }

    fn begin(&mut self, leader_epoch: i32) {
        *self = Self::new(self.config().clone(), leader_epoch);
    }

    fn replay(&mut self, batch: &BatchView<'_>) -> Result<(), ReplayFault> {
        if batch.is_control() {
            return Ok(());
        }
        for record in batch::records(batch.bytes())? {
            let record = record?;
            let offset = batch.base_offset() + i64::from(record.offset_delta);
            match self.replay(record.key.unwrap_or_default(), record.value) {
                Ok(()) => {}
                Err(error) if error.is_newer() => {
                    return Err(ReplayFault::Newer { offset, error: error.to_string() });
                }
                Err(error) => {
                    tracing::warn!(offset, %error, "skipped a transaction record that cannot be decoded");
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

    fn batch(records: &Vec<EncodedRecord>, _: usize, now_ms: i64) -> Result<Append, PersistFailure> {
        let mut batch = Builder::new();
        for record in records {
            batch.push(now_ms, Some(&record.key), record.value.as_deref());
        }
        batch.build().map(Append::coordinator).map_err(|_| PersistFailure::Lost)
    }
}

//! The group coordinator as a machine of its host: batches of `__consumer_offsets` in and out.

use levada_base::Append;
use levada_base::Now;
use levada_base::batch::{self, BatchView, Builder, EndMarker, Marker, NO_SEQUENCE};

use super::config::GroupConfig;
use super::coordinator::{Coordinator, GroupWork, Replayed};
use super::error::GroupError;
use super::event::{Event, Outcome, Payload, Producer};
use super::request::EndTxnRequest;
use super::turn::{Rebalance, Rebalances};
use crate::machine::{ActionOf, EncodedRecord, Machine, PersistFailure, ReplayFault};

impl Machine for Coordinator {
    const SUBJECT: &'static str = "group";
    const NOT_COORDINATOR: GroupError = GroupError::NotCoordinator;

    type Settings = GroupConfig;
    type Event = Event;
    type Outcome = Outcome;
    type Payload = Payload;
    type Work = GroupWork;
    type Error = GroupError;

    fn new(settings: &GroupConfig) -> Self {
        Self::new(settings.clone())
    }

    /// The topics and the groups' own settings stay at their last announcement.
    fn begin(&mut self, leader_epoch: i32) {
        self.set_term(leader_epoch);
    }

    fn replay(&mut self, batch: &BatchView<'_>) -> Result<(), ReplayFault> {
        if batch.is_control() {
            if let Some(end) = EndMarker::parse(batch.bytes()) {
                self.replay_marker(end.producer_id, matches!(end.marker, Marker::Commit));
            }
            return Ok(());
        }
        let transaction = batch.is_transactional().then(|| batch.producer_id());
        for record in batch::records(batch.bytes())? {
            let record = record?;
            let offset = batch.base_offset() + i64::from(record.offset_delta);
            let replayed =
                Replayed { offset, transaction, key: record.key.unwrap_or_default(), value: record.value };
            match self.replay(replayed) {
                Ok(()) => {}
                Err(error) if error.is_newer() => {
                    return Err(ReplayFault::Newer { offset, error: error.to_string() });
                }
                Err(error) => {
                    tracing::warn!(offset, %error, "skipped a group record that cannot be decoded");
                }
            }
        }
        Ok(())
    }

    fn step(&mut self, event: Event, now: Now) -> Vec<ActionOf<Self>> {
        let actions = self.step(event, now);
        let Rebalances { named, unnamed } = std::mem::take(&mut self.rebalances);
        for Rebalance { group_id, generation, members } in named {
            if let Some(left_out) = self.rebalance_log.admit(now.steady_ms) {
                let left_out = Some(left_out).filter(|count| *count > 0);
                tracing::info!(group = group_id, generation, members, left_out, "group rebalanced");
            }
        }
        self.rebalance_log.leave_out(unnamed);
        actions
    }

    fn deadline(&self) -> Option<i64> {
        self.deadline()
    }

    fn is_unloaded(&self) -> bool {
        self.is_unloaded()
    }

    fn batch(payload: &Payload, limit_bytes: usize, now_ms: i64) -> Result<Append, PersistFailure> {
        // As in Kafka: a record that is too large for any topic is too large for the coordinator's
        // topic.
        if payload.largest_record_bytes() > limit_bytes {
            return Err(PersistFailure::TooLarge);
        }
        encode(payload, now_ms).map_err(|_| PersistFailure::Lost)
    }
}

fn encode(payload: &Payload, now_ms: i64) -> std::io::Result<Append> {
    let build = |mut batch: Builder, records: &[EncodedRecord]| {
        for record in records {
            batch.push(now_ms, Some(&record.key), record.value.as_deref());
        }
        Ok(Append::coordinator(batch.build()?))
    };
    match payload {
        Payload::Records(records) => build(Builder::new(), records),
        Payload::Transactional(Producer { id, epoch }, records) => {
            build(Builder::new().producer(*id, *epoch, NO_SEQUENCE).transactional(), records)
        }
        Payload::Marker(end) => end.append(now_ms),
    }
}

impl EndTxnRequest {
    /// The marker to append to a partition of the transaction.
    ///
    /// # Errors
    /// None in practice: the batch has one small record.
    pub fn append(&self, now_ms: i64) -> std::io::Result<Append> {
        let end = EndMarker {
            marker: if self.commit { Marker::Commit } else { Marker::Abort },
            producer_id: self.producer.id,
            producer_epoch: self.producer.epoch,
            coordinator_epoch: self.coordinator_epoch,
            timestamp_ms: now_ms,
        };
        Ok(Append { transaction_version: self.transaction_version, ..Append::coordinator(end.build()?) })
    }
}

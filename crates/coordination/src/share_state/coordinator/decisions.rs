//! Decisions on single operations: the refusals of each type in Kafka's order, the result, and the
//! record that it needs.

use levada_wire::Uuid;

use super::{Coordinator, Place};
use crate::share_state::error::ShareStateError;
use crate::share_state::key::ShareKey;
use crate::share_state::records::Record;
use crate::share_state::request::{InitializePart, Operation, PartAnswer, ReadPart, StateSummary, WritePart};
use crate::share_state::share::{NO_EPOCH, Share};

/// The result of an operation, and the record that must be stored first.
type Decision = (PartAnswer, Option<Record>);

impl Coordinator {
    /// Decides an operation on a key that is not busy.
    pub(super) fn decide(&mut self, key: &ShareKey, place: Place, operation: Operation, now_ms: i64) {
        let result = match self.decision(key, &operation, now_ms) {
            Err(error) => Err(error),
            Ok((answer, None)) => Ok(answer),
            Ok((answer, Some(record))) => match self.write(key, &record) {
                Ok(()) => Ok(answer),
                Err(_) => Err(ShareStateError::UnknownServerError),
            },
        };
        self.result_with_draft(key, place, result);
        self.flush_if_large();
    }

    fn decision(
        &self,
        key: &ShareKey,
        operation: &Operation,
        now_ms: i64,
    ) -> Result<Decision, ShareStateError> {
        if key.group_id.is_empty() {
            return Err(ShareStateError::NO_GROUP);
        }
        if key.partition < 0 {
            return Err(ShareStateError::NEGATIVE_PARTITION);
        }
        match operation {
            Operation::Initialize(part) => self.initialize(key, part, now_ms),
            Operation::Read(part) => self.read(key, part, now_ms),
            Operation::Write(part) => self.write_state(key, part, now_ms),
            Operation::Delete(_) => self.delete(key),
            Operation::Summarize(_) => {
                self.check_topic(key)?;
                let summary = self.slots.latest(key).map_or(StateSummary::UNINITIALIZED, Share::summary);
                Ok((PartAnswer::Summary(summary), None))
            }
        }
    }

    fn initialize(
        &self,
        key: &ShareKey,
        part: &InitializePart,
        now_ms: i64,
    ) -> Result<Decision, ShareStateError> {
        let share = self.slots.latest(key);
        if let Some(share) = share {
            share.check_state_epoch(part.state_epoch)?;
        }
        self.check_topic(key)?;
        if share.is_none() && self.slots.len() >= self.config.keys_max {
            return Err(ShareStateError::CoordinatorNotAvailable);
        }
        let snapshot = Share::initial(share, part, now_ms);
        Ok((PartAnswer::Done, Some(Record::Snapshot(key.clone(), Some(snapshot)))))
    }

    /// The state for a leader. A leader with a new epoch has it written, which fences the earlier
    /// leaders' writes.
    fn read(&self, key: &ShareKey, part: &ReadPart, now_ms: i64) -> Result<Decision, ShareStateError> {
        let share = self.slots.latest(key).ok_or(ShareStateError::UNINITIALIZED)?;
        share.check_leader_epoch(part.leader_epoch)?;
        self.check_topic(key)?;
        let answer = PartAnswer::State(share.stored());
        if part.leader_epoch == NO_EPOCH || part.leader_epoch == share.leader_fence {
            return Ok((answer, None));
        }
        let unchanged = WritePart {
            topic_id: part.topic_id,
            partition: part.partition,
            state_epoch: share.state_epoch,
            leader_epoch: part.leader_epoch,
            start_offset: share.start_offset,
            delivery_complete_count: share.delivery_complete_count,
            batches: Vec::new(),
        };
        Ok((answer, Some(self.record(key, share, &unchanged, part.leader_epoch, now_ms))))
    }

    fn write_state(
        &self,
        key: &ShareKey,
        part: &WritePart,
        now_ms: i64,
    ) -> Result<Decision, ShareStateError> {
        let share = self.slots.latest(key).ok_or(ShareStateError::UNINITIALIZED)?;
        share.check_leader_epoch(part.leader_epoch)?;
        share.check_state_epoch(part.state_epoch)?;
        self.check_topic(key)?;
        self.check_batches(share, part)?;
        // As in Kafka, a write does not raise the leader epoch; only a read does.
        let record = self.record(key, share, part, share.leader_epoch, now_ms);
        Ok((PartAnswer::Done, Some(record)))
    }

    fn delete(&self, key: &ShareKey) -> Result<Decision, ShareStateError> {
        self.check_topic(key)?;
        let exists = self.slots.latest(key).is_some();
        Ok((PartAnswer::Done, exists.then(|| Record::Snapshot(key.clone(), None))))
    }

    /// The record of a write: an update, or a snapshot after enough of them.
    fn record(
        &self,
        key: &ShareKey,
        share: &Share,
        part: &WritePart,
        leader_epoch: i32,
        now_ms: i64,
    ) -> Record {
        if share.updates >= self.config.updates_per_snapshot {
            Record::Snapshot(key.clone(), Some(share.written(part, leader_epoch, now_ms)))
        } else {
            Record::Update(key.clone(), Some(share.updated(part, leader_epoch)))
        }
    }

    /// A write adds at most two state batches for each of its own. The resulting batches are only
    /// counted if they might exceed the limit.
    fn check_batches(&self, share: &Share, part: &WritePart) -> Result<(), ShareStateError> {
        if part.batches.len() > self.config.key_batches_max {
            return Err(ShareStateError::TOO_MANY_BATCHES);
        }
        if !part.batches.iter().all(|batch| batch.is_range()) {
            return Err(ShareStateError::NO_RANGE);
        }
        let (before, added) = (share.batches.len(), 2 * part.batches.len());
        // The draft of the state counts too.
        let total = self.slots.batches() + before;
        if before + added <= self.config.key_batches_max && total + added <= self.config.batches_max {
            return Ok(());
        }
        let after = share.batches_after(part);
        if after <= before {
            return Ok(());
        }
        if after > self.config.key_batches_max {
            return Err(ShareStateError::UnknownServerError);
        }
        if total + (after - before) > self.config.batches_max {
            return Err(ShareStateError::CoordinatorNotAvailable);
        }
        Ok(())
    }

    fn check_topic(&self, key: &ShareKey) -> Result<(), ShareStateError> {
        let count = self.partition_count(key.topic_id);
        if count.is_some_and(|count| key.partition < count) {
            Ok(())
        } else {
            Err(ShareStateError::UnknownTopicOrPartition)
        }
    }

    /// Number of partitions of a topic by the last announcement.
    pub(super) fn partition_count(&self, topic_id: Uuid) -> Option<i32> {
        self.topics.as_ref().and_then(|topics| topics.partition_count(topic_id))
    }
}

impl Share {
    fn check_leader_epoch(&self, leader_epoch: i32) -> Result<(), ShareStateError> {
        if leader_epoch != NO_EPOCH && leader_epoch < self.leader_fence {
            return Err(ShareStateError::FencedLeaderEpoch);
        }
        Ok(())
    }

    fn check_state_epoch(&self, state_epoch: i32) -> Result<(), ShareStateError> {
        if state_epoch != NO_EPOCH && state_epoch < self.state_fence {
            return Err(ShareStateError::FencedStateEpoch);
        }
        Ok(())
    }
}

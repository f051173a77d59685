//! The state of one key, and the records that change it.

use super::batches::{NO_START_OFFSET, StateBatches};
use super::records::{Snapshot, Update};
use super::request::{InitializePart, StateSummary, StoredState, WritePart};

/// An epoch that a request without one has.
pub(super) const NO_EPOCH: i32 = -1;
/// A fence that no epoch is below.
const NO_FENCE: i32 = i32::MIN;
/// The count before a partition has a start offset.
const UNKNOWN_COUNT: i32 = -1;

/// The state of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Share {
    /// Number of the last snapshot.
    pub(super) snapshot_epoch: i32,
    /// Epoch of the last snapshot's state.
    pub(super) state_epoch: i32,
    /// Leader epoch of the last record.
    pub(super) leader_epoch: i32,
    /// Offset of the first record to deliver; -1 if it is not known yet.
    pub(super) start_offset: i64,
    /// Number of offsets whose delivery is complete; -1 if not known.
    pub(super) delivery_complete_count: i32,
    /// Time of the last change by a snapshot.
    pub(super) create_ms: i64,
    /// Time of the last snapshot.
    pub(super) write_ms: i64,
    /// Delivery states of the records in flight.
    pub(super) batches: StateBatches,
    /// Highest leader epoch of a record since the key exists.
    pub(super) leader_fence: i32,
    /// Highest state epoch of a snapshot since the key exists.
    pub(super) state_fence: i32,
    /// Number of updates counted towards the next snapshot. As in Kafka, a snapshot for another
    /// reason does not begin the count again.
    pub(super) updates: u32,
    /// Offset of the first record in the log that the key needs: of its last snapshot.
    pub(super) floor: i64,
}

impl Share {
    /// The state after a snapshot. `before` is the state until then.
    pub(super) fn after_snapshot(
        before: Option<&Self>,
        snapshot: &Snapshot,
        updates_per_snapshot: u32,
    ) -> Self {
        let fences = before.map_or((NO_FENCE, NO_FENCE), |share| (share.leader_fence, share.state_fence));
        let updates = before.map_or(0, |share| share.updates);
        Self {
            snapshot_epoch: snapshot.snapshot_epoch,
            state_epoch: snapshot.state_epoch,
            leader_epoch: snapshot.leader_epoch,
            start_offset: snapshot.start_offset,
            delivery_complete_count: snapshot.delivery_complete_count,
            create_ms: snapshot.create_ms,
            write_ms: snapshot.write_ms,
            batches: StateBatches::of(&snapshot.batches, NO_START_OFFSET),
            leader_fence: fences.0.max(snapshot.leader_epoch),
            state_fence: fences.1.max(snapshot.state_epoch),
            updates: if updates >= updates_per_snapshot { 0 } else { updates },
            floor: before.map_or(0, |share| share.floor),
        }
    }

    /// A state that the log has no snapshot of, before its first update.
    pub(super) fn without_snapshot(update: &Update) -> Self {
        Self {
            snapshot_epoch: update.snapshot_epoch,
            state_epoch: 0,
            leader_epoch: update.leader_epoch,
            start_offset: update.start_offset,
            delivery_complete_count: UNKNOWN_COUNT,
            create_ms: 0,
            write_ms: 0,
            batches: StateBatches::default(),
            leader_fence: NO_FENCE,
            state_fence: NO_FENCE,
            updates: 0,
            floor: 0,
        }
    }

    /// Changes the state by an update.
    pub(super) fn update(&mut self, update: &Update) {
        // Another coordinator may have moved it back: see `Share::start_after`.
        self.start_offset = self.start_offset.max(update.start_offset);
        if update.leader_epoch != NO_EPOCH {
            self.leader_epoch = update.leader_epoch;
        }
        self.delivery_complete_count = update.delivery_complete_count;
        self.batches.merge(&update.batches, self.start_offset);
        self.leader_fence = self.leader_fence.max(update.leader_epoch);
        self.updates = self.updates.saturating_add(1);
    }

    /// The snapshot with which a request begins a state.
    pub(super) fn initial(before: Option<&Self>, part: &InitializePart, now_ms: i64) -> Snapshot {
        // The number of complete deliveries is known only from a known start on.
        let is_known = part.start_offset != NO_START_OFFSET;
        Snapshot {
            snapshot_epoch: before.map_or(0, |share| share.snapshot_epoch.saturating_add(1)),
            state_epoch: part.state_epoch,
            leader_epoch: 0,
            start_offset: part.start_offset,
            delivery_complete_count: if is_known { 0 } else { UNKNOWN_COUNT },
            create_ms: now_ms,
            write_ms: now_ms,
            batches: Vec::new(),
        }
    }

    /// The snapshot of the state after a write, written instead of an update.
    pub(super) fn written(&self, part: &WritePart, leader_epoch: i32, now_ms: i64) -> Snapshot {
        let start_offset = self.start_after(part);
        let mut batches = self.batches.clone();
        batches.merge(&part.batches, start_offset);
        Snapshot {
            snapshot_epoch: self.snapshot_epoch.saturating_add(1),
            state_epoch: self.state_epoch,
            leader_epoch,
            start_offset,
            delivery_complete_count: self.complete_after(part),
            create_ms: now_ms,
            write_ms: now_ms,
            batches: batches.as_slice().to_vec(),
        }
    }

    /// The update of a write.
    pub(super) fn updated(&self, part: &WritePart, leader_epoch: i32) -> Update {
        let start_offset = if self.is_overtaken(part) { self.start_offset } else { part.start_offset };
        Update {
            snapshot_epoch: self.snapshot_epoch,
            leader_epoch,
            start_offset,
            delivery_complete_count: self.complete_after(part),
            batches: StateBatches::of(&part.batches, start_offset).as_slice().to_vec(),
        }
    }

    /// The unchanged state in a new snapshot.
    pub(super) fn rewritten(&self, now_ms: i64) -> Snapshot {
        Snapshot {
            snapshot_epoch: self.snapshot_epoch.saturating_add(1),
            state_epoch: self.state_epoch,
            leader_epoch: self.leader_epoch,
            start_offset: self.start_offset,
            delivery_complete_count: self.delivery_complete_count,
            create_ms: self.create_ms,
            write_ms: now_ms,
            batches: self.batches.as_slice().to_vec(),
        }
    }

    /// Number of state batches after a write.
    pub(super) fn batches_after(&self, part: &WritePart) -> usize {
        let mut batches = self.batches.clone();
        batches.merge(&part.batches, self.start_after(part));
        batches.len()
    }

    /// The start offset after a write. It never decreases: the state of the records before it is
    /// gone, so that they would be delivered again.
    fn start_after(&self, part: &WritePart) -> i64 {
        self.start_offset.max(part.start_offset)
    }

    /// True if a write that its leader began later has already moved the start offset. A leader may
    /// have several writes in flight, and repeat one that a coordinator has refused.
    fn is_overtaken(&self, part: &WritePart) -> bool {
        (NO_START_OFFSET + 1..self.start_offset).contains(&part.start_offset)
    }

    /// Number of complete deliveries after a write. An overtaken write counts from another start
    /// offset: then at least the deliveries that the state contains are complete.
    fn complete_after(&self, part: &WritePart) -> i32 {
        if part.delivery_complete_count == UNKNOWN_COUNT || !self.is_overtaken(part) {
            return part.delivery_complete_count;
        }
        let mut batches = self.batches.clone();
        batches.merge(&part.batches, self.start_offset);
        self.delivery_complete_count.max(i32::try_from(batches.complete()).unwrap_or(i32::MAX))
    }

    /// The state for the partition's leader.
    pub(super) fn stored(&self) -> StoredState {
        StoredState {
            state_epoch: self.state_epoch,
            start_offset: self.start_offset,
            batches: self.batches.as_slice().to_vec(),
        }
    }

    /// The state for an administrator.
    pub(super) fn summary(&self) -> StateSummary {
        StateSummary {
            state_epoch: self.state_epoch,
            leader_epoch: self.leader_epoch,
            start_offset: self.start_offset,
            delivery_complete_count: self.delivery_complete_count,
        }
    }

    /// True if its last snapshot repeats an earlier one, because the key was not written.
    pub(super) fn is_cold(&self) -> bool {
        self.create_ms != self.write_ms
    }
}

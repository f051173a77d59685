//! Writes of the share state of one entry: one at a time, in their order. Writes that wait for an
//! earlier one leave together.

use std::collections::VecDeque;

use levada_coordination::share_partition::{DeliverySpan, StateWrite, WriteFault, WriteId};
use levada_coordination::share_state::request::WritePart;
use levada_coordination::share_state::{ShareStateError, StateBatch};
use levada_wire::error_code::ErrorCode;
use tokio::sync::oneshot;

use super::PartitionPlace;

/// Spans of offsets at most in writes that leave together.
const SPANS_MAX: usize = 5_000;

/// End of an acknowledgement: its changes are stored, or were rolled back.
pub(crate) type Acknowledged = Result<(), ErrorCode>;

/// A write, and the acknowledgement that waits for it.
pub(super) struct Queued {
    pub(super) write: StateWrite,
    pub(super) waiter: Option<oneshot::Sender<Acknowledged>>,
}

/// Writes that wait.
#[derive(Default)]
pub(super) struct WriteQueue {
    waiting: VecDeque<Queued>,
    /// True while a task writes.
    is_written: bool,
}

/// Writes that leave together.
pub(crate) struct WriteBatch {
    writes: Vec<Queued>,
}

impl WriteQueue {
    /// Adds a write. Returns true if the caller has to start a task that writes.
    pub(super) fn push(&mut self, queued: Queued) -> bool {
        self.waiting.push_back(queued);
        !std::mem::replace(&mut self.is_written, true)
    }

    /// The next writes; none ends the task that writes.
    pub(super) fn next(&mut self) -> Option<WriteBatch> {
        let (mut writes, mut spans): (Vec<Queued>, usize) = (Vec::new(), 0);
        while let Some(next) = self.waiting.front() {
            spans = spans.saturating_add(next.write.spans.len());
            if !writes.is_empty() && spans > SPANS_MAX {
                break;
            }
            writes.extend(self.waiting.pop_front());
        }
        self.is_written = !writes.is_empty();
        self.is_written.then_some(WriteBatch { writes })
    }

    /// True if no write is waiting or in progress.
    pub(super) fn is_idle(&self) -> bool {
        !self.is_written
    }
}

impl WriteBatch {
    /// The writes as one request. Offsets and counts are those of the last one; of several states
    /// of an offset, the share coordinator uses the latest.
    pub(crate) fn part(&self, (topic_id, partition): PartitionPlace) -> Option<WritePart> {
        let last = &self.writes.last()?.write;
        let spans = self.writes.iter().flat_map(|queued| &queued.write.spans);
        Some(WritePart {
            topic_id,
            partition,
            state_epoch: last.state_epoch,
            leader_epoch: last.leader_epoch,
            start_offset: last.start_offset,
            delivery_complete_count: last.delivery_complete_count,
            batches: spans.map(state_batch).collect(),
        })
    }

    /// Ids of the writes, each with the request that waits for it, if there is one.
    pub(super) fn into_writes(
        self,
    ) -> impl Iterator<Item = (WriteId, Option<oneshot::Sender<Acknowledged>>)> {
        self.writes.into_iter().map(|queued| (queued.write.id, queued.waiter))
    }
}

fn state_batch(span: &DeliverySpan) -> StateBatch {
    StateBatch {
        first_offset: span.first,
        last_offset: span.last,
        delivery_state: span.state,
        delivery_count: span.delivery_count,
    }
}

/// The reason why a write was not stored. A key without state belongs to a group that was deleted.
pub(super) fn fault(error: ShareStateError) -> WriteFault {
    match error {
        ShareStateError::FencedLeaderEpoch | ShareStateError::FencedStateEpoch => WriteFault::Fenced,
        ShareStateError::UnknownTopicOrPartition | ShareStateError::InvalidRequest(_) => WriteFault::Gone,
        ShareStateError::CoordinatorLoadInProgress
        | ShareStateError::CoordinatorNotAvailable
        | ShareStateError::NotCoordinator
        | ShareStateError::UnknownServerError => WriteFault::Unavailable,
    }
}

/// The code for clients of an error of the share coordinator.
pub(crate) fn state_error(error: ShareStateError) -> ErrorCode {
    match error {
        ShareStateError::FencedLeaderEpoch | ShareStateError::FencedStateEpoch => {
            ErrorCode::NotLeaderOrFollower
        }
        ShareStateError::UnknownTopicOrPartition => ErrorCode::UnknownTopicOrPartition,
        ShareStateError::CoordinatorLoadInProgress
        | ShareStateError::CoordinatorNotAvailable
        | ShareStateError::NotCoordinator => ErrorCode::CoordinatorNotAvailable,
        ShareStateError::InvalidRequest(_) | ShareStateError::UnknownServerError => {
            ErrorCode::UnknownServerError
        }
    }
}

#[cfg(test)]
mod tests;

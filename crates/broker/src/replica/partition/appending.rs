//! Batches of a leader on their way through the lane of a partition.

use std::sync::Arc;

use levada_log::{Append, AppendError, Passing};
use levada_process::blocking::may_wait;
use levada_process::clock::now_ms;

use super::Partition;
use crate::replica::lane::Backlog;
use crate::replica::submitted::Submitted;

impl Partition {
    /// Appends a checked batch through the lane and wakes its waiters. If its topic requires it,
    /// the result waits until the batch is on the device. A batch that was checked in another
    /// leader epoch is refused.
    pub(crate) fn append(self: &Arc<Self>, append: Append, now_ms: i64) -> Submitted {
        if !may_wait() {
            let (submitted, is_ours) = self.enqueue(append);
            if is_ours {
                self.write_queued(now_ms);
            }
            return submitted;
        }
        if let Some(refused) = self.without_lease(&append) {
            return Submitted::written_now(Err(refused));
        }
        let (submitted, left) = self.lane.submit(append, now_ms, || self.wrote());
        self.write_later(left);
        // Neither a queued batch nor the write before it is in the log yet: whether a sync is due
        // shows once it is.
        let may_wait = if submitted.is_queued() { self.syncs.may_be_due() } else { self.syncs.is_due() };
        if may_wait { submitted.durable(&self.syncs) } else { submitted }
    }

    /// Like [`Partition::append`], but nothing is written, and nothing blocks. True if the caller
    /// has to call [`Partition::write_queued`].
    pub(crate) fn enqueue(&self, append: Append) -> (Submitted, bool) {
        if let Some(refused) = self.without_lease(&append) {
            return (Submitted::written_now(Err(refused)), false);
        }
        let (queued, is_ours) = self.lane.enqueue(append);
        (if self.syncs.may_be_due() { queued.durable(&self.syncs) } else { queued }, is_ours)
    }

    /// Refusal of a batch if this broker has no valid lease; none if it has one.
    fn without_lease(&self, append: &Append) -> Option<AppendError> {
        (!self.has_lease()).then(|| {
            self.log.note_refused(&append.records, Passing::Leadership);
            AppendError::LeaderEpoch { checked: append.leader_epoch, led: -1 }
        })
    }

    /// Writes the batches that are queued in an idle lane. Blocks for the duration of the writes,
    /// except on a thread that never waits for a disk: then another thread writes them.
    pub(crate) fn write_queued(self: &Arc<Self>, now_ms: i64) {
        if may_wait() {
            self.write_later(self.drain(now_ms));
        } else {
            self.write_aside();
        }
    }

    fn write_aside(self: &Arc<Self>) {
        let partition = self.clone();
        tokio::task::spawn_blocking(move || while partition.drain(now_ms()) == Backlog::Remaining {});
    }

    fn write_later(self: &Arc<Self>, left: Backlog) {
        if left == Backlog::Remaining {
            let partition = self.clone();
            tokio::spawn(async move {
                if !may_wait() {
                    return partition.write_aside();
                }
                while partition.drain(now_ms()) == Backlog::Remaining {
                    tokio::task::yield_now().await;
                }
            });
        }
    }

    fn drain(self: &Arc<Self>, now_ms: i64) -> Backlog {
        self.lane.drain(now_ms, || self.wrote())
    }
}

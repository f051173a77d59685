//! The part of a log that remote storage has: where the local part begins, and how far the copies
//! reach.

use std::sync::atomic::Ordering;

use super::Partition;

impl Partition {
    /// The first offset that the local segments have. Above the log's start if remote storage has
    /// the records between.
    pub fn local_log_start(&self) -> i64 {
        // In this order: the log's start is raised before segments below it go.
        let first_base = self.first_base();
        self.log_start().max(first_base)
    }

    /// The last offset that is known to have a copy in remote storage, -1 if none is.
    pub fn highest_remote(&self) -> i64 {
        self.highest_remote.load(Ordering::Acquire)
    }

    /// Records that remote storage has all records up to `offset`: local segments that end there
    /// may be deleted. A lower offset changes nothing.
    pub fn raise_highest_remote(&self, offset: i64) {
        self.highest_remote.fetch_max(offset, Ordering::AcqRel);
    }

    /// Forgets how far the copies reach: no local segment may be deleted until it is known again.
    pub fn forget_remote(&self) {
        self.highest_remote.store(-1, Ordering::Release);
    }

    pub(crate) fn lower_highest_remote(&self, offset: i64) {
        self.highest_remote.fetch_min(offset.max(-1), Ordering::AcqRel);
    }

    /// The leader epochs of the log and their first offsets, in order.
    pub fn leader_epochs(&self) -> Vec<(i32, i64)> {
        self.epochs.load().all().to_vec()
    }

    /// First offset and bytes of each local segment, in order.
    pub fn local_segments(&self) -> Vec<(i64, u64)> {
        self.segments.load().iter().map(|segment| (segment.base(), segment.size())).collect()
    }

    /// Bytes and number of the segments that begin above the highest offset in remote storage: the
    /// part that only this log has. The last segment is among them.
    pub fn only_local(&self) -> (u64, usize) {
        let highest = self.highest_remote();
        let segments = self.segments.load();
        let later = segments.iter().filter(|segment| segment.base() > highest);
        later.fold((0, 0), |(bytes, count), segment| (bytes + segment.size(), count + 1))
    }

    /// Bytes of the segment with `offset` and of all later ones.
    pub fn bytes_from(&self, offset: i64) -> u64 {
        let segments = self.segments.load();
        let first = segments.partition_point(|segment| segment.base() <= offset).saturating_sub(1);
        segments[first..].iter().map(|segment| segment.size()).sum()
    }

    /// Bytes of the last segment.
    pub fn active_bytes(&self) -> u64 {
        self.segments.load().last().map_or(0, |active| active.size())
    }
}

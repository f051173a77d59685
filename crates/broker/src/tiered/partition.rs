//! The remote side of one partition: its segments in the store, and the work in progress.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};

use levada_log::Partition as Log;
use levada_tiered::copying::{first_copied, highest_copied};
use levada_tiered::expiry::{ExpiredSegments, LogFacts, expired};
use levada_tiered::lineage::{within_lineage, without_empty_epochs};
use levada_tiered::record::METADATA_TOPIC;
use levada_tiered::{RemoteRecord, RemoteSegment, SegmentCache, SegmentState, TopicIdPartition};
use levada_wire::Uuid;
use parking_lot::Mutex;

/// The metadata topic has not been read up to its end for the partition: a repetition may succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the remote segments of the partition are not known yet: partition {feed} of {METADATA_TOPIC} is read up to offset \
     {applied} of {}; repeat the request",
    ready_at.map_or_else(|| "an unknown end".to_owned(), |ready_at| ready_at.to_string())
)]
pub(crate) struct NotReady {
    /// Partition of the metadata topic.
    feed: i32,
    /// Records below this offset have been applied.
    applied: i64,
    /// Offset up to which records have to be applied, once it is known.
    ready_at: Option<i64>,
}

/// The remote side of a partition.
pub(crate) struct RemotePartition {
    name: TopicIdPartition,
    /// Partition of the metadata topic with its records.
    feed: i32,
    state: Mutex<State>,
    pub(super) copying: Busy,
    pub(super) deleting: Busy,
    /// Deletion of all remote segments.
    pub(super) removing: Busy,
    /// Leader epoch in which the last copied offset was determined, -1 for none.
    pub(super) begun_in: AtomicI32,
    /// Leader epoch in which copying has ended because of the store's metadata, -1 for none.
    pub(super) halted_in: AtomicI32,
    /// The loss of leader epochs or of metadata that was logged, and the leader epoch of that time.
    pub(super) told_lost: Told<(i32, String)>,
    /// True if this broker led the partition when its role was last read.
    pub(super) was_led: AtomicBool,
    pub(super) lag_bytes: AtomicU64,
    pub(super) lag_segments: AtomicU64,
    pub(super) delete_lag_bytes: AtomicU64,
    pub(super) delete_lag_segments: AtomicU64,
}

#[derive(Default)]
struct State {
    cache: SegmentCache,
    /// Records of the metadata partition below this offset have been applied.
    applied: i64,
    /// The partition is ready once its records below this offset have been applied. `None` until
    /// the leader of the metadata partition has told its end.
    ready_at: Option<i64>,
    /// Number of times that the metadata was read from the beginning because records were lost.
    rereads: u32,
}

impl State {
    fn is_ready(&self) -> bool {
        self.ready_at.is_some_and(|ready_at| self.applied >= ready_at)
    }
}

/// Records of the metadata partition that have been applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Applied {
    /// All records below this offset.
    pub(super) end: i64,
    /// Offsets count only while this number is the same.
    pub(super) rereads: u32,
}

/// Work that is done once at a time.
#[derive(Debug, Default)]
pub(super) struct Busy(AtomicBool);

impl Busy {
    /// True if the work was not in progress, and is now.
    pub(super) fn begin(&self) -> bool {
        !self.0.swap(true, Ordering::AcqRel)
    }

    pub(super) fn end(&self) {
        self.0.store(false, Ordering::Release);
    }

    pub(super) fn is_in_progress(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// A fact that each round finds again, and that is logged when it changes.
#[derive(Debug, Default)]
pub(super) struct Told<T>(Mutex<Option<T>>);

impl<T: PartialEq> Told<T> {
    /// True if the fact is not the one that was found last.
    pub(super) fn is_new(&self, fact: T) -> bool {
        let fact = Some(fact);
        let mut last = self.0.lock();
        let is_new = *last != fact;
        *last = fact;
        is_new
    }

    /// The fact no longer holds.
    pub(super) fn clear(&self) {
        *self.0.lock() = None;
    }
}

/// Sizes of the remote segments of a partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RemoteSize {
    /// Segments with an entry in the metadata.
    pub(crate) segments: u64,
    /// Bytes of the segments that are copied, or being deleted.
    pub(crate) bytes: u64,
}

impl RemotePartition {
    /// A partition without known segments, until its metadata has been read up to `ready_at`.
    pub(super) fn new(name: TopicIdPartition, feed: i32, ready_at: i64) -> Self {
        let state = State { ready_at: Some(ready_at), ..State::default() };
        Self {
            name,
            feed,
            state: Mutex::new(state),
            copying: Busy::default(),
            deleting: Busy::default(),
            removing: Busy::default(),
            begun_in: AtomicI32::new(-1),
            halted_in: AtomicI32::new(-1),
            told_lost: Told::default(),
            was_led: AtomicBool::new(false),
            lag_bytes: AtomicU64::new(0),
            lag_segments: AtomicU64::new(0),
            delete_lag_bytes: AtomicU64::new(0),
            delete_lag_segments: AtomicU64::new(0),
        }
    }

    /// Topic, its id, and the partition's index.
    pub(crate) fn name(&self) -> &TopicIdPartition {
        &self.name
    }

    pub(super) fn feed(&self) -> i32 {
        self.feed
    }

    /// True once the metadata topic was read up to the end that it had when the partition was
    /// added, or when the reading began again.
    pub(crate) fn is_ready(&self) -> bool {
        self.state.lock().is_ready()
    }

    fn ready<T>(&self, read: impl FnOnce(&SegmentCache) -> T) -> Result<T, NotReady> {
        let state = self.state.lock();
        if state.is_ready() {
            Ok(read(&state.cache))
        } else {
            Err(NotReady { feed: self.feed, applied: state.applied, ready_at: state.ready_at })
        }
    }

    /// Forgets the segments until the metadata has been read again, and the reach of the copies:
    /// the local segments stay. The term of a leader begins again with what the metadata has then.
    pub(super) fn begin_again(&self, log: Option<&Log>) {
        let mut state = self.state.lock();
        let rereads = state.rereads + 1;
        *state = State { rereads, ..State::default() };
        self.begun_in.store(-1, Ordering::Relaxed);
        log.into_iter().for_each(Log::forget_remote);
    }

    /// A partition that is not ready waits for the records below this offset at most.
    pub(super) fn wait_for(&self, end: i64) {
        let mut state = self.state.lock();
        if !state.is_ready() {
            state.ready_at = Some(state.ready_at.map_or(end, |known| known.min(end)));
        }
    }

    /// The copied segment with an offset of a leader epoch; none if the store has none.
    ///
    /// # Errors
    /// The metadata has not been read to its end.
    pub(crate) fn segment_for(
        &self,
        epoch: i32,
        offset: i64,
    ) -> Result<Option<Arc<RemoteSegment>>, NotReady> {
        self.ready(|cache| cache.segment_for(epoch, offset).cloned())
    }

    /// The copied segment with the offset, or the next one of the epoch, that has aborted
    /// transactions.
    ///
    /// # Errors
    /// The metadata has not been read to its end.
    pub(crate) fn next_with_txn_index(
        &self,
        epoch: i32,
        offset: i64,
    ) -> Result<Option<Arc<RemoteSegment>>, NotReady> {
        self.ready(|cache| cache.next_segment_with_txn_index(epoch, offset).cloned())
    }

    /// The segments of a leader epoch, by start offset, in any state.
    ///
    /// # Errors
    /// The metadata has not been read to its end.
    pub(crate) fn of_epoch(&self, epoch: i32) -> Result<Vec<Arc<RemoteSegment>>, NotReady> {
        self.ready(|cache| cache.list_epoch(epoch).into_iter().cloned().collect())
    }

    /// All segments, in no order.
    ///
    /// # Errors
    /// The metadata has not been read to its end.
    pub(crate) fn segments(&self) -> Result<Vec<Arc<RemoteSegment>>, NotReady> {
        self.ready(|cache| cache.list().cloned().collect())
    }

    /// The state of a segment; none if it is not known, or deleted.
    ///
    /// # Errors
    /// The metadata has not been read to its end.
    pub(super) fn state_of(&self, id: Uuid) -> Result<Option<SegmentState>, NotReady> {
        self.ready(|cache| cache.segment(id).map(|segment| segment.state))
    }

    /// Tells a log that a segment has a copy. False if the metadata does not have its end.
    pub(super) fn tell_copied(&self, segment: &RemoteSegment, log: &Log) -> Result<bool, NotReady> {
        self.ready(|cache| {
            let known = cache.segment(segment.id.id);
            let is_copied = known.is_some_and(|known| known.state == SegmentState::CopyFinished);
            if is_copied {
                log.raise_highest_remote(segment.end_offset);
            }
            is_copied
        })
    }

    /// Sizes of its segments.
    pub(crate) fn size(&self) -> RemoteSize {
        let state = self.state.lock();
        let counted = state.cache.list().filter(|segment| segment.state != SegmentState::CopyStarted);
        let bytes = counted.map(|segment| u64::try_from(segment.size).unwrap_or(0)).sum();
        RemoteSize { segments: state.cache.len() as u64, bytes }
    }

    /// Bytes and number of segments that wait for their copy.
    pub(crate) fn copy_lag(&self) -> (u64, u64) {
        (self.lag_bytes.load(Ordering::Relaxed), self.lag_segments.load(Ordering::Relaxed))
    }

    /// Bytes and number of segments that wait for their deletion.
    pub(crate) fn delete_lag(&self) -> (u64, u64) {
        (self.delete_lag_bytes.load(Ordering::Relaxed), self.delete_lag_segments.load(Ordering::Relaxed))
    }

    /// The first offset of a log with its remote segments; none if the store has none of them.
    pub(super) fn first_of(&self, log: &Log) -> Result<Option<i64>, NotReady> {
        self.ready(|cache| first_copied(cache, &log.leader_epochs()))
    }

    /// Tells a log how far its copies reach.
    pub(super) fn tell_reach(&self, log: &Log) -> Result<(), NotReady> {
        let ends = (log.log_start(), log.log_end());
        self.ready(|cache| {
            if let Some(highest) = highest_copied(cache, &log.leader_epochs(), ends) {
                log.raise_highest_remote(highest);
            }
        })
    }

    /// True if a segment of a log has records that are neither on the disk nor in a finished copy.
    pub(super) fn has_alone(&self, segment: &RemoteSegment, log: &Log) -> Result<bool, NotReady> {
        let lineage = without_empty_epochs(&log.leader_epochs());
        let last = segment.end_offset.min(log.local_log_start() - 1);
        let epoch = segment.epochs.iter().rev().find(|(_, start)| *start <= last);
        let is_gone = last >= log.log_start() && within_lineage(segment, log.log_end(), &lineage);
        let copied = |(epoch, _): &(i32, i64)| self.segment_for(*epoch, last);
        Ok(is_gone && epoch.map(copied).transpose()?.is_some_and(|copy| copy.is_none()))
    }

    /// True if the metadata has, or had, a segment of the partition.
    pub(super) fn was_ever_copied(&self) -> Result<bool, NotReady> {
        self.ready(|cache| cache.epochs().next().is_some())
    }

    /// Chooses the segments to delete. The copies in progress are those of the same moment as the
    /// metadata.
    pub(super) fn expired(
        &self,
        log: LogFacts<'_>,
        in_copy: &Mutex<BTreeSet<Uuid>>,
    ) -> Result<ExpiredSegments, NotReady> {
        self.ready(|cache| expired(cache, log, &in_copy.lock()))
    }

    /// Applies a record at an offset of the metadata partition, unless that was done.
    pub(super) fn apply(&self, offset: i64, record: &RemoteRecord) {
        let mut state = self.state.lock();
        if offset < state.applied {
            return;
        }
        state.applied = offset + 1;
        if let RemoteRecord::PartitionDelete(_) | RemoteRecord::Snapshot(_) = record {
            return;
        }
        if let Err(error) = state.cache.apply(record) {
            // Brokers repeat records after lost answers.
            tracing::debug!(partition = %self.name, offset, %error, "skipped a record of remote segments");
        }
    }

    /// The records of the metadata partition that have been applied.
    pub(super) fn applied(&self) -> Applied {
        let state = self.state.lock();
        Applied { end: state.applied, rereads: state.rereads }
    }

    /// Records that all records below this offset of the metadata partition have been applied.
    pub(super) fn applied_up_to(&self, offset: i64) {
        let mut state = self.state.lock();
        state.applied = state.applied.max(offset);
    }
}

#[cfg(test)]
mod tests;

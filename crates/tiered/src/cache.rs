//! The remote segments of one partition, as the events of the metadata topic left them: by id, and
//! by leader epoch for reads.
//!
//! | Method | copy started | copy finished | delete started |
//! |---|---|---|---|
//! | [`SegmentCache::segment_for`] | no | yes, unless replaced | no |
//! | [`SegmentCache::highest_offset`] | no | yes, also after the deletion | yes |
//! | [`SegmentCache::list_epoch`] | yes | yes | yes |
//! | [`SegmentCache::list`] | yes | yes | yes |
//!
//! A segment whose deletion is finished is forgotten. The highest offset of an epoch stays, so that
//! a leader does not copy again what retention has deleted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use levada_wire::Uuid;

use crate::record::RemoteRecord;
use crate::segment::{RemoteSegment, RemoteSegmentId, SegmentState, SegmentUpdate, TopicIdPartition};

/// Remote segments of one partition.
#[derive(Clone, Debug, Default)]
pub struct SegmentCache {
    segments: BTreeMap<Uuid, Arc<RemoteSegment>>,
    epochs: BTreeMap<i32, EpochSegments>,
}

/// Reason why the cache did not apply an event. The cache is unchanged.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum CacheError {
    /// The event changes a segment that the cache does not have. Normal for the events of a deleted
    /// segment while a broker reads the topic from its beginning.
    #[error("remote segment {0} is not known")]
    UnknownSegment(RemoteSegmentId),
    /// The segment cannot enter the state of the event.
    #[error("remote segment {id} cannot pass from {from:?} to {to:?}")]
    InvalidTransition {
        /// Id of the segment.
        id: RemoteSegmentId,
        /// State of the segment; `None` if the segment is not known.
        from: Option<SegmentState>,
        /// State of the event.
        to: SegmentState,
    },
    /// The record is not about a segment of the partition.
    #[error("{record} of {partition} is not an event of a remote segment")]
    OtherRecord {
        /// Kind of the record.
        record: &'static str,
        /// The record's partition; empty for a snapshot.
        partition: TopicIdPartition,
    },
}

impl CacheError {
    fn other(kind: &'static str, record: &RemoteRecord) -> Self {
        Self::OtherRecord { record: kind, partition: record.partition().clone() }
    }
}

impl SegmentCache {
    /// Applies a record of the metadata topic about a segment of this partition. The caller chooses
    /// the cache of the record's partition.
    pub fn apply(&mut self, record: &RemoteRecord) -> Result<(), CacheError> {
        match record {
            RemoteRecord::Segment(segment) => self.add(segment),
            RemoteRecord::Update(update) => self.update(update),
            RemoteRecord::PartitionDelete(_) => Err(CacheError::other("the deletion", record)),
            RemoteRecord::Snapshot(_) => Err(CacheError::other("a snapshot", record)),
        }
    }

    /// Adds a segment whose copy begins.
    pub fn add(&mut self, segment: &RemoteSegment) -> Result<(), CacheError> {
        let known = self.segments.get(&segment.id.id);
        if segment.state != SegmentState::CopyStarted {
            let from = known.map(|known| known.state);
            return Err(CacheError::InvalidTransition { id: segment.id.clone(), from, to: segment.state });
        }
        self.check(&segment.id, known.map(|known| known.state), segment.state)?;
        for (epoch, _) in &segment.epochs {
            self.epochs.entry(*epoch).or_default().unreferenced.insert(segment.id.id);
        }
        self.segments.insert(segment.id.id, Arc::new(segment.clone()));
        Ok(())
    }

    /// Changes the state of a known segment.
    pub fn update(&mut self, update: &SegmentUpdate) -> Result<(), CacheError> {
        let Some(known) = self.segments.get(&update.id.id) else {
            return Err(CacheError::UnknownSegment(update.id.clone()));
        };
        self.check(&update.id, Some(known.state), update.state)?;
        let segment = known.updated(update);
        for &(epoch, start) in &segment.epochs {
            let epoch_segments = self.epochs.entry(epoch).or_default();
            match update.state {
                // Only `add` begins a copy, because an update lacks the segment's facts.
                SegmentState::CopyStarted => {
                    let from = Some(SegmentState::CopyStarted);
                    return Err(CacheError::InvalidTransition { id: segment.id, from, to: update.state });
                }
                SegmentState::CopyFinished => {
                    epoch_segments.copied(start, segment.id.id, segment.end_of_epoch(epoch));
                }
                SegmentState::DeleteStarted => epoch_segments.deleting(start, segment.id.id),
                SegmentState::DeleteFinished => drop(epoch_segments.unreferenced.remove(&segment.id.id)),
            }
        }
        if update.state == SegmentState::DeleteFinished {
            self.segments.remove(&update.id.id);
        } else {
            self.segments.insert(update.id.id, Arc::new(segment));
        }
        Ok(())
    }

    /// The readable segment with the record of `epoch` at `offset`.
    pub fn segment_for(&self, epoch: i32, offset: i64) -> Option<&Arc<RemoteSegment>> {
        let (_, id) = self.epochs.get(&epoch)?.by_start.range(..=offset).next_back()?;
        self.segments.get(id).filter(|segment| offset <= segment.end_of_epoch(epoch))
    }

    /// The first readable segment at or after `offset` of `epoch` that has a transaction index. The
    /// search ends at a gap, and at the segment with the epoch's last record.
    pub fn next_segment_with_txn_index(&self, epoch: i32, offset: i64) -> Option<&Arc<RemoteSegment>> {
        let mut segment = self.segment_for(epoch, offset)?;
        while segment.txn_index_empty {
            segment = self.segment_for(epoch, segment.end_offset.checked_add(1)?)?;
        }
        Some(segment)
    }

    /// Highest offset of `epoch` that was ever copied, inclusive.
    pub fn highest_offset(&self, epoch: i32) -> Option<i64> {
        self.epochs.get(&epoch)?.highest
    }

    /// Highest offset of `epoch` in a readable segment, inclusive.
    pub fn highest_readable(&self, epoch: i32) -> Option<i64> {
        let ids = self.epochs.get(&epoch)?.by_start.values();
        ids.filter_map(|id| self.segments.get(id)).map(|segment| segment.end_of_epoch(epoch)).max()
    }

    /// All known segments, in order of their ids.
    pub fn list(&self) -> impl ExactSizeIterator<Item = &Arc<RemoteSegment>> {
        self.segments.values()
    }

    /// All known segments with records of `epoch`, by start offset.
    pub fn list_epoch(&self, epoch: i32) -> Vec<&Arc<RemoteSegment>> {
        let Some(epoch_segments) = self.epochs.get(&epoch) else { return Vec::new() };
        let ids = epoch_segments.by_start.values().chain(&epoch_segments.unreferenced);
        let mut segments: Vec<_> = ids.filter_map(|id| self.segments.get(id)).collect();
        segments.sort_by_key(|segment| segment.start_offset);
        segments
    }

    /// Epochs that the partition's remote segments have or had, in ascending order.
    pub fn epochs(&self) -> impl Iterator<Item = i32> {
        self.epochs.keys().copied()
    }

    /// The segment with this id.
    pub fn segment(&self, id: Uuid) -> Option<&Arc<RemoteSegment>> {
        self.segments.get(&id)
    }

    /// Number of known segments.
    pub fn len(&self) -> usize {
        self.segments.len()
    }

    /// True without a known segment.
    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// Bytes of the `.log` files of all segments whose copy is finished, also of replaced ones.
    pub fn copied_bytes(&self) -> u64 {
        let copied = self.list().filter(|segment| segment.state == SegmentState::CopyFinished);
        copied.map(|segment| u64::try_from(segment.size).unwrap_or(0)).sum()
    }

    fn check(
        &self,
        id: &RemoteSegmentId,
        from: Option<SegmentState>,
        to: SegmentState,
    ) -> Result<(), CacheError> {
        if to.may_follow(from) {
            return Ok(());
        }
        Err(CacheError::InvalidTransition { id: id.clone(), from, to })
    }
}

/// Segments with records of one leader epoch.
#[derive(Clone, Debug, Default)]
struct EpochSegments {
    /// Readable segments by the offset of their first record of this epoch.
    by_start: BTreeMap<i64, Uuid>,
    /// Segments that are being copied or deleted, or that others have replaced.
    unreferenced: BTreeSet<Uuid>,
    /// Highest offset that was ever copied.
    highest: Option<i64>,
}

impl EpochSegments {
    /// Adds a copied segment. After an election two leaders may have copied the same records: a
    /// segment with the highest end replaces those that do not begin before it.
    fn copied(&mut self, start: i64, id: Uuid, end: i64) {
        while let Some((&last, &other)) = self.by_start.last_key_value() {
            if last < start || self.highest.is_some_and(|highest| highest > end) {
                break;
            }
            self.by_start.remove(&last);
            self.unreferenced.insert(other);
        }
        self.by_start.insert(start, id);
        self.unreferenced.remove(&id);
        self.highest = self.highest.max(Some(end));
    }

    fn deleting(&mut self, start: i64, id: Uuid) {
        if self.by_start.get(&start) == Some(&id) {
            self.by_start.remove(&start);
        }
        self.unreferenced.insert(id);
    }
}

#[cfg(test)]
mod tests;

//! Records from an offset on, as ranges of the cache's files.

use std::ops::Range;
use std::sync::Arc;

use levada_base::batch::{BatchView, HEADER_LEN};
use levada_chunks::search::{
    AbortedEntries, AbortedEntry, BatchAt, OffsetEntries, RecordBytes, SearchError, first_batch, whole_until,
};
use levada_chunks::{Part, Pattern};
use levada_io::Extent;
use levada_log::{AbortedTransaction, BatchSpan};
use levada_tiered::lineage::without_empty_epochs;

use super::fault::{RemoteFault, Stop};
use super::fetches::RemotePart;
use super::held::{HeldSegment, number_at};
use super::query::Query;
use super::{RemoteReads, RemoteSegments, TieredKey};

/// Parts of the records that are fetched ahead of a reader.
const AHEAD_PARTS: u32 = 2;

/// A read of records from an offset that only remote storage has.
#[derive(Clone)]
pub(crate) struct RemoteRead {
    pub(crate) partition: TieredKey,
    pub(crate) log: Arc<levada_log::Partition>,
    /// The first offset to return.
    pub(crate) offset: i64,
    /// Maximum number of bytes to return.
    pub(crate) max_bytes: u32,
    /// True to return the first batch whole, even if it exceeds the limit.
    pub(crate) min_one: bool,
    /// True to list the aborted transactions.
    pub(crate) lists_aborted: bool,
    /// Maximum number of batches to list. The others are returned too.
    pub(crate) batches_max: usize,
}

/// Whole batches of a remote segment.
#[derive(Clone, Debug, Default)]
pub(crate) struct RemoteSlice {
    /// The bytes, in order; none if the first batch is larger than the maximum.
    pub(crate) extents: Vec<Extent>,
    /// Aborted transactions with records in the range, by first offset, if they are to be listed.
    pub(crate) aborted: Vec<AbortedTransaction>,
    /// Headers of the first batches, as many as are to be listed. Their positions are in the remote
    /// segment.
    pub(crate) batches: Vec<BatchSpan>,
    /// Position of the bytes in the remote segment.
    start: u64,
}

impl RemoteSlice {
    /// Bytes of its records.
    pub(crate) fn len(&self) -> u64 {
        self.extents.iter().map(|extent| extent.len).sum()
    }

    /// The bytes from the first of these batches to the last, which are neighbours in the range.
    pub(crate) fn extents_of(&self, batches: &[BatchSpan]) -> Vec<Extent> {
        let Some((first, last)) = batches.first().zip(batches.last()) else { return Vec::new() };
        let (from, to) = (first.position, last.position + last.size);
        let (mut at, mut extents) = (self.start, Vec::new());
        for extent in &self.extents {
            let (start, end) = (from.max(at), to.min(at + extent.len));
            if start < end {
                let offset = extent.offset + (start - at);
                extents.push(Extent { file: extent.file.clone(), offset, len: end - start });
            }
            at += extent.len;
        }
        extents
    }
}

impl Query for RemoteRead {
    type Found = RemoteSlice;

    fn attempt(&self, reads: &RemoteReads) -> Result<RemoteSlice, Stop> {
        let found = self.segment_at(&*reads.segments, self.offset)?;
        let missing =
            || RemoteFault::OutOfRange { offset: self.offset, epoch: self.log.epoch_at(self.offset) };
        let mut segment = found.ok_or_else(missing)?;
        loop {
            let held = HeldSegment::new(&reads.cache, segment);
            let index = held.index(Part::Offsets)?;
            let offsets = OffsetEntries::new(&index);
            let to_stop = Stop::of_search(&held.segment);
            let start = offsets.floor(held.delta(self.offset)).map_err(|error| to_stop(error.into()))?;
            let range = u64::from(start.position)..held.size();
            if let Some(first) = first_batch(&held, range, self.offset).map_err(to_stop)? {
                return self.slice(reads, &held, (offsets, first));
            }
            // As in Kafka: a segment without the offset that its metadata claims.
            let next = held.segment.end_offset.saturating_add(1);
            segment = match self.segment_at(&*reads.segments, next)? {
                Some(found) if found.end_offset >= next => found,
                _ => return self.go_on_locally(next),
            };
        }
    }
}

impl RemoteRead {
    /// The segment of the leader's lineage at an offset.
    fn segment_at(
        &self,
        segments: &dyn RemoteSegments,
        offset: i64,
    ) -> Result<Option<Arc<levada_tiered::RemoteSegment>>, RemoteFault> {
        match self.log.epoch_at(offset) {
            epoch if epoch < 0 => Ok(None),
            epoch => segments.segment_for(self.partition, epoch, offset),
        }
    }

    /// The local records from an offset on, which follow a gap at the end of the last copy: a crash
    /// or compaction has left it.
    fn go_on_locally(&self, next: i64) -> Result<RemoteSlice, Stop> {
        if next < self.log.local_log_start() {
            return Ok(RemoteSlice::default());
        }
        let upto = if self.lists_aborted { self.log.last_stable() } else { self.log.high_watermark() };
        let slice = self.log.read(next, self.max_bytes, upto, self.min_one)?;
        let mut batches = Vec::new();
        if self.batches_max > 0 {
            let mut left = self.batches_max;
            batches = self.log.batches_in(&slice, |_| {
                left -= 1;
                left == 0
            })?;
        }
        let aborted = if self.lists_aborted { self.log.aborted_in(&slice, next, upto)? } else { Vec::new() };
        let start = slice.extent.as_ref().map_or(0, |extent| extent.offset);
        Ok(RemoteSlice { extents: slice.extent.into_iter().collect(), aborted, batches, start })
    }

    /// The offset after the last record of a segment that this log has. After an unclean election,
    /// a copy may go on with records that the log has lost.
    fn own_end(&self, segment: &levada_tiered::RemoteSegment) -> i64 {
        let lineage = self.log.leader_epochs();
        let first = self.log.epoch_at(self.offset.max(segment.start_offset));
        let mut epochs =
            without_empty_epochs(&segment.epochs).into_iter().filter(|(epoch, _)| *epoch >= first);
        let lost = epochs.find_map(|(epoch, start)| {
            let Ok(place) = lineage.binary_search_by_key(&epoch, |(epoch, _)| *epoch) else {
                return Some(start);
            };
            let end = lineage.get(place + 1)?.1;
            (segment.end_of_epoch(epoch) >= end).then_some(end)
        });
        lost.unwrap_or(segment.end_offset.saturating_add(1))
    }

    /// The range from the first batch on: whole batches, as far as the cache has them. Only the
    /// first batch is waited for.
    fn slice(
        &self,
        reads: &RemoteReads,
        held: &HeldSegment<'_>,
        (offsets, first): (OffsetEntries<'_>, BatchAt),
    ) -> Result<RemoteSlice, Stop> {
        let max = u64::from(self.max_bytes);
        if first.size > max && !self.min_one {
            return Ok(RemoteSlice::default());
        }
        let mut extents = held.extents(first.position..first.end())?;
        let limit = first.position.saturating_add(max).clamp(first.end(), held.size());
        let there = held.there_until(first.end(), limit);
        let to_stop = Stop::of_search(&held.segment);
        let mut end = if there == held.size() {
            there
        } else {
            whole_until(held, offsets, &first, there).map_err(to_stop)?
        };
        let own_end = self.own_end(&held.segment);
        if own_end <= held.segment.end_offset {
            let to_stop = Stop::of_search(&held.segment);
            let lost = first_batch(held, first.position..end, own_end).map_err(to_stop)?;
            end = lost.map_or(end, |lost| lost.position.max(first.end()));
        }
        if end > first.end() {
            extents = held.extents(first.position..end)?;
        }
        let aborted = if self.lists_aborted {
            self.aborted(reads, held, (offsets, first.base_offset, end))?
        } else {
            Vec::new()
        };
        let batches = self.batches(held, first.position..end)?;
        let segment = held.segment.id.id.to_bytes();
        if reads.cache.note_read(segment, first.position, end) == Pattern::Continues {
            self.fetch_ahead(reads, held, end);
        }
        Ok(RemoteSlice { extents, aborted, batches, start: first.position })
    }

    /// The headers of the batches in a range, as far as they are to be listed.
    fn batches(&self, held: &HeldSegment<'_>, range: Range<u64>) -> Result<Vec<BatchSpan>, Stop> {
        let (mut batches, mut at) = (Vec::new(), range.start);
        while at < range.end && batches.len() < self.batches_max {
            let mut header = [0; HEADER_LEN];
            held.read_at(at, &mut header)?;
            let to_stop = Stop::of_search(&held.segment);
            let damaged = |fault: String| to_stop(SearchError::Damaged { position: at, fault });
            let view = BatchView::parse_header(&header).map_err(|error| damaged(error.to_string()))?;
            let span = BatchSpan {
                base_offset: view.base_offset(),
                last_offset: view.last_offset(),
                position: at,
                size: view.size_bytes() as u64,
                producer_id: view.producer_id(),
                is_transactional: view.is_transactional(),
                is_control: view.is_control(),
                is_joined: false,
            };
            if span.last_offset < span.base_offset {
                return Err(damaged(format!("offsets {} to {}", span.base_offset, span.last_offset)));
            }
            at += span.size;
            batches.push(span);
        }
        Ok(batches)
    }

    /// Requests the fetch of the parts after a position, also of the next segment.
    fn fetch_ahead(&self, reads: &RemoteReads, held: &HeldSegment<'_>, end: u64) {
        let last = number_at(held.size().saturating_sub(1));
        let first = number_at(end);
        let within = (first..=last).take(AHEAD_PARTS as usize);
        let mut parts: Vec<_> = within.map(|number| (held.segment.clone(), Part::Records(number))).collect();
        if parts.len() < AHEAD_PARTS as usize
            && let Ok(Some(next)) =
                self.segment_at(&*reads.segments, held.segment.end_offset.saturating_add(1))
        {
            parts.push((next.clone(), Part::Offsets));
            parts.push((next, Part::Records(0)));
        }
        for (segment, part) in parts {
            reads.fetches.fetch_ahead(RemotePart { segment, part });
        }
    }

    /// The aborted transactions with records between an offset and the batch at a position: their
    /// markers may be in later segments, and in the local log.
    fn aborted(
        &self,
        reads: &RemoteReads,
        held: &HeldSegment<'_>,
        (offsets, from, end): (OffsetEntries<'_>, i64, u64),
    ) -> Result<Vec<AbortedTransaction>, Stop> {
        let upto = if end < held.size() {
            let to_stop = Stop::of_search(&held.segment);
            offsets.first_from(end).map_err(|error| to_stop(error.into()))?
        } else {
            None
        };
        let upto = match upto {
            Some(entry) => held.segment.start_offset.saturating_add(i64::from(entry.delta)),
            None => held.segment.end_offset,
        };
        let range = (from, upto.saturating_add(1));
        let mut found = Vec::new();
        let mut next = Some(held.segment.clone());
        while let Some(segment) = next {
            let own_end = self.own_end(&segment);
            if !segment.txn_index_empty {
                let held = HeldSegment::new(&reads.cache, segment.clone());
                let index = held.index(Part::Aborted)?;
                let is_last = AbortedEntries::new(&index).overlapping(range, own_end, &mut found);
                let to_stop = Stop::of_search(&segment);
                if is_last.map_err(|error| to_stop(error.into()))? {
                    return Ok(told(found));
                }
            }
            let later = self.next_with_aborted(&*reads.segments, own_end)?;
            next = later.filter(|later| later.id.id != segment.id.id);
        }
        let mut told = told(found);
        told.extend(self.log.aborted(range.0, range.1)?);
        told.sort_unstable_by_key(|one| (one.first_offset, one.producer_id));
        told.dedup();
        Ok(told)
    }

    fn next_with_aborted(
        &self,
        segments: &dyn RemoteSegments,
        offset: i64,
    ) -> Result<Option<Arc<levada_tiered::RemoteSegment>>, RemoteFault> {
        let first = self.log.epoch_at(offset);
        for (epoch, start) in self.log.leader_epochs() {
            if epoch < first {
                continue;
            }
            let found = segments.next_with_aborted(self.partition, epoch, start.max(offset))?;
            // A segment that does not go on would be searched again and again.
            if let Some(found) = found.filter(|found| found.end_offset >= offset) {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }
}

fn told(found: Vec<AbortedEntry>) -> Vec<AbortedTransaction> {
    let one = |entry: AbortedEntry| AbortedTransaction {
        producer_id: entry.producer_id,
        first_offset: entry.first_offset,
    };
    let mut told: Vec<_> = found.into_iter().map(one).collect();
    told.sort_unstable_by_key(|one| (one.first_offset, one.producer_id));
    told.dedup();
    told
}

//! Evidence of lost records: checkpoints, indexes, snapshots and batches beyond the end that the
//! opening finds.

use std::fmt;
use std::path::Path;

use levada_base::batch;

use super::Recovery;
use super::check::Walked;
use crate::index::{OffsetEntry, OffsetIndex, TimeIndex};
use crate::producers::Producers;
use crate::segment::{SWEEP, Segment, file_name};
use crate::{LogError, OFFSET_MAX, ReadError};

/// The source of a claim, in the words of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// The checkpoint of recovery points: the records were on the device.
    RecoveryPoint,
    /// The checkpoint of high watermarks: the records were committed.
    HighWatermark,
    /// Damaged batches, and batches after them.
    Batches,
    /// An offset index or a time index.
    Index,
    /// A snapshot of producers.
    Snapshot,
    /// The checkpoint of leader epochs.
    LeaderEpochs,
}

impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::RecoveryPoint => "recovery-point-offset-checkpoint",
            Self::HighWatermark => "replication-offset-checkpoint",
            Self::Batches => "its damaged batches, and those after them",
            Self::Index => "an index",
            Self::Snapshot => "a producer snapshot",
            Self::LeaderEpochs => "leader-epoch-checkpoint",
        })
    }
}

/// Records that the log had once and lacks now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shortfall {
    /// End of the batches that are there.
    pub end: i64,
    /// The log has ended here, or later.
    pub claimed: i64,
    /// The source of the larger end.
    pub evidence: Evidence,
}

impl fmt::Display for Shortfall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { end, claimed, evidence } = self;
        write!(f, "its batches end at offset {end}, and it had ended at {claimed} or later ({evidence})")
    }
}

impl Recovery<'_> {
    /// Collects the claims of indexes without a segment, and logs each.
    pub(super) fn claim_by_names(&mut self) -> Result<(), LogError> {
        let indexes = self.listing.offset_indexes.union(&self.listing.time_indexes);
        let orphans: Vec<i64> = indexes.filter(|base| !self.listing.bases.contains(base)).copied().collect();
        let last = self.listing.bases.last().copied();
        for base in orphans {
            let is_indexed = self.has_entries(base)?;
            // A last one without entries is also the work of a crash in the middle of a roll, which
            // a comparison with other replicas shows.
            if is_indexed || !self.options.is_sole && last.is_none_or(|last| base > last) {
                self.claim(base.saturating_add(1), Evidence::Index);
            }
            if !is_indexed {
                continue;
            }
            if last.is_some_and(|last| base < last) {
                self.report.gaps.push(base);
            }
            let path = self.options.dir.join(file_name(base, ".log"));
            tracing::warn!(
                path = %path.display(),
                "a segment is missing although its index is there: its records cannot be read. Unless a crash has \
                 interrupted the deletion of the segment, stop the broker and restore the file from a backup"
            );
        }
        Ok(())
    }

    /// Takes the claims of the index of an empty last segment, and of leader epochs. Other empty
    /// segments with an index are logged.
    pub(super) fn claim_by_contents(&mut self) -> Result<(), LogError> {
        for sealed in self.segments.iter().rev().skip(1).filter(|segment| segment.size() == 0) {
            if self.has_entries(sealed.base())? {
                self.report.gaps.push(sealed.base());
                tracing::warn!(
                    path = %sealed.path().display(),
                    "a segment is empty although its index has entries: its records cannot be read. Stop the broker and \
                     restore the file from a backup"
                );
            }
        }
        let last = self.segments.last().filter(|last| last.size() == 0).map(|last| last.base());
        if let Some(base) = last
            && self.has_entries(base)?
        {
            self.claim(base.saturating_add(1), Evidence::Index);
        }
        if let Some(offset) = self.epochs.latest_offset() {
            // A log that has had epochs has had a segment.
            let is_bare = self.listing.bases.is_empty();
            self.claim(offset.saturating_add(i64::from(is_bare)), Evidence::LeaderEpochs);
        }
        Ok(())
    }

    /// Ends a log that another replica can complete before a segment that is missing, or empty
    /// although its index has entries.
    pub(super) fn end_at_hole(&mut self) -> Result<(), LogError> {
        let Some(from) = self.options.gapless_from else { return Ok(()) };
        let first = self.segments.first().map_or(0, |first| first.base());
        let mut holes: Vec<i64> = self.report.gaps.iter().copied().filter(|base| *base > first).collect();
        for sealed in self.segments.iter().rev().skip(1).filter(|segment| segment.size() == 0) {
            if self.has_entries(sealed.base())? {
                holes.push(sealed.base());
            }
        }
        let Some(hole) = holes.into_iter().filter(|base| *base >= from).min() else { return Ok(()) };
        let at = self.segments.partition_point(|segment| segment.base() <= hole);
        if let Some(next) = self.segments.get(at) {
            let (path, missing_from) = (next.path().display(), hole);
            tracing::warn!(%path, missing_from, "records before this segment are missing: the log is truncated there, and the replica fetches them from the leader");
            self.claim_segments(at);
            self.drop_segments(at)?;
            self.report.gaps.retain(|base| *base < hole);
            self.report.rebuilt_segments += 1;
        }
        Ok(())
    }

    /// Derives claims from data that a truncation is about to remove: intact batches after the
    /// damage, and the segments from `at` on.
    pub(super) fn claim_by_rest(&mut self, at: usize, walked: &Walked) -> Result<(), LogError> {
        self.claim_segments(at);
        let disk = &*self.options.disk;
        let (segment, mut end) = (&self.segments[at - 1], 0);
        let mut scan = segment.scan(disk, walked.position..segment.size(), SWEEP)?;
        loop {
            let head = match scan.next() {
                Ok(Some(head)) => head,
                Err(ReadError::Storage(error)) => return Err(error),
                // Without a valid length the start of the next batch is unknown.
                Ok(None) | Err(_) => break,
            };
            // All its bytes are there: a write that was torn leaves fewer.
            let is_next = end == 0 && head.base_offset == walked.end_offset;
            let last = scan.last_offset(&head).ok().filter(|_| is_next);
            let later = match scan.batch(&head).map(batch::check_stored) {
                Ok(Ok(batch)) if batch.base_offset() >= walked.end_offset => Some(batch.last_offset()),
                Err(ReadError::Storage(error)) => return Err(error),
                Ok(_) | Err(_) => None,
            };
            end = end.max(last.max(later).map_or(0, |last| last.saturating_add(1)));
        }
        self.claim(end, Evidence::Batches);
        Ok(())
    }

    /// The records that a log lacks if it ends here.
    pub(super) fn shortfall(&mut self, end: i64) -> Option<Shortfall> {
        if let Some(offset) = self.listing.snapshots.last().copied().filter(|offset| *offset > end)
            && Producers::load(&*self.options.disk, &self.options.dir, offset, self.now_ms).is_ok()
        {
            self.claim(offset, Evidence::Snapshot);
        }
        let checkpoints = [
            (self.options.recovery_point, Evidence::RecoveryPoint),
            (self.options.high_watermark.unwrap_or(0), Evidence::HighWatermark),
        ];
        let mut most: Option<(i64, Evidence)> = None;
        for (offset, evidence) in checkpoints.into_iter().chain(self.claimed) {
            if most.is_none_or(|(largest, _)| offset > largest) {
                most = Some((offset, evidence));
            }
        }
        let (claimed, evidence) = most?;
        (claimed > end).then_some(Shortfall { end, claimed, evidence })
    }

    /// The offset at which a log that ends here continues, if checkpoints show that later offsets
    /// were assigned and no other replica has their records.
    pub(super) fn next_unused(&self, end: i64) -> Option<i64> {
        // Records before the recovery point were on the device. After a crash of the machine those
        // before the high watermark need not be there, and a new leader epoch tells consumers.
        let high_watermark = self.options.high_watermark.filter(|_| self.options.clean).unwrap_or(0);
        let given_out = self.options.recovery_point.max(high_watermark);
        (self.options.is_sole && (end + 1..=OFFSET_MAX).contains(&given_out)).then_some(given_out)
    }

    /// Takes the claim of the segments from `at` on.
    fn claim_segments(&mut self, at: usize) {
        let last = self.segments[at..].iter().rfind(|segment| segment.size() > 0);
        let end = last.map_or(0, |segment| segment.base().saturating_add(1));
        self.claim(end, Evidence::Batches);
    }

    fn claim(&mut self, offset: i64, evidence: Evidence) {
        if self.claimed.is_none_or(|(largest, _)| offset > largest) {
            self.claimed = Some((offset, evidence));
        }
    }

    /// True if an index of the segment has an entry.
    fn has_entries(&self, base: i64) -> Result<bool, LogError> {
        let (disk, dir) = (&*self.options.disk, &*self.options.dir);
        let [offsets, times] = [".index", ".timeindex"].map(|suffix| dir.join(file_name(base, suffix)));
        let is_there = |path: &Path| disk.len(path).is_ok_and(|len| len > 0);
        let is_indexed = is_there(&offsets) && OffsetIndex::on_disk(offsets).count(disk)? > 0;
        Ok(is_indexed || is_there(&times) && TimeIndex::on_disk(times).count(disk)? > 0)
    }

    /// The last entry in the index of a segment.
    pub(super) fn last_indexed(&self, segment: &Segment) -> Result<Option<OffsetEntry>, LogError> {
        let disk = &*self.options.disk;
        let is_there = disk.len(segment.offsets.entries().path()).is_ok_and(|len| len > 0);
        if is_there { segment.offsets.last(disk) } else { Ok(None) }
    }

    /// Takes the claim of an index entry: where it points to a batch that is in the file.
    pub(super) fn claim_by_index(&mut self, segment: &Segment, entry: Option<OffsetEntry>) {
        if let Some(entry) = entry.filter(|entry| entry.position < segment.size()) {
            let end = segment.base().saturating_add(i64::from(entry.delta)).saturating_add(1);
            self.claim(end, Evidence::Index);
        }
    }
}

#[cfg(test)]
mod tests;

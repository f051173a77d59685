//! The check after a crash: validates each batch and rebuilds the indexes.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use levada_base::batch::{self, BatchView};

use super::{Recovery, TruncatedTail};
use crate::disk::{At, Disk};
use crate::index::{Aborted, TimeIndex};
use crate::producers::Producers;
use crate::progress::Progress;
use crate::segment::{Built, Head, SWEEP, Scan, Segment, is_zero};
use crate::{LogConfig, LogError, ReadError};

/// Maximum number of collected index entries of one segment.
const ENTRIES_MAX: usize = 1 << 20;

/// Result of an iteration over a segment from its beginning.
pub(super) struct Walked {
    /// End of the intact batches.
    pub(super) position: u64,
    pub(super) end_offset: i64,
    pub(super) built: Built,
}

impl Recovery<'_> {
    /// Checks the segments from `at` on, and ends the log at the first batch that is not intact.
    /// Returns the log's end offset.
    pub(super) fn check_from(&mut self, at: usize) -> Result<i64, LogError> {
        let disk = &*self.options.disk;
        let mut end = self.segments[at].base();
        let (first, mut at) = (at, at);
        while at < self.segments.len() {
            let old = self.segments[at].clone();
            if at > 0 {
                self.snapshot(old.base());
            }
            // The check replaces the index.
            let indexed = self.last_indexed(&old)?;
            let walked = self.check(at)?;
            end = walked.end_offset.max(end);
            at += 1;
            let next = self.segments.get(at).map(|next| next.base());
            let overlap = next.is_some_and(|next| next < end);
            let rest = old.size() - walked.position;
            // If offsets are missing after them, the zeroes are not reserved space but remains of
            // writes.
            let may_be_room = rest > 0 && next.is_none_or(|next| next == end);
            if may_be_room && self.is_unused(at - 1, walked.position)? {
                let (path, position) = (old.path().display(), walked.position);
                tracing::info!(%path, position, "removed zeroes after the last batch: space reserved in advance, or writes lost in a machine crash");
                self.shorten(at - 1, walked.position)?;
            } else if overlap || rest > 0 {
                self.cut(at, &walked, rest)?;
                self.claim_by_index(&old, indexed.filter(|entry| entry.position >= walked.position));
            }
            self.check_gap(at, &walked, end)?;
        }
        for sealed in &self.segments[first.min(self.segments.len() - 1)..self.segments.len() - 1] {
            sealed.offsets.entries().trim_leftover(disk)?;
            sealed.times.entries().trim_leftover(disk)?;
        }
        Ok(end)
    }

    /// Ends the log before the segment `at` if offsets are missing there that another replica may
    /// have.
    fn check_gap(&mut self, at: usize, walked: &Walked, end: i64) -> Result<(), LogError> {
        let Some(next) = self.segments.get(at).filter(|next| next.base() > end) else { return Ok(()) };
        let (path, missing) = (next.path().display(), next.base() - end);
        if self.options.gapless_from.is_some_and(|from| next.base() > from) {
            tracing::warn!(%path, from = end, missing, "records before this segment are missing: they were not on the device when the machine stopped. The log is truncated there, and the replica fetches them from the leader");
            return self.cut(at, walked, 0);
        }
        // Compaction leaves gaps as well, but rarely above the recovery point.
        tracing::warn!(%path, from = end, missing, "offsets before this segment are missing: their records were not on the device when the machine stopped, or were compacted");
        Ok(())
    }

    /// Rebuilds missing indexes of the first `trusted` segments. Readers find damage in these
    /// segments later: the records after it are known to be whole.
    pub(super) fn index_again(&mut self, trusted: usize) -> Result<(), LogError> {
        for at in 0..trusted {
            let base = self.segments[at].base();
            let indexed =
                self.listing.offset_indexes.contains(&base) && self.listing.time_indexes.contains(&base);
            if indexed || self.segments[at].size() == 0 {
                continue;
            }
            let walked = self.walk(at, |_| ())?;
            let segment = self.index(at, &walked)?;
            if walked.position < segment.size() {
                let (path, position) = (segment.path().display(), walked.position);
                tracing::error!(%path, position, "segment is damaged below the recovery point; records from there on cannot be read");
            }
            for entries in [segment.offsets.entries(), segment.times.entries()] {
                entries.trim_leftover(&*self.options.disk)?;
                // No later flush covers these segments: files below the recovery point count as
                // synced.
                entries.sync(&*self.options.disk)?;
            }
        }
        Ok(())
    }

    /// Checks one segment, and adds its batches to producers, epochs and indexes.
    fn check(&mut self, at: usize) -> Result<Walked, LogError> {
        if self.segments[at].size() == 0 && self.is_index_empty(self.segments[at].base()) {
            let end_offset = self.segments[at].base();
            return Ok(Walked { position: 0, end_offset, built: Built::default() });
        }
        let mut producers = std::mem::take(&mut self.producers);
        let mut epochs = std::mem::take(&mut self.epochs);
        let now_ms = self.now_ms;
        let mut aborted = Vec::new();
        let mut walked = self.walk(at, |batch| {
            epochs.assign(batch.leader_epoch(), batch.base_offset());
            aborted.extend(note(&mut producers, batch, now_ms));
        })?;
        (self.producers, self.epochs) = (producers, epochs);
        walked.built.aborted = Some(aborted);
        self.index(at, &walked)?;
        Ok(walked)
    }

    /// Walks through the intact batches of a segment.
    fn walk(&mut self, at: usize, mut each: impl FnMut(&BatchView<'_>)) -> Result<Walked, LogError> {
        let segment = &self.segments[at];
        let walked = walk(&*self.options.disk, segment, &self.options.config, |batch| {
            each(batch);
            self.options.checked_bytes.fetch_add(batch.size_bytes() as u64, Ordering::Relaxed);
        })?;
        self.report.checked_bytes += segment.size();
        self.report.rebuilt_segments += usize::from(segment.size() > 0);
        Ok(walked)
    }

    /// Writes the entries of a walk into the segment's indexes.
    fn index(&mut self, at: usize, walked: &Walked) -> Result<Arc<Segment>, LogError> {
        let (disk, index_bytes) = (&*self.options.disk, self.options.config.segment_index_bytes);
        let segment = Arc::new(self.segments[at].with_indexes(disk, &walked.built, index_bytes)?);
        self.segments[at] = segment.clone();
        Ok(segment)
    }

    /// Ends the log at the end of the segment before `at`, less `bytes` that are not intact.
    fn cut(&mut self, at: usize, walked: &Walked, bytes: u64) -> Result<(), LogError> {
        let segment = self.segments[at - 1].clone();
        let dropped: u64 = self.segments[at..].iter().map(|segment| segment.size()).sum();
        self.claim_by_rest(at, walked)?;
        self.report.cut = Some(TruncatedTail {
            path: segment.path().to_owned(),
            position: walked.position,
            offset: walked.end_offset,
            bytes: bytes + dropped,
        });
        // Later segments first: if they survived a crash, the missing records before them would
        // stay unnoticed.
        if at < self.segments.len() {
            self.drop_segments(at)?;
        }
        if bytes > 0 { self.shorten(at - 1, walked.position) } else { Ok(()) }
    }

    fn shorten(&self, at: usize, size: u64) -> Result<(), LogError> {
        let (disk, segment) = (&*self.options.disk, &self.segments[at]);
        disk.truncate(segment.file(disk)?, segment.path(), size).at("cut", segment.path())?;
        segment.lower_size(size);
        Ok(())
    }

    /// True if all that follows is zeroes: blocks that were reserved ahead of use.
    fn is_unused(&self, at: usize, position: u64) -> Result<bool, LogError> {
        let (disk, segment) = (&*self.options.disk, &self.segments[at]);
        let (file, mut from, mut chunk) = (segment.file(disk)?, position, vec![0; batch::HEADER_LEN]);
        loop {
            let read = disk.read_at(file, segment.path(), &mut chunk, from).at("read", segment.path())?;
            if read == 0 || !is_zero(&chunk[..read]) {
                return Ok(read == 0);
            }
            from += read as u64;
            if chunk.len() < SWEEP {
                chunk = vec![0; SWEEP];
            }
        }
    }

    /// True if the segment has both indexes, and they have no entry.
    pub(super) fn is_index_empty(&self, base: i64) -> bool {
        let empty = |suffix: &str| {
            let path = self.options.dir.join(crate::segment::file_name(base, suffix));
            self.options.disk.len(&path).is_ok_and(|len| len == 0)
        };
        empty(".index") && empty(".timeindex") && !self.listing.txn_indexes.contains(&base)
    }
}

/// Walks through the intact batches of a segment, and collects the entries of its indexes.
pub(super) fn walk(
    disk: &dyn Disk,
    segment: &Segment,
    config: &LogConfig,
    mut each: impl FnMut(&BatchView<'_>),
) -> Result<Walked, LogError> {
    // Only an index built with a smaller interval can have more entries; ENTRIES_MAX bounds it.
    let capacity = TimeIndex::capacity(config.segment_index_bytes).max(ENTRIES_MAX);
    let mut progress = Progress::none();
    let mut walked = Walked { position: 0, end_offset: segment.base(), built: Built::default() };
    let mut scan = segment.scan(disk, 0..segment.size(), SWEEP)?;
    while let Some((head, batch)) = next_intact(&mut scan, segment.base(), walked.end_offset)? {
        each(&batch);
        let delta = segment.delta(batch.last_offset());
        let entries = progress.advance(&batch, delta, head.position, config.index_interval_bytes);
        if let Some((offset, time)) = entries.filter(|_| walked.built.offsets.len() < capacity) {
            walked.built.offsets.push(offset);
            walked.built.push_time(time);
        }
        (walked.position, walked.end_offset) = (head.end(), batch.last_offset() + 1);
    }
    walked.built.push_time(progress.latest);
    Ok(walked)
}

/// Records a batch found in the log; returns the transaction it aborts.
pub(super) fn note(producers: &mut Producers, batch: &BatchView<'_>, now_ms: i64) -> Option<Aborted> {
    let completed = producers.note(batch, now_ms);
    producers.commit();
    completed.and_then(|completed| completed.aborted(producers.first_unstable()))
}

/// The next batch, if it is whole, follows the offset before it, and belongs in this segment. Bytes
/// that are not a batch end the log; a disk that fails does not.
fn next_intact<'a>(
    scan: &'a mut Scan<'_>,
    base: i64,
    end_offset: i64,
) -> Result<Option<(Head, BatchView<'a>)>, LogError> {
    let found = match scan.next() {
        Ok(Some(head)) => scan.batch(&head).map(|bytes| (head, bytes)),
        Ok(None) => return Ok(None),
        Err(error) => Err(error),
    };
    let (head, bytes) = match found {
        Ok(found) => found,
        Err(ReadError::Storage(error)) => return Err(error),
        Err(_) => return Ok(None),
    };
    let Ok(batch) = batch::check_stored(bytes) else { return Ok(None) };
    let fits = |last: &i64| last.checked_sub(base).is_some_and(|delta| delta <= i64::from(i32::MAX));
    let last = batch.base_offset().checked_add(i64::from(batch.last_offset_delta())).filter(fits);
    let sound = batch.base_offset() >= end_offset && last.is_some();
    Ok(sound.then_some((head, batch)))
}

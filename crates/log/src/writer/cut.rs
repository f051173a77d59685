//! Removal from a log: of its end by truncation, of its beginning by a new log start or by
//! retention.
//!
//! Ranges that readers hold keep their bytes in every case. Removed segments are unlinked: open
//! files stay valid. A segment that loses its tail is not truncated in place, where bytes on their
//! way to a socket would change; its head is copied into a new file that replaces it.

use std::path::PathBuf;
use std::sync::Arc;

use levada_base::batch::NO_TIMESTAMP;

use super::active::Active;
use super::{Retired, Writer};

use crate::disk::{At, Disk, is_short, remove_if_there};
use crate::epochs::Epochs;
use crate::index::TimeEntry;
use crate::partition::Partition;
use crate::recover;
use crate::retention::{self, SegmentSpan};
use crate::segment::{Built, SWEEP, Segment};
use crate::{LogError, OpenOptions, Tiering};

/// Segments that no longer belong to the log, whose files still exist: removing large files takes
/// time, and needs no writer.
///
/// Dropped without [`Discarded::retire`] or [`Discarded::remove`], or after a crash, the next
/// opening finds the files again, below the log's start.
#[derive(Debug)]
#[must_use = "the files stay until they are removed"]
pub struct Discarded {
    partition: Arc<Partition>,
    segments: Vec<Arc<Segment>>,
}

impl Discarded {
    /// Number of deleted segments.
    pub fn count(&self) -> usize {
        self.segments.len()
    }

    /// Number of discarded bytes.
    pub fn size_bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.size()).sum()
    }

    /// Renames the files, the oldest first, for removal later. Blocks.
    ///
    /// # Errors
    /// A failing disk; remaining files are found again by the next opening.
    pub fn retire(self) -> Result<Retired, LogError> {
        let _held = self.partition.hold_flushes();
        let disk = &self.partition.disk;
        let gone: Vec<_> = self.out_of_log().collect();
        gone.iter().for_each(|segment| segment.hold_aborted(&**disk));
        let files = gone.iter().flat_map(|segment| segment.files().chain([segment.snapshot()]));
        Retired::rename(disk, files)
    }

    /// Removes the files immediately, the oldest first. Blocks.
    ///
    /// # Errors
    /// A failing disk; remaining files are found again by the next opening.
    pub fn remove(self) -> Result<(), LogError> {
        let _held = self.partition.hold_flushes();
        let disk = &*self.partition.disk;
        self.out_of_log().try_for_each(|segment| {
            segment.hold_aborted(disk);
            segment.remove(disk)
        })
    }

    /// Segments whose names no other segment has taken since: a log that was restarted below its
    /// start may have a segment with the same base offset, and so may the next log in the place of
    /// one that has left. Under the lock that prevents both.
    fn out_of_log(&self) -> impl Iterator<Item = &Arc<Segment>> {
        let (segments, has_left) = (self.partition.segments.load_full(), self.partition.has_left());
        let is_taken =
            move |base| has_left || segments.binary_search_by_key(&base, |segment| segment.base()).is_ok();
        self.segments.iter().filter(move |segment| !is_taken(segment.base()))
    }
}

/// The position of a truncation.
struct CutPoint {
    /// The segment that becomes the last one.
    at: usize,
    position: u64,
    end: i64,
}

impl Writer {
    /// Truncates the log so that no batch in it reaches `offset`; returns the end, which is at or
    /// below the offset. Epochs, producers, indexes and the recovery point follow. At or above the
    /// end it only removes epochs without a batch, which a former leader may have there. Below the
    /// first local record nothing remains: it calls [`Writer::restart_at`]. Blocks; copies the head
    /// of one segment.
    ///
    /// # Errors
    /// A negative offset; no room for the copy, or no descriptor: the log is as it was. A failing
    /// disk: then the partition is offline.
    pub fn truncate(&mut self, offset: i64, now_ms: i64) -> Result<i64, LogError> {
        self.refuse_offline()?;
        let partition = self.partition.clone();
        if offset < partition.local_log_start() {
            return self.restart_at(offset, now_ms)?.remove().map(|()| offset);
        }
        let _held = partition.hold_flushes();
        let log_end = partition.log_end();
        if offset >= log_end {
            self.cut_epochs(log_end)?;
            return Ok(log_end);
        }
        let cut = self.cut_point(offset)?;
        let head = self.prepare_cut(&cut)?;
        let done = self.cut(&cut, head, now_ms);
        done.inspect_err(|error| partition.go_offline(error)).map(|()| cut.end)
    }

    /// Raises the log's start to `offset`, and removes segments that are wholly below. At or below
    /// the start it only does the latter.
    ///
    /// # Errors
    /// An offset beyond the high watermark, or a failing disk.
    pub fn advance_log_start(&mut self, offset: i64) -> Result<Discarded, LogError> {
        self.refuse_offline()?;
        let (log_start, log_end) = (self.partition.log_start(), self.partition.high_watermark());
        if offset > log_end {
            return Err(LogError::OutOfRange { offset, log_start, log_end });
        }
        if offset > log_start {
            let mut epochs = Epochs::clone(&self.partition.epochs.load());
            if epochs.truncate_start(offset) {
                self.store_raised_epochs(epochs)?;
            }
            self.partition.marks.raise_log_start(offset);
        }
        Ok(self.discard_before(offset.max(log_start)))
    }

    /// Stores leader epochs after the log start has moved: the first of them begin later, or are
    /// gone. If the disk is full, the file keeps its former contents, whose start the next opening
    /// corrects, so that records can be deleted from a full disk.
    fn store_raised_epochs(&mut self, epochs: Epochs) -> Result<(), LogError> {
        match self.store_epochs(epochs.clone()) {
            Err(error) if error.source_io().is_some_and(is_short) => {
                tracing::warn!(%error, "cannot write the leader epochs from a later log start on; the next start of the broker corrects the file");
                self.partition.publish_epochs(epochs);
                Ok(())
            }
            other => other,
        }
    }

    /// Takes out the segments that `retention.ms` and `retention.bytes` let go, and moves the log's
    /// start after them. If the segments are copied to remote storage, the local limits count, and
    /// only copied segments go; the log's start stays. Rolls first if the last one is among them;
    /// without room for that, the last one stays. Reads the times of the segments that go by age,
    /// and of the first that stays.
    ///
    /// # Errors
    /// A failing disk; no room for a new segment, and no other one to remove.
    pub fn delete_old_segments(&mut self, now_ms: i64) -> Result<Discarded, LogError> {
        self.refuse_offline()?;
        let segments = self.partition.segments.load_full();
        let ends = segments.iter().skip(1).map(|next| next.base()).chain([self.partition.log_end()]);
        let spans = segments.iter().zip(ends);
        let spans: Vec<SegmentSpan> =
            spans.map(|(segment, end)| SegmentSpan { end, size_bytes: segment.size() }).collect();
        let (log_start, high_watermark) = (self.partition.log_start(), self.partition.high_watermark());
        let is_copied = self.config.tiering == Tiering::Copied;
        let copied_end = if is_copied { self.partition.highest_remote() + 1 } else { i64::MAX };
        let at = retention::RetentionInput { log_start, high_watermark, copied_end, now_ms };
        let newest_ms = |at: usize| segments[at].newest_ms(&*self.disk);
        let mut gone = retention::expired(&spans, &self.config, at, newest_ms)?;
        if gone == segments.len()
            && let Err(error) = self.roll(now_ms)
        {
            if gone == 1 || !error.source_io().is_some_and(is_short) {
                return Err(error);
            }
            gone -= 1;
        }
        if is_copied {
            // Remote storage does not have the segment that was rolled yet.
            let gone = spans[..gone].iter().take_while(|span| span.end <= copied_end.max(log_start)).count();
            return Ok(self.discard_before(gone.checked_sub(1).map_or(0, |last| spans[last].end)));
        }
        let end = gone.checked_sub(1).map_or(log_start, |last| spans[last].end);
        self.advance_log_start(end)
    }

    /// Takes out the segments that are wholly below an offset, and leaves the log's start: remote
    /// storage has their records.
    fn discard_before(&self, offset: i64) -> Discarded {
        let mut segments = Vec::clone(&self.partition.segments.load());
        let below = segments.windows(2).take_while(|pair| pair[1].base() <= offset).count();
        let gone: Vec<Arc<Segment>> = segments.drain(..below).collect();
        if !gone.is_empty() {
            self.partition.publish_segments(segments);
        }
        Discarded { partition: self.partition.clone(), segments: gone }
    }

    fn cut_point(&self, offset: i64) -> Result<CutPoint, LogError> {
        let segments = self.partition.segments.load();
        let at = segments.partition_point(|segment| segment.base() <= offset).saturating_sub(1);
        let (segment, interval) = (&segments[at], self.config.index_interval_bytes);
        let found = segment.find(&*self.disk, offset, segment.size(), interval)?;
        let position = found.map_or(segment.size(), |head| head.position);
        assert!(position <= segment.size(), "a cut of {segment} at {position} is above its size");
        // Not the requested offset if compaction left a gap: the next opening only sees the
        // batches.
        let end = self.end_at(segment, position)?;
        if end > offset {
            let detail = format!(
                "a batch before position {position} ends at offset {end}, the next begins before {offset}"
            );
            return Err(LogError::corrupt(segment.path(), detail));
        }
        Ok(CutPoint { at, position, end })
    }

    /// The offset after the batch that ends at `position`.
    fn end_at(&self, segment: &Segment, position: u64) -> Result<i64, LogError> {
        let disk = &*self.disk;
        let Some(before) = position.checked_sub(1) else { return Ok(segment.base()) };
        let start = segment.offsets.boundary(disk, before)?;
        let mut scan = segment.scan(disk, start..position, self.config.index_interval_bytes as usize)?;
        let mut end = segment.base();
        while let Some(head) = scan.next()? {
            end = scan.last_offset(&head)?.saturating_add(1);
        }
        Ok(end)
    }

    /// Prepares everything that needs disk space or descriptors. Until it returns, nothing of the
    /// log has changed. None if the last segment keeps its length.
    fn prepare_cut(&self, cut: &CutPoint) -> Result<Option<Built>, LogError> {
        let (disk, segments) = (&*self.disk, self.partition.segments.load_full());
        // Names are about to refer to other files: a reader of the old segments must have their
        // files open.
        let held = segments[cut.at..].iter().try_for_each(|segment| segment.hold(disk));
        let prepared = held.and_then(|()| self.copy_head(&segments[cut.at], cut));
        prepared.inspect_err(|error| {
            // The next opening removes a file that cannot be removed now.
            drop(remove_if_there(disk, &head_path(&segments[cut.at])));
            if !error.source_io().is_some_and(is_short) {
                self.partition.go_offline(error);
            }
        })
    }

    /// Does it. In this order, so that a crash in between leaves a log that ends where it did, or
    /// earlier: lower marks, later segments from the last on, the shortened file, its indexes,
    /// epochs, producers.
    fn cut(&mut self, cut: &CutPoint, head: Option<Built>, now_ms: i64) -> Result<(), LogError> {
        let (disk, dir) = (&*self.disk, &*self.partition.dir());
        let mut segments = Vec::clone(&self.partition.segments.load());
        self.stale_recovery_point = self.stale_recovery_point.max(self.partition.recovery_point());
        self.partition.note_cut();
        self.partition.marks.lower(cut.end);
        self.partition.lower_highest_remote(cut.end - 1);
        let gone = segments.split_off(cut.at + 1);
        for segment in gone.iter().rev() {
            segment.remove(disk)?;
        }
        if !gone.is_empty() {
            disk.sync_dir(dir).at("sync", dir)?;
        }
        let shortened = head.is_some();
        if let Some(head) = head {
            segments[cut.at] = Arc::new(self.shorten(&segments[cut.at], (head, cut.position))?);
        }
        let last = segments[cut.at].clone();
        last.lower_end(cut.end);
        self.partition.publish_segments(segments);
        if shortened || !gone.is_empty() {
            self.active = Active::resume(last, now_ms);
        }
        self.cut_epochs(cut.end)?;
        let options = OpenOptions {
            config: self.config.clone(),
            disk: self.disk.clone(),
            ..OpenOptions::new(&*self.partition.dir())
        };
        let segments = self.partition.segments.load();
        (self.producers, self.snapshot_at) = recover::producers_at(&options, &segments, cut.end, now_ms)?;
        self.partition.marks.restart_transactions(self.producers.first_unstable());
        assert_eq!(self.partition.log_end(), cut.end, "a truncated log ends at the cut");
        self.assert_active_is_last();
        Ok(())
    }

    /// Copies the bytes before the cut to a file with a temporary name, synced when this returns;
    /// returns the entries of their indexes. None if no byte and no entry is removed.
    fn copy_head(&self, old: &Segment, cut: &CutPoint) -> Result<Option<Built>, LogError> {
        let disk = &*self.disk;
        // Entries above its end belong to a file that another process has shortened.
        let indexed = old.offsets.last(disk)?.map_or(0, |entry| entry.position);
        if cut.position == old.size() && (indexed == 0 || indexed < cut.position) {
            return Ok(None);
        }
        let mut offsets = old.offsets.below(disk, cut.position)?;
        // Kafka may have given several batches one entry: the place of the first, the last offset
        // of the last.
        offsets.retain(|entry| entry.delta < old.delta(cut.end));
        let times = old.times.below(disk, old.delta(cut.end))?;
        let mut aborted = old.aborted.entries(disk)?;
        aborted.retain(|entry| entry.last_offset < cut.end);
        let latest = latest(disk, old, times.last(), cut.position)?;
        let fresh = head_path(old);
        remove_if_there(disk, &fresh)?;
        let file = disk.create(&fresh).at("create", &fresh)?;
        disk.copy(old.file(disk)?, old.path(), (&file, &fresh), cut.position).at("copy", old.path())?;
        disk.sync(&file, &fresh).at("sync", &fresh)?;
        let mut built = Built { offsets, times, aborted: Some(aborted) };
        latest.into_iter().for_each(|entry| built.push_time(entry));
        Ok(Some(built))
    }

    /// Renames the copied head to its segment, and builds its indexes.
    fn shorten(&self, old: &Segment, (head, size): (Built, u64)) -> Result<Segment, LogError> {
        let (disk, dir, fresh) = (&*self.disk, &*self.partition.dir(), head_path(old));
        // Without indexes the next opening builds them; it might trust those of the longer file.
        for path in [old.offsets.entries().path(), old.times.entries().path(), old.aborted.path()] {
            remove_if_there(disk, path)?;
        }
        disk.rename(&fresh, old.path()).at("rename", &fresh)?;
        disk.sync_dir(dir).at("sync", dir)?;
        let segment = Segment::on_disk(dir, old.base(), size);
        let segment = segment.with_indexes(disk, &head, self.config.segment_index_bytes)?;
        self.partition.note_new_name();
        Ok(segment)
    }
}

/// Name of the head of a segment before it has the segment's name. The next opening removes it.
fn head_path(segment: &Segment) -> PathBuf {
    segment.path().with_extension("log.tmp")
}

/// The largest timestamp before `end`: that of the last index entry, or a later one.
fn latest(
    disk: &dyn Disk,
    segment: &Segment,
    indexed: Option<&TimeEntry>,
    end: u64,
) -> Result<Option<TimeEntry>, LogError> {
    let mut latest = indexed.copied();
    let start = match indexed {
        Some(entry) => segment.offsets.lookup(disk, entry.delta)?.position.min(end),
        None => 0,
    };
    let mut scan = segment.scan(disk, start..end, SWEEP)?;
    while let Some(head) = scan.next()? {
        let header = scan.header(&head)?;
        let (timestamp, delta) = (header.max_timestamp(), segment.delta(header.last_offset()));
        if timestamp > latest.map_or(NO_TIMESTAMP, |entry| entry.timestamp) {
            latest = Some(TimeEntry { timestamp, delta });
        }
    }
    Ok(latest)
}

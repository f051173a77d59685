//! The shared side of a partition: an immutable list of segments and a few atomics. A fetch takes
//! no lock here, and nothing here writes to the log.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicI64, AtomicU32, AtomicU64, Ordering};

use arc_swap::{ArcSwap, Guard};
use bytes::Bytes;
use levada_io::Extent;
use parking_lot::Mutex;

use crate::disk::{At, Disk, NonBlockingReads, ReadFiles};
use crate::epochs::Epochs;
use crate::marks::{Marks, Start};
use crate::refused::Refused;
use crate::segment::{Head, Segment, assert_in_order};
use crate::watch::FailureWatch;
use crate::{LogError, ReadError};

mod batches;
mod flush;
mod outages;
mod refusals;
mod slice;
mod tiers;
mod timestamps;
mod transactions;

pub use batches::BatchSpan;
pub use outages::outages;
pub use slice::Slice;
pub use timestamps::{Times, TimestampOffset};
pub use transactions::AbortedTransaction;
pub(crate) use transactions::aborted_among;

/// One partition, shared between the writer and any number of readers.
///
/// Offsets: `log_start <= last_stable <= high_watermark <= log_end`. Batches below the high
/// watermark are complete in their segments before the mark is published, so a reader that loads a
/// mark first and then reads up to it finds everything.
///
/// Whole: the list of segments, the epochs and the marks are read without a lock, in an order that
/// the methods keep. Searches by time are in [`Times`].
#[derive(Debug)]
pub struct Partition {
    // Another one once the log has moved.
    dir: ArcSwap<PathBuf>,
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) segments: ArcSwap<Vec<Arc<Segment>>>,
    pub(crate) epochs: ArcSwap<Epochs>,
    pub(crate) marks: Marks,
    latest_epoch: AtomicI32,
    interval: AtomicU32,
    offline: AtomicBool,
    pub(crate) refused: Refused,
    cuts: AtomicU64,
    highest_remote: AtomicI64,
    watch: ArcSwap<FailureWatch>,
    // Held during a sync or a truncation; never by readers or appends.
    flushing: Mutex<()>,
    unsynced_names: AtomicBool,
    // The name of its directory may be another log's.
    has_left: AtomicBool,
}

/// Limits of one read.
#[derive(Clone, Copy)]
struct ReadLimits {
    max_bytes: u32,
    /// True to return the first batch whole, even if it exceeds the limit.
    min_one: bool,
}

impl Partition {
    pub(crate) fn new(
        dir: PathBuf,
        disk: Arc<dyn Disk>,
        segments: Vec<Arc<Segment>>,
        epochs: Epochs,
        start: Start,
    ) -> Self {
        assert_in_order(&segments);
        let partition = Self {
            dir: ArcSwap::from_pointee(dir),
            disk,
            segments: ArcSwap::from_pointee(segments),
            latest_epoch: epochs.latest().into(),
            epochs: ArcSwap::from_pointee(epochs),
            marks: Marks::new(start),
            interval: AtomicU32::default(),
            offline: AtomicBool::new(false),
            refused: Refused::default(),
            cuts: AtomicU64::new(0),
            highest_remote: AtomicI64::new(-1),
            watch: ArcSwap::default(),
            flushing: Mutex::new(()),
            unsynced_names: AtomicBool::new(false),
            has_left: AtomicBool::new(false),
        };
        partition.marks.assert_ordered(&partition.dir());
        partition
    }

    /// Reports the storage errors of the partition to this watch.
    pub(crate) fn watched(self, watch: FailureWatch) -> Self {
        Self { watch: ArcSwap::from_pointee(watch), ..self }
    }

    /// Replaces the list of segments. Readers continue with their list.
    pub(crate) fn publish_segments(&self, segments: Vec<Arc<Segment>>) {
        assert_in_order(&segments);
        self.segments.store(Arc::new(segments));
    }

    /// The partition's directory, which is another one after [`crate::Writer::relocate`].
    pub fn dir(&self) -> Arc<PathBuf> {
        self.dir.load_full()
    }

    /// Takes over the directory, the files and the watch of a copy of this log. The caller holds
    /// the lock of the flushes.
    pub(crate) fn adopt(&self, copy: &Self) {
        self.watch.store(copy.watch.load_full());
        self.publish_segments(Vec::clone(&copy.segments.load()));
        self.dir.store(copy.dir.load_full());
        self.marks.durable.fetch_max(copy.durable(), Ordering::AcqRel);
        self.marks.recovery_point.fetch_max(copy.recovery_point(), Ordering::AcqRel);
    }

    /// Number of truncations and restarts so far. It rises before the log's end is lowered: two
    /// equal values mean that nothing of the log was replaced in between.
    pub fn cuts(&self) -> u64 {
        self.cuts.load(Ordering::Acquire)
    }

    pub(crate) fn note_cut(&self) {
        self.cuts.fetch_add(1, Ordering::AcqRel);
    }

    /// Repeats a read that failed because the log has moved: files that were not open are in
    /// another directory. After a failure it waits for a sync that runs: not on a shard.
    pub(crate) fn despite_move<T>(&self, read: impl Fn() -> Result<T, ReadError>) -> Result<T, ReadError> {
        let before = self.dir();
        match read() {
            Err(ReadError::Storage(error)) => {
                // The move may not be over.
                drop(self.hold_flushes());
                let has_moved = !Arc::ptr_eq(&before, &self.dir.load());
                if has_moved { read() } else { Err(ReadError::Storage(error)) }
            }
            other => other,
        }
    }

    /// The first offset that may be read.
    pub fn log_start(&self) -> i64 {
        self.marks.log_start()
    }

    /// The offset after the last one that all counting replicas have.
    pub fn high_watermark(&self) -> i64 {
        self.marks.high_watermark()
    }

    /// The first offset of the oldest transaction that is open or whose marker is not below the
    /// high watermark; without one, the high watermark.
    pub fn last_stable(&self) -> i64 {
        self.marks.last_stable()
    }

    /// The offset that the next record gets.
    pub fn log_end(&self) -> i64 {
        self.marks.log_end()
    }

    /// Everything before this offset is on the device: the value for the checkpoint of recovery
    /// points.
    pub fn recovery_point(&self) -> i64 {
        self.marks.recovery_point.load(Ordering::Acquire)
    }

    /// Records before this offset are on the device; the recovery point, which requires indexes as
    /// well, may be lower.
    pub fn durable(&self) -> i64 {
        self.marks.durable.load(Ordering::Acquire)
    }

    /// The latest leader epoch, -1 if there was none.
    pub fn latest_epoch(&self) -> i32 {
        self.latest_epoch.load(Ordering::Acquire)
    }

    /// True if a failure of the storage has stopped all writing.
    pub fn is_offline(&self) -> bool {
        self.offline.load(Ordering::Acquire)
    }

    /// Published bytes of all segments.
    pub fn size_bytes(&self) -> u64 {
        self.segments.load().iter().map(|segment| segment.size()).sum()
    }

    /// The offset that the first segment is named after: a log without a checkpoint begins there.
    pub fn first_base(&self) -> i64 {
        self.segments.load().first().map_or(0, |first| first.base())
    }

    /// Number of segments.
    pub fn segment_count(&self) -> usize {
        self.segments.load().len()
    }

    /// End of an epoch: the latest epoch not above the requested one, and the start offset of the
    /// next; the log's end for the latest epoch. (-1, -1) if unknown.
    pub fn epoch_end_offset(&self, epoch: i32) -> (i32, i64) {
        self.epochs.load().end_offset(epoch, self.log_end())
    }

    /// Finds the batch with `offset` and the following batches in the same segment, as a range of
    /// the file: whole batches below `upto`, at most `max_bytes` of them. With `min_one` the first
    /// batch is returned whole even if it is larger.
    ///
    /// Take `upto` from this partition (high watermark, last stable, log end) before the call.
    /// Reads an index mapping and at most a few kilobytes of headers; no lock; may block on a cold
    /// page. The range stays readable after any change of the log.
    ///
    /// # Errors
    /// An offset outside the log, a failing disk, or bytes that are not a batch.
    pub fn read(&self, offset: i64, max_bytes: u32, upto: i64, min_one: bool) -> Result<Slice, ReadError> {
        let limits = ReadLimits { max_bytes, min_one };
        let found = self.despite_move(|| self.find_range(&*self.disk, (offset, upto), limits));
        found.map_err(|error| self.explain(error, offset))
    }

    /// Like [`Partition::read`], but waits neither for the device to find the range, nor for a sync
    /// or a move of the log; the sender checks if the range itself is in the page cache. (An
    /// evicted page of an index is waited for.)
    ///
    /// # Errors
    /// [`ReadError::Cold`] for a range that is not found without a wait, or because the disk fails:
    /// [`Partition::read`] finds it, or the failure. Else as there.
    pub fn read_cached(
        &self,
        offset: i64,
        max_bytes: u32,
        upto: i64,
        min_one: bool,
    ) -> Result<Slice, ReadError> {
        let disk = NonBlockingReads(&*self.disk);
        let found = self.find_range(&disk, (offset, upto), ReadLimits { max_bytes, min_one });
        let slice = found.map_err(|error| match error {
            // Only a reader that may wait can wait for a move of the log, or for a sync that runs,
            // before it reports a failure.
            ReadError::Storage(_) => ReadError::Cold,
            other => self.explain(other, offset),
        })?;
        Ok(Slice { cached: true, ..slice })
    }

    fn find_range(
        &self,
        disk: &dyn ReadFiles,
        (offset, upto): (i64, i64),
        limits: ReadLimits,
    ) -> Result<Slice, ReadError> {
        let segments = self.segments.load();
        let (active_size, active_end) =
            segments.last().map_or((0, 0), |active| (active.size(), active.end()));
        let (log_start, log_end) = (self.log_start(), self.log_end());
        if offset < log_start || offset > log_end {
            return Err(ReadError::OutOfRange { offset, log_start, log_end });
        }
        if let Some(first) = segments.first().filter(|first| offset < first.base()) {
            return Err(ReadError::Remote { offset, local_log_start: first.base() });
        }
        if offset >= upto {
            return Ok(Slice::nothing(offset, log_start));
        }
        let first = segments.partition_point(|segment| segment.base() <= offset).saturating_sub(1);
        for (at, segment) in segments.iter().enumerate().skip(first) {
            let sealed = at + 1 < segments.len();
            let size = if sealed { segment.size() } else { active_size };
            if sealed {
                segment.read_nothing_ahead(disk)?;
            }
            let found = segment.find(disk, offset, size, self.interval())?;
            let Some(head) = found else { continue };
            // The segment's own end, taken after its size: that of the log may have been moved by a
            // truncation since.
            let whole_below = segments.get(at + 1).map_or(active_end, |next| next.base());
            let whole = whole_below <= upto;
            let end = if whole { size } else { self.position_of(disk, segment, (upto, size))? };
            if end <= head.position {
                // A gap that compaction left reaches from the offset to `upto`: there will be more
                // once that has moved.
                return Ok(Slice::nothing(offset, log_start));
            }
            let end = self.limit(disk, segment, (&head, end), limits)?;
            debug_assert!(end <= size, "a range up to {end} of {segment}, which has {size} bytes");
            let extent = match end.checked_sub(head.position) {
                None | Some(0) => None,
                Some(len) => {
                    let file = segment.file(disk)?.clone();
                    Some(Extent { file, offset: head.position, len })
                }
            };
            let (base_offset, segments) = (head.base_offset, Some(Guard::into_inner(segments)));
            return Ok(Slice { extent, base_offset, log_start, sealed, cached: false, segments });
        }
        Ok(Slice::nothing(offset, log_start))
    }

    /// Like [`Partition::read`] up to the log's end, but copies the bytes: for replaying internal
    /// topics. Empty at the end.
    ///
    /// # Errors
    /// Same as [`Partition::read`].
    pub fn read_batches(&self, offset: i64, max_bytes: u32) -> Result<Bytes, ReadError> {
        let slice = self.read(offset, max_bytes, self.log_end(), true)?;
        let Some(extent) = slice.extent else { return Ok(Bytes::new()) };
        // A range of our own file: the length was read there, not claimed by a peer.
        let mut bytes = vec![0; usize::try_from(extent.len).unwrap_or(usize::MAX)];
        let dir = self.dir();
        let read = self.disk.read_at(&extent.file, &dir, &mut bytes, extent.offset).at("read", &dir)?;
        bytes.truncate(read);
        Ok(bytes.into())
    }

    /// Position of the first batch that is not wholly below `upto`.
    fn position_of(
        &self,
        disk: &dyn ReadFiles,
        segment: &Segment,
        (upto, size): (i64, u64),
    ) -> Result<u64, ReadError> {
        let found = segment.find(disk, upto, size, self.interval())?;
        Ok(found.map_or(size, |head| head.position))
    }

    /// The end of the last batch within `max_bytes` of the first. Needs no read if the index has
    /// the start of a batch shortly before the limit.
    fn limit(
        &self,
        disk: &dyn ReadFiles,
        segment: &Segment,
        (first, end): (&Head, u64),
        ReadLimits { max_bytes, min_one }: ReadLimits,
    ) -> Result<u64, ReadError> {
        let limit = first.position + u64::from(max_bytes);
        if limit >= end {
            return Ok(end);
        }
        if first.end() > limit {
            return Ok(if min_one { first.end().min(end) } else { first.position });
        }
        let boundary = segment.offsets.boundary(disk, limit)?;
        if boundary >= first.end() {
            return Ok(boundary);
        }
        let window = self.interval() as usize;
        let mut scan = segment.scan(disk, first.end()..end, window)?;
        let mut aligned = first.end();
        while let Some(head) = scan.next()?.filter(|head| head.end() <= limit) {
            aligned = head.end();
        }
        Ok(aligned)
    }

    /// Converts the error for a segment that was removed during a read: its offset left the log.
    fn explain(&self, error: ReadError, offset: i64) -> ReadError {
        let (log_start, log_end) = (self.log_start(), self.log_end());
        match error {
            ReadError::Storage(ref lost @ LogError::Lost { .. }) => {
                self.mark_offline(lost);
                error
            }
            ReadError::Storage(failure) if (log_start..log_end).contains(&offset) => {
                self.report_failure(&failure);
                ReadError::Storage(failure)
            }
            ReadError::Storage(_) => ReadError::OutOfRange { offset, log_start, log_end },
            ReadError::Corrupt { path, position, .. } => ReadError::Corrupt { path, position, offset },
            other => other,
        }
    }

    pub(crate) fn interval(&self) -> u32 {
        self.interval.load(Ordering::Relaxed)
    }

    pub(crate) fn set_interval(&self, bytes: u32) {
        self.interval.store(bytes, Ordering::Relaxed);
    }

    /// Raises the high watermark, at most to the log's end: all counting replicas have the records
    /// below it. A lower value changes nothing. For a log whose writer [stands
    /// alone](crate::Writer::set_sole_replica), appends do it. Any thread may call it.
    pub fn raise_high_watermark(&self, offset: i64) {
        self.marks.raise_high_watermark(offset);
    }

    pub(crate) fn publish_epochs(&self, epochs: Epochs) {
        self.latest_epoch.store(epochs.latest(), Ordering::Release);
        self.epochs.store(Arc::new(epochs));
    }

    /// Takes the partition offline, because files are missing that only an opening restores.
    pub(crate) fn mark_offline(&self, error: &LogError) {
        if !self.offline.swap(true, Ordering::AcqRel) {
            tracing::error!(%error, "the partition is offline");
        }
        self.report_failure(error);
    }

    /// Checks that the log's files still have their names: data in files without a name is lost
    /// with the process. Blocks.
    ///
    /// # Errors
    /// [`LogError::Lost`] if they are not; the partition is offline then.
    pub fn check_files_present(&self) -> Result<(), LogError> {
        let segments = self.segments.load_full();
        let Some(active) = segments.last() else { return Ok(()) };
        match self.disk.len(active.path()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            _ => return Ok(()),
        }
        // The segment may have been rolled, replaced, moved or deleted since.
        let _held = self.hold_flushes();
        let same = self.segments.load().last().is_some_and(|now| Arc::ptr_eq(now, active));
        if !same || self.has_left() || !self.is_gone(active.path()) {
            return Ok(());
        }
        let lost = LogError::Lost { path: active.path().to_owned() };
        self.mark_offline(&lost);
        Err(lost)
    }

    fn is_gone(&self, path: &Path) -> bool {
        self.disk.len(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
    }

    pub(crate) fn go_offline(&self, error: &LogError) {
        self.abandon();
        self.report_failure(error);
    }

    /// Runs `rename`, by which the directory loses its name. Discarded segments keep their files
    /// from then on: files of a new log with this path may have the same names. Waits for a running
    /// sync.
    pub fn leave<T>(&self, rename: impl FnOnce() -> T) -> T {
        let _held = self.hold_flushes();
        self.has_left.store(true, Ordering::Release);
        // Readers of these segments request aborted transactions after the rename.
        self.segments.load().iter().for_each(|segment| segment.hold_aborted(&*self.disk));
        rename()
    }

    /// True after [`Partition::leave`]. Under the lock of the flushes.
    pub(crate) fn has_left(&self) -> bool {
        self.has_left.load(Ordering::Acquire)
    }

    /// Takes the log offline: its directory has failed, or its content is unknown.
    pub fn abandon(&self) {
        self.offline.store(true, Ordering::Release);
        outages::count();
    }
}

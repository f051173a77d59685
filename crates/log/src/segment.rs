//! One segment: a file of batches, its indexes, and how many bytes of it are published. Shared by
//! readers and the writer; nothing in it is locked once its files are open.
//!
//! ```text
//!  00000000000000000096.log: base offset 96, published up to `size`, batches up to the offset `end`
//!
//!   position 0          2100        4203         6300      8405        size = 10508
//!            ├───────────┼───────────┼────────────┼─────────┼────────────┼ ─ ─ ─ ─ ─ ─ ─ ─ ─ ┐
//!            │  96..=99  │ 100..=131 │ 132..=140  │   141   │ 142..=160  │ zeroes, if blocks
//!            │           │           │            │         │            │ are reserved ahead
//!            └───────────┴───────────┴────────────┴─────────┴────────────┴ ─ ─ ─ ─ ─ ─ ─ ─ ─ ┘
//!                                    ▲                      ▲            ▲
//!  .index     (delta, position)      (44, 4203)             (64, 8405)   end = 161
//!  .timeindex (timestamp, delta)     one beside each of these if it is later, one when the segment is sealed
//!  .txnindex                         one for each transaction whose abort marker lies in the segment
//!  .snapshot                         the producers as they were at the base offset
//! ```
//!
//! The first batch that begins more than `index.interval.bytes` after the last indexed one gets an
//! entry: its last offset less the base, and its position. In an index both increase from entry to
//! entry. `size` and `end` only grow, except while a log is cut.

use std::fmt;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{SystemTime, UNIX_EPOCH};

use levada_base::batch::{HEADER_LEN, NO_TIMESTAMP};

use crate::LogError;
use crate::disk::{At, Disk, ReadFiles, remove_if_there};
use crate::index::{Aborted, OffsetEntry, OffsetIndex, TimeEntry, TimeIndex, TxnIndex};

mod find;
mod names;
mod scan;
#[cfg(test)]
mod tests;

pub(crate) use names::{CLEANED, DELETED, FILES, SWAP};
pub(crate) use scan::{Head, Scan};

/// Bytes of one read when a segment is read from start to end.
pub(crate) const SWEEP: usize = 256 * 1024;
const _: () = assert!(SWEEP > HEADER_LEN, "a window has room for a header");
/// The timestamp of a segment whose time index has not been read yet.
const UNKNOWN: i64 = i64::MIN;

/// True if all bytes are zero: the first is, and each equals the next, as one call of memcmp finds.
pub(crate) fn is_zero(bytes: &[u8]) -> bool {
    match bytes {
        [] => true,
        [first, rest @ ..] => *first == 0 && *rest == bytes[..rest.len()],
    }
}

/// A file of batches from `base` on, and its indexes.
#[derive(Debug)]
pub(crate) struct Segment {
    base: i64,
    path: PathBuf,
    file: OnceLock<Arc<File>>,
    /// Set once the kernel's read-ahead of the file is off.
    calmed: OnceLock<()>,
    size: AtomicU64,
    end: AtomicI64,
    max_timestamp: AtomicI64,
    pub(crate) index_state: IndexState,
    pub(crate) offsets: OffsetIndex,
    pub(crate) times: TimeIndex,
    pub(crate) aborted: TxnIndex,
}

/// State of a segment's offset index, as found by searches.
#[derive(Debug, Default)]
pub(crate) struct IndexState(AtomicU8);

impl IndexState {
    const MISLED: u8 = 1;
    const KEPT: u8 = 2;

    /// A reader found, without the index, records that it did not find with the index. Returns true
    /// for the first report.
    fn note_misled(&self) -> bool {
        self.0.compare_exchange(0, Self::MISLED, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// True if the index should be built again.
    pub(crate) fn is_misleading(&self) -> bool {
        self.0.load(Ordering::Relaxed) == Self::MISLED
    }

    /// Keeps an index that cannot be rebuilt.
    pub(crate) fn keep(&self) {
        self.0.store(Self::KEPT, Ordering::Relaxed);
    }
}

/// The entries that a segment's batches make.
#[derive(Debug, Default)]
pub(crate) struct Built {
    pub(crate) offsets: Vec<OffsetEntry>,
    /// The last entry has the segment's largest timestamp.
    pub(crate) times: Vec<TimeEntry>,
    /// `None` if unknown, and the index stays unchanged.
    pub(crate) aborted: Option<Vec<Aborted>>,
}

impl Built {
    /// Adds an entry if it is later than the last.
    pub(crate) fn push_time(&mut self, entry: TimeEntry) {
        if entry.timestamp > self.times.last().map_or(NO_TIMESTAMP, |last| last.timestamp) {
            self.times.push(entry);
        }
    }
}

impl fmt::Display for Segment {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path.display().fmt(to)
    }
}

/// Asserts that a log has at least one segment, and that base offsets increase.
pub(crate) fn assert_in_order(segments: &[Arc<Segment>]) {
    assert!(!segments.is_empty(), "a log has a segment");
    for pair in segments.windows(2) {
        assert!(pair[0].base < pair[1].base, "{} does not begin after {}", pair[1], pair[0]);
    }
}

/// The files of a segment, named by its base offset in twenty digits.
pub(crate) fn file_name(base: i64, suffix: &str) -> String {
    format!("{base:020}{suffix}")
}

impl Segment {
    /// A new, empty segment with empty index files.
    pub(crate) fn create(disk: &dyn Disk, dir: &Path, base: i64) -> Result<Self, LogError> {
        Self::with_file(disk, dir, base, |path| disk.create(path))
    }

    /// A new, empty segment whose log file the caller will rename to the segment's name.
    pub(crate) fn with_file(
        disk: &dyn Disk,
        dir: &Path,
        base: i64,
        file: impl FnOnce(&Path) -> io::Result<File>,
    ) -> Result<Self, LogError> {
        let path = dir.join(file_name(base, ".log"));
        let offsets = OffsetIndex::create(disk, dir.join(file_name(base, ".index")))?;
        let times = TimeIndex::create(disk, dir.join(file_name(base, ".timeindex")))?;
        let aborted = TxnIndex::none(dir.join(file_name(base, ".txnindex")));
        let file = OnceLock::from(Arc::new(file(&path).at("create", &path)?));
        let (size, max_timestamp) = (AtomicU64::new(0), AtomicI64::new(NO_TIMESTAMP));
        let end = AtomicI64::new(base);
        let (index_state, calmed) = (IndexState::default(), OnceLock::new());
        Ok(Self { base, path, file, calmed, size, end, max_timestamp, index_state, offsets, times, aborted })
    }

    /// A segment on disk with `size` published bytes. Does not open it yet.
    pub(crate) fn on_disk(dir: &Path, base: i64, size: u64) -> Self {
        let path = dir.join(file_name(base, ".log"));
        Self::at_path(dir, base, (size, &path))
    }

    /// A segment on disk whose log file has another name.
    pub(crate) fn at_path(dir: &Path, base: i64, (size, path): (u64, &Path)) -> Self {
        Self {
            base,
            path: path.to_owned(),
            file: OnceLock::new(),
            calmed: OnceLock::new(),
            size: AtomicU64::new(size),
            end: AtomicI64::new(i64::MAX),
            max_timestamp: AtomicI64::new(if size == 0 { NO_TIMESTAMP } else { UNKNOWN }),
            index_state: IndexState::default(),
            offsets: OffsetIndex::on_disk(dir.join(file_name(base, ".index"))),
            times: TimeIndex::on_disk(dir.join(file_name(base, ".timeindex"))),
            aborted: TxnIndex::on_disk(dir.join(file_name(base, ".txnindex"))),
        }
    }

    /// Returns the segment with these entries in its indexes. Files that contain a prefix of them
    /// are kept and continued, others are replaced: readers of the old files are not disturbed.
    pub(crate) fn with_indexes(
        &self,
        disk: &dyn Disk,
        built: &Built,
        index_bytes: u32,
    ) -> Result<Self, LogError> {
        let (offsets, times, aborted) =
            (self.offsets.entries().path(), self.times.entries().path(), self.aborted.path());
        let capacity = OffsetIndex::capacity(index_bytes);
        let time_capacity = TimeIndex::capacity(index_bytes);
        let offsets =
            OffsetIndex::on_disk(offsets.to_owned()).with_entries(disk, &built.offsets, capacity)?;
        let times = TimeIndex::on_disk(times.to_owned()).with_entries(disk, &built.times, time_capacity)?;
        let mut txn = TxnIndex::on_disk(aborted.to_owned());
        if let Some(aborted) = &built.aborted {
            txn = txn.with_entries(disk, aborted)?;
        }
        let latest = built.times.last().map_or(NO_TIMESTAMP, |entry| entry.timestamp);
        Ok(Self {
            base: self.base,
            path: self.path.clone(),
            file: OnceLock::new(),
            calmed: OnceLock::new(),
            size: self.size().into(),
            end: i64::MAX.into(),
            max_timestamp: latest.into(),
            index_state: IndexState::default(),
            offsets,
            times,
            aborted: txn,
        })
    }

    /// The first offset that may be in it; its name.
    pub(crate) fn base(&self) -> i64 {
        self.base
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Published bytes.
    pub(crate) fn size(&self) -> u64 {
        self.size.load(Ordering::Acquire)
    }

    /// Publishes bytes that have been written.
    pub(crate) fn publish_size(&self, size: u64) {
        assert!(size >= self.size(), "size {size} of {self} is below the published {}", self.size());
        self.size.store(size, Ordering::Release);
    }

    /// Notes that the file was cut.
    pub(crate) fn lower_size(&self, size: u64) {
        assert!(size <= self.size(), "a cut of {self} to {size} is above the published {}", self.size());
        self.size.store(size, Ordering::Release);
    }

    /// The offset after all batches within its size; `i64::MAX` until it is set.
    pub(crate) fn end(&self) -> i64 {
        self.end.load(Ordering::Acquire)
    }

    /// Raises the end offset, before the size: a reader of the bytes finds an end at or above
    /// theirs.
    pub(crate) fn publish_end(&self, offset: i64) {
        let end = self.end();
        assert!(end == i64::MAX || offset >= end, "end {offset} of {self} is before the published {end}");
        assert!(offset >= self.base, "end {offset} of {self} is before its base");
        self.end.store(offset, Ordering::Release);
    }

    /// Lowers the end offset, because the log is being truncated.
    pub(crate) fn lower_end(&self, offset: i64) {
        assert!(self.base <= offset && offset <= self.end(), "{self} cannot be cut to end at {offset}");
        self.end.store(offset, Ordering::Release);
    }

    /// The open file; opens it the first time.
    pub(crate) fn file(&self, disk: &dyn ReadFiles) -> Result<&Arc<File>, LogError> {
        if let Some(file) = self.file.get() {
            return Ok(file);
        }
        let file = disk.open(&self.path).at("open", &self.path)?;
        // Two readers may open it at the same time: one of the files is dropped again.
        Ok(self.file.get_or_init(|| Arc::new(file)))
    }

    /// Disables the kernel's read-ahead for a sealed segment. The sender of old records requests
    /// them ahead itself, as far as they may stay in memory; the kernel would also load data around
    /// each header that is read, at the cost of other pages.
    pub(crate) fn read_nothing_ahead(&self, disk: &dyn ReadFiles) -> Result<(), LogError> {
        if self.calmed.get().is_none() {
            disk.read_nothing_ahead(self.file(disk)?, &self.path);
            // Several may do it at the same time.
            let _ = self.calmed.set(());
        }
        Ok(())
    }

    /// Opens and maps everything that is otherwise opened on demand, before another file gets its
    /// name.
    pub(crate) fn hold(&self, disk: &dyn ReadFiles) -> Result<(), LogError> {
        self.file(disk)?;
        self.offsets.entries().view(disk)?;
        self.times.entries().view(disk)?;
        self.aborted.count(disk)?;
        Ok(())
    }

    /// Opens the transaction index before its name is removed: a reader of the segment opens it
    /// next, and takes a missing file for an empty one. If the index cannot be opened, the reader
    /// gets the error.
    pub(crate) fn hold_aborted(&self, disk: &dyn ReadFiles) {
        if let Err(error) = self.aborted.count(disk) {
            tracing::warn!(%error, "cannot open the transaction index of a removed segment; its readers may have to retry");
        }
    }

    /// The largest timestamp, -1 if there is none. The first call may read the end of the time
    /// index.
    pub(crate) fn max_timestamp(&self, disk: &dyn ReadFiles) -> Result<i64, LogError> {
        let known = self.max_timestamp.load(Ordering::Acquire);
        if known != UNKNOWN {
            return Ok(known);
        }
        let last = self.times.last(disk)?.map_or(NO_TIMESTAMP, |entry| entry.timestamp);
        // The writer may have published a later one since.
        let _ = self.max_timestamp.compare_exchange(UNKNOWN, last, Ordering::AcqRel, Ordering::Acquire);
        Ok(self.max_timestamp.load(Ordering::Acquire))
    }

    pub(crate) fn publish_max_timestamp(&self, timestamp: i64) {
        self.max_timestamp.store(timestamp, Ordering::Release);
    }

    /// An offset as the indexes store it.
    pub(crate) fn delta(&self, offset: i64) -> u32 {
        u32::try_from(offset.saturating_sub(self.base).clamp(0, i64::from(i32::MAX))).unwrap_or(0)
    }

    /// Walks through the batches from `position` to `end`, reading `window` bytes at a time.
    pub(crate) fn scan<'a>(
        &'a self,
        disk: &'a dyn ReadFiles,
        range: std::ops::Range<u64>,
        window: usize,
    ) -> Result<Scan<'a>, LogError> {
        Scan::new(disk, self, range, window)
    }

    /// Like [`Segment::max_timestamp`], or the time of the last write if the segment has no
    /// timestamps.
    pub(crate) fn newest_ms(&self, disk: &dyn ReadFiles) -> Result<i64, LogError> {
        let newest = self.max_timestamp(disk)?;
        if newest != NO_TIMESTAMP {
            return Ok(newest);
        }
        let age = self.modified(disk)?.duration_since(UNIX_EPOCH).unwrap_or_default();
        Ok(i64::try_from(age.as_millis()).unwrap_or(i64::MAX))
    }

    /// Time of the last write to the file.
    pub(crate) fn modified(&self, disk: &dyn ReadFiles) -> Result<SystemTime, LogError> {
        self.file(disk)?.metadata().and_then(|data| data.modified()).at("look at", &self.path)
    }

    /// Removes all files of the segment. Open files and mappings stay valid.
    pub(crate) fn remove(&self, disk: &dyn Disk) -> Result<(), LogError> {
        self.files().chain([self.snapshot()]).try_for_each(|path| remove_if_there(disk, &path).map(drop))
    }

    /// Paths of the segment's files, some of which may not exist; the log comes first.
    pub(crate) fn files(&self) -> impl Iterator<Item = PathBuf> {
        ["log", "index", "timeindex", "txnindex"].into_iter().map(|file| self.path.with_extension(file))
    }

    /// The path of the producers' snapshot where the segment begins.
    pub(crate) fn snapshot(&self) -> PathBuf {
        self.path.with_extension("snapshot")
    }
}

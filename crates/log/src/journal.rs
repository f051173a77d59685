//! The second form of a log: batches appended one at a time, each on the disk before it counts. The
//! broker keeps the metadata of a cluster in it.
//!
//! A [`Writer`](crate::Writer) acknowledges from memory and truncates damage when it opens a log,
//! because other replicas may have the records. A journal has no replica: it truncates only a torn
//! last batch, which was never acknowledged, and other damage is an error. It is small and read
//! from its beginning, so it has no index; Kafka builds one when it takes over the directory.

#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use levada_base::batch::{BatchView, HEADER_LEN, PREFIX_LEN, check_stored};
use rustix::io::Errno;

use crate::disk::{Disk, is_full};
use crate::segment::file_name;
use crate::{LogError, OFFSET_MAX};

/// The offset after a batch; none where no batch can be.
pub fn end_of(batch: &BatchView<'_>) -> Option<i64> {
    let end = batch.base_offset().checked_add(i64::from(batch.last_offset_delta()) + 1);
    end.filter(|end| batch.base_offset() >= 0 && *end <= OFFSET_MAX)
}

/// A journal, open for appending. It has one owner, and blocks.
#[derive(Debug)]
pub struct Journal {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    path: PathBuf,
    file: File,
    size_bytes: u64,
    end_offset: i64,
    limits: SegmentLimits,
    /// Timestamp of the last segment's first batch; none while the segment is empty.
    first_ms: Option<i64>,
    /// True if the next segment's file exists, perhaps without its name on the device.
    must_roll: bool,
    /// True if the contents of the file are unknown after a failure of the disk.
    in_doubt: bool,
}

/// Limits at which a segment ends.
#[derive(Clone, Copy, Debug)]
pub struct SegmentLimits {
    /// Maximum size of a segment, bytes.
    pub bytes: u64,
    /// The longest time between the timestamps of a segment's first batch and of another of its
    /// batches.
    pub ms: i64,
}

/// Bytes at the log's end that were being written when the process or machine stopped.
#[derive(Clone, Debug, PartialEq)]
pub struct TornTail {
    /// File of the segment.
    pub path: PathBuf,
    /// End of its last whole batch.
    pub position: u64,
    /// Number of bytes that were cut off.
    pub len_bytes: u64,
}

impl Journal {
    /// Creates an empty log unless there is one; it is durable once the caller has synced `dir`.
    /// Blocks.
    ///
    /// # Errors
    /// The disk's.
    pub fn create(disk: &dyn Disk, dir: &Path) -> Result<(), LogError> {
        if segments(disk, dir)?.is_empty() {
            create(disk, &segment_path(dir, 0))?;
        }
        Ok(())
    }

    /// Opens the log in `dir`, hands every batch from `start_offset` on to `visit`, and cuts a torn
    /// tail. Segments end by `limits`. A log that does not exist begins at `start_offset`. Blocks.
    ///
    /// # Errors
    /// The disk's; damage anywhere but in a torn last batch, which leaves everything as it is;
    /// those of `visit`.
    pub fn open<E: From<LogError>>(
        disk: &Arc<dyn Disk>,
        dir: &Path,
        (start_offset, limits): (i64, SegmentLimits),
        mut visit: impl FnMut(&BatchView<'_>) -> Result<(), E>,
    ) -> Result<(Self, Option<TornTail>), E> {
        let mut segments = needed(segments(&**disk, dir)?, start_offset);
        if start_offset > OFFSET_MAX {
            let detail = format!("a snapshot at offset {start_offset}, beyond the largest possible offset");
            return Err(LogError::corrupt(dir, detail).into());
        }
        if segments.is_empty() {
            let path = segment_path(dir, start_offset);
            create(&**disk, &path)?;
            disk.sync_dir(dir).map_err(|source| LogError::io("sync", dir, source))?;
            segments.push((start_offset, path));
        }
        let last = segments.len() - 1;
        let mut end_offset = segments[0].0.max(0);
        if end_offset > start_offset {
            let detail = format!("the log begins at offset {end_offset}, but is needed from {start_offset}");
            return Err(LogError::corrupt(&segments[0].1, detail).into());
        }
        let mut torn = None;
        let (mut size_bytes, mut first_ms) = (0, None);
        for (index, (base_offset, path)) in segments.iter().enumerate() {
            if *base_offset != end_offset {
                let detail = format!("offsets {end_offset} to {base_offset} are missing before it");
                return Err(LogError::corrupt(path, detail).into());
            }
            let mut scan = Scan { disk: &**disk, path, end_offset, position: 0 };
            let found = scan.run(index == last, |batch| {
                if index == last {
                    first_ms.get_or_insert(batch.max_timestamp());
                }
                if batch.last_offset() < start_offset { Ok(()) } else { visit(batch) }
            })?;
            (end_offset, size_bytes) = (scan.end_offset, scan.position);
            torn = found;
        }
        let path = segments.swap_remove(last).1;
        if end_offset < start_offset {
            let detail =
                format!("the log ends at offset {end_offset}, before its snapshot at {start_offset}");
            return Err(LogError::corrupt(&path, detail).into());
        }
        let file = disk.open(&path).map_err(|source| LogError::io("open", &path, source))?;
        if torn.is_some() {
            let cut = disk.truncate(&file, &path, size_bytes).and_then(|()| disk.sync(&file, &path));
            cut.map_err(|source| LogError::io("cut the torn tail of", &path, source))?;
        }
        let (disk, dir) = (disk.clone(), dir.to_owned());
        let journal = Self {
            disk,
            dir,
            path,
            file,
            size_bytes,
            end_offset,
            limits,
            first_ms,
            must_roll: false,
            in_doubt: false,
        };
        Ok((journal, torn))
    }

    /// The offset that the next record will have.
    pub fn end_offset(&self) -> i64 {
        self.end_offset
    }

    /// Writes the batches of one change, the first of which begins at [`Journal::end_offset`], and
    /// waits for each until it is on the disk: each batch is written after a whole one, which
    /// distinguishes a torn batch from damage. If the disk is full, or a file cannot be made for
    /// lack of descriptors or memory, nothing is written; after any other error the contents of the
    /// disk are unknown, see [`Journal::is_in_doubt`]. Blocks.
    ///
    /// # Errors
    /// The disk's.
    ///
    /// # Panics
    /// If the batches are not whole, or do not follow the log and one another.
    pub fn append(&mut self, batches: &[Bytes]) -> Result<(), LogError> {
        if self.must_roll || self.is_roll_due(batches) {
            self.roll()?;
        }
        let (size_bytes, end_offset, first_ms) = (self.size_bytes, self.end_offset, self.first_ms);
        batches.iter().try_for_each(|batch| self.append_one(batch, size_bytes)).inspect_err(|_| {
            (self.size_bytes, self.end_offset, self.first_ms) = (size_bytes, end_offset, first_ms);
        })
    }

    /// True if the batches would make the segment too large, or are much later than its first one.
    fn is_roll_due(&self, batches: &[Bytes]) -> bool {
        let len_bytes: u64 = batches.iter().map(|batch| batch.len() as u64).sum();
        let is_late = |first_ms: i64| {
            let latest_ms = batches.iter().map(|batch| view(batch).max_timestamp()).max();
            latest_ms.is_some_and(|latest_ms| latest_ms.saturating_sub(first_ms) > self.limits.ms)
        };
        self.size_bytes > 0
            && (self.size_bytes + len_bytes > self.limits.bytes || self.first_ms.is_some_and(is_late))
    }

    /// Writes one batch of a change that began at the position `began`; after an error without
    /// doubt the journal returns to this position.
    fn append_one(&mut self, batch: &Bytes, began: u64) -> Result<(), LogError> {
        let view = view(batch);
        assert_eq!(view.base_offset(), self.end_offset, "a batch follows the log, {}", self.path.display());
        let parts = &mut [IoSlice::new(batch)];
        if let Err(source) = self.disk.write_at(&self.file, &self.path, parts, self.size_bytes) {
            let mut cut = self.disk.truncate(&self.file, &self.path, began);
            if began < self.size_bytes {
                // Otherwise whole batches of this change might be found after the next batch, if
                // that is torn.
                cut = cut.and_then(|()| self.disk.sync(&self.file, &self.path));
            }
            return Err(self.give_up(leaves_no_doubt(&source) && cut.is_ok(), source));
        }
        if let Err(source) = self.disk.sync(&self.file, &self.path) {
            return Err(self.give_up(false, source));
        }
        self.first_ms.get_or_insert(view.max_timestamp());
        self.size_bytes += batch.len() as u64;
        self.end_offset = view.last_offset() + 1;
        Ok(())
    }

    /// True if it is unknown what the file contains after an error: the journal must not be used
    /// again.
    pub fn is_in_doubt(&self) -> bool {
        self.in_doubt
    }

    fn give_up(&mut self, undone: bool, source: io::Error) -> LogError {
        self.in_doubt |= !undone;
        LogError::io("append to", &self.path, source)
    }

    /// Continues in a new segment, unless this segment is empty. Blocks.
    ///
    /// # Errors
    /// An error of the disk; the log continues in this segment, or in the next, empty one.
    pub fn begin_segment(&mut self) -> Result<(), LogError> {
        if self.size_bytes == 0 { Ok(()) } else { self.roll() }
    }

    /// Begins the next segment. Once its file exists, this segment gets no more appends, even after
    /// a failure: the next attempt, or the next start, finds an empty file at the log's end.
    fn roll(&mut self) -> Result<(), LogError> {
        let path = segment_path(&self.dir, self.end_offset);
        let made = match self.disk.create(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => self.disk.open(&path),
            made => made,
        };
        self.must_roll |= made.is_ok();
        let file = made.and_then(|file| self.disk.sync_dir(&self.dir).map(|()| file)).map_err(|source| {
            self.in_doubt |= !leaves_no_doubt(&source);
            LogError::io("create", &path, source)
        })?;
        self.file = file;
        self.path = path;
        (self.size_bytes, self.first_ms) = (0, None);
        self.must_roll = false;
        Ok(())
    }
}

fn view(batch: &[u8]) -> BatchView<'_> {
    BatchView::parse(batch).unwrap_or_else(|error| panic!("a journal takes whole batches: {error}"))
}

/// True if an operation failed for lack of a resource that may become free: nothing was done, and a
/// retry may succeed.
fn leaves_no_doubt(error: &io::Error) -> bool {
    let scarce = [Errno::MFILE, Errno::NFILE, Errno::NOMEM];
    is_full(error) || scarce.iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

/// Reads one segment from its beginning.
struct Scan<'a> {
    disk: &'a dyn Disk,
    path: &'a Path,
    end_offset: i64,
    position: u64,
}

impl Scan<'_> {
    fn run<E: From<LogError>>(
        &mut self,
        may_be_torn: bool,
        mut visit: impl FnMut(&BatchView<'_>) -> Result<(), E>,
    ) -> Result<Option<TornTail>, E> {
        // A segment is read whole: its length comes from the file system, not from a batch.
        let bytes =
            self.disk.read_file(self.path).map_err(|source| LogError::io("read", self.path, source))?;
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let found = check_stored(rest);
            // The checksum does not cover the base offset, which a torn write may have left zero.
            let is_whole = found.as_ref().is_ok_and(|batch| batch.base_offset() >= self.end_offset);
            if !is_whole && may_be_torn && !batch_follows(rest, self.end_offset) {
                return Ok(Some(TornTail {
                    path: self.path.to_owned(),
                    position: self.position,
                    len_bytes: rest.len() as u64,
                }));
            }
            let batch = found.map_err(|error| self.damaged(&error.to_string()))?;
            if batch.base_offset() != self.end_offset {
                let detail =
                    format!("a batch begins at offset {}, not {}", batch.base_offset(), self.end_offset);
                return Err(self.damaged(&detail).into());
            }
            let Some(end_offset) = end_of(&batch) else {
                return Err(self.damaged("a batch ends beyond the largest possible offset").into());
            };
            visit(&batch)?;
            self.end_offset = end_offset;
            self.position += batch.bytes().len() as u64;
            rest = &rest[batch.bytes().len()..];
        }
        Ok(None)
    }

    fn damaged(&self, detail: &str) -> LogError {
        let detail = format!("at position {} (offset {}): {detail}", self.position, self.end_offset);
        LogError::corrupt(self.path, detail)
    }
}

/// True if a whole batch exists anywhere after a damaged position. Batches are synced one by one,
/// so only the last can be torn: if another one follows, the damage has another cause, and a
/// truncation would lose acknowledged records.
fn batch_follows(bytes: &[u8], after: i64) -> bool {
    (1..bytes.len().saturating_sub(HEADER_LEN)).any(|position| {
        // The format byte first: looking at everything else for each position would take long.
        bytes[position + PREFIX_LEN + 4] == 2
            && check_stored(&bytes[position..]).is_ok_and(|batch| batch.base_offset() > after)
    })
}

/// Reads a finished file of whole batches, such as a snapshot, and hands each to `visit`. Blocks.
///
/// # Errors
/// The file cannot be read, has bytes that are not a batch, or `visit` fails.
pub fn read_batches<E: From<LogError>>(
    disk: &dyn Disk,
    path: &Path,
    mut visit: impl FnMut(&BatchView<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let bytes = disk.read_file(path).map_err(|source| LogError::io("read", path, source))?;
    let mut position = 0;
    while position < bytes.len() {
        let damaged = |error| LogError::corrupt(path, format!("at position {position}: {error}"));
        let batch = check_stored(&bytes[position..]).map_err(damaged)?;
        visit(&batch)?;
        position += batch.bytes().len();
    }
    Ok(())
}

/// Segments that contain records from `start_offset` on. Earlier segments may be incomplete,
/// because their removal may have begun.
pub fn needed(mut segments: Vec<(i64, PathBuf)>, start_offset: i64) -> Vec<(i64, PathBuf)> {
    let first = segments.iter().rposition(|(base, _)| *base <= start_offset);
    segments.split_off(first.unwrap_or(0))
}

/// The segments of the journal in `dir`, by base offset. Blocks.
///
/// # Errors
/// The directory cannot be listed.
pub fn segments(disk: &dyn Disk, dir: &Path) -> Result<Vec<(i64, PathBuf)>, LogError> {
    let entries = disk.list(dir).map_err(|source| LogError::io("list", dir, source))?;
    let mut found = Vec::new();
    for path in entries.into_iter().map(|entry| entry.path) {
        if path.extension().is_some_and(|extension| extension == "log") {
            let base_offset = path.file_stem().and_then(|stem| stem.to_str()?.parse().ok());
            found.extend(base_offset.map(|base_offset| (base_offset, path)));
        }
    }
    found.sort_unstable();
    Ok(found)
}

fn segment_path(dir: &Path, base_offset: i64) -> PathBuf {
    dir.join(file_name(base_offset, ".log"))
}

fn create(disk: &dyn Disk, path: &Path) -> Result<File, LogError> {
    disk.create(path).map_err(|source| LogError::io("create", path, source))
}

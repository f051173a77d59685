//! The transaction index: the aborted transactions whose markers are in a segment. Entries of 34
//! bytes in a plain file that exists from the first entry on; layout in `docs/format/txn-index.md`.

use std::fs::File;
use std::io::{self, IoSlice};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use crate::LogError;
use crate::disk::{At, Disk, ReadFiles};

#[cfg(test)]
mod tests;

pub(crate) const WIDTH: usize = 34;
const _: () = assert!(WIDTH == 2 + 4 * 8, "a version and four offsets");
const VERSION: i16 = 0;
/// Value for the unknown count of an index that has not been read yet.
const UNKNOWN: usize = usize::MAX;
/// Entries of the first read of a search, and of each later one if it skips more: those that ended
/// while an earlier transaction was open.
const READ_FIRST: usize = 8;
const READ_MAX: usize = 256;

/// One aborted transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Aborted {
    pub(crate) producer_id: i64,
    pub(crate) first_offset: i64,
    /// Offset of the transaction's marker.
    pub(crate) last_offset: i64,
    /// The log's last stable offset once the marker was written.
    pub(crate) last_stable: i64,
}

/// Appended by the writer, read by anyone without a lock. Last offsets ascend.
#[derive(Debug)]
pub(crate) struct TxnIndex {
    path: PathBuf,
    count: AtomicUsize,
    file: OnceLock<Arc<File>>,
}

impl TxnIndex {
    /// An index without entries, and without a file.
    pub(crate) fn none(path: PathBuf) -> Self {
        Self { path, count: AtomicUsize::new(0), file: OnceLock::new() }
    }

    /// An index that may be on disk; not touched before it is needed.
    pub(crate) fn on_disk(path: PathBuf) -> Self {
        Self { path, count: AtomicUsize::new(UNKNOWN), file: OnceLock::new() }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Number of entries. Opens the file, if there is one.
    pub(crate) fn count(&self, disk: &dyn ReadFiles) -> Result<usize, LogError> {
        let known = self.count.load(Ordering::Acquire);
        if known != UNKNOWN {
            return Ok(known);
        }
        let count = match disk.open(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
            Err(error) => return Err(LogError::io("open", &self.path, error)),
            Ok(file) => {
                let len = file.metadata().at("look at", &self.path)?.len();
                self.file.get_or_init(|| Arc::new(file));
                usize::try_from(len).unwrap_or(0) / WIDTH
            }
        };
        // The writer may have appended since.
        let _ = self.count.compare_exchange(UNKNOWN, count, Ordering::AcqRel, Ordering::Acquire);
        Ok(self.count.load(Ordering::Acquire))
    }

    /// Creates the file if it does not exist yet; returns true if it did not exist. Called only by
    /// the writer, before [`TxnIndex::append`].
    pub(crate) fn prepare(&self, disk: &dyn Disk) -> Result<bool, LogError> {
        self.count(disk)?;
        let created = self.file.get().is_none();
        if created {
            let file = disk.create(&self.path).at("create", &self.path)?;
            self.file.get_or_init(|| Arc::new(file));
        }
        Ok(created)
    }

    /// Appends entries to an existing file, and publishes them. Called only by the writer.
    ///
    /// # Errors
    /// A failing disk. If it is full, the file is as before.
    pub(crate) fn append(&self, disk: &dyn Disk, entries: &[Aborted]) -> Result<(), LogError> {
        let (count, path) = (self.count(disk)?, &self.path);
        let file = self.file.get().expect("the file was opened with the count, or prepared");
        let (bytes, end) = (Self::file_of(entries), (count * WIDTH) as u64);
        if let Err(error) = disk.write_at(file, path, &mut [IoSlice::new(&bytes)], end) {
            // The next opening would read the remains as entries.
            let cut =
                disk.truncate(file, path, end).map_err(|cut| io::Error::other(format!("{error}; {cut}")));
            return cut.and(Err(error)).at("write", path);
        }
        self.count.store(count + entries.len(), Ordering::Release);
        Ok(())
    }

    /// The bytes of an index file with these entries.
    pub(crate) fn file_of(entries: &[Aborted]) -> Vec<u8> {
        entries.iter().flat_map(Aborted::encode).collect()
    }

    /// Replaces the entries, in a new file if that on disk has others, or in no file if there are
    /// none.
    pub(crate) fn with_entries(self, disk: &dyn Disk, entries: &[Aborted]) -> Result<Self, LogError> {
        let len = disk.len(&self.path).unwrap_or(0);
        let same =
            len == (entries.len() * WIDTH) as u64 && self.entries(disk).is_ok_and(|have| have == entries);
        if same {
            return Ok(self);
        }
        crate::disk::remove_if_there(disk, &self.path)?;
        let index = Self::none(self.path);
        if !entries.is_empty() {
            index.prepare(disk)?;
            index.append(disk, entries)?;
        }
        Ok(index)
    }

    /// All entries.
    pub(crate) fn entries(&self, disk: &dyn ReadFiles) -> Result<Vec<Aborted>, LogError> {
        let (count, mut all) = (self.count(disk)?, Vec::new());
        for slot in (0..count).step_by(READ_MAX) {
            all.extend(self.range(disk, slot..count.min(slot + READ_MAX))?);
        }
        Ok(all)
    }

    /// Adds the transactions that overlap `from..upto`; returns true if no later segment can have
    /// more of them.
    pub(crate) fn overlapping(
        &self,
        disk: &dyn ReadFiles,
        (from, upto): (i64, i64),
        into: &mut Vec<Aborted>,
    ) -> Result<bool, LogError> {
        let count = self.count(disk)?;
        let (mut slot, mut after) = (0, count);
        while slot < after {
            let middle = slot.midpoint(after);
            if self.entry(disk, middle)?.last_offset < from { slot = middle + 1 } else { after = middle }
        }
        let mut step = READ_FIRST;
        while slot < count {
            let next = count.min(slot + step);
            for entry in self.range(disk, slot..next)? {
                if entry.first_offset < upto {
                    into.push(entry);
                }
                if entry.last_stable >= upto {
                    return Ok(true);
                }
            }
            (slot, step) = (next, READ_MAX);
        }
        Ok(false)
    }

    /// Waits until the entries are on the device, if there are any that this process may have
    /// written.
    pub(crate) fn sync(&self, disk: &dyn Disk) -> Result<(), LogError> {
        match self.file.get() {
            Some(file) => disk.sync(file, &self.path).at("sync", &self.path),
            None => Ok(()),
        }
    }

    fn entry(&self, disk: &dyn ReadFiles, slot: usize) -> Result<Aborted, LogError> {
        Ok(self.range(disk, slot..slot + 1)?[0])
    }

    /// The entries in these slots, one for each. Reads them together.
    fn range(&self, disk: &dyn ReadFiles, slots: Range<usize>) -> Result<Vec<Aborted>, LogError> {
        debug_assert!(slots.len() <= READ_MAX, "{slots:?} of {}", self.path.display());
        let mut bytes = vec![0; slots.len() * WIDTH];
        let read = match self.file.get() {
            Some(file) => disk.read_at(file, &self.path, &mut bytes, (slots.start * WIDTH) as u64),
            None => Ok(0),
        };
        let (whole, _) = bytes[..read.at("read", &self.path)?].as_chunks::<WIDTH>();
        let entry = |slot: usize| {
            let decoded = whole.get(slot - slots.start).and_then(Aborted::decode);
            decoded.ok_or_else(|| LogError::corrupt(&self.path, format!("entry {slot} is none")))
        };
        slots.clone().map(entry).collect()
    }
}

impl Aborted {
    fn encode(&self) -> [u8; WIDTH] {
        let mut bytes = [0; WIDTH];
        bytes[..2].copy_from_slice(&VERSION.to_be_bytes());
        let fields = [self.producer_id, self.first_offset, self.last_offset, self.last_stable];
        for (at, field) in (2..).step_by(8).zip(fields) {
            bytes[at..at + 8].copy_from_slice(&field.to_be_bytes());
        }
        bytes
    }

    pub(crate) fn decode(bytes: &[u8; WIDTH]) -> Option<Self> {
        let field = |at: usize| i64::from_be_bytes(bytes[at..at + 8].try_into().expect("eight of 34 bytes"));
        let version = i16::from_be_bytes([bytes[0], bytes[1]]);
        (version == VERSION).then(|| Self {
            producer_id: field(2),
            first_offset: field(10),
            last_offset: field(18),
            last_stable: field(26),
        })
    }
}

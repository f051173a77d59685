//! The mapped file under both indexes: fixed-width entries, appended by the writer, read by anyone
//! without a lock.
//!
//! An index file grows with use. It has no length until its first entry; then it gets its full
//! length as a sparse file and real blocks 16 KiB at a time, reserved before the mapping touches
//! them, so that a full disk is an error of the append and never a signal; a thousand quiet
//! partitions occupy nothing. It is cut to its entries when its segment is sealed or closed. An
//! index is a hint that can be rebuilt from the log.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use arc_swap::{ArcSwapOption, Guard};
use levada_io::map::FileMap;
use parking_lot::Mutex;
use rustix::io::Errno;

use crate::LogError;
use crate::disk::{At, Disk, ReadFiles};

mod offset;
mod sorted;
mod time;
mod txn;

pub(crate) use offset::{OffsetEntry, OffsetIndex};
pub(crate) use time::{TimeEntry, TimeIndex};
pub(crate) use txn::{Aborted, TxnIndex, WIDTH as TXN_WIDTH};

/// Blocks are reserved in steps of this many bytes.
const RESERVE: u64 = 16 * 1024;
/// Blocks and pages of a file system.
const PAGE: u64 = 4096;
const _: () = assert!(RESERVE.is_multiple_of(PAGE), "a reservation ends where a page does");
/// Value for the unknown count of an index that has not been read yet.
const UNKNOWN: usize = usize::MAX;

/// Entries of one width in one file.
#[derive(Debug)]
pub(crate) struct Entries {
    path: PathBuf,
    width: usize,
    count: AtomicUsize,
    map: ArcSwapOption<FileMap>,
    reserved: AtomicU64,
    // Held while the file is mapped or grown; never by a lookup in a mapped index.
    growing: Mutex<()>,
}

/// The entries that were published when the view was created; one lookup uses one view.
pub(crate) struct View<'a> {
    map: Guard<Option<Arc<FileMap>>>,
    path: &'a Path,
    pub(crate) count: usize,
}

impl View<'_> {
    /// Value read through the view, unless the mapping was lost: then it may be zeroes.
    pub(crate) fn unless_lost<T>(&self, value: T) -> Result<T, LogError> {
        if self.map().is_some_and(FileMap::is_lost) {
            Err(LogError::Lost { path: self.path.to_owned() })
        } else {
            Ok(value)
        }
    }

    pub(crate) fn map(&self) -> Option<&FileMap> {
        self.map.as_deref()
    }
}

impl Entries {
    /// An index without entries; its file is created empty.
    pub(crate) fn create(disk: &dyn Disk, path: PathBuf, width: usize) -> Result<Self, LogError> {
        disk.write_file(&path, &[]).at("create", &path)?;
        Ok(Self::with_count(path, width, 0))
    }

    /// An index on disk; not touched before it is needed.
    pub(crate) fn on_disk(path: PathBuf, width: usize) -> Self {
        Self::with_count(path, width, UNKNOWN)
    }

    fn with_count(path: PathBuf, width: usize, count: usize) -> Self {
        // A mapping is read in words of four bytes.
        assert!(width > 0 && width.is_multiple_of(4), "entries of {width} bytes");
        let (map, reserved) = (ArcSwapOption::empty(), AtomicU64::new(0));
        Self { path, width, count: AtomicUsize::new(count), map, reserved, growing: Mutex::new(()) }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes of all entries.
    pub(crate) fn size_bytes(&self, disk: &dyn ReadFiles) -> Result<u64, LogError> {
        Ok((self.view(disk)?.count * self.width) as u64)
    }

    /// Removes the file, because a new file is about to get its name. Existing mappings stay valid.
    fn replaced(self, disk: &dyn Disk) -> Result<PathBuf, LogError> {
        crate::disk::remove_if_there(disk, &self.path)?;
        Ok(self.path)
    }

    /// The published entries; maps the file first if it is not mapped.
    pub(crate) fn view(&self, disk: &dyn ReadFiles) -> Result<View<'_>, LogError> {
        let mut count = self.count.load(Ordering::Acquire);
        if count == UNKNOWN {
            count = self.load(disk)?;
        }
        Ok(View { map: self.map.load(), path: &self.path, count })
    }

    fn load(&self, disk: &dyn ReadFiles) -> Result<usize, LogError> {
        let _growing = self.growing.lock();
        let known = self.count.load(Ordering::Acquire);
        if known != UNKNOWN {
            return Ok(known);
        }
        let file = match disk.open(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.count.store(0, Ordering::Release);
                return Ok(0);
            }
            other => other.at("open", &self.path)?,
        };
        let len = file.metadata().at("look at", &self.path)?.len();
        let slots = usize::try_from(len).unwrap_or(0) / self.width;
        let mut count = 0;
        if slots > 0 {
            let map = FileMap::open(&file, slots * self.width).at("map", &self.path)?;
            count = self.count_used(&map, slots);
            if map.is_lost() {
                return Err(LogError::Lost { path: self.path.clone() });
            }
            self.map.store(Some(Arc::new(map)));
        }
        self.count.store(count, Ordering::Release);
        Ok(count)
    }

    /// An index that was not cut to its entries ends in zeroes, which no entry consists of: the
    /// first batch of a segment has none.
    fn count_used(&self, map: &FileMap, slots: usize) -> usize {
        let used =
            |slot: usize| (0..self.width / 4).any(|word| map.read_u32_be(slot * self.width + word * 4) != 0);
        // A file of one entry has been cut to it, even if that entry is the timestamp 0 of offset
        // 0.
        if slots == 1 || used(slots - 1) {
            return slots;
        }
        let (mut low, mut high) = (0, slots - 1);
        while low < high {
            let middle = low.midpoint(high);
            if used(middle) { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// Appends an entry and publishes it. `capacity` is the limit of the index. Called only by the
    /// writer.
    pub(crate) fn append(&self, disk: &dyn Disk, entry: &[u8], capacity: usize) -> Result<(), LogError> {
        let count = self.view(disk)?.count;
        let position = count * self.width;
        debug_assert_eq!(entry.len(), self.width, "an entry of {}", self.path.display());
        let mapped = self.map.load().as_deref().map_or(0, FileMap::len);
        let end = position + self.width;
        if mapped < end || self.reserved.load(Ordering::Relaxed) < end as u64 {
            self.grow(disk, position, capacity.max(count + 1) * self.width)?;
        }
        let map = self.map.load();
        let map = map.as_deref().ok_or_else(|| LogError::corrupt(&self.path, "index is not mapped"))?;
        map.write_bytes(position, entry);
        if map.is_lost() {
            return Err(LogError::Lost { path: self.path.clone() });
        }
        self.count.store(count + 1, Ordering::Release);
        Ok(())
    }

    fn grow(&self, disk: &dyn Disk, position: usize, full: usize) -> Result<(), LogError> {
        let _growing = self.growing.lock();
        let file = disk.open(&self.path).at("open", &self.path)?;
        let mapped = self.map.load().as_deref().map_or(0, FileMap::len);
        let full = full.max(mapped);
        if file.metadata().at("look at", &self.path)?.len() < full as u64 {
            disk.truncate(&file, &self.path, full as u64).at("grow", &self.path)?;
        }
        let start = position as u64 / PAGE * PAGE;
        let reserve = RESERVE.min(full as u64 - start);
        disk.allocate(&file, &self.path, start, reserve).at("allocate", &self.path)?;
        if mapped < full {
            let map = FileMap::open(&file, full).at("map", &self.path)?;
            self.map.store(Some(Arc::new(map)));
        }
        self.reserved.store(start + reserve, Ordering::Relaxed);
        Ok(())
    }

    /// True if nothing but zeroes follows the entries, so that the file may be appended to.
    pub(crate) fn ends_in_zeroes(&self, disk: &dyn ReadFiles) -> Result<bool, LogError> {
        let view = self.view(disk)?;
        let Some(map) = view.map() else { return Ok(true) };
        let end = view.count * self.width;
        let page_end = map.len().min(end.next_multiple_of(4096));
        if (end..page_end).step_by(4).any(|at| at + 4 <= page_end && map.read_u32_be(at) != 0) {
            return Ok(false);
        }
        let file = disk.open(&self.path).at("open", &self.path)?;
        if file.metadata().at("look at", &self.path)?.len() <= page_end as u64 {
            return Ok(true);
        }
        // Blocks that were reserved and never written to count as holes.
        Ok(rustix::fs::seek(&file, rustix::fs::SeekFrom::Data(page_end as u64)) == Err(Errno::NXIO))
    }

    /// Truncates the file to its entries. Readers are not disturbed: none reads beyond the
    /// published count.
    pub(crate) fn trim(&self, disk: &dyn Disk) -> Result<(), LogError> {
        let count = self.count.load(Ordering::Acquire);
        if count == UNKNOWN || self.reserved.swap(0, Ordering::Relaxed) == 0 {
            return Ok(());
        }
        self.cut(disk, count)
    }

    /// Like [`Entries::trim`], for a file that another process may have left longer.
    pub(crate) fn trim_leftover(&self, disk: &dyn Disk) -> Result<(), LogError> {
        self.reserved.store(0, Ordering::Relaxed);
        let count = self.view(disk)?.count;
        match disk.len(&self.path) {
            Ok(len) if len != (count * self.width) as u64 => self.cut(disk, count),
            _ => Ok(()),
        }
    }

    fn cut(&self, disk: &dyn Disk, count: usize) -> Result<(), LogError> {
        let file = disk.open(&self.path).at("open", &self.path)?;
        disk.truncate(&file, &self.path, (count * self.width) as u64).at("trim", &self.path)
    }

    /// Waits until the entries are on the device.
    pub(crate) fn sync(&self, disk: &dyn Disk) -> Result<(), LogError> {
        match disk.sync_file(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other.at("sync", &self.path),
        }
    }
}

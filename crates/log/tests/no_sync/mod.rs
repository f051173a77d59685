//! The real disk, but nothing waits for the device; and the moment from which nothing reaches it
//! any more.

use std::fs::File;
use std::io::{self, IoSlice};
use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::SystemTime;

use levada_io::map::WriteMap;
use levada_log::disk::{Disk, ReadFiles, RealDisk};

/// The real disk without syncs, and with a limit on changes.
#[derive(Debug)]
pub(crate) struct NoSyncDisk {
    /// After this number of changes each further one fails, as if the process had ended.
    pub(crate) changes_left: AtomicI64,
}

impl Default for NoSyncDisk {
    fn default() -> Self {
        Self { changes_left: i64::MAX.into() }
    }
}

impl NoSyncDisk {
    fn change(&self) -> io::Result<()> {
        match self.changes_left.fetch_sub(1, Ordering::Relaxed) {
            1.. => Ok(()),
            _ => Err(io::Error::other("the process is no more")),
        }
    }
}

impl ReadFiles for NoSyncDisk {}

impl Disk for NoSyncDisk {
    fn create(&self, path: &Path) -> io::Result<File> {
        self.change().and_then(|()| RealDisk.create(path))
    }

    fn write_file(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.change().and_then(|()| RealDisk.write_file(path, bytes))
    }

    fn write_at(&self, file: &File, path: &Path, parts: &mut [IoSlice<'_>], at: u64) -> io::Result<()> {
        self.change().and_then(|()| RealDisk.write_at(file, path, parts, at))
    }

    fn copy(&self, from: &File, path: &Path, into: (&File, &Path), len: u64) -> io::Result<()> {
        self.change().and_then(|()| RealDisk.copy(from, path, into, len))
    }

    fn truncate(&self, file: &File, path: &Path, len: u64) -> io::Result<()> {
        self.change().and_then(|()| RealDisk.truncate(file, path, len))
    }

    fn allocate(&self, file: &File, path: &Path, position: u64, len: u64) -> io::Result<()> {
        self.change().and_then(|()| RealDisk.allocate(file, path, position, len))
    }

    fn write_mapped(&self, map: &mut WriteMap, path: &Path, bytes: &[u8], at: u64) -> io::Result<()> {
        self.change().and_then(|()| RealDisk.write_mapped(map, path, bytes, at))
    }

    fn set_modified(&self, file: &File, path: &Path, time: SystemTime) -> io::Result<()> {
        RealDisk.set_modified(file, path, time)
    }

    fn sync(&self, _: &File, _: &Path) -> io::Result<()> {
        self.change()
    }

    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        self.change()
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.change().and_then(|()| RealDisk.rename(from, to))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.change().and_then(|()| RealDisk.remove(path))
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.change().and_then(|()| RealDisk.create_dir(path))
    }

    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        self.change().and_then(|()| RealDisk.remove_dir(dir))
    }

    fn protect(&self, path: &Path) -> io::Result<()> {
        self.change().and_then(|()| RealDisk.protect(path))
    }

    fn sync_file(&self, _: &Path) -> io::Result<()> {
        self.change()
    }
}

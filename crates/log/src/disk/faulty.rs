//! A disk for tests: the real one, with a record of all operations, and injected failures.

use std::fs::File;
use std::io::{self, IoSlice};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use levada_io::map::WriteMap;
use parking_lot::Mutex;

use super::{Disk, ReadFiles, RealDisk};

/// Operations are named as the trait names them, files by the end of their name.
#[derive(Debug, Default)]
pub(crate) struct FaultyDisk {
    failing: Mutex<Option<(&'static str, &'static str, i32)>>,
    ending: Mutex<Option<(&'static str, u32)>>,
    done: Mutex<Vec<String>>,
    read_bytes: AtomicU64,
}

impl FaultyDisk {
    /// Makes an operation fail on files whose names end with this suffix.
    pub(crate) fn fail(&self, operation: &'static str, suffix: &'static str, errno: i32) {
        *self.failing.lock() = Some((operation, suffix, errno));
    }

    /// Makes an operation fail after this number of successes.
    pub(crate) fn fail_after(&self, operation: &'static str, times: u32) {
        *self.ending.lock() = Some((operation, times));
    }

    pub(crate) fn heal(&self) {
        *self.failing.lock() = None;
    }

    /// Operations since the last call, without reads.
    pub(crate) fn take_done(&self) -> Vec<String> {
        std::mem::take(&mut self.done.lock())
    }

    /// Bytes read since the last call.
    pub(crate) fn take_read_bytes(&self) -> u64 {
        self.read_bytes.swap(0, Ordering::Relaxed)
    }

    /// The failure that an operation on this file is to have.
    fn injected(&self, operation: &'static str, path: &Path) -> io::Result<()> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        match *self.failing.lock() {
            Some((failing, suffix, errno)) if failing == operation && name.ends_with(suffix) => {
                Err(io::Error::from_raw_os_error(errno))
            }
            _ => Ok(()),
        }
    }

    fn ask(&self, operation: &'static str, path: &Path) -> io::Result<()> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if let Some((_, times)) = self.ending.lock().as_mut().filter(|(ending, _)| *ending == operation) {
            match times.checked_sub(1) {
                Some(rest) => *times = rest,
                None => return Err(io::Error::from_raw_os_error(5)),
            }
        }
        self.injected(operation, path)?;
        self.done.lock().push(format!("{operation} {name}"));
        Ok(())
    }
}

impl ReadFiles for FaultyDisk {
    fn open(&self, path: &Path) -> io::Result<File> {
        self.injected("open", path).and_then(|()| RealDisk.open(path))
    }

    fn read_cached(&self, file: &File, path: &Path, into: &mut [u8], position: u64) -> io::Result<usize> {
        self.injected("read_cached", path).and_then(|()| self.read_at(file, path, into, position))
    }

    fn read_at(&self, file: &File, path: &Path, into: &mut [u8], position: u64) -> io::Result<usize> {
        let read = RealDisk.read_at(file, path, into, position)?;
        self.read_bytes.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

impl Disk for FaultyDisk {
    fn create(&self, path: &Path) -> io::Result<File> {
        self.ask("create", path).and_then(|()| RealDisk.create(path))
    }

    fn write_file(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.ask("write_file", path).and_then(|()| RealDisk.write_file(path, bytes))
    }

    fn write_at(&self, file: &File, path: &Path, parts: &mut [IoSlice<'_>], at: u64) -> io::Result<()> {
        if let Err(error) = self.ask("write_at", path) {
            // Part of it was written anyway.
            RealDisk.write_at(file, path, &mut [IoSlice::new(&[7; 9])], at)?;
            return Err(error);
        }
        RealDisk.write_at(file, path, parts, at)
    }

    fn copy(&self, from: &File, path: &Path, into: (&File, &Path), len: u64) -> io::Result<()> {
        self.ask("copy", path).and_then(|()| RealDisk.copy(from, path, into, len))
    }

    fn truncate(&self, file: &File, path: &Path, len: u64) -> io::Result<()> {
        self.ask("truncate", path).and_then(|()| RealDisk.truncate(file, path, len))
    }

    fn allocate(&self, file: &File, path: &Path, position: u64, len: u64) -> io::Result<()> {
        self.ask("allocate", path).and_then(|()| RealDisk.allocate(file, path, position, len))
    }

    fn write_mapped(&self, map: &mut WriteMap, path: &Path, bytes: &[u8], at: u64) -> io::Result<()> {
        self.ask("write_mapped", path).and_then(|()| RealDisk.write_mapped(map, path, bytes, at))
    }

    fn set_modified(&self, file: &File, path: &Path, time: SystemTime) -> io::Result<()> {
        RealDisk.set_modified(file, path, time)
    }

    fn sync(&self, _: &File, path: &Path) -> io::Result<()> {
        self.ask("sync", path)
    }

    fn drop_cached(&self, file: &File, path: &Path) {
        let asked = self.ask("drop_cached", path);
        asked.map(|()| RealDisk.drop_cached(file, path)).expect("nobody lets it fail");
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.ask("sync_dir", if dir.is_dir() { Path::new("") } else { dir })
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.ask("rename", to).and_then(|()| RealDisk.rename(from, to))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        RealDisk.remove(path)?;
        self.ask("remove", path)
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.ask("create_dir", path).and_then(|()| RealDisk.create_dir(path))
    }

    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        self.ask("remove_dir", dir).and_then(|()| RealDisk.remove_dir(dir))
    }

    fn protect(&self, path: &Path) -> io::Result<()> {
        RealDisk.protect(path)
    }

    fn sync_file(&self, path: &Path) -> io::Result<()> {
        self.ask("sync", path)
    }
}

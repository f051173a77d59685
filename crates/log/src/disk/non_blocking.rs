//! A disk whose reads never wait: for those who have somebody else wait for them.

use std::fs::File;
use std::io::{self, IoSlice};
use std::path::Path;
use std::time::SystemTime;

use super::{DirEntry, Disk};

/// Another disk, of whose bytes only those in the page cache can be read.
#[derive(Debug)]
pub(crate) struct NonBlockingReads<'a>(pub(crate) &'a dyn Disk);

impl Disk for NonBlockingReads<'_> {
    fn create(&self, path: &Path) -> io::Result<File> {
        self.0.create(path)
    }

    fn open(&self, path: &Path) -> io::Result<File> {
        self.0.open(path)
    }

    fn write_file(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.0.write_file(path, bytes)
    }

    fn read_file(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.0.read_file(path)
    }

    fn read_at(&self, file: &File, path: &Path, into: &mut [u8], position: u64) -> io::Result<usize> {
        self.0.read_cached(file, path, into, position)
    }

    fn waits(&self) -> bool {
        false
    }

    fn write_at(&self, file: &File, path: &Path, parts: &mut [IoSlice<'_>], at: u64) -> io::Result<()> {
        self.0.write_at(file, path, parts, at)
    }

    fn copy(&self, from: &File, path: &Path, into: (&File, &Path), len: u64) -> io::Result<()> {
        self.0.copy(from, path, into, len)
    }

    fn truncate(&self, file: &File, path: &Path, len: u64) -> io::Result<()> {
        self.0.truncate(file, path, len)
    }

    fn allocate(&self, file: &File, path: &Path, position: u64, len: u64) -> io::Result<()> {
        self.0.allocate(file, path, position, len)
    }

    fn set_modified(&self, file: &File, path: &Path, time: SystemTime) -> io::Result<()> {
        self.0.set_modified(file, path, time)
    }

    fn sync(&self, file: &File, path: &Path) -> io::Result<()> {
        self.0.sync(file, path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.0.sync_dir(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.0.remove(path)
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.0.create_dir(path)
    }

    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        self.0.remove_dir(dir)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        self.0.list(dir)
    }

    fn len(&self, path: &Path) -> io::Result<u64> {
        self.0.len(path)
    }

    fn protect(&self, path: &Path) -> io::Result<()> {
        self.0.protect(path)
    }

    fn sync_file(&self, path: &Path) -> io::Result<()> {
        self.0.sync_file(path)
    }
}

//! The lock that keeps two processes out of one data directory.

use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::FlockOperation;
use rustix::io::Errno;

use super::{FILE_MODE, regular_if_there};

/// Result of [`lock_to_read`].
#[derive(Debug)]
pub enum ReadLock {
    /// Ours for as long as the file is held.
    Held(File),
    /// No process ever locked the directory.
    Absent,
    /// Another process has it.
    Taken,
}

/// As [`lock`], for processes that write nothing: a missing file is not created.
///
/// # Errors
/// A failing disk.
pub fn lock_to_read(path: &Path) -> io::Result<ReadLock> {
    regular_if_there(path)?;
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(ReadLock::Absent),
        other => other?,
    };
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(ReadLock::Held(file)),
        Err(Errno::WOULDBLOCK) => Ok(ReadLock::Taken),
        Err(error) => Err(error.into()),
    }
}

/// Takes a data directory's lock, by a file of this name: `None` if another process has it. The
/// lock is held while the file is open; the kernel releases it when the process ends in any way.
///
/// # Errors
/// Errors of the kernel.
pub fn lock(path: &Path) -> io::Result<Option<File>> {
    regular_if_there(path)?;
    let file = File::options().create(true).truncate(false).write(true).mode(FILE_MODE).open(path)?;
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file)),
        Err(Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

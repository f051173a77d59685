//! The lock that keeps two processes out of one data directory.
//!
//! It consists of two locks of one file, which do not know of each other. The lock of its bytes,
//! which belongs to the open file, excludes Kafka: Java locks bytes too. The lock of the file
//! (`flock`) excludes shell scripts.

use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use rustix::fs::FlockOperation;
use rustix::io::Errno;

use super::{FILE_MODE, regular_if_there};

/// Result of [`lock_to_read`].
#[derive(Debug)]
pub enum ReadLock {
    /// The lock, held for as long as the file is open.
    Held(File),
    /// The directory has no lock file: no process ever locked it.
    Absent,
    /// Another process has locked the directory.
    Taken,
}

/// Like [`lock`], for processes that write nothing: a missing file is not created.
///
/// # Errors
/// A failing disk.
pub fn lock_to_read(path: &Path) -> io::Result<ReadLock> {
    regular_if_there(path)?;
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(ReadLock::Absent),
        other => other?,
    };
    Ok(if take(&file, libc::F_RDLCK)? { ReadLock::Held(file) } else { ReadLock::Taken })
}

/// Acquires a data directory's lock, by a file of this name: `None` if another process has it. The
/// lock is held while the file is open; the kernel releases it when the process ends.
///
/// # Errors
/// Errors of the kernel.
pub fn lock(path: &Path) -> io::Result<Option<File>> {
    regular_if_there(path)?;
    let file = File::options().create(true).truncate(false).write(true).mode(FILE_MODE).open(path)?;
    Ok(take(&file, libc::F_WRLCK)?.then_some(file))
}

/// Takes both locks; false if another process has one of them. A file that is open for reading can
/// only have its bytes locked against writers.
fn take(file: &File, bytes: libc::c_int) -> io::Result<bool> {
    match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => return Ok(false),
        Err(error) => return Err(error.into()),
    }
    // A length of 0 reaches to the end of any file.
    let all = libc::flock {
        l_type: bytes as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    };
    match fcntl(file, FcntlArg::F_OFD_SETLK(&all)) {
        Ok(_) => Ok(true),
        Err(nix::errno::Errno::EAGAIN | nix::errno::Errno::EACCES) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

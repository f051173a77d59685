//! The seam to the file system: every create, open, read, write, sync, rename and removal in a data
//! directory goes through a [`Disk`], so that a test can make any of them fail, record them, or
//! lose unsynced data.
//!
//! Three things pass it by: ranges handed out as extents, which others send without the log's
//! doing; entries written into mapped indexes, which are rebuilt after a crash and so need no
//! order; and the lock on a data directory, which ends with the process.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, IoSlice, IoSliceMut, Write};
use std::ops::Range;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use levada_io::map::WriteMap;
use rustix::fs::{Advice, FallocateFlags};
use rustix::io::{Errno, ReadWriteFlags};

use crate::LogError;

#[cfg(test)]
pub(crate) mod faulty;
mod lock;
#[cfg(test)]
mod tests;

pub use lock::{ReadLock, lock, lock_to_read};

/// Reads of a file system without changes. All of them block unless [`ReadFiles::waits`] returns
/// false. Callers pass paths with open files so that an implementation can identify files. The
/// default methods use the real file system: an implementation overrides those that differ.
pub trait ReadFiles: Send + Sync + fmt::Debug {
    /// Opens an existing file for reading and writing.
    fn open(&self, path: &Path) -> io::Result<File> {
        regular(path)?;
        OpenOptions::new().read(true).write(true).open(path)
    }
    /// Opens an existing file only for reading, which needs no permission to write.
    fn open_to_read(&self, path: &Path) -> io::Result<File> {
        regular(path)?;
        File::open(path)
    }
    /// The whole contents of a small file; a file of absurd size is an error.
    fn read_file(&self, path: &Path) -> io::Result<Vec<u8>> {
        let len = regular(path)?;
        if len > WHOLE_BYTES_MAX {
            let text = format!("{len} bytes are more than a file of this kind ever has");
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, text));
        }
        fs::read(path)
    }
    /// Fills `into` from `position` on, up to the end of the file; returns the filled length.
    fn read_at(&self, file: &File, _path: &Path, into: &mut [u8], position: u64) -> io::Result<usize> {
        let mut filled = 0;
        while filled < into.len() {
            match file.read_at(&mut into[filled..], position + filled as u64) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }
    /// Like [`ReadFiles::read_at`], but never waits for the device: `WouldBlock` if a byte is not
    /// in the page cache. It waits if the file system does not support the check.
    fn read_cached(&self, file: &File, path: &Path, into: &mut [u8], position: u64) -> io::Result<usize> {
        self.read_at(file, path, into, position)
    }
    /// True if reads wait for the device; who must not wait should not read much either.
    fn waits(&self) -> bool {
        true
    }
    /// Turns off the kernel's read-ahead for this open file.
    fn read_nothing_ahead(&self, file: &File, _path: &Path) {
        // Advice that is not taken leaves everything as it was.
        let _ = rustix::fs::fadvise(file, 0, None, Advice::Random);
    }
    /// Names of the entries of a directory, in no order.
    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        fs::read_dir(dir)?.map(|found| DirEntry::of(&found?)).collect()
    }
    /// The length of a file that need not be open, bytes.
    fn len(&self, path: &Path) -> io::Result<u64> {
        Ok(fs::metadata(path)?.len())
    }
}

/// All operations of a log on a file system. All of them block. An implementation must define every
/// change: a default would bypass its record, or its faults.
pub trait Disk: ReadFiles {
    /// Creates a file that must not exist, for reading and writing.
    fn create(&self, path: &Path) -> io::Result<File>;
    /// Creates or replaces a small file as a whole; not atomic, not synced.
    fn write_file(&self, path: &Path, bytes: &[u8]) -> io::Result<()>;
    /// Writes all parts one after the other from `position` on. After an error any prefix may have
    /// been written.
    fn write_at(&self, file: &File, path: &Path, parts: &mut [IoSlice<'_>], position: u64) -> io::Result<()>;
    /// Writes the first `len` bytes of a file to the beginning of another.
    fn copy(&self, from: &File, from_path: &Path, into: (&File, &Path), len: u64) -> io::Result<()>;
    /// Sets the length of the file; a longer file becomes sparse.
    fn truncate(&self, file: &File, path: &Path, len: u64) -> io::Result<()>;
    /// Reserves blocks for a range, growing the file if need be.
    fn allocate(&self, file: &File, path: &Path, position: u64, len: u64) -> io::Result<()>;
    /// Reserves blocks for a range, growing the file if need be, and maps it for writing.
    fn map(&self, file: &File, path: &Path, range: Range<u64>) -> io::Result<WriteMap> {
        self.allocate(file, path, range.start, range.end - range.start)?;
        WriteMap::new(file, range)
    }
    /// Writes to a range of a file that [`Disk::map`] returned. After an error any part may have
    /// been written.
    fn write_mapped(&self, map: &mut WriteMap, _path: &Path, bytes: &[u8], position: u64) -> io::Result<()> {
        map.write(position, bytes);
        if map.is_lost() {
            Err(io::Error::other("a page of the mapping is lost: the file was cut, or its disk failed"))
        } else {
            Ok(())
        }
    }
    /// Sets the time at which the file counts as last written to.
    fn set_modified(&self, file: &File, path: &Path, time: SystemTime) -> io::Result<()>;
    /// Waits until the file's bytes (and its length) are on the device.
    fn sync(&self, file: &File, path: &Path) -> io::Result<()>;
    /// Drops a file's pages from the page cache, if they are written back and not mapped.
    fn drop_cached(&self, file: &File, _path: &Path) {
        // Advice that is not taken leaves everything as it was.
        let _ = rustix::fs::fadvise(file, 0, None, Advice::DontNeed);
    }
    /// Waits until the names in a directory are on the device.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// Renames a file, and replaces an existing file of the new name.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Unlinks a file. Open files and mappings of it stay valid.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Creates a directory and its parents; no error if it is there.
    fn create_dir(&self, path: &Path) -> io::Result<()>;
    /// Removes a directory and all that is in it. Of a symbolic link to a directory, removes the
    /// files in that directory and the link.
    fn remove_dir(&self, dir: &Path) -> io::Result<()>;
    /// Makes a file read-only; open handles can still write.
    fn protect(&self, path: &Path) -> io::Result<()>;
    /// Like [`Disk::sync`], for a file that need not be open or writable.
    fn sync_file(&self, path: &Path) -> io::Result<()>;
}

/// Reads of a disk that succeed only for bytes in the page cache.
#[derive(Debug)]
pub(crate) struct NonBlockingReads<'a>(pub(crate) &'a dyn Disk);

impl ReadFiles for NonBlockingReads<'_> {
    fn open(&self, path: &Path) -> io::Result<File> {
        self.0.open(path)
    }

    fn open_to_read(&self, path: &Path) -> io::Result<File> {
        self.0.open_to_read(path)
    }

    fn read_at(&self, file: &File, path: &Path, into: &mut [u8], position: u64) -> io::Result<usize> {
        self.0.read_cached(file, path, into, position)
    }

    fn waits(&self) -> bool {
        false
    }
}

/// One name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    /// The directory's path and the name.
    pub path: PathBuf,
    /// Kind of the entry.
    pub kind: Kind,
}

impl DirEntry {
    fn of(found: &fs::DirEntry) -> io::Result<Self> {
        let (path, mut kind) = (found.path(), found.file_type()?);
        if kind.is_symlink() {
            kind = fs::metadata(&path).map_or(kind, |target| target.file_type());
        }
        let kind = match kind {
            kind if kind.is_file() => Kind::File,
            kind if kind.is_dir() => Kind::Dir,
            _ => Kind::Other,
        };
        Ok(Self { path, kind })
    }
}

/// Target of a name, after symbolic links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A plain file.
    File,
    /// A directory.
    Dir,
    /// A device, a socket, or a link to nothing.
    Other,
}

/// The real file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealDisk;

/// The permissions of new directories and files, limited by the umask: other users of this machine
/// have none. For files with credentials, the group has none either.
const DIR_MODE: u32 = 0o750;
const FILE_MODE: u32 = 0o640;
const SECRET_MODE: u32 = 0o600;

/// The largest file that is read as a whole: twice a full segment of the metadata log. Checkpoints
/// and snapshots are far smaller.
const WHOLE_BYTES_MAX: u64 = 2 << 30;

/// Maximum number of vectors in one call; the kernel refuses more.
const PARTS_MAX: usize = 1024;

impl ReadFiles for RealDisk {
    fn read_cached(&self, file: &File, path: &Path, into: &mut [u8], position: u64) -> io::Result<usize> {
        let mut filled = 0;
        while filled < into.len() {
            let mut rest = [IoSliceMut::new(&mut into[filled..])];
            match rustix::io::preadv2(file, &mut rest, position + filled as u64, ReadWriteFlags::NOWAIT) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(Errno::INTR) => {}
                // `PERM`: a container forbids the call, not the file.
                Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL | Errno::PERM) => {
                    return self.read_at(file, path, into, position);
                }
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(filled)
    }
}

impl Disk for RealDisk {
    fn create(&self, path: &Path) -> io::Result<File> {
        OpenOptions::new().read(true).write(true).create_new(true).mode(mode(path)).open(path)
    }

    fn write_file(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        regular_if_there(path)?;
        let options = OpenOptions::new().write(true).create(true).truncate(true).mode(mode(path)).clone();
        options.open(path)?.write_all(bytes)
    }

    fn write_at(
        &self,
        file: &File,
        _path: &Path,
        parts: &mut [IoSlice<'_>],
        position: u64,
    ) -> io::Result<()> {
        let mut rest = parts;
        let mut at = position;
        while rest.iter().any(|part| !part.is_empty()) {
            let batch = rest.len().min(PARTS_MAX);
            match rustix::io::pwritev(file, &rest[..batch], at) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => {
                    at += count as u64;
                    IoSlice::advance_slices(&mut rest, count);
                }
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }

    fn copy(&self, from: &File, _from_path: &Path, into: (&File, &Path), len: u64) -> io::Result<()> {
        let (mut read, mut written) = (0, 0);
        while written < len {
            let rest = usize::try_from(len - written).unwrap_or(usize::MAX);
            match rustix::fs::copy_file_range(from, Some(&mut read), into.0, Some(&mut written), rest) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) | Err(Errno::INTR) => {}
                Err(Errno::XDEV | Errno::INVAL | Errno::OPNOTSUPP | Errno::NOSYS | Errno::PERM) => {
                    return copy_by_hand(from, into.0, written..len);
                }
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }

    fn truncate(&self, file: &File, _path: &Path, len: u64) -> io::Result<()> {
        file.set_len(len)
    }

    fn allocate(&self, file: &File, _path: &Path, position: u64, len: u64) -> io::Result<()> {
        match rustix::fs::fallocate(file, FallocateFlags::empty(), position, len) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => allocate_by_writing(file, position, len),
            other => Ok(other?),
        }
    }

    fn set_modified(&self, file: &File, _path: &Path, time: SystemTime) -> io::Result<()> {
        file.set_modified(time)
    }

    fn sync(&self, file: &File, _path: &Path) -> io::Result<()> {
        file.sync_data()
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        File::open(dir)?.sync_all()
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        fs::DirBuilder::new().recursive(true).mode(DIR_MODE).create(path)
    }

    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        if fs::symlink_metadata(dir)?.is_symlink() { remove_linked(dir) } else { fs::remove_dir_all(dir) }
    }

    fn protect(&self, path: &Path) -> io::Result<()> {
        fs::set_permissions(path, fs::Permissions::from_mode(0o400))
    }

    fn sync_file(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }
}

/// Removes the files of a directory on another disk, and the symbolic link to it. A log has no
/// subdirectories: they are kept.
fn remove_linked(link: &Path) -> io::Result<()> {
    let target = match fs::canonicalize(link) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return fs::remove_file(link),
        found => found?,
    };
    for entry in fs::read_dir(&target)? {
        let entry = entry?;
        if !entry.file_type()?.is_dir() {
            fs::remove_file(entry.path())?;
        }
    }
    fs::remove_file(link)?;
    // A mount point stays, and so does a directory with others in it.
    let _ = fs::remove_dir(target);
    Ok(())
}

/// True if the file at this path contains credentials: the metadata log, its snapshots, and the
/// files of a new cluster contain the keys of SCRAM users and passwords of settings.
fn holds_credentials(path: &Path) -> bool {
    let is = |found: Option<&std::ffi::OsStr>, name: &str| found.is_some_and(|found| found == name);
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.starts_with("bootstrap.checkpoint")
        || is(path.parent().and_then(Path::file_name), "__cluster_metadata-0")
}

/// A file with credentials in a data directory that all users of this machine can read, if there is
/// one.
///
/// # Errors
/// A directory that cannot be read.
pub fn exposed(dir: &Path) -> io::Result<Option<PathBuf>> {
    let others_may = |path: &Path, right: u32| {
        fs::metadata(path).is_ok_and(|found| found.permissions().mode() & right == right)
    };
    let mut found = None;
    for dir in [dir.to_owned(), dir.join("__cluster_metadata-0")] {
        if !others_may(&dir, 0o001) {
            break;
        }
        let entries = RealDisk.list(&dir)?.into_iter();
        let exposed = |entry: &DirEntry| {
            entry.kind == Kind::File && holds_credentials(&entry.path) && others_may(&entry.path, 0o004)
        };
        found = found.or(entries.filter(exposed).map(|entry| entry.path).min());
    }
    Ok(found)
}

fn mode(path: &Path) -> u32 {
    if holds_credentials(path) { SECRET_MODE } else { FILE_MODE }
}

/// The length of a file. Opening a special file could block forever: a named pipe blocks until it
/// has a writer.
fn regular(path: &Path) -> io::Result<u64> {
    let found = fs::metadata(path)?;
    match found.file_type() {
        kind if kind.is_file() => Ok(found.len()),
        kind if kind.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")),
    }
}

fn regular_if_there(path: &Path) -> io::Result<()> {
    match regular(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Copies in user space, for file systems whose files the kernel does not copy.
fn copy_by_hand(from: &File, into: &File, range: Range<u64>) -> io::Result<()> {
    let mut chunk = vec![0; 256 * 1024];
    let mut at = range.start;
    while at < range.end {
        let count = chunk.len().min(usize::try_from(range.end - at).unwrap_or(usize::MAX));
        from.read_exact_at(&mut chunk[..count], at)?;
        into.write_all_at(&chunk[..count], at)?;
        at += count as u64;
    }
    Ok(())
}

/// Allocates blocks where the file system cannot reserve them: rewrites every page unchanged.
fn allocate_by_writing(file: &File, position: u64, len: u64) -> io::Result<()> {
    let mut page = [0; 4096];
    let mut at = position;
    while at < position + len {
        let count = page.len().min((position + len - at) as usize);
        page.fill(0);
        RealDisk.read_at(file, Path::new(""), &mut page[..count], at)?;
        file.write_all_at(&page[..count], at)?;
        at += count as u64;
    }
    Ok(())
}

/// True if the disk is full: an operator can free space, and the next attempt may succeed. Any
/// other failed write leaves doubt.
pub fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}

/// True if the process or the machine is out of descriptors. No file was opened, so nothing was
/// done to one.
pub(crate) fn is_out_of_descriptors(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE))
}

/// True if the file system is read-only: nothing was changed.
pub fn is_read_only(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::ReadOnlyFilesystem
}

/// True if a file could not be created or opened for lack of space, descriptors or memory, or on a
/// read-only file system: nothing is in doubt, and a retry may succeed.
pub fn is_short(error: &io::Error) -> bool {
    let is_out_of_memory = Errno::from_io_error(error) == Some(Errno::NOMEM);
    is_full(error) || is_read_only(error) || is_out_of_descriptors(error) || is_out_of_memory
}

/// Adds the operation and the path to an input/output error.
pub(crate) trait At<T> {
    fn at(self, operation: &'static str, path: &Path) -> Result<T, LogError>;
}

impl<T> At<T> for io::Result<T> {
    fn at(self, operation: &'static str, path: &Path) -> Result<T, LogError> {
        self.map_err(|source| LogError::io(operation, path, source))
    }
}

/// Removes a file; a missing file is not an error.
pub(crate) fn remove_if_there(disk: &dyn Disk, path: &Path) -> Result<bool, LogError> {
    match disk.remove(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(LogError::io("remove", path, error)),
    }
}

/// Renames a file; returns true if the file existed.
pub(crate) fn rename_if_there(disk: &dyn Disk, from: &Path, to: &Path) -> Result<bool, LogError> {
    match disk.rename(from, to) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(LogError::io("rename", from, error)),
    }
}

/// A path with a suffix after its name.
pub(crate) fn suffixed(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

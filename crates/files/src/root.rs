//! A served directory, and the only way from a path to one of its files.
//!
//! The kernel keeps a path beneath the directory while it resolves it (`openat2` with
//! `RESOLVE_BENEATH`, Linux 5.6), independent of renames and links during that time. If a kernel or
//! a container refuses `openat2`, every segment is opened separately without following links, so
//! that links are not served there.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;

/// Symbolic links that are followed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Links {
    /// Relative ones that stay beneath the directory.
    #[default]
    Within,
    /// All links that the file system allows.
    Anywhere,
}

/// Permission of a lookup to wait for the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskWait {
    /// The lookup ends with [`Fault::WouldWait`] instead of waiting.
    None,
    /// The lookup waits for the disk.
    Unlimited,
}

/// A directory to serve.
#[derive(Debug)]
pub struct Root {
    directory: OwnedFd,
    links: Links,
    /// True if the kernel has `openat2`.
    resolves: bool,
}

/// An open file or directory.
#[derive(Debug)]
pub struct Opened {
    /// File, open for reading.
    pub file: File,
    /// State of the file when it was opened.
    pub file_version: FileVersion,
    /// True if it is a directory rather than a regular file.
    pub is_directory: bool,
}

/// The state of a file: any write changes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileVersion {
    /// Device number and inode number.
    pub identity: (u64, u64),
    /// Length in bytes.
    pub len: u64,
    /// Last modification: seconds and nanoseconds.
    pub modified: (i64, u64),
    /// Last change of the content or the metadata, including the name.
    pub changed: (i64, u64),
}

/// The reason why a path leads to no file.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// The path has no file that can be served.
    #[error("no such file")]
    Missing,
    /// The process may not read it.
    #[error("permission to read the file is denied")]
    Forbidden,
    /// The lookup has to wait for the disk.
    #[error("the lookup has to wait for the disk")]
    WouldWait,
    /// The process or the system has no file descriptor left.
    #[error("the process or the system is out of file descriptors: raise `ulimit -n`, or fs.file-max")]
    NoDescriptor,
    /// The file system failed.
    #[error("the file system failed: {0}")]
    Io(io::Error),
}

impl Root {
    /// Opens a directory.
    ///
    /// # Errors
    /// The path cannot be opened, or is not a directory.
    pub fn open(path: &Path, links: Links) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::open(path, flags, Mode::empty())?;
        let probe = rustix::fs::openat2(&directory, ".", flags, Mode::empty(), ResolveFlags::BENEATH);
        Ok(Self { directory, links, resolves: probe.is_ok() })
    }

    /// The directory `name` of this one as a separate root.
    ///
    /// # Errors
    /// There is none, or it cannot be reached.
    pub fn below(&self, name: &[u8], disk_wait: DiskWait) -> Result<Self, Fault> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = self.descriptor(name, flags, disk_wait)?;
        Ok(Self { directory, links: self.links, resolves: self.resolves })
    }

    /// Looks up names without `openat2`, as on a kernel without this call.
    #[must_use]
    pub fn without_openat2(self) -> Self {
        Self { resolves: false, ..self }
    }

    /// Opens a regular file or a directory by a path in the form of
    /// [`normalise`](crate::target::normalise); the empty path is the directory itself.
    ///
    /// # Errors
    /// There is none beneath the directory, or it cannot be opened.
    pub fn file(&self, path: &[u8], disk_wait: DiskWait) -> Result<Opened, Fault> {
        // Opening a pipe must not wait for its other end.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = File::from(self.descriptor(path, flags, disk_wait)?);
        let stat = rustix::fs::fstat(&file).map_err(fault)?;
        let is_directory = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => false,
            FileType::Directory => true,
            _ => return Err(Fault::Missing),
        };
        Ok(Opened { file, file_version: FileVersion::of(&stat), is_directory })
    }

    fn descriptor(&self, path: &[u8], flags: OFlags, disk_wait: DiskWait) -> Result<OwnedFd, Fault> {
        if path.first() == Some(&b'/') || path.split(|byte| *byte == b'/').any(|segment| segment == b"..") {
            return Err(Fault::Missing);
        }
        let path = if path.is_empty() { &b"."[..] } else { path };
        match (self.resolves, self.links) {
            (true, _) => self.resolve(path, flags, disk_wait),
            (false, _) if disk_wait == DiskWait::None => Err(Fault::WouldWait),
            (false, Links::Anywhere) => {
                rustix::fs::openat(&self.directory, path, flags, Mode::empty()).map_err(fault)
            }
            (false, Links::Within) => self.walk(path, flags),
        }
    }

    fn resolve(&self, path: &[u8], flags: OFlags, disk_wait: DiskWait) -> Result<OwnedFd, Fault> {
        let mut how = ResolveFlags::NO_MAGICLINKS;
        if self.links == Links::Within {
            how |= ResolveFlags::BENEATH;
        }
        let open = |how| rustix::fs::openat2(&self.directory, path, flags, Mode::empty(), how);
        if disk_wait == DiskWait::None {
            return match open(how | ResolveFlags::CACHED) {
                // EINVAL: older than Linux 5.12, which does not report that it would wait.
                Err(Errno::AGAIN | Errno::INVAL) => Err(Fault::WouldWait),
                other => other.map_err(fault),
            };
        }
        // The kernel gives up when something is renamed while it goes upwards; it is not expected
        // twice in a row.
        const TRIES: u32 = 8;
        for _ in 1..TRIES {
            match open(how) {
                Err(Errno::AGAIN | Errno::INTR) => {}
                other => return other.map_err(fault),
            }
        }
        open(how).map_err(fault)
    }

    /// Opens segment by segment and follows no link.
    fn walk(&self, path: &[u8], flags: OFlags) -> Result<OwnedFd, Fault> {
        let through = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut segments = path.split(|byte| *byte == b'/').peekable();
        let mut at: Option<OwnedFd> = None;
        while let Some(segment) = segments.next() {
            let from = at.as_ref().map_or(self.directory.as_fd(), AsFd::as_fd);
            let flags = if segments.peek().is_some() { through } else { flags | OFlags::NOFOLLOW };
            at = Some(rustix::fs::openat(from, segment, flags, Mode::empty()).map_err(fault)?);
        }
        at.ok_or(Fault::Missing)
    }
}

fn fault(errno: Errno) -> Fault {
    match errno {
        // A path that leaves the directory, and anything that is neither file nor directory, count
        // as missing.
        Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG | Errno::LOOP | Errno::XDEV | Errno::NXIO => {
            Fault::Missing
        }
        Errno::ACCESS | Errno::PERM => Fault::Forbidden,
        Errno::MFILE | Errno::NFILE => Fault::NoDescriptor,
        errno => Fault::Io(errno.into()),
    }
}

impl FileVersion {
    fn of(stat: &Stat) -> Self {
        let number = |value: i64| u64::try_from(value).unwrap_or(0);
        Self {
            identity: (stat.st_dev, stat.st_ino),
            len: number(stat.st_size),
            modified: (stat.st_mtime, stat.st_mtime_nsec),
            changed: (stat.st_ctime, stat.st_ctime_nsec),
        }
    }

    /// The state of an open file now.
    ///
    /// # Errors
    /// The file system reports no more.
    pub fn now(file: &File) -> io::Result<Self> {
        Ok(Self::of(&rustix::fs::fstat(file)?))
    }

    /// True if the modification time can distinguish versions of the file. Store paths of Nix,
    /// layers of images and reproducible archives give every file a time between 1970 and the first
    /// day of 1980, in every zone.
    #[must_use]
    pub fn has_time(&self) -> bool {
        const JANUARY_2_1980: i64 = 315_619_200;
        self.modified.0 >= JANUARY_2_1980
    }

    /// True if both are states with the same bytes: neither length nor modification differ.
    #[must_use]
    pub fn same_bytes(&self, other: &Self) -> bool {
        (self.identity, self.len, self.modified) == (other.identity, other.len, other.modified)
    }
}

#[cfg(test)]
mod tests;

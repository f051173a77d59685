//! Objects as files of a directory that all brokers share.
//!
//! A new object is written to a hidden directory beside the objects, synced, and renamed: a reader
//! finds it whole or not at all, even after a crash.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use uuid::Uuid;

use crate::error::{RemoteError, RemoteErrorKind};
use crate::objects::{OWN, ObjectEntry, Objects, Part, Sink, too_long, wrong_length};

/// Directory of unfinished uploads, in the store's directory. Readers of either layout ignore it.
const UPLOADS: &str = ".levada-uploads";

const CHUNK: usize = 256 * 1024;

/// Name of a finished upload.
#[derive(Clone, Copy)]
enum Name {
    /// A former object with the name is replaced.
    Replaced,
    /// An object with the name is an error.
    New,
}

/// A store in a directory.
pub(crate) struct Directory {
    /// The directory of the configuration. The store does not create it: it may be a mount point.
    dir: PathBuf,
    root: PathBuf,
    uploads: PathBuf,
}

impl Directory {
    /// The store in `dir`, whose objects are files below `dir/subdirectory`. Creates directories in
    /// `dir` when an object is written.
    pub(crate) fn new(dir: &Path, subdirectory: &str) -> Self {
        Self { dir: dir.to_owned(), root: dir.join(subdirectory), uploads: dir.join(UPLOADS) }
    }

    /// Path of an object. Objects of other types than segments are outside the subdirectory, where
    /// `LocalTieredStorage` would mistake them for partitions.
    fn path(&self, key: &str) -> PathBuf {
        if key.starts_with(OWN) { self.dir.join(key) } else { self.root.join(key) }
    }

    fn failed(&self, verb: &str, key: &str, cause: &io::Error) -> RemoteError {
        let kind = match cause.kind() {
            io::ErrorKind::NotFound => RemoteErrorKind::NotFound,
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => RemoteErrorKind::Refused,
            io::ErrorKind::UnexpectedEof => RemoteErrorKind::Damaged,
            _ => RemoteErrorKind::Unavailable,
        };
        RemoteError::new(kind, format!("cannot {verb} {}", self.name(key)), cause)
    }

    /// An error while the directory is missing, so that a missing mount is not a store without
    /// objects.
    fn check_mounted(&self, verb: &str, key: &str) -> Result<(), RemoteError> {
        if self.dir.is_dir() {
            return Ok(());
        }
        let operation = format!("cannot {verb} {}", self.name(key));
        let cause = format!("the directory {} does not exist: create or mount it", self.dir.display());
        Err(RemoteError::new(RemoteErrorKind::Unavailable, operation, cause))
    }

    /// Path of an upload. Other brokers write into the directory too, and in containers all of them
    /// have one process id: the name is random.
    fn new_upload(&self) -> PathBuf {
        self.uploads.join(Uuid::new_v4().simple().to_string())
    }

    /// Writes an upload and gives it its name. The caller removes the upload after an error.
    fn upload(&self, upload: &Path, key: &str, parts: &[Part<'_>], name: Name) -> io::Result<()> {
        let file = OpenOptions::new().write(true).create_new(true).open(upload)?;
        let mut position = 0;
        for part in parts {
            match part {
                Part::File(from, length) => copy_file(from, &file, *length, position)?,
                Part::Bytes(bytes) => file.write_all_at(bytes, position)?,
            }
            position += part.length();
        }
        file.sync_all()?;
        let path = self.path(key);
        let dir = path.parent().unwrap_or(&self.root);
        create_dirs(dir)?;
        match name {
            Name::Replaced => fs::rename(upload, &path)?,
            Name::New => {
                fs::hard_link(upload, &path)?;
                fs::remove_file(upload)?;
            }
        }
        File::open(dir)?.sync_all()
    }

    /// Writes an object by way of an upload. The outer error is that of a missing directory, the
    /// inner one that of the file system.
    fn write(&self, key: &str, parts: &[Part<'_>], name: Name) -> Result<io::Result<()>, RemoteError> {
        self.check_mounted("write", key)?;
        let upload = self.new_upload();
        let written = create_dirs(&self.uploads).and_then(|()| self.upload(&upload, key, parts, name));
        Ok(written.inspect_err(|_| {
            // The reason of the failure counts; a remaining upload is not part of the store.
            let _ = fs::remove_file(&upload);
        }))
    }

    fn open(&self, key: &str) -> io::Result<(File, u64)> {
        let file = File::open(self.path(key))?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it is not a file"));
        }
        Ok((file, metadata.len()))
    }

    fn list_dir(&self, dir: &Path, each: &mut dyn FnMut(ObjectEntry)) -> io::Result<()> {
        let entries = match fs::read_dir(dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            let (path, kind) = (entry.path(), entry.file_type()?);
            if path == self.uploads {
                continue;
            }
            if kind.is_dir() {
                self.list_dir(&path, each)?;
            } else if let (true, Some(key)) = (kind.is_file(), key_of(&self.root, &path)) {
                match entry.metadata() {
                    Ok(metadata) => each(ObjectEntry { key, length: metadata.len() }),
                    // Deleted since the directory was read.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }
}

impl Objects for Directory {
    fn put(&self, key: &str, parts: &[Part<'_>]) -> Result<(), RemoteError> {
        self.write(key, parts, Name::Replaced)?.map_err(|error| self.failed("write", key, &error))
    }

    fn create(&self, key: &str, content: &[u8]) -> Result<bool, RemoteError> {
        match self.write(key, &[Part::Bytes(content)], Name::New)? {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(error) if is_without_links(&error) => {
                let operation = format!("cannot write {}", self.name(key));
                Err(RemoteError::new(RemoteErrorKind::Unsupported, operation, error))
            }
            Err(error) => Err(self.failed("write", key, &error)),
        }
    }

    fn read(&self, key: &str, length: u64, range: Range<u64>, sink: Sink<'_>) -> Result<(), RemoteError> {
        self.check_mounted("read", key)?;
        let failed = |error: io::Error| self.failed("read", key, &error);
        let (file, found) = self.open(key).map_err(failed)?;
        if found != length {
            return Err(wrong_length(&self.name(key), found, length));
        }
        let mut buffer = vec![0; CHUNK];
        let mut at = range.start;
        while at < range.end {
            let count = usize::try_from(range.end - at).map_or(CHUNK, |left| left.min(CHUNK));
            file.read_exact_at(&mut buffer[..count], at).map_err(failed)?;
            sink(&buffer[..count]).map_err(|error| {
                RemoteError::local(format!("cannot keep bytes of {}", self.name(key)), &error)
            })?;
            at += count as u64;
        }
        Ok(())
    }

    fn read_whole(&self, key: &str, limit: u64) -> Result<Vec<u8>, RemoteError> {
        self.check_mounted("read", key)?;
        let failed = |error: io::Error| self.failed("read", key, &error);
        let (file, length) = self.open(key).map_err(failed)?;
        if length > limit {
            return Err(too_long(&self.name(key), length, limit));
        }
        // The length of a file that exists, below the caller's limit.
        let mut bytes = vec![0; length as usize];
        file.read_exact_at(&mut bytes, 0).map_err(failed)?;
        Ok(bytes)
    }

    fn delete(&self, keys: &[String]) -> Result<(), RemoteError> {
        for key in keys {
            self.check_mounted("delete", key)?;
            match fs::remove_file(self.path(key)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(self.failed("delete", key, &error));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn list(&self, prefix: &str, each: &mut dyn FnMut(ObjectEntry)) -> Result<(), RemoteError> {
        self.check_mounted("list", prefix)?;
        self.list_dir(&self.path(prefix), each).map_err(|error| self.failed("list", prefix, &error))
    }

    fn name(&self, key: &str) -> String {
        self.path(key).display().to_string()
    }
}

/// True if a hard link failed because the file system has none.
fn is_without_links(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS))
}

fn key_of(root: &Path, path: &Path) -> Option<String> {
    path.strip_prefix(root).ok()?.to_str().map(str::to_string)
}

/// Creates missing directories, each durable in its parent.
fn create_dirs(dir: &Path) -> io::Result<()> {
    if dir.is_dir() {
        return Ok(());
    }
    let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty());
    if let Some(parent) = parent {
        create_dirs(parent)?;
    }
    match fs::create_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        created => created?,
    }
    parent.map_or(Ok(()), |parent| File::open(parent)?.sync_all())
}

/// Copies the first `length` bytes of `from` to `position` in `into`, inside the kernel if it can.
fn copy_file(from: &File, into: &File, length: u64, position: u64) -> io::Result<()> {
    let mut done = 0;
    while done < length {
        let left = usize::try_from(length - done).unwrap_or(usize::MAX);
        let (mut read_at, mut write_at) = (done, position + done);
        match rustix::fs::copy_file_range(from, Some(&mut read_at), into, Some(&mut write_at), left) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => done += count as u64,
            // Between these files the kernel does not copy.
            Err(_) => return copy_by_hand(from, into, done..length, position),
        }
    }
    Ok(())
}

fn copy_by_hand(from: &File, into: &File, range: Range<u64>, position: u64) -> io::Result<()> {
    let mut buffer = vec![0; CHUNK];
    let mut at = range.start;
    while at < range.end {
        let count = usize::try_from(range.end - at).map_or(CHUNK, |left| left.min(CHUNK));
        from.read_exact_at(&mut buffer[..count], at)?;
        into.write_all_at(&buffer[..count], position + at)?;
        at += count as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests;

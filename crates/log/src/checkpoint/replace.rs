//! Replacement of a small file: the new contents are written under another name, synced, and
//! renamed. After a crash there is the old file or the new one, whole.

use std::path::{Path, PathBuf};

use crate::LogError;
use crate::disk::{At, Disk, remove_if_there, suffixed};

/// Right to write to a file once it has its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rights {
    /// The owner may write to it.
    Writable,
    /// No user may write to the file; Kafka leaves finished snapshots like this.
    ReadOnly,
}

/// New contents of a file, under another name until [`Replacement::publish`].
#[derive(Debug)]
#[must_use = "the file has its old contents until the replacement is published"]
pub struct Replacement<'a> {
    disk: &'a dyn Disk,
    path: PathBuf,
    fresh: PathBuf,
}

impl<'a> Replacement<'a> {
    /// Writes the contents without a sync.
    ///
    /// # Errors
    /// A failing disk; the file is as it was.
    pub fn write(disk: &'a dyn Disk, path: &Path, bytes: &[u8], rights: Rights) -> Result<Self, LogError> {
        let fresh = suffixed(path, ".tmp");
        if rights == Rights::ReadOnly {
            // After a crash the file may exist and not be writable.
            remove_if_there(disk, &fresh)?;
        }
        disk.write_file(&fresh, bytes).at("write", &fresh)?;
        if rights == Rights::ReadOnly {
            disk.protect(&fresh).at("protect", &fresh)?;
        }
        Ok(Replacement { disk, path: path.to_owned(), fresh })
    }

    /// The contents, for [`sync_together`]. Renamed before they are on the device, a file may be
    /// empty after a crash.
    pub fn contents(&self) -> Synced<'_> {
        Synced::File(&self.fresh)
    }

    /// Gives the contents their name, which lasts once the directory is synced.
    ///
    /// # Errors
    /// A failing disk; the file is as it was.
    pub fn publish(self) -> Result<(), LogError> {
        self.disk.rename(&self.fresh, &self.path).at("rename", &self.fresh)
    }
}

/// Replaces a file. When this returns, the new contents and the name are on the device. Blocks.
///
/// # Errors
/// A failing disk; the file is as it was, or new.
pub fn replace(disk: &dyn Disk, path: &Path, bytes: &[u8], rights: Rights) -> Result<(), LogError> {
    let replacement = Replacement::write(disk, path, bytes, rights)?;
    replacement.contents().sync(disk)?;
    replacement.publish()?;
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Synced::Dir(dir).sync(disk)
}

/// A file or a directory to be synced.
#[derive(Clone, Copy, Debug)]
pub enum Synced<'a> {
    /// The bytes of a file.
    File(&'a Path),
    /// The names in a directory.
    Dir(&'a Path),
}

impl Synced<'_> {
    fn sync(self, disk: &dyn Disk) -> Result<(), LogError> {
        match self {
            Synced::File(path) => disk.sync_file(path).at("sync", path),
            Synced::Dir(path) => disk.sync_dir(path).at("sync", path),
        }
    }
}

/// Syncs files and directories, all together: a journaling file system then commits once instead of
/// once for each, which is most of the time that a first start takes. Blocks.
///
/// # Errors
/// A failing disk; some of them may be synced.
pub fn sync_together(disk: &dyn Disk, all: &[Synced<'_>]) -> Result<(), LogError> {
    std::thread::scope(|scope| {
        let waiting: Vec<_> = all.iter().map(|one| scope.spawn(move || one.sync(disk))).collect();
        waiting
            .into_iter()
            .try_for_each(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}

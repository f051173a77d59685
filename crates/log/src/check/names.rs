//! File names in a partition's directory, and their meaning.

use std::path::{Path, PathBuf};

use crate::LogError;
use crate::checkpoint::{self, PartitionMetadata};
use crate::disk::{At, Disk, Kind};
use crate::recover::base_of;
use crate::segment::{CLEANED, DELETED, SWAP};

/// Contents of the directory.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// Base offsets of the segments, ascending.
    pub(super) bases: Vec<i64>,
    /// Offsets of producer snapshots, ascending.
    pub(super) snapshots: Vec<i64>,
    /// Indexes of all kinds, with the segment they are of.
    pub(super) indexes: Vec<(i64, PathBuf)>,
    /// Leftovers of an interrupted deletion or compaction.
    pub(super) leftovers: Vec<PathBuf>,
    /// Files that no log has.
    pub(super) foreign: Vec<PathBuf>,
}

impl Names {
    pub(super) fn read(disk: &dyn Disk, dir: &Path) -> Result<Self, LogError> {
        let mut names = Self::default();
        for entry in disk.list(dir).at("list", dir)? {
            names.take(entry.path, entry.kind);
        }
        names.bases.sort_unstable();
        names.snapshots.sort_unstable();
        names.indexes.sort_unstable();
        names.leftovers.sort_unstable();
        names.foreign.sort_unstable();
        Ok(names)
    }

    fn take(&mut self, path: PathBuf, kind: Kind) {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        let leftover = [DELETED, SWAP, CLEANED, ".tmp"].iter().any(|suffix| name.ends_with(suffix));
        match (extension, base_of(&path)) {
            _ if leftover => self.leftovers.push(path),
            _ if kind != Kind::File => self.foreign.push(path),
            ("log", Some(base)) => self.bases.push(base),
            ("snapshot", Some(offset)) => self.snapshots.push(offset),
            ("index" | "timeindex" | "txnindex", Some(base)) => self.indexes.push((base, path)),
            _ if [checkpoint::LEADER_EPOCHS, PartitionMetadata::FILE_NAME].contains(&&*name) => {}
            _ => self.foreign.push(path),
        }
    }
}

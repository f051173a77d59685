//! Overview of a data directory: its identity, its last shutdown, and the size of each partition.
//! It verifies nothing.

use std::path::{Path, PathBuf};

use levada_log::checkpoint::{CleanShutdown, MetaProperties};
use levada_log::disk::{ReadFiles, RealDisk};
use levada_metadata::store::{Contents, METADATA_DIR, inspect, objections};

use super::{StorageError, directories, elsewhere, lock_existing, other_ids, sizes};
use crate::replica::data_dir::DataDirError;

/// Contents of a data directory.
#[derive(Clone, Debug)]
pub struct Info {
    /// The directory.
    pub path: PathBuf,
    /// Identity; `None` if it is not formatted.
    pub identity: Option<MetaProperties>,
    /// True if a process has locked the directory.
    pub in_use: bool,
    /// True if the last stop was clean.
    pub clean: bool,
    /// Contents of the metadata log; `None` if there is none.
    pub metadata: Option<Contents>,
    /// Reasons for which this version cannot serve it.
    pub objections: Vec<String>,
    /// Partitions, by topic and index.
    pub partitions: Vec<StoredPartition>,
    /// Directories that are no partitions, the metadata log left out.
    pub others: Vec<PathBuf>,
}

/// One partition's directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredPartition {
    /// Topic of the partition.
    pub topic: String,
    /// Index of the partition.
    pub index: i32,
    /// True if the metadata has the partition; otherwise the next start moves the directory aside.
    pub known: bool,
    /// Number of segments (files of batches).
    pub segments: usize,
    /// Total size of the segments, bytes.
    pub log_bytes: u64,
    /// Size of all other files, bytes.
    pub other_bytes: u64,
}

/// Examines a data directory, which may be in use, of a node with the directories `all`. Blocks.
///
/// # Errors
/// A directory that cannot be listed, or whose identity cannot be read.
pub fn info(dir: &Path, all: &[PathBuf]) -> Result<Info, StorageError> {
    let mut held = Vec::new();
    let mut others = Vec::new();
    let metadata = inspect(&RealDisk, dir);
    let judge = if metadata.is_some() { metadata.clone() } else { elsewhere(dir, all) };
    for (path, partition) in directories(dir)? {
        let Some((topic, index)) = partition else {
            if path.file_name().is_none_or(|name| name != METADATA_DIR) {
                others.push(path);
            }
            continue;
        };
        let (log_bytes, other_bytes, segments) =
            sizes(&path).map_err(|source| StorageError::Unreadable { path: path.clone(), source })?;
        let topics = judge.as_ref().and_then(|metadata| metadata.image.topic(&topic));
        let known = topics.is_some_and(|topic| topic.partition(index).is_some());
        held.push(StoredPartition { topic, index, known, segments, log_bytes, other_bytes });
    }
    let in_use = match lock_existing(dir) {
        Ok(_) => false,
        Err(StorageError::DataDir(DataDirError::InUse { .. })) => true,
        Err(other) => return Err(other),
    };
    let identity = MetaProperties::load(&RealDisk, dir)?;
    let ids = other_ids(dir, all);
    let against = identity.as_ref().zip(metadata.as_ref());
    Ok(Info {
        path: dir.to_owned(),
        objections: against
            .map(|(own, metadata)| objections(&metadata.image, own, Some(&ids)))
            .unwrap_or_default(),
        identity,
        in_use,
        clean: RealDisk.len(&dir.join(CleanShutdown::FILE_NAME)).is_ok(),
        metadata,
        partitions: held,
        others,
    })
}

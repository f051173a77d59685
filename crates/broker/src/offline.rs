//! Operations on a data directory that no broker uses: format, describe, check. This module neither
//! reads input nor prints.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use levada_config::BrokerConfig;
use levada_log::LogError;
use levada_log::checkpoint::MetaProperties;
use levada_log::disk::{self, DirEntry, Disk, Kind, ReadFiles, ReadLock, RealDisk};
use levada_metadata::controller::controller_endpoint;
use levada_metadata::records::UserScramCredentialRecord;
use levada_metadata::store::{Contents, Store, StoreError, StoreOptions, inspect};
use levada_wire::Uuid;

use crate::replica::TopicPartition;
use crate::replica::data_dir::{LOCK_FILE, lock, partition_of};

mod check;
mod info;
mod records;
mod remote;
mod restore;
#[cfg(test)]
mod tests;

pub use crate::replica::data_dir::DataDirError;
pub use check::{PartitionVerdict, Report, check};
pub use info::{Info, StoredPartition, info};
pub use records::InternalTopic;
pub use remote::{RemoteInventory, remote_inventory};
pub use restore::{
    LeftOut, RestoreError, RestorePlan, Restored, RestoredPartition, RestoredTopic, plan_restore, restore,
};

/// The reason why a data directory cannot be examined.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    /// The directory does not exist, or cannot be read.
    #[error("cannot read data directory {}: {source}", path.display())]
    Unreadable {
        /// The directory, or a file in it.
        path: PathBuf,
        /// Error of the kernel.
        source: io::Error,
    },
    /// The directory has no identity.
    #[error("{} is not formatted: it has no meta.properties", path.display())]
    Unformatted {
        /// Path of the data directory.
        path: PathBuf,
    },
    /// The id of the cluster is missing.
    #[error("{} is to join a cluster (process.roles=broker), but the cluster's id is missing", path.display())]
    NoClusterId {
        /// The directory without the id.
        path: PathBuf,
    },
    /// First users are records of a new cluster.
    #[error("process.roles=broker joins a cluster that already has users: {} cannot be added", names.join(", "))]
    MemberUsers {
        /// Names of some users.
        names: Vec<String>,
    },
    /// The directory cannot be locked.
    #[error(transparent)]
    DataDir(#[from] DataDirError),
    /// The directory cannot be formatted.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A file in it cannot be read.
    #[error(transparent)]
    Log(#[from] LogError),
}

/// A directory after formatting.
#[derive(Clone, Debug)]
pub struct Formatted {
    /// The directory.
    pub path: PathBuf,
    /// Identity of the directory.
    pub identity: MetaProperties,
    /// False if the directory had its identity before.
    pub is_new: bool,
}

/// Gives the configured directories their identities, and that of the metadata the first records
/// of a cluster, as `kafka-storage format --standalone` does. Without `cluster_id` the cluster gets
/// a random one; `users` are its first. The directories of a broker in a cluster get their
/// identities alone, for which the cluster's id is needed. Directories that are formatted are an
/// error, unless they are to be left as they are (`ignore_formatted`): then the others join their
/// cluster. Blocks.
///
/// # Errors
/// [`StoreError::Formatted`] if one has an identity already; a directory that is in use or cannot
/// be written; a broker in a cluster without the cluster's id, or with users.
pub fn format(
    config: &BrokerConfig,
    cluster_id: Option<&str>,
    (users, now_ms): (Vec<UserScramCredentialRecord>, i64),
    ignore_formatted: bool,
) -> Result<Vec<Formatted>, StorageError> {
    let dirs = directories_of(config);
    let mut locks = Vec::new();
    let mut known: Option<MetaProperties> = None;
    for dir in &dirs {
        RealDisk.create_dir(dir).map_err(|source| StorageError::Unreadable { path: dir.clone(), source })?;
        locks.push(lock(dir)?);
        let found = MetaProperties::load(&RealDisk, dir)?;
        if found.is_some() && !ignore_formatted {
            return Err(StoreError::Formatted { dir: dir.clone() }.into());
        }
        known = known.or(found);
    }
    if config.cluster.is_some() && !users.is_empty() {
        let names = users.into_iter().map(|user| user.name).collect();
        return Err(StorageError::MemberUsers { names });
    }
    let mut first = None;
    if config.cluster.is_none() {
        let others: Vec<&Path> = dirs[1..].iter().map(PathBuf::as_path).collect();
        Store::check_others(&RealDisk, (&dirs[0], config.node_id), &others)?;
        if MetaProperties::load(&RealDisk, &dirs[0])?.is_none() {
            first = Some(format_first(config, &dirs[0], (cluster_id, users, now_ms))?);
        }
    }
    let mut formatted = Vec::new();
    for path in dirs {
        let found = MetaProperties::load(&RealDisk, &path)?;
        let is_new = found.is_none() || first.as_ref() == found.as_ref();
        let identity = match found {
            Some(found) => found,
            None => {
                let joined = first.as_ref().or(known.as_ref()).map(|known| &*known.cluster_id);
                let missing = || StorageError::NoClusterId { path: path.clone() };
                let cluster_id = joined.or(cluster_id).ok_or_else(missing)?;
                Store::format_member(&RealDisk, &path, (cluster_id, config.node_id))?
            }
        };
        formatted.push(Formatted { path, identity, is_new });
    }
    Ok(formatted)
}

fn format_first(
    config: &BrokerConfig,
    dir: &Path,
    (cluster_id, users, now_ms): (Option<&str>, Vec<UserScramCredentialRecord>, i64),
) -> Result<MetaProperties, StorageError> {
    let options = StoreOptions {
        disk: Arc::new(RealDisk),
        dir: dir.to_owned(),
        node_id: config.node_id,
        cluster_id: cluster_id.map(str::to_owned),
        controller: controller_endpoint(),
        min_insync_replicas: config.topic_defaults.min_insync_replicas,
        users,
        limits: config.metadata_log,
        others: None,
        other_dirs: Vec::new(),
        serves_tiers: false,
    };
    Ok(Store::format(&options, now_ms)?)
}

/// The configured directories, that of the metadata first.
pub fn directories_of(config: &BrokerConfig) -> Vec<PathBuf> {
    let first = config.metadata_dir().to_owned();
    let others = config.log_dirs.iter().filter(|dir| **dir != first).cloned();
    let is_named = config.log_dirs.contains(&first);
    is_named.then(|| first.clone()).into_iter().chain(others).collect()
}

/// Ids of the other readable directories of a node.
fn other_ids(dir: &Path, all: &[PathBuf]) -> Vec<Uuid> {
    let others = all.iter().filter(|other| *other != dir);
    let id = |other: &PathBuf| MetaProperties::load(&RealDisk, other).ok().flatten();
    others.filter_map(id).map(|identity| Uuid::from_bytes(identity.directory_id)).collect()
}

/// The metadata of a node with these directories, if a directory other than `dir` has it.
fn elsewhere(dir: &Path, all: &[PathBuf]) -> Option<Contents> {
    all.iter().filter(|other| *other != dir).find_map(|other| inspect(&RealDisk, other))
}

/// Locks the directory against brokers, for as long as the file is open; a directory that never had
/// a broker has no lock.
fn lock_existing(dir: &Path) -> Result<Option<File>, StorageError> {
    let path = dir.join(LOCK_FILE);
    match disk::lock_to_read(&path) {
        Ok(ReadLock::Held(file)) => Ok(Some(file)),
        Ok(ReadLock::Absent) => Ok(None),
        Ok(ReadLock::Taken) => Err(DataDirError::InUse { path: dir.to_owned() }.into()),
        Err(source) => Err(StorageError::Unreadable { path, source }),
    }
}

/// The directories in a data directory, with topic and index of those that are partitions; in the
/// order of their names.
fn directories(dir: &Path) -> Result<Vec<(PathBuf, Option<TopicPartition>)>, StorageError> {
    let failed = |source| StorageError::Unreadable { path: dir.to_owned(), source };
    let mut found = Vec::new();
    for DirEntry { path, .. } in
        RealDisk.list(dir).map_err(failed)?.into_iter().filter(|entry| entry.kind == Kind::Dir)
    {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let partition = partition_of(&name).map(|(topic, index)| (topic.to_owned(), index));
        found.push((path, partition));
    }
    found.sort_unstable_by(|one, other| (&one.1, &one.0).cmp(&(&other.1, &other.0)));
    Ok(found)
}

/// Bytes of the segments in a partition's directory, bytes of everything else there, and the number
/// of segments.
fn sizes(dir: &Path) -> io::Result<(u64, u64, usize)> {
    let (mut logs, mut others, mut segments) = (0, 0, 0);
    for DirEntry { path, .. } in RealDisk.list(dir)?.into_iter().filter(|entry| entry.kind == Kind::File) {
        let len = match RealDisk.len(&path) {
            // Deleted in the meantime: the examination does not lock a broker out.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            other => other?,
        };
        if path.extension().is_some_and(|extension| extension == "log") {
            (logs, segments) = (logs + len, segments + 1);
        } else {
            others += len;
        }
    }
    Ok((logs, others, segments))
}

//! Operations on a data directory that no broker uses: format, describe, check. This module neither
//! reads input nor prints.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use levada_log::LogError;
use levada_log::checkpoint::MetaProperties;
use levada_log::disk::{self, DirEntry, Disk, Kind, ReadFiles, ReadLock, RealDisk};

use crate::config::BrokerConfig;
use crate::metadata::controller::controller_endpoint;
use crate::metadata::records::UserScramCredentialRecord;
use crate::metadata::store::{Store, StoreError, StoreOptions};
use crate::replica::TopicPartition;
use crate::replica::data_dir::{LOCK_FILE, lock, partition_of};

mod check;
mod info;
mod records;
#[cfg(test)]
mod tests;

pub use crate::replica::data_dir::DataDirError;
pub use check::{PartitionVerdict, Report, check};
pub use info::{Info, StoredPartition, info};
pub use records::InternalTopic;

/// Why a data directory cannot be looked at.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    /// It is not there, or may not be read.
    #[error("cannot read data directory {}: {source}", path.display())]
    Unreadable {
        /// The directory, or a file in it.
        path: PathBuf,
        /// Error of the kernel.
        source: io::Error,
    },
    /// It has no identity.
    #[error("{} is not formatted: it has no meta.properties", path.display())]
    Unformatted {
        /// The directory.
        path: PathBuf,
    },
    /// A broker of a cluster has to be told which.
    #[error("process.roles=broker joins a cluster, whose id is not known here")]
    NoClusterId,
    /// First users are records of a new cluster.
    #[error("process.roles=broker joins a cluster, which has its users already")]
    MemberUsers,
    /// It cannot be locked, or more than one is configured.
    #[error(transparent)]
    DataDir(#[from] DataDirError),
    /// It cannot be formatted.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A file in it cannot be read.
    #[error(transparent)]
    Log(#[from] LogError),
}

/// Gives the configured directory its identity and the first records of a cluster, as
/// `kafka-storage format --standalone` does. Without `cluster_id` the cluster gets a random one;
/// `users` are its first. The directory of a broker in a cluster gets its identity alone, for which
/// the cluster's id is needed. Blocks.
///
/// # Errors
/// [`StoreError::Formatted`] if it has one already; a directory that is in use or cannot be
/// written; a broker in a cluster without the cluster's id, or with users.
pub fn format(
    config: &BrokerConfig,
    cluster_id: Option<&str>,
    (users, now_ms): (Vec<UserScramCredentialRecord>, i64),
) -> Result<MetaProperties, StorageError> {
    let dir = directory(config)?;
    RealDisk.create_dir(dir).map_err(|source| StorageError::Unreadable { path: dir.to_owned(), source })?;
    let _locked = lock(dir)?;
    if config.cluster.is_some() {
        if !users.is_empty() {
            return Err(StorageError::MemberUsers);
        }
        let cluster_id = cluster_id.ok_or(StorageError::NoClusterId)?;
        return Ok(Store::format_member(&RealDisk, dir, (cluster_id, config.node_id))?);
    }
    let options = StoreOptions {
        disk: Arc::new(RealDisk),
        dir: dir.to_owned(),
        node_id: config.node_id,
        cluster_id: cluster_id.map(str::to_owned),
        controller: controller_endpoint(),
        min_insync_replicas: config.topic_defaults.min_insync_replicas,
        users,
        limits: config.metadata_log,
    };
    Ok(Store::format(&options, now_ms)?)
}

/// The one directory that is configured.
///
/// # Errors
/// [`DataDirError::SeveralDirs`].
pub fn directory(config: &BrokerConfig) -> Result<&Path, StorageError> {
    match &config.log_dirs[..] {
        [dir] => Ok(dir),
        several => Err(DataDirError::SeveralDirs { count: several.len() }.into()),
    }
}

/// Keeps brokers away for as long as the file is held; a directory that never had a broker has no
/// lock.
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

/// Bytes of the segments in a partition's directory, and of everything else there; how many
/// segments there are.
fn sizes(dir: &Path) -> io::Result<(u64, u64, usize)> {
    let (mut logs, mut others, mut segments) = (0, 0, 0);
    for DirEntry { path, .. } in RealDisk.list(dir)?.into_iter().filter(|entry| entry.kind == Kind::File) {
        let len = match RealDisk.len(&path) {
            // Gone meanwhile: nobody holds a broker back while it is only looked at.
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

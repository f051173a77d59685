//! Restoration of a node from its remote store alone: topics, logs that begin after their remote
//! parts, and the metadata topic of tiered storage.
//!
//! [`plan_restore`] reads the store and changes nothing. [`restore()`] writes new data directories,
//! the topics last: an interrupted restoration leaves a node without topics, which deletes nothing
//! in the store. The store itself is never changed. See
//! `docs/decisions/2026-11-30-tiered-storage.md`.

use std::path::PathBuf;

use levada_config::BrokerConfig;
use levada_log::{LogError, TieredState};
use levada_metadata::store::StoreError;
use levada_remote::{RemoteError, Store};
use levada_tiered::RemoteSegment;
use levada_wire::Uuid;

use super::{DataDirError, StorageError};

mod choice;
mod describe;
mod write;

pub use write::restore;

/// Contents of a store that a node can be restored from.
#[derive(Debug, Default)]
pub struct RestorePlan {
    /// Id of the cluster to which the store belongs; none if no broker of Levada has written to it.
    pub cluster_id: Option<String>,
    /// The topics, by name.
    pub topics: Vec<RestoredTopic>,
    /// Objects and segments that are not used, with the reason.
    pub left_out: Vec<LeftOut>,
    /// Number of objects whose names are not those of segment objects.
    pub foreign: u64,
}

/// A topic with records in the store.
#[derive(Debug)]
pub struct RestoredTopic {
    /// Name of the topic.
    pub name: String,
    /// Id of the topic, which the names of its objects contain.
    pub id: Uuid,
    /// Partitions with records in the store, by number.
    pub partitions: Vec<RestoredPartition>,
}

/// A partition with records in the store.
#[derive(Debug)]
pub struct RestoredPartition {
    /// Number of the partition.
    pub index: i32,
    /// Segments of the partition in the order of their offsets, without a gap.
    pub segments: Vec<RemoteSegment>,
    /// State of the log after them.
    pub state: TieredState,
}

/// A segment that is not used. Its objects stay in the store.
#[derive(Debug)]
pub struct LeftOut {
    /// Partition and start offset, or the topic.
    pub what: String,
    /// Reason in one line.
    pub reason: String,
}

/// Result of a restoration.
#[derive(Debug)]
pub struct Restored {
    /// Id of the cluster.
    pub cluster_id: String,
    /// The data directories.
    pub dirs: Vec<PathBuf>,
}

/// The reason why a node cannot be restored.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// The store does not respond, or refuses the credentials.
    #[error(transparent)]
    Remote(#[from] RemoteError),
    /// A directory that cannot be formatted, or a failing disk.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// A data directory that may have records.
    #[error("data directory {} is not empty", path.display())]
    NotEmpty {
        /// The directory.
        path: PathBuf,
    },
    /// The configuration is that of a member of a cluster.
    #[error("process.roles=broker joins a cluster, whose controllers have the topics")]
    Member,
    /// The store belongs to another cluster than the requested one.
    #[error("the store belongs to cluster {owner}, not to {asked}")]
    OtherCluster {
        /// Id of the cluster that owns the store.
        owner: String,
        /// Id that the caller requested.
        asked: String,
    },
    /// The records of a segment cannot be described in the metadata topic.
    #[error("cannot write the metadata of remote segments: {0}")]
    Metadata(String),
}

impl From<LogError> for RestoreError {
    fn from(error: LogError) -> Self {
        Self::Storage(error.into())
    }
}

impl From<StoreError> for RestoreError {
    fn from(error: StoreError) -> Self {
        Self::Storage(error.into())
    }
}

impl From<DataDirError> for RestoreError {
    fn from(error: DataDirError) -> Self {
        Self::Storage(error.into())
    }
}

/// Reads the objects of a store: the indexes and the last records of each segment. `progress` gets
/// the number of read segments and of all. Blocks for the store.
///
/// # Errors
/// The store does not respond. A segment whose objects are missing or damaged is left out instead.
pub fn plan_restore(
    store: &Store,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<RestorePlan, RestoreError> {
    let cluster_id = store.cluster()?;
    let found = store.found_segments()?;
    let mut left_out: Vec<LeftOut> = Vec::new();
    for id in &found.unfinished {
        left_out.push(LeftOut::new(id, "a copy or a deletion of the segment was interrupted"));
    }
    let mut described = Vec::new();
    for (done, segment) in found.segments.iter().enumerate() {
        progress(done, found.segments.len());
        match describe::describe(store, segment)? {
            Ok(segment) => described.push(segment),
            Err(reason) => left_out.push(LeftOut::at(&segment.id, segment.start_offset, &reason)),
        }
    }
    progress(found.segments.len(), found.segments.len());
    let topics = choice::topics(store, described, &mut left_out)?;
    Ok(RestorePlan { cluster_id, topics, left_out, foreign: found.foreign })
}

impl RestorePlan {
    /// All restored partitions.
    pub fn partitions(&self) -> impl Iterator<Item = &RestoredPartition> {
        self.topics.iter().flat_map(|topic| &topic.partitions)
    }
}

impl RestoredTopic {
    /// Number of partitions of the topic: up to the highest one with records.
    pub fn partition_count(&self) -> i32 {
        self.partitions.last().map_or(0, |last| last.index.saturating_add(1))
    }

    /// Settings that the topic gets.
    pub fn settings(&self) -> Vec<(String, String)> {
        // Without its former limits nothing may be deleted.
        [("remote.storage.enable", "true"), ("retention.ms", "-1"), ("retention.bytes", "-1")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .to_vec()
    }
}

impl RestoredPartition {
    /// Bytes of its segments.
    pub fn bytes(&self) -> u64 {
        self.segments.iter().map(|segment| u64::from(segment.size.unsigned_abs())).sum()
    }
}

impl LeftOut {
    fn new(what: impl ToString, reason: impl ToString) -> Self {
        Self { what: what.to_string(), reason: reason.to_string() }
    }

    fn at(id: &levada_tiered::RemoteSegmentId, start_offset: i64, reason: &str) -> Self {
        Self::new(format!("segment {id} from offset {start_offset}"), reason)
    }
}

/// Refuses the configuration of a member of a cluster.
fn check_role(config: &BrokerConfig) -> Result<(), RestoreError> {
    if config.cluster.is_some() { Err(RestoreError::Member) } else { Ok(()) }
}

#[cfg(test)]
mod tests;

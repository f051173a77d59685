//! Formatting of a new directory, as `kafka-storage format --standalone` does it.

use std::path::{Path, PathBuf};

use levada_log::checkpoint::{MetaProperties, PartitionMetadata, Rights, Synced, sync_together};
use levada_log::disk::{DirEntry, Disk, Kind};
use levada_log::journal::Journal;
use levada_wire::primitives::Uuid;

use super::snapshot::{BOOTSTRAP, Snapshot, SnapshotId};
use super::{METADATA_DIR, StoreError, StoreOptions};
use crate::features::FEATURES;
use crate::image::ResourceKind;
use crate::records::control::{ControlRecord, Voter};
use crate::records::{
    BeginTransactionRecord, ConfigRecord, EndTransactionRecord, FeatureLevelRecord, Record,
};
use crate::uuid;

/// Voters are kept in the log.
const KRAFT_VERSION: i16 = 1;

/// Writes identity, first levels and first voter. `meta.properties` comes last: a directory that
/// has it is complete.
pub(super) fn format(options: &StoreOptions, now_ms: i64) -> Result<MetaProperties, StoreError> {
    let (disk, dir) = (&*options.disk, &options.dir);
    let identity = MetaProperties {
        cluster_id: options.cluster_id.clone().unwrap_or_else(|| uuid::text(uuid::random())),
        node_id: options.node_id,
        directory_id: uuid::random().to_bytes(),
    };
    let metadata_dir = dir.join(METADATA_DIR);
    disk.create_dir(&metadata_dir).map_err(|source| StoreError::io("create", &metadata_dir, source))?;
    let users = options.users.iter().cloned().map(Record::from);
    let records = first_levels().into_iter().chain(users).collect();
    let bootstrap = Snapshot { records, ..Snapshot::default() };
    let bootstrap_path = dir.join(BOOTSTRAP);
    bootstrap.write(disk, &bootstrap_path, (0, now_ms), Rights::Writable)?;
    let first = Snapshot {
        timestamp_ms: now_ms,
        control: vec![
            ControlRecord::KRaftVersion(KRAFT_VERSION),
            ControlRecord::Voters(vec![voter(options, &identity)]),
        ],
        records: Vec::new(),
    };
    let first_path = SnapshotId { end_offset: 0, epoch: 0 }.path(&metadata_dir);
    first.write(disk, &first_path, (0, now_ms), Rights::ReadOnly)?;
    Journal::create(disk, &metadata_dir)?;
    let topic = PartitionMetadata { topic_id: uuid::METADATA_TOPIC_ID.to_bytes() };
    topic.prepare(disk, &metadata_dir)?.publish()?;
    let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let files = [Synced::File(&bootstrap_path), Synced::File(&first_path)];
    let dirs = [Synced::Dir(&metadata_dir), Synced::Dir(dir), Synced::Dir(parent)];
    sync_together(disk, &files.into_iter().chain(dirs).collect::<Vec<_>>())?;
    identity.store(disk, dir)?;
    Ok(identity)
}

/// Writes the identity of a broker whose metadata is on the controllers.
pub(super) fn format_member(
    disk: &dyn Disk,
    dir: &Path,
    (cluster_id, node_id): (&str, i32),
) -> Result<MetaProperties, StoreError> {
    let directory_id = uuid::random().to_bytes();
    let identity = MetaProperties { cluster_id: cluster_id.to_owned(), node_id, directory_id };
    let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    sync_together(disk, &[Synced::Dir(parent)])?;
    identity.store(disk, dir)?;
    Ok(identity)
}

/// The levels that a new cluster finalises.
fn first_levels() -> Vec<Record> {
    FEATURES
        .iter()
        .filter(|feature| feature.initial_level > 0)
        .map(|feature| {
            let record =
                FeatureLevelRecord { name: feature.name.to_owned(), feature_level: feature.initial_level };
            Record::from(record)
        })
        .collect()
}

fn voter(options: &StoreOptions, identity: &MetaProperties) -> Voter {
    Voter {
        voter_id: identity.node_id,
        directory_id: Uuid::from_bytes(identity.directory_id),
        endpoints: vec![options.controller.clone()],
        min_kraft_version: 0,
        max_kraft_version: KRAFT_VERSION,
    }
}

/// True if `dir` contains logs with data: the metadata log, or partitions. Files of an interrupted
/// [`format()`] do not count and are overwritten.
pub(super) fn is_used(disk: &dyn Disk, dir: &Path) -> bool {
    logs(disk, dir).next().is_some()
}

/// A partition of a topic in `dir` that has a log with data.
pub(crate) fn partition_with_log(disk: &dyn Disk, dir: &Path) -> Option<PathBuf> {
    logs(disk, dir).find(|path| !path.ends_with(METADATA_DIR))
}

/// Directories in `dir` with the names of partitions that have logs with data.
fn logs<'a>(disk: &'a dyn Disk, dir: &Path) -> impl Iterator<Item = PathBuf> + use<'a> {
    let is_partition = |entry: &DirEntry| {
        let index =
            entry.path.file_name().and_then(|name| name.to_str()?.rsplit_once('-')?.1.parse::<u32>().ok());
        entry.kind == Kind::Dir && index.is_some()
    };
    let entries = disk.list(dir).unwrap_or_default().into_iter();
    entries.filter(is_partition).map(|entry| entry.path).filter(|path| has_log(disk, path))
}

fn has_log(disk: &dyn Disk, dir: &Path) -> bool {
    let files = disk.list(dir).unwrap_or_default().into_iter().map(|entry| entry.path);
    let is_segment = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "log");
    files.filter(is_segment).any(|path| disk.len(&path).is_ok_and(|len| len > 0))
}

/// The first records of a new cluster, in the form that Kafka's controller gives them: the contents
/// of `bootstrap.checkpoint`, if it exists, all together.
pub(super) fn first_change(options: &StoreOptions) -> Result<Vec<Record>, StoreError> {
    let (disk, path) = (&*options.disk, options.dir.join(BOOTSTRAP));
    let levels = if disk.len(&path).is_ok() { Snapshot::read(disk, &path)?.records } else { first_levels() };
    let begin = BeginTransactionRecord { name: Some("Bootstrap records".to_owned()) };
    let mut records = vec![Record::from(begin)];
    records.extend(levels);
    records.push(Record::from(ConfigRecord {
        resource_type: ResourceKind::Broker.id(),
        resource_name: String::new(),
        name: "min.insync.replicas".to_owned(),
        value: Some(options.min_insync_replicas.to_string()),
    }));
    records.push(Record::from(EndTransactionRecord));
    Ok(records)
}

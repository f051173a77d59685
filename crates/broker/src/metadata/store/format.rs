//! A new directory, as `kafka-storage format --standalone` leaves it.

use std::fs;
use std::path::Path;

use levada_log::checkpoint::MetaProperties;
use levada_log::disk::RealDisk;

use super::files::{Access, sync_together, write_partition_metadata};
use super::journal::Journal;
use super::snapshot::{BOOTSTRAP, Snapshot, SnapshotId};
use super::{METADATA_DIR, StoreError, StoreOptions};
use crate::metadata::features::FEATURES;
use crate::metadata::image::ResourceKind;
use crate::metadata::records::control::{ControlRecord, Voter};
use crate::metadata::records::{
    BeginTransactionRecord, ConfigRecord, EndTransactionRecord, FeatureLevelRecord, Record,
};
use crate::metadata::uuid;

/// Voters are kept in the log.
const KRAFT_VERSION: i16 = 1;

/// Writes identity, first levels and first voter. `meta.properties` comes last: a directory that has it is complete.
pub(super) fn format(options: &StoreOptions, now_ms: i64) -> Result<MetaProperties, StoreError> {
    let dir = &options.dir;
    let identity = MetaProperties {
        cluster_id: options.cluster_id.clone().unwrap_or_else(|| uuid::text(uuid::random())),
        node_id: options.node_id,
        directory_id: uuid::stored(uuid::random()),
    };
    let metadata_dir = dir.join(METADATA_DIR);
    fs::create_dir_all(&metadata_dir).map_err(|source| StoreError::io("create", &metadata_dir, source))?;
    let bootstrap = Snapshot { records: first_levels(), ..Snapshot::default() };
    let bootstrap_path = dir.join(BOOTSTRAP);
    bootstrap.write(&bootstrap_path, 0, Access::Writable, now_ms)?;
    let first = Snapshot {
        timestamp_ms: now_ms,
        control: vec![
            ControlRecord::KRaftVersion(KRAFT_VERSION),
            ControlRecord::Voters(vec![voter(options, &identity)]),
        ],
        records: Vec::new(),
    };
    let first_path = SnapshotId { end_offset: 0, epoch: 0 }.path(&metadata_dir);
    first.write(&first_path, 0, Access::ReadOnly, now_ms)?;
    Journal::create(&metadata_dir)?;
    write_partition_metadata(&metadata_dir)?;
    let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    sync_together(&[&bootstrap_path, &first_path, &metadata_dir, dir, parent])?;
    identity.store(&RealDisk, dir)?;
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
        directory_id: uuid::loaded(identity.directory_id),
        endpoints: vec![options.controller.clone()],
        min_kraft_version: 0,
        max_kraft_version: KRAFT_VERSION,
    }
}

/// Whether `dir` holds a metadata log with anything in it. What an interrupted [`format()`] leaves does not count:
/// it is written again.
pub(super) fn has_log(dir: &Path) -> bool {
    let files = fs::read_dir(dir.join(METADATA_DIR)).into_iter().flatten().flatten();
    let is_segment = |path: &Path| path.extension().is_some_and(|extension| extension == "log");
    files.filter(|file| is_segment(&file.path())).any(|file| file.metadata().is_ok_and(|file| file.len() > 0))
}

/// The first records of a new cluster, in the form that Kafka's controller gives them: what `bootstrap.checkpoint`
/// says, where there is one, all at once.
pub(super) fn first_change(options: &StoreOptions) -> Result<Vec<Record>, StoreError> {
    let path = options.dir.join(BOOTSTRAP);
    let levels = if path.exists() { Snapshot::read(&path)?.records } else { first_levels() };
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

//! A new directory, as `kafka-storage format --standalone` leaves it.

use std::fs;
use std::path::Path;

use super::files::{Access, Identity, sync_dir};
use super::snapshot::{BOOTSTRAP, Snapshot, SnapshotId};
use super::{METADATA_DIR, StoreError, StoreOptions};
use crate::metadata::features::FEATURES;
use crate::metadata::records::control::{ControlRecord, Voter};
use crate::metadata::records::{FeatureLevelRecord, Record};
use crate::metadata::uuid;

/// Voters are kept in the log.
const KRAFT_VERSION: i16 = 1;

/// Writes identity, first levels and first voter. `meta.properties` comes last: a directory that has it is complete.
pub(super) fn format(options: &StoreOptions, now_ms: i64) -> Result<Identity, StoreError> {
    let dir = &options.dir;
    let identity = Identity {
        cluster_id: options.cluster_id.clone().unwrap_or_else(|| uuid::text(uuid::random())),
        node_id: options.node_id,
        directory_id: uuid::random(),
    };
    let metadata_dir = dir.join(METADATA_DIR);
    fs::create_dir_all(&metadata_dir).map_err(|source| StoreError::io("create", &metadata_dir, source))?;
    sync_dir(dir).map_err(|source| StoreError::io("sync", dir, source))?;
    let bootstrap = Snapshot { records: first_levels(), ..Snapshot::default() };
    bootstrap.write(&dir.join(BOOTSTRAP), 0, Access::Writable, now_ms)?;
    let first = Snapshot {
        timestamp_ms: now_ms,
        control: vec![
            ControlRecord::KRaftVersion(KRAFT_VERSION),
            ControlRecord::Voters(vec![voter(options, &identity)]),
        ],
        records: Vec::new(),
    };
    first.write(&SnapshotId { end_offset: 0, epoch: 0 }.path(&metadata_dir), 0, Access::ReadOnly, now_ms)?;
    identity.write(dir)?;
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

fn voter(options: &StoreOptions, identity: &Identity) -> Voter {
    Voter {
        voter_id: identity.node_id,
        directory_id: identity.directory_id,
        endpoints: vec![options.controller.clone()],
        min_kraft_version: 0,
        max_kraft_version: KRAFT_VERSION,
    }
}

/// Whether `dir` holds a metadata log with anything in it. What an interrupted [`format`] leaves does not count:
/// it is written again.
pub(super) fn has_log(dir: &Path) -> bool {
    let files = fs::read_dir(dir.join(METADATA_DIR)).into_iter().flatten().flatten();
    files.map(|file| file.path()).any(|path| path.extension().is_some_and(|extension| extension == "log"))
}

/// The records that a new cluster begins with: those of `bootstrap.checkpoint`, where there is one.
pub(super) fn read_bootstrap(dir: &Path) -> Result<Vec<Record>, StoreError> {
    let path = dir.join(BOOTSTRAP);
    if path.exists() { Ok(Snapshot::read(&path)?.records) } else { Ok(first_levels()) }
}

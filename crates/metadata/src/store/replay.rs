//! Replay of a metadata log from its files: the latest complete snapshot, then the log after it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use levada_base::batch::BatchView;
use levada_log::LogError;
use levada_log::disk::Disk;
use levada_log::journal::{Journal, SegmentLimits, TornTail};

use super::StoreError;
use super::snapshot::{LogRecord, Snapshot, SnapshotId, each_record, snapshots};
use crate::image::{Image, Position, Replay};
use crate::records::control::{ControlRecord, Voter};

/// The contents of a metadata log.
pub(super) struct Loaded {
    pub(super) journal: Journal,
    pub(super) replay: Replay,
    pub(super) quorum: Quorum,
    /// Start offset of each leader epoch.
    pub(super) epochs: Vec<(i32, i64)>,
    pub(super) records: u64,
    /// Bytes of the log after the snapshot.
    pub(super) bytes: u64,
    pub(super) torn: Option<TornTail>,
    /// The fault of a later snapshot that was skipped, because the log contains all its records.
    pub(super) passed_over: Option<StoreError>,
}

/// A damaged snapshot that is later than the loaded one.
pub(super) struct PassedOver {
    /// The offset after the last record that it covers.
    end_offset: i64,
    pub(super) fault: StoreError,
}

impl PassedOver {
    /// True if a log with all records up to `end_offset` has the contents of the snapshot. The
    /// first snapshot of a log contains data that is in no log: the voters, and earlier records.
    fn is_covered(&self, end_offset: i64) -> bool {
        (1..=end_offset).contains(&self.end_offset)
    }
}

/// The quorum of the log.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Quorum {
    /// 1 if the voters are in the log, 0 if they are in the configuration.
    pub(super) kraft_version: i16,
    pub(super) voters: Vec<Voter>,
    /// Voters by number as the last leader change names them.
    leader_voters: Vec<i32>,
}

impl Quorum {
    /// The nodes that have a vote.
    pub(super) fn voters(&self) -> Vec<i32> {
        match self.kraft_version {
            ..=0 => self.leader_voters.clone(),
            _ => self.voters.iter().map(|voter| voter.voter_id).collect(),
        }
    }

    /// Refuses a log that others have a vote in.
    pub(super) fn check_alone(&self, path: &Path, node_id: i32) -> Result<(), StoreError> {
        let voters = self.voters();
        if voters.iter().all(|voter| *voter == node_id) {
            return Ok(());
        }
        Err(StoreError::Quorum { path: path.to_owned(), voters })
    }

    fn take(&mut self, record: ControlRecord) {
        match record {
            ControlRecord::KRaftVersion(version) => self.kraft_version = version,
            ControlRecord::Voters(voters) => self.voters = voters,
            ControlRecord::LeaderChange(change) => self.leader_voters = change.voters,
            ControlRecord::SnapshotHeader { .. } | ControlRecord::SnapshotFooter => {}
        }
    }
}

/// Reads the log in `path` and opens it for appending.
pub(super) fn load(disk: &Arc<dyn Disk>, path: &Path, limits: SegmentLimits) -> Result<Loaded, StoreError> {
    let mut reader = Reader::new(path);
    let start_offset = reader.read_snapshot(&**disk)?;
    let opened = Journal::open(disk, path, (start_offset, limits), |batch| reader.take(batch));
    let (journal, torn, passed_over) = match (opened, reader.passed_over.take()) {
        (opened, None) => {
            let (journal, torn) = opened?;
            (journal, torn, None)
        }
        (Ok((journal, torn)), Some(passed)) if passed.is_covered(journal.end_offset()) => {
            (journal, torn, Some(passed.fault))
        }
        // Without that snapshot the log is not whole.
        (Ok(_) | Err(StoreError::File(LogError::Corrupt { .. })), Some(passed)) => return Err(passed.fault),
        (Err(error), Some(_)) => return Err(error),
    };
    let Reader { mut replay, quorum, epochs, records, bytes, .. } = reader;
    replay.set_kraft_version(quorum.kraft_version);
    Ok(Loaded { journal, replay, quorum, epochs, records, bytes, torn, passed_over })
}

/// State of the replay so far.
pub(super) struct Reader {
    path: PathBuf,
    pub(super) replay: Replay,
    pub(super) quorum: Quorum,
    epochs: Vec<(i32, i64)>,
    pub(super) records: u64,
    bytes: u64,
    /// The latest of the damaged snapshots.
    pub(super) passed_over: Option<PassedOver>,
}

impl Reader {
    pub(super) fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            replay: Replay::new(Image::empty()),
            quorum: Quorum::default(),
            epochs: Vec::new(),
            records: 0,
            bytes: 0,
            passed_over: None,
        }
    }

    /// Applies the latest whole snapshot; returns the offset at which the log continues.
    pub(super) fn read_snapshot(&mut self, disk: &dyn Disk) -> Result<i64, StoreError> {
        for id in snapshots(disk, &self.path)?.into_iter().rev() {
            match Snapshot::read(disk, &id.path(&self.path)) {
                Ok(snapshot) => return self.take_over(id, snapshot),
                Err(fault @ StoreError::File(LogError::Corrupt { .. })) => {
                    self.passed_over.get_or_insert(PassedOver { end_offset: id.end_offset, fault });
                }
                Err(error) => return Err(error),
            }
        }
        Ok(0)
    }

    fn take_over(&mut self, id: SnapshotId, snapshot: Snapshot) -> Result<i64, StoreError> {
        for record in snapshot.control {
            self.quorum.take(record);
        }
        let offset = id.end_offset - 1;
        let position = Position { offset, epoch: id.epoch, timestamp_ms: snapshot.timestamp_ms };
        for record in snapshot.records {
            self.records += 1;
            self.push(record, position)?;
        }
        if offset >= 0 {
            self.replay.skip(position);
            self.epochs.push((id.epoch, offset));
        }
        Ok(id.end_offset)
    }

    pub(super) fn take(&mut self, batch: &BatchView<'_>) -> Result<(), StoreError> {
        let (epoch, timestamp_ms) = (batch.leader_epoch(), batch.max_timestamp());
        self.bytes += batch.bytes().len() as u64;
        if self.epochs.last().is_none_or(|(last, _)| *last < epoch) {
            self.epochs.push((epoch, batch.base_offset()));
        }
        let path = self.path.clone();
        let mut offset = batch.base_offset();
        each_record(&path, batch, |record| {
            let position = Position { offset, epoch, timestamp_ms };
            offset += 1;
            self.records += 1;
            match record {
                LogRecord::Control(record) => {
                    self.quorum.take(record);
                    self.replay.skip(position);
                    Ok(())
                }
                LogRecord::Metadata(record) => self.push(record, position),
            }
        })
    }

    fn push(&mut self, record: crate::records::Record, position: Position) -> Result<(), StoreError> {
        let offset = position.offset;
        self.replay.push(record, position).map_err(|source| StoreError::Contradiction { offset, source })
    }
}

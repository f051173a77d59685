//! Appends of a follower: the batches of the leader, byte for byte, at the offsets and in the
//! leader epochs that they carry.

use std::io::IoSlice;

use levada_base::batch::{self, BatchError, BatchView, NO_TIMESTAMP};

use super::Writer;
use super::append::{Incoming, Pending};
use crate::epochs::Epochs;
use crate::{AppendError, LogError, OFFSET_MAX};

/// Facts about the leader whose batches a follower appends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplicaSource {
    /// The leader epoch that the fetch named.
    pub leader_epoch: i32,
    /// Start of the leader's log at the time of its response.
    pub log_start: i64,
}

/// Result of [`Writer::append_replica`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplicaAppended {
    /// The log's end offset now.
    pub log_end: i64,
    /// Number of appended bytes.
    pub bytes: u64,
    /// Number of appended batches.
    pub batches: usize,
    /// Largest timestamp of the appended batches, -1 if none has one.
    pub max_timestamp: i64,
}

/// Batches of the leader that may be appended.
struct Intact<'a> {
    bytes: &'a [u8],
    /// The first offset of the first batch; the log's end if there is no batch.
    first_offset: i64,
    batches: usize,
    max_timestamp: i64,
}

/// Adjacent batches of one segment that wait for the write.
struct Part {
    pending: Pending,
    /// Epochs of the log with those of these batches, if they add one.
    epochs: Option<Epochs>,
}

impl Writer {
    /// Appends batches of the leader as they are: `records` is what a fetch returned, whole batches
    /// of which the last one may be cut short and is ignored then. A batch of a later epoch than
    /// that of the fetch and those after it are ignored.
    ///
    /// Every batch is checked, its checksum included, before the first is written. Offsets may have
    /// gaps, which a compacted leader leaves. The batches bring the leader epochs, the state of
    /// producers, the ends of transactions. Sizes have no limit. Only after [`Writer::resign`].
    /// Blocks on the disk; one write for each segment, no copy.
    ///
    /// The log restarts at the first batch if the log ends within that batch and has nothing that
    /// the leader has: it is empty, or ends no later than the leader's log begins.
    ///
    /// # Errors
    /// A damaged batch, or one that cannot follow the log's last one, as one that begins before the
    /// end of a log that must not restart: the log is as it was. A failing disk: batches of earlier
    /// segments than the one that failed may be in the log.
    pub fn append_replica(
        &mut self,
        records: &[u8],
        leader: ReplicaSource,
        now_ms: i64,
    ) -> Result<ReplicaAppended, AppendError> {
        self.refuse_records()?;
        if let Some(led) = self.led_in {
            return Err(AppendError::LeaderEpoch { checked: leader.leader_epoch, led });
        }
        let intact = self.intact(records, leader)?;
        if intact.first_offset < self.partition.log_end() {
            self.restart_at(intact.first_offset, now_ms)?.remove()?;
        }
        let appended = self.append_intact(intact.bytes, now_ms);
        appended.inspect_err(|_| self.producers.roll_back())?;
        let (first, end) = (intact.first_offset, self.partition.log_end());
        assert!(intact.batches == 0 || first < end, "batches at {first} are in the log, which ends at {end}");
        Ok(ReplicaAppended {
            log_end: self.partition.log_end(),
            bytes: intact.bytes.len() as u64,
            batches: intact.batches,
            max_timestamp: intact.max_timestamp,
        })
    }

    /// The batches that may be appended.
    fn intact<'a>(&self, records: &'a [u8], leader: ReplicaSource) -> Result<Intact<'a>, AppendError> {
        let end = self.partition.log_end();
        let leader_start = leader.log_start;
        let has_nothing = end == self.partition.log_start() || end <= leader_start;
        let (mut log_end, mut latest) = (end, self.partition.latest_epoch());
        let mut found = Intact { bytes: &[], first_offset: end, batches: 0, max_timestamp: NO_TIMESTAMP };
        loop {
            let rest = &records[found.bytes.len()..];
            match BatchView::parse(rest) {
                Ok(batch) if batch.leader_epoch() > leader.leader_epoch => return Ok(found),
                Err(BatchError::Truncated { .. }) => return Ok(found),
                other => other?,
            };
            let batch = batch::check_stored(rest)?;
            let (offset, epoch) = (batch.base_offset(), batch.leader_epoch());
            let last = offset.checked_add(i64::from(batch.last_offset_delta()));
            let last = last.filter(|last| offset >= 0 && *last <= OFFSET_MAX);
            let restarts = found.batches == 0 && has_nothing && last.is_some_and(|last| last >= end);
            let follows = offset >= log_end && epoch >= latest || restarts && offset < end;
            let Some(last) = last.filter(|_| follows && epoch >= 0) else {
                return Err(AppendError::Order { offset, epoch, log_end, latest, leader_start });
            };
            if found.batches == 0 {
                found.first_offset = offset.min(end);
            }
            found.bytes = &records[..found.bytes.len() + batch.size_bytes()];
            found.batches += 1;
            found.max_timestamp = found.max_timestamp.max(batch.max_timestamp());
            (log_end, latest) = (last + 1, epoch);
        }
    }

    /// Appends checked batches. After a failure, producers include batches that are not in the log.
    fn append_intact(&mut self, records: &[u8], now_ms: i64) -> Result<(), AppendError> {
        self.active.learn(&*self.disk)?;
        let (mut part, mut first, mut at) = (self.part(), 0, 0);
        while at < records.len() {
            let batch = BatchView::parse(&records[at..])?;
            let incoming = Incoming {
                size_bytes: batch.size_bytes() as u64,
                last_offset: batch.last_offset(),
                timestamp: batch.max_timestamp(),
            };
            if self.is_roll_due(&incoming, &part.pending, now_ms)? {
                self.commit_part(&records[first..at], part)?;
                self.roll_for(&batch, now_ms)?;
                (part, first) = (self.part(), at);
            }
            let latest = part.epochs.as_ref().map_or(self.partition.latest_epoch(), Epochs::latest);
            if batch.leader_epoch() > latest {
                let known = || Epochs::clone(&self.partition.epochs.load());
                part.epochs.get_or_insert_with(known).assign(batch.leader_epoch(), batch.base_offset());
            }
            debug_assert!(batch.base_offset() >= part.pending.next_offset, "batches are in order");
            self.line_up(&batch, &mut part.pending, now_ms);
            at += batch.size_bytes();
        }
        Ok(self.commit_part(&records[first..], part)?)
    }

    fn part(&self) -> Part {
        Part { pending: self.pending(0), epochs: None }
    }

    /// Starts a segment for a batch. A gap in the offsets may be wider than a segment's range.
    fn roll_for(&mut self, batch: &BatchView<'_>, now_ms: i64) -> Result<(), LogError> {
        let log_end = self.partition.log_end();
        let fits = batch.last_offset() - log_end <= i64::from(i32::MAX);
        self.roll_at(if fits { log_end } else { batch.base_offset() }, now_ms)
    }

    /// Writes batches and publishes them. Their epochs are stored before, like those of a leader's
    /// batches.
    fn commit_part(&mut self, records: &[u8], part: Part) -> Result<(), LogError> {
        let Part { pending, epochs } = part;
        if records.is_empty() {
            return Ok(());
        }
        match &epochs {
            None => self.store_new_epoch()?,
            Some(epochs) => {
                // The file names epochs of batches that are not written yet.
                self.epochs_stored = false;
                epochs.store(&*self.disk, &self.partition.dir())?;
                self.partition.note_new_name();
            }
        }
        self.write(&mut [IoSlice::new(records)], &pending)?;
        if let Some(epochs) = epochs {
            self.partition.publish_epochs(epochs);
            self.epochs_stored = true;
        }
        self.publish(pending);
        Ok(())
    }
}

//! The exclusive side of a partition: appends, rolls, truncates, deletes, closes. It belongs to one
//! thread at a time; other threads read through [`Partition`].

use std::sync::Arc;

use crate::background::Background;
use crate::disk::{Disk, is_short};
use crate::epochs::Epochs;
use crate::marks::Start;
use crate::partition::Partition;
use crate::producers::{ProducerState, Producers};
use crate::recover::{self, OpenReport, Opened};
use crate::{LogConfig, LogError, OpenOptions, Tiering};

mod active;
mod append;
mod cut;
mod mapped;
mod relocate;
mod replica;
mod restart;
mod roll;
mod swap;
#[cfg(test)]
mod tests;

pub use append::Appended;
pub use cut::Discarded;
pub use relocate::Destination;
pub use replica::{ReplicaAppended, ReplicaSource};
pub use restart::TieredState;
pub use swap::Retired;

use active::Active;
use mapped::Spare;

/// The exclusive side of a partition.
///
/// Whole: a state machine. Appends, truncations, rolls and swaps each change the files and the
/// marks of the log together, and leave them in agreement.
#[derive(Debug)]
pub struct Writer {
    partition: Arc<Partition>,
    disk: Arc<dyn Disk>,
    config: LogConfig,
    leader_epoch: i32,
    // The epoch in which this broker leads the partition; none while it does not lead.
    led_in: Option<i32>,
    // The log's end when [`Writer::lead`] began this epoch; none if nothing else than an append
    // stores the epoch.
    led_from: Option<i64>,
    // No other replica has to have the records: the high watermark follows the log's end.
    sole_replica: bool,
    // The epochs in memory are those on disk: a new epoch goes there with its first batch.
    epochs_stored: bool,
    producers: Producers,
    // The offset of the last producer snapshot on disk, -1 if there is none.
    snapshot_at: i64,
    // The recovery point beyond the log's end that a checkpoint may still have after a truncation,
    // by this process or by one before; -1 without one.
    stale_recovery_point: i64,
    active: Active,
    background: Background,
    // The file of the next segment, with mapped appends alone.
    spare: Option<Spare>,
}

impl Writer {
    /// Opens a partition, creating it if it does not exist. After a clean shutdown that reads a
    /// directory, the end of the last segment and a snapshot; after a crash it checks everything
    /// from the recovery point on, truncates torn or damaged batches, and rebuilds the indexes of
    /// the checked segments. Blocks.
    ///
    /// # Errors
    /// A failing disk. Damage of the log itself is repaired and reported.
    pub fn open(options: OpenOptions, now_ms: i64) -> Result<(Self, OpenReport), LogError> {
        let opened = recover::open(&options, now_ms)?;
        let Opened { segments, mut epochs, producers, report, log_start, log_end, snapshot_at, .. } = opened;
        let last = segments.last().expect("an opened log has a segment").clone();
        last.publish_end(log_end);
        let active = Active::resume(last, now_ms);
        let start = Start {
            log_start,
            log_end,
            high_watermark: options.high_watermark.unwrap_or(log_end),
            first_open: producers.first_unstable(),
            recovery_point: if options.clean { log_end } else { options.recovery_point.min(log_end) },
        };
        let leader_epoch = options.leader_epoch.max(epochs.latest());
        let repaired = epochs != opened.stored_epochs;
        epochs.assign(leader_epoch, log_end);
        let mut epochs_stored = epochs == opened.stored_epochs;
        if repaired && !epochs_stored {
            epochs_stored = store_repaired(&epochs, &options)?;
        }
        let sole_replica = options.high_watermark.is_none();
        let OpenOptions { dir, config, disk, background, watch, recovery_point, .. } = options;
        let partition = Partition::new(dir, disk.clone(), segments, epochs, start);
        let partition = Arc::new(partition.watched(watch));
        partition.set_interval(config.index_interval_bytes);
        if opened.created || repaired || !report.is_clean() {
            partition.note_new_name();
        }
        let stale_recovery_point = if recovery_point > log_end { recovery_point } else { -1 };
        let writer = Self {
            partition,
            disk,
            config,
            leader_epoch,
            led_in: Some(options.leader_epoch),
            led_from: None,
            sole_replica,
            epochs_stored,
            producers,
            snapshot_at,
            stale_recovery_point,
            active,
            background,
            spare: None,
        };
        Ok((writer, report))
    }

    /// The side for readers.
    pub fn partition(&self) -> &Arc<Partition> {
        &self.partition
    }

    /// The configuration in force.
    pub fn config(&self) -> &LogConfig {
        &self.config
    }

    /// Applies a changed configuration; the next append or housekeeping uses it.
    pub fn set_config(&mut self, config: LogConfig) {
        self.partition.set_interval(config.index_interval_bytes);
        self.config = config;
        if self.config.tiering == Tiering::Local {
            self.partition.forget_remote();
        }
    }

    /// The epoch that new batches get.
    pub fn leader_epoch(&self) -> i32 {
        self.leader_epoch
    }

    /// Begins a leader epoch at the log's end. An epoch below the log's latest is ignored. The
    /// epoch is stored on disk with its first batch; an epoch without a batch is not stored.
    /// [`Writer::lead`] is for a log that has other replicas.
    pub fn set_leader_epoch(&mut self, epoch: i32) {
        let mut epochs = Epochs::clone(&self.partition.epochs.load());
        if epochs.assign(epoch, self.partition.log_end()) {
            self.partition.publish_epochs(epochs);
            self.epochs_stored = false;
        }
        self.leader_epoch = self.leader_epoch.max(epoch);
        (self.led_in, self.led_from) = (Some(epoch), None);
    }

    /// Begins a leader epoch at the log's end, which it returns. The epoch and this offset are on
    /// the device before it returns, also if no batch follows: a follower that requests the end of
    /// the previous epoch gets the same response after a crash. Repeated for the same epoch, it
    /// returns the same offset and does nothing. Blocks.
    ///
    /// # Errors
    /// A failing disk, or a partition that is offline: the leadership of the log does not change.
    pub fn lead(&mut self, epoch: i32) -> Result<i64, LogError> {
        if let Some(first) = self.led_from.filter(|_| self.led_in == Some(epoch)) {
            return Ok(first);
        }
        self.refuse_offline()?;
        let first = self.partition.log_end();
        let mut epochs = Epochs::clone(&self.partition.epochs.load());
        epochs.assign(epoch, first);
        self.epochs_stored = false;
        epochs.replace(&*self.disk, &self.partition.dir())?;
        self.epochs_stored = true;
        self.partition.publish_epochs(epochs);
        self.leader_epoch = self.leader_epoch.max(epoch);
        (self.led_in, self.led_from) = (Some(epoch), Some(first));
        Ok(first)
    }

    /// Refuses every append but [`Writer::append_replica`] until [`Writer::lead`] or
    /// [`Writer::set_leader_epoch`]: this broker no longer leads the partition, and all leader
    /// epochs of the log come from batches.
    pub fn resign(&mut self) {
        (self.led_in, self.led_from) = (None, None);
        self.sole_replica = false;
    }

    /// Sets if this is the only replica whose appends count. If so, the high watermark is the log's
    /// end, now and after each append; otherwise [`Partition::raise_high_watermark`] moves it.
    pub fn set_sole_replica(&mut self, sole_replica: bool) {
        self.sole_replica = sole_replica;
        self.publish_high_watermark();
    }

    /// Raises the high watermark to the log's end if no other replica counts.
    fn publish_high_watermark(&self) {
        if self.sole_replica {
            self.partition.raise_high_watermark(self.partition.log_end());
        }
        self.partition.marks.assert_ordered(&self.partition.dir());
    }

    /// Makes all appended records durable: [`Partition::flush`], which any thread may call instead.
    /// Blocks.
    ///
    /// # Errors
    /// Same as [`Partition::flush`].
    pub fn flush(&mut self) -> Result<i64, LogError> {
        self.partition.flush()
    }

    /// True if a producer has a transaction open under this epoch.
    pub fn has_open_transaction(&self, producer_id: i64, epoch: i16) -> bool {
        self.producers.has_open_transaction(producer_id, epoch)
    }

    /// Time of the last batch of the open transaction that has been silent longest; none if no
    /// transaction is open.
    pub fn stalest_open_transaction_ms(&self) -> Option<i64> {
        self.producers.stalest_open_ms()
    }

    /// The producers with state in the log.
    pub fn producer_states(&self) -> Vec<ProducerState> {
        self.producers.states()
    }

    /// Removes producers without a batch for `producer.id.expiration.ms` and without an open
    /// transaction; returns their number.
    pub fn expire_producers(&mut self, now_ms: i64) -> usize {
        self.producers.expire(now_ms, self.config.producer_id_expiration_ms)
    }

    /// Trims the indexes to their entries, writes a producer snapshot and makes everything durable,
    /// so that the next opening needs no scan. Returns the recovery point. Nothing is written if
    /// nothing changed. Blocks.
    ///
    /// # Errors
    /// A failing disk, or a partition that is offline: then the shutdown is not a clean one.
    pub fn close(mut self) -> Result<i64, LogError> {
        self.refuse_offline()?;
        let end = self.partition.log_end();
        self.active.cut_remains(&*self.disk)?;
        self.active.close_times(&*self.disk, &self.config)?;
        self.active.trim(&*self.disk)?;
        if self.active.unmap(&*self.disk)? {
            self.active.sync(&*self.disk)?;
        }
        if end > self.snapshot_at && self.partition.size_bytes() > 0 {
            self.producers.store(&*self.disk, &self.partition.dir(), end)?;
            crate::producers::snapshot::sync(&*self.disk, &self.partition.dir(), end)?;
            self.partition.note_new_name();
        }
        self.partition.flush()
    }

    /// Asserts the invariant between two operations: the active segment is the last one of the
    /// list.
    fn assert_active_is_last(&self) {
        let segments = self.partition.segments.load();
        let is_last = segments.last().is_some_and(|last| Arc::ptr_eq(last, &self.active.segment));
        assert!(is_last, "{} is active, and not the last segment", self.active.segment);
    }

    /// Removes epochs that begin at or above the log's new end. A log that this broker leads keeps
    /// its present epoch, from that end on.
    fn cut_epochs(&mut self, log_end: i64) -> Result<(), LogError> {
        let known = self.partition.epochs.load_full();
        let mut epochs = Epochs::clone(&known);
        epochs.truncate_end(log_end);
        if self.led_in.is_some() {
            epochs.assign(self.leader_epoch, log_end);
        }
        if epochs == *known { Ok(()) } else { self.store_epochs(epochs) }
    }

    /// Stores the current epoch on disk, before the first batch that has it.
    fn store_new_epoch(&mut self) -> Result<(), LogError> {
        if !self.epochs_stored {
            self.store_epochs(Epochs::clone(&self.partition.epochs.load()))?;
        }
        Ok(())
    }

    fn store_epochs(&mut self, epochs: Epochs) -> Result<(), LogError> {
        epochs.store(&*self.disk, &self.partition.dir())?;
        self.partition.note_new_name();
        self.partition.publish_epochs(epochs);
        self.epochs_stored = true;
        Ok(())
    }

    /// Refuses records: also while the storage accepts none.
    fn refuse_records(&self) -> Result<(), LogError> {
        self.refuse_offline()?;
        if self.partition.refuses_records() {
            return Err(LogError::Refuses { dir: self.partition.dir().to_path_buf() });
        }
        Ok(())
    }

    fn refuse_offline(&self) -> Result<(), LogError> {
        if self.partition.is_offline() {
            return Err(LogError::Offline { dir: self.partition.dir().to_path_buf() });
        }
        Ok(())
    }
}

/// Stores leader epochs that differ from those of their file. False if the disk is full: the first
/// batch stores them then.
fn store_repaired(epochs: &Epochs, options: &OpenOptions) -> Result<bool, LogError> {
    match epochs.store(&*options.disk, &options.dir) {
        Err(error) if error.source_io().is_some_and(is_short) => {
            tracing::warn!(%error, "cannot write the corrected leader epochs; they are written with the next batch");
            Ok(false)
        }
        other => other.map(|()| true),
    }
}

//! The copy of a log: reads batches of the log and appends them as a follower does.

use std::sync::atomic::Ordering;
use std::time::Duration;

use levada_log::checkpoint::PartitionMetadata;
use levada_log::{AppendError, LogError, OpenOptions, ReadError, ReplicaSource, Writer};
use levada_process::clock::now_ms;
use levada_process::tasks::{Panicked, guarded};

use super::Move;
use super::switch::Switched;
use crate::replica::Replicas;
use crate::replica::data_dir::DataDir;
use crate::replica::log_config::log_config;
use crate::replica::throttle::number;

/// Maximum number of bytes that are copied at a time, but for a larger batch.
const STEP_MAX: u32 = 1 << 20;
/// Minimum bytes of a step, if the rate requires small steps.
const STEP_MIN: u32 = 16 << 10;

/// Pause of a copy that waits for compaction or for the metadata.
const REST: Duration = Duration::from_millis(50);
/// Number of pauses between two requests to the metadata.
const RESTS_PER_REQUEST: u32 = 20;

/// The reason why a move has failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum MoveError {
    /// The log cannot be read.
    #[error("cannot read the log: {0}")]
    Read(#[from] ReadError),
    /// The copy cannot be written.
    #[error("cannot write the copy: {0}")]
    Write(#[from] AppendError),
    /// A file of the copy cannot be written or synced.
    #[error("cannot write the copy: {0}")]
    Storage(#[from] LogError),
    /// A read returned no whole batch.
    #[error("no batch can be read at offset {0}: check the log with `levada storage check`")]
    Stuck(i64),
    /// The copying code has panicked.
    #[error(transparent)]
    Panicked(Panicked),
}

/// End of a move.
pub(super) enum Ending {
    Moved,
    /// The move was cancelled, the partition or a directory was removed, or the broker stops.
    Ended,
}

/// Result of one step.
pub(super) enum Step {
    Copied(u64),
    /// The log changed during the copy.
    Again,
    CaughtUp,
}

/// A move, and the replicas that it belongs to.
#[derive(Clone, Copy)]
pub(super) struct Job<'a> {
    pub(super) replicas: &'a Replicas,
    pub(super) one: &'a Move,
}

impl<'a> Job<'a> {
    pub(super) fn new(replicas: &'a Replicas, one: &'a Move) -> Self {
        Self { replicas, one }
    }

    /// Carries out the move. Blocks until it has ended.
    pub(super) fn carry_out(self) {
        let (name, to) = (self.one.partition.name(), self.one.to.display());
        let ending = if self.await_cleaner() {
            let ending = guarded("move of a replica", || self.copy_log());
            let ending = ending.unwrap_or_else(|panicked| Err(MoveError::Panicked(panicked)));
            self.replicas.cleaner.give_back(&self.one.future.key);
            ending
        } else {
            Ok(Ending::Ended)
        };
        self.replicas.moves.forget(self.one);
        match &ending {
            Ok(Ending::Moved) => {
                tracing::info!(partition = name, %to, "the replica has moved to another directory");
                return;
            }
            Ok(Ending::Ended) => {
                tracing::info!(partition = name, %to, "the move of the replica ended before the copy was complete")
            }
            Err(error) => {
                if self.replicas.dirs.around(self.one.partition.log()).has_failed() {
                    tracing::error!(partition = name, %to, %error, "cannot move the replica: its directory has failed");
                } else if self.one.partition.log().is_offline() {
                    tracing::error!(partition = name, %to, %error, "cannot move the replica: its log is offline; free disk space, then restart the broker");
                } else {
                    tracing::error!(partition = name, %to, %error, "cannot move the replica; it stays in its directory until another request");
                }
            }
        }
        if let Err(MoveError::Storage(error) | MoveError::Write(AppendError::Storage(error))) = &ending
            && let Some(dir) = self.destination()
            && matches!(error, LogError::Io { path, .. } if path.starts_with(dir.path()))
        {
            dir.report(error);
        }
        self.leave();
    }

    /// Ends the move. If its last step runs, that is waited for.
    pub(super) fn cancel(self) {
        *self.one.cancelled.lock() = true;
        self.replicas.moves.forget(self.one);
        if !self.one.has_begun.swap(true, Ordering::AcqRel) {
            self.leave();
        }
    }

    /// Removes the copy of a move that has ended, unless a later start may need it.
    pub(super) fn leave(self) {
        let Some(dir) = self.replicas.dirs.iter().find(|dir| dir.path() == self.one.to) else { return };
        let log = self.one.partition.log();
        // If a log is offline in a working directory, the last step has failed: the next start may
        // find it in either place, and must not create a new one as well.
        let is_in_doubt = log.is_offline() && !self.replicas.dirs.around(log).has_failed();
        if !is_in_doubt && self.replicas.dirs.stay(&self.one.future.key, dir) {
            self.replicas.dirs.note_placed(std::slice::from_ref(&self.one.future.key));
            self.replicas.moves.announced.notify_one();
        }
        let is_kept = self.replicas.moves.pace.is_halted() || log.is_offline() || dir.has_failed();
        if !is_kept && dir.disk().list(&self.one.future.path).is_ok() {
            self.replicas.dirs.remove(&self.one.future.path);
        }
    }

    /// True if the move no longer has a goal.
    pub(super) fn has_ended(self) -> bool {
        let is_out =
            self.one.partition.is_deleted() || self.one.partition.log().is_offline() || self.one.is_over();
        is_out
            || self.one.is_cancelled()
            || self.replicas.moves.pace.is_halted()
            || self.destination().is_none()
    }

    pub(super) fn destination(self) -> Option<&'a DataDir> {
        self.replicas.dirs.online().find(|dir| dir.path() == self.one.to)
    }

    /// Excludes the log from compaction, which would change the copied segments.
    fn await_cleaner(self) -> bool {
        while !self.has_ended() {
            if self.replicas.cleaner.take(&self.one.future.key) {
                return true;
            }
            self.replicas.moves.pace.rest(REST);
        }
        false
    }

    fn copy_log(self) -> Result<Ending, MoveError> {
        let (log, mut rests) = (self.one.partition.shared_log(), 0);
        let Some(mut copy) = self.open_copy()? else { return Ok(Ending::Ended) };
        self.one.copy.store(Some(copy.partition().clone()));
        while !self.has_ended() {
            match advance(&log, &mut copy, self.step_bytes())? {
                Step::Copied(bytes) => self.pay(bytes),
                Step::Again => {}
                Step::CaughtUp if !self.is_expected() => {
                    if rests % RESTS_PER_REQUEST == 0 {
                        self.announce();
                    }
                    rests += 1;
                    self.replicas.moves.pace.rest(REST);
                }
                Step::CaughtUp => {
                    // Most of it now: appends wait for the rest.
                    copy.flush()?;
                    match self.switch(copy)? {
                        Switched::Ended(ending) => return Ok(ending),
                        Switched::Behind(behind) => copy = *behind,
                    }
                }
            }
        }
        Ok(Ending::Ended)
    }

    /// Creates the copy, without batches.
    fn open_copy(self) -> Result<Option<Writer>, LogError> {
        let Some(dir) = self.destination() else { return Ok(None) };
        let (log, topic) = (self.one.partition.log(), self.one.partition.config());
        let options = OpenOptions {
            config: log_config(&self.replicas.config.load(), &topic),
            log_start: log.log_start(),
            high_watermark: Some(0),
            disk: dir.disk().clone(),
            background: dir.background().clone(),
            watch: dir.watch(),
            ..OpenOptions::new(&self.one.future.path)
        };
        let (mut copy, _) = Writer::open(options, now_ms())?;
        copy.resign();
        let metadata = PartitionMetadata { topic_id: self.one.partition.topic_id().to_bytes() };
        metadata.store(&**dir.disk(), &self.one.future.path)?;
        Ok(Some(copy))
    }

    /// Reports to the metadata that the replica is about to be in its new directory.
    fn announce(self) {
        if let Some(dir) = self.destination() {
            self.replicas.dirs.arrive(&self.one.future.key, dir);
            self.replicas.dirs.note_placed(std::slice::from_ref(&self.one.future.key));
            self.replicas.moves.announced.notify_one();
        }
    }

    /// True if the metadata names the new directory.
    fn is_expected(self) -> bool {
        let image = self.replicas.metadata.image();
        let topic = image.topic_by_id(self.one.partition.topic_id());
        let Some(found) = topic.and_then(|topic| topic.partition(self.one.partition.index())) else {
            return false;
        };
        let at = found.replicas.iter().position(|replica| *replica == self.replicas.node_id);
        let named = at.and_then(|at| found.directories.get(at));
        self.destination().is_some_and(|dir| named == Some(&dir.id()))
    }

    fn rate(self) -> f64 {
        number(&self.replicas.config.load(), "replica.alter.log.dirs.io.max.bytes.per.second") as f64
    }

    fn step_bytes(self) -> u32 {
        ((self.rate() / 4.0) as u32).clamp(STEP_MIN, STEP_MAX)
    }

    /// Waits until copied bytes are paid for, at the rate in force.
    fn pay(self, bytes: u64) {
        let (pace, rate) = (&self.replicas.moves.pace, self.rate());
        pace.go_on(bytes, rate);
        while !pace.debt().is_zero() && !self.has_ended() {
            if self.rate() != rate {
                pace.forgive();
            }
            pace.rest(pace.debt());
        }
    }
}

/// Copies the next batches of a log.
pub(super) fn advance(
    log: &levada_log::Partition,
    copy: &mut Writer,
    max_bytes: u32,
) -> Result<Step, MoveError> {
    let cuts = log.cuts();
    align(log, copy)?;
    let offset = copy.partition().log_end();
    let batches = match log.read_batches(offset, max_bytes) {
        Err(ReadError::OutOfRange { .. } | ReadError::Remote { .. }) => return Ok(Step::Again),
        read => read?,
    };
    if log.cuts() != cuts {
        return Ok(Step::Again);
    }
    if batches.is_empty() {
        return Ok(Step::CaughtUp);
    }
    let source = ReplicaSource { leader_epoch: i32::MAX, log_start: log.log_start() };
    let appended = copy.append_replica(&batches, source, now_ms())?;
    if appended.bytes == 0 { Err(MoveError::Stuck(offset)) } else { Ok(Step::Copied(appended.bytes)) }
}

/// Truncates the copy where its batches differ from the log's, as a follower does by leader epochs.
/// A copy without a common batch restarts at the log's start, or where its local part begins.
fn align(log: &levada_log::Partition, copy: &mut Writer) -> Result<(), LogError> {
    loop {
        let (start, end, copied) = (log.log_start(), log.log_end(), copy.partition().log_end());
        let local_start = log.local_log_start();
        let (epoch, latest) = (copy.partition().latest_epoch(), log.latest_epoch());
        // The log begins earlier than before if it was truncated below its start.
        let is_outside = copied < local_start || copy.partition().log_start() > start;
        let keep = if is_outside {
            None
        } else if epoch < 0 {
            Some(copied).filter(|copied| *copied <= end)
        } else if epoch > latest {
            let (known, ends) = copy.partition().epoch_end_offset(latest);
            Some(ends.min(end)).filter(|_| known >= 0)
        } else {
            let (known, ends) = log.epoch_end_offset(epoch);
            let own = if known == epoch { copied } else { copy.partition().epoch_end_offset(known).1 };
            Some(ends.min(own)).filter(|keep| known >= 0 && *keep >= 0)
        };
        match keep {
            Some(keep) if keep >= copied => return Ok(()),
            Some(keep) if keep >= local_start => drop(copy.truncate(keep, now_ms())?),
            _ => {
                let restarted = match log.tiered_state(now_ms())? {
                    Some(state) => copy.restart_after(&state, now_ms())?,
                    None => copy.restart_at(start, now_ms())?,
                };
                return restarted.remove();
            }
        }
    }
}

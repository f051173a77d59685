//! Partitions that another broker leads: the leader's records are appended, and logs that differ
//! are truncated.

use std::sync::Arc;

use levada_cluster::replication::apply::{Applied, Attempt, apply, log_end, rebuild};
use levada_cluster::replication::fetcher::PartitionKey;
use levada_cluster::replication::follower::{FollowedLog, LogEnd, Outcome, Task};
use levada_log::{AppendError, Discarded, LogError, TieredState, Writer};
use levada_process::clock::now_ms;

use crate::replica::discarded::Removals;
use crate::replica::{Checkpoints, Partition, Partitions};

/// Position of a log that begins to follow a leader.
pub(crate) struct FollowStart {
    pub(crate) partition: Arc<Partition>,
    pub(crate) leader_epoch: i32,
    pub(crate) log: FollowedLog,
}

/// Does the tasks of followers on their logs.
pub(crate) struct FollowerTasks {
    pub(super) partitions: Arc<Partitions>,
    pub(super) checkpoints: Arc<Checkpoints>,
    pub(super) removals: Arc<Removals>,
}

impl FollowerTasks {
    /// The position of a partition that `leader` leads, another node than this one; none if the
    /// partition is not served, or has another leader by now.
    pub(crate) fn follow_start(&self, key: &PartitionKey, leader: i32) -> Option<FollowStart> {
        let partition = self.partitions.by_id(key.0, key.1)?;
        let leadership = partition.leadership();
        let follows = leadership.leader() == leader && !leadership.is_leader() && !partition.is_deleted();
        let leader_epoch = leadership.leader_epoch();
        let is_complete = leadership.is_complete() && !partition.is_in_doubt();
        let log = partition.shared_log();
        drop(leadership);
        let (end, high_watermark) = (log_end(&log), log.high_watermark());
        let log = FollowedLog { end, high_watermark, is_complete };
        follows.then_some(FollowStart { partition, leader_epoch, log })
    }

    /// Does a task of a follower, if the partition is still served, follows in this leader epoch,
    /// and ends where the task was decided: while the number of fetchers changes, two threads may
    /// have tasks for one log. A partition of the same name that was opened since has another log.
    /// Blocks on the disk.
    pub(crate) fn carry_out(
        &self,
        partition: &Partition,
        (leader_epoch, end): (i32, LogEnd),
        task: &Task,
    ) -> Outcome {
        // The end of a replica in sync counts. The driver is about to be replaced.
        let is_complete = || partition.leadership().is_complete() && !partition.is_in_doubt();
        if matches!(task, Task::Lower(_)) && is_complete() {
            return Outcome::Superseded;
        }
        let high_watermark = partition.log().high_watermark();
        let work = |writer: &mut Writer| apply(writer, task, leader_epoch, end, now_ms());
        let applied = match self.attempt(partition, leader_epoch, work) {
            Ok(Attempt::Moved(end)) => return Outcome::Moved(end),
            Ok(Attempt::Applied(applied)) => applied,
            Ok(Attempt::Emptied(discarded)) => {
                self.retire_deleted(partition, discarded);
                self.checkpoints.store();
                return self.carry_out(partition, (leader_epoch, end), task);
            }
            Err(outcome) => return outcome,
        };
        if applied.end.offset < end.offset {
            // The recovery point is beyond the end.
            self.checkpoints.note_misleading();
            // Before anything is appended there.
            self.checkpoints.lower_cleaner(partition, applied.end.offset);
            if !matches!(task, Task::Lower(_)) {
                log_truncation(partition, (end.offset, applied.end.offset), high_watermark);
            }
        }
        if partition.log().high_watermark() < high_watermark {
            // With the old one, the log would open after another crash as if the records that come
            // there were committed.
            self.checkpoints.store();
        }
        self.clear_away(partition, applied)
    }

    /// Begins the log of a follower after its remote part, under the conditions of
    /// [`FollowerTasks::carry_out`]. Blocks on the disk.
    pub(crate) fn begin_behind(
        &self,
        partition: &Partition,
        (leader_epoch, end): (i32, LogEnd),
        state: &TieredState,
    ) -> Outcome {
        let work = |writer: &mut Writer| rebuild(writer, state, end, now_ms());
        match self.attempt(partition, leader_epoch, work) {
            Ok(Attempt::Moved(end)) => Outcome::Moved(end),
            Ok(Attempt::Applied(applied)) => {
                tracing::info!(
                    partition = partition.name(),
                    from = end.offset,
                    to = applied.end.offset,
                    log_start = state.log_start,
                    "the log begins after the records that only remote storage has"
                );
                // The recovery point and the log start are those of the former log.
                self.checkpoints.store();
                self.clear_away(partition, applied)
            }
            Ok(Attempt::Emptied(_)) => unreachable!("only a task with marks empties a log"),
            Err(outcome) => outcome,
        }
    }

    /// Works on a log that follows in this leader epoch.
    fn attempt(
        &self,
        partition: &Partition,
        leader_epoch: i32,
        work: impl FnOnce(&mut Writer) -> Result<Attempt, AppendError>,
    ) -> Result<Attempt, Outcome> {
        if partition.drop_claims() {
            self.checkpoints.store();
        }
        match partition.follow(leader_epoch, work) {
            None if partition.log().is_offline() => Err(Outcome::Offline),
            None => Err(Outcome::Superseded),
            Some(Ok(attempt)) => Ok(attempt),
            Some(Err(error)) => Err(self.failed(partition, &error)),
        }
    }

    /// Removes the files that a task has made superfluous, and wakes the waiters.
    fn clear_away(&self, partition: &Partition, applied: Applied) -> Outcome {
        if let Some(discarded) = applied.discarded {
            // The log of a tiered topic may begin before its first segment, so that a start of the
            // broker does not find the log's start by itself.
            let log = partition.log();
            if log.log_start() > log.first_base() || partition.config().tiers.is_enabled {
                self.checkpoints.note_misleading();
            }
            self.retire_deleted(partition, discarded);
        }
        applied.retired.into_iter().for_each(|retired| self.removals.discard(partition, retired));
        partition.waiters().wake();
        Outcome::Done(applied.end)
    }

    /// Prepares a log for the next fetch, whose offset shows the leader which records are here:
    /// syncs them, if the topic demands that. Another thread may have appended them, since threads
    /// take turns when the replica joins those in sync, and when the leader or the number of
    /// fetchers changes. Returns the log start; none if the log cannot be synced. Blocks.
    pub(crate) fn prepare_fetch(&self, partition: &Partition) -> Option<i64> {
        match partition.sync_replicated() {
            Ok(()) => Some(partition.log().log_start()),
            Err(error) => {
                self.failed(partition, &error.into());
                None
            }
        }
    }

    /// Removes the segments from the log that the leader has deleted.
    fn retire_deleted(&self, partition: &Partition, discarded: Discarded) {
        if let Err(error) = self.removals.retire(partition, discarded) {
            tracing::warn!(partition = partition.name(), %error, "cannot remove segments below the leader's log start");
        }
    }

    fn failed(&self, partition: &Partition, error: &AppendError) -> Outcome {
        let log = partition.log();
        if let AppendError::Storage(error) = error {
            log.report_refused_append(error);
        }
        let is_offline = log.is_offline();
        // The directory has its own line.
        let is_told = matches!(error, AppendError::Storage(LogError::Refuses { .. }));
        if !is_told && partition.take_replication_warning(now_ms()) {
            tracing::error!(
                partition = partition.name(),
                %error,
                offline = is_offline,
                "cannot follow the leader of the partition; the broker retries unless the log is offline"
            );
        }
        match (error, is_offline) {
            (AppendError::LeaderEpoch { .. }, _) => Outcome::Superseded,
            (_, true) => Outcome::Offline,
            (_, false) => Outcome::Damaged(log_end(log)),
        }
    }
}

fn log_truncation(partition: &Partition, (from, to): (i64, i64), high_watermark: i64) {
    let name = partition.name();
    if to < high_watermark {
        tracing::warn!(
            partition = name,
            from,
            to,
            high_watermark,
            "the log was truncated below its high watermark: after an unclean election, records that were acknowledged may be lost"
        );
    } else {
        tracing::info!(
            partition = name,
            from,
            to,
            "truncated the log to the point where it diverges from the leader's log"
        );
    }
}

//! The tasks of a follower on its log: appends, truncations, restarts, and the marks of the leader.

use levada_log::{AppendError, Discarded, ReplicaSource, Retired, TieredState, Writer};

use super::follower::{LeaderMarks, LogEnd, Task, truncation_offset};

/// Result of a task on the log.
#[derive(Debug)]
pub struct Applied {
    /// The end of the log.
    pub end: LogEnd,
    /// Segments below the leader's log start, to be removed.
    pub discarded: Option<Discarded>,
    /// Files of a log that was restarted, to be removed.
    pub retired: Option<Retired>,
}

/// Result of an attempt to do a task.
#[derive(Debug)]
pub enum Attempt {
    /// The task is done.
    Applied(Applied),
    /// The log start has moved to the log's end. It has to be in the checkpoint before the task is
    /// attempted again, which does the rest. The segments below it are to be removed.
    Emptied(Discarded),
    /// The log ends here, and not where the task was decided: nothing was done.
    Moved(LogEnd),
}

/// End of a log.
pub fn log_end(log: &levada_log::Partition) -> LogEnd {
    LogEnd { offset: log.log_end(), epoch: log.latest_epoch() }
}

/// Does a task on the log if the log still ends at `decided_at`: another thread may have changed
/// the log since the task was decided. The caller has seen to it that the log still follows in
/// `leader_epoch`, and keeps it so until this returns. [`Task::Locate`] is a request, and does
/// nothing here; nor does [`Task::Rebuild`], which [`rebuild`] does with what remote storage has.
///
/// # Errors
/// Batches that are damaged or do not continue the log, or a failing disk.
pub fn apply(
    writer: &mut Writer,
    task: &Task,
    leader_epoch: i32,
    decided_at: LogEnd,
    now_ms: i64,
) -> Result<Attempt, AppendError> {
    let end = log_end(writer.partition());
    if end != decided_at {
        return Ok(Attempt::Moved(end));
    }
    if let Task::Append { marks, .. } = task
        && is_unconfirmed(writer.partition(), *marks, leader_epoch)
    {
        writer.partition().raise_high_watermark(end.offset);
        return Ok(Attempt::Emptied(writer.advance_log_start(end.offset)?));
    }
    change(writer, task, leader_epoch, now_ms).map(Attempt::Applied)
}

/// True if the leader has deleted all that this log has, and nothing shows that its records were
/// the same. A leader knows the epochs of its own records only: the end of any earlier epoch is,
/// for it, its log start. A follower may keep records of a former leader below that offset. A crash
/// that brought an older log start back would show them.
///
/// False for a log whose last record is of the present epoch: the log has that record, and all
/// records before it, from this leader.
pub(super) fn is_unconfirmed(log: &levada_log::Partition, leader: LeaderMarks, leader_epoch: i32) -> bool {
    let end = log_end(log);
    let deleted = leader.log_start.min(leader.high_watermark);
    log.log_start() < end.offset && end.offset <= deleted && end.epoch < leader_epoch
}

fn change(writer: &mut Writer, task: &Task, leader_epoch: i32, now_ms: i64) -> Result<Applied, AppendError> {
    let log = writer.partition().clone();
    let (mut discarded, mut retired) = (None, None);
    match task {
        Task::Append { records, marks } => {
            if !records.is_empty() {
                let leader = ReplicaSource { leader_epoch, log_start: marks.log_start };
                writer.append_replica(records, leader, now_ms)?;
            }
            // The leader's may be above this log's end: its other replicas are ahead.
            log.raise_high_watermark(marks.high_watermark.min(log.log_end()));
            let log_start = marks.log_start.min(log.high_watermark());
            if log_start > log.log_start() {
                discarded = Some(writer.advance_log_start(log_start)?);
            }
        }
        Task::Diverged(leader) => {
            let own = log.epoch_end_offset(leader.epoch);
            writer.truncate(truncation_offset(*leader, own, log.log_end()), now_ms)?;
        }
        Task::Truncate(offset) => {
            writer.truncate(*offset, now_ms)?;
        }
        Task::Restart(offset) => retired = Some(writer.restart_at(*offset, now_ms)?),
        Task::Lower(offset) => {
            if log.log_start() == log.log_end() && *offset < log.log_end() {
                retired = Some(writer.restart_at(*offset, now_ms)?);
            }
        }
        Task::Locate(_) | Task::Rebuild(_) => {}
    }
    Ok(Applied { end: log_end(&log), discarded, retired })
}

/// Begins the log again after its remote part, if it still ends at `decided_at`, as [`apply`] does.
///
/// # Errors
/// State that no log can have, or a failing disk.
pub fn rebuild(
    writer: &mut Writer,
    state: &TieredState,
    decided_at: LogEnd,
    now_ms: i64,
) -> Result<Attempt, AppendError> {
    let end = log_end(writer.partition());
    if end != decided_at {
        return Ok(Attempt::Moved(end));
    }
    let retired = Some(writer.restart_after(state, now_ms)?);
    Ok(Attempt::Applied(Applied { end: log_end(writer.partition()), discarded: None, retired }))
}

#[cfg(test)]
mod tests;

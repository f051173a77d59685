//! One partition that another broker leads: the offset to fetch next, truncation to the point where
//! the logs diverge, offsets that the leader does not have, errors and delays.
//!
//! A response of the leader leads to at most one [`Task`] for the log; its [`Outcome`] may lead to
//! another. A response counts only if it belongs to the present offset and leader epoch.

use bytes::Bytes;
use levada_wire::error_code::ErrorCode;
use levada_wire::fetch::{EpochEnd, FetchedPartition};

#[cfg(test)]
mod tests;

/// End of the local log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogEnd {
    /// The offset of the next record.
    pub offset: i64,
    /// The latest leader epoch in the log, -1 for none.
    pub epoch: i32,
}

/// Value of an offset that is not known.
const NO_OFFSET: i64 = -1;

/// State of the local log when a leader begins to be followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FollowedLog {
    /// End of the local log.
    pub end: LogEnd,
    /// The high watermark.
    pub high_watermark: i64,
    /// True if the controller counts this replica as in sync, or as eligible to lead: records that
    /// its log lacks were deleted.
    pub is_complete: bool,
}

/// Offsets of the leader that a follower applies after an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaderMarks {
    /// The high watermark. The follower's is the lower of this and its log's end.
    pub high_watermark: i64,
    /// The start of the log.
    pub log_start: i64,
}

/// An end of the leader's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// The offset of the next record.
    Latest,
    /// First offset of the leader's log.
    Earliest,
    /// The first offset in the leader's local log; earlier ones are only in remote storage.
    EarliestLocal {
        /// The first offset of the leader's log, with its remote part.
        log_start: i64,
    },
}

/// Position from which a log continues whose earlier records are in remote storage only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TieredStart {
    /// The first offset of the leader's log, with its remote part.
    pub log_start: i64,
    /// The first offset that the leader has locally.
    pub local_start: i64,
    /// The leader epoch of that offset.
    pub epoch: i32,
}

/// Work of the driver for a partition. It must be done only while the partition still follows in
/// the leader epoch that [`Follower::leader_epoch`] had, and while the log ends where
/// [`Follower::end`] was: otherwise a late task could replace what another thread has appended
/// since.
#[derive(Clone, Debug, PartialEq)]
pub enum Task {
    /// Append these batches, which may be none, then apply the leader's offsets.
    Append {
        /// Whole batches as the leader has them; the last one may be cut short.
        records: Bytes,
        /// Offsets of the leader.
        marks: LeaderMarks,
    },
    /// Truncate the log to [`truncation_offset`]: the leader's epoch ends here.
    Diverged(EpochEnd),
    /// Truncate the log to this offset.
    Truncate(i64),
    /// Delete the log, and begin an empty one at this offset.
    Restart(i64),
    /// Begin the log at this offset, if the log is empty and begins after it.
    Lower(i64),
    /// Request an end offset of the leader's log (ListOffsets).
    Locate(Bound),
    /// Get leader epochs and producers from remote storage, delete the log, and begin an empty one
    /// after the remote segment that ends before the leader's local log.
    Rebuild(TieredStart),
}

/// Outcome of a [`Task`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The log has changed, and ends here.
    Done(LogEnd),
    /// The leader's log ends or begins at this offset.
    Located(i64),
    /// The leader's local log begins at this offset, in this leader epoch.
    LocatedLocal(i64, i32),
    /// The leader, or the way to it, has failed with this error code.
    Refused(i16),
    /// The task has failed: the batches are damaged or do not continue the log, or the disk
    /// accepted none or only the first of them. The log ends here.
    Damaged(LogEnd),
    /// The log ends here, and not where the task was decided: nothing was done.
    Moved(LogEnd),
    /// The storage has failed.
    Offline,
    /// The partition no longer follows in this leader epoch, so nothing was done.
    Superseded,
}

/// Cause for which a partition is not fetched until the metadata changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Halt {
    /// The leader has a later leader epoch than this broker's metadata.
    Fenced,
    /// The storage of this broker has failed.
    Offline,
    /// The leader has moved the records to remote storage, which this broker does not use.
    Tiered,
}

/// State of a partition that another broker leads.
#[derive(Clone, Debug)]
pub struct Follower {
    leader_epoch: i32,
    end: LogEnd,
    until_ms: Option<i64>,
    halt: Option<Halt>,
    lag: Option<i64>,
    errors: u64,
    /// True if the leader may count this log's end: earlier records that the log lacks are missing
    /// in the leader too, or were deleted.
    is_placed: bool,
    /// Number of consecutive tasks that left the log as it was, because it does not take the
    /// batches.
    setbacks: u32,
}

/// Offset and epochs that a fetch named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Leader epoch in the request.
    pub leader_epoch: i32,
    /// The first offset wanted.
    pub offset: i64,
    /// The epoch of the last record before it.
    pub last_epoch: i32,
}

/// Offset to which a follower truncates its log, where the leader's largest epoch not above the
/// follower's last one ends at `leader`. `own` is the follower's largest epoch not above the
/// leader's, with its end; (-1, -1) if unknown. After a cut to an epoch that the leader does not
/// have, the next fetch compares again.
pub fn truncation_offset(leader: EpochEnd, own: (i32, i64), log_end: i64) -> i64 {
    let (own_epoch, own_end) = own;
    let offset = match own_epoch {
        -1 => leader.end_offset.min(log_end),
        epoch if epoch == leader.epoch => own_end.min(leader.end_offset).min(log_end),
        _ => own_end.min(log_end),
    };
    assert!(offset <= log_end, "a truncation to {offset} would extend the log, which ends at {log_end}");
    offset
}

impl Follower {
    /// A partition that is led in this epoch. A log without leader epochs is first truncated to its
    /// high watermark, since there is nothing to compare.
    pub fn new(leader_epoch: i32, log: FollowedLog) -> (Self, Option<Task>) {
        let FollowedLog { end, high_watermark, is_complete } = log;
        let cut = (end.epoch < 0 && high_watermark < end.offset).then_some(Task::Truncate(high_watermark));
        let follower = Self {
            leader_epoch,
            end,
            until_ms: None,
            halt: None,
            lag: None,
            errors: 0,
            is_placed: is_complete,
            setbacks: 0,
        };
        (follower, cut)
    }

    /// The leader epoch that is followed.
    pub fn leader_epoch(&self) -> i32 {
        self.leader_epoch
    }

    /// The end of the log, according to the outcomes that this machine has received.
    pub fn end(&self) -> LogEnd {
        self.end
    }

    /// Number of records up to the leader's high watermark; none before the first response.
    pub fn lag(&self) -> Option<i64> {
        self.lag
    }

    /// True if the log has reached the leader's high watermark.
    pub fn is_in_sync(&self) -> bool {
        self.lag == Some(0)
    }

    /// The cause for which the partition is not fetched until the metadata changes.
    pub fn halt(&self) -> Option<Halt> {
        self.halt
    }

    /// Number of responses and tasks that failed.
    pub fn errors(&self) -> u64 {
        self.errors
    }

    /// Number of consecutive tasks that did not change the log: most likely the leader's next
    /// response has the same batches.
    pub fn setbacks(&self) -> u32 {
        self.setbacks
    }

    /// The end of a delay.
    pub fn delayed_until(&self) -> Option<i64> {
        self.until_ms.filter(|_| self.halt.is_none())
    }

    /// The next fetch; none while the partition is halted or delayed.
    pub fn wanted(&self, now_ms: i64) -> Option<Asked> {
        let is_ready = self.halt.is_none() && self.until_ms.is_none_or(|until_ms| until_ms <= now_ms);
        is_ready.then_some(self.asks())
    }

    fn asks(&self) -> Asked {
        let offset = if self.lacks_place() { NO_OFFSET } else { self.end.offset };
        Asked { leader_epoch: self.leader_epoch, offset, last_epoch: self.end.epoch }
    }

    /// True if the leader must not count this log's end yet. An empty log without an epoch has its
    /// offset from a former leader. After an unclean election the present one may have other
    /// records before it, and would take them for replicated. The follower requests an offset that
    /// no log has: the leader refuses it without counting it, and tells where its log begins.
    fn lacks_place(&self) -> bool {
        !self.is_placed && self.end.epoch < 0 && self.end.offset > 0
    }

    /// Delays the next fetch until this time.
    pub fn delay(&mut self, until_ms: i64) {
        self.until_ms = Some(self.until_ms.map_or(until_ms, |already| already.max(until_ms)));
    }

    /// Processes the response to a fetch from this position. A failure delays the next fetch until
    /// `retry_ms`.
    pub fn answered(&mut self, asked: Asked, answer: FetchedPartition<Bytes>, retry_ms: i64) -> Option<Task> {
        if asked != self.asks() || self.halt.is_some() {
            return None;
        }
        self.until_ms = None;
        match ErrorCode::of_code(answer.error_code) {
            Some(ErrorCode::None | ErrorCode::OffsetOutOfRange) if self.lacks_place() => {
                Some(Task::Locate(Bound::Earliest))
            }
            Some(ErrorCode::None) => match answer.diverging_epoch {
                Some(end) => Some(Task::Diverged(end)),
                None => {
                    self.is_placed = true;
                    let records = answer.records.unwrap_or_default();
                    let (high_watermark, log_start) = (answer.high_watermark, answer.log_start_offset);
                    if records.is_empty() {
                        self.note_lag(high_watermark);
                    }
                    Some(Task::Append { records, marks: LeaderMarks { high_watermark, log_start } })
                }
            },
            Some(ErrorCode::OffsetOutOfRange) => Some(Task::Locate(Bound::Latest)),
            Some(ErrorCode::OffsetMovedToTieredStorage) => {
                Some(Task::Locate(Bound::EarliestLocal { log_start: answer.log_start_offset }))
            }
            _ => {
                self.refused(answer.error_code, retry_ms);
                None
            }
        }
    }

    /// Processes the outcome of a task. A failure delays the next fetch until `retry_ms`.
    pub fn done(&mut self, task: &Task, outcome: Outcome, retry_ms: i64) -> Option<Task> {
        match (outcome, task) {
            (Outcome::Done(end), _) => {
                self.setbacks = 0;
                let before = std::mem::replace(&mut self.end, end);
                match task {
                    Task::Append { records, marks } => {
                        debug_assert!(end.offset >= before.offset, "an append shortened the log");
                        // Batches of a later epoch than the requested one are not appended: the
                        // metadata with that epoch is on its way.
                        if !records.is_empty() && before.offset == end.offset {
                            self.failed(retry_ms);
                        }
                        self.note_lag(marks.high_watermark);
                    }
                    Task::Truncate(_) | Task::Diverged(_) if end.offset > before.offset => {
                        panic!("a truncation extended the log from {before:?} to {end:?}")
                    }
                    Task::Restart(_) | Task::Lower(_) | Task::Rebuild(_) => self.is_placed = true,
                    // The same again would lead to the same response.
                    _ if before == end => self.failed(retry_ms),
                    _ => {}
                }
                None
            }
            (Outcome::Located(offset), Task::Locate(Bound::Latest)) if offset < self.end.offset => {
                Some(Task::Truncate(offset))
            }
            (Outcome::Located(_), Task::Locate(Bound::Latest)) => Some(Task::Locate(Bound::Earliest)),
            (Outcome::LocatedLocal(local_start, epoch), Task::Locate(Bound::EarliestLocal { log_start })) => {
                self.begins_locally(TieredStart { log_start: *log_start, local_start, epoch }, retry_ms)
            }
            (Outcome::Located(offset), _) if offset > self.end.offset => Some(Task::Restart(offset)),
            (Outcome::Located(offset), _) if self.lacks_place() => Some(Task::Lower(offset)),
            (Outcome::Damaged(end), _) => {
                self.setbacks = if end == self.end { self.setbacks.saturating_add(1) } else { 0 };
                self.end = end;
                self.failed(retry_ms);
                None
            }
            (Outcome::Located(_) | Outcome::LocatedLocal(..), _) => {
                self.failed(retry_ms);
                None
            }
            (Outcome::Refused(code), _) => {
                self.refused(code, retry_ms);
                None
            }
            (Outcome::Offline, _) => {
                self.errors += 1;
                self.halt = Some(Halt::Offline);
                None
            }
            // Another thread is at work on the log, and will be told to stop.
            (Outcome::Moved(end), _) => {
                self.end = end;
                self.delay(retry_ms);
                None
            }
            // The driver is about to get the replacement.
            (Outcome::Superseded, _) => {
                self.delay(retry_ms);
                None
            }
        }
    }

    /// The rebuild for a leader's local log; none, with a delay, if that log has changed since the
    /// leader's response.
    fn begins_locally(&mut self, start: TieredStart, retry_ms: i64) -> Option<Task> {
        let is_remote = (0..start.local_start).contains(&start.log_start) && start.epoch >= 0;
        if is_remote && self.asks().offset < start.local_start {
            return Some(Task::Rebuild(start));
        }
        self.failed(retry_ms);
        None
    }

    fn note_lag(&mut self, high_watermark: i64) {
        self.lag = Some(high_watermark.saturating_sub(self.end.offset).max(0));
    }

    fn failed(&mut self, retry_ms: i64) {
        self.errors += 1;
        self.delay(retry_ms);
    }

    fn refused(&mut self, code: i16, retry_ms: i64) {
        match ErrorCode::of_code(code) {
            Some(ErrorCode::FencedLeaderEpoch) => self.halt = Some(Halt::Fenced),
            Some(ErrorCode::OffsetMovedToTieredStorage) => self.halt = Some(Halt::Tiered),
            _ => {}
        }
        self.failed(retry_ms);
    }
}

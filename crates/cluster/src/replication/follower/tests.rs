//! A follower against tables, and against model leaders with random epochs.

use levada_wire::produce::LeaderEpoch;
use proptest::prelude::*;

use super::*;

const RETRY_MS: i64 = 1000;

fn follower(offset: i64, epoch: i32) -> Follower {
    let (follower, task) = Follower::new(9, log((offset, epoch), 0));
    assert_eq!(task, None);
    follower
}

fn log((offset, epoch): (i64, i32), high_watermark: i64) -> FollowedLog {
    FollowedLog { end: LogEnd { offset, epoch }, high_watermark, is_complete: true }
}

fn answer(error_code: i16) -> FetchedPartition<Bytes> {
    FetchedPartition { error_code, high_watermark: 7, log_start_offset: 2, ..FetchedPartition::new(0) }
}

#[test]
fn log_without_epochs_is_truncated_to_high_watermark() {
    let (mut follower, task) = Follower::new(9, log((8, -1), 5));
    assert_eq!(task, Some(Task::Truncate(5)));
    follower.done(&Task::Truncate(5), Outcome::Done(LogEnd { offset: 5, epoch: -1 }), RETRY_MS);
    assert_eq!(follower.wanted(0), Some(Asked { leader_epoch: 9, offset: 5, last_epoch: -1 }));
    assert_eq!(Follower::new(9, log((0, -1), 0)).1, None);
}

#[test]
fn fetched_records_are_appended_with_leader_marks() {
    let mut follower = follower(5, 3);
    let asked = follower.wanted(0).unwrap();
    let records = Bytes::from_static(b"batches");
    let fetched = FetchedPartition { records: Some(records.clone()), ..answer(0) };
    let task = follower.answered(asked, fetched, RETRY_MS).unwrap();
    let marks = LeaderMarks { high_watermark: 7, log_start: 2 };
    assert_eq!(task, Task::Append { records, marks });
    assert!(!follower.is_in_sync());
    assert_eq!(follower.done(&task, Outcome::Done(LogEnd { offset: 6, epoch: 4 }), RETRY_MS), None);
    assert_eq!((follower.lag(), follower.is_in_sync()), (Some(1), false));
    assert_eq!(follower.wanted(0), Some(Asked { leader_epoch: 9, offset: 6, last_epoch: 4 }));
}

#[test]
fn empty_fetch_response_keeps_epoch_and_reports_lag() {
    let mut follower = follower(7, 3);
    let asked = follower.wanted(0).unwrap();
    let task = follower.answered(asked, answer(0), RETRY_MS).unwrap();
    let marks = LeaderMarks { high_watermark: 7, log_start: 2 };
    assert_eq!(task, Task::Append { records: Bytes::new(), marks });
    assert!(follower.is_in_sync());
    follower.done(&task, Outcome::Done(LogEnd { offset: 7, epoch: 3 }), RETRY_MS);
    assert_eq!(follower.wanted(0), Some(asked));
}

#[test]
fn refused_records_delay_the_next_fetch() {
    let end = LogEnd { offset: 5, epoch: 3 };
    for outcome in [Outcome::Done(end), Outcome::Damaged(end)] {
        let mut follower = follower(5, 3);
        let fetched = FetchedPartition { records: Some(Bytes::from_static(b"later epoch")), ..answer(0) };
        let asked = follower.wanted(0).unwrap();
        let task = follower.answered(asked, fetched, RETRY_MS).unwrap();
        assert_eq!(follower.done(&task, outcome, RETRY_MS), None);
        assert_eq!((follower.wanted(RETRY_MS - 1), follower.wanted(RETRY_MS)), (None, Some(asked)));
        assert_eq!((follower.errors(), follower.delayed_until()), (1, Some(RETRY_MS)));
    }
}

#[test]
fn partly_failed_append_continues_at_log_end() {
    let mut follower = follower(5, 3);
    let fetched = FetchedPartition { records: Some(Bytes::from_static(b"two segments")), ..answer(0) };
    let task = follower.answered(follower.wanted(0).unwrap(), fetched, RETRY_MS).unwrap();
    let failed = Outcome::Damaged(LogEnd { offset: 6, epoch: 4 });
    assert_eq!((follower.done(&task, failed, RETRY_MS), follower.errors()), (None, 1));
    assert_eq!(follower.wanted(RETRY_MS), Some(Asked { leader_epoch: 9, offset: 6, last_epoch: 4 }));
}

#[test]
fn concurrently_changed_log_is_fetched_from_its_end() {
    let (mut follower, end) = (follower(5, 3), LogEnd { offset: 8, epoch: 4 });
    let task = follower.answered(follower.wanted(0).unwrap(), answer(0), RETRY_MS).unwrap();
    assert_eq!(follower.done(&task, Outcome::Moved(end), RETRY_MS), None);
    assert_eq!((follower.end(), follower.errors(), follower.delayed_until()), (end, 0, Some(RETRY_MS)));
    assert_eq!(follower.wanted(RETRY_MS), Some(Asked { leader_epoch: 9, offset: 8, last_epoch: 4 }));
    // A truncation that was decided for the end before is not taken for one of this log.
    let shorter = LogEnd { offset: 2, epoch: 3 };
    assert_eq!(follower.done(&Task::Truncate(4), Outcome::Moved(shorter), RETRY_MS), None);
    assert_eq!(follower.end(), shorter);
}

#[test]
fn response_to_another_request_is_ignored() {
    let asked = follower(5, 3).wanted(0).unwrap();
    let others =
        [Asked { offset: 4, ..asked }, Asked { leader_epoch: 8, ..asked }, Asked { last_epoch: 2, ..asked }];
    for other in others {
        assert_eq!(follower(5, 3).answered(other, answer(0), RETRY_MS), None, "{other:?}");
    }
}

#[test]
fn fetch_errors_delay_or_halt_the_partition() {
    for (code, halt) in [
        (ErrorCode::NotLeaderOrFollower.code(), None),
        (ErrorCode::UnknownLeaderEpoch.code(), None),
        (ErrorCode::UnknownTopicId.code(), None),
        (56, None),
        (-1, None),
        (ErrorCode::FencedLeaderEpoch.code(), Some(Halt::Fenced)),
    ] {
        let mut follower = follower(5, 3);
        let asked = follower.wanted(0).unwrap();
        // The leader that an error names is the metadata's business.
        let current_leader = Some(LeaderEpoch { leader_id: 4, leader_epoch: 10 });
        let fetched = FetchedPartition { current_leader, ..answer(code) };
        assert_eq!(follower.answered(asked, fetched, RETRY_MS), None);
        assert_eq!((follower.halt(), follower.wanted(RETRY_MS - 1)), (halt, None), "{code}");
        assert_eq!(follower.wanted(RETRY_MS), Some(asked).filter(|_| halt.is_none()), "{code}");
        assert_eq!(follower.delayed_until(), Some(RETRY_MS).filter(|_| halt.is_none()), "{code}");
    }
}

#[test]
fn a_failed_disk_halts_the_partition() {
    let mut follower = follower(5, 3);
    let task = follower.answered(follower.wanted(0).unwrap(), answer(0), RETRY_MS).unwrap();
    assert_eq!(follower.done(&task, Outcome::Offline, RETRY_MS), None);
    assert_eq!((follower.halt(), follower.wanted(i64::MAX)), (Some(Halt::Offline), None));
    assert_eq!(follower.errors(), 1);
}

#[test]
fn offset_out_of_range_checks_both_leader_bounds() {
    // The latest offset, the earliest one, and what follows.
    for (latest, earliest, task) in [
        (4, None, Some(Task::Truncate(4))),
        (9, Some(6), Some(Task::Restart(6))),
        (9, Some(5), None),
        (5, Some(0), None),
    ] {
        let mut follower = follower(5, 3);
        let asked = follower.wanted(0).unwrap();
        let first = follower.answered(asked, answer(ErrorCode::OffsetOutOfRange.code()), RETRY_MS).unwrap();
        assert_eq!(first, Task::Locate(Bound::Latest));
        let mut next = follower.done(&first, Outcome::Located(latest), RETRY_MS);
        if let Some(earliest) = earliest {
            let locate = next.unwrap();
            assert_eq!(locate, Task::Locate(Bound::Earliest));
            next = follower.done(&locate, Outcome::Located(earliest), RETRY_MS);
        }
        assert_eq!(next, task, "{latest} {earliest:?}");
        // Nothing to do: the same question again immediately would get the same response.
        assert_eq!(follower.delayed_until(), task.is_none().then_some(RETRY_MS));
    }
}

/// A log that is not in sync, and whose only offset is from a former leader.
fn unplaced(offset: i64) -> Follower {
    let log = FollowedLog { is_complete: false, ..log((offset, -1), offset) };
    let (follower, task) = Follower::new(9, log);
    assert_eq!(task, None);
    follower
}

#[test]
fn unsynced_empty_log_starts_at_leader_start() {
    // The leader's log start, the task, and the offset of the next fetch.
    for (start, task, next) in
        [(0, Task::Lower(0), 0), (3, Task::Lower(3), 3), (8, Task::Lower(8), 8), (9, Task::Restart(9), 9)]
    {
        let mut follower = unplaced(8);
        let asked = follower.wanted(0).unwrap();
        assert_eq!(asked, Asked { leader_epoch: 9, offset: -1, last_epoch: -1 }, "no leader counts it");
        let locate = follower.answered(asked, answer(ErrorCode::OffsetOutOfRange.code()), RETRY_MS).unwrap();
        assert_eq!(locate, Task::Locate(Bound::Earliest));
        assert_eq!(follower.done(&locate, Outcome::Located(start), RETRY_MS), Some(task.clone()));
        follower.done(&task, Outcome::Done(LogEnd { offset: next, epoch: -1 }), RETRY_MS);
        assert_eq!(follower.wanted(0), Some(Asked { offset: next, ..asked }), "{start}");
    }
}

#[test]
fn unavailable_leader_log_start_is_requested_again() {
    let mut follower = unplaced(8);
    let asked = follower.wanted(0).unwrap();
    for outcome in [Outcome::Refused(ErrorCode::NotLeaderOrFollower.code()), Outcome::Superseded] {
        let locate = follower.answered(asked, answer(ErrorCode::OffsetOutOfRange.code()), RETRY_MS).unwrap();
        assert_eq!(follower.done(&locate, outcome, RETRY_MS), None);
        assert_eq!((follower.wanted(RETRY_MS - 1), follower.wanted(RETRY_MS)), (None, Some(asked)));
    }
}

#[test]
fn log_truncated_to_nothing_starts_at_leader_start() {
    let log = FollowedLog { is_complete: false, ..log((8, 5), 8) };
    let (mut follower, _) = Follower::new(9, log);
    let asked = follower.wanted(0).unwrap();
    assert_eq!((asked.offset, asked.last_epoch), (8, 5));
    let cut = Task::Diverged(EpochEnd { epoch: 3, end_offset: 6 });
    follower.done(&cut, Outcome::Done(LogEnd { offset: 6, epoch: -1 }), RETRY_MS);
    assert_eq!(follower.wanted(0), Some(Asked { leader_epoch: 9, offset: -1, last_epoch: -1 }));
}

#[test]
fn in_sync_empty_log_is_fetched_from_end() {
    let expected = Some(Asked { leader_epoch: 9, offset: 8, last_epoch: -1 });
    assert_eq!(Follower::new(9, log((8, -1), 8)).0.wanted(0), expected);
}

#[test]
fn a_refused_offset_delays_or_halts() {
    for (code, halt) in [
        (ErrorCode::NotLeaderOrFollower.code(), None),
        (ErrorCode::FencedLeaderEpoch.code(), Some(Halt::Fenced)),
    ] {
        let mut follower = follower(5, 3);
        let locate = Task::Locate(Bound::Latest);
        assert_eq!(follower.done(&locate, Outcome::Refused(code), RETRY_MS), None);
        assert_eq!((follower.wanted(RETRY_MS - 1), follower.halt()), (None, halt));
    }
}

#[test]
fn truncation_ends_at_last_common_epoch() {
    let leader = EpochEnd { epoch: 4, end_offset: 20 };
    for (own, log_end, expected) in [
        // The epoch is known: the shorter one of both counts.
        ((4, 15), 30, 15),
        ((4, 25), 30, 20),
        ((4, 25), 18, 18),
        // If not, all later epochs of the follower are truncated, and the next fetch compares.
        ((2, 12), 30, 12),
        ((2, 40), 30, 30),
        // The log knows no epoch so early.
        ((-1, -1), 30, 20),
        ((-1, -1), 10, 10),
    ] {
        assert_eq!(truncation_offset(leader, own, log_end), expected, "{own:?} {log_end}");
    }
}

/// A log whose records are their epochs.
#[derive(Clone, Debug, Default, PartialEq)]
struct Log {
    start: i64,
    records: Vec<i32>,
    epochs: Vec<(i32, i64)>,
}

impl Log {
    fn end(&self) -> i64 {
        self.start + self.records.len() as i64
    }

    fn state(&self) -> LogEnd {
        LogEnd { offset: self.end(), epoch: self.epochs.last().map_or(-1, |entry| entry.0) }
    }

    /// Begins an epoch, and appends records in it.
    fn lead(&mut self, epoch: i32, count: usize) {
        self.epochs.push((epoch, self.end()));
        self.records.extend(std::iter::repeat_n(epoch, count));
    }

    fn append(&mut self, epoch: i32) {
        if self.state().epoch < epoch {
            self.epochs.push((epoch, self.end()));
        }
        self.records.push(epoch);
    }

    fn truncate(&mut self, offset: i64) {
        if offset < self.start {
            return self.restart(offset);
        }
        self.records.truncate((offset - self.start).max(0) as usize);
        let end = self.end();
        self.epochs.retain(|entry| entry.1 < end);
    }

    /// Deletes the records up to an offset. As Kafka's cache of epochs, the log knows only the
    /// epochs of the others.
    fn delete(&mut self, upto: i64) {
        self.records.drain(..(upto - self.start) as usize);
        self.start = upto;
        let first = self.epochs.partition_point(|entry| entry.1 <= upto).saturating_sub(1);
        self.epochs.drain(..first);
        if let Some(entry) = self.epochs.first_mut() {
            entry.1 = entry.1.max(upto);
        }
    }

    fn restart(&mut self, offset: i64) {
        *self = Self { start: offset, ..Self::default() };
    }

    /// As Kafka's cache of epochs answers.
    fn epoch_end(&self, epoch: i32) -> (i32, i64) {
        let after = self.epochs.partition_point(|entry| entry.0 <= epoch);
        match (after.checked_sub(1).map(|at| self.epochs[at]), self.epochs.get(after)) {
            (Some((latest, _)), None) if latest == epoch => (epoch, self.end()),
            (_, None) => (-1, -1),
            (None, Some(next)) => (epoch, next.1),
            (Some(floor), Some(next)) => (floor.0, next.1),
        }
    }

    /// The response of a Kafka leader to a follower, with at most three records.
    fn serve(&self, asked: Asked) -> FetchedPartition<Bytes> {
        let answer = FetchedPartition {
            high_watermark: self.end(),
            log_start_offset: self.start,
            ..FetchedPartition::new(0)
        };
        let out_of_range =
            FetchedPartition { error_code: ErrorCode::OffsetOutOfRange.code(), ..FetchedPartition::new(0) };
        if asked.offset < self.start {
            return out_of_range;
        }
        if asked.last_epoch >= 0 {
            let (epoch, end_offset) = self.epoch_end(asked.last_epoch);
            if epoch == -1 {
                return out_of_range;
            }
            if epoch < asked.last_epoch || end_offset < asked.offset {
                return FetchedPartition { diverging_epoch: Some(EpochEnd { epoch, end_offset }), ..answer };
            }
        }
        if asked.offset > self.end() {
            return out_of_range;
        }
        let left = self.records[(asked.offset - self.start) as usize..].iter().take(3);
        let records: Vec<u8> = left.flat_map(|epoch| epoch.to_be_bytes()).collect();
        FetchedPartition { records: (!records.is_empty()).then(|| records.into()), ..answer }
    }
}

fn execute(log: &mut Log, leader: &Log, task: &Task) -> Outcome {
    match task {
        Task::Append { records, marks } => {
            // As `apply` does.
            let LogEnd { offset, epoch } = log.state();
            if log.start < offset && offset <= marks.log_start && epoch < leader.state().epoch {
                log.delete(offset);
            }
            records.chunks(4).for_each(|record| log.append(i32::from_be_bytes(record.try_into().unwrap())));
        }
        Task::Diverged(end) => {
            log.truncate(truncation_offset(*end, log.epoch_end(end.epoch), log.end()));
        }
        Task::Truncate(offset) => log.truncate(*offset),
        Task::Restart(offset) => log.restart(*offset),
        Task::Lower(offset) => {
            if log.records.is_empty() && *offset < log.start {
                log.restart(*offset);
            }
        }
        Task::Locate(Bound::Latest) => return Outcome::Located(leader.end()),
        Task::Locate(Bound::Earliest) => return Outcome::Located(leader.start),
        Task::Locate(Bound::EarliestLocal { .. }) | Task::Rebuild(_) => {
            unreachable!("no log has a remote part")
        }
    }
    Outcome::Done(log.state())
}

/// Fetches until a response is empty; the number of requests.
fn catch_up(log: &mut Log, leader: &Log, rounds_max: usize) -> usize {
    let own = FollowedLog { end: log.state(), high_watermark: log.start, is_complete: false };
    let (mut follower, mut task) = Follower::new(leader.state().epoch, own);
    for round in 0..rounds_max {
        while let Some(given) = task.take() {
            let outcome = execute(log, leader, &given);
            task = follower.done(&given, outcome, 0);
        }
        let asked = follower.wanted(0).unwrap();
        let answer = leader.serve(asked);
        let is_idle = answer.error_code == 0 && answer.diverging_epoch.is_none() && answer.records.is_none();
        task = follower.answered(asked, answer, 0);
        if is_idle {
            // The marks of the leader.
            if let Some(given) = task {
                execute(log, leader, &given);
            }
            return round;
        }
    }
    panic!("no end after {rounds_max} rounds: {log:?} follows {leader:?}");
}

/// A leader's log, the same after a deletion of its first records, and a follower's log. They have
/// a common beginning; each later epoch was led by one of them, and some led without a record.
fn diverged() -> impl Strategy<Value = (Log, Log, Log)> {
    let common = prop::collection::vec(0..5usize, 0..4);
    let later = prop::collection::vec((any::<bool>(), 0..4usize), 0..8);
    (common, 0..5usize, later, 0..12i64).prop_map(|(common, more, later, start)| {
        let mut leader = Log::default();
        let mut epoch = 0;
        for count in common {
            leader.lead(epoch, count);
            epoch += 2;
        }
        let mut follower = leader.clone();
        // The last common epoch may continue in one of the logs.
        if let Some((last, _)) = leader.epochs.last().copied() {
            let longer = if more % 2 == 0 { &mut leader } else { &mut follower };
            longer.records.extend(std::iter::repeat_n(last, more));
        }
        for (led_here, count) in later {
            if led_here {
                leader.lead(epoch, count)
            } else {
                follower.lead(epoch, count)
            }
            epoch += 1;
        }
        leader.lead(epoch, 2);
        let whole = leader.clone();
        leader.delete(start.min(whole.end()));
        (whole, leader, follower)
    })
}

proptest! {
    #[test]
    fn follower_converges_to_leader_in_bounded_rounds((whole, leader, mut log) in diverged()) {
        let rounds_max = 2 * log.epochs.len() + leader.records.len() + 6;
        catch_up(&mut log, &leader, rounds_max);
        prop_assert!(log.start <= leader.start);
        prop_assert_eq!(log.end(), leader.end());
        // The records that the leader has deleted are among them.
        prop_assert_eq!(&log.records, &whole.records[log.start as usize..]);
        // The follower could take over, and be followed by the former leader.
        let mut former = leader.clone();
        log.lead(leader.state().epoch + 1, 1);
        catch_up(&mut former, &log, rounds_max);
        prop_assert_eq!(former.end(), log.end());
    }

    #[test]
    fn log_starting_after_leader_lacks_only_common_records(
        (whole, leader, before) in diverged(), start in 0..16i64, has_epochs: bool,
    ) {
        let (start, mut log) = (start.min(before.end()), before.clone());
        if has_epochs {
            log.delete(start);
        } else {
            log.restart(start);
        }
        let rounds_max = 2 * log.epochs.len() + leader.records.len() + 6;
        catch_up(&mut log, &leader, rounds_max);
        prop_assert_eq!(&log.records, &whole.records[log.start as usize..]);
        prop_assert!(log.start <= leader.start.max(start));
        let both = (0..log.start.min(before.end())).take_while(|at| before.records[*at as usize] == whole.records[*at as usize]);
        let is_common = both.count() as i64 == log.start;
        prop_assert!(log.start <= leader.start || is_common, "{:?} follows {:?}", log, leader);
    }
}

/// A follower at offset 5 whose leader has moved the next records, and the task that follows.
fn moved() -> (Follower, Task) {
    let mut follower = follower(5, 3);
    let asked = follower.wanted(0).unwrap();
    let answer = answer(ErrorCode::OffsetMovedToTieredStorage.code());
    let task = follower.answered(asked, answer, RETRY_MS).unwrap();
    assert_eq!(task, Task::Locate(Bound::EarliestLocal { log_start: 2 }));
    (follower, task)
}

#[test]
fn moved_records_lead_to_a_rebuild() {
    let (mut follower, locate) = moved();
    let rebuild = follower.done(&locate, Outcome::LocatedLocal(20, 7), RETRY_MS).unwrap();
    assert_eq!(rebuild, Task::Rebuild(TieredStart { log_start: 2, local_start: 20, epoch: 7 }));
    assert_eq!(follower.done(&rebuild, Outcome::Done(LogEnd { offset: 22, epoch: 7 }), RETRY_MS), None);
    let next = Asked { leader_epoch: 9, offset: 22, last_epoch: 7 };
    assert_eq!((follower.wanted(0), follower.errors(), follower.halt()), (Some(next), 0, None));
}

#[test]
fn rebuild_without_remote_storage_halts() {
    let (mut follower, locate) = moved();
    let rebuild = follower.done(&locate, Outcome::LocatedLocal(20, 7), RETRY_MS).unwrap();
    let refused = Outcome::Refused(ErrorCode::OffsetMovedToTieredStorage.code());
    assert_eq!(follower.done(&rebuild, refused, RETRY_MS), None);
    assert_eq!((follower.halt(), follower.wanted(RETRY_MS)), (Some(Halt::Tiered), None));
}

#[test]
fn failed_rebuild_is_repeated_after_a_delay() {
    let (mut follower, locate) = moved();
    let rebuild = follower.done(&locate, Outcome::LocatedLocal(20, 7), RETRY_MS).unwrap();
    assert_eq!(follower.done(&rebuild, Outcome::Refused(-1), RETRY_MS), None);
    let again = Asked { leader_epoch: 9, offset: 5, last_epoch: 3 };
    assert_eq!((follower.wanted(RETRY_MS - 1), follower.wanted(RETRY_MS)), (None, Some(again)));
}

#[test]
fn rebuild_ignores_outdated_local_log_start() {
    for (local_start, epoch) in [(5, 7), (2, 7), (-1, 7), (20, -1)] {
        let (mut follower, locate) = moved();
        assert_eq!(follower.done(&locate, Outcome::LocatedLocal(local_start, epoch), RETRY_MS), None);
        assert_eq!((follower.errors(), follower.wanted(RETRY_MS - 1)), (1, None), "{local_start} {epoch}");
    }
}

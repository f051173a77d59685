//! Several partitions of one leader.

use levada_wire::error_code::ErrorCode;
use levada_wire::fetch::{FetchedPartition, FetchedTopic};

use super::*;
use crate::replication::follower::Bound;

const TOPIC: Uuid = Uuid::from_bytes([1; 16]);
const BACKOFF_MS: i64 = 1000;

/// A broker whose logs begin at 3, with these partitions throttled for this time.
struct Broker(Vec<i32>, i64);

impl Local for Broker {
    fn broker_epoch(&self) -> i64 {
        44
    }

    fn readiness(&self, partition: &PartitionKey, is_in_sync: bool) -> Readiness {
        if is_in_sync || !self.0.contains(&partition.1) {
            Readiness::Ready { log_start: 3 }
        } else {
            Readiness::Throttled { pause_ms: self.1 }
        }
    }
}

const ALL: Broker = Broker(Vec::new(), 0);

/// A log all of whose records are committed.
fn followed(offset: i64, epoch: i32) -> FollowedLog {
    FollowedLog { end: LogEnd { offset, epoch }, high_watermark: offset, is_complete: false }
}

fn fetcher(partitions: i32) -> Fetcher {
    let config = FetcherConfig {
        node_id: 7,
        max_wait_ms: 500,
        min_bytes: 1,
        max_bytes: 1000,
        partition_max_bytes: 100,
        backoff_ms: BACKOFF_MS,
    };
    let mut fetcher = Fetcher::new(config);
    for index in 0..partitions {
        assert_eq!(fetcher.follow((TOPIC, index), 5, followed(10, 4)), None);
    }
    fetcher
}

fn named(request: &FetchRequest) -> Vec<i32> {
    request.topics.iter().flat_map(|topic| &topic.partitions).map(|partition| partition.index).collect()
}

fn response(partitions: Vec<FetchedPartition<Bytes>>) -> FetchResponse<Bytes> {
    FetchResponse {
        throttle_time_ms: 0,
        error_code: 0,
        session_id: 6,
        topics: vec![FetchedTopic { name: StrBytes::default(), topic_id: TOPIC, partitions }],
        node_endpoints: Vec::new(),
    }
}

fn empty(index: i32) -> FetchedPartition<Bytes> {
    FetchedPartition { high_watermark: 12, log_start_offset: 3, ..FetchedPartition::new(index) }
}

fn with_records(index: i32) -> FetchedPartition<Bytes> {
    FetchedPartition { records: Some(Bytes::from_static(b"batches")), ..empty(index) }
}

#[test]
fn fetch_request_names_broker_and_log_ends() {
    let mut fetcher = fetcher(2);
    let request = fetcher.poll(&ALL, 0).unwrap();
    assert_eq!((request.replica_id, request.replica_epoch), (7, 44));
    assert_eq!((request.max_wait_ms, request.min_bytes, request.max_bytes), (500, 1, 1000));
    assert_eq!((request.session_id, request.session_epoch, named(&request)), (0, 0, vec![0, 1]));
    let partition = &request.topics[0].partitions[0];
    assert_eq!((partition.current_leader_epoch, partition.fetch_offset), (5, 10));
    assert_eq!((partition.last_fetched_epoch, partition.log_start_offset, partition.max_bytes), (4, 3, 100));
    assert_eq!(request.topics.len(), 1);
    assert_eq!((fetcher.poll(&ALL, 0), fetcher.deadline()), (None, None), "one request at a time");
}

#[test]
fn partitions_with_records_come_last_in_full_request() {
    let mut fetcher = fetcher(3);
    fetcher.poll(&ALL, 0).unwrap();
    let told = vec![with_records(0), empty(1), empty(2)];
    let tasks = fetcher.answered(response(told), 0).unwrap();
    assert_eq!(tasks.iter().map(|task| task.partition.1).collect::<Vec<_>>(), [0, 1, 2]);
    assert!(tasks.iter().all(|task| task.leader_epoch == 5));
    let end = LogEnd { offset: 11, epoch: 5 };
    assert_eq!(fetcher.done(&tasks[0], Outcome::Done(end), 0), None);
    let request = fetcher.poll(&ALL, 0).unwrap();
    assert_eq!((request.session_id, request.session_epoch, named(&request)), (6, 1, vec![0]));
    // The response is lost: all partitions are named again.
    fetcher.failed(0);
    assert_eq!((fetcher.poll(&ALL, BACKOFF_MS - 1), fetcher.deadline()), (None, Some(BACKOFF_MS)));
    let request = fetcher.poll(&ALL, BACKOFF_MS).unwrap();
    assert_eq!((request.session_epoch, named(&request)), (0, vec![1, 2, 0]));
}

#[test]
fn forgotten_or_delayed_partitions_leave_fetch_session() {
    let mut fetcher = fetcher(3);
    fetcher.poll(&ALL, 0).unwrap();
    let failed =
        FetchedPartition { error_code: ErrorCode::NotLeaderOrFollower.code(), ..FetchedPartition::new(0) };
    let tasks = fetcher.answered(response(vec![failed, empty(1), empty(2)]), 0).unwrap();
    assert_eq!(tasks.len(), 2);
    fetcher.forget(&(TOPIC, 1));
    let request = fetcher.poll(&ALL, 0).unwrap();
    assert_eq!((named(&request), &request.forgotten[0].partitions), (vec![], &vec![0, 1]));
    // Outcomes of a removed partition have no effect.
    assert_eq!(fetcher.done(&tasks[0], Outcome::Located(0), 0), None);
    fetcher.answered(response(vec![]), 0).unwrap();
    assert_eq!(fetcher.deadline(), Some(BACKOFF_MS));
    assert_eq!(named(&fetcher.poll(&ALL, BACKOFF_MS).unwrap()), [0]);
}

#[test]
fn refollowed_partition_ignores_earlier_outcomes() {
    let mut fetcher = fetcher(1);
    fetcher.poll(&ALL, 0).unwrap();
    let out_of_range =
        FetchedPartition { error_code: ErrorCode::OffsetOutOfRange.code(), ..FetchedPartition::new(0) };
    let tasks = fetcher.answered(response(vec![out_of_range]), 0).unwrap();
    assert_eq!(tasks[0].task, Task::Locate(Bound::Latest));
    // The same epoch continues without a change.
    fetcher.follow((TOPIC, 0), 5, followed(0, 0));
    assert_eq!(fetcher.done(&tasks[0], Outcome::Located(8), 0).unwrap().task, Task::Truncate(8));
    fetcher.follow((TOPIC, 0), 6, followed(10, 4));
    assert_eq!(fetcher.done(&tasks[0], Outcome::Located(8), 0), None);
}

#[test]
fn halted_partition_is_followed_again_in_same_epoch() {
    let mut fetcher = fetcher(1);
    fetcher.poll(&ALL, 0).unwrap();
    let fenced =
        FetchedPartition { error_code: ErrorCode::FencedLeaderEpoch.code(), ..FetchedPartition::new(0) };
    assert_eq!(fetcher.answered(response(vec![fenced]), 0), Ok(vec![]));
    fetcher.poll(&ALL, BACKOFF_MS);
    fetcher.answered(response(vec![]), BACKOFF_MS).unwrap();
    assert_eq!((fetcher.poll(&ALL, BACKOFF_MS), fetcher.deadline()), (None, None));
    fetcher.follow((TOPIC, 0), 5, followed(10, 4));
    assert_eq!(named(&fetcher.poll(&ALL, BACKOFF_MS).unwrap()), [0]);
}

#[test]
fn fetches_of_refused_batches_back_off() {
    let mut fetcher = fetcher(1);
    let (end, mut now_ms) = (LogEnd { offset: 10, epoch: 4 }, 0);
    let mut refuse = |fetcher: &mut Fetcher, outcome: Outcome| {
        fetcher.poll(&ALL, now_ms).unwrap();
        let tasks = fetcher.answered(response(vec![with_records(0)]), now_ms).unwrap();
        assert_eq!(fetcher.done(&tasks[0], outcome, now_ms), None);
        let pause_ms = fetcher.deadline().map_or(0, |deadline| deadline - now_ms);
        now_ms += pause_ms;
        pause_ms / BACKOFF_MS
    };
    let pauses: Vec<i64> = (0..7).map(|_| refuse(&mut fetcher, Outcome::Damaged(end))).collect();
    assert_eq!(pauses, [1, 2, 4, 8, 16, 16, 16]);
    // Some of the batches are in the log.
    let longer = LogEnd { offset: 11, epoch: 4 };
    assert_eq!(refuse(&mut fetcher, Outcome::Damaged(longer)), 1);
    assert_eq!(refuse(&mut fetcher, Outcome::Damaged(longer)), 1);
    assert_eq!(refuse(&mut fetcher, Outcome::Damaged(longer)), 2);
    assert_eq!(refuse(&mut fetcher, Outcome::Done(LogEnd { offset: 12, epoch: 4 })), 0);
    assert_eq!(refuse(&mut fetcher, Outcome::Damaged(LogEnd { offset: 12, epoch: 4 })), 1);
}

#[test]
fn throttled_partition_pauses_unless_in_sync() {
    let mut fetcher = fetcher(2);
    for (pause_ms, first_ms) in [(40, 40), (i64::MAX, BACKOFF_MS)] {
        let throttled = Broker(vec![1], pause_ms);
        let mut fetcher = self::fetcher(2);
        assert_eq!(named(&fetcher.poll(&throttled, 0).unwrap()), [0]);
        fetcher.answered(response(vec![empty(0)]), 0).unwrap();
        assert_eq!(fetcher.deadline(), Some(first_ms));
    }
    let throttled = Broker(vec![1], BACKOFF_MS);
    fetcher.poll(&throttled, 0).unwrap();
    fetcher.answered(response(vec![empty(0)]), 0).unwrap();
    let request = fetcher.poll(&ALL, BACKOFF_MS).unwrap();
    assert_eq!(named(&request), [1]);
    let in_sync = FetchedPartition { high_watermark: 10, ..empty(1) };
    fetcher.answered(response(vec![in_sync]), BACKOFF_MS).unwrap();
    let request = fetcher.poll(&throttled, BACKOFF_MS).unwrap();
    assert!(request.forgotten.is_empty(), "{request:?}");
}

#[test]
fn lost_session_reopens_immediately_but_refused_one_waits() {
    let mut fetcher = fetcher(1);
    fetcher.poll(&ALL, 0).unwrap();
    fetcher.answered(response(vec![empty(0)]), 0).unwrap();
    fetcher.poll(&ALL, 0).unwrap();
    let refused = |error_code| FetchResponse { error_code, topics: Vec::new(), ..response(vec![]) };
    fetcher.answered(refused(ErrorCode::FetchSessionIdNotFound.code()), 0).unwrap_err();
    assert_eq!(fetcher.poll(&ALL, 0).unwrap().session_epoch, 0);
    fetcher.answered(refused(ErrorCode::ClusterAuthorizationFailed.code()), 0).unwrap_err();
    assert_eq!((fetcher.poll(&ALL, 0), fetcher.deadline()), (None, Some(BACKOFF_MS)));
}

//! Requests to a broker that leads a partition of two replicas: the test is the other broker.

use std::fs;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use levada_base::Append;
use levada_base::batch::Builder;
use levada_cluster::replication::apply::log_end;
use levada_cluster::replication::follower::{LeaderMarks, LogEnd, Outcome, Task};
use levada_coordination::group::Producer;
use levada_coordination::group::request::EndTxnRequest;
use levada_metadata::records::{ConfigRecord, PartitionChangeRecord, Record, RegisterBrokerRecord};
use levada_process::clock::uptime_ms;
use levada_wire::Uuid;
use levada_wire::error_code::{ErrorCode, Failure};
use levada_wire::fetch::{FetchRequest, FetchedPartition};
use tokio::time::Instant;

use crate::replica::Partition;
use crate::replica::submitted::Submitted;

mod answers;
mod coordinators;
mod large;
mod lost_records;
mod quotas;
mod remote_metadata;
mod repeated;
mod rig;
mod share;
mod share_offsets;
mod streams;
mod tokens;
mod transactions;
mod waits;

use rig::{OTHER, OTHER_EPOCH, Rig, TOPIC, change};

const OK: i16 = 0;
const LATEST: i64 = -1;
const EARLIEST: i64 = -2;
/// A time that exceeds the duration of each test, ms.
const LONG_MS: i32 = 3_600_000;
const LONG: Duration = Duration::from_secs(3_600);

/// Polls a request once: it is answered, or waits from now on.
async fn begun<T>(request: &mut Pin<Box<impl Future<Output = T>>>) -> Option<T> {
    tokio::select! {
        biased;
        answer = request => Some(answer),
        () = std::future::ready(()) => None,
    }
}

#[test]
fn acks_all_completes_after_next_follower_fetch() {
    let rig = Rig::start();
    rig.run(async {
        let mut produce = Box::pin(rig.produce(-1, LONG_MS));
        assert_eq!(begun(&mut produce).await, None);
        let fetched = rig.follow(0).await;
        assert_eq!((fetched.error_code, fetched.high_watermark), (OK, 0));
        assert!(fetched.records.is_some_and(|records| !records.is_empty()));
        assert_eq!(begun(&mut produce).await, None, "the follower may not have stored the record");
        assert_eq!(rig.follow(1).await.error_code, OK);
        assert_eq!(produce.await, (OK, 0));
        assert_eq!(rig.follow(1).await.high_watermark, 1);
    });
}

#[test]
fn acks_1_precedes_replication_and_consumer_visibility() {
    let rig = Rig::start();
    rig.run(async {
        assert_eq!(rig.produce(1, LONG_MS).await, (OK, 0));
        let seen = rig.consume(0).await;
        assert_eq!((seen.high_watermark, seen.records.map_or(0, |records| records.len())), (0, 0));
        assert_eq!(rig.follow(1).await.error_code, OK);
        let seen = rig.consume(0).await;
        assert_eq!(seen.high_watermark, 1);
        assert!(seen.records.is_some_and(|records| !records.is_empty()));
    });
}

#[test]
fn append_wakes_followers_and_high_watermark_wakes_consumers() {
    let rig = Rig::start();
    rig.run(async {
        let waiting = |replica| rig.fetch(FetchRequest { max_wait_ms: LONG_MS, ..rig.fetch_of(replica, 0) });
        let (mut follower, mut consumer) = (Box::pin(waiting(OTHER)), Box::pin(waiting(-1)));
        assert!(begun(&mut follower).await.is_none());
        assert!(begun(&mut consumer).await.is_none());
        assert_eq!(rig.produce(1, LONG_MS).await, (OK, 0));
        assert!(follower.await.records.is_some_and(|records| !records.is_empty()));
        assert!(begun(&mut consumer).await.is_none());
        assert_eq!(rig.follow(1).await.error_code, OK);
        assert!(consumer.await.records.is_some_and(|records| !records.is_empty()));
    });
}

#[test]
fn acks_all_ends_with_its_timeout() {
    let rig = Rig::start();
    rig.run(async {
        let (error, _) = rig.produce(-1, 1).await;
        assert_eq!(error, ErrorCode::RequestTimedOut.code());
        assert_eq!(
            rig.partition().log().log_end(),
            1,
            "the record is in the log, and may be committed later"
        );
    });
}

#[test]
fn small_isr_refuses_acks_all_before_append() {
    let mut rig = Rig::start_with(&["min.insync.replicas=2"]);
    let node = rig.node;
    rig.publish(&[in_sync(&[node])]);
    rig.run(async {
        let (error, _) = rig.produce(-1, LONG_MS).await;
        assert_eq!((error, rig.partition().log().log_end()), (ErrorCode::NotEnoughReplicas.code(), 0));
        assert_eq!(rig.produce(1, LONG_MS).await, (OK, 0));
        assert_eq!(rig.partition().log().high_watermark(), 0, "it stands still");
        // The other broker is back.
        assert_eq!(rig.follow(1).await.error_code, OK);
        assert_eq!(rig.commit_change(), [node, OTHER]);
        assert_eq!(rig.partition().log().high_watermark(), 1);
    });
}

#[test]
fn single_replica_partition_ignores_min_insync_replicas() {
    let mut rig = Rig::start_with(&["min.insync.replicas=2"]);
    rig.create_alone(Uuid::from_bytes([9; 16]), "alone");
    let alone = rig.broker.replicas().partitions().by_name("alone", 0).unwrap();
    assert!(alone.led().is_none());
    assert_eq!(alone.shortage(), None);
    // Of two replicas, one in sync is too few.
    rig.publish(&[in_sync(&[rig.node])]);
    assert_eq!(rig.partition().shortage(), Some(1));
}

#[test]
fn isr_shrink_after_append_fails_acks_all() {
    let mut rig = Rig::start_with(&["min.insync.replicas=2"]);
    let submitted = submitted(&rig);
    rig.run(async { assert_eq!(rig.follow(1).await.error_code, OK) });
    rig.publish(&[in_sync(&[rig.node])]);
    let failure = rig.run(submitted.wait()).expect_err("one replica is in sync");
    assert_eq!(Failure::from(failure).code, ErrorCode::NotEnoughReplicasAfterAppend);
}

#[test]
fn waiting_produce_is_refused_after_leadership_loss() {
    let mut rig = Rig::start();
    let waits = submitted(&rig);
    rig.publish(&[PartitionChangeRecord { leader: OTHER, ..change(TOPIC) }.into()]);
    let failure = rig.run(waits.wait()).expect_err("another broker leads");
    assert_eq!(Failure::from(failure).code, ErrorCode::NotLeaderOrFollower);
    rig.run(async {
        assert_eq!(rig.produce(-1, LONG_MS).await.0, ErrorCode::NotLeaderOrFollower.code());
    });
}

/// A record in the log whose acknowledgement waits for the other replica.
fn submitted(rig: &Rig) -> Submitted {
    let (partition, led) = (rig.partition(), rig.partition().led());
    let mut batch = Builder::new();
    batch.push(0, None, Some(b"value"));
    let append = Append::client(batch.build().unwrap());
    rig.run(async { partition.append(append, 0).committed(led, || Instant::now() + LONG) })
}

/// A change of the replicas in sync.
fn in_sync(isr: &[i32]) -> Record {
    PartitionChangeRecord { isr: Some(isr.to_vec()), ..change(TOPIC) }.into()
}

#[test]
fn stale_or_foreign_follower_fetch_is_refused() {
    let rig = Rig::start();
    rig.run(async {
        let with = |replica_id, replica_epoch, known| {
            let mut request = rig.fetch_of(OTHER, 0);
            (request.replica_id, request.replica_epoch) = (replica_id, replica_epoch);
            request.topics[0].partitions[0].current_leader_epoch = known;
            rig.fetch(request)
        };
        let epoch = rig.partition().leadership().leader_epoch();
        assert_eq!(with(4, 1, epoch).await.error_code, ErrorCode::UnknownLeaderEpoch.code());
        assert_eq!(with(4, 1, -1).await.error_code, ErrorCode::NotLeaderOrFollower.code());
        assert_eq!(
            with(OTHER, OTHER_EPOCH - 1, epoch).await.error_code,
            ErrorCode::NotLeaderOrFollower.code()
        );
        assert_eq!(with(OTHER, OTHER_EPOCH + 1, epoch).await.error_code, OK, "its metadata may be newer");
        assert_eq!(with(OTHER, -1, epoch).await.error_code, OK);
        assert_eq!(
            with(OTHER, OTHER_EPOCH, epoch + 1).await.error_code,
            ErrorCode::UnknownLeaderEpoch.code()
        );
    });
}

#[test]
fn follower_past_log_end_gets_diverging_epoch() {
    let rig = Rig::start();
    rig.run(async {
        assert_eq!(rig.produce(1, LONG_MS).await, (OK, 0));
        let mut request = rig.fetch_of(OTHER, 5);
        let epoch = rig.partition().leadership().leader_epoch();
        request.topics[0].partitions[0].last_fetched_epoch = epoch;
        let fetched = rig.fetch(request).await;
        let diverging = fetched.diverging_epoch.expect("the follower has more");
        assert_eq!((fetched.error_code, diverging.epoch, diverging.end_offset), (OK, epoch, 1));
        assert_eq!(rig.partition().log().high_watermark(), 0, "the position does not count");
        assert_eq!(rig.follow(5).await.error_code, ErrorCode::OffsetOutOfRange.code());
    });
}

#[test]
fn isr_join_carries_broker_epoch_of_fetch() {
    let mut rig = Rig::start();
    let node = rig.node;
    rig.publish(&[in_sync(&[node])]);
    rig.run(async {
        assert_eq!(rig.produce(-1, LONG_MS).await, (OK, 0), "this broker is the only one in sync");
        assert_eq!(rig.follow(0).await.error_code, OK);
        assert_eq!(rig.change_due(), None);
        assert_eq!(rig.follow(1).await.error_code, OK);
        assert_eq!(rig.change_due(), Some(vec![(node, 3), (OTHER, OTHER_EPOCH)]));
        let mut produce = Box::pin(rig.produce(-1, LONG_MS));
        assert_eq!(begun(&mut produce).await, None, "the controller may have committed the change");
        assert_eq!(rig.follow(2).await.error_code, OK);
        assert_eq!(produce.await, (OK, 1));
    });
}

#[test]
fn a_fenced_replica_does_not_join() {
    let mut rig = Rig::start();
    let node = rig.node;
    let fenced = RegisterBrokerRecord {
        broker_id: OTHER,
        broker_epoch: OTHER_EPOCH,
        fenced: true,
        ..RegisterBrokerRecord::default()
    };
    rig.publish(&[in_sync(&[node]), fenced.into()]);
    rig.run(async {
        assert_eq!(rig.follow(0).await.error_code, OK, "data is served");
        assert_eq!(rig.change_due(), None);
    });
}

#[test]
fn list_offsets_hides_unreplicated_end_from_consumers() {
    let rig = Rig::start();
    rig.run(async {
        assert_eq!(rig.produce(1, LONG_MS).await, (OK, 0));
        assert_eq!(rig.produce(1, LONG_MS).await, (OK, 1));
        assert_eq!(rig.follow(1).await.error_code, OK);
        assert_eq!(rig.list(-1, LATEST).await, (OK, 1));
        assert_eq!(rig.list(OTHER, LATEST).await, (OK, 2));
        assert_eq!(rig.list(-2, LATEST).await, (OK, 2), "a tool that compares replicas");
        assert_eq!(rig.list(-1, EARLIEST).await, (OK, 0));
    });
}

#[test]
fn latest_offset_is_unavailable_until_epoch_replicates() {
    let mut rig = Rig::start();
    let node = rig.node;
    rig.run(async { assert_eq!(rig.produce(1, LONG_MS).await, (OK, 0)) });
    rig.publish(&[PartitionChangeRecord { leader: node, ..change(TOPIC) }.into()]);
    rig.run(async {
        assert_eq!(rig.list(-1, LATEST).await.0, ErrorCode::OffsetNotAvailable.code());
        assert_eq!(rig.list(-1, EARLIEST).await, (OK, 0));
        assert_eq!(rig.list(OTHER, LATEST).await, (OK, 1));
        assert_eq!(rig.follow(1).await.error_code, OK);
        assert_eq!(rig.list(-1, LATEST).await, (OK, 1));
    });
}

#[test]
fn last_stable_offset_waits_for_replicated_marker() {
    let rig = Rig::start();
    rig.run(async {
        let partition = rig.partition();
        let mut batch = Builder::new().producer(1, 0, 0).transactional();
        batch.push(0, None, Some(b"value"));
        let append = Append::client(batch.build().unwrap());
        partition.append(append, 0).wait().await.unwrap();
        let end = EndTxnRequest {
            producer: Producer { id: 1, epoch: 0 },
            coordinator_epoch: 0,
            commit: true,
            transaction_version: 0,
        };
        partition.append(end.append(0).unwrap(), 0).wait().await.unwrap();
        assert_eq!(rig.follow(1).await.error_code, OK);
        let log = partition.log();
        assert_eq!((log.high_watermark(), log.last_stable()), (1, 0), "the marker is on one replica");
        assert_eq!(rig.follow(2).await.error_code, OK);
        assert_eq!((log.high_watermark(), log.last_stable()), (2, 2));
    });
}

#[test]
fn silent_follower_leaves_isr_and_unblocks_producers() {
    let rig = Rig::start();
    rig.run(async {
        let mut produce = Box::pin(rig.produce(-1, LONG_MS));
        assert_eq!(begun(&mut produce).await, None);
        let led = rig.partition().led().expect("it is replicated");
        led.check_lag(uptime_ms() + 30_000);
        assert_eq!(begun(&mut produce).await, None, "it may lag for so long");
        led.check_lag(uptime_ms() + 60_000);
        assert_eq!(begun(&mut produce).await, None, "the controller has not committed the change");
        assert_eq!(rig.commit_change(), [rig.node]);
        assert_eq!(produce.await, (OK, 0));
        assert_eq!(rig.broker.replicas().replication().isr_counts().shrinks, 1);
    });
}

#[test]
fn a_follower_serves_consumers_and_refuses_followers() {
    let mut rig = Rig::start();
    rig.run(async {
        assert_eq!(rig.produce(1, LONG_MS).await, (OK, 0));
        assert_eq!(rig.produce(1, LONG_MS).await, (OK, 1));
        assert_eq!(rig.follow(1).await.error_code, OK);
    });
    rig.publish(&[PartitionChangeRecord { leader: OTHER, ..change(TOPIC) }.into()]);
    rig.run(async {
        let seen = rig.consume(0).await;
        assert_eq!((seen.error_code, seen.high_watermark), (OK, 1));
        let records = seen.records.expect("the record below the high watermark");
        assert_eq!(levada_base::batch::BatchView::parse(&records).unwrap().size_bytes(), records.len());
        assert_eq!(rig.follow(0).await.error_code, ErrorCode::NotLeaderOrFollower.code());
        let refused = (ErrorCode::NotLeaderOrFollower.code(), -1);
        assert_eq!([rig.list(-1, LATEST).await, rig.list(OTHER, LATEST).await], [refused; 2]);
        assert_eq!(rig.list(-2, LATEST).await, (OK, 2), "a tool compares replicas");
    });
}

#[test]
fn preferred_read_replica_is_in_consumers_rack() {
    const SELECTOR: &str = "replica.selector.class=org.apache.kafka.common.replica.RackAwareReplicaSelector";
    // The setting, the consumer's rack, its offset, and the replica that it is sent to.
    for (settings, rack, offset, preferred) in [
        (&[SELECTOR, "broker.rack=near"][..], "far", 0, OTHER),
        (&[SELECTOR, "broker.rack=near"], "far", 1, OTHER),
        (&[SELECTOR, "broker.rack=near"], "far", 2, -1),
        (&[SELECTOR, "broker.rack=near"], "near", 0, -1),
        (&[SELECTOR, "broker.rack=near"], "elsewhere", 0, -1),
        (&[SELECTOR, "broker.rack=far"], "far", 0, -1),
        (&[SELECTOR, "broker.rack=near"], "", 0, -1),
        (&["broker.rack=near"], "far", 0, -1),
    ] {
        let mut rig = Rig::start_with(settings);
        rig.let_other_listen_as("PLAINTEXT");
        rig.run(async {
            assert_eq!(rig.produce(1, LONG_MS).await, (OK, 0));
            assert_eq!(rig.produce(1, LONG_MS).await, (OK, 1));
            assert_eq!(rig.follow(1).await.error_code, OK);
            let fetched = rig.fetch(FetchRequest { rack_id: rack.into(), ..rig.fetch_of(-1, offset) }).await;
            assert_eq!(fetched.error_code, OK);
            assert_eq!(fetched.preferred_read_replica, preferred, "{settings:?}, {rack}, {offset}");
            let has_records = fetched.records.is_some_and(|records| !records.is_empty());
            assert_eq!(has_records, preferred < 0 && offset < 1);
        });
    }
}

#[test]
fn preferred_read_replica_has_consumers_listener() {
    let selector = "replica.selector.class=org.apache.kafka.common.replica.RackAwareReplicaSelector";
    let mut rig = Rig::start_with(&[selector, "broker.rack=near"]);
    rig.let_other_listen_as("INTERNAL");
    rig.run(async {
        assert_eq!(rig.produce(1, LONG_MS).await, (OK, 0));
        assert_eq!(rig.follow(1).await.error_code, OK);
        let fetched = rig.fetch(FetchRequest { rack_id: "far".into(), ..rig.fetch_of(-1, 0) }).await;
        assert_eq!((fetched.error_code, fetched.preferred_read_replica), (OK, -1));
        assert!(fetched.records.is_some_and(|records| !records.is_empty()), "nobody else serves it");
    });
}

/// A setting of the topic.
fn topic_setting(name: &str, value: Option<&str>) -> Record {
    let (resource_name, name) = ("t".to_owned(), name.to_owned());
    ConfigRecord { resource_type: 2, resource_name, name, value: value.map(str::to_owned) }.into()
}

#[test]
fn throttled_out_of_sync_follower_gets_no_records() {
    const REPLICAS: &str = "leader.replication.throttled.replicas";
    // After the first bytes no time is long enough.
    let settings = ["leader.replication.throttled.rate=0", "replication.quota.window.num=1000000"];
    let mut rig = Rig::start_with(&settings);
    let node = rig.node;
    let has_records =
        |fetched: FetchedPartition<Bytes>| fetched.records.is_some_and(|records| !records.is_empty());
    let listed = format!("0:{node}");
    rig.publish(&[in_sync(&[node]), topic_setting(REPLICAS, Some(&listed))]);
    rig.run(async {
        assert_eq!(rig.produce(1, LONG_MS).await, (OK, 0));
        assert!(has_records(rig.follow(0).await), "the rate is measured from the first bytes on");
        assert!(!has_records(rig.follow(0).await));
        assert_eq!(rig.follow(0).await.error_code, OK);
        assert!(has_records(rig.consume(0).await), "a consumer is not throttled");
    });
    assert!(rig.broker.replicas().replication_state().throttled_bytes.0 > 0);
    rig.publish(&[in_sync(&[node, OTHER])]);
    rig.run(async { assert!(has_records(rig.follow(0).await), "a throttle takes no replica out of sync") });
    for (value, expected) in
        [(Some("*"), false), (Some("0:77,1:1"), true), (Some(&*listed), false), (None, true)]
    {
        rig.publish(&[in_sync(&[node]), topic_setting(REPLICAS, value)]);
        rig.run(async { assert_eq!(has_records(rig.follow(0).await), expected, "{value:?}") });
    }
}

#[test]
fn throttled_follower_fetch_waits_until_rate_permits() {
    let mut rig = Rig::start_with(&["leader.replication.throttled.rate=60"]);
    let node = rig.node;
    let all = topic_setting("leader.replication.throttled.replicas", Some("*"));
    rig.publish(&[in_sync(&[node]), all]);
    rig.run(async {
        assert_eq!(rig.produce(1, LONG_MS).await, (OK, 0));
        let first = rig.follow(0).await.records.expect("records").len();
        assert!(first > 60, "more than the rate permits in a second");
        // Without records the response comes when the wait is over.
        let patient = FetchRequest { max_wait_ms: 60_000, ..rig.fetch_of(OTHER, 0) };
        assert_eq!(rig.fetch(patient).await.records.map(|records| records.len()), Some(first));
    });
}

#[test]
fn delete_records_waits_for_followers_until_timeout() {
    let rig = Rig::start();
    rig.run(async {
        assert_eq!(rig.produce(1, LONG_MS).await, (OK, 0));
        assert_eq!(rig.produce(1, LONG_MS).await, (OK, 1));
        assert_eq!(rig.follow(2).await.high_watermark, 0);
        let from = |log_start| {
            let mut request = rig.fetch_of(OTHER, 2);
            request.topics[0].partitions[0].log_start_offset = log_start;
            rig.fetch(request)
        };
        assert_eq!(rig.delete(1, 1).await, (ErrorCode::RequestTimedOut.code(), -1));
        assert_eq!(rig.partition().log().log_start(), 1, "the leader has deleted them");
        assert_eq!(from(0).await.log_start_offset, 1);
        let mut delete = Box::pin(rig.delete(1, LONG_MS));
        assert_eq!(begun(&mut delete).await, None);
        assert_eq!(from(1).await.error_code, OK);
        assert_eq!(delete.await, (OK, 1));
    });
}

#[test]
fn task_of_removed_replica_leaves_successor_unchanged() {
    let mut rig = Rig::start();
    let (node, removed) = (rig.node, rig.partition());
    let replicas = |replicas: &[i32]| {
        let (leader, isr) = (OTHER, Some(vec![OTHER]));
        PartitionChangeRecord { leader, isr, replicas: Some(replicas.to_vec()), ..change(TOPIC) }.into()
    };
    rig.publish(&[replicas(&[OTHER])]);
    rig.publish(&[replicas(&[OTHER, node])]);
    let (successor, restart) = (rig.partition(), Task::Restart(5));
    let epoch = successor.leadership().leader_epoch();
    let end = log_end(successor.log());
    let carry_out = |partition: &Partition| {
        rig.broker.replicas().follower_tasks().carry_out(partition, (epoch, end), &restart)
    };
    assert_eq!(carry_out(&removed), Outcome::Superseded);
    assert_eq!(successor.log().log_end(), 0);
    assert!(matches!(carry_out(&successor), Outcome::Done(end) if end.offset == 5));
}

#[test]
fn partition_after_append_panic_yields_leadership() {
    let mut rig = Rig::start();
    rig.run(async { assert_eq!(rig.produce(1, LONG_MS).await, (OK, 0)) });
    let (node, partition) = (rig.node, rig.partition());
    let mut batch = Builder::new();
    batch.push(0, None, None);
    let append = Append::client(batch.build().unwrap());
    let panics = AssertUnwindSafe(|| partition.lane().submit(append, 0, || panic!("on purpose")));
    assert!(std::panic::catch_unwind(panics).is_err());
    assert!(partition.led().is_some(), "the metadata has nothing else yet");
    rig.publish(&[PartitionChangeRecord { leader: OTHER, ..change(TOPIC) }.into()]);
    assert!(!partition.leadership().is_leader() && partition.led().is_none());
    assert_eq!(partition.leadership().leader(), OTHER);
    rig.publish(&[PartitionChangeRecord { leader: node, ..change(TOPIC) }.into()]);
    assert!(partition.leadership().is_unstored() && partition.led().is_none());
    assert_eq!(partition.check_leader(-1), Err(ErrorCode::NotLeaderOrFollower));
}

/// The number of fetchers changes, and the thread that has a partition no longer is late.
#[test]
fn outdated_follower_task_leaves_log_unchanged() {
    let mut rig = Rig::start();
    rig.run(async {
        for offset in 0..3 {
            assert_eq!(rig.produce(1, LONG_MS).await, (OK, offset));
        }
    });
    let (leader, isr) = (OTHER, Some(vec![OTHER]));
    rig.publish(&[PartitionChangeRecord { leader, isr, ..change(TOPIC) }.into()]);
    let partition = rig.partition();
    let (epoch, end) = (partition.leadership().leader_epoch(), log_end(partition.log()));
    let carry_out =
        |end, task: &Task| rig.broker.replicas().follower_tasks().carry_out(&partition, (epoch, end), task);
    let mut batch = Builder::new().base_offset(50).leader_epoch(epoch);
    batch.push(0, None, Some(b"behind a gap"));
    let marks = LeaderMarks { high_watermark: 60, log_start: 0 };
    let append = Task::Append { records: batch.build().unwrap().freeze(), marks };
    let earlier = [LogEnd { offset: 2, ..end }, LogEnd { epoch: end.epoch - 1, ..end }];
    for task in [Task::Restart(50), Task::Truncate(0), append] {
        for decided_at in earlier {
            assert_eq!(carry_out(decided_at, &task), Outcome::Moved(end), "{task:?}");
        }
        assert_eq!(log_end(partition.log()), end, "{task:?}");
        assert_eq!(partition.log().log_start(), 0);
    }
    assert!(matches!(carry_out(end, &Task::Truncate(1)), Outcome::Done(end) if end.offset == 1));
}

/// A broker with three committed records that has begun to follow, and has stored its checkpoints.
fn resigned() -> Rig {
    let mut rig = Rig::start();
    rig.run(async {
        for offset in 0..3 {
            assert_eq!(rig.produce(1, LONG_MS).await, (OK, offset));
        }
    });
    rig.partition().log().raise_high_watermark(3);
    rig.broker.replicas().checkpoints().store();
    let (leader, isr) = (OTHER, Some(vec![OTHER]));
    rig.publish(&[PartitionChangeRecord { leader, isr, ..change(TOPIC) }.into()]);
    rig
}

#[test]
fn preferred_leadership_of_another_broker_is_counted() {
    let not_led = |rig: &Rig| rig.broker.replicas().replication_state().preferred_not_led;
    assert_eq!(not_led(&Rig::start()), 0);
    assert_eq!(not_led(&resigned()), 1);
}

/// The end of the log after this task, and the offset of the partition in this checkpoint.
fn carried_out(rig: &Rig, task: &Task, checkpoint: &str) -> (i64, Option<String>) {
    let (partition, end) = (rig.partition(), log_end(rig.partition().log()));
    let epoch = partition.leadership().leader_epoch();
    let done = rig.broker.replicas().follower_tasks().carry_out(&partition, (epoch, end), task);
    let Outcome::Done(end) = done else { panic!("{done:?}") };
    let text = fs::read_to_string(rig.home.path().join(checkpoint)).unwrap();
    (end.offset, text.lines().find_map(|line| line.strip_prefix("t 0 ")).map(str::to_owned))
}

/// After a crash, the old one would count for the records that come there since.
#[test]
fn truncation_lowers_checkpointed_high_watermark() {
    let rig = resigned();
    let carried_out = carried_out(&rig, &Task::Truncate(1), "replication-offset-checkpoint");
    assert_eq!(carried_out, (1, Some("1".to_owned())));
}

/// After a crash, records that the leader never had would show from the old one on.
#[test]
fn log_start_at_log_end_is_checkpointed() {
    let rig = resigned();
    let marks = |log_start: i64| Task::Append {
        records: Bytes::new(),
        marks: LeaderMarks { high_watermark: 3, log_start },
    };
    let checkpoint = "log-start-offset-checkpoint";
    assert_eq!(
        carried_out(&rig, &marks(2), checkpoint),
        (3, Some("0".to_owned())),
        "its leader has the last record"
    );
    assert_eq!(carried_out(&rig, &marks(3), checkpoint), (3, Some("3".to_owned())));
}

/// After a crash, the old ones would hide the records that come before them.
#[test]
fn lowered_empty_log_updates_its_checkpoints() {
    let rig = resigned();
    for (checkpoint, offset) in [("log-start-offset-checkpoint", 4), ("replication-offset-checkpoint", 2)] {
        assert_eq!(carried_out(&rig, &Task::Restart(5), checkpoint).0, 5);
        rig.broker.replicas().checkpoints().store();
        let carried_out = carried_out(&rig, &Task::Lower(offset), checkpoint);
        assert_eq!(carried_out, (offset, Some(offset.to_string())), "{checkpoint}");
    }
}

/// Records that are appended after a truncation were not compacted.
#[test]
fn truncation_lowers_the_compaction_checkpoint() {
    let mut rig = Rig::start();
    rig.run(async {
        for offset in 0..3 {
            assert_eq!(rig.produce(1, LONG_MS).await, (OK, offset));
        }
    });
    let key = (rig.partition().topic().to_owned(), rig.partition().index());
    let cleaner = |rig: &Rig| rig.broker.replicas().cleaner().checkpoint(&key);
    rig.broker.replicas().cleaner().done(&key, 3, || false);
    let (leader, isr) = (OTHER, Some(vec![OTHER]));
    rig.publish(&[PartitionChangeRecord { leader, isr, ..change(TOPIC) }.into()]);
    let epoch = rig.partition().leadership().leader_epoch();
    let truncate = Task::Truncate(1);
    let end = log_end(rig.partition().log());
    let done = rig.broker.replicas().follower_tasks().carry_out(&rig.partition(), (epoch, end), &truncate);
    assert!(matches!(done, Outcome::Done(end) if end.offset == 1), "{done:?}");
    assert_eq!(cleaner(&rig), Some(1));
}

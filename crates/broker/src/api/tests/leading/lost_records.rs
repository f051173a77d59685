//! A replica whose log lacks records that it has had, and positions that are not on the device.

use std::fs;

use bytes::Bytes;
use levada_base::batch::Builder;
use levada_cluster::replication::apply::{apply, log_end};
use levada_cluster::replication::follower::{LeaderMarks, Outcome, Task};
use levada_metadata::records::PartitionChangeRecord;
use levada_metadata::uuid::LOST_DIRECTORY;
use levada_process::clock::{now_ms, uptime_ms};
use levada_wire::error_code::ErrorCode;

use super::rig::{OTHER, OTHER_EPOCH, Rig, TOPIC, change};
use super::{LONG_MS, OK, resigned};
use crate::replica::last_shutdown::PartitionAtShutdown;

const HIGH_WATERMARKS: &str = "replication-offset-checkpoint";
const LOG_STARTS: &str = "log-start-offset-checkpoint";
const NOT_LEADER: i16 = ErrorCode::NotLeaderOrFollower.code();

/// The offset of the partition in a checkpoint.
fn stored(rig: &Rig, checkpoint: &str) -> Option<i64> {
    let text = fs::read_to_string(rig.home.path().join(checkpoint)).unwrap();
    text.lines().find_map(|line| line.strip_prefix("t 0 ")).map(|offset| offset.parse().unwrap())
}

/// Records of the leader from offset 3 on.
fn append(rig: &Rig, records: usize) -> Task {
    let leader_epoch = rig.partition().leadership().leader_epoch();
    let mut batch = Builder::new().base_offset(3).leader_epoch(leader_epoch);
    for _ in 0..records {
        batch.push(0, None, Some(b"value"));
    }
    let marks = LeaderMarks { high_watermark: 3, log_start: 0 };
    Task::Append { records: batch.build().unwrap().freeze(), marks }
}

fn carried_out(rig: &Rig, task: &Task) -> Outcome {
    let (partition, end) = (rig.partition(), log_end(rig.partition().log()));
    let epoch = partition.leadership().leader_epoch();
    rig.broker.replicas().follower_tasks().carry_out(&partition, (epoch, end), task)
}

/// A broker that has opened a log with three records, whose checkpoints have offsets up to 9.
fn short() -> Rig {
    let rig = Rig::start();
    rig.run(async {
        for offset in 0..3 {
            assert_eq!(rig.produce(1, LONG_MS).await, (OK, offset));
        }
    });
    let (replicas, partition) = (rig.broker.replicas(), rig.partition());
    replicas.abandon(&partition);
    let left = PartitionAtShutdown { clean: false, recovery_point: 9, log_start: 0, high_watermark: 9 };
    replicas.unopened().lock().note(&("t".to_owned(), 0), left);
    rig.broker.publisher().open_unopened();
    rig
}

/// The only replica in sync of a partition that the controllers have elected uncleanly.
fn elected() -> Rig {
    let mut rig = short();
    let (leader, isr) = (rig.node, Some(vec![rig.node]));
    rig.publish(&[PartitionChangeRecord { leader, isr, ..change(TOPIC) }.into()]);
    assert!(rig.partition().leadership().is_unstored());
    rig
}

/// A fetch of the other replica, whose log ends there in the epoch of this log's last record.
fn follow(rig: &Rig, offset: i64) -> i16 {
    let mut request = rig.fetch_of(OTHER, offset);
    request.topics[0].partitions[0].last_fetched_epoch = rig.partition().log().latest_epoch();
    rig.run(rig.fetch(request)).error_code
}

#[test]
fn incomplete_replica_is_lost_until_in_sync() {
    let mut rig = short();
    let (node, own) = (rig.node, rig.broker.replicas().dirs().first().id());
    let is_lost = |rig: &Rig| {
        let (replicas, at) = (rig.broker.replicas(), rig.broker.replicas().directory_of("t", 0));
        assert_eq!(at, Some(if replicas.lost(uptime_ms()).is_empty() { own } else { LOST_DIRECTORY }));
        at == Some(LOST_DIRECTORY)
    };
    assert!(is_lost(&rig), "the other replica in sync is to lead");
    assert_eq!(rig.run(rig.produce(1, LONG_MS)).0, NOT_LEADER);
    let warnings = rig.broker.replicas().warnings();
    assert!(warnings.len() == 1 && warnings[0].contains("t-0"), "{warnings:?}");
    rig.broker.replicas().checkpoints().store();
    assert_eq!(stored(&rig, HIGH_WATERMARKS), Some(9), "the next start has to find the same");
    let led_by_other = |isr: &[i32], eligible: &[i32]| PartitionChangeRecord {
        leader: OTHER,
        isr: Some(isr.to_vec()),
        eligible_leader_replicas: Some(eligible.to_vec()),
        ..change(TOPIC)
    };
    rig.publish(&[led_by_other(&[OTHER], &[node]).into()]);
    assert!(is_lost(&rig), "it is eligible to lead");
    assert!(matches!(carried_out(&rig, &append(&rig, 6)), Outcome::Done(end) if end.offset == 9));
    assert_eq!(stored(&rig, HIGH_WATERMARKS), Some(3), "other records come there");
    rig.publish(&[led_by_other(&[OTHER, node], &[]).into()]);
    assert!(!is_lost(&rig) && rig.broker.replicas().warnings().is_empty());
}

#[test]
fn elected_short_replica_yields_to_longer_one() {
    let mut rig = elected();
    let replicas = rig.broker.replicas().clone();
    assert!(!replicas.settle_doubts() && rig.change_due().is_none(), "the other was not heard");
    assert_eq!(replicas.directory_of("t", 0), Some(replicas.dirs().first().id()));
    assert_eq!(follow(&rig, 9), NOT_LEADER, "it would truncate its log");
    assert!(!replicas.settle_doubts());
    assert_eq!(rig.change_due(), Some(vec![(rig.node, 3), (OTHER, OTHER_EPOCH)]));
    let isr = Some(vec![rig.node, OTHER]);
    rig.publish(&[PartitionChangeRecord { isr, ..change(TOPIC) }.into()]);
    assert_eq!(replicas.directory_of("t", 0), Some(LOST_DIRECTORY), "the controllers elect the other");
    assert!(!replicas.settle_doubts());
}

/// Several damaged replicas report themselves as lost. The one that is elected must not wait for
/// the reports to end: the others wait for a leader.
#[test]
fn elected_short_replica_yields_to_lost_longer_one() {
    let mut rig = elected();
    let replicas = rig.broker.replicas().clone();
    let own = replicas.dirs().first().id();
    let image = rig.broker.metadata().image();
    let assigned = image.topic("t").unwrap().partition(0).unwrap().replicas.clone();
    let of = |replica: i32| if replica == OTHER { LOST_DIRECTORY } else { own };
    let directories = Some(assigned.into_iter().map(of).collect());
    rig.publish(&[PartitionChangeRecord { directories, ..change(TOPIC) }.into()]);
    assert_eq!(follow(&rig, 9), NOT_LEADER);
    assert!(!replicas.settle_doubts());
    assert_eq!(rig.change_due(), Some(vec![(rig.node, 3), (OTHER, OTHER_EPOCH)]));
}

#[test]
fn elected_replica_with_most_records_leads() {
    let rig = elected();
    let replicas = rig.broker.replicas();
    assert_eq!(follow(&rig, 2), NOT_LEADER);
    assert!(replicas.settle_doubts());
    rig.broker.publisher().lead_unstored();
    assert_eq!(rig.run(rig.produce(1, LONG_MS)), (OK, 3));
    assert_eq!(stored(&rig, HIGH_WATERMARKS), Some(3));
    assert!(!replicas.settle_doubts() && replicas.warnings().is_empty());
}

/// Two threads take turns when a replica joins those in sync, and when leaders change: the second
/// one would name the offset that the first one has appended up to.
#[test]
fn follower_syncs_records_before_next_fetch() {
    let mut rig = Rig::start_with(&["levada.ack.durability=fdatasync"]);
    rig.run(async { assert_eq!(rig.produce(1, LONG_MS).await.0, OK) });
    let (leader, isr) = (OTHER, Some(vec![OTHER]));
    rig.publish(&[PartitionChangeRecord { leader, isr, ..change(TOPIC) }.into()]);
    let (partition, end) = (rig.partition(), log_end(rig.partition().log()));
    let epoch = partition.leadership().leader_epoch();
    let mut batch = Builder::new().base_offset(1).leader_epoch(epoch);
    batch.push(0, None, None);
    let marks = LeaderMarks { high_watermark: 1, log_start: 0 };
    let task = Task::Append { records: batch.build().unwrap().freeze(), marks };
    let appended = partition.follow(epoch, |writer| apply(writer, &task, epoch, end, now_ms()));
    assert!(appended.is_some_and(|appended| appended.is_ok()));
    assert!(partition.log().durable() < 2);
    assert_eq!(rig.broker.replicas().follower_tasks().prepare_fetch(&partition), Some(0));
    assert_eq!(partition.log().durable(), 2);
}

#[test]
fn deleted_records_stay_deleted_after_crash() {
    let rig = Rig::start();
    rig.run(async {
        for offset in 0..3 {
            assert_eq!(rig.produce(1, LONG_MS).await, (OK, offset));
        }
        rig.partition().log().raise_high_watermark(3);
        rig.delete(2, 1).await;
    });
    assert_eq!(stored(&rig, LOG_STARTS), Some(2));
}

#[test]
fn follower_stores_log_start_before_reporting_it() {
    let rig = resigned();
    let marks = LeaderMarks { high_watermark: 3, log_start: 2 };
    let done = carried_out(&rig, &Task::Append { records: Bytes::new(), marks });
    assert!(matches!(done, Outcome::Done(_)), "{done:?}");
    rig.broker.replicas().checkpoints().store_misleading().unwrap();
    assert_eq!(stored(&rig, LOG_STARTS), Some(2));
}

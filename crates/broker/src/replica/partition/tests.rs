//! A partition whose leader changes.

use levada_base::batch::Builder;
use levada_cluster::replication::apply::{Applied, Attempt, apply, log_end};
use levada_cluster::replication::follower::{LeaderMarks, Task};
use levada_config::BrokerConfig;
use levada_log::{Append, AppendError, OpenOptions};
use levada_metadata::image::PartitionRegistration;
use tempfile::TempDir;

use super::*;
use crate::replica::submitted::Write;

const NODE: i32 = 1;

/// The part of this node with these replicas in sync, in a leader epoch that is the partition epoch
/// as well.
fn leadership(leader: i32, epoch: i32, isr: &[i32]) -> Leadership {
    let registration = PartitionRegistration {
        leader,
        leader_epoch: epoch,
        partition_epoch: epoch,
        isr: isr.to_vec(),
        ..PartitionRegistration::default()
    };
    Leadership::of(&registration, NODE)
}

fn partition(dir: &TempDir, leadership: Leadership) -> Arc<Partition> {
    let options = OpenOptions { high_watermark: Some(0), ..OpenOptions::new(dir.path().join("topic-0")) };
    let (writer, _) = Writer::open(options, 1_000).unwrap();
    let config = TopicConfig::resolve(BrokerConfig::default().settings(), &Default::default()).unwrap();
    let topic_id = Uuid::from_bytes([7; 16]);
    let identity = PartitionIdentity { topic: "topic".into(), topic_id, index: 0, leadership };
    Arc::new(Partition::new(identity, writer, Arc::new(config), Arc::default()))
}

/// Appends a record that was checked in this leader epoch; its offset, or the epoch in which the
/// log is led.
fn append(partition: &Arc<Partition>, leader_epoch: i32) -> Result<i64, i32> {
    let mut batch = Builder::new();
    batch.push(1_000, None, Some(b"value"));
    let append = Append { leader_epoch, ..Append::client(batch.build().unwrap()) };
    let Write::Done(result) = partition.append(append, 1_000).write else {
        panic!("no other thread appends")
    };
    result.map(|appended| appended.base_offset).map_err(|error| match error {
        AppendError::LeaderEpoch { led, .. } => led,
        error => panic!("{error}"),
    })
}

#[test]
fn batch_checked_before_leader_change_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let partition = partition(&dir, leadership(NODE, 5, &[NODE]));
    assert_eq!(append(&partition, 5), Ok(0));
    partition.lead(leadership(NODE, 6, &[NODE]));
    assert_eq!(append(&partition, 5), Err(6));
    assert_eq!(append(&partition, 6), Ok(1));
    partition.lead(leadership(2, 7, &[2, NODE]));
    assert_eq!(append(&partition, 6), Err(-1));
    assert_eq!(append(&partition, 7), Err(-1), "another node leads in it");
    assert_eq!(partition.check_leader(-1), Err(ErrorCode::NotLeaderOrFollower));
    assert_eq!(partition.log().log_end(), 2);
}

#[test]
fn older_leader_epoch_is_ignored() {
    let dir = tempfile::tempdir().unwrap();
    let partition = partition(&dir, leadership(NODE, 5, &[NODE]));
    partition.lead(leadership(2, 4, &[2]));
    assert_eq!(partition.check_leader(5), Ok(()));
    assert_eq!(append(&partition, 5), Ok(0));
}

#[test]
fn only_sole_isr_leader_shows_records_immediately() {
    let dir = tempfile::tempdir().unwrap();
    let partition = partition(&dir, leadership(NODE, 5, &[NODE, 2]));
    let shown = || (partition.log().high_watermark(), partition.log().log_end());
    assert_eq!((append(&partition, 5), shown()), (Ok(0), (0, 1)));
    partition.lead(leadership(NODE, 6, &[NODE]));
    assert_eq!(shown(), (1, 1), "nobody else has to have it any more");
    assert_eq!((append(&partition, 6), shown()), (Ok(1), (2, 2)));
}

/// Applies what the leader sent in answer to a fetch of this epoch: a record and its high
/// watermark. The end of the log and the high watermark then; none if nothing was done.
fn replicate(partition: &Arc<Partition>, asked_in: i32, batch_epoch: i32) -> Option<(i64, i64)> {
    let decided_at = log_end(partition.log());
    let end = decided_at.offset;
    let mut batch = Builder::new().base_offset(end).leader_epoch(batch_epoch);
    batch.push(1_000, None, Some(b"value"));
    let marks = LeaderMarks { high_watermark: end + 1, log_start: 0 };
    let task = Task::Append { records: batch.build().unwrap().freeze(), marks };
    let attempt = partition.follow(asked_in, |writer| apply(writer, &task, asked_in, decided_at, 1_000))?;
    let Attempt::Applied(Applied { end, .. }) = attempt.unwrap() else { panic!("nobody else appends") };
    Some((end.offset, partition.log().high_watermark()))
}

#[test]
fn fetch_response_from_former_leader_is_ignored() {
    let dir = tempfile::tempdir().unwrap();
    let partition = partition(&dir, leadership(2, 5, &[2, NODE]));
    assert_eq!(replicate(&partition, 5, 5), Some((1, 1)));
    assert_eq!(replicate(&partition, 4, 4), None, "the leader of an earlier epoch");
    partition.lead(leadership(3, 6, &[3, NODE]));
    assert_eq!(replicate(&partition, 5, 5), None, "the leader before");
    partition.lead(leadership(NODE, 7, &[NODE]));
    for epoch in [6, 7] {
        assert_eq!(replicate(&partition, epoch, epoch), None, "this node leads");
    }
    assert_eq!((partition.log().log_end(), partition.log().high_watermark()), (1, 1));
    assert_eq!(append(&partition, 7), Ok(1));
}

/// Another change of the partition might never come.
#[test]
fn unstored_leader_epoch_is_retried_until_stored() {
    let dir = tempfile::tempdir().unwrap();
    let partition = partition(&dir, leadership(2, 5, &[2, NODE]));
    let lead = || {
        let registration = PartitionRegistration {
            leader: NODE,
            leader_epoch: 6,
            partition_epoch: 6,
            replicas: vec![NODE, 2],
            isr: vec![NODE, 2],
            ..PartitionRegistration::default()
        };
        partition.lead(Leadership::of(&registration, NODE));
    };
    let obstacle = partition.log().dir().join("leader-epoch-checkpoint.tmp");
    std::fs::create_dir(&obstacle).unwrap();
    lead();
    assert!(partition.leadership().is_unstored());
    assert_eq!(append(&partition, 6), Err(-1));
    let is_due_in = |ms: i64| partition.is_epoch_to_be_stored(clock::uptime_ms() + ms);
    assert!(!is_due_in(0) && is_due_in(4_000));
    lead();
    assert!(partition.leadership().is_unstored(), "the obstacle is still there");
    assert!(!is_due_in(4_000) && is_due_in(8_000), "the pause has doubled");
    std::fs::remove_dir(&obstacle).unwrap();
    lead();
    assert!(partition.leadership().is_leader() && !partition.leadership().is_unstored());
    assert!(!is_due_in(i64::MAX / 2), "nothing is left to do");
    assert_eq!(append(&partition, 6), Ok(0));
}

#[test]
fn node_without_stored_epoch_holds_up_isr() {
    let holds_up = |isr: &[i32]| {
        let dir = tempfile::tempdir().unwrap();
        let partition = partition(&dir, leadership(2, 5, &[2, NODE]));
        let registration = PartitionRegistration {
            leader: NODE,
            leader_epoch: 6,
            partition_epoch: 6,
            replicas: vec![NODE, 2],
            isr: isr.to_vec(),
            ..PartitionRegistration::default()
        };
        std::fs::create_dir(partition.log().dir().join("leader-epoch-checkpoint.tmp")).unwrap();
        let before_ms = clock::uptime_ms() - 1;
        partition.lead(Leadership::of(&registration, NODE));
        assert!(partition.leadership().is_unstored() && !partition.holds_up_since(before_ms));
        let holds_up = partition.holds_up_since(clock::uptime_ms());
        partition.lead(leadership(2, 7, &[2]));
        assert!(!partition.holds_up_since(clock::uptime_ms()), "another node leads");
        holds_up
    };
    assert!(holds_up(&[NODE, 2]));
    assert!(!holds_up(&[NODE]), "no other replica could lead");
}

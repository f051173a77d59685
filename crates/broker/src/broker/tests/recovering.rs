//! Answers to clients while logs are checked after an unclean stop.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use levada_base::Append;
use levada_base::batch::Builder;
use levada_coordination::group::GroupError;
use levada_coordination::group::request::{
    CommitPartition, CommitRequest, CommitTopic, FetchRequest, FetchedTopic,
};
use levada_log::crash_disk::Recorder;
use levada_metadata::controller::{NewTopic, TopicKey};
use levada_wire::Uuid;
use levada_wire::error_code::ErrorCode;

use super::crash::directory;
use super::crash::life::{Incarnation, Ways};
use crate::quota::MutationQuota;
use crate::replica::OFFSETS_TOPIC;
use crate::replica::RecoveryProgress;
use crate::source::Source;

const LONG: Duration = Duration::from_secs(60);

fn create(now: &Incarnation, name: &str) -> Uuid {
    let name = name.to_owned();
    let topic = NewTopic { name, partitions: 1, replication_factor: 1, ..NewTopic::default() };
    now.run(now.broker.controller().create_topics(vec![topic], MutationQuota::default(), false))
        .pop()
        .unwrap()
        .ok()
        .unwrap()
        .topic_id
}

fn write(now: &Incarnation, topic: &str) -> i64 {
    let mut batch = Builder::new();
    batch.push(0, None, Some(b"one"));
    let partition = now.broker.replicas().partition(topic, 0).unwrap();
    let appended =
        now.run(async { partition.append(Append::client(batch.build().unwrap()), 0).wait().await });
    appended.unwrap().base_offset
}

/// A broker that died with a record in each of two topics, opened again while the log of one
/// directory cannot be checked: all others are done.
fn reopened(dir: &Path, held: &'static str) -> (Arc<Recorder>, Incarnation) {
    let now = Incarnation::begin(Arc::new(Recorder::new(dir)), dir, Ways::default()).unwrap();
    now.run(now.broker.controller().ensure_internal_topic(OFFSETS_TOPIC)).unwrap();
    for topic in ["slow", "fast"] {
        create(&now, topic);
        assert_eq!(write(&now, topic), 0);
    }
    drop(now);
    let disk = Arc::new(Recorder::new(dir));
    disk.hold(Some(held));
    let now = Incarnation::begin(disk.clone(), dir, Ways::default()).unwrap();
    while now.broker.replicas().recovery().progress().left > 1 {
        std::thread::yield_now();
    }
    (disk, now)
}

fn commits_of_group() -> FetchRequest {
    FetchRequest {
        group_id: "group".to_owned(),
        member_id: None,
        member_epoch: -1,
        topics: None,
        require_stable: false,
    }
}

fn offsets_of(now: &Incarnation) -> Result<(), GroupError> {
    now.run(now.broker.coordinators().groups().ask(commits_of_group())).map(drop)
}

/// The topics that the group has commits for.
fn committed(now: &Incarnation) -> Vec<String> {
    let fetched = now.run(now.broker.coordinators().groups().ask(commits_of_group())).unwrap();
    let has = |topic: &FetchedTopic| topic.partitions.iter().any(|one| one.offset >= 0);
    fetched.iter().filter(|topic| has(topic)).map(|topic| topic.name.to_string()).collect()
}

#[test]
fn log_check_does_not_delay_other_logs() {
    let home = directory();
    let (disk, now) = reopened(home.path(), "slow-0");
    assert_eq!(write(&now, "fast"), 1);
    assert_eq!(now.broker.replicas().partition("slow", 0).err(), Some(ErrorCode::NotLeaderOrFollower));
    assert_eq!(offsets_of(&now), Ok(()));
    let RecoveryProgress { total, left, .. } = now.broker.replicas().recovery().progress();
    assert_eq!((total, left), (4, 1));
    assert_eq!(Source::unhealthy(&*now.broker), None);
    // Housekeeping leaves the log to the recovering thread, and its checkpoints unchanged.
    now.run(now.broker.keep_house());
    disk.hold(None);
    assert!(now.broker.replicas().recovery().wait(LONG));
    assert_eq!(write(&now, "slow"), 1);
}

/// Records may come there before the next round of housekeeping.
#[test]
fn shortened_log_lowers_checkpointed_high_watermark() {
    let home = directory();
    let begin = || Incarnation::begin(Arc::new(Recorder::new(home.path())), home.path(), Ways::default());
    let now = begin().unwrap();
    create(&now, "short");
    assert_eq!(write(&now, "short"), 0);
    drop(now);
    let checkpoint = home.path().join("replication-offset-checkpoint");
    fs::write(&checkpoint, "0\n1\nshort 0 9\n").unwrap();
    let _now = begin().unwrap();
    while !fs::read_to_string(&checkpoint).unwrap().contains("short 0 1\n") {
        std::thread::yield_now();
    }
}

#[test]
fn coordinator_is_loading_while_log_is_checked() {
    let home = directory();
    let partition = levada_coordination::group::partition_for("group", 2);
    let (disk, now) =
        reopened(home.path(), ["__consumer_offsets-0", "__consumer_offsets-1"][partition as usize]);
    assert_eq!(offsets_of(&now), Err(GroupError::CoordinatorLoadInProgress));
    assert_eq!(now.run(now.broker.controller().ensure_internal_topic(OFFSETS_TOPIC)).ok(), Some(()));
    disk.hold(None);
    assert!(now.broker.replicas().recovery().wait(LONG));
    assert_eq!(offsets_of(&now), Ok(()));
}

#[test]
fn topic_deleted_during_check_can_be_recreated() {
    let home = directory();
    let (disk, now) = reopened(home.path(), "slow-0");
    let key = TopicKey { name: Some("slow".to_owned()), topic_id: Uuid::ZERO };
    assert!(
        now.run(now.broker.controller().delete_topics(vec![key], MutationQuota::default()))
            .pop()
            .unwrap()
            .1
            .is_ok()
    );
    let id = create(&now, "slow");
    disk.hold(None);
    assert!(now.broker.replicas().recovery().wait(LONG));
    assert_eq!(write(&now, "slow"), 0);
    assert!(now.broker.replicas().partition_by_id(id, 0).is_ok());
    let names = std::fs::read_dir(home.path()).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(
        !names
            .map(|name| name.into_string().unwrap())
            .any(|name| name.contains("delete") || name.contains("stray"))
    );
}

#[test]
fn topic_deleted_during_check_loses_commits() {
    let home = directory();
    let (disk, now) = reopened(home.path(), "slow-0");
    let partitions = vec![CommitPartition { index: 0, offset: 7, leader_epoch: -1, metadata: None }];
    let commit = CommitRequest {
        api_version: 8,
        group_id: "group".to_owned(),
        member_id: String::new(),
        group_instance_id: None,
        generation: -1,
        retention_ms: None,
        topics: vec![CommitTopic { name: "slow".to_owned(), topic_id: Uuid::ZERO, partitions }],
    };
    assert!(now.run(now.broker.coordinators().groups().ask(commit)).is_ok());
    assert_eq!(committed(&now), ["slow"]);
    let key = TopicKey { name: Some("slow".to_owned()), topic_id: Uuid::ZERO };
    assert!(
        now.run(now.broker.controller().delete_topics(vec![key], MutationQuota::default()))
            .pop()
            .unwrap()
            .1
            .is_ok()
    );
    assert_eq!(committed(&now), [""; 0], "a namesake would begin where the old one was read to");
    disk.hold(None);
    assert!(now.broker.replicas().recovery().wait(LONG));
}

#[test]
fn next_start_checks_logs_left_unchecked() {
    let home = directory();
    let (disk, now) = reopened(home.path(), "slow-0");
    now.broker.replicas().recovery().halt();
    now.broker.close();
    assert!(!home.path().join(".kafka_cleanshutdown").exists());
    disk.hold(None);
    assert!(now.broker.replicas().recovery().wait(LONG));
    assert!(now.broker.replicas().partition("slow", 0).is_err());
    drop(now);
    let now = Incarnation::begin(Arc::new(Recorder::new(home.path())), home.path(), Ways::default()).unwrap();
    assert!(now.broker.replicas().recovery().wait(LONG));
    assert_eq!(write(&now, "slow"), 1);
}

#[test]
fn recreated_topic_starts_at_zero_after_crash() {
    let home = directory();
    let now = Incarnation::begin(Arc::new(Recorder::new(home.path())), home.path(), Ways::default()).unwrap();
    let id = create(&now, "again");
    assert_eq!(write(&now, "again"), 0);
    let partition = now.broker.replicas().partition("again", 0).unwrap();
    partition.lane().with_writer(|writer| writer.advance_log_start(1).map(drop)).unwrap().unwrap();
    now.run(now.broker.keep_house());
    let deleted = now.run(
        now.broker
            .controller()
            .delete_topics(vec![TopicKey { name: None, topic_id: id }], MutationQuota::default()),
    );
    assert!(deleted[0].1.is_ok());
    create(&now, "again");
    drop(now);
    let now = Incarnation::begin(Arc::new(Recorder::new(home.path())), home.path(), Ways::default()).unwrap();
    assert!(now.broker.replicas().recovery().wait(LONG));
    let partition = now.broker.replicas().partition("again", 0).unwrap();
    assert_eq!((partition.log().log_start(), partition.log().log_end()), (0, 0));
    assert_eq!(write(&now, "again"), 0);
}

#[test]
fn records_after_lost_tail_get_new_epoch() {
    let home = directory();
    let now = Incarnation::begin(Arc::new(Recorder::new(home.path())), home.path(), Ways::default()).unwrap();
    create(&now, "cut");
    for offset in 0..10 {
        assert_eq!(write(&now, "cut"), offset);
    }
    drop(now);
    // Half of the log never reached the device: all of its batches are of one size.
    let log = home.path().join("cut-0/00000000000000000000.log");
    let file = std::fs::File::options().write(true).open(log).unwrap();
    file.set_len(file.metadata().unwrap().len() / 2).unwrap();
    let now = Incarnation::begin(Arc::new(Recorder::new(home.path())), home.path(), Ways::default()).unwrap();
    assert!(now.broker.replicas().recovery().wait(LONG));
    for offset in 5..13 {
        assert_eq!(write(&now, "cut"), offset);
    }
    let partition = now.broker.replicas().partition("cut", 0).unwrap();
    // A consumer that stands at offset 10 of epoch 0 is told to look, and finds that its epoch
    // ended at 5.
    assert_eq!(partition.check_leader(0), Err(ErrorCode::FencedLeaderEpoch));
    assert_eq!(partition.check_leader(1), Ok(()));
    assert_eq!(partition.log().epoch_end_offset(0), (0, 5));
    assert_eq!(partition.log().epoch_end_offset(1), (1, 13));
}

#[test]
fn checkpoints_beyond_log_end_lose_no_records() {
    let home = directory();
    let mut now =
        Incarnation::begin(Arc::new(Recorder::new(home.path())), home.path(), Ways::default()).unwrap();
    create(&now, "t");
    for (offset, ends_well) in [(0, false), (1, true), (2, true)] {
        assert_eq!(write(&now, "t"), offset);
        if ends_well {
            now.close()
        } else {
            drop(now)
        }
        for name in ["log-start-offset-checkpoint", "recovery-point-offset-checkpoint"] {
            std::fs::write(home.path().join(name), format!("0\n1\nt 0 {}\n", i64::MAX)).unwrap();
        }
        now = Incarnation::begin(Arc::new(Recorder::new(home.path())), home.path(), Ways::default()).unwrap();
        assert!(now.broker.replicas().recovery().wait(LONG), "the recovery has ended");
        let partition = now.broker.replicas().partition("t", 0).unwrap();
        assert_eq!((partition.log().log_start(), partition.log().log_end()), (0, offset + 1));
    }
}

#[test]
fn recovery_of_many_partitions_shares_directory_syncs() {
    let home = directory();
    let begin =
        |disk: &Arc<Recorder>| Incarnation::begin(disk.clone(), home.path(), Ways::default()).unwrap();
    let now = begin(&Arc::new(Recorder::new(home.path())));
    for at in 0..30 {
        create(&now, &format!("t{at}"));
    }
    drop(now);
    let disk = Arc::new(Recorder::new(home.path()));
    let now = begin(&disk);
    assert!(now.broker.replicas().recovery().wait(LONG), "the recovery has ended");
    let recovered = disk.syncs_of_names();
    assert!(recovered < 10, "{recovered} syncs of the directory for 30 partitions");
    // A new directory's name is on the device before its partition serves.
    create(&now, "new");
    assert!(disk.syncs_of_names() > recovered);
}

//! Images of a cluster with other brokers: leaders change, replicas come and leave.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use levada_base::Append;
use levada_base::batch::Builder;
use levada_coordination::group::request::{
    CommitPartition, CommitRequest, CommitTopic, EndTxnRequest, FetchRequest,
};
use levada_coordination::group::{GroupError, Producer};
use levada_log::checkpoint::OffsetCheckpoint;
use levada_log::crash_disk::Recorder;
use levada_log::disk::RealDisk;
use levada_metadata::image::{Image, Position};
use levada_metadata::records::{
    ConfigRecord, LEADER_UNCHANGED, PartitionChangeRecord, PartitionRecord, Record, RemoveTopicRecord,
    TopicRecord,
};
use levada_metadata::uuid::LOST_DIRECTORY;
use levada_process::clock::uptime_ms;
use levada_wire::Uuid;
use levada_wire::error_code::ErrorCode;
use tempfile::TempDir;
use tokio::time::Instant;

use super::crash::directory;
use super::crash::life::{Incarnation, Ways};
use crate::replica::last_shutdown::PartitionAtShutdown;
use crate::replica::{Leadership, OFFSETS_TOPIC, Partition};
use crate::transaction::MARKER_WAIT;

const TOPIC: Uuid = Uuid::from_bytes([7; 16]);
const OFFSETS: Uuid = Uuid::from_bytes([8; 16]);
/// A later topic with the name of the first.
const NAMESAKE: Uuid = Uuid::from_bytes([10; 16]);
pub(super) const OTHER: i32 = 9;

/// A broker that is given images, as if controllers elsewhere had sent them.
pub(super) struct Member {
    pub(super) now: Incarnation,
    pub(super) image: Image,
    pub(super) node: i32,
    home: TempDir,
}

impl Member {
    fn start() -> Self {
        let home = directory();
        let disk = Arc::new(Recorder::new(home.path()));
        Self::of(Incarnation::begin(disk, home.path(), Ways::default()).unwrap(), home)
    }

    /// A broker that has begun in this directory.
    pub(super) fn of(now: Incarnation, home: TempDir) -> Self {
        let (image, node) = (Image::clone(&now.broker.metadata().image()), now.broker.node_id());
        Self { now, image, node, home }
    }

    /// Ends the broker as a crash does.
    pub(super) fn into_home(self) -> TempDir {
        self.home
    }

    pub(super) fn publish(&mut self, records: &[Record]) {
        self.note(records);
        self.publish_noted();
    }

    /// Adds records to the next image.
    pub(super) fn note(&mut self, records: &[Record]) {
        for record in records {
            let position = Position { offset: self.image.offset() + 1, ..Position::default() };
            self.image.apply(record, position).unwrap();
        }
    }

    pub(super) fn publish_noted(&self) {
        // Outside the runtime: what is loaded beside is loaded when this returns.
        let publisher = self.now.broker.publisher();
        publisher.finish(publisher.publish_shared(&self.image)).unwrap();
    }

    fn create(&mut self, topic_id: Uuid, name: &str, replicas: &[i32]) {
        self.publish(&creation(topic_id, name, replicas));
    }

    /// A partition whose log is [2, 3).
    fn partition_that_begins_later(&mut self) -> Arc<Partition> {
        self.create(TOPIC, "t", &[self.node]);
        (0..3).for_each(|offset| assert_eq!(self.write("t"), Ok(offset)));
        let partition = self.now.broker.replicas().partition("t", 0).unwrap();
        self.now.broker.replicas().delete_records(&partition, 2).unwrap();
        self.now.broker.replicas().checkpoints().store();
        partition
    }

    fn checkpoint(&self, which: OffsetCheckpoint) -> Option<i64> {
        which.load(&RealDisk, self.home.path()).unwrap().get(&("t".to_owned(), 0)).copied()
    }

    /// Takes a topic out of service as the end of the process does.
    fn leave(&self, topic_id: Uuid) -> PartitionAtShutdown {
        let removed = self.now.broker.replicas().partitions().remove(topic_id);
        drop(removed[0].lane().take_writer());
        PartitionAtShutdown::of(removed[0].log())
    }

    /// The partition of a topic in the next image, opened after this shutdown.
    fn reopen(&self, topic_id: Uuid, left: PartitionAtShutdown) -> Partition {
        let replicas = self.now.broker.replicas();
        let missing = replicas.missing(&self.image, [topic_id].into_iter());
        let (mut opened, failure) = replicas.open(missing, &|_| left);
        assert!(failure.is_none(), "{failure:?}");
        opened.pop().unwrap()
    }

    fn elect(&mut self, topic_id: Uuid, leader: i32) {
        let change =
            PartitionChangeRecord { topic_id, partition_id: 0, leader, ..PartitionChangeRecord::default() };
        self.publish(&[change.into()]);
    }

    /// Replaces the replicas; all of them are in sync.
    pub(super) fn reassign(&mut self, topic_id: Uuid, replicas: &[i32]) {
        self.publish(&[reassignment((topic_id, 0), replicas)]);
    }

    pub(super) fn write(&self, topic: &str) -> Result<i64, ErrorCode> {
        let partition = self.now.broker.replicas().partition(topic, 0)?;
        partition.check_leader(-1)?;
        let mut batch = Builder::new();
        batch.push(0, None, Some(b"one"));
        let append = Append::client(batch.build().unwrap());
        Ok(self.now.run(async { partition.append(append, 0).wait().await }).unwrap().base_offset)
    }

    fn commit(&self, offset: i64) -> Result<(), GroupError> {
        let partitions = vec![CommitPartition { index: 0, offset, leader_epoch: -1, metadata: None }];
        let topics = vec![CommitTopic { name: "t".to_owned(), topic_id: Uuid::ZERO, partitions }];
        let request = CommitRequest {
            api_version: 8,
            group_id: "group".to_owned(),
            member_id: String::new(),
            group_instance_id: None,
            generation: -1,
            retention_ms: None,
            topics,
        };
        let committed = self.now.run(self.now.broker.coordinators().groups().ask(request))?;
        committed[0].partitions[0].1.map_or(Ok(()), Err)
    }

    pub(super) fn committed(&self) -> Result<i64, GroupError> {
        let request = FetchRequest {
            group_id: "group".to_owned(),
            member_id: None,
            member_epoch: -1,
            topics: None,
            require_stable: false,
        };
        let fetched = self.now.run(self.now.broker.coordinators().groups().ask(request))?;
        Ok(fetched.first().map_or(-1, |topic| topic.partitions[0].offset))
    }

    fn has_directory(&self, name: &str) -> bool {
        self.home.path().join(name).exists()
    }

    /// The directories of partitions, and of those that are to be removed, in order.
    pub(super) fn directories(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.home.path()).unwrap().map(Result::unwrap);
        let dirs = entries.filter(|entry| entry.file_type().unwrap().is_dir());
        let names = dirs.map(|entry| entry.file_name().into_string().unwrap());
        let mut names: Vec<String> = names.filter(|name| !name.starts_with("__cluster_metadata")).collect();
        names.sort();
        names
    }
}

/// A topic of one partition; all replicas are in sync, and the first leads.
fn creation(topic_id: Uuid, name: &str, replicas: &[i32]) -> [Record; 2] {
    let topic = TopicRecord { name: name.to_owned(), topic_id };
    let partition = PartitionRecord {
        topic_id,
        partition_id: 0,
        replicas: replicas.to_vec(),
        isr: replicas.to_vec(),
        leader: replicas[0],
        ..PartitionRecord::default()
    };
    [topic.into(), partition.into()]
}

/// Gives a partition other replicas; all of them are in sync, and the first leads.
pub(super) fn reassignment((topic_id, partition_id): (Uuid, i32), replicas: &[i32]) -> Record {
    let change = PartitionChangeRecord {
        topic_id,
        partition_id,
        replicas: Some(replicas.to_vec()),
        isr: Some(replicas.to_vec()),
        leader: replicas.first().copied().unwrap_or(LEADER_UNCHANGED),
        ..PartitionChangeRecord::default()
    };
    change.into()
}

#[test]
fn removed_replica_is_deleted_and_redirects_clients() {
    let mut member = Member::start();
    let node = member.node;
    member.create(TOPIC, "t", &[node]);
    assert_eq!((member.write("t"), member.write("t")), (Ok(0), Ok(1)));
    let held = member.now.broker.replicas().partition("t", 0).unwrap();
    member.reassign(TOPIC, &[OTHER]);
    assert_eq!(member.write("t"), Err(ErrorCode::NotLeaderOrFollower));
    assert_eq!(held.check_leader(-1), Err(ErrorCode::NotLeaderOrFollower), "long polls hear it too");
    assert!(!member.has_directory("t-0"));
    assert_eq!(member.write("u"), Err(ErrorCode::UnknownTopicOrPartition));
    // The partition is assigned again, and begins empty.
    member.reassign(TOPIC, &[node]);
    assert_eq!(member.write("t"), Ok(0));
}

#[test]
fn open_follower_refuses_produce_until_it_leads() {
    let mut member = Member::start();
    let node = member.node;
    member.create(TOPIC, "t", &[OTHER, node]);
    assert_eq!(member.write("t"), Err(ErrorCode::NotLeaderOrFollower));
    assert!(member.has_directory("t-0"));
    member.reassign(TOPIC, &[node]);
    assert_eq!(member.write("t"), Ok(0));
    // The other one is to get a copy, and does not lead: all that is in sync is here.
    let change = PartitionChangeRecord {
        topic_id: TOPIC,
        partition_id: 0,
        replicas: Some(vec![node, OTHER]),
        adding_replicas: Some(vec![OTHER]),
        ..PartitionChangeRecord::default()
    };
    member.publish(&[change.into()]);
    assert_eq!(member.write("t"), Ok(1));
}

#[test]
fn deleted_topic_of_other_leader_is_forgotten() {
    let mut member = Member::start();
    let node = member.node;
    member.create(TOPIC, "t", &[OTHER, node]);
    member.publish(&[RemoveTopicRecord { topic_id: TOPIC }.into()]);
    assert_eq!(member.write("t"), Err(ErrorCode::UnknownTopicOrPartition));
    assert!(member.now.broker.replicas().unopened().lock().is_empty());
}

#[test]
fn topic_recreated_during_downtime_starts_at_zero() {
    let mut member = Member::start();
    let node = member.node;
    drop(member.partition_that_begins_later());
    let left = PartitionAtShutdown { clean: true, ..member.leave(TOPIC) };
    assert_eq!((left.log_start, left.high_watermark), (2, 3));
    // Only the later topic is in the first image that the next process gets.
    member.note(&[RemoveTopicRecord { topic_id: TOPIC }.into()]);
    member.note(&creation(NAMESAKE, "t", &[OTHER, node]));
    let opened = member.reopen(NAMESAKE, left);
    let log = opened.log();
    assert_eq!((log.log_start(), log.log_end(), log.high_watermark()), (0, 0, 0));
    assert!(member.directories().iter().any(|name| name.ends_with("-stray")), "{:?}", member.directories());
    // A crash before the next checkpoints does not bring the offsets back.
    let all = [OffsetCheckpoint::LogStart, OffsetCheckpoint::RecoveryPoint, OffsetCheckpoint::Replication];
    assert_eq!(all.map(|which| member.checkpoint(which)), [None; 3]);
}

#[test]
fn topic_deleted_while_offline_leaves_no_offsets() {
    let mut member = Member::start();
    let node = member.node;
    let partition = member.partition_that_begins_later();
    member.now.broker.replicas().abandon(&partition);
    member.publish(&[RemoveTopicRecord { topic_id: TOPIC }.into()]);
    assert!(member.now.broker.replicas().unopened().lock().is_empty());
    assert_eq!(member.directories(), Vec::<String>::new());
    member.create(NAMESAKE, "t", &[node]);
    let log = member.now.broker.replicas().partition("t", 0).unwrap().shared_log();
    assert_eq!((log.log_start(), log.log_end(), log.high_watermark()), (0, 0, 0));
}

#[test]
fn unusable_log_is_reported_lost() {
    let mut member = Member::start();
    member.create(TOPIC, "t", &[member.node, OTHER]);
    let replicas = member.now.broker.replicas();
    let (own, now_ms) = (replicas.dirs().first().id(), uptime_ms());
    let at = || replicas.directory_of("t", 0);
    assert_eq!((at(), replicas.lost(now_ms)), (Some(own), Vec::new()));
    replicas.partition("t", 0).unwrap().log().abandon();
    let key = ("t".to_owned(), 0);
    assert_eq!((at(), replicas.lost(now_ms)), (Some(LOST_DIRECTORY), vec![key.clone()]));
    // A log that could not be opened may be open with the next attempt.
    let unopened = ("u".to_owned(), 3);
    replicas.unopened().lock().note(&unopened, PartitionAtShutdown::default());
    assert_eq!((replicas.directory_of("u", 3), replicas.lost(now_ms)), (None, vec![key.clone()]));
    assert_eq!(replicas.lost(now_ms + 60_000), [key, unopened]);
}

#[test]
fn full_directory_yields_replicated_partitions_temporarily() {
    let mut member = Member::start();
    let node = member.node;
    member.create(TOPIC, "t", &[node, OTHER]);
    member.create(NAMESAKE, "alone", &[node]);
    assert_eq!((member.write("t"), member.write("alone")), (Ok(0), Ok(0)));
    let (broker, now_ms) = (member.now.broker.clone(), uptime_ms());
    let (replicas, dir) = (broker.replicas(), broker.replicas().dirs().first());
    let reserve = || dir.path().join(".levada-reserve").exists();
    let watch = |now_ms| broker.watch_storage(now_ms, |work| work());
    watch(now_ms);
    assert!(reserve() && !dir.refuses_records());

    dir.refuse("no space left on device");
    watch(now_ms);
    let at = |topic| replicas.directory_of(topic, 0);
    assert_eq!((at("t"), at("alone")), (Some(LOST_DIRECTORY), Some(dir.id())));
    assert_eq!(replicas.lost(now_ms), [("t".to_owned(), 0)], "no other replica could serve the other");
    let alone = replicas.partition("alone", 0).unwrap();
    let (log_end, read) = (alone.log().log_end(), alone.log().read_batches(0, 1 << 20).unwrap());
    assert_eq!((log_end, read.is_empty()), (1, false), "it is read as before");
    let mut batch = Builder::new();
    batch.push(0, None, Some(b"one"));
    let append = Append::client(batch.build().unwrap());
    let refused = member.now.run(async { alone.append(append, 0).wait().await }).unwrap_err();
    assert!(refused.to_string().contains("accepts no records"), "{refused}");
    assert_eq!(alone.log().log_end(), 1);

    dir.use_reserve();
    watch(now_ms + 1_000);
    assert_eq!((dir.refuses_records(), reserve()), (true, false), "a refusal lasts two seconds");
    watch(now_ms + 3_000);
    assert_eq!((dir.refuses_records(), reserve(), at("t")), (false, true, Some(dir.id())));
    assert_eq!(member.write("alone"), Ok(1));
}

#[test]
fn stuck_housekeeping_makes_directory_refuse_records() {
    let mut member = Member::start();
    member.create(TOPIC, "t", &[member.node, OTHER]);
    let broker = member.now.broker.clone();
    let (replicas, dir) = (broker.replicas(), broker.replicas().dirs().first());
    replicas.refuse_blocked(Duration::ZERO);
    assert!(!dir.refuses_records(), "no writer is held");
    let partition = replicas.partition("t", 0).unwrap();
    partition.lane().with_writer(|_| replicas.refuse_blocked(Duration::ZERO)).unwrap();
    assert!(dir.refuses_records(), "appends wait for the writer, and none is running");
}

#[test]
fn leader_with_offline_log_keeps_isr() {
    let change_after = |is_offline: bool| {
        let mut member = Member::start();
        member.create(TOPIC, "t", &[member.node, OTHER]);
        let replicas = member.now.broker.replicas();
        if is_offline {
            replicas.partition("t", 0).unwrap().log().abandon();
        }
        replicas.check_lags(uptime_ms() + 86_400_000);
        replicas.replication().request(1)
    };
    assert!(change_after(false).is_some(), "the other replica has never fetched");
    assert!(change_after(true).is_none(), "the other replica cannot fetch");
}

#[test]
fn last_eligible_leader_opens_compacted_log_past_gap() {
    for (is_last, log_end) in [(false, 1), (true, 3)] {
        let mut member = Member::start();
        let node = member.node;
        member.create(TOPIC, "t", &[node]);
        let compact = ConfigRecord {
            resource_type: 2,
            resource_name: "t".to_owned(),
            name: "cleanup.policy".to_owned(),
            value: Some("compact".to_owned()),
        };
        member.publish(&[compact.into()]);
        let partition = member.now.broker.replicas().partition("t", 0).unwrap();
        for offset in 0..3 {
            assert_eq!(member.write("t"), Ok(offset));
            partition.lane().with_writer(|writer| writer.roll(0)).unwrap().unwrap();
        }
        let left = PartitionAtShutdown { recovery_point: 0, ..member.leave(TOPIC) };
        std::fs::remove_file(member.home.path().join("t-0/00000000000000000001.log")).unwrap();
        let change = PartitionChangeRecord {
            topic_id: TOPIC,
            partition_id: 0,
            replicas: Some(vec![OTHER, node]),
            isr: Some(Vec::new()),
            leader: -1,
            eligible_leader_replicas: Some(vec![if is_last { node } else { OTHER }]),
            ..PartitionChangeRecord::default()
        };
        member.note(&[change.into()]);
        assert_eq!(member.reopen(TOPIC, left).log().log_end(), log_end, "last: {is_last}");
    }
}

#[test]
fn coordinator_serves_while_leader_and_reloads_each_epoch() {
    let mut member = Member::start();
    let node = member.node;
    member.create(OFFSETS, OFFSETS_TOPIC, &[node]);
    assert_eq!((member.commit(3), member.committed()), (Ok(()), Ok(3)));
    member.elect(OFFSETS, -1);
    assert_eq!(
        (member.commit(4), member.committed()),
        (Err(GroupError::NotCoordinator), Err(GroupError::NotCoordinator))
    );
    member.elect(OFFSETS, node);
    assert_eq!(member.committed(), Ok(3), "of the log");
    // The epoch before this one may have been another broker's for a moment.
    member.elect(OFFSETS, node);
    assert_eq!((member.commit(5), member.committed()), (Ok(()), Ok(5)));
    member.reassign(OFFSETS, &[OTHER]);
    assert_eq!(member.committed(), Err(GroupError::NotCoordinator));
}

#[test]
fn coordinators_resign_while_their_directory_refuses_records() {
    for (replicas, while_refusing) in [(1, Ok(3)), (2, Err(GroupError::NotCoordinator))] {
        let mut member = Member::start();
        let (node, broker) = (member.node, member.now.broker.clone());
        member.create(OFFSETS, OFFSETS_TOPIC, &[node]);
        assert_eq!(member.commit(3), Ok(()));
        member.reassign(OFFSETS, &[node, OTHER][..replicas]);
        let watch = |now_ms| broker.watch_storage(now_ms, |work| work());
        let (dir, now_ms) = (broker.replicas().dirs().first(), uptime_ms());
        watch(now_ms);
        dir.refuse("no space left on device");
        watch(now_ms);
        assert_eq!(member.committed(), while_refusing, "another broker can lead it, or none can");
        watch(now_ms + 3_000);
        assert_eq!(member.committed(), Ok(3));
    }
}

#[test]
fn coordinator_resigned_before_load_stays_closed() {
    let mut member = Member::start();
    let node = member.node;
    // Loads wait for one another.
    let runtime = tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).build().unwrap();
    let (release, held) = mpsc::channel::<()>();
    let elect = |member: &mut Member, leader| {
        let _entered = runtime.enter();
        member.elect(OFFSETS, leader);
    };
    member.create(OFFSETS, OFFSETS_TOPIC, &[OTHER, node]);
    drop(runtime.spawn_blocking(move || held.recv()));
    elect(&mut member, node);
    assert_eq!(member.committed(), Err(GroupError::CoordinatorLoadInProgress), "in the queue, too");
    elect(&mut member, OTHER);
    assert_eq!(member.committed(), Err(GroupError::NotCoordinator));
    drop(release);
    runtime.block_on(runtime.spawn_blocking(|| ())).unwrap();
    assert_eq!(member.committed(), Err(GroupError::NotCoordinator), "the load came too late");
    elect(&mut member, node);
    runtime.block_on(runtime.spawn_blocking(|| ())).unwrap();
    assert_ne!(member.committed(), Err(GroupError::NotCoordinator));
}

#[test]
fn coordinator_topics_on_other_brokers_determine_owners() {
    let mut member = Member::start();
    member.create(OFFSETS, OFFSETS_TOPIC, &[OTHER]);
    assert_eq!(member.now.broker.coordinators().groups().partition_of("group"), Some(0));
    assert_eq!(member.commit(1), Err(GroupError::NotCoordinator));
}

#[test]
fn delete_records_is_refused_by_non_leader() {
    let mut member = Member::start();
    let node = member.node;
    member.create(TOPIC, "t", &[node]);
    member.write("t").unwrap();
    member.elect(TOPIC, -1);
    let partition = member.now.broker.replicas().partition("t", 0).unwrap();
    assert_eq!(partition.check_leader(-1), Err(ErrorCode::NotLeaderOrFollower));
    let deleted = member.now.broker.replicas().delete_records(&partition, 1);
    assert_eq!(deleted, Err(ErrorCode::NotLeaderOrFollower));
    assert_eq!(partition.log().log_start(), 0);
}

/// The broker acknowledged such a marker as soon as it was in its own log: the transaction ended
/// although no other replica had the marker.
#[test]
fn marker_is_refused_while_leadership_begins() {
    const EPOCHS: &str = "t-0/leader-epoch-checkpoint.tmp";
    let home = directory();
    let disk = Arc::new(Recorder::new(home.path()));
    let now = Incarnation::begin(disk.clone(), home.path(), Ways::default()).unwrap();
    let mut member = Member::of(now, home);
    let node = member.node;
    member.create(TOPIC, "t", &[OTHER, node]);
    let partition = member.now.broker.replicas().partition("t", 0).unwrap();
    let elected = PartitionChangeRecord {
        topic_id: TOPIC,
        partition_id: 0,
        leader: node,
        ..PartitionChangeRecord::default()
    };
    member.note(&[elected.into()]);
    let leadership = Leadership::of(member.image.topic("t").unwrap().partition(0).unwrap(), node);
    let is_answered = AtomicBool::new(false);
    disk.hold(Some(EPOCHS));
    let written = std::thread::scope(|scope| {
        scope.spawn(|| partition.lead(leadership));
        while !member.home.path().join(EPOCHS).exists() {
            std::thread::yield_now();
        }
        scope.spawn(|| {
            // A marker that gets into the lane waits for the writer, which the change holds.
            while !is_answered.load(Ordering::SeqCst) && !partition.lane().is_busy() {
                std::thread::yield_now();
            }
            disk.hold(None);
        });
        let end = EndTxnRequest {
            producer: Producer { id: 1, epoch: 0 },
            coordinator_epoch: 0,
            commit: true,
            transaction_version: 0,
        };
        let until = Instant::now() + MARKER_WAIT;
        let written = member.now.run(member.now.broker.transactions().write_marker(&partition, end, until));
        is_answered.store(true, Ordering::SeqCst);
        written
    });
    assert_eq!(written, Err(ErrorCode::NotLeaderOrFollower));
    assert_eq!((partition.check_leader(-1), partition.log().log_end()), (Ok(()), 0));
}

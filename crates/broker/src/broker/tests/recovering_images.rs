//! Images of a cluster that come while logs are checked after an unclean stop: in the end the
//! broker has the replicas of the last one, in their roles.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use levada_coordination::group::GroupError;
use levada_log::crash_disk::Recorder;
use levada_metadata::controller::NewTopic;
use levada_metadata::records::{
    PartitionChangeRecord, PartitionRecord, Record, RemoveTopicRecord, TopicRecord,
};
use levada_testing::scaled;
use levada_wire::Uuid;
use levada_wire::error_code::ErrorCode;
use proptest::prelude::*;

use super::crash::directory;
use super::crash::life::{Incarnation, Ways};
use super::shared_images::{Member, OTHER, reassignment};
use crate::quota::MutationQuota;
use crate::replica::{Leadership, OFFSETS_TOPIC};

const LONG: Duration = Duration::from_secs(60);

/// As many as threads of the recovery, and one more.
const TOPICS: [&str; 3] = ["a", "b", "c"];
const DIRECTORIES: [&str; 3] = ["a-0", "b-0", "c-0"];

fn begin(dir: &Path) -> (Arc<Recorder>, Incarnation) {
    let disk = Arc::new(Recorder::new(dir));
    (disk.clone(), Incarnation::begin(disk, dir, Ways::default()).unwrap())
}

/// A broker that died with a record in each topic, opened again while the logs of these directories
/// cannot be checked.
fn reopened(held: &[&'static str]) -> (Arc<Recorder>, Member) {
    let home = directory();
    let member = Member::of(begin(home.path()).1, home);
    let controller = member.now.broker.controller();
    member.now.run(controller.ensure_internal_topic(OFFSETS_TOPIC)).unwrap();
    for name in TOPICS {
        let topic =
            NewTopic { name: name.to_owned(), partitions: 1, replication_factor: 1, ..NewTopic::default() };
        assert!(
            member
                .now
                .run(controller.create_topics(vec![topic], MutationQuota::default(), false))
                .pop()
                .unwrap()
                .is_ok()
        );
        assert_eq!(member.write(name), Ok(0));
    }
    let home = member.into_home();
    let disk = Arc::new(Recorder::new(home.path()));
    disk.hold_each(held);
    let now = Incarnation::begin(disk.clone(), home.path(), Ways::default()).unwrap();
    (disk, Member::of(now, home))
}

impl Member {
    fn id(&self, topic: &str) -> Uuid {
        self.image.topic(topic).unwrap().id()
    }

    fn left(&self) -> usize {
        self.now.broker.replicas().recovery().progress().left
    }

    fn recover(&self, disk: &Recorder) {
        disk.hold(None);
        assert!(self.now.broker.replicas().recovery().wait(LONG), "the recovery has ended");
        assert_eq!(self.left(), 0);
    }

    /// The partitions served and their directories are those of the last image, and so are the
    /// roles.
    fn assert_in_line(&self) {
        let (image, replicas) = (&self.image, self.now.broker.replicas());
        let mut directories = Vec::new();
        for topic in image.topics().iter() {
            for (index, registered) in topic.partitions() {
                let name = format!("{}-{index}", topic.name());
                let served = replicas.partitions().by_id(topic.id(), index);
                let is_here = registered.replicas.contains(&self.node);
                assert_eq!(served.is_some(), is_here, "{name}");
                let Some(served) = served else { continue };
                assert_eq!(**served.leadership(), Leadership::of(registered, self.node), "{name}");
                let is_open = served.lane().with_writer(|_| ()).is_some();
                assert!(is_open, "{name}");
                directories.push(name);
            }
        }
        directories.sort();
        assert_eq!(self.directories(), directories);
        assert_eq!(replicas.partitions().count(), directories.len());
        assert!(replicas.unopened().lock().is_empty());
    }
}

#[test]
fn replica_removed_before_log_check_stays_unserved() {
    let (disk, mut member) = reopened(&DIRECTORIES);
    let node = member.node;
    // One of them waits for a thread, the others are in the hands of one.
    for name in TOPICS {
        member.reassign(member.id(name), &[OTHER]);
        assert_eq!(member.write(name), Err(ErrorCode::NotLeaderOrFollower));
    }
    assert_eq!(member.directories().iter().filter(|name| name.starts_with(['a', 'b', 'c'])).count(), 2);
    member.recover(&disk);
    member.assert_in_line();
    for name in TOPICS {
        member.reassign(member.id(name), &[node]);
        assert_eq!(member.write(name), Ok(0), "it begins again");
    }
    member.assert_in_line();
}

#[test]
fn replica_returning_during_check_has_one_writer() {
    let (disk, mut member) = reopened(&DIRECTORIES);
    let node = member.node;
    for name in TOPICS {
        member.reassign(member.id(name), &[OTHER]);
        member.reassign(member.id(name), &[OTHER, node]);
    }
    member.recover(&disk);
    member.assert_in_line();
    for name in TOPICS {
        assert_eq!(member.write(name), Err(ErrorCode::NotLeaderOrFollower));
        member.reassign(member.id(name), &[node, OTHER]);
        assert!(member.now.broker.replicas().partition(name, 0).unwrap().leadership().is_leader());
    }
}

#[test]
fn coordinator_moved_during_log_check_resigns_immediately() {
    let partition = levada_coordination::group::partition_for("group", 2);
    let held = ["__consumer_offsets-0", "__consumer_offsets-1"][partition as usize];
    let (disk, mut member) = reopened(&[held]);
    let at = (member.id(OFFSETS_TOPIC), partition);
    assert_eq!(member.committed(), Err(GroupError::CoordinatorLoadInProgress));
    member.publish(&[reassignment(at, &[OTHER, member.node])]);
    assert_eq!(member.committed(), Err(GroupError::NotCoordinator));
    member.recover(&disk);
    assert_eq!(member.committed(), Err(GroupError::NotCoordinator));
    member.publish(&[reassignment(at, &[member.node, OTHER])]);
    assert_eq!(member.committed(), Ok(-1));
}

/// One change of the metadata.
#[derive(Clone, Copy, Debug)]
enum Operation {
    /// A topic leaves this broker, comes to it, or changes its leader; true if this broker has a
    /// replica, and if it leads.
    Reassign(usize, bool, bool),
    Elect(usize),
    Delete(usize),
    Create(usize, bool),
    /// The images so far are published; those between two publications are never seen.
    Publish,
    /// Logs are checked from now on.
    LetGo,
}

fn operation() -> impl Strategy<Value = Operation> {
    let topic = || 0..TOPICS.len();
    prop_oneof![
        6 => (topic(), any::<bool>(), any::<bool>())
            .prop_map(|(topic, is_ours, leads)| Operation::Reassign(topic, is_ours, leads)),
        1 => topic().prop_map(Operation::Elect),
        1 => topic().prop_map(Operation::Delete),
        2 => (topic(), any::<bool>()).prop_map(|(topic, is_ours)| Operation::Create(topic, is_ours)),
        6 => Just(Operation::Publish),
        1 => Just(Operation::LetGo),
    ]
}

impl Member {
    fn replicas(&self, is_ours: bool, leads: bool) -> Vec<i32> {
        match (is_ours, leads) {
            (false, _) => vec![OTHER],
            (true, true) => vec![self.node, OTHER],
            (true, false) => vec![OTHER, self.node],
        }
    }

    /// The operation's records; none if the image does not allow it.
    fn records(&self, operation: Operation) -> Vec<Record> {
        let of = |topic: usize| self.image.topic(TOPICS[topic]).map(|topic| topic.id());
        match operation {
            Operation::Reassign(topic, is_ours, leads) => {
                let change = |id| reassignment((id, 0), &self.replicas(is_ours, leads));
                of(topic).map(change).into_iter().collect()
            }
            Operation::Elect(topic) => {
                let change = |topic_id| PartitionChangeRecord {
                    topic_id,
                    partition_id: 0,
                    leader: -1,
                    ..PartitionChangeRecord::default()
                };
                of(topic).map(change).map(Record::from).into_iter().collect()
            }
            Operation::Delete(topic) => {
                of(topic).map(|topic_id| RemoveTopicRecord { topic_id }.into()).into_iter().collect()
            }
            Operation::Create(topic, is_ours) if of(topic).is_none() => {
                let topic_id = Uuid::from_bytes([(self.image.offset() % 100) as u8 + 100; 16]);
                let (name, replicas) = (TOPICS[topic].to_owned(), self.replicas(is_ours, true));
                let partition = PartitionRecord {
                    topic_id,
                    partition_id: 0,
                    isr: replicas.clone(),
                    leader: replicas[0],
                    replicas,
                    ..PartitionRecord::default()
                };
                vec![TopicRecord { name, topic_id }.into(), partition.into()]
            }
            Operation::Create(..) | Operation::Publish | Operation::LetGo => Vec::new(),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: scaled(12), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn image_differences_during_recovery_reach_last_image(
        held in prop::sample::subsequence(DIRECTORIES.to_vec(), 0..4),
        operations in prop::collection::vec(operation(), 1..24),
    ) {
        let (disk, mut member) = reopened(&held);
        for operation in operations {
            match operation {
                Operation::Publish => member.publish_noted(),
                Operation::LetGo => disk.hold(None),
                operation => member.note(&member.records(operation)),
            }
        }
        member.publish_noted();
        member.recover(&disk);
        member.assert_in_line();
    }
}

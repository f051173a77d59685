//! Registrations that are removed, and the partitions that lose a replica in sync by it.

use levada_wire::primitives::Uuid;

use super::*;
use crate::image::{Position, Replay};
use crate::records::{
    FeatureLevelRecord, PartitionRecord, RegisterBrokerRecord, RegisterControllerRecord, TopicRecord,
};

const TOPIC: Uuid = Uuid::from_bytes([7; 16]);

fn apply(image: &Image, records: Vec<Record>) -> Image {
    let mut replay = Replay::new(image.clone());
    for (offset, record) in (image.offset() + 1..).zip(records) {
        replay.push(record, Position { offset, ..Position::default() }).unwrap();
    }
    replay.into_image()
}

fn level(name: &str, feature_level: i16) -> Record {
    FeatureLevelRecord { name: name.to_owned(), feature_level }.into()
}

/// Brokers and controllers 1, 2 and 3, and a topic with these leaders and replicas in sync.
fn image(partitions: &[(i32, &[i32])]) -> Image {
    let nodes = 1..=3;
    let brokers = nodes.clone().map(|broker_id| RegisterBrokerRecord {
        broker_id,
        broker_epoch: 10 + i64::from(broker_id),
        ..Default::default()
    });
    let controllers =
        nodes.map(|controller_id| RegisterControllerRecord { controller_id, ..Default::default() });
    let topic = TopicRecord { name: "t".to_owned(), topic_id: TOPIC };
    let partitions = (0..).zip(partitions).map(|(partition_id, (leader, isr))| PartitionRecord {
        partition_id,
        topic_id: TOPIC,
        replicas: vec![1, 2, 3],
        isr: isr.to_vec(),
        leader: *leader,
        ..Default::default()
    });
    let records = brokers.map(Record::from).chain(controllers.map(Record::from));
    let records = records.chain([topic.into()]).chain(partitions.map(Record::from));
    apply(&Image::empty(), records.collect())
}

/// Leader and replicas in sync of each partition.
fn state(image: &Image) -> Vec<(i32, Vec<i32>)> {
    let topic = image.topic("t").unwrap();
    topic.partitions().map(|(_, partition)| (partition.leader, partition.isr.clone())).collect()
}

#[test]
fn a_broker_leaves_the_replicas_in_sync() {
    let before = image(&[(1, &[1]), (1, &[1, 2]), (2, &[2, 3]), (2, &[2]), (NO_LEADER, &[2])]);
    let decision = unregister_broker(&before, 2, 1).unwrap();
    assert_eq!(decision.records.len(), 4, "nothing changes in the first and in the last partition");
    let after = apply(&before, decision.records);
    let expected =
        [(1, vec![1]), (1, vec![1]), (NO_LEADER, vec![3]), (NO_LEADER, vec![2]), (NO_LEADER, vec![2])];
    assert_eq!(state(&after), expected);
    assert!(after.brokers().broker(2).is_none() && after.brokers().len() == 2);
    let eligible = apply(&before, vec![level(ELIGIBLE_LEADERS_VERSION, 1)]);
    let after = apply(&eligible, unregister_broker(&eligible, 2, 1).unwrap().records);
    assert_eq!(state(&after)[3..], [(NO_LEADER, vec![]), (NO_LEADER, vec![])]);
    let topic = after.topic("t").unwrap();
    let last = topic.partition(3).unwrap();
    assert_eq!((&last.eligible_leader_replicas[..], &last.last_known_elr[..]), (&[2][..], &[2][..]));
}

#[test]
fn unknown_brokers_and_this_node_stay() {
    let image = image(&[]);
    let unknown = unregister_broker(&image, 9, 1).unwrap_err();
    assert_eq!(
        (unknown.reason, unknown.message.as_deref()),
        (Reason::UnknownBroker, Some("Broker ID 9 is not currently registered"))
    );
    assert_eq!(unregister_broker(&image, 1, 1).unwrap_err().reason, Reason::InvalidRequest);
}

#[test]
fn controller_removal_needs_its_metadata_version() {
    let old = apply(&image(&[]), vec![level(METADATA_VERSION, GONE_CONTROLLERS - 1)]);
    let reason = |image: &Image, id| unregister_controller(image, id, 1).unwrap_err().reason;
    assert_eq!(reason(&old, 1), Reason::InvalidRequest, "Kafka checks this first");
    assert_eq!(reason(&old, 2), Reason::UnsupportedVersion);
    let new = apply(&old, vec![level(METADATA_VERSION, GONE_CONTROLLERS)]);
    assert_eq!(reason(&new, 9), Reason::UnknownController);
    let after = apply(&new, unregister_controller(&new, 2, 1).unwrap().records);
    let left: Vec<i32> = after.brokers().controllers().map(|one| one.controller_id).collect();
    assert_eq!(left, [1, 3]);
}

//! Directories that the metadata names.

use levada_metadata::image::Position;
use levada_metadata::records::{PartitionRecord, Record, RegisterBrokerRecord, TopicRecord};

use super::*;

const TOPIC: Uuid = Uuid::from_bytes([7; 16]);

#[test]
fn replicas_recorded_in_other_directory_are_reported() {
    let (own, other) = (Uuid::from_bytes([1; 16]), Uuid::from_bytes([2; 16]));
    let partition = |index, replicas: &[i32], directories: &[Uuid]| {
        partition(index, (replicas[0], replicas), directories)
    };
    let records = [
        Record::from(TopicRecord { name: "t".to_owned(), topic_id: TOPIC }),
        partition(0, &[5], &[own]),
        partition(1, &[5], &[other]),
        partition(2, &[4, 5], &[own, other]),
        partition(3, &[4], &[other]),
        partition(4, &[5], &[]),
    ];
    let image = image(&records);
    let found = misplaced(image.topic("t").unwrap(), 5, |_, _| Some(own));
    assert_eq!(found, [1, 2].map(|index| (ReplicaKey::new(TOPIC, index), own.to_bytes())));
}

#[test]
fn lost_replicas_are_reported_until_recorded_lost() {
    let own = Uuid::from_bytes([1; 16]);
    let records = [
        Record::from(TopicRecord { name: "t".to_owned(), topic_id: TOPIC }),
        partition(0, (5, &[5]), &[own]),
        partition(1, (5, &[5]), &[LOST_DIRECTORY]),
        partition(2, (4, &[4]), &[own]),
        partition(3, (4, &[4, 5]), &[own, own]),
    ];
    let lost: Vec<TopicPartition> = (0..5).map(|index| ("t".to_owned(), index)).collect();
    let found = unrecorded(&image(&records), 5, &[lost, vec![("gone".to_owned(), 0)]].concat());
    assert_eq!(found, BTreeSet::from([0, 3].map(|index| ReplicaKey::new(TOPIC, index))));
}

#[test]
fn directory_is_reported_again_without_elected_leader() {
    let own = Uuid::from_bytes([1; 16]);
    let cases = [
        (partition(0, (-1, &[5]), &[own]), false, true),
        (partition(0, (-1, &[5]), &[own]), true, false),
        (partition(0, (5, &[5]), &[own]), false, false),
        (partition(0, (-1, &[5]), &[LOST_DIRECTORY]), false, false),
        (partition(0, (-1, &[4]), &[own]), false, false),
    ];
    for (partition, fenced, awaits) in cases {
        let topic = Record::from(TopicRecord { name: "t".to_owned(), topic_id: TOPIC });
        let broker = RegisterBrokerRecord { broker_id: 5, fenced, ..RegisterBrokerRecord::default() };
        let image = image(&[broker.into(), topic, partition.clone()]);
        assert_eq!(awaits_election(&image, ReplicaKey::new(TOPIC, 0), 5), awaits, "{partition:?} {fenced}");
    }
    assert!(!awaits_election(&Image::empty(), ReplicaKey::new(TOPIC, 0), 5));
}

/// A partition of `t` with this leader; all replicas are in sync.
fn partition(partition_id: i32, (leader, replicas): (i32, &[i32]), directories: &[Uuid]) -> Record {
    let record = PartitionRecord {
        partition_id,
        topic_id: TOPIC,
        leader,
        replicas: replicas.to_vec(),
        isr: replicas.to_vec(),
        directories: directories.to_vec(),
        ..PartitionRecord::default()
    };
    record.into()
}

fn image(records: &[Record]) -> Image {
    let mut image = Image::empty();
    for (offset, record) in (0..).zip(records) {
        image.apply(record, Position { offset, ..Position::default() }).unwrap();
    }
    image
}

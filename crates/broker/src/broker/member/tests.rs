//! Directories that the metadata names.

use super::*;
use crate::metadata::image::Position;
use crate::metadata::records::{PartitionRecord, Record, TopicRecord};

const TOPIC: Uuid = Uuid::from_bytes([7; 16]);

#[test]
fn replicas_that_the_metadata_has_in_another_directory_are_reported() {
    let (own, other) = (Uuid::from_bytes([1; 16]), Uuid::from_bytes([2; 16]));
    let partition = |partition_id, replicas: &[i32], directories: &[Uuid]| -> Record {
        let record = PartitionRecord {
            partition_id,
            topic_id: TOPIC,
            replicas: replicas.to_vec(),
            directories: directories.to_vec(),
            ..PartitionRecord::default()
        };
        record.into()
    };
    let records = [
        Record::from(TopicRecord { name: "t".to_owned(), topic_id: TOPIC }),
        partition(0, &[5], &[own]),
        partition(1, &[5], &[other]),
        partition(2, &[4, 5], &[own, other]),
        partition(3, &[4], &[other]),
        partition(4, &[5], &[]),
    ];
    let mut image = Image::empty();
    for (offset, record) in (0..).zip(&records) {
        image.apply(record, Position { offset, ..Position::default() }).unwrap();
    }
    let found = misplaced(image.topic("t").unwrap(), 5, |_, _| Some(own));
    assert_eq!(found, [1, 2].map(|index| (ReplicaKey::new(TOPIC, index), own.to_bytes())));
}

//! Tests of the metadata topic's logs.

use std::fs;

use levada_base::batch::Builder;
use levada_tiered::record::encode;
use levada_tiered::{RemoteRecord, RemoteSegment, RemoteSegmentId, SegmentState, TopicIdPartition};
use levada_wire::Uuid;

use super::remote_inventory;

fn segment(number: u8) -> RemoteRecord {
    let partition =
        TopicIdPartition { topic_id: Uuid::from_bytes([9; 16]), topic: "clicks".to_owned(), partition: 0 };
    RemoteRecord::Segment(RemoteSegment {
        id: RemoteSegmentId { partition, id: Uuid::from_bytes([number; 16]) },
        start_offset: 0,
        end_offset: 9,
        max_timestamp_ms: 0,
        broker_id: 1,
        event_timestamp_ms: 0,
        size: 7,
        epochs: vec![(0, 0)],
        custom_metadata: None,
        state: SegmentState::CopyStarted,
        txn_index_empty: true,
    })
}

fn batch(values: &[&[u8]]) -> Vec<u8> {
    let mut builder = Builder::new();
    for value in values {
        builder.push(0, None, Some(value));
    }
    builder.build().unwrap().to_vec()
}

#[test]
fn remote_log_states_are_read_from_topic() {
    let dir = tempfile::tempdir().unwrap();
    let log = |name: &str, bytes: &[u8]| {
        let path = dir.path().join(name);
        fs::create_dir(&path).unwrap();
        fs::write(path.join("00000000000000000000.log"), bytes).unwrap();
    };
    let records = [segment(1), segment(2)].map(|record| encode(&record).unwrap());
    log("__remote_log_metadata-3", &batch(&[&records[0], &records[1]]));
    log("__remote_log_metadata-4", &[]);
    log("clicks-0", b"not a batch of this topic");
    let found = remote_inventory(&[dir.path().to_owned()], 50).unwrap();
    assert_eq!((found.inventory.segments().count(), found.partitions), (2, 2));
    assert_eq!(found.findings, []);
}

#[test]
fn invalid_records_are_findings() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("__remote_log_metadata-3");
    fs::create_dir(&path).unwrap();
    let valid = encode(&segment(1)).unwrap();
    let mut bytes = batch(&[b"\x01\x09\x00"]);
    bytes.extend(batch(&[&valid]));
    fs::write(path.join("00000000000000000000.log"), &bytes).unwrap();
    let found = remote_inventory(&[dir.path().to_owned()], 50).unwrap();
    assert_eq!(found.inventory.segments().count(), 1, "later batches count");
    assert!(found.findings.len() == 1 && found.findings[0].1.contains("kind 9"), "{:?}", found.findings);
}

//! Tests of records: bytes of Kafka's classes, hostile bytes, partitions.

use levada_base::parse_id;
use levada_wire::Uuid;
use proptest::prelude::*;

use super::*;

const GOLDEN: &str = include_str!("../../testdata/records.txt");

fn id(text: &str) -> Uuid {
    Uuid::from_bytes(parse_id(text).unwrap())
}

fn partition() -> TopicIdPartition {
    TopicIdPartition { topic_id: id("lZ6vvmajTWKDBUTV6SQAtQ"), topic: "orders".to_string(), partition: 42 }
}

fn segment() -> RemoteSegment {
    RemoteSegment {
        id: RemoteSegmentId { partition: partition(), id: id("adh9f8BMS4anaUnD8KWfWg") },
        start_offset: 100,
        end_offset: 250,
        max_timestamp_ms: 1_700_000_000_000,
        broker_id: 2,
        event_timestamp_ms: 1_700_000_001_000,
        size: 1 << 20,
        epochs: vec![(0, 100), (3, 200)],
        custom_metadata: None,
        state: SegmentState::CopyStarted,
        txn_index_empty: true,
    }
}

fn custom() -> Option<Bytes> {
    Some(Bytes::from_static(&[1, 2, 255]))
}

fn golden_records() -> [(&'static str, RemoteRecord); 5] {
    let copied = RemoteSegment {
        max_timestamp_ms: -1,
        epochs: vec![(7, 100)],
        custom_metadata: custom(),
        state: SegmentState::CopyFinished,
        txn_index_empty: false,
        ..segment()
    };
    let update = SegmentUpdate {
        id: segment().id,
        broker_id: 2,
        event_timestamp_ms: 1_700_000_002_000,
        custom_metadata: custom(),
        state: SegmentState::CopyFinished,
    };
    let delete = PartitionDelete {
        partition: partition(),
        broker_id: 2,
        event_timestamp_ms: 1_700_000_003_000,
        state: PartitionDeleteState::Started,
    };
    let mut snapshot =
        RemoteSegment { custom_metadata: custom(), state: SegmentState::DeleteStarted, ..segment() };
    snapshot.id.partition = TopicIdPartition::default();
    [
        ("segment", RemoteRecord::Segment(segment())),
        ("copied", RemoteRecord::Segment(copied)),
        ("update", RemoteRecord::Update(update)),
        ("delete", RemoteRecord::PartitionDelete(delete)),
        ("snapshot", RemoteRecord::Snapshot(snapshot)),
    ]
}

fn golden(name: &str) -> Bytes {
    let line = GOLDEN.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')).unwrap();
    let digit = |at: usize| u8::from_str_radix(&line[at..at + 2], 16).unwrap();
    (0..line.len()).step_by(2).map(digit).collect()
}

#[test]
fn records_have_the_bytes_of_kafka() {
    for (name, record) in golden_records() {
        assert_eq!(encode(&record).unwrap(), golden(name), "{name}");
        assert_eq!(decode(golden(name)).unwrap(), record, "{name}");
    }
}

#[test]
fn records_name_their_partition() {
    let named = golden_records().map(|(_, record)| record.partition().clone());
    assert_eq!(named[..4], [partition(), partition(), partition(), partition()]);
    assert_eq!(named[4], TopicIdPartition::default());
}

#[test]
fn truncated_and_longer_records_are_refused() {
    for (name, _) in golden_records() {
        let bytes = golden(name);
        for end in 0..bytes.len() {
            assert!(decode(bytes.slice(..end)).is_err(), "{name} up to {end}");
        }
        let longer: Bytes = bytes.iter().copied().chain([0]).collect();
        assert!(decode(longer).is_err(), "{name}");
    }
}

#[test]
fn unknown_frames_kinds_and_versions_are_refused() {
    for head in [[2, 0, 0], [1, 4, 0], [1, 0, 1]] {
        let mut bytes = golden("segment").to_vec();
        bytes[..3].copy_from_slice(&head);
        let error = decode(bytes.into()).unwrap_err();
        assert!(matches!(error, RemoteRecordError::Unknown { .. }), "{head:?}: {error}");
    }
}

#[test]
fn values_out_of_range_are_refused() {
    let invalid = [
        RemoteSegment { start_offset: -1, ..segment() },
        RemoteSegment { end_offset: 99, ..segment() },
        RemoteSegment { size: -1, ..segment() },
        RemoteSegment { epochs: Vec::new(), ..segment() },
    ];
    for segment in invalid {
        let bytes = encode(&RemoteRecord::Segment(segment.clone())).unwrap();
        assert!(matches!(decode(bytes), Err(RemoteRecordError::Range { .. })), "{segment:?}");
    }
    let mut bytes = golden("update").to_vec();
    let state = bytes.len() - 2;
    bytes[state] = 4;
    let error = decode(bytes.into()).unwrap_err();
    assert_eq!(error.to_string(), "state of the segment is 4, which is not valid");
}

#[test]
fn repeated_epoch_keeps_its_last_start_offset() {
    let twice = RemoteSegment { epochs: vec![(3, 150), (0, 100), (3, 200)], ..segment() };
    let bytes = encode(&RemoteRecord::Segment(twice)).unwrap();
    assert_eq!(decode(bytes).unwrap(), RemoteRecord::Segment(segment()));
}

#[test]
fn claimed_lengths_take_no_memory() {
    // The number of epochs is the varint after the event's time.
    let mut bytes = golden("segment").to_vec();
    let at = bytes.windows(8).rposition(|eight| eight == 1_700_000_001_000_i64.to_be_bytes()).unwrap() + 8;
    bytes.splice(at..=at, [0xff, 0xff, 0xff, 0xff, 0x0f]);
    assert!(decode(bytes.into()).is_err());
}

#[test]
fn partitions_are_those_of_kafka() {
    // RemoteLogMetadataTopicPartitioner of kafka-storage 4.3.1; the suite `remote_metadata` has
    // more.
    assert_eq!(metadata_partition(&partition(), 50), 33);
    assert_eq!(metadata_partition(&partition(), 1), 0);
    // A count that no topic has must not divide by zero.
    assert_eq!(metadata_partition(&partition(), 0), 0);
}

proptest! {
    #[test]
    fn random_bytes_are_refused_or_equal(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(record) = decode(bytes.into()) {
            prop_assert_eq!(decode(encode(&record).unwrap()).unwrap(), record);
        }
    }

    #[test]
    fn changed_bytes_are_refused_or_round_trip(which in 0..5_usize, at in any::<prop::sample::Index>(), byte: u8) {
        let mut bytes = golden(golden_records()[which].0).to_vec();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let Ok(record) = decode(bytes.into()) {
            prop_assert_eq!(decode(encode(&record).unwrap()).unwrap(), record);
        }
    }
}

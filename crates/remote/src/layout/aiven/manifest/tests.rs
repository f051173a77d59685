//! Tests of manifests: the golden file is a manifest of the plug-in's form.

use levada_base::parse_id;
use levada_tiered::{RemoteSegmentId, SegmentState, TopicIdPartition};
use levada_wire::Uuid;

use super::*;

const GOLDEN: &str = include_str!("../../../../testdata/manifest.json");

fn segment(size: i32) -> RemoteSegment {
    let id = |text: &str| Uuid::from_bytes(parse_id(text).unwrap());
    let partition = TopicIdPartition {
        topic_id: id("lZ6vvmajTWKDBUTV6SQAtQ"),
        topic: "topic1".to_owned(),
        partition: 42,
    };
    RemoteSegment {
        id: RemoteSegmentId { partition, id: id("adh9f8BMS4anaUnD8KWfWg") },
        start_offset: 0,
        end_offset: 1000,
        max_timestamp_ms: 1_000_000_000,
        broker_id: 2,
        event_timestamp_ms: 2_000_000_000,
        size,
        epochs: vec![(0, 100), (1, 200), (2, 300)],
        custom_metadata: None,
        state: SegmentState::CopyStarted,
        txn_index_empty: false,
    }
}

fn lengths(transaction: Option<u32>) -> IndexLengths {
    IndexLengths { offset: 800, time: 1200, producer_snapshot: 90, leader_epochs: 18, transaction }
}

#[test]
fn manifests_have_the_golden_form() {
    let manifest = Manifest::plain(&segment(10_000_000), &lengths(Some(34)));
    assert_eq!(String::from_utf8(manifest.to_json()).unwrap(), GOLDEN.trim_end());
    assert_eq!(Manifest::from_json(GOLDEN.as_bytes()).unwrap(), manifest);
    assert_eq!((manifest.unsupported(), manifest.chunks(10_000_000)), (None, Ok(None)));
    assert_eq!(manifest.index(IndexKind::ProducerSnapshot), Some(2000..2090));
    assert_eq!((manifest.index(IndexKind::Transaction), manifest.indexes_length()), (Some(2108..2142), 2142));
}

#[test]
fn a_missing_transaction_index_is_null() {
    let manifest = Manifest::plain(&segment(1), &lengths(None));
    let text = String::from_utf8(manifest.to_json()).unwrap();
    assert!(text.contains("\"transaction\":null"), "{text}");
    assert_eq!((manifest.index(IndexKind::Transaction), manifest.indexes_length()), (None, 2108));
}

#[test]
fn the_last_chunk_has_the_rest() {
    for (size, last) in [(0, 0), (1, 1), (4 << 20, 4 << 20), ((4 << 20) + 1, 1), (i32::MAX, (4 << 20) - 1)] {
        let index = Manifest::plain(&segment(size), &lengths(None)).chunk_index;
        assert_eq!(index.final_transformed_chunk_size, Some(last), "{size}");
    }
}

#[test]
fn contradictions_have_a_reason() {
    let text = |from: &str, to: &str| GOLDEN.replacen(from, to, 1);
    let parsed = |text: &str| Manifest::from_json(text.as_bytes());
    let size = 10_000_000;
    let contradiction = |text: &str| parsed(text).unwrap().chunks(size).unwrap_err();
    assert!(parsed(GOLDEN).unwrap().chunks(size + 1).unwrap_err().contains("declares 10000000 bytes"));
    contradiction(&text("\"transformedChunkSize\":4194304", "\"transformedChunkSize\":4194305"));
    contradiction(&text("\"originalChunkSize\":4194304", "\"originalChunkSize\":0"));
    contradiction(&text("\"compression\":false", "\"compression\":true"));
    assert!(parsed(&text("\"version\":\"1\"", "\"version\":\"2\"")).unwrap_err().contains("version 2"));
    assert!(parsed(&text("10000000", "5497558138880")).is_err(), "terabytes");
    assert!(parsed(&text("\"position\":800", "\"position\":-1")).is_err());
    assert!(parsed("").is_err() && parsed("[]").is_err());
}

//! Tests of stores without a server. The suite `remote_store` has those with one.

use std::time::Duration;

use levada_base::parse_id;
use levada_tiered::{RemoteSegment, RemoteSegmentId, SegmentState, TopicIdPartition};

use super::*;

fn segment(custom: Option<&'static [u8]>) -> RemoteSegment {
    let id = |text: &str| Uuid::from_bytes(parse_id(text).unwrap());
    let partition =
        TopicIdPartition { topic_id: id("MWJ6FHTfRYy67jzwZdeqSQ"), topic: "topic".to_owned(), partition: 7 };
    RemoteSegment {
        id: RemoteSegmentId { partition, id: id("tqimKeZwStOEOwRzT3L5oQ") },
        start_offset: 1234,
        end_offset: 2000,
        max_timestamp_ms: 0,
        broker_id: 1,
        event_timestamp_ms: 0,
        size: 7,
        epochs: vec![(0, 1234)],
        custom_metadata: custom.map(Bytes::from_static),
        state: SegmentState::CopyFinished,
        txn_index_empty: true,
    }
}

fn options(location: &str, layout: StoreLayout) -> StoreOptions {
    StoreOptions {
        location: location.parse().unwrap(),
        layout,
        endpoint: None,
        region: None,
        kms_key: None,
        request_timeout: Duration::from_secs(1),
    }
}

fn keys(location: &str, custom: Option<&'static [u8]>) -> Result<Vec<String>, RemoteError> {
    Store::open_with(&options(location, StoreLayout::Aiven), &Variables::new([]))?.keys(&segment(custom))
}

#[test]
fn keys_are_those_of_the_plugin() {
    let path = "topic-MWJ6FHTfRYy67jzwZdeqSQ/7/00000000000000001234-tqimKeZwStOEOwRzT3L5oQ";
    let expected =
        |prefix: &str| ["rsm-manifest", "log", "indexes"].map(|end| format!("{prefix}{path}.{end}"));
    assert_eq!(keys("file:///tiers", None).unwrap(), expected(""));
    assert_eq!(keys("s3://logs/someprefix", Some(b"")).unwrap(), expected("someprefix/"));
}

#[test]
fn custom_metadata_names_other_keys() {
    // Field 0 (a size of one byte), 1 (`p/`), 2 (`main`).
    let custom = b"\x03\x00\x01\x02\x01\x03\x03p/\x02\x05\x05main";
    let keys = keys("s3://logs/own", Some(custom)).unwrap();
    assert!(keys[0].starts_with("own/topic-") && keys[0].ends_with(".rsm-manifest"));
    assert_eq!(keys[1..], ["p/main.log", "p/main.indexes"]);
}

#[test]
fn keys_outside_of_the_store_are_refused() {
    for custom in [&b"\x01\x01\x04\x04../"[..], b"\x01\x02\x04\x04/a/", b"\x01\x02\x03", b"\xff"] {
        let refused = keys("file:///tiers", Some(custom)).unwrap_err();
        assert_eq!(refused.kind, RemoteErrorKind::Damaged, "{refused}");
    }
}

#[test]
fn the_local_layout_needs_a_directory() {
    let options = options("s3://logs", StoreLayout::Local);
    let refused = Store::open_with(&options, &Variables::new([])).err().unwrap();
    assert_eq!(refused.kind, RemoteErrorKind::Unsupported);
    assert!(refused.to_string().contains("only for directories"), "{refused}");
}

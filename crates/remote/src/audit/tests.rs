//! Tests of the comparison, on a directory in each layout.

use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;

use levada_tiered::{
    PartitionDelete, RemoteSegmentId, SegmentUpdate, StoreLayout, StoreLocation, StoreOptions,
};
use tempfile::TempDir;

use super::*;
use crate::error::RemoteErrorKind;
use crate::layout::object_name;
use crate::store::{SegmentFile, SegmentFiles};

const LAYOUTS: [StoreLayout; 2] = [StoreLayout::Aiven, StoreLayout::Local];

fn segment(number: u8) -> RemoteSegment {
    let partition =
        TopicIdPartition { topic_id: Uuid::from_bytes([9; 16]), topic: "a-b-1".to_owned(), partition: 12 };
    RemoteSegment {
        id: RemoteSegmentId { partition, id: Uuid::from_bytes([number; 16]) },
        start_offset: i64::from(number),
        end_offset: 100,
        max_timestamp_ms: 0,
        broker_id: 1,
        event_timestamp_ms: 0,
        size: 7,
        epochs: vec![(0, 0)],
        custom_metadata: None,
        state: SegmentState::CopyStarted,
        txn_index_empty: true,
    }
}

fn update(number: u8, state: SegmentState) -> RemoteRecord {
    let id = segment(number).id;
    RemoteRecord::Update(SegmentUpdate {
        id,
        broker_id: 1,
        event_timestamp_ms: 0,
        custom_metadata: None,
        state,
    })
}

fn store(dir: &TempDir, layout: StoreLayout) -> Store {
    let options = StoreOptions {
        location: StoreLocation::Directory(dir.path().to_owned()),
        layout,
        endpoint: None,
        region: None,
        kms_key: None,
        request_timeout: std::time::Duration::from_secs(1),
    };
    Store::open(&options).unwrap()
}

fn put(store: &Store, dir: &TempDir, segment: &RemoteSegment) {
    let path = dir.path().join("records");
    File::create(&path).unwrap().write_all(b"records").unwrap();
    let file = File::open(&path).unwrap();
    let part = SegmentFile { file: &file, length: 7 };
    let files = SegmentFiles {
        log: part,
        offset_index: part,
        time_index: part,
        txn_index: None,
        producer_snapshot: b"producers",
        epochs: b"epochs",
    };
    store.put_segment(segment, &files).unwrap();
    fs::remove_file(path).unwrap();
}

/// The file of an object.
fn object(dir: &TempDir, layout: StoreLayout, key: &str) -> PathBuf {
    let root = if layout == StoreLayout::Local { "kafka-tiered-storage" } else { "" };
    dir.path().join(root).join(key)
}

/// A store with segments 1 to 4: copied, being copied, being deleted, and unknown to the metadata.
fn filled(dir: &TempDir, layout: StoreLayout) -> (Store, Inventory) {
    let store = store(dir, layout);
    let mut inventory = Inventory::new(50);
    let partition = metadata_partition(&segment(1).id.partition, 50);
    inventory.mark_read(partition);
    for number in 1..=4 {
        put(&store, dir, &segment(number));
    }
    for number in 1..=3 {
        inventory.apply(&RemoteRecord::Segment(segment(number)));
    }
    inventory.apply(&update(1, SegmentState::CopyFinished));
    inventory.apply(&update(3, SegmentState::DeleteStarted));
    (store, inventory)
}

#[test]
fn newest_copy_of_topic_is_readable() {
    for layout in LAYOUTS {
        let dir = tempfile::tempdir().unwrap();
        let (store, inventory) = filled(&dir, layout);
        assert_eq!(inventory.newest_of("other"), None);
        // Segments 2 and 3 end later or at the same offset, and are not copied.
        let newest = inventory.newest_of("a-b-1").unwrap();
        assert_eq!(newest.id, segment(1).id);
        store.check_readable(newest).unwrap();
        fs::remove_file(object(&dir, layout, &store.log_key(newest).unwrap())).unwrap();
        assert_eq!(store.check_readable(newest).unwrap_err().kind, RemoteErrorKind::NotFound);
    }
}

#[test]
fn objects_of_unknown_segments_are_orphans() {
    for layout in LAYOUTS {
        let dir = tempfile::tempdir().unwrap();
        let (store, mut inventory) = filled(&dir, layout);
        let found = audit(&store, &inventory).unwrap();
        assert_eq!((found.segments, found.bytes, found.unfinished), (1, 7, 2));
        assert!(!found.is_damaged() && found.unknown == 0 && found.foreign == 0, "{found:?}");
        let mut expected = store.keys(&segment(4)).unwrap();
        expected.retain(|key| !key.ends_with("txnindex"));
        expected.sort();
        assert_eq!(found.orphans.iter().map(|entry| entry.key.clone()).collect::<Vec<_>>(), expected);
        // Records of the metadata topic that were not read may name the segment.
        inventory.read.clear();
        let found = audit(&store, &inventory).unwrap();
        assert_eq!((found.orphans.len(), found.unknown), (0, expected.len() as u64));
    }
}

#[test]
fn missing_and_short_objects_are_damage() {
    for layout in LAYOUTS {
        let dir = tempfile::tempdir().unwrap();
        let (store, inventory) = filled(&dir, layout);
        let path = |key: &str| object(&dir, layout, key);
        let log = store.log_key(&segment(1)).unwrap();
        fs::write(path(&log), b"short").unwrap();
        let found = audit(&store, &inventory).unwrap();
        assert_eq!(found.wrong_size, [(log.clone(), 5, 7)]);
        fs::remove_file(path(&log)).unwrap();
        let found = audit(&store, &inventory).unwrap();
        assert!(found.is_damaged());
        assert_eq!(found.missing, [log]);
    }
}

#[test]
fn deleted_partitions_leave_orphans() {
    let dir = tempfile::tempdir().unwrap();
    let (store, mut inventory) = filled(&dir, StoreLayout::Aiven);
    inventory.apply(&RemoteRecord::PartitionDelete(PartitionDelete {
        partition: segment(1).id.partition,
        broker_id: 1,
        event_timestamp_ms: 0,
        state: PartitionDeleteState::Finished,
    }));
    fs::write(dir.path().join("README"), "of the operator").unwrap();
    let found = audit(&store, &inventory).unwrap();
    assert_eq!((found.segments, found.orphans.len(), found.foreign), (0, 12, 1));
}

#[test]
fn owners_are_read_from_keys() {
    let topic = Uuid::from_bytes([9; 16]);
    for layout in LAYOUTS {
        let dir = tempfile::tempdir().unwrap();
        for key in store(&dir, layout).keys(&segment(1)).unwrap() {
            let partition = object_name(layout, &key).unwrap().id.partition;
            assert_eq!((partition.topic_id, partition.partition), (topic, 12), "{key}");
        }
        for key in ["", "a", "a/b", "a/b/c.log", "é/0/00000000000000000001-CQkJCQkJCQkJCQkJCQkJCQ.log"] {
            assert_eq!(object_name(layout, key), None, "{key}");
        }
    }
}

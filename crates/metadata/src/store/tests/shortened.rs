//! Snapshots that the store takes itself, and what goes with them.

use super::*;
use crate::image::{Replay, ResourceKind};
use crate::records::{ClientQuotaRecord, ConfigRecord, PartitionChangeRecord};

/// The names of files that end so, in order.
fn files(dir: &Path, end: &str) -> Vec<String> {
    let entries = fs::read_dir(dir.join(METADATA_DIR)).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| name.ends_with(end)).collect();
    names.sort();
    names
}

/// Takes a snapshot as soon as there is a record, and keeps as much as that.
fn eager(dir: &Path, retention_bytes: i64) -> StoreOptions {
    let limits = StoreLimits { snapshot_bytes: 1, retention_bytes, ..StoreLimits::default() };
    StoreOptions { limits, ..options(dir) }
}

fn shorten(store: &mut Store, now_ms: i64) -> Option<i64> {
    store.due_snapshot(now_ms).unwrap().map(|due| due.write(now_ms).unwrap())
}

#[test]
fn records_of_an_image_make_the_same_image() {
    let dir = golden_copy();
    let (mut store, _) = open(dir.path());
    let kept = Uuid::from_bytes([9; 16]);
    let quota = ClientQuotaRecord {
        entity: vec![("user".to_owned(), None), ("client-id".to_owned(), Some("c".to_owned()))],
        key: "producer_byte_rate".to_owned(),
        value: 5.5,
        remove: false,
    };
    let change = PartitionChangeRecord { partition_id: 0, topic_id: kept, leader: 1, ..Default::default() };
    let group = ConfigRecord {
        resource_type: ResourceKind::Group.id(),
        resource_name: "g".to_owned(),
        name: "consumer.session.timeout.ms".to_owned(),
        value: Some("50000".to_owned()),
    };
    let mut records = topic("more", 9);
    records.extend([quota.into(), change.into(), group.into()]);
    records.push(crate::records::ProducerIdsRecord { next_producer_id: 7_000, ..Default::default() }.into());
    store.update(2_000, |_, _| Decision { records, outcome: () }).unwrap();
    let image = store.image();
    let list = image.to_records();
    assert!(matches!(&list[0], Record::FeatureLevel(first) if first.name == METADATA_VERSION));
    let mut replay = Replay::new(Image::empty());
    for record in &list {
        replay.push(record.clone(), Position::default()).unwrap();
    }
    let again = replay.into_image();
    assert_eq!(again.to_records(), list);
    assert_eq!((again.features(), again.next_producer_id()), (image.features(), image.next_producer_id()));
    assert_eq!(names(&again), names(image));
    assert_eq!(again.topic("more").unwrap().partition(0), image.topic("more").unwrap().partition(0));
    assert_eq!(again.topic("more").unwrap().partition(0).unwrap().leader_epoch, 1);
    assert_eq!(again.brokers().broker(1), image.brokers().broker(1));
    assert_eq!(again.quotas().iter().collect::<Vec<_>>(), image.quotas().iter().collect::<Vec<_>>());
    assert_eq!(again.config_resources().count(), image.config_resources().count());
    assert_eq!(again.acls().iter().count(), image.acls().iter().count());
    assert_eq!(again.credentials().iter().count(), image.credentials().iter().count());
}

#[test]
fn start_reads_latest_snapshot_and_later_log() {
    let dir = tempfile::tempdir().unwrap();
    let (mut store, _) = Store::open(&eager(dir.path(), -1), 1_000).unwrap();
    for index in 0..100 {
        add(&mut store, &format!("t{index}"), index + 1);
        store
            .update(3_000, |_, _| {
                let topic_id = Uuid::from_bytes([index + 1; 16]);
                Decision { records: vec![RemoveTopicRecord { topic_id }.into()], outcome: () }
            })
            .unwrap();
    }
    add(&mut store, "kept", 200);
    let end = store.image().offset() + 1;
    assert_eq!(shorten(&mut store, 4_000), Some(end));
    // Nothing new, nothing due.
    assert_eq!(shorten(&mut store, i64::MAX), None);
    add(&mut store, "behind", 201);
    drop(store);
    let (store, report) = open(dir.path());
    assert_eq!(names(store.image()), ["behind", "kept"]);
    assert!(report.records < 30, "{report:?}");
    assert_eq!(
        files(dir.path(), ".checkpoint"),
        ["00000000000000000000-0000000000.checkpoint".to_owned(), format!("{end:020}-0000000001.checkpoint")]
    );
    assert_eq!(files(dir.path(), ".log").len(), 2);
}

#[test]
fn files_below_a_snapshot_are_removed_by_retention() {
    for (retention_bytes, now_ms) in [(1, 5_000), (-1, 5_000 + 8 * 86_400_000)] {
        let dir = tempfile::tempdir().unwrap();
        let (mut store, _) = Store::open(&eager(dir.path(), retention_bytes), 1_000).unwrap();
        let mut ends = Vec::new();
        for index in 1..4 {
            add(&mut store, &format!("t{index}"), index);
            ends.extend(shorten(&mut store, now_ms));
        }
        fs::write(dir.path().join(METADATA_DIR).join("0-0.checkpoint.part"), b"half").unwrap();
        add(&mut store, "last", 9);
        ends.extend(shorten(&mut store, now_ms));
        let end = ends[3];
        assert_eq!(files(dir.path(), ".checkpoint"), [format!("{end:020}-0000000001.checkpoint")]);
        assert_eq!(files(dir.path(), ".log"), [format!("{end:020}.log")]);
        assert_eq!(files(dir.path(), ".part"), [""; 0]);
        drop(store);
        let (mut store, _) = open(dir.path());
        assert_eq!(names(store.image()), ["last", "t1", "t2", "t3"]);
        add(&mut store, "more", 10);
        drop(store);
        assert_eq!(names(open(dir.path()).0.image()).len(), 5);
    }
}

#[test]
fn snapshots_and_segments_within_retention_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    let (mut store, _) = Store::open(&eager(dir.path(), 100 << 20), 1_000).unwrap();
    for index in 1..4 {
        add(&mut store, &format!("t{index}"), index);
        shorten(&mut store, 5_000).unwrap();
    }
    assert_eq!((files(dir.path(), ".checkpoint").len(), files(dir.path(), ".log").len()), (4, 4));
}

#[test]
fn damaged_snapshot_is_skipped_if_log_suffices() {
    let dir = tempfile::tempdir().unwrap();
    let (mut store, _) = Store::open(&eager(dir.path(), -1), 1_000).unwrap();
    for index in 1..4 {
        add(&mut store, &format!("t{index}"), index);
        shorten(&mut store, 5_000).unwrap();
    }
    drop(store);
    let latest = dir.path().join(METADATA_DIR).join(files(dir.path(), ".checkpoint").pop().unwrap());
    let whole = fs::read(&latest).unwrap();
    for len in [0, 10, whole.len() / 2, whole.len() - 1] {
        fs::remove_file(&latest).unwrap();
        fs::write(&latest, &whole[..len]).unwrap();
        assert!(inspect(&RealDisk, dir.path()).unwrap().fault.is_some());
        let (store, report) = open(dir.path());
        assert_eq!(names(store.image()), ["t1", "t2", "t3"]);
        assert!(report.passed_over.is_some_and(|why| why.contains("checkpoint")), "{len}");
    }
}

#[test]
fn damaged_snapshot_without_covering_log_is_refused() {
    for name in ["00000000000000000000-0000000000.checkpoint", "00000000000000000005-0000000001.checkpoint"] {
        let dir = tempfile::tempdir().unwrap();
        let (mut store, _) = open(dir.path());
        add(&mut store, "t", 1);
        let log_end = store.image().offset() + 1;
        drop(store);
        let path = dir.path().join(METADATA_DIR);
        // The first one beside a log that begins at 0, the second one beside none.
        if !name.starts_with("00000000000000000000") {
            assert!(log_end >= 5, "the log would have it all");
            for log in files(dir.path(), ".log") {
                fs::remove_file(path.join(log)).unwrap();
            }
        }
        fs::write(path.join(name), b"half").unwrap();
        let fault = inspect(&RealDisk, dir.path()).unwrap().fault.expect("a damaged snapshot");
        let Err(refused) = Store::open(&options(dir.path()), 1_000) else { panic!("{name} was passed over") };
        assert_eq!(refused.to_string(), fault);
        assert!(fault.contains(name), "{fault}");
    }
}

#[test]
fn changed_image_gets_a_snapshot_by_age() {
    let dir = tempfile::tempdir().unwrap();
    let (mut store, _) = open(dir.path());
    add(&mut store, "a", 1);
    assert_eq!(shorten(&mut store, 1_000 + 3_599_999), None);
    assert!(shorten(&mut store, 1_000 + 3_600_000).is_some());
    assert_eq!(shorten(&mut store, 1_000 + 9_600_000), None);
    add(&mut store, "b", 2);
    assert!(shorten(&mut store, 1_000 + 9_600_000).is_some());
}

#[test]
fn metadata_segment_rolls_by_batch_time() {
    let dir = tempfile::tempdir().unwrap();
    let limits = StoreLimits { segment_ms: 1_000, ..StoreLimits::default() };
    let options = StoreOptions { limits, ..options(dir.path()) };
    let add_at = |store: &mut Store, byte: u8, now_ms: i64| {
        let records = topic(&format!("t{byte}"), byte);
        store.update(now_ms, |_, _| Decision { records, outcome: () }).unwrap();
    };
    let (mut store, _) = Store::open(&options, 5_000).unwrap();
    add_at(&mut store, 1, 6_000);
    assert_eq!(files(dir.path(), ".log").len(), 1, "as late as a batch may be");
    let second = store.image().offset() + 1;
    add_at(&mut store, 2, 6_001);
    add_at(&mut store, 3, 7_001);
    // A clock that was set back ends nothing.
    add_at(&mut store, 4, 10);
    let both = ["00000000000000000000.log".to_owned(), format!("{second:020}.log")];
    assert_eq!(files(dir.path(), ".log"), both);
    drop(store);
    let (mut store, _) = Store::open(&options, 7_001).unwrap();
    assert_eq!(files(dir.path(), ".log"), both, "a start finds out when the segment began");
    add_at(&mut store, 5, 7_002);
    assert_eq!(files(dir.path(), ".log").len(), 3);
    assert_eq!(names(store.image()), ["t1", "t2", "t3", "t4", "t5"]);
}

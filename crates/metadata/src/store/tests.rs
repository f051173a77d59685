//! The metadata log on a real disk.

mod large;
mod shortened;

use std::fs::{self, File};

use levada_base::batch::BatchView;
use levada_log::checkpoint::Rights;
use levada_log::disk::RealDisk;
use levada_log::journal::read_batches;
use levada_wire::primitives::Uuid;
use tempfile::TempDir;

use super::snapshot::{LogRecord, each_record};
use super::*;
use crate::controller::{Node, start_node, stop_node};
use crate::features::{ELIGIBLE_LEADERS_VERSION, LATEST, METADATA_VERSION};
use crate::image::ConfigResource;
use crate::records::control;
use crate::records::{
    BeginTransactionRecord, FeatureLevelRecord, PartitionRecord, RemoveTopicRecord, TopicRecord,
};
use crate::uuid;

const SEGMENT: &str = "__cluster_metadata-0/00000000000000000000.log";

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/kafka-4.3.1")
}

/// A copy of the real Kafka's directory.
fn golden_copy() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join(METADATA_DIR)).unwrap();
    for from in [golden(), golden().join(METADATA_DIR)] {
        for entry in fs::read_dir(&from).unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_file() {
                let name = entry.path().strip_prefix(golden()).unwrap().to_owned();
                fs::copy(entry.path(), dir.path().join(name)).unwrap();
            }
        }
    }
    dir
}

fn options(dir: &Path) -> StoreOptions {
    StoreOptions {
        disk: Arc::new(RealDisk),
        dir: dir.to_owned(),
        node_id: 1,
        cluster_id: None,
        controller: VoterEndpoint { name: "CONTROLLER".to_owned(), host: "localhost".to_owned(), port: 9093 },
        min_insync_replicas: 1,
        users: Vec::new(),
        limits: StoreLimits::default(),
        others: Some(Vec::new()),
        other_dirs: Vec::new(),
        serves_tiers: false,
    }
}

fn open(dir: &Path) -> (Store, OpenReport) {
    Store::open(&options(dir), 1_000).unwrap()
}

fn topic(name: &str, byte: u8) -> Vec<Record> {
    let topic_id = Uuid::from_bytes([byte; 16]);
    vec![
        TopicRecord { name: name.to_owned(), topic_id }.into(),
        PartitionRecord { topic_id, replicas: vec![1], leader: 1, isr: vec![1], ..Default::default() }.into(),
    ]
}

fn add(store: &mut Store, name: &str, byte: u8) {
    store.update(2_000, |_, _| Decision { records: topic(name, byte), outcome: () }).unwrap();
}

fn names(image: &Image) -> Vec<String> {
    image.topics().iter().map(|topic| topic.name().to_string()).collect()
}

/// Every record of a file of batches, with the batch's offset, epoch and time.
fn contents(path: &Path) -> Vec<(i64, i32, i64, Vec<LogRecord>)> {
    let mut batches = Vec::new();
    read_batches(&RealDisk, path, |batch| {
        let mut list = Vec::new();
        each_record(path, batch, |record| {
            list.push(record);
            Ok(())
        })?;
        batches.push((batch.base_offset(), batch.leader_epoch(), batch.max_timestamp(), list));
        Ok::<(), StoreError>(())
    })
    .unwrap();
    batches
}

#[test]
fn kafka_metadata_files_are_rewritten_byte_for_byte() {
    for name in
        [SEGMENT, "bootstrap.checkpoint", "__cluster_metadata-0/00000000000000000000-0000000000.checkpoint"]
    {
        let path = golden().join(name);
        let mut written = Vec::new();
        for (base_offset, epoch, timestamp_ms, list) in contents(&path) {
            let control: Vec<ControlRecord> = list.iter().filter_map(control_record).collect();
            let batch = if control.is_empty() {
                let list: Vec<Record> = list.iter().filter_map(metadata_record).collect();
                metadata_batch(&path, &values(&list), base_offset, epoch, timestamp_ms)
            } else {
                control_batch(&path, &control, base_offset, epoch, timestamp_ms)
            };
            written.extend_from_slice(&batch.unwrap());
        }
        assert_eq!(written, fs::read(&path).unwrap(), "{name}");
    }
}

fn values(list: &[Record]) -> Vec<change::Value> {
    list.iter().map(|record| change::encode(record, LATEST).unwrap().unwrap()).collect()
}

fn control_record(record: &LogRecord) -> Option<ControlRecord> {
    if let LogRecord::Control(record) = record { Some(record.clone()) } else { None }
}

fn metadata_record(record: &LogRecord) -> Option<Record> {
    if let LogRecord::Metadata(record) = record { Some(record.clone()) } else { None }
}

#[test]
fn new_directory_has_the_same_records_as_kafka() {
    let dir = tempfile::tempdir().unwrap();
    let (store, report) = open(dir.path());
    assert!(report.formatted);
    assert_eq!((report.epoch, report.torn.clone()), (1, None));
    let identity = store.identity().clone();
    drop(store);
    let ours = |name: &str| contents(&dir.path().join(name));
    let real = |name: &str| contents(&golden().join(name));
    let records = |batches: Vec<(i64, i32, i64, Vec<LogRecord>)>| -> Vec<_> {
        batches.into_iter().map(|(offset, epoch, _, list)| (offset, epoch, list)).collect()
    };
    assert_eq!(records(ours("bootstrap.checkpoint")), records(real("bootstrap.checkpoint")));
    // Ids, port and times differ; places and kinds do not.
    let kinds = |batches: Vec<(i64, i32, i64, Vec<LogRecord>)>| -> Vec<_> {
        let kind = |record: &LogRecord| match record {
            LogRecord::Control(record) => format!("{:?}", std::mem::discriminant(record)),
            LogRecord::Metadata(record) => format!("{record:?}"),
        };
        batches
            .into_iter()
            .map(|(offset, epoch, _, list)| (offset, epoch, list.iter().map(kind).collect::<Vec<_>>()))
            .collect()
    };
    let first = "__cluster_metadata-0/00000000000000000000-0000000000.checkpoint";
    assert_eq!(kinds(ours(first)), kinds(real(first)));
    assert_eq!(kinds(ours(SEGMENT)), kinds(real(SEGMENT))[..2]);
    assert_eq!(MetaProperties::load(&RealDisk, dir.path()).unwrap().unwrap(), identity);
    let text = |name: &str| fs::read_to_string(dir.path().join(METADATA_DIR).join(name)).unwrap();
    let real_text = |name: &str| fs::read_to_string(golden().join(METADATA_DIR).join(name)).unwrap();
    assert_eq!(
        text("quorum-state"),
        real_text("quorum-state").replace("\"leaderEpoch\":3", "\"leaderEpoch\":1")
    );
    assert_eq!(text("partition.metadata"), real_text("partition.metadata").trim_end_matches('\n'));
    assert_eq!(text("leader-epoch-checkpoint"), "0\n1\n1 0\n");
}

#[test]
fn metadata_changes_survive_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let (mut store, _) = open(dir.path());
    let images = store.images();
    let before = images.current();
    add(&mut store, "a", 1);
    assert_eq!(before.topics().len(), 0);
    assert_eq!(names(&images.current()), ["a"]);
    let identity = store.identity().clone();
    drop(store);
    let (mut store, report) = open(dir.path());
    assert_eq!((report.formatted, report.epoch, store.identity()), (false, 2, &identity));
    assert_eq!((names(store.image()), store.image().kraft_version()), (vec!["a".to_owned()], 1));
    let removed = RemoveTopicRecord { topic_id: Uuid::from_bytes([1; 16]) };
    let mut base = None;
    let remove = |_: &Image, base_offset| {
        base = Some(base_offset);
        Decision { records: vec![removed.into()], outcome: 7 }
    };
    assert_eq!(store.update(3_000, remove).unwrap(), 7);
    assert_eq!((Some(store.image().offset()), store.image().epoch()), (base, 2));
    drop(store);
    let (store, report) = open(dir.path());
    assert_eq!((names(store.image()), report.epoch), (Vec::new(), 3));
    let epochs = fs::read_to_string(dir.path().join("__cluster_metadata-0/leader-epoch-checkpoint")).unwrap();
    assert_eq!(epochs.lines().nth(1), Some("3"));
}

#[test]
fn kafka_metadata_log_is_continued() {
    let dir = golden_copy();
    let (mut store, report) = open(dir.path());
    assert_eq!((report.formatted, report.epoch, report.records, report.torn), (false, 4, 105, None));
    assert_eq!(names(store.image()), ["al.pha", "alpha", "beta"]);
    add(&mut store, "ours", 1);
    drop(store);
    let (store, _) = open(dir.path());
    assert_eq!(names(store.image()), ["al.pha", "alpha", "beta", "ours"]);
    let brokers = store.image().configs(&ConfigResource::all_brokers()).unwrap();
    assert_eq!(brokers.get("log.retention.ms").map(|value| &**value), Some("12345"));
    // Earlier contents are untouched.
    let log = fs::read(dir.path().join(SEGMENT)).unwrap();
    assert!(log.starts_with(&fs::read(golden().join(SEGMENT)).unwrap()));
}

#[test]
fn torn_metadata_tail_is_truncated_at_any_position() {
    let dir = tempfile::tempdir().unwrap();
    let (mut store, _) = open(dir.path());
    add(&mut store, "a", 1);
    let path = dir.path().join(SEGMENT);
    let whole = fs::metadata(&path).unwrap().len() as usize;
    add(&mut store, "b", 2);
    drop(store);
    let log = fs::read(&path).unwrap();
    let check = |bytes: Vec<u8>| {
        let len = bytes.len();
        fs::write(&path, bytes).unwrap();
        let (store, report) = open(dir.path());
        assert_eq!(names(store.image()), ["a"], "{len}");
        let torn = report.torn.unwrap();
        assert_eq!((torn.position, torn.len_bytes), (whole as u64, (len - whole) as u64));
    };
    for end in [whole + 1, whole + 12, whole + 60, log.len() - 1] {
        check(log[..end].to_vec());
    }
    // The file's length was written, some of its pages were not.
    for range in [whole..log.len(), whole..whole + 8, whole..whole + 61, log.len() - 10..log.len()] {
        let mut bytes = log.clone();
        bytes[range].fill(0);
        check(bytes);
    }
}

#[test]
fn damage_before_whole_batches_is_refused_and_kept() {
    let dir = golden_copy();
    let path = dir.path().join(SEGMENT);
    let log = fs::read(&path).unwrap();
    let first = BatchView::parse(&log).unwrap().bytes().len();
    for position in [8, 21, 100, first + 16, first + 70] {
        let mut bytes = log.clone();
        bytes[position] ^= 0x55;
        fs::write(&path, &bytes).unwrap();
        let error = Store::open(&options(dir.path()), 1_000).unwrap_err();
        assert!(
            matches!(&error, StoreError::File(LogError::Corrupt { path: named, .. }) if *named == path),
            "{error}"
        );
        assert_eq!(fs::read(&path).unwrap(), bytes, "nothing may be changed");
    }
}

#[test]
fn epochs_never_decrease() {
    let dir = golden_copy();
    let path = dir.path().join("__cluster_metadata-0/quorum-state");
    let state = fs::read_to_string(&path).unwrap();
    fs::write(&path, state.replace("\"leaderEpoch\":3", "\"leaderEpoch\":40")).unwrap();
    assert_eq!(open(dir.path()).1.epoch, 41);
    fs::remove_file(&path).unwrap();
    assert_eq!(open(dir.path()).1.epoch, 42);
    // A crash of the machine can keep the length of a file and lose its bytes.
    for (epoch, content) in [(43, ""), (44, "\0\0\0\0")] {
        fs::write(&path, content).unwrap();
        assert_eq!(open(dir.path()).1.epoch, epoch, "{content:?}");
        assert!(fs::read_to_string(&path).unwrap().contains(&format!("\"leaderEpoch\":{epoch}")));
    }
}

#[test]
fn directory_id_is_added_and_zookeeper_directory_refused() {
    let dir = golden_copy();
    let path = dir.path().join(MetaProperties::FILE_NAME);
    let text = fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with("directory.id")).collect();
    fs::write(&path, lines.join("\n")).unwrap();
    inspect(&RealDisk, dir.path()).unwrap();
    let id = open(dir.path()).0.identity().directory_id;
    assert_ne!(id, MetaProperties::NO_ID);
    assert_eq!(open(dir.path()).0.identity().directory_id, id, "it is in the file");
    // The id under which the node registered the directory, and replicas there.
    fs::write(&path, lines.join("\n")).unwrap();
    let options = StoreOptions { others: Some(Vec::new()), ..options(dir.path()) };
    let (store, _) = Store::open(&options, 1_000).unwrap();
    assert!(text.contains(&uuid::text(Uuid::from_bytes(store.identity().directory_id))), "{text}");
    drop(store);

    let other = tempfile::tempdir().unwrap();
    fs::write(other.path().join(MetaProperties::FILE_NAME), lines.join("\n")).unwrap();
    let owner = open(dir.path()).0.identity().clone();
    let adopted = Store::adopt(&RealDisk, other.path(), &owner).unwrap();
    assert_eq!(MetaProperties::load(&RealDisk, other.path()).unwrap(), Some(adopted.clone()));
    assert!(adopted.directory_id != MetaProperties::NO_ID && adopted.directory_id != id);

    fs::write(&path, "version=0\nbroker.id=0\ncluster.id=pW_sXOjzTeWwyAXCn2jFMQ\n").unwrap();
    let error = Store::open(&options, 1_000).unwrap_err().to_string();
    assert!(error.contains("of a ZooKeeper cluster; migrate") && !error.contains("damaged"), "{error}");
}

#[test]
fn impossible_offsets_and_epochs_are_damage() {
    let check = |change: &dyn Fn(&Path), reason: &str| {
        let dir = golden_copy();
        change(&dir.path().join(METADATA_DIR));
        let error = Store::open(&options(dir.path()), 1_000).unwrap_err();
        assert!(
            matches!(error, StoreError::File(LogError::Corrupt { .. })) && error.to_string().contains(reason),
            "{error}"
        );
        inspect(&RealDisk, dir.path()).unwrap();
    };
    let state = |dir: &Path, epoch: i32| {
        fs::write(dir.join("quorum-state"), format!("{{\"leaderEpoch\":{epoch}}}")).unwrap();
    };
    check(&|dir| state(dir, i32::MAX), "no leader epoch is left after 2147483647");
    // A whole log that begins at the last offset, after a snapshot that goes as far.
    for (end_offset, reason) in
        [(i64::MAX, "beyond the largest"), (i64::MAX / 2 - 1, "ends beyond the largest")]
    {
        let late = |dir: &Path| {
            let snapshot = snapshot::Snapshot::default();
            let id = snapshot::SnapshotId { end_offset, epoch: 3 };
            snapshot.write(&RealDisk, &id.path(dir), (3, 6), Rights::Writable).unwrap();
            fs::remove_file(dir.join("00000000000000000000.log")).unwrap();
            let path = dir.join(format!("{end_offset:020}.log"));
            let batch = metadata_batch(&path, &values(&topic("late", 1)), end_offset, 3, 1_000).unwrap();
            fs::write(path, &batch).unwrap();
        };
        check(&late, reason);
    }
}

#[test]
fn directory_of_another_node_is_refused() {
    let check = |change: &dyn Fn(&Path, &mut StoreOptions), message: &str| {
        let dir = golden_copy();
        let mut options = options(dir.path());
        change(dir.path(), &mut options);
        let error = Store::open(&options, 1_000).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
        assert_eq!(fs::read(dir.path().join(SEGMENT)).unwrap(), fs::read(golden().join(SEGMENT)).unwrap());
    };
    check(&|_, options| options.node_id = 2, "has node.id 1, but 2 is configured");
    check(&|_, options| options.cluster_id = Some("x".to_owned()), "but x is configured");
    check(&|dir, _| fs::remove_file(dir.join("meta.properties")).unwrap(), "no meta.properties");
    check(&|dir, _| fs::write(dir.join("meta.properties"), "version=1\n").unwrap(), "there is no cluster.id");
    check(&|dir, _| fs::write(dir.join("meta.properties"), "version=2\n").unwrap(), "version is \"2\"");
}

#[test]
fn contradicting_change_never_reaches_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let (mut store, _) = open(dir.path());
    add(&mut store, "a", 1);
    let log = fs::read(dir.path().join(SEGMENT)).unwrap();
    let again = store.update(2_000, |_, _| Decision { records: topic("a", 2), outcome: () });
    assert!(matches!(again, Err(StoreError::Contradiction { .. })));
    assert_eq!(fs::read(dir.path().join(SEGMENT)).unwrap(), log);
    add(&mut store, "b", 2);
    assert_eq!(names(store.image()), ["a", "b"]);
}

#[test]
fn partially_written_change_is_discarded() {
    let dir = tempfile::tempdir().unwrap();
    let (mut store, _) = open(dir.path());
    let half = || {
        let mut records = vec![Record::from(BeginTransactionRecord::default())];
        records.extend(topic("a", 1));
        Decision { records, outcome: () }
    };
    store.update(2_000, |_, _| half()).unwrap();
    assert_eq!(names(&store.images().current()), Vec::<String>::new());
    drop(store);
    let (mut store, _) = open(dir.path());
    assert_eq!(names(store.image()), Vec::<String>::new());
    add(&mut store, "a", 1);
    drop(store);
    assert_eq!(names(open(dir.path()).0.image()), ["a"]);
}

#[test]
fn snapshot_replaces_the_log_before_it() {
    let dir = golden_copy();
    let metadata = dir.path().join(METADATA_DIR);
    let topic_id = Uuid::from_bytes([5; 16]);
    let snapshot = snapshot::Snapshot {
        timestamp_ms: 5,
        control: vec![ControlRecord::KRaftVersion(1), ControlRecord::Voters(Vec::new())],
        records: vec![
            FeatureLevelRecord { name: "metadata.version".to_owned(), feature_level: 30 }.into(),
            TopicRecord { name: "kept".to_owned(), topic_id }.into(),
        ],
    };
    let id = snapshot::SnapshotId { end_offset: 105, epoch: 3 };
    let path = id.path(&metadata);
    assert!(path.ends_with("00000000000000000105-0000000003.checkpoint"));
    snapshot.write(&RealDisk, &path, (3, 6), Rights::ReadOnly).unwrap();
    assert_eq!(snapshot::Snapshot::read(&RealDisk, &path).unwrap(), snapshot);
    let check = || {
        let (store, _) = open(dir.path());
        assert_eq!((names(store.image()), store.image().kraft_version()), (vec!["kept".to_owned()], 1));
        store
    };
    check();
    // Kafka deletes segments that a snapshot covers.
    fs::remove_file(dir.path().join(SEGMENT)).unwrap();
    let mut store = check();
    assert_eq!((store.image().offset(), store.image().epoch()), (105, 5));
    add(&mut store, "more", 6);
    drop(store);
    assert_eq!(names(open(dir.path()).0.image()), ["kept", "more"]);
    let cut = fs::read(&path).unwrap();
    fs::remove_file(&path).unwrap();
    fs::write(&path, &cut[..cut.len() - 75]).unwrap();
    let error = Store::open(&options(dir.path()), 1_000).unwrap_err().to_string();
    assert!(error.contains("no end"), "{error}");
}

#[test]
fn metadata_of_multi_node_quorum_is_refused() {
    let dir = golden_copy();
    let voter = |voter_id| control::Voter {
        voter_id,
        directory_id: Uuid::from_bytes([1; 16]),
        endpoints: Vec::new(),
        min_kraft_version: 0,
        max_kraft_version: 1,
    };
    let path = dir.path().join(SEGMENT);
    let voters = [ControlRecord::Voters(vec![voter(1), voter(2)])];
    let mut log = fs::read(&path).unwrap();
    log.extend_from_slice(&control_batch(&path, &voters, 105, 3, 1_000).unwrap());
    fs::write(&path, &log).unwrap();
    let error = Store::open(&options(dir.path()), 1_000).unwrap_err();
    assert!(matches!(&error, StoreError::Quorum { voters, .. } if *voters == [1, 2]), "{error}");
    assert_eq!(fs::read(&path).unwrap(), log);
}

#[test]
fn interrupted_format_can_be_repeated() {
    let dir = tempfile::tempdir().unwrap();
    let (store, _) = open(dir.path());
    drop(store);
    let metadata = dir.path().join(METADATA_DIR);
    fs::remove_file(dir.path().join("meta.properties")).unwrap();
    fs::write(dir.path().join(SEGMENT), b"").unwrap();
    fs::write(metadata.join("quorum-state"), b"").unwrap();
    fs::write(dir.path().join("bootstrap.checkpoint"), b"half").unwrap();
    let (store, report) = open(dir.path());
    assert_eq!((report.formatted, report.epoch, store.image().features().len()), (true, 1, 6));
}

#[test]
fn one_change_is_one_batch() {
    let dir = tempfile::tempdir().unwrap();
    let (mut store, _) = open(dir.path());
    let before = contents(&dir.path().join(SEGMENT)).len();
    add(&mut store, "a", 1);
    store.update(2_000, |_, _| Decision::nothing(())).unwrap();
    assert_eq!(contents(&dir.path().join(SEGMENT)).len(), before + 1);
}

#[test]
fn records_are_written_for_the_metadata_version() {
    let node = Node { node_id: 1, log_dirs: vec![Uuid::from_bytes([7; 16])], ..Node::default() };
    for (level, versions) in [
        (7, [1, 0, 0]),
        (12, [2, 0, 0]),
        (14, [2, 0, 0]),
        (17, [3, 1, 1]),
        (22, [3, 1, 1]),
        (29, [3, 2, 2]),
        (30, [4, 2, 2]),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let (mut store, _) = open(dir.path());
        let eligible = FeatureLevelRecord {
            name: ELIGIBLE_LEADERS_VERSION.to_owned(),
            feature_level: i16::from(level >= 23),
        };
        let metadata = FeatureLevelRecord { name: METADATA_VERSION.to_owned(), feature_level: level };
        store
            .update(2_000, |_, _| Decision { records: vec![eligible.into(), metadata.into()], outcome: () })
            .unwrap();
        let begin = store.image().offset() + 1;
        store
            .update(2_000, |image, base| Decision { records: start_node(image, &node, base), outcome: () })
            .unwrap();
        add(&mut store, "a", 1);
        store.update(2_000, |image, _| Decision { records: stop_node(image, 1), outcome: () }).unwrap();
        drop(store);
        // A start reads what was there, and the partition has its leader again.
        let (mut store, _) = open(dir.path());
        assert!(!store.image().topic("a").unwrap().partition(0).unwrap().has_leader());
        store
            .update(2_000, |image, base| Decision { records: start_node(image, &node, base), outcome: () })
            .unwrap();
        assert_eq!(store.image().topic("a").unwrap().partition(0).unwrap().leader, 1, "{level}");
        let written = written_versions(&dir.path().join(SEGMENT), begin);
        let of = |kind: u16| {
            written.iter().filter(|(one, _)| *one == kind).map(|(_, version)| *version).max().unwrap()
        };
        assert_eq!([of(0), of(3), of(5)], versions, "{level}");
        assert_eq!(written.iter().any(|(kind, _)| *kind == 27), level >= 15, "{level}");
    }
}

/// Kinds and versions of the records from an offset on.
fn written_versions(path: &Path, begin: i64) -> Vec<(u16, u16)> {
    let mut found = Vec::new();
    read_batches(&RealDisk, path, |batch| {
        if batch.base_offset() >= begin && !batch.is_control() {
            for record in levada_base::batch::records(batch.bytes()).unwrap() {
                let (record, version) = records::decode(record.unwrap().value.unwrap()).unwrap();
                found.push((record.api_key(), version));
            }
        }
        Ok::<(), StoreError>(())
    })
    .unwrap();
    found
}

#[test]
fn leftover_partitions_without_metadata_prevent_new_cluster() {
    let (dir, other) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    drop(open(dir.path()));
    let log = dir.path().join("__cluster_metadata-0/00000000000000000000.log");
    let file = File::options().write(true).open(log).unwrap();
    file.set_len(50).unwrap();
    drop(open(dir.path()));
    // The start after the loss is a new cluster, as long as there is nothing to lose.
    file.set_len(50).unwrap();
    for home in [other.path(), dir.path()] {
        let partition = home.join("t-0");
        fs::create_dir(&partition).unwrap();
        let options = || StoreOptions { other_dirs: vec![other.path().to_owned()], ..options(dir.path()) };
        drop(Store::open(&options(), 1_000).unwrap());
        file.set_len(50).unwrap();
        fs::write(partition.join("00000000000000000000.log"), b"records").unwrap();
        for _ in 0..2 {
            let refused = Store::open(&options(), 1_000).unwrap_err().to_string();
            assert!(refused.contains(&partition.display().to_string()), "{refused}");
        }
        fs::remove_dir_all(&partition).unwrap();
    }
}

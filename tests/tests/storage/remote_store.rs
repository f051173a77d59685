//! Remote stores: directories in both layouts and a server of the S3 protocol, whole and sick. The
//! segments are random bytes.
//!
//! Suite: short; 30 s; needs s3; share tiers

use std::fs::{self, File};
use std::io::Write;
use std::time::{Duration, Instant};

use levada_remote::{
    IndexKind, RemoteError, RemoteErrorKind, SegmentFile, SegmentFiles, Store, StoreOptions, Variables,
};
use levada_tests::sick_store::{ACCESS_KEY, BUCKET, ObjectServer, SECRET_KEY, SickStore, Sickness};
use levada_tiered::{RemoteSegment, RemoteSegmentId, SegmentState, StoreLayout, TopicIdPartition};
use levada_wire::Uuid;
use rand::RngExt;
use tempfile::TempDir;

/// A segment that is sent in three parts, the last one short.
const LARGE: usize = 2 * (8 << 20) + 1000;
/// Time limit for a response.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Time limit of a response of a store that does not recover.
const SHORT_TIMEOUT: Duration = Duration::from_millis(300);

/// A segment and its files.
struct Segment {
    metadata: RemoteSegment,
    log: Vec<u8>,
    offset_index: Vec<u8>,
    time_index: Vec<u8>,
    txn_index: Option<Vec<u8>>,
    producer_snapshot: Vec<u8>,
    epochs: Vec<u8>,
    dir: TempDir,
}

impl Segment {
    fn new(size: usize) -> Self {
        let mut random = rand::rng();
        let mut bytes = |size: usize| {
            let mut bytes = vec![0; size];
            random.fill(&mut bytes[..]);
            bytes
        };
        let log = bytes(size);
        let partition = TopicIdPartition {
            topic_id: Uuid::from_bytes(rand::random()),
            topic: "orders.eu_1-x".to_owned(),
            partition: 7,
        };
        let metadata = RemoteSegment {
            id: RemoteSegmentId { partition, id: Uuid::from_bytes(rand::random()) },
            start_offset: 1234,
            end_offset: 5678,
            max_timestamp_ms: 1_700_000_000_000,
            broker_id: 1,
            event_timestamp_ms: 1_700_000_000_001,
            size: i32::try_from(size).expect("a segment's size"),
            epochs: vec![(0, 1234), (3, 2000)],
            custom_metadata: None,
            state: SegmentState::CopyStarted,
            txn_index_empty: false,
        };
        let dir = tempfile::tempdir().expect("a directory");
        let segment = Self {
            metadata,
            log,
            offset_index: bytes(800),
            time_index: bytes(1200),
            txn_index: Some(bytes(34)),
            producer_snapshot: bytes(90),
            epochs: b"0\n2\n0 1234\n3 2000\n".to_vec(),
            dir,
        };
        let files = [("log", &segment.log), ("index", &segment.offset_index), ("time", &segment.time_index)];
        for (name, content) in files.into_iter().chain(segment.txn_index.as_ref().map(|index| ("txn", index)))
        {
            let mut file = File::create(segment.dir.path().join(name)).expect("a file");
            // A segment's file may be longer than the segment.
            file.write_all(content).and_then(|()| file.write_all(b"reserved")).expect("a write");
        }
        segment
    }

    fn put(&self, store: &Store) -> Result<(), RemoteError> {
        let open = |name: &str| File::open(self.dir.path().join(name)).expect("a file");
        let files = ["log", "index", "time"].map(open);
        let txn = self.txn_index.as_ref().map(|index| (open("txn"), index.len()));
        let part = |file, length: usize| SegmentFile { file, length: length as u64 };
        let files = SegmentFiles {
            log: part(&files[0], self.log.len()),
            offset_index: part(&files[1], self.offset_index.len()),
            time_index: part(&files[2], self.time_index.len()),
            txn_index: txn.as_ref().map(|(file, length)| part(file, *length)),
            producer_snapshot: &self.producer_snapshot,
            epochs: &self.epochs,
        };
        store.put_segment(&self.metadata, &files).map(|custom| assert_eq!(custom, None))
    }

    fn fetch(&self, store: &Store, range: std::ops::Range<u64>) -> Result<Vec<u8>, RemoteError> {
        let mut fetched = Vec::new();
        store.fetch_log(&self.metadata, range, &mut |piece| {
            fetched.extend_from_slice(piece);
            Ok(())
        })?;
        Ok(fetched)
    }

    /// Reads everything, and compares it with the files.
    fn check(&self, store: &Store) {
        let size = self.log.len();
        for range in [0..size, 0..1, size - 1..size, size / 3..size / 2, size..size] {
            let fetched = self.fetch(store, range.start as u64..range.end as u64).expect("a range");
            assert!(fetched == self.log[range.clone()], "bytes {range:?}");
        }
        let indexes = [
            (IndexKind::Offset, Some(&self.offset_index)),
            (IndexKind::Time, Some(&self.time_index)),
            (IndexKind::ProducerSnapshot, Some(&self.producer_snapshot)),
            (IndexKind::LeaderEpochs, Some(&self.epochs)),
            (IndexKind::Transaction, self.txn_index.as_ref()),
        ];
        for (kind, expected) in indexes {
            let found = store.fetch_index(&self.metadata, kind).expect("an index");
            assert!(found.as_ref() == expected, "{kind:?}");
        }
        let outside = self.fetch(store, 0..size as u64 + 1).expect_err("bytes that do not exist");
        assert_eq!(outside.kind, RemoteErrorKind::Damaged);
    }
}

fn options(location: &str, layout: StoreLayout) -> StoreOptions {
    StoreOptions {
        location: location.parse().expect("a location"),
        layout,
        endpoint: None,
        region: None,
        kms_key: None,
        request_timeout: TIMEOUT,
    }
}

/// A store in the bucket of a server, below a prefix.
fn bucket(endpoint: &str, secret: &str) -> Store {
    bucket_with(endpoint, secret, TIMEOUT)
}

fn bucket_with(endpoint: &str, secret: &str, request_timeout: Duration) -> Store {
    let options = StoreOptions {
        request_timeout,
        endpoint: Some(endpoint.to_owned()),
        region: Some("eu-west-1".to_owned()),
        ..options(&format!("s3://{BUCKET}/brokers/eu"), StoreLayout::Aiven)
    };
    let variables = Variables::new([("AWS_ACCESS_KEY_ID", ACCESS_KEY), ("AWS_SECRET_ACCESS_KEY", secret)]);
    Store::open_with(&options, &variables).expect("a store")
}

fn directory(dir: &TempDir, layout: StoreLayout) -> Store {
    Store::open(&options(&format!("file://{}", dir.path().display()), layout)).expect("a store")
}

fn keys(store: &Store) -> Vec<String> {
    let mut keys = Vec::new();
    store.list(&mut |entry| keys.push(entry.key)).expect("a list");
    keys.sort();
    keys
}

/// Copies, reads and deletes segments with and without a transaction index, and one of several
/// parts.
fn round_trip(store: &Store, objects: usize) {
    let mut segments = [Segment::new(100_000), Segment::new(1), Segment::new(LARGE)];
    segments[1].txn_index = None;
    for segment in &segments {
        segment.put(store).expect("a copy");
        segment.put(store).expect("a repeated copy");
        segment.check(store);
    }
    // Only the local layout has an object for the transaction index.
    let without = usize::from(objects > 3);
    assert_eq!(keys(store).len(), segments.len() * objects - without);
    let mut named: Vec<String> =
        segments.iter().flat_map(|segment| store.keys(&segment.metadata).expect("keys")).collect();
    named.sort();
    assert!(keys(store).iter().all(|key| named.contains(key)), "{:?} of {named:?}", keys(store));
    for segment in &segments {
        store.delete_segment(&segment.metadata).expect("a deletion");
        store.delete_segment(&segment.metadata).expect("a repeated deletion");
        let gone = segment.fetch(store, 0..1).expect_err("a deleted segment");
        assert_eq!(gone.kind, RemoteErrorKind::NotFound, "{gone}");
        let gone = store.fetch_index(&segment.metadata, IndexKind::Offset).expect_err("a deleted segment");
        assert_eq!(gone.kind, RemoteErrorKind::NotFound, "{gone}");
    }
    assert_eq!(keys(store), [""; 0]);
}

#[test]
fn directory_store_round_trips_segments() {
    for (layout, objects) in [(StoreLayout::Local, 6), (StoreLayout::Aiven, 3)] {
        let dir = tempfile::tempdir().expect("a directory");
        let store = directory(&dir, layout);
        assert_eq!(keys(&store), [""; 0], "nothing was written");
        round_trip(&store, objects);
        let uploads = fs::read_dir(dir.path().join(".levada-uploads")).expect("the uploads");
        assert_eq!(uploads.count(), 0);
    }
}

#[test]
fn files_are_named_as_by_kafka() {
    let dir = tempfile::tempdir().expect("a directory");
    let segment = Segment::new(10);
    segment.put(&directory(&dir, StoreLayout::Local)).expect("a copy");
    let partition = &segment.metadata.id.partition;
    let text = |id: Uuid| {
        use base64::Engine;
        base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(id.to_bytes())
    };
    let folder = dir.path().join("kafka-tiered-storage").join(format!(
        "{}-{}-{}",
        partition.topic,
        partition.partition,
        text(partition.topic_id)
    ));
    let stem = format!("00000000000000001234-{}", text(segment.metadata.id.id));
    let files = [
        ("log", &segment.log),
        ("index", &segment.offset_index),
        ("timeindex", &segment.time_index),
        ("txnindex", segment.txn_index.as_ref().expect("an index")),
        ("snapshot", &segment.producer_snapshot),
        ("leader_epoch_checkpoint", &segment.epochs),
    ];
    for (suffix, expected) in files {
        let found = fs::read(folder.join(format!("{stem}.{suffix}"))).expect(suffix);
        assert!(found == *expected, "{suffix}");
    }
    assert_eq!(fs::read_dir(folder).expect("the files").count(), files.len());
}

#[test]
fn bucket_store_round_trips_segments() {
    let server = ObjectServer::start();
    let store = bucket(&format!("http://{}", server.address()), SECRET_KEY);
    round_trip(&store, 3);
    let segment = Segment::new(50);
    segment.put(&store).expect("a copy");
    let keys = keys(&store);
    assert!(keys.iter().all(|key| key.starts_with("brokers/eu/orders.eu_1-x-")), "{keys:?}");
    let log = keys.iter().find(|key| key.ends_with(".log")).expect("the records");
    assert!(fs::read(server.file(log)).expect("the object") == segment.log, "byte for byte");
}

#[test]
fn wrong_credentials_are_refused_and_not_shown() {
    let server = ObjectServer::start();
    let store = bucket(&format!("http://{}", server.address()), "another-secret");
    let refused = Segment::new(10).put(&store).expect_err("wrong credentials");
    assert_eq!(refused.kind, RemoteErrorKind::Refused, "{refused}");
    let text = format!("{refused} {refused:?}");
    assert!(!text.contains(ACCESS_KEY) && !text.contains("another-secret"), "{text}");
    assert!(text.contains("check the credentials") && text.contains("s3://logs/brokers/eu/orders"), "{text}");
}

#[test]
fn an_absent_server_is_unavailable() {
    let store = bucket(&format!("http://{}", levada_tests::node::free_port()), SECRET_KEY);
    let absent = Segment::new(10).fetch(&store, 0..1).expect_err("no server");
    assert_eq!(absent.kind, RemoteErrorKind::Unavailable, "{absent}");
}

#[test]
fn transient_store_failures_are_retried() {
    let server = ObjectServer::start();
    let sick = SickStore::before(server.address());
    let store = bucket(&sick.url(), SECRET_KEY);
    let segment = Segment::new(300_000);
    sick.fail("PUT", ".log", Sickness::Status(503), 2);
    sick.fail("PUT", ".indexes", Sickness::LostAnswer, 1);
    sick.fail("PUT", ".rsm-manifest", Sickness::Silence, 1);
    segment.put(&store).expect("a copy");
    assert_eq!(sick.left(), 0, "every failure happened");
    sick.fail("GET", ".rsm-manifest", Sickness::Status(500), 1);
    sick.fail("GET", ".log", Sickness::Silence, 1);
    assert!(segment.fetch(&store, 0..300_000).expect("a range") == segment.log);
    sick.fail("GET", ".log", Sickness::Cut(1000), 2);
    assert!(segment.fetch(&store, 5..300_000).expect("a range") == segment.log[5..]);
    sick.fail("GET", ".log", Sickness::Stall(1000), 1);
    assert!(segment.fetch(&store, 0..299_999).expect("a range") == segment.log[..299_999]);
    assert_eq!(sick.left(), 0, "every failure happened");
    let large = Segment::new(LARGE);
    sick.fail("PUT", "partNumber=2", Sickness::Status(500), 1);
    sick.fail("PUT", "partNumber=3", Sickness::LostAnswer, 1);
    sick.fail("POST", "uploadId=", Sickness::LostAnswer, 1);
    large.put(&store).expect("a copy in parts");
    assert_eq!(sick.left(), 0, "every failure happened");
    large.check(&store);
    sick.fail("POST", "?delete", Sickness::LostAnswer, 1);
    // The broker repeats a deletion at its next round.
    let lost = store.delete_segment(&segment.metadata).expect_err("a lost answer");
    assert_eq!((lost.kind, sick.left()), (RemoteErrorKind::Unavailable, 0), "{lost}");
    store.delete_segment(&segment.metadata).expect("a repeated deletion");
    store.delete_segment(&large.metadata).expect("a deletion");
    assert_eq!(keys(&store), [""; 0]);
}

#[test]
fn lasting_store_failures_end_in_time() {
    let server = ObjectServer::start();
    let sick = SickStore::before(server.address());
    let segment = Segment::new(300_000);
    segment.put(&bucket(&sick.url(), SECRET_KEY)).expect("a copy");
    let store = bucket_with(&sick.url(), SECRET_KEY, SHORT_TIMEOUT);
    segment.fetch(&store, 0..1).expect("the manifest is known now");
    for sickness in [Sickness::Status(503), Sickness::Silence, Sickness::Stall(10), Sickness::Cut(10)] {
        sick.fail("GET", ".log", sickness, usize::MAX / 8);
        let start = Instant::now();
        let failed = segment.fetch(&store, 0..300_000).expect_err("a sick store");
        assert_eq!(failed.kind, RemoteErrorKind::Unavailable, "{sickness:?}: {failed}");
        assert!(failed.is_retriable() && start.elapsed() < SHORT_TIMEOUT * 40, "{:?}", start.elapsed());
        sick.heal();
    }
    assert!(segment.fetch(&store, 0..300_000).expect("a healed store") == segment.log);
}

#[test]
fn a_failed_copy_leaves_no_readable_segment() {
    let server = ObjectServer::start();
    let sick = SickStore::before(server.address());
    let store = bucket(&sick.url(), SECRET_KEY);
    let large = Segment::new(LARGE);
    sick.fail("PUT", "partNumber=3", Sickness::Status(500), usize::MAX / 8);
    let failed = large.put(&store).expect_err("a part is missing");
    assert_eq!(failed.kind, RemoteErrorKind::Unavailable, "{failed}");
    sick.heal();
    assert_eq!(keys(&store), [""; 0], "parts are no object");
    sick.fail("PUT", ".rsm-manifest", Sickness::Status(500), usize::MAX / 8);
    large.put(&store).expect_err("the manifest is missing");
    sick.heal();
    let hidden = large.fetch(&store, 0..1).expect_err("a segment without its manifest");
    assert_eq!(hidden.kind, RemoteErrorKind::NotFound, "{hidden}");
    store.delete_segment(&large.metadata).expect("a deletion");
    assert_eq!(keys(&store), [""; 0]);
}

#[test]
fn damaged_objects_are_named() {
    let dir = tempfile::tempdir().expect("a directory");
    let damaged = |layout, suffix: &str, content: &[u8], expected: &str| {
        let segment = Segment::new(5000);
        segment.put(&directory(&dir, layout)).expect("a copy");
        // Another broker, which knows no manifest.
        let store = directory(&dir, layout);
        let mut path = None;
        store
            .list(&mut |entry| path = Some(entry.key).filter(|key| key.ends_with(suffix)).or(path.take()))
            .expect("a list");
        let key = path.expect("the object");
        let root = if layout == StoreLayout::Local { "kafka-tiered-storage" } else { "" };
        fs::write(dir.path().join(root).join(&key), content).expect("a write");
        let read = || {
            segment.fetch(&store, 0..10)?;
            store.fetch_index(&segment.metadata, IndexKind::Offset).map(drop)
        };
        let error = read().expect_err("damage");
        assert_eq!(error.kind, RemoteErrorKind::Damaged, "{error}");
        let text = error.to_string();
        assert!(text.contains(&key) && text.contains(expected), "{text}");
        store.delete_segment(&segment.metadata).expect("a deletion");
    };
    damaged(StoreLayout::Local, ".log", b"short", "has 5 bytes and should have 5000");
    damaged(StoreLayout::Aiven, ".log", &[0; 5001], "has 5001 bytes and should have 5000");
    damaged(StoreLayout::Aiven, ".indexes", b"short", "has 5 bytes and should have");
    damaged(StoreLayout::Aiven, ".rsm-manifest", b"{\"version\":", "EOF");
    let manifest = |file: u64, index: u64| {
        format!(
            "{{\"version\":\"1\",\"chunkIndex\":{{\"type\":\"fixed\",\"originalChunkSize\":100,\
            \"originalFileSize\":{file},\"transformedChunkSize\":100,\"finalTransformedChunkSize\":100}},\
            \"segmentIndexes\":{{\"offset\":{{\"position\":0,\"size\":{index}}},\"timestamp\":{{\"position\":1,\
            \"size\":1}},\"producerSnapshot\":{{\"position\":2,\"size\":1}},\"leaderEpoch\":{{\"position\":3,\
            \"size\":1}},\"transaction\":null}},\"compression\":false}}"
        )
    };
    let terabytes = manifest(5 << 40, 1);
    damaged(StoreLayout::Aiven, ".rsm-manifest", terabytes.as_bytes(), "invalid value");
    let gigabytes = manifest(5000, 4_000_000_000);
    damaged(StoreLayout::Aiven, ".rsm-manifest", manifest(4999, 1).as_bytes(), "declares 4999 bytes");
    // The objects of all indexes is what the manifest contradicts.
    let segment = Segment::new(5000);
    let store = directory(&dir, StoreLayout::Aiven);
    segment.put(&store).expect("a copy");
    let keys = store.keys(&segment.metadata).expect("keys");
    let key = keys.iter().find(|key| key.ends_with(".rsm-manifest")).expect("the manifest");
    fs::write(dir.path().join(key), gigabytes).expect("a write");
    let error = store.fetch_index(&segment.metadata, IndexKind::Offset).expect_err("damage");
    assert_eq!(error.kind, RemoteErrorKind::Damaged, "{error}");
    assert!(error.to_string().contains("index of 4000000000 bytes"), "{error}");
}

/// The manifest of a copied segment, with a change.
fn with_manifest(dir: &TempDir, segment: &Segment, (from, to): (&str, &str)) -> Store {
    segment.put(&directory(dir, StoreLayout::Aiven)).expect("a copy");
    let store = directory(dir, StoreLayout::Aiven);
    let keys = store.keys(&segment.metadata).expect("keys");
    let key = keys.iter().find(|key| key.ends_with(".rsm-manifest")).expect("the manifest");
    let path = dir.path().join(key);
    let manifest = fs::read_to_string(&path).expect("the manifest");
    assert!(manifest.contains(from), "{manifest}");
    fs::write(&path, manifest.replace(from, to)).expect("a write");
    store
}

#[test]
fn encrypted_segments_are_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let segment = Segment::new(5000);
    let encrypted = "\"compression\":false,\"encryption\":{\"dataKey\":\"k:AA==\",\"aad\":\"AA==\"}";
    let store = with_manifest(&dir, &segment, ("\"compression\":false", encrypted));
    let error = segment.fetch(&store, 0..1).expect_err("an encrypted segment");
    assert_eq!(error.kind, RemoteErrorKind::Unsupported, "{error}");
    assert!(error.to_string().contains("encrypted by Aiven's plug-in"), "{error}");
}

#[test]
fn compressed_segments_are_read() {
    let dir = tempfile::tempdir().expect("a directory");
    let segment = Segment::new(250);
    let parts: Vec<Vec<u8>> =
        segment.log.chunks(100).map(|part| zstd::bulk::compress(part, 3).expect("a frame")).collect();
    // Count, base, bytes of a difference, differences, last length.
    let length = |at: usize| u32::try_from(parts[at].len()).expect("a short part").to_be_bytes();
    let list = [&[0, 0, 0, 3, 0, 0, 0, 0, 4][..], &length(0), &length(1), &length(2)].concat();
    let list = zstd::bulk::compress(&list, 3).expect("a frame");
    let list = {
        use base64::Engine;
        base64::engine::general_purpose::STANDARD.encode(list)
    };
    let plain = "\"type\":\"fixed\",\"originalChunkSize\":4194304,\"originalFileSize\":250,\
        \"transformedChunkSize\":4194304,\"finalTransformedChunkSize\":250}";
    let variable = format!(
        "\"type\":\"variable\",\"originalChunkSize\":100,\"originalFileSize\":250,\"transformedChunks\":\"{list}\"}}"
    );
    with_manifest(&dir, &segment, (plain, &variable));
    let store = directory(&dir, StoreLayout::Aiven);
    let keys = store.keys(&segment.metadata).expect("keys");
    let path =
        |suffix: &str| dir.path().join(keys.iter().find(|key| key.ends_with(suffix)).expect("an object"));
    let manifest = fs::read_to_string(path(".rsm-manifest")).expect("the manifest");
    let manifest = manifest.replace("\"compression\":false", "\"compression\":true");
    fs::write(path(".rsm-manifest"), manifest).expect("a write");
    fs::write(path(".log"), parts.concat()).expect("a write");
    segment.check(&store);
    let mut damaged = parts.concat();
    damaged[0] ^= 1;
    fs::write(path(".log"), damaged).expect("a write");
    let error = segment.fetch(&store, 0..1).expect_err("a damaged chunk");
    assert_eq!(error.kind, RemoteErrorKind::Damaged, "{error}");
}

//! Remote reads of a log whose segments are in a directory, with a store that can fail.

use std::collections::BTreeMap;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use levada_base::batch::{BatchView, Builder, EndMarker, Marker};
use levada_log::{Append, LogConfig, OpenOptions, Partition, ReplicaSource, Writer};
use levada_remote::{SegmentFile, SegmentFiles};
use levada_tiered::location::StoreOptions;
use levada_tiered::{RemoteSegmentId, SegmentState, StoreLayout, StoreLocation, TopicIdPartition};

use super::*;

const KEY: TieredKey = (Uuid::from_bytes([7; 16]), 0);
const NOW_MS: i64 = 1_000_000;

/// A log, and copies of its closed segments.
struct Rig {
    dir: tempfile::TempDir,
    log: Arc<Partition>,
    segments: Arc<Copies>,
    reads: Arc<RemoteReads>,
    _writer: Writer,
}

/// The copies of a log.
struct Copies {
    store: Arc<Store>,
    by_start: BTreeMap<i64, Arc<RemoteSegment>>,
    is_gone: AtomicBool,
    is_limited: AtomicBool,
}

impl RemoteSegments for Copies {
    fn segment_for(
        &self,
        _: TieredKey,
        epoch: i32,
        offset: i64,
    ) -> Result<Option<Arc<RemoteSegment>>, RemoteFault> {
        if epoch != 0 {
            return Ok(None);
        }
        let found = self.by_start.range(..=offset).next_back().map(|(_, segment)| segment.clone());
        Ok(found.filter(|segment| segment.end_offset >= offset))
    }

    fn next_with_aborted(
        &self,
        key: TieredKey,
        epoch: i32,
        offset: i64,
    ) -> Result<Option<Arc<RemoteSegment>>, RemoteFault> {
        let mut found = self.segment_for(key, epoch, offset)?;
        while let Some(segment) = found.take_if(|segment| segment.txn_index_empty) {
            found = self.segment_for(key, epoch, segment.end_offset + 1)?;
        }
        Ok(found)
    }

    fn of_epoch(&self, _: TieredKey, _: i32) -> Result<Vec<Arc<RemoteSegment>>, RemoteFault> {
        Ok(self.by_start.values().cloned().collect())
    }

    fn bytes_per_second(&self) -> i64 {
        if self.is_limited.load(Ordering::Relaxed) { 1 } else { i64::MAX }
    }

    fn store(&self) -> Result<Arc<Store>, RemoteError> {
        if self.is_gone.load(Ordering::Relaxed) {
            return Err(RemoteError::new(levada_remote::RemoteErrorKind::Unavailable, "cannot read", "gone"));
        }
        Ok(self.store.clone())
    }
}

impl Rig {
    /// A log of segments of about ten megabytes, with batches of 300 kB and more, the last of which
    /// is open; every third transaction is aborted.
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let config = LogConfig { segment_bytes: 10_000_000, ..LogConfig::default() };
        let options = OpenOptions { config, leader_epoch: 0, ..OpenOptions::new(dir.path().join("t-0")) };
        let mut writer = Writer::open(options, NOW_MS).unwrap().0;
        for number in 0..120_i32 {
            let mut builder = Builder::new().producer(5, 0, number).transactional();
            let time = NOW_MS + i64::from(number) * 1000;
            builder.push(time, None, Some(&vec![number as u8; 300_000 + 1000 * number as usize]));
            append(&mut writer, Append::client(builder.build().unwrap()));
            if number % 3 == 2 {
                let marker = if number % 9 == 2 { Marker::Abort } else { Marker::Commit };
                let end = EndMarker {
                    marker,
                    producer_id: 5,
                    producer_epoch: 0,
                    coordinator_epoch: 0,
                    timestamp_ms: time,
                };
                append(&mut writer, Append::coordinator(end.build().unwrap()));
            }
        }
        let log = writer.partition().clone();
        let segments = Arc::new(Copies::of(&log, dir.path().join("store")));
        let reads = Self::open(dir.path(), &segments);
        Self { dir, log, segments, reads, _writer: writer }
    }

    fn open(dir: &Path, segments: &Arc<Copies>) -> Arc<RemoteReads> {
        let limits = FetchLimits { threads: 3, pending_max: 10 };
        Arc::new(RemoteReads::open(dir, 1 << 30, segments.clone(), limits).unwrap())
    }

    fn restart(&mut self) {
        self.reads = Self::open(self.dir.path(), &self.segments);
    }

    fn read(&self, offset: i64, max_bytes: u32) -> RemoteRead {
        let log = self.log.clone();
        RemoteRead {
            partition: KEY,
            log,
            offset,
            max_bytes,
            min_one: true,
            lists_aborted: false,
            batches_max: 0,
        }
    }

    /// The first offset that no copy has.
    fn end(&self) -> i64 {
        self.segments.by_start.values().last().unwrap().end_offset + 1
    }

    /// Everything from the start on, in requests of this size.
    async fn replay(&self, max_bytes: u32) -> Vec<u8> {
        let (mut offset, mut all) = (0, Vec::new());
        while offset < self.end() {
            let slice = self.one(self.read(offset, max_bytes)).await.unwrap();
            let bytes = bytes(&slice);
            offset = next_offset(&bytes);
            all.extend(bytes);
        }
        all
    }

    async fn one(&self, read: RemoteRead) -> Result<RemoteSlice, RemoteFault> {
        let until = Instant::now() + Duration::from_secs(60);
        self.reads.read_all(vec![read], until).await.pop().unwrap().unwrap()
    }

    /// The local bytes up to an offset.
    fn local(&self, upto: i64) -> Vec<u8> {
        let (mut offset, mut all) = (0, Vec::new());
        while offset < upto {
            let bytes = self.log.read_batches(offset, u32::MAX).unwrap();
            offset = next_offset(&bytes);
            all.extend_from_slice(&bytes);
        }
        all
    }
}

impl Copies {
    fn of(log: &Arc<Partition>, dir: PathBuf) -> Self {
        std::fs::create_dir(&dir).unwrap();
        let store = Store::open(&StoreOptions {
            location: StoreLocation::Directory(dir),
            layout: StoreLayout::Local,
            endpoint: None,
            region: None,
            kms_key: None,
            request_timeout: Duration::from_secs(5),
        });
        let (store, mut by_start) = (store.unwrap(), BTreeMap::new());
        for closed in log.closed_segments(0, log.log_end()) {
            let segment = RemoteSegment {
                id: RemoteSegmentId {
                    partition: TopicIdPartition { topic_id: KEY.0, topic: "t".to_owned(), partition: KEY.1 },
                    id: Uuid::from_bytes((100 + closed.base() as u128).to_be_bytes()),
                },
                start_offset: closed.base(),
                end_offset: closed.next_base() - 1,
                max_timestamp_ms: closed.newest_ms().unwrap(),
                broker_id: 1,
                event_timestamp_ms: NOW_MS,
                size: closed.size_bytes() as i32,
                epochs: closed.epochs(),
                custom_metadata: None,
                state: SegmentState::CopyFinished,
                txn_index_empty: closed.is_txn_index_empty().unwrap(),
            };
            let files = closed.files(NOW_MS).unwrap();
            let put = SegmentFiles {
                log: SegmentFile { file: &files.log, length: closed.size_bytes() },
                offset_index: SegmentFile { file: &files.offset_index.0, length: files.offset_index.1 },
                time_index: SegmentFile { file: &files.time_index.0, length: files.time_index.1 },
                txn_index: files
                    .txn_index
                    .as_ref()
                    .map(|(file, length)| SegmentFile { file, length: *length }),
                producer_snapshot: &files.producer_snapshot,
                epochs: &files.leader_epochs,
            };
            store.put_segment(&segment, &put).unwrap();
            by_start.insert(segment.start_offset, Arc::new(segment));
        }
        assert!(by_start.len() > 2);
        Self {
            store: Arc::new(store),
            by_start,
            is_gone: AtomicBool::default(),
            is_limited: AtomicBool::default(),
        }
    }
}

fn append(writer: &mut Writer, append: Append) {
    writer.append(&mut [append], NOW_MS).pop().unwrap().unwrap();
}

fn bytes(slice: &RemoteSlice) -> Vec<u8> {
    let mut bytes = Vec::new();
    for extent in &slice.extents {
        let start = bytes.len();
        bytes.resize(start + extent.len as usize, 0);
        extent.file.read_exact_at(&mut bytes[start..], extent.offset).unwrap();
    }
    bytes
}

/// The offset after whole batches.
fn next_offset(mut bytes: &[u8]) -> i64 {
    let mut next = -1;
    while !bytes.is_empty() {
        let batch = BatchView::parse(bytes).unwrap();
        next = batch.last_offset() + 1;
        bytes = &bytes[batch.size_bytes()..];
    }
    next
}

/// The batches before an offset, at which one of them begins.
fn before(offset: i64, mut batches: Vec<u8>) -> Vec<u8> {
    let mut end = 0;
    while let Ok(batch) = BatchView::parse(&batches[end..]) {
        if batch.base_offset() >= offset {
            assert_eq!(batch.base_offset(), offset);
            break;
        }
        end += batch.size_bytes();
    }
    batches.truncate(end);
    batches
}

#[tokio::test]
async fn remote_reads_return_exact_records() {
    let mut rig = Rig::new();
    let local = rig.local(rig.end());
    assert!(rig.replay(1 << 20).await == local);
    let (counts, parts) = (rig.reads.counts(), rig.reads.counts().cache.parts);
    assert_eq!((counts.errors, counts.expired, counts.bytes), (0, 0, local.len() as u64));
    for max_bytes in [1, 500_000, 3 << 20, 50 << 20] {
        assert!(rig.replay(max_bytes).await == local, "{max_bytes}");
    }
    assert_eq!(rig.reads.counts().cache.misses, counts.cache.misses, "one fetch for each part");
    rig.segments.is_gone.store(true, Ordering::Relaxed);
    rig.restart();
    assert!(rig.replay(1 << 20).await == local);
    assert_eq!((rig.reads.counts().cache.misses, rig.reads.counts().cache.parts), (0, parts));
}

#[tokio::test]
async fn remote_reads_obey_the_local_limits() {
    let rig = Rig::new();
    // Records of 300 kB; the offset before is the marker of a transaction, which is small.
    let cut = rig.one(RemoteRead { min_one: false, ..rig.read(4, 1000) }).await.unwrap();
    assert!(cut.extents.is_empty());
    let marker = rig.one(RemoteRead { min_one: false, ..rig.read(3, 1000) }).await.unwrap();
    assert_eq!(next_offset(&bytes(&marker)), 4);
    for (offset, max_bytes) in [(0, 1), (5, 700_000), (17, 2_000_000), (40, 4_000_000)] {
        let remote = bytes(&rig.one(rig.read(offset, max_bytes)).await.unwrap());
        let local = rig.log.read_batches(offset, max_bytes).unwrap();
        assert!(!remote.is_empty() && remote.len() <= local.len(), "{offset}");
        assert!(local.starts_with(&remote), "{offset}");
    }
}

#[tokio::test]
async fn gap_after_last_copy_leads_to_local_records() {
    let mut rig = Rig::new();
    // The last copy claims three offsets more than it has: its log had a gap there.
    let copy = rig.segments.by_start.first_key_value().unwrap().1.clone();
    let end = copy.end_offset;
    let claims = RemoteSegment { end_offset: end + 3, ..RemoteSegment::clone(&copy) };
    rig.segments = Arc::new(Copies {
        store: rig.segments.store.clone(),
        by_start: BTreeMap::from([(copy.start_offset, Arc::new(claims))]),
        is_gone: AtomicBool::default(),
        is_limited: AtomicBool::default(),
    });
    rig.restart();
    for lists_aborted in [false, true] {
        let read = RemoteRead { lists_aborted, batches_max: 100, ..rig.read(end + 2, 1 << 20) };
        let slice = rig.one(read).await.unwrap();
        let found = bytes(&slice);
        assert_eq!(BatchView::parse(&found).unwrap().base_offset(), end + 4);
        assert!(rig.log.read_batches(end + 4, 1 << 20).unwrap().starts_with(&found));
        assert_eq!(slice.len(), slice.extents_of(&slice.batches).iter().map(|one| one.len).sum::<u64>());
    }
}

#[tokio::test]
async fn reads_end_where_log_differs_from_copy() {
    let mut rig = Rig::new();
    // A leader that was elected uncleanly has the beginning of the second copy, and aborts no
    // transaction there.
    let second = rig.segments.by_start.values().nth(1).unwrap().clone();
    let split = second.start_offset + 7;
    let options = OpenOptions { leader_epoch: 0, ..OpenOptions::new(rig.dir.path().join("other-0")) };
    let mut writer = Writer::open(options, NOW_MS).unwrap().0;
    let shared = before(split, rig.local(split));
    writer.resign();
    let leader = ReplicaSource { leader_epoch: 0, log_start: 0 };
    writer.append_replica(&shared, leader, NOW_MS).unwrap();
    writer.lead(1).unwrap();
    for _ in 0..200 {
        let mut builder = Builder::new();
        builder.push(NOW_MS, None, Some(b"another history"));
        append(&mut writer, Append::client(builder.build().unwrap()));
    }
    rig.log = writer.partition().clone();
    let expected = &shared[before(second.start_offset, shared.clone()).len()..];
    for max_bytes in [1, 1 << 20, 50 << 20] {
        let (mut offset, mut all) = (second.start_offset, Vec::new());
        while offset < split {
            let read = RemoteRead { lists_aborted: true, ..rig.read(offset, max_bytes) };
            let slice = rig.one(read).await.unwrap();
            let bytes = bytes(&slice);
            offset = next_offset(&bytes);
            all.extend(bytes);
            assert!(slice.aborted.iter().all(|one| one.first_offset < split), "{:?}", slice.aborted);
        }
        assert_eq!(offset, split, "{max_bytes}");
        assert!(all == expected, "{max_bytes}");
    }
}

#[tokio::test]
async fn remote_reads_return_aborted_transactions() {
    let rig = Rig::new();
    for offset in 0..rig.end() {
        let read = RemoteRead { lists_aborted: true, ..rig.read(offset, 1_500_000) };
        let slice = rig.one(read).await.unwrap();
        let bytes = bytes(&slice);
        let (first, next) = (BatchView::parse(&bytes).unwrap().base_offset(), next_offset(&bytes));
        let expected = rig.log.aborted(first, next).unwrap();
        // The index may name the transaction of the next batch as well.
        let extra = slice.aborted.iter().filter(|one| !expected.contains(one));
        assert!(extra.into_iter().all(|one| one.first_offset >= next), "{offset}: {:?}", slice.aborted);
        assert!(expected.iter().all(|one| slice.aborted.contains(one)), "{offset}: {:?}", slice.aborted);
    }
}

#[tokio::test]
async fn remote_timestamp_lookup_matches_the_log() {
    let rig = Rig::new();
    let until = || Instant::now() + Duration::from_secs(60);
    let log = rig.log.clone();
    // A log whose local part begins at its end: the rig's has all segments.
    for timestamp in (NOW_MS - 500..NOW_MS + 60_000).step_by(777) {
        let held = rig.log.times().first_at(timestamp).unwrap().unwrap();
        let segment = rig.segments.segment_for(KEY, 0, held.offset).unwrap().unwrap();
        let search = TimeSearch { partition: KEY, log: log.clone(), timestamp };
        let found = rig.reads.by_time(search.clone(), until()).await.unwrap();
        // Its first local segment is the first of the log.
        assert_eq!(found, None);
        let found = loop {
            match search.search(&rig.reads, segment.clone(), 0) {
                Ok(found) => break found,
                Err(Stop::Lacks(part)) => {
                    let sleeper = Arc::new(Notify::new());
                    let ticket = rig.reads.fetches.request(part, &sleeper);
                    sleeper.notified().await;
                    ticket.result().unwrap().unwrap();
                }
                Err(Stop::Failed(fault)) => panic!("{fault}"),
            }
        };
        assert_eq!(found, Some(held), "{timestamp}");
    }
}

#[tokio::test]
async fn lost_store_fails_only_uncached_reads() {
    let rig = Rig::new();
    rig.one(rig.read(0, 1000)).await.unwrap();
    rig.segments.is_gone.store(true, Ordering::Relaxed);
    let (until, last) = (Instant::now() + Duration::from_secs(60), rig.end() - 1);
    let mut results = rig.reads.read_all(vec![rig.read(0, 1000), rig.read(last, 1000)], until).await;
    assert!(matches!(results.pop(), Some(Some(Err(RemoteFault::Store(_))))));
    assert!(matches!(results.pop(), Some(Some(Ok(_)))));
    let beyond = rig.one(rig.read(rig.end(), 1000)).await;
    assert!(matches!(beyond, Err(RemoteFault::OutOfRange { offset, .. }) if offset == rig.end()));
    assert_eq!(rig.reads.counts().errors, 1);
    rig.segments.is_gone.store(false, Ordering::Relaxed);
    rig.one(rig.read(last, 1000)).await.unwrap();
}

#[tokio::test]
async fn read_without_a_result_in_time_expires() {
    let rig = Rig::new();
    let results = rig.reads.read_all(vec![rig.read(0, 1000)], Instant::now()).await;
    assert!(matches!(results[..], [None]));
    assert_eq!(rig.reads.counts().expired, 1);
    rig.reads.stop();
    let stopped = rig.one(rig.read(0, 1000)).await;
    assert!(matches!(stopped, Err(RemoteFault::Stopping) | Ok(_)));
}

#[tokio::test]
async fn fetch_waits_for_its_rate_until_it_rises() {
    let rig = Rig::new();
    rig.segments.is_limited.store(true, Ordering::Relaxed);
    rig.one(rig.read(0, 1000)).await.unwrap();
    let soon = Instant::now() + Duration::from_millis(300);
    let last = || rig.read(rig.end() - 1, 1000);
    let results = rig.reads.read_all(vec![last()], soon).await;
    assert!(matches!(results[..], [None]), "the first part has used the rate for weeks");
    rig.segments.is_limited.store(false, Ordering::Relaxed);
    rig.one(last()).await.unwrap();
    rig.segments.is_limited.store(true, Ordering::Relaxed);
    let (reads, several) = (rig.reads.clone(), [20, 40, 60, 80].map(|offset| rig.read(offset, 1000)));
    let until = Instant::now() + Duration::from_secs(60);
    let waiting = tokio::spawn(async move { reads.read_all(several.into(), until).await });
    rig.reads.stop();
    let stopped = waiting.await.unwrap();
    let is_stopped = |result: &Option<_>| matches!(result, Some(Err(RemoteFault::Stopping)));
    assert!(stopped.iter().all(Option::is_some) && stopped.iter().any(is_stopped), "the end ends the waits");
}

#[tokio::test]
async fn deleted_segment_leaves_the_cache() {
    let rig = Rig::new();
    rig.one(rig.read(0, 1000)).await.unwrap();
    let first = rig.segments.by_start[&0].clone();
    let segment = first.id.id.to_bytes();
    let parts = [levada_chunks::Part::Offsets, levada_chunks::Part::Records(0)];
    let keys = parts.map(|part| levada_chunks::ChunkKey { segment, part });
    assert!(keys.iter().all(|key| rig.reads.cache.has(*key)));
    rig.reads.forget(&first);
    assert!(!keys.iter().any(|key| rig.reads.cache.has(*key)));
}

#[tokio::test]
async fn damaged_segment_is_an_error() {
    let rig = Rig::new();
    let first = rig.segments.by_start[&0].clone();
    let objects = rig.dir.path().join("store/kafka-tiered-storage");
    let dir = std::fs::read_dir(objects).unwrap().next().unwrap().unwrap().path();
    let name = |one: &std::fs::DirEntry| one.file_name().into_string().unwrap();
    let is_first = |one: &std::fs::DirEntry| name(one).starts_with("0000") && name(one).ends_with(".log");
    let mut files: Vec<_> = std::fs::read_dir(dir).unwrap().map(Result::unwrap).filter(is_first).collect();
    files.sort_by_key(name);
    let file = std::fs::OpenOptions::new().write(true).open(files[0].path()).unwrap();
    file.write_all_at(&[0xff; 61], 0).unwrap();
    let damaged = rig.one(rig.read(first.start_offset, 1000)).await;
    assert!(matches!(damaged, Err(RemoteFault::Damaged { .. })));
    file.set_len(1000).unwrap();
    rig.reads.forget(&first);
    let short = rig.one(rig.read(first.start_offset, 1000)).await;
    assert!(matches!(short, Err(RemoteFault::Store(_))), "{short:?}");
}

//! Lives one compacted log's life beside the list's.

use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use levada_base::batch::{BatchView, Builder, EndMarker, Marker};
use levada_base::compress::Compression;
use levada_log::compact::{CleanError, Cleaning, DirtySection, Job};
use levada_log::{Append, LogConfig, LogError, OpenOptions, Partition, Writer};

use crate::list::{Item, List, Round};
use crate::no_sync::NoSyncDisk;
use crate::steps::{Batch, Step, Writing};

const NOW_MS: i64 = 1_000;

/// A log and what it must be.
pub(crate) struct Life {
    writer: Option<Writer>,
    disk: Arc<NoSyncDisk>,
    pub(crate) dir: tempfile::TempDir,
    config: LogConfig,
    pub(crate) list: List,
    checkpoint: Option<i64>,
    pub(crate) now_ms: i64,
}

pub(crate) fn run(steps: &[Step], config: LogConfig) {
    let mut life = Life::begin(config);
    for step in steps {
        let held = life.hold();
        life.take(step);
        life.check();
        if let Some((extent, before)) = held {
            assert_eq!(bytes_of(&extent), before, "bytes of a held range changed");
        }
    }
}

impl Life {
    pub(crate) fn begin(config: LogConfig) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (disk, list) = (Arc::default(), List::default());
        let mut life = Self { writer: None, disk, dir, config, list, checkpoint: None, now_ms: NOW_MS };
        life.open(false);
        life
    }

    fn writer(&mut self) -> &mut Writer {
        self.writer.as_mut().unwrap()
    }

    fn partition(&self) -> Arc<Partition> {
        self.writer.as_ref().unwrap().partition().clone()
    }

    fn hold(&self) -> Option<(levada_log::Slice, Vec<u8>)> {
        let partition = self.partition();
        let slice = partition.read(partition.log_start(), 1 << 20, partition.log_end(), true).unwrap();
        let bytes = bytes_of(&slice);
        (!bytes.is_empty()).then_some((slice, bytes))
    }

    fn open(&mut self, clean: bool) {
        self.disk = Arc::default();
        let options = OpenOptions {
            config: self.config.clone(),
            leader_epoch: 0,
            log_start: self.list.log_start,
            clean,
            disk: self.disk.clone(),
            ..OpenOptions::new(self.dir.path())
        };
        let (writer, report) = Writer::open(options, self.now_ms).unwrap();
        assert_eq!(report.cut, None);
        self.writer = Some(writer);
    }

    pub(crate) fn take(&mut self, step: &Step) {
        match step {
            Step::Append(batch) => self.append(batch),
            Step::End { producer, commit, bump } => self.end(i64::from(*producer), *commit, *bump),
            Step::Roll => self.writer().roll(NOW_MS).unwrap(),
            Step::Clean { after_ms, keys } => {
                self.now_ms += after_ms;
                let round = self.clean(usize::from(*keys) * 24).unwrap();
                self.list.clean(round);
                self.checkpoint = Some(round.reached);
            }
            Step::CrashAmidClean { changes, lost_snapshots } => self.crash_amid(*changes, *lost_snapshots),
            Step::AdvanceLogStart(at) => {
                let offset =
                    self.list.log_start + (self.list.end - self.list.log_start) * i64::from(*at) / 255;
                self.list.log_start = offset;
                self.writer().advance_log_start(offset).unwrap().retire().unwrap().remove().unwrap();
                let first = bases(self.dir.path())[0];
                self.list.items.retain(|item| item.base >= first);
            }
            Step::ReopenClean => {
                self.writer.take().unwrap().close().unwrap();
                self.open(true);
            }
            Step::Crash { lost_snapshots } => self.crash(*lost_snapshots),
        }
    }

    fn append(&mut self, batch: &Batch) {
        let producer = |id: u8| self.list.producers.get(&i64::from(id)).copied().unwrap_or_default();
        let builder = Builder::new().compression(Compression::from_id(batch.codec).unwrap());
        let builder = match batch.writer {
            Writing::Plain | Writing::Keyless => builder,
            Writing::Idempotent(id) => {
                builder.producer(i64::from(id), producer(id).epoch, producer(id).next_sequence)
            }
            Writing::Transactional(id) => {
                let producer = producer(id);
                builder.producer(i64::from(id), producer.epoch, producer.next_sequence).transactional()
            }
        };
        let mut builder = if batch.stamped { builder.log_append_time() } else { builder };
        for (at, (key, value)) in batch.records.iter().enumerate() {
            let key = [*key, 7, *key];
            let key = Some(&key[..]).filter(|_| !matches!(batch.writer, Writing::Keyless));
            let value = value.map(|value| vec![value; usize::from(value % 90)]);
            let time = if batch.stamped { self.now_ms } else { self.now_ms + 5 - at as i64 * 3 };
            let header = [(&b"h"[..], None)];
            builder.push_with_headers(time, key, value.as_deref(), &header[..at % 2]);
        }
        self.push(Append::client(builder.build().unwrap()));
    }

    fn end(&mut self, producer_id: i64, commit: bool, bump: bool) {
        let Some(producer) = self.list.producers.get(&producer_id).copied() else { return };
        let marker = EndMarker {
            marker: if commit { Marker::Commit } else { Marker::Abort },
            producer_id,
            producer_epoch: producer.epoch + i16::from(bump),
            coordinator_epoch: 0,
            timestamp_ms: self.now_ms,
        };
        let records = marker.build().unwrap();
        self.push(Append::coordinator(records));
    }

    fn push(&mut self, append: Append) {
        let (mut group, now_ms) = ([append], self.now_ms);
        self.writer().append(&mut group, now_ms).pop().unwrap().unwrap();
        self.list.push(&group[0].records);
    }

    /// Compacts the log as the broker does, on one thread.
    fn clean(&mut self, memory_bytes: usize) -> Result<Round, CleanError> {
        let dirt = DirtySection::of(&self.partition(), &self.config, self.checkpoint, self.now_ms)?;
        self.clean_dirt(dirt, memory_bytes)
    }

    pub(crate) fn clean_dirt(
        &mut self,
        dirt: DirtySection,
        memory_bytes: usize,
    ) -> Result<Round, CleanError> {
        let (partition, config, now_ms) = (self.partition(), self.config.clone(), self.now_ms);
        let bases = bases(self.dir.path());
        let job = Job { partition, config, dirt, memory_bytes, load_factor: 0.9, now_ms };
        let pace = |_| ControlFlow::Continue(());
        let mut cleaning = Cleaning::begin(job, &pace)?;
        let reached = cleaning.end();
        assert!(reached > dirt.first_dirty || dirt.end <= dirt.first_dirty, "no progress: {dirt:?}");
        while let Some(cleaned) = cleaning.next_segment(&self.writer().last_records(), &pace)? {
            self.writer().replace(cleaned)?.expect("nobody else is at work").remove()?;
        }
        Ok(Round {
            first_dirty: dirt.first_dirty,
            end: dirt.end,
            reached,
            rewritten: bases.into_iter().find(|base| *base >= reached.min(dirt.end)).unwrap_or(i64::MAX),
            now_ms,
            delete_retention_ms: self.config.delete_retention_ms,
        })
    }

    fn crash(&mut self, lost_snapshots: bool) {
        drop(self.writer.take());
        if lost_snapshots && self.list.log_start == 0 {
            for path in files(self.dir.path()).filter(|path| path.ends_with(".snapshot")) {
                fs::remove_file(path).unwrap();
            }
        }
        self.open(false);
    }

    /// At each moment each segment is as before or compacted, and the first are compacted
    /// first.
    fn crash_amid(&mut self, changes: u8, lost_snapshots: bool) {
        let mut bounds = bases(self.dir.path());
        let before = self.list.clone();
        let dirt = DirtySection::of(&self.partition(), &self.config, self.checkpoint, self.now_ms).unwrap();
        self.disk.changes_left.store(i64::from(changes) / 2, Ordering::Relaxed);
        let outcome = self.clean(1 << 16);
        if let Err(error) = &outcome {
            assert!(matches!(error, CleanError::Log(LogError::Io { .. })), "{error}");
        }
        self.crash(lost_snapshots);
        for path in files(self.dir.path()) {
            let over = [".cleaned", ".swap", ".deleted"].iter().any(|suffix| path.ends_with(suffix));
            assert!(!over, "{path} is left over");
        }
        bounds.push(i64::MAX);
        let found = raw(self.dir.path());
        let fits = bounds.into_iter().filter(|bound| *bound <= dirt.end || *bound == i64::MAX).any(|bound| {
            self.list = before.clone();
            self.list.clean(Round {
                first_dirty: dirt.first_dirty,
                end: dirt.end,
                reached: dirt.end.max(dirt.first_dirty),
                rewritten: bound.min(dirt.end),
                now_ms: self.now_ms,
                delete_retention_ms: self.config.delete_retention_ms,
            });
            self.list.items == found
        });
        assert!(fits, "neither as before nor compacted: {found:#?}");
    }

    /// Records that can be read.
    fn stored(&self) -> Vec<Item> {
        let partition = self.partition();
        let mut found = Vec::new();
        let mut offset = partition.log_start();
        while offset < partition.log_end() {
            let bytes = partition.read_batches(offset, 700).unwrap();
            if bytes.is_empty() {
                break;
            }
            found.extend(items(&bytes));
            offset = found.last().unwrap().last + 1;
        }
        found
    }

    fn check(&self) {
        let (partition, list) = (self.partition(), &self.list);
        let marks = (partition.log_start(), partition.last_stable(), partition.log_end());
        assert_eq!(marks, (list.log_start, list.last_stable(), list.end));
        let found = self.stored();
        let wanted: Vec<_> = list.items.iter().filter(|item| item.last >= list.log_start).cloned().collect();
        assert_eq!(found, wanted);
        self.check_values(&partition, &found);
        self.check_producers();
        self.check_latest(&partition, &found);
        for timestamp in [NOW_MS, self.now_ms - 10, self.now_ms] {
            let records = found.iter().flat_map(|item| &item.records);
            let mut later = records.filter(|one| one.offset >= list.log_start && one.timestamp >= timestamp);
            let wanted = later.next().map(|record| (record.offset, record.timestamp));
            let found = partition.times().first_at(timestamp).unwrap();
            assert_eq!(found.map(|found| (found.offset, found.timestamp)), wanted);
        }
    }

    fn check_latest(&self, partition: &Partition, found: &[Item]) {
        let records = found.iter().flat_map(|item| &item.records);
        let records = records.filter(|one| one.offset >= self.list.log_start);
        let latest = records.map(|one| (one.timestamp, -one.offset)).max();
        let found = partition.times().latest().unwrap();
        assert_eq!(found.map(|found| (found.timestamp, -found.offset)), latest);
    }

    /// A reader of committed data gets the last value of each key, and nothing that was aborted.
    fn check_values(&self, partition: &Partition, found: &[Item]) {
        let upto = partition.last_stable();
        let aborted = partition.aborted(partition.log_start(), upto).unwrap();
        let mut open: Vec<i64> = Vec::new();
        let mut read = BTreeMap::new();
        for item in found.iter().filter(|item| item.last < upto) {
            let begun = aborted.iter().filter(|one| one.first_offset <= item.last);
            open.extend(begun.map(|one| one.producer_id));
            if item.control {
                let ended = item.records.first().and_then(|record| record.key.as_ref());
                if ended.is_some_and(|key| key[3] == 0) {
                    open.retain(|producer_id| *producer_id != item.producer.0);
                }
                continue;
            }
            if item.transactional && open.contains(&item.producer.0) && self.is_in_aborted(item) {
                continue;
            }
            assert!(!self.is_in_aborted(item) || item.records.is_empty(), "aborted records would be shown");
            for record in item.records.iter().filter(|record| record.offset >= self.list.log_start) {
                if let Some(key) = &record.key {
                    read.insert(key.clone(), record.clone());
                }
            }
        }
        for (key, last) in self.list.last_values(upto) {
            match read.remove(&key) {
                _ if last.offset < self.list.log_start => {}
                Some(found) => assert_eq!(found, last),
                // A tombstone may be gone, and then there is nothing before it either.
                None => assert_eq!(last.value, None, "the last value of {key:?} at {} is lost", last.offset),
            }
        }
        assert_eq!(read, BTreeMap::new(), "keys that nobody wrote");
    }

    fn is_in_aborted(&self, item: &Item) -> bool {
        self.list.txns.iter().any(|txn| {
            let Some((end, Marker::Abort)) = txn.end else { return false };
            item.transactional && txn.producer_id == item.producer.0 && (txn.first..end).contains(&item.base)
        })
    }

    /// Each producer continues where it was, for any records compacted away.
    fn check_producers(&self) {
        if self.list.log_start > 0 {
            return;
        }
        let states = self.writer.as_ref().unwrap().producer_states();
        let found: Vec<_> =
            states.iter().map(|one| (one.producer_id, one.epoch, one.last_sequence)).collect();
        let wanted: Vec<_> = self
            .list
            .producers
            .iter()
            .map(|(id, one)| (*id, one.epoch, one.last.map_or(-1, |_| one.next_sequence - 1)))
            .collect();
        assert_eq!(found, wanted);
    }
}

fn bytes_of(slice: &levada_log::Slice) -> Vec<u8> {
    use std::os::unix::fs::FileExt;
    let Some(extent) = &slice.extent else { return Vec::new() };
    let mut bytes = vec![0; extent.len as usize];
    extent.file.read_exact_at(&mut bytes, extent.offset).unwrap();
    bytes
}

pub(crate) fn items(mut bytes: &[u8]) -> Vec<Item> {
    let mut items = Vec::new();
    while !bytes.is_empty() {
        items.push(Item::of(bytes));
        bytes = &bytes[BatchView::parse(bytes).unwrap().size_bytes()..];
    }
    items
}

/// All that lies in the files, before the log's start as well.
fn raw(dir: &Path) -> Vec<Item> {
    let path = |base: &i64| dir.join(format!("{base:020}.log"));
    bases(dir).iter().flat_map(|base| items(&fs::read(path(base)).unwrap())).collect()
}

fn files(dir: &Path) -> impl Iterator<Item = String> {
    fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path().to_str().unwrap().to_owned())
}

/// Base offsets of the segments.
pub(crate) fn bases(dir: &Path) -> Vec<i64> {
    let logs = files(dir).filter(|path| path.ends_with(".log"));
    let mut bases: Vec<i64> =
        logs.map(|path| Path::new(&path).file_stem().unwrap().to_str().unwrap().parse().unwrap()).collect();
    bases.sort_unstable();
    bases
}

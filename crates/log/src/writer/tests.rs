//! A writer whose disk fails, and the order in which it asks things of one that does not.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::BytesMut;
use levada_base::Append;
use levada_base::batch::{BatchView, Builder, EndMarker, Marker};
use tempfile::{TempDir, tempdir};

use super::{OpenOptions, ReplicaSource, Writer};
use crate::disk::faulty::FaultyDisk;
use crate::{AppendError, LogConfig, LogError, TimestampType};

mod batches;
mod crashes;
mod following;
mod marks;
mod relocate;
mod replica;
mod restart;
mod shortage;
mod tiers;
mod times;
mod transactions;

const NOW_MS: i64 = 1_000;
const ENOSPC: i32 = 28;
const EIO: i32 = 5;

struct Kit {
    dir: TempDir,
    disk: Arc<FaultyDisk>,
}

impl Kit {
    fn new() -> Self {
        Self { dir: tempdir().unwrap(), disk: Arc::default() }
    }

    fn open(&self, recovery_point: i64) -> Writer {
        self.open_with(LogConfig { index_interval_bytes: 100, ..LogConfig::default() }, recovery_point)
    }

    fn open_with(&self, config: LogConfig, recovery_point: i64) -> Writer {
        let disk = self.disk.clone();
        let options = OpenOptions {
            config,
            leader_epoch: 0,
            recovery_point,
            disk,
            ..OpenOptions::new(self.dir.path())
        };
        let writer = Writer::open(options, NOW_MS).unwrap().0;
        self.disk.take_done();
        writer
    }
}

/// A leader whose log begins at 0.
fn from_leader(leader_epoch: i32) -> ReplicaSource {
    ReplicaSource { leader_epoch, log_start: 0 }
}

fn records(builder: Builder, count: usize) -> BytesMut {
    let mut builder = builder;
    for _ in 0..count {
        builder.push(5, None, Some(&[1; 90]));
    }
    builder.build().unwrap()
}

fn append(writer: &mut Writer, records: BytesMut) -> Result<i64, AppendError> {
    let mut group = [Append::client(records)];
    writer.append(&mut group, NOW_MS).pop().unwrap().map(|appended| appended.base_offset)
}

/// Ends a producer's transaction.
fn abort(writer: &mut Writer, producer_id: i64) -> Result<i64, AppendError> {
    let (producer_epoch, coordinator_epoch, marker) = (0, 0, Marker::Abort);
    let end = EndMarker { marker, producer_id, producer_epoch, coordinator_epoch, timestamp_ms: 5 };
    let mut group = [Append::coordinator(end.build().unwrap())];
    writer.append(&mut group, NOW_MS).pop().unwrap().map(|appended| appended.base_offset)
}

fn plain(writer: &mut Writer) -> Result<i64, AppendError> {
    append(writer, records(Builder::new(), 1))
}

#[test]
fn full_disk_leaves_log_unchanged() {
    let kit = Kit::new();
    let mut writer = kit.open(0);
    plain(&mut writer).unwrap();
    kit.disk.fail("write_at", ".log", ENOSPC);
    let sequenced = || records(Builder::new().producer(9, 0, 0), 2);
    let mut group = [Append::client(sequenced()), Append::client(sequenced())];
    for outcome in writer.append(&mut group, NOW_MS) {
        assert!(matches!(outcome, Err(AppendError::Storage(_))), "{outcome:?}");
    }
    let partition = writer.partition().clone();
    assert_eq!((partition.log_end(), partition.is_offline()), (1, false));
    kit.disk.heal();
    assert_eq!(append(&mut writer, sequenced()).unwrap(), 1, "what failed is not a duplicate");
    let file = kit.dir.path().join("00000000000000000000.log");
    assert_eq!(std::fs::metadata(file).unwrap().len(), partition.size_bytes());
}

#[test]
fn other_write_failures_stop_all_writing() {
    let kit = Kit::new();
    let mut writer = kit.open(0);
    kit.disk.fail("write_at", ".log", EIO);
    plain(&mut writer).unwrap_err();
    kit.disk.heal();
    assert!(matches!(plain(&mut writer), Err(AppendError::Storage(LogError::Offline { .. }))));
    assert!(matches!(writer.truncate(0, NOW_MS), Err(LogError::Offline { .. })));
    assert!(matches!(writer.close(), Err(LogError::Offline { .. })));
}

#[test]
fn records_truncated_during_sync_are_not_durable() {
    let kit = Kit::new();
    let mut writer = kit.open(0);
    let partition = writer.partition().clone();
    let (rounds, over) = (AtomicU64::new(0), AtomicBool::new(false));
    let cut_off = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                partition.sync_records().unwrap();
                rounds.fetch_add(1, Ordering::Relaxed);
            }
        });
        let await_rounds = || {
            let from = rounds.load(Ordering::Relaxed);
            while rounds.load(Ordering::Relaxed) < from + 2 {
                std::thread::yield_now();
            }
        };
        let mut cut = || {
            plain(&mut writer).unwrap();
            plain(&mut writer).unwrap();
            await_rounds();
            let end = writer.truncate(partition.log_end() - 1, NOW_MS).unwrap();
            await_rounds();
            partition.durable() > end
        };
        let cut_off = (0..50).any(|_| cut());
        over.store(true, Ordering::Relaxed);
        cut_off
    });
    assert!(!cut_off, "offset {} is durable, the log ends at {}", partition.durable(), partition.log_end());
}

#[test]
fn failed_sync_is_never_retried() {
    let kit = Kit::new();
    let mut writer = kit.open(0);
    plain(&mut writer).unwrap();
    kit.disk.fail("sync", ".log", EIO);
    kit.disk.take_done();
    assert!(matches!(writer.flush(), Err(LogError::Io { operation: "sync", .. })));
    assert_eq!(
        kit.disk.take_done(),
        ["drop_cached 00000000000000000000.log"],
        "what counts as written is not"
    );
    kit.disk.heal();
    let partition = writer.partition().clone();
    assert!(matches!(partition.flush(), Err(LogError::Offline { .. })));
    assert_eq!(partition.recovery_point(), 0);
}

#[test]
fn marker_is_hidden_without_its_index_entry() {
    let kit = Kit::new();
    let mut writer = kit.open(0);
    append(&mut writer, records(Builder::new().producer(9, 0, 0).transactional(), 2)).unwrap();
    kit.disk.fail("write_at", ".txnindex", EIO);
    abort(&mut writer, 9).unwrap_err();
    let partition = writer.partition().clone();
    assert_eq!((partition.log_end(), partition.last_stable(), partition.is_offline()), (2, 0, true));
    kit.disk.heal();
    drop(writer);
    let mut writer = kit.open(0);
    let partition = writer.partition().clone();
    assert_eq!((partition.log_end(), partition.last_stable()), (2, 0), "nothing of it is left");
    assert_eq!(abort(&mut writer, 9).unwrap(), 2);
    assert_eq!((partition.log_end(), partition.last_stable()), (3, 3));
    assert_eq!(partition.aborted(0, 3).unwrap()[0].first_offset, 0);
}

#[test]
fn flush_syncs_records_indexes_and_names_in_order() {
    let kit = Kit::new();
    let mut writer = kit.open(0);
    for _ in 0..3 {
        plain(&mut writer).unwrap();
    }
    writer.roll(NOW_MS).unwrap();
    kit.disk.take_done();
    assert_eq!(writer.partition().flush_sealed().unwrap(), 3);
    let order = ["log", "index", "timeindex"].map(|suffix| format!("sync 00000000000000000000.{suffix}"));
    let after = ["sync leader-epoch-checkpoint".to_owned(), "sync_dir ".to_owned()];
    assert_eq!(kit.disk.take_done(), [&order[..], &after].concat());
    assert_eq!(writer.partition().flush_sealed().unwrap(), 3);
    assert_eq!(kit.disk.take_done(), [""; 0]);
    // Sealed where the recovery point lies already: its last index entries are new all the same.
    plain(&mut writer).unwrap();
    writer.flush().unwrap();
    kit.disk.take_done();
    writer.roll(NOW_MS).unwrap();
    assert!(kit.disk.take_done().contains(&"sync 00000000000000000003.timeindex".to_owned()));
}

#[test]
fn index_is_synced_before_recovery_point_covers_it() {
    let kit = Kit::new();
    let mut writer = kit.open(0);
    for _ in 0..3 {
        plain(&mut writer).unwrap();
    }
    writer.flush().unwrap();
    drop(writer);
    // Made again by this opening, and sealed where the recovery point lies already: no flush would
    // come here.
    fs::remove_file(kit.dir.path().join("00000000000000000000.index")).unwrap();
    let mut writer = kit.open(3);
    writer.roll(NOW_MS).unwrap();
    let done = kit.disk.take_done();
    let at = |end: &str| {
        done.iter().position(|one| one.ends_with(end)).unwrap_or_else(|| panic!("{end}: {done:?}"))
    };
    let named = at("00000000000000000003.log");
    for suffix in ["log", "index", "timeindex"] {
        assert!(at(&format!("sync 00000000000000000000.{suffix}")) < named, "{suffix}: {done:?}");
    }
}

#[test]
fn truncation_lowers_the_recovery_point() {
    let kit = Kit::new();
    let mut writer = kit.open(0);
    for _ in 0..8 {
        plain(&mut writer).unwrap();
    }
    assert_eq!(writer.flush().unwrap(), 8);
    assert_eq!(writer.truncate(2, NOW_MS).unwrap(), 2);
    assert_eq!(writer.partition().recovery_point(), 2);
    plain(&mut writer).unwrap();
    kit.disk.take_done();
    writer.roll(NOW_MS).unwrap();
    // With 8 as the recovery point, an opening would trust this segment.
    assert!(kit.disk.take_done().contains(&"sync 00000000000000000000.log".to_owned()));
}

#[test]
fn recovery_point_beyond_log_is_clamped_on_restart() {
    let kit = Kit::new();
    let mut writer = kit.open(0);
    plain(&mut writer).unwrap();
    plain(&mut writer).unwrap();
    drop(writer);
    // The process ended after a truncation, before the next checkpoint.
    let mut writer = kit.open(8);
    assert_eq!(writer.partition().recovery_point(), 2);
    plain(&mut writer).unwrap();
    kit.disk.take_done();
    writer.roll(NOW_MS).unwrap();
    // With 8 as the recovery point, the next opening would trust this segment.
    assert!(kit.disk.take_done().contains(&"sync 00000000000000000000.log".to_owned()));
}

#[test]
fn truncation_removes_segments_backwards_without_cutting_in_place() {
    let kit = Kit::new();
    let mut writer = kit.open(0);
    for _ in 0..3 {
        plain(&mut writer).unwrap();
        plain(&mut writer).unwrap();
        writer.roll(NOW_MS).unwrap();
    }
    kit.disk.take_done();
    assert_eq!(writer.truncate(1, NOW_MS).unwrap(), 1);
    let done = kit.disk.take_done();
    let place =
        |what: &str| done.iter().position(|one| one == what).unwrap_or_else(|| panic!("{what}: {done:?}"));
    let order = [
        // A disk without room for the copy is found before anything goes.
        "sync 00000000000000000000.log.tmp",
        "remove 00000000000000000006.log",
        "remove 00000000000000000004.log",
        "remove 00000000000000000002.log",
        "sync_dir ",
        "rename 00000000000000000000.log",
    ]
    .map(place);
    assert!(order.is_sorted(), "{done:?}");
    assert!(!done.iter().any(|one| one.starts_with("truncate") && one.ends_with(".log")), "{done:?}");
}

#[test]
fn truncation_removes_index_entries_of_later_offsets() {
    let kit = Kit::new();
    let mut writer = kit.open(0);
    for _ in 0..4 {
        plain(&mut writer).unwrap();
    }
    let batch = u32::try_from(writer.partition().size_bytes() / 4).unwrap();
    writer.close().unwrap();
    // As Kafka indexes the last three batches, if they were appended together: by the place of the
    // first of them, and by the last offset.
    let index = kit.dir.path().join("00000000000000000000.index");
    fs::write(&index, [3_u32.to_be_bytes(), batch.to_be_bytes()].concat()).unwrap();
    let options = OpenOptions {
        config: LogConfig { index_interval_bytes: 100, ..LogConfig::default() },
        clean: true,
        ..OpenOptions::new(kit.dir.path())
    };
    let (mut writer, _) = Writer::open(options, NOW_MS).unwrap();
    assert_eq!(writer.truncate(2, NOW_MS).unwrap(), 2);
    for offset in 2..8 {
        assert_eq!(plain(&mut writer).unwrap(), offset);
    }
    writer.close().unwrap();
    let bytes = fs::read(&index).unwrap();
    let deltas = bytes.chunks(8).map(|entry| u32::from_be_bytes(entry[..4].try_into().unwrap()));
    let deltas: Vec<u32> = deltas.collect();
    assert!(deltas.len() > 1 && deltas.is_sorted_by(|one, next| one < next), "{deltas:?}");
}

#[test]
fn offsets_outside_the_log_are_refused() {
    let kit = Kit::new();
    let mut writer = kit.open(0);
    append(&mut writer, records(Builder::new(), 4)).unwrap();
    let _ = writer.advance_log_start(2).unwrap();
    assert!(matches!(writer.advance_log_start(5), Err(LogError::OutOfRange { log_end: 4, .. })));
    assert!(matches!(writer.truncate(-1, NOW_MS), Err(LogError::OutOfRange { log_start: 2, .. })));
    assert_eq!(writer.truncate(9, NOW_MS).unwrap(), 4);
    assert_eq!(writer.advance_log_start(1).unwrap().count(), 0);
    assert_eq!(writer.partition().log_start(), 2);
    // A cut through the only batch takes all of it, and the start with it.
    assert_eq!(writer.truncate(3, NOW_MS).unwrap(), 0);
    assert_eq!(writer.partition().log_start(), 0);
}

#[test]
fn retention_removes_an_old_last_segment() {
    let kit = Kit::new();
    let config = LogConfig { retention_ms: 100, ..LogConfig::default() };
    let mut writer = kit.open_with(config, 0);
    plain(&mut writer).unwrap();
    assert_eq!(writer.delete_old_segments(105).unwrap().count(), 0);
    let gone = writer.delete_old_segments(106).unwrap();
    assert_eq!((gone.count(), gone.size_bytes() > 0), (1, true));
    gone.remove().unwrap();
    let partition = writer.partition();
    assert_eq!((partition.log_start(), partition.log_end(), partition.size_bytes()), (1, 1, 0));
    assert_eq!(writer.delete_old_segments(i64::MAX).unwrap().count(), 0);
}

#[test]
fn append_time_records_are_found_after_restart() {
    let kit = Kit::new();
    let config = LogConfig { timestamp_type: TimestampType::LogAppendTime, ..LogConfig::default() };
    let mut writer = kit.open_with(config.clone(), 0);
    for now_ms in [1_000, 2_000, 3_000] {
        let mut group = [Append::client(records(Builder::new(), 2))];
        let appended = writer.append(&mut group, now_ms).pop().unwrap().unwrap();
        assert_eq!(appended.log_append_time_ms, now_ms);
        assert!(BatchView::parse(&group[0].records).unwrap().is_log_append_time());
    }
    drop(writer);
    let partition = kit.open_with(config, 0).partition().clone();
    let at = |timestamp| {
        let found = partition.times().first_at(timestamp).unwrap();
        found.map(|found| (found.offset, found.timestamp))
    };
    assert_eq!(
        [at(0), at(1_001), at(3_000), at(3_001)],
        [Some((0, 1_000)), Some((2, 2_000)), Some((4, 3_000)), None]
    );
    assert_eq!(partition.times().latest().unwrap().unwrap().offset, 4);
}

#[test]
fn close_without_a_write_writes_nothing() {
    let kit = Kit::new();
    let mut writer = kit.open(0);
    plain(&mut writer).unwrap();
    writer.close().unwrap();
    let options = OpenOptions {
        clean: true,
        leader_epoch: 0,
        disk: kit.disk.clone(),
        ..OpenOptions::new(Path::new(kit.dir.path()))
    };
    kit.disk.take_done();
    let (writer, _) = Writer::open(options, NOW_MS).unwrap();
    assert_eq!(writer.close().unwrap(), 1);
    assert_eq!(kit.disk.take_done(), [""; 0]);
}

#[test]
fn record_sync_covers_all_records_and_nothing_else() {
    let kit = Kit::new();
    let mut writer = kit.open(0);
    let partition = writer.partition().clone();
    plain(&mut writer).unwrap();
    assert_eq!(partition.sync_records().unwrap(), 1);
    let first = kit.disk.take_done();
    assert!(first.iter().any(|done| done.starts_with("sync_dir")), "the segment's name is new: {first:?}");
    plain(&mut writer).unwrap();
    kit.disk.take_done();
    assert_eq!(partition.sync_records().unwrap(), 2);
    assert_eq!(kit.disk.take_done(), ["sync 00000000000000000000.log"]);
    assert_eq!((partition.durable(), partition.recovery_point()), (2, 1), "indexes are not on the device");

    plain(&mut writer).unwrap();
    writer.roll(NOW_MS).unwrap();
    plain(&mut writer).unwrap();
    kit.disk.take_done();
    assert_eq!(partition.sync_records().unwrap(), 4);
    let rolled = kit.disk.take_done();
    for needed in ["sync 00000000000000000000.log", "sync 00000000000000000003.log", "sync_dir "] {
        assert!(rolled.iter().any(|done| done == needed), "{needed} is missing: {rolled:?}");
    }

    plain(&mut writer).unwrap();
    kit.disk.fail("sync", ".log", EIO);
    partition.sync_records().unwrap_err();
    assert!(kit.disk.take_done().iter().any(|done| done.starts_with("drop_cached ")));
    kit.disk.heal();
    assert!(matches!(partition.sync_records(), Err(LogError::Offline { .. })), "not asked for again");
    assert_eq!(partition.durable(), 4);
}

#[test]
fn segment_roll_age_varies_with_jitter() {
    let config = LogConfig { segment_ms: 1_000, segment_jitter_ms: 400, ..LogConfig::default() };
    let ages: std::collections::BTreeSet<i64> =
        (0..50).map(|base| config.roll_after_ms(&"topic-0", base)).collect();
    assert!(ages.len() > 10 && ages.iter().all(|age| (601..=1_000).contains(age)), "{ages:?}");
    let plain = LogConfig { segment_jitter_ms: 0, ..config };
    assert_eq!(plain.roll_after_ms(&"topic-0", 7), 1_000);
}

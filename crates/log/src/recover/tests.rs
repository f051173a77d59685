//! Directories that a crash, an operator or another program left in a sorry state.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use levada_base::batch::{Builder, EndMarker, Marker};
use tempfile::{TempDir, tempdir};

use super::{END_MAX, OpenReport};
use crate::disk::faulty::FaultyDisk;
use crate::{Append, LogConfig, LogError, OFFSET_MAX, OpenOptions, ReadError, Writer};

/// Three segments of four batches of two records: 0..8, 8..16, 16..24.
pub(super) fn log() -> TempDir {
    let dir = tempdir().unwrap();
    let mut writer = open(dir.path(), |_| {}).0;
    for at in 0..12 {
        if at > 0 && at % 4 == 0 {
            writer.roll(0).unwrap();
        }
        write(&mut writer);
    }
    writer.close().unwrap();
    dir
}

pub(super) fn write(writer: &mut Writer) {
    let mut builder = Builder::new().producer(5, 0, (writer.partition().log_end() & 0x7fff_ffff) as i32);
    builder.push(7, None, Some(&[9; 80])).push(8, None, None);
    let mut group = [Append::client(builder.build().unwrap())];
    writer.append(&mut group, 0).pop().unwrap().unwrap();
}

pub(super) fn open(dir: &Path, change: impl FnOnce(&mut OpenOptions)) -> (Writer, OpenReport) {
    let mut options =
        OpenOptions { leader_epoch: 0, disk: Arc::new(FaultyDisk::default()), ..OpenOptions::new(dir) };
    options.config = LogConfig { index_interval_bytes: 100, ..LogConfig::default() };
    change(&mut options);
    Writer::open(options, 0).unwrap()
}

pub(super) fn names(dir: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(dir).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

pub(super) fn damage(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 1;
    fs::write(path, bytes).unwrap();
}

/// A log whose segment 8..16 has lost its second half.
fn log_with_a_hole() -> TempDir {
    let dir = log();
    let path = dir.path().join("00000000000000000008.log");
    let whole = fs::read(&path).unwrap();
    fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    dir
}

#[test]
fn replica_ends_before_offset_gap_in_sealed_segment() {
    let dir = log_with_a_hole();
    let (mut writer, report) = open(dir.path(), |options| options.gapless_from = Some(0));
    assert_eq!(writer.partition().log_end(), 12);
    assert_eq!(report.cut.unwrap().offset, 12);
    assert!(!dir.path().join("00000000000000000016.log").exists());
    write(&mut writer);
    drop(writer);
    let (writer, report) = open(dir.path(), |options| options.gapless_from = Some(0));
    assert_eq!((writer.partition().log_end(), report.cut), (14, None));
}

#[test]
fn records_after_explained_offset_gap_are_kept() {
    for gapless_from in [None, Some(16), Some(20)] {
        let dir = log_with_a_hole();
        let (writer, report) = open(dir.path(), |options| options.gapless_from = gapless_from);
        assert_eq!((writer.partition().log_end(), report.cut), (24, None), "{gapless_from:?}");
    }
}

#[test]
fn trailing_zeroes_are_preallocation_and_not_damage() {
    for clean in [true, false] {
        let dir = log();
        let path = dir.path().join("00000000000000000016.log");
        let whole = fs::read(&path).unwrap();
        fs::write(&path, [&whole[..], &[0; 300_000]].concat()).unwrap();
        let (writer, report) = open(dir.path(), |options| options.clean = clean);
        assert_eq!((writer.partition().log_end(), report.cut), (24, None));
        assert_eq!(fs::read(&path).unwrap(), whole);
        drop(writer);

        fs::write(&path, [&whole[..], &[0; 300_000], &[1]].concat()).unwrap();
        let cut = open(dir.path(), |options| options.clean = clean).1.cut.unwrap();
        assert_eq!((cut.offset, cut.bytes), (24, 300_001), "something is behind them");
    }
}

#[test]
fn zeroes_before_missing_offsets_are_a_loss() {
    for zeroes in [1, 300] {
        let dir = log();
        let path = dir.path().join("00000000000000000008.log");
        let whole = fs::read(&path).unwrap();
        let three_of_four = whole.len() / 4 * 3;
        fs::write(&path, [&whole[..three_of_four], &vec![0; zeroes]].concat()).unwrap();
        let (writer, report) = open(dir.path(), |options| options.clean = false);
        let cut = report.cut.unwrap();
        assert_eq!((writer.partition().log_end(), cut.offset), (14, 14), "{cut:?}");
        assert_eq!(writer.partition().segment_count(), 2);
    }
}

#[test]
fn truncation_of_shortened_log_leaves_no_stale_index() {
    let dir = log();
    let path = dir.path().join("00000000000000000000.log");
    let mut bytes = fs::read(&path).unwrap();
    bytes.truncate(bytes.len() / 2);
    // The start would find it, and end the log there.
    bytes[70] ^= 1;
    fs::write(&path, bytes).unwrap();
    let (mut writer, _) = open(dir.path(), |options| options.clean = true);
    assert_eq!((writer.partition().log_end(), writer.truncate(6, 0).unwrap()), (24, 4));
    writer.close().unwrap();
    let (writer, report) = open(dir.path(), |options| options.clean = true);
    assert_eq!((writer.partition().log_end(), report.cut), (4, None));
}

#[test]
fn truncation_after_batch_with_false_offsets_is_refused() {
    let dir = log();
    let path = dir.path().join("00000000000000000000.log");
    let mut bytes = fs::read(&path).unwrap();
    let second = bytes.len() / 4;
    // Its last offset delta.
    bytes[second + 25] = 90;
    fs::write(&path, bytes).unwrap();
    let (mut writer, _) = open(dir.path(), |options| options.clean = true);
    assert!(matches!(writer.truncate(4, 0), Err(LogError::Corrupt { .. })));
    assert_eq!((writer.partition().log_end(), writer.partition().is_offline()), (24, false));
    assert_eq!(writer.truncate(2, 0).unwrap(), 2);
}

#[test]
fn producer_snapshot_before_first_segment_opens_no_transaction() {
    let dir = tempdir().unwrap();
    let mut writer = open(dir.path(), |_| {}).0;
    let append = |writer: &mut Writer, batch: Append| {
        writer.append(&mut [batch], 0).pop().unwrap().unwrap();
    };
    let mut batch = Builder::new().producer(9, 0, 0).transactional();
    append(&mut writer, Append::client(batch.push(7, None, Some(b"one")).build().unwrap()));
    writer.close().unwrap();
    let mut writer = open(dir.path(), |options| options.clean = true).0;
    assert_eq!(writer.partition().last_stable(), 0, "it is open");
    let marker = EndMarker {
        marker: Marker::Commit,
        producer_id: 9,
        producer_epoch: 0,
        coordinator_epoch: 0,
        timestamp_ms: 8,
    };
    append(&mut writer, Append::coordinator(marker.build().unwrap()));
    writer.roll(0).unwrap();
    write(&mut writer);
    writer.advance_log_start(2).unwrap().remove().unwrap();
    drop(writer);
    // As a loss of power may leave it; that of the first start is whole.
    fs::write(dir.path().join("00000000000000000002.snapshot"), []).unwrap();
    let before = dir.path().join("00000000000000000001.snapshot");
    assert!(before.exists());
    let (writer, _) = open(dir.path(), |options| options.log_start = 2);
    assert_eq!((writer.partition().log_start(), writer.partition().log_end()), (2, 4));
    assert_eq!(writer.partition().last_stable(), 4, "its marker went with its segment");
    assert!(writer.producer_states().iter().all(|state| state.producer_id == 5));
    assert!(!before.exists());
}

#[test]
fn false_clean_shutdown_mark_is_detected() {
    for change in [
        |bytes: &mut Vec<u8>| bytes.truncate(bytes.len() - 1),
        |bytes: &mut Vec<u8>| bytes.extend_from_slice(&[0xff; 61]),
        |bytes: &mut Vec<u8>| bytes.truncate(30),
    ] {
        let dir = log();
        let path = dir.path().join("00000000000000000016.log");
        let mut bytes = fs::read(&path).unwrap();
        let whole = bytes.len();
        change(&mut bytes);
        fs::write(&path, &bytes).unwrap();
        let (writer, report) = open(dir.path(), |options| options.clean = true);
        let cut = report.cut.unwrap();
        let wanted = if bytes.len() > whole {
            24
        } else if bytes.len() < 100 {
            16
        } else {
            22
        };
        assert_eq!((writer.partition().log_end(), cut.offset), (wanted, wanted));
        assert_eq!(cut.position + cut.bytes, bytes.len() as u64);
        assert_eq!(fs::metadata(&path).unwrap().len(), cut.position);
    }
}

#[test]
fn impossible_batch_offset_cuts_only_the_log_end() {
    for offset in [i64::MAX, i64::MAX - 1, 1 << 62, 1 << 40] {
        let dir = log();
        let path = dir.path().join("00000000000000000016.log");
        let mut bytes = fs::read(&path).unwrap();
        let last = bytes.len() / 4 * 3;
        // The checksum does not cover the base offset.
        bytes[last..last + 8].copy_from_slice(&i64::to_be_bytes(offset));
        fs::write(&path, &bytes).unwrap();
        // An index that leads to the batch would show that the offset is wrong.
        if offset < i64::MAX - 1 {
            fs::write(path.with_extension("index"), []).unwrap();
        }
        let (writer, report) = open(dir.path(), |options| options.clean = true);
        let partition = writer.partition();
        assert_eq!((partition.log_end(), partition.segment_count()), (22, 3), "{offset}");
        assert_eq!(report.cut.map(|cut| cut.offset), Some(22), "{offset}");
        assert_eq!(partition.read(0, 1, 22, true).unwrap().base_offset, 0);
    }
}

#[test]
fn stale_index_of_clean_log_is_rebuilt() {
    let dir = log();
    // The index of a log that was longer.
    let path = dir.path().join("00000000000000000016.index");
    let mut bytes = fs::read(&path).unwrap();
    bytes.extend_from_slice(&[0, 0, 0, 90, 0, 0, 1, 0]);
    fs::write(&path, bytes).unwrap();
    let (writer, report) = open(dir.path(), |options| options.clean = true);
    assert_eq!((writer.partition().log_end(), report.cut, report.rebuilt_segments), (24, None, 1));
}

#[test]
fn foreign_files_are_kept_and_leftovers_removed() {
    let dir = log();
    let at = |name: &str| dir.path().join(name);
    let foreign =
        ["notes.log", "123.log", "0000000000000000000x.log", "99999999999999999999.log", "lost.index"];
    for name in foreign {
        fs::write(at(name), "not a segment").unwrap();
    }
    fs::create_dir(at("00000000000000000099.log")).unwrap();
    let leftovers = [
        "00000000000000000000.log.tmp",
        "00000000000000000003.log.deleted",
        "leader-epoch-checkpoint.tmp",
        "00000000000000000024.index",
        "00000000000000000024.timeindex",
        "00000000000000000002.txnindex",
        "00000000000000000003.snapshot",
        "00000000000000000099.snapshot",
    ];
    for name in leftovers {
        fs::write(at(name), "left over").unwrap();
    }
    let (writer, report) = open(dir.path(), |options| options.clean = true);
    // An index whose segment is missing is evidence of it.
    let shortfall = report.shortfall;
    assert_eq!(shortfall.map(|shortfall| shortfall.claimed), Some(25));
    assert_eq!(
        (writer.partition().log_end(), report),
        (24, OpenReport { shortfall, ..OpenReport::default() })
    );
    let names = names(dir.path());
    assert!(foreign.iter().all(|name| names.contains(*name)), "{names:?}");
    assert!(!leftovers.iter().any(|name| names.contains(*name)), "{names:?}");
}

#[test]
fn empty_files_are_an_empty_log() {
    let dir = tempdir().unwrap();
    for suffix in ["log", "index", "timeindex", "snapshot"] {
        fs::write(dir.path().join(format!("00000000000000000005.{suffix}")), "").unwrap();
    }
    fs::write(dir.path().join("leader-epoch-checkpoint"), "").unwrap();
    for clean in [true, false] {
        let (writer, report) = open(dir.path(), |options| options.clean = clean);
        assert!(report.is_clean());
        let partition = writer.partition();
        assert_eq!((partition.log_start(), partition.log_end()), (5, 5));
    }
    let (mut writer, _) = open(dir.path(), |_| {});
    write(&mut writer);
    assert_eq!(writer.partition().log_end(), 7);
}

#[test]
fn truncation_removes_later_segments_first() {
    let dir = log();
    damage(&dir.path().join("00000000000000000000.log"), 300);
    let disk = Arc::new(FaultyDisk::default());
    let (writer, report) = open(dir.path(), |options| options.disk = disk.clone());
    assert_eq!(writer.partition().log_end(), 2);
    let logs = ["00000000000000000000.log", "00000000000000000008.log", "00000000000000000016.log"];
    let cut = report.cut.unwrap();
    assert_eq!((cut.path, cut.offset), (dir.path().join(logs[0]), 2));
    let done = disk.take_done();
    let place = |what: String| done.iter().position(|one| *one == what).unwrap_or_else(|| panic!("{done:?}"));
    let order = [
        format!("remove {}", logs[2]),
        format!("remove {}", logs[1]),
        "sync_dir ".to_owned(),
        format!("truncate {}", logs[0]),
    ];
    assert!(order.map(place).is_sorted(), "{done:?}");
    assert_eq!(names(dir.path()).iter().filter(|name| name.ends_with(".log")).count(), 1);
}

#[test]
fn damage_below_recovery_point_hides_only_its_batch() {
    let dir = log();
    let path = dir.path().join("00000000000000000000.log");
    // The length of the second batch.
    let batch = fs::read(&path).unwrap().len() / 4;
    damage(&path, batch + 9);
    for name in ["00000000000000000000.index", "00000000000000000008.snapshot", "leader-epoch-checkpoint"] {
        fs::remove_file(dir.path().join(name)).unwrap();
    }
    for clean in [false, true] {
        let (writer, report) =
            open(dir.path(), |options| (options.recovery_point, options.clean) = (24, clean));
        assert_eq!(report.cut, None);
        let partition = writer.partition();
        assert_eq!((partition.log_end(), partition.segment_count()), (24, 3));
        assert_eq!(partition.read(0, 1, 24, true).unwrap().len(), batch as u64);
        assert!(matches!(partition.read(4, 1, 24, true), Err(ReadError::Corrupt { offset: 4, .. })));
        assert_eq!(partition.read(8, 1, 24, true).unwrap().base_offset, 8);
    }
}

#[test]
fn deleted_offsets_are_never_reused() {
    let dir = log();
    let (writer, report) = open(dir.path(), |options| options.log_start = 30);
    let partition = writer.partition();
    assert_eq!((partition.log_start(), partition.log_end(), partition.latest_epoch()), (30, 30, 0));
    assert!(!report.is_clean());
    assert!(names(dir.path()).contains("00000000000000000030.log"));
    drop(writer);
    let (mut writer, _) = open(dir.path(), |_| {});
    write(&mut writer);
    assert_eq!(writer.partition().log_end(), 32);
}

#[test]
fn valid_indexes_are_not_rewritten() {
    let dir = log();
    let disk = Arc::new(FaultyDisk::default());
    let (_, report) = open(dir.path(), |options| options.disk = disk.clone());
    assert_eq!((report.cut, report.rebuilt_segments), (None, 3));
    assert_eq!(disk.take_done(), [""; 0]);
    // One that was not trimmed is trimmed, one that continues with something else replaced.
    let index = dir.path().join("00000000000000000000.index");
    let bytes = fs::read(&index).unwrap();
    for tail in [&[0; 4096 * 3][..], &[0, 0, 0, 1], &[[0; 5000], [1; 5000]].concat()] {
        fs::write(&index, [&bytes, tail].concat()).unwrap();
        drop(open(dir.path(), |_| {}));
        assert_eq!(fs::read(&index).unwrap(), bytes);
    }
}

#[test]
fn disk_failure_is_not_reported_as_damage() {
    let dir = log();
    fs::remove_file(dir.path().join("00000000000000000008.index")).unwrap();
    let disk = Arc::new(FaultyDisk::default());
    disk.fail("write_file", ".index", 28);
    let options = OpenOptions { disk, ..OpenOptions::new(dir.path()) };
    assert!(matches!(Writer::open(options, 0), Err(LogError::Io { .. })));
    assert_eq!(open(dir.path(), |_| {}).0.partition().log_end(), 24);
}

#[test]
fn truncated_index_takes_partition_offline_until_reopened() {
    let dir = log();
    let (writer, _) = open(dir.path(), |options| options.clean = true);
    let index = dir.path().join("00000000000000000008.index");
    assert!(writer.partition().read(13, 1000, 24, true).is_ok());
    fs::File::options().write(true).open(&index).unwrap().set_len(0).unwrap();
    let read = writer.partition().read(13, 1000, 24, true);
    assert!(
        matches!(read, Err(ReadError::Storage(LogError::Lost { ref path })) if *path == index),
        "{read:?}"
    );
    assert!(writer.partition().is_offline());
    drop(writer);
    let (mut writer, _) = open(dir.path(), |_| {});
    assert_eq!(writer.partition().read(13, 1000, 24, true).unwrap().base_offset, 12);
    write(&mut writer);
    assert_eq!(writer.partition().log_end(), 26);
}

#[test]
fn deleted_log_files_are_noticed() {
    let dir = log();
    let (mut writer, _) = open(dir.path(), |_| {});
    writer.partition().check_files_present().unwrap();
    fs::remove_dir_all(dir.path()).unwrap();
    let lost = writer.partition().check_files_present();
    assert!(matches!(lost, Err(LogError::Lost { .. })), "{lost:?}");
    let mut builder = Builder::new();
    builder.push(7, None, None);
    let mut group = [Append::client(builder.build().unwrap())];
    assert!(writer.append(&mut group, 0).pop().unwrap().is_err());
}

#[test]
fn unreachable_offsets_are_refused_and_nothing_removed() {
    let dir = log();
    let before = names(dir.path());
    for log_start in [OFFSET_MAX + 1, i64::MAX - 1, i64::MAX] {
        let options = OpenOptions { log_start, ..OpenOptions::new(dir.path()) };
        let refused = Writer::open(options, 0).map(|_| ()).unwrap_err().to_string();
        assert!(refused.contains(&dir.path().display().to_string()), "{refused}");
        assert!(refused.contains(&log_start.to_string()), "{refused}");
        assert_eq!(names(dir.path()), before);
    }
    for base in [END_MAX + 1, i64::MAX] {
        let empty = tempdir().unwrap();
        let path = empty.path().join(format!("{base:020}.log"));
        fs::write(&path, b"").unwrap();
        let refused = Writer::open(OpenOptions::new(empty.path()), 0).map(|_| ()).unwrap_err().to_string();
        assert!(refused.contains(&path.display().to_string()), "{refused}");
    }
    // Up to there a log may begin, and continue.
    for written in 0..2 {
        let (mut writer, _) = open(dir.path(), |options| options.log_start = OFFSET_MAX);
        write(&mut writer);
        assert_eq!(writer.partition().log_end(), OFFSET_MAX + 2 * (written + 1));
    }
}

//! Finding offsets: the right batch, and how few bytes are read for it.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use levada_base::batch::Builder;
use tempfile::{TempDir, tempdir};

use super::{SWEEP, is_zero};
use crate::disk::faulty::FaultyDisk;
use crate::{Append, LogConfig, OpenOptions, Partition, ReadError, Writer};

const INTERVAL: u32 = 4096;

/// 500 batches of about 400 bytes, 3 records each.
fn filled(disk: &Arc<FaultyDisk>, dir: &std::path::Path) -> Writer {
    let config = LogConfig { index_interval_bytes: INTERVAL, ..LogConfig::default() };
    let options = OpenOptions { config, disk: disk.clone(), ..OpenOptions::new(dir) };
    let mut writer = Writer::open(options, 0).unwrap().0;
    for at in 0..500 {
        let mut builder = Builder::new();
        for _ in 0..3 {
            builder.push(at, None, Some(&[3; 110]));
        }
        let mut group = [Append::client(builder.build().unwrap())];
        writer.append(&mut group, 0).pop().unwrap().unwrap();
    }
    writer
}

#[test]
fn a_lookup_reads_one_interval_at_most() {
    let (disk, dir) = (Arc::new(FaultyDisk::default()), tempdir().unwrap());
    let writer = filled(&disk, dir.path());
    let segment = writer.partition().segments.load()[0].clone();
    assert!(segment.offsets.count(&*disk).unwrap() > 40);
    let mut total = 0;
    for offset in 0..1500 {
        disk.take_read_bytes();
        let head = segment.find(&*disk, offset, segment.size(), INTERVAL).unwrap().unwrap();
        assert_eq!(head.base_offset, offset / 3 * 3);
        let read = disk.take_read_bytes();
        assert!(read <= u64::from(INTERVAL) + 61 + 4 + head.size, "{read} bytes for offset {offset}");
        total += read;
    }
    assert!(total / 1500 < 4700, "{} bytes a lookup", total / 1500);
    assert!(segment.find(&*disk, 1500, segment.size(), INTERVAL).unwrap().is_none());
}

#[test]
fn large_index_interval_does_not_enlarge_fetch_reads() {
    let (disk, dir) = (Arc::new(FaultyDisk::default()), tempdir().unwrap());
    let config = LogConfig { index_interval_bytes: i32::MAX.cast_unsigned(), ..LogConfig::default() };
    let options = OpenOptions { config, disk: disk.clone(), ..OpenOptions::new(dir.path()) };
    let mut writer = Writer::open(options, 0).unwrap().0;
    for at in 0..40 {
        let mut builder = Builder::new();
        builder.push(at, None, Some(&[3; 100_000]));
        let mut group = [Append::client(builder.build().unwrap())];
        writer.append(&mut group, 0).pop().unwrap().unwrap();
    }
    disk.take_read_bytes();
    for (offset, max_bytes) in [(0, 1), (0, 250_000), (1, 1)] {
        let slice = writer.partition().read(offset, max_bytes, 40, true).unwrap();
        assert_eq!(slice.base_offset, offset);
        let read = disk.take_read_bytes();
        assert!(read <= 4 * SWEEP as u64, "{read} bytes for offset {offset}");
    }
}

#[test]
fn consecutive_read_costs_only_a_batch_header() {
    let (disk, dir) = (Arc::new(FaultyDisk::default()), tempdir().unwrap());
    let config = LogConfig { index_interval_bytes: INTERVAL, ..LogConfig::default() };
    let options = OpenOptions { config, disk: disk.clone(), ..OpenOptions::new(dir.path()) };
    let mut writer = Writer::open(options, 0).unwrap().0;
    for at in 0..50 {
        let mut builder = Builder::new();
        builder.push(at, None, Some(&[3; 5000]));
        builder.push(at, None, Some(&[4; 5000]));
        let mut group = [Append::client(builder.build().unwrap())];
        writer.append(&mut group, 0).pop().unwrap().unwrap();
    }
    let segment = writer.partition().segments.load()[0].clone();
    // Offsets within a batch, and the first two batches, have no entry before them that ends where
    // they start.
    for (offset, most) in (4..100).map(|offset| (offset, if offset % 2 == 0 { 61 } else { 2 * 4096 + 300 })) {
        disk.take_read_bytes();
        let head = segment.find(&*disk, offset, segment.size(), INTERVAL).unwrap().unwrap();
        assert_eq!(head.base_offset, offset / 2 * 2);
        let read = disk.take_read_bytes();
        assert!(read <= most, "{read} bytes for offset {offset}");
    }
}

#[test]
fn misleading_index_costs_only_extra_reads() {
    let (disk, dir) = (Arc::new(FaultyDisk::default()), tempdir().unwrap());
    filled(&disk, dir.path()).close().unwrap();
    let path = dir.path().join("00000000000000000000.index");
    let right = std::fs::read(&path).unwrap();
    let last = right.len() - 4;
    for position in [1_u32, 17, 100_000, u32::MAX] {
        for at in [4, right.len() / 16 * 8 + 4, last] {
            let mut wrong = right.clone();
            wrong[at..at + 4].copy_from_slice(&position.to_be_bytes());
            std::fs::write(&path, wrong).unwrap();
            let options = OpenOptions { clean: true, disk: disk.clone(), ..OpenOptions::new(dir.path()) };
            let (writer, _) = Writer::open(options, 0).unwrap();
            assert_eq!(writer.partition().log_end(), 1500);
            for offset in (0..1500).step_by(7) {
                let slice = writer.partition().read(offset, 1, 1500, true).unwrap();
                assert_eq!(slice.base_offset, offset / 3 * 3, "entry {at} says {position}");
            }
        }
    }
}

/// A log of two segments, the first of 500 batches, closed in good order; and the offset index of
/// the first.
fn sealed(disk: &Arc<FaultyDisk>) -> (TempDir, PathBuf) {
    let dir = tempdir().unwrap();
    let mut writer = filled(disk, dir.path());
    writer.roll(0).unwrap();
    writer.close().unwrap();
    let path = dir.path().join("00000000000000000000.index");
    (dir, path)
}

fn opened(disk: &Arc<FaultyDisk>, dir: &Path) -> Writer {
    let config = LogConfig { index_interval_bytes: INTERVAL, ..LogConfig::default() };
    let options = OpenOptions { clean: true, config, disk: disk.clone(), ..OpenOptions::new(dir) };
    Writer::open(options, 0).unwrap().0
}

fn read_all(writer: &Writer) {
    for offset in (0..1500).step_by(7) {
        let slice = writer.partition().read(offset, 1, 1500, true).unwrap();
        assert_eq!(slice.base_offset, offset / 3 * 3);
    }
    for offset in [0, 700] {
        list_last(writer.partition(), (offset, 1 << 20), &[offset, 701, 1000, 1499, 5000]);
    }
}

/// Lists the last batches of a range for each of these ends, and compares them with the list of all
/// its batches. Returns the number of lists with joined batches.
fn list_last(partition: &Partition, (offset, max_bytes): (i64, u32), ends: &[i64]) -> usize {
    let slice = partition.read(offset, max_bytes, partition.log_end(), true).unwrap();
    let all = partition.batches_in(&slice, |_| false).unwrap();
    let mut joined = 0;
    for until in ends.iter().filter(|until| **until >= offset) {
        let last = partition.last_batches_in(&slice, (*until, 1000)).unwrap();
        let count = all.partition_point(|batch| batch.last_offset < *until) + 1;
        let expected = &all[..count.min(all.len())];
        let listed = last.strip_prefix(&last[..usize::from(last[0].is_joined)]).unwrap();
        let earlier = &expected[..expected.len() - listed.len()];
        assert_eq!(listed, &expected[earlier.len()..], "from {offset} to {until}");
        assert_eq!(slice.extent_of(&last).unwrap().len, slice.extent_of(expected).unwrap().len);
        if last[0].is_joined {
            let (first, end) = (earlier.first().unwrap(), earlier.last().unwrap());
            assert_eq!((last[0].base_offset, last[0].position), (first.base_offset, first.position));
            assert_eq!(last[0].last_offset, listed[0].base_offset - 1);
            assert_eq!(last[0].size, end.position + end.size - first.position);
            joined += 1;
        }
    }
    joined
}

#[test]
fn last_batches_are_those_of_all() {
    let (disk, dir) = (Arc::new(FaultyDisk::default()), tempdir().unwrap());
    let config = LogConfig { index_interval_bytes: 1000, ..LogConfig::default() };
    let options = OpenOptions { config, disk: disk.clone(), ..OpenOptions::new(dir.path()) };
    let mut writer = Writer::open(options, 0).unwrap().0;
    for at in 0..60 {
        let mut builder = Builder::new();
        for _ in 0..=at * 7 % 4 {
            builder.push(at, None, Some(&vec![3; [10, 300, 2500, 40, 900][at as usize % 5]]));
        }
        let mut group = [Append::client(builder.build().unwrap())];
        writer.append(&mut group, 0).pop().unwrap().unwrap();
    }
    let ends: Vec<i64> = (0..writer.partition().log_end() + 3).collect();
    let mut joined = 0;
    for offset in 0..writer.partition().log_end() {
        for max_bytes in [1, 2000, 9000, 1 << 20] {
            joined += list_last(writer.partition(), (offset, max_bytes), &ends);
        }
    }
    assert!(joined > 1000, "{joined}");
}

#[test]
fn last_batches_cost_few_header_reads() {
    let (disk, dir) = (Arc::new(FaultyDisk::default()), tempdir().unwrap());
    let config = LogConfig { index_interval_bytes: INTERVAL, ..LogConfig::default() };
    let options = OpenOptions { config, disk: disk.clone(), ..OpenOptions::new(dir.path()) };
    let mut writer = Writer::open(options, 0).unwrap().0;
    for at in 0..64 {
        let mut builder = Builder::new();
        builder.push(at, None, Some(&[3; 16_000])).push(at, None, Some(&[4; 300]));
        let mut group = [Append::client(builder.build().unwrap())];
        writer.append(&mut group, 0).pop().unwrap().unwrap();
    }
    let partition = writer.partition();
    let slice = partition.read(0, 2 << 20, 128, true).unwrap();
    disk.take_read_bytes();
    assert_eq!(partition.batches_in(&slice, |_| false).unwrap().len(), 64);
    assert_eq!(disk.take_read_bytes(), 64 * 61);
    // The batch that contains the offset, and the one before it, which ends earlier.
    for (until, bounds, headers) in
        [(1000, vec![0, 126], 1), (127, vec![0, 126], 1), (100, vec![0, 98, 100], 2)]
    {
        let last = partition.last_batches_in(&slice, (until, 1000)).unwrap();
        assert_eq!(last.iter().map(|batch| batch.base_offset).collect::<Vec<_>>(), bounds, "to {until}");
        assert_eq!(disk.take_read_bytes(), headers * 61, "to {until}");
    }
}

#[test]
fn index_with_lost_or_wrong_entries_is_rebuilt() {
    let disk = Arc::new(FaultyDisk::default());
    let (dir, path) = sealed(&disk);
    let right = std::fs::read(&path).unwrap();
    let entries = right.len() / 8;
    let zeroed = |range: Range<usize>| {
        let mut wrong = right.clone();
        wrong[range].fill(0);
        wrong
    };
    let with = |slot: usize, field: usize, value: u32| {
        let mut wrong = right.clone();
        wrong[slot * 8 + field..][..4].copy_from_slice(&value.to_be_bytes());
        wrong
    };
    let mut damaged = vec![Vec::new(), zeroed(0..right.len() - 8), zeroed(right.len() / 2..right.len() - 8)];
    damaged.extend((0..entries).map(|slot| zeroed(slot * 8..slot * 8 + 8)));
    for slot in [0, 1, entries / 2, entries - 1] {
        for value in [0, 1, 700, 1499, 100_000, u32::MAX] {
            damaged.extend([with(slot, 0, value), with(slot, 4, value)]);
        }
    }
    let mut again = 0;
    for wrong in damaged {
        std::fs::write(&path, &wrong).unwrap();
        let mut writer = opened(&disk, dir.path());
        read_all(&writer);
        for reindexed in writer.partition().reindex(&writer.config().clone()).unwrap() {
            assert!(writer.replace_indexes(&reindexed).unwrap());
            assert_eq!(std::fs::read(&path).unwrap(), right, "from {wrong:?}");
            again += 1;
        }
        // Unnoticed damage misled no reader.
        assert!(!writer.partition().has_misleading_index());
        read_all(&writer);
        writer.close().unwrap();
        read_all(&opened(&disk, dir.path()));
    }
    assert!(again > 20, "only {again} were noticed");
}

#[test]
fn damaged_log_and_index_hide_only_records_between() {
    let disk = Arc::new(FaultyDisk::default());
    let (dir, path) = sealed(&disk);
    let log = path.with_extension("log");
    let (mut batches, mut index) = (std::fs::read(&log).unwrap(), std::fs::read(&path).unwrap());
    let middle = index.len() / 16 * 8;
    let first = i64::from(u32::from_be_bytes(index[middle..][..4].try_into().unwrap()));
    // A batch whose length is wrong, and its entry, by which a search decides whether to look
    // after it, says an offset that there is not.
    let position = u32::from_be_bytes(index[middle + 4..][..4].try_into().unwrap()) as usize;
    batches[position + 8] ^= 0x40;
    index[middle] = 0x41;
    std::fs::write(&log, batches).unwrap();
    std::fs::write(&path, &index).unwrap();
    let writer = opened(&disk, dir.path());
    for offset in (0..1500).step_by(3) {
        let hidden = (first - 2..first + 60).contains(&offset);
        let slice = writer.partition().read(offset, 1, 1500, true);
        assert!(hidden || slice.unwrap().base_offset == offset, "{offset}, hidden from {first} on");
    }
    assert!(writer.partition().read(first, 1, 1500, true).is_err());
}

#[test]
fn an_index_beside_damaged_batches_is_kept() {
    let disk = Arc::new(FaultyDisk::default());
    let (dir, path) = sealed(&disk);
    let log = path.with_extension("log");
    let mut bytes = std::fs::read(&log).unwrap();
    let (middle, mut wrong) = (bytes.len() / 2, std::fs::read(&path).unwrap());
    bytes[middle] ^= 1;
    std::fs::write(&log, bytes).unwrap();
    wrong[..8].fill(0);
    wrong[8..12].copy_from_slice(&u32::MAX.to_be_bytes());
    std::fs::write(&path, &wrong).unwrap();
    let writer = opened(&disk, dir.path());
    let _ = (0..1500).map(|offset| writer.partition().read(offset, 1, 1500, true)).collect::<Vec<_>>();
    assert!(writer.partition().has_misleading_index());
    assert!(writer.partition().reindex(writer.config()).unwrap().is_empty());
    assert!(!writer.partition().has_misleading_index());
    assert_eq!(std::fs::read(&path).unwrap(), wrong);
}

#[test]
fn cached_read_does_not_scan_without_index() {
    let disk = Arc::new(FaultyDisk::default());
    let (dir, path) = sealed(&disk);
    let mut wrong = std::fs::read(&path).unwrap();
    wrong[..8].copy_from_slice(&[0, 0, 0, 3, 0, 0, 0, 17]);
    std::fs::write(&path, &wrong).unwrap();
    let writer = opened(&disk, dir.path());
    disk.take_read_bytes();
    let found = writer.partition().read_cached(5, 1, 1500, true);
    assert!(matches!(found, Err(ReadError::Cold)), "{found:?}");
    assert!(disk.take_read_bytes() < 3 * u64::from(INTERVAL));
    assert_eq!(writer.partition().read(5, 1, 1500, true).unwrap().base_offset, 3);
}

#[test]
fn cold_read_does_not_wait_for_sync() {
    const EAGAIN: i32 = 11;
    let disk = Arc::new(FaultyDisk::default());
    let (dir, _) = sealed(&disk);
    let writer = opened(&disk, dir.path());
    disk.fail("read_cached", ".log", EAGAIN);
    // As long as a sync takes.
    let flushing = writer.partition().hold_flushes();
    let ((sender, found), partition) = (mpsc::channel(), writer.partition().clone());
    let reader = std::thread::spawn(move || sender.send(partition.read_cached(5, 1, 1500, true)));
    let answer = found.recv_timeout(Duration::from_secs(20));
    drop(flushing);
    let _ = reader.join().unwrap();
    assert!(matches!(answer, Ok(Err(ReadError::Cold))), "{answer:?}");
}

#[test]
fn failed_cached_read_is_reported_as_cold() {
    const EIO: i32 = 5;
    let disk = Arc::new(FaultyDisk::default());
    let (dir, _) = sealed(&disk);
    let writer = opened(&disk, dir.path());
    disk.fail("read_cached", ".log", EIO);
    let found = writer.partition().read_cached(5, 1, 1500, true);
    assert!(matches!(found, Err(ReadError::Cold)), "{found:?}");
    assert_eq!(writer.partition().read(5, 1, 1500, true).unwrap().base_offset, 3);
}

#[test]
fn zero_detection_finds_any_other_byte() {
    let check = |bytes: &[u8], zero: bool| assert_eq!(is_zero(bytes), zero, "{bytes:?}");
    check(&[], true);
    check(&[0], true);
    check(&[0; 100], true);
    check(&[7], false);
    check(&[7; 100], false);
    for at in [0, 1, 50, 98, 99] {
        let mut bytes = [0; 100];
        bytes[at] = 1;
        check(&bytes, false);
    }
}

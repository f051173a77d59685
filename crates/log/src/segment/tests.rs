//! Finding offsets: the right batch, and how few bytes are read for it.

use std::sync::Arc;

use tempfile::tempdir;

use crate::batch::Builder;
use crate::disk::twin::Twin;
use crate::{Append, LogConfig, OpenOptions, Writer};

const INTERVAL: u32 = 4096;

/// 500 batches of about 400 bytes, 3 records each.
fn filled(disk: &Arc<Twin>, dir: &std::path::Path) -> Writer {
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
    let (disk, dir) = (Arc::new(Twin::default()), tempdir().unwrap());
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
fn who_reads_on_where_it_ended_costs_a_header() {
    let (disk, dir) = (Arc::new(Twin::default()), tempdir().unwrap());
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
    // Offsets within a batch, and the first two batches, have no entry before them that ends where they start.
    for (offset, most) in (4..100).map(|offset| (offset, if offset % 2 == 0 { 61 } else { 2 * 4096 + 300 })) {
        disk.take_read_bytes();
        let head = segment.find(&*disk, offset, segment.size(), INTERVAL).unwrap().unwrap();
        assert_eq!(head.base_offset, offset / 2 * 2);
        let read = disk.take_read_bytes();
        assert!(read <= most, "{read} bytes for offset {offset}");
    }
}

#[test]
fn an_index_that_misleads_costs_reads_and_nothing_else() {
    let (disk, dir) = (Arc::new(Twin::default()), tempdir().unwrap());
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

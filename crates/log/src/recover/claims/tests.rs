//! Directories that have lost records of which other files still tell.

use std::fs;
use std::path::Path;

use super::*;
use crate::OpenOptions;
use crate::recover::tests::{damage, log, names, open, write};

const LAST: &str = "00000000000000000016";

/// Options with the checkpoints after the stop of [`log`].
fn stopped(options: &mut OpenOptions) {
    (options.recovery_point, options.high_watermark) = (24, Some(24));
}

fn remove(dir: &Path, name: &str) {
    fs::remove_file(dir.join(name)).unwrap();
}

fn short(end: i64, claimed: i64, evidence: Evidence) -> Option<Shortfall> {
    Some(Shortfall { end, claimed, evidence })
}

/// The end of the log, and what it lacks.
fn found(dir: &Path, change: impl FnOnce(&mut OpenOptions)) -> (i64, Option<Shortfall>) {
    let (writer, report) = open(dir, change);
    (writer.partition().log_end(), report.shortfall)
}

#[test]
fn a_log_that_lacks_nothing_has_no_shortfall() {
    for clean in [true, false] {
        let dir = log();
        let opened = found(dir.path(), |options| {
            stopped(options);
            options.clean = clean;
        });
        assert_eq!(opened, (24, None));
    }
}

#[test]
fn batches_after_flipped_bit_rule_out_torn_end() {
    let dir = log();
    let path = dir.path().join(format!("{LAST}.log"));
    let batch = fs::read(&path).unwrap().len() / 4;
    remove(dir.path(), "00000000000000000024.snapshot");
    let whole = fs::read(&path).unwrap();
    damage(&path, batch + 70);
    assert_eq!(found(dir.path(), |_| {}), (18, short(18, 24, Evidence::Batches)));
    // After a torn end there is nothing.
    fs::write(&path, &whole[..whole.len() - 10]).unwrap();
    assert_eq!(found(dir.path(), |_| {}), (22, None));
}

#[test]
fn replica_ends_before_missing_or_empty_segment() {
    let middle = "00000000000000000008.log";
    for (is_empty, end) in [(true, 8), (false, 8)] {
        for clean in [true, false] {
            let dir = log();
            remove(dir.path(), middle);
            if is_empty {
                fs::write(dir.path().join(middle), b"").unwrap();
            }
            let replica = |options: &mut OpenOptions| {
                stopped(options);
                (options.gapless_from, options.clean) = (Some(0), clean);
            };
            let opened = found(dir.path(), replica);
            assert_eq!(opened, (end, short(end, 24, Evidence::RecoveryPoint)));
        }
    }
}

#[test]
fn shortfall_names_the_largest_claimed_offset() {
    let dir = log();
    damage(&dir.path().join(format!("{LAST}.log")), 70);
    let claims =
        |options: &mut OpenOptions| (options.recovery_point, options.high_watermark) = (16, Some(30));
    assert_eq!(found(dir.path(), claims), (16, short(16, 30, Evidence::HighWatermark)));
    assert_eq!(found(dir.path(), |_| {}), (16, None), "the snapshot is gone with what it was of");
}

#[test]
fn a_snapshot_is_evidence_if_it_is_intact() {
    for (is_intact, shortfall) in [(true, short(24, 30, Evidence::Snapshot)), (false, None)] {
        let dir = log();
        let [last, later] = ["24", "30"].map(|base| dir.path().join(format!("{base:0>20}.snapshot")));
        fs::copy(last, &later).unwrap();
        if !is_intact {
            damage(&later, 20);
        }
        assert_eq!(found(dir.path(), |options| options.clean = true), (24, shortfall));
    }
}

#[test]
fn the_index_of_a_missing_segment_is_evidence() {
    for clean in [true, false] {
        let dir = log();
        remove(dir.path(), &format!("{LAST}.log"));
        remove(dir.path(), "00000000000000000024.snapshot");
        let opened = found(dir.path(), |options| (options.clean, options.recovery_point) = (clean, 16));
        assert_eq!(opened, (16, short(16, 17, Evidence::Index)));
        assert!(!names(dir.path()).contains(&format!("{LAST}.index")));
    }
}

/// Consumers have committed offsets up to the former end, and would pass over records at offsets
/// that are given out again.
#[test]
fn sole_replica_never_reuses_an_offset() {
    type Harm = fn(&Path);
    let every: Harm = |dir| {
        ["00000000000000000000", "00000000000000000008", LAST]
            .iter()
            .for_each(|base| remove(dir, &format!("{base}.log")))
    };
    let last: Harm = |dir| remove(dir, &format!("{LAST}.log"));
    let empty: Harm = |dir| fs::write(dir.join(format!("{LAST}.log")), b"").unwrap();
    for (harm, end) in [(every, 0), (last, 16), (empty, 16)] {
        for clean in [true, false] {
            let dir = log();
            harm(dir.path());
            let sole = |options: &mut OpenOptions| {
                stopped(options);
                (options.is_sole, options.clean) = (true, clean);
            };
            let (mut writer, report) = open(dir.path(), sole);
            assert_eq!(report.shortfall, short(end, 24, Evidence::RecoveryPoint));
            assert_eq!(writer.partition().log_end(), 24);
            write(&mut writer);
            let partition = writer.partition().clone();
            assert_eq!(partition.log_start(), if end == 0 { 24 } else { 0 });
            let read = partition.read(partition.log_start().max(15), 1, 26, true).unwrap();
            assert_eq!(read.base_offset, if end == 0 { 24 } else { 14 });
            drop(writer);
            let (writer, report) = open(dir.path(), |options| {
                stopped(options);
                options.is_sole = true;
            });
            assert_eq!((writer.partition().log_end(), report.shortfall), (26, None));
        }
    }
}

/// Another replica may have the records, at these offsets.
#[test]
fn a_replica_ends_where_its_batches_end() {
    let dir = log();
    remove(dir.path(), &format!("{LAST}.log"));
    let opened = found(dir.path(), |options| {
        stopped(options);
        options.clean = true;
    });
    assert_eq!(opened, (16, short(16, 24, Evidence::RecoveryPoint)));
}

#[test]
fn index_of_empty_segment_misleads_no_reader() {
    let dir = log();
    fs::write(dir.path().join(format!("{LAST}.log")), b"").unwrap();
    let (mut writer, _) = open(dir.path(), |options| options.clean = true);
    for _ in 0..4 {
        write(&mut writer);
    }
    let partition = writer.partition();
    for offset in 16..24 {
        assert_eq!(partition.read(offset, 1, 24, true).unwrap().base_offset, offset / 2 * 2);
    }
    assert!(!partition.has_misleading_index());
    writer.close().unwrap();
}

//! Arbitrary bytes as one of the files of a sound partition: indexes, snapshots of producers,
//! epochs, a segment. The offline check reports its findings, within its bounds, and never changes
//! a file.

use std::fs;
use std::path::Path;

use bytes::BytesMut;
use levada_base::batch::Builder;
use levada_log::check::{FINDINGS_MAX, RecordedState, partition};
use levada_log::disk::RealDisk;
use levada_log::{Append, LogConfig, OpenOptions, Writer};
use tempfile::TempDir;

use crate::scratch;

const FILES: [&str; 6] = [
    "00000000000000000000.index",
    "00000000000000000000.timeindex",
    "00000000000000000000.txnindex",
    "00000000000000000000.log",
    "00000000000000000004.snapshot",
    "leader-epoch-checkpoint",
];

thread_local! {
    static PARTITION: TempDir = sound();
}

/// Checks one input.
pub fn run(input: &[u8]) {
    let [which, clean, rest @ ..] = input else { return };
    PARTITION.with(|dir| check(dir.path(), (*which, *clean), rest));
}

/// Checks the partition with these bytes as one of its files.
fn check(dir: &Path, (which, clean): (u8, u8), bytes: &[u8]) {
    let path = dir.join(FILES[usize::from(which) % FILES.len()]);
    let before = fs::read(&path).ok();
    fs::write(&path, bytes).expect("a file of our own");
    let left = RecordedState {
        clean: clean % 2 == 0,
        recovery_point: i64::from(clean / 2),
        ..RecordedState::default()
    };
    let mut read = 0;
    let checked =
        partition(&RealDisk, dir, &left, &mut |bytes| read += bytes).expect("a directory of our own");
    assert!(checked.findings.len() <= FINDINGS_MAX && read <= checked.bytes);
    assert_eq!(fs::read(&path).expect("a file of our own"), bytes, "the check changes nothing");
    match before {
        Some(before) => fs::write(&path, before),
        None => fs::remove_file(&path),
    }
    .expect("a file of our own");
}

/// A partition of two segments.
fn sound() -> TempDir {
    let dir = scratch::dir();
    let config = LogConfig { index_interval_bytes: 10, ..LogConfig::default() };
    let options = OpenOptions { leader_epoch: 1, config, ..OpenOptions::new(dir.path()) };
    let mut writer = Writer::open(options, 0).expect("a new log").0;
    for at in 0..6 {
        if at == 4 {
            writer.roll(0).expect("a second segment");
        }
        let mut builder = Builder::new().producer(5, 0, i32::try_from(at).unwrap_or(0));
        builder.push(at, None, Some(&[7; 40]));
        let batch: BytesMut = builder.build().expect("a batch");
        for outcome in writer.append(&mut [Append::client(batch)], 0) {
            outcome.expect("room");
        }
    }
    writer.close().expect("a sound log");
    dir
}

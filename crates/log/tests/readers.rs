//! Readers beside a writer: whatever the writer does, a reader gets whole, intact, successive
//! batches below its bound, or is told that its offset has left the log.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use levada_base::batch::{self, Builder};
use levada_log::{Append, LogConfig, OpenOptions, Partition, ReadError, Writer};

const NOW_MS: i64 = 1_000;

/// Reads from the log's start to its end, over and over; returns how many batches it saw.
fn follow(partition: &Partition, done: &AtomicBool, reads: &AtomicU64) -> u64 {
    let (mut at, mut seen) = (0, 0);
    loop {
        let last_round = done.load(Ordering::Acquire);
        let upto = partition.last_stable();
        match partition.read(at, 2_000, upto, true) {
            Ok(slice) if slice.is_empty() && last_round => return seen,
            Ok(slice) if slice.is_empty() => {
                std::thread::yield_now();
                // Again from the start, so that sealed and vanishing segments have readers too.
                at = partition.log_start();
            }
            Ok(slice) => {
                let extent = slice.extent.unwrap();
                let mut bytes = vec![0; extent.len as usize];
                extent.file.read_exact_at(&mut bytes, extent.offset).unwrap();
                let mut rest = &bytes[..];
                let mut next = slice.base_offset;
                assert!(next <= at, "{at} was asked for, {next} came");
                while !rest.is_empty() {
                    let batch = batch::check_stored(rest).unwrap();
                    assert_eq!(batch.base_offset(), next);
                    next = batch.last_offset() + 1;
                    rest = &rest[batch.size_bytes()..];
                    seen += 1;
                }
                assert!(next <= upto, "a batch reaches {next}, the bound is {upto}");
                assert!(next > at);
                at = next;
                reads.fetch_add(1, Ordering::Relaxed);
            }
            Err(ReadError::OutOfRange { .. }) => at = partition.log_start(),
            Err(error) => panic!("{error}"),
        }
    }
}

fn live(step: impl Fn(&mut Writer, u32)) {
    let dir = tempfile::tempdir().unwrap();
    let config = LogConfig { segment_bytes: 4_000, index_interval_bytes: 200, ..LogConfig::default() };
    let (mut writer, _) =
        Writer::open(OpenOptions { config, ..OpenOptions::new(dir.path()) }, NOW_MS).unwrap();
    let partition = writer.partition().clone();
    let (done, reads) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..2).map(|_| scope.spawn(|| follow(&partition, &done, &reads))).collect();
        let mut round = 0;
        // Wait until the readers have been at it for a while, whatever the machine.
        let alive = || readers.iter().all(|reader| !reader.is_finished());
        while round < 600 || reads.load(Ordering::Relaxed) < 2_000 && alive() {
            let mut group: Vec<Append> =
                (0..=round % 3).map(|at| Append::client(records(round + at))).collect();
            for outcome in writer.append(&mut group, NOW_MS) {
                outcome.unwrap();
            }
            step(&mut writer, round);
            round += 1;
        }
        done.store(true, Ordering::Release);
        for reader in readers {
            assert!(reader.join().unwrap() > 0);
        }
    });
}

fn records(seed: u32) -> bytes::BytesMut {
    let mut builder = Builder::new();
    for at in 0..=seed % 4 {
        builder.push(i64::from(seed), None, Some(&vec![seed as u8; (seed * 7 + at) as usize % 150]));
    }
    builder.build().unwrap()
}

#[test]
fn readers_see_whole_batches_while_segments_roll() {
    live(|_, _| {});
}

#[test]
fn readers_see_whole_batches_during_retention() {
    live(|writer, round| {
        if round % 20 == 19 {
            let partition = writer.partition().clone();
            let offset = partition.log_start().midpoint(partition.log_end());
            writer.advance_log_start(offset).unwrap().remove().unwrap();
        }
    });
}

#[test]
fn readers_see_whole_batches_during_truncation() {
    live(|writer, round| {
        if round % 15 == 14 {
            let partition = writer.partition().clone();
            let offset = partition.log_end() - i64::from(round % 60);
            writer.truncate(offset.max(partition.log_start()), NOW_MS).unwrap();
        }
    });
}

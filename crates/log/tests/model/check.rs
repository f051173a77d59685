//! Every question, and the vector's answer.

use std::os::unix::fs::FileExt;
use std::path::Path;

use levada_log::{LogConfig, Partition, ReadError, Slice};

use crate::damage::logs;
use crate::vector::{Model, Stored};

pub(crate) fn check(partition: &Partition, model: &Model, config: &LogConfig) {
    let marks =
        (partition.log_start(), partition.last_stable(), partition.high_watermark(), partition.log_end());
    assert_eq!(marks, (model.log_start, model.last_stable(), model.end, model.end));
    assert!(partition.recovery_point() <= model.end);
    let bases = bases(&partition.dir());
    assert_eq!(partition.segment_count(), bases.len());
    check_reads(partition, model, &bases, config);
    check_epochs(partition, model);
    check_times(partition, model);
    check_aborted(partition, model);
}

pub(crate) fn bases(dir: &Path) -> Vec<i64> {
    logs(dir).into_iter().map(|(base, _)| base).collect()
}

pub(crate) fn bytes(slice: &Slice) -> Vec<u8> {
    let Some(extent) = &slice.extent else { return Vec::new() };
    let mut bytes = vec![0; extent.len as usize];
    extent.file.read_exact_at(&mut bytes, extent.offset).unwrap();
    bytes
}

fn check_reads(partition: &Partition, model: &Model, bases: &[i64], config: &LogConfig) {
    for offset in [model.log_start - 1, model.end + 1] {
        assert!(matches!(partition.read(offset, 10, model.end, true), Err(ReadError::OutOfRange { .. })));
    }
    let stride = 1 + (model.end - model.log_start) / 10;
    let mut offset = model.log_start;
    while offset <= model.end {
        let uptos = [model.end, model.last_stable(), offset + (model.end - offset) / 2];
        for (at, upto) in uptos.into_iter().enumerate() {
            for max_bytes in [0, 300, 1_000, 1 << 20] {
                for min_one in [true, false] {
                    let slice = partition.read(offset, max_bytes, upto, min_one).unwrap();
                    let wanted = run(model, bases, offset, upto);
                    check_slice(&slice, &wanted, (max_bytes, min_one), config);
                }
            }
            if at == 0 {
                let first = run(model, bases, offset, upto);
                let copied = partition.read_batches(offset, 1).unwrap();
                assert_eq!(&copied[..], first.first().map_or(&[][..], |stored| &stored.bytes[..]));
            }
        }
        offset += stride;
    }
}

/// The batches from the one that holds `offset` to the end of its segment that do not reach `upto`.
fn run<'a>(model: &'a Model, bases: &[i64], offset: i64, upto: i64) -> Vec<&'a Stored> {
    let mut from = model.batches.iter().skip_while(|stored| stored.last() < offset).peekable();
    let Some(first) = from.peek() else { return Vec::new() };
    let next_base = bases.iter().find(|base| **base > first.base()).copied().unwrap_or(i64::MAX);
    from.take_while(|stored| stored.base() < next_base && stored.last() < upto).collect()
}

fn check_slice(slice: &Slice, wanted: &[&Stored], limits: (u32, bool), config: &LogConfig) {
    let found = bytes(slice);
    let (max_bytes, min_one) = limits;
    let mut fitting = 0;
    for (at, stored) in wanted.iter().enumerate() {
        if fitting + stored.bytes.len() > max_bytes as usize && !(at == 0 && min_one) {
            break;
        }
        fitting += stored.bytes.len();
    }
    let all: Vec<u8> = wanted.iter().flat_map(|stored| stored.bytes.iter().copied()).collect();
    assert!(found.len() <= fitting, "{} bytes where {fitting} fit", found.len());
    assert_eq!(found[..], all[..found.len()], "other bytes than were written");
    assert!(ends_with_batch(wanted, found.len()), "part of a batch");
    // The end may be that of the last index entry before the limit.
    let largest = wanted.iter().map(|stored| stored.bytes.len()).max().unwrap_or(0);
    let slack = config.index_interval_bytes as usize + 2 * largest;
    assert!(found.len() + slack >= fitting, "{} bytes where {fitting} fit", found.len());
    assert_eq!(found.is_empty(), fitting == 0);
    if let Some(first) = wanted.first().filter(|_| !found.is_empty()) {
        assert_eq!(slice.base_offset, first.base());
    }
}

fn ends_with_batch(wanted: &[&Stored], len: usize) -> bool {
    let mut end = 0;
    len == 0
        || wanted.iter().any(|stored| {
            end += stored.bytes.len();
            end == len
        })
}

fn check_epochs(partition: &Partition, model: &Model) {
    assert_eq!(partition.latest_epoch(), model.epochs.last().map_or(-1, |(epoch, _)| *epoch));
    for offset in [model.log_start, model.log_start.midpoint(model.end), model.end] {
        let current = model.epochs.iter().rfind(|(_, first)| *first <= offset);
        assert_eq!(partition.epoch_at(offset), current.map_or(-1, |(epoch, _)| *epoch), "at {offset}");
    }
    for (at, (epoch, _)) in model.epochs.iter().enumerate() {
        let end = model.epochs.get(at + 1).map_or(model.end, |(_, first)| *first);
        assert_eq!(partition.epoch_end_offset(*epoch), (*epoch, end), "{:?}", model.epochs);
    }
}

fn check_times(partition: &Partition, model: &Model) {
    let records: Vec<(i64, i64)> = model
        .batches
        .iter()
        .flat_map(|stored| stored.records())
        .filter(|(offset, _)| *offset >= model.log_start)
        .collect();
    for timestamp in [0, 1, 400, 1_000, 1_500, 1_990, 1_999, 2_000] {
        let wanted = records.iter().find(|(_, time)| *time >= timestamp).copied();
        let found = partition.times().first_at(timestamp).unwrap();
        assert_eq!(found.map(|found| (found.offset, found.timestamp)), wanted, "time {timestamp}");
    }
    let latest = records.iter().map(|(_, time)| *time).max().filter(|time| *time >= 0);
    let wanted = latest.and_then(|latest| records.iter().find(|(_, time)| *time == latest).copied());
    let found = partition.times().latest().unwrap();
    assert_eq!(found.map(|found| (found.offset, found.timestamp)), wanted);
}

fn check_aborted(partition: &Partition, model: &Model) {
    let upto = model.last_stable();
    for from in [model.log_start, model.log_start.midpoint(upto), upto] {
        for upto in [from, from.midpoint(upto), upto] {
            let mut wanted: Vec<(i64, i64)> = model
                .aborted
                .iter()
                .filter(|one| one.last >= from && one.first < upto)
                .map(|one| (one.first, one.producer_id))
                .collect();
            wanted.sort_unstable();
            let found = partition.aborted(from, upto).unwrap();
            let mut found: Vec<(i64, i64)> =
                found.iter().map(|one| (one.first_offset, one.producer_id)).collect();
            found.sort_unstable();
            // A transaction that ends after the range may be told of as well or not if it begins
            // after it; all that overlap must be.
            assert_eq!(found, wanted, "{from}..{upto}");
        }
    }
}

//! The batches of a range, by their headers.

use super::*;

/// Base offset, last offset, size, and if the batch is of a transaction, or its marker.
type Seen = (i64, i64, u64, bool, bool);

fn seen(writer: &Writer, from: i64, cached: bool) -> Vec<Seen> {
    let partition = writer.partition();
    let end = partition.log_end();
    let read = if cached {
        partition.read_cached(from, 1 << 20, end, true)
    } else {
        partition.read(from, 1 << 20, end, true)
    };
    let slice = read.unwrap();
    let batches = partition.batches_in(&slice, |_| false).unwrap();
    let extent = slice.extent.as_ref().unwrap();
    assert_eq!(slice.extent_of(&batches).unwrap().len, extent.len, "the batches fill the range");
    assert!(slice.extent_of(&[]).is_none());
    for (at, batch) in batches.iter().enumerate() {
        let part = slice.extent_of(&batches[at..=at]).unwrap();
        assert_eq!((part.offset, part.len), (batch.position, batch.size));
    }
    let tell = |batch: &crate::BatchSpan| {
        (batch.base_offset, batch.last_offset, batch.size, batch.is_transactional, batch.is_control)
    };
    batches.iter().map(tell).collect()
}

#[test]
fn batches_of_any_size_are_listed() {
    let kit = Kit::new();
    let mut writer = kit.open(0);
    let mut expected = Vec::new();
    // Small ones, which share a window, among large ones, which do not.
    for (count, size) in [(1, 10), (3, 50), (2, 5_000), (1, 700), (4, 10), (1, 9_000), (1, 1), (2, 1)] {
        let mut batch = Builder::new();
        for _ in 0..count {
            batch.push(NOW_MS, None, Some(&vec![7; size]));
        }
        let base = writer.partition().log_end();
        let bytes = batch.build().unwrap();
        expected.push((base, base + count - 1, bytes.len() as u64, false, false));
        append(&mut writer, bytes).unwrap();
    }
    for cached in [false, true] {
        assert_eq!(seen(&writer, 0, cached), expected);
        assert_eq!(seen(&writer, 5, cached), expected[2..], "from the batch that has the offset");
    }
}

#[test]
fn listing_distinguishes_transactions_from_markers() {
    let kit = Kit::new();
    let mut writer = kit.open(0);
    append(&mut writer, records(Builder::new().producer(9, 0, 0).transactional(), 2)).unwrap();
    abort(&mut writer, 9).unwrap();
    let kinds: Vec<_> = seen(&writer, 0, false).iter().map(|one| (one.0, one.1, one.3, one.4)).collect();
    assert_eq!(kinds, [(0, 1, true, false), (2, 2, true, true)]);
}

#[test]
fn batch_listing_stops_at_the_limit() {
    let kit = Kit::new();
    let mut writer = kit.open(0);
    for _ in 0..3 {
        plain(&mut writer).unwrap();
    }
    let partition = writer.partition();
    let slice = partition.read(0, 1 << 20, partition.log_end(), true).unwrap();
    let first = partition.batches_in(&slice, |_| true).unwrap();
    assert_eq!(first.len(), 1);
    assert_eq!(slice.extent_of(&first).unwrap().len, first[0].size);
}

//! Searches in small segments.

use std::io::Write;
use std::sync::Arc;

use levada_base::batch::Builder;

use super::*;
use crate::Chunk;

/// A segment in memory.
struct Memory(Vec<u8>);

impl RecordBytes for Memory {
    type Error = &'static str;

    fn read_at(&self, position: u64, into: &mut [u8]) -> Result<(), &'static str> {
        let at = usize::try_from(position).unwrap();
        let bytes = self.0.get(at..at + into.len()).ok_or("beyond the end")?;
        into.copy_from_slice(bytes);
        Ok(())
    }
}

fn chunk(bytes: &[u8]) -> Chunk {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    // The cache has its trailer after the part.
    file.write_all(&[0xff; 48]).unwrap();
    Chunk { file: Arc::new(file), len: bytes.len() as u64 }
}

/// Batches of three records each, with an index entry for every second one.
fn segment(base: i64, batches: i64) -> (Memory, Vec<BatchAt>, Chunk) {
    let (mut bytes, mut index) = (Vec::new(), Vec::new());
    let mut found = Vec::new();
    for number in 0..batches {
        let (base_offset, position) = (base + 3 * number, bytes.len() as u64);
        let time = 1000 + 100 * number;
        let mut builder = Builder::new().base_offset(base_offset);
        for record in 0..3 {
            builder.push(time + 10 * record, None, Some(b"value"));
        }
        let batch = builder.build().unwrap();
        if number % 2 == 1 {
            index.extend(u32::try_from(3 * number + 2).unwrap().to_be_bytes());
            index.extend(u32::try_from(position).unwrap().to_be_bytes());
        }
        bytes.extend_from_slice(&batch);
        let (size, last_offset, max_timestamp) = (batch.len() as u64, base_offset + 2, time + 20);
        found.push(BatchAt {
            position,
            size,
            base_offset,
            last_offset,
            max_timestamp,
            misstates_times: false,
        });
    }
    (Memory(bytes), found, chunk(&index))
}

#[test]
fn batch_of_each_offset_is_found() {
    let (bytes, batches, index) = segment(100, 9);
    let (offsets, end) = (OffsetEntries::new(&index), bytes.0.len() as u64);
    for offset in 90..127 {
        let delta = u32::try_from((offset - 100).max(0)).unwrap();
        let start = offsets.floor(delta).unwrap();
        let found = first_batch(&bytes, start.position.into()..end, offset).unwrap();
        let expected = batches.iter().find(|batch| batch.last_offset >= offset);
        assert_eq!(found.as_ref(), expected, "{offset}");
        if let Some(found) = found {
            assert!(found.position - u64::from(start.position) <= 2 * found.size, "{offset}");
        }
    }
}

#[test]
fn zeroes_after_index_entries_are_ignored() {
    let (_, batches, index) = segment(100, 9);
    let mut padded = vec![0; usize::try_from(index.len).unwrap()];
    read_range(&index.file, 0, &mut padded).unwrap();
    padded.resize(padded.len() + 80, 0);
    let padded = chunk(&padded);
    let offsets = OffsetEntries::new(&padded);
    assert_eq!(u64::from(offsets.floor(1000).unwrap().position), batches[7].position);
    assert_eq!(offsets.first_from(batches[7].position + 1).unwrap(), None);
    let empty = chunk(&[]);
    assert_eq!(OffsetEntries::new(&empty).floor(7).unwrap(), OffsetEntry::default());
    assert_eq!(OffsetEntries::new(&empty).last_within(7).unwrap(), None);
}

#[test]
fn range_ends_with_a_whole_batch() {
    let (bytes, batches, index) = segment(0, 9);
    let offsets = OffsetEntries::new(&index);
    for limit in 0..=bytes.0.len() as u64 {
        let end = whole_until(&bytes, offsets, &batches[1], limit).unwrap();
        let is_boundary = batches.iter().any(|batch| batch.end() == end);
        assert!(is_boundary && end >= batches[1].end(), "{limit}: {end}");
        assert!(end <= limit.max(batches[1].end()), "{limit}: {end}");
        let largest = batches.iter().rev().map(BatchAt::end).find(|end| *end <= limit);
        assert!(end + 2 * batches[0].size >= largest.unwrap_or(0), "{limit}: {end} of {largest:?}");
    }
}

#[test]
fn damaged_batches_are_errors() {
    let (mut bytes, batches, _) = segment(0, 4);
    let end = bytes.0.len() as u64;
    let at = usize::try_from(batches[2].position).unwrap();
    let whole = bytes.0.clone();
    for (place, value) in [(16, 1), (8, 0x80), (23, 0x80), (0, 0x80), (7, 1)] {
        bytes.0.clone_from(&whole);
        bytes.0[at + place] = value;
        let found = first_batch(&bytes, 0..end, 9);
        assert!(
            matches!(found, Err(SearchError::Damaged { position, .. }) if position == at as u64),
            "{place}: {found:?}"
        );
    }
}

#[test]
fn record_of_each_time_is_found() {
    let (bytes, batches, index) = segment(50, 5);
    let mut times = Vec::new();
    for batch in &batches {
        times.extend(batch.max_timestamp.to_be_bytes());
        times.extend(u32::try_from(batch.last_offset - 50).unwrap().to_be_bytes());
    }
    let times = chunk(&times);
    let end = bytes.0.len() as u64;
    for timestamp in 990..1440 {
        let delta = TimeEntries::new(&times).delta_before(timestamp).unwrap();
        let start = delta.map_or(0, |delta| OffsetEntries::new(&index).floor(delta).unwrap().position);
        let found = first_by_time(&bytes, start.into()..end, (timestamp, 0)).unwrap();
        let all = (0..15).map(|at| (50 + at, 1000 + at / 3 * 100 + at % 3 * 10));
        let expected = all.into_iter().find(|(_, time)| *time >= timestamp);
        assert_eq!(found.map(|found| (found.offset, found.timestamp)), expected, "{timestamp}");
    }
    let later = first_by_time(&bytes, 0..end, (1000, 57)).unwrap().unwrap();
    assert_eq!((later.offset, later.timestamp), (57, 1210));
}

#[test]
fn aborted_transactions_of_a_range_are_found() {
    let mut bytes = Vec::new();
    for (producer, first, last, stable) in [(1, 0, 10, 5_i64), (2, 5, 20, 20), (3, 25, 30, 30)] {
        bytes.extend([0, 0]);
        for number in [producer, first, last, stable] {
            bytes.extend(i64::to_be_bytes(number));
        }
    }
    let index = chunk(&bytes);
    let found = |from, upto| {
        let mut found = Vec::new();
        let is_last = AbortedEntries::new(&index).overlapping((from, upto), i64::MAX, &mut found).unwrap();
        (found.iter().map(|one| one.producer_id).collect::<Vec<_>>(), is_last)
    };
    assert_eq!(found(0, 5), (vec![1], true));
    assert_eq!(found(0, 6), (vec![1, 2], true));
    assert_eq!(found(11, 26), (vec![2, 3], true));
    assert_eq!(found(21, 25), (vec![], true));
    assert_eq!(found(31, 40), (vec![], false));
    bytes[35] = 1;
    let newer = chunk(&bytes);
    let refused = AbortedEntries::new(&newer).overlapping((0, 100), i64::MAX, &mut Vec::new());
    assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::InvalidData);
}

//! The records of a partition that its only writer got acknowledged, by offset, and the offset up
//! to which the log's start may have moved.

use std::ops::Range;
use std::sync::OnceLock;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// Bytes of a batch that ends a transaction.
const MARKER_BYTES: u64 = 78;
/// Bytes that a log may have and its ledger does not: a batch whose acknowledgement is on its way,
/// and a marker.
const UNKNOWN_BYTES: u64 = 16 << 10;
/// Bytes of a value before its noise: number of the partition, and of the record.
const HEAD_BYTES: usize = 4 + 8;
const NOISE_BYTES: usize = 1 << 16;
const NOISE_BYTES_MAX: u64 = 900;

/// A batch that was acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acknowledged {
    /// Offset of the first record.
    pub base: i64,
    /// Number that the writer gave to the first record.
    pub first: u64,
    /// Number of records.
    pub count: u32,
    /// Size of the batch.
    pub bytes: u64,
    /// Timestamp of all its records.
    pub written_ms: i64,
}

impl Acknowledged {
    fn end(&self) -> i64 {
        self.base + i64::from(self.count)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Open,
    Committed,
    Aborted,
}

/// Limits of a log, each with `None` for no limit.
#[derive(Clone, Copy, Debug, Default)]
pub struct Retention {
    /// `retention.bytes`.
    pub bytes: Option<u64>,
    /// `retention.ms`.
    pub ms: Option<i64>,
}

/// The ledger of one partition.
#[derive(Debug, Default)]
pub struct PartitionLedger {
    retention: Retention,
    entries: Vec<(Acknowledged, Fate)>,
    /// Number of entries whose transaction has ended.
    settled: usize,
    /// Highest offset before which a client has deleted the records, or has tried to.
    trimmed: i64,
}

impl PartitionLedger {
    /// The ledger of an empty partition with these limits.
    pub fn of(retention: Retention) -> Self {
        Self { retention, ..Self::default() }
    }

    /// Adds a batch of an open transaction.
    ///
    /// # Errors
    /// Its offsets are not after those of all earlier batches.
    pub fn add(&mut self, batch: Acknowledged) -> Result<(), String> {
        match self.entries.last() {
            Some((last, _)) if batch.base < last.end() => {
                Err(format!("offsets twice: {batch:?} after {last:?}"))
            }
            _ => {
                self.entries.push((batch, Fate::Open));
                Ok(())
            }
        }
    }

    /// Notes the end of the open transaction, with or without a marker.
    pub fn settle(&mut self, is_committed: bool, has_marker: bool) {
        let fate = if is_committed { Fate::Committed } else { Fate::Aborted };
        self.entries[self.settled..].iter_mut().for_each(|(_, open)| *open = fate);
        self.settled = self.entries.len();
        if let Some((last, _)) = self.entries.last_mut().filter(|_| has_marker) {
            last.bytes += MARKER_BYTES;
        }
    }

    /// The offset after the last record whose transaction has ended.
    pub fn settled(&self) -> i64 {
        self.entries[..self.settled].last().map_or(0, |(batch, _)| batch.end())
    }

    /// Number of acknowledged batches.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True if the ledger has no batch.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Number of aborted batches.
    pub fn aborted(&self) -> usize {
        self.entries.iter().filter(|(_, fate)| *fate == Fate::Aborted).count()
    }

    /// A client deletes the records before this offset.
    pub fn trim(&mut self, offset: i64) {
        self.trimmed = self.trimmed.max(offset);
    }

    /// The last offset at which the log may begin at this time.
    pub fn promised_from(&self, now_ms: i64) -> i64 {
        let by_size = self.retention.bytes.map_or(0, |limit| self.last_with(limit));
        let by_time = self.retention.ms.map_or(0, |limit| {
            let at = self.entries.partition_point(|(batch, _)| batch.written_ms < now_ms - limit);
            self.entries.get(at).map_or(i64::MAX, |(batch, _)| batch.base)
        });
        self.trimmed.max(by_size).max(by_time)
    }

    /// The last batch from which on the log has this number of bytes; 0 if it has fewer.
    fn last_with(&self, limit: u64) -> i64 {
        let mut bytes = UNKNOWN_BYTES;
        let from_end = self.entries.iter().rev().find(|(batch, _)| {
            bytes += batch.bytes;
            bytes >= limit
        });
        from_end.map_or(0, |(batch, _)| batch.base)
    }

    /// Bytes of the batches from an offset on.
    pub fn bytes_from(&self, offset: i64) -> u64 {
        self.since(offset).iter().map(|(batch, _)| batch.bytes).sum()
    }

    fn since(&self, offset: i64) -> &[(Acknowledged, Fate)] {
        &self.entries[self.entries.partition_point(|(batch, _)| batch.end() <= offset)..]
    }

    /// Offsets and numbers of the records in a range of offsets.
    pub fn expected(&self, range: &Range<i64>, committed_only: bool) -> Vec<(i64, u64)> {
        let batches = self.since(range.start).iter().take_while(|(batch, _)| batch.base < range.end);
        let kept = batches.filter(|(_, fate)| !committed_only || *fate == Fate::Committed);
        let records = kept.flat_map(|(batch, _)| (batch.base..batch.end()).zip(batch.first..));
        records.filter(|(offset, _)| range.contains(offset)).collect()
    }

    /// First offset and timestamp of a batch with records at or after an offset.
    pub fn at(&self, offset: i64) -> Option<(i64, i64)> {
        self.since(offset).first().map(|(batch, _)| (batch.base, batch.written_ms))
    }

    /// First offset of the batches that were written at this time or later.
    pub fn first_since(&self, written_ms: i64) -> Option<i64> {
        let at = self.entries.partition_point(|(batch, _)| batch.written_ms < written_ms);
        self.entries.get(at).map(|(batch, _)| batch.base)
    }
}

/// The value of a record, by the number of its partition and its own.
pub fn value(partition: u32, number: u64) -> Vec<u8> {
    static NOISE: OnceLock<Vec<u8>> = OnceLock::new();
    let noise = NOISE.get_or_init(|| {
        let mut noise = vec![0; NOISE_BYTES];
        StdRng::seed_from_u64(0).fill(&mut noise[..]);
        noise
    });
    let mixed = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15 ^ u64::from(partition)) >> 16;
    let length = usize::try_from(mixed % NOISE_BYTES_MAX).expect("a small length");
    let start = usize::try_from(mixed).expect("48 bits") % (NOISE_BYTES - length);
    let head = [&partition.to_be_bytes()[..], &number.to_be_bytes()].concat();
    [&head[..], &noise[start..start + length]].concat()
}

/// The number of the record of a partition that has this value.
pub fn number_of(partition: u32, found: &[u8]) -> Option<u64> {
    let number = found.get(4..HEAD_BYTES)?.try_into().ok().map(u64::from_be_bytes)?;
    (value(partition, number) == found).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(base: i64, first: u64, count: u32) -> Acknowledged {
        Acknowledged { base, first, count, bytes: 10_000, written_ms: 1_000 + base }
    }

    /// Offsets 0 to 2 committed, 4 and 5 aborted, 7 committed, 9 open.
    fn ledger(retention: Retention) -> PartitionLedger {
        let mut ledger = PartitionLedger::of(retention);
        for (batch, is_committed) in [(batch(0, 0, 3), true), (batch(4, 3, 2), false), (batch(7, 5, 1), true)]
        {
            ledger.add(batch).unwrap();
            ledger.settle(is_committed, true);
        }
        ledger.add(batch(9, 6, 1)).unwrap();
        ledger
    }

    #[test]
    fn expected_records_follow_fates() {
        let ledger = ledger(Retention::default());
        assert_eq!((ledger.settled(), ledger.len(), ledger.aborted()), (8, 4, 1));
        let committed = [(0, 0), (1, 1), (2, 2), (7, 5)];
        assert_eq!(ledger.expected(&(0..8), true), committed);
        assert_eq!(ledger.expected(&(2..8), true), committed[2..]);
        assert_eq!(ledger.expected(&(1..5), false), [(1, 1), (2, 2), (4, 3)]);
        assert_eq!((ledger.at(3), ledger.first_since(1_005)), (Some((4, 1_004)), Some(7)));
    }

    #[test]
    fn repeated_offsets_are_refused() {
        let mut ledger = ledger(Retention::default());
        assert!(ledger.add(batch(9, 7, 1)).is_err());
        assert!(ledger.add(batch(10, 7, 1)).is_ok());
    }

    #[test]
    fn promise_ends_with_each_limit() {
        let none = Retention::default();
        assert_eq!(ledger(none).promised_from(i64::MAX), 0);
        let mut trimmed = ledger(none);
        trimmed.trim(5);
        trimmed.trim(2);
        assert_eq!(trimmed.promised_from(0), 5);
        let sized = |bytes| ledger(Retention { bytes: Some(bytes), ms: None }).promised_from(0);
        assert_eq!([20_000, 30_000, 40_000, 90_000].map(sized), [9, 7, 4, 0]);
        let timed = |now_ms| ledger(Retention { bytes: None, ms: Some(100) }).promised_from(now_ms);
        assert_eq!([1_100, 1_101, 1_107, 1_109, 1_110].map(timed), [0, 4, 7, 9, i64::MAX]);
    }

    #[test]
    fn record_value_contains_partition_and_number() {
        for number in [0, 1, 2, 1 << 40] {
            let own = value(3, number);
            assert_eq!((number_of(3, &own), number_of(4, &own)), (Some(number), None));
            assert_eq!(number_of(3, &[&own[..], b"x"].concat()), None);
            assert_eq!(number_of(3, &own[..own.len() - 1]), None);
        }
    }
}

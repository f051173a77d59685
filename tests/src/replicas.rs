//! Replicas of a topic as brokers have them on disk: batches, leader epochs and aborted
//! transactions, which are the same at all of them.

use std::collections::BTreeMap;
use std::fmt::{self, Debug, Formatter};
use std::fs;
use std::path::{Path, PathBuf};

/// A batch of a log.
#[derive(Clone, PartialEq, Eq)]
pub struct Batch {
    /// Offset of the first record.
    pub base: i64,
    /// Offset of the last record.
    pub last: i64,
    /// Epoch of the leader that has appended it.
    pub epoch: i32,
    bytes: Vec<u8>,
}

impl Debug for Batch {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let crc = &self.bytes[17..21];
        write!(
            f,
            "{}..={} epoch {} CRC {crc:02x?}, {} bytes",
            self.base,
            self.last,
            self.epoch,
            self.bytes.len()
        )
    }
}

impl Batch {
    /// True if the batch has these records: offset and leader epoch are the broker's.
    pub fn has_records_of(&self, sent: &[u8]) -> bool {
        self.bytes[MAGIC..] == sent[MAGIC..]
    }

    /// Id and epoch of the producer.
    pub fn producer(&self) -> (i64, i16) {
        let (id, epoch) = (&self.bytes[43..51], &self.bytes[51..53]);
        let id = i64::from_be_bytes(id.try_into().expect("8 bytes"));
        (id, i16::from_be_bytes(epoch.try_into().expect("2 bytes")))
    }

    /// True for a batch of a transaction.
    pub fn is_transactional(&self) -> bool {
        self.bytes[ATTRIBUTES] & 0x10 != 0
    }

    /// The end of a transaction that the batch is: true for a commit. None for a batch of records.
    pub fn marker(&self) -> Option<bool> {
        // Version and type in the key of its only record, after five fields of one byte each.
        let is_commit = |record: &[u8]| record[5 + 3] == 1;
        (self.bytes[ATTRIBUTES] & 0x20 != 0).then(|| is_commit(&self.bytes[HEADER..]))
    }

    /// Values of the records, which have no keys and no compression.
    pub fn values(&self) -> Vec<&[u8]> {
        let mut rest = &self.bytes[HEADER..];
        let mut values = Vec::new();
        while !rest.is_empty() {
            let length = size(&mut rest);
            let (mut record, later) = rest.split_at(length);
            record = &record[1..];
            let (_timestamp, _offset, _no_key) =
                (zigzag(&mut record), zigzag(&mut record), zigzag(&mut record));
            let length = size(&mut record);
            values.push(&record[..length]);
            rest = later;
        }
        values
    }
}

/// Reads a `VARINT`.
fn zigzag(rest: &mut &[u8]) -> i32 {
    let (mut value, mut shift) = (0_u32, 0);
    loop {
        let byte = rest[0];
        *rest = &rest[1..];
        value |= u32::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return (value >> 1).cast_signed() ^ -((value & 1).cast_signed());
        }
        shift += 7;
    }
}

fn size(rest: &mut &[u8]) -> usize {
    usize::try_from(zigzag(rest)).expect("a length")
}

/// Bytes before the part of a batch that its length counts.
const LENGTH_END: usize = 12;
/// Bytes before the part of a batch that stays as its producer has sent it.
const MAGIC: usize = 16;
/// Place of the low byte of the attributes.
const ATTRIBUTES: usize = 22;
/// Bytes of the shortest batch of format 2.
const HEADER: usize = 61;
/// Bytes of an entry of a `.txnindex`: version, producer, first, last and last stable offset.
const ABORTED_BYTES: usize = 34;

/// Batches in the log of a partition, in order. The directory may be in use: a part of a batch at
/// the end is left out.
pub fn batches(partition: &Path) -> Vec<Batch> {
    segments(partition).iter().flat_map(|path| batches_of(path)).collect()
}

/// Batches of one segment.
pub fn batches_of(segment: &Path) -> Vec<Batch> {
    parse(&fs::read(segment).expect("a segment"))
}

/// Segments of a partition, by base offset.
pub fn segments(partition: &Path) -> Vec<PathBuf> {
    files(partition, "log")
}

/// Segments of a partition without those that end before an offset.
pub fn segments_from(partition: &Path, offset: i64) -> Vec<PathBuf> {
    let mut segments = segments(partition);
    let base = |path: &PathBuf| path.file_stem().and_then(|stem| stem.to_str()?.parse::<i64>().ok());
    let later = segments.iter().position(|path| base(path).expect("a base offset") > offset);
    segments.split_off(later.unwrap_or(segments.len()).saturating_sub(1))
}

/// Bytes of all segments of a partition.
pub fn length(partition: &Path) -> u64 {
    segments(partition).iter().map(|path| fs::metadata(path).expect("a segment").len()).sum()
}

/// Bytes of the batches in the log of a partition, which may be in use.
pub fn bytes(partition: &Path) -> u64 {
    batches(partition).iter().map(|batch| batch.bytes.len() as u64).sum()
}

/// Aborted transactions of a partition, from its `.txnindex` files, which are those of the segments
/// with abort markers. Replicas roll segments at different offsets, and have the same entries.
fn aborted(partition: &Path) -> Vec<Vec<u8>> {
    let files = files(partition, "txnindex");
    let entries = files.iter().flat_map(|path| {
        let bytes = fs::read(path).expect("an index");
        assert_eq!(bytes.len() % ABORTED_BYTES, 0, "{} has whole entries", path.display());
        bytes.chunks(ABORTED_BYTES).map(<[u8]>::to_vec).collect::<Vec<_>>()
    });
    entries.collect()
}

/// Files of a partition with this extension, by base offset.
fn files(partition: &Path, extension: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(partition).unwrap_or_else(|error| panic!("{}: {error}", partition.display()));
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let mut found: Vec<_> =
        paths.filter(|path| path.extension().is_some_and(|end| end == extension)).collect();
    found.sort();
    found
}

/// Batches in the bytes of a log. A part of a batch at the end is left out.
pub fn parse(mut log: &[u8]) -> Vec<Batch> {
    let mut batches = Vec::new();
    let number = |bytes: &[u8], at: usize| i32::from_be_bytes(bytes[at..at + 4].try_into().expect("4 bytes"));
    while log.len() >= HEADER {
        let length = LENGTH_END + number(log, 8).unsigned_abs() as usize;
        // Space that is reserved after the last batch is zero.
        if length < HEADER || length > log.len() {
            break;
        }
        let (batch, rest) = log.split_at(length);
        let base = i64::from_be_bytes(batch[..8].try_into().expect("8 bytes"));
        let last = base + i64::from(number(batch, 23));
        batches.push(Batch { base, last, epoch: number(batch, 12), bytes: batch.to_vec() });
        log = rest;
    }
    batches
}

/// Leader epochs of a partition with their first offsets, from `leader-epoch-checkpoint`.
pub fn epochs(partition: &Path) -> BTreeMap<i32, i64> {
    let path = partition.join("leader-epoch-checkpoint");
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let entry = |line: &str| {
        let (epoch, offset) = line.split_once(' ').expect("epoch and offset");
        (epoch.parse().expect("an epoch"), offset.parse().expect("an offset"))
    };
    text.lines().skip(2).map(entry).collect()
}

/// Differences between the replicas of a partition, which are directories of stopped brokers.
pub fn differences(replicas: &[(i32, &Path)]) -> Vec<String> {
    differences_since(0, replicas)
}

/// The offset from which all replicas of a partition have their batches: retention removes whole
/// segments, and replicas roll segments at different offsets.
pub fn common_start(replicas: &[(i32, &Path)]) -> i64 {
    let first = |path: &Path| -> i64 {
        let segments = segments(path);
        let name = segments.first().and_then(|path| path.file_stem()).expect("a segment");
        name.to_str().expect("digits").parse().expect("an offset")
    };
    replicas.iter().map(|(_, path)| first(path)).max().expect("a replica")
}

/// Differences between the replicas of a partition from an offset on.
pub fn differences_since(start: i64, replicas: &[(i32, &Path)]) -> Vec<String> {
    let mut complaints = Vec::new();
    let since = |path: &Path| -> Vec<Batch> {
        batches(path).into_iter().filter(|batch| batch.base >= start).collect()
    };
    let logs: Vec<(i32, Vec<Batch>)> = replicas.iter().map(|(id, path)| (*id, since(path))).collect();
    let ((first, expected), others) = logs.split_first().expect("a replica");
    for (id, found) in others {
        let length = expected.len().max(found.len());
        if let Some(at) = (0..length).find(|at| expected.get(*at) != found.get(*at)) {
            let [expected, found] = [expected, found].map(|log| log.get(at).map(place));
            complaints
                .push(format!("batch {at}: broker {first} has {expected:?}, broker {id} has {found:?}"));
        }
    }
    let expected = aborted(replicas[0].1);
    for (id, path) in &replicas[1..] {
        let found = aborted(path);
        if found != expected {
            let [expected, found] = [expected.len(), found.len()];
            complaints.push(format!(
                "aborted transactions: broker {first} has {expected}, broker {id} has {found} or others"
            ));
        }
    }
    for ((id, path), (_, log)) in replicas.iter().zip(&logs) {
        let (stored, appended) = (epochs(path), first_offsets(log));
        // An epoch in which nothing was appended is known only to its leader.
        let end = log.last().map_or(0, |batch| batch.last + 1);
        let with_batches: BTreeMap<i32, i64> = stored
            .into_iter()
            .filter(|(epoch, first)| *first < end && appended.contains_key(epoch))
            .map(|(epoch, first)| (epoch, first.max(start)))
            .collect();
        if with_batches != appended {
            complaints.push(format!("broker {id}: epochs {with_batches:?}, batches begin with {appended:?}"));
        }
    }
    complaints
}

fn place(batch: &Batch) -> (i64, i64, i32, usize) {
    (batch.base, batch.last, batch.epoch, batch.bytes.len())
}

/// First offset of each epoch of the batches.
fn first_offsets(log: &[Batch]) -> BTreeMap<i32, i64> {
    let mut offsets = BTreeMap::new();
    for batch in log {
        offsets.entry(batch.epoch).or_insert(batch.base);
    }
    offsets
}

#[cfg(test)]
mod tests {
    use super::{ABORTED_BYTES, Batch, HEADER, LENGTH_END, differences, parse};
    use crate::raw;
    use std::fs;

    fn encoded(base: i64, records: i32, epoch: i32) -> Vec<u8> {
        let mut bytes = base.to_be_bytes().to_vec();
        bytes.extend(i32::try_from(HEADER - LENGTH_END).unwrap().to_be_bytes());
        bytes.extend(epoch.to_be_bytes());
        bytes.resize(23, 2);
        bytes.extend((records - 1).to_be_bytes());
        bytes.resize(HEADER, 7);
        bytes
    }

    #[test]
    fn parsed_batches_end_before_reserved_or_torn_space() {
        let whole = [encoded(0, 2, 1), encoded(2, 1, 4)].concat();
        for tail in [vec![], vec![0; 100], encoded(3, 1, 4)[..50].to_vec()] {
            let found = parse(&[whole.clone(), tail].concat());
            let places: Vec<_> =
                found.iter().map(|Batch { base, last, epoch, .. }| (*base, *last, *epoch)).collect();
            assert_eq!(places, [(0, 1, 1), (2, 2, 4)]);
        }
    }

    #[test]
    fn values_and_markers_of_batches_are_read() {
        let (long, short) = (vec![b'x'; 300], vec![b'y']);
        let mut sent = raw::Batch::of(&[&long, &short, b""]);
        sent.attributes = raw::TRANSACTIONAL;
        let found = parse(&sent.encode());
        assert_eq!(found[0].values(), [&long[..], &short, b""]);
        assert!(found[0].is_transactional() && found[0].marker().is_none());
        for (kind, is_commit) in [(0, false), (1, true)] {
            let mut marker = encoded(0, 1, 0);
            marker[22] = 0x30;
            // Length, attributes, deltas of time and offset, length of the key, key, empty value,
            // no headers.
            marker.extend([22, 0, 0, 0, 8, 0, 0, 0, kind, 0, 0]);
            let length = i32::try_from(marker.len() - LENGTH_END).unwrap();
            marker[8..LENGTH_END].copy_from_slice(&length.to_be_bytes());
            assert_eq!(parse(&marker)[0].marker(), Some(is_commit));
        }
    }

    #[test]
    fn replica_comparison_detects_each_difference() {
        let directory = tempfile::tempdir().unwrap();
        let make = |name: &str, log: &[u8], epochs: &str| {
            let path = directory.path().join(name);
            fs::create_dir(&path).unwrap();
            fs::write(path.join("00000000000000000000.log"), log).unwrap();
            fs::write(path.join("leader-epoch-checkpoint"), epochs).unwrap();
            path
        };
        let log = [encoded(0, 2, 1), encoded(2, 1, 4)].concat();
        let good = make("good", &log, "0\n2\n1 0\n4 2\n");
        // The epoch of a leader that has appended nothing.
        let same = make("same", &log, "0\n3\n1 0\n3 2\n4 2\n");
        assert_eq!(differences(&[(1, &good), (2, &same)]), Vec::<String>::new());
        let entry = |number: u8| [number; ABORTED_BYTES];
        fs::write(good.join("00000000000000000000.txnindex"), [entry(1), entry(2)].concat()).unwrap();
        fs::write(same.join("00000000000000000000.txnindex"), entry(1)).unwrap();
        assert_eq!(differences(&[(1, &good), (2, &same)]).len(), 1, "an aborted transaction is missing");
        fs::write(same.join("00000000000000000002.txnindex"), entry(2)).unwrap();
        assert_eq!(differences(&[(1, &good), (2, &same)]), Vec::<String>::new());
        fs::remove_file(good.join("00000000000000000000.txnindex")).unwrap();
        let short = make("short", &log[..HEADER], "0\n1\n1 0\n");
        let other = make("other", &[encoded(0, 2, 1), encoded(2, 1, 3)].concat(), "0\n2\n1 0\n3 2\n");
        let epochs = make("epochs", &log, "0\n2\n1 0\n4 1\n");
        for faulty in [&short, &other, &epochs] {
            assert_eq!(differences(&[(1, &good), (2, faulty)]).len(), 1, "{}", faulty.display());
        }
    }
}

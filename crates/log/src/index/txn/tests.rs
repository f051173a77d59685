//! The transaction index: its bytes, and which entries a range is told of.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use tempfile::tempdir;

use super::{Aborted, TxnIndex};
use crate::LogError;
use crate::disk::{ReadFiles, RealDisk};

fn aborted(fields: [i64; 4]) -> Aborted {
    let [producer_id, first_offset, last_offset, last_stable] = fields;
    Aborted { producer_id, first_offset, last_offset, last_stable }
}

#[test]
fn txn_index_bytes_match_kafka() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("00000000000000000000.txnindex");
    let index = TxnIndex::on_disk(path.clone());
    assert_eq!(index.count(&RealDisk).unwrap(), 0);
    assert!(!path.exists());
    assert!(index.prepare(&RealDisk).unwrap());
    index.append(&RealDisk, &[aborted([7, 1, 2, 3])]).unwrap();
    assert!(!index.prepare(&RealDisk).unwrap());
    index.append(&RealDisk, &[aborted([-1, 4, 5, 6])]).unwrap();
    let words = |fields: [i64; 4]| {
        let fields = fields.into_iter().flat_map(i64::to_be_bytes);
        [0, 0].into_iter().chain(fields).collect::<Vec<u8>>()
    };
    assert_eq!(std::fs::read(&path).unwrap(), [words([7, 1, 2, 3]), words([-1, 4, 5, 6])].concat());
    let again = TxnIndex::on_disk(path.clone());
    assert_eq!(again.entries(&RealDisk).unwrap(), [aborted([7, 1, 2, 3]), aborted([-1, 4, 5, 6])]);
}

#[test]
fn torn_txn_entry_is_overwritten_and_damage_reported() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("x.txnindex");
    std::fs::write(&path, [0; 40]).unwrap();
    let index = TxnIndex::on_disk(path.clone());
    index.append(&RealDisk, &[aborted([7, 1, 2, 3])]).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 68);
    assert_eq!(index.entries(&RealDisk).unwrap()[1], aborted([7, 1, 2, 3]));
    std::fs::write(&path, [1; 34]).unwrap();
    let damaged = TxnIndex::on_disk(path);
    assert!(matches!(damaged.entries(&RealDisk), Err(LogError::Corrupt { .. })));
}

#[test]
fn txn_index_finds_every_overlapping_transaction() {
    let dir = tempdir().unwrap();
    let index = TxnIndex::none(dir.path().join("x.txnindex"));
    // Producers 1, 2 and 3 overlap: 1 at 0..=9, 2 at 3..=5, 3 at 10..=20 with one open since 15
    // when it ended.
    let entries = [[2, 3, 5, 0], [1, 0, 9, 10], [3, 10, 20, 15]].map(aborted);
    index.prepare(&RealDisk).unwrap();
    index.append(&RealDisk, &entries).unwrap();
    let check = |range: (i64, i64), producers: &[i64], done: bool| {
        let mut found = Vec::new();
        assert_eq!(index.overlapping(&RealDisk, range, &mut found).unwrap(), done, "{range:?}");
        assert_eq!(found.iter().map(|one| one.producer_id).collect::<Vec<_>>(), producers, "{range:?}");
    };
    check((0, 10), &[2, 1], true);
    check((0, 3), &[1], true);
    check((5, 6), &[2, 1], true);
    check((6, 10), &[1], true);
    check((6, 11), &[1, 3], true);
    check((10, 15), &[3], true);
    check((10, 16), &[3], false);
    check((20, 30), &[3], false);
    check((21, 30), &[], false);
}

/// Counts reads.
#[derive(Debug, Default)]
struct CountedReads(AtomicUsize);

impl ReadFiles for CountedReads {
    fn read_at(&self, file: &File, path: &Path, into: &mut [u8], position: u64) -> io::Result<usize> {
        self.0.fetch_add(1, Ordering::Relaxed);
        RealDisk.read_at(file, path, into, position)
    }
}

#[test]
fn txn_index_lookup_needs_few_reads() {
    let dir = tempdir().unwrap();
    let index = TxnIndex::none(dir.path().join("x.txnindex"));
    let entries: Vec<Aborted> = (0..10_000).map(|at| aborted([at, 10 * at + 1, 10 * at + 5, 0])).collect();
    index.prepare(&RealDisk).unwrap();
    index.append(&RealDisk, &entries).unwrap();
    let (reads, mut found) = (CountedReads::default(), Vec::new());
    assert!(!index.overlapping(&reads, (50_000, 60_000), &mut found).unwrap());
    assert_eq!(found, entries[5_000..6_000]);
    let count = reads.0.into_inner();
    assert!(count < 50, "{count} reads");
    assert_eq!(index.entries(&RealDisk).unwrap(), entries);
}

//! The journal on a real disk. Crashes and full disks are tested through the metadata store.

use std::fs;

use levada_base::batch::Builder;
use tempfile::TempDir;

use super::*;
use crate::disk::RealDisk;

const LIMITS: SegmentLimits = SegmentLimits { bytes: 1 << 20, ms: 1_000 };

/// A batch with this number of records.
fn batch(base_offset: i64, records: usize, now_ms: i64) -> Bytes {
    let mut builder = Builder::new().base_offset(base_offset).leader_epoch(1);
    for _ in 0..records {
        builder.push(now_ms, None, Some(b"value"));
    }
    builder.build().unwrap().freeze()
}

/// The journal, and the base offsets of the batches that it has.
fn open_from(start: i64, dir: &Path) -> Result<(Journal, Option<TornTail>, Vec<i64>), LogError> {
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    let mut visited = Vec::new();
    let (journal, torn) = Journal::open(&disk, dir, (start, LIMITS), |batch| {
        visited.push(batch.base_offset());
        Ok::<(), LogError>(())
    })?;
    Ok((journal, torn, visited))
}

fn open(dir: &TempDir) -> (Journal, Option<TornTail>, Vec<i64>) {
    open_from(0, dir.path()).unwrap()
}

fn bases(dir: &TempDir) -> Vec<i64> {
    segments(&RealDisk, dir.path()).unwrap().into_iter().map(|(base, _)| base).collect()
}

#[test]
fn journal_batches_survive_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let (mut journal, torn, visited) = open(&dir);
    assert_eq!((journal.end_offset(), torn, visited), (0, None, vec![]));
    journal.append(&[batch(0, 3, 10), batch(3, 1, 10)]).unwrap();
    journal.append(&[batch(4, 2, 11)]).unwrap();
    drop(journal);
    let (journal, torn, visited) = open(&dir);
    assert_eq!((journal.end_offset(), torn, visited), (6, None, vec![0, 3, 4]));
    let (_, _, visited) = open_from(4, dir.path()).unwrap();
    assert_eq!(visited, [4], "what a snapshot stands for is not read");
}

#[test]
fn journal_truncates_torn_batch_and_continues() {
    let dir = tempfile::tempdir().unwrap();
    let (mut journal, ..) = open(&dir);
    journal.append(&[batch(0, 3, 10), batch(3, 1, 10)]).unwrap();
    drop(journal);
    let path = segment_path(dir.path(), 0);
    let whole = fs::read(&path).unwrap();
    let first = batch(0, 3, 10).len();
    for len in first + 1..whole.len() {
        fs::write(&path, &whole[..len]).unwrap();
        let (mut journal, torn, visited) = open(&dir);
        let torn = torn.unwrap();
        assert_eq!((torn.position, torn.len_bytes), (first as u64, (len - first) as u64));
        assert_eq!((journal.end_offset(), visited), (3, vec![0]));
        journal.append(&[batch(3, 1, 10)]).unwrap();
        assert_eq!(fs::read(&path).unwrap(), whole);
    }
}

#[test]
fn journal_damage_before_whole_batch_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let (mut journal, ..) = open(&dir);
    journal.append(&[batch(0, 3, 10), batch(3, 1, 10)]).unwrap();
    drop(journal);
    let path = segment_path(dir.path(), 0);
    let whole = fs::read(&path).unwrap();
    for position in 0..batch(0, 3, 10).len() {
        let mut bytes = whole.clone();
        bytes[position] ^= 0x55;
        fs::write(&path, &bytes).unwrap();
        match open_from(0, dir.path()) {
            Err(LogError::Corrupt { path: named, .. }) => assert_eq!(named, path, "position {position}"),
            // The leader epoch is outside the checksum, and says nothing about where batches are.
            Ok(_) if (12..16).contains(&position) => {}
            other => panic!("position {position}: {other:?}"),
        }
        assert_eq!(fs::read(&path).unwrap(), bytes, "position {position}");
    }
}

#[test]
fn journal_rolls_segments_and_reports_missing_ones() {
    let dir = tempfile::tempdir().unwrap();
    let (mut journal, ..) = open(&dir);
    journal.append(&[batch(0, 1, 10)]).unwrap();
    journal.append(&[batch(1, 1, 1_010)]).unwrap();
    assert_eq!(bases(&dir), [0]);
    journal.append(&[batch(2, 1, 1_011)]).unwrap();
    assert_eq!(bases(&dir), [0, 2], "by time");
    journal.append(&[batch(3, 100_000, 1_011)]).unwrap();
    assert_eq!(bases(&dir), [0, 2, 3], "by size");
    journal.begin_segment().unwrap();
    journal.begin_segment().unwrap();
    assert_eq!(bases(&dir), [0, 2, 3, 100_003]);
    drop(journal);
    assert_eq!(open(&dir).2, [0, 1, 2, 3]);
    fs::remove_file(segment_path(dir.path(), 2)).unwrap();
    let error = open_from(0, dir.path()).unwrap_err().to_string();
    assert!(error.contains("offsets 2 to 3 are missing before it"), "{error}");
    assert_eq!(open_from(3, dir.path()).unwrap().2, [3], "after a snapshot");
    let error = open_from(200_000, dir.path()).unwrap_err().to_string();
    assert!(error.contains("before its snapshot at 200000"), "{error}");
}

#[test]
#[should_panic(expected = "a batch follows the log")]
fn journal_refuses_batch_not_following_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let _refused = open(&dir).0.append(&[batch(1, 1, 10)]);
}

//! The copy of a log: step by step, and where the log is cut meanwhile.

use levada_base::batch::Builder;
use levada_config::{BrokerConfig, TopicConfig};
use levada_log::{LogConfig, OpenOptions, ReplicaSource, Writer};
use levada_metadata::image::PartitionRegistration;
use levada_process::clock::now_ms;
use levada_wire::Uuid;
use tempfile::TempDir;

use super::copy::{Step, advance};
use super::*;
use crate::replica::{Leadership, PartitionIdentity};

fn open(home: &TempDir, name: &str) -> Writer {
    let config = LogConfig { segment_bytes: 2_000, ..LogConfig::default() };
    let options = OpenOptions { config, high_watermark: Some(0), ..OpenOptions::new(home.path().join(name)) };
    let mut writer = Writer::open(options, now_ms()).unwrap().0;
    writer.resign();
    writer
}

fn append(log: &mut Writer, epoch: i32, batches: usize) {
    for _ in 0..batches {
        let offset = log.partition().log_end();
        let mut batch = Builder::new().base_offset(offset).leader_epoch(epoch);
        batch.push(now_ms(), Some(format!("{epoch} {offset}").as_bytes()), None);
        log.append_replica(
            &batch.build().unwrap(),
            ReplicaSource { leader_epoch: epoch, log_start: 0 },
            now_ms(),
        )
        .unwrap();
    }
}

fn follow(log: &Writer, copy: &mut Writer, max_bytes: u32) {
    while !matches!(advance(log.partition(), copy, max_bytes).unwrap(), Step::CaughtUp) {}
}

fn contents(log: &Writer) -> (Vec<u8>, i64, i32) {
    let (partition, mut bytes) = (log.partition(), Vec::new());
    let mut at = partition.log_start();
    while at < partition.log_end() {
        let read = partition.read_batches(at, 1).unwrap();
        at = levada_base::batch::BatchView::parse(&read).unwrap().last_offset() + 1;
        bytes.extend_from_slice(&read);
    }
    (bytes, partition.log_end(), partition.latest_epoch())
}

#[test]
fn log_copy_is_identical_whatever_step_size() {
    for max_bytes in [1, 300, 1 << 20] {
        let home = tempfile::tempdir().unwrap();
        let (mut log, mut copy) = (open(&home, "log"), open(&home, "copy"));
        append(&mut log, 2, 40);
        append(&mut log, 5, 3);
        follow(&log, &mut copy, max_bytes);
        assert_eq!(contents(&copy), contents(&log));
    }
}

#[test]
fn log_truncation_truncates_the_copy() {
    let home = tempfile::tempdir().unwrap();
    let (mut log, mut copy) = (open(&home, "log"), open(&home, "copy"));
    append(&mut log, 1, 20);
    append(&mut log, 3, 10);
    follow(&log, &mut copy, 500);
    for (to, epoch) in [(25, 4), (24, 5), (22, 6), (12, 7), (3, 9)] {
        log.truncate(to, now_ms()).unwrap();
        append(&mut log, epoch, 11);
        follow(&log, &mut copy, 500);
        assert_eq!(contents(&copy), contents(&log), "cut at {to}, then epoch {epoch}");
    }
    log.restart_at(1_000, now_ms()).unwrap().remove().unwrap();
    append(&mut log, 9, 4);
    follow(&log, &mut copy, 500);
    assert_eq!(contents(&copy), contents(&log), "the log began elsewhere");
}

/// A replica out of sync moves its empty log to the start of its leader's log.
#[test]
fn copy_restarts_when_log_begins_earlier() {
    for copied in [0, 4] {
        let home = tempfile::tempdir().unwrap();
        let (mut log, mut copy) = (open(&home, "log"), open(&home, "copy"));
        log.restart_at(8, now_ms()).unwrap().remove().unwrap();
        append(&mut log, 2, copied);
        follow(&log, &mut copy, 500);
        assert_eq!(copy.partition().log_start(), 8);
        log.restart_at(0, now_ms()).unwrap().remove().unwrap();
        append(&mut log, 2, 12);
        follow(&log, &mut copy, 500);
        assert_eq!((copy.partition().log_start(), contents(&copy)), (0, contents(&log)), "{copied}");
    }
}

#[test]
fn copy_is_truncated_after_crash_shortens_log() {
    let home = tempfile::tempdir().unwrap();
    let (mut log, mut copy) = (open(&home, "log"), open(&home, "copy"));
    append(&mut log, 1, 20);
    follow(&log, &mut copy, 500);
    // As an opening finds it: the epoch is the same.
    log.truncate(15, now_ms()).unwrap();
    follow(&log, &mut copy, 500);
    assert_eq!(contents(&copy), contents(&log));
}

fn served(home: &TempDir) -> Arc<Partition> {
    let leadership = Leadership::of(&PartitionRegistration::default(), 1);
    let identity =
        PartitionIdentity { topic: "t".into(), topic_id: Uuid::from_bytes([7; 16]), index: 0, leadership };
    let config = TopicConfig::resolve(BrokerConfig::default().settings(), &Default::default()).unwrap();
    Arc::new(Partition::new(identity, open(home, "a/t-0"), Arc::new(config), Arc::default()))
}

fn to(home: &TempDir, partition: &Arc<Partition>, dir: &str) -> Move {
    let (key, path) = (("t".to_owned(), 0), home.path().join(dir));
    let future = Found { key, unique: "7".repeat(32), path: path.join("t-0.7-future") };
    Move {
        partition: partition.clone(),
        future,
        to: path,
        copy: ArcSwapOption::empty(),
        has_begun: AtomicBool::new(false),
        cancelled: Mutex::new(false),
    }
}

#[test]
fn concurrent_requests_for_one_move_are_merged() {
    let home = tempfile::tempdir().unwrap();
    let (moves, partition) = (Moves::default(), served(&home));
    moves.add(to(&home, &partition, "b"));
    let first = moves.next().unwrap();
    moves.add(to(&home, &partition, "b"));
    assert!(moves.next().is_none() && Arc::ptr_eq(&moves.of(&first.future.key).unwrap(), &first));
    moves.add(to(&home, &partition, "c"));
    assert_eq!(moves.next().unwrap().to, home.path().join("c"));
}

#[test]
fn move_to_current_directory_is_complete() {
    let home = tempfile::tempdir().unwrap();
    let partition = served(&home);
    assert!(to(&home, &partition, "a").is_over());
    assert!(!to(&home, &partition, "b").is_over());
}

//! A process without a descriptor left refuses what needs one, and continues as soon as there is
//! one: nothing is in doubt.

use super::*;
use crate::Passing;

const EMFILE: i32 = 24;
const ENFILE: i32 = 23;
const ENOMEM: i32 = 12;
const EROFS: i32 = 30;

fn small() -> LogConfig {
    LogConfig { segment_bytes: 400, index_interval_bytes: 100, ..LogConfig::default() }
}

#[test]
fn abort_is_refused_without_descriptor_and_retryable() {
    for errno in [EMFILE, ENFILE, ENOMEM, ENOSPC] {
        let kit = Kit::new();
        let mut writer = kit.open(0);
        append(&mut writer, records(Builder::new().producer(9, 0, 0).transactional(), 2)).unwrap();
        kit.disk.fail("create", ".txnindex", errno);
        assert!(matches!(abort(&mut writer, 9), Err(AppendError::Storage(LogError::Io { .. }))), "{errno}");
        let partition = writer.partition().clone();
        assert_eq!((partition.log_end(), partition.last_stable(), partition.is_offline()), (2, 0, false));
        // Batches that need no new file are taken meanwhile.
        assert_eq!(plain(&mut writer).unwrap(), 2, "{errno}");
        kit.disk.heal();
        assert_eq!(abort(&mut writer, 9).unwrap(), 3, "{errno}");
        assert_eq!((partition.last_stable(), partition.aborted(0, 4).unwrap().len()), (4, 1), "{errno}");
    }
}

#[test]
fn abort_on_full_disk_leaves_no_trace() {
    let kit = Kit::new();
    let mut writer = kit.open(0);
    append(&mut writer, records(Builder::new().producer(9, 0, 0).transactional(), 2)).unwrap();
    let log = kit.dir.path().join("00000000000000000000.log");
    let before = fs::read(&log).unwrap();
    kit.disk.fail("write_at", ".txnindex", ENOSPC);
    abort(&mut writer, 9).unwrap_err();
    assert!(!writer.partition().is_offline());
    assert_eq!(fs::read(&log).unwrap(), before);
    assert_eq!(fs::read(log.with_extension("txnindex")).unwrap(), [0; 0]);
    kit.disk.heal();
    assert_eq!(abort(&mut writer, 9).unwrap(), 2);
    writer.close().unwrap();
    let partition = kit.open(0).partition().clone();
    assert_eq!((partition.last_stable(), partition.aborted(0, 3).unwrap().len()), (3, 1));
}

/// Some clients raise their epoch after a batch that is out of order, and send batches again that
/// other partitions have.
#[test]
fn batches_following_disk_full_refusal_are_refused_alike() {
    for first in [0, 3] {
        let kit = Kit::new();
        let mut writer = kit.open(0);
        let mut send =
            |sequence, count| append(&mut writer, records(Builder::new().producer(9, 0, sequence), count));
        if first > 0 {
            send(0, 3).unwrap();
        }
        kit.disk.fail("write_at", ".log", ENOSPC);
        assert!(matches!(send(first, 1), Err(AppendError::Storage(_))));
        kit.disk.heal();
        for later in [first + 1, first + 2] {
            let overtakes = send(later, 1).unwrap_err();
            let AppendError::Overtakes { refused, reason, .. } = overtakes else { panic!("{overtakes:?}") };
            assert_eq!((refused, reason), (first, Passing::Storage));
        }
        for sequence in first..first + 3 {
            assert_eq!(send(sequence, 1).unwrap(), i64::from(sequence));
        }
        assert!(matches!(send(first + 9, 1), Err(AppendError::OutOfOrderSequence { .. })));
    }
}

#[test]
fn refused_repeated_batch_blocks_no_later_batch() {
    let kit = Kit::new();
    let mut writer = kit.open_with(small(), 0);
    let mut send = |sequence| append(&mut writer, records(Builder::new().producer(9, 0, sequence), 2));
    assert_eq!((send(0).unwrap(), send(2).unwrap()), (0, 2));
    kit.disk.fail("create", ".log", ENOSPC);
    assert!(matches!(send(2), Err(AppendError::Storage(_))), "the roll comes before the check");
    kit.disk.heal();
    assert_eq!((send(4).unwrap(), send(6).unwrap()), (4, 6));
}

#[test]
fn batches_following_other_epoch_batch_are_refused() {
    let kit = Kit::new();
    let mut writer = kit.open(0);
    let mut send = |sequence, leader_epoch| {
        let batch = records(Builder::new().producer(9, 0, sequence), 1);
        let mut group = [Append { leader_epoch, ..Append::client(batch) }];
        writer.append(&mut group, NOW_MS).pop().unwrap().map(|appended| appended.base_offset)
    };
    assert!(matches!(send(0, 7), Err(AppendError::LeaderEpoch { .. })));
    let overtakes = send(1, 0).unwrap_err();
    assert!(matches!(overtakes, AppendError::Overtakes { reason: Passing::Leadership, .. }), "{overtakes:?}");
    assert_eq!((send(0, 0).unwrap(), send(1, 0).unwrap()), (0, 1));
}

#[test]
fn log_recovers_when_read_only_filesystem_becomes_writable() {
    let kit = Kit::new();
    let mut writer = kit.open(0);
    plain(&mut writer).unwrap();
    let (partition, size) = (writer.partition().clone(), writer.partition().size_bytes());
    let len = || fs::metadata(kit.dir.path().join("00000000000000000000.log")).unwrap().len();
    kit.disk.fail("write_at", ".log", EROFS);
    plain(&mut writer).unwrap_err();
    assert_eq!((partition.log_end(), partition.is_offline(), len()), (1, false, size));
    // Part of the write has arrived, and cannot be cut off yet.
    kit.disk.fail("truncate", ".log", EROFS);
    writer.active.has_remains = true;
    plain(&mut writer).unwrap_err();
    writer.roll(NOW_MS).unwrap_err();
    assert_eq!((partition.log_end(), partition.is_offline()), (1, false));
    kit.disk.heal();
    assert_eq!(plain(&mut writer).unwrap(), 1);
    assert_eq!(len(), partition.size_bytes());
}

#[test]
fn roll_without_descriptors_refuses_batch_then_recovers() {
    for (operation, suffix) in [("create", ".log"), ("write_file", ".index"), ("write_file", ".timeindex")] {
        let kit = Kit::new();
        let mut writer = kit.open_with(small(), 0);
        while writer.partition().size_bytes() < 300 {
            plain(&mut writer).unwrap();
        }
        let end = writer.partition().log_end();
        kit.disk.fail(operation, suffix, EMFILE);
        plain(&mut writer).unwrap_err();
        let partition = writer.partition().clone();
        assert_eq!((partition.log_end(), partition.segment_count(), partition.is_offline()), (end, 1, false));
        let named = |suffix: &str| fs::exists(kit.dir.path().join(format!("{end:020}{suffix}"))).unwrap();
        assert!(!named(".index") && !named(".timeindex") && !named(".log"), "{operation} {suffix}");
        kit.disk.heal();
        assert_eq!(plain(&mut writer).unwrap(), end);
        assert_eq!(partition.segment_count(), 2);
    }
}

#[test]
fn flush_without_descriptors_is_retried() {
    let kit = Kit::new();
    let mut writer = kit.open(0);
    plain(&mut writer).unwrap();
    for (suffix, errno) in [(".index", EMFILE), (".timeindex", ENFILE), ("", EMFILE)] {
        kit.disk.fail(if suffix.is_empty() { "sync_dir" } else { "sync" }, suffix, errno);
        writer.flush().unwrap_err();
        let partition = writer.partition();
        assert_eq!((partition.recovery_point(), partition.is_offline()), (0, false), "{suffix}");
    }
    kit.disk.heal();
    kit.disk.take_done();
    assert_eq!(writer.flush().unwrap(), 1);
    assert!(kit.disk.take_done().contains(&"sync_dir ".to_owned()), "new names are not forgotten");
}

#[test]
fn truncation_without_space_or_descriptors_is_retried() {
    for (operation, suffix, errno) in
        [("copy", ".log", ENOSPC), ("create", ".log.tmp", EMFILE), ("open", ".timeindex", ENFILE)]
    {
        let kit = Kit::new();
        let mut writer = kit.open_with(small(), 0);
        for _ in 0..12 {
            plain(&mut writer).unwrap();
        }
        writer.close().unwrap();
        // Segments below the recovery point are opened when they are needed.
        let mut writer = kit.open_with(small(), 12);
        let (partition, before) = (writer.partition().clone(), contents(writer.partition()));
        assert!(partition.segment_count() > 2, "later segments go with the truncation");
        kit.disk.fail(operation, suffix, errno);
        assert!(matches!(writer.truncate(1, NOW_MS), Err(LogError::Io { .. })), "{operation}");
        assert_eq!((partition.log_end(), partition.is_offline()), (12, false), "{operation}");
        kit.disk.heal();
        assert_eq!(contents(&partition), before, "{operation}");
        assert!(!fs::exists(kit.dir.path().join("00000000000000000000.log.tmp")).unwrap(), "{operation}");
        assert_eq!(writer.truncate(1, NOW_MS).unwrap(), 1, "{operation}");
        assert_eq!(plain(&mut writer).unwrap(), 1);
    }
}

#[test]
fn retention_makes_room_on_a_full_disk() {
    for errno in [ENOSPC, EMFILE] {
        let kit = Kit::new();
        let config = LogConfig { retention_ms: 100, ..small() };
        let mut writer = kit.open_with(config.clone(), 0);
        for _ in 0..6 {
            plain(&mut writer).unwrap();
        }
        let (partition, segments) = (writer.partition().clone(), writer.partition().segment_count());
        assert!(segments > 2);
        // All segments are old: the last one could go only after a new one was made.
        kit.disk.fail("write_file", "", errno);
        let gone = writer.delete_old_segments(1_000_000).unwrap();
        assert_eq!(gone.count(), segments - 1, "{errno}");
        gone.remove().unwrap();
        let start = partition.log_start();
        assert_eq!((start > 0, partition.log_end(), partition.is_offline()), (true, 6, false), "{errno}");
        assert_eq!(partition.epochs.load().first_offset(), Some(start));
        drop(writer);
        // The file of leader epochs has the former start, and a start finds no room either.
        let file = "leader-epoch-checkpoint";
        let told = || fs::read_to_string(kit.dir.path().join(file)).unwrap();
        assert_eq!(told(), "0\n1\n0 0\n");
        kit.disk.fail("write_file", "leader-epoch-checkpoint.tmp", errno);
        let mut writer = kit.open_with(config, 0);
        assert_eq!((writer.partition().log_start(), writer.partition().log_end()), (start, 6));
        assert_eq!(writer.partition().epochs.load().first_offset(), Some(start));
        kit.disk.heal();
        assert_eq!(plain(&mut writer).unwrap(), 6);
        assert_eq!(told(), format!("0\n1\n0 {start}\n"));
    }
}

#[test]
fn records_are_deleted_on_a_full_disk() {
    let kit = Kit::new();
    let mut writer = kit.open_with(small(), 0);
    for _ in 0..6 {
        plain(&mut writer).unwrap();
    }
    kit.disk.fail("write_file", ".tmp", ENOSPC);
    let gone = writer.advance_log_start(5).unwrap();
    assert!(gone.count() > 1 && gone.size_bytes() > 0);
    gone.retire().unwrap().remove().unwrap();
    assert_eq!(writer.partition().log_start(), 5);
    // Any other failure leaves the log as it was.
    kit.disk.fail("write_file", ".tmp", EIO);
    writer.advance_log_start(6).unwrap_err();
    assert_eq!(writer.partition().log_start(), 5);
}

#[test]
fn files_failing_rename_are_removed_immediately() {
    let kit = Kit::new();
    let mut writer = kit.open_with(small(), 0);
    for _ in 0..6 {
        plain(&mut writer).unwrap();
    }
    let gone = writer.advance_log_start(3).unwrap();
    assert_eq!(gone.count(), 1);
    kit.disk.fail("rename", ".deleted", ENOSPC);
    gone.retire().unwrap().remove().unwrap();
    let files = || fs::read_dir(kit.dir.path()).unwrap().map(|entry| entry.unwrap().file_name());
    let of_segment =
        |base: i64| files().filter(|name| name.to_string_lossy().starts_with(&format!("{base:020}"))).count();
    assert_eq!((of_segment(0), of_segment(2) > 0), (0, true));
    // The same where all of the log goes.
    writer.resign();
    writer.restart_at(20, NOW_MS).unwrap().remove().unwrap();
    assert!(!writer.partition().is_offline());
    assert_eq!((of_segment(2), of_segment(20)), (0, 3));
}

fn contents(partition: &crate::Partition) -> Vec<u8> {
    let (mut bytes, mut at) = (Vec::new(), 0);
    while at < partition.log_end() {
        let read = partition.read_batches(at, 1).unwrap();
        at = BatchView::parse(&read).unwrap().last_offset() + 1;
        bytes.extend_from_slice(&read);
    }
    bytes
}

//! A log that is emptied and begins at another offset.

use super::*;

fn filled(kit: &Kit) -> Writer {
    let mut writer = kit.open(0);
    for round in 0..3 {
        append(&mut writer, records(Builder::new().producer(9, 0, 2 * round), 2)).unwrap();
        plain(&mut writer).unwrap();
        writer.roll(NOW_MS).unwrap();
    }
    writer
}

#[test]
fn restarted_log_is_empty_and_continues_at_offset() {
    for offset in [0, 3, 6, 9, 50] {
        let kit = Kit::new();
        let mut writer = filled(&kit);
        writer.flush().unwrap();
        writer.resign();
        let held = writer.partition().read(6, 1 << 20, 9, true).unwrap();
        let retired = writer.restart_at(offset, NOW_MS).unwrap();
        let partition = writer.partition().clone();
        let marks = (partition.log_start(), partition.high_watermark(), partition.log_end());
        assert_eq!(marks, (offset, offset, offset));
        assert_eq!((partition.latest_epoch(), partition.recovery_point()), (-1, offset));
        assert_eq!((partition.segment_count(), writer.producer_states().len()), (1, 0));
        assert!(partition.read(offset, 100, offset, true).unwrap().is_empty());
        assert!(!held.is_empty() && held.extent.unwrap().file.metadata().unwrap().len() > 0);
        retired.remove().unwrap();
        assert_eq!(names(kit.dir.path()), expected(offset));
        let batch = records(Builder::new().base_offset(offset).leader_epoch(2), 2);
        writer.append_replica(&batch, from_leader(2), NOW_MS).unwrap();
        drop(writer);
        // The checkpoint is still that of the log as it was.
        let writer = kit.open(9);
        assert_eq!(writer.partition().read_batches(offset, 1 << 20).unwrap(), batch);
        assert_eq!((writer.partition().log_start(), writer.partition().log_end()), (offset, offset + 2));
    }
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> = entries.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    names
}

fn expected(offset: i64) -> Vec<String> {
    let mut names: Vec<String> =
        ["index", "log", "timeindex"].map(|file| format!("{offset:020}.{file}")).into();
    names.push("leader-epoch-checkpoint".to_owned());
    names
}

#[test]
fn log_restart_persists_old_removal_before_creating_new() {
    let kit = Kit::new();
    let mut writer = filled(&kit);
    kit.disk.take_done();
    let _ = writer.restart_at(50, NOW_MS).unwrap();
    let done = kit.disk.take_done();
    let place =
        |what: &str| done.iter().position(|one| one == what).unwrap_or_else(|| panic!("{what}: {done:?}"));
    let order = [
        "rename 00000000000000000009.log.deleted",
        "rename 00000000000000000006.log.deleted",
        "rename 00000000000000000003.log.deleted",
        "rename 00000000000000000000.log.deleted",
        "rename leader-epoch-checkpoint",
        "sync_dir ",
        "create 00000000000000000050.log",
    ]
    .map(place);
    assert!(order.is_sorted(), "{done:?}");
    assert_eq!(done.last().unwrap(), "sync_dir ");
}

#[test]
fn a_truncation_before_the_logs_start_restarts_it() {
    let kit = Kit::new();
    let mut writer = filled(&kit);
    writer.resign();
    writer.advance_log_start(7).unwrap().remove().unwrap();
    assert_eq!(writer.truncate(5, NOW_MS).unwrap(), 5);
    let partition = writer.partition().clone();
    assert_eq!((partition.log_start(), partition.high_watermark(), partition.log_end()), (5, 5, 5));
    assert_eq!(names(kit.dir.path()), expected(5));
}

#[test]
fn discarded_segments_spare_a_restarted_log() {
    for retires in [true, false] {
        let kit = Kit::new();
        let mut writer = filled(&kit);
        writer.resign();
        let discarded = writer.advance_log_start(7).unwrap();
        assert_eq!(discarded.count(), 2);
        writer.truncate(3, NOW_MS).unwrap();
        if retires {
            discarded.retire().unwrap().remove().unwrap();
        } else {
            discarded.remove().unwrap();
        }
        assert_eq!(names(kit.dir.path()), expected(3));
    }
}

#[test]
fn failed_log_restart_takes_partition_offline() {
    let kit = Kit::new();
    let mut writer = filled(&kit);
    kit.disk.fail("create", "50.log", EIO);
    writer.restart_at(50, NOW_MS).unwrap_err();
    assert!(writer.partition().is_offline());
    for offset in [-1, i64::MAX / 2 + 1] {
        let kit = Kit::new();
        let mut writer = filled(&kit);
        assert!(matches!(writer.restart_at(offset, NOW_MS), Err(LogError::OutOfRange { .. })));
        assert!(!writer.partition().is_offline());
    }
}

#[test]
fn discarded_segments_spare_the_next_same_named_log() {
    for retires in [true, false] {
        let (kit, elsewhere) = (Kit::new(), tempdir().unwrap());
        let mut writer = filled(&kit);
        let discarded = writer.advance_log_start(7).unwrap();
        assert_eq!(discarded.count(), 2);
        let log = writer.partition().clone();
        drop(writer);
        log.leave(|| fs::rename(kit.dir.path(), elsewhere.path().join("deleted"))).unwrap();
        let next = filled(&kit);
        let before = names(kit.dir.path());
        if retires {
            discarded.retire().unwrap().remove().unwrap();
        } else {
            discarded.remove().unwrap();
        }
        assert_eq!(names(kit.dir.path()), before);
        drop(next);
    }
}

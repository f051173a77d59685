//! Appends of a follower, and the epochs of a log whose role changes.

use super::*;

/// A batch as a leader has it.
fn led(builder: Builder, (offset, epoch): (i64, i32), count: usize) -> Vec<u8> {
    records(builder.base_offset(offset).leader_epoch(epoch), count).to_vec()
}

fn plain_led(offset: i64, epoch: i32) -> Vec<u8> {
    led(Builder::new(), (offset, epoch), 2)
}

impl Kit {
    fn follow(&self) -> Writer {
        self.follow_with(LogConfig { index_interval_bytes: 100, ..LogConfig::default() })
    }

    fn follow_with(&self, config: LogConfig) -> Writer {
        let options =
            OpenOptions { config, disk: self.disk.clone(), ..OpenOptions::new(self.dir.path().join("t-0")) };
        let mut writer = Writer::open(options, NOW_MS).unwrap().0;
        writer.resign();
        self.disk.take_done();
        writer
    }

    fn epochs(&self) -> String {
        let text = fs::read_to_string(self.dir.path().join("t-0/leader-epoch-checkpoint")).unwrap();
        text.lines().skip(2).collect::<Vec<_>>().join(", ")
    }
}

#[test]
fn follower_appends_leader_batches_unchanged() {
    let kit = Kit::new();
    let mut writer = kit.follow();
    let answer = [plain_led(0, 3), plain_led(2, 3), plain_led(4, 5)].concat();
    let torn = [&answer[..], &plain_led(6, 5)[..70]].concat();
    kit.disk.take_done();
    let appended = writer.append_replica(&torn, from_leader(5), NOW_MS).unwrap();
    assert_eq!((appended.log_end, appended.batches, appended.max_timestamp), (6, 3, 5));
    assert_eq!(appended.bytes, answer.len() as u64);
    let writes = kit.disk.take_done().into_iter().filter(|done| done.starts_with("write_at")).count();
    assert_eq!(writes, 1, "one write for all batches of a segment");
    let partition = writer.partition().clone();
    assert_eq!(partition.read_batches(0, 1 << 20).unwrap(), answer);
    assert_eq!((partition.high_watermark(), partition.latest_epoch()), (0, 5));
    assert_eq!(partition.epoch_end_offset(3), (3, 4));
    assert_eq!(kit.epochs(), "3 0, 5 4");
    let again = writer.append_replica(&plain_led(6, 5)[..70], from_leader(5), NOW_MS).unwrap();
    assert_eq!((again.log_end, again.bytes, again.batches), (6, 0, 0));
}

#[test]
fn batches_beyond_fetch_leader_epoch_are_left_out() {
    let kit = Kit::new();
    let mut writer = kit.follow();
    let mut later = plain_led(4, 6);
    later[70] ^= 1;
    let answer = [plain_led(0, 4), plain_led(2, 5), later, plain_led(6, 5)].concat();
    let appended = writer.append_replica(&answer, from_leader(5), NOW_MS).unwrap();
    assert_eq!((appended.log_end, appended.batches), (4, 2));
    assert_eq!((writer.partition().latest_epoch(), kit.epochs()), (5, "4 0, 5 2".to_owned()));
}

#[test]
fn damaged_batch_keeps_whole_response_out_of_log() {
    let kit = Kit::new();
    let mut writer = kit.follow();
    let mut damaged = plain_led(2, 0);
    damaged[70] ^= 1;
    let answer = [plain_led(0, 0), damaged].concat();
    assert!(matches!(writer.append_replica(&answer, from_leader(0), NOW_MS), Err(AppendError::Batch(_))));
    let mut format = plain_led(2, 0);
    format[16] = 1;
    let answer = [plain_led(0, 0), format].concat();
    assert!(matches!(writer.append_replica(&answer, from_leader(0), NOW_MS), Err(AppendError::Batch(_))));
    assert_eq!((writer.partition().log_end(), writer.partition().size_bytes()), (0, 0));
    assert_eq!(writer.append_replica(&plain_led(0, 0), from_leader(0), NOW_MS).unwrap().log_end, 2);
}

#[test]
fn follower_refuses_lower_offsets_and_epochs() {
    let kit = Kit::new();
    let mut writer = kit.follow();
    writer.append_replica(&[plain_led(0, 2), plain_led(2, 4)].concat(), from_leader(4), NOW_MS).unwrap();
    let refused = [(2, 4), (0, 4), (4, 3), (4, -1), (-2, 4), (i64::MAX - 1, 4), (i64::MAX / 2, 4)];
    for (offset, epoch) in refused {
        let answer = plain_led(offset, epoch);
        let outcome = writer.append_replica(&answer, from_leader(4), NOW_MS);
        assert!(matches!(outcome, Err(AppendError::Order { .. })), "{offset} {epoch}: {outcome:?}");
        let answer = [plain_led(4, 4), plain_led(5, 4)].concat();
        assert!(matches!(
            writer.append_replica(&answer, from_leader(4), NOW_MS),
            Err(AppendError::Order { .. })
        ));
    }
    assert_eq!((writer.partition().log_end(), writer.partition().latest_epoch()), (4, 4));
}

#[test]
fn a_compacted_leader_leaves_gaps_of_any_width() {
    let kit = Kit::new();
    let mut writer = kit.follow();
    let far = 5 << 32;
    let answer = [plain_led(7, 0), plain_led(100, 0), plain_led(far, 1)].concat();
    assert_eq!(writer.append_replica(&answer, from_leader(1), NOW_MS).unwrap().log_end, far + 2);
    let partition = writer.partition().clone();
    partition.raise_high_watermark(far + 2);
    assert_eq!(partition.segment_count(), 2);
    assert_eq!(partition.read_batches(far, 1).unwrap(), plain_led(far, 1));
    assert_eq!(partition.read_batches(9, 1).unwrap(), plain_led(100, 0));
    assert_eq!(partition.flush_sealed().unwrap(), far);
    drop(writer);
    let writer = kit.follow();
    assert_eq!((writer.partition().log_end(), writer.partition().segment_count()), (far + 2, 2));
    assert_eq!(writer.partition().read_batches(far, 1).unwrap(), plain_led(far, 1));
}

#[test]
fn leader_and_follower_appends_are_exclusive() {
    let kit = Kit::new();
    let mut writer = kit.follow();
    assert!(matches!(plain(&mut writer), Err(AppendError::LeaderEpoch { led: -1, .. })));
    assert_eq!(writer.lead(3).unwrap(), 0);
    assert!(matches!(
        writer.append_replica(&plain_led(0, 2), from_leader(2), NOW_MS),
        Err(AppendError::LeaderEpoch { checked: 2, led: 3 })
    ));
    assert_eq!(plain(&mut writer).unwrap(), 0);
    writer.resign();
    assert_eq!(writer.append_replica(&plain_led(1, 4), from_leader(4), NOW_MS).unwrap().log_end, 3);
}

#[test]
fn leader_epoch_without_batch_is_durable() {
    let kit = Kit::new();
    let mut writer = kit.follow();
    writer.append_replica(&plain_led(0, 1), from_leader(1), NOW_MS).unwrap();
    kit.disk.take_done();
    assert_eq!(writer.lead(4).unwrap(), 2);
    let synced = ["sync leader-epoch-checkpoint.tmp", "rename leader-epoch-checkpoint", "sync_dir "];
    assert_eq!(kit.disk.take_done(), [&["write_file leader-epoch-checkpoint.tmp"], &synced[..]].concat());
    assert_eq!((kit.epochs(), writer.partition().epoch_end_offset(1)), ("1 0, 4 2".to_owned(), (1, 2)));
    plain(&mut writer).unwrap();
    kit.disk.take_done();
    assert_eq!(writer.lead(4).unwrap(), 2, "the end of the log when the epoch began");
    assert_eq!(kit.disk.take_done(), [""; 0]);
    assert_eq!(writer.lead(6).unwrap(), 3);
    assert_eq!(kit.epochs(), "1 0, 4 2, 6 3");
}

#[test]
fn failed_disk_leaves_leadership_unchanged() {
    let kit = Kit::new();
    let mut writer = kit.follow();
    writer.append_replica(&plain_led(0, 1), from_leader(1), NOW_MS).unwrap();
    kit.disk.fail("sync", "checkpoint.tmp", EIO);
    writer.lead(4).unwrap_err();
    assert!(matches!(plain(&mut writer), Err(AppendError::LeaderEpoch { led: -1, .. })));
    assert_eq!(writer.partition().latest_epoch(), 1);
    kit.disk.heal();
    assert_eq!(writer.lead(4).unwrap(), 2);
}

#[test]
fn truncation_at_log_end_drops_failed_leader_epoch() {
    let kit = Kit::new();
    let mut writer = kit.follow();
    writer.append_replica(&plain_led(0, 1), from_leader(1), NOW_MS).unwrap();
    writer.lead(4).unwrap();
    assert_eq!(writer.truncate(2, NOW_MS).unwrap(), 2);
    assert_eq!((writer.partition().latest_epoch(), kit.epochs()), (4, "1 0, 4 2".to_owned()), "still led");
    writer.resign();
    assert_eq!(writer.truncate(9, NOW_MS).unwrap(), 2);
    assert_eq!((writer.partition().latest_epoch(), kit.epochs()), (1, "1 0".to_owned()));
    writer.append_replica(&plain_led(2, 3), from_leader(3), NOW_MS).unwrap();
    assert_eq!(writer.truncate(2, NOW_MS).unwrap(), 2);
    assert_eq!(kit.epochs(), "1 0", "a follower begins no epoch where it is cut");
}

#[test]
fn full_disk_at_second_segment_keeps_first_batches() {
    let kit = Kit::new();
    let mut writer = kit.follow();
    writer.set_config(LogConfig { segment_bytes: 100, ..LogConfig::default() });
    let batches = [plain_led(0, 1), plain_led(2, 2), plain_led(4, 2)];
    kit.disk.fail("write_at", "02.log", ENOSPC);
    let answer = batches.concat();
    assert!(matches!(writer.append_replica(&answer, from_leader(2), NOW_MS), Err(AppendError::Storage(_))));
    let partition = writer.partition().clone();
    assert_eq!((partition.log_end(), partition.latest_epoch(), partition.is_offline()), (2, 1, false));
    kit.disk.heal();
    // The leader is asked from there.
    assert!(matches!(writer.append_replica(&answer, from_leader(2), NOW_MS), Err(AppendError::Order { .. })));
    assert_eq!(writer.append_replica(&batches[1..].concat(), from_leader(2), NOW_MS).unwrap().log_end, 6);
}

#[test]
fn full_disk_leaves_follower_unchanged() {
    let kit = Kit::new();
    let mut writer = kit.follow();
    let sequenced = |offset, epoch| led(Builder::new().producer(9, 0, offset as i32), (offset, epoch), 2);
    writer.append_replica(&sequenced(0, 1), from_leader(1), NOW_MS).unwrap();
    kit.disk.fail("write_at", ".log", ENOSPC);
    assert!(matches!(
        writer.append_replica(&sequenced(2, 2), from_leader(2), NOW_MS),
        Err(AppendError::Storage(_))
    ));
    kit.disk.heal();
    let partition = writer.partition().clone();
    assert_eq!((partition.log_end(), partition.latest_epoch(), partition.is_offline()), (2, 1, false));
    assert_eq!(writer.producer_states()[0].last_sequence, 1);
    // The epoch that was not written does not come back with the file.
    writer.append_replica(&sequenced(2, 1), from_leader(3), NOW_MS).unwrap();
    assert_eq!(kit.epochs(), "1 0");
    assert_eq!(writer.producer_states()[0].last_sequence, 3);
}

#[test]
fn follower_segments_roll_by_own_limits() {
    let kit = Kit::new();
    let config = LogConfig { segment_bytes: 600, index_interval_bytes: 100, ..LogConfig::default() };
    let mut writer = kit.follow_with(config);
    let large = led(Builder::new(), (20, 0), 9);
    let batches: Vec<Vec<u8>> = (0..10).map(|at| plain_led(at * 2, 0)).chain([large]).collect();
    assert_eq!(writer.append_replica(&batches.concat(), from_leader(0), NOW_MS).unwrap().log_end, 29);
    let partition = writer.partition().clone();
    assert_eq!(partition.segment_count(), 6, "the last one is larger than a segment");
    let mut read = Vec::new();
    for at in (0..20).step_by(2).chain([20]) {
        read.extend_from_slice(&partition.read_batches(at, 1).unwrap());
    }
    assert_eq!(read, batches.concat());
}

#[test]
fn append_time_replica_records_share_a_segment() {
    let kit = Kit::new();
    let config =
        LogConfig { timestamp_type: TimestampType::LogAppendTime, segment_ms: 1_000, ..LogConfig::default() };
    let mut writer = kit.follow_with(config);
    let batches: Vec<u8> = (0..10).flat_map(|at| plain_led(at * 2, 0)).collect();
    writer.append_replica(&batches, from_leader(0), 5_000_000).unwrap();
    assert_eq!(writer.partition().segment_count(), 1);
}

#[test]
fn empty_log_restarts_at_overlapping_batch() {
    let kit = Kit::new();
    let mut writer = kit.follow();
    let _ = writer.restart_at(11, NOW_MS).unwrap();
    let before = led(Builder::new(), (8, 3), 3);
    // The leader's log begins in the middle of this batch, or before it, if it is one that an
    // unclean election has made the leader's.
    let leader = from_leader(4);
    assert!(matches!(writer.append_replica(&before, leader, NOW_MS), Err(AppendError::Order { .. })));
    let answer = [led(Builder::new(), (8, 3), 5), plain_led(13, 4)].concat();
    assert_eq!(writer.append_replica(&answer, leader, NOW_MS).unwrap().log_end, 15);
    let partition = writer.partition().clone();
    assert_eq!((partition.log_start(), partition.high_watermark(), partition.log_end()), (8, 8, 15));
    assert_eq!(
        (partition.read_batches(8, 1 << 20).unwrap().to_vec(), kit.epochs()),
        (answer, "3 8, 4 13".to_owned())
    );
}

#[test]
fn log_ending_within_leader_batch_restarts_at_batch() {
    let kit = Kit::new();
    let mut writer = kit.follow();
    // Records of no other replica, cut where the leader's log begins: inside a batch.
    writer
        .append_replica(&[led(Builder::new(), (0, 1), 1), plain_led(1, 1)].concat(), from_leader(1), NOW_MS)
        .unwrap();
    assert_eq!(writer.truncate(1, NOW_MS).unwrap(), 1);
    let answer = [plain_led(0, 2), plain_led(2, 2)].concat();
    let leader = ReplicaSource { leader_epoch: 2, log_start: 1 };
    assert_eq!(writer.append_replica(&answer, leader, NOW_MS).unwrap().log_end, 4);
    let partition = writer.partition().clone();
    assert_eq!(
        (partition.read_batches(0, 1 << 20).unwrap().to_vec(), kit.epochs()),
        (answer, "2 0".to_owned())
    );
}

#[test]
fn possibly_shared_log_is_kept_despite_overlapping_batch() {
    let kit = Kit::new();
    let mut writer = kit.follow();
    let own = [plain_led(0, 1), led(Builder::new(), (2, 1), 1)].concat();
    writer.append_replica(&own, from_leader(1), NOW_MS).unwrap();
    let partition = writer.partition().clone();
    partition.raise_high_watermark(3);
    let answer = [plain_led(2, 2), plain_led(4, 2)].concat();
    // The leader's log begins below this log's end: it may have a part of this log.
    for log_start in [-1, 0, 1, 2] {
        let outcome = writer.append_replica(&answer, ReplicaSource { leader_epoch: 2, log_start }, NOW_MS);
        let text = outcome.unwrap_err().to_string();
        assert_eq!(
            text,
            format!(
                "the leader's batch does not continue this log: it has offset 2 and leader epoch 2, but the log ends \
                 at offset 3 in leader epoch 1 (the leader's log starts at {log_start})"
            )
        );
        assert_eq!((partition.log_start(), partition.high_watermark(), partition.log_end()), (0, 3, 3));
        assert_eq!(
            (partition.read_batches(0, 1 << 20).unwrap().to_vec(), kit.epochs()),
            (own.clone(), "1 0".to_owned())
        );
    }
    for log_start in [3, 4] {
        let kit = Kit::new();
        let mut writer = kit.follow();
        writer.append_replica(&own, from_leader(1), NOW_MS).unwrap();
        let leader = ReplicaSource { leader_epoch: 2, log_start };
        assert_eq!(writer.append_replica(&answer, leader, NOW_MS).unwrap().log_end, 6);
        assert_eq!(writer.partition().log_start(), 2);
    }
}

#[test]
fn follower_learns_aborted_transactions_of_leader() {
    let kit = Kit::new();
    let mut writer = kit.follow();
    let transactional = led(Builder::new().producer(9, 0, 0).transactional(), (0, 0), 2);
    let end = EndMarker {
        marker: Marker::Abort,
        producer_id: 9,
        producer_epoch: 0,
        coordinator_epoch: 0,
        timestamp_ms: 5,
    };
    let mut marker = end.build().unwrap().to_vec();
    marker[..8].copy_from_slice(&2_i64.to_be_bytes());
    marker[12..16].copy_from_slice(&0_i32.to_be_bytes());
    writer.append_replica(&transactional, from_leader(0), NOW_MS).unwrap();
    let partition = writer.partition().clone();
    partition.raise_high_watermark(2);
    assert_eq!(partition.last_stable(), 0);
    writer.append_replica(&marker, from_leader(0), NOW_MS).unwrap();
    assert_eq!(partition.last_stable(), 0, "the marker is not below the high watermark");
    partition.raise_high_watermark(3);
    assert_eq!(partition.last_stable(), 3);
    let aborted = partition.aborted(0, 3).unwrap();
    assert_eq!(aborted.iter().map(|one| (one.producer_id, one.first_offset)).collect::<Vec<_>>(), [(9, 0)]);
}

#[test]
fn reopened_log_restores_epochs_before_stored_checkpoint() {
    let kit = Kit::new();
    let mut writer = kit.follow();
    writer
        .append_replica(&[plain_led(0, 1), plain_led(2, 3), plain_led(4, 3)].concat(), from_leader(3), NOW_MS)
        .unwrap();
    writer.partition().raise_high_watermark(5);
    writer.advance_log_start(5).unwrap().remove().unwrap();
    writer.flush().unwrap();
    assert_eq!(kit.epochs(), "3 5");
    drop(writer);
    // The checkpoint of the log start was not stored before the process ended.
    let writer = kit.follow();
    let partition = writer.partition();
    assert_eq!((partition.log_start(), partition.epoch_at(0), partition.epoch_at(2)), (0, 1, 3));
    assert_eq!(partition.epoch_end_offset(1), (1, 2), "a follower with more of epoch 1 is told to truncate");
    assert_eq!(kit.epochs(), "1 0, 3 2");
}

#[test]
fn truncated_epoch_does_not_return_from_old_checkpoint() {
    let kit = Kit::new();
    let mut writer = kit.follow();
    writer
        .append_replica(&[plain_led(0, 1), plain_led(2, 1), plain_led(4, 3)].concat(), from_leader(3), NOW_MS)
        .unwrap();
    drop(writer);
    // Epoch 2 began at offset 2 without a batch, and the log was cut there. Of what followed, the
    // device has the batches, and not the new checkpoint.
    let path = kit.dir.path().join("t-0/leader-epoch-checkpoint");
    fs::write(&path, "0\n2\n1 0\n2 2\n").unwrap();
    let writer = kit.follow();
    let partition = writer.partition();
    assert_eq!((partition.epoch_at(2), partition.epoch_end_offset(1)), (1, (1, 4)));
    assert_eq!(kit.epochs(), "1 0, 3 4");
}

//! A log of which remote storage has the older part.

use super::*;
use crate::{Partition, ReadError, TieredState, Tiering};

fn tiered() -> LogConfig {
    LogConfig {
        segment_bytes: 200,
        index_interval_bytes: 100,
        tiering: Tiering::Copied,
        local_retention_ms: 0,
        retention_ms: -1,
        ..LogConfig::default()
    }
}

/// Six batches of one record, each in a segment of its own.
fn filled(kit: &Kit, config: LogConfig) -> Writer {
    let mut writer = kit.open_with(config, 0);
    for _ in 0..6 {
        plain(&mut writer).unwrap();
    }
    assert_eq!(writer.partition().segment_count(), 6);
    writer
}

#[test]
fn only_copied_segments_are_deleted_locally() {
    let kit = Kit::new();
    let mut writer = filled(&kit, tiered());
    let partition = writer.partition().clone();
    assert_eq!(writer.delete_old_segments(1_000_000).unwrap().count(), 0);
    partition.raise_highest_remote(2);
    let gone = writer.delete_old_segments(1_000_000).unwrap();
    assert_eq!(gone.count(), 3);
    gone.remove().unwrap();
    assert_eq!((partition.log_start(), partition.local_log_start()), (0, 3));
    let read = |offset| partition.read(offset, 1_000, 6, true).map(|slice| slice.base_offset);
    assert!(matches!(read(2), Err(ReadError::Remote { offset: 2, local_log_start: 3 })));
    assert_eq!(read(3).unwrap(), 3);
    assert_eq!(partition.leader_epochs(), [(0, 0)]);
}

#[test]
fn a_start_below_the_first_segment_needs_tiers() {
    let kit = Kit::new();
    let mut writer = filled(&kit, tiered());
    writer.partition().raise_highest_remote(2);
    writer.delete_old_segments(1_000_000).unwrap().remove().unwrap();
    writer.close().unwrap();
    let open = |config: LogConfig| {
        let options =
            OpenOptions { config, log_start: 1, disk: kit.disk.clone(), ..OpenOptions::new(kit.dir.path()) };
        Writer::open(options, NOW_MS).unwrap().0
    };
    let partition = open(tiered()).partition().clone();
    assert_eq!((partition.log_start(), partition.local_log_start(), partition.highest_remote()), (1, 3, -1));
    let partition = open(LogConfig { tiering: Tiering::Local, ..tiered() }).partition().clone();
    assert_eq!((partition.log_start(), partition.local_log_start()), (3, 3));
}

#[test]
fn an_old_last_segment_is_rolled() {
    let kit = Kit::new();
    let mut writer = filled(&kit, tiered());
    let partition = writer.partition().clone();
    partition.raise_highest_remote(4);
    assert_eq!(writer.delete_old_segments(1_000_000).unwrap().count(), 5);
    assert_eq!((partition.local_log_start(), partition.segment_count()), (5, 2));
    partition.raise_highest_remote(5);
    assert_eq!(writer.delete_old_segments(1_000_000).unwrap().count(), 1);
    assert_eq!((partition.log_start(), partition.local_log_start(), partition.log_end()), (0, 6, 6));
}

#[test]
fn retention_without_copies_raises_log_start() {
    let kit = Kit::new();
    let config = LogConfig { tiering: Tiering::ReadOnly, retention_ms: 0, ..tiered() };
    let mut writer = filled(&kit, config);
    writer.delete_old_segments(1_000_000).unwrap().remove().unwrap();
    assert_eq!((writer.partition().log_start(), writer.partition().local_log_start()), (6, 6));
}

#[test]
fn closed_segment_lists_its_files() {
    let kit = Kit::new();
    let writer = filled(&kit, tiered());
    let partition = writer.partition().clone();
    let bases = |from, upto| {
        let closed = partition.closed_segments(from, upto);
        closed.iter().map(|one| (one.base(), one.next_base())).collect::<Vec<_>>()
    };
    assert_eq!(bases(0, 2), [(0, 1), (1, 2)]);
    assert_eq!(bases(4, 6), [(4, 5)]);
    assert_eq!(bases(0, 0), []);
    let size = partition.size_bytes() / 6;
    assert_eq!([0, 1, 5, 99].map(|offset| partition.bytes_from(offset)), [6 * size, 5 * size, size, size]);
    let closed = &partition.closed_segments(2, 6)[0];
    let files = closed.files(NOW_MS).unwrap();
    let on_disk = |name: &str| fs::read(kit.dir.path().join(name)).unwrap();
    assert_eq!(closed.size_bytes(), on_disk("00000000000000000002.log").len() as u64);
    assert_eq!(files.offset_index.1, on_disk("00000000000000000002.index").len() as u64);
    assert_eq!(files.time_index.1, on_disk("00000000000000000002.timeindex").len() as u64);
    assert_eq!(files.producer_snapshot, on_disk("00000000000000000003.snapshot"));
    assert_eq!(files.leader_epochs, b"0\n1\n0 0\n");
    assert!(files.txn_index.is_none() && closed.is_txn_index_empty().unwrap());
    assert_eq!(closed.epochs(), [(0, 2)]);
}

#[test]
fn truncation_below_first_segment_restarts_the_log() {
    let kit = Kit::new();
    let mut writer = filled(&kit, tiered());
    let partition = writer.partition().clone();
    partition.raise_highest_remote(4);
    writer.delete_old_segments(1_000_000).unwrap().remove().unwrap();
    assert_eq!(writer.truncate(2, NOW_MS).unwrap(), 2);
    assert_eq!((partition.log_start(), partition.log_end(), partition.highest_remote()), (2, 2, 1));
}

/// The state after offset 3 of a log that begins at 1, with a transaction that is open from 2 on.
fn behind(kit: &Kit) -> TieredState {
    let mut writer = filled(kit, tiered());
    let mut batch = Builder::new().producer(7, 0, 0).transactional();
    batch.push(NOW_MS, None, Some(b"open"));
    let open = writer.append(&mut [Append::client(batch.build().unwrap())], NOW_MS).pop().unwrap().unwrap();
    plain(&mut writer).unwrap();
    let partition = writer.partition().clone();
    let closed = partition.closed_segments(open.base_offset, partition.log_end()).pop().unwrap();
    let files = closed.files(NOW_MS).unwrap();
    let local_start = closed.next_base();
    TieredState {
        log_start: 1,
        local_start,
        epochs: vec![(0, 1), (3, 4)],
        producers: files.producer_snapshot,
    }
}

#[test]
fn empty_log_restarts_after_remote_segments() {
    let (source, kit) = (Kit::new(), Kit::new());
    let state = behind(&source);
    let offset = state.local_start;
    let mut writer = filled(&kit, tiered());
    writer.restart_after(&state, NOW_MS).unwrap().remove().unwrap();
    let check = |partition: &Partition| {
        let marks = (partition.log_start(), partition.local_log_start(), partition.log_end());
        assert_eq!((marks, partition.high_watermark()), ((1, offset, offset), offset));
        assert_eq!(partition.leader_epochs(), state.epochs);
        assert_eq!((partition.latest_epoch(), partition.epoch_at(3)), (3, 0));
        assert_eq!(partition.last_stable(), offset - 1, "the transaction of the remote part is open");
        let remote = partition.read(2, 1_000, offset, true).unwrap_err();
        assert!(matches!(remote, ReadError::Remote { .. }), "{remote}");
    };
    check(writer.partition());
    writer.close().unwrap();
    let config = tiered();
    let options =
        OpenOptions { config, log_start: 1, disk: kit.disk.clone(), ..OpenOptions::new(kit.dir.path()) };
    check(Writer::open(options, NOW_MS).unwrap().0.partition());
}

#[test]
fn contradictory_remote_state_leaves_log_unchanged() {
    let (source, kit) = (Kit::new(), Kit::new());
    let state = behind(&source);
    let mut writer = filled(&kit, tiered());
    let wrong = [
        TieredState { log_start: state.local_start + 1, ..state.clone() },
        TieredState { log_start: -1, ..state.clone() },
        TieredState { epochs: Vec::new(), ..state.clone() },
        TieredState { epochs: vec![(3, 4), (2, 5)], ..state.clone() },
        TieredState { epochs: vec![(0, 0), (9, state.local_start)], ..state.clone() },
        TieredState { producers: b"none".to_vec(), ..state.clone() },
        TieredState { local_start: 2, epochs: vec![(0, 0)], ..state },
    ];
    for state in wrong {
        writer.restart_after(&state, NOW_MS).unwrap_err();
        assert_eq!((writer.partition().log_end(), writer.partition().is_offline()), (6, false), "{state:?}");
    }
}

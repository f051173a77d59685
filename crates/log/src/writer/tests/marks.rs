//! A log that other replicas have to follow, and one that is not led here.

use super::*;
use crate::ANY_LEADER_EPOCH;

fn replicated(kit: &Kit, high_watermark: i64) -> Writer {
    let options = OpenOptions { high_watermark: Some(high_watermark), ..OpenOptions::new(kit.dir.path()) };
    Writer::open(options, NOW_MS).unwrap().0
}

#[test]
fn records_are_hidden_until_replicated() {
    let kit = Kit::new();
    let mut writer = replicated(&kit, 0);
    plain(&mut writer).unwrap();
    let partition = writer.partition().clone();
    assert_eq!((partition.high_watermark(), partition.log_end()), (0, 1));
    assert!(writer.advance_log_start(1).is_err(), "records that others may not have stay");
    partition.raise_high_watermark(1);
    assert_eq!((partition.high_watermark(), partition.last_stable()), (1, 1));
    plain(&mut writer).unwrap();
    assert_eq!(partition.high_watermark(), 1);
    writer.set_sole_replica(true);
    assert_eq!(partition.high_watermark(), 2, "nobody else has to have it any more");
    plain(&mut writer).unwrap();
    assert_eq!(partition.high_watermark(), 3);
}

#[test]
fn ended_transaction_is_unstable_until_marker_is_replicated() {
    let kit = Kit::new();
    let mut writer = replicated(&kit, 0);
    append(&mut writer, records(Builder::new().producer(9, 0, 0).transactional(), 2)).unwrap();
    abort(&mut writer, 9).unwrap();
    plain(&mut writer).unwrap();
    let partition = writer.partition().clone();
    let stable_at = |high_watermark| {
        partition.raise_high_watermark(high_watermark);
        (partition.high_watermark(), partition.last_stable())
    };
    assert_eq!(stable_at(2), (2, 0), "its marker is not replicated");
    assert_eq!(stable_at(3), (3, 3), "it is");
    assert_eq!(stable_at(4), (4, 4));
}

#[test]
fn transaction_with_truncated_marker_is_open_again() {
    let kit = Kit::new();
    let mut writer = replicated(&kit, 0);
    append(&mut writer, records(Builder::new().producer(9, 0, 0).transactional(), 2)).unwrap();
    abort(&mut writer, 9).unwrap();
    writer.truncate(2, NOW_MS).unwrap();
    let partition = writer.partition().clone();
    partition.raise_high_watermark(2);
    assert_eq!((partition.high_watermark(), partition.last_stable()), (2, 0));
}

#[test]
fn log_opens_with_checkpointed_high_watermark() {
    let kit = Kit::new();
    let mut writer = replicated(&kit, 0);
    plain(&mut writer).unwrap();
    plain(&mut writer).unwrap();
    writer.close().unwrap();
    for (restored, expected) in [(1, 1), (7, 2)] {
        assert_eq!(replicated(&kit, restored).partition().high_watermark(), expected);
    }
}

#[test]
fn batch_checked_in_another_epoch_is_refused() {
    let kit = Kit::new();
    let mut writer = kit.open(0);
    let checked_in = |writer: &mut Writer, leader_epoch| {
        let mut group = [Append { leader_epoch, ..Append::client(records(Builder::new(), 1)) }];
        writer.append(&mut group, NOW_MS).pop().unwrap().map(|appended| appended.base_offset).map_err(
            |error| {
                let AppendError::LeaderEpoch { checked, led } = error else { panic!("{error}") };
                (checked, led)
            },
        )
    };
    let refused = |checked, led| Err((checked, led));
    assert_eq!(checked_in(&mut writer, 0), Ok(0));
    writer.set_leader_epoch(2);
    assert_eq!(checked_in(&mut writer, 0), refused(0, 2));
    assert_eq!(checked_in(&mut writer, 3), refused(3, 2));
    assert_eq!(checked_in(&mut writer, 2), Ok(1));
    writer.resign();
    assert_eq!(checked_in(&mut writer, 2), refused(2, -1));
    assert_eq!(checked_in(&mut writer, ANY_LEADER_EPOCH), refused(ANY_LEADER_EPOCH, -1));
    writer.set_leader_epoch(3);
    assert_eq!(checked_in(&mut writer, ANY_LEADER_EPOCH), Ok(2));
    assert_eq!(writer.partition().log_end(), 3);
}

//! Timestamps: when they begin a segment, what is found by them where a header misstates them, and
//! when a producer is forgotten by them.

use levada_base::batch;
use levada_base::compress::Compression;

use super::*;
use crate::{ReadError, TimestampOffset};

/// A batch of records with these timestamps.
fn timed(timestamps: &[i64]) -> BytesMut {
    let mut builder = Builder::new();
    for timestamp in timestamps {
        builder.push(*timestamp, Some(b"key"), Some(b"value"));
    }
    builder.build().unwrap()
}

fn append_at(writer: &mut Writer, records: BytesMut, now_ms: i64) {
    writer.append(&mut [Append::client(records)], now_ms).pop().unwrap().unwrap();
}

#[test]
fn segment_rolls_by_batch_time_not_clock() {
    let kit = Kit::new();
    let config = LogConfig { segment_ms: 1_000, ..LogConfig::default() };
    let mut writer = kit.open_with(config, 0);
    let partition = writer.partition().clone();
    for now_ms in [NOW_MS, 1_000_000, 1_000_000_000] {
        append_at(&mut writer, timed(&[10, 5]), now_ms);
    }
    append_at(&mut writer, timed(&[1_010]), NOW_MS);
    assert_eq!(partition.segment_count(), 1, "segment.ms after the first batch is not beyond it");
    append_at(&mut writer, timed(&[3, 1_011]), NOW_MS);
    assert_eq!(partition.segment_count(), 2);
    // Without a timestamp in the first batch, the segment's own age counts.
    writer.roll(NOW_MS).unwrap();
    append_at(&mut writer, timed(&[-1]), NOW_MS);
    append_at(&mut writer, timed(&[50_000]), NOW_MS + 1_000);
    assert_eq!(partition.segment_count(), 3);
    append_at(&mut writer, timed(&[-1]), NOW_MS + 1_001);
    assert_eq!(partition.segment_count(), 4);
}

#[test]
fn full_time_index_rolls_its_segment() {
    // An entry of the time index has 12 bytes, and the last one is kept for the end of the segment.
    // The first batch of a segment has no entry.
    for (segment_index_bytes, batches) in [(4, 1), (12, 1), (23, 1), (24, 2), (36, 3)] {
        let kit = Kit::new();
        let config = LogConfig { index_interval_bytes: 1, segment_index_bytes, ..LogConfig::default() };
        let mut writer = kit.open_with(config.clone(), 0);
        for timestamp in 0..6 {
            append_at(&mut writer, timed(&[timestamp]), NOW_MS);
        }
        let segments = |writer: &Writer| writer.partition().segment_count();
        assert_eq!(segments(&writer), 6 / batches, "{segment_index_bytes} bytes");
        writer.close().unwrap();
        let mut writer = kit.open_with(config, 6);
        append_at(&mut writer, timed(&[6]), NOW_MS);
        assert_eq!(segments(&writer), 6 / batches + 1, "{segment_index_bytes} bytes, opened again");
    }
}

#[test]
fn hidden_timestamps_in_old_logs_are_found() {
    for said in [-1, 5_999] {
        let kit = Kit::new();
        let mut writer = kit.open(0);
        let mut hiding = timed(&[6_000, 7_000]);
        assert!(batch::correct_max_timestamp(&mut hiding, said));
        append_at(&mut writer, hiding, NOW_MS);
        for opened_anew in [false, true] {
            let partition =
                if opened_anew { kit.open(0).partition().clone() } else { writer.partition().clone() };
            let at = |time| partition.times().first_at(time).unwrap().map(|found| found.offset);
            assert_eq!((at(0), at(said.max(0))), (Some(0), Some(0)), "{said}");
            if said == -1 {
                assert_eq!([at(6_000), at(6_001), at(7_001)], [Some(0), Some(1), None]);
                assert_eq!(partition.times().latest().unwrap().map(|found| found.offset), Some(1));
            }
        }
    }
}

#[test]
fn limited_timestamp_search_stops_at_oversized_batch() {
    let kit = Kit::new();
    let mut writer = kit.open(0);
    let mut builder = Builder::new().compression(Compression::Zstd);
    for time in [5, 9] {
        builder.push(time, None, Some(&[0; 5_000]));
    }
    append_at(&mut writer, builder.build().unwrap(), NOW_MS);
    let partition = writer.partition();
    let found = |found: Option<TimestampOffset>| found.map(|found| found.offset);
    assert_eq!(found(partition.times().within(20_000).first_at(6).unwrap()), Some(1));
    assert_eq!(found(partition.times().within(20_000).latest().unwrap()), Some(1));
    for limited in [partition.times().within(5_000).first_at(6), partition.times().within(5_000).latest()] {
        assert!(matches!(limited, Err(ReadError::Expands { bytes_max: 5_000 })), "{limited:?}");
    }
}

#[test]
fn producer_expires_by_last_time_after_restart() {
    let kit = Kit::new();
    let open = |now_ms| {
        let config = LogConfig { producer_id_expiration_ms: 100, ..LogConfig::default() };
        let disk = kit.disk.clone();
        let options = OpenOptions { config, disk, clean: true, ..OpenOptions::new(kit.dir.path()) };
        Writer::open(options, now_ms).unwrap().0
    };
    let mut writer = open(1_000);
    let mut batch = Builder::new().producer(9, 0, 0);
    let batch = batch.push(1_000, None, None).build().unwrap();
    append_at(&mut writer, batch, 1_000);
    writer.close().unwrap();
    let mut writer = open(1_050);
    assert_eq!((writer.producer_states().len(), writer.expire_producers(1_099)), (1, 0));
    assert_eq!((writer.expire_producers(1_100), writer.producer_states().len()), (1, 0));
    drop(writer);
    assert_eq!(open(1_100).producer_states().len(), 0);
    assert_eq!(open(1_099).producer_states().len(), 1);
}

#[test]
fn producer_with_open_transaction_does_not_expire() {
    let kit = Kit::new();
    let mut writer = kit.open(0);
    append(&mut writer, records(Builder::new().producer(9, 0, 0).transactional(), 2)).unwrap();
    assert_eq!(writer.expire_producers(i64::MAX), 0);
    abort(&mut writer, 9).unwrap();
    assert_eq!(writer.expire_producers(NOW_MS), 0);
    assert_eq!((writer.expire_producers(i64::MAX), writer.producer_states().len()), (1, 0));
}

#[test]
fn batch_timestamp_is_found_by_any_offset() {
    let kit = Kit::new();
    let mut writer = kit.open(0);
    append_at(&mut writer, timed(&[1_000, 3_000, 2_000]), NOW_MS);
    writer.roll(NOW_MS).unwrap();
    append_at(&mut writer, timed(&[5_000]), NOW_MS);
    let partition = writer.partition().clone();
    let at = |offset| partition.times().of_batch(offset).unwrap();
    assert_eq!([at(0), at(2), at(3), at(4)], [Some(3_000), Some(3_000), Some(5_000), None]);
}

#[test]
fn retention_opens_no_index_after_first_kept_segment() {
    let kit = Kit::new();
    let mut writer = kit.open(0);
    for time in [1_000, 2_000, 3_000] {
        append_at(&mut writer, timed(&[time]), NOW_MS);
        writer.roll(NOW_MS).unwrap();
    }
    writer.close().unwrap();
    let config = LogConfig { retention_ms: 100, ..LogConfig::default() };
    let mut writer = kit.open_with(config, 3);
    // The second segment is young: the times of the third do not matter.
    kit.disk.fail("open", "00000000000000000002.timeindex", EIO);
    let gone = writer.delete_old_segments(1_101).unwrap();
    assert_eq!(gone.count(), 1);
    gone.remove().unwrap();
    assert!(writer.delete_old_segments(2_101).is_err(), "it is read once it may go");
}

//! Refused batches with their messages, and batches that are compressed again.

use std::collections::BTreeMap;

use levada_base::batch::Builder;
use levada_config::BrokerConfig;

use super::*;

const NOW_MS: i64 = 1_700_000_000_000;
const HOUR_MS: i64 = 3_600_000;

fn config(own: &[(&str, &str)]) -> TopicConfig {
    let own: BTreeMap<_, _> = own.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
    TopicConfig::resolve(BrokerConfig::default().settings(), &own).unwrap()
}

/// A batch of records with these timestamps, and a key or none.
fn batch_of(records: &[(i64, bool)]) -> BytesMut {
    let mut builder = Builder::new();
    for (timestamp, keyed) in records {
        builder.push(*timestamp, keyed.then_some(&b"key"[..]), Some(b"value"));
    }
    builder.build().unwrap()
}

fn checked(batch: &[u8]) -> CheckedBatch<'_> {
    batch::check_within(batch, batch::MAX_EXPANDED).unwrap()
}

fn check(own: &[(&str, &str)], records: &[(i64, bool)], expected: Result<(), (ErrorCode, &[i32])>) {
    let batch = batch_of(records);
    let judged = judge(&checked(&batch), &config(own), || "t-0".to_owned(), NOW_MS);
    let judged = judged.map_err(|rejected| {
        (rejected.failure.code, rejected.errors.iter().map(|error| error.batch_index).collect::<Vec<_>>())
    });
    assert_eq!(judged, expected.map_err(|(code, indexes)| (code, indexes.to_vec())), "{own:?} {records:?}");
}

#[test]
fn records_that_break_topic_settings_are_refused() {
    let late = NOW_MS + HOUR_MS + 1;
    check(&[], &[(NOW_MS, false), (NOW_MS + HOUR_MS, true), (0, true)], Ok(()));
    check(&[], &[(NOW_MS, false), (late, true)], Err((ErrorCode::InvalidTimestamp, &[1])));
    check(&[("message.timestamp.type", "LogAppendTime")], &[(late, true)], Ok(()));
    let old = [("message.timestamp.before.max.ms", "1000")];
    check(&old, &[(NOW_MS - 1000, true), (-1, true)], Ok(()));
    check(&old, &[(NOW_MS, true), (NOW_MS - 1001, true)], Err((ErrorCode::InvalidTimestamp, &[1])));
    let compacted = [("cleanup.policy", "compact")];
    check(&compacted, &[(NOW_MS, true)], Ok(()));
    check(
        &compacted,
        &[(NOW_MS, false), (NOW_MS, true), (NOW_MS, false)],
        Err((ErrorCode::InvalidRecord, &[0, 2])),
    );
    check(&compacted, &[(NOW_MS, false), (late, true)], Err((ErrorCode::InvalidTimestamp, &[0, 1])));
}

#[test]
fn compressed_records_are_refused_by_expanded_size() {
    let build = |codec| {
        let mut builder = Builder::new().compression(codec);
        builder.push(NOW_MS, None, Some(&[7; 100]));
        builder.build().unwrap()
    };
    let (plain, compressed) = (build(Compression::None), build(Compression::Lz4));
    let judge = |batch: &BytesMut, limit| {
        let config = config(&[("max.decompressed.message.bytes", limit)]);
        judge(&checked(batch), &config, || "t-0".to_owned(), NOW_MS).map_err(|rejected| rejected.failure)
    };
    // Attributes, two deltas, lengths of key, value and headers, and the value.
    assert_eq!((judge(&compressed, "107"), judge(&plain, "106")), (Ok(()), Ok(())));
    let text = "Invalid record size: 107 exceeds the configured maximum record size of 106";
    assert_eq!(judge(&compressed, "106"), Err(Failure::new(ErrorCode::InvalidRecord, text)));
}

#[test]
fn refusals_have_kafkas_messages() {
    let said = |own: &[(&str, &str)], records: &[(i64, bool)]| {
        let batch = batch_of(records);
        let rejected = judge(&checked(&batch), &config(own), || "t-0".to_owned(), NOW_MS).unwrap_err();
        let first = rejected.errors[0].message.as_ref().unwrap().as_str().to_owned();
        (rejected.failure.message.unwrap(), first)
    };
    let (whole, record) = said(&[("message.timestamp.before.max.ms", "1000")], &[(5, true)]);
    assert_eq!(whole, "One or more records have been rejected due to invalid timestamp");
    let expected = "Timestamp 5 of message with offset 0 is out of range. The timestamp should be within \
                    [1699999999000, 1700003600000]";
    assert_eq!(record, expected);
    let (whole, record) = said(&[("cleanup.policy", "compact")], &[(NOW_MS, false)]);
    assert_eq!(record, "Compacted topic cannot accept message without key in topic partition t-0");
    let expected = "One or more records have been rejected due to 1 record errors in total, and only showing the first \
                    three errors at most: [RecordError(batchIndex=0, message='Compacted topic cannot accept message \
                    without key in topic partition t-0')]";
    assert_eq!(whole, expected);
}

#[test]
fn produce_refusal_names_limited_number_of_records() {
    let batch = batch_of(&[(NOW_MS, false); RECORD_ERRORS_MAX + 1]);
    let compacted = config(&[("cleanup.policy", "compact")]);
    let rejected = judge(&checked(&batch), &compacted, || "t-0".to_owned(), NOW_MS).unwrap_err();
    assert_eq!(rejected.errors.len(), RECORD_ERRORS_MAX);
    assert!(rejected.failure.message.unwrap().contains("due to 1001 record errors in total"));
}

#[test]
fn batches_take_the_topics_compression() {
    let plain = batch_of(&[(NOW_MS, true)]);
    for (name, codec) in [
        ("producer", Compression::None),
        ("uncompressed", Compression::None),
        ("gzip", Compression::Gzip),
        ("snappy", Compression::Snappy),
        ("lz4", Compression::Lz4),
        ("zstd", Compression::Zstd),
    ] {
        let stored = compress(plain.clone(), &config(&[("compression.type", name)])).unwrap();
        assert_eq!(batch::check(&stored).unwrap().compression().unwrap(), codec, "{name}");
        let kept = compress(stored.clone(), &config(&[])).unwrap();
        assert_eq!(kept, stored, "producer keeps {name}");
    }
}

/// The same batch with another largest timestamp in its header, and the checksum that goes with
/// that.
fn saying(mut batch: BytesMut, latest: i64) -> BytesMut {
    batch::correct_max_timestamp(&mut batch, latest);
    batch
}

#[test]
fn future_record_is_refused_despite_batch_header_timestamp() {
    let late = NOW_MS + HOUR_MS + 1;
    for said in [-1, 0, NOW_MS, i64::MIN] {
        let batch = saying(batch_of(&[(NOW_MS, true), (late, true)]), said);
        let rejected = judge(&checked(&batch), &config(&[]), || "t-0".to_owned(), NOW_MS).unwrap_err();
        assert_eq!(rejected.failure.code, ErrorCode::InvalidTimestamp, "{said}");
        assert_eq!(rejected.errors.iter().map(|error| error.batch_index).collect::<Vec<_>>(), [1], "{said}");
    }
    let batch = saying(batch_of(&[(NOW_MS, true)]), i64::MAX);
    assert!(
        judge(&checked(&batch), &config(&[]), || "t-0".to_owned(), NOW_MS).is_ok(),
        "its records are of now"
    );
}

#[test]
fn batch_with_log_append_time_is_refused() {
    let mut builder = Builder::new().log_append_time();
    builder.push(NOW_MS, Some(b"key"), None).push(NOW_MS, Some(b"key"), Some(b"value"));
    let batch = builder.build().unwrap();
    for kind in ["CreateTime", "LogAppendTime"] {
        let config = config(&[("message.timestamp.type", kind)]);
        let rejected = judge(&checked(&batch), &config, || "t-0".to_owned(), NOW_MS).unwrap_err();
        assert_eq!(rejected.failure.code, ErrorCode::InvalidTimestamp, "{kind}");
        let said: Vec<_> =
            rejected.errors.iter().map(|error| error.message.as_ref().unwrap().as_str()).collect();
        let expected = "Invalid timestamp type in message DefaultRecord(offset=0, timestamp=1700000000000, key=3 bytes, \
                        value=-1 bytes). Producer should not set timestamp type to LogAppendTime.";
        assert_eq!((said[0], said.len()), (expected, 2), "{kind}");
    }
}

#[test]
fn recompression_is_predicted_from_wanted_codec() {
    let plain = batch_of(&[(NOW_MS, true)]);
    let wanted = |own: &[(&str, &str)], batch: &[u8]| {
        wanted_codec(&BatchView::parse(batch).unwrap(), &config(own)).unwrap()
    };
    let zstd = [("compression.type", "zstd"), ("compression.zstd.level", "22")];
    assert_eq!(wanted(&[], &plain), None);
    assert_eq!(wanted(&zstd, &plain), Some((Compression::Zstd, Some(22))));
    let stored = compress(plain, &config(&zstd)).unwrap();
    assert_eq!(wanted(&zstd, &stored), None);
    assert_eq!(wanted(&[("compression.type", "uncompressed")], &stored), Some((Compression::None, None)));
}

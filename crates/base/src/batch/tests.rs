//! Batches come back as they were built, and every lie in one is found.

use levada_testing::scaled;
use proptest::prelude::*;

use super::*;

const ALL: [Compression; 5] =
    [Compression::None, Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd];

fn sample(compression: Compression) -> Vec<u8> {
    let mut builder = Builder::new().compression(compression).producer(7, 1, 3);
    builder.push(1_000, Some(b"k"), Some(b"value"));
    builder.push(990, None, Some(b""));
    builder.push_with_headers(1_005, Some(b""), None, &[(b"h", Some(b"1")), (b"h", None)]);
    builder.build().unwrap().to_vec()
}

fn reseal(mut bytes: Vec<u8>) -> Vec<u8> {
    seal(&mut bytes);
    bytes
}

#[test]
fn a_builder_is_empty_until_its_first_record() {
    let mut builder = Builder::new();
    assert!(builder.is_empty());
    builder.push(1_000, None, Some(b"value"));
    assert_eq!((builder.is_empty(), builder.len()), (false, 1));
}

#[test]
fn built_batch_header_describes_its_records() {
    let bytes = sample(Compression::None);
    let view = check(&bytes).unwrap();
    assert_eq!((view.base_offset(), view.last_offset(), view.record_count()), (0, 2, 3));
    assert_eq!((view.base_timestamp(), view.max_timestamp()), (1_000, 1_005));
    assert_eq!((view.producer_id(), view.producer_epoch()), (7, 1));
    assert_eq!((view.base_sequence(), view.last_sequence()), (3, 5));
    assert_eq!(view.size_bytes(), bytes.len());
    assert!(!view.is_control() && !view.is_transactional() && !view.is_log_append_time());
}

#[test]
fn records_round_trip() {
    for codec in ALL {
        let bytes = sample(codec);
        assert_eq!(check(&bytes).unwrap().compression().unwrap(), codec);
        let all: Vec<Record> = records(&bytes).unwrap().map(Result::unwrap).collect();
        assert_eq!(all.len(), 3, "{codec:?}");
        assert_eq!(all[0].key.as_deref(), Some(&b"k"[..]));
        assert_eq!(all[1].timestamp_delta, -10);
        assert_eq!((all[1].key.as_deref(), all[1].value.as_deref()), (None, Some(&b""[..])));
        assert_eq!((all[2].key.as_deref(), all[2].value.as_deref()), (Some(&b""[..]), None));
        assert_eq!(all[2].headers.len(), 2);
        assert_eq!(all[2].headers.iter().nth(1), Some(Header { key: b"h", value: None }));
        assert_eq!(all[2].headers.iter().collect::<Headers>(), all[2].headers);
    }
}

#[test]
fn contradictory_headers_are_refused() {
    let good = sample(Compression::None);
    let with = |at: usize, bytes: &[u8]| {
        let mut batch = good.clone();
        batch[at..at + bytes.len()].copy_from_slice(bytes);
        reseal(batch)
    };
    let refuse = |name: &str, bytes: &[u8], expected: &str| {
        let error = check(bytes).expect_err(name).to_string();
        assert!(error.contains(expected), "{name}: {error}");
    };
    refuse("empty", &[], "cut short");
    refuse("cut", &good[..good.len() - 1], "cut short");
    refuse("two", &[&good[..], &good[..]].concat(), "follow the batch");
    refuse("old format", &with(16, &[1]), "format 1");
    refuse("negative length", &with(8, &(-1_i32).to_be_bytes()), "impossible");
    refuse("tiny length", &with(8, &10_i32.to_be_bytes()), "impossible");
    refuse("huge length", &with(8, &i32::MAX.to_be_bytes()), "cut short");
    refuse("count", &with(57, &4_i32.to_be_bytes()), "disagree");
    refuse("count and delta", &with(23, &[0, 0, 0, 3]), "disagree");
    let mut both = with(57, &4_i32.to_be_bytes());
    both[23..27].copy_from_slice(&3_i32.to_be_bytes());
    refuse("one record missing", &reseal(both), "found Some(3)");
    let mut fewer = with(57, &2_i32.to_be_bytes());
    fewer[23..27].copy_from_slice(&1_i32.to_be_bytes());
    refuse("one record too many", &reseal(fewer), "after the last");
    refuse("codec", &with(21, &[0, 5]), "compression type 5");
    refuse("no sequence", &with(53, &(-1_i32).to_be_bytes()), "are not a valid combination");
    let mut nobody = with(21, &[0, 16]);
    nobody[43..51].copy_from_slice(&NO_PRODUCER_ID.to_be_bytes());
    refuse("transaction without producer", &reseal(nobody), "combination");
    let mut flipped = good.clone();
    flipped[70] ^= 1;
    refuse("flipped bit", &flipped, "checksum");
}

#[test]
fn producer_sequences_wrap_to_zero() {
    let mut builder = Builder::new().producer(1, 0, i32::MAX - 1);
    for _ in 0..4 {
        builder.push(0, None, None);
    }
    let bytes = builder.build().unwrap();
    assert_eq!(check(&bytes).unwrap().last_sequence(), 1);
}

#[test]
fn decompression_stops_at_given_size_limit() {
    let mut builder = Builder::new().compression(Compression::Zstd);
    builder.push(1, None, Some(&[0; 1000]));
    let bytes = builder.build().unwrap();
    check_within(&bytes, 2000).unwrap();
    let error = check_within(&bytes, 1000).unwrap_err();
    assert!(matches!(error, BatchError::Compression(CompressError::TooLarge { limit: 1000, .. })), "{error}");
}

#[test]
fn assign_keeps_checksum_and_stamp_renews_it() {
    let mut bytes = sample(Compression::Lz4);
    assign(&mut bytes, 1 << 40, 12);
    let view = check(&bytes).unwrap();
    assert_eq!((view.base_offset(), view.leader_epoch()), (1 << 40, 12));
    stamp(&mut bytes, 77);
    let view = check(&bytes).unwrap();
    assert_eq!((view.max_timestamp(), view.is_log_append_time()), (77, true));
}

#[test]
fn end_markers_round_trip() {
    for marker in [Marker::Abort, Marker::Commit] {
        let end =
            EndMarker { marker, producer_id: 9, producer_epoch: 2, coordinator_epoch: 5, timestamp_ms: 42 };
        let bytes = end.build().unwrap();
        let view = check(&bytes).unwrap();
        assert!(view.is_control() && view.is_transactional());
        let parsed = EndMarker::parse(&bytes).unwrap();
        assert_eq!((parsed.marker, parsed.coordinator_epoch), (marker, 5));
    }
    assert!(EndMarker::parse(&sample(Compression::None)).is_none());
}

#[test]
fn varint_lengths_match_their_encoding() {
    for value in [0, -1, 1, 63, 64, -64, -65, i64::from(i32::MAX), i64::MIN, i64::MAX] {
        let mut bytes = Vec::new();
        varint::put(&mut bytes, value);
        assert_eq!(bytes.len(), varint::len(value), "{value}");
        assert_eq!(varint::take_i64(&mut &bytes[..]), Some(value));
        assert_eq!(varint::take_i32(&mut &bytes[..]), i32::try_from(value).ok());
    }
    assert_eq!(varint::take_i32(&mut &[0x80; 5][..]), None);
}

type Sample = (i64, Option<Vec<u8>>, Option<Vec<u8>>);

fn any_records() -> impl Strategy<Value = Vec<Sample>> {
    let bytes = || prop::option::of(prop::collection::vec(any::<u8>(), 0..60));
    prop::collection::vec((0_i64..1 << 45, bytes(), bytes()), 1..20)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(scaled(64)))]
    #[test]
    fn any_batch_round_trips(input in any_records(), codec in 0_u8..5) {
        let mut builder = Builder::new().compression(Compression::from_id(codec).unwrap());
        for (timestamp, key, value) in &input {
            builder.push(*timestamp, key.as_deref(), value.as_deref());
        }
        let bytes = builder.build().unwrap();
        let base = check(&bytes).unwrap().base_timestamp();
        let output: Vec<Sample> = records(&bytes).unwrap().map(Result::unwrap)
            .map(|record| (base + record.timestamp_delta, record.key.map(Into::into), record.value.map(Into::into)))
            .collect();
        prop_assert_eq!(input, output);
    }

    #[test]
    fn damaged_batch_never_panics(codec in 0_u8..5, hits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6)) {
        let mut bytes = sample(Compression::from_id(codec).unwrap());
        for (at, value) in hits {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        let _ = check(&bytes);
        if bytes.len() > HEADER_LEN { seal(&mut bytes); }
        if let Ok(view) = check(&bytes) {
            prop_assert_eq!(records(view.bytes()).unwrap().filter_map(Result::ok).count() as i32, view.record_count());
        }
    }
}

/// A batch with these timestamps, and a header that says something else of the largest.
fn misstated(codec: Compression, timestamps: &[i64], said: i64) -> Vec<u8> {
    let mut builder = Builder::new().compression(codec);
    for timestamp in timestamps {
        builder.push(*timestamp, Some(b"key"), Some(&[9; 40]));
    }
    let mut bytes = builder.build().unwrap().to_vec();
    bytes[MAX_TIMESTAMP_AT..MAX_TIMESTAMP_AT + 8].copy_from_slice(&said.to_be_bytes());
    reseal(bytes)
}

#[test]
fn max_timestamp_is_corrected_from_batch_records() {
    for codec in ALL {
        for said in [-1, 0, 6, 8, i64::MAX, i64::MIN] {
            let mut bytes = misstated(codec, &[5, 7, -1, 3], said);
            let before = bytes.clone();
            let survey = check_within(&bytes, MAX_EXPANDED).unwrap().survey;
            // The largest record: attributes, two deltas, key, value and no header.
            assert_eq!(survey, Survey { earliest: 3, latest: 7, largest: 49 }, "{codec:?} {said}");
            assert!(correct_max_timestamp(&mut bytes, survey.latest), "{codec:?} {said}");
            assert_eq!(check(&bytes).unwrap().max_timestamp(), 7, "{codec:?} {said}");
            let (unlike, same) = (CRC_AT..CRC_AT + 4, MAX_TIMESTAMP_AT..MAX_TIMESTAMP_AT + 8);
            for at in (0..bytes.len()).filter(|at| !unlike.contains(at) && !same.contains(at)) {
                assert_eq!(bytes[at], before[at], "byte {at}");
            }
            assert!(!correct_max_timestamp(&mut bytes, 7), "nothing is left to correct");
        }
    }
    let none = misstated(Compression::None, &[-1, -1], 99);
    let survey = check_within(&none, MAX_EXPANDED).unwrap().survey;
    assert_eq!((survey.earliest, survey.latest), (-1, -1));
}

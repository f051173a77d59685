//! Records in the bytes that Kafka's schemas prescribe, built by hand, and hostile bytes.

use bytes::{BufMut, Bytes, BytesMut};
use levada_wire::Uuid;
use proptest::prelude::*;

use super::{Record, RecordError, Snapshot, Update};
use crate::machine::EncodedRecord;
use crate::share_state::batches::StateBatch;
use crate::share_state::key::ShareKey;

fn unhex(hex: &str) -> Bytes {
    let digits: Vec<char> = hex.chars().filter(|c| !c.is_whitespace()).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(&pair.iter().collect::<String>(), 16).unwrap()).collect()
}

fn key() -> ShareKey {
    let topic_id = Uuid::from_bytes(*b"0123456789abcdef");
    ShareKey { group_id: "gs".into(), topic_id, partition: 5 }
}

/// Version, group, topic id, partition.
const SNAPSHOT_KEY: &str = "0000 0002 6773 30313233343536373839616263646566 00000005";
const UPDATE_KEY: &str = "0001 0002 6773 30313233343536373839616263646566 00000005";

fn batch(first_offset: i64, last_offset: i64, delivery_state: i8, delivery_count: i16) -> StateBatch {
    StateBatch { first_offset, last_offset, delivery_state, delivery_count }
}

fn snapshot() -> Snapshot {
    Snapshot {
        snapshot_epoch: 3,
        state_epoch: 7,
        leader_epoch: 11,
        start_offset: 100,
        delivery_complete_count: 2,
        create_ms: 1_700_000_000_000,
        write_ms: 1_700_000_000_001,
        batches: vec![batch(100, 109, 0, 1), batch(110, 111, 2, 2)],
    }
}

fn update() -> Update {
    Update {
        snapshot_epoch: 3,
        leader_epoch: 11,
        start_offset: -1,
        delivery_complete_count: 300,
        batches: vec![batch(105, 105, 4, 5)],
    }
}

/// Each record, its key and its value.
fn golden() -> Vec<(Record, &'static str, Option<&'static str>)> {
    let initial = Snapshot {
        snapshot_epoch: 0,
        state_epoch: 1,
        leader_epoch: 0,
        start_offset: -1,
        delivery_complete_count: -1,
        batches: Vec::new(),
        ..snapshot()
    };
    let silent = Update { delivery_complete_count: -1, batches: Vec::new(), ..update() };
    vec![
        (
            Record::Snapshot(key(), Some(snapshot())),
            SNAPSHOT_KEY,
            Some(
                "0000 00000003 00000007 0000000b 0000000000000064 0000018bcfe56800 0000018bcfe56801 03
                 0000000000000064 000000000000006d 00 0001 00
                 000000000000006e 000000000000006f 02 0002 00
                 01 00 04 00000002",
            ),
        ),
        (
            Record::Snapshot(key(), Some(initial)),
            SNAPSHOT_KEY,
            Some(
                "0000 00000000 00000001 00000000 ffffffffffffffff 0000018bcfe56800 0000018bcfe56801 01
                 00",
            ),
        ),
        (Record::Snapshot(key(), None), SNAPSHOT_KEY, None),
        (
            Record::Update(key(), Some(update())),
            UPDATE_KEY,
            Some(
                "0000 00000003 0000000b ffffffffffffffff 02
                 0000000000000069 0000000000000069 04 0005 00
                 01 00 04 0000012c",
            ),
        ),
        (
            Record::Update(key(), Some(silent)),
            UPDATE_KEY,
            Some("0000 00000003 0000000b ffffffffffffffff 01 00"),
        ),
    ]
}

#[test]
fn records_have_kafkas_bytes() {
    for (record, key, value) in golden() {
        let expected = EncodedRecord { key: unhex(key), value: value.map(unhex) };
        assert_eq!(record.encode().unwrap(), expected, "{record:?}");
        assert_eq!(Record::decode(expected.key, expected.value).unwrap(), record);
    }
}

#[test]
fn a_long_list_has_a_longer_length() {
    let batches = (0..200).map(|offset| batch(2 * offset, 2 * offset, 0, 1)).collect();
    let record = Record::Update(key(), Some(Update { batches, ..update() }));
    let value = record.encode().unwrap().value.unwrap();
    // 201 as an unsigned varint.
    assert_eq!(value[18..20], [0xc9, 0x01]);
    assert_eq!(value.len(), 20 + 200 * 20 + 7);
}

#[test]
fn unknown_tags_are_skipped() {
    let (record, key, value) = golden().remove(0);
    let mut bytes = BytesMut::from(&unhex(value.unwrap())[..]);
    bytes.truncate(bytes.len() - 7);
    // Tags 0 and 9.
    bytes.put_slice(&unhex("02 00 04 00000002 09 02 ffff"));
    assert_eq!(Record::decode(unhex(key), Some(bytes.freeze())).unwrap(), record);
    // A tag in the only state batch of an update.
    let (record, key, _) = golden().remove(3);
    let value = "0000 00000003 0000000b ffffffffffffffff 02
                 0000000000000069 0000000000000069 04 0005 01 03 01 aa
                 01 00 04 0000012c";
    assert_eq!(Record::decode(unhex(key), Some(unhex(value))).unwrap(), record);
}

#[test]
fn unknown_records_are_refused_or_skipped() {
    let decode = |key: &str, value: &str| Record::decode(unhex(key), Some(unhex(value)));
    assert!(matches!(decode(SNAPSHOT_KEY, "0001"), Err(RecordError::UnknownVersion(1))));
    assert!(matches!(decode(UPDATE_KEY, "ffff"), Err(RecordError::UnknownVersion(-1))));
    assert!(decode(SNAPSHOT_KEY, "0001").unwrap_err().is_newer());
    let cut = "0000 00000003 0000000b ffffffffffffffff";
    assert!(matches!(decode(UPDATE_KEY, cut), Err(RecordError::Malformed { .. })));
    // A null list, and a huge list with nothing after its length.
    for list in ["00", "ffffff07"] {
        let error = decode(UPDATE_KEY, &format!("{cut}{list}")).unwrap_err();
        assert!(!error.is_newer(), "{error}");
    }
    assert_eq!(Record::decode(unhex("0002 aa"), None).unwrap(), Record::Other(2));
    assert!(Record::decode(unhex("00"), None).is_err());
    let long = ShareKey { group_id: "x".repeat(40_000).into(), ..key() };
    assert!(Record::Snapshot(long, None).encode().is_err());
    assert_eq!(Record::decode(unhex(UPDATE_KEY), None).unwrap(), Record::Update(key(), None));
}

fn batches() -> impl Strategy<Value = Vec<StateBatch>> {
    let fields = (any::<i64>(), any::<i64>(), any::<i8>(), any::<i16>());
    let batch = fields.prop_map(|(first, last, state, count)| batch(first, last, state, count));
    prop::collection::vec(batch, 0..5)
}

proptest! {
    #[test]
    fn any_record_survives_a_round_trip(
        numbers in (any::<i32>(), any::<i32>(), any::<i32>(), any::<i64>(), -2..3_i32),
        times in (any::<i64>(), any::<i64>()),
        batches in batches(),
        kind in 0..3,
    ) {
        let (snapshot_epoch, state_epoch, leader_epoch, start_offset, delivery_complete_count) = numbers;
        let (create_ms, write_ms) = times;
        let record = match kind {
            0 => Record::Snapshot(key(), Some(Snapshot {
                snapshot_epoch, state_epoch, leader_epoch, start_offset, delivery_complete_count,
                create_ms, write_ms, batches,
            })),
            1 => Record::Update(key(), Some(Update {
                snapshot_epoch, leader_epoch, start_offset, delivery_complete_count, batches,
            })),
            _ => Record::Snapshot(key(), None),
        };
        let EncodedRecord { key, value } = record.encode().unwrap();
        prop_assert_eq!(Record::decode(key, value).unwrap(), record);
    }

    #[test]
    fn any_bytes_are_read_or_refused(
        version in 0..3_u8,
        rest in prop::collection::vec(any::<u8>(), 0..40),
        mut value in prop::collection::vec(any::<u8>(), 0..120),
    ) {
        if let [high, low, ..] = &mut value[..] {
            (*high, *low) = (0, 0);
        }
        let bytes = [&[0, version], &rest[..]].concat();
        for key in [Bytes::from(bytes), unhex(SNAPSHOT_KEY), unhex(UPDATE_KEY)] {
            if let Ok(record) = Record::decode(key, Some(Bytes::from(value.clone()))) {
                prop_assert!(record.encode().is_ok());
            }
        }
    }
}

//! Golden records of a real Kafka, older versions, and hostile bytes.

use bytes::{BufMut, Bytes, BytesMut};
use levada_wire::Uuid;
use proptest::prelude::*;

use crate::group::coordinator::Replayed;

use super::{GroupValue, MemberValue, OffsetKey, OffsetValue, Record, RecordError};

fn unhex(hex: &str) -> Bytes {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

/// Every golden record with its partition, in the order of the logs.
pub(in crate::group) fn golden() -> Vec<(i32, Replayed)> {
    let text = include_str!("../../../testdata/group/consumer-offsets-4.3.1.txt");
    let records = text.lines().filter(|line| !line.starts_with('#'));
    records
        .map(|line| {
            let columns: Vec<&str> = line.split(' ').collect();
            let [partition, offset, producer, key, value] = columns[..] else { panic!("{line}") };
            let value = (value != "-").then(|| unhex(value));
            let (offset, transaction) = (offset.parse().unwrap(), producer.parse().ok());
            (partition.parse().unwrap(), Replayed { offset, transaction, key: unhex(key), value })
        })
        .collect()
}

#[test]
fn kafka_group_records_round_trip_unchanged() {
    let (mut offsets, mut groups, mut consumers) = (0, 0, 0);
    for (_, Replayed { key, value, .. }) in golden() {
        let record = Record::decode(key.clone(), value.clone()).unwrap();
        match &record {
            Record::Offset(..) => offsets += 1,
            Record::Group(..) => groups += 1,
            Record::Consumer(..) => consumers += 1,
            Record::Share(..) | Record::Streams(..) | Record::Other(_) => panic!("{record:?}"),
        }
        let encoded = record.encode().unwrap();
        assert_eq!((encoded.key, encoded.value), (key, value), "{record:?}");
    }
    assert_eq!((offsets, groups, consumers), (17, 19, 9));
}

#[test]
fn golden_offset_commit_is_decoded() {
    let find = |group: &str, topic: &str| {
        let records =
            golden().into_iter().map(|(_, record)| Record::decode(record.key, record.value).unwrap());
        let mut commits = records.filter_map(|record| match record {
            Record::Offset(key, value) if key.group_id == group && key.topic == topic => value,
            _ => None,
        });
        commits.next().unwrap()
    };
    let named = find("simple", "t");
    // The client library counts the NUL after its text as part of it.
    assert_eq!((named.offset, named.leader_epoch, named.metadata.as_str()), (5, 0, "grüße\0"));
    assert!(!named.topic_id.is_zero() && named.expire_timestamp_ms.is_none());
    let by_id = find("simple", "u");
    assert_eq!((by_id.offset, by_id.leader_epoch, by_id.topic_id.is_zero()), (7, -1, false));
    let expiring = find("old", "t");
    assert_eq!(expiring.expire_timestamp_ms, Some(expiring.commit_timestamp_ms + 3_600_000));
    assert_eq!((expiring.offset, expiring.metadata.as_str()), (9, "kept"));
}

fn put_string(out: &mut BytesMut, text: &str) {
    out.put_i16(i16::try_from(text.len()).unwrap());
    out.put_slice(text.as_bytes());
}

fn put_compact(out: &mut BytesMut, text: &str) {
    out.put_u8(u8::try_from(text.len() + 1).unwrap());
    out.put_slice(text.as_bytes());
}

#[test]
fn every_older_version_of_a_commit_is_read() {
    for version in 0..=4_i16 {
        let mut value = BytesMut::new();
        value.put_i16(version);
        value.put_i64(42);
        if version >= 3 {
            value.put_i32(7);
        }
        if version >= 4 {
            put_compact(&mut value, "m")
        } else {
            put_string(&mut value, "m")
        }
        value.put_i64(1_000);
        if version == 1 {
            value.put_i64(2_000);
        }
        if version >= 4 {
            // An unknown tag, which a later Kafka may add.
            value.put_slice(&[1, 9, 2, 0xaa, 0xbb]);
        }
        let expected = OffsetValue {
            offset: 42,
            leader_epoch: if version >= 3 { 7 } else { -1 },
            metadata: "m".into(),
            commit_timestamp_ms: 1_000,
            expire_timestamp_ms: (version == 1).then_some(2_000),
            topic_id: Uuid::ZERO,
        };
        assert_eq!(OffsetValue::decode(value.freeze()).unwrap(), expected, "version {version}");
    }
}

#[test]
fn every_older_version_of_a_generation_is_read() {
    for version in 0..=4_i16 {
        let mut value = BytesMut::new();
        let put = if version >= 4 { put_compact } else { put_string };
        let put_blob = |value: &mut BytesMut, blob: &[u8]| {
            if version >= 4 {
                value.put_u8(u8::try_from(blob.len() + 1).unwrap());
            } else {
                value.put_i32(i32::try_from(blob.len()).unwrap());
            }
            value.put_slice(blob);
        };
        value.put_i16(version);
        put(&mut value, "consumer");
        value.put_i32(3);
        put(&mut value, "range");
        put(&mut value, "a");
        if version >= 2 {
            value.put_i64(99);
        }
        if version >= 4 {
            value.put_u8(2)
        } else {
            value.put_i32(1)
        }
        put(&mut value, "a");
        if version >= 3 {
            put(&mut value, "i");
        }
        put(&mut value, "client");
        put(&mut value, "/host");
        if version >= 1 {
            value.put_i32(60_000);
        }
        value.put_i32(10_000);
        put_blob(&mut value, b"sub");
        put_blob(&mut value, b"asg");
        if version >= 4 {
            value.put_slice(&[0, 0]);
        }
        let expected = GroupValue {
            protocol_type: "consumer".into(),
            generation: 3,
            protocol_name: Some("range".into()),
            leader: Some("a".into()),
            state_timestamp_ms: if version >= 2 { 99 } else { -1 },
            members: vec![MemberValue {
                member_id: "a".into(),
                group_instance_id: (version >= 3).then(|| "i".into()),
                client_id: "client".into(),
                client_host: "/host".into(),
                rebalance_timeout_ms: if version >= 1 { 60_000 } else { -1 },
                session_timeout_ms: 10_000,
                subscription: Bytes::from_static(b"sub"),
                assignment: Bytes::from_static(b"asg"),
            }],
        };
        assert_eq!(GroupValue::decode(value.freeze()).unwrap(), expected, "version {version}");
    }
}

#[test]
fn malformed_group_records_are_refused() {
    fn check(key: &[u8], value: Option<&[u8]>, expected: &str) {
        let read = Record::decode(Bytes::copy_from_slice(key), value.map(Bytes::copy_from_slice));
        let error = read.unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
    }
    check(b"", None, "record key is malformed");
    check(&[0, 2, 0, 9, b'g'], None, "record key is malformed");
    check(&[0, 2, 0xff, 0xff], None, "record key is malformed");
    check(&[0, 2, 0, 1, 0xff], None, "record key is malformed");
    let key = [0, 2, 0, 1, b'g'];
    check(&key, Some(&[]), "group metadata value is malformed");
    check(&key, Some(&[0, 5]), "group metadata value has the unknown version 5");
    check(&key, Some(&[0xff, 0xff]), "group metadata value has the unknown version -1");
    // Two thousand million members in twenty bytes.
    let claims =
        [0, 3, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff];
    check(&key, Some(&claims), "group metadata value is malformed");
    let key = [0, 1, 0, 1, b'g', 0, 1, b't', 0, 0, 0, 0];
    check(&key, Some(&[0, 9]), "offset commit value has the unknown version 9");
    check(&key, Some(&[0, 4, 0, 0]), "offset commit value is malformed");
}

#[test]
fn record_with_too_long_group_id_is_refused() {
    let record = Record::Group("g".repeat(40_000), None);
    assert!(record.encode().unwrap_err().to_string().starts_with("a field is too long"));
}

prop_compose! {
    fn offset_record()(
        (group_id, topic, metadata) in ("[a-zé]{0,9}", "[a-z.]{1,9}", ".{0,20}"),
        (partition, leader_epoch) in (any::<i32>(), any::<i32>()),
        (offset, commit_timestamp_ms) in (any::<i64>(), any::<i64>()),
        // A version 1 value, the only one with an expiry, has neither epoch nor topic id.
        expire_timestamp_ms in proptest::option::of(0..i64::MAX),
        id in any::<u128>(),
    ) -> Record {
        let expires = expire_timestamp_ms.is_some();
        Record::Offset(OffsetKey { group_id, topic, partition }, Some(OffsetValue {
            offset,
            leader_epoch: if expires { -1 } else { leader_epoch },
            metadata,
            commit_timestamp_ms,
            expire_timestamp_ms,
            topic_id: if expires { Uuid::ZERO } else { Uuid::from_bytes(id.to_be_bytes()) },
        }))
    }
}

prop_compose! {
    fn member()(
        (member_id, client_id, client_host) in ("[a-z-]{0,9}", "[a-z]{0,9}", "/[0-9.]{0,9}"),
        group_instance_id in proptest::option::of("[a-z]{0,5}"),
        (rebalance_timeout_ms, session_timeout_ms) in (any::<i32>(), any::<i32>()),
        (subscription, assignment) in (proptest::collection::vec(any::<u8>(), 0..30), proptest::collection::vec(any::<u8>(), 0..30)),
    ) -> MemberValue {
        MemberValue {
            member_id, group_instance_id, client_id, client_host, rebalance_timeout_ms, session_timeout_ms,
            subscription: subscription.into(), assignment: assignment.into(),
        }
    }
}

prop_compose! {
    fn group_record()(
        (group_id, protocol_type) in ("[a-z]{0,9}", "[a-z]{0,9}"),
        (generation, state_timestamp_ms) in (any::<i32>(), any::<i64>()),
        (protocol_name, leader) in (proptest::option::of("[a-z]{0,5}"), proptest::option::of("[a-z]{0,5}")),
        members in proptest::collection::vec(member(), 0..4),
    ) -> Record {
        Record::Group(group_id, Some(GroupValue {
            protocol_type, generation, protocol_name, leader, state_timestamp_ms, members,
        }))
    }
}

proptest! {
    #[test]
    fn group_records_round_trip(record in prop_oneof![offset_record(), group_record()]) {
        let encoded = record.encode().unwrap();
        prop_assert_eq!(Record::decode(encoded.key, encoded.value).unwrap(), record);
    }

    #[test]
    fn any_bytes_are_read_or_refused(kind in 0..4_i16, version in 0..6_i16, bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
        let mut key = BytesMut::new();
        key.put_i16(kind);
        key.put_slice(&bytes);
        let mut value = BytesMut::new();
        value.put_i16(version);
        value.put_slice(&bytes);
        let whole: Result<_, RecordError> = Record::decode(key.freeze(), Some(value.clone().freeze()));
        drop(whole);
        let plain = Bytes::from_static(&[0, 2, 0, 1, b'g']);
        drop(Record::decode(plain, Some(value.freeze())));
    }

    #[test]
    fn a_cut_record_is_refused(record in prop_oneof![offset_record(), group_record()], cut in any::<prop::sample::Index>()) {
        let encoded = record.encode().unwrap();
        let value = encoded.value.unwrap();
        let value = value.slice(..cut.index(value.len()));
        prop_assert!(Record::decode(encoded.key, Some(value)).is_err());
    }
}

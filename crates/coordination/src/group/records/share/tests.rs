//! Golden records of Kafka's classes, and hostile bytes.

use std::collections::BTreeMap;

use bytes::{BufMut, Bytes, BytesMut};
use levada_base::Now;
use levada_wire::Uuid;
use proptest::prelude::*;

use super::{NamedTopic, ShareCurrentValue, ShareMemberMetadata, ShareRecord, StatePartitions};
use crate::group::coordinator::{Coordinator, Replayed};
use crate::group::event::Event;
use crate::group::records::{EpochValue, Partitions, Record, TargetEpoch};
use crate::group::tests::rig::config;

fn unhex(hex: &str) -> Bytes {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

/// Keys and values.
pub(in crate::group) fn golden() -> Vec<(Bytes, Option<Bytes>)> {
    let text = include_str!("../../../../testdata/group/share-records-4.3.1.txt");
    let records = text.lines().filter(|line| !line.starts_with('#'));
    let records = records.map(|line| {
        let (key, value) = line.split_once(' ').unwrap();
        (unhex(key), (value != "-").then(|| unhex(value)))
    });
    records.collect()
}

const ORDERS: Uuid = Uuid::from_bytes([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]);
const BILLS: Uuid = Uuid::from_bytes([17, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]);

fn named(partitions: &[i32]) -> BTreeMap<Uuid, NamedTopic> {
    let topic = NamedTopic { name: "orders".into(), partitions: partitions.iter().copied().collect() };
    [(ORDERS, topic)].into()
}

/// The golden records as Levada's.
fn records() -> Vec<ShareRecord> {
    let member = || "member".to_owned();
    let all: Partitions = [(ORDERS, [0, 1, 2].into())].into();
    let metadata = ShareMemberMetadata {
        rack_id: Some("rack".into()),
        client_id: "client".into(),
        client_host: "/127.0.0.1".into(),
        topics: ["orders".into(), "bills".into()].into(),
    };
    let current = ShareCurrentValue { epoch: 3, previous_epoch: 2, state: 0, assigned: all.clone() };
    let bare = ShareCurrentValue { previous_epoch: -1, ..ShareCurrentValue::default() };
    let state = StatePartitions {
        initializing: named(&[3]),
        initialized: named(&[0, 1, 2]),
        deleting: [(BILLS, "bills".to_owned())].into(),
    };
    vec![
        ShareRecord::Member(member(), Some(metadata)),
        ShareRecord::Member(member(), Some(ShareMemberMetadata::default())),
        ShareRecord::Epoch(Some(EpochValue { epoch: 3, metadata_hash: 0x1122_3344_5566_7788 })),
        ShareRecord::TargetEpoch(Some(TargetEpoch { epoch: 3, timestamp_ms: 1_700_000_000_000 })),
        ShareRecord::TargetEpoch(Some(TargetEpoch { epoch: 3, timestamp_ms: 0 })),
        ShareRecord::Target(member(), Some(all)),
        ShareRecord::Target(member(), Some(Partitions::new())),
        ShareRecord::Current(member(), Some(current)),
        ShareRecord::Current(member(), Some(bare)),
        ShareRecord::State(Some(state)),
        ShareRecord::State(Some(StatePartitions::default())),
        ShareRecord::Current(member(), None),
        ShareRecord::Target(member(), None),
        ShareRecord::TargetEpoch(None),
        ShareRecord::Member(member(), None),
        ShareRecord::State(None),
        ShareRecord::Epoch(None),
    ]
}

#[test]
fn kafkas_records_survive_round_trips_byte_for_byte() {
    let (golden, records) = (golden(), records());
    assert_eq!(golden.len(), records.len());
    for ((key, value), record) in golden.into_iter().zip(records) {
        let record = Record::Share("group".to_owned(), record);
        assert_eq!(Record::decode(key.clone(), value.clone()).unwrap(), record);
        let encoded = record.encode().unwrap();
        assert_eq!((encoded.key, encoded.value), (key, value), "{record:?}");
    }
}

/// A coordinator that has replayed the golden records of these numbers.
fn replayed(numbers: &[usize]) -> Coordinator {
    let golden = golden();
    let mut coordinator = Coordinator::new(config());
    for (offset, number) in (0..).zip(numbers) {
        let (key, value) = golden[*number].clone();
        coordinator.replay(Replayed { offset, transaction: None, key, value }).unwrap();
    }
    coordinator.step(Event::Loaded, Now { wall_ms: 0, steady_ms: 0 });
    coordinator
}

#[test]
fn records_are_replayed_in_any_order() {
    // A group with a member, in the order of Kafka, backwards, and after compaction.
    for numbers in [&[0, 2, 5, 3, 7, 9][..], &[9, 7, 3, 5, 2, 0], &[7, 9, 0, 5, 3, 2]] {
        let group = replayed(numbers).describe_share("group").unwrap();
        assert_eq!((group.epoch, group.target_epoch, group.members.len()), (3, 3, 1), "{numbers:?}");
        let member = &group.members[0];
        assert_eq!((member.epoch, &*member.client_id, member.assigned.len()), (3, "client", 1));
    }
    // Only state: a broker was stopped after it had altered offsets of a new group.
    let coordinator = replayed(&[9]);
    let group = coordinator.describe_share("group").unwrap();
    assert_eq!((group.state, group.epoch, group.target_epoch), ("Empty", 1, 1));
    let initialized = coordinator.initialized_share_partitions("group").unwrap();
    assert_eq!(initialized, [(ORDERS, [0, 1, 2].into())].into());
}

#[test]
fn tombstones_end_members_and_groups() {
    let all = [0, 2, 5, 3, 7, 9];
    // The member leaves; the epoch has another record.
    let left = replayed(&[&all[..], &[11, 12, 14, 2]].concat());
    assert_eq!(left.describe_share("group").unwrap().state, "Empty");
    let deleted = replayed(&[&all[..], &[11, 12, 14, 2, 13, 15, 16]].concat());
    assert!(!deleted.knows("group"));
    // Tombstones of what compaction has removed.
    for number in 11..17 {
        assert!(!replayed(&[number]).knows("group"), "{number}");
    }
    let again = replayed(&[&all[..], &[11, 12, 14, 13, 15, 16, 2]].concat());
    assert_eq!(again.describe_share("group").unwrap().target_epoch, 1, "the group is new");
}

#[test]
fn malformed_records_are_refused() {
    for kind in 10..=15_u8 {
        let mut key = vec![0, kind, 0, 1, b'g'];
        if matches!(kind, 10 | 13 | 14) {
            key.extend([0, 1, b'm']);
        }
        let read = |value: &[u8]| {
            let read = Record::decode(Bytes::copy_from_slice(&key), Some(Bytes::copy_from_slice(value)));
            read.unwrap_err().to_string()
        };
        assert!(read(&[]).contains("malformed"), "{}", read(&[]));
        assert!(read(&[0, 1]).contains("has the unknown version 1"), "{}", read(&[0, 1]));
        assert!(read(&[0, 0, 0xff]).contains("malformed"));
        key.truncate(4);
        assert!(Record::decode(Bytes::copy_from_slice(&key), None).is_err());
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(kind in 10..16_i16, bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
        let mut key = BytesMut::new();
        key.put_i16(kind);
        key.put_slice(&[0, 1, b'g', 0, 1, b'm']);
        let mut value = BytesMut::new();
        value.put_i16(0);
        value.put_slice(&bytes);
        drop(Record::decode(key.freeze(), Some(value.freeze())));
    }

    #[test]
    fn a_cut_record_is_refused(number in 0..11_usize, cut in any::<prop::sample::Index>()) {
        let (key, value) = golden()[number].clone();
        let value = value.unwrap();
        let value = value.slice(..cut.index(value.len()));
        prop_assert!(Record::decode(key, Some(value)).is_err());
    }
}

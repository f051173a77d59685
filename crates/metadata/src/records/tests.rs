//! Records against the bytes of a real Kafka 4.3.1.

use std::collections::BTreeMap;

use levada_base::batch::{BatchView, records};
use proptest::prelude::*;

use super::control::ControlRecord;
use super::*;

const LOG: &[u8] = include_bytes!("../../testdata/kafka-4.3.1/__cluster_metadata-0/00000000000000000000.log");
const FIRST_SNAPSHOT: &[u8] = include_bytes!(
    "../../testdata/kafka-4.3.1/__cluster_metadata-0/00000000000000000000-0000000000.checkpoint"
);
const BOOTSTRAP: &[u8] = include_bytes!("../../testdata/kafka-4.3.1/bootstrap.checkpoint");

/// Records of delegation tokens as `MetadataRecordSerde` of Kafka 4.3.1 writes them.
const TOKEN: &[u8] = b"\x01\x0a\x00\x0bUser:alice\x0aUser:root\x03\x09User:bob\x0bUser:carol\
    \0\0\x01\x8b\xcf\xe5\x68\0\0\0\x01\x8b\xf3\xf1\xec\0\0\0\x01\x8b\xd5\x0b\xc4\0\
    \x17mEUlLYkIRoCpW1u9lFnlWA\0";
const TOKEN_REMOVAL: &[u8] = b"\x01\x1a\x00\x17mEUlLYkIRoCpW1u9lFnlWA\0";

/// Calls `visit` with whether the record is a control record, its key and its value.
fn each_record(mut file: &[u8], mut visit: impl FnMut(bool, Bytes, Bytes)) {
    while !file.is_empty() {
        let batch = BatchView::parse(file).unwrap();
        for record in records(batch.bytes()).unwrap() {
            let record = record.unwrap();
            visit(batch.is_control(), record.key.unwrap_or_default(), record.value.unwrap());
        }
        file = &file[batch.bytes().len()..];
    }
}

#[test]
fn golden_metadata_records_round_trip_unchanged() {
    let mut kinds = BTreeMap::new();
    let mut controls = 0;
    for file in [LOG, FIRST_SNAPSHOT, BOOTSTRAP] {
        each_record(file, |is_control, key, value| {
            if is_control {
                controls += 1;
                let record = control::decode(key.clone(), value.clone()).unwrap();
                assert_eq!(control::encode(&record).unwrap(), (key, value), "{record:?}");
            } else {
                let (record, version) = decode(value.clone()).unwrap();
                assert_eq!(version, record.version(), "{record:?}");
                assert_eq!(encode(&record).unwrap(), value, "{record:?}");
                *kinds.entry(record.api_key()).or_insert(0) += 1;
            }
        });
    }
    // As counted by Kafka's own dump tool; the six levels are in the log and in the bootstrap file.
    let expected = [
        (0, 3),
        (2, 4),
        (3, 9),
        (4, 7),
        (5, 48),
        (9, 1),
        (11, 1),
        (12, 12),
        (14, 1),
        (15, 1),
        (17, 11),
        (18, 1),
        (20, 2),
        (23, 1),
        (24, 1),
        (27, 3),
    ];
    assert_eq!(kinds, BTreeMap::from(expected));
    assert_eq!(controls, 5 + 4 + 2);
}

#[test]
fn fields_are_where_kafkas_dump_shows_them() {
    let mut all = Vec::new();
    each_record(LOG, |is_control, _, value| all.extend((!is_control).then(|| decode(value).unwrap().0)));
    let partition = all.iter().find_map(|record| match record {
        Record::Partition(partition) => Some(partition),
        _ => None,
    });
    let partition = partition.unwrap();
    assert_eq!((&partition.replicas[..], &partition.isr[..], partition.leader), (&[1][..], &[1][..], 1));
    assert_eq!((partition.leader_epoch, partition.partition_epoch), (0, 0));
    assert_eq!((partition.directories.len(), &partition.eligible_leader_replicas), (1, &None));
    let broker = all.iter().find_map(|record| match record {
        Record::RegisterBroker(broker) => Some(broker),
        _ => None,
    });
    let broker = broker.unwrap();
    assert_eq!((broker.broker_id, broker.fenced, broker.log_dirs == partition.directories), (1, true, true));
    let endpoint = &broker.end_points[0];
    assert_eq!((&*endpoint.name, &*endpoint.host, endpoint.port), ("PLAINTEXT", "localhost", 23992));
    let removed = |record: &Record| matches!(record, Record::Config(config) if config.value.is_none());
    assert_eq!(all.iter().filter(|record| removed(record)).count(), 1);
    let retreat = |record: &Record| {
        matches!(record, Record::PartitionChange(change) if change.leader == NO_LEADER
            && change.isr.as_deref() == Some(&[]) && change.last_known_elr.as_deref() == Some(&[1]))
    };
    assert!(all.iter().any(retreat));
}

#[test]
fn token_records_have_kafkas_bytes() {
    let token_id = || "mEUlLYkIRoCpW1u9lFnlWA".into();
    let token = DelegationTokenRecord {
        owner: "User:alice".into(),
        requester: "User:root".into(),
        renewers: vec!["User:bob".into(), "User:carol".into()],
        issue_timestamp: 1_700_000_000_000,
        max_timestamp: 1_700_604_800_000,
        expiration_timestamp: 1_700_086_400_000,
        token_id: token_id(),
    };
    let removal = RemoveDelegationTokenRecord { token_id: token_id() };
    for (record, bytes) in [(Record::from(token), TOKEN), (removal.into(), TOKEN_REMOVAL)] {
        assert_eq!(encode(&record).unwrap(), bytes, "{record:?}");
        assert_eq!(decode(Bytes::from_static(bytes)).unwrap().0, record);
    }
}

#[test]
fn first_snapshot_names_the_voter() {
    let mut found = Vec::new();
    each_record(FIRST_SNAPSHOT, |_, key, value| found.push(control::decode(key, value).unwrap()));
    let [
        ControlRecord::SnapshotHeader { .. },
        ControlRecord::KRaftVersion(1),
        ControlRecord::Voters(voters),
        last,
    ] = &found[..]
    else {
        panic!("{found:?}");
    };
    assert_eq!(*last, ControlRecord::SnapshotFooter);
    assert_eq!(
        (voters[0].voter_id, &*voters[0].endpoints[0].name, voters[0].max_kraft_version),
        (1, "CONTROLLER", 1)
    );
}

#[test]
fn unknown_metadata_records_are_refused() {
    let check = |bytes: &'static [u8], expected: RecordError| {
        assert_eq!(decode(Bytes::from_static(bytes)), Err(expected));
    };
    check(&[0, 2, 0], RecordError::UnknownFrame { frame_version: 0 });
    check(&[2, 2, 0], RecordError::UnknownFrame { frame_version: 2 });
    check(&[1, 6, 0], RecordError::UnknownKind { api_key: 6 });
    check(&[1, 30, 0], RecordError::UnknownKind { api_key: 30 });
    check(&[1, 3, 3], RecordError::UnknownVersion { api_key: 3, version: 3 });
    check(&[1, 0xff, 0xff, 0x03, 0], RecordError::NumberTooLarge { number: 0xffff });
    assert!(matches!(decode(Bytes::from_static(&[1, 20, 0, 0, 0])), Err(RecordError::Malformed(_))));
    assert!(matches!(decode(Bytes::from_static(&[1, 2, 0])), Err(RecordError::Malformed(_))));
}

#[test]
fn tags_of_a_newer_kafka_are_skipped() {
    let value = Bytes::from_static(&[1, 20, 0, 1, 7, 3, b'n', b'e', b'w']);
    assert_eq!(decode(value).unwrap().0, Record::NoOp(NoOpRecord));
}

fn any_uuid() -> impl Strategy<Value = levada_wire::primitives::Uuid> {
    any::<[u8; 16]>().prop_map(levada_wire::primitives::Uuid::from_bytes)
}

fn any_ids() -> impl Strategy<Value = Vec<i32>> {
    prop::collection::vec(any::<i32>(), 0..4)
}

fn any_partition() -> impl Strategy<Value = Record> {
    let optional = || prop::option::of(any_ids());
    let ids = (any_ids(), any_ids(), any_ids(), any_ids(), optional(), optional());
    let numbers = (any::<i32>(), any::<i32>(), any::<i8>(), any::<i32>(), any::<i32>());
    (ids, numbers, any_uuid(), prop::collection::vec(any_uuid(), 0..3)).prop_map(
        |(
            (replicas, isr, removing_replicas, adding_replicas, eligible, last),
            numbers,
            topic_id,
            directories,
        )| {
            let (partition_id, leader, leader_recovery_state, leader_epoch, partition_epoch) = numbers;
            Record::from(PartitionRecord {
                partition_id,
                topic_id,
                replicas,
                isr,
                removing_replicas,
                adding_replicas,
                leader,
                leader_recovery_state,
                leader_epoch,
                partition_epoch,
                directories,
                eligible_leader_replicas: eligible,
                last_known_elr: last,
            })
        },
    )
}

fn any_change() -> impl Strategy<Value = Record> {
    let optional = || prop::option::of(any_ids());
    let ids = (optional(), optional(), optional(), optional(), optional(), optional());
    let directories = prop::option::of(prop::collection::vec(any_uuid(), 0..3));
    (ids, any::<(i32, i32, i8)>(), any_uuid(), directories).prop_map(
        |(
            (isr, replicas, removing_replicas, adding_replicas, eligible, last),
            numbers,
            topic_id,
            directories,
        )| {
            Record::from(PartitionChangeRecord {
                partition_id: numbers.0,
                topic_id,
                isr,
                leader: numbers.1,
                replicas,
                removing_replicas,
                adding_replicas,
                leader_recovery_state: numbers.2,
                directories,
                eligible_leader_replicas: eligible,
                last_known_elr: last,
            })
        },
    )
}

fn any_small() -> impl Strategy<Value = Record> {
    prop_oneof![
        (".{0,8}", any_uuid()).prop_map(|(name, topic_id)| TopicRecord { name, topic_id }.into()),
        any_uuid().prop_map(|topic_id| RemoveTopicRecord { topic_id }.into()),
        (any::<i8>(), ".{0,8}", ".{0,8}", prop::option::of(".{0,8}")).prop_map(
            |(resource_type, resource_name, name, value)| {
                ConfigRecord { resource_type, resource_name, name, value }.into()
            }
        ),
        (any::<(i32, i64, i8, i8)>(), prop::collection::vec(any_uuid(), 0..3), any::<bool>()).prop_map(
            |((broker_id, broker_epoch, fenced, in_controlled_shutdown), log_dirs, cordoned)| {
                let cordoned_log_dirs = cordoned.then(|| log_dirs.clone());
                let record = BrokerRegistrationChangeRecord {
                    broker_id,
                    broker_epoch,
                    fenced,
                    in_controlled_shutdown,
                    log_dirs,
                    cordoned_log_dirs,
                };
                record.into()
            }
        ),
        prop::option::of(".{0,8}").prop_map(|name| BeginTransactionRecord { name }.into()),
        (".{0,8}", any::<i8>(), any::<Vec<u8>>(), any::<i32>()).prop_map(
            |(name, mechanism, salt, iterations)| {
                let keys = || salt.iter().rev().copied().collect();
                let (stored_key, server_key) = (keys(), keys());
                UserScramCredentialRecord { name, mechanism, salt, stored_key, server_key, iterations }.into()
            }
        ),
        (".{0,8}", any::<i8>()).prop_map(|(name, mechanism)| RemoveUserScramCredentialRecord {
            name,
            mechanism
        }
        .into()),
        (any_uuid(), any::<[i8; 4]>(), ".{0,8}", ".{0,8}", ".{0,8}").prop_map(
            |(
                id,
                [resource_type, pattern_type, operation, permission_type],
                resource_name,
                principal,
                host,
            )| {
                let record = AccessControlEntryRecord {
                    id,
                    resource_type,
                    resource_name,
                    pattern_type,
                    principal,
                    host,
                    operation,
                    permission_type,
                };
                record.into()
            }
        ),
        any_uuid().prop_map(|id| RemoveAccessControlEntryRecord { id }.into()),
        any::<Vec<u8>>().prop_map(|body| Record::Opaque(Opaque {
            api_key: 21,
            version: 0,
            body: body.into()
        })),
    ]
}

fn any_token() -> impl Strategy<Value = Record> {
    prop_oneof![
        (".{0,8}", prop::collection::vec(".{0,8}", 0..3), any::<[i64; 3]>(), ".{0,8}").prop_map(
            |(owner, renewers, [issue_timestamp, max_timestamp, expiration_timestamp], token_id)| {
                let requester = owner.clone();
                let record = DelegationTokenRecord {
                    owner,
                    requester,
                    renewers,
                    issue_timestamp,
                    max_timestamp,
                    expiration_timestamp,
                    token_id,
                };
                record.into()
            }
        ),
        ".{0,8}".prop_map(|token_id| RemoveDelegationTokenRecord { token_id }.into()),
    ]
}

proptest! {
    #[test]
    fn metadata_records_round_trip(
        record in prop_oneof![any_partition(), any_change(), any_small(), any_token()],
    ) {
        let bytes = encode(&record).unwrap();
        prop_assert_eq!(decode(bytes).unwrap(), (record.clone(), record.version()));
    }

    #[test]
    fn damaged_metadata_records_never_panic(
        record in prop_oneof![any_partition(), any_change(), any_small(), any_token()],
        at: prop::sample::Index,
        byte: u8,
    ) {
        let mut bytes = encode(&record).unwrap().to_vec();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let Ok((other, version)) = decode(Bytes::from(bytes)) {
            encode_as(&other, version).unwrap();
        }
    }
}

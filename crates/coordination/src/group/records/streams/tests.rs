//! Golden records of Kafka's classes, and hostile bytes.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use levada_base::Now;
use proptest::prelude::*;

use super::{
    CopartitionGroup, Endpoint, EpochTasks, HeldTasks, InternalTopic, StreamsCurrentValue, StreamsEpochValue,
    StreamsMemberMetadata, StreamsRecord, Subtopology, TaskSets, Tasks, Topology,
};
use crate::group::coordinator::{Coordinator, Replayed};
use crate::group::event::Event;
use crate::group::records::{Record, TargetEpoch};
use crate::group::tests::rig::config;

fn unhex(hex: &str) -> Bytes {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

/// Keys and values.
pub(in crate::group) fn golden() -> Vec<(Bytes, Option<Bytes>)> {
    let text = include_str!("../../../../testdata/group/streams-records-4.3.1.txt");
    let records = text.lines().filter(|line| !line.starts_with('#'));
    let records = records.map(|line| {
        let (key, value) = line.split_once(' ').unwrap();
        (unhex(key), (value != "-").then(|| unhex(value)))
    });
    records.collect()
}

fn tasks<const COUNT: usize>(tasks: [(&str, &[i32]); COUNT]) -> Tasks {
    tasks.map(|(id, tasks)| (id.to_owned(), tasks.iter().copied().collect())).into()
}

fn epoch_tasks(id: &str, tasks: &[(i32, i32)]) -> EpochTasks {
    [(id.to_owned(), tasks.iter().copied().collect())].into()
}

fn texts<const COUNT: usize>(texts: [&str; COUNT]) -> Vec<String> {
    texts.map(str::to_owned).into()
}

fn pair(key: &str, value: &str) -> (String, String) {
    (key.to_owned(), value.to_owned())
}

fn metadata() -> StreamsMemberMetadata {
    StreamsMemberMetadata {
        instance_id: Some("instance".into()),
        rack_id: Some("rack".into()),
        client_id: "client".into(),
        client_host: "/127.0.0.1".into(),
        rebalance_timeout_ms: 60_000,
        topology_epoch: 2,
        process_id: "process".into(),
        user_endpoint: Some(Endpoint { host: "host".into(), port: 65_535 }),
        client_tags: [pair("cluster", "one"), pair("zone", "two")].into(),
    }
}

fn topology() -> Topology {
    let first = Subtopology {
        id: "0".into(),
        source_topics: texts(["words", "more"]),
        repartition_sink_topics: texts(["repartition"]),
        ..Subtopology::default()
    };
    let repartition = InternalTopic {
        name: "repartition".into(),
        partitions: 4,
        replication_factor: 3,
        configs: vec![pair("cleanup.policy", "delete"), pair("retention.ms", "-1")],
    };
    let second = Subtopology {
        id: "1".into(),
        source_topics: texts(["names"]),
        source_topic_regex: texts(["n.*"]),
        state_changelog_topics: vec![InternalTopic { name: "changelog".into(), ..InternalTopic::default() }],
        repartition_source_topics: vec![repartition],
        copartition_groups: vec![CopartitionGroup {
            source_topics: vec![0],
            source_topic_regex: vec![0],
            repartition_source_topics: vec![0],
        }],
        ..Subtopology::default()
    };
    Topology { epoch: 2, subtopologies: vec![first, second] }
}

/// The golden records as Levada's.
fn records() -> Vec<StreamsRecord> {
    let member = || "member".to_owned();
    let epoch = StreamsEpochValue {
        epoch: 3,
        metadata_hash: 0x1122_3344_5566_7788,
        validated_topology_epoch: 2,
        assignment_configs: [pair("num.standby.replicas", "1")].into(),
    };
    let bare_epoch = StreamsEpochValue {
        epoch: 1,
        metadata_hash: 0,
        validated_topology_epoch: -1,
        assignment_configs: [].into(),
    };
    let bare = StreamsMemberMetadata { rebalance_timeout_ms: -1, ..StreamsMemberMetadata::default() };
    let target = TaskSets {
        active: tasks([("0", &[0, 2]), ("1", &[1])]),
        standby: tasks([("1", &[0])]),
        warmup: tasks([("1", &[2])]),
    };
    let current = StreamsCurrentValue {
        epoch: 3,
        previous_epoch: 2,
        state: 2,
        assigned: HeldTasks {
            active: epoch_tasks("0", &[(0, 3), (2, 1)]),
            standby: tasks([("1", &[0])]),
            warmup: tasks([("1", &[2])]),
        },
        revoking: HeldTasks {
            active: epoch_tasks("0", &[(1, 2)]),
            standby: tasks([("1", &[3])]),
            warmup: Tasks::new(),
        },
    };
    let bare_current = StreamsCurrentValue { state: 1, ..StreamsCurrentValue::default() };
    vec![
        StreamsRecord::Epoch(Some(epoch)),
        StreamsRecord::Epoch(Some(bare_epoch)),
        StreamsRecord::Member(member(), Some(metadata())),
        StreamsRecord::Member(member(), Some(bare)),
        StreamsRecord::TargetEpoch(Some(TargetEpoch { epoch: 3, timestamp_ms: 1_700_000_000_000 })),
        StreamsRecord::TargetEpoch(Some(TargetEpoch { epoch: 3, timestamp_ms: 0 })),
        StreamsRecord::Target(member(), Some(target)),
        StreamsRecord::Target(member(), Some(TaskSets::default())),
        StreamsRecord::Current(member(), Some(current)),
        StreamsRecord::Current(member(), Some(bare_current)),
        StreamsRecord::Topology(Some(Arc::new(topology()))),
        StreamsRecord::Topology(Some(Arc::default())),
        StreamsRecord::Current(member(), None),
        StreamsRecord::Target(member(), None),
        StreamsRecord::Member(member(), None),
        StreamsRecord::TargetEpoch(None),
        StreamsRecord::Epoch(None),
        StreamsRecord::Topology(None),
    ]
}

#[test]
fn kafkas_records_survive_round_trips_byte_for_byte() {
    let (golden, records) = (golden(), records());
    assert_eq!(golden.len(), records.len());
    for ((key, value), record) in golden.into_iter().zip(records) {
        let record = Record::Streams("group".to_owned(), record);
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
    for numbers in [&[2, 10, 0, 6, 4, 8][..], &[8, 4, 6, 0, 10, 2], &[6, 8, 2, 10, 4, 0]] {
        let group = replayed(numbers).describe_streams("group").unwrap();
        assert_eq!((group.epoch, group.target_epoch, group.members.len()), (3, 3, 1), "{numbers:?}");
        let member = &group.members[0];
        assert_eq!((member.epoch, &member.metadata, member.assigned.active.len()), (3, &metadata(), 1));
        let topology = group.topology.unwrap();
        assert_eq!((topology.epoch, topology.subtopologies.len(), group.state), (2, 2, "Reconciling"));
    }
}

#[test]
fn tombstones_end_members_and_groups() {
    let all = [2, 10, 0, 6, 4, 8];
    let left = replayed(&[&all[..], &[12, 13, 14, 0]].concat());
    assert_eq!(left.describe_streams("group").unwrap().state, "Empty");
    let deleted = replayed(&[&all[..], &[12, 13, 14, 0, 15, 16, 17]].concat());
    assert!(!deleted.knows("group"));
    // Tombstones of what compaction has removed.
    for number in 12..18 {
        assert!(!replayed(&[number]).knows("group"), "{number}");
    }
    let again = replayed(&[&all[..], &[12, 13, 14, 15, 16, 17, 0]].concat());
    assert_eq!(again.describe_streams("group").unwrap().topology, None, "the group is new");
}

#[test]
fn malformed_records_are_refused() {
    for kind in [17_u8, 19, 20, 21, 22, 23] {
        let mut key = vec![0, kind, 0, 1, b'g'];
        if matches!(kind, 19 | 21 | 22) {
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
    fn any_bytes_are_read_or_refused(kind in 17..24_i16, bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
        let mut key = BytesMut::new();
        key.put_i16(kind);
        key.put_slice(&[0, 1, b'g', 0, 1, b'm']);
        let mut value = BytesMut::new();
        value.put_i16(0);
        value.put_slice(&bytes);
        drop(Record::decode(key.freeze(), Some(value.freeze())));
    }

    #[test]
    fn a_cut_record_is_refused(number in 0..12_usize, cut in any::<prop::sample::Index>()) {
        let (key, value) = golden()[number].clone();
        let value = value.unwrap();
        let value = value.slice(..cut.index(value.len()));
        prop_assert!(Record::decode(key, Some(value)).is_err());
    }
}

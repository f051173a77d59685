//! Start offsets of share groups: described, set and deleted.

use std::net::Ipv4Addr;

use levada_base::batch::Builder;
use levada_config::Protocol;
use levada_coordination::share_state::request::{InitializePart, ReadPart, StateRequest, WritePart};
use levada_metadata::features::SHARE_VERSION;
use levada_metadata::records::{FeatureLevelRecord, PartitionChangeRecord};
use levada_security::Session;
use levada_wire::error_code::ErrorCode;
use levada_wire::messages::alter_share_group_offsets_request::{
    AlterShareGroupOffsetsRequestPartition, AlterShareGroupOffsetsRequestTopic,
};
use levada_wire::messages::delete_share_group_offsets_request::DeleteShareGroupOffsetsRequestTopic;
use levada_wire::messages::describe_share_group_offsets_request::{
    DescribeShareGroupOffsetsRequestGroup, DescribeShareGroupOffsetsRequestTopic,
};
use levada_wire::messages::{
    AlterShareGroupOffsetsRequest, DeleteShareGroupOffsetsRequest, DescribeShareGroupOffsetsRequest,
};
use levada_wire::{ApiKey, Uuid};

use super::coordinators::served;
use super::rig::{OTHER, Rig, change};
use crate::api::{
    Context, k90_describe_share_group_offsets, k91_alter_share_group_offsets, k92_delete_share_group_offsets,
};
use crate::group_work;
use crate::replica::{OFFSETS_TOPIC, SHARE_STATES_TOPIC};

const OFFSETS: Uuid = Uuid::from_bytes([8; 16]);
const STATES: Uuid = Uuid::from_bytes([11; 16]);
const ALONE: Uuid = Uuid::from_bytes([12; 16]);

/// A topic `alone` with five records.
fn start() -> Rig {
    let mut rig = Rig::start();
    rig.create_alone(OFFSETS, OFFSETS_TOPIC);
    rig.create_alone(STATES, SHARE_STATES_TOPIC);
    rig.create_alone(ALONE, "alone");
    let mut batch = Builder::new();
    (0..5).for_each(|_| {
        batch.push(0, None, Some(b"value"));
    });
    let batch = batch.build().unwrap();
    let produced = rig.run(rig.produce_in(("alone", None), (1, 0), &batch));
    assert_eq!(produced.error_code, 0);
    rig
}

fn context(rig: &Rig, api: ApiKey, version: i16) -> Context {
    let session = Session::anonymous(Ipv4Addr::LOCALHOST.into());
    rig.context_of((api, version), (Protocol::Plaintext, session))
}

/// Partition, start offset, leader epoch, lag and error code of each described partition, by topic.
type Shown = Vec<(String, Vec<(i32, i64, i32, i64, i16)>)>;

async fn described(rig: &Rig, version: i16, topics: Option<&[(&str, &[i32])]>) -> (i16, Shown) {
    let asked = topics.map(|topics| {
        let topic = |(name, partitions): &(&str, &[i32])| {
            message!(DescribeShareGroupOffsetsRequestTopic {
                topic_name: (*name).into(),
                partitions: partitions.to_vec(),
            })
        };
        topics.iter().map(topic).collect()
    });
    let group = message!(DescribeShareGroupOffsetsRequestGroup { group_id: "g".into(), topics: asked });
    let request = message!(DescribeShareGroupOffsetsRequest { groups: vec![group] });
    let context = context(rig, ApiKey::DescribeShareGroupOffsets, version);
    let response = k90_describe_share_group_offsets::answer(&context, request).await;
    let group = response.groups.into_iter().next().unwrap();
    let topics = group.topics.into_iter().map(|topic| {
        let partitions = topic
            .partitions
            .iter()
            .map(|one| (one.partition_index, one.start_offset, one.leader_epoch, one.lag, one.error_code));
        (topic.topic_name.as_str().to_owned(), partitions.collect())
    });
    (group.error_code, topics.collect())
}

/// Error code of the request, and error codes of the partitions.
async fn set(rig: &Rig, group: &str, offsets: &[(&str, i32, i64)]) -> (i16, Vec<i16>) {
    let topic = |(name, index, offset): &(&str, i32, i64)| {
        let partition = message!(AlterShareGroupOffsetsRequestPartition {
            partition_index: *index,
            start_offset: *offset,
        });
        message!(AlterShareGroupOffsetsRequestTopic {
            topic_name: (*name).into(),
            partitions: vec![partition],
        })
    };
    let request = message!(AlterShareGroupOffsetsRequest {
        group_id: group.into(),
        topics: offsets.iter().map(topic).collect(),
    });
    let context = context(rig, ApiKey::AlterShareGroupOffsets, 0);
    let response = k91_alter_share_group_offsets::answer(&context, request).await;
    let partitions = response.responses.iter().flat_map(|topic| &topic.partitions);
    (response.error_code, partitions.map(|one| one.error_code).collect())
}

/// Error code of the request, and topics with their error codes.
async fn deleted(rig: &Rig, group: &str, topics: &[&str]) -> (i16, Vec<(String, i16)>) {
    let topic = |name: &&str| message!(DeleteShareGroupOffsetsRequestTopic { topic_name: (*name).into() });
    let request = message!(DeleteShareGroupOffsetsRequest {
        group_id: group.into(),
        topics: topics.iter().map(topic).collect(),
    });
    let context = context(rig, ApiKey::DeleteShareGroupOffsets, 0);
    let response = k92_delete_share_group_offsets::answer(&context, request).await;
    let topics = response.responses.iter().map(|one| (one.topic_name.as_str().to_owned(), one.error_code));
    (response.error_code, topics.collect())
}

const UNKNOWN: i16 = ErrorCode::UnknownTopicOrPartition.code();

#[test]
fn share_lag_excludes_completed_records() {
    let rig = start();
    let (topic_id, partition) = (ALONE, 0);
    let initialize = InitializePart { topic_id, partition, state_epoch: 1, start_offset: 2 };
    let read = ReadPart { topic_id, partition, leader_epoch: 4 };
    let write = WritePart {
        topic_id,
        partition,
        state_epoch: 1,
        leader_epoch: 4,
        start_offset: -1,
        delivery_complete_count: 1,
        batches: Vec::new(),
    };
    rig.run(async {
        let states = rig.broker.coordinators().share_states();
        while states.view("g", |_| ()).is_none() {
            tokio::task::yield_now().await;
        }
        let alone: (&str, &[i32]) = ("alone", &[0]);
        let nothing = (0, vec![("alone".to_owned(), vec![(0, -1, 0, -1, 0)])]);
        assert_eq!(described(&rig, 1, Some(&[alone])).await, nothing, "no state");
        assert_eq!(states.ask(StateRequest::new("g", vec![initialize])).await, [Ok(())]);
        let unwritten = (0, vec![("alone".to_owned(), vec![(0, 2, 0, 3, 0)])]);
        assert_eq!(described(&rig, 1, Some(&[alone])).await, unwritten, "nothing is delivered");
        assert!(states.ask(StateRequest::new("g", vec![read])).await[0].is_ok());
        assert_eq!(states.ask(StateRequest::new("g", vec![write])).await, [Ok(())]);
        let both: &[(&str, &[i32])] = &[("none", &[7]), ("alone", &[5, 0, 5])];
        let expected = vec![
            ("alone".to_owned(), vec![(5, -1, 0, -1, 0), (0, 2, 4, 2, 0)]),
            ("none".to_owned(), vec![(7, -1, 0, -1, 0)]),
        ];
        assert_eq!(described(&rig, 1, Some(both)).await, (0, expected));
        let (_, topics) = described(&rig, 0, Some(&[alone])).await;
        assert_eq!(topics[0].1, [(0, 2, 4, -1, 0)], "version 0 has no lag");
        assert_eq!(described(&rig, 1, Some(&[])).await, (0, Vec::new()));
    });
}

#[test]
fn share_lag_needs_the_partition_leader() {
    let mut rig = start();
    rig.run(async {
        let states = rig.broker.coordinators().share_states();
        while states.view("g", |_| ()).is_none() {
            tokio::task::yield_now().await;
        }
        let initialize = InitializePart { topic_id: ALONE, partition: 0, state_epoch: 1, start_offset: 2 };
        let mut written = states.ask(StateRequest::new("g", vec![initialize])).await;
        assert_eq!(written.pop(), Some(Ok(())));
        let write = WritePart {
            topic_id: ALONE,
            partition: 0,
            state_epoch: 1,
            leader_epoch: 0,
            start_offset: -1,
            delivery_complete_count: 0,
            batches: Vec::new(),
        };
        assert_eq!(states.ask(StateRequest::new("g", vec![write])).await, [Ok(())]);
    });
    for (leader, code) in [(OTHER, ErrorCode::NetworkException), (-1, ErrorCode::LeaderNotAvailable)] {
        rig.publish(&[PartitionChangeRecord { leader, ..change(ALONE) }.into()]);
        let (_, topics) = rig.run(described(&rig, 1, Some(&[("alone", &[0])])));
        assert_eq!(topics[0].1, [(0, 0, 0, -1, code.code())], "{leader}");
    }
}

#[test]
fn start_offsets_are_set_described_and_deleted() {
    let rig = start();
    rig.run(async {
        tokio::task::spawn_local(group_work::run(rig.broker.clone()));
        served(&rig).await;
        assert_eq!(described(&rig, 1, None).await, (0, Vec::new()), "no group");
        let offsets = [("alone", 0, 1), ("alone", 3, 1), ("none", 0, 1)];
        assert_eq!(set(&rig, "g", &offsets).await, (0, vec![UNKNOWN, 0, UNKNOWN]));
        let all = vec![("alone".to_owned(), vec![(0, 1, 0, 4, 0)])];
        assert_eq!(described(&rig, 1, None).await, (0, all));
        let expected = vec![("none".to_owned(), UNKNOWN), ("t".to_owned(), UNKNOWN)];
        assert_eq!(deleted(&rig, "g", &["none", "t"]).await, (0, expected));
        assert_eq!(deleted(&rig, "g", &["alone"]).await, (0, vec![("alone".to_owned(), 0)]));
        assert_eq!(described(&rig, 1, None).await, (0, Vec::new()), "the state is deleted");
        let missing = ErrorCode::GroupIdNotFound.code();
        assert_eq!(deleted(&rig, "other", &["alone"]).await, (missing, Vec::new()));
        let nameless = ErrorCode::InvalidGroupId.code();
        assert_eq!(deleted(&rig, "", &["alone"]).await, (nameless, Vec::new()));
        assert_eq!(set(&rig, "", &[("alone", 0, 1)]).await, (nameless, Vec::new()));
    });
}

#[test]
fn share_offsets_need_the_feature() {
    let mut rig = start();
    let level = FeatureLevelRecord { name: SHARE_VERSION.to_owned(), feature_level: 0 };
    rig.publish(&[level.into()]);
    let code = ErrorCode::UnsupportedVersion.code();
    rig.run(async {
        assert_eq!(described(&rig, 1, None).await, (code, Vec::new()));
        assert_eq!(set(&rig, "g", &[("alone", 0, 1)]).await, (code, Vec::new()));
        assert_eq!(deleted(&rig, "g", &["alone"]).await, (code, Vec::new()));
    });
}

//! The end of the metadata of remote segments, up to which a broker reads before it takes what it
//! knows for all.

use std::collections::BTreeMap;
use std::sync::mpsc::channel;

use levada_base::Append;
use levada_base::batch::Builder;
use levada_client::fake_broker::{Asked, FakeBroker};
use levada_metadata::records::{PartitionChangeRecord, PartitionRecord, Record, TopicRecord};
use levada_tiered::TopicIdPartition;
use levada_tiered::record::METADATA_TOPIC;
use levada_wire::messages::list_offsets_response::{ListOffsetsPartitionResponse, ListOffsetsTopicResponse};
use levada_wire::messages::{ListOffsetsRequest, ListOffsetsResponse};
use levada_wire::{ApiKey, Uuid};

use super::rig::{OTHER, Rig, change};

const TOPIC: Uuid = Uuid::from_bytes([8; 16]);
const TIERED: Uuid = Uuid::from_bytes([6; 16]);

#[test]
fn metadata_end_is_unknown_until_epoch_replicates() {
    let mut rig = Rig::start();
    rig.create(TOPIC, METADATA_TOPIC);
    let tiers = rig.broker.tiers().clone();
    let end = || tiers.feed_ends(vec![0]).get(&0).copied();
    assert_eq!(end(), Some(0));
    let partition = rig.broker.replicas().partition(METADATA_TOPIC, 0).unwrap();
    let mut batch = Builder::new();
    batch.push(0, None, Some(b"a record"));
    let append = Append::client(batch.build().unwrap());
    rig.run(async { partition.append(append, 0).wait().await.unwrap() });
    let node = rig.node;
    rig.publish(&[PartitionChangeRecord { leader: node, ..change(TOPIC) }.into()]);
    assert_eq!(end(), None, "the high watermark is older than the election");
    rig.publish(&[PartitionChangeRecord { isr: Some(vec![node]), ..change(TOPIC) }.into()]);
    assert_eq!(end(), Some(1));
}

/// The other broker leads this number of partitions of the metadata topic.
fn let_other_lead(rig: &mut Rig, partitions: i32) {
    let topic = TopicRecord { name: METADATA_TOPIC.to_owned(), topic_id: TOPIC };
    let partition = |partition_id| -> Record {
        let replicas = vec![OTHER];
        let (isr, leader) = (replicas.clone(), OTHER);
        PartitionRecord { topic_id: TOPIC, partition_id, replicas, isr, leader, ..PartitionRecord::default() }
            .into()
    };
    let records: Vec<Record> = [topic.into()].into_iter().chain((0..partitions).map(partition)).collect();
    rig.publish(&records);
}

/// The response that partitions end at their number; those below 1 have no offset.
fn ends(asked: &Asked) -> (Vec<i32>, ListOffsetsResponse) {
    let request: ListOffsetsRequest = asked.decoded();
    let indexes: Vec<i32> = request.topics[0].partitions.iter().map(|one| one.partition_index).collect();
    let partition = |index: &i32| {
        let mut partition = ListOffsetsPartitionResponse::default();
        partition.partition_index = *index;
        partition.offset = if *index < 1 { -1 } else { i64::from(*index) };
        partition
    };
    let mut topic = ListOffsetsTopicResponse::default();
    (topic.name, topic.partitions) = (METADATA_TOPIC.into(), indexes.iter().map(partition).collect());
    let mut response = ListOffsetsResponse::default();
    response.topics = vec![topic];
    (indexes, response)
}

#[test]
fn metadata_leader_is_asked_once_for_many_partitions() {
    let (sender, questions) = channel();
    let fake = FakeBroker::start(move |asked| {
        assert_eq!(asked.header.api, ApiKey::ListOffsets);
        let (indexes, response) = ends(asked);
        sender.send(indexes).unwrap();
        asked.answer(&response)
    });
    let mut rig = Rig::start_with(&[
        "process.roles=broker",
        "node.id=77",
        "controller.quorum.bootstrap.servers=localhost:1",
        "controller.listener.names=CONTROLLER",
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    ]);
    let port = fake.address().rsplit(':').next().unwrap().parse().unwrap();
    rig.let_other_listen_at("PLAINTEXT", ("127.0.0.1", port));
    let_other_lead(&mut rig, 3);
    let tiers = rig.broker.tiers();
    let name = |partition| TopicIdPartition { topic_id: TIERED, topic: "tiered".to_owned(), partition };
    tiers.subscribe((0..40).map(name));
    assert_eq!(questions.try_iter().collect::<Vec<_>>(), [[0, 1, 2]]);
    // Partitions whose metadata ends at an unknown offset stay out.
    let mut entered = BTreeMap::<i32, usize>::new();
    for partition in 0..40 {
        let feed = tiers.feed_of(&name(partition)).unwrap();
        let is_in = tiers.partition(TIERED, partition).is_some();
        assert_eq!(is_in, feed > 0, "partition {partition}");
        *entered.entry(feed).or_default() += 1;
    }
    assert_eq!(entered.len(), 3, "partitions of all feeds: {entered:?}");
}

//! The metadata of remote segments: its end, up to which a broker reads before it takes what it
//! knows for all, and records that its leader loses.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, channel};

use bytes::BytesMut;
use levada_base::Append;
use levada_base::batch::{Builder, assign};
use levada_client::fake_broker::{Asked, FakeBroker};
use levada_log::ReplicaSource;
use levada_metadata::records::{PartitionChangeRecord, PartitionRecord, Record, TopicRecord};
use levada_tiered::record::{METADATA_TOPIC, encode};
use levada_tiered::{RemoteRecord, RemoteSegment, RemoteSegmentId, SegmentState, TopicIdPartition};
use levada_wire::error_code::ErrorCode;
use levada_wire::messages::fetch_response::{FetchableTopicResponse, PartitionData};
use levada_wire::messages::list_offsets_response::{ListOffsetsPartitionResponse, ListOffsetsTopicResponse};
use levada_wire::messages::{FetchRequest, FetchResponse, ListOffsetsRequest, ListOffsetsResponse};
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

/// A broker of a cluster whose other broker is this one.
fn in_cluster_with(fake: &FakeBroker) -> Rig {
    let mut rig = Rig::start_with(&[
        "process.roles=broker",
        "node.id=77",
        "controller.quorum.bootstrap.servers=localhost:1",
        "controller.listener.names=CONTROLLER",
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    ]);
    let port = fake.address().rsplit(':').next().unwrap().parse().unwrap();
    rig.let_other_listen_at("PLAINTEXT", ("127.0.0.1", port));
    rig
}

fn name(partition: i32) -> TopicIdPartition {
    TopicIdPartition { topic_id: TIERED, topic: "tiered".to_owned(), partition }
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
    let mut rig = in_cluster_with(&fake);
    let_other_lead(&mut rig, 3);
    let tiers = rig.broker.tiers();
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

/// The record of the segment with this number, as a batch for this offset and leader epoch.
fn batch(number: u8, (offset, epoch): (i64, i32)) -> BytesMut {
    let segment = RemoteSegment {
        id: RemoteSegmentId { partition: name(0), id: Uuid::from_bytes([number; 16]) },
        start_offset: 0,
        end_offset: 9,
        max_timestamp_ms: 0,
        broker_id: 1,
        event_timestamp_ms: 0,
        size: 100,
        epochs: vec![(0, 0)],
        custom_metadata: None,
        state: SegmentState::CopyStarted,
        txn_index_empty: true,
    };
    let mut builder = Builder::new();
    builder.push(0, None, Some(&encode(&RemoteRecord::Segment(segment)).unwrap()));
    let mut batch = builder.build().unwrap();
    assign(&mut batch, offset, epoch);
    batch
}

/// Reads the metadata, and returns the numbers of the known segments; none if the broker does not
/// know all.
fn read(rig: &Rig) -> Option<Vec<u8>> {
    rig.broker.tiers().read_feeds();
    let remote = rig.broker.tiers().partition(TIERED, 0).unwrap();
    let segments = remote.segments().ok()?;
    Some(segments.iter().map(|segment| segment.id.id.to_bytes()[0]).collect())
}

#[test]
fn lost_metadata_is_read_again_from_own_log() {
    for (kept, later, expected) in [
        (1, None, &[1][..]),
        (1, Some(3), &[1, 3]),
        (0, Some(3), &[3]),
        // The election lost nothing.
        (2, Some(3), &[1, 2, 3]),
    ] {
        let mut rig = Rig::start();
        rig.create_alone(TOPIC, METADATA_TOPIC);
        let partition = rig.broker.replicas().partition(METADATA_TOPIC, 0).unwrap();
        let append = |rig: &Rig, number| {
            let append = Append::client(batch(number, (0, -1)));
            rig.run(async { partition.append(append, 0).wait().await.unwrap() });
        };
        append(&rig, 1);
        append(&rig, 2);
        rig.broker.tiers().subscribe([name(0)].into_iter());
        assert_eq!(read(&rig).unwrap(), [1, 2]);
        partition.lane().with_writer(|writer| writer.truncate(kept, 0)).unwrap().unwrap();
        let node = rig.node;
        rig.publish(&[PartitionChangeRecord { leader: node, ..change(TOPIC) }.into()]);
        later.into_iter().for_each(|number| append(&rig, number));
        assert_eq!(read(&rig).unwrap(), expected, "{kept} records are kept");
    }
}

/// Response of the leader to a broker that has read records that the leader does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refusal {
    Diverging,
    OutOfRange,
    /// As [`Self::OutOfRange`], and the records before the second one were deleted.
    Trimmed,
}

/// Offset and leader epochs of a fetch: that of the last record, and that of the leader.
type Fetched = (i64, i32, i32);

/// The leader of the metadata, whose records are those of segments 1 and 3.
fn leader(refusal: Refusal) -> (FakeBroker, Receiver<Fetched>) {
    let (sender, fetches) = channel();
    let is_trimmed = refusal == Refusal::Trimmed;
    let fake = FakeBroker::start(move |asked| {
        if asked.header.api == ApiKey::ListOffsets {
            let is_first = asked.decoded::<ListOffsetsRequest>().topics[0].partitions[0].timestamp == -2;
            let mut response = ends(asked).1;
            let found = &mut response.topics[0].partitions[0];
            found.offset = if is_first { i64::from(is_trimmed) } else { 2 };
            return asked.answer(&response);
        }
        let request: FetchRequest = asked.decoded();
        let wanted = &request.topics[0].partitions[0];
        let (offset, epoch) = (wanted.fetch_offset, wanted.last_fetched_epoch);
        sender.send((offset, epoch, wanted.current_leader_epoch)).unwrap();
        let mut partition = PartitionData::default();
        (partition.high_watermark, partition.log_start_offset) = (2, i64::from(is_trimmed));
        let log = [batch(1, (0, 0)), batch(3, (1, 1))];
        match (refusal, offset, epoch) {
            (Refusal::Diverging, 2, 0) => {
                (partition.diverging_epoch.epoch, partition.diverging_epoch.end_offset) = (0, 1);
            }
            (Refusal::Trimmed, 0, _) | (_, 2, 0) => {
                partition.error_code = ErrorCode::OffsetOutOfRange.code();
            }
            _ => {
                let from = usize::try_from(offset).unwrap();
                partition.records = Some(log[from..].concat().into());
            }
        }
        let mut topic = FetchableTopicResponse::default();
        (topic.topic_id, topic.partitions) = (TOPIC, vec![partition]);
        let mut response = FetchResponse::default();
        response.responses = vec![topic];
        asked.answer(&response)
    });
    (fake, fetches)
}

/// A broker that has read the records of segments 1 and 2 from its own replica, and truncates the
/// second one to follow the leader.
fn truncated_follower(fake: &FakeBroker) -> Rig {
    let mut rig = in_cluster_with(fake);
    let topic = TopicRecord { name: METADATA_TOPIC.to_owned(), topic_id: TOPIC };
    let partition = PartitionRecord {
        topic_id: TOPIC,
        partition_id: 0,
        replicas: vec![OTHER, rig.node],
        isr: vec![OTHER],
        leader: OTHER,
        leader_epoch: 1,
        ..PartitionRecord::default()
    };
    rig.publish(&[topic.into(), partition.into()]);
    let own = rig.broker.replicas().partition(METADATA_TOPIC, 0).unwrap();
    let log = [batch(1, (0, 0)), batch(2, (1, 0))].concat();
    let leader = ReplicaSource { leader_epoch: 1, log_start: 0 };
    own.lane().with_writer(|writer| writer.append_replica(&log, leader, 0)).unwrap().unwrap();
    own.log().raise_high_watermark(2);
    rig.broker.tiers().subscribe([name(0)].into_iter());
    assert_eq!(read(&rig).unwrap(), [1, 2]);
    own.lane().with_writer(|writer| writer.truncate(1, 0)).unwrap().unwrap();
    rig
}

#[test]
fn lost_metadata_is_read_again_from_leader() {
    for (refusal, expected, again) in [
        (Refusal::Diverging, &[1, 3][..], &[(0, -1, 1)][..]),
        (Refusal::OutOfRange, &[1, 3], &[(0, -1, 1)]),
        (Refusal::Trimmed, &[3], &[(0, -1, 1), (1, -1, 1)]),
    ] {
        let (fake, fetches) = leader(refusal);
        let rig = truncated_follower(&fake);
        assert_eq!(fetches.try_iter().count(), 0, "the own replica has all records");
        let found = read(&rig);
        let asked: Vec<Fetched> = fetches.try_iter().collect();
        assert_eq!((asked[0], &asked[1..]), ((2, 0, 1), again), "{refusal:?}");
        assert_eq!(found.unwrap(), expected, "{refusal:?}");
    }
}

#[test]
fn lagging_replica_asks_leader_before_rereading() {
    let (fake, fetches) = leader(Refusal::Diverging);
    let rig = truncated_follower(&fake);
    assert_eq!(read(&rig).unwrap(), [1, 3]);
    fetches.try_iter().for_each(drop);
    // The leader has both records, and the replica of this broker the first one.
    assert_eq!(read(&rig).unwrap(), [1, 3]);
    assert_eq!(fetches.try_iter().collect::<Vec<_>>(), [(2, 1, 1)]);
}

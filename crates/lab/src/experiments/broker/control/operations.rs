//! The operations: the request of each, and the checked fields of its response.
//!
//! The versions are the newest that Kafka 4.3 and 4.4 share, or the newest that names topics.

use bytes::Bytes;
use levada_wire::messages::create_topics_request::CreatableTopic;
use levada_wire::messages::delete_topics_request::DeleteTopicState;
use levada_wire::messages::describe_configs_request::DescribeConfigsResource;
use levada_wire::messages::fetch_request::{FetchPartition, FetchTopic};
use levada_wire::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use levada_wire::messages::metadata_request::MetadataRequestTopic;
use levada_wire::messages::offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use levada_wire::messages::offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopics};
use levada_wire::messages::produce_request::{PartitionProduceData, TopicProduceData};
use levada_wire::messages::{
    ApiVersionsRequest, CreateTopicsRequest, DeleteTopicsRequest, DescribeConfigsRequest, FetchRequest,
    InitProducerIdRequest, ListOffsetsRequest, MetadataRequest, OffsetCommitRequest, OffsetFetchRequest,
    ProduceRequest, RequestResponsePair, StrBytes,
};

use super::{streams, transaction};
use crate::error::LabError;
use crate::experiments::broker::harness::connection::Connection;
use crate::experiments::broker::harness::coordinator;
use crate::experiments::broker::harness::frames;
use crate::experiments::broker::harness::node::Node;
use crate::experiments::broker::harness::topic;
use crate::method::experiment::Pass;

/// One operation that can be repeated, with its own connections. [`Pass::Integrity`] checks the
/// response.
pub(super) type Work = Box<dyn FnMut(Pass) -> Result<(), LabError>>;

/// Description of an operation.
pub(super) struct Operation {
    /// Name in tables; `#` stands for the number of parts.
    pub(super) name: &'static str,
    /// Number of parts of a request, such as partitions.
    pub(super) count: usize,
    /// Number of parts in tests, which measure nothing.
    pub(super) few: usize,
    /// Creates the topics and connections of the operation.
    pub(super) begin: fn(&Node, usize) -> Result<Work, LabError>,
}

const fn operation(
    name: &'static str,
    count: usize,
    begin: fn(&Node, usize) -> Result<Work, LabError>,
) -> Operation {
    Operation { name, count, few: if count > 10 { 10 } else { count }, begin }
}

/// Name of the operation with the shortest request and the least work.
pub(super) const SHORTEST: &str = "ApiVersions";

/// All operations, in table order.
pub(super) const OPERATIONS: [Operation; 15] = [
    operation(SHORTEST, 1, api_versions),
    operation("Metadata of # partition", 1, metadata),
    operation("Metadata of # partitions", 1_000, metadata),
    Operation { few: 20, ..operation("Metadata of # partitions", 10_000, metadata) },
    operation("OffsetCommit of # partition", 1, offset_commit),
    operation("OffsetCommit of # partitions", 100, offset_commit),
    operation("OffsetFetch of # partition", 1, offset_fetch),
    operation("OffsetFetch of # partitions", 100, offset_fetch),
    operation("ListOffsets of # partitions", 100, list_offsets),
    operation("InitProducerId", 1, init_producer_id),
    operation("DescribeConfigs of # topic", 1, describe_configs),
    operation("Produce to # partitions", 100, produce),
    operation("empty Fetch of # partitions", 100, fetch),
    operation("transaction of # record", 1, transaction::begin),
    operation("create and delete # topic", 1, topics),
];

/// Heartbeats of streams groups, in table order.
pub(super) const STREAMS: [Operation; 2] = [
    operation("heartbeat of a streams group of # members", 1_000, streams::begin),
    operation("heartbeat of a streams group of # member", 1, streams::begin),
];

/// Number of partitions of a topic for operations on many partitions.
const TOPIC_PARTITIONS: usize = 100;

const GROUP: &str = "control";

/// Number of parts of a response, and the first error code of a part or 0.
type Answered = (usize, i16);

/// Counts the parts of a response from their error codes.
fn answered(codes: impl Iterator<Item = i16>) -> Answered {
    codes.fold((0, 0), |(count, error), code| (count + 1, if error == 0 { code } else { error }))
}

/// Returns an operation that repeats one request. Its response must have `parts` parts without
/// errors.
fn repeat<R: RequestResponsePair + 'static>(
    node: &Node,
    (version, request): (i16, R),
    parts: usize,
    told: fn(&R::Response) -> Answered,
) -> Result<Work, LabError> {
    let mut connection = Connection::open(node.address())?;
    let frame = frames::request(version, &request)?;
    Ok(Box::new(move |pass| {
        if pass == Pass::Timed {
            connection.send(&frame)?;
            return connection.receive(4).map(drop);
        }
        let (count, error) = told(&connection.ask(version, &request)?);
        if error != 0 || count != parts {
            return Err(frames::refused(&format!("{} ({count} of {parts} parts)", R::NAME), error));
        }
        Ok(())
    }))
}

/// Creates a topic for an operation.
fn topic(node: &Node, name: &str, partitions: usize) -> Result<StrBytes, LabError> {
    topic::create(node, name, i32::try_from(partitions).unwrap_or(i32::MAX), &[])?;
    Ok(StrBytes::from(name))
}

/// Partition indexes from 0.
fn indexes(partitions: usize) -> impl Iterator<Item = i32> {
    (0..).take(partitions)
}

fn api_versions_request() -> (i16, ApiVersionsRequest) {
    let mut request = ApiVersionsRequest::default();
    request.client_software_name = StrBytes::from("lab");
    request.client_software_version = StrBytes::from("1");
    (4, request)
}

/// Request frame of [`SHORTEST`].
pub(super) fn shortest() -> Result<Bytes, LabError> {
    let (version, request) = api_versions_request();
    frames::request(version, &request)
}

fn api_versions(node: &Node, _: usize) -> Result<Work, LabError> {
    repeat(node, api_versions_request(), 1, |response| (1, response.error_code))
}

fn metadata(node: &Node, partitions: usize) -> Result<Work, LabError> {
    let each = partitions.min(TOPIC_PARTITIONS);
    let named = |number| {
        let mut named = MetadataRequestTopic::default();
        named.name = Some(topic(node, &format!("metadata-{partitions}-{number}"), each)?);
        Ok(named)
    };
    let mut request = MetadataRequest::default();
    request.topics = Some((0..partitions / each).map(named).collect::<Result<_, LabError>>()?);
    repeat(node, (13, request), partitions, |response| {
        let topics = response.topics.iter();
        answered(topics.flat_map(|topic| topic.partitions.iter().map(|one| one.error_code)))
    })
}

/// Request that commits one offset for each of the partitions of a topic.
fn commit(topic: StrBytes, partitions: usize) -> OffsetCommitRequest {
    let mut committed = OffsetCommitRequestTopic::default();
    let partition = |index| {
        let mut partition = OffsetCommitRequestPartition::default();
        (partition.partition_index, partition.committed_offset) = (index, 1);
        partition
    };
    committed.name = topic;
    committed.partitions = indexes(partitions).map(partition).collect();
    let mut request = OffsetCommitRequest::default();
    request.group_id = StrBytes::from(GROUP);
    // A consumer without group membership, which assigns its partitions itself.
    request.generation_id_or_member_epoch = -1;
    request.topics = vec![committed];
    request
}

fn offset_commit(node: &Node, partitions: usize) -> Result<Work, LabError> {
    coordinator::find(node, (coordinator::GROUP, GROUP))?;
    let topic = topic(node, &format!("commit-{partitions}"), partitions)?;
    repeat(node, (9, commit(topic, partitions)), partitions, |response| {
        let topics = response.topics.iter();
        answered(topics.flat_map(|topic| topic.partitions.iter().map(|one| one.error_code)))
    })
}

fn offset_fetch(node: &Node, partitions: usize) -> Result<Work, LabError> {
    let name = topic(node, &format!("committed-{partitions}"), partitions)?;
    // The earlier operations on offsets have waited for the coordinator.
    Connection::open(node.address())?.ask(9, &commit(name.clone(), partitions))?;
    let mut topics = OffsetFetchRequestTopics::default();
    (topics.name, topics.partition_indexes) = (name, indexes(partitions).collect());
    let mut group = OffsetFetchRequestGroup::default();
    (group.group_id, group.member_epoch, group.topics) = (StrBytes::from(GROUP), -1, Some(vec![topics]));
    let mut request = OffsetFetchRequest::default();
    request.groups = vec![group];
    repeat(node, (9, request), partitions, |response| {
        let topics = response.groups.iter().flat_map(|group| &group.topics);
        // Count only partitions with the committed offset.
        let committed = topics.flat_map(|topic| &topic.partitions).filter(|one| one.committed_offset == 1);
        answered(committed.map(|one| one.error_code))
    })
}

fn list_offsets(node: &Node, partitions: usize) -> Result<Work, LabError> {
    let mut asked = ListOffsetsTopic::default();
    let partition = |index| {
        let mut partition = ListOffsetsPartition::default();
        (partition.partition_index, partition.timestamp) = (index, levada_client::LATEST);
        partition.current_leader_epoch = -1;
        partition
    };
    asked.name = topic(node, "listed", partitions)?;
    asked.partitions = indexes(partitions).map(partition).collect();
    let mut request = ListOffsetsRequest::default();
    request.replica_id = -1;
    request.topics = vec![asked];
    repeat(node, (10, request), partitions, |response| {
        let topics = response.topics.iter();
        answered(topics.flat_map(|topic| topic.partitions.iter().map(|one| one.error_code)))
    })
}

/// Requests a producer id without a transactional id.
fn init_producer_id(node: &Node, _: usize) -> Result<Work, LabError> {
    let mut request = InitProducerIdRequest::default();
    (request.transactional_id, request.transaction_timeout_ms) = (None, i32::MAX);
    (request.producer_id, request.producer_epoch) = (-1, -1);
    repeat(node, (5, request), 1, |response| (1, response.error_code))
}

/// Requests all keys of a topic.
fn describe_configs(node: &Node, _: usize) -> Result<Work, LabError> {
    const TOPIC: i8 = 2;
    let mut resource = DescribeConfigsResource::default();
    (resource.resource_type, resource.resource_name) = (TOPIC, topic(node, "described", 1)?);
    let mut request = DescribeConfigsRequest::default();
    request.resources = vec![resource];
    repeat(node, (4, request), 1, |response| answered(response.results.iter().map(|one| one.error_code)))
}

/// Writes one small record to each partition.
fn produce(node: &Node, partitions: usize) -> Result<Work, LabError> {
    let batch: Bytes = frames::batch(190, 100, 1)?.0.freeze();
    let partition = |index| {
        let mut partition = PartitionProduceData::default();
        (partition.index, partition.records) = (index, Some(batch.clone()));
        partition
    };
    let mut data = TopicProduceData::default();
    data.name = topic(node, "produced", partitions)?;
    data.partition_data = indexes(partitions).map(partition).collect();
    let mut request = ProduceRequest::default();
    (request.acks, request.timeout_ms, request.topic_data) = (1, 30_000, vec![data]);
    repeat(node, (12, request), partitions, |response| {
        let topics = response.responses.iter();
        answered(topics.flat_map(|topic| topic.partition_responses.iter().map(|one| one.error_code)))
    })
}

/// Requests records that do not exist yet, without a session: each request names all partitions.
fn fetch(node: &Node, partitions: usize) -> Result<Work, LabError> {
    let partition = |index| {
        let mut partition = FetchPartition::default();
        (partition.partition, partition.partition_max_bytes) = (index, 1 << 20);
        (partition.current_leader_epoch, partition.last_fetched_epoch) = (-1, -1);
        partition
    };
    let name = topic(node, "fetched", partitions)?;
    let mut fetched = FetchTopic::default();
    fetched.topic_id = topic::id(&mut Connection::open(node.address())?, &name)?;
    fetched.partitions = indexes(partitions).map(partition).collect();
    let mut request = FetchRequest::default();
    (request.min_bytes, request.max_bytes, request.session_epoch) = (1, 50 << 20, -1);
    request.topics = vec![fetched];
    repeat(node, (16, request), partitions, |response| {
        let topics = response.responses.iter();
        let partitions = topics.flat_map(|topic| topic.partitions.iter().map(|one| one.error_code));
        answered([response.error_code].into_iter().filter(|code| *code != 0).chain(partitions))
    })
}

/// Creates and deletes a topic; each time with a new name.
fn topics(node: &Node, _: usize) -> Result<Work, LabError> {
    let (mut connection, mut number) = (Connection::open(node.address())?, 0);
    Ok(Box::new(move |_| {
        number += 1;
        let name = StrBytes::from(format!("passing-{number}"));
        let mut topic = CreatableTopic::default();
        (topic.name, topic.num_partitions, topic.replication_factor) = (name.clone(), 1, 1);
        let mut create = CreateTopicsRequest::default();
        (create.topics, create.timeout_ms) = (vec![topic], 30_000);
        let created = connection.ask(7, &create)?;
        let (_, error) = answered(created.topics.iter().map(|topic| topic.error_code));
        if error != 0 {
            return Err(frames::refused("CreateTopics", error));
        }
        let mut state = DeleteTopicState::default();
        state.name = Some(name);
        let mut delete = DeleteTopicsRequest::default();
        (delete.topics, delete.timeout_ms) = (vec![state], 30_000);
        let deleted = connection.ask(6, &delete)?;
        match answered(deleted.responses.iter().map(|topic| topic.error_code)) {
            (_, 0) => Ok(()),
            (_, error) => Err(frames::refused("DeleteTopics", error)),
        }
    }))
}

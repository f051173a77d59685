//! The requests of an observer, and the structural checks of their responses.

use bytes::Bytes;
use levada_wire::fetch::{
    FetchPartition, FetchRequest, FetchResponse, FetchTopic, FetchedPartition, SnapshotId,
};
use levada_wire::messages::{
    FetchSnapshotRequest, FetchSnapshotResponse, StrBytes, Uuid, fetch_snapshot_request,
    fetch_snapshot_response,
};

use super::{LogPosition, ObserverConfig};

/// The name of the metadata log's topic.
pub const METADATA_TOPIC: &str = "__cluster_metadata";

/// Id of the metadata topic, the same in every cluster.
pub const METADATA_TOPIC_ID: Uuid = Uuid::from_bytes([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);

/// A Fetch of the metadata log from `end` on, by a replica that does not vote.
pub(super) fn fetch(
    config: &ObserverConfig,
    epoch: i32,
    end: LogPosition,
    high_watermark: i64,
) -> FetchRequest {
    let partition = FetchPartition {
        index: 0,
        current_leader_epoch: epoch,
        fetch_offset: end.offset,
        last_fetched_epoch: end.epoch,
        log_start_offset: 0,
        max_bytes: config.max_bytes,
        replica_directory_id: config.directory_id,
        high_watermark,
    };
    FetchRequest {
        cluster_id: config.cluster_id.as_deref().map(StrBytes::from),
        replica_id: config.node_id,
        replica_epoch: -1,
        max_wait_ms: config.max_wait_ms,
        min_bytes: 1,
        max_bytes: config.max_bytes,
        isolation_level: 0,
        session_id: 0,
        session_epoch: -1,
        topics: vec![FetchTopic {
            name: StrBytes::from(METADATA_TOPIC),
            topic_id: METADATA_TOPIC_ID,
            partitions: vec![partition],
        }],
        forgotten: Vec::new(),
        rack_id: StrBytes::default(),
    }
}

/// A request for the bytes of a snapshot from `position` on.
pub(super) fn fetch_snapshot(
    config: &ObserverConfig,
    epoch: i32,
    id: SnapshotId,
    position: u64,
) -> FetchSnapshotRequest {
    let mut partition = fetch_snapshot_request::PartitionSnapshot::default();
    partition.partition = 0;
    partition.current_leader_epoch = epoch;
    partition.snapshot_id.end_offset = id.end_offset;
    partition.snapshot_id.epoch = id.epoch;
    partition.position = position.cast_signed();
    partition.replica_directory_id = config.directory_id;
    let mut topic = fetch_snapshot_request::TopicSnapshot::default();
    topic.name = StrBytes::from(METADATA_TOPIC);
    topic.partitions = vec![partition];
    let mut request = FetchSnapshotRequest::default();
    request.cluster_id = config.cluster_id.as_deref().map(StrBytes::from);
    request.replica_id = config.node_id;
    request.max_bytes = config.max_bytes;
    request.topics = vec![topic];
    request
}

/// The metadata log's partition in a response to Fetch, if the response is about nothing else.
pub(super) fn fetched(response: &mut FetchResponse<Bytes>) -> Option<FetchedPartition<Bytes>> {
    let [topic] = &mut response.topics[..] else { return None };
    if topic.topic_id != METADATA_TOPIC_ID || topic.partitions.len() != 1 {
        return None;
    }
    topic.partitions.pop().filter(|partition| partition.index == 0)
}

/// The metadata log's partition in a response to FetchSnapshot, if the response is about nothing
/// else.
pub(super) fn snapshot_chunk(
    response: &mut FetchSnapshotResponse,
) -> Option<fetch_snapshot_response::PartitionSnapshot> {
    let [topic] = &mut response.topics[..] else { return None };
    if topic.name.as_str() != METADATA_TOPIC || topic.partitions.len() != 1 {
        return None;
    }
    topic.partitions.pop().filter(|partition| partition.index == 0)
}

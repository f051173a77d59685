//! ListOffsets (key 2), versions 1–11.
//!
//! The offset of a point in time, or of the log's start (-2), its end (-1; for read_committed the
//! last stable offset), its newest timestamp (-3, version 7), or of tiered storage (-4 local start,
//! -5 last tiered, -6 earliest pending upload), which a log without tiers answers with its own
//! start and with -1. A partition that is asked for twice is refused once.
//!
//! Times are looked for on a thread that may wait, a few at once: a search reads from the disk and
//! expands a batch.

use std::collections::BTreeSet;

use levada_wire::messages::list_offsets_request::ListOffsetsPartition;
use levada_wire::messages::list_offsets_response::{ListOffsetsPartitionResponse, ListOffsetsTopicResponse};
use levada_wire::messages::{ListOffsetsRequest, ListOffsetsResponse};

use crate::api::Context;
use crate::error_code::ErrorCode;
use crate::security::acl::{Operation, ResourceType};

const LATEST: i64 = -1;
const EARLIEST: i64 = -2;
const MAX_TIMESTAMP: i64 = -3;
const EARLIEST_LOCAL: i64 = -4;
const LATEST_TIERED: i64 = -5;
const EARLIEST_PENDING_UPLOAD: i64 = -6;
const READ_COMMITTED: i8 = 1;
/// The first version that may ask for each special timestamp; older ones have it refused.
const FIRST_VERSIONS: [(i64, i16); 4] =
    [(MAX_TIMESTAMP, 7), (EARLIEST_LOCAL, 8), (LATEST_TIERED, 9), (EARLIEST_PENDING_UPLOAD, 11)];
const EPOCH_VERSION_MIN: i16 = 4;

pub(crate) async fn answer(context: &Context, request: ListOffsetsRequest) -> ListOffsetsResponse {
    let committed_only = request.isolation_level == READ_COMMITTED;
    let mut topics = Vec::with_capacity(request.topics.len());
    for topic in request.topics {
        let (once, twice) = repeated(topic.partitions);
        let name = topic.name.as_str();
        let may = context.may(Operation::Describe, ResourceType::Topic, name);
        let mut partitions = Vec::with_capacity(once.len());
        for asked in &once {
            let found = match () {
                () if !may => Err(ErrorCode::TopicAuthorizationFailed),
                () if twice.contains(&asked.partition_index) => Err(ErrorCode::InvalidRequest),
                () => look_up(context, name, asked, committed_only).await,
            };
            partitions.push(show(context, asked.partition_index, found));
        }
        topics.push(message!(ListOffsetsTopicResponse { name: topic.name, partitions: partitions }));
    }
    message!(ListOffsetsResponse { topics: topics })
}

/// Each partition once, and which of them were asked for more than once.
fn repeated(asked: Vec<ListOffsetsPartition>) -> (Vec<ListOffsetsPartition>, BTreeSet<i32>) {
    let (mut once, mut seen, mut twice) = (Vec::with_capacity(asked.len()), BTreeSet::new(), BTreeSet::new());
    for partition in asked {
        if seen.insert(partition.partition_index) {
            once.push(partition);
        } else {
            twice.insert(partition.partition_index);
        }
    }
    (once, twice)
}

/// An answer: offset, timestamp, leader epoch.
type Found = (i64, i64, i32);

const NOTHING: Found = (-1, -1, -1);

async fn look_up(
    context: &Context,
    topic: &str,
    asked: &ListOffsetsPartition,
    committed_only: bool,
) -> Result<Found, ErrorCode> {
    let broker = context.broker();
    let partition = broker.replicas().partition(topic, asked.partition_index)?;
    partition.check_leader(asked.current_leader_epoch)?;
    let too_old = |(special, first): (i64, i16)| special == asked.timestamp && context.version() < first;
    if FIRST_VERSIONS.into_iter().any(too_old) {
        return Err(ErrorCode::UnsupportedVersion);
    }
    let log = partition.log();
    let end = if committed_only { log.last_stable() } else { log.high_watermark() };
    let found = match asked.timestamp {
        LATEST => return Ok((end, -1, log.latest_epoch())),
        EARLIEST | EARLIEST_LOCAL => {
            let start = log.log_start();
            return Ok((start, -1, log.epoch_at(start)));
        }
        LATEST_TIERED | EARLIEST_PENDING_UPLOAD => return Ok(NOTHING),
        MAX_TIMESTAMP => broker.replicas().search(&partition, levada_log::Partition::max_timestamp_offset).await?,
        timestamp if timestamp < 0 => return Err(ErrorCode::UnsupportedVersion),
        timestamp => broker.replicas().search(&partition, move |log| log.offset_for_timestamp(timestamp)).await?,
    };
    let found = found.filter(|found| found.offset < end);
    Ok(found.map_or(NOTHING, |found| (found.offset, found.timestamp, found.leader_epoch)))
}

fn show(context: &Context, index: i32, found: Result<Found, ErrorCode>) -> ListOffsetsPartitionResponse {
    let mut shown = message!(ListOffsetsPartitionResponse { partition_index: index });
    match found {
        Ok((offset, timestamp, leader_epoch)) => {
            shown.offset = offset;
            shown.timestamp = timestamp;
            if context.version() >= EPOCH_VERSION_MIN {
                shown.leader_epoch = leader_epoch;
            }
        }
        Err(error) => shown.error_code = error.code(),
    }
    shown
}

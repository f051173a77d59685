//! ListOffsets (key 2), versions 1–11.
//!
//! Version 2 has the isolation level (KIP-98), 4 leader epochs (KIP-320), 7 the newest timestamp
//! (KIP-734), 8 the local start (KIP-405), 9 the last tiered offset (KIP-1005), 10 a timeout for
//! remote storage (KIP-1075), and 11 the earliest pending upload (KIP-1023).
//!
//! The offset of a point in time, or of the log's start (-2), its end (-1; for read_committed the
//! last stable offset), its newest timestamp (-3, version 7, of local segments as in Kafka), or of
//! tiered storage (-4 local start, -5 last tiered, -6 earliest pending upload), for which a log
//! without tiers returns its own start or -1. A lookup by time in a tiered log searches the remote
//! store first, within `remote.list.offsets.request.timeout.ms`. A topic that the request names
//! twice gets one result; a partition that it names twice gets one error.
//!
//! Other brokers, and tools that compare replicas, get the log end instead of the high watermark.
//! After an election, until the high watermark has reached the beginning of the leader epoch, the
//! end of the log is not available to consumers.
//!
//! Searches by time run on a thread that may wait, a few at a time, in turns of the clients: a
//! search reads from the disk and expands a batch. A search that expands only small batches waits
//! for no other.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use levada_base::batch::MAX_EXPANDED;
use levada_log::{ReadError, Tiering, TimestampOffset};
use levada_security::acl::{Operation, ResourceType};
use levada_wire::error_code::ErrorCode;
use levada_wire::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use levada_wire::messages::list_offsets_response::{ListOffsetsPartitionResponse, ListOffsetsTopicResponse};
use levada_wire::messages::{ListOffsetsRequest, ListOffsetsResponse, StrBytes};
use tokio::time::Instant;

use crate::api::Context;
use crate::end_offsets::EARLIEST;
use crate::error_map::{read_error, remote_error};
use crate::remote_reads::TimeSearch;
use crate::replica::Partition;

const LATEST: i64 = -1;
const MAX_TIMESTAMP: i64 = -3;
const EARLIEST_LOCAL: i64 = -4;
const LATEST_TIERED: i64 = -5;
const EARLIEST_PENDING_UPLOAD: i64 = -6;
const READ_COMMITTED: i8 = 1;
/// Bytes to which a batch expands in a search that waits for no large one.
const EXPANDED_SMALL_MAX: usize = 1 << 20;
/// The first version that may use each special timestamp; older versions are refused.
const FIRST_VERSIONS: [(i64, i16); 4] =
    [(MAX_TIMESTAMP, 7), (EARLIEST_LOCAL, 8), (LATEST_TIERED, 9), (EARLIEST_PENDING_UPLOAD, 11)];
const EPOCH_VERSION_MIN: i16 = 4;
/// The first version whose clients understand OFFSET_NOT_AVAILABLE.
const NOT_AVAILABLE_VERSION_MIN: i16 = 5;
/// Replica id of consumers.
const CONSUMER: i32 = -1;
/// Replica id of tools that compare replicas; followers respond to them as well.
const DEBUGGING: i32 = -2;

pub(crate) async fn answer(context: &Context, request: ListOffsetsRequest) -> ListOffsetsResponse {
    let reader = match request.replica_id {
        CONSUMER => Reader::Consumer { committed_only: request.isolation_level == READ_COMMITTED },
        DEBUGGING => Reader::Tool,
        _ => Reader::Replica,
    };
    let mut topics = Vec::with_capacity(request.topics.len());
    for topic in gathered(request.topics) {
        let name = topic.name.as_str();
        let may = context.may(Operation::Describe, ResourceType::Topic, name);
        let mut partitions = Vec::with_capacity(topic.once.len());
        for asked in &topic.once {
            let found = match () {
                () if !may => Err(ErrorCode::TopicAuthorizationFailed),
                () if topic.twice.contains(&asked.partition_index) => Err(ErrorCode::InvalidRequest),
                () => look_up(context, name, asked, reader).await,
            };
            partitions.push(show(context, asked.partition_index, found));
        }
        if !may || !partitions.is_empty() {
            topics.push(message!(ListOffsetsTopicResponse { name: topic.name, partitions: partitions }));
        }
    }
    message!(ListOffsetsResponse { topics: topics })
}

/// The partitions of a topic, from all its entries in the request.
struct AskedTopic {
    name: StrBytes,
    /// Partitions of the topic, each once.
    once: Vec<ListOffsetsPartition>,
    seen: BTreeSet<i32>,
    /// The partitions that the request repeats.
    twice: BTreeSet<i32>,
}

/// Groups the partitions by topic; each topic occurs once.
fn gathered(topics: Vec<ListOffsetsTopic>) -> Vec<AskedTopic> {
    let mut gathered: Vec<AskedTopic> = Vec::with_capacity(topics.len());
    let mut places: HashMap<StrBytes, usize> = HashMap::new();
    for topic in topics {
        let place = *places.entry(topic.name.clone()).or_insert(gathered.len());
        if place == gathered.len() {
            let (seen, twice) = (BTreeSet::new(), BTreeSet::new());
            gathered.push(AskedTopic { name: topic.name, once: Vec::new(), seen, twice });
        }
        let into = &mut gathered[place];
        for partition in topic.partitions {
            if into.seen.insert(partition.partition_index) {
                into.once.push(partition);
            } else {
                into.twice.insert(partition.partition_index);
            }
        }
    }
    gathered
}

/// Searches a partition's log on a thread that may wait: first as small work with a limit, then as
/// large work in its queue.
async fn search(
    context: &Context,
    partition: &Partition,
    find: impl Fn(&levada_log::Partition, usize) -> Result<Option<TimestampOffset>, ReadError>
    + Copy
    + Send
    + 'static,
) -> Result<Option<TimestampOffset>, ReadError> {
    let searches = &context.broker().turns().searches;
    let log = partition.shared_log();
    let small = context.run_in_turn(&searches.small, move || find(&log, EXPANDED_SMALL_MAX)).await;
    if !matches!(small, Err(ReadError::Expands { .. })) {
        return small;
    }
    let log = partition.shared_log();
    context.run_in_turn(&searches.large, move || find(&log, MAX_EXPANDED)).await
}

/// The peer that sends the request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reader {
    Consumer {
        committed_only: bool,
    },
    /// Another broker: the end is that of the log.
    Replica,
    /// A tool that compares replicas: the end is the log end, and followers respond as well.
    Tool,
}

impl Reader {
    /// Checks that this broker may respond for the partition.
    fn check(self, partition: &Partition, known: i32) -> Result<(), ErrorCode> {
        if self == Self::Tool { partition.check_replica(known) } else { partition.check_leader(known) }
    }
}

/// The error for offsets that are not known yet, as the client understands it.
fn unavailable(context: &Context) -> ErrorCode {
    if context.version() >= NOT_AVAILABLE_VERSION_MIN {
        ErrorCode::OffsetNotAvailable
    } else {
        ErrorCode::LeaderNotAvailable
    }
}

/// Offset, timestamp and leader epoch of a response.
type Found = (i64, i64, i32);

const NOTHING: Found = (-1, -1, -1);

async fn look_up(
    context: &Context,
    topic: &str,
    asked: &ListOffsetsPartition,
    reader: Reader,
) -> Result<Found, ErrorCode> {
    let broker = context.broker();
    let partition = broker.replicas().partition(topic, asked.partition_index)?;
    reader.check(&partition, asked.current_leader_epoch)?;
    let too_old = |(special, first): (i64, i16)| special == asked.timestamp && context.version() < first;
    if FIRST_VERSIONS.into_iter().any(too_old) {
        return Err(ErrorCode::UnsupportedVersion);
    }
    let log = partition.log();
    let end = match reader {
        Reader::Replica | Reader::Tool => log.log_end(),
        Reader::Consumer { committed_only: true } => log.last_stable(),
        Reader::Consumer { committed_only: false } => log.high_watermark(),
    };
    // After an election the leader does not have the high watermark of its predecessor yet.
    let is_consumer = matches!(reader, Reader::Consumer { .. });
    let is_uncertain = is_consumer && partition.led().is_some_and(|led| led.is_before_epoch());
    let found = match asked.timestamp {
        LATEST if is_uncertain => return Err(unavailable(context)),
        LATEST => return Ok((end, -1, log.latest_epoch())),
        EARLIEST => {
            let start = log.log_start();
            return Ok((start, -1, log.epoch_at(start)));
        }
        EARLIEST_LOCAL | LATEST_TIERED | EARLIEST_PENDING_UPLOAD => {
            let is_tiered = broker.tiers().tiering(&partition) != Tiering::Local;
            let found = tier_offset(log, asked.timestamp, is_tiered);
            // As in Kafka, only the local start may lie at the end of the log.
            return match asked.timestamp {
                EARLIEST_LOCAL => Ok(found),
                _ if found.0 < end => Ok(found),
                _ if is_uncertain => Err(unavailable(context)),
                _ => Ok(NOTHING),
            };
        }
        MAX_TIMESTAMP => {
            search(context, &partition, |log, expanded_max| log.times().within(expanded_max).latest())
                .await
                .map_err(read_error)?
        }
        timestamp if timestamp < 0 => return Err(ErrorCode::UnsupportedVersion),
        timestamp => search_both(context, &partition, timestamp).await?,
    };
    if is_uncertain && found.is_none_or(|found| found.offset >= end) {
        return Err(unavailable(context));
    }
    let found = found.filter(|found| found.offset < end);
    Ok(found.map_or(NOTHING, |found| (found.offset, found.timestamp, found.leader_epoch)))
}

/// A boundary between the local and the remote part of a log.
fn tier_offset(log: &levada_log::Partition, asked: i64, is_tiered: bool) -> Found {
    let at = |offset: i64| (offset, -1, log.epoch_at(offset));
    let highest = log.highest_remote();
    match asked {
        EARLIEST_LOCAL => at(log.local_log_start()),
        LATEST_TIERED if is_tiered && highest >= 0 => at(highest),
        // Nothing was copied, unless this leader does not know it yet.
        EARLIEST_PENDING_UPLOAD if is_tiered && highest < 0 && log.local_log_start() == log.log_start() => {
            at(log.log_start())
        }
        EARLIEST_PENDING_UPLOAD if is_tiered && highest >= 0 => at((highest + 1).max(log.log_start())),
        _ => NOTHING,
    }
}

/// Searches the remote part of a log, and then the local part. Repeats this if the first segments
/// have left the local part meanwhile: neither search would find their records.
async fn search_both(
    context: &Context,
    partition: &Arc<Partition>,
    timestamp: i64,
) -> Result<Option<TimestampOffset>, ErrorCode> {
    let limit_ms = context.broker().config().remote_log.list_offsets_timeout_ms.unsigned_abs();
    let until = Instant::now() + Duration::from_millis(limit_ms);
    let log = partition.log();
    loop {
        let local_start = log.local_log_start();
        if let Some(found) = search_remote(context, partition, (timestamp, until)).await? {
            return Ok(Some(found));
        }
        let find = move |log: &levada_log::Partition, expanded_max| {
            log.times().within(expanded_max).first_at(timestamp)
        };
        let found = search(context, partition, find).await.map_err(read_error)?;
        let has_remote_part = log.log_start() < log.local_log_start();
        if log.local_log_start() == local_start || !has_remote_part {
            return Ok(found);
        }
        if Instant::now() >= until {
            return Err(ErrorCode::RequestTimedOut);
        }
    }
}

/// Searches the part of a log that only the remote store has; none if the local part contains the
/// result.
async fn search_remote(
    context: &Context,
    partition: &Arc<Partition>,
    (timestamp, until): (i64, Instant),
) -> Result<Option<TimestampOffset>, ErrorCode> {
    let (tiers, log) = (context.broker().tiers(), partition.log());
    if tiers.tiering(partition) == Tiering::Local || log.log_start() == log.local_log_start() {
        return Ok(None);
    }
    let key = (partition.topic_id(), partition.index());
    let search = TimeSearch { partition: key, log: partition.shared_log(), timestamp };
    let Some(reads) = context.broker().remote_reads() else { return Err(ErrorCode::UnknownServerError) };
    reads.by_time(search, until).await.map_err(|fault| remote_error(&fault))
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

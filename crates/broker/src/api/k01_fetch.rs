//! Fetch (key 1), versions 4–18.
//!
//! Version 7 has sessions (KIP-227), 9 and 12 leader epochs (KIP-320, KIP-595), 10 zstd (KIP-110),
//! 11 racks (KIP-392), 13 topic ids (KIP-516), 14 tiered storage (KIP-405), 15 the broker epoch
//! (KIP-903), 16 endpoints (KIP-951), 17 directory ids (KIP-853), and 18 the follower's high
//! watermark (KIP-1166).
//!
//! The handler finds the records without reading them: every partition yields at most one extent of
//! whole batches, and the response is a gather list of header bytes and these holes. The first
//! partition with data yields its first batch whole even above the limits (KIP-74). With too little
//! data the request waits for appends, until `min_bytes` are available or `max_wait_ms` have
//! passed. Partitions that do not exist, or that the client may not read, do not end the wait for
//! others.
//!
//! Isolation: read_committed stops at the last stable offset and lists the aborted transactions.
//!
//! Sessions (KIP-227) follow Kafka's rules, in `max.incremental.fetch.session.cache.slots` slots.
//!
//! A lookup in pages that are not in memory runs on a thread that may wait. Records of sealed
//! segments that come from the disk count as read once, and do not stay in the page cache.
//!
//! A client that sends a request to a broker other than the leader gets the leader in the response
//! (KIP-951).
//!
//! A follower reads up to the log end, and its fetch offset shows which records it has: the
//! leader's rules are in `levada_cluster::replication::leader`. A follower waits for appends; a
//! consumer waits for the high watermark. Bytes and time of a follower count against no client's
//! quota. Consumers may read from a follower from version 11 on (KIP-392); with
//! `replica.selector.class` the leader sends a consumer to a replica in sync that has its offset
//! and is in its rack. A follower that is not in sync gets no records of a throttled partition
//! while `leader.replication.throttled.rate` is exceeded.
//!
//! Records that only remote storage has are read into local files, and leave from there. Such a
//! fetch waits until all of its remote reads are done, or for `remote.fetch.max.wait.ms`; a
//! partition whose records did not come in time has none in the response. A follower gets
//! OFFSET_MOVED_TO_TIERED_STORAGE.
//!
//! Checks Read on each topic, or ClusterAction if a replica fetches.

use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use levada_log::{ReadError, Slice};
use levada_process::blocking::off_shard;
use levada_security::acl::Operation;
use levada_wire::error_code::ErrorCode;
use levada_wire::fetch::{
    AbortedTransaction, EpochEnd, FetchPartition, FetchRequest, FetchResponse, FetchedPartition, FetchedTopic,
};
use levada_wire::gather::HoleLen;
use levada_wire::messages::StrBytes;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::api::leaders::Leaders;
use crate::api::records::{Records, reply};
use crate::api::{Context, Reply, RequestError};
use crate::error_map::read_error;
use crate::replica::Partition;
use crate::request_memory::UNCOUNTED_BYTES;
use crate::time_slice::TimeSlice;

mod counts;
mod once;
mod reader;
mod remote;
mod session;

use self::counts::{count_errors, count_replicated, count_traffic};
use self::reader::{Reader, nearest};
use self::remote::Wanted;

/// First version in which a refusal names the leader.
const LEADER_VERSION_MIN: i16 = 16;
/// The first version whose clients know KAFKA_STORAGE_ERROR.
const STORAGE_ERROR_VERSION_MIN: i16 = 6;

pub(crate) async fn answer(context: &Context, body: BytesMut) -> Result<Reply, RequestError> {
    let is_large = body.len() > UNCOUNTED_BYTES;
    let mut slice = TimeSlice::begin();
    let mut request = FetchRequest::decode(context.counted(body), context.version())?;
    slice.yield_if_over().await;
    once::once(&mut request.topics);
    slice.yield_if_over().await;
    let mut response = FetchResponse {
        throttle_time_ms: 0,
        error_code: 0,
        session_id: 0,
        topics: Vec::new(),
        node_endpoints: Vec::new(),
    };
    let is_follower = request.replica_id >= 0;
    match session::begin(context, &mut request) {
        Ok(after) => {
            if is_large {
                detach(&mut request);
            }
            let targets = resolve(context, &request, &mut slice).await;
            response.topics = fetch(context, request, &targets).await;
            slice.yield_if_over().await;
            if context.version() < STORAGE_ERROR_VERSION_MIN {
                hide_storage_errors(&mut response.topics);
            }
            if context.version() >= LEADER_VERSION_MIN {
                name_leaders(context, &mut response);
            }
            if is_follower {
                count_replicated(&targets, &response);
            }
            if books_answer(context, is_follower, &response) {
                // The client repeats the request after the mute: the response is empty, and the
                // session does not change.
                session::postpone(&after, &mut response);
            } else {
                if !is_follower {
                    count_traffic(&targets, &response);
                }
                session::finish(context, (after, is_follower), &mut response);
            }
        }
        Err(error) => response.error_code = error.code(),
    }
    count_errors(context, &response);
    let header = &context.header;
    if is_follower {
        context.broker().stats().replicated(bytes_of(&response));
    } else {
        context.count_fetched(bytes_of(&response));
    }
    slice.yield_if_over().await;
    response.throttle_time_ms = context.throttle_ms();
    let gather = response.encode(header.correlation_id, header.version)?;
    Ok(reply(gather))
}

/// Books the response against the quota of a client. Returns true if the client must repeat the
/// request.
fn books_answer(context: &Context, is_follower: bool, response: &FetchResponse<Records>) -> bool {
    if is_follower {
        return false;
    }
    let (wait, postponed) = context.broker().quotas().book_answer(context.client(), bytes_of(response));
    context.mute_for(wait);
    postponed
}

/// Replaces an error that old clients do not know.
fn hide_storage_errors(topics: &mut [FetchedTopic<Records>]) {
    let unknown = ErrorCode::KafkaStorageError.code();
    let partitions = topics.iter_mut().flat_map(|topic| &mut topic.partitions);
    let failed = partitions.filter(|partition| partition.error_code == unknown);
    failed.for_each(|partition| partition.error_code = ErrorCode::NotLeaderOrFollower.code());
}

/// Adds the leaders of the partitions that this broker does not lead.
fn name_leaders(context: &Context, response: &mut FetchResponse<Records>) {
    let mut leaders = Leaders::default();
    for topic in &mut response.topics {
        for one in &mut topic.partitions {
            let key = (&topic.name, topic.topic_id);
            one.current_leader = leaders.of_refusal(context, key, one.index, one.error_code);
        }
    }
    response.node_endpoints = leaders.into_nodes();
}

/// Copies the names in a request: a long poll must not keep the frame of the request in memory.
fn detach(request: &mut FetchRequest) {
    (request.cluster_id, request.rack_id) = (None, StrBytes::default());
    request.forgotten.clear();
    for topic in &mut request.topics {
        topic.name = StrBytes::from(topic.name.as_str().to_owned());
    }
}

async fn fetch(
    context: &Context,
    request: FetchRequest,
    targets: &Arc<Vec<Target>>,
) -> Vec<FetchedTopic<Records>> {
    let limits = Limits::new(context, &request);
    let mut look = look(targets, limits).await;
    if !look.is_enough(&limits) {
        look = wait(context, targets, Limits { takes_positions: false, ..limits }).await;
    }
    if !look.remote.is_empty() {
        remote::complete(context, &mut look).await;
    }
    let mut fetched = look.partitions.into_iter();
    let topics = request.topics.into_iter().map(|topic| FetchedTopic {
        name: topic.name,
        topic_id: topic.topic_id,
        partitions: fetched.by_ref().take(topic.partitions.len()).collect(),
    });
    topics.collect()
}

/// Record bytes in a response.
fn bytes_of(response: &FetchResponse<Records>) -> u64 {
    let partitions = response.topics.iter().flat_map(|topic| &topic.partitions);
    partitions.filter_map(|partition| partition.records.as_ref()).map(HoleLen::len).sum()
}

/// Waits until one of the partitions changes or a throttle ends, then reads again; repeats this
/// until there is enough data or the time is up.
async fn wait(context: &Context, targets: &Arc<Vec<Target>>, limits: Limits) -> Look {
    context.wait_for_others();
    let sleeper = Arc::new(Notify::new());
    let partitions = targets.iter().filter_map(|target| target.partition.as_ref().ok());
    let registered = partitions.map(|partition| match partition.led() {
        Some(led) if limits.reader.is_follower() => led.followers().register(&sleeper),
        _ => partition.waiters().register(&sleeper),
    });
    let _registered: Vec<_> = registered.collect();
    let deadline = Instant::now() + limits.wait;
    loop {
        let look = look(targets, limits).await;
        if look.is_enough(&limits) {
            return look;
        }
        let throttled_until = look.throttled_for.map_or(deadline, |pause| Instant::now() + pause);
        tokio::select! {
            () = sleeper.notified() => {}
            () = tokio::time::sleep_until(throttled_until), if throttled_until < deadline => {}
            () = tokio::time::sleep_until(deadline) => return look,
            () = context.stop().signalled() => return look,
        }
    }
}

/// Looks up all partitions: on this thread if the necessary pages are in memory, otherwise on one
/// that may block.
async fn look(targets: &Arc<Vec<Target>>, limits: Limits) -> Look {
    match Look::at(targets, &limits, levada_log::Partition::read_cached) {
        Ok(look) => look,
        Err(Cold) => {
            let targets = targets.clone();
            let waiting = move || Look::at(&targets, &limits, levada_log::Partition::read);
            off_shard(waiting).await.unwrap_or_else(|Cold| unreachable!("that read waits"))
        }
    }
}

/// Limits of the response.
#[derive(Clone, Copy)]
struct Limits {
    bytes_max: u32,
    bytes_min: u64,
    wait: Duration,
    reader: Reader,
    /// True if this lookup records the positions of followers.
    takes_positions: bool,
}

impl Limits {
    fn new(context: &Context, request: &FetchRequest) -> Self {
        let reader = Reader::of(request, context.version());
        let mut bytes_max =
            request.max_bytes.max(0).unsigned_abs().min(context.broker().config().fetch_max_bytes);
        if !reader.is_follower() {
            bytes_max = bytes_max.min(context.broker().quotas().answer_bytes_max(context.client()));
        }
        Self {
            bytes_max,
            bytes_min: u64::from(request.min_bytes.max(0).unsigned_abs().min(bytes_max)),
            wait: context.patience(request.max_wait_ms),
            reader,
            takes_positions: true,
        }
    }
}

/// One partition of the request and where it is.
struct Target {
    wanted: FetchPartition,
    partition: Result<Arc<Partition>, ErrorCode>,
    /// The replica near the consumer, if it is to read there.
    preferred: Option<i32>,
}

impl Target {
    /// True if the response has an error for the partition that does not end the wait: no event
    /// would end the error. As in Kafka, the fetch waits for the other partitions, and its client
    /// does not repeat it without a pause.
    fn is_barred(&self) -> bool {
        let Err(error) = &self.partition else { return false };
        matches!(
            error,
            ErrorCode::UnknownTopicOrPartition
                | ErrorCode::UnknownTopicId
                | ErrorCode::TopicAuthorizationFailed
        )
    }
}

async fn resolve(context: &Context, request: &FetchRequest, slice: &mut TimeSlice) -> Arc<Vec<Target>> {
    let mut targets = Vec::with_capacity(request.topics.iter().map(|topic| topic.partitions.len()).sum());
    let replica = (request.replica_id >= 0).then(|| context.may_cluster(Operation::ClusterAction));
    if replica == Some(true) {
        context.exempt_time();
    }
    for topic in &request.topics {
        let key = (&topic.name, topic.topic_id);
        let permitted = match replica {
            None => context.permit_topic(Operation::Read, key),
            Some(true) => Ok(()),
            Some(false) => Err(ErrorCode::TopicAuthorizationFailed),
        };
        for wanted in &topic.partitions {
            let partition = permitted.and_then(|()| context.partition(key, wanted.index));
            let preferred =
                partition.as_ref().ok().and_then(|partition| nearest(context, request, partition, wanted));
            targets.push(Target { wanted: wanted.clone(), partition, preferred });
            slice.yield_if_over().await;
        }
    }
    Arc::new(targets)
}

/// Function that reads a log: [`levada_log::Partition::read`], or its variant that does not wait
/// for the disk.
type Read = fn(&levada_log::Partition, i64, u32, i64, bool) -> Result<Slice, ReadError>;

/// The read needs data that is only on the disk.
struct Cold;

/// The reason why a partition yields nothing.
enum Failed {
    Cold,
    Error(ErrorCode),
}

impl From<ErrorCode> for Failed {
    fn from(error: ErrorCode) -> Self {
        Self::Error(error)
    }
}

impl From<ReadError> for Failed {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Cold => Self::Cold,
            error => Self::Error(read_error(error)),
        }
    }
}

/// One read of all partitions.
struct Look {
    partitions: Vec<FetchedPartition<Records>>,
    bytes: u64,
    /// An event that ends the wait: an error of a partition that can be waited for, a divergence,
    /// the end of a segment; or there is no such partition.
    urgent: bool,
    /// Time after which the throttle of a partition that it leaves out may be over.
    throttled_for: Option<Duration>,
    /// The partitions whose records are to be read from remote storage.
    remote: Vec<Wanted>,
}

impl Look {
    fn at(targets: &[Target], limits: &Limits, read: Read) -> Result<Self, Cold> {
        let urgent = targets.iter().all(Target::is_barred);
        let partitions = Vec::with_capacity(targets.len());
        let mut look = Self { partitions, bytes: 0, urgent, throttled_for: None, remote: Vec::new() };
        for target in targets {
            let found = target.partition.clone().map_err(Failed::from);
            let fetched = found.and_then(|partition| look.read(target, &partition, (limits, read)));
            look.partitions.push(match fetched {
                Ok(fetched) => fetched,
                Err(Failed::Cold) => return Err(Cold),
                Err(Failed::Error(error)) => {
                    look.urgent |= !target.is_barred();
                    FetchedPartition {
                        error_code: error.code(),
                        // As Kafka: an empty list for a partition that it does not have, none for a
                        // partition that it has.
                        aborted: target.partition.is_err().then(Vec::new),
                        ..FetchedPartition::new(target.wanted.index)
                    }
                }
            });
        }
        Ok(look)
    }

    fn is_enough(&self, limits: &Limits) -> bool {
        self.urgent || self.bytes >= limits.bytes_min || limits.wait.is_zero()
    }

    fn read(
        &mut self,
        target: &Target,
        partition: &Partition,
        (limits, read): (&Limits, Read),
    ) -> Result<FetchedPartition<Records>, Failed> {
        let wanted = &target.wanted;
        // Before the check: a position counts in the epoch that the log is read in.
        let leader_epoch = partition.leadership().leader_epoch();
        limits.reader.check(partition, wanted)?;
        let log = partition.log();
        let mut fetched = FetchedPartition::new(wanted.index);
        fetched.preferred_read_replica = target.preferred.unwrap_or(fetched.preferred_read_replica);
        // Before the read: later appends do not make a follower late, and the follower can have
        // this high watermark.
        let (upto, leader_end, high_watermark) =
            (limits.reader.upto(log), log.log_end(), log.high_watermark());
        if wanted.last_fetched_epoch >= 0 {
            fetched.diverging_epoch = diverging(log, wanted)?;
        }
        if fetched.diverging_epoch.is_some() || target.preferred.is_some() {
            self.urgent = true;
        } else {
            let left = u64::from(limits.bytes_max).saturating_sub(self.bytes);
            let max_bytes = u64::from(wanted.max_bytes.max(0).unsigned_abs()).min(left);
            let max_bytes =
                u32::try_from(max_bytes).expect("bounded by a partition's limit, which is 32 bits");
            let found = read(log, wanted.fetch_offset, max_bytes, upto, self.bytes == 0);
            let mut slice = match found {
                Err(ReadError::Remote { .. }) if limits.reader.is_follower() => {
                    // The follower takes the log start from this error.
                    self.urgent = true;
                    fetched.error_code = ErrorCode::OffsetMovedToTieredStorage.code();
                    (fetched.high_watermark, fetched.log_start_offset) = (high_watermark, log.log_start());
                    return Ok(fetched);
                }
                Err(ReadError::Remote { .. }) => {
                    self.want_remote(partition, wanted, (limits, max_bytes));
                    Slice::nothing(wanted.fetch_offset, log.log_start())
                }
                other => other?,
            };
            if let Some(pause) = slice.extent.as_ref().and_then(|_| limits.reader.throttled_for(partition)) {
                (slice.extent, slice.sealed) = (None, false);
                self.throttled_for = Some(self.throttled_for.map_or(pause, |other| other.min(pause)));
            }
            self.bytes += slice.extent.as_ref().map_or(0, |extent| extent.len);
            self.urgent |= slice.sealed;
            if let Reader::Consumer { committed_only: true, .. } = limits.reader {
                fetched.aborted = Some(aborted(log, &slice, wanted.fetch_offset, upto)?);
            }
            let sealed = slice.sealed;
            fetched.records = slice.extent.map(|extent| Records::local(extent, sealed));
            if limits.takes_positions {
                limits.reader.take_position(partition, wanted, (leader_epoch, leader_end))?;
            }
        }
        fetched.high_watermark =
            if limits.reader.is_follower() { high_watermark } else { log.high_watermark() };
        fetched.last_stable_offset = log.last_stable();
        fetched.log_start_offset = log.log_start();
        Ok(fetched)
    }
}

/// The aborted transactions in a range, whose records the consumer leaves out.
fn aborted(
    log: &levada_log::Partition,
    slice: &Slice,
    from: i64,
    upto: i64,
) -> Result<Vec<AbortedTransaction>, ReadError> {
    let found = log.aborted_in(slice, from, upto)?.into_iter();
    let told = |one: levada_log::AbortedTransaction| AbortedTransaction {
        producer_id: one.producer_id,
        first_offset: one.first_offset,
    };
    Ok(found.map(told).collect())
}

/// The offset at which the consumer's log diverged from this one, if it did (KIP-320).
fn diverging(log: &levada_log::Partition, wanted: &FetchPartition) -> Result<Option<EpochEnd>, ErrorCode> {
    let (epoch, end_offset) = log.epoch_end_offset(wanted.last_fetched_epoch);
    if epoch < 0 || end_offset < 0 {
        return Err(ErrorCode::OffsetOutOfRange);
    }
    if wanted.fetch_offset < log.log_start() {
        return Err(ErrorCode::OffsetOutOfRange);
    }
    let diverged = epoch < wanted.last_fetched_epoch || end_offset < wanted.fetch_offset;
    Ok(diverged.then_some(EpochEnd { epoch, end_offset }))
}

#[cfg(test)]
mod tests;

//! Produce (key 0), versions 3–13; 0–2 are advertised, as Kafka does, for old librdkafka, and
//! refused.
//!
//! Version 5 returns the log start offset, 7 permits zstd (KIP-110), 8 reports errors of single
//! records (KIP-467), 9 is flexible (KIP-482), 10 names the new leader (KIP-951), 11 may return
//! TRANSACTION_ABORTABLE, 12 adds partitions to transactions (both KIP-890), and 13 has topic ids
//! (KIP-516).
//!
//! Each partition's batch is checked on the connection's shard (size, magic, checksum, structure),
//! then goes through the partition's lane, which assigns its offsets. Partitions of a request are
//! independent: one may fail while the others are written. With acks=all the response waits until
//! the replicas in sync have the batch, or for `timeout_ms`, and `min.insync.replicas` is checked
//! before and after. On a partition with one replica, acks=all otherwise has the effect of acks=1.
//! With acks=0 there is no response, and an error closes the connection, which is the only way to
//! report it.
//!
//! The configuration of the topic determines three more steps. Records without a key in a compacted
//! topic, and timestamps too far from the clock, are refused one by one (`record_errors`). With
//! `LogAppendTime`, the batch gets the time of the broker. A `compression.type` other than
//! `producer` recompresses the batch on a separate thread. The largest timestamp in a batch's
//! header is computed from its records, not taken from the client; a client that claims the
//! broker's time (`LogAppendTime`) for a batch is refused.
//!
//! The partition of a transactional batch must be part of the transaction. From version 12 on
//! (KIP-890) the first batch adds the partition to it; up to version 11 the client does so before,
//! with AddPartitionsToTxn.
//!
//! A client that sends a request to a broker other than the leader gets the leader in the response
//! (KIP-951).
//!
//! A request may name a partition more than once. As in Kafka, only the last of its batches is
//! written, and gets a result.
//!
//! Checks Write on each topic, and on the transactional id if there are transactional records.

use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use levada_base::batch::{self, BatchError, BatchView, CheckedBatch, MAX_EXPANDED, Survey};
use levada_base::compress::{CompressError, Compression};
use levada_config::{TimestampType, TopicConfig};
use levada_coordination::txn::TxnError;
use levada_coordination::txn::request::{ProducerIdentity, Protocol};
use levada_io::Piece;
use levada_log::{Append, Appended, Passing};
use levada_process::clock::now_ms;
use levada_security::acl::{Operation, ResourceType};
use levada_wire::Uuid;
use levada_wire::error_code::{ErrorCode, Failure};
use levada_wire::messages::StrBytes;
use levada_wire::produce::{
    ProducePartition, ProduceRequest, ProduceResponse, ProduceTopic, ProducedPartition, ProducedTopic,
};
use tokio::time::Instant as TokioInstant;

use crate::api::k00_produce::rejected::Rejected;
use crate::api::k00_produce::repeated::Seen;
use crate::api::leaders::Leaders;
use crate::api::{Context, Reply, RequestError, text};
use crate::quota::Used;
use crate::replica::Partition;
use crate::replica::led::CommitFailure;
use crate::replica::submitted::Submitted;
use crate::time_slice::TimeSlice;
use crate::transaction::Membership;

mod frame;
mod rejected;
mod repeated;
mod small;
mod validate;

/// First version whose clients can decompress zstd.
const ZSTD_VERSION_MIN: i16 = 7;
/// First version in which a batch adds its partition to the transaction.
const EPOCH_BUMP_VERSION_MIN: i16 = 12;
/// First version in which a refusal names the leader.
const LEADER_VERSION_MIN: i16 = 10;
/// First version whose clients abort the transaction after TRANSACTION_ABORTABLE.
const ABORTABLE_VERSION_MIN: i16 = 11;

/// Records that expand to more bytes than this are expanded by another thread: a shard has other
/// connections too.
const EXPANDED_ON_SHARD_MAX: usize = 1 << 20;

/// Larger batches are checked by another thread, compressed or not.
const CHECKED_ON_SHARD_MAX: usize = 2 << 20;

/// All replicas in sync must have the batch.
const ACKS_ALL: i16 = -1;

/// The client id under which Kafka's own tools may write to internal topics.
const ADMIN_CLIENT: &str = "__admin_client";

/// A partition's part of the request on its way through the lane.
enum Started {
    Refused(Option<Arc<Partition>>, Rejected),
    /// The batch, with this number of bytes, is in the lane.
    Submitted(Arc<Partition>, Submitted, u64),
}

/// Name and id of a topic, and its partitions by number.
type StartedTopic = (StrBytes, Uuid, Vec<(i32, Started)>);

pub(crate) async fn answer(context: &Context, body: BytesMut) -> Result<Reply, RequestError> {
    let used = context.broker().quotas().book(Used::Produced, context.client(), body.len() as f64);
    context.mute_for(used);
    let held = context.held.take();
    let mut slice = TimeSlice::begin();
    let request = ProduceRequest::decode(body, context.version())?;
    slice.yield_if_over().await;
    let envelope = Envelope::new(context, &request);
    let mut started = start_each(context, &envelope, request.topics, &mut slice).await;
    let acks = envelope.acks;
    if held.is_some() {
        started = written(started).await;
        // Nothing of the request is in memory any more. The fetches of followers, for which the
        // response may wait, need memory as well.
        drop((envelope, held));
    }
    let mut response = ProduceResponse::default();
    let mut leaders = Leaders::default();
    for (name, topic_id, partitions) in started {
        let mut produced = Vec::with_capacity(partitions.len());
        for (index, one) in partitions {
            let mut one = finish(index, one).await;
            context.count_error(one.error_code);
            if context.version() >= LEADER_VERSION_MIN {
                one.current_leader = leaders.of_refusal(context, (&name, topic_id), index, one.error_code);
            }
            produced.push(one);
            slice.yield_if_over().await;
        }
        response.topics.push(ProducedTopic { name, topic_id, partitions: produced });
    }
    response.node_endpoints = leaders.into_nodes();
    if acks == 0 {
        // As in Kafka: only the quota of bytes mutes a client that gets no response.
        context.exempt_time();
        return silent(&response);
    }
    response.throttle_time_ms = context.throttle_ms();
    let header = &context.header;
    Ok(Reply::Send(vec![Piece::Bytes(response.encode(header.correlation_id, header.version)?)]))
}

/// Starts the last batch of each partition. The topics stay in the order of the request.
async fn start_each(
    context: &Context,
    envelope: &Envelope,
    topics: Vec<ProduceTopic>,
    slice: &mut TimeSlice,
) -> Vec<StartedTopic> {
    let mut started = Vec::with_capacity(topics.len());
    let mut seen = Seen::of(&topics);
    for topic in topics.into_iter().rev() {
        let mut partitions = Vec::with_capacity(topic.partitions.len());
        let key = (&topic.name, topic.topic_id);
        let permitted = envelope.permitted.and_then(|()| context.permit_topic(Operation::Write, key));
        for data in topic.partitions.into_iter().rev() {
            let index = data.index;
            if seen.is_new(key, index) {
                let one = match permitted {
                    Ok(()) => start(context, envelope, key, data).await,
                    Err(error) => Started::Refused(None, error.into()),
                };
                partitions.push((index, one));
            }
            slice.yield_if_over().await;
        }
        partitions.reverse();
        if !partitions.is_empty() {
            started.push((topic.name, topic.topic_id, partitions));
        }
    }
    started.reverse();
    started
}

/// Waits until each batch is in the log or refused. Copies the names of the topics: a name that is
/// a part of the frame would keep all of it in memory.
async fn written(started: Vec<StartedTopic>) -> Vec<StartedTopic> {
    let mut written = Vec::with_capacity(started.len());
    for (name, topic_id, partitions) in started {
        let mut all = Vec::with_capacity(partitions.len());
        for (index, one) in partitions {
            let one = match one {
                Started::Submitted(partition, submitted, bytes) => {
                    Started::Submitted(partition, submitted.written().await, bytes)
                }
                refused @ Started::Refused(..) => refused,
            };
            all.push((index, one));
        }
        written.push((StrBytes::from(name.as_str().to_owned()), topic_id, all));
    }
    written
}

/// Checks one partition's batch and hands it to the lane.
async fn start(
    context: &Context,
    envelope: &Envelope,
    key: (&StrBytes, Uuid),
    data: ProducePartition,
) -> Started {
    let partition = match find(context, key, &data) {
        Ok(partition) => partition,
        Err(failure) => return Started::Refused(None, failure.into()),
    };
    match check(context, envelope, &partition, data.records).await {
        Ok(append) => {
            let bytes = append.records.len() as u64;
            context.count_produced(bytes);
            match submit(context, envelope, &partition, append).await {
                Ok(submitted) => Started::Submitted(partition, submitted, bytes),
                Err(failure) => Started::Refused(Some(partition), Rejected::unseen(failure)),
            }
        }
        Err(rejected) => Started::Refused(Some(partition), rejected),
    }
}

/// Properties of one request that all its partitions share.
struct Envelope {
    acks: i16,
    /// Longest wait for other replicas.
    timeout: Duration,
    transactional_id: Option<StrBytes>,
    /// The error if the client may not write in the transaction that the request names.
    permitted: Result<(), ErrorCode>,
}

impl Envelope {
    fn new(context: &Context, request: &ProduceRequest) -> Self {
        let transactional_id = request.transactional_id.clone();
        let id = transactional_id.as_ref().map(StrBytes::as_str);
        let allowed = !context.broker().access().has_authorizer()
            || !is_transactional(request)
            || id.is_some_and(|id| context.may(Operation::Write, ResourceType::TransactionalId, id));
        let permitted = if allowed { Ok(()) } else { Err(ErrorCode::TransactionalIdAuthorizationFailed) };
        let timeout = context.patience(request.timeout_ms);
        Self { acks: request.acks, timeout, transactional_id, permitted }
    }
}

fn is_transactional(request: &ProduceRequest) -> bool {
    let partitions = request.topics.iter().flat_map(|topic| &topic.partitions);
    let mut records = partitions.filter_map(|partition| partition.records.as_ref());
    records.any(|records| BatchView::parse(records).is_ok_and(|batch| batch.is_transactional()))
}

/// Hands a batch to the lane; a batch of a transaction only if the transaction covers the
/// partition.
async fn submit(
    context: &Context,
    envelope: &Envelope,
    partition: &Arc<Partition>,
    mut append: Append,
) -> Result<Submitted, Failure> {
    let batch = BatchView::parse(&append.records)?;
    // Before the append: a role that changes during the append ends this leadership.
    let led = if envelope.acks == ACKS_ALL { partition.led() } else { None };
    let deadline = || TokioInstant::now() + envelope.timeout;
    if !batch.is_transactional() {
        return Ok(partition.append(append, now_ms()).committed(led, deadline));
    }
    let Some(transactional_id) = &envelope.transactional_id else {
        return Err(ErrorCode::TransactionalIdAuthorizationFailed.into());
    };
    let producer =
        ProducerIdentity { producer_id: batch.producer_id(), producer_epoch: batch.producer_epoch() };
    let epoch_bump = context.version() >= EPOCH_BUMP_VERSION_MIN;
    append.transaction_version = if epoch_bump { 2 } else { 0 };
    let claim = Membership {
        transactional_id: transactional_id.as_str(),
        producer,
        protocol: if epoch_bump { Protocol::EpochBump } else { Protocol::Classic },
    };
    let submitted = context.broker().transactions().append(partition, claim, append).await;
    let submitted = submitted.map(|submitted| submitted.committed(led, deadline));
    submitted.map_err(|error| refusal(context.version(), error))
}

/// The error for a batch outside its producer's transaction, as clients of this version expect.
fn refusal(version: i16, error: TxnError) -> Failure {
    match error.before_fencing() {
        // The client retries without a search for another leader. A client that changes its epoch
        // with each transaction assumes that the end of the last transaction is on its way.
        error @ (TxnError::ConcurrentTransactions
        | TxnError::CoordinatorLoadInProgress
        | TxnError::CoordinatorNotAvailable
        | TxnError::NotCoordinator)
            if version < EPOCH_BUMP_VERSION_MIN || error != TxnError::ConcurrentTransactions =>
        {
            let text = format!("Unable to verify the partition has been added to the transaction: {error}");
            Failure::new(ErrorCode::NotEnoughReplicas, text)
        }
        TxnError::TransactionAbortable if version < ABORTABLE_VERSION_MIN => {
            Failure::new(ErrorCode::InvalidTxnState, "Partition was not added to the transaction")
        }
        error => Failure::new(error.into(), error.to_string()),
    }
}

/// The partition, unless only the broker itself may write to it.
fn find(
    context: &Context,
    key: (&StrBytes, Uuid),
    data: &ProducePartition,
) -> Result<Arc<Partition>, Failure> {
    let partition = context.partition(key, data.index)?;
    if partition.is_internal() && context.client_id() != ADMIN_CLIENT {
        let text = format!("Cannot append to internal topic {}", partition.topic());
        return Err(Failure::new(ErrorCode::InvalidTopic, text));
    }
    partition.check_leader(-1).inspect_err(|_| {
        let records = data.records.as_deref().unwrap_or_default();
        partition.log().note_refused(records, Passing::Leadership);
    })?;
    Ok(partition)
}

/// Checks one partition's batch: on this shard if that is cheap, otherwise on a thread that may
/// block.
async fn check(
    context: &Context,
    envelope: &Envelope,
    partition: &Arc<Partition>,
    records: Option<BytesMut>,
) -> Result<Append, Rejected> {
    let version = context.version();
    let mut records = acceptable(version, envelope, partition, records)?;
    if is_checked_on_shard(&records, &partition.config())? {
        match batch::check_within(&records, EXPANDED_ON_SHARD_MAX) {
            Err(BatchError::Compression(CompressError::TooLarge { .. })) => {}
            checked => {
                let survey = checked.map_err(Failure::from)?.survey;
                return examine(version, partition, (records, survey));
            }
        }
    } else if records.len() <= small::EXPANDED_MAX {
        match small::check(context, partition, records).await? {
            Ok(append) => return Ok(append),
            Err(larger) => records = larger,
        }
    }
    // Few at a time, since each may take as much memory as a batch may expand to, and the
    // compression of that.
    let large = &context.broker().turns().expansions.large;
    let partition = partition.clone();
    let check = move || {
        let survey = batch::check_within(&records, MAX_EXPANDED).map_err(Failure::from)?.survey;
        examine(version, &partition, (records, survey))
    };
    context.run_in_turn(large, check).await
}

/// True if the check takes so little time that the shard can do it. A large batch is checked on
/// another thread, and so is a batch that is recompressed: at high levels that takes most of a
/// second.
fn is_checked_on_shard(records: &[u8], config: &TopicConfig) -> Result<bool, Failure> {
    let recompressed = validate::wanted_codec(&BatchView::parse(records)?, config)?.is_some();
    Ok(records.len() <= CHECKED_ON_SHARD_MAX && !recompressed)
}

/// The records, if they may be written at all: checks that need no decompression.
fn acceptable(
    version: i16,
    envelope: &Envelope,
    partition: &Partition,
    records: Option<BytesMut>,
) -> Result<BytesMut, Rejected> {
    if !matches!(envelope.acks, -1..=1) {
        return Err(Rejected::unseen(ErrorCode::InvalidRequiredAcks));
    }
    let config = partition.config();
    if envelope.acks == ACKS_ALL
        && let Some(in_sync) = partition.shortage()
    {
        let text = format!(
            "The size of the current ISR is {in_sync}, insufficient to satisfy the min.isr requirement of {} for partition {}",
            config.min_insync_replicas,
            partition.name()
        );
        partition.log().note_refused(records.as_deref().unwrap_or_default(), Passing::Replicas);
        return Err(Failure::new(ErrorCode::NotEnoughReplicas, text).into());
    }
    let records = frame::only_batch(version, records.unwrap_or_default()).map_err(Rejected::unseen)?;
    let size_bytes = records.len();
    if size_bytes as u64 > u64::from(config.max_message_bytes) {
        let text = format!(
            "The record batch size in the append to {} is {size_bytes} bytes which exceeds the maximum configured value of {}.",
            partition.name(),
            config.max_message_bytes
        );
        return Err(Failure::new(ErrorCode::MessageTooLarge, text).into());
    }
    Ok(records)
}

/// Judges a well-formed batch by the topic's rules, corrects the timestamps in its header, and
/// compresses it as the topic requires.
fn examine(
    version: i16,
    partition: &Partition,
    (mut records, survey): (BytesMut, Survey),
) -> Result<Append, Rejected> {
    let config = partition.config();
    let batch = BatchView::parse(&records).map_err(Failure::from)?;
    permitted(version, partition, &batch)?;
    validate::judge(&CheckedBatch { batch, survey }, &config, || partition.name(), now_ms())?;
    // With the broker's own time the append writes both, the time and the checksum.
    if config.timestamp_type == TimestampType::CreateTime {
        batch::correct_max_timestamp(&mut records, survey.latest);
    }
    let leader_epoch = partition.leadership().leader_epoch();
    Ok(Append { leader_epoch, ..Append::client(validate::compress(records, &config)?) })
}

/// Refuses batches that are well formed, but that a client may not produce.
fn permitted(version: i16, partition: &Partition, batch: &BatchView<'_>) -> Result<(), Rejected> {
    if batch.base_offset() != 0 {
        let text = format!(
            "The baseOffset of the record batch in the append to {} should be 0, but it is {}",
            partition.name(),
            batch.base_offset()
        );
        return Err(Failure::new(ErrorCode::InvalidRecord, text).into());
    }
    if batch.is_control() {
        let text = "Clients are not allowed to write control records";
        return Err(Failure::new(ErrorCode::InvalidRecord, text).into());
    }
    if version < ZSTD_VERSION_MIN && batch.compression().map_err(Failure::from)? == Compression::Zstd {
        let text =
            format!("Produce requests with version {version} are not allowed to use ZStandard compression");
        return Err(Rejected::unseen(Failure::new(ErrorCode::UnsupportedCompressionType, text)));
    }
    Ok(())
}

async fn finish(index: i32, started: Started) -> ProducedPartition {
    let (partition, result) = match started {
        Started::Refused(partition, failure) => (partition, Err(failure)),
        Started::Submitted(partition, submitted, bytes) => {
            let result = tokio::select! {
                biased;
                result = submitted.wait() => result,
                // The batch may enter the log later: another broker leads by then, or the client
                // sends it again.
                () = partition.lane().waits_in_vain() => Err(CommitFailure::LeadershipLost.into()),
            };
            let result = result.map_err(|error| {
                if partition.is_deleted() {
                    Rejected::from(partition.absence())
                } else {
                    Failure::from(error).into()
                }
            });
            if let Ok(Appended { base_offset, last_offset, duplicate: false, .. }) = &result {
                partition.traffic().produced(bytes, (last_offset - base_offset + 1).unsigned_abs());
            }
            (Some(partition), result)
        }
    };
    if let (Some(partition), Err(_)) = (&partition, &result) {
        partition.traffic().produce_failed();
    }
    let tells = result.as_ref().map_or_else(Rejected::tells_log_start, |_| true);
    let log_start_offset = partition.filter(|_| tells).map_or(-1, |partition| partition.log().log_start());
    match result {
        Ok(Appended { base_offset, log_append_time_ms, .. }) => ProducedPartition {
            index,
            base_offset,
            log_append_time_ms,
            log_start_offset,
            ..ProducedPartition::default()
        },
        Err(Rejected { failure, errors, .. }) => ProducedPartition {
            index,
            error_code: failure.code.code(),
            record_errors: errors,
            error_message: failure.message.map(text),
            log_start_offset,
            ..ProducedPartition::default()
        },
    }
}

/// Outcome with acks=0: success has no response; failure closes the connection without a response.
fn silent(response: &ProduceResponse) -> Result<Reply, RequestError> {
    let failed = response.topics.iter().flat_map(|topic| &topic.partitions).find(|one| one.error_code != 0);
    match failed {
        Some(one) => Err(RequestError::SilentProduce { error_code: one.error_code }),
        None => Ok(Reply::Silent),
    }
}

//! Records in progress: collected in one batch per partition, sent when a batch is full or the
//! input pauses, sent again after a restart of the broker, and counted when acknowledged.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bytes::Bytes;
use levada_log::batch::Builder;
use levada_wire::StrBytes;
use levada_wire::messages::produce_request::{PartitionProduceData, TopicProduceData};
use levada_wire::messages::{ProduceRequest, ProduceResponse};

use super::partitioner::partition_of;
use super::producer::Producer;
use super::record::Record;
use super::{Acks, Args};
use crate::cluster::{Cluster, NO_LEADER, Outage, Topic};
use crate::failure::{Cause, Failure};
use crate::output::counted;
use crate::{interrupt, kafka_error, time};

/// Version from which Produce names topics by id.
const BY_ID: i16 = 13;
const TIMEOUT_MS: i32 = 30_000;
/// The broker has the batch, and later ones: it was acknowledged, and the answer was lost.
const DUPLICATE_SEQUENCE_NUMBER: i16 = 46;
const REQUEST_TIMED_OUT: i16 = 7;
const NOT_ENOUGH_REPLICAS_AFTER_APPEND: i16 = 20;

/// Batches being filled.
pub(super) struct Batches<'a> {
    cluster: Cluster,
    topic: Topic,
    args: &'a Args,
    /// `None` where requests are not sent again.
    producer: Option<Producer>,
    pending: BTreeMap<i32, Pending>,
    /// Since when a record waits in `pending`.
    waiting_since: Option<Instant>,
    /// Partition of records without a key until that batch leaves.
    current: usize,
    acknowledged_records: u64,
    acknowledged_bytes: u64,
}

struct Pending {
    builder: Builder,
    /// Bytes of keys and values.
    bytes: u64,
    /// The first and the last line.
    lines: (u64, u64),
}

impl<'a> Batches<'a> {
    pub(super) fn new(mut cluster: Cluster, topic: Topic, args: &'a Args) -> Result<Self, Failure> {
        let is_repeatable = args.acks == Acks::All;
        let producer = is_repeatable.then(|| Producer::new(&mut cluster)).transpose()?;
        Ok(Self {
            cluster,
            topic,
            args,
            producer,
            pending: BTreeMap::new(),
            waiting_since: None,
            current: 0,
            acknowledged_records: 0,
            acknowledged_bytes: 0,
        })
    }

    pub(super) fn acknowledged_records(&self) -> u64 {
        self.acknowledged_records
    }

    /// Bytes of keys and values that were acknowledged.
    pub(super) fn acknowledged_bytes(&self) -> u64 {
        self.acknowledged_bytes
    }

    /// Age of the oldest record that was not sent; `None` if all were.
    pub(super) fn age(&self) -> Option<Duration> {
        self.waiting_since.map(|since| since.elapsed())
    }

    /// Adds a record; sends its batch if that is full.
    pub(super) fn push(&mut self, record: &Record<'_>, line: u64) -> Result<(), Failure> {
        let partition = self.partition(record, line)?;
        let limit = self.args.batch_bytes as usize;
        let coming = record.size_bytes_max();
        let full =
            |pending: &Pending| !pending.builder.is_empty() && pending.builder.size_bytes() + coming > limit;
        if self.pending.get(&partition).is_some_and(full) {
            self.send(partition)?;
            self.current = self.current.wrapping_add(1);
        }
        let partition = self.partition(record, line)?;
        let codec = self.args.compression.compression();
        self.waiting_since.get_or_insert_with(Instant::now);
        let fresh = || Pending { builder: Builder::new().compression(codec), bytes: 0, lines: (line, line) };
        let pending = self.pending.entry(partition).or_insert_with(fresh);
        let headers = record.headers.iter();
        let headers: Vec<_> = headers.map(|(key, value)| (key.as_ref(), value.as_deref())).collect();
        let timestamp_ms = record.timestamp_ms.unwrap_or_else(time::now_ms);
        let (key, value) = (record.key.as_deref(), record.value.as_deref());
        pending.builder.push_with_headers(timestamp_ms, key, value, &headers);
        pending.bytes += record.data_bytes() as u64;
        pending.lines.1 = line;
        Ok(())
    }

    /// Sends every batch.
    pub(super) fn flush(&mut self) -> Result<(), Failure> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let partitions: Vec<i32> = self.pending.keys().copied().collect();
        self.current = self.current.wrapping_add(1);
        partitions.into_iter().try_for_each(|partition| self.send(partition))
    }

    /// Prints which records were never sent.
    pub(super) fn tell_unsent(&self) {
        for (partition, pending) in &self.pending {
            tell!("not sent: {} for {}/{partition}", pending.shown(), self.topic.name);
        }
    }

    fn partition(&self, record: &Record<'_>, line: u64) -> Result<i32, Failure> {
        let count = self.topic.leaders.len();
        match (self.args.partition.or(record.partition), &record.key) {
            (Some(partition), _) if self.topic.leaders.contains_key(&partition) => Ok(partition),
            (Some(partition), _) => Err(Failure::with_next(
                format!("line {line}: {} has no partition {partition}; it has {count}", self.topic.name),
                "lines without their partition, as jq 'del(.partition)' makes them",
            )),
            (None, Some(key)) => Ok(partition_of(key, i32::try_from(count).unwrap_or(i32::MAX))),
            (None, None) => {
                // As Kafka's producers, to a partition with a leader while there is one.
                let led = || self.topic.leaders.iter().filter(|(_, leader)| **leader != NO_LEADER);
                let nth = self.current.checked_rem(led().count());
                let chosen = nth.and_then(|nth| led().nth(nth)).or_else(|| self.topic.leaders.iter().next());
                Ok(chosen.map_or(0, |(partition, _)| *partition))
            }
        }
    }

    fn send(&mut self, partition: i32) -> Result<(), Failure> {
        let Some(pending) = self.pending.remove(&partition) else { return Ok(()) };
        if self.pending.is_empty() {
            self.waiting_since = None;
        }
        let (records, shown) = (pending.builder.len() as u64, pending.shown());
        match self.deliver(partition, pending.builder) {
            Ok(()) => {
                self.acknowledged_records += records;
                self.acknowledged_bytes += pending.bytes;
                Ok(())
            }
            Err((failure, may_be_stored)) => {
                let doubt = if may_be_stored { "; the broker may have stored them anyway" } else { "" };
                tell!("not acknowledged: {shown} for {}/{partition}{doubt}", self.topic.name);
                Err(failure)
            }
        }
    }

    /// Sends one batch until it is acknowledged; without a producer's number only once. A failure
    /// is returned with true if the broker may have stored the batch.
    fn deliver(&mut self, partition: i32, builder: Builder) -> Result<(), (Failure, bool)> {
        let builder = match &mut self.producer {
            Some(producer) => producer.number(partition, builder),
            None => builder,
        };
        let encoded = |error| (Failure::new(format!("cannot encode a batch: {error}")), false);
        let batch = builder.build().map_err(encoded)?.freeze();
        let mut outage = Outage::none(Some(self.args.timeout()));
        let mut attempt = Attempt::default();
        let mut may_be_stored = false;
        loop {
            let failure = match self.request(partition, batch.clone(), &mut attempt) {
                Ok(()) => {
                    outage.over();
                    return Ok(());
                }
                Err(failure) if failure.cause() == Cause::Code(DUPLICATE_SEQUENCE_NUMBER) => return Ok(()),
                Err(failure) => failure,
            };
            may_be_stored |= attempt.is_sent && leaves_doubt(failure.cause());
            if self.producer.is_none() {
                return Err((failure, may_be_stored));
            }
            let borne = outage.bear(&mut self.cluster, failure, &interrupt::is_asked);
            borne.map_err(|failure| (failure, may_be_stored))?;
            attempt = Attempt { is_stale: true, is_sent: false };
        }
    }

    fn request(&mut self, partition: i32, batch: Bytes, attempt: &mut Attempt) -> Result<(), Failure> {
        if attempt.is_stale {
            self.topic = self.cluster.present_topic(&self.args.topic)?;
        }
        let leader = self.topic.present_leader(partition)?;
        let client = self.cluster.open_broker(leader)?;
        let version = client.best_version::<ProduceRequest>()?;
        let request = request(&self.topic, version, (partition, batch), self.args.acks);
        attempt.is_sent = true;
        if self.args.acks == Acks::Nobody {
            client.send_request(version, &request)?;
            return Ok(());
        }
        let response = client.request_at(version, &request)?;
        let checked = check(&response, &format!("produce to {}/{partition}", self.topic.name));
        kafka_error::needing(checked, "write", &format!("--topic {}", self.topic.name))
    }
}

/// One attempt to send a batch.
#[derive(Default)]
struct Attempt {
    /// The leaders may have changed.
    is_stale: bool,
    /// The connection has taken bytes of the request, perhaps all.
    is_sent: bool,
}

/// True for failures of a request after which the broker may have the batch: it also answers with
/// these codes after it has appended a batch.
pub(super) fn leaves_doubt(cause: Cause) -> bool {
    match cause {
        Cause::Connection => true,
        Cause::Code(code) => code == REQUEST_TIMED_OUT || code == NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        Cause::Other => false,
    }
}

impl Pending {
    /// Number of records, and of which lines.
    fn shown(&self) -> String {
        let records = counted(self.builder.len() as u64, "record", "records");
        match self.lines {
            (first, last) if first == last => format!("{records} (line {first})"),
            (first, last) => format!("{records} (lines {first} to {last})"),
        }
    }
}

/// A request with one batch.
pub(crate) fn request(
    topic: &Topic,
    version: i16,
    (partition, batch): (i32, Bytes),
    acks: Acks,
) -> ProduceRequest {
    let mut data = PartitionProduceData::default();
    data.index = partition;
    data.records = Some(batch);
    let mut asked = TopicProduceData::default();
    if version >= BY_ID {
        asked.topic_id = topic.id;
    } else {
        asked.name = StrBytes::from(topic.name.as_str());
    }
    asked.partition_data = vec![data];
    let mut request = ProduceRequest::default();
    request.acks = acks.wire();
    request.timeout_ms = TIMEOUT_MS;
    request.topic_data = vec![asked];
    request
}

/// Fails with the first error of an answer.
pub(crate) fn check(response: &ProduceResponse, doing: &str) -> Result<(), Failure> {
    let partitions = response.responses.iter().flat_map(|topic| &topic.partition_responses);
    for partition in partitions {
        let record =
            partition.record_errors.first().and_then(|error| error.batch_index_error_message.as_deref());
        let said = record.or(partition.error_message.as_deref());
        kafka_error::check(partition.error_code, doing, said)?;
    }
    Ok(())
}

//! Records in progress: collected in one batch per partition, sent when a batch is full or the
//! input pauses, sent again after a restart of the broker, and counted when acknowledged. A batch
//! whose partition has no leader waits, and the batches of other partitions go on.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use levada_base::batch::Builder;
use levada_terminal::failure::{Cause, Failure};
use levada_terminal::output::counted;
use levada_wire::StrBytes;
use levada_wire::error_code::ErrorCode;
use levada_wire::messages::produce_request::{PartitionProduceData, TopicProduceData};
use levada_wire::messages::{ProduceRequest, ProduceResponse};

use super::partitioner::partition_of;
use super::producer::Producer;
use super::record::Record;
use super::waiting::{Ready, Waiting};
use super::{Acks, Args};
use crate::cluster::{Cluster, NO_LEADER, Outage, Topic, passes};
use crate::{interrupt, kafka_error, time};

/// Version from which Produce names topics by id.
const BY_ID: i16 = 13;
const TIMEOUT_MS: i32 = 30_000;

/// Bytes of batches that may wait for their partitions, as `buffer.memory` of Kafka's producers.
const WAITING_BYTES_MAX: usize = 32 << 20;
/// Interval between checks for a signal while nothing else is to be done.
const INTERRUPT_CHECK: Duration = Duration::from_millis(100);

/// Batches being filled.
pub(super) struct Batches<'a> {
    cluster: Cluster,
    topic: Topic,
    args: &'a Args,
    /// `None` where requests are not sent again.
    producer: Option<Producer>,
    pending: BTreeMap<i32, Pending>,
    /// Batches whose partitions cannot take them now.
    waiting: Waiting,
    outage: Outage,
    /// The leaders may have changed.
    is_stale: bool,
    /// The first failure of a batch that was given up.
    lost: Option<Failure>,
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
            waiting: Waiting::default(),
            outage: Outage::none(Some(args.timeout())),
            is_stale: false,
            lost: None,
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

    /// Sends every batch once; those that have to wait are not waited for.
    pub(super) fn flush(&mut self) -> Result<(), Failure> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let partitions: Vec<i32> = self.pending.keys().copied().collect();
        self.current = self.current.wrapping_add(1);
        partitions.into_iter().try_for_each(|partition| self.send(partition))
    }

    /// Prints which records were not acknowledged, or never sent.
    pub(super) fn tell_unsent(&self) {
        self.waiting.tell_lost(&self.topic.name);
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
        let batch = Ready::new(pending.shown(), pending.builder, pending.bytes);
        if self.waiting.has(partition) {
            self.waiting.push(partition, batch);
        } else if let Some(batch) = self.attempt(partition, batch)? {
            self.waiting.push(partition, batch);
        }
        self.make_room()
    }

    /// Sends the batches again that wait for their partitions, if it is time.
    pub(super) fn tend(&mut self) -> Result<(), Failure> {
        if self.waiting.is_due() { self.retry() } else { Ok(()) }
    }

    /// Sends every batch, and waits until each is acknowledged or has waited for too long.
    ///
    /// # Errors
    /// The first failure of a batch that was given up, also in an earlier call.
    pub(super) fn finish(&mut self) -> Result<(), Failure> {
        self.flush()?;
        while !self.waiting.is_empty() {
            if interrupt::is_asked() {
                let last = self.waiting.last_failure.take();
                return Err(last.or(self.lost.take()).unwrap_or(Failure::Interrupted));
            }
            thread::sleep(self.waiting.until_due().min(INTERRUPT_CHECK));
            self.tend()?;
        }
        self.lost.take().map_or(Ok(()), Err)
    }

    /// Reads no further lines while too many bytes wait.
    fn make_room(&mut self) -> Result<(), Failure> {
        while self.waiting.size_bytes() > WAITING_BYTES_MAX && !interrupt::is_asked() {
            thread::sleep(self.waiting.until_due().min(INTERRUPT_CHECK));
            self.tend()?;
        }
        Ok(())
    }

    fn retry(&mut self) -> Result<(), Failure> {
        self.is_stale = true;
        for partition in self.waiting.partitions() {
            while let Some(batch) = self.waiting.pop(partition) {
                if let Some(batch) = self.attempt(partition, batch)? {
                    self.waiting.put_back(partition, batch);
                    break;
                }
            }
        }
        self.waiting.pause();
        Ok(())
    }

    /// Sends a batch once. Returns the batch if it has to wait. A batch that has waited for too
    /// long is given up, and others go on.
    ///
    /// # Errors
    /// The failure is not one of this partition alone, or does not pass.
    fn attempt(&mut self, partition: i32, mut batch: Ready) -> Result<Option<Ready>, Failure> {
        let mut is_sent = false;
        let failure = match self.request(partition, &mut batch, &mut is_sent) {
            // The broker has the batch, and the answer to an earlier attempt was lost.
            Err(failure) if failure.cause().code() == Some(ErrorCode::DuplicateSequenceNumber) => None,
            done => done.err(),
        };
        let Some(failure) = failure else {
            self.outage.over();
            self.waiting.has_progress = true;
            self.acknowledged_records += batch.records;
            self.acknowledged_bytes += batch.bytes;
            return Ok(None);
        };
        self.is_stale |= is_sent || failure.cause() == Cause::Connection;
        batch.note(is_sent && leaves_doubt(failure.cause()));
        if self.producer.is_none() || !passes(&failure) {
            batch.tell_lost(&self.topic.name, partition);
            return Err(failure);
        }
        if batch.age() >= self.args.timeout() {
            batch.tell_lost(&self.topic.name, partition);
            self.lost.get_or_insert(failure);
            if batch.is_numbered() {
                // The broker expects the numbers of the batch before those of later ones.
                self.producer = Some(Producer::new(&mut self.cluster)?);
            }
            return Ok(None);
        }
        if failure.cause() == Cause::Connection {
            let reconnected = self.outage.bear(&mut self.cluster, failure, &interrupt::is_asked);
            reconnected.inspect_err(|_| batch.tell_lost(&self.topic.name, partition))?;
        } else {
            batch.tell_waiting(&failure);
            self.waiting.last_failure = Some(failure);
        }
        Ok(Some(batch))
    }

    /// Sends a batch; `is_sent` becomes true once the connection has taken bytes of it.
    fn request(&mut self, partition: i32, batch: &mut Ready, is_sent: &mut bool) -> Result<(), Failure> {
        if self.is_stale {
            self.topic = self.cluster.present_topic(&self.args.topic)?;
            self.is_stale = false;
        }
        let leader = self.topic.present_leader(partition)?;
        let bytes = batch.encoded(partition, self.producer.as_mut())?;
        let client = self.cluster.open_broker(leader)?;
        let version = client.best_version::<ProduceRequest>()?;
        let request = request(&self.topic, version, (partition, bytes), self.args.acks);
        *is_sent = true;
        if self.args.acks == Acks::Nobody {
            client.send_request(version, &request)?;
            return Ok(());
        }
        let response = client.request_at(version, &request)?;
        let checked = check(&response, &format!("produce to {}/{partition}", self.topic.name));
        kafka_error::needing(checked, "write", &format!("--topic {}", self.topic.name))
    }
}

/// True for failures of a request after which the broker may have the batch: it also answers with
/// these codes after it has appended a batch.
pub(super) fn leaves_doubt(cause: Cause) -> bool {
    match cause {
        Cause::Connection => true,
        Cause::Code(_) => {
            matches!(cause.code(), Some(ErrorCode::RequestTimedOut | ErrorCode::NotEnoughReplicasAfterAppend))
        }
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

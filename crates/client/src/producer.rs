//! Records on their way to the brokers: collected in one batch per partition, sent when a batch is
//! full or on request, sent again after a restart of the broker, and counted when acknowledged. A
//! batch whose partition has no leader waits, and the batches of other partitions go on.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use levada_base::batch::Builder;
use levada_base::compress::Compression;
use levada_wire::error_code::ErrorCode;
use levada_wire::messages::ProduceRequest;

use self::partitioner::partition_of;
pub use self::record::{Header, Record};
pub use self::request::{Acks, check, request};
use self::sequence::Sequences;
use self::waiting::{Abandoned, Ready, Waiting};
use crate::cluster::{Cluster, NO_LEADER, Topic};
use crate::error::{Cause, Caused, ClientError};
use crate::notice::{BatchLabel, Notice, Watch};
use crate::outage::Outage;

mod partitioner;
mod record;
mod request;
mod sequence;
#[cfg(test)]
mod tests;
mod waiting;

/// Bytes of batches that may wait for their partitions, as `buffer.memory` of Kafka's producers.
const WAITING_BYTES_MAX: usize = 32 << 20;
/// Interval between checks for a request to stop, while there is nothing to send.
const STOP_CHECK: Duration = Duration::from_millis(100);

/// Settings of a producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProducerOptions {
    /// Replicas whose acknowledgement a batch waits for. Only with [`Acks::All`] is a batch sent
    /// again, and stored once.
    pub acks: Acks,
    /// Time that a batch may wait for its acknowledgement, including restarts of the broker.
    pub timeout: Duration,
    /// Largest batch before compression, in bytes.
    pub batch_bytes: usize,
    /// Compression of the batches.
    pub compression: Compression,
}

impl Default for ProducerOptions {
    /// All replicas, 2 minutes, 1 MB, no compression.
    fn default() -> Self {
        Self {
            acks: Acks::All,
            timeout: Duration::from_secs(120),
            batch_bytes: 1_000_000,
            compression: Compression::None,
        }
    }
}

/// A producer to one topic. Its methods block while a request is in flight, and while 32 MiB wait
/// for their partitions. It has no thread: the caller decides when to [`flush`](Self::flush), and
/// repeats requests by calling [`tend`](Self::tend) several times a second.
pub struct Producer<'a> {
    cluster: Cluster,
    topic: Topic,
    options: ProducerOptions,
    watch: &'a dyn Watch<ClientError>,
    /// `None` where requests are not sent again.
    sequences: Option<Sequences>,
    pending: BTreeMap<i32, Pending>,
    /// Batches whose partitions cannot take them now.
    waiting: Waiting,
    outage: Outage,
    /// The leaders may have changed.
    is_stale: bool,
    /// Abandoned batches that are not reported yet.
    abandoned: Abandoned,
    /// The first failure of an abandoned batch.
    lost: Option<ClientError>,
    /// Since when a record waits in `pending`.
    waiting_since: Option<Instant>,
    /// Partition of records without a key until that batch leaves.
    current: usize,
    acknowledged_records: u64,
    acknowledged_bytes: u64,
}

/// A batch that is being filled.
struct Pending {
    builder: Builder,
    /// Bytes of keys and values.
    bytes: u64,
    /// Numbers of the first and the last record.
    numbers: (u64, u64),
}

impl<'a> Producer<'a> {
    /// A producer to `topic`. With [`Acks::All`], requests a producer id from a broker.
    ///
    /// # Errors
    /// The broker assigns no producer id.
    pub fn new(
        mut cluster: Cluster,
        topic: Topic,
        options: ProducerOptions,
        watch: &'a dyn Watch<ClientError>,
    ) -> Result<Self, ClientError> {
        let is_repeatable = options.acks == Acks::All;
        let sequences = is_repeatable.then(|| Sequences::request(&mut cluster)).transpose()?;
        Ok(Self {
            cluster,
            topic,
            options,
            watch,
            sequences,
            pending: BTreeMap::new(),
            waiting: Waiting::default(),
            outage: Outage::none(Some(options.timeout)),
            is_stale: false,
            abandoned: Abandoned::default(),
            lost: None,
            waiting_since: None,
            current: 0,
            acknowledged_records: 0,
            acknowledged_bytes: 0,
        })
    }

    /// Records that were acknowledged, or sent if no acknowledgement is waited for.
    #[must_use]
    pub fn acknowledged_records(&self) -> u64 {
        self.acknowledged_records
    }

    /// Bytes of their keys and values.
    #[must_use]
    pub fn acknowledged_bytes(&self) -> u64 {
        self.acknowledged_bytes
    }

    /// Age of the oldest record that was not sent; `None` if all were.
    #[must_use]
    pub fn age(&self) -> Option<Duration> {
        self.waiting_since.map(|since| since.elapsed())
    }

    /// Adds a record; sends its batch if that is full. `number` is the caller's, for reports about
    /// the batch: that of a line, for example.
    ///
    /// # Errors
    /// The topic has no such partition, or a batch was refused for a reason that does not pass.
    pub fn push(&mut self, record: &Record<'_>, number: u64) -> Result<(), ClientError> {
        let partition = self.partition(record, number)?;
        let (limit, coming) = (self.options.batch_bytes, record.size_bytes_max());
        let full =
            |pending: &Pending| !pending.builder.is_empty() && pending.builder.size_bytes() + coming > limit;
        if self.pending.get(&partition).is_some_and(full) {
            self.send(partition)?;
            self.current = self.current.wrapping_add(1);
        }
        let partition = self.partition(record, number)?;
        let codec = self.options.compression;
        self.waiting_since.get_or_insert_with(Instant::now);
        let fresh =
            || Pending { builder: Builder::new().compression(codec), bytes: 0, numbers: (number, number) };
        let pending = self.pending.entry(partition).or_insert_with(fresh);
        let headers = record.headers.iter();
        let headers: Vec<_> = headers.map(|(key, value)| (key.as_ref(), value.as_deref())).collect();
        let timestamp_ms = record.timestamp_ms.unwrap_or_else(now_ms);
        let (key, value) = (record.key.as_deref(), record.value.as_deref());
        pending.builder.push_with_headers(timestamp_ms, key, value, &headers);
        pending.bytes += record.data_bytes() as u64;
        pending.numbers.1 = number;
        Ok(())
    }

    /// Sends every batch once; does not wait for batches that have to wait.
    ///
    /// # Errors
    /// A batch was refused for a reason that does not pass.
    pub fn flush(&mut self) -> Result<(), ClientError> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let partitions: Vec<i32> = self.pending.keys().copied().collect();
        self.current = self.current.wrapping_add(1);
        partitions.into_iter().try_for_each(|partition| self.send(partition))
    }

    /// Reports to the watch which records were not acknowledged, or never sent.
    pub fn report_unsent(&self) {
        self.waiting.abandoned().report(self.watch);
        for (partition, pending) in &self.pending {
            self.watch.notice(Notice::NotSent { batch: &pending.label(&self.topic.name, *partition) });
        }
    }

    fn partition(&self, record: &Record<'_>, number: u64) -> Result<i32, ClientError> {
        let count = self.topic.leaders.len();
        match (record.partition, &record.key) {
            (Some(partition), _) if self.topic.leaders.contains_key(&partition) => Ok(partition),
            (Some(partition), _) => {
                let topic = self.topic.name.clone();
                Err(ClientError::NoPartitionOfRecord { number, topic, partition, count })
            }
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

    fn send(&mut self, partition: i32) -> Result<(), ClientError> {
        let Some(pending) = self.pending.remove(&partition) else { return Ok(()) };
        if self.pending.is_empty() {
            self.waiting_since = None;
        }
        let label = pending.label(&self.topic.name, partition);
        let batch = Ready::new(label, pending.builder, pending.bytes);
        if self.waiting.has(partition) {
            self.waiting.push(batch);
        } else {
            let attempted = self.attempt(batch);
            self.abandoned.report(self.watch);
            if let Some(batch) = attempted? {
                self.waiting.push(batch);
            }
        }
        self.make_room()
    }

    /// Sends the batches again that wait for their partitions, if it is time.
    ///
    /// # Errors
    /// A batch was refused for a reason that does not pass.
    pub fn tend(&mut self) -> Result<(), ClientError> {
        if self.waiting.is_due() { self.retry() } else { Ok(()) }
    }

    /// Sends every batch, and waits until each is acknowledged or has waited for too long.
    ///
    /// # Errors
    /// The first failure of an abandoned batch, also in an earlier call. After a request to stop,
    /// the failure of the last attempt.
    pub fn finish(&mut self) -> Result<(), ClientError> {
        self.flush()?;
        while !self.waiting.is_empty() {
            if self.watch.is_asked_to_stop() {
                let last = self.waiting.last_failure.take();
                return Err(last.or(self.lost.take()).unwrap_or(ClientError::Stopped));
            }
            thread::sleep(self.waiting.until_due().min(STOP_CHECK));
            self.tend()?;
        }
        self.lost.take().map_or(Ok(()), Err)
    }

    /// Blocks while too many bytes wait.
    fn make_room(&mut self) -> Result<(), ClientError> {
        while self.waiting.size_bytes() > WAITING_BYTES_MAX && !self.watch.is_asked_to_stop() {
            thread::sleep(self.waiting.until_due().min(STOP_CHECK));
            self.tend()?;
        }
        Ok(())
    }

    fn retry(&mut self) -> Result<(), ClientError> {
        self.is_stale = true;
        let retried = self.waiting.partitions().into_iter().try_for_each(|partition| self.resend(partition));
        self.abandoned.report(self.watch);
        retried?;
        self.waiting.pause();
        Ok(())
    }

    /// Sends the batches of a partition again, up to the first that has to wait.
    fn resend(&mut self, partition: i32) -> Result<(), ClientError> {
        while let Some(batch) = self.waiting.pop(partition) {
            if let Some(batch) = self.attempt(batch)? {
                self.waiting.put_back(batch);
                break;
            }
        }
        Ok(())
    }

    /// Sends a batch once. Returns the batch if it has to wait. A batch that has waited too long is
    /// abandoned, and others continue.
    ///
    /// # Errors
    /// The failure is not one of this partition alone, or does not pass.
    fn attempt(&mut self, mut batch: Ready) -> Result<Option<Ready>, ClientError> {
        let mut is_sent = false;
        let error = match self.request(&mut batch, &mut is_sent) {
            // The broker has the batch, and the response to an earlier attempt was lost.
            Err(error) if error.cause().code() == Some(ErrorCode::DuplicateSequenceNumber) => None,
            done => done.err(),
        };
        let Some(error) = error else {
            self.outage.over(self.watch);
            self.waiting.has_progress = true;
            self.acknowledged_records += batch.label.records;
            self.acknowledged_bytes += batch.bytes;
            return Ok(None);
        };
        self.is_stale |= is_sent || error.cause() == Cause::Connection;
        batch.note(is_sent && leaves_doubt(error.cause()));
        if self.sequences.is_none() || !error.cause().passes() {
            self.abandoned.add(&batch);
            return Err(error);
        }
        if batch.age() >= self.options.timeout {
            self.abandoned.add(&batch);
            self.lost.get_or_insert(error);
            if batch.is_numbered() {
                // The broker expects the numbers of the batch before those of later ones.
                self.sequences = Some(Sequences::request(&mut self.cluster)?);
            }
            return Ok(None);
        }
        if error.cause() == Cause::Connection {
            let reconnected = self.outage.bear(&mut self.cluster, error, self.watch);
            reconnected.inspect_err(|_| self.abandoned.add(&batch))?;
        } else {
            batch.report_waiting(&error, self.watch);
            self.waiting.last_failure = Some(error);
        }
        Ok(Some(batch))
    }

    /// Sends a batch; `is_sent` becomes true once the connection has taken bytes of it.
    fn request(&mut self, batch: &mut Ready, is_sent: &mut bool) -> Result<(), ClientError> {
        if self.is_stale {
            self.topic = self.cluster.present_topic(&self.topic.name)?;
            self.is_stale = false;
        }
        let partition = batch.label.partition;
        let leader = self.topic.present_leader(partition)?;
        let bytes = batch.encoded(self.sequences.as_mut())?;
        let connection = self.cluster.open_broker(leader)?;
        let version = connection.best_version::<ProduceRequest>()?;
        let request = request(&self.topic, version, (partition, bytes), self.options.acks);
        *is_sent = true;
        if self.options.acks == Acks::Nobody {
            connection.send_request(version, &request)?;
            return Ok(());
        }
        let response = connection.request_at(version, &request)?;
        check(&response, &self.topic.name, Some(partition))
    }
}

/// True for failures of a request after which the broker may have the batch: it also returns these
/// codes after it has appended a batch.
fn leaves_doubt(cause: Cause) -> bool {
    match cause {
        Cause::Connection => true,
        Cause::Code(_) => {
            matches!(cause.code(), Some(ErrorCode::RequestTimedOut | ErrorCode::NotEnoughReplicasAfterAppend))
        }
        Cause::Other => false,
    }
}

impl Pending {
    fn label(&self, topic: &str, partition: i32) -> BatchLabel {
        let (records, (first, last)) = (self.builder.len() as u64, self.numbers);
        BatchLabel { topic: topic.to_owned(), partition, records, first, last }
    }
}

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

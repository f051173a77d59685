//! Records on their way: collected in one batch per partition, sent when a batch is full or the input pauses, and
//! counted once acknowledged.

use std::{
    collections::BTreeMap,
    time::{SystemTime, UNIX_EPOCH},
};

use levada_log::batch::Builder;
use levada_wire::{
    StrBytes,
    messages::{
        ProduceRequest, ProduceResponse,
        produce_request::{PartitionProduceData, TopicProduceData},
    },
};

use super::{Acks, Args, partitioner::partition_of};
use crate::{
    cluster::{Cluster, Topic},
    failure::Failure,
    kafka_error,
    output::counted,
};

/// Version from which Produce names topics by id.
const BY_ID: i16 = 13;
const TIMEOUT_MS: i32 = 30_000;

/// Batches being filled.
pub(super) struct Batches<'a> {
    cluster: Cluster,
    topic: Topic,
    args: &'a Args,
    pending: BTreeMap<i32, Pending>,
    /// Where records without key go until that batch leaves.
    current: usize,
    acknowledged_records: u64,
    acknowledged_bytes: u64,
}

struct Pending {
    builder: Builder,
    /// Bytes of keys and values.
    bytes: u64,
}

impl<'a> Batches<'a> {
    pub(super) fn new(cluster: Cluster, topic: Topic, args: &'a Args) -> Self {
        Self {
            cluster,
            topic,
            args,
            pending: BTreeMap::new(),
            current: 0,
            acknowledged_records: 0,
            acknowledged_bytes: 0,
        }
    }

    pub(super) fn acknowledged_records(&self) -> u64 {
        self.acknowledged_records
    }

    /// Bytes of keys and values that were acknowledged.
    pub(super) fn acknowledged_bytes(&self) -> u64 {
        self.acknowledged_bytes
    }

    /// Adds a line as a record; sends its batch if that is full.
    pub(super) fn push(&mut self, line: &[u8]) -> Result<(), Failure> {
        let (key, value) = match &self.args.key_separator {
            Some(separator) => split_key(line, separator.as_bytes()),
            None => (None, line),
        };
        let partition = self.partition(key);
        let limit = self.args.batch_bytes as usize;
        let coming = key.map_or(0, <[u8]>::len) + value.len();
        let full =
            |pending: &Pending| !pending.builder.is_empty() && pending.builder.size_bytes() + coming > limit;
        if self.pending.get(&partition).is_some_and(full) {
            self.send(partition)?;
            self.current = self.current.wrapping_add(1);
        }
        let partition = self.partition(key);
        let codec = self.args.compression.compression();
        let fresh = || Pending { builder: Builder::new().compression(codec), bytes: 0 };
        let pending = self.pending.entry(partition).or_insert_with(fresh);
        let headers = self.args.headers.iter();
        let headers: Vec<_> = headers.map(|(key, value)| (key.as_bytes(), Some(value.as_bytes()))).collect();
        pending.builder.push_with_headers(now_ms(), key, Some(value), &headers);
        pending.bytes += coming as u64;
        Ok(())
    }

    /// Sends every batch.
    pub(super) fn flush(&mut self) -> Result<(), Failure> {
        let partitions: Vec<i32> = self.pending.keys().copied().collect();
        self.current = self.current.wrapping_add(1);
        partitions.into_iter().try_for_each(|partition| self.send(partition))
    }

    fn partition(&self, key: Option<&[u8]>) -> i32 {
        let count = self.topic.leaders.len();
        match (self.args.partition, key) {
            (Some(partition), _) => partition,
            (None, Some(key)) => partition_of(key, i32::try_from(count).unwrap_or(i32::MAX)),
            (None, None) => {
                let nth = self.current.checked_rem(count).unwrap_or(0);
                self.topic.leaders.keys().nth(nth).copied().unwrap_or(0)
            }
        }
    }

    fn send(&mut self, partition: i32) -> Result<(), Failure> {
        let Some(pending) = self.pending.remove(&partition) else { return Ok(()) };
        let records = pending.builder.len() as u64;
        match self.request(partition, &pending.builder) {
            Ok(()) => {
                self.acknowledged_records += records;
                self.acknowledged_bytes += pending.bytes;
                Ok(())
            }
            Err(failure) => {
                eprintln!(
                    "not acknowledged: {} for {}/{partition}",
                    counted(records, "record", "records"),
                    self.topic.name
                );
                Err(failure)
            }
        }
    }

    fn request(&mut self, partition: i32, builder: &Builder) -> Result<(), Failure> {
        let batch =
            builder.build().map_err(|error| Failure::new(format!("cannot encode a batch: {error}")))?;
        let leader = self.topic.leader(partition)?;
        let client = self.cluster.broker(leader)?;
        let version = client.best_version::<ProduceRequest>()?;
        let mut data = PartitionProduceData::default();
        data.index = partition;
        data.records = Some(batch.freeze());
        let mut topic = TopicProduceData::default();
        if version >= BY_ID {
            topic.topic_id = self.topic.id;
        } else {
            topic.name = StrBytes::from(self.topic.name.as_str());
        }
        topic.partition_data = vec![data];
        let mut request = ProduceRequest::default();
        request.acks = self.args.acks.wire();
        request.timeout_ms = TIMEOUT_MS;
        request.topic_data = vec![topic];
        if self.args.acks == Acks::Nobody {
            client.send_request(version, &request)?;
            return Ok(());
        }
        let response = client.request_at(version, &request)?;
        check(&response, &format!("produce to {}/{partition}", self.topic.name))
    }
}

fn check(response: &ProduceResponse, doing: &str) -> Result<(), Failure> {
    let partitions = response.responses.iter().flat_map(|topic| &topic.partition_responses);
    for partition in partitions {
        let record =
            partition.record_errors.first().and_then(|error| error.batch_index_error_message.as_deref());
        let said = record.or(partition.error_message.as_deref());
        kafka_error::check(partition.error_code, doing, said)?;
    }
    Ok(())
}

/// Key and value around the first separator; a line without one has no key.
pub(super) fn split_key<'l>(line: &'l [u8], separator: &[u8]) -> (Option<&'l [u8]>, &'l [u8]) {
    match line.windows(separator.len()).position(|window| window == separator) {
        Some(at) => (Some(&line[..at]), &line[at + separator.len()..]),
        None => (None, line),
    }
}

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

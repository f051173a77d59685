//! Prepared requests, and the checked fields of responses. In these versions the fields have fixed
//! positions. All brokers from Kafka 2.4 on serve them.

use std::io;

use bytes::{Bytes, BytesMut};
use levada_base::batch::Builder;
use levada_wire::encode_request;
use levada_wire::messages::fetch_request::{FetchPartition, FetchTopic};
use levada_wire::messages::produce_request::{PartitionProduceData, TopicProduceData};
use levada_wire::messages::{FetchRequest, KafkaRequest, ProduceRequest, StrBytes};

use crate::error::LabError;
use crate::harness::payload::Payload;

pub(crate) const PRODUCE_VERSION: i16 = 8;
pub(crate) const FETCH_VERSION: i16 = 11;

/// A partition of a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TopicPartition {
    pub(crate) topic: String,
    pub(crate) partition: i32,
}

/// Builds a batch of records without keys and returns it with its number of records. The batch has
/// at most `len` bytes, as near to `len` as `record_len` allows. Two different seeds give different
/// bytes.
pub(crate) fn batch(len: usize, record_len: usize, seed: u64) -> Result<(BytesMut, usize), LabError> {
    let mut value = vec![0; record_len.min(len)];
    Payload::new(seed).fill(&mut value);
    let mut builder = Builder::new();
    // Maximum number of bytes that a record needs in addition to its value.
    const AROUND: usize = 16;
    let timestamp_ms = 1_700_000_000_000;
    while builder.is_empty() || builder.size_bytes() + record_len + AROUND <= len {
        builder.push(timestamp_ms, None, Some(&value[..record_len.min(len.saturating_sub(96).max(1))]));
    }
    let rest = len.saturating_sub(builder.size_bytes() + AROUND).min(value.len());
    if rest > 0 && builder.len() > 1 {
        builder.push(timestamp_ms, None, Some(&value[..rest]));
    }
    let count = builder.len();
    let batch = builder.build().map_err(LabError::step("cannot make a batch"))?;
    Ok((batch, count))
}

/// Returns a Produce frame with one batch and these `acks`.
pub(crate) fn produce(place: &TopicPartition, batch: Bytes, acks: i16) -> Result<Bytes, LabError> {
    let mut partition = PartitionProduceData::default();
    partition.index = place.partition;
    partition.records = Some(batch);
    let mut topic = TopicProduceData::default();
    topic.name = StrBytes::from(place.topic.as_str());
    topic.partition_data = vec![partition];
    let mut request = ProduceRequest::default();
    request.acks = acks;
    request.timeout_ms = 30_000;
    request.topic_data = vec![topic];
    self::request(PRODUCE_VERSION, &request)
}

/// Returns a request frame, including its length prefix.
pub(crate) fn request<R: KafkaRequest>(version: i16, request: &R) -> Result<Bytes, LabError> {
    let frame = encode_request(1, Some("lab"), version, request);
    frame.map_err(|error| LabError::step(format!("cannot encode {}", R::NAME))(io::Error::other(error)))
}

/// Returns the offset that the broker assigned to the batch.
pub(crate) fn produced(response: &[u8], place: &TopicPartition) -> Result<i64, LabError> {
    let at = produced_offset_at(place);
    let error = i16_at(response, at - 2).ok_or_else(short)?;
    if error != 0 {
        return Err(refused("Produce", error));
    }
    i64_at(response, at).ok_or_else(short)
}

/// Position of that offset in the response: after correlation id, one topic, its name, one
/// partition, its index, and the error code.
pub(crate) fn produced_offset_at(place: &TopicPartition) -> usize {
    4 + 4 + 2 + place.topic.len() + 4 + 4 + 2
}

/// Offset and limits of a fetch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted {
    pub(crate) offset: i64,
    pub(crate) max_bytes: i32,
    pub(crate) max_wait_ms: i32,
}

/// Returns a Fetch frame for one partition, without a session.
pub(crate) fn fetch(place: &TopicPartition, wanted: Wanted) -> Result<Bytes, LabError> {
    let mut partition = FetchPartition::default();
    partition.partition = place.partition;
    partition.fetch_offset = wanted.offset;
    partition.partition_max_bytes = wanted.max_bytes;
    let mut topic = FetchTopic::default();
    topic.topic = StrBytes::from(place.topic.as_str());
    topic.partitions = vec![partition];
    let mut request = FetchRequest::default();
    request.max_wait_ms = wanted.max_wait_ms;
    request.min_bytes = 1;
    request.max_bytes = wanted.max_bytes;
    request.session_epoch = -1;
    request.topics = vec![topic];
    self::request(FETCH_VERSION, &request)
}

/// Distance of the fetch offset from the end of a [`fetch`] frame: offset, log start, bytes, no
/// forgotten topics, no rack.
pub(crate) const FETCH_OFFSET_FROM_END: usize = 8 + 8 + 4 + 4 + 2;

/// Bytes of a response to [`fetch`] without its records, including the length prefix.
pub(crate) fn fetched_overhead(place: &TopicPartition) -> usize {
    4 + records_at(place)
}

/// Position of the records in a response with records: after correlation id, throttle time, error
/// code, session, one topic, its name, one partition (index, error code, high watermark, last
/// stable offset, log start, no aborted transactions, replica) and the length of the records.
fn records_at(place: &TopicPartition) -> usize {
    4 + 4 + 2 + 4 + 4 + 2 + place.topic.len() + 4 + 4 + 2 + 8 + 8 + 8 + 4 + 4 + 4
}

/// Returns the length of the records, and the part of the records in `head`, the beginning of a
/// response.
pub(crate) fn fetched<'a>(head: &'a [u8], place: &TopicPartition) -> Result<(usize, &'a [u8]), LabError> {
    let at = records_at(place);
    let error = i16_at(head, 8).ok_or_else(short)?;
    let of_partition = i16_at(head, 4 + 4 + 2 + 4 + 4 + 2 + place.topic.len() + 4 + 4).ok_or_else(short)?;
    if error != 0 || of_partition != 0 {
        return Err(refused("Fetch", error.max(of_partition)));
    }
    let len = head.get(at - 4..at).and_then(|bytes| bytes.try_into().ok()).map(i32::from_be_bytes);
    let len = len.and_then(|len| usize::try_from(len).ok()).ok_or_else(short)?;
    Ok((len, &head[at..]))
}

/// Position of the records' length in a ShareFetch response of version 2 with records: after
/// correlation id, throttle time, error code, its message, lock duration, one topic, its id, one
/// partition (index, two error codes with messages, leader), and tagged fields.
const SHARED_RECORDS_AT: usize = 5 + 4 + 2 + 1 + 4 + 1 + 16 + 1 + 4 + 2 + 1 + 2 + 1 + 9;

/// Returns the length of the records in the response to a share fetch of one partition.
pub(crate) fn share_fetched(head: &[u8]) -> Result<usize, LabError> {
    let errors = [9, 5 + 4 + 2 + 1 + 4 + 1 + 16 + 1 + 4];
    for at in errors {
        let error = i16_at(head, at).ok_or_else(short)?;
        if error != 0 {
            return Err(refused("ShareFetch", error));
        }
    }
    let digits = head.get(SHARED_RECORDS_AT..).ok_or_else(short)?;
    let last = digits.iter().position(|digit| digit & 0x80 == 0).ok_or_else(short)?;
    let value = digits[..=last].iter().rev().fold(0, |value, digit| value << 7 | usize::from(digit & 0x7f));
    // A compact field encodes its length plus one.
    value.checked_sub(1).ok_or_else(short)
}

fn i16_at(bytes: &[u8], at: usize) -> Option<i16> {
    Some(i16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn i64_at(bytes: &[u8], at: usize) -> Option<i64> {
    Some(i64::from_be_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

fn short() -> LabError {
    LabError::step("a response does not match its request")(io::Error::from(io::ErrorKind::InvalidData))
}

/// Error for a request that the broker refused with an error code.
pub(crate) fn refused(request: &str, error: i16) -> LabError {
    LabError::step(format!("{request} was refused"))(io::Error::other(format!("Kafka's error code {error}")))
}

#[cfg(test)]
mod tests;

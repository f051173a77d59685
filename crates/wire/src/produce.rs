//! Produce, versions 3 to 13: the request decoded in place, so that every batch stays where it was
//! received, and the response. Other APIs use the codec crate; Produce and Fetch are the hot ones.

use bytes::{BufMut, Bytes, BytesMut};

use crate::api::ApiKey;
use crate::codec::{self, DecodeError, EncodeError};
use crate::cursor::Cursor;
use crate::messages::{StrBytes, Uuid};
use crate::writer::Writer;

/// A decoded Produce request. Strings and records share the memory of the frame.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ProduceRequest {
    /// The transactional id, if the producer has one.
    pub transactional_id: Option<StrBytes>,
    /// 0 (no response at all), 1, or -1 (all in-sync replicas); other values are decoded and for
    /// the broker to refuse.
    pub acks: i16,
    /// Time that the broker may wait for replicas.
    pub timeout_ms: i32,
    /// Records by topic, in the order sent.
    pub topics: Vec<ProduceTopic>,
}

/// One topic of a [`ProduceRequest`].
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ProduceTopic {
    /// The name; empty from version 13 on.
    pub name: StrBytes,
    /// The id; zero before version 13.
    pub topic_id: Uuid,
    /// Records by partition, in the order sent.
    pub partitions: Vec<ProducePartition>,
}

/// One partition of a [`ProduceTopic`].
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ProducePartition {
    /// Index of the partition.
    pub index: i32,
    /// The record batch exactly as received, `None` if null. The range has no other owner, so
    /// offsets and epoch may be patched in place; the memory is freed when all ranges of the frame
    /// are dropped.
    pub records: Option<BytesMut>,
}

impl ProduceRequest {
    /// Decodes the `body` that follows the header, without copying records or strings.
    ///
    /// # Errors
    /// The peer sent a version that is not served (0 to 2 are advertised and refused) or malformed
    /// bytes.
    pub fn decode(body: BytesMut, version: i16) -> Result<Self, DecodeError> {
        let api = ApiKey::Produce;
        if !api.serves(version) {
            return Err(DecodeError::UnsupportedVersion { api, version });
        }
        let flexible = api.is_flexible(version);
        let mut cursor = Cursor::new(body);
        let transactional_id = cursor.nullable_string(flexible)?;
        let acks = cursor.i16()?;
        let timeout_ms = cursor.i32()?;
        let mut topics = Vec::new();
        for _ in 0..cursor.count(flexible)? {
            topics.push(decode_topic(&mut cursor, version, flexible)?);
        }
        if flexible {
            cursor.skip_tags()?;
        }
        Ok(Self { transactional_id, acks, timeout_ms, topics })
    }
}

fn decode_topic(
    cursor: &mut Cursor<BytesMut>,
    version: i16,
    flexible: bool,
) -> Result<ProduceTopic, DecodeError> {
    let mut topic = ProduceTopic::default();
    if version >= 13 {
        topic.topic_id = cursor.uuid()?;
    } else {
        topic.name = cursor.string(flexible)?;
    }
    for _ in 0..cursor.count(flexible)? {
        let index = cursor.i32()?;
        let records = cursor.nullable_bytes(flexible)?;
        if flexible {
            cursor.skip_tags()?;
        }
        topic.partitions.push(ProducePartition { index, records });
    }
    if flexible {
        cursor.skip_tags()?;
    }
    Ok(topic)
}

/// A Produce response for any version: fields that a version lacks are omitted, as in Kafka.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProduceResponse {
    /// Results by topic.
    pub topics: Vec<ProducedTopic>,
    /// Time for which the client should pause because of a quota, ms.
    pub throttle_time_ms: i32,
    /// Addresses of the leaders named in the results (from version 10).
    pub node_endpoints: Vec<NodeEndpoint>,
}

/// One topic of a [`ProduceResponse`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProducedTopic {
    /// The name (before version 13).
    pub name: StrBytes,
    /// The id (from version 13).
    pub topic_id: Uuid,
    /// Results by partition.
    pub partitions: Vec<ProducedPartition>,
}

/// The result for one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProducedPartition {
    /// Index of the partition.
    pub index: i32,
    /// Kafka's error code, 0 for none.
    pub error_code: i16,
    /// Offset of the batch's first record, -1 on error.
    pub base_offset: i64,
    /// The broker's timestamp under LogAppendTime, otherwise -1.
    pub log_append_time_ms: i64,
    /// First offset of the log, -1 if unknown (from version 5).
    pub log_start_offset: i64,
    /// The records that made the batch fail (from version 8).
    pub record_errors: Vec<RecordError>,
    /// Error message (from version 8).
    pub error_message: Option<StrBytes>,
    /// The leader to use instead (from version 10).
    pub current_leader: Option<LeaderEpoch>,
}

impl Default for ProducedPartition {
    /// No error, and every offset and time unknown (-1).
    fn default() -> Self {
        Self {
            index: 0,
            error_code: 0,
            base_offset: -1,
            log_append_time_ms: -1,
            log_start_offset: -1,
            record_errors: Vec::new(),
            error_message: None,
            current_leader: None,
        }
    }
}

/// One record that was refused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordError {
    /// Position of the record in its batch, from 0.
    pub batch_index: i32,
    /// Description of the fault, for the client.
    pub message: Option<StrBytes>,
}

/// A partition's leader and the epoch of its leadership.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaderEpoch {
    /// The node, -1 if unknown.
    pub leader_id: i32,
    /// The epoch, -1 if unknown.
    pub leader_epoch: i32,
}

/// Address of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeEndpoint {
    /// Id of the node.
    pub node_id: i32,
    /// Host name or address of the node.
    pub host: StrBytes,
    /// TCP port of the node.
    pub port: i32,
    /// Rack of the node.
    pub rack: Option<StrBytes>,
}

impl ProduceResponse {
    /// Encodes the whole frame, size prefix and header included.
    ///
    /// # Errors
    /// A length does not fit its prefix.
    pub fn encode(&self, correlation_id: i32, version: i16) -> Result<Bytes, EncodeError> {
        let flexible = ApiKey::Produce.is_flexible(version);
        let mut w = Writer { out: BytesMut::with_capacity(64), flexible };
        w.i32(0);
        w.i32(correlation_id);
        w.tags(&[]);
        w.length(self.topics.len() as u64)?;
        for topic in &self.topics {
            if version >= 13 {
                w.uuid(topic.topic_id);
            } else {
                w.string(&topic.name)?;
            }
            w.length(topic.partitions.len() as u64)?;
            for partition in &topic.partitions {
                encode_partition(&mut w, partition, version)?;
            }
            w.tags(&[]);
        }
        w.i32(self.throttle_time_ms);
        match node_endpoints(&self.node_endpoints)? {
            Some(endpoints) if version >= 10 => w.tags(&[(0, &endpoints)]),
            _ => w.tags(&[]),
        }
        codec::finish_frame(w.out)
    }
}

fn encode_partition(w: &mut Writer, partition: &ProducedPartition, version: i16) -> Result<(), EncodeError> {
    w.i32(partition.index);
    w.i16(partition.error_code);
    w.i64(partition.base_offset);
    w.i64(partition.log_append_time_ms);
    if version >= 5 {
        w.i64(partition.log_start_offset);
    }
    if version >= 8 {
        w.length(partition.record_errors.len() as u64)?;
        for error in &partition.record_errors {
            w.i32(error.batch_index);
            w.nullable_string(error.message.as_ref())?;
            w.tags(&[]);
        }
        w.nullable_string(partition.error_message.as_ref())?;
    }
    match partition.current_leader {
        Some(leader) if version >= 10 => w.tags(&[(0, &leader.encode())]),
        _ => w.tags(&[]),
    }
    Ok(())
}

impl LeaderEpoch {
    /// The value of a tagged field: id, epoch, no nested tags.
    pub(crate) fn encode(self) -> [u8; 9] {
        let mut value = [0; 9];
        value[..4].copy_from_slice(&self.leader_id.to_be_bytes());
        value[4..8].copy_from_slice(&self.leader_epoch.to_be_bytes());
        value
    }
}

/// The value of the tagged field that lists nodes, `None` if there are none.
pub(crate) fn node_endpoints(nodes: &[NodeEndpoint]) -> Result<Option<Bytes>, EncodeError> {
    if nodes.is_empty() {
        return Ok(None);
    }
    let mut w = Writer { out: BytesMut::new(), flexible: true };
    w.length(nodes.len() as u64)?;
    for node in nodes {
        w.i32(node.node_id);
        w.string(&node.host)?;
        w.i32(node.port);
        w.nullable_string(node.rack.as_ref())?;
        w.out.put_u8(0);
    }
    Ok(Some(w.out.freeze()))
}

#[cfg(test)]
mod tests;

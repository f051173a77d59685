//! The response to ShareFetch, versions 1 and 2, as a gather list in which records are holes. The
//! codec crate decodes the request.

use bytes::BytesMut;

use crate::api::ApiKey;
use crate::codec::EncodeError;
use crate::gather::{Gather, HoleLen, Holes};
use crate::messages::{StrBytes, Uuid};
use crate::produce::{LeaderEpoch, NodeEndpoint};
use crate::writer::Writer;

/// A ShareFetch response for any version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShareFetchResponse<H> {
    /// Time for which the client should pause because of a quota, ms.
    pub throttle_time_ms: i32,
    /// An error of the whole request.
    pub error_code: i16,
    /// Explanation of the error of the whole request.
    pub error_message: Option<StrBytes>,
    /// Time in ms for which acquired records are locked.
    pub acquisition_lock_timeout_ms: i32,
    /// Results by topic.
    pub topics: Vec<SharedTopic<H>>,
    /// Addresses of the leaders named in the results.
    pub node_endpoints: Vec<NodeEndpoint>,
}

/// One topic of a [`ShareFetchResponse`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedTopic<H> {
    /// Id of the topic.
    pub topic_id: Uuid,
    /// Results by partition.
    pub partitions: Vec<SharedPartition<H>>,
}

/// The result for one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedPartition<H> {
    /// Index of the partition.
    pub index: i32,
    /// Error of the fetch, 0 for none.
    pub error_code: i16,
    /// Explanation of the error of the fetch.
    pub error_message: Option<StrBytes>,
    /// Error of the acknowledgements, 0 for none.
    pub acknowledge_error_code: i16,
    /// Explanation of the error of the acknowledgements.
    pub acknowledge_error_message: Option<StrBytes>,
    /// The leader to use instead; zeros without an error, as in Kafka.
    pub current_leader: LeaderEpoch,
    /// Whole batches; `None` is sent as no records (length 0), never as null.
    pub records: Option<H>,
    /// The records among them that the member has acquired.
    pub acquired: Vec<AcquiredRange>,
}

/// Neighbouring records that a member has acquired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AcquiredRange {
    /// First offset.
    pub first_offset: i64,
    /// Last offset, inclusive.
    pub last_offset: i64,
    /// Number of times the records were acquired.
    pub delivery_count: i16,
}

impl<H> SharedPartition<H> {
    /// A partition without records or errors.
    pub fn new(index: i32) -> Self {
        Self {
            index,
            error_code: 0,
            error_message: None,
            acknowledge_error_code: 0,
            acknowledge_error_message: None,
            current_leader: LeaderEpoch { leader_id: 0, leader_epoch: 0 },
            records: None,
            acquired: Vec::new(),
        }
    }
}

impl<H> ShareFetchResponse<H> {
    /// A response without results, with the code of the whole request.
    pub fn of_error(error_code: i16) -> Self {
        Self {
            throttle_time_ms: 0,
            error_code,
            error_message: None,
            acquisition_lock_timeout_ms: 0,
            topics: Vec::new(),
            node_endpoints: Vec::new(),
        }
    }
}

impl<H: HoleLen> ShareFetchResponse<H> {
    /// Encodes the whole frame, size prefix and header included; records become holes, in order.
    ///
    /// # Errors
    /// The frame, or a length of ours, does not fit its prefix.
    pub fn encode(self, correlation_id: i32, version: i16) -> Result<Gather<H>, EncodeError> {
        let flexible = ApiKey::ShareFetch.is_flexible(version);
        let mut w = Writer { out: BytesMut::with_capacity(128), flexible };
        let mut holes = Holes::new();
        w.i32(0);
        w.i32(correlation_id);
        w.tags(&[]);
        w.i32(self.throttle_time_ms);
        w.i16(self.error_code);
        w.nullable_string(self.error_message.as_ref())?;
        w.i32(self.acquisition_lock_timeout_ms);
        w.length(self.topics.len() as u64)?;
        for topic in self.topics {
            w.uuid(topic.topic_id);
            w.length(topic.partitions.len() as u64)?;
            for partition in topic.partitions {
                encode_partition(&mut w, &mut holes, partition)?;
            }
            w.tags(&[]);
        }
        encode_nodes(&mut w, &self.node_endpoints)?;
        w.tags(&[]);
        let bytes = w.out.len() as u64 - 4 + holes.len();
        let size = i32::try_from(bytes).map_err(|_| EncodeError::TooLarge { bytes })?;
        w.out[..4].copy_from_slice(&size.to_be_bytes());
        Ok(holes.into_gather(w.out))
    }
}

fn encode_partition<H: HoleLen>(
    w: &mut Writer,
    holes: &mut Holes<H>,
    partition: SharedPartition<H>,
) -> Result<(), EncodeError> {
    w.i32(partition.index);
    w.i16(partition.error_code);
    w.nullable_string(partition.error_message.as_ref())?;
    w.i16(partition.acknowledge_error_code);
    w.nullable_string(partition.acknowledge_error_message.as_ref())?;
    w.i32(partition.current_leader.leader_id);
    w.i32(partition.current_leader.leader_epoch);
    w.tags(&[]);
    w.length(partition.records.as_ref().map_or(0, HoleLen::len))?;
    if let Some(records) = partition.records {
        holes.push(w.out.len(), records);
    }
    w.length(partition.acquired.len() as u64)?;
    for range in &partition.acquired {
        w.i64(range.first_offset);
        w.i64(range.last_offset);
        w.i16(range.delivery_count);
        w.tags(&[]);
    }
    w.tags(&[]);
    Ok(())
}

fn encode_nodes(w: &mut Writer, nodes: &[NodeEndpoint]) -> Result<(), EncodeError> {
    w.length(nodes.len() as u64)?;
    for node in nodes {
        w.i32(node.node_id);
        w.string(&node.host)?;
        w.i32(node.port);
        w.nullable_string(node.rack.as_ref())?;
        w.tags(&[]);
    }
    Ok(())
}

#[cfg(test)]
mod tests;

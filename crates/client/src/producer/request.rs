//! Produce requests with one batch, and their responses.

use bytes::Bytes;
use levada_wire::StrBytes;
use levada_wire::messages::produce_request::{PartitionProduceData, TopicProduceData};
use levada_wire::messages::{ProduceRequest, ProduceResponse};

use crate::cluster::Topic;
use crate::error::ClientError;
use crate::refusal::{Operation, Refusal};

/// Version from which Produce names topics by id.
const BY_ID: i16 = 13;
const TIMEOUT_MS: i32 = 30_000;

/// The replicas whose acknowledgement a request waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acks {
    /// No acknowledgement: the broker sends no response.
    Nobody,
    /// The leader acknowledges.
    Leader,
    /// All replicas in sync acknowledge.
    All,
}

impl Acks {
    fn wire(self) -> i16 {
        match self {
            Self::Nobody => 0,
            Self::Leader => 1,
            Self::All => -1,
        }
    }
}

/// A request of this version with one batch of one partition.
#[must_use]
pub fn request(topic: &Topic, version: i16, (partition, batch): (i32, Bytes), acks: Acks) -> ProduceRequest {
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

/// Checks a response about `topic`; `partition` is for the error, if the request had one only.
///
/// # Errors
/// The first error of a partition.
pub fn check(response: &ProduceResponse, topic: &str, partition: Option<i32>) -> Result<(), ClientError> {
    let partitions = response.responses.iter().flat_map(|topic| &topic.partition_responses);
    for one in partitions {
        let record = one.record_errors.first().and_then(|error| error.batch_index_error_message.as_deref());
        let message = record.or(one.error_message.as_deref());
        Refusal::check(one.error_code, message, || Operation::Produce {
            topic: topic.to_owned(),
            partition,
        })?;
    }
    Ok(())
}

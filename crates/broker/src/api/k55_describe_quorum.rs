//! DescribeQuorum (key 55), versions 0–2.
//!
//! Version 1 returns times of fetches (KIP-836), and 2 directory ids and the voters' endpoints
//! (KIP-853).
//!
//! The quorum of the metadata log: this node is leader and only voter, and has every committed
//! record. As in Kafka, a request for anything but this partition alone is refused as a whole. The
//! controller's listener is the listener in the metadata; no socket listens there.

use std::ops::Range;

use bytes::Bytes;
use levada_metadata::controller::{METADATA_TOPIC, controller_endpoint};
use levada_process::clock::now_ms;
use levada_security::acl::Operation;
use levada_wire::DecodeError;
use levada_wire::error_code::ErrorCode;
use levada_wire::messages::describe_quorum_response::{
    Listener, Node, PartitionData, ReplicaState, TopicData,
};
use levada_wire::messages::{
    DescribeQuorumRequest, DescribeQuorumResponse, StrBytes, describe_quorum_request,
};

use crate::api::access::forbidden;
use crate::api::errors::NOT_HOSTED;
use crate::api::{Context, Decoded, Sentences, text};

const TIMES_VERSION_MIN: i16 = 1;
const NODES_VERSION_MIN: i16 = 2;

/// Topics, each with a range of `partitions`.
pub(crate) struct DescribeQuorum {
    topics: Vec<(StrBytes, Range<usize>)>,
    partitions: Vec<i32>,
}

impl Decoded for DescribeQuorum {
    fn decode(body: Bytes, version: i16) -> Result<Self, DecodeError> {
        let mut partitions = Vec::new();
        let keep = |topic: describe_quorum_request::TopicData| {
            let first = partitions.len();
            partitions.extend(topic.partitions.iter().map(|asked| asked.partition_index));
            (topic.topic_name, first..partitions.len())
        };
        let topics = levada_wire::decode_all::<DescribeQuorumRequest, _, _>(body, version, keep)?;
        Ok(Self { topics, partitions })
    }
}

impl DescribeQuorum {
    /// True if the request names only the partition of the metadata log.
    fn is_of_metadata(&self) -> bool {
        matches!(&self.topics[..], [(name, _)] if name.as_str() == METADATA_TOPIC) && self.partitions == [0]
    }
}

pub(crate) async fn answer(context: &Context, request: DescribeQuorum) -> DescribeQuorumResponse {
    if !context.may_cluster(Operation::Describe) {
        let forbidden = forbidden(ErrorCode::ClusterAuthorizationFailed);
        let mut response = message!(DescribeQuorumResponse { error_code: forbidden.code.code() });
        if context.version() >= NODES_VERSION_MIN {
            response.error_message = forbidden.message.map(text);
        }
        return response;
    }
    let hosted = request.is_of_metadata();
    let has_sentences = context.version() >= NODES_VERSION_MIN;
    let (not_hosted, mut sentences) = (has_sentences.then(|| text(NOT_HOSTED)), Sentences::default());
    let topics = request.topics.into_iter().map(|(topic_name, places)| {
        let partitions = request.partitions[places].iter().map(|index| {
            if hosted { describe(context) } else { refuse(*index, sentences.tell(not_hosted.as_ref())) }
        });
        let partitions = partitions.collect();
        message!(TopicData { partitions: partitions, topic_name: topic_name })
    });
    let topics = topics.collect();
    let mut response = message!(DescribeQuorumResponse { topics: topics });
    if context.version() >= NODES_VERSION_MIN {
        response.error_message = Some("".into());
        response.nodes = if hosted { vec![node(context)] } else { Vec::new() };
    }
    response
}

fn describe(context: &Context) -> PartitionData {
    let version = context.version();
    let broker = context.broker();
    let image = broker.metadata().image();
    let end_offset = image.offset() + 1;
    let mut voter = message!(ReplicaState { replica_id: broker.node_id(), log_end_offset: end_offset });
    if version >= TIMES_VERSION_MIN {
        voter.last_fetch_timestamp = now_ms();
        voter.last_caught_up_timestamp = voter.last_fetch_timestamp;
    }
    if version >= NODES_VERSION_MIN {
        voter.replica_directory_id = broker.metadata().directory_id();
    }
    message!(PartitionData {
        leader_id: broker.node_id(),
        leader_epoch: image.epoch(),
        high_watermark: end_offset,
        current_voters: vec![voter],
        error_message: (version >= NODES_VERSION_MIN).then(|| "".into()),
    })
}

fn refuse(index: i32, sentence: Option<StrBytes>) -> PartitionData {
    message!(PartitionData {
        partition_index: index,
        error_code: ErrorCode::UnknownTopicOrPartition.code(),
        error_message: sentence,
    })
}

fn node(context: &Context) -> Node {
    let controller = controller_endpoint();
    let listener = message!(Listener {
        name: text(controller.name),
        host: text(controller.host),
        port: controller.port,
    });
    message!(Node { node_id: context.broker().node_id(), listeners: vec![listener] })
}

#[cfg(test)]
mod tests {
    //! The one request that is answered.

    use super::*;

    #[test]
    fn only_the_partition_of_the_metadata_is_described() {
        let is_described = |topics: &[(&str, &[i32])]| {
            let mut request = DescribeQuorum { topics: Vec::new(), partitions: Vec::new() };
            for (name, partitions) in topics {
                let first = request.partitions.len();
                request.partitions.extend(*partitions);
                request.topics.push((StrBytes::from(*name), first..request.partitions.len()));
            }
            request.is_of_metadata()
        };
        assert!(is_described(&[(METADATA_TOPIC, &[0])]));
        let others: [&[(&str, &[i32])]; 7] = [
            &[],
            &[(METADATA_TOPIC, &[])],
            &[(METADATA_TOPIC, &[1])],
            &[(METADATA_TOPIC, &[0, 0])],
            &[(METADATA_TOPIC, &[0]), (METADATA_TOPIC, &[0])],
            &[(METADATA_TOPIC, &[0]), ("clicks", &[])],
            &[("clicks", &[0])],
        ];
        assert!(!others.into_iter().any(is_described));
    }
}

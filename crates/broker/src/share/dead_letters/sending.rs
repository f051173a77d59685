//! Batches of dead letters on their way to the leader, which is this broker or another.

use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use levada_wire::api::controller;
use levada_wire::error_code::ErrorCode;
use levada_wire::messages::produce_request::{PartitionProduceData, TopicProduceData};
use levada_wire::messages::{ProduceRequest, ProduceResponse};
use tokio::sync::oneshot;

use super::destination::Destination;
use super::fault::Fault;
use super::own;
use crate::broker::Broker;
use crate::peers::{Peer, Subject};

/// Time that the replicas in sync get. The connection to another broker waits longer for its
/// response.
const PATIENCE: Duration = Duration::from_secs(20);

/// The first version that names topics by id.
const ID_VERSION: i16 = 13;

/// All replicas in sync must have the batch.
const ACKS_ALL: i16 = -1;

/// Sends a batch to the leader, and waits until the replicas in sync have it.
///
/// # Errors
/// The leader is not reachable, or has refused the batch. It may have been written nevertheless.
pub(super) async fn send(
    broker: &Arc<Broker>,
    destination: &Destination,
    records: BytesMut,
) -> Result<(), Fault> {
    let code = if destination.leader == broker.node_id() {
        let partitions = broker.replicas().partitions();
        let found = partitions.by_id(destination.topic_id, destination.partition);
        let partition = found.ok_or(Fault::Refused(ErrorCode::NotLeaderOrFollower))?;
        own::append(broker, &partition, records, PATIENCE).await
    } else {
        forward(broker, destination, records).await.ok_or(Fault::Unreachable(destination.leader))?
    };
    match code {
        ErrorCode::None => Ok(()),
        code => Err(Fault::Refused(code)),
    }
}

/// Sends a batch to another broker. Returns the code of the response; none without a response.
async fn forward(broker: &Broker, destination: &Destination, records: BytesMut) -> Option<ErrorCode> {
    let (sender, code) = oneshot::channel();
    let place = destination.clone();
    let call = move |peer: Option<Peer<'_>>| {
        let request = |version| request(version, &place, records);
        let response = peer.and_then(|peer| peer.ask(controller::PRODUCE, request));
        // The attempt may have been given up.
        let _ = sender.send(response.map(|response| result(&response)));
    };
    broker.peers().call(destination.leader, Subject::DeadLetters, Box::new(call));
    code.await.ok().flatten()
}

fn request(version: i16, destination: &Destination, records: BytesMut) -> ProduceRequest {
    let mut partition = PartitionProduceData::default();
    (partition.index, partition.records) = (destination.partition, Some(records.freeze()));
    let mut topic = TopicProduceData::default();
    if version >= ID_VERSION {
        topic.topic_id = destination.topic_id;
    } else {
        topic.name = destination.topic.as_str().into();
    }
    topic.partition_data = vec![partition];
    let mut request = ProduceRequest::default();
    (request.acks, request.topic_data) = (ACKS_ALL, vec![topic]);
    request.timeout_ms = i32::try_from(PATIENCE.as_millis()).unwrap_or(i32::MAX);
    request
}

/// The error of the only partition.
fn result(response: &ProduceResponse) -> ErrorCode {
    let partition = response.responses.first().and_then(|topic| topic.partition_responses.first());
    let code = partition.and_then(|partition| ErrorCode::of_code(partition.error_code));
    code.unwrap_or(ErrorCode::UnknownServerError)
}

#[cfg(test)]
mod tests {
    use levada_wire::Uuid;
    use levada_wire::messages::produce_response::{PartitionProduceResponse, TopicProduceResponse};

    use super::*;

    #[test]
    fn dead_letter_produce_uses_topic_name_or_id() {
        let place = Destination {
            topic: "dlq.t".to_owned(),
            topic_id: Uuid::from_bytes([7; 16]),
            partition: 2,
            leader: 3,
            max_bytes: 1 << 20,
            copies: false,
        };
        for (version, name, id) in [(12, "dlq.t", Uuid::default()), (13, "", place.topic_id)] {
            let request = request(version, &place, BytesMut::from("batch"));
            let topic = &request.topic_data[0];
            assert_eq!((topic.name.as_str(), topic.topic_id), (name, id), "version {version}");
            assert_eq!((topic.partition_data[0].index, request.acks), (2, -1));
            levada_wire::encode_request(1, Some("test"), version, &request).expect("no field is too new");
        }
    }

    #[test]
    fn only_a_response_without_error_is_a_success() {
        let code_of = |code| {
            let mut partition = PartitionProduceResponse::default();
            partition.error_code = code;
            let mut topic = TopicProduceResponse::default();
            topic.partition_responses = vec![partition];
            let mut response = ProduceResponse::default();
            response.responses = vec![topic];
            result(&response)
        };
        assert_eq!(result(&ProduceResponse::default()), ErrorCode::UnknownServerError);
        let codes = [0, 6, 12_345].map(code_of);
        let expected = [ErrorCode::None, ErrorCode::NotLeaderOrFollower, ErrorCode::UnknownServerError];
        assert_eq!(codes, expected);
    }
}

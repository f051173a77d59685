//! WriteTxnMarkers (key 27), versions 1–2.
//!
//! Ends producers' transactions in partitions of this broker: used by a coordinator on another
//! broker, and by an administrator who aborts a hanging transaction. The coordinators of this
//! broker write their markers without it. A marker of a negative producer id or epoch is refused
//! with UNKNOWN_SERVER_ERROR, as in Kafka.

use levada_wire::messages::write_txn_markers_request::WritableTxnMarkerTopic;
use levada_wire::messages::write_txn_markers_response::{
    WritableTxnMarkerPartitionResult, WritableTxnMarkerResult, WritableTxnMarkerTopicResult,
};
use levada_wire::messages::{WriteTxnMarkersRequest, WriteTxnMarkersResponse};

use crate::api::Context;
use crate::api::changes::log_change;
use crate::error_code::ErrorCode;
use crate::group::Producer;
use crate::group::request::EndTxnRequest;
use crate::security::acl::Operation;

/// Markers that are written at the same time.
const AT_ONCE: usize = 64;

pub(crate) async fn answer(context: &Context, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse {
    let mut response = WriteTxnMarkersResponse::default();
    let may = context.might_cluster(Operation::Alter) || context.may_cluster(Operation::ClusterAction);
    for marker in request.markers {
        let mut written = message!(WritableTxnMarkerResult { producer_id: marker.producer_id });
        let end = EndTxnRequest {
            producer: Producer { id: marker.producer_id, epoch: marker.producer_epoch },
            coordinator_epoch: marker.coordinator_epoch,
            commit: marker.transaction_result,
            transaction_version: u8::try_from(marker.transaction_version).unwrap_or(0),
        };
        for topic in marker.topics {
            written.topics.push(if may { write(context, end, topic).await } else { refuse(topic) });
        }
        response.markers.push(written);
    }
    response
}

fn refuse(topic: WritableTxnMarkerTopic) -> WritableTxnMarkerTopicResult {
    let partitions = topic.partition_indexes.iter().map(|index| {
        message!(WritableTxnMarkerPartitionResult {
            partition_index: *index,
            error_code: ErrorCode::ClusterAuthorizationFailed.code(),
        })
    });
    message!(WritableTxnMarkerTopicResult { partitions: partitions.collect(), name: topic.name })
}

/// True if the coordinator of another broker has sent the request, which is no event: such a client
/// names itself by its node, as a number (Kafka) or with the word before (Levada).
fn is_of_a_coordinator(context: &Context) -> bool {
    let id = context.client_id();
    context.broker().membership().is_some() && (id.parse::<i32>().is_ok() || id.starts_with("broker-"))
}

/// Writes a marker into the partitions, many at the same time: each waits for the replicas in sync.
async fn write(
    context: &Context,
    end: EndTxnRequest,
    topic: WritableTxnMarkerTopic,
) -> WritableTxnMarkerTopicResult {
    let mut partitions = Vec::with_capacity(topic.partition_indexes.len());
    for indexes in topic.partition_indexes.chunks(AT_ONCE) {
        let mut under_way = Vec::with_capacity(indexes.len());
        for index in indexes {
            let partition = context.broker().replicas().partition(topic.name.as_str(), *index);
            let transactions = context.broker().transactions().clone();
            let write = async move { transactions.write_marker(&partition?, end).await };
            under_way.push((*index, tokio::task::spawn_local(write)));
        }
        for (index, one) in under_way {
            let written = one.await.unwrap_or(Err(ErrorCode::UnknownServerError));
            if written.is_ok() && !end.commit && !is_of_a_coordinator(context) {
                let (topic, producer_id) = (topic.name.as_str(), end.producer.id);
                log_change!(
                    context,
                    "transaction aborted in a partition",
                    topic,
                    partition = index,
                    producer_id,
                );
            }
            let error = written.map_or_else(|error| told(error, end.producer), |()| ErrorCode::None);
            partitions.push(message!(WritableTxnMarkerPartitionResult {
                partition_index: index,
                error_code: error.code(),
            }));
        }
    }
    message!(WritableTxnMarkerTopicResult { name: topic.name, partitions: partitions })
}

/// The error in the answer to the coordinator. Kafka's coordinators abandon a transaction, and
/// leave it open, on an error that they do not expect. As in Kafka, a group coordinator that is not
/// ready counts as a leader that is not ready.
fn told(error: ErrorCode, producer: Producer) -> ErrorCode {
    match error {
        // No coordinator has such a producer: it is an administrator who asks.
        ErrorCode::UnknownServerError if producer.id < 0 || producer.epoch < 0 => error,
        ErrorCode::UnknownTopicOrPartition
        | ErrorCode::NotLeaderOrFollower
        | ErrorCode::NotEnoughReplicas
        | ErrorCode::NotEnoughReplicasAfterAppend
        | ErrorCode::RequestTimedOut
        | ErrorCode::KafkaStorageError
        | ErrorCode::InvalidProducerEpoch
        | ErrorCode::TransactionCoordinatorFenced => error,
        _ => ErrorCode::NotLeaderOrFollower,
    }
}

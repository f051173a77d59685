//! WriteTxnMarkers (key 27), versions 1–2.
//!
//! Version 1 is flexible (KIP-482), and 2 has the version of the transaction protocol (KIP-1228).
//!
//! Ends producers' transactions in partitions of this broker: used by a coordinator on another
//! broker, and by an administrator who aborts a hanging transaction. The coordinators of this
//! broker write their markers without this API. A marker of a negative producer id or epoch is
//! refused with UNKNOWN_SERVER_ERROR, as in Kafka.

use levada_coordination::group::Producer;
use levada_coordination::group::request::EndTxnRequest;
use levada_security::acl::Operation;
use levada_wire::error_code::ErrorCode;
use levada_wire::messages::write_txn_markers_request::WritableTxnMarker;
use levada_wire::messages::write_txn_markers_response::{
    WritableTxnMarkerPartitionResult, WritableTxnMarkerResult, WritableTxnMarkerTopicResult,
};
use levada_wire::messages::{StrBytes, WriteTxnMarkersRequest, WriteTxnMarkersResponse};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::api::Context;
use crate::api::changes::log_change;
use crate::transaction::MARKER_WAIT;

/// Maximum number of markers of one request that are written at the same time; each of them has a
/// task.
const AT_ONCE: usize = 4096;

pub(crate) async fn answer(context: &Context, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse {
    let may = context.might_cluster(Operation::Alter) || context.may_cluster(Operation::ClusterAction);
    let codes = if may {
        context.exempt_time();
        write(context, &request.markers).await
    } else {
        vec![ErrorCode::ClusterAuthorizationFailed; targets(&request.markers).count()]
    };
    let mut codes = codes.into_iter();
    let markers = request.markers.into_iter().map(|marker| {
        let topics = marker.topics.into_iter().map(|topic| {
            let partitions = topic.partition_indexes.iter().zip(&mut codes).map(|(index, error)| {
                message!(WritableTxnMarkerPartitionResult {
                    partition_index: *index,
                    error_code: error.code(),
                })
            });
            let partitions = partitions.collect();
            message!(WritableTxnMarkerTopicResult { partitions: partitions, name: topic.name })
        });
        let topics = topics.collect();
        message!(WritableTxnMarkerResult { producer_id: marker.producer_id, topics: topics })
    });
    message!(WriteTxnMarkersResponse { markers: markers.collect() })
}

/// Each partition of each marker, in the order of the request.
fn targets(markers: &[WritableTxnMarker]) -> impl Iterator<Item = (EndTxnRequest, &StrBytes, i32)> {
    markers.iter().flat_map(|marker| {
        let end = EndTxnRequest {
            producer: Producer { id: marker.producer_id, epoch: marker.producer_epoch },
            coordinator_epoch: marker.coordinator_epoch,
            commit: marker.transaction_result,
            transaction_version: u8::try_from(marker.transaction_version).unwrap_or(0),
        };
        marker.topics.iter().flat_map(move |topic| {
            topic.partition_indexes.iter().map(move |index| (end, &topic.name, *index))
        })
    })
}

/// True if the coordinator of another broker has sent the request, which the audit log then omits.
/// A coordinator's client id is its node id (Kafka), or `broker-` and its node id (Levada).
fn is_of_a_coordinator(context: &Context) -> bool {
    let id = context.client_id();
    context.broker().membership().is_some() && (id.parse::<i32>().is_ok() || id.starts_with("broker-"))
}

/// Writes markers, and returns the error code of each, in the order of the request. As in Kafka,
/// only the response waits for replication, no marker waits for another one.
async fn write(context: &Context, markers: &[WritableTxnMarker]) -> Vec<ErrorCode> {
    context.give_turn_back();
    let until = Instant::now() + MARKER_WAIT;
    // A task that panics leaves its code.
    let mut codes = vec![ErrorCode::NotLeaderOrFollower; targets(markers).count()];
    let mut under_way = JoinSet::new();
    for (place, (end, topic, index)) in targets(markers).enumerate() {
        if under_way.len() == AT_ONCE
            && let Some(Ok((place, code))) = under_way.join_next().await
        {
            codes[place] = code;
        }
        let partition = context.broker().replicas().partition(topic.as_str(), index);
        let transactions = context.broker().transactions().clone();
        // Tasks begin in this order, and so markers for one partition get in line in it.
        under_way.spawn_local(async move {
            let written = async { transactions.write_marker(&partition?, end, until).await };
            (place, written.await.map_or_else(|error| told(error, end.producer), |()| ErrorCode::None))
        });
    }
    while let Some(ended) = under_way.join_next().await {
        if let Ok((place, code)) = ended {
            codes[place] = code;
        }
    }
    if !is_of_a_coordinator(context) {
        for ((end, topic, partition), code) in targets(markers).zip(&codes) {
            log_abort(context, (end, *code), (topic.as_str(), partition));
        }
    }
    codes
}

fn log_abort(context: &Context, (end, code): (EndTxnRequest, ErrorCode), (topic, partition): (&str, i32)) {
    if code == ErrorCode::None && !end.commit {
        let producer_id = end.producer.id;
        log_change!(context, "transaction aborted in a partition", topic, partition, producer_id,);
    }
}

/// The error for the coordinator. Kafka's coordinators abandon a transaction, and leave it open, on
/// an error that they do not expect. As in Kafka, a group coordinator that is not ready counts as a
/// leader that is not ready.
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

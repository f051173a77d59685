//! WriteTxnMarkers (key 27), versions 1–2.
//!
//! Ends producers' transactions in partitions of this broker: how a coordinator on another broker,
//! or an administrator who aborts a transaction that nobody else will end, does it. The
//! coordinators of this broker write their markers without it.

use levada_wire::messages::write_txn_markers_request::WritableTxnMarkerTopic;
use levada_wire::messages::write_txn_markers_response::{
    WritableTxnMarkerPartitionResult, WritableTxnMarkerResult, WritableTxnMarkerTopicResult,
};
use levada_wire::messages::{WriteTxnMarkersRequest, WriteTxnMarkersResponse};

use crate::api::Context;
use crate::error_code::ErrorCode;
use crate::group::Producer;
use crate::group::request::EndTxnRequest;
use crate::security::acl::Operation;

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

async fn write(
    context: &Context,
    end: EndTxnRequest,
    topic: WritableTxnMarkerTopic,
) -> WritableTxnMarkerTopicResult {
    let mut partitions = Vec::with_capacity(topic.partition_indexes.len());
    for index in topic.partition_indexes {
        let code = match context.broker().replicas().partition(topic.name.as_str(), index) {
            Err(error) => error,
            Ok(partition) => {
                let written = context.broker().transactions().write_marker(&partition, end).await;
                written.err().unwrap_or(ErrorCode::None)
            }
        };
        partitions.push(message!(WritableTxnMarkerPartitionResult {
            partition_index: index,
            error_code: code.code(),
        }));
    }
    message!(WritableTxnMarkerTopicResult { name: topic.name, partitions: partitions })
}

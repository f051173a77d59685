//! AlterPartitionReassignments (key 45), versions 0–1.
//!
//! With one broker a partition can only be assigned to where it is: that is granted and changes nothing,
//! everything else is refused with Kafka's reason. There is never a reassignment to cancel.

use levada_wire::messages::alter_partition_reassignments_request::ReassignablePartition;
use levada_wire::messages::alter_partition_reassignments_response::{
    ReassignablePartitionResponse, ReassignableTopicResponse,
};
use levada_wire::messages::{AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse};

use crate::api::access::forbidden;
use crate::api::{Context, text};
use crate::error_code::{ErrorCode, Failure};
use crate::metadata::controller::check_replicas;
use crate::metadata::image::Image;
use crate::security::acl::Operation;

const FACTOR_VERSION_MIN: i16 = 1;

pub(crate) async fn answer(
    context: &Context,
    request: AlterPartitionReassignmentsRequest,
) -> AlterPartitionReassignmentsResponse {
    if !context.may_cluster(Operation::Alter) {
        return refuse_all(context, request);
    }
    let image = context.broker().metadata().image();
    let responses = request.topics.into_iter().map(|topic| {
        let partitions = topic.partitions.iter().map(|asked| {
            let mut response = message!(ReassignablePartitionResponse {
                partition_index: asked.partition_index,
                error_message: None,
            });
            if let Err(failure) = reassign(&image, topic.name.as_str(), asked) {
                response.error_code = failure.code.code();
                response.error_message = failure.message.map(text);
            }
            response
        });
        message!(ReassignableTopicResponse { partitions: partitions.collect(), name: topic.name.clone() })
    });
    let mut response =
        message!(AlterPartitionReassignmentsResponse { responses: responses.collect(), error_message: None });
    if context.version() >= FACTOR_VERSION_MIN {
        response.allow_replication_factor_change = request.allow_replication_factor_change;
    }
    response
}

fn refuse_all(
    context: &Context,
    request: AlterPartitionReassignmentsRequest,
) -> AlterPartitionReassignmentsResponse {
    let forbidden = forbidden(ErrorCode::ClusterAuthorizationFailed);
    let (code, message) = (forbidden.code.code(), forbidden.message.map(text));
    let responses = request.topics.into_iter().map(|topic| {
        let partitions = topic.partitions.iter().map(|asked| {
            message!(ReassignablePartitionResponse {
                partition_index: asked.partition_index,
                error_code: code,
                error_message: message.clone(),
            })
        });
        message!(ReassignableTopicResponse { partitions: partitions.collect(), name: topic.name.clone() })
    });
    let mut response = message!(AlterPartitionReassignmentsResponse {
        responses: responses.collect(),
        error_code: code,
        error_message: message.clone(),
    });
    if context.version() >= FACTOR_VERSION_MIN {
        response.allow_replication_factor_change = request.allow_replication_factor_change;
    }
    response
}

fn reassign(image: &Image, name: &str, asked: &ReassignablePartition) -> Result<(), Failure> {
    let unknown = |text| Failure::new(ErrorCode::UnknownTopicOrPartition, text);
    let index = asked.partition_index;
    let topic = image.topic(name).ok_or_else(|| unknown(format!("Unable to find a topic named {name}.")))?;
    topic.partition(index).ok_or_else(|| unknown(format!("Unable to find partition {name}:{index}.")))?;
    let replicas = asked.replicas.as_ref().ok_or(ErrorCode::NoReassignmentInProgress)?;
    Ok(check_replicas(image, index, replicas)?)
}

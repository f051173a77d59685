//! AlterPartitionReassignments (key 45), versions 0–1.
//!
//! Version 1 can forbid another number of replicas (KIP-860); the API is that of KIP-455.
//!
//! With one broker a partition can only be assigned to this broker: such a request succeeds without
//! a change, and any other is refused with Kafka's reason. There is never a reassignment to cancel.

use levada_metadata::controller::check_replicas;
use levada_metadata::image::{Image, Topic};
use levada_security::acl::Operation;
use levada_wire::error_code::{ErrorCode, Failure};
use levada_wire::messages::alter_partition_reassignments_request::ReassignablePartition;
use levada_wire::messages::alter_partition_reassignments_response::{
    ReassignablePartitionResponse, ReassignableTopicResponse,
};
use levada_wire::messages::{
    AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse, StrBytes,
};

use crate::api::access::forbidden;
use crate::api::forwarding::Refusable;
use crate::api::{Context, Sentences, text};

const FACTOR_VERSION_MIN: i16 = 1;

pub(crate) async fn answer(
    context: &Context,
    request: AlterPartitionReassignmentsRequest,
) -> AlterPartitionReassignmentsResponse {
    if !context.may_cluster(Operation::Alter) {
        return refuse_all(context, request);
    }
    if request.timeout_ms <= 0 && !request.topics.is_empty() {
        return request.refuse_late(context.version());
    }
    let image = context.broker().metadata().image();
    let mut sentences = Sentences::default();
    // Kafka's word for a request that has no topics.
    let nothing = request.topics.is_empty().then(StrBytes::default);
    let responses = request.topics.into_iter().map(|topic| {
        let name = topic.name.as_str();
        // One sentence for all partitions of a topic that does not exist: the name may be long.
        let found = image.topic(name);
        let found = found.ok_or_else(|| told(unknown(format!("Unable to find a topic named {name}."))));
        let partitions = topic.partitions.iter().map(|asked| {
            let mut response = message!(ReassignablePartitionResponse {
                partition_index: asked.partition_index,
                error_message: None,
            });
            let found = found.as_ref().map_err(Clone::clone);
            let reassigned = found.and_then(|topic| reassign(&image, topic, asked).map_err(told));
            if let Err((code, sentence)) = reassigned {
                response.error_code = code;
                response.error_message = sentences.tell(sentence.as_ref());
            }
            response
        });
        let partitions = partitions.collect();
        message!(ReassignableTopicResponse { partitions: partitions, name: topic.name })
    });
    let mut response = message!(AlterPartitionReassignmentsResponse {
        responses: responses.collect(),
        error_message: nothing
    });
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
    let mut sentences = Sentences::default();
    let responses = request.topics.into_iter().map(|topic| {
        let partitions = topic.partitions.iter().map(|asked| {
            message!(ReassignablePartitionResponse {
                partition_index: asked.partition_index,
                error_code: code,
                error_message: sentences.tell(message.as_ref()),
            })
        });
        let partitions = partitions.collect();
        message!(ReassignableTopicResponse { partitions: partitions, name: topic.name })
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

fn reassign(image: &Image, topic: &Topic, asked: &ReassignablePartition) -> Result<(), Failure> {
    let index = asked.partition_index;
    if topic.partition(index).is_none() {
        return Err(unknown(format!("Unable to find partition {}:{index}.", topic.name())));
    }
    let replicas = asked.replicas.as_ref().ok_or(ErrorCode::NoReassignmentInProgress)?;
    Ok(check_replicas(image, index, replicas)?)
}

fn unknown(message: String) -> Failure {
    Failure::new(ErrorCode::UnknownTopicOrPartition, message)
}

fn told(failure: Failure) -> (i16, Option<StrBytes>) {
    (failure.code.code(), failure.message.map(text))
}

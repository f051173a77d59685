//! DeleteShareGroupOffsets (key 92), version 0.
//!
//! Deletes the state of topics in a share group, which must be empty: start offsets and deliveries.
//! A later member begins where `share.auto.offset.reset` says. A topic for which the group has no
//! state is `UNKNOWN_TOPIC_OR_PARTITION`.
//!
//! Checks Delete on the group and Read on each topic. With the feature `share.version` at level 0,
//! the response is `UNSUPPORTED_VERSION`.

use levada_coordination::group::request::DeleteShareOffsetsRequest;
use levada_security::acl::{Operation, ResourceType};
use levada_wire::error_code::{ErrorCode, Failure, error_code};
use levada_wire::messages::delete_share_group_offsets_response::DeleteShareGroupOffsetsResponseTopic;
use levada_wire::messages::{DeleteShareGroupOffsetsRequest, DeleteShareGroupOffsetsResponse};

use crate::api::access::forbidden;
use crate::api::changes::log_change;
use crate::api::k76_share_group_heartbeat::are_served;
use crate::api::k91_alter_share_group_offsets::{explained, not_served, of_group};
use crate::api::{Context, Sentences, text};

pub(crate) async fn answer(
    context: &Context,
    request: DeleteShareGroupOffsetsRequest,
) -> DeleteShareGroupOffsetsResponse {
    if !are_served(context) {
        return refused(not_served());
    }
    let group_id = request.group_id.into_string();
    if !context.may(Operation::Delete, ResourceType::Group, &group_id) {
        return refused(forbidden(ErrorCode::GroupAuthorizationFailed));
    }
    if group_id.is_empty() {
        return refused(Failure::new(ErrorCode::InvalidGroupId, "The group id is empty."));
    }
    let may = |name: &str| context.may(Operation::Read, ResourceType::Topic, name);
    let names = request.topics.into_iter().map(|topic| topic.topic_name);
    let (permitted, refused_names): (Vec<_>, Vec<_>) = names.partition(|name| may(name.as_str()));
    let failure = forbidden(ErrorCode::TopicAuthorizationFailed);
    let (code, message) = (failure.code.code(), failure.message.map(text));
    let mut sentences = Sentences::default();
    let failed = refused_names.into_iter().map(|name| {
        message!(DeleteShareGroupOffsetsResponseTopic {
            topic_name: name,
            error_code: code,
            error_message: sentences.tell(message.as_ref()),
        })
    });
    let mut responses: Vec<_> = failed.collect();
    context.give_turn_back();
    let topics = permitted.into_iter().map(|name| name.into_string()).collect();
    let question = DeleteShareOffsetsRequest { group_id: group_id.clone(), topics };
    let deleted = match context.broker().coordinators().groups().ask(question).await {
        Ok(deleted) => deleted,
        Err(error) => return refused(of_group(&group_id, error)),
    };
    responses.extend(deleted.into_iter().map(|topic| {
        if topic.error.is_none() {
            let name = topic.name.as_str();
            log_change!(context, "state of a share group deleted", group = group_id.as_str(), topic = name,);
        }
        message!(DeleteShareGroupOffsetsResponseTopic {
            topic_name: text(topic.name),
            topic_id: topic.topic_id,
            error_code: error_code(topic.error),
            error_message: sentences.tell(explained(topic.error).as_ref()),
        })
    }));
    message!(DeleteShareGroupOffsetsResponse { responses: responses })
}

fn refused(failure: Failure) -> DeleteShareGroupOffsetsResponse {
    message!(DeleteShareGroupOffsetsResponse {
        error_code: failure.code.code(),
        error_message: failure.message.map(text),
    })
}

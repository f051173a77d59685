//! OffsetDelete (key 47), version 0.
//!
//! Removes a group's positions, except of topics that a member is subscribed to. A partition
//! without a position is not an error; a missing partition is. Groups with members of another
//! protocol than `consumer` are refused as a whole, because the broker does not know which topics
//! they use.

use levada_coordination::group::request;
use levada_security::acl::{Operation, ResourceType};
use levada_wire::error_code::{ErrorCode, error_code};
use levada_wire::messages::offset_delete_response::{
    OffsetDeleteResponsePartition, OffsetDeleteResponseTopic,
};
use levada_wire::messages::{OffsetDeleteRequest, OffsetDeleteResponse, StrBytes};

use crate::api::merged::merge;
use crate::api::{Context, text};

pub(crate) async fn answer(context: &Context, request: OffsetDeleteRequest) -> OffsetDeleteResponse {
    if !context.may(Operation::Delete, ResourceType::Group, request.group_id.as_str()) {
        return message!(OffsetDeleteResponse { error_code: ErrorCode::GroupAuthorizationFailed.code() });
    }
    if request.group_id.is_empty() {
        return message!(OffsetDeleteResponse { error_code: ErrorCode::InvalidGroupId.code() });
    }
    let image = context.broker().metadata().image();
    let (mut refused, mut known) = (Vec::new(), Vec::new());
    for topic in request.topics {
        let name = topic.name.as_str();
        let exists = |index| image.topic(name).is_some_and(|topic| topic.partition(index).is_some());
        let indexes = topic.partitions.iter().map(|partition| partition.partition_index);
        let may = context.may(Operation::Read, ResourceType::Topic, name);
        let (here, missing): (Vec<_>, Vec<_>) = indexes.partition(|index| may && exists(*index));
        let error =
            if may { ErrorCode::UnknownTopicOrPartition } else { ErrorCode::TopicAuthorizationFailed };
        if !here.is_empty() {
            known.push((name.to_owned(), here));
        }
        if !missing.is_empty() {
            refused.push(show(topic.name, missing.into_iter().map(|index| (index, error.code()))));
        }
    }
    // Also without any known partition: only the coordinator can tell if the group exists.
    let question = request::OffsetDeleteRequest { group_id: request.group_id.into_string(), topics: known };
    context.give_turn_back();
    let deleted = match context.broker().coordinators().groups().ask(question).await {
        Ok(deleted) => deleted.into_iter(),
        Err(error) => return message!(OffsetDeleteResponse { error_code: error_code(Some(error)) }),
    };
    let deleted = deleted.map(|topic| {
        let codes = topic.partitions.into_iter().map(|(index, error)| (index, error_code(error)));
        show(text(topic.name), codes)
    });
    let key = |topic: &OffsetDeleteResponseTopic| topic.name.clone();
    let topics = merge(refused, deleted.collect(), key, |one, other| one.partitions.extend(other.partitions));
    message!(OffsetDeleteResponse { topics: topics })
}

fn show(name: StrBytes, codes: impl Iterator<Item = (i32, i16)>) -> OffsetDeleteResponseTopic {
    let partitions = codes.map(|(index, code)| {
        message!(OffsetDeleteResponsePartition { partition_index: index, error_code: code })
    });
    message!(OffsetDeleteResponseTopic { name: name, partitions: partitions.collect() })
}

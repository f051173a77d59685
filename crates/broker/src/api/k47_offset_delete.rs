//! OffsetDelete (key 47), version 0.
//!
//! Removes a group's positions, except of topics that a member is subscribed to. A partition without a
//! position is no error; one that does not exist is. Groups with members of another protocol than
//! `consumer` are refused as a whole: what they use is unknown.

use std::collections::BTreeMap;

use levada_wire::messages::offset_delete_response::{OffsetDeleteResponsePartition, OffsetDeleteResponseTopic};
use levada_wire::messages::{OffsetDeleteRequest, OffsetDeleteResponse};

use crate::api::{Context, text};
use crate::error_code::{ErrorCode, error_code};
use crate::group::request;
use crate::security::acl::{Operation, ResourceType};

pub(crate) async fn answer(context: &Context, request: OffsetDeleteRequest) -> OffsetDeleteResponse {
    if !context.may(Operation::Delete, ResourceType::Group, request.group_id.as_str()) {
        return message!(OffsetDeleteResponse { error_code: ErrorCode::GroupAuthorizationFailed.code() });
    }
    if request.group_id.is_empty() {
        return message!(OffsetDeleteResponse { error_code: ErrorCode::InvalidGroupId.code() });
    }
    let image = context.broker().metadata().image();
    let (mut results, mut known) = (BTreeMap::new(), Vec::new());
    for topic in request.topics {
        let name = topic.name.into_string();
        let exists = |index| image.topic(&name).is_some_and(|topic| topic.partition(index).is_some());
        let indexes = topic.partitions.iter().map(|partition| partition.partition_index);
        let may = context.may(Operation::Read, ResourceType::Topic, &name);
        let (here, missing): (Vec<_>, Vec<_>) = indexes.partition(|index| may && exists(*index));
        let error = if may { ErrorCode::UnknownTopicOrPartition } else { ErrorCode::TopicAuthorizationFailed };
        let unknown = error.code();
        let refused: Vec<_> = missing.into_iter().map(|index| (index, unknown)).collect();
        results.entry(name.clone()).or_insert_with(Vec::new).extend(refused);
        if !here.is_empty() {
            known.push((name, here));
        }
    }
    if !known.is_empty() {
        let question =
            request::OffsetDeleteRequest { group_id: request.group_id.into_string(), topics: known };
        match context.broker().groups().ask(question).await {
            Ok(deleted) => {
                for topic in deleted {
                    let partitions = topic.partitions.into_iter();
                    let codes = partitions.map(|(index, error)| (index, error_code(error)));
                    results.entry(topic.name).or_default().extend(codes);
                }
            }
            Err(error) => return message!(OffsetDeleteResponse { error_code: error_code(Some(error)) }),
        }
    }
    message!(OffsetDeleteResponse { topics: results.into_iter().map(show).collect() })
}

fn show((name, partitions): (String, Vec<(i32, i16)>)) -> OffsetDeleteResponseTopic {
    let partitions = partitions.into_iter().map(|(index, code)| {
        message!(OffsetDeleteResponsePartition { partition_index: index, error_code: code })
    });
    message!(OffsetDeleteResponseTopic { name: text(name), partitions: partitions.collect() })
}

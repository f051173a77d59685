//! OffsetDelete (key 47), version 0.
//!
//! Removes a group's positions, except of topics that a member is subscribed to. A partition without a
//! position is no error; a topic that does not exist is. Groups with members of another protocol than
//! `consumer` are refused as a whole: what they use is unknown.

use levada_wire::messages::offset_delete_request::OffsetDeleteRequestTopic;
use levada_wire::messages::offset_delete_response::{OffsetDeleteResponsePartition, OffsetDeleteResponseTopic};
use levada_wire::messages::{OffsetDeleteRequest, OffsetDeleteResponse};

use crate::api::{Context, text};
use crate::error_code::{ErrorCode, error_code};
use crate::group::request;

pub(crate) async fn answer(context: &Context, request: OffsetDeleteRequest) -> OffsetDeleteResponse {
    let image = context.broker().metadata().image();
    let (known, unknown): (Vec<_>, Vec<_>) =
        request.topics.into_iter().partition(|topic| image.topic(topic.name.as_str()).is_some());
    let mut topics: Vec<_> = unknown.into_iter().map(refused).collect();
    if !known.is_empty() {
        let topics_of = known.into_iter().map(|topic| {
            let partitions = topic.partitions.iter().map(|partition| partition.partition_index);
            (topic.name.into_string(), partitions.collect())
        });
        let question =
            request::OffsetDeleteRequest { group_id: request.group_id.into_string(), topics: topics_of.collect() };
        match context.broker().groups().ask(question).await {
            Ok(deleted) => topics.extend(deleted.into_iter().map(|topic| {
                let partitions = topic.partitions.into_iter().map(|(index, error)| {
                    message!(OffsetDeleteResponsePartition { partition_index: index, error_code: error_code(error) })
                });
                message!(OffsetDeleteResponseTopic { name: text(topic.name), partitions: partitions.collect() })
            })),
            Err(error) => return message!(OffsetDeleteResponse { error_code: error_code(Some(error)) }),
        }
    }
    message!(OffsetDeleteResponse { topics: topics })
}

fn refused(topic: OffsetDeleteRequestTopic) -> OffsetDeleteResponseTopic {
    let partitions = topic.partitions.into_iter().map(|partition| {
        message!(OffsetDeleteResponsePartition {
            partition_index: partition.partition_index,
            error_code: ErrorCode::UnknownTopicOrPartition.code(),
        })
    });
    message!(OffsetDeleteResponseTopic { name: topic.name, partitions: partitions.collect() })
}

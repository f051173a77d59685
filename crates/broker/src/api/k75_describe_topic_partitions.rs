//! DescribeTopicPartitions (key 75), version 0.
//!
//! Topics in order of their names (all if none is named), with their partitions and eligible
//! leaders, up to a limit of partitions per response; the cursor names the first partition of the
//! next response.

use std::collections::BTreeSet;

use levada_metadata::controller::{check_topic_name, is_internal};
use levada_metadata::image::{Image, Topic};
use levada_security::acl::{Operation, ResourceType};
use levada_wire::error_code::ErrorCode;
use levada_wire::messages::describe_topic_partitions_response::{
    Cursor, DescribeTopicPartitionsResponsePartition, DescribeTopicPartitionsResponseTopic,
};
use levada_wire::messages::{DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse};

use crate::api::Context;
use crate::api::nodes::Nodes;

/// Kafka's value for authorized operations that were not requested.
const NO_OPERATIONS: i32 = i32::MIN;

pub(crate) async fn answer(
    context: &Context,
    request: DescribeTopicPartitionsRequest,
) -> DescribeTopicPartitionsResponse {
    let image = context.broker().metadata().image();
    let cursor = request.cursor.as_ref().map(|cursor| (cursor.topic_name.as_str(), cursor.partition_index));
    let from = cursor.map_or("", |(name, _)| name);
    let all = request.topics.is_empty();
    let names: BTreeSet<&str> = if all {
        image.topics().iter().map(|topic| &**topic.name()).filter(|name| *name >= from).collect()
    } else {
        request.topics.iter().map(|topic| topic.name.as_str()).filter(|name| *name >= from).collect()
    };
    let visible = |name: &&str| {
        if all {
            context.might(Operation::Describe, ResourceType::Topic, name)
        } else {
            context.may(Operation::Describe, ResourceType::Topic, name)
        }
    };
    let (names, forbidden): (BTreeSet<&str>, BTreeSet<&str>) = names.into_iter().partition(visible);
    if cursor
        .is_some_and(|(name, index)| index < 0 || !all && !names.contains(name) && !forbidden.contains(name))
    {
        return refuse_all(&request);
    }
    let partitions_max = context.broker().config().request_partitions_max;
    let mut page = Page {
        left: request.response_partition_limit.clamp(1, partitions_max) as usize,
        response: DescribeTopicPartitionsResponse::default(),
    };
    page.response.topics = forbidden.into_iter().filter(|_| !all).map(forbid).collect();
    for name in names {
        let first = cursor.filter(|(topic, _)| *topic == name).map_or(0, |(_, index)| index);
        if !page.add(context, &image, (name, first)) {
            break;
        }
    }
    page.response
}

fn forbid(name: &str) -> DescribeTopicPartitionsResponseTopic {
    message!(DescribeTopicPartitionsResponseTopic {
        error_code: ErrorCode::TopicAuthorizationFailed.code(),
        name: Some(name.into()),
        topic_authorized_operations: NO_OPERATIONS,
    })
}

fn refuse_all(request: &DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse {
    let topics = request.topics.iter().map(|topic| {
        message!(DescribeTopicPartitionsResponseTopic {
            error_code: ErrorCode::InvalidRequest.code(),
            name: Some(topic.name.clone()),
            topic_authorized_operations: NO_OPERATIONS,
        })
    });
    message!(DescribeTopicPartitionsResponse { topics: topics.collect() })
}

/// A response that is limited to this number of partitions.
struct Page {
    left: usize,
    response: DescribeTopicPartitionsResponse,
}

impl Page {
    /// Adds a topic's partitions from `first` on, up to the limit; false if the response ends here.
    fn add(&mut self, context: &Context, image: &Image, (name, first): (&str, i32)) -> bool {
        if self.left == 0 {
            self.end(name, 0);
            return false;
        }
        let mut shown = message!(DescribeTopicPartitionsResponseTopic {
            name: Some(name.into()),
            topic_authorized_operations: context.operations(ResourceType::Topic, name),
        });
        let mut next = None;
        match image.topic(name) {
            None => {
                let valid = check_topic_name(name).is_ok();
                let error = if valid { ErrorCode::UnknownTopicOrPartition } else { ErrorCode::InvalidTopic };
                shown.error_code = error.code();
            }
            Some(topic) => {
                shown.topic_id = topic.id();
                shown.is_internal = is_internal(name);
                shown.partitions =
                    partitions(&Nodes::of(context, image), (context, topic), first).take(self.left).collect();
                self.left -= shown.partitions.len();
                next = shown.partitions.last().map(|last| last.partition_index + 1);
                next = next.filter(|next| topic.partition(*next).is_some());
            }
        }
        self.response.topics.push(shown);
        if let Some(next) = next {
            self.end(name, next);
        }
        next.is_none()
    }

    fn end(&mut self, name: &str, index: i32) {
        self.response.next_cursor =
            Some(message!(Cursor { topic_name: name.into(), partition_index: index }));
    }
}

fn partitions<'a>(
    nodes: &'a Nodes<'_>,
    (context, topic): (&'a Context, &'a Topic),
    first: i32,
) -> impl Iterator<Item = DescribeTopicPartitionsResponsePartition> + 'a {
    let is_online = context.broker().replicas().online(topic);
    topic.partitions().filter(move |(index, _)| *index >= first).map(move |(index, partition)| {
        let online = is_online(index);
        let leader_id = nodes.leader(partition, online);
        let error = if leader_id >= 0 { ErrorCode::None } else { ErrorCode::LeaderNotAvailable };
        message!(DescribeTopicPartitionsResponsePartition {
            error_code: error.code(),
            partition_index: index,
            leader_id: leader_id,
            offline_replicas: nodes.offline(partition, online),
            leader_epoch: partition.leader_epoch,
            replica_nodes: partition.replicas.clone(),
            isr_nodes: partition.isr.clone(),
            eligible_leader_replicas: Some(partition.eligible_leader_replicas.clone()),
            last_known_elr: Some(partition.last_known_elr.clone()),
        })
    })
}

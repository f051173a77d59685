//! OffsetFetch (key 9), versions 1–10.
//!
//! Version 5 returns leader epochs (KIP-320), 7 can require stable offsets (KIP-447), 8 has any
//! number of groups (KIP-709), 9 epochs of members of consumer groups, and 10 topic ids (both
//! KIP-848).
//!
//! Returns committed positions: of one group below version 8, of any number from 8 on; of all
//! topics when none are named (version 2 and up); by topic id from version 10 on.
//!
//! A group or partition without a position has offset -1 and no error.
//!
//! Checks Describe on the group and on each topic; without the permission, topics that were not
//! named are omitted.
//!
//! A group that one request names several times gets a result each time, up to 2 MiB of memory for
//! all repeated responses; further repetitions are refused (INVALID_REQUEST), where Kafka
//! continues. Each response repeats all committed offsets of the group, so a request of a megabyte
//! could need gigabytes of responses.

use std::collections::{HashMap, HashSet};

use levada_coordination::group::request::{FetchRequest, FetchTopic, FetchedTopic};
use levada_security::acl::{Operation, ResourceType};
use levada_wire::Uuid;
use levada_wire::error_code::{ErrorCode, error_code};
use levada_wire::messages::offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopics};
use levada_wire::messages::offset_fetch_response::{
    OffsetFetchResponseGroup, OffsetFetchResponsePartition, OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic, OffsetFetchResponseTopics,
};
use levada_wire::messages::{OffsetFetchRequest, OffsetFetchResponse, StrBytes};

use crate::api::{Context, text};

/// Maximum number of bytes of memory for results about groups that the request has named before.
const REPEATED_BYTES_MAX: usize = 2 << 20;
const GROUPS_VERSION_MIN: i16 = 8;
const TOPIC_ID_VERSION_MIN: i16 = 10;
/// First version with an error for the whole request.
const ERROR_VERSION_MIN: i16 = 2;

pub(crate) async fn answer(context: &Context, request: OffsetFetchRequest) -> OffsetFetchResponse {
    if context.version() < GROUPS_VERSION_MIN {
        return one_group(context, request).await;
    }
    let mut groups = Vec::with_capacity(request.groups.len());
    let (mut named, mut left) = (HashSet::new(), Some(REPEATED_BYTES_MAX));
    for group in request.groups {
        let (group_id, is_first) = (group.group_id.clone(), named.insert(group.group_id.clone()));
        let answered = if is_first || left.is_some() {
            Some(group_of_many(context, group, request.require_stable).await)
        } else {
            None
        };
        if !is_first {
            left = left.zip(answered.as_ref()).and_then(|(left, answer)| left.checked_sub(size(answer)));
        }
        groups.push(answered.filter(|_| is_first || left.is_some()).unwrap_or_else(|| {
            message!(OffsetFetchResponseGroup {
                group_id: group_id,
                error_code: ErrorCode::InvalidRequest.code(),
            })
        }));
    }
    message!(OffsetFetchResponse { groups: groups })
}

/// Bytes of memory that a group's part of the response takes until it is sent.
fn size(group: &OffsetFetchResponseGroup) -> usize {
    let metadata =
        |partition: &OffsetFetchResponsePartitions| partition.metadata.as_ref().map_or(0, StrBytes::len);
    let partitions = |topic: &OffsetFetchResponseTopics| {
        let one = |partition| size_of::<OffsetFetchResponsePartitions>() + metadata(partition);
        topic.partitions.iter().map(one).sum::<usize>()
    };
    let topic = |topic: &OffsetFetchResponseTopics| {
        size_of::<OffsetFetchResponseTopics>() + topic.name.len() + partitions(topic)
    };
    size_of::<OffsetFetchResponseGroup>()
        + group.group_id.len()
        + group.topics.iter().map(topic).sum::<usize>()
}

async fn one_group(context: &Context, request: OffsetFetchRequest) -> OffsetFetchResponse {
    let asked = request.topics.map(|topics| {
        let topics = topics.into_iter().map(|topic| FetchTopic {
            name: topic.name.into_string(),
            topic_id: Uuid::ZERO,
            partitions: topic.partition_indexes,
        });
        once(topics.collect::<Vec<_>>())
    });
    let may = context.may(Operation::Describe, ResourceType::Group, request.group_id.as_str());
    let (permitted, forbidden) = split(context, asked.clone());
    let question = FetchRequest {
        group_id: request.group_id.into_string(),
        member_id: None,
        member_epoch: -1,
        topics: permitted,
        require_stable: request.require_stable,
    };
    let (fetched, error) = if may {
        match context.broker().coordinators().groups().ask(question).await {
            Ok(fetched) => (fetched, 0),
            Err(error) => (Vec::new(), error_code(Some(error))),
        }
    } else {
        (Vec::new(), ErrorCode::GroupAuthorizationFailed.code())
    };
    let mut topics: Vec<_> =
        fetched.into_iter().filter(|one| may_see(context, &one.name)).map(old_topic).collect();
    if error == 0 {
        let refused = |topic| refused_topic(topic, ErrorCode::TopicAuthorizationFailed.code());
        topics.extend(forbidden.into_iter().map(refused));
    }
    if error != 0 && context.version() < ERROR_VERSION_MIN {
        topics = asked.unwrap_or_default().into_iter().map(|topic| refused_topic(topic, error)).collect();
    }
    let error = if context.version() < ERROR_VERSION_MIN { 0 } else { error };
    message!(OffsetFetchResponse { topics: topics, error_code: error })
}

fn may_see(context: &Context, topic: &str) -> bool {
    context.might(Operation::Describe, ResourceType::Topic, topic)
}

/// Topics that the client may describe, and named topics that it may not describe.
fn split(context: &Context, asked: Option<Vec<FetchTopic>>) -> (Option<Vec<FetchTopic>>, Vec<FetchTopic>) {
    let may = |topic: &FetchTopic| context.may(Operation::Describe, ResourceType::Topic, &topic.name);
    match asked {
        Some(topics) => {
            let (permitted, forbidden) = topics.into_iter().partition(may);
            (Some(permitted), forbidden)
        }
        None => (None, Vec::new()),
    }
}

fn old_topic(topic: FetchedTopic) -> OffsetFetchResponseTopic {
    let partitions = topic.partitions.into_iter().map(|partition| {
        message!(OffsetFetchResponsePartition {
            partition_index: partition.index,
            committed_offset: partition.offset,
            committed_leader_epoch: partition.leader_epoch,
            metadata: Some(text(partition.metadata)),
            error_code: error_code(partition.error),
        })
    });
    message!(OffsetFetchResponseTopic { name: text(topic.name), partitions: partitions.collect() })
}

fn refused_topic(topic: FetchTopic, error: i16) -> OffsetFetchResponseTopic {
    let partitions = topic.partitions.into_iter().map(|index| {
        message!(OffsetFetchResponsePartition {
            partition_index: index,
            committed_offset: -1,
            metadata: Some("".into()),
            error_code: error,
        })
    });
    message!(OffsetFetchResponseTopic { name: text(topic.name), partitions: partitions.collect() })
}

async fn group_of_many(
    context: &Context,
    group: OffsetFetchRequestGroup,
    require_stable: bool,
) -> OffsetFetchResponseGroup {
    let mut response = message!(OffsetFetchResponseGroup { group_id: group.group_id.clone() });
    let by_id = context.version() >= TOPIC_ID_VERSION_MIN;
    if !context.may(Operation::Describe, ResourceType::Group, group.group_id.as_str()) {
        response.error_code = ErrorCode::GroupAuthorizationFailed.code();
        return response;
    }
    let (mut asked, mut refused) = (None, Vec::new());
    if let Some(topics) = group.topics {
        let (known, unknown) = resolve(context, topics, by_id);
        let (permitted, forbidden) = split(context, Some(known));
        asked = permitted;
        refused.extend(unknown);
        refused.extend(forbidden.into_iter().map(|topic| forbid(topic, by_id)));
    }
    let question = FetchRequest {
        group_id: group.group_id.into_string(),
        member_id: group.member_id.map(|id| id.into_string()),
        member_epoch: group.member_epoch,
        topics: asked,
        require_stable,
    };
    match context.broker().coordinators().groups().ask(question).await {
        Ok(fetched) => {
            let visible = fetched.into_iter().filter(|topic| may_see(context, &topic.name));
            response.topics.extend(visible.map(|topic| new_topic(context, topic, by_id)));
            response.topics.extend(refused);
            // A list of one topic grows to room for four, and a request may name very many groups.
            response.topics.shrink_to_fit();
        }
        Err(error) => response.error_code = error_code(Some(error)),
    }
    response
}

/// Resolves the topics that the request names by id; topics with unknown ids get their error
/// immediately.
fn resolve(
    context: &Context,
    topics: Vec<OffsetFetchRequestTopics>,
    by_id: bool,
) -> (Vec<FetchTopic>, Vec<OffsetFetchResponseTopics>) {
    let (mut known, mut unknown) = (Vec::new(), Vec::new());
    for topic in topics {
        let topic_id = topic.topic_id;
        let name = context.topic_name(by_id, &topic.name, topic.topic_id);
        match name {
            Some(name) => known.push(FetchTopic { name, topic_id, partitions: topic.partition_indexes }),
            None => unknown.push(message!(OffsetFetchResponseTopics {
                topic_id: topic.topic_id,
                partitions: refused(topic.partition_indexes, ErrorCode::UnknownTopicId),
            })),
        }
    }
    (once(known), unknown)
}

/// Each partition once: each entry in the response repeats the metadata that the client has
/// committed.
fn once(mut topics: Vec<FetchTopic>) -> Vec<FetchTopic> {
    let mut seen: HashMap<String, HashSet<i32>> = HashMap::new();
    topics.retain_mut(|topic| match seen.get_mut(&topic.name) {
        Some(seen) => {
            topic.partitions.retain(|index| seen.insert(*index));
            !topic.partitions.is_empty()
        }
        None => {
            let mut first = HashSet::with_capacity(topic.partitions.len());
            topic.partitions.retain(|index| first.insert(*index));
            seen.insert(topic.name.clone(), first);
            true
        }
    });
    topics
}

fn forbid(topic: FetchTopic, by_id: bool) -> OffsetFetchResponseTopics {
    let partitions = refused(topic.partitions, ErrorCode::TopicAuthorizationFailed);
    let mut response = message!(OffsetFetchResponseTopics { partitions: partitions });
    if by_id {
        response.topic_id = topic.topic_id;
    } else {
        response.name = text(topic.name);
    }
    response
}

fn refused(indexes: Vec<i32>, error: ErrorCode) -> Vec<OffsetFetchResponsePartitions> {
    let refused = |index| {
        message!(OffsetFetchResponsePartitions {
            partition_index: index,
            committed_offset: -1,
            metadata: Some("".into()),
            error_code: error.code(),
        })
    };
    indexes.into_iter().map(refused).collect()
}

fn new_topic(context: &Context, topic: FetchedTopic, by_id: bool) -> OffsetFetchResponseTopics {
    let partitions = topic.partitions.into_iter().map(|partition| {
        message!(OffsetFetchResponsePartitions {
            partition_index: partition.index,
            committed_offset: partition.offset,
            committed_leader_epoch: partition.leader_epoch,
            metadata: Some(text(partition.metadata)),
            error_code: error_code(partition.error),
        })
    });
    let mut response = message!(OffsetFetchResponseTopics { partitions: partitions.collect() });
    if by_id {
        let image = context.broker().metadata().image();
        response.topic_id = image.topic(&topic.name).map_or(Uuid::ZERO, |topic| topic.id());
    } else {
        response.name = text(topic.name);
    }
    response
}

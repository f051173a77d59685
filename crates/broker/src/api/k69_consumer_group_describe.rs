//! ConsumerGroupDescribe (key 69), versions 0–1.
//!
//! Epochs, assignor, and members with their current and target assignments, of consumer groups
//! (KIP-848). A group of another kind is `GROUP_ID_NOT_FOUND`, like a missing group; the message
//! distinguishes them. Where `group.coordinator.rebalance.protocols` lacks `consumer`, each group
//! is `UNSUPPORTED_VERSION`. Deleted topics are omitted, and a repeated group is described once.
//! From version 1 on each member's protocol is shown.

use std::collections::{BTreeSet, HashSet};

use levada_coordination::group::GroupError;
use levada_coordination::group::coordinator::{DescribedConsumer, DescribedConsumerGroup};
use levada_coordination::group::records::Partitions;
use levada_security::acl::{Operation, ResourceType};
use levada_wire::error_code::{ErrorCode, error_code, sentence};
use levada_wire::messages::consumer_group_describe_response::{
    Assignment, DescribedGroup, Member, TopicPartitions,
};
use levada_wire::messages::{ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse, StrBytes};

use crate::api::group_order::{in_kafkas_order, members_in_kafkas_order};
use crate::api::k68_consumer_group_heartbeat::are_served;
use crate::api::{Context, text};

/// Kafka's text for a group with topics that the client may not describe.
pub(super) const UNSEEN_TOPICS: &str =
    "The group has described topic(s) that the client is not authorized to describe.";
const MEMBER_TYPE_VERSION_MIN: i16 = 1;
const CLASSIC: i8 = 0;
const CONSUMER: i8 = 1;

pub(crate) async fn answer(
    context: &Context,
    request: ConsumerGroupDescribeRequest,
) -> ConsumerGroupDescribeResponse {
    if !are_served(context) {
        let refuse =
            |id| message!(DescribedGroup { group_id: id, error_code: ErrorCode::UnsupportedVersion.code() });
        return message!(ConsumerGroupDescribeResponse {
            groups: request.group_ids.into_iter().map(refuse).collect(),
        });
    }
    let may = |id: &StrBytes| context.may(Operation::Describe, ResourceType::Group, id.as_str());
    let mut named = HashSet::new();
    let named = request.group_ids.into_iter().filter(|id| named.insert(id.clone()));
    let (permitted, forbidden): (Vec<_>, Vec<_>) = named.partition(may);
    let refuse = |id| {
        message!(DescribedGroup { group_id: id, error_code: ErrorCode::GroupAuthorizationFailed.code() })
    };
    // Kafka answers for the nameless one before it sorts the others.
    let (nameless, named): (Vec<_>, Vec<_>) = permitted.into_iter().partition(|id| id.as_str().is_empty());
    let named = in_kafkas_order(context, named);
    let described = nameless.into_iter().chain(named).map(|group_id| {
        let mut group = permitted_view(context, describe(context, group_id.as_str()));
        if request.include_authorized_operations && group.error_code == 0 {
            group.authorized_operations = context.operations(ResourceType::Group, group_id.as_str());
        }
        group
    });
    message!(ConsumerGroupDescribeResponse {
        groups: forbidden.into_iter().map(refuse).chain(described).collect(),
    })
}

/// The group, if the client may describe all topics that its members read.
fn permitted_view(context: &Context, group: DescribedGroup) -> DescribedGroup {
    let assigned = |member: &Member| {
        let topics = [&member.assignment, &member.target_assignment].into_iter();
        let topics = topics.flat_map(|assignment| &assignment.topic_partitions);
        topics.map(|topic| topic.topic_name.as_str().to_owned()).collect::<Vec<_>>()
    };
    let subscribed = |member: &Member| {
        member.subscribed_topic_names.iter().map(|name| name.as_str().to_owned()).collect::<Vec<_>>()
    };
    let topics: BTreeSet<String> =
        group.members.iter().flat_map(|member| [assigned(member), subscribed(member)].concat()).collect();
    if topics.iter().all(|topic| context.might(Operation::Describe, ResourceType::Topic, topic)) {
        group
    } else {
        message!(DescribedGroup {
            group_id: group.group_id,
            error_code: ErrorCode::TopicAuthorizationFailed.code(),
            error_message: Some(text(UNSEEN_TOPICS)),
        })
    }
}

fn describe(context: &Context, group_id: &str) -> DescribedGroup {
    let found =
        context.broker().coordinators().groups().view(group_id, |coordinator| {
            (coordinator.describe_consumer(group_id), coordinator.knows(group_id))
        });
    let refused = |code: i16, message: Option<String>| {
        message!(DescribedGroup {
            group_id: group_id.into(),
            error_code: code,
            error_message: message.map(sentence).map(text),
        })
    };
    if group_id.is_empty() {
        return refused(ErrorCode::InvalidGroupId.code(), None);
    }
    match found {
        Some((Ok(group), _)) => show(context, group),
        Some((Err(error @ GroupError::GroupIdNotFound), known)) => {
            let what = if known { "is not a consumer group" } else { "not found" };
            refused(error_code(Some(error)), Some(format!("Group {group_id} {what}.")))
        }
        Some((Err(error), _)) => refused(error_code(Some(error)), None),
        None => refused(ErrorCode::NotCoordinator.code(), None),
    }
}

fn show(context: &Context, group: DescribedConsumerGroup) -> DescribedGroup {
    let mut members = group.members;
    members_in_kafkas_order(&mut members, |member| member.member_id.as_str());
    let members = members.into_iter().map(|member| show_member(context, member));
    message!(DescribedGroup {
        group_id: text(group.group_id),
        group_state: group.state.into(),
        group_epoch: group.epoch,
        assignment_epoch: group.target_epoch,
        assignor_name: text(group.assignor),
        members: members.collect(),
    })
}

fn show_member(context: &Context, member: DescribedConsumer) -> Member {
    let mut shown = message!(Member {
        member_id: text(member.member_id),
        instance_id: member.instance_id.map(text),
        rack_id: member.rack_id.map(text),
        member_epoch: member.epoch,
        client_id: text(member.client_id),
        client_host: text(member.client_host),
        subscribed_topic_names: member.topics.into_iter().map(text).collect(),
        subscribed_topic_regex: member.regex.map(text),
        assignment: assignment(context, member.assigned),
        target_assignment: assignment(context, member.target),
    });
    if context.version() >= MEMBER_TYPE_VERSION_MIN {
        shown.member_type = if member.is_classic { CLASSIC } else { CONSUMER };
    }
    shown
}

fn assignment(context: &Context, partitions: Partitions) -> Assignment {
    let image = context.broker().metadata().image();
    let topics = partitions.into_iter().filter_map(|(id, partitions)| {
        let topic_id = id;
        let topic = image.topic_by_id(topic_id)?;
        Some(message!(TopicPartitions {
            topic_id: topic_id,
            topic_name: text(topic.name().to_string()),
            partitions: partitions.into_iter().collect(),
        }))
    });
    message!(Assignment { topic_partitions: topics.collect() })
}

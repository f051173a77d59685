//! ConsumerGroupDescribe (key 69), versions 0–1.
//!
//! Version 1 returns the protocol of each member (KIP-1099).
//!
//! Epochs, assignor, and members with their current and target assignments, of consumer groups
//! (KIP-848). A group of another kind is `GROUP_ID_NOT_FOUND`, like a missing group; the message
//! distinguishes them. Without `consumer` in `group.coordinator.rebalance.protocols`, each group is
//! `UNSUPPORTED_VERSION`. Deleted topics are omitted, and a repeated group is described once.

use levada_coordination::group::coordinator::{DescribedConsumer, DescribedConsumerGroup};
use levada_coordination::group::records::Partitions;
use levada_security::acl::ResourceType;
use levada_wire::messages::consumer_group_describe_response::{
    Assignment, DescribedGroup, Member, TopicPartitions,
};
use levada_wire::messages::{ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse};

use crate::api::described::{Refusal, check_topics, describe_each, find};
use crate::api::group_order::members_in_kafkas_order;
use crate::api::k68_consumer_group_heartbeat::are_served;
use crate::api::{Context, text};

const MEMBER_TYPE_VERSION_MIN: i16 = 1;
const CLASSIC: i8 = 0;
const CONSUMER: i8 = 1;

pub(crate) async fn answer(
    context: &Context,
    request: ConsumerGroupDescribeRequest,
) -> ConsumerGroupDescribeResponse {
    let describe = |group_id: &str| {
        let mut group = describe(context, group_id)?;
        if request.include_authorized_operations {
            group.authorized_operations = context.operations(ResourceType::Group, group_id);
        }
        Ok(group)
    };
    let refused = |group_id, (error_code, error_message)| {
        message!(DescribedGroup { group_id: group_id, error_code: error_code, error_message: error_message })
    };
    let are_served = are_served(context);
    let groups = describe_each(context, (request.group_ids, are_served), describe, refused);
    message!(ConsumerGroupDescribeResponse { groups: groups })
}

/// The group, if the client may describe all topics that its members read.
fn describe(context: &Context, group_id: &str) -> Result<DescribedGroup, Refusal> {
    let found =
        find(context, (group_id, "consumer group"), |coordinator| coordinator.describe_consumer(group_id))?;
    let group = show(context, found);
    let assignments = group.members.iter().flat_map(|member| [&member.assignment, &member.target_assignment]);
    let assigned = assignments.flat_map(|assignment| &assignment.topic_partitions);
    let subscribed = group.members.iter().flat_map(|member| &member.subscribed_topic_names);
    let names = assigned.map(|topic| topic.topic_name.as_str());
    check_topics(context, names.chain(subscribed.map(|name| name.as_str())))?;
    Ok(group)
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

//! ShareGroupDescribe (key 77), version 1.
//!
//! Epochs and members with their assignments, of share groups (KIP-932). A group of another kind
//! is `GROUP_ID_NOT_FOUND`, like a missing group; the message distinguishes them. Deleted topics
//! are omitted.
//!
//! Checks Describe on each group, and on all topics that are assigned to its members. With the
//! feature `share.version` at level 0, each group is `UNSUPPORTED_VERSION`.

use levada_coordination::group::coordinator::{DescribedShareGroup, DescribedShareMember};
use levada_coordination::group::records::Partitions;
use levada_security::acl::ResourceType;
use levada_wire::messages::share_group_describe_response::{
    Assignment, DescribedGroup, Member, TopicPartitions,
};
use levada_wire::messages::{ShareGroupDescribeRequest, ShareGroupDescribeResponse};

use crate::api::described::{Refusal, check_topics, describe_each, find};
use crate::api::group_order::members_in_kafkas_order;
use crate::api::k76_share_group_heartbeat::are_served;
use crate::api::{Context, text};

pub(crate) async fn answer(
    context: &Context,
    request: ShareGroupDescribeRequest,
) -> ShareGroupDescribeResponse {
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
    message!(ShareGroupDescribeResponse { groups: groups })
}

/// The group, if the client may describe all topics that are assigned to its members.
fn describe(context: &Context, group_id: &str) -> Result<DescribedGroup, Refusal> {
    let found = find(context, (group_id, "share group"), |coordinator| coordinator.describe_share(group_id))?;
    let group = show(context, found);
    let assigned = group.members.iter().flat_map(|member| &member.assignment.topic_partitions);
    check_topics(context, assigned.map(|topic| topic.topic_name.as_str()))?;
    Ok(group)
}

fn show(context: &Context, group: DescribedShareGroup) -> DescribedGroup {
    let mut members = group.members;
    members_in_kafkas_order(&mut members, |member| member.member_id.as_str());
    let members = members.into_iter().map(|member| show_member(context, member));
    message!(DescribedGroup {
        group_id: text(group.group_id),
        group_state: group.state.into(),
        group_epoch: group.epoch,
        assignment_epoch: group.target_epoch,
        assignor_name: group.assignor.into(),
        members: members.collect(),
    })
}

fn show_member(context: &Context, member: DescribedShareMember) -> Member {
    message!(Member {
        member_id: text(member.member_id),
        rack_id: member.rack_id.map(text),
        member_epoch: member.epoch,
        client_id: text(member.client_id),
        client_host: text(member.client_host),
        subscribed_topic_names: member.topics.into_iter().map(text).collect(),
        assignment: assignment(context, member.assigned),
    })
}

fn assignment(context: &Context, partitions: Partitions) -> Assignment {
    let image = context.broker().metadata().image();
    let topics = partitions.into_iter().filter_map(|(topic_id, partitions)| {
        let topic = image.topic_by_id(topic_id)?;
        Some(message!(TopicPartitions {
            topic_id: topic_id,
            topic_name: text(topic.name().to_string()),
            partitions: partitions.into_iter().collect(),
        }))
    });
    message!(Assignment { topic_partitions: topics.collect() })
}

//! ShareGroupDescribe (key 77), version 1.
//!
//! Epochs and members with their assignments, of share groups (KIP-932). A group of another kind
//! is `GROUP_ID_NOT_FOUND`, like a missing group; the message distinguishes them. Deleted topics
//! are omitted.
//!
//! Checks Describe on each group, and on all topics that are assigned to its members. With the
//! feature `share.version` at level 0, each group is `UNSUPPORTED_VERSION`.

use std::collections::{BTreeSet, HashSet};

use levada_coordination::group::GroupError;
use levada_coordination::group::coordinator::{DescribedShareGroup, DescribedShareMember};
use levada_coordination::group::records::Partitions;
use levada_security::acl::{Operation, ResourceType};
use levada_wire::error_code::{ErrorCode, error_code, sentence};
use levada_wire::messages::share_group_describe_response::{
    Assignment, DescribedGroup, Member, TopicPartitions,
};
use levada_wire::messages::{ShareGroupDescribeRequest, ShareGroupDescribeResponse, StrBytes};

use crate::api::group_order::{in_kafkas_order, members_in_kafkas_order};
use crate::api::k69_consumer_group_describe::UNSEEN_TOPICS;
use crate::api::k76_share_group_heartbeat::are_served;
use crate::api::{Context, text};

pub(crate) async fn answer(
    context: &Context,
    request: ShareGroupDescribeRequest,
) -> ShareGroupDescribeResponse {
    if !are_served(context) {
        let refuse =
            |id| message!(DescribedGroup { group_id: id, error_code: ErrorCode::UnsupportedVersion.code() });
        return message!(ShareGroupDescribeResponse {
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
    let (nameless, named): (Vec<_>, Vec<_>) = permitted.into_iter().partition(|id| id.as_str().is_empty());
    let named = in_kafkas_order(context, named);
    let described = nameless.into_iter().chain(named).map(|group_id| {
        let mut group = permitted_view(context, describe(context, group_id.as_str()));
        if request.include_authorized_operations && group.error_code == 0 {
            group.authorized_operations = context.operations(ResourceType::Group, group_id.as_str());
        }
        group
    });
    message!(ShareGroupDescribeResponse {
        groups: forbidden.into_iter().map(refuse).chain(described).collect(),
    })
}

/// The group, if the client may describe all topics that are assigned to its members.
fn permitted_view(context: &Context, group: DescribedGroup) -> DescribedGroup {
    let assigned = group.members.iter().flat_map(|member| &member.assignment.topic_partitions);
    let topics: BTreeSet<StrBytes> = assigned.map(|topic| topic.topic_name.clone()).collect();
    if topics.iter().all(|topic| context.might(Operation::Describe, ResourceType::Topic, topic.as_str())) {
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
            (coordinator.describe_share(group_id), coordinator.knows(group_id))
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
            let what = if known { "is not a share group" } else { "not found" };
            refused(error_code(Some(error)), Some(format!("Group {group_id} {what}.")))
        }
        Some((Err(error), _)) => refused(error_code(Some(error)), None),
        None => refused(ErrorCode::NotCoordinator.code(), None),
    }
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

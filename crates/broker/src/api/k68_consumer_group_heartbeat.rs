//! ConsumerGroupHeartbeat (key 68), versions 0–1.
//!
//! Version 1 has regular expressions (KIP-848), and requires that members choose their own id
//! (KIP-1082).
//!
//! A member of a consumer group (KIP-848) joins, reports its subscription and its partitions, gets
//! its target assignment, and leaves. The broker assigns (`uniform`, `range`); it also matches
//! regular expressions, after it has sent the response.
//!
//! Checks Read on the group and Describe on each named topic; a regular expression finds only
//! topics that its member may describe. The broker evaluates an expression when it is new or topics
//! have changed, with the permissions of the member whose heartbeat arrives then.
//!
//! Without `consumer` in `group.coordinator.rebalance.protocols`, or with the feature
//! `group.version` at level 0, the response is `UNSUPPORTED_VERSION`; the API is still advertised,
//! as in Kafka.
//!
//! Racks are stored and shown, but do not influence the assignment, as in Kafka.

use levada_coordination::group::records::Partitions;
use levada_coordination::group::request::ConsumerHeartbeatRequest;
use levada_coordination::group::{ASSIGNORS, GroupError};
use levada_coordination::pattern;
use levada_metadata::features::GROUP_VERSION;
use levada_metadata::uuid;
use levada_security::acl::{Operation, ResourceType};
use levada_wire::error_code::{ErrorCode, error_code};
use levada_wire::messages::consumer_group_heartbeat_response::{Assignment, TopicPartitions};
use levada_wire::messages::{ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, StrBytes};

use crate::api::heartbeats::Refused;
use crate::api::{Context, text};

/// First version in which members choose their own id.
const OWN_ID_VERSION_MIN: i16 = 1;

pub(crate) async fn answer(
    context: &Context,
    request: ConsumerGroupHeartbeatRequest,
) -> ConsumerGroupHeartbeatResponse {
    if !are_served(context) {
        return message!(ConsumerGroupHeartbeatResponse { error_code: ErrorCode::UnsupportedVersion.code() });
    }
    if let Err(error) = permit(context, &request) {
        return message!(ConsumerGroupHeartbeatResponse { error_code: error.code(), error_message: None });
    }
    if let Some(regex) = request.subscribed_topic_regex.as_ref().filter(|regex| !regex.is_empty()) {
        // Compiled here, so that the coordinator finds the compiled expression; the coordinator
        // reports errors of the expression.
        let regex = regex.as_str().to_owned();
        let comparisons = &context.broker().turns().comparisons;
        let _ = context.run_in_turn(comparisons, move || pattern::whole(&regex)).await;
    }
    let (group, member) = (request.group_id.clone(), request.member_id.clone());
    let (instance, assignor) = (request.instance_id.clone(), request.server_assignor.clone());
    let regex = request.subscribed_topic_regex.clone();
    let members_max = context.broker().config().groups.consumer_max_size;
    context.give_turn_back();
    match context.broker().coordinators().groups().ask(heartbeat(context, request)).await {
        Ok(beat) => message!(ConsumerGroupHeartbeatResponse {
            member_id: Some(text(beat.member_id)),
            member_epoch: beat.member_epoch,
            heartbeat_interval_ms: beat.heartbeat_interval_ms,
            assignment: beat.assigned.map(assignment),
        }),
        Err(error) => message!(ConsumerGroupHeartbeatResponse {
            error_code: error_code(Some(error)),
            error_message: {
                let (kind, instance) = ("consumer", instance.as_deref());
                let refused = Refused { kind, group: &group, member: &member, instance, members_max };
                explanation(error, &refused, (assignor, regex)).map(text)
            },
        }),
    }
}

/// A message for the error's code, in Kafka's words.
fn explanation(
    error: GroupError,
    refused: &Refused<'_>,
    (assignor, regex): (Option<StrBytes>, Option<StrBytes>),
) -> Option<String> {
    match error {
        GroupError::InvalidRegularExpression => {
            let regex = regex.unwrap_or_default();
            Some(format!("SubscribedTopicRegex {:?} is not a valid regular expression.", regex.as_str()))
        }
        GroupError::UnsupportedAssignor => {
            let asked = assignor.unwrap_or_default();
            let (asked, all) = (asked.as_str(), ASSIGNORS.join(", "));
            Some(format!("ServerAssignor {asked} is not supported. Supported assignors: {all}."))
        }
        GroupError::NoUpgrade(reason) => {
            let group = refused.group;
            Some(format!("Cannot upgrade classic group {group} to consumer group because {reason}."))
        }
        error => refused.explanation(error),
    }
}

/// True if consumer groups are served: by the configuration, and by the level of the feature
/// `group.version`.
pub(super) fn are_served(context: &Context) -> bool {
    let level = context.broker().metadata().image().features().get(GROUP_VERSION).copied();
    context.broker().config().groups.consumer_protocol && level.is_some_and(|level| level > 0)
}

fn permit(context: &Context, request: &ConsumerGroupHeartbeatRequest) -> Result<(), ErrorCode> {
    if !context.may(Operation::Read, ResourceType::Group, request.group_id.as_str()) {
        return Err(ErrorCode::GroupAuthorizationFailed);
    }
    let mut names = request.subscribed_topic_names.iter().flatten();
    if names.all(|name| context.may(Operation::Describe, ResourceType::Topic, name.as_str())) {
        Ok(())
    } else {
        Err(ErrorCode::TopicAuthorizationFailed)
    }
}

fn heartbeat(context: &Context, request: ConsumerGroupHeartbeatRequest) -> ConsumerHeartbeatRequest {
    let mut member_id = request.member_id.into_string();
    if member_id.is_empty() && request.member_epoch == 0 && context.version() < OWN_ID_VERSION_MIN {
        member_id = uuid::text(uuid::random());
    }
    let owned = request.topic_partitions.map(|topics| {
        let mut owned = Partitions::new();
        for topic in topics {
            owned.entry(topic.topic_id).or_default().extend(topic.partitions);
        }
        owned
    });
    ConsumerHeartbeatRequest {
        api_version: context.version(),
        group_id: request.group_id.into_string(),
        member_id,
        member_epoch: request.member_epoch,
        instance_id: request.instance_id.map(|id| id.into_string()),
        rack_id: request.rack_id.map(|id| id.into_string()),
        client_id: context.client_id().to_owned(),
        client_host: format!("/{}", context.info.peer.ip().to_canonical()),
        rebalance_timeout_ms: request.rebalance_timeout_ms,
        topics: request
            .subscribed_topic_names
            .map(|names| names.into_iter().map(|name| name.into_string()).collect()),
        regex: request.subscribed_topic_regex.map(|regex| regex.into_string()),
        assignor: request.server_assignor.map(|name| name.into_string()),
        owned,
        visible: context.visible_topics(),
    }
}

fn assignment(assigned: Partitions) -> Assignment {
    let topics = assigned.into_iter().map(|(topic, partitions)| {
        message!(TopicPartitions { topic_id: topic, partitions: partitions.into_iter().collect() })
    });
    message!(Assignment { topic_partitions: topics.collect() })
}

#[cfg(test)]
mod tests;

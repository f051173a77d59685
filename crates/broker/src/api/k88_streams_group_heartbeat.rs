//! StreamsGroupHeartbeat (key 88), versions 0–1.
//!
//! Version 1 has a flag that requests a description of the topology (KIP-1331), and the status
//! `MISSING_CLIENT_TAGS` (KAFKA-20744).
//!
//! A member of a streams group (KIP-1071) joins under an id that it has generated, sends the
//! topology of its application, gets its tasks, and leaves. If internal topics of the topology are
//! missing, the broker creates them with the rights of the client, and responds without waiting.
//! The response has the status `MISSING_INTERNAL_TOPICS`, whose text names topics that could not be
//! created.
//!
//! Checks Read on the group, Describe on each topic of the topology, and Create for missing
//! internal topics. Without `streams` in `group.coordinator.rebalance.protocols`, or with the
//! feature `streams.version` at level 0, the response is `UNSUPPORTED_VERSION`.
//!
//! Expressions of source topics and changes of the topology are refused with `INVALID_REQUEST`; in
//! version 0, which is that of Kafka 4.3, static members, offsets of tasks and reports of warm-up
//! tasks as well. In version 1, as in Kafka 4.4, a static member may leave for a while, offsets of
//! tasks take part in the assignment, and the status `MISSING_CLIENT_TAGS` names tags that the
//! group requires; `TopologyDescriptionRequired` is always false. As in Kafka 4.4, racks and client
//! tags are stored and shown, and no warm-up tasks are assigned.
//!
//! Unlike in Kafka, a topology is refused (`STREAMS_INVALID_TOPOLOGY`) if it has more than 16 384
//! entries in its lists, more than 1024 subtopologies, a repeated subtopology, or more than 131 072
//! tasks. A list of offsets of more than 16 384 tasks is refused too (`INVALID_REQUEST`).

use levada_coordination::group::records::{InternalTopic, TaskSets, Tasks};
use levada_coordination::group::request::{EndpointPartitions, StreamsBeat, StreamsStatus};
use levada_metadata::features::STREAMS_VERSION;
use levada_security::acl::{Operation, ResourceType};
use levada_wire::error_code::{ErrorCode, error_code};
use levada_wire::messages::streams_group_heartbeat_response::{
    Endpoint, EndpointToPartitions, Status, TaskIds, TopicPartition,
};
use levada_wire::messages::{StrBytes, StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse};

use self::checks::Invalid;
use crate::api::heartbeats::Refused;
use crate::api::{Context, text};

mod checks;
mod creation;
mod request;

/// First version that only Kafka 4.4 has.
const NEWER: i16 = 1;

pub(crate) async fn answer(
    context: &Context,
    request: StreamsGroupHeartbeatRequest,
) -> StreamsGroupHeartbeatResponse {
    if let Err(Invalid(error, message)) =
        permit(context, &request).and_then(|()| checks::check(&request, context.version()))
    {
        return message!(StreamsGroupHeartbeatResponse {
            error_code: error.code(),
            error_message: message.map(text),
        });
    }
    context.give_turn_back();
    let (group, member) = (request.group_id.clone(), request.member_id.clone());
    let instance = request.instance_id.clone();
    let members_max = context.broker().config().groups.streams.max_size;
    let heartbeat = request::heartbeat(context, request);
    match context.broker().coordinators().groups().ask(heartbeat).await {
        Ok(mut beat) => {
            create(context, &mut beat);
            show(beat, context.version())
        }
        Err(error) => message!(StreamsGroupHeartbeatResponse {
            error_code: error_code(Some(error)),
            error_message: {
                let (kind, instance) = ("streams", instance.as_deref());
                let refused = Refused { kind, group: &group, member: &member, instance, members_max };
                refused.explanation(error).map(text)
            },
        }),
    }
}

/// True if streams groups are served: by the configuration, and by the level of the feature
/// `streams.version`.
pub(super) fn are_served(context: &Context) -> bool {
    let level = context.broker().metadata().image().features().get(STREAMS_VERSION).copied();
    context.broker().config().groups.streams.is_enabled && level.is_some_and(|level| level > 0)
}

fn permit(context: &Context, request: &StreamsGroupHeartbeatRequest) -> Result<(), Invalid> {
    if !are_served(context) {
        return Err(Invalid(ErrorCode::UnsupportedVersion, None));
    }
    if !context.may(Operation::Read, ResourceType::Group, request.group_id.as_str()) {
        return Err(Invalid(ErrorCode::GroupAuthorizationFailed, None));
    }
    let Some(topology) = &request.topology else { return Ok(()) };
    checks::check_size(topology)?;
    let topics = checks::topics(topology);
    checks::check_names(&topics)?;
    if topics.iter().all(|topic| context.may(Operation::Describe, ResourceType::Topic, topic)) {
        Ok(())
    } else {
        Err(Invalid(ErrorCode::TopicAuthorizationFailed, None))
    }
}

/// Requests the creation of missing internal topics, and completes the text of their status.
fn create(context: &Context, beat: &mut StreamsBeat) {
    let missing: Vec<InternalTopic> = std::mem::take(&mut beat.missing_topics);
    if missing.is_empty() {
        return;
    }
    let more = creation::begin(context, missing, beat.heartbeat_interval_ms);
    let status = beat.status.iter_mut().find(|status| status.code == StreamsStatus::MISSING_INTERNAL_TOPICS);
    if let (Some(status), Some(more)) = (status, more) {
        status.detail = format!("{}; {more}", status.detail);
    }
}

fn show(beat: StreamsBeat, version: i16) -> StreamsGroupHeartbeatResponse {
    let status = beat
        .status
        .into_iter()
        .map(|status| message!(Status { status_code: status.code, status_detail: text(status.detail) }));
    let mut shown = message!(StreamsGroupHeartbeatResponse {
        member_id: text(beat.member_id),
        member_epoch: beat.member_epoch,
        heartbeat_interval_ms: beat.heartbeat_interval_ms,
        status: Some(status.collect()),
        endpoint_information_epoch: beat.endpoint_epoch,
        partitions_by_user_endpoint: beat.endpoints.map(|all| all.into_iter().map(endpoint).collect()),
    });
    if version >= NEWER {
        shown.task_offset_interval_ms = beat.task_offset_interval_ms;
        shown.acceptable_recovery_lag = beat.acceptable_recovery_lag;
    }
    if let Some(TaskSets { active, standby, warmup }) = beat.assigned {
        shown.active_tasks = Some(tasks(active));
        shown.standby_tasks = Some(tasks(standby));
        shown.warmup_tasks = Some(tasks(warmup));
    }
    shown
}

fn tasks(tasks: Tasks) -> Vec<TaskIds> {
    let tasks = tasks.into_iter().map(|(id, partitions)| {
        message!(TaskIds { subtopology_id: text(id), partitions: partitions.into_iter().collect() })
    });
    tasks.collect()
}

fn endpoint(one: EndpointPartitions) -> EndpointToPartitions {
    let topics = |topics: Vec<(String, Vec<i32>)>| {
        let topics = topics.into_iter().map(|(topic, partitions)| {
            message!(TopicPartition { topic: StrBytes::from(topic), partitions: partitions })
        });
        topics.collect()
    };
    message!(EndpointToPartitions {
        user_endpoint: message!(Endpoint { host: text(one.endpoint.host), port: one.endpoint.port }),
        active_partitions: topics(one.active),
        standby_partitions: topics(one.standby),
    })
}

#[cfg(test)]
mod tests;

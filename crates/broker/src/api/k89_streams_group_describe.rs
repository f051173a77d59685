//! StreamsGroupDescribe (key 89), versions 0–1.
//!
//! Version 1 has descriptions of topologies (KIP-1331), and the name of the assignor (KIP-1357).
//!
//! Epochs, topology, and members with their current and target tasks, of streams groups (KIP-1071).
//! The topology has the numbers of partitions of its internal topics if they are known, otherwise
//! those that the members have sent. A group of another kind is `GROUP_ID_NOT_FOUND`, like a
//! missing group; the message distinguishes them.
//!
//! If the request includes descriptions (version 1), each group has the status that no description
//! of its topology is stored: the broker does not request them from members.
//!
//! Checks Describe on each group, and on all topics of its topology. Without `streams` in
//! `group.coordinator.rebalance.protocols`, or with the feature `streams.version` at level 0, each
//! group is `UNSUPPORTED_VERSION`.

use levada_coordination::group::coordinator::{
    DescribedStreamsGroup, DescribedStreamsMember, DescribedSubtopology, DescribedTopology,
};
use levada_coordination::group::records::{InternalTopic, TaskSets, Tasks};
use levada_coordination::group::request::TaskOffsets;
use levada_security::acl::ResourceType;
use levada_wire::messages::streams_group_describe_response::{
    Assignment, DescribedGroup, Endpoint, KeyValue, Member, Subtopology, TaskIds, TaskOffset, TopicInfo,
    Topology,
};
use levada_wire::messages::{StrBytes, StreamsGroupDescribeRequest, StreamsGroupDescribeResponse};

use crate::api::described::{Refusal, check_topics, describe_each, find};
use crate::api::group_order::members_in_kafkas_order;
use crate::api::k88_streams_group_heartbeat::are_served;
use crate::api::{Context, text};

/// No description of the topology is stored.
const NOT_STORED: i8 = 1;
/// Name of the only assignor.
const ASSIGNOR: &str = "sticky";

/// Kafka's text for a group with topics that the client may not describe.
const UNSEEN_TOPICS: &str = "The described group uses topics that the client is not authorized to describe.";

pub(crate) async fn answer(
    context: &Context,
    request: StreamsGroupDescribeRequest,
) -> StreamsGroupDescribeResponse {
    let describe = |group_id: &str| {
        let mut group = describe(context, group_id)?;
        if request.include_topology_description {
            group.topology_description_status = NOT_STORED;
        }
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
    message!(StreamsGroupDescribeResponse { groups: groups })
}

/// The group, if the client may describe all topics of its topology.
fn describe(context: &Context, group_id: &str) -> Result<DescribedGroup, Refusal> {
    let found =
        find(context, (group_id, "streams group"), |coordinator| coordinator.describe_streams(group_id))?;
    let parts = found.topology.iter().flat_map(|topology| &topology.subtopologies);
    let names = parts.flat_map(|part| {
        let plain = part.source_topics.iter().chain(&part.repartition_sink_topics);
        let internal = part.repartition_source_topics.iter().chain(&part.state_changelog_topics);
        plain.chain(internal.map(|topic| &topic.name))
    });
    let seen = check_topics(context, names.map(String::as_str));
    seen.map_err(|(code, _)| (code, Some(text(UNSEEN_TOPICS))))?;
    Ok(show(found))
}

fn show(group: DescribedStreamsGroup) -> DescribedGroup {
    let mut members = group.members;
    members_in_kafkas_order(&mut members, |member| member.member_id.as_str());
    message!(DescribedGroup {
        group_id: text(group.group_id),
        group_state: group.state.into(),
        group_epoch: group.epoch,
        assignment_epoch: group.target_epoch,
        topology: group.topology.map(show_topology),
        members: members.into_iter().map(show_member).collect(),
        assignor_name: Some(ASSIGNOR.into()),
    })
}

fn show_topology(topology: DescribedTopology) -> Topology {
    let parts = topology.subtopologies.into_iter().map(show_subtopology);
    message!(Topology { epoch: topology.epoch, subtopologies: Some(parts.collect()) })
}

fn show_subtopology(part: DescribedSubtopology) -> Subtopology {
    let texts = |names: Vec<String>| names.into_iter().map(text).collect::<Vec<StrBytes>>();
    let topics = |topics: Vec<InternalTopic>| topics.into_iter().map(show_topic).collect::<Vec<_>>();
    message!(Subtopology {
        subtopology_id: text(part.id),
        source_topics: texts(part.source_topics),
        repartition_sink_topics: texts(part.repartition_sink_topics),
        state_changelog_topics: topics(part.state_changelog_topics),
        repartition_source_topics: topics(part.repartition_source_topics),
    })
}

fn show_topic(topic: InternalTopic) -> TopicInfo {
    message!(TopicInfo {
        name: text(topic.name),
        partitions: topic.partitions,
        replication_factor: topic.replication_factor,
        topic_configs: pairs(topic.configs),
    })
}

fn show_member(member: DescribedStreamsMember) -> Member {
    let metadata = member.metadata;
    let endpoint = metadata
        .user_endpoint
        .map(|endpoint| message!(Endpoint { host: text(endpoint.host), port: endpoint.port }));
    message!(Member {
        member_id: text(member.member_id),
        member_epoch: member.epoch,
        instance_id: metadata.instance_id.map(text),
        rack_id: metadata.rack_id.map(text),
        client_id: text(metadata.client_id),
        client_host: text(metadata.client_host),
        topology_epoch: metadata.topology_epoch,
        process_id: text(metadata.process_id),
        user_endpoint: endpoint,
        client_tags: pairs(metadata.client_tags),
        task_offsets: offsets(&member.task_offsets),
        task_end_offsets: offsets(&member.task_end_offsets),
        assignment: assignment(member.assigned),
        target_assignment: assignment(member.target),
    })
}

fn offsets(offsets: &TaskOffsets) -> Vec<TaskOffset> {
    let tasks = offsets.iter().flat_map(|(id, tasks)| tasks.iter().map(move |task| (id, task)));
    let shown = tasks.map(|(id, (partition, offset))| {
        message!(TaskOffset { subtopology_id: text(id.clone()), partition: *partition, offset: *offset })
    });
    shown.collect()
}

fn pairs(pairs: impl IntoIterator<Item = (String, String)>) -> Vec<KeyValue> {
    let pairs = pairs.into_iter();
    pairs.map(|(key, value)| message!(KeyValue { key: text(key), value: text(value) })).collect()
}

fn assignment(sets: TaskSets) -> Assignment {
    let tasks = |tasks: Tasks| {
        let tasks = tasks.into_iter().map(|(id, partitions)| {
            message!(TaskIds { subtopology_id: text(id), partitions: partitions.into_iter().collect() })
        });
        tasks.collect::<Vec<_>>()
    };
    message!(Assignment {
        active_tasks: tasks(sets.active),
        standby_tasks: tasks(sets.standby),
        warmup_tasks: tasks(sets.warmup),
    })
}

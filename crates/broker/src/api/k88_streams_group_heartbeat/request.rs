//! The heartbeat as the coordinator takes it.

use levada_coordination::group::records::{
    CopartitionGroup, Endpoint, InternalTopic, Subtopology, TaskSets, Tasks, Topology,
};
use levada_coordination::group::request::{StreamsHeartbeatRequest, TaskOffsets};
use levada_wire::messages::streams_group_heartbeat_request as wire;
use levada_wire::messages::{StrBytes, StreamsGroupHeartbeatRequest};

use super::NEWER;
use crate::api::Context;

pub(super) fn heartbeat(context: &Context, request: StreamsGroupHeartbeatRequest) -> StreamsHeartbeatRequest {
    let owned = match (request.active_tasks, request.standby_tasks, request.warmup_tasks) {
        (Some(active), Some(standby), Some(warmup)) => {
            Some(TaskSets { active: tasks(active), standby: tasks(standby), warmup: tasks(warmup) })
        }
        _ => None,
    };
    let endpoint = |one: wire::Endpoint| Endpoint { host: one.host.into_string(), port: one.port };
    StreamsHeartbeatRequest {
        group_id: request.group_id.into_string(),
        member_id: request.member_id.into_string(),
        member_epoch: request.member_epoch,
        endpoint_epoch: request.endpoint_information_epoch,
        instance_id: request.instance_id.map(StrBytes::into_string),
        rack_id: request.rack_id.map(StrBytes::into_string),
        rebalance_timeout_ms: Some(request.rebalance_timeout_ms).filter(|timeout_ms| *timeout_ms != -1),
        client_id: context.client_id().to_owned(),
        client_host: format!("/{}", context.info.peer.ip().to_canonical()),
        topology: request.topology.map(topology),
        owned,
        process_id: request.process_id.map(StrBytes::into_string),
        user_endpoint: request.user_endpoint.map(endpoint),
        task_offsets: request.task_offsets.map(offsets),
        task_end_offsets: request.task_end_offsets.map(offsets),
        knows_missing_tags: context.version() >= NEWER,
        client_tags: request.client_tags.map(|tags| pairs(tags).into_iter().collect()),
        shutdown_application: request.shutdown_application,
    }
}

fn tasks(tasks: Vec<wire::TaskIds>) -> Tasks {
    let mut all = Tasks::new();
    for task in tasks {
        all.entry(task.subtopology_id.into_string()).or_default().extend(task.partitions);
    }
    all
}

fn offsets(offsets: Vec<wire::TaskOffset>) -> TaskOffsets {
    let mut all = TaskOffsets::new();
    for one in offsets {
        all.entry(one.subtopology_id.into_string()).or_default().insert(one.partition, one.offset);
    }
    all
}

fn pairs(pairs: Vec<wire::KeyValue>) -> Vec<(String, String)> {
    pairs.into_iter().map(|pair| (pair.key.into_string(), pair.value.into_string())).collect()
}

fn topology(topology: wire::Topology) -> Topology {
    let texts = |texts: Vec<StrBytes>| texts.into_iter().map(StrBytes::into_string).collect();
    let parts = topology.subtopologies.into_iter().map(|part| Subtopology {
        id: part.subtopology_id.into_string(),
        source_topics: texts(part.source_topics),
        source_topic_regex: texts(part.source_topic_regex),
        state_changelog_topics: topics(part.state_changelog_topics),
        repartition_sink_topics: texts(part.repartition_sink_topics),
        repartition_source_topics: topics(part.repartition_source_topics),
        copartition_groups: part.copartition_groups.into_iter().map(copartition_group).collect(),
    });
    Topology { epoch: topology.epoch, subtopologies: parts.collect() }
}

fn topics(topics: Vec<wire::TopicInfo>) -> Vec<InternalTopic> {
    let topics = topics.into_iter().map(|topic| InternalTopic {
        name: topic.name.into_string(),
        partitions: topic.partitions,
        replication_factor: topic.replication_factor,
        configs: pairs(topic.topic_configs),
    });
    topics.collect()
}

fn copartition_group(group: wire::CopartitionGroup) -> CopartitionGroup {
    CopartitionGroup {
        source_topics: group.source_topics,
        source_topic_regex: group.source_topic_regex,
        repartition_source_topics: group.repartition_source_topics,
    }
}

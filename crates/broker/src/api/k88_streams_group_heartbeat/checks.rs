//! Checks of a heartbeat that need no state: those of Kafka, and limits of the topology.

use std::collections::{BTreeSet, HashSet};

use levada_metadata::controller::{check_topic_name, is_internal};
use levada_wire::error_code::ErrorCode;
use levada_wire::messages::StreamsGroupHeartbeatRequest;
use levada_wire::messages::streams_group_heartbeat_request::{
    Subtopology, TaskIds, TaskOffset, TopicInfo, Topology,
};

use super::NEWER;

/// Maximum number of entries in all lists of a topology.
const ENTRIES_MAX: usize = 16_384;

/// Maximum number of subtopologies. The time to compute numbers of partitions grows with the square
/// of their number.
const SUBTOPOLOGIES_MAX: usize = 1_024;

/// A reason against a heartbeat.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Invalid(pub(super) ErrorCode, pub(super) Option<String>);

fn invalid_request(message: impl Into<String>) -> Invalid {
    Invalid(ErrorCode::InvalidRequest, Some(message.into()))
}

fn invalid_topology(message: String) -> Invalid {
    Invalid(ErrorCode::StreamsInvalidTopology, Some(message))
}

/// Checks the number of entries of a topology.
pub(super) fn check_size(topology: &Topology) -> Result<(), Invalid> {
    let topics =
        |topics: &[TopicInfo]| topics.iter().map(|topic| 1 + topic.topic_configs.len()).sum::<usize>();
    let part = |part: &Subtopology| {
        let groups = part.copartition_groups.iter();
        let groups =
            groups.map(|group| 1 + group.source_topics.len() + group.repartition_source_topics.len());
        1 + part.source_topics.len()
            + part.repartition_sink_topics.len()
            + topics(&part.repartition_source_topics)
            + topics(&part.state_changelog_topics)
            + groups.sum::<usize>()
    };
    let entries: usize = topology.subtopologies.iter().map(part).sum();
    if entries > ENTRIES_MAX {
        return Err(invalid_topology(format!(
            "The lists of the topology have {entries} entries, more than the limit of {ENTRIES_MAX}."
        )));
    }
    let count = topology.subtopologies.len();
    if count > SUBTOPOLOGIES_MAX {
        return Err(invalid_topology(format!(
            "The topology has {count} subtopologies, more than the limit of {SUBTOPOLOGIES_MAX}."
        )));
    }
    let mut ids = HashSet::new();
    let twice = topology.subtopologies.iter().find(|part| !ids.insert(part.subtopology_id.as_str()));
    twice.map_or(Ok(()), |part| {
        let id = part.subtopology_id.as_str();
        Err(invalid_topology(format!("The topology has subtopology {id} more than once.")))
    })
}

/// The topics of a topology, each once.
pub(super) fn topics(topology: &Topology) -> BTreeSet<&str> {
    let parts = topology.subtopologies.iter();
    let names = parts.flat_map(|part| {
        let plain = part.source_topics.iter().chain(&part.repartition_sink_topics);
        let internal = part.repartition_source_topics.iter().chain(&part.state_changelog_topics);
        plain.chain(internal.map(|topic| &topic.name))
    });
    names.map(|name| name.as_str()).collect()
}

/// Checks that topics may be part of a topology.
pub(super) fn check_names(topics: &BTreeSet<&str>) -> Result<(), Invalid> {
    let named = |is_wrong: fn(&str) -> bool| {
        let wrong: Vec<&str> = topics.iter().copied().filter(|topic| is_wrong(topic)).collect();
        (!wrong.is_empty()).then(|| wrong.join(","))
    };
    if let Some(names) = named(is_internal) {
        return Err(invalid_topology(format!(
            "Use of Kafka internal topics {names} in a Kafka Streams topology is prohibited."
        )));
    }
    named(|topic| check_topic_name(topic).is_err()).map_or(Ok(()), |names| {
        Err(invalid_topology(format!("Topic names {names} are not valid topic names.")))
    })
}

/// Checks the fields of a heartbeat, in the order and with the error messages of Kafka.
pub(super) fn check(request: &StreamsGroupHeartbeatRequest, version: i16) -> Result<(), Invalid> {
    check_supported(request, version)?;
    check_texts(request)?;
    // Kafka takes a list that is not given for one that is not empty.
    let has = |tasks: &Option<Vec<TaskIds>>| tasks.as_ref().is_none_or(|tasks| !tasks.is_empty());
    match request.member_epoch {
        0 => {
            let what = if request.rebalance_timeout_ms == -1 {
                "RebalanceTimeoutMs must be provided in first request."
            } else if has(&request.active_tasks) {
                "ActiveTasks must be empty when (re-)joining."
            } else if has(&request.standby_tasks) {
                "StandbyTasks must be empty when (re-)joining."
            } else if has(&request.warmup_tasks) {
                "WarmupTasks must be empty when (re-)joining."
            } else if request.topology.is_none() {
                "Topology must be non-null when (re-)joining."
            } else {
                ""
            };
            if !what.is_empty() {
                return Err(invalid_request(what));
            }
            check_topology(request)?;
        }
        // A member leaves for a while only if it is static.
        -2 if request.instance_id.is_none() => return Err(invalid_request("InstanceId can't be null.")),
        epoch if epoch < -2 => {
            return Err(invalid_request(format!(
                "MemberEpoch is {epoch}, but must be greater than or equal to -2."
            )));
        }
        _ => {}
    }
    let given = [&request.active_tasks, &request.standby_tasks, &request.warmup_tasks].map(Option::is_some);
    if given.contains(&true) && given.contains(&false) {
        return Err(invalid_request("If one task-type is non-null, all must be non-null."));
    }
    if request.member_epoch != 0 && request.topology.is_some() {
        return Err(invalid_request("Topology can only be provided when (re-)joining."));
    }
    [&request.task_offsets, &request.task_end_offsets]
        .into_iter()
        .flatten()
        .try_for_each(|all| check_offsets(all))
}

/// Checks that a list of offsets has each task once.
fn check_offsets(offsets: &[TaskOffset]) -> Result<(), Invalid> {
    if offsets.len() > ENTRIES_MAX {
        return Err(invalid_request(format!(
            "The request has offsets of {} tasks, more than the limit of {ENTRIES_MAX}.",
            offsets.len()
        )));
    }
    let mut tasks = HashSet::new();
    let twice = offsets.iter().find(|one| !tasks.insert((one.subtopology_id.as_str(), one.partition)));
    twice.map_or(Ok(()), |one| {
        Err(invalid_request(format!(
            "Task offsets contain a duplicate entry for subtopology {} and partition {}.",
            one.subtopology_id.as_str(),
            one.partition
        )))
    })
}

fn check_supported(request: &StreamsGroupHeartbeatRequest, version: i16) -> Result<(), Invalid> {
    let is_older = version < NEWER;
    let mut parts = request.topology.iter().flat_map(|topology| &topology.subtopologies);
    let what = if is_older && request.instance_id.is_some() {
        "Static membership is not yet supported."
    } else if is_older && request.task_offsets.is_some() {
        "TaskOffsets are not supported yet."
    } else if is_older && request.task_end_offsets.is_some() {
        "TaskEndOffsets are not supported yet."
    } else if is_older && request.warmup_tasks.as_ref().is_some_and(|tasks| !tasks.is_empty()) {
        "WarmupTasks are not supported yet."
    } else if parts.any(|part| !part.source_topic_regex.is_empty()) {
        "Regular expressions for source topics are not supported yet."
    } else {
        return Ok(());
    };
    Err(invalid_request(what))
}

fn check_texts(request: &StreamsGroupHeartbeatRequest) -> Result<(), Invalid> {
    let blank = |text: &str| text.trim().is_empty();
    let what = if blank(request.member_id.as_str()) {
        "MemberId can't be empty."
    } else if blank(request.group_id.as_str()) {
        "GroupId can't be empty."
    } else if request.instance_id.as_ref().is_some_and(|instance| blank(instance.as_str())) {
        "InstanceId can't be empty."
    } else if request.rack_id.as_ref().is_some_and(|rack| blank(rack.as_str())) {
        "RackId can't be empty."
    } else {
        return Ok(());
    };
    Err(invalid_request(what))
}

fn check_topology(request: &StreamsGroupHeartbeatRequest) -> Result<(), Invalid> {
    if let Some(topology) = request.topology.as_ref().filter(|topology| topology.epoch < 0) {
        return Err(invalid_topology(format!(
            "The epoch of the topology is {}, but must not be below 0.",
            topology.epoch
        )));
    }
    let parts = request.topology.iter().flat_map(|topology| &topology.subtopologies);
    let mut changelogs = parts.flat_map(|part| &part.state_changelog_topics);
    changelogs.find(|topic| topic.partitions != 0).map_or(Ok(()), |topic| {
        Err(invalid_topology(format!(
            "Changelog topic {} must have an undefined partition count, but it is set to {}.",
            topic.name.as_str(),
            topic.partitions
        )))
    })
}

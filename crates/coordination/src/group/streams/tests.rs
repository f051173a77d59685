//! Whole streams groups, driven through a coordinator.

mod groups;
mod moves;
mod newer;

use crate::group::config::{GroupConfig, StreamsConfig};
use crate::group::consumer::tests::catalogue;
use crate::group::coordinator::DescribedStreamsGroup;
use crate::group::records::{InternalTopic, Subtopology, TaskSets, Tasks, Topology};
use crate::group::request::{StreamsBeat, StreamsHeartbeatRequest};
use crate::group::tests::rig::{GROUP, Rig, config};

/// Settings without delays.
pub(in crate::group) fn streams_config() -> GroupConfig {
    let streams = StreamsConfig {
        initial_rebalance_delay_ms: 0,
        assignment_interval_ms: 0,
        ..StreamsConfig::default()
    };
    GroupConfig { streams, ..config() }
}

fn rig_with(change: impl FnOnce(&mut StreamsConfig)) -> Rig {
    let mut config = streams_config();
    change(&mut config.streams);
    let mut rig = Rig::new(config);
    rig.step(catalogue(&[("t", 4), ("store", 4)]));
    rig
}

fn rig() -> Rig {
    rig_with(|_| {})
}

/// One part that reads `t` and keeps its state in `store`.
pub(in crate::group) fn topology() -> Topology {
    let part = Subtopology {
        id: "0".into(),
        source_topics: vec!["t".into()],
        state_changelog_topics: vec![InternalTopic { name: "store".into(), ..InternalTopic::default() }],
        ..Subtopology::default()
    };
    Topology { epoch: 0, subtopologies: vec![part] }
}

/// A heartbeat that says nothing new.
pub(in crate::group) fn beat(member_id: &str, epoch: i32) -> StreamsHeartbeatRequest {
    StreamsHeartbeatRequest {
        group_id: GROUP.into(),
        member_id: member_id.into(),
        member_epoch: epoch,
        endpoint_epoch: 0,
        instance_id: None,
        rack_id: None,
        rebalance_timeout_ms: None,
        client_id: "client".into(),
        client_host: "/127.0.0.1".into(),
        topology: None,
        owned: None,
        process_id: None,
        user_endpoint: None,
        client_tags: None,
        task_offsets: None,
        task_end_offsets: None,
        knows_missing_tags: true,
        shutdown_application: false,
    }
}

/// A member with a process of its own joins.
pub(in crate::group) fn enter(member_id: &str) -> StreamsHeartbeatRequest {
    StreamsHeartbeatRequest {
        rebalance_timeout_ms: Some(60_000),
        topology: Some(topology()),
        process_id: Some(format!("process-{member_id}")),
        owned: Some(TaskSets::default()),
        ..beat(member_id, 0)
    }
}

/// A member reports its active tasks.
fn owning(member_id: &str, epoch: i32, active: &[i32]) -> StreamsHeartbeatRequest {
    let owned = TaskSets { active: tasks(active), ..TaskSets::default() };
    StreamsHeartbeatRequest { owned: Some(owned), ..beat(member_id, epoch) }
}

fn tasks(partitions: &[i32]) -> Tasks {
    if partitions.is_empty() {
        return Tasks::new();
    }
    [("0".to_owned(), partitions.iter().copied().collect())].into()
}

fn active(partitions: &[i32]) -> Option<TaskSets> {
    Some(TaskSets { active: tasks(partitions), ..TaskSets::default() })
}

fn ok(rig: &mut Rig, request: StreamsHeartbeatRequest) -> StreamsBeat {
    rig.ask(request).unwrap()
}

fn group(rig: &Rig) -> DescribedStreamsGroup {
    rig.coordinator.describe_streams(GROUP).unwrap()
}

fn codes(beat: &StreamsBeat) -> Vec<i8> {
    beat.status.iter().map(|status| status.code).collect()
}

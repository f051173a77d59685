//! The commands for streams groups: tasks of members, lag of tasks, offsets, removal of members.
//! `LEVADA_TEST_NODE=kafka` runs the same commands against a real Kafka.
//!
//! Suite: short; 3 s; needs python; share streams

use std::time::Duration;

use levada_client::{Connection, ConnectionOptions};
use levada_tests::{Node, Tool, await_some, transcript};
use levada_wire::StrBytes;
use levada_wire::messages::StreamsGroupHeartbeatRequest;
use levada_wire::messages::streams_group_heartbeat_request::{Subtopology, TaskIds, TopicInfo, Topology};
use serde_json::json;

const LIMIT: Duration = Duration::from_secs(60);
const GROUP: &str = "words";

/// A member that owns what it is assigned.
struct Member {
    request: StreamsGroupHeartbeatRequest,
}

/// Lines of the topic `lines` become words, which are counted.
fn topology() -> Topology {
    let topic = |name: &str| {
        let mut topic = TopicInfo::default();
        topic.name = StrBytes::from(name);
        topic
    };
    let mut split = Subtopology::default();
    split.subtopology_id = StrBytes::from("0");
    split.source_topics = vec![StrBytes::from("lines")];
    split.repartition_sink_topics = vec![StrBytes::from("words-repartition")];
    let mut count = Subtopology::default();
    count.subtopology_id = StrBytes::from("1");
    count.repartition_source_topics = vec![topic("words-repartition")];
    count.state_changelog_topics = vec![topic("words-changelog")];
    let mut topology = Topology::default();
    topology.subtopologies = vec![split, count];
    topology
}

impl Member {
    fn new(name: &str) -> Self {
        let mut request = StreamsGroupHeartbeatRequest::default();
        request.group_id = StrBytes::from(GROUP);
        request.member_id = StrBytes::from(name);
        request.process_id = Some(StrBytes::from(format!("process-of-{name}").as_str()));
        request.topology = Some(topology());
        request.rebalance_timeout_ms = 60_000;
        [request.active_tasks, request.standby_tasks, request.warmup_tasks] = [const { Some(Vec::new()) }; 3];
        Self { request }
    }

    /// Sends a heartbeat, and takes the tasks of its response.
    fn beat(&mut self, client: &mut Connection) {
        let response = client.request(&self.request).expect("a response");
        if response.error_code != 0 {
            return;
        }
        let request = &mut self.request;
        request.topology = None;
        request.member_epoch = response.member_epoch;
        let owned = |tasks: &[levada_wire::messages::streams_group_heartbeat_response::TaskIds]| {
            let ids = tasks.iter().map(|one| {
                let mut ids = TaskIds::default();
                (ids.subtopology_id, ids.partitions) = (one.subtopology_id.clone(), one.partitions.clone());
                ids
            });
            Some(ids.collect())
        };
        if let Some(tasks) = &response.active_tasks {
            request.active_tasks = owned(tasks);
        }
        if let Some(tasks) = &response.standby_tasks {
            request.standby_tasks = owned(tasks);
        }
    }
}

#[test]
fn commands_show_and_change_streams_groups() {
    let mut node = Node::new()
        .option("node.id", "1")
        .option("group.streams.initial.rebalance.delay.ms", "0")
        .option("group.streams.min.assignment.interval.ms", "0")
        .option("group.streams.assignment.interval.ms", "0");
    node.start();
    node.levada("topic create lines --partitions 2").run();
    Tool::python("fill.py").args([&node.bootstrap(), "lines", "1", "0", "10"]).run();
    node.levada(&format!("config set group {GROUP} streams.num.standby.replicas=1")).run();
    // Creates the topic of the coordinators.
    let (code, _) = node.levada(&format!("group describe {GROUP}")).outcome();
    assert_eq!(code, Some(1));
    let mut client =
        Connection::connect(&node.bootstrap(), &ConnectionOptions::default()).expect("the broker answers");
    let mut members = ["m1", "m2"].map(Member::new);
    // The second member joins when the first one has all tasks.
    await_some("tasks of a member", LIMIT, || {
        members[0].beat(&mut client);
        members[0].request.active_tasks.as_ref().is_some_and(|tasks| tasks.len() == 2).then_some(())
    });
    await_some("each task with a standby task", LIMIT, || {
        members.iter_mut().for_each(|member| member.beat(&mut client));
        let (code, _) = node.levada(&format!("group describe {GROUP}")).outcome();
        let group = (code == Some(0)).then(|| node.levada_json(&format!("group describe {GROUP}")))?;
        let tasks = group.pointer("/0/tasks")?.as_array()?;
        let standby = tasks.iter().filter(|one| one["standby"].as_array().is_some_and(|ids| ids.len() == 1));
        (tasks.len() == 4 && standby.count() == 2 && group[0]["state"] == "Stable").then_some(())
    });
    let group = node.levada_json(&format!("group describe {GROUP}"));
    let member = &group[0]["members"][0];
    assert_eq!(member["process_id"], json!(format!("process-of-{}", member["id"].as_str().expect("an id"))));
    assert_eq!(member["active"].as_array().map(Vec::len), Some(2), "{member}");
    transcript::replay_shell(&node, "streams-commands", &[]);
    node.assert_running("after the commands");
    node.stop();
}

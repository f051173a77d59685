//! Leaders that a test moves from broker to broker.

use super::{Cluster, LIMIT, Tools};
use crate::await_some;

impl Cluster {
    /// Has another broker lead each partition of topics that have this number of partitions, and
    /// replicas at all brokers.
    pub fn move_leaders(&self, tools: &mut Tools, topics: &[&str], partitions: usize, turn: usize) {
        let brokers = self.brokers();
        let mut moves = Vec::new();
        for (topic, index) in topics.iter().flat_map(|topic| (0..partitions).map(move |index| (topic, index)))
        {
            let mut replicas: Vec<String> = brokers.iter().map(i32::to_string).collect();
            replicas.rotate_left((turn + index) % brokers.len());
            let replicas = replicas.join(",");
            moves.push(format!(r#"{{"topic":"{topic}","partition":{index},"replicas":[{replicas}]}}"#));
        }
        self.reassign(tools, &moves);
        await_some("the preferred leaders", LIMIT, || {
            tools.outcome("LeaderElectionCommand --election-type preferred --all-topic-partitions");
            let described = tools.run("TopicCommand --describe");
            let lines: Vec<&str> = described.lines().filter(|line| line.contains("Leader: ")).collect();
            (!lines.is_empty() && lines.iter().all(|line| is_led_by_the_first(line))).then_some(())
        });
    }

    /// Has running brokers other than this one lead the partitions of a topic, which have replicas
    /// at all brokers.
    pub fn lead_elsewhere(&self, tools: &mut Tools, (topic, partitions): (&str, u32), broker: i32) {
        let mut brokers = self.brokers();
        brokers.sort_by_key(|id| (*id == broker, !self.node(*id).is_running()));
        let replicas = brokers.iter().map(i32::to_string).collect::<Vec<_>>().join(",");
        let moves = (0..partitions)
            .map(|index| format!(r#"{{"topic":"{topic}","partition":{index},"replicas":[{replicas}]}}"#));
        self.reassign(tools, &moves.collect::<Vec<_>>());
        for index in 0..partitions {
            let line = format!(
                "LeaderElectionCommand --election-type preferred --topic {topic} --partition {index}"
            );
            tools.outcome(&line);
        }
    }

    /// Has partitions get the replicas of these entries of a plan, in JSON.
    pub fn reassign(&self, tools: &mut Tools, moves: &[String]) {
        let plan = self.node(super::CONTROLLER).scratch().join("plan.json");
        let text = format!(r#"{{"version":1,"partitions":[{}]}}"#, moves.join(","));
        std::fs::write(&plan, text).expect("a file");
        let plan = plan.display();
        tools.run(&format!("ReassignPartitionsCommand --reassignment-json-file {plan} --execute"));
    }

    /// Waits until each partition has all of its replicas in sync.
    pub fn await_in_sync(&self, tools: &mut Tools) {
        await_some("all replicas in sync", LIMIT, || {
            let under = tools.run("TopicCommand --describe --under-replicated-partitions");
            (!under.contains("Partition: ")).then_some(())
        });
    }
}

/// True of a line of `kafka-topics --describe` whose leader is the first replica.
fn is_led_by_the_first(line: &str) -> bool {
    let field =
        |name: &str| line.split_once(name).map(|(_, rest)| rest.split(['\t', ',']).next().unwrap_or(""));
    field("Leader: ") == field("Replicas: ")
}

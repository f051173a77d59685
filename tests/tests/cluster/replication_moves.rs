//! Replicas that move between brokers of a real Kafka and of Levada, with throttles and without,
//! leaders that are elected uncleanly, and consumers that read from the replica in their rack.
//! From scale 10 on, a topic with a gigabyte for each unit of the scale also moves there and back,
//! and needs twice the disk space.
//!
//! Suite: long; 66 s; needs java
//! Soak: scale 20, filter large

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use levada_testing::{scale, scaled};
use levada_tests::cluster::{CONTROLLER, Cluster, Discovery, KAFKA, LEVADA, LIMIT, Shape, Tools};
use levada_tests::node::Kind;
use levada_tests::{Tool, await_some, replicas};

/// Brokers: one of a real Kafka, two under test. The first of those has a rack of its own.
const OTHER: i32 = LEVADA + 1;

/// `segment.bytes` of a topic.
const SEGMENT: u32 = 1 << 20;

/// Throttle in bytes per second.
const RATE: u64 = 2_000_000;

/// Bytes of one response of a leader: `replica.fetch.max.bytes`, and what a batch may exceed it by.
const ANSWER: f64 = 1_100_000.0;

/// Throttle of a large topic in bytes per second.
const LARGE_RATE: u64 = 50_000_000;

/// Scale from which the large topic moves: with fewer gigabytes the time of a move does not depend
/// on the throttle alone.
const SCALE_LARGE: f64 = 10.0;

struct Stage {
    cluster: Cluster,
    tools: Tools,
}

#[test]
fn levada_and_kafka_replicas_replace_each_other() {
    let mut stage = Stage::set();
    println!("---- reassignment");
    stage.a_partition_moves_to_levada_and_back();
    println!("---- throttled follower");
    stage.a_throttled_move_keeps_to_the_rate("follower", [KAFKA, LEVADA]);
    println!("---- throttled leader");
    stage.a_throttled_move_keeps_to_the_rate("leader", [LEVADA, KAFKA]);
    println!("---- throttle of kafka-reassign-partitions");
    stage.the_throttle_of_a_reassignment_is_set_and_removed([LEVADA, OTHER]);
    println!("---- rack");
    stage.a_consumer_reads_from_the_replica_in_its_rack();
    println!("---- unclean election of Kafka's replica");
    stage.an_unclean_leader_cuts_the_others([LEVADA, KAFKA]);
    println!("---- unclean election of Levada's replica");
    stage.an_unclean_leader_cuts_the_others([KAFKA, LEVADA]);
    stage.cluster.assert_no_errors();
}

/// The time of each move, from the command to the replica in sync, keeps to the throttle within a
/// tenth. A follower of Kafka is slower: a move between two brokers of Kafka takes 1.19 of the
/// time.
#[test]
fn large_topic_moves_at_the_throttled_rate() {
    if scale() < SCALE_LARGE {
        return;
    }
    let gigabytes: usize = scaled(1);
    let mut stage = Stage::set();
    stage.create("large", &[KAFKA], 1 << 28);
    stage.fill_large("large", gigabytes * 100_000);
    let checksum = stage.checksum(KAFKA, "large");
    let bytes = replicas::length(&stage.cluster.node(KAFKA).data().join("large-0"));
    let expected = Duration::from_secs(bytes / LARGE_RATE);
    for (to, set, most) in [(LEVADA, &[LEVADA][..], 1.1), (KAFKA, &[KAFKA], 1.25)] {
        let plan = stage.plan("large", set);
        let start = Instant::now();
        stage.tools.run(&format!("ReassignPartitionsCommand {plan} --execute --throttle {LARGE_RATE}"));
        stage.await_replicas_for("large", set, 2 * expected + LIMIT);
        let took = start.elapsed();
        println!("{bytes} bytes moved to broker {to} in {took:?}, {expected:?} at the throttle");
        assert!(took > expected.mul_f64(0.9) && took < expected.mul_f64(most), "{took:?}, not {expected:?}");
        stage.await_cleared(&plan);
        stage.await_moved("large", set);
    }
    assert_eq!(stage.checksum(KAFKA, "large"), checksum);
    stage.cluster.assert_no_errors();
}

impl Stage {
    fn set() -> Self {
        let shape = Shape { controllers: 1, kafka: 1, levada: 2, discovery: Discovery::BootstrapServers };
        let mut cluster = Cluster::new(shape)
            .member_option(KAFKA, "broker.rack", "here")
            .member_option(LEVADA, "broker.rack", "there")
            .member_option(OTHER, "broker.rack", "elsewhere");
        for role in [CONTROLLER, KAFKA, LEVADA] {
            cluster = cluster.option(role, "broker.session.timeout.ms", "4000");
        }
        let selector = "org.apache.kafka.common.replica.RackAwareReplicaSelector";
        for role in [KAFKA, LEVADA] {
            cluster = cluster.option(role, "replica.selector.class", selector);
        }
        cluster.start();
        let tools = cluster.tools_of_any();
        Self { cluster, tools }
    }

    fn create(&mut self, topic: &str, replicas: &[i32], segment_bytes: u32) {
        let ids: Vec<String> = replicas.iter().map(i32::to_string).collect();
        let configs = format!("--config segment.bytes={segment_bytes} --config min.insync.replicas=1");
        let assignment = ids.join(":");
        self.tools.run(&format!(
            "TopicCommand --create --topic {topic} --replica-assignment {assignment} {configs}"
        ));
        self.await_replicas(topic, replicas);
    }

    /// Waits until these are the replicas of the topic's partition, and all of them are in sync.
    fn await_replicas(&mut self, topic: &str, replicas: &[i32]) {
        self.await_replicas_for(topic, replicas, LIMIT);
    }

    fn await_replicas_for(&mut self, topic: &str, replicas: &[i32], limit: Duration) {
        let mut expected = replicas.to_vec();
        expected.sort_unstable();
        await_some(&format!("replicas {replicas:?} of {topic} in sync"), limit, || {
            let (code, described) = self.tools.outcome(&format!("TopicCommand --describe --topic {topic}"));
            let ids = |name: &str| {
                let list = described.split_once(&format!("\t{name}: "))?.1.split(['\t', '\n']).next()?;
                let mut ids: Vec<i32> = list.split(',').filter_map(|id| id.parse().ok()).collect();
                ids.sort_unstable();
                Some(ids)
            };
            (code == 0 && ids("Replicas")? == expected && ids("Isr")? == expected).then_some(())
        });
    }

    /// Produces this number of records of 1 KB.
    fn fill(&mut self, topic: &str, records: usize, acks: &str) {
        self.fill_with(topic, (records, 1000), &format!("acks={acks} batch.size=8192"));
    }

    /// Produces this number of records of 10 KB.
    fn fill_large(&mut self, topic: &str, records: usize) {
        self.fill_with(topic, (records, 10_000), "acks=1 batch.size=262144 linger.ms=20");
    }

    fn fill_with(&mut self, topic: &str, (records, size): (usize, usize), properties: &str) {
        let sizes = format!("--num-records {records} --record-size {size} --throughput -1");
        let bootstrap = self.cluster.bootstrap();
        let properties = format!("{properties} bootstrap.servers={bootstrap}");
        let said = self
            .tools
            .run(&format!("ProducerPerformance --topic {topic} {sizes} --producer-props {properties}"));
        assert!(said.contains(&format!("{records} records sent")), "{said}");
    }

    fn a_partition_moves_to_levada_and_back(&mut self) {
        self.create("moved", &[KAFKA], SEGMENT);
        self.fill("moved", 20_000, "all");
        let mut logs = BTreeMap::new();
        for replicas in
            [&[KAFKA, LEVADA][..], &[LEVADA], &[LEVADA, OTHER], &[OTHER], &[OTHER, KAFKA], &[KAFKA]]
        {
            self.reassign("moved", replicas);
            for id in replicas {
                logs.insert(*id, replicas::batches(&self.cluster.node(*id).data().join("moved-0")));
            }
            self.fill("moved", 1_000, "all");
        }
        let last = replicas::batches(&self.cluster.node(KAFKA).data().join("moved-0"));
        assert_eq!(last.last().map(|batch| batch.last), Some(25_999));
        for (id, log) in logs {
            assert!(!log.is_empty() && last.starts_with(&log), "broker {id}");
        }
    }

    /// Writes the plan that gives the topic's partition these replicas; the option that names it.
    fn plan(&self, topic: &str, replicas: &[i32]) -> String {
        let ids: Vec<String> = replicas.iter().map(i32::to_string).collect();
        let partition = format!("{{\"topic\":\"{topic}\",\"partition\":0,\"replicas\":[{}]}}", ids.join(","));
        let plan = self.cluster.node(KAFKA).scratch().join("plan.json");
        fs::write(&plan, format!("{{\"version\":1,\"partitions\":[{partition}]}}")).expect("a file");
        format!("--reassignment-json-file {}", plan.display())
    }

    /// Has these replicas, and returns when the others are gone.
    fn reassign(&mut self, topic: &str, replicas: &[i32]) {
        let plan = self.plan(topic, replicas);
        self.tools.run(&format!("ReassignPartitionsCommand {plan} --execute"));
        self.await_moved(topic, replicas);
    }

    /// Waits until these are the replicas, and the directories of the others are gone.
    fn await_moved(&mut self, topic: &str, replicas: &[i32]) {
        self.await_replicas(topic, replicas);
        for id in self.cluster.brokers().into_iter().filter(|id| !replicas.contains(id)) {
            let directory = self.cluster.node(id).data().join(format!("{topic}-0"));
            await_some(&format!("{} is deleted", directory.display()), LIMIT, || {
                (!directory.exists()).then_some(())
            });
        }
    }

    /// The throttle of one side, set by hand, so that the other broker does not limit the rate. The
    /// broker under test is on this side. As the leader it sends to its follower by zero copy.
    fn a_throttled_move_keeps_to_the_rate(&mut self, side: &str, [from, to]: [i32; 2]) {
        let topic = format!("throttled-{side}");
        self.create(&topic, &[from], SEGMENT);
        self.fill(&topic, 12_000, "all");
        let id = if side == "leader" { from } else { to };
        let rate = format!("{side}.replication.throttled.rate={RATE}");
        let replicas = format!("{side}.replication.throttled.replicas=[0:{id}]");
        let alter = "ConfigCommand --alter --add-config";
        self.tools.run(&format!("{alter} {rate} --entity-type brokers --entity-name {id}"));
        self.tools.run(&format!("{alter} {replicas} --entity-type topics --entity-name {topic}"));
        self.await_config(id, &format!("{side}.replication.throttled.rate"), &RATE.to_string());
        let (before, uncopied) = (self.throttled(id, side), self.uncopied(from));
        let plan = self.plan(&topic, &[to]);
        self.tools.run(&format!("ReassignPartitionsCommand {plan} --execute"));
        self.assert_rate((id, side), before, 12e6);
        self.await_moved(&topic, &[to]);
        if let (Some(before), Some(after)) = (uncopied, self.uncopied(from)) {
            assert!(after - before >= 12e6, "{} bytes left broker {from} by zero copy", after - before);
        }
        let delete = format!("--alter --delete-config {side}.replication.throttled.rate");
        self.tools.run(&format!("ConfigCommand {delete} --entity-type brokers --entity-name {id}"));
    }

    /// `--throttle` sets the throttles of both sides, and `--verify` removes them.
    fn the_throttle_of_a_reassignment_is_set_and_removed(&mut self, [from, to]: [i32; 2]) {
        self.create("reassigned", &[from], SEGMENT);
        self.fill("reassigned", 12_000, "all");
        let plan = self.plan("reassigned", &[to]);
        let before = self.throttled(to, "follower");
        let said = self.tools.run(&format!("ReassignPartitionsCommand {plan} --execute --throttle {RATE}"));
        assert!(said.contains("The inter-broker throttle limit was set to"), "{said}");
        self.assert_rate((to, "follower"), before, 12e6);
        self.await_replicas("reassigned", &[to]);
        self.await_cleared(&plan);
        for entity in ["topics --entity-name reassigned", &format!("brokers --entity-name {to}")] {
            // The broker that answers may apply the change a moment later.
            await_some(&format!("{entity} without throttles"), LIMIT, || {
                let left = self.tools.run(&format!("ConfigCommand --describe --entity-type {entity}"));
                (!left.contains("throttled")).then_some(())
            });
        }
    }

    /// Has the tool find the reassignment completed, and remove its throttles.
    fn await_cleared(&mut self, plan: &str) {
        // The tool may ask a broker that has not applied the last change yet.
        await_some("the reassignment is completed", LIMIT, || {
            let said = self.tools.run(&format!("ReassignPartitionsCommand {plan} --verify"));
            (said.contains("is completed") && said.contains("Clearing topic-level throttles")).then_some(())
        });
    }

    /// Checksum of all batches of the topic's partition at a broker of a real Kafka, which reserves
    /// no space after them.
    fn checksum(&self, id: i32, topic: &str) -> String {
        let directory = self.cluster.node(id).data().join(format!("{topic}-0"));
        let segments = replicas::segments(&directory);
        let mut sum = Command::new("sh");
        sum.args(["-c", "cat \"$@\" | b2sum", "cat"]).args(segments);
        let output = sum.output().expect("b2sum");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).expect("a checksum")
    }

    /// Waits until all bytes have moved, at the rate: no more in each second than it allows, and
    /// little less. A second is the least time over which the rate is measured, and the response
    /// that exceeds it arrives whole.
    fn assert_rate(&self, (id, side): (i32, &str), before: Option<f64>, all: f64) {
        let Some(before) = before else { return };
        let mut first = None;
        let (moved, seconds) = await_some("the throttled bytes", LIMIT, || {
            let moved = self.throttled(id, side)? - before;
            let (begin, start) =
                (moved > 0.0).then(|| *first.get_or_insert_with(|| (moved, Instant::now())))?;
            (moved >= all).then(|| (moved - begin, start.elapsed().as_secs_f64()))
        });
        let (least, most) =
            (0.9 * RATE as f64 * (seconds - 1.0), RATE as f64 * (seconds + 1.0) + 2.0 * ANSWER);
        println!("{moved} bytes in {seconds} s, {least} to {most}");
        assert!(moved >= least && moved <= most, "{moved} bytes in {seconds} s, {least} to {most}");
    }

    /// Bytes of throttled replicas; none of a Kafka.
    fn throttled(&self, id: i32, side: &str) -> Option<f64> {
        let node = self.cluster.node(id);
        let name = format!("levada_replication_throttled_bytes_total{{side=\"{side}\"}}");
        let of_side = |metrics: Vec<(String, f64)>| metrics.into_iter().find(|(own, _)| *own == name);
        (node.kind() == Kind::Levada).then(|| of_side(node.metrics()).expect("the counter").1)
    }

    /// Bytes that have left a broker without a copy in its memory; none of a Kafka.
    fn uncopied(&self, id: i32) -> Option<f64> {
        let node = self.cluster.node(id);
        let paths =
            ["splice", "sendfile"].map(|path| format!("levada_transfer_bytes_total{{path=\"{path}\"}}"));
        let sent = |(name, _): &(String, f64)| paths.contains(name);
        (node.kind() == Kind::Levada)
            .then(|| node.metrics().into_iter().filter(sent).map(|(_, value)| value).sum())
    }

    /// Waits until a broker describes itself with this value.
    fn await_config(&mut self, id: i32, key: &str, value: &str) {
        await_some(&format!("{key} of {id}"), LIMIT, || {
            let described = self
                .tools
                .run(&format!("ConfigCommand --describe --all --entity-type brokers --entity-name {id}"));
            described.contains(&format!("{key}={value} ")).then_some(())
        });
    }

    fn a_consumer_reads_from_the_replica_in_its_rack(&mut self) {
        for (topic, replicas, rack) in
            [("read-there", [KAFKA, LEVADA], "there"), ("read-here", [LEVADA, KAFKA], "here")]
        {
            self.create(topic, &replicas, SEGMENT);
            self.fill(topic, 5_000, "all");
            let before = self.fetched(LEVADA);
            let uncopied = self.uncopied(LEVADA);
            let mut consumer = Tool::java("org.apache.kafka.tools.consumer.ConsoleConsumer");
            consumer.args(["--bootstrap-server", &self.cluster.bootstrap(), "--topic", topic]);
            consumer.args(["--from-beginning", "--max-messages", "5000", "--timeout-ms", "60000"]);
            consumer.args(["--consumer-property", &format!("client.rack={rack}")]);
            // Each answer has a small part of the records, so that the leader can send few of them,
            // and is large enough for zero copy.
            let said = consumer.args(["--consumer-property", "max.partition.fetch.bytes=262144"]).run();
            assert!(said.stderr.contains("Processed a total of 5000 messages"), "{}", said.stderr);
            if let (Some(before), Some(after)) = (before, self.fetched(LEVADA)) {
                let (sent, follows) = (after - before, replicas[1] == LEVADA);
                assert!(if follows { sent > 4e6 } else { sent < 1e6 }, "{topic}: Levada sent {sent} bytes");
                let uncopied = self.uncopied(LEVADA).expect("a Levada") - uncopied.expect("a Levada");
                assert!(!follows || uncopied > 4e6, "{topic}: {uncopied} bytes left by zero copy");
            }
        }
    }

    /// Bytes of Fetch answers to consumers; none of a Kafka, which has no such figure on its HTTP
    /// address.
    fn fetched(&self, id: i32) -> Option<f64> {
        let node = self.cluster.node(id);
        let sent = |(name, _): &(String, f64)| name.starts_with("levada_fetched_bytes_total");
        (node.kind() == Kind::Levada)
            .then(|| node.metrics().into_iter().filter(sent).map(|(_, value)| value).sum())
    }

    /// The first replica has records that the second one has not got when the first one is lost.
    /// The second one leads by an unclean election, and the first one goes by it.
    fn an_unclean_leader_cuts_the_others(&mut self, [ahead, behind]: [i32; 2]) {
        let topic = format!("unclean-{behind}");
        self.create(&topic, &[ahead, behind], SEGMENT);
        self.fill(&topic, 2_000, "all");
        self.cluster.node_mut(behind).kill();
        self.await_in_sync(&topic, &[ahead]);
        self.fill(&topic, 3_000, "all");
        self.cluster.node_mut(ahead).kill();
        self.cluster.node_mut(behind).start();
        // Before the controllers have fenced the lost leader, no election is needed.
        let left: Vec<i32> = self.cluster.brokers().into_iter().filter(|id| *id != ahead).collect();
        self.cluster.await_brokers(&left);
        let partition = format!("--topic {topic} --partition 0");
        await_some("an unclean election", LIMIT, || {
            let (code, _) =
                self.tools.outcome(&format!("LeaderElectionCommand --election-type unclean {partition}"));
            (code == 0).then_some(())
        });
        self.fill(&topic, 1_000, "1");
        self.cluster.node_mut(ahead).start();
        self.await_replicas(&topic, &[ahead, behind]);
        let logs = [ahead, behind]
            .map(|id| replicas::batches(&self.cluster.node(id).data().join(format!("{topic}-0"))));
        assert!(logs[0] == logs[1], "{} and {} batches", logs[0].len(), logs[1].len());
        assert_eq!(
            logs[0].last().map(|batch| batch.last),
            Some(2_999),
            "2 000 records and 1 000 after the election"
        );
    }

    fn await_in_sync(&mut self, topic: &str, ids: &[i32]) {
        let expected: Vec<String> = ids.iter().map(i32::to_string).collect();
        await_some(&format!("{ids:?} in sync"), LIMIT, || {
            let (_, described) = self.tools.outcome(&format!("TopicCommand --describe --topic {topic}"));
            let list = described.split_once("\tIsr: ")?.1.split(['\t', '\n']).next()?;
            (list == expected.join(",")).then_some(())
        });
    }
}

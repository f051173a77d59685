//! Streams groups in a cluster of a real Kafka and of Levada, with applications of the next Kafka:
//! one counts words, one joins payments with orders and sums them by window. Each has three
//! instances, and exactly-once processing. The leaders of all topics move, those of
//! `__consumer_offsets`, of `__transaction_state` and of the groups' own topics included, and
//! brokers and instances are killed. In the end each word and each payment must have counted once,
//! the groups have no lag, and the replicas of `__consumer_offsets` are equal.
//!
//! A coordinator of Kafka tells a member about its tasks once. If that response is lost, or comes
//! later than `offsets.commit.timeout.ms` because a replica in sync was killed, no thread ever runs
//! the tasks. The suite moves such a group to a coordinator of Levada, to which the members report
//! what they have, and prints that.
//!
//! Each broker and one instance of each application is killed once. A long run has faults in an
//! order that follows from the seed.
//!
//! Suite: long; 90 s; needs java, newer-kafka, kcat, python; share streams
//! Soak: lasts 30 s

use std::time::Duration;

use levada_testing::{long_run, seed};
use levada_tests::cluster::{CONTROLLER, KAFKA, LEVADA, LIMIT, Tools};
use levada_tests::streams::{self, Applications, Untold, described};
use levada_tests::{Cluster, await_some, internal, words};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

const PARTITIONS: u32 = 3;
/// Topics of the groups and of transactions.
const INTERNAL: [&str; 2] = ["__consumer_offsets", "__transaction_state"];
/// Topics that the applications have the coordinators create.
const CREATED: [&str; 6] = [
    "word-count-words-repartition",
    "word-count-totals-changelog",
    "paid-orders-regions-repartition",
    "paid-orders-sums-changelog",
    "paid-orders-paid-this-join-store-changelog",
    "paid-orders-paid-other-join-store-changelog",
];
/// Time without results after which the suite looks for tasks that no thread knows.
const PATIENCE: Duration = Duration::from_secs(60);
/// Duration of a long run for each unit of its scale.
const LONG_RUN: Duration = Duration::from_secs(30);

struct Stage {
    // The first to be dropped: its report asks the brokers.
    applications: Applications,
    cluster: Cluster,
    tools: Tools,
}

#[test]
fn streams_results_are_exact_under_any_coordinator() {
    let time = long_run(LONG_RUN);
    let seed = seed();
    let mut stage = Stage::set(!seed);
    let (brokers, instances) = (stage.cluster.brokers(), stage.applications.instances());
    stage.progress();
    match time {
        None => {
            for (turn, broker) in brokers.iter().enumerate() {
                stage.move_leaders(turn + 1);
                stage.kill(*broker);
            }
            stage.replace(0);
            stage.replace(instances - 1);
        }
        Some(time) => {
            let mut plan = StdRng::seed_from_u64(seed);
            while stage.applications.running() < time {
                match plan.random_range(0..10) {
                    0..4 => stage.move_leaders(plan.random_range(0..brokers.len())),
                    4..7 => stage.kill(*brokers.choose(&mut plan).expect("a broker")),
                    _ => stage.replace(plan.random_range(0..instances)),
                }
            }
        }
    }
    stage.judge();
}

impl Stage {
    fn set(seed: u64) -> Self {
        let mut cluster = cluster();
        cluster.start();
        let mut tools = cluster.tools_of_any();
        for topic in topics() {
            tools.run(&format!(
                "TopicCommand --create --topic {topic} --partitions {PARTITIONS} --replication-factor 3"
            ));
        }
        // Transactions of a killed instance end after this time, and a broker's absence is shorter.
        let settings = ["producer.transaction.timeout.ms=10000", "replication.factor=3"];
        let scratch = cluster.node(CONTROLLER).scratch();
        let applications = Applications::start(&cluster.bootstrap(), scratch, &settings, (seed, LIMIT));
        Self { applications, cluster, tools }
    }

    /// Writes more, and waits until everything written so far has its result.
    fn progress(&mut self) {
        self.applications.write();
        if !self.applications.have_results_within(PATIENCE) {
            for untold in self.applications.untold_tasks() {
                self.tell_again(&untold);
            }
        }
        self.applications.await_results();
    }

    fn survive(&mut self, fault: &str) {
        self.progress();
        self.applications.survived(fault);
    }

    /// Has another broker than Kafka's coordinate a group whose members do not know their tasks.
    fn tell_again(&mut self, untold: &Untold) {
        println!("{} s: no thread knows {untold:?}", self.applications.running().as_secs());
        if untold.coordinator != i64::from(KAFKA) {
            return;
        }
        let (bootstrap, topic) = (self.cluster.bootstrap(), INTERNAL[0]);
        await_some("a coordinator of Levada", LIMIT, || {
            self.cluster.lead_elsewhere(&mut self.tools, (topic, PARTITIONS), KAFKA);
            let coordinator = described(&bootstrap, untold.group)["coordinator"].as_i64()?;
            (coordinator != i64::from(KAFKA)).then_some(())
        });
    }

    fn replace(&mut self, which: usize) {
        self.applications.replace(which);
        self.survive(&format!("instance {which} killed and replaced"));
    }

    fn move_leaders(&mut self, turn: usize) {
        let topics: Vec<&str> = topics().chain(INTERNAL).chain(CREATED).collect();
        self.applications.write();
        self.cluster.move_leaders(&mut self.tools, &topics, PARTITIONS as usize, turn);
        self.survive(&format!("leaders moved, turn {turn}"));
    }

    /// Kills a broker, and starts it again when the applications have made progress.
    fn kill(&mut self, id: i32) {
        self.applications.write();
        self.cluster.node_mut(id).kill();
        self.progress();
        self.cluster.node_mut(id).start();
        let all = self.cluster.brokers();
        self.cluster.await_brokers(&all);
        self.cluster.await_in_sync(&mut self.tools);
        self.survive(&format!("broker {id} killed and back"));
    }

    fn judge(mut self) {
        self.progress();
        self.applications.judge();
        let offsets = ("__consumer_offsets", "--offsets-decoder");
        internal::assert_equal_replicas(&self.cluster, &mut self.tools, offsets, PARTITIONS);
        self.cluster.assert_no_errors();
    }
}

/// Topics that the applications read and write.
fn topics() -> impl Iterator<Item = &'static str> {
    words::TOPICS.into_iter().chain(streams::TOPICS)
}

/// One controller, a broker of Kafka and two of Levada.
fn cluster() -> Cluster {
    let mut cluster = Cluster::of_both_kinds();
    let keys = [
        ("broker.session.timeout.ms", "4000"),
        ("min.insync.replicas", "2"),
        ("offsets.topic.replication.factor", "3"),
        ("transaction.state.log.replication.factor", "3"),
        ("transaction.state.log.min.isr", "2"),
        ("transaction.state.log.num.partitions", "3"),
        // A machine at work elsewhere delays heartbeats.
        ("group.streams.session.timeout.ms", "6000"),
        ("group.streams.heartbeat.interval.ms", "500"),
    ];
    let keys: Vec<(&str, &str)> = streams::OPTIONS.into_iter().chain(keys).collect();
    for first in [CONTROLLER, KAFKA, LEVADA] {
        for (key, value) in &keys {
            cluster = cluster.option(first, key, value);
        }
    }
    cluster
}

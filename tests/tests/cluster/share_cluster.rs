//! A share group in a cluster of a real Kafka and of Levada: members accept, release, renew and
//! hold records at random, while the leaders of their topic, of `__share_group_state` and of
//! `__consumer_offsets` move and brokers are killed. In the end each committed record must have
//! been accepted, none may have come again after that, the group has no lag, and the replicas of
//! the state are equal.
//!
//! Each broker is killed once. A long run has faults in an order that follows from the seed.
//!
//! Suite: long; 60 s; needs java; share queues
//! Soak: lasts 30 s

use std::path::PathBuf;
use std::time::{Duration, Instant};

use levada_testing::{long_run, seed};
use levada_tests::cluster::{CONTROLLER, Discovery, KAFKA, LEVADA, LIMIT, Shape, Tools};
use levada_tests::share::ledger::Journals;
use levada_tests::share::{self, Members, Workers};
use levada_tests::tool::Conversation;
use levada_tests::{Cluster, await_some, internal};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

const PARTITIONS: u32 = 3;
/// The topic of the group's state.
const STATE: &str = "__share_group_state";
/// Topics whose leaders move.
const TOPICS: [&str; 3] = [share::TOPIC, STATE, "__consumer_offsets"];
/// Processes with members, and members of each.
const PROCESSES: usize = 2;
const MEMBERS: usize = 3;
/// Number of records accepted before the next fault.
const PROGRESS_RECORDS: u64 = 50;
/// Duration of a long run for each unit of its scale.
const LONG_RUN: Duration = Duration::from_secs(30);

struct Stage {
    cluster: Cluster,
    tools: Tools,
    writer: Conversation,
    workers: Vec<Workers>,
}

#[test]
fn share_records_are_accepted_under_any_leader() {
    let time = long_run(LONG_RUN);
    let mut stage = Stage::set();
    let brokers = stage.cluster.brokers();
    stage.progress();
    match time {
        None => {
            for (turn, broker) in brokers.iter().enumerate() {
                stage.move_leaders(turn + 1);
                stage.kill(*broker);
            }
        }
        Some(time) => {
            let (start, mut plan) = (Instant::now(), StdRng::seed_from_u64(seed()));
            while start.elapsed() < time {
                stage.move_leaders(plan.random_range(0..brokers.len()));
                if plan.random_bool(0.3) {
                    stage.kill(*brokers.choose(&mut plan).expect("a broker"));
                }
            }
        }
    }
    stage.judge();
}

impl Stage {
    fn set() -> Self {
        let mut cluster = cluster();
        cluster.start();
        let mut tools = cluster.tools_of_any();
        tools.run(&format!(
            "TopicCommand --create --topic {} --partitions {PARTITIONS} --replication-factor 3 --config \
             min.insync.replicas=2",
            share::TOPIC
        ));
        let bootstrap = cluster.bootstrap();
        let mut members = Members::of(&bootstrap);
        members.run(&format!("config {} {}", share::GROUP, share::WORK_SETTINGS.join(" ")));
        let mut seeds = StdRng::seed_from_u64(!seed());
        let writer = share::writer(&bootstrap, PARTITIONS, seeds.random(), &journal(&cluster, "writer"));
        let workers = (0..PROCESSES).map(|number| {
            let journal = journal(&cluster, &format!("workers-{number}"));
            Workers::spawn(&bootstrap, MEMBERS, seeds.random(), &journal)
        });
        let workers = workers.collect();
        Self { cluster, tools, writer, workers }
    }

    fn accepted(&mut self) -> u64 {
        self.workers.iter_mut().map(Workers::accepted).sum()
    }

    /// Waits until further records have been accepted.
    fn progress(&mut self) {
        let before = self.accepted();
        await_some("accepted records", LIMIT, || {
            (self.accepted() >= before + PROGRESS_RECORDS).then_some(())
        });
    }

    fn move_leaders(&mut self, turn: usize) {
        self.cluster.move_leaders(&mut self.tools, &TOPICS, PARTITIONS as usize, turn);
        println!("leaders moved, turn {turn}, {} records accepted", self.accepted());
        self.progress();
    }

    /// Kills a broker, and starts it again when the others have made progress.
    fn kill(&mut self, id: i32) {
        self.cluster.node_mut(id).kill();
        self.progress();
        self.cluster.node_mut(id).start();
        let all = self.cluster.brokers();
        self.cluster.await_brokers(&all);
        self.cluster.await_in_sync(&mut self.tools);
        println!("broker {id} killed and back, {} records accepted", self.accepted());
        self.progress();
    }

    /// Ends all clients, and compares their journals.
    fn judge(mut self) {
        self.writer.finish(LIMIT);
        let tend = || self.workers.iter_mut().for_each(Workers::tend);
        share::await_no_lag(&mut self.tools, PARTITIONS, LIMIT, tend);
        for workers in std::mem::take(&mut self.workers) {
            workers.finish(LIMIT);
        }
        let mut members = Members::of(&self.cluster.bootstrap());
        members.run(&format!("open last {} {}", share::GROUP, share::TOPIC));
        members.assert_quiet("last");
        members.run(&format!("produce {} 0 last", share::TOPIC));
        assert_eq!(share::values(&members.await_poll("last")), ["last"]);
        members.run("close last");
        let mut journals = Journals::default();
        journals.add_writer(&journal(&self.cluster, "writer"));
        for number in 0..PROCESSES {
            journals.add_workers(&journal(&self.cluster, &format!("workers-{number}")));
        }
        journals.assert_sound(share::LIMIT_OF_WORK, share::MARGIN_US);
        let state = (STATE, "--share-group-state-decoder");
        internal::assert_equal_replicas(&self.cluster, &mut self.tools, state, PARTITIONS);
        self.cluster.assert_no_errors();
    }
}

fn journal(cluster: &Cluster, name: &str) -> PathBuf {
    cluster.node(CONTROLLER).scratch().join(name)
}

/// One controller, a broker of Kafka and two of Levada.
fn cluster() -> Cluster {
    let shape = Shape { controllers: 1, kafka: 1, levada: 2, discovery: Discovery::BootstrapServers };
    let mut cluster = Cluster::new(shape)
        .option(CONTROLLER, "broker.session.timeout.ms", "4000")
        .may_refuse_appends_of_moved_leaders()
        // Members whose session a killed broker had, and that do not know a moved leader yet.
        .may_log(["kafka.server.share.SharePartition", ""])
        // A leader that has moved may write states that the next one has read already.
        .may_log(["PersisterStateManager$WriteStateHandler: Unable to perform write state RPC", ""])
        .may_log(["ShareCoordinatorShard", "leader epoch is smaller than last recorded"]);
    let keys = [
        ("broker.session.timeout.ms", "4000"),
        ("min.insync.replicas", "2"),
        ("offsets.topic.replication.factor", "3"),
        ("share.coordinator.state.topic.replication.factor", "3"),
        ("share.coordinator.state.topic.min.isr", "2"),
        ("transaction.state.log.replication.factor", "3"),
        ("transaction.state.log.min.isr", "2"),
        ("transaction.state.log.num.partitions", "3"),
        ("transaction.abort.timed.out.transaction.cleanup.interval.ms", "500"),
    ];
    let keys: Vec<(&str, &str)> = share::OPTIONS.into_iter().chain(keys).collect();
    for first in [CONTROLLER, KAFKA, LEVADA] {
        for (key, value) in &keys {
            cluster = cluster.option(first, key, value);
        }
    }
    cluster
}

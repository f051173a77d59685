//! Partitions with three replicas, on brokers of a real Kafka and of Levada, while brokers are
//! killed, suspended and cut off from the network, and leaderships move: no acknowledged record is
//! lost, and in the end all replicas are the same, byte for byte.
//!
//! Each member has a separate network where the machine has network namespaces and the test runs as
//! root; that of the last broker is cut. Each test has each fault once, and one cut of the network.
//! In a long run each of them lasts for the time of the run, with faults in an order that follows
//! from the seed, under 50 MB/s. Retention then bounds the disk space, and a consumer compares the
//! records as they come.
//!
//! Suite: long; 132 s; needs java, python
//! Soak: lasts 30 s

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use levada_testing::{is_long, long_run, seed};
use levada_tests::cluster::{CONTROLLER, Cut, Discovery, KAFKA, LEVADA, LIMIT, Shape, Tools};
use levada_tests::tool::Conversation;
use levada_tests::{Cluster, Tool, await_some, journal, not_run, replicas};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

const TOPIC: &str = "replicated";
const PARTITIONS: i32 = 3;
/// Duration of a long run for each unit of its scale.
const LONG_RUN: Duration = Duration::from_secs(30);
/// Time in which a recovered broker is back in all sets of replicas in sync, in a long run.
const RECOVERY: Duration = Duration::from_secs(30);
/// Time without a fault after each fault of a long run. No replica may leave those in sync in it.
const CALM: Duration = Duration::from_secs(15);
/// Seconds for which a broker of a long run is suspended.
const SUSPENSIONS: [u64; 3] = [5, 12, 40];
/// The load of a long run: 5 000 values of 10 000 bytes a second, in the mean.
const HEAVY: [&str; 2] = ["5000", "20000"];
/// Options of the topic of a long run.
const RETAINED: &str = "--config segment.bytes=67108864 --config retention.bytes=1073741824 --config \
                        file.delete.delay.ms=1000";

#[derive(Clone, Copy, Debug)]
enum Fault {
    Killed(i32),
    /// Stopped (SIGSTOP) until the controllers have fenced it and this time has passed.
    Suspended(i32, Duration),
    Restarted(i32),
    /// The broker whose network is cut, until the controllers have fenced it.
    CutOff(Cut),
    /// The same broker loses part of its packets for some acknowledgements.
    Lossy,
}

/// Lost packets of a thousand while a network is lossy.
const LOSS: u16 = 50;
/// Number of waits for acknowledgements while a network is lossy.
const LOSSY_ROUNDS: usize = 5;

struct Stage {
    cluster: Cluster,
    /// The broker whose network is cut, if the members have separate ones.
    apart: Option<i32>,
    tools: Tools,
    load: Conversation,
    acknowledged: PathBuf,
    /// The consumer of a long run, and its journal.
    follower: Option<(Conversation, PathBuf)>,
}

/// A partition as a line of Kafka's tool describes it.
struct Partition {
    leader: Option<i32>,
    replicas: Vec<i32>,
}

impl Partition {
    fn of(line: &str) -> Self {
        let ids = |name: &str| -> Vec<i32> {
            let (_, rest) =
                line.split_once(&format!("\t{name}: ")).unwrap_or_else(|| panic!("{name}: {line}"));
            let ids = rest.split('\t').next().unwrap_or_default().split(',');
            ids.filter_map(|id| id.trim().parse().ok()).collect()
        };
        // Without a leader the tool writes "none".
        let leader = ids("Leader").first().copied();
        Self { leader, replicas: ids("Replicas") }
    }
}

#[test]
fn two_brokers_of_kafka_and_one_of_levada() {
    endure(2, 1, Cut::Inbound);
}

#[test]
fn three_brokers_of_levada() {
    endure(0, 3, Cut::Outbound);
}

/// Only a long run has time for a third cluster.
#[test]
fn one_broker_of_kafka_and_two_of_levada() {
    if is_long() {
        endure(1, 2, Cut::Both);
    }
}

/// Runs a cluster under faults; a short run has one cut of the network.
fn endure(kafka: i32, levada: i32, cut: Cut) {
    let mut stage =
        Stage::set(Shape { controllers: 1, kafka, levada, discovery: Discovery::BootstrapServers });
    let brokers = stage.cluster.brokers();
    let (first, last) = (brokers[0], brokers[brokers.len() - 1]);
    let other = [Fault::Restarted(first), Fault::Suspended(last, Duration::ZERO)];
    let short = brokers.iter().map(|id| Fault::Killed(*id)).chain(other);
    let on_network = |choice: i32| match choice {
        0 => Fault::CutOff(Cut::Both),
        1 => Fault::CutOff(Cut::Inbound),
        2 => Fault::CutOff(Cut::Outbound),
        _ => Fault::Lossy,
    };
    match long_run(LONG_RUN) {
        None => {
            let cut = stage.apart.map(|_| Fault::CutOff(cut));
            short.chain(cut).for_each(|fault| stage.bear(fault));
        }
        Some(time) => {
            let mut plan = StdRng::seed_from_u64(seed());
            let start = Instant::now();
            while start.elapsed() < time {
                let broker = brokers[plan.random_range(0..brokers.len())];
                let kinds = if stage.apart.is_some() { 6 } else { 4 };
                stage.bear(match plan.random_range(0..kinds) {
                    0..2 => Fault::Killed(broker),
                    2 => {
                        let seconds = SUSPENSIONS[plan.random_range(0..SUSPENSIONS.len())];
                        Fault::Suspended(broker, Duration::from_secs(seconds))
                    }
                    3 => Fault::Restarted(broker),
                    _ => on_network(plan.random_range(0..4)),
                });
                stage.stay_in_sync();
            }
        }
    }
    stage.judge();
}

impl Stage {
    /// A cluster with a topic of three replicas, and a producer that gets acknowledgements.
    fn set(shape: Shape) -> Self {
        let last = LEVADA + shape.levada - 1;
        let (mut cluster, apart) = match Cluster::with_networks(shape) {
            Ok(cluster) => (cluster, Some(last)),
            Err(reason) => {
                not_run(&format!("faults of the network: {reason}"));
                (Cluster::new(shape), None)
            }
        };
        cluster = cluster.may_refuse_appends_of_moved_leaders();
        let keys = [
            ("min.insync.replicas", "2"),
            ("default.replication.factor", "3"),
            ("offsets.topic.replication.factor", "3"),
            ("transaction.state.log.replication.factor", "3"),
            ("transaction.state.log.min.isr", "2"),
        ];
        // A short session: each fault lasts until it has ended.
        for role in [CONTROLLER, KAFKA, LEVADA] {
            cluster = cluster.option(role, "broker.session.timeout.ms", "4000");
        }
        for (first, (key, value)) in
            [KAFKA, LEVADA].into_iter().flat_map(|first| keys.map(|key| (first, key)))
        {
            cluster = cluster.option(first, key, value);
        }
        let is_long = is_long();
        if is_long {
            for role in [KAFKA, LEVADA] {
                cluster = cluster.option(role, "log.retention.check.interval.ms", "5000");
            }
        }
        cluster.start();
        let mut tools = cluster.tools_of_any();
        let partitions = format!("--partitions {PARTITIONS} --replication-factor 3");
        let size = if is_long { RETAINED } else { "--config segment.bytes=1048576" };
        let configs = format!("--config min.insync.replicas=2 {size}");
        tools.run(&format!("TopicCommand --create --topic {TOPIC} {partitions} {configs}"));
        let scratch = cluster.node(cluster.brokers()[0]).scratch();
        let acknowledged = scratch.join("acknowledged");
        let topic = [&cluster.bootstrap(), TOPIC, &PARTITIONS.to_string()];
        let mut load = Tool::python("load.py");
        load.args(topic).args([&acknowledged.display().to_string(), "idempotent"]);
        if is_long {
            load.args(HEAVY);
        }
        let mut load = load.spawn();
        progress(&mut load);
        let follower = is_long.then(|| {
            let found = scratch.join("found");
            let mut tool = Tool::python("journal.py");
            (tool.args(topic).args([&found.display().to_string()]).spawn(), found)
        });
        let mut stage = Self { cluster, apart, tools, load, acknowledged, follower };
        // Each fault hits a leader: each broker is the preferred replica of one partition.
        let preferred: BTreeSet<_> =
            stage.described().iter().map(|partition| partition.replicas[0]).collect();
        assert_eq!(preferred, BTreeSet::from_iter(stage.cluster.brokers()));
        stage.await_preferred_leaders();
        stage
    }

    /// Makes a fault, waits for acknowledgements during the fault, ends it, and waits until all
    /// replicas are in sync. Then it has the preferred replicas lead again.
    fn bear(&mut self, fault: Fault) {
        let start = Instant::now();
        let all = self.cluster.brokers();
        let without = |id: i32| all.iter().copied().filter(|other| *other != id).collect::<Vec<_>>();
        match fault {
            Fault::Killed(id) => {
                self.cluster.node_mut(id).kill();
                progress(&mut self.load);
                self.cluster.node_mut(id).start();
            }
            Fault::Restarted(id) => {
                self.cluster.node_mut(id).stop();
                progress(&mut self.load);
                self.cluster.node_mut(id).start();
            }
            Fault::Suspended(id, time) => {
                self.cluster.node(id).suspend();
                self.cluster.await_brokers(&without(id));
                progress(&mut self.load);
                while start.elapsed() < time {
                    progress(&mut self.load);
                }
                self.cluster.node(id).resume();
            }
            Fault::CutOff(cut) => {
                let apart = self.apart.expect("a broker apart");
                self.cluster.networks().cut(apart, cut);
                self.cluster.await_brokers(&without(apart));
                progress(&mut self.load);
                self.cluster.networks().heal(apart);
            }
            Fault::Lossy => {
                let apart = self.apart.expect("a broker apart");
                self.cluster.networks().cut(apart, Cut::Loss { permille: LOSS });
                (0..LOSSY_ROUNDS).for_each(|_| progress(&mut self.load));
                self.cluster.networks().heal(apart);
            }
        }
        self.cluster.await_brokers(&all);
        let recovered = Instant::now();
        self.await_all_in_sync();
        let took = recovered.elapsed();
        println!("{fault:?}: {:?} in all, all replicas in sync after {took:?}", start.elapsed());
        let is_long = self.follower.is_some();
        assert!(!is_long || took < RECOVERY, "{fault:?}: all replicas in sync after {took:?}");
        self.await_preferred_leaders();
        progress(&mut self.load);
    }

    fn await_all_in_sync(&self) {
        await_some("all replicas in sync", LIMIT, || self.are_all_in_sync().then_some(()));
    }

    fn are_all_in_sync(&self) -> bool {
        self.cluster.are_in_sync(TOPIC, 3)
    }

    /// Has all replicas stay in sync for the calm after a fault, while the consumer reads.
    fn stay_in_sync(&mut self) {
        let start = Instant::now();
        while start.elapsed() < CALM {
            assert!(self.are_all_in_sync(), "a replica has left those in sync without a fault");
            progress(&mut self.load);
        }
        let ended = self.follower.as_mut().is_some_and(|(follower, _)| follower.has_ended());
        assert!(!ended, "the consumer has ended");
    }

    /// Elects the preferred replicas until all of them lead.
    fn await_preferred_leaders(&mut self) {
        await_some("the preferred replicas lead", LIMIT, || {
            // The command fails if the replicas lead already.
            self.tools.outcome("LeaderElectionCommand --election-type preferred --all-topic-partitions");
            self.all_partitions(|partition| partition.leader == Some(partition.replicas[0])).then_some(())
        });
    }

    fn all_partitions(&mut self, holds: impl Fn(&Partition) -> bool) -> bool {
        let partitions = self.described();
        partitions.len() == PARTITIONS as usize && partitions.iter().all(holds)
    }

    /// The topic's partitions, as Kafka's tool describes them.
    fn described(&mut self) -> Vec<Partition> {
        let said = self.tools.run(&format!("TopicCommand --describe --topic {TOPIC}"));
        said.lines().filter(|line| line.contains("\tPartition: ")).map(Partition::of).collect()
    }

    /// Ends the load, and compares the acknowledgements with the log, and the replicas with each
    /// other.
    fn judge(mut self) {
        self.load.say("stop");
        self.load.finish(LIMIT);
        let mut complaints = match self.follower {
            None => journal::compare(&self.cluster.bootstrap(), (TOPIC, PARTITIONS), &self.acknowledged),
            Some((mut follower, found)) => {
                follower.say("stop");
                follower.finish(LIMIT);
                let (acknowledged, found) = (journal::read(&self.acknowledged), journal::read(&found));
                println!("{} acknowledged, {} read", acknowledged.len(), found.len());
                journal::complaints(&acknowledged, &found)
            }
        };
        for id in self.cluster.brokers() {
            self.cluster.node_mut(id).stop();
        }
        for partition in 0..PARTITIONS {
            let directory = |id: i32| (id, self.cluster.node(id).data().join(format!("{TOPIC}-{partition}")));
            let directories: Vec<_> = self.cluster.brokers().into_iter().map(directory).collect();
            let paths: Vec<_> = directories.iter().map(|(id, path)| (*id, path.as_path())).collect();
            let start = if is_long() { replicas::common_start(&paths) } else { 0 };
            let differences = replicas::differences_since(start, &paths).into_iter();
            complaints.extend(differences.map(|difference| format!("partition {partition}, {difference}")));
        }
        assert!(complaints.is_empty(), "{complaints:#?}");
        self.cluster.assert_no_errors();
    }
}

/// Waits until the load has got acknowledgements from now on.
fn progress(load: &mut Conversation) {
    while load.line_now().is_some() {}
    // One may have been on its way.
    for _ in 0..2 {
        let line = load.line(LIMIT);
        assert!(line.parse::<u64>().is_ok(), "{line}");
    }
}

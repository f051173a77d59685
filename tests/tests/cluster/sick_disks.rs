//! One disk of three that is full, read-only or frozen, or a broker without descriptors, under
//! producers of librdkafka and Java with acks=all: the writes to each partition go on with the
//! other two brokers, also when one of these two restarts meanwhile. Nothing is lost, no record of
//! an idempotent or transactional producer is stored twice, and the broker comes back without a
//! restart.
//!
//! With `LEVADA_TEST_NODE=kafka` the tests print the same figures of a real Kafka, and only them.
//! In a long run each fault lasts longer: a disk is frozen for 60 s.
//!
//! Suite: long; 120 s; needs java, python; share faults
//! Soak: scale 10, repeated

use std::time::{Duration, Instant};

use levada_testing::is_long;
use levada_tests::cluster::{CONTROLLER, Discovery, LEVADA, LIMIT, Shape, Tools};
use levada_tests::gaps::Gap;
use levada_tests::load::Loads;
use levada_tests::node::Kind;
use levada_tests::sickness::{Disk, Sickness};
use levada_tests::{Cluster, await_some, not_run};

const PRODUCERS: [&str; 6] = [
    "librdkafka-idempotent",
    "librdkafka-plain",
    "librdkafka-transactional",
    "java-idempotent",
    "java-plain",
    "java-transactional",
];
/// Records of each producer in a second.
const RATE: u32 = 300;
const DISK_BYTES: u64 = 512 << 20;
/// The broker with the sick disk.
const SICK: i32 = LEVADA + 1;
/// The broker that restarts meanwhile.
const OTHER: i32 = LEVADA + 2;
/// Longest time without an acknowledgement of a partition.
const GAP: Duration = Duration::from_secs(10);
/// Longest time without an acknowledgement after a restarted broker is in sync again.
const GAP_AFTER_RESTART: Duration = Duration::from_secs(5);
/// Time in which a Kafka that has restarted is in sync, or is not before the sickness ends.
const KAFKA_LIMIT: Duration = Duration::from_secs(30);
/// Line of a broker whose directory is sick.
const REFUSAL: &str = "log directory refuses records";
const SICKNESSES: [Sickness; 4] =
    [Sickness::Full, Sickness::ReadOnly, Sickness::NoDescriptors, Sickness::Frozen];

/// Shortest duration of a sickness.
fn lasting(sickness: Sickness) -> Duration {
    Duration::from_secs(match (sickness, is_long()) {
        (Sickness::Frozen, true) => 60,
        (Sickness::Frozen, false) => 8,
        (_, true) => 20,
        (_, false) => 4,
    })
}

/// A cluster with a sick disk to be, under load.
struct Stage {
    /// Ends before the broker, which could not be killed on a frozen disk.
    disk: Disk,
    cluster: Cluster,
    tools: Tools,
    loads: Loads,
}

impl Stage {
    fn set(mut cluster: Cluster, disk: Disk) -> Self {
        cluster.start();
        let mut tools = cluster.tools_of_any();
        let loads = Loads::start(&cluster, &mut tools, &PRODUCERS, RATE);
        Self { disk, cluster, tools, loads }
    }

    fn topics(&self) -> impl Iterator<Item = &str> {
        self.loads.topics().chain(["__transaction_state"])
    }

    fn await_all_in_sync(&self) {
        for topic in self.topics() {
            await_some(&format!("{topic} in sync"), LIMIT, || {
                self.cluster.are_in_sync(topic, 3).then_some(())
            });
        }
    }

    /// Restarts the other broker in good order. The sickness begins while this broker is down: a
    /// frozen disk holds up the metadata of its broker, and the controllers let no broker stop
    /// until all have the newest. Returns the time from the start until it is in sync again, which
    /// does not count; none if a Kafka is not in sync in time.
    fn restart_other(&mut self, sickness: Sickness) -> Option<Duration> {
        self.loads.gaps().pause();
        self.cluster.node_mut(OTHER).stop();
        sickness.begin(self.disk.path(), self.cluster.node(SICK).pid());
        self.cluster.node_mut(OTHER).launch();
        let launched = Instant::now();
        let is_back = || self.topics().all(|topic| self.cluster.is_in_sync(topic, OTHER, LEVADA));
        let took = await_some("a broker in sync that has restarted", LIMIT, || {
            let is_over = Kind::under_test() == Kind::Kafka && launched.elapsed() > KAFKA_LIMIT;
            (is_back() || is_over).then(|| (!is_over).then(|| launched.elapsed()))
        });
        self.loads.gaps().resume();
        self.loads.gaps().begin();
        self.cluster.node_mut(OTHER).await_start();
        took
    }

    fn refusals(&self) -> usize {
        self.cluster.node(SICK).history().matches(REFUSAL).count()
    }

    /// Runs one fault of a disk until the broker is in sync again.
    fn bear(&mut self, sickness: Sickness, is_other_restarted: bool) {
        let is_levada = Kind::under_test() == Kind::Levada;
        self.await_all_in_sync();
        // Leaders are spread over all brokers again.
        self.tools.outcome("LeaderElectionCommand --election-type preferred --all-topic-partitions");
        let silent = self.loads.await_acknowledgements(LIMIT);
        assert!(silent.is_empty(), "{sickness:?}: before it: {silent:?}");
        let (refusals, start) = (self.refusals(), Instant::now());
        self.loads.gaps().begin();
        let restart = if is_other_restarted {
            self.restart_other(sickness)
        } else {
            sickness.begin(self.disk.path(), self.cluster.node(SICK).pid());
            None
        };
        if is_levada {
            await_some("a refusal", LIMIT, || (self.refusals() > refusals).then_some(()));
            if sickness != Sickness::NoDescriptors {
                let (status, reason) = self.cluster.node(SICK).http("/readyz");
                assert!(
                    status == 503 && reason.contains("refuse records"),
                    "{sickness:?}: {status} {reason}"
                );
            }
        }
        await_some("the end of the sickness", LIMIT, || (start.elapsed() > lasting(sickness)).then_some(()));
        let silent = self.loads.await_acknowledgements(if is_levada { GAP } else { Duration::from_secs(2) });
        let (sick, lasted) = (self.loads.longest(), start.elapsed());
        let by_hand = self.end(sickness);
        let ended = Instant::now();
        self.await_all_in_sync();
        let in_sync = ended.elapsed();
        let after = self.loads.await_acknowledgements(LIMIT);
        let all = self.loads.longest();
        let restart = restart.map(|took| format!(", the other broker in sync {took:.1?} after its start"));
        println!("{sickness:?} for {lasted:.1?}{}{by_hand}", restart.unwrap_or_default());
        println!("  gaps until its end: {}; {} partitions silent then", list(&sick), silent.len());
        println!("  gaps in all: {}; in sync {in_sync:.1?} after its end", list(&all));
        let limit = if is_other_restarted { GAP_AFTER_RESTART } else { GAP };
        let is_fine = silent.is_empty() && after.is_empty() && all.iter().all(|gap| gap.time <= limit);
        assert!(is_fine || !is_levada, "{sickness:?}: a gap is longer than {limit:?}: {silent:?} {after:?}");
    }

    /// Ends the sickness. A Kafka may have ended: then it starts again, which the response says.
    fn end(&mut self, sickness: Sickness) -> &'static str {
        let node = self.cluster.node_mut(SICK);
        let has_ended = node.has_ended();
        if !(has_ended && sickness == Sickness::NoDescriptors) {
            sickness.end(self.disk.path(), node.pid());
        }
        if node.kind() == Kind::Levada || !has_ended {
            node.assert_running("after a sick disk");
            return "";
        }
        node.wait();
        node.start();
        ", the broker has ended, and was started by hand"
    }

    /// Ends the load, and compares the acknowledgements with the logs.
    fn judge(mut self) {
        let complaints = self.loads.judge(&mut self.cluster);
        let is_levada = Kind::under_test() == Kind::Levada;
        println!("{} complaints", complaints.len());
        assert!(complaints.is_empty() || !is_levada, "{:#?}", &complaints[..complaints.len().min(20)]);
    }
}

fn list(gaps: &[Gap]) -> String {
    gaps.iter().map(Gap::to_string).collect::<Vec<_>>().join(", ")
}

/// Has one of three brokers on a small disk bear each sickness.
fn endure(is_other_restarted: bool) {
    let shape = Shape { controllers: 1, kafka: 0, levada: 3, discovery: Discovery::BootstrapServers };
    let keys = [
        // A broker that has stopped registers again when its session is over.
        ("broker.session.timeout.ms", if is_other_restarted { "4000" } else { "9000" }),
        ("min.insync.replicas", "2"),
        ("default.replication.factor", "3"),
        ("offsets.topic.replication.factor", "3"),
        ("transaction.state.log.replication.factor", "3"),
        ("transaction.state.log.min.isr", "2"),
    ];
    let configured = |cluster: Cluster, (key, value): (&str, &str)| {
        cluster.option(LEVADA, key, value).option(CONTROLLER, key, value)
    };
    let cluster = keys.into_iter().fold(Cluster::new(shape), configured);
    let (data, image) = (cluster.node(SICK).data(), cluster.node(SICK).scratch().join("image"));
    let disk = match Disk::mount(&data, &image, DISK_BYTES) {
        Ok(disk) => disk,
        Err(error) => return not_run(&format!("a sick disk: no loop mount: {error}")),
    };
    let mut stage = Stage::set(cluster, disk);
    for sickness in SICKNESSES {
        // To a broker that restarts, a read-only disk is as a full one.
        if is_long() || !is_other_restarted || sickness != Sickness::ReadOnly {
            stage.bear(sickness, is_other_restarted);
        }
    }
    stage.judge();
}

#[test]
fn sick_disk_stops_no_writes_and_recovers_online() {
    endure(false);
}

#[test]
fn writes_continue_after_broker_return_during_sick_disk() {
    endure(true);
}

//! Three brokers under producers of librdkafka and Java, each broker with a separate network, disk
//! and wall clock, while faults of all kinds overlap: networks that lose packets, are slow or are
//! divided, full, read-only and frozen disks, too few descriptors, clocks that are set, crashes,
//! restarts and suspensions. No acknowledged record is lost, none of an idempotent or transactional
//! producer is stored twice, and the cluster recovers from every fault without a hand.
//!
//! The faults follow from the seed. The broker's disks and clocks are those of Levada alone: a
//! Kafka ends when its disk fails.
//!
//! Suite: soak; 240 s; needs java, python
//! Soak: lasts 120 s

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::{Duration, Instant};

use levada_testing::{lasting, seed};
use levada_tests::cluster::{CONTROLLER, Cut, Discovery, KAFKA, LEVADA, LIMIT, Shape, Tools};
use levada_tests::load::Loads;
use levada_tests::node::Kind;
use levada_tests::raw::{self, Batch, Connection, Decoder};
use levada_tests::sickness::{Disk, Sickness};
use levada_tests::wall_clock::WallClock;
use levada_tests::{Cluster, await_some, not_run};
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{RngExt, SeedableRng};

const PRODUCERS: [&str; 5] = [
    "librdkafka-idempotent",
    "librdkafka-plain",
    "librdkafka-transactional",
    "java-idempotent",
    "java-transactional",
];
/// Records of each producer in a second.
const RATE: u32 = 100;
/// Duration of a run for each unit of its scale.
const RUN: Duration = Duration::from_secs(120);
const DISK_BYTES: u64 = 8 << 30;
/// Limits of a clock that is ahead. Producers' states expire after a day.
const MINUTES_AHEAD: Range<u64> = 1..720;
/// Limits of a clock that is set back. A broker refuses records that are an hour ahead of its
/// clock.
const MINUTES_BACK: Range<u64> = 1..50;
/// Difference between two clocks that the test takes for none.
const SECOND_MS: i64 = 1_000;

#[derive(Clone, Copy, Debug)]
enum Fault {
    Killed,
    Suspended,
    Restarted,
    Link(Cut),
    Disk(Sickness),
    Clock { is_ahead: bool, minutes: u64 },
}

impl Fault {
    /// A fault of a broker. One that stops in good order waits for others, so it has no other fault
    /// beside it.
    fn draw(random: &mut StdRng, members: &[i32], is_levada: bool, is_alone: bool) -> Self {
        match random.random_range(0..if is_levada { 12 } else { 6 }) {
            0 => Self::Killed,
            1 => Self::Suspended,
            2 if is_alone => Self::Restarted,
            2..6 => Self::Link(match random.random_range(0..6) {
                0 => Cut::Both,
                1 => Cut::Inbound,
                2 => Cut::Outbound,
                3 => Cut::Peer(*members.choose(random).expect("members")),
                4 => Cut::Loss { permille: *[20, 50, 200].choose(random).expect("three") },
                _ => Cut::Slow { kilobits: *[500, 4_000].choose(random).expect("two") },
            }),
            6..10 => Self::Disk(
                *[Sickness::Full, Sickness::ReadOnly, Sickness::NoDescriptors, Sickness::Frozen]
                    .choose(random)
                    .expect("four"),
            ),
            _ => {
                let is_ahead = random.random_bool(0.5);
                let minutes = if is_ahead { MINUTES_AHEAD } else { MINUTES_BACK };
                Self::Clock { is_ahead, minutes: random.random_range(minutes) }
            }
        }
    }
}

/// A cluster under load.
struct Stage {
    /// End before the brokers, which could not be killed on frozen disks.
    disks: BTreeMap<i32, Disk>,
    clocks: BTreeMap<i32, WallClock>,
    cluster: Cluster,
    tools: Tools,
    loads: Loads,
}

impl Stage {
    /// An error names a missing capability of this machine.
    fn set(shape: Shape) -> Result<Self, String> {
        let keys = [
            ("broker.session.timeout.ms", "6000"),
            ("min.insync.replicas", "2"),
            ("default.replication.factor", "3"),
            ("offsets.topic.replication.factor", "3"),
            ("transaction.state.log.replication.factor", "3"),
            ("transaction.state.log.min.isr", "2"),
        ];
        let mut cluster = Cluster::with_networks(shape)?;
        for role in [CONTROLLER, KAFKA, LEVADA] {
            cluster = keys.iter().fold(cluster, |cluster, (key, value)| cluster.option(role, key, value));
        }
        let (mut disks, mut clocks) = (BTreeMap::new(), BTreeMap::new());
        for id in (LEVADA..).take(shape.levada as usize) {
            let (data, image) = (cluster.node(id).data(), cluster.node(id).scratch().join("image"));
            disks.insert(id, Disk::mount(&data, &image, DISK_BYTES)?);
            clocks.insert(id, WallClock::of(cluster.node_mut(id))?);
        }
        cluster.start();
        let mut tools = cluster.tools_of_any();
        let loads = Loads::start(&cluster, &mut tools, &PRODUCERS, RATE);
        let mut stage = Self { disks, clocks, cluster, tools, loads };
        stage.show_clocks();
        Ok(stage)
    }

    /// Shows that a broker follows the clock that the test sets.
    fn show_clocks(&mut self) {
        let hours = Duration::from_secs(6 * 3600);
        let hours_ms = i64::try_from(hours.as_millis()).expect("six hours");
        for (id, clock) in &self.clocks {
            let topic = format!("clock-{id}");
            let configs = "--config message.timestamp.type=LogAppendTime --config min.insync.replicas=1";
            self.tools
                .run(&format!("TopicCommand --create --topic {topic} --replica-assignment {id} {configs}"));
            let append_ms = || {
                await_some("the time of an append", LIMIT, || {
                    append_time_ms(&mut Connection::open(self.cluster.node(*id).address()), &topic)
                })
            };
            let before = append_ms();
            clock.set_ahead(hours);
            let ahead = append_ms() - before - hours_ms;
            clock.set_back(hours);
            let back = append_ms() - before + hours_ms;
            clock.set_right();
            for error in [ahead, back] {
                assert!((0..60 * SECOND_MS).contains(&error), "broker {id}: {error} ms from the clock set");
            }
        }
    }

    fn begin(&mut self, id: i32, fault: Fault) {
        match fault {
            Fault::Killed => self.cluster.node_mut(id).kill(),
            Fault::Suspended => self.cluster.node(id).suspend(),
            Fault::Restarted => drop(self.cluster.node_mut(id).stop()),
            Fault::Link(cut) => self.cluster.networks().cut(id, cut),
            Fault::Disk(sickness) => sickness.begin(self.disks[&id].path(), self.cluster.node(id).pid()),
            Fault::Clock { is_ahead, minutes } => {
                let time = Duration::from_secs(60 * minutes);
                let clock = &self.clocks[&id];
                if is_ahead { clock.set_ahead(time) } else { clock.set_back(time) }
            }
        }
    }

    fn end(&mut self, id: i32, fault: Fault) {
        match fault {
            Fault::Killed | Fault::Restarted => self.cluster.node_mut(id).launch(),
            Fault::Suspended => self.cluster.node(id).resume(),
            Fault::Link(_) => self.cluster.networks().heal(id),
            Fault::Disk(sickness) => sickness.end(self.disks[&id].path(), self.cluster.node(id).pid()),
            Fault::Clock { .. } => self.clocks[&id].set_right(),
        }
    }

    /// One or two faults, which overlap, from their beginnings until all replicas are in sync and
    /// all partitions take records.
    fn endure(&mut self, random: &mut StdRng) {
        let mut brokers = self.cluster.brokers();
        let all = brokers.clone();
        brokers.shuffle(random);
        brokers.truncate(random.random_range(1..3));
        let is_alone = brokers.len() == 1;
        let mut faults = Vec::new();
        for id in brokers {
            let others: Vec<i32> =
                all.iter().copied().chain([CONTROLLER]).filter(|other| *other != id).collect();
            faults.push((id, Fault::draw(random, &others, self.disks.contains_key(&id), is_alone)));
        }
        println!("{faults:?}");
        for (id, fault) in &faults {
            self.begin(*id, *fault);
            await_time(Duration::from_millis(random.random_range(0..3_000)));
        }
        await_time(Duration::from_millis(random.random_range(1_000..15_000)));
        let start = Instant::now();
        faults.shuffle(random);
        for (id, fault) in &faults {
            self.end(*id, *fault);
            await_time(Duration::from_millis(random.random_range(0..1_000)));
        }
        for id in &all {
            self.cluster.node_mut(*id).assert_running("after faults");
        }
        self.cluster.await_brokers(&all);
        let topics: Vec<String> =
            self.loads.topics().chain(["__transaction_state"]).map(str::to_owned).collect();
        for topic in topics {
            await_some(&format!("{topic} in sync"), LIMIT, || {
                self.cluster.are_in_sync(&topic, 3).then_some(())
            });
        }
        let in_sync = start.elapsed();
        let silent = self.loads.await_acknowledgements(LIMIT);
        assert!(silent.is_empty(), "{faults:?}: no acknowledgements of {silent:?}");
        println!("  in sync after {in_sync:.1?}, all partitions take records after {:.1?}", start.elapsed());
        // Leaders are spread over all brokers again. The command fails if they are.
        self.tools.outcome("LeaderElectionCommand --election-type preferred --all-topic-partitions");
    }
}

/// The time that the broker gives to a record; none while it does not lead the partition.
fn append_time_ms(connection: &mut Connection, topic: &str) -> Option<i64> {
    let said = connection.call(&raw::produce(topic, 1, &Batch::of(&[b"time"]).encode()));
    if raw::produce_error(&said) != 0 {
        return None;
    }
    let mut said = Decoder::new(&said);
    let _ = (said.i32(), said.i32(), said.string(), said.i32(), said.i32(), said.i16(), said.i64());
    Some(said.i64())
}

fn await_time(time: Duration) {
    let start = Instant::now();
    await_some("some time", LIMIT, || (start.elapsed() >= time).then_some(()));
}

fn endure(kafka: i32, levada: i32) {
    let shape = Shape { controllers: 1, kafka, levada, discovery: Discovery::BootstrapServers };
    let mut stage = match Stage::set(shape) {
        Ok(stage) => stage,
        Err(reason) => return not_run(&format!("mixed faults: {reason}")),
    };
    let (mut random, start) = (StdRng::seed_from_u64(seed()), Instant::now());
    let mut rounds = 0;
    while rounds == 0 || start.elapsed() < lasting(RUN) {
        stage.endure(&mut random);
        rounds += 1;
    }
    println!("{rounds} rounds");
    let complaints = stage.loads.judge(&mut stage.cluster);
    assert!(complaints.is_empty(), "{:#?}", &complaints[..complaints.len().min(20)]);
    for id in stage.cluster.brokers() {
        let node = stage.cluster.node(id);
        assert!(node.kind() == Kind::Kafka || !node.history().contains("panicked"), "broker {id}");
    }
}

#[test]
fn three_brokers_of_levada() {
    endure(0, 3);
}

#[test]
fn one_broker_of_kafka_and_two_of_levada() {
    endure(1, 2);
}

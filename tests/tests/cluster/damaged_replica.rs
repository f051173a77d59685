//! Damage to one of three replicas, and then a crash of all brokers: the replica that the
//! controllers elect is the damaged one, and no acknowledged record is lost.
//!
//! A long run has as many rounds as its scale, each with other damage: a flipped bit, missing or
//! empty segments, cut checkpoints, before the crash or in it.
//!
//! Suite: long; 40 s; needs java; share faults
//! Soak: scale 40

use std::collections::BTreeSet;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use levada_testing::{is_long, scaled, seed};
use levada_tests::await_some;
use levada_tests::cluster::{Cluster, Discovery, LEVADA, LIMIT, Shape, Tools};
use levada_tests::raw::{self, Batch, Connection};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

const NONE: i16 = 0;
const ALL: i16 = -1;
/// The preferred leader, whose log is damaged.
const DAMAGED: i32 = LEVADA + 1;
const BROKERS: [i32; 3] = [LEVADA, DAMAGED, LEVADA + 2];
/// Header of a batch. After a clean stop, a start reads headers alone.
const HEADER_BYTES: usize = 61;

/// A cluster, with one topic whose replicas are at all brokers.
struct Stage {
    cluster: Cluster,
    tools: Tools,
    topic: String,
}

impl Stage {
    fn start() -> Self {
        let shape = Shape { controllers: 1, kafka: 0, levada: 3, discovery: Discovery::BootstrapServers };
        let mut cluster = Cluster::new(shape);
        cluster.start();
        let tools = cluster.tools_of_any();
        Self { cluster, tools, topic: String::new() }
    }

    /// Creates the next topic.
    fn create(&mut self, topic: &str, configs: &str) {
        topic.clone_into(&mut self.topic);
        let config = format!("--config retention.ms=-1 --config min.insync.replicas=2 {configs}");
        let assignment = format!("{DAMAGED}:{LEVADA}:{}", LEVADA + 2);
        let line =
            format!("TopicCommand --create --topic {topic} --replica-assignment {assignment} {config}");
        assert!(self.tools.run(&line).contains("Created topic"));
    }

    /// Has a broker append a record that all replicas in sync must have; true if it is
    /// acknowledged.
    fn produce(&self, broker: i32, number: usize) -> bool {
        let value = format!("{number} {}", "x".repeat(900));
        let request = raw::produce(&self.topic, ALL, &Batch::of(&[value.as_bytes()]).encode());
        let response = Connection::try_open(self.cluster.node(broker).address())
            .and_then(|mut to| to.try_call(&request));
        response.is_ok_and(|response| raw::produce_error(&response) == NONE)
    }

    /// Produces further records through the leader, each until it is acknowledged.
    fn produce_all(&self, numbers: Range<usize>) {
        for number in numbers {
            await_some(&format!("the acknowledgement of record {number}"), LIMIT, || {
                BROKERS.into_iter().find(|broker| self.produce(*broker, number))
            });
        }
    }

    fn await_in_sync(&self) {
        await_some("all replicas in sync", LIMIT, || self.cluster.are_in_sync(&self.topic, 3).then_some(()));
    }

    fn prefer(&mut self) {
        let topic = &self.topic;
        // Fails if the preferred replica leads already.
        self.tools.outcome(&format!(
            "LeaderElectionCommand --election-type PREFERRED --topic {topic} --partition 0"
        ));
        await_some("the preferred leader", LIMIT, || self.produce(DAMAGED, 0).then_some(()));
    }

    /// The directory of the damaged replica.
    fn directory(&self) -> PathBuf {
        self.cluster.node(DAMAGED).data().join(format!("{}-0", self.topic))
    }

    /// All brokers crash, and start again.
    fn crash(&mut self, meanwhile: impl FnOnce(&Self)) {
        BROKERS.iter().for_each(|broker| self.cluster.node_mut(*broker).kill());
        meanwhile(self);
        BROKERS.iter().for_each(|broker| self.cluster.node_mut(*broker).launch());
        BROKERS.iter().for_each(|broker| self.cluster.node_mut(*broker).await_start());
    }

    /// Numbers of the records in the partition.
    fn numbers(&self) -> BTreeSet<usize> {
        let said = self.cluster.node(LEVADA).levada(&format!("consume {} -e", self.topic)).run();
        let words = said.stdout.lines().filter_map(|line| line.split(' ').next());
        words.map(|word| word.parse().expect("a record begins with its number")).collect()
    }

    fn assert_all_there(&self, end: usize) {
        let found = self.numbers();
        let lost: Vec<usize> = (1..end).filter(|number| !found.contains(number)).collect();
        assert!(lost.is_empty(), "{}: {} acknowledged records are lost: {lost:?}", self.topic, lost.len());
    }
}

/// Damage to a replica.
#[derive(Clone, Copy, Debug)]
enum Harm {
    FlippedBit,
    LastSegmentMissing,
    MiddleSegmentMissing,
    AllSegmentsMissing,
    LastSegmentEmpty,
    SealedSegmentEmpty,
    None,
}

impl Harm {
    const ALL: [Self; 7] = [
        Self::FlippedBit,
        Self::LastSegmentMissing,
        Self::MiddleSegmentMissing,
        Self::AllSegmentsMissing,
        Self::LastSegmentEmpty,
        Self::SealedSegmentEmpty,
        Self::None,
    ];

    fn befall(self, directory: &Path, random: &mut StdRng) {
        let entries = fs::read_dir(directory).expect("the directory").flatten();
        let mut segments: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        segments.retain(|path| path.extension().is_some_and(|end| end == "log"));
        segments.sort();
        let (last, sealed) = segments.split_last().expect("a segment");
        let remove = |path: &PathBuf| fs::remove_file(path).expect("a segment");
        let clear = |path: &PathBuf| fs::write(path, b"").expect("a segment");
        match self {
            Self::FlippedBit => {
                let mut bytes = fs::read(last).expect("the segment");
                if bytes.len() > HEADER_BYTES {
                    // Within the values, which are most of the bytes.
                    let at = bytes.len() - 1 - random.random_range(0..bytes.len().min(400));
                    bytes[at] ^= 1;
                    fs::write(last, bytes).expect("the segment");
                }
            }
            Self::LastSegmentMissing => remove(last),
            Self::MiddleSegmentMissing => remove(sealed[1..].choose(random).expect("several segments")),
            Self::AllSegmentsMissing => segments.iter().for_each(remove),
            Self::LastSegmentEmpty => clear(last),
            Self::SealedSegmentEmpty => clear(sealed.choose(random).expect("several segments")),
            Self::None => {}
        }
    }
}

/// Empties the files of offsets beside the partitions.
fn cut_checkpoints(data: &Path) {
    for name in
        ["recovery-point-offset-checkpoint", "replication-offset-checkpoint", "log-start-offset-checkpoint"]
    {
        fs::write(data.join(name), "0\n0\n").expect("a checkpoint");
    }
}

#[test]
fn damaged_replica_yields_leadership() {
    let mut stage = Stage::start();
    stage.create("damaged", "");
    stage.produce_all(1..200);

    stage.cluster.node_mut(DAMAGED).stop();
    let path = stage.directory().join("00000000000000000000.log");
    let mut bytes = fs::read(&path).expect("the segment");
    let at = bytes.len() * 2 / 5;
    bytes[at] ^= 1;
    fs::write(&path, bytes).expect("the segment");
    // A clean stop: the start does not read the log.
    stage.cluster.node_mut(DAMAGED).start();
    stage.await_in_sync();
    stage.prefer();
    stage.produce_all(200..300);

    stage.crash(|_| ());
    stage.produce_all(300..301);
    stage.await_in_sync();
    stage.assert_all_there(301);
    let talk = stage.cluster.node(DAMAGED).talk();
    assert!(talk.contains("the log of a replica lacks records"), "{talk}");
    // The replica has its records again, and may lead.
    stage.prefer();
    stage.assert_all_there(301);
    stage.cluster.assert_no_errors();
}

/// Only a long run has time for further kinds of damage.
#[test]
fn damage_of_any_kind_loses_no_record() {
    if !is_long() {
        return;
    }
    let (mut stage, mut random) = (Stage::start(), StdRng::seed_from_u64(seed()));
    for round in 0..scaled(1_usize) {
        let harm = *Harm::ALL.choose(&mut random).expect("a kind");
        let (is_early, is_clean, cuts) =
            (random.random_bool(0.5), random.random_bool(0.7), random.random_bool(0.5));
        println!(
            "round {round}: {harm:?}, before the crash: {is_early}, clean: {is_clean}, checkpoints cut: {cuts}"
        );
        // Several segments, and a last one that is indexed.
        stage.create(&format!("damaged-{round}"), "--config internal.segment.bytes=60000");
        stage.produce_all(1..200);
        stage.await_in_sync();
        let mut damage = |stage: &Stage| {
            harm.befall(&stage.directory(), &mut random);
            if cuts {
                cut_checkpoints(&stage.cluster.node(DAMAGED).data());
            }
        };
        if is_early {
            let node = stage.cluster.node_mut(DAMAGED);
            if is_clean {
                let _ = node.stop();
            } else {
                node.kill();
            }
            damage(&stage);
            stage.cluster.node_mut(DAMAGED).start();
            stage.await_in_sync();
            stage.prefer();
            stage.produce_all(200..300);
            stage.crash(|_| ());
        } else {
            stage.produce_all(200..300);
            stage.crash(|stage| damage(stage));
        }
        stage.produce_all(300..301);
        stage.await_in_sync();
        stage.assert_all_there(301);
        stage.prefer();
        stage.assert_all_there(301);
    }
}

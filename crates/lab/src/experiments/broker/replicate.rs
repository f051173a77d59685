//! Cost of replication: three brokers of Kafka, of Levada, or of both, with three replicas of each
//! partition and acks=all. Each broker leads one of three partitions. All variants belong to one
//! cluster. Its controller is Kafka's, and the cost of the controller does not count.

use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::error::LabError;
use crate::experiments::broker::Systems;
use crate::experiments::broker::harness::cluster::{Cluster, REPLICAS, VARIANTS, Variant, spent_since};
use crate::experiments::broker::harness::connection::Connection;
use crate::experiments::broker::harness::frames::{self, TopicPartition};
use crate::experiments::broker::harness::live::{Live, StopCondition};
use crate::experiments::broker::harness::topic::{self, Filled};
use crate::harness::bench::Bench;
use crate::harness::pace::{self, joined};
use crate::method::experiment::{Case, Experiment, Metrics, Outcome, Pass};
use crate::record::{Metric, Verdict};

mod catch_up;

use catch_up::CatchUp;

const SIZES: [(&str, usize); 2] = [("16 KiB", 16 << 10), ("1 MiB", 1 << 20)];
const FIXED_RATE: &str = "fixed rate";
const NEW_REPLICA: &str = "new replica";

const RECORD_LEN: usize = 1024;
const PER_SECOND: f64 = 5000.0;

/// Settings of topics that one run uses. Their files go soon after the deletion, which frees space
/// for the next run.
const SHORT_LIVED: [(&str, &str); 1] = [("file.delete.delay.ms", "1000")];

const NO_CONTROLLER: &str =
    "the cluster needs Kafka's controller: name the directory of its jars with --kafka-libs";

/// One run of a case.
#[derive(Debug, Clone, Copy)]
struct Run<'a> {
    bench: &'a Bench,
    cluster: &'a Cluster,
    variant: &'a Variant,
    /// Name of the topic, which no other run uses.
    topic: &'a str,
    pass: Pass,
}

/// The experiment, with its cluster if Kafka's jars are available.
#[derive(Debug)]
pub struct Replicate<'b> {
    bench: &'b Bench,
    cluster: Option<Cluster>,
    catch_up: CatchUp,
    /// Number of topics so far; each run creates a new one.
    topics: usize,
}

impl<'b> Replicate<'b> {
    /// Starts the controller and the brokers.
    ///
    /// # Errors
    /// A process does not start.
    pub fn new(bench: &'b Bench, systems: &Systems) -> Result<Self, LabError> {
        let cluster = systems.kafka_libs.is_some().then(|| Cluster::start(bench, systems)).transpose()?;
        Ok(Replicate { bench, cluster, catch_up: CatchUp::new(bench), topics: 0 })
    }

    /// Sends batches of a size to all partitions in parallel.
    fn produce(run: Run<'_>, (len, bytes): (usize, u64)) -> Result<Outcome, LabError> {
        let Run { bench, cluster, variant, topic, pass } = run;
        bench.reserve(bytes * REPLICAS as u64)?;
        let assignment = balanced(variant);
        cluster.create(variant, (topic, &assignment), &SHORT_LIVED)?;
        let (batch, records) = frames::batch(len, RECORD_LEN, 1)?;
        let each = bytes / REPLICAS as u64;
        let batches = usize::try_from(each.div_ceil(batch.len() as u64)).unwrap_or(usize::MAX);
        let place = TopicPartition { topic: topic.to_owned(), partition: 0 };
        let filled = Filled { place, batch_len: batch.len(), records, batches };
        let batch = batch.freeze();
        let nodes = cluster.nodes(variant);
        let lane = |partition: usize| {
            let place = TopicPartition { topic: topic.to_owned(), partition: partition as i32 };
            let frame = frames::produce(&place, batch.clone(), -1)?;
            let mut connection = Connection::open(nodes[partition].address())?;
            // The first batch creates files and starts the fetches of the followers.
            let first = Filled { place: place.clone(), batches: 1, ..filled.clone() };
            topic::send(&mut connection, &frame, &first, 0)?;
            Ok((connection, frame, Filled { place, ..filled.clone() }))
        };
        let lanes = (0..REPLICAS).map(lane).collect::<Result<Vec<_>, LabError>>()?;
        let (before, start) = (cluster.spent(variant), Instant::now());
        std::thread::scope(|scope| {
            let send = |(mut connection, frame, filled): (Connection, Bytes, Filled)| {
                scope.spawn(move || {
                    pace::settle(bench);
                    topic::send(&mut connection, &frame, &filled, filled.offset(1))
                })
            };
            let senders: Vec<_> = lanes.into_iter().map(send).collect();
            senders.into_iter().try_for_each(|sender| joined(sender.join()))
        })?;
        let (cpu, wall) = (spent_since(&before), start.elapsed());
        let outcome = match pass {
            Pass::Timed => Outcome::Measured(super::moved(filled.bytes() * REPLICAS as u64, cpu, wall)),
            Pass::Integrity => {
                let all = Filled { batches: filled.batches + 1, ..filled };
                Outcome::Checked(Self::check(cluster, variant, &all)?)
            }
        };
        topic::delete(nodes[0], topic)?;
        Ok(outcome)
    }

    /// Reads every partition from its leader and compares the files of all replicas.
    fn check(cluster: &Cluster, variant: &Variant, filled: &Filled) -> Result<Verdict, LabError> {
        let mut what = String::new();
        for (partition, node) in (0..).zip(cluster.nodes(variant)) {
            let place = TopicPartition { partition, ..filled.place.clone() };
            let own = Filled { place, ..filled.clone() };
            let verdict = topic::verify(node.address(), &own, 0, 8 << 20)?;
            if !verdict.sound || !cluster.replicas_are_equal((&own.place, &variant.brokers), own.bytes())? {
                let what = format!("partition {partition}: {}; or the replicas differ", verdict.what);
                return Ok(Verdict { sound: false, what });
            }
            what = verdict.what;
        }
        Ok(Verdict { sound: true, what: format!("each of {REPLICAS} partitions, on all replicas: {what}") })
    }

    /// Sends records at a fixed rate.
    fn at_fixed_rate(run: Run<'_>) -> Result<Outcome, LabError> {
        let Run { bench, cluster, variant, topic, pass } = run;
        cluster.create(variant, (topic, &balanced(variant)), &SHORT_LIVED)?;
        let live = live(topic, PER_SECOND);
        let nodes = cluster.nodes(variant);
        let once = |millis| live.run(bench, &nodes, StopCondition::Time(Duration::from_millis(millis)));
        once(WARM_UP_MS)?;
        let before = cluster.spent(variant);
        let lived = once(bench.scale().choose(300, 1_000, 4_000, 10_000))?;
        let cpu = spent_since(&before);
        topic::delete(nodes[0], topic)?;
        if pass == Pass::Integrity {
            let what = format!("{} records acknowledged in order", lived.records);
            return Ok(Outcome::Checked(Verdict { sound: lived.records > 0, what }));
        }
        let bytes = lived.records * RECORD_LEN as u64;
        let gb = bytes as f64 / 1e9;
        let mut metrics = Metrics::from([("cpu_s_per_gb".to_owned(), cpu.as_secs_f64() / gb)]);
        lived.produce.put("produce", &mut metrics);
        Ok(Outcome::Measured(metrics))
    }
}

/// Time in ms for connections and fetchers before latencies count. A fetcher begins to fetch a new
/// partition after its current fetch, which waits for at most 500 ms.
const WARM_UP_MS: u64 = 1_000;

/// Producers for the partition of every broker, without consumers.
fn live(topic: &str, per_second: f64) -> Live {
    Live {
        topic: topic.to_owned(),
        partitions: REPLICAS as i32,
        per_second,
        record_len: RECORD_LEN,
        acks: -1,
        consumed: false,
    }
}

/// Replicas of three partitions. Each broker leads one partition and has replicas of all.
fn balanced(variant: &Variant) -> [Vec<i32>; REPLICAS] {
    std::array::from_fn(|first| {
        let mut replicas = variant.brokers.to_vec();
        replicas.rotate_left(first);
        replicas
    })
}

impl Experiment for Replicate<'_> {
    fn name(&self) -> &'static str {
        "broker-replicate"
    }

    fn shows(&self) -> String {
        format!(
            "total cost of {REPLICAS} brokers for each GB produced with acks=all and {REPLICAS} replicas; latency of an acknowledgement at \
             {PER_SECOND} records of {RECORD_LEN} bytes a second; speed at which a new replica copies {} MB that are not in the page cache, and \
             latency of producers ({} records a second) during the copy",
            self.catch_up.bytes() / 1_000_000,
            catch_up::PER_SECOND
        )
    }

    fn metrics(&self) -> Vec<Metric> {
        let own = super::moving().into_iter().chain(pace::metrics("produce"));
        own.chain(catch_up::metrics()).collect()
    }

    fn cases(&self) -> Vec<Case> {
        let names = || VARIANTS.iter().map(|variant| variant.name);
        let mut cases = super::by_size(&SIZES, names(), "batch_bytes");
        cases.extend(names().map(|name| Case::new(FIXED_RATE, name).with("per_second", PER_SECOND)));
        let bytes = self.catch_up.bytes();
        cases.extend(names().map(|name| Case::new(NEW_REPLICA, name).with("bytes", bytes)));
        cases
    }

    fn run(&mut self, case: &Case, pass: Pass) -> Result<Outcome, LabError> {
        let Some(cluster) = &self.cluster else { return Ok(Outcome::Skipped(NO_CONTROLLER.to_owned())) };
        let Some(variant) = VARIANTS.iter().find(|variant| variant.name == case.name) else {
            return Ok(Outcome::Skipped("no such variant".to_owned()));
        };
        self.topics += 1;
        let topic = format!("replicate-{:04}", self.topics);
        let _others = cluster.alone(variant);
        let run = Run { bench: self.bench, cluster, variant, topic: &topic, pass };
        match case.group.as_str() {
            FIXED_RATE => Self::at_fixed_rate(run),
            NEW_REPLICA => self.catch_up.run(run),
            group => {
                let Some((_, len)) = SIZES.iter().find(|(label, _)| *label == group) else {
                    return Ok(Outcome::Skipped("no such size".to_owned()));
                };
                let bytes = self.bench.scale().choose(3 << 20, 32 << 20, 192 << 20, 768 << 20);
                let bytes = if pass == Pass::Integrity { bytes.min(24 << 20) } else { bytes };
                Self::produce(run, (*len, bytes))
            }
        }
    }
}

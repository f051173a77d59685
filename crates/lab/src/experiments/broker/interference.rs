//! Effect of a replay on other clients: live producers and tail consumers at a steady rate, with
//! and without a consumer that replays a backlog. The backlog is cold on the disk, or only in a
//! remote store.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::error::LabError;
use crate::experiments::broker::Systems;
use crate::experiments::broker::harness::frames::TopicPartition;
use crate::experiments::broker::harness::live::{Live, LiveResult, StopCondition};
use crate::experiments::broker::harness::metrics::Scrape;
use crate::experiments::broker::harness::node::{Node, System};
use crate::experiments::broker::harness::replay;
use crate::experiments::broker::harness::tiers::{self, Sizes};
use crate::experiments::broker::harness::topic::{self, Filled};
use crate::harness::bench::Bench;
use crate::harness::pace::{self, joined};
use crate::machine::cpu;
use crate::method::experiment::{Case, Experiment, Metrics, Outcome, Pass};
use crate::record::{Metric, Verdict};

/// Default fetch size of Kafka's consumer for a partition, in bytes.
const FETCH_BYTES: i32 = 1 << 20;

/// Bytes of a batch and of a segment of the backlog. Most segments are closed.
const BATCH_LEN: usize = 16 << 10;
const SEGMENT_BYTES: u64 = 64 << 20;

const RECORD_LEN: usize = 1024;

/// Largest share of the backlog in the page cache at which a replay counts as cold.
const STILL_WARM: f64 = 0.02;

/// Topic of the backlog.
const BACKLOG: &str = "backlog";

const QUIET: &str = "without replay";
const REPLAY: &str = "with replay";

/// Place from which the broker reads the backlog.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    /// Segments on the disk, none of them in the page cache.
    Disk,
    /// A remote store, none of it in a cache of the broker.
    Store,
}

/// The experiment, with its brokers.
#[derive(Debug)]
pub struct Interference<'b> {
    bench: &'b Bench,
    source: Source,
    live: Live,
    subjects: Vec<Subject>,
}

/// A broker with a backlog.
#[derive(Debug)]
struct Subject {
    node: Node,
    backlog: Filled,
    /// Latency quantiles of the last run without replay, in ms.
    quiet: Metrics,
    /// Duration of the live load in the last run with replay, and in each run without replay.
    time: Option<Duration>,
}

impl<'b> Interference<'b> {
    /// Starts the brokers and writes their backlogs to the disk.
    ///
    /// # Errors
    /// A broker does not start or refuses a request, or the device has too little space.
    pub fn new(bench: &'b Bench, systems: &Systems) -> Result<Self, LabError> {
        let backlog_bytes = bench.scale().choose(4 << 20, 512 << 20, 1 << 30, 6 << 30);
        let segment_bytes = SEGMENT_BYTES.min(backlog_bytes / 4).to_string();
        bench.reserve(backlog_bytes * systems.all().len() as u64)?;
        let fill = |node: &Node| {
            topic::create(node, BACKLOG, 1, &[("segment.bytes", &segment_bytes)])?;
            let place = TopicPartition { topic: BACKLOG.to_owned(), partition: 0 };
            topic::fill(node, place, BATCH_LEN, backlog_bytes)
        };
        Self::with(bench, Source::Disk, super::started(bench, systems)?, fill)
    }

    /// Starts the brokers, writes their backlogs, and waits until only the store contains them.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn remote(bench: &'b Bench, systems: &Systems) -> Result<Self, LabError> {
        let bytes = bench.scale().choose(4 << 20, 64 << 20, 1 << 30, 2 << 30);
        let sizes = Sizes { segment_bytes: SEGMENT_BYTES.min(bytes / 4), bytes };
        let fill = |node: &Node| tiers::fill_store(node, BACKLOG, sizes);
        Self::with(bench, Source::Store, tiers::started(bench, systems, sizes)?, fill)
    }

    fn with(
        bench: &'b Bench,
        source: Source,
        nodes: Vec<Node>,
        fill: impl Fn(&Node) -> Result<Filled, LabError>,
    ) -> Result<Self, LabError> {
        let live = Live {
            topic: "live".to_owned(),
            partitions: 2,
            per_second: 1000.0,
            record_len: RECORD_LEN,
            acks: 1,
            consumed: true,
        };
        let subject = |node: Node| {
            topic::create(&node, &live.topic, live.partitions, &[])?;
            let backlog = fill(&node)?;
            Ok(Subject { node, backlog, quiet: Metrics::new(), time: None })
        };
        let subjects = nodes.into_iter().map(subject).collect::<Result<_, LabError>>()?;
        Ok(Interference { bench, source, live, subjects })
    }

    fn quiet(bench: &Bench, live: &Live, subject: &mut Subject) -> Result<Metrics, LabError> {
        let time = subject.time.unwrap_or(AFTER + limit(bench));
        let before = Scrape::of(subject.node.http())?;
        let lived = live.run(bench, &[&subject.node], StopCondition::Time(time))?;
        let metrics = told(&subject.node, live, &lived, &before)?;
        subject.quiet.clone_from(&metrics);
        Ok(metrics)
    }

    /// Measures the live clients during a replay. The backlog is cold.
    fn replay(bench: &Bench, live: &Live, subject: &mut Subject) -> Result<Metrics, LabError> {
        let node = &subject.node;
        let before = Scrape::of(node.http())?;
        let told_to_stop = AtomicBool::new(false);
        let (lived, replayed) = std::thread::scope(|scope| {
            let replayer = scope.spawn(|| {
                cpu::pin(bench.places().receiver());
                pace::step_back();
                // The replay begins after the warm-up of the live clients.
                std::thread::sleep(AFTER);
                let start = Instant::now();
                let bytes = replay::within(limit(bench), node, &subject.backlog, FETCH_BYTES);
                told_to_stop.store(true, Ordering::Relaxed);
                Ok((bytes?, start.elapsed()))
            });
            let lived = live.run(bench, &[node], StopCondition::Told(&told_to_stop));
            Ok::<_, LabError>((lived?, joined(replayer.join())?))
        })?;
        let (bytes, time) = replayed;
        let mut metrics = told(node, live, &lived, &before)?;
        metrics.insert("replay".to_owned(), bytes as f64 / 1e6 / time.as_secs_f64());
        for (name, ratio, _) in RATIOS {
            if let (Some(with), Some(without)) = (metrics.get(name), subject.quiet.get(name)) {
                metrics.insert(ratio.to_owned(), with / without);
            }
        }
        subject.time = Some(AFTER + time);
        Ok(metrics)
    }

    fn check(bench: &Bench, live: &Live, subject: &Subject, replays: bool) -> Result<Verdict, LabError> {
        let lived = live.run(bench, &[&subject.node], StopCondition::Time(Duration::from_millis(200)))?;
        let live = format!("{} live records acknowledged and read in order", lived.records);
        if !replays {
            return Ok(Verdict { sound: lived.records > 0, what: live });
        }
        let verdict = topic::verify(subject.node.address(), &subject.backlog, 0, FETCH_BYTES)?;
        Ok(Verdict { what: format!("{live}; replayed: {}", verdict.what), ..verdict })
    }
}

impl Subject {
    /// Makes the backlog cold. Returns false if the page cache still contains it.
    fn chill(&mut self, bench: &Bench, source: Source) -> Result<bool, LabError> {
        match source {
            Source::Disk => {
                let share = topic::evict(&self.node, &self.backlog.place)?;
                Ok(share.is_none_or(|share| share <= STILL_WARM))
            }
            Source::Store => {
                if self.node.system() == System::Levada {
                    tiers::empty_cache(bench, &mut self.node, &self.backlog)?;
                }
                Ok(true)
            }
        }
    }
}

/// Time from the start of the live clients to the start of the replay. A run without replay
/// includes this time too: without it the run would end with the warm-up.
const AFTER: Duration = Duration::from_millis(150);

/// Limit for a replay. With a slow disk the reader leaves the rest of the backlog unread, and the
/// experiment does not take longer.
fn limit(bench: &Bench) -> Duration {
    Duration::from_millis(bench.scale().choose(300, 1_000, 4_000, 12_000))
}

/// Latencies with their ratio to a run without replay: metric, ratio, and label of the ratio.
const RATIOS: [(&str, &str, &str); 2] = [
    ("produce_p99_ms", "produce_p99_by_quiet", "produce p99 by quiet"),
    ("tail_p99_ms", "tail_p99_by_quiet", "tail p99 by quiet"),
];

/// Results of a run: latencies, stalls of shards, and the share of the live topic in the page
/// cache.
fn told(node: &Node, live: &Live, lived: &LiveResult, before: &Scrape) -> Result<Metrics, LabError> {
    let mut metrics = Metrics::new();
    lived.put(&mut metrics);
    let after = Scrape::of(node.http())?;
    if let Some(stalls) = after.growth(before, "levada_transfer_stalls_total") {
        metrics.insert("stalls".to_owned(), stalls);
    }
    let mut resident = Some(1.0_f64);
    for partition in 0..live.partitions {
        let place = TopicPartition { topic: live.topic.clone(), partition };
        let share = topic::resident(node, &place)?;
        resident = resident.zip(share).map(|(least, share)| least.min(share));
    }
    metrics.extend(resident.map(|share| ("tail_resident".to_owned(), share * 100.0)));
    Ok(metrics)
}

impl Experiment for Interference<'_> {
    fn name(&self) -> &'static str {
        match self.source {
            Source::Disk => "broker-interference",
            Source::Store => "broker-remote-interference",
        }
    }

    fn shows(&self) -> String {
        let Live { per_second, partitions, .. } = self.live;
        let source = match self.source {
            Source::Disk => "the disk",
            Source::Store => "its remote store, a directory in the page cache",
        };
        format!(
            "latency of live producers and tail consumers ({per_second} records of {RECORD_LEN} bytes a second to {partitions} partitions), \
             with and without a consumer that replays a backlog that a broker reads from {source}"
        )
    }

    fn metrics(&self) -> Vec<Metric> {
        let mut metrics: Vec<_> = pace::metrics("produce").chain(pace::metrics("tail")).collect();
        metrics.extend(RATIOS.map(|(_, ratio, label)| Metric::less(ratio, label, "")));
        metrics.push(Metric::less("stalls", "stalls", ""));
        metrics.push(Metric::more("tail_resident", "tail in memory", "%"));
        metrics.push(Metric::neither("replay", "replay", "MB/s"));
        metrics
    }

    fn cases(&self) -> Vec<Case> {
        let of_system = |subject: &Subject| {
            let bytes = subject.backlog.bytes();
            let case = |name| Case::new(subject.node.system().label(), name).with("backlog_bytes", bytes);
            [case(QUIET), case(REPLAY).with("fetch_bytes", FETCH_BYTES)]
        };
        self.subjects.iter().flat_map(of_system).collect()
    }

    fn run(&mut self, case: &Case, pass: Pass) -> Result<Outcome, LabError> {
        let own = |subject: &Subject| subject.node.system().label() == case.group;
        let Some(index) = self.subjects.iter().position(own) else {
            return Ok(Outcome::Skipped("no such broker".to_owned()));
        };
        let system = self.subjects[index].node.system();
        let _others = super::alone(self.subjects.iter().map(|subject| &subject.node), system);
        let subject = &mut self.subjects[index];
        let replays = case.name == REPLAY;
        if replays && !subject.chill(self.bench, self.source)? && pass != Pass::Integrity {
            let reason = "this file system does not drop pages from the page cache; use another --dir";
            return Ok(Outcome::Skipped(reason.to_owned()));
        }
        if pass == Pass::Integrity {
            return Ok(Outcome::Checked(Self::check(self.bench, &self.live, subject, replays)?));
        }
        let measure = if replays { Self::replay } else { Self::quiet };
        Ok(Outcome::Measured(measure(self.bench, &self.live, subject)?))
    }
}

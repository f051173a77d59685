//! Latency of small readers during a large fetch: many consumers fetch a few KB each at a steady
//! rate, with and without a consumer that fetches 50 MB at a time. The broker has one processor, so
//! that one shard serves all consumers. The same load on a bare loop shows the share of the
//! machine: packets that the kernel delivers on the sender's processor, and clients that share a
//! processor.

use std::collections::BTreeMap;
use std::fs::File;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::error::LabError;
use crate::experiments::broker::Systems;
use crate::experiments::broker::harness::connection::Connection;
use crate::experiments::broker::harness::floor::{Fetches, LABEL as FLOOR};
use crate::experiments::broker::harness::frames::{self, TopicPartition, Wanted};
use crate::experiments::broker::harness::metrics::Scrape;
use crate::experiments::broker::harness::node::{Node, System};
use crate::experiments::broker::harness::replay;
use crate::experiments::broker::harness::topic::{self, Filled};
use crate::harness::bench::Bench;
use crate::harness::pace::{self, FixedRate, Latencies, joined};
use crate::machine::cpu;
use crate::method::experiment::{Case, Experiment, Metrics, Outcome, Pass};
use crate::record::{Metric, Verdict};

mod floor;

const SMALL_BYTES: i32 = 4 << 10;
const LARGE_BYTES: i32 = 50_000_000;

/// Fetches per second of all small readers together.
const PER_SECOND: f64 = 1000.0;

const ALONE: &str = "alone";
const BESIDE: &str = "beside a large one";
const RATIO: &str = "p99_by_alone";

/// The experiment, with its brokers.
#[derive(Debug)]
pub struct Fairness<'b> {
    bench: &'b Bench,
    readers: u32,
    subjects: Vec<Subject>,
    /// p99 in ms of the last run without the large reader, by group.
    alone: BTreeMap<String, f64>,
}

#[derive(Debug)]
struct Subject {
    node: Node,
    topics: Topics,
}

/// Topics that the readers fetch.
#[derive(Debug)]
struct Topics {
    small: Filled,
    large: Filled,
}

impl<'b> Fairness<'b> {
    /// Starts the brokers and fills their topics.
    ///
    /// # Errors
    /// A broker does not start or refuses a request, or the device has too little space.
    pub fn new(bench: &'b Bench, systems: &Systems) -> Result<Self, LabError> {
        let large_bytes = bench.scale().choose(2 << 20, 128 << 20, 256 << 20, 512 << 20);
        bench.reserve(large_bytes * systems.all().len() as u64)?;
        let subject = |system| {
            let mut node = Node::new(bench, systems, system)?;
            node.start(bench)?;
            let filled = |name: &str, batch_len, bytes| {
                topic::create(&node, name, 1, &[])?;
                topic::fill(&node, TopicPartition { topic: name.to_owned(), partition: 0 }, batch_len, bytes)
            };
            let small = filled("small", SMALL_BYTES.unsigned_abs() as usize, 4 << 20)?;
            let large = filled("large", 16 << 10, large_bytes)?;
            Ok(Subject { node, topics: Topics { small, large } })
        };
        let subjects = systems.all().into_iter().map(subject).collect::<Result<_, LabError>>()?;
        let readers = bench.scale().choose(5, 50, 50, 50);
        Ok(Fairness { bench, readers, subjects, alone: BTreeMap::new() })
    }

    /// Executes one run. Returns the latencies of the small readers and the rate of the large
    /// reader in bytes per second.
    fn measure(
        &self,
        (address, topics): (SocketAddr, &Topics),
        with_large: bool,
        time: Duration,
    ) -> Result<(Latencies, f64), LabError> {
        let (bench, over) = (self.bench, AtomicBool::new(false));
        let connections = answered(address, &topics.small, self.readers)?;
        let begin = Instant::now() + Duration::from_millis(50);
        std::thread::scope(|scope| {
            let large = scope.spawn(|| {
                cpu::pin(bench.places().receiver());
                pace::step_back();
                if with_large { read_large(address, &topics.large, &over) } else { Ok(0.0) }
            });
            let small: Vec<_> = (0..)
                .zip(connections)
                .map(|(reader, connection)| {
                    // The due times of the readers are evenly spaced.
                    let start = begin + Duration::from_secs_f64(f64::from(reader) / PER_SECOND);
                    let pace = FixedRate::new(start, PER_SECOND / f64::from(self.readers));
                    scope.spawn(move || {
                        pace::settle(bench);
                        read_small(connection, &topics.small, reader, (pace, pace.count(time).max(1)))
                    })
                })
                .collect();
            let mut latencies = Latencies::new()?;
            let own: Vec<_> = small.into_iter().map(|reader| joined(reader.join())).collect();
            over.store(true, Ordering::Relaxed);
            let rate = joined(large.join())?;
            for reader in own {
                latencies.add(&reader?)?;
            }
            Ok((latencies, rate))
        })
    }

    fn check(address: SocketAddr, topics: &Topics, with_large: bool) -> Result<Verdict, LabError> {
        let small = topic::verify(address, &topics.small, 0, SMALL_BYTES)?;
        if !with_large || !small.sound {
            return Ok(small);
        }
        let large = topic::verify(address, &topics.large, 0, LARGE_BYTES)?;
        Ok(Verdict { what: format!("small: {}; large: {}", small.what, large.what), ..large })
    }

    /// Runs `clients` against a broker, or against the bare loop, which sends from Levada's files.
    fn beside<T>(
        &self,
        subject: &Subject,
        group: &str,
        clients: impl FnOnce(SocketAddr) -> Result<T, LabError>,
    ) -> Result<T, LabError> {
        if group != FLOOR {
            return clients(subject.node.address());
        }
        let Topics { small, large } = &subject.topics;
        let file = |filled: &Filled| {
            let path = topic::segments(&subject.node, &filled.place)?.into_iter().next();
            let path = path.ok_or_else(|| subject.node.failed("has no segment"))?;
            File::open(&path).map_err(LabError::file("cannot open", path))
        };
        let files = (file(small)?, file(large)?);
        let fetches = [
            Fetches { filled: small, file: &files.0, max_bytes: SMALL_BYTES },
            Fetches { filled: large, file: &files.1, max_bytes: LARGE_BYTES },
        ];
        floor::beside(self.bench, &fetches, clients)
    }
}

/// Opens a connection for each small reader and waits for the response to one fetch. The first
/// fetch waits until the broker accepts the connection. A run has so few fetches per connection
/// that the first ones would determine the p99.
fn answered(address: SocketAddr, filled: &Filled, readers: u32) -> Result<Vec<Connection>, LabError> {
    let open = |_| {
        let mut connection = Connection::open(address)?;
        fetch_small(&mut connection, filled, 0)?;
        Ok(connection)
    };
    (0..readers).map(open).collect()
}

/// Fetches one batch and checks that it is complete.
fn fetch_small(connection: &mut Connection, filled: &Filled, batch: usize) -> Result<(), LabError> {
    let wanted = Wanted { offset: filled.offset(batch), max_bytes: SMALL_BYTES, max_wait_ms: 0 };
    connection.send(&frames::fetch(&filled.place, wanted)?)?;
    let response = connection.receive(frames::fetched_overhead(&filled.place) + filled.batch_len)?;
    let (len, _) = frames::fetched(response, &filled.place)?;
    if len < filled.batch_len {
        return Err(LabError::step("a small fetch failed")(std::io::Error::other(format!(
            "{len} bytes of records"
        ))));
    }
    Ok(())
}

/// Fetches the next batch at each due time. Returns the latencies, which begin at the due times.
fn read_small(
    mut connection: Connection,
    filled: &Filled,
    reader: u32,
    (pace, count): (FixedRate, u64),
) -> Result<Latencies, LabError> {
    let mut latencies = Latencies::new()?;
    let mut batch = reader as usize * 17 % filled.batches;
    for n in 0..count {
        pace.wait(n);
        fetch_small(&mut connection, filled, batch)?;
        latencies.done(pace.due(n));
        batch = (batch + 1) % filled.batches;
    }
    Ok(latencies)
}

/// Fetches up to `LARGE_BYTES` again and again until `over`. Returns bytes per second.
fn read_large(address: SocketAddr, filled: &Filled, over: &AtomicBool) -> Result<f64, LabError> {
    let mut connection = Connection::open(address)?;
    let (start, mut bytes, mut batch) = (Instant::now(), 0, 0);
    while !over.load(Ordering::Relaxed) {
        let got = replay::step(&mut connection, filled, batch, LARGE_BYTES)?;
        bytes += got * filled.batch_len;
        batch = (batch + got) % filled.batches;
    }
    Ok(bytes as f64 / start.elapsed().as_secs_f64())
}

impl Experiment for Fairness<'_> {
    fn name(&self) -> &'static str {
        "broker-fairness"
    }

    fn shows(&self) -> String {
        format!(
            "latency of {} readers of {SMALL_BYTES} bytes, {PER_SECOND} fetches a second together, with and without another reader of \
             {LARGE_BYTES} bytes at a time on the same shard; and the same for a bare loop of epoll and splice that gives each its turn",
            self.readers
        )
    }

    fn metrics(&self) -> Vec<Metric> {
        let mut metrics: Vec<_> = pace::metrics("fetch").collect();
        metrics.push(Metric::less(RATIO, "p99 by alone", ""));
        metrics.push(Metric::less("stalls", "stalls", ""));
        metrics.push(Metric::neither("large_reader", "large reader", "MB/s"));
        metrics
    }

    fn cases(&self) -> Vec<Case> {
        let of_group = |group: &'static str| {
            let case = |name| Case::new(group, name).with("readers", self.readers);
            [case(ALONE), case(BESIDE).with("fetch_bytes", LARGE_BYTES)]
        };
        let systems = self.subjects.iter().map(|subject| subject.node.system().label());
        systems.chain([FLOOR]).flat_map(of_group).collect()
    }

    fn run(&mut self, case: &Case, pass: Pass) -> Result<Outcome, LabError> {
        let own = |subject: &&Subject| match subject.node.system() {
            System::Levada if case.group == FLOOR => true,
            system => system.label() == case.group,
        };
        let Some(subject) = self.subjects.iter().find(own) else {
            return Ok(Outcome::Skipped("no such broker".to_owned()));
        };
        let with_large = case.name == BESIDE;
        if pass == Pass::Integrity {
            let check = |address| Self::check(address, &subject.topics, with_large);
            return Ok(Outcome::Checked(self.beside(subject, &case.group, check)?));
        }
        let time = Duration::from_millis(self.bench.scale().choose(100, 1_000, 3_000, 6_000));
        let _others = super::alone(self.subjects.iter().map(|subject| &subject.node), subject.node.system());
        let before = Scrape::of(subject.node.http())?;
        let (latencies, rate) = self.beside(subject, &case.group, |address| {
            self.measure((address, &subject.topics), with_large, time)
        })?;
        let stalls = Scrape::of(subject.node.http())?.growth(&before, "levada_transfer_stalls_total");
        let mut metrics = Metrics::new();
        latencies.put("fetch", &mut metrics);
        metrics.extend(stalls.filter(|_| case.group != FLOOR).map(|stalls| ("stalls".to_owned(), stalls)));
        let p99 = latencies.quantile_ms(0.99);
        if with_large {
            metrics.insert("large_reader".to_owned(), rate / 1e6);
            metrics.extend(self.alone.get(&case.group).map(|alone| (RATIO.to_owned(), p99 / alone)));
        } else {
            self.alone.insert(case.group.clone(), p99);
        }
        Ok(Outcome::Measured(metrics))
    }
}

#[cfg(test)]
mod tests;

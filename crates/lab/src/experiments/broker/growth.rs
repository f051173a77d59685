//! Cost of a request as one quantity grows: idle connections, partitions of the broker, segments of
//! the log, or bytes of the request.

use std::net::SocketAddr;

use levada_base::batch::Builder;

use crate::error::LabError;
use crate::experiments::broker::Systems;
use crate::experiments::broker::connections::answered;
use crate::experiments::broker::harness::connection::Connection;
use crate::experiments::broker::harness::frames::{self, TopicPartition};
use crate::experiments::broker::harness::node::{Node, System};
use crate::experiments::broker::harness::replay;
use crate::experiments::broker::harness::topic::{self, Filled, IN_FLIGHT};
use crate::harness::bench::Bench;
use crate::harness::process::Spent;
use crate::harness::program::allow_descriptors;
use crate::method::experiment::{Case, Experiment, Metrics, Outcome, Pass};
use crate::record::{Metric, Verdict};

/// Growing quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Connections,
    Partitions,
    Segments,
    Fetch,
}

impl Kind {
    const ALL: [Self; 4] = [Self::Connections, Self::Partitions, Self::Segments, Self::Fetch];

    fn group(self) -> &'static str {
        match self {
            Self::Connections => "produce of 1 KiB, by connections that are silent meanwhile",
            Self::Partitions => "produce of 1 KiB, by partitions of the broker",
            Self::Segments => "fetch of one batch at any offset, by segments of the log",
            Self::Fetch => "fetch, by bytes asked for",
        }
    }

    /// Values of the quantity, in ascending order. Small runs omit values that take long to build.
    fn counts(self, largest: usize) -> Vec<usize> {
        match self {
            Self::Fetch => vec![1 << 10, 16 << 10, 256 << 10, 4 << 20, 50 << 20],
            Self::Connections => {
                [1, 100, 1_000, 5_000].into_iter().filter(|count| *count <= largest).collect()
            }
            Self::Partitions | Self::Segments => {
                [1, 100, 1_000, 10_000].into_iter().filter(|count| *count <= largest).collect()
            }
        }
    }
}

const PRODUCE_LEN: usize = 1 << 10;

/// The experiment, with the brokers that the cases so far have needed.
#[derive(Debug)]
pub struct Growth<'b> {
    bench: &'b Bench,
    systems: Systems,
    largest: usize,
    /// Brokers, each after its number of partitions. The broker with one partition also has the
    /// topics of all fetches.
    nodes: Vec<(usize, Node)>,
    /// Topics with records, by quantity and value.
    filled: Vec<((Kind, usize), Filled)>,
}

impl<'b> Growth<'b> {
    /// Creates the experiment. A broker starts when a case needs it.
    ///
    /// # Errors
    /// This process may not open the necessary number of descriptors.
    pub fn new(bench: &'b Bench, systems: &Systems) -> Result<Self, LabError> {
        let largest = bench.scale().choose(100, 1_000, 10_000, 10_000);
        allow_descriptors(5_200.min(largest as u64 + 200))?;
        Ok(Growth { bench, systems: systems.clone(), largest, nodes: Vec::new(), filled: Vec::new() })
    }

    /// Returns the broker with this number of partitions, and starts it if necessary.
    fn node(&mut self, partitions: usize) -> Result<&Node, LabError> {
        let found = self.nodes.iter().position(|(count, _)| *count == partitions);
        let at = match found {
            Some(at) => at,
            None => {
                let mut node = Node::new(self.bench, &self.systems, System::Levada)?;
                node.start(self.bench)?;
                let (mut left, mut topics) = (partitions, 0);
                while left > 0 {
                    let count = left.min(1_000);
                    let name = format!("growth-{topics}");
                    topic::create(&node, &name, i32::try_from(count).unwrap_or(i32::MAX), &[])?;
                    (left, topics) = (left - count, topics + 1);
                }
                self.nodes.push((partitions, node));
                self.nodes.len() - 1
            }
        };
        Ok(&self.nodes[at].1)
    }

    /// Returns the records that a case fetches, and writes them if necessary.
    fn filled(&mut self, kind: Kind, count: usize) -> Result<Filled, LabError> {
        if let Some((_, filled)) = self.filled.iter().find(|(of, _)| *of == (kind, count)) {
            return Ok(filled.clone());
        }
        let large = self.bench.scale().choose(50 << 20, 50 << 20, 100 << 20, 100 << 20);
        self.bench.reserve(large)?;
        let node = self.node(1)?;
        let filled = match kind {
            Kind::Segments => segments(node, count)?,
            _ => {
                let name = format!("fetch-{count}");
                topic::create(node, &name, 1, &[])?;
                let len = count.min(16 << 10);
                let bytes = if count > 1 << 20 { large } else { 4 << 20 };
                topic::fill(node, TopicPartition { topic: name, partition: 0 }, len, bytes)?
            }
        };
        self.filled.push(((kind, count), filled.clone()));
        Ok(filled)
    }

    fn produce(&mut self, connections: usize, partitions: usize) -> Result<(usize, Spent, Spent), LabError> {
        let requests = self.bench.scale().choose(20, 1_000, 2_000, 5_000);
        let node = self.node(partitions)?;
        let place = TopicPartition { topic: "growth-0".to_owned(), partition: 0 };
        let silent = (1..connections).map(|_| answered(node, &place)).collect::<Result<Vec<_>, _>>()?;
        let (batch, records) = frames::batch(PRODUCE_LEN, PRODUCE_LEN - 90, 1)?;
        let filled = Filled { place, batch_len: batch.len(), records, batches: requests };
        let frame = frames::produce(&filled.place, batch.freeze(), 1)?;
        let base = topic::end(node, &filled.place)?;
        let mut connection = Connection::open(node.address())?;
        let before = Spent::of(node.pid());
        topic::send(&mut connection, &frame, &filled, base)?;
        let after = Spent::of(node.pid());
        drop(silent);
        Ok((requests, before, after))
    }

    fn fetch(&mut self, kind: Kind, count: usize) -> Result<(usize, Spent, Spent), LabError> {
        let most = self.bench.scale().choose(20, 500, 2_000, 5_000);
        let filled = self.filled(kind, count)?;
        let max_bytes = if kind == Kind::Segments { filled.batch_len } else { count };
        let requests = most.min((1 << 30) / max_bytes).max(5);
        let (pid, address) = (self.node(1)?.pid(), self.node(1)?.address());
        let mut connection = Connection::open(address)?;
        let before = Spent::of(pid);
        for number in 0..requests {
            let first = first_of(&filled, number, max_bytes);
            let max_bytes = i32::try_from(max_bytes).unwrap_or(i32::MAX);
            replay::step(&mut connection, &filled, first, max_bytes)?;
        }
        Ok((requests, before, Spent::of(pid)))
    }

    fn check(&mut self, kind: Kind, count: usize) -> Result<Verdict, LabError> {
        match kind {
            Kind::Connections | Kind::Partitions => {
                let (connections, partitions) = kind.surroundings(count);
                let (requests, ..) = self.produce(connections, partitions)?;
                Ok(Verdict { sound: true, what: format!("{requests} batches got the expected offsets") })
            }
            Kind::Segments | Kind::Fetch => {
                let filled = self.filled(kind, count)?;
                let node = self.node(1)?;
                let files = topic::segments(node, &filled.place)?.len();
                if kind == Kind::Segments && files != count {
                    return Ok(Verdict {
                        sound: false,
                        what: format!("{files} segments instead of {count}"),
                    });
                }
                let address: SocketAddr = node.address();
                topic::verify(address, &filled, 0, 8 << 20)
            }
        }
    }
}

impl Kind {
    /// Number of connections and of partitions in a case that produces records.
    fn surroundings(self, count: usize) -> (usize, usize) {
        if self == Self::Connections { (count, 1) } else { (1, count) }
    }
}

/// Batch at which the n-th fetch begins: any batch with enough records after it.
fn first_of(filled: &Filled, number: usize, max_bytes: usize) -> usize {
    // Multiplier that spreads the numbers over all batches without a short period.
    const STRIDE: usize = 2_654_435_761;
    let last = filled.batches.saturating_sub(max_bytes / filled.batch_len);
    number.wrapping_mul(STRIDE) % last.max(1)
}

/// Writes a log of this number of segments with one batch each. Each timestamp is 10 ms after the
/// previous one, more than `segment.ms`, so that each batch begins a segment.
fn segments(node: &Node, count: usize) -> Result<Filled, LabError> {
    let place = TopicPartition { topic: format!("segments-{count}"), partition: 0 };
    let settings = [("segment.ms", "1"), ("segment.jitter.ms", "0"), ("segment.index.bytes", "1024")];
    topic::create(node, &place.topic, 1, &settings)?;
    let mut connection = Connection::open(node.address())?;
    let frame = |number: usize| {
        let mut builder = Builder::new();
        let timestamp_ms = 1_700_000_000_000 + 10 * i64::try_from(number).unwrap_or(i64::MAX / 10);
        builder.push(timestamp_ms, None, Some(&[7; 200]));
        builder.build().map_err(LabError::step("cannot make a batch"))
    };
    let filled = Filled { place, batch_len: frame(0)?.len(), records: 1, batches: count };
    let (mut sent, mut received) = (0, 0);
    while received < count {
        while sent < count.min(received + IN_FLIGHT) {
            connection.send(&frames::produce(&filled.place, frame(sent)?.freeze(), 1)?)?;
            sent += 1;
        }
        frames::produced(connection.receive(4)?, &filled.place)?;
        received += 1;
    }
    Ok(filled)
}

impl Experiment for Growth<'_> {
    fn name(&self) -> &'static str {
        "broker-growth"
    }

    fn shows(&self) -> String {
        "cost of a request for Levada as the state around it grows, and as the request grows; all from the page cache".to_owned()
    }

    fn metrics(&self) -> Vec<Metric> {
        vec![Metric::less("cpu_us_per_request", "broker CPU a request", "µs")]
    }

    fn cases(&self) -> Vec<Case> {
        let cases = |kind: Kind| {
            let counts = kind.counts(self.largest).into_iter();
            counts.map(move |count| Case::new(kind.group(), count.to_string()).with("count", count))
        };
        Kind::ALL.into_iter().flat_map(cases).collect()
    }

    fn run(&mut self, case: &Case, pass: Pass) -> Result<Outcome, LabError> {
        let kind = Kind::ALL.into_iter().find(|kind| kind.group() == case.group);
        let Some((kind, count)) = kind.zip(case.name.parse().ok()) else {
            return Ok(Outcome::Skipped("no such quantity".to_owned()));
        };
        if pass == Pass::Integrity {
            return Ok(Outcome::Checked(self.check(kind, count)?));
        }
        let pinned = self.bench.places().pin_receiver();
        let (requests, before, after) = match kind {
            Kind::Connections | Kind::Partitions => {
                let (connections, partitions) = kind.surroundings(count);
                self.produce(connections, partitions)?
            }
            Kind::Segments | Kind::Fetch => self.fetch(kind, count)?,
        };
        drop(pinned);
        let cpu = after.less(&before);
        Ok(Outcome::Measured(Metrics::from([(
            "cpu_us_per_request".to_owned(),
            cpu.as_secs_f64() * 1e6 / requests as f64,
        )])))
    }
}
